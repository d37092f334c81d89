/* Where a model's tensors come from: one look-up over both kinds of files, with the shape checked. Private to train/model. */
#ifndef PAWL_MODEL_FILES_H
#define PAWL_MODEL_FILES_H

#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"
#include "train/model/model.h"

struct model_files {
    struct safetensors *hf; /* exactly one of the two */
    struct gguf *gguf;
    struct safetensors *quantised; /* the cache, or NULL */
    void **owned;                  /* blocks that live as long as the model: converted norms, scales, codes */
    size_t n_owned;
};

void *files_own(struct model_files *f, void *block); /* takes over a malloc'd block; returns it */

/* The tensor called hf_name or gguf_name in its file, with these dimensions (rank 1: K 0). PAWL_EFORMAT names what is missing or misshapen; where optional, *out = NULL
 * without an error if there is none. */
enum pawl_status files_find(const struct tensor **out, const struct model_files *f, const char *hf_name, const char *gguf_name, int64_t N, int64_t K, bool optional,
                            struct err *err);
const char *files_path(const struct model_files *f);

/* bitsandbytes' serialisation (4-bit and int8): the linear layer `name` ("model.layers.0.mlp.up_proj") as a weight, or *found = false where it is not quantised so. */
enum pawl_status bnb_find(struct weight *w, bool *found, const struct safetensors *s, const char *name, int64_t N, int64_t K, struct err *err);
/* Quantises every linear layer of the model that is not quantised yet; a verified cache file, if there is one, is mapped instead, otherwise it is written. */
void quantise_base(struct model *m, struct model_storage storage);

#endif
