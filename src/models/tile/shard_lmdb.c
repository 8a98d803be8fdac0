// SPDX-License-Identifier: Apache-2.0
/* shard_lmdb.c - shards as LMDB files: packed key [‖ ms] → headered value.
 *
 *   database <type>    the tiles
 *   database terrace   "format" → "headered", "bare" or "legacy"
 * Values of a bare type's shard have no header. A file without the mark is read as what the type
 * is. Values of a legacy shard have no header; for a type that is not bare the first write gives it
 * to all of them, and the shard the other mark, in one transaction.
 *
 * Invariants:
 *   (1) A file is open once in the process: pool.h.
 *   (2) The size of the map changes while nobody has a transaction: resize.
 *   (3) LMDB follows no page of a file, and changes none, that lmdb_check() has not found whole
 *       since somebody else changed the file last. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <lmdb.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/tile/lmdb_check.h"
#include "models/tile/magic.h"
#include "models/tile/shard.h"

#include "base/banned.h"

enum {
    MAP_BYTES_MIN = 16 * 1024 * 1024,
    DATABASES = 4,
    FILE_MODE = 0644,
    BEGIN_TRIES = 8,
    LOOK_TRIES = 100,
    BUSY_MS = 1000, /* how long a lock is waited for */
    BUSY_STEP_MS = 5,
    LOCK_FORMAT = 1,
    LOCK_LINE_BYTES = 64,
};
#define LOCK_MAGIC UINT32_C(0xbeefc0de)
#define FORMAT_DB "terrace"
#define FORMAT_KEY "format"
#define FORMAT_HEADERED "headered"
#define FORMAT_BARE "bare"
#define FORMAT_LEGACY "legacy"

struct lmdb_shard {
    struct shard shard;
    MDB_env *env;
    MDB_dbi tiles, format;
    bool has_format; /* the database is there */
    bool marked;     /* and the mark */
    bool legacy;     /* shared: under resize */
    bool read_only;  /* it could not be opened otherwise */
    pthread_rwlock_t resize;
    pthread_mutex_t look_lock; /* one looks it through, the others wait for that */
    pthread_mutex_t seen_lock; /* of shard.seen and of the next two */
    bool writing;              /* what differs now is our own change */
    uint64_t writes;
    int lock_fd; /* of LMDB's file of locks; -1: there is none */
    char *path;
};

/* ---- errors ---- */

static enum rc lmdb_error(const char *path, int code, struct err *err)
{
    enum rc rc = RC_IO;
    if (code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND || code == MDB_INVALID)
        rc = RC_CORRUPT;
    else if (code == MDB_VERSION_MISMATCH || code == MDB_INCOMPATIBLE)
        rc = RC_VERSION;
    else if (code == EAGAIN || code == EBUSY || code == MDB_READERS_FULL)
        rc = RC_BUSY;
    else if (code == ENOSPC || code == EDQUOT)
        rc = RC_FULL;
    else if (code == ENOMEM)
        rc = RC_NOMEM;
    return err_set(err, rc, "shard \"%s\": %s", path,
                   code == EBUSY ? "locked by another program" : mdb_strerror(code));
}

/* After some errors the handle is of no use any more, and the file has to be looked through. */
static enum rc shard_error(struct lmdb_shard *shard, int code, struct err *err)
{
    enum rc rc = lmdb_error(shard->path, code, err);
    if (code == MDB_PANIC || rc == RC_CORRUPT) {
        pthread_mutex_lock(&shard->seen_lock);
        shard->shard.seen = (struct shard_seen){0};
        pthread_mutex_unlock(&shard->seen_lock);
        shard->shard.broken = true;
    }
    return rc;
}

/* Of what is in the file now. */
static struct tile_value value_of(const struct lmdb_shard *shard, MDB_val value)
{
    return tile_value_of_shard(bytes_of(value.mv_data, value.mv_size),
                               shard->legacy || shard->shard.table.bare);
}

static MDB_val val_of(struct bytes bytes)
{
    return (MDB_val){.mv_size = bytes.len, .mv_data = (void *)bytes.ptr};
}

