/* Stands between a program and the C library (LD_PRELOAD) for the classes faults, slow and clock.
 *   FAULT_DIR     only files below this directory are meant; what comes before the first write to metrics.jsonl there is left alone
 *   FAULT_AT      number of the call, from 0, that goes wrong     FAULT_KIND  EIO, ENOSPC, EINTR or short; with "-ever" all calls from there on
 *   FAULT_COUNT   a file that gets the number of calls at the end
 *   SLOW_MS       every fdatasync and fsync takes this much longer
 *   CLOCK_JUMP    the wall clock jumps back and forth by so many seconds, every tenth time that somebody looks */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

static atomic_int calls, looks;
static atomic_bool stepped;

static bool is_meant(const char *path)
{
    const char *dir = getenv("FAULT_DIR");

    return dir && path && !strncmp(path, dir, strlen(dir));
}

static bool fd_is_meant(int fd, bool is_write)
{
    char link[64], path[4096];
    ssize_t n;

    if (!getenv("FAULT_DIR")) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = 0;
    if (!is_meant(path)) return false;
    if (is_write && strstr(path, "metrics.jsonl")) atomic_store(&stepped, true);
    return true;
}

/* 0, or the error of this call; -1: it is to be short. */
static int fault(void)
{
    const char *kind = getenv("FAULT_KIND"), *at = getenv("FAULT_AT");
    int n, first = at ? atoi(at) : -1;

    if (!atomic_load(&stepped)) return 0;
    n = atomic_fetch_add(&calls, 1);
    if (!kind || first < 0 || (strstr(kind, "-ever") ? n < first : n != first)) return 0;
    return !strncmp(kind, "EIO", 3) ? EIO : !strncmp(kind, "ENOSPC", 6) ? ENOSPC : !strncmp(kind, "EINTR", 5) ? EINTR : -1;
}

__attribute__((destructor)) static void count(void)
{
    const char *path = getenv("FAULT_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;

    if (!f) return;
    fprintf(f, "%d\n", atomic_load(&calls));
    fclose(f);
}

#define MAY_FAIL(meant)                   \
    do {                                  \
        int error_ = (meant) ? fault() : 0; \
        if (error_ > 0) {                 \
            errno = error_;               \
            return -1;                    \
        }                                 \
    } while (0)

int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    MAY_FAIL(is_meant(path));
    return REAL(open)(path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t len)
{
    int error = fd_is_meant(fd, true) ? fault() : 0;

    if (error > 0) {
        errno = error;
        return -1;
    }
    return REAL(write)(fd, data, error < 0 && len > 1 ? len / 2 : len);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    int error = fd_is_meant(fd, true) ? fault() : 0;

    if (error > 0) {
        errno = error;
        return -1;
    }
    return REAL(pwrite)(fd, data, error < 0 && len > 1 ? len / 2 : len, at);
}

static void slow_down(void)
{
    const char *ms = getenv("SLOW_MS");

    if (ms) usleep((useconds_t)atoi(ms) * 1000);
}

int fsync(int fd)
{
    MAY_FAIL(fd_is_meant(fd, false));
    slow_down();
    return REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    MAY_FAIL(fd_is_meant(fd, false));
    slow_down();
    return REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t size)
{
    MAY_FAIL(fd_is_meant(fd, false));
    return REAL(ftruncate)(fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    MAY_FAIL(fd_is_meant(fd, false));
    return REAL(fallocate)(fd, mode, at, len);
}

int rename(const char *from, const char *to)
{
    MAY_FAIL(is_meant(from));
    return REAL(rename)(from, to);
}

int symlink(const char *target, const char *path)
{
    MAY_FAIL(is_meant(path));
    return REAL(symlink)(target, path);
}

int unlink(const char *path)
{
    MAY_FAIL(is_meant(path));
    return REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode)
{
    MAY_FAIL(is_meant(path));
    return REAL(mkdir)(path, mode);
}

int rmdir(const char *path)
{
    MAY_FAIL(is_meant(path));
    return REAL(rmdir)(path);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    const char *jump = getenv("CLOCK_JUMP");
    int r = REAL(clock_gettime)(id, ts);

    if (jump && id == CLOCK_REALTIME && atomic_fetch_add(&looks, 1) / 10 % 2) ts->tv_sec += atoi(jump);
    return r;
}
