/* Answers to prompts, many at a time: each finished sequence makes room for the next prompt. */
#ifndef PAWL_RUN_GENERATE_H
#define PAWL_RUN_GENERATE_H

#include "train/model/net.h"
#include "train/run/prompt.h"
#include "train/run/sample.h"
#include "train/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct generate_options {
    struct sample_options sample;
    int max_tokens;          /* of an answer */
    const char *const *stop; /* an answer ends before the first of these texts */
    size_t nstop;
    int parallel;            /* sequences at a time */
};

struct answer {
    const char *text; /* without end-of-turn or stop text */
    size_t len;
    int tokens;
    const char *finish; /* "stop": end of turn or stop text; "length": max_tokens */
};

/* Prompts 0..n-1, numbered first.. for the sampler. done is called once a prompt, in any order; text is valid during the call only. piece (may be NULL) is called
 * with each new stretch of text of a prompt. PAWL_ESTOPPED after a request to stop. */
enum pawl_status generate(struct dev *dev, const struct model *model, const struct lora *lora, const act *operand, const struct tokenizer *tokenizer, const struct prompt *prompts,
                          size_t n, int64_t first, const struct generate_options *opt, void (*done)(void *ctx, size_t i, const struct answer *a),
                          void (*piece)(void *ctx, size_t i, const char *text, size_t len), void *ctx, struct err *err);

#endif
