#!/bin/bash
# A resume compares: what changes the trajectory is refused with old and new values and taken with --accept-changes; what does not is taken.
epochs=3
. "$2/tests/crash/common.sh"
cp -r "$root/tests/golden/llama" "$dir/model"
sed -i "s|^base_model:.*|base_model: $dir/model|" "$dir/run.yaml"
whole
n=0
again() { # a copy of the half of the run, in $dir/copy
    rm -rf "$dir/copy"
    cp -r "$dir/half" "$dir/copy"
}
# A half with two states, so that its last step can be computed again: on a disk that others use the journal may not have come to the step before.
for _ in $(seq 30); do
    rm -rf "$dir/half"
    stop_at 3 "$dir/half"
    again
    run "$dir/copy" 2>"$dir/err" || fail "the half of the run: $(cat "$dir/err")"
    grep -q '"proved":true' "$dir/copy/events.jsonl" && break
done
refused() { # WHAT PATTERN OPTION...: refused with these words; then accepted, and said all the same
    again
    run "$dir/copy" "${@:3}" 2>"$dir/err"
    [ $? = 1 ] || fail "$1: a change was taken: $(cat "$dir/err")"
    grep -q -- "$2" "$dir/err" || fail "$1: expected \"$2\", found $(cat "$dir/err")"
    grep -q -- '--accept-changes' "$dir/err" || fail "$1: the refusal does not name --accept-changes: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/copy/metrics.jsonl")" = 3 ] || fail "$1: the refusal changed the run"
    run "$dir/copy" "${@:3}" --accept-changes 2>"$dir/err" || fail "$1: --accept-changes: $(cat "$dir/err")"
    [ "$(last_event "$dir/copy" resume step)" = 3 ] || fail "$1: --accept-changes began at step $(last_event "$dir/copy" resume step)"
    n=$((n + 1))
}
refused learning_rate 'learning_rate: 0.002 -> 0.001' --set learning_rate=1e-3
refused seed 'seed: 42 -> 43' --set seed=43
refused dropout 'lora_dropout: 0.1 -> 0' --set lora_dropout=0
refused batch 'global_batch_size: 6 -> 4' --set global_batch_size=4
refused horizon 'num_epochs: 3 -> 4' --set num_epochs=4
refused 'two at once' 'warmup_steps: 3 -> 4.*weight_decay: 0.01 -> 0.02\|weight_decay: 0.01 -> 0.02.*warmup_steps: 3 -> 4' --set warmup_steps=4 --set weight_decay=0.02
changed() { # WHAT PATTERN FILE COMMAND...: the file changed by the command
    cp "$3" "$dir/kept"
    "${@:4}"
    cmp -s "$3" "$dir/kept" && fail "$1: nothing was changed"
    refused "$1" "$2"
    cp "$dir/kept" "$3"
}
hashes='changed since .* (hash [0-9a-f]\{16\} then, [0-9a-f]\{16\} now)'
changed data "the training data $hashes" "$dir/train.jsonl" sed -i '7s/answer/reply/' "$dir/train.jsonl"
changed model "the base model $hashes" "$dir/model/model.safetensors" sh -c 'printf "\\001" | dd of="$0" bs=1 seek=$(($(stat -c %s "$0") - 40)) conv=notrunc status=none' "$dir/model/model.safetensors"
changed tokenizer "the tokenizer $hashes" "$dir/model/tokenizer.json" sed -i 's/"special": *false/"special": true/; s/"ignore_merges": *false/"ignore_merges": true/' "$dir/model/tokenizer.json"
refused template 'chat_template' --set chat_template=chatml

