/* The frozen base: mapped read-only from a Hugging Face directory or a GGUF file, in whatever block format it has, or quantised once at start. */
#ifndef PAWL_MODEL_MODEL_H
#define PAWL_MODEL_MODEL_H

#include "kernels/dev.h"
#include "kernels/weight.h"
#include "train/config/config.h"
#include "train/model/spec.h"

#include <stdint.h>

struct layer {
    const float *attn_norm, *ffn_norm; /* (C) */
    const float *q_norm, *k_norm;      /* (D), NULL without qk_norm */
    struct weight lin[MODULES];
    const float *bias[MODULES];        /* (out) or NULL */
};

struct model {
    struct model_spec spec;
    struct weight embed, head; /* (V, C); the same bytes where tied */
    const float *final_norm;   /* (C) */
    struct layer *layers;      /* spec.layers */
    char *path;
    uint64_t identity;         /* hash of names, shapes and sampled blocks of all tensors as the file has them */
    enum dtype storage;        /* of most linear layers: what messages print */
    size_t weight_bytes;       /* of all weights in memory or mapped */
    struct dev *dev;           /* where model_place put them; NULL: they are where the host can read them */
    struct arena placed;
    bool embed_on_host;        /* the embedding stays where the host reads it, also from a device: the net looks rows up for it */
    struct model_files *files;
};

struct model_storage {
    enum config_storage storage; /* what config_base_storage() says */
    enum dtype type;             /* DTYPE_NF4 or DTYPE_FP4 */
    bool double_quant;
};

/* path: a directory or a .gguf file. A missing, misshapen or unreadable tensor is an error that names it. Linear layers are quantised as asked (with progress; the result
 * is kept in the cache directory, verified, and mapped next time); embedding, norms and head stay as the file has them. */
enum pawl_status model_open(struct model **out, const char *path, struct model_storage storage, struct err *err);
/* Bytes of the embedding that embed_on_host would save a device with a memory of its own; 0 where it is the head, too. */
size_t model_embed_bytes(const struct model *m);
/* Puts all weights and norms where the ops of dev read them: nowhere where its memory is the host's, else into its memory, where the host can't. dev must outlive m. */
enum pawl_status model_place(struct model *m, struct dev *dev, struct err *err);
void model_close(struct model *m); /* NULL is allowed */

#endif
