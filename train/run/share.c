#include "train/run/share.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "optim/clip.h"
#include "kernels/base/clock.h"
#include "train/run/evaluate.h"
#include "train/run/record.h"
#include "train/run/state.h"
#include "train/run/stop.h"
#include "train/run/trainer.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* --- opening and closing */

enum pawl_status share_open(struct trainer *t, struct err *err)
{
    const struct ranks *r = &t->opt.ranks;
    size_t n = (size_t)r->size + 1;

    t->share = (struct share){.rank = r->rank, .size = r->size, .f32 = xcalloc(n, sizeof(size_t)), .act = xcalloc(n, sizeof(size_t)), .blocks = xcalloc(n, sizeof(size_t)),
                              .hashes = xcalloc(n, sizeof *t->share.hashes), .first_node = xcalloc(n, sizeof(int)), .notes = xcalloc(n, sizeof *t->share.notes),
                              .nodes = xcalloc(n * GRADTREE_NODES, sizeof *t->share.nodes)};
    return comm_open(&t->share.comm, r, t->opt.version, t->cfg->comm_timeout, err);
}

void share_leave(struct trainer *t, enum pawl_status st, const char *why)
{
    comm_close(t->share.comm, st, why);
    t->share.comm = NULL;
}

void share_free(struct share *s)
{
    free(s->f32);
    free(s->act);
    free(s->blocks);
    free(s->hashes);
    free(s->notes);
    free(s->nodes);
    free(s->send);
    free(s->recv);
    free(s->ready);
    free(s->first_node);
}

enum pawl_status share_items(struct trainer *t, void *list, size_t bytes, struct err *err)
{
    return comm_all_items(t->share.comm, list, bytes, err);
}

enum pawl_status share_device(struct trainer *t, struct err *err)
{
    const char *device = t->cfg->device;
    enum dtype element = t->cfg->bf16 == CONFIG_OFF ? DTYPE_F32 : DTYPE_BF16;
    char mine[32];
    enum pawl_status st;

    if (t->share.size == 1) return dev_open(&t->dev, device, element, t->threads, err);
    if ((st = dev_of_rank(mine, device, element, t->opt.ranks.local_rank, err)) != PAWL_OK || (st = dev_open(&t->dev, mine, element, t->threads, err)) != PAWL_OK) return st;
    return comm_open_device(t->share.comm, t->dev, strchr(device, ':') != NULL, err);
}

static enum pawl_status barrier(struct trainer *t, struct err *err)
{
    char here[RANKS_MAX];

    return share_items(t, here, 1, err);
}

enum pawl_status share_in_turn(struct trainer *t, enum pawl_status (*open)(struct trainer *t, struct err *err), struct err *err)
{
    bool first = t->opt.ranks.local_rank == 0;
    enum pawl_status st = first ? open(t, err) : PAWL_OK;

    if (st != PAWL_OK || (st = barrier(t, err)) != PAWL_OK) return st;
    return first ? PAWL_OK : open(t, err);
}

enum pawl_status share_global_batch(struct trainer *t, struct err *err)
{
    int64_t rows = t->cfg->global_batch_size;
    enum pawl_status st = comm_broadcast(t->share.comm, &rows, sizeof rows, err);

    if (st != PAWL_OK || t->share.rank == 0) return st;
    return config_fix_batch(t->cfg, t->share.size, rows, err);
}

/* What must be the same on all ranks. */
enum { FACTS = STATE_IDENTITIES + 2 };
struct facts {
    uint64_t value[FACTS];
    char device[64];
};

enum pawl_status share_compare(struct trainer *t, struct err *err)
{
    static const char *const names[] = {"the configuration", "zero_stage"};
    struct facts *all = xcalloc((size_t)t->share.size, sizeof *all), *mine = &all[t->share.rank];
    struct state_identity id[STATE_IDENTITIES];
    enum pawl_status st;

