/* The part of cuBLASLt that kernels/cuda/blas.cu uses, on the CPU (blas.cc): column-major products with fp32 sums over k from 0 up. What it refuses: types, leading dimensions and
 * alignments that were not declared, and a product before an algorithm was chosen for it. */
#ifndef PAWL_EMU_CUBLASLT_H
#define PAWL_EMU_CUBLASLT_H

#include "tests/emu/include/cuda_runtime.h"

typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8,
               CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_NOT_SUPPORTED = 15 } cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType_t;
typedef enum { CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB } cublasLtMatmulDescAttributes_t;
typedef enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES } cublasLtMatmulPreferenceAttributes_t;
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
typedef struct emu_blas *cublasLtHandle_t;
typedef struct emu_product *cublasLtMatmulDesc_t;
typedef struct emu_matrix *cublasLtMatrixLayout_t;
typedef struct emu_wish *cublasLtMatmulPreference_t;
typedef struct {
    int64_t m, n, k;
    uint32_t align[4];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
} cublasLtMatmulHeuristicResult_t;

#endif
