/* Opening a card, its memory, and what is said when a call fails. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

static const struct {
    cudaError_t rc;
    const char *likely;
} causes[] = {
    {cudaErrorMemoryAllocation, "the card's memory is full: is another program on it (nvidia-smi)? Lower micro_batch_size or sequence_len, or set gradient_checkpointing: true"},
    {cudaErrorInsufficientDriver, "no NVIDIA driver is loaded, or it is older than the CUDA that this program was built with (nvidia-smi shows both)"},
    {cudaErrorNoDevice, "no NVIDIA card is visible (CUDA_VISIBLE_DEVICES, nvidia-smi)"},
    {cudaErrorInvalidDevice, "there is no card of this number (nvidia-smi -L lists them)"},
    {cudaErrorDevicesUnavailable, "the card is taken by another process (exclusive mode)"},
    {cudaErrorNoKernelImageForDevice, "this build has no code for the card: sm_80 or later is needed"},
    {cudaErrorIllegalAddress, "a kernel left its buffers: a bug of pawl, or a buffer of the host given to the device"},
    {cudaErrorLaunchFailure, "a kernel crashed: a bug of pawl, or failing hardware (dmesg, nvidia-smi -q)"},
    {cudaErrorLaunchTimeout, "the display's watchdog ended a kernel: use a card without a display"},
    {cudaErrorECCUncorrectable, "the card's memory is failing: use another machine"},
    {cudaErrorLaunchOutOfResources, "a kernel needs more registers or shared memory than this card has: a bug of pawl"},
    {cudaErrorInvalidConfiguration, "a grid that no card runs: a bug of pawl"},
};

static const char *likely(cudaError_t rc)
{
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].rc == rc) return causes[i].likely;
    return "a bug of pawl, or a failing card";
}

static void keep_failure(struct cuda *c, const char *text)
{
    if (c->failed.status != PAWL_OK) return;
    err_set(&c->failed, PAWL_EIO, "cuda:%d: %s", c->device, text);
    if (c->opened) log_warn("%s", c->failed.text); /* cuda_open returns its failure */
}

void cuda_fail(struct cuda *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    keep_failure(c, text);
}

static bool failed_call(struct cuda *c, const char *call, const char *name, const char *said, const char *cause, const char *shape, va_list ap)
{
    char where[512], text[1024];

    vsnprintf(where, sizeof where, shape, ap);
    snprintf(text, sizeof text, "%s for %s: %s (%s): %s", call, where, name, said, cause);
    keep_failure(c, text);
    return false;
}

bool cuda_ok(struct cuda *c, cudaError_t rc, const char *call, const char *shape, ...)
{
    va_list ap;

    if (rc == cudaSuccess) return true;
    va_start(ap, shape);
    failed_call(c, call, cudaGetErrorName(rc), cudaGetErrorString(rc), likely(rc), shape, ap);
    va_end(ap);
    return false;
}

bool cuda_blas_ok(struct cuda *c, cublasStatus_t rc, const char *call, const char *shape, ...)
{
    static const struct {
        cublasStatus_t rc;
        const char *name, *likely;
    } known[] = {
        {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the card has no memory left for the library, or its driver is too old"},
        {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the card's memory is full"},
        {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "a shape that the library refuses: a bug of pawl"},
        {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "no algorithm for this shape: a bug of pawl, or a cuBLAS older than 12"},
        {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "this cuBLAS knows no such card: update it"},
        {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "a kernel before it crashed, or the card fails"},
    };
    const char *name = "cuBLAS error", *cause = "a bug of pawl, or a failing card";
    va_list ap;

    if (rc == CUBLAS_STATUS_SUCCESS) return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].rc == rc) name = known[i].name, cause = known[i].likely;
    char said[32];
    snprintf(said, sizeof said, "status %d", (int)rc);
    va_start(ap, shape);
    failed_call(c, call, name, said, cause, shape, ap);
    va_end(ap);
    return false;
}

static enum pawl_status cuda_check(struct dev *dev, struct err *err)
{
    struct cuda *c = cuda_of(dev);

    if (c->failed.status == PAWL_OK) return PAWL_OK;
    return err_set(err, c->failed.status, "%s", c->failed.text);
}

/* ---- memory ---- */

void cuda_wait_for_main(struct cuda *c, const char *what, size_t bytes)
{
    if (c->failed.status == PAWL_OK) cuda_ok(c, cudaStreamSynchronize(c->main), "cudaStreamSynchronize", "%s of %zu bytes, or what was queued before it", what, bytes);
}

