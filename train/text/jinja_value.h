/* Values of templates: Python's, as far as templates can see them. Immutable but for namespaces; all of them lie in the pool of one rendering. */
#ifndef PAWL_TEXT_JINJA_VALUE_H
#define PAWL_TEXT_JINJA_VALUE_H

#include "kernels/base/json.h"
#include "kernels/base/mem.h"
#include "kernels/base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jv_type {
    JV_UNDEFINED, JV_NONE, JV_BOOL, JV_INT,
    JV_BIGINT,    /* an integer beyond 64 bits, as text: it can be printed and compared, not computed with */
    JV_FLOAT, JV_STRING, JV_LIST, JV_DICT, JV_NAMESPACE,
    JV_MACRO, JV_FUNCTION, JV_METHOD, JV_LOOP, JV_CYCLER, JV_JOINER
};

/* What Python would call a JV_LIST; only lists and tuples are JSON, only those and ranges can be indexed. */
enum jv_sequence { JV_A_LIST, JV_A_TUPLE, JV_A_RANGE, JV_A_GENERATOR, JV_A_VIEW, JV_A_KEYS, JV_A_VALUES };

struct jv {
    uint8_t type;
    uint8_t kind;     /* JV_LIST: enum jv_sequence; JV_STRING: 1 if |safe made it Markup */
    uint32_t len;     /* JV_STRING, JV_BIGINT, JV_UNDEFINED: bytes of s */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;            /* UTF-8; JV_UNDEFINED: why, for the error when it is used */
        struct jv_list *list;
        struct jv_dict *dict;     /* JV_DICT, JV_NAMESPACE */
        const struct jv_macro *macro;
        const struct jv_function *function;
        const struct jv_bound *method;
        struct jv_loop *loop;
        struct jv_cycler *cycler; /* JV_CYCLER, JV_JOINER */
    };
};

struct jv_list {
    struct jv *items;
    uint32_t n, cap;
    uint32_t depth; /* of nesting: 1 without containers inside */
};

/* Insertion order, as Python's. */
struct jv_dict {
    struct jv *keys, *values;
    uint32_t n, cap;
    uint32_t depth;
};

/* What recursive functions over values need to be bounded: the evaluator refuses deeper ones. Namespaces are not walked into. */
#define JV_MAX_DEPTH 1000
static inline uint32_t jv_depth(struct jv v)
{
    return v.type == JV_LIST ? v.list->depth : v.type == JV_DICT ? v.dict->depth : 0;
}

struct jv_cycler {
    struct jv_list items;
    uint32_t at; /* a joiner: 1 once it was called */
};

static inline struct jv jv_undefined(const char *why)
{
    uint32_t n = 0;

    while (why[n] != 0) n++;
    return (struct jv){.type = JV_UNDEFINED, .len = n, .s = why};
}
static inline struct jv jv_none(void) { return (struct jv){.type = JV_NONE}; }
static inline struct jv jv_bool(bool b) { return (struct jv){.type = JV_BOOL, .b = b}; }
static inline struct jv jv_int(int64_t i) { return (struct jv){.type = JV_INT, .i = i}; }
static inline struct jv jv_float(double f) { return (struct jv){.type = JV_FLOAT, .f = f}; }
static inline struct jv jv_string(const char *s, size_t len) { return (struct jv){.type = JV_STRING, .len = (uint32_t)len, .s = s}; }
struct jv jv_copy_string(struct pool *pool, const char *s, size_t len);
struct jv jv_new_list(struct pool *pool, enum jv_sequence kind, uint32_t room);
struct jv jv_new_dict(struct pool *pool, uint32_t room);
void jv_push(struct pool *pool, struct jv list, struct jv item);
/* Sets key; the place of a key that is there stays. */
void jv_put(struct pool *pool, struct jv dict, struct jv key, struct jv value);
/* The value of a key; false: none. */
bool jv_get(const struct jv_dict *dict, struct jv key, struct jv *out);
bool jv_get_name(const struct jv_dict *dict, const char *name, struct jv *out);

/* Strings are copied by reference: the JSON must outlive the rendering. */
struct jv jv_from_json(struct pool *pool, const struct json_value *v);

bool jv_is(struct jv v, const char *text); /* v is this string */
bool jv_truth(struct jv v);
bool jv_number(struct jv v);               /* int, bool or float */
double jv_to_double(struct jv v);          /* of a number */
bool jv_equal(struct jv a, struct jv b);
/* -1, 0, 1; false where Python has no order for the two. */
bool jv_compare(struct jv a, struct jv b, int *order);
const char *jv_type_name(struct jv v);     /* "str", "dict", ... */

/* Adds str(v), repr(v). */
void jv_add_str(struct buf *out, struct jv v);
void jv_add_repr(struct buf *out, struct jv v);
void jv_add_float(struct buf *out, double f); /* repr of a float */

/* json.dumps. indent NULL: one line. Separators NULL: Python's defaults. Returns NULL, or the name of the type that is no JSON. */
struct jv_dump {
    const char *indent;
    size_t indent_len;
    const char *item_separator, *key_separator;
    size_t item_len, key_len;
    bool ensure_ascii, sort_keys;
};
const char *jv_add_json(struct buf *out, struct jv v, const struct jv_dump *how);

/* Code points of strings, as Python counts them. */
size_t jv_length(const char *s, size_t len);
size_t jv_offset(const char *s, size_t len, size_t index); /* byte of code point `index`; len beyond the end */
bool jv_space(uint32_t cp);                                /* str.isspace */
bool jv_printable(uint32_t cp);                            /* str.isprintable */

#endif
