/* Built-in templates, and whose bytes are whose. Marks are transformers' own (tests/golden/text/masks.jsonl, made by scripts/make_golden_text.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/shared_golden.h"
#include "train/text/chat.h"

static const char two_turns[] =
    "[{\"role\":\"user\",\"content\":\"1+1?\"},{\"role\":\"assistant\",\"content\":\"2\"},{\"role\":\"user\",\"content\":\"sure?\"},{\"role\":\"assistant\",\"content\":\"yes\"}]";

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err err = {0};

    if (json_parse(&j, text, strlen(text), &err) != PAWL_OK) fail_msg("%s", err.text);
    return j;
}

static void renders(const char *name, const char *messages, bool prompt, const char *expected)
{
    struct chat_template *t = NULL;
    struct json *j = parse(messages);
    struct chat_input in = {.messages = json_root(j), .add_generation_prompt = prompt, .bos_token = "<s>", .eos_token = "</s>"};
    struct buf out = {0};
    struct err err = {0};

    if (chat_template_builtin(&t, name, &err) != PAWL_OK || chat_render(t, &in, &out, &err) != PAWL_OK) fail_msg("%s: %s", name, err.text);
    assert_string_equal(out.data, expected);
    buf_free(&out);
    chat_template_free(t);
    json_free(j);
}

static void built_in_templates(void **state)
{
    static const char one[] = "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Yo\"}]";
    static const char system[] = "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"Hi\"}]";
    struct chat_template *t = NULL;
    struct err err = {0};

    renders("chatml", one, true, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>assistant\n");
    renders("smollm", one, false, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                                  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
    renders("smollm", system, true, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    renders("qwen", system, false, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
    renders("llama3", system, true, "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                                    "<|start_header_id|>assistant<|end_header_id|>\n\n");
    renders("llama2", system, false, "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nHi [/INST]");
    renders("llama2", two_turns, false, "<s>[INST] 1+1? [/INST] 2 </s><s>[INST] sure? [/INST] yes </s>");
    renders("mistral", two_turns, false, "<s>[INST] 1+1? [/INST] 2</s>[INST] sure? [/INST] yes</s>");
    renders("gemma", one, true, "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n<start_of_turn>model\n");
    renders("gemma", system, false, "<s><start_of_turn>user\nS\n\nHi<end_of_turn>\n");
    renders("phi3", one, true, "<|user|>\nHi<|end|>\n<|assistant|>\nYo<|end|>\n<|assistant|>\n");
    assert_int_equal(chat_template_builtin(&t, "chatmk", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "chatml, smollm"));
}

static struct chat_template *template_of(const char *source, size_t len)
{
    struct chat_template *t = NULL;
    struct err err = {0};

    if (chat_template_parse(&t, "T", source, len, &err) != PAWL_OK) fail_msg("%s", err.text);
    return t;
}

static bool span_is(const struct chat_text *c, const struct chat_span *s, const char *text, const char *eot)
{
    size_t n = strlen(text), m = strlen(eot);

    return s->end - s->begin == n && memcmp(c->text.data + s->begin, text, n) == 0 && s->end - s->eot == m && memcmp(c->text.data + s->eot, eot, m) == 0;
}

/* The same spans of the assistant, with the template's marks and without: those that transformers makes of the marks. */
static void masks_are_transformers(void **state)
{
    struct golden_rows g = golden_read(PAWL_TESTS "/golden/text/masks.jsonl");

    assert_true(g.n >= 12);
    for (size_t i = 0; i < g.n; i++) {
        const struct json_value *row = json_root(g.rows[i]), *expected = json_get(row, "expected"), *marks = json_get(row, "marks");
        for (int k = 0; k < 2; k++) {
            const struct json_value *source = json_get(row, k ? "plain" : "marked");
            struct chat_template *t = template_of(source->text, source->len);
            struct chat_input in = {.messages = json_get(row, "messages")};
            struct chat_text c = {0};
            struct err err = {0};
            size_t n = 0;
            if (chat_render_spans(t, &in, &c, &err) != PAWL_OK) fail_msg("%s: %s", source->text, err.text);
            assert_false(c.rewrites_history);
            assert_int_equal(c.text.len, expected->len);
            assert_memory_equal(c.text.data, expected->text, expected->len);
            size_t place = 0;
            for (size_t s = 0; s < c.n; s++) {
                assert_true(c.spans[s].begin >= place && c.spans[s].begin <= c.spans[s].eot && c.spans[s].eot <= c.spans[s].end && c.spans[s].end <= c.text.len);
                place = c.spans[s].end;
                assert_string_equal(c.spans[s].role, json_get(json_at(in.messages, c.spans[s].message), "role")->text);
                if (!c.spans[s].assistant) continue;
                /* transformers counts characters */
                size_t begin = 0, end = 0;
                for (size_t b = 0; b < c.spans[s].end; b++) {
                    bool lead = ((unsigned char)c.text.data[b] & 0xC0) != 0x80;
                    begin += lead && b < c.spans[s].begin;
                    end += lead;
                }
                if ((double)begin != marks->items[n].items[0].number || (double)end != marks->items[n].items[1].number)
                    fail_msg("%s, row %zu, turn %zu: %zu..%zu, expected %g..%g", k ? "plain" : "marked", i, n, begin, end, marks->items[n].items[0].number, marks->items[n].items[1].number);
                n++;
            }
            assert_int_equal(n, marks->len);
            chat_text_free(&c);
            chat_template_free(t);
        }
    }
    golden_free(&g);
}

