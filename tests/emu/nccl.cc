/* A stand-in for NCCL between processes of one machine: the calls that dist/nccl.c makes, over sockets, on the streams of the emulated card.
 *
 * It is as slow and as late as NCCL may be (initialisation, groups and data take a random number of polls, data come in pieces), and stricter: the first of these ends the process with a
 * line: a call other than for the state while the communicator is in progress, or after it was finalized, aborted or destroyed; a buffer that is not one of the device, or that another of its
 * group overlaps; a send or a receive outside a group; a group in which what a rank sends and what its peer expects differ in number, size, type or order; a rank that finalizes while
 * another one waits for it. Receive buffers are NaN from the moment the stream comes to the group until the data are there.
 *
 * Every rank calls every group, so groups are numbered; each tells its peers what it sends and expects (PLAN), then the data. A peer that is gone without a word is ncclRemoteError, and as
 * in the real one the stream stands still until the communicator is aborted.
 *
 * PAWL_EMU_NCCL_FAIL=CALL or CALL@RANK: that call returns ncclSystemError. PAWL_EMU_NCCL=none: the library is not found. */
#include "dist/nccl.h"
#include "tests/emu/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

enum kind { HELLO, PLAN, DATA, BYE };

struct frame {
    uint32_t kind, rank;
    uint64_t group, bytes; /* of what follows */
};

struct item {
    uint64_t bytes;
    int32_t type, outwards; /* seen from who tells */
};

struct operation {
    bool outwards;
    char *data;
    size_t bytes;
    ncclDataType_t type;
    int peer;
    void *stream;
};

struct peer {
    int fd = -1;
    bool met = false, closed = false, left = false;
    std::string in, out;
    std::deque<std::vector<item>> told, own; /* plans that were not compared yet */
    uint64_t compared = 0;                   /* groups */
    std::deque<std::string> data;
};

struct ncclComm {
    int rank, size, listener;
    std::string name;
    std::vector<peer> peers;
    ncclResult_t state;
    uint32_t delay;       /* polls that it stays in progress */
    uint64_t groups, running;
    bool finalized, aborted;
};

static std::set<ncclComm *> live; /* an aborted one stays in memory: what it queued refers to it */
static int depth;
static std::vector<operation> group;
static ncclComm *group_comm;
static char last_error[256];

static ncclResult_t told_to_fail(const char *call, int rank)
{
    const char *wish = getenv("PAWL_EMU_NCCL_FAIL"), *at = wish ? strchr(wish, '@') : NULL;

    if (!wish || strncmp(wish, call, strlen(call)) || (wish[strlen(call)] && wish + strlen(call) != at) || (at && atoi(at + 1) != rank)) return ncclSuccess;
    snprintf(last_error, sizeof last_error, "told to fail");
    return ncclSystemError;
}

static ncclComm *usable(ncclComm_t c, const char *call)
{
    if (!live.count(c)) emu_fail("%s: a communicator that was aborted or destroyed", call);
    if (c->state == ncclInProgress) emu_fail("%s while the communicator is in progress: ncclCommGetAsyncError was not asked until it was done", call);
    if (c->finalized) emu_fail("%s: a communicator that was finalized", call);
    return c;
}

/* ---- the sockets ---- */

static void say(peer &p, int rank, kind what, uint64_t number, const void *data, size_t bytes)
{
    frame f = {what, (uint32_t)rank, number, bytes};

    p.out.append((const char *)&f, sizeof f);
    p.out.append((const char *)data, bytes);
}

static socklen_t address(sockaddr_un *a, const std::string &name, int rank)
{
    *a = {};
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%d", name.c_str(), rank);
    return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* To those below; those above come. */
static void meet(ncclComm *c)
{
    sockaddr_un to;
    int fd;

    for (int k = 0; k < c->rank; k++) {
        peer &p = c->peers[k];
        if (p.fd >= 0) continue;
        socklen_t length = address(&to, c->name, k);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (sockaddr *)&to, length) != 0) {
            close(fd); /* not there yet */
            continue;
        }
        p.fd = fd;
        p.met = true;
        say(p, c->rank, HELLO, 0, NULL, 0);
    }
    while ((fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        frame f;
        if (recv(fd, &f, sizeof f, MSG_WAITALL) != (ssize_t)sizeof f || f.kind != HELLO) {
            close(fd);
            continue;
        }
        c->peers[f.rank].fd = fd;
        c->peers[f.rank].met = true;
    }
}

