#!/usr/bin/env bash
# What a step costs on one GPU, beside stock TRL's: the figures of docs/performance.md, in under ten minutes.
#
#   cd ~/agon && source env.sh && scripts/gpu/step.sh OUT [step|ahead|passes|long|curves ...]
#
# step    stock TRL 2N (colocated vLLM), ours as grpo and as agon with weights from the training pass, ours as agon
#         that scores in a pass of its own; 32 problems x 16 rollouts, 512 tokens, all without checkpointing: seconds
#         by phase, ratios, peak memory
# ahead   ours as agon, each round sampled when it is due, or while the one before trains
# passes  training only, completions of up to 512 tokens: PEFT's own layers, fused ones, lines of tokens, both
#         policies in one line; then a step of each under torch's profiler
# long    training only, completions of up to LONG tokens (8192): padded, in lines of tokens, both at once
# curves  training only, one size after another: rollouts, problems, length, model; seconds and memory of each
#
# Without names: step, then long, as far as the time reaches. OUT gets a folder for each with step.jsonl (a line for
# every step, written as it ends), step.md and the logs of the arms. MODEL, DATA, LONG, TOKENS, REPEATS, SIZES (of
# the curves) and the limits STEP_S and TRAIN_S can be set in the environment. Needs what stage.sh lays out; no network.
set -uo pipefail
out=$1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
model=${MODEL:-models/qwen2.5-coder-0.5b-instruct} data=${DATA:-data/gsm8k}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false VLLM_LOGGING_STREAM=ext://sys.stderr VLLM_NO_USAGE_STATS=1
mkdir -p "$out"
nvidia-smi --query-gpu=name,memory.total,memory.used --format=csv > "$out/gpu.csv" 2>&1 || true

part() { # NAME LIMIT, then the words of step.py
    local name=$1 limit=$2 began code
    shift 2
    began=$(date +%s)
    timeout -k 10 "$limit" python3 "$here/benchmarks/step.py" --out "$out/$name" --model "$model" --task gsm8k \
        --task-path "$data" --repeats "${REPEATS:-5}" "$@" > "$out/$name.txt" 2> "$out/$name.err"
    code=$?
    echo "=== $name: exit $code after $(($(date +%s) - began)) s ==="
    if [ "$code" -ne 0 ] && [ -e "$out/$name/step.jsonl" ]; then # cut short: what there is
        python3 "$here/benchmarks/step.py" --table "$out/$name/step.jsonl" | tee "$out/$name/step.md"
    else
        tail -n 25 "$out/$name.txt"
    fi
    [ "$code" -eq 0 ] || tail -n 5 "$out/$name.err" "$out/$name"/*.log
}

lines=micro_batch_tokens=${TOKENS:-32768} # which several arms on one card must not choose for themselves
before=$lines,score_in_training=false # weights from a forward of their own
padded=padding_free=false
plain=$padded,fused_layers=false
all_sizes="32 16 512;32 8 512;32 32 512;32 64 512;8 16 512;64 16 512;32 16 1024;32 16 2048;4 16 8192;4 16 15360"
all_sizes+=";4 16 4096 Qwen/Qwen3-0.6B;4 16 4096 Qwen/Qwen3-4B" # problems, rollouts of each, tokens, another model
[ $# -gt 0 ] || set -- step long
for name in "$@"; do
    case $name in
    step)
        part step "${STEP_S:-590}" --engine vllm --together --seconds "$((${STEP_S:-590} - 60))" \
            --methods trl "grpo:$lines" "agon:$lines" "agon:$before"
        ;;
    ahead)
        # Not in turns: what samples ahead would do so in the other's turn.
        for ahead in false true; do
            part "ahead-$ahead" "${AHEAD_S:-160}" --engine vllm --methods "agon:$lines,sample_ahead=$ahead"
        done
        ;;
    passes)
        part passes "${TRAIN_S:-250}" --profile --long 512 --problems 32 --rows 32 --seconds "$((${TRAIN_S:-250} - 60))" \
            --methods "agon:$plain" "agon:$padded" "agon:$lines" "agon:$lines,both_policies_at_once=true" "grpo:$lines"
        ;;
    long)
        part long "${TRAIN_S:-190}" --long "${LONG:-8192}" --seconds "$((${TRAIN_S:-190} - 20))" \
            --methods "agon:$plain" "agon:$lines" "agon:$lines,both_policies_at_once=true"
        ;;
    curves)
        mkdir -p "$out/curves"
        IFS=';' read -ra sizes <<< "${SIZES:-$all_sizes}"
        for size in "${sizes[@]}"; do
            read -r problems rollouts tokens other <<< "$size"
            timeout -k 10 120 python3 "$here/benchmarks/step.py" --out "$out/curves" --model "${other:-$model}" \
                --task gsm8k --task-path "$data" --repeats 2 --long "$tokens" --problems "$problems" \
                --rollouts "$rollouts" --rows 32 --seconds 60 --methods "agon:$lines" \
                >> "$out/curves.txt" 2>> "$out/curves.err" || echo "curves: no $size"
        done
        python3 "$here/benchmarks/step.py" --curve "$out/curves/step.jsonl" | tee "$out/curves/curves.md"
        ;;
    *)
        echo "step.sh: '$name' is not step, ahead, passes, long or curves." >&2
        exit 2
        ;;
    esac
done
