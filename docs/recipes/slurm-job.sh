#!/usr/bin/env bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Examines every node with the training interpreter, and ends the job before training if a node is not
# ready. A failing node does not stop the others, so each saves its facts.
set -euo pipefail
directory=preflight-$SLURM_JOB_ID
mkdir -p "$directory"
export directory
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    --kill-on-bad-exit=0 bash -c \
    'doctor run --gpus 8 --format plain --quiet --save-facts "$directory/$SLURM_NODEID.json"'
srun python train.py
