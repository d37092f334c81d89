#!/usr/bin/env python3
"""What one training step must move and compute on a card, kernel by kernel, from shapes alone (nothing here is measured).

    scripts/bench/roofline.py --config MODEL/config.json --tokens 2048 --rank 16 --base nf4
    scripts/bench/roofline.py --shape qwen3-8b --tokens 4096 --length 2048 --card h200      a shape of shapes.py; the card's data sheet: adds the least time of each kernel
    ... --bandwidth 4.1e12 --flops 700e12      the same with a card's own figures, copy_bytes and gemm_flops as gpu.sh measures them

Bytes count each operand once (what stays in caches is free), operations are multiply-adds times two. The kernels are those of kernels/cuda; each line names its file.
"""
import argparse
import json

import shapes

# Bytes and dense bf16 operations a second, by NVIDIA's data sheets: bounds that no card reaches.
CARDS = {"h200": (4.8e12, 989e12), "h100": (3.35e12, 989e12), "a100": (2.04e12, 312e12), "rtx4090": (1.01e12, 165e12)}
BITS = {"bf16": 16, "nf4": 4 + 8 / 64 + 32 / 64 / 256, "q4_0": 4.5, "q4_1": 5, "q8_0": 8.5, "int8": 8}


def shapes_of(path):
    with open(path) as f:
        c = json.load(f)
    heads = c["num_attention_heads"]
    return dict(C=c["hidden_size"], F=c["intermediate_size"], H=heads, G=c.get("num_key_value_heads", heads), D=c.get("head_dim") or c["hidden_size"] // heads,
                V=c["vocab_size"], L=c["num_hidden_layers"], qk_norm=c.get("model_type") == "qwen3")


def linear(rows, name, count, T, N, K, r, bits):
    """Forward and input gradient of a linear layer with LoRA, and the gradients of its pair. Weights are unpacked for both passes."""
    weights = N * K
    if bits < 16:
        rows.append((f"dequant.cu       {name}", 2 * count, weights * (bits / 8 + 2), 0))
    lora = r * (N + K)
    rows.append((f"linear.cu        {name} forward", count, 2 * (weights + lora + T * (K + N) + 2 * T * (r + N)), 2 * T * (weights + lora)))
    rows.append((f"linear.cu        {name} input gradient", count, 2 * (weights + lora + T * (K + N) + 2 * T * (r + K)), 2 * T * (weights + lora)))
    rows.append((f"linear.cu        {name} adapter gradient", count, 2 * T * (K + N + 2 * r) + 4 * lora, 2 * T * lora))


def kernels(s, T, length, r, base, supervised):
    C, F, H, G, D, V, L = (s[k] for k in "CFHGDVL")
    bits, rows, S = BITS[base], [], int(T * supervised)
    for name, N, K, count in (("q", H * D, C, 1), ("k, v", G * D, C, 2), ("o", C, H * D, 1), ("gate, up", F, C, 2), ("down", C, F, 1)):
        linear(rows, name, count * L, T, N, K, r, bits)
    pairs = T * (min(length, T) + 1) / 2 * H
    heads = T * D * (2 * H + 2 * G) * 2
    rows.append(("attention.cu     forward", L, heads + 4 * T * H, 4 * D * pairs))
    rows.append(("attention_backward.cu", L, 2 * heads + 8 * T * H, 14 * D * pairs))
    rows.append(("norm.cu          add_rmsnorm", 2 * L, 8 * T * C, 5 * T * C))
    rows.append(("norm.cu          recomputed, backward", 2 * L, 12 * T * C, 12 * T * C))
    rows.append(("elementwise.cu   rope, twice", 2 * L, 4 * T * D * (H + G), 3 * T * D * (H + G)))
    rows.append(("elementwise.cu   swiglu", L, 6 * T * F, 8 * T * F))
    rows.append(("elementwise.cu   swiglu backward", L, 12 * T * F, 12 * T * F))
    rows.append(("head.cu          two GEMMs and the chunks between", 1, 2 * (V * C + 2 * S * C) * 2 + 12 * S * V, 4 * S * V * C))
    theta = r * L * sum(N + K for N, K in ((H * D, C), (G * D, C), (G * D, C), (C, H * D), (F, C), (F, C), (C, F)))
    if s.get("qk_norm"):
        rows.append(("norm.cu          of heads, backward", 2 * L, 5 * T * D * (H + G) * 2, 9 * T * D * (H + G)))
    rows.append(("flat.cu          sum_squares, adamw", 1, (4 + 28 + 2) * theta, 20 * theta))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config", help="a Hugging Face config.json")
    p.add_argument("--shape", choices=shapes.SHAPES)
    p.add_argument("--card", choices=CARDS)
    p.add_argument("--tokens", type=int, default=2048, help="of a micro-batch")
    p.add_argument("--length", type=int, help="of an example (default: all tokens)")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--base", choices=BITS, default="nf4")
    p.add_argument("--supervised", type=float, default=1.0, help="share of tokens with a loss")
    p.add_argument("--bandwidth", type=float, help="bytes a second of the card")
    p.add_argument("--flops", type=float, help="bf16 operations a second of the card")
    a = p.parse_args()
    if bool(a.config) == bool(a.shape):
        p.error("expected --config or --shape")
    if a.card:
        a.bandwidth, a.flops = a.bandwidth or CARDS[a.card][0], a.flops or CARDS[a.card][1]
    s = shapes_of(a.config) if a.config else {**shapes.SHAPES[a.shape], "qk_norm": shapes.SHAPES[a.shape]["family"] == "qwen3"}
    known = a.bandwidth and a.flops
    total_bytes = total_flops = total_time = 0
    print(f"{'kernel':52} {'calls':>6} {'MB a call':>10} {'GFLOP a call':>13} {'FLOP/byte':>10}" + (f" {'ms in all':>10}" if known else ""))
    for name, calls, size, flops in kernels(s, a.tokens, a.length or a.tokens, a.rank, a.base, a.supervised):
        time = calls * max(size / a.bandwidth, flops / a.flops) if known else 0
        total_bytes, total_flops, total_time = total_bytes + calls * size, total_flops + calls * flops, total_time + time
        print(f"{name:52} {calls:6} {size / 1e6:10.1f} {flops / 1e9:13.2f} {flops / size:10.1f}" + (f" {time * 1e3:10.3f}" if known else ""))
    print(f"{'a micro-batch':52} {'':6} {total_bytes / 1e6:10.1f} {total_flops / 1e9:13.2f} {total_flops / total_bytes:10.1f}" + (f" {total_time * 1e3:10.3f}" if known else ""))
    if known:
        print(f"no faster than {a.tokens / total_time:.0f} tokens a second: every kernel at its bound, none overlapping another")


if __name__ == "__main__":
    main()