static struct bytes bytes_of_val(MDB_val val)
{
    return bytes_of(val.mv_data, val.mv_size);
}

/* ---- transactions of readers ---- */

/* (2) MDB_MAP_RESIZED: another program has made the file larger than the map. MDB_MAP_FULL: we
 * have. If there is no room for the new map there is none at all. */
static int map_resize(struct lmdb_shard *shard, int why)
{
    MDB_envinfo info;
    pthread_rwlock_wrlock(&shard->resize);
    (void)mdb_env_info(shard->env, &info);
    int code = shard->shard.broken
                   ? MDB_PANIC
                   : mdb_env_set_mapsize(shard->env, why == MDB_MAP_FULL ? 2 * info.me_mapsize : 0);
    if (code != 0)
        shard->shard.broken = true;
    pthread_rwlock_unlock(&shard->resize);
    return code;
}

/* With the lock shared, if it begins. */
static int txn_begin(struct lmdb_shard *shard, MDB_txn **ret_txn)
{
    for (int i = 0;; i++) {
        pthread_rwlock_rdlock(&shard->resize);
        int code =
            shard->shard.broken ? MDB_PANIC : mdb_txn_begin(shard->env, NULL, MDB_RDONLY, ret_txn);
        if (code == 0)
            return 0;
        *ret_txn = NULL;
        pthread_rwlock_unlock(&shard->resize);
        if (i == BEGIN_TRIES || (code != MDB_MAP_RESIZED && code != MDB_READERS_FULL))
            return code;
        code = code == MDB_MAP_RESIZED ? map_resize(shard, code)
                                       : mdb_reader_check(shard->env, NULL); /* of the dead */
        if (code != 0)
            return code;
    }
}

static void txn_end(struct lmdb_shard *shard, MDB_txn *txn)
{
    mdb_txn_abort(txn);
    pthread_rwlock_unlock(&shard->resize);
}

/* ---- looking through: (3) ---- */

static enum rc check_error(const char *path, enum rc rc, const struct err *why, struct err *err)
{
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        return rc;
    return err_set(err, rc, "shard \"%s\": %s", path, why->text);
}

/* What is not LMDB's may be another program's, and is no damage then. */
static enum rc foreign_check(const char *path, int fd, struct err *err)
{
    uint8_t head[MAGIC_BYTES];
    ssize_t len = pread(fd, head, sizeof head, 0);
    if (len < 0)
        return err_set(err, RC_IO, "shard \"%s\": %s", path, strerror(errno));
    const char *foreign = magic_foreign(bytes_of(head, (size_t)len), "LMDB");
    return foreign ? shard_foreign(path, foreign, "LMDB", err) : RC_OK;
}

/* RC_NOT_FOUND: there is no file, or an empty one. RC_VERSION: it is another program's. */
static enum rc header_check(const char *path, bool *ret_damaged, struct err *err)
{
    struct lmdb_check_options options = {.what = LMDB_CHECK_OPEN};
    struct err why = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return RC_NOT_FOUND;
    if (fd < 0)
        return err_set(err, RC_IO, "shard \"%s\": %s", path, strerror(errno));
    enum rc rc = check_error(path, lmdb_check(fd, &options, ret_damaged, &why), &why, err);
    if (rc == RC_OK && *ret_damaged) {
        rc = foreign_check(path, fd, err);
        *ret_damaged = rc == RC_OK;
    }
    close(fd);
    return rc;
}

static enum rc file_look(const struct lmdb_shard *shard, int *ret_fd, struct shard_file *ret_file,
                         struct err *err)
{
    struct stat stat_of;
    if (mdb_env_get_fd(shard->env, ret_fd) != 0 || fstat(*ret_fd, &stat_of) != 0)
        return err_set(err, RC_IO, "shard \"%s\": %s", shard->path, strerror(errno));
    *ret_file = shard_file_of(&stat_of);
    return RC_OK;
}

