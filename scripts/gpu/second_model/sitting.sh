#!/usr/bin/env bash
# A sitting on the GPU machine, after stage.sh: cells train in the background, and each call brings home what is finished.
#
#   sitting.sh merge KEPT                   the warmed base, from the adapter of an earlier warm-up
#   sitting.sh start SWEEP NAME CELL...     trains and evaluates these cells of a sweep file at once, in ~/runs/NAME
#   sitting.sh wait SECONDS NAME FOLDER     until it has ended or SECONDS have passed; lean copies of evaluated cells, and
#                                           logs, go to FOLDER
set -uo pipefail
cd ~/agon && source env.sh
case $1 in
merge)
    source scripts/gpu/mps.sh
    bash scripts/gpu/second_model/warm.sh "$2"
    ;;
start)
    source scripts/gpu/mps.sh
    mkdir -p ~/logs
    setsid nohup nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used,power.draw --format=csv,noheader --loop=5 \
        > ~/logs/card.csv 2>&1 < /dev/null &
    setsid nohup top -b -d 20 -w 160 > ~/logs/top.txt 2>&1 < /dev/null &
    setsid nohup python3 -m agon.cli sweep "$2" --output ~/runs/"$3" --only "${@:4}" --parallel $(($# - 3)) \
        --stagger 3 > ~/logs/"$3".log 2>&1 < /dev/null &
    ;;
wait)
    out=${4:?"a folder for what is brought home"}
    for ((waited = 0; waited < $2; waited += 5)); do
        pgrep -f "agon.cli sweep" > /dev/null || break
        sleep 5
    done
    python3 -m agon.cli sweep --status ~/runs/"$3"
    rm -rf ~/lean && mkdir -p ~/lean/"$3"
    for cell in ~/runs/"$3"/*/; do
        if compgen -G "$cell/evaluations/*-test*/result.json" > /dev/null; then
            python3 scripts/lean_copies.py "$cell" --out ~/lean/"$3"
        fi
    done
    tar -cJf "$out/lean.tar.xz" -C ~ lean
    mkdir -p ~/logs/"$3" && cp ~/runs/"$3"/*.{log,out,state.json} ~/logs/"$3"/ 2> /dev/null
    tar -cJf "$out/logs.tar.xz" -C ~ logs
    tail -n 3 ~/logs/card.csv
    ;;
esac
