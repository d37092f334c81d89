/* What a device reaches by itself, as one JSON object: the bf16 matrix product that linear layers are made of, a copy within its memory, NF4 unpacked to bf16, and copies to the host.
 *
 *   pawl_bench_card [--device cuda] [--size 8192] [--seconds 1]
 *
 * gemm_flops: operations a second of a square product of --size. The others: bytes a second, read and written ones both. Each is the best of repetitions within --seconds. */
#include "kernels/base/clock.h"
#include "kernels/base/mem.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATED 8 /* calls between two readings of the clock, so that waiting costs little */

struct bench {
    struct dev *dev;
    int size;
    struct weight plain, packed;
    act *x, *y;
    uint8_t *codes;
    float *absmax;
    int32_t *ids;
    void *host;
    size_t bytes; /* of a matrix */
    bool pinned;
};

static void gemm(struct bench *b) { b->dev->ops->linear(b->dev, b->y, b->x, &b->plain, NULL, NULL, NULL, b->size, 0); }
static void copy(struct bench *b) { b->dev->ops->copy(b->dev, b->y, b->x, b->bytes); }
static void unpack(struct bench *b) { b->dev->ops->embed(b->dev, b->y, &b->packed, b->ids, b->size); }

static void copy_out(struct bench *b)
{
    dev_copy_out(b->dev, b->host, b->x, b->bytes);
    dev_copied_out(b->dev);
}

/* Seconds of one call. */
static double seconds_of(struct bench *b, void (*what)(struct bench *), double limit)
{
    double best = 0, end = 0;
    char byte;

    for (int round = 0; round < 2 || clock_seconds() < end; round++) { /* the first round loads kernels */
        double begin = clock_seconds(), seconds;

        for (int i = 0; i < REPEATED; i++) what(b);
        b->dev->ops->download(b->dev, &byte, b->y, 1);
        seconds = (clock_seconds() - begin) / REPEATED;
        if (round == 0) end = clock_seconds() + limit;
        else if (best == 0 || seconds < best) best = seconds;
    }
    return best;
}

/* Numbers around 0 as weights are: a card that multiplies zeros draws less power and is faster. */
static void fill(struct bench *b)
{
    size_t n = (size_t)b->size * (size_t)b->size;
    bf16 *numbers = xreallocarray(NULL, n, sizeof *numbers);
    int32_t *ids = xreallocarray(NULL, (size_t)b->size, sizeof *ids);
    uint64_t state = 1;

    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = bf16_from_f32((float)(int32_t)(state >> 32) * 0x1p-36f);
    }
    for (int i = 0; i < b->size; i++) ids[i] = i;
    b->dev->ops->upload(b->dev, b->x, numbers, n * sizeof *numbers);
    b->dev->ops->upload(b->dev, (void *)b->plain.data, numbers, n * sizeof *numbers);
    b->dev->ops->upload(b->dev, b->codes, numbers, n / 2);
    b->dev->ops->upload(b->dev, b->ids, ids, (size_t)b->size * sizeof *ids);
    free(numbers);
    free(ids);
}

static enum pawl_status run(struct bench *b, struct arena *a, const char *device, double limit, struct err *err)
{
    size_t n = (size_t)b->size * (size_t)b->size;
    const struct dev_shapes shapes = {.T = b->size, .C = b->size, .F = b->size, .H = b->size / 64, .G = b->size / 64, .D = 64, .V = b->size};
    enum pawl_status st = dev_open(&b->dev, device, DTYPE_BF16, 0, err);

    if (st != PAWL_OK) return st;
    b->bytes = n * sizeof(bf16);
    b->dev->scratch_bytes = b->dev->ops->scratch_bytes(b->dev, &shapes);
    arena_reserve(a, "matrices", b->bytes, &b->x);
    arena_reserve(a, "matrices", b->bytes, &b->y);
    arena_reserve(a, "matrices", b->bytes, &b->plain.data);
    arena_reserve(a, "matrices", n / 2, &b->codes);
    arena_reserve(a, "matrices", n / NF4_BLOCK * sizeof(float), &b->absmax);
    arena_reserve(a, "matrices", (size_t)b->size * sizeof(int32_t), &b->ids);
    arena_reserve(a, "scratch", b->dev->scratch_bytes, &b->dev->scratch);
    if ((st = dev_arena_alloc(b->dev, a, err)) != PAWL_OK) return st;
    b->plain.type = DTYPE_BF16, b->packed.type = DTYPE_NF4;
    b->plain.N = b->plain.K = b->packed.N = b->packed.K = b->size;
    b->packed.data = b->codes, b->packed.absmax = b->absmax;
    b->host = xcalloc(1, b->bytes);
    b->pinned = b->dev->ops->pin && b->dev->ops->pin(b->dev, b->host, b->bytes);
    fill(b);
    double packed = (double)n * (0.5 + 4.0 / NF4_BLOCK + 2);
    printf("{\"device\":\"%s\",\"size\":%d,\"gemm_flops\":%.4g,", b->dev->name, b->size, 2.0 * (double)n * b->size / seconds_of(b, gemm, limit));
    printf("\"copy_bytes\":%.4g,\"unpack_bytes\":%.4g,\"copy_out_bytes\":%.4g}\n", 2.0 * (double)b->bytes / seconds_of(b, copy, limit), packed / seconds_of(b, unpack, limit),
           (double)b->bytes / seconds_of(b, copy_out, limit));
    return dev_check(b->dev, err);
}

int main(int argc, char **argv)
{
    struct bench b = {.size = 8192};
    struct arena a = {0};
    struct err err;
    const char *device = "cuda";
    double limit = 1;
    enum pawl_status st;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && !strcmp(argv[i], "--device")) device = argv[i + 1];
        else if (i + 1 < argc && !strcmp(argv[i], "--size") && atoi(argv[i + 1]) > 0 && atoi(argv[i + 1]) % NF4_BLOCK == 0) b.size = atoi(argv[i + 1]);
        else if (i + 1 < argc && !strcmp(argv[i], "--seconds")) limit = atof(argv[i + 1]);
        else {
            fprintf(stderr, "pawl_bench_card: %s: expected --device, --size (a multiple of %d), --seconds\n", argv[i], NF4_BLOCK);
            return 2;
        }
    }
    if ((st = run(&b, &a, device, limit, &err)) != PAWL_OK) fprintf(stderr, "pawl_bench_card: %s\n", err.text);
    if (b.pinned) b.dev->ops->unpin(b.dev, b.host);
    free(b.host);
    if (b.dev) dev_arena_free(b.dev, &a);
    dev_close(b.dev);
    return st == PAWL_OK ? 0 : err_exit_code(st);
}
