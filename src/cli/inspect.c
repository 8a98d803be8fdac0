// SPDX-License-Identifier: Apache-2.0
/* inspect.c - inspect: what is in a directory. Reads only. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "store/journal/journal_record.h"
#include "store/journal/record.h"
#include "store/journal/segment.h"
#include "store/restore.h"
#include "types/spaces.h"

#include "base/banned.h"

enum { SHOWN_BYTES = 64 }; /* of keys and values in lists */

struct inspect {
    const char *path;
    bool has_segment;
    uint64_t segment; /* only this one */
    bool frames;
    const char *rows; /* a space, by name or number */
    const char *key;
    struct bytes key_bytes; /* owned */
    struct store_dir dir;
    /* of the segments, in order */
    bool has_before;
    uint64_t before_bytes, before_lsn;
    uint32_t before_chain;
    uint64_t segment_count, found_count;
    bool whole; /* every segment is good and follows the one before */
    struct journal_record record;
};

/* ---- arguments ---- */

static bool number_parse(const char *text, uint64_t *ret_number)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret_number = strtoull(text, &end, 0); /* names of segments are hexadecimal */
    return errno == 0 && *end == 0;
}

/* Text as it is, or 0x and hex digits. */
static bool key_parse(const char *text, struct bytes *ret_bytes)
{
    size_t len = strlen(text);
    uint8_t *bytes = mem_dup(text, len + 1);
    *ret_bytes = bytes_of(bytes, len);
    if (strncmp(text, "0x", 2) != 0)
        return true;
    if (len % 2 != 0)
        return false;
    for (size_t i = 2; i < len; i += 2) {
        char digits[3] = {text[i], text[i + 1], 0};
        char *end = NULL;
        bytes[i / 2 - 1] = (uint8_t)strtoul(digits, &end, 16);
        if (end != digits + 2)
            return false;
    }
    ret_bytes->len = len / 2 - 1;
    return true;
}

static bool args_parse(struct inspect *inspect, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--frames") == 0) {
            inspect->frames = true;
        } else if (strcmp(argv[i], "--segment") == 0 && has_value) {
            inspect->has_segment = true;
            if (!number_parse(argv[++i], &inspect->segment))
                return false;
        } else if (strcmp(argv[i], "--rows") == 0 && has_value) {
            inspect->rows = argv[++i];
        } else if (strcmp(argv[i], "--key") == 0 && has_value) {
            inspect->key = argv[++i];
            if (!key_parse(inspect->key, &inspect->key_bytes))
                return false;
        } else if (argv[i][0] == '-' || inspect->path) {
            return false;
        } else {
            inspect->path = argv[i];
        }
    }
    return inspect->path != NULL;
}

/* ---- catalogue and engine ---- */

static const char *kind_name(enum space_kind kind)
{
    static const char *const names[] = {"none", "whole", "fixed", "length"};
    return names[kind];
}

static void print_catalog(const struct inspect *inspect)
{
    const struct catalog *catalog = &inspect->dir.catalog;
    printf("store ");
    print_hex(bytes_of(catalog->uuid, sizeof catalog->uuid), SIZE_MAX);
    printf(", incarnation %" PRIu32 "\n", catalog->incarnation);
    for (int i = 1; i < STORE_SPACES_MAX; i++) {
        const struct store_space *space = &catalog->spaces.space[i];
        if (space->kind != SPACE_NONE)
            printf("space %d %s, %s\n", i, space->name, kind_name(space->kind));
    }
    for (size_t i = 0; i < catalog->prefix_count; i++) {
        printf("prefix of space %u: ", catalog->prefix[i].space);
        print_quoted(catalog->prefix[i].bytes, SIZE_MAX);
        putchar('\n');
    }
}

static enum rc counter_print(struct bytes name, int64_t value, void *arg, struct err *err)
{
    (void)arg;
    (void)err;
    printf("  counter ");
    print_quoted(name, SIZE_MAX);
    printf(" %" PRId64 "\n", value);
    return RC_OK;
}

struct tally {
    uint64_t row_count, key_bytes, value_bytes;
};

