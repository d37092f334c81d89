#!/usr/bin/env bash
# All that can only be found out on a card, in one command: scripts/bench/gpu.sh [BUILD], by default build-gpu, which is made where it is missing. Needs an NVIDIA card (sm_80 or later) and
# CUDA 12.8 or later; without a card it says so and exits 77.
# The op tests on the card; training with random weights (gpu.py) into BUILD/gpu.md and gpu.json; the op tests under compute-sanitizer. What fails is said at the end, and the rest goes on.
# PAWL_BENCH_DIR: where model files of up to 16 GB are written for a while, else the system's place for temporary files.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build-gpu} failed=()
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
    echo "gpu.sh: SKIPPED: this machine has no NVIDIA card, and nothing of this can be measured without one"
    exit 77
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. ')
[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DPAWL_CUDA=ON -DPAWL_CUDA_ARCHITECTURES="$capability" -DPAWL_EMU=OFF || exit 1
cmake --build "$build" -j "$(nproc)" --target pawl test_ops pawl_bench_card || exit 1

run() { # NAME COMMAND...
    echo "== $1"
    "${@:2}" || failed+=("$1")
}

run "op tests" "$build/tests/test_ops" cuda
bench() {
    python3 scripts/bench/gpu.py --build "$build" ${PAWL_BENCH_DIR:+--dir "$PAWL_BENCH_DIR"} --out "$build/gpu.json" | tee "$build/gpu.md"
}
run "training" bench
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        run "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/test_ops" cuda
    done
else
    echo "compute-sanitizer is not on PATH: SKIPPED"
fi
[ ${#failed[@]} = 0 ] || { printf 'gpu.sh: FAILED: %s\n' "${failed[@]}"; exit 1; }
echo "gpu.sh: done; figures are in $build/gpu.md and $build/gpu.json"
