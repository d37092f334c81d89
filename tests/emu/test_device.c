/* What a card refuses, and how a failure is told: one line, the first one, and nothing after it. */
#include "kernels/base/hash.h"
#include "kernels/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void unusable_devices_are_refused(void **state)
{
    static const struct { const char *device; enum dtype act; enum pawl_status st; const char *says; } cases[] = {
        {"cuda", DTYPE_F32, PAWL_EINVAL, "bf16"},
        {"cuda:7", DTYPE_BF16, PAWL_EIO, "card 7 of 1"},
        {"cuda:", DTYPE_BF16, PAWL_EUSAGE, "number of a card"},
        {"cuda:x", DTYPE_BF16, PAWL_EUSAGE, "number of a card"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dev *dev = NULL;
        struct err err = {0};

        assert_int_equal(dev_open(&dev, cases[i].device, cases[i].act, 1, &err), cases[i].st);
        assert_null(dev);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_null(strchr(err.text, '\n'));
    }
}

static struct dev *opened(void)
{
    struct dev *dev = NULL;
    struct err err;

    assert_int_equal(dev_open(&dev, "cuda", DTYPE_BF16, 1, &err), PAWL_OK);
    return dev;
}

/* A card that is full gives NULL, which the size table's owner reports; the device works on. */
static void a_full_card_gives_nothing(void **state)
{
    struct dev *dev = opened();
    size_t available = dev->ops->available(dev);
    char ones[64], back[64];
    void *p;
    struct err err;

    assert_null(dev->ops->alloc(dev, available + 1));
    assert_int_equal(dev_check(dev, &err), PAWL_OK);
    assert_non_null(p = dev->ops->alloc(dev, sizeof ones));
    dev->ops->download(dev, back, p, sizeof back);
    for (size_t i = 0; i < sizeof back; i++) assert_int_equal(back[i], 0);
    memset(ones, 1, sizeof ones);
    dev->ops->upload(dev, p, ones, sizeof ones);
    dev->ops->download(dev, back, p, sizeof back);
    assert_memory_equal(back, ones, sizeof ones);
    dev->ops->free(dev, p, sizeof ones);
    assert_true(dev->ops->available(dev) == available);
    dev_close(dev);
}

/* The first failure is kept; later ops do nothing, and downloads give all ones instead of old numbers. */
static void the_first_failure_stays(void **state)
{
    enum { T = 32, N = 64 };
    struct dev *dev = opened();
    bf16 *x = dev->ops->alloc(dev, T * N * sizeof *x), *y = dev->ops->alloc(dev, T * N * sizeof *y), back[4];
    float *w = dev->ops->alloc(dev, N * N * sizeof *w), sum[4];
    struct weight W = {.type = DTYPE_F32, .N = N, .K = N, .data = w};
    struct err err;

    dev->scratch = y;
    dev->scratch_bytes = 16;
    dev->ops->linear(dev, y, x, &W, NULL, NULL, NULL, T, 0);
    assert_int_equal(dev_check(dev, &err), PAWL_EIO);
    assert_non_null(strstr(err.text, "scratch"));
    char first[sizeof err.text];
    strcpy(first, err.text);
    dev->ops->add(dev, w, w, N);
    dev->ops->download(dev, back, y, sizeof back);
    dev->ops->download(dev, sum, w, sizeof sum);
    assert_int_equal(back[0], 0xffff);
    assert_true(sum[0] != sum[0]);
    assert_int_equal(dev_check(dev, &err), PAWL_EIO);
    assert_string_equal(err.text, first);
    dev_close(dev);
}

/* Small uploads do not wait, so what they were made from may change at once: all of them arrive as they were, also once the memory that they go through has been used up twice. */
static void uploads_keep_what_they_were_given(void **state)
{
    enum { BUFFERS = 24, BYTES = 300 };
    struct dev *dev = opened();
    char *at[BUFFERS], bytes[BYTES], back[BYTES];

    for (int i = 0; i < BUFFERS; i++) at[i] = dev->ops->alloc(dev, BYTES);
    for (int i = 0; i < BUFFERS; i++) {
        memset(bytes, i + 1, sizeof bytes);
        dev->ops->upload(dev, at[i], bytes, sizeof bytes);
    }
    for (int i = 0; i < BUFFERS; i++) {
        dev->ops->download(dev, back, at[i], sizeof back);
        memset(bytes, i + 1, sizeof bytes);
        assert_memory_equal(back, bytes, sizeof back);
        dev->ops->free(dev, at[i], BYTES);
    }
    dev_close(dev);
}

/* A weight is unpacked on a stream of its own: after it was uploaded. */
static void weights_are_there_before_they_are_unpacked(void **state)
{
    enum { T = 16, N = 8, K = 16 };
    struct dev *dev = opened();
    const struct dev_shapes shapes = {.T = T, .C = K, .F = K, .H = 1, .G = 1, .D = K, .V = 16};
    bf16 x[T * K] = {0}, y[T * N], *dx = dev->ops->alloc(dev, sizeof x), *dy = dev->ops->alloc(dev, sizeof y);
    float w[N * K], *dw = dev->ops->alloc(dev, sizeof w);
    struct weight W = {.type = DTYPE_F32, .N = N, .K = K, .data = dw};

    dev->scratch_bytes = dev->ops->scratch_bytes(dev, &shapes);
    dev->scratch = dev->ops->alloc(dev, dev->scratch_bytes);
    for (int t = 0; t < T; t++) x[t * K + t] = bf16_from_f32(1); /* so y is w transposed */
    for (int i = 0; i < N * K; i++) w[i] = (float)i;
    dev->ops->upload(dev, dx, x, sizeof x);
    dev->ops->upload(dev, dw, w, sizeof w);
    dev->ops->linear(dev, dy, dx, &W, NULL, NULL, NULL, T, 0);
    dev->ops->download(dev, y, dy, sizeof y);
    for (int t = 0; t < T; t++)
        for (int n = 0; n < N; n++) assert_true(bf16_to_f32(y[t * N + n]) == w[n * K + t]);
    dev_close(dev);
}

/* What is copied out is what stood there between the op before and the update behind, whichever runs first. */
static void copies_out_fall_between_two_updates(void **state)
{
    enum { N = 600 };
    struct dev *dev = opened();
    struct err err;
    float ones[N], out[2][N], *v[4];
    bf16 *operand = dev->ops->alloc(dev, N * sizeof *operand);
    const struct adamw hyper = {.clip = 1, .decay = 0.5f, .rest1 = 1, .beta2 = 0, .rest2 = 1, .root = 1, .eps = 1, .step_size = 0.25f};

    assert_true(dev->ops->pin(dev, out, sizeof out));
    for (int i = 0; i < N; i++) ones[i] = 1;
    for (int i = 0; i < 4; i++) dev->ops->upload(dev, v[i] = dev->ops->alloc(dev, sizeof ones), ones, sizeof ones);
    for (int round = 0; round < 8; round++) {
        float *theta = v[0], *m = v[1], *second = v[2], *g = v[3];

        dev->ops->upload(dev, theta, ones, sizeof ones);
        dev->ops->add(dev, theta, g, N);
        assert_true(dev_copy_out(dev, out[0], theta, sizeof ones));
        assert_true(dev_copy_out(dev, out[1], g, sizeof ones));
        dev->ops->adamw(dev, theta, operand, m, second, g, N, &hyper);
        dev_copied_out(dev);
        for (int i = 0; i < N; i++) assert_true(out[0][i] == 2 && out[1][i] == 1);
    }
    assert_int_equal(dev_check(dev, &err), PAWL_OK);
    dev->ops->unpin(dev, out);
    dev_close(dev);
}

/* The hashes of blocks are those of the host. */
static void blocks_hash_as_on_the_host(void **state)
{
    enum { N = 1001 };
    static const int64_t blocks[] = {64, 1000, 1001, 7, 4096};
    struct dev *dev = opened();
    float x[N], *dx = dev->ops->alloc(dev, sizeof x);
    uint64_t got[N], *dgot = dev->ops->alloc(dev, sizeof got);

    for (int i = 0; i < N; i++) x[i] = (float)i * 0.37f - 100;
    dev->ops->upload(dev, dx, x, sizeof x);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        dev->ops->block_hashes(dev, dgot, dx, N, blocks[b], 5);
        int64_t n = (N + blocks[b] - 1) / blocks[b];
        dev->ops->download(dev, got, dgot, (size_t)n * sizeof *got);
        for (int64_t i = 0; i < n; i++) {
            int64_t count = (i + 1) * blocks[b] <= N ? blocks[b] : N - i * blocks[b];

            assert_true(got[i] == hash64((uint64_t)(5 + i), x + i * blocks[b], (size_t)count * sizeof *x));
        }
    }
    dev_close(dev);
}

/* The emulation ends a process that mixes up memories: host addresses in a kernel, device addresses on the host. */
static void memories_are_told_apart(void **state)
{
    for (int how = 0; how < 2; how++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            struct dev *dev = opened();
            float *on_device = dev->ops->alloc(dev, 64), on_host[16] = {0};

            fclose(stderr);
            if (how == 0) dev->ops->add(dev, on_device, on_host, 16);
            else on_device[3] = 1;
            _exit(0);
        }
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 99);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusable_devices_are_refused),
        cmocka_unit_test(a_full_card_gives_nothing),
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(uploads_keep_what_they_were_given),
        cmocka_unit_test(weights_are_there_before_they_are_unpacked),
        cmocka_unit_test(copies_out_fall_between_two_updates),
        cmocka_unit_test(blocks_hash_as_on_the_host),
        cmocka_unit_test(memories_are_told_apart),
    };

    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
