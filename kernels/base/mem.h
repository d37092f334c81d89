/* Host memory. The x-functions end the program with one line when the system has none left: a few bytes that
 * can't be had are not a state to recover from. Big buffers go through the size table (arena.h), which returns PAWL_ENOMEM. */
#ifndef PAWL_BASE_MEM_H
#define PAWL_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
void *xreallocarray(void *p, size_t n, size_t size); /* n * size is checked */
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A growing byte string; data is NUL-terminated once anything was added, len does not count the NUL. Zero-initialise; free with buf_free. */
struct buf {
    char *data;
    size_t len, cap;
};
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_free(struct buf *b); /* and zeroes it */

#endif
