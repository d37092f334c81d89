#include "train/data/dataset.h"

#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "train/data/cache.h"
#include "train/data/reading.h"

#include <limits.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Source chunks read at a time, for each thread. */
#define CHUNKS_AHEAD 4

/* What one entry of `datasets` gave. */
struct part {
    struct files files;
    struct cache *cache; /* NULL: chunks own their payload */
    struct chunk *chunk;
    size_t n;
    double weight;
};

/* Shared by the two sides of a split. */
struct storage {
    atomic_int owners;
    struct part *part;
    size_t n;
};

struct kept {
    const struct stored_example *example;
    uint32_t length, supervised; /* after truncation */
    uint32_t part, file;
};

struct dataset {
    struct storage *storage;
    struct kept *kept;
    size_t n, cap;
    bool held_out; /* weights don't count */
    uint64_t hash;
    struct dataset_counts counts;
    struct findings findings;
};

/* --- options */

struct dataset_options dataset_options(const struct config *c)
{
    struct dataset_options o = {
        .sequence_len = c->sequence_len, .truncation = c->truncation, .train_on_inputs = c->train_on_inputs, .skip_bad_lines = c->skip_bad_lines, .threads = (int)c->threads,
    };

    for (size_t i = 0; i < c->special_tokens.n; i++) {
        if (!strcmp(c->special_tokens.key[i], "bos_token")) o.bos_token = c->special_tokens.value[i];
        if (!strcmp(c->special_tokens.key[i], "eos_token")) o.eos_token = c->special_tokens.value[i];
    }
    return o;
}

char *dataset_cache_dir(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache) return xasprintf("%s/pawl/tokens", cache);
    return home && *home ? xasprintf("%s/.cache/pawl/tokens", home) : NULL;
}

/* --- tokenising a part */

struct progress {
    const char *path;
    double begun, shown;
};

static void show_progress(struct progress *p, double share)
{
    double now = clock_seconds();

    if (now - p->shown < 1 || now - p->begun < 2) return;
    p->shown = now;
    log_progress("tokenising %s: %.0f%%, %.0f s left", p->path, 100 * share, (now - p->begun) * (1 - share) / (share > 0.001 ? share : 0.001));
}

/* Adds a chunk to the cache, or to the part where there is none. */
static enum pawl_status keep_chunk(struct part *p, struct chunk *c, struct err *err)
{
    enum pawl_status st;

    if (p->cache) {
        st = cache_add(p->cache, c, err);
        free(c->own);
        return st;
    }
    p->chunk = xreallocarray(p->chunk, p->n + 1, sizeof *p->chunk);
    p->chunk[p->n++] = *c;
    return PAWL_OK;
}

/* Makes out[i] of in[i], or finds it in the cache. The first failure in the order of the data is the one reported, whichever thread met it first. */
static enum pawl_status make_chunks(const struct part *p, const struct reading *r, const struct source_chunk *in, struct chunk *out, int n, int threads, struct err *err)
{
    struct err *errs = xcalloc((size_t)n, sizeof *errs);
    enum pawl_status st = PAWL_OK;

#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int i = 0; i < n; i++) {
        const struct chunk *found = p->cache ? cache_find(p->cache, source_chunk_hash(&in[i])) : NULL;

        if (found) out[i] = *found;
        else reading_chunk(r, p->files.path[in[i].file], &in[i], &out[i], &errs[i]);
        out[i].file = (uint32_t)in[i].file;
    }
    for (int i = 0; i < n && st == PAWL_OK; i++) {
        st = errs[i].status;
        if (st != PAWL_OK && err) *err = errs[i];
    }
    free(errs);
    return st;
}

static enum pawl_status tokenise(struct part *p, const struct reading *r, int threads, struct err *err)
{
    const struct dataset_options *opt = r->opt;
    struct source *source = NULL;
    int ahead = threads * CHUNKS_AHEAD, n;
    struct source_chunk *in = xcalloc((size_t)ahead, sizeof *in);
    struct chunk *out = xcalloc((size_t)ahead, sizeof *out);
    struct progress progress = {r->part->path, clock_seconds(), 0};
    enum pawl_status st = source_open(&source, &p->files, err);

