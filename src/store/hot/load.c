// SPDX-License-Identifier: Apache-2.0
/* load.c - loads of cold rows: wanted, queued, read by threads, taken in, pinned. */
#include "store/hot/load.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    LOAD_BYTES_MAX = 2 * (STORE_VALUE_BYTES_MAX + STORE_SUFFIX_BYTES_MAX) +
                     LOAD_BULK_FACTOR * LOAD_PAGE_BYTES_MAX + 64,
    PASS_ROWS_MAX = 64, /* a load costs about as much as to read so many rows */
    PASS_ROW_BYTES = LOAD_PAGE_BYTES_MAX / LOAD_PAGE_ROWS_MAX,
    CLOSE_ENTRIES_MAX = 64 * 1024,           /* under a millisecond */
    CLOSED_RUN_MAX = 4 * LOAD_PAGE_ROWS_MAX, /* loads of neighbouring places overlap */
    CLOSE_TOMBS_MAX = 4 * 1024               /* each costs as much as fifteen others */
};

/* ---- the index ---- */

static struct bytes load_rest(const struct load *load)
{
    return bytes_from(load->group, load->prefix_len);
}

static uint64_t key_hash(const struct loads *loads, enum load_kind kind, uint32_t slot,
                         struct bytes key, bool reverse, bool has_from, struct bytes from)
{
    uint64_t seed = loads->hot->seed ^ (uint64_t)kind ^ (uint64_t)reverse << 1 ^
                    (uint64_t)has_from << 2 ^ (uint64_t)slot << 3;
    uint64_t hash = XXH3_64bits_withSeed(key.ptr, key.len, seed);
    return has_from ? XXH3_64bits_withSeed(from.ptr, from.len, hash) : hash;
}

static uint64_t load_hash(const void *entry, void *arg)
{
    const struct load *load = entry;
    return key_hash(arg, load->kind, load->slot, load_rest(load), load->reverse, load->has_from,
                    load->from);
}

static bool load_eq(const void *entry, const void *key, void *arg)
{
    const struct load *load = entry;
    const struct load_want *want = key;
    (void)arg;
    return load->kind == want->kind && load->slot == want->slot && load->reverse == want->reverse &&
           load->match == want->match && load->has_from == want->has_from &&
           bytes_eq(load_rest(load), want->key) &&
           (!want->has_from || bytes_eq(load->from, want->from));
}

static uint64_t want_hash(const struct loads *loads, const struct load_want *want)
{
    return key_hash(loads, want->kind, want->slot, want->key, want->reverse, want->has_from,
                    want->from);
}

/* ---- pins, asked by the hot tier before it evicts ---- */

static bool row_pinned(void *arg, uint32_t slot, struct bytes key)
{
    const struct loads *loads = arg;
    if (loads->pinned.entry_count == 0)
        return false;
    struct load_want want = {.kind = LOAD_ROW, .slot = slot, .key = key};
    return table_find(&loads->pinned, want_hash(loads, &want), &want, NULL) != NULL;
}

/* While a load is in flight its state belongs to the loaders. */
static bool load_is_ready(const struct load *load)
{
    return !load->in_flight && load->state == LOAD_READY;
}

static void group_pins(struct hot *hot, const struct hot_group *group)
{
    for (const struct load *load = group->loads; load; load = load->group_next) {
        if (!load_is_ready(load))
            continue;
        if (!load->has_bound)
            continue; /* it brought nothing */
        struct hot_pin pin = {load->has_from, true, load->from, load->bound};
        if (load->reverse)
            pin = (struct hot_pin){true, load->has_from, load->bound, load->from};
        if (load->kind == LOAD_ROW)
            pin = (struct hot_pin){true, true, load->from, load->from};
        hot_pin_add(hot, pin);
    }
}

/* ---- life ---- */

static struct load_waiter *waiter_of(struct dlink *link)
{
    return DLIST_ITEM(link, struct load_waiter, link);
}

static void *loader_main(void *arg)
{
    struct loads *loads = arg;
    pthread_mutex_lock(&loads->lock);
    while (!loads->stopping) {
        if (!loads->queue.first) {
            pthread_cond_wait(&loads->work, &loads->lock);
            continue;
        }
        pthread_mutex_unlock(&loads->lock);
        loads_step(loads);
        pthread_mutex_lock(&loads->lock);
    }
    pthread_mutex_unlock(&loads->lock);
    return NULL;
}

