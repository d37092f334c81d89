#!/bin/bash
# A run on several machines by torchrun, which waits for machines, and starts all ranks again with those that are there whenever one goes or comes: the same line on each machine.
#
#   scripts/launch/torchrun.sh FIRST_HOST MIN:MAX RANKS_PER_HOST RUN.yaml [pawl train's options]
#
#   1. pawl, model and data are found under the same names on all machines. output_dir must be seen by all: any of them may become rank 0 at a restart.
#   2. torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; pawl listens on MASTER_PORT + 1.
#   3. A rank that ends with 75 (stopped early, all durable) counts as one to start again. So does one that failed: MAX_RESTARTS bounds it.
set -eu
host=$1 nodes=$2 ranks=$3 run=$4
shift 4
exec torchrun --nnodes "$nodes" --nproc-per-node "$ranks" --rdzv-backend c10d --rdzv-endpoint "$host:${RDZV_PORT:-29400}" --rdzv-id "${RUN_ID:-pawl}" \
    --max-restarts "${MAX_RESTARTS:-100}" --no-python "${PAWL:-pawl}" train "$run" "$@"
