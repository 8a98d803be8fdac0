// SPDX-License-Identifier: Apache-2.0
/* test_part.c - the model on rows that turn cold and bad under it. */
#include "models/partition/part.h"

#include <stdlib.h>

#include "base/codec.h"
#include "models/partition/idwalk.h"
#include "models/partition/part_int.h"
#include "store/testing.h"
#include "support/kv_fix.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/hash.h"
#include "types/string.h"

#include "base/banned.h"

enum { BATCH = 20 };

struct fix {
    struct kv_fix kv;
    struct part *part;
};

struct call {
    struct fix *fix;
    int64_t id, count;
    const char *worker;
    bool flag;
    bool said_none; /* no DURATION */
    char text[4096];
    struct part_census *census;
};

static void part_begin(struct fix *fix)
{
    fix->part = part_new(&(struct part_options){.kv = &fix->kv.kv,
                                                .clock = &fix->kv.clock,
                                                .limits = {.batch = BATCH,
                                                           .algorithm = PART_AUTO,
                                                           .simple_max = BATCH,
                                                           .cache_bytes = 1 << 20,
                                                           .cache_ttl_ms = 60000}});
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){0};
    kv_fix_init(&fix->kv);
    part_begin(fix);
}

static void fix_done(struct fix *fix)
{
    part_free(fix->part);
    kv_fix_done(&fix->kv);
}

static enum rc open_job(struct kv_fix *kv, struct call *call, struct part_job *job)
{
    return job_open(call->fix->part, &kv->run, BYTES("j"), JOB_MAKE, job, &kv->err);
}

static enum rc run_alloc(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    uint64_t count;
    enum rc rc = open_job(kv, call, &job);
    return rc == RC_OK ? part_alloc(&job, call->count, 1, &count, &call->flag, &kv->err) : rc;
}

static void ignore(void *arg, struct bytes json)
{
    (void)arg;
    (void)json;
}

static enum rc run_claim(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    struct part_claim claim = {.worker = bytes_of(call->worker, strlen(call->worker)),
                               .count = (uint64_t)call->count,
                               .stale_ms = PART_STALE_MS};
    enum rc rc = open_job(kv, call, &job);
    return rc == RC_OK ? part_claim(&job, &claim, ignore, NULL, &kv->err) : rc;
}

static enum rc run_start(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    struct part_hold hold = {.worker = bytes_of(call->worker, strlen(call->worker)),
                             .id = call->id};
    enum rc rc = open_job(kv, call, &job);
    if (rc == RC_OK)
        rc = part_start(&job, &hold, &kv->err);
    return rc == RC_OK ? job_save(&job, &kv->err) : rc;
}

static enum rc run_done(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    struct part_hold hold = {.worker = bytes_of(call->worker, strlen(call->worker)),
                             .id = call->id};
    enum rc rc = open_job(kv, call, &job);
    return rc == RC_OK ? part_done(&job, &hold, call->said_none ? PART_DURATION_NONE : 5,
                                   &call->flag, &kv->err)
                       : rc;
}

static enum rc run_compact(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    struct part_compact state = {.begun = true, .from = call->id};
    enum rc rc = open_job(kv, call, &job);
    if (rc == RC_OK)
        rc = part_compact_step(&job, &state, &call->flag, &kv->err);
    if (rc == RC_OK)
        call->id = state.from;
    return rc;
}

static void text_take(void *arg, struct bytes json)
{
    struct call *call = arg;
    ASSERT_LT(json.len, sizeof call->text);
    memcpy(call->text, json.ptr, json.len);
    call->text[json.len] = 0;
}

static enum rc run_get(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    enum rc rc = open_job(kv, call, &job);
    return rc == RC_OK ? part_get(&job, call->id, text_take, call, &kv->err) : rc;
}

static enum rc run_census(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    enum rc rc = open_job(kv, call, &job);
    if (rc != RC_OK)
        return rc;
    if (!call->census)
        call->census = part_census_new(
            &job, &(struct part_census_options){.kind = call->flag ? PART_VERIFY : PART_GAPS});
    rc = part_census_step(call->census, &job, &kv->err);
    call->count = rc == RC_WAIT;
    return rc == RC_WAIT ? RC_OK : rc;
}

