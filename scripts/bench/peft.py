#!/usr/bin/env python3
"""Training throughput and memory of PEFT (with bitsandbytes for NF4) on the CPU: the peer of scripts/bench/peft.sh.

    scripts/bench/peft.py --base smollm2 --mode nf4 --batch 4 --length 512 --steps 5

LoRA r=16 on all linear layers, every token a target, AdamW, torch's fused scaled-dot-product attention. Prints one JSON object:
median tokens/s over the steps after warm-up, peak resident memory, the settings. --gemm measures torch's own matrix products instead.
"""

import argparse
import json
import pathlib
import random
import resource
import statistics
import sys
import time

START = time.perf_counter()

import torch

# In place of this folder, in which peft.py would hide the package of that name.
sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent / "parity")
import peer


def gemm(threads):
    """GFLOP/s of torch.mm (oneDNN, MKL) for the MLP of SmolLM2-135M at 2048 tokens."""
    torch.set_num_threads(threads)
    m, k, n = 2048, 576, 1536
    result = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype).t()
        times = []
        for _ in range(60):
            t = time.perf_counter()
            torch.mm(a, b)
            times.append(time.perf_counter() - t)
        flops = 2 * m * k * n
        result[str(dtype).removeprefix("torch.")] = {"median": flops / statistics.median(times) / 1e9, "best": flops / min(times) / 1e9}
    return {"gemm": [m, k, n], "threads": threads, "gflops": result, "torch": torch.__version__}


def chat_batches(path, size, grouped, count):
    """Batches of examples in random order, as a loader deals them out (the file has them as they were packed, like lengths together); grouped: sorted by length within 50 batches."""
    rows = [{"ids": ids, "labels_mask": mask} for ids, mask in peer.examples(peer.read_rows(path))]
    random.Random(1).shuffle(rows)
    if grouped:
        rows = [r for at in range(0, len(rows), 50 * size) for r in sorted(rows[at:at + 50 * size], key=lambda r: len(r["ids"]))]
    batches = [rows[at:at + size] for at in range(0, len(rows) - size + 1, size)]
    if grouped:
        random.Random(1).shuffle(batches)
    return batches[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="Hugging Face directory, see scripts/parity/make_hf.py")
    parser.add_argument("--mode", choices=["fp32", "bf16", "nf4", "nf4-c32"], default="nf4", help="; ".join(f"{k}: {v}" for k, v in peer.MODES.items()))
    parser.add_argument("--autocast", action="store_true", help="run the forward pass under torch.autocast(bfloat16)")
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--attention", default="sdpa", choices=["sdpa", "eager"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--warmup", type=int, default=1, help="steps that do not count")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", help="rows of `pawl data --dump` instead of random ones: their examples, in padded batches")
    parser.add_argument("--examples", type=int, default=8, help="of --rows: examples a batch, a step being one batch")
    parser.add_argument("--group_by_length", action="store_true", help="of --rows: batches of examples of like length, as transformers' option makes them")
    parser.add_argument("--gemm", action="store_true", help="GFLOP/s of torch.mm and nothing else")
    peer.add_settings(parser)
    args = parser.parse_args()
    if args.gemm:
        print(json.dumps(gemm(args.threads)))
        return
    if not args.base:
        parser.error("--base is needed")

    peer.quiet()
    torch.set_num_threads(args.threads)
    model = peer.load_lora(peer.load_base(args.base, args.mode, args.attention), None, args.lora_r, args.lora_alpha, args.seed)
    if args.gradient_checkpointing:
        peer.checkpointing(model)
    args.micro_batch_size = args.batch
    total = args.warmup + args.steps
    trainer = peer.Trainer(model, total, args)
    generator = torch.Generator().manual_seed(args.seed)
    ids = torch.randint(3, model.config.vocab_size, (total, args.batch, args.length), generator=generator).tolist()
    loaded, first, seconds, cpu, losses = time.perf_counter() - START, None, [], [], []
    batches = [[{"ids": row, "labels_mask": [1] * args.length} for row in step] for step in ids]
    if args.rows:
        # As many examples a batch as give about the tokens of the other side's step, seen over several batches: lengths differ.
        total = args.warmup + args.steps * 4
        batches = chat_batches(args.rows, args.examples, args.group_by_length, total)
        args.micro_batch_size = trainer.micro_batch = args.examples
    for step, rows in enumerate(batches):
        t, c = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.autocast):
            loss, _, _ = trainer.step(rows)
        seconds.append(time.perf_counter() - t)
        cpu.append(time.process_time() - c)
        losses.append(loss)
        first = first or time.perf_counter() - START
    tokens = [sum(len(row["ids"]) for row in rows) for rows in batches]
    median = statistics.median(seconds[args.warmup:])
    print(json.dumps({
        "peer": "peft", "mode": args.mode, "autocast": args.autocast, "gradient_checkpointing": args.gradient_checkpointing, "attention": args.attention,
        "batch": args.batch, "length": args.length, "lora_r": args.lora_r, "threads": args.threads, "steps": args.steps,
        "tokens_per_second": sum(tokens[args.warmup:]) / sum(seconds[args.warmup:]) if args.rows else args.batch * args.length / median, "step_seconds": median, "all_step_seconds": seconds,
        "all_step_cpu_seconds": cpu, "first_loss": losses[0],
        "load_seconds": loaded, "seconds_to_first_step": first, "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "torch": torch.__version__}))


if __name__ == "__main__":
    main()