/* As of one transaction: others may write meanwhile. */
static enum rc look_through_once(struct lmdb_shard *shard, enum shard_open how, bool *ret_damaged,
                                 struct err *err)
{
    const char *name = shard->shard.table.name;
    struct lmdb_check_options options = {.what = how == SHARD_WRITE ? LMDB_CHECK_WRITE
                                                                    : LMDB_CHECK_READ,
                                         .table = bytes_of(name, strlen(name))};
    struct lmdb_check_options header = {.what = LMDB_CHECK_OPEN};
    struct shard_seen seen = {.how = how};
    struct err why = {0};
    MDB_txn *txn;
    int fd;
    pthread_mutex_lock(&shard->seen_lock);
    uint64_t writes = shard->writes;
    pthread_mutex_unlock(&shard->seen_lock);
    enum rc rc = file_look(shard, &fd, &seen.file, err); /* before its pages are */
    if (rc == RC_OK)                                     /* a transaction begins with the header */
        rc = check_error(shard->path, lmdb_check(fd, &header, ret_damaged, &why), &why, err);
    if (rc != RC_OK || *ret_damaged)
        return rc;
    int code = txn_begin(shard, &txn);
    if (code != 0)
        return shard_error(shard, code, err);
    options.txn = mdb_txn_id(txn);
    rc = lmdb_check(fd, &options, ret_damaged, &why);
    txn_end(shard, txn);
    pthread_mutex_lock(&shard->seen_lock);
    if (rc == RC_OK && !*ret_damaged && writes == shard->writes && !shard->writing)
        shard->shard.seen = seen;
    pthread_mutex_unlock(&shard->seen_lock);
    return check_error(shard->path, rc, &why, err);
}

static enum rc look_through(struct lmdb_shard *shard, enum shard_open how, bool *ret_damaged,
                            struct err *err)
{
    enum rc rc = RC_NEWER;
    for (int i = 0; i < LOOK_TRIES && rc == RC_NEWER; i++)
        rc = look_through_once(shard, how, ret_damaged, err);
    if (rc != RC_NEWER)
        return rc;
    shard->shard.broken = true; /* or the file was put back to what it was before it was opened */
    return err_set(err, RC_BUSY, "shard \"%s\" is changed all the time", shard->path);
}

static enum rc damage_error(struct lmdb_shard *shard, struct err *err)
{
    shard->shard.broken = true;
    return err_set(err, RC_CORRUPT, "shard \"%s\" is damaged", shard->path);
}

static bool is_seen(struct lmdb_shard *shard, enum shard_open how, const struct shard_file *now)
{
    pthread_mutex_lock(&shard->seen_lock);
    const struct shard_seen *seen = &shard->shard.seen;
    bool good = shard->writing || (seen->how >= how && shard_file_is_unchanged(&seen->file, now));
    pthread_mutex_unlock(&shard->seen_lock);
    return good;
}

static enum rc lmdb_look(struct shard *base, enum shard_open how, const struct shard_file *now,
                         struct err *err)
{
    struct lmdb_shard *shard = (struct lmdb_shard *)base;
    struct shard_file again;
    bool damaged = false;
    int fd;
    if (how == SHARD_WRITE && shard->read_only) {
        shard->shard.broken = true; /* the next one may be opened to be written */
        return err_set(err, RC_IO, "shard \"%s\" could be opened to be read only", shard->path);
    }
    if (LIKELY(is_seen(shard, how, now)))
        return RC_OK;
    pthread_mutex_lock(&shard->look_lock);
    enum rc rc = file_look(shard, &fd, &again, err);
    if (rc == RC_OK && !is_seen(shard, how, &again))
        rc = look_through(shard, how, &damaged, err);
    pthread_mutex_unlock(&shard->look_lock);
    return rc == RC_OK && damaged ? damage_error(shard, err) : rc;
}

/* ---- the lock of writers ---- */

/* LMDB waits for its lock for ever, and with it would wait everything that is to be persisted. So
 * it is looked at before: a mutex in the file of locks, behind the lines of
 *   magic(4) format(4) mutex txn(8) count(4)
 * whose first word is the owner's thread; a bit says that it has died, and LMDB takes it over. */
