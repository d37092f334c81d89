/* Statements and expressions. */
#include "train/text/jinja_eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void jfail(struct jev *e, const char *fmt, ...)
{
    char text[1800];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    /* What the template itself says stands alone: it is written for people. */
    if (e->raised) err_set(e->err, PAWL_EINVAL, "%s", text);
    else err_set(e->err, PAWL_EINVAL, "%.200s, line %u: %s", e->t->name, e->line, text);
    longjmp(e->failed, 1);
}

void jsteps(struct jev *e, uint64_t n)
{
    e->steps += n;
    if (e->steps > JINJA_MAX_STEPS) jfail(e, "the template does more than %d steps and is stopped", JINJA_MAX_STEPS);
}

void jroom(struct jev *e, size_t more)
{
    if (more > JINJA_MAX_MEMORY || e->pool.used + more > JINJA_MAX_MEMORY) jfail(e, "the template needs more than 1 GiB of memory and is stopped");
}

void *jalloc(struct jev *e, size_t size)
{
    jroom(e, size);
    return pool_alloc(&e->pool, size);
}

int64_t jinteger(struct jv v)
{
    return v.type == JV_BOOL ? v.b : v.i;
}

/* ---- strings ---- */

struct jv jtake(struct jev *e, struct buf *b)
{
    if (b->len > JINJA_MAX_OUTPUT || e->pool.used + b->len > JINJA_MAX_MEMORY) {
        buf_free(b);
        jroom(e, JINJA_MAX_MEMORY);
    }
    struct jv v = jv_copy_string(&e->pool, b->data ? b->data : "", b->len);
    buf_free(b);
    return v;
}

struct jv jstr(struct jev *e, struct jv v)
{
    struct buf b = {0};

    if (v.type == JV_STRING) return v;
    jv_add_str(&b, v);
    return jtake(e, &b);
}

struct jv jconcat(struct jev *e, struct jv a, struct jv b)
{
    size_t len = (size_t)a.len + b.len;

    if (len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
    if (b.len == 0) return a;
    if (a.len == 0) return b;
    if (e->tail != a.s + a.len || e->tail_room < b.len) {
        size_t room = len + len / 2 + 64;
        char *s = jalloc(e, room);
        memcpy(s, a.s, a.len);
        a.s = s;
        e->tail = s + a.len;
        e->tail_room = room - a.len;
    }
    memcpy(e->tail, b.s, b.len);
    e->tail += b.len;
    e->tail_room -= b.len;
    return jv_string(a.s, len);
}

static void print(struct jev *e, const char *s, size_t len)
{
    if (e->out->len + len > JINJA_MAX_OUTPUT) jfail(e, "the text grows beyond 256 MiB and is stopped");
    buf_add(e->out, s, len);
}

enum flow { GO, BREAK, CONTINUE };
static enum flow exec(struct jev *e, const struct jn *n);

size_t jtext_begin(const struct jev *e)
{
    return e->out->len;
}

struct jv jtext_end(struct jev *e, size_t begin)
{
    size_t len = e->out->len - begin;

    jroom(e, len);
    if (e->out->len > JINJA_MAX_OUTPUT) jfail(e, "a string of more than 256 MiB");
    struct jv v = jv_copy_string(&e->pool, len ? e->out->data + begin : "", len);
    e->out->len = begin;
    return v;
}

void jpush(struct jev *e, struct jv list, struct jv item)
{
    jsteps(e, 1);
    jroom(e, 64);
    jv_push(&e->pool, list, item);
}

struct jv jcapture(struct jev *e, const struct jn *body)
{
    size_t begin = jtext_begin(e);

    exec(e, body);
    struct jv v = jtext_end(e, begin);
    while (e->marks != NULL && e->marks->n > 0 && e->marks->items[e->marks->n - 1].end > begin) e->marks->n--; /* what is captured has no place yet */
    return v;
}

/* ---- names ---- */

void jnamespace_name(struct jev *e, struct jv name)
{
    if (name.type == JV_STRING && name.len > 0 && name.s[0] == '_') jfail(e, "a namespace cannot hold '%.*s': names that begin with _ are refused", (int)(name.len < 100 ? name.len : 100), name.s);
}

static struct jframe *push_frame(struct jev *e, struct jframe *parent)
{
    struct jframe *f = jalloc(e, sizeof *f);

