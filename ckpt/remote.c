#include "ckpt/remote_internal.h"

#include "ckpt/checkpoint.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_MANIFEST_BYTES (64u << 20)
#define MAX_CLAIM_BYTES 4096

bool remote_is_name(const char *text)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    struct stat info;

    return colon && strlen(text) > 1 && (!slash || colon < slash) && stat(text, &info) != 0;
}

enum pawl_status remote_open(struct remote **out, const char *root, const char *program, struct err *err)
{
    struct remote *r = xcalloc(1, sizeof *r);
    uint32_t random = 0;
    enum pawl_status st;

    r->rclone.program = program ? program : "rclone";
    r->root = xstrdup(root);
    for (size_t n = strlen(r->root); n > 1 && r->root[n - 1] == '/'; n--) r->root[n - 1] = 0;
    while (getrandom(&random, sizeof random, 0) != sizeof random) continue;
    snprintf(r->token, sizeof r->token, "%08x", random);
    if ((st = rclone_check(&r->rclone, err)) == PAWL_OK) *out = r;
    else remote_close(r);
    return st;
}

void remote_close(struct remote *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->n_assigned; i++) free(r->assigned[i].name), free(r->assigned[i].part.object);
    for (size_t i = 0; i < r->n_known; i++) free(r->known[i].name);
    free(r->known);
    free(r->assigned);
    remote_state_free(r->base);
    remote_state_free(r->before);
    free(r->root);
    free(r);
}

const char *remote_root(const struct remote *r)
{
    return r->root;
}

void remote_limit(struct remote *r, double seconds)
{
    atomic_store(&r->rclone.deadline, seconds < 0 ? 0 : clock_nanoseconds() + (int64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9));
}

char *remote_path(const struct remote *r, const char *name)
{
    return xasprintf("%s%s%s", r->root, r->root[strlen(r->root) - 1] == ':' ? "" : "/", name);
}

enum pawl_status scratch_file(const char *path, const void *data, size_t len, struct err *err)
{
    int fd;
    enum pawl_status st = fd_open(&fd, &fsys_real, path, O_WRONLY | O_CREAT | O_TRUNC, err);

    if (st != PAWL_OK) return st;
    st = fd_write(&fsys_real, fd, data, len, path, err);
    fsys_real.close(fd);
    return st;
}

enum pawl_status scratch_dir(const char *path, struct err *err)
{
    return fsys_real.mkdir(path, 0777) != 0 && errno != EEXIST ? err_sys(err, "%s: the directory cannot be made", path) : PAWL_OK;
}

/* --- listings */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

enum pawl_status remote_listing(struct remote *r, struct listing *out, const char *below, struct err *err)
{
    char *path = below ? remote_path(r, below) : xstrdup(r->root), *line, *next;
    enum pawl_status st;

    *out = (struct listing){0};
    st = rclone_list(&r->rclone, &out->text, path, err);
    for (line = out->text.data; st == PAWL_OK && line && *line; line = next) {
        char *space, *end = strchr(line, '\n');

        next = end ? end + 1 : line + strlen(line);
        if (end) *end = 0;
        if (!(space = strchr(line, ' '))) continue;
        out->items = xreallocarray(out->items, out->n + 1, sizeof *out->items);
        out->items[out->n++] = (struct listed){space + 1, strtoull(line, NULL, 10)};
    }
    if (out->n) qsort(out->items, out->n, sizeof *out->items, by_name);
    free(path);
    return st;
}

const struct listed *listing_find(const struct listing *l, const char *name)
{
    struct listed key = {name, 0};

    return l->n ? bsearch(&key, l->items, l->n, sizeof *l->items, by_name) : NULL;
}

void listing_free(struct listing *l)
{
    free(l->items);
    buf_free(&l->text);
    *l = (struct listing){0};
}

/* --- the index */

