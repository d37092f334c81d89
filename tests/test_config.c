/* train/config: what a YAML file and --set become, and what is said about those that make no sense. */
#include "train/config/config.h"
#include "train/config/locate.h"

#include "kernels/base/log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_NAME "test_config.yaml"
#define LEAST "base_model: m\noutput_dir: out\ndatasets: [{path: d.jsonl}]\n" /* three lines */

static enum pawl_status load(struct config **c, const char *text, const char *set, struct err *err)
{
    const char *sets[8];
    char *copy = set ? strdup(set) : NULL, *rest = copy;
    size_t n = 0;
    FILE *f = fopen(FILE_NAME, "w");
    enum pawl_status st;

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    for (char *one; rest && n < 8 && (one = strsep(&rest, "\x1f"));) sets[n++] = one;
    st = config_load(c, FILE_NAME, sets, n, err);
    free(copy);
    return st;
}

static struct config *must(const char *text, const char *set)
{
    struct err err = {0};
    struct config *c;

    if (load(&c, text, set, &err) != PAWL_OK) fail_msg("%s", err.text);
    return c;
}

static char *yaml_of(const struct config *c)
{
    struct buf b = {0};

    config_write_yaml(c, &b);
    return b.data;
}

/* "key: value" as it stands in the resolved configuration of LEAST with `more` and `set`. */
static void expect_line(const char *more, const char *set, const char *line)
{
    char *text, *yaml, *found;
    struct config *c;

    assert_true(asprintf(&text, "%s%s\n", LEAST, more) > 0);
    c = must(text, set);
    yaml = yaml_of(c);
    assert_true(asprintf(&found, "\n%s\n", line) > 0);
    if (!strstr(yaml, found)) fail_msg("%s: expected \"%s\" in\n%s", more, line, yaml);
    free(found);
    free(yaml);
    free(text);
    config_free(c);
}

/* --- what is read --- */

static void defaults_are_those_of_the_interface(void **state)
{
    struct config *c = must(LEAST, NULL);

    assert_int_equal(c->adapter, ADAPTER_QLORA);
    assert_int_equal(c->load_in_4bit, CONFIG_AUTO);
    assert_int_equal(config_base_storage(c), STORAGE_4BIT_UNLESS_QUANTISED);
    assert_int_equal(c->bnb_4bit_quant_type, CONFIG_NF4);
    assert_true(c->bnb_4bit_use_double_quant);
    assert_int_equal(c->lora_r, 16);
    assert_true(c->lora_alpha == 32 && c->lora_dropout == 0);
    assert_true(c->lora_target_linear);
    assert_int_equal(c->ndatasets, 1);
    assert_string_equal(c->datasets[0].path, "d.jsonl");
    assert_int_equal(c->datasets[0].type, DATASET_AUTO);
    assert_int_equal(c->datasets[0].roles_to_train.n, 1);
    assert_string_equal(c->datasets[0].roles_to_train.at[0], "assistant");
    assert_true(c->datasets[0].weight == 1);
    assert_string_equal(c->chat_template, "tokenizer_default");
    assert_int_equal(c->sequence_len, 2048);
    assert_int_equal(c->truncation, TRUNCATION_DROP);
    assert_int_equal(c->micro_batch_size, 1);
    assert_int_equal(c->gradient_accumulation_steps, 1);
    assert_int_equal(c->global_batch_size, 0);
    assert_true(c->num_epochs == 1 && c->max_steps == 0);
    assert_true(c->learning_rate == 2e-4 && c->adam_beta1 == .9 && c->adam_beta2 == .999 && c->adam_epsilon == 1e-8 && c->max_grad_norm == 1);
    assert_int_equal(c->lr_scheduler, SCHEDULE_COSINE);
    assert_int_equal(c->bf16, CONFIG_AUTO);
    assert_int_equal(c->gradient_checkpointing, CONFIG_AUTO);
    assert_int_equal(c->seed, 42);
    assert_true(c->shuffle);
    assert_int_equal(c->logging_steps, 1);
    assert_int_equal(c->loss_watchdog_patience, 3);
    assert_true(c->save_minutes == 5 && c->save_total_limit == 3 && c->journal == 0 && c->resume_check);
    assert_true(c->preempt_grace_seconds == 5 && c->comm_timeout == 60 && c->max_fruitless_starts == 10);
    assert_int_equal(c->spot, SPOT_AUTO);
    assert_string_equal(c->device, "auto");
    assert_int_equal(c->zero_stage, CONFIG_AUTO);
    config_free(c);
}

