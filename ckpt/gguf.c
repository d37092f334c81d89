#include "ckpt/gguf.h"

#include "ckpt/fileio.h"
#include "kernels/base/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GGUF_MAGIC "GGUF"
#define GGUF_HEADER_BYTES 24
#define GGUF_MAX_RANK 4
#define GGUF_DEFAULT_ALIGNMENT 32
/* The fewest bytes that a key with its value, a tensor's entry and a string can take: what bounds their counts by the size of the file. */
#define MIN_VALUE_BYTES 13
#define MIN_TENSOR_BYTES 25
#define MIN_STRING_BYTES 8

static const struct {
    const char *name;
    size_t bytes; /* 0: strings and arrays */
} value_types[GGUF_TYPES] = {
    [GGUF_U8] = {"u8", 1},   [GGUF_I8] = {"i8", 1},   [GGUF_U16] = {"u16", 2},   [GGUF_I16] = {"i16", 2},      [GGUF_U32] = {"u32", 4},
    [GGUF_I32] = {"i32", 4}, [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0},
    [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8}, [GGUF_F64] = {"f64", 8},
};

/* By ggml's number of the type; numbers that ggml gave up have no name. dtype is DTYPE_COUNT where pawl does not read it. */
static const struct {
    const char *name;
    enum dtype dtype;
} tensor_types[] = {
    [0] = {"F32", DTYPE_F32},          [1] = {"F16", DTYPE_F16},          [2] = {"Q4_0", DTYPE_Q4_0},        [3] = {"Q4_1", DTYPE_Q4_1},
    [6] = {"Q5_0", DTYPE_Q5_0},        [7] = {"Q5_1", DTYPE_Q5_1},        [8] = {"Q8_0", DTYPE_Q8_0},        [9] = {"Q8_1", DTYPE_COUNT},
    [10] = {"Q2_K", DTYPE_Q2_K},       [11] = {"Q3_K", DTYPE_Q3_K},       [12] = {"Q4_K", DTYPE_Q4_K},       [13] = {"Q5_K", DTYPE_Q5_K},
    [14] = {"Q6_K", DTYPE_Q6_K},       [15] = {"Q8_K", DTYPE_COUNT},      [16] = {"IQ2_XXS", DTYPE_COUNT},   [17] = {"IQ2_XS", DTYPE_COUNT},
    [18] = {"IQ3_XXS", DTYPE_COUNT},   [19] = {"IQ1_S", DTYPE_COUNT},     [20] = {"IQ4_NL", DTYPE_COUNT},    [21] = {"IQ3_S", DTYPE_COUNT},
    [22] = {"IQ2_S", DTYPE_COUNT},     [23] = {"IQ4_XS", DTYPE_COUNT},    [24] = {"I8", DTYPE_I8},           [25] = {"I16", DTYPE_I16},
    [26] = {"I32", DTYPE_I32},         [27] = {"I64", DTYPE_I64},         [28] = {"F64", DTYPE_F64},         [29] = {"IQ1_M", DTYPE_COUNT},
    [30] = {"BF16", DTYPE_BF16},       [34] = {"TQ1_0", DTYPE_COUNT},     [35] = {"TQ2_0", DTYPE_COUNT},     [39] = {"MXFP4", DTYPE_COUNT},
    [40] = {"NVFP4", DTYPE_COUNT},     [41] = {"Q1_0", DTYPE_COUNT},
};
#define TENSOR_TYPES (sizeof tensor_types / sizeof *tensor_types)

struct gguf {
    char *path;
    struct map map;
    struct pool pool; /* names and string tables */
    struct gguf_value *values;
    struct tensor *tensors;
    size_t n_values, n_tensors;
    const struct gguf_value **values_by_key;  /* sorted, for look-ups */
    const struct tensor **tensors_by_name;
};

/* A place in the file, and what is being read there for messages. */
struct cursor {
    struct gguf *g;
    size_t at;
    const char *what;
    struct err *err;
};

static size_t left(const struct cursor *c)
{
    return c->g->map.size - c->at;
}

