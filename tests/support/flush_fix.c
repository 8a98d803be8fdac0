// SPDX-License-Identifier: Apache-2.0
/* flush_fix.c - makes segments by hand and compares what the flusher makes of them. */
#include "support/flush_fix.h"

#include <stdio.h>

#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

static const uint8_t fix_uuid[16] = "uuid of a store";
static const uint64_t journal_first = UINT64_C(1) << 40;

/* ---- the model ---- */

static int row_cmp(const struct model_row *row, uint8_t space, struct bytes group,
                   struct bytes suffix)
{
    if (row->space != space)
        return row->space < space ? -1 : 1;
    int order = bytes_cmp(row->group, group);
    return order != 0 ? order : bytes_cmp(row->suffix, suffix);
}

static size_t model_find(const struct model *model, uint8_t space, struct bytes group,
                         struct bytes suffix, bool *ret_found)
{
    size_t from = 0, to = model->count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (row_cmp(&model->row[middle], space, group, suffix) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *ret_found = from < model->count && row_cmp(&model->row[from], space, group, suffix) == 0;
    return from;
}

static void model_delete_at(struct model *model, size_t index)
{
    mem_free(model->row[index].memory);
    model->count--;
    memmove(&model->row[index], &model->row[index + 1],
            (model->count - index) * sizeof *model->row);
}

static void model_put(struct model *model, uint8_t space, struct bytes group, struct bytes suffix,
                      struct bytes value)
{
    bool found;
    size_t index = model_find(model, space, group, suffix, &found);
    if (found)
        model_delete_at(model, index);
    if (model->count == model->cap) {
        model->cap = model->cap ? model->cap * 2 : 64;
        model->row = mem_realloc(model->row, model->cap * sizeof *model->row);
    }
    memmove(&model->row[index + 1], &model->row[index],
            (model->count - index) * sizeof *model->row);
    model->count++;
    uint8_t *memory = mem_alloc(group.len + suffix.len + value.len);
    memcpy(memory, group.ptr, group.len);
    memcpy(memory + group.len, suffix.ptr, suffix.len);
    memcpy(memory + group.len + suffix.len, value.ptr, value.len);
    model->row[index] = (struct model_row){
        .space = space,
        .group = bytes_of(memory, group.len),
        .suffix = bytes_of(memory + group.len, suffix.len),
        .value = bytes_of(memory + group.len + suffix.len, value.len),
        .memory = memory,
    };
}

static void model_drop(struct model *model, uint8_t space, struct bytes group, bool prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        struct model_row *row = &model->row[i];
        bool gone = row->space == space &&
                    (prefix ? bytes_start_with(row->group, group) : bytes_eq(row->group, group));
        if (gone)
            mem_free(row->memory);
        else
            model->row[kept++] = *row;
    }
    model->count = kept;
}

void model_done(struct model *model)
{
    for (size_t i = 0; i < model->count; i++)
        mem_free(model->row[i].memory);
    mem_free(model->row);
    *model = (struct model){0};
}

void model_copy(struct model *to, const struct model *from)
{
    *to = (struct model){0};
    memcpy(to->counter, from->counter, sizeof to->counter);
    for (size_t i = 0; i < from->count; i++) {
        const struct model_row *row = &from->row[i];
        model_put(to, row->space, row->group, row->suffix, row->value);
    }
}

struct counters_seen {
    const struct model *model;
    bool seen[FIX_COUNTERS];
};

static enum rc counter_seen(struct bytes name, int64_t value, void *arg, struct err *err)
{
    struct counters_seen *seen = arg;
    (void)err;
    ASSERT_EQ(name.len, 1);
    unsigned counter = name.ptr[0] - 'a';
    ASSERT_LT(counter, FIX_COUNTERS);
    ASSERT_EQ(value, seen->model->counter[counter]);
    seen->seen[counter] = true;
    return RC_OK;
}

void model_check(const struct model *model, struct engine *engine, const struct engine_view *view,
                 const struct space_set *spaces)
{
    struct err err = {0};
    struct engine_iter *iter = NULL;
    const struct engine_range range = {.lower = BYTES("\1")};
    struct bytes key, value, group, suffix;
    size_t count = 0;
    uint8_t space;
    ASSERT_OK(engine->ops->iter_open(engine, view, &range, &iter, &err), &err);
    while (engine->ops->iter_next(iter, &key, &value, &err) == RC_OK) {
        bool found;
        ASSERT_OK(space_key_split(spaces, key, &space, &group, &suffix, &err), &err);
        size_t index = model_find(model, space, group, suffix, &found);
        if (!found)
            test_fail(__FILE__, __LINE__, "the engine has a row too many in space %u", space);
        ASSERT_BYTES(value, model->row[index].value);
        count++;
    }
    engine->ops->iter_close(iter);
    ASSERT_EQ(count, model->count);

    struct counters_seen seen = {.model = model};
    ASSERT_OK(sys_counters_walk(engine, view, counter_seen, &seen, &err), &err);
    for (unsigned i = 0; i < FIX_COUNTERS; i++)
        ASSERT_TRUE(seen.seen[i] || model->counter[i] == 0);
}

