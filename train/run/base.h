/* What a configuration or a command line names, opened: model, tokenizer, chat template. Shared by train, eval, generate and data. */
#ifndef PAWL_RUN_BASE_H
#define PAWL_RUN_BASE_H

#include "train/config/config.h"
#include "train/model/model.h"
#include "train/text/chat.h"
#include "train/text/tokenizer.h"

/* The tokenizer of a model directory or .gguf file, checked against the rows of its embedding (V; 0: not checked): ids beyond it are an error. special_tokens and
 * eot_tokens of the configuration (which may be NULL) must be tokens of the vocabulary; bos_token, eos_token, pad_token and unk_token take their roles, and the
 * end of a turn is found from the template itself. */
enum pawl_status base_tokenizer(struct tokenizer **out, const char *path, int64_t V, const struct config *c, struct err *err);

/* chat_template and chat_template_jinja as INTERFACE names them: "tokenizer_default" or NULL, a built-in name, or "jinja" with a file or the text itself.
 * *out = NULL without an error where tokenizer_default is asked for and the model has none: only chat data needs one. */
enum pawl_status base_template(struct chat_template **out, const char *model_path, const char *name, const char *jinja, struct err *err);

#endif
