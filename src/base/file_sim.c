// SPDX-License-Identifier: Apache-2.0
/* file_sim.c - the simulated file system: paths, entries, faults, power cuts.
 *
 * Invariants:
 *   (1) `seen` is what the process sees, `synced` what a power cut leaves. Both map paths to nodes
 *       and are sorted by path, so a directory stands before what is in it.
 *   (2) synced plus the pending changes of entries, in order, is seen. file_sync() does not make
 *       the name of a new file durable; files_sync_dir() of its directory does.
 *   (3) A file opened before the last power cut or process end is dead: its epoch is older.
 * Each map, pending change and open file holds a reference to its node. */
#include "base/file_sim.h"

#include <pthread.h>
#include <stdio.h>

#include "base/file_sim_int.h"
#include "base/limits.h"
#include "base/mem.h"

#include "base/banned.h"

enum { SIM_OPS = FILE_SIM_READ + 1 };

struct entry {
    char *path; /* owned */
    struct node *node;
};

struct map {
    struct entry *entry;
    size_t count;
    size_t cap;
};

struct entry_change {  /* of a directory, not synced yet */
    char *dir;         /* owned: its sync makes this durable */
    char *from;        /* owned, NULL: not a rename */
    char *path;        /* owned */
    struct node *node; /* NULL: removed */
};

struct file_sim {
    struct files files;
    pthread_mutex_t lock;
    struct map seen;
    struct map synced;
    struct entry_change *change; /* pending, oldest first */
    size_t change_count;
    size_t change_cap;
    struct file_sim_fault fault[SIM_OPS];
    char *fault_path[SIM_OPS]; /* owned copies of path_part */
    uint64_t op_count[SIM_OPS];
    uint64_t free_bytes;
    uint64_t total_bytes; /* what was free when the space was set */
    uint64_t epoch;
};

struct sim_file {
    struct file file;
    struct node *node;
    uint64_t epoch;
    unsigned flags;
};

static struct file_sim *sim_of(struct files *files)
{
    return (struct file_sim *)files;
}

static char *text_copy(const char *text)
{
    return mem_dup(text, strlen(text) + 1);
}

/* Paths and maps. */

/* Without doubled and trailing slashes and leading "./", so that a file has one path. */
static void path_clean(const char *path, char to[PATH_BYTES_MAX])
{
    size_t len = 0;
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    for (; *path && len < PATH_BYTES_MAX - 1; path++) {
        if (*path != '/' || len == 0 || to[len - 1] != '/')
            to[len++] = *path;
    }
    while (len > 1 && to[len - 1] == '/')
        len--;
    if (len == 0)
        to[len++] = '.';
    to[len] = '\0';
}

