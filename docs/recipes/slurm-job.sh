#!/usr/bin/env bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Every node is examined with the interpreter that trains; the job ends before it begins where one
# of them is not ready. No node ends the examination of another, so that each leaves its facts.
set -euo pipefail
folder=preflight-$SLURM_JOB_ID
mkdir -p "$folder"
export folder
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    --kill-on-bad-exit=0 bash -c \
    'doctor run --gpus 8 --format plain --quiet --save-facts "$folder/$SLURM_NODEID.json"'
srun python train.py
