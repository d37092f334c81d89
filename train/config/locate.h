/* Where a model or a data set named in a configuration lies on this machine. Nothing is ever downloaded. */
#ifndef PAWL_CONFIG_LOCATE_H
#define PAWL_CONFIG_LOCATE_H

#include "kernels/base/err.h"

enum locate_kind { LOCATE_MODEL, LOCATE_DATASET };

/* *out, the caller's to free, is name itself where that path exists ("~/" is the home directory), else the snapshot of the hub id "owner/name" in the local
 * Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub), whose refs/REVISION names it (NULL: main).
 * PAWL_EINVAL otherwise; the text gives the places looked at and, for a hub id, the `hf download` command. */
enum pawl_status locate(char **out, const char *name, enum locate_kind kind, const char *revision, struct err *err);

#endif
