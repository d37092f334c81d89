/* What a model is: its shapes and its family, read from a Hugging Face config.json or from GGUF metadata. A family is a row of one table. */
#ifndef PAWL_MODEL_SPEC_H
#define PAWL_MODEL_SPEC_H

#include "ckpt/gguf.h"
#include "kernels/base/err.h"
#include "kernels/base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct family {
    const char *name;         /* as messages print it */
    const char *architecture; /* config.json "architectures" */
    const char *gguf;         /* GGUF "general.architecture" */
    bool qkv_bias;            /* q, k and v have a bias */
    bool qk_norm;             /* q and k are normalised per head before RoPE */
    bool gguf_interleaved;    /* llama.cpp's converter stores rotary pairs of q and k side by side */
};

enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_FACTORS };

struct rope_spec {
    double theta;
    enum rope_scaling scaling;
    double factor;                                                    /* LINEAR, LLAMA3 */
    double low_freq_factor, high_freq_factor, original_max_position;  /* LLAMA3 */
    const float *factors;                                             /* FACTORS: D/2 divisors of the frequencies (GGUF rope_freqs); the file's */
};

struct model_spec {
    const struct family *family;
    int layers;
    int C, F, H, G, D; /* hidden, feed-forward, query heads, key/value heads, head size */
    int64_t V;
    int max_position;
    float norm_eps;
    bool tied;         /* the head is the embedding */
    struct rope_spec rope;
};

/* path stands in front of errors. Architectures that are not in the table, and options that would change the arithmetic in a way that is not computed here
 * (sliding windows in use, other activations, other RoPE scalings), are refused by name. */
enum pawl_status spec_from_hf(struct model_spec *spec, const struct json_value *config, const char *path, struct err *err);
/* V, tied and rope.factors depend on the tensors that the file has. */
enum pawl_status spec_from_gguf(struct model_spec *spec, const struct gguf *g, struct err *err);

/* cos and sin of pos * frequency_i: (positions, D/2) each. Su et al. 2021; Llama-3's scaling as in transformers' modeling_rope_utils. */
void spec_rope_tables(const struct model_spec *spec, int positions, float *cos, float *sin);

/* The linear layers of a block, in the order of theta. */
enum module { MODULE_Q, MODULE_K, MODULE_V, MODULE_O, MODULE_GATE, MODULE_UP, MODULE_DOWN, MODULES };
struct module_info {
    const char *name; /* "q_proj": what lora_target_modules lists */
    const char *path; /* "self_attn.q_proj": model.layers.N.PATH in Hugging Face and PEFT names */
    const char *gguf; /* "attn_q": blk.N.GGUF in GGUF names */
};
extern const struct module_info module_info[MODULES];
/* (out, in) features of a module's weight. */
void module_shape(const struct model_spec *spec, enum module m, int *out, int *in);

#endif