static bool take_entry(struct remote_entry *e, const char *name)
{
    unsigned long long generation;
    long long step = 0, row = 0, count = 0;
    int n = 0, m = 0;

    *e = (struct remote_entry){0};
    if (sscanf(name, INDEX "g%10llu-%16[0-9a-f]-%8[0-9a-f]%n", &generation, e->run_id, e->token, &n) != 3 || !n || strlen(e->run_id) != 16 || strlen(e->token) != 8) return false;
    e->claim = !strcmp(name + n, ".claim");
    if (!e->claim && (sscanf(name + n, "-s%12lld-r%8lld-%lld.manifest%n", &step, &row, &count, &m) != 3 || !m || name[n + m])) return false;
    if (!generation || step < 0 || row < 0) return false;
    e->at = (struct journal_at){generation, step, row};
    e->count = count;
    e->name = xstrdup(name);
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const struct remote_entry *x = a, *y = b;
    int order = journal_order(y->at, x->at);

    return order ? order : x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->name, y->name);
}

void remote_index_of(const struct listing *l, struct remote_index *out)
{
    *out = (struct remote_index){0};
    for (size_t i = 0; i < l->n; i++) {
        struct remote_entry e;

        if (!take_entry(&e, l->items[i].name)) continue;
        out->items = xreallocarray(out->items, out->n + 1, sizeof *out->items);
        out->items[out->n++] = e;
        if (e.at.generation > out->generation) out->generation = e.at.generation;
    }
    if (out->n) qsort(out->items, out->n, sizeof *out->items, newest_first);
}

enum pawl_status remote_look(struct remote *r, struct remote_index *out, struct err *err)
{
    struct listing l;
    enum pawl_status st = remote_listing(r, &l, "index", err);

    *out = (struct remote_index){0};
    if (st == PAWL_OK) {
        for (size_t i = 0; i < l.n; i++) l.items[i].name = xasprintf(INDEX "%s", l.items[i].name);
        remote_index_of(&l, out);
        for (size_t i = 0; i < l.n; i++) free((char *)l.items[i].name);
    }
    listing_free(&l);
    return st == PAWL_OK ? st : err_prefix(err, "%s", r->root);
}

void remote_index_free(struct remote_index *x)
{
    for (size_t i = 0; i < x->n; i++) free(x->items[i].name);
    free(x->items);
    *x = (struct remote_index){0};
}

/* --- claims */

/* Says who began a generation, as far as he has said so himself. */
static void add_owner(struct remote *r, const struct remote_index *x, const struct remote_entry *e, struct buf *out)
{
    struct buf text = {0};
    char *path = NULL;

    for (size_t i = 0; i < x->n && !path; i++)
        if (x->items[i].claim && x->items[i].at.generation == e->at.generation && !strcmp(x->items[i].token, e->token)) path = remote_path(r, x->items[i].name);
    if (path && rclone_read(&r->rclone, &text, MAX_CLAIM_BYTES, path, NULL) == PAWL_OK && text.len) buf_addf(out, "%.*s", (int)strcspn(text.data, "\r\n"), text.data);
    else buf_addf(out, "a process of run %s", e->run_id);
    buf_free(&text);
    free(path);
}

enum pawl_status remote_fence(struct remote *r, const struct remote_index *x, struct err *err)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct remote_entry *e = &x->items[i];
        struct buf who = {0};
        enum pawl_status st;

        /* Two that began at the same time have the same generation: the tokens decide. */
        if (e->at.generation < r->generation || (e->at.generation == r->generation && strcmp(e->token, r->token) <= 0)) continue;
        add_owner(r, x, e, &who);
        st = err_set(err, PAWL_ELOCKED, "%s: another machine took over: generation %" PRIu64 " was begun by %.400s, this process is generation %" PRIu64 ": it stops, and uploads nothing more",
                     r->root, e->at.generation, who.data, r->generation);
        buf_free(&who);
        return st;
    }
    return PAWL_OK;
}

static enum pawl_status put_claim(struct remote *r, const char *scratch, struct err *err)
{
    char *name = xasprintf(INDEX "g%010" PRIu64 "-%s-%s.claim", r->generation, r->run_id, r->token), *path = remote_path(r, name), host[256] = "", when[32];
    struct buf text = {0};
    time_t now = time(NULL);
    struct tm utc;
    enum pawl_status st;

