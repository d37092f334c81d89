/* Ops that go token by token through memory: whole rows moved, norms, RoPE, SwiGLU. All are bound by memory; every element is read and written once.
 *     rmsnorm     y = x r w, r = 1 / sqrt(mean(x^2) + eps)                    dx = r (w dy - x r^2 mean(w dy x))        Zhang & Sennrich 2019, eq. 4
 *     rope        pairs (x_i, x_{i + D/2}) turned                                                                      Su et al. 2021, eq. 34
 *     swiglu      y = g sigma u, sigma = 1 / (1 + e^-g)                       dg = dy u (sigma + g sigma (1 - sigma))   Shazeer 2020, eq. 6
 * Sums over C: VL partial sums, folded at the end. */
#include "kernels/cpu/cpu.h"

/* A pass over memory is worth more threads only when it is long. */
static int threads_for(const struct dev *dev, int64_t elements)
{
    return elements < 16384 ? 1 : dev->threads;
}

void OP(embed)(struct dev *dev, act *py, const struct weight *W, const int32_t *ids, int T)
{
    elem *y = py;

#pragma omp parallel for num_threads(threads_for(dev, T * W->K)) schedule(static)
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < W->K; k += 256) {
            int64_t n = min64(256, W->K - k);
            float row[256];

            weight_row(W, ids[t], k, k + n, row);
            FOR_VECTORS(i, lanes, n) elem_store(y + t * W->K + k + i, f32_load(row + i, lanes), lanes);
        }
}

void OP(gather)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
#pragma omp parallel for num_threads(threads_for(dev, (int64_t)n * C)) schedule(static)
    for (int64_t i = 0; i < n; i++) memcpy((elem *)y + i * C, (const elem *)x + (int64_t)index[i] * C, (size_t)C * sizeof(elem));
}

void OP(scatter)(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C)
{
#pragma omp parallel for num_threads(threads_for(dev, (int64_t)n * C)) schedule(static)
    for (int64_t i = 0; i < n; i++) memcpy((elem *)y + (int64_t)index[i] * C, (const elem *)x + i * C, (size_t)C * sizeof(elem));
}

/* 1 / rms of a row, correctly rounded steps. */
static float inverse_rms(vf squares, int C, float eps)
{
    return 1 / __builtin_sqrtf(vsum(squares) / (float)C + eps);
}

static float norm_row(elem *y, const elem *x, const float *w, int C, float eps)
{
    vf squares = {0};

    FOR_VECTORS(i, lanes, C) {
        vf v = elem_load(x + i, lanes);
        squares = vfma(v, v, squares);
    }
    float r = inverse_rms(squares, C, eps);
    FOR_VECTORS(i, lanes, C) elem_store(y + i, elem_load(x + i, lanes) * r * f32_load(w + i, lanes), lanes);
    return r;
}

void OP(rmsnorm)(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps)
{
#pragma omp parallel for num_threads(threads_for(dev, n * C)) schedule(static)
    for (int64_t t = 0; t < n; t++) {
        float r = norm_row((elem *)y + t * C, (const elem *)x + t * C, w, C, eps);

        if (rstd) rstd[t] = r;
    }
}

void OP(add_rmsnorm)(struct dev *dev, act *y, float *rstd, act *psum, const act *px, const act *pd, const float *w, int64_t n, int C, float eps)
{
#pragma omp parallel for num_threads(threads_for(dev, n * C)) schedule(static)
    for (int64_t t = 0; t < n; t++) {
        elem *sum = (elem *)psum + t * C;
        const elem *x = (const elem *)px + t * C, *d = (const elem *)pd + t * C;

        FOR_VECTORS(i, lanes, C) elem_store(sum + i, elem_load(x + i, lanes) + elem_load(d + i, lanes), lanes);
        float r = norm_row((elem *)y + t * C, sum, w, C, eps);
        if (rstd) rstd[t] = r;
    }
}

void OP(rmsnorm_backward)(struct dev *dev, act *pdx, const act *pbase, const act *pdy, const act *px, const float *w, const float *rstd, int64_t n, int C)
{
#pragma omp parallel for num_threads(threads_for(dev, n * C)) schedule(static)
    for (int64_t t = 0; t < n; t++) {
        elem *dx = (elem *)pdx + t * C;
        const elem *base = pbase ? (const elem *)pbase + t * C : NULL, *dy = (const elem *)pdy + t * C, *x = (const elem *)px + t * C;
        vf dot = {0};

        FOR_VECTORS(i, lanes, C) dot = vfma(f32_load(w + i, lanes) * elem_load(dy + i, lanes), elem_load(x + i, lanes), dot);
        float r = rstd[t], along = r * r * (vsum(dot) / (float)C);
        FOR_VECTORS(i, lanes, C) {
            vf d = (f32_load(w + i, lanes) * elem_load(dy + i, lanes) - elem_load(x + i, lanes) * along) * r;
            elem_store(dx + i, base ? elem_load(base + i, lanes) + d : d, lanes);
        }
    }
}

void OP(rope)(struct dev *dev, act *px, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse)
{
    int half = D / 2;

#pragma omp parallel for num_threads(threads_for(dev, (int64_t)T * heads * D)) schedule(static)
    for (int64_t t = 0; t < T; t++)
        for (int h = 0; h < heads; h++) {
            elem *x = (elem *)px + (t * heads + h) * D;

            FOR_VECTORS(i, lanes, half) {
                vf c = f32_load(cos + (int64_t)pos[t] * half + i, lanes), s = f32_load(sin + (int64_t)pos[t] * half + i, lanes);
                vf a = elem_load(x + i, lanes), b = elem_load(x + i + half, lanes);

                if (inverse) s = -s;
                elem_store(x + i, a * c - b * s, lanes);
                elem_store(x + i + half, b * c + a * s, lanes);
            }
        }
}

/* Elements are dealt out in runs of this many. */
#define RUN 4096

void OP(swiglu)(struct dev *dev, act *py, const act *pgate, const act *pup, int64_t n)
{
#pragma omp parallel for num_threads(threads_for(dev, n)) schedule(static)
    for (int64_t at = 0; at < n; at += RUN) {
        elem *y = (elem *)py + at;
        const elem *gate = (const elem *)pgate + at, *up = (const elem *)pup + at;

        FOR_VECTORS(i, lanes, min64(RUN, n - at)) {
            vf g = elem_load(gate + i, lanes);
            elem_store(y + i, g * vsigmoid(g) * elem_load(up + i, lanes), lanes);
        }
    }
}

void OP(swiglu_backward)(struct dev *dev, act *pdgate, act *pdup, act *py, const act *pdy, const act *pgate, const act *pup, int64_t n)
{
#pragma omp parallel for num_threads(threads_for(dev, n)) schedule(static)
    for (int64_t at = 0; at < n; at += RUN) {
        elem *dgate = (elem *)pdgate + at, *dup = (elem *)pdup + at, *y = py ? (elem *)py + at : NULL;
        const elem *dy = (const elem *)pdy + at, *gate = (const elem *)pgate + at, *up = (const elem *)pup + at;

        FOR_VECTORS(i, lanes, min64(RUN, n - at)) {
            vf g = elem_load(gate + i, lanes), u = elem_load(up + i, lanes), d = elem_load(dy + i, lanes), sigma = vsigmoid(g), silu = g * sigma;

            elem_store(dgate + i, d * u * vfma(silu, 1.0f - sigma, sigma), lanes);
            elem_store(dup + i, d * silu, lanes);
            if (y) elem_store(y + i, silu * u, lanes);
        }
    }
}
