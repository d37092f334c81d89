#!/bin/bash
# What durability costs, measured on this machine:
#
#   scripts/bench/durability.sh PAWL GGUF [PYTHON HF_DIR]
#
# PAWL the binary, GGUF the model (SmolLM2-135M-Instruct.Q4_1.gguf, as scripts/quickstart.sh fetches it). With PYTHON, an interpreter with scripts/requirements.txt, and HF_DIR, the
# model as scripts/parity/make_hf.py makes it, PEFT's start stands beside. LoRA r=16 on all linear layers. Environment:
#   STEPS, BLOCK, BATCH, LENGTH   200, 10, 4, 512   journal on and off in turn by blocks of steps: ratio of step times with the bootstrap's upper 95% bound; bytes a step
#   STARTS                        5                 process start to the first new step at 1 x 128, resumed after a SIGKILL: verify, load and replay apart
#   KILLS                         20                seconds lost by a preemption, SIGKILL at random moments
#   THREADS                       2
# 0 leaves a part out. On a machine that others use too, read the ratio of CPU times. The last line is one JSON object.
set -eu
[ $# = 2 ] || [ $# = 4 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/durability.py" --pawl "$1" --base "$2" ${3:+--python "$3" --hf "$4"} --steps "${STEPS:-200}" --block "${BLOCK:-10}" --batch "${BATCH:-4}" --length "${LENGTH:-512}" \
    --starts "${STARTS:-5}" --kills "${KILLS:-20}" --threads "${THREADS:-2}"
