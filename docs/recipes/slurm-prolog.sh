#!/usr/bin/env bash
# Prolog of a node: `Prolog=/etc/slurm/prolog.d/doctor.sh` in slurm.conf, with BatchStartTimeout=160.
#
# Slurm drains a node whose prolog fails, so only a machine observed to be at fault fails here
# (verdict RETURN). Problems of the job's own settings, unknown checks, errors of the doctor itself
# and a missing doctor let the job start. It prints one line; jobs without GPUs are not examined.
#
# A healthy node takes seconds. The budget is for a driver that does not answer: it has 30 s, and 5 s
# for each further GPU, 65 s for eight. If it waits in the kernel then, the node is drained; otherwise
# it is started a second time first, because a reset, the fabric manager or DCGM may hold it.
# BatchStartTimeout (10 s by default) must be longer than the budget, or Slurm takes the job away.
doctor=/opt/doctor/environment/bin/doctor
[ -n "${SLURM_JOB_GPUS:-}" ] && [ -x "$doctor" ] || exit 0
"$doctor" run --context prolog --quick --no-smoke --budget 140s --no-config
[ $? -ne 1 ] # only 1 means RETURN
