#!/bin/bash
# The bench of a card without a card: it says that it skips, its models and configurations are ones that pawl trains (tiny ones, on the CPU), and the bounds of shapes are printed.
set -u
pawl=$1 root=$2 build=$(dirname "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir/cache
fail() { echo "FAILED: $*"; exit 1; }
command -v python3 >/dev/null || { echo "python3 is missing: SKIPPED"; exit 77; }

if ! command -v nvidia-smi >/dev/null; then
    bash "$root/scripts/bench/gpu.sh" "$dir/build" >"$dir/out" 2>&1
    [ $? = 77 ] || fail "gpu.sh without a card: $(cat "$dir/out")"
    grep -q SKIPPED "$dir/out" || fail "gpu.sh skips in silence: $(cat "$dir/out")"
fi

python3 "$root/scripts/bench/gpu.py" --build "$build" --dry-run --dir "$dir" --out "$dir/gpu.json" >"$dir/table" 2>"$dir/err" || fail "the dry run: $(cat "$dir/err" "$dir/table")"
for row in "tiny-qwen3 | nf4" "tiny-qwen3 | bf16" "tiny-llama | nf4" "tiny-llama | bf16"; do
    grep -qE "^\| ${row/|/\\|} \| [0-9]+ \| [0-9.]+% " "$dir/table" || fail "no figures of $row: $(cat "$dir/table")"
done
grep -q '^tiny-llama nf4, share of the time in ops' "$dir/table" || fail "no time by op: $(cat "$dir/table")"

python3 "$root/scripts/bench/roofline.py" --shape qwen3-8b --tokens 4096 --length 2048 --card h200 >"$dir/roofline" || fail "roofline.py"
grep -q '^attention_backward.cu .* 36 ' "$dir/roofline" && grep -q '^no faster than [0-9]* tokens a second' "$dir/roofline" || fail "roofline.py: $(cat "$dir/roofline")"
