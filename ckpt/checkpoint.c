#include "ckpt/checkpoint.h"

#include "ckpt/tensor.h"
#include "kernels/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_MANIFEST_BYTES (64u << 20)

/* The end of every manifest: the CRC32 of what is before it. */
#define TAIL_FORMAT ",\n \"crc32\": \"%08x\"\n}\n"
#define TAIL_BYTES 25

/* --- the manifest */

void manifest_seal(struct buf *out, size_t start)
{
    struct file_sum sum = {0};

    file_sum_add(&sum, out->data + start, out->len - start);
    buf_addf(out, TAIL_FORMAT, sum.crc);
}

void ckpt_manifest_text(struct buf *out, const char *run_id, uint64_t generation, int64_t step, const struct ckpt_file *files, size_t n, const char *state)
{
    size_t start = out->len;

    buf_addf(out, "{\n \"format_version\": %d,\n \"run_id\": \"%s\",\n \"generation\": %llu,\n \"step\": %lld,\n \"files\": [", CKPT_FORMAT_VERSION, run_id,
             (unsigned long long)generation, (long long)step);
    for (size_t i = 0; i < n; i++) {
        buf_adds(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        json_add_string(out, files[i].name, strlen(files[i].name));
        buf_addf(out, ", \"bytes\": %llu, \"crc32\": \"%08x\"}", (unsigned long long)files[i].sum.bytes, files[i].sum.crc);
    }
    buf_addf(out, "\n ],\n \"state\": %s", state);
    manifest_seal(out, start);
}

enum pawl_status manifest_check(const char *path, const struct buf *text, struct err *err)
{
    struct file_sum sum = {0};
    char tail[TAIL_BYTES + 1];

    if (text->len >= TAIL_BYTES) {
        file_sum_add(&sum, text->data, text->len - TAIL_BYTES);
        snprintf(tail, sizeof tail, TAIL_FORMAT, sum.crc);
        if (!memcmp(tail, text->data + text->len - TAIL_BYTES, TAIL_BYTES)) return PAWL_OK;
    }
    return err_set(err, PAWL_EFORMAT, "%s: does not end with the CRC32 of its %zu bytes: damaged or cut short", path, text->len);
}

static bool hex32(const char *text, uint32_t *out)
{
    char *end;

    if (strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8) return false;
    *out = (uint32_t)strtoul(text, &end, 16);
    return true;
}

static bool take_file(struct ckpt_file *f, const struct json_value *v)
{
    const struct json_value *name = json_get(v, "name");
    int64_t bytes;

    f->name = json_string(name, "");
    if (!tensor_name_ok(f->name, name ? name->len : 0) || strchr(f->name, '/') || f->name[0] == '.') return false;
    if (!json_int64(json_get(v, "bytes"), &bytes) || bytes < 0) return false;
    f->sum.bytes = (uint64_t)bytes;
    return hex32(json_string(json_get(v, "crc32"), ""), &f->sum.crc);
}

/* The members that every version has, then those of this one. */
static enum pawl_status take_manifest(struct ckpt *c, const struct json_value *root, const char *path, struct err *err)
{
    const struct json_value *files = json_get(root, "files");
    int64_t generation, step, version;

    if (!json_int64(json_get(root, "format_version"), &version) || version < 1 || !json_int64(json_get(root, "generation"), &generation) || generation < 1 ||
        !json_int64(json_get(root, "step"), &step) || step < 0)
        return err_set(err, PAWL_EFORMAT, "%s: has no format_version, generation and step: not a manifest of pawl", path);
    c->format_version = version;
    c->generation = (uint64_t)generation;
    c->step = step;
    c->run_id = json_string(json_get(root, "run_id"), "");
    if (version > CKPT_FORMAT_VERSION)
        return err_set(err, PAWL_EFORMAT, "%s: format_version %lld, this program reads up to %d: use a newer pawl", path, (long long)version, CKPT_FORMAT_VERSION);
    c->state = json_get(root, "state");
    if (!c->state || c->state->type != JSON_OBJECT || !files || files->type != JSON_ARRAY)
        return err_set(err, PAWL_EFORMAT, "%s: has no list of files or no state: not a manifest of pawl", path);
    c->files = xcalloc(files->len, sizeof *c->files);
    for (; c->n_files < files->len; c->n_files++)
        if (!take_file(&c->files[c->n_files], json_at(files, c->n_files)))
            return err_set(err, PAWL_EFORMAT, "%s: file %zu has no plain name, bytes and crc32", path, c->n_files);
    return PAWL_OK;
}

static enum pawl_status check_size(const struct ckpt *c, const struct ckpt_file *f, struct err *err)
{
    struct stat info;
    char *path = xasprintf("%s/%s", c->path, f->name);
    enum pawl_status st = PAWL_OK;

    if (stat(path, &info) != 0) st = err_sys(err, "%s: cannot be examined", path);
    else if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != f->sum.bytes)
        st = err_set(err, PAWL_EFORMAT, "%s: %lld bytes, the manifest says %llu: damaged or cut short", path, (long long)info.st_size, (unsigned long long)f->sum.bytes);
    free(path);
    return st;
}

struct ckpt *ckpt_read(const char *dir)
{
    struct ckpt *c = xcalloc(1, sizeof *c);
    char *path = xasprintf("%s/" CKPT_MANIFEST, dir);
    const char *slash = strrchr(dir, '/');
    struct buf text = {0};

