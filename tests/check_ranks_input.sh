#!/bin/bash
# Ranks that launchers start, by the environment variables that they set; and what is wrong between ranks is refused in one line that names the rank and the thing.
set -u
pawl=$1 root=$2
. "$root/tests/tiny_run.sh"
tiny_run_yaml <<YAML
global_batch_size: 4
max_steps: 2
spot: off
threads: 1
YAML
sed -i 's|path: .*|path: train.jsonl|' "$dir/run.yaml"
mkdir "$dir/else"
sed '3d' "$dir/train.jsonl" >"$dir/else/train.jsonl"
cd "$dir" || exit 1
new_port() { port=$((20000 + RANDOM % 12000)); }
# rank N OPTION...: as torchrun would start it, its messages in err.N
rank() { RANK=$1 WORLD_SIZE=${world:-2} LOCAL_RANK=$1 LOCAL_WORLD_SIZE=${world:-2} MASTER_ADDR=${host:-127.0.0.1} PAWL_PORT=$port "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/out" "${@:2}" 2>"$dir/err.$1"; }
# Both of them with what is in first and second: rc0 and rc1. Again where somebody else had the port.
first=() second=()
both() {
    for attempt in 1 2 3 4 5; do
        new_port
        rm -rf "$dir/out"
        (
            cd "$dir/${elsewhere:-}" || exit 99
            [ -n "${isa:-}" ] && export PAWL_ISA=$isa
            world=${world1:-2} rank 1 "${second[@]}"
        ) &
        children=($!)
        rank 0 "${first[@]}"
        rc0=$?
        wait "${children[0]}"
        rc1=$?
        grep -q 'is in use' "$dir/err.0" || break
    done
}
refused() { # WHAT PATTERN: one line of rank 0, and both end with 1
    [ $rc0 = 1 ] && [ $rc1 = 1 ] && grep -q "$2" "$dir/err.0" && [ "$(wc -l <"$dir/err.0")" = 1 ] || fail "$1: exit $rc0 and $rc1: $(cat "$dir/err.0" "$dir/err.1")"
}

run "$dir/whole" --ranks 2 || fail "two ranks"
second=(--set lora_r=4); both
refused "another configuration" 'rank 1: the configuration is not that of rank 0 (hash [0-9a-f]*, rank 0 has [0-9a-f]*): give all ranks the same'
second=(--set zero_stage=0); both
refused "another zero_stage" 'rank 1: zero_stage is not'
second=(); elsewhere=else; both
refused "other data" 'rank 1: the training data is not that of rank 0'
elsewhere=; world1=3; both
refused "another number of ranks" 'rank 1 was started as one of 3 ranks, rank 0 as one of 2'
world1=2

# Processors that round differently: said once, by one rank, and the run goes on.
isa=portable; both
unset isa
[ $rc0 = 0 ] && [ $rc1 = 0 ] && [ "$(cat "$dir/err.0" "$dir/err.1" | grep -c 'may round differently')" = 1 ] || [ "$("$pawl" doctor 2>/dev/null | grep -c avx)" = 0 ] ||
    fail "two kinds of CPU: exit $rc0 and $rc1: $(cat "$dir/err.0" "$dir/err.1")"

# A port that is held, by a run that waits for its second rank; which then comes, late.
listens() { awk -v port=":$(printf %04X "$port")\$" '$4 == "0A" && $2 ~ port { found = 1 } END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null; }
for attempt in 1 2 3 4 5; do
    new_port
    rm -rf "$dir/out"
    rank 0 --set comm_timeout=600 &
    waiting=$!
    children=("$waiting")
    until listens || ! kill -0 "$waiting" 2>/dev/null; do sleep 0.02; done
    kill -0 "$waiting" 2>/dev/null && break
done
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 PAWL_PORT=$port "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/second" 2>"$dir/err"
[ $? = 1 ] && grep -q "port $port is in use: .* PAWL_PORT" "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ] || fail "a port in use: $(cat "$dir/err")"
rank 1 --set comm_timeout=600 && wait "$waiting" || fail "a rank that came late: $(cat "$dir/err.0" "$dir/err.1")"
same "$dir/out" "a rank that came late"
RANK=1 WORLD_SIZE=2 MASTER_ADDR=no-such-host.invalid "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/second" 2>"$dir/err"
[ $? = 1 ] && grep -q "'no-such-host.invalid', does not resolve" "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ] || fail "a host that does not resolve: $(cat "$dir/err")"
"$pawl" train "$dir/run.yaml" -q --ranks 5 --set output_dir="$dir/many" 2>"$dir/err"
[ $? = 1 ] && grep -q 'start 1 to 4 ranks' "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ] || fail "more ranks than rows: $(cat "$dir/err")"

# Two runs at once on one machine, neither of which was given a port.
run "$dir/left" --ranks 2 & job=$!
children=("$job")
run "$dir/right" --ranks 2 && wait $job || fail "two runs at once"
same "$dir/left" "one of two runs at once"
same "$dir/right" "the other of two runs at once"

# What srun and the Job of scripts/launch/kubernetes.yaml set.
launched() { # WHAT VARIABLE=VALUE...: with @ for the rank
    for attempt in 1 2 3 4 5; do
        new_port
        rm -rf "$dir/out"
        env $(printf '%s\n' "${@:2}" | sed 's/@/1/') PAWL_PORT=$port "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/out" 2>"$dir/err.1" &
        children=($!)
        env $(printf '%s\n' "${@:2}" | sed 's/@/0/') PAWL_PORT=$port "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/out" 2>"$dir/err.0"
        rc0=$?
        wait "${children[0]}"
        rc1=$?
        grep -q 'is in use' "$dir/err.0" || break
    done
    [ $rc0 = 0 ] && [ $rc1 = 0 ] || fail "$1: exit $rc0 and $rc1: $(cat "$dir/err.0" "$dir/err.1")"
    [ "$(grep -c '"event":"ranks".*"ranks":2' "$dir/out/events.jsonl")" = 1 ] || fail "$1: not two ranks: $(tail -2 "$dir/out/events.jsonl")"
    same "$dir/out" "$1"
}
launched "srun" SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_LOCALID=@ SLURM_STEP_ID=0 SLURM_NTASKS_PER_NODE=2 SLURM_STEP_NODELIST=localhost
launched "srun on two nodes" SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost,nowhere
job=$(sed -n 's/.*- {name: \([A-Z_]*\), value: "\{0,1\}\([^"}]*\)"\{0,1\}}.*/\1=\2/p' "$root/scripts/launch/kubernetes.yaml" | sed '/PAWL_PORT/d; s/WORLD_SIZE=4/WORLD_SIZE=2/; s/^MASTER_ADDR=.*/MASTER_ADDR=localhost/; s/^LOCAL_WORLD_SIZE=2/LOCAL_WORLD_SIZE=1/')
launched "a Job's pods" RANK=@ $job
echo "ranks' input: all refused in one line; a late rank, two runs at once, srun's and a Job's variables: the same bits"
