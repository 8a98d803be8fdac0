// SPDX-License-Identifier: Apache-2.0
/* loop.c - epoll and an eventfd behind loop.h. */
#include "server/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    EVENTS_MAX = 256,
    TIMEOUT_MS_MAX = 60 * 1000,
    SPIN_NS_MAX = 50 * 1000, /* a wait that is longer is slept through */
    SPIN_SHARE = 4,          /* of the time that was worked, a quarter */
};

struct loop {
    int epoll_fd;
    struct loop_source wake;
    _Atomic bool woken; /* shared: atomic; the wake-up is on its way, another is not needed */
    struct epoll_event event[EVENTS_MAX];
    int event_count; /* of the batch being called back; 0: none */
    int event_index;
    bool spins;
    bool spin_pays;        /* the last sleep was short */
    struct clock clock;    /* a real one: so are the waits */
    uint64_t awake_ns;     /* since when it works */
    uint64_t spin_left_ns; /* what it has worked for, and not used */
};

static uint32_t epoll_events(unsigned events)
{
    return (events & LOOP_READ ? EPOLLIN : 0) | (events & LOOP_WRITE ? EPOLLOUT : 0);
}

static void wake_ready(struct loop_source *source, unsigned events)
{
    struct loop *loop = source->arg;
    uint64_t count;
    (void)events;
    ssize_t got = read(source->fd, &count, sizeof count);
    (void)got; /* empty is as good */
    atomic_store(&loop->woken, false);
}

enum rc loop_open(struct loop **ret_loop, struct err *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = (struct loop_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                      .events = LOOP_READ,
                                      .ready = wake_ready,
                                      .arg = loop};
    enum rc rc = RC_OK;
    if (loop->epoll_fd < 0 || loop->wake.fd < 0)
        rc = err_set(err, RC_IO, "could not make an event loop: %s", strerror(errno));
    else
        rc = loop_add(loop, &loop->wake, err);
    if (rc != RC_OK) {
        loop_close(loop);
        return rc;
    }
    *ret_loop = loop;
    return RC_OK;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->wake.fd >= 0)
        close(loop->wake.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    mem_free(loop);
}

enum rc loop_add(struct loop *loop, struct loop_source *source, struct err *err)
{
    struct epoll_event event = {.events = epoll_events(source->events), .data.ptr = source};
    if (source->fd < 0)
        return RC_OK;
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return err_set(err, RC_IO, "could not watch a descriptor: %s", strerror(errno));
    return RC_OK;
}

void loop_mod(struct loop *loop, struct loop_source *source, unsigned events)
{
    if (source->events == events)
        return;
    struct epoll_event event = {.events = epoll_events(events), .data.ptr = source};
    source->events = events;
    if (source->fd < 0)
        return;
    int done = epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
    ASSERT(done == 0); /* fails only for what is not watched */
}

void loop_del(struct loop *loop, struct loop_source *source)
{
    if (source->fd < 0)
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    for (int i = loop->event_index + 1; i < loop->event_count; i++)
        if (loop->event[i].data.ptr == source)
            loop->event[i].data.ptr = NULL;
}

static void event_call(const struct epoll_event *event)
{
    struct loop_source *source = event->data.ptr;
    unsigned events = 0;
    if (!source)
        return; /* removed by a callback of this batch */
    if (event->events & EPOLLIN)
        events |= LOOP_READ;
    if (event->events & EPOLLOUT)
        events |= LOOP_WRITE;
    if (event->events & (EPOLLHUP | EPOLLERR))
        events |= LOOP_HANGUP;
    source->ready(source, events);
}

void loop_spin_set(struct loop *loop, bool spins)
{
    cpu_set_t cores;
    clock_init(&loop->clock);
    loop->awake_ns = clock_mono_ns(&loop->clock);
    loop->spins = spins && sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 1;
}

/* Looks until something is ready or nothing is left to spend. */
static int events_spin(struct loop *loop, uint64_t *now_ns)
{
    uint64_t end_ns = *now_ns + loop->spin_left_ns;
    int count = 0;
    while (count == 0 && *now_ns < end_ns) {
        count = epoll_wait(loop->epoll_fd, loop->event, EVENTS_MAX, 0);
        *now_ns = clock_mono_ns(&loop->clock);
    }
    loop->spin_left_ns = *now_ns < end_ns ? end_ns - *now_ns : 0;
    return count;
}

/* To be woken up costs some microseconds, of the client that wakes as well. Busy clients send again
 * sooner than that: then a short look before the sleep is the cheaper way, for both. */
static int events_wait(struct loop *loop, int timeout_ms)
{
    if (!loop->spins || timeout_ms == 0)
        return epoll_wait(loop->epoll_fd, loop->event, EVENTS_MAX, timeout_ms);
    uint64_t now_ns = clock_mono_ns(&loop->clock);
    loop->spin_left_ns += (now_ns - loop->awake_ns) / SPIN_SHARE;
    if (loop->spin_left_ns > SPIN_NS_MAX)
        loop->spin_left_ns = SPIN_NS_MAX;
    int count = loop->spin_pays ? events_spin(loop, &now_ns) : 0;
    if (count == 0) {
        uint64_t asleep_ns = now_ns;
        count = epoll_wait(loop->epoll_fd, loop->event, EVENTS_MAX, timeout_ms);
        now_ns = clock_mono_ns(&loop->clock);
        loop->spin_pays = now_ns - asleep_ns < SPIN_NS_MAX;
    }
    loop->awake_ns = now_ns;
    return count;
}

enum rc loop_wait(struct loop *loop, uint64_t timeout_ns, struct err *err)
{
    uint64_t timeout_ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    if (timeout_ms > TIMEOUT_MS_MAX)
        timeout_ms = TIMEOUT_MS_MAX;
    int count = events_wait(loop, (int)timeout_ms);
    if (count < 0 && errno != EINTR)
        return err_set(err, RC_IO, "could not wait for events: %s", strerror(errno));
    loop->event_count = count > 0 ? count : 0;
    for (loop->event_index = 0; loop->event_index < loop->event_count; loop->event_index++)
        event_call(&loop->event[loop->event_index]);
    loop->event_count = 0;
    return RC_OK;
}

void loop_wake(void *arg)
{
    struct loop *loop = arg;
    const uint64_t one = 1;
    if (atomic_exchange(&loop->woken, true))
        return;
    ssize_t written = write(loop->wake.fd, &one, sizeof one);
    (void)written; /* a full counter wakes as well */
}
