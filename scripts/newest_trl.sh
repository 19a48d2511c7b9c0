#!/usr/bin/env bash
# Hold the trainer to the newest release of TRL: the gradients of the oracle, with a TRL of its own beside
# the environment's. Says so where there is nothing newer than the version that is pinned.
#
#   scripts/newest_trl.sh .venv/bin/python [TRL]      TRL: a requirement such as trl==1.17.0; the newest if absent
set -euo pipefail
python=$1 wanted=${2:-trl}
folder=$(dirname "$(dirname "$python")")/newest-trl
rm -rf "$folder"
"$python" -m pip install --quiet --no-deps --target "$folder" "$wanted"
version() { PYTHONPATH=$1 "$python" -c 'from importlib.metadata import version; print(version("trl"))'; }
pinned=$(version "") newest=$(version "$folder")
if [ "$pinned" = "$newest" ]; then
    echo "TRL $pinned is the newest release."
    exit 0
fi
echo "TRL $newest, where $pinned is pinned:"
PYTHONPATH=$folder "$python" -m pytest -q tests/train/test_oracle.py tests/train/test_sampler.py
