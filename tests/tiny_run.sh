# Sourced by what makes runs of a tiny model, with dropout, shuffling, packing and accumulation, and compares them bit for bit. Set before: $pawl and $root. Makes $dir, which goes at the end
# with the processes in $children; leave_first, where there is such a function, comes between.
dir=$(mktemp -d "${PAWL_CRASH_DIR:-${TMPDIR:-/tmp}}/pawl-run-XXXXXX")
children=()
leave() {
    for p in "${children[@]}"; do kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
    ! declare -F leave_first >/dev/null || leave_first
    rm -rf "$dir"
}
trap leave EXIT
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
bare() { sed 's/"tokens_per_second".*//' "$1/metrics.jsonl"; }
same() { # DIR WHAT [WHOLE]: adapter, moments and metrics of DIR equal those of the uninterrupted run in WHOLE
    local f whole=${3:-$dir/whole}
    for f in adapter_model.safetensors optimizer.safetensors; do
        cmp "$whole/adapter/$f" "$1/adapter/$f" || fail "$2: $f differs"
    done
    cmp <(bare "$whole") <(bare "$1") || fail "$2: metrics.jsonl differs"
}
lines() { wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0; }
