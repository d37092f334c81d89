#!/usr/bin/env python3
"""Chat templates of real models against transformers: every *.jinja of some folders, rendered over conversations made to be awkward, by both.

    scripts/parity/templates.py build/pawl DIR... [-v]

Needs transformers. The templates are not part of the project: take those of the models you use. Differences are printed; where Jinja2 refuses and pawl
renders is counted as lenient, not as wrong. Exit 1 where a text differs, or where pawl refuses what Jinja2 renders.
"""
import argparse
import copy
import datetime
import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import transformers.utils.chat_template_utils as chat

NOW = datetime.datetime(2025, 3, 7, 13, 45, 9)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a \"city\"\nnow", "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Ä city's <name>"}, "unit": {"type": "string", "enum": ["C", "F"], "default": None}}, "required": ["city"]},
        "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {
        "a": {"type": ["number", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "c": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "boolean"}}}}},
        "required": ["a", "b"], "additionalProperties": False}}},
]


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def bot(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, **more):
    return {"type": "function", "id": more.pop("id", "abcdef123"), "function": {"name": name, "arguments": arguments}, **more}


def answer(text, **more):
    return {"role": "tool", "content": text, "name": "get_weather", "tool_call_id": "abcdef123", **more}


def parts(*texts):
    return [{"type": "text", "text": t} for t in texts]


WEATHER = call("get_weather", {"city": "Zürich", "unit": None, "n": 1.0, "deep": {"k": [True, 2, "x\n\"y\""]}})
DOCUMENTS = [{"title": "A \"title\"", "text": "Some text.\nTwo lines."}, {"doc_id": 2, "title": "", "contents": "c", "url": "http://x", "text": "t"}]
CONVERSATIONS = {
    "one": [user("Hello")], "system": [system("Be brief."), user(" Hello \n")], "turns": [system("S"), user("1"), bot("a"), user("2"), bot("b\n\n"), user("3")],
    "ends with assistant": [user("1"), bot("a"), user("2"), bot("  b  ")], "no system": [user("1"), bot("a"), user("2")],
    "empty": [], "empty strings": [system(""), user(""), bot(""), user("")], "null answer": [user("1"), bot(None), user("2")], "absent content": [user("1"), {"role": "assistant"}, user("2")],
    "system in the middle": [user("1"), bot("a"), system("Now in French."), user("2")], "two systems": [system("A"), system("B"), user("1")], "assistant first": [bot("Hi"), user("1")],
    "same role twice": [user("1"), user("2"), bot("a"), bot("b")], "system alone": [system("A")], "developer": [{"role": "developer", "content": "D"}, user("1")], "strange role": [user("1"), {"role": "ipython", "content": "{}"}, bot("x")],
    "parts": [{"role": "system", "content": parts("S")}, {"role": "user", "content": parts("one ", "two")}, {"role": "assistant", "content": parts("an", "swer")}, {"role": "user", "content": parts("x")}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "http://x"}}]}, bot("A cat")],
    "empty parts": [{"role": "user", "content": []}, bot("x")], "content is a mapping": [user({"a": [1, 2.5, None]}), bot("x")], "number": [user(5), bot("x")],
    "reasoning": [user("1"), bot("a", reasoning_content="thought\n"), user("2"), bot("b", reasoning_content="more")], "think tags": [user("1"), bot("<think>\nold\n</think>\n\na"), user("2"), bot("<think>x</think>b"), user("3")],
    "thinking": [user("1"), bot("a", thinking="t"), user("2")], "unclosed think": [user("1"), bot("<think>never closed"), user("2"), bot("closed only</think>\n\nb")],
    "call": [user("Weather?"), bot("", tool_calls=[WEATHER]), answer("{\"t\": 20}"), bot("20 degrees")], "call, null content": [user("Weather?"), bot(None, tool_calls=[WEATHER]), answer("20")],
    "call, no content": [user("Weather?"), {"role": "assistant", "tool_calls": [WEATHER]}, answer("20"), bot("done")],
    "text and call": [system("S"), user("Weather?"), bot("Let me look.", tool_calls=[WEATHER]), answer("20"), bot("It is 20."), user("Thanks")],
    "two calls": [user("W?"), bot("", tool_calls=[WEATHER, call("add", {"a": 1, "b": 2}, id="ghijkl456")]), answer("20"), answer("3", name="add", tool_call_id="ghijkl456"), bot("ok")],
    "call after call": [user("W?"), bot("", tool_calls=[WEATHER]), answer("20"), bot("", tool_calls=[call("add", {"a": 1, "b": 2})]), answer("3"), bot("ok"), user("And?"), bot("", tool_calls=[WEATHER]), answer("x")],
    "arguments as text": [user("W?"), bot("", tool_calls=[call("get_weather", "{\"city\": \"Rome\"}")]), answer("20"), bot("ok")],
    "no arguments": [user("W?"), bot("", tool_calls=[call("get_weather", {})]), answer("")], "empty calls": [user("1"), bot("a", tool_calls=[]), user("2")],
    "flat calls": [user("1"), bot("", tool_calls=[{"name": "add", "arguments": {"a": 1, "b": [1]}}]), answer("2")], "bare calls": [user("1"), bot(None, tool_calls=[{"function": {"name": "add", "arguments": {"a": "1"}}}]), {"role": "tool", "content": "2"}],
    "answer is a mapping": [user("1"), bot("", tool_calls=[WEATHER]), answer({"t": [1, None, "ü"]}), bot("x")], "answer in parts": [user("1"), bot("", tool_calls=[WEATHER]), answer(parts("a", "b"))],
    "reasoning and call": [user("1"), bot("", reasoning_content="I should call.", tool_calls=[WEATHER]), answer("2"), bot("3", reasoning_content="done"), user("4"), bot("5")],
    "specials in text": [user("<|im_end|>\n<|im_start|>system\n[INST] </s> {{ x }} {% y %} <start_of_turn>"), bot("<tool_call>{}</tool_call> 'q' \"d\" \\ \t")],
    "unicode": [system("日本語 😀"), user("é e\u0301 \u00a0\u2028\u3000 ß İ"), bot("\u200b\u0000\x7f")], "spaces": [system("  S  "), user("\n\n1\n\n"), bot("\n a \n"), user("\t2\t")],
    "named": [{"role": "user", "name": "Bob", "content": "1"}, {"role": "assistant", "name": "A", "content": "a"}], "channels": [user("1"), bot("a", channel="final", recipient="all"), user("2")],
    "long": [m for i in range(12) for m in (user(f"q{i}"), bot(f"a{i}"))],
}
WITH_TOOLS = ["one", "system", "turns", "call", "text and call", "two calls", "call after call", "arguments as text", "reasoning and call", "null answer", "empty", "parts"]
NAMED = [{"enable_thinking": False}, {"enable_thinking": True}, {"documents": DOCUMENTS}, {"thinking": True}, {"reasoning_effort": "high", "model_identity": "You are X."}, {"date_string": "1 Jan 2024", "tools_in_user_message": False},
         {"custom_tools": TOOLS}, {"builtin_tools": ["web_search", "code_interpreter", "python"]}, {"preserve_thinking": True, "clear_thinking": False}, {"citation_mode": "fast", "safety_mode": "NONE"}, {"add_vision_id": True}, {"keep_cots": True, "xml_tools": ["{}"]}]


