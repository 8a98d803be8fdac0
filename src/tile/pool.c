#include "tile/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/table.h"

#include "base/banned.h"

struct pool_entry {
    uint32_t id;
    const struct shard_ops *ops;
    struct shard *shard;            /* NULL: not open; under open_lock */
    pthread_mutex_t open_lock;      /* two threads that find it closed: one opens it */
    unsigned users;                 /* under pool.lock, as all below */
    bool closing;                   /* its file is being set aside: nobody new may use it */
    struct pool_entry *prev, *next; /* used last first */
};

struct pool {
    struct pool_options options;
    pthread_mutex_t lock;
    struct table table;
    struct pool_entry list; /* head */
    uint32_t count;
    pthread_cond_t left; /* a user of an entry that is closing, or the entry */
};

static uint32_t id_of(const struct pool_key *key, enum shard_open how)
{
    bool writes = how == SHARD_WRITE && !key->ops->shared; /* (1) */
    bool kv = key->ops == &shard_lmdb_ops;
    return (uint32_t)key->type << 24 | (uint32_t)key->place.folder << 16 |
           (uint32_t)key->place.prefix4 << 8 | (uint32_t)kv << 1 | writes;
}

static uint64_t id_hash(uint32_t id)
{
    return id * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)id << 20;
}

static uint64_t entry_hash(const void *entry, void *arg)
{
    (void)arg;
    return id_hash(((const struct pool_entry *)entry)->id);
}

static bool entry_eq(const void *entry, const void *key, void *arg)
{
    (void)arg;
    return ((const struct pool_entry *)entry)->id == *(const uint32_t *)key;
}

struct pool *pool_new(const struct pool_options *options)
{
    struct pool *pool = mem_zalloc(sizeof *pool);
    pool->options = *options;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->left, NULL);
    table_init(&pool->table, entry_hash, entry_eq, NULL);
    pool->list.prev = pool->list.next = &pool->list;
    return pool;
}

static void list_remove(struct pool_entry *entry)
{
    entry->prev->next = entry->next;
    entry->next->prev = entry->prev;
}

static void list_add(struct pool *pool, struct pool_entry *entry)
{
    entry->prev = &pool->list;
    entry->next = pool->list.next;
    entry->next->prev = entry;
    pool->list.next = entry;
}

static void entry_free(struct pool_entry *entry)
{
    if (entry->shard)
        entry->ops->close(entry->shard);
    pthread_mutex_destroy(&entry->open_lock);
    mem_free(entry);
}

static void table_forget(struct pool *pool, struct pool_entry *entry)
{
    struct table_slot slot;
    const struct pool_entry *found =
        table_find(&pool->table, id_hash(entry->id), &entry->id, &slot);
    ASSERT(found == entry);
    table_remove(&pool->table, id_hash(entry->id), slot);
    list_remove(entry);
    pool->count--;
}

/* (2), (3) */
static void shrink(struct pool *pool)
{
    struct pool_entry *entry = pool->list.prev;
    while (pool->count > pool->options.open_count_max && entry != &pool->list) {
        struct pool_entry *before = entry->prev;
        if (entry->users == 0 && !entry->closing) {
            table_forget(pool, entry);
            entry_free(entry);
        }
        entry = before;
    }
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pool->options.open_count_max = 0;
    shrink(pool);
    ASSERT(pool->count == 0);
    table_done(&pool->table);
    pthread_cond_destroy(&pool->left);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}

/* ---- paths ---- */

void pool_type_dir(const struct pool *pool, const struct shard_ops *ops, uint8_t type, char *to)
{
    const char *dir = ops == &shard_sqlite_ops ? pool->options.sqlite_dir : pool->options.kv_dir;
    int len = snprintf(to, PATH_BYTES_MAX, "%s/%s", dir, pool->options.types[type].table.name);
    ASSERT(len > 0 && len < PATH_BYTES_MAX);
}

static enum rc path_of(const struct pool *pool, const struct pool_key *key, char to[PATH_BYTES_MAX],
                       struct err *err)
{
    CLEANUP(buf_done) struct buf rest;
    buf_init(&rest, 64);
    pool_type_dir(pool, key->ops, key->type, to);
    size_t len = strlen(to);
    if (!tile_place_add(key->place, &rest) || len + 1 + rest.len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "the directory of shards has too long a name");
    to[len++] = '/';
    memcpy(to + len, rest.ptr, rest.len);
    to[len + rest.len] = 0;
    return RC_OK;
}

/* The directories above a file that is to be made; each is synced into the one above it. */
static enum rc dirs_make(const char *path, struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char part[PATH_BYTES_MAX], above[PATH_BYTES_MAX] = "/";
    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (access(part, F_OK) != 0) {
            enum rc rc = files_make_dir(files, part, err);
            if (rc == RC_OK)
                rc = files_sync_dir(files, above, err);
            if (rc != RC_OK)
                return rc;
        }
        memcpy(above, part, i + 1);
    }
    return RC_OK;
}

