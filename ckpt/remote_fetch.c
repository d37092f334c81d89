/* Downloading: objects of a state into files of a directory, each verified before it gets its name. */
#include "ckpt/pack.h"
#include "ckpt/remote_internal.h"

#include "kernels/base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* dir/.objects/OBJECT */
static char *landed(const char *dir, const struct remote_part *p)
{
    return xasprintf("%s/.objects/%s", dir, p->object);
}

/* What landed packed, in its place as it was. */
static enum pawl_status unpack_landed(const char *path, const struct remote_part *p, struct err *err)
{
    char *whole = xasprintf("%s.whole", path);
    enum pawl_status st = unpack_file(whole, path, p->sum.bytes, err);

    if (st == PAWL_OK) st = file_move(&fsys_real, whole, path, err);
    free(whole);
    return st;
}

/* *ok: the object is there and whole. A failure is one of this machine, and says nothing about the object. */
static enum pawl_status check_part(bool *ok, const char *root, const char *dir, const struct remote_file *f, const struct remote_part *p, struct err *err)
{
    char *path = landed(dir, p);
    struct file_sum sum = {0};
    struct err failed;
    enum pawl_status st;

    *ok = false;
    if (!file_exists(path)) {
        log_warn("%s: %s: object %s is missing", root, f->name, p->object);
        st = PAWL_OK;
        goto done;
    }
    st = p->packed ? unpack_landed(path, p, &failed) : PAWL_OK;
    if (st == PAWL_EFORMAT) {
        log_warn("%s: %s: object %s is damaged: %s", root, f->name, p->object, failed.text);
        st = PAWL_OK;
        goto done;
    }
    if (st != PAWL_OK) {
        if (err) *err = failed;
        goto done;
    }
    if ((st = file_sum_read(&sum, &fsys_real, path, false, err)) != PAWL_OK) goto done;
    *ok = sum.bytes == p->sum.bytes && sum.crc == p->sum.crc;
    if (!*ok)
        log_warn("%s: %s: object %s has %llu bytes with CRC32 %08x, the manifest says %llu with %08x: damaged", root, f->name, p->object, (unsigned long long)sum.bytes, sum.crc,
                 (unsigned long long)p->sum.bytes, p->sum.crc);
done:
    free(path);
    return st;
}

static enum pawl_status append(struct file *to, const char *path, struct err *err)
{
    struct map m;
    enum pawl_status st = map_open(&m, path, err);

    if (st != PAWL_OK) return st;
    file_write(to, m.data, m.size);
    map_close(&m);
    return PAWL_OK;
}

static enum pawl_status sync_file(const char *path, struct err *err)
{
    int fd;
    enum pawl_status st = fd_open(&fd, &fsys_real, path, O_RDWR, err);

    if (st != PAWL_OK) return st;
    st = fd_sync(&fsys_real, fd, false, path, err);
    fsys_real.close(fd);
    return st;
}

/* A single part becomes the file itself, several are written one behind the other. */
static enum pawl_status assemble(const char *dir, const struct remote_file *f, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, f->name), *above = file_dirname(path), *part;
    struct file out = {0};
    enum pawl_status st = dir_make(&fsys_real, above, err);

    if (st == PAWL_OK && f->n == 1) {
        part = landed(dir, &f->parts[0]);
        if ((st = file_move(&fsys_real, part, path, err)) == PAWL_OK) st = sync_file(path, err);
        free(part);
    } else if (st == PAWL_OK && (st = file_create(&out, &fsys_real, path, err)) == PAWL_OK) {
        for (size_t i = 0; i < f->n && st == PAWL_OK; i++) {
            part = landed(dir, &f->parts[i]);
            st = append(&out, part, err);
            free(part);
        }
        if (st == PAWL_OK) st = file_close(&out, NULL, err);
        else file_abandon(&out);
    }
    if (st == PAWL_OK) st = dir_sync(&fsys_real, above, err);
    free(above);
    free(path);
    return st;
}

enum pawl_status remote_fetch(struct remote *r, const struct remote_state *s, const char *dir, bool (*want)(void *ctx, const struct remote_file *f), void *ctx, size_t *bad,
                              struct err *err)
{
    char *list = xasprintf("%s/.list", dir), *objects = xasprintf("%s/.objects", dir);
    struct buf names = {0};
    uint64_t bytes = 0;
    bool *wanted = xcalloc(s->n + 1, sizeof *wanted);
    enum pawl_status st = dir_make(&fsys_real, objects, err);

    *bad = 0;
    for (size_t i = 0; i < s->n; i++) {
        wanted[i] = !want || want(ctx, &s->files[i]);
        for (size_t k = 0; wanted[i] && k < s->files[i].n; k++) {
            buf_addf(&names, "%s\n", s->files[i].parts[k].object);
            bytes += remote_part_stored(&s->files[i].parts[k]);
        }
    }
    if (st == PAWL_OK && names.len && (st = scratch_file(list, names.data, names.len, err)) == PAWL_OK)
        if ((st = rclone_get(&r->rclone, r->root, list, objects, bytes, err)) != PAWL_OK) err_prefix(err, "%s", r->root);
    for (size_t i = 0; i < s->n && st == PAWL_OK; i++) {
        bool ok = wanted[i];

        for (size_t k = 0; k < s->files[i].n && ok && st == PAWL_OK; k++) st = check_part(&ok, r->root, dir, &s->files[i], &s->files[i].parts[k], err);
        if (st != PAWL_OK) break;
        if (ok) st = assemble(dir, &s->files[i], err);
        else *bad += wanted[i];
    }
    file_remove_tree(&fsys_real, objects, NULL);
    file_remove_tree(&fsys_real, list, NULL);
    buf_free(&names);
    free(wanted);
    free(list);
    free(objects);
    return st;
}

enum pawl_status remote_read_part(struct remote *r, const struct remote_part *p, struct buf *out, struct err *err)
{
    char *path = remote_path(r, p->object);
    struct file_sum sum = {0};
    struct buf object = {0};
    size_t start = out->len;
    enum pawl_status st = rclone_read(&r->rclone, &object, remote_part_stored(p), path, err);

    if (st != PAWL_OK) goto done;
    if (!p->packed) buf_add(out, object.data, object.len);
    else if ((st = unpack_text(out, object.data, object.len, p->sum.bytes, err)) != PAWL_OK) err_prefix(err, "%s", path);
    file_sum_add(&sum, out->data + start, out->len - start);
    if (st == PAWL_OK && (sum.bytes != p->sum.bytes || sum.crc != p->sum.crc)) st = err_set(err, PAWL_EFORMAT, "%s: does not verify: damaged", path);
    if (st != PAWL_OK) out->len = start;
done:
    buf_free(&object);
    free(path);
    return st;
}
