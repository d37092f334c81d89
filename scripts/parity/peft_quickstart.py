#!/usr/bin/env python3
"""The quickstart's training by PEFT: the same data, settings, initial adapter and batch order; then exact match on the held-out packages.

    scripts/quickstart_data.sh data
    scripts/parity/peft_quickstart.py --base smollm2 --data data --hits peft_hits.jsonl [--rows pawl_rows.jsonl --adapter initial]

NF4 with nested absmax, r=16 alpha=32 on all linear layers, 16 rows a step, one epoch, learning rate 1e-3, cosine with 10 warm-up steps. With --rows it trains on
pawl's own rows (see peft_run.py), else it renders the chats by the model's template, supervises the answer and its <|im_end|>, and shuffles by --seed.
A line of --hits an example: {"index", "hit", "text", "expected"}; scripts/parity/paired_bootstrap.py compares two such files.
"""

import argparse
import json
import pathlib
import random
import time

import torch
from transformers import AutoTokenizer

import peer

ROWS_PER_STEP = 16
DEFAULTS = dict(learning_rate=1e-3, warmup_steps=10, micro_batch_size=4)


def read_chats(path):
    with open(path) as f:
        return [json.loads(line)["messages"] for line in f]


def render(tokenizer, messages, prompt):
    """Ids of the chat, or of the chat without its answer and with the answer's opening."""
    text = tokenizer.apply_chat_template(messages[:-1] if prompt else messages, tokenize=False, add_generation_prompt=prompt)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def chat_rows(tokenizer, chats, seed):
    """Targets are the answer and <|im_end|>; the line break that the template puts behind it is none."""
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    rows = []
    for i, messages in enumerate(chats):
        ids, prompt = render(tokenizer, messages, False), len(render(tokenizer, messages, True))
        last = len(ids) - 1 - ids[::-1].index(end)
        rows.append({"row": i, "ids": ids, "labels_mask": [int(prompt <= t <= last) for t in range(len(ids))]})
    random.Random(seed).shuffle(rows)
    return rows


@torch.no_grad()
def answers(model, tokenizer, chats, batch_size=20, max_new_tokens=16):
    """Greedy answers in the order of the chats; prompts of similar length go together, padded on the left."""
    prompts = [render(tokenizer, messages, True) for messages in chats]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    texts = [None] * len(prompts)
    for start in range(0, len(order), batch_size):
        some = order[start:start + batch_size]
        width = max(len(prompts[i]) for i in some)
        ids = torch.tensor([[end] * (width - len(prompts[i])) + prompts[i] for i in some])
        attention = torch.tensor([[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in some])
        out = model.generate(input_ids=ids, attention_mask=attention, do_sample=False, max_new_tokens=max_new_tokens, eos_token_id=end, pad_token_id=end,
                             use_cache=True)
        for i, row in zip(some, out[:, width:].tolist()):
            texts[i] = tokenizer.decode(row[:row.index(end)] if end in row else row)
    return texts


def write_hits(path, chats, texts):
    hits = 0
    with open(path, "w") as f:
        for i, (messages, text) in enumerate(zip(chats, texts)):
            expected = messages[-1]["content"]
            hit = text.strip() == expected.strip()
            hits += hit
            print(json.dumps({"index": i, "hit": int(hit), "text": text, "expected": expected}), file=f)
    return hits / len(chats)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="Hugging Face directory, see make_hf.py")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of train.jsonl and heldout.jsonl")
    parser.add_argument("--rows", help="pawl's rows in step order, in place of train.jsonl")
    parser.add_argument("--adapter", help="PEFT adapter to start from, or, with --evaluate_only, to evaluate")
    parser.add_argument("--mode", choices=peer.MODES, default="nf4")
    parser.add_argument("--hits", required=True)
    parser.add_argument("--metrics", help="write steps here")
    parser.add_argument("--out", help="save the trained adapter here")
    parser.add_argument("--evaluate_only", action="store_true", help="no training")
    peer.add_settings(parser)
    parser.set_defaults(**DEFAULTS)
    args = parser.parse_args()

    peer.quiet()
    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    heldout = read_chats(args.data / "heldout.jsonl")
    model = peer.load_lora(peer.load_base(args.base, args.mode), args.adapter, args.lora_r, args.lora_alpha, args.seed)
    if not args.evaluate_only:
        rows = peer.read_rows(args.rows) if args.rows else chat_rows(tokenizer, read_chats(args.data / "train.jsonl"), args.seed)
        steps = -(-len(rows) // ROWS_PER_STEP)
        trainer, start = peer.Trainer(model, steps, args), time.perf_counter()
        log = open(args.metrics, "w") if args.metrics else None
        for step in range(steps):
            batch = rows[step * ROWS_PER_STEP:(step + 1) * ROWS_PER_STEP]
            loss, norm, rate = trainer.step(batch)
            print(f"step {step + 1}/{steps}  loss {loss:.4f}  grad norm {norm:.3f}  {time.perf_counter() - start:.0f} s", flush=True)
            if log:
                print(json.dumps({"step": step + 1, "loss": loss, "grad_norm": norm, "learning_rate": rate}), file=log, flush=True)
        if log:
            log.close()
        if args.out:
            model.save_pretrained(args.out)
    share = write_hits(args.hits, heldout, answers(model.eval(), tokenizer, heldout))
    print(json.dumps({"exact_match": share, "examples": len(heldout)}))


if __name__ == "__main__":
    main()
