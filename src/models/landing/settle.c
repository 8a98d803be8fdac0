// SPDX-License-Identifier: Apache-2.0
/* settle.c - entries of dirty tables that stand where nobody looks for them.
 *
 * n = XXH64(key) mod tables says where an entry stands, and a rule may come back with another
 * `tables`. Then its old entries would never land, and lifts, evictions and deadlines would not see
 * them. Before a rule is in force its entries are moved to where it looks for them; those that no
 * rule takes are counted. The whole of all DIRTY_TABLES_MAX tables is looked at, and nothing is
 * written if nothing is wrong.
 *
 * Invariants:
 *   (1) An entry leaves its old table in the commit that puts it into the right one. So it is in
 *       exactly one after a crash, and the next start goes on; nothing notes how far this one came.
 *   (2) No lander of the rule runs meanwhile. What wrong tables hold of it only goes from marked to
 *       saving (another rule's snapshot), never back: parts are walked in this order, and none is
 *       missed.
 *   (3) Where the walk stands changes only when the commit is to stay.
 *   (4) One rule at a time is added: two of the same keys would move the entries to and fro. */
#include "base/log.h"
#include "base/mem.h"
#include "models/landing/landing_int.h"

#include "base/banned.h"

struct land_settle {
    struct landing *landing;
    bool at_start; /* all databases, all rules; otherwise those of a rule that is being added */
    uint32_t db, table;
    enum dirty_part part;
    bool known;                  /* `there` is */
    uint64_t there[DIRTY_PARTS]; /* which tables may exist, a bit each */
    struct buf after;            /* the last entry of the part that was looked at */
    uint64_t moved, alone;       /* of the database: entries that were moved, that no rule takes */
};

struct move {
    bool removed;
    struct bytes value; /* of an error entry */
    uint32_t table;     /* the right one */
};

struct step {
    struct land_settle *settle;
    const struct land_rule *added; /* NULL at the start */
    struct run run;                /* landing's own, in the database */
    struct bytes entry[LAND_STEP_FIELDS];
    struct move move[LAND_STEP_FIELDS];
    size_t count;
    uint64_t alone;
    struct land_rows rows; /* all bytes here are in the run's arena */
};

/* ---- landing's own keys ---- */

static bool has_rule(const struct step *step)
{
    const struct ns *ns = step->run.ns;
    bool has = step->added != NULL;
    for (const struct land_rule *rule = step->settle->landing->rules; !has && rule;
         rule = rule->next)
        has = rule->ns == ns || ns->index == 0; /* stored rules are in database 0 */
    return has;
}

/* A client could make them while there was no rule; once there is one nobody could delete them, and
 * every change of a landed key would fail. */
static enum rc own_key_look(const struct run *own, struct bytes name, bool strict, bool *ret_there,
                            struct err *err)
{
    struct key key;
    enum rc rc = key_write(own, name, KEY_ANY, &key, err);
    *ret_there = rc == RC_OK && key.exists && key.meta.type == TYPE_HASH;
    if (rc != RC_OK || !strict || !key.exists)
        return rc;
    if (!*ret_there || key.meta.expire_ms != 0)
        return err_set(
            err, RC_INVALID,
            "the key %.*s of database %u is landing's own, but %s: delete it while there "
            "are no rules",
            (int)name.len, (const char *)name.ptr, own->ns->index,
            *ret_there ? "has a time to live" : "is no hash");
    return RC_OK;
}

/* All that is cold is asked for at once. */
static enum rc own_keys_look(struct step *step, struct err *err)
{
    struct landing *landing = step->settle->landing;
    const struct bytes rules = BYTES(LAND_RULES_KEY), tables = BYTES(LAND_TABLES_KEY),
                       sinks = BYTES(LAND_SINKS_KEY);
    const struct run *own = &step->run, first = run_with(own, kv_ns(landing->kv, 0), 0);
    bool strict = has_rule(step), there;
    enum rc rc = own_key_look(&first, rules, strict, &there, err);
    bool cold = rc == RC_COLD;
    if (rc == RC_OK || rc == RC_COLD)
        rc = own_key_look(own, tables, strict, &there, err);
    cold = cold || rc == RC_COLD;
    if (rc == RC_OK || rc == RC_COLD)
        rc = own_key_look(own, sinks, strict, &there, err);
    for (uint32_t n = 0; n < DIRTY_TABLES_MAX; n++) {
        struct dirty_table table = dirty_table(&landing->dirty, own, own->ns, n);
        for (enum dirty_part part = DIRTY_MARKED; part <= DIRTY_LOCK; part++) {
            cold = cold || rc == RC_COLD;
            if (rc != RC_OK && rc != RC_COLD)
                return rc;
            rc = own_key_look(own, dirty_name(&table, part), strict, &there, err);
            step->settle->there[part] |= (uint64_t)there << n;
        }
    }
    return rc == RC_OK && cold ? RC_COLD : rc;
}

