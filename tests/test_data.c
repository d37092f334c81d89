/* Data sets: what is read, what is supervised, what is refused. Texts are shown with what is supervised in [brackets]. */
#define DIR "test_data.tmp"
#include "tests/data_fixture.h"

#include <zlib.h>

static struct tokenizer *with_bos;

/* --- helpers */

static char *show(struct example e, const struct tokenizer *t)
{
    struct buf b = {0};
    int32_t ids[4096];

    for (int i = 0, n; i < e.length; i += n) {
        uint32_t mask = e.tokens[i] & TOKEN_SUPERVISED;

        for (n = 0; i + n < e.length && (e.tokens[i + n] & TOKEN_SUPERVISED) == mask; n++) ids[n] = (int32_t)(e.tokens[i + n] & TOKEN_ID);
        if (mask) buf_addc(&b, '[');
        tokenizer_decode(t, ids, (size_t)n, false, &b);
        if (mask) buf_addc(&b, ']');
    }
    return b.data;
}

static void shows(const struct dataset *d, size_t i, const char *expected)
{
    char *text = show(dataset_example(d, i), tokenizer);

    assert_string_equal(text, expected);
    free(text);
}

/* One record of a type gives one example that looks so. */
static void reads_as(struct dataset_config p, struct dataset_options o, const char *record, const char *expected)
{
    struct dataset *d;

    write_text(DIR "/a.jsonl", record);
    p.path = (char *)DIR "/a.jsonl";
    d = open_with(p, o);
    assert_int_equal(dataset_count(d), 1);
    shows(d, 0, expected);
    dataset_free(d);
}

static void refused_with(struct dataset_config p, struct dataset_options o, const char *where, const char *what)
{
    struct dataset *d = NULL;
    struct err err = {0};

    if (dataset_open(&d, &p, 1, &o, &err) == PAWL_OK) fail_msg("accepted, expected: %s", what);
    assert_null(d);
    if (!strstr(err.text, where) || !strstr(err.text, what)) fail_msg("'%s' lacks '%s' or '%s'", err.text, where, what);
    assert_null(strchr(err.text, '\n'));
}

static void refused(const char *text, int type, const char *where, const char *what)
{
    write_text(DIR "/a.jsonl", text);
    refused_with(part(DIR "/a.jsonl", type), options(), where, what);
}

/* --- what is supervised */

#define TWO_TURNS "{\"messages\": [{\"role\": \"system\", \"content\": \"be\"}, {\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yes\"}, " \
                  "{\"role\": \"user\", \"content\": \"more\"}, {\"role\": \"assistant\", \"content\": \"no\"}]}\n"

static void chats_supervise_assistant_turns_with_their_end(void **state)
{
    reads_as(part(NULL, DATASET_CHAT), options(), TWO_TURNS,
             "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[yes<|im_end|>]\n"
             "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[no<|im_end|>]\n");
}

static void end_of_turn_tokens_follow_train_on_eos(void **state)
{
    static const char *const expected[] = {
        [TRAIN_ON_TURN] = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[yes<|im_end|>]\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[no<|im_end|>]\n",
        [TRAIN_ON_ALL] = "<|im_start|>user\nhi[<|im_end|>]\n<|im_start|>assistant\n[yes<|im_end|>]\n<|im_start|>user\nmore[<|im_end|>]\n<|im_start|>assistant\n[no<|im_end|>]\n",
        [TRAIN_ON_LAST] = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[yes]<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[no<|im_end|>]\n",
        [TRAIN_ON_NONE] = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[yes]<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[no]<|im_end|>\n",
    };

    for (int k = TRAIN_ON_TURN; k <= TRAIN_ON_NONE; k++) {
        struct dataset_config p = part(NULL, DATASET_CHAT);

        p.train_on_eos = k;
        p.drop_system_message = true;
        reads_as(p, options(), TWO_TURNS, expected[k]);
    }
}

