// SPDX-License-Identifier: Apache-2.0
/* load.h - bringing cold rows back: one flight an interval, pinned until the waiter has run.
 *
 * A load reads one row, or one page of rows of a group, from the engine. The executor starts it
 * (load_start), a loader thread reads (loads_step), the executor takes the result into the hot tier
 * (load_finish), and the waiters run again. A waiter that wants more rows than a page has does not
 * run again for each: the next page is started when one has ended, until it has them all. What a
 * load brought is not evicted while a waiter pins the load. A load of keys reads a page of the
 * rows of a SPACE_WHOLE prefix; it is not taken into the hot tier but shown to those that pin it.
 *
 * Why the result is right: `mark` is the flush mark when the load was started, and the horizon is
 * at most `mark` while the load is in flight. A change at or below the mark is in what the engine
 * shows; a later change is still hot, as a row, a tombstone, a closed interval or a drop, and what
 * is hot wins. The engine may well show a later state: that is hot too, or equal. This is so for
 * each suffix by itself. So a page reads on past what is hot, and closes every open interval
 * between where it began and where it ended, whoever was evicted from there meanwhile: what could
 * be was clean, and is in the page.
 *
 * Invariants:
 *   (1) Two loads of the same row or of the same place and direction do not exist at once.
 *   (2) A load is in `index` while it is in flight, and in its group's list (a row of a SPACE_WHOLE
 *       space: in `pinned`) while it is in flight or pinned.
 *   (3) load_finish() runs only while no change of the turn can be undone.
 *   (4) A page of keys keeps the horizon at its mark while it is pinned (`shown`): a key that has
 *       changed since is hot, and what is hot wins. So the page never goes stale.
 *
 * Ownership: loads belong to struct loads; a waiter borrows them.
 * Threads: all functions belong to the executor, except those marked. */
#pragma once

#include "base/dlist.h"
#include "base/thread.h"
#include "store/engine/engine.h"
#include "store/hot/hot.h"

enum load_kind { LOAD_ROW, LOAD_PAGE, LOAD_KEYS };
enum load_state { LOAD_QUEUED, LOAD_READING, LOAD_READ, LOAD_READY, LOAD_FAILED };

enum {
    LOAD_PAGE_ROWS_MAX = 256,
    LOAD_PAGE_BYTES_MAX = 64 * 1024,
    LOAD_BULK_FACTOR = 32, /* the largest page, of who wants many rows */
    LOAD_BULK_ROWS_MAX = LOAD_BULK_FACTOR * LOAD_PAGE_ROWS_MAX,
    LOAD_KEYS_BYTES_MAX = 2 * 1024 * 1024,
    LOAD_KEYS_VALUE_BYTES = 64, /* of each value */
};

struct load_waiter;

struct load_pin {
    struct load_waiter *waiter;
    uint64_t row_count; /* the waiter wants so many from the load's first on */
};

struct load {
    enum load_kind kind;
    enum load_state state; /* changes hands with the queue's lock */
    uint8_t space;
    uint32_t slot;
    uint32_t mark;
    size_t prefix_len;
    struct bytes group; /* owned: prefix and key */
    bool reverse;
    uint32_t page_count; /* LOAD_PAGE: it may be so many times as large as the smallest one */
    bool has_from; /* a row's suffix, or where the page begins (included); else the group's end */
    struct bytes from; /* owned */
    bool has_bound;    /* a hot entry where the page ends (excluded); once it is ready, the last row
                        * it brought (included), and nothing is pinned without one */
    struct bytes bound; /* owned */
    /* LOAD_KEYS: keys from the one in `group` on; `from` is a pattern, `bound` in the end the last
     * key that was looked at. */
    bool (*match)(struct bytes pattern, struct bytes key); /* NULL: every key */
    uint32_t look_count_max;
    /* result */
    struct buf rows; /* { u32 suffix length, u32 value length, suffix, value } ... */
    uint32_t row_count;
    size_t pinned_bytes; /* READY: what rows took; it is in the hot tier now */
    bool exhausted;      /* read up to the bound, not only up to the page's limit */
    bool found;          /* LOAD_ROW */
    enum rc rc;
    struct err err;
    /* executor */
    struct load_pin *pin;
    uint32_t pin_count;
    uint32_t pin_cap;
    bool in_flight;
    struct load *group_prev, *group_next; /* loads of the same group */
    struct dlink flight;                  /* of loads.flight, or of loads.shown */
    struct dlink queue;                   /* of loads.queue or loads.done */
};

