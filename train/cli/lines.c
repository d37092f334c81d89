#include "train/cli/lines.h"

#include <stdlib.h>
#include <string.h>

static bool blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strchr(" \t\r\n", s[i]) == NULL || s[i] == 0) return false;
    return true;
}

enum pawl_status lines_answer(FILE *in, enum pawl_status (*answer)(void *context, const struct json_value *line, struct buf *out, struct err *err), void *context,
                              struct err *err)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    struct buf out = {0};
    enum pawl_status st = PAWL_OK;

    for (ssize_t len; st == PAWL_OK && (len = getline(&line, &room, in)) >= 0;) {
        struct json *j = NULL;
        number++;
        if (blank(line, (size_t)len)) continue;
        out.len = 0;
        st = json_parse(&j, line, (size_t)len, err);
        if (st == PAWL_OK) st = answer(context, json_root(j), &out, err);
        if (st != PAWL_OK) err_prefix(err, "stdin, line %zu", number);
        json_free(j);
        if (st != PAWL_OK) break;
        buf_addc(&out, '\n');
        if (fwrite(out.data, 1, out.len, stdout) != out.len) st = err_sys(err, "stdout: cannot be written");
    }
    if (st == PAWL_OK && ferror(in)) st = err_sys(err, "stdin: cannot be read");
    if (fflush(stdout) != 0 && st == PAWL_OK) st = err_sys(err, "stdout: cannot be written");
    free(line);
    buf_free(&out);
    return st;
}
