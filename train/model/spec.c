#include "train/model/spec.h"

#include "kernels/base/fmath.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct family families[] = {
    {"Llama", "LlamaForCausalLM", "llama", false, false, true},
    {"Qwen2", "Qwen2ForCausalLM", "qwen2", true, false, false},
    {"Qwen3", "Qwen3ForCausalLM", "qwen3", false, true, false},
};
enum { FAMILIES = sizeof families / sizeof *families };

const struct module_info module_info[MODULES] = {
    [MODULE_Q] = {"q_proj", "self_attn.q_proj", "attn_q"},
    [MODULE_K] = {"k_proj", "self_attn.k_proj", "attn_k"},
    [MODULE_V] = {"v_proj", "self_attn.v_proj", "attn_v"},
    [MODULE_O] = {"o_proj", "self_attn.o_proj", "attn_output"},
    [MODULE_GATE] = {"gate_proj", "mlp.gate_proj", "ffn_gate"},
    [MODULE_UP] = {"up_proj", "mlp.up_proj", "ffn_up"},
    [MODULE_DOWN] = {"down_proj", "mlp.down_proj", "ffn_down"},
};

void module_shape(const struct model_spec *spec, enum module m, int *out, int *in)
{
    int q = spec->H * spec->D, kv = spec->G * spec->D;

    *out = m == MODULE_Q ? q : m == MODULE_K || m == MODULE_V ? kv : m == MODULE_GATE || m == MODULE_UP ? spec->F : spec->C;
    *in = m == MODULE_O ? q : m == MODULE_DOWN ? spec->F : spec->C;
}

static enum pawl_status unknown_family(const char *path, const char *found, size_t len, struct err *err)
{
    char known[256] = "";

    for (int i = 0; i < FAMILIES; i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", families[i].name);
    }
    return err_set(err, PAWL_EFORMAT, "%s: architecture '%.*s' is not supported; supported are %s", path, (int)len, found, known);
}

/* Bounds that keep every later product of shapes within int64 and every single one within int. */
static enum pawl_status check_shapes(const struct model_spec *s, const char *path, struct err *err)
{
    const struct {
        const char *name;
        int64_t value, max;
    } shapes[] = {
        {"layers", s->layers, 1024},      {"hidden size", s->C, 1 << 17}, {"intermediate size", s->F, 1 << 19}, {"attention heads", s->H, 1024},
        {"key/value heads", s->G, 1024},  {"head size", s->D, 1024},      {"vocabulary size", s->V, 1 << 24},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].value < 1 || shapes[i].value > shapes[i].max)
            return err_set(err, PAWL_EFORMAT, "%s: %s: expected 1 to %lld, found %lld", path, shapes[i].name, (long long)shapes[i].max,
                           (long long)shapes[i].value);
    if (s->H % s->G) return err_set(err, PAWL_EFORMAT, "%s: %d attention heads are not a multiple of %d key/value heads", path, s->H, s->G);
    if (s->D % 2) return err_set(err, PAWL_EFORMAT, "%s: head size %d is odd, rotary embeddings need pairs", path, s->D);
    if (!(s->norm_eps > 0) || !(s->rope.theta > 1))
        return err_set(err, PAWL_EFORMAT, "%s: norm epsilon %g or RoPE base %g is out of range", path, (double)s->norm_eps, s->rope.theta);
    return PAWL_OK;
}

/* config.json has "rope_parameters" since transformers 5, "rope_theta" and "rope_scaling" before. */
static enum pawl_status read_rope(struct rope_spec *rope, const struct json_value *config, const char *path, struct err *err)
{
    const struct json_value *params = json_get(config, "rope_parameters"), *scaling = params ? params : json_get(config, "rope_scaling");
    const char *type = json_string(json_get(scaling, "rope_type"), json_string(json_get(scaling, "type"), "default"));

