// SPDX-License-Identifier: Apache-2.0
/* set_op.c - merges walks over sets. */
#include "types/set_op.h"

#include <stdlib.h>

#include "base/codec.h"
#include "base/heap.h"
#include "types/rows.h"
#include "types/set.h"

#include "base/banned.h"

enum {
    PROBE_FACTOR = 8,     /* so many times larger: asked, not walked */
    COLD_ROWS_MAX = 1024, /* asked for at once */
    STEPS_MAX = 8,        /* cost as much as a search */
};

struct set_input {
    struct key key;
    bool probed; /* asked about single members; there is no walk */
    bool ended;
    struct bytes head; /* where the walk stands, unless it has ended */
    struct store_walk walk;
};

/* ---- one set ---- */

static struct set_input *input_at(const struct set_op *op, size_t i)
{
    return op->input[i];
}

static enum rc input_step(struct set_input *input, struct err *err)
{
    struct bytes value;
    enum rc rc = store_walk_next(&input->walk, &input->head, &value, err);
    input->ended = rc == RC_NOT_FOUND;
    return input->ended ? RC_OK : rc;
}

/* RC_OK, RC_NOT_FOUND. Walked sets are asked in rising order: by steps, or where the next member is
 * far, by a search, which leaves cold what lies between. */
static enum rc input_has(struct set_input *input, struct bytes member, struct err *err)
{
    enum rc rc = RC_OK;
    if (input->probed)
        return set_has(&input->key, member, err);
    for (int steps = 1; !input->ended; steps++) {
        int order = bytes_cmp(input->head, member);
        if (order >= 0)
            return order == 0 ? RC_OK : RC_NOT_FOUND;
        if (steps == STEPS_MAX)
            rc = store_walk_seek(&input->walk, member, err);
        if (rc == RC_OK)
            rc = input_step(input, err);
        if (rc != RC_OK)
            break;
    }
    return rc == RC_OK ? RC_NOT_FOUND : rc;
}

/* ---- the heap of a union ---- */

static bool head_before(const void *a, const void *b)
{
    const struct set_input *left = a, *right = b;
    return bytes_cmp(left->head, right->head) < 0;
}

/* The first one goes to its next member, or leaves. */
static enum rc heap_step(struct set_op *op, struct err *err)
{
    enum rc rc = input_step(op->input[0], err);
    if (rc != RC_OK)
        return rc;
    if (input_at(op, 0)->ended)
        op->input[0] = op->input[--op->count];
    if (op->count > 0)
        heap_sink(op->input, op->count, 0, head_before);
    return RC_OK;
}

/* ---- beginning ---- */

/* All keys are looked at, so that all cold ones are asked for, and then the first wrong one counts.
 */
static enum rc keys_find(struct set_op *op, const struct run *run, const struct bytes *name,
                         size_t count, struct err *err)
{
    bool cold = false;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count; i++) {
        struct set_input *input = &op->all[op->all_count];
        enum rc rc_key = key_read(run, name[i], TYPE_SET, &input->key, rc == RC_OK ? err : NULL);
        cold = cold || rc_key == RC_COLD;
        if (rc == RC_OK && rc_key != RC_COLD)
            rc = rc_key;
        if (rc_key != RC_OK)
            continue;
        op->inputs = build_input(op->inputs, &input->key);
        if (input->key.exists) {
            input->probed = false;
            input->ended = false;
            store_walk_init(&input->walk, run->kv->store, key_rows(&input->key), false);
            op->all_count++;
        } else if (op->kind == SET_INTER || (op->kind == SET_DIFF && i == 0)) {
            op->is_empty = true;
        }
    }
    return cold ? RC_COLD : rc;
}

static int count_order(const void *a, const void *b)
{
    const struct set_input *left = *(void *const *)a, *right = *(void *const *)b;
    uint64_t left_count = left->key.meta.count, right_count = right->key.meta.count;
    return (left_count > right_count) - (left_count < right_count);
}

/* A piece is walked as far as rows are in memory; else all of a set has to be there: page by page
 * the command would begin again too often. */
static enum rc walk_start(struct set_op *op, struct set_input *input, struct err *err)
{
    if (!op->in_pieces)
        return rows_need_all(&input->key, err);
    input->walk.once = true;
    if (!op->piece.has_after)
        return RC_OK;
    return store_walk_seek_behind(&input->walk, op->piece.after, err);
}

