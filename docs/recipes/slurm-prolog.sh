#!/usr/bin/env bash
# Prolog of a node: `Prolog=/etc/slurm/prolog.d/doctor.sh` in slurm.conf.
#
# Slurm drains a node whose prolog fails. So only a machine that was seen to be at fault fails here
# (verdict RETURN); a job's own settings, what could not be read and errors of the doctor itself
# let the job start, and so does a doctor that is not there. It prints one line and ends within its
# budget; a job without GPUs is not its matter.
doctor=/opt/doctor/environment/bin/doctor
[ -n "${SLURM_JOB_GPUS:-}" ] && [ -x "$doctor" ] || exit 0
"$doctor" run --context prolog --budget 8s --no-smoke --no-config
[ $? -ne 1 ] # 1 alone is a verdict
