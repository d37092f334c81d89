#!/usr/bin/env python3
"""Golden values of templates and tokenizers: tests/golden/text, read by tests/test_jinja.c, test_chat.c and test_tokenizer.c.

    python scripts/make_golden_text.py [OUT]

Needs transformers, tokenizers, jinja2 and gguf. Templates, texts and vocabularies are made here and belong to nobody else. The same bytes come out each time.
"""
import json
import os
import sys

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "text")


def write_rows(name, rows):
    with open(os.path.join(OUT, name), "w", encoding="utf-8", newline="\n") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")


# ---- the language: one row a feature ----

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Add 2 and 3.", "tags": ["a", "B", "c"], "n": 3, "x": 1.5, "big": 12345678901234567890, "small": 1e-07},
    {"role": "assistant", "content": " 5 ", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": [3, None, True]}}}]},
    {"role": "user", "content": "Schön, 你好 'quoted' \"twice\" \\ <b>&</b>\n\tline\u2028end"},
]

SNIPPETS = """
{{ messages | length }} {{ messages[0].role }} {{ messages[-1]['role'] }} {{ messages[0]['nope'] }}|{{ nope }}|
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }}{{ loop.previtem.role if not loop.first }}{{ loop.nextitem.role if not loop.last else '-' }};{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}:{{ m.content }};{% else %}none{% endfor %}
{% for m in [] %}x{% else %}none{% endfor %}
{% for k, v in messages[1].items() %}{{ k }}={{ v }};{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s ~ m.role[0] %}{% endfor %}{{ ns.n }}{{ ns.s }}
{% macro f(a, b=2, c='x') %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c='y') }}{{ f(b=5, a=4) }}{{ f() }}
{% macro walk(n) %}{{ n }}{% if n > 0 %}{{ walk(n - 1) }}{% endif %}{% endmacro %}{{ walk(5) }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, z=3) }}
{% macro box() %}<{{ caller() }}>{% endmacro %}{% call box() %}in {{ messages[0].role }}{% endcall %}
{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) each([1, 2]) %}({{ i }}){% endcall %}
{% set t %}  a {{ 1 + 1 }} {% endset %}[{{ t }}]{% set u | trim | upper %}  abc {% endset %}[{{ u }}]
{% filter upper %}abc{{ 'd' }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% set a, b = 1, 'two' %}{{ a }}{{ b }}{% set (c, d) = (3, 4) %}{{ c + d }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.5 + 1 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 6 / 3 }} {{ 10 ** 20 if false else 'skipped' }}
{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ not true or true and false }} {{ 1 in [1, 2] }} {{ 'ell' in 'hello' }} {{ 'x' not in {'x': 1} }} {{ 0 or 'no' }} {{ 1 and 'yes' }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ {'k': none} ~ (1,) }}
{{ 'abc' * 2 }} {{ [1] * 3 }} {{ [1] + [2] }} {{ (1, 2) + (3,) }} {{ 'a' 'b' "c" }} {{ -3 | abs }} {{ (-3) | abs }}
{{ 'abcdef'[1:3] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][5] is defined }} {{ '你好吗'[1] }} {{ 'abc'[5:] }} {{ [1, 2, 3][:-1] }}
{{ messages[1].big }} {{ messages[1].small }} {{ messages[1].x }} {{ [1e16, 1e15, 123456789.125, 1e-5, 0.0001, -0.0] }}
{{ messages[1] | tojson }}
{{ messages[2].tool_calls | tojson(indent=2) }} {{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=true, sort_keys=true) }} {{ [1, {'a': []}] | tojson(separators=(',', ':')) }} {{ {} | tojson(indent=4) }}
{{ messages[3].content | tojson }} {{ [messages[3].content] }} {{ {1: 'a', none: 2, true: 3, 1.5: 4} | tojson }}
{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | list }} {{ [1, 2, 3, 4] | select('even') | list }} {{ [0, 1, none, ''] | select | list }} {{ [3, 'x', none] | reject('string') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ messages | selectattr('tags') | list | length }}
{{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ [3, 1, 2] | sort(reverse=true) }} {{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ [1, 1, 2, 'A', 'a'] | unique | list }} {{ [3, 1] | min }} {{ [3, 1] | max }} {{ [1, 2.5] | sum }} {{ messages | groupby('role') | map('first') | list }} {{ messages | sort(attribute='role') | map(attribute='role') | list }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ 'abc' | first }} {{ [] | first is defined }} {{ 'abc' | list }} {{ [1, 2] | reverse | list }} {{ 'abc' | reverse }} {{ {'a': 1} | items | list }} {{ {'a': 1} | list }}
{{ 'x' | default('y') }} {{ nope | default('y') }} {{ '' | default('y', true) }} {{ none | default('y') }} {{ nope | d }} {{ '42' | int + 1 }} {{ 'x' | int(7) }} {{ '3.7' | int }} {{ '0x1f' | int(base=16) }} {{ '1.5' | float }} {{ 'x' | float(2) }} {{ 3 | string + '!' }} {{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 3.2 | round(method='ceil') }} {{ 7 | round }}
{{ ' a ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'hello world' | capitalize }} {{ 'hello wORLD-foo' | title }} {{ 'ABC' | lower }} {{ 'straße' | upper }} {{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ 'a b  c' | wordcount }} {{ 'ab' | center(6) }}| {{ 'one two three four' | truncate(10) }} {{ 'a&b /x' | urlencode }}
{{ '<a href="x">' | e }} {{ 'x' | safe }} {{ ('<b>' | safe) + '<i>' }} {{ '%s is %d' | format('x', 3) }} {{ '%(a)s %5.2f%%' | format(a='x') if false else '%5.2f%%' | format(2.5) }}
{{ 'a\\nb\\n\\nc' | indent(2) }}| {{ 'a\\nb' | indent(2, true) }}| {{ 'a\\n\\nb' | indent('> ', blank=true) }}| {{ '' | indent }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'ab'.startswith('a') }} {{ 'ab'.endswith(('x', 'b')) }} {{ 'xxabxx'.strip('x') }} {{ ' ab '.lstrip() }}| {{ ' ab '.rstrip() }}| {{ 'aXbX'.replace('X', '') }} {{ '-'.join(['a', 'b']) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'ab'.upper() }} {{ 'a:b:c'.partition(':') }} {{ 'a:b:c'.rpartition(':') }} {{ '7'.zfill(3) }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4) }} {{ 'ababa'.count('ba') }} {{ 'x1'.isalnum() }} {{ '12'.isdigit() }} {{ 'hello big world'.title() }} {{ 'aB'.swapcase() }} {{ 'prefix-x'.removeprefix('prefix-') }}
{{ '{} {1}'.format(1, 2) if false else '{} {}'.format(1, 'x') }} {{ '{0:>5}|{1:<4}|{2:^5}|{3:05d}|{4:.2f}|{name!r}'.format('a', 'b', 'c', 42, 3.14159, name='q') }} {{ '{:,}'.format(1234567) }} {{ '{{}}'.format() }}
{{ messages[1].get('tags') }} {{ messages[1].get('zip', 'd') }} {{ messages[0].keys() | list }} {{ messages[0].values() | list }} {{ dict(a=1, b=2) }} {{ ['x', 'y'].index('y') }} {{ [1, 1].count(1) }} {{ messages[1].items() | list | length }}
{{ nope is defined }} {{ nope is undefined }} {{ none is none }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ true is boolean }} {{ 1 is boolean }} {{ 1 is number }} {{ true is number }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is true }} {{ 1 is true }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 'a' is in ['a'] }} {{ 'a' is eq 'a' }} {{ 'A' is upper }} {{ 1 is sameas 1 }} {{ 2 is gt 1 }} {{ nope is iterable }} {{ range is callable }} {{ 1 is not none }}
{{ 'yes' if true }}{{ 'no' if false }}|{{ 'a' if false else 'b' if false else 'c' }} {{ (1 if true else 2) + 1 }}
{%- if messages %}  {%- for m in messages -%}  {{ m.role }}  {%- endfor -%}  {% endif -%}   end
a {#- comment -#}  b {# another #} c
{% raw %}{{ not this }} {% nor %} that{% endraw %} {{ '{{' }} {{ "}}" }} {{ '%}' }} {{ {'a': {'b': 1}}['a']['b'] }}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for x in (1, 2) %}{{ x }}{% endfor %} {% for x in 'ab' %}{{ x }}.{% endfor %} {% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}
{% for item in [{'v': 1, 'c': [{'v': 2, 'c': []}]}, {'v': 3, 'c': []}] recursive %}{{ loop.depth }}{{ item.v }}{{ loop(item.c) }}{% endfor %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }} {% set j = joiner('|') %}{{ j() }}x{{ j() }}y {% for i in [1, 1, 2] %}{{ loop.changed(i) }}{{ loop.cycle('o', 'e') }}{% endfor %}
{% block b %}{% set inner = 1 %}{{ inner }}{% endblock %}{{ inner is defined }} {% if true %}{% set leak = 2 %}{% endif %}{{ leak }}
{{ range(3) | list }} {{ range(5, 0, -2) | list }} {{ range(1, 4) | map('string') | join('') }} {{ [range(2), 3] }}
{{ [1, [2, {'a': (3, 4)}]] }} {{ 'it\\'s' }} {{ ["it's"] }} {{ ['say "x"', 'both \\' and "'] }} {{ [none, true, 1.0, nope] }} {{ '\\x41\\u00e9\\t|' }} {{ ['\\n\\x07é\\u200b'] }}
{% generation %}made{% endgeneration %} and {% generation %}{% if true %}more{% endif %}{% endgeneration %}
{{ raise_exception('told you: ' ~ messages | length) }}
{{ messages.nope.deeper }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{% for x in none %}{% endfor %}
{{ 1 / 0 }}
{{ messages.append(1) }}
{{ 'x' | nofilter }}
{{ nope() }}
{{ [1, 'a'] | sort }}
{{ (messages | map(attribute='role')) | tojson }}
{{ undefined_thing | tojson }}
""".strip("\n").split("\n")

