// SPDX-License-Identifier: Apache-2.0
/* kv.h - the keyspace: what all types share, and the namespaces ("databases") in it.
 *
 * Whatever touches keys is a run (run.h).
 *
 * Who has to know about changed keys (WATCH, blocked clients, keyspace events) is told through
 * hooks, inside the commit. Models that take part in finding and changing keys have guards on
 * databases: guard.h. The commit may still be taken back: a hook collects, and acts
 * when its command has ended well. kv->listening says whether anybody wants to know at all.
 *
 * Ownership: the owner of a kv owns its namespaces through it; the store is borrowed for its life.
 * Threads: the executor. */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "base/dlist.h"
#include "base/rand.h"
#include "store/store.h"
#include "types/held.h"
#include "types/meta.h"
#include "types/run.h"
#include "types/scan.h"

enum kv_event {
    KV_EVENT_GENERIC = 1 << 0, /* g */
    KV_EVENT_STRING = 1 << 1,  /* $ */
    KV_EVENT_LIST = 1 << 2,    /* l */
    KV_EVENT_SET = 1 << 3,     /* s */
    KV_EVENT_HASH = 1 << 4,    /* h */
    KV_EVENT_ZSET = 1 << 5,    /* z */
    KV_EVENT_EXPIRED = 1 << 6, /* x */
    KV_EVENT_EVICTED = 1 << 7, /* e; never sent: nothing is lost when memory is short */
    KV_EVENT_STREAM = 1 << 8,  /* t */
    KV_EVENT_MISS = 1 << 9,    /* m: a key that is not there was read; it has not changed */
    KV_EVENT_NEW = 1 << 10, /* n: sent beside the event that says how; it has not changed twice */
};

struct build;
struct expire;
struct key_guard;
struct ns;
struct kv_hooks {
    /* Where the hooks below collect what runs tell; may be NULL. */
    const struct buf *told;
    /* A run ends that has told something, from run->told_from on. It has happened if rc is RC_OK or
     * RC_WAIT. */
    void (*end)(void *arg, const struct run *run, enum rc rc);
    /* A key of run->ns has changed (except KV_EVENT_MISS and _NEW). `exists`: it is there after the
     * change. */
    void (*changed)(void *arg, const struct run *run, struct bytes key, enum kv_event kind,
                    const char *event, bool exists);
    /* Every key of the namespace is gone; swapped: became another's, or came (SWAPDB). */
    void (*flushed)(void *arg, struct ns *ns, bool swapped);
    void *arg;
};

/* A database: what SELECT picks. It stays where it is for the life of the kv; SWAPDB and NAMESPACE
 * change which namespace is in it (names.h). */
struct ns {
    struct kv *kv;
    uint32_t index; /* of SELECT */
    bool open;      /* a namespace is in it; otherwise nobody gets it from kv_ns() */
    /* The guards of the index, with NULL behind them; NULL: it has none. */
    const struct key_guard **guards;
    const struct key_guard *name_guard;   /* the one of them that has a name_check(); NULL: none */
    uint32_t meta, data, expiry, garbage; /* prefixes */
    uint32_t key_count;                   /* numbers of the store's counters */
    uint32_t expire_count;
    uint32_t sweep_ms; /* the low-water mark of the expiry index: nothing is below it */
    uint32_t place;    /* the stored index + 1; 0: where it has always been, or nowhere */
    struct bytes name;
};

/* Up to what size Redis keeps a key compact: OBJECT ENCODING answers as it would. */
struct kv_encodings {
    uint64_t hash_listpack_count, hash_listpack_bytes;
    uint64_t set_intset_count;
    uint64_t zset_listpack_count, zset_listpack_bytes;
};

enum { KV_NS_MAX = 1000, KV_NS_START = 16 }; /* each has four of the store's counters */
_Static_assert(4 * KV_NS_MAX <= STORE_COUNTERS_MAX, "every namespace has its counters");
#define KV_NS_NOWHERE UINT32_MAX
#define KV_NS_PLACE "place" /* counter "place:<name>": see struct ns */

struct kv {
    struct store *store;
    const struct clock *clock;
    struct rand rand;
    struct arena arena;  /* of the run */
    bool is_running;     /* a run has begun and not ended: the next one must wait */
    struct buf row;      /* a row in construction */
    unsigned listening;  /* nonzero: hooks.changed is called; the hooks' owner sets it */
    unsigned miss_event; /* KV_EVENT_MISS when somebody listens for it, KV_EVENT_NEW alike */
    struct kv_hooks hooks;
    const struct key_guard **guards;         /* of every database, also of those to come */
    struct held held;                        /* the meta row of a run of commands on one key */
    struct dlist builds;                     /* objects that are being built; build.h */
    uint64_t build_rows_min;                 /* from so many rows on; tests make it small */
    uint64_t build_count, build_again_count; /* begun, and those of them that had to begin again */
    uint64_t id_lsn;
    uint32_t id_ordinal;
    struct ns **ns; /* by index; NULL or closed where there is none: see kv_ns() */
    size_t ns_count;
    struct ns **home; /* the namespaces, each with the index it has if `place` says nothing */
    size_t home_count;
    bool moved; /* namespaces changed places, and that may still be taken back */
    uint64_t moved_lsn;
    struct scan_cursors cursors;
    struct expire *expire; /* the sweep; NULL: none runs */
    struct kv_encodings encodings;
    uint64_t string_bytes_max; /* no string grows beyond; at most STRING_BYTES_MAX */
    struct run_counts counts;  /* of all runs */
    uint64_t run_seq;          /* the number of the run that is under way, or was last */
};

void kv_init(struct kv *kv, struct store *store, const struct clock *clock);
void kv_done(struct kv *kv); /* and its namespaces */
/* Inside a commit: an ID that no other object of this store ever has. */
void kv_id_draw(struct kv *kv, uint8_t to[KEY_ID_BYTES]);

/* Outside commits: opens a namespace under an index that is free. KV_NS_NOWHERE: *ret_ns is no
 * database, it is what kv_ns_place() will put into one. RC_INVALID: a bad name, or one that begins
 * with another's or is the beginning of another's; RC_BUSY: the index or the name is taken. */
enum rc kv_ns_open(struct kv *kv, uint32_t index, struct bytes name, struct ns **ret_ns,
                   struct err *err) NODISCARD;
/* Puts every namespace where the store's counters say. */
void kv_ns_place(struct kv *kv);
/* RC_INVALID, RC_BUSY: kv_ns_open() would refuse it. */
enum rc kv_ns_check(const struct kv *kv, uint32_t index, struct bytes name,
                    struct err *err) NODISCARD;
struct ns *kv_ns(const struct kv *kv, uint64_t index); /* NULL: none */
int64_t ns_key_count(const struct ns *ns);             /* exact, dead keys not yet swept included */
int64_t ns_expire_count(const struct ns *ns);          /* keys with a deadline */
/* Whether it would be refused, before the first of several is flushed. */
enum rc ns_flush_check(const struct run *run, struct err *err) NODISCARD;
/* FLUSHDB: all keys at once; O(1). */
enum rc ns_flush(const struct run *run, struct err *err) NODISCARD;
