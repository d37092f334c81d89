/* What reading a configuration keeps between its steps. Private to train/config. */
#ifndef PAWL_CONFIG_LOAD_H
#define PAWL_CONFIG_LOAD_H

#include "train/config/keys.h"

struct loader {
    struct config *config;
    const char *path;    /* of the file */
    const char *set;     /* the key of the --set in hand; NULL while the file is read */
    yaml_document_t *doc;
    char **given;        /* a slot for each row of config_keys: where it was written, "FILE:LINE:COLUMN" or "--set"; NULL: not given */
    char *eval_strategy, *save_strategy; /* as transformers has them; become *_steps, *s_per_epoch once all keys are known */
    char *eval_strategy_at, *save_strategy_at;
    struct buf unused;   /* names of keys without meaning here */
    struct err *err;
};

/* Where a key was written; NULL if it was not. */
const char *loader_given(const struct loader *l, const char *key);

/* "FILE:LINE:COLUMN: key: TEXT" at the place where key was written, or "FILE: key: TEXT". */
enum pawl_status loader_fail(struct loader *l, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What can only be said about all keys together: contradictions, what follows from what; called once after the last --set. check.c */
enum pawl_status config_check(struct loader *l);

#endif
