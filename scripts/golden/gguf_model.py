"""The tiny llama once more as a GGUF file of mixed storage, laid out as llama.cpp's converter does."""

import json
import math
import pathlib

import gguf
import numpy as np
import torch

from . import tokenizer
from .models import FAMILIES, base_model, gguf_kind

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def gguf_name(name):
    if name in TOP:
        return TOP[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def permute(w, heads):
    """Rows of a head from halves (0 .. D/2, D/2 .. D) to interleaved pairs."""
    rows, cols = w.shape
    return w.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def rope_factors(config):
    """What llama.cpp divides each frequency by: the Llama-3 rule as a table."""
    rope = config["rope_parameters"]
    dim = config["hidden_size"] // config["num_attention_heads"]
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    factors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / dim)
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def add_metadata(writer, config):
    writer.add_name("tiny llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])

    tokens, merges = tokenizer.vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if i < len(tokenizer.SPECIAL) else gguf.TokenType.NORMAL for i in range(len(tokens))])
    writer.add_token_merges([" ".join(m) for m in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.CHAT_TEMPLATE)


def make_gguf(out):
    path = pathlib.Path(out) / "llama.gguf"
    model = base_model("llama")
    config = FAMILIES["llama"]["config"]
    writer = gguf.GGUFWriter(path, "llama")
    add_metadata(writer, config)
    stored = {}
    for name, p in model.state_dict().items():
        w = p.numpy()
        if "q_proj" in name:
            w = permute(w, config["num_attention_heads"])
        elif "k_proj" in name:
            w = permute(w, config["num_key_value_heads"])
        kind = gguf.GGMLQuantizationType[gguf_kind(name)]
        data = gguf.quants.quantize(np.ascontiguousarray(w), kind)
        assert np.array_equal(gguf.quants.dequantize(data, kind), w), name
        writer.add_tensor(gguf_name(name), data, raw_dtype=kind)
        stored[gguf_name(name)] = kind.name
    writer.add_tensor("rope_freqs.weight", rope_factors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
