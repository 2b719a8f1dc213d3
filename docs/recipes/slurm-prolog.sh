#!/usr/bin/env bash
# Prolog of a node: `Prolog=/etc/slurm/prolog.d/doctor.sh` in slurm.conf.
#
# Slurm drains a node whose prolog fails. So only a machine that was seen to be at fault fails here
# (verdict RETURN); a job's own settings, what could not be read and errors of the doctor itself
# let the job start. It prints one line and ends within its budget.
exec /opt/doctor/environment/bin/doctor run --context prolog --budget 8s --no-smoke
