#include "ckpt/tensor.h"

#include <stdio.h>

bool tensor_measure(struct tensor *t)
{
    const struct dtype_info *info = &dtype_info[t->dtype];
    int64_t n = 1, bytes;

    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(n, t->shape[i], &n)) return false;
    if ((t->rank ? t->shape[t->rank - 1] : 1) % info->block) return false;
    if (__builtin_mul_overflow(n / info->block, (int64_t)info->bytes, &bytes)) return false;
    t->bytes = (size_t)bytes;
    return true;
}

bool tensor_name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) return false;
    return len > 0;
}

char *tensor_shape_text(char text[192], int rank, const int64_t *shape)
{
    size_t at = 0;

    text[at++] = '(';
    for (int i = 0; i < rank; i++) at += (size_t)snprintf(text + at, 192 - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(text + at, 192 - at, ")");
    return text;
}
