// SPDX-License-Identifier: Apache-2.0
/* fs_fix.c - a file system over a store in memory, for unit tests. */
#include "support/fs_fix.h"

#include "base/codec.h"
#include "models/fs/job.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"
#include "types/spaces.h"

#include "base/banned.h"

static void fs_start(struct fs_fix *fix)
{
    struct tasks_options options = {
        .store = fix->kv.store, .clock = &fix->kv.clock, .durability = DURABILITY_EVERYSEC};
    fix->tasks = tasks_new(&options);
    struct fs_options fs = {.store = fix->kv.store, .tasks = fix->tasks, .clock = &fix->kv.clock};
    ASSERT_OK(fs_open(&fs, &fix->fs, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->kv.store, SPACE_INODE, BYTES(""), &fix->inode, &fix->err),
              &fix->err);
    ASSERT_OK(store_prefix(fix->kv.store, SPACE_EDGE, BYTES(""), &fix->edge, &fix->err), &fix->err);
}

static void fs_stop(struct fs_fix *fix)
{
    fs_close(fix->fs);
    tasks_free(fix->tasks);
}

void fs_fix_init(struct fs_fix *fix)
{
    *fix = (struct fs_fix){0};
    kv_fix_init(&fix->kv);
    fs_start(fix);
}

void fs_fix_done(struct fs_fix *fix)
{
    fs_stop(fix);
    kv_fix_done(&fix->kv);
}

void fs_fix_reopen(struct fs_fix *fix)
{
    fs_stop(fix);
    kv_fix_reopen(&fix->kv);
    fs_start(fix);
}

/* ---- calls ---- */

enum call_kind {
    CALL_MKDIR,
    CALL_CREATE,
    CALL_REMOVE,
    CALL_MOVE,
    CALL_RESIZE,
    CALL_CHOWN,
    CALL_STAT
};

struct call {
    struct fs_fix *fix;
    enum call_kind kind;
    struct bytes path, other;
    bool recursive;
    uint64_t id;
    struct fs_stat stat;
};

static enum rc call_body(struct kv_fix *kv, void *arg)
{
    struct call *call = arg;
    struct fs_fix *fix = call->fix;
    struct fs_attrs attrs = {.now_ms = clock_unix_ms(&kv->clock),
                             .block_size = FS_BLOCK_BYTES_DEFAULT,
                             .has_owner = call->kind == CALL_CHOWN,
                             .owner = call->other};
    switch (call->kind) {
    case CALL_MKDIR:
        return fs_mkdir(fix->fs, call->path, true, &attrs, &call->id, &fix->err);
    case CALL_CREATE:
        return fs_create(fix->fs, call->path, &attrs, &call->id, &fix->err);
    case CALL_REMOVE:
        return fs_remove(fix->fs, call->path, call->recursive, &fix->err);
    case CALL_MOVE:
        return fs_move(fix->fs, call->path, call->other, false, &fix->err);
    case CALL_RESIZE:
        return fs_resize(fix->fs, call->path, call->id, true, attrs.now_ms, &fix->err);
    case CALL_CHOWN:
        return fs_attrs_set(fix->fs, call->path, &attrs, &fix->err);
    case CALL_STAT:
        return fs_stat(fix->fs, call->path, true, &call->stat, &fix->err);
    }
    return RC_INVALID;
}

static enum rc call_run(struct fs_fix *fix, struct call *call)
{
    call->fix = fix;
    fix->err.text[0] = 0;
    enum rc rc = kv_fix_run(&fix->kv, call_body, call);
    fs_turn(fix->fs);
    return rc;
}

static struct bytes text_of(const char *text)
{
    return bytes_of(text, strlen(text));
}

enum rc fs_fix_mkdir(struct fs_fix *fix, const char *path, uint64_t *ret_id)
{
    struct call call = {.kind = CALL_MKDIR, .path = text_of(path)};
    enum rc rc = call_run(fix, &call);
    if (ret_id)
        *ret_id = call.id;
    return rc;
}

enum rc fs_fix_create(struct fs_fix *fix, const char *path, uint64_t *ret_id)
{
    struct call call = {.kind = CALL_CREATE, .path = text_of(path)};
    enum rc rc = call_run(fix, &call);
    if (ret_id)
        *ret_id = call.id;
    return rc;
}

enum rc fs_fix_remove(struct fs_fix *fix, const char *path, bool recursive)
{
    struct call call = {.kind = CALL_REMOVE, .path = text_of(path), .recursive = recursive};
    return call_run(fix, &call);
}

enum rc fs_fix_move(struct fs_fix *fix, const char *from, const char *to)
{
    struct call call = {.kind = CALL_MOVE, .path = text_of(from), .other = text_of(to)};
    return call_run(fix, &call);
}

enum rc fs_fix_resize(struct fs_fix *fix, const char *path, uint64_t size)
{
    struct call call = {.kind = CALL_RESIZE, .path = text_of(path), .id = size};
    return call_run(fix, &call);
}

