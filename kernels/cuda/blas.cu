/* D = alpha op(A) op(B) + beta D in bf16 with fp32 sums, by cuBLASLt.
 *
 * The library counts in columns: a row-major (M, N) is its (N, M), so it is asked for D' = op(B)' op(A)'. Which algorithm it runs is its heuristic's first answer for a shape, the
 * same on the same card and library every time, asked for once and kept; never a measurement. Where it has none a plain kernel takes the shape. Split sums are added up in fp32 from the workspace, in order. One stream uses the
 * workspace, so it needs no lock. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
}

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

/* What decides an algorithm. No padding: it is compared and hashed as bytes. */
struct gemm_key {
    int64_t M, N, K, lda, ldb, ldd;
    int32_t ta, tb, d32, accumulates;
    int32_t align_a, align_b, align_d, unused;
};

struct gemm_plan {
    struct gemm_key key;
    struct gemm_plan *next;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    bool plain; /* the library has no algorithm */
};

struct gemm_cache {
    const struct blas_calls *blas;
    struct gemm_plan *bucket[BUCKETS];
};

/* The power of two up to 16 that an address and a stride in bytes are multiples of. */
static int alignment(const void *p, int64_t stride)
{
    uintptr_t all = (uintptr_t)p | (uintptr_t)stride | 16;

    return (int)(all & -all);
}

static struct gemm_key key_of(const struct gemm *g)
{
    int out = g->d32 ? 4 : 2;

    return {g->M, g->N, g->K, g->lda, g->ldb, g->ldd, g->ta, g->tb, g->d32, g->beta != 0,
            alignment(g->A, g->lda * 2), alignment(g->B, g->ldb * 2), alignment(g->D, g->ldd * out), 0};
}

#define SHAPE "M %lld, N %lld, K %lld, lda %lld, ldb %lld, ldd %lld%s%s%s"
#define SHAPE_OF(k) \
    (long long)(k)->M, (long long)(k)->N, (long long)(k)->K, (long long)(k)->lda, (long long)(k)->ldb, (long long)(k)->ldd, (k)->ta ? ", A transposed" : "", (k)->tb ? ", B transposed" : "", \
        (k)->d32 ? ", fp32" : ""
#define TRY(call, name) \
    if (!cuda_blas_ok(c, call, name, SHAPE, SHAPE_OF(k))) return false

/* A stored (rows, columns) row-major matrix as the library sees it. */
static bool make_layout(struct cuda *c, cublasLtMatrixLayout_t *out, cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld, const struct gemm_key *k)
{
    TRY(c->blas->layout_create(out, type, (uint64_t)columns, (uint64_t)rows, ld), "cublasLtMatrixLayoutCreate");
    return true;
}

static bool choose(struct cuda *c, struct gemm_plan *p, cublasLtMatmulPreference_t preference, const struct gemm_key *k)
{
    cublasLtMatmulHeuristicResult_t result;
    const uint64_t workspace = CUDA_WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t align[3] = {(uint32_t)k->align_b, (uint32_t)k->align_a, (uint32_t)k->align_d};
    int found = 0;

    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), "cublasLtMatmulPreferenceSetAttribute");
    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction), "cublasLtMatmulPreferenceSetAttribute");
    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0], sizeof *align), "cublasLtMatmulPreferenceSetAttribute");
    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1], sizeof *align), "cublasLtMatmulPreferenceSetAttribute");
    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2], sizeof *align), "cublasLtMatmulPreferenceSetAttribute");
    TRY(c->blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[2], sizeof *align), "cublasLtMatmulPreferenceSetAttribute");
    cublasStatus_t rc = c->blas->heuristic(c->lt, p->desc, p->a, p->b, p->d, p->d, preference, 1, &result, &found);
    if ((p->plain = rc == CUBLAS_STATUS_NOT_SUPPORTED || (rc == CUBLAS_STATUS_SUCCESS && !found))) {
        log_info("cublasLtMatmulAlgoGetHeuristic has no algorithm for " SHAPE ": a plain kernel computes it, slowly", SHAPE_OF(k));
        return true;
    }
    TRY(rc, "cublasLtMatmulAlgoGetHeuristic");
    p->algorithm = result.algo;
    p->workspace = result.workspaceSize;
    return true;
}

/* The library's A is our B. */
static bool fill_plan(struct cuda *c, struct gemm_plan *p)
{
    const struct gemm_key *k = &p->key;
    const cublasOperation_t op_a = k->tb ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = k->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulPreference_t preference;

    TRY(c->blas->desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    TRY(c->blas->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a), "cublasLtMatmulDescSetAttribute");
    TRY(c->blas->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b), "cublasLtMatmulDescSetAttribute");
    if (!make_layout(c, &p->a, CUDA_R_16BF, k->tb ? k->N : k->K, k->tb ? k->K : k->N, k->ldb, k) ||
        !make_layout(c, &p->b, CUDA_R_16BF, k->ta ? k->K : k->M, k->ta ? k->M : k->K, k->lda, k) ||
        !make_layout(c, &p->d, k->d32 ? CUDA_R_32F : CUDA_R_16BF, k->M, k->N, k->ldd, k)) return false;
    TRY(c->blas->preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    bool ok = choose(c, p, preference, k);
    c->blas->preference_destroy(preference);
    return ok;
}

static struct gemm_plan *find_plan(struct cuda *c, const struct gemm_key *key)
{
    if (!c->gemms) {
        c->gemms = (struct gemm_cache *)xcalloc(1, sizeof *c->gemms);
        c->gemms->blas = c->blas;
    }
    struct gemm_plan **bucket = &c->gemms->bucket[hash64(0, key, sizeof *key) % BUCKETS], *p = *bucket;
    while (p && memcmp(&p->key, key, sizeof *key)) p = p->next;
    if (p) return p;
    p = (struct gemm_plan *)xcalloc(1, sizeof *p);
    p->key = *key;
    p->next = *bucket;
    *bucket = p;
    return fill_plan(c, p) ? p : NULL;
}

void cuda_gemm(struct dev *dev, const struct gemm *g)
{
    struct cuda *c = cuda_of(dev);
    struct gemm_key key = key_of(g);
    struct gemm_plan *p;

    if (c->failed.status != PAWL_OK || g->M == 0 || g->N == 0) return;
    if (!(p = find_plan(c, &key))) return;
    if (p->plain) {
        cuda_gemm_plain(c, g);
        return;
    }
    cuda_blas_ok(c, c->blas->matmul(c->lt, p->desc, &g->alpha, g->B, p->a, g->A, p->b, &g->beta, g->D, p->d, g->D, p->d, &p->algorithm, c->workspace, p->workspace, c->main),
                 "cublasLtMatmul", SHAPE, SHAPE_OF(&key));
}

void cuda_gemm_free(struct gemm_cache *cache)
{
    for (int i = 0; cache && i < BUCKETS; i++)
        for (struct gemm_plan *p = cache->bucket[i], *next; p; p = next) {
            next = p->next;
            if (p->a) cache->blas->layout_destroy(p->a);
            if (p->b) cache->blas->layout_destroy(p->b);
            if (p->d) cache->blas->layout_destroy(p->d);
            if (p->desc) cache->blas->desc_destroy(p->desc);
            free(p);
        }
    free(cache);
}