LAYOUT = [  # trim_blocks, lstrip_blocks and the signs that switch them
    "{% if true %}\n  yes\n{% endif %}\nend\n",
    "  {% if true %}\n  yes\n  {% endif %}\n  {{ 'out' }}\n",
    "a\n  {%+ if true %}b\n{% endif +%}\nc\n",
    "a\n   {#  gone #}\n  {%- if true -%}\n   b   \n  {%- endif %}\n\nc\n\n",
    "x {% if true %} y {% endif %} z\n",
    "line\r\n{% if true %}\r\nwindows\r\n{% endif %}\r\n",
    "{%- raw -%}\n  {{ kept }}\n{%- endraw -%}\n end",
    "\t{% for i in [1, 2] %}\n\t\t- {{ i }}\n\t{% endfor %}",
    "\n\n{{ 'a' }}\n\n\n",
]


def render(source, messages=MESSAGES, **variables):
    text, spans = render_jinja_template([messages], chat_template=source, return_assistant_tokens_mask="generation" in source, **variables)
    return text[0], [list(s) for s in spans[0]] if "generation" in source else None


def language():
    rows = []
    for source in SNIPPETS + LAYOUT:
        row = {"source": source, "messages": MESSAGES}
        try:
            row["expected"], marks = render(source)
            if marks is not None:
                row["marks"] = marks
        except Exception as e:
            row["error"] = str(e)
        rows.append(row)
    write_rows("language.jsonl", rows)


