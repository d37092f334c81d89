#!/usr/bin/env python3
"""Loads a pawl checkpoint by PeftModel.from_pretrained and compares its loss, and which examples it gets right, with what `pawl eval` says of the same rows.

    pawl data run.yaml --set shuffle=false --set datasets.0.path=heldout.jsonl --dump rows.jsonl
    pawl eval --fp32 --adapter run/checkpoint-12 --data heldout.jsonl --output matches.jsonl --json >eval.json
    scripts/parity/adapter_loss.py --base smollm2 --adapter run/checkpoint-12 --rows rows.jsonl --eval eval.json --matches matches.jsonl --max 1e-5

Exit 1 where the relative difference of the losses is above --max, or the two models' first choices make different examples match.
"""

import argparse
import json
import sys

import torch
from peft import PeftModel

import peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--rows", required=True, help="not packed, in the order of the data")
    parser.add_argument("--eval", required=True, help="what pawl eval --json printed")
    parser.add_argument("--matches", help="what pawl eval --output wrote")
    parser.add_argument("--mode", choices=["fp32", "bf16", "nf4-fp32"], default="fp32")
    parser.add_argument("--max", type=float, default=1e-5, help="largest relative difference allowed")
    args = parser.parse_args()

    peer.quiet()
    model = PeftModel.from_pretrained(peer.load_base(args.base, args.mode), args.adapter).eval()
    rows, total, matches = peer.read_rows(args.rows), 0.0, []
    with torch.no_grad():
        for ids, mask in peer.examples(rows):
            on, targets = torch.tensor(mask[1:]).bool(), torch.tensor(ids[1:])
            logits = model(input_ids=torch.tensor([ids])).logits[0, :-1].float()[on]
            total += torch.nn.functional.cross_entropy(logits, targets[on], reduction="sum").item()
            matches.append(bool((logits.argmax(-1) == targets[on]).all()))
    with open(args.eval) as f:
        said = json.load(f)
    loss, count = total / peer.supervised(rows), len(matches)
    relative = abs(loss - said["loss"]) / loss
    print(f"{count} examples, {peer.supervised(rows)} targets: loss {loss:.9g}, pawl {said['loss']:.9g}, relative difference {relative:.2e} (allowed {args.max:g})")
    if args.matches:
        with open(args.matches) as f:
            other = [line["match"] for line in map(json.loads, f)]
        if len(other) != count:
            sys.exit(f"{args.matches} has {len(other)} examples, {args.rows} has {count}")
        different = [i for i in range(count) if other[i] != matches[i]]
        print(f"exact match {sum(matches)}, pawl {sum(other)}, different {len(different)}")
        if different:
            sys.exit(f"example {different[0]} matches in one of them only")
    sys.exit(0 if relative <= args.max else 1)


if __name__ == "__main__":
    main()
