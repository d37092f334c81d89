#!/bin/bash
# The disk of the machine is lost: what is in an object store suffices. A local directory plays the store through rclone (or, in the long form, also a real S3 server on the
# loopback interface: rclone's own `serve s3`, found as $PAWL_RCLONE_S3 or on PATH, or moto's): wiped machines, an outage in the middle of uploads, a second machine that takes
# over, damage in the newest state, notices. PAWL_REMOTE_ONLY=s3 leaves the directory out. Each run ends equal to the uninterrupted one.
epochs=100000
. "$(dirname "$0")/common.sh"
command -v rclone >/dev/null || skip "remote: skipped, no rclone here"
rclone_here=$(command -v rclone)
export RCLONE_CONFIG=$dir/rclone.conf
unset AWS_CA_BUNDLE # old rclones can't use one, and nobody here speaks TLS
cp -r "$root/tests/golden/llama" "$dir/model"
sed -i "s|^base_model:.*|base_model: $dir/model|; s|^output_dir:.*||" "$dir/run.yaml"
port=$((21000 + $$ % 20000))
store=$dir/store

# --- the stores: up, down; where objects lie as files, or nowhere
local_up() {
    mkdir -p "$store"
    printf '[here]\ntype = alias\nremote = %s\n' "$store" >"$RCLONE_CONFIG"
}
local_down() { # what answers at the discard port: nobody
    printf '[here]\ntype = s3\nprovider = Other\nendpoint = http://127.0.0.1:9\naccess_key_id = k\nsecret_access_key = s\nforce_path_style = true\nregion = us-east-1\n' >"$RCLONE_CONFIG"
}
local_config() { bucket=here:run files=$store/run; }
s3_up() {
    mkdir -p "$store/bucket"
    if [ -n "$s3" ]; then
        "$s3" serve s3 --addr 127.0.0.1:$port --auth-key key,secret "$store" >"$dir/s3.log" 2>&1 &
    else
        python3 -m moto.server -H 127.0.0.1 -p $port >"$dir/s3.log" 2>&1 &
    fi
    server=$!
    children+=($server)
    for _ in $(seq 600); do
        (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && return
        kill -0 $server 2>/dev/null || fail "the S3 server ended: $(cat "$dir/s3.log")"
        sleep 0.05
    done
    fail "the S3 server does not listen: $(cat "$dir/s3.log")"
}
s3_down() { { kill -9 $server; wait $server; } 2>/dev/null; }
s3_config() {
    printf '[here]\ntype = s3\nprovider = Other\nendpoint = http://127.0.0.1:%s\naccess_key_id = key\nsecret_access_key = secret\nforce_path_style = true\nregion = us-east-1\n' $port >"$RCLONE_CONFIG"
    bucket=here:bucket/run files=
    [ -n "$s3" ] && files=$store/bucket/run
}

# --- runs, of no fixed length: each is ended when something was seen, and compared with an uninterrupted one that ends at the same step
start() { # DIR OPTION...: in the background
    begin --set output_dir="$1" --set remote="$bucket" --set remote_minutes=0.005 --set preempt_grace_seconds=100 "${@:2}"
}
uploads() { # DIR COUNT: waits until so many were told
    until [ "$(grep -c '"event":"remote"' "$1/events.jsonl" 2>/dev/null)" -ge "$2" ] 2>/dev/null; do alive; done
}
lose() { # DIR: the machine, with its disk
    kill -9 $pid
    wait $pid 2>/dev/null
    from=$(last_event "$1" remote remote_step)
    rm -rf "$1" "$XDG_CACHE_HOME"
}
go_on() { # DIR WHAT: what was started goes on, no further back than step $from
    await 'resuming from'
    steps_done 3 "$1/metrics.jsonl"
    end_by TERM
    local at
    at=$(last_event "$1" resume step)
    [ "$at" -ge "$from" ] || fail "$store_name: $2: step $from was there, it went on from step $at"
    as_far "$1" "$store_name: $2"
    steps=$((steps + $(wc -l <"$1/metrics.jsonl")))
    rm -rf "$1"
}
place=0 steps=0
new_place() {
    place=$((place + 1))
    bucket=${bucket%run*}run-$place
    [ -n "$files" ] && files=${files%/*}/run-$place
}

lost_machines() { # N: the last one comes back with neither data nor model: it knows nothing but the name of the remote
    new_place
    for i in $(seq "$1"); do
        start "$dir/a" --set remote_base=true
        uploads "$dir/a" $((3 * i))
        lose "$dir/a"
    done
    mv "$dir/train.jsonl" "$dir/train.gone"
    mv "$dir/model" "$dir/model.gone"
    : >"$dir/err"
    "$pawl" train "$bucket" --set logging_steps=1000000 2>"$dir/err" &
    pid=$!
    children+=($pid)
    await 'resuming from'
    mv "$dir/train.gone" "$dir/train.jsonl"
    mv "$dir/model.gone" "$dir/model"
    go_on "$dir/a" "a bare machine"
}
outage() {
    new_place
    start "$dir/b"
    uploads "$dir/b" 1
    ${kind}_down
    await "the remote can't be written"
    steps_done 3 "$dir/b/metrics.jsonl"
    ${kind}_up
    await 'the remote is written again'
    [ "$(grep -c "the remote can't be written" "$dir/err")" = 1 ] || fail "$store_name: one outage is said more than once: $(cat "$dir/err")"
    grep -q '"what":"remote"' "$dir/b/events.jsonl" || fail "$store_name: the outage is no event"
    lose "$dir/b"
    start "$dir/b"
    go_on "$dir/b" "an outage"
}
take_over() {
    new_place
    start "$dir/c"
    first=$pid
    uploads "$dir/c" 1
    cp "$dir/err" "$dir/err.kept"
    "$pawl" train "$dir/run.yaml" --set logging_steps=1000000 --set output_dir="$dir/d" --set remote="$bucket" --set remote_minutes=0.005 2>"$dir/err.second" &
    second=$!
    children+=($second)
    wait $first
    rc=$?
    [ $rc = 3 ] || fail "$store_name: the first of two machines: exit $rc, expected 3: $(cat "$dir/err")"
    grep -q "another machine took over.*$(hostname) pid $second" "$dir/err" || fail "$store_name: who took over is not said: $(cat "$dir/err")"
    cp "$dir/err.second" "$dir/err"
    pid=$second from=0
    steps_done 3 "$dir/d/metrics.jsonl"
    kill -TERM $pid
    wait $pid
    [ $? = 75 ] || fail "$store_name: the second of two machines: $(cat "$dir/err.second")"
    as_far "$dir/d" "$store_name: the second of two machines"
    rm -rf "$dir/c" "$dir/d"
}
damage() {
    new_place
    start "$dir/e"
    uploads "$dir/e" 3
    kill -9 $pid
    wait $pid 2>/dev/null
    rm -rf "$dir/e" "$XDG_CACHE_HOME"
    newest=$(ls "$files"/index/*.manifest | tail -1)
    head=$(grep -o '"head": "[^"]*' "$newest" | sed 's/.*"//')
    object=$(grep "\"name\": \"$head" "$newest" | grep 'slot\|optimizer' | grep -o '"object": "[^"]*' | sed 's/.*"//' | head -1)
    size=$(stat -c %s "$files/$object")
    printf '\377\376\375' | dd of="$files/$object" bs=1 seek=$((size - 100)) conv=notrunc status=none
    from=0
    start "$dir/e"
    await "$object.*damaged"
    go_on "$dir/e" "a damaged newest state"
}
notice() {
    new_place
    start "$dir/f"
    uploads "$dir/f" 1
    end_by TERM
    from=$(last_event "$dir/f" preempted step)
    rm -rf "$dir/f" "$XDG_CACHE_HOME"
    start "$dir/f"
    go_on "$dir/f" "a notice"
}
without_a_journal() { # checkpoints are made for the uploads
    new_place
    start "$dir/g" --set journal=false --set save_steps=100000
    uploads "$dir/g" 2
    lose "$dir/g"
    start "$dir/g" --set journal=false
    go_on "$dir/g" "no journal"
}
an_end() { # what is finished is there, and another machine has nothing left to do
    new_place
    local args=(--set remote="$bucket" --set num_epochs=2)
    rm -rf "$dir/whole"
    run "$dir/whole" --set num_epochs=2 2>"$dir/err" || fail "the uninterrupted run: $(cat "$dir/err")"
    run "$dir/h" "${args[@]}" 2>"$dir/err" || fail "$store_name: a short run: $(cat "$dir/err")"
    rm -rf "$dir/h" "$XDG_CACHE_HOME"
    run "$dir/h" "${args[@]}" 2>"$dir/err" || fail "$store_name: what is finished: $(cat "$dir/err")"
    same "$dir/h" "$store_name: what is finished"
    run "$dir/h" "${args[@]}" 2>"$dir/err" || fail "$store_name: what is finished here and there: $(cat "$dir/err")"
    [ "$(grep -c '"event":"finished"' "$dir/h/events.jsonl")" = 1 ] || fail "$store_name: what is finished was trained again"
    by_hand "$dir/h"
    rm -rf "$dir/h" "$dir/whole"
}
by_hand() { # DIR: pawl ckpt on what is there, which DIR has too
    local out=$dir/out object newest
    "$pawl" ckpt ls --json "$bucket" >"$out" && grep -q '"step":[0-9]*,"generation":[0-9]*,"path":"'"$bucket"'/index/[^"]*","verified":true,"reason":""' "$out" || fail "ckpt ls: $(cat "$out")"
    "$pawl" ckpt verify "$bucket" >"$out" || fail "ckpt verify: $(cat "$out")"
    "$pawl" ckpt show "$bucket" | grep -q 'goes on from checkpoint-' || fail "ckpt show: $("$pawl" ckpt show "$bucket")"
    "$pawl" ckpt diff "$bucket" "$1" | grep -q '^\([0-9]*\) tensors, \1 of them equal' || fail "ckpt diff: $("$pawl" ckpt diff "$bucket" "$1")"
    "$pawl" ckpt prune --keep 2 "$bucket" | grep -q removed || fail "ckpt prune"
    [ -n "$files" ] || return
    newest=$(ls "$files"/index/*.manifest | tail -1)
    object=$files/$(grep -o '"object": "[^"]*optimizer.safetensors' "$newest" | sed 's/.*"//' | head -1)
    printf '\377\376\375' | dd of="$object" bs=1 seek=1000 conv=notrunc status=none
    "$pawl" ckpt verify "$bucket" >"$out" 2>&1 && fail "ckpt verify does not see a changed byte"
    grep -q "NOT USABLE" "$out" || fail "ckpt verify: $(cat "$out")"
    truncate -s 1000 "$object"
    "$pawl" ckpt ls "$bucket" | grep -q 'NOT USABLE: checkpoint-.*optimizer.safetensors.*1000 bytes' || fail "ckpt ls: $("$pawl" ckpt ls "$bucket")"
}
scenarios() {
    lost_machines "$1"
    outage
    take_over
    [ -z "$files" ] || damage
    notice
    without_a_journal
    an_end
}

# What can't work is said before anything is trained.
refusals() {
    new_place
    mkdir -p "$dir/no-rclone"
    PATH=$dir/no-rclone run "$dir/r" --set remote="$bucket" 2>"$dir/err" && fail "without rclone it trains"
    grep -q "apt install rclone" "$dir/err" || fail "what to install is not said: $(cat "$dir/err")"
    run "$dir/r" --set remote=nowhere:bucket/x 2>"$dir/err" && fail "with an unknown remote it trains"
    grep -q "nowhere.*rclone config" "$dir/err" || fail "what to do about an unknown remote is not said: $(cat "$dir/err")"
    mkdir -p "$files/index"
    for i in 1 2 3; do : >"$files/index/g000000000$i-0123456789abcdef-0000000$i.claim"; done
    run "$dir/r" --set remote="$bucket" --set max_fruitless_starts=3 2>"$dir/err" && fail "a restart loop over new machines goes on"
    grep -q "3 starts in a row" "$dir/err" || fail "a restart loop is not told: $(cat "$dir/err")"
    rm -r "$files"
    ${kind}_down
    run "$dir/r" --set remote="$bucket" 2>"$dir/err" && fail "an empty directory and a remote that does not answer: it begins anew"
    grep -q -- "--fresh" "$dir/err" || fail "--fresh is not named: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "not one line: $(cat "$dir/err")"
    # With a state of its own it goes on, and an end that could not be uploaded is a failure.
    stop_at 2 "$dir/r" --set num_epochs=2
    run "$dir/r" --set num_epochs=2 --set remote="$bucket" 2>"$dir/err" && fail "a run whose end is not there says that it is done"
    grep -q "does not answer, training goes on" "$dir/err" || fail "a remote that does not answer is not told: $(cat "$dir/err")"
    grep -q "the remote has step 0, not step" "$dir/err" || fail "what is there at the end is not told: $(cat "$dir/err")"
    ${kind}_up
    run "$dir/r" --set num_epochs=2 --set remote="$bucket" 2>"$dir/err" || fail "the same command once more: $(cat "$dir/err")"
    grep -q finished "$dir/r/events.jsonl" && ls "$files"/index/*.manifest >/dev/null || fail "the end was not uploaded afterwards"
    rm -rf "$dir/r"
}

wipes=$([ "$long" = 1 ] && echo 8 || echo 2)
told=
if [ "${PAWL_REMOTE_ONLY:-local}" = local ]; then
    kind=local store_name="a directory"
    local_config
    local_up
    scenarios "$wipes"
    refusals
    told="a directory through rclone"
fi
if [ "$long" = 1 ]; then
    s3=${PAWL_RCLONE_S3:-}
    # An old rclone answers `serve s3 --help` with the help of `serve`.
    if [ -n "$s3" ] || python3 -c 'import moto.server' 2>/dev/null; then
        kind=s3 store_name="S3" store=$dir/s3
        s3_up
        s3_config
        scenarios "$wipes"
        told="$told${told:+, and }S3 ($([ -n "$s3" ] && "$s3" version | head -1 || echo moto))"
    else
        told="$told${told:+; }S3 skipped: neither \$PAWL_RCLONE_S3, an rclone with \`serve s3\`, nor moto is here"
    fi
fi
echo "remote: $told, $("$rclone_here" version | head -1) uploading: $wipes wiped machines, one of them bare of data and model, an outage, a take-over (exit 3), a damaged state, a notice, no journal, ckpt by hand: $steps steps, the same end"