enum rc loads_init(struct loads *loads, struct hot *hot, struct engine *engine,
                   const struct space_set *spaces, uint32_t thread_count, void (*notify)(void *arg),
                   void *notify_arg, struct err *err)
{
    *loads = (struct loads){
        .hot = hot, .engine = engine, .spaces = spaces, .notify = notify, .notify_arg = notify_arg};
    table_init(&loads->index, load_hash, load_eq, loads);
    table_init(&loads->pinned, load_hash, load_eq, loads);
    pthread_mutex_init(&loads->lock, NULL);
    pthread_cond_init(&loads->work, NULL);
    hot->row_pinned = row_pinned;
    hot->row_pinned_arg = loads;
    hot->group_pins = group_pins;
    loads->thread = mem_zalloc((thread_count + 1) * sizeof *loads->thread);
    loads->thread_count = thread_count;
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < thread_count && rc == RC_OK; i++)
        rc = thread_start(&loads->thread[i], "loader", loader_main, loads, err);
    return rc;
}

static void load_free(struct load *load)
{
    buf_done(&load->rows);
    mem_free((void *)(uintptr_t)load->group.ptr);
    mem_free((void *)(uintptr_t)load->from.ptr);
    mem_free((void *)(uintptr_t)load->bound.ptr);
    mem_free(load->pin);
    mem_free(load);
}

static void load_table_remove(struct table *table, struct loads *loads, struct load *load)
{
    uint64_t hash = load_hash(load, loads);
    struct load_want want = {.kind = load->kind,
                             .slot = load->slot,
                             .key = load_rest(load),
                             .reverse = load->reverse,
                             .has_from = load->has_from,
                             .from = load->from,
                             .match = load->match};
    struct table_slot place;
    const struct load *found = table_find(table, hash, &want, &place);
    ASSERT(found == load);
    table_remove(table, hash, place);
}

static bool load_of_row(const struct loads *loads, const struct load *load)
{
    return loads->spaces->space[load->space].kind == SPACE_WHOLE;
}

static struct hot_group *load_group(const struct loads *loads, const struct load *load)
{
    struct bytes rest = load_rest(load);
    return hot_group_find(loads->hot, load->slot, rest, hot_hash(loads->hot, load->slot, rest));
}

/* A large part of a group was read for one command: that leaves before what is asked for again and
 * again. */
static void bulk_unref(struct tree *tree, const struct load *load)
{
    struct tree_pos pos;
    if (load->has_from)
        tree_seek(tree, load->from, &pos);
    else
        tree_seek_first(tree, &pos);
    while (tree_to_entry(tree, &pos) &&
           bytes_cmp(block_entry(pos.block, 0).suffix, load->bound) <= 0) {
        pos.block->ref = 0;
        pos.index = pos.block->count;
    }
}

/* Frees a load that no waiter pins and that is not in flight. */
static void load_forget(struct loads *loads, struct load *load)
{
    ASSERT(load->pin_count == 0 && !load->in_flight);
    if (!load_of_row(loads, load)) {
        if (load->page_count > 1 && load->state == LOAD_READY && load->has_bound && !load->reverse)
            bulk_unref(&load_group(loads, load)->tree, load);
        if (load->group_prev)
            load->group_prev->group_next = load->group_next;
        else
            load_group(loads, load)->loads = load->group_next;
        if (load->group_next)
            load->group_next->group_prev = load->group_prev;
    } else if (load->state == LOAD_READY) {
        load_table_remove(&loads->pinned, loads, load);
        if (load->kind == LOAD_KEYS)
            dlist_remove(&loads->shown, &load->flight);
    }
    if (load->state == LOAD_READY)
        loads->pinned_bytes -= load->pinned_bytes;
    hot_slot_unref(loads->hot, load->slot);
    load_free(load);
}

static void load_land(struct loads *loads, struct load *load)
{
    load->in_flight = false;
    load_table_remove(&loads->index, loads, load);
    dlist_remove(&loads->flight, &load->flight);
    loads->flight_count--;
}

void loads_done(struct loads *loads)
{
    if (!loads || !loads->hot)
        return;
    pthread_mutex_lock(&loads->lock);
    loads->stopping = true;
    pthread_cond_broadcast(&loads->work);
    pthread_mutex_unlock(&loads->lock);
    for (uint32_t i = 0; i < loads->thread_count; i++)
        thread_join(&loads->thread[i]);
    mem_free(loads->thread);
    while (loads->waiters.first)
        load_waiter_release(loads, waiter_of(loads->waiters.first));
    while (loads->flight.first) {
        struct load *load = DLIST_ITEM(loads->flight.first, struct load, flight);
        load_land(loads, load);
        load->state = LOAD_FAILED;
        load_forget(loads, load);
    }
    table_done(&loads->index);
    table_done(&loads->pinned);
    pthread_mutex_destroy(&loads->lock);
    pthread_cond_destroy(&loads->work);
    loads->hot->row_pinned = NULL;
    loads->hot->group_pins = NULL;
    *loads = (struct loads){0};
}