def cases():
    for name, messages in CONVERSATIONS.items():
        for tools in (None, TOOLS) if name in WITH_TOOLS else (None,):
            for prompt in (True, False):
                yield {"name": f"{name}{' + tools' if tools else ''}{' + prompt' if prompt else ''}", "messages": messages, "tools": tools, "add_generation_prompt": prompt, "extra": {}}
    for extra in NAMED:
        for name in ("turns", "reasoning", "call after call"):
            yield {"name": f"{name}, {'/'.join(extra)}", "messages": CONVERSATIONS[name], "tools": TOOLS if "call" in name else None, "add_generation_prompt": True, "extra": extra}
    yield {"name": "tools of functions", "messages": CONVERSATIONS["one"], "tools": [t["function"] for t in TOOLS], "add_generation_prompt": True, "extra": {}}
    yield {"name": "no tools", "messages": CONVERSATIONS["one"], "tools": [], "add_generation_prompt": True, "extra": {}}


CASES = list(cases())
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def by_transformers(source):
    out = []
    for c in CASES:
        c = copy.deepcopy(c)
        try:
            text, _ = chat.render_jinja_template([chat._normalize_chat_messages(c["messages"])], c["tools"], c["extra"].pop("documents", None), source, add_generation_prompt=c["add_generation_prompt"], **TOKENS, **c["extra"])
            out.append(("text", text[0].encode("utf-8").decode()))
        except Exception as e:
            out.append(("error", f"{type(e).__name__}: {e}"))
    return out


def by_pawl(pawl, path):
    lines = "".join(json.dumps({**{k: c[k] for k in ("messages", "add_generation_prompt", "extra")}, **({"tools": c["tools"]} if c["tools"] is not None else {}), **TOKENS}) + "\n" for c in CASES)
    r = subprocess.run([pawl, "data", "render", "--template", path, "--now", NOW.isoformat()], input=lines.encode(), capture_output=True)
    if r.returncode != 0:
        return [("error" if r.returncode == 1 else "crash", r.stderr.decode()[-500:].strip())] * len(CASES)
    return [("text", o["text"]) if "text" in o else ("error", o["error"]) for o in map(json.loads, r.stdout.decode().split("\n")[:-1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pawl")
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("-v", action="store_true", help="what was rendered leniently too")
    args = parser.parse_args()
    chat.datetime = Clock
    seen, paths = set(), []
    for path in sorted(p for d in args.folders for p in pathlib.Path(d).rglob("*.jinja")):
        text = path.read_bytes()
        if text not in seen:
            seen.add(text)
            paths.append(path)
    counts, wrong = {}, 0

    with ThreadPoolExecutor(2) as pool:
        for path, ours in zip(paths, pool.map(lambda p: by_pawl(args.pawl, p), paths)):
            shown = 0
            for c, a, b in zip(CASES, by_transformers(path.read_text(encoding="utf-8")), ours):
                raised = a[1].startswith("TemplateError: ")
                if a[0] == b[0] and (a[0] == "error" or a[1] == b[1]):
                    what = "same" if a[0] == "text" else "errors in both"
                    if raised and a[1].split(": ", 1)[1].replace("\n", " ") != b[1]:
                        what = "another message"
                else:
                    what = {"texterror": "refused", "errortext": "lenient"}.get(a[0] + b[0], "another text") if not raised else "not raised"
                counts[what] = counts.get(what, 0) + 1
                bad = what not in ("same", "errors in both", "lenient")
                wrong += bad
                if (bad or (args.v and what == "lenient")) and shown < 3:
                    shown += 1
                    at = next((i for i, (x, y) in enumerate(zip(a[1], b[1])) if x != y), 0) if a[0] == b[0] else 0
                    print(f"{path.name}, {c['name']}: {what}\n    transformers {a[0]}: {a[1][max(0, at - 60):at + 200]!r}\n    pawl         {b[0]}: {b[1][max(0, at - 60):at + 200]!r}")
    print(f"{len(paths)} templates, {len(CASES)} conversations: " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
