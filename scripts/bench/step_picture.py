#!/usr/bin/env python3
"""Where a step's time goes, as an SVG: a bar for each op of `pawl train --profile`, the dark part what its operations would take at the machine's measured peak.

    scripts/bench/step_picture.py RUN_DIR/profile.json OUT.svg --peak 350       # GFLOP/s of all threads: scripts/bench/kernels prints per cent of it

Needs nothing but Python.
"""

import argparse
import json

ROW, LEFT, WIDTH, TOP = 22, 150, 430, 34


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("out")
    parser.add_argument("--peak", type=float, required=True)
    args = parser.parse_args()
    profile = json.load(open(args.profile))
    total = profile["step_ms"]
    bars = [(o["op"], o["ms"], o["ms"] * o["gflops"] / args.peak) for o in profile["ops"] if o["ms"] >= 0.004 * total]
    rest = total - sum(ms for _, ms, _ in bars)
    bars.append(("all else", rest, 0))
    scale = WIDTH / max(ms for _, ms, _ in bars)
    height = TOP + ROW * len(bars) + 14
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" font-family="sans-serif" font-size="12">', f'<rect width="780" height="{height}" fill="white"/>',
           f'<text x="8" y="20">One step: {total:.0f} ms on {profile["device"]}; dark: what the operations take at {args.peak:.0f} GFLOP/s, {100 * sum(b for _, _, b in bars) / total:.0f}% of the step</text>']
    for i, (name, ms, ideal) in enumerate(bars):
        y = TOP + ROW * i
        out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text><rect x="{LEFT}" y="{y + 3}" width="{ms * scale:.1f}" height="15" fill="#a9c4e4"/>'
                   f'<rect x="{LEFT}" y="{y + 3}" width="{ideal * scale:.1f}" height="15" fill="#1f5fa8"/>'
                   f'<text x="{LEFT + ms * scale + 6:.1f}" y="{y + 14}">{ms:.0f} ms, {100 * ms / total:.1f}%{f", {100 * ideal / ms:.0f}% of peak" if ideal else ""}</text>')
    out.append("</svg>\n")
    open(args.out, "w").write("\n".join(out))


if __name__ == "__main__":
    main()
