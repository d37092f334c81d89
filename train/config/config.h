/* The configuration of a run: YAML with Axolotl's key names, read into a plain structure with one field a key.
 *
 * What a key is (name, type, range, default, aliases, whether it alters the trajectory, help) stands once, in keys.c; reading, writing, comparing and
 * hashing all walk that table. A key that is absent, null or empty has its default. Strings and arrays belong to the configuration.
 * Numbers that may be absent are 0 then, strings NULL, unless a field says otherwise. */
#ifndef PAWL_CONFIG_CONFIG_H
#define PAWL_CONFIG_CONFIG_H

#include "kernels/base/err.h"
#include "kernels/base/mem.h"
#include "optim/schedule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_tri { CONFIG_AUTO = -1, CONFIG_OFF = 0, CONFIG_ON = 1 };
enum config_adapter { ADAPTER_QLORA, ADAPTER_LORA };
enum config_quant { CONFIG_NF4, CONFIG_FP4 };
enum config_optimizer { OPTIMIZER_ADAMW };
enum config_truncation { TRUNCATION_DROP, TRUNCATION_TRUNCATE, TRUNCATION_ERROR };
enum config_spot { SPOT_AUTO = -1, SPOT_OFF = 0, SPOT_AWS = 1, SPOT_GCP = 2, SPOT_AZURE = 4 }; /* else an or of clouds */

enum dataset_type { DATASET_AUTO, DATASET_CHAT, DATASET_ALPACA, DATASET_COMPLETION, DATASET_PROMPT_COMPLETION, DATASET_INPUT_OUTPUT };
enum dataset_style { STYLE_INSTRUCT, STYLE_CHAT, STYLE_CHATML, STYLE_PHI };    /* of alpaca prompts: `type: alpaca:phi` */
enum dataset_train_on { TRAIN_ON_TURN, TRAIN_ON_ALL, TRAIN_ON_LAST, TRAIN_ON_NONE }; /* which end-of-turn tokens are supervised */

struct str_list {
    char **at;
    size_t n;
};

/* Pairs in the order of the file. A key with several values stands several times, one behind the other. */
struct str_map {
    char **key, **value;
    size_t n;
};

struct dataset_config {
    char *path;                     /* as written; locate.h turns it into a path */
    char *name, *split, *revision;  /* of a hub data set; NULL: not given */
    struct str_list data_files;     /* only these, within path; none: everything there */
    int type;                       /* enum dataset_type */
    int style;                      /* enum dataset_style, DATASET_ALPACA only */
    char *field;                    /* completion: default "text" */
    char *field_messages;           /* default "messages" (and "conversations" where type is auto) */
    char *field_system, *field_tools; /* defaults "system", "tools" */
    struct str_map message_property_mappings; /* ours ("role", "content", ...) to the file's name; absent ones map to themselves */
    char *message_field_training;   /* per-message boolean that overrides roles_to_train; default "training" (also "train", "weight") */
    struct str_map roles;           /* ours to the file's: ("user", "human"), ("assistant", "gpt"), ("assistant", "bot") */
    struct str_list roles_to_train; /* default assistant */
    int train_on_eos;               /* enum dataset_train_on, default TURN */
    bool drop_system_message;
    char *chat_template, *chat_template_jinja; /* override the run's */
    double weight;                  /* default 1 */
};

struct config {
    /* base model */
    char *base_model;
    int adapter;                    /* enum config_adapter */
    int load_in_4bit, load_in_8bit; /* enum config_tri; CONFIG_AUTO: not written out, see config_base_storage() */
    int bnb_4bit_quant_type;        /* enum config_quant */
    bool bnb_4bit_use_double_quant;

    /* LoRA */
    int64_t lora_r;
    double lora_alpha, lora_dropout;
    bool lora_target_linear;        /* false where a list or a regex is given: exactly one of the three is in force */
    struct str_list lora_target_modules;
    char *lora_target_regex;        /* the key lora_target_modules written as one string: PEFT's re.fullmatch over full module names */
    char *lora_model_dir;
    bool peft_use_rslora;
    double loraplus_lr_ratio;       /* 0: off */

    /* data */
    struct dataset_config *datasets, *test_datasets;
    size_t ndatasets, ntest_datasets;
    bool skip_bad_lines;
    double val_set_size;            /* 0 none; below 1 a fraction; else a whole number of examples */
    char *chat_template;            /* "tokenizer_default", a built-in name, or "jinja" */
    char *chat_template_jinja;      /* a file, or the text itself where it holds "{%" or "{{" */
    bool train_on_inputs;
    int64_t sequence_len;
    bool sample_packing;
    int truncation;                 /* enum config_truncation */
    struct str_map special_tokens;  /* ("pad_token", "<|end_of_text|>"); "additional_special_tokens" may stand several times */
    struct str_list eot_tokens;

