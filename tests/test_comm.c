/* Ranks as processes of this machine: data arrives where it belongs, and a rank that dies, stops, fails or never comes ends the others in time, with its name. */
#include "dist/comm.h"
#include "dist/shard.h"
#include "dist/socket.h"
#include "kernels/base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TIMEOUT 20.0 /* generous: what should take no time must not fail on a busy machine */

/* What each rank runs; its result is its exit code. */
typedef int rank_program(struct comm *c);

#define MUST(x) do { if (!(x)) { fprintf(stderr, "rank %d: line %d: %s\n", c->rank, __LINE__, #x); return 99; } } while (0)

struct outcome {
    int code[16];
    double seconds; /* until the last one ended */
};

/* missing: a rank that is not started; stopped: one that is killed when the others have ended; -1: none. */
static struct outcome run_ranks(int n, int missing, int stopped, double timeout, rank_program *program)
{
    struct outcome out = {0};
    struct ranks r = {.size = n, .local_size = n, .host = "127.0.0.1", .listener = -1, .launcher = "test"};
    pid_t child[16] = {0};
    double begin;
    struct err err;

    assert_int_equal(socket_listen(&r.listener, &r.port, "test", &err), PAWL_OK);
    begin = clock_seconds();
    for (int k = 0; k < n; k++) {
        if (k == missing) continue;
        if ((child[k] = fork()) == 0) {
            struct comm *c;
            int code;

            r.rank = r.local_rank = k;
            if (k) close(r.listener), r.listener = -1;
            if (comm_open(&c, &r, "test", timeout, &err) != PAWL_OK) {
                fprintf(stderr, "rank %d: %s\n", k, err.text);
                _exit(err_exit_code(err.status));
            }
            code = program(c);
            _exit(code);
        }
    }
    close(r.listener);
    for (int i = 1; i <= n; i++) {
        int k = (stopped + i + n) % n, status = 0;

        if (!child[k]) continue;
        if (k == stopped) kill(child[k], SIGKILL);
        waitpid(child[k], &status, 0);
        out.code[k] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    out.seconds = clock_seconds() - begin;
    return out;
}

/* --- data */

static unsigned char pattern(int from, int to, size_t i)
{
    return (unsigned char)(from * 31 + to * 7 + i * 13 + i / 251);
}

/* Two pieces of different sizes between any two, larger than the system's buffers. */
static int all_to_all(struct comm *c)
{
    enum { BIG = 3 << 20, SMALL = 17 };
    int n = 0;
    struct comm_piece send[32], recv[32];
    struct err err;

    for (int k = 0; k < c->size; k++) {
        size_t sizes[] = {BIG + (size_t)(c->rank + k) * 1000, SMALL}; /* the same seen from either side */

        if (k == c->rank) continue;
        for (int p = 0; p < 2; p++, n++) {
            unsigned char *out = malloc(sizes[p]);

            for (size_t i = 0; i < sizes[p]; i++) out[i] = pattern(c->rank, k, i + (size_t)p);
            send[n] = (struct comm_piece){k, out, sizes[p]};
            recv[n] = (struct comm_piece){k, malloc(sizes[p]), sizes[p]};
        }
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) memset(recv[i].data, 0, recv[i].bytes);
        MUST(comm_exchange(c, send, n, recv, n, &err) == PAWL_OK);
        for (int i = 0; i < n; i++)
            for (size_t b = 0; b < recv[i].bytes; b++) MUST(((unsigned char *)recv[i].data)[b] == pattern(recv[i].peer, c->rank, b + (size_t)(i % 2)));
    }
    for (int i = 0; i < n; i++) free(send[i].data), free(recv[i].data);
    comm_close(c, PAWL_OK, NULL);
    return 0;
}

static void everybody_gets_what_is_sent(void **state)
{
    for (int n = 1; n <= 5; n++) {
        struct outcome o = run_ranks(n, -1, -1, TIMEOUT, all_to_all);

        for (int k = 0; k < n; k++) assert_int_equal(o.code[k], 0);
    }
}