static void path_parent(const char *path, char to[PATH_BYTES_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 1;
    if (len == 0)
        len = 1; /* "/x" is in "/" */
    memcpy(to, slash ? path : ".", len);
    to[len] = '\0';
}

/* What comes after dir and its slash, or NULL if path is not in dir or below it. */
static const char *path_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    if (strcmp(dir, ".") == 0)
        return *path == '/' || strcmp(path, ".") == 0 ? NULL : path;
    if (strcmp(dir, "/") == 0)
        return *path == '/' && path[1] ? path + 1 : NULL;
    return strncmp(path, dir, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static bool path_is_root(const char *path)
{
    return strcmp(path, ".") == 0 || strcmp(path, "/") == 0;
}

/* The first entry that is not before path. */
static size_t map_place(const struct map *map, const char *path)
{
    size_t low = 0;
    size_t high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(map->entry[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct node *map_get(const struct map *map, const char *path)
{
    size_t place = map_place(map, path);
    if (place < map->count && strcmp(map->entry[place].path, path) == 0)
        return map->entry[place].node;
    return NULL;
}

/* Sets, or with NULL removes. */
static void map_set(struct file_sim *sim, struct map *map, const char *path, struct node *node)
{
    size_t place = map_place(map, path);
    bool found = place < map->count && strcmp(map->entry[place].path, path) == 0;

    file_sim__node_ref(node); /* before the old one goes: they may be the same */
    if (found && node) {
        file_sim__node_unref(&sim->free_bytes, map->entry[place].node);
        map->entry[place].node = node;
    } else if (found) {
        file_sim__node_unref(&sim->free_bytes, map->entry[place].node);
        mem_free(map->entry[place].path);
        map->count--;
        memmove(&map->entry[place], &map->entry[place + 1],
                (map->count - place) * sizeof *map->entry);
    } else if (node) {
        if (map->count == map->cap) {
            map->cap = map->cap ? 2 * map->cap : 16;
            map->entry = mem_realloc(map->entry, map->cap * sizeof *map->entry);
        }
        memmove(&map->entry[place + 1], &map->entry[place],
                (map->count - place) * sizeof *map->entry);
        map->entry[place] = (struct entry){text_copy(path), node};
        map->count++;
    }
}

static void map_rename(struct file_sim *sim, struct map *map, const char *from, const char *to,
                       struct node *node)
{
    char path[PATH_BYTES_MAX];

    map_set(sim, map, from, NULL);
    map_set(sim, map, to, node);
    if (!node->is_dir)
        return;
    for (size_t i = 0; i < map->count;) {
        const char *rest = path_below(map->entry[i].path, from);
        if (!rest) {
            i++;
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", to, rest);
        struct node *child = file_sim__node_ref(map->entry[i].node);
        map_set(sim, map, map->entry[i].path, NULL);
        map_set(sim, map, path, child);
        file_sim__node_unref(&sim->free_bytes, child);
        i = 0; /* the order has changed */
    }
}

static void map_done(struct file_sim *sim, struct map *map)
{
    while (map->count > 0)
        map_set(sim, map, map->entry[map->count - 1].path, NULL);
    mem_free(map->entry);
    *map = (struct map){0};
}

static bool dir_exists(const struct map *map, const char *path)
{
    const struct node *node = map_get(map, path);
    return path_is_root(path) || (node && node->is_dir);
}

static bool parent_exists(const struct map *map, const char *path)
{
    char parent[PATH_BYTES_MAX];
    path_parent(path, parent);
    return dir_exists(map, parent);
}

/* Changes of entries. */

static void entry_change_done(struct file_sim *sim, struct entry_change *change)
{
    mem_free(change->dir);
    mem_free(change->from);
    mem_free(change->path);
    file_sim__node_unref(&sim->free_bytes, change->node);
}

static void entry_apply(struct file_sim *sim, struct map *map, const struct entry_change *change)
{
    if (change->from)
        map_rename(sim, map, change->from, change->path, change->node);
    else
        map_set(sim, map, change->path, change->node);
}

static void entry_change(struct file_sim *sim, const char *from, const char *path,
                         struct node *node)
{
    char dir[PATH_BYTES_MAX];
    path_parent(path, dir);
    if (sim->change_count == sim->change_cap) {
        sim->change_cap = sim->change_cap ? 2 * sim->change_cap : 16;
        sim->change = mem_realloc(sim->change, sim->change_cap * sizeof *sim->change);
    }
    struct entry_change *change = &sim->change[sim->change_count++];
    *change = (struct entry_change){text_copy(dir), from ? text_copy(from) : NULL, text_copy(path),
                                    file_sim__node_ref(node)};
    entry_apply(sim, &sim->seen, change);
}

static bool comes_from_elsewhere(const struct entry_change *change)
{
    char parent[PATH_BYTES_MAX];
    if (!change->from)
        return false;
    path_parent(change->from, parent);
    return strcmp(parent, change->dir) != 0;
}

/* Makes the pending changes of a directory durable. A rename from another directory takes all older
 * changes with it: a file system's own journal has one order. */
static void entries_sync(struct file_sim *sim, const char *dir)
{
    size_t all_before = 0;
    size_t kept = 0;

    for (size_t i = 0; i < sim->change_count; i++) {
        if (strcmp(sim->change[i].dir, dir) == 0 && comes_from_elsewhere(&sim->change[i]))
            all_before = i;
    }
    for (size_t i = 0; i < sim->change_count; i++) {
        if (i < all_before || strcmp(sim->change[i].dir, dir) == 0) {
            entry_apply(sim, &sim->synced, &sim->change[i]);
            entry_change_done(sim, &sim->change[i]);
        } else {
            sim->change[kept++] = sim->change[i];
        }
    }
    sim->change_count = kept;
}

/* Faults. */

static bool fault_hits(struct file_sim *sim, enum file_sim_op slot, const char *path)
{
    struct file_sim_fault *fault = &sim->fault[slot];
    if (fault->count == 0 || (sim->fault_path[slot] && !strstr(path, sim->fault_path[slot])))
        return false;
    if (--fault->count > 0)
        return false;
    /* Armed again for the next call while failures are left. */
    if (fault->times < 0 || --fault->times > 0)
        fault->count = 1;
    return true;
}

/* Counts the call. The fault that hits it, or NULL. */
static const struct file_sim_fault *sim_call(struct file_sim *sim, enum file_sim_op op,
                                             const char *path)
{
    sim->op_count[FILE_SIM_ANY]++;
    if (op != FILE_SIM_ANY)
        sim->op_count[op]++;
    bool any_hits = fault_hits(sim, FILE_SIM_ANY, path);
    if (op != FILE_SIM_ANY && fault_hits(sim, op, path))
        return &sim->fault[op];
    return any_hits ? &sim->fault[FILE_SIM_ANY] : NULL;
}

static enum rc fault_rc(const struct file_sim_fault *fault, const char *path, struct err *err)
{
    return err_set(err, fault->rc, "could not use \"%s\": simulated fault", path);
}

/* As sim_call(), for calls that a fault simply refuses. */
static enum rc sim_try(struct file_sim *sim, enum file_sim_op op, const char *path, struct err *err)
{
    const struct file_sim_fault *fault = sim_call(sim, op, path);
    return fault ? fault_rc(fault, path, err) : RC_OK;
}

static enum rc not_found(const char *path, struct err *err)
{
    return err_set(err, RC_NOT_FOUND, "could not open \"%s\": no such file or directory", path);
}

/* Calls on an open file begin here: the lock is taken, whatever is returned. */
static enum rc file_enter(struct file *file, enum file_sim_op op,
                          const struct file_sim_fault **ret_fault, struct err *err)
{
    struct file_sim *sim = sim_of(file->files);
    pthread_mutex_lock(&sim->lock);
    if (((struct sim_file *)file)->epoch != sim->epoch) /* (3) */
        return err_set(err, RC_IO, "could not use \"%s\": it was opened before the power cut",
                       file->path);
    *ret_fault = sim_call(sim, op, file->path);
    return RC_OK;
}

static enum rc file_leave(struct file *file, enum rc rc)
{
    pthread_mutex_unlock(&sim_of(file->files)->lock);
    return rc;
}

static enum rc sim_leave(struct file_sim *sim, enum rc rc)
{
    pthread_mutex_unlock(&sim->lock);
    return rc;
}

/* The backend's calls. */

static enum rc open_node(struct file_sim *sim, const char *path, unsigned flags,
                         struct node **ret_node, struct err *err)
{
    struct node *node = map_get(&sim->seen, path);
    if (node && (flags & FILE_EXCLUSIVE))
        return err_set(err, RC_BUSY, "could not create \"%s\": it exists", path);
    if (node && node->is_dir)
        return err_set(err, RC_IO, "could not open \"%s\": is a directory", path);
    if (!node) {
        if (!(flags & FILE_CREATE) || !parent_exists(&sim->seen, path))
            return not_found(path, err);
        node = file_sim__node_new(false);
        entry_change(sim, NULL, path, node);
    }
    if ((flags & FILE_TRUNCATE) && node->seen.len > 0) {
        file_sim__node_change(node, (struct change){.truncates = true});
        file_sim__node_charge_at_most(&sim->free_bytes, node, 0);
    }
    *ret_node = node;
    return RC_OK;
}

static enum rc sim_open(struct files *files, const char *raw_path, unsigned flags,
                        struct file **ret_file, struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char path[PATH_BYTES_MAX];
    struct node *node = NULL;

    path_clean(raw_path, path);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_OPEN, path, err);
    if (rc == RC_OK)
        rc = open_node(sim, path, flags, &node, err);
    if (rc != RC_OK)
        return sim_leave(sim, rc);

    struct sim_file *file = mem_alloc(sizeof *file);
    *file =
        (struct sim_file){{files, text_copy(path)}, file_sim__node_ref(node), sim->epoch, flags};
    *ret_file = &file->file;
    return sim_leave(sim, RC_OK);
}

static void sim_close(struct file *file)
{
    struct file_sim *sim = sim_of(file->files);
    struct sim_file *sim_file = (struct sim_file *)file;
    pthread_mutex_lock(&sim->lock);
    if (sim_file->node->lock_of == file)
        sim_file->node->lock_of = NULL;
    file_sim__node_unref(&sim->free_bytes, sim_file->node);
    pthread_mutex_unlock(&sim->lock);
    mem_free(file->path);
    mem_free(file);
}

static struct change change_gather(uint64_t offset, const struct iovec *iov, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += iov[i].iov_len;
    struct change change = {.offset = offset, .len = len, .data = mem_alloc(len)};
    for (size_t at = 0; count > 0; at += iov->iov_len, iov++, count--) {
        if (iov->iov_len)
            memcpy(change.data + at, iov->iov_base, iov->iov_len);
    }
    return change;
}

/* Stores as much as there is room for. */
static enum rc write_change(struct file_sim *sim, struct sim_file *file, struct change change,
                            struct err *err)
{
    struct node *node = file->node;
    enum rc rc = RC_OK;
    if (!file_sim__node_charge(&sim->free_bytes, node, change.offset + change.len)) {
        rc = err_set(err, RC_FULL, "could not write \"%s\": no space left", file->file.path);
        uint64_t room = node->charged_bytes + sim->free_bytes;
        change.len = room > change.offset ? room - change.offset : 0;
        bool fits = change.len == 0 ||
                    file_sim__node_charge(&sim->free_bytes, node, change.offset + change.len);
        ASSERT(fits);
    }
    if (change.len == 0)
        mem_free(change.data);
    else
        file_sim__node_change(node, change);
    return rc;
}

static enum rc sim_writev(struct file *file, uint64_t offset, const struct iovec *iov, int count,
                          struct err *err)
{
    struct sim_file *sim_file = (struct sim_file *)file;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_WRITE, &fault, err);
    if (rc != RC_OK)
        return file_leave(file, rc);
    if (!(sim_file->flags & FILE_WRITE))
        return file_leave(
            file, err_set(err, RC_IO, "could not write \"%s\": opened for reading", file->path));
    struct change change = change_gather(offset, iov, count);
    if (fault && change.len > fault->short_bytes)
        change.len = fault->short_bytes;
    rc = write_change(sim_of(file->files), sim_file, change, err);
    if (fault)
        rc = fault_rc(fault, file->path, err);
    return file_leave(file, rc);
}

static enum rc sim_read(struct file *file, uint64_t offset, void *to, size_t len, size_t *ret_len,
                        struct err *err)
{
    struct sim_file *sim_file = (struct sim_file *)file;
    const struct content *content = &sim_file->node->seen;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_READ, &fault, err);
    if (rc == RC_OK && fault)
        rc = fault_rc(fault, file->path, err);
    else if (rc == RC_OK && !(sim_file->flags & FILE_READ))
        rc = err_set(err, RC_IO, "could not read \"%s\": opened for writing", file->path);
    if (rc != RC_OK)
        return file_leave(file, rc);
    size_t have = offset < content->len ? content->len - offset : 0;
    if (have > len)
        have = len;
    if (have)
        memcpy(to, content->ptr + offset, have);
    *ret_len = have;
    return file_leave(file, RC_OK);
}

static enum rc sim_sync(struct file *file, struct err *err)
{
    struct node *node = ((struct sim_file *)file)->node;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_SYNC, &fault, err);
    if (rc != RC_OK)
        return file_leave(file, rc);
    if (fault) {
        file_sim__node_sync_failed(node);
        return file_leave(file, fault_rc(fault, file->path, err));
    }
    file_sim__node_sync(node);
    return file_leave(file, RC_OK);
}

static enum rc sim_truncate(struct file *file, uint64_t len, struct err *err)
{
    struct node *node = ((struct sim_file *)file)->node;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_TRUNCATE, &fault, err);
    if (rc == RC_OK && fault)
        rc = fault_rc(fault, file->path, err);
    if (rc != RC_OK)
        return file_leave(file, rc);
    file_sim__node_change(node, (struct change){.truncates = true, .offset = len});
    file_sim__node_charge_at_most(&sim_of(file->files)->free_bytes, node, len);
    return file_leave(file, RC_OK);
}

static enum rc sim_allocate(struct file *file, uint64_t len, struct err *err)
{
    struct node *node = ((struct sim_file *)file)->node;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_ALLOCATE, &fault, err);
    if (rc == RC_OK && fault)
        rc = fault_rc(fault, file->path, err);
    else if (rc == RC_OK && !file_sim__node_charge(&sim_of(file->files)->free_bytes, node, len))
        rc = err_set(err, RC_FULL, "could not allocate \"%s\": no space left", file->path);
    return file_leave(file, rc);
}

