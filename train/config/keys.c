/* Every key that takes effect, once: the documentation of INTERFACE and --help-keys, the reader, the writer and the comparison on resume follow from these rows. */
#include "train/config/keys.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define FIELD(name) offsetof(struct config, name)
#define DATASET(name) offsetof(struct dataset_config, name)

static const struct choice tri[] = {{"auto", CONFIG_AUTO, 0}, {"true", CONFIG_ON, 0}, {"false", CONFIG_OFF, 0}, {0}};
static const struct choice bf16[] = {{"auto", CONFIG_AUTO, 0}, {"true", CONFIG_ON, 0}, {"false", CONFIG_OFF, 0}, {"full", CONFIG_ON, 0}, {0}};
static const struct choice adapters[] = {{"qlora", ADAPTER_QLORA, 0}, {"lora", ADAPTER_LORA, 0}, {0}};
static const struct choice quants[] = {{"nf4", CONFIG_NF4, 0}, {"fp4", CONFIG_FP4, 0}, {0}};
static const struct choice truncations[] = {
    {"drop", TRUNCATION_DROP, 0}, {"truncate", TRUNCATION_TRUNCATE, 0}, {"error", TRUNCATION_ERROR, 0}, {"raise", TRUNCATION_ERROR, 0}, {0}};
static const struct choice checkpointing[] = {
    {"auto", CONFIG_AUTO, 0},
    {"true", CONFIG_ON, 0},
    {"false", CONFIG_OFF, 0},
    {"offload", CONFIG_ON, "gradient_checkpointing: activations are computed again, not offloaded"},
    {"offload_disk", CONFIG_ON, "gradient_checkpointing: activations are computed again, not offloaded"},
    {"unsloth", CONFIG_ON, "gradient_checkpointing: activations are computed again, not offloaded"},
    {0},
};

