/* Any bytes as a manifest and as the record of a journal's slot. Their checksums are made to fit, or nothing but the check of them would be reached. */
#include "ckpt/checkpoint.h"
#include "ckpt/journal.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char folder[] = "fuzz-checkpoint";

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0) abort();
}

static void as_manifest(const uint8_t *data, size_t size, bool seal)
{
    struct buf text = {0};

    buf_add(&text, data, size);
    if (seal) manifest_seal(&text, 0);
    write_file("fuzz-checkpoint/manifest.json", text.data ? text.data : "", text.len);
    struct ckpt *c = ckpt_read(folder);
    ckpt_verify(c, &fsys_real, false);
    if (c->verified != (c->why.status == PAWL_OK) || strchr(c->why.text, '\n') != NULL) abort();
    ckpt_free(c);
    buf_free(&text);
}

/* The head of a slot has its version and CRC32 at bytes 8 and 12; the CRC is of the 376 bytes of the record and of the state behind it, whose length is at byte 48. */
static void as_slot(const uint8_t *data, size_t size)
{
    enum { RECORD = 56 + 8 + 8 * JOURNAL_PARTS, STATE_BYTES = 48 };
    static unsigned char slot[JOURNAL_RECORD + 256];
    struct journal_slots slots = {0};
    struct file_sum sum = {0};
    struct err err = {0};
    uint64_t state = 0;
    uint32_t zero = 0;
    char path[64];
    int fd = memfd_create("slot", 0);

    memset(slot, 0, sizeof slot);
    memcpy(slot, data, size < sizeof slot ? size : sizeof slot);
    memcpy(slot, "PAWLJRNL", 8);
    memcpy(&state, slot + STATE_BYTES, 8);
    memcpy(slot + 12, &zero, 4);
    if (state <= JOURNAL_RECORD - RECORD) {
        file_sum_add(&sum, slot, RECORD);
        file_sum_add(&sum, slot + RECORD, state);
        memcpy(slot + 12, &sum.crc, 4);
    }
    if (fd < 0 || write(fd, slot, sizeof slot) != (ssize_t)sizeof slot) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (journal_read_one(&slots, path, &err) == PAWL_OK)
        for (size_t i = 0; i < slots.n; i++)
            if (strchr(slots.items[i].why.text, '\n') != NULL || (slots.items[i].why.status == PAWL_OK && slots.items[i].state == NULL)) abort();
    journal_slots_free(&slots);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_level = LOG_QUIET;
    mkdir(folder, 0777);
    write_file("fuzz-checkpoint/data", "data", 4);
    as_manifest(data, size, true);
    as_manifest(data, size, false);
    as_slot(data, size);
    return 0;
}
