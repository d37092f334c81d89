#include "train/data/rows.h"

#include "kernels/base/hash.h"
#include "kernels/base/mem.h"
#include "kernels/base/rng.h"
#include "train/config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Examples that are packed together. Large enough that the bins left half empty at its end don't count, small enough that rows keep to the order of the data. */
#define PACK_WINDOW 16384

struct rows_options rows_options(const struct config *c)
{
    return (struct rows_options){
        .sequence_len = c->sequence_len, .packing = c->sample_packing, .shuffle = c->shuffle, .seed = (uint64_t)c->seed,
        .global_batch = c->global_batch_size, .num_epochs = c->num_epochs, .max_steps = c->max_steps,
    };
}

struct rows_options rows_options_eval(const struct config *c, int64_t batch)
{
    return (struct rows_options){.sequence_len = c->sequence_len, .packing = c->sample_packing, .global_batch = batch, .num_epochs = 1};
}

/* --- items: examples by weight */

static int copies(const struct example *e)
{
    double whole = floor(e->weight);

    /* The hash decides who stands once more, so the choice does not move when the file grows. Mixed: the held-out split uses the plain hash. */
    return (int)whole + ((double)(hash64(1, &e->hash, sizeof e->hash) >> 11) * 0x1p-53 < e->weight - whole);
}

static uint32_t *list_items(const struct dataset *data, size_t *n)
{
    size_t count = dataset_count(data), cap = count;
    uint32_t *item = xreallocarray(NULL, cap ? cap : 1, sizeof *item);

    *n = 0;
    for (size_t i = 0; i < count; i++) {
        struct example e = dataset_example(data, i);

        for (int k = copies(&e); k > 0; k--) {
            if (*n == cap) item = xreallocarray(item, cap *= 2, sizeof *item);
            item[(*n)++] = (uint32_t)i;
        }
    }
    return item;
}

/* --- packing: best fit decreasing
 *
 * Open bins hang in one list for each number of free places; a bit set finds the smallest number that is large enough. */

struct bins {
    int size;
    uint64_t *some;  /* bit f: list f is not empty */
    uint32_t *head;  /* (size + 1) */
    uint32_t *next;  /* (bins of a window) */
    uint32_t *first; /* (bins of a window) smallest item position in the bin: its rank */
    uint32_t count;
};

#define NO_BIN UINT32_MAX

static void bins_push(struct bins *b, int space, uint32_t bin)
{
    b->next[bin] = b->head[space];
    b->head[space] = bin;
    b->some[space / 64] |= (uint64_t)1 << space % 64;
}

static uint32_t bins_pop(struct bins *b, int space)
{
    uint32_t bin = b->head[space];

    b->head[space] = b->next[bin];
    if (b->head[space] == NO_BIN) b->some[space / 64] &= ~((uint64_t)1 << space % 64);
    return bin;
}

/* The least number of free places >= need that some bin has; -1: none. */
static int bins_find(const struct bins *b, int need)
{
    int word = need / 64, words = b->size / 64 + 1;
    uint64_t bits = b->some[word] & ~(uint64_t)0 << need % 64;

    while (bits == 0) {
        if (++word == words) return -1;
        bits = b->some[word];
    }
    return word * 64 + __builtin_ctzll(bits);
}

struct sized {
    uint32_t length, position, bin;
};

static int longest_first(const void *pa, const void *pb)
{
    const struct sized *a = pa, *b = pb;

    if (a->length != b->length) return a->length < b->length ? 1 : -1;
    return a->position < b->position ? -1 : 1;
}

static int by_bin(const void *pa, const void *pb)
{
    const struct sized *a = pa, *b = pb;

    if (a->bin != b->bin) return a->bin < b->bin ? -1 : 1;
    return a->position < b->position ? -1 : 1;
}

struct ranked {
    uint32_t first, bin;
};