void *cuda_alloc(struct dev *dev, size_t bytes)
{
    struct cuda *c = cuda_of(dev);
    void *p = NULL;
    size_t size = bytes ? bytes : 1;
    cudaError_t rc = c->failed.status == PAWL_OK ? cudaMalloc(&p, size) : cudaErrorMemoryAllocation;

    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* a full card is the caller's to say, and not the end */
        return NULL;
    }
    if (!cuda_ok(c, rc, "cudaMalloc", "%zu bytes", size)) return NULL;
    cuda_ok(c, cudaMemsetAsync(p, 0, size, c->main), "cudaMemsetAsync", "%zu bytes", size);
    cuda_wait_for_main(c, "clearing memory", size); /* the side stream may use it next */
    return p;
}

void cuda_free(struct dev *dev, void *p, size_t bytes)
{
    if (p) cuda_ok(cuda_of(dev), cudaFree(p), "cudaFree", "%zu bytes", bytes);
}

static size_t cuda_available(struct dev *dev)
{
    size_t available = 0, total;

    if (!cuda_ok(cuda_of(dev), cudaMemGetInfo(&available, &total), "cudaMemGetInfo", "the card")) return 0;
    return available > CUDA_CODE ? available - CUDA_CODE : 0;
}

/* ---- scratch ----
 * Two slots for bf16 weights, and room for what one op needs while it runs: fp32 sums of a linear layer (T, the wider of C and H D), or for CUDA_HEAD_ROWS supervised rows a chunk of
 * logits in fp32 and of probabilities in bf16 with sums of dx, or attention's delta (T, H). Ops that need more work through it in parts. */

size_t cuda_scratch_bytes(const struct dev *dev, const struct dev_shapes *s)
{
    struct cuda *c = cuda_of(dev);
    int64_t heads = (int64_t)s->H * s->D, widest = larger(s->C, heads), chunk = smaller(s->V, CUDA_HEAD_CHUNK);
    int64_t slot = larger(s->C * larger(s->F, widest), chunk * s->C) * 2;
    int64_t room = larger((int64_t)s->T * widest * 4, smaller(s->T, CUDA_HEAD_ROWS) * cuda_head_row_bytes(s->V, s->C));

    room = larger(larger(room, (int64_t)s->T * s->H * 4), larger(widest, s->F) * 4);
    slot = ceil_div(slot, 256) * 256, room = ceil_div(room, 256) * 256;
    const struct cuda_cut cut = {(size_t)(2 * slot + room), (size_t)slot, (size_t)room};
    c->cut[c->cuts++ % CUDA_CUTS] = cut;
    return cut.all;
}

/* Equal sizes of other shapes may be cut otherwise: the newest counts, and what an op needs is checked against it. */
static struct cuda_cut cut_of(const struct dev *dev)
{
    const struct cuda *c = cuda_of(dev);

    for (int i = c->cuts - 1; i >= 0 && i >= c->cuts - CUDA_CUTS; i--)
        if (c->cut[i % CUDA_CUTS].all == dev->scratch_bytes) return c->cut[i % CUDA_CUTS];
    return {0, 0, 0};
}

size_t cuda_room_bytes(const struct dev *dev) { return cut_of(dev).room; }

static bool enough(struct cuda *c, size_t need, size_t have, const char *what)
{
    if (need > have) cuda_fail(c, "%s needs %zu bytes, the scratch has %zu for it: scratch_bytes was asked for smaller shapes", what, need, have);
    return c->failed.status == PAWL_OK;
}

char *cuda_slot_memory(struct dev *dev, int slot, size_t bytes)
{
    struct cuda_cut cut = cut_of(dev);

    return enough(cuda_of(dev), bytes, cut.slot, "a dequantised weight") ? (char *)dev->scratch + (size_t)slot * cut.slot : NULL;
}

char *cuda_room(struct dev *dev, size_t bytes, const char *what)
{
    struct cuda_cut cut = cut_of(dev);

    return enough(cuda_of(dev), bytes, cut.room, what) ? (char *)dev->scratch + 2 * cut.slot : NULL;
}

/* ---- opening ---- */

static void cuda_close(struct dev *dev)
{
    struct cuda *c = cuda_of(dev);

    if (!c) return;
    if (c->main) cudaStreamSynchronize(c->main);
    if (c->side) cudaStreamSynchronize(c->side);
    cuda_copies_close(c);
    cuda_gemm_free(c->gemms);
    for (int i = 0; i < 2; i++) {
        if (c->slot[i].filled) cudaEventDestroy(c->slot[i].filled);
        if (c->slot[i].read) cudaEventDestroy(c->slot[i].read);
    }
    if (c->workspace) cudaFree(c->workspace);
    if (c->lt) c->blas->destroy(c->lt);
    if (c->side) cudaStreamDestroy(c->side);
    if (c->main) cudaStreamDestroy(c->main);
    free(c);
    dev->state = NULL;
}