/* Data that comes to be while other data already travels: what was not ready is not read, and nobody has to be at the end for the others to go on. */
static int in_parts(struct comm *c)
{
    enum { PARTS = 5, BYTES = 1 << 20 };
    static unsigned char out[16][PARTS][BYTES], in[16][PARTS][BYTES];
    struct comm_piece send[16 * PARTS], recv[16 * PARTS];
    struct err err;

    for (int round = 0; round < 3; round++) {
        int n = 0;

        memset(out, 0xEE, sizeof out);
        for (int p = 0; p < PARTS; p++)
            for (int k = 0; k < c->size; k++) {
                if (k == c->rank) continue;
                send[n] = (struct comm_piece){k, out[k][p], BYTES};
                recv[n++] = (struct comm_piece){k, in[k][p], BYTES};
            }
        MUST(comm_begin(c, send, n, recv, n, &err) == PAWL_OK);
        for (int p = 0; p < PARTS; p++) {
            for (int k = 0; k < c->size; k++)
                for (size_t i = 0; i < BYTES; i++) out[k][p][i] = pattern(c->rank + p, k + round, i);
            if (round < 2 || c->rank % 2) comm_go_on(c, (p + 1) * (c->size - 1)); /* or all of it at the end */
        }
        MUST(comm_end(c, &err) == PAWL_OK);
        for (int p = 0; p < PARTS; p++)
            for (int k = 0; k < c->size; k++)
                for (size_t i = 0; i < BYTES && k != c->rank; i++) MUST(in[k][p][i] == pattern(k + p, c->rank + round, i));
    }
    MUST(c->sent == 3u * PARTS * BYTES * (uint64_t)(c->size - 1));
    comm_close(c, PAWL_OK, NULL);
    return 0;
}

static void an_exchange_goes_on_while_its_data_is_made(void **state)
{
    for (int n = 1; n <= 4; n++) {
        struct outcome o = run_ranks(n, -1, -1, TIMEOUT, in_parts);

        for (int k = 0; k < n; k++) assert_int_equal(o.code[k], 0);
    }
}

static int collectives(struct comm *c)
{
    enum { N = 1000, BLOCK = 64 };
    int32_t x[N], whole[N];
    size_t offset[17];
    struct range mine = shard_slice(N, BLOCK, c->rank, c->size);
    struct err err;
    uint64_t before;

    shard_offsets(offset, N, BLOCK, sizeof *x, c->size);
    memset(x, 0, sizeof x);
    for (int64_t i = mine.begin; i < mine.end; i++) x[i] = (int32_t)i * 3;
    before = c->sent;
    MUST(comm_all_gather(c, x, offset, &err) == PAWL_OK);
    MUST(c->sent - before == (uint64_t)range_count(mine) * sizeof *x * (uint64_t)(c->size - 1));
    for (int i = 0; i < N; i++) MUST(x[i] == i * 3);

    memset(whole, 0, sizeof whole);
    if (c->rank == 0) memcpy(whole, x, offset[1]);
    MUST(comm_gather(c, whole, x + mine.begin, offset, &err) == PAWL_OK);
    for (int i = 0; i < N && c->rank == 0; i++) MUST(whole[i] == i * 3);

    for (int i = 0; i < N && c->rank == 0; i++) whole[i] = -i;
    MUST(comm_scatter(c, whole, x + mine.begin, offset, &err) == PAWL_OK);
    for (int64_t i = mine.begin; i < mine.end && c->rank; i++) MUST(x[i] == -(int32_t)i);

    x[0] = c->rank == 0 ? 42 : 0;
    MUST(comm_broadcast(c, x, sizeof *x, &err) == PAWL_OK);
    MUST(x[0] == 42);
    comm_close(c, PAWL_OK, NULL);
    return 0;
}

static void gathers_scatters_and_broadcasts(void **state)
{
    /* 16 blocks on 3 ranks: uneven; on 16: one each */
    static const int sizes[] = {1, 2, 3, 8, 16};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct outcome o = run_ranks(sizes[i], -1, -1, TIMEOUT, collectives);

        for (int k = 0; k < sizes[i]; k++) assert_int_equal(o.code[k], 0);
    }
}

