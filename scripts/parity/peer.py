"""PEFT as the other side of a comparison: loading a base in each storage, an adapter, rows, and the loss as pawl defines it."""

import json
import logging
import warnings

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

MODES = {
    "fp32": "base and arithmetic in fp32",
    "bf16": "base and arithmetic in bf16, adapter masters in fp32",
    "nf4": "base in NF4 with nested absmax by bitsandbytes and its own kernels, arithmetic in bf16",
    "nf4-c32": "the same with arithmetic in fp32",
    "nf4-fp32": "base rounded to NF4 by bitsandbytes and dequantised to fp32, arithmetic in fp32",
}


def quiet():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    logging.getLogger("bitsandbytes").setLevel(logging.CRITICAL)


def round_to_nf4(model):
    """Every linear layer but the head becomes what bitsandbytes' NF4 with nested absmax makes of it, in the layer's own dtype."""
    from bitsandbytes import functional as bnb

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            weight = module.weight.data
            # Flattened, as the blocks run: bitsandbytes 0.50.2's CPU kernel restarts them at each row where its length is no multiple of 64.
            packed, state = bnb.quantize_4bit(weight.reshape(-1), quant_type="nf4", blocksize=64, compress_statistics=True)
            module.weight.data = bnb.dequantize_4bit(packed, state).reshape(weight.shape)


def load_base(directory, mode, attention="sdpa"):
    dtype = torch.bfloat16 if mode in ("bf16", "nf4") else torch.float32
    options = {}
    if mode in ("nf4", "nf4-c32"):
        options = dict(device_map="cpu", quantization_config=BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype))
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, attn_implementation=attention, **options)
    if mode == "nf4-fp32":
        round_to_nf4(model)
    model.config.use_cache = False
    # bitsandbytes 0.50.2 repacks a 4-bit weight at the first forward pass in eval mode on a CPU with AVX512-BF16, and no gradient flows
    # through it afterwards. So a model that trains is put into training mode before anything else, and dropout is 0 here anyway.
    return model.train()


def load_lora(model, adapter=None, r=16, alpha=32, seed=42):
    """The given PEFT adapter, or a new one on all linear layers but the head."""
    if adapter:
        return PeftModel.from_pretrained(model, adapter, is_trainable=True).train()
    torch.manual_seed(seed)
    config = LoraConfig(r=r, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear", bias="none", task_type="CAUSAL_LM")
    return get_peft_model(model, config).train()


def checkpointing(model):
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()


def read_rows(path):
    """JSON lines {"row", "ids", "labels_mask"} in the order of training. "cu", where given, are the borders of packed examples within the row."""
    rows = []
    with open(path) as f:
        for number, line in enumerate(f, 1):
            row = json.loads(line)
            if len(row["ids"]) != len(row["labels_mask"]):
                raise SystemExit(f"{path}:{number}: {len(row['ids'])} ids and {len(row['labels_mask'])} mask values")
            rows.append(row)
    return rows


def examples(rows):
    """(ids, mask) of each example of the rows: packed ones run alone, as if attention did not cross their borders."""
    for row in rows:
        cu = row.get("cu") or [0, len(row["ids"])]
        for a, b in zip(cu, cu[1:]):
            yield row["ids"][a:b], row["labels_mask"][a:b]


def supervised(rows):
    """Targets: the first token of an example has none before it to predict it."""
    return sum(sum(mask[1:]) for _, mask in examples(rows))


def padded(batch, pad=0):
    """(ids, attention mask, labels) with padding on the right."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([i + [pad] * (width - len(i)) for i, _ in batch])
    attention = torch.tensor([[1] * len(i) + [0] * (width - len(i)) for i, _ in batch])
    labels = torch.tensor([[t if m else -100 for t, m in zip(i, mask)] + [-100] * (width - len(i)) for i, mask in batch])
    return ids, attention, labels


def loss_sum(model, batch):
    """Sum of -log p over the batch's targets, with a graph. Logits are formed for all positions, as transformers does."""
    ids, attention, labels = padded(batch)
    full = bool(attention.all())
    logits = model(input_ids=ids, attention_mask=None if full else attention).logits
    logits = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
    return torch.nn.functional.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum")


def scheduler(name, optimizer, warmup, total, min_lr_ratio=None):
    extra = {"min_lr_rate": min_lr_ratio} if name == "cosine_with_min_lr" else None
    return transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=extra)


class Trainer:
    """AdamW, clipping and a schedule over the adapter; one call of step() is one optimizer step over a global batch of rows."""

    def __init__(self, model, total, args):
        self.model = model
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.params, lr=args.learning_rate, betas=(args.adam_beta1, args.adam_beta2), eps=args.adam_epsilon,
                                           weight_decay=args.weight_decay)
        self.schedule = scheduler(args.lr_scheduler, self.optimizer, args.warmup_steps, total, args.cosine_min_lr_ratio)
        self.max_grad_norm = args.max_grad_norm
        self.micro_batch = args.micro_batch_size

    def step(self, rows):
        """Returns (loss, gradient norm before clipping, learning rate used)."""
        self.optimizer.zero_grad()
        count, total = supervised(rows), 0.0
        batch = list(examples(rows))
        for i in range(0, len(batch), self.micro_batch):
            loss = loss_sum(self.model, batch[i:i + self.micro_batch]) / count
            loss.backward()
            total += loss.item()
        rate = self.schedule.get_last_lr()[0]
        limit = self.max_grad_norm if self.max_grad_norm > 0 else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.params, limit).item()
        self.optimizer.step()
        self.schedule.step()
        return total, norm, rate


def add_settings(parser):
    """Options named as pawl's keys."""
    parser.add_argument("--learning_rate", type=float, default=2e-4)
    parser.add_argument("--lr_scheduler", default="cosine")
    parser.add_argument("--cosine_min_lr_ratio", type=float)
    parser.add_argument("--warmup_steps", type=int, default=0)
    parser.add_argument("--weight_decay", type=float, default=0.0)
    parser.add_argument("--adam_beta1", type=float, default=0.9)
    parser.add_argument("--adam_beta2", type=float, default=0.999)
    parser.add_argument("--adam_epsilon", type=float, default=1e-8)
    parser.add_argument("--max_grad_norm", type=float, default=1.0, help="0: no clipping")
    parser.add_argument("--micro_batch_size", type=int, default=1, help="examples a forward pass; more than one are padded on the right")
    parser.add_argument("--lora_r", type=int, default=16)
    parser.add_argument("--lora_alpha", type=int, default=32)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--threads", type=int, default=2)
