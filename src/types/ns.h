/* ns.h - a namespace: where the keys of one Redis database live, and how many there are.
 *
 * Ownership: the caller owns the struct; the store is borrowed for its life.
 * Threads: the executor. */
#pragma once

#include "base/clock.h"
#include "store/store.h"
#include "types/key.h"

struct ns_ids { /* IDs are unique in a store, so all its namespaces share one of these */
    uint64_t lsn;
    uint32_t ordinal;
};

struct ns {
    struct store *store;
    const struct clock *clock;
    struct ns_ids *ids;
    uint32_t meta;      /* prefix of the meta rows */
    uint32_t key_count; /* number of the store's counter */
    struct buf value;   /* a row in construction */
};

enum rc ns_init(struct ns *ns, struct store *store, const struct clock *clock, struct ns_ids *ids,
                struct bytes name, struct err *err) NODISCARD;
void ns_done(struct ns *ns);
/* Inside a commit: an ID that no other object of this store ever has. */
void ns_id_draw(struct ns *ns, uint8_t to[KEY_ID_BYTES]);
int64_t ns_key_count(const struct ns *ns); /* exact */

/* The meta row of a key; RC_NOT_FOUND, RC_COLD, RC_TOO_BIG for a key over the limit. */
enum rc ns_meta_get(struct ns *ns, struct bytes key, struct meta *ret_meta,
                    struct err *err) NODISCARD;
/* Removes keys. All that are cold are named before RC_COLD is returned. */
enum rc ns_delete(struct ns *ns, const struct bytes *key, size_t key_count, int64_t *ret_count,
                  struct err *err) NODISCARD;