static std::string list(const std::vector<item> &items, bool outwards)
{
    std::string s = "[";

    for (const item &i : items)
        if ((bool)i.outwards == outwards) s += (s.size() > 1 ? ", " : "") + std::to_string(i.bytes);
    return s + "] bytes";
}

static bool same(const std::vector<item> &a, const std::vector<item> &b, bool a_sends)
{
    std::vector<item> x, y;

    for (const item &i : a)
        if ((bool)i.outwards == a_sends) x.push_back(i);
    for (const item &i : b)
        if ((bool)i.outwards != a_sends) y.push_back(i);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const item &l, const item &r) { return l.bytes == r.bytes && l.type == r.type; });
}

static void compare_plans(ncclComm *c, int k)
{
    peer &p = c->peers[k];

    for (; !p.told.empty() && !p.own.empty(); p.told.pop_front(), p.own.pop_front(), p.compared++) {
        const std::vector<item> &own = p.own.front(), &told = p.told.front();
        if (!same(own, told, true))
            emu_fail("NCCL group %llu: rank %d sends %s to rank %d, which expects %s", (unsigned long long)p.compared, c->rank, list(own, true).c_str(), k, list(told, false).c_str());
        if (!same(own, told, false))
            emu_fail("NCCL group %llu: rank %d expects %s from rank %d, which sends %s", (unsigned long long)p.compared, c->rank, list(own, false).c_str(), k, list(told, true).c_str());
    }
    if (p.left && !p.own.empty()) emu_fail("NCCL group %llu: rank %d waits for rank %d, which has finalized", (unsigned long long)p.compared, c->rank, k);
}

static void hear(peer &p)
{
    frame f;

    while (p.in.size() >= sizeof f) {
        memcpy(&f, p.in.data(), sizeof f);
        if (p.in.size() < sizeof f + f.bytes) return;
        const char *at = p.in.data() + sizeof f;
        if (f.kind == PLAN) p.told.emplace_back((const item *)at, (const item *)at + f.bytes / sizeof(item));
        if (f.kind == DATA) p.data.emplace_back(at, f.bytes);
        if (f.kind == BYE) p.left = true;
        p.in.erase(0, sizeof f + f.bytes);
    }
}

