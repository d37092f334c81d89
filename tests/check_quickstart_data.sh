#!/bin/bash
# scripts/quickstart_data.sh on a made-up package index: who takes part, how many, valid JSON, the same choice again, and a clear end without lists.
set -eu
source_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

# Two sections of 300 packages, one of them spread over two areas, and one of 299.
mkdir "$work/bin"
cat >"$work/bin/apt-cache" <<'END'
#!/bin/sh
[ -z "${NO_LISTS:-}" ] || exit 0
awk 'function package(name, section) { printf "Package: %s\nDescription: a \"%s\" in C:\\temp\n more\nSection: %s\n\n", name, name, section }
     BEGIN { for (i = 1; i <= 300; i++) { package("net" i, i % 2 ? "net" : "contrib/net"); package("lib" i, "libs"); if (i < 300) package("game" i, "games") } }'
END
chmod +x "$work/bin/apt-cache"
export PATH=$work/bin:$PATH

sh "$source_dir/scripts/quickstart_data.sh" "$work/a" >/dev/null
[ "$(wc -l <"$work/a/train.jsonl")" = 48 ] || fail "train.jsonl: $(wc -l <"$work/a/train.jsonl") lines, expected 2 sections of 24"
[ "$(wc -l <"$work/a/heldout.jsonl")" = 24 ] || fail "heldout.jsonl: $(wc -l <"$work/a/heldout.jsonl") lines, expected 2 sections of 12"
[ "$(cat "$work"/a/*.jsonl | sort -u | wc -l)" = 72 ] || fail "a package was chosen twice"
for section in net libs; do
    [ "$(grep -c "\"assistant\",\"content\":\"$section\"}" "$work/a/train.jsonl")" = 24 ] || fail "$section: not 24 for training"
done
grep -q games "$work/a/train.jsonl" && fail "games has 299 packages and took part"
# One line in full: quotes and backslashes are escaped.
name=$(sed -n '1s/.*"content":"\([a-z0-9]*\): .*/\1/p' "$work/a/train.jsonl")
expected="{\"messages\":[{\"role\":\"user\",\"content\":\"$name: a \\\"$name\\\" in C:\\\\temp\"},{\"role\":\"assistant\",\"content\":"
[[ $(head -1 "$work/a/train.jsonl") == "$expected"* ]] || fail "first line: $(head -1 "$work/a/train.jsonl"), expected $expected..."

sh "$source_dir/scripts/quickstart_data.sh" "$work/b" 70 >/dev/null
cmp "$work/a/heldout.jsonl" "$work/b/heldout.jsonl" || fail "the held-out packages depend on the number of training packages"
[ "$(cat "$work/a/train.jsonl" "$work/b/train.jsonl" | sort -u | wc -l)" = 140 ] || fail "24 a section are not among 70 a section"

if NO_LISTS=1 sh "$source_dir/scripts/quickstart_data.sh" "$work/c" 2>"$work/err"; then fail "no lists, but exit 0"; fi
grep -q "apt-get update" "$work/err" || fail "no lists: the message does not say what to do: $(cat "$work/err")"
[ ! -e "$work/c/train.jsonl" ] || fail "no lists, but a train.jsonl"
