/* cuBLASLt, found when a card is opened and not when the program is linked, so that one binary also starts where there is no CUDA. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/base/library.h"
}

#define TEXT(x) #x
#define VALUE(x) TEXT(x)
#define MAJOR VALUE(CUBLAS_VER_MAJOR)

static const struct library_entry entries[] = {
    {"cublasLtCreate", offsetof(struct blas_calls, create)},
    {"cublasLtDestroy", offsetof(struct blas_calls, destroy)},
    {"cublasLtMatmul", offsetof(struct blas_calls, matmul)},
    {"cublasLtMatmulDescCreate", offsetof(struct blas_calls, desc_create)},
    {"cublasLtMatmulDescSetAttribute", offsetof(struct blas_calls, desc_set)},
    {"cublasLtMatmulDescDestroy", offsetof(struct blas_calls, desc_destroy)},
    {"cublasLtMatrixLayoutCreate", offsetof(struct blas_calls, layout_create)},
    {"cublasLtMatrixLayoutDestroy", offsetof(struct blas_calls, layout_destroy)},
    {"cublasLtMatmulPreferenceCreate", offsetof(struct blas_calls, preference_create)},
    {"cublasLtMatmulPreferenceSetAttribute", offsetof(struct blas_calls, preference_set)},
    {"cublasLtMatmulPreferenceDestroy", offsetof(struct blas_calls, preference_destroy)},
    {"cublasLtMatmulAlgoGetHeuristic", offsetof(struct blas_calls, heuristic)},
};

const struct blas_calls *blas_load(const char **why)
{
    static struct blas_calls calls;
    static bool loaded;
    static char reason[512];
    const struct library_advice install = {"cuBLAS " MAJOR, "another cuBLAS " MAJOR};

    if (!loaded) loaded = library_load(&calls, "libcublasLt.so." MAJOR, entries, sizeof entries / sizeof *entries, install, reason, sizeof reason);
    if (!loaded) *why = reason;
    return loaded ? &calls : NULL;
}