static enum pawl_status cut(const struct cursor *c)
{
    return err_set(c->err, PAWL_EFORMAT, "%s: the file ends at byte %zu inside %.200s: the download was cut short?", c->g->path, c->g->map.size, c->what);
}

static enum pawl_status take(struct cursor *c, void *out, size_t len)
{
    if (len > left(c)) return cut(c);
    memcpy(out, c->g->map.data + c->at, len);
    c->at += len;
    return PAWL_OK;
}

static enum pawl_status take_string(struct cursor *c, struct gguf_string *out)
{
    uint64_t len = 0;
    enum pawl_status st = take(c, &len, sizeof len);

    if (st != PAWL_OK) return st;
    if (len > left(c)) return cut(c);
    *out = (struct gguf_string){.data = (const char *)c->g->map.data + c->at, .len = (size_t)len};
    c->at += (size_t)len;
    return PAWL_OK;
}

static enum pawl_status take_name(struct cursor *c, const char **out)
{
    struct gguf_string s;
    enum pawl_status st = take_string(c, &s);

    if (st != PAWL_OK) return st;
    if (!tensor_name_ok(s.data, s.len))
        return err_set(c->err, PAWL_EFORMAT, "%s: a name in %.200s is empty or has control characters: the file is damaged", c->g->path, c->what);
    *out = pool_strndup(&c->g->pool, s.data, s.len);
    return PAWL_OK;
}

static enum pawl_status bad_value_type(const struct cursor *c, uint32_t type)
{
    return err_set(c->err, PAWL_EFORMAT, "%s: key %.200s has value type %u, known are 0 to %d: the file is damaged or newer than this program", c->g->path,
                   c->what, type, GGUF_TYPES - 1);
}

static enum pawl_status take_value(struct cursor *c, struct gguf_value *v)
{
    uint32_t type;
    uint64_t count = 1;
    enum pawl_status st;

    c->what = "a key";
    if ((st = take_name(c, &v->key)) != PAWL_OK) return st;
    c->what = v->key;
    if ((st = take(c, &type, sizeof type)) != PAWL_OK) return st;
    if (type >= GGUF_TYPES) return bad_value_type(c, type);
    if (type == GGUF_ARRAY) {
        v->is_array = true;
        if ((st = take(c, &type, sizeof type)) != PAWL_OK || (st = take(c, &count, sizeof count)) != PAWL_OK) return st;
        if (type >= GGUF_TYPES) return bad_value_type(c, type);
        if (type == GGUF_ARRAY) return err_set(c->err, PAWL_EFORMAT, "%s: key %.200s is an array of arrays, which is not read", c->g->path, v->key);
    }
    v->type = (enum gguf_type)type;
    size_t each = type == GGUF_STRING ? MIN_STRING_BYTES : value_types[type].bytes;
    if (count > left(c) / each) return cut(c);
    v->count = (size_t)count;
    if (type != GGUF_STRING) {
        v->raw = c->g->map.data + c->at;
        c->at += v->count * each;
        return PAWL_OK;
    }
    struct gguf_string *strings = pool_alloc(&c->g->pool, v->count * sizeof *strings);
    for (size_t i = 0; i < v->count; i++)
        if ((st = take_string(c, &strings[i])) != PAWL_OK) return st;
    v->strings = strings;
    return PAWL_OK;
}

static enum pawl_status take_tensor(struct cursor *c, struct tensor *t, uint64_t *offset)
{
    const char *path = c->g->path;
    uint32_t rank, type;
    char shape[192];
    enum pawl_status st;