static void turns_can_be_chosen(void **state)
{
    struct dataset_config p = part(NULL, DATASET_CHAT);
    struct dataset_options o = options();
    char *roles[] = {"human"};

    reads_as(p, o, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0}, "
                   "{\"role\": \"user\", \"content\": \"c\", \"train\": true}, {\"role\": \"assistant\", \"content\": \"d\", \"training\": false}]}",
             "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\n[c<|im_end|>]\n<|im_start|>assistant\nd<|im_end|>\n");
    p.roles_to_train = (struct str_list){roles, 1};
    reads_as(p, o, "{\"messages\": [{\"role\": \"user\", \"content\": \"qz\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
             "<|im_start|>user\n[qz<|im_end|>]\n<|im_start|>assistant\nb<|im_end|>\n");
    o.train_on_inputs = true;
    reads_as(part(NULL, DATASET_CHAT), o, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
             "<|im_start|>[user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n]");
}

/* A template that leaves out what was thought in earlier turns: each turn is learned as the model will see it when it writes it. */
static void templates_that_rewrite_history_give_an_example_a_turn(void **state)
{
    static const char source[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n"
                                 "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('|')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
                                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    struct dataset_config p = part(DIR "/a.jsonl", DATASET_CHAT);
    struct dataset *d;

    write_text(DIR "/template.jinja", source);
    write_text(DIR "/a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"hm|yes\"}, "
                               "{\"role\": \"user\", \"content\": \"more\"}, {\"role\": \"assistant\", \"content\": \"well|no\"}]}\n");
    p.chat_template_jinja = DIR "/template.jinja";
    d = open_with(p, options());
    assert_int_equal(dataset_count(d), 2);
    shows(d, 0, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[hm|yes<|im_end|>]\n");
    shows(d, 1, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[well|no<|im_end|>]\n");
    assert_int_equal(dataset_findings(d)->count[FINDING_DUPLICATE], 0);
    dataset_free(d);

    write_text(DIR "/a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"\"}, "
                               "{\"role\": \"user\", \"content\": \"more\"}, {\"role\": \"assistant\", \"content\": \"no\"}]}\n");
    d = open_with(p, options()); /* an empty answer ends like any other */
    shows(d, 0, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[<|im_end|>]\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n[no<|im_end|>]\n");
    dataset_free(d);

    p.chat_template_jinja = "{% if messages|length > 2 %}{{ raise_exception('one turn at a time') }}{% endif %}";
    refused_with(p, options(), "a.jsonl:1", "one turn at a time");
    p.chat_template = "nonsense";
    p.chat_template_jinja = NULL;
    refused_with(p, options(), "nonsense", "chatml");
}

static void other_spellings_of_messages_are_read(void **state)
{
    static const char expected[] = "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[yes<|im_end|>]\n";
    struct dataset_config p = part(NULL, DATASET_CHAT);
    char *ours[] = {"role", "content"}, *theirs[] = {"who", "says"}, *role[] = {"assistant"}, *named[] = {"bot"};

    reads_as(part(NULL, DATASET_AUTO), options(),
             "{\"system\": \"be\", \"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": \"gpt\", \"value\": \"yes\"}]}", expected);
    p.field_messages = "dialog";
    p.message_property_mappings = (struct str_map){ours, theirs, 2};
    p.roles = (struct str_map){role, named, 1};
    reads_as(p, options(), "{\"dialog\": [{\"who\": \"system\", \"says\": \"be\"}, {\"who\": \"user\", \"says\": \"hi\"}, {\"who\": \"bot\", \"says\": \"yes\"}]}", expected);
    reads_as(part(NULL, DATASET_CHAT), options(),
             "{\"messages\": [{\"role\": \"system\", \"content\": \"be\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"h\"}, {\"type\": \"text\", \"text\": \"i\"}]}, "
             "{\"role\": \"assistant\", \"content\": \"yes\"}]}", expected);
    reads_as(part(NULL, DATASET_AUTO), options(),
             "{\"prompt\": [{\"role\": \"system\", \"content\": \"be\"}, {\"role\": \"user\", \"content\": \"hi\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"yes\"}]}",
             expected);
}

static void plain_types_supervise_the_answer(void **state)
{
    struct dataset_options o = options();
    struct dataset_config p = part(NULL, DATASET_ALPACA);

    reads_as(part(NULL, DATASET_AUTO), o, "{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"}",
             "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.\n\n"
             "### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n[3<|im_end|>]");
    reads_as(p, o, "{\"instruction\": \"Go.\", \"input\": \"\", \"output\": \"ok\"}",
             "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\nGo.\n\n### Response:\n[ok<|im_end|>]");
    p.style = STYLE_CHATML;
    reads_as(p, o, "{\"system\": \"be\", \"instruction\": \"Go.\", \"output\": \"ok\"}",
             "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n[ok<|im_end|>]");
    reads_as(part(NULL, DATASET_AUTO), o, "{\"prompt\": \"2+2=\", \"completion\": \"4\"}", "2+2=[4<|im_end|>]");
    reads_as(part(NULL, DATASET_AUTO), o, "{\"segments\": [{\"label\": false, \"text\": \"Q: x\\n\"}, {\"label\": true, \"text\": \"A: y\"}, {\"label\": false, \"text\": \"!\"}]}",
             "Q: x\n[A: y]!");
    reads_as(part(NULL, DATASET_AUTO), o, "{\"text\": \"qx z\"}", "q[x z<|im_end|>]"); /* without BOS nothing predicts the first token */
    reads_as(part(NULL, DATASET_COMPLETION), o, "{\"text\": \"qx z<|im_end|>\"}", "q[x z<|im_end|>]"); /* its own end is not doubled */
    o.train_on_inputs = true;
    reads_as(part(NULL, DATASET_PROMPT_COMPLETION), o, "{\"prompt\": \"2+2=\", \"completion\": \"4\"}", "2[+2=4<|im_end|>]");
    o = options();
    o.eos_token = "<|endoftext|>";
    reads_as(part(NULL, DATASET_PROMPT_COMPLETION), o, "{\"prompt\": \"2+2=\", \"completion\": \"4\"}", "2+2=[4<|endoftext|>]");
    o.eos_token = "</s>";
    refused_with(part(DIR "/a.jsonl", DATASET_PROMPT_COMPLETION), o, "eos_token", "\"</s>\" is not in the vocabulary");
}

/* " the" is one token of the vocabulary, but the prompt ends between blank and word: the model will be given the prompt alone, so that is how it is tokenised. */
static void no_token_reaches_across_prompt_and_completion(void **state)
{
    struct dataset *d = open_text("{\"prompt\": \"is \", \"completion\": \"the\"}\n", DATASET_PROMPT_COMPLETION);
    struct example e = dataset_example(d, 0);
    struct tokens alone = {0};

    assert_int_equal(tokenizer_encode(tokenizer, "is ", 3, TOKENIZER_PARSE_SPECIAL, &alone, NULL), PAWL_OK);
    for (size_t i = 0; i < alone.n; i++) assert_int_equal(e.tokens[i], alone.ids[i]);
    assert_true(e.tokens[alone.n] & TOKEN_SUPERVISED);
    shows(d, 0, "is [the<|im_end|>]");
    tokens_free(&alone);
    dataset_free(d);
}

static void bos_is_added_once(void **state)
{
    struct dataset_options o = options();
    struct dataset *d;
    char *text;

    o.tokenizer = with_bos;
    write_text(DIR "/a.jsonl", "{\"text\": \"qx\"}\n{\"text\": \"<|endoftext|>qy\"}\n");
    d = open_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o);
    text = show(dataset_example(d, 0), with_bos);
    assert_string_equal(text, "<|endoftext|>[qx<|im_end|>]");
    free(text);
    text = show(dataset_example(d, 1), with_bos);
    assert_string_equal(text, "<|endoftext|>[qy<|im_end|>]");
    free(text);
    assert_int_equal(dataset_findings(d)->count[FINDING_BOS_IN_TEXT], 1);
    assert_int_equal(dataset_findings(d)->place[FINDING_BOS_IN_TEXT][0].line, 2);
    dataset_free(d);

    write_text(DIR "/a.jsonl", "{\"text\": \"qx\"}\n{\"text\": \"<|endoftext|><|endoftext|>qy\"}\n");
    refused_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o, "line 2", "BOS token twice");
}

/* --- long and empty */

static void long_examples_are_dropped_cut_or_refused(void **state)
{
    static const char text[] = "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n{\"prompt\": \"2+2=\", \"completion\": \"4444\"}\n{\"prompt\": \"123456789\", \"completion\": \"4\"}\n";
    struct dataset_config p = part(DIR "/a.jsonl", DATASET_PROMPT_COMPLETION);
    struct dataset_options o = options();
    struct dataset *d;

    write_text(DIR "/a.jsonl", text);
    o.sequence_len = 6;
    d = open_with(p, o);
    assert_int_equal(dataset_count(d), 1);
    assert_int_equal(dataset_counts(d)->dropped, 2);
    dataset_free(d);

    o.truncation = TRUNCATION_TRUNCATE;
    d = open_with(p, o);
    assert_int_equal(dataset_count(d), 2);
    shows(d, 1, "2+2=[44]");
    assert_int_equal(dataset_example(d, 1).supervised, 2);
    assert_int_equal(dataset_counts(d)->truncated, 2);
    assert_int_equal(dataset_counts(d)->unsupervised, 1);
    dataset_free(d);

    o.truncation = TRUNCATION_ERROR;
    refused_with(p, o, "a.jsonl:2", "9 tokens, sequence_len is 6");
    o.truncation = TRUNCATION_DROP;
    o.sequence_len = 2;
    refused_with(p, o, "a.jsonl", "no example is left of 3 records: 3 too long");
    write_text(DIR "/a.jsonl", "\n\n");
    refused_with(part(DIR "/a.jsonl", DATASET_PROMPT_COMPLETION), options(), "a.jsonl", "empty");
    refused_with(part(DIR "/a.jsonl", DATASET_AUTO), options(), "a.jsonl", "empty");
}

/* --- bad input */

static void bad_records_are_named_by_file_and_line(void **state)
{
    static const struct {
        int type;
        const char *text, *where, *what;
    } cases[] = {
        {DATASET_CHAT, "\n{\"messages\": [}", "a.jsonl:2", "JSON"},
        {DATASET_CHAT, "{\"messages\": 3}", "a.jsonl:1", "expected an array of messages, found a number"},
        {DATASET_CHAT, "{\"msgs\": [], \"id\": 1}", "a.jsonl:1", "no field \"messages\", found: msgs, id"},
        {DATASET_CHAT, "[1]", "a.jsonl:1", "expected an object"},
        {DATASET_CHAT, "{\"messages\": []}", "a.jsonl:1", "no message"},
        {DATASET_CHAT, "{\"messages\": [3]}", "messages[0]", "expected an object"},
        {DATASET_CHAT, "{\"messages\": [{\"role\": \"user\"}]}", "messages[0]", "no field \"content\""},
        {DATASET_CHAT, "{\"messages\": [{\"content\": \"x\"}]}", "messages[0]", "field \"role\""},
        {DATASET_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": 3}]}", "messages[0]", "expected a string, found a number"},
        {DATASET_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}", "messages[0]", "no text"},
        {DATASET_CHAT, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\", \"weight\": 0.5}]}", "messages[0]", "0 or 1, found 0.5"},
        {DATASET_COMPLETION, "{\"text\": \"a\"}\n{\"body\": \"a\"}", "a.jsonl:2", "no field \"text\", found: body"},
        {DATASET_COMPLETION, "{\"text\": null}", "a.jsonl:1", "found null"},
        {DATASET_PROMPT_COMPLETION, "{\"prompt\": \"a\", \"completion\": 3}", "a.jsonl:1", "\"completion\": expected a string, found a number"},
        {DATASET_PROMPT_COMPLETION, "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": [], \"completion\": []}", "a.jsonl:2", "no message"},
        {DATASET_ALPACA, "{\"instruction\": \"a\"}", "a.jsonl:1", "no field \"output\""},
        {DATASET_INPUT_OUTPUT, "{\"segments\": [{\"text\": \"a\"}]}", "segments[0]", "\"label\": expected true or false, found nothing"},
        {DATASET_AUTO, "{\"question\": \"a\"}", "a.jsonl:1:", "a record with question fits no type"},
        {DATASET_AUTO, "{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}", "a.jsonl:2:", "more than one type"},
        {DATASET_COMPLETION, "{\"text\": \"a\xff\"}", "a.jsonl:1", "byte 11"},
        {DATASET_COMPLETION, "[{\"text\": \"ab\"},\n{\"text\": \"cd\"", "a.jsonl:2", "cut short"},
        {DATASET_COMPLETION, "[{\"text\": \"ab\"},\n]", "a.jsonl:2", "expected an element"},
        {DATASET_COMPLETION, "[{\"text\": \"ab\"}]\n x", "a.jsonl:2", "behind the end"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(cases[i].text, cases[i].type, cases[i].where, cases[i].what);
    write_bytes(DIR "/a.jsonl", "{\"text\": \"a\0b\"}", 15);
    refused_with(part(DIR "/a.jsonl", DATASET_COMPLETION), options(), "a.jsonl:1", "control character");

    struct dataset_options o = options();
    o.vocab = 100;
    write_text(DIR "/a.jsonl", "{\"text\": \"the the\"}\n");
    o.skip_bad_lines = true; /* does not excuse a tokenizer of another model */
    refused_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o, "a.jsonl:1", "embedding has 100 rows");
    refused_with(part(DIR "/nothing.jsonl", DATASET_COMPLETION), options(), "nothing.jsonl", "");
}

static void hostile_records_are_bounded(void **state)
{
    struct buf b = {0};
    struct dataset_options o = options();
    struct dataset *d;

    buf_adds(&b, "{\"text\": ");
    for (int i = 0; i < 10000; i++) buf_addc(&b, '[');
    buf_addc(&b, '\n');
    refused(b.data, DATASET_COMPLETION, "a.jsonl:1", "nested too deeply");

    b.len = 0;
    buf_adds(&b, "{\"text\": \"ab\"}\n{\"text\": \"");
    while (b.len < 20u << 20) buf_adds(&b, "0123456789abcdef0123456789abcdef");
    buf_adds(&b, "\"}\n{\"text\": \"cd\"}\n");
    refused(b.data, DATASET_COMPLETION, "a.jsonl:2", "more than 16 MiB");
    o.skip_bad_lines = true;
    d = open_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o);
    assert_int_equal(dataset_count(d), 2);
    assert_int_equal(dataset_example(d, 1).line, 3);
    dataset_free(d);
    buf_free(&b);

    d = open_text("{\"text\": \"ab\", \"text\": \"cd\"}\n", DATASET_COMPLETION); /* a doubled key: the last one, as everywhere */
    shows(d, 0, "c[d<|im_end|>]");
    dataset_free(d);
}

static void bad_lines_are_skipped_and_counted_on_request(void **state)
{
    struct dataset_options o = options();
    struct dataset *d;

    o.skip_bad_lines = true;
    write_text(DIR "/a.jsonl", "{\"text\": \"ab\"}\nnonsense\n{\"body\": 1}\n{\"text\": \"a\xff\"}\n{\"text\": \"cd\"}");
    d = open_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o);
    assert_int_equal(dataset_count(d), 2);
    assert_int_equal(dataset_counts(d)->bad, 3);
    assert_int_equal(dataset_counts(d)->lines, 5);
    assert_int_equal(dataset_findings(d)->place[FINDING_BAD_LINE][0].line, 2);
    assert_int_equal(dataset_findings(d)->place[FINDING_BAD_LINE][2].line, 4);
    assert_int_equal(dataset_example(d, 1).line, 5);
    dataset_free(d);
}

