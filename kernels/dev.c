/* Which devices this build has, and which instruction set the CPU backend runs on. */
#include "kernels/dev.h"

#include "kernels/base/mem.h"
#include "kernels/ops.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct ops cpu_ops_portable_bf16, cpu_ops_portable_f32;
#ifdef __x86_64__
extern const struct ops cpu_ops_avx2_bf16, cpu_ops_avx2_f32, cpu_ops_avx512_bf16, cpu_ops_avx512_f32, cpu_ops_avx512bf16_bf16;

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

/* vdpbf16ps does twice the work of an fp32 multiply-add. AMD issues as many of them a cycle, so it is worth rounding for; Intel issues a quarter to a half as many (measured on Emerald Rapids:
 * 85 GFLOP/s a core against 173), so there fp32 on exactly widened bf16 is faster, and closer. By vendor, never by timing: the same machine gives the same bits each time. */
static bool wants_avx512bf16(void) { return __builtin_cpu_is("amd"); }
#endif

static bool always(void) { return true; }

/* The best one first. */
static const struct isa {
    const char *name;
    bool (*has)(void), (*wanted)(void); /* this CPU can; chosen unless PAWL_ISA says otherwise */
    const struct ops *bf16, *f32;
    const char *f32_name;
} isas[] = {
#ifdef __x86_64__
    {"avx512bf16", has_avx512bf16, wants_avx512bf16, &cpu_ops_avx512bf16_bf16, &cpu_ops_avx512_f32, "avx512"},
    {"avx512", has_avx512, always, &cpu_ops_avx512_bf16, &cpu_ops_avx512_f32, "avx512"},
    {"avx2", has_avx2, always, &cpu_ops_avx2_bf16, &cpu_ops_avx2_f32, "avx2"},
#endif
    {"portable", always, always, &cpu_ops_portable_bf16, &cpu_ops_portable_f32, "portable"},
};
#define ISAS (sizeof isas / sizeof *isas)

/* The set that PAWL_ISA names, or the best that is wanted. */
static enum pawl_status choose_isa(const struct isa **out, struct err *err)
{
    const char *forced = getenv("PAWL_ISA");
    struct buf have = {0};

    for (size_t i = 0; i < ISAS; i++) {
        if (!isas[i].has()) continue;
        if (forced && *forced ? strcmp(isas[i].name, forced) == 0 : isas[i].wanted()) {
            *out = &isas[i];
            buf_free(&have);
            return PAWL_OK;
        }
        buf_addf(&have, "%s%s", have.len ? ", " : "", isas[i].name);
    }
    enum pawl_status st = err_set(err, PAWL_EUSAGE, "PAWL_ISA=%s: this CPU and build have %s", forced, have.data);
    buf_free(&have);
    return st;
}

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static enum pawl_status open_cpu(struct dev *dev, const char *device, struct err *err)
{
    const struct isa *isa = NULL;
    enum pawl_status st = choose_isa(&isa, err);

    if (st != PAWL_OK) return st;
    dev->ops = dev->act == DTYPE_BF16 ? isa->bf16 : isa->f32;
    dev->name = xasprintf("cpu/%s", dev->act == DTYPE_BF16 ? isa->name : isa->f32_name);
    return PAWL_OK;
}

static enum pawl_status open_ref(struct dev *dev, const char *device, struct err *err)
{
    if (dev->act != DTYPE_F32) return err_set(err, PAWL_EINVAL, "device ref computes in fp32 only: set bf16: false");
    dev->ops = &ref_ops;
    dev->name = xstrdup("ref");
    dev->threads = 1;
    return PAWL_OK;
}

#ifdef PAWL_HAVE_CUDA
enum pawl_status cuda_open(struct dev *dev, const char *device, struct err *err);
int cuda_cards(void);
#else
static int cuda_cards(void) { return 0; }

static enum pawl_status cuda_open(struct dev *dev, const char *device, struct err *err)
{
    return err_set(err, PAWL_EINVAL, "device %s: this build has no CUDA: use cpu, or build where CMake finds the CUDA toolkit", device);
}
#endif

/* A card that computes in the type that is asked for, else the CPU. */
static enum pawl_status open_auto(struct dev *dev, const char *device, struct err *err)
{
    return dev->act == DTYPE_BF16 && cuda_cards() ? cuda_open(dev, "cuda", err) : open_cpu(dev, device, err);
}

