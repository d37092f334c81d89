#!/usr/bin/env python3
"""tokenizer.json files against the tokenizers library: a few hundred small ones, trained here, over all their components, on texts made to be nasty.

    scripts/parity/tokenizer_files.py build/pawl [--only WORD] [--keep DIR]

Needs tokenizers; with sentencepiece also its precompiled map of characters. A file that pawl refuses is listed with its message: that is allowed, giving
other ids is not. Exit 1 where ids or text differ.
"""
import sys

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unicodedata  # noqa: E402

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers  # noqa: E402

R = random.Random(7)
WORDS = """the of and to in is you that it he was for on are as with his they I at be this have from or one had by word but not what all were we when your can said there
 don't it's we'll THEY'RE I'm he'd you've O'Neill naïve café Zürich straße İstanbul Ελλάδα Σίσυφος привет мир 你好 世界 東京 こんにちは ありがとう 안녕하세요 한국어 שלום مرحبا नमस्ते ไทย
 3.14 1234567890 2024-01-31 0xFF 1e-7 ½ ² Ⅷ ٣٤ foo_bar fooBar HTMLParser http://x.org/a?b=c&d=%20 user@mail.com #tag @you $5.00 €10 100% a+b=c (x) [y] {z} <b> "q" 'r' ... -- — … « » • ™
 ﬁ ﬂ ① Å Å e\u0301 n\u0303 ộ 가 \u1100\u1161 ｆｕｌｌ ㌔ ℌ 😀 👨\u200d👩\u200d👧 🏳️\u200d🌈 🇩🇪 ✊🏽 \u200b \u00ad \ufeff \u2028 \u0000 \x07 \x7f \x85 \u00a0 \u3000 \u2581 \u2581\u2581 Ġ Ċ Ã <0x0A> <unk> </s>""".split(" ")
SPECIALS = ["<s>", "</s>", "<unk>", "<pad>", "<|im_start|>", "[MASK]"]


def corpus():
    lines = []
    for module in (argparse, json, random, tempfile, subprocess):
        with open(module.__file__, encoding="utf-8") as f:
            lines += f.read().split("\n")[:600]
    for _ in range(1500):
        lines.append(" ".join(R.choice(WORDS) for _ in range(R.randrange(1, 12))))
    return [line + "\n" if R.random() < 0.2 else line for line in lines]


