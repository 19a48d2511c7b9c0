#!/bin/sh
# Run the same evaluation on both engines (same weights, decoding and 500 problems), then compare them.
#
#   scripts/compare_engines.sh OUT [RUN|MODEL]
#
# VLLM_PYTHON is the Python that has vLLM, if the default one does not.
set -eu

out=$1
target=${2:-embedded}
task="gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=640,validation=200,test=500"
set -- --task "$task" --max-tokens 64
[ ! -f "$target/config.yaml" ] || set -- "$@" --direction AB

agon eval "$target" "$@" --engine transformers --output "$out/transformers"
"${VLLM_PYTHON:-python}" -m agon.cli eval "$target" "$@" --engine vllm --output "$out/vllm"
for arm in zero-shot self-cascade moa; do
    agon compare "$out/transformers" "$out/vllm" --arm "$arm"
done
