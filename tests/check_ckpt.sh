#!/bin/bash
# pawl ckpt on checkpoints put together here by hand, from what ckpt/checkpoint.h says about manifests and nothing else.
set -eu
pawl=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
crc() { gzip -c "$1" | tail -c 8 | head -c 4 | od -An -tx1 | awk '{ print $4 $3 $2 $1 }'; } # gzip ends with the CRC32, lowest byte first
entry() { printf '{"name": "%s", "bytes": %d, "crc32": "%s"}' "$(basename "$1")" "$(stat -c %s "$1")" "$(crc "$1")"; }

# make DIR STEP GENERATION WEIGHT: an adapter of one float, whose four bytes are given as printf has them.
make() {
    mkdir -p "$1"
    local header='{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s$4" "$header" >"$1/adapter_model.safetensors"
    echo '{"peft_type": "LORA"}' >"$1/adapter_config.json"
    printf '{"format_version": 1, "run_id": "0123456789abcdef", "generation": %d, "step": %d, "files": [%s, %s], "state": {"cursor": %d}' "$3" "$2" \
        "$(entry "$1/adapter_model.safetensors")" "$(entry "$1/adapter_config.json")" $(($2 * 8)) >"$1/manifest.json"
    printf ',\n "crc32": "%s"\n}\n' "$(crc "$1/manifest.json")" >>"$1/manifest.json"
}
run=$work/run
make "$run/checkpoint-10" 10 1 '\0\0\200\77'  # 1.0
make "$run/checkpoint-20" 20 1 '\0\0\0\100'   # 2.0
make "$run/checkpoint-15" 15 2 '\0\0\100\100' # 3.0
make "$run/checkpoint-12" 12 2 '\0\0\100\100'

"$pawl" ckpt verify "$run" >"$work/out" || fail "four good checkpoints do not verify: $(cat "$work/out")"
order=$("$pawl" ckpt ls --json "$run/" | grep -o '"step":[0-9]*' | tr -d '\n')
[ "$order" = '"step":15"step":12"step":20"step":10' ] || fail "order of (generation, step): $order"
"$pawl" ckpt show "$run" | grep -q 'cursor *120' || fail "show does not take the newest: $("$pawl" ckpt show "$run")"

"$pawl" ckpt diff --json "$run/checkpoint-10" "$run/checkpoint-20" >"$work/out"
[ "$(cat "$work/out")" = '[{"file":"adapter_model.safetensors","tensor":"w","shape":"(1)","max_abs":1,"rms":1,"relative":1,"equal":false}]' ] || fail "diff: $(cat "$work/out")"
"$pawl" ckpt diff "$run" "$run/checkpoint-12" | grep -q '1 tensors, 1 of them equal' || fail "a run stands for its newest"

# Damage in the newest: said by name, the next one is the newest.
printf 'X' | dd of="$run/checkpoint-15/adapter_model.safetensors" bs=1 seek=62 conv=notrunc 2>"$work/err"
if "$pawl" ckpt verify "$run" >"$work/out"; then fail "damage was not seen"; fi
grep -q 'checkpoint-15/adapter_model.safetensors: .*damaged' "$work/out" || fail "damage is not named: $(cat "$work/out")"
"$pawl" ckpt ls --json "$run" | grep -q '"path":"[^"]*checkpoint-15","verified":false,"reason":"[^"]*CRC32' || fail "ls does not give the reason: $("$pawl" ckpt ls --json "$run")"
"$pawl" ckpt show "$run" 2>"$work/err" | grep -q 'step 12' || fail "the damaged one was taken"
grep -q 'warning: checkpoint-15 is not used' "$work/err" || fail "the fallback was not said: $(cat "$work/err")"

# Pruned: two that verify stay, and the best. The damaged one counts for nothing.
ln -s checkpoint-10 "$run/adapter-best"
make "$run/checkpoint-5" 5 1 '\0\0\0\0'
[ "$("$pawl" ckpt prune --keep 2 --dry-run --json "$run")" = '{"removed":1}' ] || fail "dry run of prune"
[ -d "$run/checkpoint-5" ] || fail "a dry run removed something"
"$pawl" ckpt prune --keep 2 "$run" | grep -q '1 checkpoint removed' || fail "prune"
[ "$(cd "$run" && echo checkpoint-*)" = "checkpoint-10 checkpoint-12 checkpoint-15 checkpoint-20" ] || fail "after prune: $(ls "$run")"

# A copy that lost its links: the newest that verifies knows which one is the best.
rm "$run/adapter-best"
printf '{"format_version": 1, "run_id": "0123456789abcdef", "generation": 2, "step": 12, "files": [%s, %s], "state": {"best_step": 10}' \
    "$(entry "$run/checkpoint-12/adapter_model.safetensors")" "$(entry "$run/checkpoint-12/adapter_config.json")" >"$run/checkpoint-12/manifest.json"
printf ',\n "crc32": "%s"\n}\n' "$(crc "$run/checkpoint-12/manifest.json")" >>"$run/checkpoint-12/manifest.json"
make "$run/checkpoint-5" 5 1 '\0\0\0\0'
"$pawl" ckpt prune --keep 2 "$run" 2>"$work/err" | grep -q '1 checkpoint removed' && [ -d "$run/checkpoint-10" ] || fail "prune without links: $(ls "$run")"

rc=0; "$pawl" ckpt prune --keep 1 "$run" 2>"$work/err" || rc=$?
[ $rc = 2 ] || fail "--keep 1: exit $rc, expected 2"
rc=0; "$pawl" ckpt ls "$work/nothing" 2>"$work/err" || rc=$?
[ $rc = 1 ] && grep -q 'nothing: no such directory' "$work/err" || fail "no such run: exit $rc, $(cat "$work/err")"
if command -v flock >"$work/err"; then
    rc=0; flock "$run/lock" "$pawl" ckpt prune "$run" 2>"$work/err" || rc=$?
    [ $rc = 3 ] || fail "locked: exit $rc, expected 3: $(cat "$work/err")"
fi
