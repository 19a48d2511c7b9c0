#!/usr/bin/env bash
# Lays out what the offline GPU machine needs, in folders of at most 64 MB, one transfer each:
#
#   scripts/gpu/pack.sh GPU DATA [OUT]      GPU: vllm/, trl/, weights/; DATA: gsm8k/, math500/; OUT: .stage
#
# OUT/weights/partNN are the base's weights (quantised; `stage.sh` makes a bf16 model of them), OUT/vllm
# is vLLM, OUT/small is everything else. Needs Python packages tokenizers and gguf.
set -euo pipefail
gpu=$1 data=$2 out=${3:-.stage}
python=${PYTHON:-python3}
mkdir -p "$out/small/data"
"$python" "$gpu/weights/make_pack.py" qwen2.5-coder-0.5b-instruct "$out/weights"
rm -f "$out/weights/model.gguf"
cp -r "$gpu/vllm" "$out/"
cp "$gpu/trl/payload_trl.tar.xz" "$out/small/py.tar.xz"
cp "$gpu/weights/unpack.py" "$out/small/"
cp -r "$out/weights/meta" "$out/small/"
cp -r "$("$python" -c 'import gguf; print(*gguf.__path__)')" "$out/small/"
cp -r "$data/gsm8k" "$data/math500" "$out/small/data/"
chmod -R u+w "$out"
du -sm "$out"/*
