#define PCRE2_CODE_UNIT_WIDTH 8
#include "train/model/lora.h"

#include "ckpt/safetensors.h"
#include "kernels/base/fmath.h"
#include "kernels/base/mem.h"
#include "kernels/weight.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gives every module that `on` marks its slices, in the order of theta. */
static void layout_pairs(struct lora *l, const struct model_spec *spec, const bool *on)
{
    l->pairs = spec->layers * MODULES;
    l->pair = xcalloc((size_t)l->pairs, sizeof *l->pair);
    l->n = 0;
    for (int i = 0; i < l->pairs; i++) {
        struct lora_pair *p = &l->pair[i];

        module_shape(spec, i % MODULES, &p->out, &p->in);
        p->a = p->b = -1;
        if (!on[i]) continue;
        p->a = l->n;
        p->b = p->a + (int64_t)l->r * p->in;
        l->n = p->b + (int64_t)p->out * l->r;
    }
}

static void set_scale(struct lora *l)
{
    l->scale = (float)(l->alpha / (l->rslora ? fm_sqrt(l->r) : l->r));
}

static void full_name(char *name, size_t size, int i)
{
    snprintf(name, size, "model.layers.%d.%s", i / MODULES, module_info[i % MODULES].path);
}

/* PEFT's rule for a list: the whole name, or an ending of it behind a dot. */
static bool ends_with_name(const char *full, const char *name)
{
    size_t n = strlen(full), k = strlen(name);

    return k <= n && !strcmp(full + n - k, name) && (k == n || full[n - k - 1] == '.');
}

static enum pawl_status match_list(bool *on, int pairs, const struct str_list *list, struct err *err)
{
    char full[128];

    for (size_t j = 0; j < list->n; j++) {
        int hits = 0;

        for (int i = 0; i < pairs; i++) {
            full_name(full, sizeof full, i);
            if (!ends_with_name(full, list->at[j])) continue;
            on[i] = true;
            hits++;
        }
        if (!hits)
            return err_set(err, PAWL_EINVAL, "lora_target_modules: '%s' matches no linear layer of the model; there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj",
                           list->at[j]);
    }
    return PAWL_OK;
}

static enum pawl_status match_regex(bool *on, int pairs, const char *regex, struct err *err)
{
    int code, hits = 0;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &code, &at, NULL);
    pcre2_match_data *match;
    char text[256];

    if (!re) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return err_set(err, PAWL_EINVAL, "lora_target_modules: '%s' is no regular expression: %s at character %zu", regex, text, (size_t)at);
    }
    match = pcre2_match_data_create_from_pattern(re, NULL);
    for (int i = 0; i < pairs; i++) {
        full_name(text, sizeof text, i);
        on[i] = pcre2_match(re, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, 0, match, NULL) >= 0;
        hits += on[i];
    }
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    if (!hits)
        return err_set(err, PAWL_EINVAL, "lora_target_modules: the expression '%s' matches no full name of a linear layer, such as model.layers.0.self_attn.q_proj", regex);
    return PAWL_OK;
}

enum pawl_status lora_from_config(struct lora *l, const struct model_spec *spec, const struct config *c, struct err *err)
{
    int pairs = spec->layers * MODULES;
    bool *on = xcalloc((size_t)pairs, sizeof *on);
    enum pawl_status st = PAWL_OK;

    *l = (struct lora){.r = (int)c->lora_r, .alpha = c->lora_alpha, .dropout = c->lora_dropout, .rslora = c->peft_use_rslora};
    set_scale(l);
    if (c->lora_target_modules.n) st = match_list(on, pairs, &c->lora_target_modules, err);
    else if (c->lora_target_regex) st = match_regex(on, pairs, c->lora_target_regex, err);
    else memset(on, 1, (size_t)pairs);
    if (st == PAWL_OK) layout_pairs(l, spec, on);
    free(on);
    return st;
}

void lora_free(struct lora *l)
{
    free(l->pair);
    *l = (struct lora){0};
}

void lora_init(const struct lora *l, float *theta, uint64_t seed)
{
    memset(theta, 0, (size_t)l->n * sizeof *theta);
    for (int i = 0; i < l->pairs; i++) {
        const struct lora_pair *p = &l->pair[i];
        struct rng_key key = rng_derive(rng_key(seed), (uint32_t)i, 0, 0x6c6f7261);
        float bound = 1 / (float)fm_sqrt(p->in);
        int64_t n = (int64_t)l->r * p->in;

        if (p->a < 0) continue;
        for (int64_t j = 0; j < n; j += 4) {
            uint32_t w[4];

            philox4x32(w, key, (uint32_t)(j / 4), 0, 0, 0);
            for (int k = 0; k < 4 && j + k < n; k++) theta[p->a + j + k] = (2 * rng_unit(w[k]) - 1) * bound;
        }
    }
}

