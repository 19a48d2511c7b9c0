#!/usr/bin/env bash
# The same on two hosts, without a scheduler: torchrun on each of them. Both see the run's folder.
#
#   host 0:  NODE=0 MAIN=HOST0 two_hosts.sh RECIPE --output_dir runs/NAME
#   host 1:  NODE=1 MAIN=HOST0 two_hosts.sh RECIPE --output_dir runs/NAME
#
# GPUS is the number of GPUs of a host (8), PORT a free port of host 0 (29500). After SIGTERM torchrun waits
# half a minute for the step to end; the newest checkpoint is whole in any case.
set -euo pipefail
exec "${PYTHON:-python}" -m torch.distributed.run --nnodes 2 --node_rank "$NODE" --nproc_per_node "${GPUS:-8}" \
    --master_addr "$MAIN" --master_port "${PORT:-29500}" -m agon.cli train "$@"
