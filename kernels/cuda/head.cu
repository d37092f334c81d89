/* loss = log(sum_v e^l_v) - l_target, l = x W^T, and dx = scale (sum_v softmax(l)_v W_v - W_target).
 *
 * The head is frozen, so its gradient is attention with W as keys and values: one pass over the vocabulary, CUDA_HEAD_CHUNK rows of W at a time (Milakov & Gimelshein 2018): logits by a
 * GEMM in fp32, a running maximum and sum, p = exp(l - max) in bf16, dx += p W by a second GEMM in fp32, scaled down when the maximum rises. Never more than a chunk of logits of
 * CUDA_HEAD_ROWS rows. 4 S V C operations, as a head that keeps all logits; between the GEMMs 6 bytes a logit are moved. */
#include "kernels/cuda/vec.cuh"

#define THREADS 256

/* Of a row, over the chunks so far. */
struct running {
    float max, sum, target;
    int32_t argmax;
};

static __global__ void begin_kernel(struct running *state, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < n) state[i] = {-INFINITY, 0, 0, 0};
}

/* The larger value, of equal ones the lower index. */
struct best {
    float value;
    int index;
};

static __device__ __forceinline__ struct best better(struct best a, struct best b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

static __device__ struct best block_best(struct best x, struct best *shared)
{
#pragma unroll
    for (int mask = 16; mask; mask /= 2) x = better(x, {__shfl_xor_sync(FULL_WARP, x.value, mask), __shfl_xor_sync(FULL_WARP, x.index, mask)});
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < THREADS / WARP; w++) x = better(x, shared[w]);
    return x;
}

/* One thread block a row: logits of vocabulary rows v0 .. v0 + n. dx NULL: only the loss is wanted. */
static __global__ void chunk_kernel(struct running *state, const float *logits, bf16 *p, float *dx, const int32_t *target, int v0, int n, int C)
{
    char *shared = shared_memory();
    int64_t row = blockIdx.x;
    const float *l = logits + row * n;
    struct running s = state[row];
    struct best top = {-INFINITY, 0x7fffffff};
    float sum = 0;

    for (int v = (int)threadIdx.x; v < n; v += THREADS) top = better(top, {l[v], v0 + v});
    top = block_best(top, (struct best *)shared);
    float max = fmaxf(s.max, top.value), down = fexp(s.max - max);
    for (int v = (int)threadIdx.x; v < n; v += THREADS) {
        float e = fexp(l[v] - max);

        sum += e;
        if (dx) p[row * n + v] = to_bf16(e);
    }
    sum = block_sum(sum, (float *)(shared + THREADS / WARP * sizeof(struct best)));
    if (dx && v0 > 0 && max != s.max)
        for (int k = (int)threadIdx.x; k < C; k += THREADS) dx[row * C + k] *= down;
    if (threadIdx.x == 0) {
        int t = target[row] - v0;

        state[row] = {max, (s.max == -INFINITY ? 0 : s.sum * down) + sum, t >= 0 && t < n ? l[t] : s.target, top.value > s.max ? top.index : s.argmax};
    }
}

static __global__ void loss_kernel(float *loss, int32_t *argmax, const struct running *state, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i >= n) return;
    loss[i] = (float)((double)state[i].max - state[i].target + flog(state[i].sum));
    if (argmax) argmax[i] = state[i].argmax;
}

/* dx, which holds the targets' rows of W, = scale (sums / sum - dx). One thread block a row. */
static __global__ void gradient_kernel(bf16 *dx, const float *sums, const struct running *state, float scale, int C)
{
    int64_t row = blockIdx.x;
    float inverse = 1 / state[row].sum;

    for (int k = (int)threadIdx.x; k < C; k += THREADS) dx[row * C + k] = to_bf16((sums[row * C + k] * inverse - from_bf16(dx[row * C + k])) * scale);
}

/* Rows [0, n) of a part. */
static void run_part(struct dev *dev, float *loss, bf16 *dx, int32_t *argmax, const bf16 *x, const struct weight *W, const int32_t *target, int64_t n, float scale)
{
    struct cuda *c = cuda_of(dev);
    int64_t C = W->K, V = W->N, chunk = smaller(V, CUDA_HEAD_CHUNK);
    char *room = cuda_room(dev, (size_t)(n * cuda_head_row_bytes(V, C)), "the head");
    unsigned groups = (unsigned)ceil_div(n, THREADS);

    if (!room) return;
    struct running *state = (struct running *)room;
    float *logit = (float *)(state + n), *sums = logit + n * chunk;
    bf16 *p = (bf16 *)(sums + n * C);
    LAUNCH(c, c->main, groups, THREADS, 0, begin_kernel, state, (int)n);
    for (int64_t v0 = 0; v0 < V; v0 += chunk) {
        int64_t vn = smaller(chunk, V - v0);
        const bf16 *w = cuda_weight(dev, W, v0, v0 + vn);

        if (!w) return;
        struct gemm forward = {n, vn, C, x, w, C, C, vn, false, true, logit, true, 1, 0};
        cuda_gemm(dev, &forward);
        LAUNCH(c, c->main, (unsigned)n, THREADS, THREADS / WARP * (sizeof(struct best) + sizeof(float)), chunk_kernel, state, logit, p, dx ? sums : nullptr, target, (int)v0, (int)vn, (int)C);
        if (dx) {
            struct gemm backward = {n, C, vn, p, w, vn, C, C, false, false, sums, true, 1, v0 ? 1.0f : 0.0f};

            cuda_gemm(dev, &backward);
        }
        cuda_weight_done(dev);
    }
    LAUNCH(c, c->main, groups, THREADS, 0, loss_kernel, loss, argmax, state, (int)n);
    if (dx) {
        cuda_embed(dev, dx, W, target, (int)n); /* where dx is x, x has been read */
        LAUNCH(c, c->main, (unsigned)n, THREADS, 0, gradient_kernel, dx, sums, state, scale, (int)C);
    }
}

void cuda_head_loss(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale)
{
    for (int64_t s = 0; s < S; s += CUDA_HEAD_ROWS) {
        int64_t n = smaller(CUDA_HEAD_ROWS, S - s);

        run_part(dev, loss + s, dx ? (bf16 *)dx + s * W->K : NULL, argmax ? argmax + s : NULL, (const bf16 *)x + s * W->K, W, target + s, n, scale);
    }
}

void cuda_logits(struct dev *dev, float *logits, const act *x, const struct weight *W, int n)
{
    if (n == 0 || (n <= CUDA_GEMV_MAX && cuda_gemv(dev, logits, true, (const bf16 *)x, W, NULL, NULL, NULL, n, 0))) return;
    for (int64_t v0 = 0; v0 < W->N; v0 += CUDA_HEAD_CHUNK) {
        int64_t vn = smaller(CUDA_HEAD_CHUNK, W->N - v0);
        const bf16 *w = cuda_weight(dev, W, v0, v0 + vn);

        if (!w) return;
        struct gemm g = {n, vn, W->K, (const bf16 *)x, w, W->K, W->K, W->N, false, true, logits + v0, true, 1, 0};
        cuda_gemm(dev, &g);
        cuda_weight_done(dev);
    }
}
