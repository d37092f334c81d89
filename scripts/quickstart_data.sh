#!/bin/sh
# A small data set that every Debian machine carries: "name: description" of a package -> its section, from the package index.
#
#   scripts/quickstart_data.sh OUT_DIR [TRAIN] [HELDOUT]        default: 24 for training and 12 held out of each section
#
# Writes OUT_DIR/train.jsonl and OUT_DIR/heldout.jsonl, a chat a line. Sections with 300 packages or more take part, archive areas (contrib/, non-free/)
# dropped from their names. A hash of the package's name decides who is in: the HELDOUT packages with the lowest hashes of a section are held out,
# the next TRAIN are for training. So the choice depends on the index alone, and the held-out packages not on TRAIN.
# Needs apt's lists, sh, awk and sort.
set -eu
export LC_ALL=C

out=${1:-}
train=${2:-24}
heldout=${3:-12}
case $out in
    '' | -*) echo "usage: scripts/quickstart_data.sh OUT_DIR [TRAIN] [HELDOUT]" >&2; exit 2 ;;
esac
case $train$heldout in
    *[!0-9]*) echo "quickstart_data.sh: TRAIN and HELDOUT are numbers of packages a section, found '$train' and '$heldout'" >&2; exit 2 ;;
esac

lists=$(mktemp)
trap 'rm -f "$lists"' EXIT
if command -v apt-cache >/dev/null; then
    apt-cache dumpavail >"$lists" 2>/dev/null || true
fi

# One line a package: section, hash, name, description, separated by tabs.
packages() {
    awk '
        BEGIN { for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i }
        # Below 2^53 throughout, so that doubles hold it exactly.
        function hash(s,   h, i) {
            h = 1
            for (i = 1; i <= length(s); i++) h = (h * 65599 + code[substr(s, i, 1)]) % 2147483647
            return (h * 48271) % 2147483647
        }
        /^Package: / { name = substr($0, 10) }
        /^Section: / { section = substr($0, 10); sub(/^.*\//, "", section) }
        /^Description(-en)?: / { description = substr($0, index($0, ": ") + 2) }
        /^$/ {
            if (name != "" && section != "" && description != "" && !(name in seen)) {
                seen[name] = 1
                gsub(/\t/, " ", description)
                printf "%s\t%d\t%s\t%s\n", section, hash(name), name, description
            }
            name = section = description = ""
        }'
}

# The first `heldout` and the next `train` of each section that has 300 or more: set, hash, JSON.
choose() {
    awk -F '\t' -v train="$train" -v heldout="$heldout" '
        # Backslash first. Control characters do not occur in the index but would not be JSON.
        function quoted(s) { gsub(/\\/, "\\\\\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
        function flush(   i) {
            if (n >= 300)
                for (i = 1; i <= n && i <= heldout + train; i++) print (i <= heldout ? "heldout" : "train") "\t" line[i]
            n = 0
        }
        $1 != section { flush(); section = $1 }
        {
            n++
            if (n <= heldout + train)
                line[n] = $2 "\t{\"messages\":[{\"role\":\"user\",\"content\":" quoted($3 ": " $4) "},{\"role\":\"assistant\",\"content\":" quoted($1) "}]}"
        }
        END { flush() }'
}

mkdir -p "$out"
packages <"$lists" | sort -t "$(printf '\t')" -k1,1 -k2,2n -k3,3 | choose | sort -t "$(printf '\t')" -k1,1 -k2,2n -k3,3 >"$out/chosen.tmp"
for set in train heldout; do
    awk -F '\t' -v set="$set" '$1 == set { print $3 }' <"$out/chosen.tmp" >"$out/$set.jsonl"
done
rm -f "$out/chosen.tmp"
if ! [ -s "$out/train.jsonl" ]; then
    rm -f "$out/train.jsonl" "$out/heldout.jsonl"
    echo "quickstart_data.sh: apt's package lists have no section with 300 packages: run 'apt-get update' as root first (on Debian or Ubuntu)," \
         "or give your own data: JSON lines {\"messages\":[{\"role\":\"user\",\"content\":\"...\"},{\"role\":\"assistant\",\"content\":\"...\"}]}" >&2
    exit 1
fi
echo "$out/train.jsonl: $(wc -l <"$out/train.jsonl") examples, $out/heldout.jsonl: $(wc -l <"$out/heldout.jsonl")"
