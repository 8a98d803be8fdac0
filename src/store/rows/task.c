// SPDX-License-Identifier: Apache-2.0
/* task.c - lists of tasks, the heap of their times, and the turn that runs them.
 *
 * Invariants:
 *   (1) A task is in exactly one list while it is READY, LOADING, WAITING, ROOM or ENDED.
 *   (2) done() is called once, in the order in which tasks ended, and only when the turn in which
 *       the task ended is safe; an error of the journal reaches every task of the failed turn.
 *   (3) Loads and evictions happen in store_poll(), when nothing can be undone.
 *   (4) A task that waits with a time or a deadline is in the heap of times; nobody else is. */
#include "store/task.h"

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    CLIENT_SLICE_NS = 3800 * 1000, /* with the jobs' slice: at least 5 % for jobs */
    JOB_SLICE_NS = 200 * 1000,
    JOB_RUNS_MAX = 64,        /* a turn, when the clock stands still */
    CLOCK_EVERY = 16,         /* tasks between two looks at the clock */
    TURN_BYTES_MAX = 1 << 20, /* a turn ends when its frame is this large */
    ROOM_ADMIT = 64,          /* parked writers let in a turn */
};

struct tasks {
    struct store *store;
    const struct clock *clock;
    enum durability durability;
    void (*wake)(void *arg);
    void *wake_arg;
    bool (*clients)(void *arg, bool room);
    void (*turn_end)(void *arg, enum rc rc, const struct err *err);
    void *clients_arg;
    /* Asleep: woken by an event or a time. Waiting: looked at every turn. */
    struct task_list ready, jobs, loading, asleep, waiting, room, ended;
    struct task **timer; /* a heap, the earliest first */
    size_t timer_count, timer_cap;
    uint64_t next_ticket;
    uint64_t turn;
    size_t count;
    pthread_mutex_t lock; /* the mailbox */
    struct task *post;
    bool again; /* a task waits for nothing but the next turn */
};

/* ---- times: a binary heap ---- */

static uint64_t task_time_ns(const struct task *task)
{
    uint64_t time_ns = task->deadline_ns ? task->deadline_ns : UINT64_MAX;
    if (task->state == TASK_WAITING && task->wait == TASK_WAIT_TIME && task->wait_value < time_ns)
        time_ns = task->wait_value;
    return time_ns;
}

static void timer_place(struct tasks *tasks, size_t at, struct task *task)
{
    tasks->timer[at] = task;
    task->timer = at + 1;
}

