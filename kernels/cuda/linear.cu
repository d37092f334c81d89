/* Linear layers with LoRA: Hu et al. 2022, eq. 3. All products are cuBLASLt's (blas.cu).
 *
 * forward   y = h B^T, then y = x W^T + 1 y: the rank-r part is rounded once to bf16 before the sum, 2^-9 of a small term. With a bias both products go to fp32 sums first.
 * backward  one term: dx = drop(u A), then dx = dy W + 1 dx. Several: fp32 sums, rounded at the end.
 * dropout   its mask is applied to a bf16 copy of x, exactly; the factor 1 / (1 - p) goes into alpha.
 * A pass that needs room works on as many tokens at a time as there is room for. */
#include "kernels/cuda/vec.cuh"

#define THREADS 128

/* Tokens [first, first + n) of the micro-batch. */
struct part {
    int64_t first, n;
};

/* The layout's part that a mask depends on. */
struct mask {
    float p;
    uint32_t key[2];
    const int32_t *row_start;
    int rows;
    int64_t first_row;
};

POINTERS_OF(struct mask, s.row_start)

static struct mask mask_of(const struct dropout *drop, const struct layout *lay)
{
    return {drop->p, {drop->key.k[0], drop->key.k[1]}, lay->row_start, lay->rows, lay->first_row};
}

/* Which of the elements 4 k4 .. 4 k4 + 3 of token t are kept. */
static __device__ __forceinline__ void kept(bool keep[4], const struct mask &m, int row, int64_t t, int64_t k4)
{
    uint32_t w[4] = {(uint32_t)k4, (uint32_t)(t - m.row_start[row]), (uint32_t)(m.first_row + row), 0};

    philox(w, m.key[0], m.key[1]);
    for (int i = 0; i < 4; i++) keep[i] = (float)(w[i] >> 8) * 0x1p-24f >= m.p;
}

/* out (n, K) = x of tokens first .. first + n where kept, 0 elsewhere. One thread block a token. wide: four elements of both lie on 8 bytes. */
static __global__ void mask_kernel(bf16 *out, const bf16 *x, struct mask m, int64_t first, int K, bool wide)
{
    int64_t t = first + blockIdx.x;
    int row = find_row(m.row_start, m.rows, (int)t);

    for (int k = (int)threadIdx.x * 4; k < K; k += THREADS * 4) {
        bool keep[4];

        kept(keep, m, row, t, k / 4);
        if (wide) {
            uint2 four = *(const uint2 *)(x + t * K + k);

            four.x &= (keep[0] ? 0xffffu : 0) | (keep[1] ? 0xffff0000u : 0);
            four.y &= (keep[2] ? 0xffffu : 0) | (keep[3] ? 0xffff0000u : 0);
            *(uint2 *)(out + (int64_t)blockIdx.x * K + k) = four;
            continue;
        }
        for (int i = 0; i < 4 && k + i < K; i++) out[(int64_t)blockIdx.x * K + k + i] = keep[i] ? x[t * K + k + i] : 0;
    }
}

/* out (n, K) = or += drop(u A) for tokens first .. first + n. A thread has four columns of PRODUCT_TOKENS tokens. */
#define PRODUCT_TOKENS 8

template <typename T, bool ADD>
static __global__ void product_kernel(T *out, const bf16 *u, const bf16 *A, struct mask m, float scale, int64_t first, int64_t n, int K, int r)
{
    int k = ((int)blockIdx.y * THREADS + (int)threadIdx.x) * 4;
    int64_t t0 = (int64_t)blockIdx.x * PRODUCT_TOKENS;
    float sum[PRODUCT_TOKENS][4] = {};

    if (k >= K) return;
    for (int i = 0; i < r; i++) {
        float a[4] = {};

        for (int j = 0; j < 4; j++)
            if (k + j < K) a[j] = from_bf16(A[(int64_t)i * K + k + j]);
#pragma unroll
        for (int t = 0; t < PRODUCT_TOKENS; t++)
            if (t0 + t < n) {
                float ui = from_bf16(u[(first + t0 + t) * r + i]);

                for (int j = 0; j < 4; j++) sum[t][j] = fmaf(ui, a[j], sum[t][j]);
            }
    }
#pragma unroll
    for (int t = 0; t < PRODUCT_TOKENS; t++)
        if (t0 + t < n) {
            int64_t token = first + t0 + t;
            bool keep[4];

            kept(keep, m, find_row(m.row_start, m.rows, (int)token), token, k / 4);
            for (int j = 0; j < 4 && k + j < K; j++) {
                T *to = out + (t0 + t) * K + k + j;
                float value = keep[j] ? sum[t][j] * scale : 0;

                if (sizeof(T) == 2) *(bf16 *)to = to_bf16(value);
                else *(float *)to = ADD ? *(float *)to + value : value;
            }
        }
}