static bool lock_is_held(const struct lmdb_shard *shard)
{
    enum { BODY = 4 + 4 + sizeof(pthread_mutex_t) + 8 + 4 };
    off_t at = (off_t)((BODY + LOCK_LINE_BYTES - 1) / LOCK_LINE_BYTES) * LOCK_LINE_BYTES;
    uint8_t head[8], word[4];
    if (shard->lock_fd < 0 || pread(shard->lock_fd, head, sizeof head, 0) != sizeof head ||
        pread(shard->lock_fd, word, sizeof word, at) != sizeof word ||
        le32_get(head) != LOCK_MAGIC || le16_get(head + 4) != LOCK_FORMAT)
        return false; /* it is LMDB's business then */
    uint32_t owner = le32_get(word);
    return owner & FUTEX_TID_MASK && !(owner & FUTEX_OWNER_DIED);
}

static int lock_wait(const struct lmdb_shard *shard)
{
    for (int ms = 0; lock_is_held(shard); ms += BUSY_STEP_MS) {
        if (ms >= BUSY_MS)
            return EBUSY;
        (void)poll(NULL, 0, BUSY_STEP_MS);
    }
    return 0;
}

/* Open as long as the environment is: a process that closes a file loses all its locks on it. */
static void lock_file_open(struct lmdb_shard *shard)
{
    CLEANUP(buf_done) struct buf path;
    buf_init(&path, PATH_BYTES_MAX + 16);
    if (buf_printf(&path, "%s-lock", shard->path) && buf_add(&path, "", 1))
        shard->lock_fd = open((const char *)path.ptr, O_RDONLY | O_CLOEXEC);
}

/* ---- life ---- */

static void lmdb_close(struct shard *base)
{
    struct lmdb_shard *shard = (struct lmdb_shard *)base;
    if (!shard)
        return;
    mdb_env_close(shard->env);
    if (shard->lock_fd >= 0)
        close(shard->lock_fd);
    pthread_rwlock_destroy(&shard->resize);
    pthread_mutex_destroy(&shard->look_lock);
    pthread_mutex_destroy(&shard->seen_lock);
    mem_free(shard->path);
    mem_free(shard);
}

/* What we change ourselves need not be looked through. */
static void write_begin(struct lmdb_shard *shard)
{
    pthread_mutex_lock(&shard->seen_lock);
    shard->writing = true;
    pthread_mutex_unlock(&shard->seen_lock);
}

static void write_end(struct lmdb_shard *shard, bool good)
{
    struct shard_file now;
    struct err err;
    int fd;
    good = good && file_look(shard, &fd, &now, &err) == RC_OK;
    pthread_mutex_lock(&shard->seen_lock);
    shard->writing = false;
    shard->writes++;
    if (good)
        shard->shard.seen.file = now;
    pthread_mutex_unlock(&shard->seen_lock);
}

/* What is written to it. */
static struct bytes format_of(const struct lmdb_shard *shard)
{
    return shard->shard.table.bare ? BYTES(FORMAT_BARE) : BYTES(FORMAT_HEADERED);
}

static int format_read(struct lmdb_shard *shard, MDB_txn *txn, bool *ret_known)
{
    MDB_val key = val_of(BYTES(FORMAT_KEY)), value;
    *ret_known = true;
    if (!shard->has_format)
        return 0;
    int code = mdb_get(txn, shard->format, &key, &value);
    if (code != 0)
        return code == MDB_NOTFOUND ? 0 : code;
    bool legacy = bytes_eq(bytes_of_val(value), BYTES(FORMAT_LEGACY));
    shard->marked = true;
    shard->legacy = legacy && !shard->shard.table.bare;
    *ret_known = legacy || bytes_eq(bytes_of_val(value), format_of(shard));
    return 0;
}

/* The databases, as far as they are there; SHARD_WRITE makes them. */
static int databases_open(struct lmdb_shard *shard, MDB_txn *txn, enum shard_open how,
                          bool *ret_known)
{
    unsigned flags = how == SHARD_WRITE ? MDB_CREATE : 0;
    int code = mdb_dbi_open(txn, FORMAT_DB, flags, &shard->format);
    shard->has_format = code == 0;
    if (code != 0 && code != MDB_NOTFOUND)
        return code;
    code = mdb_dbi_open(txn, shard->shard.table.name, flags, &shard->tiles);
    return code == 0 ? format_read(shard, txn, ret_known) : code;
}

