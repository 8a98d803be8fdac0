// SPDX-License-Identifier: Apache-2.0
/* support_live.c - drives a real store from a child process. */
#include "support_live.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/hot/load.h"
#include "store/turns.h"
#include "support_child.h"

#include "base/banned.h"

enum { WAIT_MS_MAX = 100 };

static void wake(void *arg)
{
    const struct live *live = arg;
    uint64_t one = 1;
    ssize_t written = write(live->wake_fd, &one, sizeof one);
    (void)written; /* it cannot fail but for a full counter, which wakes as well */
}

void live_ok(struct live *live, enum rc rc)
{
    child_require(rc == RC_OK, "%s: %s", rc_name(rc), live->err.text);
}

void live_open(struct live *live, struct store_options *options)
{
    *live = (struct live){.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    child_require(live->wake_fd >= 0, "could not make an eventfd");
    options->wake = wake;
    options->wake_arg = live;
    live_ok(live, store_open(options, &live->store, &live->err));
}

void live_close(struct live *live)
{
    live_ok(live, store_close(live->store, &live->err));
    close(live->wake_fd);
}

void live_wait(struct live *live)
{
    struct pollfd event = {.fd = live->wake_fd, .events = POLLIN};
    uint64_t count;
    poll(&event, 1, WAIT_MS_MAX);
    ssize_t got = read(live->wake_fd, &count, sizeof count);
    (void)got; /* nothing there: time has passed, and that is asked for too */
    store_poll(live->store);
}

void live_room(struct live *live)
{
    while (!store_room(live->store))
        live_wait(live);
}

void live_flush(struct live *live)
{
    uint64_t segment = store_flush_ask(live->store);
    while (store_flush_mark(live->store) < segment)
        live_wait(live);
}

static void ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    *(bool *)arg = true;
}

void live_load(struct live *live)
{
    bool is_ready = false;
    struct load_waiter waiter = {.ready = ready, .arg = &is_ready};
    store_undo(live->store);
    if (store_wait(live->store, &waiter))
        while (!is_ready)
            live_wait(live);
    child_require(waiter.rc == RC_OK, "a load failed: %s", waiter.err.text);
    store_begin(live->store, 0);
    store_wait_release(live->store, &waiter);
    load_waiter_done(&waiter);
}

enum rc live_get(struct live *live, struct store_group group, struct bytes suffix,
                 struct bytes *ret_value)
{
    for (;;) {
        enum rc rc = store_get(live->store, group, suffix, ret_value, &live->err);
        if (rc == RC_COLD) {
            live_load(live);
            continue;
        }
        child_require(rc == RC_OK || rc == RC_NOT_FOUND, "%s", live->err.text);
        return rc;
    }
}

enum rc live_next(struct live *live, struct store_walk *walk, struct bytes *ret_suffix,
                  struct bytes *ret_value)
{
    for (;;) {
        enum rc rc = store_walk_next(walk, ret_suffix, ret_value, &live->err);
        if (rc == RC_COLD) {
            live_load(live);
            continue;
        }
        child_require(rc == RC_OK || rc == RC_NOT_FOUND, "%s", live->err.text);
        return rc;
    }
}

void live_commit(struct live *live)
{
    store_commit(live->store);
}

void live_write(struct live *live)
{
    live_ok(live, store_write(live->store, &live->err));
    store_poll(live->store);
}
