#!/bin/bash
# A notice that is shorter than the step: all ranks give the step up at once, whoever was told, what came before it is durable, and the run goes on with any number of ranks to the
# same end. One that is long enough: the step is finished.
. "$(dirname "$0")/crash/common.sh"
awk 'BEGIN { for (i = 1; i <= 1500; i++) {
    q = ""; for (k = 0; k < 9 + i * 7 % 43; k++) q = q "word" (i * k % 17) " ";
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"answer%d\"}]}\n", q, i % 10 } }' >"$dir/train.jsonl"
sed -i 's/^global_batch_size:.*/global_batch_size: 64/; s/^micro_batch_size:.*/micro_batch_size: 4/; s/^num_epochs:.*/num_epochs: 9/' "$dir/run.yaml"
out=$dir/noticed steps=0 given_up=0 round=0
ranks() { read -ra rank <<<"$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)"; }
# Too short for anything: a step takes longer, however fast the machine. A notice may still fall between two steps.
for ((round = 0; given_up < 3; round++)); do
    [ $round -lt 20 ] || fail "of $round notices $given_up came within a step"
    n=$((2 + round % 2)) told=$((round % 3 % n))
    begin --ranks $n --set output_dir="$out" --set preempt_grace_seconds=1e-3 --set zero_stage=$((round % 2))
    steps_done 1 "$out/metrics.jsonl"
    ranks
    kill -TERM "${rank[told]}" || fail "rank $told of $n is gone"
    wait $pid
    rc=$?
    [ $rc = 75 ] || fail "a notice to rank $told of $n: exit $rc, expected 75: $(tail -5 "$dir/err")"
    grep -q 'all of it is durable\|durable is step' "$dir/err" || fail "a notice to rank $told of $n: $(tail -5 "$dir/err")"
    [ "$(last_event "$out" preempted row)" = 0 ] || fail "a part of a step of several ranks was saved: $(tail -1 "$out/events.jsonl")"
    grep -q 'given up step .* for want of time\|durable is step' "$dir/err" || continue
    [ "$(last_event "$out" preempted given_up_rows)" = 64 ] && given_up=$((given_up + 1))
done
# Time enough: no step is given up.
begin --ranks 2 --set output_dir="$out" --set preempt_grace_seconds=100000
steps_done 1 "$out/metrics.jsonl"
ranks
kill -TERM "${rank[1]}"
wait $pid
[ $? = 75 ] && grep -q 'stopped by SIGTERM of rank 1 at step .* all of it is durable' "$dir/err" && [ "$(last_event "$out" preempted given_up_rows)" = 0 ] || fail "a notice with time enough: $(tail -5 "$dir/err")"
grep -q '"proved":false,"possible":true' "$out/events.jsonl" && fail "a step computed again differs: $(grep '"replay"' "$out/events.jsonl")"
as_far "$out" "given up and resumed"
# One rank has time enough, the other was told later and has none: within a step it is the second notice that counts for both.
rank() { RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 PAWL_PORT=$port begin --set output_dir="$dir/two" --set global_batch_size=256 --set preempt_grace_seconds="$2"; }
for ((attempt = 1; ; attempt++)); do
    [ $attempt -le 20 ] || fail "of 20 notices none was replaced by a later one that leaves less: $(tail -1 "$dir/two/events.jsonl")"
    rm -rf "$dir/two"
    port=$((20000 + RANDOM % 12000))
    rank 1 1e-3
    other=$pid
    rank 0 100000
    until [ -s "$dir/two/metrics.jsonl" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kill -TERM $pid 2>/dev/null && kill -TERM $other 2>/dev/null
    wait $pid
    rc=$?
    wait $other
    grep -q 'is in use' "$dir/err" && continue
    [ $rc = 75 ] && grep -q 'stopped by SIGTERM' "$dir/err" || fail "notices to both ranks: exit $rc, expected 75: $(tail -5 "$dir/err")"
    awk -v lead="$(last_event "$dir/two" preempted lead_seconds)" 'BEGIN { exit !(lead != "" && lead < 1) }' && break
done
echo "notice to several ranks: $round notices, $given_up steps given up, an earlier one replaced at attempt $attempt, $(wc -l <"$out/metrics.jsonl") steps, the same end"
