#include "ckpt/pack.h"

#include "ckpt/fileio.h"

#include <fcntl.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP 16 /* zlib's flag: a member of a gzip file rather than a bare stream */
#define ROOM (PACK_BLOCK + PACK_BLOCK / 1024 + 64) /* for a block that can't be made smaller, and a member's head and tail */
#define LEVEL 1 /* of tokens 54% go at 60 MB/s; level 6 takes 58% at 8 MB/s */

/* --- one block */

/* *n: bytes that came of it, at most ROOM. */
static enum pawl_status pack_block(uint8_t *out, size_t *n, const uint8_t *data, size_t len, struct err *err)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)len, .next_out = out, .avail_out = ROOM};
    int rc;

    if (deflateInit2(&z, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK) return err_set(err, PAWL_EIO, "zlib: %s", z.msg ? z.msg : "no memory");
    rc = deflate(&z, Z_FINISH);
    *n = z.total_out;
    deflateEnd(&z);
    return rc == Z_STREAM_END ? PAWL_OK : err_set(err, PAWL_EIO, "zlib: a block cannot be packed (%d)", rc);
}

/* *used: bytes of data that the block took; *n: those that came of them, at most PACK_BLOCK. */
static enum pawl_status unpack_block(uint8_t *out, size_t *n, const uint8_t *data, size_t len, size_t *used, struct err *err)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)(len < ROOM ? len : ROOM), .next_out = out, .avail_out = PACK_BLOCK};
    int rc;

    if (inflateInit2(&z, MAX_WBITS + GZIP) != Z_OK) return err_set(err, PAWL_EIO, "zlib: %s", z.msg ? z.msg : "no memory");
    rc = inflate(&z, Z_FINISH);
    *n = z.total_out;
    *used = z.total_in;
    inflateEnd(&z);
    return rc == Z_STREAM_END ? PAWL_OK : err_set(err, PAWL_EFORMAT, "a packed block is damaged or cut short");
}

/* --- all of them */

enum pawl_status pack_file(const char *to, const void *data, size_t len, bool (*time_is_up)(const void *ctx), const void *ctx, uint64_t *packed, struct err *err)
{
    uint8_t *block;
    size_t n = 0;
    int fd;
    enum pawl_status st = fd_open(&fd, &fsys_real, to, O_WRONLY | O_CREAT | O_TRUNC, err);

    if (st != PAWL_OK) return st;
    *packed = 0;
    block = xmalloc(ROOM);
    for (size_t at = 0; at < len && st == PAWL_OK; at += PACK_BLOCK) {
        if (time_is_up(ctx)) st = err_set(err, PAWL_EIO, "%s: the time was up while it was packed", to);
        else st = pack_block(block, &n, (const uint8_t *)data + at, len - at < PACK_BLOCK ? len - at : PACK_BLOCK, err);
        if (st == PAWL_OK) st = fd_write(&fsys_real, fd, block, n, to, err);
        *packed += n;
    }
    fsys_real.close(fd);
    free(block);
    return st;
}

/* Where unpacked blocks go: a file, or memory. */
struct sink {
    int fd;
    const char *path;
    struct buf *text; /* NULL: the file */
};

static enum pawl_status unpack(const struct sink *to, const uint8_t *data, size_t len, uint64_t bytes, struct err *err)
{
    uint8_t *block = xmalloc(PACK_BLOCK);
    uint64_t sum = 0;
    enum pawl_status st = PAWL_OK;

    for (size_t at = 0, used = 0, n = 0; at < len && st == PAWL_OK && sum <= bytes; at += used) {
        if ((st = unpack_block(block, &n, data + at, len - at, &used, err)) != PAWL_OK) break;
        sum += n;
        if (to->text) buf_add(to->text, block, n);
        else st = fd_write(&fsys_real, to->fd, block, n, to->path, err);
    }
    free(block);
    if (st == PAWL_OK && sum != bytes) st = err_set(err, PAWL_EFORMAT, "packed are %s than %llu bytes", sum > bytes ? "more" : "fewer", (unsigned long long)bytes);
    return st;
}

enum pawl_status unpack_file(const char *to, const char *from, uint64_t bytes, struct err *err)
{
    struct sink out = {.path = to};
    struct map m;
    enum pawl_status st = map_open(&m, from, err);

    if (st != PAWL_OK) return st;
    if ((st = fd_open(&out.fd, &fsys_real, to, O_WRONLY | O_CREAT | O_TRUNC, err)) == PAWL_OK) {
        st = unpack(&out, m.data, m.size, bytes, err);
        fsys_real.close(out.fd);
    }
    map_close(&m);
    return st;
}

enum pawl_status unpack_text(struct buf *out, const void *data, size_t len, uint64_t bytes, struct err *err)
{
    struct sink to = {.text = out};

    return unpack(&to, data, len, bytes, err);
}
