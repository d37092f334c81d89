#include "ckpt/fileio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK (1 << 20)
/* An interrupted call is repeated at most so often: a file system that answers EINTR for ever is broken, and a save that hangs is worse than one that fails. */
#define MAX_INTERRUPTS 1000

/* open is variadic in the C library. */
static int sys_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

const struct fsys fsys_real = {
    .open = sys_open, .close = close, .read = read, .write = write, .pread = pread, .pwrite = pwrite, .fsync = fsync, .fdatasync = fdatasync,
    .ftruncate = ftruncate, .fallocate = fallocate, .fadvise = posix_fadvise, .flock = flock, .rename = rename, .symlink = symlink, .unlink = unlink, .mkdir = mkdir, .rmdir = rmdir,
};

/* The value of call, which is repeated while it is interrupted. */
#define RETRY(call) \
    ({ \
        int tries_ = MAX_INTERRUPTS; \
        __typeof__(call) r_; \
        do r_ = (call); while (r_ < 0 && errno == EINTR && tries_-- > 0); \
        r_; \
    })

/* --- reading */

enum pawl_status map_open(struct map *m, const char *path, struct err *err)
{
    struct stat info;
    enum pawl_status st = PAWL_OK;
    int fd = RETRY(open(path, O_RDONLY | O_CLOEXEC));

    *m = (struct map){0};
    if (fd < 0) return err_sys(err, "%s: cannot be opened", path);
    if (fstat(fd, &info) != 0) {
        st = err_sys(err, "%s: cannot be examined", path);
    } else if (!S_ISREG(info.st_mode)) {
        st = err_set(err, PAWL_EIO, "%s: is not a regular file", path);
    } else if (info.st_size > 0) {
        void *p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) st = err_sys(err, "%s: cannot be mapped", path);
        else *m = (struct map){.data = p, .size = (size_t)info.st_size};
    }
    close(fd);
    return st;
}

void map_close(struct map *m)
{
    if (m->size) munmap((void *)m->data, m->size);
    *m = (struct map){0};
}

enum pawl_status file_read_all(struct buf *out, const char *path, size_t limit, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    char *chunk = NULL;
    size_t total = 0;
    int fd = RETRY(open(path, O_RDONLY | O_CLOEXEC));

    if (fd < 0) return err_sys(err, "%s: cannot be opened", path);
    chunk = xmalloc(CHUNK);
    for (;;) {
        ssize_t n = RETRY(read(fd, chunk, CHUNK));
        if (n == 0) break;
        if (n < 0) {
            st = err_sys(err, "%s: cannot be read", path);
            break;
        }
        total += (size_t)n;
        if (total > limit) {
            st = err_set(err, PAWL_EFORMAT, "%s: more than %zu bytes, too long for a file of this kind", path, limit);
            break;
        }
        buf_add(out, chunk, (size_t)n);
    }
    buf_add(out, "", 0);
    free(chunk);
    close(fd);
    return st;
}

void file_sum_add(struct file_sum *sum, const void *data, size_t len)
{
    sum->crc = (uint32_t)crc32_z(sum->crc, data, len);
    sum->bytes += len;
}

void file_sum_join(struct file_sum *sum, struct file_sum next)
{
    sum->crc = (uint32_t)crc32_combine(sum->crc, next.crc, (z_off_t)next.bytes);
    sum->bytes += next.bytes;
}

enum pawl_status file_sum_read(struct file_sum *out, const struct fsys *sys, const char *path, bool cold, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    char *chunk = NULL;
    ssize_t n;
    int fd = RETRY(sys->open(path, O_RDONLY | O_CLOEXEC, 0));

    if (fd < 0) return err_sys(err, "%s: cannot be opened", path);
    if (cold) sys->fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    sys->fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = (struct file_sum){0};
    chunk = xmalloc(CHUNK);
    while ((n = RETRY(sys->read(fd, chunk, CHUNK))) > 0) file_sum_add(out, chunk, (size_t)n);
    if (n < 0) st = err_sys(err, "%s: cannot be read", path);
    free(chunk);
    sys->close(fd);
    return st;
}

/* --- writing at a place */

enum pawl_status fd_open(int *fd, const struct fsys *sys, const char *path, int flags, struct err *err)
{
    *fd = RETRY(sys->open(path, flags | O_CLOEXEC, 0666));
    return *fd < 0 ? err_sys(err, "%s: cannot be opened for writing", path) : PAWL_OK;
}

enum pawl_status fd_pread(const struct fsys *sys, int fd, void *data, size_t len, off_t offset, const char *path, struct err *err)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = RETRY(sys->pread(fd, (char *)data + done, len - done, offset + (off_t)done));
        if (n < 0) return err_sys(err, "%s: cannot be read", path);
        if (n == 0) return err_set(err, PAWL_EFORMAT, "%s: ends after %lld bytes, %zu more were expected", path, (long long)offset + (long long)done, len - done);
        done += (size_t)n;
    }
    return PAWL_OK;
}