    rope->theta = json_number(json_get(params, "rope_theta"), json_number(json_get(config, "rope_theta"), 10000));
    rope->factor = json_number(json_get(scaling, "factor"), 1);
    if (!strcmp(type, "default")) {
        rope->scaling = ROPE_PLAIN;
    } else if (!strcmp(type, "linear")) {
        rope->scaling = ROPE_LINEAR;
    } else if (!strcmp(type, "llama3")) {
        rope->scaling = ROPE_LLAMA3;
        rope->low_freq_factor = json_number(json_get(scaling, "low_freq_factor"), 0);
        rope->high_freq_factor = json_number(json_get(scaling, "high_freq_factor"), 0);
        rope->original_max_position = json_number(json_get(scaling, "original_max_position_embeddings"), 0);
        if (!(rope->low_freq_factor > 0) || !(rope->high_freq_factor > rope->low_freq_factor) || !(rope->original_max_position > 0))
            return err_set(err, PAWL_EFORMAT, "%s: rope_scaling of type llama3 needs low_freq_factor < high_freq_factor and original_max_position_embeddings",
                           path);
    } else {
        return err_set(err, PAWL_EFORMAT, "%s: rope_scaling of type '%s' is not supported; supported are default, linear and llama3", path, type);
    }
    if (!(rope->factor > 0)) return err_set(err, PAWL_EFORMAT, "%s: rope_scaling: factor: expected a positive number, found %g", path, rope->factor);
    return PAWL_OK;
}

static int read_int(const struct json_value *config, const char *key, int fallback)
{
    int64_t n;

    return json_int64(json_get(config, key), &n) && n >= INT32_MIN && n <= INT32_MAX ? (int)n : fallback;
}

enum pawl_status spec_from_hf(struct model_spec *spec, const struct json_value *config, const char *path, struct err *err)
{
    const char *arch = json_string(json_at(json_get(config, "architectures"), 0), ""), *act = json_string(json_get(config, "hidden_act"), "silu");
    struct model_spec s = {0};
    enum pawl_status st;

    for (int i = 0; i < FAMILIES; i++)
        if (!strcmp(arch, families[i].architecture)) s.family = &families[i];
    if (!s.family) return unknown_family(path, arch, strlen(arch), err);
    if (strcmp(act, "silu")) return err_set(err, PAWL_EFORMAT, "%s: hidden_act '%s' is not supported; supported is silu", path, act);
    if (json_bool(json_get(config, "use_sliding_window"), false))
        return err_set(err, PAWL_EFORMAT, "%s: use_sliding_window is true: sliding-window attention is not supported", path);
    if (json_bool(json_get(config, "mlp_bias"), false) || (json_bool(json_get(config, "attention_bias"), false) && !s.family->qkv_bias))
        return err_set(err, PAWL_EFORMAT, "%s: mlp_bias and attention_bias are not supported for %s", path, s.family->name);
    s.layers = read_int(config, "num_hidden_layers", 0);
    s.C = read_int(config, "hidden_size", 0);
    s.F = read_int(config, "intermediate_size", 0);
    s.H = read_int(config, "num_attention_heads", 0);
    s.G = read_int(config, "num_key_value_heads", s.H);
    s.D = read_int(config, "head_dim", s.H > 0 ? s.C / s.H : 0);
    s.V = read_int(config, "vocab_size", 0);
    s.max_position = read_int(config, "max_position_embeddings", 2048);
    s.norm_eps = (float)json_number(json_get(config, "rms_norm_eps"), 1e-6);
    s.tied = json_bool(json_get(config, "tie_word_embeddings"), false);
    if ((st = read_rope(&s.rope, config, path, err)) != PAWL_OK || (st = check_shapes(&s, path, err)) != PAWL_OK) return st;
    *spec = s;
    return PAWL_OK;
}

enum pawl_status spec_from_gguf(struct model_spec *spec, const struct gguf *g, struct err *err)
{
    const char *path = gguf_path(g);
    struct gguf_string arch = {"", 0}, scaling = {"", 0};
    struct model_spec s = {0};
    int64_t n[6] = {0}, D = 0;
    double eps = 0, factor = 1;
    const struct tensor *embd = gguf_tensor(g, "token_embd.weight"), *freqs = gguf_tensor(g, "rope_freqs.weight");
    char key[128];
    enum pawl_status st;

