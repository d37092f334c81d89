/* Random numbers: the generator against its authors' known answers, and what is built on it. */
#include "kernels/base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* kat_vectors of Random123 1.14, lines "philox4x32 10". */
static void philox_gives_the_known_answers(void **state)
{
    static const struct { uint32_t counter[4], key[2], answer[4]; } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const uint32_t *c = known[i].counter;
        uint32_t out[4];

        philox4x32(out, (struct rng_key){{known[i].key[0], known[i].key[1]}}, c[0], c[1], c[2], c[3]);
        assert_memory_equal(out, known[i].answer, sizeof out);
    }
}

static void unit_covers_zero_but_not_one(void **state)
{
    double sum = 0;

    assert_true(rng_unit(0) == 0 && rng_unit(0xff) == 0 && rng_unit(0x100) == 0x1p-24f);
    assert_true(rng_unit(0xffffffff) == 1 - 0x1p-24f);
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t w[4];

        philox4x32(w, rng_key(1), i, 0, 0, 0);
        for (int k = 0; k < 4; k++) sum += rng_unit(w[k]);
    }
    assert_true(sum / 40000 > 0.5 - 0.007 && sum / 40000 < 0.5 + 0.007); /* deviation sqrt(1/12 / 40000) = 0.0014 */
}

static void derived_keys_depend_on_every_word(void **state)
{
    struct rng_key k = rng_key(0x123456789abcdef0u), base = rng_derive(k, 1, 2, 3);
    const struct rng_key others[] = {rng_derive(k, 2, 2, 3), rng_derive(k, 1, 3, 3), rng_derive(k, 1, 2, 4),
                                     rng_derive(rng_key(0x9abcdef0u), 1, 2, 3), k};
    struct rng_key again = rng_derive(k, 1, 2, 3);

    assert_memory_equal(&base, &again, sizeof base);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_memory_not_equal(&base, &others[i], sizeof base);
}

/* Every element lands everywhere equally often: 2000 shuffles of 5, 400 +- 6 deviations of 18 in each cell. */
static void permutations_are_uniform_and_repeatable(void **state)
{
    enum { N = 5, TRIALS = 2000, BIG = 100000 };
    int count[N][N] = {{0}};
    uint32_t *a = malloc(BIG * sizeof *a), *b = malloc(BIG * sizeof *b);
    char *seen = calloc(BIG, 1);

    for (uint32_t t = 0; t < TRIALS; t++) {
        uint32_t order[N];

        rng_permutation(order, N, rng_derive(rng_key(3), t, 0, 0));
        for (int i = 0; i < N; i++) count[i][order[i]]++;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) assert_in_range(count[i][k], 400 - 108, 400 + 108);
    rng_permutation(a, BIG, rng_key(8));
    rng_permutation(b, BIG, rng_key(8));
    assert_memory_equal(a, b, BIG * sizeof *a);
    for (int i = 0; i < BIG; i++) {
        assert_true(a[i] < BIG && !seen[a[i]]);
        seen[a[i]] = 1;
    }
    rng_permutation(b, BIG, rng_key(9));
    assert_memory_not_equal(a, b, BIG * sizeof *a);
    rng_permutation(a, 0, rng_key(1));
    rng_permutation(a, 1, rng_key(1));
    assert_int_equal(a[0], 0);
    free(a);
    free(b);
    free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(unit_covers_zero_but_not_one),
        cmocka_unit_test(derived_keys_depend_on_every_word),
        cmocka_unit_test(permutations_are_uniform_and_repeatable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
