#!/usr/bin/env bash
# Rehearses the paper's recipes on one GPU, each in a process of its own, and goes on after a failure.
#
#   scripts/gpu/rehearse_all.sh LIMIT OUT [NAME...]
#
# LIMIT is the most seconds of one recipe, starting included: as many problems a step as the plan says fit
# into it. OUT gets NAME.json, NAME.txt and NAME.log of each. NAME is a recipe of the package; without any,
# the three Qwen3 recipes for DeepMath, then Gemma 4 and Qwen3.5 with short completions, to see whether
# vLLM takes their architectures. PROBLEMS=2 in the environment fixes the problems a step; STEPS=1 leaves
# out the resume. Needs agon and vLLM on PYTHONPATH (`source env.sh`, see stage.sh); no network.
set -uo pipefail
limit=$1 out=$2
shift 2
# Making the model, loading it twice and starting vLLM twice.
start=${START:-180}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false VLLM_LOGGING_STREAM=ext://sys.stderr VLLM_NO_USAGE_STATS=1
scratch=${TMPDIR:-/tmp}
free=$(df --output=avail -BG /dev/shm 2> /dev/null | tail -n 1 | tr -dc 0-9)
[ "${free:-0}" -ge 40 ] && scratch=/dev/shm
scratch=$(mktemp -d "$scratch/rehearse.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"

rehearse() { # NAME, then options
    local name=$1 began code
    shift
    began=$(date +%s)
    timeout -k 10 "$limit" python3 -m agon.cli rehearse "$name" --out "$scratch/$name" "$@" \
        > "$out/$name.txt" 2> "$out/$name.log"
    code=$?
    echo "=== $name: exit $code after $(($(date +%s) - began)) s ==="
    if [ "$code" -eq 0 ]; then
        cp "$scratch/$name/rehearsal.json" "$out/$name.json"
        cat "$out/$name.txt"
    else
        tail -n 20 "$out/$name.log"
    fi
    rm -rf "${scratch:?}/$name"
}

long=(--lengths "${LENGTHS:-6100:15000}" --steps "${STEPS:-2}")
if [ -n "${PROBLEMS:-}" ]; then
    long+=(--problems "$PROBLEMS")
else
    long+=(--seconds "$((limit > start ? limit - start : 1))")
fi
short=(--lengths 300:600 --max_completion_length 600 --problems 1 --steps 1)
[ $# -gt 0 ] || set -- qwen3-0.6b-deepmath qwen3-1.7b-deepmath qwen3-4b-deepmath gemma-4-e4b-deepmath qwen3.5-2b-deepmath
for name in "$@"; do
    case $name in
    gemma* | qwen3.5*) rehearse "$name" "${short[@]}" ;;
    *) rehearse "$name" "${long[@]}" ;;
    esac
done
