// SPDX-License-Identifier: Apache-2.0
/* landing.c - the guard of landing: whose rule a key is, what a change marks, what is missing. */
#include "models/landing/landing.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "models/landing/place.h"
#include "types/hash.h"

#include "base/banned.h"

enum { PAIR_BYTES_MAX = 1024 };

/* ---- jobs ---- */

uint64_t landing__future_lsn(const struct landing *landing)
{
    enum { DAY_MS = 24 * 3600 * 1000 };
    uint64_t day_ahead = store_lsn_of_ms(clock_unix_ms(landing->options.clock) + DAY_MS);
    uint64_t last = store_last_lsn(landing->kv->store);
    return last > day_ahead ? last : day_ahead;
}

enum rc landing__key_find(const struct run *run, struct bytes name, struct key *ret_key,
                          struct err *err)
{
    ASSERT(run->model); /* landing's */
    enum rc rc = key_write(run, name, KEY_ANY, ret_key, err);
    /* What is dead and was not landed is alive: see dead_look(). */
    if (rc == RC_OK && ret_key->dead) {
        ret_key->exists = true;
        ret_key->dead = false;
    }
    return rc;
}

enum rc landing__rows_walk(struct land_rows *rows, const struct key *key, land_row_fn *fn,
                           void *arg, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes name, value, first = rows->after;
    store_walk_init(&walk, key->run->kv->store, key_rows(key), false);
    enum rc rc = store_walk_seek(&walk, first, err);
    while (rc == RC_OK) {
        if (rows->looked >= LAND_STEP_FIELDS)
            return RC_WAIT;
        rc = store_walk_next(&walk, &name, &value, err);
        if (rc != RC_OK || (first.len > 0 && bytes_eq(name, first)))
            continue;
        rows->looked++;
        rows->after = arena_copy(key->run->arena, name);
        rc = fn(arg, rows->after, value, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- rules ---- */

struct land_rule *landing_rule_of(const struct landing *landing, const struct ns *ns,
                                  struct bytes key)
{
    if (landing__is_reserved(ns, key))
        return NULL;
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next)
        if (rule->ns == ns && rule_takes(rule->spec, key, NULL))
            return rule;
    return NULL;
}

struct land_rule *landing_rule(const struct landing *landing, struct bytes name)
{
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next)
        if (bytes_eq(bytes_of(rule->spec->name, strlen(rule->spec->name)), name))
            return rule;
    return NULL;
}

struct land_rule *landing_rule_next(const struct landing *landing, const struct land_rule *rule)
{
    return rule ? rule->next : landing->rules;
}

const struct rule_spec *land_rule_spec(const struct land_rule *rule)
{
    return rule->spec;
}

bool land_rule_is_from_config(const struct land_rule *rule)
{
    return rule->from_config;
}

const char *land_rule_sink(const struct land_rule *rule)
{
    return lander_sink(rule->lander);
}

struct dirty_table land_rule_table(const struct land_rule *rule, const struct run *run,
                                   uint32_t table)
{
    return dirty_table(&rule->landing->dirty, run, rule->ns, table);
}

/* Database 0 holds the stored rules. */
static bool is_guarded(const struct landing *landing, const struct ns *ns)
{
    for (const struct land_rule *rule = landing->rules; rule; rule = rule->next)
        if (rule->ns == ns || ns->index == 0)
            return true;
    return false;
}

static void guards_update(struct landing *landing)
{
    for (size_t i = 0; i < landing->kv->ns_count; i++) {
        struct ns *ns = landing->kv->ns[i];
        if (!ns)
            continue;
        if (is_guarded(landing, ns)) {
            ns_guard_add(ns, &landing->own_guard);
            ns_guard_add(ns, &landing->guard);
        } else {
            ns_guard_remove(ns, &landing->own_guard);
            ns_guard_remove(ns, &landing->guard);
        }
    }
}

enum rc landing__rule_check(const struct landing *landing, const struct rule_spec *spec,
                            struct err *err)
{
    if (landing_rule(landing, bytes_of(spec->name, strlen(spec->name))))
        return err_set(err, RC_BUSY, "there is a rule %s already", spec->name);
    if (!kv_ns(landing->kv, spec->db))
        return err_set(err, RC_INVALID, "there is no database %u", spec->db);
    size_t leaving = 0;
    for (const struct land_rule *rule = landing->leaving; rule; rule = rule->next)
        leaving++;
    if (leaving >= LAND_LEAVING_MAX)
        return err_set(err, RC_BUSY, "%zu deleted rules still wait for their databases", leaving);
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next) {
        if (rules_overlap(spec, rule->spec))
            return err_set(err, RC_BUSY, "a key could be taken by this rule and by %s",
                           rule->spec->name);
        if (rules_share_table(spec, rule->spec))
            return err_set(err, RC_BUSY, "the table is that of rule %s", rule->spec->name);
    }
    return RC_OK;
}

