/* Chat templates that pawl brings along, for models that have none of their own, or a broken one. */
#ifndef PAWL_TEXT_CHAT_BUILTIN_H
#define PAWL_TEXT_CHAT_BUILTIN_H

struct chat_builtin {
    const char *name, *source;
};

extern const struct chat_builtin chat_builtins[]; /* ends with {NULL, NULL} */

#endif
