#!/bin/bash
# How a run ends and begins besides being killed: time and money that are used up, commands on events, starts that lead nowhere, and a second process on the same run.
epochs=2000
. "$2/tests/crash/common.sh"
out=$dir/run
# max_minutes: exit 75, all durable; the command hears of it.
hear=$dir/heard
run "$out" --set max_minutes=0.02 --set on_event="echo \$PAWL_EVENT \$PAWL_RUN_DIR >>$hear" 2>"$dir/err"
[ $? = 75 ] || fail "max_minutes: $(cat "$dir/err")"
grep -q 'stopped by max_minutes at step .*all of it is durable' "$dir/err" || fail "max_minutes: $(cat "$dir/err")"
[ "$(last_event "$out" preempted durable_step)" = "$(last_event "$out" preempted step)" ] || fail "max_minutes: $(tail -1 "$out/events.jsonl")"
run "$out" --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience=1 --set on_event="echo \$PAWL_EVENT >>$hear; exit 3" 2>"$dir/err" && fail "the watchdog did not bark"
grep -q 'on_event: .*ended with exit code 3' "$dir/err" || fail "a command that fails is not named: $(cat "$dir/err")"
run "$dir/short" --set num_epochs=1 --set on_event="echo \$PAWL_EVENT >>$hear" 2>"$dir/err" || fail "one epoch: $(cat "$dir/err")"
# A commit is three floats a trained number and a record.
numbers=$(($(stat -c %s "$dir/short/adapter/optimizer.safetensors") / 8))
bytes=$(($(last_event "$dir/short" finished journal_bytes) / $(last_event "$dir/short" finished commits)))
[ $bytes -gt $((numbers * 12 - 4096)) ] && [ $bytes -lt $((numbers * 12 + 8192)) ] || fail "$bytes bytes a commit for about $numbers numbers"
# Whoever switches the machine off by it hears of a run that was finished before, and of a start that fails; not of a run that is another process's.
run "$dir/short" --set num_epochs=1 --set on_event="echo again \$PAWL_EVENT >>$hear" 2>"$dir/err" || fail "a finished run: $(cat "$dir/err")"
run "$dir/short" --set num_epochs=1 --set base_model="$dir/nothing" --set on_event="echo no model \$PAWL_EVENT >>$hear" 2>"$dir/err" && fail "without a model it trains"
[ "$(cat "$hear")" = "preempted $out
failed
finished
again finished
no model failed" ] || fail "on_event heard: $(cat "$hear")"

# journal: SECONDS bounds the work at risk: far fewer commits than steps, and a stop makes the last step durable all the same.
run "$dir/seldom" --set journal=1000 --set num_epochs=2 --set save_steps=100000 --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience=8 2>"$dir/err"
[ "$(last_event "$dir/seldom" failed commits) $(last_event "$dir/seldom" failed durable_step)" = "1 8" ] || fail "journal: 1000: $(tail -1 "$dir/seldom/events.jsonl")"
"$pawl" ckpt ls "$dir/seldom" | grep -q '^ *8 *1 .*journal/slot-[01] *verified' || fail "ckpt ls does not show the journal's step: $("$pawl" ckpt ls "$dir/seldom")"

# The ledger: what a killed process had done beyond the state is counted, here all of it.
begin --set output_dir="$dir/lost" --set journal=false --set save_steps=100000
steps_done 4 "$dir/lost/metrics.jsonl"
kill -9 $pid
wait $pid 2>/dev/null
done_steps=$(wc -l <"$dir/lost/metrics.jsonl")
park "$dir/lost"
[ "$(last_event "$dir/lost" start lost_steps)" = "$done_steps" ] || fail "$done_steps steps were lost: $(grep '"start"' "$dir/lost/events.jsonl")"
[ "$(last_event "$dir/lost" start cause)" = killed ] || fail "the cause: $(grep '"start"' "$dir/lost/events.jsonl")"

# Early stopping, the best loss and what was seen go on where they were: stopped after each of some steps, a run ends as the uninterrupted one does.
early() { run "$@" --set num_epochs=20 --set learning_rate=0.05 --set val_set_size=8 --set eval_steps=3 --set early_stopping_patience=3 2>"$dir/err"; }
early "$dir/whole" || fail "early stopping: $(cat "$dir/err")"
steps=$(wc -l <"$dir/whole/metrics.jsonl")
[ "$steps" -lt 90 ] || fail "early stopping did not stop: $steps steps"
for n in 1 2 5; do
    early "$dir/resumed" --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience=$n && fail "the watchdog did not bark after $n"
    early "$dir/resumed" --set max_minutes=1e-12
done
early "$dir/resumed" || fail "early stopping, resumed: $(cat "$dir/err")"
same "$dir/resumed" "early stopping, stopped now and then"
[ "$(readlink "$dir/resumed/adapter-best")" = "$(readlink "$dir/whole/adapter-best")" ] || fail "the best is $(readlink "$dir/resumed/adapter-best"), uninterrupted $(readlink "$dir/whole/adapter-best")"
evals() { grep '"event":"eval"' "$1/events.jsonl" | sed 's/"time":"[^"]*",//' | sort -u; }
[ "$(evals "$dir/resumed")" = "$(evals "$dir/whole")" ] || fail "evaluations differ: $(diff <(evals "$dir/resumed") <(evals "$dir/whole"))"

# A second process: exit 3, and it names the holder. A holder that was killed holds nothing.
begin --set output_dir="$out"
steps_done 1 "$out/metrics.jsonl"
run "$out" --set on_event="echo locked >>$hear" 2>"$dir/second"
[ $? = 3 ] || fail "a second process: $(cat "$dir/second")"
grep -q "held by host $(hostname) pid $pid since 20" "$dir/second" || fail "the holder, $pid, is not named: $(cat "$dir/second")"
grep -q locked "$hear" && fail "on_event is run although another process has the run"
alive
kill -9 $pid
wait $pid 2>/dev/null
park "$out"

# Three starts in a row without a new durable step are enough. A step in between, and they count anew.
for i in 1 2; do run "$out" --set max_fruitless_starts=3 --set max_minutes=1e-12 2>"$dir/err"; done
run "$out" --set max_fruitless_starts=3 --set max_minutes=1e-12 2>"$dir/err"
[ $? = 1 ] && grep -q '^.*3 starts in a row ended without a new durable step' "$dir/err" || fail "the fourth start without a step: $(cat "$dir/err")"
grep -q "remove $out/starts.json, or raise max_fruitless_starts" "$dir/err" || fail "it does not say what to do: $(cat "$dir/err")"
rm "$out/starts.json"
for i in 1 2 3 4; do
    run "$out" --set max_fruitless_starts=3 --set loss_watchdog_threshold=1e-30 --set loss_watchdog_patience=1 2>"$dir/err"
    grep -q 'steps in a row' "$dir/err" || fail "start $i, each with a new step: $(cat "$dir/err")"
done

# max_cost: the cloud says what the machine is, prices.yaml what it costs; what earlier processes cost counts.
command -v python3 >/dev/null || { echo "stops: max_minutes, on_event, lock, fruitless starts; max_cost skipped, no python3 for the metadata server"; exit; }
port=$((20000 + $$ % 20000))
python3 "$root/tests/crash/metadata.py" $port rebalance 1000000 0 2>/dev/null &
children+=($!)
until (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do sleep 0.05; done
export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$port XDG_CONFIG_HOME=$dir/settings
mkdir -p "$dir/settings/pawl"
echo 'instances: [{name: g5.xlarge, on_demand: 7200, spot: 3600}]' >"$dir/settings/pawl/prices.yaml" # a dollar a second
run "$dir/paid" --set spot=aws --set max_cost=2 2>"$dir/err"
[ $? = 75 ] && grep -q 'stopped by max_cost' "$dir/err" || fail "max_cost: $(cat "$dir/err")"
cost=$(last_event "$dir/paid" preempted cost)
awk -v c="$cost" 'BEGIN { exit !(c >= 2 && c < 60) }' || fail "max_cost 2 stopped at $cost"
run "$dir/paid" --set spot=aws --set max_cost=2 2>"$dir/err"
[ $? = 1 ] && grep -q 'max_cost 2: the run has cost .* already: raise it' "$dir/err" || fail "max_cost, started again: $(cat "$dir/err")"
[ "$(last_event "$dir/paid" instance kind)" = spot ] || fail "the instance: $(grep '"instance"' "$dir/paid/events.jsonl")"
run "$dir/paid" --set spot=aws --set max_cost="$(awk -v c="$cost" 'BEGIN { print c + 2 }')" 2>"$dir/err"
awk -v c="$cost" -v d="$(last_event "$dir/paid" preempted cost)" 'BEGIN { exit !(d >= c + 2 && d < c + 60) }' || fail "after $cost, with 2 more: $(last_event "$dir/paid" preempted cost)"
echo 'instances: []' >"$dir/settings/pawl/prices.yaml"
run "$dir/unknown" --set spot=aws --set max_cost=0.000001 --set num_epochs=40 2>"$dir/err" || fail "no price: $(cat "$dir/err")"
grep -q 'max_cost: prices.yaml has no spot price of g5.xlarge: cost is not watched' "$dir/err" || fail "no price: $(cat "$dir/err")"
echo "stops: max_minutes, max_cost, on_event, fruitless starts and the lock do what they say"