    do {
        size_t bytes = 0;

        for (n = 0; st == PAWL_OK && n < ahead && bytes < (size_t)ahead * SOURCE_CHUNK; n++) {
            st = source_next(source, &in[n], err);
            if (in[n].n == 0) break;
            bytes += in[n].text.len;
        }
        if (st != PAWL_OK || n == 0) break;
        memset(out, 0, (size_t)n * sizeof *out);
        st = make_chunks(p, r, in, out, n, threads, err);
        for (int i = 0; i < n; i++) {
            if (st == PAWL_OK) st = keep_chunk(p, &out[i], err);
            else free(out[i].own);
        }
        if (!opt->quiet || isatty(STDERR_FILENO)) show_progress(&progress, source_progress(source)); /* a person who waits wants to know in any case */
        if (st == PAWL_OK && opt->stop && opt->stop()) {
            st = err_set(err, PAWL_ESTOPPED, "%s: stopped at %.0f%% of tokenising%s: the same command goes on", r->part->path, 100 * source_progress(source),
                         p->cache ? ", which the token cache keeps" : "");
        }
    } while (st == PAWL_OK);
    if (progress.shown > 0) log_progress_end();

    for (int i = 0; i < ahead; i++) source_chunk_free(&in[i]);
    free(in);
    free(out);
    source_close(source);
    return st;
}

/* --- with the cache */

static uint64_t cache_key(const struct reading *r, const struct files *files)
{
    const struct dataset_config *p = r->part;
    char *real = realpath(files->n == 1 ? files->path[0] : p->path, NULL);
    const char *texts[] = {real ? real : p->path, p->path, p->name ? p->name : "", p->split ? p->split : ""};
    uint64_t h = reading_hash(r);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) h = hash64(h, texts[i], strlen(texts[i]));
    for (size_t i = 0; i < p->data_files.n; i++) h = hash64(h, p->data_files.at[i], strlen(p->data_files.at[i]));
    free(real);
    return h;
}

/* A cache that can't be used never stops a run: it is said, and the part is tokenised into memory. */
static bool from_cache(struct part *p, const struct reading *r, const struct dataset_options *opt, int threads, enum pawl_status *st, struct err *err)
{
    struct err trouble = {0};
    const struct chunk *chunk;

    *st = PAWL_OK;
    if (cache_open(&p->cache, opt->cache_dir, cache_key(r, &p->files), &p->files, &trouble) != PAWL_OK) goto without;
    if ((chunk = cache_chunks(p->cache, &p->n)) == NULL) {
        *st = tokenise(p, r, threads, &trouble);
        if (*st != PAWL_OK && *st != PAWL_EIO) {
            if (err) *err = trouble;
            return true;
        }
        if (*st != PAWL_OK || cache_finish(p->cache, &trouble) != PAWL_OK) goto without;
        chunk = cache_chunks(p->cache, &p->n);
    }
    p->chunk = xreallocarray(NULL, p->n + 1, sizeof *p->chunk);
    if (p->n) memcpy(p->chunk, chunk, p->n * sizeof *chunk);
    return true;
without:
    log_warn("token cache: %s: going on without it", trouble.text);
    cache_close(p->cache);
    p->cache = NULL;
    p->n = 0;
    return false;
}

/* False: there is no such file. Which settings it was made with is not asked: a resume compares configuration, tokenizer and template. */
static bool from_kept(struct part *p, const struct dataset_config *part, const struct dataset_options *opt, size_t index, enum pawl_status *st, struct err *err)
{
    char *path = opt->kept ? xasprintf("%s-%zu.tokens", opt->kept, index) : NULL;
    const struct chunk *chunk;
    bool is_there = path && access(path, R_OK) == 0;

    if (is_there && (*st = cache_open_kept(&p->cache, path, &p->files.n, err)) == PAWL_OK) {
        if (!opt->quiet) log_info("%s is not here: its tokens are taken from %s", part->path, path);
        p->files.path = xcalloc(p->files.n + 1, sizeof *p->files.path);
        for (size_t i = 0; i < p->files.n; i++) p->files.path[i] = xstrdup(part->path);
        chunk = cache_chunks(p->cache, &p->n);
        p->chunk = xreallocarray(NULL, p->n + 1, sizeof *p->chunk);
        if (p->n) memcpy(p->chunk, chunk, p->n * sizeof *chunk);
    }
    free(path);
    return is_there;
}

static enum pawl_status open_part(struct part *p, const struct dataset_config *part, const struct dataset_options *opt, size_t index, struct err *err)
{
    struct reading r = {0};
    int threads = opt->threads > 0 ? opt->threads : omp_get_num_procs();
    enum pawl_status st;

