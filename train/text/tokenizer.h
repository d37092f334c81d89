/* Text to token ids and back, as the model's own tokenizer does it.
 *
 * Read from a Hugging Face tokenizer.json (BPE: byte-level, or SentencePiece style with byte fallback; Unigram; normalizers, pre-tokenizers,
 * post-processors, decoders and added tokens), or from the metadata of a GGUF file (`gpt2` with llama.cpp's pre-tokenizer names, `llama`).
 * Ids equal the tokenizers library's and llama.cpp's. A part that is not known is refused by name: wrong ids are never made in silence.
 *
 * A tokenizer does not change after it was opened: any number of threads may use one. Time and memory are linear in the text (n log n in one word). */
#ifndef PAWL_TEXT_TOKENIZER_H
#define PAWL_TEXT_TOKENIZER_H

#include "kernels/base/err.h"
#include "kernels/base/json.h"
#include "kernels/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* path: a tokenizer.json, a directory that holds one (tokenizer_config.json and special_tokens_map.json beside it name BOS, EOS, PAD), or a .gguf file. */
enum pawl_status tokenizer_open(struct tokenizer **out, const char *path, struct err *err);
/* The parsed content of a tokenizer.json, which is not needed afterwards. */
enum pawl_status tokenizer_from_json(struct tokenizer **out, const struct json_value *root, struct err *err);
void tokenizer_close(struct tokenizer *t); /* NULL is allowed */

/* The tokenizer.ggml.* metadata of an open GGUF file, which is not needed afterwards. */
struct gguf;
enum pawl_status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g, struct err *err);

/* A growing list of tokens. Zero-initialise; free with tokens_free. */
struct tokens {
    int32_t *ids;
    size_t *at; /* the byte of the text at which each token begins: token i stands for [at[i], at[i+1]). A token that the post-processor adds has the place
                 * where it stands; a normalizer that rewrites text makes places approximate to the word. */
    size_t n, cap;
};
void tokens_add(struct tokens *list, int32_t id, size_t at);
void tokens_free(struct tokens *list); /* and zeroes it */

enum tokenizer_flags {
    TOKENIZER_ADD_SPECIAL = 1,   /* BOS and what else the post-processor adds around a text */
    TOKENIZER_PARSE_SPECIAL = 2, /* "<|im_end|>" in the text is that token; without: it is eleven characters */
};

/* Adds the tokens of text to *out. PAWL_EINVAL, with the byte offset, where the text is not UTF-8. */
enum pawl_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags, struct tokens *out, struct err *err);

enum tokenizer_decode_flags {
    TOKENIZER_SKIP_SPECIAL = 1, /* special tokens are left out */
    TOKENIZER_CLEAN_SPACES = 2, /* " ," becomes ",", as llama.cpp does for vocabularies that ask for it; not the text that was encoded */
};

/* Adds the text of the ids to *out. Bytes that are not UTF-8 become U+FFFD. An id outside of the vocabulary is nothing. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags, struct buf *out);

/* The same, token by token: what cannot change any more is added to *out; an unfinished character waits. Zero-initialise; tokenizer_stream_end
 * adds what is left and frees. */
struct tokenizer_stream {
    int32_t *ids;      /* those that the text still depends on */
    size_t n, cap;
    size_t old;        /* of them, the first `old` are context: their text is out already */
};
void tokenizer_stream_push(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id, unsigned flags, struct buf *out);
void tokenizer_stream_end(const struct tokenizer *t, struct tokenizer_stream *s, unsigned flags, struct buf *out);

/* The highest id + 1: an embedding needs at least as many rows. */
size_t tokenizer_size(const struct tokenizer *t);
/* Id of the token that is written so in the vocabulary ("<|im_end|>"), -1: there is none. */
int32_t tokenizer_id(const struct tokenizer *t, const char *name, size_t len);
/* How the vocabulary writes a token; NULL for an id without one. */
const char *tokenizer_name(const struct tokenizer *t, int32_t id, size_t *len);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

enum tokenizer_role { TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_PAD, TOKENIZER_UNK };
/* -1: the tokenizer's files do not name one. */
int32_t tokenizer_special(const struct tokenizer *t, enum tokenizer_role role);
/* Gives a role another token, as a configuration's special_tokens says; before the tokenizer is used. */
void tokenizer_set_special(struct tokenizer *t, enum tokenizer_role role, int32_t id);
/* Whether TOKENIZER_ADD_SPECIAL puts BOS in front: a text whose template wrote BOS already must then be encoded without it. */
bool tokenizer_adds_bos(const struct tokenizer *t);

/* A hash of all that decides about ids; key of token caches. */
uint64_t tokenizer_hash(const struct tokenizer *t);

#endif