/* --- files */

static void files_of_every_form_give_the_same_examples(void **state)
{
    static const char lines[] = "\xef\xbb\xbf{\"text\": \"ab, ]\\\"x\"}\r\n\n  {\"text\": \"cd\"}";
    static const char array[] = " [ {\"text\": \"ab, ]\\\"x\"},\n\n{\"text\":\n \"cd\"} ] \n";
    struct dataset *d[4];
    gzFile gz;

    write_text(DIR "/lines.jsonl", lines);
    write_text(DIR "/array.json", array);
    gz = gzopen(DIR "/lines.jsonl.gz", "wb");
    gzwrite(gz, lines, sizeof lines - 1);
    gzclose(gz);
    gz = gzopen(DIR "/array.json.gz", "wb");
    gzwrite(gz, array, sizeof array - 1);
    gzclose(gz);
    d[0] = open_with(part(DIR "/lines.jsonl", DATASET_AUTO), options());
    d[1] = open_with(part(DIR "/lines.jsonl.gz", DATASET_AUTO), options());
    d[2] = open_with(part(DIR "/array.json", DATASET_AUTO), options());
    d[3] = open_with(part(DIR "/array.json.gz", DATASET_AUTO), options());
    for (int k = 0; k < 4; k++) {
        assert_int_equal(dataset_count(d[k]), 2);
        shows(d[k], 0, "a[b, ]\"x<|im_end|>]");
        shows(d[k], 1, "c[d<|im_end|>]");
        assert_int_equal(dataset_example(d[k], 1).line, 3);
    }
    for (int k = 0; k < 4; k++) dataset_free(d[k]);

    FILE *f = fopen(DIR "/lines.jsonl.gz", "rb");
    char bytes[4096];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    write_bytes(DIR "/cut.jsonl.gz", bytes, n - 12);
    refused_with(part(DIR "/cut.jsonl.gz", DATASET_COMPLETION), options(), "cut.jsonl.gz", "cut short");
}

