#!/usr/bin/env python3
"""Trains by PEFT on the rows that pawl trained on, in its order and from its initial adapter.

    scripts/parity/peft_run.py --base smollm2 --rows rows.jsonl --rows_per_step 16 --adapter initial --mode fp32 \\
        --metrics peft.jsonl --out peft_adapter --learning_rate 1e-3 --warmup_steps 10

rows.jsonl: {"row": i, "ids": [...], "labels_mask": [0 or 1, ...]} a line, in step order; packed rows add "cu", the borders of their examples.
The metrics have the keys of pawl's metrics.jsonl; scripts/parity/compare.py reads both.
"""

import argparse
import json

import torch

import peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="Hugging Face directory, see make_hf.py")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--rows_per_step", type=int, required=True, help="rows of a global batch; the last step may have fewer")
    parser.add_argument("--adapter", help="PEFT adapter to start from; else a new one")
    parser.add_argument("--mode", choices=peer.MODES, default="fp32", help="; ".join(f"{k}: {v}" for k, v in peer.MODES.items()))
    parser.add_argument("--steps", type=int, help="stop after so many")
    parser.add_argument("--max_steps", type=int, help="horizon of the schedule; default: the steps that the rows make")
    parser.add_argument("--metrics", required=True)
    parser.add_argument("--out", help="save the trained adapter here")
    parser.add_argument("--gradient_checkpointing", action="store_true")
    peer.add_settings(parser)
    args = parser.parse_args()

    peer.quiet()
    torch.set_num_threads(args.threads)
    rows = peer.read_rows(args.rows)
    steps = -(-len(rows) // args.rows_per_step)
    model = peer.load_lora(peer.load_base(args.base, args.mode), args.adapter, args.lora_r, args.lora_alpha, args.seed)
    if args.gradient_checkpointing:
        peer.checkpointing(model)
    trainer = peer.Trainer(model, args.max_steps or steps, args)
    with open(args.metrics, "w") as log:
        for step in range(min(steps, args.steps or steps)):
            batch = rows[step * args.rows_per_step:(step + 1) * args.rows_per_step]
            loss, norm, rate = trainer.step(batch)
            line = {"step": step + 1, "loss": loss, "grad_norm": norm, "learning_rate": rate, "supervised_tokens": peer.supervised(batch)}
            print(json.dumps(line), file=log, flush=True)
            print(f"step {step + 1}/{steps}  loss {loss:.6f}  grad norm {norm:.6f}  rate {rate:.3e}", flush=True)
    if args.out:
        model.save_pretrained(args.out)


if __name__ == "__main__":
    main()
