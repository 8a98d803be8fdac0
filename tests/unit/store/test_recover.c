// SPDX-License-Identifier: Apache-2.0
#include "store/journal/recover.h"

#include <stdio.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "support/journal_fix.h"
#include "test.h"

#include "base/banned.h"

/* Segments 1, 2 and 3 with two turns each, all synced but the turns of 3; 4 is prepared. */
static void fix_three(struct journal_fix *fix)
{
    struct err err = {0};
    journal_fix_init(fix);
    journal_fix_open(fix);
    for (int i = 0; i < 6; i++) {
        ASSERT_OK(journal_fix_write(fix, 100, &err), &err);
        journal_fix_drain(fix);
        if (i % 2 == 1 && i < 5) {
            ASSERT_EQ(journal_rotate(fix->journal), 1 + i / 2);
            journal_fix_drain(fix);
        }
    }
    journal_fix_crash(fix, JOURNAL_FIX_PROCESS_END, 0);
}

static void flip(struct journal_fix *fix, uint64_t number, size_t at)
{
    struct buf bytes;
    journal_fix_read(fix, number, &bytes);
    bytes.ptr[at] ^= 0x10;
    journal_fix_replace(fix, number, buf_bytes(&bytes));
    buf_done(&bytes);
}

static void expect_refused(struct journal_fix *fix, enum rc rc, const char *part)
{
    struct err err = {0};
    ASSERT_RC(journal_fix_recover(fix, 0, false, NULL, &err), rc);
    if (!strstr(err.text, part))
        test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", part, err.text);
}

TEST(an_empty_directory_starts_at_the_mark)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    ASSERT_OK(journal_fix_recover(&fix, 41, false, NULL, &err), &err);
    ASSERT_EQ(fix.start.next_number, 42);
    ASSERT_EQ(fix.start.last_lsn, 999);
    ASSERT_EQ(fix.start.bytes_before, 0);
    journal_fix_done(&fix);
}

TEST(all_turns_come_back_and_the_prepared_file_goes)
{
    struct journal_fix fix;
    fix_three(&fix);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/journal/0000000000000004.seg"));
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000004.seg"));
    ASSERT_EQ(fix.start.next_number, 4);
    ASSERT_EQ(fix.sealed_count, 3);
    journal_fix_done(&fix);
}

TEST(segments_up_to_the_mark_are_removed_and_not_read)
{
    struct journal_fix fix;
    struct err err = {0};
    fix_three(&fix);
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    flip(&fix, 1, 200);
    ASSERT_OK(journal_fix_recover(&fix, 2, false, NULL, &err), &err);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000001.seg"));
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000002.seg"));
    ASSERT_EQ(fix.recovered_count, 6);
    ASSERT_EQ(fix.sealed_count, 1);
    ASSERT_EQ(fix.start.next_number, 4);
    ASSERT_OK(journal_fix_recover(&fix, 3, false, NULL, &err), &err);
    ASSERT_EQ(fix.start.next_number, 4);
    ASSERT_EQ(fix.sealed_count, 0);
    journal_fix_done(&fix);
}

TEST(a_segment_from_before_the_mark_does_not_follow_it)
{
    struct journal_fix fix;
    struct err err = {0};
    struct journal_start start;
    fix_three(&fix);
    struct journal_recover_options options = {
        .files = fix.options.files, .dir = fix.options.dir, .mark_segment = 1, .mark_lsn = 100000};
    memcpy(options.uuid, fix.options.uuid, sizeof options.uuid);
    ASSERT_RC(journal_recover(&options, &start, &err), RC_CORRUPT);
    ASSERT_TRUE(strstr(err.text, "begins before what was flushed"));
    journal_fix_done(&fix);
}

/* Segment 3 was begun, the begin was taken back, 2 grew and was flushed, and the header of the
 * second begin was lost in a power cut. `frame`: what is behind the header. */
