/* Any bytes as a configuration: what is read is written, read again, and the same. */
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *a = NULL, *b = NULL;
    struct buf once = {0};
    struct err err = {0};

    log_level = LOG_QUIET;
    if (config_parse(&a, "fuzz", (const char *)data, size, &err) == PAWL_OK) {
        config_write_yaml(a, &once);
        if (config_parse(&b, "again", once.data, once.len, &err) != PAWL_OK) abort();
        if (config_diff(a, b, false, NULL) != 0 || config_hash(a) != config_hash(b)) abort();
    } else if (strchr(err.text, '\n') != NULL) {
        abort();
    }
    config_free(a);
    config_free(b);
    buf_free(&once);
    return 0;
}
