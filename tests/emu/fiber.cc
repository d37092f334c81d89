/* Blocks, warps and lanes. A lane is a fiber with a stack of its own; it runs until it meets the others in a barrier, a shuffle or a matrix instruction, so a kernel that lacks
 * a barrier sees, under some seed, every order that the missing barrier allows. Blocks run one after the other, in random order. */
#include "tests/emu/emu.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#define MAX_THREADS 1024
#define STACK (64 * 1024)
#define SHARED_MAX (227 * 1024) /* sm_90 */
#define PAGE 4096

enum state { READY, IN_WARP, IN_BLOCK, DONE };

struct copy {
    void *dst;
    const void *src;
    int bytes, size;
};

struct fiber {
    void *stack_pointer;
    enum state state;
    dim3 thread;
    struct emu_lane lane;
    std::vector<std::vector<copy>> groups; /* cp.async: the last one is open */
};

struct emu_place emu_place;

static struct fiber fibers[MAX_THREADS];
static int count, current, waiting, done;
static char *stacks, *shared_end, *shared_begin;
static void *scheduler_stack;
static const char *kernel_name;
static const std::function<void()> *thread_body;
static struct meeting {
    emu_collective *what;
    const char *name;
    int arrived;
} meetings[MAX_THREADS / 32];

/* ---- random numbers, failures ---- */

uint32_t emu_draw(uint32_t n)
{
    static uint64_t x;

    if (!x) {
        const char *seed = getenv("PAWL_EMU_SEED");

        x = 0x9E3779B97F4A7C15u * (uint64_t)(seed ? atoll(seed) + 1 : 1);
    }
    x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* Marsaglia 2003, xorshift64 */
    return (uint32_t)((x >> 32) * n >> 32);
}

void emu_fail(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "emulation: ");
    if (kernel_name)
        fprintf(stderr, "%s, block (%u, %u, %u), thread %u: ", kernel_name, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    _exit(99);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    char what[200];

    emu_describe(info->si_addr, what, sizeof what);
    if (!kernel_name && !emu_is_device(info->si_addr)) {
        signal(sig, SIG_DFL); /* not ours */
        return;
    }
    if (kernel_name && info->si_addr >= shared_end && info->si_addr < shared_end + PAGE) emu_fail("touches shared memory behind the %zd bytes of its launch", shared_end - shared_begin);
    emu_fail("touches %s%s", what, kernel_name ? "" : " from the host");
}

/* Again and again: a test's framework takes these signals for itself. */
void emu_catch_faults()
{
    struct sigaction act = {};

    act.sa_sigaction = on_fault;
    act.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}

