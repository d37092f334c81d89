#!/bin/bash
# The short form of scripts/crash.sh: check_crash.sh PAWL ROOT.
status=0
for class in kill damage notice midstep full shutdown; do
    bash "$2/tests/crash/$class.sh" "$1" "$2"
    rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || status=1
done
exit $status
