/* garbage.h - small objects that were cold when they were removed.
 *
 * Their rows are in the engine, and nobody knows which. A range delete is dear there (it costs
 * memory and slows every read beside it), and to load the rows would keep the client waiting. So
 * DEL leaves a garbage row: group header ‖ 'g', suffix ID(16), value type(1). The sweep loads the
 * rows in the background and deletes them one by one.
 *
 * Threads: the executor. */
#pragma once

#include "types/kv.h"

/* Nothing refers to the object's rows any more. */
enum rc garbage_add(struct ns *ns, const uint8_t id[KEY_ID_BYTES], uint8_t type,
                    struct err *err) NODISCARD;
/* Removes the rows of a few objects. *ret_count: how many; 0: there is no garbage. RC_COLD. */
enum rc garbage_sweep(struct ns *ns, size_t *ret_count, struct err *err) NODISCARD;
