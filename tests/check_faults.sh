#!/bin/bash
# The short form of scripts/crash.sh, what the disk does: check_faults.sh PAWL ROOT.
status=0
for class in damage faults slow full shutdown; do
    bash "$2/tests/crash/$class.sh" "$1" "$2"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
exit $status
