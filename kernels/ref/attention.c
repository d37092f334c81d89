/* o_t = sum_{j <= t} p_tj v_j, p_tj = exp(q_t . k_j / sqrt(D) - lse_t), within one example; head h reads key/value head h / (H / G).
 * With dp_tj = do_t . v_j and delta_t = do_t . o_t:  ds_tj = p_tj (dp_tj - delta_t) / sqrt(D),
 * dq_t = sum_j ds_tj k_j,  dk_j = sum_t ds_tj q_t,  dv_j = sum_t p_tj do_t.
 * Dao et al. 2022, section 3.1 and algorithm 4. Scores are computed again wherever one is needed: nothing is kept but lse. */
#include "kernels/base/fmath.h"
#include "kernels/ref/ref.h"

#include <assert.h>

static double dot(const float *a, const float *b, int D)
{
    double sum = 0;

    for (int i = 0; i < D; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* o (D) = softmax(q . k_j / sqrt(D)) v_j over j in [0, n); key j stands at k + j stride. Returns lse. */
static double attend(float *o, const float *q, const float *k, const float *v, int64_t n, int64_t stride, int D)
{
    double scale = 1 / fm_sqrt(D), max = -__builtin_inf(), sum = 0, acc[REF_MAX_D] = {0};

    for (int64_t j = 0; j < n; j++) {
        double s = scale * dot(q, k + j * stride, D);

        if (s > max) max = s;
    }
    for (int64_t j = 0; j < n; j++) {
        double p = fm_exp(scale * dot(q, k + j * stride, D) - max);

        sum += p;
        for (int i = 0; i < D; i++) acc[i] += p * v[j * stride + i];
    }
    for (int i = 0; i < D; i++) o[i] = (float)(acc[i] / sum);
    return max + fm_log(sum);
}

void ref_attention(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D)
{
    assert(D <= REF_MAX_D);
    for (int e = 0; e < lay->examples; e++)
        for (int64_t first = lay->example_start[e], t = first; t < lay->example_start[e + 1]; t++)
            for (int64_t h = 0; h < H; h++) {
                int64_t at = (t * H + h) * D, kv = (first * G + h / (H / G)) * D;
                double l = attend((float *)o + at, (const float *)q + at, (const float *)k + kv, (const float *)v + kv, t - first + 1,
                                  (int64_t)G * D, D);

                if (lse) lse[t * H + h] = (float)l;
            }
}

/* One query against one key: p and ds. */
static double pair(double *ds, const float *q, const float *k, const float *v, const float *dout, const float *o, double lse, int D)
{
    double scale = 1 / fm_sqrt(D), p = fm_exp(scale * dot(q, k, D) - lse);

    *ds = p * (dot(dout, v, D) - dot(dout, o, D)) * scale;
    return p;
}

void ref_attention_backward(struct dev *dev, act *pdq, act *pdk, act *pdv, const act *pdout, const act *pq, const act *pk, const act *pv, const act *po,
                            const float *lse, const struct layout *lay, int H, int G, int D)
{
    float *dq = pdq, *dk = pdk, *dv = pdv;
    const float *dout = pdout, *q = pq, *k = pk, *v = pv, *o = po;
    int group = H / G;

    assert(D <= REF_MAX_D);
    for (int e = 0; e < lay->examples; e++) {
        int64_t first = lay->example_start[e], end = lay->example_start[e + 1];

        for (int64_t t = first; t < end; t++)
            for (int64_t h = 0; h < H; h++) {
                int64_t at = (t * H + h) * D;
                double acc[REF_MAX_D] = {0}, ds;

                for (int64_t j = first; j <= t; j++) {
                    int64_t kv = (j * G + h / group) * D;

                    pair(&ds, q + at, k + kv, v + kv, dout + at, o + at, lse[t * H + h], D);
                    for (int i = 0; i < D; i++) acc[i] += ds * k[kv + i];
                }
                for (int i = 0; i < D; i++) dq[at + i] = (float)acc[i];
            }
        for (int64_t j = first; j < end; j++)
            for (int64_t g = 0; g < G; g++) {
                int64_t kv = (j * G + g) * D;
                double acc_k[REF_MAX_D] = {0}, acc_v[REF_MAX_D] = {0}, ds;

                for (int64_t h = g * group; h < (g + 1) * group; h++)
                    for (int64_t t = j; t < end; t++) {
                        int64_t at = (t * H + h) * D;
                        double p = pair(&ds, q + at, k + kv, v + kv, dout + at, o + at, lse[t * H + h], D);

                        for (int i = 0; i < D; i++) {
                            acc_k[i] += ds * q[at + i];
                            acc_v[i] += p * dout[at + i];
                        }
                    }
                for (int i = 0; i < D; i++) {
                    dk[kv + i] = (float)acc_k[i];
                    dv[kv + i] = (float)acc_v[i];
                }
            }
    }
}

void ref_attention_decode(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence,
                          const int32_t *len, int n, int cap, int H, int G, int D)
{
    assert(D <= REF_MAX_D);
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < H; h++) {
            int64_t at = (i * H + h) * D, kv = ((int64_t)sequence[i] * cap * G + h / (H / G)) * D;

            attend((float *)o + at, (const float *)q + at, (const float *)kcache + kv, (const float *)vcache + kv, len[i], (int64_t)G * D, D);
        }
}