static void timer_up(struct tasks *tasks, size_t at, struct task *task)
{
    while (at > 0 && task_time_ns(tasks->timer[(at - 1) / 2]) > task_time_ns(task)) {
        timer_place(tasks, at, tasks->timer[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    timer_place(tasks, at, task);
}

static void timer_down(struct tasks *tasks, size_t at, struct task *task)
{
    for (size_t child; (child = 2 * at + 1) < tasks->timer_count; at = child) {
        if (child + 1 < tasks->timer_count &&
            task_time_ns(tasks->timer[child + 1]) < task_time_ns(tasks->timer[child]))
            child++;
        if (task_time_ns(tasks->timer[child]) >= task_time_ns(task))
            break;
        timer_place(tasks, at, tasks->timer[child]);
    }
    timer_place(tasks, at, task);
}

static void timer_add(struct task *task)
{
    struct tasks *tasks = task->tasks;
    if (task_time_ns(task) == UINT64_MAX)
        return;
    if (tasks->timer_count == tasks->timer_cap) {
        tasks->timer_cap = tasks->timer_cap ? 2 * tasks->timer_cap : 16;
        tasks->timer = mem_realloc(tasks->timer, tasks->timer_cap * sizeof(struct task *));
    }
    timer_up(tasks, tasks->timer_count++, task);
}

static void timer_remove(struct task *task)
{
    struct tasks *tasks = task->tasks;
    if (task->timer == 0)
        return;
    size_t at = task->timer - 1;
    task->timer = 0;
    struct task *last = tasks->timer[--tasks->timer_count];
    if (last == task)
        return;
    timer_up(tasks, at, last);
    timer_down(tasks, last->timer - 1, last);
}

/* ---- lists ---- */

static void list_add(struct task_list *list, struct task *task)
{
    ASSERT(!task->list);
    task->list = list;
    task->prev = list->last;
    task->next = NULL;
    if (list->last)
        list->last->next = task;
    else
        list->first = task;
    list->last = task;
    list->count++;
}

static void list_add_first(struct task_list *list, struct task *task)
{
    ASSERT(!task->list);
    task->list = list;
    task->prev = NULL;
    task->next = list->first;
    if (list->first)
        list->first->prev = task;
    else
        list->last = task;
    list->first = task;
    list->count++;
}

static void list_remove(struct task *task)
{
    struct task_list *list = task->list;
    if (!list)
        return;
    timer_remove(task);
    if (task->prev)
        task->prev->next = task->next;
    else
        list->first = task->next;
    if (task->next)
        task->next->prev = task->prev;
    else
        list->last = task->prev;
    list->count--;
    task->list = NULL;
    task->prev = task->next = NULL;
}

static void task_move(struct task *task, struct task_list *list, enum task_state state)
{
    list_remove(task);
    list_add(list, task);
    task->state = state;
    if (state == TASK_LOADING || state == TASK_WAITING || state == TASK_ROOM)
        timer_add(task); /* (4) */
}

static void task_ready(struct task *task)
{
    struct tasks *tasks = task->tasks;
    task_move(task, task->flags & TASK_JOB ? &tasks->jobs : &tasks->ready, TASK_READY);
}

/* ---- life ---- */

struct tasks *tasks_new(const struct tasks_options *options)
{
    struct tasks *tasks = mem_zalloc(sizeof *tasks);
    tasks->store = options->store;
    tasks->clock = options->clock;
    tasks->durability = options->durability;
    tasks->wake = options->wake;
    tasks->wake_arg = options->wake_arg;
    tasks->clients = options->clients;
    tasks->turn_end = options->turn_end;
    tasks->clients_arg = options->clients_arg;
    tasks->turn = 1;
    pthread_mutex_init(&tasks->lock, NULL);
    return tasks;
}

static void task_forget(struct task *task)
{
    struct tasks *tasks = task->tasks;
    list_remove(task);
    store_wait_release(tasks->store, &task->waiter);
    load_waiter_done(&task->waiter);
    pthread_mutex_lock(&tasks->lock);
    struct task **at = &tasks->post;
    while (task->posted && *at) {
        if (*at == task) {
            *at = task->post_next;
            task->posted = false;
        } else {
            at = &(*at)->post_next;
        }
    }
    pthread_mutex_unlock(&tasks->lock);
    task->state = TASK_IDLE;
    tasks->count--;
}

void task_cancel(struct task *task)
{
    if (task->state == TASK_IDLE)
        return;
    ASSERT(task->state != TASK_RUNNING);
    task_forget(task);
}

void tasks_free(struct tasks *tasks)
{
    if (!tasks)
        return;
    struct task_list *lists[] = {&tasks->ready,   &tasks->jobs, &tasks->loading, &tasks->asleep,
                                 &tasks->waiting, &tasks->room, &tasks->ended};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while (lists[i]->first)
            task_forget(lists[i]->first);
    pthread_mutex_destroy(&tasks->lock);
    mem_free(tasks->timer);
    mem_free(tasks);
}

static void waiter_ready(struct load_waiter *waiter, void *arg)
{
    struct task *task = arg;
    (void)waiter;
    task_ready(task);
}

static void task_begin(struct tasks *tasks, struct task *task)
{
    ASSERT(task->state == TASK_IDLE && !task->list);
    task->tasks = tasks;
    task->wait = TASK_WAIT_NOTHING;
    task->needs_room = task->flags & TASK_WRITES;
    task->posted = false;
    task->turn = 0;
    task->rc = RC_OK;
    task->err = (struct err){0};
    task->waiter =
        (struct load_waiter){.ticket = tasks->next_ticket++, .ready = waiter_ready, .arg = task};
    tasks->count++;
}

void task_start(struct tasks *tasks, struct task *task)
{
    task_begin(tasks, task);
    task_ready(task);
}

/* What it found cold is being loaded, or it waits for an event. */
static void task_wait_cold(struct task *task)
{
    struct tasks *tasks = task->tasks;
    if (store_wait(tasks->store, &task->waiter))
        task_move(task, &tasks->loading, TASK_LOADING);
    else if (task->wait == TASK_WAIT_EVENT)
        task_move(task, &tasks->asleep, TASK_WAITING);
    else
        task_ready(task);
}

void task_start_cold(struct tasks *tasks, struct task *task, bool on_event)
{
    task_begin(tasks, task);
    if (on_event)
        task->wait = TASK_WAIT_EVENT;
    task_wait_cold(task);
}

/* ---- waiting ---- */

static void task_wait_for(struct task *task, enum task_wait wait, uint64_t value)
{
    ASSERT(task->state == TASK_RUNNING);
    task->wait = wait;
    task->wait_value = value;
}

void task_wait_event(struct task *task)
{
    task_wait_for(task, TASK_WAIT_EVENT, 0);
}

void task_wait_lsn(struct task *task, uint64_t lsn)
{
    task_wait_for(task, TASK_WAIT_LSN, lsn);
}

void task_wait_mark(struct task *task, uint64_t segment)
{
    task_wait_for(task, TASK_WAIT_MARK, segment);
}

void task_wait_until(struct task *task, uint64_t mono_ns)
{
    task_wait_for(task, TASK_WAIT_TIME, mono_ns);
}

void task_wake(struct task *task)
{
    if (task->state == TASK_WAITING && task->wait == TASK_WAIT_EVENT)
        task_ready(task);
}

void task_post(struct task *task)
{
    struct tasks *tasks = task->tasks;
    pthread_mutex_lock(&tasks->lock);
    if (!task->posted) {
        task->posted = true;
        task->post_next = tasks->post;
        tasks->post = task;
    }
    pthread_mutex_unlock(&tasks->lock);
    if (tasks->wake)
        tasks->wake(tasks->wake_arg);
}

static void mailbox_take(struct tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock); /* all the time: a task taken out may be posted again */
    while (tasks->post) {
        struct task *task = tasks->post;
        tasks->post = task->post_next;
        task->posted = false;
        task_wake(task);
    }
    pthread_mutex_unlock(&tasks->lock);
}

/* ---- ending ---- */

static void task_end(struct task *task, enum rc rc)
{
    struct tasks *tasks = task->tasks;
    task->rc = rc;
    task->turn = tasks->turn;
    store_wait_release(tasks->store, &task->waiter);
    task_move(task, &tasks->ended, TASK_ENDED);
}

static bool wait_over(const struct tasks *tasks, const struct task *task)
{
    switch (task->wait) {
    case TASK_WAIT_NOTHING:
        return true;
    case TASK_WAIT_EVENT:
    case TASK_WAIT_TIME:
        return false;
    case TASK_WAIT_LSN:
        return store_durable_lsn(tasks->store) >= task->wait_value ||
               store_journal_failed(tasks->store, &(struct err){0});
    case TASK_WAIT_MARK:
        return store_flush_mark(tasks->store) >= task->wait_value ||
               store_flush_failed(tasks->store, &(struct err){0});
    }
    return true;
}

static void timers_look(struct tasks *tasks)
{
    uint64_t now_ns = tasks->timer_count > 0 ? clock_mono_ns(tasks->clock) : 0;
    while (tasks->timer_count > 0 && task_time_ns(tasks->timer[0]) <= now_ns) {
        struct task *task = tasks->timer[0];
        if (task->deadline_ns && now_ns >= task->deadline_ns) {
            err_set(&task->err, RC_TIMEOUT, "%s", rc_text(RC_TIMEOUT));
            task_end(task, RC_TIMEOUT);
        } else {
            task_ready(task);
        }
    }
}

static void waits_look(struct tasks *tasks)
{
    bool lsn_wanted = false;
    for (struct task *task = tasks->waiting.first, *next; task; task = next) {
        next = task->next;
        if (wait_over(tasks, task))
            task_ready(task);
        else
            lsn_wanted = lsn_wanted || task->wait == TASK_WAIT_LSN;
    }
    if (lsn_wanted && tasks->durability == DURABILITY_NO)
        store_sync_ask(tasks->store); /* nothing else would ever make it durable */
    timers_look(tasks);
}

/* ---- running ---- */

static void task_run(struct tasks *tasks, struct task *task)
{
    struct store *store = tasks->store;
    list_remove(task);
    if (task->waiter.rc != RC_OK) { /* a load failed: that is the answer */
        task->err = task->waiter.err;
        task_end(task, task->waiter.rc);
        return;
    }
    task->state = TASK_RUNNING;
    task->wait = TASK_WAIT_NOTHING;
    store_begin(store, task->flags & TASK_DELETES ? STORE_DELETES : 0);
    enum rc rc = task->run(task, store, &task->err);
    if (rc == RC_OK || rc == RC_WAIT) {
        uint64_t before = store_commit_lsn(store);
        store_commit(store);
        if (store_commit_lsn(store) != before) {
            task->turn =
                tasks->turn; /* a waiting task that changed nothing outlives a failed turn */
            task->needs_room = true;
        }
        if (rc == RC_OK)
            task_end(task, RC_OK);
        else
            task_move(task,
                      task->wait == TASK_WAIT_EVENT || task->wait == TASK_WAIT_TIME
                          ? &tasks->asleep
                          : &tasks->waiting,
                      TASK_WAITING);
        tasks->again = tasks->again || (rc == RC_WAIT && task->wait == TASK_WAIT_NOTHING);
        store_wait_release(store, &task->waiter); /* it has run: its pins would outlast its wait */
        return;
    }
    store_undo(store);
    if (rc != RC_COLD) {
        task_end(task, rc);
        return;
    }
    task_wait_cold(task);
}

static bool has_room(const struct tasks *tasks, const struct task *task, bool room)
{
    if (!task->needs_room)
        return true;
    return task->flags & TASK_DELETES ? store_room_to_delete(tasks->store) : room;
}

/* Those who waited for room come before those who came later. */
static void room_admit(struct tasks *tasks)
{
    struct task *task = tasks->room.first;
    for (int n = 1; n < ROOM_ADMIT && task && task->next; n++)
        task = task->next;
    for (struct task *before; task; task = before) {
        before = task->prev;
        list_remove(task);
        list_add_first(&tasks->ready, task);
        task->state = TASK_READY;
        task->needs_room = false;
    }
}

static void clients_run(struct tasks *tasks, bool room)
{
    uint64_t start_ns = clock_mono_ns(tasks->clock);
    for (size_t left = tasks->ready.count, n = 1; left > 0 && tasks->ready.first; left--, n++) {
        struct task *task = tasks->ready.first;
        if (!has_room(tasks, task, room && !tasks->room.first)) {
            task_move(task, &tasks->room, TASK_ROOM);
            continue;
        }
        task->needs_room = false;
        task_run(tasks, task);
        if (store_turn_bytes(tasks->store) >= TURN_BYTES_MAX)
            return;
        if (n % CLOCK_EVERY == 0 && clock_mono_ns(tasks->clock) - start_ns >= CLIENT_SLICE_NS)
            return;
    }
}

void tasks_run_ready(struct tasks *tasks)
{
    clients_run(tasks, store_room(tasks->store));
}

static void jobs_run(struct tasks *tasks, bool room)
{
    uint64_t start_ns = clock_mono_ns(tasks->clock);
    for (size_t left = tasks->jobs.count < JOB_RUNS_MAX ? tasks->jobs.count : JOB_RUNS_MAX;
         left > 0 && tasks->jobs.first; left--) {
        struct task *task = tasks->jobs.first;
        if (!has_room(tasks, task, room)) {
            task_move(task, &tasks->jobs, TASK_READY); /* to the end; it stays a job */
            continue;
        }
        task->needs_room = false;
        task_run(tasks, task);
        if (clock_mono_ns(tasks->clock) - start_ns >= JOB_SLICE_NS)
            return;
    }
}

/* Jobs that only wait for room are no reason for another turn. */
static bool jobs_can_run(const struct tasks *tasks, bool room)
{
    const struct task *task = tasks->jobs.first;
    while (task && !has_room(tasks, task, room))
        task = task->next;
    return task != NULL;
}

/* The turn could not be written: everything it changed is taken back, so nothing of it happened. */
static void turn_failed(struct tasks *tasks, enum rc rc, const struct err *err)
{
    for (struct task *task = tasks->ended.first; task; task = task->next) {
        if (task->turn == tasks->turn && task->rc == RC_OK) {
            task->rc = rc;
            task->err = *err;
        }
    }
    /* Who waits, and who was woken or ran again meanwhile, had changes in this turn as well. */
    struct task_list *lists[] = {&tasks->asleep, &tasks->waiting, &tasks->ready,
                                 &tasks->jobs,   &tasks->loading, &tasks->room};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (struct task *task = lists[i]->first, *next; task; task = next) {
            next = task->next;
            if (task->turn != tasks->turn)
                continue;
            task->err = *err;
            task_end(task, rc);
        }
    }
}

/* What ended in this turn leaves when the turn's last LSN is safe, reads included: they may have
 * seen what it wrote. */
static void turn_stamp(struct tasks *tasks)
{
    uint64_t lsn = store_commit_lsn(tasks->store);
    for (struct task *task = tasks->ended.last; task && task->turn == tasks->turn;
         task = task->prev)
        task->end_lsn = lsn;
}

static void ended_deliver(struct tasks *tasks)
{
    bool always = tasks->durability == DURABILITY_ALWAYS;
    while (tasks->ended.first) {
        struct task *task = tasks->ended.first;
        if (always && task->end_lsn > store_durable_lsn(tasks->store))
            return;
        task_forget(task);
        task->done(task, task->rc, &task->err);
    }
}

bool tasks_turn(struct tasks *tasks)
{
    struct err err = {0};
    bool more = false;
    tasks->again = false;
    mailbox_take(tasks);
    store_poll(tasks->store);
    waits_look(tasks);
    bool room = store_room(tasks->store);
    if (room)
        room_admit(tasks);
    clients_run(tasks, room);
    if (tasks->clients)
        more = tasks->clients(tasks->clients_arg, room && !tasks->room.first);
    jobs_run(tasks, room);
    enum rc rc = store_write(tasks->store, &err);
    if (rc != RC_OK)
        turn_failed(tasks, rc, &err);
    if (tasks->turn_end)
        tasks->turn_end(tasks->clients_arg, rc, &err);
    turn_stamp(tasks);
    tasks->turn++;
    ended_deliver(tasks);
    return more || tasks->again || tasks->ready.first || jobs_can_run(tasks, room) ||
           (room && tasks->room.first) || store_busy(tasks->store);
}

uint64_t tasks_next_ns(const struct tasks *tasks)
{
    if (tasks->timer_count == 0)
        return UINT64_MAX;
    uint64_t next = task_time_ns(tasks->timer[0]), now = clock_mono_ns(tasks->clock);
    return next > now ? next - now : 0;
}

size_t tasks_count(const struct tasks *tasks)
{
    return tasks->count;
}

void tasks_durability_set(struct tasks *tasks, enum durability durability)
{
    tasks->durability = durability;
    store_durability_set(tasks->store, durability);
}
