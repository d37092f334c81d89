#!/bin/bash
# Everything that can happen to a machine, done to tiny runs: scripts/crash.sh [PAWL] [CLASS...]. One summary line a class; exit 1 if one fails. Takes hours: PAWL_KILLS=100 for less.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
pawl=${1:-$root/build/pawl}
[ $# -gt 0 ] && shift
[ -x "$pawl" ] || { echo "no program at $pawl: build it first, or say where it is"; exit 2; }
pawl=$(realpath "$pawl")
status=0
for class in ${*:-kill notice midstep clock damage faults slow full shutdown}; do
    PAWL_LONG=1 bash "$root/tests/crash/$class.sh" "$pawl" "$root"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
tests=$(dirname "$pawl")/tests
for t in test_store test_journal; do
    [ -x "$tests/$t" ] || continue
    if (cd "$(mktemp -d)" && "$tests/$t" >log 2>&1 && grep -h 'faults\|crash states' log | sed "s/^/$t: /"); then continue; fi
    echo "$t: FAILED"
    status=1
done
exit $status