/* RC_OK: the result is in call->census, which the caller frees. */
static enum rc census(struct fix *fix, bool verify, struct call *call)
{
    enum rc rc;
    *call = (struct call){.fix = fix, .flag = verify};
    do {
        rc = kv_fix_run(&fix->kv, run_census, call);
    } while (rc == RC_OK && call->count);
    return rc;
}

static void must(struct fix *fix, enum rc rc)
{
    ASSERT_OK(rc, &fix->kv.err);
}

/* `count` partitions completed by "w". */
static void complete(struct fix *fix, int64_t upto, int64_t count)
{
    struct call call = {.fix = fix, .worker = "w", .count = upto};
    must(fix, kv_fix_run(&fix->kv, run_alloc, &call));
    call.count = count;
    must(fix, kv_fix_run(&fix->kv, run_claim, &call));
    for (call.id = upto - count + 1; call.id <= upto; call.id++) {
        must(fix, kv_fix_run(&fix->kv, run_start, &call));
        must(fix, kv_fix_run(&fix->kv, run_done, &call));
    }
}

static void compact(struct fix *fix)
{
    struct call call = {.fix = fix, .flag = true};
    while (call.flag)
        must(fix, kv_fix_run(&fix->kv, run_compact, &call));
}

/* ---- bad bytes ---- */

struct edit {
    const char *key;
    size_t at; /* of the value; SIZE_MAX: nothing is changed */
    uint8_t frame[8192];
    size_t len;
};

static enum rc run_edit(struct kv_fix *kv, void *arg)
{
    struct edit *edit = arg;
    struct key key;
    struct bytes value;
    struct run own = run_as(&kv->run, kv->ns, ((struct fix *)kv)->part);
    enum rc rc =
        key_write(&own, bytes_of(edit->key, strlen(edit->key)), TYPE_STRING, &key, &kv->err);
    if (rc == RC_OK)
        rc = string_get(&key, &value, &kv->err);
    if (rc != RC_OK)
        return rc;
    ASSERT_LT(value.len, sizeof edit->frame);
    memcpy(edit->frame, value.ptr, value.len);
    edit->len = value.len;
    if (edit->at == SIZE_MAX)
        return RC_OK;
    edit->frame[edit->at] ^= 0x10;
    return string_set(&key, bytes_of(edit->frame, edit->len), 0, &kv->err);
}

struct listing {
    struct fix *fix;
    struct part_list list;
    char unreadable[1024]; /* the last one shown */
    size_t records, unreadables;
    bool in_order; /* nothing unreadable behind a record */
};

static void list_take(void *arg, struct bytes json)
{
    struct listing *listing = arg;
    if (json.ptr[2] == 'p') { /* {"partition_id": */
        listing->records++;
        return;
    }
    ASSERT_LT(json.len, sizeof listing->unreadable);
    memcpy(listing->unreadable, json.ptr, json.len);
    listing->unreadable[json.len] = 0;
    listing->unreadables++;
    listing->in_order = listing->records == 0;
}

static enum rc run_list(struct kv_fix *kv, void *arg)
{
    struct listing *listing = arg;
    struct part_job job;
    enum rc rc = job_open(listing->fix->part, &kv->run, BYTES("j"), JOB_MUST_EXIST, &job, &kv->err);
    return rc == RC_OK ? part_list(&job, &listing->list, list_take, listing, &listing->list.cursor,
                                   &kv->err)
                       : rc;
}

/* Batch 1 cannot be read: ids 1 to 20. */
static void lists_go_on(struct fix *fix)
{
    for (uint64_t count = 1; count < 100; count *= 7) {
        struct listing listing = {.fix = fix,
                                  .list = {.archived = true, .id_max = INT64_MAX, .count = count}};
        do {
            must(fix, kv_fix_run(&fix->kv, run_list, &listing));
        } while (listing.list.cursor);
        ASSERT_EQ(listing.records, BATCH);
        ASSERT_EQ(listing.unreadables, 1);
        ASSERT_TRUE(listing.in_order);
        ASSERT_TRUE(strstr(listing.unreadable, "{\"unreadable\":\"elk:{j}:completed:batch:1\","
                                               "\"from_id\":1,\"to_id\":20,\"records\":20,"
                                               "\"error\":\"elk:{j}:completed:batch:1: "));
    }
    /* What the index excludes is not missed, and not told. */
    struct listing other = {
        .fix = fix,
        .list = {.archived = true, .id_min = BATCH + 1, .id_max = INT64_MAX, .count = 100}};
    must(fix, kv_fix_run(&fix->kv, run_list, &other));
    ASSERT_EQ(other.records, BATCH);
    ASSERT_EQ(other.unreadables, 0);
    other.list =
        (struct part_list){.archived = true, .id_max = INT64_MAX, .strict = true, .count = 100};
    ASSERT_NE(kv_fix_run(&fix->kv, run_list, &other), RC_OK);
}

