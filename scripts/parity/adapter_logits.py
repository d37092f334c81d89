#!/usr/bin/env python3
"""Loads a pawl checkpoint by PeftModel.from_pretrained and compares its logits with those that pawl wrote.

    scripts/parity/adapter_logits.py --base smollm2 --adapter run/checkpoint-12 --values logits.safetensors --max 1e-3

The values are a safetensors file as tests/golden has them: ids I32 (T), cu I32 (sequences + 1), logits F32 (T, V) or, to keep it small, nll F32 (T): -log p of token t
given those before it (0 at the first of a sequence; tokens that a mask U8 (T) leaves out are not looked at).
"""

import argparse
import sys

import torch
from peft import PeftModel
from safetensors.torch import load_file

import peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--values", required=True)
    parser.add_argument("--mode", choices=["fp32", "bf16", "nf4-fp32"], default="fp32")
    parser.add_argument("--max", type=float, default=1e-3, help="largest absolute difference allowed")
    args = parser.parse_args()

    peer.quiet()
    model = PeftModel.from_pretrained(peer.load_base(args.base, args.mode), args.adapter).eval()
    values = load_file(args.values)
    cu = values["cu"].tolist()
    worst = 0.0
    with torch.no_grad():
        for a, b in zip(cu, cu[1:]):
            ids = values["ids"][a:b].long()
            logits = model(input_ids=ids[None]).logits[0].float()
            if "logits" in values:
                worst = max(worst, (logits - values["logits"][a:b]).abs().max().item())
            if "nll" in values:
                nll = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
                on = values["mask"][a + 1:b].bool() if "mask" in values else torch.ones(b - a - 1, dtype=torch.bool)
                worst = max(worst, (nll - values["nll"][a + 1:b])[on].abs().max().item() if on.any() else 0.0)
    print(f"{len(cu) - 1} sequences, {cu[-1]} tokens: largest difference {worst:.3e} (allowed {args.max:g})")
    sys.exit(0 if worst <= args.max else 1)


if __name__ == "__main__":
    main()