/* ---- starting ---- */

static struct bytes copy_bytes(struct bytes bytes)
{
    return bytes_of(mem_dup(bytes.ptr, bytes.len), bytes.len);
}

/* To the next entry; false: there is none. *ret_open: whether the interval in between is open. */
static bool entry_step(const struct tree *tree, bool reverse, struct tree_pos *pos, bool *ret_open)
{
    if (reverse) {
        *ret_open = tree_gap(tree, pos);
        return tree_prev(tree, pos);
    }
    bool more = tree_next(tree, pos);
    if (!more)
        tree_seek_end(tree, pos);
    *ret_open = tree_gap(tree, pos);
    return more;
}

/* What it would cost to read the entry again, in rows. */
static size_t entry_cost(const struct tree_pos *pos)
{
    struct entry entry = block_entry(pos->block, pos->index);
    return 1 + (entry.suffix.len + entry.value.len) / PASS_ROW_BYTES;
}

/* Where a page need not go on: at the far end of an open interval, before entries that are known
 * and would cost more to read again than another load. The position is at the far end of the first
 * interval. Entries with open intervals between them are passed: one load closes them all. */
static void page_bound(const struct tree *tree, struct tree_pos pos, struct load *load)
{
    size_t pages = load->page_count;
    struct tree_pos bound = pos;
    size_t cost = entry_cost(&pos);
    for (size_t n = 0; cost < pages * PASS_ROWS_MAX; n++) {
        bool open, more = entry_step(tree, load->reverse, &pos, &open);
        if (n >= pages * LOAD_PAGE_ROWS_MAX || (!more && open))
            return; /* the page's limits are its end, or the group's end is */
        if (!more)
            break;
        if (open) {
            bound = pos;
            cost = 0;
        }
        cost += entry_cost(&pos);
    }
    load->has_bound = true;
    load->bound = copy_bytes(block_entry(bound.block, bound.index).suffix);
}

/* Finds out where a load ends. False: the wanted place is not in an open interval. */
static bool load_bound(const struct tree *tree, const struct load_want *want, struct load *load)
{
    struct tree_pos pos;
    if (want->has_from)
        tree_seek(tree, want->from, &pos);
    else if (want->reverse)
        tree_seek_end(tree, &pos);
    else
        tree_seek_first(tree, &pos);
    if (pos.exact) { /* the place itself is known; what is behind it is wanted */
        if (want->kind == LOAD_ROW)
            return false;
        if (!want->reverse && !tree_next(tree, &pos))
            tree_seek_end(tree, &pos);
    } else if (!tree_to_entry(tree, &pos)) {
        tree_seek_end(tree, &pos);
    }
    if (!tree_gap(tree, &pos))
        return false;
    bool has_far =
        want->reverse ? tree_prev(tree, &pos) : pos.block && pos.index < pos.block->count;
    if (has_far && want->kind == LOAD_PAGE)
        page_bound(tree, pos, load);
    return true;
}

static uint32_t page_count(const struct load_want *want)
{
    if (want->row_count >= LOAD_BULK_ROWS_MAX)
        return LOAD_BULK_FACTOR;
    uint32_t count = (uint32_t)want->row_count / LOAD_PAGE_ROWS_MAX + 1;
    return count > want->page_count ? count : want->page_count;
}

static struct load *load_new(struct loads *loads, const struct load_want *want, uint32_t mark)
{
    const struct hot_prefix *prefix = &loads->hot->prefix[loads->hot->slot[want->slot].prefix];
    struct load *load = mem_zalloc(sizeof *load);
    load->kind = want->kind;
    load->state = LOAD_QUEUED;
    load->space = prefix->space;
    load->slot = want->slot;
    load->mark = mark;
    load->prefix_len = prefix->bytes.len;
    load->group.len = prefix->bytes.len + want->key.len;
    uint8_t *group = mem_alloc(load->group.len);
    if (prefix->bytes.len)
        memcpy(group, prefix->bytes.ptr, prefix->bytes.len);
    if (want->key.len)
        memcpy(group + prefix->bytes.len, want->key.ptr, want->key.len);
    load->group.ptr = group;
    load->reverse = want->reverse;
    load->page_count = page_count(want);
    load->has_from = want->has_from;
    if (want->has_from)
        load->from = copy_bytes(want->from);
    load->match = want->match;
    load->look_count_max = want->look_count_max;
    buf_init(&load->rows, LOAD_BYTES_MAX);
    return load;
}

