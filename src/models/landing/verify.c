// SPDX-License-Identifier: Apache-2.0
/* verify.c - LAND.VERIFY: what is here is compared with what SQL has, a page of keys at a time.
 *
 *   SCAN ──► READ ──► ASK ──► COMPARE ──► SCAN or, within a page of many fields, READ
 *
 * READ keeps two hashes a field, of its name and of its value, no bytes. ASK streams the rows of
 * all owners of the window past them, on the lifter's thread. Only where something differs COMPARE
 * looks at the hash again, field by field, for names and to mark. Every arrow is a commit of its
 * own, and a step looks at LAND_STEP_FIELDS fields at most.
 *
 * Invariants:
 *   (1) What is compared had no mark when it was read. A mark that comes later makes its owner
 *       stale (verifies_marked()), and it is skipped: SQL may have either value.
 *   (2) Only a hash that was whole before its first field was read, and is the same object after
 *       the last, is asked for what SQL has besides: from an incomplete one that would be a guess,
 *       and REPAIR would delete by it.
 *   (3) A verify lives while its job, its command or a deleted rule holds it; work that a thread
 *       has ends before its job does, or before the rule is freed. */
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "models/landing/keys_page.h"
#include "models/landing/landing_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    WINDOW_FIELDS_MAX = 65536, /* then SQL is asked, unless one owner alone has more */
    REPORTED_SLOTS = 1 << 16,  /* keys that were reported, so that they are once */
};

enum verify_state { VERIFY_SCAN, VERIFY_READ, VERIFY_ASK, VERIFY_COMPARE };
enum found { FOUND_NOT, FOUND_EQUAL, FOUND_OTHER }; /* in SQL */

struct verify_field {
    uint64_t name, value; /* XXH64 */
    enum found found;
};

struct verify_owner {
    struct bytes key;
    struct address address;
    uint8_t id[KEY_ID_BYTES];
    size_t from, count; /* its fields */
    bool begun, gone, whole;
    bool asked;         /* SQL is: it was not stale then */
    bool stale;         /* (1), or it cannot be compared */
    bool of_the_future; /* SQL has a version that ours can never pass */
    uint64_t different, missing, extra;
};

struct verify_extra {
    size_t owner;
    struct bytes field;
};

struct land_verify {
    struct task task;
    struct work work;
    struct land_rule *rule; /* NULL: it is over */
    struct land_verify *next;
    unsigned refs;
    bool repair, abandoned, marking;
    struct dlist waiters; /* of struct land_waiter */
    enum verify_state state;
    struct keys_page page;
    size_t page_at; /* the key of the page that is next */
    /* the window: owners of the page that were read, and are asked for at once */
    struct verify_owner *owner;
    size_t owner_count, owner_cap;
    struct verify_field *field;
    size_t field_count, field_cap;
    struct buf after; /* READ, COMPARE: the last field of the owner that was looked at */
    size_t at;        /* which owner is read, or compared */
    bool differs;     /* COMPARE: it is reported, and looked at field by field */
    bool raised, working;
    /* ASK: the thread's while it works */
    struct verify_extra extra[LAND_VERIFY_EXAMPLES];
    size_t extra_count, extra_max;
    struct arena extra_arena;
    uint64_t newest, future_lsn;
    enum rc work_rc;
    struct err work_err;
    /* results */
    uint64_t *reported;
    struct land_verify_result result;
};

static uint64_t hash_of(struct bytes bytes)
{
    return bytes.len > 0 && bytes.ptr ? XXH64(bytes.ptr, bytes.len, 0) : 0;
}

/* ---- life ---- */

static void verify_unref(struct land_verify *verify)
{
    if (--verify->refs > 0)
        return;
    for (size_t i = 0; i < verify->result.example_count; i++) {
        mem_free((void *)verify->result.example[i].key.ptr);
        mem_free((void *)verify->result.example[i].field.ptr);
    }
    keys_page_done(&verify->page);
    arena_done(&verify->extra_arena);
    buf_done(&verify->after);
    mem_free(verify->owner);
    mem_free(verify->field);
    mem_free(verify->reported);
    mem_free(verify);
}

