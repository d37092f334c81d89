/* NCCL's entry points, from libnccl.so.2 where it is installed. */
#ifdef PAWL_NCCL

#include "dist/nccl.h"
#include "kernels/base/library.h"

static const struct library_entry entries[] = {
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

    if (!loaded) loaded = library_load(&calls, "libnccl.so.2", entries, sizeof entries / sizeof *entries, (struct library_advice){"NCCL", "NCCL 2.14 or later"}, reason, sizeof reason);
    if (!loaded) *why = reason;
    return loaded ? &calls : NULL;
}

#endif
