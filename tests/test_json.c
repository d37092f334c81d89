/* The JSON reader against RFC 8259 and what the contract in json.h adds to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/base/json.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err err = {0};

    if (json_parse(&j, text, strlen(text), &err) != PAWL_OK) fail_msg("%s: %s", text, err.text);
    return j;
}

static void refused(const char *text, size_t len, const char *where, const char *what)
{
    struct json *j = NULL;
    struct err err = {0};

    assert_int_equal(json_parse(&j, text, len, &err), PAWL_EFORMAT);
    assert_null(j);
    if (strstr(err.text, where) == NULL || strstr(err.text, what) == NULL) fail_msg("'%s' lacks '%s' or '%s'", err.text, where, what);
    assert_null(strchr(err.text, '\n'));
}

static void round_trip(const char *text, const char *expected)
{
    struct json *j = parse(text);
    struct buf b = {0};

    json_add_value(&b, json_root(j));
    assert_string_equal(b.data, expected);
    buf_free(&b);
    json_free(j);
}

static void keeps_order_and_number_text(void **state)
{
    round_trip(" { \"b\" : 1 , \"a\" : [ 1.0 , -0 , 12345678901234567890123 , 1e-07, 2E+3 ] , \"c\":{} , \"d\" : [] } ",
               "{\"b\":1,\"a\":[1.0,-0,12345678901234567890123,1e-07,2E+3],\"c\":{},\"d\":[]}");
    round_trip("null", "null");
    round_trip("[true,false,null]", "[true,false,null]");
    round_trip("7", "7");

    struct json *j = parse("[12345678901234567890, -9223372036854775808, 1.0, 3]");
    int64_t x = 0;
    assert_false(json_int64(json_at(json_root(j), 0), &x));
    assert_true(json_int64(json_at(json_root(j), 1), &x));
    assert_true(x == INT64_MIN);
    assert_false(json_int64(json_at(json_root(j), 2), &x));
    assert_int_equal(json_at(json_root(j), 2)->type, JSON_FLOAT);
    assert_true(json_number(json_at(json_root(j), 3), 0) == 3.0);
    assert_null(json_at(json_root(j), 4));
    json_free(j);
}

static void a_doubled_key_keeps_first_place_and_last_value(void **state)
{
    round_trip("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}");

    struct buf text = {0}; /* enough members for the hash table to leave the stack */
    buf_addc(&text, '{');
    for (int i = 0; i < 3000; i++) buf_addf(&text, "%s\"k%d\":%d", i ? "," : "", i % 1000, i);
    buf_addc(&text, '}');
    struct json *j = parse(text.data);
    assert_int_equal(json_root(j)->len, 1000);
    assert_string_equal(json_root(j)->keys[7].text, "k7");
    assert_true(json_number(json_get(json_root(j), "k7"), 0) == 2007);
    json_free(j);
    buf_free(&text);
}

