#!/bin/bash
# A notice shorter than what is left of the step: the run stops within it, with the rows that are done, and goes on from there to the same end. Steps are made as long as the notice
# demands by what this machine was measured to do.
. "$(dirname "$0")/common.sh"
awk 'BEGIN { for (i = 1; i <= 6000; i++) {
    q = ""; for (k = 0; k < 9 + i * 7 % 43; k++) q = q "word" (i * k % 17) " ";
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"answer%d\"}]}\n", q, i % 10 } }' >"$dir/train.jsonl"
number() { grep -o "\"$2\":[0-9.]*" "$1" | tail -1 | grep -o '[0-9.]*$'; }
stop_at 3 "$dir/probe" --set global_batch_size=32 --set micro_batch_size=8
step=$([ "$long" = 1 ] && echo 1.5 || echo 0.4) # seconds
rows=$(awk -v s="$(number "$dir/probe/metrics.jsonl" step_seconds)" -v t=$step 'BEGIN { n = int(t / s * 32 / 4 + 1) * 4; print n < 16 ? 16 : n }')
of_step() { awk -v t="$(number "$out/metrics.jsonl" step_seconds)" -v f="$1" 'BEGIN { print t * f }'; } # by the newest one
# Micro-batches of a power of two can be given up in the backward pass too (gradtree_can_forget).
micro=4
while [ $((micro * 8)) -le $rows ]; do micro=$((micro * 2)); done
sed -i "s/^global_batch_size:.*/global_batch_size: $rows/; s/^micro_batch_size:.*/micro_batch_size: $micro/; s/^num_epochs:.*/num_epochs: 8/" "$dir/run.yaml"
within=0 given_up=0 all=0 rounds=$([ "$long" = 1 ] && echo 20 || echo 3)
out=$dir/noticed
stop_at 1 "$out"
RANDOM=${PAWL_SEED:-7}
# Where the machine was so slow or so fast that no notice hit what it was aimed at, there are more of them.
for ((round = 0; round < rounds || within * given_up == 0; round++)); do
    [ $round -lt 30 ] || fail "of $all notices $within came within a step, $given_up micro-batches were given up"
    # 4/3 of a step (2 s of 1.5 s) are enough for it; 1/3 is enough for the micro-batch but not for the step; 1/10 often not even for that.
    case $((round % 3)) in 0) grace=$(of_step 1.33) ;; 1) grace=$(of_step 0.33) ;; *) grace=$(of_step 0.1) ;; esac
    begin --set output_dir="$out" --set preempt_grace_seconds=$grace
    steps_done 1 "$out/metrics.jsonl"
    sleep "$(of_step "0.$((RANDOM % 6))$((RANDOM % 10))")"
    end_by TERM
    left=$(last_event "$out" preempted left_seconds) row=$(last_event "$out" preempted row)
    # No cloud gives less than half a second, and no disk promises a sync in less on a busy machine: below that it is durable, but not by the clock. Of the short
    # form's steps no notice is longer for sure.
    [ "$long" = 1 ] && awk -v g=$grace 'BEGIN { exit !(g >= 0.4) }' && case $left in -*) fail "notice of $grace s: $left s were left at the end" ;; esac
    grep -q 'all of it is durable' "$dir/err" || fail "notice of $grace s: $(tail -1 "$dir/err")"
    [ "$row" -gt 0 ] && within=$((within + 1))
    [ "$(last_event "$out" preempted given_up_rows)" -gt 0 ] && given_up=$((given_up + 1))
    all=$((all + 1))
    # Killed before the step is over, it goes on from the same rows.
    begin --set output_dir="$out"
    await 'the last process'
    kill -9 $pid
    wait $pid 2>/dev/null
    run "$out" --set max_minutes=1e-12 2>"$dir/err"
    [ "$(last_event "$out" resume row)" = "$row" ] || [ "$(last_event "$out" resume step)" -gt "$(last_event "$out" preempted step)" ] ||
        fail "stopped at row $row, the resume begins at row $(last_event "$out" resume row): $(cat "$dir/err")"
done
run "$out" --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience=1 2>"$dir/err" # one more whole step
as_far "$out" "stops within a step"
echo "midstep: $all notices of 4/3, 1/3 and 1/10 of a step of $step s: all durable$([ "$long" = 1 ] && echo ", those of 0.4 s and more in time"); $within within a step, $given_up micro-batches given up; $(wc -l <"$out/metrics.jsonl") steps, the same end"
