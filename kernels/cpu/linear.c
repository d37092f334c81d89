/* The linear layers and LoRA, Hu et al. 2022, eq. 3: each op is a product with a list of terms (gemm.c).
 *     y = x W^T + h B^T        h = s drop(x) A^T        dx = dy W + drop(u A)        u = s dy B        dA = u^T drop(x)        dB = dy^T h
 * Where dropout acts on an operand, what is dropped counts as 0 there and 1 / (1 - p) goes into the factor of the result. */
#include "kernels/cpu/cpu.h"

#include <assert.h>

static struct mask mask_of(struct dropout drop, const struct layout *lay)
{
    return (struct mask){.drop = drop, .lay = drop.p > 0 ? lay : NULL};
}

static struct matrix elems(const act *x, int64_t stride)
{
    return (struct matrix){.x = x, .stride = stride};
}

void OP(lora_down)(struct dev *dev, act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r)
{
    struct gemm g = {.M = lay->T, .N = r, .terms = 1, .scale = s / (1 - drop.p), .y = h, .stride = r};

    g.term[0] = (struct gemm_term){.a = elems(x, K), .b = elems(A, K), .depth = K};
    g.term[0].a.mask = mask_of(drop, lay);
    gemm_run(dev, &g);
}

void OP(linear)(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r)
{
    struct gemm g = {.M = T, .N = W->N, .terms = r ? 2 : 1, .scale = 1, .bias = bias, .y = y, .stride = W->N};

    g.term[0] = (struct gemm_term){.a = elems(x, W->K), .b = {.W = W}, .depth = W->K};
    g.term[1] = (struct gemm_term){.a = elems(h, r), .b = elems(B, r), .depth = r};
    gemm_run(dev, &g);
}

void OP(logits)(struct dev *dev, float *logits, const act *x, const struct weight *W, int n)
{
    struct gemm g = {.M = n, .N = W->N, .terms = 1, .scale = 1, .f = logits, .stride = W->N};

    g.term[0] = (struct gemm_term){.a = elems(x, W->K), .b = {.W = W}, .depth = W->K};
    gemm_run(dev, &g);
}

void OP(lora_up_backward)(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r)
{
    struct gemm g = {.M = T, .N = r, .terms = 1, .scale = s, .y = u, .stride = r};

    g.term[0] = (struct gemm_term){.a = elems(dy, N), .b = elems(B, r), .b_along = COLS, .depth = N};
    gemm_run(dev, &g);
}

void OP(linear_backward)(struct dev *dev, act *dx, const struct linear_term *terms, int nterm, const struct layout *lay)
{
    int64_t K = terms[0].W->K;
    struct gemm g = {.M = lay->T, .N = K, .scale = 1, .y = dx, .stride = K};

    assert(2 * nterm <= GEMM_TERMS);
    for (int i = 0; i < nterm; i++) {
        const struct linear_term *t = &terms[i];

        g.term[g.terms++] = (struct gemm_term){.a = elems(t->dy, t->W->N), .b = {.W = t->W}, .b_along = COLS, .depth = t->W->N};
        if (t->r) g.term[g.terms++] = (struct gemm_term){.a = elems(t->u, t->r), .b = elems(t->A, K), .b_along = COLS, .depth = t->r, .mask = mask_of(t->drop, lay)};
    }
    gemm_run(dev, &g);
}

void OP(lora_grad)(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop, const struct layout *lay, int row,
                   int N, int K, int r)
{
    int64_t t0 = lay->row_start[row], tokens = lay->row_start[row + 1] - t0;
    struct gemm g = {.M = r, .N = N, .terms = 1, .scale = 1, .f = dB, .stride = r, .transposed = true};

    /* The long side makes the panels, which need no turning; dB comes out transposed. */
    g.term[0] = (struct gemm_term){.a = elems((const elem *)h + t0 * r, r), .a_along = COLS, .b = elems((const elem *)dy + t0 * N, N), .b_along = COLS, .depth = tokens};
    gemm_run(dev, &g);
    g = (struct gemm){.M = r, .N = K, .terms = 1, .scale = 1 / (1 - drop.p), .f = dA, .stride = K};
    g.term[0] = (struct gemm_term){.a = elems((const elem *)u + t0 * r, r), .a_along = COLS, .b = elems((const elem *)x + t0 * K, K), .b_along = COLS, .depth = tokens};
    g.term[0].b.mask = mask_of(drop, lay);
    g.term[0].b.mask.token = t0;
    gemm_run(dev, &g);
}
