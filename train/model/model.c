#include "train/model/files.h"

#include "kernels/base/hash.h"
#include "kernels/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *files_own(struct model_files *f, void *block)
{
    f->owned = xreallocarray(f->owned, f->n_owned + 1, sizeof *f->owned);
    return f->owned[f->n_owned++] = block;
}

const char *files_path(const struct model_files *f)
{
    return f->gguf ? gguf_path(f->gguf) : safetensors_path(f->hf);
}

enum pawl_status files_find(const struct tensor **out, const struct model_files *f, const char *hf_name, const char *gguf_name, int64_t N, int64_t K, bool optional,
                            struct err *err)
{
    const char *name = f->gguf ? gguf_name : hf_name;
    const struct tensor *t = f->gguf ? gguf_tensor(f->gguf, name) : safetensors_find(f->hf, name);
    int rank = K ? 2 : 1;
    char found[192], expected[192];

    *out = t;
    if (!t && optional) return PAWL_OK;
    if (!t) return err_set(err, PAWL_EFORMAT, "%s: tensor %s is missing", files_path(f), name);
    if (t->rank != rank || t->shape[0] != N || (K && t->shape[1] != K))
        return err_set(err, PAWL_EFORMAT, "%s: tensor %s: expected shape %s, found %s", files_path(f), name, tensor_shape_text(expected, rank, (int64_t[]){N, K}),
                       tensor_shape_text(found, t->rank, t->shape));
    if (!weight_readable(t->dtype)) return err_set(err, PAWL_EFORMAT, "%s: tensor %s: type %s can't be read as a weight", files_path(f), name, dtype_info[t->dtype].name);
    return PAWL_OK;
}

/* A vector in fp32: the file's own bytes where they are fp32 already. */
static enum pawl_status find_vector(const float **out, struct model_files *f, const char *hf_name, const char *gguf_name, int64_t N, bool optional, struct err *err)
{
    const struct tensor *t;
    enum pawl_status st = files_find(&t, f, hf_name, gguf_name, N, 0, optional, err);
    float *x;

    *out = NULL;
    if (st != PAWL_OK || !t) return st;
    if (t->dtype == DTYPE_F32) {
        *out = t->data;
        return PAWL_OK;
    }
    x = files_own(f, xreallocarray(NULL, (size_t)N, sizeof *x));
    weight_row(&(struct weight){.type = t->dtype, .N = 1, .K = N, .data = t->data}, 0, 0, N, x);
    *out = x;
    return PAWL_OK;
}

static enum pawl_status find_matrix(struct weight *w, struct model *m, const char *hf_name, const char *gguf_name, int64_t N, int64_t K, struct err *err)
{
    const struct tensor *t;
    enum pawl_status st = files_find(&t, m->files, hf_name, gguf_name, N, K, false, err);

    if (st != PAWL_OK) return st;
    *w = (struct weight){.type = t->dtype, .N = N, .K = K, .data = t->data};
    return PAWL_OK;
}

static enum pawl_status open_module(struct model *m, int l, enum module mod, struct err *err)
{
    const struct model_spec *s = &m->spec;
    struct layer *layer = &m->layers[l];
    char hf[128], gguf[128];
    int out, in;
    bool found = false;
    enum pawl_status st;

    module_shape(s, mod, &out, &in);
    snprintf(hf, sizeof hf, "model.layers.%d.%s", l, module_info[mod].path);
    if (m->files->hf && (st = bnb_find(&layer->lin[mod], &found, m->files->hf, hf, out, in, err)) != PAWL_OK) return st;
    if (!found) {
        snprintf(hf, sizeof hf, "model.layers.%d.%s.weight", l, module_info[mod].path);
        snprintf(gguf, sizeof gguf, "blk.%d.%s.weight", l, module_info[mod].gguf);
        if ((st = find_matrix(&layer->lin[mod], m, hf, gguf, out, in, err)) != PAWL_OK) return st;
        if (m->files->gguf && s->family->gguf_interleaved && (mod == MODULE_Q || mod == MODULE_K)) layer->lin[mod].interleaved = s->D;
    }
    if (!s->family->qkv_bias || mod > MODULE_V) return PAWL_OK;
    snprintf(hf, sizeof hf, "model.layers.%d.%s.bias", l, module_info[mod].path);
    snprintf(gguf, sizeof gguf, "blk.%d.%s.bias", l, module_info[mod].gguf);
    return find_vector(&layer->bias[mod], m->files, hf, gguf, out, false, err);
}

static enum pawl_status open_layer(struct model *m, int l, struct err *err)
{
    const struct model_spec *s = &m->spec;
    struct layer *layer = &m->layers[l];
    const struct {
        const float **to;
        const char *hf, *gguf;
        int n;
        bool wanted;
    } norms[] = {
        {&layer->attn_norm, "input_layernorm", "attn_norm", s->C, true},
        {&layer->ffn_norm, "post_attention_layernorm", "ffn_norm", s->C, true},
        {&layer->q_norm, "self_attn.q_norm", "attn_q_norm", s->D, s->family->qk_norm},
        {&layer->k_norm, "self_attn.k_norm", "attn_k_norm", s->D, s->family->qk_norm},
    };
    char hf[128], gguf[128];
    enum pawl_status st;

    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        if (!norms[i].wanted) continue;
        snprintf(hf, sizeof hf, "model.layers.%d.%s.weight", l, norms[i].hf);
        snprintf(gguf, sizeof gguf, "blk.%d.%s.weight", l, norms[i].gguf);
        if ((st = find_vector(norms[i].to, m->files, hf, gguf, norms[i].n, false, err)) != PAWL_OK) return st;
    }
    for (int mod = 0; mod < MODULES; mod++)
        if ((st = open_module(m, l, mod, err)) != PAWL_OK) return st;
    return PAWL_OK;
}

