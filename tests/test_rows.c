/* Rows, steps, batches and the loader: what a data set becomes for the trainer. */
#define DIR "test_rows.tmp"
#include "tests/data_fixture.h"

#include "train/data/batch.h"
#include "train/data/loader.h"
#include "train/data/rows.h"

static struct rows *make_rows(const struct dataset *d, struct rows_options o)
{
    struct rows *r = NULL;
    struct err err = {0};

    if (rows_build(&r, d, &o, &err) != PAWL_OK) fail_msg("%s", err.text);
    return r;
}

static void weights_repeat_and_thin_out(void **state)
{
    struct dataset_config p = part(DIR "/many.jsonl", DATASET_COMPLETION);
    struct dataset *d;
    struct rows *r;

    write_many(DIR "/many.jsonl", 1000);
    p.weight = 2.5;
    d = open_with(p, options());
    r = make_rows(d, (struct rows_options){.global_batch = 1, .num_epochs = 1});
    assert_true(r->count > 2400 && r->count < 2600);
    rows_free(r);
    dataset_free(d);
    p.weight = 0.25;
    d = open_with(p, options());
    r = make_rows(d, (struct rows_options){.global_batch = 1, .num_epochs = 1});
    assert_true(r->count > 190 && r->count < 310);
    rows_free(r);
    dataset_free(d);
}

/* --- rows and steps */

static void an_epoch_takes_every_row_once_in_an_order_of_its_own(void **state)
{
    struct dataset *d;
    struct rows *r, *again;
    struct batch b = {0};
    uint32_t order[2][103], seen[103] = {0};

    write_many(DIR "/many.jsonl", 103);
    d = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), options());
    r = make_rows(d, (struct rows_options){.shuffle = true, .seed = 42, .global_batch = 8, .num_epochs = 3});
    assert_int_equal(rows_steps_per_epoch(r), 13);
    assert_int_equal(rows_total_steps(r), 39);
    batch_init(&b, r);
    for (int64_t step = 1; step <= 13; step++) {
        batch_build(&b, step);
        assert_int_equal(b.rows, step == 13 ? 7 : 8);
        for (int i = 0; i < b.rows; i++) seen[b.row[i]]++;
    }
    for (int i = 0; i < 103; i++) assert_int_equal(seen[i], 1);
    assert_true(rows_epochs_done(r, 13) == 1.0);
    batch_build(&b, 14);
    assert_int_equal(b.epoch, 1);

    rows_order(r, 0, order[0]);
    rows_order(r, 1, order[1]);
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    again = make_rows(d, r->opt);
    rows_order(again, 1, order[0]);
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_true(rows_hash(r) == rows_hash(again));
    rows_free(again);

    again = make_rows(d, (struct rows_options){.global_batch = 8, .num_epochs = 0.5});
    assert_int_equal(rows_total_steps(again), 7);
    assert_true(rows_hash(r) != rows_hash(again));
    rows_order(again, 5, order[0]);
    for (uint32_t i = 0; i < 103; i++) assert_int_equal(order[0][i], i);
    rows_free(again);
    batch_free(&b);
    rows_free(r);
    dataset_free(d);
}

static void packing_fills_rows_and_keeps_examples_apart(void **state)
{
    struct dataset *d;
    struct rows *packed, *plain, *again;
    struct batch b = {0}, single = {0};
    uint32_t *seen;
    int64_t supervised = 0;

    write_many(DIR "/many.jsonl", 4000); /* 20 to 400 tokens */
    d = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), options());
    int shortest = 1 << 30, longest = 0;
    for (size_t i = 0; i < dataset_count(d); i++) {
        int n = dataset_example(d, i).length;
        shortest = n < shortest ? n : shortest;
        longest = n > longest ? n : longest;
    }
    if (shortest > 40 || longest < 380 || longest > 430) fail_msg("lengths are %d to %d", shortest, longest);

    packed = make_rows(d, (struct rows_options){.sequence_len = 2048, .packing = true, .shuffle = true, .seed = 1, .global_batch = 5, .num_epochs = 1});
    again = make_rows(d, packed->opt);
    assert_true(rows_fill(packed) >= 0.97);
    assert_int_equal(packed->count, again->count);
    assert_memory_equal(packed->item, again->item, 4000 * sizeof *packed->item);
    seen = xcalloc(4000, sizeof *seen);
    for (uint32_t i = 0; i < packed->count; i++) {
        assert_true(packed->tokens[i] <= 2048);
        if (i) assert_true(packed->item[packed->first[i - 1]] < packed->item[packed->first[i]]); /* rows follow the data */
        for (uint32_t k = packed->first[i]; k < packed->first[i + 1]; k++) seen[packed->item[k]]++;
    }
    for (int i = 0; i < 4000; i++) assert_int_equal(seen[i], 1);

    /* The targets of the loss are the same ones with and without packing: nothing is lost at a border, nothing predicted across it. */
    plain = make_rows(d, (struct rows_options){.global_batch = 4000, .num_epochs = 1});
    batch_init(&single, plain);
    batch_build(&single, 1);
    batch_init(&b, packed);
    for (int64_t step = 1; step <= rows_steps_per_epoch(packed); step++) {
        batch_build(&b, step);
        supervised += b.supervised;
        for (int e = 0; e < b.examples; e++) {
            int at = b.example_start[e], n = b.example_start[e + 1] - at, from = single.example_start[b.item[e]];

            assert_memory_equal(b.ids + at, single.ids + from, (size_t)n * sizeof *b.ids);
            assert_memory_equal(b.target + at, single.target + from, (size_t)n * sizeof *b.target);
            assert_memory_equal(b.pos + at, single.pos + from, (size_t)n * sizeof *b.pos);
            assert_int_equal(b.pos[at], 0);
            assert_int_equal(b.target[at + n - 1], TARGET_NONE);
        }
    }
    assert_int_equal(supervised, single.supervised);
    assert_int_equal(supervised, packed->total_supervised);
    free(seen);
    batch_free(&b);
    batch_free(&single);
    rows_free(packed);
    rows_free(plain);
    rows_free(again);
    dataset_free(d);
}

