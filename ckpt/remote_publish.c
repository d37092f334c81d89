/* Publishing: what is new is uploaded under names of its own, then the manifest; what nobody needs any more goes after that was read back. */
#include "ckpt/remote_internal.h"

#include "ckpt/checkpoint.h"
#include "ckpt/pack.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A part of a growing file that is this long is left alone; a shorter last one is uploaded anew with what was added. */
#define PART_BYTES (1u << 20)

/* --- names that stay */

static struct assigned *find_assigned(struct remote *r, const char *name, uint64_t at, struct file_sum sum, bool packs)
{
    for (size_t i = 0; i < r->n_assigned; i++) {
        struct assigned *a = &r->assigned[i];

        if (a->at == at && a->packs == packs && a->part.sum.bytes == sum.bytes && a->part.sum.crc == sum.crc && !strcmp(a->name, name)) return a;
    }
    return NULL;
}

/* The object for these bytes: the name that an earlier attempt gave them, or a new one. */
static const char *assign(struct remote *r, const char *name, uint64_t at, struct file_sum sum, bool packs)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    struct assigned *a = find_assigned(r, name, at, sum, packs);
    char *object;

    if (a) return a->part.object;
    object = xasprintf(OBJECTS "%s/g%010" PRIu64 "-%s/%06" PRId64 "-%.80s%s", r->run_id, r->generation, r->token, ++r->count, base, packs ? ".gz" : "");
    for (char *p = strrchr(object, '/') + 1; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p)) *p = '_';
    r->assigned = xreallocarray(r->assigned, r->n_assigned + 1, sizeof *r->assigned);
    a = &r->assigned[r->n_assigned++];
    *a = (struct assigned){xstrdup(name), at, packs, {object, sum, 0}};
    return a->part.object;
}

static void forget_assigned(struct remote *r)
{
    for (size_t i = 0; i < r->n_assigned; i++) free(r->assigned[i].name), free(r->assigned[i].part.object);
    free(r->assigned);
    r->assigned = NULL;
    r->n_assigned = 0;
}

void remote_build_on(struct remote *r, struct remote_state *s)
{
    remote_state_free(r->base);
    r->base = s;
}

/* --- one state in the making */

struct making {
    struct remote *r;
    const char *scratch;
    char *stage;         /* scratch/objects: what rclone copies */
    struct buf manifest;
    uint64_t bytes;      /* of what is new */
    bool first_part;
};

static void add_part(struct making *m, const char *object, struct file_sum sum, uint64_t packed)
{
    buf_addf(&m->manifest, "%s{\"object\": \"%s\", \"bytes\": %" PRIu64 ", \"crc32\": \"%08x\"", m->first_part ? "" : ", ", object, sum.bytes, sum.crc);
    if (packed) buf_addf(&m->manifest, ", \"packed\": %" PRIu64, packed);
    buf_addc(&m->manifest, '}');
    m->first_part = false;
}

static char *staged(const struct making *m, const char *object)
{
    return xasprintf("%s/%s", m->stage, strrchr(object, '/') + 1);
}

/* A whole file is linked to, not copied. */
static enum pawl_status stage_link(struct making *m, const char *object, const char *path, struct err *err)
{
    char *to = staged(m, object), *real = realpath(path, NULL);
    enum pawl_status st = PAWL_OK;

    if (!real || symlink(real, to) != 0) st = err_sys(err, "%s: cannot be linked to for the upload", path);
    free(real);
    free(to);
    return st;
}

static bool time_is_up(const void *making)
{
    return rclone_time_is_up(&((const struct making *)making)->r->rclone);
}

/* New bytes of a file, as they are or packed. On failure nothing of them stays. */
static enum pawl_status stage_bytes(struct making *m, const struct remote_source *s, uint64_t at, const void *data, size_t len, struct err *err)
{
    struct file_sum sum = {0};
    const char *object;
    uint64_t packed = 0;
    char *to;
    enum pawl_status st;

    file_sum_add(&sum, data, len);
    object = assign(m->r, s->name, at, sum, s->packs);
    to = staged(m, object);
    st = s->packs ? pack_file(to, data, len, time_is_up, m, &packed, err) : scratch_file(to, data, len, err);
    if (st == PAWL_OK) {
        add_part(m, object, sum, packed);
        m->bytes += packed ? packed : sum.bytes;
    } else {
        file_remove_tree(&fsys_real, to, NULL);
    }
    free(to);
    return st;
}