static enum rc sim_size(struct file *file, uint64_t *ret_len, struct err *err)
{
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_ANY, &fault, err);
    if (rc == RC_OK && fault)
        rc = fault_rc(fault, file->path, err);
    if (rc == RC_OK)
        *ret_len = ((struct sim_file *)file)->node->seen.len;
    return file_leave(file, rc);
}

static enum rc sim_lock(struct file *file, struct err *err)
{
    struct node *node = ((struct sim_file *)file)->node;
    const struct file_sim_fault *fault = NULL;

    enum rc rc = file_enter(file, FILE_SIM_ANY, &fault, err);
    if (rc == RC_OK && fault)
        rc = fault_rc(fault, file->path, err);
    else if (rc == RC_OK && node->lock_of && node->lock_of != file)
        rc = err_set(err, RC_BUSY, "could not lock \"%s\": it is in use", file->path);
    if (rc == RC_OK)
        node->lock_of = file;
    return file_leave(file, rc);
}

static enum rc sim_rename(struct files *files, const char *raw_from, const char *raw_to,
                          struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char from[PATH_BYTES_MAX];
    char to[PATH_BYTES_MAX];

    path_clean(raw_from, from);
    path_clean(raw_to, to);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_RENAME, to, err);
    struct node *node = map_get(&sim->seen, from);
    if (rc == RC_OK && (!node || !parent_exists(&sim->seen, to)))
        rc = not_found(node ? to : from, err);
    if (rc == RC_OK && strcmp(from, to) != 0)
        entry_change(sim, from, to, node);
    return sim_leave(sim, rc);
}

