#!/bin/bash
# A disk that fills up: training goes on, says so, and what could not be written then is durable once there is room again.
epochs=2000
. "$(dirname "$0")/common.sh"
mkdir "$dir/disk"
mount -t tmpfs -o size=24m tmpfs "$dir/disk" 2>/dev/null || skip "full: skipped, mounting is not permitted here"
mounted=$dir/disk
out=$dir/disk/run
begin --set output_dir="$out" --set save_steps=20
rounds=$([ "$long" = 1 ] && echo 10 || echo 1)
for ((round = 0; round < rounds; round++)); do
    steps_done 25 "$out/metrics.jsonl"
    : >"$dir/err"
    cat /dev/zero >"$dir/disk/ballast" 2>/dev/null
    await 'is not saved as a checkpoint, training goes on: .*No space left'
    await "the journal can't be written, training goes on and it is tried again: .*No space left"
    rm "$dir/disk/ballast"
    await 'the journal is written again'
    saved=$(grep -c '"event":"checkpoint"' "$out/events.jsonl")
    until [ "$(grep -c '"event":"checkpoint"' "$out/events.jsonl")" -gt "$saved" ]; do alive; done
done
end_by TERM
as_far "$out" "a full disk"
echo "full: the disk was full $rounds times: training went on, said so and recovered; $(wc -l <"$out/metrics.jsonl") steps, the same end"