    state_identities(t, id);
    mine->value[0] = config_hash(t->cfg);
    mine->value[1] = (uint64_t)t->cfg->zero_stage;
    for (int i = 0; i < STATE_IDENTITIES; i++) mine->value[i + 2] = id[i].value;
    snprintf(mine->device, sizeof mine->device, "%s", t->dev->name);
    st = share_items(t, all, sizeof *all, err);
    for (int k = 1; k < t->share.size && st == PAWL_OK; k++)
        for (int i = 0; i < FACTS && st == PAWL_OK; i++)
            if (all[k].value[i] != all[0].value[i])
                st = err_set(err, PAWL_EINVAL, "rank %d: %s is not that of rank 0 (hash %016llx, rank 0 has %016llx): give all ranks the same", k, i < 2 ? names[i] : id[i - 2].what,
                             (unsigned long long)all[k].value[i], (unsigned long long)all[0].value[i]);
    for (int k = 1; k < t->share.size && st == PAWL_OK; k++)
        if (!dev_alike(all[k].device, all[0].device)) {
            log_warn("rank %d runs on %s, rank 0 on %s: they may round differently, so that another number of ranks need not give the same bits", k, all[k].device, all[0].device);
            break;
        }
    free(all);
    return st;
}

/* --- memory */

void share_slices(struct trainer *t)
{
    struct share *s = &t->share;
    size_t element = (size_t)dtype_info[t->dev->act].bytes;

    shard_offsets(s->f32, t->lora.n, CLIP_BLOCK, sizeof(float), s->size);
    shard_offsets(s->act, t->lora.n, CLIP_BLOCK, element, s->size);
    for (int k = 0; k <= s->size; k++) s->blocks[k] = (size_t)clip_blocks((int64_t)(s->f32[k] / sizeof(float))) * sizeof(double);
    s->own = shard_slice(t->lora.n, CLIP_BLOCK, s->rank, s->size);
    s->sharded = s->size > 1 && t->cfg->zero_stage != 0;
    s->held = s->sharded ? s->own : (struct range){0, t->lora.n};
}

struct range share_rows(const struct trainer *t, int64_t rows)
{
    return shard_rows(rows, t->share.rank, t->share.size);
}

/* Subtrees of a step that come from others. */
static int64_t foreign_nodes(const struct trainer *t, int64_t rows)
{
    struct gradtree_node nodes[GRADTREE_NODES];
    int64_t n = 0;

    for (int k = 0; k < t->share.size; k++) {
        struct range run = shard_rows(rows, k, t->share.size);

        if (k != t->share.rank) n += gradtree_nodes(nodes, run.begin, run.end);
    }
    return n;
}

/* Whether the gradient of a layer can go while others are computed: it must lie where the transport reads it. */
static bool overlaps(const struct trainer *t)
{
    return t->share.size > 1 && !t->share.comm->device && !t->dev->ops->available;
}

void share_reserve(struct trainer *t)
{
    struct share *s = &t->share;
    int64_t sizes[] = {t->rows->opt.global_batch, t->rows->count % t->rows->opt.global_batch}, inbox = 0; /* a step, and the last one of an epoch */
    size_t layers = (size_t)t->model->spec.layers, ranks = (size_t)s->size, mine = 0;

    t->tree = (struct gradtree){0};
    for (int i = 0; i < 2; i++) {
        struct range run = share_rows(t, sizes[i]);
        int64_t n = foreign_nodes(t, sizes[i]);

        gradtree_reserve_run(&t->tree, &t->arena, t->lora.n, run.begin, run.end);
        inbox = n > inbox ? n : inbox;
        n = gradtree_nodes(s->nodes, run.begin, run.end);
        mine = (size_t)n > mine ? (size_t)n : mine;
    }
    arena_reserve(&t->host, "batch", (size_t)sizes[0] * sizeof(double), &s->row_loss);
    /* A piece of each layer for each node and rank; or what share_sums has to say. */
    s->send = xreallocarray(s->send, (layers * mine + 3) * ranks, sizeof *s->send);
    s->recv = xreallocarray(s->recv, layers * (size_t)inbox + 3 * ranks, sizeof *s->recv);
    s->ready = xreallocarray(s->ready, layers, sizeof *s->ready);
    if (s->size > 1) arena_reserve(&t->arena, "gradients of other ranks", (size_t)(inbox * range_count(s->own)) * sizeof(float), &s->inbox);
}

/* --- the state */

static void parts_of(const struct trainer *t, float *part[3])
{
    part[0] = t->theta;
    part[1] = t->m;
    part[2] = t->v;
}

void share_place(struct trainer *t)
{
    float *part[3];

    parts_of(t, part);
    for (int i = 0; i < 3; i++) t->whole[i] = t->share.size == 1 ? arena_host(&t->arena, part[i]) : t->staging ? t->staging + i * t->lora.n : NULL;
}

