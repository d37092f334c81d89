/* The template language against Jinja2 with transformers' extensions (tests/golden/text/language.jsonl, made by scripts/make_golden_text.py), and its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/shared_golden.h"
#include "train/text/jinja.h"

static enum pawl_status run(const char *source, size_t len, const struct json_value *messages, struct buf *out, struct jinja_marks *marks, struct err *err)
{
    struct jinja_template *t = NULL;
    const struct json_value no = {.type = JSON_BOOL};
    const struct jinja_var vars[] = {{"messages", messages ? messages : &no}, {"add_generation_prompt", &no}};
    enum pawl_status st = jinja_parse(&t, "T", source, len, err);

    if (st == PAWL_OK) st = jinja_render(t, vars, 2, NULL, out, marks, err);
    jinja_free(t);
    return st;
}

static void the_language_is_jinja2s(void **state)
{
    struct golden_rows g = golden_read(PAWL_TESTS "/golden/text/language.jsonl");
    size_t bad = 0;

    assert_true(g.n > 60);
    for (size_t i = 0; i < g.n; i++) {
        const struct json_value *row = json_root(g.rows[i]), *source = json_get(row, "source"), *expected = json_get(row, "expected"), *m = json_get(row, "marks");
        struct buf out = {0};
        struct err err = {0};
        struct jinja_marks marks = {0};
        enum pawl_status st = run(source->text, source->len, json_get(row, "messages"), &out, &marks, &err);
        bool good = expected ? st == PAWL_OK && out.len == expected->len && memcmp(out.data ? out.data : "", expected->text, out.len) == 0 : st != PAWL_OK;
        for (size_t k = 0; good && m != NULL && k < m->len; k++)
            good = marks.n == m->len && (double)marks.items[k].begin == m->items[k].items[0].number && (double)marks.items[k].end == m->items[k].items[1].number;
        if (!good) {
            print_message("%s\n  expected %s\n  found    %s\n", source->text, expected ? expected->text : "an error", st == PAWL_OK ? out.data : err.text);
            bad++;
        }
        free(marks.items);
        buf_free(&out);
    }
    golden_free(&g);
    assert_int_equal(bad, 0);
}

/* Expressions and small templates over the values of the first row; the rest is what Jinja2 makes of them (scripts/parity/jinja.py --write). */
static void expressions_are_jinja2s(void **state)
{
    struct golden_rows g = golden_read(PAWL_TESTS "/golden/text/jinja2.jsonl");
    const struct json_value *values = json_root(g.rows[0]);
    struct jinja_var vars[64];
    size_t bad = 0;

    assert_true(g.n > 700 && values->len <= 64);
    for (size_t i = 0; i < values->len; i++) vars[i] = (struct jinja_var){values->keys[i].text, &values->items[i]};
    for (size_t i = 1; i < g.n; i++) {
        const struct json_value *source = json_get(json_root(g.rows[i]), "source"), *expected = json_get(json_root(g.rows[i]), "expected");
        struct jinja_template *t = NULL;
        struct buf out = {0};
        struct err err = {0};
        enum pawl_status st = jinja_parse(&t, "T", source->text, source->len, &err);
        if (st == PAWL_OK) st = jinja_render(t, vars, values->len, NULL, &out, NULL, &err);
        bool good = expected ? st == PAWL_OK && out.len == expected->len && memcmp(out.data ? out.data : "", expected->text, out.len) == 0 : st != PAWL_OK;
        if (!good) {
            print_message("%s\n  expected %s\n  found    %s\n", source->text, expected ? expected->text : "an error", st == PAWL_OK ? out.data : err.text);
            bad++;
        }
        jinja_free(t);
        buf_free(&out);
    }
    golden_free(&g);
    assert_int_equal(bad, 0);
}

static void refused(const char *source, const char *what)
{
    struct buf out = {0};
    struct err err = {0};

    buf_adds(&out, "before");
    if (run(source, strlen(source), NULL, &out, NULL, &err) == PAWL_OK) fail_msg("%s: is rendered: %s", source, out.data);
    if (strstr(err.text, what) == NULL) fail_msg("%s: '%s' lacks '%s'", source, err.text, what);
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(out.len, 6); /* nothing is added on failure */
    buf_free(&out);
}