static int by_first(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Gives each of s[0..n) its bin; bins are numbered by their first example, so rows follow the data. */
static void pack_window(struct bins *b, struct sized *s, uint32_t n)
{
    memset(b->some, 0, ((size_t)b->size / 64 + 1) * sizeof *b->some);
    memset(b->head, 0xff, ((size_t)b->size + 1) * sizeof *b->head);
    b->count = 0;
    qsort(s, n, sizeof *s, longest_first);
    for (uint32_t i = 0; i < n; i++) {
        int length = (int)s[i].length, space = bins_find(b, length);
        uint32_t bin;

        if (space < 0) {
            bin = b->count++;
            b->first[bin] = s[i].position;
            space = b->size;
        } else {
            bin = bins_pop(b, space);
            if (s[i].position < b->first[bin]) b->first[bin] = s[i].position;
        }
        bins_push(b, space - length, bin);
        s[i].bin = bin;
    }

    struct ranked *ranked = xreallocarray(NULL, b->count, sizeof *ranked);
    uint32_t *rank = b->next; /* the lists are done with */

    for (uint32_t k = 0; k < b->count; k++) ranked[k] = (struct ranked){b->first[k], k};
    qsort(ranked, b->count, sizeof *ranked, by_first);
    for (uint32_t k = 0; k < b->count; k++) rank[ranked[k].bin] = k;
    for (uint32_t i = 0; i < n; i++) s[i].bin = rank[s[i].bin];
    qsort(s, n, sizeof *s, by_bin);
    free(ranked);
}

/* Reorders item[] by bins and sets count and first. */
static void pack(struct rows *r, size_t n)
{
    uint32_t window = n < PACK_WINDOW ? (uint32_t)n : PACK_WINDOW, *packed = xreallocarray(NULL, n, sizeof *packed);
    struct sized *s = xreallocarray(NULL, window, sizeof *s);
    int size = (int)r->opt.sequence_len;
    struct bins b = {.size = size};

    b.some = xreallocarray(NULL, (size_t)size / 64 + 1, sizeof *b.some);
    b.head = xreallocarray(NULL, (size_t)size + 1, sizeof *b.head);
    b.next = xreallocarray(NULL, window, sizeof *b.next);
    b.first = xreallocarray(NULL, window, sizeof *b.first);
    for (size_t at = 0; at < n; at += window) {
        uint32_t m = n - at < window ? (uint32_t)(n - at) : window;

        for (uint32_t i = 0; i < m; i++) s[i] = (struct sized){(uint32_t)dataset_example(r->data, r->item[at + i]).length, i, 0};
        pack_window(&b, s, m);
        for (uint32_t i = 0; i < m; i++) {
            if (i == 0 || s[i].bin != s[i - 1].bin) r->first[r->count++] = (uint32_t)(at + i);
            packed[at + i] = r->item[at + s[i].position];
        }
    }
    free(r->item);
    r->item = packed;
    free(b.some);
    free(b.head);
    free(b.next);
    free(b.first);
    free(s);
}

enum pawl_status rows_build(struct rows **out, const struct dataset *data, const struct rows_options *opt, struct err *err)
{
    struct rows *r = xcalloc(1, sizeof *r);
    size_t n;

    r->opt = *opt;
    r->data = data;
    r->item = list_items(data, &n);
    if (n == 0 || n >= UINT32_MAX) {
        rows_free(r);
        if (n) return err_set(err, PAWL_EINVAL, "the data set has %zu examples after weighting, at most %u are possible", n, UINT32_MAX - 1);
        return err_set(err, PAWL_EINVAL, "no example is left after weighting: raise the weight of a data set");
    }
    r->first = xreallocarray(NULL, n + 1, sizeof *r->first);
    if (opt->packing) {
        pack(r, n);
    } else {
        r->count = (uint32_t)n;
        for (uint32_t i = 0; i < r->count; i++) r->first[i] = i;
    }
    r->first[r->count] = (uint32_t)n;
    r->tokens = xcalloc(r->count, sizeof *r->tokens);
    r->supervised = xcalloc(r->count, sizeof *r->supervised);
    for (uint32_t i = 0; i < r->count; i++) {
        for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++) {
            struct example e = dataset_example(data, r->item[k]);

            r->tokens[i] += e.length;
            r->supervised[i] += e.supervised;
        }
        r->total_tokens += r->tokens[i];
        r->total_supervised += r->supervised[i];
    }
    struct rows_limits step = rows_limits(r, opt->global_batch);

    if (step.tokens > INT32_MAX) {
        rows_free(r);
        return err_set(err, PAWL_EINVAL, "global_batch_size: %lld rows may hold %lld tokens, at most %d are possible: use a smaller one", (long long)opt->global_batch,
                       (long long)step.tokens, INT32_MAX);
    }
    *out = r;
    return PAWL_OK;
}

