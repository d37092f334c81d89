/* The trainable part: LoRA pairs (Hu et al. 2021) as slices of one flat vector theta, in the order layer, module, A before B.
 * y = x W^T + s (drop(x) A^T) B^T, A (r, in), B (out, r), s = alpha / r, or alpha / sqrt(r) with rank stabilisation (Kalajdzievski 2023). */
#ifndef PAWL_MODEL_LORA_H
#define PAWL_MODEL_LORA_H

#include "ckpt/fileio.h"
#include "kernels/base/rng.h"
#include "train/config/config.h"
#include "train/model/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct lora_pair {
    int64_t a, b; /* offsets in theta of A (r * in) and B (out * r); a is -1 where the module has no adapter */
    int in, out;
};

struct lora {
    int r; /* 0: no adapter at all */
    double alpha, dropout;
    float scale;
    bool rslora;
    int64_t n; /* elements of theta */
    int pairs; /* layers * MODULES */
    struct lora_pair *pair; /* [layer * MODULES + module] */
};

/* Which modules get an adapter, from the configuration: all linear layers, a list of names ("q_proj", or a longer ending of a full name), or one regex over full
 * names. PAWL_EINVAL where nothing matches, or a listed name matches nothing. */
enum pawl_status lora_from_config(struct lora *l, const struct model_spec *spec, const struct config *c, struct err *err);
void lora_free(struct lora *l);

/* A ~ U(-1/sqrt(in), 1/sqrt(in)) as PEFT's kaiming_uniform(a = sqrt(5)), B = 0; a pure function of the seed. */
void lora_init(const struct lora *l, float *theta, uint64_t seed);

/* A PEFT adapter directory. lora_open reads its shape; lora_read its values into theta (n), converted to fp32. A tensor that fits no module is an error. */
enum pawl_status lora_open(struct lora *l, const struct model_spec *spec, const char *dir, struct err *err);
enum pawl_status lora_read(const struct lora *l, float *theta, const char *dir, struct err *err);
/* Writes adapter_model.safetensors into a directory, durable; *sum is what was written. */
enum pawl_status lora_write(const struct lora *l, const float *theta, const struct fsys *sys, const char *dir, struct file_sum *sum, struct err *err);
/* Adds what that file begins with; theta follows, as it lies in memory. */
void lora_header(const struct lora *l, struct buf *out);
/* Adds adapter_config.json's text: the smallest set of keys that old and new PEFT load. */
void lora_config_json(const struct lora *l, const char *base_model, struct buf *out);

#define LORA_WEIGHTS "adapter_model.safetensors"
#define LORA_CONFIG "adapter_config.json"

#endif