static enum rc sim_link(struct files *files, const char *raw_from, const char *raw_to,
                        struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char from[PATH_BYTES_MAX];
    char to[PATH_BYTES_MAX];

    path_clean(raw_from, from);
    path_clean(raw_to, to);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_LINK, to, err);
    struct node *node = map_get(&sim->seen, from);
    if (rc == RC_OK && (!node || !parent_exists(&sim->seen, to)))
        rc = not_found(node ? to : from, err);
    else if (rc == RC_OK && map_get(&sim->seen, to))
        rc = err_set(err, RC_BUSY, "could not link \"%s\": it exists", to);
    if (rc == RC_OK)
        entry_change(sim, NULL, to, node);
    return sim_leave(sim, rc);
}

static bool dir_is_empty(const struct map *map, const char *path)
{
    for (size_t i = 0; i < map->count; i++) {
        if (path_below(map->entry[i].path, path))
            return false;
    }
    return true;
}

static enum rc sim_remove(struct files *files, const char *raw_path, struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char path[PATH_BYTES_MAX];

    path_clean(raw_path, path);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_REMOVE, path, err);
    const struct node *node = map_get(&sim->seen, path);
    if (rc == RC_OK && !node)
        rc = not_found(path, err);
    else if (rc == RC_OK && node->is_dir && !dir_is_empty(&sim->seen, path))
        rc = err_set(err, RC_IO, "could not remove \"%s\": directory not empty", path);
    if (rc == RC_OK)
        entry_change(sim, NULL, path, NULL);
    return sim_leave(sim, rc);
}

