// SPDX-License-Identifier: Apache-2.0
/* pool.c - opens and closes shard files, and sets damaged ones aside. */
#include "models/tile/pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dlist.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"

#include "base/banned.h"

struct pool_entry {
    uint32_t id;
    const struct shard_ops *ops;
    struct shard *shard;       /* NULL: not open; under open_lock */
    pthread_mutex_t open_lock; /* two threads that find it closed: one opens it */
    struct shard_file file;    /* that is open */
    uint64_t beside_inode;     /* of the first file beside it; 0: there was none */
    bool lost;                 /* a file that was set aside lay there */
    unsigned users;            /* under pool.lock, as all below */
    bool closing;              /* nobody new may use it; who leaves last closes it */
    struct dlink link;         /* of pool.list */
};

struct pool_seen { /* of a file, also while it is closed */
    uint32_t id;
    bool damaged; /* it was told so */
    struct shard_seen seen;
};

struct pool {
    struct pool_options options;
    pthread_mutex_t lock;
    struct table table;
    struct dlist list; /* of struct pool_entry, used last first */
    uint32_t count;
    pthread_cond_t left;            /* an entry that was closing */
    struct table seen;              /* of struct pool_seen; one a file and role at most */
    _Atomic uint32_t damaged_count; /* shared: of them; changed under lock */
    pthread_mutex_t damage_lock;    /* of the next; never held while a file is touched */
    struct err damage;              /* the last that was noted */
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

static uint64_t seen_hash(const void *entry, void *arg)
{
    (void)arg;
    return id_hash(((const struct pool_seen *)entry)->id);
}

static bool seen_eq(const void *entry, const void *key, void *arg)
{
    (void)arg;
    return ((const struct pool_seen *)entry)->id == *(const uint32_t *)key;
}

static void seen_free(void *entry, void *arg)
{
    (void)arg;
    mem_free(entry);
}

struct pool *pool_new(const struct pool_options *options)
{
    struct pool *pool = mem_zalloc(sizeof *pool);
    pool->options = *options;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->left, NULL);
    pthread_mutex_init(&pool->damage_lock, NULL);
    table_init(&pool->table, entry_hash, entry_eq, NULL);
    table_init(&pool->seen, seen_hash, seen_eq, NULL);
    return pool;
}

static struct pool_seen *seen_get(struct pool *pool, uint32_t id)
{
    struct pool_seen *kept = table_find(&pool->seen, id_hash(id), &id, NULL);
    if (!kept) {
        kept = mem_zalloc(sizeof *kept);
        kept->id = id;
        table_insert(&pool->seen, id_hash(id), kept);
    }
    return kept;
}

static void entry_free(struct pool *pool, struct pool_entry *entry)
{
    if (entry->shard &&
        entry->shard->seen.file.inode) /* unchanged it is not looked through again */
        seen_get(pool, entry->id)->seen = entry->shard->seen;
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
    dlist_remove(&pool->list, &entry->link);
    pool->count--;
}

static void entry_end(struct pool *pool, struct pool_entry *entry)
{
    table_forget(pool, entry);
    entry_free(pool, entry);
    pthread_cond_broadcast(&pool->left);
}

/* (2), (3) */
static void shrink(struct pool *pool)
{
    struct dlink *link = pool->list.last;
    while (pool->count > pool->options.open_count_max && link) {
        struct pool_entry *entry = DLIST_ITEM(link, struct pool_entry, link);
        link = link->prev;
        if (entry->users == 0 && !entry->closing)
            entry_end(pool, entry);
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
    uint64_t cursor = 0;
    do
        cursor = table_scan(&pool->seen, cursor, seen_free, NULL);
    while (cursor != 0);
    table_done(&pool->seen);
    pthread_cond_destroy(&pool->left);
    pthread_mutex_destroy(&pool->damage_lock);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}

/* ---- paths ---- */

/* "<dir>/<type>" */
static void type_dir(const struct pool *pool, const struct shard_ops *ops, uint8_t type,
                     char to[PATH_BYTES_MAX])
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
    type_dir(pool, key->ops, key->type, to);
    size_t len = strlen(to);
    if (!tile_place_add(key->place, &rest) || len + 1 + rest.len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "the directory of shards has too long a name");
    to[len++] = '/';
    memcpy(to + len, rest.ptr, rest.len);
    to[len + rest.len] = 0;
    return RC_OK;
}