/* The object of a state before that holds the whole file, or NULL. */
static const struct remote_part *same_as_before(const struct remote_state *before, const char *name, struct file_sum sum)
{
    const struct remote_file *f = before ? remote_find(before, name) : NULL;

    return f && f->n == 1 && f->parts[0].sum.bytes == sum.bytes && f->parts[0].sum.crc == sum.crc ? &f->parts[0] : NULL;
}

/* Of a file that stays as it is once a process: it may be large. */
static enum pawl_status sum_of(struct making *m, struct file_sum *sum, const struct remote_source *s, struct err *err)
{
    struct remote *r = m->r;
    struct map map;
    enum pawl_status st;

    if (!s->stays) return file_sum_read(sum, &fsys_real, s->path, false, err);
    if ((st = map_open(&map, s->path, err)) != PAWL_OK) return st;
    for (size_t i = 0; i < r->n_known; i++)
        if (!strcmp(r->known[i].name, s->name) && r->known[i].sum.bytes == map.size) {
            *sum = r->known[i].sum;
            goto done;
        }
    *sum = (struct file_sum){0};
    while (sum->bytes < map.size && !time_is_up(m)) file_sum_add(sum, map.data + sum->bytes, map.size - sum->bytes < PACK_BLOCK ? map.size - sum->bytes : PACK_BLOCK);
    if (sum->bytes < map.size) {
        st = err_set(err, PAWL_EIO, "%s: the time was up while it was read", s->path);
        goto done;
    }
    r->known = xreallocarray(r->known, r->n_known + 1, sizeof *r->known);
    r->known[r->n_known++] = (struct known){xstrdup(s->name), *sum};
done:
    map_close(&map);
    return st;
}

static enum pawl_status stage_packed(struct making *m, const struct remote_source *s, struct err *err)
{
    struct map map = {0};
    enum pawl_status st = map_open(&map, s->path, err);

    if (st == PAWL_OK) st = stage_bytes(m, s, 0, map.data, map.size, err);
    map_close(&map);
    return st;
}

static enum pawl_status add_whole(struct making *m, const struct remote_source *s, struct err *err)
{
    const struct remote_part *before;
    struct file_sum sum;
    const char *object;
    enum pawl_status st;

    if ((st = sum_of(m, &sum, s, err)) != PAWL_OK) return st;
    if ((before = same_as_before(m->r->base, s->name, sum)) || (before = same_as_before(m->r->before, s->name, sum))) {
        add_part(m, before->object, before->sum, before->packed);
        return PAWL_OK;
    }
    if (s->packs && sum.bytes) {
        if ((st = stage_packed(m, s, err)) == PAWL_OK || time_is_up(m)) return st;
        log_debug("%s: travels as it is: %s", s->path, err ? err->text : "it could not be packed"); /* a link to it needs no room on the disk */
    }
    object = assign(m->r, s->name, 0, sum, false);
    m->bytes += sum.bytes;
    add_part(m, object, sum, 0);
    return stage_link(m, object, s->path, err);
}

/* The parts before that still hold what the file begins with, then the rest of it, up to its last whole line. */
static enum pawl_status add_growing(struct making *m, const struct remote_source *s, struct err *err)
{
    const struct remote_file *before = m->r->base ? remote_find(m->r->base, s->name) : NULL;
    const uint8_t *newline;
    struct map map;
    uint64_t at = 0, end;
    enum pawl_status st = map_open(&map, s->path, err);

    if (st != PAWL_OK) return st;
    newline = map.size ? memrchr(map.data, '\n', map.size) : NULL;
    end = newline ? (uint64_t)(newline - map.data) + 1 : 0;
    for (size_t i = 0; before && i < before->n; i++) {
        const struct remote_part *p = &before->parts[i];
        struct file_sum sum = {0};

        if (p->sum.bytes > end - at) break;
        file_sum_add(&sum, map.data + at, p->sum.bytes);
        if (sum.crc != p->sum.crc || (p->sum.bytes < PART_BYTES && at + p->sum.bytes < end)) break;
        add_part(m, p->object, p->sum, p->packed);
        at += p->sum.bytes;
    }
    if (at < end) st = stage_bytes(m, s, at, map.data + at, end - at, err);
    map_close(&map);
    return st;
}

static enum pawl_status make(struct making *m, struct journal_at at, const char *head, const char *state, const struct remote_source *files, size_t n, struct err *err)
{
    struct timespec wall;
    enum pawl_status st = scratch_dir(m->scratch, err);