/* Both lists can be long (a task with many keys, a row that many tasks want); rarely at once. */
static bool pins(const struct load_waiter *waiter, const struct load *load)
{
    if (load->pin_count < waiter->load_count) {
        for (uint32_t i = 0; i < load->pin_count; i++)
            if (load->pin[i].waiter == waiter)
                return true;
        return false;
    }
    for (size_t i = 0; i < waiter->load_count; i++)
        if (waiter->load[i] == load)
            return true;
    return false;
}

static struct load_pin *pin_find(const struct load *load, const struct load_waiter *waiter)
{
    struct load_pin *pin = load->pin;
    while (pin->waiter != waiter)
        pin++;
    return pin;
}

static void waiter_hold(struct loads *loads, struct load_waiter *waiter, struct load *load,
                        uint64_t row_count)
{
    if (pins(waiter, load)) {
        struct load_pin *pin = row_count > 0 ? pin_find(load, waiter) : NULL;
        if (pin && pin->row_count < row_count)
            pin->row_count = row_count;
        return;
    }
    if (waiter->load_count == waiter->load_cap) {
        waiter->load_cap = waiter->load_cap ? waiter->load_cap * 2 : 4;
        waiter->load = mem_realloc(waiter->load, waiter->load_cap * sizeof(void *));
    }
    waiter->load[waiter->load_count++] = load;
    if (load->pin_count == load->pin_cap) {
        load->pin_cap = load->pin_cap ? load->pin_cap * 2 : 2;
        load->pin = mem_realloc(load->pin, load->pin_cap * sizeof *load->pin);
    }
    load->pin[load->pin_count++] = (struct load_pin){waiter, row_count};
    if (load->in_flight)
        waiter->pending_count++;
    if (!waiter->listed) {
        waiter->listed = true;
        dlist_add_first(&loads->waiters, &waiter->link);
    }
}

static void load_enqueue(struct loads *loads, struct load *load)
{
    load->in_flight = true;
    dlist_add_first(&loads->flight, &load->flight);
    loads->flight_count++;
    loads->started_count++;
    pthread_mutex_lock(&loads->lock);
    dlist_add_last(&loads->queue, &load->queue);
    pthread_cond_signal(&loads->work);
    pthread_mutex_unlock(&loads->lock);
}

void load_start(struct loads *loads, const struct load_want *want, uint32_t mark,
                struct load_waiter *waiter)
{
    struct hot *hot = loads->hot;
    uint64_t hash = want_hash(loads, want);
    struct load *load = table_find(&loads->index, hash, want, NULL);
    if (!load && want->kind == LOAD_KEYS)
        load = table_find(&loads->pinned, hash, want, NULL); /* as good as a new one (4) */
    if (load) {
        waiter_hold(loads, waiter, load, want->row_count);
        return;
    }
    uint64_t group_hash = hot_hash(hot, want->slot, want->key);
    if (hot_slot_whole(hot, want->slot)) {
        if (want->kind == LOAD_ROW && hot_row_find(hot, want->slot, want->key, group_hash))
            return;
        load = load_new(loads, want, mark);
    } else {
        struct hot_group *group = hot_group_find(hot, want->slot, want->key, group_hash);
        if (!group && hot->slot[want->slot].complete)
            return; /* there is no such group, whatever the engine still holds of a dropped one */
        if (!group)
            group = hot_group_add(hot, want->slot, want->key, group_hash, false);
        load = load_new(loads, want, mark);
        if (!load_bound(&group->tree, want, load)) {
            load_free(load);
            return;
        }
        load->group_next = group->loads;
        if (load->group_next)
            load->group_next->group_prev = load;
        group->loads = load;
    }
    table_insert(&loads->index, hash, load);
    hot_slot_ref(hot, load->slot);
    load_enqueue(loads, load);
    waiter_hold(loads, waiter, load, want->row_count);
}

/* ---- reading; any thread ---- */

static bool rows_add(struct load *load, struct bytes suffix, struct bytes value)
{
    uint8_t lens[8];
    le32_put(lens, (uint32_t)suffix.len);
    le32_put(lens + 4, (uint32_t)value.len);
    size_t before = load->rows.len;
    if (buf_add(&load->rows, lens, sizeof lens) && buf_add_bytes(&load->rows, suffix) &&
        buf_add_bytes(&load->rows, value)) {
        load->row_count++;
        return true;
    }
    buf_cut(&load->rows, before);
    return false;
}

