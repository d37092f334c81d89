#include "train/data/cache.h"

#include "ckpt/fileio.h"
#include "kernels/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_MAGIC 0x326e656b6f743170u /* changes with the format */
#define CHUNK_MAGIC 0x6b6e7568636c7761u
#define END_MAGIC 0x646e656c77617061u

struct file_head {
    uint64_t magic, key, program;
};

/* In front of a payload. END_MAGIC: in front of the identities of the source files, and the last of all. */
struct chunk_head {
    uint64_t magic, source, payload_hash, bytes;
    uint32_t file, lines, examples, notes;
    uint64_t head_hash; /* of what stands before it */
};

/* A source file is the same if all of this is. */
struct identity {
    uint64_t path_hash, device, inode, size;
    int64_t modified[2], changed[2];
};

/* One cache file as it was read. */
struct content {
    struct map map;
    struct chunk *chunk;
    size_t n;
    bool complete; /* has its end, and the identities there are those of the files now */
};

struct cache {
    size_t n_files;
    struct identity *id; /* of the source files when they were not yet read: what changes meanwhile shows next time */
    struct file_head head;
    char *path, *part, *previous;
    int lock;
    struct content now, old; /* KEY.tokens, and what an interrupted build left */
    const struct chunk **by_source;
    size_t n_by_source;
    FILE *out;
    bool failed; /* to write: nothing of it is kept */
};

/* --- identities */

static enum pawl_status identify(struct identity **out, const struct files *files, struct err *err)
{
    struct identity *id = xcalloc(files->n, sizeof *id);

    for (size_t i = 0; i < files->n; i++) {
        struct stat s;

        if (stat(files->path[i], &s) != 0) {
            free(id);
            return err_sys(err, "%s: cannot be examined", files->path[i]);
        }
        id[i] = (struct identity){
            hash64(0, files->path[i], strlen(files->path[i])), (uint64_t)s.st_dev, (uint64_t)s.st_ino, (uint64_t)s.st_size,
            {s.st_mtim.tv_sec, s.st_mtim.tv_nsec}, {s.st_ctim.tv_sec, s.st_ctim.tv_nsec},
        };
    }
    *out = id;
    return PAWL_OK;
}

/* Of the executable: another build may make other tokens of the same text, and a mended mask must take effect. */
static uint64_t program_hash(void)
{
    struct map exe;
    uint64_t h = 0;

    if (map_open(&exe, "/proc/self/exe", NULL) != PAWL_OK) return 0;
    h = hash64(0, exe.data, exe.size);
    map_close(&exe);
    return h;
}

/* --- reading */

static uint64_t head_hash(const struct chunk_head *h)
{
    return hash64(CACHE_MAGIC, h, offsetof(struct chunk_head, head_hash));
}

/* Whether the sizes of examples and notes add up to the payload's. */
static bool walks(const struct chunk *c)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < c->examples; i++) {
        const struct stored_example *e = (const struct stored_example *)(c->payload + at);

        if (c->bytes - at < sizeof *e) return false;
        if (c->bytes - at < stored_bytes(e->length)) return false;
        at += stored_bytes(e->length);
    }
    return c->bytes - at == (uint64_t)c->notes * sizeof(struct stored_note);
}

