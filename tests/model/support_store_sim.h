// SPDX-License-Identifier: Apache-2.0
/* support_store_sim.h - a store without threads, a model beside it, and clients that use both.
 *
 * Everything that could happen at its own time is one event: an attempt of a client, the end of a
 * turn, a step of the journal, the flusher or a loader, a poll, an eviction, a fault, a crash. One
 * seed decides all of them.
 *
 * Ownership: sim_done() frees everything.
 * Threads: one. */
#pragma once

#include "base/clock.h"
#include "base/file_sim.h"
#include "model/support_store_model.h"
#include "store/engine/engine_memory.h"
#include "store/hot/load.h"
#include "store/store.h"
#include "store/turns.h"

enum { SIM_CLIENTS = 10, SIM_OPS_MAX = 8, SIM_FREEZES = 2, SIM_EVENT_KINDS = 18, SIM_FOCUS = 6 };

enum op_kind {
    OP_GET,
    OP_WALK,
    OP_NTH,
    OP_RANK,
    OP_RANGE,
    OP_STATE,
    OP_COUNTER,
    OP_WANT,
    OP_PUT,
    OP_PUT_TELL,
    OP_FILL,
    OP_SPRINKLE,
    OP_DELETE,
    OP_WALK_DELETE,
    OP_COPY,
    OP_GROUP_DROP,
    OP_GROUP_NEW,
    OP_PREFIX_DROP,
    OP_COUNTER_ADD,
    OP_KINDS,
};

struct op {
    enum op_kind kind;
    uint32_t group;
    uint16_t id, id2;
    uint8_t bend; /* how the suffix differs from a known one: 0 not, 1 longer, 2 shorter */
    bool reverse;
    bool has_from;
    bool ahead; /* the rows of this operation and those after it are prefetched first */
    uint32_t count;
    uint32_t group2;
    int64_t delta;
    struct mirror_value value;
};

enum client_state { CLIENT_IDLE, CLIENT_READY, CLIENT_LOADING };

struct client {
    enum client_state state;
    struct op op[SIM_OPS_MAX];
    uint32_t op_count;
    bool writes;
    bool wanted; /* its OP_WANT has had its wait */
    bool take_back;
    uint32_t attempt_count;
    struct load_waiter waiter;
};

struct frozen {
    struct store_freeze *freeze;
    uint64_t lsn_min;
    uint64_t wait; /* events to keep the view before it is compared */
};

struct sim {
    uint64_t seed, event;
    uint64_t weight[SIM_EVENT_KINDS], weight_sum,
        mood_end;              /* how often what happens, until the mood changes */
    uint32_t focus[SIM_FOCUS]; /* groups that are used most until then */
    struct rand rand;
    struct file_sim *files;
    struct engine_memory *memory;
    struct clock clock;
    struct store_options options;
    struct store *store;
    struct mirror model;
    struct err err;
    uint32_t prefix[MODEL_PREFIXES];
    uint32_t counter[MODEL_COUNTERS];
    struct client client[SIM_CLIENTS];
    uint64_t next_ticket;
    struct frozen frozen[SIM_FREEZES];
    bool faulty;      /* this seed has faults */
    bool armed;       /* something may fail now */
    size_t turn_mark; /* of the model's log */
    uint64_t written_lsn, durable_lsn, lsn_max;
    uint64_t mark_max;
    /* A turn that failed and made the journal read-only: a crash may bring it back. */
    struct mirror_change *ghost;
    size_t ghost_count;
    uint64_t ghost_lsn;
    uint64_t commit_count, cold_count, give_up_count, crash_count, freeze_count, failed_turn_count;
    uint64_t evicted_count, purged_count, load_count, unit_count, preempted_count,
        open_failed_count;
    uint64_t reopen_count;
};

void sim_init(struct sim *sim, uint64_t seed);
/* With room for everything, no faults, and empty. */
void sim_init_quiet(struct sim *sim, uint64_t seed);
void sim_done(struct sim *sim);
/* One event. */
void sim_event(struct sim *sim);
/* The faults end, and everything is verified. */
void sim_finish(struct sim *sim);
/* Every row by walks in both directions, and every counter; needs no faults to be armed. */
void sim_verify_all(struct sim *sim);

/* store_write(), and what it must leave behind. */
void sim_turn_end(struct sim *sim);
enum sim_crash { SIM_CRASH_KILL, SIM_CRASH_POWER, SIM_CRASH_TORN, SIM_CRASH_CLOSE };
/* Ends the store, opens it again and compares what came back. */
void sim_crash(struct sim *sim, enum sim_crash kind);
/* Attempts and loads until the transaction is over; turns may end on the way. */
void sim_client_finish(struct sim *sim, struct client *client);

_Noreturn void sim_fail(const struct sim *sim, const char *file, int line, const char *format, ...)
    PRINTF_LIKE(4, 5);
#define SIM_CHECK(sim, condition, ...) \
    ((condition) ? (void)0 : sim_fail(sim, __FILE__, __LINE__, __VA_ARGS__))

/* support_store_ops.c */
void sim_client_start(struct sim *sim, struct client *client);
/* Runs the transaction in a commit of its own. */
void sim_client_attempt(struct sim *sim, struct client *client);
void sim_client_stop(struct sim *sim, struct client *client);

static inline uint64_t sim_below(struct sim *sim, uint64_t limit)
{
    return rand_below(&sim->rand, limit);
}
static inline struct store_group sim_group(const struct sim *sim, uint32_t group)
{
    const struct mirror_group *from = &sim->model.group[group];
    return (struct store_group){sim->prefix[from->prefix], from->key};
}
