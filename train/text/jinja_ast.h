/* A template as a tree. Nodes and their text live in the template's pool; names are interned, so equal names are equal pointers. */
#ifndef PAWL_TEXT_JINJA_AST_H
#define PAWL_TEXT_JINJA_AST_H

#include "train/text/jinja.h"
#include "train/text/jinja_value.h"

#define JINJA_MAX_NESTING 200 /* of expressions and statements in a source */

enum jn_kind {
    /* expressions */
    JN_CONST,     /* value */
    JN_NAME,      /* text */
    JN_LIST, JN_TUPLE, /* list */
    JN_DICT,      /* list: key, value, key, value ... */
    JN_NOT, JN_NEG, JN_POS, /* a */
    JN_AND, JN_OR, JN_BINARY, /* a op b */
    JN_COMPARE,   /* a, then list: JN_OPERAND (op, a) */
    JN_OPERAND,
    JN_CONCAT,    /* list */
    JN_IF_ELSE,   /* a if b else c; c may be NULL */
    JN_ATTR,      /* a.text */
    JN_ITEM,      /* a[b] */
    JN_SLICE,     /* a:b:c, each may be NULL; only as b of JN_ITEM */
    JN_CALL,      /* a(args) */
    JN_FILTER,    /* a|text(args); a is NULL in filter blocks */
    JN_TEST,      /* a is text(args); op 1: negated */
    JN_KEYWORD,   /* text = a, among arguments */
    JN_STAR, JN_STAR_STAR, /* *a, **a among arguments */
    /* statements */
    JN_TEXT,      /* text */
    JN_OUTPUT,    /* {{ a }} */
    JN_BODY,      /* list */
    JN_IF,        /* a: condition, b: body, c: else (JN_IF or JN_BODY) or NULL */
    JN_FOR,       /* a: target, b: iterable, c: filter or NULL, d: body, e: else or NULL; op 1: recursive */
    JN_SET,       /* a: target, b: value */
    JN_SET_BLOCK, /* a: target, b: body, list: filters */
    JN_MACRO,     /* text, list: parameters (JN_PARAM), b: body */
    JN_CALL_BLOCK, /* a: call, list: parameters of caller, b: body */
    JN_PARAM,     /* text, a: default or NULL */
    JN_FILTER_BLOCK, /* list: filters, b: body */
    JN_WITH,      /* list: target, value, target, value ...; b: body */
    JN_SCOPE,     /* b: body with names of its own */
    JN_GENERATION, /* b: body */
    JN_DO,        /* a */
    JN_BREAK, JN_CONTINUE
};

enum jn_op {
    JOP_ADD, JOP_SUB, JOP_MUL, JOP_DIV, JOP_FLOORDIV, JOP_MOD, JOP_POW, JOP_EQ, JOP_NE, JOP_LT, JOP_LE, JOP_GT, JOP_GE, JOP_IN, JOP_NOT_IN
};

struct jn {
    uint8_t kind, op;
    uint32_t line, len, n; /* len: of text; n: of list */
    const char *text;
    struct jn *a, *b, *c, *d, *e;
    struct jn **list;      /* also the arguments of JN_CALL, JN_FILTER, JN_TEST */
    struct jv value;
};

struct jinja_template {
    struct pool pool;
    char *name;
    struct jn *root;
    bool has_generation;
    const char **names; /* interned, sorted by nothing: few */
    size_t n_names, names_cap;
};

/* Words of the source. */
enum jt_kind { JT_TEXT, JT_OUTPUT_BEGIN, JT_OUTPUT_END, JT_BLOCK_BEGIN, JT_BLOCK_END, JT_NAME, JT_STRING, JT_INT, JT_FLOAT, JT_OP, JT_EOF };

struct jt {
    enum jt_kind kind;
    uint32_t line;
    const char *text; /* JT_OP: a string of its own ("==") */
    size_t len;
};

/* All words, JT_EOF last, in memory of pool; *n of them. */
enum pawl_status jinja_lex(struct pool *pool, const char *name, const char *source, size_t len, struct jt **out, size_t *n, struct err *err);

#endif
