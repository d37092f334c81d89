"""Models of known shapes with random weights, for benches that download nothing: config.json, one safetensors file in NF4 (as bitsandbytes stores it) or bf16, and a tokenizer that is
copied; its ids are a part of the vocabulary. And what a token of such a model costs in operations."""

import json
import pathlib
import random
import shutil
import struct

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def shape(family, layers, C, F, H, G, D, V, tied, theta):
    return dict(family=family, L=layers, C=C, F=F, H=H, G=G, D=D, V=V, tied=tied, theta=theta)


SHAPES = {
    "smollm2-135m": shape("llama", 30, 576, 1536, 9, 3, 64, 49152, True, 1e5),
    "qwen3-0.6b": shape("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, True, 1e6),
    "qwen3-1.7b": shape("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, True, 1e6),
    "qwen3-4b": shape("qwen3", 36, 2560, 9728, 32, 8, 128, 151936, True, 1e6),
    "qwen3-8b": shape("qwen3", 36, 4096, 12288, 32, 8, 128, 151936, False, 1e6),
    "llama-3.1-8b": shape("llama", 32, 4096, 14336, 32, 8, 128, 128256, False, 5e5),
    "tiny-qwen3": shape("qwen3", 2, 64, 192, 4, 2, 32, 512, True, 1e4),
    "tiny-llama": shape("llama", 2, 64, 128, 4, 2, 16, 512, False, 1e4),
}


def linear(s):
    """(name in a layer, rows, columns)"""
    q, kv = s["H"] * s["D"], s["G"] * s["D"]
    return [("self_attn.q_proj", q, s["C"]), ("self_attn.k_proj", kv, s["C"]), ("self_attn.v_proj", kv, s["C"]), ("self_attn.o_proj", s["C"], q),
            ("mlp.gate_proj", s["F"], s["C"]), ("mlp.up_proj", s["F"], s["C"]), ("mlp.down_proj", s["C"], s["F"])]


def flops_a_token(s, length, rank):
    """Forward and backward without recomputation in a row of this length, a multiply-add being two: base and head y and dx, the adapter its gradients too, attention 4 D and 10 D a pair."""
    base = 4 * s["L"] * sum(n * k for _, n, k in linear(s))
    lora = 6 * s["L"] * rank * sum(n + k for _, n, k in linear(s))
    return base + lora + 4 * s["C"] * s["V"] + s["L"] * 14 * s["H"] * s["D"] * (length + 1) / 2


def config(s, base):
    c = {"architectures": ["Qwen3ForCausalLM" if s["family"] == "qwen3" else "LlamaForCausalLM"], "model_type": s["family"], "hidden_size": s["C"], "intermediate_size": s["F"],
         "num_hidden_layers": s["L"], "num_attention_heads": s["H"], "num_key_value_heads": s["G"], "head_dim": s["D"], "vocab_size": s["V"], "max_position_embeddings": 8192,
         "rms_norm_eps": 1e-6 if s["family"] == "qwen3" else 1e-5, "rope_theta": s["theta"], "tie_word_embeddings": s["tied"], "hidden_act": "silu", "torch_dtype": "bfloat16"}
    if base == "nf4":
        c["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    return c


def tensors(s, base):
    """(name, dtype, shape, bytes as a function of their number) in the order of the file."""
    noise = random.Random(1).randbytes(1 << 24)
    small = b"".join(struct.pack("<H", struct.unpack("<I", struct.pack("<f", random.Random(i).gauss(0, 0.02)))[0] >> 16) for i in range(1 << 16))
    fill = lambda block: lambda n: (block[:min(len(block), n - at)] for at in range(0, n, len(block)))
    floats = lambda values: lambda n: iter([struct.pack(f"<{len(values)}f", *values)])
    ones = lambda n: iter([struct.pack("<H", 0x3f80) * (n // 2)])
    yield "model.embed_tokens.weight", "BF16", (s["V"], s["C"]), fill(small)
    if not s["tied"]:
        yield "lm_head.weight", "BF16", (s["V"], s["C"]), fill(small)
    yield "model.norm.weight", "BF16", (s["C"],), ones
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [1, 1], "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.03}).encode()
    for layer in range(s["L"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", "BF16", (s["C"],), ones
        yield prefix + "post_attention_layernorm.weight", "BF16", (s["C"],), ones
        if s["family"] == "qwen3":
            yield prefix + "self_attn.q_norm.weight", "BF16", (s["D"],), ones
            yield prefix + "self_attn.k_norm.weight", "BF16", (s["D"],), ones
        for name, rows, columns in linear(s):
            n, w = rows * columns, prefix + name + ".weight"
            if base == "bf16":
                yield w, "BF16", (rows, columns), fill(small)
                continue
            nested = (n // 64 + 255) // 256
            yield w, "U8", (n // 2, 1), fill(noise)
            yield w + ".absmax", "U8", (n // 64,), fill(noise)
            yield w + ".quant_map", "F32", (16,), floats(NF4)
            yield w + ".nested_absmax", "F32", (nested,), lambda m: iter([struct.pack("<f", 0.01) * (m // 4)])
            yield w + ".nested_quant_map", "F32", (256,), floats([(i - 127.5) / 127.5 for i in range(256)])
            yield w + ".quant_state.bitsandbytes__nf4", "U8", (len(state),), lambda n: iter([state])


def write_tensors(path, s, base):
    size = {"BF16": 2, "U8": 1, "F32": 4}
    header, at, parts = {}, 0, list(tensors(s, base))
    for name, dtype, shape, _ in parts:
        n = size[dtype]
        for d in shape:
            n *= d
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


def write_model(folder, s, base, tokenizer):
    """A Hugging Face directory; returns the bytes of its weights."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(s, base)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(tokenizer) / name, folder / name)
    return write_tensors(folder / "model.safetensors", s, base)


def write_text(path, rows, length):
    """Lines of at least `length` tokens each."""
    rng = random.Random(1)
    with open(path, "w") as f:
        for _ in range(rows):
            print(json.dumps({"text": " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(length))}), file=f)
