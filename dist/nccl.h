/* The calls of NCCL that dist/nccl.c makes. The library is found at run time, so that one binary starts on machines without it; the emulation brings its own (tests/emu/nccl.cc).
 * Private to dist; C and C++. */
#ifndef PAWL_DIST_NCCL_H
#define PAWL_DIST_NCCL_H

#include <nccl.h>

struct nccl_calls {
    __typeof__(ncclGetVersion) *get_version;
    __typeof__(ncclGetUniqueId) *get_unique_id;
    __typeof__(ncclGetErrorString) *error_string;
    __typeof__(ncclGetLastError) *last_error;
    __typeof__(ncclCommInitRankConfig) *init;
    __typeof__(ncclCommGetAsyncError) *async_error;
    __typeof__(ncclCommFinalize) *finalize;
    __typeof__(ncclCommDestroy) *destroy;
    __typeof__(ncclCommAbort) *abort;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
    __typeof__(ncclSend) *send;
    __typeof__(ncclRecv) *recv;
};

#ifdef __cplusplus
extern "C"
#endif
/* NULL: *why says what was tried. */
const struct nccl_calls *nccl_load(const char **why);

#endif
