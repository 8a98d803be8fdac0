// SPDX-License-Identifier: Apache-2.0
/* journal_fix.c - writes a journal, ends it, recovers it and compares. */
#include "support/journal_fix.h"

#include "test.h"

#include "base/banned.h"

static const char fix_dir[] = "data/journal";

static void fix_notify(void *arg)
{
    struct journal_fix *fix = arg;
    fix->notify_count++;
}

/* The counter of a segment header is the number of turns before it. */
static bool fix_counters(void *arg, struct buf *to)
{
    struct journal_fix *fix = arg;
    return segment_counter_add(to, BYTES("turns"), (int64_t)(fix->acked_count + fix->writing));
}

void journal_fix_init(struct journal_fix *fix)
{
    struct err err = {0};

    *fix = (struct journal_fix){.sim = file_sim_new(), .next_lsn = 1000, .next_seed = 1};
    clock_init_manual(&fix->clock, 1700000000000);
    rand_init_seed(&fix->rand, 42);
    fix->options = (struct journal_options){
        .files = file_sim_files(fix->sim),
        .dir = fix_dir,
        .clock = &fix->clock,
        .rand = &fix->rand,
        .uuid = "0123456789abcde",
        .incarnation = 3,
        .durability = DURABILITY_EVERYSEC,
        .segment_bytes = 2000,
        .unsynced_bytes_max = 3000,
        .manual = true,
        .notify = fix_notify,
        .notify_arg = fix,
        .counters = fix_counters,
        .counters_arg = fix,
    };
    fix->start = (struct journal_start){.next_number = 1, .last_lsn = 999};
    ASSERT_OK(files_make_dir(fix->options.files, "data", &err), &err);
    ASSERT_OK(files_sync_dir(fix->options.files, ".", &err), &err);
}

void journal_fix_done(struct journal_fix *fix)
{
    journal_abandon(fix->journal);
    file_sim_free(fix->sim);
}

void journal_fix_open(struct journal_fix *fix)
{
    struct err err = {0};
    ASSERT_OK(journal_open(&fix->options, &fix->start, &fix->journal, &err), &err);
    for (size_t i = 0; i < fix->sealed_count; i++)
        journal_adopt(fix->journal, &fix->sealed[i]);
}

static struct bytes fix_body(uint64_t seed, size_t len, uint8_t *to)
{
    struct rand rand;
    ASSERT_LE(len, JOURNAL_FIX_BODY_BYTES_MAX);
    rand_init_seed(&rand, seed);
    rand_bytes(&rand, to, len);
    return bytes_of(to, len);
}

enum rc journal_fix_write(struct journal_fix *fix, size_t body_len, struct err *err)
{
    uint8_t body[JOURNAL_FIX_BODY_BYTES_MAX];
    struct journal_fix_turn turn = {.first_lsn = fix->next_lsn,
                                    .commit_count = 1 + (uint32_t)(body_len % 3),
                                    .seed = fix->next_seed++,
                                    .body_len = body_len};

    fix->writing = true;
    enum rc rc = journal_write(fix->journal, turn.first_lsn, turn.commit_count,
                               fix_body(turn.seed, body_len, body), err);
    fix->writing = false;
    if (rc != RC_OK && rc != RC_READONLY && journal_read_only(fix->journal)) {
        fix->uncertain = turn;
        fix->has_uncertain = true;
    }
    if (rc != RC_OK)
        return rc;
    fix->has_uncertain = false;
    ASSERT_LT(fix->acked_count, JOURNAL_FIX_TURNS_MAX - 1);
    fix->acked[fix->acked_count++] = turn;
    fix->next_lsn += turn.commit_count;
    return RC_OK;
}

void journal_fix_drain(struct journal_fix *fix)
{
    bool worked = true;
    for (int i = 0; worked; i++) {
        ASSERT_LT(i, 1000);
        journal_step(fix->journal, &worked);
    }
}

void journal_fix_disarm(struct journal_fix *fix)
{
    for (int op = FILE_SIM_ANY; op <= FILE_SIM_READ; op++)
        file_sim_arm(fix->sim, &(struct file_sim_fault){.op = (enum file_sim_op)op});
}

void journal_fix_crash(struct journal_fix *fix, enum journal_fix_crash how, uint64_t seed)
{
    struct rand rand;

    rand_init_seed(&rand, seed);
    if (fix->journal)
        fix->durable_lsn = journal_durable_lsn(fix->journal);
    journal_fix_disarm(fix);
    switch (how) {
    case JOURNAL_FIX_PROCESS_END:
        file_sim_process_end(fix->sim);
        break;
    case JOURNAL_FIX_POWER_CUT:
        file_sim_power_cut(fix->sim, false, NULL);
        break;
    case JOURNAL_FIX_TORN:
        file_sim_power_cut(fix->sim, true, &rand);
        break;
    }
    journal_abandon(fix->journal);
    fix->journal = NULL;
}

