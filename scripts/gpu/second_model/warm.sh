#!/usr/bin/env bash
# The warmed 0.5B of docs/results/second-model: makes it, or merges it from the adapter of an earlier time.
#
#   cd ~/agon && source env.sh && scripts/gpu/second_model/warm.sh [KEPT]
#
# KEPT is the folder `warm` that an earlier call left in the model's folder: nothing is sampled and trained again then.
# With AGAIN=1 what was sampled is used, and the rest is made and measured again.
# Needs what stage.sh lays out; no network.
set -euo pipefail
base=${BASE:-models/qwen2.5-coder-0.5b-instruct} out=${OUT_MODEL:-models/qwen2.5-coder-0.5b-think}
mkdir -p "$out"
if [ -n "${1:-}" ]; then
    cp -r "$1" "$out/warm"
    [ -n "${AGAIN:-}" ] || exec python3 scripts/gpu/second_model/merge.py "$base" "$out"
fi
python3 -m agon.cli warm "$base" --task "gsm8k,train=1024,validation=256,test=500" --path "${DATA:-data/gsm8k}" \
    --dialect think --rank 4 --engine vllm --vllm-kv-cache-bytes 8000000000 --max-model-len 2048 --limit 256 \
    --output "$out" --markdown