static void verify_over(struct land_verify *verify, enum rc rc, const struct err *err)
{
    struct land_verify **at = &verify->rule->landing->verifies;
    while (*at != verify)
        at = &(*at)->next;
    *at = verify->next;
    verify->rule = NULL;
    verify->result.rc = rc;
    verify->result.err = *err;
    verify->result.over = true;
    landing__waiters_wake(&verify->waiters);
    verify_unref(verify);
}

/* (3): what its thread may have is the rule's until that has ended. */
void verifies_rule_gone(struct land_rule *rule)
{
    struct err err;
    (void)err_set(&err, RC_INVALID, "the rule was deleted");
    for (struct land_verify *verify = rule->landing->verifies, *next; verify; verify = next) {
        next = verify->next;
        if (verify->rule != rule)
            continue;
        task_cancel(&verify->task);
        verify->refs++;
        verify_over(verify, RC_INVALID, &err);
        verify->next = rule->left_verifies;
        rule->left_verifies = verify;
    }
}

void verifies_rule_free(struct land_rule *rule)
{
    while (rule->left_verifies) {
        struct land_verify *verify = rule->left_verifies;
        rule->left_verifies = verify->next;
        verify_unref(verify);
    }
}

void land_verify_end(void *arg)
{
    struct land_verify *verify = arg;
    verify->abandoned = true; /* (3): the job ends at its next step */
    verify_unref(verify);
}

const struct land_verify_result *land_verify_result(const struct land_verify *verify)
{
    return &verify->result;
}

void land_verify_wait(struct land_verify *verify, void **waiter, struct task *task)
{
    landing__waiter_add(&verify->waiters, waiter, task);
}

/* (1) */
void verifies_marked(struct landing *landing, const struct land_rule *rule, struct bytes key)
{
    for (struct land_verify *verify = landing->verifies; verify; verify = verify->next) {
        if (verify->rule != rule || verify->marking)
            continue;
        for (size_t i = 0; i < verify->owner_count; i++)
            if (bytes_eq(verify->owner[i].key, key))
                verify->owner[i].stale = true;
    }
}

/* ---- reading ---- */

static void window_clear(struct land_verify *verify)
{
    verify->owner_count = verify->field_count = 0;
    verify->extra_count = 0;
    verify->newest = 0;
    verify->at = 0;
    verify->raised = verify->differs = false;
    arena_clear(&verify->extra_arena);
    buf_cut(&verify->after, 0);
}

static struct verify_owner *owner_new(struct land_verify *verify, struct bytes key)
{
    if (verify->owner_count == verify->owner_cap) {
        verify->owner_cap = verify->owner_cap ? 2 * verify->owner_cap : 64;
        verify->owner = mem_realloc(verify->owner, verify->owner_cap * sizeof *verify->owner);
    }
    struct verify_owner *owner = &verify->owner[verify->owner_count++];
    *owner = (struct verify_owner){.key = key, .from = verify->field_count};
    return owner;
}

static void field_add(struct land_verify *verify, struct bytes name, struct bytes value)
{
    if (verify->field_count == verify->field_cap) {
        verify->field_cap = verify->field_cap ? 2 * verify->field_cap : 1024;
        verify->field = mem_realloc(verify->field, verify->field_cap * sizeof *verify->field);
    }
    verify->field[verify->field_count++] =
        (struct verify_field){.name = hash_of(name), .value = hash_of(value)};
}

