/* What is wrong, or looks wrong, in a data set: one row of a table a kind, counted, with the first places. */
#ifndef PAWL_DATA_FINDING_H
#define PAWL_DATA_FINDING_H

#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum finding {
    FINDING_DOUBLED_BOS,
    FINDING_BOS_IN_TEXT,
    FINDING_NO_END_OF_TURN,
    FINDING_UNSUPERVISED,
    FINDING_TOO_LONG,
    FINDING_DUPLICATE,
    FINDING_HELD_OUT,
    FINDING_EMPTY_ANSWER,
    FINDING_ROLE_ORDER,
    FINDING_UNKNOWN_ROLE,
    FINDING_SPECIAL_TEXT,
    FINDING_MOJIBAKE,
    FINDING_CONTROL,
    FINDING_UNKNOWN_BYTES,
    FINDING_BAD_LINE,
    FINDING_KINDS
};

struct finding_info {
    const char *name;    /* "doubled_bos": in JSON */
    bool error;          /* stops a run; else a warning */
    const char *what;    /* "examples with ..." */
    const char *meaning; /* what comes of it */
    const char *advice;  /* what to do */
};
extern const struct finding_info finding_info[FINDING_KINDS];

#define FINDING_PLACES 5

struct findings {
    int64_t count[FINDING_KINDS];
    struct {
        const char *file; /* belongs to the data set */
        int64_t line;
    } place[FINDING_KINDS][FINDING_PLACES]; /* the first ones, in the order of the data */
};

void finding_add(struct findings *f, enum finding kind, const char *file, int64_t line);
/* Adds "FILE line 3, 9; FILE2 line 1, ..." of the first ones. */
void finding_places(const struct findings *f, enum finding kind, struct buf *out);
/* One warning a kind that was found, with count, places, meaning and advice, through log_warn. */
void findings_warn(const struct findings *f);

#endif