    c->what = "the table of tensors";
    if ((st = take_name(c, &t->name)) != PAWL_OK) return st;
    if ((st = take(c, &rank, sizeof rank)) != PAWL_OK) return st;
    if (rank > GGUF_MAX_RANK) return err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s has %u dimensions, at most %d are allowed", path, t->name, rank, GGUF_MAX_RANK);
    t->rank = (int)rank;
    for (int i = 0; i < t->rank; i++) {
        uint64_t ne;
        if ((st = take(c, &ne, sizeof ne)) != PAWL_OK) return st;
        if (ne == 0 || ne > INT64_MAX) return err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s has a dimension of %llu", path, t->name, (unsigned long long)ne);
        t->shape[t->rank - 1 - i] = (int64_t)ne;
    }
    if ((st = take(c, &type, sizeof type)) != PAWL_OK || (st = take(c, offset, sizeof *offset)) != PAWL_OK) return st;
    if (type >= TENSOR_TYPES || !tensor_types[type].name)
        return err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s has ggml type %u, which is unknown: the file is damaged or newer than this program", path, t->name, type);
    if (tensor_types[type].dtype == DTYPE_COUNT)
        return err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s is stored as %s, which is not read: use a file in F16, Q8_0, Q4_0, Q4_1, Q5_* or Q*_K", path, t->name,
                       tensor_types[type].name);
    t->dtype = tensor_types[type].dtype;
    if (!tensor_measure(t))
        return err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s of shape %s cannot be stored as %s (blocks of %d along the last dimension)", path, t->name,
                       tensor_shape_text(shape, t->rank, t->shape), tensor_types[type].name, dtype_info[t->dtype].block);
    return PAWL_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct gguf_value *const *)a)->key, (*(const struct gguf_value *const *)b)->key);
}

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const struct tensor *const *)a)->name, (*(const struct tensor *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *s = *(const struct tensor *const *)a, *t = *(const struct tensor *const *)b;
    return (s->data > t->data) - (s->data < t->data);
}

/* Counts are bounded by what is left of the file before anything is allocated for them. */
static enum pawl_status take_count(struct cursor *c, uint64_t n, size_t min_bytes, size_t *out)
{
    if (n > left(c) / min_bytes)
        return err_set(c->err, PAWL_EFORMAT, "%s: the header promises %llu entries in %s, the file has only %zu bytes: cut short or damaged", c->g->path,
                       (unsigned long long)n, c->what, c->g->map.size);
    *out = (size_t)n;
    return PAWL_OK;
}

static enum pawl_status read_values(struct cursor *c, uint64_t n)
{
    struct gguf *g = c->g;
    enum pawl_status st;
    size_t count = 0;

    c->what = "the metadata";
    if ((st = take_count(c, n, MIN_VALUE_BYTES, &count)) != PAWL_OK) return st;
    g->values = xcalloc(count, sizeof *g->values);
    g->values_by_key = xcalloc(count, sizeof *g->values_by_key);
    for (; g->n_values < count; g->n_values++) {
        if ((st = take_value(c, &g->values[g->n_values])) != PAWL_OK) return st;
        g->values_by_key[g->n_values] = &g->values[g->n_values];
    }
    qsort(g->values_by_key, count, sizeof *g->values_by_key, by_key);
    for (size_t i = 1; i < count; i++)
        if (by_key(&g->values_by_key[i - 1], &g->values_by_key[i]) == 0)
            return err_set(c->err, PAWL_EFORMAT, "%s: key %.200s stands twice", g->path, g->values_by_key[i]->key);
    return PAWL_OK;
}

static enum pawl_status read_tensors(struct cursor *c, uint64_t n)
{
    struct gguf *g = c->g;
    int64_t alignment = GGUF_DEFAULT_ALIGNMENT;
    uint64_t *offsets = NULL;
    enum pawl_status st;
    size_t count = 0;

    c->what = "the table of tensors";
    if ((st = take_count(c, n, MIN_TENSOR_BYTES, &count)) != PAWL_OK) return st;
    g->tensors = xcalloc(count, sizeof *g->tensors);
    g->tensors_by_name = xcalloc(count, sizeof *g->tensors_by_name);
    offsets = xcalloc(count, sizeof *offsets);
    for (; g->n_tensors < count; g->n_tensors++)
        if ((st = take_tensor(c, &g->tensors[g->n_tensors], &offsets[g->n_tensors])) != PAWL_OK) goto done;

    /* A multiple of 8 keeps every element type aligned in the mapped file. */
    if (gguf_find(g, "general.alignment") && (!gguf_int(g, "general.alignment", &alignment) || alignment < 8 || alignment > 1 << 20 || (alignment & (alignment - 1)))) {
        st = err_set(c->err, PAWL_EFORMAT, "%s: general.alignment must be a power of two from 8 to 1048576", g->path);
        goto done;
    }
    size_t start = (c->at + (size_t)alignment - 1) & ~((size_t)alignment - 1);
    size_t data_bytes = start < g->map.size ? g->map.size - start : 0;
    for (size_t i = 0; i < count; i++) {
        struct tensor *t = &g->tensors[i];
        if (offsets[i] % (uint64_t)alignment) {
            st = err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s begins at %llu, not a multiple of %lld: the file is damaged", g->path, t->name,
                         (unsigned long long)offsets[i], (long long)alignment);
            goto done;
        }
        if (offsets[i] > data_bytes || t->bytes > data_bytes - offsets[i]) {
            st = err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s needs %zu bytes from byte %llu, the file has %zu bytes: the download was cut short?", g->path, t->name,
                         t->bytes, (unsigned long long)offsets[i] + start, g->map.size);
            goto done;
        }
        t->data = g->map.data + start + offsets[i];
        g->tensors_by_name[i] = t;
    }
    qsort(g->tensors_by_name, count, sizeof *g->tensors_by_name, by_place);
    for (size_t i = 1; i < count; i++) {
        const struct tensor *a = g->tensors_by_name[i - 1], *b = g->tensors_by_name[i];
        if ((const uint8_t *)a->data + a->bytes > (const uint8_t *)b->data) {
            st = err_set(c->err, PAWL_EFORMAT, "%s: tensors %.200s and %.200s overlap: the file is damaged", g->path, a->name, b->name);
            goto done;
        }
    }
    qsort(g->tensors_by_name, count, sizeof *g->tensors_by_name, by_tensor_name);
    for (size_t i = 1; i < count; i++)
        if (by_tensor_name(&g->tensors_by_name[i - 1], &g->tensors_by_name[i]) == 0) {
            st = err_set(c->err, PAWL_EFORMAT, "%s: tensor %.200s stands twice", g->path, g->tensors_by_name[i]->name);
            goto done;
        }
