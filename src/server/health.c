// SPDX-License-Identifier: Apache-2.0
/* health.c - the store does not log; its troubles are told here, once each. */
#include "server/server_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/turns.h"

#include "base/banned.h"

#define WATCH_NS UINT64_C(1000000000)

static void watch_journal(struct server_health *health, const struct journal_status *journal)
{
    if (journal->read_only && !health->read_only)
        log_error("the journal cannot be written, writing commands are refused until it can: %s",
                  journal->reason);
    else if (!journal->read_only && health->read_only)
        log_info("the journal can be written again");
    health->read_only = journal->read_only;
    if (journal->disk_low && !health->disk_low)
        log_warn("the disk has %" PRIu64 " bytes free, less than its reserve; only deleting "
                 "commands run until there is more",
                 journal->disk_free_bytes);
    else if (!journal->disk_low && health->disk_low)
        log_info("the disk has room again");
    health->disk_low = journal->disk_low;
}

static void watch_engine(struct server_health *health, const struct store_stats *stats)
{
    if (stats->engine_closed && !health->engine_closed)
        log_error("the engine had an error and could not be opened again, trying on; what is not "
                  "in memory cannot be read: %s",
                  stats->flush_reason);
    else if (stats->engine_reopen_count != health->engine_reopen_count)
        log_warn("the engine had an error and was opened again (engine_reopens is %" PRIu64 "): %s",
                 stats->engine_reopen_count, stats->engine_reopen_reason);
    health->engine_closed = stats->engine_closed;
    health->engine_reopen_count = stats->engine_reopen_count;
}

/* The name of the table in an error of the engine; the rest differs with every block. */
static void table_name(const char *text, char to[HEALTH_NAME_BYTES])
{
    const char *end = strstr(text, ".sst"), *begin = end;
    while (begin && begin > text && begin[-1] != '/')
        begin--;
    int len = end && end - begin < HEALTH_NAME_BYTES - 4 ? (int)(end - begin) + 4 : 0;
    snprintf(to, HEALTH_NAME_BYTES, "%.*s", len, begin ? begin : "");
}

/* A damaged file fails in thousands of reads; each file is told once. */
static void watch_loads(struct server *server, const struct store_stats *stats)
{
    struct server_health *health = &server->health;
    char name[HEALTH_NAME_BYTES];
    bool more = stats->load_failed_count != health->load_failed_count;
    health->load_failed_count = stats->load_failed_count;
    if (!more || strncmp(stats->load_failed_reason, "could not read", 14) != 0)
        return;
    table_name(stats->load_failed_reason, name);
    for (size_t i = 0; i < health->damaged_count; i++)
        if (strcmp(health->damaged[i], name) == 0)
            return;
    if (health->damaged_count == HEALTH_FILES_MAX)
        return;
    memcpy(health->damaged[health->damaged_count++], name, sizeof name);
    log_error("a read from the engine failed, and its command answered an error: %s; for what is "
              "damaged stop the server and run: terrace repair %s",
              stats->load_failed_reason, server->config->dir);
}

void server__health(struct server *server)
{
    struct server_health *health = &server->health;
    struct store_stats stats;
    uint64_t now_ns = clock_mono_ns(server->clock);
    if (now_ns < health->next_ns)
        return;
    health->next_ns = now_ns + WATCH_NS;
    store_stats(server->store, &stats);
    watch_journal(health, &stats.journal);
    watch_engine(health, &stats);
    watch_loads(server, &stats);
    if (stats.hot_bytes > server->stats.hot_bytes_peak)
        server->stats.hot_bytes_peak = stats.hot_bytes;
    bool failing = stats.flush_reason[0] != 0;
    if (failing && !health->flush_failing)
        log_warn("could not flush, trying again: %s", stats.flush_reason);
    else if (!failing && health->flush_failing)
        log_info("flushing works again");
    health->flush_failing = failing;
}