    gguf_text(g, "general.architecture", &arch);
    for (int i = 0; i < FAMILIES; i++)
        if (strlen(families[i].gguf) == arch.len && !memcmp(families[i].gguf, arch.data, arch.len)) s.family = &families[i];
    if (!s.family) return unknown_family(path, arch.data, arch.len, err);
    const char *keys[] = {"block_count", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv", "context_length"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "%s.%s", s.family->gguf, keys[i]);
        if (!gguf_int(g, key, &n[i]) && i == 4) n[4] = n[3];
        if (n[i] < 1 || n[i] > 1 << 24)
            return err_set(err, PAWL_EFORMAT, "%s: %s: expected a positive integer, found %s", path, key, n[i] ? "one out of range" : "none");
    }
    s.layers = (int)n[0], s.C = (int)n[1], s.F = (int)n[2], s.H = (int)n[3], s.G = (int)n[4], s.max_position = (int)n[5];
    snprintf(key, sizeof key, "%s.attention.key_length", s.family->gguf);
    s.D = gguf_int(g, key, &D) && D > 0 && D < 1 << 16 ? (int)D : s.C / s.H;
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", s.family->gguf);
    gguf_float(g, key, &eps);
    s.norm_eps = (float)eps;
    s.rope.theta = 10000;
    snprintf(key, sizeof key, "%s.rope.freq_base", s.family->gguf);
    gguf_float(g, key, &s.rope.theta);
    snprintf(key, sizeof key, "%s.rope.scaling.type", s.family->gguf);
    if (gguf_text(g, key, &scaling) && scaling.len == 6 && !memcmp(scaling.data, "linear", 6)) {
        snprintf(key, sizeof key, "%s.rope.scaling.factor", s.family->gguf);
        gguf_float(g, key, &factor);
        s.rope.scaling = ROPE_LINEAR;
    } else if (scaling.len && !(scaling.len == 4 && !memcmp(scaling.data, "none", 4))) {
        return err_set(err, PAWL_EFORMAT, "%s: %s '%.*s' is not supported; supported are none and linear", path, key, (int)scaling.len, scaling.data);
    }
    if (!(factor > 0)) return err_set(err, PAWL_EFORMAT, "%s: %s: expected a positive number, found %g", path, key, factor);
    s.rope.factor = factor;
    if (!embd || embd->rank != 2) return err_set(err, PAWL_EFORMAT, "%s: tensor token_embd.weight is missing: is this a vocabulary-only file?", path);
    s.V = embd->shape[0];
    s.tied = !gguf_tensor(g, "output.weight");
    if ((st = check_shapes(&s, path, err)) != PAWL_OK) return st;
    if (freqs) {
        if (freqs->dtype != DTYPE_F32 || freqs->rank != 1 || freqs->shape[0] != s.D / 2)
            return err_set(err, PAWL_EFORMAT, "%s: tensor rope_freqs.weight: expected f32 (%d), found %s of rank %d", path, s.D / 2,
                           dtype_info[freqs->dtype].name, freqs->rank);
        s.rope.scaling = ROPE_FACTORS;
        s.rope.factors = freqs->data;
    }
    *spec = s;
    return PAWL_OK;
}

/* Frequencies below a wavelength limit stay, above it they are divided by factor, with a ramp between (Llama 3.1's "llama3" scaling). */
static double llama3_frequency(const struct rope_spec *r, double freq)
{
    double wavelength = 2 * M_PI / freq, low = r->original_max_position / r->low_freq_factor, high = r->original_max_position / r->high_freq_factor;
    double smooth;

    if (wavelength < high) return freq;
    if (wavelength > low) return freq / r->factor;
    smooth = (r->original_max_position / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

void spec_rope_tables(const struct model_spec *spec, int positions, float *cos, float *sin)
{
    const struct rope_spec *r = &spec->rope;
    int half = spec->D / 2;

    for (int i = 0; i < half; i++) {
        /* Frequencies and angles are rounded to fp32 as the references do: an angle near 10^4 would otherwise differ from theirs by 10^-4. */
        float freq = (float)(1 / fm_pow(r->theta, 2.0 * i / spec->D));

        if (r->scaling == ROPE_LINEAR) freq = (float)((double)freq / r->factor);
        if (r->scaling == ROPE_LLAMA3) freq = (float)llama3_frequency(r, freq);
        if (r->scaling == ROPE_FACTORS) freq = freq / r->factors[i];
        for (int pos = 0; pos < positions; pos++) {
            float angle = (float)pos * freq;
            cos[(int64_t)pos * half + i] = (float)fm_cos(angle);
            sin[(int64_t)pos * half + i] = (float)fm_sin(angle);
        }
    }
}
