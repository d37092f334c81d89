# Sourced by the classes of crash tests: CLASS.sh PAWL ROOT. Each makes a tiny run with dropout, shuffling, packing and accumulation, hurts it, and compares what comes out with
# the uninterrupted run, bit for bit. PAWL_LONG=1 asks for the long form.
set -u
pawl=$1 root=$2
long=${PAWL_LONG:-0}
leave_first() {
    [ -n "${mounted:-}" ] && umount "$mounted" 2>/dev/null
    [ -n "${loop:-}" ] && losetup -d "$loop" 2>/dev/null
}
skip() { echo "$*"; exit 77; }

. "$root/tests/tiny_run.sh"
tiny_run_yaml <<YAML
lora_alpha: 16
global_batch_size: 6
num_epochs: ${epochs:-12}
warmup_steps: 3
weight_decay: 0.01
save_steps: 5
threads: 1
spot: off
max_fruitless_starts: 1000000
YAML

whole() { # the uninterrupted run
    run "$dir/whole" 2>"$dir/err" || fail "the uninterrupted run: $(cat "$dir/err")"
    steps=$(wc -l <"$dir/whole/metrics.jsonl")
}
# stop_at STEP DIR [OPTION...]: a run that ends right after this step, not a moment later: the watchdog's patience is over.
stop_at() {
    run "${@:2}" --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience="$1" 2>"$dir/err"
    [ $? = 1 ] && grep -q "for $1 steps in a row" "$dir/err" || fail "the run that ends after step $1: $(cat "$dir/err")"
}
# park DIR: makes a checkpoint of where it stands, and no step.
park() {
    run "$1" --set max_minutes=1e-12 2>"$dir/err"
    [ $? = 75 ] || fail "parking $1: $(cat "$dir/err")"
}
# as_far DIR WHAT: DIR, wherever it stands, equals an uninterrupted run that was stopped there.
as_far() {
    rm -rf "$dir/whole"
    stop_at "$(wc -l <"$1/metrics.jsonl")" "$dir/whole"
    park "$dir/whole"
    park "$1"
    same "$1" "$2"
}
# A run in the background: begin OPTION..., then wait for what it says (await PATTERN) and does (steps_done N more), and end it (end_by SIGNAL).
begin() {
    : >"$dir/err"
    "$pawl" train "$dir/run.yaml" --set logging_steps=1000000 "$@" 2>>"$dir/err" &
    pid=$!
    children+=($pid)
}
alive() {
    kill -0 $pid 2>/dev/null || fail "the run ended too early: $(tail -5 "$dir/err")"
    sleep 0.05
}
await() { until grep -q "$1" "$dir/err"; do alive; done; }
steps_done() { # N FILE
    local goal=$(($(wc -l 2>/dev/null <"$2" || echo 0) + $1))
    until [ "$(wc -l 2>/dev/null <"$2" || echo 0)" -ge $goal ]; do alive; done
}
end_by() {
    kill -"$1" $pid
    wait $pid
    local rc=$?
    [ $rc = 75 ] || fail "stopped by SIG$1: exit $rc, expected 75: $(tail -5 "$dir/err")"
}
# The value of a number or word of the last event of a kind: last_event DIR EVENT KEY
last_event() { grep "\"event\":\"$2\"" "$1/events.jsonl" | tail -1 | grep -o "\"$3\":\"\?[^,\"}]*" | sed 's/.*:"\?//'; }
# preload.c between the program and its C library.
preload() {
    command -v cc >/dev/null || skip "$1: skipped, no cc for tests/crash/preload.c"
    cc -shared -fPIC -O1 -w -o "$dir/preload.so" "$root/tests/crash/preload.c" -ldl || fail "tests/crash/preload.c does not compile"
    export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
}
