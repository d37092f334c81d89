#!/usr/bin/env python3
"""The template language against Jinja2 as transformers sets it up: thousands of expressions and some hundred templates, rendered by both.

    scripts/parity/jinja.py build/pawl [-v]

Needs transformers and jinja2. Each difference is printed; those that are meant stand in KNOWN with their reason. Exit 1 where there is another one.
"""
import argparse
import copy
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from jinja_expressions import EXPRESSIONS
from jinja_templates import MULTILINE, TEMPLATES
from transformers.utils.chat_template_utils import _compile_jinja_template

# What is not the same, and why: (pattern of the source, what happens here: "renders", "refuses" or "text", reason)
KNOWN = [
    (r"big\b|922337203685|\*\* ?\(?64|h\) // |h\) % ", "any", "integers are 64 bits; larger ones are kept as their text, printed and compared, not computed with"),
    (r"\|(urlize|random)\b|lipsum", "refuses", "filters and functions that make HTML or draw lots are not there, and said so by name"),
    (r"\|striptags", "refuses", "of HTML's entities those of XML and numbers are known"),
    (r"\.(encode|hex|as_integer_ratio|bit_length|is_integer|conjugate|translate|maketrans|fromhex|isdisjoint|mapping)\(|__class__|\.real\b|\.imag\b|\.numerator\b|\)\.(start|stop|step)\b|\.catch_|caller\.", "any", "Python's attributes of numbers, ranges, bytes and views are not there"),
    (r"range\(|big\)", "any", "a range keeps its elements, not its bounds: it is printed with the nearest bounds, and cannot be counted"),
    (r"\(-2\) \*\* ", "text", "Jinja2 writes a negative constant without brackets before **: (-2) ** 0 is -1 there"),
    (r"\*\* ", "refuses", "no complex numbers"),
    (r"reverse|\|attr|\.items\b(?!\()|\['items'\]|'get'|'keys'|s\.format \}|self \}|\{\{ loop \}|namespace \}|map\('upper'\)\)\|", "text", "objects are printed without Python's address and class"),
    (r"\|(e|escape|safe|forceescape|pprint|striptags)|Markup|safe", "any", "Markup escapes what is formatted into it or joined, pprint wraps lines and sorts keys: neither here"),
    (r"\|items \}", "refuses", "the error comes when the generator is made, not when it is read"),
    (r"\) - |<= \(d|>= \(d|> \(d|< \(d|in \(d", "any", "views of dictionaries are no sets"),
    (r"\[.*:.*\]", "refuses", "Jinja2 folds a constant that fails to nothing; here it fails"),
    (r"% \(missing\)|\(missing\)\.|\(d\.missing\)", "any", "an undefined value may be less useful here: it fails"),
    (r"isnumeric", "text", "ideographs are no numerals"),
    (r"N\{|٣", "text", "no names of characters, no digits but ASCII's in numbers"),
    (r"1e24\|filesizeformat|map\('upper'\)\) is lower", "text", "another rounding; another text of a generator"),
    (r"self\.", "refuses", "no self: blocks are printed where they stand"),
    (r"015,|\*d|autoescape|l\[\]|^\{% raw %\}$|^\{#$", "any", "not supported; nothing that templates use"),
    (r"\{% block|loop %\}|set loop|is string is|\|last|sum\(start|sort_keys|nosuch=1|d\.get\(\)|upper\(1\)|m\(a, a\)|call m\(\)|do 1|\.count\(|copy\(\)|is filter|is test|\|sum", "renders", "too much or too little is not always refused; what is rendered is what was meant"),
    (r"for a in l %\}\{% block", "text", "a block sees the names around it"),
]

