#!/bin/bash
# A byte flipped or a tail cut in each file of the newest state in turn: it is found and named, and the run goes on from an older state to the same end.
epochs=4
. "$(dirname "$0")/common.sh"
whole
# A run that stands in its middle: checkpoints at 5 and 10, steps 11 and 12 in the journal.
stop_at 12 "$dir/half"
flip() { # FILE OFFSET
    local b
    b=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "$(printf '\\%03o' $((b ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
n=0
# hurt WHAT FILE HOW: a copy of the run whose FILE is damaged: HOW is an offset, or cut.
hurt() {
    rm -rf "$dir/hurt"
    cp -r "$dir/half" "$dir/hurt"
    [ "$1" = checkpoint ] && rm -rf "$dir/hurt/journal" # only checkpoints are left
    if [ "$3" = cut ]; then truncate -s -1 "$dir/hurt/$2"; else flip "$dir/hurt/$2" "$3"; fi
    n=$((n + 1))
}
goes_on() { # WHAT: to the same end
    run "$dir/hurt" 2>"$dir/err" || fail "$1: $(cat "$dir/err")"
    same "$dir/hurt" "$1"
}
[ -e "$dir/half/checkpoint-10/manifest.json" ] || fail "there is no checkpoint-10"
for f in "$dir/half/checkpoint-10"/*; do
    size=$(stat -c %s "$f") f=checkpoint-10/$(basename "$f")
    for how in cut $((size / 2)) $([ "$long" = 1 ] && echo 0 1 $((size / 4)) $((size * 3 / 4)) $((size - 1))); do
        hurt checkpoint "$f" "$how"
        goes_on "$f, $how"
        grep -q "checkpoint-10 is not used: .*$(basename "$f")" "$dir/err" || fail "$f, $how: not named: $(cat "$dir/err")"
        [ "$(last_event "$dir/hurt" resume step)" = 5 ] || fail "$f, $how: went on from step $(last_event "$dir/hurt" resume step), not from 5"
    done
done
# The journal: a record (its place is 0 to 1 MiB), then data. The newest slot is the one that the undamaged run goes on from.
rm -rf "$dir/hurt"
cp -r "$dir/half" "$dir/hurt"
park "$dir/hurt"
newest=$(last_event "$dir/hurt" resume from)
[ "$(last_event "$dir/hurt" replay proved)" = true ] || fail "the undamaged run: $(grep '"replay"' "$dir/hurt/events.jsonl")"
[ "$(last_event "$dir/hurt" resume step)" = 12 ] || fail "the undamaged run goes on from step $(last_event "$dir/hurt" resume step)"
for slot in "$dir/half/journal"/*; do
    slot=journal/$(basename "$slot") size=$(stat -c %s "$dir/half/$slot")
    for how in cut 0 40 200 1050000 $([ "$long" = 1 ] && echo 8 12 16 24 32 48 500 1048576 1150000 $((size - 1))); do
        hurt journal "$slot" "$how"
        goes_on "$slot, $how"
        from=$(last_event "$dir/hurt" resume from)
        if [ "$slot" = "$newest" ]; then
            [ "$from" != "$newest" ] || fail "$slot, $how: was used"
            grep -q "$slot is not used: .*$(basename "$slot")" "$dir/err" || fail "$slot, $how: not named: $(cat "$dir/err")"
        else
            [ "$from" = "$newest" ] || fail "$slot, $how: went on from $from, though $newest is good"
            # With a single state only its hashes are checked, and the event says so.
            [ "$(last_event "$dir/hurt" replay possible) $(last_event "$dir/hurt" replay batch)" = "false same" ] || fail "$slot, $how: $(grep '"replay"' "$dir/hurt/events.jsonl")"
        fi
    done
done
for f in run.json starts.json events.jsonl; do
    hurt beside $f 3
    goes_on "$f, 3"
done
# Nothing that verifies: refused, and not begun anew.
hurt checkpoint checkpoint-5/manifest.json 30
flip "$dir/hurt/checkpoint-10/manifest.json" 30
run "$dir/hurt" 2>"$dir/err" && fail "a run whose checkpoints are all damaged began anew"
grep -q -- '--fresh' "$dir/err" || fail "the refusal does not name --fresh: $(cat "$dir/err")"
run "$dir/hurt" --fresh 2>"$dir/err" || fail "--fresh: $(cat "$dir/err")"
same "$dir/hurt" "--fresh"
ls -d "$dir/hurt"/old-*/checkpoint-* >/dev/null || fail "--fresh deleted the old run"
echo "damage: $n flipped bytes and cut tails in every file of checkpoint and journal: all found and named, an older state used, the same end; all damaged: refused until --fresh"