static enum rc read_row(struct load *load, struct engine *engine, const struct space_set *spaces)
{
    struct buf key, value;
    buf_init(&key, SIZE_MAX);
    buf_init(&value, STORE_VALUE_BYTES_MAX);
    enum rc rc = RC_NOMEM;
    if (space_key_add(spaces, load->space, load->group, load->from, &key))
        rc = engine->ops->get(engine, NULL, buf_bytes(&key), ENGINE_TIER_ALL, &value, &load->err);
    if (rc == RC_OK) {
        load->found = true;
        if (!rows_add(load, load->from, buf_bytes(&value)))
            rc = RC_NOMEM;
    } else if (rc == RC_NOT_FOUND) {
        rc = RC_OK;
    }
    load->exhausted = true;
    buf_done(&key);
    buf_done(&value);
    return rc;
}

static enum rc page_range(const struct load *load, const struct space_set *spaces,
                          struct buf *lower, struct buf *upper)
{
    if (!space_group_range_add(spaces, load->space, load->group, lower, upper))
        return RC_NOMEM;
    bool has_low = load->reverse ? load->has_bound : load->has_from;
    bool has_high = load->reverse ? load->has_from : load->has_bound;
    struct bytes low = load->reverse ? load->bound : load->from;
    struct bytes high = load->reverse ? load->from : load->bound;
    /* The smallest key above a suffix is the suffix and a zero: reversed, `bound` is left out and
     * `from` is not. */
    if (has_low) {
        lower->len = 0;
        if (!space_key_add(spaces, load->space, load->group, low, lower) ||
            (load->reverse && !buf_add(lower, "", 1)))
            return RC_NOMEM;
    }
    if (has_high) {
        upper->len = 0;
        if (!space_key_add(spaces, load->space, load->group, high, upper) ||
            (load->reverse && !buf_add(upper, "", 1)))
            return RC_NOMEM;
    }
    return RC_OK;
}

static enum rc page_rows(struct load *load, struct engine *engine, const struct space_set *spaces,
                         struct engine_iter *iter)
{
    bool at_from = false; /* a large row where the walk stands must not be all that a page has */
    for (;;) {
        struct bytes key, value, group, suffix;
        uint8_t space;
        if (!at_from && (load->row_count >= load->page_count * LOAD_PAGE_ROWS_MAX ||
                         load->rows.len >= (size_t)load->page_count * LOAD_PAGE_BYTES_MAX))
            return RC_OK;
        enum rc rc = engine->ops->iter_next(iter, &key, &value, &load->err);
        if (rc == RC_NOT_FOUND) {
            load->exhausted = true;
            return RC_OK;
        }
        if (rc != RC_OK)
            return rc;
        rc = space_key_split(spaces, key, &space, &group, &suffix, &load->err);
        if (rc != RC_OK)
            return rc;
        if (space != load->space || !bytes_eq(group, load->group))
            return err_set(&load->err, RC_CORRUPT, "the engine gave a row of another group");
        at_from = load->has_from && bytes_eq(suffix, load->from);
        if (!rows_add(load, suffix, value))
            return err_set(&load->err, RC_NOMEM, "could not allocate memory for a loaded row");
    }
}

static enum rc read_page(struct load *load, struct engine *engine, const struct space_set *spaces)
{
    struct buf lower, upper;
    buf_init(&lower, SIZE_MAX);
    buf_init(&upper, SIZE_MAX);
    enum rc rc = page_range(load, spaces, &lower, &upper);
    struct engine_range range = {.lower = buf_bytes(&lower),
                                 .upper = buf_bytes(&upper),
                                 .reverse = load->reverse,
                                 .one_group = true};
    struct engine_iter *iter = NULL;
    if (rc == RC_OK && bytes_cmp(range.lower, range.upper) >= 0)
        load->exhausted = true;
    else if (rc == RC_OK)
        rc = engine->ops->iter_open(engine, NULL, &range, &iter, &load->err);
    if (rc == RC_OK && iter)
        rc = page_rows(load, engine, spaces, iter);
    if (iter)
        engine->ops->iter_close(iter);
    buf_done(&lower);
    buf_done(&upper);
    return rc;
}

