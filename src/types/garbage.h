// SPDX-License-Identifier: Apache-2.0
/* garbage.h - objects that nobody refers to.
 *
 * Of small ones that were cold when they were removed the rows are in the engine, and nobody knows
 * which. A range delete is dear there (it costs memory and slows every read beside it), and to load
 * the rows would keep the client waiting. So DEL leaves a garbage row: group header ‖ 'g', suffix
 * ID(16), value type(1). The sweep loads the rows in the background and deletes them one by one.
 *
 * Of an object that is built aside (build.h) nobody refers to the rows yet. Its garbage row is
 * passed over while it is in kv->builds; if the building comes to no end, the sweep drops it, as a
 * group if it is large.
 *
 * Threads: the executor. */
#pragma once

#include "types/kv.h"

/* Nothing refers to the object's rows any more. */
enum rc garbage_add(struct ns *ns, const uint8_t id[KEY_ID_BYTES], uint8_t type,
                    struct err *err) NODISCARD;
/* RC_OK, RC_NOT_FOUND, RC_COLD: whether there is such a row. */
enum rc garbage_find(struct ns *ns, const uint8_t id[KEY_ID_BYTES], struct err *err) NODISCARD;
/* Somebody refers to the object now. */
enum rc garbage_remove(struct ns *ns, const uint8_t id[KEY_ID_BYTES], struct err *err) NODISCARD;
/* Removes the rows of a few objects. *ret_count: how many; 0: there is no garbage. RC_COLD. */
enum rc garbage_sweep(struct ns *ns, size_t *ret_count, struct err *err) NODISCARD;
