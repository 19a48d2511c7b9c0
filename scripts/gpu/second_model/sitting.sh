#!/usr/bin/env bash
# A sitting on the GPU machine, after stage.sh: cells train in the background, and each call brings home what is finished.
#
#   sitting.sh merge KEPT                   the warmed base, from the adapter of an earlier warm-up
#   sitting.sh start SWEEP NAME CELL...     trains and evaluates these cells of a sweep file at once, in ~/runs/NAME;
#                                           for several sweeps, AGON_CARD_SHARED_BY says how many trainings there are
#   sitting.sh drafter                      setting d: drafter.sh beside them
#   sitting.sh wait SECONDS FOLDER          until all have ended or SECONDS have passed; lean copies of evaluated cells, and
#                                           logs, go to FOLDER
set -uo pipefail
shopt -s nullglob
cd ~/agon && source env.sh
mkdir -p ~/runs ~/logs
case $1 in
merge)
    source scripts/gpu/mps.sh
    bash scripts/gpu/second_model/warm.sh "$2"
    ;;
start)
    source scripts/gpu/mps.sh
    if [ ! -e ~/logs/card.csv ]; then
        setsid nohup nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used,power.draw --format=csv,noheader --loop=5 \
            > ~/logs/card.csv 2>&1 < /dev/null &
        setsid nohup top -b -d 20 -w 160 > ~/logs/top.txt 2>&1 < /dev/null &
    fi
    setsid nohup python3 -m agon.cli sweep "$2" --output ~/runs/"$3" --only "${@:4}" --parallel $(($# - 3)) \
        --stagger 3 > ~/logs/"$3".log 2>&1 < /dev/null &
    ;;
drafter)
    mkdir -p ~/drafter
    setsid nohup bash scripts/gpu/second_model/drafter.sh ~/drafter > ~/logs/drafter.log 2>&1 < /dev/null &
    ;;
wait)
    out=${3:?"a folder for what is brought home"}
    for ((waited = 0; waited < $2; waited += 5)); do
        pgrep -f "agon.cli sweep|/drafter.sh" > /dev/null || break
        sleep 5
    done
    rm -rf ~/lean && mkdir ~/lean
    for sweep in ~/runs/*/; do
        name=$(basename "$sweep")
        python3 -m agon.cli sweep --status "$sweep"
        mkdir -p ~/lean/"$name" ~/logs/"$name"
        for cell in "$sweep"*/; do
            if [ -n "$(find "$cell" -name result.json)" ]; then
                python3 scripts/lean_copies.py "$cell" --out ~/lean/"$name"
            fi
        done
        cp "$sweep"*.{log,out,state.json} ~/logs/"$name"/ 2> /dev/null
    done
    tar -cJf "$out/lean.tar.xz" -C ~ lean
    tar -cJf "$out/logs.tar.xz" -C ~ logs
    cp ~/drafter/* "$out"/ 2> /dev/null
    tail -n 3 ~/logs/card.csv
    ;;
esac
