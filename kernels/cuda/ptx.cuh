/* The instructions that CUDA C has no name for, sm_80 and later. tests/emu/ptx.h says by the PTX ISA's tables what each lane holds. */
#ifndef PAWL_CUDA_PTX_CUH
#define PAWL_CUDA_PTX_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef PAWL_EMULATED
#include "tests/emu/ptx.h"
#else

/* The dynamic shared memory of the launch; kernels use no other. */
static __device__ __forceinline__ char *shared_memory()
{
    extern __shared__ __align__(16) char pawl_shared[];
    return pawl_shared;
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* c (16 x 8) += a (16 x 16) b (16 x 8), bf16 into fp32. */
static __device__ __forceinline__ void ptx_mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices of 2-byte elements from shared memory; lane l points to row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void ptx_ldmatrix(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

static __device__ __forceinline__ void ptx_ldmatrix_trans(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

/* 16 bytes from global to shared memory without waiting, or 16 zeros. */
static __device__ __forceinline__ void ptx_copy16(void *dst, const void *src, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(shared_address(dst)), "l"(src), "r"(valid ? 16 : 0) : "memory");
}

static __device__ __forceinline__ void ptx_commit()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* All but the NEWEST newest groups of this thread have arrived; others see them after a barrier. */
template <int NEWEST> static __device__ __forceinline__ void ptx_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(NEWEST) : "memory");
}

/* Two bf16, rounded to nearest even. */
static __device__ __forceinline__ uint32_t ptx_pack(float low, float high)
{
    uint32_t r;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

static __device__ __forceinline__ float ptx_half(uint16_t h)
{
    float x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

/* 2^x to 2 ulp; 0 for -inf. */
static __device__ __forceinline__ float ptx_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
#endif
