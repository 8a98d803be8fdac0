// SPDX-License-Identifier: Apache-2.0
#include "store/journal/journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/journal/journal_int.h"
#include "store/journal/recover.h"
#include "support/journal_fix.h"
#include "test.h"

#include "base/banned.h"

static struct journal_status status_of(struct journal_fix *fix)
{
    struct journal_status status;
    journal_status(fix->journal, &status);
    return status;
}

static void write_ok(struct journal_fix *fix, size_t len)
{
    struct err err = {0};
    ASSERT_OK(journal_fix_write(fix, len, &err), &err);
}

static bool step(struct journal_fix *fix)
{
    bool worked;
    journal_step(fix->journal, &worked);
    return worked;
}

static uint64_t writes_of(struct journal_fix *fix)
{
    return file_sim_op_count(fix->sim, FILE_SIM_WRITE);
}

static uint64_t syncs_of(struct journal_fix *fix)
{
    return file_sim_op_count(fix->sim, FILE_SIM_SYNC);
}

TEST(a_turn_is_one_write_and_survives_the_process)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    uint64_t before = writes_of(&fix);
    for (int i = 0; i < 5; i++)
        write_ok(&fix, 100);
    ASSERT_EQ(writes_of(&fix) - before, 5);
    ASSERT_EQ(status_of(&fix).frame_count, 5);
    ASSERT_EQ(status_of(&fix).written_lsn, fix.next_lsn - 1);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_EQ(fix.acked_count, 5);
    journal_fix_done(&fix);
}

TEST(the_durable_lsn_moves_with_a_sync_only)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    write_ok(&fix, 100);
    ASSERT_EQ(journal_durable_lsn(fix.journal), 999);
    ASSERT_GT(status_of(&fix).unsynced_bytes, 140);
    journal_fix_drain(&fix);
    ASSERT_EQ(journal_durable_lsn(fix.journal), fix.next_lsn - 1);
    ASSERT_EQ(status_of(&fix).unsynced_bytes, 0);
    ASSERT_GT(fix.notify_count, 0);
    journal_fix_crash(&fix, JOURNAL_FIX_POWER_CUT, 0);
    journal_fix_check(&fix, JOURNAL_FIX_POWER_CUT);
    ASSERT_EQ(fix.acked_count, 1);
    journal_fix_done(&fix);
}

TEST(everysec_syncs_a_second_after_the_oldest_write)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    fix.options.unsynced_bytes_max = 100000;
    journal_fix_open(&fix);
    journal_fix_drain(&fix);
    write_ok(&fix, 100);
    uint64_t before = syncs_of(&fix);
    clock_advance_ms(&fix.clock, 1000);
    ASSERT_TRUE(step(&fix));
    ASSERT_EQ(syncs_of(&fix), before + 1);
    ASSERT_EQ(journal_durable_lsn(fix.journal), fix.next_lsn - 1);
    journal_fix_done(&fix);
}

TEST(a_full_segment_is_followed_by_the_prepared_one)
{
    struct journal_fix fix;
    struct journal_sealed sealed;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    journal_fix_drain(&fix); /* the entry of 1 is synced, 2 is prepared */
    ASSERT_TRUE(journal_fix_exists(&fix, "data/journal/0000000000000002.seg"));
    uint64_t lsn = 0;
    while (journal_segment(fix.journal) == 1) {
        write_ok(&fix, 500);
        lsn = fix.next_lsn - 1;
    }
    ASSERT_EQ(journal_segment(fix.journal), 2);
    ASSERT_FALSE(journal_sealed_next(fix.journal, 0, &sealed));
    ASSERT_TRUE(step(&fix));
    ASSERT_TRUE(journal_sealed_next(fix.journal, 0, &sealed));
    ASSERT_EQ(sealed.number, 1);
    ASSERT_EQ(sealed.last_lsn, lsn);
    ASSERT_GE(sealed.bytes, 2000);
    ASSERT_FALSE(journal_sealed_next(fix.journal, 1, &sealed));
    ASSERT_EQ(status_of(&fix).sealed_count, 1);
    ASSERT_EQ(journal_durable_lsn(fix.journal), lsn);
    journal_fix_done(&fix);
}