def texts():
    out = ["", " ", "  ", "\n", "a", " a", "a ", "  a  b  ", "\t\ta\r\n\r\nb\n\n\nc", "Hello World", "hello", "a" * 300, "ab" * 200, " " * 100, "\n" * 50, "1" * 40, "é" * 30, "e\u0301" * 30, "\u0301\u0301a", "你" * 50, "😀" * 20,
           "don't DON'T I'LL 'S 's ' s", "x'ſ x'Re", "<s>", "<s> a</s>", "a<s>b", " <s> ", "<s><s>", "< s>", "<S>", "<s", "[MASK]a[MASK]", "a [MASK] b", "a\n[MASK]\tb", "new token newtoken newtokens a newtoken.", "NEWTOKEN", "  newtoken  ",
           "\u00a0a\u2003b\u3000c\u2028d\u2029e\x85f\x0bg\x0ch\x1ci", "\u200b\u200c\u200d\u2060\ufeff", "a\u0000b\u0001c", "\ufffd\ufffe\uffff\U0010ffff", "\ue000\U000f0000", "\u2581a \u2581 b", "ĠaĠ Ċ", "<0x41><0x0A>", "��",
           "Ａｂｃ １２３ ﬁ ﬃ ㍿ ㎏ ½ ⅷ Ⅷ ① ¹²³", "İIıi ẞß ŉ ǅ ǆ Σς", "각 \u1100\u1161\u11a8 한글", "n\u0303 ñ \u0344 \u1e9b\u0323 \u0958", "ạ\u0308 a\u0308\u0323 a\u0323\u0308", "👨\u200d👩\u200d👧\u200d👦🏳️\u200d🌈🇩🇪🇫🇷✊🏽", "สวัสดี ชาวโลก", "नमस्ते दुनिया", "مرحبا بالعالم", "שָׁלוֹם",
           "def f(x):\n    return x ** 2  # comment\n\n\n", "{\"a\": [1, 2, {\"b\": null}]}", "a,b;c:d!e?f.g", "...---___***", "$100,000.00 (50%)", "3.14.15 1,2 1-2", "http://a.b/c?d=e&f=%20#g", "a" + "\u0301" * 100, "x" * 50 + " " + "y" * 50]
    pools = [WORDS, SPECIALS + ["newtoken", " ", "  ", "\n", "word"], [" ", "  ", "\n", "\t", "\r\n", "a", "B", "1", ".", "'s", "\u00a0"], [chr(c) for c in range(32, 127)],
             [chr(c) for c in list(range(0xA0, 0x250)) + list(range(0x300, 0x400))], [chr(c) for c in range(0x1E00, 0x2200)], [chr(c) for c in list(range(0xAC00, 0xAC80)) + list(range(0x1100, 0x1200)) + list(range(0x3040, 0x3100)) + list(range(0x4E00, 0x4E40))],
             [chr(c) for c in range(0x900, 0xA00)] + [chr(c) for c in range(0xE00, 0xE60)], [chr(c) for c in range(0xF900, 0xFB10)] + [chr(c) for c in range(0xFE00, 0xFFF0)]]
    for pool in pools:
        for _ in range(18):
            out.append("".join(R.choice(pool) for _ in range(R.randrange(1, 40))))
            out.append(" ".join(R.choice(pool) for _ in range(R.randrange(1, 12))))
    for _ in range(60):  # any code point of the first planes that Unicode 14 knows: the library's tables, ours and PCRE2's are of different years
        out.append("".join(chr(c) for c in (R.choice([R.randrange(0x20, 0x3000), R.randrange(0x3000, 0xD800), R.randrange(0xE000, 0x20000), 0x20]) for _ in range(R.randrange(1, 25))) if unicodedata.category(chr(c)) != "Cn"))
    return out


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]
KIMI = r"\p{Han}+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("/]*", "]*")
B = "isolated removed merged_with_previous merged_with_next contiguous".split()


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern), behavior, invert)


BL = lambda regex=False, space=False: P.ByteLevel(add_prefix_space=space, use_regex=regex)  # noqa: E731

