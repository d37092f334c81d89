#!/usr/bin/env python3
"""One QLoRA run on random NF4 weights of the shape of Llama-3.1-8B: peak resident memory, loss, tokens/s. The weights (5.8 GB) are written to a temporary folder and deleted.

    scripts/bench/llama8b.py --pawl build/pawl --tokenizer hf-bfloat16 [--length 512] [--steps 2] [--dir /tmp]

--tokenizer: a Hugging Face directory whose tokenizer.json is taken; its ids are a part of the vocabulary. Needs nothing but Python.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import time

LAYERS, C, F, H, G, D, V = 32, 4096, 14336, 32, 8, 128, 128256
LINEAR = {"self_attn.q_proj": (H * D, C), "self_attn.k_proj": (G * D, C), "self_attn.v_proj": (G * D, C), "self_attn.o_proj": (C, H * D),
          "mlp.gate_proj": (F, C), "mlp.up_proj": (F, C), "mlp.down_proj": (C, F)}
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": C, "intermediate_size": F, "num_hidden_layers": LAYERS, "num_attention_heads": H,
          "num_key_value_heads": G, "head_dim": D, "vocab_size": V, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False,
          "hidden_act": "silu", "torch_dtype": "bfloat16",
          "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}}
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


def tensors():
    """(name, dtype, shape, bytes as a function of their number) in the order of the file."""
    noise = random.Random(1).randbytes(1 << 24)
    small = b"".join(struct.pack("<H", struct.unpack("<I", struct.pack("<f", random.Random(i).gauss(0, 0.02)))[0] >> 16) for i in range(1 << 16))
    fill = lambda block: lambda n: (block[:min(len(block), n - at)] for at in range(0, n, len(block)))
    floats = lambda values: lambda n: iter([struct.pack(f"<{len(values)}f", *values)])
    ones = struct.pack("<H", 0x3f80) * C
    yield "model.embed_tokens.weight", "BF16", (V, C), fill(small)
    yield "lm_head.weight", "BF16", (V, C), fill(small)
    yield "model.norm.weight", "BF16", (C,), fill(ones)
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [1, 1], "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.03}).encode()
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", "BF16", (C,), fill(ones)
        yield prefix + "post_attention_layernorm.weight", "BF16", (C,), fill(ones)
        for name, (rows, columns) in LINEAR.items():
            n, w = rows * columns, prefix + name + ".weight"
            yield w, "U8", (n // 2, 1), fill(noise)
            yield w + ".absmax", "U8", (n // 64,), fill(noise)
            yield w + ".quant_map", "F32", (16,), floats(NF4)
            yield w + ".nested_absmax", "F32", (n // 64 // 256,), lambda m: iter([struct.pack("<f", 0.01) * (m // 4)])
            yield w + ".nested_quant_map", "F32", (256,), floats([(i - 127.5) / 127.5 for i in range(256)])
            yield w + ".quant_state.bitsandbytes__nf4", "U8", (len(state),), lambda n: iter([state])


def write_model(path):
    size = {"BF16": 2, "U8": 1, "F32": 4}
    header, at, parts = {}, 0, list(tensors())
    for name, dtype, shape, _ in parts:
        n = size[dtype]
        for s in shape:
            n *= s
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, _, _, data in parts:
            a, b = header[name]["data_offsets"]
            for block in data(b - a):
                f.write(block)
    return at


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
        model = work / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(CONFIG))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(pathlib.Path(args.tokenizer) / name, model / name)
        size = write_model(model / "model.safetensors")
        rng = random.Random(1)
        with open(work / "text.jsonl", "w") as f:
            for _ in range(args.steps):
                print(json.dumps({"text": " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(args.length))}), file=f)
        (work / "run.yaml").write_text(RUN.format(model=model, data=work / "text.jsonl", length=args.length, steps=args.steps, out=work / "run"))
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