/* Names, types, shapes and, of each tensor, its first, middle and last 4 KiB: milliseconds even for a large file, and any other model or conversion differs in it. */
static uint64_t identity_add(uint64_t h, const struct tensor *t)
{
    size_t piece = t->bytes < 4096 ? t->bytes : 4096, places[] = {0, (t->bytes - piece) / 2, t->bytes - piece};

    h = hash64(h, t->name, strlen(t->name));
    h = hash64(h, &t->dtype, sizeof t->dtype);
    h = hash64(h, t->shape, (size_t)t->rank * sizeof *t->shape);
    for (int i = 0; i < 3; i++) h = hash64(h, (const char *)t->data + places[i], piece);
    return h;
}

static uint64_t identity(const struct model_files *f)
{
    size_t n = f->gguf ? gguf_tensor_count(f->gguf) : safetensors_count(f->hf);
    uint64_t h = 0;

    for (size_t i = 0; i < n; i++) h = identity_add(h, f->gguf ? gguf_tensor_at(f->gguf, i) : safetensors_at(f->hf, i));
    return h;
}

static enum pawl_status open_hf(struct model *m, const char *dir, struct err *err)
{
    char *path = xasprintf("%s/config.json", dir);
    struct json *json = NULL;
    enum pawl_status st;

    if ((st = json_parse_file(&json, path, err)) != PAWL_OK) goto done;
    if ((st = spec_from_hf(&m->spec, json_root(json), path, err)) != PAWL_OK) goto done;
    if ((st = safetensors_open(&m->files->hf, dir, err)) != PAWL_OK) goto done;
    /* Some exports name the head of a tied model, and some untied configurations come without one. */
    if (!m->spec.tied && !safetensors_find(m->files->hf, "lm_head.weight"))
        st = err_set(err, PAWL_EFORMAT, "%s: tensor lm_head.weight is missing and tie_word_embeddings is not true", dir);
done:
    json_free(json);
    free(path);
    return st;
}

static enum pawl_status open_files(struct model *m, const char *path, struct err *err)
{
    struct stat sb;
    enum pawl_status st;

    if (stat(path, &sb) != 0) return err_sys(err, "base_model %s", path);
    if (S_ISDIR(sb.st_mode)) return open_hf(m, path, err);
    if ((st = gguf_open(&m->files->gguf, path, err)) != PAWL_OK) return st;
    return spec_from_gguf(&m->spec, m->files->gguf, err);
}

/* Codes and block scales; bitsandbytes' scales beside them add 1 in 63 at most. */
static size_t weight_bytes(const struct model *m)
{
    size_t total = dtype_bytes(m->embed.type, m->embed.N * m->embed.K) + (m->spec.tied ? 0 : dtype_bytes(m->head.type, m->head.N * m->head.K));

    for (int i = 0; i < m->spec.layers * MODULES; i++) {
        const struct weight *w = &m->layers[i / MODULES].lin[i % MODULES];
        total += dtype_bytes(w->type, w->N * w->K);
    }
    return total;
}

enum pawl_status model_open(struct model **out, const char *path, struct model_storage storage, struct err *err)
{
    struct model *m = xcalloc(1, sizeof *m);
    struct model_spec *s = &m->spec;
    enum pawl_status st;

    m->files = xcalloc(1, sizeof *m->files);
    m->path = xstrdup(path);
    if ((st = open_files(m, path, err)) != PAWL_OK) goto done;
    m->layers = xcalloc((size_t)s->layers, sizeof *m->layers);
    for (int l = 0; l < s->layers; l++)
        if ((st = open_layer(m, l, err)) != PAWL_OK) goto done;
    if ((st = find_matrix(&m->embed, m, "model.embed_tokens.weight", "token_embd.weight", s->V, s->C, err)) != PAWL_OK) goto done;
    if ((st = find_vector(&m->final_norm, m->files, "model.norm.weight", "output_norm.weight", s->C, false, err)) != PAWL_OK) goto done;
    m->head = m->embed;
    if (!s->tied && (st = find_matrix(&m->head, m, "lm_head.weight", "output.weight", s->V, s->C, err)) != PAWL_OK) goto done;
    m->identity = identity(m->files);
    quantise_base(m, storage);
    m->storage = m->layers[0].lin[MODULE_UP].type;
    m->weight_bytes = weight_bytes(m);
    *out = m;
    m = NULL;
done:
    model_close(m);
    return st;
}

void model_close(struct model *m)
{
    if (!m) return;
    if (m->dev) dev_arena_free(m->dev, &m->placed);
    for (size_t i = 0; i < m->files->n_owned; i++) free(m->files->owned[i]);
    free(m->files->owned);
    safetensors_close(m->files->hf);
    safetensors_close(m->files->quantised);
    gguf_close(m->files->gguf);
    free(m->files);
    free(m->layers);
    free(m->path);
    free(m);
}