BYTE_LEVEL = {  # pre-tokenizers of byte-level BPE
    "gpt2": BL(True), "gpt2-space": BL(True, True), "plain": BL(), "space": BL(False, True),
    "llama3": P.Sequence([split(CL100K), BL()]), "o200k": P.Sequence([split(O200K), BL()]), "qwen": P.Sequence([split(CL100K.replace("{1,3}", "")), BL()]),
    "gpt2-split-removed-inverted": P.Sequence([split(GPT2, "removed", True), BL()]), "cl100k-removed-inverted": P.Sequence([split(CL100K, "removed", True), BL()]),
    "deepseek": P.Sequence([split(p) for p in DEEPSEEK] + [P.Digits(True), BL()]), "starcoder": P.Sequence([P.Digits(True), BL(True)]), "digits": P.Sequence([P.Digits(False), BL(True)]),
    "falcon": P.Sequence([P.Punctuation("contiguous"), BL(True), P.Digits(False), split("[0-9][0-9][0-9]")]), "falcon-order": P.Sequence([BL(True), P.Digits(False)]), "bytelevel-then-split": P.Sequence([BL(), split("Ġ")]),
    "punctuation": P.Sequence([P.Punctuation(), BL()]), "whitespace": P.Sequence([P.Whitespace(), BL()]), "whitespacesplit": P.Sequence([P.WhitespaceSplit(), BL(False, True)]), "fixedlength": P.Sequence([P.FixedLength(4), BL()]),
    "chameleon": P.Sequence([split("\\s+", "merged_with_next"), BL(False, True)]), "delimiter": P.Sequence([P.CharDelimiterSplit("a"), BL()]),
    "letters": P.Sequence([split("\\p{Lu}", "merged_with_next"), BL()]), "posix": P.Sequence([split("[[:alpha:]]+|[[:digit:]]+|[[:space:]]+"), BL()]), "hex": P.Sequence([split("\\h+|\\x{4e00}|\\u0061"), BL()]),
    "possessive": P.Sequence([split("\\p{L}++|\\s*+\\n|\\d{1,3}(?=(?:\\d{3})*\\b)"), BL()]), "lookbehind": P.Sequence([split("(?<=[a-z])(?=[A-Z])|(?<!\\d)\\d"), BL()]), "anchors": P.Sequence([split("^\\s+|\\s+$|\\bthe\\b|\\Aa|b\\z|\\Z"), BL()]),
    "intersection": P.Sequence([split("[\\p{L}\\p{N}&&[^\\p{Nd}a-f]]+|[^\\p{L}&&[^\\s]]+"), BL()]), "kimi": P.Sequence([split(KIMI), BL()]), "named": P.Sequence([split("(?<q>['\"]).*?\\k<q>"), BL()]), "dot": P.Sequence([split("a.b|x(?m:.)y|\\X"), BL()]), "scripts": P.Sequence([split("\\p{Han}+|\\p{Hiragana}+|\\p{Greek}+|\\p{Cyrillic}+"), BL()]),
    **{f"split-{b}": P.Sequence([split("\\s", b), BL()]) for b in B}, **{f"split-inverted-{b}": P.Sequence([split("\\p{L}+", b, True), BL()]) for b in B},
    **{f"split-string-{b}": P.Sequence([P.Split(" ", b), BL()]) for b in B}, **{f"split-empty-{b}": P.Sequence([split("(?=[A-Z])", b), BL()]) for b in B}, **{f"punctuation-{b}": P.Sequence([P.Punctuation(b), BL()]) for b in B},
    "bert": P.Sequence([P.BertPreTokenizer(), BL()]), "unicodescripts": P.Sequence([P.UnicodeScripts(), BL()]), "none": None,
}
SPM = {  # pre-tokenizers of models over characters
    "none": None, "metaspace-always": P.Metaspace(), "metaspace-first": P.Metaspace(prepend_scheme="first"), "metaspace-never": P.Metaspace(prepend_scheme="never"), "metaspace-nosplit": P.Metaspace(split=False),
    "metaspace-first-nosplit": P.Metaspace(prepend_scheme="first", split=False), "metaspace-never-nosplit": P.Metaspace(prepend_scheme="never", split=False), "metaspace-underscore": P.Metaspace("_"),
    "whitespacesplit-metaspace": P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), "metaspace-digits": P.Sequence([P.Metaspace(), P.Digits(True)]), "digits-metaspace-first": P.Sequence([P.Digits(True), P.Metaspace(prepend_scheme="first")]),
    "split-space": P.Split(" ", "merged_with_previous"), "punctuation-metaspace": P.Sequence([P.Punctuation(), P.Metaspace(prepend_scheme="never")]), "metaspace-punctuation": P.Sequence([P.Metaspace(), P.Punctuation()]),
    "whitespace": P.Whitespace(), "bert": P.BertPreTokenizer(),
}
NORMALIZERS = {
    "none": None, "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lowercase": N.Lowercase(), "nfd-stripaccents": N.Sequence([N.NFD(), N.StripAccents()]), "nfkd-strip-lower": N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase()]),
    "strip": N.Strip(), "strip-left": N.Strip(True, False), "strip-right": N.Strip(False, True), "nmt": N.Nmt(), "nmt-nfkc": N.Sequence([N.Nmt(), N.NFKC()]), "prepend": N.Prepend("\u2581"), "spm": N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]),
    "replace": N.Replace(" ", "\u2581"), "replace-regex": N.Replace(Regex(" {2,}"), " "), "replace-xlm": N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), "\u2581")]), "replace-class": N.Replace(Regex("\\d"), "0"), "replace-empty": N.Replace("a", ""), "bert": N.BertNormalizer(),
    "bert-cased": N.BertNormalizer(lowercase=False), "replace-group": N.Replace(Regex("(a)(b)"), "$2$1"), "t5": N.Sequence([N.Strip(False, True), N.Replace(Regex(" {2,}"), "\u2581")]), "bytelevel": N.ByteLevel(),
}