/* ---- moving ---- */

static const struct land_rule *rule_of_entry(const struct step *step, struct bytes entry,
                                             struct land_entry *ret_entry)
{
    const struct land_rule *rule = step->settle->landing->rules, *added = step->added;
    const struct run *run = &step->run;
    for (; rule; rule = rule->next)
        if (rule->ns == run->ns && land_rule_has_entry(rule, run, entry, ret_entry))
            return rule;
    return added && land_rule_has_entry(added, run, entry, ret_entry) ? added : NULL;
}

static enum rc entry_look(void *arg, struct bytes entry, struct bytes value, struct err *err)
{
    struct step *step = arg;
    struct land_settle *settle = step->settle;
    struct land_entry parts;
    uint64_t version;
    const struct land_rule *rule = rule_of_entry(step, entry, &parts);
    step->alone += rule == NULL;
    if (!rule || (!settle->at_start && rule != step->added))
        return RC_OK;
    struct move move = {.value = {0}};
    if (!land_rule_entry_table(rule, &parts, &move.table))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    if (move.table == settle->table)
        return RC_OK;
    if (settle->part == DIRTY_ERROR)
        move.value = arena_copy(step->run.arena, value);
    else /* what is no mark is marked as changed: what is here lands, whatever a mark says */
        (void)dirty_mark_parse(value, &move.removed, &version);
    step->entry[step->count] = entry;
    step->move[step->count++] = move;
    return RC_OK;
}