/* Keys that do not match are left out here: a page of a sparse pattern is small. */
static enum rc keys_rows(struct load *load, struct engine *engine, struct engine_iter *iter)
{
    size_t head_bytes = 1 + load->prefix_len; /* the space and the prefix */
    for (uint32_t looked = 1;; looked++) {
        struct bytes key, value;
        enum rc rc = engine->ops->iter_next(iter, &key, &value, &load->err);
        if (rc == RC_NOT_FOUND) {
            load->exhausted = true;
            return RC_OK;
        }
        if (rc != RC_OK)
            return rc;
        if (key.len < head_bytes)
            return err_set(&load->err, RC_CORRUPT, "the engine gave a row of another prefix");
        key = bytes_from(key, head_bytes);
        if (value.len > LOAD_KEYS_VALUE_BYTES)
            value.len = LOAD_KEYS_VALUE_BYTES;
        if ((!load->match || load->match(load->from, key)) && !rows_add(load, key, value))
            return err_set(&load->err, RC_NOMEM, "could not allocate memory for a page of keys");
        if (looked >= load->look_count_max || load->rows.len >= LOAD_KEYS_BYTES_MAX) {
            load->has_bound = true;
            load->bound = copy_bytes(key);
            return RC_OK;
        }
    }
}

static enum rc read_keys(struct load *load, struct engine *engine, const struct space_set *spaces)
{
    struct buf lower, upper;
    buf_init(&lower, SIZE_MAX);
    buf_init(&upper, SIZE_MAX);
    enum rc rc = RC_NOMEM;
    if (space_key_add(spaces, load->space, load->group, bytes_of("", 0), &lower) &&
        space_successor_add(bytes_of(lower.ptr, 1 + load->prefix_len), &upper))
        rc = RC_OK;
    struct engine_range range = {
        .lower = buf_bytes(&lower), .upper = buf_bytes(&upper), .once = true};
    struct engine_iter *iter = NULL;
    if (rc == RC_OK)
        rc = engine->ops->iter_open(engine, NULL, &range, &iter, &load->err);
    if (rc == RC_OK)
        rc = keys_rows(load, engine, iter);
    if (iter)
        engine->ops->iter_close(iter);
    buf_done(&lower);
    buf_done(&upper);
    return rc;
}

static enum rc load_read(struct load *load, struct engine *engine, const struct space_set *spaces)
{
    switch (load->kind) {
    case LOAD_ROW:
        return read_row(load, engine, spaces);
    case LOAD_PAGE:
        return read_page(load, engine, spaces);
    case LOAD_KEYS:
        return read_keys(load, engine, spaces);
    }
    return RC_INVALID;
}

bool loads_step(struct loads *loads)
{
    pthread_mutex_lock(&loads->lock);
    struct load *load = DLIST_ITEM(dlist_take_first(&loads->queue), struct load, queue);
    if (load)
        load->state = LOAD_READING;
    pthread_mutex_unlock(&loads->lock);
    if (!load)
        return false;
    load->rc = load_read(load, loads->engine, loads->spaces);
    if (load->rc == RC_NOMEM && load->err.rc == RC_OK)
        err_set(&load->err, RC_NOMEM, "could not allocate memory for a load");
    pthread_mutex_lock(&loads->lock);
    load->state = LOAD_READ;
    dlist_add_last(&loads->done, &load->queue);
    pthread_mutex_unlock(&loads->lock);
    if (loads->notify)
        loads->notify(loads->notify_arg);
    return true;
}

/* ---- finishing ---- */

bool load_rows_next(struct bytes *rows, struct bytes *ret_suffix, struct bytes *ret_value)
{
    if (rows->len == 0)
        return false;
    uint32_t suffix_len = le32_get(rows->ptr), value_len = le32_get(rows->ptr + 4);
    *ret_suffix = bytes_of(rows->ptr + 8, suffix_len);
    *ret_value = bytes_of(rows->ptr + 8 + suffix_len, value_len);
    *rows = bytes_from(*rows, 8 + (size_t)suffix_len + value_len);
    return true;
}

/* The form that is in the hot tier. False: no memory. */
static bool value_pack(const struct loads *loads, const struct load *load, struct bytes suffix,
                       struct bytes value, struct buf *scratch, struct bytes *ret_packed)
{
    return space_pack(&loads->spaces->space[load->space], load_rest(load), suffix, value, scratch,
                      ret_packed);
}

