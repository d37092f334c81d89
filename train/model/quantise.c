/* A base in bitsandbytes' serialisation: read where the file has it, made where it does not.
 *
 * 4-bit (QLoRA, Dettmers et al. 2023): NAME.weight U8 packed codes; NAME.weight.absmax F32, or U8 with .nested_absmax F32, .nested_quant_map F32 (256) and the offset in the JSON of
 * .quant_state.bitsandbytes__nf4 (a U8 tensor). int8: NAME.weight I8 (N, K), NAME.SCB F32 (N). What is made here is kept in the cache directory as such a file, under a name
 * that the model's identity and the settings decide, so that the next start maps it. */
#include "train/model/files.h"

#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t blocks_of(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* NAME + suffix with exactly `bytes` bytes of a type. */
static enum pawl_status find_part(const void **out, const struct safetensors *s, const char *name, const char *suffix, enum dtype type, size_t bytes, struct err *err)
{
    char full[192];
    const struct tensor *t;

    snprintf(full, sizeof full, "%s.%s", name, suffix);
    t = safetensors_find(s, full);
    if (!t) return err_set(err, PAWL_EFORMAT, "%s: tensor %s is missing beside its 4-bit or 8-bit codes", safetensors_path(s), full);
    if (t->dtype != type || t->bytes != bytes)
        return err_set(err, PAWL_EFORMAT, "%s: tensor %s: expected %zu bytes of %s, found %zu of %s", safetensors_path(s), full, bytes, dtype_info[type].name, t->bytes,
                       dtype_info[t->dtype].name);
    *out = t->data;
    return PAWL_OK;
}

static enum pawl_status find_4bit(struct weight *w, const struct safetensors *s, const char *name, const struct tensor *state, struct err *err)
{
    int64_t n = w->N * w->K, nblock = blocks_of(n, NF4_BLOCK);
    char full[192];
    const struct tensor *absmax;
    struct json *json = NULL;
    const struct json_value *root;
    enum pawl_status st;

    if ((st = json_parse(&json, state->data, state->bytes, err)) != PAWL_OK) {
        err_prefix(err, "%s: %s", safetensors_path(s), state->name);
        goto done;
    }
    root = json_root(json);
    if (json_number(json_get(root, "blocksize"), 0) != NF4_BLOCK) {
        st = err_set(err, PAWL_EFORMAT, "%s: %s: blocksize: expected %d, found %g", safetensors_path(s), state->name, NF4_BLOCK, json_number(json_get(root, "blocksize"), 0));
        goto done;
    }
    if ((st = find_part(&w->data, s, name, "weight", DTYPE_U8, (size_t)(n + 1) / 2, err)) != PAWL_OK) goto done;
    snprintf(full, sizeof full, "%s.weight.absmax", name);
    absmax = safetensors_find(s, full);
    if (absmax && absmax->dtype == DTYPE_F32) {
        st = find_part((const void **)&w->absmax, s, name, "weight.absmax", DTYPE_F32, (size_t)nblock * 4, err);
        goto done;
    }
    if (json_number(json_get(root, "nested_blocksize"), NF4_NESTED) != NF4_NESTED) {
        st = err_set(err, PAWL_EFORMAT, "%s: %s: nested_blocksize: expected %d", safetensors_path(s), state->name, NF4_NESTED);
        goto done;
    }
    w->nested_offset = (float)json_number(json_get(root, "nested_offset"), 0);
    if ((st = find_part((const void **)&w->absmax_q, s, name, "weight.absmax", DTYPE_U8, (size_t)nblock, err)) != PAWL_OK) goto done;
    if ((st = find_part((const void **)&w->nested_absmax, s, name, "weight.nested_absmax", DTYPE_F32, (size_t)blocks_of(nblock, NF4_NESTED) * 4, err)) != PAWL_OK) goto done;
    st = find_part((const void **)&w->nested_code, s, name, "weight.nested_quant_map", DTYPE_F32, 256 * 4, err);
done:
    json_free(json);
    return st;
}

enum pawl_status bnb_find(struct weight *w, bool *found, const struct safetensors *s, const char *name, int64_t N, int64_t K, struct err *err)
{
    static const struct {
        const char *suffix;
        enum dtype type;
    } states[] = {{"weight.quant_state.bitsandbytes__nf4", DTYPE_NF4}, {"weight.quant_state.bitsandbytes__fp4", DTYPE_FP4}};
    const struct tensor *t;
    char full[192];
    enum pawl_status st;

    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        snprintf(full, sizeof full, "%s.%s", name, states[i].suffix);
        if (!(t = safetensors_find(s, full))) continue;
        *w = (struct weight){.type = states[i].type, .N = N, .K = K};
        *found = true;
        return find_4bit(w, s, name, t, err);
    }
    snprintf(full, sizeof full, "%s.SCB", name);
    *found = safetensors_find(s, full) != NULL;
    if (!*found) return PAWL_OK;
    *w = (struct weight){.type = DTYPE_INT8, .N = N, .K = K};
    if ((st = find_part(&w->data, s, name, "weight", DTYPE_I8, (size_t)(N * K), err)) != PAWL_OK) return st;
    return find_part((const void **)&w->absmax, s, name, "SCB", DTYPE_F32, (size_t)N * 4, err);
}