/* --- PEFT's files */

enum side { SIDE_A, SIDE_B };

static void peft_name(char *name, size_t size, int i, enum side side)
{
    snprintf(name, size, "base_model.model.model.layers.%d.%s.lora_%c.weight", i / MODULES, module_info[i % MODULES].path, side == SIDE_A ? 'A' : 'B');
}

static enum pawl_status check_pair(const struct tensor *t, const char *dir, int64_t rows, int64_t cols, struct err *err)
{
    char found[192];

    if (t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols && (t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16)) return PAWL_OK;
    return err_set(err, PAWL_EFORMAT, "%s: tensor %s: expected shape (%lld, %lld) in f32, f16 or bf16, found %s in %s: is it an adapter of another model?", dir, t->name,
                   (long long)rows, (long long)cols, tensor_shape_text(found, t->rank, t->shape), dtype_info[t->dtype].name);
}

enum pawl_status lora_open(struct lora *l, const struct model_spec *spec, const char *dir, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, LORA_CONFIG), *weights = xasprintf("%s/%s", dir, LORA_WEIGHTS);
    struct json *json = NULL;
    struct safetensors *s = NULL;
    const struct json_value *root;
    int pairs = spec->layers * MODULES;
    bool *on = xcalloc((size_t)pairs, sizeof *on);
    size_t used = 0;
    char name[160];
    int64_t r = 0;
    enum pawl_status st;

    *l = (struct lora){0};
    if ((st = json_parse_file(&json, path, err)) != PAWL_OK || (st = safetensors_open(&s, weights, err)) != PAWL_OK) goto done;
    root = json_root(json);
    if (strcmp(json_string(json_get(root, "peft_type"), "LORA"), "LORA") || json_bool(json_get(root, "use_dora"), false)) {
        st = err_set(err, PAWL_EFORMAT, "%s: only plain LoRA adapters are read, found peft_type %s%s", path, json_string(json_get(root, "peft_type"), "?"),
                     json_bool(json_get(root, "use_dora"), false) ? " with use_dora" : "");
        goto done;
    }
    if (!json_int64(json_get(root, "r"), &r) || r < 1 || r > 65536) {
        st = err_set(err, PAWL_EFORMAT, "%s: r: expected a positive integer", path);
        goto done;
    }
    l->r = (int)r;
    l->alpha = json_number(json_get(root, "lora_alpha"), (double)r);
    l->rslora = json_bool(json_get(root, "use_rslora"), false);
    set_scale(l);
    for (int i = 0; i < pairs; i++) {
        const struct tensor *a, *b;
        int out, in;

        module_shape(spec, i % MODULES, &out, &in);
        peft_name(name, sizeof name, i, SIDE_A);
        a = safetensors_find(s, name);
        peft_name(name, sizeof name, i, SIDE_B);
        b = safetensors_find(s, name);
        if (!a && !b) continue;
        if (!a || !b) {
            st = err_set(err, PAWL_EFORMAT, "%s: tensor %s has no counterpart lora_%c", weights, (a ? a : b)->name, a ? 'B' : 'A');
            goto done;
        }
        if ((st = check_pair(a, weights, r, in, err)) != PAWL_OK || (st = check_pair(b, weights, out, r, err)) != PAWL_OK) goto done;
        on[i] = true;
        used += 2;
    }
    if (used == 0 || used != safetensors_count(s)) {
        st = err_set(err, PAWL_EFORMAT, "%s: %zu of %zu tensors are LoRA pairs of this model's linear layers: is it an adapter of another model, or of layers that are not trained here?",
                     weights, used, safetensors_count(s));
        goto done;
    }
    layout_pairs(l, spec, on);
done:
    safetensors_close(s);
    json_free(json);
    free(on);
    free(path);
    free(weights);
    return st;
}

