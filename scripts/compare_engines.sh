#!/bin/sh
# The same evaluation on both engines, then the contrast: the same weights, decoding and 500 problems.
#
#   scripts/compare_engines.sh OUT [RUN|MODEL]
#
# VLLM_PYTHON names the Python that has vLLM, if it is not the one that has the rest.
set -eu

out=$1
subject=${2:-embedded}
task="gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=640,validation=200,test=500"
set -- --task "$task" --max-tokens 64
[ ! -f "$subject/config.yaml" ] || set -- "$@" --direction AB

agon eval "$subject" "$@" --engine transformers --output "$out/transformers"
"${VLLM_PYTHON:-python}" -m agon.cli eval "$subject" "$@" --engine vllm --output "$out/vllm"
for arm in zero-shot self-cascade moa; do
    agon compare "$out/transformers" "$out/vllm" --arm "$arm"
done
