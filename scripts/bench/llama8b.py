#!/usr/bin/env python3
"""One QLoRA run on random NF4 weights of the shape of Llama-3.1-8B: peak resident memory, loss, tokens/s. The weights (5.8 GB) are written to a temporary folder and deleted.

    scripts/bench/llama8b.py --pawl build/pawl --tokenizer hf-bfloat16 [--length 512] [--steps 2] [--dir /tmp]

--tokenizer: a Hugging Face directory whose tokenizer.json is taken; its ids are a part of the vocabulary. Needs nothing but Python.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import shapes

RUN = """base_model: {model}
adapter: qlora
datasets:
  - path: {data}
    type: completion
sequence_len: {length}
truncation: truncate
micro_batch_size: 1
max_steps: {steps}
learning_rate: 1e-4
spot: "off"
output_dir: {out}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--dir", help="where the temporary folder is made")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as work:
        work = pathlib.Path(work)
        size = shapes.write_model(work / "model", shapes.SHAPES["llama-3.1-8b"], "nf4", args.tokenizer)
        shapes.write_text(work / "text.jsonl", args.steps, args.length)
        (work / "run.yaml").write_text(RUN.format(model=work / "model", data=work / "text.jsonl", length=args.length, steps=args.steps, out=work / "run"))
        begin = time.perf_counter()
        process = subprocess.Popen([args.pawl, "train", str(work / "run.yaml"), "-q"])
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        if status:
            raise SystemExit(f"pawl train: status {status}")
        lines = [json.loads(line) for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]
        print(json.dumps({"weight_bytes": size, "peak_rss_bytes": usage.ru_maxrss * 1024, "losses": [m["loss"] for m in lines], "step_seconds": [m["step_seconds"] for m in lines],
                          "tokens_per_second": lines[-1]["tokens_per_second"], "wall_seconds": wall}))


if __name__ == "__main__":
    main()