DATA = {
    "s": "Hello World", "e": "", "sp": "  a b \n\tc  ", "u": "Grüße, İstanbul ΑΣ 你好 😀 e\u0301", "q": "it's \"q\" \\ <b>&</b>", "ml": "one\ntwo\r\n\n three\u2028four\x0bfive",
    "num": "42", "neg": "-7.5", "n": 7, "z": 0, "m": -3, "f": 1.5, "g": -0.0, "h": 1e20, "i": 1e-7, "j": 0.1, "big": 12345678901234567890, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "x", None, True, 1.5, [2, {"k": "v"}]], "ld": [{"n": "x", "v": 2}, {"n": "Y", "v": 1}, {"n": "x", "v": None}, {"w": 3}],
    "d": {"b": 1, "A": "x", "c": None, "items": "shadow"}, "de": {}, "dd": {"k": {"x": [1, {"y": 2}]}, "é": "ü", "1": 1}, "lf": [0.1, 0.2, 0.3], "lt": [[1, "a"], [2, "b"]], "x'y": 1,
    "msgs": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
}
VALUES = ["s", "e", "sp", "u", "q", "ml", "num", "neg", "n", "z", "m", "f", "g", "h", "i", "j", "big", "t", "no", "nil", "l", "ls", "le", "lm", "ld", "d", "de", "dd", "lf", "lt",
          "(1, 'a')", "(1,)", "()", "range(3)", "range(5, 0, -2)", "missing", "d.items()", "ls|map('upper')", "d.missing", "1e16", "123456789.125", "'x'|safe"]
FILTERS = """abs attr('n') attr('upper') batch(2)|list batch(2,'-')|list batch(3)|map('list')|list capitalize center center(20) count d d('x') d('x',true) default('y') default(default_value='z',boolean=True)
 dictsort dictsort(true) dictsort(false,'value') dictsort(by='value') dictsort(reverse=true) e escape first float float(3) forceescape format indent indent(2) indent(2,true) indent(2,true,true) indent('> ') indent(width=3,first=True)
 int int(5) int(5,16) int(base=2) items items|list join join(',') join('-',attribute='n') join(',','v') last length list lower map('upper')|list map(attribute='n')|list map(attribute='n',default='-')|list
 map(attribute='v.y')|list map('default','q')|list map('string')|list map('int')|list map('length')|list map('first')|list max max(true) max(attribute='v') min min(attribute='n') pprint
 reject('none')|list reject('string')|list reject|list rejectattr('v')|list rejectattr('v','none')|list replace('l','L') replace('l','L',1) replace('','-') replace('a','b',count=1) reverse reverse|list round round(1) round(2,'floor') round(-1) round(0,'ceil') round(method='floor') round(1,'common')
 safe select|list select('odd')|list select('string')|list select('in',[1,2])|list selectattr('v')|list selectattr('v','gt',1)|list selectattr('n','equalto','x')|list selectattr('n','defined')|list slice(2)|list slice(3,'f')|list slice(2)|map('list')|list
 sort sort(true) sort(reverse=true) sort(case_sensitive=true) sort(attribute='n') sort(attribute='v') sort(attribute='v,n') string sum sum(start=10) sum(attribute='v') sum('v',1) title tojson tojson(indent=2) tojson(ensure_ascii=true)
 tojson(separators=(',',':')) tojson(sort_keys=true) tojson(indent=1,separators=(',',' : ')) tojson(true,4) tojson(indent='\\t') trim trim('d ') trim(chars='Hl') truncate truncate(5) truncate(5,true) truncate(5,false,'') truncate(5,true,'…',0) truncate(9,leeway=0) unique|list unique(true)|list unique(attribute='n')|list
 upper urlencode wordcount wordwrap(5) wordwrap(4,false) xmlattr xmlattr(false) filesizeformat filesizeformat(true) striptags urlize random|length groupby('n')|list groupby('n',default='zz')|list groupby('v')|list groupby('n',case_sensitive=true)|list list|sort|join(',')""".split()