    p->weight = part->weight;
    if ((st = files_list(&p->files, part, err)) != PAWL_OK) {
        from_kept(p, part, opt, index, &st, err);
        return st;
    }
    if ((st = reading_init(&r, part, opt, &p->files, err)) != PAWL_OK) return st;
    if (!opt->cache_dir || !from_cache(p, &r, opt, threads, &st, err)) st = tokenise(p, &r, threads, err);
    reading_free(&r);
    return st;
}

/* --- storage */

static void storage_release(struct storage *s)
{
    if (!s || atomic_fetch_sub(&s->owners, 1) > 1) return;
    for (size_t i = 0; i < s->n; i++) {
        struct part *p = &s->part[i];

        for (size_t k = 0; k < p->n; k++) free(p->chunk[k].own);
        free(p->chunk);
        cache_close(p->cache);
        files_free(&p->files);
    }
    free(s->part);
    free(s);
}

static const char *file_of(const struct dataset *d, const struct kept *k)
{
    return d->storage->part[k->part].files.path[k->file];
}

static void keep(struct dataset *d, struct kept k)
{
    if (d->n == d->cap) d->kept = xreallocarray(d->kept, d->cap = d->cap ? 2 * d->cap : 1024, sizeof *d->kept);
    d->kept[d->n++] = k;
    d->counts.examples++;
    d->counts.tokens += k.length;
    d->counts.supervised += k.supervised;
}

/* --- which examples take part */

static uint32_t count_supervised(const struct stored_example *e, uint32_t length)
{
    uint32_t n = 0;

    for (uint32_t i = 1; i < length; i++) n += e->tokens[i] >> 31;
    return n;
}

static enum pawl_status take_example(struct dataset *d, const struct dataset_options *opt, struct kept k, struct err *err)
{
    const struct stored_example *e = k.example;
    const char *file = file_of(d, &k);

    k.length = e->length;
    if (opt->sequence_len && e->length > (uint64_t)opt->sequence_len) {
        if (opt->truncation == TRUNCATION_ERROR) {
            return err_set(err, PAWL_EINVAL, "%s:%lld: %u tokens, sequence_len is %lld: raise it, or set truncation to drop or truncate", file, (long long)e->line, e->length,
                           (long long)opt->sequence_len);
        }
        finding_add(&d->findings, FINDING_TOO_LONG, file, e->line);
        if (opt->truncation == TRUNCATION_DROP) {
            d->counts.dropped++;
            return PAWL_OK;
        }
        d->counts.truncated++;
        k.length = (uint32_t)opt->sequence_len;
    }
    k.supervised = count_supervised(e, k.length);
    if (k.supervised == 0) {
        d->counts.unsupervised++;
        finding_add(&d->findings, FINDING_UNSUPERVISED, file, e->line);
    } else {
        keep(d, k);
    }
    return PAWL_OK;
}

static enum pawl_status take_chunk(struct dataset *d, const struct dataset_options *opt, size_t part, const struct chunk *c, struct err *err)
{
    const char *at = c->payload, *file = d->storage->part[part].files.path[c->file];
    const struct stored_note *notes = chunk_notes(c);
    enum pawl_status st;

    d->counts.lines += c->lines;
    for (uint32_t i = 0; i < c->examples; i++) {
        const struct stored_example *e = (const struct stored_example *)at;

        st = take_example(d, opt, (struct kept){.example = e, .part = (uint32_t)part, .file = c->file}, err);
        if (st != PAWL_OK) return st;
        at += stored_bytes(e->length);
    }
    for (uint32_t i = 0; i < c->notes; i++) {
        finding_add(&d->findings, (enum finding)notes[i].kind, file, notes[i].line);
        d->counts.bad += notes[i].kind == FINDING_BAD_LINE;
    }
    d->hash = hash64(d->hash, &c->payload_hash, sizeof c->payload_hash);
    return PAWL_OK;
}

/* --- duplicates */

struct content_hash {
    uint64_t hash;
    size_t at;
};

static int by_hash(const void *pa, const void *pb)
{
    const struct content_hash *a = pa, *b = pb;

    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int by_place(const void *pa, const void *pb)
{
    const struct content_hash *a = pa, *b = pb;

    return a->at < b->at ? -1 : a->at > b->at;
}

/* Hashes of the records, sorted: each once, though some give several examples. */
static struct content_hash *sorted_hashes(const struct dataset *d, size_t *n)
{
    struct content_hash *h = xreallocarray(NULL, d->n + 1, sizeof *h);

    *n = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (d->kept[i].example->turn == 0) h[(*n)++] = (struct content_hash){d->kept[i].example->hash, i};
    }
    qsort(h, *n, sizeof *h, by_hash);
    return h;
}

