#!/bin/bash
# Kills a run by SIGKILL at random moments, starts it again each time, and compares it with one that nobody touched:
#
#   scripts/parity/kill.sh PAWL RUN.yaml WORK_DIR [KILLS] [SEED] [--set KEY=VALUE]...
#
# KILLS (10) moments are drawn from SEED (1), each within 2 / KILLS of the uninterrupted run's time after a start, so that most meet a running process. Adapter,
# moments and metrics.jsonl but for its times must be the same bytes. tests/check_resume.sh does this for a tiny model, with other threads and micro-batches too.
set -eu
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
pawl=$1 run=$2 work=$3 kills=${4:-10} seed=${5:-1}
shift $(($# < 5 ? $# : 5))
mkdir -p "$work"
fail() { echo "kill.sh: $*" >&2; exit 1; }
times='s/"tokens_per_second".*//'

start=$(date +%s%N)
"$pawl" train "$run" -q --set output_dir="$work/whole" "$@"
window=$((($(date +%s%N) - start) / 500000 / kills))

RANDOM=$seed
for i in $(seq "$kills"); do
    "$pawl" train "$run" -q --set output_dir="$work/killed" "$@" &
    ms=$((RANDOM * window / 32768))
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
    found=no
    kill -9 $! 2>/dev/null && found=yes hits=$((${hits:-0} + 1))
    wait $! 2>/dev/null || true
    echo "kill $i after $ms ms, running: $found, steps in metrics.jsonl: $(cat "$work/killed/metrics.jsonl" 2>/dev/null | wc -l)," \
         "newest checkpoint: $(readlink "$work/killed/adapter" || echo none)"
done
"$pawl" train "$run" -q --set output_dir="$work/killed" "$@"

for f in adapter_model.safetensors optimizer.safetensors; do
    cmp "$work/whole/adapter/$f" "$work/killed/adapter/$f" || fail "$f differs"
done
cmp <(sed "$times" "$work/whole/metrics.jsonl") <(sed "$times" "$work/killed/metrics.jsonl") || fail "metrics.jsonl differs"
echo "${hits:-0} of $kills kills met a running process; adapter, moments and $(wc -l <"$work/whole/metrics.jsonl") lines of metrics.jsonl are the same bytes"