static void directories_give_their_split_in_order(void **state)
{
    struct dataset_config p = part(DIR "/set", DATASET_COMPLETION);
    struct dataset *d;
    char *patterns[] = {"data/t*.jsonl"};

    mkdir(DIR "/set", 0777);
    mkdir(DIR "/set/data", 0777);
    write_text(DIR "/set/dataset_info.json", "{}");
    write_text(DIR "/set/README.md", "x");
    write_text(DIR "/set/data/train-2.jsonl", "{\"text\": \"t2\"}");
    write_text(DIR "/set/data/train-1.jsonl", "{\"text\": \"t1\"}");
    write_text(DIR "/set/data/test-1.jsonl", "{\"text\": \"x1\"}");
    d = open_with(p, options());
    assert_int_equal(dataset_count(d), 2);
    assert_string_equal(dataset_example(d, 0).file, DIR "/set/data/train-1.jsonl");
    assert_string_equal(dataset_example(d, 1).file, DIR "/set/data/train-2.jsonl");
    dataset_free(d);
    p.split = "test";
    d = open_with(p, options());
    assert_int_equal(dataset_count(d), 1);
    dataset_free(d);
    p.split = "dev";
    refused_with(p, options(), DIR "/set", "\"dev\"");
    p.split = "train[:10%]";
    refused_with(p, options(), "train[:10%]", "slices");
    p.split = NULL;
    p.data_files = (struct str_list){patterns, 1};
    d = open_with(p, options());
    assert_int_equal(dataset_count(d), 3);
    dataset_free(d);
}