static const struct ops cuda_ops = {
    .name = "cuda",
    .scratch_bytes = cuda_scratch_bytes,
    .check = cuda_check,
    .available = cuda_available,
    .queue = cuda_queue,
    .idle = cuda_idle,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy_out = cuda_copy_out,
    .copied_out = cuda_copied_out,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .embed = cuda_embed,
    .rmsnorm = cuda_rmsnorm,
    .add_rmsnorm = cuda_add_rmsnorm,
    .rmsnorm_backward = cuda_rmsnorm_backward,
    .lora_down = cuda_lora_down,
    .linear = cuda_linear,
    .lora_up_backward = cuda_lora_up_backward,
    .linear_backward = cuda_linear_backward,
    .lora_grad = cuda_lora_grad,
    .rope = cuda_rope,
    .attention = cuda_attention,
    .attention_backward = cuda_attention_backward,
    .attention_decode = cuda_attention_decode,
    .swiglu = cuda_swiglu,
    .swiglu_backward = cuda_swiglu_backward,
    .gather = cuda_gather,
    .scatter = cuda_scatter,
    .head_loss = cuda_head_loss,
    .logits = cuda_logits,
    .add = cuda_add,
    .sum_squares = cuda_sum_squares,
    .block_hashes = cuda_block_hashes,
    .adamw = cuda_adamw,
    .round_operand = cuda_round_operand,
};

static void open_queues(struct cuda *c)
{
    cuda_ok(c, cudaStreamCreateWithFlags(&c->main, cudaStreamNonBlocking), "cudaStreamCreate", "the main stream");
    cuda_ok(c, cudaStreamCreateWithFlags(&c->side, cudaStreamNonBlocking), "cudaStreamCreate", "the stream of weights");
    for (int i = 0; i < 2; i++) {
        cuda_ok(c, cudaEventCreateWithFlags(&c->slot[i].filled, cudaEventDisableTiming), "cudaEventCreate", "slot %d", i);
        cuda_ok(c, cudaEventCreateWithFlags(&c->slot[i].read, cudaEventDisableTiming), "cudaEventCreate", "slot %d", i);
    }
    cuda_copies_open(c);
    cuda_ok(c, cudaMalloc(&c->workspace, CUDA_WORKSPACE), "cudaMalloc", "the GEMM workspace, %zu bytes", CUDA_WORKSPACE);
    cuda_blas_ok(c, c->blas->create(&c->lt), "cublasLtCreate", "the card");
}

enum pawl_status cuda_open(struct dev *dev, const char *device, struct err *err)
{
    struct cuda *c = (struct cuda *)xcalloc(1, sizeof *c);
    struct cudaDeviceProp card;
    const char *number = strchr(device, ':'), *why;
    char *end;
    int count = 0;

    c->open_slot = -1;
    dev->state = c;
    dev->close = cuda_close;
    if (number) {
        c->device = (int)strtol(number + 1, &end, 10);
        if (end == number + 1 || *end || c->device < 0) return err_set(err, PAWL_EUSAGE, "device %s: expected cuda or cuda:N with the number of a card", device);
    }
    if (dev->act != DTYPE_BF16) return err_set(err, PAWL_EINVAL, "device %s computes in bf16 only: set bf16: true, or device: cpu to check in fp32", device);
    if (!(c->blas = blas_load(&why))) return err_set(err, PAWL_EINVAL, "device %s: %s", device, why);
    if (cuda_ok(c, cudaGetDeviceCount(&count), "cudaGetDeviceCount", "this machine") && cuda_ok(c, cudaSetDevice(c->device), "cudaSetDevice", "card %d of %d", c->device, count) &&
        cuda_ok(c, cudaGetDeviceProperties(&card, c->device), "cudaGetDeviceProperties", "card %d", c->device)) {
        if (card.major < 8) return err_set(err, PAWL_EINVAL, "device %s: %s is sm_%d%d, and sm_80 (Ampere) or later is needed", device, card.name, card.major, card.minor);
        dev->name = xasprintf("cuda:%d %s", c->device, card.name);
        cuda_name_card(dev, &card);
        open_queues(c);
    }
    dev->ops = &cuda_ops;
    c->opened = c->failed.status == PAWL_OK;
    return cuda_check(dev, err);
}
