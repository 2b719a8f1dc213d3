#!/usr/bin/env bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
# Every node is examined with the interpreter that trains; the job ends before it begins where one
# of them is not ready.
set -euo pipefail
folder=preflight-$SLURM_JOB_ID
mkdir -p "$folder"
export folder
srun --kill-on-bad-exit=1 bash -c \
    'doctor run --gpus 8 --format plain --quiet --save-facts "$folder/$SLURM_NODEID.json"'
srun --ntasks-per-node=8 python train.py
