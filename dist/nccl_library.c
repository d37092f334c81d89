/* NCCL's entry points, from libnccl.so.2 where it is installed. */
#ifdef PAWL_NCCL

#include "dist/nccl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define LIBRARY "libnccl.so.2"

static const struct {
    const char *name;
    size_t at;
} entries[] = {
    {"ncclGetVersion", offsetof(struct nccl_calls, get_version)},
    {"ncclGetUniqueId", offsetof(struct nccl_calls, get_unique_id)},
    {"ncclGetErrorString", offsetof(struct nccl_calls, error_string)},
    {"ncclGetLastError", offsetof(struct nccl_calls, last_error)},
    {"ncclCommInitRankConfig", offsetof(struct nccl_calls, init)},
    {"ncclCommGetAsyncError", offsetof(struct nccl_calls, async_error)},
    {"ncclCommFinalize", offsetof(struct nccl_calls, finalize)},
    {"ncclCommDestroy", offsetof(struct nccl_calls, destroy)},
    {"ncclCommAbort", offsetof(struct nccl_calls, abort)},
    {"ncclGroupStart", offsetof(struct nccl_calls, group_start)},
    {"ncclGroupEnd", offsetof(struct nccl_calls, group_end)},
    {"ncclSend", offsetof(struct nccl_calls, send)},
    {"ncclRecv", offsetof(struct nccl_calls, recv)},
};

const struct nccl_calls *nccl_load(const char **why)
{
    static struct nccl_calls calls;
    static bool loaded;
    static char reason[240];
    void *library;

    if (loaded) return &calls;
    *why = reason;
    if (!(library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)) && !(library = dlopen("/usr/local/cuda/lib64/" LIBRARY, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(reason, sizeof reason, LIBRARY " can't be opened (%.80s): install NCCL, or add its folder to LD_LIBRARY_PATH", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *entry = dlsym(library, entries[i].name);

        if (!entry) {
            snprintf(reason, sizeof reason, LIBRARY " lacks %s: install NCCL 2.14 or later", entries[i].name);
            return NULL;
        }
        *(void **)((char *)&calls + entries[i].at) = entry;
    }
    loaded = true;
    return &calls;
}

#endif
