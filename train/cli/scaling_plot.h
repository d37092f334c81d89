/* What `pawl scaling` measured, and its picture. Private to train/cli. */
#ifndef PAWL_CLI_SCALING_PLOT_H
#define PAWL_CLI_SCALING_PLOT_H

#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct scaling_result {
    int ranks;
    int threads;          /* of a rank; 0: as many as there are, and on a card */
    char name[64];        /* "2 ranks of 1 thread" */
    double tokens_per_second, speedup, efficiency; /* over the first of the list */
    double communication; /* share of the time */
    double sent;          /* bytes a step, of the rank that sends most */
    double cpu;           /* seconds a step, of all ranks */
    double peak;          /* bytes, of the largest rank */
    double cost;          /* money for a million tokens; 0: no price is known */
    char transport[16];
};

/* What the ideal speed-up follows: cores, or cards. */
static inline double scaling_units(const struct scaling_result *r)
{
    return r->ranks * (r->threads ? r->threads : 1);
}

/* An SVG: speed-up over cores or cards with the ideal line, and beside it a line for each number of ranks with its efficiency, share of communication, memory and cost.
 * kind: "Strong" or "Weak". */
enum pawl_status scaling_plot(const char *path, const struct scaling_result *list, size_t n, const char *kind, struct err *err);

#endif
