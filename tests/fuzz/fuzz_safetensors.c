/* Any bytes as a safetensors file: its tensors are looked at, or it is refused. */
#include "ckpt/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char path[] = "fuzz.safetensors";
    struct safetensors *s = NULL;
    struct err err = {0};
    unsigned sum = 0;
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
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
    return (int)(sum & 0);
}
