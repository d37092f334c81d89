/* What tests of data sets share: the golden tokenizer, ChatML, a scratch folder, and files in it. */
#ifndef PAWL_TESTS_DATA_FIXTURE_H
#define PAWL_TESTS_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"
#include "train/data/dataset.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* DIR, the scratch folder, is named by whoever includes this: tests run side by side. */
static struct tokenizer *tokenizer;
static struct chat_template *chatml;

static inline void write_bytes(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static inline struct dataset_config part(const char *path, int type)
{
    return (struct dataset_config){.path = (char *)path, .type = type, .weight = 1};
}

static inline struct dataset_options options(void)
{
    return (struct dataset_options){.tokenizer = tokenizer, .chat = chatml, .sequence_len = 2048, .threads = 1, .quiet = true};
}

static inline struct dataset *open_with(struct dataset_config p, struct dataset_options o)
{
    struct dataset *d = NULL;
    struct err err = {0};

    if (dataset_open(&d, &p, 1, &o, &err) != PAWL_OK) fail_msg("%s", err.text);
    return d;
}

static inline struct dataset *open_text(const char *text, int type)
{
    write_text(DIR "/a.jsonl", text);
    return open_with(part(DIR "/a.jsonl", type), options());
}

/* n examples of completion text of many lengths. */
static inline void write_many(const char *path, int n)
{
    FILE *f = fopen(path, "w");
    unsigned x = 12345;

    for (int i = 0; i < n; i++) {
        fprintf(f, "{\"text\": \"%d ", i);
        x = x * 1103515245 + 12345;
        for (unsigned k = 0; k < 8 + (x >> 16) % 203; k++) fputs(k % 7 ? "ab " : "the ", f);
        fputs("\"}\n", f);
    }
    fclose(f);
}

static inline int fixture_set_up(void **state)
{
    struct err err = {0};

    log_level = LOG_QUIET;
    if (system("rm -rf " DIR) != 0) return -1;
    mkdir(DIR, 0777);
    if (tokenizer_open(&tokenizer, PAWL_TESTS "/golden/llama", &err) != PAWL_OK || chat_template_builtin(&chatml, "chatml", &err) != PAWL_OK) fail_msg("%s", err.text);
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    tokenizer_close(tokenizer);
    chat_template_free(chatml);
    return system("rm -rf " DIR);
}

#endif
