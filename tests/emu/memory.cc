/* Memory of the emulated device: one range of addresses that the host cannot touch. Each allocation ends (16 bytes' worth exact) where a page begins that nobody may touch, the bytes
 * between its size and the page, and before it, are a canary, its contents start as 0xff (NaN), and addresses are never given out twice. PAWL_EMU_MEMORY: bytes of the device, 4 GiB. */
#include "tests/emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <iterator>
#include <map>

#define PAGE 4096
#define RANGE ((size_t)1 << 40)
#define CANARY 0xa5
#define POISONED ((size_t)1 << 20) /* bytes of an allocation, the rest of a large one is zero: pages that nobody touches cost nothing */

struct block {
    size_t bytes, pages;
    char *start; /* of its pages */
};

static char *range_begin, *range_next;
static std::map<char *, block> live;      /* by address */
static std::map<char *, size_t> pinned;
static size_t used;
static bool is_open;

static size_t total()
{
    const char *given = getenv("PAWL_EMU_MEMORY");

    return given ? (size_t)atoll(given) : (size_t)4 << 30;
}

static void protect(const block &b)
{
    mprotect(b.start, b.pages * PAGE, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void emu_device_open()
{
    is_open = true;
    emu_catch_faults();
    for (auto &b : live) protect(b.second);
}

void emu_device_close()
{
    for (auto &b : live) {
        const unsigned char *begin = (unsigned char *)b.second.start, *end = begin + b.second.pages * PAGE;

        for (const unsigned char *p = (unsigned char *)b.first + b.second.bytes; p < end; p++)
            if (*p != CANARY) emu_fail("something wrote behind an allocation of %zu bytes", b.second.bytes);
        for (const unsigned char *p = (unsigned char *)b.first; p > begin && p > (unsigned char *)b.first - 64; p--)
            if (p[-1] != CANARY) emu_fail("something wrote before an allocation of %zu bytes", b.second.bytes);
    }
    is_open = false;
    for (auto &b : live) protect(b.second);
}

bool emu_is_device(const void *p) { return range_begin && p >= range_begin && p < range_begin + RANGE; }

/* The allocation at or before p. */
static std::map<char *, block>::iterator before(const void *p)
{
    auto it = live.upper_bound((char *)p);

    return it == live.begin() ? live.end() : std::prev(it);
}

void emu_describe(const void *p, char *out, size_t size)
{
    if (!emu_is_device(p)) {
        snprintf(out, size, "address %p, which is no device memory", p);
        return;
    }
    auto it = before(p), next = live.upper_bound((char *)p);
    if (it == live.end()) snprintf(out, size, "device memory that is not allocated");
    else if ((char *)p < it->first + it->second.bytes) snprintf(out, size, "byte %td of device memory of %zu bytes", (char *)p - it->first, it->second.bytes);
    else if (next != live.end() && next->first - (char *)p < PAGE) snprintf(out, size, "device memory %td bytes before one of %zu bytes", next->first - (char *)p, next->second.bytes);
    else snprintf(out, size, "device memory %td bytes behind one of %zu bytes", (char *)p - it->first - (ptrdiff_t)it->second.bytes, it->second.bytes);
}

void emu_check_device(const void *p, size_t bytes, const char *who, const char *what)
{
    auto it = before(p);

    if (!bytes) return;
    if (it == live.end() || (char *)p + bytes > it->first + it->second.bytes) {
        char text[200];

        emu_describe(p, text, sizeof text);
        emu_fail("%s: %s takes %zu bytes of %s", who, what, bytes, text);
    }
}

void emu_check_pointer(const void *p, const char *kernel, int index)
{
    if (!p || emu_is_pinned(p, 1)) return;
    if (!emu_is_device(p)) emu_fail("%s: its argument %d holds a host address", kernel, index);
    auto it = before(p); /* one past the end is no access */
    if (it == live.end() || (const char *)p > it->first + it->second.bytes) emu_fail("%s: its argument %d points to no live allocation", kernel, index);
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    size_t size = (bytes + 15) / 16 * 16, pages = size / PAGE + (size % PAGE != 0);

    emu_start();
    if (!range_begin) {
        range_begin = (char *)mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        range_next = range_begin + PAGE;
    }
    if (!bytes || used + bytes > total() || range_next + (pages + 1) * PAGE > range_begin + RANGE) return bytes ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    block b = {bytes, pages, range_next};
    char *at = b.start + pages * PAGE - size;
    mprotect(b.start, pages * PAGE, PROT_READ | PROT_WRITE);
    memset(b.start, CANARY, (size_t)(at - b.start));
    memset(at, 0xff, bytes < POISONED ? bytes : POISONED);
    memset(at + bytes, CANARY, size - bytes);
    protect(b);
    range_next += (pages + 1) * PAGE;
    used += bytes;
    live[at] = b;
    *p = at;
    return cudaSuccess;
}

cudaError_t emu_free(void *p)
{
    auto it = live.find((char *)p);

    if (!p) return cudaSuccess;
    if (it == live.end()) emu_fail("cudaFree of an address that is not an allocation's");
    mmap(it->second.start, it->second.pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    used -= it->second.bytes;
    live.erase(it);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *all)
{
    *all = total();
    *available = *all > used ? *all - used : 0;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    *p = malloc(bytes ? bytes : 1);
    if (*p) pinned[(char *)*p] = bytes;
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *p)
{
    if (p && !pinned.erase((char *)p)) emu_fail("cudaFreeHost of an address that cudaMallocHost did not give");
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    if (!p || !bytes) return cudaErrorInvalidValue;
    pinned[(char *)p] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    if (!pinned.erase((char *)p)) emu_fail("cudaHostUnregister of an address that was not registered");
    return cudaSuccess;
}

bool emu_is_pinned(const void *p, size_t bytes)
{
    auto it = pinned.upper_bound((char *)p);

    if (it == pinned.begin()) return false;
    --it;
    return (char *)p + bytes <= it->first + it->second;
}
