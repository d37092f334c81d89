/* What a record says, before any tokenizer: pieces of plain text, or the messages of a conversation. */
#ifndef PAWL_DATA_RECORD_H
#define PAWL_DATA_RECORD_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/pool.h"
#include "train/config/config.h"

#include <stdbool.h>
#include <stddef.h>

/* The type that fits the keys of a record; DATASET_AUTO where none does. */
enum dataset_type record_guess(const struct json_value *record, const struct dataset_config *part);
/* "messages" and so on as a person writes them: the keys that a type needs. */
const char *record_keys(enum dataset_type type);
/* Adds the record's own keys, "a, b, c", to out. */
void record_list_keys(const struct json_value *record, struct buf *out);
/* Whether what the record holds goes through the chat template: messages, or prompt and completion as lists of them. */
bool record_is_chat(const struct json_value *record, enum dataset_type type);

/* --- pieces: text that follows one upon the other */

struct piece {
    const char *text; /* belongs to the record or is static */
    size_t len;
    bool supervised;
    bool said;        /* what a user filled in: special tokens in it are suspicious */
};

/* Zero-initialise, use again; free with pieces_free. */
struct pieces {
    struct piece *at;
    size_t n, cap;
    bool bos, eos;    /* to be put around them */
};
enum pawl_status pieces_read(struct pieces *out, enum dataset_type type, const struct dataset_config *part, const struct json_value *record, struct err *err);
void pieces_free(struct pieces *p);

/* --- messages: as a chat template wants them */

/* Zero-initialise, use again; free with messages_free. Values are valid until the next reading, while the record lives. */
struct messages {
    struct json_value list;          /* array of objects with role, content, ... */
    bool *train;                     /* (list.len) its tokens are supervised */
    const struct json_value *tools;  /* NULL: none */
    const struct json_value *extra;  /* object of template variables (chat_template_kwargs); NULL: none */
    struct pool pool;
    struct json **parsed;            /* JSON that stood in strings */
    size_t n_parsed;
};
/* Roles are translated, mapped properties renamed, text parts joined, arguments of tool calls parsed where they are JSON in a string, the system message put
 * in front or dropped. Errors name the message. */
enum pawl_status messages_read(struct messages *out, enum dataset_type type, const struct dataset_config *part, const struct json_value *record, struct err *err);
void messages_free(struct messages *m);

#endif
