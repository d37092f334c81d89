/* Who computes which rows and owns which elements: every one exactly once, evenly, and borders where the norm's blocks have theirs. */
#include "dist/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void rows_are_dealt_once_and_evenly(void **state)
{
    for (int ranks = 1; ranks <= 17; ranks++)
        for (int64_t rows = 0; rows <= 70; rows++) {
            int64_t at = 0;

            for (int k = 0; k < ranks; k++) {
                struct range r = shard_rows(rows, k, ranks);

                assert_int_equal(r.begin, at);
                assert_in_range(range_count(r), rows / ranks, rows / ranks + 1);
                at = r.end;
            }
            assert_int_equal(at, rows);
        }
}

static void eight_rows_on_four_ranks_are_pairs(void **state)
{
    for (int k = 0; k < 4; k++) assert_int_equal(shard_rows(8, k, 4).begin, 2 * k);
}

static void slices_cover_the_vector_in_whole_blocks(void **state)
{
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 1000, 4096, 99999};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int ranks = 1; ranks <= 9; ranks++) {
            int64_t n = sizes[i], blocks = (n + 63) / 64, at = 0;
            size_t offset[10];

            shard_offsets(offset, n, 64, 4, ranks);
            for (int k = 0; k < ranks; k++) {
                struct range r = shard_slice(n, 64, k, ranks);

                assert_int_equal(r.begin, at);
                if (range_count(r)) assert_int_equal(r.begin % 64, 0);
                assert_in_range((range_count(r) + 63) / 64, blocks / ranks, blocks / ranks + 1);
                assert_int_equal(offset[k], r.begin * 4);
                at = r.end;
            }
            assert_int_equal(at, n);
            assert_int_equal(offset[ranks], n * 4);
        }
}

static void large_counts_do_not_overflow(void **state)
{
    struct range r = shard_slice(INT64_C(1) << 60, 4096, 1022, 1023);

    assert_true(r.begin > 0 && r.begin < r.end);
    assert_int_equal(r.end, INT64_C(1) << 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_dealt_once_and_evenly),
        cmocka_unit_test(eight_rows_on_four_ranks_are_pairs),
        cmocka_unit_test(slices_cover_the_vector_in_whole_blocks),
        cmocka_unit_test(large_counts_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
