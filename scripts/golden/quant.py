"""What bitsandbytes and gguf make of random tensors and blocks."""

import gguf
import numpy as np
import torch
from bitsandbytes import functional as bnb

from .common import generator, normal, save_json, save_tensors


def four_bit_inputs():
    """Names and fp32 values. nested: 320 blocks, so that absmax itself has two blocks of 256."""
    rng = generator("four bit")
    normal_ = normal(rng, (96, 64), 0.02)
    uniform = torch.from_numpy(rng.uniform(-1, 1, (33, 64)).astype(np.float32))
    zeros = normal(rng, (16, 64), 0.5)
    zeros[3:6] = 0
    zeros[8, ::2] = 0
    zeros[9] = -0.0
    outliers = normal(rng, (24, 128), 0.02)
    outliers[rng.integers(0, 24, 12), rng.integers(0, 128, 12)] = torch.from_numpy(rng.choice([-8.0, 5.0, 30.0], 12).astype(np.float32))
    tail = normal(rng, (7, 30), 1.0)  # 210 elements: the last block has 18
    nested = normal(rng, (160, 128), 0.02) * torch.from_numpy(rng.uniform(0.2, 3, (160, 1)).astype(np.float32))
    levels = {kind: bnb.get_4bit_type(kind, device="cpu") for kind in ("nf4", "fp4")}
    ties = torch.cat([midpoints(levels["nf4"]), midpoints(levels["fp4"])])
    bf16 = normal(rng, (64, 64), 0.05).to(torch.bfloat16).float()
    return {"normal": normal_, "uniform": uniform, "zeros": zeros, "outliers": outliers, "tail": tail, "nested": nested,
            "ties": ties, "bf16": bf16}


def midpoints(code):
    """A block of 64 whose scale is 1: exact midpoints between neighbouring levels, their neighbours in fp32, and the levels."""
    s = torch.sort(code).values
    m = (s[:-1] + s[1:]) / 2
    one = torch.tensor(1.0)
    x = torch.cat([torch.nextafter(m, -one), m, torch.nextafter(m, one), s])
    return torch.cat([x, torch.zeros(64 - len(x))]).reshape(1, 64)


def make_four_bit(out):
    """bitsandbytes.functional.quantize_4bit, blocks of 64, with and without nested absmax."""
    tensors = {kind + ".code": bnb.get_4bit_type(kind, device="cpu").clone() for kind in ("nf4", "fp4")}
    info = {"blocksize": 64, "nested_blocksize": 256, "cases": {}}
    for name, x in four_bit_inputs().items():
        tensors[name + ".x"] = x
        info["cases"][name] = {"shape": list(x.shape), "blocks": -(-x.numel() // 64), "offset": {}}
        for kind in ("nf4", "fp4"):
            key = f"{name}.{kind}"
            packed, state = bnb.quantize_4bit(x, quant_type=kind, blocksize=64)
            tensors[key + ".packed"] = packed.reshape(-1)
            tensors[key + ".absmax"] = state.absmax
            tensors[key + ".dequant"] = bnb.dequantize_4bit(packed, state).float()
            again, nested = bnb.quantize_4bit(x, quant_type=kind, blocksize=64, compress_statistics=True)
            assert torch.equal(again, packed)
            tensors[key + ".nested_absmax"] = nested.absmax
            tensors[key + ".nested_scales"] = nested.state2.absmax
            tensors[key + ".nested_offset"] = nested.offset.reshape(1)
            tensors[key + ".nested_dequant"] = bnb.dequantize_4bit(again, nested).float()
            tensors["nested.code"] = nested.state2.code.clone()
            info["cases"][name]["offset"][kind] = nested.offset.item()
    save_tensors(out / "quant" / "four_bit.safetensors", tensors)
    save_json(out / "quant" / "four_bit.json", info)


def make_int8(out):
    """bitsandbytes.functional.int8_vectorwise_quant: one scale a row, SCB as Linear8bitLt stores it; values are CB * SCB / 127."""
    tensors = {}
    for name, x in four_bit_inputs().items():
        if name not in ("normal", "zeros", "outliers"):
            continue
        x = x[(x != 0).any(1)].to(torch.float16)  # Linear8bitLt quantises the half-precision weight; a row of zeros is 0/0 there
        cb, scb, _ = bnb.int8_vectorwise_quant(x.clone())
        tensors |= {name + ".x": x.float(), name + ".CB": cb.view(torch.uint8), name + ".SCB": scb, name + ".dequant": bnb.int8_vectorwise_dequant(cb, scb).float()}
    save_tensors(out / "quant" / "int8.safetensors", tensors)


GGUF_TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the fp16 fields in a block: random bytes there would often be Inf or NaN.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}


def make_blocks(out):
    """Random GGUF blocks and gguf.quants.dequantize of them; fp16 fields of either sign, some zero, some subnormal."""
    tensors = {}
    for kind in GGUF_TYPES:
        rng = generator("blocks " + kind)
        qtype = gguf.GGMLQuantizationType[kind]
        values, size = gguf.GGML_QUANT_SIZES[qtype]
        count = 24 if values == 32 else 12
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for offset in HALVES[kind]:
            d = (rng.standard_normal(count) * 0.05).astype(np.float16)
            d[0], d[1] = 0, np.float16(2.0**-24 * 37)
            blocks[:, offset:offset + 2] = d.view(np.uint8).reshape(count, 2)
        tensors[kind + ".blocks"] = torch.from_numpy(blocks)
        tensors[kind + ".dequant"] = torch.from_numpy(gguf.quants.dequantize(blocks, qtype).astype(np.float32).reshape(count, values))
    save_tensors(out / "quant" / "gguf_blocks.safetensors", tensors)


def make_quant(out):
    make_four_bit(out)
    make_int8(out)
    make_blocks(out)