/* Takes chunks in order as far as heads can be followed; those whose payload is damaged are left out, and then the file is not complete. id NULL: of whatever source files. */
static void read_content(struct content *c, struct file_head expected, const struct identity *id, size_t n_files)
{
    const struct file_head *head = (const struct file_head *)c->map.data;
    size_t at = sizeof *head, cap = 0, n = 0;
    bool ended = false;

    if (c->map.size < sizeof *head || memcmp(head, &expected, sizeof *head)) return;
    while (!ended && c->map.size - at >= sizeof(struct chunk_head)) {
        const struct chunk_head *h = (const struct chunk_head *)(c->map.data + at);

        at += sizeof *h;
        if ((h->magic != CHUNK_MAGIC && h->magic != END_MAGIC) || h->head_hash != head_hash(h) || h->bytes > c->map.size - at || h->bytes % 8) break;
        ended = h->magic == END_MAGIC;
        if (ended) {
            c->complete = !id || (h->bytes == n_files * sizeof *id && !memcmp(c->map.data + at, id, h->bytes));
        } else {
            if (n == cap) c->chunk = xreallocarray(c->chunk, cap = cap ? 2 * cap : 64, sizeof *c->chunk);
            c->chunk[n++] = (struct chunk){h->source, h->payload_hash, h->bytes, h->file, h->lines, h->examples, h->notes, (const char *)c->map.data + at, NULL};
        }
        at += h->bytes;
    }

    uint8_t *good = xcalloc(n + 1, 1);

#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i++) {
        good[i] = hash64(0, c->chunk[i].payload, c->chunk[i].bytes) == c->chunk[i].payload_hash && c->chunk[i].file < n_files && walks(&c->chunk[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (good[i]) c->chunk[c->n++] = c->chunk[i];
    }
    c->complete = c->complete && c->n == n;
    free(good);
}

static void load(struct content *content, const struct cache *c, const char *path)
{
    *content = (struct content){0};
    if (map_open(&content->map, path, NULL) == PAWL_OK) read_content(content, c->head, c->id, c->n_files);
}

static void unload(struct content *c)
{
    free(c->chunk);
    map_close(&c->map);
    *c = (struct content){0};
}

/* --- finding chunks again */

static int by_source(const void *pa, const void *pb)
{
    const struct chunk *a = *(const struct chunk *const *)pa, *b = *(const struct chunk *const *)pb;

    return a->source < b->source ? -1 : a->source > b->source;
}

static void index_chunks(struct cache *c)
{
    c->by_source = xreallocarray(NULL, c->now.n + c->old.n + 1, sizeof *c->by_source);
    for (size_t i = 0; i < c->now.n; i++) c->by_source[c->n_by_source++] = &c->now.chunk[i];
    for (size_t i = 0; i < c->old.n; i++) c->by_source[c->n_by_source++] = &c->old.chunk[i];
    qsort(c->by_source, c->n_by_source, sizeof *c->by_source, by_source);
}

const struct chunk *cache_find(const struct cache *c, uint64_t source)
{
    struct chunk wanted = {.source = source};
    const struct chunk *key = &wanted;
    const struct chunk **found = c->n_by_source ? bsearch(&key, c->by_source, c->n_by_source, sizeof *c->by_source, by_source) : NULL;

    return found ? *found : NULL;
}

/* --- opening */

static enum pawl_status make_directories(const char *dir, struct err *err)
{
    char *path = xstrdup(dir);
    enum pawl_status st = PAWL_OK;

    for (char *p = path + 1; st == PAWL_OK; p++) {
        char c = *p;

        if (c != '/' && c) continue;
        *p = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST) st = err_sys(err, "%s: cannot be made", path);
        *p = c;
        if (!c) break;
    }
    free(path);
    return st;
}

static enum pawl_status take_lock(struct cache *c, const char *dir, struct err *err)
{
    char *path = xasprintf("%s/%016llx.lock", dir, (unsigned long long)c->head.key);
    enum pawl_status st = PAWL_OK;

    c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock < 0 || flock(c->lock, LOCK_EX) != 0) st = err_sys(err, "%s: cannot be locked", path);
    free(path);
    return st;
}

static void give_lock_back(struct cache *c)
{
    if (c->lock >= 0) close(c->lock);
    c->lock = -1;
}

/* What an interrupted build left becomes KEY.previous, unless an earlier one left more. */
static void keep_unfinished(struct cache *c)
{
    struct stat part, previous;

    if (stat(c->part, &part) != 0) return;
    if (stat(c->previous, &previous) == 0 && previous.st_size > part.st_size) unlink(c->part);
    else rename(c->part, c->previous);
}

enum pawl_status cache_open(struct cache **out, const char *dir, uint64_t key, const struct files *files, struct err *err)
{
    struct cache *c = xcalloc(1, sizeof *c);
    enum pawl_status st;

    c->n_files = files->n;
    c->head = (struct file_head){CACHE_MAGIC, key, program_hash()};
    c->lock = -1;
    c->path = xasprintf("%s/%016llx.tokens", dir, (unsigned long long)key);
    c->part = xasprintf("%s/%016llx.part", dir, (unsigned long long)key);
    c->previous = xasprintf("%s/%016llx.previous", dir, (unsigned long long)key);
    if ((st = make_directories(dir, err)) != PAWL_OK) goto done;
    if ((st = take_lock(c, dir, err)) != PAWL_OK) goto done;
    if ((st = identify(&c->id, files, err)) != PAWL_OK) goto done;
    load(&c->now, c, c->path);
    if (!c->now.complete) {
        keep_unfinished(c);
        load(&c->old, c, c->previous);
        index_chunks(c);
    }
    *out = c;
    c = NULL;
done:
    cache_close(c);
    return st;
}