    gethostname(host, sizeof host - 1);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    buf_addf(&text, "host %s pid %d at %s\n", host, (int)getpid(), when);
    if ((st = scratch_file(scratch, text.data, text.len, err)) == PAWL_OK) st = rclone_put_file(&r->rclone, scratch, path, err);
    file_remove_tree(&fsys_real, scratch, NULL);
    buf_free(&text);
    free(path);
    free(name);
    return st;
}

enum pawl_status remote_look_and_fence(struct remote *r, struct err *err)
{
    struct remote_index x;
    enum pawl_status st = remote_look(r, &x, err);

    if (st == PAWL_OK) st = remote_fence(r, &x, err);
    remote_index_free(&x);
    return st;
}

enum pawl_status remote_claim(struct remote *r, const char *run_id, uint64_t generation, const char *scratch, struct err *err)
{
    enum pawl_status st;

    snprintf(r->run_id, sizeof r->run_id, "%s", run_id);
    r->generation = generation;
    if ((st = remote_look_and_fence(r, err)) != PAWL_OK) return st;
    if ((st = put_claim(r, scratch, err)) != PAWL_OK) return err_prefix(err, "%s", r->root);
    return remote_look_and_fence(r, err);
}

/* --- manifests */

static bool plain(const char *text, size_t len, bool strict)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";

    if (!len || len > 512 || strlen(text) != len || *text == '/' || text[len - 1] == '/' || strstr(text, "//")) return false;
    for (const char *p = text; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (*p == '.') return false; /* neither . nor .. nor anything hidden */
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127 || *p == '\\') return false;
    return !strict || strspn(text, allowed) == len;
}

static bool take_part(struct remote_part *p, const struct json_value *v)
{
    const struct json_value *object = json_get(v, "object");
    const char *crc = json_string(json_get(v, "crc32"), "");
    int64_t bytes, packed = 0;

    if (!object || object->type != JSON_STRING || !plain(object->text, object->len, true) || strncmp(object->text, OBJECTS, strlen(OBJECTS))) return false;
    if (!json_int64(json_get(v, "bytes"), &bytes) || bytes < 0 || strlen(crc) != 8 || strspn(crc, "0123456789abcdef") != 8) return false;
    if (json_get(v, "packed") && (!json_int64(json_get(v, "packed"), &packed) || packed < 1)) return false;
    *p = (struct remote_part){xstrdup(object->text), {(uint64_t)bytes, (uint32_t)strtoul(crc, NULL, 16)}, (uint64_t)packed};
    return true;
}

static bool take_file(struct remote_file *f, const struct json_value *v)
{
    const struct json_value *name = json_get(v, "name"), *parts = json_get(v, "parts");

    if (!name || name->type != JSON_STRING || !plain(name->text, name->len, false) || !parts || parts->type != JSON_ARRAY) return false;
    f->name = xstrdup(name->text);
    f->parts = xcalloc(parts->len ? parts->len : 1, sizeof *f->parts);
    for (; f->n < parts->len; f->n++)
        if (!take_part(&f->parts[f->n], json_at(parts, f->n))) return false;
    return true;
}

static enum pawl_status take_manifest(struct remote_state *s, const struct json_value *root, struct err *err)
{
    const struct json_value *files = json_get(root, "files");
    const char *run = json_string(json_get(root, "run_id"), "");
    int64_t version, generation;