/* RC_WAIT: there are more behind step->rows.after. */
static enum rc part_look(struct step *step, const struct dirty_table *table, struct err *err)
{
    struct key key;
    enum rc rc = dirty_open(table, step->settle->part, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    rc = landing__rows_walk(&step->rows, &key, entry_look, step, err);
    if (rc == RC_COLD && step->rows.looked > 0 && step->count == 0)
        return RC_WAIT; /* after a crash there are many cold places: not all again for each */
    return rc;
}

/* As it is, unless the right table has a newer one. */
static enum rc error_move(const struct dirty_table *to, struct bytes entry, struct bytes value,
                          struct err *err)
{
    struct dirty_error error;
    uint64_t there;
    struct err ignored;
    enum rc rc = dirty_version(to, DIRTY_ERROR, entry, &there, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_CORRUPT)
        return rc;
    if (rc == RC_OK &&
        (dirty_error_parse(value, &error, &ignored) != RC_OK || error.version <= there))
        return RC_OK;
    return dirty_error_copy(to, entry, value, err);
}

/* (1) */
static enum rc entries_move(struct step *step, const struct dirty_table *from, struct err *err)
{
    enum dirty_part part = step->settle->part;
    bool cold = false; /* all of them are asked for */
    if (step->count == 0)
        return RC_OK;
    for (size_t i = 0; i < step->count; i++) {
        const struct move *move = &step->move[i];
        struct dirty_table to = *from;
        to.number = move->table;
        enum rc rc = part == DIRTY_ERROR
                         ? error_move(&to, step->entry[i], move->value, err)
                         : dirty_mark(&to, step->entry[i], move->removed, NULL, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : dirty_take_many(from, part, step->entry, step->count, err);
}

/* ---- steps ---- */

static bool part_next(struct land_settle *settle)
{
    buf_cut(&settle->after, 0);
    if (settle->part < DIRTY_ERROR) { /* (2) */
        settle->part++;
        return true;
    }
    settle->part = DIRTY_MARKED;
    return ++settle->table < DIRTY_TABLES_MAX;
}

/* A part, or some of it. RC_WAIT: that is enough for one commit. RC_NOT_FOUND: it was the last. */
static enum rc part_step(struct step *step, struct err *err)
{
    struct land_settle *settle = step->settle;
    struct dirty_table table =
        dirty_table(&settle->landing->dirty, &step->run, step->run.ns, settle->table);
    step->rows.after = arena_copy(step->run.arena, buf_bytes(&settle->after));
    enum rc rc = RC_OK, moved_rc = RC_OK;
    if (settle->there[settle->part] >> settle->table & 1) {
        rc = part_look(step, &table, err);
        if (rc == RC_OK || rc == RC_WAIT)
            moved_rc = entries_move(step, &table, err);
    }
    if ((rc != RC_OK && rc != RC_WAIT) || moved_rc != RC_OK)
        return moved_rc != RC_OK ? moved_rc : rc;
    buf_cut(&settle->after, 0);
    if (!buf_add_bytes(&settle->after, step->rows.after))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    settle->moved += step->count;
    settle->alone += step->alone;
    bool more = rc == RC_WAIT || part_next(settle);
    if (step->rows.looked > 0) /* (3): what is cold in the next part must not undo this one */
        return RC_WAIT;
    return more ? RC_OK : RC_NOT_FOUND;
}

static enum rc ns_step(struct land_settle *settle, const struct run *run,
                       const struct land_rule *added, struct ns *ns, struct err *err)
{
    struct step step = {.settle = settle, .added = added, .run = run_as(run, ns, settle->landing)};
    enum rc rc = RC_OK;
    /* Not in every step: it is a lot of looking. In the last one again, for who adds the rule. */
    if (!settle->known || settle->table == DIRTY_TABLES_MAX)
        rc = own_keys_look(&step, err);
    settle->known = settle->known || rc == RC_OK;
    settle->there[DIRTY_SAVING] |= settle->there[DIRTY_MARKED]; /* (2) */
    while (rc == RC_OK && settle->table < DIRTY_TABLES_MAX)
        rc = part_step(&step, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void ns_over(struct land_settle *settle)
{
    struct landing *landing = settle->landing;
    uint32_t db = settle->db;
    if (db >= landing->alone_count) {
        landing->alone = mem_realloc(landing->alone, (db + 1) * sizeof *landing->alone);
        memset(landing->alone + landing->alone_count, 0,
               (db + 1 - landing->alone_count) * sizeof *landing->alone);
        landing->alone_count = db + 1;
    }
    landing->alone[db] = settle->alone;
    if (settle->moved > 0)
        log_info("landing: database %u: moved %llu entries to the tables where their rules look "
                 "for them",
                 db, (unsigned long long)settle->moved);
    if (settle->alone > 0 && settle->at_start)
        log_warn("landing: database %u has %llu entries that belong to no rule and do not land", db,
                 (unsigned long long)settle->alone);
    settle->moved = 0;
}

struct land_settle *land_settle_new(struct landing *landing)
{
    ASSERT(!landing->settle); /* (4) */
    struct land_settle *settle = mem_zalloc(sizeof *settle);
    settle->landing = landing;
    buf_init(&settle->after, STORE_SUFFIX_BYTES_MAX);
    landing->settle = settle;
    return settle;
}

void land_settle_free(struct land_settle *settle)
{
    if (!settle)
        return;
    settle->landing->settle = NULL;
    buf_done(&settle->after);
    mem_free(settle);
}

enum rc land_settle_step(struct land_settle *settle, const struct run *run, struct land_rule *rule,
                         struct err *err)
{
    /* Or another's entries would be moved. */
    enum rc rc = landing__rule_check(settle->landing, rule->spec, err);
    if (rc != RC_OK)
        return rc;
    settle->db = rule->spec->db;
    rc = ns_step(settle, run, rule, rule->ns, err);
    if (rc == RC_OK)
        ns_over(settle);
    return rc;
}

/* ---- at the start ---- */

struct settle_job {
    struct land_start start;
    struct land_settle *settle;
};

static enum rc all_step(struct land_settle *settle, const struct run *run, struct err *err)
{
    const struct kv *kv = run->kv;
    for (; settle->db < kv->ns_count; settle->db++) {
        struct ns *ns = kv_ns(kv, settle->db);
        if (!ns || ns_key_count(ns) == 0)
            continue;
        enum rc rc = ns_step(settle, run, NULL, ns, err);
        if (rc != RC_OK)
            return rc;
        ns_over(settle);
        settle->table = 0;
        settle->alone = 0;
        settle->known = false;
        memset(settle->there, 0, sizeof settle->there);
    }
    return RC_OK;
}

static enum rc settle_run(struct task *task, struct store *store, struct err *err)
{
    struct land_settle *settle = ((struct settle_job *)task)->settle;
    struct run run;
    (void)store;
    run_begin(&run, settle->landing->kv, NULL, RUN_NO_LIFT);
    return run_end(&run, all_step(settle, &run, err));
}

enum rc landing__settle(struct landing *landing, struct err *err)
{
    struct settle_job job = {.settle = land_settle_new(landing)};
    job.settle->at_start = true;
    job.start.task.run = settle_run;
    job.start.task.flags = TASK_JOB | TASK_DELETES; /* a full disk is no reason not to start */
    enum rc rc = landing__start_run(landing, &job.start, err);
    land_settle_free(job.settle);
    if (rc != RC_OK)
        return rc;
    landing->settled = true;
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next)
        lander_start(rule->lander);
    return RC_OK;
}

uint64_t landing_orphans(const struct landing *landing)
{
    uint64_t count = 0;
    for (size_t i = 0; i < landing->alone_count; i++)
        count += landing->alone[i];
    return count;
}
