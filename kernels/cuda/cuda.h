/* What the files of the CUDA backend share: the state of a device, launching, failing.
 *
 * Work goes to one stream, in the order of the calls; weights are dequantised on a second one, one weight ahead of the GEMM that reads it (dequant.cu); what copy_out takes to the host
 * goes on a third one (copy.cu). An op returns nothing, so the first failure is kept (dev_check tells it), said once, and every later op does nothing. */
#ifndef PAWL_CUDA_H
#define PAWL_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>

extern "C" {
#include "kernels/ops.h"
}

#define CUDA_GEMV_MAX 8          /* tokens up to which a linear layer is a matrix-vector product */
#ifndef CUDA_HEAD_CHUNK          /* the emulation makes these small, so that small shapes have several parts */
#define CUDA_HEAD_CHUNK 4096     /* rows of the head that are multiplied at once */
#define CUDA_HEAD_ROWS 2048      /* by this many supervised rows */
#define CUDA_GEMV_SLICE 2048     /* elements of x a token that a matrix-vector product keeps in shared memory */
#endif
#define CUDA_CUTS 16             /* nets of different shapes that take turns on a device */
#define CUDA_MAX_D 256           /* head size */
#define CUDA_WORKSPACE ((size_t)32 << 20)
#ifndef CUDA_UPLOADS
#define CUDA_UPLOADS ((size_t)512 << 10) /* bytes of each half of the pinned memory that small uploads go through */
#define CUDA_CODE ((size_t)256 << 20)    /* of the card's memory, for kernels: they are loaded when they run first, also cuBLASLt's */
#endif

/* A bf16 copy of a weight, and when it may be read and overwritten. */
struct cuda_slot {
    cudaEvent_t filled, read;
};

/* Copies between the host and the card: copy.cu. */
struct cuda_copies {
    cudaStream_t out;
    cudaEvent_t made, done;   /* what is to be copied out; all that was */
    bool pending;             /* copies out that nobody has waited for */
    char *uploads;            /* two halves, pinned */
    cudaEvent_t read[2];      /* the last upload from a half has been read */
    int half;                 /* the one that is filled now, up to `filled` */
    size_t filled;
    cudaEvent_t uploaded;     /* the last upload */
    bool unseen;              /* it may be a weight, and the side stream has not been told to wait for it */
};

/* Bytes of a scratch, of each of its two slots, of its room. */
struct cuda_cut {
    size_t all, slot, room;
};

struct gemm_cache;
struct blas_calls;

struct cuda {
    int device;
    bool opened;
    cudaStream_t main, side;
    const struct blas_calls *blas;
    cublasLtHandle_t lt;
    void *workspace; /* cuBLASLt's, CUDA_WORKSPACE bytes */
    struct gemm_cache *gemms;
    struct cuda_cut cut[CUDA_CUTS]; /* the newest that scratch_bytes was asked for */
    int cuts;
    struct cuda_slot slot[2];
    struct cuda_copies copies;
    int next_slot, open_slot; /* the one to fill next; the one that the main stream reads now, -1: none */
    struct err failed; /* status PAWL_OK: nothing failed */
};

static inline struct cuda *cuda_of(const struct dev *dev) { return (struct cuda *)dev->state; }

/* True where rc is success; else keeps "CALL for SHAPE: NAME: what is likely" as the device's failure. */
bool cuda_ok(struct cuda *c, cudaError_t rc, const char *call, const char *shape, ...) __attribute__((format(printf, 4, 5)));
bool cuda_blas_ok(struct cuda *c, cublasStatus_t rc, const char *call, const char *shape, ...) __attribute__((format(printf, 4, 5)));
void cuda_fail(struct cuda *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* LAUNCH(c, stream, blocks, threads, shared bytes, kernel, arguments...): nothing after a failure or for no blocks. A kernel that needs more than 48 KiB of shared memory is
 * allowed them here. */
template <typename K> static inline bool cuda_may_launch(struct cuda *c, K *kernel, const char *name, dim3 grid, size_t shared)
{
    if (c->failed.status != PAWL_OK || grid.x == 0 || grid.y == 0 || grid.z == 0) return false;
    return shared <= 48 * 1024 || cuda_ok(c, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), "cudaFuncSetAttribute", "%s, %zu bytes", name, shared);
}

