#!/usr/bin/env python3
"""What durability costs: see durability.sh, which calls this."""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from pawl_run import write_text

CONFIG = """base_model: {base}
adapter: qlora
lora_r: 16
lora_alpha: 32
datasets:
  - path: {data}
    type: completion
sequence_len: {length}
truncation: truncate
micro_batch_size: {batch}
num_epochs: 1
learning_rate: 2e-4
save_minutes: 1000
device: cpu
threads: {threads}
spot: "off"
max_fruitless_starts: 1000000
"""


class Run:
    """A run directory and the processes that work on it one after the other."""

    def __init__(self, args, work, name, batch, length, rows):
        self.pawl, self.out = args.pawl, work / name
        data, self.yaml = work / f"{name}.jsonl", work / f"{name}.yaml"
        write_text(data, rows, length)
        self.yaml.write_text(CONFIG.format(base=pathlib.Path(args.base).resolve(), data=data, batch=batch, length=length, threads=args.threads))

    def start(self, *sets):
        """A process; what it says about its steps comes with the time at which it said so. Lines of metrics.jsonl come later: they wait for the disk."""
        command = [self.pawl, "train", str(self.yaml), "--set", f"output_dir={self.out}"]
        self.events_before, self.said, self.text = len(self.all_events()), [], []
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(command + [w for s in sets for w in ("--set", s)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.listen, args=(self.process.stderr,))
        self.reader.start()

    def listen(self, stream):
        for line in stream:
            self.text.append(line)
            if line.startswith("step ") and "tokens/s" in line:
                self.said.append(time.perf_counter())

    def wait_steps(self, n):
        """Until this process has done n steps: seconds since its start."""
        while len(self.said) < n:
            if self.process.poll() is not None:
                sys.exit("the run ended: " + "".join(self.text[-5:]))
            time.sleep(0.005)
        return self.said[n - 1] - self.begin

    def all_events(self):
        try:
            return [json.loads(line) for line in (self.out / "events.jsonl").read_text().splitlines() if line.endswith("}")]
        except FileNotFoundError:
            return []

    def events(self, name):
        """Of this process; of all of them after stop()."""
        return [e for e in self.all_events()[self.events_before:] if e["event"] == name]

    def last(self, name):
        """The newest such event of this process, once it is written: what is said comes a moment earlier."""
        while not self.events(name):
            if self.process.poll() is not None:
                sys.exit("the run ended: " + "".join(self.text[-5:]))
            time.sleep(0.005)
        return self.events(name)[-1]

    def stop(self, sig):
        self.process.send_signal(sig)
        self.process.wait()
        self.reader.join()

    def numbers(self):
        """How many numbers are trained: the moments are two of four bytes each."""
        newest = max(self.out.glob("checkpoint-*/optimizer.safetensors"), key=lambda p: p.stat().st_mtime)
        return newest.stat().st_size // 8


def bootstrap(values, seed=1, resamples=2000):
    rng, n = random.Random(seed), len(values)
    means = sorted(statistics.mean(rng.choices(values, k=n)) for _ in range(resamples))
    return means[int(0.95 * resamples)]


def measure_journal(args, work):
    """Blocks of steps with and without the journal, in turn, each a process that goes on with the same run; its first step does not count."""
    pairs = max(1, args.steps // (2 * args.block))
    run = Run(args, work, "journal", args.batch, args.length, (2 * pairs + 2) * (args.block + 4) * args.batch)
    wall, cpu = {True: [], False: []}, {True: [], False: []}
    journal_bytes = commits = 0
    for i in range(2 * pairs):
        on = i % 4 in (0, 3)  # on off off on: what drifts shows on both sides
        run.start(f"journal={str(on).lower()}")
        t = run.wait_steps(1)
        c = cpu_seconds(run.process.pid)
        t = run.wait_steps(1 + args.block) - t
        c = cpu_seconds(run.process.pid) - c
        run.stop(signal.SIGTERM)
        wall[on].append(t / args.block)
        cpu[on].append(c / args.block)
        for e in run.events("preempted"):
            journal_bytes += e["journal_bytes"] * on
            commits += e["commits"] * on
        print(f"block {i + 1} of {2 * pairs}: journal {'on ' if on else 'off'} {wall[on][-1]:.3f} s a step, {cpu[on][-1]:.3f} s of CPU", file=sys.stderr)
    ratios = [a / b for a, b in zip(wall[True], wall[False])]
    cpu_ratios = [a / b for a, b in zip(cpu[True], cpu[False])]
    return {"batch": args.batch, "length": args.length, "steps": 2 * pairs * args.block, "block": args.block, "step_seconds_on": statistics.median(wall[True]),
            "step_seconds_off": statistics.median(wall[False]), "ratio": statistics.mean(ratios), "ratio_upper_95": bootstrap(ratios),
            "cpu_ratio": statistics.mean(cpu_ratios), "cpu_ratio_upper_95": bootstrap(cpu_ratios),
            "bytes_a_step": journal_bytes / max(1, commits), "bytes_a_step_and_number": journal_bytes / max(1, commits) / run.numbers()}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_starts(args, work):
    """Process start to the first new step, 1 x 128: of a new run, and of resumes after a SIGKILL."""
    run = Run(args, work, "starts", 1, 128, 40 * (args.starts + 1))
    run.start()
    first = run.wait_steps(1)
    run.wait_steps(4)
    run.stop(signal.SIGKILL)
    seconds, cpu, proved, parts = [], [], 0, {"verify": [], "load": [], "replay": [], "first_step": []}
    for _ in range(args.starts):
        run.start()
        seconds.append(run.wait_steps(1))
        cpu.append(cpu_seconds(run.process.pid))
        first_step = run.last("first_step")
        for key in parts:
            parts[key].append(first_step[key])
        proved += sum(e["proved"] for e in run.events("replay"))
        run.wait_steps(3)
        run.stop(signal.SIGKILL)
    return {"new_run": first, "resumed": statistics.median(seconds), "resumed_worst": max(seconds), "resumes": len(seconds), "proved": proved, "cpu": statistics.median(cpu),
            **{key: statistics.median(v) for key, v in parts.items()}}


def measure_preemptions(args, work):
    """SIGKILL at random moments: work that was done and not durable, and the time until the first new step is under way."""
    run = Run(args, work, "preemptions", args.batch, args.length, 400 * args.batch)
    rng = random.Random(1)
    run.start("num_epochs=10000")
    step = run.wait_steps(2)
    lost, again, steps = [], [], []
    for _ in range(args.kills):
        time.sleep(rng.uniform(0, min(3 * step, 30)))
        run.stop(signal.SIGKILL)
        run.start("num_epochs=10000")
        run.wait_steps(1)
        first, resume = run.last("first_step"), run.last("resume")
        lost.append(resume["lost_seconds"])
        steps.append(resume["lost_steps"])
        again.append(first["seconds"] - first["first_step"])
        step = first["first_step"]
    run.stop(signal.SIGKILL)
    total = [a + b for a, b in zip(lost, again)]
    return {"kills": args.kills, "step_seconds": step, "lost_seconds": statistics.mean(total), "worst": max(total), "work": statistics.mean(lost), "start": statistics.mean(again),
            "whole_steps_lost": sum(steps)}


def peft_start(args):
    here = pathlib.Path(__file__).parent
    command = [args.python, str(here / "peft.py"), "--base", args.hf, "--mode", "nf4-c32", "--batch", "1", "--length", "128", "--warmup", "0", "--steps", "1", "--threads", str(args.threads)]
    begin = time.perf_counter()
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {"seconds_to_first_step": json.loads(out.splitlines()[-1])["seconds_to_first_step"], "process": time.perf_counter() - begin}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--python", help="an interpreter with peft")
    parser.add_argument("--hf", help="the model as a Hugging Face directory, for PEFT")
    for name, value in (("steps", 200), ("block", 10), ("batch", 4), ("length", 512), ("kills", 20), ("starts", 5), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if args.starts:
            r = result["starts"] = measure_starts(args, work)
            print(f"process start to the first new step, 1 x 128: {r['new_run']:.2f} s of a new run, {r['resumed']:.2f} s resumed (median of {r['resumes']}, worst {r['resumed_worst']:.2f}; {r['cpu']:.2f} s of CPU): "
                  f"verify {r['verify']:.3f}, load {r['load']:.3f}, replay {r['replay']:.2f}, the step {r['first_step']:.2f}; {r['proved']} of {r['resumes']} proved by replay")
        if args.python and args.hf:
            r = result["peft_start"] = peft_start(args)
            print(f"PEFT: {r['seconds_to_first_step']:.1f} s (nothing to resume)")
        if args.steps:
            r = result["journal"] = measure_journal(args, work)
            print(f"journal on/off, {r['steps']} steps of {r['batch']} x {r['length']} in blocks of {r['block']}: step time {r['ratio']:.3f} (upper 95% bound {r['ratio_upper_95']:.3f}), "
                  f"CPU time {r['cpu_ratio']:.3f} ({r['cpu_ratio_upper_95']:.3f})")
            print(f"bytes written a step: {r['bytes_a_step'] / 1e6:.1f} MB, {r['bytes_a_step_and_number']:.2f} a trained number")
        if args.kills:
            r = result["preemptions"] = measure_preemptions(args, work)
            print(f"{r['kills']} SIGKILLs at random, steps of {r['step_seconds']:.2f} s: {r['lost_seconds']:.2f} s lost each (worst {r['worst']:.2f}): {r['work']:.2f} of work, {r['start']:.2f} until the "
                  f"next step began; {r['whole_steps_lost']} whole steps lost")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
