/* A small bounded JSON reader, and the escapes a writer needs.
 *
 * Values are an immutable tree in one block of memory owned by struct json. Key order is kept, a key that stands twice keeps its last value at its first
 * place (as Python has it), integers of any size are kept as their text, integer and float are told apart, \u surrogate pairs are joined (a lone one is an error).
 * Strings are UTF-8, checked, and may hold NUL (len counts). Depth is bounded by JSON_MAX_DEPTH. RFC 8259. */
#ifndef PAWL_BASE_JSON_H
#define PAWL_BASE_JSON_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 512

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_FLOAT, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    enum json_type type;
    bool boolean;
    size_t len;           /* bytes of text; members of an array or object */
    const char *text;     /* string (unescaped, NUL-terminated), or a number as it was written */
    double number;        /* int and float; an int beyond 2^53 is rounded here and exact in text */
    struct json_value *items;            /* array and object values */
    const struct json_value *keys;       /* object: len strings */
};

struct json; /* owns the tree */

/* Parses exactly one value with nothing but white space around it. The text is not needed afterwards. The error names byte offset, line and column. */
enum pawl_status json_parse(struct json **out, const char *text, size_t len, struct err *err);
/* The same for a whole file; the error is prefixed by its path. */
enum pawl_status json_parse_file(struct json **out, const char *path, struct err *err);
const struct json_value *json_root(const struct json *j);
void json_free(struct json *j); /* NULL is allowed */

/* Look-ups that tolerate anything: NULL where v is NULL, of another type, or has no such member. */
const struct json_value *json_get(const struct json_value *v, const char *key);
const struct json_value *json_at(const struct json_value *v, size_t i);
const char *json_string(const struct json_value *v, const char *fallback); /* fallback unless a string */
double json_number(const struct json_value *v, double fallback);
bool json_bool(const struct json_value *v, bool fallback);
/* "a string", "an array", "a number"; "nothing" for NULL: for messages that say what was found. */
const char *json_kind(const struct json_value *v);
bool json_int64(const struct json_value *v, int64_t *out); /* false unless an integer that fits */

/* Adds s as a JSON string with quotes; control characters escaped, everything else as it is. */
void json_add_string(struct buf *b, const char *s, size_t len);
/* The shortest of %.17g spellings that reads back as x, as a JSON number; null for NaN and Inf. */
void json_add_double(struct buf *b, double x);
/* Adds the value as compact JSON. */
void json_add_value(struct buf *b, const struct json_value *v);

#endif
