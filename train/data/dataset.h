/* A data set: JSON lines -> examples, each a list of token ids with a mask, ready to be laid into rows (rows.h).
 *
 * Files are streamed, never held whole; what is kept is four bytes a token, in memory or in a mapped file of the token cache. The examples, their order and
 * dataset_hash depend on the files, the tokenizer, the template and the settings, never on the number of threads or on the cache. */
#ifndef PAWL_DATA_DATASET_H
#define PAWL_DATA_DATASET_H

#include "kernels/base/err.h"
#include "train/data/finding.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chat_template;
struct config;
struct dataset_config;
struct tokenizer;

struct dataset_options {
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* the run's; a part may name its own. NULL: a part that needs one is refused */
    int64_t sequence_len;             /* longest example; 0: any length */
    int truncation;                   /* enum config_truncation: what becomes of longer ones */
    bool train_on_inputs;
    bool skip_bad_lines;
    const char *bos_token, *eos_token; /* names that stand for the tokenizer's own (special_tokens); NULL: the tokenizer's */
    int64_t vocab;                    /* rows of the model's embedding: an id beyond is an error; 0: not checked */
    int threads;                      /* 0: all cores */
    const char *cache_dir;            /* NULL: nothing is kept on disk */
    const char *kept;                 /* where a part's files are not here, its tokens are taken from KEPT-INDEX.tokens, a cache file of another machine; NULL: from nowhere */
    bool (*stop)(void);               /* asked now and then while tokenising: true ends it with PAWL_ESTOPPED, and the cache keeps what is done. NULL: never */
    bool quiet;                       /* no counts and warnings on stderr: whoever asks prints them himself */
    bool inspect;                     /* findings that are errors, and nothing left, do not fail: whoever asks shows them */
};

/* The options that stand in a configuration, which must outlive them; tokenizer, chat, vocab and cache_dir are left for the caller. */
struct dataset_options dataset_options(const struct config *c);
/* $XDG_CACHE_HOME/pawl/tokens or ~/.cache/pawl/tokens, the caller's to free; NULL where neither variable is set. */
char *dataset_cache_dir(void);

struct dataset;

/* Reads all parts in order. Said on stderr: the type where it was found out, and counts of what was dropped, cut or skipped, one warning a kind.
 * Errors name file and line: a line that is no JSON or lacks a field (unless skip_bad_lines), a finding that is an error (finding.h), nothing left. */
enum pawl_status dataset_open(struct dataset **out, const struct dataset_config *parts, size_t nparts, const struct dataset_options *opt, struct err *err);
void dataset_free(struct dataset *d); /* NULL is allowed */

/* Moves examples from d into *held_out, chosen by a hash of each example's content, so that a text that stands twice is on one side only and growing files keep their split.
 * size below 1: that fraction; else that many examples (more where the last chosen one has duplicates). PAWL_EINVAL where either side would be empty.
 * Each is freed by itself, in any order. */
enum pawl_status dataset_split(struct dataset *d, struct dataset **held_out, double size, struct err *err);

/* Findings for examples of held_out whose content is also in train; said on stderr unless quiet. */
void dataset_compare(struct dataset *train, const struct dataset *held_out, bool quiet);

#define TOKEN_SUPERVISED 0x80000000u /* set in a token's word where the token is a target of the loss */
#define TOKEN_ID 0x7fffffffu

struct example {
    const uint32_t *tokens; /* (length) id | TOKEN_SUPERVISED; the first one is never supervised: nothing predicts it */
    int length;
    int supervised;         /* tokens that are targets */
    uint64_t hash;          /* of the content before template and tokenizer */
    const char *file;       /* where it came from; belongs to the data set */
    int64_t line;           /* 1-based; of the element's first line in a JSON array */
    double weight;          /* of its part */
};
size_t dataset_count(const struct dataset *d);
struct example dataset_example(const struct dataset *d, size_t i);

size_t dataset_parts(const struct dataset *d);
/* The cache file that holds the tokens of a part, all of them as they were made; NULL: they are in memory only. */
const char *dataset_tokens_file(const struct dataset *d, size_t part);

/* Changes with any token, mask, order or source weight: the identity that a resume compares. */
uint64_t dataset_hash(const struct dataset *d);

struct dataset_counts {
    int64_t lines;         /* records read */
    int64_t bad;           /* skipped because skip_bad_lines */
    int64_t examples;      /* kept */
    int64_t dropped;       /* longer than sequence_len */
    int64_t truncated;
    int64_t unsupervised;  /* dropped: no target */
    int64_t tokens, supervised; /* of the kept ones */
};
const struct dataset_counts *dataset_counts(const struct dataset *d);
const struct findings *dataset_findings(const struct dataset *d);
/* What training on d would be refused for: PAWL_OK, or as dataset_open without inspect. */
enum pawl_status dataset_verdict(const struct dataset *d, struct err *err);

/* How many examples have which length: bar i counts those of first + i * width .. first + (i + 1) * width - 1 tokens. */
#define HISTOGRAM_BARS 16
struct histogram {
    int first, width, bars, longest; /* bars is 0 where there is no example */
    int64_t count[HISTOGRAM_BARS];
};
struct histogram dataset_histogram(const struct dataset *d);

#endif
