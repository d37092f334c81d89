/*   u64 n | n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}} | data, offsets count from here
 *
 * The writer ends the JSON with spaces, so that the data begins at a multiple of 8. */
#include "ckpt/safetensors.h"

#include "kernels/base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER_BYTES (100u << 20) /* the limit of the format's own reader */
#define MAX_INDEX_BYTES (100u << 20)
#define INDEX_NAME "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {
    {"F32", DTYPE_F32}, {"BF16", DTYPE_BF16}, {"F16", DTYPE_F16}, {"F64", DTYPE_F64}, {"I64", DTYPE_I64},           {"I32", DTYPE_I32},
    {"I16", DTYPE_I16}, {"I8", DTYPE_I8},     {"U8", DTYPE_U8},   {"BOOL", DTYPE_BOOL}, {"F8_E4M3", DTYPE_F8_E4M3}, {"F8_E5M2", DTYPE_F8_E5M2},
};
#define N_TYPES (sizeof types / sizeof *types)

struct shard {
    char *path;
    struct map map;
    struct json *header; /* owns the tensors' names */
};

struct safetensors {
    char *path;
    struct shard *shards;
    size_t n_shards;
    struct tensor *tensors; /* sorted by name once open */
    size_t n_tensors;
    void **copies; /* of misaligned data */
    size_t n_copies;
};

/* --- reading */

static enum pawl_status read_shape(struct tensor *t, const struct json_value *shape, const char *path, struct err *err)
{
    if (!shape || shape->type != JSON_ARRAY || shape->len > TENSOR_MAX_RANK)
        return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s has no shape of at most %d dimensions", path, t->name, TENSOR_MAX_RANK);
    t->rank = (int)shape->len;
    for (int i = 0; i < t->rank; i++)
        if (!json_int64(json_at(shape, (size_t)i), &t->shape[i]) || t->shape[i] < 0)
            return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s has a dimension that is no whole number", path, t->name);
    return PAWL_OK;
}

/* data_bytes of the file lie behind the header at data. */
static enum pawl_status read_entry(struct tensor *t, const struct json_value *key, const struct json_value *entry, const uint8_t *data, size_t data_bytes,
                                   const char *path, struct err *err)
{
    const char *type = json_string(json_get(entry, "dtype"), "");
    const struct json_value *offsets = json_get(entry, "data_offsets");
    int64_t begin, end;
    size_t k = 0;
    char shape[192];
    enum pawl_status st;

    t->name = key->text;
    if (!tensor_name_ok(key->text, key->len)) return err_set(err, PAWL_EFORMAT, "%s: a tensor's name is empty or has control characters", path);
    while (k < N_TYPES && strcmp(types[k].name, type) != 0) k++;
    if (k == N_TYPES) return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s has type \"%.40s\", which is not read", path, t->name, type);
    t->dtype = types[k].dtype;
    if ((st = read_shape(t, json_get(entry, "shape"), path, err)) != PAWL_OK) return st;
    if (!offsets || offsets->type != JSON_ARRAY || offsets->len != 2 || !json_int64(json_at(offsets, 0), &begin) || !json_int64(json_at(offsets, 1), &end) || begin < 0 ||
        end < begin)
        return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s has no data_offsets [begin, end]", path, t->name);
    if (!tensor_measure(t) || t->bytes != (size_t)(end - begin))
        return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s of shape %s and type %s does not fit its %lld bytes", path, t->name,
                       tensor_shape_text(shape, t->rank, t->shape), type, (long long)(end - begin));
    if ((size_t)end > data_bytes)
        return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s ends at byte %lld of the data, the file has %zu: the download was cut short?", path, t->name, (long long)end,
                       data_bytes);
    t->data = data + begin;
    return PAWL_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *s = a, *t = b;
    if (s->data != t->data) return s->data < t->data ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

/* The tensors t[0..n) of one file must cover its data one after the other, as the format demands: a gap or an overlap is damage. */
static enum pawl_status check_cover(struct tensor *t, size_t n, const uint8_t *data, size_t data_bytes, const char *path, struct err *err)
{
    const uint8_t *at = data;