static enum rc finish_row(struct loads *loads, struct load *load, struct buf *scratch)
{
    struct hot *hot = loads->hot;
    struct bytes rest = load_rest(load), suffix, value = bytes_of("", 0), packed = value;
    uint64_t hash = hot_hash(hot, load->slot, rest);
    if (hot_row_find(hot, load->slot, rest, hash))
        return RC_OK; /* what is here is newer */
    struct bytes rows = buf_bytes(&load->rows);
    if (load_rows_next(&rows, &suffix, &value) &&
        !value_pack(loads, load, suffix, value, scratch, &packed))
        return RC_NOMEM;
    struct hot_row *row = hot_row_new(load->slot, rest, packed, !load->found, 0);
    if (!row)
        return RC_NOMEM;
    hot_row_swap(hot, row, hash);
    return RC_OK;
}

/* From here on `bound` says what is pinned: no more than was brought. Whatever else was clean up to
 * there when the load began was brought as well, and so is counted; what a flush has made clean
 * since is pinned uncounted, for as long as somebody waits for this load. */
static void pin_set(struct load *load, struct tree_edge end)
{
    mem_free((void *)(uintptr_t)load->bound.ptr);
    load->has_bound = end.has;
    load->bound = end.has ? copy_bytes(end.suffix) : bytes_of(NULL, 0);
}

static enum rc finish_group(struct loads *loads, struct load *load, struct buf *scratch)
{
    struct tree *tree = &load_group(loads, load)->tree;
    struct meter *meter = &loads->hot->meter;
    struct bytes rows = buf_bytes(&load->rows), suffix, value, packed;
    struct tree_page page = {.reverse = load->reverse,
                             .from = {load->has_from, true, load->from},
                             .to = {load->has_bound, false, load->bound},
                             .entry_count_max = CLOSE_ENTRIES_MAX,
                             .closed_run_max = CLOSED_RUN_MAX,
                             .tomb_count_max = CLOSE_TOMBS_MAX};
    struct tree_edge last = {0};
    while (load_rows_next(&rows, &suffix, &value)) {
        if (!value_pack(loads, load, suffix, value, scratch, &packed))
            return RC_NOMEM;
        enum rc rc = tree_fill_row(tree, meter, suffix, packed);
        if (rc != RC_OK)
            return rc;
        last = (struct tree_edge){.has = true, .known = true, .suffix = suffix};
        loads->row_count++;
    }
    if (load->kind == LOAD_ROW)
        page.to = page.from;
    else if (!load->exhausted)
        page.to = last;
    enum rc rc = tree_fill_close(tree, meter, &page);
    pin_set(load, last.has ? last : page.from);
    return rc;
}

/* A page has ended, and the waiter wants more rows behind it: starts the load of the next of them
 * that are cold. */
static void load_go_on(struct loads *loads, const struct load *load, struct load_pin pin)
{
    if (load->kind != LOAD_PAGE || load->state != LOAD_READY || !load->has_bound ||
        loads->hot->slot[load->slot].dead || pin.row_count <= load->row_count)
        return;
    const struct tree *tree = &load_group(loads, load)->tree;
    uint64_t left = pin.row_count - load->row_count;
    struct tree_pos pos;
    bool open = false;
    tree_seek(tree, load->bound, &pos);
    struct tree_pos before = pos;
    for (bool more = pos.exact; more && !open && left > 0; left--) {
        before = pos;
        more = entry_step(tree, load->reverse, &pos, &open);
        loads->gap_search_count++;
    }
    if (!open)
        return;
    struct load_want want = {.kind = LOAD_PAGE,
                             .slot = load->slot,
                             .key = load_rest(load),
                             .reverse = load->reverse,
                             .row_count = left + 2, /* the one before, and what is open */
                             .has_from = true,
                             .from = block_entry(before.block, before.index).suffix};
    load_start(loads, &want, loads->hot->meter.mark, pin.waiter);
}

/* The waiters of a load that has ended go on waiting for what is behind it, or may run. */
static void waiters_tell(struct loads *loads, const struct load *load)
{
    for (uint32_t i = 0; i < load->pin_count; i++) {
        struct load_waiter *waiter = load->pin[i].waiter;
        if (load->state == LOAD_FAILED && waiter->rc == RC_OK) {
            waiter->rc = load->rc;
            waiter->err = load->err;
        }
        waiter->brought_row_count += load->row_count;
        load_go_on(loads, load, load->pin[i]);
        if (--waiter->pending_count == 0)
            waiter->ready(waiter, waiter->arg);
    }
}

