#!/usr/bin/env python3
"""Compares two metrics.jsonl files step by step, and two adapters, by relative difference.

    scripts/parity/compare.py pawl/metrics.jsonl peft.jsonl --loss 1e-4 --grad_norm 1e-3
    scripts/parity/compare.py a.jsonl b.jsonl --adapters pawl/checkpoint-12 peft_adapter

Exit 1 where a difference is above a limit that was given, or where steps are missing.
"""

import argparse
import json
import pathlib
import sys

KEYS = ["loss", "grad_norm", "learning_rate"]


def read(path):
    with open(path) as f:
        return {line["step"]: line for line in map(json.loads, f)}


def relative(a, b):
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def compare_adapters(a, b):
    """Largest ||a - b|| / ||b|| over the tensors of the two, and over all together."""
    import torch
    from safetensors.torch import load_file

    left, right = (load_file(pathlib.Path(d) / "adapter_model.safetensors") for d in (a, b))
    if left.keys() != right.keys():
        only = sorted(left.keys() ^ right.keys())
        raise SystemExit(f"{a} and {b} have different tensors: {only[0]} and {len(only) - 1} more are in one of them only")
    worst, total, norm = ("", 0.0), 0.0, 0.0
    for key in sorted(left):
        x, y = left[key].double(), right[key].double()
        d, n = ((x - y) ** 2).sum().item(), (y**2).sum().item()
        total, norm = total + d, norm + n
        rel = (d / n) ** 0.5 if n else float(torch.any(x != 0))
        if rel > worst[1]:
            worst = (key, rel)
    return (total / norm) ** 0.5, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--steps", type=int, help="only the first so many")
    for key in KEYS:
        parser.add_argument("--" + key, type=float, help=f"largest relative difference of {key} allowed")
    parser.add_argument("--adapters", nargs=2, metavar="DIR")
    parser.add_argument("--adapter", type=float, help="largest relative difference of all adapter tensors together allowed")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    args = parser.parse_args()

    a, b = read(args.a), read(args.b)
    steps = sorted(a.keys() | b.keys())[:args.steps]
    missing = [s for s in steps if s not in a or s not in b]
    if missing:
        sys.exit(f"step {missing[0]} is only in {args.a if missing[0] in a else args.b}")
    result = {key: max((relative(a[s][key], b[s][key]) for s in steps), default=0.0) for key in KEYS}
    if args.adapters:
        result["adapter"], (name, worst) = compare_adapters(*args.adapters)
        result["worst_tensor"], result["worst_tensor_name"] = worst, name
    failed = [k for k in KEYS + ["adapter"] if getattr(args, k, None) is not None and not result.get(k, float("inf")) <= getattr(args, k)]

    if args.json:
        print(json.dumps(result | {"steps": len(steps), "failed": failed}))
    else:
        print(f"{'step':>5} " + " ".join(f"{k + ' a':>16} {k + ' b':>16} {'rel':>9}" for k in KEYS))
        for s in steps:
            print(f"{s:5d} " + " ".join(f"{a[s][k]:16.9g} {b[s][k]:16.9g} {relative(a[s][k], b[s][k]):9.2e}" for k in KEYS))
        for k, v in result.items():
            limit = getattr(args, k, None)
            print(f"largest {k}: {v if isinstance(v, str) else format(v, '.3e')}" + (f" (allowed {limit:g})" if isinstance(limit, float) else ""))
    sys.exit(f"above the limit: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
