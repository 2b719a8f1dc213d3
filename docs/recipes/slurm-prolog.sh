#!/usr/bin/env bash
# Prolog of a node: `Prolog=/etc/slurm/prolog.d/doctor.sh` in slurm.conf.
#
# Slurm drains a node whose prolog fails, so only a machine observed to be at fault fails here
# (verdict RETURN). Problems of the job's own settings, unknown checks, errors of the doctor itself
# and a missing doctor let the job start. It prints one line and ends within its budget; jobs without
# GPUs are not examined.
doctor=/opt/doctor/environment/bin/doctor
[ -n "${SLURM_JOB_GPUS:-}" ] && [ -x "$doctor" ] || exit 0
"$doctor" run --context prolog --budget 8s --no-smoke --no-config
[ $? -ne 1 ] # only 1 means RETURN
