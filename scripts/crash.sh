#!/bin/bash
# Everything that can happen to a machine, done to tiny runs: scripts/crash.sh [PAWL] [CLASS...]. One summary line a class; exit 1 if one fails. Takes an hour or two:
# PAWL_KILLS=100 for less.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
pawl=${1:-$root/build/pawl}
[ $# -gt 0 ] && shift
[ -x "$pawl" ] || { echo "no program at $pawl: build it first, or say where it is"; exit 2; }
pawl=$(realpath "$pawl")
status=0
for class in ${*:-kill notice midstep clock damage faults slow full shutdown remote}; do
    PAWL_LONG=1 bash "$root/tests/crash/$class.sh" "$pawl" "$root"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
# The same on the parts, system call by system call and state by state.
tests=$(dirname "$pawl")/tests
for t in test_store test_journal test_jsonl test_powercut test_remote; do
    [ -x "$tests/$t" ] || { echo "$t: skipped, not built beside $pawl"; continue; }
    work=$(mktemp -d)
    if (cd "$work" && PAWL_LONG=1 "$tests/$t" >log 2>&1); then
        counts=$(grep -h 'faults in\|crash states' "$work/log" | paste -sd ';' | sed 's/;/; /g')
        echo "$t: ${counts:-passed}"
    else
        echo "$t: FAILED"
        status=1
    fi
    rm -rf "$work"
done
exit $status