    /* batch and length of the run */
    int64_t micro_batch_size;            /* rows */
    int64_t gradient_accumulation_steps; /* 0: follows from global_batch_size, which is written out */
    int64_t global_batch_size;           /* rows; 0 until config_fix_batch() */
    double num_epochs;
    int64_t max_steps;                   /* 0: by num_epochs */
    int64_t seed;
    bool shuffle;

    /* optimizer */
    int optimizer;                  /* enum config_optimizer */
    double learning_rate;
    int lr_scheduler;               /* enum schedule */
    double cosine_min_lr_ratio;     /* SCHEDULE_COSINE_WITH_MIN_LR only */
    int64_t warmup_steps;
    double warmup_ratio;            /* of all steps, where warmup_steps is 0 */
    double weight_decay, adam_beta1, adam_beta2, adam_epsilon;
    double max_grad_norm;           /* 0: no clipping */

    /* arithmetic */
    int bf16;                       /* enum config_tri; OFF computes in fp32 */
    int gradient_checkpointing;     /* enum config_tri */

    /* watching */
    int64_t logging_steps;
    double eval_steps;              /* 0 none; below 1 a fraction of all steps */
    double evals_per_epoch;
    int64_t early_stopping_patience;
    double loss_watchdog_threshold; /* 0: off */
    int64_t loss_watchdog_patience;
    struct str_list sample_prompts;

    /* saving */
    char *output_dir;
    double save_steps;              /* 0 none; below 1 a fraction of all steps */
    double saves_per_epoch;
    double save_minutes;            /* 0: none by time */
    int64_t save_total_limit;
    double journal;                 /* negative: off; 0: every step; else at most that many seconds at risk */
    bool resume_check;

    /* preemption */
    double preempt_grace_seconds, comm_timeout;
    double max_minutes, max_cost;   /* 0: no limit */
    int64_t max_fruitless_starts;
    char *on_event;
    int spot;                       /* enum config_spot */
    char *remote;
    double remote_minutes;
    bool remote_base;

    /* machine */
    char *device;                   /* "auto", "cpu", "cuda", "cuda:1" */
    int64_t threads;                /* 0: all */
    int64_t memory_limit;           /* bytes; 0: none */
    int zero_stage;                 /* 0, 1; CONFIG_AUTO: 1 with more than one rank */
};

/* Reads path (NULL: an empty configuration), then applies sets[0..nsets) ("key=value", dotted for nested keys: "datasets.0.path=a.jsonl"; the value is YAML), checks each value and
 * how they go together. Says on stderr which keys have no meaning here. Errors: "FILE:LINE:COLUMN: key: expected, found, what to do", or "--set: key: ...". */
enum pawl_status config_load(struct config **out, const char *path, const char *const *sets, size_t nsets, struct err *err);
/* The same from text; name stands for the file in messages. */
enum pawl_status config_parse(struct config **out, const char *name, const char *text, size_t len, struct err *err);
void config_free(struct config *c); /* NULL is allowed */

/* Fixes global_batch_size for a number of ranks. `running` is the value of the run that is resumed, 0 at its first launch: there
 * micro_batch_size x gradient_accumulation_steps x ranks unless written out. Afterwards gradient_accumulation_steps is 0. */
enum pawl_status config_fix_batch(struct config *c, int64_t ranks, int64_t running, struct err *err);

enum config_storage { STORAGE_AS_IT_IS, STORAGE_4BIT, STORAGE_4BIT_UNLESS_QUANTISED, STORAGE_8BIT };
/* How the base is to be stored, from adapter and load_in_*: a file that is quantised already keeps its blocks in the _UNLESS_ case. */
enum config_storage config_base_storage(const struct config *c);

/* Adds the resolved configuration as YAML; reading it back gives an equal configuration. */
void config_write_yaml(const struct config *c, struct buf *out);

/* Number of keys whose values differ; each adds a line "key: OLD -> NEW\n" to out (NULL is allowed). only_trajectory leaves out
 * what changes no result: device, threads, micro batch, logging, saving, and so on, and where model and data are: what is there is compared by itself. */
size_t config_diff(const struct config *a, const struct config *b, bool only_trajectory, struct buf *out);

/* Equal for two configurations if and only if (but for chance) config_diff(a, b, true, NULL) is 0. The same on every machine. */
uint64_t config_hash(const struct config *c);

/* The name of an enumerated value as it is written in YAML, for messages: config_choice("lr_scheduler", c->lr_scheduler). NULL if there is none. */
const char *config_choice(const char *key, int value);

/* The table of keys as text, for `pawl train --help-keys`. */
void config_help(struct buf *out);

#endif
