/* Jinja2's grammar by recursive descent; binary operators by binding power. */
#include "train/text/jinja_ast.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    struct jinja_template *t;
    const struct jt *w; /* the word to be read next */
    int depth, loops; /* loops around this place, in the same macro */
    struct err *err;
    jmp_buf failed;
};

static _Noreturn void fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void fail(struct parser *p, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(p->err, PAWL_EINVAL, "%s, line %u: %s", p->t->name, p->w->line, text);
    longjmp(p->failed, 1);
}

static _Noreturn void unexpected(struct parser *p, const char *expected)
{
    static const char *const ends[] = {[JT_OUTPUT_END] = "}}", [JT_BLOCK_END] = "%}", [JT_EOF] = "the end of the template", [JT_TEXT] = "text"};
    const struct jt *w = p->w;

    if (w->kind == JT_NAME || w->kind == JT_OP || w->kind == JT_INT || w->kind == JT_FLOAT) fail(p, "expected %s, found %.*s", expected, (int)(w->len < 60 ? w->len : 60), w->text);
    fail(p, "expected %s, found %s", expected, w->kind == JT_STRING ? "a string" : w->kind <= JT_EOF && ends[w->kind] ? ends[w->kind] : "a tag");
}

static const char *intern(struct jinja_template *t, const char *s, size_t len)
{
    for (size_t i = 0; i < t->n_names; i++)
        if (strlen(t->names[i]) == len && memcmp(t->names[i], s, len) == 0) return t->names[i];
    if (t->n_names == t->names_cap) {
        t->names_cap = t->names_cap ? 2 * t->names_cap : 64;
        t->names = xreallocarray(t->names, t->names_cap, sizeof *t->names);
    }
    return t->names[t->n_names++] = pool_strndup(&t->pool, s, len);
}

static struct jn *node(struct parser *p, enum jn_kind kind)
{
    struct jn *n = pool_alloc(&p->t->pool, sizeof *n);

    *n = (struct jn){.kind = (uint8_t)kind, .line = p->w->line};
    return n;
}

/* Items of a node that is being read; they are copied to the pool at the end. */
struct items {
    struct jn **at;
    uint32_t n, cap;
};

static void push(struct parser *p, struct items *l, struct jn *n)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct jn **more = pool_alloc(&p->t->pool, cap * sizeof *more);
        if (l->n > 0) memcpy(more, l->at, l->n * sizeof *more);
        l->at = more;
        l->cap = cap;
    }
    l->at[l->n++] = n;
}

static void set_list(struct jn *n, const struct items *l)
{
    n->list = l->at;
    n->n = l->n;
}

static void set_text(struct parser *p, struct jn *n, const struct jt *w)
{
    n->text = intern(p->t, w->text, w->len);
    n->len = (uint32_t)w->len;
}

static void enter(struct parser *p)
{
    if (++p->depth > JINJA_MAX_NESTING) fail(p, "nested too deeply, the limit is %d", JINJA_MAX_NESTING);
}

static bool is_op(const struct parser *p, const char *op)
{
    return p->w->kind == JT_OP && strcmp(p->w->text, op) == 0;
}

static bool is_name(const struct parser *p, const char *name)
{
    return p->w->kind == JT_NAME && p->w->len == strlen(name) && memcmp(p->w->text, name, p->w->len) == 0;
}

static bool take_op(struct parser *p, const char *op)
{
    if (!is_op(p, op)) return false;
    p->w++;
    return true;
}

static bool take_name(struct parser *p, const char *name)
{
    if (!is_name(p, name)) return false;
    p->w++;
    return true;
}

static void need_op(struct parser *p, const char *op)
{
    if (!take_op(p, op)) unexpected(p, op);
}

static const struct jt *need_name(struct parser *p, const char *what)
{
    if (p->w->kind != JT_NAME) unexpected(p, what);
    return p->w++;
}

/* ---- expressions ---- */

static struct jn *expression(struct parser *p);
static struct jn *unary(struct parser *p, bool with_filters);

static struct jn *constant(struct parser *p, struct jv value)
{
    struct jn *n = node(p, JN_CONST);

    n->value = value;
    return n;
}

static struct jn *number(struct parser *p)
{
    const struct jt *w = p->w;
    struct jn *n;