void rows_free(struct rows *r)
{
    if (!r) return;
    free(r->first);
    free(r->item);
    free(r->tokens);
    free(r->supervised);
    free(r);
}

/* --- steps */

int64_t rows_steps_per_epoch(const struct rows *r)
{
    return (r->count + r->opt.global_batch - 1) / r->opt.global_batch;
}

int64_t rows_total_steps(const struct rows *r)
{
    return r->opt.max_steps > 0 ? r->opt.max_steps : (int64_t)ceil(r->opt.num_epochs * (double)rows_steps_per_epoch(r));
}

struct rows_step rows_step(const struct rows *r, int64_t step)
{
    int64_t per_epoch = rows_steps_per_epoch(r), epoch = (step - 1) / per_epoch, first = (step - 1) % per_epoch * r->opt.global_batch;
    int64_t left = r->count - first;

    return (struct rows_step){epoch, (uint32_t)first, (uint32_t)(left < r->opt.global_batch ? left : r->opt.global_batch)};
}

double rows_epochs_done(const struct rows *r, int64_t step)
{
    if (step <= 0) return 0;
    struct rows_step s = rows_step(r, step);

    return (double)s.epoch + ((double)s.first + s.count) / r->count;
}

void rows_order(const struct rows *r, int64_t epoch, uint32_t *order)
{
    if (r->opt.shuffle) {
        rng_permutation(order, r->count, rng_derive(rng_key(r->opt.seed), (uint32_t)epoch, (uint32_t)(epoch >> 32), 0x726f7773));
    } else {
        for (uint32_t i = 0; i < r->count; i++) order[i] = i;
    }
}

/* --- limits */

static int descending(const void *pa, const void *pb)
{
    int32_t a = *(const int32_t *)pa, b = *(const int32_t *)pb;

    return a < b ? 1 : a > b ? -1 : 0;
}

static int64_t largest_sum(int32_t *x, uint32_t count, int64_t n)
{
    int64_t sum = 0;

    qsort(x, count, sizeof *x, descending);
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

struct rows_limits rows_limits(const struct rows *r, int64_t n)
{
    int64_t m = n < r->count ? n : r->count;
    struct rows_limits lim = {.rows = (int)m};
    int32_t *x = xreallocarray(NULL, r->count, sizeof *x);

    memcpy(x, r->tokens, r->count * sizeof *x);
    lim.tokens = largest_sum(x, r->count, m);
    memcpy(x, r->supervised, r->count * sizeof *x);
    lim.supervised = largest_sum(x, r->count, m);
    for (uint32_t i = 0; i < r->count; i++) x[i] = (int32_t)(r->first[i + 1] - r->first[i]);
    lim.examples = largest_sum(x, r->count, m);
    free(x);
    return lim;
}

double rows_fill(const struct rows *r)
{
    return (double)r->total_tokens / ((double)r->count * (double)r->opt.sequence_len);
}

uint64_t rows_hash(const struct rows *r)
{
    uint64_t words[] = {dataset_hash(r->data), r->opt.packing ? (uint64_t)r->opt.sequence_len : 0, r->opt.shuffle, r->opt.shuffle ? r->opt.seed : 0,
                        (uint64_t)r->opt.global_batch};

    return hash64(0, words, sizeof words);
}
