/* Clocks. All but wall_seconds are CLOCK_MONOTONIC, which no clock jump changes, and safe in a signal handler. */
#ifndef PAWL_BASE_CLOCK_H
#define PAWL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline struct timespec time_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts;
}

static inline double seconds_between(struct timespec a, struct timespec b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}

static inline double clock_seconds(void)
{
    return seconds_between((struct timespec){0}, time_now());
}

static inline int64_t clock_nanoseconds(void)
{
    struct timespec ts = time_now();

    return ts.tv_sec * (int64_t)1000000000 + ts.tv_nsec;
}

/* Seconds since 1970, for records: it may jump. */
static inline double wall_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return seconds_between((struct timespec){0}, ts);
}

#endif