TEST(a_segment_grows_while_the_one_before_is_not_synced)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    fix.options.unsynced_bytes_max = 100000;
    journal_fix_open(&fix);
    journal_fix_drain(&fix);
    for (int i = 0; i < 20; i++)
        write_ok(&fix, 500);
    ASSERT_EQ(journal_segment(fix.journal), 2); /* 1 is not sealed yet */
    ASSERT_GT(status_of(&fix).segment_bytes, 6000);
    journal_fix_drain(&fix);
    write_ok(&fix, 500);
    ASSERT_EQ(journal_segment(fix.journal), 3);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    journal_fix_done(&fix);
}

TEST(rotate_begins_a_segment_and_names_the_mark_to_wait_for)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    ASSERT_EQ(journal_rotate(fix.journal), 0); /* nothing was written */
    ASSERT_EQ(journal_segment(fix.journal), 1);
    journal_fix_drain(&fix);
    write_ok(&fix, 10);
    ASSERT_EQ(journal_rotate(fix.journal), 1);
    ASSERT_EQ(journal_segment(fix.journal), 2);
    ASSERT_EQ(journal_rotate(fix.journal), 1);
    write_ok(&fix, 10);
    ASSERT_EQ(journal_rotate(fix.journal), 2); /* 1 is not synced: later */
    ASSERT_EQ(journal_segment(fix.journal), 2);
    journal_fix_drain(&fix);
    ASSERT_EQ(journal_rotate(fix.journal), 2);
    ASSERT_EQ(journal_segment(fix.journal), 3);
    journal_fix_done(&fix);
}

/* SAVE after a write, and silence: it woke up without end, a third of a core. */
TEST(with_nothing_to_sync_the_thread_sleeps)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    journal_fix_drain(&fix);
    clock_advance_ms(&fix.clock, 1000); /* a time of 0 means none */
    for (int round = 0; round < 2; round++) {
        write_ok(&fix, 10);
        if (round == 0)
            ASSERT_EQ(journal_rotate(fix.journal), 1);
        journal_fix_drain(&fix);
        clock_advance_ms(&fix.clock, 5000);
        journal_fix_drain(&fix);
        ASSERT_GE(journal__wait_ns(fix.journal), 1000000000);
    }
    journal_fix_done(&fix);
}

TEST(what_is_not_synced_stays_within_its_limit)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    for (int i = 0; i < 30; i++) {
        write_ok(&fix, 700);
        ASSERT_LE(status_of(&fix).unsynced_bytes, 3000);
    }
    ASSERT_GT(status_of(&fix).sync_count, 3);
    journal_fix_done(&fix);
}

TEST(chunks_are_used_again_while_there_is_more_to_sync_and_given_back_after)
{
    enum { TURN = 1024 * 1024, TURNS = 40 };
    struct journal journal = {.options.unsynced_bytes_max = (size_t)64 * 1024 * 1024};
    struct kept kept = {0};
    uint8_t *turn = mem_zalloc(TURN);
    for (int i = 0; i < TURNS; i++)
        journal__kept_add(&journal, &kept, bytes_of(turn, TURN));
    journal__kept_drop(&journal, &kept, (uint64_t)(TURNS - 1) * TURN);
    size_t free_count = journal.chunk_free_count;
    ASSERT_GT(free_count * sizeof(struct kept_chunk), (size_t)30 * TURN);
    ASSERT_LE(journal.kept_bytes + free_count * sizeof(struct kept_chunk), (size_t)32 * TURN);
    journal__kept_add(&journal, &kept, bytes_of(turn, TURN));
    ASSERT_LT(journal.chunk_free_count, free_count);
    journal__kept_drop(&journal, &kept, (uint64_t)2 * TURN);
    ASSERT_EQ(journal.chunk_free_count, KEPT_CHUNKS_FREE_MAX);
    journal__chunks_done(&journal);
    ASSERT_EQ(journal.chunk_free_count, 0);
    mem_free(turn);
}

TEST(a_turn_too_large_to_be_kept_is_durable_at_once)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    write_ok(&fix, 100);
    write_ok(&fix, 10000);
    ASSERT_EQ(journal_durable_lsn(fix.journal), fix.next_lsn - 1);
    journal_fix_crash(&fix, JOURNAL_FIX_POWER_CUT, 0);
    journal_fix_check(&fix, JOURNAL_FIX_POWER_CUT);
    ASSERT_EQ(fix.acked_count, 2);
    journal_fix_done(&fix);
}

