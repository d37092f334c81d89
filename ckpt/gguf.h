/* GGUF files, versions 2 and 3, little-endian: mapped read-only and checked as a whole when opened, so that nothing that is looked up later can be out of
 * bounds. Format: ggml/docs/gguf.md of ggml-org/ggml.
 *
 * A file without tensors (vocabulary only) is fine. Nested arrays are refused. Keys and tensor names are unique, NUL-free, and NUL-terminated here. */
#ifndef PAWL_CKPT_GGUF_H
#define PAWL_CKPT_GGUF_H

#include "ckpt/tensor.h"
#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are the file's. */
enum gguf_type {
    GGUF_U8 = 0, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
    GGUF_TYPES
};

/* Bytes in the mapped file: not NUL-terminated, may hold NUL, need not be UTF-8. */
struct gguf_string {
    const char *data;
    size_t len;
};

/* One key with its value. Scalars are arrays of one element. */
struct gguf_value {
    const char *key;
    enum gguf_type type;               /* of the elements, never GGUF_ARRAY */
    bool is_array;
    size_t count;                      /* elements; 1 for a scalar */
    const struct gguf_string *strings; /* count strings where type is GGUF_STRING, else NULL */
    const uint8_t *raw;                /* elements as they lie in the file, any alignment: read by gguf_int_at and gguf_float_at */
};

struct gguf;

enum pawl_status gguf_open(struct gguf **out, const char *path, struct err *err);
void gguf_close(struct gguf *g); /* NULL is allowed */
const char *gguf_path(const struct gguf *g);

/* Metadata in file order; gguf_find gives NULL where there is no such key. */
size_t gguf_value_count(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i);
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

/* Scalars by key: false, and *out as it was, where the key is absent, an array, of another kind, or (unsigned) beyond int64. Any integer width and bool are
 * an int; floats and integers are a float. */
bool gguf_int(const struct gguf *g, const char *key, int64_t *out);
bool gguf_float(const struct gguf *g, const char *key, double *out);
bool gguf_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_text(const struct gguf *g, const char *key, struct gguf_string *out);

/* An array by key whose elements are of the kind asked for, else NULL. ints: any integer width or bool; floats: f32 or f64. */
const struct gguf_value *gguf_strings(const struct gguf *g, const char *key);
const struct gguf_value *gguf_ints(const struct gguf *g, const char *key);
const struct gguf_value *gguf_floats(const struct gguf *g, const char *key);

/* Element i (asserted to be in range) of a value of integers, bools or floats; an unsigned integer beyond int64 is INT64_MAX. */
int64_t gguf_int_at(const struct gguf_value *v, size_t i);
double gguf_float_at(const struct gguf_value *v, size_t i);

/* Tensors in file order. shape is row-major: ggml's ne is (ne0 = contiguous, ne1, ...), here it is reversed, so a linear layer is (N, K) = (out, in) and
 * ne0 = K = shape[rank - 1]. Blocks run along the last dimension, which is a multiple of the block's elements. */
size_t gguf_tensor_count(const struct gguf *g);
const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL if absent */

#endif
