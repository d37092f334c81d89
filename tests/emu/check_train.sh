#!/bin/bash
# A whole training on the emulated card: losses near the CPU's, the same bits whatever order blocks, warps and streams ran in, and after a kill and a stop; and from one kind of device
# to the other in the middle of a run, with the change said.
set -u
pawl=$1 root=$2 plain=$3 # the program with the emulated card, and without
. "$root/tests/emu/card_run.sh"
card_run_yaml <<YAML
micro_batch_size: 2
global_batch_size: 3
save_steps: 1
save_total_limit: 10
device: cuda
YAML
near() { # DIR WHAT: losses within 2^-9 of the CPU's: they are means of some 20 tokens whose logits were rounded to bf16 on the way, 2^-9 each, in both
    paste <(grep -o '"loss":[^,]*' "$dir/cpu/metrics.jsonl") <(grep -o '"loss":[^,]*' "$1/metrics.jsonl") | sed 's/"loss"://g' |
        awk -v what="$2" '{ d = $1 - $2; if (d < 0) d = -d; n++; if (!(d < $1 / 512)) { print what ": step " n ": " $1 " on the CPU, " $2 " here"; bad = 1 } } END { exit bad || n != 4 }' ||
        fail "$2: losses"
}

run "$dir/cpu" --set device=cpu || fail "the run on the CPU"
PAWL_EMU_SEED=1 run "$dir/card" || fail "the run on the card"
grep -q '"device":"cuda:0 emulated"' "$dir/card/events.jsonl" || fail "it did not run on the card: $(head -1 "$dir/card/events.jsonl")"
near "$dir/card" "the card"
cmp -s <(bare "$dir/cpu") <(bare "$dir/card") && fail "the card gives the very bits of the CPU: did it run there?"

# Killed without notice once two steps are recorded: it goes on, and proves it. Another seed is another order of everything that hardware leaves open.
PAWL_EMU_SEED=2 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/killed" &
pid=$!
until [ "$(grep -c . "$dir/killed/metrics.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null; do sleep 0.02; kill -0 $pid 2>/dev/null || break; done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
PAWL_EMU_SEED=3 run "$dir/killed" || fail "the run after SIGKILL"
same "$dir/killed" "SIGKILL" "$dir/card"
grep '"event":"replay"' "$dir/killed/events.jsonl" | grep -q '"possible":true' && { grep -q '"proved":true' "$dir/killed/events.jsonl" || fail "the replay proved nothing: $(grep replay "$dir/killed/events.jsonl")"; }

# Stopped in the middle of a long step, by a notice too short for the rest of it: pending gradients are brought from the card, and back.
long=(--set global_batch_size=12 --set micro_batch_size=1 --set max_steps=2 --set save_steps=0 --set preempt_grace_seconds=0.3)
PAWL_EMU_SEED=4 run "$dir/long" "${long[@]}" || fail "long steps"
PAWL_EMU_SEED=5 "$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/asked" "${long[@]}" 2>"$dir/err" &
pid=$!
until [ -s "$dir/asked/metrics.jsonl" ]; do sleep 0.02; kill -0 $pid 2>/dev/null || break; done
sleep 0.1
kill -TERM $pid 2>/dev/null
wait $pid
rc=$?
[ $rc = 75 ] || [ $rc = 0 ] || fail "SIGTERM: exit $rc, expected 75: $(cat "$dir/err")"
cat "$dir/err"
PAWL_EMU_SEED=6 run "$dir/asked" "${long[@]}" || fail "the run after SIGTERM"
same "$dir/asked" "SIGTERM" "$dir/long"

# From step 2 on, on the other kind of device.
for way in "cpu cuda" "card cpu"; do
    set -- $way
    cp -r "$dir/$1" "$dir/from_$1"
    rm -rf "$dir/from_$1"/checkpoint-[34] "$dir/from_$1/journal"
    run "$dir/from_$1" --set device=$2 2>"$dir/err" || fail "from $1 to $2: $(cat "$dir/err")"
    near "$dir/from_$1" "from $1 to $2"
    cmp <(bare "$dir/$1" | head -2) <(bare "$dir/from_$1" | head -2) || fail "from $1 to $2: steps before the change differ"
    grep '"event":"resume"' "$dir/from_$1/events.jsonl" | grep -q '"why_other_bits":"it was trained on ' || fail "from $1 to $2: no event says so: $(grep resume "$dir/from_$1/events.jsonl")"
done

# What does not fit is said before the first step, with the largest part and what helps.
PAWL_EMU_MEMORY=34000000 run "$dir/full" 2>"$dir/err" && fail "a card with less than half a megabyte free was enough"
grep -Eq 'memory of cuda:0 emulated: [0-9]+ MiB are needed, [0-9]+ MiB may be used; most takes "[a-z ]+"' "$dir/err" || fail "a full card: $(cat "$dir/err")"
[ "$(wc -l <"$dir/err")" = 1 ] || fail "a full card: more than one line: $(cat "$dir/err")"

# A card a little too small: the embedding stays on the host, and the bits are those of a larger one. Much too small: the settings that would do are named. The first event says what is needed.
need=$(head -1 "$dir/card/events.jsonl" | grep -o '"memory":{[^}]*}' | grep -o '[0-9]*' | awk '{ n += $1 } END { print n }')
PAWL_EMU_MEMORY=$(((32 << 20) + need - 20000)) "$pawl" train "$dir/run.yaml" --set output_dir="$dir/small" 2>"$dir/err" || fail "a card that is a little too small: $(cat "$dir/err")"
grep -q 'the embedding stays in the memory of this machine' "$dir/err" || fail "a card that is a little too small: $(cat "$dir/err")"
same "$dir/small" "an embedding on the host" "$dir/card"
PAWL_EMU_MEMORY=$(((32 << 20) + need * 78 / 100)) run "$dir/smaller" 2>"$dir/err" && fail "a card that is much too small was enough"
grep -q ': set micro_batch_size: 1$' "$dir/err" || fail "a card that is much too small: $(cat "$dir/err")"

# Evaluation and generation take the card by themselves.
loss() { "$1" eval --model "$root/tests/golden/llama" --adapter "$dir/card/adapter" --data "$dir/train.jsonl" --json 2>"$dir/err" | grep -o '"loss":[^,]*' | cut -d: -f2; }
card=$(loss "$pawl") cpu=$(loss "$plain")
awk -v a="$card" -v b="$cpu" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d < a / 512) }' || fail "eval: loss $card on the card, $cpu on the CPU: $(cat "$dir/err")"
[ "$card" != "$cpu" ] || fail "eval: did it run on the card?"
for seed in 1 2; do
    PAWL_EMU_SEED=$seed "$pawl" generate --model "$root/tests/golden/llama" --adapter "$dir/card/adapter" --prompt "w1 w2" --raw --max-tokens 6 >"$dir/text$seed" 2>"$dir/err" || fail "generate: $(cat "$dir/err")"
done
cmp "$dir/text1" "$dir/text2" || fail "generate: two answers differ"