    qsort(t, n, sizeof *t, by_place);
    for (size_t i = 0; i < n; i++) {
        if (t[i].data != at)
            return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s %s the one before it: the file is damaged", path, t[i].name,
                           (const uint8_t *)t[i].data < at ? "overlaps" : "leaves a gap behind");
        at += t[i].bytes;
    }
    if ((size_t)(at - data) != data_bytes)
        return err_set(err, PAWL_EFORMAT, "%s: %zu bytes of data, the header describes %zu: the file is damaged", path, data_bytes, (size_t)(at - data));
    return PAWL_OK;
}

/* Element types are read in place, so data that is not aligned for its type gets a copy that is. */
static void align_data(struct safetensors *s, struct tensor *t)
{
    if ((uintptr_t)t->data % (uintptr_t)dtype_info[t->dtype].bytes == 0) return;
    void *copy = xmalloc(t->bytes);
    memcpy(copy, t->data, t->bytes);
    s->copies = xreallocarray(s->copies, s->n_copies + 1, sizeof *s->copies);
    s->copies[s->n_copies++] = copy;
    t->data = copy;
}

static enum pawl_status read_shard(struct safetensors *s, const char *path, struct err *err)
{
    enum pawl_status st;
    uint64_t header_bytes = 0;
    struct shard *shard;

    s->shards = xreallocarray(s->shards, s->n_shards + 1, sizeof *s->shards);
    shard = &s->shards[s->n_shards++];
    *shard = (struct shard){.path = xstrdup(path)};
    if ((st = map_open(&shard->map, path, err)) != PAWL_OK) return st;
    if (shard->map.size >= 8) memcpy(&header_bytes, shard->map.data, 8);
    if (shard->map.size < 8 || header_bytes > shard->map.size - 8 || header_bytes > MAX_HEADER_BYTES)
        return err_set(err, PAWL_EFORMAT, "%s: %zu bytes, its header would take %llu: not a safetensors file, or cut short", path, shard->map.size,
                       (unsigned long long)header_bytes);
    if ((st = json_parse(&shard->header, (const char *)shard->map.data + 8, (size_t)header_bytes, err)) != PAWL_OK) {
        if (err) err_prefix(err, "%s: header", path);
        return st;
    }

    const struct json_value *root = json_root(shard->header);
    const uint8_t *data = shard->map.data + 8 + header_bytes;
    size_t data_bytes = shard->map.size - 8 - (size_t)header_bytes, first = s->n_tensors;
    if (root->type != JSON_OBJECT) return err_set(err, PAWL_EFORMAT, "%s: the header is not a JSON object", path);
    s->tensors = xreallocarray(s->tensors, first + root->len, sizeof *s->tensors);
    for (size_t i = 0; i < root->len; i++) {
        struct tensor t = {0};
        if (!strcmp(root->keys[i].text, "__metadata__")) continue;
        if ((st = read_entry(&t, &root->keys[i], &root->items[i], data, data_bytes, path, err)) != PAWL_OK) return st;
        s->tensors[s->n_tensors++] = t;
    }
    if ((st = check_cover(s->tensors + first, s->n_tensors - first, data, data_bytes, path, err)) != PAWL_OK) return st;
    for (size_t i = first; i < s->n_tensors; i++) align_data(s, &s->tensors[i]);
    return PAWL_OK;
}

static enum pawl_status sort_tensors(struct safetensors *s, struct err *err)
{
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_name);
    for (size_t i = 1; i < s->n_tensors; i++)
        if (by_name(&s->tensors[i - 1], &s->tensors[i]) == 0)
            return err_set(err, PAWL_EFORMAT, "%s: tensor %.200s is in more than one file", s->path, s->tensors[i].name);
    return PAWL_OK;
}

/* {"weight_map": {tensor: file}}: every file that it names is opened once, every tensor that it names must be there. */
static enum pawl_status read_index(struct safetensors *s, const char *path, struct err *err)
{
    struct buf text = {0};
    struct json *json = NULL;
    char *dir = file_dirname(path);
    enum pawl_status st;