/* offset < 0 writes where the file stands. */
static enum pawl_status write_fully(const struct fsys *sys, int fd, const uint8_t *data, size_t len, off_t offset, const char *path, struct err *err)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = offset < 0 ? RETRY(sys->write(fd, data + done, len - done)) : RETRY(sys->pwrite(fd, data + done, len - done, offset + (off_t)done));
        if (n < 0) return err_sys(err, "%s: cannot be written after %zu of %zu bytes", path, done, len);
        if (n == 0) return err_set(err, PAWL_EIO, "%s: takes no more after %zu of %zu bytes", path, done, len);
        done += (size_t)n;
    }
    return PAWL_OK;
}

enum pawl_status fd_write(const struct fsys *sys, int fd, const void *data, size_t len, const char *path, struct err *err)
{
    return write_fully(sys, fd, data, len, -1, path, err);
}

enum pawl_status fd_pwrite(const struct fsys *sys, int fd, const void *data, size_t len, off_t offset, const char *path, struct err *err)
{
    return write_fully(sys, fd, data, len, offset, path, err);
}

enum pawl_status fd_sync(const struct fsys *sys, int fd, bool data_only, const char *path, struct err *err)
{
    int r = data_only ? RETRY(sys->fdatasync(fd)) : RETRY(sys->fsync(fd));
    return r != 0 ? err_sys(err, "%s: cannot be made durable", path) : PAWL_OK;
}

enum pawl_status fd_cut(const struct fsys *sys, int fd, off_t size, const char *path, struct err *err)
{
    return RETRY(sys->ftruncate(fd, size)) != 0 ? err_sys(err, "%s: cannot be cut to %lld bytes", path, (long long)size) : PAWL_OK;
}

enum pawl_status fd_reserve(const struct fsys *sys, int fd, size_t bytes, const char *path, struct err *err)
{
    if (RETRY(sys->fallocate(fd, 0, 0, (off_t)bytes)) == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return PAWL_OK;
    return err_sys(err, "%s: %zu MiB cannot be reserved", path, bytes >> 20);
}

/* --- a new file, front to back */

enum pawl_status file_create(struct file *f, const struct fsys *sys, const char *path, struct err *err)
{
    *f = (struct file){.sys = sys, .fd = -1};
    enum pawl_status st = fd_open(&f->fd, sys, path, O_WRONLY | O_CREAT | O_EXCL, err);
    if (st == PAWL_OK) f->path = xstrdup(path);
    return st;
}

void file_write(struct file *f, const void *data, size_t len)
{
    if (f->failed.status != PAWL_OK) return;
    if (fd_write(f->sys, f->fd, data, len, f->path, &f->failed) == PAWL_OK) file_sum_add(&f->sum, data, len);
}

enum pawl_status file_close(struct file *f, struct file_sum *sum, struct err *err)
{
    enum pawl_status st;

    if (f->failed.status == PAWL_OK) fd_sync(f->sys, f->fd, false, f->path, &f->failed);
    /* A descriptor is closed even when close says EINTR. */
    if (f->failed.status == PAWL_OK) {
        int r = f->sys->close(f->fd);
        f->fd = -1;
        if (r != 0 && errno != EINTR) err_sys(&f->failed, "%s: cannot be closed", f->path);
    }
    st = f->failed.status;
    if (st != PAWL_OK) {
        if (err) *err = f->failed;
        file_abandon(f);
        return st;
    }
    if (sum) *sum = f->sum;
    free(f->path);
    f->path = NULL;
    return PAWL_OK;
}

void file_abandon(struct file *f)
{
    if (!f->path) return;
    if (f->fd >= 0) f->sys->close(f->fd);
    RETRY(f->sys->unlink(f->path));
    free(f->path);
    *f = (struct file){.fd = -1};
}

/* --- directories and names */

char *file_tmp_name(const char *dir, const char *stem)
{
    uint32_t r = 0;

    while (getrandom(&r, sizeof r, 0) != sizeof r) continue;
    return xasprintf("%s/" TMP_PREFIX "%s-%08x", dir, stem, r);
}

char *file_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash) return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool file_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

enum pawl_status dir_sync(const struct fsys *sys, const char *path, struct err *err)
{
    enum pawl_status st = PAWL_OK;
    int fd = RETRY(sys->open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));

    if (fd < 0) return err_sys(err, "%s: the directory cannot be opened", path);
    /* Some network file systems have no fsync for directories: their entries are durable by then, or cannot be made so. */
    if (RETRY(sys->fsync(fd)) != 0 && errno != EINVAL) st = err_sys(err, "%s: the directory cannot be made durable", path);
    sys->close(fd);
    return st;
}