    if (st == PAWL_OK) st = scratch_dir(m->stage, err);
    clock_gettime(CLOCK_REALTIME, &wall);
    buf_addf(&m->manifest, "{\n \"format_version\": %d,\n \"run_id\": \"%s\",\n \"generation\": %" PRIu64 ",\n \"step\": %" PRId64 ",\n \"row\": %" PRId64 ",\n \"time\": %lld.%03ld,\n",
             REMOTE_FORMAT_VERSION, m->r->run_id, at.generation, at.step, at.row, (long long)wall.tv_sec, wall.tv_nsec / 1000000);
    buf_addf(&m->manifest, " \"head\": \"%s\",\n \"files\": [", head);
    for (size_t i = 0; i < n && st == PAWL_OK; i++) {
        buf_adds(&m->manifest, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        json_add_string(&m->manifest, files[i].name, strlen(files[i].name));
        buf_adds(&m->manifest, ", \"parts\": [");
        m->first_part = true;
        st = files[i].grows ? add_growing(m, &files[i], err) : add_whole(m, &files[i], err);
        buf_adds(&m->manifest, "]}");
    }
    buf_addf(&m->manifest, "\n ],\n \"state\": %s", state);
    manifest_seal(&m->manifest, 0);
    return st;
}

/* --- making it real */

static enum pawl_status upload(struct making *m, struct err *err)
{
    struct remote *r = m->r;
    char *below = xasprintf(OBJECTS "%s/g%010" PRIu64 "-%s", r->run_id, r->generation, r->token), *path = remote_path(r, below);
    enum pawl_status st = m->bytes ? rclone_put(&r->rclone, m->stage, path, m->bytes, err) : PAWL_OK;

    free(below);
    free(path);
    return st;
}

static enum pawl_status put_manifest(struct making *m, const char *name, struct err *err)
{
    char *file = xasprintf("%s/manifest", m->scratch), *path = remote_path(m->r, name);
    enum pawl_status st = scratch_file(file, m->manifest.data, m->manifest.len, err);

    if (st == PAWL_OK) st = rclone_put_file(&m->r->rclone, file, path, err);
    free(file);
    free(path);
    return st;
}

static uint64_t generation_of_object(const char *name, const char *run_id)
{
    unsigned long long g = 0;
    char run[17];

    return sscanf(name, OBJECTS "%16[0-9a-f]/g%10llu", run, &g) == 2 && !strcmp(run, run_id) ? g : 0;
}

static bool needs(const struct remote_state *s, const char *object)
{
    for (size_t i = 0; s && i < s->n; i++)
        for (size_t k = 0; k < s->files[i].n; k++)
            if (!strcmp(s->files[i].parts[k].object, object)) return true;
    return false;
}

static enum pawl_status delete_all(struct remote *r, const struct buf *names, const char *scratch, struct err *err)
{
    char *list = xasprintf("%s.list", scratch);
    enum pawl_status st = names->len ? scratch_file(list, names->data, names->len, err) : PAWL_OK;

    if (names->len && st == PAWL_OK) st = rclone_delete(&r->rclone, r->root, list, err);
    file_remove_tree(&fsys_real, list, NULL);
    free(list);
    return st;
}

/* R3: what this run's own past left behind, up to this generation; the two newest states stay, two that differ in more than records. What can't be removed now goes the next
 * time. */
static void clear(struct remote *r, const struct listing *l, const struct remote_state *now, const struct remote_state *before, const char *scratch)
{
    struct remote_index x;
    struct buf index = {0}, objects = {0};
    struct err failed;

    remote_index_of(l, &x);
    for (size_t i = 0; i < x.n; i++) {
        const struct remote_entry *e = &x.items[i];
        bool stays = !strcmp(e->name, now->name) || !strcmp(e->name, before->name) || strcmp(e->run_id, r->run_id) || e->at.generation > r->generation;

        if (e->claim) stays |= e->at.generation == r->generation;
        if (!stays) buf_addf(&index, "%s\n", e->name);
    }
    for (size_t i = 0; i < l->n; i++) {
        uint64_t g = generation_of_object(l->items[i].name, r->run_id);

        if (g && g <= r->generation && !needs(now, l->items[i].name) && !needs(before, l->items[i].name)) buf_addf(&objects, "%s\n", l->items[i].name);
    }
    if (delete_all(r, &index, scratch, &failed) != PAWL_OK || delete_all(r, &objects, scratch, &failed) != PAWL_OK) log_debug("%s: old states stay for now: %s", r->root, failed.text);
    remote_index_free(&x);
    buf_free(&index);
    buf_free(&objects);
}

/* From the upload of the manifest on. */
static enum pawl_status commit(struct making *m, const char *name, struct err *err)
{
    struct remote *r = m->r;
    struct remote_state *back = NULL;
    struct remote_index x = {0};
    struct listing l = {0};
    enum pawl_status st;

