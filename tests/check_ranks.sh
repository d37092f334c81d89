#!/bin/bash
# Several ranks: the bits of one, whatever their number, the micro-batch size and zero_stage; a rank that dies or falls silent ends all with 75 in time, and the run goes on
# with any other number. PAWL_LONG=1: the whole grid.
set -u
pawl=$1 root=$2 binary=$(realpath "$1")
. "$root/tests/tiny_run.sh"
# 27 rows in steps of 11: the last step of an epoch has 5, fewer than eight ranks.
tiny_run_yaml <<YAML
lora_alpha: 16
global_batch_size: 11
num_epochs: 5
warmup_steps: 3
weight_decay: 0.01
val_set_size: 4
eval_steps: 6
save_steps: 4
spot: off
max_fruitless_starts: 1000
YAML
same_evaluations() { # DIR WHAT: same, and the held-out losses too
    local loss='s/.*"event":"eval".*"step":\([0-9]*\).*"loss":\([^,]*\).*/\1 \2/p'
    same "$@"
    cmp <(sed -n "$loss" "$dir/whole/events.jsonl" | sort -un) <(sed -n "$loss" "$1/events.jsonl" | sort -un) || fail "$2: held-out losses differ"
}
ranks_of() { # PID: the ranks that it started, in $rank
    local p
    rank=()
    for p in $(cat /proc/"$1"/task/*/children 2>/dev/null); do [ "$(readlink "/proc/$p/exe")" = "$binary" ] && rank+=("$p"); done
}
# hurt SIGNAL RANK N BEFORE DIR COMMAND...: the command is a run of N ranks in DIR; once it has done a step more, one of them gets the signal. $rc is what the run gave, $milliseconds how long it
# took from the signal on. Where it was as far as step BEFORE by then, it is made again from where it stood.
hurt() {
    local attempt begin goal out=$5 rank
    rm -rf "$dir/stood"
    mkdir -p "$out"
    cp -a "$out" "$dir/stood"
    goal=$(($(lines "$out") + 1))
    for ((attempt = 1; attempt <= 20; attempt++)); do
        rm -rf "$out"
        cp -a "$dir/stood" "$out"
        "${@:6}" >"$dir/err" 2>&1 &
        job=$!
        children=("$job")
        while [ "$(lines "$out")" -lt "$goal" ] && kill -0 "$job" 2>/dev/null; do sleep 0.01; done
        ranks_of "$job"
        children+=("${rank[@]}")
        begin=${EPOCHREALTIME/./}
        [ ${#rank[@]} = "$3" ] && kill -"$1" "${rank[$2]}" 2>/dev/null
        wait "$job"
        rc=$?
        milliseconds=$(((${EPOCHREALTIME/./} - begin) / 1000))
        children=()
        [ "$(lines "$out")" -ge "$4" ] || return
    done
    fail "of 20 runs none got SIG$1 before step $4: $(cat "$dir/err")"
}

run "$dir/whole" || fail "one rank"
steps=$(lines "$dir/whole")
[ "$steps" -ge 12 ] || fail "expected 12 steps or more, found $steps"

# The grid.
cells="2,0,2 2,1,5 3,1,1 4,0,1 8,1,2"
[ "${PAWL_LONG:-0}" = 1 ] && cells=$(for n in 1 2 3 4 8; do for z in 0 1; do for m in 1 2 5; do echo "$n,$z,$m"; done; done; done)
count=0
for cell in $cells; do
    IFS=, read -r n z m <<<"$cell"
    run "$dir/grid" --ranks "$n" --set zero_stage="$z" --set micro_batch_size="$m" --set journal=false || fail "$n ranks, zero_stage $z, micro-batch $m"
    same_evaluations "$dir/grid" "$n ranks, zero_stage $z, micro-batch $m"
    rm -rf "$dir/grid"
    count=$((count + 1))
done

# A rank is killed: the others notice at once; with fewer ranks it goes on.
train=("$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/hurt" --ranks)
hurt KILL 1 3 $((steps / 3)) "$dir/hurt" "${train[@]}" 3
[ $rc = 75 ] || fail "a killed rank: exit $rc, expected 75: $(cat "$dir/err")"
grep -q 'rank 1 is gone' "$dir/err" || fail "a killed rank is not named: $(cat "$dir/err")"
[ "$milliseconds" -lt 61000 ] || fail "a killed rank: all had ended after $milliseconds ms"
killed=$milliseconds

# A rank falls silent: noticed by the time-out. Its commits are taken up by another number of ranks first.
hurt STOP 1 2 $((steps * 2 / 3)) "$dir/hurt" "${train[@]}" 2 --set comm_timeout=3
[ $rc = 75 ] || fail "a silent rank: exit $rc, expected 75: $(cat "$dir/err")"
grep -q 'rank 1 is gone: silent' "$dir/err" || fail "a silent rank is not named: $(cat "$dir/err")"

# A notice on one rank stops all at the same step.
hurt TERM 2 4 "$steps" "$dir/hurt" "${train[@]}" 4 --set zero_stage=0
[ $rc = 75 ] || fail "SIGTERM of one rank: exit $rc, expected 75: $(cat "$dir/err")"
grep -q 'stopped by SIGTERM of rank 2 at step' "$dir/err" || fail "the notice is not told: $(cat "$dir/err")"
run "$dir/hurt" || fail "one rank at the end"
same_evaluations "$dir/hurt" "killed, silent, asked; 3, 2, 4, 1 ranks"
grep -q '"proved":false,"possible":true' "$dir/hurt/events.jsonl" && fail "a step computed again differs: $(grep '"replay"' "$dir/hurt/events.jsonl")"
run "$dir/hurt" --ranks 2 || fail "a finished run that two ranks start again: exit $?, expected 0"
same "$dir/hurt" "a finished run that two ranks start again"

# What can't work is refused, with a way out.
"$pawl" train "$dir/run.yaml" -q --ranks 12 --set output_dir="$dir/many" 2>"$dir/err"
[ $? = 1 ] && grep -q 'start 1 to 11 ranks' "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ] || fail "more ranks than rows: $(cat "$dir/err")"

# By a launcher's environment: a rank with another configuration, one that does not come.
by_hand() { RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 PAWL_PORT=$port "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/hand" "${@:2}"; }
for attempt in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000))
    by_hand 1 --set seed=7 2>"$dir/err1" &
    by_hand 0 2>"$dir/err"
    rc=$?
    wait $!
    grep -q 'is in use' "$dir/err" || break
done
[ $rc = 1 ] && grep -q 'rank 1: the configuration is not' "$dir/err" && ! grep -q 'the configuration is' "$dir/err1" || fail "two configurations: exit $rc, $(cat "$dir/err")"
for attempt in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000))
    by_hand 0 --set comm_timeout=0.5 2>"$dir/err"
    rc=$?
    grep -q 'is in use' "$dir/err" || break
done
[ $rc = 75 ] && grep -q 'rank 1 of 2 did not show up' "$dir/err" || fail "a rank that does not come: exit $rc, $(cat "$dir/err")"

# Under mpirun bulk data takes MPI's ways, and the bits stay.
mpi="MPI: not built in, or no mpirun: not tested"
if command -v mpirun >/dev/null && ldd "$pawl" | grep -q libmpi; then
    root_too=
    [ "$(id -u)" = 0 ] && root_too=--allow-run-as-root
    mpirun=(env ASAN_OPTIONS=detect_leaks=0 mpirun $root_too --oversubscribe --bind-to none -n) train=("$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/mpi" --set threads=1)
    "${mpirun[@]}" 3 "${train[@]}" 2>"$dir/err" || fail "mpirun: $(cat "$dir/err")"
    same_evaluations "$dir/mpi" "mpirun, 3 ranks"
    rm -rf "$dir/mpi"
    hurt KILL 1 2 "$steps" "$dir/mpi" "${mpirun[@]}" 2 "${train[@]}"
    [ $rc != 0 ] || fail "mpirun: the death of a rank went unnoticed: $(cat "$dir/err")"
    run "$dir/mpi" --ranks 2 || fail "the run after mpirun"
    same_evaluations "$dir/mpi" "killed under mpirun, then --ranks 2"
    mpi="MPI: the same"
fi
echo "ranks: $count cells and a run with a killed, a silent and an asked rank: 0 differences in $steps steps; all ended $killed ms after a rank was killed; $mpi"
