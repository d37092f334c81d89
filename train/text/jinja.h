/* The language of chat templates: Jinja2 as transformers sets it up (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls,
 * {% generation %}, tojson without HTML escapes, raise_exception, strftime_now).
 *
 * Bounded: nesting, steps, memory and output have limits, so that no template can hang or fill the machine; and there is nothing in the language that
 * reaches outside of it. A parsed template does not change: threads may render it at the same time. */
#ifndef PAWL_TEXT_JINJA_H
#define PAWL_TEXT_JINJA_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct jinja_template;

/* name stands in front of errors ("NAME, line 12: ..."). The source is copied. */
enum pawl_status jinja_parse(struct jinja_template **out, const char *name, const char *source, size_t len, struct err *err);
void jinja_free(struct jinja_template *t); /* NULL is allowed */
bool jinja_has_generation(const struct jinja_template *t); /* a {% generation %} block stands in it */

struct jinja_var {
    const char *name;
    const struct json_value *value;
};

/* Output bytes that {% generation %} blocks made, in order. */
struct jinja_marks {
    struct { size_t begin, end; } *items;
    size_t n, cap;
};

/* Adds the rendered text to *out. A later variable of the same name wins. now: what strftime_now sees; NULL: the clock. marks may be NULL.
 * PAWL_EINVAL: the template raised an exception (its own text), or an operation Jinja2 refuses, with the line. */
enum pawl_status jinja_render(const struct jinja_template *t, const struct jinja_var *vars, size_t n, const struct tm *now, struct buf *out,
                              struct jinja_marks *marks, struct err *err);

#endif