static void every_message_has_its_place(void **state)
{
    struct json *j = parse("[{\"role\":\"system\",\"content\":\" S \"},{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Yo\"},{\"role\":\"user\",\"content\":\"Hi\"}]");
    struct chat_input in = {.messages = json_root(j)};
    struct chat_template *t = NULL;
    struct chat_text c = {0};
    struct err err = {0};

    assert_int_equal(chat_template_builtin(&t, "chatml", &err), PAWL_OK);
    assert_int_equal(chat_render_spans(t, &in, &c, &err), PAWL_OK);
    assert_int_equal(c.n, 4);
    assert_true(span_is(&c, &c.spans[1], "Hi<|im_end|>", "<|im_end|>"));
    assert_true(span_is(&c, &c.spans[2], "Yo<|im_end|>", "<|im_end|>"));
    assert_true(span_is(&c, &c.spans[3], "Hi<|im_end|>", "<|im_end|>"));
    assert_true(c.spans[2].assistant && !c.spans[3].assistant);
    assert_int_equal(c.spans[3].message, 3);
    chat_text_free(&c);
    chat_template_free(t);
    json_free(j);
}

/* A turn may have several marks, and the end of a conversation one that is no turn's own (Phi-3 of TRL): all of the last turn before it. */
static void a_turn_may_have_several_marks(void **state)
{
    static const char source[] =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}[think]{% endgeneration %}|{% generation %}{{ m.content }}<end>{% endgeneration %}"
        "{% else %}{{ m.content }}<end>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% elif messages[-1].role == 'assistant' %}{% generation %}<eos>{% endgeneration %}{% endif %}";
    static const char *const texts[] = {"[think]", "2<end>", "[think]", "yes<end>", "<eos>"};
    static const size_t owners[] = {1, 1, 3, 3, 3};
    struct chat_template *t = template_of(source, sizeof source - 1);
    struct json *j = parse(two_turns);
    struct chat_input in = {.messages = json_root(j)};
    struct chat_text c = {0};
    struct err err = {0};
    size_t n = 0;

    if (chat_render_spans(t, &in, &c, &err) != PAWL_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < c.n; i++) {
        const struct chat_span *s = &c.spans[i];
        if (!s->assistant) continue;
        assert_true(n < 5);
        assert_int_equal(s->message, owners[n]);
        assert_int_equal(s->end - s->begin, strlen(texts[n]));
        assert_memory_equal(c.text.data + s->begin, texts[n], strlen(texts[n]));
        n++;
    }
    assert_int_equal(n, 5);
    chat_text_free(&c);
    chat_template_free(t);
    json_free(j);
}

