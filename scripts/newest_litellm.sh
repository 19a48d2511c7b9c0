#!/usr/bin/env bash
# Ask the served pair through the newest release of LiteLLM, in an environment of its own; `make test-litellm` does it
# through the one that is pinned.
#
#   scripts/newest_litellm.sh .venv/bin/python [LITELLM]      LITELLM: such as litellm==1.106.2; the newest if absent
set -euo pipefail
python=$1 wanted=${2:-litellm}
folder=$(dirname "$(dirname "$(realpath --no-symlinks "$python")")")/litellm
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --upgrade "$wanted"
AGON_LITELLM_PYTHON=$folder/bin/python "$python" -m pytest -q tests/serve/test_litellm.py
