// SPDX-License-Identifier: Apache-2.0
/* keys_page.h - the keys of a rule that are here, a page at a time: LAND.SYNC, LAND.VERIFY.
 *
 * A page is one step of scan_keys(): a key that is there from the first page to the last is met,
 * and one that is in memory and in the engine may be met twice. The place where the walk stands is
 * kept here and not as a cursor, which the scans of clients could push out of kv->cursors.
 *
 * Ownership: names are copies and live until the next page.
 * Threads: the executor. */
#pragma once

#include "base/arena.h"
#include "models/landing/landing.h"

struct keys_page {
    struct arena arena; /* cleared by the next page: other things of the page may live here */
    struct bytes *name;
    size_t count, cap;
    struct buf place; /* empty: the start */
    bool at_end;      /* there are no more pages */
};
void keys_page_init(struct keys_page *page);
void keys_page_done(struct keys_page *page);
/* Inside a run of the rule's database. A page may be empty and not the last. RC_COLD: nothing has
 * happened. */
enum rc keys_page_next(struct keys_page *page, const struct run *run, const struct land_rule *rule,
                       struct err *err) NODISCARD;