TEST(a_failed_write_is_cut_back_and_the_next_takes_its_place)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    write_ok(&fix, 100);
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .rc = RC_FULL, .short_bytes = 50});
    ASSERT_RC(journal_fix_write(&fix, 100, &err), RC_FULL);
    ASSERT_TRUE(journal_disk_low(fix.journal));
    ASSERT_FALSE(journal_read_only(fix.journal));
    write_ok(&fix, 90);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_EQ(fix.acked_count, 2);
    journal_fix_done(&fix);
}

TEST(a_failed_sync_is_answered_by_a_copy_and_writing_goes_on)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    write_ok(&fix, 100);
    journal_fix_drain(&fix);
    write_ok(&fix, 200);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_SYNC, .count = 1, .rc = RC_IO});
    journal_fix_drain(&fix);
    ASSERT_EQ(status_of(&fix).sync_failure_count, 1);
    ASSERT_FALSE(journal_read_only(fix.journal));
    ASSERT_EQ(journal_durable_lsn(fix.journal), fix.next_lsn - 1);
    ASSERT_EQ(journal_segment(fix.journal), 1);
    write_ok(&fix, 300);
    journal_fix_drain(&fix);
    journal_fix_crash(&fix, JOURNAL_FIX_POWER_CUT, 0);
    journal_fix_check(&fix, JOURNAL_FIX_POWER_CUT);
    ASSERT_EQ(fix.acked_count, 3);
    journal_fix_done(&fix);
}

TEST(without_a_copy_the_journal_is_read_only_until_retry)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    write_ok(&fix, 100);
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_SYNC, .count = 1, .times = 3, .rc = RC_IO});
    journal_fix_drain(&fix);
    ASSERT_TRUE(journal_read_only(fix.journal));
    ASSERT_TRUE(strstr(status_of(&fix).reason, "simulated fault"));
    ASSERT_EQ(journal_durable_lsn(fix.journal), 999);
    ASSERT_RC(journal_fix_write(&fix, 10, &err), RC_READONLY);
    ASSERT_RC(journal_retry(fix.journal, &err), RC_IO);
    ASSERT_OK(journal_retry(fix.journal, &err), &err);
    ASSERT_EQ(status_of(&fix).reason[0], 0);
    ASSERT_EQ(journal_durable_lsn(fix.journal), fix.next_lsn - 1);
    write_ok(&fix, 10);
    journal_fix_drain(&fix);
    journal_fix_crash(&fix, JOURNAL_FIX_POWER_CUT, 0);
    journal_fix_check(&fix, JOURNAL_FIX_POWER_CUT);
    ASSERT_EQ(fix.acked_count, 2);
    journal_fix_done(&fix);
}

TEST(without_disk_space_the_journal_opens_read_only)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    file_sim_space(fix.sim, 10);
    journal_fix_open(&fix);
    ASSERT_TRUE(journal_read_only(fix.journal));
    ASSERT_EQ(journal_segment(fix.journal), 1);
    ASSERT_RC(journal_fix_write(&fix, 10, &err), RC_READONLY);
    ASSERT_EQ(journal_rotate(fix.journal), 0);
    journal_fix_drain(&fix);
    file_sim_space(fix.sim, 100000);
    ASSERT_OK(journal_retry(fix.journal, &err), &err);
    write_ok(&fix, 10);
    ASSERT_OK(journal_close(fix.journal, &err), &err);
    fix.journal = NULL;
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_EQ(fix.acked_count, 1);
    journal_fix_done(&fix);
}

TEST(the_disk_reserve_is_watched)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    fix.options.disk_reserve_bytes = 50000;
    file_sim_space(fix.sim, 100000);
    journal_fix_open(&fix);
    ASSERT_FALSE(journal_disk_low(fix.journal));
    file_sim_space(fix.sim, 40000);
    step(&fix);
    ASSERT_FALSE(journal_disk_low(fix.journal)); /* it looks once a second */
    clock_advance_ms(&fix.clock, 1001);
    uint64_t before = fix.notify_count;
    step(&fix);
    ASSERT_TRUE(journal_disk_low(fix.journal));
    ASSERT_GT(fix.notify_count, before);
    ASSERT_LE(status_of(&fix).disk_free_bytes, 40000);
    journal_fix_done(&fix);
}

