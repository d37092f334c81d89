#!/bin/bash
# What people do to a run directory: it is copied with its links followed, moved away while a process trains in it, its lock is removed. Nothing is lost without a word.
epochs=2000
. "$2/tests/crash/common.sh"
wait_for() { # EXIT WHAT: of the run in the background
    wait $pid
    local rc=$?
    [ $rc = "$1" ] || fail "$2: exit $rc, expected $1: $(tail -5 "$dir/err")"
}

# Copied as scp -r and object stores do, which know no links: the copy goes on to the same end, and its links are links again.
held_out=(--set num_epochs=2 --set val_set_size=8 --set eval_steps=3)
run "$dir/whole" "${held_out[@]}" 2>"$dir/err" || fail "the uninterrupted run: $(cat "$dir/err")"
stop_at 5 "$dir/half" "${held_out[@]}"
cp -rL "$dir/half" "$dir/copy"
[ -d "$dir/copy/adapter-best" ] && [ ! -L "$dir/copy/adapter-best" ] || fail "the copy has links"
run "$dir/copy" "${held_out[@]}" 2>"$dir/err" || fail "a copy without links: $(cat "$dir/err")"
[ -s "$dir/err" ] && fail "a copy without links: $(cat "$dir/err")"
same "$dir/copy" "a copy without links"
[ "$(last_event "$dir/copy" resume lost_seconds)" = 0.000 ] || fail "the time of copying counts as lost work: $(grep '"resume"' "$dir/copy/events.jsonl")"
for link in adapter adapter-best; do
    [ "$(readlink "$dir/copy/$link")" = "$(readlink "$dir/whole/$link")" ] || fail "$link of the copy: $(ls -ld "$dir/copy/$link"), expected $(readlink "$dir/whole/$link")"
    [ -d "$dir/copy/$link.copy" ] || fail "$link of the copy was not kept aside: $(ls "$dir/copy")"
done
rm -rf "$dir/whole"

# A start that fails trains nothing: what the next one says about lost time stays.
worked=$(stat -c %.9Y "$dir/half/lock")
run "$dir/half" --set base_model="$dir/nothing" 2>"$dir/err" && fail "without a model it trains"
[ "$(stat -c %.9Y "$dir/half/lock")" = "$worked" ] || fail "last trained at $worked, after a start that failed at $(stat -c %.9Y "$dir/half/lock")"

# Moved away: said, the step is saved where the run was, exit 75; either place goes on.
begin --set output_dir="$dir/here" --set save_steps=100000
steps_done 3 "$dir/here/metrics.jsonl"
mv "$dir/here" "$dir/there"
wait_for 75 "moved away"
grep -q "$dir/here: was moved, removed or unmounted" "$dir/err" && grep -q 'stopped by the loss of output_dir at step .*all of it is durable' "$dir/err" || fail "moved away: $(cat "$dir/err")"
at=$(ls "$dir/here" | sed -n 's/^checkpoint-//p')
[ "$at" -ge "$(wc -l <"$dir/there/metrics.jsonl")" ] || fail "moved away after step $(wc -l <"$dir/there/metrics.jsonl"), saved is step $at"
park "$dir/here"
[ "$(last_event "$dir/here" resume step)" = "$at" ] || fail "the old place goes on from $(last_event "$dir/here" resume step), not from $at"
as_far "$dir/there" "moved away"

# The last line of a run that lost its place may be of a step that was never durable: it is computed again.
goes_on() {
    park "$1"
    [ ! -s "$1/metrics.jsonl" ] || as_far "$@" # empty: the disk was slower than all of its steps
}
# second DIR N [OPTION...]: the process in the background stands still, another one makes DIR's N-th first step; then the first one goes on, and finds that the place is not its own.
second() {
    local first=$pid
    "$pawl" train "$dir/run.yaml" -q --set output_dir="$1" "${@:3}" 2>"$dir/err2" &
    pid=$!
    children+=($pid)
    until [ "$(grep -c '"event":"first_step"' "$1/events.jsonl" 2>/dev/null)" = "$2" ]; do alive; done
    kill -CONT $first
    wait $first
    local rc=$?
    [ $rc = 3 ] || fail "the first of two processes: exit $rc, expected 3: $(tail -5 "$dir/err")"
}
# Moved away, and another run of the same name stands there when the process looks: it writes nothing there.
begin --set output_dir="$dir/name"
steps_done 3 "$dir/name/metrics.jsonl"
kill -STOP $pid
mv "$dir/name" "$dir/name.old"
second "$dir/name" 1
grep -q "$dir/name: .*another run is there now" "$dir/err" || fail "another run of the same name: $(cat "$dir/err")"
steps_done 3 "$dir/name/metrics.jsonl"
end_by TERM
as_far "$dir/name" "another run of the same name"
[ "$(grep -ho '"run_id": "[^"]*' "$dir/name"/checkpoint-*/manifest.json | sort -u | wc -l)" = 1 ] || fail "another run of the same name: it has checkpoints of the first one: $(ls "$dir/name")"
goes_on "$dir/name.old" "the first of two runs of the same name"

long_evals=(--set num_epochs=2000 --set val_set_size=48 --set eval_steps=1 --set global_batch_size=1 --set micro_batch_size=1)
# Its lock removed: made anew, and a second process is still told who has the run.
begin --set output_dir="$dir/run"
steps_done 1 "$dir/run/metrics.jsonl"
rm "$dir/run/lock"
await 'lock was removed while this process trains'
run "$dir/run" 2>"$dir/second"
[ $? = 3 ] && grep -q "pid $pid since" "$dir/second" || fail "a second process, the lock made anew: $(cat "$dir/second")"
# Removed, and a second process is quicker: the first one writes nothing more.
kill -STOP $pid
rm "$dir/run/lock"
second "$dir/run" 2
steps_done 3 "$dir/run/metrics.jsonl"
end_by TERM
as_far "$dir/run" "two processes, one after the other"

# Stopped while it evaluates: no evaluation of it comes between those of the second one, nor over a line of it. Evaluations take most of the time here; of three stops some fall into one.
for try in 1 2 3; do
    rm -rf "$dir/evals"
    begin --set output_dir="$dir/evals" "${long_evals[@]}"
    until [ "$(grep -c '"event":"eval"' "$dir/evals/events.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null; do alive; done
    kill -STOP $pid
    rm "$dir/evals/lock"
    second "$dir/evals" 2 "${long_evals[@]}"
    steps_done 2 "$dir/evals/metrics.jsonl"
    end_by TERM
    after=$(sed -n '/"event":"resume"/,$p' "$dir/evals/events.jsonl")
    [ -n "$after" ] || fail "the second process's start is gone: $(cat "$dir/evals/events.jsonl")"
    [ "$(grep -vc '^{"event":.*}$' <<<"$after")" = 0 ] || fail "a line was written over: $after"
    grep '"event":"eval"' <<<"$after" | grep -o '"step":[0-9]*' | cut -d: -f2 | sort -nuc || fail "evaluations of both of two processes: $after"
done
echo "moved: a copy without links, a run moved away, another run in its place, a lock removed, with and without a second process: said, and the same end"