static void prepare()
{
    stack_t alternative = {};

    stacks = (char *)mmap(NULL, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *area = (char *)mmap(NULL, SHARED_MAX / PAGE * PAGE + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared_end = area + SHARED_MAX / PAGE * PAGE + PAGE;
    mprotect(shared_end, PAGE, PROT_NONE);
    alternative.ss_sp = malloc(65536);
    alternative.ss_size = 65536;
    sigaltstack(&alternative, NULL);
}

void emu_start()
{
    if (!stacks) prepare();
    emu_catch_faults();
}

/* ---- switching ---- */

#ifdef __x86_64__
extern "C" void emu_switch(void **save, void *load);
__asm__(".text\n.globl emu_switch\nemu_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
#error "the emulation switches fibers on x86-64 only"
#endif

static void to_scheduler()
{
    emu_switch(&fibers[current].stack_pointer, scheduler_stack);
}

static void fiber_main()
{
    (*thread_body)();
    fibers[current].state = DONE;
    done++;
    to_scheduler();
    abort();
}

static void fiber_reset(int i)
{
    struct fiber *f = &fibers[i];
    void **top = (void **)(stacks + (size_t)(i + 1) * STACK) - 1;

    *--top = (void *)fiber_main;
    top -= 6;
    f->stack_pointer = top;
    f->state = READY;
    f->groups.assign(1, {});
}

static void run_fiber(int i)
{
    current = i;
    emu_place.thread = fibers[i].thread;
    emu_switch(&scheduler_stack, fibers[i].stack_pointer);
}

/* ---- meeting others ---- */

static int lanes_of(int warp)
{
    return count - warp * 32 < 32 ? count - warp * 32 : 32;
}

struct emu_lane *emu_own() { return &fibers[current].lane; }
void *emu_shared() { return shared_begin; }

void emu_meet(emu_collective *what, const char *name)
{
    int warp = current / 32;
    struct meeting *m = &meetings[warp];

    if (m->arrived && m->what != what) emu_fail("a lane comes to %s while others of its warp wait in %s", name, m->name);
    m->what = what, m->name = name;
    if (++m->arrived < lanes_of(warp)) {
        fibers[current].state = IN_WARP;
        to_scheduler();
        return;
    }
    struct emu_lane *lane[32] = {};
    for (int i = 0; i < lanes_of(warp); i++) {
        lane[i] = &fibers[warp * 32 + i].lane;
        fibers[warp * 32 + i].state = READY;
    }
    what(lane);
    m->arrived = 0;
}

static void nothing(struct emu_lane *[32]) {}
void __syncwarp() { emu_meet(nothing, "__syncwarp"); }

static void shuffle(struct emu_lane *lane[32])
{
    for (int i = 0; i < 32 && lane[i]; i++) {
        if (!lane[lane[i]->in[1]]) emu_fail("shuffle from lane %u of a warp that is not whole", lane[i]->in[1]);
        lane[i]->out[0] = lane[lane[i]->in[1]]->in[0];
    }
}

uint32_t emu_shuffle(uint32_t value, int from)
{
    struct emu_lane *own = emu_own();

    own->in[0] = value, own->in[1] = (uint32_t)from;
    emu_meet(shuffle, "a shuffle");
    return own->out[0];
}

void __syncthreads()
{
    if (done) emu_fail("waits in __syncthreads, but %d threads of its block have returned", done);
    if (++waiting < count) {
        fibers[current].state = IN_BLOCK;
        to_scheduler();
        return;
    }
    waiting = 0;
    for (int i = 0; i < count; i++) fibers[i].state = READY;
}

/* ---- cp.async: nothing arrives before it is waited for ---- */

void emu_async_copy(void *dst, const void *src, int bytes, int size)
{
    if ((uintptr_t)dst % 16 || (bytes && (uintptr_t)src % 16)) emu_fail("cp.async of addresses that are not 16-byte aligned");
    if ((char *)dst < shared_begin || (char *)dst + size > shared_end) emu_fail("cp.async to a place outside shared memory");
    memset(dst, 0xff, (size_t)size);
    fibers[current].groups.back().push_back({dst, src, bytes, size});
}

void emu_async_commit() { fibers[current].groups.push_back({}); }

void emu_async_wait(int newest)
{
    auto &groups = fibers[current].groups;

    while ((int)groups.size() - 1 > newest) {
        for (const copy &c : groups.front()) {
            memcpy(c.dst, c.src, (size_t)c.bytes);
            memset((char *)c.dst + c.bytes, 0, (size_t)(c.size - c.bytes));
        }
        groups.erase(groups.begin());
    }
}

/* ---- grids ---- */

static void run_block()
{
    int warps = (count + 31) / 32, ready[MAX_THREADS / 32];

    memset(shared_begin, 0xff, (size_t)(shared_end - shared_begin));
    memset(meetings, 0, sizeof meetings);
    waiting = done = 0;
    for (int i = 0; i < count; i++) fiber_reset(i);
    while (done < count) {
        int n = 0;

        for (int w = 0; w < warps; w++)
            for (int i = 0; i < lanes_of(w); i++)
                if (fibers[w * 32 + i].state == READY) {
                    ready[n++] = w;
                    break;
                }
        if (!n) emu_fail("stands still: %d of %d threads have returned, %d wait in __syncthreads, others for lanes of their warp", done, count, waiting);
        int w = ready[emu_draw((uint32_t)n)], first = (int)emu_draw(32), step = 2 * (int)emu_draw(16) + 1;
        for (int k = 0; k < 32; k++) {
            int i = w * 32 + ((first + k * step) & 31);

            if (i < count && fibers[i].state == READY) run_fiber(i);
        }
    }
    for (int i = 0; i < count; i++)
        for (const auto &g : fibers[i].groups)
            if (!g.empty()) emu_fail("returns with a cp.async that nobody waited for");
}

static uint32_t common_factor(uint32_t a, uint32_t b) { return b ? common_factor(b, a % b) : a; }

void emu_run_grid(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread)
{
    uint32_t blocks = grid.x * grid.y * grid.z, first = emu_draw(blocks), step = emu_draw(blocks) + 1;

    while (common_factor(step, blocks) != 1) step++;
    kernel_name = name;
    thread_body = &thread;
    shared_begin = shared_end - (shared + 15) / 16 * 16;
    count = (int)(block.x * block.y * block.z);
    for (int i = 0; i < count; i++) fibers[i].thread = dim3((unsigned)i % block.x, (unsigned)i / block.x % block.y, (unsigned)i / block.x / block.y);
    emu_place.block_dim = block, emu_place.grid_dim = grid;
    for (uint32_t k = 0; k < blocks; k++) {
        uint32_t b = (uint32_t)((first + (uint64_t)k * step) % blocks);

        emu_place.block = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
        run_block();
    }
    kernel_name = NULL;
}