TEST(sealed_segments_go_when_they_are_flushed_unless_pinned)
{
    struct journal_fix fix;
    struct journal_sealed sealed;
    struct err err = {0};
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    for (int i = 0; i < 3; i++) {
        journal_fix_drain(&fix);
        write_ok(&fix, 10);
        ASSERT_EQ(journal_rotate(fix.journal), i + 1);
    }
    journal_fix_drain(&fix);
    ASSERT_EQ(status_of(&fix).sealed_count, 3);
    ASSERT_OK(journal_remove(fix.journal, 1, &err), &err);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000001.seg"));
    journal_pin(fix.journal);
    ASSERT_OK(journal_remove(fix.journal, 2, &err), &err);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/journal/0000000000000002.seg"));
    journal_unpin(fix.journal);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000002.seg"));
    ASSERT_TRUE(journal_sealed_next(fix.journal, 0, &sealed));
    ASSERT_EQ(sealed.number, 3);
    ASSERT_OK(journal_remove(fix.journal, 2, &err), &err);
    ASSERT_EQ(status_of(&fix).sealed_count, 1);
    journal_fix_done(&fix);
}

TEST(a_file_that_cannot_be_removed_is_tried_again)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    journal_fix_drain(&fix);
    write_ok(&fix, 10);
    ASSERT_EQ(journal_rotate(fix.journal), 1);
    journal_fix_drain(&fix);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_REMOVE, .count = 1});
    ASSERT_RC(journal_remove(fix.journal, 1, &err), RC_IO);
    ASSERT_EQ(status_of(&fix).sealed_count, 1);
    ASSERT_OK(journal_remove(fix.journal, 1, &err), &err);
    ASSERT_EQ(status_of(&fix).sealed_count, 0);
    journal_fix_done(&fix);
}

TEST(closing_makes_everything_durable)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    fix.options.durability = DURABILITY_NO;
    journal_fix_open(&fix);
    for (int i = 0; i < 6; i++)
        write_ok(&fix, 400);
    ASSERT_OK(journal_close(fix.journal, &err), &err);
    fix.journal = NULL;
    fix.durable_lsn = fix.next_lsn - 1;
    file_sim_power_cut(fix.sim, false, NULL);
    journal_fix_check(&fix, JOURNAL_FIX_POWER_CUT);
    ASSERT_EQ(fix.acked_count, 6);
    journal_fix_done(&fix);
}

TEST(leftover_copies_are_removed_at_open)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    ASSERT_OK(files_make_dir(fix.options.files, "data/journal", &err), &err);
    ASSERT_OK(
        files_replace(fix.options.files, "data/journal/0000000000000001.seg.new", BYTES("x"), &err),
        &err);
    journal_fix_open(&fix);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000001.seg.new"));
    journal_fix_done(&fix);
}

TEST(an_error_may_go_unread)
{
    struct journal_fix fix;
    journal_fix_init(&fix);
    journal_fix_open(&fix);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_ANY, .count = 1, .times = -1});
    ASSERT_RC(journal_write(fix.journal, 1000, 1, BYTES("x"), NULL), RC_IO);
    ASSERT_RC(journal_retry(fix.journal, NULL), RC_IO);
    ASSERT_RC(journal_close(fix.journal, NULL), RC_IO);
    ASSERT_RC(journal_close(NULL, NULL), RC_OK);
    journal_abandon(NULL);
    fix.journal = NULL;
    journal_fix_done(&fix);
}

