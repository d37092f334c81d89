/* Commands that read JSON lines from stdin and answer each with one on stdout, in order. */
#ifndef PAWL_CLI_LINES_H
#define PAWL_CLI_LINES_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <stdio.h>

/* Calls answer for each line of `in` that holds more than white space; it adds the answer (one line, without its newline) to *out, which is printed. A line
 * that is no JSON, or an answer that fails, ends it: the error names the line. */
enum pawl_status lines_answer(FILE *in, enum pawl_status (*answer)(void *context, const struct json_value *line, struct buf *out, struct err *err), void *context,
                              struct err *err);

#endif