/* Qwen3's habit: only the last turn keeps its reasoning. */
static void history_that_is_rewritten_is_learned_turn_by_turn(void **state)
{
    static const char source[] =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}{{ m.content }}<end>\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    struct chat_template *t = template_of(source, sizeof source - 1);
    struct json *j = parse(two_turns);
    struct chat_input in = {.messages = json_root(j)};
    struct chat_text c = {0};
    struct err err = {0};

    assert_int_equal(chat_render_spans(t, &in, &c, &err), PAWL_OK);
    assert_true(c.rewrites_history);
    assert_int_equal(c.n, 0);
    assert_int_equal(chat_render_turn(t, &in, 1, &c, &err), PAWL_OK);
    assert_string_equal(c.text.data, "<user>1+1?<end>\n<assistant><think></think>2<end>\n");
    assert_int_equal(c.n, 1);
    assert_true(span_is(&c, &c.spans[0], "<think></think>2<end>", "<end>"));
    assert_int_equal(chat_render_turn(t, &in, 3, &c, &err), PAWL_OK);
    assert_string_equal(c.text.data, "<user>1+1?<end>\n<assistant>2<end>\n<user>sure?<end>\n<assistant><think></think>yes<end>\n");
    assert_true(span_is(&c, &c.spans[0], "<think></think>yes<end>", "<end>"));
    assert_int_equal(chat_render_turn(t, &in, 0, &c, &err), PAWL_EINVAL);
    chat_text_free(&c);
    chat_template_free(t);
    json_free(j);
}

/* A template that cannot begin with the assistant, and one whose generation prompt is not how it writes turns. */
static void turns_are_found_by_their_content_where_prefixes_fail(void **state)
{
    static const char source[] =
        "{% if messages[0].role != 'user' and messages | length < 2 %}{{ raise_exception('user first') }}{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}{% if add_generation_prompt %}<odd>{% endif %}";
    struct chat_template *t = template_of(source, sizeof source - 1);
    struct json *j = parse(two_turns);
    struct chat_input in = {.messages = json_root(j)};
    struct chat_text c = {0};
    struct err err = {0};

    assert_int_equal(chat_render_spans(t, &in, &c, &err), PAWL_OK);
    assert_int_equal(c.n, 4);
    assert_true(span_is(&c, &c.spans[1], "2<end>", "<end>"));
    assert_true(span_is(&c, &c.spans[3], "yes<end>", "<end>"));
    chat_text_free(&c);
    chat_template_free(t);
    json_free(j);
}

