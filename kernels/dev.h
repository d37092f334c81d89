/* A device and the backend that runs on it. Nothing above kernels/ and dist/ knows which one it is. */
#ifndef PAWL_DEV_H
#define PAWL_DEV_H

#include "kernels/base/arena.h"
#include "kernels/base/dtype.h"
#include "kernels/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct ops;
struct profile;

/* The largest shapes that a run will ask for; a backend sizes its scratch by them. */
struct dev_shapes {
    int T;                   /* tokens of a micro-batch */
    int C, F, H, G, D;       /* hidden, feed-forward, query heads, key/value heads, head size */
    int64_t V;               /* vocabulary */
    int r;                   /* LoRA rank, 0: none */
};

struct dev {
    const struct ops *ops;
    const char *name;  /* "cpu/avx512bf16", "ref", "cuda:0 NVIDIA H200": dev_alike compares it */
    char card[16];     /* tells a card from the others of its machine, "0000:17:00.0"; "" where it is none */
    enum dtype act;    /* element of an activation and of an operand copy: DTYPE_BF16 or DTYPE_F32 */
    int threads;
    void *scratch;     /* ops->scratch_bytes(shapes) bytes, given by the owner through its size table before the first call */
    size_t scratch_bytes;
    void *state;       /* the backend's own, or NULL */
    int layer;         /* whose work is given to the device now, -1: none's; only a profile looks at it */
    struct profile *profile; /* NULL: ops are not measured */
    void (*close)(struct dev *dev); /* frees state; or NULL */
};

/* device: "auto" (the first card where there is one and act is bf16, else the CPU), "cpu", "ref" (the scalar oracle, fp32 only), "cuda", "cuda:1". act: DTYPE_BF16 or DTYPE_F32. threads 0: all cores of this process.
 * PAWL_ISA=portable|avx2|avx512|avx512bf16 forces the instruction set of the CPU backend; one that this CPU lacks is an error. */
enum pawl_status dev_open(struct dev **out, const char *device, enum dtype act, int threads, struct err *err);
void dev_close(struct dev *dev); /* NULL is allowed */
/* Whether devices of these names round alike: the same but for the number of the card. */
bool dev_alike(const char *a, const char *b);

/* --- several processes on a machine */

/* Cards that this machine shows for `device` ("auto", "cuda"; anything else: 0) and its element of an activation. Counted in a child, since a process that has asked the driver cannot be forked any more. */
int dev_cards(const char *device, enum dtype element);
/* What the process local_rank of this machine gives dev_open for `device`: where it names no card and several are visible, each takes its own; where one is visible, that one, since a
 * launcher may show each process another. PAWL_EINVAL where there are fewer cards than local_rank needs. */
enum pawl_status dev_of_rank(char out[32], const char *device, enum dtype element, int local_rank, struct err *err);

/* --- memory
 * A device may have memory of its own (ops->available is not NULL), which the host cannot touch. Buffers of a size table then have a place on the host too (arena_host): fetch brings
 * bytes there, send brings them back. Where the device's memory is the host's, that place is the buffer itself and nothing moves. */

/* Allocates a size table on the device. PAWL_ENOMEM names the largest segment. */
enum pawl_status dev_arena_alloc(struct dev *dev, struct arena *a, struct err *err);
void dev_arena_free(struct dev *dev, struct arena *a);
/* The place on the host of a buffer of the table, with what the device has there after all work that was queued. */
void *dev_fetch(struct dev *dev, const struct arena *a, const void *p, size_t bytes);
/* What stands at the place on the host goes to the buffer. */
void dev_send(struct dev *dev, const struct arena *a, void *p, size_t bytes);
/* dst, on the host, becomes what src holds after the work that was queued until now, while the device works on: whole after dev_copied_out, which waits for all such copies.
 * False: it is whole already. Until then nothing may write src, but for adamw, which waits for it by itself. */
bool dev_copy_out(struct dev *dev, void *dst, const void *src, size_t bytes);
void dev_copied_out(struct dev *dev);

/* The first failure of work that was given to the device; ops after it did nothing, so what they wrote is worth nothing. Ask after each download that matters. */
enum pawl_status dev_check(struct dev *dev, struct err *err);

#endif
