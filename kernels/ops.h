/* What a backend provides: THE contract. kernels/ref states every op in scalar fp32 and is the oracle of all others.
 *
 * T tokens of the micro-batch, C hidden, F feed-forward, H query heads, G key/value heads (H a multiple of G), D head size, V vocabulary, r LoRA rank, S supervised rows.
 * `act` is an element of an activation: bf16, or fp32 where dev->act says so; sums are fp32. "=" overwrites, "+=" accumulates. No aliasing unless said.
 * Every result is the same bit for bit for any number of threads, and a token's (a row's) result does not depend on which other tokens (rows) are in the micro-batch:
 * sums over C, F, N, V run in an order that T does not change, sums over tokens run within one row from its first token on.
 * T, S and rows may be 0. Work is queued on the device's stream; on the CPU it is done on return. */
#ifndef PAWL_OPS_H
#define PAWL_OPS_H

#include "kernels/base/rng.h"
#include "kernels/dev.h"
#include "kernels/weight.h"

typedef void act;

/* How the T tokens of a micro-batch fall into rows (the unit of the gradient tree: one packed bin or one example) and examples (the unit of attention). The arrays are the device's. */
struct layout {
    int T;
    int rows, examples;
    const int32_t *row_start;     /* (rows + 1) first token of each row */
    const int32_t *example_start; /* (examples + 1) first token of each example; an example never crosses a row */
    const int32_t *pos;           /* (T) position of a token in its example */
    int64_t first_row;            /* index in the global batch of row 0 */
    const int32_t *host_row_start; /* row_start in memory of the host, where that is another; NULL: row_start itself */
};

/* The inverted dropout of a LoRA input. Element (t, k) of a row is kept where rng_unit(w[k % 4]) >= p, w = philox(key, k / 4, t counted from the row's start,
 * index of the row in the global batch, 0), and then multiplied by 1 / (1 - p). key is derived from (seed, step, site). p == 0: none. */
struct dropout {
    float p;
    struct rng_key key;
};

/* One term of a linear layer's input gradient: dx += dy W + drop(u A), where u (T, r) = s dy B. A is (r, K), u and A are NULL where r is 0. */
struct linear_term {
    const act *dy; /* (T, W->N) */
    const struct weight *W;
    const act *u, *A;
    int r;
    struct dropout drop;
};

/* The factors of one step of AdamW, each computed in double and rounded once (optim/adamw.h fills it), so that no backend computes one of its own. */
struct adamw {
    float clip;      /* the gradient is multiplied by this first */
    float decay;     /* 1 - lr weight_decay */
    float rest1;     /* 1 - beta1 */
    float beta2;
    float rest2;     /* 1 - beta2 */
    float root;      /* sqrt(1 - beta2^step) */
    float eps;
    float step_size; /* lr / (1 - beta1^step) */
};

struct ops {
    const char *name;

    /* Bytes of dev->scratch that the ops below need for these shapes. */
    size_t (*scratch_bytes)(const struct dev *dev, const struct dev_shapes *shapes);
    /* The first failure of queued or finished work since the device was opened, as one line; ops after it do nothing. NULL: ops cannot fail. */
    enum pawl_status (*check)(struct dev *dev, struct err *err);
    /* Bytes that alloc can still give. NULL: the memory of the host. */
    size_t (*available)(struct dev *dev);
    /* What ops are queued on (a cudaStream_t), for a library that queues work of its own; and whether all that was queued is done, or failed. NULL: ops are done when they return. */
    void *(*queue)(struct dev *dev);
    bool (*idle)(struct dev *dev);
    /* Memory of the device, zeroed; NULL: none left. */
    void *(*alloc)(struct dev *dev, size_t bytes);
    void (*free)(struct dev *dev, void *p, size_t bytes);
    /* Copies between host and device see what was queued before them. upload: src is the caller's again on return. download waits. */
    void (*upload)(struct dev *dev, void *dst, const void *src, size_t bytes);
    void (*download)(struct dev *dev, void *dst, const void *src, size_t bytes);
    /* Where the device has a memory of its own, else NULL: a download that work goes on beside (dev_copy_out), the wait for all of those, and memory of the host that copies are to run at
     * full speed to and from: pinned until it is unpinned; where that can't be had copies are slower, and that is all. */
    void (*copy_out)(struct dev *dev, void *dst, const void *src, size_t bytes);
    void (*copied_out)(struct dev *dev);
    bool (*pin)(struct dev *dev, void *p, size_t bytes);
    void (*unpin)(struct dev *dev, void *p);
    void (*copy)(struct dev *dev, void *dst, const void *src, size_t bytes); /* within the device */
    void (*zero)(struct dev *dev, void *p, size_t bytes);

    /* y (T, C) = W[ids[t]]. */
    void (*embed)(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T);

