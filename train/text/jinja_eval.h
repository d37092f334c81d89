/* The evaluator's inside, shared by expressions, statements, filters, tests and methods. An error ends the rendering by longjmp: everything that is
 * allocated lies in the pool or in the output, which jinja_render cleans up. */
#ifndef PAWL_TEXT_JINJA_EVAL_H
#define PAWL_TEXT_JINJA_EVAL_H

#include "train/text/jinja_ast.h"

#include <setjmp.h>
#include <time.h>

/* Bounds of one rendering. A conversation of a megabyte needs a few percent of each. */
#define JINJA_MAX_STEPS 50000000          /* nodes evaluated, elements looked at */
#define JINJA_MAX_DEPTH 1500              /* of nested evaluation, macros included */
#define JINJA_MAX_MEMORY ((size_t)1 << 30)
#define JINJA_MAX_OUTPUT ((size_t)256 << 20)

struct jframe {
    struct jframe *parent;
    struct jbinding {
        const char *name; /* interned */
        struct jv value;
    } *vars;
    uint32_t n, cap;
};

struct jev {
    const struct jinja_template *t;
    struct pool pool;
    struct buf *out;
    struct jinja_marks *marks; /* NULL: not asked for */
    const struct tm *now;
    struct jframe *frame;
    uint64_t steps;
    int depth;
    uint32_t line;   /* of what is being evaluated */
    bool raised;     /* the template called raise_exception */
    char *tail;      /* where the string that was made last ends in memory, and the room behind it: appending to that string copies nothing */
    size_t tail_room;
    struct err *err;
    jmp_buf failed;
};

/* Arguments of a call. */
struct jargs {
    struct jv *at;
    uint32_t n;
    struct jbinding *named; /* names are interned or static: compare the text */
    uint32_t n_named;
    struct jv caller;       /* of {% call %}; JV_UNDEFINED: none */
};

struct jv_macro {
    const struct jn *node;  /* JN_MACRO or JN_CALL_BLOCK */
    struct jframe *scope;
};

struct jv_function {
    const char *name;
    struct jv (*call)(struct jev *e, const struct jargs *a);
};

struct jmethod {
    const char *name;
    struct jv (*call)(struct jev *e, struct jv self, const struct jargs *a);
};

struct jv_bound {
    struct jv self;
    const struct jmethod *method;
};

struct jv_loop {
    const struct jn *node;     /* JN_FOR */
    struct jframe *scope;      /* where a recursive call evaluates */
    struct jv_list *items;
    uint32_t index0, depth0;
    struct jv changed;         /* what loop.changed saw last */
};

_Noreturn void jfail(struct jev *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void jsteps(struct jev *e, uint64_t n); /* counts work; fails over the limit */
/* Fails where the rendering could not hold `more` bytes. */
void jroom(struct jev *e, size_t more);
void *jalloc(struct jev *e, size_t size);

struct jv jeval(struct jev *e, const struct jn *n);
struct jv jcall(struct jev *e, struct jv callee, const struct jargs *a);
struct jv jattr(struct jev *e, struct jv v, const char *name, size_t len); /* v.name */
struct jv jitem(struct jev *e, struct jv v, struct jv key);                /* v[key] */
/* The elements of anything that can be iterated; fails for the rest. */
struct jv_list *jiterate(struct jev *e, struct jv v);
bool jcontains(struct jev *e, struct jv in, struct jv what);
struct jv jbinary(struct jev *e, enum jn_op op, struct jv a, struct jv b);
struct jv jcompare(struct jev *e, const struct jn *n);             /* a chain: a < b == c */
struct jv jslice(struct jev *e, struct jv v, const struct jn *n);  /* v[a:b:c] */
struct jv jundefined(struct jev *e, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* a value that fails with this text where it is used */
_Noreturn void juse_of_undefined(struct jev *e, struct jv v);
struct jv jconcat(struct jev *e, struct jv a, struct jv b); /* of two strings */
struct jv jstr(struct jev *e, struct jv v);                 /* str(v) */
struct jv jtake(struct jev *e, struct buf *b);              /* the text of b as a value; b is freed */
struct jv jcapture(struct jev *e, const struct jn *body);   /* what the body would have printed */
/* Text that is put together while something may fail is written behind the output, which nobody has to free: jtext_end makes a value of all that was added to
 * e->out since jtext_begin and takes it away again. */
size_t jtext_begin(const struct jev *e);
struct jv jtext_end(struct jev *e, size_t begin);
void jpush(struct jev *e, struct jv list, struct jv item);  /* jv_push, counted and bounded */

/* Argument `i`, or the one of that name; `fallback` if there is neither. */
struct jv jarg(const struct jargs *a, uint32_t i, const char *name, struct jv fallback);
int64_t jarg_int(struct jev *e, const struct jargs *a, uint32_t i, const char *name, int64_t fallback);
struct jv jarg_string(struct jev *e, const struct jargs *a, uint32_t i, const char *name); /* required */

struct jv jfilter(struct jev *e, const char *name, struct jv v, const struct jargs *a);
bool jtest(struct jev *e, const char *name, struct jv v, const struct jargs *a);
const struct jmethod *jmethod_of(struct jv v, const char *name, size_t len); /* NULL: none */
const struct jv_function *jfunction(const char *name);                       /* a global; NULL: none */
struct jv jformat_percent(struct jev *e, struct jv format, struct jv args);  /* "..." % args */
struct jv jformat_braces(struct jev *e, struct jv format, const struct jargs *a);
int64_t jinteger(struct jv v); /* of a bool or an int */
bool jfilter_is(const char *name), jtest_is(const char *name); /* there is one of that name */
void jnamespace_name(struct jev *e, struct jv name); /* fails where a namespace may not hold it, as transformers has it */

#endif
