#include "train/data/finding.h"

#include "kernels/base/log.h"
#include "kernels/base/mem.h"

#include <string.h>

const struct finding_info finding_info[FINDING_KINDS] = {
    [FINDING_DOUBLED_BOS] = {"doubled_bos", true, "examples that begin with the BOS token twice", "the model never saw that and gets worse",
                             "take the token out of the text or of the template"},
    [FINDING_BOS_IN_TEXT] = {"bos_in_text", false, "examples whose own text begins with the BOS token", "no second one was put in front", "nothing, or take it out of the text"},
    [FINDING_NO_END_OF_TURN] = {"no_end_of_turn", false, "examples without an end-of-turn token behind the answer", "the model does not learn to stop",
                                "use the model's own template, or name an EOS token by special_tokens; in input_output data write it out"},
    [FINDING_UNSUPERVISED] = {"nothing_supervised", false, "examples dropped because no token of them is supervised", "nothing can be learned from them",
                              "look at roles_to_train, train_on_eos and the roles in the data"},
    [FINDING_TOO_LONG] = {"too_long", false, "examples longer than sequence_len", "see truncation for what becomes of them", "raise sequence_len, or shorten them"},
    [FINDING_DUPLICATE] = {"duplicate", false, "examples that stand there already, word for word", "they weigh more than others and are learned by heart", "remove the copies unless meant"},
    [FINDING_HELD_OUT] = {"in_held_out", false, "examples that are in the held-out data too", "the evaluation flatters the model", "remove them on one side"},
    [FINDING_EMPTY_ANSWER] = {"empty_answer", false, "examples with an empty answer that is supervised", "the model learns to say nothing", "remove or fill them"},
    [FINDING_ROLE_ORDER] = {"role_order", false, "examples with roles in an unusual order (user and assistant should alternate, system only come first)",
                            "the model sees conversations that will not occur", "check how turns were split"},
    [FINDING_UNKNOWN_ROLE] = {"unknown_role", false, "examples with a role that is none of system, user, assistant, tool and their like", "it is not learned, and few templates know it",
                              "say by roles whose it is: {user: [...], assistant: [...]}"},
    [FINDING_SPECIAL_TEXT] = {"special_text", false, "examples with the text of a special token in what a user says", "it becomes that token and may end or forge a turn",
                              "remove or reword it"},
    [FINDING_MOJIBAKE] = {"mojibake", false, "examples with text that was decoded wrongly (\"\xc3\x83\xc2\xa9\" for \"\xc3\xa9\", or U+FFFD)", "the model learns to write it",
                          "decode the source as UTF-8 again, or repair it (ftfy)"},
    [FINDING_CONTROL] = {"control_characters", false, "examples with control characters (NUL, escape, ...)", "they rarely belong into text", "remove them"},
    [FINDING_UNKNOWN_BYTES] = {"unknown_bytes", false, "examples that are for a good part unknown tokens or single bytes", "the tokenizer does not know this script, and texts get long",
                               "use a model that knows it"},
    [FINDING_BAD_LINE] = {"bad_line", false, "records that could not be read and were skipped", "skip_bad_lines is set", "mend or remove them"},
};

void finding_add(struct findings *f, enum finding kind, const char *file, int64_t line)
{
    int64_t n = f->count[kind]++;

    if (n < FINDING_PLACES) {
        f->place[kind][n].file = file;
        f->place[kind][n].line = line;
    }
}

void finding_places(const struct findings *f, enum finding kind, struct buf *out)
{
    const char *file = NULL;

    for (int i = 0; i < FINDING_PLACES && i < f->count[kind]; i++) {
        if (file == NULL || strcmp(file, f->place[kind][i].file)) {
            buf_addf(out, "%s%s line %lld", file ? "; " : "", f->place[kind][i].file, (long long)f->place[kind][i].line);
        } else {
            buf_addf(out, ", %lld", (long long)f->place[kind][i].line);
        }
        file = f->place[kind][i].file;
    }
    if (f->count[kind] > FINDING_PLACES) buf_adds(out, ", ...");
}

void findings_warn(const struct findings *f)
{
    for (int k = 0; k < FINDING_KINDS; k++) {
        const struct finding_info *info = &finding_info[k];
        struct buf places = {0};

        if (f->count[k] == 0) continue;
        finding_places(f, (enum finding)k, &places);
        log_warn("%s: %lld (%s): %s; %s", info->what, (long long)f->count[k], places.data, info->meaning, info->advice);
        buf_free(&places);
    }
}