/* --- making it */

static bool is_plain(enum dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

static bool wanted(const struct weight *w, struct model_storage storage)
{
    switch (storage.storage) {
    case STORAGE_4BIT: return w->type != DTYPE_NF4 && w->type != DTYPE_FP4;
    case STORAGE_4BIT_UNLESS_QUANTISED:
    case STORAGE_8BIT: return is_plain(w->type);
    case STORAGE_AS_IT_IS: return false;
    }
    return false;
}

/* Replaces *w by its quantised form, in blocks that files owns. */
static void quantise_weight(struct weight *w, struct model_files *f, struct model_storage storage)
{
    int64_t n = w->N * w->K, nblock = blocks_of(n, NF4_BLOCK);
    struct weight q = {.N = w->N, .K = w->K};
    float *x = xreallocarray(NULL, (size_t)n, sizeof *x), *absmax;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w->N; i++) weight_row(w, i, 0, w->K, x + i * w->K);
    if (storage.storage == STORAGE_8BIT) {
        int8_t *codes = files_own(f, xmalloc((size_t)n));

        q.type = DTYPE_INT8;
        q.data = codes;
        q.absmax = absmax = files_own(f, xreallocarray(NULL, (size_t)w->N, sizeof *absmax));
        quant_int8(x, w->N, w->K, codes, absmax);
    } else {
        /* Pieces of whole blocks, so that cores share the work; codes of a block begin on a byte. */
        const int64_t piece = 1024 * NF4_BLOCK;
        uint8_t *codes = files_own(f, xmalloc((size_t)(n + 1) / 2));

        absmax = xreallocarray(NULL, (size_t)nblock, sizeof *absmax);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i += piece) quant_4bit(storage.type, x + i, n - i < piece ? n - i : piece, codes + i / 2, absmax + i / NF4_BLOCK);
        q.type = storage.type;
        q.data = codes;
        if (storage.double_quant) {
            uint8_t *absmax_q = files_own(f, xmalloc((size_t)nblock));
            float *nested = files_own(f, xreallocarray(NULL, (size_t)blocks_of(nblock, NF4_NESTED), sizeof *nested));

            quant_nested(absmax, nblock, absmax_q, nested, &q.nested_offset);
            q.absmax_q = absmax_q, q.nested_absmax = nested, q.nested_code = quant_dynamic_code;
            free(absmax);
        } else {
            q.absmax = files_own(f, absmax);
        }
    }
    free(x);
    *w = q;
}

static char *module_name(int l, enum module mod)
{
    return xasprintf("model.layers.%d.%s", l, module_info[mod].path);
}

/* The cache file of this model and these settings, or NULL where there is no home to keep it in. */
static char *cache_path(const struct model *m, struct model_storage storage, char **dir)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    uint64_t key = hash64(m->identity, &storage.storage, sizeof storage.storage);

    if (!(xdg && *xdg) && !(home && *home)) return NULL;
    *dir = xdg && *xdg ? xasprintf("%s/pawl/base", xdg) : xasprintf("%s/.cache/pawl/base", home);
    return xasprintf("%s/%016llx-%s%s.safetensors", *dir, (unsigned long long)key, storage.storage == STORAGE_8BIT ? "int8" : dtype_info[storage.type].name,
                     storage.storage != STORAGE_8BIT && storage.double_quant ? "-double" : "");
}

/* Takes the wanted layers from the cache file; false where it is absent or not whole. */
static bool use_cache(struct model *m, struct model_storage storage, const char *path)
{
    struct err err = {0};
    bool ok;

    if (!file_exists(path)) return false;
    if (safetensors_open(&m->files->quantised, path, &err) != PAWL_OK) {
        log_warn("%s: made anew", err.text);
        return false;
    }
    ok = true;
    for (int pass = 0; pass < 2 && ok; pass++) /* all of it must be there before any of it is taken */
        for (int i = 0; i < m->spec.layers * MODULES && ok; i++) {
            struct weight *w = &m->layers[i / MODULES].lin[i % MODULES], q;
            char *name = module_name(i / MODULES, i % MODULES);

            if (wanted(w, storage) && (bnb_find(&q, &ok, m->files->quantised, name, w->N, w->K, &err) != PAWL_OK || !ok)) {
                log_warn("%s: made anew", err.text[0] ? err.text : path);
                ok = false;
            } else if (pass == 1 && wanted(w, storage)) {
                *w = q;
            }
            free(name);
        }
    if (!ok) {
        safetensors_close(m->files->quantised);
        m->files->quantised = NULL;
    }
    return ok;
}