/* Waits for its threads, unless they have ended. */
static void rule_destroy(struct land_rule *rule)
{
    lander_free(rule->lander);
    worker_free(rule->lifter);
    lifts_rule_free(rule);
    verifies_rule_free(rule);
    identity_done(&rule->identity);
    rule_free(rule->spec);
    mem_free(rule);
}

/* A thread of a deleted rule may wait for its database for as long as a time limit says. Nobody
 * here waits for the thread; what it works with stays until it has ended. */
static void leaving_free(struct landing *landing, bool wait)
{
    for (struct land_rule **at = &landing->leaving; *at;) {
        struct land_rule *rule = *at;
        if (!wait && !(lander_has_ended(rule->lander) && worker_has_ended(rule->lifter))) {
            at = &rule->next;
            continue;
        }
        *at = rule->next;
        rule_destroy(rule);
    }
}

enum rc landing__rule_new(struct landing *landing, struct rule_spec *spec, bool from_config,
                          struct land_rule **ret_rule, struct err *err)
{
    enum rc rc = place_resolve(landing->dir, spec, err);
    if (rc == RC_OK && from_config) /* clients may do less still */
        rc = place_check_own(landing->dir, spec, err);
    if (rc == RC_OK)
        rc = landing__rule_check(landing, spec, err);
    if (rc != RC_OK) {
        rule_free(spec);
        return rc;
    }
    struct land_rule *rule = mem_zalloc(sizeof *rule);
    rule->landing = landing;
    rule->spec = spec;
    rule->ns = kv_ns(landing->kv, spec->db);
    rule->from_config = from_config;
    identity_init(&rule->identity, spec->name);
    presence_init(rule);
    rc = worker_new(spec, &rule->identity, &rule->lifter, err);
    if (rc == RC_OK)
        rc = lander_new(rule, &rule->lander, err);
    if (rc == RC_OK)
        *ret_rule = rule;
    else
        rule_destroy(rule);
    return rc;
}

void landing__rule_begin(struct land_rule *rule)
{
    struct landing *landing = rule->landing;
    struct land_rule **last = &landing->rules;
    while (*last)
        last = &(*last)->next;
    *last = rule;
    lifts_forget_absence(landing); /* it was another database that did not have something */
    guards_update(landing);
    counter_start(landing);
    if (landing->settled)
        lander_start(rule->lander);
}

void landing__rule_leave(struct land_rule *rule)
{
    lander_stop(rule->lander);
    worker_stop(rule->lifter);
    presence_end(rule);
    rule->next = rule->landing->leaving;
    rule->landing->leaving = rule;
}

enum rc landing_rule_add(struct landing *landing, struct rule_spec *spec, bool from_config,
                         struct err *err)
{
    struct land_rule *rule;
    enum rc rc = landing__rule_new(landing, spec, from_config, &rule, err);
    if (rc == RC_OK)
        landing__rule_begin(rule);
    return rc;
}

static void memo_forget(struct landing *landing)
{
    landing->memo.rule = NULL;
}

static void pairs_forget(struct landing *landing, const struct land_rule *rule)
{
    for (struct pair_known **at = &landing->pairs; *at;) {
        struct pair_known *pair = *at;
        if (rule && pair->rule != rule) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        mem_free((void *)pair->pair.ptr);
        mem_free(pair);
    }
}

void landing_rule_delete(struct land_rule *rule)
{
    struct landing *landing = rule->landing;
    struct land_rule **at = &landing->rules;
    while (*at != rule)
        at = &(*at)->next;
    *at = rule->next;
    pairs_forget(landing, rule);
    memo_forget(landing);
    landing__rule_leave(rule);
    lifts_rule_gone(rule);
    verifies_rule_gone(rule);
    guards_update(landing);
    landing__waiters_wake(&landing->pass_waiters); /* some may have waited for this one */
}

/* ---- stored rules ---- */

/* In the database where they are. */
static struct run rules_run(const struct landing *landing, const struct run *run)
{
    return run_as(run, kv_ns(run->kv, 0), landing);
}

