#!/bin/bash
# What several ranks cost, counted: the optimizer's memory a rank is 1/N, the bytes sent are those of the formula (train/run/share.h); and pawl scaling tells it.
set -u
pawl=$1 root=$2
. "$root/tests/tiny_run.sh"
# A large rank, so that a block more or less is not 2% of a slice.
tiny_run_yaml <<YAML
global_batch_size: 8
max_steps: 3
num_epochs: 9
spot: off
journal: false
save_minutes: 0
YAML
number() { sed -n "s/.*\"event\":\"ranks\".*\"$2\":\([0-9]*\).*/\1/p" "$dir/$1/events.jsonl"; }
near() { # WHAT FOUND EXPECTED: within 2%
    awk -v a="$2" -v b="$3" 'BEGIN { exit !(a > b * 0.98 && a < b * 1.02) }' || fail "$1: $2, expected $3 within 2%"
}
run "$dir/one" --set lora_r=512 || fail "one rank"
whole=$(number one optimizer_bytes_per_rank)
[ "$whole" -gt 0 ] || fail "one rank tells no optimizer_bytes_per_rank: $(cat "$dir/one/events.jsonl")"
n=$((whole / 8)) # two moments in fp32
[ "$(number one sent_bytes_a_step)" = 0 ] || fail "one rank sends"
figures=
cost() { # RANKS ZERO_STAGE ROWS SUBTREES MOMENTS: bytes of a number, times (N - 1) / N
    local stage=$2 sent
    run "$dir/some" --ranks "$1" --set lora_r=512 --set zero_stage="$2" --set global_batch_size="$3" --set threads=1 || fail "$1 ranks"
    near "$1 ranks, zero_stage $2: optimizer bytes" "$(number some optimizer_bytes_per_rank)" "$5"
    sent=$((n * (4 * $4 + ($2 ? 2 : 4)) * ($1 - 1) / $1))
    near "$1 ranks, zero_stage $2, $4 subtrees a run: bytes sent a step" "$(number some sent_bytes_a_step)" $sent
    figures="$figures; $1 ranks, zero_stage $2: $(number some optimizer_bytes_per_rank) bytes, $(number some sent_bytes_a_step) sent"
    [ "$4" -gt 1 ] || [ "$(number some sent_bytes_a_step)" -lt "$(($(number some ring_bytes_a_step) * 102 / 100))" ] || fail "$1 ranks send more than a ring's all-reduce"
    rm -rf "$dir/some"
}
cost 2 1 8 1 $((whole / 2))
cost 4 1 8 1 $((whole / 4))
cost 2 1 6 2 $((whole / 2))
[ "${PAWL_LONG:-0}" = 1 ] && cost 3 1 12 1 $((whole / 3))
cost 2 0 8 1 "$whole"

"$pawl" scaling "$dir/run.yaml" --ranks 1x2,2x1,3x1 --steps 2 --price 0.1 --json --svg "$dir/plot.svg" >"$dir/scaling.json" 2>"$dir/err" || fail "scaling: $(cat "$dir/err")"
for key in ranks threads tokens_per_second speedup efficiency communication_share sent_bytes_a_step cpu_seconds_a_step peak_bytes_per_rank cost_per_million_tokens; do
    [ "$(grep -o "\"$key\":[0-9]" "$dir/scaling.json" | wc -l)" = 3 ] || fail "scaling: no $key for all: $(cat "$dir/scaling.json")"
done
# Two cores each: what it costs to have the same cores as two ranks is the ratio of the speeds.
awk -F'[:,]' '{ for (i = 1; i < NF; i++) { if ($i ~ /"speedup"/) s[++n] = $(i + 1); if ($i ~ /"efficiency"/) e[++m] = $(i + 1) } }
    END { exit !(s[1] == 1 && e[1] == 1 && s[2] == e[2] && (d = 3 * e[3] - 2 * s[3]) < 0.001 && d > -0.001) }' "$dir/scaling.json" || fail "scaling: efficiency is not speed-up a core: $(cat "$dir/scaling.json")"
grep -q '</svg>' "$dir/plot.svg" && [ "$(grep -c '<circle' "$dir/plot.svg")" = 6 ] || fail "scaling: no plot of three points: $(cat "$dir/plot.svg")"
if command -v xmllint >/dev/null; then xmllint --noout "$dir/plot.svg" || fail "the plot is no XML"; fi
"$pawl" scaling "$dir/run.yaml" --ranks 1,2x1 2>"$dir/err"
[ $? = 2 ] && grep -q 'like 1x1,1x2,2x1' "$dir/err" || fail "a mixture: $(cat "$dir/err")"
"$pawl" scaling "$dir/run.yaml" --ranks 1,2 --steps 2 --weak >"$dir/table" 2>"$dir/err" && [ "$(grep -c 'rank.* of .* thread' "$dir/table")" = 2 ] || fail "weak scaling: $(cat "$dir/table" "$dir/err")"
echo "scaling: one rank $whole bytes$figures"