    if ((st = put_manifest(m, name, err)) != PAWL_OK || (st = remote_read(r, name, &back, err)) != PAWL_OK) goto done;
    if ((st = remote_listing(r, &l, NULL, err)) != PAWL_OK) goto done;
    if (!remote_all_there(&l, back)) {
        if (err) *err = back->why;
        st = back->why.status;
        goto done;
    }
    remote_index_of(&l, &x);
    if ((st = remote_fence(r, &x, err)) != PAWL_OK) goto done;
    if (r->base && journal_order(r->base->at, back->at)) {
        remote_state_free(r->before);
        r->before = r->base;
        r->base = NULL;
    }
    if (r->before) clear(r, &l, back, r->before, m->scratch);
    remote_build_on(r, back);
    back = NULL;
    forget_assigned(r);
done:
    remote_state_free(back);
    remote_index_free(&x);
    listing_free(&l);
    return st;
}

enum pawl_status remote_publish(struct remote *r, struct journal_at at, const char *head, const char *state, const struct remote_source *files, size_t n, const char *scratch,
                                struct remote_published *done, struct err *err)
{
    struct making m = {.r = r, .scratch = scratch, .stage = xasprintf("%s/objects", scratch)};
    char *name = xasprintf(INDEX "g%010" PRIu64 "-%s-%s-s%012" PRId64 "-r%08" PRId64 "-%" PRId64 ".manifest", r->generation, r->run_id, r->token, at.step, at.row, ++r->count);
    double begin = clock_seconds();
    enum pawl_status st;

    assert(r->generation);
    file_remove_tree(&fsys_real, scratch, NULL);
    /* A look first: what is made may take long, and is for nothing where the remote does not answer. */
    if ((st = remote_look_and_fence(r, err)) != PAWL_OK || (st = make(&m, at, head, state, files, n, err)) != PAWL_OK) goto done;
    if ((st = upload(&m, err)) != PAWL_OK || (st = remote_look_and_fence(r, err)) != PAWL_OK || (st = commit(&m, name, err)) != PAWL_OK) goto done;
    *done = (struct remote_published){m.bytes, clock_seconds() - begin};
done:
    if (st != PAWL_OK && st != PAWL_ELOCKED) err_prefix(err, "%s", r->root);
    file_remove_tree(&fsys_real, scratch, NULL);
    buf_free(&m.manifest);
    free(m.stage);
    free(name);
    return st;
}

/* --- by a person */

enum pawl_status remote_prune(struct remote *r, size_t keep, bool dry_run, const char *scratch, size_t *removed, struct err *err)
{
    struct remote_index x = {0};
    struct listing l = {0};
    struct buf index = {0}, objects = {0};
    struct remote_state **kept = NULL;
    size_t n_kept = 0;
    enum pawl_status st;

    *removed = 0;
    if ((st = remote_listing(r, &l, NULL, err)) != PAWL_OK) goto done;
    remote_index_of(&l, &x);
    kept = xcalloc(x.n + 1, sizeof *kept);
    for (size_t i = 0; i < x.n; i++) {
        size_t newer = 0;

        if (x.items[i].claim) continue;
        for (size_t k = 0; k < i; k++) newer += !x.items[k].claim && !strcmp(x.items[k].run_id, x.items[i].run_id);
        if (newer >= keep) {
            buf_addf(&index, "%s\n", x.items[i].name);
            ++*removed;
            continue;
        }
        if ((st = remote_read(r, x.items[i].name, &kept[n_kept], err)) != PAWL_OK) goto done;
        /* What a manifest that can't be read needs is not known. */
        if (kept[n_kept++]->why.status != PAWL_OK) {
            st = err_set(err, PAWL_EFORMAT, "%s: %s: nothing is removed while a manifest cannot be read: delete it by `rclone deletefile %s/%s` first", r->root, kept[n_kept - 1]->why.text,
                         r->root, x.items[i].name);
            goto done;
        }
    }
    for (size_t i = 0; i < l.n; i++) {
        bool needed = strncmp(l.items[i].name, OBJECTS, strlen(OBJECTS)) != 0;

        for (size_t k = 0; k < n_kept && !needed; k++) needed = needs(kept[k], l.items[i].name);
        if (!needed) buf_addf(&objects, "%s\n", l.items[i].name);
    }
    if (!dry_run && (st = delete_all(r, &index, scratch, err)) == PAWL_OK) st = delete_all(r, &objects, scratch, err);
done:
    for (size_t k = 0; k < n_kept; k++) remote_state_free(kept[k]);
    free(kept);
    remote_index_free(&x);
    listing_free(&l);
    buf_free(&index);
    buf_free(&objects);
    return st == PAWL_OK ? st : err_prefix(err, "%s", r->root);
}