/* ---- the fixture ---- */

static void fix_notify(void *arg)
{
    struct flush_fix *fix = arg;
    fix->notify_count++;
}

static bool no_counters(void *arg, struct buf *to)
{
    (void)arg;
    (void)to;
    return true;
}

static void spaces_init(struct space_set *spaces)
{
    const struct store_space all[] = {
        {.number = FIX_WHOLE, .kind = SPACE_WHOLE, .name = "whole"},
        {.number = FIX_FIXED, .kind = SPACE_FIXED, .fixed_bytes = 3, .name = "fixed"},
        {.number = FIX_LENGTH, .kind = SPACE_LENGTH, .name = "length"},
        {.number = FIX_LENGTH_NEXT, .kind = SPACE_LENGTH, .name = "next"},
        {.number = FIX_LAST, .kind = SPACE_FIXED, .fixed_bytes = 1, .name = "last"},
    };
    space_set_init(spaces);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        ASSERT_RC(space_set_add(spaces, &all[i], NULL), RC_OK);
}

static void segment_begin(struct flush_fix *fix)
{
    const struct segment_header header = {
        .format = SEGMENT_FORMAT,
        .incarnation = 7,
        .salt = fix->salt = (uint32_t)rand_u64(&fix->rand),
        .number = fix->segment_count + 1,
        .last_lsn_before = fix->lsn,
    };
    struct segment_header own = header;
    memcpy(own.uuid, fix_uuid, sizeof own.uuid);
    buf_cut(&fix->segment, 0);
    ASSERT_TRUE(segment_header_add(&own, &fix->segment));
    ASSERT_TRUE(record_commit_begin(&fix->writer));
}

static void fix_begin(struct flush_fix *fix, uint64_t seed, const char *dir)
{
    rand_init_seed(&fix->rand, seed);
    clock_init_manual(&fix->clock, 1000);
    spaces_init(&fix->spaces);
    snprintf(fix->engine_dir, sizeof fix->engine_dir, "%s/engine", dir);
    snprintf(fix->journal_dir, sizeof fix->journal_dir, "%s/journal", dir);
    snprintf(fix->scratch_dir, sizeof fix->scratch_dir, "%s/scratch", dir);
    ASSERT_OK(files_make_dir(fix->files, dir, &fix->err), &fix->err);
    ASSERT_OK(files_make_dir(fix->files, fix->journal_dir, &fix->err), &fix->err);
    ASSERT_OK(files_make_dir(fix->files, fix->scratch_dir, &fix->err), &fix->err);
    const struct engine_options options = {
        .dir = fix->engine_dir,
        .scratch_dir = fix->scratch_dir,
        .spaces = &fix->spaces,
        .cache_bytes = 1024 * 1024,
        .memory = fix->memory,
    };
    ASSERT_OK(fix->ops->open(&options, &fix->engine, &fix->err), &fix->err);
    fix->options = (struct flush_options){
        .files = fix->files,
        .scratch_dir = fix->scratch_dir,
        .journal_dir = fix->journal_dir,
        .engine = fix->engine,
        .spaces = &fix->spaces,
        .clock = &fix->clock,
        .unit_bytes = 1024 * 1024,
        .age_ms_max = 60 * 1000,
        .l0_file_count_max = 1000,
        .debt_bytes_max = UINT64_MAX,
        .manual = true,
        .notify = fix_notify,
        .notify_arg = fix,
    };
    record_writer_init(&fix->writer, JOURNAL_FRAME_BODY_BYTES_MAX);
    buf_init(&fix->segment, 1024 * 1024 * 1024);
    fix->sealed = mem_zalloc(FIX_SEGMENTS_MAX * sizeof *fix->sealed);
    segment_begin(fix);
}

void fix_init(struct flush_fix *fix, uint64_t seed)
{
    *fix = (struct flush_fix){.sim = file_sim_new()};
    fix->files = file_sim_files(fix->sim);
    fix->memory = engine_memory_new();
    fix->ops = &engine_memory_ops;
    fix_begin(fix, seed, "/store");
}

bool fix_has_rocksdb(void)
{
#ifdef __SANITIZE_THREAD__
    return false;
#else
    return true;
#endif
}

