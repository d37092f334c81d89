/* Streams records, each the text of one JSON value with its place, out of files of JSON lines or JSON arrays, plain or gzipped.
 *
 * What is held at a time is one chunk. Where chunks end depends on the files alone, never crosses a file, and a record is never longer than SOURCE_MAX_RECORD. */
#ifndef PAWL_DATA_SOURCE_H
#define PAWL_DATA_SOURCE_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"
#include "train/data/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_CHUNK (256 << 10)      /* a chunk ends with the record that reaches this many bytes */
#define SOURCE_MAX_RECORD (16 << 20)

struct source_record {
    size_t at, len; /* in the chunk's text */
    int64_t line;   /* 1-based, of its first byte */
    bool too_long;  /* longer than SOURCE_MAX_RECORD; its text is left out */
};

/* Zero-initialise, use again at will; free with source_chunk_free. */
struct source_chunk {
    int file; /* index in files */
    struct buf text;
    struct source_record *record;
    size_t n, cap;
};
void source_chunk_free(struct source_chunk *c);
/* Of the records' text and lines: what a token cache compares. */
uint64_t source_chunk_hash(const struct source_chunk *c);

struct source;

/* files must outlive the source. */
enum pawl_status source_open(struct source **out, const struct files *files, struct err *err);
void source_close(struct source *s); /* NULL is allowed */
/* The next records; c->n is 0 at the end of the last file. Blank lines and a byte order mark are skipped. */
enum pawl_status source_next(struct source *s, struct source_chunk *c, struct err *err);
/* Share of the files' bytes that was read, 0..1. */
double source_progress(const struct source *s);

#endif