/* comm_all_gather of a buffer of the device. */
static enum pawl_status gather_slices(struct trainer *t, void *data, const size_t *offset, struct err *err)
{
    const struct share *s = &t->share;
    enum pawl_status st;

    if (s->size == 1) return PAWL_OK;
    if (s->comm->device) return comm_device_all_gather(s->comm, data, offset, err);
    dev_fetch(t->dev, &t->arena, (char *)data + offset[s->rank], offset[s->rank + 1] - offset[s->rank]);
    if ((st = comm_all_gather(s->comm, arena_host(&t->arena, data), offset, err)) == PAWL_OK) dev_send(t->dev, &t->arena, data, offset[s->size]);
    return st;
}

enum pawl_status share_deal(struct trainer *t, struct err *err)
{
    const struct share *s = &t->share;
    size_t bytes = (size_t)range_count(s->held) * sizeof(float);
    float *part[3];
    enum pawl_status st = comm_broadcast(s->comm, &t->at, sizeof t->at, err);

    parts_of(t, part);
    for (int i = 0; i < 3 && st == PAWL_OK; i++) {
        float *whole = t->whole[i], *mine = arena_host(&t->arena, part[i]);

        if (s->sharded) st = comm_scatter(s->comm, whole, mine, s->f32, err);
        else st = comm_broadcast(s->comm, s->rank ? mine : whole, bytes, err);
        if (s->rank == 0 && s->size > 1) t->dev->ops->upload(t->dev, part[i], whole + s->held.begin, bytes);
        else dev_send(t->dev, &t->arena, part[i], bytes);
    }
    return st == PAWL_OK ? dev_check(t->dev, err) : st;
}

enum pawl_status share_collect(struct trainer *t, struct err *err)
{
    const struct share *s = &t->share;
    size_t bytes = (size_t)range_count(s->held) * sizeof(float);
    float *part[3];
    enum pawl_status st = PAWL_OK;

    if (s->size == 1 && t->whole_step == t->at.step) return PAWL_OK;
    parts_of(t, part);
    t->whole_step = -1;
    for (int i = 0; i < 3 && st == PAWL_OK; i++) {
        float *mine = arena_host(&t->arena, part[i]);

        if (s->rank == 0 && s->size > 1) t->dev->ops->download(t->dev, t->whole[i] + s->held.begin, part[i], bytes);
        else if (s->sharded || s->size == 1) mine = dev_fetch(t->dev, &t->arena, part[i], bytes);
        if (s->sharded) st = comm_gather(s->comm, t->whole[i], mine, s->f32, err);
    }
    if (st != PAWL_OK || (st = dev_check(t->dev, err)) != PAWL_OK) return st;
    t->whole_step = t->at.step;
    return PAWL_OK;
}

enum pawl_status share_operand(struct trainer *t, struct err *err)
{
    const struct share *s = &t->share;

    t->dev->ops->round_operand(t->dev, (char *)t->operand + (size_t)s->held.begin * (size_t)dtype_info[t->dev->act].bytes, t->theta, range_count(s->held));
    return share_gather_operand(t, err);
}

enum pawl_status share_gather_operand(struct trainer *t, struct err *err)
{
    return t->share.sharded ? gather_slices(t, t->operand, t->share.act, err) : PAWL_OK;
}

/* --- a step */

/* All subtrees of the step, in order, with where their slices of this rank are or will come. */
static void list_nodes(struct trainer *t, const struct batch *b)
{
    struct share *s = &t->share;
    float *inbox = s->inbox;
    int at = 0;

    for (int k = 0; k < s->size; k++) {
        struct range run = shard_rows(b->rows, k, s->size);

        s->first_node[k] = at;
        at += gradtree_nodes(s->nodes + at, run.begin, run.end);
        for (int i = s->first_node[k]; i < at; i++) {
            s->nodes[i].data = k == s->rank ? gradtree_data(&t->tree, &s->nodes[i]) + s->own.begin : inbox;
            if (k != s->rank) inbox += range_count(s->own);
        }
    }
    s->first_node[s->size] = at;
}

static void add_piece(struct comm_piece *list, int *n, int peer, float *data, struct range r)
{
    if (range_count(r) > 0) list[(*n)++] = (struct comm_piece){peer, data, (size_t)range_count(r) * sizeof *data};
}