static void formats_that_are_not_read_come_with_a_command(void **state)
{
    write_text(DIR "/x.bin", "PAR1....");
    refused_with(part(DIR "/x.bin", DATASET_AUTO), options(), "x.bin", "read_parquet('" DIR "/x.bin')");
    write_text(DIR "/x.csv", "a,b\n");
    refused_with(part(DIR "/x.csv", DATASET_AUTO), options(), "x.csv", "read_csv");
    mkdir(DIR "/parquet", 0777);
    write_text(DIR "/parquet/train.parquet", "PAR1");
    refused_with(part(DIR "/parquet", DATASET_AUTO), options(), "parquet/train.parquet", "to_json");
}

/* --- splitting */

static void splits_follow_content(void **state)
{
    struct dataset_config p = part(DIR "/many.jsonl", DATASET_COMPLETION);
    struct dataset *train, *held, *more, *more_held;
    struct err err = {0};

    write_many(DIR "/many.jsonl", 1000);
    train = open_with(p, options());
    assert_int_equal(dataset_split(train, &held, 0.1, &err), PAWL_OK);
    assert_int_equal(dataset_count(train) + dataset_count(held), 1000);
    assert_true(dataset_count(held) > 60 && dataset_count(held) < 140); /* binomial: 100 with a deviation of 9.5 */
    dataset_compare(train, held, true);
    assert_int_equal(dataset_findings(train)->count[FINDING_HELD_OUT], 0);

    write_many(DIR "/many.jsonl", 1500); /* the first 1000 are the same */
    more = open_with(p, options());
    assert_int_equal(dataset_split(more, &more_held, 0.1, &err), PAWL_OK);
    for (size_t i = 0; i < dataset_count(held); i++) assert_int_equal(dataset_example(held, i).line, dataset_example(more_held, i).line);
    dataset_free(more);
    dataset_free(train); /* either side first */
    assert_true(dataset_example(held, 0).length > 0);
    dataset_free(held);
    dataset_free(more_held);

    train = open_with(p, options());
    assert_int_equal(dataset_split(train, &held, 50, &err), PAWL_OK);
    assert_int_equal(dataset_count(held), 50);
    dataset_compare(held, train, true);
    assert_int_equal(dataset_findings(held)->count[FINDING_HELD_OUT], 0);
    dataset_free(held);
    dataset_free(train);

    train = open_with(p, options());
    assert_int_equal(dataset_split(train, &held, 5000, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.text, "val_set_size"));
    dataset_free(train);
}