    *f = (struct jframe){.parent = parent};
    return f;
}

static void bind(struct jev *e, struct jframe *f, const char *name, struct jv value)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->vars[i].name == name) {
            f->vars[i].value = value;
            return;
        }
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? 2 * f->cap : 4;
        struct jbinding *more = jalloc(e, cap * sizeof *more);
        if (f->n > 0) memcpy(more, f->vars, f->n * sizeof *more);
        f->vars = more;
        f->cap = cap;
    }
    f->vars[f->n++] = (struct jbinding){name, value};
}

static struct jv lookup(struct jev *e, const struct jn *n)
{
    for (const struct jframe *f = e->frame; f != NULL; f = f->parent)
        for (uint32_t i = 0; i < f->n; i++)
            if (f->vars[i].name == n->text) return f->vars[i].value;
    return jundefined(e, "'%.200s' is undefined", n->text);
}

static void assign(struct jev *e, const struct jn *target, struct jv value)
{
    if (target->kind == JN_NAME) {
        bind(e, e->frame, target->text, value);
    } else if (target->kind == JN_ATTR) {
        struct jv of = lookup(e, target->a);
        if (of.type != JV_NAMESPACE) jfail(e, "cannot assign attribute on non-namespace object");
        jnamespace_name(e, jv_string(target->text, target->len));
        jroom(e, 64);
        jsteps(e, of.dict->n);
        jv_put(&e->pool, of, jv_string(target->text, target->len), value);
    } else {
        struct jv_list *items = jiterate(e, value);
        if (items->n != target->n) jfail(e, "%u values to unpack into %u names", items->n, target->n);
        for (uint32_t i = 0; i < target->n; i++) assign(e, target->list[i], items->items[i]);
    }
}

/* ---- calls ---- */

struct jv jarg(const struct jargs *a, uint32_t i, const char *name, struct jv fallback)
{
    if (i < a->n) return a->at[i];
    for (uint32_t k = 0; name != NULL && k < a->n_named; k++)
        if (strcmp(a->named[k].name, name) == 0) return a->named[k].value;
    return fallback;
}

int64_t jarg_int(struct jev *e, const struct jargs *a, uint32_t i, const char *name, int64_t fallback)
{
    struct jv v = jarg(a, i, name, jv_int(fallback));

    if (v.type == JV_NONE) return fallback;
    if (v.type != JV_INT && v.type != JV_BOOL) jfail(e, "%s must be an integer, not %s", name ? name : "the argument", jv_type_name(v));
    return jinteger(v);
}

struct jv jarg_string(struct jev *e, const struct jargs *a, uint32_t i, const char *name)
{
    struct jv v = jarg(a, i, name, jv_undefined("an argument is missing"));

    if (v.type == JV_UNDEFINED) juse_of_undefined(e, v);
    if (v.type != JV_STRING) jfail(e, "%s must be a string, not %s", name ? name : "the argument", jv_type_name(v));
    return v;
}

static void add_named(struct jev *e, struct jargs *a, uint32_t *cap, const char *name, struct jv value)
{
    if (a->n_named == *cap) {
        *cap = *cap ? 2 * *cap : 4;
        struct jbinding *more = jalloc(e, *cap * sizeof *more);
        if (a->n_named > 0) memcpy(more, a->named, a->n_named * sizeof *more);
        a->named = more;
    }
    a->named[a->n_named++] = (struct jbinding){name, value};
}

static struct jargs arguments(struct jev *e, const struct jn *n)
{
    struct jargs a = {0};
    uint32_t cap = 0;
    struct jv list;

