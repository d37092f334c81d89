"""Ten steps of training by PEFT and torch.optim.AdamW on the tiny llama; learning-rate schedules; AdamW alone."""

import pathlib

import numpy as np
import torch
import transformers

from .common import generator, ints, normal, save_json, save_tensors
from .models import base_model, forward_backward, lora_parameters, save_adapter, sequences, with_lora

STEPS, ACCUMULATION, MICRO_BATCH = 10, 2, 2
SETTINGS = {"learning_rate": 5e-3, "lr_scheduler": "cosine", "warmup_steps": 3, "weight_decay": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999,
            "adam_epsilon": 1e-8, "max_grad_norm": 1.75}


def make_run(out):
    """Gradients of a step are summed over accumulation and rows, the loss is divided by the step's count of targets, as the
    num_items_in_batch of HF's Trainer has it."""
    directory = pathlib.Path(out) / "run"
    rng = generator("run.data")
    lengths = rng.integers(6, 30, STEPS * ACCUMULATION * MICRO_BATCH).tolist()
    ids, mask = sequences(rng, lengths)
    model = with_lora(base_model("llama"), "llama")
    params = [p for _, p in lora_parameters(model)]
    optimizer = torch.optim.AdamW(params, lr=SETTINGS["learning_rate"], betas=(SETTINGS["adam_beta1"], SETTINGS["adam_beta2"]),
                                  eps=SETTINGS["adam_epsilon"], weight_decay=SETTINGS["weight_decay"])
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, SETTINGS["warmup_steps"], STEPS)
    rows = ACCUMULATION * MICRO_BATCH
    log = []
    for step in range(STEPS):
        result = forward_backward(model, ids[step * rows:(step + 1) * rows], mask[step * rows:(step + 1) * rows])
        norm = torch.nn.utils.clip_grad_norm_(params, SETTINGS["max_grad_norm"]).item()
        log.append({"step": step + 1, "loss": result["loss"], "grad_norm": norm, "learning_rate": schedule.get_last_lr()[0],
                    "supervised_tokens": result["supervised"], "tokens": sum(lengths[step * rows:(step + 1) * rows])})
        optimizer.step()
        schedule.step()
    norms = [s["grad_norm"] for s in log]
    assert min(norms) < SETTINGS["max_grad_norm"] < max(norms), norms
    save_adapter(model, directory / "adapter_final", "../../llama")
    flat = [i for row in ids for i in row]
    save_tensors(directory / "data.safetensors", {
        "ids": ints(flat), "mask": torch.tensor([m for row in mask for m in row], dtype=torch.uint8),
        "cu": ints(np.concatenate([[0], np.cumsum(lengths)]).tolist())})
    save_json(directory / "run.json", {"model": "llama", "initial_adapter": "llama/adapter", "settings": SETTINGS, "max_steps": STEPS,
                                       "gradient_accumulation_steps": ACCUMULATION, "micro_batch_size": MICRO_BATCH, "steps": log})


SCHEDULES = [
    ("constant", 0, 12, {}),
    ("constant_with_warmup", 4, 12, {}),
    ("linear", 0, 12, {}),
    ("linear", 5, 24, {}),
    ("cosine", 0, 12, {}),
    ("cosine", 5, 24, {}),
    ("cosine", 3, 3, {}),
    ("cosine_with_min_lr", 5, 24, {"min_lr_rate": 0.1}),
    ("cosine_with_min_lr", 0, 7, {"min_lr_rate": 0.25}),
]


def make_schedules(out):
    """The rate that each optimizer step uses, by transformers.get_scheduler."""
    cases = []
    for name, warmup, total, extra in SCHEDULES:
        p = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([p], lr=2e-4)
        schedule = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=extra or None)
        rates = []
        for _ in range(total):
            rates.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        cases.append({"lr_scheduler": name, "learning_rate": 2e-4, "warmup_steps": warmup, "max_steps": total,
                      "cosine_min_lr_ratio": extra.get("min_lr_rate"), "rates": rates})
    save_json(pathlib.Path(out) / "optim" / "schedules.json", cases)


def make_adamw(out):
    """torch.optim.AdamW on a flat vector, 5 steps; gradients from tiny to large, some exactly zero, the rate changes from step to step."""
    rng = generator("adamw")
    n, steps = 257, 5
    p = torch.nn.Parameter(normal(rng, n, 0.3))
    settings = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01, "rates": [1e-3, 2e-3, 5e-4, 0.0, 1e-2]}
    optimizer = torch.optim.AdamW([p], betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, foreach=False, fused=False)
    scale = torch.from_numpy((10.0 ** rng.uniform(-9, 3, n)).astype(np.float32))
    scale[::16] = 0
    tensors = {"theta.0": p.detach().clone()}
    for step in range(1, steps + 1):
        p.grad = normal(rng, n) * scale
        optimizer.param_groups[0]["lr"] = settings["rates"][step - 1]
        optimizer.step()
        state = optimizer.state[p]
        tensors |= {f"grad.{step}": p.grad.clone(), f"theta.{step}": p.detach().clone(), f"m.{step}": state["exp_avg"].clone(),
                    f"v.{step}": state["exp_avg_sq"].clone()}
    save_tensors(pathlib.Path(out) / "optim" / "adamw.safetensors", tensors)
    save_json(pathlib.Path(out) / "optim" / "adamw.json", settings)
