#!/bin/bash
# A run that is stopped and started again gives the bytes of an uninterrupted one: adapter, moments and metrics.jsonl but for the times, whatever the number of
# threads and the micro-batch size; what may not change is refused. On a tiny model, with dropout, shuffling, packing, accumulation and a short last window.
# Killed runs: tests/crash.
set -u
pawl=$1 root=$2
. "$root/tests/tiny_run.sh"
tiny_run_yaml <<YAML
lora_alpha: 16
global_batch_size: 6
num_epochs: 12
warmup_steps: 3
weight_decay: 0.01
save_steps: 3
YAML

run "$dir/whole" || fail "the uninterrupted run"
steps=$(wc -l <"$dir/whole/metrics.jsonl")
[ "$steps" -ge 20 ] || fail "expected 20 steps or more, found $steps"

run "$dir/other" --set micro_batch_size=5 --set threads=1 --set gradient_checkpointing=true || fail "another micro-batch size"
same "$dir/other" "micro-batch 5, one thread, checkpointing"

# Measured step by step: the same bits; each op in the table, each layer, and a trace of balanced brackets.
run "$dir/measured" --profile >"$dir/table" || fail "--profile"
same "$dir/measured" "--profile"
for word in linear linear_backward lora_grad attention_backward head_loss adamw 'between ops' outside; do
    grep -q "^$word  " "$dir/table" || fail "--profile: no line for $word: $(cat "$dir/table")"
done
grep -q '"op": "linear", "calls": [0-9]*, "ms": [0-9.]*, "share": 0\.' "$dir/measured/profile.json" || fail "profile.json: $(head -c 600 "$dir/measured/profile.json")"
[ "$(tr -cd '{' <"$dir/measured/trace.json" | wc -c)" = "$(tr -cd '}' <"$dir/measured/trace.json" | wc -c)" ] || fail "trace.json is no JSON"

# SIGTERM: everything durable, exit 75, and on it goes.
"$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/asked" &
asked=$!
until [ -s "$dir/asked/metrics.jsonl" ]; do sleep 0.02; kill -0 $asked 2>/dev/null || fail "the run to be stopped ended by itself"; done
kill -TERM $asked 2>/dev/null
wait $asked
rc=$?
[ $rc = 75 ] || [ $rc = 0 ] || fail "SIGTERM: exit $rc, expected 75"
run "$dir/asked" || fail "the run after SIGTERM"
same "$dir/asked" "SIGTERM"

# A finished run says so and changes nothing.
newest=$(readlink "$dir/whole/adapter")
ln -sfn "$(cd "$dir/whole" && ls -d checkpoint-* | grep -vx "$newest" | tail -1)" "$dir/whole/adapter" # as a kill between the last checkpoint and its link leaves it
run "$dir/whole" || fail "a finished run"
[ "$(readlink "$dir/whole/adapter")" = "$newest" ] || fail "the link adapter still points to $(readlink "$dir/whole/adapter"), expected $newest"

# What may not change is refused, by name.
run "$dir/whole" --set learning_rate=1e-3 2>"$dir/err" && fail "a changed learning rate was taken"
grep -q 'learning_rate' "$dir/err" || fail "the refusal does not name learning_rate: $(cat "$dir/err")"
printf '%s\n' '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}' >>"$dir/train.jsonl"
run "$dir/whole" 2>"$dir/err" && fail "changed data was taken"
grep -q 'data' "$dir/err" || fail "the refusal does not name the data: $(cat "$dir/err")"
echo "resume: $steps steps; adapter, moments and metrics equal"
