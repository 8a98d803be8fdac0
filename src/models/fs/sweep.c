// SPDX-License-Identifier: Apache-2.0
/* sweep.c - the job that removes what RM RECURSIVE has cut off.
 *
 * A step looks at one grave, the first, and at STEP_CHILDREN of its edges at most. A child that has
 * children becomes a grave of its own, everything else goes; so no step looks deeper than one
 * level.
 *
 * Invariants:
 *   (1) Rows alone say how far the sweep is: a step that is taken back is done again.
 *   (2) The counter of graves is the number of edges in the graveyard.
 *   (3) A row that cannot be read does not stop the sweep: what leads to it goes.
 *   (4) What stands elsewhere in the tree stays, whatever edge leads to it. */
#include "models/fs/fs_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum {
    STEP_CHILDREN = 64,
    RETRY_MS = 1000, /* after an error: a journal that cannot be written */
    NS_PER_MS = 1000 * 1000,
};

struct fs_sweep {
    struct task task;
    struct fs *fs;
    bool asleep;                /* until there is a grave */
    bool failed;                /* the last step: the next one waits a little */
    uint64_t count, step_count; /* inodes removed: in all, by the step that runs */
};

struct child {
    struct bytes name;
    uint64_t id; /* 0: the edge is damaged */
    struct fs_entry entry;
    bool has_entry, has_children;
};