    c->path = xstrdup(dir);
    c->name = xstrdup(slash ? slash + 1 : dir);
    c->run_id = "";
    if (!ckpt_name_step(c->name, &c->step)) c->step = -1;
    if (!file_exists(path)) {
        err_set(&c->why, PAWL_EFORMAT, "%s: has no " CKPT_MANIFEST ": not a checkpoint of pawl, or not finished", dir);
        goto done;
    }
    if (file_read_all(&text, path, MAX_MANIFEST_BYTES, &c->why) != PAWL_OK || manifest_check(path, &text, &c->why) != PAWL_OK) goto done;
    if (json_parse(&c->json, text.data, text.len, &c->why) != PAWL_OK) {
        err_prefix(&c->why, "%s", path);
        goto done;
    }
    if (take_manifest(c, json_root(c->json), path, &c->why) != PAWL_OK) goto done;
    for (size_t i = 0; i < c->n_files; i++)
        if (check_size(c, &c->files[i], &c->why) != PAWL_OK) goto done;
done:
    buf_free(&text);
    free(path);
    return c;
}

void ckpt_verify(struct ckpt *c, const struct fsys *sys, bool cold)
{
    for (size_t i = 0; i < c->n_files && c->why.status == PAWL_OK; i++) {
        const struct ckpt_file *f = &c->files[i];
        char *path = xasprintf("%s/%s", c->path, f->name);
        struct file_sum sum;

        if (file_sum_read(&sum, sys, path, cold, &c->why) == PAWL_OK && (sum.bytes != f->sum.bytes || sum.crc != f->sum.crc))
            err_set(&c->why, PAWL_EFORMAT, "%s: %llu bytes with CRC32 %08x, the manifest says %llu with %08x: damaged", path, (unsigned long long)sum.bytes, sum.crc,
                    (unsigned long long)f->sum.bytes, f->sum.crc);
        free(path);
    }
    c->verified = c->why.status == PAWL_OK;
}

void ckpt_free(struct ckpt *c)
{
    if (!c) return;
    json_free(c->json);
    free(c->files);
    free(c->path);
    free(c->name);
    free(c);
}

/* --- the run directory */

/* Digits at p as a number that fits; what follows them, or NULL. */
static const char *take_digits(const char *p, int64_t *out)
{
    char *end;

    if (*p < '0' || *p > '9') return NULL;
    errno = 0;
    *out = strtoll(p, &end, 10);
    return errno ? NULL : end;
}

bool ckpt_name_step(const char *name, int64_t *step)
{
    const char *p = name;
    int64_t ignored;

    if (strncmp(p, CKPT_PREFIX, strlen(CKPT_PREFIX)) != 0 || !(p = take_digits(p + strlen(CKPT_PREFIX), step))) return false;
    if (!strncmp(p, ".gen", 4) && !(p = take_digits(p + 4, &ignored))) return false;
    if (*p == '-' && !(p = take_digits(p + 1, &ignored))) return false;
    return !*p;
}

static int newest_first(const void *a, const void *b)
{
    const struct ckpt *x = *(const struct ckpt *const *)a, *y = *(const struct ckpt *const *)b;

    if (x->generation != y->generation) return x->generation > y->generation ? -1 : 1;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return strcmp(x->name, y->name); /* of a step saved twice the later one has the plain, shorter name */
}

enum pawl_status ckpt_list(struct ckpt_list *out, const char *run_dir, struct err *err)
{
    char **names;
    size_t n;
    enum pawl_status st;

    *out = (struct ckpt_list){0};
    if (!file_exists(run_dir)) return PAWL_OK;
    if ((st = dir_list(&names, &n, run_dir, err)) != PAWL_OK) return st;
    for (size_t i = 0; i < n; i++) {
        int64_t step;
        if (!ckpt_name_step(names[i], &step)) continue;
        char *path = xasprintf("%s/%s", run_dir, names[i]);
        out->items = xreallocarray(out->items, out->n + 1, sizeof *out->items);
        out->items[out->n++] = ckpt_read(path);
        free(path);
    }
    dir_list_free(names, n);
    if (out->n) qsort(out->items, out->n, sizeof *out->items, newest_first);
    return PAWL_OK;
}

void ckpt_list_free(struct ckpt_list *l)
{
    for (size_t i = 0; i < l->n; i++) ckpt_free(l->items[i]);
    free(l->items);
    *l = (struct ckpt_list){0};
}

enum pawl_status ckpt_newest(struct ckpt **out, size_t *skipped, const char *run_dir, struct err *err)
{
    struct ckpt_list list;
    size_t count = 0;
    enum pawl_status st = ckpt_list(&list, run_dir, err);

    *out = NULL;
    for (size_t i = 0; i < list.n && st == PAWL_OK; i++)
        if (list.items[i]->format_version > CKPT_FORMAT_VERSION) st = err_set(err, PAWL_EFORMAT, "%s", list.items[i]->why.text);
    for (size_t i = 0; i < list.n && st == PAWL_OK; i++) {
        struct ckpt *c = list.items[i];
        if (*out && c->generation) continue; /* older than the one taken */
        if (!*out) ckpt_verify(c, &fsys_real, false);
        if (c->verified) {
            *out = c;
            list.items[i] = NULL;
        } else {
            log_warn("%s is not used: %s", c->name, c->why.text);
            count++;
        }
    }
    if (skipped) *skipped = count;
    ckpt_list_free(&list);
    return st;
}
