/* What a card refuses, and how a failure is told: one line, the first one, and nothing after it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusable_devices_are_refused),
        cmocka_unit_test(a_full_card_gives_nothing),
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(memories_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
