#!/usr/bin/env bash
#SBATCH --job-name=agon
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@600
# One task per GPU; Slurm itself starts and ends the processes.
#
#   sbatch slurm.sh RECIPE --output_dir runs/NAME
#   sbatch slurm.sh --resume runs/NAME
#
# Ten minutes before its time is up all processes get SIGTERM: they finish the step, save a checkpoint and
# leave. A process that fails ends all of them.
set -euo pipefail
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000)) PYTHON=${PYTHON:-python}
exec srun --kill-on-bad-exit=1 bash -c '
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
    exec "$PYTHON" -m agon.cli train "$@"' agon "$@"
