"""Tiny random models of each family as Hugging Face directories, and what transformers and PEFT compute with them.

Weights lie on grids that bf16, f16 and, where a tensor is to be stored so, a 4- or 8-bit GGUF block hold exactly:
whatever a reader keeps them in, the base model is the same function.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from . import tokenizer
from .common import generator, ints, normal, save_json, save_tensors

LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 512}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
PLAIN = {"rope_type": "default", "rope_theta": 1000000.0}

SHAPE = dict(vocab_size=tokenizer.VOCAB, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=2)

# dtype: what the file stores. old: config.json in the spelling of transformers 4. shard: bytes a shard, where the directory has an index.
FAMILIES = {
    "llama": dict(type="llama", dtype=torch.float32, r=8, lengths=[23, 17, 31],
                  config=SHAPE | dict(max_position_embeddings=4096, tie_word_embeddings=False, rope_parameters=LLAMA3)),
    "llama_tied": dict(type="llama", dtype=torch.bfloat16, r=4, lengths=[19, 33], old=True, shard=250_000,
                       config=SHAPE | dict(hidden_size=96, head_dim=32, tie_word_embeddings=True, rope_parameters=LINEAR)),
    "qwen2": dict(type="qwen2", dtype=torch.float16, r=4, lengths=[12, 30, 21], old=True,
                  config=SHAPE | dict(num_hidden_layers=3, num_key_value_heads=1, tie_word_embeddings=True, rms_norm_eps=1e-6,
                                      use_sliding_window=False, rope_parameters=PLAIN)),
    "qwen3": dict(type="qwen3", dtype=torch.float32, r=8, lengths=[29, 18],
                  config=SHAPE | dict(head_dim=32, tie_word_embeddings=False, rms_norm_eps=1e-6, attention_bias=False,
                                      use_sliding_window=False, rope_parameters=PLAIN)),
}
PACKED = [9, 14, 20]
ALPHA = 16

# How the tensors of the llama are stored in its GGUF file. The order of kinds goes round over layers' matrices, so that every
# projection appears in several of them.
GGUF_KINDS = ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"]


def grid(rng, shape, kind):
    """A random matrix that storage of this kind holds exactly, and bf16 too; about 0.09 per element's deviation."""
    if kind in ("F32", "F16", "BF16"):
        w = normal(rng, shape, 0.09).to(torch.bfloat16).to(torch.float16).to(torch.float32)
        assert torch.equal(w, w.to(torch.bfloat16).float())
        return w
    q = rng.standard_normal(shape)
    blocks = shape[-1] // 32
    if kind == "Q8_0":  # the block's largest magnitude is 127 steps
        q = np.clip(np.round(q * 40), -127, 127).reshape(-1, blocks, 32)
        q[..., 5] = 127
        step = 2.0**-9
    else:  # 4 bits: from -8 to 7 steps, both ends present where the format finds its step from them
        q = np.clip(np.round(q * 3), -8, 7).reshape(-1, blocks, 32)
        q[..., 11] = -8
        if kind == "Q4_1":
            q[..., 23] = 7
        step = 2.0**-5
    return torch.from_numpy((q * step).astype(np.float32).reshape(shape))


def gguf_kind(name):
    """Storage of the llama's tensor with this Hugging Face name in its GGUF file."""
    if "norm" in name or name.endswith("bias"):
        return "F32"
    if "embed_tokens" in name:
        return "Q8_0"
    if "lm_head" in name:
        return "F16"
    modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    layer = int(name.split(".")[2])
    module = next(i for i, m in enumerate(modules) if m in name)
    return GGUF_KINDS[(layer * len(modules) + module) % len(GGUF_KINDS)]


def base_model(name):
    """The random model `name` in fp32."""
    family = FAMILIES[name]
    config = AutoConfig.for_model(family["type"], **family["config"])
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    rng = generator(name)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "norm" in key:
                p.copy_((1 + normal(rng, p.shape, 0.1)).to(torch.bfloat16).to(torch.float16))
            elif key.endswith("bias"):
                p.copy_(grid(rng, tuple(p.shape), "F32"))
            else:
                p.copy_(grid(rng, tuple(p.shape), gguf_kind(key) if name == "llama" else "F16"))
    return model.eval()


def with_lora(model, name):
    """Wraps the model by PEFT: LoRA on all linear layers but the head, A and B random."""
    config = LoraConfig(r=FAMILIES[name]["r"], lora_alpha=ALPHA, lora_dropout=0.0, target_modules="all-linear", bias="none", task_type="CAUSAL_LM")
    peft = get_peft_model(model, config)
    rng = generator(name + ".lora")
    with torch.no_grad():
        for key, p in peft.named_parameters():
            if "lora_A" in key:
                p.copy_(normal(rng, p.shape, p.shape[1] ** -0.5))
            elif "lora_B" in key:
                p.copy_(normal(rng, p.shape, 0.05))
    return peft.eval()