/* Whether the key is the hash it was. At the first look what is to be known of it. */
static enum rc owner_look(const struct land_rule *rule, const struct run *run,
                          struct verify_owner *owner, struct key *ret_key, struct err *err)
{
    struct dirty_table table = land_rule_table(rule, run, address_table(rule->spec, owner->key));
    struct buf *entry = &rule->landing->owner;
    struct err ignored;
    bool marked;
    enum rc rc = landing__key_find(run, owner->key, ret_key, err);
    if (rc != RC_OK || owner->stale)
        return rc;
    uint64_t expire_ms = ret_key->meta.expire_ms;
    bool exists = ret_key->exists && (expire_ms == 0 || expire_ms > run->now_ms);
    if (owner->begun) {
        owner->stale = !exists || memcmp(owner->id, ret_key->meta.id, KEY_ID_BYTES) != 0; /* (2) */
        return RC_OK;
    }
    owner->gone = !exists;
    owner->stale = !exists || ret_key->meta.type != TYPE_HASH ||
                   address_of(rule->spec, owner->key, &owner->address, &ignored) != RC_OK;
    if (owner->stale)
        return RC_OK;
    buf_cut(entry, 0);
    if (!address_entry_add(&owner->address, BYTES(""), entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    rc = dirty_find_owner(&table, buf_bytes(entry), &marked, err);
    if (rc != RC_OK)
        return rc;
    owner->stale = marked;
    owner->whole = ret_key->whole;
    memcpy(owner->id, ret_key->meta.id, KEY_ID_BYTES);
    return RC_OK;
}

struct differ {
    struct bytes name;
    enum found found;
};

struct walk_step { /* over fields of an owner, behind `after` */
    struct land_verify *verify;
    const struct run *run;
    struct verify_owner *owner;
    struct land_rows rows;
    struct differ differ[LAND_STEP_FIELDS]; /* COMPARE: noted when the commit is to stay */
    size_t differ_count;
    uint64_t repaired;
};

static enum rc field_read(void *arg, struct bytes name, struct bytes value, struct err *err)
{
    struct walk_step *step = arg;
    (void)err;
    field_add(step->verify, name, value);
    return RC_OK;
}

/* RC_OK: the owner is read, or left out. */
static enum rc owner_read(struct walk_step *step, struct err *err)
{
    struct land_verify *verify = step->verify;
    struct verify_owner *owner = step->owner;
    struct key key;
    step->rows.looked++;
    enum rc rc = owner_look(verify->rule, step->run, owner, &key, err);
    owner->begun = owner->begun || rc == RC_OK;
    if (rc == RC_OK && !owner->stale)
        rc = landing__rows_walk(&step->rows, &key, field_read, step, err);
    if (owner->stale)
        verify->field_count = owner->from;
    owner->count = verify->field_count - owner->from;
    return rc;
}

/* The owners of the page that are next; one that was begun is read to its end, or the window would
 * begin with it again for ever. Nothing is written, so what was read stays read if a field
 * behind it is cold. */
static enum rc step_read(struct land_verify *verify, const struct run *run, struct err *err)
{
    struct walk_step step = {.verify = verify, .run = run};
    enum rc rc = RC_OK;
    step.rows.after = arena_copy(run->arena, buf_bytes(&verify->after));
    while (rc == RC_OK && verify->page_at < verify->page.count &&
           (verify->at < verify->owner_count || verify->field_count < WINDOW_FIELDS_MAX)) {
        if (verify->at == verify->owner_count)
            owner_new(verify, verify->page.name[verify->page_at]);
        step.owner = &verify->owner[verify->at];
        rc = step.rows.looked >= LAND_STEP_FIELDS ? RC_WAIT : owner_read(&step, err);
        if (rc == RC_OK) {
            step.rows.after = BYTES("");
            verify->page_at++;
            verify->at++;
        }
    }
    buf_cut(&verify->after, 0);
    if (!buf_add_bytes(&verify->after, step.rows.after))
        return err_set(err, RC_NOMEM, "could not allocate memory for a field's name");
    if (rc == RC_OK)
        verify->state = VERIFY_ASK;
    return rc == RC_OK ? RC_WAIT : rc;
}

/* ---- asking: on the lifter's thread ---- */

static int field_order(const void *one, const void *other)
{
    const struct verify_field *a = one, *b = other;
    return (a->name > b->name) - (a->name < b->name);
}

static struct verify_field *field_find(const struct land_verify *verify,
                                       const struct verify_owner *owner, struct bytes name)
{
    struct verify_field wanted = {.name = hash_of(name)};
    return owner->count == 0 ? NULL
                             : bsearch(&wanted, verify->field + owner->from, owner->count,
                                       sizeof wanted, field_order);
}

struct ask {
    struct land_verify *verify;
    size_t *owner; /* which of the window, by their place in the question */
};

static enum rc row_meet(void *arg, size_t index, const struct lift_row *row, struct err *err)
{
    const struct ask *ask = arg;
    struct land_verify *verify = ask->verify;
    struct verify_owner *owner = &verify->owner[ask->owner[index]];
    struct verify_field *field = field_find(verify, owner, row->field);
    (void)err;
    if (row->version > verify->future_lsn)
        owner->of_the_future = true;
    else if (row->version > verify->newest)
        verify->newest = row->version;
    if (field) {
        bool equal = field->value == hash_of(row->value);
        field->found = equal ? FOUND_EQUAL : FOUND_OTHER;
    } else if (owner->whole) {
        owner->extra++;
        if (verify->extra_count < verify->extra_max)
            verify->extra[verify->extra_count++] = (struct verify_extra){
                ask->owner[index], arena_copy(&verify->extra_arena, row->field)};
    }
    return RC_OK;
}

/* The executor may set `stale` meanwhile: it is not looked at here. */
static void work_ask(struct work *work, struct shape_db *db)
{
    struct land_verify *verify =
        (struct land_verify *)((char *)work - offsetof(struct land_verify, work));
    size_t count = 0;
    struct ask ask = {.verify = verify,
                      .owner = mem_alloc((verify->owner_count + 1) * sizeof *ask.owner)};
    const struct address **address = mem_alloc((verify->owner_count + 1) * sizeof *address);
    for (size_t i = 0; i < verify->owner_count; i++) {
        struct verify_owner *owner = &verify->owner[i];
        if (!owner->asked)
            continue;
        if (owner->count > 1)
            qsort(verify->field + owner->from, owner->count, sizeof *verify->field, field_order);
        ask.owner[count] = i;
        address[count++] = &owner->address;
    }
    verify->work_err.text[0] = 0;
    verify->work_rc = shape_lift_many(db, address, count, row_meet, &ask, &verify->work_err);
    mem_free(address);
    mem_free(ask.owner);
}

static enum rc step_ask(struct land_verify *verify)
{
    struct land_rule *rule = verify->rule;
    size_t asked = 0;
    for (size_t i = 0; i < verify->owner_count; i++)
        asked += verify->owner[i].asked = !verify->owner[i].stale;
    verify->at = 0;
    buf_cut(&verify->after, 0);
    verify->state = VERIFY_COMPARE;
    verify->work_rc = RC_OK;
    if (asked == 0)
        return RC_WAIT;
    verify->extra_max = LAND_VERIFY_EXAMPLES - verify->result.example_count;
    verify->future_lsn = landing__future_lsn(rule->landing);
    verify->work.run = work_ask;
    verify->work.task = &verify->task;
    verify->working = true;
    worker_give(rule->lifter, &verify->work);
    task_wait_event(&verify->task);
    return RC_WAIT;
}

/* ---- comparing ---- */

static void example_add(struct land_verify *verify, struct bytes key, struct bytes field,
                        const char *what)
{
    struct land_verify_result *result = &verify->result;
    if (result->example_count == LAND_VERIFY_EXAMPLES)
        return;
    result->example[result->example_count++] =
        (struct land_verify_example){.key = bytes_of(mem_dup(key.ptr, key.len), key.len),
                                     .field = bytes_of(mem_dup(field.ptr, field.len), field.len),
                                     .what = what};
}

/* A key that is in memory and in the engine is met twice, and is reported once: as far as the slots
 * go, which forget the older of two. */
static bool is_reported(struct land_verify *verify, struct bytes key)
{
    uint64_t hash = hash_of(key);
    if (!verify->reported)
        verify->reported = mem_zalloc(REPORTED_SLOTS * sizeof *verify->reported);
    uint64_t *slot = &verify->reported[hash % REPORTED_SLOTS];
    bool is = *slot == hash;
    *slot = hash;
    return is;
}

static bool owner_differs(const struct land_verify *verify, struct verify_owner *owner)
{
    owner->different = owner->missing = 0;
    for (size_t i = owner->from; !owner->stale && i < owner->from + owner->count; i++) {
        owner->different += verify->field[i].found == FOUND_OTHER;
        owner->missing += verify->field[i].found == FOUND_NOT;
    }
    return !owner->stale && owner->different + owner->missing + owner->extra > 0;
}

static void owner_checked(struct land_verify *verify, const struct verify_owner *owner)
{
    if (owner->stale) {
        verify->result.skipped += !owner->gone;
        return;
    }
    verify->result.checked_keys++;
    verify->result.checked_fields += owner->count;
}

/* False: it was reported before. */
static bool owner_report(struct land_verify *verify, const struct verify_owner *owner)
{
    struct land_verify_result *result = &verify->result;
    owner_checked(verify, owner);
    if (is_reported(verify, owner->key))
        return false;
    result->different += owner->different;
    result->missing += owner->missing;
    result->extra += owner->extra;
    for (size_t i = 0; i < verify->extra_count; i++)
        if (&verify->owner[verify->extra[i].owner] == owner)
            example_add(verify, owner->key, verify->extra[i].field, "extra in sql");
    return true;
}

static enum rc mark_again(const struct walk_step *step, struct bytes field, struct err *err)
{
    struct land_verify *verify = step->verify;
    verify->marking = true; /* it is not a change */
    enum rc rc = land_mark(verify->rule, step->run, step->owner->key, field, err);
    verify->marking = false;
    return rc;
}

static enum rc field_compare(void *arg, struct bytes name, struct bytes value, struct err *err)
{
    struct walk_step *step = arg;
    struct land_verify *verify = step->verify;
    struct verify_owner *owner = step->owner;
    const struct verify_field *field = field_find(verify, owner, name);
    (void)value;
    if (!field || field->found == FOUND_EQUAL)
        return RC_OK;
    if (verify->repair && !owner->of_the_future && owner->extra == 0) {
        enum rc rc = mark_again(step, name, err);
        if (rc != RC_OK && rc != RC_INVALID) /* invalid: it can never land, and stays reported */
            return rc;
        step->repaired += rc == RC_OK;
    }
    step->differ[step->differ_count++] = (struct differ){name, field->found};
    return RC_OK;
}

/* The names, for marks and for examples; an owner's mark needs none. */
static enum rc owner_repair(struct walk_step *step, const struct key *key, struct err *err)
{
    struct land_verify *verify = step->verify;
    const struct verify_owner *owner = step->owner;
    bool repairs = verify->repair && !owner->of_the_future;
    enum rc rc = RC_OK;
    if (repairs && owner->extra > 0 && verify->after.len == 0) { /* the first step */
        rc = mark_again(step, BYTES(""), err);
        step->repaired = owner->different + owner->missing + owner->extra;
    }
    bool marks = repairs && owner->extra == 0;
    if (rc == RC_OK && (marks || verify->result.example_count < LAND_VERIFY_EXAMPLES))
        rc = landing__rows_walk(&step->rows, key, field_compare, step, err);
    return rc;
}

/* A step over one owner that differs; RC_OK: it is done. */
static enum rc owner_compare(struct walk_step *step, struct err *err)
{
    struct land_verify *verify = step->verify;
    struct verify_owner *owner = step->owner;
    struct key key;
    enum rc rc = owner_look(verify->rule, step->run, owner, &key, err);
    if (rc != RC_OK)
        return rc;
    if (!verify->differs && owner->stale)
        owner_checked(verify, owner);
    if (owner->stale || (!verify->differs && !owner_report(verify, owner)))
        return RC_OK;
    verify->differs = true;
    rc = owner_repair(step, &key, err);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    verify->result.repaired += step->repaired;
    for (size_t i = 0; i < step->differ_count; i++)
        example_add(verify, owner->key, step->differ[i].name,
                    step->differ[i].found == FOUND_NOT ? "missing in sql" : "different");
    return rc;
}

/* A mark that SQL takes for older than what it has would never land. */
static bool lsn_is_low(struct land_verify *verify, const struct store *store)
{
    struct landing *landing = verify->rule->landing;
    if (!verify->repair || verify->raised || verify->newest < store_last_lsn(store))
        return false;
    if (verify->newest > landing->raise_lsn)
        landing->raise_lsn = verify->newest;
    verify->raised = true; /* once: more than trying is not possible */
    return true;
}

/* Owners up to the next one that differs, and a step over that. */
static enum rc step_compare(struct land_verify *verify, const struct run *run, struct err *err)
{
    struct walk_step step = {.verify = verify, .run = run};
    if (verify->work_rc != RC_OK)
        return err_set(err, RC_REPLY, "LANDDOWN rule %s cannot be asked: %s",
                       verify->rule->spec->name,
                       verify->work_err.text[0] ? verify->work_err.text : rc_text(verify->work_rc));
    if (lsn_is_low(verify, run->kv->store))
        return RC_WAIT;
    while (!verify->differs && verify->at < verify->owner_count &&
           !owner_differs(verify, &verify->owner[verify->at]))
        owner_checked(verify, &verify->owner[verify->at++]);
    if (verify->at < verify->owner_count) {
        step.owner = &verify->owner[verify->at];
        step.rows.after = arena_copy(run->arena, buf_bytes(&verify->after));
        enum rc rc = owner_compare(&step, err);
        if (rc != RC_OK && rc != RC_WAIT)
            return rc;
        buf_cut(&verify->after, 0);
        if (rc == RC_WAIT && !buf_add_bytes(&verify->after, step.rows.after))
            return err_set(err, RC_NOMEM, "could not allocate memory for a field's name");
        verify->differs = rc == RC_WAIT;
        verify->at += rc == RC_OK;
        return RC_WAIT;
    }
    bool more = verify->page_at < verify->page.count;
    window_clear(verify);
    verify->state = more ? VERIFY_READ : VERIFY_SCAN;
    return more || !verify->page.at_end ? RC_WAIT : RC_OK;
}

/* ---- the job ---- */

static enum rc step_scan(struct land_verify *verify, const struct run *run, struct err *err)
{
    enum rc rc = keys_page_next(&verify->page, run, verify->rule, err);
    verify->page_at = 0;
    if (rc != RC_OK)
        return rc;
    if (verify->page.count > 0)
        verify->state = VERIFY_READ;
    return verify->page.count > 0 || !verify->page.at_end ? RC_WAIT : RC_OK;
}

static enum rc step_do(struct land_verify *verify, const struct run *run, struct err *err)
{
    switch (verify->state) {
    case VERIFY_SCAN:
        return step_scan(verify, run, err);
    case VERIFY_READ:
        return step_read(verify, run, err);
    case VERIFY_ASK:
        return step_ask(verify);
    case VERIFY_COMPARE:
        return step_compare(verify, run, err);
    }
    return RC_OK;
}

static enum rc verify_run(struct task *task, struct store *store, struct err *err)
{
    struct land_verify *verify = (struct land_verify *)task;
    struct land_rule *rule = verify->rule;
    struct run run;
    (void)store;
    if (verify->working && !work_is_done(rule->lifter, &verify->work)) {
        task_wait_event(task);
        return RC_WAIT;
    }
    verify->working = false;
    if (verify->abandoned)
        return RC_OK;
    run_begin(&run, rule->landing->kv, rule->ns, RUN_NO_LIFT);
    run.model = rule->landing;
    return run_end(&run, step_do(verify, &run, err));
}

static void verify_done(struct task *task, enum rc rc, const struct err *err)
{
    verify_over((struct land_verify *)task, rc, err);
}

struct land_verify *land_verify_start(struct land_rule *rule, bool repair)
{
    struct landing *landing = rule->landing;
    struct land_verify *verify = mem_zalloc(sizeof *verify);
    verify->rule = rule;
    verify->repair = repair;
    verify->refs = 2; /* the job's and the caller's */
    keys_page_init(&verify->page);
    arena_init(&verify->extra_arena);
    buf_init(&verify->after, STORE_SUFFIX_BYTES_MAX);
    verify->task.run = verify_run;
    verify->task.done = verify_done;
    verify->task.flags = TASK_JOB | (repair ? TASK_WRITES : 0u);
    verify->next = landing->verifies;
    landing->verifies = verify;
    task_start(landing->options.tasks, &verify->task);
    return verify;
}
