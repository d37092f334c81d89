/* An example for a person: where its tokens end and which of them are supervised. */
#ifndef PAWL_DATA_SHOW_H
#define PAWL_DATA_SHOW_H

#include "kernels/base/mem.h"
#include "train/data/dataset.h"
#include "train/text/tokenizer.h"

#include <stdbool.h>

/* Adds the text of the first `limit` tokens, | between tokens (a thin one, U+2502). Supervised ones are green on a terminal with colours, else between U+00AB and
 * U+00BB. Line feeds are shown as U+21B5 and kept, other control characters as \xNN. */
void example_show(struct buf *out, const struct example *e, const struct tokenizer *t, bool colour, int limit);

#endif
