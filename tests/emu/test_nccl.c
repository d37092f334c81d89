/* The transport between cards (dist/nccl.c) over the emulation's stand-in for NCCL: what it moves, what it says when something fails, and that the stand-in notices mistakes. Each case is
 * two or three processes. */
#include "dist/comm.h"
#include "dist/nccl.h"
#include "kernels/base/mem.h"
#include "kernels/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define TIMEOUT 20 /* seconds: comm_timeout of cases in which nobody hangs */

static char *text; /* what the processes of the case said on stderr */

/* Who runs body, and what for. */
struct rig {
    struct comm *comm;
    struct dev *dev;
    const struct nccl_calls *call;
    ncclComm_t raw;
    int rank, size;
};

typedef void case_body(struct rig *r);

static void check(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "not so: %s\n", what);
    _exit(1);
}
#define CHECK(x) check(x, #x)

static void open_card(struct rig *r, int card)
{
    struct err err = {0};
    char name[16];

    snprintf(name, sizeof name, "cuda:%d", card);
    if (dev_open(&r->dev, name, DTYPE_BF16, 1, &err) != PAWL_OK) check(false, err.text);
}

static void slurp(FILE *f)
{
    struct buf b = {0};
    char line[1024];

    rewind(f);
    while (fgets(line, sizeof line, f)) buf_adds(&b, line);
    free(text);
    text = b.data ? b.data : xstrdup("");
    fclose(f);
}