    if (w->kind == JT_FLOAT) {
        n = constant(p, jv_float(strtod(w->text, NULL)));
    } else {
        int base = w->len > 2 && w->text[0] == '0' ? (w->text[1] | 0x20) == 'x' ? 16 : (w->text[1] | 0x20) == 'o' ? 8 : (w->text[1] | 0x20) == 'b' ? 2 : 10 : 10;
        errno = 0;
        long long i = strtoll(w->text + (base != 10 ? 2 : 0), NULL, base);
        n = constant(p, errno == 0 ? jv_int(i) : (struct jv){.type = JV_BIGINT, .s = w->text, .len = (uint32_t)w->len});
    }
    p->w++;
    return n;
}

/* Neighbouring strings are one. */
static struct jn *string(struct parser *p)
{
    struct buf b = {0};
    struct jn *n = node(p, JN_CONST);

    for (; p->w->kind == JT_STRING; p->w++) buf_add(&b, p->w->text, p->w->len);
    n->value = jv_copy_string(&p->t->pool, b.data ? b.data : "", b.len);
    buf_free(&b);
    return n;
}

static struct jn *sequence(struct parser *p, enum jn_kind kind, const char *close)
{
    struct jn *n = node(p, kind);
    struct items l = {0};

    while (!is_op(p, close)) {
        push(p, &l, expression(p));
        if (kind == JN_DICT) {
            need_op(p, ":");
            push(p, &l, expression(p));
        }
        if (!take_op(p, ",")) break;
    }
    need_op(p, close);
    set_list(n, &l);
    return n;
}

/* Expressions with commas between are a tuple; one alone is itself. */
static struct jn *tuple(struct parser *p)
{
    struct jn *n = node(p, JN_TUPLE), *first = expression(p);
    struct items l = {0};

    if (!is_op(p, ",")) return first;
    push(p, &l, first);
    while (take_op(p, ",")) {
        if (p->w->kind == JT_OUTPUT_END || p->w->kind == JT_BLOCK_END || is_op(p, ")") || is_op(p, "]") || is_op(p, "=")) break;
        push(p, &l, expression(p));
    }
    set_list(n, &l);
    return n;
}

static struct jn *primary(struct parser *p)
{
    static const struct {
        const char *name;
        int value; /* 0 false, 1 true, 2 none */
    } words[] = {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0}, {"none", 2}, {"None", 2}};

    switch (p->w->kind) {
    case JT_NAME: {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (take_name(p, words[i].name)) return constant(p, words[i].value == 2 ? jv_none() : jv_bool(words[i].value));
        struct jn *n = node(p, JN_NAME);
        set_text(p, n, p->w++);
        return n;
    }
    case JT_STRING: return string(p);
    case JT_INT:
    case JT_FLOAT: return number(p);
    default: break;
    }
    if (take_op(p, "[")) return sequence(p, JN_LIST, "]");
    if (take_op(p, "{")) return sequence(p, JN_DICT, "}");
    if (take_op(p, "(")) {
        if (take_op(p, ")")) return node(p, JN_TUPLE);
        struct jn *n = tuple(p);
        need_op(p, ")");
        return n;
    }
    unexpected(p, "an expression");
}

/* What stands between the parentheses of a call; the opening one has been read. */
static void arguments(struct parser *p, struct jn *call)
{
    struct items l = {0};

    while (!is_op(p, ")")) {
        struct jn *n;
        if (is_op(p, "*") || is_op(p, "**")) {
            n = node(p, is_op(p, "*") ? JN_STAR : JN_STAR_STAR);
            p->w++;
            n->a = expression(p);
        } else if (p->w->kind == JT_NAME && p->w[1].kind == JT_OP && strcmp(p->w[1].text, "=") == 0) {
            n = node(p, JN_KEYWORD);
            set_text(p, n, p->w);
            p->w += 2;
            n->a = expression(p);
        } else {
            n = expression(p);
        }
        push(p, &l, n);
        if (!take_op(p, ",")) break;
    }
    need_op(p, ")");
    set_list(call, &l);
}

static struct jn *subscript(struct parser *p, struct jn *of)
{
    struct jn *n = node(p, JN_ITEM), *slice = node(p, JN_SLICE), **part[3] = {&slice->a, &slice->b, &slice->c};
    bool sliced = false;

