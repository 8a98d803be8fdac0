// SPDX-License-Identifier: Apache-2.0
/* store_scan.c - all rows of a SPACE_WHOLE prefix: those in memory in the table's order, those in
 * the engine page by page.
 *
 * Why a key that stays is met by who asks first for one and then for the other: rows that are not
 * in the engine cannot leave the memory, and a row that leaves the memory is in the engine. A key
 * that is not in the engine when its page is read has been in memory since before the first was
 * asked. */
#include "store/rows/store_int.h"

#include "base/banned.h"

static const struct hot_slot *slot_of(const struct store *store, uint32_t prefix,
                                      uint32_t *ret_slot)
{
    ASSERT(prefix < store->hot.prefix_count);
    *ret_slot = store->hot.prefix[prefix].slot;
    ASSERT(store->hot.slot[*ret_slot].whole);
    return &store->hot.slot[*ret_slot];
}

bool store_scan_complete(const struct store *store, uint32_t prefix)
{
    uint32_t number;
    return slot_of(store, prefix, &number)->complete;
}

/* ---- in memory ---- */

struct hot_scan {
    uint32_t slot;
    bool packed;
    store_scan_fn *fn;
    void *arg;
};

static void row_show(const struct hot_scan *scan, const struct hot_row *row)
{
    if (row->value_bits & HOT_ROW_TOMB)
        return;
    scan->fn(scan->arg, &(struct store_scan_row){.key = hot_row_key(row),
                                                 .value = hot_row_value(row),
                                                 .packed = scan->packed,
                                                 .hot = true});
}

static void entry_show(void *entry, void *arg)
{
    const struct hot_scan *scan = arg;
    const struct hot_head *head = entry;
    if (hot_head_slot(head) == scan->slot)
        row_show(scan, entry);
}

static struct hot_scan hot_scan(const struct store *store, uint32_t prefix, store_scan_fn *fn,
                                void *arg)
{
    const struct store_space *space = &store->catalog.spaces.space[store__space(store, prefix)];
    return (struct hot_scan){.slot = store->hot.prefix[prefix].slot,
                             .packed = space->pack != NULL,
                             .fn = fn,
                             .arg = arg};
}

uint64_t store_scan_hot(struct store *store, uint32_t prefix, uint64_t cursor, store_scan_fn *fn,
                        void *arg)
{
    struct hot_scan scan = hot_scan(store, prefix, fn, arg);
    uint32_t number;
    if (slot_of(store, prefix, &number)->entry_count == 0)
        return 0;
    return table_scan(&store->hot.table, cursor, entry_show, &scan);
}

uint64_t store_scan_hot_random(struct store *store, struct rand *rand)
{
    return rand_below(rand, store->hot.table.bucket_count);
}

/* ---- in the engine ---- */

/* What is hot is what the row is now; the page shows what it was. */
static void page_show(struct store *store, const struct hot_scan *scan, struct bytes key,
                      struct bytes value)
{
    const struct hot_row *row =
        hot_row_find(&store->hot, scan->slot, key, hot_hash(&store->hot, scan->slot, key));
    if (row)
        row_show(scan, row);
    else
        scan->fn(scan->arg, &(struct store_scan_row){.key = key, .value = value});
}

static enum rc page_cold(struct store *store, const struct store_scan_page *page, struct err *err)
{
    struct store_group group = {.prefix = page->prefix, .key = page->from};
    store->cold_count++;
    enum rc rc = store__cold(store, group, page->pattern, STORE_WANT_KEYS, 0, err);
    if (rc != RC_COLD)
        return rc;
    store->want[store->want_count - 1].match = page->match;
    store->want[store->want_count - 1].look_count_max = page->look_count_max;
    return RC_COLD;
}

enum rc store_scan_engine(struct store *store, const struct store_scan_page *page,
                          store_scan_fn *fn, void *arg, bool *ret_more, struct bytes *ret_last,
                          struct err *err)
{
    uint32_t number;
    if (store__cold_injected(store))
        return RC_COLD;
    *ret_more = false;
    if (slot_of(store, page->prefix, &number)->complete) {
        *ret_last = page->from; /* whatever the engine still has of it was dropped */
        return RC_OK;
    }
    struct load_want want = {.kind = LOAD_KEYS,
                             .slot = number,
                             .key = page->from,
                             .has_from = page->match != NULL,
                             .from = page->pattern,
                             .match = page->match};
    const struct load *load = loads_keys_find(&store->loads, &want);
    if (!load)
        return page_cold(store, page, err);
    struct hot_scan scan = hot_scan(store, page->prefix, fn, arg);
    struct bytes rows = buf_bytes(&load->rows), key, value;
    while (fn && load_rows_next(&rows, &key, &value))
        page_show(store, &scan, key, value);
    *ret_more = !load->exhausted;
    *ret_last = load->bound;
    return RC_OK;
}