/* Takes what was read into the hot tier and tells the waiters. */
static void load_finish(struct loads *loads, struct load *load, struct buf *scratch)
{
    load_land(loads, load);
    enum rc rc = load->rc;
    if (rc == RC_OK && load->kind != LOAD_KEYS && !loads->hot->slot[load->slot].dead)
        rc = load_of_row(loads, load) ? finish_row(loads, load, scratch)
                                      : finish_group(loads, load, scratch);
    if (rc == RC_NOMEM && load->rc == RC_OK)
        err_set(&load->err, rc, "could not allocate memory for loaded rows");
    load->rc = rc;
    load->state = rc == RC_OK ? LOAD_READY : LOAD_FAILED;
    loads->failed_count += rc != RC_OK;
    if (rc != RC_OK)
        loads->failed_err = load->err;
    if (load->state == LOAD_READY) {
        load->pinned_bytes = load->rows.len;
        loads->pinned_bytes += load->pinned_bytes;
    }
    if (load->kind != LOAD_KEYS)
        buf_done(&load->rows); /* a pinned load would keep every row twice */
    if (load->pin_count == 0) {
        if (load->state == LOAD_READY && load_of_row(loads, load)) {
            loads->pinned_bytes -= load->pinned_bytes;
            load->state = LOAD_FAILED; /* never entered `pinned` */
        }
        load_forget(loads, load);
        return;
    }
    if (load->state == LOAD_READY && load_of_row(loads, load))
        table_insert(&loads->pinned, load_hash(load, loads), load);
    if (load->state == LOAD_READY && load->kind == LOAD_KEYS)
        dlist_add_first(&loads->shown, &load->flight); /* (4) */
    waiters_tell(loads, load);
}

const struct load *loads_keys_find(const struct loads *loads, const struct load_want *want)
{
    return table_find(&loads->pinned, want_hash(loads, want), want, NULL);
}

bool loads_poll(struct loads *loads)
{
    pthread_mutex_lock(&loads->lock);
    struct dlist done = loads->done;
    loads->done = (struct dlist){0};
    pthread_mutex_unlock(&loads->lock);
    if (!done.first)
        return false;
    struct buf scratch;
    buf_init(&scratch, STORE_VALUE_BYTES_MAX);
    for (struct dlink *link; (link = dlist_take_first(&done));)
        load_finish(loads, DLIST_ITEM(link, struct load, queue), &scratch);
    buf_done(&scratch);
    return true;
}

/* ---- waiters ---- */

static void waiter_let_go(struct loads *loads, struct load_waiter *waiter, bool ready_only)
{
    size_t kept = 0;
    for (size_t i = 0; i < waiter->load_count; i++) {
        struct load *load = waiter->load[i];
        if (ready_only && !load_is_ready(load)) {
            waiter->load[kept++] = load;
            continue;
        }
        *pin_find(load, waiter) = load->pin[load->pin_count - 1];
        load->pin_count--;
        if (load->pin_count == 0 && !load->in_flight)
            load_forget(loads, load);
    }
    waiter->load_count = kept;
    if (kept == 0 && waiter->listed) {
        waiter->listed = false;
        dlist_remove(&loads->waiters, &waiter->link);
    }
}

void load_waiter_release(struct loads *loads, struct load_waiter *waiter)
{
    waiter_let_go(loads, waiter, false);
    waiter->pending_count = 0;
    waiter->brought_row_count = 0;
    waiter->wait_count = 0;
    waiter->rc = RC_OK;
}

void load_waiter_done(struct load_waiter *waiter)
{
    ASSERT(waiter->load_count == 0);
    mem_free(waiter->load);
    *waiter = (struct load_waiter){0};
}

void loads_pin_limit(struct loads *loads, uint64_t pinned_bytes_max)
{
    if (loads->pinned_bytes <= pinned_bytes_max)
        return;
    struct load_waiter *oldest = waiter_of(loads->waiters.first), *next;
    for (struct dlink *link = loads->waiters.first; link; link = link->next)
        if (waiter_of(link)->ticket < oldest->ticket)
            oldest = waiter_of(link);
    for (struct load_waiter *waiter = waiter_of(loads->waiters.first); waiter; waiter = next) {
        next = waiter_of(waiter->link.next);
        if (waiter == oldest)
            continue;
        loads->preempted_count++;
        waiter_let_go(loads, waiter, true);
    }
}

static uint32_t lowest_mark(const struct dlist *list, uint32_t mark)
{
    for (struct dlink *link = list->first; link; link = link->next) {
        const struct load *load = DLIST_ITEM(link, struct load, flight);
        if (load->mark < mark)
            mark = load->mark;
    }
    return mark;
}

uint32_t loads_horizon(const struct loads *loads, uint32_t mark)
{
    return lowest_mark(&loads->shown, lowest_mark(&loads->flight, mark));
}