static void null_and_empty_values_count_as_absent(void **state)
{
    struct config *empty = must(LEAST "lora_r:\nadapter: ~\nlearning_rate: null\nchat_template: ''\neot_tokens: []\nspecial_tokens: {}\nlora_model_dir:\nwandb_project:\nrl:\n"
                                      "deepspeed:\nlora_target_modules:\npeft:\nplugins: []\nsave_strategy:\nfp16:\nmax_steps: -1\n", NULL);
    struct config *least = must(LEAST, NULL);
    struct buf changes = {0};

    if (config_diff(least, empty, false, &changes)) fail_msg("%s", changes.data);
    config_free(empty);
    config_free(least);
}

static void values_in_every_spelling(void **state)
{
    static const char *const cases[][2] = {
        {"lora_r: '8'", "lora_r: 8"},
        {"lora_r: 8.0", "lora_r: 8"},
        {"seed: 9223372036854775807", "seed: 9223372036854775807"},
        {"learning_rate: 5.0e-6", "learning_rate: 5.0e-06"},
        {"learning_rate: 1e-4", "learning_rate: 0.0001"},
        {"sample_packing: yes", "sample_packing: true"},
        {"sample_packing: True", "sample_packing: true"},
        {"shuffle: off", "shuffle: false"},
        {"bf16: false", "bf16: false"},
        {"bf16: full", "bf16: true"},
        {"bfloat16: true", "bf16: true"},
        {"float32: true", "bf16: false"},
        {"fp16: false", "bf16: auto"},
        {"gradient_checkpointing: unsloth", "gradient_checkpointing: true"},
        {"journal: false", "journal: false"},
        {"journal: 30", "journal: 30"},
        {"journal: 0", "journal: true"},
        {"spot: off", "spot: off"},
        {"spot: [aws, azure]", "spot: [aws, azure]"},
        {"spot: gcp", "spot: gcp"},
        {"memory_limit: 8GiB", "memory_limit: 8589934592"},
        {"memory_limit: 500MB", "memory_limit: 500000000"},
        {"memory_limit: 1.5G", "memory_limit: 1610612736"},
        {"device: cuda:1", "device: cuda:1"},
        {"optimizer: paged_adamw_8bit", "optimizer: adamw"},
        {"optim: adamw_torch_fused", "optimizer: adamw"},
        {"truncation: raise", "truncation: error"},
        {"excess_length_strategy: truncate", "truncation: truncate"},
        {"lora_target_modules: q_proj", "lora_target_modules: [q_proj]"},
        {"lora_target_modules: [q_proj, v_proj]", "lora_target_modules: [q_proj, v_proj]"},
        {"lora_target_modules: '.*\\.(q|v)_proj'", "lora_target_modules: \".*\\\\.(q|v)_proj\""},
        {"lora_target_modules: all-linear", "lora_target_linear: true"},
        {"lora_target_modules: [q_proj]\nlora_target_linear: true", "lora_target_linear: false"},
        {"special_tokens: {pad_token: <|end_of_text|>, unk_token: }", "special_tokens: {pad_token: \"<|end_of_text|>\"}"},
        {"special_tokens: {additional_special_tokens: [a, b], pad_token: c}", "special_tokens: {additional_special_tokens: [a, b], pad_token: c}"},
        {"eot_tokens: <end_of_turn>", "eot_tokens: [\"<end_of_turn>\"]"},
        {"load_in_8bit: true", "adapter: lora"},
        {"lr_scheduler: cosine\ncosine_min_lr_ratio: 0.1", "lr_scheduler: cosine_with_min_lr"},
        {"lr_scheduler_kwargs: {min_lr_rate: 0.2}", "cosine_min_lr_ratio: 0.2"},
        {"lr_scheduler: cosine_with_min_lr\ncosine_min_lr_ratio: 0", "lr_scheduler: cosine"},
        {"chat_template_jinja: t.jinja", "chat_template: jinja"},
        {"save_strategy: epoch", "saves_per_epoch: 1"},
        {"save_strategy: 'no'", "save_minutes: 0"},
        {"eval_strategy: epoch\nval_set_size: 10", "evals_per_epoch: 1"},
        {"global_batch_size: 8\nmicro_batch_size: 4", "global_batch_size: 8"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_line(cases[i][0], NULL, cases[i][1]);
}

static void names_of_transformers_and_peft_are_aliases(void **state)
{
    static const char *const cases[][2] = {
        {"per_device_train_batch_size: 4", "micro_batch_size: 4"},
        {"num_train_epochs: 2.5", "num_epochs: 2.5"},
        {"max_length: 512", "sequence_len: 512"},
        {"max_seq_length: 512", "sequence_len: 512"},
        {"packing: true", "sample_packing: true"},
        {"r: 4", "lora_r: 4"},
        {"target_modules: [q_proj]", "lora_target_modules: [q_proj]"},
        {"use_rslora: true", "peft_use_rslora: true"},
        {"lr_scheduler_type: linear", "lr_scheduler: linear"},
        {"shuffle_merged_datasets: false", "shuffle: false"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_line(cases[i][0], NULL, cases[i][1]);
}

static void data_sets_in_every_form(void **state)
{
    struct config *c = must("base_model: m\noutput_dir: o\ndatasets:\n"
                            "  - {path: a, type: sharegpt}\n"
                            "  - {path: b, type: 'alpaca:phi', weight: 0.5}\n"
                            "  - {path: c, type: chat_template, roles: {user: [human, you], assistant: gpt}, message_field_role: from, message_field_content: value}\n"
                            "  - {path: json, data_files: x.jsonl, ds_type: json, train_on_eot: last, roles_to_train: [assistant, tool]}\n"
                            "test_datasets:\n  - {path: t}\n", NULL);
    const struct dataset_config *d = c->datasets;

    assert_int_equal(c->ndatasets, 4);
    assert_int_equal(d[0].type, DATASET_CHAT);
    assert_string_equal(d[0].field_messages, "conversations");
    assert_int_equal(d[0].message_property_mappings.n, 2);
    assert_string_equal(d[0].message_property_mappings.value[1], "value");
    assert_int_equal(d[1].type, DATASET_ALPACA);
    assert_int_equal(d[1].style, STYLE_PHI);
    assert_true(d[1].weight == 0.5);
    assert_int_equal(d[2].roles.n, 3);
    assert_string_equal(d[2].roles.key[1], "user");
    assert_string_equal(d[2].roles.value[1], "you");
    assert_string_equal(d[2].message_property_mappings.key[0], "role");
    assert_string_equal(d[2].message_property_mappings.value[0], "from");
    assert_string_equal(d[3].path, ".");
    assert_string_equal(d[3].data_files.at[0], "x.jsonl");
    assert_int_equal(d[3].train_on_eos, TRAIN_ON_LAST);
    assert_int_equal(d[3].roles_to_train.n, 2);
    assert_string_equal(c->test_datasets[0].path, "t");
    config_free(c);
}

/* --- --set --- */

static void set_overrides_and_nests(void **state)
{
    static const char *const cases[][2] = {
        {"lora_r=4", "lora_r: 4"},
        {"lora_r=4\x1flora_r=5", "lora_r: 5"},
        {"r=4", "lora_r: 4"},
        {"output_dir=runs/a: b # c", "output_dir: \"runs/a: b # c\""},
        {"lora_target_modules=[q_proj, v_proj]", "lora_target_modules: [q_proj, v_proj]"},
        {"datasets.0.path=e.jsonl", "  - path: e.jsonl"},
        {"datasets.0.type=alpaca:chat", "    type: alpaca:chat"},
        {"datasets.1.path=f", "  - path: f"},
        {"datasets.0={path: g, type: completion}", "  - path: g"},
        {"datasets=[{path: h}, {path: i}]", "  - path: i"},
        {"datasets.0.roles.user=human", "    roles: {user: human}"},
        {"special_tokens.pad_token=<pad>", "special_tokens: {eos_token: \"</s>\", pad_token: \"<pad>\"}"},
        {"special_tokens.eos_token=x", "special_tokens: {eos_token: x}"},
        {"seed=", "seed: 42"},
        {"seed=null", "seed: 42"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_line("special_tokens: {eos_token: </s>}\nseed: 7", cases[i][0], cases[i][1]);
}

/* --- what is refused, and how --- */

struct refusal {
    const char *yaml, *set, *text; /* yaml: goes on behind LEAST, at line 4 */
};

static void expect_refusals(const struct refusal *cases, size_t n, enum pawl_status want)
{
    for (size_t i = 0; i < n; i++) {
        struct err err = {0};
        struct config *c = NULL;
        char *text;
        enum pawl_status st;

        assert_true(asprintf(&text, "%s%s\n", LEAST, cases[i].yaml ? cases[i].yaml : "") > 0);
        st = load(&c, text, cases[i].set, &err);
        if (st == PAWL_OK) fail_msg("accepted: %s %s", cases[i].yaml, cases[i].set);
        if (!strstr(err.text, cases[i].text)) fail_msg("expected \"%s\"\n   found \"%s\"", cases[i].text, err.text);
        assert_int_equal(st, want);
        assert_null(c);
        assert_null(strchr(err.text, '\n'));
        free(text);
    }
}
#define EXPECT_REFUSALS(cases, want) expect_refusals(cases, sizeof(cases) / sizeof *(cases), want)

static void unknown_keys_are_named_with_their_place(void **state)
{
    static const struct refusal cases[] = {
        {"lora_rr: 4", NULL, FILE_NAME ":4:1: lora_rr: unknown key: did you mean lora_r?"},
        {"  \n\nlearning_rat: 4", NULL, FILE_NAME ":6:1: learning_rat: unknown key: did you mean learning_rate?"},
        {"per_device_train_batchsize: 4", NULL, ":4:1: per_device_train_batchsize: unknown key: did you mean per_device_train_batch_size?"},
        {"xyzzy: 4", NULL, ":4:1: xyzzy: unknown key: `pawl train --help-keys` lists the known ones"},
        {"xyzzy:", NULL, ":4:1: xyzzy: unknown key"},
        {"test_datasets:\n  - path: a\n    typ: alpaca", NULL, ":6:5: test_datasets.0.typ: unknown key: did you mean type?"},
        {NULL, "lora_rr=4", "--set: lora_rr: unknown key: did you mean lora_r?"},
        {NULL, "datasets.0.typ=alpaca", "--set: datasets.0.typ: unknown key: did you mean type?"},
        {NULL, "dataset.0.type=alpaca", "--set: dataset: unknown key: did you mean datasets?"},
    };

    EXPECT_REFUSALS(cases, PAWL_EINVAL);
}

static void wrong_types_and_ranges_say_what_is_allowed(void **state)
{
    static const struct refusal cases[] = {
        {"lora_r: sixteen", NULL, FILE_NAME ":4:9: lora_r: expected a whole number from 1 to 8192, found \"sixteen\""},
        {"lora_r: 0", NULL, ":4:9: lora_r: expected a whole number from 1 to 8192, found \"0\""},
        {"lora_r: 1.5", NULL, "found \"1.5\""},
        {"lora_r: 0x10", NULL, "found \"0x10\""},
        {"lora_r: [1]", NULL, ":4:9: lora_r: expected a whole number from 1 to 8192, found a list"},
        {"lora_r: {a: 1}", NULL, "found a mapping"},
        {"seed: 9223372036854775808", NULL, "seed: expected a whole number, 0 or more"},
        {"learning_rate: -1", NULL, "learning_rate: expected a number above 0, at most 100, found \"-1\""},
        {"learning_rate: 0", NULL, "learning_rate: expected a number above 0, at most 100, found \"0\""},
        {"adam_beta2: 1", NULL, "adam_beta2: expected a number from 0 to below 1, found \"1\""},
        {"learning_rate: nan", NULL, "found \"nan\""},
        {"learning_rate: 1e999", NULL, "found \"1e999\""},
        {"lora_dropout: 1", NULL, "lora_dropout: expected a number from 0 to below 1, found \"1\""},
        {"lora_dropout: \"0.\\n\\e[1m\"", NULL, "lora_dropout: expected a number from 0 to below 1, found \"0.  [1m\""}, /* no line end, no escape */
        {"sample_packing: maybe", NULL, "sample_packing: expected true or false, found \"maybe\""},
        {"lr_scheduler: cosin", NULL,
         "lr_scheduler: expected one of constant, linear, cosine, constant_with_warmup, cosine_with_min_lr, found \"cosin\": did you mean cosine?"},
        {"optimizer: lion_8bit", NULL, "optimizer: expected one of adamw, found \"lion_8bit\""},
        {"adapter: dora", NULL, "adapter: expected one of qlora, lora, found \"dora\""},
        {"bf16: 7", NULL, "bf16: expected one of auto, true, false, found \"7\""},
        {"memory_limit: lots", NULL, "memory_limit: expected a number of bytes, such as 8GiB or 500M, found \"lots\""},
        {"spot: [aws, gpc]", NULL, ":4:13: spot: expected one of auto, off, aws, gcp, azure, or a list of them, found \"gpc\": did you mean gcp?"},
        {"output_dir2: [a]", NULL, "unknown key"},
        {"lora_model_dir: [a]", NULL, "lora_model_dir: expected a text, found a list"},
        {"lora_model_dir: \"a\\0b\"", NULL, "lora_model_dir: expected a text"},
        {"eot_tokens: [a, [b]]", NULL, ":4:17: eot_tokens: expected a list of texts, found a list"},
        {"special_tokens: [a]", NULL, "special_tokens: expected a mapping of names to texts, found a list"},
        {"special_tokens: {a: {b: c}}", NULL, ":4:21: special_tokens: expected a mapping of names to texts, found a mapping"},
        {"lora_target_modules: {a: b}", NULL, "lora_target_modules: expected a list of names of layers, or one regex, found a mapping"},
        {"lora_target_modules: [q, q]", NULL, ":4:1: lora_target_modules: \"q\" stands twice"},
        {"test_datasets: a.jsonl", NULL, ":4:16: test_datasets: expected a list of mappings"},
        {"test_datasets: [a.jsonl]", NULL, ":4:17: test_datasets.0: expected a mapping with at least a path"},
        {"test_datasets: [{type: alpaca}]", NULL, ":4:17: test_datasets.0.path: missing"},
        {"test_datasets: [{path: a, path: b}]", NULL, ":4:27: test_datasets.0.path: stands twice"},
        {"test_datasets: [{path: a, type: alpacca}]", NULL, "test_datasets.0.type: expected one of auto, chat_template, alpaca, completion, prompt_completion, input_output, found "
                                                            "\"alpacca\": did you mean alpaca?"},
        {"test_datasets: [{path: a, type: 'completion:phi'}]", NULL, "expected completion without a style"},
        {"test_datasets: [{path: a, train_on_eos: sometimes}]", NULL, "expected one of turn, all, last, none"},
        {NULL, "lora_r=x", "--set: lora_r: expected a whole number from 1 to 8192, found \"x\""},
        {NULL, "datasets.0.weight=-1", "--set: datasets.0.weight: expected a number above 0"},
        {NULL, "datasets.5.path=a", "--set: datasets.5.path: expected the number of an entry of datasets, 0 to 1"},
        {NULL, "datasets.x.path=a", "expected the number of an entry of datasets"},
        {NULL, "datasets.0.path.x=a", "datasets.0.path is no mapping and has no parts"},
        {NULL, "lora_r.x=a", "--set: lora_r.x: lora_r is one value and has no parts"},
        {NULL, "lora_target_modules=[a", "--set: malformed YAML"},
        {NULL, "datasets.1.type=alpaca", "datasets: datasets.1.path: missing"},
    };

    EXPECT_REFUSALS(cases, PAWL_EINVAL);
}

static void keys_that_are_not_supported_say_what_to_use(void **state)
{
    static const struct refusal cases[] = {
        {"rl: dpo", NULL, FILE_NAME ":4:1: rl: preference and reward training is not supported"},
        {"deepspeed: ds.json", NULL, ":4:1: deepspeed: not supported: ZeRO-1"},
        {"fsdp:\n  - full_shard", NULL, ":4:1: fsdp: not supported"},
        {"fsdp_config: {a: b}", NULL, "fsdp_config: not supported"},
        {"fp16: true", NULL, ":4:1: fp16: not supported: use bf16: auto"},
        {"float16: true", NULL, "float16: not supported: use bf16: auto"},
        {"peft_use_dora: true", NULL, "peft_use_dora: not supported"},
        {"batch_size: 8", NULL, "use global_batch_size"},
        {"pretraining_dataset: [{path: a}]", NULL, "pretraining_dataset: not supported"},
        {"plugins: [axolotl.integrations.spectrum.SpectrumPlugin]", NULL, ":4:11: plugins: \"axolotl.integrations.spectrum.SpectrumPlugin\" is not supported"},
        {"lr_scheduler_kwargs: {num_cycles: 3}", NULL, ":4:23: lr_scheduler_kwargs.num_cycles: not supported"},
        {"save_strategy: best", NULL, ":4:16: save_strategy: expected one of no, steps, epoch, found \"best\""},
        {"test_datasets: [{path: a, ds_type: parquet}]", NULL, "test_datasets.0.ds_type: not supported: JSON lines only"},
        {"peft: {use_magic: true}", NULL, "peft.use_magic: unknown key"},
    };

    EXPECT_REFUSALS(cases, PAWL_EINVAL);
}

static void contradictions_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {"load_in_4bit: true\nload_in_8bit: true", NULL, ":5:1: load_in_8bit: load_in_4bit is true as well, at " FILE_NAME ":4:1"},
        {"adapter: qlora\nload_in_8bit: true", NULL, ":4:1: adapter: qlora is LoRA on a 4-bit base, but load_in_8bit is true: use adapter: lora"},
        {"adapter: qlora\nload_in_4bit: false", NULL, "but load_in_4bit is false"},
        {"lora_target_linear: false", NULL, "nothing would be trained"},
        {"warmup_steps: 5\nwarmup_ratio: 0.1", NULL, ":5:1: warmup_ratio: warmup_steps is given as well, at " FILE_NAME ":4:1"},
        {"lr_scheduler: constant\nwarmup_steps: 5", NULL, "use constant_with_warmup"},
        {"lr_scheduler: linear\ncosine_min_lr_ratio: 0.1", NULL, "cosine_min_lr_ratio: takes effect with lr_scheduler: cosine only, found linear"},
        {"lr_scheduler: cosine_with_min_lr", NULL, "cosine_with_min_lr needs cosine_min_lr_ratio"},
        {"val_set_size: 1.5", NULL, "val_set_size: expected a share below 1 or a whole number of examples, found 1.5"},
        {"val_set_size: 0.1\ntest_datasets: [{path: a}]", NULL, "expected one kind of held-out data"},
        {"chat_template: jinja", NULL, "jinja needs chat_template_jinja"},
        {"chat_template: llama3\nchat_template_jinja: a", NULL, "takes effect with chat_template: jinja only"},
        {"eval_steps: 5\nevals_per_epoch: 2\nval_set_size: 9", NULL, "eval_steps: evals_per_epoch is given as well, at " FILE_NAME ":5:1"},
        {"save_steps: 5\nsaves_per_epoch: 2", NULL, "save_steps: saves_per_epoch is given as well"},
        {"save_steps: 5.5", NULL, "save_steps: expected a whole number of steps or a share"},
        {"save_strategy: steps", NULL, ":4:1: save_strategy: steps needs save_steps"},
        {"save_strategy: epoch\nsave_steps: 3", NULL, "save_steps: save_strategy is epoch"},
        {"early_stopping_patience: 3", NULL, "there is no held-out data to watch"},
        {"early_stopping_patience: 3\nval_set_size: 5", NULL, "nothing is evaluated"},
        {"global_batch_size: 9\nmicro_batch_size: 2\ngradient_accumulation_steps: 2", NULL, ":4:1: global_batch_size: 9 is no multiple of micro_batch_size x gradient_accumulation_steps = 2 x 2"},
        {"device: gpu", NULL, "device: expected auto, cpu, cuda or cuda:N, found \"gpu\""},
        {"remote: bucket/path", NULL, "remote: expected an rclone destination, name:bucket/path"},
        {"lora_r: 4\nlora_r: 4", NULL, ":5:1: lora_r: stands twice, before at " FILE_NAME ":4:1"},
        {"lora_r: 4\nr: 4", NULL, ":5:1: r: another name of lora_r, which stands at " FILE_NAME ":4:1"},
    };

    EXPECT_REFUSALS(cases, PAWL_EINVAL);
}

static void missing_and_malformed_files(void **state)
{
    static const struct {
        const char *yaml, *text;
    } cases[] = {
        {"", FILE_NAME ": base_model: missing"},
        {"base_model: m\n", FILE_NAME ": datasets: missing"},
        {"base_model: m\ndatasets: [{path: a}]\n", FILE_NAME ": output_dir: missing"},
        {"- a\n", FILE_NAME ":1:1: expected keys and values"},
        {"just text", FILE_NAME ":1:1: expected keys and values"},
        {"a: [1\nb: 2\n", FILE_NAME ":2:2: malformed YAML"},
        {"a: b: c\n", FILE_NAME ":1:5: malformed YAML: mapping values are not allowed in this context"},
        {"\tlora_r: 3\n", FILE_NAME ":1:1: malformed YAML"},
        {"base_model: \xff\n", FILE_NAME ": byte 12"},
        {LEAST "---\na: b\n", FILE_NAME ":5:1: a second document begins here"},
        {"[a]: b\n", FILE_NAME ":1:1: expected the name of a key"},
        {"base_model: &x [*x]\n", "base_model: expected a text, found a list"},
        {"base_model: *nothing\n", "malformed YAML"},
    };
    struct err err;
    struct config *c;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(load(&c, cases[i].yaml, NULL, &err), PAWL_OK);
        if (!strstr(err.text, cases[i].text)) fail_msg("%s: expected \"%s\"\n   found \"%s\"", cases[i].yaml, cases[i].text, err.text);
    }
    assert_int_equal(config_load(&c, "no/such/file.yaml", NULL, 0, &err), PAWL_EIO);
    assert_non_null(strstr(err.text, "no/such/file.yaml: No such file"));
    assert_int_equal(config_load(&c, ".", NULL, 0, &err), PAWL_EIO);
    assert_int_equal(load(&c, LEAST, "lora_r", &err), PAWL_EUSAGE);
    assert_int_equal(load(&c, LEAST, "output_dir=\xff", &err), PAWL_EUSAGE);
}

/* --- back to text --- */

static void resolved_yaml_reads_back_equal(void **state)
{
    static const char *const texts[] = {
        LEAST,
        "base_model: 'null'\noutput_dir: \"a\\nb\\t\\\\ \\x01\\u0085\\u2028\\uFEFF\\U0001F600 \\\"q\\\" é\"\ndatasets: [{path: 'yes', name: '12', split: '1e3', field: '2024-01-01'}]\n",
        LEAST "on_event: ' # no comment'\nlora_model_dir: 'a: b'\nremote: 's3:b/p'\nsample_prompts: ['-', '*x', '&y', '!z', '%', '@', '[a]', '{b}', 'c,d', 'true', '~', '0x1f', '0b1', '1_000', '.5', '.inf', "
              "'a #b', 'x:', '? y', '|', '>', ' lead', 'trail ']\n",
        LEAST "spot: [aws, gcp]\njournal: 2.5\nval_set_size: 0.125\nlora_target_modules: '.*q_proj$'\nlearning_rate: 0.1234567890123456789\nadam_epsilon: 1e-300\nmemory_limit: 3T\n",
        LEAST "chat_template: jinja\nchat_template_jinja: |\n  {% for m in messages %}\n  {{ m.content }}\n  {% endfor %}\n",
        LEAST "lr_scheduler: cosine_with_min_lr\ncosine_min_lr_ratio: 0\nload_in_8bit: true\nglobal_batch_size: 16\ngradient_accumulation_steps: 4\nmicro_batch_size: 2\nmax_steps: 7\n",
        "base_model: m\noutput_dir: o\ndatasets:\n- {path: a, type: sharegpt}\n- {path: b, type: 'alpaca:chatml', roles: {user: [x, y], assistant: z}, data_files: [p, q], train_on_eos: none}\n"
        "test_datasets: [{path: c, weight: 0.3}]\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct config *a = must(texts[i], NULL), *b;
        char *first = yaml_of(a), *second;
        struct buf changes = {0};

        b = must(first, NULL);
        second = yaml_of(b);
        assert_string_equal(first, second);
        if (config_diff(a, b, false, &changes)) fail_msg("%s", changes.data);
        assert_true(config_hash(a) == config_hash(b));
        assert_string_equal(a->output_dir, b->output_dir);
        assert_string_equal(a->base_model, b->base_model);
        assert_int_equal(a->sample_prompts.n, b->sample_prompts.n);
        for (size_t j = 0; j < a->sample_prompts.n; j++) assert_string_equal(a->sample_prompts.at[j], b->sample_prompts.at[j]);
        assert_true(a->learning_rate == b->learning_rate && a->adam_epsilon == b->adam_epsilon);
        free(first);
        free(second);
        config_free(a);
        config_free(b);
    }
}

static void differences_are_listed_with_both_values(void **state)
{
    struct config *a = must(LEAST "lora_r: 8\neot_tokens: [x]\n", NULL);
    struct config *b = must(LEAST "lora_r: 16\nthreads: 3\nmax_steps: 10\n", "datasets.0.type=alpaca\x1f" "datasets.1.path=e");
    struct buf all = {0}, trajectory = {0};

    assert_int_equal(config_diff(a, b, false, &all), 11);
    assert_int_equal(config_diff(a, b, true, &trajectory), 9);
    assert_non_null(strstr(all.data, "threads: all -> 3\n"));
    assert_null(strstr(trajectory.data, "threads"));
    assert_non_null(strstr(trajectory.data, "lora_r: 8 -> 16\n"));
    assert_non_null(strstr(trajectory.data, "eot_tokens: [x] -> absent\n"));
    assert_non_null(strstr(trajectory.data, "max_steps: absent -> 10\n"));
    assert_non_null(strstr(trajectory.data, "datasets.0.type: auto -> alpaca\n"));
    assert_non_null(strstr(all.data, "datasets.1.path: absent -> e\n"));
    assert_null(strstr(trajectory.data, "datasets.1.path"));
    assert_true(config_hash(a) != config_hash(b));
    buf_free(&all);
    buf_free(&trajectory);
    config_free(a);
    config_free(b);
}

/* What a resume may change without another result has no part in the hash; everything else has. */
static void hash_covers_what_changes_results(void **state)
{
    static const char *const same[] = {"threads=1",     "device=cpu",       "micro_batch_size=4", "logging_steps=9", "save_steps=3", "journal=false",       "output_dir=x",
                                       "zero_stage=0", "max_minutes=3", "spot=off",      "remote=a:b",         "gradient_checkpointing=true",         "sample_prompts=[a]",
                                       "base_model=n", "datasets.0.path=z"};
    static const char *const other[] = {"seed=1", "lora_r=4", "lora_alpha=1", "lora_dropout=0.1", "learning_rate=1", "num_epochs=2", "max_steps=3", "sequence_len=64", "sample_packing=true",
                                        "datasets.0.weight=2", "chat_template=chatml", "bf16=false", "global_batch_size=2", "val_set_size=3", "shuffle=false", "load_in_4bit=true"};
    struct config *c = must(LEAST, NULL);

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct config *d = must(LEAST, same[i]);

        if (config_hash(c) != config_hash(d)) fail_msg("%s changes the hash", same[i]);
        config_free(d);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct config *d = must(LEAST, other[i]);

        if (config_hash(c) == config_hash(d)) fail_msg("%s does not change the hash", other[i]);
        config_free(d);
    }
    config_free(c);
}

/* --- batch and base --- */

static void global_batch_is_fixed_at_the_first_launch(void **state)
{
    struct config *c = must(LEAST "micro_batch_size: 2\ngradient_accumulation_steps: 3\n", NULL);
    struct err err;

    assert_int_equal(config_fix_batch(c, 4, 0, &err), PAWL_OK);
    assert_int_equal(c->global_batch_size, 24);
    assert_int_equal(config_fix_batch(c, 2, 24, &err), PAWL_OK);
    assert_int_equal(c->global_batch_size, 24);
    config_free(c);

    c = must(LEAST "micro_batch_size: 2\n", NULL);
    assert_int_equal(config_fix_batch(c, 2, 24, &err), PAWL_OK);
    assert_int_equal(c->global_batch_size, 24);
    config_free(c);

    c = must(LEAST "global_batch_size: 4\n", NULL);
    assert_int_equal(config_fix_batch(c, 8, 0, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "4 rows for 8 ranks"));
    config_free(c);
}

static void base_storage_follows_adapter_and_load_in(void **state)
{
    static const struct {
        const char *yaml;
        enum config_storage want;
    } cases[] = {
        {LEAST, STORAGE_4BIT_UNLESS_QUANTISED},
        {LEAST "load_in_4bit: true\n", STORAGE_4BIT},
        {LEAST "adapter: lora\n", STORAGE_AS_IT_IS},
        {LEAST "adapter: lora\nload_in_4bit: true\n", STORAGE_4BIT},
        {LEAST "adapter: lora\nload_in_8bit: true\n", STORAGE_8BIT},
        {LEAST "load_in_4bit: false\n", STORAGE_AS_IT_IS},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *c = must(cases[i].yaml, NULL);

        assert_int_equal(config_base_storage(c), cases[i].want);
        config_free(c);
    }
}

/* --- locate --- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void hub_ids_are_found_in_the_local_cache(void **state)
{
    static const char *const dirs[] = {"hf", "hf/hub", "hf/hub/models--o--n.1", "hf/hub/models--o--n.1/refs", "hf/hub/models--o--n.1/snapshots", "hf/hub/models--o--n.1/snapshots/abc",
                                       "hf/hub/datasets--o--d", "hf/hub/datasets--o--d/refs", "hf/hub/datasets--o--d/snapshots", "hf/hub/datasets--o--d/snapshots/def"};
    struct err err;
    char *path;

    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) mkdir(dirs[i], 0777);
    write_file("hf/hub/models--o--n.1/refs/main", "abc\n");
    write_file("hf/hub/datasets--o--d/refs/v2", "def");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    setenv("HF_HOME", "hf", 1);

    assert_int_equal(locate(&path, "o/n.1", LOCATE_MODEL, NULL, &err), PAWL_OK);
    assert_string_equal(path, "hf/hub/models--o--n.1/snapshots/abc");
    free(path);
    assert_int_equal(locate(&path, "o/n.1", LOCATE_MODEL, "abc", &err), PAWL_OK);
    free(path);
    assert_int_equal(locate(&path, "o/d", LOCATE_DATASET, "v2", &err), PAWL_OK);
    assert_string_equal(path, "hf/hub/datasets--o--d/snapshots/def");
    free(path);
    assert_int_equal(locate(&path, "hf/hub", LOCATE_MODEL, NULL, &err), PAWL_OK);
    assert_string_equal(path, "hf/hub");
    free(path);

    assert_int_equal(locate(&path, "o/n.1", LOCATE_DATASET, NULL, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "`hf download o/n.1 --repo-type dataset`"));
    assert_int_equal(locate(&path, "o/d", LOCATE_DATASET, "v3", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "`hf download o/d --repo-type dataset --revision v3`"));
    assert_int_equal(locate(&path, "o/none", LOCATE_MODEL, NULL, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "o/none: neither a path here nor in the Hugging Face cache hf/hub: `hf download o/none` fetches it"));
    assert_int_equal(locate(&path, "./o/none", LOCATE_MODEL, NULL, &err), PAWL_EINVAL);
    assert_string_equal(err.text, "./o/none: no such file or directory");
    assert_int_equal(locate(&path, "o/n.1", LOCATE_MODEL, "../../x", &err), PAWL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_interface),
        cmocka_unit_test(null_and_empty_values_count_as_absent),
        cmocka_unit_test(values_in_every_spelling),
        cmocka_unit_test(names_of_transformers_and_peft_are_aliases),
        cmocka_unit_test(data_sets_in_every_form),
        cmocka_unit_test(set_overrides_and_nests),
        cmocka_unit_test(unknown_keys_are_named_with_their_place),
        cmocka_unit_test(wrong_types_and_ranges_say_what_is_allowed),
        cmocka_unit_test(keys_that_are_not_supported_say_what_to_use),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(missing_and_malformed_files),
        cmocka_unit_test(resolved_yaml_reads_back_equal),
        cmocka_unit_test(differences_are_listed_with_both_values),
        cmocka_unit_test(hash_covers_what_changes_results),
        cmocka_unit_test(global_batch_is_fixed_at_the_first_launch),
        cmocka_unit_test(base_storage_follows_adapter_and_load_in),
        cmocka_unit_test(hub_ids_are_found_in_the_local_cache),
    };

    log_level = LOG_QUIET;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
