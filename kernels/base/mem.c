#include "kernels/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *p, size_t size)
{
    if (!p && size) {
        fprintf(stderr, "pawl: out of memory (%zu bytes asked for)\n", size);
        _Exit(1);
    }
    return p;
}

void *xmalloc(size_t size)
{
    return or_die(malloc(size ? size : 1), size);
}

void *xcalloc(size_t n, size_t size)
{
    return or_die(calloc(n ? n : 1, size ? size : 1), size);
}

void *xrealloc(void *p, size_t size)
{
    return or_die(realloc(p, size ? size : 1), size);
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size) return or_die(NULL, SIZE_MAX);
    return xrealloc(p, n * size);
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
    char *p = xmalloc(n + 1);

    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *xasprintf(const char *fmt, ...)
{
    char *p = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&p, fmt, ap) < 0) p = NULL;
    va_end(ap);
    return or_die(p, 1);
}

static void buf_reserve(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;

    if (need <= b->cap) return;
    b->cap = need > b->cap * 2 ? need : b->cap * 2;
    b->data = xrealloc(b->data, b->cap);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        buf_reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}
