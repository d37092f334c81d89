# Sourced by the classes of crash tests: CLASS.sh PAWL ROOT. Each makes a tiny run with dropout, shuffling, packing and accumulation, hurts it, and compares what comes out with
# the uninterrupted run, bit for bit. PAWL_LONG=1 asks for the long form.
set -u
pawl=$1 root=$2
long=${PAWL_LONG:-0}
dir=$(mktemp -d "${PAWL_CRASH_DIR:-${TMPDIR:-/tmp}}/pawl-crash-XXXXXX")
export XDG_CACHE_HOME=$dir/cache OMP_WAIT_POLICY=passive
children=()
leave() {
    for p in "${children[@]}"; do kill -9 "$p" 2>/dev/null; done
    [ -n "${mounted:-}" ] && umount "$mounted" 2>/dev/null
    [ -n "${loop:-}" ] && losetup -d "$loop" 2>/dev/null
    rm -rf "$dir"
}
trap leave EXIT
fail() { echo "FAILED: $*"; exit 1; }
skip() { echo "$*"; exit 77; }

awk 'BEGIN { for (i = 1; i <= 61; i++) {
    q = ""; for (k = 0; k < 3 + i * 7 % 23; k++) q = q "word" (i * k % 17) " ";
    a = ""; for (k = 0; k < 1 + i * 5 % 9; k++) a = a "answer" (i + k) % 10 " ";
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", q, a } }' >"$dir/train.jsonl"
cat >"$dir/run.yaml" <<YAML
base_model: $root/tests/golden/llama
datasets:
  - path: $dir/train.jsonl
    type: chat_template
lora_r: 8
lora_alpha: 16
lora_dropout: 0.1
sequence_len: 256
sample_packing: true
micro_batch_size: 2
global_batch_size: 6
num_epochs: ${epochs:-12}
learning_rate: 2e-3
warmup_steps: 3
weight_decay: 0.01
max_grad_norm: 0.5
save_steps: 5
threads: 1
spot: off
max_fruitless_starts: 1000000
YAML

run() { "$pawl" train "$dir/run.yaml" -q --set output_dir="$@"; }
whole() { # the uninterrupted run
    run "$dir/whole" 2>"$dir/err" || fail "the uninterrupted run: $(cat "$dir/err")"
    steps=$(wc -l <"$dir/whole/metrics.jsonl")
}
same() { # DIR WHAT: adapter, moments and metrics of DIR equal the uninterrupted run's
    local f strip='s/"tokens_per_second".*//'
    for f in adapter_model.safetensors optimizer.safetensors; do
        cmp "$dir/whole/adapter/$f" "$1/adapter/$f" || fail "$2: $f differs"
    done
    cmp <(sed "$strip" "$dir/whole/metrics.jsonl") <(sed "$strip" "$1/metrics.jsonl") || fail "$2: metrics.jsonl differs"
}
# The value of a number or word of the last event of a kind: last_event DIR EVENT KEY
last_event() { grep "\"event\":\"$2\"" "$1/events.jsonl" | tail -1 | grep -o "\"$3\":\"\?[^,\"}]*" | sed 's/.*:"\?//'; }
