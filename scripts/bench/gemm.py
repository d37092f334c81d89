#!/usr/bin/env python3
"""pawl's matrix products with 4-bit unpacking against torch.mm (oneDNN, MKL) on plain bf16 and fp32 matrices of the same shapes, in turn in one run.

    scripts/bench/gemm.py --kernels build/pawl_bench_kernels [--tokens 2048] [--threads 2] [--rounds 3] [--isa avx512]

Each side keeps its best; LoRA's 16 columns count on pawl's side, which computes them in the same product.
"""

import argparse
import json
import subprocess
import time

import torch

C, F, KV, R = 576, 1536, 192, 16
# op of pawl_bench_kernels, its shape there; what torch multiplies: (K, N) of (T, K) (K, N)
SHAPES = [("linear", "q, o: 576x576+16", (C, C)), ("linear", "k, v: 192x576+16", (C, KV)), ("linear", "gate, up: 1536x576+16", (C, F)), ("linear", "down: 576x1536+16", (F, C)),
          ("linear_backward", "q k v: 960+48 to 576", (C + 2 * KV, C)), ("linear_backward", "gate up: 3072+32 to 576", (2 * F, C)), ("linear_backward", "down: 576+16 to 1536", (C, F))]


def torch_rate(tokens, k, n, dtype, seconds):
    a, b = torch.randn(tokens, k).to(dtype), torch.randn(n, k).to(dtype).t()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begin)
    return 2 * tokens * k * n / best / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", required=True)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--isa", help="default: the one that pawl takes on this machine")
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    flags = open("/proc/cpuinfo").read()
    isa = args.isa or ("avx512bf16" if "AuthenticAMD" in flags and "avx512_bf16" in flags else "avx512" if "avx512bw" in flags else "avx2")
    best = {}
    for _ in range(args.rounds):
        command = [args.kernels, "--json", "--isa", isa, "--weights", "nf4", "--op", "linear", "--threads", str(args.threads), "--tokens", str(args.tokens), "--seconds", str(args.seconds)]
        ours = {(r["op"], r["shape"]): r["rate"] / 1e9 for r in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)}
        for op, shape, (k, n) in SHAPES:
            row = [ours[op, shape], torch_rate(args.tokens, k, n, torch.bfloat16, args.seconds), torch_rate(args.tokens, k, n, torch.float32, args.seconds)]
            best[op, shape] = [max(a, b) for a, b in zip(best.get((op, shape), row), row)]
    print(f"GFLOP/s, {args.tokens} tokens, {args.threads} threads, {isa}, best of {args.rounds} rounds\n{'':46}{'pawl NF4':>10}{'mm bf16':>10}{'mm fp32':>10}{'to bf16':>9}{'to the better':>15}")
    for (op, shape), (ours, bf16, fp32) in best.items():
        print(f"{op + ' ' + shape:46}{ours:10.0f}{bf16:10.0f}{fp32:10.0f}{ours / bf16:9.2f}{ours / max(bf16, fp32):15.2f}")


if __name__ == "__main__":
    main()
