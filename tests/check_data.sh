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

# What the five sets do not have: a template that writes BOS twice stops a run, a role that nobody knows is named.
printf '%s' '{{ bos_token }}{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}' >"$scratch/twice.jinja"
printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' '{"messages": [{"role": "gpt4", "content": "a"}, {"role": "assistant", "content": "c"}]}' >"$scratch/roles.jsonl"
"$pawl" data data/roles.yaml --set datasets.0.path="$scratch/roles.jsonl" --set chat_template=jinja --set chat_template_jinja="$scratch/twice.jinja" >"$scratch/out" 2>&1
rc=$?
[ $rc = 1 ] || fail "BOS twice: exit $rc"
grep -q 'error: .*BOS token twice: 2' "$scratch/out" && grep -qF "$scratch/roles.jsonl line 1, 2" "$scratch/out" || fail "BOS twice: $(cat "$scratch/out")"
grep -q 'a role that is none of .*: 1' "$scratch/out" && grep -qF "at $scratch/roles.jsonl line 2" "$scratch/out" || fail "unknown role: $(cat "$scratch/out")"

# A block of {% generation %} that begins inside of a token: " a" (263) is learned, not only what is behind it.
printf '%s' '{% for m in messages %}{{ m.role }}: {% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}' >"$scratch/inside.jinja"
printf '%s\n' '{"messages": [{"role": "assistant", "content": "a dog"}]}' >"$scratch/inside.jsonl"
"$pawl" data data/roles.yaml --set datasets.0.path="$scratch/inside.jsonl" --set chat_template=jinja --set chat_template_jinja="$scratch/inside.jinja" --dump - >"$scratch/inside" || fail "inside: exit $?"
grep -qF '61,263,35,103,114,106,2],"labels_mask":[0,0,0,0,0,0,0,1,1,1,1,1,1]' "$scratch/inside" || fail "inside: $(cat "$scratch/inside")"

# The page: every token of the example with its id, what is learned marked, all text escaped, nothing loaded.
printf '%s\n' '{"text": "<script>alert(1)</script> \"q\" \u0027 \u202eabc & \u00e9"}' >"$scratch/page.jsonl"
"$pawl" data data/text.yaml --set datasets.0.path="$scratch/page.jsonl" --html "$scratch/page.html" >"$scratch/out" || fail "html: exit $?"
page=$(cat "$scratch/page.html")
counts=$(grep -o '[0-9]* tokens, [0-9]* supervised' "$scratch/page.html")
[ "$(grep -o '<span class="t[" ]' "$scratch/page.html" | wc -l) tokens, $(grep -o '<span class="t s' "$scratch/page.html" | wc -l) supervised" = "$counts" ] || fail "html: other tokens than $counts"
grep -q '<script\|<link\|<img\|src=\|url(\|@import\|http:' "$scratch/page.html" && fail "html: something that runs or is loaded"
for piece in '&lt;' '&quot;' '&#39;' '&amp;' '\u202e' 'title="100 a"' 'prefers-color-scheme:dark' 'Nothing looks wrong'; do
    [[ $page == *"$piece"* ]] || fail "html lacks $piece"
done
[[ $page == *$'\xe2\x80\xae'* ]] && fail "html: a character that turns the text around it"
"$pawl" data data/text.yaml --html - >"$scratch/page.html" || fail "html on stdout: exit $?"
[[ $(head -1 "$scratch/page.html") == '<!doctype html>' && $(tail -1 "$scratch/page.html") == '</html>' ]] || fail "html on stdout has more than the page"
grep -q 'data/text.jsonl line 4, 5, 10' "$scratch/page.html" || fail "html: no lines of findings"
refused "$scratch/none/page.html: cannot be written" data/text.yaml --html "$scratch/none/page.html"

json=$("$pawl" data data/roles.yaml --json) || fail "json: exit $?"
for key in '"examples":7,' '"supervised":24,' '"empty_masks":1,' '"name":"role_order","error":false,"count":3,"places":[{"file":"data/roles.jsonl","line":2}' '"steps":4,' '"held_out":null}'; do
    [[ $json == *"$key"* ]] || fail "json lacks $key: $json"
done
exit $failed