static void targets_are_the_next_supervised_tokens(void **state)
{
    struct dataset *d = open_text("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n{\"prompt\": \"1=\", \"completion\": \"1\"}\n", DATASET_PROMPT_COMPLETION);
    struct rows *r = make_rows(d, (struct rows_options){.global_batch = 2, .num_epochs = 1});
    struct batch b = {0};
    struct micro m;
    int four = (int)tokenizer_id(tokenizer, "4", 1), one = (int)tokenizer_id(tokenizer, "1", 1), end = (int)tokenizer_id(tokenizer, "<|im_end|>", 10);

    batch_init(&b, r);
    batch_build(&b, 1);
    assert_int_equal(b.T, 10);
    assert_int_equal(b.supervised, 4);
    int32_t expected[10] = {-1, -1, -1, four, end, -1, -1, one, end, -1};
    assert_memory_equal(b.target, expected, sizeof expected);

    micro_init(&m, rows_limits(r, 1));
    micro_view(&m, &b, 1, 1);
    assert_int_equal(m.layout.T, 4);
    assert_int_equal(m.layout.rows, 1);
    assert_int_equal(m.layout.examples, 1);
    assert_int_equal(m.layout.first_row, 1);
    assert_int_equal(m.layout.row_start[0], 0);
    assert_int_equal(m.layout.row_start[1], 4);
    assert_int_equal(m.layout.example_start[1], 4);
    assert_int_equal(m.ids[0], one);
    assert_int_equal(m.layout.pos[3], 3);
    assert_int_equal(m.S, 2);
    assert_int_equal(m.index[0], 1);
    assert_int_equal(m.target[0], one);
    assert_int_equal(m.index[1], 2);
    assert_int_equal(m.target[1], end);
    micro_free(&m);

    struct buf places = {0};
    batch_places(&b, 0, 2, &places);
    assert_string_equal(places.data, DIR "/a.jsonl line 1, 2");
    buf_free(&places);
    batch_free(&b);
    rows_free(r);
    dataset_free(d);
}

static void limits_hold_for_every_micro_batch(void **state)
{
    struct dataset *d;
    struct rows *r;
    struct batch b = {0};

    write_many(DIR "/many.jsonl", 500);
    d = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), options());
    r = make_rows(d, (struct rows_options){.sequence_len = 1024, .packing = true, .shuffle = true, .global_batch = 16, .num_epochs = 1});
    struct rows_limits lim = rows_limits(r, 4);
    assert_int_equal(lim.rows, 4);
    batch_init(&b, r);
    for (int64_t step = 1; step < 40; step++) {
        batch_build(&b, step);
        for (int i = 0; i + 4 <= b.rows; i++) {
            assert_true(b.row_start[i + 4] - b.row_start[i] <= lim.tokens);
            assert_true(b.row_example[i + 4] - b.row_example[i] <= lim.examples);
        }
    }
    assert_true(lim.tokens <= 4 * 1024);
    assert_int_equal(rows_limits(r, 1 << 20).rows, r->count);
    batch_free(&b);
    rows_free(r);
    dataset_free(d);
}

static void the_loader_gives_what_is_built_directly(void **state)
{
    static const int64_t steps[] = {3, 4, 5, 6, 2, 3, 9, 10};
    struct dataset *d;
    struct rows *r;
    struct batch b = {0};
    struct loader *l;
    struct err err = {0};

    write_many(DIR "/many.jsonl", 100);
    d = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), options());
    r = make_rows(d, (struct rows_options){.shuffle = true, .seed = 3, .global_batch = 16, .num_epochs = 2});
    batch_init(&b, r);
    assert_int_equal(loader_open(&l, r, 3, &err), PAWL_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const struct batch *got = loader_get(l, steps[i]);

        batch_build(&b, steps[i]);
        assert_int_equal(got->step, steps[i]);
        assert_true(got->hash == b.hash);
        assert_memory_equal(got->ids, b.ids, (size_t)b.T * sizeof *b.ids);
    }
    loader_close(l);
    batch_free(&b);
    rows_free(r);
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_repeat_and_thin_out),
        cmocka_unit_test(an_epoch_takes_every_row_once_in_an_order_of_its_own),
        cmocka_unit_test(packing_fills_rows_and_keeps_examples_apart),
        cmocka_unit_test(targets_are_the_next_supervised_tokens),
        cmocka_unit_test(limits_hold_for_every_micro_batch),
        cmocka_unit_test(the_loader_gives_what_is_built_directly),
    };

    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
