#!/bin/bash
# Two machines (network namespaces) with a rank each and no common output_dir, and the cable between them is cut: both end with 75 once comm_timeout is over, and the run goes on
# elsewhere with the same bits.
set -u
pawl=$1 root=$2
a=pawl-$$-a b=pawl-$$-b
ip netns add $a 2>/dev/null && ip netns add $b && ip link add va netns $a type veth peer name vb netns $b || {
    ip netns del $a 2>/dev/null
    echo "no network namespaces here (root and ip are needed): not tested"
    exit 77
}
dir=$(mktemp -d)
children=()
leave() {
    for p in "${children[@]}"; do kill -9 "$p" 2>/dev/null; done
    ip netns del $a
    ip netns del $b
    rm -rf "$dir"
}
trap leave EXIT
export XDG_CACHE_HOME=$dir/cache OMP_WAIT_POLICY=passive
fail() { echo "FAILED: $*"; exit 1; }
ip -n $a addr add 10.77.0.1/24 dev va && ip -n $b addr add 10.77.0.2/24 dev vb && ip -n $a link set va up && ip -n $b link set vb up || fail "the cable"

awk 'BEGIN { for (i = 1; i <= 61; i++) printf "{\"prompt\": \"a%d b%d c%d\", \"completion\": \" d%d e%d\"}\n", i, i % 7, i % 5, i % 3, i }' >"$dir/train.jsonl"
cat >"$dir/run.yaml" <<YAML
base_model: $root/tests/golden/llama
datasets:
  - path: $dir/train.jsonl
    type: prompt_completion
sequence_len: 128
micro_batch_size: 2
global_batch_size: 10
num_epochs: 15
save_steps: 2
save_total_limit: 100
spot: off
comm_timeout: 4
max_fruitless_starts: 1000
YAML
mkdir "$dir/cut"
rank() { # RANK NAMESPACE; ip gives each mounts of its own
    local hide=true
    [ "$1" = 1 ] && hide="mount -t tmpfs none $dir/cut"
    RANK=$1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 exec ip netns exec "$2" sh -c "$hide && exec $pawl train $dir/run.yaml --set output_dir=$dir/cut --set threads=1"
}
rank 0 $a 2>"$dir/err0" &
first=$!
rank 1 $b 2>"$dir/err1" &
second=$!
children=("$first" "$second")
while [ "$(wc -l 2>/dev/null <"$dir/cut/metrics.jsonl" || echo 0)" -lt 3 ] && kill -0 $first 2>/dev/null; do sleep 0.02; done
ip -n $b link set vb down
begin=${EPOCHREALTIME/./}
wait $first
rc0=$?
wait $second
rc1=$?
milliseconds=$(((${EPOCHREALTIME/./} - begin) / 1000))
[ $rc0 = 75 ] && [ $rc1 = 75 ] || fail "exit $rc0 and $rc1, expected 75 both: $(cat "$dir/err0" "$dir/err1")"
grep -q 'rank 1 is gone: silent' "$dir/err0" || fail "rank 0: $(cat "$dir/err0")"
grep -q 'rank 0 is gone: silent' "$dir/err1" || fail "rank 1: $(cat "$dir/err1")"
[ $milliseconds -lt 30000 ] || fail "both had ended after $milliseconds ms"

grep -q 'is not one file system' "$dir/err0" || fail "rank 0 does not say that it collects: $(cat "$dir/err0")"
ls "$dir/cut" | grep -q checkpoint-2 || fail "no checkpoint of two machines: $(ls "$dir/cut")"

run() { "$pawl" train "$dir/run.yaml" -q --set output_dir="$@"; }
run "$dir/cut" --ranks 3 || fail "the run after the cut"
run "$dir/whole" || fail "one rank"
strip='s/"tokens_per_second".*//'
cmp "$dir/whole/adapter/adapter_model.safetensors" "$dir/cut/adapter/adapter_model.safetensors" && cmp <(sed "$strip" "$dir/whole/metrics.jsonl") <(sed "$strip" "$dir/cut/metrics.jsonl") ||
    fail "the bits differ"
echo "link: cut; both ranks had ended after $milliseconds ms (comm_timeout 4 s); 0 differences afterwards"