void fix_init_rocksdb(struct flush_fix *fix, uint64_t seed)
{
    *fix = (struct flush_fix){.files = (struct files *)&files_real};
    fix->ops = &engine_rocksdb_ops;
    fix_begin(fix, seed, test_temp_dir());
}

void fix_done(struct flush_fix *fix)
{
    fix_close(fix);
    fix->ops->close(fix->engine);
    engine_memory_free(fix->memory);
    model_done(&fix->model);
    record_writer_done(&fix->writer);
    buf_done(&fix->segment);
    mem_free(fix->sealed);
    file_sim_free(fix->sim);
}

void fix_open(struct flush_fix *fix)
{
    struct sys_mark mark = {.incarnation = 7};
    memcpy(mark.uuid, fix_uuid, sizeof mark.uuid);
    enum rc rc = sys_mark_get(fix->engine, NULL, &mark, &fix->err);
    ASSERT_TRUE(rc == RC_OK || rc == RC_NOT_FOUND);
    ASSERT_EQ(mark.incarnation, 7);

    struct journal_options options = {
        .files = fix->files,
        .dir = fix->journal_dir,
        .clock = &fix->clock,
        .rand = &fix->rand,
        .durability = DURABILITY_NO,
        .segment_bytes = 1024 * 1024,
        .unsynced_bytes_max = 1024 * 1024,
        .manual = true,
        .counters = no_counters,
    };
    memcpy(options.uuid, fix_uuid, sizeof options.uuid);
    const struct journal_start start = {.next_number = journal_first};
    ASSERT_OK(journal_open(&options, &start, &fix->journal, &fix->err), &fix->err);
    for (uint64_t number = mark.segment + 1; number <= fix->segment_count; number++)
        journal_adopt(fix->journal, &fix->sealed[number - 1]);
    fix->options.journal = fix->journal;
    fix->options.mark = mark;
    ASSERT_OK(flush_open(&fix->options, &fix->flush, &fix->err), &fix->err);
}

void fix_close(struct flush_fix *fix)
{
    flush_close(fix->flush);
    fix->flush = NULL;
    journal_abandon(fix->journal);
    fix->journal = NULL;
}

static void fix_add(struct flush_fix *fix, enum record_kind kind, uint8_t space, struct bytes group,
                    struct bytes suffix, struct bytes value, int64_t delta)
{
    ASSERT_TRUE(record_add(&fix->writer, kind, space, BYTES(""), group, suffix, value, delta));
}

void fix_put(struct flush_fix *fix, uint8_t space, struct bytes group, struct bytes suffix,
             struct bytes value)
{
    fix_add(fix, RECORD_PUT, space, group, suffix, value, 0);
    model_put(&fix->model, space, group, suffix, value);
}

void fix_delete(struct flush_fix *fix, uint8_t space, struct bytes group, struct bytes suffix)
{
    fix_add(fix, RECORD_DELETE, space, group, suffix, BYTES(""), 0);
    bool found;
    size_t index = model_find(&fix->model, space, group, suffix, &found);
    if (found)
        model_delete_at(&fix->model, index);
}

void fix_drop_group(struct flush_fix *fix, uint8_t space, struct bytes group)
{
    fix_add(fix, RECORD_DROP_GROUP, space, group, BYTES(""), BYTES(""), 0);
    model_drop(&fix->model, space, group, false);
}

void fix_drop_prefix(struct flush_fix *fix, uint8_t space, struct bytes prefix)
{
    fix_add(fix, RECORD_DROP_PREFIX, space, prefix, BYTES(""), BYTES(""), 0);
    model_drop(&fix->model, space, prefix, true);
}

void fix_count(struct flush_fix *fix, unsigned counter, int64_t delta)
{
    const uint8_t name = (uint8_t)('a' + counter);
    fix_add(fix, RECORD_COUNTER_ADD, SPACE_SYS, bytes_of(&name, 1), BYTES(""), BYTES(""), delta);
    fix->model.counter[counter] += delta;
}

/* Few bytes, so that keys are prefixes of each other and meet the ends of ranges. */
static struct bytes random_key(struct rand *rand, uint8_t *to, size_t len)
{
    static const uint8_t alphabet[] = {0x00, 'a', 0xff};
    for (size_t i = 0; i < len; i++)
        to[i] = alphabet[rand_below(rand, sizeof alphabet)];
    return bytes_of(to, len);
}

static struct bytes random_group(struct rand *rand, uint8_t space, uint8_t to[8])
{
    size_t len = rand_below(rand, 4);
    if (space == FIX_FIXED)
        len = 3;
    if (space == FIX_LAST)
        len = 1;
    return random_key(rand, to, len);
}

