#include "ckpt/rclone.h"

#include "kernels/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGS 24
#define SECONDS 120.0           /* of a call that moves next to nothing */
#define SLOWEST (64.0 * 1024)   /* bytes a second that a longer one is given time for */
#define MAX_LISTING (64u << 20)
#define NOT_FOUND 3             /* rclone's exit code: no such directory */
#define TICK_MS 100             /* the deadline may be moved while a child runs */

extern char **environ;

/* --- a child and its two pipes */

struct child {
    pid_t pid;
    int out, err; /* -1: closed */
};

static enum pawl_status start(struct child *c, const char *program, char *const *argv, struct err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults, none;
    int out[2] = {-1, -1}, errors[2] = {-1, -1}, failed;

    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
        enum pawl_status st = err_sys(err, "%s: no pipe can be made", program);

        if (out[0] >= 0) close(out[0]), close(out[1]);
        return st;
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, errors[1], 2);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setsigmask(&attr, &none);
    failed = posix_spawnp(&c->pid, program, &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    close(errors[1]);
    if (failed) {
        close(out[0]);
        close(errors[0]);
        return err_set(err, PAWL_EINVAL, "the program %s cannot be started: %s: install it from the distribution (apt install rclone)", program, strerror(failed));
    }
    c->out = out[0];
    c->err = errors[0];
    return PAWL_OK;
}

/* Takes what there is; closes the pipe at its end. */
static void drain(int *fd, struct buf *to, size_t limit)
{
    char chunk[65536];
    ssize_t n = read(*fd, chunk, sizeof chunk);

    if (n > 0 && to->len <= limit) buf_add(to, chunk, (size_t)n); /* one byte beyond the limit shows that there was more */
    if (n > 0 || (n < 0 && errno == EINTR)) return;
    close(*fd);
    *fd = -1;
}

bool rclone_time_is_up(const struct rclone *r)
{
    int64_t deadline = atomic_load(&r->deadline);

    return deadline && clock_nanoseconds() >= deadline;
}

static bool time_is_up(const struct rclone *r, int64_t until)
{
    return clock_nanoseconds() >= until || rclone_time_is_up(r);
}

/* Reads both pipes and waits for the end. False: the time was up, and it was killed. */
static bool follow(const struct rclone *r, struct child *c, int64_t until, struct buf *out, size_t limit, struct buf *errors, int *status)
{
    bool in_time = true;

    while (in_time && (c->out >= 0 || c->err >= 0)) {
        struct pollfd p[2] = {{.fd = c->out, .events = POLLIN}, {.fd = c->err, .events = POLLIN}};

        if (poll(p, 2, TICK_MS) > 0) {
            if (p[0].revents) drain(&c->out, out, limit);
            if (p[1].revents) drain(&c->err, errors, 1 << 20);
        }
        in_time = !time_is_up(r, until);
    }
    while (in_time) {
        struct timespec tick = {0, 2000000};
        pid_t ended = waitpid(c->pid, status, WNOHANG);

        if (ended == c->pid || (ended < 0 && errno != EINTR)) return true;
        nanosleep(&tick, NULL);
        in_time = !time_is_up(r, until);
    }
    kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, status, 0) < 0 && errno == EINTR) continue;
    if (c->out >= 0) close(c->out);
    if (c->err >= 0) close(c->err);
    return false;
}

/* "2026/11/30 19:00:01 " */
static bool has_date(const char *line)
{
    return strlen(line) > 20 && line[4] == '/' && line[7] == '/' && line[10] == ' ' && line[13] == ':';
}

/* What went wrong: the last line with a date, without it; or the last line, where none has one. What stands behind such a line are details of it. text is changed. */
static const char *last_line(struct buf *text)
{
    const char *line = "it said nothing";
    char *p = text->data, *next;

    for (bool dated = false; p && *p; p = next) {
        char *end = strchr(p, '\n');

        next = end ? end + 1 : p + strlen(p);
        if (end) *end = 0;
        if (has_date(p)) line = p + 20, dated = true;
        else if (!dated && *p) line = p;
    }
    for (p = text->len ? text->data : NULL; p && p < text->data + text->len; p++)
        if (*p == '\t') *p = ' ';
    return line;
}

