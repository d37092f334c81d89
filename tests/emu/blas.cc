#include "tests/emu/emu.h"

#include "kernels/cuda/cuda.h"

#include <vector>

struct emu_blas { int unused; };
struct emu_product { cublasOperation_t op[2]; };
struct emu_matrix {
    cudaDataType_t type;
    int64_t rows, columns, ld;
};
struct emu_wish {
    size_t workspace;
    uint32_t reduction, align[4];
};

static cublasStatus_t create(cublasLtHandle_t *h)
{
    *h = new emu_blas;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t destroy(T *p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t desc_create(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *d = new emu_product{};
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t desc_set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *value, size_t size)
{
    if (size != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&d->op[what], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t layout_create(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows || !rows || !columns) return CUBLAS_STATUS_INVALID_VALUE;
    *l = new emu_matrix{type, (int64_t)rows, (int64_t)columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_create(cublasLtMatmulPreference_t *p)
{
    *p = new emu_wish{0, 0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_set(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what, const void *value, size_t size)
{
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) memcpy(&p->workspace, value, size);
    else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) memcpy(&p->reduction, value, size);
    else memcpy(&p->align[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static bool shapes(const emu_product *d, const emu_matrix *a, const emu_matrix *b, const emu_matrix *out, int64_t *m, int64_t *n, int64_t *k)
{
    *m = d->op[0] == CUBLAS_OP_N ? a->rows : a->columns;
    *k = d->op[0] == CUBLAS_OP_N ? a->columns : a->rows;
    *n = d->op[1] == CUBLAS_OP_N ? b->columns : b->rows;
    return *k == (d->op[1] == CUBLAS_OP_N ? b->rows : b->columns) && out->rows == *m && out->columns == *n && a->type == CUDA_R_16BF && b->type == CUDA_R_16BF;
}

static cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                cublasLtMatmulPreference_t p, int, cublasLtMatmulHeuristicResult_t *result, int *found)
{
    cublasLtMatmulAlgo_t *algo = &result->algo;

    if (!shapes(d, a, b, out, &algo->m, &algo->n, &algo->k)) return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->m % 2 && algo->n % 2) return CUBLAS_STATUS_NOT_SUPPORTED; /* some shapes may have no algorithm: the backend has a kernel of its own for them */
    if (p->reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_NOT_SUPPORTED; /* others need not be deterministic */
    memcpy(algo->align, p->align, sizeof algo->align);
    result->workspaceSize = p->workspace < 65536 ? p->workspace : 65536;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static void check_matrix(const void *p, const emu_matrix *l, uint32_t align, const char *name)
{
    size_t size = l->type == CUDA_R_32F ? 4 : 2;

    if ((uintptr_t)p % align || (uint64_t)l->ld * size % align) emu_fail("cublasLtMatmul: %s is not aligned to the %u bytes that were declared", name, align);
    emu_check_device(p, ((size_t)(l->columns - 1) * (size_t)l->ld + (size_t)l->rows) * size, "cublasLtMatmul", name);
}

/* x as (outer, k), k next to each other. */
static std::vector<float> unpacked(const void *p, const emu_matrix *l, bool k_in_rows)
{
    int64_t outer = k_in_rows ? l->columns : l->rows, k = k_in_rows ? l->rows : l->columns;
    std::vector<float> x((size_t)(outer * k));

    for (int64_t c = 0; c < l->columns; c++)
        for (int64_t r = 0; r < l->rows; r++)
            x[(size_t)(k_in_rows ? c * k + r : r * k + c)] = bf16_to_f32(((const bf16 *)p)[c * l->ld + r]);
    return x;
}

static cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha, const void *A, cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                             const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                             cudaStream_t stream)
{
    int64_t m, n, k;
    float scale = *(const float *)alpha, keep = *(const float *)beta;
    emu_product op = *d;
    emu_matrix la = *a, lb = *b, lo = *out;

    if (!shapes(d, a, b, out, &m, &n, &k) || C != D || c != out) return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->m != m || algo->n != n || algo->k != k || workspace_bytes < 65536) return CUBLAS_STATUS_NOT_SUPPORTED;
    check_matrix(A, a, algo->align[0], "A");
    check_matrix(B, b, algo->align[1], "B");
    check_matrix(D, out, algo->align[3], "D");
    emu_check_device(workspace, workspace_bytes, "cublasLtMatmul", "the workspace");
    emu_queue(stream, "cublasLtMatmul", [=] {
        std::vector<float> x = unpacked(A, &la, op.op[0] == CUBLAS_OP_T), y = unpacked(B, &lb, op.op[1] == CUBLAS_OP_N), turned((size_t)(k * m)), sum((size_t)m);

        for (int64_t i = 0; i < m; i++)
            for (int64_t q = 0; q < k; q++) turned[(size_t)(q * m + i)] = x[(size_t)(i * k + q)];
        for (int64_t j = 0; j < n; j++) {
            std::fill(sum.begin(), sum.end(), 0.0f);
            for (int64_t q = 0; q < k; q++) {
                float f = y[(size_t)(j * k + q)];
                const float *row = &turned[(size_t)(q * m)];

                for (int64_t i = 0; i < m; i++) sum[(size_t)i] += row[i] * f;
            }
            for (int64_t i = 0; i < m; i++) {
                float *f32 = (float *)D + j * lo.ld + i;
                bf16 *half = (bf16 *)D + j * lo.ld + i;
                float v = scale * sum[(size_t)i];

                if (keep != 0) v += keep * (lo.type == CUDA_R_32F ? *f32 : bf16_to_f32(*half));
                if (lo.type == CUDA_R_32F) *f32 = v;
                else *half = bf16_from_f32(v);
            }
        }
    });
    return CUBLAS_STATUS_SUCCESS;
}

const struct blas_calls *blas_load(const char **why)
{
    static const struct blas_calls calls = {create, destroy<emu_blas>, matmul, desc_create, desc_set, destroy<emu_product>, layout_create, destroy<emu_matrix>, preference_create,
                                            preference_set, destroy<emu_wish>, heuristic};

    return &calls;
}