static enum rc sim_make_dir(struct files *files, const char *raw_path, struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char path[PATH_BYTES_MAX];

    path_clean(raw_path, path);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_ANY, path, err);
    if (rc != RC_OK || dir_exists(&sim->seen, path))
        return sim_leave(sim, rc);
    if (map_get(&sim->seen, path))
        rc = err_set(err, RC_IO, "could not make directory \"%s\": a file is there", path);
    else if (!parent_exists(&sim->seen, path))
        rc = not_found(path, err);
    else
        entry_change(sim, NULL, path, file_sim__node_new(true));
    return sim_leave(sim, rc);
}

static enum rc sim_sync_dir(struct files *files, const char *raw_path, struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char path[PATH_BYTES_MAX];

    path_clean(raw_path, path);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_SYNC_DIR, path, err);
    if (rc == RC_OK && !dir_exists(&sim->seen, path))
        rc = not_found(path, err);
    if (rc == RC_OK)
        entries_sync(sim, path);
    return sim_leave(sim, rc);
}

/* Names first, calls then: fn may use the same files. */
static enum rc sim_list(struct files *files, const char *raw_path,
                        enum rc (*fn)(const char *name, void *arg, struct err *err), void *arg,
                        struct err *err)
{
    struct file_sim *sim = sim_of(files);
    char path[PATH_BYTES_MAX];
    size_t count = 0;

