#!/usr/bin/env bash
# With Open MPI and HOSTFILE, whose first host is node 0. -x NAME passes a variable without its value on the
# command line, which ps shows.
set -euo pipefail
DOCTOR_FLEET_SECRET=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
MASTER_ADDR=$(awk 'NF && $1 !~ /^#/ { print $1; exit }' "$HOSTFILE")
export DOCTOR_FLEET_SECRET MASTER_ADDR
mpirun --hostfile "$HOSTFILE" --map-by ppr:1:node -x DOCTOR_FLEET_SECRET -x MASTER_ADDR \
    doctor fleet run --deadline 5m --format plain --quiet