done:
    free(offsets);
    return st;
}

enum pawl_status gguf_open(struct gguf **out, const char *path, struct err *err)
{
    struct gguf *g = xcalloc(1, sizeof *g);
    struct cursor c = {.g = g, .what = "the header", .err = err};
    struct {
        char magic[4];
        uint32_t version;
        uint64_t n_tensors, n_values;
    } head;
    enum pawl_status st;

    _Static_assert(sizeof head == GGUF_HEADER_BYTES, "the header has no padding");
    g->path = xstrdup(path);
    if ((st = map_open(&g->map, path, err)) != PAWL_OK) goto done;
    if ((st = take(&c, &head, sizeof head)) != PAWL_OK) goto done;
    if (memcmp(head.magic, GGUF_MAGIC, 4) != 0) {
        st = err_set(err, PAWL_EFORMAT, "%s: is not a GGUF file (it does not begin with \"" GGUF_MAGIC "\")", path);
        goto done;
    }
    if (head.version != 2 && head.version != 3) {
        const char *why = head.version == 1 ? "convert the model again" : (head.version & 0xffff) == 0 ? "big-endian files are not read" : "newer than this program";
        st = err_set(err, PAWL_EFORMAT, "%s: GGUF version %u, read are 2 and 3: %s", path, head.version, why);
        goto done;
    }
    if ((st = read_values(&c, head.n_values)) != PAWL_OK) goto done;
    if ((st = read_tensors(&c, head.n_tensors)) != PAWL_OK) goto done;
    *out = g;
    g = NULL;
done:
    gguf_close(g);
    return st;
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    free(g->tensors_by_name);
    free(g->values_by_key);
    free(g->tensors);
    free(g->values);
    pool_free(&g->pool);
    map_close(&g->map);
    free(g->path);
    free(g);
}

const char *gguf_path(const struct gguf *g)
{
    return g->path;
}

/* --- metadata */

size_t gguf_value_count(const struct gguf *g)
{
    return g->n_values;
}