/* Each directory that is made is synced into the one above it. */
static enum rc dirs_make(const char *path, struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char part[PATH_BYTES_MAX], above[PATH_BYTES_MAX] = ".";
    size_t len = strlen(path);
    if (path[0] == '/')
        above[0] = '/';
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != 0)
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

enum rc pool_dir_make(const char *dir, const char *type, struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = path_join(path, dir, type, err);
    return rc == RC_OK ? dirs_make(path, err) : rc;
}

static enum rc dir_look(const char *path, struct shard_file *ret_dir, struct err *err)
{
    struct stat stat_of;
    if (stat(path, &stat_of) == 0) {
        *ret_dir = shard_file_of(&stat_of);
        return RC_OK;
    }
    if (errno == ENOENT)
        return err_set(err, RC_IO,
                       "the directory of shards \"%s\" is missing: its disk may not be mounted; "
                       "make it only if its tiles are gone for good",
                       path);
    return err_set(err, RC_IO, "the directory of shards \"%s\" cannot be looked at: %s", path,
                   strerror(errno));
}

enum rc pool_dir_look(const char *dir, const char *type, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct shard_file ignored;
    enum rc rc = path_join(path, dir, type, err);
    return rc == RC_OK ? dir_look(path, &ignored, err) : rc;
}

static void dir_of(const char *path, char to[PATH_BYTES_MAX])
{
    size_t len = (size_t)(strrchr(path, '/') - path);
    memcpy(to, path, len);
    to[len] = 0;
}

/* (6): nothing above it. */
static enum rc folder_make(const char *path, struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char above[PATH_BYTES_MAX];
    if (access(path, F_OK) == 0)
        return RC_OK;
    dir_of(path, above);
    enum rc rc = files_make_dir(files, path, err);
    return rc == RC_OK ? files_sync_dir(files, above, err) : rc;
}

static enum rc file_open_new(const struct pool *pool, const struct pool_key *key, const char *path,
                             const struct shard_seen *seen, struct shard **ret_shard,
                             struct err *err)
{
    const struct shard_table *table = &pool->options.types[key->type].table;
    bool is_new = access(path, F_OK) != 0;
    char dir[PATH_BYTES_MAX];
    dir_of(path, dir);
    enum rc rc = is_new ? folder_make(dir, err) : RC_OK;
    if (rc == RC_OK)
        rc = key->ops->open(path, table, SHARD_WRITE, seen, ret_shard, err);
    if (rc != RC_OK || !is_new)
        return rc;
    rc = files_sync_dir((struct files *)&files_real, dir, err);
    if (rc != RC_OK)
        key->ops->close(*ret_shard);
    return rc;
}

/* The files beside it get other names; what was renamed is so for good when it returns. */
static enum rc beside_set_aside(const struct shard_ops *ops, const char *path, const char *aside,
                                struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char from[PATH_BYTES_MAX + 16], to[PATH_BYTES_MAX + 16], dir[PATH_BYTES_MAX];
    enum rc rc = RC_OK;
    for (const char *const *end = ops->beside; *end && rc == RC_OK; end++) {
        snprintf(from, sizeof from, "%s%s", path, *end);
        snprintf(to, sizeof to, "%s%s", aside, *end);
        if (access(from, F_OK) == 0)
            rc = files_rename(files, from, to, err);
    }
    dir_of(path, dir);
    return rc == RC_OK ? files_sync_dir(files, dir, err) : rc;
}

/* ---- damaged files ---- */

void pool_damage_note(struct pool *pool, const struct pool_key *key, const struct err *err)
{
    pthread_mutex_lock(&pool->lock);
    struct pool_seen *kept = seen_get(pool, id_of(key, SHARD_READ));
    bool is_new = !kept->damaged;
    kept->damaged = true;
    pool->damaged_count += is_new;
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_lock(&pool->damage_lock);
    pool->damage = *err;
    pthread_mutex_unlock(&pool->damage_lock);
    if (is_new)
        log_error("tile: %s", err->text);
}

