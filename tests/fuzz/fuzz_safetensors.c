/* Any bytes as a safetensors file: its tensors are looked at, or it is refused. */
#include "ckpt/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct safetensors *s = NULL;
    struct err err = {0};
    unsigned sum = 0;
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (safetensors_open(&s, path, &err) == PAWL_OK) {
        for (size_t i = 0; i < safetensors_count(s); i++) {
            const struct tensor *t = safetensors_at(s, i);
            for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
            if (safetensors_find(s, t->name) == NULL) abort();
        }
        safetensors_metadata(s, "format");
    } else if (strchr(err.text, '\n') != NULL) {
        abort();
    }
    safetensors_close(s);
    close(fd);
    return (int)(sum & 0);
}
