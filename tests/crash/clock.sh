#!/bin/bash
# The wall clock jumps back and forth by eleven days, every tenth time that somebody looks: no time but the monotonic one decides anything.
epochs=12
. "$(dirname "$0")/common.sh"
preload clock
whole
export LD_PRELOAD=$dir/preload.so
for jump in 1000000 -1000000; do
    out=$dir/run$jump
    for end in kill kill done; do
        if [ $end = done ]; then
            CLOCK_JUMP=$jump run "$out" --set save_minutes=1000 2>"$dir/err" || fail "jumps of $jump s: $(cat "$dir/err")"
        else
            CLOCK_JUMP=$jump begin --set output_dir="$out" --set save_minutes=1000
            steps_done $((3 + $(wc -l <"$dir/whole/metrics.jsonl") / 20)) "$out/metrics.jsonl"
            kill -9 $pid
            wait $pid 2>/dev/null
        fi
    done
    same "$out" "jumps of $jump s"
    # Steps of 5 make the checkpoints, not a clock that says that 1000 minutes are over.
    [ "$(grep -c '"event":"checkpoint"' "$out/events.jsonl")" -le $((steps / 5 + 3)) ] || fail "jumps of $jump s: $(grep -c '"event":"checkpoint"' "$out/events.jsonl") checkpoints in $steps steps"
    grep -q '"lost_seconds":-\|"seconds":-' "$out/events.jsonl" && fail "jumps of $jump s: negative times: $(grep 'seconds":-' "$out/events.jsonl")"
    [ "$(grep -o '"time":"[^T]*' "$out/events.jsonl" | sort -u | wc -l)" -gt 1 ] || fail "the clock did not jump"
done
echo "clock: jumps of 11 days back and forth while the run saves, is killed and goes on: no checkpoint too many, no negative time, the same end"
