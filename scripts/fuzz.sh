#!/bin/sh
# Fuzzes what reads other people's files, under AddressSanitizer and UBSan, with libFuzzer: needs clang and libclang-rt-14-dev beside what scripts/install.sh installs.
#   scripts/fuzz.sh [SECONDS for each] [NAME ...]      `scripts/fuzz.sh 60` in CI, an hour for each: `scripts/fuzz.sh 3600`, one: `scripts/fuzz.sh 600 jinja`
# It starts from tests/fuzz/corpus and the golden files. Inputs that found something new are kept in build-fuzz/corpus, one that fails in build-fuzz/failed.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
names=${*:-$(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_\(.*\)\.c/\1/')}
command -v clang >/dev/null || { echo "fuzz.sh: clang is missing: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }

out=build-fuzz
flags="-std=gnu11 -O1 -g -ffp-contract=off -D_GNU_SOURCE -I. -fsanitize=address,undefined -fno-sanitize-recover=undefined"
mkdir -p $out/objects $out/seeds/json $out/seeds/tokenizer $out/seeds/jinja $out/seeds/gguf
for source in kernels/base/*.c ckpt/gguf.c ckpt/tensor.c ckpt/fileio.c train/text/*.c; do
    object=$out/objects/$(echo "$source" | tr / _).o
    [ "$object" -nt "$source" ] || clang $flags -fsanitize=fuzzer-no-link -c "$source" -o "$object"
done

cp tests/golden/text/*.json $out/seeds/tokenizer/
cp tests/golden/text/*.gguf $out/seeds/gguf/
head -n 3 tests/golden/text/masks.jsonl | split -l 1 - $out/seeds/json/row
n=0
while IFS= read -r row; do # the source of each row, unescaped as far as printf does it
    n=$((n + 1))
    printf '%b' "$(printf '%s' "$row" | sed 's/^{"source": "//; s/", "messages": .*//; s/\\"/"/g')" >$out/seeds/jinja/$n
done <tests/golden/text/language.jsonl

for name in $names; do
    mkdir -p $out/corpus/$name tests/fuzz/corpus/$name
    clang $flags -fsanitize=fuzzer tests/fuzz/fuzz_$name.c $out/objects/*.o -o $out/fuzz_$name -lpcre2-8 -lutf8proc -lz -lm -lpthread
    echo "fuzz_$name, $seconds s"
    $out/fuzz_$name -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len=20000 -verbosity=0 -artifact_prefix=$out/failed-$name- \
        $out/corpus/$name tests/fuzz/corpus/$name $out/seeds/$name >$out/$name.log 2>&1 ||
        { tail -n 40 $out/$name.log; echo "fuzz_$name fails: $out/failed-$name-* is the input, $out/$name.log has more" >&2; exit 1; }
done
