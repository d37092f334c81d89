#include "train/run/stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "kernels/base/err.h"

/* Written by signal handlers: the one state that can't live in a structure. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int sig)
{
    if (sig == SIGINT && stop_signal == SIGINT) _exit(err_exit_code(PAWL_ESTOPPED));
    stop_signal = sig;
}

void stop_watch(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &sa, NULL);
    signal(SIGPIPE, SIG_IGN); /* a progress line that nobody reads any more must not end a run */
}

bool stop_requested(void)
{
    return stop_signal != 0;
}

const char *stop_reason(void)
{
    switch (stop_signal) {
    case 0: return NULL;
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    default: return "SIGUSR1";
    }
}
