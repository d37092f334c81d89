/* Small device functions: bf16, eight at a time; exp and log of our own (fp32 and double operations in a fixed order, the same bits on every card and in the emulation); sums of a
 * warp and of a block in one order. */
#ifndef PAWL_CUDA_VEC_CUH
#define PAWL_CUDA_VEC_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.cuh"

#define WARP 32
#define FULL_WARP 0xffffffffu
#define LOG2E 1.44269504f
#define LN2 0.693147181f

static __device__ __forceinline__ float from_bf16(bf16 h) { return __uint_as_float((uint32_t)h << 16); }
static __device__ __forceinline__ bf16 to_bf16(float x) { return (bf16)ptx_pack(x, 0); }

/* n elements from memory that n * 2 bytes divide, n 1 or 8. */
template <int n> static __device__ __forceinline__ void load_bf16(float *x, const bf16 *p)
{
    if (n == 8) {
        uint4 v = *(const uint4 *)p;
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[2 * i] = __uint_as_float(word[i] << 16);
            x[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000);
        }
    } else x[0] = from_bf16(*p);
}

template <int n> static __device__ __forceinline__ void store_bf16(bf16 *p, const float *x)
{
    if (n == 8) *(uint4 *)p = make_uint4(ptx_pack(x[0], x[1]), ptx_pack(x[2], x[3]), ptx_pack(x[4], x[5]), ptx_pack(x[6], x[7]));
    else *p = to_bf16(x[0]);
}

template <int n> static __device__ __forceinline__ void load_f32(float *x, const float *p)
{
    if (n == 8) {
        float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];

        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    } else x[0] = *p;
}

template <int n> static __device__ __forceinline__ void store_f32(float *p, const float *x)
{
    if (n == 8) {
        ((float4 *)p)[0] = make_float4(x[0], x[1], x[2], x[3]);
        ((float4 *)p)[1] = make_float4(x[4], x[5], x[6], x[7]);
    } else *p = x[0];
}

/* e^x = 2^n e^r, n the integer nearest to x / ln 2, |r| <= ln 2 / 2; e^r to r^7 / 7!: 2 ulp. 0 below -104, inf above 88.7. */
static __device__ __forceinline__ float fexp(float x)
{
    x = x < -104 ? -104 : x > 89 ? 89 : x;
    float n = fmaf(x, LOG2E, 12582912.0f) - 12582912.0f; /* 1.5 2^23 rounds to an integer */
    float r = fmaf(n, -0.693145752f, x), p = 1.0f / 5040;

    r = fmaf(n, -1.42860677e-6f, r);
    p = fmaf(p, r, 1.0f / 720);
    p = fmaf(p, r, 1.0f / 120);
    p = fmaf(p, r, 1.0f / 24);
    p = fmaf(p, r, 1.0f / 6);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    int k = (int)n, half = k / 2;
    return p * __uint_as_float((uint32_t)(half + 127) << 23) * __uint_as_float((uint32_t)(k - half + 127) << 23);
}

/* log x, x > 0 and normal: x = 2^k m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), log m = 2 (s + s^3/3 + ... + s^17/17): 1e-15. */
static __device__ __forceinline__ double flog(float x)
{
    uint32_t u = __float_as_uint(x);
    int k = (int)(u >> 23) - 127;
    double m = __uint_as_float((u & 0x7fffff) | 0x3f800000);

    if (m > 1.4142135623730951) m *= 0.5, k++;
    double s = (m - 1) / (m + 1), z = s * s, p = 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1;
    return k * 0.6931471805599453 + 2 * s * p;
}

/* Every lane gets the sum; the order is that of a butterfly, and the same in each lane because addition commutes. */
template <typename T> static __device__ __forceinline__ T warp_sum(T x)
{
#pragma unroll
    for (int mask = 16; mask; mask /= 2) x += __shfl_xor_sync(FULL_WARP, x, mask);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int mask = 16; mask; mask /= 2) x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, mask));
    return x;
}

/* Every thread of the block gets the sum: warps first, then the warps' sums in their order. shared: one T a warp; free to use again after the caller's next barrier. */
template <typename T> static __device__ __forceinline__ T block_sum(T x, T *shared)
{
    int warps = (int)blockDim.x / WARP;
    T sum = 0;

    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int w = 0; w < warps; w++) sum += shared[w];
    return sum;
}

/* ---- dropout ---- */

/* Philox 4x32-10, as kernels/base/rng.h. */
static __device__ __forceinline__ void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint32_t h0 = __umulhi(0xD2511F53, c[0]), l0 = 0xD2511F53 * c[0], h1 = __umulhi(0xCD9E8D57, c[2]), l1 = 0xCD9E8D57 * c[2];

        c[0] = h1 ^ c[1] ^ k0;
        c[2] = h0 ^ c[3] ^ k1;
        c[1] = l1;
        c[3] = l0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

/* The last i in [0, n) with start[i] <= t. */
static __device__ __forceinline__ int find_row(const int32_t *start, int n, int t)
{
    int low = 0, high = n;

    while (high - low > 1) {
        int mid = (low + high) / 2;

        if (start[mid] <= t) low = mid;
        else high = mid;
    }
    return low;
}

static inline bool aligned16(const void *p) { return (uintptr_t)p % 16 == 0; }

#endif