static enum rc text_store(const struct land_rule *rule, const struct run *run, struct bytes text,
                          struct err *err)
{
    const struct run own = rules_run(rule->landing, run);
    const struct bytes pair[2] = {bytes_of(rule->spec->name, strlen(rule->spec->name)), text};
    return hash_set(&own, BYTES(LAND_RULES_KEY), pair, 1, NULL, err);
}

enum rc landing_rule_store(const struct land_rule *rule, const struct run *run, struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, STORE_SUFFIX_BYTES_MAX);
    enum rc rc = place_text(rule->landing->dir, rule->spec, &text, err);
    return rc == RC_OK ? text_store(rule, run, buf_bytes(&text), err) : rc;
}

/* A build before kept paths as they were given. One whose whole path cannot be a word of a rule (it
 * has a blank) is kept so: it has worked, and goes on. */
enum rc landing__rule_restore(struct land_rule *rule, const struct run *run, struct err *err)
{
    enum rc rc = landing_rule_store(rule, run, err);
    if (rc != RC_INVALID)
        return rc;
    if (!rule->is_kept_as_given)
        log_warn("landing: rule %s is kept as it was given, and needs the same working directory: "
                 "%s",
                 rule->spec->name, err->text);
    rule->is_kept_as_given = true;
    return text_store(rule, run, rule->spec->text, err);
}

enum rc landing_rule_unstore(struct land_rule *rule, const struct run *run, struct err *err)
{
    const struct run own = rules_run(rule->landing, run);
    const struct bytes name = bytes_of(rule->spec->name, strlen(rule->spec->name));
    enum rc rc = hash_delete(&own, BYTES(LAND_RULES_KEY), &name, 1, NULL, err);
    return rc == RC_OK ? landing__sink_forget(rule, run, err) : rc;
}

static void start_done(struct task *task, enum rc rc, const struct err *err)
{
    struct land_start *start = (struct land_start *)task;
    start->over = true;
    start->rc = rc;
    start->err = *err;
}

enum rc landing__start_run(struct landing *landing, struct land_start *start, struct err *err)
{
    start->task.done = start_done;
    task_start(landing->options.tasks, &start->task);
    while (!start->over)
        tasks_turn(landing->options.tasks);
    if (start->rc != RC_OK)
        *err = start->err;
    return start->rc;
}

struct rules_job {
    struct land_start start;
    struct landing *landing;
    struct rule_spec **spec;
    size_t count;
};

static void specs_free(struct rules_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        rule_free(job->spec[i]);
    mem_free(job->spec);
    job->spec = NULL;
    job->count = 0;
}