static void messages_are_seen_as_transformers_shows_them(void **state)
{
    static const char source[] = "{% for m in messages %}{{ m.keys() | list }}{{ m.reasoning_content }}/{{ m.thinking }};{% endfor %}{{ tools is none }}{{ documents is none }}{{ bos_token is defined }}{{ x }}";
    struct chat_template *t = template_of(source, sizeof source - 1);
    struct json *j = parse("[{\"role\":\"a\",\"content\":null,\"reasoning\":\"R\"},{\"role\":\"b\",\"thinking\":\"T\",\"reasoning_content\":null},{\"role\":\"c\"}]"), *x = parse("{\"x\":[1]}");
    struct chat_input in = {.messages = json_root(j), .extra = json_root(x)};
    struct buf out = {0};
    struct err err = {0};

    if (chat_render(t, &in, &out, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_string_equal(out.data, "['thinking', 'role', 'reasoning', 'reasoning_content']R/R;['role', 'thinking', 'reasoning_content']T/T;['role']/;TrueTrueFalse[1]");
    buf_free(&out);
    chat_template_free(t);
    json_free(j);
    json_free(x);
}

static void errors_are_clear(void **state)
{
    static const char raises[] = "{{ raise_exception('roles must alternate') }}", marks[] = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    struct chat_template *t = template_of(raises, sizeof raises - 1);
    struct json *j = parse(two_turns), *k = parse("[1]");
    struct chat_input in = {.messages = json_root(j)}, bad = {.messages = json_root(k)}, none = {0};
    struct chat_text c = {0};
    struct buf out = {0};
    struct err err = {0};

    assert_int_equal(chat_render(t, &in, &out, &err), PAWL_EINVAL);
    assert_string_equal(err.text, "roles must alternate");
    assert_int_equal(chat_render(t, &bad, &out, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "number 1 is no object"));
    assert_int_equal(chat_render(t, &none, &out, &err), PAWL_EINVAL);
    chat_template_free(t);
    t = template_of(marks, sizeof marks - 1);
    assert_int_equal(chat_render_spans(t, &in, &c, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "marks 4 turns"));
    chat_template_free(t);
    t = NULL;
    assert_int_equal(chat_template_of_model(&t, PAWL_TESTS "/golden/text", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "no chat_template.jinja"));
    assert_int_equal(chat_template_of_model(&t, PAWL_TESTS "/golden/text/llama.gguf", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "holds no chat template"));
    chat_text_free(&c);
    buf_free(&out);
    json_free(j);
    json_free(k);
}

/* Contents that also stand in headers, in end-of-turn tokens and in each other: where each message stands is known, because ChatML is put together here. */
static void short_contents_are_found_where_they_stand(void **state)
{
    static const char *const words[] = {"a", "s", "user", "assistant", "m", "im_end", "<|im_", "|>", "start", "end|", "er\nu", "r", "n", "u", "t", "user\nuser"};
    static const char *const roles[] = {"system", "user", "assistant", "user", "assistant", "user"};
    enum { WORDS = sizeof words / sizeof *words, TURNS = 6 };
    struct chat_template *t = NULL;
    struct err err = {0};

    assert_int_equal(chat_template_builtin(&t, "chatml", &err), PAWL_OK);
    for (unsigned round = 0; round < 400; round++) {
        struct buf json = {0}, text = {0};
        size_t begin[TURNS], end[TURNS];
        struct chat_text spans = {0};
        unsigned draw = round * 2654435761u;
        for (int i = 0; i < TURNS; i++) {
            const char *w = words[(draw = draw * 1664525u + 1013904223u) >> 16 & (WORDS - 1)];
            buf_addf(&json, "%s{\"role\":\"%s\",\"content\":", i ? "," : "[", roles[i]);
            json_add_string(&json, w, strlen(w));
            buf_addc(&json, '}');
            buf_addf(&text, "<|im_start|>%s\n", roles[i]);
            begin[i] = text.len;
            buf_adds(&text, w);
            end[i] = text.len;
            buf_adds(&text, "<|im_end|>\n");
        }
        buf_addc(&json, ']');
        struct json *j = parse(json.data);
        struct chat_input in = {.messages = json_root(j), .bos_token = "<s>", .eos_token = "</s>"};
        if (chat_render_spans(t, &in, &spans, &err) != PAWL_OK) fail_msg("%s: %s", json.data, err.text);
        assert_string_equal(spans.text.data, text.data);
        assert_int_equal(spans.n, TURNS);
        for (size_t i = 0; i < TURNS; i++) {
            if (spans.spans[i].message != i || spans.spans[i].begin != begin[i] || spans.spans[i].eot != end[i] || spans.spans[i].end != end[i] + 10)
                fail_msg("%s: message %zu: %zu %zu %zu, expected %zu %zu %zu", json.data, i, spans.spans[i].begin, spans.spans[i].eot, spans.spans[i].end, begin[i], end[i], end[i] + 10);
        }
        chat_text_free(&spans);
        json_free(j);
        buf_free(&json);
        buf_free(&text);
    }
    chat_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_templates), cmocka_unit_test(masks_are_transformers), cmocka_unit_test(every_message_has_its_place),
        cmocka_unit_test(a_turn_may_have_several_marks), cmocka_unit_test(history_that_is_rewritten_is_learned_turn_by_turn), cmocka_unit_test(turns_are_found_by_their_content_where_prefixes_fail),
        cmocka_unit_test(messages_are_seen_as_transformers_shows_them), cmocka_unit_test(short_contents_are_found_where_they_stand), cmocka_unit_test(errors_are_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
