/* Any bytes as JSON: what is read is written, read again, and the same. */
#include "kernels/base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *a = NULL, *b = NULL;
    struct buf once = {0}, twice = {0};
    struct err err = {0};

    if (json_parse(&a, (const char *)data, size, &err) == PAWL_OK) {
        json_add_value(&once, json_root(a));
        if (json_parse(&b, once.data, once.len, &err) != PAWL_OK) abort();
        json_add_value(&twice, json_root(b));
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0) abort();
    }
    json_free(a);
    json_free(b);
    buf_free(&once);
    buf_free(&twice);
    return 0;
}
