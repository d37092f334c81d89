#!/bin/bash
# A run as a Slurm job that is requeued until it is done: `sbatch scripts/launch/slurm.sh RUN.yaml`.
#   1. USR1 comes 120 s before the time is up or the job is preempted (set preempt_grace_seconds below that): pawl makes everything durable and exits 75, and the job is requeued.
#   2. --requeue does the same after a node failure, and the next start goes on from the newest durable step; output_dir must be on a file system that all nodes see.
#   3. `scontrol requeue` is asked for by the job itself; sites that forbid it need `sbatch --dependency=afternotok:...` in its place.
#   4. Several ranks: `sbatch --nodes 4 --ntasks 4 --ntasks-per-node 1 scripts/launch/slurm.sh RUN.yaml`; with any other number it goes on as well.
#SBATCH --job-name=pawl
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -u
run=${1:?usage: sbatch slurm.sh RUN.yaml}
# The signal comes to this shell (B:), which hands it on and waits again.
srun pawl train "$run" &
job=$!
handed=0
trap 'handed=1; scancel --signal=USR1 "$SLURM_JOB_ID.0"' USR1 TERM
while :; do
    wait $job
    rc=$?
    [ $handed = 1 ] || break
    handed=0
done
# 137 and 143: srun tells of a task that was killed before it tells of those that ended with 75 for it.
case $rc in 75 | 137 | 143) scontrol requeue "$SLURM_JOB_ID" ;; esac
exit $rc
