// SPDX-License-Identifier: Apache-2.0
/* sync.c - LAND.SYNC: every field that is here is marked, as if it had just been written.
 *
 * Fields are marked, never owners: an owner's mark says that what is here is all there is, and
 * would remove rows of SQL that were never lifted.
 *
 * Invariants:
 *   (1) A commit marks at most LAND_STEP_FIELDS fields; where the walk stands changes only when the
 *       commit is to stay, so a step that met something cold is done again from its start.
 *   (2) A field that was marked since the start is left alone: a key may be met twice, and is
 *       counted once unless it has landed in between. */
#include "base/mem.h"
#include "models/landing/keys_page.h"
#include "models/landing/landing_int.h"

#include "base/banned.h"

struct land_sync {
    const struct ns *ns; /* of the rule, which may be deleted and made anew between two steps */
    uint64_t start_lsn;
    struct keys_page page;
    size_t at;        /* the key of the page that is next */
    struct buf after; /* the last field of it that was looked at; empty: none */
    uint64_t marked, skipped;
};

struct step { /* what a step has done so far: (1) */
    struct land_sync *sync;
    struct land_rule *rule;
    const struct run *run; /* landing__rule_run() */
    struct bytes key;
    struct address address;
    struct land_rows rows;
    uint64_t marked, skipped;
};

struct land_sync *land_sync_new(const struct land_rule *rule)
{
    struct land_sync *sync = mem_zalloc(sizeof *sync);
    sync->ns = rule->ns;
    sync->start_lsn = store_last_lsn(rule->landing->kv->store);
    keys_page_init(&sync->page);
    buf_init(&sync->after, STORE_SUFFIX_BYTES_MAX);
    return sync;
}

void land_sync_free(void *arg)
{
    struct land_sync *sync = arg;
    if (!sync)
        return;
    keys_page_done(&sync->page);
    buf_done(&sync->after);
    mem_free(sync);
}

/* (2) */
static enum rc is_marked_since(const struct step *step, const struct dirty_table *table,
                               struct bytes field, bool *ret_is, struct err *err)
{
    struct buf *entry = &step->rule->landing->entry;
    *ret_is = false;
    buf_cut(entry, 0);
    if (!address_entry_add(&step->address, field, entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    for (enum dirty_part part = DIRTY_MARKED; part <= DIRTY_SAVING && !*ret_is; part++) {
        uint64_t version;
        enum rc rc = dirty_version(table, part, buf_bytes(entry), &version, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        *ret_is = rc == RC_OK && version > step->sync->start_lsn;
    }
    return RC_OK;
}

/* RC_NOT_FOUND: nothing of this key can be landed, its table is another's. */
static enum rc field_sync(void *arg, struct bytes field, struct bytes value, struct err *err)
{
    struct step *step = arg;
    struct land_rule *rule = step->rule;
    struct dirty_table table =
        land_rule_table(rule, step->run, address_table(rule->spec, step->key));
    struct err ignored;
    bool marked;
    (void)value;
    if (address_check_field(&step->address, field, &ignored) != RC_OK) {
        step->skipped++;
        return RC_OK;
    }
    enum rc rc = is_marked_since(step, &table, field, &marked, err);
    if (rc != RC_OK || marked)
        return rc;
    rc = land_mark(rule, step->run, step->key, field, err);
    step->marked += rc == RC_OK;
    step->skipped += rc == RC_INVALID;
    return rc == RC_INVALID ? RC_NOT_FOUND : rc;
}

static enum rc key_sync(struct step *step, struct bytes name, struct err *err)
{
    struct key key;
    struct err ignored;
    step->rows.looked++; /* also if it has no fields: a page of such keys is work */
    enum rc rc = landing__key_find(step->run, name, &key, err);
    if (rc != RC_OK)
        return rc;
    bool dies = key.meta.expire_ms != 0 && key.meta.expire_ms <= step->run->now_ms;
    if (!key.exists || (dies && !land_rule_is_missing(step->rule)))
        return RC_OK; /* gone, or about to go */
    if (key.meta.type != TYPE_HASH ||
        address_of(step->rule->spec, name, &step->address, &ignored) != RC_OK) {
        step->skipped++;
        return RC_OK;
    }
    step->key = name;
    return landing__rows_walk(&step->rows, &key, field_sync, step, err);
}

/* Keys of the page from `at` on. RC_WAIT: the step is full. */
static enum rc page_sync(struct step *step, size_t *at, struct err *err)
{
    const struct keys_page *page = &step->sync->page;
    for (; *at < page->count; (*at)++) {
        if (step->rows.looked >= LAND_STEP_FIELDS)
            return RC_WAIT;
        enum rc rc = key_sync(step, page->name[*at], err);
        if (rc != RC_OK)
            return rc;
        step->rows.after = BYTES("");
    }
    return RC_OK;
}

enum rc land_sync_step(struct land_sync *sync, const struct run *run, struct land_rule *rule,
                       struct err *err)
{
    const struct run own = landing__rule_run(rule, run);
    struct step step = {.sync = sync, .rule = rule, .run = &own};
    size_t at = sync->at;
    if (rule->ns != sync->ns)
        return err_set(err, RC_INVALID, "the rule was changed meanwhile");
    step.rows.after = arena_copy(run->arena, buf_bytes(&sync->after));
    enum rc rc = page_sync(&step, &at, err);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    buf_cut(&sync->after, 0);
    if (!buf_add_bytes(&sync->after, step.rows.after))
        return err_set(err, RC_NOMEM, "could not allocate memory for a field's name");
    sync->at = at;
    sync->marked += step.marked;
    sync->skipped += step.skipped;
    if (rc == RC_WAIT)
        return rc;
    if (sync->page.at_end)
        return RC_OK;
    /* A page that is cold leaves an empty one behind, which the step done again passes by; what was
     * marked in this commit goes with it, so nothing may have been. */
    if (step.rows.looked > 0)
        return RC_WAIT;
    rc = keys_page_next(&sync->page, &own, rule, err);
    sync->at = 0;
    return rc == RC_OK ? RC_WAIT : rc;
}

void land_sync_result(const struct land_sync *sync, uint64_t *ret_marked, uint64_t *ret_skipped)
{
    *ret_marked = sync->marked;
    *ret_skipped = sync->skipped;
}