# ---- masks: templates with {% generation %} and the same without ----

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}],
    [{"role": "system", "content": "Short."}, {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"},
     {"role": "user", "content": "Sure? 2"}, {"role": "assistant", "content": "2\n\nYes, 2 ü 你"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<|im_end|> is a token"}, {"role": "user", "content": "b"}],
    [{"role": "user", "content": "same"}, {"role": "assistant", "content": "same"}, {"role": "user", "content": "same"}, {"role": "assistant", "content": "same"}],
]

MARKED = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
              "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "headers": "{% for m in messages %}[{{ m.role }}]\n\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}[end]{% endgeneration %}{% else %}{{ m.content }}[end]{% endif %}"
               "{% endfor %}{% if add_generation_prompt %}[assistant]\n\n{% endif %}",
    "inst": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %} {{ m.content }}</s>{% endgeneration %}{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}",
}


def masks():
    rows = []
    for name, source in MARKED.items():
        plain = source.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        for messages in CHATS:
            text, marks = render(source, messages)
            assert text == render(plain, messages)[0]
            rows.append({"name": name, "marked": source, "plain": plain, "messages": messages, "expected": text, "marks": marks})
    write_rows("masks.jsonl", rows)


# ---- tokenizers ----

TEXT = """The quick brown fox jumps over the lazy dog. A pawl keeps a ratchet from slipping back; it never slips by more than one tooth.
def add(a, b):\n    return a + b  # sums two numbers\n\nfor i in range(10):\n\tprint(i, i ** 2, "done")
Größe, Übung, façade, naïve, œuvre. Привет, мир! Καλημέρα κόσμε. こんにちは世界。 你好，世界！今天天气很好。 안녕하세요 세계. שלום עולם. नमस्ते दुनिया.
They're sure we'll've said it's 'quoted', I'd say. 3.14159, 1,000,000 and 0x1F; 12345 67890.
{"key": [1, 2.5, null, true], "text": "a\\nb"} <html><body class="x">&amp;</body></html> https://example.org/path?q=1#top
"""

