/* A data set as a page for a browser: counts, lengths, findings, and examples with token borders and mask.
 *
 * One document without scripts, in which nothing is loaded from elsewhere; light or dark as the browser is. All text of the data is escaped, and characters
 * that are not to be seen (controls, those that turn the direction of writing) are written out. */
#ifndef PAWL_DATA_PAGE_H
#define PAWL_DATA_PAGE_H

#include "kernels/base/mem.h"
#include "train/data/dataset.h"
#include "train/data/rows.h"
#include "train/text/tokenizer.h"

struct page {
    const char *title;
    const struct dataset *train, *held_out; /* held_out NULL: none */
    const struct rows *rows;                /* NULL: no example is left */
    const struct tokenizer *tokenizer;
    const char *verdict;                    /* why no run would start; NULL: it would */
    int64_t examples;                       /* of train that are shown */
    int tokens;                             /* of an example that are shown */
};

/* Adds the whole document. */
void page_document(struct buf *out, const struct page *p);

/* Adds what stands in its <body> alone, and the rules for it that belong into a <style>: for a page that says more. */
void page_body(struct buf *out, const struct page *p);
extern const char page_style[];

/* Adds text as HTML: in an element or in an attribute in double quotes. */
void page_text(struct buf *out, const char *s, size_t len);

#endif