static void find_duplicates(struct dataset *d)
{
    size_t n, copies = 0;
    struct content_hash *h = sorted_hashes(d, &n);

    for (size_t i = 1; i < n; i++) {
        if (h[i].hash == h[i - 1].hash) h[copies++] = (struct content_hash){h[i].hash, h[i].at};
    }
    qsort(h, copies, sizeof *h, by_place);
    for (size_t i = 0; i < copies; i++) finding_add(&d->findings, FINDING_DUPLICATE, file_of(d, &d->kept[h[i].at]), d->kept[h[i].at].example->line);
    free(h);
}

void dataset_compare(struct dataset *train, const struct dataset *held_out, bool quiet)
{
    size_t n;
    struct content_hash *h = sorted_hashes(held_out, &n);
    struct findings found = {0};

    for (size_t i = 0; i < train->n; i++) {
        const struct kept *k = &train->kept[i];
        size_t low = 0, high = n;

        while (low < high) {
            size_t mid = (low + high) / 2;
            if (h[mid].hash < k->example->hash) low = mid + 1;
            else high = mid;
        }
        if (k->example->turn == 0 && low < n && h[low].hash == k->example->hash) {
            finding_add(&train->findings, FINDING_HELD_OUT, file_of(train, k), k->example->line);
            finding_add(&found, FINDING_HELD_OUT, file_of(train, k), k->example->line);
        }
    }
    if (!quiet) findings_warn(&found);
    free(h);
}

/* --- opening */

/* Errors among the findings stop a run, and so does an empty result. */
enum pawl_status dataset_verdict(const struct dataset *d, struct err *err)
{
    const struct dataset_counts *c = &d->counts;
    const char *first = d->storage->n && d->storage->part[0].files.n ? d->storage->part[0].files.path[0] : "datasets";

    for (int k = 0; k < FINDING_KINDS; k++) {
        struct buf places = {0};

        if (!finding_info[k].error || d->findings.count[k] == 0) continue;
        finding_places(&d->findings, (enum finding)k, &places);
        err_set(err, PAWL_EINVAL, "%s: %lld (%s): %s; %s", finding_info[k].what, (long long)d->findings.count[k], places.data, finding_info[k].meaning, finding_info[k].advice);
        buf_free(&places);
        return PAWL_EINVAL;
    }
    if (d->n) return PAWL_OK;
    if (c->lines == 0) return err_set(err, PAWL_EINVAL, "%s: the data set is empty: there is no record in it", first);
    return err_set(err, PAWL_EINVAL, "%s: no example is left of %lld records: %lld too long for sequence_len, %lld without a supervised token, %lld that could not be read", first,
                   (long long)c->lines, (long long)c->dropped, (long long)c->unsupervised, (long long)c->bad);
}

static void say_counts(const struct dataset *d, const struct dataset_options *opt)
{
    const struct dataset_counts *c = &d->counts;
    struct buf b = {0};

    buf_addf(&b, "data: %lld examples, %lld tokens, %lld supervised", (long long)c->examples, (long long)c->tokens, (long long)c->supervised);
    if (c->dropped) buf_addf(&b, "; %lld dropped, longer than sequence_len %lld", (long long)c->dropped, (long long)opt->sequence_len);
    if (c->truncated) buf_addf(&b, "; %lld cut to sequence_len %lld", (long long)c->truncated, (long long)opt->sequence_len);
    if (c->unsupervised) buf_addf(&b, "; %lld dropped, nothing supervised", (long long)c->unsupervised);
    if (c->bad) buf_addf(&b, "; %lld bad lines skipped", (long long)c->bad);
    log_info("%s", b.data);
    buf_free(&b);
}

enum pawl_status dataset_open(struct dataset **out, const struct dataset_config *parts, size_t nparts, const struct dataset_options *opt, struct err *err)
{
    struct dataset *d = xcalloc(1, sizeof *d);
    enum pawl_status st = PAWL_OK;

    d->storage = xcalloc(1, sizeof *d->storage);
    atomic_init(&d->storage->owners, 1);
    d->storage->part = xcalloc(nparts + 1, sizeof *d->storage->part);
    for (size_t i = 0; i < nparts; i++) {
        struct part *p = &d->storage->part[d->storage->n++];

        if ((st = open_part(p, &parts[i], opt, i, err)) != PAWL_OK) goto done;
        for (size_t k = 0; k < p->n; k++) {
            if ((st = take_chunk(d, opt, i, &p->chunk[k], err)) != PAWL_OK) goto done;
        }
        d->hash = hash64(d->hash, &p->weight, sizeof p->weight);
    }
    find_duplicates(d);
    if (!opt->quiet) findings_warn(&d->findings);
    if (!opt->inspect && (st = dataset_verdict(d, err)) != PAWL_OK) goto done;
    if (!opt->quiet) say_counts(d, opt);
    *out = d;
    d = NULL;
done:
    dataset_free(d);
    return st;
}