    n->a = of;
    for (int i = 0; i < 3; i++) {
        if (!is_op(p, ":") && !is_op(p, "]")) *part[i] = tuple(p);
        if (!take_op(p, ":")) break;
        if (i == 2) unexpected(p, "]");
        sliced = true;
    }
    need_op(p, "]");
    n->b = sliced ? slice : slice->a;
    if (n->b == NULL) unexpected(p, "an index");
    return n;
}

static struct jn *postfix(struct parser *p, struct jn *n)
{
    for (;;) {
        if (take_op(p, ".")) {
            struct jn *of = n;
            if (p->w->kind == JT_INT) {
                n = node(p, JN_ITEM);
                n->b = number(p);
            } else {
                n = node(p, JN_ATTR);
                set_text(p, n, need_name(p, "an attribute"));
            }
            n->a = of;
        } else if (take_op(p, "[")) {
            n = subscript(p, n);
        } else if (is_op(p, "(")) {
            struct jn *call = node(p, JN_CALL);
            p->w++;
            call->a = n;
            arguments(p, call);
            n = call;
        } else {
            return n;
        }
    }
}

static struct jn *filter(struct parser *p, struct jn *of)
{
    struct jn *n = node(p, JN_FILTER);
    const struct jt *name = need_name(p, "a filter");

    set_text(p, n, name);
    while (take_op(p, ".")) need_name(p, "a filter"); /* dotted names belong to extensions; none is known, which using it will say */
    n->a = of;
    if (take_op(p, "(")) arguments(p, n);
    return n;
}

/* Whether a test's argument without parentheses follows. */
static bool bare_argument(const struct parser *p)
{
    switch (p->w->kind) {
    case JT_STRING:
    case JT_INT:
    case JT_FLOAT: return true;
    case JT_NAME: return !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and") && !is_name(p, "if") && !is_name(p, "is") && !is_name(p, "in") && !is_name(p, "not");
    case JT_OP: return is_op(p, "[") || is_op(p, "{");
    default: return false;
    }
}

static struct jn *test(struct parser *p, struct jn *of)
{
    struct jn *n = node(p, JN_TEST);
    struct items l = {0};

    n->op = take_name(p, "not");
    set_text(p, n, need_name(p, "a test"));
    n->a = of;
    if (take_op(p, "(")) {
        arguments(p, n);
    } else if (bare_argument(p)) {
        push(p, &l, postfix(p, primary(p)));
        set_list(n, &l);
    }
    return n;
}

static struct jn *filters(struct parser *p, struct jn *n)
{
    for (;;) {
        if (take_op(p, "|")) {
            n = filter(p, n);
        } else if (take_name(p, "is")) {
            n = test(p, n);
        } else if (is_op(p, "(")) {
            n = postfix(p, n);
        } else {
            return n;
        }
    }
}

static struct jn *unary(struct parser *p, bool with_filters)
{
    struct jn *n;

