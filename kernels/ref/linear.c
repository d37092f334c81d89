/* y = x W^T + s (drop(x) A^T) B^T + bias and its gradients: h = s drop(x) A^T, u = s dy B, dx = dy W + drop(u A), dA = u^T drop(x), dB = dy^T h.
 * Hu et al. 2022, eq. 3; the mask of drop is the same in all of them. */
#include "kernels/ref/ref.h"

#include <assert.h>

/* What element k of token t (counted from its row's start) is multiplied by. */
static double drop_factor(const struct dropout *drop, int64_t row, int t, int k)
{
    uint32_t w[4];

    if (drop->p == 0) return 1;
    philox4x32(w, drop->key, (uint32_t)k / 4, (uint32_t)t, (uint32_t)row, 0);
    return rng_unit(w[k % 4]) >= drop->p ? 1 / (1 - (double)drop->p) : 0;
}

void ref_lora_down(struct dev *dev, act *ph, const act *px, const act *pA, float s, struct dropout drop, const struct layout *lay, int K, int r)
{
    float *h = ph;
    const float *x = px, *A = pA;

    for (int row = 0; row < lay->rows; row++)
        for (int64_t t = lay->row_start[row]; t < lay->row_start[row + 1]; t++)
            for (int i = 0; i < r; i++) {
                double sum = 0;

                for (int k = 0; k < K; k++)
                    sum += x[t * K + k] * drop_factor(&drop, lay->first_row + row, (int)t - lay->row_start[row], k) * A[(int64_t)i * K + k];
                h[t * r + i] = (float)(s * sum);
            }
}

void ref_linear(struct dev *dev, act *py, const act *px, const struct weight *W, const float *bias, const act *ph, const act *pB, int T, int r)
{
    float *y = py, *w = dev->scratch;
    const float *x = px, *h = ph, *B = pB;
    int64_t N = W->N, K = W->K;

    assert((size_t)K * sizeof *w <= dev->scratch_bytes);
    for (int64_t n = 0; n < N; n++) {
        weight_row(W, n, 0, K, w);
        for (int64_t t = 0; t < T; t++) {
            double sum = 0;

            for (int64_t k = 0; k < K; k++) sum += (double)x[t * K + k] * w[k];
            for (int i = 0; i < r; i++) sum += (double)h[t * r + i] * B[n * r + i];
            y[t * N + n] = (float)(sum + (bias ? bias[n] : 0));
        }
    }
}

void ref_lora_up_backward(struct dev *dev, act *pu, const act *pdy, const act *pB, float s, int T, int N, int r)
{
    float *u = pu;
    const float *dy = pdy, *B = pB;

    for (int64_t t = 0; t < T; t++)
        for (int i = 0; i < r; i++) {
            double sum = 0;

            for (int64_t n = 0; n < N; n++) sum += (double)dy[t * N + n] * B[n * r + i];
            u[t * r + i] = (float)(s * sum);
        }
}

/* sum (K) += dy W + drop(u A) for one token. */
static void add_term(double *sum, float *w, const struct linear_term *term, int64_t t, int64_t row, int in_row)
{
    const struct weight *W = term->W;
    const float *dy = (const float *)term->dy + t * W->N, *u = (const float *)term->u + t * term->r, *A = term->A;

    for (int64_t n = 0; n < W->N; n++) {
        weight_row(W, n, 0, W->K, w);
        for (int64_t k = 0; k < W->K; k++) sum[k] += (double)dy[n] * w[k];
    }
    if (term->r == 0) return;
    for (int64_t k = 0; k < W->K; k++) {
        double uA = 0;

        for (int i = 0; i < term->r; i++) uA += (double)u[i] * A[i * W->K + k];
        sum[k] += uA * drop_factor(&term->drop, row, in_row, (int)k);
    }
}

void ref_linear_backward(struct dev *dev, act *pdx, const struct linear_term *terms, int nterm, const struct layout *lay)
{
    int64_t K = terms[0].W->K;
    double *sum = dev->scratch;
    float *dx = pdx, *w = (float *)(sum + K);

    assert((size_t)K * (sizeof *sum + sizeof *w) <= dev->scratch_bytes);
    for (int row = 0; row < lay->rows; row++)
        for (int64_t t = lay->row_start[row]; t < lay->row_start[row + 1]; t++) {
            for (int64_t k = 0; k < K; k++) sum[k] = 0;
            for (int i = 0; i < nterm; i++) add_term(sum, w, &terms[i], t, lay->first_row + row, (int)t - lay->row_start[row]);
            for (int64_t k = 0; k < K; k++) dx[t * K + k] = (float)sum[k];
        }
}

void ref_lora_grad(struct dev *dev, float *dA, float *dB, const act *pdy, const act *ph, const act *pu, const act *px, struct dropout drop,
                   const struct layout *lay, int row, int N, int K, int r)
{
    const float *dy = pdy, *h = ph, *u = pu, *x = px;
    int64_t t0 = lay->row_start[row], t1 = lay->row_start[row + 1];

    for (int64_t n = 0; n < N; n++)
        for (int i = 0; i < r; i++) {
            double sum = 0;

            for (int64_t t = t0; t < t1; t++) sum += (double)dy[t * N + n] * h[t * r + i];
            dB[n * r + i] = (float)sum;
        }
    for (int64_t k = 0; k < K; k++)
        for (int i = 0; i < r; i++) {
            double sum = 0;

            for (int64_t t = t0; t < t1; t++)
                sum += u[t * r + i] * (x[t * K + k] * drop_factor(&drop, lay->first_row + row, (int)(t - t0), (int)k));
            dA[i * (int64_t)K + k] = (float)sum;
        }
}