/* POINTERS_OF(type, pointers in s...): every struct that a kernel takes says which of its members are addresses, so that the emulation knows them from numbers. */
#ifdef PAWL_EMULATED
#define POINTERS_OF(type, ...) static inline std::vector<const void *> emu_pointers(const type &s) { return {__VA_ARGS__}; }
#define LAUNCH_KERNEL(stream, grid, block, shared, kernel, ...) emu_launch(kernel, #kernel, grid, block, shared, stream, __VA_ARGS__)
#else
#define POINTERS_OF(type, ...)
#define LAUNCH_KERNEL(stream, grid, block, shared, kernel, ...) (kernel<<<grid, block, shared, stream>>>(__VA_ARGS__), cudaGetLastError())
#endif

#define LAUNCH(c, stream, grid_, block_, shared_, kernel, ...) \
    do { \
        dim3 launch_grid(grid_), launch_block(block_); \
        size_t launch_shared = (shared_); \
        if (cuda_may_launch(c, kernel, #kernel, launch_grid, launch_shared)) \
            cuda_ok(c, LAUNCH_KERNEL(stream, launch_grid, launch_block, launch_shared, kernel, __VA_ARGS__), "launch", \
                    "%s, %u x %u x %u blocks of %u threads, %zu bytes shared", #kernel, launch_grid.x, launch_grid.y, launch_grid.z, launch_block.x, launch_shared); \
    } while (0)

POINTERS_OF(struct weight, s.data, s.absmax, s.absmax_q, s.nested_absmax, s.nested_code)

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- runtime.cu ---- */

extern "C" enum pawl_status cuda_open(struct dev *dev, const char *device, struct err *err);
void *cuda_alloc(struct dev *dev, size_t bytes);
void cuda_free(struct dev *dev, void *p, size_t bytes);
void cuda_wait_for_main(struct cuda *c, const char *what, size_t bytes);

/* ---- copy.cu ---- */

void cuda_copies_open(struct cuda *c);
void cuda_copies_close(struct cuda *c);
/* The main stream waits for what was copied out; the side stream sees what was uploaded. */
void cuda_await_copies_out(struct cuda *c);
void cuda_see_uploads(struct cuda *c);
void cuda_upload(struct dev *dev, void *dst, const void *src, size_t bytes);
void cuda_download(struct dev *dev, void *dst, const void *src, size_t bytes);
void cuda_copy_out(struct dev *dev, void *dst, const void *src, size_t bytes);
void cuda_copied_out(struct dev *dev);
bool cuda_pin(struct dev *dev, void *p, size_t bytes);
void cuda_unpin(struct dev *dev, void *p);
void cuda_copy(struct dev *dev, void *dst, const void *src, size_t bytes);
void cuda_zero(struct dev *dev, void *p, size_t bytes);

/* How dev->scratch is cut was fixed when scratch_bytes gave its size; the other two return NULL, with a failure, where that is too small. */
size_t cuda_scratch_bytes(const struct dev *dev, const struct dev_shapes *s);
size_t cuda_room_bytes(const struct dev *dev);
char *cuda_slot_memory(struct dev *dev, int slot, size_t bytes);
char *cuda_room(struct dev *dev, size_t bytes, const char *what);

/* ---- card.cu ---- */

extern "C" int cuda_cards(void); /* visible ones; 0 where this build has no code for the first */
void cuda_name_card(struct dev *dev, const struct cudaDeviceProp *card);
void *cuda_queue(struct dev *dev);
bool cuda_idle(struct dev *dev);

/* ---- blas.cu ---- */

/* D (M, N) = alpha op(A) op(B) + beta C, all row-major; ld: elements between rows as stored. C may be D. c32, d32: fp32 instead of bf16. */
struct gemm {
    int64_t M, N, K;
    const bf16 *A, *B;
    int64_t lda, ldb, ldd; /* C has D's */
    bool ta, tb;           /* stored as (K, M), (N, K) */
    void *D;
    bool d32;
    float alpha, beta;
};
void cuda_gemm(struct dev *dev, const struct gemm *g);
void cuda_gemm_free(struct gemm_cache *cache);
void cuda_gemm_plain(struct cuda *c, const struct gemm *g); /* gemm_plain.cu: where the library has no algorithm */
/* The library's entry points: found at run time, so that one binary starts on machines without CUDA. NULL: *why says what was tried. */
struct blas_calls {
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*destroy)(cublasLtHandle_t);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t, const void *, const void *,
                             cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t, uint64_t, int64_t);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*heuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *, int *);
};
const struct blas_calls *blas_load(const char **why);

/* ---- dequant.cu ---- */