    if ((st = file_read_all(&text, path, MAX_INDEX_BYTES, err)) != PAWL_OK) goto done;
    if ((st = json_parse(&json, text.data, text.len, err)) != PAWL_OK) {
        if (err) err_prefix(err, "%s", path);
        goto done;
    }
    const struct json_value *map = json_get(json_root(json), "weight_map");
    if (!map || map->type != JSON_OBJECT || map->len == 0) {
        st = err_set(err, PAWL_EFORMAT, "%s: has no \"weight_map\" from tensors to files", path);
        goto done;
    }
    for (size_t i = 0; i < map->len; i++) {
        const char *name = json_string(&map->items[i], "");
        if (!*name || strchr(name, '/') || name[0] == '.') {
            st = err_set(err, PAWL_EFORMAT, "%s: tensor %.200s is not in a file of this directory (\"%.200s\")", path, map->keys[i].text, name);
            goto done;
        }
        char *file = xasprintf("%s/%s", dir, name);
        size_t k = 0;
        while (k < s->n_shards && strcmp(s->shards[k].path, file) != 0) k++;
        if (k == s->n_shards) st = read_shard(s, file, err);
        free(file);
        if (st != PAWL_OK) goto done;
    }
    if ((st = sort_tensors(s, err)) != PAWL_OK) goto done;
    for (size_t i = 0; i < map->len; i++)
        if (!safetensors_find(s, map->keys[i].text)) {
            st = err_set(err, PAWL_EFORMAT, "%s: tensor %.200s should be in %.200s, which does not hold it", path, map->keys[i].text, map->items[i].text);
            goto done;
        }
done:
    json_free(json);
    buf_free(&text);
    free(dir);
    return st;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

enum pawl_status safetensors_open(struct safetensors **out, const char *path, struct err *err)
{
    struct safetensors *s = xcalloc(1, sizeof *s);
    char *single = xasprintf("%s/" SINGLE_NAME, path), *index = xasprintf("%s/" INDEX_NAME, path);
    enum pawl_status st;

    s->path = xstrdup(path);
    if (file_exists(single)) st = read_shard(s, single, err);
    else if (file_exists(index)) st = read_index(s, index, err);
    else if (ends_with(path, ".index.json")) st = read_index(s, path, err);
    else if (ends_with(path, ".safetensors")) st = read_shard(s, path, err);
    else st = err_set(err, PAWL_EIO, "%s: is neither a .safetensors file nor a directory with " SINGLE_NAME " or " INDEX_NAME, path);
    if (st == PAWL_OK) st = sort_tensors(s, err);
    if (st == PAWL_OK) {
        *out = s;
        s = NULL;
    }
    safetensors_close(s);
    free(single);
    free(index);
    return st;
}

void safetensors_close(struct safetensors *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_copies; i++) free(s->copies[i]);
    for (size_t i = 0; i < s->n_shards; i++) {
        json_free(s->shards[i].header);
        map_close(&s->shards[i].map);
        free(s->shards[i].path);
    }
    free(s->copies);
    free(s->shards);
    free(s->tensors);
    free(s->path);
    free(s);
}

const char *safetensors_path(const struct safetensors *s)
{
    return s->path;
}

size_t safetensors_count(const struct safetensors *s)
{
    return s->n_tensors;
}

const struct tensor *safetensors_at(const struct safetensors *s, size_t i)
{
    assert(i < s->n_tensors);
    return &s->tensors[i];
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    const struct tensor wanted = {.name = name};
    return s->n_tensors ? bsearch(&wanted, s->tensors, s->n_tensors, sizeof wanted, by_name) : NULL;
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->n_shards; i++) {
        const char *text = json_string(json_get(json_get(json_root(s->shards[i].header), "__metadata__"), key), NULL);
        if (text) return text;
    }
    return NULL;
}

/* --- writing */

struct safetensors_writer {
    struct file file;
    size_t promised, written; /* bytes of data */
};

static const char *type_name(enum dtype t)
{
    for (size_t k = 0; k < N_TYPES; k++)
        if (types[k].dtype == t) return types[k].name;
    assert(!"a type that safetensors files can hold");
    return "";
}

