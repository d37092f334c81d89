#!/bin/bash
# Several ranks on emulated cards, over the stand-in for NCCL: the bits of one rank on one card, whatever the seeds; a rank that dies ends all with 75, and the run goes on with any other number; who
# gets which card, and where the exchange goes through the host, with the reason said.
set -u
pawl=$1 root=$2
. "$root/tests/emu/card_run.sh"
card_run_yaml <<YAML
micro_batch_size: 1
global_batch_size: 5
save_steps: 2
spot: off
max_fruitless_starts: 1000
YAML
run() { "$pawl" train "$dir/run.yaml" -q --set output_dir="$@" 2>"$dir/err" || fail "$*: exit $?: $(cat "$dir/err")"; }

PAWL_EMU_SEED=1 run "$dir/whole"
grep -q '"device":"cuda:0 emulated"' "$dir/whole/events.jsonl" || fail "it did not run on the card: $(head -1 "$dir/whole/events.jsonl")"

# Without --ranks a process for each card.
count=0
for cell in 2,0, 2,1,--ranks=2 3,0,--ranks=3 3,1,; do
    IFS=, read -r n z how <<<"$cell"
    PAWL_EMU_CARDS=$n PAWL_EMU_SEED=$((n + 10 * z)) run "$dir/grid" $how --set zero_stage="$z"
    [ -s "$dir/err" ] && fail "$n ranks, zero_stage $z: $(cat "$dir/err")"
    grep -q "\"ranks\":$n,.*\"transport\":\"nccl\"" "$dir/grid/events.jsonl" || fail "$n ranks, zero_stage $z: not over NCCL: $(grep '"ranks"' "$dir/grid/events.jsonl")"
    same "$dir/grid" "$n ranks, zero_stage $z"
    rm -rf "$dir/grid"
    count=$((count + 1))
done

# A rank is killed once a step is recorded: the others end, all durable, and another number goes on.
for attempt in 1 2 3 4 5; do # a run that was over before it could be hurt is made again
    rm -rf "$dir/hurt"
    PAWL_EMU_CARDS=3 PAWL_EMU_SEED=5 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/hurt" 2>"$dir/err" &
    job=$!
    children=("$job")
    until [ "$(lines "$dir/hurt")" -ge 1 ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
    read -ra rank <<<"$(cat "/proc/$job/task/$job/children" 2>/dev/null)"
    [ "$(lines "$dir/hurt")" -lt 4 ] && kill -9 "${rank[1]}" 2>/dev/null && break
    wait $job
done
begin=${EPOCHREALTIME/./}
wait $job
rc=$?
killed=$(((${EPOCHREALTIME/./} - begin) / 1000))
[ $rc = 75 ] || fail "a killed rank: exit $rc, expected 75: $(cat "$dir/err")"
grep -q 'rank 1 is gone' "$dir/err" || fail "a killed rank is not named: $(cat "$dir/err")"
[ "$killed" -lt 61000 ] || fail "a killed rank: all had ended after $killed ms"
PAWL_EMU_CARDS=2 PAWL_EMU_SEED=6 run "$dir/hurt"
same "$dir/hurt" "a killed rank, then two"
grep '"event":"replay"' "$dir/hurt/events.jsonl" | grep -q '"proved":false,"possible":true' && fail "a step computed again differs: $(grep '"replay"' "$dir/hurt/events.jsonl")"

# A call of NCCL fails on one rank in the first step, which nobody else hears of: all end with 75 and its text, nothing of the step counts, and the run goes on.
PAWL_EMU_CARDS=2 PAWL_EMU_NCCL_FAIL=ncclSend@1 timeout 100 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/broken" --set zero_stage=0 2>"$dir/err"
rc=$?
[ $rc = 75 ] && grep -q 'rank 1: ncclSend .* durable is step 0: start again' "$dir/err" || fail "a failed call: exit $rc, expected 75: $(cat "$dir/err")"
PAWL_EMU_CARDS=2 run "$dir/broken" --set zero_stage=0
same "$dir/broken" "a failed call, then again"

# By a launcher's environment each takes the card of its local rank.
by_hand() { # DEVICE DEVICE: of the two ranks
    rank() { RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 PAWL_PORT=$port PAWL_EMU_CARDS=2 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/hand" --set device="$2"; }
    for attempt in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 12000))
        rank 1 "$2" 2>"$dir/err1" &
        rank 0 "$1" 2>"$dir/err"
        rc=$?
        wait $!
        grep -q 'is in use' "$dir/err" || break
    done
}
by_hand auto auto
[ $rc = 0 ] && grep -q '"ranks":2,.*"transport":"nccl"' "$dir/hand/events.jsonl" || fail "by a launcher: exit $rc: $(cat "$dir/err" "$dir/err1")"
same "$dir/hand" "by a launcher"
rm -rf "$dir/hand"

# One rank on the CPU and one on a card round differently, but sum the same gradients: losses within 2^-9 (check_train.sh), norms within 2%.
by_hand cpu cuda:1
[ $rc = 0 ] && grep -q 'through the host (tcp): rank 0 has no card' "$dir/err" || fail "a CPU and a card: exit $rc: $(cat "$dir/err" "$dir/err1")"
paste -d, "$dir/whole/metrics.jsonl" "$dir/hand/metrics.jsonl" | awk -F'[:,]' '
    function far(a, b, share) { return !((a > b ? a - b : b - a) < a * share) }
    { n = m = 0; for (i = 1; i < NF; i++) { if ($i ~ /"loss"/) loss[n++] = $(i + 1); if ($i ~ /"grad_norm"/) norm[m++] = $(i + 1) } bad += n != 2 || m != 2 || far(loss[0], loss[1], 1 / 512) || far(norm[0], norm[1], 0.02) }
    END { exit bad || NR != 4 }' || fail "a CPU and a card: $(cat "$dir/whole/metrics.jsonl" "$dir/hand/metrics.jsonl")"

# More ranks than cards; a card that two share because they were told to; a library that is not there.
refused() { # CARDS WHAT SAYS ARGS
    PAWL_EMU_CARDS=$1 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/refused" "${@:4}" 2>"$dir/err"
    [ $? = 1 ] && grep -q "$3" "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ] || fail "$2: $(cat "$dir/err")"
}
refused 2 "three ranks, two cards" "has no card: it has 2 that are visible: start 2 ranks" --ranks 3
refused 1 "two ranks, one card" "rank 0 and rank 1 are on one card, 0000:01:00.0: start as many" --ranks 2
through_host() { # WHAT SAYS ARGS
    run "$dir/host" --ranks 2 "${@:3}"
    grep -q "through the host (tcp): $2" "$dir/err" || fail "$1: $(cat "$dir/err")"
    grep -q '"ranks":2,.*"transport":"tcp"' "$dir/host/events.jsonl" || fail "$1: $(grep '"ranks"' "$dir/host/events.jsonl")"
    same "$dir/host" "$1"
    rm -rf "$dir/host"
}
through_host "one card by name" "ranks 0 and 1 are on one card" --set device=cuda:0
PAWL_EMU_CARDS=2 PAWL_EMU_NCCL=none through_host "no library" "rank 0: libnccl.so.2 can't be opened"
echo "ranks on cards: $count cells and a run with a killed rank: 0 differences; all ended $killed ms after a rank was killed"