    if (n->n == 0) return a;
    list = jv_new_list(&e->pool, JV_A_LIST, n->n);
    for (uint32_t i = 0; i < n->n; i++) {
        const struct jn *arg = n->list[i];
        struct jv v = jeval(e, arg->kind == JN_KEYWORD || arg->kind == JN_STAR || arg->kind == JN_STAR_STAR ? arg->a : arg);
        if (arg->kind == JN_KEYWORD) {
            add_named(e, &a, &cap, arg->text, v);
        } else if (arg->kind == JN_STAR) {
            struct jv_list *l = jiterate(e, v);
            for (uint32_t k = 0; k < l->n; k++) jpush(e, list, l->items[k]);
        } else if (arg->kind == JN_STAR_STAR) {
            if (v.type != JV_DICT) jfail(e, "argument after ** must be a mapping, not %s", jv_type_name(v));
            for (uint32_t k = 0; k < v.dict->n; k++) {
                struct jv key = jstr(e, v.dict->keys[k]);
                add_named(e, &a, &cap, pool_strndup(&e->pool, key.s, key.len), v.dict->values[k]);
            }
        } else {
            jv_push(&e->pool, list, v);
        }
    }
    a.at = list.list->items;
    a.n = list.list->n;
    return a;
}

static const char *interned(const struct jev *e, const char *name)
{
    for (size_t i = 0; i < e->t->n_names; i++)
        if (strcmp(e->t->names[i], name) == 0) return e->t->names[i];
    return NULL;
}

/* Runs the body of a macro or of a caller in a frame below the one where it was written. */
static struct jv call_macro(struct jev *e, const struct jv_macro *m, const struct jargs *a)
{
    struct jframe *saved = e->frame, *f = push_frame(e, m->scope);
    const struct jn *n = m->node;
    const char *name = n->kind == JN_MACRO ? n->text : "caller", *special;
    uint32_t line = e->line;

    for (uint32_t i = 0; i < n->n; i++) {
        struct jv missing = jundefined(e, "parameter '%.100s' was not provided", n->list[i]->text), v = jarg(a, i, n->list[i]->text, missing);
        if (v.type == JV_UNDEFINED && v.s == missing.s && n->list[i]->a != NULL) {
            e->frame = f;
            v = jeval(e, n->list[i]->a);
            e->frame = saved;
        }
        bind(e, f, n->list[i]->text, v);
    }
    if ((special = interned(e, "varargs")) != NULL) {
        struct jv rest = jv_new_list(&e->pool, JV_A_TUPLE, 0);
        for (uint32_t i = n->n; i < a->n; i++) jv_push(&e->pool, rest, a->at[i]);
        bind(e, f, special, rest);
    } else if (a->n > n->n) {
        jfail(e, "macro '%.100s' takes not more than %u argument(s)", name, n->n);
    }
    struct jv rest = jv_new_dict(&e->pool, 0);
    for (uint32_t k = 0; k < a->n_named; k++) {
        uint32_t i = 0;
        while (i < n->n && strcmp(n->list[i]->text, a->named[k].name) != 0) i++;
        if (i == n->n) jv_put(&e->pool, rest, jv_string(a->named[k].name, strlen(a->named[k].name)), a->named[k].value);
    }
    if ((special = interned(e, "kwargs")) != NULL) bind(e, f, special, rest);
    else if (rest.dict->n > 0) jfail(e, "macro '%.100s' takes no keyword argument '%.100s'", name, rest.dict->keys[0].s);
    if ((special = interned(e, "caller")) != NULL && a->caller.type != JV_UNDEFINED) bind(e, f, special, a->caller);

    e->frame = f;
    struct jv out = jcapture(e, n->b);
    e->frame = saved;
    e->line = line;
    return out;
}

static void run_loop(struct jev *e, const struct jn *n, struct jv over, struct jframe *scope, uint32_t depth0);

struct jv jcall(struct jev *e, struct jv callee, const struct jargs *a)
{
    switch (callee.type) {
    case JV_MACRO: return call_macro(e, callee.macro, a);
    case JV_FUNCTION: return callee.function->call(e, a);
    case JV_METHOD: return callee.method->method->call(e, callee.method->self, a);
    case JV_LOOP: { /* loop(children) of a recursive loop */
        if (!callee.loop->node->op) jfail(e, "the loop must have the 'recursive' marker to be called recursively");
        size_t begin = jtext_begin(e);
        run_loop(e, callee.loop->node, jarg(a, 0, "iterable", jv_none()), callee.loop->scope, callee.loop->depth0 + 1);
        return jtext_end(e, begin);
    }
    case JV_JOINER:
        if (callee.cycler->at == 0) {
            callee.cycler->at = 1;
            return jv_string("", 0);
        }
        return callee.cycler->items.items[0];
    case JV_UNDEFINED: juse_of_undefined(e, callee);
    default: jfail(e, "'%s' object is not callable", jv_type_name(callee));
    }
}

