/* What a library that queues work of its own on an emulated stream needs: no type of the emulated CUDA header, so that nccl.cc can include the real ones. */
#ifndef PAWL_EMU_QUEUE_H
#define PAWL_EMU_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

/* As in include/cuda_runtime.h. */
[[noreturn]] void emu_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint32_t emu_draw(uint32_t n);
void emu_check_device(const void *p, size_t bytes, const char *who, const char *what);

/* Behind what the stream (a cudaStream_t) has: runs once `ready` says so, which is asked now and then and may not touch device memory. */
void emu_queue_when(void *stream, const char *name, std::function<bool()> ready, std::function<void()> run);

#endif
