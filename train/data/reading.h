/* How the records of one data set become examples: the part of the configuration, resolved. Made once, then shared by threads. */
#ifndef PAWL_DATA_READING_H
#define PAWL_DATA_READING_H

#include "kernels/base/err.h"
#include "train/config/config.h"
#include "train/data/chunk.h"
#include "train/data/dataset.h"
#include "train/data/source.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct reading {
    const struct dataset_config *part;
    const struct dataset_options *opt;
    int type;                         /* enum dataset_type, never DATASET_AUTO */
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL unless type needs one */
    struct chat_template *own_chat;   /* where the part names its own */
    int32_t bos, eos;                 /* -1: none */
    char *bos_text, *eos_text;        /* NULL: none */
    uint8_t *rare;                    /* (tokenizer_size) 1: unknown, or one byte of a character */
    struct tm date;                   /* what strftime_now sees: fixed, since a data set that changes overnight could not be resumed */
};

/* Finds out the type where it is auto, by the first records of files (said on stderr unless quiet), and resolves template and special tokens. */
enum pawl_status reading_init(struct reading *r, const struct dataset_config *part, const struct dataset_options *opt, const struct files *files, struct err *err);
void reading_free(struct reading *r); /* a zeroed one is allowed */
/* Of everything that decides what becomes of a record: key of the token cache. */
uint64_t reading_hash(const struct reading *r);

/* Tokenises all records of a source chunk. Errors name file and line; with skip_bad_lines bad records are notes instead. Threads may do it at the same time. */
enum pawl_status reading_chunk(const struct reading *r, const char *path, const struct source_chunk *in, struct chunk *out, struct err *err);

#endif
