/* Notices of clouds that a machine is about to be taken away, each listened to by a thread of its own.
 *
 *   AWS    IMDSv2: spot/instance-action, events/recommendations/rebalance    AWS_EC2_METADATA_SERVICE_ENDPOINT (http://169.254.169.254)
 *   GCP    instance/preempted, a hanging GET                                 GCE_METADATA_HOST (metadata.google.internal)
 *   Azure  scheduled events of type Preempt or Terminate                     PAWL_AZURE_METADATA_ENDPOINT (http://169.254.169.254)
 *
 * A notice becomes a request to stop (stop.h) with the time that is left; a rebalance recommendation only asks for a save. Nothing depends on a notice: where there is no cloud
 * the threads end after half a second without a word. */
#ifndef PAWL_RUN_SPOT_H
#define PAWL_RUN_SPOT_H

#include "kernels/base/err.h"

#include <stdbool.h>

struct spot;

/* clouds: enum config_spot. SPOT_AUTO asks each once; a cloud that was named is asked for ever, and its silence is said once. NULL for SPOT_OFF. */
struct spot *spot_open(int clouds);
void spot_close(struct spot *s); /* NULL is allowed; returns at once, also out of a hanging GET */

/* True once after a rebalance recommendation: save, upload, go on. */
bool spot_save_asked(struct spot *s);
/* "g5.xlarge", NULL while unknown; *is_spot says how it is paid. The text lives as long as s. */
const char *spot_instance(struct spot *s, bool *is_spot);

#endif
