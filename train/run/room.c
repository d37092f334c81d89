#include "train/run/room.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "optim/clip.h"
#include "train/run/journaling.h"
#include "train/run/memory.h"
#include "train/run/step.h"

#include <stdlib.h>

static int longest_example(const struct dataset *d)
{
    int longest = 0;

    for (size_t i = 0; d && i < dataset_count(d); i++) {
        int n = dataset_example(d, i).length;
        longest = n > longest ? n : longest;
    }
    return longest;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The limits of any micro-batch of n rows, of training or evaluation. */
static struct rows_limits limits_of(const struct trainer *t, int64_t n)
{
    struct rows_limits a = rows_limits(t->rows, n), b;

    if (!t->eval_rows) return a;
    b = rows_limits(t->eval_rows, n);
    return (struct rows_limits){a.rows > b.rows ? a.rows : b.rows, larger(a.tokens, b.tokens), larger(a.supervised, b.supervised), larger(a.examples, b.examples)};
}

static struct rows_limits micro_limits(const struct trainer *t)
{
    return limits_of(t, t->cfg->micro_batch_size);
}

static void reserve(struct trainer *t, enum net_mode mode, struct rows_limits limits)
{
    size_t bytes, staging;
    int longest = (int)larger(longest_example(t->data), longest_example(t->held_out));

    net_free(&t->net);
    arena_free(&t->arena);
    arena_free(&t->host);
    share_slices(t);
    bytes = (size_t)range_count(t->share.held) * sizeof(float);
    staging = t->share.rank ? 0 : t->share.size > 1 ? 3 * (size_t)t->lora.n * sizeof(float) : journaling_bytes(t->cfg, t->lora.n);
    net_reserve(&t->net, &t->arena, t->dev, t->model, &t->lora, mode, limits, longest + 1);
    arena_reserve(&t->arena, "adapter", bytes, &t->theta);
    arena_reserve(&t->arena, "adapter", (size_t)t->lora.n * (size_t)dtype_info[t->dev->act].bytes, &t->operand);
    arena_reserve(&t->arena, "optimizer", bytes, &t->m);
    arena_reserve(&t->arena, "optimizer", bytes, &t->v);
    arena_reserve(&t->arena, "gradient", bytes, &t->g);
    arena_reserve(&t->arena, "gradient", (size_t)clip_blocks(t->lora.n) * sizeof(double), &t->norm_blocks);
    if (t->dev->ops->block_hashes) arena_reserve(&t->arena, "gradient", (size_t)clip_blocks(t->lora.n) * sizeof *t->hash_blocks, &t->hash_blocks);
    share_reserve(t);
    t->staging = NULL;
    if (staging) arena_reserve(&t->host, "journal", staging, &t->staging);
    arena_reserve(&t->host, "batch", (size_t)limits.supervised * sizeof(float), &t->loss);
}

/* The ways to save memory, the cheapest first: the rows of an embedding are few to look up, computing each layer twice costs a third. */
static bool find_room(struct trainer *t)
{
    static const struct {
        bool host, checkpointed;
    } ways[] = {{false, false}, {true, false}, {false, true}, {true, true}};
    struct model *m = t->model;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].host && (!t->dev->ops->available || !model_embed_bytes(m))) continue;
        if (t->cfg->gradient_checkpointing != CONFIG_AUTO && ways[i].checkpointed != (t->cfg->gradient_checkpointing == CONFIG_ON)) continue;
        m->embed_on_host = ways[i].host;
        reserve(t, ways[i].checkpointed ? NET_TRAIN_CHECKPOINTED : NET_TRAIN, micro_limits(t));
        if (!memory_suffices(t, NULL, NULL)) continue;
        if (m->embed_on_host) log_info("the embedding stays in the memory of this machine: that of %s would not suffice", t->dev->name);
        if (ways[i].checkpointed && t->cfg->gradient_checkpointing == CONFIG_AUTO) log_info("gradient checkpointing is on: memory would not suffice without it");
        return true;
    }
    return false;
}

/* The settings that would make it fit, with the last way of find_room: to be freed. NULL: none of these would. Leaves a size table of other shapes. */
static char *what_would_fit(struct trainer *t)
{
    const char *also = t->cfg->gradient_checkpointing == CONFIG_OFF ? "gradient_checkpointing: true" : NULL;
    struct rows_limits one = limits_of(t, 1);

    for (int64_t n = t->cfg->micro_batch_size;; n = (n + 1) / 2) {
        reserve(t, NET_TRAIN_CHECKPOINTED, limits_of(t, n));
        if (memory_suffices(t, NULL, NULL)) {
            if (n == t->cfg->micro_batch_size) return also ? xasprintf("set %s", also) : NULL;
            return xasprintf("set micro_batch_size: %lld%s%s", (long long)n, also ? " and " : "", also ? also : "");
        }
        if (n == 1) break;
    }
    for (int64_t length = t->cfg->sequence_len / 2; length >= 128; length /= 2) {
        struct rows_limits part = one;

        part.tokens = part.tokens < length ? part.tokens : length;
        part.supervised = part.supervised < length ? part.supervised : length;
        reserve(t, NET_TRAIN_CHECKPOINTED, part);
        if (memory_suffices(t, NULL, NULL)) return xasprintf("set sequence_len: %lld, micro_batch_size: 1%s%s", (long long)length, also ? " and " : "", also ? also : "");
    }
    return NULL;
}

enum pawl_status room_allocate(struct trainer *t, struct err *err)
{
    enum pawl_status st;

    if (!find_room(t)) {
        char *advice = what_would_fit(t);

        reserve(t, t->cfg->gradient_checkpointing == CONFIG_OFF ? NET_TRAIN : NET_TRAIN_CHECKPOINTED, micro_limits(t));
        if (!memory_suffices(t, advice, err)) st = err->status;
        else st = err_set(err, PAWL_ENOMEM, "memory of %s: it was full a moment ago, and is not now: start again", t->dev->name);
        free(advice);
        return st;
    }
    if ((st = model_place(t->model, t->dev, err)) != PAWL_OK) return st;
    if ((st = dev_arena_alloc(t->dev, &t->arena, err)) != PAWL_OK || (st = arena_alloc(&t->host, NULL, NULL, err)) != PAWL_OK) return st;
    t->pinned = t->staging && t->dev->ops->pin && t->dev->ops->pin(t->dev, t->staging, journaling_bytes(t->cfg, t->lora.n));
    net_init(&t->net);
    t->net.operand = t->operand;
    share_place(t);
    micro_init(&t->micro, micro_limits(t));
    return PAWL_OK;
}