def proto_field(data, number):
    """The bytes of a length-delimited field of a protobuf message; the last one where it stands twice."""
    at, found = 0, b""

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            x |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return x

    while at < len(data):
        tag = varint()
        if tag & 7 == 2:
            n = varint()
            if tag >> 3 == number:
                found = data[at : at + n]
            at += n
        elif tag & 7 == 0:
            varint()
        else:
            at += 8 if tag & 7 == 1 else 4
    return found


def charsmap():
    try:
        import io
        import sentencepiece
    except ImportError:
        return {}
    out = {}
    for rule in ("nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf", "nfkc"):
        model = io.BytesIO()
        lines = [line for line in CORPUS[:2000] if "\0" not in line]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=700, normalization_rule_name=rule, minloglevel=2, character_coverage=0.99, num_threads=1)
        p = N.Precompiled(proto_field(proto_field(model.getvalue(), 3), 2))  # ModelProto.normalizer_spec.precompiled_charsmap
        out[f"precompiled-{rule}"] = p
        out[f"precompiled-{rule}-strip"] = N.Sequence([p, N.Strip(False, True), N.Replace(Regex(" {2,}"), "\u2581")])
    return out


def post(kind):
    t = {"<s>": 0, "</s>": 1}
    return {
        "none": None, "bytelevel": processors.ByteLevel(trim_offsets=False), "bos": processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", list(t.items())), "bos-eos": processors.TemplateProcessing("<s> $A </s>", None, list(t.items())),
        "eos": processors.TemplateProcessing("$A </s>", None, list(t.items())), "seq": processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing("<s> $A", None, list(t.items()))]),
        "bert": processors.BertProcessing(("</s>", 1), ("<s>", 0)), "roberta": processors.RobertaProcessing(("</s>", 1), ("<s>", 0)),
        "seq-two": processors.Sequence([processors.TemplateProcessing("<s> $A", None, list(t.items())), processors.TemplateProcessing("$A </s>", None, list(t.items()))]),
    }[kind]


