# Sourced by the tests of whole runs on emulated cards: runs of few short rows, since an emulated card is slow. Set before: $pawl and $root.
. "$root/tests/tiny_run.sh"
awk 'BEGIN { for (i = 1; i <= 24; i++) {
    q = ""; for (k = 0; k < 1 + i * 7 % 9; k++) q = q "w" (i * k % 17) " ";
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"a%d b%d\"}]}\n", q, i % 7, i % 5 } }' >"$dir/train.jsonl"
card_run_yaml() { # the keys of $dir/run.yaml besides these are read from stdin
    cat >"$dir/run.yaml" <<YAML
base_model: $root/tests/golden/llama
load_in_4bit: true
datasets:
  - path: $dir/train.jsonl
    type: chat_template
lora_r: 4
lora_dropout: 0.1
sequence_len: 96
max_steps: 4
learning_rate: 5e-3
$(cat)
YAML
}
