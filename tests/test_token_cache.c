/* The identity of a data set: what changes it, what must not (threads, the cache, how often a build was interrupted). */
#define DIR "test_token_cache.tmp"
#include "tests/data_fixture.h"

static void the_hash_follows_content_and_settings(void **state)
{
    static const char text[] = "{\"text\": \"abc\"}\n{\"text\": \"abd\"}\n";
    struct dataset_options o = options();
    struct dataset *d = open_text(text, DATASET_COMPLETION);
    uint64_t h = dataset_hash(d);

    dataset_free(d);
    d = open_text(text, DATASET_COMPLETION);
    assert_true(dataset_hash(d) == h);
    dataset_free(d);
    d = open_text("{\"text\": \"abc\"}\n{\"text\": \"abe\"}\n", DATASET_COMPLETION);
    assert_true(dataset_hash(d) != h);
    dataset_free(d);
    o.eos_token = "<|endoftext|>";
    write_text(DIR "/a.jsonl", text);
    d = open_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o);
    assert_true(dataset_hash(d) != h);
    dataset_free(d);
}

static void same(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(dataset_count(a), dataset_count(b));
    assert_true(dataset_hash(a) == dataset_hash(b));
    for (size_t i = 0; i < dataset_count(a); i++) {
        struct example x = dataset_example(a, i), y = dataset_example(b, i);

        assert_int_equal(x.length, y.length);
        assert_int_equal(x.line, y.line);
        assert_string_equal(x.file, y.file);
        assert_memory_equal(x.tokens, y.tokens, (size_t)x.length * sizeof *x.tokens);
    }
}

static void threads_do_not_show(void **state)
{
    struct dataset_options o = options();
    struct dataset *one, *four;

    write_many(DIR "/many.jsonl", 6000); /* several chunks */
    one = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), o);
    o.threads = 4;
    four = open_with(part(DIR "/many.jsonl", DATASET_COMPLETION), o);
    same(one, four);
    dataset_free(one);
    dataset_free(four);
}

static char *only_file(const char *dir, const char *suffix)
{
    char *command = xasprintf("ls %s/*%s", dir, suffix), line[512] = "";
    FILE *f = popen(command, "r");

    assert_non_null(fgets(line, sizeof line, f));
    pclose(f);
    free(command);
    line[strcspn(line, "\n")] = 0;
    return xstrdup(line);
}

static ino_t inode(const char *path)
{
    struct stat s;

    assert_int_equal(stat(path, &s), 0);
    return s.st_ino;
}

static void the_cache_is_used_while_it_holds_and_rebuilt_when_not(void **state)
{
    struct dataset_config p = part(DIR "/many.jsonl", DATASET_COMPLETION);
    struct dataset_options o = options();
    struct dataset *plain, *cached;
    char *file;
    ino_t first;
    FILE *f;

    assert_int_equal(system("rm -rf " DIR "/cache"), 0);
    write_many(DIR "/many.jsonl", 6000);
    plain = open_with(p, o);
    o.cache_dir = DIR "/cache/deep";
    cached = open_with(p, o);
    same(plain, cached);
    file = only_file(DIR "/cache/deep", ".tokens");
    first = inode(file);
    dataset_free(cached);

    cached = open_with(p, o); /* found and taken */
    same(plain, cached);
    assert_true(inode(file) == first);

    f = fopen(file, "r+b"); /* a byte of a payload in the middle; the mapped copy above sees it too, so it is closed first */
    dataset_free(cached);
    fseek(f, 700000, SEEK_SET);
    int c = fgetc(f);
    fseek(f, 700000, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
    cached = open_with(p, o);
    same(plain, cached);
    assert_true(inode(file) != first);
    dataset_free(cached);

    for (long cut = 0; cut < 2000000; cut += 333333) { /* a killed build leaves a part of any length */
        char *part_file = xasprintf("%.*s.part", (int)(strlen(file) - 7), file);

        rename(file, part_file);
        if (truncate(part_file, cut) == 0) cached = open_with(p, o);
        same(plain, cached);
        dataset_free(cached);
        assert_int_equal(access(part_file, F_OK), -1);
        free(part_file);
    }
    dataset_free(plain);

    f = fopen(DIR "/many.jsonl", "a"); /* the file grows */
    fputs("{\"text\": \"one more\"}\n", f);
    fclose(f);
    cached = open_with(p, o);
    o.cache_dir = NULL;
    plain = open_with(p, o);
    assert_int_equal(dataset_count(cached), 6001);
    same(plain, cached);
    dataset_free(plain);
    dataset_free(cached);

    o.cache_dir = "/proc/nothing"; /* can't be used: the run goes on */
    cached = open_with(p, o);
    assert_int_equal(dataset_count(cached), 6001);
    dataset_free(cached);
    free(file);
}

static bool at_once(void)
{
    return true;
}

static void a_stop_while_tokenising_keeps_what_is_done(void **state)
{
    struct dataset_config p = part(DIR "/many.jsonl", DATASET_COMPLETION);
    struct dataset_options o = options();
    struct dataset *plain, *d = NULL;
    struct err err = {0};
    char *left;
    struct stat s;

    assert_int_equal(system("rm -rf " DIR "/cache"), 0);
    write_many(DIR "/many.jsonl", 12000);
    plain = open_with(p, o);
    o.cache_dir = DIR "/cache";
    o.stop = at_once;
    assert_int_equal(dataset_open(&d, &p, 1, &o, &err), PAWL_ESTOPPED);
    assert_non_null(strstr(err.text, "the same command goes on"));
    left = only_file(DIR "/cache", ".part");
    assert_int_equal(stat(left, &s), 0);
    assert_true(s.st_size > 500000);
    o.stop = NULL;
    d = open_with(p, o);
    same(plain, d);
    assert_int_equal(access(left, F_OK), -1);
    free(left);
    dataset_free(plain);
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_follows_content_and_settings),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(the_cache_is_used_while_it_holds_and_rebuilt_when_not),
        cmocka_unit_test(a_stop_while_tokenising_keeps_what_is_done),
    };

    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