/* Declares the parts of one quantised layer as bitsandbytes names them; returns how many. */
static size_t add_parts(struct tensor *t, const struct weight *w, const char *name, struct model_files *f)
{
    int64_t n = w->N * w->K, nblock = blocks_of(n, NF4_BLOCK);
    struct tensor *first = t;
    struct buf state = {0};

#define PART(suffix, type, r, d0, d1, bytes_of) \
    *t++ = (struct tensor){.name = files_own(f, xasprintf("%s.%s", name, suffix)), .dtype = type, .rank = r, .shape = {d0, d1}, .data = bytes_of}
    if (w->type == DTYPE_INT8) {
        PART("weight", DTYPE_I8, 2, w->N, w->K, w->data);
        PART("SCB", DTYPE_F32, 1, w->N, 0, w->absmax);
        return (size_t)(t - first);
    }
    const char *kind = dtype_info[w->type].name;
    char suffix[64];
    PART("weight", DTYPE_U8, 2, (n + 1) / 2, 1, w->data);
    PART("weight.quant_map", DTYPE_F32, 1, 16, 0, w->type == DTYPE_NF4 ? quant_nf4_code : quant_fp4_code);
    buf_addf(&state, "{\"quant_type\": \"%s\", \"blocksize\": %d, \"dtype\": \"bfloat16\", \"shape\": [%lld, %lld]", kind, NF4_BLOCK, (long long)w->N, (long long)w->K);
    if (w->absmax_q) {
        PART("weight.absmax", DTYPE_U8, 1, nblock, 0, w->absmax_q);
        PART("weight.nested_absmax", DTYPE_F32, 1, blocks_of(nblock, NF4_NESTED), 0, w->nested_absmax);
        PART("weight.nested_quant_map", DTYPE_F32, 1, 256, 0, w->nested_code);
        buf_addf(&state, ", \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": ", NF4_NESTED);
        json_add_double(&state, (double)w->nested_offset);
    } else {
        PART("weight.absmax", DTYPE_F32, 1, nblock, 0, w->absmax);
    }
    buf_addc(&state, '}');
    snprintf(suffix, sizeof suffix, "weight.quant_state.bitsandbytes__%s", kind);
    PART(suffix, DTYPE_U8, 1, (int64_t)state.len, 0, files_own(f, state.data));
#undef PART
    return (size_t)(t - first);
}

/* A cache that can't be written costs the next start some seconds and nothing else. */
static void write_cache(struct model *m, const char *path, const char *dir)
{
    size_t layers = (size_t)m->spec.layers * MODULES, n = 0;
    struct tensor *parts = xcalloc(layers * 6, sizeof *parts);
    char *tmp = file_tmp_name(dir, "base");
    struct err err;

    for (size_t i = 0; i < layers; i++) {
        const struct weight *w = &m->layers[i / MODULES].lin[i % MODULES];
        char *name = module_name((int)(i / MODULES), (enum module)(i % MODULES));

        if (w->type == DTYPE_NF4 || w->type == DTYPE_FP4 || w->type == DTYPE_INT8) n += add_parts(parts + n, w, name, m->files);
        free(name);
    }
    if (dir_make(&fsys_real, dir, &err) != PAWL_OK || safetensors_write(&fsys_real, tmp, parts, n, NULL, 0, NULL, &err) != PAWL_OK ||
        file_rename(&fsys_real, tmp, path, &err) != PAWL_OK)
        log_warn("the quantised base is not cached: %s", err.text);
    free(tmp);
    free(parts);
}

void quantise_base(struct model *m, struct model_storage storage)
{
    int layers = m->spec.layers, n = 0;
    char *dir = NULL, *path;

    for (int i = 0; i < layers * MODULES; i++) n += wanted(&m->layers[i / MODULES].lin[i % MODULES], storage);
    if (!n) return;
    path = cache_path(m, storage, &dir);
    if (!path || !use_cache(m, storage, path)) {
        const char *kind = storage.storage == STORAGE_8BIT ? "int8" : dtype_info[storage.type].name;

        for (int l = 0; l < layers; l++) {
            for (int mod = 0; mod < MODULES; mod++)
                if (wanted(&m->layers[l].lin[mod], storage)) quantise_weight(&m->layers[l].lin[mod], m->files, storage);
            if (l % 8 == 7) log_debug("quantising the base to %s: layer %d of %d", kind, l + 1, layers);
        }
        if (path) write_cache(m, path, dir);
    }
    free(path);
    free(dir);
}