/* ---- expressions ---- */

static struct jv container(struct jev *e, const struct jn *n)
{
    if (n->kind == JN_DICT) {
        struct jv out = jv_new_dict(&e->pool, n->n / 2);
        for (uint32_t i = 0; i + 1 < n->n; i += 2) {
            struct jv key = jeval(e, n->list[i]);
            if (key.type == JV_DICT || (key.type == JV_LIST && key.kind != JV_A_TUPLE)) jfail(e, "unhashable type: '%s'", jv_type_name(key));
            jv_put(&e->pool, out, key, jeval(e, n->list[i + 1]));
        }
        return out;
    }
    struct jv out = jv_new_list(&e->pool, n->kind == JN_TUPLE ? JV_A_TUPLE : JV_A_LIST, n->n);
    for (uint32_t i = 0; i < n->n; i++) jv_push(&e->pool, out, jeval(e, n->list[i]));
    return out;
}

static struct jv negative(struct jev *e, struct jv v)
{
    if (v.type == JV_UNDEFINED) juse_of_undefined(e, v);
    if (v.type == JV_FLOAT) return jv_float(-v.f);
    if (!jv_number(v) || (v.type == JV_INT && v.i == INT64_MIN)) jfail(e, "bad operand type for unary -: '%s'", jv_type_name(v));
    return jv_int(-jinteger(v));
}

static struct jv filtered(struct jev *e, const struct jn *n, struct jv v)
{
    struct jargs a = arguments(e, n);

    return jfilter(e, n->text, v, &a);
}

static struct jv evaluate(struct jev *e, const struct jn *n)
{
    struct jv v;

    switch (n->kind) {
    case JN_CONST: return n->value;
    case JN_NAME: return lookup(e, n);
    case JN_LIST:
    case JN_TUPLE:
    case JN_DICT: return container(e, n);
    case JN_NOT: return jv_bool(!jv_truth(jeval(e, n->a)));
    case JN_NEG: return negative(e, jeval(e, n->a));
    case JN_POS:
        v = jeval(e, n->a);
        if (!jv_number(v)) jfail(e, "bad operand type for unary +: '%s'", jv_type_name(v));
        return v.type == JV_BOOL ? jv_int(v.b) : v;
    case JN_AND:
        v = jeval(e, n->a);
        return jv_truth(v) ? jeval(e, n->b) : v;
    case JN_OR:
        v = jeval(e, n->a);
        return jv_truth(v) ? v : jeval(e, n->b);
    case JN_BINARY:
        v = jeval(e, n->a);
        return jbinary(e, n->op, v, jeval(e, n->b));
    case JN_COMPARE: return jcompare(e, n);
    case JN_CONCAT:
        v = jstr(e, jeval(e, n->list[0]));
        for (uint32_t i = 1; i < n->n; i++) v = jconcat(e, v, jstr(e, jeval(e, n->list[i])));
        v.kind = 0;
        return v;
    case JN_IF_ELSE:
        if (jv_truth(jeval(e, n->b))) return jeval(e, n->a);
        return n->c != NULL ? jeval(e, n->c) : jv_undefined("the inline if-expression evaluated to false and no else section was defined");
    case JN_ATTR: return jattr(e, jeval(e, n->a), n->text, n->len);
    case JN_ITEM:
        v = jeval(e, n->a);
        return n->b->kind == JN_SLICE ? jslice(e, v, n->b) : jitem(e, v, jeval(e, n->b));
    case JN_CALL: {
        v = jeval(e, n->a);
        struct jargs a = arguments(e, n);
        e->line = n->line;
        return jcall(e, v, &a);
    }
    case JN_FILTER: return filtered(e, n, jeval(e, n->a));
    case JN_TEST: {
        v = jeval(e, n->a);
        struct jargs a = arguments(e, n);
        return jv_bool(jtest(e, n->text, v, &a) != (n->op == 1));
    }
    default: jfail(e, "this is no expression");
    }
}

