#include "dist/ranks.h"

#include "dist/socket.h"
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- by a launcher's environment */

/* The first launcher whose rank is set is taken. Names of variables; NULL: it has none of the kind. */
static const struct launcher {
    const char *name, *rank, *size, *local_rank, *local_size, *host;
} launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_NODELIST"},
};

static enum pawl_status number(int *out, const char *name, long min, long max, struct err *err)
{
    const char *text = getenv(name);
    char *end;
    long x;

    if (!text) return err_set(err, PAWL_EINVAL, "%s is not set, which a launcher sets: expected %ld to %ld", name, min, max);
    errno = 0;
    x = strtol(text, &end, 10);
    if (!*text || *end || errno || x < min || x > max) return err_set(err, PAWL_EINVAL, "%s=%s: expected a number from %ld to %ld", name, text, min, max);
    *out = (int)x;
    return PAWL_OK;
}

/* The first host of "node[07-12,20],other": "node07". */
static void first_host(char *out, size_t room, const char *list)
{
    size_t n = strcspn(list, "[,");

    snprintf(out, room, "%.*s", (int)n, list);
    if (list[n] == '[') snprintf(out + strlen(out), room - strlen(out), "%.*s", (int)strcspn(list + n + 1, "-,]"), list + n + 1);
}

/* Whether all ranks are here can be told only by the launcher's count; then no name is needed. */
static enum pawl_status find_host(struct ranks *r, const struct launcher *l, struct err *err)
{
    const char *master = getenv("MASTER_ADDR"), *list = l->host ? getenv(l->host) : NULL;

    if (master && *master) snprintf(r->host, sizeof r->host, "%s", master);
    else if (r->local_size == r->size) snprintf(r->host, sizeof r->host, "127.0.0.1");
    else if (list) first_host(r->host, sizeof r->host, list);
    else if (l->rank == launchers[1].rank) r->host[0] = 0; /* MPI may know it */
    else return err_set(err, PAWL_EINVAL, "MASTER_ADDR is not set: expected the name or address of the machine of rank 0");
    return PAWL_OK;
}

static enum pawl_status find_port(struct ranks *r, struct err *err)
{
    enum pawl_status st;

    r->port = RANKS_PORT;
    if (getenv("PAWL_PORT")) return number(&r->port, "PAWL_PORT", 1, 65535, err);
    if (!getenv("MASTER_PORT")) return PAWL_OK;
    st = number(&r->port, "MASTER_PORT", 1, 65534, err);
    r->port++;
    return st;
}

enum pawl_status ranks_from_environment(struct ranks *out, struct err *err)
{
    enum pawl_status st;

    *out = (struct ranks){.size = 1, .local_size = 1, .listener = -1};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];

        if (!getenv(l->rank)) continue;
        /* A shell in a Slurm allocation, as for srun --pty, is one process of its own. */
        if (!strcmp(l->name, "slurm") && !getenv("SLURM_STEP_ID")) continue;
        if ((st = number(&out->size, l->size, 1, RANKS_MAX, err)) != PAWL_OK || (st = number(&out->rank, l->rank, 0, out->size - 1, err)) != PAWL_OK) return st;
        if (getenv(l->local_rank) && (st = number(&out->local_rank, l->local_rank, 0, out->size - 1, err)) != PAWL_OK) return st;
        out->local_size = out->local_rank + 1;
        if (l->local_size && getenv(l->local_size) && (st = number(&out->local_size, l->local_size, out->local_rank + 1, out->size, err)) != PAWL_OK) return st;
        if (!l->local_size && getenv("SLURM_NTASKS_PER_NODE") && (st = number(&out->local_size, "SLURM_NTASKS_PER_NODE", out->local_rank + 1, RANKS_MAX, err)) != PAWL_OK) return st;
        out->launcher = l->name;
        if (out->size == 1) return PAWL_OK;
        if ((st = find_host(out, l, err)) != PAWL_OK) return st;
        return find_port(out, err);
    }
    return PAWL_OK;
}

int ranks_threads(const struct ranks *r)
{
    cpu_set_t set;
    int mine = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, share = (int)sysconf(_SC_NPROCESSORS_ONLN) / r->local_size;

    if (share < 1) share = 1;
    return mine < share ? mine : share;
}

/* --- started here */

/* Written by the handler of the process that only waits; its children are told by it. */
static volatile sig_atomic_t children;
static pid_t child[RANKS_MAX];

static void pass_on(int sig)
{
    for (int i = 0; i < children; i++)
        if (child[i] > 0) kill(child[i], sig);
}

/* 0 < 75 < 3 < 2 < 1: what somebody has to look at goes before what only has to be started again. */
static int worse(int a, int b)
{
    static const int order[] = {1, 2, 3};

    for (int i = 0; i < 3; i++)
        if (a == order[i] || b == order[i]) return order[i];
    return a ? a : b;
}

/* What a child that is waited for has done. */
static int look(pid_t pid, int *status)
{
    pid_t got;

    while ((got = waitpid(pid, status, WNOHANG | WUNTRACED)) < 0 && errno == EINTR) continue;
    return got == pid;
}

/* A rank that outlives rank 0, or stands still while others have ended, would be waited for for ever: it has as long as it takes to notice the end, and is then killed. */
static int wait_for_all(double patience)
{
    int code = 0, left = children;
    bool stopped[RANKS_MAX] = {false};
    double ended = 0;

    while (left) {
        for (int i = 0; i < children; i++) {
            int status;

            if (!child[i] || !look(child[i], &status)) continue;
            if (WIFSTOPPED(status)) {
                stopped[i] = true;
                continue;
            }
            child[i] = 0;
            left--;
            ended = clock_seconds();
            code = worse(code, WIFEXITED(status) ? WEXITSTATUS(status) : err_exit_code(PAWL_ESTOPPED));
        }
        for (int i = 0; i < children && ended && clock_seconds() > ended + patience; i++)
            if (child[i] && (stopped[i] || (i && !child[0]))) kill(child[i], SIGKILL);
        if (left) nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return code;
}

enum pawl_status ranks_start(struct ranks *out, int n, double timeout, bool *parent, int *exit_code, struct err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction sa = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    pid_t self = getpid();
    enum pawl_status st;

    *out = (struct ranks){.size = n, .local_size = n, .host = "127.0.0.1", .listener = -1, .launcher = "--ranks"};
    *parent = false;
    if (n == 1) return PAWL_OK;
    /* Any free port, bound before anybody is told of it. */
    if ((st = socket_listen(&out->listener, &out->port, "--ranks", err)) != PAWL_OK) return st;
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &sa, NULL);
    for (int k = 0; k < n; k++) {
        pid_t pid = fork();

        if (pid < 0) {
            st = err_sys(err, "rank %d of %d cannot be started", k, n);
            pass_on(SIGKILL);
            wait_for_all(timeout);
            close(out->listener);
            return st;
        }
        if (pid == 0) {
            out->rank = out->local_rank = k;
            children = 0;
            for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
            /* A group of its own: a terminal's Ctrl-C comes once, from the parent. And never left behind alone. */
            setpgid(0, 0);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() != self) _exit(err_exit_code(PAWL_ESTOPPED));
            if (k) {
                close(out->listener);
                out->listener = -1;
            }
            return PAWL_OK;
        }
        child[k] = pid;
        children = k + 1;
    }
    close(out->listener);
    *parent = true;
    *exit_code = wait_for_all(timeout + 2);
    return PAWL_OK;
}