def sequences(rng, lengths):
    """Random ids, and masks with one or two supervised runs; a sequence's first token is never a target."""
    ids, mask = [], []
    for n in lengths:
        ids.append(rng.integers(0, tokenizer.VOCAB, n).tolist())
        m = [0] * n
        m[n // 3:n // 2] = [1] * (n // 2 - n // 3)
        m[2 * n // 3:] = [1] * (n - 2 * n // 3)
        ids[-1][-1] = 2
        mask.append(m)
    return ids, mask


def token_losses(logits, ids, mask):
    """-log p of each supervised token, 0 elsewhere; logits row t predicts token t + 1."""
    out = torch.zeros(len(ids))
    nll = torch.nn.functional.cross_entropy(logits[:-1].float(), torch.tensor(ids[1:]), reduction="none")
    on = torch.tensor(mask[1:], dtype=torch.bool)
    return torch.cat([out[:1], torch.where(on, nll, out[1:])])


def lora_parameters(model):
    """(name as in the adapter file, parameter), in the model's order."""
    return [(k.replace(".default.", "."), p) for k, p in model.named_parameters() if p.requires_grad]


def forward_backward(model, ids, mask):
    """Each sequence alone, no padding. Returns logits, hidden states, token losses, loss and the gradients left in the model."""
    model.zero_grad()
    count = sum(map(sum, mask))
    logits, hidden, nll = [], [], []
    for row_ids, row_mask in zip(ids, mask):
        out = model(input_ids=torch.tensor([row_ids]), use_cache=False, output_hidden_states=True)
        losses = token_losses(out.logits[0], row_ids, row_mask)
        (losses.sum() / count).backward()
        logits.append(out.logits[0].detach())
        hidden.append(torch.stack([h[0].detach() for h in out.hidden_states]))
        nll.append(losses.detach())
    grads = {"grad." + k: p.grad.clone() for k, p in lora_parameters(model)}
    norm = torch.sqrt(sum((g.double() ** 2).sum() for g in grads.values())).item()
    nll = torch.cat(nll)
    return dict(logits=torch.cat(logits), hidden=torch.cat(hidden, 1), nll=nll, grads=grads, grad_norm=norm,
                loss=(nll.double().sum() / count).item(), supervised=count)


def case_tensors(ids, mask, result):
    flat = [i for row in ids for i in row]
    cu = np.concatenate([[0], np.cumsum([len(r) for r in ids])])
    tensors = {"ids": ints(flat), "cu": ints(cu.tolist()), "mask": torch.tensor([m for row in mask for m in row], dtype=torch.uint8),
               "logits": result["logits"], "nll": result["nll"]}
    return tensors | {f"hidden.{i}": h for i, h in enumerate(result["hidden"])} | result["grads"]


def old_spelling(config):
    """config.json as transformers 4 wrote it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind} | rope
    config["torch_dtype"] = config.pop("dtype")
    return config


def save_model(model, name, directory):
    family = FAMILIES[name]
    shutil.rmtree(directory, ignore_errors=True)
    stored = AutoModelForCausalLM.from_config(model.config, dtype=family["dtype"])
    stored.load_state_dict(model.state_dict())
    stored.save_pretrained(directory, **({"max_shard_size": family["shard"]} if "shard" in family else {}))
    (directory / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((directory / "config.json").read_text())
    config.pop("_name_or_path", None)
    save_json(directory / "config.json", old_spelling(config) if family.get("old") else config)
    tokenizer.save_tokenizer(directory)


def save_adapter(peft, directory, base=".."):
    """As PEFT saves one, without its model card."""
    peft.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    path = directory / "adapter_config.json"
    config = json.loads(path.read_text())
    config["target_modules"] = sorted(config["target_modules"])
    config["base_model_name_or_path"] = base
    save_json(path, config)


def make_models(out):
    for name, family in FAMILIES.items():
        directory = pathlib.Path(out) / name
        model = base_model(name)
        save_model(model, name, directory)
        rng = generator(name + ".data")
        ids, mask = sequences(rng, family["lengths"])
        with torch.no_grad():
            base = torch.cat([model(input_ids=torch.tensor([r])).logits[0] for r in ids])
            again = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
            assert torch.equal(again(input_ids=torch.tensor([ids[0]])).logits[0], base[:len(ids[0])]), name
        peft = with_lora(model, name)
        save_adapter(peft, directory / "adapter")
        result = forward_backward(peft, ids, mask)
        save_tensors(directory / "case.safetensors", case_tensors(ids, mask, result) | {"logits_base": base})

        bf16 = bf16_losses(name, ids, mask)
        info = {"model": name, "r": family["r"], "alpha": ALPHA, "scale": ALPHA / family["r"], "lengths": family["lengths"],
                "supervised": result["supervised"], "loss": result["loss"], "grad_norm": result["grad_norm"], "bf16": bf16}
        if name == "llama":
            ids, mask = sequences(rng, PACKED)
            result = forward_backward(peft, ids, mask)
            save_tensors(directory / "packed.safetensors", case_tensors(ids, mask, result))
            info["packed"] = {"lengths": PACKED, "supervised": result["supervised"], "loss": result["loss"], "grad_norm": result["grad_norm"]}
        save_json(directory / "case.json", info)


def bf16_losses(name, ids, mask):
    """The same with the base in bf16 and the adapter in fp32, as PEFT trains it."""
    peft = with_lora(base_model(name).to(torch.bfloat16), name)
    result = forward_backward(peft, ids, mask)
    return {"loss": result["loss"], "grad_norm": result["grad_norm"]}
