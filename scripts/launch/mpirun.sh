#!/bin/bash
# A run on several machines by Open MPI, started again with the machines that are left until it is done.
#
#   scripts/launch/mpirun.sh HOSTS RUN.yaml [pawl train's options]      HOSTS: lines of "name slots=N", as mpirun's --hostfile
#
#   1. pawl, model and data are found under the same names on all machines; output_dir is seen by the first one that answers.
#   2. Before each start every machine is asked by ssh; those that don't answer are left out. Any number of ranks goes on from any other's state, up to global_batch_size.
#   3. pawl's 75 means: stopped early, all durable. mpirun may give 137 or 143 in its place when it ends the ranks itself. Everything else ends this script with that code.
set -u
hosts=$1 run=$2
shift 2
pawl=${PAWL:-pawl}
live=$(mktemp)
trap 'rm -f "$live"' EXIT
stop=0
trap 'stop=1; kill -TERM "$job" 2>/dev/null' TERM INT USR1
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

answers() { [ "$1" = localhost ] || ssh -n -o BatchMode=yes -o ConnectTimeout=5 "$1" true 2>/dev/null; }
while [ $stop = 0 ]; do
    : >"$live"
    slots=0
    while read -r name rest; do
        case $name in '' | '#'*) continue ;; esac
        answers "$name" || { echo "mpirun.sh: $name does not answer: left out" >&2; continue; }
        echo "$name $rest" >>"$live"
        n=${rest##*slots=}
        slots=$((slots + ${n%%[!0-9]*}))
    done <"$hosts"
    [ $slots -gt 0 ] || { sleep 30; continue; }
    mpirun --hostfile "$live" --bind-to none -n $slots "$pawl" train "$run" "$@" &
    job=$!
    while :; do
        wait "$job"
        rc=$?
        kill -0 "$job" 2>/dev/null || break
    done
    case $rc in 75 | 137 | 143) ;; *) exit $rc ;; esac
    echo "mpirun.sh: exit $rc, all durable: starting again" >&2
done
exit 75