STRINGS = ["", " ", "  ", "\n", "\n\n\n", "\t\t", " \n ", "a", "Hello world", " Hello", "Hello  world   again", "Hello\nworld\n\n end", "it's we'll THEY'RE I'D x'y", "12345 1 22 333 4444",
           "3.14 1,000", "Größe Übung", "e\u0301 vs é", "Привет, мир", "你好，世界！", "こんにちは", "안녕하세요", "नमस्ते", "😀 👩‍👩‍👧 🇩🇪", "\u00a0nbsp\u2003em\u3000", "a\u0085b\u2028c",
           "tab\tsep", "<|im_start|>user\nHi<|im_end|>\n", "a<s>b</s>c", "word words word", "x  <strip>  y", "\u2581mark \u2581\u2581", "zzzqqq ÿ þ \x00 \x7f", "…—“”", "²³½ Ⅷ ①",
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
           "def add(a, b):\n    return a + b\n", "The lazy dog's ratchet."] + TEXT.split("\n")

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level(pre, size=420, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT] * 2, trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def pieces():
    """Tokens of SentencePiece style, in order of rank, and every way to merge two of them into a third."""
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    base = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    trained.train_from_iterator([TEXT.replace("\n", " ")], trainers.BpeTrainer(vocab_size=700, special_tokens=base, show_progress=False))
    vocab = trained.get_vocab()
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda x: x[1])]
    merges = [(i, a, t[len(a):]) for t, i in vocab.items() if i >= len(base) for a in (t[:k] for k in range(1, len(t))) if a in vocab and t[len(a):] in vocab]
    return tokens, [(a, b) for _, a, b in sorted(merges)]


def sentencepiece(tokens, merges):
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)}, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    return t


def tokenizers():
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2", gpt2
    prefix = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    prefix.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "gpt2-prefix", prefix
    digits = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "digits", digits
    llama3 = byte_level(split(LLAMA3), ignore_merges=True)
    llama3.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)])])
    yield "llama3", llama3
    qwen2 = byte_level(split(QWEN2))
    qwen2.normalizer = normalizers.NFC()
    qwen2.add_tokens([AddedToken("<think>", normalized=False)])
    yield "qwen2", qwen2
    yield "cased", byte_level(split(CASED))
    added = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    added.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.NFKD(), normalizers.StripAccents()])
    added.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False), AddedToken("Hello", normalized=True)])
    yield "added", added
    pieces_pre = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split(Regex(r"\d"), "contiguous"), pre_tokenizers.Split(",", "merged_with_previous"),
                                                     pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    yield "behaviors", pieces_pre
    falcon = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False),
                                                 pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    yield "falcon", falcon  # what stands behind ByteLevel sees bytes: the middle one of a Cyrillic letter may be a digit

    tokens, merges = pieces()
    legacy = sentencepiece(tokens, merges)
    legacy.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    legacy.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    yield "sentencepiece", legacy
    meta = sentencepiece(tokens, merges)
    meta.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    yield "metaspace", meta
    spaces = sentencepiece(tokens, merges)
    spaces.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    spaces.add_special_tokens([AddedToken("<strip>", lstrip=True, rstrip=True)])
    spaces.add_tokens([AddedToken("  ", normalized=False), AddedToken("z", normalized=True), AddedToken("þ", single_word=True)])
    yield "spaces", spaces
    words = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    words.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    words.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Split(Regex(r"[^\W\d_]+"), "isolated")])
    words.decoder = decoders.Fuse()
    words.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False))
    yield "words", words

    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    unigram.train_from_iterator([TEXT] * 4, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    yield "unigram", unigram


def vectors(t):
    rows = []
    for text in STRINGS:
        row = {"text": text, "ids": t.encode(text, add_special_tokens=False).ids, "ids_add_special": t.encode(text).ids}
        t.encode_special_tokens = True
        row["ids_no_special_parse"] = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = False
        row["decoded"] = t.decode(row["ids"], skip_special_tokens=False)
        rows.append(row)
    return rows


def write_gguf(name, model, pre, tokens, types, merges=None, scores=None, **flags):
    w = gguf.GGUFWriter(os.path.join(OUT, name), "llama")
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    w.add_bos_token_id(flags.pop("bos", 1))
    w.add_eos_token_id(flags.pop("eos", 2))
    for key, value in flags.items():
        w.add_bool("tokenizer.ggml." + key, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def make_tokenizers():
    for name, t in tokenizers():
        t.save(os.path.join(OUT, name + ".json"), pretty=False)
        write_rows(name + ".jsonl", vectors(Tokenizer.from_file(os.path.join(OUT, name + ".json"))))
        if name == "digits":  # SmolLM2's kind: its vectors hold for the GGUF as well
            data = json.loads(t.to_str())["model"]
            tokens = [s for s, _ in sorted(data["vocab"].items(), key=lambda x: x[1])]
            write_gguf("smollm.gguf", "gpt2", "smollm", tokens, [3 if s in SPECIALS else 1 for s in tokens], merges=[" ".join(m) for m in data["merges"]], add_bos_token=False)
        if name == "sentencepiece":
            data = json.loads(t.to_str())["model"]
            tokens = [s for s, _ in sorted(data["vocab"].items(), key=lambda x: x[1])]
            types = [2] + [3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
            write_gguf("llama.gguf", "llama", "default", tokens, types, scores=[-float(i) for i in range(len(tokens))], add_bos_token=True, add_eos_token=False)


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    language()
    masks()
    make_tokenizers()