enum pawl_status lora_read(const struct lora *l, float *theta, const char *dir, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, LORA_WEIGHTS), name[160];
    struct safetensors *s = NULL;
    enum pawl_status st = safetensors_open(&s, path, err);

    for (int i = 0; st == PAWL_OK && i < l->pairs; i++) {
        const struct lora_pair *p = &l->pair[i];

        for (int side = SIDE_A; p->a >= 0 && side <= SIDE_B && st == PAWL_OK; side++) {
            int64_t rows = side == SIDE_A ? l->r : p->out, cols = side == SIDE_A ? p->in : l->r;
            const struct tensor *t;

            peft_name(name, sizeof name, i, side);
            if (!(t = safetensors_find(s, name))) st = err_set(err, PAWL_EFORMAT, "%s: tensor %s is missing", path, name);
            else if ((st = check_pair(t, path, rows, cols, err)) == PAWL_OK)
                weight_row(&(struct weight){.type = t->dtype, .N = 1, .K = rows * cols, .data = t->data}, 0, 0, rows * cols, theta + (side == SIDE_A ? p->a : p->b));
        }
    }
    safetensors_close(s);
    free(path);
    return st;
}

static const struct safetensors_meta lora_meta = {"format", "pt"};

struct lora_tensors {
    struct tensor *at;
    char (*names)[160];
    size_t n;
};

/* In the order of theta. */
static struct lora_tensors list_tensors(const struct lora *l, const float *theta)
{
    struct lora_tensors t = {xcalloc((size_t)l->pairs * 2, sizeof *t.at), xcalloc((size_t)l->pairs * 2, sizeof *t.names), 0};

    for (int i = 0; i < l->pairs; i++) {
        const struct lora_pair *p = &l->pair[i];

        if (p->a < 0) continue;
        peft_name(t.names[t.n], sizeof *t.names, i, SIDE_A);
        t.at[t.n] = (struct tensor){.name = t.names[t.n], .dtype = DTYPE_F32, .rank = 2, .shape = {l->r, p->in}, .data = theta ? theta + p->a : NULL};
        t.n++;
        peft_name(t.names[t.n], sizeof *t.names, i, SIDE_B);
        t.at[t.n] = (struct tensor){.name = t.names[t.n], .dtype = DTYPE_F32, .rank = 2, .shape = {p->out, l->r}, .data = theta ? theta + p->b : NULL};
        t.n++;
    }
    return t;
}

static void free_tensors(struct lora_tensors *t)
{
    free(t->at);
    free(t->names);
}

void lora_header(const struct lora *l, struct buf *out)
{
    struct lora_tensors t = list_tensors(l, NULL);

    safetensors_header(out, t.at, t.n, &lora_meta, 1);
    free_tensors(&t);
}

enum pawl_status lora_write(const struct lora *l, const float *theta, const struct fsys *sys, const char *dir, struct file_sum *sum, struct err *err)
{
    struct lora_tensors t = list_tensors(l, theta);
    char *path = xasprintf("%s/%s", dir, LORA_WEIGHTS);
    enum pawl_status st = safetensors_write(sys, path, t.at, t.n, &lora_meta, 1, sum, err);

    free(path);
    free_tensors(&t);
    return st;
}

/* Whether every layer has an adapter on the module, or none has: then the short name says it. */
static bool same_in_all_layers(const struct lora *l, int mod)
{
    for (int i = mod; i < l->pairs; i += MODULES)
        if ((l->pair[i].a < 0) != (l->pair[mod].a < 0)) return false;
    return true;
}

void lora_config_json(const struct lora *l, const char *base_model, struct buf *out)
{
    bool first = true;
    char name[128];

    buf_adds(out, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n  \"base_model_name_or_path\": ");
    json_add_string(out, base_model, strlen(base_model));
    buf_addf(out, ",\n  \"r\": %d,\n  \"lora_alpha\": ", l->r);
    json_add_double(out, l->alpha);
    buf_adds(out, ",\n  \"lora_dropout\": ");
    json_add_double(out, l->dropout);
    buf_addf(out, ",\n  \"use_rslora\": %s,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n  \"target_modules\": [", l->rslora ? "true" : "false");
    for (int i = 0; i < l->pairs; i++) {
        bool everywhere = same_in_all_layers(l, i % MODULES);

        if (l->pair[i].a < 0 || (everywhere && i >= MODULES)) continue;
        full_name(name, sizeof name, i);
        buf_addf(out, "%s\"%s\"", first ? "" : ", ", everywhere ? module_info[i % MODULES].name : name);
        first = false;
    }
    buf_adds(out, "]\n}\n");
}