/* Rows [n0, n1) of W in bf16, (n1 - n0, K), for the main stream: the weight itself, or a slot of the scratch that side fills. Read it, then cuda_weight_done. NULL after a failure. */
const bf16 *cuda_weight(struct dev *dev, const struct weight *W, int64_t n0, int64_t n1);
void cuda_weight_done(struct dev *dev);
/* y (T, N) = x W^T + h B^T + bias for few tokens, straight from the stored blocks; fp32 or bf16 y. False: no kernel for this type or shape. gemv.cu */
bool cuda_gemv(struct dev *dev, void *y, bool y32, const bf16 *x, const struct weight *W, const float *bias, const bf16 *h, const bf16 *B, int T, int r);

/* ---- ops, by file ---- */

void cuda_embed(struct dev *dev, act *y, const struct weight *W, const int32_t *ids, int T); /* dequant.cu */
/* rows.cu */
void cuda_gather(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
void cuda_scatter(struct dev *dev, act *y, const act *x, const int32_t *index, int n, int C);
/* norm.cu */
void cuda_rmsnorm(struct dev *dev, act *y, float *rstd, const act *x, const float *w, int64_t n, int C, float eps);
void cuda_add_rmsnorm(struct dev *dev, act *y, float *rstd, act *sum, const act *x, const act *d, const float *w, int64_t n, int C, float eps);
void cuda_rmsnorm_backward(struct dev *dev, act *dx, const act *base, const act *dy, const act *x, const float *w, const float *rstd, int64_t n, int C);
/* linear.cu */
void cuda_lora_down(struct dev *dev, act *h, const act *x, const act *A, float s, struct dropout drop, const struct layout *lay, int K, int r);
void cuda_linear(struct dev *dev, act *y, const act *x, const struct weight *W, const float *bias, const act *h, const act *B, int T, int r);
void cuda_lora_up_backward(struct dev *dev, act *u, const act *dy, const act *B, float s, int T, int N, int r);
void cuda_linear_backward(struct dev *dev, act *dx, const struct linear_term *terms, int nterm, const struct layout *lay);
void cuda_lora_grad(struct dev *dev, float *dA, float *dB, const act *dy, const act *h, const act *u, const act *x, struct dropout drop, const struct layout *lay, int row, int N,
                    int K, int r);
/* elementwise.cu */
void cuda_rope(struct dev *dev, act *x, const float *cos, const float *sin, const int32_t *pos, int T, int heads, int D, bool inverse);
void cuda_swiglu(struct dev *dev, act *y, const act *gate, const act *up, int64_t n);
void cuda_swiglu_backward(struct dev *dev, act *dgate, act *dup, act *y, const act *dy, const act *gate, const act *up, int64_t n);
/* attention.cu, attention_backward.cu, attention_plain.cu, decode.cu */
void cuda_attention(struct dev *dev, act *o, float *lse, const act *q, const act *k, const act *v, const struct layout *lay, int H, int G, int D);
void cuda_attention_backward(struct dev *dev, act *dq, act *dk, act *dv, const act *dout, const act *q, const act *k, const act *v, const act *o, const float *lse,
                             const struct layout *lay, int H, int G, int D);
void cuda_attention_decode(struct dev *dev, act *o, const act *q, const act *kcache, const act *vcache, const int32_t *sequence, const int32_t *len, int n, int cap, int H, int G,
                           int D);
/* head.cu */
/* Room that head_loss takes for one row. */
static inline int64_t cuda_head_row_bytes(int64_t V, int64_t C) { return smaller(V, CUDA_HEAD_CHUNK) * 6 + C * 4 + 16; }
void cuda_head_loss(struct dev *dev, float *loss, act *dx, int32_t *argmax, const act *x, const struct weight *W, const int32_t *target, int S, float scale);
void cuda_logits(struct dev *dev, float *logits, const act *x, const struct weight *W, int n);
/* flat.cu */
void cuda_add(struct dev *dev, float *a, const float *b, int64_t n);
void cuda_sum_squares(struct dev *dev, double *out, const float *x, int64_t n, int64_t block);
void cuda_block_hashes(struct dev *dev, uint64_t *out, const float *x, int64_t n, int64_t block, uint64_t first);
void cuda_adamw(struct dev *dev, float *theta, act *operand, float *m, float *v, const float *g, int64_t n, const struct adamw *hyper);
void cuda_round_operand(struct dev *dev, act *operand, const float *theta, int64_t n);

#endif
