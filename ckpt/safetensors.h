/* safetensors: one file, or a directory whose index spreads tensors over several; and a streaming writer.
 *
 * Reading maps the files and checks everything when opened: the header's size, JSON and types, that offsets cover the data without gap or overlap, and that
 * each tensor's bytes are its shape times its type. Format: README.md of huggingface/safetensors. */
#ifndef PAWL_CKPT_SAFETENSORS_H
#define PAWL_CKPT_SAFETENSORS_H

#include "ckpt/fileio.h"
#include "ckpt/tensor.h"
#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct safetensors;

/* path is a .safetensors file, a model.safetensors.index.json, or a directory that holds model.safetensors or that index. Data that lies misaligned in the file
 * is copied. */
enum pawl_status safetensors_open(struct safetensors **out, const char *path, struct err *err);
void safetensors_close(struct safetensors *s); /* NULL is allowed */
const char *safetensors_path(const struct safetensors *s); /* as it was opened */

/* All tensors, sorted by name (bytewise). */
size_t safetensors_count(const struct safetensors *s);
const struct tensor *safetensors_at(const struct safetensors *s, size_t i);
const struct tensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL if absent */

/* The value of a key of __metadata__ (of the first file that has it); NULL if absent. */
const char *safetensors_metadata(const struct safetensors *s, const char *key);

/* --- writing */

struct safetensors_writer;

struct safetensors_meta {
    const char *key, *value;
};

/* Begins a new file with the tensors declared by name, dtype, rank and shape (data and bytes are ignored on the way in; bytes is set). The array is reordered
 * as the file lays them out: by element size, largest first, otherwise as given, which keeps every one aligned. It must live until the writer is finished. */
enum pawl_status safetensors_create(struct safetensors_writer **out, const struct fsys *sys, const char *path, struct tensor *tensors, size_t n,
                                    const struct safetensors_meta *meta, size_t n_meta, struct err *err);
/* The next bytes of data, tensor after tensor in the array's order, in pieces of any size. Failures stick until the end. */
void safetensors_put(struct safetensors_writer *w, const void *data, size_t len);
/* Syncs and closes; on failure the file is removed. w is freed either way. Writing more or less than was declared is a programmer's error (asserted). */
enum pawl_status safetensors_finish(struct safetensors_writer *w, struct file_sum *sum, struct err *err);
void safetensors_abandon(struct safetensors_writer *w); /* NULL is allowed */

/* Adds what such a file begins with, for one whose data several processes write: it follows at once, tensor after tensor in the array's order. */
void safetensors_header(struct buf *out, struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta);

/* All at once: every tensor has its data. */
enum pawl_status safetensors_write(const struct fsys *sys, const char *path, struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta,
                                   struct file_sum *sum, struct err *err);

#endif
