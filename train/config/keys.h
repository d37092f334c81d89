/* The tables of keys, and what follows from a row: reading a YAML value into its field, writing the field as text. Private to train/config. */
#ifndef PAWL_CONFIG_KEYS_H
#define PAWL_CONFIG_KEYS_H

#include "train/config/config.h"

#include <yaml.h>

enum key_type {
    KEY_BOOL,         /* bool */
    KEY_INT,          /* int64_t */
    KEY_FLOAT,        /* double */
    KEY_BYTES,        /* int64_t: "8GiB", "500M", 1000000 */
    KEY_STRING,       /* char *, NULL: absent */
    KEY_CHOICE,       /* int: the value of one of `choices` */
    KEY_FLAGS,        /* int: one of `choices`, or a list of those whose value is above 0, or-ed */
    KEY_LIST,         /* struct str_list; one text is a list of one */
    KEY_MODULES,      /* struct str_list, and at `also` a char *: one text with anything but letters, digits, "_" and "." in it is a regex */
    KEY_MAP,          /* struct str_map; a value may be a list of texts */
    KEY_DATASET_TYPE, /* int of `choices`, and at `also` an int of dataset_styles: "alpaca:phi" */
    KEY_DATASETS,     /* struct dataset_config *, and at `also` a size_t: their number */
};

struct choice {
    const char *name; /* several names of one value: the first is written, the others are understood */
    int value;
    const char *note; /* said once on stderr where this name is used */
};

/* How a range is bounded where its end does not belong to it. */
enum { ABOVE_MIN = 1, BELOW_MAX = 2 };

struct key {
    const char *name;
    const char *aliases; /* other spellings, blanks between them; NULL: none */
    enum key_type type;
    size_t offset, also;
    double min, max; /* KEY_INT, KEY_FLOAT; HUGE_VAL: no upper end */
    int open;        /* ABOVE_MIN, BELOW_MAX */
    const struct choice *choices; /* ends with {0}. Of KEY_INT and KEY_FLOAT: names of special values ("auto"). true and false stand for yes, no, on, off too */
    const char *initial;          /* the default as it would be written; NULL: absent, the field is zero */
    bool trajectory;              /* another value gives other results */
    bool place;                   /* but for this: the value says where something is, and a resume compares what is there */
    const char *help;
};

struct key_table {
    const struct key *keys;
    size_t n;
};

extern const struct key_table config_keys;  /* fields of struct config */
extern const struct key_table dataset_keys; /* fields of struct dataset_config */
extern const struct choice dataset_styles[];

/* By name or alias; NULL if there is none. */
const struct key *key_find(const struct key_table *table, const char *name);
const struct key *key_named(const char *name); /* of config_keys; must exist */

/* --- value.c --- */

/* A scalar that counts as absent: null, ~, or nothing at all, quoted or not; or an empty list or mapping. */
bool node_is_null(const yaml_node_t *node);

/* Reads node into base's field, whose old value is freed. On failure the error is "expected ..., found ..." and *at the place of the offending node; the field is unchanged.
 * Not for KEY_DATASETS. */
enum pawl_status key_set(const struct key *key, void *base, yaml_document_t *doc, yaml_node_t *node, yaml_mark_t *at, struct err *err);
/* The same for one name of a KEY_MAP; its other names stay, a null value takes the name out. */
enum pawl_status key_set_entry(const struct key *key, void *base, const char *name, yaml_document_t *doc, yaml_node_t *value, yaml_mark_t *at, struct err *err);
/* The field gets its default. */
void key_reset(const struct key *key, void *base);
void key_clear(const struct key *key, void *base); /* frees and zeroes the field */

/* Adds the field as one line of YAML (flow style where it is a list or a mapping); false, and nothing added, where it is absent. Not for KEY_DATASETS. */
bool key_format(const struct key *key, const void *base, struct buf *out);

/* Adds s as a YAML scalar that reads back as the text s, quoted where it has to be. */
void yaml_add_string(struct buf *out, const char *s);

/* What a value may be, for messages and help: "a whole number from 1 to 64, or auto". */
void key_expected(const struct key *key, struct buf *out);

void dataset_init(struct dataset_config *d);
void dataset_clear(struct dataset_config *d);

#endif