enum pawl_status dir_make(const struct fsys *sys, const char *path, struct err *err)
{
    struct stat info;
    char *parent;
    enum pawl_status st;

    if (stat(path, &info) == 0) return S_ISDIR(info.st_mode) ? PAWL_OK : err_set(err, PAWL_EIO, "%s: is in the way, a directory is needed there", path);
    size_t len = strlen(path);
    char *trimmed = xstrdup(path);
    while (len > 1 && trimmed[len - 1] == '/') trimmed[--len] = 0;
    parent = file_dirname(trimmed);
    if (!*path) st = err_set(err, PAWL_EIO, "a directory without a name cannot be made");
    else st = dir_make(sys, parent, err);
    if (st == PAWL_OK && RETRY(sys->mkdir(trimmed, 0777)) != 0 && errno != EEXIST) st = err_sys(err, "%s: the directory cannot be made", trimmed);
    if (st == PAWL_OK) st = dir_sync(sys, parent, err);
    free(parent);
    free(trimmed);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum pawl_status dir_list(char ***names, size_t *n, const char *path, struct err *err)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    enum pawl_status st = PAWL_OK;

    *names = NULL;
    *n = 0;
    if (!dir) return err_sys(err, "%s: the directory cannot be read", path);
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        *names = xreallocarray(*names, *n + 1, sizeof **names);
        (*names)[(*n)++] = xstrdup(entry->d_name);
    }
    if (errno) {
        st = err_sys(err, "%s: the directory cannot be read to its end", path);
        dir_list_free(*names, *n);
        *names = NULL;
        *n = 0;
    }
    closedir(dir);
    if (*n) qsort(*names, *n, sizeof **names, by_name);
    return st;
}

void dir_list_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
}

enum pawl_status file_move(const struct fsys *sys, const char *from, const char *to, struct err *err)
{
    return RETRY(sys->rename(from, to)) != 0 ? err_sys(err, "%s: cannot be renamed to %s", from, to) : PAWL_OK;
}

enum pawl_status file_rename(const struct fsys *sys, const char *from, const char *to, struct err *err)
{
    enum pawl_status st = file_move(sys, from, to, err);

    if (st != PAWL_OK) return st;
    char *parent = file_dirname(to);
    st = dir_sync(sys, parent, err);
    free(parent);
    return st;
}

enum pawl_status file_replace(const struct fsys *sys, const char *path, const void *data, size_t len, struct err *err)
{
    char *parent = file_dirname(path), *tmp = file_tmp_name(parent, base_name(path));
    struct file f;
    enum pawl_status st = file_create(&f, sys, tmp, err);

    if (st != PAWL_OK) goto done;
    file_write(&f, data, len);
    if ((st = file_close(&f, NULL, err)) != PAWL_OK) goto done;
    if ((st = file_rename(sys, tmp, path, err)) != PAWL_OK) RETRY(sys->unlink(tmp));
done:
    free(tmp);
    free(parent);
    return st;
}

enum pawl_status link_replace(const struct fsys *sys, const char *path, const char *target, struct err *err)
{
    char *parent = file_dirname(path), *tmp = file_tmp_name(parent, base_name(path));
    enum pawl_status st = PAWL_OK;

    if (RETRY(sys->symlink(target, tmp)) != 0) st = err_sys(err, "%s: the link cannot be made", tmp);
    else if ((st = file_rename(sys, tmp, path, err)) != PAWL_OK) RETRY(sys->unlink(tmp));
    free(tmp);
    free(parent);
    return st;
}

enum pawl_status file_remove_tree(const struct fsys *sys, const char *path, struct err *err)
{
    struct stat info;
    enum pawl_status st = PAWL_OK;
    char **names;
    size_t n;

    if (lstat(path, &info) != 0) return errno == ENOENT ? PAWL_OK : err_sys(err, "%s: cannot be examined", path);
    if (!S_ISDIR(info.st_mode))
        return RETRY(sys->unlink(path)) != 0 && errno != ENOENT ? err_sys(err, "%s: cannot be removed", path) : PAWL_OK;

    if ((st = dir_list(&names, &n, path, err)) != PAWL_OK) return st;
    for (size_t i = 0; i < n; i++) {
        char *child = xasprintf("%s/%s", path, names[i]);
        enum pawl_status one = file_remove_tree(sys, child, st == PAWL_OK ? err : NULL);
        if (st == PAWL_OK) st = one;
        free(child);
    }
    dir_list_free(names, n);
    if (st == PAWL_OK && RETRY(sys->rmdir(path)) != 0 && errno != ENOENT) st = err_sys(err, "%s: the directory cannot be removed", path);
    return st;
}