    enter(p);
    if (is_op(p, "-") || is_op(p, "+")) {
        n = node(p, is_op(p, "-") ? JN_NEG : JN_POS);
        p->w++;
        n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    if (with_filters) n = filters(p, n);
    p->depth--;
    return n;
}

static struct jn *binary(struct parser *p, enum jn_op op, struct jn *a, struct jn *b)
{
    struct jn *n = node(p, JN_BINARY);

    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return n;
}

/* Binding powers: + and - are 1, ~ is 2, * / // % are 3, ** is 4. All group to the left. */
static int power_of(const struct parser *p, enum jn_op *op)
{
    static const struct {
        const char *text;
        int power;
        enum jn_op op;
    } table[] = {{"+", 1, JOP_ADD}, {"-", 1, JOP_SUB}, {"*", 3, JOP_MUL}, {"/", 3, JOP_DIV}, {"//", 3, JOP_FLOORDIV}, {"%", 3, JOP_MOD}, {"**", 4, JOP_POW}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (is_op(p, table[i].text)) {
            *op = table[i].op;
            return table[i].power;
        }
    return is_op(p, "~") ? 2 : 0;
}

static struct jn *arithmetic(struct parser *p, int least)
{
    struct jn *n = unary(p, true);
    enum jn_op op = JOP_ADD;

    for (int power; (power = power_of(p, &op)) >= least && power > 0;) {
        if (power == 2) {
            struct jn *concat = node(p, JN_CONCAT);
            struct items l = {0};
            push(p, &l, n);
            while (take_op(p, "~")) push(p, &l, arithmetic(p, 3));
            set_list(concat, &l);
            n = concat;
            continue;
        }
        p->w++;
        n = binary(p, op, n, arithmetic(p, power + 1));
    }
    return n;
}

static struct jn *comparison(struct parser *p)
{
    static const struct {
        const char *text;
        enum jn_op op;
    } table[] = {{"==", JOP_EQ}, {"!=", JOP_NE}, {"<=", JOP_LE}, {">=", JOP_GE}, {"<", JOP_LT}, {">", JOP_GT}};
    struct jn *n = arithmetic(p, 1), *all = NULL;
    struct items l = {0};

    for (;;) {
        struct jn *operand = node(p, JN_OPERAND);
        size_t k = 0;
        while (k < sizeof table / sizeof *table && !is_op(p, table[k].text)) k++;
        if (k < sizeof table / sizeof *table) {
            operand->op = (uint8_t)table[k].op;
            p->w++;
        } else if (take_name(p, "in")) {
            operand->op = JOP_IN;
        } else if (is_name(p, "not") && p->w[1].kind == JT_NAME && p->w[1].len == 2 && memcmp(p->w[1].text, "in", 2) == 0) {
            operand->op = JOP_NOT_IN;
            p->w += 2;
        } else {
            break;
        }
        operand->a = arithmetic(p, 1);
        push(p, &l, operand);
    }
    if (l.n == 0) return n;
    all = node(p, JN_COMPARE);
    all->a = n;
    set_list(all, &l);
    return all;
}

static struct jn *negation(struct parser *p)
{
    if (!is_name(p, "not")) return comparison(p);
    struct jn *n = node(p, JN_NOT);
    enter(p);
    p->w++;
    n->a = negation(p);
    p->depth--;
    return n;
}

static struct jn *logic(struct parser *p, bool or)
{
    struct jn *left = or ? logic(p, false) : negation(p);

    while (take_name(p, or ? "or" : "and")) {
        struct jn *n = node(p, or ? JN_OR : JN_AND);
        n->a = left;
        n->b = or ? logic(p, false) : negation(p);
        left = n;
    }
    return left;
}

static struct jn *expression(struct parser *p)
{
    enter(p);
    struct jn *n = logic(p, true);
    while (take_name(p, "if")) {
        struct jn *choice = node(p, JN_IF_ELSE);
        choice->a = n;
        choice->b = logic(p, true);
        if (take_name(p, "else")) choice->c = expression(p);
        n = choice;
    }
    p->depth--;
    return n;
}

/* ---- statements ---- */

static struct jn *body(struct parser *p, const char *const *ends);

static void block_end(struct parser *p)
{
    if (p->w->kind != JT_BLOCK_END) unexpected(p, "%}");
    p->w++;
}

/* A body that ends with the tag `end`, which is read as well. No loop around it can be left from inside. */
static struct jn *body_until(struct parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    int loops = p->loops;

    if (strcmp(end, "endwith") != 0) p->loops = 0;
    struct jn *n = body(p, ends);
    p->loops = loops;
    p->w++;
    if (p->w->kind == JT_NAME) p->w++; /* {% endblock NAME %}, {% endmacro NAME %} */
    block_end(p);
    return n;
}

static struct jn *target_item(struct parser *p)
{
    if (take_op(p, "(")) {
        struct jn *n = node(p, JN_TUPLE);
        struct items l = {0};
        do push(p, &l, target_item(p));
        while (take_op(p, ",") && !is_op(p, ")"));
        need_op(p, ")");
        set_list(n, &l);
        return n;
    }
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    struct jn *n = node(p, JN_NAME);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (is_name(p, constants[i])) fail(p, "cannot assign to %s", constants[i]);
    set_text(p, n, need_name(p, "a name to assign to"));
    if (take_op(p, ".")) {
        struct jn *of = n;
        n = node(p, JN_ATTR);
        n->a = of;
        set_text(p, n, need_name(p, "an attribute to assign to"));
    }
    return n;
}

/* Names to assign to: a, ns.a, or several with commas between. */
static struct jn *target(struct parser *p)
{
    struct jn *first = target_item(p), *n;
    struct items l = {0};

    if (!is_op(p, ",")) return first;
    n = node(p, JN_TUPLE);
    push(p, &l, first);
    while (take_op(p, ",") && !is_name(p, "in") && !is_op(p, "=")) push(p, &l, target_item(p));
    set_list(n, &l);
    return n;
}

static struct jn *if_statement(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    struct jn *n = node(p, JN_IF);

    n->a = tuple(p);
    block_end(p);
    n->b = body(p, ends);
    if (take_name(p, "elif")) {
        enter(p);
        n->c = if_statement(p);
        p->depth--;
        return n;
    }
    if (take_name(p, "else")) {
        block_end(p);
        n->c = body(p, last);
    }
    p->w++;
    block_end(p);
    return n;
}

static struct jn *for_statement(struct parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    struct jn *n = node(p, JN_FOR);
    struct items l = {0};

    n->a = target(p);
    if (n->a->kind == JN_NAME && strcmp(n->a->text, "loop") == 0) fail(p, "cannot assign to loop: it is the name of the loop itself");
    if (!take_name(p, "in")) unexpected(p, "in");
    struct jn *first = logic(p, true); /* no inline if here: `if` is the loop's filter */
    if (is_op(p, ",")) {
        n->b = node(p, JN_TUPLE);
        push(p, &l, first);
        while (take_op(p, ",")) push(p, &l, logic(p, true));
        set_list(n->b, &l);
    } else {
        n->b = first;
    }
    if (take_name(p, "if")) n->c = expression(p);
    n->op = take_name(p, "recursive");
    block_end(p);
    p->loops++;
    n->d = body(p, ends);
    p->loops--;
    if (take_name(p, "else")) {
        block_end(p);
        n->e = body(p, last);
    }
    p->w++;
    block_end(p);
    return n;
}

static struct jn *set_statement(struct parser *p)
{
    struct jn *n = node(p, JN_SET);
    struct items l = {0};

    n->a = target(p);
    if (take_op(p, "=")) {
        n->b = tuple(p);
        block_end(p);
        return n;
    }
    n->kind = JN_SET_BLOCK;
    while (take_op(p, "|")) push(p, &l, filter(p, NULL));
    set_list(n, &l);
    block_end(p);
    n->b = body_until(p, "endset");
    return n;
}

/* Parameters of a macro or of a caller; the opening parenthesis has been read. */
static void parameters(struct parser *p, struct jn *of)
{
    struct items l = {0};

    while (!is_op(p, ")")) {
        struct jn *n = node(p, JN_PARAM);
        set_text(p, n, need_name(p, "a parameter"));
        if (take_op(p, "=")) n->a = expression(p);
        else if (l.n > 0 && l.at[l.n - 1]->a != NULL) fail(p, "the parameter %s lacks a default: the one before it has one", n->text);
        push(p, &l, n);
        if (!take_op(p, ",")) break;
    }
    need_op(p, ")");
    set_list(of, &l);
}

static struct jn *macro_statement(struct parser *p)
{
    struct jn *n = node(p, JN_MACRO);

    set_text(p, n, need_name(p, "the macro's name"));
    need_op(p, "(");
    parameters(p, n);
    block_end(p);
    n->b = body_until(p, "endmacro");
    return n;
}

static struct jn *call_statement(struct parser *p)
{
    struct jn *n = node(p, JN_CALL_BLOCK);

    if (take_op(p, "(")) parameters(p, n);
    n->a = expression(p);
    if (n->a->kind != JN_CALL) unexpected(p, "a call");
    block_end(p);
    n->b = body_until(p, "endcall");
    return n;
}

static struct jn *filter_statement(struct parser *p)
{
    struct jn *n = node(p, JN_FILTER_BLOCK);
    struct items l = {0};

    do push(p, &l, filter(p, NULL));
    while (take_op(p, "|"));
    set_list(n, &l);
    block_end(p);
    n->b = body_until(p, "endfilter");
    return n;
}

static struct jn *with_statement(struct parser *p)
{
    struct jn *n = node(p, JN_WITH);
    struct items l = {0};

    while (p->w->kind != JT_BLOCK_END) {
        push(p, &l, target_item(p));
        need_op(p, "=");
        push(p, &l, expression(p));
        if (!take_op(p, ",")) break;
    }
    set_list(n, &l);
    block_end(p);
    n->b = body_until(p, "endwith");
    return n;
}

static struct jn *generation_statement(struct parser *p)
{
    struct jn *n = node(p, JN_GENERATION);

    block_end(p);
    n->b = body_until(p, "endgeneration");
    p->t->has_generation = true;
    return n;
}

static struct jn *block_statement(struct parser *p)
{
    struct jn *n = node(p, JN_SCOPE);

    need_name(p, "the block's name");
    while (p->w->kind == JT_NAME) p->w++; /* scoped, required: without inheritance they change nothing */
    block_end(p);
    n->b = body_until(p, "endblock");
    return n;
}

static struct jn *do_statement(struct parser *p)
{
    struct jn *n = node(p, JN_DO);

    n->a = tuple(p);
    block_end(p);
    return n;
}

static struct jn *jump_statement(struct parser *p)
{
    struct jn *n = node(p, p->w[-1].text[0] == 'b' ? JN_BREAK : JN_CONTINUE);

    if (p->loops == 0) fail(p, "{%% %s %%} outside of a loop", n->kind == JN_BREAK ? "break" : "continue");
    block_end(p);
    return n;
}

static struct jn *statement(struct parser *p)
{
    static const struct {
        const char *name;
        struct jn *(*read)(struct parser *p);
    } table[] = {
        {"if", if_statement}, {"for", for_statement}, {"set", set_statement}, {"macro", macro_statement}, {"call", call_statement},
        {"filter", filter_statement}, {"with", with_statement}, {"generation", generation_statement}, {"block", block_statement}, {"do", do_statement},
        {"break", jump_statement}, {"continue", jump_statement},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (take_name(p, table[i].name)) return table[i].read(p);
    if (is_name(p, "include") || is_name(p, "import") || is_name(p, "from") || is_name(p, "extends"))
        fail(p, "{%% %.*s %%}: a chat template is one file, there is nothing to load", (int)p->w->len, p->w->text);
    if (p->w->kind == JT_NAME) fail(p, "unknown tag {%% %.*s %%}", (int)(p->w->len < 60 ? p->w->len : 60), p->w->text);
    unexpected(p, "a tag's name");
}

/* Up to a tag whose name is in `ends` (NULL: the end of the template); the name is the next word then. */
static struct jn *body(struct parser *p, const char *const *ends)
{
    struct jn *n = node(p, JN_BODY), *s;
    struct items l = {0};

    enter(p);
    for (;;) {
        switch (p->w->kind) {
        case JT_TEXT:
            s = node(p, JN_TEXT);
            s->text = p->w->text;
            s->len = (uint32_t)p->w->len;
            p->w++;
            break;
        case JT_OUTPUT_BEGIN:
            p->w++;
            s = node(p, JN_OUTPUT);
            s->a = tuple(p);
            if (p->w->kind != JT_OUTPUT_END) unexpected(p, "}}");
            p->w++;
            break;
        case JT_BLOCK_BEGIN:
            p->w++;
            for (size_t i = 0; ends != NULL && ends[i] != NULL; i++)
                if (is_name(p, ends[i])) goto done;
            s = statement(p);
            break;
        default:
            if (ends != NULL) fail(p, "the template ends before {%% %s %%}", ends[0] == NULL ? "" : ends[1] != NULL ? ends[2] != NULL ? ends[2] : ends[1] : ends[0]);
            goto done;
        }
        push(p, &l, s);
    }
done:
    p->depth--;
    set_list(n, &l);
    return n;
}

enum pawl_status jinja_parse(struct jinja_template **out, const char *name, const char *source, size_t len, struct err *err)
{
    struct jinja_template *t = xcalloc(1, sizeof *t);
    struct parser *p = xcalloc(1, sizeof *p);
    struct jt *words = NULL;
    size_t n = 0;

    t->name = xstrdup(name);
    enum pawl_status st = len < UINT32_MAX ? jinja_lex(&t->pool, t->name, source, len, &words, &n, err) : err_set(err, PAWL_EINVAL, "%s: too long", name);
    if (st != PAWL_OK) goto done;
    *p = (struct parser){.t = t, .w = words, .err = err};
    if (setjmp(p->failed) != 0) {
        st = PAWL_EINVAL;
        goto done;
    }
    t->root = body(p, NULL);
    *out = t;
    t = NULL;
done:
    free(p);
    jinja_free(t);
    return st;
}

void jinja_free(struct jinja_template *t)
{
    if (t == NULL) return;
    pool_free(&t->pool);
    free(t->names);
    free(t->name);
    free(t);
}

bool jinja_has_generation(const struct jinja_template *t)
{
    return t->has_generation;
}
