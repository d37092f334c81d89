#!/bin/bash
# Every system call of a run's saves, journal and records goes wrong in turn, once and for ever: training goes on, says so, and comes to the same end; what was durable before verifies.
epochs=1
. "$(dirname "$0")/common.sh"
sed -i "s/^save_steps:.*/save_steps: 3/" "$dir/run.yaml"
preload faults
whole
export FAULT_DIR=$dir/run
go() { # AT KIND: the exit code
    rm -rf "$dir/run"
    FAULT_AT=$1 FAULT_KIND=$2 FAULT_COUNT=$dir/count LD_PRELOAD=$dir/preload.so "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/run" 2>"$dir/err"
}
go -1 none || fail "a run without faults: $(cat "$dir/err")"
calls=$(cat "$dir/count")
[ "$calls" -gt 60 ] || fail "only $calls system calls behind the first step: preload.c is not asked"
stride=${PAWL_STRIDE:-$([ "$long" = 1 ] && echo 1 || echo 31)}
n=0 said=0 ended=0
for kind in EIO ENOSPC EINTR short EIO-ever ENOSPC-ever; do
    for ((at = n % stride; at < calls; at += stride)); do
        go $at $kind
        rc=$?
        what="$kind at call $at of $calls"
        [ "$(wc -l <"$dir/run/metrics.jsonl")" = "$steps" ] || case $kind in *-ever) ;; *) fail "$what: training ended at step $(wc -l <"$dir/run/metrics.jsonl") of $steps: $(cat "$dir/err")" ;; esac
        case $kind in
        *-ever) # the last checkpoint can't be written: said; the same command goes on once the disk does
            [ $rc = 0 ] || [ $rc = 1 ] || fail "$what: exit $rc: $(cat "$dir/err")"
            [ $rc = 0 ] || ended=$((ended + 1))
            "$pawl" ckpt verify -q "$dir/run" >"$dir/verify" 2>&1 || fail "$what: a checkpoint does not verify: $(cat "$dir/verify")"
            run "$dir/run" 2>"$dir/again" || fail "$what, and then without: $(cat "$dir/again")"
            ;;
        *) [ $rc = 0 ] || fail "$what: exit $rc: $(cat "$dir/err")" ;;
        esac
        [ -s "$dir/err" ] && said=$((said + 1))
        case $kind in EINTR | short) [ -s "$dir/err" ] && fail "$what: is no failure: $(cat "$dir/err")" ;; esac
        same "$dir/run" "$what"
        n=$((n + 1))
    done
done
echo "faults: $n faults (EIO, ENOSPC, EINTR, short write; EIO and ENOSPC for ever) in the $calls system calls behind the first step of a run: $said said, training always came to its last step$([ $ended -gt 0 ] && echo ", $ended times the last checkpoint had to wait for the next start"); the same end"