static const struct kind {
    const char *name;
    bool numbered; /* "cuda:1" */
    enum pawl_status (*open)(struct dev *dev, const char *device, struct err *err);
} kinds[] = {
    {"auto", false, open_auto},
    {"cpu", false, open_cpu},
    {"ref", false, open_ref},
    {"cuda", true, cuda_open},
};

static const struct kind *find_kind(const char *device)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].name);

        if (strncmp(device, kinds[i].name, n) == 0 && (device[n] == '\0' || (kinds[i].numbered && device[n] == ':'))) return &kinds[i];
    }
    return NULL;
}

enum pawl_status dev_open(struct dev **out, const char *device, enum dtype element, int threads, struct err *err)
{
    const struct kind *kind = find_kind(device);

    if (!kind) return err_set(err, PAWL_EUSAGE, "device %s: expected auto, cpu, cuda, cuda:N or ref", device);
    struct dev *dev = xcalloc(1, sizeof *dev);
    dev->act = element;
    dev->layer = -1;
    dev->threads = threads > 0 ? threads : cores();
    enum pawl_status st = kind->open(dev, device, err);
    if (st == PAWL_OK) *out = dev;
    else dev_close(dev);
    return st;
}

void dev_close(struct dev *dev)
{
    if (!dev) return;
    if (dev->close) dev->close(dev);
    free((char *)dev->name);
    free(dev);
}

/* "cuda:1 NVIDIA H200" from its blank on. */
static const char *without_number(const char *name)
{
    const char *blank = strncmp(name, "cuda:", 5) == 0 ? strchr(name, ' ') : NULL;

    return blank ? blank : name;
}

bool dev_alike(const char *a, const char *b)
{
    return strcmp(without_number(a), without_number(b)) == 0;
}

/* --- several processes on a machine */

static bool any_card_will_do(const char *device, enum dtype element)
{
    return element == DTYPE_BF16 && (strcmp(device, "auto") == 0 || strcmp(device, "cuda") == 0);
}

int dev_cards(const char *device, enum dtype element)
{
    int status = 0;
    pid_t pid;

    if (!any_card_will_do(device, element) || (pid = fork()) < 0) return 0;
    if (pid == 0) {
        int n = cuda_cards();

        _exit(n < 255 ? n : 255);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

enum pawl_status dev_of_rank(char out[32], const char *device, enum dtype element, int local_rank, struct err *err)
{
    int cards = any_card_will_do(device, element) ? cuda_cards() : 0;

    if (cards > 1 && local_rank >= cards)
        return err_set(err, PAWL_EINVAL, "rank %d of this machine has no card: it has %d that are visible: start %d ranks here (--ranks %d), or set device: cpu", local_rank, cards, cards, cards);
    if (cards > 1) snprintf(out, 32, "cuda:%d", local_rank);
    else snprintf(out, 32, "%s", device);
    return PAWL_OK;
}

enum pawl_status dev_check(struct dev *dev, struct err *err)
{
    return dev->ops->check ? dev->ops->check(dev, err) : PAWL_OK;
}

/* --- memory */

static void *alloc_on(void *dev, size_t bytes)
{
    return ((struct dev *)dev)->ops->alloc(dev, bytes);
}

enum pawl_status dev_arena_alloc(struct dev *dev, struct arena *a, struct err *err)
{
    return arena_alloc(a, dev->ops->available ? alloc_on : NULL, dev, err);
}

void dev_arena_free(struct dev *dev, struct arena *a)
{
    if (a->base && a->base != a->host) dev->ops->free(dev, a->base, a->bytes);
    arena_free(a);
}

void *dev_fetch(struct dev *dev, const struct arena *a, const void *p, size_t bytes)
{
    void *host = arena_host(a, p);

    if (host != p) dev->ops->download(dev, host, p, bytes);
    return host;
}

void dev_send(struct dev *dev, const struct arena *a, void *p, size_t bytes)
{
    void *host = arena_host(a, p);

    if (host != p) dev->ops->upload(dev, p, host, bytes);
}

bool dev_copy_out(struct dev *dev, void *dst, const void *src, size_t bytes)
{
    if (dev->ops->copy_out) dev->ops->copy_out(dev, dst, src, bytes);
    else dev->ops->download(dev, dst, src, bytes);
    return dev->ops->copy_out != NULL;
}

void dev_copied_out(struct dev *dev)
{
    if (dev->ops->copied_out) dev->ops->copied_out(dev);
}
