#!/bin/sh
# Train every method on the embedded default, evaluate each run, write one report and print the contrasts.
#
#   scripts/evaluate_methods.sh OUT [METHOD...] [-- OPTION...]
#
# Options after -- go to `agon train` (for instance --max_steps 10), those in EVAL to `agon eval` (--limit 100). The same
# command can be repeated: a finished run is not trained again, and an interrupted run or evaluation is continued.
set -eu

out=$1
shift
methods=""
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
    methods="$methods $1"
    shift
done
[ $# -eq 0 ] || shift
[ -n "$methods" ] || methods=$(agon methods --json | sed -n 's/.*"method": "\(.*\)",/\1/p')

runs=""
for method in $methods; do
    run="$out/$method"
    if [ -d "$run" ]; then
        agon train --resume "$run"
    else
        agon train --method "$method" --output_dir "$run" "$@"
    fi
    # shellcheck disable=SC2086
    agon eval "$run" ${EVAL:-}
    runs="$runs $run"
done
# shellcheck disable=SC2086
agon report $runs --out "$out/report.html"
for method in agon coop grpo; do
    [ -d "$out/$method" ] || exit 0
done
agon compare "$out/agon" "$out/coop" "$out/grpo"