struct jv jeval(struct jev *e, const struct jn *n)
{
    jsteps(e, 1);
    if (++e->depth > JINJA_MAX_DEPTH) jfail(e, "macros or expressions are nested more than %d deep", JINJA_MAX_DEPTH);
    if (e->pool.used > JINJA_MAX_MEMORY) jroom(e, 0);
    e->line = n->line;
    struct jv v = evaluate(e, n);
    if (jv_depth(v) > JV_MAX_DEPTH) jfail(e, "lists or dictionaries are nested more than %d deep", JV_MAX_DEPTH);
    e->depth--;
    return v;
}

/* ---- statements ---- */

/* The items that pass the loop's filter. */
static struct jv_list *chosen(struct jev *e, const struct jn *n, struct jv_list *items, struct jframe *scope)
{
    struct jframe *saved = e->frame;
    struct jv out = jv_new_list(&e->pool, JV_A_LIST, items->n);

    e->frame = push_frame(e, scope);
    for (uint32_t i = 0; i < items->n; i++) {
        assign(e, n->a, items->items[i]);
        if (jv_truth(jeval(e, n->c))) jv_push(&e->pool, out, items->items[i]);
    }
    e->frame = saved;
    return out.list;
}

static void run_loop(struct jev *e, const struct jn *n, struct jv over, struct jframe *scope, uint32_t depth0)
{
    struct jframe *saved = e->frame, *f = push_frame(e, scope);
    struct jv_list *items = jiterate(e, over);
    struct jv_loop *loop = jalloc(e, sizeof *loop);
    const char *name = interned(e, "loop");

    if (n->c != NULL) items = chosen(e, n, items, scope);
    *loop = (struct jv_loop){.node = n, .scope = scope, .items = items, .depth0 = depth0, .changed = jv_undefined("")};
    e->frame = f;
    for (uint32_t i = 0; i < items->n; i++) {
        f->n = 0; /* what an iteration sets, the next one does not see */
        loop->index0 = i;
        if (name != NULL) bind(e, f, name, (struct jv){.type = JV_LOOP, .loop = loop});
        assign(e, n->a, items->items[i]);
        if (exec(e, n->d) == BREAK) break;
    }
    if (items->n == 0 && n->e != NULL) {
        f->n = 0;
        exec(e, n->e);
    }
    e->frame = saved;
}

static struct jv new_macro(struct jev *e, const struct jn *n)
{
    struct jv_macro *m = jalloc(e, sizeof *m);

    *m = (struct jv_macro){n, e->frame};
    return (struct jv){.type = JV_MACRO, .macro = m};
}

static struct jv apply_filters(struct jev *e, const struct jn *n, struct jv v)
{
    for (uint32_t i = 0; i < n->n; i++) v = filtered(e, n->list[i], v);
    return v;
}

static void print_value(struct jev *e, struct jv v)
{
    struct buf b = {0};

    if (v.type == JV_STRING) {
        print(e, v.s, v.len);
        return;
    }
    jv_add_str(&b, v);
    struct jv s = jtake(e, &b);
    print(e, s.s, s.len);
}

static void generation(struct jev *e, const struct jn *n)
{
    size_t begin = e->out->len;

    exec(e, n->b);
    if (e->marks == NULL) return;
    struct jinja_marks *m = e->marks;
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 8;
        m->items = xreallocarray(m->items, m->cap, sizeof *m->items);
    }
    m->items[m->n].begin = begin;
    m->items[m->n++].end = e->out->len;
}

/* Statements that have names of their own. */
static enum flow scoped(struct jev *e, const struct jn *n)
{
    enum flow flow = GO;
    struct jframe *saved = e->frame, *f = push_frame(e, saved);

