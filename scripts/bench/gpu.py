#!/usr/bin/env python3
"""Training on a card with random weights of known shapes: tokens/s, share of the card's own GEMM rate, memory by segment, time by op. scripts/bench/gpu.sh calls it.

    scripts/bench/gpu.py --build build [--shapes qwen3-0.6b,qwen3-8b] [--bases nf4,bf16] [--steps 6] [--dir /tmp] [--out gpu.json]
    scripts/bench/gpu.py --build build --dry-run      tiny shapes on the CPU: whether this script works, no figure of any card

Each run is 2 rows of 2048 tokens, 4 micro-batches a step, rank 16 on all linear layers, with journal and all: what Unsloth publishes for an H200. A second, shorter run measures each op by
itself. Model files are written to a temporary folder (16 GB for 8B in bf16) and deleted. MFU: operations a token of the shapes, without what is computed twice, against gemm_flops of
pawl_bench_card. Needs nothing but Python.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import shapes

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent.parent / "tests/golden/qwen3"
# Unsloth's published tokens/s on an H200: batch 2, accumulation 4, 2048 packed, rank 16.
UNSLOTH = {"qwen3-0.6b": {"nf4": 18300, "bf16": 21700}, "qwen3-1.7b": {"nf4": 18300, "bf16": 21400}, "qwen3-4b": {"nf4": 12100, "bf16": 12800}, "qwen3-8b": {"nf4": 8400, "bf16": 9100}}
RUN = """base_model: {model}
adapter: {adapter}
load_in_4bit: {four_bit}
lora_r: 16
lora_alpha: 32
lora_target_linear: true
datasets:
  - path: {data}
    type: completion
sequence_len: {length}
truncation: truncate
micro_batch_size: 2
gradient_accumulation_steps: {accumulation}
max_steps: {steps}
num_epochs: 1000
learning_rate: 1e-4
save_minutes: 0
spot: "off"
device: {device}
output_dir: {out}
"""


class Watch(threading.Thread):
    """The largest memory.used that nvidia-smi says while a run goes on, in bytes; 0 where it says nothing."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.over = 0, threading.Event()

    def run(self):
        while shutil.which("nvidia-smi") and not self.over.wait(0.3):
            said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True).stdout.split()
            if said and said[0].isdigit():
                self.peak = max(self.peak, int(said[0]) << 20)


def train(args, work, model, base, name, accumulation, steps, *options):
    """metrics, the first event, the profile where it was asked for, and nvidia-smi's peak of one run."""
    out = work / name
    (work / f"{name}.yaml").write_text(RUN.format(model=model, adapter="qlora" if base == "nf4" else "lora", four_bit=str(base == "nf4").lower(), data=work / "text.jsonl", length=args.length,
                                                  accumulation=accumulation, steps=steps, device=args.device, out=out))
    watch = Watch()
    watch.start()
    done = subprocess.run([args.build / "pawl", "train", work / f"{name}.yaml", "-q", *options], capture_output=True, text=True)
    watch.over.set()
    watch.join()
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    event = json.loads((out / "events.jsonl").read_text().splitlines()[0])
    profile = json.loads((out / "profile.json").read_text()) if (out / "profile.json").exists() else None
    shutil.rmtree(out)
    return metrics, event, profile, watch.peak


def measure(args, work, name, base, card):
    s = shapes.SHAPES[name]
    model = work / f"{name}-{base}"
    try:
        shapes.write_model(model, s, base, TOKENIZER)
        metrics, event, _, peak = train(args, work, model, base, "run", 4, args.steps)
        _, _, profile, _ = train(args, work, model, base, "profiled", 1, 3, "--profile")
    finally:
        shutil.rmtree(model, ignore_errors=True)
    full = [m for m in metrics[1:] if m["tokens"] == 8 * args.length] # the first step loads kernels
    if not full:
        raise RuntimeError(f"no step of {8 * args.length} tokens")
    speed = statistics.median(m["tokens_per_second"] for m in full)
    return {"shape": name, "base": base, "device": event["device"], "tokens_per_second": speed, "mfu": speed * shapes.flops_a_token(s, args.length, 16) / card["gemm_flops"],
            "unsloth": UNSLOTH.get(name, {}).get(base), "peak_bytes": peak, "memory": event["memory"], "ops": profile["ops"], "first_loss": metrics[0]["loss"], "step_seconds": [m["step_seconds"] for m in metrics]}


def table(card, results, failures):
    lines = [f"{card['device']}: bf16 GEMM {card['gemm_flops'] / 1e12:.3g} TFLOP/s, copy {card['copy_bytes'] / 1e9:.4g} GB/s, NF4 to bf16 {card['unpack_bytes'] / 1e9:.4g} GB/s, to the host "
             f"{card['copy_out_bytes'] / 1e9:.3g} GB/s", "", "| shape | base | tokens/s | MFU | Unsloth, H200 | ratio | memory, GiB | of it |", "|---|---|---|---|---|---|---|---|"]
    for r in results:
        parts = ", ".join(f"{k} {v / 2**30:.2f}" for k, v in sorted(r["memory"].items(), key=lambda p: -p[1])[:4])
        other = f"{r['unsloth']} | {r['tokens_per_second'] / r['unsloth']:.2f}" if r["unsloth"] else " | "
        lines.append(f"| {r['shape']} | {r['base']} | {r['tokens_per_second']:.0f} | {r['mfu']:.1%} | {other} | {(r['peak_bytes'] or sum(r['memory'].values())) / 2**30:.2f} | {parts} |")
    for r in results:
        total = sum(op["ms"] for op in r["ops"]) or 1
        lines += ["", f"{r['shape']} {r['base']}, share of the time in ops, each by itself: " +
                  ", ".join(f"{op['op']} {op['ms'] / total:.1%}" for op in sorted(r["ops"], key=lambda op: -op["ms"]) if op["ms"] / total >= 0.005)]
    return "\n".join(lines + [""] + [f"FAILED: {f}" for f in failures]).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", default="qwen3-0.6b,qwen3-1.7b,qwen3-4b,qwen3-8b,llama-3.1-8b")
    parser.add_argument("--bases", default="nf4,bf16")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dir", help="where the temporary folder is made")
    parser.add_argument("--out", type=pathlib.Path, help="all figures as JSON")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    size = "8192"
    if args.dry_run:
        args.shapes, args.device, args.length, args.steps, size = "tiny-qwen3,tiny-llama", "cpu", 64, 3, "128"
    args.build = args.build.resolve()
    card = json.loads(subprocess.run([args.build / "pawl_bench_card", "--device", args.device, "--size", size, "--seconds", "0" if args.dry_run else "2"], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    results, failures = [], []
    with tempfile.TemporaryDirectory(dir=args.dir) as work:
        work = pathlib.Path(work)
        shapes.write_text(work / "text.jsonl", 8 * args.steps, args.length)
        for name in args.shapes.split(","):
            for base in args.bases.split(","):
                try:
                    results.append(measure(args, work, name, base, card))
                    print(f"{name} {base}: {results[-1]['tokens_per_second']:.0f} tokens/s", file=sys.stderr, flush=True)
                except (RuntimeError, OSError) as e: # the others may do
                    failures.append(f"{name} {base}: {e}")
                    print(failures[-1], file=sys.stderr, flush=True)
    print(table(card, results, failures), end="")
    if args.out:
        args.out.write_text(json.dumps({"card": card, "runs": results, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