/* --- failures */

/* Exchanges until something fails; 75 where the failure names rank 1. */
static int until_failure(struct comm *c, const char *expected)
{
    char byte = 0;
    struct err err = {0};
    enum pawl_status st;

    while ((st = comm_broadcast(c, &byte, 1, &err)) == PAWL_OK) nanosleep(&(struct timespec){0, 1000000}, NULL);
    MUST(strstr(err.text, expected) != NULL);
    MUST(comm_broadcast(c, &byte, 1, &err) == st);
    comm_close(c, st, err.text);
    return err_exit_code(st);
}

static int rank_1_is_killed(struct comm *c)
{
    if (c->rank == 1) {
        char byte;
        comm_broadcast(c, &byte, 1, NULL);
        raise(SIGKILL);
    }
    return until_failure(c, "rank 1");
}

static void a_killed_rank_ends_the_others(void **state)
{
    struct outcome o = run_ranks(4, -1, -1, TIMEOUT, rank_1_is_killed);

    assert_int_equal(o.code[0], 75);
    assert_int_equal(o.code[1], 128 + SIGKILL);
    assert_int_equal(o.code[2], 75);
    assert_int_equal(o.code[3], 75);
    assert_true(o.seconds < TIMEOUT); /* its connection closed: nobody waits for the time-out */
}

/* Stopped, not dead: its connections stay open, but no sign of life comes. */
static int rank_1_falls_silent(struct comm *c)
{
    if (c->rank == 1) {
        char byte;

        comm_broadcast(c, &byte, 1, NULL);
        raise(SIGSTOP);
    }
    return until_failure(c, "rank 1 is gone: silent");
}

static void a_silent_rank_ends_the_others(void **state)
{
    struct outcome o = run_ranks(3, -1, 1, 2, rank_1_falls_silent);

    assert_int_equal(o.code[0], 75);
    assert_int_equal(o.code[1], 128 + SIGKILL);
    assert_int_equal(o.code[2], 75);
}

/* A rank that never comes back to its exchanges, as one that hangs in a system call: it is ended all the same. */
static int rank_0_hangs(struct comm *c)
{
    if (c->rank == 1) raise(SIGKILL);
    for (;;) pause();
    return 0;
}

static void a_rank_that_hangs_after_a_death_is_ended(void **state)
{
    struct outcome o = run_ranks(2, -1, -1, 1, rank_0_hangs);

    assert_int_equal(o.code[0], 75);
}

static int rank_1_fails(struct comm *c)
{
    if (c->rank == 1) {
        comm_close(c, PAWL_EINVAL, "no such file");
        return 1;
    }
    return until_failure(c, "rank 1: no such file");
}

static void a_failure_is_everybodys(void **state)
{
    struct outcome o = run_ranks(3, -1, -1, TIMEOUT, rank_1_fails);

    for (int k = 0; k < 3; k++) assert_int_equal(o.code[k], 1);
}

/* What the transport alone notices: one sends less than the other expects. The first text stays, and goes to the other. */
static int ranks_come_apart(struct comm *c)
{
    char bytes[2] = "";
    struct comm_piece piece = {1 - c->rank, bytes, c->rank ? 2 : 1};
    struct err err = {0}, again = {0};

    if (c->rank == 0) {
        MUST(comm_exchange(c, &piece, 1, NULL, 0, NULL) == PAWL_OK);
        return until_failure(c, "rank 1: rank 0 is at exchange 1 with 1 bytes");
    }
    MUST(comm_check(c, &err) == PAWL_OK);
    MUST(comm_exchange(c, NULL, 0, &piece, 1, NULL) == PAWL_EINVAL);
    MUST(comm_check(c, &err) == PAWL_EINVAL && strstr(err.text, "come apart"));
    MUST(comm_begin(c, NULL, 0, &piece, 1, &again) == PAWL_EINVAL && !strcmp(again.text, err.text));
    return until_failure(c, err.text);
}

