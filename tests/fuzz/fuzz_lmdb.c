// SPDX-License-Identifier: Apache-2.0
/* fuzz_lmdb.c - any bytes as an LMDB shard. What lmdb_check() takes for whole is then read and
 * written by LMDB itself, which trusts it: nothing that it does may be a signal. */
#include <stdio.h>
#include <unistd.h>

#include "base/macros.h"
#include "models/tile/shard.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct shard_table table = {.name = "imagery", .kind = TILE_PLAIN};
static const struct shard_seen never = {0};

static bool row_keep(void *arg, const struct tile_scan_row *row)
{
    struct shard_change *change = arg;
    change->key = row->key;
    change->removed = true;
    return true;
}

static void shard_use(const char *path, enum shard_open how)
{
    uint8_t bytes[5000] = {1, 2, 3};
    struct shard *shard = NULL;
    struct err err = {0};
    struct shard_range all = {.to = {.packed = UINT64_MAX},
                              .level_to = TILE_LEVEL_MAX,
                              .ms_to = TILE_MS_MAX,
                              .status = -1};
    struct shard_change del = {.removed = true},
                        set = {.key = {.packed = 1}, .value.data = bytes_of(bytes, sizeof bytes)};
    const struct shard_change *change[] = {&del, &set};
    CLEANUP(buf_done) struct buf row;
    buf_init(&row, 1 << 26);
    if (shard_lmdb_ops.open(path, &table, how, &never, &shard, &err) != RC_OK)
        return;
    if (shard_lmdb_ops.scan(shard, &all, row_keep, &del, &err) == RC_OK) {
        struct tilekey found;
        (void)shard_lmdb_ops.get(shard, del.key, false, &row, &found, &err);
        if (how == SHARD_WRITE)
            (void)shard_lmdb_ops.apply(shard, change, ARRAY_LEN(change), &err);
    }
    shard_lmdb_ops.close(shard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], lock[64];
    snprintf(path, sizeof path, "/dev/shm/terrace-fuzz-%d", (int)getpid());
    snprintf(lock, sizeof lock, "/dev/shm/terrace-fuzz-%d-lock", (int)getpid());
    FILE *file = fopen(path, "we");
    ASSERT(file != NULL);
    bool written = fwrite(data, 1, size, file) == size;
    fclose(file);
    if (written) {
        shard_use(path, SHARD_READ);
        shard_use(path, SHARD_WRITE);
    }
    (void)unlink(path);
    (void)unlink(lock);
    return 0;
}