/* A body over the limit of a frame, on real files: the simulated ones copy too much. */
TEST(a_turn_of_several_frames_comes_back_whole)
{
    const char *dir = test_temp_dir();
    struct clock clock;
    struct rand rand;
    struct journal *journal = NULL;
    struct segment_reader *reader = NULL;
    struct segment_turn turn;
    struct err err = {0};
    char path[PATH_BYTES_MAX];
    size_t len = JOURNAL_FRAME_BODY_BYTES_MAX + 12345;
    uint8_t *body = mem_alloc(len);

    clock_init_manual(&clock, 1);
    rand_init_seed(&rand, 1);
    for (size_t i = 0; i < len; i++)
        body[i] = (uint8_t)(i * 2654435761u >> 24);
    struct journal_options options = {.files = (struct files *)&files_real,
                                      .dir = dir,
                                      .clock = &clock,
                                      .rand = &rand,
                                      .segment_bytes = 1000,
                                      .unsynced_bytes_max = 2 * len,
                                      .manual = true};
    struct journal_start start = {.next_number = 9};
    ASSERT_OK(journal_open(&options, &start, &journal, &err), &err);
    ASSERT_OK(journal_write(journal, 5, 2, bytes_of(body, len), &err), &err);
    ASSERT_OK(journal_close(journal, &err), &err);
    segment_path(path, dir, 9);
    ASSERT_OK(segment_open((struct files *)&files_real, path, &reader, &err), &err);
    ASSERT_OK(segment_next(reader, &turn, &err), &err);
    ASSERT_EQ(turn.body.len, len);
    ASSERT_TRUE(memcmp(turn.body.ptr, body, len) == 0);
    ASSERT_EQ(turn.end - turn.offset, len + 2 * FRAME_HEADER_BYTES);
    ASSERT_RC(segment_next(reader, &turn, &err), RC_NOT_FOUND);
    ASSERT_EQ(segment_reader_end(reader), SEGMENT_END_CLEAN);
    segment_close(reader);
    mem_free(body);
}

/* With threads, on real files. */

struct threads_fix {
    const char *dir;
    struct clock clock;
    struct rand rand;
    struct journal *journal;
    struct journal_options options;
    pthread_mutex_t lock;
    pthread_cond_t told;
    uint64_t told_count;
    _Atomic bool stop;
    uint64_t turn_count;
    _Atomic uint64_t removed_to; /* shared: atomic; the reader writes it */
};

static void threads_notify(void *arg)
{
    struct threads_fix *fix = arg;
    pthread_mutex_lock(&fix->lock);
    fix->told_count++;
    pthread_cond_broadcast(&fix->told);
    pthread_mutex_unlock(&fix->lock);
}

static void threads_open(struct threads_fix *fix, enum durability durability)
{
    struct err err = {0};
    struct journal_start start = {.next_number = 1};

    *fix = (struct threads_fix){.dir = test_temp_dir()};
    clock_init(&fix->clock);
    rand_init_seed(&fix->rand, 7);
    pthread_mutex_init(&fix->lock, NULL);
    pthread_cond_init(&fix->told, NULL);
    fix->options = (struct journal_options){.files = (struct files *)&files_real,
                                            .dir = fix->dir,
                                            .clock = &fix->clock,
                                            .rand = &fix->rand,
                                            .uuid = "threads",
                                            .durability = durability,
                                            .segment_bytes = 20000,
                                            .unsynced_bytes_max = 100000,
                                            .notify = threads_notify,
                                            .notify_arg = fix};
    ASSERT_OK(journal_open(&fix->options, &start, &fix->journal, &err), &err);
}

static void wait_durable(struct threads_fix *fix, uint64_t lsn)
{
    pthread_mutex_lock(&fix->lock);
    while (journal_durable_lsn(fix->journal) < lsn)
        pthread_cond_wait(&fix->told, &fix->lock);
    pthread_mutex_unlock(&fix->lock);
}

/* As the flusher: takes sealed segments away; reads what is for any thread. */
static void *threads_reader(void *arg)
{
    struct threads_fix *fix = arg;
    struct journal_status status;
    struct journal_sealed sealed;
    struct err err = {0};

    while (!fix->stop) {
        journal_status(fix->journal, &status);
        ASSERT_LE(status.durable_lsn, status.written_lsn);
        if (journal_sealed_next(fix->journal, fix->removed_to, &sealed)) {
            ASSERT_EQ(sealed.number, fix->removed_to + 1);
            if (sealed.number % 4 == 0)
                journal_pin(fix->journal);
            ASSERT_OK(journal_remove(fix->journal, sealed.number - 1, &err), &err);
            if (sealed.number % 4 == 0)
                journal_unpin(fix->journal);
            fix->removed_to = sealed.number;
        }
        journal_sync_ask(fix->journal);
        pthread_mutex_lock(&fix->lock);
        uint64_t told = fix->told_count;
        while (told == fix->told_count && !fix->stop)
            pthread_cond_wait(&fix->told, &fix->lock);
        pthread_mutex_unlock(&fix->lock);
    }
    return NULL;
}