static enum rc recover_taken_back(struct journal_fix *fix, struct bytes frame,
                                  struct journal_start *ret_start, struct err *err)
{
    struct buf bytes;
    fix_three(fix);
    struct segment_header header = {
        .format = SEGMENT_FORMAT, .number = 3, .last_lsn_before = 1001, .bytes_before = 300};
    memcpy(header.uuid, fix->options.uuid, sizeof header.uuid);
    buf_init(&bytes, 4096);
    ASSERT_TRUE(segment_header_add(&header, &bytes) && buf_add_bytes(&bytes, frame));
    journal_fix_replace(fix, 3, buf_bytes(&bytes));
    buf_done(&bytes);
    struct journal_recover_options options = {
        .files = fix->options.files, .dir = fix->options.dir, .mark_segment = 2, .mark_lsn = 1003};
    memcpy(options.uuid, fix->options.uuid, sizeof options.uuid);
    return journal_recover(&options, ret_start, err);
}

TEST(an_empty_segment_from_before_the_mark_is_a_begin_that_was_taken_back)
{
    struct journal_fix fix;
    struct err err = {0};
    struct journal_start start;
    ASSERT_OK(recover_taken_back(&fix, BYTES(""), &start, &err), &err);
    ASSERT_EQ(start.next_number, 3);
    ASSERT_EQ(start.last_lsn, 1003);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000003.seg"));
    journal_fix_done(&fix);
}

TEST(a_begin_that_was_taken_back_is_not_dropped_with_a_frame_that_was_synced)
{
    struct journal_fix fix;
    struct err err = {0};
    struct journal_start start;
    uint8_t frame[FRAME_HEADER_BYTES + 8] = FRAME_MAGIC;
    le32_put(frame + 4, 8);
    le32_put(frame + 16, 1);
    le64_put(frame + 24, 1); /* of another salt than the header's */
    ASSERT_RC(recover_taken_back(&fix, bytes_of(frame, sizeof frame), &start, &err), RC_CORRUPT);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/journal/0000000000000003.seg"));
    journal_fix_done(&fix);
}

TEST(a_missing_segment_is_named)
{
    struct journal_fix fix;
    struct err err = {0};
    fix_three(&fix);
    ASSERT_OK(files_remove(fix.options.files, "data/journal/0000000000000002.seg", &err), &err);
    expect_refused(&fix, RC_CORRUPT, "segment 0000000000000002 before it is missing");
    journal_fix_done(&fix);
}

TEST(swapped_segments_are_refused)
{
    struct journal_fix fix;
    struct buf two, three;
    fix_three(&fix);
    journal_fix_read(&fix, 2, &two);
    journal_fix_read(&fix, 3, &three);
    journal_fix_replace(&fix, 3, buf_bytes(&two));
    journal_fix_replace(&fix, 2, buf_bytes(&three));
    expect_refused(&fix, RC_CORRUPT, "its number is not that of its name");
    buf_done(&two);
    buf_done(&three);
    journal_fix_done(&fix);
}

TEST(a_segment_of_another_store_is_refused)
{
    struct journal_fix fix;
    fix_three(&fix);
    fix.options.uuid[3] ^= 1;
    expect_refused(&fix, RC_CORRUPT, "belongs to another store");
    journal_fix_done(&fix);
}

/* The same store and number and a good checksum, but from another life of it. */
TEST(a_segment_that_does_not_fit_the_chain_is_refused)
{
    struct journal_fix fix;
    struct buf two;
    fix_three(&fix);
    journal_fix_read(&fix, 2, &two);
    uint32_t len = SEGMENT_FIXED_BYTES + le32_get(two.ptr + 68);
    le32_put(two.ptr + 64, le32_get(two.ptr + 64) ^ 1);
    le32_put(two.ptr + len, crc32c(0, two.ptr, len));
    journal_fix_replace(&fix, 2, buf_bytes(&two));
    expect_refused(&fix, RC_CORRUPT, "does not follow the segment before it");
    buf_done(&two);
    journal_fix_done(&fix);
}

TEST(an_unknown_format_is_refused_as_such)
{
    struct journal_fix fix;
    struct buf three;
    fix_three(&fix);
    journal_fix_read(&fix, 3, &three);
    uint32_t len = SEGMENT_FIXED_BYTES + le32_get(three.ptr + 68);
    le32_put(three.ptr + 8, 2);
    le32_put(three.ptr + len, crc32c(0, three.ptr, len));
    journal_fix_replace(&fix, 3, buf_bytes(&three));
    expect_refused(&fix, RC_VERSION, "format 2");
    buf_done(&three);
    journal_fix_done(&fix);
}