static enum rc format_open(struct lmdb_shard *shard, enum shard_open how, struct err *err)
{
    MDB_txn *txn = NULL;
    bool known = true;
    int code = how == SHARD_WRITE ? lock_wait(shard) : 0;
    if (code == 0)
        code = mdb_txn_begin(shard->env, NULL, how == SHARD_WRITE ? 0 : MDB_RDONLY, &txn);
    if (code != 0)
        return shard_error(shard, code, err);
    code = databases_open(shard, txn, how, &known);
    if (code == 0 && known)
        code = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (!known)
        return err_set(err, RC_VERSION,
                       "shard \"%s\" has an unknown format: its mark is not \"%s\", as that of "
                       "type %s",
                       shard->path, (const char *)format_of(shard).ptr, shard->shard.table.name);
    if (code == MDB_NOTFOUND && how == SHARD_READ)
        return RC_NOT_FOUND; /* of our type nothing was ever written */
    return code == 0 ? RC_OK : shard_error(shard, code, err);
}

static enum rc env_open(struct lmdb_shard *shard, enum shard_open how, struct err *err)
{
    struct stat stat_of = {0};
    unsigned flags = MDB_NOSUBDIR | MDB_NOTLS;
    (void)stat(shard->path, &stat_of);
    size_t map = MAP_BYTES_MIN;
    while (map < 2 * (size_t)stat_of.st_size)
        map *= 2;
    int code = mdb_env_create(&shard->env);
    if (code == 0)
        code = mdb_env_set_maxdbs(shard->env, DATABASES);
    if (code == 0)
        code = mdb_env_set_mapsize(shard->env, map);
    if (code == 0)
        code = mdb_env_open(shard->env, shard->path, flags, FILE_MODE);
    if ((code == EACCES || code == EROFS) && how == SHARD_READ) {
        mdb_env_close(shard->env);
        shard->env = NULL;
        code = mdb_env_create(&shard->env);
        if (code == 0)
            code = mdb_env_set_maxdbs(shard->env, DATABASES);
        if (code == 0)
            code = mdb_env_open(shard->env, shard->path, flags | MDB_RDONLY, FILE_MODE);
        shard->read_only = true;
    }
    if (code == 0)
        lock_file_open(shard);
    return code == 0 ? RC_OK : shard_error(shard, code, err);
}

/* Up to where its pages may be followed: (3). `seen`: if it is still that, it need not be looked
 * through again. */
static enum rc whole_open(struct lmdb_shard *shard, enum shard_open how,
                          const struct shard_seen *seen, bool *ret_damaged, struct err *err)
{
    struct shard_file now;
    int fd;
    enum rc rc = header_check(shard->path, ret_damaged, err);
    if (*ret_damaged || (rc != RC_OK && !(rc == RC_NOT_FOUND && how == SHARD_WRITE)))
        return rc;
    rc = env_open(shard, how, err);
    if (rc == RC_OK)
        rc = file_look(shard, &fd, &now, err);
    if (rc != RC_OK)
        return rc;
    shard->shard.seen = *seen;
    return is_seen(shard, how, &now) ? RC_OK : look_through(shard, how, ret_damaged, err);
}

static struct lmdb_shard *shard_new(const char *path, const struct shard_table *table)
{
    struct lmdb_shard *shard = mem_zalloc(sizeof *shard);
    shard->shard = (struct shard){.ops = &shard_lmdb_ops, .table = *table};
    shard->path = mem_dup(path, strlen(path) + 1);
    shard->lock_fd = -1;
    pthread_rwlock_init(&shard->resize, NULL);
    pthread_mutex_init(&shard->look_lock, NULL);
    pthread_mutex_init(&shard->seen_lock, NULL);
    return shard;
}