enum rc fs_fix_chown(struct fs_fix *fix, const char *path, const char *owner)
{
    struct call call = {.kind = CALL_CHOWN, .path = text_of(path), .other = text_of(owner)};
    return call_run(fix, &call);
}

uint64_t fs_fix_id(struct fs_fix *fix, const char *target)
{
    struct call call = {.kind = CALL_STAT, .path = text_of(target)};
    return call_run(fix, &call) == RC_OK ? call.stat.id : 0;
}

struct fs_entry fs_fix_stat(struct fs_fix *fix, const char *target)
{
    struct call call = {.kind = CALL_STAT, .path = text_of(target)};
    ASSERT_OK(call_run(fix, &call), &fix->err);
    return call.stat.entry;
}

/* ---- raw rows ---- */

struct raw {
    struct store_group group;
    struct bytes suffix, value;
};

static enum rc raw_body(struct kv_fix *kv, void *arg)
{
    const struct raw *raw = arg;
    if (raw->value.ptr)
        return store_put(kv->store, raw->group, raw->suffix, raw->value, &kv->err);
    enum rc rc = store_delete(kv->store, raw->group, raw->suffix, &kv->err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void raw_put(struct fs_fix *fix, uint32_t prefix, uint64_t id, struct bytes suffix,
                    const void *value, size_t len)
{
    uint8_t key[FS_ID_BYTES];
    struct raw raw = {{prefix, bytes_of(key, sizeof key)}, suffix, bytes_of(value, len)};
    be64_put(key, id);
    ASSERT_OK(kv_fix_run(&fix->kv, raw_body, &raw), &fix->kv.err);
}

void fs_fix_inode_put(struct fs_fix *fix, uint64_t id, const void *value, size_t len)
{
    raw_put(fix, fix->inode, id, BYTES(""), value, len);
}

void fs_fix_edge_put(struct fs_fix *fix, uint64_t parent, struct bytes name, const void *value,
                     size_t len)
{
    raw_put(fix, fix->edge, parent, name, value, len);
}

/* ---- turns ---- */

static bool turn(struct fs_fix *fix)
{
    struct store *store = fix->kv.store;
    bool more = tasks_turn(fix->tasks);
    fs_turn(fix->fs);
    more = store_step(store, STORE_STEP_LOAD) || more;
    more = store_step(store, STORE_STEP_JOURNAL) || more;
    more = store_step(store, STORE_STEP_FLUSH) || more;
    return store_poll(store) || more;
}

void fs_fix_turns(struct fs_fix *fix)
{
    for (int idle = 0; idle < 4;)
        idle = turn(fix) ? 0 : idle + 1;
}

struct waiting {
    struct task task;
    struct fs_check *check;
    struct fs_query_job *query;
    const struct fs_answer *answer;
    bool done;
    enum rc rc;
    struct err err;
};

static enum rc waiting_run(struct task *task, struct store *store, struct err *err)
{
    struct waiting *waiting = (struct waiting *)task;
    (void)store;
    if (waiting->check)
        return fs_check_step(waiting->check, task, err);
    return fs_query_result(waiting->query, task, &waiting->answer, err);
}

static void waiting_done(struct task *task, enum rc rc, const struct err *err)
{
    struct waiting *waiting = (struct waiting *)task;
    waiting->done = true;
    waiting->rc = rc;
    waiting->err = *err;
}

static void wait_for(struct fs_fix *fix, struct waiting *waiting)
{
    waiting->task.run = waiting_run;
    waiting->task.done = waiting_done;
    waiting->task.flags = TASK_WRITES;
    task_start(fix->tasks, &waiting->task);
    while (!waiting->done)
        (void)turn(fix);
}

struct fs_check_result fs_fix_check(struct fs_fix *fix, bool repair)
{
    struct waiting waiting = {.check = fs_check_new(fix->fs, repair)};
    wait_for(fix, &waiting);
    ASSERT_OK(waiting.rc, &waiting.err);
    struct fs_check_result result = *fs_check_result(waiting.check);
    fs_check_free(waiting.check);
    return result;
}

enum rc fs_fix_query(struct fs_fix *fix, const struct fs_query *query, struct fs_answer *answer)
{
    struct waiting waiting = {.query = fs_query_start(fix->fs, query)};
    wait_for(fix, &waiting);
    fix->err = waiting.err;
    fs_answer_init(answer);
    answer->totals = waiting.answer->totals;
    for (size_t i = 0; i < waiting.answer->line_count; i++)
        ASSERT_TRUE(buf_add(&answer->names,
                            waiting.answer->names.ptr + waiting.answer->line[i].name_at,
                            waiting.answer->line[i].name_len) &&
                    buf_add(&answer->names, " ", 1));
    fs_query_end(waiting.query);
    return waiting.rc;
}
