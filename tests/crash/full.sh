#!/bin/bash
# A disk that fills up, and one that is remounted read-only: training goes on, says so, and what could not be written then is durable once there is room again.
epochs=60
. "$(dirname "$0")/common.sh"
mkdir "$dir/disk"
mount -t tmpfs -o size=12m tmpfs "$dir/disk" 2>/dev/null || skip "full: skipped, mounting is not permitted here"
mounted=$dir/disk
whole
await() { # PATTERN: until the run has said so
    for _ in $(seq 600); do
        grep -q "$1" "$dir/err" && return
        kill -0 $pid 2>/dev/null || fail "the run ended while waiting for \"$1\": $(cat "$dir/err")"
        sleep 0.05
    done
    fail "was not said: $1: $(cat "$dir/err")"
}
"$pawl" train "$dir/run.yaml" --set output_dir="$dir/disk/run" --set logging_steps=1000 2>"$dir/err" &
pid=$!
children+=($pid)
until [ -e "$dir/disk/run/checkpoint-5" ]; do sleep 0.05; kill -0 $pid || fail "$(cat "$dir/err")"; done
head -c 20000000 /dev/zero >"$dir/disk/ballast" 2>/dev/null
await 'not saved as a checkpoint, training goes on'
rm "$dir/disk/ballast"
: >"$dir/err"
await 'is written again'
: >"$dir/err"
mount -o remount,ro "$dir/disk" 2>/dev/null && {
    await 'training goes on'
    mount -o remount,rw "$dir/disk"
    await 'is written again'
    ro=", a read-only remount"
}
wait $pid || fail "the run that went through a full disk: exit $?: $(cat "$dir/err")"
same "$dir/disk/run" "a full disk"
echo "full: a full disk${ro:-}: training went on, said so and recovered; $steps steps, the same end"