METHODS = """upper() lower() title() capitalize() swapcase() casefold() strip() strip('Hd') lstrip() lstrip('H') rstrip() rstrip('d') split() split('l') split(' ',1) split(maxsplit=1) split('l',-1) rsplit('l',1) rsplit(None,1) rsplit() splitlines() splitlines(true) splitlines(keepends=True)
 startswith('He') startswith(('x','H')) startswith('l',2) startswith('ell',1,4) startswith('',99) endswith('ld') endswith(('x','d')) endswith('l',0,4) find('l') find('l',4) find('l',-3) find('l',3,5) find('zz') rfind('l') rfind('l',0,5) rfind('') find('') index('o') index('zz') rindex('o') count('l') count('l',4) count('') count('l',0,4) replace('l','L') replace('l','L',1) replace('','.') join(['a','b']) join(ls) join(l) join(d)
 center(20) center(21,'*') center(3) ljust(20,'.') rjust(20,'.') ljust(2) zfill(15) zfill(3) partition(' ') partition('zz') rpartition('l') removeprefix('He') removesuffix('ld') isalpha() isdigit() isdecimal() isnumeric() isalnum() isspace() isupper() islower() istitle() isascii() isidentifier() isprintable() expandtabs() expandtabs(4) encode() encode('utf-8').decode()
 format(1) get('b') get('zz') get('zz',5) get('b','q') keys() keys()|list values() values()|list items() items()|list copy() pop() append(1) index(1) count(1) update({}) clear() extend([1]) insert(0,1) sort() reverse() remove(1) setdefault('a',1) popitem() translate({}) maketrans('a','b') __class__ __len__() real imag numerator bit_length() is_integer() hex() as_integer_ratio() conjugate() b A items missing 0 1.x start stop step""".split()
TESTS = """defined undefined none boolean true false integer float number string mapping iterable sequence callable sameas(none) sameas(true) escaped lower upper eq(7) ne(7) equalto('x') in([7,1,'x',none]) in('Hello') lt(5) gt(5) le(7) ge(7) lessthan(5) greaterthan(5) even odd divisibleby(7) divisibleby(num=7) filter test
 '==7 7 sameas none eq none in [none] not none not defined""".replace("'==7 7 ", "").split(" ")
OPS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "and", "or"]
OPERANDS = ["s", "e", "u", "n", "z", "m", "f", "g", "h", "t", "nil", "l", "le", "lm", "d", "(1, 'a')", "missing", "range(3)", "2", "-2", "0.5", "'l'", "'%s'", "[1]", "d.items()", "'x'|safe"]
SUBSCRIPTS = "[0] [1] [-1] [99] [-99] [1:] [:1] [:-1] [::2] [::-1] [-2:] [2:0:-1] [5:1] [:99] [-99:99] [1:3:2] [none:2] [true] ['b'] ['missing'] [nil] [1.0] [[1]] ['items'] [:'a'] [::0] [-1:-3:-1] [0][0] [0].n ['k']['x'][1].y [1,2] [(1,2)] [-5:2] [3:-9:-2]".split(" ")

def lines_of(block):
    """Single-line templates of a block: those that take several lines stand in MULTILINE."""
    return [line for line in block.split("\n") if line]


def expressions():
    out = list(EXPRESSIONS)
    out += [f"({v})|{f}" if not v.isidentifier() else f"{v}|{f}" for v in VALUES for f in FILTERS]
    out += [f"({v}).{m}" for v in VALUES for m in METHODS]
    out += [f"({v}) is {t}" for v in VALUES for t in TESTS if t not in ("sameas", "eq", "in", "not")]
    out += [f"({a}) {op} ({b})" for a, b in itertools.product(OPERANDS, OPERANDS) for op in OPS]
    out += [f"({v}){s}" for v in VALUES for s in SUBSCRIPTS]
    return list(dict.fromkeys(e for e in out if "**" not in e or "h" not in e))


def by_jinja(source, inputs):
    try:
        template = _compile_jinja_template(source)
    except Exception as e:
        return [("error", f"{type(e).__name__}: {e}")] * len(inputs)
    out = []
    for variables in inputs:
        try:
            out.append(("text", template.render(messages=[], tools=None, documents=None, add_generation_prompt=False, **copy.deepcopy(variables)).encode("utf-8").decode()))
        except Exception as e:
            out.append(("error", f"{type(e).__name__}: {e}"))
    return out


def by_pawl(pawl, source, inputs):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False, encoding="utf-8", newline="") as f:
        f.write(source)
    lines = "".join(json.dumps({"messages": [], "extra": v, "bos_token": None, "eos_token": None}) + "\n" for v in inputs)
    r = subprocess.run([pawl, "data", "render", "--template", f.name], input=lines.encode(), capture_output=True)
    os.unlink(f.name)
    if r.returncode == 1:
        return [("error", r.stderr.decode().strip())] * len(inputs)
    if r.returncode != 0:
        return [("crash", f"exit {r.returncode}: {r.stderr.decode()[-300:]}")] * len(inputs)
    return [("text", o["text"]) if "text" in o else ("error", o["error"]) for o in map(json.loads, r.stdout.decode().split("\n")[:-1])]


