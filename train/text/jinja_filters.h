/* Tables of filters: by subject in two files, looked up in the order of the files. */
#ifndef PAWL_TEXT_JINJA_FILTERS_H
#define PAWL_TEXT_JINJA_FILTERS_H

#include "train/text/jinja_eval.h"

struct jfilter {
    const char *name; /* NULL ends a table */
    struct jv (*call)(struct jev *e, struct jv v, const struct jargs *a);
};

extern const struct jfilter jfilters_text[];

#endif