/* Runs body in n ranks that comm_open has introduced to each other: the code of the whole (ranks_start). */
static int with_ranks(int n, double timeout, case_body *body)
{
    FILE *said = tmpfile();
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct rig r = {0};
        struct ranks ranks;
        struct err err = {0};
        bool parent;
        int code;

        dup2(fileno(said), 2);
        setvbuf(stderr, NULL, _IONBF, 0);
        if (ranks_start(&ranks, n, timeout, &parent, &code, &err) != PAWL_OK) check(false, err.text);
        if (parent) _exit(code);
        r.rank = ranks.rank, r.size = n;
        if (comm_open(&r.comm, &ranks, "test", timeout, &err) != PAWL_OK) check(false, err.text);
        body(&r);
        comm_close(r.comm, PAWL_OK, NULL);
        if (r.dev) dev_close(r.dev);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    slurp(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void open_all(struct rig *r)
{
    struct err err = {0};

    open_card(r, r->rank);
    if (comm_open_device(r->comm, r->dev, false, &err) != PAWL_OK) check(false, err.text);
    CHECK(r->comm->device != NULL);
}

/* --- what it moves */

static uint8_t pattern(int from, int to, int round, size_t i)
{
    return (uint8_t)(31 * from + 17 * to + 7 * round + (int)i);
}

/* Pieces of odd sizes, two to each peer, several rounds without a wait in between but the exchange's own; then slices that all gather. */
static void move_everything(struct rig *r)
{
    enum { ROUNDS = 4, ROOM = 3000 };
    struct comm_piece send[8], recv[8];
    uint8_t host[ROOM];
    struct err err = {0};

    open_all(r);
    uint8_t *out[3][2], *in[3][2], *whole = r->dev->ops->alloc(r->dev, 600);
    for (int k = 0; k < r->size; k++)
        for (int j = 0; j < 2; j++) out[k][j] = r->dev->ops->alloc(r->dev, ROOM), in[k][j] = r->dev->ops->alloc(r->dev, ROOM);
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;

        for (int k = 0; k < r->size; k++)
            for (int j = 0; j < 2; j++) {
                size_t bytes = (size_t)(1 + 700 * round + 13 * j), back = bytes;

                if (k == r->rank) continue;
                for (size_t i = 0; i < bytes; i++) host[i] = pattern(r->rank, k, round + j, i);
                r->dev->ops->upload(r->dev, out[k][j], host, bytes);
                send[n] = (struct comm_piece){k, out[k][j], bytes};
                recv[n++] = (struct comm_piece){k, in[k][j], back};
            }
        if (comm_device_exchange(r->comm, send, n, recv, n, &err) != PAWL_OK) check(false, err.text);
        for (int k = 0; k < r->size; k++)
            for (int j = 0; j < 2; j++) {
                size_t bytes = (size_t)(1 + 700 * round + 13 * j);

                if (k == r->rank) continue;
                r->dev->ops->download(r->dev, host, in[k][j], bytes);
                for (size_t i = 0; i < bytes; i++) CHECK(host[i] == pattern(k, r->rank, round + j, i));
            }
    }
    size_t offset[] = {0, 100, 100, 600}; /* the middle one is empty, and with two ranks the last */
    for (size_t i = offset[r->rank]; i < offset[r->rank + 1]; i++) host[i] = (uint8_t)i;
    r->dev->ops->upload(r->dev, whole + offset[r->rank], host + offset[r->rank], offset[r->rank + 1] - offset[r->rank]);
    if (comm_device_all_gather(r->comm, whole, offset, &err) != PAWL_OK) check(false, err.text);
    r->dev->ops->download(r->dev, host, whole, offset[r->size]);
    for (size_t i = 0; i < offset[r->size]; i++) CHECK(host[i] == (uint8_t)i);
    CHECK(r->comm->sent > 0);
}

static void what_is_sent_arrives(void **state)
{
    for (int seed = 1; seed <= 3; seed++)
        for (int n = 2; n <= 3; n++) {
            char number[8];

            snprintf(number, sizeof number, "%d", seed);
            setenv("PAWL_EMU_SEED", number, 1);
            if (with_ranks(n, TIMEOUT, move_everything)) fail_msg("%d ranks, seed %d: %s", n, seed, text);
        }
}

/* --- where it is not to be had: all ranks take the host, and one says why */

static void expect_host(struct rig *r)
{
    struct err err = {0};

    open_card(r, getenv("SAME_CARD") ? 0 : r->rank);
    if (comm_open_device(r->comm, r->dev, true, &err) != PAWL_OK) check(false, err.text);
    CHECK(r->comm->device == NULL);
}

static void an_obstacle_is_named(void **state)
{
    static const struct { const char *name, *value, *says; } cases[] = {
        {"SAME_CARD", "1", "ranks 0 and 1 are on one card"},
        {"PAWL_EMU_NCCL", "none", "rank 0: libnccl.so.2 can't be opened"},
        {"PAWL_EMU_NCCL_FAIL", "ncclGetUniqueId", "rank 0: ncclGetUniqueId"},
        {"PAWL_EMU_NCCL_FAIL", "ncclCommInitRankConfig", "rank 0: ncclCommInitRankConfig with all ranks: ncclSystemError"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        int code = with_ranks(2, TIMEOUT, expect_host);
        unsetenv(cases[i].name);
        if (code || !strstr(text, cases[i].says)) fail_msg("%s: exit %d: %s", cases[i].says, code, text);
    }
}

/* --- failures of calls and of ranks */

static void exchange_and_tell(struct rig *r)
{
    struct err err = {0}, again = {0};

    open_all(r);
    uint8_t *out = r->dev->ops->alloc(r->dev, 40), *in = r->dev->ops->alloc(r->dev, 40);
    struct comm_piece send = {1 - r->rank, out, 40}, recv = {1 - r->rank, in, 40};
    enum pawl_status st = comm_device_exchange(r->comm, &send, 1, &recv, 1, &err);
    CHECK(st == PAWL_ESTOPPED);
    fprintf(stderr, "rank %d is told: %s\n", r->rank, err.text);
    CHECK(comm_device_exchange(r->comm, &send, 1, &recv, 1, &again) == PAWL_ESTOPPED);
    CHECK(strcmp(err.text, again.text) == 0 || comm_check(r->comm, NULL) != PAWL_OK);
    comm_close(r->comm, st, err.text);
    _exit(75);
}

static void a_failed_call_is_named(void **state)
{
    setenv("PAWL_EMU_NCCL_FAIL", "ncclSend@1", 1);
    int code = with_ranks(2, TIMEOUT, exchange_and_tell);
    unsetenv("PAWL_EMU_NCCL_FAIL");
    if (code != 75 || !strstr(text, "rank 1 is told: rank 1: ncclSend with rank 0, 40 bytes: ncclSystemError (unhandled system error): told to fail: likely ") || !strstr(text, "rank 0 is told: rank 1: "))
        fail_msg("exit %d: %s", code, text);
}

static void die_in_an_exchange(struct rig *r)
{
    struct err err = {0};

    open_all(r);
    uint8_t *out = r->dev->ops->alloc(r->dev, 40), *in = r->dev->ops->alloc(r->dev, 40);
    struct comm_piece send[2], recv[2];
    if (r->rank == 1) kill(getpid(), SIGKILL);
    for (int i = 0, k = 0; k < 3; k++)
        if (k != r->rank) send[i] = (struct comm_piece){k, out, 20}, recv[i] = (struct comm_piece){k, in + 20 * i, 20}, i++;
    enum pawl_status st = comm_device_exchange(r->comm, send, 2, recv, 2, &err);
    CHECK(st == PAWL_ESTOPPED);
    fprintf(stderr, "rank %d is told: %s\n", r->rank, err.text);
    comm_close(r->comm, st, err.text);
    dev_close(r->dev); /* its queue comes to an end, since the communicator was aborted */
    _exit(75);
}

static void a_dead_rank_is_named_by_all(void **state)
{
    int code = with_ranks(3, TIMEOUT, die_in_an_exchange);

    if (code != 75 || !strstr(text, "rank 0 is told: rank 1 is gone") || !strstr(text, "rank 2 is told: rank 1 is gone")) fail_msg("exit %d: %s", code, text);
}

/* --- mistakes that the stand-in notices */

static void sizes_differ(struct rig *r)
{
    struct err err = {0};

    open_all(r);
    uint8_t *p = r->dev->ops->alloc(r->dev, 100);
    struct comm_piece send = {1, p, 40}, recv = {0, p, 44};
    comm_device_exchange(r->comm, &send, r->rank == 0, &recv, r->rank == 1, &err);
    comm_close(r->comm, PAWL_EIO, "it went on");
    _exit(2);
}

static void order_differs(struct rig *r)
{
    struct err err = {0};

    open_all(r);
    uint8_t *p = r->dev->ops->alloc(r->dev, 100);
    struct comm_piece send[] = {{1, p, 40}, {1, p + 40, 44}}, recv[] = {{0, p, 44}, {0, p + 44, 40}};
    comm_device_exchange(r->comm, send, r->rank == 0 ? 2 : 0, recv, r->rank == 1 ? 2 : 0, &err);
    comm_close(r->comm, PAWL_EIO, "it went on");
    _exit(2);
}

static void nobody_sends(struct rig *r)
{
    struct err err = {0};

    open_all(r);
    uint8_t *p = r->dev->ops->alloc(r->dev, 100);
    struct comm_piece recv = {0, p, 40};
    if (r->rank == 1) comm_device_exchange(r->comm, NULL, 0, &recv, 1, &err);
    else r->comm->device->close(r->comm, PAWL_OK), r->comm->device = NULL;
}

static void host_memory(struct rig *r)
{
    static char here[64];
    struct err err = {0};

    open_all(r);
    uint8_t *p = r->dev->ops->alloc(r->dev, 100);
    struct comm_piece send = {1 - r->rank, here, 64}, recv = {1 - r->rank, p, 64};
    comm_device_exchange(r->comm, &send, 1, &recv, 1, &err);
}

static void overlapping(struct rig *r)
{
    struct err err = {0};

    open_all(r);
    uint8_t *p = r->dev->ops->alloc(r->dev, 100);
    struct comm_piece send = {1 - r->rank, p, 64}, recv = {1 - r->rank, p + 60, 40};
    comm_device_exchange(r->comm, &send, 1, &recv, 1, &err);
}

/* Below the transport: a communicator of one rank. */
static void open_raw(struct rig *r, bool wait)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t rc = ncclInProgress;
    ncclUniqueId id;
    const char *why;

    open_card(r, r->rank);
    r->call = nccl_load(&why);
    r->call->get_unique_id(&id);
    config.blocking = 0;
    r->call->init(&r->raw, 1, id, 0, &config);
    while (wait && rc == ncclInProgress) r->call->async_error(r->raw, &rc);
}

static void too_early(struct rig *r)
{
    open_raw(r, false);
    r->call->group_start();
    r->call->send(r->dev->ops->alloc(r->dev, 8), 8, ncclUint8, 0, r->raw, r->dev->ops->queue(r->dev));
}

static void after_abort(struct rig *r)
{
    ncclResult_t rc;

    open_raw(r, true);
    r->call->abort(r->raw);
    r->call->async_error(r->raw, &rc);
}

static void without_finalize(struct rig *r)
{
    open_raw(r, true);
    r->call->destroy(r->raw);
}

static void outside_a_group(struct rig *r)
{
    open_raw(r, true);
    r->call->send(r->dev->ops->alloc(r->dev, 8), 8, ncclUint8, 0, r->raw, r->dev->ops->queue(r->dev));
}

static void mistakes_are_noticed(void **state)
{
    static const struct { case_body *body; const char *says; } cases[] = {
        {sizes_differ, "NCCL group 0: rank "},
        {order_differs, "NCCL group 0: rank "},
        {nobody_sends, "rank 1 waits for rank 0, which has finalized"},
        {host_memory, "ncclSend: its buffer takes 64 bytes of address"},
        {overlapping, "overlaps another one of the group"},
        {too_early, "ncclSend while the communicator is in progress"},
        {after_abort, "ncclCommGetAsyncError: a communicator that was aborted or destroyed"},
        {without_finalize, "ncclCommDestroy: a communicator that was not finalized"},
        {outside_a_group, "ncclSend outside a group"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = with_ranks(2, TIMEOUT, cases[i].body);

        if (!code || !strstr(text, cases[i].says)) fail_msg("expected \"%s\": exit %d: %s", cases[i].says, code, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_arrives),
        cmocka_unit_test(an_obstacle_is_named),
        cmocka_unit_test(a_failed_call_is_named),
        cmocka_unit_test(a_dead_rank_is_named_by_all),
        cmocka_unit_test(mistakes_are_noticed),
    };

    setenv("PAWL_EMU_CARDS", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
