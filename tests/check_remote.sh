#!/bin/bash
# The short form of the remote's proof: check_remote.sh PAWL ROOT.
bash "$2/tests/crash/remote.sh" "$1" "$2"