# Held-out data decides when to stop and what is best: it is compared too, unless there was none.
head -8 "$dir/train.jsonl" >"$dir/test.jsonl"
again
run "$dir/copy" --set test_datasets.0.path="$dir/test.jsonl" --set test_datasets.0.type=chat_template --set eval_steps=2 --set max_minutes=1e-12 2>"$dir/err"
[ $? = 75 ] || fail "held-out data that was not there before: $(cat "$dir/err")"
stop_at 3 "$dir/held" --set test_datasets.0.path="$dir/test.jsonl" --set test_datasets.0.type=chat_template --set eval_steps=2
sed -i '7s/answer/reply/' "$dir/test.jsonl"
run "$dir/held" --set test_datasets.0.path="$dir/test.jsonl" --set test_datasets.0.type=chat_template --set eval_steps=2 2>"$dir/err" && fail "other held-out data was taken"
grep -q "the held-out data $hashes" "$dir/err" || fail "other held-out data: $(cat "$dir/err")"

# Taken: what does not change the bits, to the same end.
again
run "$dir/copy" --set threads=2 --set micro_batch_size=3 --set gradient_checkpointing=true --set save_steps=2 --set journal=false --set logging_steps=7 2>"$dir/err" || fail "$(cat "$dir/err")"
same "$dir/copy" "threads, micro-batch, checkpointing and saving changed"
# Taken: another place of the same bytes, as another machine has them.
again
mkdir "$dir/elsewhere"
cp -r "$dir/model" "$dir/train.jsonl" "$dir/elsewhere"
run "$dir/copy" --set base_model="$dir/elsewhere/model" --set datasets.0.path="$dir/elsewhere/train.jsonl" 2>"$dir/err" || fail "another place: $(cat "$dir/err")"
same "$dir/copy" "model and data in another place"
[ "$(last_event "$dir/copy" replay proved)" = true ] || fail "another place: $(grep '"replay"' "$dir/copy/events.jsonl")"
sed -i '7s/answer/reply/' "$dir/elsewhere/train.jsonl"
refused 'data of another place' "the training data $hashes" --set datasets.0.path="$dir/elsewhere/train.jsonl"

# What no identity sees, since only samples of the base are hashed: the step that is computed again does. One weight in the middle of up_proj of the last layer.
weights=$dir/model/model.safetensors
cp "$weights" "$dir/kept"
at=$(($(stat -c %s "$weights") - 79181))
printf '\077' | dd of="$weights" bs=1 seek=$at conv=notrunc status=none # the upper byte of a float: it is about 1 now
rm -rf "$XDG_CACHE_HOME/pawl/base" # where the base as it was is kept in NF4
again
run "$dir/copy" 2>"$dir/err" && fail "a base that changed where nobody looked was taken: $(grep replay "$dir/copy/events.jsonl")"
grep -q 'step 3 computed again from the state before it: batch same, gradient differs, update differs, on the same kind of device' "$dir/err" || fail "a changed base: $(cat "$dir/err")"
[ "$(last_event "$dir/copy" replay proved)" = false ] || fail "a changed base: $(grep '"replay"' "$dir/copy/events.jsonl")"
run "$dir/copy" --set resume_check=false 2>"$dir/err" || fail "resume_check: false: $(cat "$dir/err")"
cp "$dir/kept" "$weights"

# Another instruction set rounds differently: said as such, and no damage.
refused_not() {
    again
    PAWL_ISA=$1 run "$dir/copy" 2>"$dir/err" || fail "PAWL_ISA=$1: $(cat "$dir/err")"
    grep -q 'it was trained on .*, this is ' "$dir/err" || fail "PAWL_ISA=$1: not said: $(cat "$dir/err")"
    [ "$(last_event "$dir/copy" replay why)" != "" ] || fail "PAWL_ISA=$1: $(grep '"replay"' "$dir/copy/events.jsonl")"
}
isa="one instruction set only"
grep -qw avx2 /proc/cpuinfo && {
    rm -rf "$dir/half"
    PAWL_ISA=avx2 stop_at 3 "$dir/half"
    refused_not portable
    isa="avx2 to portable: $(last_event "$dir/copy" replay gradient) gradient, said as another device"
}
echo "changes: $n refused with old and new values and taken with --accept-changes; a base changed out of sight is caught by the replay; $isa"
