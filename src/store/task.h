// SPDX-License-Identifier: Apache-2.0
/* task.h - work that may wait: a client's command or a job of ours.
 *
 * A task's run() is called inside an open commit, on the executor. It reads and changes rows and
 * says how it ended:
 *   RC_OK     through: its changes are committed
 *   RC_COLD   its changes are undone; it runs again when what it wanted of the store is loaded. If
 *             that is nothing, and it called task_wait_event(): when that has happened
 *   RC_WAIT   its changes are committed; it runs again when what it asked for with task_wait_*()
 *             has happened, or, if it asked for nothing, in a later turn
 *   others    its changes are undone and it ends with that error
 * Replies and other effects leave in done(), once: when the turn is in the journal (durability
 * `always`: when it is on disk), or failed. So run() may be called many times and must leave
 * nothing behind but rows, except in the task's own memory.
 *
 * A turn (tasks_turn) takes in what other threads finished, runs clients' tasks, then jobs for a
 * slice, writes one journal frame, and calls done().
 *
 * Most commands find everything in memory and need no task: the owner runs them in the turn's
 * clients() hook, each in a commit of its own (store_begin() ... store_commit()), and makes a task
 * only of those that have to wait. turn_end() tells whether the frame with their changes was
 * written.
 *
 * A task that writes and finds no room (store_room) waits before its first change, in order; one
 * that deletes waits only where store_room_to_delete() is false, too. A task of many commits asks
 * again after each that changed rows, whatever its flags are.
 *
 * Ownership: a struct task is embedded by its owner and must live until done() or task_cancel().
 * Threads: the executor, except task_post(). */
#pragma once

#include <pthread.h>

#include "store/hot/load.h"
#include "store/turns.h"

enum task_flags {
    TASK_WRITES = 1,  /* may have to wait for room */
    TASK_DELETES = 2, /* runs below the disk reserve, and has room where writers have none */
    TASK_JOB = 4,     /* runs in the jobs' slice */
};

enum task_state {
    TASK_IDLE, /* not started, or over */
    TASK_READY,
    TASK_RUNNING,
    TASK_LOADING,
    TASK_WAITING, /* for an event, an LSN, a mark or a time */
    TASK_ROOM,
    TASK_ENDED, /* done() is due when its turn is safe */
};

enum task_wait {
    TASK_WAIT_NOTHING,
    TASK_WAIT_EVENT,
    TASK_WAIT_LSN,
    TASK_WAIT_MARK,
    TASK_WAIT_TIME
};

struct tasks;
struct task;
struct task_list {
    struct task *first, *last;
    size_t count;
};

struct task {
    /* set by the owner before task_start() */
    enum rc (*run)(struct task *task, struct store *store, struct err *err);
    void (*done)(struct task *task, enum rc rc, const struct err *err);
    unsigned flags;
    uint64_t deadline_ns; /* of the monotonic clock; 0: none. Past it the task ends: RC_TIMEOUT */

    /* for task.c */
    struct tasks *tasks;
    enum task_state state;
    enum task_wait wait;
    uint64_t wait_value;
    uint64_t end_lsn; /* done() when this LSN is safe */
    uint64_t turn;    /* number of the turn it last changed rows in */
    size_t timer;     /* its place in the heap of times, + 1; 0: none */
    bool needs_room;  /* before it runs */
    bool posted;      /* under the mailbox's lock */
    enum rc rc;
    struct err err;
    struct load_waiter waiter;
    struct task_list *list;
    struct task *prev, *next;
    struct task *post_next;
};

struct tasks_options {
    struct store *store;
    const struct clock *clock;
    enum durability durability;
    /* From any thread: tasks_turn() has something to do. May be NULL. */
    void (*wake)(void *arg);
    void *wake_arg;
    /* Inside a turn, after the tasks that were ready. Without room, and behind tasks that wait for
     * it, a writer has to become a task. Returns true: there is more to do at once. NULL: none. */
    bool (*clients)(void *arg, bool room);
    /* The turn's frame was written, or could not be and everything in it was taken back. */
    void (*turn_end)(void *arg, enum rc rc, const struct err *err);
    void *clients_arg;
};

struct tasks *tasks_new(const struct tasks_options *options);
void tasks_free(struct tasks *tasks); /* cancels what is left; NULL is allowed */

void task_start(struct tasks *tasks, struct task *task);
/* The same for what its owner has just run in the clients() hook: that ended with RC_COLD and was
 * taken back. The task runs when what was wanted is loaded. on_event: when task_wake() is called,
 * or it is posted. */
void task_start_cold(struct tasks *tasks, struct task *task, bool on_event);
/* The owner goes away: done() will not be called. Not from within the task's own run(). */
void task_cancel(struct task *task);

/* Inside run(), before returning RC_WAIT. */
void task_wait_event(struct task *task);             /* until task_wake() or task_post() */
void task_wait_lsn(struct task *task, uint64_t lsn); /* until it is durable, or cannot become so */
void task_wait_mark(struct task *task, uint64_t segment); /* until it is flushed, or that fails */
void task_wait_until(struct task *task, uint64_t mono_ns);

void task_wake(struct task *task); /* nothing happens if it does not wait for an event */
void task_post(struct task *task); /* any thread: task_wake() in the next turn */

/* From the clients() hook, between two commits: the tasks that are ready by now. */
void tasks_run_ready(struct tasks *tasks);
/* One turn. True: there is more to do at once. */
bool tasks_turn(struct tasks *tasks);
/* Nanoseconds until a timer or a deadline is due; UINT64_MAX: none. */
uint64_t tasks_next_ns(const struct tasks *tasks);
size_t tasks_count(const struct tasks *tasks); /* started and not done */
void tasks_durability_set(struct tasks *tasks, enum durability durability);