/* Brings what will be walked into memory, all sets in one go, and steps to the first members. */
static enum rc walks_start(struct set_op *op, struct err *err)
{
    bool cold = false;
    for (size_t i = 0; i < op->count; i++) {
        struct set_input *input = op->input[i];
        uint64_t probed_count = input_at(op, 0)->key.meta.count * PROBE_FACTOR;
        input->probed = op->kind != SET_UNION && i > 0 && input->key.meta.count > probed_count;
        if (input->probed)
            continue;
        enum rc rc = walk_start(op, input, err);
        if (rc == RC_OK && (op->kind == SET_UNION || i > 0))
            rc = input_step(input, err); /* [0] of the others is stepped by the one who asks */
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* Behind the piece before, some sets may have nothing left. */
static void ended_leave(struct set_op *op)
{
    size_t count = 0;
    for (size_t i = 0; i < op->count; i++)
        if (!input_at(op, i)->ended)
            op->input[count++] = op->input[i];
    op->count = count;
}

static uint64_t count_max(const struct set_op *op)
{
    uint64_t sum = 0;
    if (op->kind != SET_UNION) /* [0] is the first, or the smallest */
        return op->count > 0 ? input_at(op, 0)->key.meta.count : 0;
    for (size_t i = 0; i < op->count; i++)
        sum += input_at(op, i)->key.meta.count;
    return sum;
}

enum rc set_op_find(struct set_op *op, const struct run *run, enum set_op_kind kind,
                    const struct bytes *name, size_t count, struct err *err)
{
    *op = (struct set_op){.kind = kind};
    op->all = arena_try_alloc(run->arena, count * sizeof *op->all);
    op->input = arena_try_alloc(run->arena, count * sizeof(void *));
    if (!op->all || !op->input)
        return err_set(err, RC_NOMEM, "could not allocate memory for %zu sets", count);
    enum rc rc = keys_find(op, run, name, count, err);
    if (rc != RC_OK || op->is_empty)
        return rc;
    for (size_t i = 0; i < op->all_count; i++)
        op->input[i] = &op->all[i];
    op->count = op->all_count;
    if (kind == SET_INTER) /* the smallest has the fewest candidates */
        qsort(op->input, op->count, sizeof(void *), count_order);
    op->count_max = count_max(op);
    return RC_OK;
}

enum rc set_op_start(struct set_op *op, const struct build_piece *piece, struct err *err)
{
    op->in_pieces = piece != NULL;
    if (piece)
        op->piece = *piece;
    enum rc rc = op->is_empty ? RC_OK : walks_start(op, err);
    if (rc != RC_OK || op->kind != SET_UNION)
        return rc;
    ended_leave(op);
    heap_make(op->input, op->count, head_before);
    return RC_OK;
}

void set_op_done(struct set_op *op)
{
    for (size_t i = 0; op && i < op->all_count; i++)
        store_walk_done(&op->all[i].walk);
}

/* ---- members ---- */

static void decide(struct set_op *op, struct bytes member)
{
    op->decided = member;
    op->decided_count++;
}

static bool piece_is_full(const struct set_op *op)
{
    return op->in_pieces && op->decided_count >= op->piece.count_max;
}

static enum rc union_next(struct set_op *op, struct bytes *ret_member, struct err *err)
{
    if (op->count == 0)
        return RC_NOT_FOUND;
    struct bytes member = input_at(op, 0)->head;
    while (op->count > 0 && bytes_eq(input_at(op, 0)->head, member)) {
        enum rc rc = heap_step(op, err);
        if (rc != RC_OK)
            return rc;
    }
    *ret_member = member;
    decide(op, member);
    return RC_OK;
}

/* Whether a member of the first set is in the result: RC_OK, RC_NOT_FOUND. */
static enum rc member_check(struct set_op *op, struct bytes member, struct err *err)
{
    bool cold = false;
    for (size_t i = 1; i < op->count; i++) {
        enum rc rc = input_has(op->input[i], member, err);
        cold = cold || rc == RC_COLD;
        op->walk_cold = op->walk_cold || (rc == RC_COLD && !input_at(op, i)->probed);
        if (rc == RC_COLD)
            continue;
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if ((rc == RC_OK) == (op->kind == SET_DIFF))
            return RC_NOT_FOUND;
    }
    return cold ? RC_COLD : RC_OK;
}

/* A cold row does not stop the walk: those of the following members are asked for as well. A cold
 * page of a set that is walked does: they would stand before the same page. */
static enum rc others_next(struct set_op *op, struct bytes *ret_member, struct err *err)
{
    size_t cold_count = 0;
    enum rc rc = RC_NOT_FOUND;
    while (cold_count < COLD_ROWS_MAX && !op->walk_cold && !piece_is_full(op)) {
        rc = input_step(op->input[0], err);
        if (rc != RC_OK || input_at(op, 0)->ended)
            break;
        rc = member_check(op, input_at(op, 0)->head, err);
        cold_count += rc == RC_COLD;
        if (cold_count == 0)
            decide(op, input_at(op, 0)->head);
        if (rc == RC_COLD || rc == RC_NOT_FOUND || cold_count > 0)
            continue;
        if (rc == RC_OK)
            *ret_member = input_at(op, 0)->head;
        return rc;
    }
    if (cold_count > 0 || op->walk_cold)
        return RC_COLD;
    if (piece_is_full(op))
        return RC_WAIT;
    return rc == RC_OK ? RC_NOT_FOUND : rc;
}

enum rc set_op_next(struct set_op *op, struct bytes *ret_member, struct err *err)
{
    if (op->is_empty || op->count == 0)
        return RC_NOT_FOUND;
    if (op->kind == SET_UNION)
        return union_next(op, ret_member, err);
    return others_next(op, ret_member, err);
}

/* ---- storing ---- */

/* Members as lengths and bytes: nothing may change while they are read, and the target may be one
 * of the sets. */
struct result {
    struct buf members;
    uint64_t count;
    bool ended;
};

static void result_done(struct result *result)
{
    buf_done(&result->members);
}

static enum rc result_read(struct set_op *op, struct result *to, struct err *err)
{
    struct bytes member;
    enum rc rc = RC_OK;
    while (rc == RC_OK && !piece_is_full(op) &&
           !(op->in_pieces && to->members.len >= op->piece.bytes_max)) {
        rc = set_op_next(op, &member, err);
        if (rc != RC_OK)
            break;
        if (!buf_add_uvarint(&to->members, member.len) || !buf_add_bytes(&to->members, member))
            return err_set(err, RC_TOO_BIG, "the result is over the limit of %d bytes",
                           STORE_COMMIT_BYTES_MAX);
        to->count++;
    }
    to->ended = rc == RC_NOT_FOUND;
    if (rc == RC_COLD && op->in_pieces && op->decided_count > 0)
        return RC_OK; /* the next piece begins with what is cold */
    return to->ended || rc == RC_WAIT ? RC_OK : rc;
}

static enum rc result_put(const struct key *key, const struct result *result, struct err *err)
{
    const uint8_t *at = result->members.ptr, *end = at + result->members.len;
    enum rc rc = RC_OK;
    while (rc == RC_OK && at < end) {
        uint64_t len;
        bool is_whole = uvarint_get(&at, end, &len);
        ASSERT(is_whole);
        struct bytes member = bytes_of(at, len);
        rc = store_put(key->ns->kv->store, key_rows(key), member, member, err);
        at += len;
    }
    return rc;
}

static enum rc result_store(struct key *key, const struct result *result, const char *event,
                            struct err *err)
{
    enum rc rc = RC_OK;
    if (result->count == 0) {
        if (!key->exists)
            return RC_OK;
        rc = key_remove(key, err);
        if (rc == RC_OK)
            key_changed(key, KV_EVENT_GENERIC, "del");
        return rc;
    }
    rc = key_replace(key, TYPE_SET, err);
    key->meta.expire_ms = 0;
    if (rc == RC_OK)
        rc = result_put(key, result, err);
    key->meta.count = result->count;
    if (rc == RC_OK)
        rc = key_save(key, BYTES(""), err);
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_SET, event);
    return rc;
}

static enum rc store_at_once(struct set_op *op, const struct run *run,
                             const struct set_store *store, uint64_t *ret_count, struct err *err)
{
    CLEANUP(result_done) struct result result = {0};
    struct key key;
    buf_init(&result.members, STORE_COMMIT_BYTES_MAX);
    enum rc rc = set_op_start(op, NULL, err);
    if (rc == RC_OK)
        rc = result_read(op, &result, err);
    if (rc == RC_COLD)
        key_want(run->ns, &store->to, 1);
    if (rc == RC_OK)
        rc = key_write(run, store->to, KEY_ANY, &key, err);
    if (rc == RC_OK)
        rc = result_store(&key, &result, store->event, err);
    if (rc == RC_OK)
        *ret_count = result.count;
    return rc;
}

static enum rc store_build(struct set_op *op, const struct run *run, const struct set_store *store,
                           struct build *build, uint64_t *ret_count, struct err *err)
{
    CLEANUP(result_done) struct result result = {0};
    buf_init(&result.members, STORE_COMMIT_BYTES_MAX);
    enum rc rc = build_step(build, run, TYPE_SET, op->inputs, err);
    if (rc != RC_OK)
        return rc;
    *ret_count = build->key.meta.count;
    if (build->phase == BUILD_FULL)
        return build_store(build, run, store->to, KV_EVENT_SET, store->event, err);
    struct build_piece piece = build_piece(build);
    struct bytes at;
    rc = set_op_start(op, &piece, err);
    if (rc == RC_OK)
        rc = result_read(op, &result, err);
    if (rc == RC_OK)
        rc = run_copy(run, op->decided, &at, err); /* puts come before it is noted */
    if (rc == RC_OK)
        rc = result_put(&build->key, &result, err);
    if (rc != RC_OK)
        return rc;
    return build_piece_end(build, result.count, at, result.ended, err);
}

enum rc set_op_store(const struct run *run, const struct set_store *store, struct build *build,
                     uint64_t *ret_count, struct err *err)
{
    CLEANUP(set_op_done) struct set_op op;
    enum rc rc = set_op_find(&op, run, store->kind, store->name, store->name_count, err);
    if (rc == RC_COLD)
        key_want(run->ns, &store->to, 1);
    if (rc != RC_OK)
        return rc;
    if (build_wanted(build, run, op.count_max))
        return store_build(&op, run, store, build, ret_count, err);
    return store_at_once(&op, run, store, ret_count, err);
}
