/* Any bytes as a GGUF file: its metadata and tokenizer are read, or it is refused. */
#include "ckpt/gguf.h"
#include "train/text/tokenizer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello <s> \xc3\xb6\n1234";
    char path[64];
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    struct tokens tokens = {0};
    struct err err = {0};
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gguf_open(&g, path, &err) == PAWL_OK) {
        for (size_t i = 0; i < gguf_value_count(g); i++) {
            const struct gguf_value *v = gguf_value_at(g, i);
            for (size_t k = 0; k < v->count && v->strings == NULL; k++)
                if (v->type == GGUF_F32 || v->type == GGUF_F64) gguf_float_at(v, k);
                else gguf_int_at(v, k);
        }
        if (tokenizer_from_gguf(&t, g, &err) == PAWL_OK)
            tokenizer_encode(t, text, sizeof text - 1, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &tokens, &err);
    }
    tokens_free(&tokens);
    tokenizer_close(t);
    gguf_close(g);
    close(fd);
    return 0;
}
