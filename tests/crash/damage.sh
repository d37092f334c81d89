#!/bin/bash
# A byte flipped or a tail cut in each file of the newest state in turn: it is found and named, and the run goes on from an older state to the same end.
epochs=4
. "$(dirname "$0")/common.sh"
whole
# A run that stands in its middle: checkpoints at 5 and 10, and no further than 12 in the journal.
"$pawl" train "$dir/run.yaml" -q --set output_dir="$dir/half" 2>/dev/null &
pid=$!
children+=($pid)
until [ -e "$dir/half/checkpoint-10/manifest.json" ]; do
    sleep 0.05
    kill -0 $pid 2>/dev/null || fail "the run ended before its tenth step"
done
kill -9 $pid
wait $pid 2>/dev/null
flip() { # FILE OFFSET
    local b
    b=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "$(printf '\\%03o' $((b ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
try() { # WHAT DIR: goes on, tells, and ends equal
    run "$2" 2>"$dir/err" || fail "$1: $(cat "$dir/err")"
    same "$2" "$1"
    rm -rf "$2"
}
n=0
newest=$(cd "$dir/half" && ls -d checkpoint-* | sort -t- -k2n | tail -1)
for f in "$dir/half/$newest"/*; do
    for how in flip cut; do
        cp -r "$dir/half" "$dir/hurt"
        rm -rf "$dir/hurt/journal" # only checkpoints are left
        victim=$dir/hurt/$newest/$(basename "$f")
        size=$(stat -c %s "$victim")
        if [ $how = flip ]; then flip "$victim" $((size / 2)); else truncate -s $((size - 1)) "$victim"; fi
        run "$dir/hurt" --set max_minutes=0.0000001 2>"$dir/err"
        grep -q "$newest is not used: .*$(basename "$f")" "$dir/err" || fail "$how in $(basename "$f") is not named: $(cat "$dir/err")"
        try "$how in $(basename "$f")" "$dir/hurt"
        n=$((n + 1))
    done
done
for slot in "$dir/half/journal"/*; do
    for at in 0 40 $([ "$long" = 1 ] && echo 200 500 1048576 1150000) 1050000; do
        cp -r "$dir/half" "$dir/hurt"
        flip "$dir/hurt/journal/$(basename "$slot")" $at
        try "byte $at of $(basename "$slot")" "$dir/hurt"
        n=$((n + 1))
    done
    cp -r "$dir/half" "$dir/hurt"
    truncate -s 1100000 "$dir/hurt/journal/$(basename "$slot")"
    try "cut $(basename "$slot")" "$dir/hurt"
    n=$((n + 1))
done
# Nothing that verifies: refused, and not begun anew.
cp -r "$dir/half" "$dir/hurt"
rm -rf "$dir/hurt/journal"
for m in "$dir/hurt"/checkpoint-*/manifest.json; do flip "$m" 30; done
run "$dir/hurt" 2>"$dir/err" && fail "a run whose checkpoints are all damaged began anew"
grep -q -- '--fresh' "$dir/err" || fail "the refusal does not name --fresh: $(cat "$dir/err")"
run "$dir/hurt" --fresh 2>"$dir/err" || fail "--fresh: $(cat "$dir/err")"
same "$dir/hurt" "--fresh"
ls -d "$dir/hurt"/old-*/checkpoint-* >/dev/null || fail "--fresh deleted the old run"
echo "damage: $n flipped bytes and cut tails in every file of checkpoint and journal: all found, an older state used, the same end; all damaged: refused until --fresh"