/* Somebody who waits for loads; embedded by tasks. */
struct load_waiter {
    uint64_t ticket; /* age: smaller is older */
    struct load **load;
    size_t load_count;
    size_t load_cap;
    uint32_t pending_count;
    uint64_t brought_row_count; /* by loads it waited for, since it has let go of everything */
    uint32_t wait_count;        /* since then as well */
    enum rc rc;                 /* of the first failed load */
    struct err err;
    struct dlink link; /* all waiters that pin loads */
    bool listed;
    void (*ready)(struct load_waiter *waiter, void *arg); /* all its loads ended */
    void *arg;
};

struct loads {
    struct hot *hot;
    struct engine *engine;
    const struct space_set *spaces;
    struct table index;  /* in flight, by (slot, group, from, kind, direction) */
    struct table pinned; /* rows that waiters pin, by (slot, group) */
    struct dlist flight; /* loads in flight */
    struct dlist shown;  /* pages of keys that are pinned */
    size_t flight_count;
    struct dlist waiters; /* of struct load_waiter */
    uint64_t pinned_bytes;
    uint64_t started_count, row_count, failed_count, preempted_count;
    uint64_t gap_search_count; /* entries passed in search of open intervals */
    struct err failed_err;     /* of the last load that failed */
    /* shared with the loader threads, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct dlist queue, done;
    bool stopping;
    struct thread *thread;
    uint32_t thread_count;
    void (*notify)(void *arg);
    void *notify_arg;
};

enum rc loads_init(struct loads *loads, struct hot *hot, struct engine *engine,
                   const struct space_set *spaces, uint32_t thread_count, void (*notify)(void *arg),
                   void *notify_arg, struct err *err) NODISCARD;
void loads_done(struct loads *loads); /* stops the threads; waiters are not called */

struct load_want { /* one cold thing; bytes are borrowed */
    enum load_kind kind;
    uint32_t slot;
    struct bytes key; /* without the prefix */
    bool reverse;
    uint64_t row_count;  /* LOAD_PAGE: so many from there on, page after page; 0: one page */
    uint32_t page_count; /* and at least so large; 0: as row_count says */
    bool has_from;
    struct bytes from;
    bool (*match)(struct bytes pattern, struct bytes key);
    uint32_t look_count_max;
};
/* Starts or joins the load of what is wanted. Nothing happens if it is not cold any more; then the
 * waiter does not pin it, and finds out when it runs. */
void load_start(struct loads *loads, const struct load_want *want, uint32_t mark,
                struct load_waiter *waiter);
/* A page of keys that is pinned, or NULL. What it shows is true where nothing is hot. */
const struct load *loads_keys_find(const struct loads *loads, const struct load_want *want);
/* The next of a load's rows, which begin at buf_bytes(&load->rows). */
bool load_rows_next(struct bytes *rows, struct bytes *ret_suffix, struct bytes *ret_value);
/* Takes finished reads into the hot tier and calls waiters. True: something was finished. */
bool loads_poll(struct loads *loads);
/* Lets go of everything that the waiter pins or waits for. */
void load_waiter_release(struct loads *loads, struct load_waiter *waiter);
void load_waiter_done(struct load_waiter *waiter); /* frees the list; nothing may be pinned */
/* Over the limit, everybody but the oldest waiter gives back what is ready. */
void loads_pin_limit(struct loads *loads, uint64_t pinned_bytes_max);
/* The smallest mark of a load in flight or shown (4), at most `mark`. */
uint32_t loads_horizon(const struct loads *loads, uint32_t mark);

/* A loader's work; any thread. False: the queue was empty. */
bool loads_step(struct loads *loads);
