/* Lines that are there exactly once, whatever fails. */
#include "ckpt/jsonl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define FILE_NAME "scratch_lines.jsonl"

static void put(const char *text)
{
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void holds(const char *text)
{
    struct buf b = {0};
    assert_int_equal(file_read_all(&b, FILE_NAME, 1 << 20, NULL), PAWL_OK);
    assert_string_equal(b.data, text);
    buf_free(&b);
}

static ino_t inode(void)
{
    struct stat info;
    assert_int_equal(stat(FILE_NAME, &info), 0);
    return info.st_ino;
}

static struct jsonl *open_at(int64_t offset)
{
    struct jsonl *j = NULL;
    struct err err = {0};
    if (jsonl_open(&j, &fsys_real, FILE_NAME, offset, &err) != PAWL_OK) fail_msg("%s", err.text);
    return j;
}

static int fresh(void **state)
{
    remove(FILE_NAME);
    return 0;
}

static void lines_are_added_and_cut_back_to_the_saved_offset(void **state)
{
    struct jsonl *j = open_at(0);

    assert_int_equal(jsonl_append(j, "{\"step\":1}", 10, NULL), PAWL_OK);
    int64_t saved = jsonl_offset(j);
    assert_int_equal(saved, 11);
    assert_int_equal(jsonl_append(j, "{\"step\":2}", 10, NULL), PAWL_OK);
    jsonl_close(j);
    holds("{\"step\":1}\n{\"step\":2}\n");
    j = open_at(saved);
    holds("{\"step\":1}\n");
    assert_int_equal(jsonl_append(j, "{\"step\":2,\"again\":1}", 20, NULL), PAWL_OK);
    jsonl_close(j);
    holds("{\"step\":1}\n{\"step\":2,\"again\":1}\n");
}

static void half_a_line_is_cut_away(void **state)
{
    char longer[9000];

    put("{\"a\":1}\n{\"b\":");
    struct jsonl *j = open_at(JSONL_END);
    assert_int_equal(jsonl_offset(j), 8);
    jsonl_close(j);
    holds("{\"a\":1}\n");
    put("");
    jsonl_close(open_at(JSONL_END));
    memset(longer, 'x', sizeof longer - 1); /* more than one block to look back */
    longer[sizeof longer - 1] = 0;
    longer[100] = '\n';
    put(longer);
    j = open_at(JSONL_END);
    assert_int_equal(jsonl_offset(j), 101);
    jsonl_close(j);
    longer[100] = 'x';
    put(longer);
    j = open_at(JSONL_END);
    assert_int_equal(jsonl_offset(j), 0);
    jsonl_close(j);
}

static void missing_lines_and_changed_files_are_refused(void **state)
{
    struct jsonl *j = NULL;
    struct err err = {0};

    put("{\"a\":1}\n");
    assert_int_equal(jsonl_open(&j, &fsys_real, FILE_NAME, 9, &err), PAWL_EFORMAT);
    assert_non_null(strstr(err.text, "lines are missing"));
    assert_int_equal(jsonl_open(&j, &fsys_real, FILE_NAME, 7, &err), PAWL_EFORMAT);
    assert_non_null(strstr(err.text, "no line ends at byte 7"));
    holds("{\"a\":1}\n");
}

/* --- failures of one append */

static int write_error, sync_error;
static size_t write_limit;

static ssize_t failing_pwrite(int fd, const void *data, size_t len, off_t at)
{
    if (write_error) {
        if (write_limit) { /* first half a line, then nothing */
            size_t n = write_limit;
            write_limit = 0;
            return fsys_real.pwrite(fd, data, n, at);
        }
        errno = write_error;
        return -1;
    }
    return fsys_real.pwrite(fd, data, len, at);
}

static int failing_sync(int fd)
{
    if (!sync_error) return fsys_real.fdatasync(fd);
    errno = sync_error;
    sync_error = 0;
    return -1;
}

static void a_failed_line_can_be_tried_again_in_a_new_file(void **state)
{
    struct fsys sys = fsys_real;
    struct jsonl *j = NULL;
    struct err err = {0};

    sys.pwrite = failing_pwrite;
    sys.fdatasync = failing_sync;
    assert_int_equal(jsonl_open(&j, &sys, FILE_NAME, 0, &err), PAWL_OK);
    assert_int_equal(jsonl_append(j, "one", 3, &err), PAWL_OK);
    write_error = ENOSPC;
    write_limit = 2;
    assert_int_equal(jsonl_append(j, "twotwo", 6, &err), PAWL_EIO);
    assert_non_null(strstr(err.text, "No space left"));
    assert_int_equal(jsonl_offset(j), 4);
    write_error = 0;
    assert_int_equal(jsonl_append(j, "2", 1, &err), PAWL_OK);
    holds("one\n2\n");
    sync_error = EIO;
    ino_t before = inode();
    assert_int_equal(jsonl_append(j, "three", 5, &err), PAWL_EIO);
    assert_int_equal(jsonl_append(j, "three", 5, &err), PAWL_OK);
    assert_true(inode() != before); /* never synced again */
    assert_int_equal(jsonl_append(j, "four", 4, &err), PAWL_OK);
    holds("one\n2\nthree\nfour\n");
    jsonl_close(j);
}

/* --- every system call failing in turn */

enum fault { FAULT_NONE, FAULT_ONCE, FAULT_FOR_EVER, FAULT_SHORT };

static struct {
    enum fault kind;
    int at, error, calls;
} fault;

static bool fails(void)
{
    int n = fault.calls++;
    bool this_one = fault.kind == FAULT_ONCE ? n == fault.at : fault.kind == FAULT_FOR_EVER && n >= fault.at;

    if (this_one) errno = fault.error;
    return this_one;
}

static int f_open(const char *path, int flags, mode_t mode) { return fails() ? -1 : fsys_real.open(path, flags, mode); }
static int f_sync(int fd) { return fails() ? -1 : 0; }
static int f_ftruncate(int fd, off_t size) { return fails() ? -1 : fsys_real.ftruncate(fd, size); }
static int f_rename(const char *from, const char *to) { return fails() ? -1 : fsys_real.rename(from, to); }
static ssize_t f_pread(int fd, void *data, size_t len, off_t at) { return fails() ? -1 : fsys_real.pread(fd, data, len, at); }
static ssize_t f_write(int fd, const void *data, size_t len)
{
    bool cut = fault.kind == FAULT_SHORT && fault.calls == fault.at && len > 1;

    return fails() ? -1 : fsys_real.write(fd, data, cut ? len / 2 : len);
}
static ssize_t f_pwrite(int fd, const void *data, size_t len, off_t at)
{
    bool cut = fault.kind == FAULT_SHORT && fault.calls == fault.at && len > 1;

    return fails() ? -1 : fsys_real.pwrite(fd, data, cut ? len / 2 : len, at);
}

/* Three lines, each tried until it is there, with one fault on the way; then the run is over and the disk is good again. */
static void any_system_call_may_fail_and_each_line_is_there_once(void **state)
{
    static const struct {
        enum fault kind;
        int error;
    } kinds[] = {{FAULT_ONCE, EIO}, {FAULT_ONCE, ENOSPC}, {FAULT_ONCE, EINTR}, {FAULT_SHORT, 0}, {FAULT_FOR_EVER, EIO}, {FAULT_FOR_EVER, ENOSPC}, {FAULT_FOR_EVER, EINTR}};
    struct fsys sys = fsys_real;
    int total = 0;

    sys.open = f_open, sys.fsync = sys.fdatasync = f_sync, sys.ftruncate = f_ftruncate, sys.rename = f_rename, sys.write = f_write, sys.pwrite = f_pwrite, sys.pread = f_pread;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int at = 0, over = false; !over; at++) {
            static const char *const texts[] = {"one", "two", "three"};
            struct jsonl *j = NULL;
            struct err err = {0};
            int failures = 0;

            put("zero\nhalf a li");
            fault = (typeof(fault)){kinds[k].kind, at, kinds[k].error, 0};
            while (jsonl_open(&j, &sys, FILE_NAME, JSONL_END, &err) != PAWL_OK) {
                assert_true(*err.text);
                if (++failures == 2) fault.kind = FAULT_NONE;
            }
            for (int i = 0; i < 3; i++)
                while (jsonl_append(j, texts[i], strlen(texts[i]), &err) != PAWL_OK) {
                    assert_true(*err.text);
                    if (++failures == 2) fault.kind = FAULT_NONE; /* what does not go away is repaired after the second failure */
                }
            if (kinds[k].kind == FAULT_SHORT || (kinds[k].kind == FAULT_ONCE && kinds[k].error == EINTR)) assert_int_equal(failures, 0);
            over = fault.calls <= at;
            fault.kind = FAULT_NONE;
            assert_int_equal(jsonl_offset(j), 19);
            jsonl_close(j);
            holds("zero\none\ntwo\nthree\n");
            total += !over;
        }
    assert_true(total > 40);
    print_message("%d faults in three lines of metrics.jsonl\n", total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_added_and_cut_back_to_the_saved_offset, fresh, fresh),
        cmocka_unit_test_setup_teardown(half_a_line_is_cut_away, fresh, fresh),
        cmocka_unit_test_setup_teardown(missing_lines_and_changed_files_are_refused, fresh, fresh),
        cmocka_unit_test_setup_teardown(a_failed_line_can_be_tried_again_in_a_new_file, fresh, fresh),
        cmocka_unit_test_setup_teardown(any_system_call_may_fail_and_each_line_is_there_once, fresh, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
