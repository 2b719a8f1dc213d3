#!/usr/bin/env bash
# Health check of idle nodes, in slurm.conf:
#     HealthCheckProgram=/etc/slurm/doctor-health-check.sh
#     HealthCheckInterval=900
#     HealthCheckNodeState=IDLE
#
# Slurm ignores the exit code and ends the program after 60 s; the program drains the node itself. It does
# so only for a machine observed to be at fault (verdict RETURN), with the doctor's line as the reason.
doctor=/opt/doctor/environment/bin/doctor
[ -x "$doctor" ] || exit 0
line=$("$doctor" run --context prolog --quick --no-smoke --budget 50s --no-config)
[ $? -eq 1 ] || exit 0 # only 1 means RETURN
scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="${line:0:200}"
