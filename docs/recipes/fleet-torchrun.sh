#!/usr/bin/env bash
# Run on each node with NNODES, NODE_RANK and MASTER_ADDR set: a fixed number of nodes and no restarts.
# If one node cannot start, torchrun starts no doctor anywhere.
set -euo pipefail
torchrun --nnodes "$NNODES" --node-rank "$NODE_RANK" --nproc-per-node 1 --max-restarts 0 \
    --master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}" \
    --no-python doctor fleet run --deadline 5m --format plain --quiet
