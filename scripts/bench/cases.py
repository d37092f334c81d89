"""The cases of scripts/bench/peft.sh: what each side runs, in turn, and the table of medians and ratios. See there for the arguments."""

import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import shapes

HERE = pathlib.Path(__file__).resolve().parent
STEPS, THREADS = os.environ.get("STEPS", "2"), os.environ.get("THREADS", "2")
# vdpbf16ps runs at half the rate of fp32 multiply-adds where there is no AMX and the CPU is no AMD: there PEFT is faster with arithmetic in fp32.
FLAGS = pathlib.Path("/proc/cpuinfo").read_text()
FAST_BF16 = "amx_bf16" in FLAGS or ("AuthenticAMD" in FLAGS and "avx512_bf16" in FLAGS)
BEST_NF4 = "nf4" if FAST_BF16 else "nf4-c32"
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}

FLOP_A_TOKEN = lambda length: shapes.flops_a_token(shapes.SHAPES["smollm2-135m"], length, 16)


def pawl(mode, batch=4, length=512, env=None, threads=THREADS, **more):
    return {"side": "pawl", "args": ["--mode", mode, "--batch", str(batch), "--length", str(length), "--threads", threads], "env": env or {}, **more}


def peft(mode, *options, batch=4, length=512, env=None):
    return {"side": "peft", "args": ["--mode", mode, "--batch", str(batch), "--length", str(length), "--threads", THREADS, *options], "env": env or {}}


# name: (what is compared, target of the first against the second, first, second)
CASES = {
    "nf4": ("NF4, 4 x 512, PEFT + bitsandbytes in its faster arithmetic here", 2.5, pawl("nf4"), peft(BEST_NF4)),
    "bf16": ("bf16 base, 4 x 512", 2.2, pawl("bf16"), peft("bf16")),
    "checkpointing": ("NF4, 4 x 512, gradient checkpointing on both sides", None,
                      pawl("nf4", set=["gradient_checkpointing=true"]), peft(BEST_NF4, "--gradient_checkpointing")),
    "chat": ("chat data, packed by pawl, PEFT in padded batches of 8", 4, pawl("nf4", chat="packed"), {**peft(BEST_NF4), "chat": "padded"}),
    "chat-grouped": ("chat data, packed by pawl, PEFT in batches of like length", None, pawl("nf4", chat="packed"), {**peft(BEST_NF4), "chat": "grouped"}),
    "avx2": ("AVX2: pawl on bf16 data, PEFT in fp32", 1.3, pawl("bf16", env={"PAWL_ISA": "avx2"}), peft("fp32", env=AVX2)),
    "threads": ("two threads, one thread", 1.9, pawl("nf4", threads="2"), pawl("nf4", threads="1")),
    "long": ("FLOP/s at 1 x 8192, at 4 x 512", 0.8, pawl("nf4", 1, 8192), pawl("nf4")),
}


def write_chat(path, rows, seed=1):
    """Examples of 20 to 400 tokens or so, the last third of each supervised."""
    rng = random.Random(seed)
    word = lambda: "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 5)))
    with open(path, "w") as f:
        for _ in range(rows):
            words = [word() for _ in range(rng.randint(8, 175))]
            cut = max(1, len(words) * 2 // 3)
            print(json.dumps({"prompt": " ".join(words[:cut]), "completion": " " + " ".join(words[cut:])}), file=f)


def run(command, env):
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class Sides:
    def __init__(self, program, python, gguf, hf, work):
        self.program, self.python, self.base, self.work = program, python, {"nf4": gguf, "stored": gguf, "bf16": hf}, work
        self.chat = work / "chat.jsonl"
        write_chat(self.chat, 2000)

    def pawl(self, case):
        mode = case["args"][1]
        command = [self.python, HERE / "pawl_run.py", "--pawl", self.program, "--base", self.base[mode], "--steps", STEPS, *case["args"]]
        if "chat" in case:
            command += ["--chat", self.chat, "--dump", self.work / "chat.rows"]
        for pair in case.get("set", []):
            command += ["--set", pair]
        return run(command, case["env"])

    def peft(self, case):
        command = [self.python, HERE / "peft.py", "--base", self.base["bf16"], "--steps", STEPS, *case["args"]]
        if "chat" in case:
            command += ["--rows", self.work / "chat.rows", "--examples", "8"] + (["--group_by_length"] if case["chat"] == "grouped" else [])
        return run(command, case["env"])


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    program, python, gguf, hf = sys.argv[1:5]
    rounds, names = int(sys.argv[5]) if len(sys.argv) > 5 else 5, sys.argv[6:] or list(CASES)
    for name in names:
        if name not in CASES:
            sys.exit(f"no case {name}: expected some of {' '.join(CASES)}")
    results = {}
    with tempfile.TemporaryDirectory() as work:
        sides = Sides(program, python, gguf, hf, pathlib.Path(work))
        for name in names:
            _, _, first, second = CASES[name]
            pairs = []
            peaks = []
            for i in range(rounds):
                a, b = getattr(sides, first["side"])(first), getattr(sides, second["side"])(second)
                pairs.append((a, b))
                if name == "nf4":
                    gemm = run([python, HERE / "peft.py", "--gemm", "--threads", THREADS], {})["gflops"]
                    peaks.append(max(t["median"] for t in gemm.values()))
                print(f"{name} {i + 1}/{rounds}: {a['tokens_per_second']:.0f}, {b['tokens_per_second']:.0f} tokens/s", file=sys.stderr, flush=True)
            speed = statistics.median(a["tokens_per_second"] / b["tokens_per_second"] for a, b in pairs)
            if name == "long":
                speed *= FLOP_A_TOKEN(8192) / FLOP_A_TOKEN(512)
            results[name] = {"ratio": speed, "memory_ratio": statistics.median(a["peak_rss_bytes"] for a, _ in pairs) / statistics.median(b["peak_rss_bytes"] for _, b in pairs),
                             "first": {k: statistics.median(a[k] for a, _ in pairs) for k in ("tokens_per_second", "peak_rss_bytes")},
                             "second": {k: statistics.median(b[k] for _, b in pairs) for k in ("tokens_per_second", "peak_rss_bytes")}}
            if peaks:
                results[name]["of_gemm_peak"] = statistics.median(a["tokens_per_second"] * FLOP_A_TOKEN(512) / 1e9 / p for (a, _), p in zip(pairs, peaks))
                results[name]["gemm_gflops"] = statistics.median(peaks)
    print(f"{'':66}{'tokens/s':>10}{'tokens/s':>10}{'ratio':>8}{'target':>8}{'GB':>7}{'GB':>7}{'ratio':>8}")
    for name, r in results.items():
        target = CASES[name][1]
        print(f"{CASES[name][0]:66}{r['first']['tokens_per_second']:10.0f}{r['second']['tokens_per_second']:10.0f}{r['ratio']:8.2f}{target or '':>8}"
              f"{r['first']['peak_rss_bytes'] / 1e9:7.2f}{r['second']['peak_rss_bytes'] / 1e9:7.2f}{r['memory_ratio']:8.3f}")
        if "of_gemm_peak" in r:
            print(f"{'  of torch.mm at 2048 x 576 x 1536, its better type: ' + format(r['gemm_gflops'], '.0f') + ' GFLOP/s':86}{r['of_gemm_peak']:8.2f}{0.8:>8}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