static enum rc lmdb_open(const char *path, const struct shard_table *table, enum shard_open how,
                         const struct shard_seen *seen, struct shard **ret_shard, struct err *err)
{
    struct lmdb_shard *shard = shard_new(path, table);
    bool damaged = false;
    enum rc rc = whole_open(shard, how, seen, &damaged, err);
    if (rc == RC_OK && damaged)
        rc = damage_error(shard, err);
    if (rc == RC_OK && how == SHARD_WRITE)
        write_begin(shard);
    if (rc == RC_OK)
        rc = format_open(shard, how, err);
    if (shard->writing)
        write_end(shard, rc == RC_OK);
    if (rc != RC_OK) {
        lmdb_close(&shard->shard);
        return rc;
    }
    *ret_shard = &shard->shard;
    return RC_OK;
}

/* ---- writing ---- */

static int put(struct lmdb_shard *shard, MDB_txn *txn, MDB_val *key, const struct tile_value *value)
{
    uint8_t header[TILE_HEADER_BYTES_MAX];
    size_t len = shard->shard.table.bare ? 0 : tile_header_put(value, header);
    MDB_val room = {.mv_size = len + value->data.len};
    int code = mdb_put(txn, shard->tiles, key, &room, MDB_RESERVE);
    if (code != 0)
        return code;
    memcpy(room.mv_data, header, len);
    if (value->data.len > 0)
        memcpy((uint8_t *)room.mv_data + len, value->data.ptr, value->data.len);
    return 0;
}

static int changes_put(struct lmdb_shard *shard, MDB_txn *txn,
                       const struct shard_change *const *change, size_t count)
{
    uint8_t bytes[TILEKEY_TM_BYTES];
    for (size_t i = 0; i < count; i++) {
        size_t len = tilekey_put(change[i]->key, shard->shard.table.kind == TILE_TM, bytes);
        MDB_val key = {.mv_size = len, .mv_data = bytes};
        int code = change[i]->removed ? mdb_del(txn, shard->tiles, &key, NULL)
                                      : put(shard, txn, &key, &change[i]->value);
        if (code != 0 && code != MDB_NOTFOUND)
            return code;
    }
    return 0;
}

