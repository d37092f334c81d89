#!/usr/bin/env python3
"""Draws the losses of a run as an SVG, with the places where a process died and another went on.

    scripts/plot_run.py RUN_DIR OUT.svg

Needs nothing but Python. A kill shows as steps whose durable_step jumps back: the resume event names the step it went on from.
"""

import json
import pathlib
import sys

W, H, LEFT, BOTTOM, TOP = 720, 300, 52, 36, 30


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run = pathlib.Path(sys.argv[1])
    steps, events = lines(run / "metrics.jsonl"), lines(run / "events.jsonl")
    last, top = steps[-1]["step"], max(s["loss"] for s in steps)
    x = lambda step: LEFT + (W - LEFT - 12) * (step - 1) / max(1, last - 1)
    y = lambda loss: TOP + (H - TOP - BOTTOM) * (1 - loss / top)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{H}" fill="white"/>']
    for tick in range(0, int(top) + 1, max(1, int(top) // 5)):
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{W - 12}" stroke="#ddd"/><text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for tick in range(1, last + 1):
        if tick == 1 or tick % max(1, last // 10) == 0:
            out.append(f'<text x="{x(tick):.1f}" y="{H - BOTTOM + 18}" text-anchor="middle">{tick}</text>')
    out.append(f'<text x="{(W + LEFT) / 2}" y="{H - 4}" text-anchor="middle">step</text>'
               f'<text x="14" y="{(H - BOTTOM + TOP) / 2}" text-anchor="middle" transform="rotate(-90 14 {(H - BOTTOM + TOP) / 2})">loss</text>')
    points = " ".join(f"{x(s['step']):.1f},{y(s['loss']):.1f}" for s in steps)
    out.append(f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.8"/>')
    for e in (e for e in events if e["event"] == "resume"):
        at = x(e["step"] + 0.5)
        out.append(f'<path d="M{at:.1f} {TOP}V{H - BOTTOM}" stroke="#c33" stroke-dasharray="4 3"/>'
                   f'<text x="{at + 5:.1f}" y="{TOP + 12}" fill="#c33">SIGKILL; resumed from step {e["step"]}</text>')
    out.append("</svg>\n")
    pathlib.Path(sys.argv[2]).write_text("\n".join(out))


if __name__ == "__main__":
    main()