static void check_counter(struct journal_fix *fix, uint64_t segment)
{
    struct segment_reader *reader = NULL;
    struct err err = {0};
    char path[PATH_BYTES_MAX];
    struct bytes name;
    int64_t value = -1;

    segment_path(path, fix_dir, segment);
    if (segment_open(fix->options.files, path, &reader, &err) == RC_IO)
        return; /* a fault is armed */
    ASSERT_TRUE(reader);
    struct bytes counters = segment_reader_header(reader)->counters;
    ASSERT_OK(segment_counter_next(&counters, &name, &value, &err), &err);
    ASSERT_EQ(value, fix->recovered_count);
    segment_close(reader);
}

static enum rc fix_turn(const struct segment_turn *turn, uint64_t segment, void *arg,
                        struct err *err)
{
    struct journal_fix *fix = arg;
    uint8_t body[JOURNAL_FIX_BODY_BYTES_MAX];

    (void)err;
    while (fix->recovered_count < fix->acked_count &&
           fix->acked[fix->recovered_count].first_lsn <= fix->start.last_lsn)
        fix->recovered_count++; /* at or below the mark */
    if (fix->recovered_count == fix->acked_count && fix->has_uncertain) {
        fix->acked[fix->acked_count++] = fix->uncertain;
        fix->has_uncertain = false;
    }
    ASSERT_LT(fix->recovered_count, fix->acked_count);
    const struct journal_fix_turn *acked = &fix->acked[fix->recovered_count];
    ASSERT_EQ(turn->first_lsn, acked->first_lsn);
    ASSERT_EQ(turn->commit_count, acked->commit_count);
    ASSERT_BYTES(turn->body, fix_body(acked->seed, acked->body_len, body));
    if (segment != fix->recovered_segment)
        check_counter(fix, segment);
    fix->recovered_segment = segment;
    fix->recovered_count++;
    return RC_OK;
}

static void fix_sealed(const struct journal_sealed *sealed, void *arg)
{
    struct journal_fix *fix = arg;
    fix->sealed[fix->sealed_count++] = *sealed;
}

enum rc journal_fix_recover(struct journal_fix *fix, uint64_t mark_segment, bool repair,
                            struct buf *report, struct err *err)
{
    struct journal_recover_options options = {
        .files = fix->options.files,
        .dir = fix_dir,
        .mark_segment = mark_segment,
        .mark_lsn = 999,
        .repair = repair,
        .report = report,
        .turn = fix_turn,
        .sealed = fix_sealed,
        .arg = fix,
    };
    memcpy(options.uuid, fix->options.uuid, sizeof options.uuid);
    for (size_t i = 0; i < fix->sealed_count; i++) {
        if (fix->sealed[i].number == mark_segment)
            options.mark_lsn = fix->sealed[i].last_lsn;
    }
    fix->recovered_count = 0;
    fix->recovered_segment = 0;
    fix->sealed_count = 0;
    fix->start.last_lsn = options.mark_lsn;
    return journal_recover(&options, &fix->start, err);
}

void journal_fix_check(struct journal_fix *fix, enum journal_fix_crash how)
{
    struct err err = {0};

    ASSERT_OK(journal_fix_recover(fix, 0, false, NULL, &err), &err);
    if (how == JOURNAL_FIX_PROCESS_END)
        ASSERT_EQ(fix->recovered_count, fix->acked_count);
    if (fix->recovered_count < fix->acked_count)
        ASSERT_GT(fix->acked[fix->recovered_count].first_lsn, fix->durable_lsn);
    fix->acked_count = fix->recovered_count;
    fix->has_uncertain = false;
    fix->next_lsn = fix->start.last_lsn + 1;
    if (fix->acked_count > 0) {
        const struct journal_fix_turn *last = &fix->acked[fix->acked_count - 1];
        ASSERT_EQ(fix->start.last_lsn, last->first_lsn + last->commit_count - 1);
        ASSERT_EQ(fix->start.next_number, fix->sealed[fix->sealed_count - 1].number + 1);
        ASSERT_EQ(fix->start.bytes_before, fix->sealed[fix->sealed_count - 1].bytes);
    }
}

void journal_fix_read(struct journal_fix *fix, uint64_t number, struct buf *to)
{
    struct err err = {0};
    char path[PATH_BYTES_MAX];

    buf_init(to, 10000000);
    segment_path(path, fix_dir, number);
    ASSERT_OK(files_read_all(fix->options.files, path, to, &err), &err);
}

void journal_fix_replace(struct journal_fix *fix, uint64_t number, struct bytes bytes)
{
    struct err err = {0};
    char path[PATH_BYTES_MAX];

    segment_path(path, fix_dir, number);
    ASSERT_OK(files_replace(fix->options.files, path, bytes, &err), &err);
}

bool journal_fix_exists(struct journal_fix *fix, const char *path)
{
    struct file *file = NULL;
    struct err err = {0};
    enum rc rc = file_open(fix->options.files, path, FILE_READ, &file, &err);
    file_close(file);
    return rc == RC_OK;
}