static enum rc file_open_new(const struct pool *pool, const struct pool_key *key, const char *path,
                             struct shard **ret_shard, struct err *err)
{
    const struct shard_table *table = &pool->options.types[key->type].table;
    bool is_new = access(path, F_OK) != 0;
    enum rc rc = is_new ? dirs_make(path, err) : RC_OK;
    if (rc == RC_OK)
        rc = key->ops->open(path, table, SHARD_WRITE, ret_shard, err);
    if (rc != RC_OK || !is_new)
        return rc;
    char dir[PATH_BYTES_MAX];
    size_t len = (size_t)(strrchr(path, '/') - path);
    memcpy(dir, path, len);
    dir[len] = 0;
    rc = files_sync_dir((struct files *)&files_real, dir, err);
    if (rc != RC_OK)
        key->ops->close(*ret_shard);
    return rc;
}

/* ---- taking ---- */

static struct pool_entry *entry_take(struct pool *pool, const struct pool_key *key,
                                     enum shard_open how)
{
    uint32_t id = id_of(key, how);
    pthread_mutex_lock(&pool->lock);
    struct pool_entry *entry;
    while ((entry = table_find(&pool->table, id_hash(id), &id, NULL)) && entry->closing)
        pthread_cond_wait(&pool->left, &pool->lock);
    if (!entry) {
        entry = mem_zalloc(sizeof *entry);
        entry->id = id;
        entry->ops = key->ops;
        pthread_mutex_init(&entry->open_lock, NULL);
        table_insert(&pool->table, id_hash(id), entry);
        pool->count++;
    } else {
        list_remove(entry);
    }
    list_add(pool, entry);
    entry->users++;
    shrink(pool);
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

/* An entry without a handle is not worth keeping. */
static void entry_give(struct pool *pool, struct pool_entry *entry)
{
    pthread_mutex_lock(&pool->lock);
    entry->users--;
    if (entry->closing) {
        pthread_cond_broadcast(&pool->left);
    } else if (entry->users == 0 && !entry->shard) {
        table_forget(pool, entry);
        entry_free(entry);
    } else {
        shrink(pool);
    }
    pthread_mutex_unlock(&pool->lock);
}

enum rc pool_take(struct pool *pool, const struct pool_key *key, enum shard_open how,
                  struct pool_use *ret_use, struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = path_of(pool, key, path, err);
    if (rc != RC_OK)
        return rc;
    struct pool_entry *entry = entry_take(pool, key, how);
    pthread_mutex_lock(&entry->open_lock);
    if (!entry->shard) {
        struct shard *shard = NULL;
        rc = how == SHARD_WRITE ? file_open_new(pool, key, path, &shard, err)
                                : key->ops->open(path, &pool->options.types[key->type].table,
                                                 SHARD_READ, &shard, err);
        if (rc == RC_OK)
            entry->shard = shard;
    }
    *ret_use = (struct pool_use){entry->shard, entry};
    pthread_mutex_unlock(&entry->open_lock);
    if (rc != RC_OK)
        entry_give(pool, entry);
    return rc;
}

void pool_give(struct pool *pool, const struct pool_use *use)
{
    entry_give(pool, use->entry);
}

/* ---- setting aside ---- */

/* Waits for its users: SQLite removes the files beside it by their names when the last handle is
 * closed, and those would be the new file's. */
static void entry_close(struct pool *pool, const struct pool_key *key, enum shard_open how)
{
    uint32_t id = id_of(key, how);
    struct pool_entry *entry = table_find(&pool->table, id_hash(id), &id, NULL);
    if (!entry)
        return;
    entry->closing = true;
    while (entry->users > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    table_forget(pool, entry);
    entry_free(entry);
}

static enum rc files_set_aside(const struct shard_ops *ops, const char *path, const char *aside,
                               struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char from[PATH_BYTES_MAX + 16], to[PATH_BYTES_MAX + 16], dir[PATH_BYTES_MAX];
    enum rc rc = files_rename(files, path, aside, err);
    for (const char *const *end = ops->beside; *end && rc == RC_OK; end++) {
        snprintf(from, sizeof from, "%s%s", path, *end);
        snprintf(to, sizeof to, "%s%s", aside, *end);
        if (access(from, F_OK) == 0)
            rc = files_rename(files, from, to, err);
    }
    size_t len = (size_t)(strrchr(path, '/') - path);
    memcpy(dir, path, len);
    dir[len] = 0;
    return rc == RC_OK ? files_sync_dir(files, dir, err) : rc;
}

enum rc pool_set_aside(struct pool *pool, const struct pool_key *key, char *ret_path,
                       struct err *err)
{
    char path[PATH_BYTES_MAX];
    bool damaged = false;
    enum rc rc = path_of(pool, key, path, err);
    if (rc == RC_OK)
        rc = key->ops->prove(path, &damaged, err);
    if (rc != RC_OK || !damaged)
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    int len = snprintf(ret_path, PATH_BYTES_MAX, "%s.corrupt.%llu", path,
                       (unsigned long long)clock_unix_ms(pool->options.clock));
    if (len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "the directory of shards has too long a name");
    pthread_mutex_lock(&pool->lock);
    entry_close(pool, key, SHARD_WRITE);
    entry_close(pool, key, SHARD_READ); /* nobody opens it from here to the new name */
    rc = files_set_aside(key->ops, path, ret_path, err);
    pthread_cond_broadcast(&pool->left);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}