static enum rc tally_space(const struct inspect *inspect, uint8_t space, struct tally *ret_tally,
                           struct err *err)
{
    struct engine *engine = inspect->dir.engine;
    uint8_t lower = space, upper = (uint8_t)(space + 1);
    struct engine_range range = {
        .lower = bytes_of(&lower, 1), .upper = bytes_of(&upper, 1), .once = true};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    struct tally tally = {0};
    enum rc rc = engine->ops->iter_open(engine, NULL, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    while ((rc = engine->ops->iter_next(iter, &key, &value, err)) == RC_OK) {
        tally.row_count++;
        tally.key_bytes += key.len;
        tally.value_bytes += value.len;
    }
    engine->ops->iter_close(iter);
    *ret_tally = tally;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc print_engine(const struct inspect *inspect, struct err *err)
{
    const struct store_dir *dir = &inspect->dir;
    struct engine_stats stats;
    dir->engine->ops->stats(dir->engine, &stats);
    if (dir->has_mark)
        printf("engine %s, %" PRIu64 " bytes, flushed up to segment %" PRIu64 ", LSN %" PRIu64 "\n",
               dir->engine->ops->name, stats.disk_bytes, dir->mark.segment, dir->mark.lsn);
    else
        printf("engine %s, nothing was flushed yet\n", dir->engine->ops->name);
    enum rc rc = sys_counters_walk(dir->engine, NULL, counter_print, NULL, err);
    for (int i = 1; rc == RC_OK && i < STORE_SPACES_MAX; i++) {
        struct tally tally;
        if (dir->catalog.spaces.space[i].kind == SPACE_NONE)
            continue;
        rc = tally_space(inspect, (uint8_t)i, &tally, err);
        if (rc == RC_OK)
            printf("  %s: %" PRIu64 " rows, %" PRIu64 " bytes of keys, %" PRIu64
                   " bytes of values\n",
                   dir->catalog.spaces.space[i].name, tally.row_count, tally.key_bytes,
                   tally.value_bytes);
    }
    return rc;
}

static const struct store_space *space_find(const struct inspect *inspect, const char *text)
{
    const struct space_set *set = &inspect->dir.catalog.spaces;
    uint64_t number;
    if (number_parse(text, &number) && number > 0 && number < STORE_SPACES_MAX &&
        set->space[number].kind != SPACE_NONE)
        return &set->space[number];
    for (int i = 1; i < STORE_SPACES_MAX; i++)
        if (set->space[i].kind != SPACE_NONE && strcmp(set->space[i].name, text) == 0)
            return &set->space[i];
    return NULL;
}

static enum rc print_rows(const struct inspect *inspect, struct err *err)
{
    struct engine *engine = inspect->dir.engine;
    const struct store_space *space = space_find(inspect, inspect->rows);
    if (!space)
        return err_set(err, RC_INVALID, "there is no space \"%s\" here", inspect->rows);
    uint8_t lower = space->number, upper = (uint8_t)(space->number + 1);
    struct engine_range range = {
        .lower = bytes_of(&lower, 1), .upper = bytes_of(&upper, 1), .once = true};
    struct engine_iter *iter = NULL;
    struct bytes key, value, group, suffix;
    uint8_t number;
    printf("rows of \"%s\" in the engine\n", space->name);
    enum rc rc = engine->ops->iter_open(engine, NULL, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    while ((rc = engine->ops->iter_next(iter, &key, &value, err)) == RC_OK) {
        rc = space_key_split(&inspect->dir.catalog.spaces, key, &number, &group, &suffix, err);
        if (rc != RC_OK)
            break;
        print_row(space, group, suffix, value, SHOWN_BYTES);
    }
    engine->ops->iter_close(iter);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- journal ---- */

static void print_record(const struct inspect *inspect, const struct record *record)
{
    const struct store_space *space = &inspect->dir.catalog.spaces.space[record->space];
    switch (record->kind) {
    case RECORD_PUT:
        printf("  put");
        print_row(space, record->group, record->suffix, record->value,
                  inspect->key ? SIZE_MAX : SHOWN_BYTES);
        return;
    case RECORD_DELETE:
        printf("  delete %s group ", space->name);
        print_quoted(record->group, SHOWN_BYTES);
        printf(" suffix ");
        print_quoted(record->suffix, SHOWN_BYTES);
        break;
    case RECORD_DROP_GROUP:
        printf("  drop group of %s ", space->name);
        print_quoted(record->group, SHOWN_BYTES);
        break;
    case RECORD_DROP_PREFIX:
        printf("  drop prefix of %s ", space->name);
        print_quoted(record->group, SHOWN_BYTES);
        break;
    case RECORD_COUNTER_ADD:
        printf("  counter ");
        print_quoted(record->group, SHOWN_BYTES);
        printf(" %+" PRId64, record->delta);
        break;
    }
    putchar('\n');
}

/* Whether a record is about the key that was asked for. */
static bool record_is_wanted(const struct inspect *inspect, const struct record *record)
{
    const struct catalog *catalog = &inspect->dir.catalog;
    if (!inspect->key)
        return true;
    if (record->space != SPACE_META)
        return false;
    for (size_t i = 0; i < catalog->prefix_count; i++) {
        struct bytes prefix = catalog->prefix[i].bytes;
        if (catalog->prefix[i].space == SPACE_META && bytes_start_with(record->group, prefix) &&
            bytes_eq(bytes_from(record->group, prefix.len), inspect->key_bytes))
            return true;
    }
    return false;
}

static enum rc print_turn(struct inspect *inspect, const struct segment_turn *turn, struct err *err)
{
    struct record_reader reader;
    struct record record;
    uint64_t lsn = turn->first_lsn;
    enum rc rc;
    record_reader_init(&reader, turn->body);
    if (!inspect->key)
        printf("  turn at %" PRIu64 "..%" PRIu64 ", %u commits, %zu bytes of records\n",
               turn->offset, turn->end, turn->commit_count, turn->body.len);
    while ((rc = record_next_commit(&reader, err)) == RC_OK) {
        if (!inspect->key)
            printf("  commit %" PRIu64 "\n", lsn);
        while ((rc = record_next(&reader, &record, err)) == RC_OK) {
            if (!record_is_wanted(inspect, &record))
                continue;
            if (inspect->key)
                printf("in the journal, commit %" PRIu64 "\n", lsn);
            inspect->found_count++;
            print_record(inspect, &record);
        }
        if (rc != RC_NOT_FOUND)
            return rc;
        lsn++;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static const char *end_name(enum segment_end end)
{
    switch (end) {
    case SEGMENT_END_NONE:
        return "not read";
    case SEGMENT_END_CLEAN:
        return "whole";
    case SEGMENT_END_TORN:
        return "torn tail (a start cuts it)";
    case SEGMENT_END_DAMAGED:
        return "DAMAGED";
    }
    return "unknown";
}

static bool chain_fits(const struct inspect *inspect, const struct segment_header *header)
{
    return !inspect->has_before || (header->bytes_before == inspect->before_bytes &&
                                    header->chain_before == inspect->before_chain &&
                                    header->last_lsn_before == inspect->before_lsn);
}

static void print_segment(struct inspect *inspect, uint64_t number, uint64_t turn_count,
                          uint64_t commit_count, uint64_t lsn_first,
                          const struct segment_reader *reader)
{
    bool fits = chain_fits(inspect, segment_reader_header(reader));
    enum segment_end end = segment_reader_end(reader);
    bool cut = inspect->record.number == number &&
               inspect->record.salt == segment_reader_header(reader)->salt &&
               inspect->record.bytes > segment_reader_offset(reader);
    inspect->whole = inspect->whole && fits && end == SEGMENT_END_CLEAN && !cut;
    if (inspect->key)
        return;
    printf("segment %" PRIu64 ": %" PRIu64 " bytes, %" PRIu64 " frames, %" PRIu64 " commits",
           number, segment_reader_offset(reader), turn_count, commit_count);
    if (turn_count > 0)
        printf(", LSN %" PRIu64 "..%" PRIu64, lsn_first, segment_reader_last_lsn(reader));
    printf(", %s", cut ? end_name(SEGMENT_END_DAMAGED) : end_name(end));
    if (cut || end == SEGMENT_END_TORN || end == SEGMENT_END_DAMAGED)
        printf(" at offset %" PRIu64 ": %s", segment_reader_offset(reader),
               segment_reader_reason(reader));
    if (cut)
        printf("%s%" PRIu64 " bytes of it were on disk", end == SEGMENT_END_CLEAN ? "" : ", and ",
               inspect->record.bytes);
    printf(", chain %s%s\n", fits ? "ok" : "BROKEN",
           number <= inspect->dir.mark.segment ? ", flushed" : "");
}

/* A file without a byte was prepared for the next segment. */
static enum rc segment_is_empty(const struct inspect *inspect, const char *path, bool *ret_empty,
                                struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    uint64_t size = 0;
    enum rc rc = file_open(inspect->dir.files, path, FILE_READ, &file, err);
    if (rc == RC_OK)
        rc = file_size(file, &size, err);
    *ret_empty = size == 0;
    return rc;
}

static enum rc segment_bad_header(struct inspect *inspect, uint64_t number, const char *path,
                                  const char *why, struct err *err)
{
    bool empty = false;
    enum rc rc = segment_is_empty(inspect, path, &empty, err);
    if (rc != RC_OK)
        return rc;
    inspect->whole = inspect->whole && empty;
    inspect->has_before = false;
    if (inspect->key || (inspect->has_segment && inspect->segment != number))
        return RC_OK;
    if (empty)
        printf("segment %" PRIu64 ": prepared, empty\n", number);
    else
        printf("segment %" PRIu64 ": DAMAGED at offset 0: %s\n", number, why);
    return RC_OK;
}

static enum rc segment_read(struct inspect *inspect, uint64_t number, struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    char path[PATH_BYTES_MAX];
    struct segment_turn turn;
    uint64_t turn_count = 0, commit_count = 0, lsn_first = 0;
    bool shown = !inspect->has_segment || inspect->segment == number;
    segment_path(path, inspect->dir.journal_dir, number);
    struct err bad = {0};
    enum rc rc = segment_open(inspect->dir.files, path, &reader, &bad);
    if (rc == RC_CORRUPT || rc == RC_VERSION)
        return segment_bad_header(inspect, number, path, bad.text, err);
    if (rc != RC_OK)
        return err_set(err, rc, "%s", bad.text);
    while ((rc = segment_next(reader, &turn, err)) == RC_OK) {
        lsn_first = turn_count++ ? lsn_first : turn.first_lsn;
        commit_count += turn.commit_count;
        if (shown && (inspect->frames || inspect->key))
            rc = print_turn(inspect, &turn, err);
        if (rc != RC_OK)
            return rc;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    if (shown)
        print_segment(inspect, number, turn_count, commit_count, lsn_first, reader);
    inspect->has_before = true;
    inspect->before_bytes = segment_reader_offset(reader);
    inspect->before_lsn = segment_reader_last_lsn(reader);
    inspect->before_chain = segment_reader_chain(reader);
    inspect->segment_count++;
    return RC_OK;
}

static enum rc name_read(const char *name, void *arg, struct err *err)
{
    struct inspect *inspect = arg;
    uint64_t number;
    if (segment_name_parse(name, &number) != RC_OK)
        return RC_OK;
    return segment_read(inspect, number, err);
}

static enum rc print_journal(struct inspect *inspect, struct err *err)
{
    inspect->whole = true;
    enum rc rc = journal_record_read(inspect->dir.files, inspect->dir.journal_dir,
                                     inspect->dir.catalog.uuid, &inspect->record, err);
    if (rc == RC_OK)
        rc = files_list(inspect->dir.files, inspect->dir.journal_dir, name_read, inspect, err);
    if (rc == RC_OK && !inspect->whole && !inspect->key)
        printf("the journal is not whole: a start cuts what is torn and refuses what is damaged; "
               "terrace repair %s moves that away\n",
               inspect->path);
    return rc;
}

/* ---- one key ---- */

static enum rc print_key(struct inspect *inspect, struct err *err)
{
    const struct catalog *catalog = &inspect->dir.catalog;
    struct engine *engine = inspect->dir.engine;
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, STORE_PREFIX_BYTES_MAX + 1 + STORE_GROUP_KEY_BYTES_MAX);
    buf_init(&value, STORE_VALUE_BYTES_MAX);
    for (size_t i = 0; i < catalog->prefix_count; i++) {
        uint8_t space = catalog->prefix[i].space;
        if (space != SPACE_META)
            continue;
        buf_cut(&key, 0);
        buf_cut(&value, 0);
        if (!buf_add(&key, &space, 1) || !buf_add_bytes(&key, catalog->prefix[i].bytes) ||
            !buf_add_bytes(&key, inspect->key_bytes))
            return err_set(err, RC_TOO_BIG, "the key is over the limit");
        enum rc rc = engine->ops->get(engine, NULL, buf_bytes(&key), ENGINE_TIER_ALL, &value, err);
        if (rc == RC_NOT_FOUND)
            continue;
        if (rc != RC_OK)
            return rc;
        inspect->found_count++;
        printf("in the engine\n");
        print_row(&catalog->spaces.space[space], bytes_from(buf_bytes(&key), 1), BYTES(""),
                  buf_bytes(&value), SIZE_MAX);
    }
    return RC_OK;
}

static enum rc inspect_run(struct inspect *inspect, struct err *err)
{
    if (inspect->key) {
        enum rc rc = print_key(inspect, err);
        if (rc == RC_OK)
            rc = print_journal(inspect, err);
        if (rc == RC_OK && inspect->found_count == 0)
            rc = err_set(err, RC_NOT_FOUND, "no such key");
        return rc;
    }
    if (inspect->rows)
        return print_rows(inspect, err);
    print_catalog(inspect);
    enum rc rc = print_engine(inspect, err);
    return rc == RC_OK ? print_journal(inspect, err) : rc;
}

int cli_inspect(int argc, char **argv)
{
    struct inspect inspect = {0};
    struct err err = {0};
    enum rc rc = RC_INVALID;
    if (args_parse(&inspect, argc, argv)) {
        rc = store_dir_open(&inspect.dir, (struct files *)(uintptr_t)&files_real,
                            &engine_rocksdb_ops, inspect.path, &err);
        if (rc == RC_OK)
            rc = inspect_run(&inspect, &err);
        store_dir_done(&inspect.dir);
    } else {
        err_set(&err, RC_INVALID,
                "usage: terrace inspect DIR [--segment N] [--frames] [--rows SPACE] [--key KEY]");
    }
    mem_free((void *)(uintptr_t)inspect.key_bytes.ptr);
    return rc == RC_OK ? 0 : cli_fail("%s", err.text);
}