    if (!json_int64(json_get(root, "format_version"), &version) || version < 1) return err_set(err, PAWL_EFORMAT, "%s: has no format_version: not a manifest of pawl", s->name);
    if (version > REMOTE_FORMAT_VERSION)
        return err_set(err, PAWL_EFORMAT, "%s: format_version %lld, this program reads up to %d: use a newer pawl", s->name, (long long)version, REMOTE_FORMAT_VERSION);
    if (!json_int64(json_get(root, "generation"), &generation) || generation < 1 || !json_int64(json_get(root, "step"), &s->at.step) || s->at.step < 0 ||
        !json_int64(json_get(root, "row"), &s->at.row) || s->at.row < 0 || strlen(run) != 16 || !files || files->type != JSON_ARRAY)
        return err_set(err, PAWL_EFORMAT, "%s: has no run_id, generation, step, row and files: not a manifest of pawl", s->name);
    s->at.generation = (uint64_t)generation;
    snprintf(s->run_id, sizeof s->run_id, "%s", run);
    s->time = json_number(json_get(root, "time"), 0);
    s->head = json_string(json_get(root, "head"), "");
    s->state = json_get(root, "state");
    s->files = xcalloc(files->len ? files->len : 1, sizeof *s->files);
    for (; s->n < files->len; s->n++) {
        if (take_file(&s->files[s->n], json_at(files, s->n))) continue;
        s->n++; /* what there is of it is freed */
        return err_set(err, PAWL_EFORMAT, "%s: file %zu has no plain name and parts", s->name, s->n - 1);
    }
    return PAWL_OK;
}

enum pawl_status remote_read(struct remote *r, const char *name, struct remote_state **out, struct err *err)
{
    struct remote_state *s = xcalloc(1, sizeof *s);
    char *path = remote_path(r, name);
    struct buf text = {0};
    enum pawl_status st;

    *out = NULL;
    s->name = xstrdup(name);
    s->head = "";
    if ((st = rclone_read(&r->rclone, &text, MAX_MANIFEST_BYTES, path, err)) != PAWL_OK) goto done;
    if (manifest_check(path, &text, &s->why) == PAWL_OK) {
        if (json_parse(&s->json, text.data, text.len, &s->why) != PAWL_OK) err_prefix(&s->why, "%s", path);
        else take_manifest(s, json_root(s->json), &s->why);
    }
    *out = s;
    s = NULL;
done:
    remote_state_free(s);
    buf_free(&text);
    free(path);
    return st;
}

void remote_state_free(struct remote_state *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->files[i].n; k++) free(s->files[i].parts[k].object);
        free(s->files[i].parts);
        free(s->files[i].name);
    }
    free(s->files);
    free(s->name);
    json_free(s->json);
    free(s);
}

uint64_t remote_part_stored(const struct remote_part *p)
{
    return p->packed ? p->packed : p->sum.bytes;
}

uint64_t remote_file_bytes(const struct remote_file *f)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < f->n; i++) sum += f->parts[i].sum.bytes;
    return sum;
}

const struct remote_file *remote_find(const struct remote_state *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->files[i].name, name)) return &s->files[i];
    return NULL;
}

bool remote_all_there(const struct listing *l, struct remote_state *s)
{
    for (size_t i = 0; i < s->n && s->why.status == PAWL_OK; i++)
        for (size_t k = 0; k < s->files[i].n && s->why.status == PAWL_OK; k++) {
            const struct remote_part *p = &s->files[i].parts[k];
            const struct listed *there = listing_find(l, p->object);

            if (!there) err_set(&s->why, PAWL_EFORMAT, "%s of %s: object %s is missing", s->files[i].name, s->name, p->object);
            else if (there->bytes != remote_part_stored(p))
                err_set(&s->why, PAWL_EFORMAT, "%s of %s: object %s has %llu bytes, the manifest says %llu: damaged or cut short", s->files[i].name, s->name, p->object,
                        (unsigned long long)there->bytes, (unsigned long long)remote_part_stored(p));
        }
    return s->why.status == PAWL_OK;
}

enum pawl_status remote_check(struct remote *r, struct remote_state *states[], size_t n, struct err *err)
{
    struct listing l;
    enum pawl_status st = remote_listing(r, &l, NULL, err);

    for (size_t i = 0; i < n && st == PAWL_OK; i++) remote_all_there(&l, states[i]);
    listing_free(&l);
    return st == PAWL_OK ? st : err_prefix(err, "%s", r->root);
}