static void errors_name_the_line(void **state)
{
    refused("a\nb\n{% if x %}", "T, line 3: the template ends before {% endif %}");
    refused("{{ 1 + }}", "line 1: expected an expression, found }}");
    refused("{% frobnicate %}", "unknown tag {% frobnicate %}");
    refused("\n{{ 'abc }}", "line 2: this string has no end");
    refused("{{ a", "this {{ has no }}");
    refused("{% if a", "this {% has no %}");
    refused("{# a", "this {# has no #}");
    refused("{% raw %}x", "has no {% endraw %}");
    refused("{{ ) }}", "a closing bracket that nothing opened");
    refused("{{ (1] }}", "a closing bracket that nothing opened");
    refused("{{ a ? b }}", "no part of the language");
    refused("{% include 'x' %}", "nothing to load");
    refused("{% for x %}{% endfor %}", "expected in, found %}");
    refused("\n\n{{ nope.deeper }}", "T, line 3: 'nope' is undefined");
    refused("{% set x = {} %}{% set x.y = 1 %}", "cannot assign attribute on non-namespace object");
    refused("{{ raise_exception('only\nthis') }}", "only this");
    refused("\xff", "not UTF-8 at byte 0");
}

/* A hostile template ends with an error, soon, in little memory. */
static void nothing_runs_away(void **state)
{
    struct buf deep = {0};

    refused("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}", "steps and is stopped");
    refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep");
    refused("{% macro f(n) %}{{ f(n) ~ 1 }}{% endmacro %}{% for i in [1] %}{{ f(1) }}{% endfor %}", "deep");
    refused("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "256 MiB");
    refused("{{ 'x' * 99999999999 }}", "256 MiB");
    refused("{{ [0] * 99999999999 }}", "256 MiB");
    refused("{{ range(10 ** 9) }}", "Range too big");
    refused("{% set ns = namespace(l=[]) %}{% for i in range(2000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "nested more than");
    refused("{% set ns = namespace(d={}) %}{% for i in range(2000) %}{% set ns.d = {'a': ns.d} %}{% endfor %}{{ ns.d | tojson }}", "nested more than");
    refused("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "");
    refused("{{ '%999999999d' | format(1) }}", "beyond a million");
    refused("{{ '{:999999999}'.format(1) }}", "beyond a million");
    refused("{{ 'x'.center(99999999999) }}", "256 MiB");
    refused("{{ 9223372036854775807 + 1 }}", "beyond 64 bits");
    refused("{{ (-9223372036854775807 - 1) // -1 }}", "beyond 64 bits");
    refused("{{ 3 ** 99999 }}", "beyond 64 bits");

    for (int i = 0; i < 100000; i++) buf_addc(&deep, '(');
    struct buf source = {0}, out = {0};
    struct err err = {0};
    buf_addf(&source, "{{ %s }}", deep.data);
    assert_int_equal(run(source.data, source.len, NULL, &out, NULL, &err), PAWL_EINVAL);
    source.len = 0;
    for (int i = 0; i < 100000; i++) buf_adds(&source, "{% if 1 %}");
    assert_int_equal(run(source.data, source.len, NULL, &out, NULL, &err), PAWL_EINVAL);
    source.len = 0;
    buf_adds(&source, "{{ ");
    for (int i = 0; i < 100000; i++) buf_adds(&source, "not ");
    buf_adds(&source, "1 }}");
    assert_int_equal(run(source.data, source.len, NULL, &out, NULL, &err), PAWL_EINVAL);
    buf_free(&deep);
    buf_free(&source);
    buf_free(&out);
}

static void namespaces_may_hold_themselves(void **state)
{
    static const char source[] = "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me == ns }}{{ [ns] }}";
    struct buf out = {0};
    struct err err = {0};

    assert_int_equal(run(source, sizeof source - 1, NULL, &out, NULL, &err), PAWL_OK);
    assert_non_null(strstr(out.data, "True[<Namespace>]"));
    buf_free(&out);
}

static void the_clock_can_be_fixed(void **state)
{
    static const char source[] = "{{ strftime_now('%d %b %Y, %H:%M') }}{{ strftime_now('') }}{{ strftime_now(' %f%z%Z%%f') }}";
    struct jinja_template *t = NULL;
    struct tm now = {.tm_year = 125, .tm_mon = 2, .tm_mday = 7, .tm_hour = 13, .tm_min = 45};
    struct buf out = {0};
    struct err err = {0};

    assert_int_equal(jinja_parse(&t, "T", source, sizeof source - 1, &err), PAWL_OK);
    assert_int_equal(jinja_render(t, NULL, 0, &now, &out, NULL, &err), PAWL_OK);
    assert_string_equal(out.data, "07 Mar 2025, 13:45 000000%f");
    jinja_free(t);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_language_is_jinja2s), cmocka_unit_test(expressions_are_jinja2s), cmocka_unit_test(errors_name_the_line), cmocka_unit_test(nothing_runs_away),
        cmocka_unit_test(namespaces_may_hold_themselves), cmocka_unit_test(the_clock_can_be_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
