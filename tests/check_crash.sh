#!/bin/bash
# The short form of scripts/crash.sh, what comes from outside: check_crash.sh PAWL ROOT. check_kill.sh has SIGKILL, check_faults.sh what the disk does.
status=0
for class in notice midstep clock; do
    bash "$2/tests/crash/$class.sh" "$1" "$2"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
exit $status
