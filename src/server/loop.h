// SPDX-License-Identifier: Apache-2.0
/* loop.h - waiting for sockets, for a time, and for other threads.
 *
 * epoll today; io_uring can come behind the same header. A watched descriptor is a struct embedded
 * by its owner; loop_wait() calls back for those that are ready. A callback may remove any source,
 * its own included.
 *
 * Ownership: descriptors belong to their owners, who close them after loop_del().
 * Threads: one owner, except loop_wake(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct loop;

enum loop_events { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 };

struct loop_source {
    int fd;          /* -1: none; it may be added, and is never ready */
    unsigned events; /* LOOP_READ | LOOP_WRITE; hang-ups are always reported */
    void (*ready)(struct loop_source *source, unsigned events);
    void *arg; /* the owner's */
};

enum rc loop_open(struct loop **ret_loop, struct err *err) NODISCARD;
void loop_close(struct loop *loop); /* NULL is allowed */
enum rc loop_add(struct loop *loop, struct loop_source *source, struct err *err) NODISCARD;
/* Nothing happens if these are the events already watched for. */
void loop_mod(struct loop *loop, struct loop_source *source, unsigned events);
void loop_del(struct loop *loop, struct loop_source *source);
/* Before loop_wait() sleeps it looks again for a moment, if the last sleep was short: at most a
 * quarter as long as its owner worked, 50 µs at the most. Without effect where there is one core.
 */
void loop_spin_set(struct loop *loop, bool spins);
/* Waits until something is ready, a wake-up came, or the time is over, and calls back. */
enum rc loop_wait(struct loop *loop, uint64_t timeout_ns, struct err *err) NODISCARD;
/* Any thread: the loop_wait() of now, or the next one, returns at once. */
void loop_wake(void *loop);
