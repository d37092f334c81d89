#!/bin/bash
# Training throughput and peak memory of pawl against PEFT + bitsandbytes NF4 on the CPU, alternated so that both see the same machine:
#
#   scripts/bench/peft.sh PAWL PYTHON GGUF HF_DIR [ROUNDS]
#
# PAWL the binary, PYTHON an interpreter with scripts/requirements.txt, GGUF the model as pawl reads it (SmolLM2-135M-Instruct.Q4_1.gguf), HF_DIR the same as
# scripts/parity/make_hf.py --dtype bfloat16 makes it. Batch 4 x 512, LoRA r=16 on all linear layers, every token a target. Environment:
#   BATCH, LENGTH, STEPS, THREADS   4, 512, 5, 2
#   PEER                            options of peft.py, e.g. "--mode nf4 --gradient_checkpointing"; default: the faster one of its two NF4 modes, which is
#                                   bf16 arithmetic (nf4) where the CPU has AMX, else fp32 (nf4-c32): vdpbf16ps runs at half the rate of fp32 FMA.
#                                   nf4 takes less memory: compare that too.
#   PAWL_SET                        key=value pairs for pawl train, e.g. "gradient_checkpointing=true"
# Prints a table of medians and ratios, and one JSON object as the last line.
set -eu
[ $# -ge 4 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
pawl=$1 python=$2 gguf=$3 hf=$4 rounds=${5:-5}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--batch "${BATCH:-4}" --length "${LENGTH:-512}" --steps "${STEPS:-5}" --threads "${THREADS:-2}")
if [ -z "${PEER:-}" ]; then
    if grep -qw amx_bf16 /proc/cpuinfo; then PEER="--mode nf4"; else PEER="--mode nf4-c32"; fi
fi
sets=()
for pair in ${PAWL_SET:-}; do sets+=(--set "$pair"); done

for round in $(seq "$rounds"); do
    "$python" "$here/pawl_run.py" --pawl "$pawl" --base "$gguf" "${common[@]}" "${sets[@]}" >>"$work/pawl.jsonl"
    # shellcheck disable=SC2086
    "$python" "$here/peft.py" --base "$hf" "${common[@]}" $PEER >>"$work/peft.jsonl" 2>"$work/peft.err" || { cat "$work/peft.err" >&2; exit 1; }
    echo "round $round: pawl $(tail -1 "$work/pawl.jsonl" | sed 's/.*"tokens_per_second": \([0-9]*\).*/\1/')," \
         "PEFT $(tail -1 "$work/peft.jsonl" | sed 's/.*"tokens_per_second": \([0-9]*\).*/\1/') tokens/s" >&2
done

"$python" - "$work" <<'END'
import json, pathlib, statistics, sys
work = pathlib.Path(sys.argv[1])
sides = {name: [json.loads(line) for line in (work / f"{name}.jsonl").read_text().splitlines()] for name in ("pawl", "peft")}
median = lambda name, key: statistics.median(run[key] for run in sides[name])
result = {"rounds": len(sides["pawl"])}
for name in sides:
    result[name] = {"tokens_per_second": median(name, "tokens_per_second"), "peak_rss_bytes": median(name, "peak_rss_bytes"), "mode": sides[name][0]["mode"]}
result["speed_ratio"] = statistics.median(a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(sides["pawl"], sides["peft"]))
result["memory_ratio"] = result["pawl"]["peak_rss_bytes"] / result["peft"]["peak_rss_bytes"]
print(f"{'':6}{'tokens/s':>10}{'peak MB':>10}")
for name in sides:
    print(f"{name:6}{result[name]['tokens_per_second']:10.0f}{result[name]['peak_rss_bytes'] / 1e6:10.0f}")
print(f"speed pawl / PEFT {result['speed_ratio']:.2f} (median of rounds), memory {result['memory_ratio']:.3f}")
print(json.dumps(result))
END