bool pool_damage(struct pool *pool, struct err *ret_err)
{
    pthread_mutex_lock(&pool->damage_lock);
    *ret_err = pool->damage;
    pthread_mutex_unlock(&pool->damage_lock);
    return pool->damaged_count > 0;
}

static void damage_forget(struct pool *pool, const struct pool_key *key)
{
    uint32_t id = id_of(key, SHARD_READ);
    pthread_mutex_lock(&pool->lock);
    struct pool_seen *kept = table_find(&pool->seen, id_hash(id), &id, NULL);
    if (kept && kept->damaged) {
        kept->damaged = false;
        pool->damaged_count--;
    }
    pthread_mutex_unlock(&pool->lock);
}

uint32_t pool_damaged_count(const struct pool *pool)
{
    return pool->damaged_count;
}

struct aside_find {
    const char *name; /* of the file */
    char found[NAME_MAX + 1];
};

static enum rc aside_look(const char *name, void *arg, struct err *err)
{
    static const char word[] = ".corrupt.";
    struct aside_find *find = arg;
    size_t len = strlen(find->name);
    (void)err;
    if (strncmp(name, find->name, len) != 0 || strncmp(name + len, word, sizeof word - 1) != 0)
        return RC_OK;
    const char *digits = name + len + sizeof word - 1;
    if (digits[0] && digits[strspn(digits, "0123456789")] == 0 && strlen(name) <= NAME_MAX)
        memcpy(find->found, name, strlen(name) + 1);
    return RC_OK;
}

/* The last that was set aside; false: there is none. */
static bool aside_find(const char *path, struct aside_find *find)
{
    char dir[PATH_BYTES_MAX];
    struct err ignored = {0};
    dir_of(path, dir);
    *find = (struct aside_find){.name = strrchr(path, '/') + 1};
    enum rc rc = files_list((struct files *)&files_real, dir, aside_look, find, &ignored);
    return rc == RC_OK && find->found[0];
}

enum rc pool_lost(struct pool *pool, const struct pool_key *key, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct aside_find find;
    enum rc rc = path_of(pool, key, path, err);
    if (rc != RC_OK)
        return rc;
    if (aside_find(path, &find))
        return err_set(err, RC_CORRUPT,
                       "shard \"%s\" was damaged and is \"%s\" now, with tiles that the new one "
                       "does not have: set them again, then move it to another directory",
                       path, find.found);
    damage_forget(pool, key);
    return RC_NOT_FOUND;
}

/* ---- taking ---- */

static struct pool_entry *entry_add(struct pool *pool, uint32_t id, const struct shard_ops *ops)
{
    struct pool_entry *entry = mem_zalloc(sizeof *entry);
    entry->id = id;
    entry->ops = ops;
    pthread_mutex_init(&entry->open_lock, NULL);
    table_insert(&pool->table, id_hash(id), entry);
    dlist_add_first(&pool->list, &entry->link);
    pool->count++;
    return entry;
}

