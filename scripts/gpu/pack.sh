#!/usr/bin/env bash
# For a GPU machine without a network: lays out what it needs in folders of at most 64 MB, one transfer each.
#
#   scripts/gpu/pack.sh BUNDLE DATA [OUT]
#
# BUNDLE is yours to supply and not part of this repository (scripts/gpu/README.md lists its files); DATA
# holds gsm8k/ and math500/; OUT is .stage unless given. OUT/weights/pieceNN are the weights, OUT/vllm is
# vLLM, OUT/small is everything else.
set -euo pipefail
bundle=$1 data=$2 out=${3:-.stage}
python=${PYTHON:-python3}
for file in vllm/install.sh trl/payload_trl.tar.xz weights/make_pack.py weights/unpack.py; do
    [ -e "$bundle/$file" ] || { echo "pack.sh: the bundle has no $file (see scripts/gpu/README.md)." >&2; exit 2; }
done
mkdir -p "$out/small/data"
"$python" "$bundle/weights/make_pack.py" qwen2.5-coder-0.5b-instruct "$out/weights"
rm -f "$out/weights/model.gguf"
# Smaller than they come, so that the project's own files fit into the same transfer.
cat "$out"/weights/part* | split --bytes=50000000 --numeric-suffixes - "$out/weights/piece"
rm "$out"/weights/part*
cp -r "$bundle/vllm" "$out/"
cp "$bundle/trl/payload_trl.tar.xz" "$out/small/py.tar.xz"
cp "$bundle/weights/unpack.py" "$out/small/"
cp -r "$out/weights/meta" "$out/small/"
cp -r "$("$python" -c 'import gguf; print(*gguf.__path__)')" "$out/small/"
cp -r "$data/gsm8k" "$data/math500" "$out/small/data/"
chmod -R u+w "$out"
du -sm "$out"/*