static struct range common(struct range a, struct range b)
{
    return (struct range){a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

/* What of these elements goes out and comes in: the same order on both sides. */
static void list_pieces(struct trainer *t, struct range part)
{
    struct share *s = &t->share;
    bool direct = s->comm->device;

    for (int k = 0; k < s->size; k++)
        for (int i = s->first_node[k]; i < s->first_node[k + 1]; i++) {
            float *data = direct ? s->nodes[i].data : arena_host(&t->arena, s->nodes[i].data);
            struct range piece = common(s->own, part);

            if (k != s->rank) add_piece(s->recv, &s->nrecv, k, data + (piece.begin - s->own.begin), piece);
            for (int to = 0; to < s->size && k == s->rank; to++) {
                piece = common((struct range){(int64_t)(s->f32[to] / sizeof *data), (int64_t)(s->f32[to + 1] / sizeof *data)}, part);
                if (to != k) add_piece(s->send, &s->nsend, to, data + (piece.begin - s->own.begin), piece);
            }
        }
}

/* Layers in the order in which the backward pass does them; their numbers follow each other in theta. Always so where the exchange goes through the host: a rank whose gradients can't go
 * early does not know whether its peers' do. */
static void list_layers(struct trainer *t)
{
    struct range part = {t->lora.n, t->lora.n};

    for (int l = t->model->spec.layers - 1; l >= 0; l--) {
        part.end = part.begin;
        for (int m = MODULES - 1; m >= 0; m--)
            if (t->lora.pair[l * MODULES + m].a >= 0) part.begin = t->lora.pair[l * MODULES + m].a;
        list_pieces(t, part);
        t->share.ready[l] = t->share.nsend;
    }
}

enum pawl_status share_begin_gradient(struct trainer *t, const struct batch *b, struct err *err)
{
    struct share *s = &t->share;
    enum pawl_status st;

    if (!overlaps(t)) return PAWL_OK;
    s->nsend = s->nrecv = 0;
    list_nodes(t, b);
    list_layers(t);
    if ((st = comm_begin(s->comm, s->send, s->nsend, s->recv, s->nrecv, err)) == PAWL_OK) s->begun = true;
    return st;
}

void share_layer_done(struct trainer *t, int layer)
{
    if (t->share.begun) comm_go_on(t->share.comm, t->share.ready[layer]);
}

/* All at once, from and to buffers of a device. */
static enum pawl_status exchange_now(struct trainer *t, const struct batch *b, struct err *err)
{
    struct share *s = &t->share;
    int foreign;
    enum pawl_status st;

    if (s->size == 1) return PAWL_OK;
    s->nsend = s->nrecv = 0;
    if (s->comm->device) {
        list_pieces(t, (struct range){0, t->lora.n});
        return comm_device_exchange(s->comm, s->send, s->nsend, s->recv, s->nrecv, err);
    }
    for (int i = s->first_node[s->rank]; i < s->first_node[s->rank + 1]; i++) dev_fetch(t->dev, &t->arena, s->nodes[i].data - s->own.begin, s->f32[s->size]);
    list_layers(t);
    if ((st = comm_exchange(s->comm, s->send, s->nsend, s->recv, s->nrecv, err)) != PAWL_OK) return st;
    foreign = s->first_node[s->size] - (s->first_node[s->rank + 1] - s->first_node[s->rank]);
    if (foreign) dev_send(t->dev, &t->arena, s->inbox, (size_t)(foreign * range_count(s->own)) * sizeof *s->inbox);
    return PAWL_OK;
}

struct flags {
    bool due, dropped;
};

static enum pawl_status share_flags(struct trainer *t, bool *due, bool *dropped, struct err *err)
{
    struct flags all[RANKS_MAX];
    enum pawl_status st;

    all[t->share.rank] = (struct flags){*due, *dropped};
    if ((st = share_items(t, all, sizeof *all, err)) != PAWL_OK) return st;
    *due = all[0].due;
    for (int k = 0; k < t->share.size; k++) *dropped |= all[k].dropped;
    return PAWL_OK;
}

enum pawl_status share_gradient(struct trainer *t, const struct batch *b, bool *due, bool *dropped, struct err *err)
{
    struct share *s = &t->share;
    enum pawl_status st = PAWL_OK;

    /* A rank that has given up, or has no rows, takes part all the same. */
    if (!s->begun) st = share_begin_gradient(t, b, err);
    if (st != PAWL_OK) return st;
    if (!s->begun) list_nodes(t, b);
    st = s->begun ? comm_end(s->comm, err) : exchange_now(t, b, err);
    s->begun = false;
    if (st != PAWL_OK || (st = share_flags(t, due, dropped, err)) != PAWL_OK || *dropped) return st;
    gradtree_join(t->dev, s->nodes, s->first_node[s->size], range_count(s->own), t->g + (s->own.begin - s->held.begin));
    return s->sharded ? PAWL_OK : gather_slices(t, t->g, s->f32, err);
}

enum pawl_status share_sums(struct trainer *t, const struct batch *b, uint64_t *hash, struct err *err)
{
    struct share *s = &t->share;
    struct range run = share_rows(t, b->rows);
    int nsend = 0, nrecv = 0;
    enum pawl_status st;

    s->hashes[s->rank] = *hash;
    for (int k = 0; k < s->size; k++) {
        struct range theirs = shard_rows(b->rows, k, s->size);
        char *blocks = arena_host(&t->arena, t->norm_blocks);

        if (k == s->rank) continue;
        s->send[nsend++] = (struct comm_piece){k, hash, sizeof *hash};
        s->recv[nrecv++] = (struct comm_piece){k, &s->hashes[k], sizeof *s->hashes};
        if (range_count(run)) s->send[nsend++] = (struct comm_piece){k, s->row_loss + run.begin, (size_t)range_count(run) * sizeof(double)};
        if (range_count(theirs)) s->recv[nrecv++] = (struct comm_piece){k, s->row_loss + theirs.begin, (size_t)range_count(theirs) * sizeof(double)};
        if (range_count(s->own)) s->send[nsend++] = (struct comm_piece){k, blocks + s->blocks[s->rank], s->blocks[s->rank + 1] - s->blocks[s->rank]};
        if (s->blocks[k + 1] > s->blocks[k]) s->recv[nrecv++] = (struct comm_piece){k, blocks + s->blocks[k], s->blocks[k + 1] - s->blocks[k]};
    }
    st = comm_exchange(s->comm, s->send, nsend, s->recv, nrecv, err);
    *hash = 0;
    for (int k = 0; k < s->size; k++) *hash += s->hashes[k];
    return st;
}

enum pawl_status share_evaluation(struct trainer *t, struct evaluation_sums *sums, struct err *err)
{
    const struct rows *rows = t->eval_rows;
    int64_t steps = rows_steps_per_epoch(rows), batch = rows->opt.global_batch;
    size_t offset[RANKS_MAX + 1];
    int64_t (*counts)[3] = xcalloc((size_t)t->share.size, sizeof *counts);
    enum pawl_status st;

    for (int k = 0; k <= t->share.size; k++) {
        int64_t row = k < t->share.size ? shard_rows(steps, k, t->share.size).begin * batch : rows->count;

        offset[k] = (size_t)(row < rows->count ? row : rows->count) * sizeof *sums->row_loss;
    }
    counts[t->share.rank][0] = sums->tokens, counts[t->share.rank][1] = sums->examples, counts[t->share.rank][2] = sums->exact;
    if ((st = comm_all_gather(t->share.comm, sums->row_loss, offset, err)) == PAWL_OK) st = share_items(t, counts, sizeof *counts, err);
    sums->tokens = sums->examples = sums->exact = 0;
    for (int k = 0; k < t->share.size; k++) sums->tokens += counts[k][0], sums->examples += counts[k][1], sums->exact += counts[k][2];
    free(counts);
    return st;
}

/* --- what it costs */

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void share_count(struct trainer *t)
{
    struct share *s = &t->share;

    s->last = (struct share_mark){s->comm->sent, s->comm->seconds, clock_seconds(), cpu_seconds()};
    if (s->first.at > 0) s->steps++;
    else s->first = s->last;
}

struct cost {
    double share;        /* of the time between steps that was spent in exchanges */
    double sent;         /* bytes a step */
    double cpu;          /* seconds a step */
    uint64_t peak;       /* bytes of memory */
    uint64_t optimizer;  /* bytes of moments, by the size table */
};

enum pawl_status share_tell(struct trainer *t, struct err *err)
{
    struct share *s = &t->share;
    struct cost *all = xcalloc((size_t)s->size, sizeof *all), *mine = &all[s->rank], most = {0};
    struct rusage usage;
    struct buf b = {0};
    double mean = 0, cpu = 0;
    enum pawl_status st;

    getrusage(RUSAGE_SELF, &usage);
    mine->peak = (uint64_t)usage.ru_maxrss * 1024;
    mine->optimizer = arena_segment_bytes(&t->arena, "optimizer");
    if (s->steps) {
        mine->share = (s->last.talking - s->first.talking) / (s->last.at - s->first.at);
        mine->sent = (double)(s->last.sent - s->first.sent) / (double)s->steps;
        mine->cpu = (s->last.cpu - s->first.cpu) / (double)s->steps;
    }
    st = share_items(t, all, sizeof *all, err);
    for (int k = 0; k < s->size; k++) {
        mean += all[k].share / s->size;
        cpu += all[k].cpu;
        if (all[k].sent > most.sent) most.sent = all[k].sent;
        if (all[k].peak > most.peak) most.peak = all[k].peak;
        if (all[k].optimizer > most.optimizer) most.optimizer = all[k].optimizer;
    }
    buf_addf(&b, ",\"ranks\":%d,\"threads\":%d,\"transport\":\"%s\",\"communication_share\":%.4f,\"sent_bytes_a_step\":%.0f,\"ring_bytes_a_step\":%.0f,\"cpu_seconds_a_step\":%.4f", s->size, t->dev->ops->available ? 0 : t->dev->threads,
             s->comm->device ? s->comm->device->name : s->comm->ops->name, mean, most.sent, 8.0 * (double)t->lora.n * (s->size - 1) / s->size, cpu);
    buf_addf(&b, ",\"peak_bytes_per_rank\":%llu,\"optimizer_bytes_per_rank\":%llu", (unsigned long long)most.peak, (unsigned long long)most.optimizer);
    if (st == PAWL_OK) record_event(t, "ranks", b.data);
    buf_free(&b);
    free(all);
    return st;
}

/* --- between steps */

enum pawl_status share_any(struct trainer *t, bool *flag, struct err *err)
{
    bool all[RANKS_MAX];
    enum pawl_status st;

    all[t->share.rank] = *flag;
    st = share_items(t, all, sizeof *all, err);
    for (int k = 0; k < t->share.size && st == PAWL_OK; k++) *flag |= all[k];
    return st;
}

/* A request counts as earlier than another, not as the same heard again, from so many seconds on. */
#define EARLIER 0.01

bool share_asked_to_stop(struct trainer *t)
{
    struct share *s = &t->share;
    char why[sizeof s->reason];
    double left, until;

    if (s->size == 1) return stop_requested();
    if (comm_asked(s->comm, why, sizeof why, &left) && (!stop_requested() || left < stop_seconds_left() - EARLIER)) {
        memcpy(s->reason, why, sizeof why);
        stop_notice(s->reason, left);
    }
    if (!stop_requested()) return false;
    until = clock_seconds() + stop_seconds_left();
    if (stop_reason() != s->reason && (s->told == 0 || until < s->told - EARLIER)) {
        s->told = until;
        snprintf(why, sizeof why, "%.40s of rank %d", stop_reason(), s->rank);
        comm_ask(s->comm, why, stop_seconds_left());
    }
    return true;
}

enum pawl_status share_agree(struct trainer *t, struct note *note, struct err *err)
{
    struct share *s = &t->share;
    struct note *all = s->notes;
    enum pawl_status st;

    all[s->rank] = *note;
    if ((st = share_items(t, all, sizeof *all, err)) != PAWL_OK) return st;
    *note = all[0];
    for (int k = 0; k < s->size; k++) {
        if (all[k].status != PAWL_OK && note->status == PAWL_OK) note->status = all[k].status;
        note->save |= all[k].save;
        note->hurry |= all[k].hurry;
        if (!all[k].why[0] || note->why[0]) continue;
        memcpy(note->why, all[k].why, sizeof note->why);
        note->left = all[k].left;
    }
    /* What another rank was told counts as told here: for how long is left, and for what is written about the end. */
    if (note->why[0] && s->size > 1 && !stop_requested()) {
        snprintf(s->reason, sizeof s->reason, "%s", note->why);
        stop_notice(s->reason, note->left);
    }
    return PAWL_OK;
}