/* Insertion sort: it is stable, and the tensors nearly always come in order. */
static void largest_elements_first(struct tensor *t, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && dtype_info[t[k - 1].dtype].bytes < dtype_info[t[k].dtype].bytes; k--) {
            struct tensor swap = t[k];
            t[k] = t[k - 1];
            t[k - 1] = swap;
        }
}

/* The JSON without padding; returns the bytes of data. */
static size_t describe(struct buf *b, const struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta)
{
    size_t at = 0;
    const char *comma = "";

    buf_addc(b, '{');
    if (n_meta) {
        buf_adds(b, "\"__metadata__\":{");
        for (size_t i = 0; i < n_meta; i++) {
            if (i) buf_addc(b, ',');
            json_add_string(b, meta[i].key, strlen(meta[i].key));
            buf_addc(b, ':');
            json_add_string(b, meta[i].value, strlen(meta[i].value));
        }
        buf_addc(b, '}');
        comma = ",";
    }
    for (size_t i = 0; i < n; i++) {
        const struct tensor *t = &tensors[i];
        buf_adds(b, comma);
        comma = ",";
        json_add_string(b, t->name, strlen(t->name));
        buf_addf(b, ":{\"dtype\":\"%s\",\"shape\":[", type_name(t->dtype));
        for (int k = 0; k < t->rank; k++) buf_addf(b, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        buf_addf(b, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
        at += t->bytes;
    }
    buf_addc(b, '}');
    return at;
}

/* Measures and orders the tensors, adds length and JSON; returns the bytes of data. */
static size_t add_header(struct buf *out, struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta)
{
    struct buf header = {0};
    uint64_t len;
    size_t bytes;

    for (size_t i = 0; i < n; i++) {
        bool fits = tensor_measure(&tensors[i]);
        assert(fits);
        (void)fits;
    }
    largest_elements_first(tensors, n);
    bytes = describe(&header, tensors, n, meta, n_meta);
    while (header.len % 8) buf_addc(&header, ' ');
    len = header.len;
    buf_add(out, &len, sizeof len);
    buf_add(out, header.data, header.len);
    buf_free(&header);
    return bytes;
}

void safetensors_header(struct buf *out, struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta)
{
    add_header(out, tensors, n, meta, n_meta);
}

enum pawl_status safetensors_create(struct safetensors_writer **out, const struct fsys *sys, const char *path, struct tensor *tensors, size_t n,
                                    const struct safetensors_meta *meta, size_t n_meta, struct err *err)
{
    struct safetensors_writer *w = xcalloc(1, sizeof *w);
    struct buf header = {0};
    enum pawl_status st;

    w->promised = add_header(&header, tensors, n, meta, n_meta);
    if ((st = file_create(&w->file, sys, path, err)) == PAWL_OK) {
        file_write(&w->file, header.data, header.len);
        *out = w;
    } else {
        free(w);
    }
    buf_free(&header);
    return st;
}

void safetensors_put(struct safetensors_writer *w, const void *data, size_t len)
{
    w->written += len;
    assert(w->written <= w->promised);
    file_write(&w->file, data, len);
}

enum pawl_status safetensors_finish(struct safetensors_writer *w, struct file_sum *sum, struct err *err)
{
    assert(w->written == w->promised);
    enum pawl_status st = file_close(&w->file, sum, err);
    free(w);
    return st;
}

void safetensors_abandon(struct safetensors_writer *w)
{
    if (!w) return;
    file_abandon(&w->file);
    free(w);
}

enum pawl_status safetensors_write(const struct fsys *sys, const char *path, struct tensor *tensors, size_t n, const struct safetensors_meta *meta, size_t n_meta,
                                   struct file_sum *sum, struct err *err)
{
    struct safetensors_writer *w;
    enum pawl_status st = safetensors_create(&w, sys, path, tensors, n, meta, n_meta, err);

    if (st != PAWL_OK) return st;
    for (size_t i = 0; i < n; i++) safetensors_put(w, tensors[i].data, tensors[i].bytes);
    return safetensors_finish(w, sum, err);
}
