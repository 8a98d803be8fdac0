#include "landing/landing.h"

#include "base/log.h"
#include "base/mem.h"
#include "landing/landing_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum { PAIR_BYTES_MAX = 1024 };

/* ---- jobs ---- */

void landing__enter(struct landing *landing)
{
    kv_begin(landing->kv, clock_unix_ms(landing->options.clock));
    landing->lifting = false;
    if (landing->options.enter)
        landing->options.enter(landing->options.arg);
}

enum rc landing__leave(struct landing *landing, enum rc rc)
{
    landing->lifting = true;
    if (landing->options.leave)
        landing->options.leave(landing->options.arg, rc == RC_WAIT ? RC_OK : rc);
    return rc;
}

uint64_t landing__future_lsn(const struct landing *landing)
{
    enum { DAY_MS = 24 * 3600 * 1000 };
    uint64_t day_ahead = (clock_unix_ms(landing->options.clock) + DAY_MS) << 20;
    uint64_t last = store_last_lsn(landing->kv->store);
    return last > day_ahead ? last : day_ahead;
}

bool landing_lifting(struct landing *landing, bool lifting)
{
    bool before = landing->lifting;
    landing->lifting = lifting;
    return before;
}

enum rc landing__key_find(struct ns *ns, struct bytes name, struct key *ret_key, struct err *err)
{
    bool landed = dirty_hooks_off(ns);
    enum rc rc = key_write(ns, name, KEY_ANY, ret_key, err);
    ns->landed = landed;
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
    struct kv *kv = key->ns->kv;
    struct bytes name, value, first = rows->after;
    store_walk_init(&walk, kv->store, key_rows(key), false);
    enum rc rc = store_walk_seek(&walk, first, err);
    while (rc == RC_OK) {
        if (rows->looked >= LAND_STEP_FIELDS)
            return RC_WAIT;
        rc = store_walk_next(&walk, &name, &value, err);
        if (rc != RC_OK || (first.len > 0 && bytes_eq(name, first)))
            continue;
        rows->looked++;
        rows->after = arena_copy(&kv->arena, name);
        rc = fn(arg, rows->after, value, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- rules ---- */

struct land_rule *landing_rule_of(const struct landing *landing, const struct ns *ns,
                                  struct bytes key)
{
    if (landing__is_reserved(landing, key))
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

struct dirty_table land_rule_table(const struct land_rule *rule, uint32_t table)
{
    return (struct dirty_table){.dirty = &rule->landing->dirty, .ns = rule->ns, .number = table};
}

/* Database 0 holds the stored rules. */
static void landed_update(struct landing *landing)
{
    for (size_t i = 0; i < landing->kv->ns_count; i++)
        if (landing->kv->ns[i])
            landing->kv->ns[i]->landed = i == 0 && landing->rules;
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next)
        rule->ns->landed = true;
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

enum rc landing_rule_add(struct landing *landing, struct rule_spec *spec, bool from_config,
                         struct err *err)
{
    enum rc rc = landing__rule_check(landing, spec, err);
    if (rc != RC_OK) {
        rule_free(spec);
        return rc;
    }
    struct land_rule *rule = mem_zalloc(sizeof *rule);
    rule->landing = landing;
    rule->spec = spec;
    rule->ns = kv_ns(landing->kv, spec->db);
    rule->from_config = from_config;
    rc = worker_new(spec, &rule->lifter, err);
    if (rc == RC_OK)
        rc = lander_new(rule, &rule->lander, err);
    if (rc != RC_OK) {
        rule_destroy(rule);
        return rc;
    }
    struct land_rule **last = &landing->rules;
    while (*last)
        last = &(*last)->next;
    *last = rule;
    landed_update(landing);
    watch_start(landing);
    return RC_OK;
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
    lander_stop(rule->lander);
    worker_stop(rule->lifter);
    lifts_rule_gone(rule);
    verifies_rule_gone(rule);
    rule->next = landing->leaving;
    landing->leaving = rule;
    landed_update(landing);
    landing__waiters_wake(&landing->pass_waiters); /* some may have waited for this one */
}

/* ---- stored rules ---- */

enum rc landing_rule_store(struct landing *landing, const struct rule_spec *spec, struct err *err)
{
    struct ns *ns = kv_ns(landing->kv, 0);
    const struct bytes pair[2] = {bytes_of(spec->name, strlen(spec->name)), spec->text};
    bool landed = dirty_hooks_off(ns);
    enum rc rc = hash_set(ns, BYTES(LAND_RULES_KEY), pair, 1, NULL, err);
    ns->landed = landed;
    return rc;
}

enum rc landing_rule_unstore(struct landing *landing, struct bytes name, struct err *err)
{
    struct ns *ns = kv_ns(landing->kv, 0);
    bool landed = dirty_hooks_off(ns);
    enum rc rc = hash_delete(ns, BYTES(LAND_RULES_KEY), &name, 1, NULL, err);
    ns->landed = landed;
    return rc;
}

struct rules_job {
    struct task task;
    struct landing *landing;
    struct rule_spec **spec;
    size_t count;
    bool over;
    enum rc rc;
    struct err err;
};

static void specs_free(struct rules_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        rule_free(job->spec[i]);
    mem_free(job->spec);
    job->spec = NULL;
    job->count = 0;
}

static enum rc rules_run(struct task *task, struct store *store, struct err *err)
{
    struct rules_job *job = (struct rules_job *)task;
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes name, text;
    struct key key;
    specs_free(job);
    kv_begin(job->landing->kv, clock_unix_ms(job->landing->options.clock));
    enum rc rc = landing__key_find(kv_ns(job->landing->kv, 0), BYTES(LAND_RULES_KEY), &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    if (key.meta.type != TYPE_HASH) {
        if (!job->landing->rules) /* with rules it is refused: settle.c */
            log_warn("landing: " LAND_RULES_KEY " is no hash: there are no rules in it");
        return RC_OK;
    }
    store_walk_init(&walk, store, key_rows(&key), false);
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

static void rules_done(struct task *task, enum rc rc, const struct err *err)
{
    struct rules_job *job = (struct rules_job *)task;
    job->over = true;
    job->rc = rc;
    job->err = *err;
}

enum rc landing_rules_load(struct landing *landing, struct err *err)
{
    struct rules_job job = {.landing = landing};
    job.task.run = rules_run;
    job.task.done = rules_done;
    task_start(landing->options.tasks, &job.task);
    while (!job.over)
        tasks_turn(landing->options.tasks);
    enum rc rc = job.rc;
    if (rc != RC_OK)
        *err = job.err;
    for (size_t i = 0; rc == RC_OK && i < job.count; i++) {
        struct rule_spec *spec = job.spec[i];
        job.spec[i] = NULL;
        if (landing_rule(landing, bytes_of(spec->name, strlen(spec->name)))) {
            log_warn("landing: rule %s is in the config file and in the store; the file counts",
                     spec->name);
            rule_free(spec);
            continue;
        }
        rc = landing_rule_add(landing, spec, false, err);
    }
    specs_free(&job);
    return rc == RC_OK ? landing__settle(landing, err) : rc;
}

/* ---- entries ---- */

bool land_rule_has_entry(const struct land_rule *rule, struct bytes entry,
                         struct land_entry *ret_entry)
{
    struct landing *landing = rule->landing;
    struct err err;
    struct bytes name = bytes_of(rule->spec->name, strlen(rule->spec->name));
    if (entry_parse(entry, &landing->kv->arena, ret_entry, &err) != RC_OK ||
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
static enum rc pair_claim(const struct land_rule *rule, const struct address *address,
                          bool *ret_known, struct err *err)
{
    struct ns *ns = rule->ns;
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
    bool landed = dirty_hooks_off(ns);
    enum rc rc = hash_get(ns, BYTES(LAND_TABLES_KEY), set[0], &value, err);
    if (rc == RC_NOT_FOUND)
        rc = hash_set(ns, BYTES(LAND_TABLES_KEY), set, 1, NULL, err);
    else if (rc == RC_OK && bytes_eq(value, wanted))
        pair_remember(rule, wanted); /* only what was read: a put may be taken back */
    else if (rc == RC_OK)
        rc = err_set(err, RC_INVALID, "the table %.*s belongs to the app and region %.*s",
                     (int)wanted.len, (const char *)field + name + 1, (int)value.len,
                     (const char *)value.ptr);
    ns->landed = landed;
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
static enum rc mark(struct land_rule *rule, struct bytes key, struct bytes field, bool removed,
                    struct err *err)
{
    struct landing *landing = rule->landing;
    struct owner_memo *memo;
    bool is_new;
    enum rc rc = memo_get(rule, key, &memo, err);
    if (rc == RC_OK && field.len > 0)
        rc = address_check_field(&memo->address, field, err);
    if (rc == RC_OK && !memo->pair_is_known)
        rc = pair_claim(rule, &memo->address, &memo->pair_is_known, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&memo->entry, memo->owner_len);
    if (!address_field_add(&memo->address, field, &memo->entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    struct dirty_table table = land_rule_table(rule, memo->table);
    verifies_marked(landing, rule, key);
    rc = dirty_mark(&table, buf_bytes(&memo->entry), removed, &is_new, err);
    if (rc == RC_OK && is_new) { /* hints: the commit may still be taken back */
        if (rule->marked_since_ms == 0)
            rule->marked_since_ms = landing->kv->now_ms;
        rule->marks++;
        lander_marked(rule->lander);
    }
    return rc;
}

enum rc land_mark(struct land_rule *rule, struct bytes key, struct bytes field, struct err *err)
{
    return mark(rule, key, field, false, err);
}

/* ---- hooks ---- */

static struct land_rule *rule_of(const struct key *key)
{
    return (struct land_rule *)key->rule;
}

/* Whether the owner is marked: then what is here is all there is. `any`: or any of its fields. */
static enum rc owner_is_marked(const struct land_rule *rule, const struct key *key, bool any,
                               bool *ret_marked, struct err *err)
{
    struct landing *landing = rule->landing;
    struct address address;
    struct err ignored;
    struct dirty_table table = land_rule_table(rule, address_table(rule->spec, key->name));
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

/* A deadline is the end of the local copy. With marks it has to wait; without, it is as if nothing
 * were here. Who saves or copies the key takes the deadline along: it must not be one that is over.
 */
static enum rc dead_look(const struct land_rule *rule, struct key *key, struct err *err)
{
    bool marked;
    if (rule->spec->expire_delete)
        return RC_OK;
    enum rc rc = owner_is_marked(rule, key, true, &marked, err);
    if (rc == RC_OK && marked) {
        key->dead = false;
        key->exists = true;
        key->meta.expire_ms = key->ns->kv->now_ms + KEY_OUTLIVE_MS;
    }
    return rc;
}

/* Landing's own keys can be read, but for the rules: their URLs may hold passwords, and LAND.RULE
 * LIST shows them without. */
static enum rc own_found(struct key *key)
{
    key->locked = "keys that begin with " LAND_OWN_PREFIX " are landing's own: they can be read";
    if (bytes_eq(key->name, BYTES(LAND_RULES_KEY)))
        key->exists = key->dead = false;
    return RC_OK;
}

static enum rc hook_found(void *arg, struct key *key, bool whole, struct err *err)
{
    struct landing *landing = arg;
    struct land_rule *rule = landing->memo.rule;
    if (!memo_has(&landing->memo, key->ns, key->name)) {
        if (landing__is_own(key->name))
            return own_found(key);
        rule = landing_rule_of(landing, key->ns, key->name);
    }
    if (!rule)
        return RC_OK;
    key->rule = rule;
    key->is_copy = !rule->spec->expire_delete;
    enum rc rc = key->dead ? dead_look(rule, key, err) : RC_OK;
    key->whole = key->whole && key->exists; /* what is over is not complete: it is not here */
    bool is_here = key->exists && (key->whole || key->meta.type != TYPE_HASH);
    rule->hits += key->exists && (is_here || !whole); /* what is missing of it is counted there */
    if (rc != RC_OK || !whole || is_here || !landing->lifting)
        return rc;
    if (key->dead && rule->spec->expire_delete)
        return RC_OK;
    bool marked;
    rc = owner_is_marked(rule, key, false, &marked, err);
    return rc == RC_OK && !marked ? lift_need(rule, key, NULL, err) : rc;
}

static enum rc hook_field_missing(void *arg, const struct key *key, struct bytes field,
                                  struct err *err)
{
    struct landing *landing = arg;
    struct land_rule *rule = rule_of(key);
    struct address address;
    struct err ignored;
    bool marked;
    if (!landing->lifting || (key->dead && rule->spec->expire_delete))
        return RC_NOT_FOUND;
    enum rc rc = owner_is_marked(rule, key, false, &marked, err);
    if (rc != RC_OK || marked)
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    if (address_of(rule->spec, key->name, &address, &ignored) != RC_OK)
        return RC_NOT_FOUND;
    buf_cut(&landing->entry, 0);
    if (!address_entry_add(&address, field, &landing->entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    struct dirty_table table = land_rule_table(rule, address_table(rule->spec, key->name));
    rc = dirty_find(&table, buf_bytes(&landing->entry), &marked, NULL, err);
    if (rc == RC_OK && !marked)
        rc = lift_need(rule, key, &field, err);
    return rc == RC_OK ? RC_NOT_FOUND : rc;
}

static enum rc hook_field_change(void *arg, const struct key *key, struct bytes field, bool removed,
                                 struct err *err)
{
    struct land_rule *rule = rule_of(key);
    (void)arg;
    enum rc rc = RC_INVALID;
    if (field.len == 0) /* would be the owner's mark */
        rc = err_set(err, rc, "a field of a landed key has a name");
    else
        rc = mark(rule, key->name, field, removed, err);
    return rc == RC_INVALID && removed ? RC_OK : rc; /* it has never landed: it may go */
}

static enum rc hook_key_change(void *arg, const struct key *key, bool removed, bool expired,
                               struct err *err)
{
    struct landing *landing = arg;
    struct land_rule *rule = rule_of(key);
    if (expired && !rule->spec->expire_delete) {
        lifts_forget_absence(landing); /* SQL may have it: it was here */
        lift_stale(landing, key->ns, key->name);
        return RC_OK;
    }
    enum rc rc = mark(rule, key->name, BYTES(""), removed, err);
    return rc == RC_INVALID && removed ? RC_OK : rc; /* it has never landed: it may go */
}

static enum rc hook_flush(void *arg, const struct ns *ns, bool swapped, struct err *err)
{
    struct landing *landing = arg;
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

/* Rules are not part of what FLUSHDB removes. */
static enum rc hook_flushed(void *arg, const struct ns *ns, struct err *err)
{
    struct landing *landing = arg;
    enum rc rc = RC_OK;
    if (ns->index < landing->alone_count)
        landing->alone[ns->index] = 0;
    if (ns->index != 0)
        return rc;
    for (struct land_rule *rule = landing->rules; rc == RC_OK && rule; rule = rule->next)
        if (!rule->from_config)
            rc = landing_rule_store(landing, rule->spec, err);
    return rc;
}

/* ---- people ---- */

void landing_kick(struct landing *landing, struct land_rule *rule, uint64_t lsn)
{
    for (struct land_rule *at = landing->rules; at; at = at->next)
        if (!rule || at == rule)
            lander_kick(at->lander, lsn);
}

void land_rule_retry(struct land_rule *rule)
{
    lander_retry(rule->lander);
}

bool landing_is_through(const struct landing *landing, const struct land_rule *rule, uint64_t lsn)
{
    for (struct land_rule *at = landing->rules; at; at = at->next)
        if ((!rule || at == rule) && !lander_is_through(at->lander, lsn))
            return false;
    return true;
}

const char *land_rule_trouble(const struct land_rule *rule)
{
    return lander_trouble(rule->lander);
}

void land_rule_status(const struct land_rule *rule, struct land_status *ret_status)
{
    lander_status(rule->lander, ret_status);
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

enum rc land_rule_backlog(const struct land_rule *rule, uint32_t table, uint64_t *ret_marked,
                          uint64_t *ret_saving, uint64_t *ret_errors, struct err *err)
{
    struct dirty_table at = land_rule_table(rule, table);
    enum rc rc = part_count(&at, DIRTY_MARKED, ret_marked, err);
    if (rc == RC_OK)
        rc = part_count(&at, DIRTY_SAVING, ret_saving, err);
    if (rc == RC_OK)
        rc = part_count(&at, DIRTY_ERROR, ret_errors, err);
    return rc;
}

enum rc land_evict(struct land_rule *rule, struct bytes key, bool *ret_dropped, struct err *err)
{
    struct key found;
    bool marked;
    *ret_dropped = false;
    enum rc rc = landing__key_find(rule->ns, key, &found, err);
    if (rc != RC_OK || !found.exists || found.meta.type != TYPE_HASH)
        return rc;
    if (rule->spec->expire_delete && found.meta.expire_ms != 0)
        return err_set(err, RC_BUSY, "the key has a deadline, which is known here only");
    rc = owner_is_marked(rule, &found, true, &marked, err);
    if (rc == RC_OK && marked)
        return err_set(err, RC_BUSY, "the key has not landed yet");
    if (rc == RC_OK)
        rc = key_remove(&found, err); /* found without a rule: nobody is told, SQL keeps it */
    lifts_forget_absence(rule->landing);
    lift_stale(rule->landing, rule->ns, key);
    *ret_dropped = rc == RC_OK;
    return rc;
}

/* ---- waiting ---- */

void landing_run_begin(struct landing *landing, const struct land_waiter *waiter)
{
    landing->wanted = NULL;
    landing->since_ms = waiter->since_ms;
}

void landing_run_end(struct landing *landing)
{
    landing->since_ms = 0;
}

void land_waiter_end(struct land_waiter *waiter)
{
    if (!waiter->list)
        return;
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        *waiter->list = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    *waiter = (struct land_waiter){.since_ms = waiter->since_ms};
}

void landing__waiter_add(struct land_waiter **list, struct land_waiter *waiter, struct task *task)
{
    land_waiter_end(waiter);
    *waiter = (struct land_waiter){
        .task = task, .since_ms = waiter->since_ms, .list = list, .next = *list};
    if (*list)
        (*list)->prev = waiter;
    *list = waiter;
}

void landing_wait_pass(struct landing *landing, struct land_waiter *waiter, struct task *task)
{
    landing__waiter_add(&landing->pass_waiters, waiter, task);
}

void landing__waiters_wake(struct land_waiter **list)
{
    while (*list) {
        struct land_waiter *waiter = *list;
        struct task *task = waiter->task;
        land_waiter_end(waiter);
        task_wake(task);
    }
}

/* ---- life ---- */

struct landing *landing_new(const struct landing_options *options)
{
    static const char digits[] = "0123456789abcdef";
    struct landing *landing = mem_zalloc(sizeof *landing);
    landing->options = *options;
    landing->kv = options->kv;
    landing->lifting = true;
    dirty_init(&landing->dirty);
    buf_init(&landing->entry, STORE_SUFFIX_BYTES_MAX);
    buf_init(&landing->owner, STORE_SUFFIX_BYTES_MAX);
    buf_init(&landing->memo.key, KEY_BYTES_MAX);
    buf_init(&landing->memo.entry, STORE_SUFFIX_BYTES_MAX);
    rand_bytes(&options->kv->rand, landing->token, sizeof landing->token);
    for (size_t i = 0; i < sizeof landing->token; i++)
        landing->token[i] = (uint8_t)digits[landing->token[i] & 15];
    lifts_init(landing);
    options->kv->land = (struct land_hooks){.found = hook_found,
                                            .field_missing = hook_field_missing,
                                            .field_change = hook_field_change,
                                            .key_change = hook_key_change,
                                            .flush = hook_flush,
                                            .flushed = hook_flushed,
                                            .arg = landing};
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
    watch_end(landing);
    lifts_done(landing);
    pairs_forget(landing, NULL);
    mem_free(landing->alone);
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