static enum rc specs_read(struct rules_job *job, const struct run *run, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes name, text;
    struct key key;
    specs_free(job);
    enum rc rc = landing__key_find(run, BYTES(LAND_RULES_KEY), &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    if (key.meta.type != TYPE_HASH) {
        if (!job->landing->rules) /* with rules it is refused: settle.c */
            log_warn("landing: " LAND_RULES_KEY " is no hash: there are no rules in it");
        return RC_OK;
    }
    store_walk_init(&walk, run->kv->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &name, &text, err)) == RC_OK) {
        struct rule_spec *spec;
        /* As long as there is no rule any client can write there; that must not keep us down. */
        if (rule_parse_text(text, &spec, err) != RC_OK) {
            log_warn("landing: the stored rule %.*s is ignored: %s", (int)name.len,
                     (const char *)name.ptr, err->text);
            continue;
        }
        job->spec = mem_realloc(job->spec, (job->count + 1) * sizeof(struct rule_spec *));
        job->spec[job->count++] = spec;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc rules_load_run(struct task *task, struct store *store, struct err *err)
{
    struct rules_job *job = (struct rules_job *)task;
    struct kv *kv = job->landing->kv;
    struct run run;
    (void)store;
    run_begin(&run, kv, kv_ns(kv, 0), RUN_NO_LIFT);
    run.model = job->landing;
    return run_end(&run, specs_read(job, &run, err));
}

enum rc landing_rules_load(struct landing *landing, struct err *err)
{
    struct rules_job job = {.landing = landing};
    job.start.task.run = rules_load_run;
    enum rc rc = landing__start_run(landing, &job.start, err);
    for (size_t i = 0; rc == RC_OK && i < job.count; i++) {
        struct rule_spec *spec = job.spec[i];
        job.spec[i] = NULL;
        if (landing_rule(landing, bytes_of(spec->name, strlen(spec->name)))) {
            log_warn("landing: rule %s is in the config file and in the store; the file counts",
                     spec->name);
            rule_free(spec);
            continue;
        }
        bool is_rewritten = passwords_move(landing, &spec);
        spec->is_stored = true;
        rc = landing_rule_add(landing, spec, false, err);
        if (rc == RC_OK && is_rewritten)
            landing_rule(landing, bytes_of(spec->name, strlen(spec->name)))->is_rewritten = true;
    }
    specs_free(&job);
    if (rc == RC_OK)
        rc = landing__sinks_load(landing, err);
    return rc == RC_OK ? landing__settle(landing, err) : rc;
}

/* ---- entries ---- */

bool land_rule_has_entry(const struct land_rule *rule, const struct run *run, struct bytes entry,
                         struct land_entry *ret_entry)
{
    struct landing *landing = rule->landing;
    struct err err;
    struct bytes name = bytes_of(rule->spec->name, strlen(rule->spec->name));
    if (entry_parse(entry, run->arena, ret_entry, &err) != RC_OK ||
        ret_entry->shape != rule->spec->shape)
        return false;
    if (ret_entry->shape == LAND_COLUMNS)
        return bytes_eq(ret_entry->rule_name, name);
    ret_entry->address.spec = rule->spec;
    buf_cut(&landing->owner, 0);
    return address_key_add(&ret_entry->address, &landing->owner) &&
           rule_takes(rule->spec, buf_bytes(&landing->owner), NULL);
}

bool land_rule_entry_table(const struct land_rule *rule, const struct land_entry *entry,
                           uint32_t *ret_table)
{
    struct buf *key = &rule->landing->owner;
    struct address address = entry->address;
    address.spec = rule->spec;
    buf_cut(key, 0);
    if (!address_key_add(&address, key))
        return false;
    *ret_table = address_table(rule->spec, buf_bytes(key));
    return true;
}

/* ---- the table of an app and a region ---- */

static bool pair_is_known(const struct land_rule *rule, struct bytes pair)
{
    for (const struct pair_known *known = rule->landing->pairs; known; known = known->next)
        if (known->rule == rule && bytes_eq(known->pair, pair))
            return true;
    return false;
}

static void pair_remember(const struct land_rule *rule, struct bytes pair)
{
    struct pair_known *known = mem_zalloc(sizeof *known);
    known->rule = rule;
    known->pair = bytes_of(mem_dup(pair.ptr, pair.len), pair.len);
    known->next = rule->landing->pairs;
    rule->landing->pairs = known;
}

/* A table belongs to the first pair that used it: refused at the write, not when it lands. Names
 * are folded: Game_eu and game_eu are one table for SQLite, and for MySQL on some systems. */
static enum rc pair_claim(const struct land_rule *rule, const struct run *run,
                          const struct address *address, bool *ret_known, struct err *err)
{
    uint8_t pair[PAIR_BYTES_MAX], field[PAIR_BYTES_MAX];
    size_t app = address->app.len, region = address->region.len, name = strlen(rule->spec->name);
    ASSERT(app + region + name + 2 <= PAIR_BYTES_MAX); /* address_of() bounds them */
    memcpy(pair, address->app.ptr, app);
    pair[app] = '&';
    memcpy(pair + app + 1, address->region.ptr, region);
    struct bytes wanted = bytes_of(pair, app + 1 + region), value;
    *ret_known = pair_is_known(rule, wanted);
    if (*ret_known)
        return RC_OK;
    memcpy(field, rule->spec->name, name);
    field[name] = '&';
    memcpy(field + name + 1, pair, wanted.len);
    field[name + 1 + app] = '_';
    sink_fold_name(field + name + 1, wanted.len);
    const struct bytes set[2] = {bytes_of(field, name + 1 + wanted.len), wanted};
    const struct run own = landing__rule_run(rule, run);
    enum rc rc = hash_get(&own, BYTES(LAND_TABLES_KEY), set[0], &value, err);
    if (rc == RC_NOT_FOUND)
        rc = hash_set(&own, BYTES(LAND_TABLES_KEY), set, 1, NULL, err);
    else if (rc == RC_OK && bytes_eq(value, wanted))
        pair_remember(rule, wanted); /* only what was read: a put may be taken back */
    else if (rc == RC_OK)
        rc = err_set(err, RC_INVALID, "the table %.*s belongs to the app and region %.*s",
                     (int)wanted.len, (const char *)field + name + 1, (int)value.len,
                     (const char *)value.ptr);
    return rc;
}

/* ---- marks ---- */

static bool memo_has(const struct owner_memo *memo, const struct ns *ns, struct bytes key)
{
    return memo->rule && memo->rule->ns == ns && bytes_eq(buf_bytes(&memo->key), key);
}

/* Where a key lives, remembered from the field before. */
static enum rc memo_get(struct land_rule *rule, struct bytes key, struct owner_memo **ret_memo,
                        struct err *err)
{
    struct owner_memo *memo = &rule->landing->memo;
    *ret_memo = memo;
    if (memo_has(memo, rule->ns, key))
        return RC_OK;
    memo->rule = NULL;
    memo->pair_is_known = rule->spec->shape != LAND_OBJECT;
    buf_cut(&memo->key, 0);
    if (!buf_add_bytes(&memo->key, key))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    enum rc rc = address_of(rule->spec, buf_bytes(&memo->key), &memo->address, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&memo->entry, 0);
    if (!address_entry_add(&memo->address, BYTES(""), &memo->entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    memo->owner_len = memo->entry.len;
    memo->table = address_table(rule->spec, key);
    memo->rule = rule;
    return RC_OK;
}

/* field empty: the owner. */
static enum rc mark(struct land_rule *rule, const struct run *run, struct bytes key,
                    struct bytes field, bool removed, struct err *err)
{
    struct landing *landing = rule->landing;
    struct owner_memo *memo;
    bool is_new;
    enum rc rc = memo_get(rule, key, &memo, err);
    if (rc == RC_OK && field.len > 0)
        rc = address_check_field(&memo->address, field, err);
    if (rc == RC_OK && !memo->pair_is_known)
        rc = pair_claim(rule, run, &memo->address, &memo->pair_is_known, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&memo->entry, memo->owner_len);
    if (!address_field_add(&memo->address, field, &memo->entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    struct dirty_table table = land_rule_table(rule, run, memo->table);
    verifies_marked(landing, rule, key);
    rc = dirty_mark(&table, buf_bytes(&memo->entry), removed, &is_new, err);
    if (rc == RC_OK && is_new) { /* hints: the commit may still be taken back */
        if (rule->marked_since_ms == 0)
            rule->marked_since_ms = run->now_ms;
        rule->marks++;
        lander_marked(rule->lander);
    }
    return rc;
}

enum rc land_mark(struct land_rule *rule, const struct run *run, struct bytes key,
                  struct bytes field, struct err *err)
{
    return mark(rule, run, key, field, false, err);
}

/* ---- the guard ---- */

static struct land_rule *rule_of(const struct key *key)
{
    return key->claim;
}

/* Whether the owner is marked: then what is here is all there is. `any`: or any of its fields. */
static enum rc owner_is_marked(const struct land_rule *rule, const struct key *key, bool any,
                               bool *ret_marked, struct err *err)
{
    struct landing *landing = rule->landing;
    struct address address;
    struct err ignored;
    struct dirty_table table =
        land_rule_table(rule, key->run, address_table(rule->spec, key->name));
    *ret_marked = false;
    if (address_of(rule->spec, key->name, &address, &ignored) != RC_OK)
        return RC_OK;
    buf_cut(&landing->owner, 0);
    if (!address_entry_add(&address, BYTES(""), &landing->owner))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    struct bytes owner = buf_bytes(&landing->owner);
    return any ? dirty_find_owner(&table, owner, ret_marked, err)
               : dirty_find(&table, owner, ret_marked, NULL, err);
}

/* A deadline is the end of the local copy. With marks it has to wait, and if the database is gone,
 * or may be: there may be no other copy. Otherwise it is as if nothing were here. A client that
 * reads finds out by its lift. One that writes a part, and a job, do not ask: to them the copy is
 * alive. Who saves or copies the key takes the deadline along: it must not be one that is over. */
static enum rc dead_look(struct land_rule *rule, struct key *key, enum key_need need,
                         struct err *err)
{
    bool marked;
    if (rule->spec->expire_delete)
        return RC_OK;
    enum rc rc = owner_is_marked(rule, key, true, &marked, err);
    if (rc != RC_OK)
        return rc;
    if (!marked && !land_rule_is_missing(rule)) {
        bool lifts = !(key->run->flags & RUN_NO_LIFT) && need != KEY_NEED_TO_WRITE;
        if (lifts || presence_since_deadline(rule, key->run, key->meta.expire_ms))
            return RC_OK;
        if (need == KEY_NEED_TO_SWEEP && presence_is_near(rule))
            return RC_WAIT;
    }
    key->dead = false;
    key->exists = true;
    key->meta.expire_ms = key->run->now_ms + KEY_OUTLIVE_MS;
    return RC_OK;
}

/* Landing's own keys can be read, but for the rules: their URLs may hold passwords, and LAND.RULE
 * LIST shows them without. */
static enum rc own_found(void *arg, struct key *key, enum key_need need, struct err *err)
{
    (void)arg, (void)need, (void)err;
    if (bytes_eq(key->name, BYTES(LAND_RULES_KEY)))
        key->exists = key->dead = false;
    return RC_OK;
}

static enum rc land_found(void *arg, struct key *key, enum key_need need, struct err *err)
{
    struct landing *landing = arg;
    bool whole = need == KEY_NEED_ALL;
    struct land_rule *rule = landing->memo.rule;
    if (!memo_has(&landing->memo, key->ns, key->name))
        rule = landing_rule_of(landing, key->ns, key->name);
    if (!rule)
        return RC_NOT_FOUND;
    key->claim = rule;
    key->is_copy = !rule->spec->expire_delete;
    enum rc rc = key->dead ? dead_look(rule, key, need, err) : RC_OK;
    key->whole = key->whole && key->exists; /* what is over is not complete: it is not here */
    bool is_here = key->exists && (key->whole || key->meta.type != TYPE_HASH);
    rule->hits += key->exists && (is_here || !whole); /* what is missing of it is counted there */
    if (rc != RC_OK || !whole || is_here || key->run->flags & RUN_NO_LIFT)
        return rc;
    if (key->dead && rule->spec->expire_delete)
        return RC_OK;
    bool marked;
    rc = owner_is_marked(rule, key, false, &marked, err);
    return rc == RC_OK && !marked ? lift_need(rule, key, NULL, err) : rc;
}

static enum rc land_missing(void *arg, const struct key *key, struct bytes field, struct err *err)
{
    struct landing *landing = arg;
    struct land_rule *rule = rule_of(key);
    struct address address;
    struct err ignored;
    bool marked;
    if (key->run->flags & RUN_NO_LIFT || (key->dead && rule->spec->expire_delete))
        return RC_NOT_FOUND;
    enum rc rc = owner_is_marked(rule, key, false, &marked, err);
    if (rc != RC_OK || marked)
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    if (address_of(rule->spec, key->name, &address, &ignored) != RC_OK)
        return RC_NOT_FOUND;
    buf_cut(&landing->entry, 0);
    if (!address_entry_add(&address, field, &landing->entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    struct dirty_table table =
        land_rule_table(rule, key->run, address_table(rule->spec, key->name));
    rc = dirty_find(&table, buf_bytes(&landing->entry), &marked, NULL, err);
    if (rc == RC_OK && !marked)
        rc = lift_need(rule, key, &field, err);
    return rc == RC_OK ? RC_NOT_FOUND : rc;
}

static enum rc land_change(void *arg, const struct key *key, const struct bytes *field,
                           enum guard_change change, struct err *err)
{
    struct landing *landing = arg;
    struct land_rule *rule = rule_of(key);
    bool removed = change != GUARD_SET;
    enum rc rc = RC_INVALID;
    if (change == GUARD_EXPIRED && !rule->spec->expire_delete) {
        lifts_forget_absence(landing); /* SQL may have it: it was here */
        lift_stale(landing, key->ns, key->name);
        return RC_OK;
    }
    if (field && field->len == 0) /* would be the owner's mark */
        rc = err_set(err, rc, "a field of a landed key has a name");
    else
        rc = mark(rule, key->run, key->name, field ? *field : BYTES(""), removed, err);
    return rc == RC_INVALID && removed ? RC_OK : rc; /* it has never landed: it may go */
}

static enum rc land_end(void *arg, const struct run *run, enum guard_end end, struct err *err)
{
    struct landing *landing = arg;
    bool swapped = end != GUARD_FLUSH;
    const struct ns *ns = run->ns;
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next) {
        if (rule->ns != ns)
            continue;
        if (swapped)
            return err_set(err, RC_INVALID,
                           "database %u has the landing rule %s: it stays where "
                           "it is",
                           ns->index, rule->spec->name);
        if (!rule->spec->flush_store_only)
            return err_set(err, RC_INVALID,
                           "database %u has the landing rule %s, which does not say "
                           "\"flush store-only\"",
                           ns->index, rule->spec->name);
        if (land_rule_is_missing(rule))
            return err_set(err, RC_INVALID,
                           "the database of the landing rule %s is missing: what is here may be "
                           "the only copy",
                           rule->spec->name);
    }
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next)
        if (swapped && ns->index == 0 && !rule->from_config)
            return err_set(err, RC_INVALID,
                           "database 0 keeps the landing rule %s: it stays where it is",
                           rule->spec->name);
    pairs_forget(landing, NULL);
    memo_forget(landing);
    lifts_forget_absence(landing);
    lifts_stale(landing, ns);
    return RC_OK;
}

/* Rules, and what is known of their databases, are not part of what FLUSHDB removes. */
static enum rc land_flushed(void *arg, const struct run *run, struct err *err)
{
    struct landing *landing = arg;
    const struct ns *ns = run->ns;
    enum rc rc = RC_OK;
    if (ns->index < landing->alone_count)
        landing->alone[ns->index] = 0;
    for (struct land_rule *rule = landing->rules; rc == RC_OK && rule; rule = rule->next) {
        if (!rule->from_config && ns->index == 0)
            rc = landing__rule_restore(rule, run, err);
        if (rc != RC_OK || rule->ns != ns)
            continue;
        rule->sink_is_noted = false;
        rc = landing__sink_note(rule, run, err);
    }
    return rc;
}

/* ---- people ---- */

void landing_kick(struct landing *landing, struct land_rule *rule, uint64_t lsn, uint64_t since_ns)
{
    for (struct land_rule *at = landing->rules; at; at = at->next)
        if (!rule || at == rule)
            lander_kick(at->lander, lsn, since_ns);
}

void land_rule_retry(struct land_rule *rule)
{
    lander_retry(rule->lander);
}

bool landing_is_through(const struct landing *landing, const struct land_rule *rule, uint64_t lsn,
                        uint64_t since_ns)
{
    for (struct land_rule *at = landing->rules; at; at = at->next)
        if ((!rule || at == rule) && !lander_is_through(at->lander, lsn, since_ns))
            return false;
    return true;
}

const char *land_rule_trouble(const struct land_rule *rule)
{
    return lander_trouble(rule->lander);
}

void land_rule_status(const struct land_rule *rule, struct land_status *ret_status)
{
    struct err why = {0};
    lander_status(rule->lander, ret_status);
    ret_status->missing = identity_is_lost(&rule->identity, &why);
    if (ret_status->missing)
        snprintf(ret_status->trouble, sizeof ret_status->trouble, "%s", why.text);
    ret_status->lifts = rule->lifts;
    ret_status->lifted_rows = rule->lifted_rows;
    ret_status->lift_failures = rule->lift_failures;
    ret_status->lift_ns = rule->lift_ns;
    ret_status->hits = rule->hits;
    ret_status->misses = rule->misses;
    ret_status->absences = rule->absences;
}

static enum rc part_count(const struct dirty_table *table, enum dirty_part part,
                          uint64_t *ret_count, struct err *err)
{
    struct key key;
    enum rc rc = dirty_open(table, part, &key, err);
    *ret_count = rc == RC_OK && key.exists ? key.meta.count : 0;
    return rc;
}

enum rc land_rule_backlog(const struct land_rule *rule, const struct run *run, uint32_t table,
                          uint64_t *ret_marked, uint64_t *ret_saving, uint64_t *ret_errors,
                          struct err *err)
{
    struct dirty_table at = land_rule_table(rule, run, table);
    enum rc rc = part_count(&at, DIRTY_MARKED, ret_marked, err);
    if (rc == RC_OK)
        rc = part_count(&at, DIRTY_SAVING, ret_saving, err);
    if (rc == RC_OK)
        rc = part_count(&at, DIRTY_ERROR, ret_errors, err);
    return rc;
}

enum rc land_evict(struct land_rule *rule, const struct run *run, struct bytes key,
                   uint64_t since_ns, bool *ret_dropped, struct err *err)
{
    const struct run own = landing__rule_run(rule, run);
    struct key found;
    struct err why = {0};
    bool marked;
    *ret_dropped = false;
    enum rc rc = landing__key_find(&own, key, &found, err);
    if (rc != RC_OK || !found.exists || found.meta.type != TYPE_HASH)
        return rc;
    if (rule->spec->expire_delete && found.meta.expire_ms != 0)
        return err_set(err, RC_BUSY, "the key has a deadline, which is known here only");
    if (land_rule_is_missing(rule))
        return err_set(err, RC_BUSY, "the database is missing: this may be the only copy");
    rc = owner_is_marked(rule, &found, true, &marked, err);
    if (rc == RC_OK && marked)
        return err_set(err, RC_BUSY, "the key has not landed yet");
    if (rc == RC_OK && land_rule_presence(rule, since_ns, &why) != RC_OK)
        return err_set(err, RC_REPLY, "LANDDOWN this may be the only copy: %s", why.text);
    if (rc == RC_OK)
        rc = key_remove(&found, err); /* found without a rule: nobody is told, SQL keeps it */
    lifts_forget_absence(rule->landing);
    lift_stale(rule->landing, rule->ns, key);
    *ret_dropped = rc == RC_OK;
    return rc;
}

/* ---- waiting ---- */

struct land_waiter {
    struct task *task;
    struct dlist *list; /* NULL: it is in none */
    struct dlink link;
};

static void waiter_end(struct land_waiter *waiter)
{
    if (waiter->list)
        dlist_remove(waiter->list, &waiter->link);
    waiter->list = NULL;
}

void land_waiter_free(void *waiter)
{
    if (waiter)
        waiter_end(waiter);
    mem_free(waiter);
}

void landing__waiter_add(struct dlist *list, void **to, struct task *task)
{
    struct land_waiter *waiter = *to ? *to : (*to = mem_zalloc(sizeof *waiter));
    waiter_end(waiter);
    waiter->task = task;
    waiter->list = list;
    dlist_add_first(list, &waiter->link);
}

void landing_wait_pass(struct landing *landing, void **waiter, struct task *task)
{
    landing__waiter_add(&landing->pass_waiters, waiter, task);
}

void landing__waiters_wake(struct dlist *list)
{
    while (list->first) {
        struct land_waiter *waiter = DLIST_ITEM(list->first, struct land_waiter, link);
        waiter_end(waiter);
        task_wake(waiter->task);
    }
}

/* ---- life ---- */

static char *dir_whole(const char *path)
{
    char whole[PATH_BYTES_MAX];
    struct err err;
    if (place_whole(path, whole, &err) != RC_OK) /* then nothing is in it */
        snprintf(whole, sizeof whole, "%s", path);
    return mem_dup(whole, strlen(whole) + 1);
}

struct landing *landing_new(const struct landing_options *options)
{
    static const char digits[] = "0123456789abcdef";
    struct landing *landing = mem_zalloc(sizeof *landing);
    landing->options = *options;
    landing->dir = dir_whole(options->dir);
    landing->land_dir = dir_whole(options->land_dir[0] ? options->land_dir : options->dir);
    landing->options.dir = landing->dir;
    landing->options.land_dir = landing->land_dir;
    landing->kv = options->kv;
    dirty_init(&landing->dirty, landing);
    buf_init(&landing->entry, STORE_SUFFIX_BYTES_MAX);
    buf_init(&landing->owner, STORE_SUFFIX_BYTES_MAX);
    buf_init(&landing->memo.key, KEY_BYTES_MAX);
    buf_init(&landing->memo.entry, STORE_SUFFIX_BYTES_MAX);
    rand_bytes(&options->kv->rand, landing->token, sizeof landing->token);
    for (size_t i = 0; i < sizeof landing->token; i++)
        landing->token[i] = (uint8_t)digits[landing->token[i] & 15];
    lifts_init(landing);
    landing->own_guard = (struct key_guard){.model = landing,
                                            .prefix = BYTES(LAND_OWN_PREFIX),
                                            .locked = "keys that begin with " LAND_OWN_PREFIX
                                                      " are landing's own: they can be read",
                                            .found = own_found};
    landing->guard = (struct key_guard){.model = landing,
                                        .found = land_found,
                                        .missing = land_missing,
                                        .change = land_change,
                                        .end = land_end,
                                        .flushed = land_flushed};
    return landing;
}

void landing_free(struct landing *landing)
{
    if (!landing)
        return;
    while (landing->rules)
        landing_rule_delete(landing->rules);
    leaving_free(landing, true);
    landing__waiters_wake(&landing->pass_waiters);
    counter_end(landing);
    lifts_done(landing);
    pairs_forget(landing, NULL);
    mem_free(landing->alone);
    mem_free(landing->dir);
    mem_free(landing->land_dir);
    buf_done(&landing->entry);
    buf_done(&landing->owner);
    buf_done(&landing->memo.key);
    buf_done(&landing->memo.entry);
    mem_free(landing);
}

void landing_turn(struct landing *landing)
{
    lifts_start(landing);
    leaving_free(landing, false);
}