static void strings_are_unescaped(void **state)
{
    struct json *j = parse("[\"a\\n\\t\\\\\\\"\\/\\b\\f\\r\", \"\\u00e9\\u20ac\\ud83d\\ude00\", \"x\\u0000y\", \"\xc3\xa9\", \"\"]");
    const struct json_value *a = json_root(j);

    assert_string_equal(a->items[0].text, "a\n\t\\\"/\b\f\r");
    assert_string_equal(a->items[1].text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_int_equal(a->items[2].len, 3);
    assert_memory_equal(a->items[2].text, "x\0y", 4);
    assert_string_equal(a->items[3].text, "\xc3\xa9");
    assert_int_equal(a->items[4].len, 0);
    json_free(j);
    round_trip("\"\\u0001\\u0000\\n\\u00e9\"", "\"\\u0001\\u0000\\n\xc3\xa9\"");
}

static void look_ups_tolerate_anything(void **state)
{
    struct json *j = parse("{\"s\":\"x\",\"t\":true,\"n\":null}");
    const struct json_value *o = json_root(j);

    assert_string_equal(json_string(json_get(o, "s"), "-"), "x");
    assert_string_equal(json_string(json_get(o, "t"), "-"), "-");
    assert_null(json_string(json_get(json_get(o, "s"), "deeper"), NULL));
    assert_true(json_bool(json_get(o, "t"), false));
    assert_true(json_bool(json_get(o, "n"), true));
    assert_null(json_get(NULL, "s"));
    assert_null(json_at(o, 0));
    json_free(j);
    json_free(NULL);
}

static void bad_text_is_named_by_place(void **state)
{
    static const struct { const char *text, *where, *what; } cases[] = {
        {"", "byte 0", "ends where a value"},
        {"{\"a\":1,}", "byte 7", "key in double quotes"},
        {"[1,]", "byte 3", "expected a value"},
        {"[1 2]", "byte 3", "expected a comma or ]"},
        {"{\"a\" 1}", "byte 5", "expected a colon"},
        {"{\"a\":1 \"b\"}", "byte 7", "expected a comma or }"},
        {"[01]", "byte 1", "begin with 0"},
        {"[1.]", "byte 1", "decimal point"},
        {"[1e]", "byte 1", "exponent"},
        {"[-]", "byte 1", "expected a value"},
        {"[nul]", "byte 1", "expected a value"},
        {"[NaN]", "byte 1", "expected a value"},
        {"1 2", "byte 2", "more text behind"},
        {"\n\n  [\"abc", "line 3 column 4", "closing quote"},
        {"[\"a\nb\"]", "line 1 column 4", "control character"},
        {"\"\\x\"", "byte 1", "unknown escape"},
        {"\"\\u12G4\"", "byte 1", "four hexadecimal"},
        {"\"\\ud800\"", "byte 1", "surrogate"},
        {"\"\\udc00\\ud800\"", "byte 1", "surrogate"},
        {"\"\\ud800\\u0041\"", "byte 1", "surrogate"},
        {"\"a\xff\"", "byte 2", "UTF-8"},
        {"\"\xc0\x80\"", "byte 1", "UTF-8"},
        {"\"\xed\xa0\x80\"", "byte 1", "UTF-8"},
        {"\"\xe2\x82", "byte 1", "UTF-8"},
        {"[[1]", "byte 0", "not closed"},
        {"\"\\", "byte 1", "unknown escape"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(cases[i].text, strlen(cases[i].text), cases[i].where, cases[i].what);
    refused("\"\\\0\"", 4, "byte 1", "unknown escape");
    refused("1\0", 2, "byte 1", "more text");
}

static void depth_is_bounded(void **state)
{
    char *deep = malloc(20001);

    memset(deep, '[', 10000);
    memset(deep + 10000, ']', 10000);
    deep[20000] = 0;
    refused(deep, 20000, "byte 512", "nested too deeply");
    deep[10000 + JSON_MAX_DEPTH] = 0;
    json_free(parse(deep + 10000 - JSON_MAX_DEPTH));
    free(deep);
}

static void doubles_read_back(void **state)
{
    static const struct { double x; const char *text; } cases[] = {
        {0.1, "0.1"}, {1.0, "1"}, {-0.0, "-0"}, {1.0 / 3.0, "0.3333333333333333"}, {1e300, "1e+300"}, {0.1 + 0.2, "0.30000000000000004"}, {5e-324, "4.94065645841247e-324"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        json_add_double(&b, cases[i].x);
        assert_string_equal(b.data, cases[i].text);
        assert_true(strtod(b.data, NULL) == cases[i].x);
        buf_free(&b);
    }
    struct buf b = {0};
    json_add_double(&b, 0.0 / 0.0);
    assert_string_equal(b.data, "null");
    buf_free(&b);
}

static void files_name_themselves(void **state)
{
    const char *path = "test_json.tmp";
    struct json *j = NULL;
    struct err err = {0};
    FILE *f = fopen(path, "w");

    fputs("{\"a\": [1, 2}", f);
    fclose(f);
    assert_int_equal(json_parse_file(&j, path, &err), PAWL_EFORMAT);
    assert_non_null(strstr(err.text, "test_json.tmp: JSON, line 1 column 12"));
    unlink(path);
    assert_int_equal(json_parse_file(&j, path, &err), PAWL_EIO);
    assert_non_null(strstr(err.text, path));
}

static void streams_hold_back_what_is_incomplete(void **state)
{
    assert_int_equal(utf8_incomplete_tail("a\xe2\x82", 3), 2);
    assert_int_equal(utf8_incomplete_tail("a\xe2\x82\xac", 4), 0);
    assert_int_equal(utf8_incomplete_tail("\xf0\x9f\x98", 3), 3);
    assert_int_equal(utf8_incomplete_tail("a\xff", 2), 0);
    assert_int_equal(utf8_incomplete_tail("\xc3", 1), 1);
    assert_int_equal(utf8_valid("ab\xc3\xa9\xc3", 5), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_and_number_text),
        cmocka_unit_test(a_doubled_key_keeps_first_place_and_last_value),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(look_ups_tolerate_anything),
        cmocka_unit_test(bad_text_is_named_by_place),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(doubles_read_back),
        cmocka_unit_test(files_name_themselves),
        cmocka_unit_test(streams_hold_back_what_is_incomplete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