static void move(peer &p)
{
    char room[16384];
    ssize_t n;

    while (!p.out.empty() && (n = send(p.fd, p.out.data(), 1 + emu_draw((uint32_t)std::min(p.out.size(), sizeof room)), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) p.out.erase(0, (size_t)n);
    while ((n = recv(p.fd, room, 1 + emu_draw(sizeof room), MSG_DONTWAIT)) > 0) p.in.append(room, (size_t)n);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) p.closed = true;
    hear(p);
}

/* What happens while somebody asks. */
static void progress(ncclComm *c)
{
    bool all = true;

    meet(c);
    for (int k = 0; k < c->size; k++) {
        peer &p = c->peers[k];
        if (k == c->rank) continue;
        if (p.met && !p.closed) move(p);
        all &= p.met;
        compare_plans(c, k);
        if (p.closed && !p.left && !c->finalized && (c->state == ncclSuccess || c->state == ncclInProgress)) {
            snprintf(last_error, sizeof last_error, "connection closed by rank %d", k);
            c->state = ncclRemoteError;
        }
    }
    if (c->state != ncclInProgress || !all) return;
    if (c->delay) c->delay--;
    else c->state = ncclSuccess;
}

static void begin_wait(ncclComm *c)
{
    c->state = ncclInProgress;
    c->delay = emu_draw(40);
}

/* ---- the calls ---- */

static ncclResult_t get_version(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

static ncclResult_t get_unique_id(ncclUniqueId *id)
{
    static int count;
    timespec now;

    if (told_to_fail("ncclGetUniqueId", 0)) return ncclSystemError;
    clock_gettime(CLOCK_REALTIME, &now);
    *id = {};
    snprintf(id->internal, sizeof id->internal, "pawl-emu-%d-%d-%lld%09ld", (int)getpid(), count++, (long long)now.tv_sec, now.tv_nsec);
    return ncclSuccess;
}

static const char *error_string(ncclResult_t rc)
{
    return rc == ncclSuccess ? "no error" : rc == ncclRemoteError ? "remote process exited or there was a network error" : rc == ncclSystemError ? "unhandled system error" : "error";
}

static const char *get_last_error(ncclComm_t) { return last_error; }

static ncclResult_t init(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    sockaddr_un at;
    ncclComm *c = new ncclComm{};

    if (told_to_fail("ncclCommInitRankConfig", rank)) return ncclSystemError;
    if (!config || config->magic != 0xcafebeef || config->size != sizeof *config) emu_fail("ncclCommInitRankConfig: the configuration is not initialised");
    if (config->blocking != 0) emu_fail("ncclCommInitRankConfig: a blocking communicator");
    if (rank < 0 || rank >= size) emu_fail("ncclCommInitRankConfig: rank %d of %d", rank, size);
    c->rank = rank, c->size = size, c->name = id.internal;
    c->peers.resize((size_t)size);
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = address(&at, c->name, rank);
    if (bind(c->listener, (sockaddr *)&at, length) != 0 || listen(c->listener, size) != 0) emu_fail("ncclCommInitRankConfig: rank %d is there twice, or the id is not one", rank);
    begin_wait(c);
    live.insert(c);
    *out = c;
    return ncclInProgress;
}

static ncclResult_t async_error(ncclComm_t c, ncclResult_t *state)
{
    if (!live.count(c)) emu_fail("ncclCommGetAsyncError: a communicator that was aborted or destroyed");
    progress(c);
    *state = c->state;
    return ncclSuccess;
}

static ncclResult_t group_start()
{
    depth++;
    return ncclSuccess;
}

static ncclResult_t add(bool outwards, const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    const char *call = outwards ? "ncclSend" : "ncclRecv";
    ncclComm *c = usable(comm, call);
    char *at = (char *)data;

    if (told_to_fail(call, c->rank)) return ncclSystemError;
    if (!depth) emu_fail("%s outside a group", call);
    if (type != ncclUint8) emu_fail("%s of type %d: only bytes are sent", call, (int)type);
    if (peer < 0 || peer >= c->size || peer == c->rank || !count) emu_fail("%s of %zu bytes by rank %d to or from rank %d of %d", call, count, c->rank, peer, c->size);
    if (group_comm && group_comm != c) emu_fail("%s: a group of two communicators", call);
    emu_check_device(data, count, call, "its buffer");
    for (const operation &o : group)
        if (!(o.outwards && outwards) && at < o.data + o.bytes && o.data < at + count) emu_fail("%s: its buffer of %zu bytes overlaps another one of the group", call, count);
    group_comm = c;
    group.push_back({outwards, at, count, type, peer, stream});
    return ncclSuccess;
}

static ncclResult_t send_call(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) { return add(true, data, count, type, peer, c, s); }
static ncclResult_t recv_call(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) { return add(false, data, count, type, peer, c, s); }

/* On the stream: what is sent is read, what is received becomes NaN. */
static void begin_group(ncclComm *c, const std::vector<operation> &ops)
{
    for (const operation &o : ops)
        if (o.outwards && !c->aborted) say(c->peers[o.peer], c->rank, DATA, c->running, o.data, o.bytes);
    for (const operation &o : ops)
        if (!o.outwards) memset(o.data, 0xff, o.bytes);
}

static bool group_arrived(ncclComm *c, const std::vector<operation> &ops)
{
    std::vector<size_t> expected((size_t)c->size);

    if (c->aborted) return true;
    progress(c);
    for (const operation &o : ops) {
        expected[o.peer] += !o.outwards;
        if (!c->peers[o.peer].out.empty() || c->peers[o.peer].data.size() < expected[o.peer] || c->peers[o.peer].compared <= c->running) return false;
    }
    return emu_draw(4) == 0;
}

static void end_group(ncclComm *c, const std::vector<operation> &ops)
{
    if (c->aborted) return;
    for (const operation &o : ops) {
        if (o.outwards) continue;
        memcpy(o.data, c->peers[o.peer].data.front().data(), o.bytes);
        c->peers[o.peer].data.pop_front();
    }
    c->running++;
}

static ncclResult_t group_end()
{
    if (!depth) emu_fail("ncclGroupEnd without ncclGroupStart");
    if (--depth) return ncclSuccess;
    auto ops = std::make_shared<std::vector<operation>>(std::move(group));
    ncclComm *c = group_comm;
    group.clear();
    group_comm = NULL;
    if (!c && live.size() == 1) c = usable(*live.begin(), "ncclGroupEnd"); /* an empty group */
    if (!c) return ncclSuccess;
    if (told_to_fail("ncclGroupEnd", c->rank)) return ncclSystemError;
    for (int k = 0; k < c->size; k++) {
        std::vector<item> plan;
        if (k == c->rank) continue;
        for (const operation &o : *ops)
            if (o.peer == k) plan.push_back({o.bytes, (int32_t)o.type, o.outwards});
        say(c->peers[k], c->rank, PLAN, c->groups, plan.data(), plan.size() * sizeof(item));
        c->peers[k].own.push_back(plan);
    }
    c->groups++;
    begin_wait(c);
    if (ops->empty()) {
        c->running++;
        return ncclInProgress;
    }
    void *stream = ops->front().stream;
    for (const operation &o : *ops)
        if (o.stream != stream) emu_fail("ncclGroupEnd: a group on two streams");
    emu_queue_when(stream, "ncclGroup begins", [] { return true; }, [=] { begin_group(c, *ops); });
    emu_queue_when(stream, "ncclGroup ends", [=] { return group_arrived(c, *ops); }, [=] { end_group(c, *ops); });
    return ncclInProgress;
}

static ncclResult_t finalize(ncclComm_t comm)
{
    ncclComm *c = usable(comm, "ncclCommFinalize");

    if (c->running != c->groups) emu_fail("ncclCommFinalize: group %llu is still under way", (unsigned long long)c->running);
    for (int k = 0; k < c->size; k++)
        if (k != c->rank) say(c->peers[k], c->rank, BYE, 0, NULL, 0);
    begin_wait(c);
    c->finalized = true;
    return ncclInProgress;
}

/* What is still to be sent goes out as far as it goes; the peers see the end. */
static void close_all(ncclComm *c)
{
    for (peer &p : c->peers) {
        if (p.fd < 0) continue;
        if (!c->aborted && !p.out.empty() && send(p.fd, p.out.data(), p.out.size(), MSG_NOSIGNAL) < 0) p.closed = true;
        close(p.fd);
        p.fd = -1;
    }
    close(c->listener);
    live.erase(c);
}

static ncclResult_t destroy(ncclComm_t c)
{
    if (!live.count(c)) emu_fail("ncclCommDestroy: a communicator that was aborted or destroyed");
    if (!c->finalized || c->state != ncclSuccess) emu_fail("ncclCommDestroy: a communicator that was not finalized, or is not done with it");
    close_all(c);
    delete c;
    return ncclSuccess;
}

static ncclResult_t abort_call(ncclComm_t c)
{
    if (!live.count(c)) emu_fail("ncclCommAbort: a communicator that was aborted or destroyed");
    c->aborted = true;
    close_all(c);
    return ncclSuccess;
}

extern "C" const struct nccl_calls *nccl_load(const char **why)
{
    static const struct nccl_calls calls = {get_version, get_unique_id, error_string, get_last_error, init, async_error, finalize, destroy, abort_call, group_start, group_end, send_call, recv_call};
    const char *kind = getenv("PAWL_EMU_NCCL");

    if (!kind || strcmp(kind, "none")) return &calls;
    *why = "libnccl.so.2 can't be opened (the emulation was told so)";
    return NULL;
}