static void gaps_name_the_batch(struct fix *fix)
{
    struct call call;
    must(fix, census(fix, false, &call));
    struct part_census_result result = part_census_result(call.census);
    ASSERT_EQ(result.span_count, 1);
    ASSERT_EQ(result.span[0].kind, PART_UNREADABLE);
    ASSERT_EQ(result.span[0].min_id, 1);
    ASSERT_EQ(result.span[0].max_id, BATCH);
    part_census_free(call.census);
}

TEST(any_flipped_byte_of_a_batch_is_an_error_for_that_batch_and_the_rest_works)
{
    struct fix fix;
    struct edit edit = {.key = "elk:{j}:completed:batch:1", .at = SIZE_MAX};
    fix_init(&fix);
    complete(&fix, 2 * BATCH, 2 * BATCH);
    compact(&fix);
    must(&fix, kv_fix_run(&fix.kv, run_edit, &edit));
    for (size_t at = 0; at < edit.len; at++) {
        struct call call = {.fix = &fix, .id = 3};
        edit.at = at;
        must(&fix, kv_fix_run(&fix.kv, run_edit, &edit));
        part_free(fix.part); /* and its cache */
        part_begin(&fix);
        enum rc rc = kv_fix_run(&fix.kv, run_get, &call);
        ASSERT_TRUE(rc == RC_CORRUPT || rc == RC_VERSION);
        ASSERT_TRUE(strstr(fix.kv.err.text, "elk:{j}:completed:batch:1: ") != NULL);
        call.id = BATCH + 3;
        must(&fix, kv_fix_run(&fix.kv, run_get, &call));
        ASSERT_TRUE(strstr(call.text, "\"partition_id\":23") != NULL);
        must(&fix, census(&fix, true, &call));
        struct part_census_result result = part_census_result(call.census);
        ASSERT_GE(result.problem_count, 1);
        ASSERT_TRUE(strstr(result.problem[0], "completed:batch:1") != NULL);
        ASSERT_EQ(result.record_count, BATCH);
        part_census_free(call.census);
        gaps_name_the_batch(&fix);
        lists_go_on(&fix);
        must(&fix, kv_fix_run(&fix.kv, run_edit, &edit)); /* back again */
    }
    fix_done(&fix);
}

TEST(late_records_of_a_damaged_batch_stay_and_do_not_stop_packing)
{
    struct fix fix;
    struct edit edit = {.key = "elk:{j}:completed:batch:1", .at = 30};
    struct call call = {.fix = &fix, .worker = "w", .count = 4 * BATCH};
    fix_init(&fix);
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
    for (call.id = 1; call.id <= 2 * BATCH; call.id++)
        if (call.id != 5)
            must(&fix, kv_fix_run(&fix.kv, run_done, &call));
    compact(&fix);
    must(&fix, kv_fix_run(&fix.kv, run_edit, &edit));
    part_free(fix.part);
    part_begin(&fix);
    call.id = 5;
    must(&fix, kv_fix_run(&fix.kv, run_done, &call));
    for (call.id = 2 * BATCH + 1; call.id <= 4 * BATCH; call.id++)
        must(&fix, kv_fix_run(&fix.kv, run_done, &call));
    compact(&fix);
    call.id = 5;
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    call.id = 4 * BATCH;
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    fix_done(&fix);
}

struct row {
    const char *key, *field, *value;
};

static enum rc run_row(struct kv_fix *kv, void *arg)
{
    const struct row *row = arg;
    const struct bytes pair[2] = {bytes_of(row->field, strlen(row->field)),
                                  bytes_of(row->value, strlen(row->value))};
    struct run own = run_as(&kv->run, kv->ns, ((struct fix *)kv)->part);
    return hash_set(&own, bytes_of(row->key, strlen(row->key)), pair, 1, NULL, &kv->err);
}