void dataset_free(struct dataset *d)
{
    if (!d) return;
    storage_release(d->storage);
    free(d->kept);
    free(d);
}

/* --- splitting */

/* The largest hash that still belongs to the held-out side. */
static uint64_t threshold(const struct dataset *d, double size)
{
    struct content_hash *h;
    uint64_t last;
    size_t n;

    if (size < 1) return (uint64_t)(size * 0x1p64) - 1;
    h = sorted_hashes(d, &n);
    last = n == 0 ? 0 : h[size < (double)n ? (size_t)size - 1 : n - 1].hash;
    free(h);
    return last;
}

enum pawl_status dataset_split(struct dataset *d, struct dataset **held_out, double size, struct err *err)
{
    struct dataset *h = xcalloc(1, sizeof *h);
    uint64_t last = threshold(d, size);
    size_t all = d->n;
    struct kept *kept = d->kept;

    h->storage = d->storage;
    atomic_fetch_add(&h->storage->owners, 1);
    h->held_out = true;
    h->hash = hash64(d->hash + 1, &size, sizeof size);
    d->hash = hash64(d->hash, &size, sizeof size);
    d->kept = NULL;
    d->n = d->cap = 0;
    d->counts.examples = d->counts.tokens = d->counts.supervised = 0;
    for (size_t i = 0; i < all; i++) keep(kept[i].example->hash <= last ? h : d, kept[i]);
    free(kept);
    if (d->n && h->n) {
        *held_out = h;
        return PAWL_OK;
    }
    dataset_free(h);
    return err_set(err, PAWL_EINVAL, "val_set_size: %g of %zu examples leaves none %s: choose another size", size, all, d->n ? "held out" : "to train on");
}

/* --- looking */

size_t dataset_count(const struct dataset *d)
{
    return d->n;
}

size_t dataset_parts(const struct dataset *d)
{
    return d->storage->n;
}

const char *dataset_tokens_file(const struct dataset *d, size_t part)
{
    const struct cache *c = d->storage->part[part].cache;

    return c ? cache_path(c) : NULL;
}

struct example dataset_example(const struct dataset *d, size_t i)
{
    const struct kept *k = &d->kept[i];

    return (struct example){
        .tokens = k->example->tokens, .length = (int)k->length, .supervised = (int)k->supervised, .hash = k->example->hash, .file = file_of(d, k), .line = k->example->line,
        .weight = d->held_out ? 1 : d->storage->part[k->part].weight,
    };
}

/* Truncation shows in the lengths; what was dropped in which are left. */
uint64_t dataset_hash(const struct dataset *d)
{
    uint64_t h = d->hash;

    for (size_t i = 0; i < d->n; i++) {
        uint64_t words[] = {d->kept[i].example->hash, (uint64_t)d->kept[i].length << 32 | d->kept[i].supervised};
        h = hash64(h, words, sizeof words);
    }
    return h;
}

const struct dataset_counts *dataset_counts(const struct dataset *d)
{
    return &d->counts;
}

const struct findings *dataset_findings(const struct dataset *d)
{
    return &d->findings;
}

/* 1, 2 or 5 times a power of ten, at least x. */
static int round_up(int x)
{
    static const int steps[] = {1, 2, 5};

    for (int power = 1;; power *= 10) {
        for (int i = 0; i < 3; i++) {
            if (steps[i] * power >= x) return steps[i] * power;
        }
    }
}

struct histogram dataset_histogram(const struct dataset *d)
{
    struct histogram h = {0};
    int shortest = INT_MAX;

    for (size_t i = 0; i < d->n; i++) {
        int n = (int)d->kept[i].length;

        h.longest = n > h.longest ? n : h.longest;
        shortest = n < shortest ? n : shortest;
    }
    if (d->n == 0) return h;
    h.width = round_up((h.longest - shortest) / (HISTOGRAM_BARS - 1) + 1); /* one bar to spare: the first begins at a round number */
    h.first = (shortest - 1) / h.width * h.width + 1;
    h.bars = (h.longest - h.first) / h.width + 1;
    for (size_t i = 0; i < d->n; i++) h.count[((int)d->kept[i].length - h.first) / h.width]++;
    return h;
}
