/* Bytes in independent zlib blocks, for links that are thin: a gzip file with a member for each PACK_BLOCK bytes, so that `gzip -dc` reads it too. The same bytes give the same
 * file on any machine with the same zlib. */
#ifndef PAWL_CKPT_PACK_H
#define PAWL_CKPT_PACK_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_BLOCK (1u << 20)

/* A new file `to` for others to read, not synced; *packed is its size. Asked before each block: where time_is_up(ctx), it fails (PAWL_EIO). What there is of the file stays on failure. */
enum pawl_status pack_file(const char *to, const void *data, size_t len, bool (*time_is_up)(const void *ctx), const void *ctx, uint64_t *packed, struct err *err);

/* What was packed into `from`, as the file `to`, not synced: PAWL_EFORMAT, without the file's name, unless its blocks are sound and hold this many bytes. */
enum pawl_status unpack_file(const char *to, const char *from, uint64_t bytes, struct err *err);
/* The same from memory, added to out. */
enum pawl_status unpack_text(struct buf *out, const void *data, size_t len, uint64_t bytes, struct err *err);

#endif