static void put_many(struct flush_fix *fix, uint8_t space, struct bytes group)
{
    uint8_t suffix[4];
    for (int i = 0; i < 90; i++) {
        random_key(&fix->rand, suffix, sizeof suffix);
        fix_put(fix, space, group, bytes_of(suffix, sizeof suffix), BYTES("many"));
    }
}

void fix_change_random(struct flush_fix *fix)
{
    static const uint8_t spaces[] = {FIX_WHOLE, FIX_FIXED, FIX_LENGTH, FIX_LENGTH_NEXT, FIX_LAST};
    uint8_t group_bytes[8], suffix_bytes[8], value_bytes[8];
    struct rand *rand = &fix->rand;
    uint8_t space = spaces[rand_below(rand, ARRAY_LEN(spaces))];
    struct bytes group = random_group(rand, space, group_bytes);
    struct bytes suffix =
        random_key(rand, suffix_bytes, space == FIX_WHOLE ? 0 : rand_below(rand, 3));
    uint64_t what = rand_below(rand, 1000);

    if (what < 550) {
        rand_bytes(rand, value_bytes, sizeof value_bytes);
        fix_put(fix, space, group, suffix, bytes_of(value_bytes, rand_below(rand, 9)));
    } else if (what < 700) {
        fix_delete(fix, space, group, suffix);
    } else if (what < 850) {
        fix_drop_group(fix, space, group);
    } else if (what < 900) {
        fix_drop_prefix(fix, space, random_key(rand, group_bytes, rand_below(rand, 5)));
    } else if (what < 990 || space == FIX_WHOLE) {
        fix_count(fix, (unsigned)rand_below(rand, FIX_COUNTERS), (int64_t)rand_below(rand, 5) - 2);
    } else {
        put_many(fix, space, group);
    }
    if (rand_below(rand, 4) == 0) { /* the next change is in another commit */
        record_commit_end(&fix->writer);
        ASSERT_TRUE(record_commit_begin(&fix->writer));
    }
}

static void turn_add(struct flush_fix *fix)
{
    record_commit_end(&fix->writer);
    struct bytes body = buf_bytes(&fix->writer.body);
    if (body.len > 0) {
        const struct frame_header frame = {
            .body_len = (uint32_t)body.len,
            .first_lsn = fix->lsn + 1,
            .commit_count = fix->writer.commit_count,
        };
        uint8_t header[FRAME_HEADER_BYTES];
        uint32_t crc;
        frame_header_put(header, &frame, body, fix->salt, &crc);
        ASSERT_TRUE(buf_add(&fix->segment, header, sizeof header));
        ASSERT_TRUE(buf_add_bytes(&fix->segment, body));
        fix->lsn += fix->writer.commit_count;
    }
    record_writer_clear(&fix->writer);
}

uint64_t fix_seal(struct flush_fix *fix)
{
    turn_add(fix);
    uint64_t number = fix->segment_count + 1;
    ASSERT_LT(number, FIX_SEGMENTS_MAX);
    char path[PATH_BYTES_MAX];
    CLEANUP(file_closep) struct file *file = NULL;
    segment_path(path, fix->journal_dir, number);
    ASSERT_OK(file_open(fix->files, path, FILE_WRITE | FILE_CREATE, &file, &fix->err), &fix->err);
    ASSERT_OK(file_write(file, 0, buf_bytes(&fix->segment), &fix->err), &fix->err);
    ASSERT_OK(file_sync(file, &fix->err), &fix->err);

    fix->segment_count = number;
    struct journal_sealed *sealed = &fix->sealed[number - 1];
    *sealed =
        (struct journal_sealed){.number = number, .bytes = fix->segment.len, .last_lsn = fix->lsn};
    if (fix->journal)
        journal_adopt(fix->journal, sealed);
    segment_begin(fix);
    return number;
}

bool fix_segment_exists(struct flush_fix *fix, uint64_t number)
{
    char path[PATH_BYTES_MAX];
    CLEANUP(file_closep) struct file *file = NULL;
    segment_path(path, fix->journal_dir, number);
    return file_open(fix->files, path, FILE_READ, &file, NULL) != RC_NOT_FOUND;
}

void fix_run(struct flush_fix *fix)
{
    bool worked = true;
    while (worked)
        flush_step(fix->flush, &worked);
}

void fix_flush(struct flush_fix *fix)
{
    flush_ask(fix->flush, fix->segment_count);
    fix_run(fix);
}

void fix_check(struct flush_fix *fix)
{
    model_check(&fix->model, fix->engine, NULL, &fix->spaces);
}

struct flush_status fix_status(struct flush_fix *fix)
{
    struct flush_status status;
    flush_status(fix->flush, &status);
    return status;
}