/* --- findings */

static void what_looks_wrong_is_counted(void **state)
{
    static const struct {
        enum finding kind;
        const char *record;
    } cases[] = {
        {FINDING_EMPTY_ANSWER, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \" \"}]}"},
        {FINDING_ROLE_ORDER, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}"},
        {FINDING_ROLE_ORDER, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"c\"}]}"},
        {FINDING_SPECIAL_TEXT, "{\"messages\": [{\"role\": \"user\", \"content\": \"a<|im_end|>\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}"},
        {FINDING_MOJIBAKE, "{\"messages\": [{\"role\": \"user\", \"content\": \"caf\xc3\x83\xc2\xa9\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}"},
        {FINDING_CONTROL, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset *d = open_text(cases[i].record, DATASET_CHAT);

        for (int k = 0; k < FINDING_KINDS; k++) {
            if (dataset_findings(d)->count[k] != (k == (int)cases[i].kind)) fail_msg("case %zu: %s counted %d times", i, finding_info[k].name, (int)dataset_findings(d)->count[k]);
        }
        dataset_free(d);
    }

    struct dataset *d = open_text("{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n{\"text\": \"ab\"}\n{\"text\": \"ab\"}\n", DATASET_COMPLETION);
    assert_int_equal(dataset_findings(d)->count[FINDING_DUPLICATE], 2);
    assert_int_equal(dataset_findings(d)->place[FINDING_DUPLICATE][0].line, 3);
    dataset_free(d);
    d = open_text("{\"segments\": [{\"label\": false, \"text\": \"a \"}, {\"label\": true, \"text\": \"b\"}]}", DATASET_INPUT_OUTPUT);
    assert_int_equal(dataset_findings(d)->count[FINDING_NO_END_OF_TURN], 1);
    dataset_free(d);
}

static void examples_on_both_sides_are_found(void **state)
{
    struct dataset *train = open_text("{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n{\"text\": \"ef\"}\n", DATASET_COMPLETION);
    struct dataset *held_out;

    write_text(DIR "/b.jsonl", "{\"id\": 7, \"text\": \"cd\"}\n{\"text\": \"gh\"}\n");
    held_out = open_with(part(DIR "/b.jsonl", DATASET_COMPLETION), options());
    dataset_compare(train, held_out, true);
    assert_int_equal(dataset_findings(train)->count[FINDING_HELD_OUT], 1);
    assert_int_equal(dataset_findings(train)->place[FINDING_HELD_OUT][0].line, 2);
    dataset_free(train);
    dataset_free(held_out);
}

/* A vocabulary with byte fallback: what it does not know falls into bytes. */
static void a_script_that_the_tokenizer_does_not_know_is_told(void **state)
{
    struct dataset_options o = options();
    struct tokenizer *bytes;
    struct dataset *d;
    struct err err = {0};

    if (tokenizer_open(&bytes, PAWL_TESTS "/golden/text/sentencepiece.json", &err) != PAWL_OK) fail_msg("%s", err.text);
    o.tokenizer = bytes;
    write_text(DIR "/a.jsonl", "{\"text\": \"the cat and the dog\"}\n{\"text\": \"\u1000\u1001\u1002\u1003\u1004\"}\n");
    d = open_with(part(DIR "/a.jsonl", DATASET_COMPLETION), o);
    assert_int_equal(dataset_findings(d)->count[FINDING_UNKNOWN_BYTES], 1);
    assert_int_equal(dataset_findings(d)->place[FINDING_UNKNOWN_BYTES][0].line, 2);
    dataset_free(d);
    tokenizer_close(bytes);
}

/* --- */

static void replace_once(struct buf *text, const char *from, const char *to)
{
    char *at = strstr(text->data, from);
    struct buf b = {0};

    assert_non_null(at);
    buf_add(&b, text->data, (size_t)(at - text->data));
    buf_adds(&b, to);
    buf_adds(&b, at + strlen(from));
    buf_free(text);
    *text = b;
}

/* The golden tokenizer with a post-processor that puts <|endoftext|> in front. */
static void make_tokenizer_with_bos(void)
{
    struct buf text = {0};
    struct err err = {0};
    char chunk[8192];
    size_t n;
    FILE *f = fopen(PAWL_TESTS "/golden/llama/tokenizer.json", "rb");

    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) buf_add(&text, chunk, n);
    fclose(f);
    replace_once(&text, "\"post_processor\":null",
                 "\"post_processor\":{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<|endoftext|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
                 "\"type_id\": 0}}], \"pair\": [], \"special_tokens\": {\"<|endoftext|>\": {\"id\": \"<|endoftext|>\", \"ids\": [0], \"tokens\": [\"<|endoftext|>\"]}}}");
    mkdir(DIR "/bos", 0777);
    write_text(DIR "/bos/tokenizer.json", text.data);
    write_text(DIR "/bos/tokenizer_config.json", "{\"bos_token\": \"<|endoftext|>\", \"eos_token\": \"<|im_end|>\"}");
    if (tokenizer_open(&with_bos, DIR "/bos", &err) != PAWL_OK) fail_msg("%s", err.text);
    buf_free(&text);
}

