#include "train/run/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/err.h"

/* Written by signal handlers and watchers: the one state that can't live in a structure. Times are nanoseconds of CLOCK_MONOTONIC. */
static _Atomic(const char *) why;
static _Atomic int64_t deadline, lead;
static _Atomic int64_t grace = 5000000000;
static atomic_int interrupts;

/* Safe in a handler: atomics without locks and clock_gettime. */
static void request(const char *reason, int64_t left)
{
    int64_t until = clock_nanoseconds() + left;

    if (atomic_load(&why) && atomic_load(&deadline) <= until) return;
    atomic_store(&deadline, until);
    atomic_store(&lead, left);
    atomic_store(&why, reason);
}

static void on_signal(int sig)
{
    if (sig == SIGINT && atomic_fetch_add(&interrupts, 1)) _exit(err_exit_code(PAWL_ESTOPPED));
    request(sig == SIGTERM ? "SIGTERM" : sig == SIGINT ? "SIGINT" : sig == SIGHUP ? "SIGHUP" : "SIGUSR1", atomic_load(&grace));
}

void stop_watch(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &sa, NULL);
    /* A terminal that closes, unless nohup has said that this does not matter. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN); /* a progress line that nobody reads any more must not end a run */
}

void stop_set_grace(double seconds)
{
    atomic_store(&grace, (int64_t)(seconds * 1e9));
}

void stop_notice(const char *reason, double seconds)
{
    request(reason, (int64_t)(seconds * 1e9));
}

bool stop_requested(void)
{
    return atomic_load(&why) != NULL;
}

const char *stop_reason(void)
{
    return atomic_load(&why);
}

double stop_seconds_left(void)
{
    return stop_requested() ? (double)(atomic_load(&deadline) - clock_nanoseconds()) * 1e-9 : 1e9;
}

double stop_lead_seconds(void)
{
    return (double)atomic_load(&lead) * 1e-9;
}