static enum rc count_turn(const struct segment_turn *turn, uint64_t segment, void *arg,
                          struct err *err)
{
    struct threads_fix *fix = arg;
    (void)segment;
    (void)err;
    ASSERT_EQ(turn->body.len, 100 + turn->first_lsn % 2000);
    ASSERT_EQ(turn->body.ptr[0], (uint8_t)turn->first_lsn);
    fix->turn_count++;
    return RC_OK;
}

static void threads_run(enum durability durability)
{
    struct threads_fix fix;
    struct err err = {0};
    pthread_t reader;
    uint8_t body[2100];
    uint64_t lsn = 0;

    threads_open(&fix, durability);
    ASSERT_EQ(pthread_create(&reader, NULL, threads_reader, &fix), 0);
    for (int i = 0; i < 1500; i++) {
        lsn++;
        memset(body, (int)lsn, sizeof body);
        ASSERT_OK(journal_write(fix.journal, lsn, 1, bytes_of(body, 100 + lsn % 2000), &err), &err);
        if (i % 100 == 99)
            (void)journal_rotate(fix.journal);
        if (i % 200 == 0 && durability == DURABILITY_ALWAYS)
            wait_durable(&fix, lsn);
    }
    journal_sync_ask(fix.journal);
    wait_durable(&fix, lsn);
    while (fix.removed_to <= 3) /* the reader may have had no turn yet */
        threads_notify(&fix);
    fix.stop = true;
    threads_notify(&fix);
    pthread_join(reader, NULL);
    ASSERT_OK(journal_close(fix.journal, &err), &err);

    struct journal_recover_options options = {.files = fix.options.files,
                                              .dir = fix.dir,
                                              .turn = count_turn,
                                              .arg = &fix,
                                              .mark_segment = fix.removed_to - 1};
    struct journal_start start;
    memcpy(options.uuid, fix.options.uuid, sizeof options.uuid);
    ASSERT_OK(journal_recover(&options, &start, &err), &err);
    ASSERT_EQ(start.last_lsn, lsn);
    ASSERT_GT(fix.turn_count, 0);
    pthread_mutex_destroy(&fix.lock);
    pthread_cond_destroy(&fix.told);
}

TEST(threads_writer_and_flusher_share_a_journal_always)
{
    threads_run(DURABILITY_ALWAYS);
}

TEST(threads_writer_and_flusher_share_a_journal_no)
{
    threads_run(DURABILITY_NO);
}

TEST(threads_everysec_becomes_durable_by_itself)
{
    struct threads_fix fix;
    struct err err = {0};
    threads_open(&fix, DURABILITY_EVERYSEC);
    ASSERT_OK(journal_write(fix.journal, 1, 1, BYTES("x"), &err), &err);
    wait_durable(&fix, 1);
    ASSERT_OK(journal_close(fix.journal, &err), &err);
    pthread_mutex_destroy(&fix.lock);
    pthread_cond_destroy(&fix.told);
}

/* Syncs and writes fail now and then while both threads work. */
TEST(threads_failures_under_way_lose_nothing)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    fix.options.manual = false;
    fix.options.notify = NULL;
    fix.options.durability = DURABILITY_ALWAYS;
    journal_fix_open(&fix);
    for (int i = 0; i < 400; i++) {
        if (i % 7 == 0)
            file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_SYNC,
                                                           .count = 1 + (uint64_t)i % 3,
                                                           .times = 1 + i % 4});
        if (i % 11 == 0)
            file_sim_arm(fix.sim, &(struct file_sim_fault){
                                      .op = FILE_SIM_WRITE, .count = 2, .short_bytes = 30});
        enum rc rc = journal_fix_write(&fix, 50 + (size_t)i % 300, &err);
        if (rc == RC_READONLY)
            rc = journal_retry(fix.journal, &err);
        if (i % 50 == 0)
            (void)journal_rotate(fix.journal);
    }
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_GT(fix.acked_count, 100);
    journal_fix_done(&fix);
}
