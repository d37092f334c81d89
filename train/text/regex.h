/* Regular expressions of tokenizer files (Oniguruma's dialect) by PCRE2. */
#ifndef PAWL_TEXT_REGEX_H
#define PAWL_TEXT_REGEX_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct regex; /* compiled; threads may share it */

enum pawl_status regex_compile(struct regex **out, const char *pattern, size_t len, struct err *err);
void regex_free(struct regex *r); /* NULL is allowed */

/* A place to search in: one for each thread and text. */
struct regex_search {
    const struct regex *regex;
    const char *text; /* valid UTF-8 */
    size_t len;
    void *match, *context, *stack;
};
void regex_search_begin(struct regex_search *s, const struct regex *r, const char *text, size_t len);
/* The next match at or behind `from`: *found, *begin, *end. PAWL_EINVAL where the expression takes too long on this text. */
enum pawl_status regex_search_next(struct regex_search *s, size_t from, bool *found, size_t *begin, size_t *end, struct err *err);
void regex_search_end(struct regex_search *s);

#endif