enum pawl_status cache_open_kept(struct cache **out, const char *path, size_t *n_files, struct err *err)
{
    struct cache *c = xcalloc(1, sizeof *c);
    enum pawl_status st;

    c->lock = -1;
    c->path = xstrdup(path);
    if ((st = map_open(&c->now.map, path, err)) != PAWL_OK) goto done;
    if (c->now.map.size >= sizeof c->head) memcpy(&c->head, c->now.map.data, sizeof c->head);
    if (c->head.magic == CACHE_MAGIC) read_content(&c->now, c->head, NULL, SIZE_MAX);
    if (!c->now.complete) {
        st = err_set(err, PAWL_EFORMAT, "%s: tokenised data of another version, or damaged", path);
        goto done;
    }
    *n_files = 0;
    for (size_t i = 0; i < c->now.n; i++)
        if (c->now.chunk[i].file >= *n_files) *n_files = (size_t)c->now.chunk[i].file + 1;
    *out = c;
    c = NULL;
done:
    cache_close(c);
    return st;
}

const char *cache_path(const struct cache *c)
{
    return c->path;
}

void cache_close(struct cache *c)
{
    if (!c) return;
    if (c->out) fclose(c->out);
    if (c->failed) unlink(c->part);
    give_lock_back(c);
    unload(&c->now);
    unload(&c->old);
    free(c->by_source);
    free(c->id);
    free(c->path);
    free(c->part);
    free(c->previous);
    free(c);
}

const struct chunk *cache_chunks(struct cache *c, size_t *n)
{
    *n = 0;
    if (!c->now.complete) return NULL;
    give_lock_back(c);
    *n = c->now.n;
    return c->now.chunk;
}

/* --- building */

static enum pawl_status put(struct cache *c, const void *data, size_t len, struct err *err)
{
    if (fwrite(data, 1, len, c->out) == len) return PAWL_OK;
    c->failed = true;
    return err_sys(err, "%s: cannot be written", c->part);
}

static enum pawl_status begin(struct cache *c, struct err *err)
{
    if ((c->out = fopen(c->part, "wbe")) == NULL) return err_sys(err, "%s: cannot be made", c->part);
    return put(c, &c->head, sizeof c->head, err);
}

enum pawl_status cache_add(struct cache *c, const struct chunk *chunk, struct err *err)
{
    struct chunk_head h = {CHUNK_MAGIC, chunk->source, chunk->payload_hash, chunk->bytes, chunk->file, chunk->lines, chunk->examples, chunk->notes, 0};
    enum pawl_status st = c->out ? PAWL_OK : begin(c, err);

    h.head_hash = head_hash(&h);
    if (st == PAWL_OK) st = put(c, &h, sizeof h, err);
    if (st == PAWL_OK) st = put(c, chunk->payload, chunk->bytes, err);
    return st;
}

enum pawl_status cache_finish(struct cache *c, struct err *err)
{
    struct chunk_head end = {.magic = END_MAGIC, .bytes = c->n_files * sizeof *c->id};
    enum pawl_status st = c->out ? PAWL_OK : begin(c, err);
    FILE *out = c->out;

    end.head_hash = head_hash(&end);
    if (st == PAWL_OK) st = put(c, &end, sizeof end, err);
    if (st == PAWL_OK) st = put(c, c->id, end.bytes, err);
    if (st != PAWL_OK) return st;
    c->out = NULL;
    if (fclose(out) != 0 || rename(c->part, c->path) != 0) {
        c->failed = true;
        return err_sys(err, "%s: cannot be written", c->path);
    }
    unlink(c->previous);
    c->n_by_source = 0;
    unload(&c->old);
    unload(&c->now);
    load(&c->now, c, c->path);
    return c->now.complete ? PAWL_OK : err_set(err, PAWL_EIO, "%s: does not read back as it was written", c->path);
}