static struct pool_entry *entry_take(struct pool *pool, const struct pool_key *key,
                                     enum shard_open how)
{
    uint32_t id = id_of(key, how);
    pthread_mutex_lock(&pool->lock);
    struct pool_entry *entry;
    while ((entry = table_find(&pool->table, id_hash(id), &id, NULL)) && entry->closing)
        pthread_cond_wait(&pool->left, &pool->lock);
    if (!entry) {
        entry = entry_add(pool, id, key->ops);
    } else {
        dlist_remove(&pool->list, &entry->link);
        dlist_add_first(&pool->list, &entry->link);
    }
    entry->users++;
    shrink(pool);
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

/* An entry without a handle is not worth keeping, nor is one whose handle is broken. */
static void entry_give(struct pool *pool, const struct pool_use *use)
{
    struct pool_entry *entry = use->entry;
    pthread_mutex_lock(&pool->lock);
    entry->users--;
    if (use->shard && use->shard->broken)
        entry->closing = true;
    if (entry->users == 0 && (entry->closing || !entry->shard))
        entry_end(pool, entry);
    else
        shrink(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits for its users: SQLite removes the files beside it by their names when the last handle is
 * closed, and those would be the new file's. */
static void entry_close(struct pool *pool, const struct pool_key *key, enum shard_open how)
{
    uint32_t id = id_of(key, how);
    struct pool_entry *entry;
    while ((entry = table_find(&pool->table, id_hash(id), &id, NULL))) {
        entry->closing = true;
        if (entry->users == 0)
            entry_end(pool, entry);
        else
            pthread_cond_wait(&pool->left, &pool->lock);
    }
}

static uint64_t beside_inode(const struct shard_ops *ops, const char *path)
{
    char beside[PATH_BYTES_MAX + 16];
    struct shard_file file;
    snprintf(beside, sizeof beside, "%s%s", path, ops->beside[0]);
    return shard_file_look(beside, &file) ? file.inode : 0;
}

/* (6): that there is no file is believed only if the directory was there all the time. */
static enum rc shard_open_at(struct pool *pool, const struct pool_key *key, enum shard_open how,
                             const char *path, const struct shard_seen *seen,
                             struct shard **ret_shard, struct err *err)
{
    char dir[PATH_BYTES_MAX];
    struct shard_file before, after;
    type_dir(pool, key->ops, key->type, dir);
    enum rc rc = dir_look(dir, &before, err);
    if (rc != RC_OK)
        return rc;
    if (how == SHARD_WRITE)
        return file_open_new(pool, key, path, seen, ret_shard, err);
    const struct shard_table *table = &pool->options.types[key->type].table;
    rc = key->ops->open(path, table, SHARD_READ, seen, ret_shard, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = dir_look(dir, &after, err);
    if (rc == RC_OK && !shard_file_is_same(&before, &after))
        return err_set(err, RC_BUSY, "the directory of shards \"%s\" was replaced meanwhile", dir);
    return rc == RC_OK ? RC_NOT_FOUND : rc;
}

static enum rc entry_open(struct pool *pool, const struct pool_key *key, struct pool_entry *entry,
                          enum shard_open how, const char *path, struct err *err)
{
    struct shard *shard = NULL;
    struct shard_seen seen = {0};
    struct shard_file before = {0};
    pthread_mutex_lock(&pool->lock);
    const struct pool_seen *kept = table_find(&pool->seen, id_hash(entry->id), &entry->id, NULL);
    if (kept)
        seen = kept->seen;
    pthread_mutex_unlock(&pool->lock);
    bool was = shard_file_look(path, &before);
    enum rc rc = shard_open_at(pool, key, how, path, &seen, &shard, err);
    if (rc != RC_OK)
        return rc;
    if (!shard_file_look(path, &entry->file) ||
        (was && !shard_file_is_same(&before, &entry->file))) {
        key->ops->close(shard);
        return err_set(err, RC_BUSY, "shard \"%s\" was replaced while it was opened", path);
    }
    struct aside_find find;
    entry->beside_inode = beside_inode(key->ops, path);
    entry->lost = aside_find(path, &find);
    entry->shard = shard;
    if (!entry->lost)
        damage_forget(pool, key);
    return RC_OK;
}

/* (5): RC_NOT_FOUND: it is another file. */
static enum rc entry_look(struct pool_entry *entry, enum shard_open how, const char *path,
                          struct err *err)
{
    struct shard_file now;
    if (!shard_file_look(path, &now) || !shard_file_is_same(&now, &entry->file))
        return RC_NOT_FOUND;
    return entry->ops->look ? entry->ops->look(entry->shard, how, &now, err) : RC_OK;
}

static enum rc entry_ready(struct pool *pool, const struct pool_key *key, struct pool_use *use,
                           enum shard_open how, const char *path, struct err *err)
{
    struct pool_entry *entry = use->entry;
    pthread_mutex_lock(&entry->open_lock);
    bool is_open = entry->shard != NULL;
    enum rc rc = is_open ? RC_OK : entry_open(pool, key, entry, how, path, err);
    use->shard = entry->shard;
    use->lost = entry->lost;
    pthread_mutex_unlock(&entry->open_lock);
    return is_open ? entry_look(entry, how, path, err) : rc;
}

/* Somebody has put another file there, or none. What stands beside it and has not become part of
 * the old one must not become part of the new one. */
static enum rc file_replaced(struct pool *pool, const struct pool_key *key, const char *path,
                             uint64_t beside, struct err *err)
{
    char aside[PATH_BYTES_MAX];
    int len = snprintf(aside, sizeof aside, "%s.replaced.%llu", path,
                       (unsigned long long)clock_unix_ms(pool->options.clock));
    pthread_mutex_lock(&pool->lock);
    entry_close(pool, key, SHARD_WRITE);
    entry_close(pool, key, SHARD_READ);
    enum rc rc = RC_OK;
    if (key->ops->beside_has_changes && beside && beside == beside_inode(key->ops, path))
        rc = len < (int)sizeof aside
                 ? beside_set_aside(key->ops, path, aside, err)
                 : err_set(err, RC_INVALID, "the directory of shards has too long a name");
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

enum rc pool_take(struct pool *pool, const struct pool_key *key, enum shard_open how,
                  struct pool_use *ret_use, struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = path_of(pool, key, path, err);
    while (rc == RC_OK) {
        struct pool_entry *entry = entry_take(pool, key, how);
        *ret_use = (struct pool_use){.entry = entry};
        rc = entry_ready(pool, key, ret_use, how, path, err);
        if (rc == RC_OK)
            return RC_OK;
        bool again = ret_use->shard && (rc == RC_NOT_FOUND || ret_use->shard->broken);
        uint64_t beside = entry->beside_inode;
        entry_give(pool, ret_use);
        if (again) /* it was open before: another handle may be good */
            rc = rc == RC_NOT_FOUND ? file_replaced(pool, key, path, beside, err) : RC_OK;
    }
    return rc;
}

void pool_give(struct pool *pool, const struct pool_use *use)
{
    entry_give(pool, use);
}

enum rc pool_confirm(struct pool *pool, const struct pool_key *key, const struct pool_use *use,
                     struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct shard_file now;
    enum rc rc = path_of(pool, key, path, err);
    if (rc == RC_OK &&
        (!shard_file_look(path, &now) || !shard_file_is_same(&now, &use->entry->file)))
        return err_set(err, RC_BUSY, "shard \"%s\" was replaced while it was written", path);
    return rc;
}

/* ---- setting aside ---- */

static enum rc file_set_aside(const struct shard_ops *ops, const char *path, const char *aside,
                              struct err *err)
{
    enum rc rc = files_rename((struct files *)&files_real, path, aside, err);
    return rc == RC_OK ? beside_set_aside(ops, path, aside, err) : rc;
}

/* Nobody opens the file meanwhile. */
static void entries_block(struct pool *pool, const struct pool_key *key)
{
    pthread_mutex_lock(&pool->lock);
    entry_close(pool, key, SHARD_WRITE);
    entry_close(pool, key, SHARD_READ);
    entry_add(pool, id_of(key, SHARD_READ), key->ops)->closing = true;
    pthread_mutex_unlock(&pool->lock);
}

static void entries_unblock(struct pool *pool, const struct pool_key *key)
{
    pthread_mutex_lock(&pool->lock);
    entry_close(pool, key, SHARD_READ);
    pthread_mutex_unlock(&pool->lock);
}

static enum rc prove(struct pool *pool, const struct pool_key *key, const char *path,
                     struct err *err)
{
    bool damaged = false;
    enum rc rc = key->ops->prove(path, &pool->options.types[key->type].table, &damaged, err);
    return rc == RC_OK && !damaged ? RC_NOT_FOUND : rc;
}

enum rc pool_prove(struct pool *pool, const struct pool_key *key, struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = path_of(pool, key, path, err);
    if (rc != RC_OK)
        return rc;
    entries_block(pool, key);
    rc = prove(pool, key, path, err);
    entries_unblock(pool, key);
    return rc;
}

enum rc pool_set_aside(struct pool *pool, const struct pool_key *key, char *ret_path,
                       struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = path_of(pool, key, path, err);
    if (rc != RC_OK)
        return rc;
    int len = snprintf(ret_path, PATH_BYTES_MAX, "%s.corrupt.%llu", path,
                       (unsigned long long)clock_unix_ms(pool->options.clock));
    if (len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "the directory of shards has too long a name");
    entries_block(pool, key);
    rc = prove(pool, key, path, err);
    if (rc == RC_OK)
        rc = file_set_aside(key->ops, path, ret_path, err);
    entries_unblock(pool, key);
    return rc;
}
