#!/bin/sh
# Installs what is missing, builds and runs all tests: `scripts/test.sh`, on a fresh Debian or Ubuntu.
set -eu
cd "$(dirname "$0")/.."
scripts/install.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)"
ctest --preset release -j "$(nproc)"
