/* The table of one variant, host memory, and who owns which scratch. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((int64_t)2 << 20)

static void *cpu_alloc(struct dev *dev, size_t bytes)
{
    int64_t align = (int64_t)bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    void *p = aligned_alloc((size_t)align, (size_t)round_up(bytes ? (int64_t)bytes : 1, align));

    if (!p) return NULL;
    if (align == HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE); /* advice only */
    return memset(p, 0, bytes);
}

static void cpu_free(struct dev *dev, void *p, size_t bytes)
{
    free(p);
}

static void cpu_copy(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    if (bytes) memcpy(dst, src, bytes);
}

static void cpu_zero(struct dev *dev, void *p, size_t bytes)
{
    if (bytes) memset(p, 0, bytes);
}

static size_t cpu_scratch_bytes(const struct dev *dev, const struct dev_shapes *s)
{
    return (size_t)(dev->threads * THREAD_SCRATCH + max64(attention_shared(s->T, s->H, s->G, s->D), head_shared(s->T, s->C, dev->threads)));
}

struct pad pad_of(const struct dev *dev, int thread)
{
    char *base = dev->scratch;

    return (struct pad){base + thread * THREAD_SCRATCH, base + (thread + 1) * THREAD_SCRATCH};
}

struct pad pad_shared(const struct dev *dev)
{
    char *base = dev->scratch;

    return (struct pad){base + dev->threads * THREAD_SCRATCH, base + dev->scratch_bytes};
}

void *pad_take(struct pad *p, int64_t bytes)
{
    void *piece = p->at;

    p->at += round_up(bytes, 64);
    assert(p->at <= p->end);
    return piece;
}

const struct ops cpu_ops = {
    .name = "cpu",
    .scratch_bytes = cpu_scratch_bytes,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .embed = OP(embed),
    .rmsnorm = OP(rmsnorm),
    .add_rmsnorm = OP(add_rmsnorm),
    .rmsnorm_backward = OP(rmsnorm_backward),
    .lora_down = OP(lora_down),
    .linear = OP(linear),
    .lora_up_backward = OP(lora_up_backward),
    .linear_backward = OP(linear_backward),
    .lora_grad = OP(lora_grad),
    .rope = OP(rope),
    .attention = OP(attention),
    .attention_backward = OP(attention_backward),
    .attention_decode = OP(attention_decode),
    .swiglu = OP(swiglu),
    .swiglu_backward = OP(swiglu_backward),
    .gather = OP(gather),
    .scatter = OP(scatter),
    .head_loss = OP(head_loss),
    .logits = OP(logits),
    .add = OP(add),
    .sum_squares = OP(sum_squares),
    .adamw = OP(adamw),
    .round_operand = OP(round_operand),
};
