#!/bin/bash
# SIGKILL at random moments, as many as fit into half a minute on a quiet machine; the thousand of the long form are scripts/crash.sh's: check_kill.sh PAWL ROOT.
PAWL_KILLS=${PAWL_KILLS:-30} exec bash "$2/tests/crash/kill.sh" "$1" "$2"
