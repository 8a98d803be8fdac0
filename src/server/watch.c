/* watch.c - the store does not log; its troubles are told here, once each. */
#include "server/server_int.h"

#include <inttypes.h>

#include "base/log.h"

#include "base/banned.h"

#define WATCH_NS UINT64_C(1000000000)

static void watch_journal(struct server_watch *watch, const struct journal_status *journal)
{
    if (journal->read_only && !watch->read_only)
        log_error("the journal cannot be written, writing commands are refused until it can: %s",
                  journal->reason);
    else if (!journal->read_only && watch->read_only)
        log_info("the journal can be written again");
    watch->read_only = journal->read_only;
    if (journal->disk_low && !watch->disk_low)
        log_warn("the disk has %" PRIu64 " bytes free, less than its reserve; only deleting "
                 "commands run until there is more",
                 journal->disk_free_bytes);
    else if (!journal->disk_low && watch->disk_low)
        log_info("the disk has room again");
    watch->disk_low = journal->disk_low;
}

void server__watch(struct server *server)
{
    struct server_watch *watch = &server->watch;
    struct store_stats stats;
    uint64_t now_ns = clock_mono_ns(server->clock);
    if (now_ns < watch->next_ns)
        return;
    watch->next_ns = now_ns + WATCH_NS;
    store_stats(server->store, &stats);
    watch_journal(watch, &stats.journal);
    if (stats.hot_bytes > server->stats.hot_bytes_peak)
        server->stats.hot_bytes_peak = stats.hot_bytes;
    bool failing = stats.flush_reason[0] != 0;
    if (failing && !watch->flush_failing)
        log_warn("could not flush, trying again: %s", stats.flush_reason);
    else if (!failing && watch->flush_failing)
        log_info("flushing works again");
    watch->flush_failing = failing;
}
