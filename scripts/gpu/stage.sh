#!/usr/bin/env bash
# On the GPU machine, from the project's root: puts together what `pack.sh` laid out.
#
#   scripts/gpu/stage.sh take FOLDER...     keep what this transfer brought
#   scripts/gpu/stage.sh build              vLLM, the model, the packages, a copy of the project in ~/agon
#
# Then: cd ~/agon && source env.sh
set -euo pipefail
stage=$HOME/stage
case $1 in
take)
    mkdir -p "$stage"
    cp -r "${@:2}" "$stage/"
    if [ -d "$stage/vllm" ] && [ ! -e "$stage/vllm.log" ]; then  # the longest part: meanwhile
        setsid nohup bash "$stage/vllm/install.sh" "$HOME/vllm" > "$stage/vllm.log" 2>&1 < /dev/null &
    fi
    ;;
build)
    cp -r "$stage/small/." "$stage/"
    mkdir -p "$HOME/py" "$HOME/agon/models"
    tar -xf "$stage/py.tar.xz" -C "$HOME/py"
    cp -r src scripts benchmarks tests pyproject.toml "$HOME/agon/"
    if [ -e "$stage/piece00" ]; then  # rehearsals need no weights
        cat "$stage"/piece* | (cd "$stage" && split --bytes=62000000 --numeric-suffixes - part)
        (cd "$stage" && python3 unpack.py "$stage" meta "$HOME/agon/models/qwen2.5-coder-0.5b-instruct")
    fi
    ln -sfn "$stage/data" "$HOME/agon/data"
    for _ in $(seq 90); do
        grep -q "installed in" "$stage/vllm.log" && break
        sleep 1
    done
    tail -n 1 "$stage/vllm.log"
    cat > "$HOME/agon/env.sh" << END
source $HOME/vllm/env.sh
unset VLLM_ENABLE_V1_MULTIPROCESSING  # where vLLM's core runs is for agon to say
export PYTHONPATH=$HOME/agon/src:$HOME/py:\$PYTHONPATH HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
END
    ;;
esac
