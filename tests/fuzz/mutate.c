/* A main() for the fuzz targets where there is no libFuzzer: the seeds as they are, then changed in ways that only the number of the round decides.
 *
 *   fuzz_NAME ROUNDS SEED...      files, or directories of them
 *
 * The same rounds give the same inputs on every machine. A crash leaves the number of the round on stderr; `fuzz_NAME -ROUND SEED...` does that one alone. */
#include "kernels/base/mem.h"
#include "kernels/base/rng.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_SIZE 20000 /* of a mutated input; a seed may be longer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seeds {
    struct buf *at;
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_path(struct seeds *s, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        perror(path);
        exit(2);
    }
    if (S_ISDIR(st.st_mode)) {
        char **names = NULL;
        size_t n = 0;
        DIR *d = opendir(path);
        for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
            if (e->d_name[0] == '.') continue;
            names = xreallocarray(names, n + 1, sizeof *names);
            names[n++] = xasprintf("%s/%s", path, e->d_name);
        }
        if (d != NULL) closedir(d);
        if (n > 0) qsort(names, n, sizeof *names, by_name); /* the order of a directory is a machine's own */
        for (size_t i = 0; i < n; i++) {
            add_path(s, names[i]);
            free(names[i]);
        }
        free(names);
        return;
    }
    FILE *f = fopen(path, "rb");
    struct buf b = {0};
    char chunk[4096];
    for (size_t n; f != NULL && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buf_add(&b, chunk, n);
    if (f != NULL) fclose(f);
    buf_adds(&b, "");
    s->at = xreallocarray(s->at, s->n + 1, sizeof *s->at);
    s->at[s->n++] = b;
}

struct draws {
    struct rng_key key;
    uint32_t round, count;
};

static uint32_t draw(struct draws *d, size_t below)
{
    uint32_t w[4];

    philox4x32(w, d->key, d->round, d->count++, 0, 0);
    return below > 0 ? (uint32_t)(w[0] % below) : w[0];
}

static void splice(struct buf *b, size_t at, size_t cut, const char *with, size_t len)
{
    struct buf out = {0};

    buf_add(&out, b->data, at);
    buf_add(&out, with, len);
    buf_add(&out, b->data + at + cut, b->len - at - cut);
    buf_adds(&out, "");
    buf_free(b);
    *b = out;
}

static void mutate(struct buf *b, const struct seeds *s, struct draws *d)
{
    static const char *const pieces[] = {"\"", "{", "}", "[", "]", ":", ",", "\\u0000", "\\ud800", "null", "-1", "1e999", "18446744073709551616", "\xc3", "\xf4\x90\x80\x80", "\n", "{{", "}}", "{%", "%}",
                                         "{% for x in x %}", "loop(x)", "|", " ", "\xff\xff\xff\xff\xff\xff\xff\x7f", "- ", "&a ", "*a", "!!", "<<: "};
    size_t at = draw(d, b->len + 1), n = draw(d, 8);
    char bytes[8];

    switch (draw(d, 8)) {
    case 0: /* a bit */
        if (at < b->len) b->data[at] ^= (char)(1u << draw(d, 8));
        return;
    case 1: /* a few bytes */
        for (size_t i = 0; i < n; i++) bytes[i] = (char)draw(d, 256);
        splice(b, at, at + n <= b->len ? n : 0, bytes, n);
        return;
    case 2: /* something that means something */
        n = draw(d, sizeof pieces / sizeof *pieces);
        splice(b, at, 0, pieces[n], strlen(pieces[n]));
        return;
    case 3: /* less */
        n = draw(d, b->len - at + 1);
        splice(b, at, n, "", 0);
        return;
    case 4: { /* a part again */
        size_t from = draw(d, b->len + 1), len = draw(d, b->len - from + 1);
        struct buf copy = {0};
        if (b->len + len > MAX_SIZE) return;
        buf_add(&copy, b->data + from, len);
        splice(b, at, 0, copy.data ? copy.data : "", len);
        buf_free(&copy);
        return;
    }
    case 5: { /* a part of another seed */
        const struct buf *other = &s->at[draw(d, s->n)];
        size_t from = draw(d, other->len + 1), len = draw(d, other->len - from + 1);
        if (b->len + len <= MAX_SIZE) splice(b, at, 0, other->data + from, len);
        return;
    }
    case 6: /* a number that is another one */
        while (at < b->len && (b->data[at] < '0' || b->data[at] > '9')) at++;
        if (at < b->len) b->data[at] = (char)('0' + draw(d, 10));
        return;
    default: /* a byte */
        if (at < b->len) b->data[at] = (char)draw(d, 256);
        return;
    }
}

static void round_of(const struct seeds *s, uint32_t round)
{
    struct draws d = {.key = rng_key(20260101), .round = round};
    struct buf b = {0};
    const struct buf *seed = &s->at[draw(&d, s->n)];

    buf_add(&b, seed->data, seed->len);
    buf_adds(&b, "");
    for (uint32_t k = 1 + draw(&d, 6); k > 0; k--) mutate(&b, s, &d);
    uint8_t *exact = xmalloc(b.len + !b.len); /* so that reading beyond the end is seen */
    memcpy(exact, b.data, b.len);
    LLVMFuzzerTestOneInput(exact, b.len);
    free(exact);
    buf_free(&b);
}

int main(int argc, char **argv)
{
    struct seeds s = {0};
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

    for (int i = 2; i < argc; i++) add_path(&s, argv[i]);
    if (s.n == 0) {
        fprintf(stderr, "usage: %s ROUNDS SEED...\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < s.n && rounds >= 0; i++) LLVMFuzzerTestOneInput((const uint8_t *)s.at[i].data, s.at[i].len);
    for (long r = rounds < 0 ? -rounds - 1 : 0; r < labs(rounds); r++) {
        fprintf(stderr, "\rround %ld of %s", r + 1, argv[0]);
        round_of(&s, (uint32_t)r);
    }
    fprintf(stderr, "\n");
    for (size_t i = 0; i < s.n; i++) buf_free(&s.at[i]);
    free(s.at);
    return 0;
}
