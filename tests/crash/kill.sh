#!/bin/bash
# SIGKILL at random moments, with checkpoints and the journal being written: no acknowledged step is lost, every resume works, and the end is the uninterrupted run's.
. "$(dirname "$0")/common.sh"
kills=${PAWL_KILLS:-$([ "$long" = 1 ] && echo 1000 || echo 8)}
begin=$(date +%s%N)
whole
took=$((($(date +%s%N) - begin) / 1000000)) # ms
RANDOM=${PAWL_SEED:-7}
hits=0 rounds=0 resumes=0 proved=0
count() { # adds up what the run directory's events say
    resumes=$((resumes + $(grep -c '"event":"resume"' "$1/events.jsonl")))
    proved=$((proved + $(grep -c '"proved":true' "$1/events.jsonl")))
    grep -q '"gradient":"differs"\|"update":"differs"\|"batch":"differs"' "$1/events.jsonl" && fail "a replay differs"
}
while [ $hits -lt "$kills" ]; do
    out=$dir/killed-$rounds
    while :; do
        "$pawl" train "$dir/run.yaml" -q --set output_dir="$out" 2>"$dir/err" &
        pid=$!
        wait_ms=$((RANDOM * (took / 4) / 32768))
        sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
        # What was acknowledged by now must not be taken back by the resume.
        acked=$(tail -1 "$out/metrics.jsonl" 2>/dev/null | grep -o '"durable_step":[0-9]*' | grep -o '[0-9]*$')
        if ! kill -9 $pid 2>/dev/null; then
            wait $pid 2>/dev/null || fail "a resume failed: $(cat "$dir/err")"
            break
        fi
        wait $pid 2>/dev/null
        rc=$?
        [ $rc = 0 ] && break
        [ $rc = 137 ] || fail "a resume failed with exit $rc: $(cat "$dir/err")"
        hits=$((hits + 1))
        last_ack=${acked:-0}
        [ $hits -ge "$kills" ] && break
        # The next resume says where it begins. A run that was killed after its end does not resume: same() below looks at that end.
        "$pawl" train "$dir/run.yaml" -q --set output_dir="$out" --set max_minutes=1e-12 2>"$dir/err"
        rc=$?
        [ $rc = 0 ] && break
        [ $rc = 75 ] || fail "a resume failed with exit $rc: $(cat "$dir/err")"
        from=$(last_event "$out" resume step)
        [ "${from:-0}" -ge "$last_ack" ] || fail "step $last_ack was acknowledged, the resume begins at ${from:-0}"
    done
    run "$out" 2>"$dir/err" || fail "the run after $hits kills: $(cat "$dir/err")"
    same "$out" "$hits kills"
    count "$out"
    rounds=$((rounds + 1))
    rm -rf "$out"
done
echo "kill: $hits SIGKILLs in $rounds runs of $steps steps, $resumes resumes, $proved proved by replay; 0 acknowledged steps lost, 0 failed resumes, adapter, moments and metrics equal"