def same(theirs, ours):
    if theirs[0] != ours[0]:
        return False
    if theirs[0] == "text":
        return theirs[1] == ours[1] or re.sub(r" at 0x[0-9a-f]+", "", theirs[1]) == ours[1] or ("<generator" in theirs[1] and "<generator" in ours[1])
    return not theirs[1].startswith("TemplateError: ") or ours[1] == theirs[1][15:]


def kind(theirs, ours):
    return {"texterror": "refuses", "errortext": "renders"}.get(theirs[0] + ours[0], "text" if ours[0] != "crash" else "crash")


def chunks(pawl):
    """(sources, the template, one set of variables each): expressions of which each compiles are put into one template."""
    todo, alone = [], []
    for e in expressions():
        source = "{{ " + e + " }}"
        try:
            _compile_jinja_template(source)
            todo.append(source)
        except Exception:
            alone.append(source)
    for i in range(0, len(todo), 400):
        part = todo[i : i + 400]
        joined = "".join("{% if case == " + str(k) + " %}" + s + "{% endif %}" for k, s in enumerate(part))
        if by_pawl(pawl, joined, [{**DATA, "case": -1}])[0][0] == "text":
            yield part, joined, [{**DATA, "case": k} for k in range(len(part))]
        else:
            alone += part
    for source in alone + lines_of(TEMPLATES) + MULTILINE:
        yield [source], source, [DATA]


def write(pawl, path):
    """The first row is the variables, then a source and what it renders to, or true for an error, a row. Differences that KNOWN explains are left out."""
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(json.dumps(DATA, ensure_ascii=False) + "\n")
        for source in ["{{ " + e + " }}" for e in EXPRESSIONS] + lines_of(TEMPLATES) + MULTILINE:
            kind, text = theirs = by_jinja(source, [DATA])[0]
            explained = any(re.search(pattern, source) for pattern, *_ in KNOWN) and not same(theirs, by_pawl(pawl, source, [DATA])[0])
            if "strftime" in source or "lipsum" in source or " at 0x" in text or explained:
                continue
            row = {"source": source, "expected": text} if kind == "text" else {"source": source, "error": True}
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pawl")
    parser.add_argument("-v", action="store_true", help="known differences too")
    parser.add_argument("--write", metavar="FILE", help="no comparison: write what Jinja2 makes of everything but the generated expressions (tests/golden/text/jinja2.jsonl)")
    args = parser.parse_args()
    if args.write:
        return write(args.pawl, args.write)
    counts = {"same": 0, "errors in both": 0}
    found = []

    def run(chunk):
        sources, joined, inputs = chunk
        return list(zip(sources, by_jinja(joined, inputs), by_pawl(args.pawl, joined, inputs)))

    with ThreadPoolExecutor(2) as pool:
        for source, theirs, ours in itertools.chain.from_iterable(pool.map(run, chunks(args.pawl))):
            if same(theirs, ours):
                counts["same" if theirs[0] == "text" else "errors in both"] += 1
                continue
            k = kind(theirs, ours)
            reason = next((why for pattern, which, why in KNOWN if which in (k, "any") and re.search(pattern, source)), None)
            counts[f"{k}, known" if reason else k] = counts.get(f"{k}, known" if reason else k, 0) + 1
            if reason is None or args.v:
                found.append((k, source, theirs, ours, reason))
    for k, source, theirs, ours, reason in sorted(found, key=lambda x: x[0]):
        print(f"{k}: {source!r}\n    jinja2 {theirs[0]}: {theirs[1][:200]!r}\n    pawl   {ours[0]}: {ours[1][:200]!r}" + (f"\n    known: {reason}" if reason else ""))
    print(", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    return any(reason is None for *_, reason in found)


if __name__ == "__main__":
    sys.exit(main())
