/* The part of the CUDA runtime that kernels/cuda uses, on the CPU: found instead of the toolkit's header when the .cu files are compiled by the host's C++ compiler.
 *
 * A thread of a kernel is a fiber (fiber.cc). What the hardware leaves open is drawn from a seeded generator (PAWL_EMU_SEED): the order of blocks, of warps between barriers,
 * of lanes within a warp, and how the operations of several streams interleave. Device memory (memory.cc) can be touched by kernels alone, ends at a guard page, and is
 * poisoned when it is given out. The first violation ends the process with one line. */
#ifndef PAWL_EMU_CUDA_RUNTIME_H
#define PAWL_EMU_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

#define __global__ __attribute__((unused))
#define __device__ __attribute__((unused))
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define PAWL_EMULATED 1
#define CUDART_VERSION 13000

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* ---- threads ---- */

extern struct emu_place {
    dim3 thread, block, block_dim, grid_dim;
} emu_place; /* of the fiber that runs now */
#define threadIdx emu_place.thread
#define blockIdx emu_place.block
#define blockDim emu_place.block_dim
#define gridDim emu_place.grid_dim

/* One line on stderr with the kernel and the thread, then abort. */
[[noreturn]] void emu_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* [0, n), n > 0, from the seeded generator. */
uint32_t emu_draw(uint32_t n);

/* What lanes meet in: each brings `in`, the last one to arrive computes everybody's `out`. */
struct emu_lane {
    uint32_t in[10], out[4];
    void *pointer;
};
typedef void emu_collective(struct emu_lane *lane[32]);
void emu_meet(emu_collective *what, const char *name);
struct emu_lane *emu_own();
void *emu_shared();
void emu_async_copy(void *dst, const void *src, int bytes, int size);
void emu_async_commit();
void emu_async_wait(int newest);

void __syncthreads();
void __syncwarp();
uint32_t emu_shuffle(uint32_t value, int from);
static inline int emu_lane_id() { return (int)(threadIdx.x & 31); }
static inline uint32_t __float_as_uint(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float __uint_as_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static inline float __shfl_sync(unsigned, float x, int from) { return __uint_as_float(emu_shuffle(__float_as_uint(x), from & 31)); }
static inline float __shfl_xor_sync(unsigned, float x, int mask) { return __uint_as_float(emu_shuffle(__float_as_uint(x), emu_lane_id() ^ mask)); }
static inline int __shfl_xor_sync(unsigned, int x, int mask) { return (int)emu_shuffle((uint32_t)x, emu_lane_id() ^ mask); }
static inline double __shfl_xor_sync(unsigned, double x, int mask)
{
    uint32_t half[2];

    memcpy(half, &x, 8);
    half[0] = emu_shuffle(half[0], emu_lane_id() ^ mask), half[1] = emu_shuffle(half[1], emu_lane_id() ^ mask);
    memcpy(&x, half, 8);
    return x;
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

/* ---- runtime ---- */

typedef enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorInvalidConfiguration, cudaErrorInsufficientDriver, cudaErrorNoDevice,
               cudaErrorNoKernelImageForDevice, cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorLaunchTimeout, cudaErrorECCUncorrectable,
               cudaErrorLaunchOutOfResources, cudaErrorDevicesUnavailable, cudaErrorInvalidDevice, cudaErrorNotReady } cudaError_t;
typedef struct emu_stream *cudaStream_t;
typedef struct emu_event *cudaEvent_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrMultiProcessorCount };
struct cudaDeviceProp {
    char name[256];
    int major, minor, pciDomainID, pciBusID, pciDeviceID;
    size_t totalGlobalMem;
};

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int i);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int i);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaGetLastError();
const char *cudaGetErrorName(cudaError_t e);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
enum { cudaHostRegisterDefault = 0 };
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s);
cudaError_t emu_allow_shared(const void *kernel, size_t bytes);
template <typename K> static inline cudaError_t cudaFuncSetAttribute(K *kernel, enum cudaFuncAttribute, int bytes) { return emu_allow_shared((const void *)kernel, (size_t)bytes); }

/* Ends the process unless [p, p + bytes) lies within one live allocation of the device. */
void emu_check_device(const void *p, size_t bytes, const char *who, const char *what);
/* An address that a kernel is given: NULL, within a live allocation or just behind it, or pinned memory of the host. */
void emu_check_pointer(const void *p, const char *kernel, int index);
/* An argument: an address, a number, or a struct whose addresses emu_pointers names (POINTERS_OF, kernels/cuda/cuda.h). */
template <typename T> static inline void emu_check_argument(const T &arg, const char *kernel, int index)
{
    if constexpr (std::is_pointer_v<T>) emu_check_pointer((const void *)arg, kernel, index);
    else if constexpr (std::is_class_v<T>)
        for (const void *p : emu_pointers(arg)) emu_check_pointer(p, kernel, index);
    else static_assert(std::is_arithmetic_v<T>, "an argument of a kernel is a pointer, a number, or a struct with POINTERS_OF");
}
/* Puts work behind what the stream has; name is kept for messages. */
void emu_queue(cudaStream_t s, const char *name, std::function<void()> run);
void emu_run_grid(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread);
cudaError_t emu_launch_check(const void *kernel, const char *name, dim3 grid, dim3 block, size_t shared);

template <typename... P, typename... A>
static inline cudaError_t emu_launch(void (*kernel)(P...), const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t s, A... args)
{
    std::tuple<P...> values(args...);
    int index = 0;
    cudaError_t rc = emu_launch_check((const void *)kernel, name, grid, block, shared);

    if (rc != cudaSuccess) return rc;
    std::apply([&](const auto &...v) { (emu_check_argument(v, name, index++), ...); }, values);
    emu_queue(s, name, [=] { emu_run_grid(name, grid, block, shared, [&] { std::apply(kernel, values); }); });
    return cudaSuccess;
}

#endif
