#include "ckpt/jsonl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct jsonl {
    const struct fsys *sys;
    char *path;
    int fd;
    int64_t offset;
    bool broken; /* a write or a sync failed: the file must be written anew */
};

/* The end of the last complete line of a file of size bytes. */
static enum pawl_status find_end(struct jsonl *j, int64_t size, struct err *err)
{
    char chunk[4096];

    for (int64_t end = size; end > 0;) {
        int64_t start = end > (int64_t)sizeof chunk ? end - (int64_t)sizeof chunk : 0;
        enum pawl_status st = fd_pread(j->sys, j->fd, chunk, (size_t)(end - start), start, j->path, err);
        if (st != PAWL_OK) return st;
        const char *newline = memrchr(chunk, '\n', (size_t)(end - start));
        if (newline) {
            j->offset = start + (newline - chunk) + 1;
            return PAWL_OK;
        }
        end = start;
    }
    j->offset = 0;
    return PAWL_OK;
}

static enum pawl_status check_end(struct jsonl *j, int64_t size, struct err *err)
{
    char last = '\n';

    if (j->offset > size)
        return err_set(err, PAWL_EFORMAT, "%s: %lld bytes, the checkpoint was saved at %lld: lines are missing", j->path, (long long)size, (long long)j->offset);
    enum pawl_status st = j->offset ? fd_pread(j->sys, j->fd, &last, 1, j->offset - 1, j->path, err) : PAWL_OK;
    if (st != PAWL_OK) return st;
    if (last != '\n')
        return err_set(err, PAWL_EFORMAT, "%s: no line ends at byte %lld, where the checkpoint was saved: the file was changed", j->path, (long long)j->offset);
    return PAWL_OK;
}

enum pawl_status jsonl_open(struct jsonl **out, const struct fsys *sys, const char *path, int64_t offset, struct err *err)
{
    struct jsonl *j = xcalloc(1, sizeof *j);
    bool is_new = !file_exists(path);
    struct stat info = {0};
    enum pawl_status st;

    *j = (struct jsonl){.sys = sys, .path = xstrdup(path), .fd = -1, .offset = offset};
    if ((st = fd_open(&j->fd, sys, path, O_RDWR | O_CREAT, err)) != PAWL_OK) goto done;
    if (fstat(j->fd, &info) != 0) {
        st = err_sys(err, "%s: cannot be examined", path);
        goto done;
    }
    st = offset == JSONL_END ? find_end(j, info.st_size, err) : check_end(j, info.st_size, err);
    if (st != PAWL_OK) goto done;
    if (info.st_size > j->offset && (st = fd_cut(sys, j->fd, j->offset, path, err)) != PAWL_OK) goto done;
    if ((st = fd_sync(sys, j->fd, false, path, err)) != PAWL_OK) goto done;
    if (is_new) {
        char *parent = file_dirname(path);
        st = dir_sync(sys, parent, err);
        free(parent);
    }
    if (st == PAWL_OK) {
        *out = j;
        j = NULL;
    }
done:
    jsonl_close(j);
    return st;
}

/* All durable lines and the text behind them, in a new file under the old name. */
static enum pawl_status write_anew(struct jsonl *j, const struct buf *text, struct err *err)
{
    struct buf all = {0};
    enum pawl_status st;
    int fd = -1;

    char *lines = xmalloc((size_t)j->offset);
    if ((st = fd_pread(j->sys, j->fd, lines, (size_t)j->offset, 0, j->path, err)) != PAWL_OK) goto done;
    buf_add(&all, lines, (size_t)j->offset);
    buf_add(&all, text->data, text->len);
    if ((st = file_replace(j->sys, j->path, all.data, all.len, err)) != PAWL_OK) goto done;
    if ((st = fd_open(&fd, j->sys, j->path, O_RDWR, err)) != PAWL_OK) goto done;
    j->sys->close(j->fd);
    j->fd = fd;
    j->broken = false;
done:
    buf_free(&all);
    free(lines);
    return st;
}

enum pawl_status jsonl_append(struct jsonl *j, const char *line, size_t len, struct err *err)
{
    struct buf text = {0};
    enum pawl_status st;

    buf_add(&text, line, len);
    buf_addc(&text, '\n');
    if (j->broken) {
        st = write_anew(j, &text, err);
    } else {
        st = fd_pwrite(j->sys, j->fd, text.data, text.len, j->offset, j->path, err);
        if (st == PAWL_OK) st = fd_sync(j->sys, j->fd, true, j->path, err);
        j->broken = st != PAWL_OK;
    }
    if (st == PAWL_OK) j->offset += (int64_t)text.len;
    buf_free(&text);
    return st;
}

int64_t jsonl_offset(const struct jsonl *j)
{
    return j->offset;
}

void jsonl_close(struct jsonl *j)
{
    if (!j) return;
    if (j->fd >= 0) j->sys->close(j->fd);
    free(j->path);
    free(j);
}