static void launch_mask(struct cuda *c, bf16 *out, const bf16 *x, const struct dropout *drop, const struct layout *lay, int64_t first, int64_t n, int K)
{
    bool wide = K % 4 == 0 && ((uintptr_t)out | (uintptr_t)x) % 8 == 0;

    LAUNCH(c, c->main, (unsigned)n, THREADS, 0, mask_kernel, out, x, mask_of(drop, lay), first, K, wide);
}

/* y (n, N) = sum + bias. One thread block a token. */
static __global__ void bias_kernel(bf16 *y, const float *sum, const float *bias, int N)
{
    int64_t row = (int64_t)blockIdx.x * N;

    for (int k = (int)threadIdx.x; k < N; k += THREADS) y[row + k] = to_bf16(sum[row + k] + bias[k]);
}

static float keep_scale(const struct dropout *drop) { return (float)(1 / (1 - (double)drop->p)); }

/* The next part behind `done` that `width` bytes of room a token suffice for. */
static bool next_part(struct dev *dev, struct part *p, int64_t T, size_t width)
{
    struct cuda *c = cuda_of(dev);
    int64_t fit = (int64_t)(cuda_room_bytes(dev) / width);

    p->first += p->n;
    p->n = smaller(T - p->first, fit);
    if (p->first < T && fit == 0) cuda_fail(c, "the scratch has no room for one token of %zu bytes", width);
    return p->first < T && fit > 0 && c->failed.status == PAWL_OK;
}

void cuda_lora_down(struct dev *dev, act *h, const act *px, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r)
{
    struct cuda *c = cuda_of(dev);
    const bf16 *x = (const bf16 *)px;
    struct gemm g = {lay->T, r, K, x, (const bf16 *)A, K, K, r, false, true, h, false, s, 0};

    if (drop.p == 0) {
        cuda_gemm(dev, &g);
        return;
    }
    g.alpha = s * keep_scale(&drop);
    for (struct part p = {0, 0}; next_part(dev, &p, lay->T, (size_t)K * 2);) {
        bf16 *masked = (bf16 *)cuda_room(dev, (size_t)(p.n * K) * 2, "dropout");

        launch_mask(c, masked, x, &drop, lay, p.first, p.n, K);
        g.M = p.n, g.A = masked, g.D = (bf16 *)h + p.first * r;
        cuda_gemm(dev, &g);
    }
}

/* y (T, N) through fp32 sums, for a bias. */
static void linear_with_bias(struct dev *dev, bf16 *y, const struct gemm *base, const struct gemm *lora, const float *bias, int T)
{
    struct cuda *c = cuda_of(dev);
    int64_t N = base->N;

    for (struct part p = {0, 0}; next_part(dev, &p, T, (size_t)N * 4);) {
        float *sum = (float *)cuda_room(dev, (size_t)(p.n * N) * 4, "a linear layer");
        struct gemm product[2] = {*base, *lora};

        for (int i = 0; i < 2 && product[i].K; i++) {
            product[i].M = p.n, product[i].A += p.first * product[i].lda, product[i].D = sum, product[i].d32 = true, product[i].beta = (float)i;
            cuda_gemm(dev, &product[i]);
        }
        LAUNCH(c, c->main, (unsigned)p.n, THREADS, 0, bias_kernel, y + p.first * N, sum, bias, (int)N);
    }
}

void cuda_linear(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r)
{
    int64_t N = W->N, K = W->K;
    const bf16 *w;

    if (T == 0 || (T <= CUDA_GEMV_MAX && cuda_gemv(dev, y, false, (const bf16 *)x, W, bias, (const bf16 *)h, (const bf16 *)B, T, r))) return;
    if (!(w = cuda_weight(dev, W, 0, N))) return;
    struct gemm base = {T, N, K, (const bf16 *)x, w, K, K, N, false, true, y, false, 1, r ? 1.0f : 0.0f};
    struct gemm lora = {T, N, r, (const bf16 *)h, (const bf16 *)B, r, r, N, false, true, y, false, 1, 0};
    if (bias) linear_with_bias(dev, (bf16 *)y, &base, &lora, bias, T);
    else {
        if (r) cuda_gemm(dev, &lora);
        cuda_gemm(dev, &base);
    }
    cuda_weight_done(dev);
}

void cuda_lora_up_backward(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r)
{
    struct gemm g = {T, r, N, (const bf16 *)dy, (const bf16 *)B, N, r, r, false, false, u, false, s, 0};

    cuda_gemm(dev, &g);
}