static void a_failure_of_the_transport_stays_and_is_everybodys(void **state)
{
    struct outcome o = run_ranks(2, -1, -1, TIMEOUT, ranks_come_apart);

    for (int k = 0; k < 2; k++) assert_int_equal(o.code[k], 1);
}

static int never_runs(struct comm *c)
{
    return 99;
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    int to[2], saved = dup(2);
    char text[4096] = "";
    struct outcome o;

    assert_int_equal(pipe(to), 0);
    dup2(to[1], 2);
    o = run_ranks(3, 2, -1, 1, never_runs);
    dup2(saved, 2);
    close(saved);
    close(to[1]);
    for (size_t got = 0; got < sizeof text - 1;) {
        ssize_t n = read(to[0], text + got, sizeof text - 1 - got);
        if (n <= 0) break;
        got += (size_t)n;
    }
    close(to[0]);
    assert_int_equal(o.code[0], 75);
    assert_int_equal(o.code[1], 75);
    assert_non_null(strstr(text, "rank 0: rank 2 of 3 did not show up"));
    assert_non_null(strstr(text, "rank 1: rank 2 of 3 did not show up"));
}

/* While nobody is in an exchange: rank 2 is asked to stop, then rank 1, which has less time. */
static int two_ranks_are_asked(struct comm *c)
{
    char why[64] = "", here[4] = "";
    size_t offset[] = {0, 1, 2, 3, 4};
    double left = 0, deadline = clock_seconds() + TIMEOUT;
    struct err err;

    MUST(!comm_asked(c, why, sizeof why, &left));
    MUST(comm_all_gather(c, here, offset, &err) == PAWL_OK && comm_exchange(c, NULL, 0, NULL, 0, &err) == PAWL_OK); /* nobody asks before all have looked */
    if (c->rank == 2) comm_ask(c, "a notice of rank 2", 1000);
    if (c->rank == 1) {
        while (!comm_asked(c, why, sizeof why, &left) && clock_seconds() < deadline) nanosleep(&(struct timespec){0, 1000000}, NULL);
        MUST(!strcmp(why, "a notice of rank 2") && left > 900 && left <= 1000);
        comm_ask(c, "a notice of rank 1", 500);
    } else {
        while (strcmp(why, "a notice of rank 1") && clock_seconds() < deadline) {
            comm_asked(c, why, sizeof why, &left);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        MUST(!strcmp(why, "a notice of rank 1") && left > 400 && left <= 500);
    }
    comm_close(c, PAWL_OK, NULL);
    return 0;
}

static void a_request_to_stop_reaches_all_at_once(void **state)
{
    struct outcome o = run_ranks(4, -1, -1, TIMEOUT, two_ranks_are_asked);

    for (int k = 0; k < 4; k++) assert_int_equal(o.code[k], 0);
}

/* Two ranks of which the second begins so much later, with a version of its own: what each of them gave, and what the first said. */
static void meet(int code[2], char text[512], const char *version, long late_ns)
{
    struct ranks r = {.size = 2, .local_size = 2, .host = "127.0.0.1", .listener = -1, .launcher = "test"};
    struct comm *c;
    struct err err = {0};
    int status;
    pid_t child;

    assert_int_equal(socket_listen(&r.listener, &r.port, "test", &err), PAWL_OK);
    if ((child = fork()) == 0) {
        close(r.listener);
        r.rank = r.local_rank = 1, r.listener = -1;
        nanosleep(&(struct timespec){0, late_ns}, NULL);
        if (comm_open(&c, &r, version, TIMEOUT, &err) != PAWL_OK) _exit(strstr(err.text, "install the same program") ? err_exit_code(err.status) : 99);
        comm_close(c, PAWL_OK, NULL);
        _exit(0);
    }
    code[0] = err_exit_code(comm_open(&c, &r, "1.0", TIMEOUT, &err));
    if (!code[0]) comm_close(c, PAWL_OK, NULL);
    snprintf(text, 512, "%.511s", err.text);
    waitpid(child, &status, 0);
    code[1] = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void another_program_is_refused_by_name_and_a_late_rank_waited_for(void **state)
{
    char text[512];
    int code[2];

    meet(code, text, "1.1", 0);
    assert_int_equal(code[0], 1);
    assert_int_equal(code[1], 1);
    assert_non_null(strstr(text, "rank 1 is pawl 1.1, rank 0 is 1.0"));
    meet(code, text, "1.0", 300000000);
    assert_int_equal(code[0], 0);
    assert_int_equal(code[1], 0);
}

static void bad_meetings_are_refused(void **state)
{
    struct ranks r = {.size = 2, .local_size = 2, .host = "no-such-host.invalid", .rank = 1, .port = 1, .listener = -1, .launcher = "test"};
    struct comm *c;
    struct err err;
    int fd = -1, port = 0;

    assert_int_equal(comm_open(&c, &r, "test", 1, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
    assert_int_equal(socket_listen(&fd, &port, "test", &err), PAWL_OK);
    r = (struct ranks){.size = 2, .local_size = 2, .host = "127.0.0.1", .port = port, .listener = -1, .launcher = "test"};
    assert_int_equal(comm_open(&c, &r, "test", 1, &err), PAWL_EIO);
    assert_non_null(strstr(err.text, "in use"));
    close(fd);
}

static enum pawl_status environment(struct ranks *r, struct err *err, const char *const *pairs)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PAWL_PORT", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                                        "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    for (; *pairs; pairs += 2) setenv(pairs[0], pairs[1], 1);
    return ranks_from_environment(r, err);
}
#define ENV(...) environment(&r, &err, (const char *const[]){__VA_ARGS__, NULL})

static void launchers_say_who_is_who(void **state)
{
    struct ranks r;
    struct err err;

    assert_int_equal(environment(&r, &err, (const char *const[]){NULL}), PAWL_OK);
    assert_int_equal(r.size, 1);
    assert_null(r.launcher);
    assert_int_equal(ENV("RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2", "MASTER_ADDR", "a.example", "MASTER_PORT", "1234"), PAWL_OK);
    assert_int_equal(r.rank, 3);
    assert_int_equal(r.local_rank, 1);
    assert_string_equal(r.host, "a.example");
    assert_int_equal(r.port, 1235); /* torchrun holds MASTER_PORT itself */
    assert_int_equal(ENV("SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_LOCALID", "1", "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST", "gpu[07-12,20],other", "PAWL_PORT", "99"), PAWL_OK);
    assert_string_equal(r.host, "gpu07");
    assert_int_equal(r.port, 99);
    assert_int_equal(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "4"), PAWL_OK); /* no step: a shell in an allocation */
    assert_int_equal(r.size, 1);
    assert_int_equal(ENV("RANK", "4", "WORLD_SIZE", "4"), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "RANK=4: expected a number from 0 to 3"));
    assert_int_equal(ENV("RANK", "1", "WORLD_SIZE", "4"), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "MASTER_ADDR"));
    assert_int_equal(ENV("RANK", "x", "WORLD_SIZE", "4"), PAWL_EINVAL);
    assert_int_equal(ENV("RANK", "1"), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "WORLD_SIZE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_what_is_sent),
        cmocka_unit_test(an_exchange_goes_on_while_its_data_is_made),
        cmocka_unit_test(gathers_scatters_and_broadcasts),
        cmocka_unit_test(a_killed_rank_ends_the_others),
        cmocka_unit_test(a_silent_rank_ends_the_others),
        cmocka_unit_test(a_rank_that_hangs_after_a_death_is_ended),
        cmocka_unit_test(a_failure_is_everybodys),
        cmocka_unit_test(a_failure_of_the_transport_stays_and_is_everybodys),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(a_request_to_stop_reaches_all_at_once),
        cmocka_unit_test(another_program_is_refused_by_name_and_a_late_rank_waited_for),
        cmocka_unit_test(bad_meetings_are_refused),
        cmocka_unit_test(launchers_say_who_is_who),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
