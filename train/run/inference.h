/* A model ready to answer: base, adapter, tokenizer and template, opened for eval and generate.
 *
 * An adapter that pawl trained carries its config.yaml: the base is then stored and the template chosen as in training, unless asked otherwise. */
#ifndef PAWL_RUN_INFERENCE_H
#define PAWL_RUN_INFERENCE_H

#include "train/model/net.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

struct inference_options {
    const char *model;         /* directory, .gguf or hub id; NULL: what the adapter's configuration names */
    const char *adapter;       /* a PEFT adapter directory, or NULL */
    const char *chat_template; /* a name, or a file of Jinja source; NULL: the adapter's or the model's own */
    const char *device;
    int64_t threads;
    bool load_in_4bit, load_in_8bit, fp32;
};

struct inference {
    struct dev *dev;
    struct model *model;
    struct lora lora;      /* r 0 without an adapter */
    struct arena adapter;  /* theta and operand, on the device */
    float *theta;
    act *operand;
    struct tokenizer *tokenizer;
    struct chat_template *chat; /* NULL: the model has none */
    struct config *trained;     /* the adapter's configuration, or NULL */
};

enum pawl_status inference_open(struct inference *in, const struct inference_options *opt, struct err *err);
void inference_close(struct inference *in); /* a zeroed one is allowed */

#endif
