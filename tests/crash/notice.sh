#!/bin/bash
# Notices: signals, and the three clouds played by a metadata server on the loopback interface. All is durable within the notice, exit 75, the same end.
epochs=400
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "notice: skipped, no python3 for the metadata server"
port=$((20000 + $$ % 20000))
n=0
stopped() { # DIR WHAT EXIT: durable, within the notice, and the event says what was saved
    [ "$3" = 75 ] || fail "$2: exit $3, expected 75: $(cat "$dir/err")"
    local saved left
    saved=$(last_event "$1" preempted saved) left=$(last_event "$1" preempted left_seconds)
    [ "$saved" = checkpoint ] || [ "$saved" = journal ] || fail "$2: saved: $saved: $(tail -1 "$1/events.jsonl")"
    case $left in -*) fail "$2: $left s were left" ;; esac
    [ "$(last_event "$1" preempted durable_step)" -ge "$(last_event "$1" preempted step)" ] || fail "$2: the last step is not durable"
    n=$((n + 1))
}
serve() { # CLOUD AFTER LEAD
    port=$((port + 1))
    python3 "$root/tests/crash/metadata.py" $port "$1" "$2" "$3" 2>/dev/null &
    server=$!
    children+=($server)
    for _ in $(seq 100); do
        (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && break
        sleep 0.05
    done
}
signals="TERM INT USR1"
(($((16#$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status))) & 1)) || signals+=" HUP" # under nohup it is ignored, as nohup's user wants it
for sig in $signals; do
    "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/$sig" 2>"$dir/err" &
    pid=$!
    until [ -s "$dir/$sig/metrics.jsonl" ]; do sleep 0.05; kill -0 $pid || fail "SIG$sig: $(cat "$dir/err")"; done
    kill -$sig $pid
    wait $pid
    stopped "$dir/$sig" SIG$sig $?
    as_far "$dir/$sig" SIG$sig
done
for cloud in aws gcp azure; do
    serve $cloud 1 4
    AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$port GCE_METADATA_HOST=127.0.0.1:$port PAWL_AZURE_METADATA_ENDPOINT=http://127.0.0.1:$port \
        timeout 300 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/$cloud" --set spot=auto 2>"$dir/err"
    stopped "$dir/$cloud" $cloud $?
    [ -n "$(last_event "$dir/$cloud" instance instance)" ] || fail "$cloud: the instance is not named"
    kill $server
    [ "$long" = 1 ] && as_far "$dir/$cloud" $cloud
done
serve rebalance 0 120
AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$port begin --set output_dir="$dir/rebalance" --set spot=aws --set save_steps=100000 --set num_epochs=100000
until grep -q '"event":"checkpoint"' "$dir/rebalance/events.jsonl" 2>/dev/null; do alive; done
steps_done 1 "$dir/rebalance/metrics.jsonl"
end_by TERM
kill $server
echo "notice: ${signals// /, } and 3 clouds: exit 75 with all durable before the time was up ($n), the same end; a rebalance recommendation saves and goes on"