/* args end with NULL. out may be NULL. *missing (may be NULL): the place does not exist, which then is no failure. */
static enum pawl_status run(struct rclone *r, const char *const *args, double seconds, struct buf *out, size_t limit, bool *missing, struct err *err)
{
    static const char *const always[] = {"--retries=1", "--low-level-retries=3", "--contimeout=10s", "--timeout=60s", "--ask-password=false", "--log-level=NOTICE", "--stats=0"};
    const char *argv[MAX_ARGS] = {r->program};
    struct buf none = {0}, errors = {0};
    struct child c;
    int n = 1, status = 0;
    bool in_time;
    enum pawl_status st;

    for (int i = 0; args[i]; i++) argv[n++] = args[i];
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) argv[n++] = always[i];
    if ((st = start(&c, r->program, (char *const *)argv, err)) != PAWL_OK) return st;
    in_time = follow(r, &c, clock_nanoseconds() + (int64_t)(seconds * 1e9), out ? out : &none, limit, &errors, &status);
    if (missing) *missing = in_time && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND;
    if (!in_time) {
        st = err_set(err, PAWL_EIO, "%s %s: ended after its time was up: %.600s", r->program, args[0], last_line(&errors));
    } else if (WIFSIGNALED(status)) {
        st = err_set(err, PAWL_EIO, "%s %s: ended by signal %d", r->program, args[0], WTERMSIG(status));
    } else if (WEXITSTATUS(status) && !(missing && *missing)) {
        bool unknown = errors.len && strstr(errors.data, "didn't find section in config file"); /* before the lines are cut apart */

        st = err_set(err, unknown ? PAWL_EINVAL : PAWL_EIO, "%s %s: exit code %d: %.900s%s", r->program, args[0], WEXITSTATUS(status), last_line(&errors),
                     unknown ? ": `rclone config` makes a remote, `rclone listremotes` names those that are there" : "");
    }
    buf_free(&none);
    buf_free(&errors);
    return st;
}

static double seconds_for(uint64_t bytes)
{
    return SECONDS + (double)bytes / SLOWEST;
}

/* --- what is asked of it */

enum pawl_status rclone_check(struct rclone *r, struct err *err)
{
    return run(r, (const char *const[]){"version", NULL}, SECONDS, NULL, 0, NULL, err);
}

enum pawl_status rclone_list(struct rclone *r, struct buf *out, const char *path, struct err *err)
{
    const char *args[] = {"lsf", "--recursive", "--files-only", "--format=sp", "--separator= ", path, NULL};
    struct buf listing = {0};
    bool missing = false;
    enum pawl_status st = run(r, args, SECONDS, &listing, MAX_LISTING, &missing, err);

    if (st == PAWL_OK && listing.len > MAX_LISTING) st = err_set(err, PAWL_EFORMAT, "%s: more than a million objects: not a place of pawl's", path);
    if (st == PAWL_OK && !missing) buf_add(out, listing.data, listing.len);
    buf_free(&listing);
    return st;
}

enum pawl_status rclone_read(struct rclone *r, struct buf *out, size_t limit, const char *path, struct err *err)
{
    struct buf text = {0};
    enum pawl_status st = run(r, (const char *const[]){"cat", path, NULL}, seconds_for(limit), &text, limit, NULL, err);

    if (st == PAWL_OK && text.len > limit) st = err_set(err, PAWL_EFORMAT, "%s: more than %zu bytes, too long for an object of its kind", path, limit);
    if (st == PAWL_OK) buf_add(out, text.data, text.len);
    buf_free(&text);
    return st;
}

enum pawl_status rclone_put(struct rclone *r, const char *dir, const char *path, uint64_t bytes, struct err *err)
{
    return run(r, (const char *const[]){"copy", "--copy-links", dir, path, NULL}, seconds_for(bytes), NULL, 0, NULL, err);
}

enum pawl_status rclone_put_file(struct rclone *r, const char *file, const char *path, struct err *err)
{
    return run(r, (const char *const[]){"copyto", file, path, NULL}, SECONDS, NULL, 0, NULL, err);
}

enum pawl_status rclone_get(struct rclone *r, const char *path, const char *list, const char *dir, uint64_t bytes, struct err *err)
{
    return run(r, (const char *const[]){"copy", "--files-from-raw", list, path, dir, NULL}, seconds_for(bytes), NULL, 0, NULL, err);
}

enum pawl_status rclone_delete(struct rclone *r, const char *path, const char *list, struct err *err)
{
    return run(r, (const char *const[]){"delete", "--files-from-raw", list, path, NULL}, SECONDS, NULL, 0, NULL, err);
}
