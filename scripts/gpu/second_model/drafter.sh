#!/usr/bin/env bash
# Setting d, before its runs: trains the drafter, and measures on validation what its drafts are to a fresh challenger.
#
#   drafter.sh FOLDER       on the GPU machine, after stage.sh; its run goes to FOLDER, in pieces
set -euo pipefail
out=${1:?"a folder for the run of the drafter"}
cd ~/agon && source env.sh && source scripts/gpu/mps.sh
sweeps=scripts/gpu/second_model
python3 -m agon.cli sweep $sweeps/d_drafter.sweep.yaml --output ~/runs/d-drafter
mkdir -p "$out"
tar -cJf - -C ~/runs/d-drafter grpo-s100 | split --bytes=15000000 --numeric-suffixes - "$out/drafter.tar.xz."
python3 $sweeps/start_d.py ~/runs/d-drafter/grpo-s100 models/d-start
python3 -m agon.cli sweep $sweeps/d_candidate.sweep.yaml --output ~/runs/d-candidate
