#!/usr/bin/env python3
"""One `pawl train` on generated text, every row full and every token a target; prints the JSON object that scripts/bench/peft.py prints for its side.

    scripts/bench/pawl_run.py --pawl build/pawl --base SmolLM2-135M-Instruct.Q4_1.gguf --batch 4 --length 512 --steps 5
"""

import argparse
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """base_model: {base}
adapter: {adapter}
load_in_4bit: {four_bit}
lora_r: 16
lora_alpha: 32
lora_dropout: 0.0
lora_target_linear: true
datasets:
  - path: {data}
    type: {type}
sequence_len: {length}
truncation: truncate
sample_packing: {packing}
micro_batch_size: {batch}
gradient_accumulation_steps: 1
max_steps: {steps}
learning_rate: 2e-4
device: cpu
threads: {threads}
spot: "off"
output_dir: {out}
"""


def write_text(path, rows, length):
    """Lines of more tokens than a row holds: words of random letters, two tokens or more each."""
    rng = random.Random(1)
    with open(path, "w") as f:
        for _ in range(rows):
            words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(4, 9))) for _ in range(length)]
            print(json.dumps({"text": " ".join(words)}), file=f)


def first_step(process, metrics, start):
    """Seconds until the first line of metrics.jsonl is there."""
    while process.poll() is None:
        if metrics.exists() and metrics.stat().st_size:
            break
        time.sleep(0.002)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--mode", choices=["nf4", "stored", "bf16"], default="nf4", help="NF4, or what the file holds: GGUF blocks, bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chat", help="prompt_completion examples instead of generated text, packed into rows of 2048")
    parser.add_argument("--dump", help="of --chat: where to write the rows as `pawl data --dump` has them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="handed on to pawl train")
    args = parser.parse_args()

    total = args.warmup + args.steps
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if args.chat:
            args.batch, args.length = 1, 2048
        else:
            write_text(work / "text.jsonl", total * args.batch, args.length)
        (work / "run.yaml").write_text(CONFIG.format(
            base=pathlib.Path(args.base).resolve(), adapter="qlora" if args.mode == "nf4" else "lora", four_bit=str(args.mode == "nf4").lower(),
            data=args.chat or work / "text.jsonl", type="prompt_completion" if args.chat else "completion", packing=str(bool(args.chat)).lower(), length=args.length, batch=args.batch, steps=total, threads=args.threads, out=work / "run"))
        if args.dump:
            subprocess.run([args.pawl, "data", str(work / "run.yaml"), "-q", "--show", "0", "--dump", args.dump], check=True, stdout=subprocess.DEVNULL)
        start = time.perf_counter()
        command = [args.pawl, "train", str(work / "run.yaml")] + [w for s in args.set for w in ("--set", s)]
        with open(work / "stderr", "w") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        first = first_step(process, work / "run" / "metrics.jsonl", start)
        process.wait()
        wall, usage = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode:
            sys.exit(f"pawl train: exit {process.returncode}\n{(work / 'stderr').read_text()}")
        lines = [json.loads(line) for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]
    short = [m["step"] for m in lines if m["tokens"] != args.batch * args.length and not args.chat]
    if short or len(lines) != total:
        sys.exit(f"{len(lines)} steps, expected {total} of {args.batch * args.length} tokens; others: {short}")
    seconds = [m["step_seconds"] for m in lines]
    print(json.dumps({
        "peer": "pawl", "mode": args.mode, "batch": args.batch, "length": args.length, "threads": args.threads, "steps": args.steps,
        "tokens_per_second": sum(m["tokens"] for m in lines[args.warmup:]) / sum(seconds[args.warmup:]) if args.chat else statistics.median(m["tokens_per_second"] for m in lines[args.warmup:]),
        "step_seconds": statistics.median(seconds[args.warmup:]), "all_step_seconds": seconds, "first_loss": lines[0]["loss"], "wall_seconds": wall,
        "seconds_to_first_step": first,
        "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_rss_bytes": usage.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