    if (n->kind == JN_WITH) { /* values are evaluated outside */
        struct jv *values = jalloc(e, (n->n / 2 + 1) * sizeof *values);
        for (uint32_t i = 0; i + 1 < n->n; i += 2) values[i / 2] = jeval(e, n->list[i + 1]);
        e->frame = f;
        for (uint32_t i = 0; i + 1 < n->n; i += 2) assign(e, n->list[i], values[i / 2]);
    }
    e->frame = f;
    if (n->kind == JN_GENERATION) generation(e, n);
    else if (n->kind == JN_FILTER_BLOCK) print_value(e, apply_filters(e, n, jcapture(e, n->b)));
    else flow = exec(e, n->b);
    e->frame = saved;
    return flow;
}

static void call_block(struct jev *e, const struct jn *n)
{
    struct jv callee = jeval(e, n->a->a);
    struct jargs a = arguments(e, n->a);

    a.caller = new_macro(e, n);
    print_value(e, jcall(e, callee, &a));
}

static enum flow exec(struct jev *e, const struct jn *n)
{
    enum flow flow = GO;

    jsteps(e, 1);
    if (++e->depth > JINJA_MAX_DEPTH) jfail(e, "statements are nested more than %d deep", JINJA_MAX_DEPTH);
    e->line = n->line;
    switch (n->kind) {
    case JN_TEXT: print(e, n->text, n->len); break;
    case JN_OUTPUT: print_value(e, jeval(e, n->a)); break;
    case JN_BODY:
        for (uint32_t i = 0; i < n->n && flow == GO; i++) flow = exec(e, n->list[i]);
        break;
    case JN_IF:
        if (jv_truth(jeval(e, n->a))) flow = exec(e, n->b);
        else if (n->c != NULL) flow = exec(e, n->c);
        break;
    case JN_FOR: run_loop(e, n, jeval(e, n->b), e->frame, 0); break;
    case JN_SET: assign(e, n->a, jeval(e, n->b)); break;
    case JN_SET_BLOCK: {
        struct jframe *saved = e->frame;
        e->frame = push_frame(e, saved); /* what the block sets stays inside */
        struct jv text = jcapture(e, n->b);
        e->frame = saved;
        assign(e, n->a, apply_filters(e, n, text));
        break;
    }
    case JN_MACRO: bind(e, e->frame, n->text, new_macro(e, n)); break;
    case JN_CALL_BLOCK: call_block(e, n); break;
    case JN_WITH:
    case JN_SCOPE:
    case JN_FILTER_BLOCK:
    case JN_GENERATION: flow = scoped(e, n); break;
    case JN_DO: jeval(e, n->a); break;
    case JN_BREAK: flow = BREAK; break;
    case JN_CONTINUE: flow = CONTINUE; break;
    default: jfail(e, "this is no statement");
    }
    e->depth--;
    return flow;
}

/* The outermost names: the variables that the template mentions, over the functions of the language. */
static void bind_globals(struct jev *e, const struct jinja_var *vars, size_t n)
{
    e->frame = push_frame(e, NULL);
    for (size_t i = 0; i < e->t->n_names; i++) {
        const struct jv_function *f = jfunction(e->t->names[i]);
        if (f != NULL) bind(e, e->frame, e->t->names[i], (struct jv){.type = JV_FUNCTION, .function = f});
    }
    for (size_t i = 0; i < n; i++) {
        const char *name = interned(e, vars[i].name);
        if (name != NULL) bind(e, e->frame, name, jv_from_json(&e->pool, vars[i].value));
    }
    e->frame = push_frame(e, e->frame);
}

enum pawl_status jinja_render(const struct jinja_template *t, const struct jinja_var *vars, size_t n, const struct tm *now, struct buf *out,
                              struct jinja_marks *marks, struct err *err)
{
    struct jev *e = xcalloc(1, sizeof *e);
    size_t before = out->len;
    enum pawl_status st = PAWL_OK;

    *e = (struct jev){.t = t, .out = out, .marks = marks, .now = now, .err = err};
    if (marks != NULL) marks->n = 0;
    if (setjmp(e->failed) == 0) {
        bind_globals(e, vars, n);
        exec(e, t->root);
        buf_add(out, "", 0);
    } else {
        st = PAWL_EINVAL;
        out->len = before;
    }
    pool_free(&e->pool);
    free(e);
    return st;
}
