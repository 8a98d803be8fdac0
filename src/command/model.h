// SPDX-License-Identifier: Apache-2.0
/* model.h - a model: a way to use the store that is no type of Redis's. docs/design/0013-models.md.
 *
 * The server knows a model by this table only, and by the rows of its commands. Functions that a
 * model has no use for are NULL. `object` is what open() gave.
 *
 * Threads: the executor, unless a function says otherwise. */
#pragma once

#include "command/command.h"
#include "command/option.h"
#include "command/page.h"
#include "command/statistic.h"

struct model_host { /* what a model is opened with; borrowed for its life */
    struct kv *kv;
    struct tasks *tasks;
    const struct clock *clock;
    const char *dir; /* of the data; the caller's again when open() has returned */
    /* From any thread: turn() has something to do. */
    void (*wake)(void *arg);
    void *wake_arg;
};

struct model_call { /* a command that will run soon */
    const struct bytes *argv;
    size_t argc;
};

struct model {
    const char *name; /* of its folder */
    const struct option *options;
    size_t option_count;
    size_t options_bytes; /* of the struct that the options are fields of */
    const struct statistics *statistics;
    size_t statistics_count;

    /* Before the first command; may run turns of the tasks. The options' texts die with the next
     * CONFIG SET: what is kept is copied. */
    enum rc (*open)(const struct model_host *host, const void *options, void **ret_object,
                    struct err *err);
    void (*close)(void *object); /* before its kv and tasks */
    /* Between two turns. True: tasks were woken, and another turn comes at once. */
    bool (*turn)(void *object);
    /* At shutdown, again and again: whether there is nothing left to do, or it cannot be done now.
     * What a stop that takes too long leaves, the next start does: `undrained` tells people. */
    bool (*drained)(void *object);
    const char *undrained;
    size_t (*descriptors)(const void *options); /* how many files it may hold open */

    /* After RC_COLD of the last run: whether it wants something of the model, which wakes the task
     * when that is there. *waiter is the request's for this model, NULL at first. */
    bool (*wait)(void *object, void **waiter, struct task *task);
    void (*waiter_free)(void *waiter);
    /* Commands with CMD_PREFETCH: what they will look at is brought into the processor's cache.
     * Changes nothing, answers nothing; outside commits. */
    void (*prefetch)(void *object, const struct model_call *call, size_t count);

    const char *pages; /* of the HTTP port, for people */
    /* On the HTTP thread, which has no object. */
    enum page_found (*page_find)(const struct page_asked *asked, struct page *page);
    /* Inside a run that changes nothing. RC_COLD; RC_OK: the answer is there. */
    enum rc (*page_make)(void *object, const struct run *run, struct page *page, struct err *err);
};
