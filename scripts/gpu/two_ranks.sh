#!/usr/bin/env bash
# On a machine with one GPU: two training processes with a vLLM engine each, and a sharded base (FSDP2).
#
#   scripts/gpu/two_ranks.sh OUT
#
# OUT gets engines.json and fsdp.json (what was measured and checked), and the logs. Needs agon, torch,
# transformers and vLLM on PYTHONPATH (`source env.sh`, see stage.sh); no network. Each part has a limit, and
# all of them together take less than ten minutes. Engines compute eagerly: each token costs 40 to 60 ms.
set -uo pipefail
out=$1
here=$(cd "$(dirname "$0")" && pwd)
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false VLLM_LOGGING_STREAM=ext://sys.stderr VLLM_NO_USAGE_STATS=1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/two_ranks.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"
failed=0

part() { # LIMIT NAME PROCESSES, then the script's words
    local limit=$1 name=$2 processes=$3 began code
    shift 3
    began=$(date +%s)
    # A process of its own group, so that the end of a limit ends vLLM's children too.
    timeout -k 10 "$limit" python3 -m torch.distributed.run --standalone --nproc_per_node "$processes" \
        "$here/two_ranks.py" "$@" > "$out/$name.txt" 2> "$out/$name.log"
    code=$?
    echo "=== $name: exit $code after $(($(date +%s) - began)) s ==="
    cat "$out/$name.txt"
    if [ "$code" -ne 0 ]; then
        tail -n 40 "$out/$name.log"
        failed=1
    fi
}

timeout 60 python3 "$here/two_ranks.py" make "$scratch/small" "$out" --shapes Qwen/Qwen3-0.6B --longest 96
part 240 engines 2 engines "$scratch/small" "$out" --longest 96 --steps 4
rm -rf "$scratch/small"
timeout 60 python3 "$here/two_ranks.py" make "$scratch/large" "$out" --shapes Qwen/Qwen3-4B --longest "${LONGEST:-768}"
part 240 fsdp 1 fsdp "$scratch/large" "$out" --longest "${LONGEST:-768}" --mean "${MEAN:-400}" --steps 1
exit "$failed"
