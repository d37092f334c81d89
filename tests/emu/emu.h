/* What the parts of the emulation share. */
#ifndef PAWL_EMU_H
#define PAWL_EMU_H

#include "tests/emu/include/cuda_runtime.h"

#include <stdbool.h>

/* Stacks, shared memory, the handler that names a fault. */
void emu_start();
void emu_catch_faults();
/* "a byte behind an allocation of 64 bytes": what stands at an address. */
void emu_describe(const void *p, char *out, size_t size);
bool emu_is_device(const void *p);
/* Device memory may be touched between these two. */
void emu_device_open();
void emu_device_close();
bool emu_is_pinned(const void *p, size_t bytes);

#endif
