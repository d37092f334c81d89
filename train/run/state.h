/* Where a run stands, as the JSON object that goes with every checkpoint and journal commit, and what a resumed run must find unchanged. Private to train/run. */
#ifndef PAWL_RUN_STATE_H
#define PAWL_RUN_STATE_H

#include "kernels/base/json.h"
#include "train/run/trainer.h"

/* What a run was trained on, by name and hash. */
enum { STATE_IDENTITIES = 5 };
struct state_identity {
    const char *key, *what; /* "data", "the training data" */
    uint64_t value;
    bool optional;          /* 0: there is none, and one that comes or goes later is no change of what was there */
};
void state_identities(const struct trainer *t, struct state_identity out[STATE_IDENTITIES]);

/* Adds the object. with_config: also the resolved configuration, for a state that does not lie beside a config.yaml. */
void state_add(const struct trainer *t, bool with_config, struct buf *out);
/* Progress, hashes and cost as they were. */
void state_read(struct trainer *t, const struct json_value *state);

/* Base, tokenizer, template, data and held-out data are what they were: else PAWL_EINVAL with both hashes, or a warning where changes are accepted. name: of the state, for messages. */
enum pawl_status state_check_identity(const struct trainer *t, const struct json_value *state, const char *name, struct err *err);

/* Why a step that led to this state may come out with other bits here; NULL: it may not. Valid while state and t are. */
const char *state_why_other_bits(const struct trainer *t, const struct json_value *state, struct buf *text);

#endif