    path_clean(raw_path, path);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_ANY, path, err);
    if (rc == RC_OK && !dir_exists(&sim->seen, path))
        rc = not_found(path, err);
    if (rc != RC_OK)
        return sim_leave(sim, rc);
    char **name = mem_alloc(sim->seen.count * sizeof *name);
    for (size_t i = 0; i < sim->seen.count; i++) {
        const char *rest = path_below(sim->seen.entry[i].path, path);
        if (rest && !strchr(rest, '/'))
            name[count++] = text_copy(rest);
    }
    pthread_mutex_unlock(&sim->lock);

    for (size_t i = 0; i < count; i++) {
        if (rc == RC_OK)
            rc = fn(name[i], arg, err);
        mem_free(name[i]);
    }
    mem_free(name);
    return rc;
}

static enum rc sim_free_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                              struct err *err)
{
    struct file_sim *sim = sim_of(files);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_ANY, path, err);
    if (rc == RC_OK)
        *ret_bytes = sim->free_bytes;
    return sim_leave(sim, rc);
}

static enum rc sim_total_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                               struct err *err)
{
    struct file_sim *sim = sim_of(files);
    pthread_mutex_lock(&sim->lock);
    enum rc rc = sim_try(sim, FILE_SIM_ANY, path, err);
    if (rc == RC_OK)
        *ret_bytes = sim->total_bytes;
    return sim_leave(sim, rc);
}

static const struct file_ops sim_ops = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .writev = sim_writev,
    .read = sim_read,
    .sync = sim_sync,
    .truncate = sim_truncate,
    .allocate = sim_allocate,
    .size = sim_size,
    .lock = sim_lock,
    .rename = sim_rename,
    .link = sim_link,
    .remove = sim_remove,
    .make_dir = sim_make_dir,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .free_bytes = sim_free_bytes,
    .total_bytes = sim_total_bytes,
};

struct file_sim *file_sim_new(void)
{
    struct file_sim *sim = mem_zalloc(sizeof *sim);
    sim->files.ops = &sim_ops;
    sim->free_bytes = sim->total_bytes = UINT64_MAX;
    pthread_mutex_init(&sim->lock, NULL);
    return sim;
}

static void changes_drop(struct file_sim *sim)
{
    for (size_t i = 0; i < sim->change_count; i++)
        entry_change_done(sim, &sim->change[i]);
    sim->change_count = 0;
}

