/* Keys of Axolotl, transformers and PEFT that pawl knows but does not act on. Private to train/config. */
#ifndef PAWL_CONFIG_FOREIGN_H
#define PAWL_CONFIG_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

enum foreign_kind {
    FOREIGN_UNUSED,  /* harmless elsewhere, without meaning here: named in one line on stderr */
    FOREIGN_NOTED,   /* accepted, but the result is another one: a line of its own says which */
    FOREIGN_REFUSED, /* an error that says what to use instead */
};

struct foreign {
    const char *pattern; /* a name, or one with "*" */
    enum foreign_kind kind;
    const char *text; /* of NOTED and REFUSED: goes on after "KEY: " */
    const char *same; /* a value that says what pawl does anyway: nothing is said or refused then (as with false, 0, none and null); NULL: no other */
};

/* The row for a key at the top, or of a data set; NULL if there is none. */
const struct foreign *foreign_find(const char *name, bool of_dataset);

/* Names without wildcards, for the nearest one: fills names (room for max) and returns their number. */
size_t foreign_names(const char **names, size_t max, bool of_dataset);

#endif
