// SPDX-License-Identifier: Apache-2.0
/* bench_journal.c - CPU of the executor for a turn: records, then journal_write(). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/journal/journal.h"
#include "store/journal/record.h"

#include "base/banned.h"

enum { TURN_COMMITS = 16, TURN_COUNT = 200000, WARM_COUNT = 20000 };

struct result {
    double record_ns;
    double write_us;
    double thread_us; /* the journal's thread, for a turn */
};

/* A commit is a put of 90 bytes: group key 24, value 58. */
static void turn_make(struct record_writer *writer, uint64_t turn)
{
    uint8_t key[24] = "namespace:", value[58] = {0};

    record_writer_clear(writer);
    for (uint64_t i = 0; i < TURN_COMMITS; i++) {
        uint64_t id = turn * TURN_COMMITS + i;
        memcpy(key + 12, &id, sizeof id);
        bool added = record_commit_begin(writer) &&
                     record_add(writer, RECORD_PUT, 1, bytes_of(key, 10), bytes_of(key + 10, 14),
                                bytes_of(NULL, 0), bytes_of(value, sizeof value), 0);
        ASSERT(added);
        record_commit_end(writer);
    }
}

static struct result run(const char *dir, enum durability durability)
{
    struct clock clock;
    struct rand rand;
    struct err err = {0};
    struct journal *journal = NULL;
    struct record_writer writer;
    struct result result = {0};
    uint64_t lsn = 1, process_ns = 0, executor_ns = 0, write_ns = 0, record_ns = 0;

    clock_init(&clock);
    rand_init_seed(&rand, 1);
    struct journal_options options = {.files = (struct files *)&files_real,
                                      .dir = dir,
                                      .clock = &clock,
                                      .rand = &rand,
                                      .durability = durability,
                                      .segment_bytes = 64 * 1024 * 1024,
                                      .unsynced_bytes_max = JOURNAL_UNSYNCED_BYTES_MAX};
    struct journal_start start = {.next_number = 1};
    enum rc rc = journal_open(&options, &start, &journal, &err);
    ASSERT(rc == RC_OK);
    record_writer_init(&writer, STORE_COMMIT_BYTES_MAX);
    for (uint64_t i = 0; i < TURN_COUNT; i++) {
        if (i == WARM_COUNT) {
            process_ns = clock_process_cpu_ns();
            executor_ns = clock_thread_cpu_ns();
            write_ns = record_ns = 0;
        }
        uint64_t before = clock_thread_cpu_ns();
        turn_make(&writer, i);
        uint64_t between = clock_thread_cpu_ns();
        rc = journal_write(journal, lsn, TURN_COMMITS, buf_bytes(&writer.body), &err);
        ASSERT(rc == RC_OK);
        write_ns += clock_thread_cpu_ns() - between;
        record_ns += between - before;
        lsn += TURN_COMMITS;
        struct journal_sealed sealed;
        if (i % 1000 == 0 && journal_sealed_next(journal, 0, &sealed)) {
            rc = journal_remove(journal, sealed.number, &err);
            ASSERT(rc == RC_OK);
        }
    }
    double turns = TURN_COUNT - WARM_COUNT;
    executor_ns = clock_thread_cpu_ns() - executor_ns;
    process_ns = clock_process_cpu_ns() - process_ns;
    result.write_us = (double)write_ns / turns / 1000;
    result.record_ns = (double)record_ns / turns / TURN_COMMITS;
    result.thread_us = (double)(process_ns - executor_ns) / turns / 1000;
    record_writer_done(&writer);
    rc = journal_close(journal, &err);
    ASSERT(rc == RC_OK);
    return result;
}

int main(void)
{
    static const char *const names[] = {"always", "everysec", "no"};
    char dir[] = "/tmp/terrace-bench-XXXXXX";
    struct err err = {0};

    if (!mkdtemp(dir))
        return 1;
    for (int i = DURABILITY_ALWAYS; i <= DURABILITY_NO; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        struct result result = run(path, (enum durability)i);
        printf("journal %-8s record_add %5.1f ns, journal_write %5.2f us a turn of %d, "
               "thread %5.2f us\n",
               names[i], result.record_ns, result.write_us, TURN_COMMITS, result.thread_us);
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", path);
        if (system(command) != 0)
            return 1;
    }
    return files_remove((struct files *)&files_real, dir, &err) == RC_OK ? 0 : 1;
}