DECODERS = {
    "none": None, "bytelevel": decoders.ByteLevel(), "metaspace": decoders.Metaspace(), "metaspace-never": decoders.Metaspace(prepend_scheme="never"), "metaspace-first": decoders.Metaspace(prepend_scheme="first"), "metaspace-underscore": decoders.Metaspace("_"),
    "llama": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]), "gemma": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]),
    "fallback-metaspace": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), "bpe": decoders.BPEDecoder(), "wordpiece": decoders.WordPiece(), "ctc": decoders.CTC(), "fuse": decoders.Fuse(), "strip": decoders.Strip(" ", 1, 1),
    "replace-regex": decoders.Replace(Regex("a|b"), "x"), "bytefallback": decoders.ByteFallback(),
}
ADDED = {
    "plain": [AddedToken(s, special=True) for s in SPECIALS],
    "flags": [AddedToken("<s>", special=True), AddedToken("</s>", special=True), AddedToken("<unk>", special=True), AddedToken("[MASK]", special=True, lstrip=True), AddedToken("<pad>", special=True, rstrip=True), AddedToken("<|im_start|>", special=True, lstrip=True, rstrip=True),
              AddedToken("newtoken", single_word=True), AddedToken("Hello", normalized=True), AddedToken("wor", normalized=False), AddedToken("  ", normalized=False), AddedToken("   ", normalized=False), AddedToken("\n\n", normalized=False), AddedToken("É", normalized=True), AddedToken("你好", single_word=True, normalized=False)],
    "strip-normalized": [AddedToken("<s>", special=True), AddedToken("</s>", special=True), AddedToken("<unk>", special=True), AddedToken("[MASK]", special=True, lstrip=True, rstrip=True, normalized=True), AddedToken("newtoken", lstrip=True), AddedToken("a b", rstrip=True), AddedToken("the", single_word=True, lstrip=True, normalized=False)],
}
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def build(model, normalizer=None, pre=None, decoder=None, processor="none", added="plain", vocab=700, **options):
    """A trained tokenizer as the JSON of its file. options change the model of the file afterwards."""
    byte_level = model == "bbpe"
    t = Tokenizer(models.Unigram() if model == "unigram" else models.BPE(unk_token=None if byte_level else "<unk>", fuse_unk=False))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    fallback = options.get("byte_fallback")
    specials = ["<s>", "</s>", "<unk>"] + (BYTES if fallback else [])
    common = dict(vocab_size=vocab + len(specials), special_tokens=specials, show_progress=False)
    if model == "unigram":
        trainer = trainers.UnigramTrainer(unk_token="<unk>", max_piece_length=12, **common)
    else:
        affixes = {k: options[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in options}
        trainer = trainers.BpeTrainer(initial_alphabet=P.ByteLevel.alphabet() if byte_level else [], limit_alphabet=400, max_token_length=16, **affixes, **common)
    t.train_from_iterator(CORPUS, trainer)
    t.add_special_tokens([a for a in ADDED[added] if a.special])
    t.add_tokens([a for a in ADDED[added] if not a.special])
    if decoder is not None:
        t.decoder = decoder
    if post(processor) is not None:
        t.post_processor = post(processor)
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] not in BYTES]
    for k, v in options.items():
        if k not in ("continuing_subword_prefix", "end_of_word_suffix"):
            j["model"][k] = v
    return j


