// SPDX-License-Identifier: Apache-2.0
/* fs_model.c - the file system as a model: what the server calls, its rows of INFO and /metrics. */
#include "models/fs/fs_model.h"

#include "models/fs/fs.h"

#include "base/banned.h"

enum { PREFETCH_PATHS_MAX = 32 }; /* a batch of the server's */

static enum rc model_open(const struct model_host *host, const void *options, void **ret_fs,
                          struct err *err)
{
    struct fs *fs;
    (void)options;
    enum rc rc = fs_open(&(struct fs_options){.store = host->kv->store,
                                              .tasks = host->tasks,
                                              .clock = host->clock,
                                              .wake = host->wake,
                                              .wake_arg = host->wake_arg},
                         &fs, err);
    if (rc == RC_OK)
        *ret_fs = fs;
    return rc;
}

static void model_close(void *fs)
{
    fs_close(fs);
}

static bool model_turn(void *fs)
{
    fs_turn(fs);
    return false;
}

static void model_prefetch(void *fs, const struct model_call *call, size_t count)
{
    struct bytes path[PREFETCH_PATHS_MAX];
    size_t paths = 0;
    for (size_t i = 0; i < count && paths < ARRAY_LEN(path); i++)
        if (call[i].argc > 1)
            path[paths++] = call[i].argv[1];
    if (paths > 1)
        fs_prefetch(fs, path, paths);
}

static bool counts_read(void *fs, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    (void)labels;
    if (n == 0)
        *(struct fs_counts *)values = fs_counts(fs);
    return n == 0;
}

#define COUNT(name, metric, kind, member, help)                                     \
    {                                                                               \
        name, metric, STATISTIC_##kind, help, offsetof(struct fs_counts, member), 0 \
    }
static const struct statistic rows[] = {
    COUNT("fs_files", "fs_files", GAUGE, files, "Files, those of removed subtrees included."),
    COUNT("fs_directories", "fs_directories", GAUGE, dirs, "Directories, alike."),
    COUNT("fs_bytes", "fs_bytes", GAUGE, bytes, "Sizes of files."),
    COUNT("fs_graves", "fs_graves", GAUGE, graves, "Removed subtrees that still have rows."),
    COUNT("fs_swept_inodes", "fs_swept_inodes_total", COUNTER, swept_count,
          "Inodes of removed subtrees swept."),
};
static const struct statistics statistics[] = {
    {"fs", "Fs", rows, ARRAY_LEN(rows), sizeof(struct fs_counts), .read = counts_read},
};

const struct model fs_model = {.name = "fs",
                               .statistics = statistics,
                               .statistics_count = ARRAY_LEN(statistics),
                               .open = model_open,
                               .close = model_close,
                               .turn = model_turn,
                               .prefetch = model_prefetch};