/* Bare values get their header: epoch 0, provider 0. */
static int legacy_convert(struct lmdb_shard *shard, MDB_txn *txn)
{
    static const uint8_t header[2] = {0, 0};
    uint8_t name[TILEKEY_TM_BYTES];
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    CLEANUP(buf_done) struct buf bare;
    buf_init(&bare, SIZE_MAX);
    int code = mdb_cursor_open(txn, shard->tiles, &cursor);
    while (code == 0 && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        if (key.mv_size > sizeof name)
            continue; /* not one of ours */
        buf_cut(&bare, 0);
        if (!buf_add(&bare, header, sizeof header) || !buf_add(&bare, value.mv_data, value.mv_size))
            code = ENOMEM;
        memcpy(name, key.mv_data, key.mv_size); /* both are in the page that is changed */
        key.mv_data = name;
        MDB_val whole = val_of(buf_bytes(&bare));
        if (code == 0)
            code = mdb_cursor_put(cursor, &key, &whole, 0);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

static int mark_put(struct lmdb_shard *shard, MDB_txn *txn)
{
    MDB_val key = val_of(BYTES(FORMAT_KEY)), value = val_of(format_of(shard));
    int code = 0;
    if (!shard->has_format)
        code = mdb_dbi_open(txn, FORMAT_DB, MDB_CREATE, &shard->format);
    if (code == 0 && shard->legacy)
        code = legacy_convert(shard, txn);
    return code == 0 ? mdb_put(txn, shard->format, &key, &value, 0) : code;
}

/* MDB_MAP_FULL, MDB_MAP_RESIZED: (2), and again. */
static int apply_once(struct lmdb_shard *shard, const struct shard_change *const *change,
                      size_t count)
{
    MDB_txn *txn = NULL;
    bool marks = !shard->marked || shard->legacy;
    int code = shard->shard.broken ? MDB_PANIC : lock_wait(shard);
    if (code == 0)
        code = mdb_txn_begin(shard->env, NULL, 0, &txn);
    if (code != 0)
        return code;
    if (marks)
        code = mark_put(shard, txn);
    if (code == 0)
        code = changes_put(shard, txn, change, count);
    if (code == 0)
        code = mdb_txn_commit(txn); /* synced */
    else
        mdb_txn_abort(txn);
    if (code == 0 && marks) {
        shard->has_format = shard->marked = true;
        if (shard->legacy)
            shard->legacy = false; /* readers look at it: only where the lock is not shared */
    }
    return code;
}

/* Whoever reads has the lock shared; a legacy shard is read and rewritten by one at a time. */
static int apply(struct lmdb_shard *shard, const struct shard_change *const *change, size_t count)
{
    for (;;) {
        if (shard->legacy)
            pthread_rwlock_wrlock(&shard->resize);
        else
            pthread_rwlock_rdlock(&shard->resize);
        int code = apply_once(shard, change, count);
        pthread_rwlock_unlock(&shard->resize);
        if (code == MDB_MAP_FULL || code == MDB_MAP_RESIZED) {
            code = map_resize(shard, code);
            if (code == 0)
                continue;
        }
        return code;
    }
}

static enum rc lmdb_apply(struct shard *base, const struct shard_change *const *change,
                          size_t count, struct err *err)
{
    struct lmdb_shard *shard = (struct lmdb_shard *)base;
    write_begin(shard);
    int code = apply(shard, change, count);
    write_end(shard, code == 0);
    return code == 0 ? RC_OK : shard_error(shard, code, err);
}

/* ---- reading ---- */

struct reader {
    struct lmdb_shard *shard;
    MDB_txn *txn;
    MDB_cursor *cursor;
};

static int reader_begin(struct reader *reader, struct shard *base)
{
    *reader = (struct reader){.shard = (struct lmdb_shard *)base};
    int code = txn_begin(reader->shard, &reader->txn);
    return code == 0 ? mdb_cursor_open(reader->txn, reader->shard->tiles, &reader->cursor) : code;
}

static void reader_end(struct reader *reader)
{
    if (reader->cursor)
        mdb_cursor_close(reader->cursor);
    if (reader->txn)
        txn_end(reader->shard, reader->txn);
}

/* The key, or the last before it of the same tile. */
static int find(struct reader *reader, struct tilekey key, bool at, MDB_val *ret_key,
                MDB_val *ret_value)
{
    uint8_t bytes[TILEKEY_TM_BYTES];
    size_t len = tilekey_put(key, reader->shard->shard.table.kind == TILE_TM, bytes);
    *ret_key = (MDB_val){.mv_size = len, .mv_data = bytes};
    if (!at)
        return mdb_cursor_get(reader->cursor, ret_key, ret_value, MDB_SET_KEY);
    int code = mdb_cursor_get(reader->cursor, ret_key, ret_value, MDB_SET_RANGE);
    if (code == 0 && bytes_eq(bytes_of_val(*ret_key), bytes_of(bytes, len)))
        return 0;
    if (code != 0 && code != MDB_NOTFOUND)
        return code;
    code = mdb_cursor_get(reader->cursor, ret_key, ret_value, code == 0 ? MDB_PREV : MDB_LAST);
    if (code == 0 && !bytes_start_with(bytes_of_val(*ret_key), bytes_of(bytes, TILEKEY_BYTES)))
        return MDB_NOTFOUND;
    return code;
}

static enum rc row_add(const struct reader *reader, MDB_val value, struct buf *to, struct err *err)
{
    uint8_t header[TILE_HEADER_BYTES_MAX];
    struct tile_value tile = value_of(reader->shard, value);
    if (tile.data.len > TILE_DATA_BYTES_MAX)
        return err_set(err, RC_VERSION, "shard \"%s\" has a tile over the limit",
                       reader->shard->path);
    size_t len = tile_header_put(&tile, header);
    if (!buf_reserve(to, len + tile.data.len) || !buf_add(to, header, len) ||
        !buf_add_bytes(to, tile.data))
        return err_set(err, RC_NOMEM, "could not allocate memory for a tile");
    return RC_OK;
}

static enum rc lmdb_get(struct shard *base, struct tilekey key, bool at, struct buf *to,
                        struct tilekey *ret_key, struct err *err)
{
    struct reader reader;
    MDB_val found, value;
    enum rc rc = RC_OK;
    int code = reader_begin(&reader, base);
    if (code == 0)
        code = find(&reader, key, at, &found, &value);
    if (code == 0)
        rc = row_add(&reader, value, to, err);
    if (code == 0 && rc == RC_OK &&
        !tilekey_get(bytes_of_val(found), base->table.kind == TILE_TM, ret_key))
        rc = err_set(err, RC_VERSION, "shard \"%s\" has a key that is no tilekey",
                     reader.shard->path);
    if (code != 0)
        rc = code == MDB_NOTFOUND ? RC_NOT_FOUND : shard_error(reader.shard, code, err);
    reader_end(&reader);
    return rc;
}

static int walk(struct reader *reader, const struct shard_range *range, shard_scan_fn *fn,
                void *arg)
{
    bool tm = reader->shard->shard.table.kind == TILE_TM;
    uint8_t bytes[TILEKEY_TM_BYTES];
    MDB_val key = {.mv_size = tilekey_put(range->from, tm, bytes), .mv_data = bytes}, value;
    int code = mdb_cursor_get(reader->cursor, &key, &value, MDB_SET_RANGE);
    for (; code == 0; code = mdb_cursor_get(reader->cursor, &key, &value, MDB_NEXT)) {
        struct tile_scan_row row = {0};
        if (!tilekey_get(bytes_of_val(key), tm, &row.key))
            continue; /* not one of ours: nothing that we name */
        if (tilekey_cmp(row.key, range->to) > 0)
            return 0;
        if (!shard_range_takes(range, tm, &row))
            continue;
        row.bytes = value_of(reader->shard, value).data.len;
        if (!fn(arg, &row))
            return 0;
    }
    return code == MDB_NOTFOUND ? 0 : code;
}

static enum rc lmdb_scan(struct shard *base, const struct shard_range *range, shard_scan_fn *fn,
                         void *arg, struct err *err)
{
    struct reader reader;
    int code = reader_begin(&reader, base);
    if (code == 0)
        code = walk(&reader, range, fn, arg);
    enum rc rc = code == 0 ? RC_OK : shard_error(reader.shard, code, err);
    reader_end(&reader);
    return rc;
}

static bool count_add(void *arg, const struct tile_scan_row *row)
{
    struct shard_count *count = arg;
    count->count++;
    count->bytes += row->bytes;
    return true;
}

static enum rc lmdb_count(struct shard *base, const struct shard_range *range,
                          struct shard_look *look, size_t look_count, struct shard_count *ret_count,
                          struct err *err)
{
    struct reader reader;
    MDB_val key, value;
    *ret_count = (struct shard_count){0};
    int code = reader_begin(&reader, base);
    if (code == 0)
        code = walk(&reader, range, count_add, ret_count);
    for (size_t i = 0; i < look_count && code == 0; i++) {
        code = find(&reader, look[i].key, false, &key, &value);
        look[i].found = code == 0;
        look[i].row = (struct tile_scan_row){.key = look[i].key};
        if (code == 0)
            look[i].row.bytes = value_of(reader.shard, value).data.len;
        code = code == MDB_NOTFOUND ? 0 : code;
    }
    enum rc rc = code == 0 ? RC_OK : shard_error(reader.shard, code, err);
    reader_end(&reader);
    return rc;
}

static enum rc lmdb_prove(const char *path, const struct shard_table *table, bool *ret_damaged,
                          struct err *err)
{
    struct shard_seen never = {0};
    struct lmdb_shard *shard = shard_new(path, table);
    enum rc rc = header_check(path, ret_damaged, err);
    if (rc == RC_OK && !*ret_damaged)
        rc = whole_open(shard, SHARD_WRITE, &never, ret_damaged, err);
    lmdb_close(&shard->shard);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static const char *const beside[] = {"-lock", NULL};

const struct shard_ops shard_lmdb_ops = {
    .name = "kv",
    .shared = true,
    .open = lmdb_open,
    .close = lmdb_close,
    .look = lmdb_look,
    .apply = lmdb_apply,
    .get = lmdb_get,
    .scan = lmdb_scan,
    .count = lmdb_count,
    .prove = lmdb_prove,
    .beside = beside,
};