/* D (n, K) = or += drop(u A) of a part's tokens. */
template <typename T> static void add_lora(struct dev *dev, T *D, const struct linear_term *t, const struct layout *lay, struct part p, bool add)
{
    struct cuda *c = cuda_of(dev);
    int64_t K = t->W->K;

    if (t->drop.p == 0) {
        struct gemm g = {p.n, K, t->r, (const bf16 *)t->u + p.first * t->r, (const bf16 *)t->A, t->r, K, K, false, false, D, sizeof(T) == 4, 1, add ? 1.0f : 0.0f};

        cuda_gemm(dev, &g);
        return;
    }
    dim3 grid((unsigned)ceil_div(p.n, PRODUCT_TOKENS), (unsigned)ceil_div(K, THREADS * 4));
    if (add) LAUNCH(c, c->main, grid, THREADS, 0, (product_kernel<T, true>), D, (const bf16 *)t->u, (const bf16 *)t->A, mask_of(&t->drop, lay), keep_scale(&t->drop), p.first, p.n, (int)K, t->r);
    else LAUNCH(c, c->main, grid, THREADS, 0, (product_kernel<T, false>), D, (const bf16 *)t->u, (const bf16 *)t->A, mask_of(&t->drop, lay), keep_scale(&t->drop), p.first, p.n, (int)K, t->r);
}

static void add_base(struct dev *dev, void *D, bool d32, const struct linear_term *t, struct part p, bool add)
{
    int64_t N = t->W->N, K = t->W->K;
    const bf16 *w = cuda_weight(dev, t->W, 0, N);

    if (!w) return;
    struct gemm g = {p.n, K, N, (const bf16 *)t->dy + p.first * N, w, N, K, K, false, false, D, d32, 1, add ? 1.0f : 0.0f};
    cuda_gemm(dev, &g);
    cuda_weight_done(dev);
}

void cuda_linear_backward(struct dev *dev, act *pdx, const struct linear_term *terms, int nterm, const struct layout *lay)
{
    bf16 *dx = (bf16 *)pdx;
    int64_t K = terms[0].W->K;

    if (nterm == 1) {
        struct part all = {0, lay->T};

        if (terms->r) add_lora(dev, dx, terms, lay, all, false);
        add_base(dev, dx, false, terms, all, terms->r > 0);
        return;
    }
    for (struct part p = {0, 0}; next_part(dev, &p, lay->T, (size_t)K * 4);) {
        float *sum = (float *)cuda_room(dev, (size_t)(p.n * K) * 4, "an input gradient");

        for (int i = 0; i < nterm; i++) {
            add_base(dev, sum, true, &terms[i], p, i > 0);
            if (terms[i].r) add_lora(dev, sum, &terms[i], lay, p, true);
        }
        cuda_round_operand(dev, dx + p.first * K, sum, p.n * K);
    }
}

void cuda_lora_grad(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *px, struct dropout drop, const struct layout *lay, int row, int N,
                    int K, int r)
{
    struct cuda *c = cuda_of(dev);
    const int32_t *start = lay->host_row_start ? lay->host_row_start : lay->row_start;
    int64_t t0 = start[row], T = start[row + 1] - t0;
    const bf16 *x = (const bf16 *)px + t0 * K;
    struct gemm b = {N, r, T, (const bf16 *)dy + t0 * N, (const bf16 *)h + t0 * r, N, r, r, true, false, dB, true, 1, 0};
    struct gemm a = {r, K, T, (const bf16 *)u + t0 * r, x, r, K, K, true, false, dA, true, 1, 0};

    if (T == 0) {
        cuda_zero(dev, dA, (size_t)r * (size_t)K * sizeof *dA);
        cuda_zero(dev, dB, (size_t)r * (size_t)N * sizeof *dB);
        return;
    }
    cuda_gemm(dev, &b);
    if (drop.p == 0) {
        cuda_gemm(dev, &a);
        return;
    }
    a.alpha = keep_scale(&drop);
    for (struct part p = {0, 0}; next_part(dev, &p, T, (size_t)K * 2);) {
        bf16 *masked = (bf16 *)cuda_room(dev, (size_t)(p.n * K) * 2, "dropout");

        launch_mask(c, masked, (const bf16 *)px, &drop, lay, t0 + p.first, p.n, K);
        a.K = p.n, a.A = (const bf16 *)u + (t0 + p.first) * r, a.B = masked, a.beta = p.first ? 1.0f : 0.0f;
        cuda_gemm(dev, &a);
    }
}