#define FP32_MOMENTS "optimizer: AdamW with fp32 moments, whose size is small beside a frozen base; this name asks for quantised or paged ones"
static const struct choice optimizers[] = {
    {"adamw", OPTIMIZER_ADAMW, 0},
    {"adamw_torch", OPTIMIZER_ADAMW, 0},
    {"adamw_torch_fused", OPTIMIZER_ADAMW, 0},
    {"adamw_torch_xla", OPTIMIZER_ADAMW, 0},
    {"adamw_torch_npu_fused", OPTIMIZER_ADAMW, 0},
    {"adamw_hf", OPTIMIZER_ADAMW, 0},
    {"adamw_apex_fused", OPTIMIZER_ADAMW, 0},
    {"adamw_anyprecision", OPTIMIZER_ADAMW, 0},
    {"optimi_adamw", OPTIMIZER_ADAMW, 0},
    {"flash_adamw", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"adamw_8bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"adamw_bnb_8bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"adamw_torch_8bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"adamw_torch_4bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"ao_adamw_4bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"ao_adamw_8bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"ao_adamw_fp8", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"paged_adamw", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"paged_adamw_32bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {"paged_adamw_8bit", OPTIMIZER_ADAMW, FP32_MOMENTS},
    {0},
};

static const struct choice schedules[] = {
    {"constant", SCHEDULE_CONSTANT, 0},
    {"linear", SCHEDULE_LINEAR, 0},
    {"cosine", SCHEDULE_COSINE, 0},
    {"constant_with_warmup", SCHEDULE_CONSTANT_WITH_WARMUP, 0},
    {"cosine_with_min_lr", SCHEDULE_COSINE_WITH_MIN_LR, 0},
    {0},
};

static const struct choice journals[] = {{"true", 0, 0}, {"false", -1, 0}, {0}};
static const struct choice all_threads[] = {{"all", 0, 0}, {"auto", 0, 0}, {0}};
static const struct choice no_steps[] = {{"-1", 0, 0}, {0}};
static const struct choice zero_stages[] = {{"auto", CONFIG_AUTO, 0}, {"0", 0, 0}, {"1", 1, 0}, {0}};
static const struct choice spots[] = {
    {"auto", SPOT_AUTO, 0}, {"off", SPOT_OFF, 0}, {"aws", SPOT_AWS, 0}, {"gcp", SPOT_GCP, 0}, {"azure", SPOT_AZURE, 0}, {"false", SPOT_OFF, 0}, {"true", SPOT_AUTO, 0}, {0}};

static const struct key keys[] = {
    {"base_model", "model_name_or_path base_model_name_or_path model", KEY_STRING, FIELD(base_model), .trajectory = true, .place = true,
     .help = "required. Hugging Face directory, .gguf file, or the id of a model in the local Hugging Face cache"},
    {"adapter", "peft_type", KEY_CHOICE, FIELD(adapter), .choices = adapters, .initial = "qlora", .trajectory = true,
     .help = "qlora: LoRA on a 4-bit base; lora: on the base as it is stored, or as load_in_* says"},
    {"load_in_4bit", NULL, KEY_CHOICE, FIELD(load_in_4bit), .choices = tri, .initial = "auto", .trajectory = true,
     .help = "4-bit base; auto: by adapter, and a file that is quantised already keeps its blocks"},
    {"load_in_8bit", NULL, KEY_CHOICE, FIELD(load_in_8bit), .choices = tri, .initial = "auto", .trajectory = true, .help = "int8 base"},
    {"bnb_4bit_quant_type", NULL, KEY_CHOICE, FIELD(bnb_4bit_quant_type), .choices = quants, .initial = "nf4", .trajectory = true,
     .help = "4-bit data type"},
    {"bnb_4bit_use_double_quant", NULL, KEY_BOOL, FIELD(bnb_4bit_use_double_quant), .initial = "true", .trajectory = true,
     .help = "quantise the 4-bit blocks' scales too"},

    {"lora_r", "r lora_rank", KEY_INT, FIELD(lora_r), .min = 1, .max = 8192, .initial = "16", .trajectory = true, .help = "rank"},
    {"lora_alpha", NULL, KEY_FLOAT, FIELD(lora_alpha), .min = 0, .max = 1e6, .open = ABOVE_MIN, .initial = "32", .trajectory = true,
     .help = "the adapter is scaled by lora_alpha / lora_r"},
    {"lora_dropout", NULL, KEY_FLOAT, FIELD(lora_dropout), .min = 0, .max = 1, .open = BELOW_MAX, .initial = "0.0", .trajectory = true,
     .help = "on the adapter's input"},
    {"lora_target_linear", NULL, KEY_BOOL, FIELD(lora_target_linear), .initial = "true", .trajectory = true,
     .help = "adapters on all linear layers but the head; lora_target_modules wins"},
    {"lora_target_modules", "target_modules", KEY_MODULES, FIELD(lora_target_modules), FIELD(lora_target_regex), .trajectory = true,
     .help = "adapters on layers of these names, or one regex over full module names"},
    {"lora_model_dir", NULL, KEY_STRING, FIELD(lora_model_dir), .trajectory = true, .help = "start from this PEFT adapter"},
    {"peft_use_rslora", "use_rslora lora_use_rslora", KEY_BOOL, FIELD(peft_use_rslora), .initial = "false", .trajectory = true,
     .help = "scale by lora_alpha / sqrt(lora_r)"},
    {"loraplus_lr_ratio", NULL, KEY_FLOAT, FIELD(loraplus_lr_ratio), .min = 0, .max = 1e6, .trajectory = true,
     .help = "LoRA+: learning rate of B over that of A"},

    {"datasets", "train_datasets", KEY_DATASETS, FIELD(datasets), FIELD(ndatasets), .trajectory = true, .help = "required. List of data sets, see below"},
    {"test_datasets", "eval_datasets", KEY_DATASETS, FIELD(test_datasets), FIELD(ntest_datasets), .help = "held-out data sets"},
    {"val_set_size", NULL, KEY_FLOAT, FIELD(val_set_size), .min = 0, .max = 1e15, .initial = "0", .trajectory = true,
     .help = "held-out examples, split off by a hash of each: below 1 a share, else a number"},
    {"skip_bad_lines", NULL, KEY_BOOL, FIELD(skip_bad_lines), .initial = "false", .trajectory = true,
     .help = "count and skip lines that can't be read, instead of stopping"},
    {"chat_template", NULL, KEY_STRING, FIELD(chat_template), .initial = "tokenizer_default", .trajectory = true,
     .help = "tokenizer_default (the model's own), a built-in name (chatml, llama3, ...), or jinja"},
    {"chat_template_jinja", NULL, KEY_STRING, FIELD(chat_template_jinja), .trajectory = true, .place = true,
     .help = "for chat_template: jinja, a file or the template itself"},
    {"train_on_inputs", NULL, KEY_BOOL, FIELD(train_on_inputs), .initial = "false", .trajectory = true, .help = "also learn the prompts"},
    {"sequence_len", "max_length max_seq_length max_seq_len cutoff_len model_max_length", KEY_INT, FIELD(sequence_len), .min = 8, .max = 1 << 24, .initial = "2048",
     .trajectory = true, .help = "tokens of a row"},
    {"sample_packing", "packing", KEY_BOOL, FIELD(sample_packing), .initial = "false", .trajectory = true,
     .help = "several examples in a row; none sees another"},
    {"truncation", "excess_length_strategy", KEY_CHOICE, FIELD(truncation), .choices = truncations, .initial = "drop", .trajectory = true,
     .help = "what becomes of examples beyond sequence_len"},
    {"special_tokens", NULL, KEY_MAP, FIELD(special_tokens), .trajectory = true, .help = "{pad_token: ..., eos_token: ...}: names of existing tokens"},
    {"eot_tokens", NULL, KEY_LIST, FIELD(eot_tokens), .trajectory = true, .help = "end-of-turn tokens of the template"},

    {"micro_batch_size", "per_device_train_batch_size train_batch_size", KEY_INT, FIELD(micro_batch_size), .min = 1, .max = 1 << 20, .initial = "1",
     .help = "rows computed at a time; changes memory and speed, not results"},
    {"gradient_accumulation_steps", NULL, KEY_INT, FIELD(gradient_accumulation_steps), .min = 1, .max = 1 << 20,
     .help = "default 1. Micro batches of a step, at the first launch; then global_batch_size is fixed"},
    {"global_batch_size", NULL, KEY_INT, FIELD(global_batch_size), .min = 1, .max = 1 << 24, .trajectory = true,
     .help = "rows of a step; default micro_batch_size x gradient_accumulation_steps x ranks at the first launch"},
    {"num_epochs", "num_train_epochs epochs", KEY_FLOAT, FIELD(num_epochs), .min = 0, .max = 1e6, .open = ABOVE_MIN, .initial = "1", .trajectory = true,
     .help = "passes over the data"},
    {"max_steps", NULL, KEY_INT, FIELD(max_steps), .min = 1, .max = 1e15, .choices = no_steps, .trajectory = true, .help = "stop after so many steps"},
    {"seed", NULL, KEY_INT, FIELD(seed), .min = 0, .max = HUGE_VAL, .initial = "42", .trajectory = true, .help = "of initial adapter, shuffling and dropout"},
    {"shuffle", "shuffle_merged_datasets", KEY_BOOL, FIELD(shuffle), .initial = "true", .trajectory = true, .help = "a new order each epoch"},

    {"optimizer", "optim", KEY_CHOICE, FIELD(optimizer), .choices = optimizers, .initial = "adamw", .trajectory = true,
     .help = "adamw; every AdamW spelling of Axolotl and Hugging Face is understood"},
    {"learning_rate", "lr", KEY_FLOAT, FIELD(learning_rate), .min = 0, .max = 100, .open = ABOVE_MIN, .initial = "0.0002", .trajectory = true, .help = "at its highest"},
    {"lr_scheduler", "lr_scheduler_type", KEY_CHOICE, FIELD(lr_scheduler), .choices = schedules, .initial = "cosine", .trajectory = true,
     .help = "the learning rate after warming up"},
    {"cosine_min_lr_ratio", NULL, KEY_FLOAT, FIELD(cosine_min_lr_ratio), .min = 0, .max = 1, .trajectory = true,
     .help = "where the cosine ends, as a share of learning_rate"},
    {"warmup_steps", NULL, KEY_INT, FIELD(warmup_steps), .min = 0, .max = 1e15, .initial = "0", .trajectory = true, .help = "steps of linear warm-up"},
    {"warmup_ratio", NULL, KEY_FLOAT, FIELD(warmup_ratio), .min = 0, .max = 1, .initial = "0", .trajectory = true, .help = "warm-up as a share of all steps"},
    {"weight_decay", NULL, KEY_FLOAT, FIELD(weight_decay), .min = 0, .max = 10, .initial = "0", .trajectory = true, .help = "decoupled, as AdamW has it"},
    {"adam_beta1", NULL, KEY_FLOAT, FIELD(adam_beta1), .min = 0, .max = 1, .open = BELOW_MAX, .initial = "0.9", .trajectory = true, .help = "of AdamW"},
    {"adam_beta2", NULL, KEY_FLOAT, FIELD(adam_beta2), .min = 0, .max = 1, .open = BELOW_MAX, .initial = "0.999", .trajectory = true, .help = "of AdamW"},
    {"adam_epsilon", NULL, KEY_FLOAT, FIELD(adam_epsilon), .min = 0, .max = 1, .open = ABOVE_MIN, .initial = "1e-08", .trajectory = true, .help = "of AdamW"},
    {"max_grad_norm", "gradient_clipping", KEY_FLOAT, FIELD(max_grad_norm), .min = 0, .max = 1e9, .initial = "1", .trajectory = true,
     .help = "clip the gradient's norm to this; 0: don't"},

    {"bf16", NULL, KEY_CHOICE, FIELD(bf16), .choices = bf16, .initial = "auto", .trajectory = true, .help = "false computes in fp32: slow, for checking"},
    {"gradient_checkpointing", "activation_checkpointing", KEY_CHOICE, FIELD(gradient_checkpointing), .choices = checkpointing, .initial = "auto",
     .help = "compute activations again in the backward pass; auto: only if memory needs it"},

    {"logging_steps", NULL, KEY_INT, FIELD(logging_steps), .min = 1, .max = 1e15, .initial = "1", .help = "a line on the terminal every so many steps"},
    {"eval_steps", NULL, KEY_FLOAT, FIELD(eval_steps), .min = 0, .max = 1e15, .help = "evaluate every so many steps; below 1: a share of all steps"},
    {"evals_per_epoch", NULL, KEY_FLOAT, FIELD(evals_per_epoch), .min = 0, .max = 1e9, .help = "evaluations an epoch"},
    {"early_stopping_patience", NULL, KEY_INT, FIELD(early_stopping_patience), .min = 0, .max = 1e9,
     .help = "stop after so many evaluations in a row without a better loss"},
    {"loss_watchdog_threshold", NULL, KEY_FLOAT, FIELD(loss_watchdog_threshold), .min = 0, .max = 1e30, .help = "stop, exit 1, when the loss stays above it"},
    {"loss_watchdog_patience", NULL, KEY_INT, FIELD(loss_watchdog_patience), .min = 1, .max = 1e9, .initial = "3", .help = "for so many steps"},
    {"sample_prompts", NULL, KEY_LIST, FIELD(sample_prompts), .help = "prompts answered at every evaluation"},

    {"output_dir", NULL, KEY_STRING, FIELD(output_dir), .help = "required. The run directory"},
    {"save_steps", NULL, KEY_FLOAT, FIELD(save_steps), .min = 0, .max = 1e15, .help = "full checkpoint every so many steps; below 1: a share of all steps"},
    {"saves_per_epoch", NULL, KEY_FLOAT, FIELD(saves_per_epoch), .min = 0, .max = 1e9, .help = "full checkpoints an epoch"},
    {"save_minutes", NULL, KEY_FLOAT, FIELD(save_minutes), .min = 0, .max = 1e9, .initial = "5", .help = "full checkpoint at least so often; 0: not by time"},
    {"save_total_limit", NULL, KEY_INT, FIELD(save_total_limit), .min = 1, .max = 1e9, .initial = "3", .help = "checkpoints kept, never fewer than two that verify"},
    {"journal", NULL, KEY_FLOAT, FIELD(journal), .min = 0, .max = 1e9, .choices = journals, .initial = "true",
     .help = "every step durable; a number: at most so many seconds at risk"},
    {"resume_check", NULL, KEY_BOOL, FIELD(resume_check), .initial = "true", .help = "on resume compute the last step again and compare"},

    {"preempt_grace_seconds", NULL, KEY_FLOAT, FIELD(preempt_grace_seconds), .min = 0, .max = 1e6, .initial = "5", .help = "time assumed after SIGTERM"},
    {"comm_timeout", NULL, KEY_FLOAT, FIELD(comm_timeout), .min = 0, .max = 1e6, .open = ABOVE_MIN, .initial = "60", .help = "seconds until a silent rank counts as dead"},
    {"max_minutes", NULL, KEY_FLOAT, FIELD(max_minutes), .min = 0, .max = 1e9, .help = "stop then, all durable, exit 75"},
    {"max_cost", NULL, KEY_FLOAT, FIELD(max_cost), .min = 0, .max = 1e9, .help = "the same, in money, by prices.yaml"},
    {"max_fruitless_starts", NULL, KEY_INT, FIELD(max_fruitless_starts), .min = 1, .max = 1e9, .initial = "10",
     .help = "starts in a row without a new durable step before giving up"},
    {"on_event", NULL, KEY_STRING, FIELD(on_event), .help = "command run on finished, preempted, failed"},
    {"spot", NULL, KEY_FLAGS, FIELD(spot), .choices = spots, .initial = "auto", .help = "whose notices to listen to"},
    {"remote", NULL, KEY_STRING, FIELD(remote), .help = "rclone destination, name:bucket/path: the run is uploaded there in the background, and goes on from there"},
    {"remote_minutes", NULL, KEY_FLOAT, FIELD(remote_minutes), .min = 0, .max = 1e9, .open = ABOVE_MIN, .initial = "1", .help = "minutes of work that may be at risk if the machine's disk is lost"},
    {"remote_base", NULL, KEY_BOOL, FIELD(remote_base), .initial = "false", .help = "upload the base model's files too"},

    {"device", NULL, KEY_STRING, FIELD(device), .initial = "auto", .help = "auto, cpu, cuda, cuda:1"},
    {"threads", NULL, KEY_INT, FIELD(threads), .min = 1, .max = 1 << 16, .choices = all_threads, .initial = "all", .help = "of the CPU"},
    {"memory_limit", NULL, KEY_BYTES, FIELD(memory_limit), .help = "8GiB, 500M: stop rather than use more"},
    {"zero_stage", NULL, KEY_CHOICE, FIELD(zero_stage), .choices = zero_stages, .initial = "auto", .help = "1: moments and masters shared out among ranks"},
};
const struct key_table config_keys = {keys, sizeof keys / sizeof *keys};

static const struct choice dataset_types[] = {
    {"auto", DATASET_AUTO, 0},
    {"chat_template", DATASET_CHAT, 0},
    {"sharegpt", DATASET_CHAT, 0}, /* with other names of fields, see load.c */
    {"alpaca", DATASET_ALPACA, 0},
    {"completion", DATASET_COMPLETION, 0},
    {"prompt_completion", DATASET_PROMPT_COMPLETION, 0},
    {"input_output", DATASET_INPUT_OUTPUT, 0},
    {0},
};
const struct choice dataset_styles[] = {{"instruct", STYLE_INSTRUCT, 0}, {"chat", STYLE_CHAT, 0}, {"chatml", STYLE_CHATML, 0}, {"phi", STYLE_PHI, 0}, {0}};
static const struct choice train_on[] = {{"turn", TRAIN_ON_TURN, 0}, {"all", TRAIN_ON_ALL, 0}, {"last", TRAIN_ON_LAST, 0}, {"none", TRAIN_ON_NONE, 0}, {0}};

static const struct key fields[] = {
    {"path", NULL, KEY_STRING, DATASET(path), .place = true, .help = "required. .jsonl, .jsonl.gz, .json, a directory of them, or the id of a data set in the local Hugging Face cache"},
    {"type", NULL, KEY_DATASET_TYPE, DATASET(type), DATASET(style), .choices = dataset_types, .initial = "auto",
     .help = "auto: by the keys of the first lines; alpaca:STYLE with instruct, chat, chatml, phi"},
    {"name", NULL, KEY_STRING, DATASET(name), .help = "of a hub data set's part"},
    {"split", NULL, KEY_STRING, DATASET(split), .help = "train, test, ..."},
    {"revision", NULL, KEY_STRING, DATASET(revision), .help = "of a hub data set"},
    {"data_files", NULL, KEY_LIST, DATASET(data_files), .help = "only these files of path"},
    {"field", "text_column", KEY_STRING, DATASET(field), .help = "completion: the key of the text, default text"},
    {"field_messages", NULL, KEY_STRING, DATASET(field_messages), .help = "chat_template: the key of the messages, default messages"},
    {"field_system", NULL, KEY_STRING, DATASET(field_system), .help = "key of the system prompt, default system"},
    {"field_tools", NULL, KEY_STRING, DATASET(field_tools), .help = "key of the tools, default tools"},
    {"message_property_mappings", NULL, KEY_MAP, DATASET(message_property_mappings), .help = "{role: from, content: value}: the file's names of a message's parts"},
    {"message_field_training", NULL, KEY_STRING, DATASET(message_field_training), .help = "a message's key that says whether it is learnt, default training"},
    {"roles", NULL, KEY_MAP, DATASET(roles), .help = "{user: [human], assistant: [gpt]}: the file's names of roles"},
    {"roles_to_train", NULL, KEY_LIST, DATASET(roles_to_train), .initial = "assistant", .help = "whose messages are learnt"},
    {"train_on_eos", "train_on_eot", KEY_CHOICE, DATASET(train_on_eos), .choices = train_on, .initial = "turn", .help = "which end-of-turn tokens are learnt: of turns that are learnt, all, the last, none"},
    {"drop_system_message", NULL, KEY_BOOL, DATASET(drop_system_message), .initial = "false", .help = "leave system messages out"},
    {"chat_template", NULL, KEY_STRING, DATASET(chat_template), .help = "instead of the run's"},
    {"chat_template_jinja", NULL, KEY_STRING, DATASET(chat_template_jinja), .help = "instead of the run's"},
    {"weight", NULL, KEY_FLOAT, DATASET(weight), .min = 0, .max = 1e6, .open = ABOVE_MIN, .initial = "1", .help = "how often an epoch has each example"},
};
const struct key_table dataset_keys = {fields, sizeof fields / sizeof *fields};

static bool is_alias(const char *aliases, const char *name)
{
    size_t length = strlen(name);

    for (const char *p = aliases; p && *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        if (n == length && !memcmp(p, name, n)) return true;
        p += n;
    }
    return false;
}

const struct key *key_find(const struct key_table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++)
        if (!strcmp(table->keys[i].name, name)) return &table->keys[i];
    for (size_t i = 0; i < table->n; i++)
        if (is_alias(table->keys[i].aliases, name)) return &table->keys[i];
    return NULL;
}

const struct key *key_named(const char *name)
{
    const struct key *key = key_find(&config_keys, name);

    assert(key);
    return key;
}