static int set_up(void **state)
{
    int rc = fixture_set_up(state);

    make_tokenizer_with_bos();
    return rc;
}

static int tear_down(void **state)
{
    tokenizer_close(with_bos);
    return fixture_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_supervise_assistant_turns_with_their_end),
        cmocka_unit_test(end_of_turn_tokens_follow_train_on_eos),
        cmocka_unit_test(turns_can_be_chosen),
        cmocka_unit_test(templates_that_rewrite_history_give_an_example_a_turn),
        cmocka_unit_test(other_spellings_of_messages_are_read),
        cmocka_unit_test(plain_types_supervise_the_answer),
        cmocka_unit_test(no_token_reaches_across_prompt_and_completion),
        cmocka_unit_test(bos_is_added_once),
        cmocka_unit_test(long_examples_are_dropped_cut_or_refused),
        cmocka_unit_test(bad_records_are_named_by_file_and_line),
        cmocka_unit_test(hostile_records_are_bounded),
        cmocka_unit_test(bad_lines_are_skipped_and_counted_on_request),
        cmocka_unit_test(files_of_every_form_give_the_same_examples),
        cmocka_unit_test(directories_give_their_split_in_order),
        cmocka_unit_test(formats_that_are_not_read_come_with_a_command),
        cmocka_unit_test(splits_follow_content),
        cmocka_unit_test(what_looks_wrong_is_counted),
        cmocka_unit_test(examples_on_both_sides_are_found),
        cmocka_unit_test(a_script_that_the_tokenizer_does_not_know_is_told),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