def configurations():
    bl = DECODERS["bytelevel"]
    for k, p in BYTE_LEVEL.items():
        yield f"bbpe pre {k}", lambda p=p: build("bbpe", None, p, bl, "bytelevel")
    for k, n in NORMALIZERS.items():
        yield f"bbpe normalizer {k}", lambda n=n: build("bbpe", n, BYTE_LEVEL["gpt2"] if n is not NORMALIZERS["bytelevel"] else None, bl)
        yield f"bbpe flags normalizer {k}", lambda n=n: build("bbpe", n, BYTE_LEVEL["llama3"] if n is not NORMALIZERS["bytelevel"] else None, bl, added="flags")
        yield f"spm normalizer {k}", lambda n=n: build("bpe", n, None, DECODERS["llama"], "bos", byte_fallback=True, fuse_unk=True)
        yield f"unigram normalizer {k}", lambda n=n: build("unigram", n, SPM["metaspace-always"], DECODERS["metaspace"], "eos")
    for k, n in charsmap().items():
        yield f"unigram {k}", lambda n=n: build("unigram", n, SPM["metaspace-always"], DECODERS["metaspace"], "eos")
        yield f"unigram flags {k}", lambda n=n: build("unigram", n, SPM["whitespacesplit-metaspace"], DECODERS["metaspace"], "bos-eos", added="flags")
        yield f"spm {k}", lambda n=n: build("bpe", n, SPM["metaspace-first"], DECODERS["metaspace"], byte_fallback=True)
    for k, p in SPM.items():
        yield f"spm pre {k}", lambda p=p: build("bpe", None, p, DECODERS["llama"], "bos", byte_fallback=True, fuse_unk=True)
        yield f"spm unk pre {k}", lambda p=p: build("bpe", None, p, DECODERS["fuse"])
        yield f"unigram pre {k}", lambda p=p: build("unigram", None, p, DECODERS["metaspace"], "bos-eos")
        yield f"unigram flags pre {k}", lambda p=p: build("unigram", N.NFKC(), p, DECODERS["metaspace"], added="strip-normalized")
    for k, d in DECODERS.items():
        yield f"spm decoder {k}", lambda d=d: build("bpe", None, P.Metaspace(), d, byte_fallback=True)
        yield f"bbpe decoder {k}", lambda d=d: build("bbpe", None, BL(True), d)
        yield f"unigram decoder {k}", lambda d=d: build("unigram", None, P.Metaspace(), d)
    for k in "none bytelevel bos bos-eos eos seq bert roberta seq-two".split():
        yield f"bbpe post {k}", lambda k=k: build("bbpe", None, BL(True), bl, k)
    for k in ADDED:
        yield f"bbpe added {k}", lambda k=k: build("bbpe", None, BYTE_LEVEL["llama3"], bl, "bos", k)
        yield f"bbpe lower added {k}", lambda k=k: build("bbpe", N.Lowercase(), BL(True, True), bl, "bos", k)
        yield f"spm added {k}", lambda k=k: build("bpe", NORMALIZERS["spm"], None, DECODERS["llama"], "bos", k, byte_fallback=True, fuse_unk=True)
        yield f"spm first added {k}", lambda k=k: build("bpe", None, SPM["metaspace-first-nosplit"], DECODERS["llama"], "bos", k, byte_fallback=True, fuse_unk=True)
        yield f"unigram added {k}", lambda k=k: build("unigram", N.NFKC(), P.Metaspace(), DECODERS["metaspace"], "bos-eos", k)
    M = P.Metaspace()
    for name, options in {
        "fuse_unk": {"fuse_unk": True}, "no fuse": {"fuse_unk": False}, "no unk": {"unk_token": None}, "unk not there": {"unk_token": "<nope>"}, "fallback no unk": {"byte_fallback": True, "unk_token": None}, "dropout null": {"dropout": None}, "dropout 0": {"dropout": 0.0},
        "dropout": {"dropout": 0.1}, "ignore_merges": {"ignore_merges": True}, "prefix ##": {"continuing_subword_prefix": "##"}, "suffix </w>": {"end_of_word_suffix": "</w>"}, "suffix fallback": {"end_of_word_suffix": "</w>", "byte_fallback": True},
        "both": {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}, "empty affixes": {"continuing_subword_prefix": "", "end_of_word_suffix": ""}, "extra key": {"nosuch_option": 1},
    }.items():
        yield f"bpe {name}", lambda o=options: build("bpe", None, P.Whitespace(), DECODERS["fuse"], **o)
        yield f"bpe metaspace {name}", lambda o=options: build("bpe", None, M, DECODERS["metaspace"], **o)
        if "unk" not in name:
            yield f"bbpe {name}", lambda o=options: build("bbpe", None, BL(True), bl, **o)
    for name, options in {"fallback": {"byte_fallback": True}, "no unk": {"unk_id": None}}.items():
        yield f"unigram {name}", lambda o=options: build("unigram", None, M, DECODERS["fallback-metaspace"], **o)
        yield f"unigram nosplit {name}", lambda o=options: build("unigram", None, P.Metaspace(split=False), DECODERS["fallback-metaspace"], **o)

    def without(j, id):  # some bytes have no token
        j = build("bpe", None, M, DECODERS["llama"], byte_fallback=True)
        for b in BYTES[0x80:0x90]:
            j["model"]["vocab"].pop(b)
        return j

    yield "spm some bytes missing", lambda: without(None, None)
    yield "wordpiece", lambda: json.loads(Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).to_str())
    yield "wordlevel", lambda: json.loads(Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).to_str())

    def changed(f):
        j = build("bbpe", None, BL(True), bl, "bos")
        f(j)
        return j

    yield "truncation", lambda: changed(lambda j: j.update(truncation={"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}))
    yield "padding", lambda: changed(lambda j: j.update(padding={"strategy": {"Fixed": 50}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 3, "pad_type_id": 0, "pad_token": "<pad>"}))
    yield "merges as strings", lambda: changed(lambda j: j["model"].update(merges=[" ".join(m) for m in j["model"]["merges"]]))


def pawl(args, path, rows, *flags):
    lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    r = subprocess.run([args.pawl, "data", "tokenize", "--model", path, *flags], input=lines.encode(), capture_output=True)
    if r.returncode != 0:
        return None, f"exit {r.returncode}: {r.stderr.decode().strip()[-300:]}"
    return [json.loads(line) for line in r.stdout.decode().split("\n")[:-1]], None


def compare(args, path, t):
    """None, or the first difference; a string that begins with 'refused' where pawl does not load the file."""
    modes = [("plain", {"add_special_tokens": False}, False, ["--no-bos"]), ("special", {}, False, []), ("as text", {"add_special_tokens": False}, True, ["--no-bos", "--no-special"])]
    for mode, options, as_text, flags in modes:
        ours, failed = pawl(args, path, [{"text": s} for s in TEXTS], *flags)
        if failed:
            return "refused: " + failed.replace(path, "FILE")
        t.encode_special_tokens = as_text
        for text, o in zip(TEXTS, ours):
            e = t.encode(text, **options)
            if e.ids != o["ids"]:
                k = next((i for i, (a, b) in enumerate(zip(e.ids, o["ids"])) if a != b), min(len(e.ids), len(o["ids"])))
                return f"{mode}: {text!r} from token {k}: {e.tokens[k : k + 6]} {e.ids[k : k + 6]}, found {[t.id_to_token(i) for i in o['ids'][k : k + 6]]} {o['ids'][k : k + 6]}"
    t.encode_special_tokens = False
    ids = [t.encode(text).ids for text in TEXTS]
    ids += [[R.randrange(t.get_vocab_size()) for _ in range(R.randrange(1, 12))] for _ in range(100)]
    ours, failed = pawl(args, path, [{"ids": i} for i in ids], "--decode")
    if failed:
        return "decode " + failed
    for i, o in zip(ids, ours):
        text = t.decode(i, skip_special_tokens=False)
        if text != o["text"]:
            return f"decode {[t.id_to_token(x) for x in i][:12]}: {text[:80]!r}, found {o['text'][:80]!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pawl")
    parser.add_argument("--only", default="", help="configurations with this in their name")
    parser.add_argument("--keep", help="keep the files here")
    args = parser.parse_args()
    same = refused = skipped = 0
    different = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in configurations():
            if args.only not in name:
                continue
            path = os.path.join(args.keep or scratch, name.replace(" ", "_").replace("/", "-") + ".json")
            try:
                text = json.dumps(make(), ensure_ascii=False)
                t = Tokenizer.from_str(text)
            except BaseException as e:  # the library panics on some combinations: nothing to compare with
                if isinstance(e, KeyboardInterrupt):
                    raise
                skipped += 1
                print(f"skipped   {name}: {str(e)[:100]}")
                continue
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            try:
                what = compare(args, path, t)
            except BaseException as e:
                if isinstance(e, KeyboardInterrupt):
                    raise
                skipped += 1
                print(f"skipped   {name}: {str(e)[:100]}")
                continue
            if what is None:
                same += 1
            elif what.startswith("refused"):
                refused += 1
                print(f"refused   {name}: {what[9:]}")
            else:
                different.append(name)
                print(f"DIFFERENT {name}: {what}")
            sys.stdout.flush()
    print(f"{same} the same over {len(TEXTS)} texts, {refused} refused, {len(different)} different, {skipped} skipped")
    return bool(different)


CORPUS = corpus()
TEXTS = texts()
if __name__ == "__main__":
    sys.exit(main())
