#!/bin/bash
# A disk that is slower than the steps: training does not wait for it, every k-th step is made durable, and that is said.
epochs=30
. "$(dirname "$0")/common.sh"
preload slow
whole
# Three syncs a commit, of this many ms each: some twenty steps.
ms=$(awk -F'"step_seconds":' '{ split($2, a, ","); s += a[1] } END { m = int(s / NR * 7000); print m < 20 ? 20 : m }' "$dir/whole/metrics.jsonl")
SLOW_MS=$ms LD_PRELOAD=$dir/preload.so "$pawl" train "$dir/run.yaml" --set output_dir="$dir/run" --set logging_steps=1000000 --set save_steps=1000000 2>"$dir/err" || fail "$(cat "$dir/err")"
grep -q 'the disk takes [0-9.]* s a commit, a step takes [0-9.]* s: about every [0-9]*th step is made durable' "$dir/err" || fail "nothing is said: $(cat "$dir/err")"
commits=$(last_event "$dir/run" finished commits)
# With a wait for every commit there would be as many as steps.
[ $((commits * 4)) -lt "$steps" ] && [ "$commits" -ge 2 ] || fail "$commits commits in $steps steps"
# What the run acknowledges follows the commits: never ahead of the step, and every now and then nearer.
awk -F'"durable_step":' -v n="$commits" '{ split($1, a, /[:,]/); d = $2 + 0; if (d >= a[2] || d < last) exit 1; if (d > last) rises++; last = d } END { exit !(rises >= 1 && rises <= n) }' "$dir/run/metrics.jsonl" ||
    fail "durable_step does not follow the commits"
same "$dir/run" "a slow disk"
echo "slow: syncs of $ms ms each: $commits commits in $steps steps, and it is said; training never waited for one; the same end"