TEST(rows_that_are_damaged_are_told_by_key_and_field)
{
    static const struct row rows[] = {
        {"elk:{j}:partitions", "41", "{\"partition_id\":41}"},
        {"elk:{j}:partitions", "41", ""},
        {"elk:{j}:meta", "fence", "x"},
        {"elk:{j}:stats", "global", "{\"completed\":1e9}"},
        {"elk:{j}:completed:index", "0000000000000000001", "{}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fix fix;
        fix_init(&fix);
        complete(&fix, 2 * BATCH, 2 * BATCH);
        compact(&fix);
        struct call call = {.fix = &fix, .worker = "w", .count = 2 * BATCH + 1};
        must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
        struct row row = rows[i];
        must(&fix, kv_fix_run(&fix.kv, run_row, &row));
        call.count = 1;
        enum rc rc = kv_fix_run(&fix.kv, run_claim, &call);
        call.id = 2 * BATCH + 1;
        if (rc == RC_OK)
            rc = kv_fix_run(&fix.kv, run_start, &call);
        call.id = 1;
        if (rc == RC_OK)
            rc = kv_fix_run(&fix.kv, run_get, &call);
        ASSERT_RC(rc, RC_CORRUPT);
        ASSERT_TRUE(strstr(fix.kv.err.text, "j") != NULL);
        fix_done(&fix);
    }
}

TEST(a_record_in_another_state_than_the_counts_say_is_found)
{
    struct fix fix;
    fix_init(&fix);
    struct call call = {.fix = &fix, .worker = "w", .count = 2};
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    must(&fix, census(&fix, true, &call));
    ASSERT_EQ(part_census_result(call.census).problem_count, 0);
    part_census_free(call.census);
    const char failed[] =
        "{\"partition_id\":2,\"min_id\":2,\"max_id\":2,\"worker_id\":\"w\","
        "\"last_heartbeat\":null,\"status\":\"failed\",\"updated_at\":\"2026-11-17T02:00:00Z\","
        "\"options\":null,\"version\":1,\"error\":\"\",\"created_at\":\"2026-11-17T02:00:00Z\","
        "\"fence\":0,\"attempts\":0,\"duration_ms\":null}";
    struct row row = {"elk:{j}:partitions", "2", failed};
    must(&fix, kv_fix_run(&fix.kv, run_row, &row));
    must(&fix, census(&fix, true, &call));
    struct part_census_result result = part_census_result(call.census);
    ASSERT_EQ(result.problem_count, 1);
    ASSERT_TRUE(strstr(result.problem[0], "counts by state") != NULL);
    part_census_free(call.census);
    fix_done(&fix);
}

/* ---- dropping ---- */

static enum rc run_drop(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    enum rc rc = job_open(call->fix->part, &kv->run, BYTES("j"), JOB_DROP, &job, &kv->err);
    return rc == RC_OK ? part_drop(&job, &call->flag, &kv->err) : rc;
}

TEST(a_job_that_is_being_dropped_is_gone_and_is_dropped_to_the_end)
{
    struct fix fix;
    fix_init(&fix);
    fix.part->limits.batch = 2;
    complete(&fix, 1200, 1200);
    compact(&fix);
    struct call call = {.fix = &fix, .id = 3, .count = 2000};
    must(&fix, kv_fix_run(&fix.kv, run_drop, &call));
    ASSERT_TRUE(call.flag);
    part_free(fix.part); /* as a kill leaves it: nothing but rows */
    part_begin(&fix);
    struct listing listing = {.fix = &fix, .list = {.archived = true, .count = 1}};
    ASSERT_RC(kv_fix_run(&fix.kv, run_list, &listing), RC_REPLY); /* NOJOB */
    ASSERT_RC(kv_fix_run(&fix.kv, run_alloc, &call), RC_BUSY);
    size_t steps = 1;
    for (; call.flag; steps++)
        must(&fix, kv_fix_run(&fix.kv, run_drop, &call));
    ASSERT_EQ(steps, 3); /* 600 batches */
    ASSERT_RC(kv_fix_run(&fix.kv, run_drop, &call), RC_REPLY);
    ASSERT_FALSE(kv_has(&fix.kv, "elk:{j}:completed:index"));
    ASSERT_FALSE(kv_has(&fix.kv, "elk:{j}:completed:batch:600"));
    ASSERT_FALSE(kv_has(&fix.kv, "elk:{}:jobs"));
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    fix_done(&fix);
}

TEST(a_job_with_a_damaged_index_is_dropped_to_the_end)
{
    static const struct row rows[] = {
        {"elk:{j}:completed:index", "0000000000000000001", "{}"},
        {"elk:{j}:completed:index", "0000000000000000599", "{\"batch\":7}"},
        {"elk:{j}:completed:index", "0000000000000000600", ""}, /* one more than there were */
        {"elk:{j}:completed:index", "!", "{}"},                 /* no id finds it */
        {"elk:{j}:completed:index", "x", "{}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fix fix;
        fix_init(&fix);
        fix.part->limits.batch = 2;
        complete(&fix, 1200, 1200);
        compact(&fix);
        struct row row = rows[i];
        must(&fix, kv_fix_run(&fix.kv, run_row, &row));
        kv_fix_freeze_out(&fix.kv);
        struct call call = {.fix = &fix, .count = 2000};
        size_t steps = 0;
        do {
            must(&fix, kv_fix_run(&fix.kv, run_drop, &call));
            ASSERT_LE(++steps, 8);
        } while (call.flag);
        ASSERT_RC(kv_fix_run(&fix.kv, run_drop, &call), RC_REPLY);
        ASSERT_EQ(store_counter_get(fix.kv.store, fix.kv.ns->key_count),
                  0); /* and no batch is left that nobody could remove */
        must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
        fix_done(&fix);
    }
}

/* ---- cold rows ---- */

TEST(every_read_may_be_cold_and_nothing_is_done_twice)
{
    struct fix fix;
    fix_init(&fix);
    struct call call = {.fix = &fix, .worker = "w", .count = 3 * BATCH};
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    for (int64_t id = 1; id <= 3 * BATCH; id++) {
        if (id % 7 == 0)
            kv_fix_freeze_out(&fix.kv);
        call = (struct call){.fix = &fix, .worker = id % 2 ? "a" : "b", .count = 1, .id = id};
        store_cold_inject(fix.kv.store, 1 + (uint64_t)id % 13);
        must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
        store_cold_inject(fix.kv.store, 1 + (uint64_t)id % 11);
        must(&fix, kv_fix_run(&fix.kv, run_start, &call));
        store_cold_inject(fix.kv.store, 1 + (uint64_t)id % 23);
        must(&fix, kv_fix_run(&fix.kv, run_done, &call));
        ASSERT_TRUE(call.flag);
    }
    store_cold_inject(fix.kv.store, 0);
    kv_fix_freeze_out(&fix.kv);
    compact(&fix);
    kv_fix_freeze_out(&fix.kv);
    must(&fix, census(&fix, true, &call));
    struct part_census_result result = part_census_result(call.census);
    ASSERT_EQ(result.problem_count, 0);
    ASSERT_EQ(result.record_count, 3 * BATCH);
    ASSERT_EQ(result.batch_count, 3);
    part_census_free(call.census);
    kv_fix_reopen(&fix.kv);
    part_free(fix.part);
    part_begin(&fix);
    must(&fix, census(&fix, false, &call));
    ASSERT_EQ(part_census_result(call.census).span_count, 0);
    part_census_free(call.census);
    fix_done(&fix);
}

/* ---- ageing out ---- */

static void clock_set(struct fix *fix, uint64_t unix_ms)
{
    atomic_store(&fix->kv.clock.unix_ms, unix_ms);
}

static enum rc run_retain(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    enum pack_end end;
    int64_t from = call->id; /* a step that is taken back goes nowhere */
    enum rc rc = open_job(kv, call, &job);
    if (rc == RC_OK)
        rc = pack_retain(&job, &from, &end, &kv->err);
    if (rc != RC_OK)
        return rc;
    call->id = from;
    call->flag = end == PACK_STEP;
    return RC_OK;
}

static enum rc run_unnote(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct part_job job;
    enum rc rc = open_job(kv, call, &job);
    if (rc == RC_OK)
        rc = job_number_put(&job, JOB_AGED_COUNT, 0, &kv->err);
    if (rc == RC_OK)
        rc = job_delete(&job, JOB_AGED, BYTES("0000000000000000001"), &kv->err);
    return rc == RC_OK ? job_save(&job, &kv->err) : rc;
}

static void gap_is(struct fix *fix, enum part_span_kind kind, int64_t max_id)
{
    struct call call;
    must(fix, census(fix, false, &call));
    struct part_census_result result = part_census_result(call.census);
    ASSERT_EQ(result.span_count, 1);
    ASSERT_EQ(result.span[0].kind, kind);
    ASSERT_EQ(result.span[0].min_id, 1);
    ASSERT_EQ(result.span[0].max_id, max_id);
    part_census_free(call.census);
}

TEST(what_aged_out_is_no_gap_and_without_a_note_of_it_nobody_says_missing)
{
    struct fix fix;
    fix_init(&fix);
    fix.part->limits.retain_ms = 1;
    fix.part->limits.compressed_max = BATCH;
    complete(&fix, 4 * BATCH, 4 * BATCH);
    compact(&fix);
    clock_set(&fix, clock_unix_ms(&fix.kv.clock) + 60 * 1000);
    for (struct call call = {.fix = &fix, .flag = true}; call.flag;) {
        kv_fix_freeze_out(&fix.kv);
        must(&fix, kv_fix_run(&fix.kv, run_retain, &call));
    }
    gap_is(&fix, PART_AGED, 3 * BATCH);
    kv_fix_freeze_out(&fix.kv);
    gap_is(&fix, PART_AGED, 3 * BATCH);
    struct call call = {.fix = &fix};
    must(&fix, kv_fix_run(&fix.kv, run_unnote, &call)); /* as an older version has left it */
    gap_is(&fix, PART_UNKNOWN, 3 * BATCH);
    fix_done(&fix);
}

/* ---- order of ids ---- */

static int id_cmp(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct ids {
    int64_t id[400];
    size_t count;
    int64_t from;
};

static enum rc run_walk(struct kv_fix *kv, void *arg)
{
    CLEANUP(idwalk_done) struct idwalk walk = {0};
    struct ids *ids = arg;
    struct bytes value;
    struct key key;
    enum rc rc = key_write(&kv->run, BYTES("h"), TYPE_HASH, &key, &kv->err);
    if (rc != RC_OK)
        return rc;
    idwalk_init(&walk, &key, ids->from);
    ids->count = 0;
    while (rc == RC_OK && ids->count < ARRAY_LEN(ids->id)) {
        rc = idwalk_next(&walk, &ids->id[ids->count], &value, &kv->err);
        ids->count += rc == RC_OK;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc run_ids(struct kv_fix *kv, void *arg)
{
    const struct ids *ids = arg;
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < ids->count; i++) {
        struct job_field field = job_field(ids->id[i]);
        const struct bytes pair[2] = {job_field_bytes(&field), BYTES("v")};
        rc = hash_set(&kv->run, BYTES("h"), pair, 1, NULL, &kv->err);
    }
    return rc;
}

TEST(rows_are_walked_in_order_of_their_numbers)
{
    struct rand rand;
    rand_init_seed(&rand, 9);
    for (int round = 0; round < 60; round++) {
        struct kv_fix kv;
        struct ids put = {0}, got = {0};
        kv_fix_init(&kv);
        unsigned shift = (unsigned)rand_below(&rand, 60);
        for (; put.count < 300; put.count++)
            put.id[put.count] = (int64_t)(rand_u64(&rand) >> 1 >> rand_below(&rand, shift + 1));
        put.id[0] = INT64_MAX;
        put.id[1] = 0;
        ASSERT_OK(kv_fix_run(&kv, run_ids, &put), &kv.err);
        if (round % 3 == 0)
            kv_fix_freeze_out(&kv);
        qsort(put.id, put.count, sizeof *put.id, id_cmp);
        size_t distinct = 1;
        for (size_t i = 1; i < put.count; i++)
            if (put.id[i] != put.id[i - 1])
                put.id[distinct++] = put.id[i];
        size_t first = rand_below(&rand, distinct);
        got.from = put.id[first];
        ASSERT_OK(kv_fix_run(&kv, run_walk, &got), &kv.err);
        ASSERT_EQ(got.count, distinct - first);
        for (size_t i = 0; i < got.count; i++)
            ASSERT_EQ(got.id[i], put.id[first + i]);
        kv_fix_done(&kv);
    }
}

/* ---- clocks ---- */

TEST(a_clock_that_goes_back_makes_no_negative_duration)
{
    struct fix fix;
    struct call call = {.fix = &fix, .worker = "w", .count = 1, .id = 1};
    fix_init(&fix);
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
    must(&fix, kv_fix_run(&fix.kv, run_start, &call));
    clock_set(&fix, clock_unix_ms(&fix.kv.clock) - 3600 * 1000);
    call.said_none = true;
    must(&fix, kv_fix_run(&fix.kv, run_done, &call));
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    ASSERT_TRUE(strstr(call.text, "\"duration_ms\":0}") != NULL);
    must(&fix, census(&fix, true, &call));
    ASSERT_EQ(part_census_result(call.census).problem_count, 0);
    part_census_free(call.census);
    fix_done(&fix);
}

TEST(a_heartbeat_of_the_future_goes_stale_from_when_the_clock_has_gone_back)
{
    struct fix fix;
    fix_init(&fix);
    struct call call = {.fix = &fix, .worker = "a", .count = 1, .id = 1};
    uint64_t now_ms = clock_unix_ms(&fix.kv.clock);
    clock_set(&fix, now_ms + 86400 * 1000);
    must(&fix, kv_fix_run(&fix.kv, run_alloc, &call));
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
    clock_set(&fix, now_ms);
    call.worker = "b";
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call)); /* a's beat counts as one of now */
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    ASSERT_TRUE(strstr(call.text, "\"worker_id\":\"a\"") != NULL);
    clock_set(&fix, now_ms + PART_STALE_MS - 1);
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    ASSERT_TRUE(strstr(call.text, "\"worker_id\":\"a\"") != NULL);
    clock_set(&fix, now_ms + PART_STALE_MS);
    must(&fix, kv_fix_run(&fix.kv, run_claim, &call));
    must(&fix, kv_fix_run(&fix.kv, run_get, &call));
    ASSERT_TRUE(strstr(call.text, "\"worker_id\":\"b\"") != NULL);
    fix_done(&fix);
}

/* ---- the cache ---- */

TEST(the_cache_keeps_what_is_asked_for_and_stays_within_its_bytes)
{
    struct part_record record[10];
    struct part_cache cache;
    struct part_batch *batch;
    struct buf frame;
    struct err err = {0};
    uint8_t id[KEY_ID_BYTES] = {0};
    buf_init(&frame, 1 << 20);
    for (int64_t i = 0; i < 10; i++)
        record[i] = (struct part_record){.id = i, .status = PART_COMPLETED, .worker = 1};
    ASSERT_OK(part_batch_encode(record, 10, &(struct part_encode_options){0}, &frame, &err), &err);
    part_cache_init(&cache, 40 * 1024, 5000);
    for (uint64_t n = 0; n < 200; n++) {
        uint64_t now_ms = n * 100;
        be64_put(id, n);
        ASSERT_OK(part_cache_put(&cache, id, buf_bytes(&frame), now_ms, &batch, &err), &err);
        ASSERT_LE(cache.bytes, cache.bytes_max + 4096); /* the newest stays, whatever its size */
        for (int hit = 0; hit < 10; hit++) {
            be64_put(id, 3); /* the one everybody wants */
            ASSERT_EQ(part_cache_get(&cache, id, now_ms) != NULL, n >= 3);
        }
    }
    be64_put(id, 100);
    ASSERT_TRUE(part_cache_get(&cache, id, 20000) == NULL);
    be64_put(id, 199);
    ASSERT_TRUE(part_cache_get(&cache, id, 20000) != NULL);
    part_cache_tidy(&cache, 25000);
    ASSERT_EQ(cache.count, 1); /* whatever there is room for: nobody asked for the others */
    part_cache_tidy(&cache, 25001);
    ASSERT_EQ(cache.count, 0);
    ASSERT_EQ(cache.bytes, 0);
    part_cache_done(&cache);
    buf_done(&frame);
}
