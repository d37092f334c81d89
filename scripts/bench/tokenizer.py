#!/usr/bin/env python3
"""Encoding speed of `pawl data tokenize` against the tokenizers library (Rust), both on one core, alternated in one run.

    python scripts/bench/tokenizer.py PAWL TOKENIZER.json [MB] [RUNS]

Texts: English (the licences of this system), code (the standard library of this Python), Chinese (shuffled words), in lines of about 1 kB. pawl's time is that of the whole
process with its JSON in and out, less a run on one line; the library's is encode_batch alone, without parallelism. CPU seconds of both, so that other work on the machine
hardly counts. Prints MB/s and the ratio of the best runs.
"""
import glob
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

WORDS = "今天 天气 很好 我们 一起 去 公园 散步 他 正在 学习 语言 模型 训练 数据 计算机 科学 发展 速度 非常 快 中国 北京 上海 大学 研究 人员 提出 新的 方法 可以 有效 提高 效率 问题 解决 经济 社会 文化 历史 世界 " \
        "的 了 是 在 和 有 不 这 也 就 都 而 及 与 着 或 一个 没有 但是 因为 所以 如果 虽然 然后 最后 首先 已经 开始 需要 能够 应该 认为 表示 发现 关于 通过 其中 之间 之后 目前 主要 重要 不同".split()


def texts(files, size):
    data = ""
    for f in files:
        with open(f, encoding="utf-8", errors="replace") as h:
            data += h.read()
        if len(data.encode()) >= size:
            break
    return [data[i:i + 1000] for i in range(0, len(data), 1000)]


def chinese(size):
    r = random.Random(1)
    n, out = 0, []
    while n < size:
        line = "".join("".join(r.choice(WORDS) for _ in range(r.randint(4, 14))) + r.choice("，。，。！？") for _ in range(12))
        out.append(line)
        n += len(line.encode())
    return out


def pawl_seconds(pawl, tokenizer, path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["taskset", "-c", "0", pawl, "data", "tokenize", "--model", tokenizer, "--no-bos"], stdin=open(path, "rb"), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    pawl, path = sys.argv[1:3]
    size = int(float(sys.argv[3] if len(sys.argv) > 3 else 4) * 1e6)
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    tokenizer = Tokenizer.from_file(path)
    os.sched_setaffinity(0, {0})
    lib = os.path.dirname(os.__file__)
    sets = {"english": texts(sorted(glob.glob("/usr/share/common-licenses/*") + glob.glob("/usr/share/doc/*/copyright")), size), "code": texts(sorted(glob.glob(lib + "/*.py")), size),
            "chinese": chinese(size)}
    print("%-10s %8s %12s %12s %7s" % ("text", "MB", "pawl MB/s", "rust MB/s", "ratio"))
    for name, lines in sets.items():
        with tempfile.TemporaryDirectory() as tmp:
            whole, one = os.path.join(tmp, "whole"), os.path.join(tmp, "one")
            for file, rows in ((whole, lines), (one, lines[:1])):
                with open(file, "w") as f:
                    f.writelines(json.dumps({"text": t}, ensure_ascii=False) + "\n" for t in rows)
            mb = sum(len(t.encode()) for t in lines) / 1e6
            ours, theirs = [], []
            for _ in range(runs):
                ours.append(pawl_seconds(pawl, path, whole) - pawl_seconds(pawl, path, one))
                start = time.process_time()
                tokenizer.encode_batch(lines, add_special_tokens=False)
                theirs.append(time.process_time() - start)
            print("%-10s %8.1f %12.1f %12.1f %7.1f" % (name, mb, mb / min(ours), mb / min(theirs), min(theirs) / min(ours)))


main()
