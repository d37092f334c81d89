"""A byte-level BPE tokenizer of 320 entries for the tiny models: 3 special tokens, 256 bytes, 61 merges.

The same vocabulary goes into tokenizer.json and into the GGUF file. It splits digits and words as SmolLM2 does.
"""

import collections
import json

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB = 320
TEXT = """the pawl is the catch that keeps a ratchet from slipping back and the train goes on when the machine is taken away
user assistant system what is the name of the package and which section of the index does it belong to
a library for reading and writing files in the format of the program, with tools for developers and their tests"""

CHAT_TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
                 "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """The printable stand-in of each byte, as GPT-2 chose them: printable Latin-1 stays, the others follow from U+0100 on."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, spare = {}, 256
    for b in range(256):
        if b in plain:
            table[b] = chr(b)
        else:
            table[b] = chr(spare)
            spare += 1
    return [table[b] for b in range(256)]


def learn_merges(count):
    """Plain BPE on TEXT; among equally frequent pairs the alphabetically first."""
    alphabet = byte_alphabet()
    words = collections.Counter()
    for line in TEXT.splitlines():
        for i, word in enumerate(line.split(" ")):
            words[tuple(alphabet[b] for b in ((" " if i else "") + word).encode())] += 1
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        merged = collections.Counter()
        for word, n in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i:i + 2] == best:
                    out.append(word[i] + word[i + 1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] += n
        words = merged
    return merges


def vocabulary():
    """Returns (tokens in id order, merges)."""
    merges = learn_merges(VOCAB - 256 - len(SPECIAL))
    tokens = SPECIAL + byte_alphabet() + [a + b for a, b in merges]
    assert len(set(tokens)) == VOCAB
    return tokens, merges


def save_tokenizer(directory):
    """tokenizer.json and tokenizer_config.json with the chat template."""
    tokens, merges = vocabulary()
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [list(m) for m in merges]},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
              "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>", "model_max_length": 512, "chat_template": CHAT_TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
