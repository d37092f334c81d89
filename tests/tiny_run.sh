# Sourced by what makes runs of a tiny model, with dropout, shuffling, packing and accumulation, and compares them bit for bit. Set before: $pawl, $root, and $dir, an empty folder.
fail() { echo "FAILED: $*"; exit 1; }
export XDG_CACHE_HOME=${tiny_cache:-$dir/cache} OMP_WAIT_POLICY=passive

# 61 examples of different lengths
awk 'BEGIN { for (i = 1; i <= 61; i++) {
    q = ""; for (k = 0; k < 3 + i * 7 % 23; k++) q = q "word" (i * k % 17) " ";
    a = ""; for (k = 0; k < 1 + i * 5 % 9; k++) a = a "answer" (i + k) % 10 " ";
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", q, a } }' >"$dir/train.jsonl"
tiny_run_yaml() { # the keys of $dir/run.yaml besides these are read from stdin
    cat >"$dir/run.yaml" <<YAML
base_model: ${tiny_model:-$root/tests/golden/llama}
datasets:
  - path: $dir/train.jsonl
    type: chat_template
lora_r: 8
lora_dropout: 0.1
sequence_len: 256
sample_packing: true
micro_batch_size: 2
learning_rate: 2e-3
max_grad_norm: 0.5
$(cat)
YAML
}
run() { "$pawl" train "$dir/run.yaml" -q --set output_dir="$@"; }
same() { # DIR WHAT: adapter, moments and metrics of DIR equal the uninterrupted run's
    local f strip='s/"tokens_per_second".*//'
    for f in adapter_model.safetensors optimizer.safetensors; do
        cmp "$dir/whole/adapter/$f" "$1/adapter/$f" || fail "$2: $f differs"
    done
    cmp <(sed "$strip" "$dir/whole/metrics.jsonl") <(sed "$strip" "$1/metrics.jsonl") || fail "$2: metrics.jsonl differs"
}