/* Any flipped byte of segments that were synced whole: refused, or, at the very end of what has a
 * mark, a first part. Never another turn: the fixture compares each. */
TEST(no_flipped_byte_of_a_synced_segment_is_overlooked)
{
    struct journal_fix fix;
    struct buf bytes[4];
    struct err err = {0};

    fix_three(&fix);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    for (uint64_t number = 1; number <= 3; number++)
        journal_fix_read(&fix, number, &bytes[number]);
    for (uint64_t number = 1; number <= 2; number++) {
        for (size_t at = 0; at < bytes[number].len; at++) {
            bytes[number].ptr[at] ^= (uint8_t)(1 << at % 8);
            journal_fix_replace(&fix, number, buf_bytes(&bytes[number]));
            enum rc rc = journal_fix_recover(&fix, 0, false, NULL, &err);
            ASSERT_RC(rc, RC_CORRUPT);
            ASSERT_TRUE(strstr(err.text, "terrace repair data"));
            ASSERT_TRUE(strstr(err.text, number == 1 ? "0001.seg" : "0002.seg"));
            bytes[number].ptr[at] ^= (uint8_t)(1 << at % 8);
        }
        journal_fix_replace(&fix, number, buf_bytes(&bytes[number]));
    }
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 6);
    for (uint64_t number = 1; number <= 3; number++)
        buf_done(&bytes[number]);
    journal_fix_done(&fix);
}

TEST(a_flipped_byte_in_the_last_segment_is_refused_or_cuts_its_last_turn)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};

    fix_three(&fix);
    journal_fix_read(&fix, 3, &bytes);
    for (size_t at = 0; at < bytes.len; at++) {
        bytes.ptr[at] ^= (uint8_t)(1 << at % 8);
        journal_fix_replace(&fix, 3, buf_bytes(&bytes));
        bytes.ptr[at] ^= (uint8_t)(1 << at % 8);
        enum rc rc = journal_fix_recover(&fix, 0, false, NULL, &err);
        if (rc == RC_OK) /* the last turn has no later frame that vouches for it */
            ASSERT_EQ(fix.recovered_count, 5);
        else
            ASSERT_RC(rc, RC_CORRUPT);
    }
    buf_done(&bytes);
    journal_fix_done(&fix);
}

static void record_remove(struct journal_fix *fix)
{
    struct err err = {0};
    ASSERT_OK(files_remove(file_sim_files(fix->sim), "data/journal/synced", &err), &err);
}

TEST(the_last_segment_cut_below_what_was_synced_is_damage)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};

    fix_three(&fix);
    journal_fix_read(&fix, 3, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        journal_fix_replace(&fix, 3, bytes_of(bytes.ptr, len));
        expect_refused(&fix, RC_CORRUPT, "terrace repair data");
    }
    journal_fix_replace(&fix, 3, buf_bytes(&bytes));
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 6);
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(a_changed_byte_below_what_was_synced_is_damage)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};

    fix_three(&fix);
    journal_fix_read(&fix, 3, &bytes);
    flip(&fix, 3, bytes.len - 1);
    expect_refused(&fix, RC_CORRUPT, "were on disk");
    ASSERT_OK(journal_fix_recover(&fix, 0, true, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 5);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/synced"));
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(a_torn_tail_above_what_was_synced_is_cut_and_kept_in_lost)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};
    char lost[64];

    journal_fix_init(&fix);
    journal_fix_open(&fix);
    ASSERT_OK(journal_fix_write(&fix, 100, &err), &err);
    journal_fix_drain(&fix);
    ASSERT_OK(journal_fix_write(&fix, 100, &err), &err);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_read(&fix, 1, &bytes);
    flip(&fix, 1, bytes.len - 1);
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 1);
    snprintf(lost, sizeof lost, "data/lost/0000000000000001.seg.at-%zu",
             bytes.len - FRAME_HEADER_BYTES - 100);
    ASSERT_TRUE(journal_fix_exists(&fix, lost));
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(a_segment_that_was_synced_and_is_missing_is_damage)
{
    struct journal_fix fix;
    struct err err = {0};

    fix_three(&fix);
    ASSERT_OK(files_remove(file_sim_files(fix.sim), "data/journal/0000000000000004.seg", &err),
              &err);
    ASSERT_OK(files_remove(file_sim_files(fix.sim), "data/journal/0000000000000003.seg", &err),
              &err);
    expect_refused(&fix, RC_CORRUPT, "0003.seg\" is missing");
    ASSERT_OK(journal_fix_recover(&fix, 0, true, NULL, &err), &err);
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 4);
    journal_fix_done(&fix);
}

