"""The tiny llama quantised and saved by transformers with bitsandbytes, and what PEFT computes on the dequantised weights in fp32.

bitsandbytes' own CPU matrix products round activations; the values here are those of the stored weights, nothing else.
"""

import json
import pathlib
import shutil

import torch
from bitsandbytes import functional as bnb
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from . import tokenizer
from .common import generator, save_json, save_tensors
from .models import FAMILIES, base_model, case_tensors, forward_backward, sequences, with_lora

KINDS = {
    "llama_nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16),
    "llama_int8": dict(load_in_8bit=True),
}


def dequantised(path):
    """fp32 weights of a saved quantised model, by bitsandbytes' documented layout and its dequantisers."""
    stored, weights = load_file(path), {}
    for name, t in stored.items():
        if not name.endswith("weight"):
            continue
        if name + ".absmax" in stored:
            parts = {k: v for k, v in stored.items() if k.startswith(name + ".")}
            state = bnb.QuantState.from_dict({k.removeprefix(name + "."): v for k, v in parts.items()}, device="cpu")
            state.dtype, shape = torch.float32, state.shape
            # Blocks run over the flattened tensor; bitsandbytes 0.50.2's CPU kernel forgets that where a row is no multiple of 64 (down_proj here).
            state.shape = torch.Size([shape.numel()])
            weights[name] = bnb.dequantize_4bit(t, state).reshape(shape)
        elif name.removesuffix("weight") + "SCB" in stored:
            weights[name] = bnb.int8_vectorwise_dequant(t, stored[name.removesuffix("weight") + "SCB"]).float()
        else:
            weights[name] = t.float()
    return weights


def make_bnb(out):
    source = pathlib.Path(out) / "llama"
    for name, settings in KINDS.items():
        directory = pathlib.Path(out) / name
        shutil.rmtree(directory, ignore_errors=True)
        quantised = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16, device_map="cpu",
                                                         quantization_config=BitsAndBytesConfig(**settings))
        quantised.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        config = json.loads((directory / "config.json").read_text())
        config.pop("_name_or_path", None)
        save_json(directory / "config.json", config)
        tokenizer.save_tokenizer(directory)

        model = base_model("llama")
        model.load_state_dict(dequantised(directory / "model.safetensors"))
        ids, mask = sequences(generator("llama.data"), FAMILIES["llama"]["lengths"])
        result = forward_backward(with_lora(model, "llama"), ids, mask)
        tensors = case_tensors(ids, mask, result)
        keep = lambda k: not k.startswith("hidden") and (name == "llama_nf4" or not k.startswith("grad"))
        save_tensors(directory / "case.safetensors", {k: v for k, v in tensors.items() if keep(k)})
        save_json(directory / "case.json", {"model": name, "adapter": "llama/adapter", "supervised": result["supervised"], "loss": result["loss"],
                                            "grad_norm": result["grad_norm"]})
