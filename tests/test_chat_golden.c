/* Every golden row of real chat templates, rendered by transformers. Prints a table of pass counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/shared_golden.h"
#include "train/text/chat.h"

#include <dirent.h>

struct counts {
    size_t rows, same, raised, lenient, bad;
};

static bool text_is(const struct json_value *v, const struct buf *b)
{
    return v != NULL && v->type == JSON_STRING && v->len == b->len && memcmp(v->text, b->data ? b->data : "", b->len) == 0;
}

static void show_difference(const char *what, const struct json_value *row, const struct json_value *expected, const struct buf *found, const struct err *err)
{
    size_t at = 0;

    print_message("%s, case %s:\n", what, json_string(json_get(row, "case"), "?"));
    if (expected == NULL || err->status != PAWL_OK) {
        print_message("  error found: %s\n", err->text);
        print_message("  expected: %s\n", expected ? "a text" : json_string(json_get(row, "error_message"), "?"));
        if (expected == NULL) print_message("  found: %.300s\n", found->data);
        return;
    }
    while (at < found->len && at < expected->len && found->data[at] == expected->text[at]) at++;
    size_t from = at > 60 ? at - 60 : 0;
    print_message("  differs at byte %zu\n  expected ...%.160s\n  found    ...%.160s\n", at, expected->text + from, found->data ? found->data + from : "");
}

static bool parse_clock(const char *text, struct tm *out)
{
    memset(out, 0, sizeof *out);
    return text != NULL && strptime(text, "%Y-%m-%dT%H:%M:%S", out) != NULL;
}

/* One row: the text, or an error where an exception is expected. Rows where Jinja2 itself fails may render: being lenient there is no wrong rendering. */
static void check_row(const struct chat_template *t, const char *name, const struct json_value *row, struct counts *c)
{
    struct tm now;
    bool clock = parse_clock(json_string(json_get(row, "now"), NULL), &now), error = json_bool(json_get(row, "error"), false);
    const struct json_value *tools = json_get(row, "tools"), *expected = json_get(row, "expected");
    struct chat_input in = {
        .messages = json_get(row, "messages"), .tools = tools, .extra = json_get(row, "extra"),
        .add_generation_prompt = json_bool(json_get(row, "add_generation_prompt"), false),
        .bos_token = json_string(json_get(row, "bos_token"), NULL), .eos_token = json_string(json_get(row, "eos_token"), NULL), .now = clock ? &now : NULL,
    };
    struct buf out = {0};
    struct err err = {0};
    enum pawl_status st = chat_render(t, &in, &out, &err);

    c->rows++;
    if (!error && st == PAWL_OK && text_is(expected, &out)) {
        c->same++;
    } else if (error && st != PAWL_OK) {
        const char *kind = json_string(json_get(row, "error_kind"), ""), *message = json_string(json_get(row, "error_message"), "");
        bool raise = strcmp(kind, "raise_exception") == 0;
        if (raise && strncmp(err.text, message, strcspn(message, "\n")) != 0) {
            show_difference(name, row, NULL, &out, &err);
            c->bad++;
        } else {
            c->raised++;
        }
    } else if (error && strcmp(json_string(json_get(row, "error_kind"), ""), "runtime") == 0) {
        c->lenient++;
    } else {
        show_difference(name, row, error ? NULL : expected, &out, &err);
        c->bad++;
    }
    buf_free(&out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_folder(const char *folder, struct counts *all)
{
    char *path = golden_path(folder), *names[256];
    size_t n = 0;
    DIR *dir = path ? opendir(path) : NULL;

    if (dir == NULL) {
        free(path);
        return;
    }
    for (struct dirent *d; (d = readdir(dir)) != NULL && n < 256;)
        if (strstr(d->d_name, ".jsonl") != NULL) names[n++] = xstrdup(d->d_name);
    closedir(dir);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        char *file = xasprintf("%s/%s", path, names[i]);
        char *source = xasprintf("%s/../templates/%.*s.jinja", path, (int)(strlen(names[i]) - 6), names[i]);
        struct golden_rows g = golden_read(file);
        struct chat_template *t = NULL;
        struct counts c = {0};
        struct err err = {0};
        FILE *f = fopen(source, "rb");
        struct buf text = {0};
        char chunk[4096];

        if (f == NULL) fail_msg("%s cannot be read", source);
        for (size_t k; (k = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_add(&text, chunk, k);
        fclose(f);
        if (chat_template_parse(&t, names[i], text.data, text.len, &err) != PAWL_OK) fail_msg("%s", err.text);
        for (size_t k = 0; k < g.n; k++) check_row(t, names[i], json_root(g.rows[k]), &c);
        print_message("%-60s %5zu %5zu %6zu %7zu %5zu\n", names[i], c.rows, c.same, c.raised, c.lenient, c.bad);
        all->rows += c.rows;
        all->same += c.same;
        all->raised += c.raised;
        all->lenient += c.lenient;
        all->bad += c.bad;
        chat_template_free(t);
        golden_free(&g);
        buf_free(&text);
        free(file);
        free(source);
        free(names[i]);
    }
    free(path);
}

static void all_rows_pass(void **state)
{
    struct counts all = {0};
    char *there = golden_path("chat");

    if (there == NULL) {
        print_message("the golden folder is not there (PAWL_GOLDEN, or ../shared/golden beside the checkout): skipped\n");
        skip();
    }
    free(there);
    print_message("%-60s %5s %5s %6s %7s %5s\n", "template", "rows", "same", "errors", "lenient", "wrong");
    check_folder("chat", &all);
    check_folder("chat_clock", &all);
    print_message("%-60s %5zu %5zu %6zu %7zu %5zu\n", "all", all.rows, all.same, all.raised, all.lenient, all.bad);
    assert_true(all.rows > 0);
    assert_int_equal(all.bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows_pass)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