/* The first edges of a directory. */
static enum rc children_read(struct fs *fs, const struct fs_key *dir, struct child *child,
                             size_t *ret_count, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes name, value;
    enum rc rc = RC_OK;
    *ret_count = 0;
    store_walk_init(&walk, fs->store, fs__edges(fs, dir), false);
    while (*ret_count < STEP_CHILDREN &&
           (rc = store_walk_next(&walk, &name, &value, err)) == RC_OK) {
        struct child *one = &child[(*ret_count)++];
        struct err why;
        *one = (struct child){.name = arena_copy(&fs->arena, name)};
        if (fs_edge_decode(value, &one->id, &why) != RC_OK)
            one->id = 0;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* What has to be known before the first of them goes. An inode that stands elsewhere is not ours
 * to remove. */
static enum rc child_look(struct fs *fs, uint64_t dir, struct child *child, struct err *err)
{
    if (child->id == 0)
        return RC_OK;
    enum rc rc = fs__entry_get(fs, child->id, &child->entry, err);
    if (rc == RC_NOT_FOUND || rc == RC_REPLY) {
        rc = RC_OK;
        child->entry = (struct fs_entry){.parent = dir, .name = child->name};
    } else if (rc == RC_OK &&
               (child->entry.parent != dir || !bytes_eq(child->entry.name, child->name))) {
        child->id = 0;
    } else {
        child->has_entry = rc == RC_OK;
    }
    if (rc == RC_OK && child->id != 0)
        rc = fs__has_children(fs, child->id, &child->has_children, err);
    child->entry.name = child->name;
    return rc;
}

static enum rc child_remove(struct fs *fs, uint64_t dir, struct child *child, struct err *err)
{
    enum rc rc = RC_OK;
    if (child->id != 0 && child->has_children) {
        if (!child->has_entry) { /* it was lost; what is below has to go as well */
            child->entry.flags = FS_DIRECTORY | FS_COMPLETE;
            rc = fs__count(fs, &child->entry, 1, err);
        }
        return rc == RC_OK ? fs__bury(fs, child->id, &child->entry, err) : rc;
    }
    if (child->has_entry)
        return fs__erase(fs, child->id, &child->entry, err);
    rc = fs__edge_delete(fs, dir, child->name, err);
    if (rc == RC_OK && child->id != 0)
        rc = fs__entry_delete(fs, child->id, err);
    return rc;
}

/* (4) */
static enum rc grave_is_alive(struct fs *fs, uint64_t id, bool *ret_alive, struct err *err)
{
    struct fs_entry entry;
    enum rc rc = fs__entry_get(fs, id, &entry, err);
    *ret_alive = rc == RC_OK && entry.parent != FS_ID_GRAVEYARD;
    return rc == RC_NOT_FOUND || rc == RC_REPLY ? RC_OK : rc;
}

/* The last rows of a grave. */
static enum rc grave_close(struct fs *fs, struct bytes name, uint64_t id, struct err *err)
{
    struct fs_entry entry;
    enum rc rc = RC_NOT_FOUND;
    if (id != 0)
        rc = fs__entry_get(fs, id, &entry, err);
    if (rc == RC_OK)
        rc = fs__count(fs, &entry, -1, err);
    else if (rc == RC_NOT_FOUND || rc == RC_REPLY)
        rc = RC_OK; /* (3) */
    if (rc == RC_OK && id != 0)
        rc = fs__entry_delete(fs, id, err);
    if (rc == RC_OK)
        rc = fs__edge_delete(fs, FS_ID_GRAVEYARD, name, err);
    if (rc == RC_OK)
        rc = store_counter_add(fs->store, fs->graves, -1, err);
    return rc;
}

static enum rc grave_find(struct fs *fs, struct bytes *ret_name, uint64_t *ret_id, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct fs_key key = fs__key(FS_ID_GRAVEYARD);
    struct bytes name, value;
    struct err why;
    store_walk_init(&walk, fs->store, fs__edges(fs, &key), false);
    enum rc rc = store_walk_next(&walk, &name, &value, err);
    if (rc != RC_OK)
        return rc;
    *ret_name = arena_copy(&fs->arena, name);
    if (fs_edge_decode(value, ret_id, &why) != RC_OK)
        *ret_id = 0;
    return RC_OK;
}

/* RC_NOT_FOUND: there is no grave. */
static enum rc step(struct fs_sweep *sweep, struct err *err)
{
    struct fs *fs = sweep->fs;
    struct bytes name;
    uint64_t id;
    size_t count = 0;
    arena_clear(&fs->arena);
    enum rc rc = grave_find(fs, &name, &id, err), cold = RC_OK;
    if (rc != RC_OK)
        return rc;
    struct child *child = arena_alloc_array(&fs->arena, STEP_CHILDREN, sizeof *child);
    bool alive = false;
    if (id != 0)
        rc = grave_is_alive(fs, id, &alive, err);
    id = alive ? 0 : id;
    struct fs_key key = fs__key(id);
    if (rc == RC_OK && id != 0)
        rc = children_read(fs, &key, child, &count, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        rc = child_look(fs, id, &child[i], err);
        if (rc == RC_COLD) {
            cold = rc; /* all are asked for before the step waits */
            rc = RC_OK;
        }
    }
    if (rc == RC_OK)
        rc = cold;
    sweep->step_count = count == 0; /* the grave itself */
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        sweep->step_count += child[i].has_entry && !child[i].has_children;
        rc = child_remove(fs, id, &child[i], err);
    }
    if (rc == RC_OK && count == 0)
        rc = grave_close(fs, name, id, err);
    return rc;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct fs_sweep *sweep = (struct fs_sweep *)task;
    const struct fs *fs = sweep->fs;
    (void)store;
    if (sweep->failed) {
        sweep->failed = false;
        task_wait_until(task, clock_mono_ns(fs->clock) + (uint64_t)RETRY_MS * NS_PER_MS);
        return RC_WAIT;
    }
    sweep->asleep = store_counter_get(fs->store, fs->graves) <= 0;
    if (sweep->asleep) {
        task_wait_event(task);
        return RC_WAIT;
    }
    enum rc rc = step(sweep, err);
    if (rc == RC_NOT_FOUND) /* the counter is wrong: FS.CHECK sets it right */
        rc = store_counter_add(fs->store, fs->graves, -store_counter_get(fs->store, fs->graves),
                               err);
    return rc;
}

static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct fs_sweep *sweep = (struct fs_sweep *)task;
    (void)err; /* the journal says what is wrong with it, loads count their failures */
    sweep->failed = rc != RC_OK;
    sweep->count += rc == RC_OK ? sweep->step_count : 0;
    task_start(sweep->fs->tasks, task);
}

struct fs_sweep *fs__sweep_new(struct fs *fs)
{
    struct fs_sweep *sweep = mem_zalloc(sizeof *sweep);
    sweep->fs = fs;
    sweep->task.run = job_run;
    sweep->task.done = job_done;
    sweep->task.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    task_start(fs->tasks, &sweep->task);
    return sweep;
}

void fs__sweep_free(struct fs_sweep *sweep)
{
    if (!sweep)
        return;
    task_cancel(&sweep->task);
    mem_free(sweep);
}

void fs__sweep_wake(struct fs_sweep *sweep)
{
    if (sweep && sweep->asleep && store_counter_get(sweep->fs->store, sweep->fs->graves) > 0)
        task_wake(&sweep->task);
}

uint64_t fs__sweep_count(const struct fs_sweep *sweep)
{
    return sweep ? sweep->count : 0;
}
