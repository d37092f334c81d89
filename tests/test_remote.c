/* The remote against a program that plays rclone: every call failing in turn, take-overs at every moment, damage, time. */
#include "ckpt/checkpoint.h"
#include "ckpt/pack.h"
#include "ckpt/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PLACE "scratch_remote"
#define ROOT "fake:bucket/run"
#define STORE PLACE "/store/bucket/run"
#define FAKE PAWL_TESTS "/fake_rclone.sh"
#define SCRATCH PLACE "/tmp-up"
#define RUN "0123456789abcdef"

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    shell("rm -rf " PLACE " && mkdir -p " PLACE "/store " PLACE "/run/checkpoint-5");
    setenv("FAKE_RCLONE", PLACE, 1);
    return 0;
}

static void put(const char *name, const char *text)
{
    char *path = xasprintf(PLACE "/%s", name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(path);
}

static int calls(void)
{
    struct buf text = {0};
    int n = 0;

    if (file_exists(PLACE "/calls")) file_read_all(&text, PLACE "/calls", 1 << 24, NULL);
    for (size_t i = 0; i < text.len; i++) n += text.data[i] == '\n';
    buf_free(&text);
    return n;
}

/* What happens to the n-th call from here. */
static void rule(int n, const char *what)
{
    char *text = xasprintf("%d %s\n", calls() + n, what);

    put("rule", text);
    free(text);
}

static struct remote *open_at(uint64_t generation)
{
    struct remote *r;
    struct err err;

    if (remote_open(&r, ROOT, FAKE, &err) != PAWL_OK) fail_msg("%s", err.text);
    if (generation && remote_claim(r, RUN, generation, SCRATCH, &err) != PAWL_OK) fail_msg("%s", err.text);
    return r;
}

static const struct remote_source sources[] = {
    {.name = "checkpoint-5/weights", .path = PLACE "/run/checkpoint-5/weights"},
    {.name = "journal/slot", .path = PLACE "/run/slot"},
    {.name = "metrics.jsonl", .path = PLACE "/run/metrics.jsonl", .grows = true, .packs = true},
};

static void files_of_step(int step)
{
    char *slot = xasprintf("the state of step %d\n", step);
    struct buf metrics = {0};

    put("run/checkpoint-5/weights", "weights of step five, the same in every state");
    put("run/slot", slot);
    for (int i = 1; i <= step; i++) buf_addf(&metrics, "{\"step\":%d}\n", i);
    buf_adds(&metrics, "{\"step\": cut of");
    put("run/metrics.jsonl", metrics.data);
    buf_free(&metrics);
    free(slot);
}

static enum pawl_status publish(struct remote *r, uint64_t generation, int step, struct remote_published *done, struct err *err)
{
    struct remote_published ignored;

    files_of_step(step);
    return remote_publish(r, (struct journal_at){generation, step, 0}, "journal/slot", "{\"tokens\": 7}", sources, 3, SCRATCH, done ? done : &ignored, err);
}

/* The newest state that a stranger finds whole; its step, or -1. */
static int64_t newest(void)
{
    struct remote *r = open_at(0);
    struct remote_index x;
    struct err err;
    int64_t step = -1;

    if (remote_look(r, &x, &err) != PAWL_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < x.n && step < 0; i++) {
        struct remote_state *s;
        size_t bad = 1;

        if (x.items[i].claim) continue;
        assert_int_equal(remote_read(r, x.items[i].name, &s, &err), PAWL_OK);
        shell("rm -rf " PLACE "/got && mkdir " PLACE "/got");
        if (s->why.status == PAWL_OK && remote_fetch(r, s, PLACE "/got", NULL, NULL, &bad, &err) == PAWL_OK && !bad) step = s->at.step;
        remote_state_free(s);
    }
    remote_index_free(&x);
    remote_close(r);
    return step;
}

static void assert_text(const char *path, const char *expected)
{
    struct buf text = {0};

    assert_int_equal(file_read_all(&text, path, 1 << 20, NULL), PAWL_OK);
    assert_string_equal(text.data, expected);
    buf_free(&text);
}

static void what_is_published_comes_back(void **state)
{
    struct remote *r = open_at(3);
    struct remote_published first, second;
    struct err err;

    if (publish(r, 3, 5, &first, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(newest(), 5);
    assert_text(PLACE "/got/checkpoint-5/weights", "weights of step five, the same in every state");
    assert_text(PLACE "/got/journal/slot", "the state of step 5\n");
    assert_text(PLACE "/got/metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"step\":5}\n");

    if (publish(r, 3, 6, &second, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(newest(), 6);
    assert_true(second.bytes + 30 < first.bytes); /* the weights are there */
    assert_false(file_exists(SCRATCH));
    remote_close(r);
}

/* Also what an earlier process published is not uploaded again, and goes when nobody names it any more. */
static void the_next_process_goes_on_with_the_same_objects(void **state)
{
    struct remote *a = open_at(3), *b;
    struct remote_index x;
    struct remote_state *s = NULL;
    struct remote_published first, second;
    struct err err;

    if (publish(a, 3, 5, &first, &err) != PAWL_OK) fail_msg("%s", err.text);
    remote_close(a);
    b = open_at(4);
    assert_int_equal(remote_look(b, &x, &err), PAWL_OK);
    assert_int_equal(x.generation, 4);
    for (size_t i = 0; i < x.n && !s; i++)
        if (!x.items[i].claim) assert_int_equal(remote_read(b, x.items[i].name, &s, &err), PAWL_OK);
    remote_build_on(b, s);
    for (int step = 6; step < 9; step++)
        if (publish(b, 4, step, &second, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(newest(), 8);
    assert_true(second.bytes + 30 < first.bytes);
    shell("test $(find " STORE "/objects/*/g0000000003-* -type f | wc -l) = 1"); /* the weights */
    remote_index_free(&x);
    remote_close(b);
}

static void a_long_record_grows_by_what_was_added(void **state)
{
    struct remote *r = open_at(3);
    struct remote_source metrics = {.name = "metrics.jsonl", .path = PLACE "/run/metrics.jsonl", .grows = true};
    struct remote_published done;
    struct buf line = {0};
    struct err err;

    for (int i = 0; i < 1500; i++) buf_addc(&line, 'x');
    buf_addc(&line, '\n');
    for (int i = 0; i < 4; i++) {
        FILE *f = fopen(metrics.path, i ? "a" : "w");

        for (int k = 0; k < 400; k++) fputs(line.data, f);
        fclose(f);
        if (remote_publish(r, (struct journal_at){3, i, 0}, "", "{}", &metrics, 1, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
        /* 600 KB are uploaded again with the next 600, and are a part then. */
        assert_int_equal(done.bytes, (i % 2 ? 800 : 400) * line.len);
    }
    assert_int_equal(newest(), 3);
    shell("cmp " PLACE "/got/metrics.jsonl " PLACE "/run/metrics.jsonl");
    buf_free(&line);
    remote_close(r);
}

/* Text and tokens travel packed: several blocks, read back by gzip too, found damaged in any of them. */
static bool never(const void *ctx) { return false; }

/* Blocks unpack to what they were, and to nothing else: other sizes, flipped bytes and cut tails are damage, not failures of this machine. */
static void packed_bytes_are_what_they_were_or_refused(void **state)
{
    enum { N = 2 * PACK_BLOCK + 777 };
    char *data = xmalloc(N);
    struct buf packed = {0}, out = {0};
    uint64_t size;
    struct err err;

    for (int i = 0; i < N; i++) data[i] = (char)(i * 7 % 251 + i / 4096);
    assert_int_equal(pack_file(PLACE "/packed", data, N, never, NULL, &size, &err), PAWL_OK);
    assert_int_equal(file_read_all(&packed, PLACE "/packed", N, &err), PAWL_OK);
    assert_int_equal(packed.len, size);
    assert_true(size < N / 2);
    assert_int_equal(unpack_text(&out, packed.data, packed.len, N, &err), PAWL_OK);
    assert_int_equal(out.len, N);
    assert_memory_equal(out.data, data, N);
    assert_int_equal(unpack_text(&out, packed.data, packed.len, N - 1, &err), PAWL_EFORMAT);
    assert_int_equal(unpack_text(&out, packed.data, packed.len, N + 1, &err), PAWL_EFORMAT);
    assert_int_equal(unpack_text(&out, packed.data, packed.len - 1, N, &err), PAWL_EFORMAT);
    packed.data[packed.len / 2] ^= 1;
    assert_int_equal(unpack_text(&out, packed.data, packed.len, N, &err), PAWL_EFORMAT);
    buf_free(&out);
    buf_free(&packed);
    free(data);
}

static void what_packs_travels_smaller(void **state)
{
    struct remote *r = open_at(3);
    struct remote_source files[] = {{.name = "tokens/train-0.tokens", .path = PLACE "/run/tokens", .stays = true, .packs = true},
                                    {.name = "config.yaml", .path = PLACE "/run/empty", .packs = true}};
    struct remote_published done;
    struct remote_state *s;
    struct remote_index x;
    struct buf text = {0};
    struct err err;
    uint64_t whole = 3 * (1 << 20) + 12345;
    size_t bad = 0;

    shell("seq 500000 | head -c 3158073 >" PLACE "/run/tokens; : >" PLACE "/run/empty");
    if (remote_publish(r, (struct journal_at){3, 1, 0}, "", "{}", files, 2, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_true(done.bytes > 0 && done.bytes < whole / 2);
    assert_int_equal(newest(), 1);
    shell("cmp " PLACE "/got/tokens/train-0.tokens " PLACE "/run/tokens && test -e " PLACE "/got/config.yaml");
    shell("gzip -dc " STORE "/objects/*/*/*tokens.gz | cmp - " PLACE "/run/tokens");

    assert_int_equal(remote_look(r, &x, &err), PAWL_OK);
    assert_int_equal(remote_read(r, x.items[0].name, &s, &err), PAWL_OK);
    assert_int_equal(remote_file_bytes(&s->files[0]), whole);
    assert_int_equal(remote_part_stored(&s->files[0].parts[0]), done.bytes);
    assert_int_equal(remote_check(r, &s, 1, &err), PAWL_OK);
    assert_int_equal(s->why.status, PAWL_OK);
    assert_int_equal(remote_read_part(r, &s->files[0].parts[0], &text, &err), PAWL_OK);
    assert_int_equal(text.len, whole);

    if (remote_publish(r, (struct journal_at){3, 2, 0}, "", "{}", files, 2, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(done.bytes, 0); /* the same */

    for (int i = 1; i < 8; i += 2) { /* in each of the four blocks, and then cut */
        char *hurt = xasprintf("f=$(ls " STORE "/objects/*/*/*tokens.gz); cp $f " PLACE "/kept; printf XYZ | dd of=$f bs=1 seek=$(($(stat -c %%s $f) * %d / 8)) conv=notrunc status=none", i);

        shell(hurt);
        shell("rm -rf " PLACE "/got && mkdir " PLACE "/got");
        if (remote_fetch(r, s, PLACE "/got", NULL, NULL, &bad, &err) != PAWL_OK) fail_msg("%s", err.text);
        assert_int_equal(bad, 1);
        assert_int_equal(remote_read_part(r, &s->files[0].parts[0], &text, &err), PAWL_EFORMAT);
        assert_int_equal(text.len, whole);
        shell("cp " PLACE "/kept $(ls " STORE "/objects/*/*/*tokens.gz)");
        free(hurt);
    }
    shell("truncate -s -30 " STORE "/objects/*/*/*tokens.gz");
    assert_int_equal(remote_check(r, &s, 1, &err), PAWL_OK);
    assert_int_equal(s->why.status, PAWL_EFORMAT);
    buf_free(&text);
    remote_state_free(s);
    remote_index_free(&x);
    remote_close(r);
}

/* The newest state, read by r; to be freed. */
static struct remote_state *read_newest(struct remote *r)
{
    struct remote_index x;
    struct remote_state *s = NULL;
    struct err err;

    assert_int_equal(remote_look(r, &x, &err), PAWL_OK);
    for (size_t i = 0; i < x.n && !s; i++)
        if (!x.items[i].claim) assert_int_equal(remote_read(r, x.items[i].name, &s, &err), PAWL_OK);
    remote_index_free(&x);
    assert_non_null(s);
    return s;
}

static const struct remote_source tokens = {.name = "tokens/train-0.tokens", .path = PLACE "/run/tokens", .stays = true, .packs = true};

/* A directory in the way of the packed file plays the disk that has no room for it. */
static void what_cannot_be_packed_travels_as_it_is(void **state)
{
    struct remote *r = open_at(3);
    struct remote_published done;
    struct err err;

    shell("seq 500000 | head -c 3158073 >" PLACE "/run/tokens");
    rule(1, "run mkdir -p " SCRATCH "/objects/000002-train-0.tokens.gz");
    if (remote_publish(r, (struct journal_at){3, 1, 0}, "", "{}", &tokens, 1, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(done.bytes, 3158073);
    assert_int_equal(newest(), 1);
    shell("cmp " PLACE "/got/tokens/train-0.tokens " PLACE "/run/tokens && cmp " STORE "/objects/*/*/000003-train-0.tokens " PLACE "/run/tokens");
    remote_close(r);
}

/* What stays while a process runs may differ, at the same size, from what an earlier one published. And it is found again behind a state that has none of it. */
static void the_same_size_is_not_the_same(void **state)
{
    struct remote_published done;
    struct err err;

    shell("seq 500000 | head -c 3158073 >" PLACE "/run/tokens");
    for (int generation = 3; generation < 6; generation++) {
        struct remote *r = open_at((uint64_t)generation);

        if (generation > 3) {
            remote_build_on(r, read_newest(r));
            if (remote_publish(r, (struct journal_at){(uint64_t)generation, generation, 0}, "", "{}", NULL, 0, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
        }
        if (generation == 5) shell("printf XYZ | dd of=" PLACE "/run/tokens bs=1 seek=1000000 conv=notrunc status=none");
        for (int i = 1; i < 3; i++) {
            if (remote_publish(r, (struct journal_at){(uint64_t)generation, generation + i, 0}, "", "{}", &tokens, 1, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
            assert_int_equal(done.bytes > 0, generation != 4 && i == 1);
        }
        assert_int_equal(newest(), generation + 2);
        shell("cmp " PLACE "/got/tokens/train-0.tokens " PLACE "/run/tokens");
        remote_close(r);
    }
}

/* An outage costs a look, not what would be made for it; and what this machine's disk does not take is no damage of the remote. */
static void each_fault_is_told_as_what_it_is(void **state)
{
    struct remote *r = open_at(3);
    struct remote_published done;
    struct remote_state *s;
    struct err err;
    char *way;
    size_t bad = 0;
    int before;

    shell("seq 500000 | head -c 3158073 >" PLACE "/run/tokens");
    before = calls();
    rule(1, "fail");
    assert_int_equal(remote_publish(r, (struct journal_at){3, 1, 0}, "", "{}", &tokens, 1, SCRATCH, &done, &err), PAWL_EIO);
    assert_int_equal(calls(), before + 1);
    if (remote_publish(r, (struct journal_at){3, 1, 0}, "", "{}", &tokens, 1, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);

    s = read_newest(r);
    shell("rm -rf " PLACE "/got && mkdir " PLACE "/got");
    way = xasprintf("run mkdir -p " PLACE "/got/.objects/%s.whole", s->files[0].parts[0].object);
    rule(1, way);
    assert_int_equal(remote_fetch(r, s, PLACE "/got", NULL, NULL, &bad, &err), PAWL_EIO);
    assert_int_equal(bad, 0);
    assert_non_null(strstr(err.text, ".whole"));
    free(way);
    remote_state_free(s);
    remote_close(r);
}

/* A state of format version 1, which knew no packed parts, is read and built on. */
static void the_format_before_is_read(void **state)
{
    struct remote_source files[3];
    struct remote *r = open_at(3);
    struct remote_published done;
    struct remote_index x;
    struct remote_state *s;
    struct buf text = {0};
    char *path, *version;
    struct err err;

    memcpy(files, sources, sizeof files);
    files[2].packs = false;
    files_of_step(5);
    if (remote_publish(r, (struct journal_at){3, 5, 0}, "journal/slot", "{}", files, 3, SCRATCH, &done, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(remote_look(r, &x, &err), PAWL_OK);
    path = xasprintf(STORE "/%s", x.items[0].name);
    assert_int_equal(file_read_all(&text, path, 1 << 20, NULL), PAWL_OK);
    assert_non_null(version = strstr(text.data, "\"format_version\": 2"));
    version[strlen("\"format_version\": ")] = '1';
    text.len = (size_t)(strstr(text.data, ",\n \"crc32\"") - text.data);
    manifest_seal(&text, 0);
    assert_int_equal(file_replace(&fsys_real, path, text.data, text.len, NULL), PAWL_OK);
    assert_int_equal(newest(), 5);
    remote_close(r);

    r = open_at(4);
    assert_int_equal(remote_read(r, x.items[0].name, &s, &err), PAWL_OK);
    remote_build_on(r, s);
    if (publish(r, 4, 6, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(newest(), 6);
    assert_text(PLACE "/got/checkpoint-5/weights", "weights of step five, the same in every state");
    remote_index_free(&x);
    buf_free(&text);
    free(path);
    remote_close(r);
}

static void two_states_stay_and_nothing_else(void **state)
{
    struct remote *r = open_at(3);
    struct err err;

    for (int step = 5; step < 10; step++)
        if (publish(r, 3, step, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    shell("test $(ls " STORE "/index | grep -c manifest) = 2");
    shell("test $(find " STORE "/objects -type f | wc -l) = 5"); /* the weights, two slots, two records */
    shell("rm $(ls " STORE "/index/*.manifest | tail -1)");
    assert_int_equal(newest(), 8);
    remote_close(r);
}

/* Records alone make a new manifest, but no second state: damage to what both name must not be the end. */
static void the_same_step_again_is_no_second_state(void **state)
{
    struct remote *r = open_at(3);
    struct err err;

    for (int i = 0; i < 5; i++)
        if (publish(r, 3, i < 2 ? 5 + i : 6, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    shell("rm $(ls " STORE "/objects/*/*/*-slot | tail -1)");
    assert_int_equal(newest(), 5);
    remote_close(r);
}

/* Whatever call of an upload fails, before or after it has done its work: the state before stands or the new one does, and the next upload succeeds. */
static void every_call_failing_in_turn(void **state)
{
    static const char *const how[] = {"fail", "late", "die"};
    struct remote *r = open_at(3);
    struct err err = {0};
    int faults = 0, step = 5;

    if (publish(r, 3, step, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    for (int h = 0; h < 3; h++)
        for (int n = 1, hit = 1; hit; n++) {
            int before = calls();
            enum pawl_status st;

            rule(n, how[h]);
            st = publish(r, 3, ++step, NULL, &err);
            hit = calls() - before >= n;
            unlink(PLACE "/rule");
            faults += hit;
            if (st == PAWL_OK) {
                assert_int_equal(newest(), step);
                continue; /* an old state could not be deleted, or no call was left */
            }
            assert_int_equal(st, PAWL_EIO);
            assert_true(newest() >= step - 1);
            if (h != 2) assert_non_null(strstr(err.text, "the store is on fire"));
            if (publish(r, 3, ++step, NULL, &err) != PAWL_OK) fail_msg("after %s of call %d: %s", how[h], n, err.text);
            assert_int_equal(newest(), step);
        }
    assert_true(faults >= 15);
    shell("test $(ls " STORE "/index | grep -c manifest) = 2");
    printf("remote: %d faults\n", faults);
    remote_close(r);
}

/* Another machine begins at any moment of an upload: this one ends, and what it left is older than what the other one will write. */
static void a_take_over_at_any_moment_stops_the_first(void **state)
{
    const char *claim = "run echo 'host other pid 9' >" STORE "/index/g0000000004-" RUN "-00000000.claim";
    struct err err;

    for (int n = 1;; n++) {
        struct remote *r;
        int before;
        enum pawl_status st;

        setup(NULL);
        r = open_at(3);
        if (publish(r, 3, 5, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
        before = calls();
        rule(n, claim);
        st = publish(r, 3, 6, NULL, &err);
        if (calls() - before < n || st == PAWL_OK) { /* it came after the last look */
            assert_true(n > 4);
            if (calls() - before >= n) assert_int_equal(publish(r, 3, 7, NULL, &err), PAWL_ELOCKED);
            remote_close(r);
            break;
        }
        assert_int_equal(st, PAWL_ELOCKED);
        assert_non_null(strstr(err.text, "host other pid 9"));
        assert_non_null(strstr(err.text, "generation 4"));
        assert_true(newest() >= 5);
        remote_close(r);
    }
}

static void of_two_that_begin_at_once_one_stays(void **state)
{
    struct remote *a = open_at(3), *b;
    struct err err;
    enum pawl_status first, second;

    assert_int_equal(remote_open(&b, ROOT, FAKE, &err), PAWL_OK);
    second = remote_claim(b, RUN, 3, SCRATCH, &err);
    first = publish(a, 3, 5, NULL, &err);
    assert_true((first == PAWL_ELOCKED) != (second == PAWL_ELOCKED));
    remote_close(a);
    remote_close(b);
}

static void a_generation_below_the_remotes_is_refused(void **state)
{
    struct remote *a = open_at(9), *b;
    struct err err;

    assert_int_equal(remote_open(&b, ROOT, FAKE, &err), PAWL_OK);
    assert_int_equal(remote_claim(b, RUN, 8, SCRATCH, &err), PAWL_ELOCKED);
    remote_close(a);
    remote_close(b);
}

static void damage_is_found(void **state)
{
    static const char *const how[] = {
        "f=$(ls " STORE "/objects/*/*/*-slot | tail -1); printf X | dd of=$f bs=1 seek=3 conv=notrunc status=none", /* a byte of the state */
        "f=$(ls " STORE "/objects/*/*/*-slot | tail -1); truncate -s 4 $f",
        "rm $(ls " STORE "/objects/*/*/*-slot | tail -1)",
        "f=$(ls " STORE "/index/*.manifest | tail -1); printf X | dd of=$f bs=1 seek=60 conv=notrunc status=none",
        "f=$(ls " STORE "/index/*.manifest | tail -1); truncate -s 100 $f",
        "f=$(ls " STORE "/index/*.manifest | tail -1); : >$f",
    };
    struct err err;

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        struct remote *r;

        setup(NULL);
        r = open_at(3);
        for (int step = 5; step < 8; step++)
            if (publish(r, 3, step, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
        shell(how[i]);
        assert_int_equal(newest(), 6);
        remote_close(r);
    }
}

static void a_listing_shows_what_is_missing(void **state)
{
    struct remote *r = open_at(3);
    struct remote_index x;
    struct remote_state *s;
    struct err err;

    if (publish(r, 3, 5, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    shell("truncate -s 4 " STORE "/objects/*/*/*-slot");
    assert_int_equal(remote_look(r, &x, &err), PAWL_OK);
    assert_false(x.items[0].claim);
    assert_int_equal(remote_read(r, x.items[0].name, &s, &err), PAWL_OK);
    assert_int_equal(remote_check(r, &s, 1, &err), PAWL_OK);
    assert_int_equal(s->why.status, PAWL_EFORMAT);
    assert_non_null(strstr(s->why.text, "journal/slot"));
    remote_state_free(s);
    remote_index_free(&x);
    remote_close(r);
}

static void pruning_keeps_the_newest_of_each_run(void **state)
{
    struct remote *r = open_at(3);
    struct err err;
    size_t removed;

    for (int step = 5; step < 8; step++)
        if (publish(r, 3, step, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    if (remote_prune(r, 1, true, SCRATCH, &removed, &err) != PAWL_OK) fail_msg("%s", err.text);
    assert_int_equal(removed, 1);
    shell("test $(ls " STORE "/index | grep -c manifest) = 2");
    if (remote_prune(r, 1, false, SCRATCH, &removed, &err) != PAWL_OK) fail_msg("%s", err.text);
    shell("test $(find " STORE "/objects -type f | wc -l) = 3");
    assert_int_equal(newest(), 7);
    remote_close(r);
}

static void a_call_that_hangs_is_ended(void **state)
{
    struct remote *r = open_at(3);
    struct timespec a, b;
    struct err err;

    rule(1, "hang");
    remote_limit(r, 0.3);
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(publish(r, 3, 5, NULL, &err), PAWL_EIO);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(b.tv_sec - a.tv_sec < 60); /* and not 1000 */
    assert_non_null(strstr(err.text, "time was up"));
    remote_limit(r, -1);
    unlink(PLACE "/rule");
    if (publish(r, 3, 5, NULL, &err) != PAWL_OK) fail_msg("%s", err.text);
    remote_close(r);
}

static void what_cannot_work_is_told_apart(void **state)
{
    struct remote *r = NULL;
    struct remote_index x;
    struct err err;

    assert_int_equal(remote_open(&r, ROOT, "no-such-rclone", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "no-such-rclone"));
    assert_int_equal(remote_open(&r, "nowhere:x", FAKE, &err), PAWL_OK);
    assert_int_equal(remote_look(r, &x, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "rclone config"));
    remote_close(r);
    assert_true(remote_is_name("s3:bucket/prefix"));
    assert_false(remote_is_name("runs/a:b/run.yaml"));
    assert_false(remote_is_name("run.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_published_comes_back, setup),
        cmocka_unit_test_setup(the_next_process_goes_on_with_the_same_objects, setup),
        cmocka_unit_test_setup(a_long_record_grows_by_what_was_added, setup),
        cmocka_unit_test_setup(packed_bytes_are_what_they_were_or_refused, setup),
        cmocka_unit_test_setup(what_packs_travels_smaller, setup),
        cmocka_unit_test_setup(what_cannot_be_packed_travels_as_it_is, setup),
        cmocka_unit_test_setup(the_same_size_is_not_the_same, setup),
        cmocka_unit_test_setup(each_fault_is_told_as_what_it_is, setup),
        cmocka_unit_test_setup(the_format_before_is_read, setup),
        cmocka_unit_test_setup(two_states_stay_and_nothing_else, setup),
        cmocka_unit_test_setup(the_same_step_again_is_no_second_state, setup),
        cmocka_unit_test_setup(every_call_failing_in_turn, setup),
        cmocka_unit_test_setup(a_take_over_at_any_moment_stops_the_first, setup),
        cmocka_unit_test_setup(of_two_that_begin_at_once_one_stays, setup),
        cmocka_unit_test_setup(a_generation_below_the_remotes_is_refused, setup),
        cmocka_unit_test_setup(damage_is_found, setup),
        cmocka_unit_test_setup(a_listing_shows_what_is_missing, setup),
        cmocka_unit_test_setup(pruning_keeps_the_newest_of_each_run, setup),
        cmocka_unit_test_setup(a_call_that_hangs_is_ended, setup),
        cmocka_unit_test_setup(what_cannot_work_is_told_apart, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
