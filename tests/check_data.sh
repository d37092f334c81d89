#!/bin/bash
# pawl data on five awkward data sets: its output is compared with what was read and checked by a person (tests/data/*.txt).
# After a change that is meant: check_data.sh PAWL SOURCE --write, then look at the difference.
set -u
pawl=$1 source=$2 write=${3:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache
failed=0

fail() { echo "FAILED: $*"; failed=1; }
expect() { # NAME FILE
    if [ "$write" = --write ]; then cp "$2" "data/$1.txt"; fi
    diff -u "data/$1.txt" "$2" || fail "$1"
}

cd "$source/tests" || exit 1
for name in roles text long parts bad; do
    "$pawl" data "data/$name.yaml" --show 12 >"$scratch/$name" 2>&1 || fail "$name: exit $?"
    expect "$name" "$scratch/$name"
    "$pawl" data "data/$name.yaml" --show 12 >"$scratch/again" 2>&1 # from the token cache
    cmp -s "$scratch/$name" "$scratch/again" || fail "$name: other output from the cache"
done

# Packed rows in the order of training: all in one row, borders told, first tokens never supervised.
"$pawl" data data/parts.yaml --dump "$scratch/rows" --show 0 >/dev/null || fail "dump: exit $?"
expect rows "$scratch/rows"

# One line that says what, where and what to do; exit 1.
refused() { # TEXT ARGUMENTS...
    local text=$1; shift
    "$pawl" data "$@" >"$scratch/out" 2>"$scratch/err"
    local rc=$?
    [ $rc = 1 ] || fail "$*: exit $rc"
    [ "$(wc -l <"$scratch/err")" = 1 ] || fail "$*: not one line: $(cat "$scratch/err")"
    grep -qF -- "$text" "$scratch/err" || fail "$*: '$text' is not in: $(cat "$scratch/err")"
}
refused "data/bad.jsonl:2: JSON" data/bad.yaml --set skip_bad_lines=false
refused "data/long.json:3: 139 tokens, sequence_len is 130" data/long.yaml --set truncation=error --set sequence_len=130
refused "no example is left of 4 records: 4 too long" data/long.yaml --set truncation=drop --set sequence_len=10
refused "data/nowhere.jsonl" data/text.yaml --set datasets.0.path=data/nowhere.jsonl
refused "no field \"messages\"" data/text.yaml --set datasets.0.type=chat_template

json=$("$pawl" data data/roles.yaml --json) || fail "json: exit $?"
for key in '"examples":7,' '"supervised":24,' '"empty_masks":1,' '"name":"role_order","error":false,"count":3,"places":[{"file":"data/roles.jsonl","line":2}' '"steps":4,' '"held_out":null}'; do
    [[ $json == *"$key"* ]] || fail "json lacks $key: $json"
done
exit $failed