TEST(a_record_that_is_torn_or_of_another_store_says_nothing)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};
    struct buf record;

    fix_three(&fix);
    buf_init(&record, SIZE_MAX);
    ASSERT_OK(files_read_all(file_sim_files(fix.sim), "data/journal/synced", &record, &err), &err);
    journal_fix_read(&fix, 3, &bytes);
    for (size_t at = 0; at < record.len; at++) {
        record.ptr[at] ^= 1;
        ASSERT_OK(
            files_replace(file_sim_files(fix.sim), "data/journal/synced", buf_bytes(&record), &err),
            &err);
        record.ptr[at] ^= 1;
        journal_fix_replace(&fix, 3, bytes_of(bytes.ptr, bytes.len - 1));
        ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
        ASSERT_EQ(fix.recovered_count, 5);
    }
    buf_done(&record);
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(the_last_segment_cut_anywhere_keeps_the_turns_before)
{
    struct journal_fix fix;
    struct buf bytes;
    struct err err = {0};

    fix_three(&fix);
    record_remove(&fix); /* nobody knows what was synced but the frames */
    journal_fix_read(&fix, 3, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        journal_fix_replace(&fix, 3, bytes_of(bytes.ptr, len));
        ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
        ASSERT_GE(fix.recovered_count, 4);
        ASSERT_LE(fix.recovered_count, 5);
        ASSERT_EQ(fix.start.next_number, fix.recovered_count == 4 ? 3 : 4);
    }
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(a_cut_segment_whose_successor_was_synced_is_damage)
{
    struct journal_fix fix;
    struct buf bytes;
    fix_three(&fix);
    journal_fix_read(&fix, 2, &bytes);
    journal_fix_replace(&fix, 2, bytes_of(bytes.ptr, bytes.len - 1));
    expect_refused(&fix, RC_CORRUPT, "0002.seg\" at offset");
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(what_was_never_durable_is_dropped_with_its_successor)
{
    struct journal_fix fix;
    struct err err = {0};
    struct buf bytes;

    journal_fix_init(&fix);
    fix.options.durability = DURABILITY_NO;
    journal_fix_open(&fix);
    journal_fix_drain(&fix);
    ASSERT_OK(journal_fix_write(&fix, 100, &err), &err);
    ASSERT_OK(journal_fix_write(&fix, 100, &err), &err);
    ASSERT_EQ(journal_rotate(fix.journal), 1);
    ASSERT_OK(journal_fix_write(&fix, 100, &err), &err);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_read(&fix, 1, &bytes);
    journal_fix_replace(&fix, 1, bytes_of(bytes.ptr, bytes.len - 1));
    ASSERT_OK(journal_fix_recover(&fix, 0, false, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 1);
    ASSERT_EQ(fix.start.next_number, 2);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000002.seg"));
    buf_done(&bytes);
    journal_fix_done(&fix);
}

TEST(repair_moves_the_damage_and_what_follows)
{
    struct journal_fix fix;
    struct buf report, moved;
    struct err err = {0};

    fix_three(&fix);
    buf_init(&report, 10000);
    buf_init(&moved, 10000);
    struct buf two;
    journal_fix_read(&fix, 2, &two);
    size_t second_turn = two.len - 140;
    flip(&fix, 2, second_turn + 60);
    ASSERT_OK(journal_fix_recover(&fix, 0, true, &report, &err), &err);
    ASSERT_EQ(fix.recovered_count, 3);
    ASSERT_EQ(fix.start.next_number, 3);
    ASSERT_EQ(fix.start.bytes_before, second_turn);
    ASSERT_TRUE(buf_add(&report, "", 1));
    ASSERT_TRUE(strstr((const char *)report.ptr, "data/lost/0000000000000002.seg.at-"));
    ASSERT_TRUE(strstr((const char *)report.ptr, "data/lost/0000000000000003.seg.at-0\""));
    char path[128];
    snprintf(path, sizeof path, "data/lost/0000000000000002.seg.at-%zu", second_turn);
    ASSERT_OK(files_read_all(fix.options.files, path, &moved, &err), &err);
    ASSERT_EQ(moved.len, 140);
    ASSERT_FALSE(journal_fix_exists(&fix, "data/journal/0000000000000003.seg"));

    /* What is left is whole: it opens, is written to, and recovers. */
    fix.acked_count = 3;
    fix.next_lsn = fix.start.last_lsn + 1;
    journal_fix_open(&fix);
    ASSERT_OK(journal_fix_write(&fix, 50, &err), &err);
    journal_fix_crash(&fix, JOURNAL_FIX_PROCESS_END, 0);
    journal_fix_check(&fix, JOURNAL_FIX_PROCESS_END);
    ASSERT_EQ(fix.acked_count, 4);
    buf_done(&report);
    buf_done(&moved);
    buf_done(&two);
    journal_fix_done(&fix);
}

TEST(repair_gets_over_a_gap_and_over_a_bad_header)
{
    struct journal_fix fix;
    struct err err = {0};

    fix_three(&fix);
    ASSERT_OK(files_remove(fix.options.files, "data/journal/0000000000000002.seg", &err), &err);
    ASSERT_OK(journal_fix_recover(&fix, 0, true, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 2);
    ASSERT_EQ(fix.start.next_number, 2);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/lost/0000000000000003.seg.at-0"));
    journal_fix_done(&fix);

    fix_three(&fix);
    flip(&fix, 2, 40);
    ASSERT_OK(journal_fix_recover(&fix, 0, true, NULL, &err), &err);
    ASSERT_EQ(fix.recovered_count, 2);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/lost/0000000000000002.seg.at-0"));
    ASSERT_TRUE(journal_fix_exists(&fix, "data/lost/0000000000000003.seg.at-0"));
    journal_fix_done(&fix);
}

static enum rc refuse_turn(const struct segment_turn *turn, uint64_t segment, void *arg,
                           struct err *err)
{
    (void)turn;
    (void)segment;
    (void)arg;
    return err_set(err, RC_NOMEM, "no more");
}

TEST(an_error_of_the_listener_ends_the_recovery)
{
    struct journal_fix fix;
    struct err err = {0};
    struct journal_start start;
    fix_three(&fix);
    struct journal_recover_options options = {
        .files = fix.options.files, .dir = fix.options.dir, .turn = refuse_turn};
    memcpy(options.uuid, fix.options.uuid, sizeof options.uuid);
    ASSERT_RC(journal_recover(&options, &start, &err), RC_NOMEM);
    journal_fix_done(&fix);
}

static enum rc follows(struct journal_fix *fix, uint64_t mark_segment)
{
    struct err err = {0};
    return journal_follows(fix->options.files, fix->options.dir, fix->options.uuid, mark_segment,
                           &err);
}

TEST(a_journal_follows_a_mark_if_it_has_all_that_was_written_above_it)
{
    struct journal_fix fix;
    struct err err = {0};
    journal_fix_init(&fix);
    ASSERT_RC(follows(&fix, 0), RC_OK); /* a store that has not begun */
    ASSERT_RC(follows(&fix, 1), RC_CORRUPT);
    journal_fix_done(&fix);

    fix_three(&fix);
    for (uint64_t mark = 0; mark < 4; mark++)
        ASSERT_RC(follows(&fix, mark), RC_OK);
    ASSERT_RC(follows(&fix, 4), RC_CORRUPT); /* nothing is above it that a unit could be in */
    ASSERT_OK(files_remove(fix.options.files, "data/journal/0000000000000002.seg", &err), &err);
    ASSERT_RC(follows(&fix, 0), RC_CORRUPT);
    ASSERT_RC(follows(&fix, 1), RC_CORRUPT);
    ASSERT_RC(follows(&fix, 2), RC_OK);
    ASSERT_TRUE(journal_fix_exists(&fix, "data/journal/0000000000000001.seg"));
    journal_fix_done(&fix);
}
