/* How much the tensors of two directories differ: all .safetensors files by name, all tensors in them by name. */
#ifndef PAWL_CLI_CKPT_DIFF_H
#define PAWL_CLI_CKPT_DIFF_H

#include "kernels/base/err.h"

#include <stdbool.h>

/* Prints a table, or JSON: [{"file","tensor","shape","max_abs","rms","relative","equal"}]; relative is |b - a| / |a| in the Euclidean norm. The last three
 * figures are null where only one side has the tensor, where shapes differ, or where the type is not one of numbers. */
enum pawl_status ckpt_diff(const char *a, const char *b, bool json, struct err *err);

#endif
