#!/usr/bin/env bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Examines all nodes of the job at once, and ends the job before training if they are not ready. The key
# is random and only in the environment, which srun carries to the tasks.
set -euo pipefail
DOCTOR_FLEET_SECRET=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
export DOCTOR_FLEET_SECRET
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    --kill-on-bad-exit=0 doctor fleet run --deadline 5m --format plain --quiet
srun python train.py