    /* y (n, C) = x / rms(x) * w, rms(x) = sqrt(mean(x^2) + eps), Zhang & Sennrich 2019, eq. 4. w (C) fp32. rstd (n) = 1 / rms is kept where not NULL. y may be x. */
    void (*rmsnorm)(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps);
    /* sum = x + d (n, C), rounded, then y = rmsnorm(sum): the residual stream and the norm that reads it in one pass. sum may be x or d. */
    void (*add_rmsnorm)(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps);
    /* dx (n, C) = base + d rmsnorm / dx applied to dy; base NULL: 0. base and dy may be dx. w is frozen. */
    void (*rmsnorm_backward)(struct dev *dev, act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C);

    /* h (T, r) = s drop(x (T, K)) A (r, K)^T. */
    void (*lora_down)(struct dev *dev, act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r);
    /* y (T, N) = [x (T, K) | h (T, r)] [W (N, K) | B (N, r)]^T + bias. h, B NULL where r is 0; bias (N) fp32 or NULL. */
    void (*linear)(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r);
    /* u (T, r) = s dy (T, N) B (N, r). */
    void (*lora_up_backward)(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r);
    /* dx (T, K) = the sum of the terms, in their order, in fp32 before one rounding. */
    void (*linear_backward)(struct dev *dev, act *dx, const struct linear_term *terms, int nterm, const struct layout *lay);
    /* Gradients of one row's LoRA pair in fp32: dB (N, r) = dy^T h, dA (r, K) = u^T drop(x), sums over the tokens of row `row` of the layout. */
    void (*lora_grad)(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop,
                      const struct layout *lay, int row, int N, int K, int r);

    /* x (T, heads, D), in place: pairs (i, i + D/2) turned by pos[t] * freq_i; cos and sin (maximum position, D/2) fp32. inverse: the other way round (backward). Su et al. 2021. */
    void (*rope)(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse);

    /* o (T, H, D) = softmax(q k^T / sqrt(D)) v within each example, causal. q (T, H, D), k and v (T, G, D); lse (T, H) fp32, natural log, is kept for backward where not NULL.
     * No buffer of T x T. Dao et al. 2022, algorithm 1. */
    void (*attention)(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D);
    /* dq, dk, dv = gradients; o and lse from forward. algorithm 4. */
    void (*attention_backward)(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                               const struct layout *lay, int H, int G, int D);
    /* One new token for each of n sequences: o (n, H, D) from q (n, H, D) and caches (sequences, cap, G, D); token i belongs to sequence[i], of which the first len[i] positions
     * are set (the new token's own included). */
    void (*attention_decode)(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H,
                             int G, int D);

    /* y = silu(gate) * up, n elements. y may be gate or up. */
    void (*swiglu)(struct dev *dev, act *y, const act *gate, const act *up, int64_t n);
    /* dgate, dup from dy, and y = silu(gate) * up once more where y is not NULL. dgate may be gate, dup may be up, y may be dy. */
    void (*swiglu_backward)(struct dev *dev, act *dgate, act *dup, act *y, const act *dy, const act *gate, const act *up, int64_t n);

    /* y[i] = x[index[i]], and y[index[i]] = x[i] with the other rows of y untouched (indices differ); i < n, rows of C. */
    void (*gather)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
    void (*scatter)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);

    /* loss[i] = -log softmax(x[i] W^T)[target[i]] over S rows x (S, C), never holding all logits. dx (S, C) = scale (softmax(..) W - W[target]) where not NULL
     * (dx may be x); argmax (S), the lowest index of the largest logit, where not NULL. */
    void (*head_loss)(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale);
    /* logits (n, V) fp32 = x (n, C) W^T: for sampling a few rows. */
    void (*logits)(struct dev *dev, float *logits, const act *x, const struct weight *W, int n);

    /* a += b, n fp32. A node of the gradient tree. */
    void (*add)(struct dev *dev, float *a, const float *b, int64_t n);
    /* out[i] = sum of squares of block i of `block` elements (the last may be short), each in a fixed order. */
    void (*sum_squares)(struct dev *dev, double *out, const float *x, int64_t n, int64_t block);
    /* out[i] = hash64(first + i, block i of `block` elements). NULL where the host can read x: it hashes by itself. */
    void (*block_hashes)(struct dev *dev, uint64_t *out, const float *x, int64_t n, int64_t block, uint64_t first);
    /* One step of AdamW (Loshchilov & Hutter 2019, algorithm 2) on n elements of theta, m, v, in torch.optim.AdamW's order, one rounding an operation and no fma, so that
     * every backend gives the same bits:  g' = clip g;  theta = decay theta;  m = m + rest1 (g' - m);  v = beta2 v + (rest2 g') g';
     * theta = theta - (step_size m) / (sqrt(v) / root + eps);  operand (act) = theta rounded. */
    void (*adamw)(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper);
    /* operand (act) = theta; where act is fp32 operand may be theta, here and in adamw. */
    void (*round_operand)(struct dev *dev, act *operand, const float *theta, int64_t n);
};

/* The table of the scalar oracle (fp32 activations). */
extern const struct ops ref_ops;

#endif
