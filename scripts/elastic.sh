#!/bin/bash
# A run whose ranks are killed again and again, each time started with another number of them, against the same run on one rank without interruption: no bit may differ.
# Then the grid of ranks, zero_stage and micro-batch sizes.
#
#   scripts/elastic.sh PAWL [MODEL]      RESIZES=20 kills; MODEL: a directory or GGUF file (default: the tiny one of the tests); GRID="2,0,2 ..." ranks,zero_stage,micro-batch
set -u
pawl=$(realpath "$1") root=$(realpath "$(dirname "$0")/..")
tiny_model=${2:-} tiny_cache=${XDG_CACHE_HOME:-} resizes=${RESIZES:-20}
. "$root/tests/tiny_run.sh"
tiny_run_yaml <<YAML
global_batch_size: 11
num_epochs: ${EPOCHS:-24}
save_steps: 7
spot: off
max_fruitless_starts: 1000
YAML

run "$dir/whole" || fail "one rank"
steps=$(lines "$dir/whole")
RANDOM=${SEED:-11}
sizes=(1 2 3 4 8) kills=0 round=0 proved=0 history=
while [ $kills -lt "$resizes" ]; do
    round=$((round + 1))
    while :; do
        n=${sizes[RANDOM % 5]} want=$(($(lines "$dir/hurt") + 1 + RANDOM % 3))
        "$pawl" train "$dir/run.yaml" -q --ranks "$n" --set zero_stage=$((RANDOM % 2)) --set output_dir="$dir/hurt" 2>"$dir/err" &
        job=$!
        children=("$job")
        while [ "$(lines "$dir/hurt")" -lt "$want" ] && kill -0 $job 2>/dev/null; do sleep 0.0$((RANDOM % 5 + 1)); done
        read -ra rank <<<"$(cat /proc/$job/task/$job/children 2>/dev/null)"
        [ "$n" = 1 ] && rank=("$job")
        # A rank of the middle of the list as often as the first, which writes.
        kill -9 "${rank[RANDOM % n]:-none}" 2>/dev/null && kills=$((kills + 1)) && history="$history $n"
        wait $job
        rc=$?
        children=()
        case $rc in 0) break ;; 75 | 137) ;; *) fail "$n ranks: exit $rc: $(cat "$dir/err")" ;; esac
        if [ $kills -ge "$resizes" ]; then
            run "$dir/hurt" --ranks 2 || fail "the last start"
            break
        fi
    done
    same "$dir/hurt" "after$history"
    proved=$((proved + $(grep -c '"event":"replay".*"proved":true' "$dir/hurt/events.jsonl")))
    grep -q '"proved":false,"possible":true' "$dir/hurt/events.jsonl" && fail "a replay differed"
    rm -rf "$dir/hurt"
done
echo "elastic: $kills kills of a rank, ranks were$history; $proved resumes proved their last step; $round runs of $steps steps, 0 differences"

count=0
[ -n "${GRID+set}" ] || GRID=$(for n in 1 2 3 4 8; do for z in 0 1; do for m in 1 2 5; do echo "$n,$z,$m"; done; done; done)
for cell in $GRID; do
    IFS=, read -r n z m <<<"$cell"
    run "$dir/grid" --ranks "$n" --set zero_stage="$z" --set micro_batch_size="$m" || fail "$n ranks, zero_stage $z, micro-batch $m"
    same "$dir/grid" "$n ranks, zero_stage $z, micro-batch $m"
    rm -rf "$dir/grid"
    count=$((count + 1))
done
echo "grid: $count cells of ranks, zero_stage and micro-batch size, $steps steps each, 0 differences"
