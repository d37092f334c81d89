/* Bytes between the host and the card.
 *
 * I1  Uploads of at most CUDA_UPLOADS bytes wait for nothing: they are copied into pinned memory, and from there in the order of the main stream. A half of that memory is written again
 *     only after the card has read what stood in it (event read[half]). Larger ones wait.
 * I2  The side stream reads what was uploaded only after it is there (event `uploaded`): weights are.
 * I3  A copy out begins when what the main stream was given before it is done (event `made`), and adamw, which writes what is copied out, when it is over (event `done`). */
#include "kernels/cuda/cuda.h"

#include <string.h>

void cuda_copies_open(struct cuda *c)
{
    struct cuda_copies *k = &c->copies;
    cudaEvent_t *events[] = {&k->made, &k->done, &k->read[0], &k->read[1], &k->uploaded};
    const size_t bytes = 2 * CUDA_UPLOADS;

    cuda_ok(c, cudaStreamCreateWithFlags(&k->out, cudaStreamNonBlocking), "cudaStreamCreate", "the stream of copies");
    for (cudaEvent_t *e : events) cuda_ok(c, cudaEventCreateWithFlags(e, cudaEventDisableTiming), "cudaEventCreate", "copies");
    cuda_ok(c, cudaMallocHost((void **)&k->uploads, bytes), "cudaMallocHost", "uploads, %zu bytes", bytes);
}

void cuda_copies_close(struct cuda *c)
{
    struct cuda_copies *k = &c->copies;
    cudaEvent_t events[] = {k->made, k->done, k->read[0], k->read[1], k->uploaded};

    if (k->out) cudaStreamSynchronize(k->out);
    for (cudaEvent_t e : events)
        if (e) cudaEventDestroy(e);
    if (k->uploads) cudaFreeHost(k->uploads);
    if (k->out) cudaStreamDestroy(k->out);
}

static bool fine(const struct cuda *c) { return c->failed.status == PAWL_OK; }

static void record(struct cuda *c, cudaEvent_t e, cudaStream_t s, const char *what)
{
    if (fine(c)) cuda_ok(c, cudaEventRecord(e, s), "cudaEventRecord", "%s", what);
}

static void await(struct cuda *c, cudaStream_t s, cudaEvent_t e, const char *what)
{
    if (fine(c)) cuda_ok(c, cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent", "%s", what);
}

static void transfer(struct cuda *c, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream, const char *what)
{
    if (bytes && fine(c)) cuda_ok(c, cudaMemcpyAsync(dst, src, bytes, kind, stream), "cudaMemcpyAsync", "%s of %zu bytes", what, bytes);
}

/* ---- to the card ---- */

/* Room for an upload, at most CUDA_UPLOADS bytes. */
static char *upload_room(struct cuda *c, size_t bytes)
{
    struct cuda_copies *k = &c->copies;

    if (k->filled + bytes > CUDA_UPLOADS) {
        record(c, k->read[k->half], c->main, "uploads");
        k->half ^= 1, k->filled = 0;
        if (fine(c)) cuda_ok(c, cudaEventSynchronize(k->read[k->half]), "cudaEventSynchronize", "uploads, or what was queued before them");
    }
    char *room = k->uploads + (size_t)k->half * CUDA_UPLOADS + k->filled;
    k->filled += (bytes + 15) / 16 * 16;
    return room;
}

void cuda_upload(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    struct cuda *c = cuda_of(dev);
    bool small = bytes <= CUDA_UPLOADS;

    if (!fine(c) || !bytes) return;
    if (small) src = memcpy(upload_room(c, bytes), src, bytes);
    transfer(c, dst, src, bytes, cudaMemcpyHostToDevice, c->main, "an upload");
    record(c, c->copies.uploaded, c->main, "uploads");
    c->copies.unseen = true;
    if (!small) cuda_wait_for_main(c, "an upload", bytes);
}

void cuda_see_uploads(struct cuda *c)
{
    if (c->copies.unseen) await(c, c->side, c->copies.uploaded, "uploads");
    c->copies.unseen = false;
}

/* ---- to the host ---- */

/* After a failure the destination is all ones, so that nobody takes old numbers for new ones. */
void cuda_download(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    struct cuda *c = cuda_of(dev);

    transfer(c, dst, src, bytes, cudaMemcpyDeviceToHost, c->main, "a download");
    cuda_wait_for_main(c, "a download", bytes);
    if (bytes && !fine(c)) memset(dst, 0xff, bytes);
}

void cuda_copy_out(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    struct cuda *c = cuda_of(dev);
    struct cuda_copies *k = &c->copies;

    record(c, k->made, c->main, "a copy out");
    await(c, k->out, k->made, "a copy out");
    transfer(c, dst, src, bytes, cudaMemcpyDeviceToHost, k->out, "a copy out");
    record(c, k->done, k->out, "a copy out");
    k->pending = true;
}

void cuda_await_copies_out(struct cuda *c)
{
    if (c->copies.pending) await(c, c->main, c->copies.done, "copies out");
}

void cuda_copied_out(struct dev *dev)
{
    struct cuda *c = cuda_of(dev);

    if (c->copies.pending && fine(c)) cuda_ok(c, cudaEventSynchronize(c->copies.done), "cudaEventSynchronize", "copies out, or what was queued before them");
    c->copies.pending = false;
}

bool cuda_pin(struct dev *dev, void *p, size_t bytes)
{
    if (cudaHostRegister(p, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
    cudaGetLastError(); /* the system pins no more: copies go through the driver's own pinned memory */
    return false;
}

void cuda_unpin(struct dev *dev, void *p)
{
    cuda_ok(cuda_of(dev), cudaHostUnregister(p), "cudaHostUnregister", "memory of the host");
}

/* ---- on the card ---- */

void cuda_copy(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    transfer(cuda_of(dev), dst, src, bytes, cudaMemcpyDeviceToDevice, cuda_of(dev)->main, "a copy");
}

void cuda_zero(struct dev *dev, void *p, size_t bytes)
{
    struct cuda *c = cuda_of(dev);

    if (bytes && fine(c)) cuda_ok(c, cudaMemsetAsync(p, 0, bytes, c->main), "cudaMemsetAsync", "%zu bytes", bytes);
}
