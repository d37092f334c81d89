/* What `pawl scaling` measured, and its picture. Private to train/cli. */
#ifndef PAWL_CLI_SCALING_PLOT_H
#define PAWL_CLI_SCALING_PLOT_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct scaling_result {
    int ranks;
    double tokens_per_second, speedup, efficiency;
    double communication; /* share of the time */
    double sent;          /* bytes a step, of the rank that sends most */
    double peak;          /* bytes, of the largest rank */
    char transport[16];
};

/* An SVG of speed-up over ranks with the ideal line; communication is written at each point. */
enum pawl_status scaling_plot(const char *path, const struct scaling_result *list, size_t n, bool weak, struct err *err);

#endif
