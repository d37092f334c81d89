#!/bin/bash
# The file system goes away under the run: ext4 on a loop device is shut down (the ioctl that stands for a pulled plug: what its journal does not hold is gone), or made read-only
# by an error. Training goes on and says so; remounted, the run goes on from no less than what it called durable, to the same end.
epochs=2000
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "shutdown: skipped, no python3 for the ioctl"
command -v mkfs.ext4 >/dev/null || skip "shutdown: skipped, no mkfs.ext4"
truncate -s 96M "$dir/image"
mkfs.ext4 -q "$dir/image"
loop=$(losetup -f --show "$dir/image" 2>/dev/null) || skip "shutdown: skipped, loop devices are not permitted here"
mkdir "$dir/disk"
up() {
    e2fsck -p "$loop" >/dev/null 2>&1
    mount -t ext4 -o errors=remount-ro "$loop" "$dir/disk" 2>/dev/null || return 1
    mounted=$dir/disk
}
up || skip "shutdown: skipped, mounting ext4 is not permitted here"
out=$dir/disk/run
go_down() { # FLAG: 0 writes everything first, 1 only the file system's own journal, 2 nothing
    python3 -c 'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", int(sys.argv[2])))' "$dir/disk" "$1" 2>"$dir/why"
}
by_error() { echo 1 >"/sys/fs/ext4/$(basename "$loop")/trigger_fs_error"; }
RANDOM=${PAWL_SEED:-7}
rounds=$([ "$long" = 1 ] && echo 25 || echo 1)
downs=0 errors=0 no_errors=
for ((round = 0; round < rounds; round++)); do
    for how in 2 1 0 error; do
        begin --set output_dir="$out"
        steps_done $((3 + RANDOM % 20)) "$out/metrics.jsonl"
        if [ $how = error ]; then
            by_error 2>/dev/null || { kill -9 $pid; wait $pid 2>/dev/null; no_errors=" (no trigger_fs_error here: the read-only mount is left out)"; continue; }
            errors=$((errors + 1))
        else
            go_down $how || skip "shutdown: skipped, the ioctl is not permitted here: $(tail -1 "$dir/why")"
            downs=$((downs + 1))
        fi
        await 'training goes on'
        end_by TERM
        durable=$(grep -o 'durable is step [0-9]*\|stopped by SIGTERM at step [0-9]* of [0-9]*; all' "$dir/err" | grep -o 'step [0-9]*' | grep -o '[0-9]*')
        [ -n "$durable" ] || fail "the run does not say what is durable: $(tail -3 "$dir/err")"
        umount "$dir/disk" && up || fail "the file system can't be mounted again"
        park "$out"
        from=$(last_event "$out" resume step)
        [ "$from" -ge "$durable" ] || fail "shutdown $how: step $durable was durable, the resume begins at $from"
    done
done
as_far "$out" "shutdowns"
echo "shutdown: ext4 shut down $downs times, made read-only by an error $errors times$no_errors: training went on and said so; remounted, no durable step was lost; $(wc -l <"$out/metrics.jsonl") steps, the same end"
