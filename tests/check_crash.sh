#!/bin/bash
# The short form of scripts/crash.sh, what comes from outside: check_crash.sh PAWL ROOT. check_faults.sh has what the disk does.
status=0
for class in kill notice midstep clock; do
    bash "$2/tests/crash/$class.sh" "$1" "$2"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
exit $status
