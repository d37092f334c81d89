#!/bin/sh
# Fuzzes what reads other people's files, under AddressSanitizer and UBSan, with libFuzzer: needs clang and libclang-rt-14-dev beside what scripts/install.sh installs.
#   scripts/fuzz.sh [SECONDS for each] [NAME ...]      a minute: `scripts/fuzz.sh`, an hour for each: `scripts/fuzz.sh 3600`, one: `scripts/fuzz.sh 600 jinja`
# It starts from tests/fuzz/corpus and the golden files. Inputs that found something new are kept in build-fuzz/corpus, one that fails is build-fuzz/failed-NAME-*.
# Without clang the same targets run in ctest (ctest -L fuzz) over inputs that tests/fuzz/mutate.c makes.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
names=${*:-$(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_\(.*\)\.c/\1/')}
command -v clang >/dev/null || { echo "fuzz.sh: clang is missing: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }

out=build-fuzz
flags="-std=gnu11 -O1 -g -ffp-contract=off -D_GNU_SOURCE -I. -I$out/include -fsanitize=address,undefined -fno-sanitize-recover=undefined"
mkdir -p $out/objects $out/include $out/seeds
for name in $names; do mkdir -p $out/seeds/$name; done
# One thread a process is enough here: clang need not have an OpenMP of its own.
echo 'static inline int omp_get_num_procs(void) { return 1; }' >$out/include/omp.h
[ -z "$(find kernels ckpt train -name '*.h' -newer $out/objects/built 2>/dev/null)" ] && [ -e $out/objects/built ] || rm -f $out/objects/*.o
for source in kernels/base/*.c ckpt/gguf.c ckpt/tensor.c ckpt/fileio.c ckpt/safetensors.c ckpt/checkpoint.c ckpt/journal.c ckpt/jsonl.c train/config/*.c train/data/*.c train/text/*.c; do
    object=$out/objects/$(echo "$source" | tr / _).o
    [ "$object" -nt "$source" ] || clang $flags -Wno-unknown-pragmas -fsanitize=fuzzer-no-link -c "$source" -o "$object"
done
touch $out/objects/built

mkdir -p $out/seeds/json $out/seeds/tokenizer $out/seeds/jinja $out/seeds/gguf $out/seeds/yaml
cp tests/data/*.yaml configs/*.yaml $out/seeds/yaml/
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
    clang $flags -fsanitize=fuzzer tests/fuzz/fuzz_$name.c $out/objects/*.o -o $out/fuzz_$name -lyaml -lpcre2-8 -lutf8proc -lz -lm -lpthread
    echo "fuzz_$name, $seconds s"
    # some targets write files: into the folder that they run in
    (cd $out && ./fuzz_$name -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len=20000 -verbosity=0 -print_final_stats=1 -artifact_prefix=failed-$name- \
        corpus/$name ../tests/fuzz/corpus/$name seeds/$name >$name.log 2>&1) ||
        { tail -n 40 $out/$name.log; echo "fuzz_$name fails: $out/failed-$name-* is the input, $out/$name.log has more" >&2; exit 1; }
    echo "  $(grep -E 'stat::number_of_executed_units|Done [0-9]* runs' $out/$name.log | tail -n 1)"
done
