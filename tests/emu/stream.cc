/* Streams and events. Nothing runs when it is queued: whoever waits makes the streams advance, one operation at a time from a stream drawn at random among those that may go on,
 * so an order that only a missing event would forbid does happen. What an asynchronous copy moves is taken and given when it runs, as the hardware may. */
#include "tests/emu/emu.h"
#include "tests/emu/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <vector>

struct operation {
    const char *name;
    std::function<void()> run;
    cudaEvent_t awaited; /* or: may begin when this event has reached `version` */
    uint64_t version;
    std::function<bool()> ready; /* or: when this says so, which others decide */
};

struct emu_stream {
    std::deque<operation> queue;
};

struct emu_event {
    uint64_t recorded, reached;
};

static std::vector<cudaStream_t> streams;
static std::map<const void *, size_t> allowed_shared;

static bool may_run(cudaStream_t s)
{
    if (s->queue.empty()) return false;
    operation &op = s->queue.front();
    return (!op.awaited || op.awaited->reached >= op.version) && (!op.ready || op.ready());
}

/* Nothing can run here before another process has done something. */
static void wait_for_others()
{
    for (cudaStream_t s : streams)
        if (!s->queue.empty() && s->queue.front().ready) {
            usleep(100);
            return;
        }
    emu_fail("every stream waits for an event that none will reach");
}

static void advance()
{
    std::vector<cudaStream_t> able;

    for (cudaStream_t s : streams)
        if (may_run(s)) able.push_back(s);
    if (able.empty()) return wait_for_others();
    cudaStream_t s = able[emu_draw((uint32_t)able.size())];
    operation op = std::move(s->queue.front());
    s->queue.pop_front();
    if (op.run) op.run();
}

template <typename F> static void run_until(F reached)
{
    if (reached()) return;
    emu_device_open();
    while (!reached()) advance();
    emu_device_close();
}

static void check_stream(cudaStream_t s, const char *who)
{
    for (cudaStream_t known : streams)
        if (known == s) return;
    emu_fail("%s: not a stream of this device (the default stream waits for all others: it is not used)", who);
}

void emu_queue(cudaStream_t s, const char *name, std::function<void()> run)
{
    check_stream(s, name);
    s->queue.push_back({name, std::move(run), NULL, 0, {}});
}

void emu_queue_when(void *stream, const char *name, std::function<bool()> ready, std::function<void()> run)
{
    cudaStream_t s = (cudaStream_t)stream;

    check_stream(s, name);
    s->queue.push_back({name, std::move(run), NULL, 0, std::move(ready)});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    emu_start();
    *s = new emu_stream;
    streams.push_back(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    check_stream(s, "cudaStreamSynchronize");
    run_until([&] { return s->queue.empty(); });
    return cudaSuccess;
}

/* Asking is waiting a little: some operation of some stream runs. */
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    check_stream(s, "cudaStreamQuery");
    if (s->queue.empty()) return cudaSuccess;
    emu_device_open();
    advance();
    emu_device_close();
    return cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaStreamSynchronize(s);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) streams.erase(streams.begin() + (ptrdiff_t)i--);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = new emu_event{};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    run_until([&] { return e->reached == e->recorded; });
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    uint64_t version = ++e->recorded;

    emu_queue(s, "cudaEventRecord", [=] { e->reached = version; });
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    check_stream(s, "cudaStreamWaitEvent");
    s->queue.push_back({"cudaStreamWaitEvent", {}, e, e->recorded, {}});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    run_until([&] { return e->reached == e->recorded; });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;

    if (!bytes) return cudaSuccess;
    if (to_device) emu_check_device(dst, bytes, "cudaMemcpyAsync", "the destination");
    else if (emu_is_device(dst)) emu_fail("cudaMemcpyAsync: a copy to the host has a destination on the device");
    if (from_device) emu_check_device(src, bytes, "cudaMemcpyAsync", "the source");
    else if (emu_is_device(src)) emu_fail("cudaMemcpyAsync: a copy from the host has a source on the device");
    if (!from_device && !emu_is_pinned(src, bytes)) {
        std::vector<char> staged((const char *)src, (const char *)src + bytes);

        emu_queue(s, "cudaMemcpyAsync", [=] { memcpy(dst, staged.data(), bytes); });
        return cudaSuccess;
    }
    if (!to_device && emu_is_pinned(dst, bytes)) memset(dst, 0xff, bytes);
    emu_queue(s, "cudaMemcpyAsync", [=] { memmove(dst, src, bytes); });
    return to_device || emu_is_pinned(dst, bytes) ? cudaSuccess : cudaStreamSynchronize(s);
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s)
{
    emu_check_device(p, bytes, "cudaMemsetAsync", "the destination");
    emu_queue(s, "cudaMemsetAsync", [=] { memset(p, byte, bytes); });
    return cudaSuccess;
}

cudaError_t emu_free(void *p);

/* As the real one it waits for the whole device. */
cudaError_t cudaFree(void *p)
{
    run_until([] {
        for (cudaStream_t s : streams)
            if (!s->queue.empty()) return false;
        return true;
    });
    return emu_free(p);
}

/* ---- launches and the rest of the API ---- */

cudaError_t emu_allow_shared(const void *kernel, size_t bytes)
{
    if (bytes > 99 * 1024) return cudaErrorInvalidValue; /* what the smallest card, sm_86, opts in to */
    allowed_shared[kernel] = bytes;
    return cudaSuccess;
}

cudaError_t emu_launch_check(const void *kernel, const char *name, dim3 grid, dim3 block, size_t shared)
{
    size_t allowed = allowed_shared.count(kernel) ? allowed_shared[kernel] : 48 * 1024;

    if (shared > allowed) return cudaErrorInvalidValue;
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
    if (block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024) return cudaErrorInvalidConfiguration;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    const char *given = getenv("PAWL_EMU_CARDS");

    *n = given ? atoi(given) : 1;
    return *n ? cudaSuccess : cudaErrorNoDevice;
}

/* All cards are alike, and each process sees the memory of its own alone. */
cudaError_t cudaSetDevice(int i)
{
    int n;

    return cudaGetDeviceCount(&n) == cudaSuccess && i >= 0 && i < n ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int i)
{
    size_t available;

    *p = {};
    snprintf(p->name, sizeof p->name, "emulated");
    p->major = 8, p->minor = 6;
    p->pciBusID = i + 1;
    cudaMemGetInfo(&available, &p->totalGlobalMem);
    return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char *cudaGetErrorName(cudaError_t e) { return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : e == cudaSuccess ? "cudaSuccess" : "cudaErrorInvalidValue"; }

const char *cudaGetErrorString(cudaError_t e) { return e == cudaErrorMemoryAllocation ? "out of memory" : e == cudaSuccess ? "no error" : "invalid argument"; }
