#!/usr/bin/env python3
"""Exact match of two systems on the same examples, and the bootstrap interval of their difference.

    scripts/parity/paired_bootstrap.py pawl.jsonl peft.jsonl --heldout data/heldout.jsonl --above -5

A line an example: {"index", "hit"}, {"index", "match"} as `pawl eval --output` writes it, or {"index", "text"} as `pawl generate --input` writes it, which
--heldout (chats, in order) turns into a hit where the text equals the last message but for white space around it. 2,000 resamples of the examples, 95% of the
differences lie in the interval, in points.
"""

import argparse
import json
import random
import sys


def read_hits(path, expected):
    hits = {}
    with open(path) as f:
        for line in map(json.loads, f):
            if "hit" in line or "match" in line:
                hits[line["index"]] = int(line["hit"] if "hit" in line else line["match"])
            elif expected is None:
                sys.exit(f"{path}: lines have no \"hit\": give --heldout with the expected answers")
            else:
                hits[line["index"]] = int(line["text"].strip() == expected[line["index"]].strip())
    return hits


def interval(differences, resamples, level, seed):
    rng, n = random.Random(seed), len(differences)
    means = sorted(sum(rng.choices(differences, k=n)) / n for _ in range(resamples))
    tail = (1 - level) / 2
    return means[int(tail * resamples)], means[min(resamples - 1, int((1 - tail) * resamples))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--heldout", help="chats with the expected answers, in the order of index")
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--above", type=float, help="exit 1 unless the interval of a - b lies above so many points")
    args = parser.parse_args()

    expected = None
    if args.heldout:
        with open(args.heldout) as f:
            expected = [json.loads(line)["messages"][-1]["content"] for line in f]
    a, b = read_hits(args.a, expected), read_hits(args.b, expected)
    if a.keys() != b.keys() or not a:
        sys.exit(f"{args.a} has {len(a)} examples, {args.b} has {len(b)}: they must be the same ones")
    low, high = interval([a[i] - b[i] for i in sorted(a)], args.resamples, 0.95, args.seed)
    n = len(a)
    result = {"examples": n, "a": 100 * sum(a.values()) / n, "b": 100 * sum(b.values()) / n, "low": 100 * low, "high": 100 * high}
    result["difference"] = result["a"] - result["b"]
    print(json.dumps(result))
    if args.above is not None and not result["low"] > args.above:
        sys.exit(f"the interval of the difference starts at {result['low']:.1f} points, {args.above:g} or less")


if __name__ == "__main__":
    main()
