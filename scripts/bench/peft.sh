#!/bin/sh
# Training speed and peak memory of pawl against PEFT on the CPU, case by case, the two sides in turn so that both see the same machine:
#
#   scripts/bench/peft.sh PAWL PYTHON GGUF HF_DIR [ROUNDS [CASE...]]
#
# PAWL the binary, PYTHON an interpreter with scripts/requirements.txt, GGUF the model as pawl reads it (SmolLM2-135M-Instruct.Q4_1.gguf), HF_DIR the same as
# scripts/parity/make_hf.py --dtype bfloat16 makes it. LoRA r=16 on all linear layers. ROUNDS: 5. Without a CASE all of them run: scripts/bench/cases.py says what each is.
# STEPS (2) and THREADS (2) from the environment. Prints a table of medians and ratios, and one JSON object as the last line.
set -eu
[ $# -ge 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
python=$2
exec "$python" "$(dirname "$0")/cases.py" "$@"