void file_sim_free(struct file_sim *sim)
{
    if (!sim)
        return;
    changes_drop(sim);
    mem_free(sim->change);
    map_done(sim, &sim->seen);
    map_done(sim, &sim->synced);
    for (size_t i = 0; i < SIM_OPS; i++)
        mem_free(sim->fault_path[i]);
    pthread_mutex_destroy(&sim->lock);
    mem_free(sim);
}

struct files *file_sim_files(struct file_sim *sim)
{
    return &sim->files;
}

void file_sim_arm(struct file_sim *sim, const struct file_sim_fault *fault)
{
    ASSERT((unsigned)fault->op < SIM_OPS);
    pthread_mutex_lock(&sim->lock);
    struct file_sim_fault *slot = &sim->fault[fault->op];
    mem_free(sim->fault_path[fault->op]);
    sim->fault_path[fault->op] = fault->path_part ? text_copy(fault->path_part) : NULL;
    *slot = *fault;
    slot->path_part = NULL;
    if (slot->times == 0)
        slot->times = 1; /* a fault that was only named */
    if (slot->rc == RC_OK)
        slot->rc = RC_IO;
    pthread_mutex_unlock(&sim->lock);
}

uint64_t file_sim_op_count(struct file_sim *sim, enum file_sim_op op)
{
    ASSERT((unsigned)op < SIM_OPS);
    pthread_mutex_lock(&sim->lock);
    uint64_t count = sim->op_count[op];
    pthread_mutex_unlock(&sim->lock);
    return count;
}

void file_sim_space(struct file_sim *sim, uint64_t free_bytes)
{
    pthread_mutex_lock(&sim->lock);
    sim->free_bytes = sim->total_bytes = free_bytes;
    pthread_mutex_unlock(&sim->lock);
}

/* Of each directory, the changes up to some point have reached the disk by themselves. */
static void entries_tear(struct file_sim *sim, struct rand *rand)
{
    size_t lost = 0; /* the first so many in the list are lost, and end their directory's */

    for (size_t i = 0; i < sim->change_count; i++) {
        struct entry_change change = sim->change[i];
        char from_dir[PATH_BYTES_MAX];
        bool survives = rand_below(rand, 4) > 0;
        path_parent(change.from ? change.from : change.path, from_dir);
        for (size_t j = 0; j < lost; j++) {
            if (strcmp(sim->change[j].dir, change.dir) == 0 ||
                strcmp(sim->change[j].dir, from_dir) == 0)
                survives = false;
        }
        if (!survives) {
            sim->change[lost++] = change;
            continue;
        }
        entry_apply(sim, &sim->synced, &change);
        entry_change_done(sim, &change);
    }
    sim->change_count = lost;
}

/* (2): what is synced becomes what is seen; what lost its directory is gone. */
static void entries_power_cut(struct file_sim *sim)
{
    changes_drop(sim);
    map_done(sim, &sim->seen);
    for (size_t i = 0; i < sim->synced.count;) {
        const struct entry *entry = &sim->synced.entry[i];
        if (parent_exists(&sim->seen, entry->path)) {
            map_set(sim, &sim->seen, entry->path, entry->node);
            i++;
        } else {
            map_set(sim, &sim->synced, entry->path, NULL);
        }
    }
}

void file_sim_power_cut(struct file_sim *sim, bool torn, struct rand *rand)
{
    pthread_mutex_lock(&sim->lock);
    sim->epoch++;
    if (torn)
        entries_tear(sim, rand);
    entries_power_cut(sim);
    for (size_t i = 0; i < sim->seen.count; i++)
        file_sim__node_power_cut(&sim->free_bytes, sim->seen.entry[i].node, torn, rand);
    pthread_mutex_unlock(&sim->lock);
}

void file_sim_process_end(struct file_sim *sim)
{
    pthread_mutex_lock(&sim->lock);
    sim->epoch++;
    for (size_t i = 0; i < sim->seen.count; i++)
        sim->seen.entry[i].node->lock_of = NULL;
    pthread_mutex_unlock(&sim->lock);
}
