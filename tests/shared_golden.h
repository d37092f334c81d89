/* Golden rows that lie beside the project: too large, and not ours, to be committed. PAWL_GOLDEN names their folder; without it they are
 * looked for in ../shared/golden next to the checkout. Tests that need them say aloud when they are not there, and are skipped. */
#ifndef PAWL_TESTS_SHARED_GOLDEN_H
#define PAWL_TESTS_SHARED_GOLDEN_H

#include "kernels/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL where the folder is not there; otherwise malloc'ed. */
static inline char *golden_path(const char *name)
{
    const char *folder = getenv("PAWL_GOLDEN");
    char *path = folder ? xasprintf("%s/%s", folder, name) : xasprintf("%s/../../shared/golden/%s", PAWL_TESTS, name);

    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

/* The rows of a JSONL file, split at line feeds only. */
struct golden_rows {
    struct json **rows;
    size_t n;
};

static inline struct golden_rows golden_read(const char *path)
{
    struct golden_rows out = {0};
    struct buf text = {0};
    char chunk[65536];
    FILE *f = fopen(path, "rb");

    if (f == NULL) fail_msg("%s cannot be read", path);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_add(&text, chunk, n);
    fclose(f);
    for (size_t at = 0; at < text.len;) {
        const char *nl = memchr(text.data + at, '\n', text.len - at);
        size_t end = nl ? (size_t)(nl - text.data) : text.len;
        struct json *j = NULL;
        struct err err = {0};
        if (end > at) {
            if (json_parse(&j, text.data + at, end - at, &err) != PAWL_OK) fail_msg("%s: row %zu: %s", path, out.n + 1, err.text);
            out.rows = xreallocarray(out.rows, out.n + 1, sizeof *out.rows);
            out.rows[out.n++] = j;
        }
        at = end + 1;
    }
    buf_free(&text);
    return out;
}

static inline void golden_free(struct golden_rows *g)
{
    for (size_t i = 0; i < g->n; i++) json_free(g->rows[i]);
    free(g->rows);
    *g = (struct golden_rows){0};
}

#endif
