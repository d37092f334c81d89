#!/usr/bin/env bash
# What can only be found out on a card: scripts/bench/gpu.sh [BUILD]. Needs an NVIDIA card (sm_80 or later) and a build with PAWL_CUDA=ON; without one it says so and exits 77.
# The op tests on the card, and the same under compute-sanitizer.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
    echo "gpu.sh: SKIPPED: this machine has no NVIDIA card, and nothing of this can be measured without one"
    exit 77
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv
[ -x "$build/tests/test_ops" ] || { echo "gpu.sh: $build/tests/test_ops is missing: cmake -B $build -DPAWL_CUDA=ON && cmake --build $build"; exit 1; }

echo "== op tests"
"$build/tests/test_ops" cuda
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        echo "== compute-sanitizer $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/test_ops" cuda
    done
else
    echo "compute-sanitizer is not on PATH: SKIPPED"
fi
