/* cuBLASLt, found when a card is opened and not when the program is linked, so that one binary also starts where there is no CUDA. */
#include "kernels/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#define TEXT(x) #x
#define VALUE(x) TEXT(x)
#define LIBRARY "libcublasLt.so." VALUE(CUBLAS_VER_MAJOR)

static const struct {
    const char *name;
    size_t at; /* in struct blas_calls */
} entries[] = {
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
    void *library;

    if (loaded) return &calls;
    *why = reason;
    if (!(library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)) && !(library = dlopen("/usr/local/cuda/lib64/" LIBRARY, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(reason, sizeof reason, LIBRARY " is not found (%s): install cuBLAS " VALUE(CUBLAS_VER_MAJOR) ", or add its folder to LD_LIBRARY_PATH", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *entry = dlsym(library, entries[i].name);

        if (!entry) {
            snprintf(reason, sizeof reason, LIBRARY " lacks %s: install another cuBLAS " VALUE(CUBLAS_VER_MAJOR), entries[i].name);
            return NULL;
        }
        *(void **)((char *)&calls + entries[i].at) = entry;
    }
    loaded = true;
    return &calls;
}