const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_values);
    return &g->values[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    const struct gguf_value wanted = {.key = key}, *p = &wanted;
    const struct gguf_value **found = bsearch(&p, g->values_by_key, g->n_values, sizeof p, by_key);
    return found ? *found : NULL;
}

static bool is_int(enum gguf_type t)
{
    return t != GGUF_STRING && t != GGUF_F32 && t != GGUF_F64;
}

static bool is_float(enum gguf_type t)
{
    return t == GGUF_F32 || t == GGUF_F64;
}

static const struct gguf_value *find_scalar(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    return v && !v->is_array ? v : NULL;
}

static const struct gguf_value *find_array(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    return v && v->is_array ? v : NULL;
}

#define AT(type) \
    ({ \
        type x_; \
        memcpy(&x_, v->raw + i * sizeof x_, sizeof x_); \
        x_; \
    })

/* The 64 bits of an integer, sign-extended where it has a sign. */
static uint64_t integer_bits(const struct gguf_value *v, size_t i)
{
    switch (v->type) {
    case GGUF_U8: return AT(uint8_t);
    case GGUF_I8: return (uint64_t)(int64_t)AT(int8_t);
    case GGUF_U16: return AT(uint16_t);
    case GGUF_I16: return (uint64_t)(int64_t)AT(int16_t);
    case GGUF_U32: return AT(uint32_t);
    case GGUF_I32: return (uint64_t)(int64_t)AT(int32_t);
    case GGUF_BOOL: return AT(uint8_t) != 0;
    default: return AT(uint64_t);
    }
}

int64_t gguf_int_at(const struct gguf_value *v, size_t i)
{
    assert(i < v->count && is_int(v->type));
    uint64_t bits = integer_bits(v, i);
    return v->type == GGUF_U64 && bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

double gguf_float_at(const struct gguf_value *v, size_t i)
{
    assert(i < v->count && v->type != GGUF_STRING);
    if (v->type == GGUF_F32) return AT(float);
    if (v->type == GGUF_F64) return AT(double);
    return v->type == GGUF_U64 ? (double)AT(uint64_t) : (double)gguf_int_at(v, i);
}

bool gguf_int(const struct gguf *g, const char *key, int64_t *out)
{
    const struct gguf_value *v = find_scalar(g, key);

    if (!v || !is_int(v->type) || (v->type == GGUF_U64 && integer_bits(v, 0) > INT64_MAX)) return false;
    *out = gguf_int_at(v, 0);
    return true;
}

bool gguf_float(const struct gguf *g, const char *key, double *out)
{
    const struct gguf_value *v = find_scalar(g, key);

    if (!v || v->type == GGUF_STRING || v->type == GGUF_BOOL) return false;
    *out = gguf_float_at(v, 0);
    return true;
}

bool gguf_bool(const struct gguf *g, const char *key, bool *out)
{
    const struct gguf_value *v = find_scalar(g, key);

    if (!v || v->type != GGUF_BOOL) return false;
    *out = gguf_int_at(v, 0) != 0;
    return true;
}

bool gguf_text(const struct gguf *g, const char *key, struct gguf_string *out)
{
    const struct gguf_value *v = find_scalar(g, key);

    if (!v || v->type != GGUF_STRING) return false;
    *out = v->strings[0];
    return true;
}

const struct gguf_value *gguf_strings(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = find_array(g, key);
    return v && v->type == GGUF_STRING ? v : NULL;
}

const struct gguf_value *gguf_ints(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = find_array(g, key);
    return v && is_int(v->type) ? v : NULL;
}

const struct gguf_value *gguf_floats(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = find_array(g, key);
    return v && is_float(v->type) ? v : NULL;
}

/* --- tensors */

size_t gguf_tensor_count(const struct gguf *g)
{
    return g->n_tensors;
}

const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    assert(i < g->n_tensors);
    return &g->tensors[i];
}

const struct tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    const struct tensor wanted = {.name = name}, *p = &wanted;
    const struct tensor **found = bsearch(&p, g->tensors_by_name, g->n_tensors, sizeof p, by_tensor_name);
    return found ? *found : NULL;
}
