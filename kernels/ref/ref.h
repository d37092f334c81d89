/* The oracle: every op of kernels/ops.h in plain loops that read like its formula. Activations are fp32; every sum runs in double and is
 * rounded once, so that a difference to another backend is that backend's rounding. Slow, single-threaded, not meant to be anything else. */
#ifndef PAWL_REF_H
#define PAWL_REF_H

#include "kernels/ops.h"

#define REF_MAX_D 512 /* head size */

size_t ref_scratch_bytes(const struct dev *dev, const struct dev_shapes *shapes);
void *ref_alloc(struct dev *dev, size_t bytes);
void ref_free(struct dev *dev, void *p, size_t bytes);
void ref_copy(struct dev *dev, void *dst, const void *src, size_t bytes);
void ref_zero(struct dev *dev, void *p, size_t bytes);

void ref_embed(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T);
void ref_gather(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
void ref_scatter(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);

void ref_rmsnorm(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps);
void ref_add_rmsnorm(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps);
void ref_rmsnorm_backward(struct dev *dev, act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C);

void ref_lora_down(struct dev *dev, act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r);
void ref_linear(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r);
void ref_lora_up_backward(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r);
void ref_linear_backward(struct dev *dev, act *dx, const struct linear_term *terms, int nterm, const struct layout *lay);
void ref_lora_grad(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop,
                   const struct layout *lay, int row, int N, int K, int r);

void ref_rope(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse);
void ref_attention(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D);
void ref_attention_backward(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                            const struct layout *lay, int H, int G, int D);
void ref_attention_decode(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence,
                          const int32_t *len, int n, int cap, int H, int G, int D);

void ref_swiglu(struct dev *dev, act *y, const act *gate, const act *up, int64_t n);
void ref_swiglu_backward(struct dev *dev, act *dgate, act *dup, act *y, const act *dy, const act *gate, const act *up, int64_t n);

void ref_head_loss(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale);
void ref_logits(struct dev *dev, float *logits, const act *x, const struct weight *W, int n);

void ref_add(struct dev *dev, float *a, const float *b, int64_t n);
void ref_sum_squares(struct dev *dev, double *out, const float *x, int64_t n, int64_t block);
void ref_adamw(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper);
void ref_round_operand(struct dev *dev, act *operand, const float *theta, int64_t n);

#endif
