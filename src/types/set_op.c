#include "types/set_op.h"

#include <stdlib.h>

#include "base/codec.h"
#include "types/rows.h"
#include "types/set.h"

#include "base/banned.h"

enum {
    PROBE_FACTOR = 8,     /* so many times larger: asked, not walked */
    COLD_ROWS_MAX = 1024, /* asked for at once */
};

struct set_input {
    struct key key;
    bool probed; /* asked about single members; there is no walk */
    bool ended;
    struct bytes head; /* where the walk stands, unless it has ended */
    struct store_walk walk;
};

/* ---- one set ---- */

static enum rc input_step(struct set_input *input, struct err *err)
{
    struct bytes value;
    enum rc rc = store_walk_next(&input->walk, &input->head, &value, err);
    input->ended = rc == RC_NOT_FOUND;
    return input->ended ? RC_OK : rc;
}

/* RC_OK, RC_NOT_FOUND. Walked sets are asked in rising order. */
static enum rc input_has(struct set_input *input, struct bytes member, struct err *err)
{
    if (input->probed)
        return set_has(&input->key, member, err);
    while (!input->ended) {
        int order = bytes_cmp(input->head, member);
        if (order >= 0)
            return order == 0 ? RC_OK : RC_NOT_FOUND;
        enum rc rc = input_step(input, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_NOT_FOUND;
}

/* ---- the heap of a union ---- */

static bool heap_before(const struct set_input *a, const struct set_input *b)
{
    return bytes_cmp(a->head, b->head) < 0;
}

/* The one at `at` may be too large for its place. */
static void heap_sink(struct set_op *op, size_t at)
{
    struct set_input *sinking = op->input[at];
    for (size_t child; (child = 2 * at + 1) < op->count; at = child) {
        if (child + 1 < op->count && heap_before(op->input[child + 1], op->input[child]))
            child++;
        if (!heap_before(op->input[child], sinking))
            break;
        op->input[at] = op->input[child];
    }
    op->input[at] = sinking;
}

/* The first one goes to its next member, or leaves. */
static enum rc heap_step(struct set_op *op, struct err *err)
{
    enum rc rc = input_step(op->input[0], err);
    if (rc != RC_OK)
        return rc;
    if (op->input[0]->ended)
        op->input[0] = op->input[--op->count];
    if (op->count > 0)
        heap_sink(op, 0);
    return RC_OK;
}

/* ---- beginning ---- */

/* All keys are looked at, so that all cold ones are asked for, and then the first wrong one counts.
 */
static enum rc keys_find(struct set_op *op, struct ns *ns, const struct bytes *name, size_t count,
                         struct err *err)
{
    bool cold = false;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count; i++) {
        struct set_input *input = &op->all[op->all_count];
        enum rc rc_key = key_read(ns, name[i], TYPE_SET, &input->key, rc == RC_OK ? err : NULL);
        cold = cold || rc_key == RC_COLD;
        if (rc == RC_OK && rc_key != RC_COLD)
            rc = rc_key;
        if (rc_key != RC_OK)
            continue;
        if (input->key.exists) {
            input->probed = false;
            input->ended = false;
            store_walk_init(&input->walk, ns->kv->store, key_rows(&input->key), false);
            op->all_count++;
        } else if (op->kind == SET_INTER || (op->kind == SET_DIFF && i == 0)) {
            op->is_empty = true;
        }
    }
    return cold ? RC_COLD : rc;
}

static int count_order(const void *a, const void *b)
{
    const struct set_input *const *left = a, *const *right = b;
    uint64_t left_count = (*left)->key.meta.count, right_count = (*right)->key.meta.count;
    return (left_count > right_count) - (left_count < right_count);
}

/* Brings what will be walked into memory, all sets in one go, and steps to the first members. */
static enum rc walks_start(struct set_op *op, struct err *err)
{
    bool cold = false;
    for (size_t i = 0; i < op->count; i++) {
        struct set_input *input = op->input[i];
        uint64_t probed_count = op->input[0]->key.meta.count * PROBE_FACTOR;
        input->probed = op->kind != SET_UNION && i > 0 && input->key.meta.count > probed_count;
        if (input->probed)
            continue;
        enum rc rc = rows_need_all(&input->key, err);
        if (rc == RC_OK && (op->kind == SET_UNION || i > 0))
            rc = input_step(input, err); /* [0] of the others is stepped by the one who asks */
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

enum rc set_op_init(struct set_op *op, struct ns *ns, enum set_op_kind kind,
                    const struct bytes *name, size_t count, struct err *err)
{
    *op = (struct set_op){.kind = kind};
    op->all = arena_try_alloc(&ns->kv->arena, count * sizeof *op->all);
    op->input = arena_try_alloc(&ns->kv->arena, count * sizeof(struct set_input *));
    if (!op->all || !op->input)
        return err_set(err, RC_NOMEM, "could not allocate memory for %zu sets", count);
    enum rc rc = keys_find(op, ns, name, count, err);
    if (rc != RC_OK || op->is_empty)
        return rc;
    for (size_t i = 0; i < op->all_count; i++)
        op->input[i] = &op->all[i];
    op->count = op->all_count;
    if (kind == SET_INTER) /* the smallest has the fewest candidates */
        qsort(op->input, op->count, sizeof(struct set_input *), count_order);
    rc = walks_start(op, err);
    if (rc == RC_OK && kind == SET_UNION)
        for (size_t i = op->count / 2; i-- > 0;)
            heap_sink(op, i);
    return rc;
}

void set_op_done(struct set_op *op)
{
    for (size_t i = 0; op && i < op->all_count; i++)
        store_walk_done(&op->all[i].walk);
}

/* ---- members ---- */

static enum rc union_next(struct set_op *op, struct bytes *ret_member, struct err *err)
{
    if (op->count == 0)
        return RC_NOT_FOUND;
    struct bytes member = op->input[0]->head;
    while (op->count > 0 && bytes_eq(op->input[0]->head, member)) {
        enum rc rc = heap_step(op, err);
        if (rc != RC_OK)
            return rc;
    }
    *ret_member = member;
    return RC_OK;
}

/* Whether a member of the first set is in the result: RC_OK, RC_NOT_FOUND. */
static enum rc member_check(struct set_op *op, struct bytes member, struct err *err)
{
    bool cold = false;
    for (size_t i = 1; i < op->count; i++) {
        enum rc rc = input_has(op->input[i], member, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_COLD)
            continue;
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if ((rc == RC_OK) == (op->kind == SET_DIFF))
            return RC_NOT_FOUND;
    }
    return cold ? RC_COLD : RC_OK;
}

/* A cold row does not stop the walk: those of the following members are asked for as well. */
static enum rc others_next(struct set_op *op, struct bytes *ret_member, struct err *err)
{
    size_t cold_count = 0;
    enum rc rc = RC_NOT_FOUND;
    while (cold_count < COLD_ROWS_MAX) {
        rc = input_step(op->input[0], err);
        if (rc != RC_OK || op->input[0]->ended)
            break;
        rc = member_check(op, op->input[0]->head, err);
        cold_count += rc == RC_COLD;
        if (rc == RC_COLD || rc == RC_NOT_FOUND || cold_count > 0)
            continue;
        if (rc == RC_OK)
            *ret_member = op->input[0]->head;
        return rc;
    }
    if (cold_count > 0)
        return RC_COLD;
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

/* The result as lengths and bytes: nothing may change while it is read, and the target may be one
 * of the sets. */
static enum rc result_read(struct ns *ns, enum set_op_kind kind, const struct bytes *name,
                           size_t count, struct buf *to, struct err *err)
{
    CLEANUP(set_op_done) struct set_op op;
    struct bytes member;
    enum rc rc = set_op_init(&op, ns, kind, name, count, err);
    while (rc == RC_OK && (rc = set_op_next(&op, &member, err)) == RC_OK)
        if (!buf_add_uvarint(to, member.len) || !buf_add_bytes(to, member))
            return err_set(err, RC_TOO_BIG, "the result is over the limit of %d bytes",
                           STORE_COMMIT_BYTES_MAX);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc result_put(struct key *key, struct bytes result, struct err *err)
{
    const uint8_t *at = result.ptr, *end = result.ptr + result.len;
    enum rc rc = key_replace(key, TYPE_SET, err);
    key->meta.expire_ms = 0;
    while (rc == RC_OK && at < end) {
        uint64_t len;
        bool is_whole = uvarint_get(&at, end, &len);
        ASSERT(is_whole);
        struct bytes member = bytes_of(at, len);
        rc = store_put(key->ns->kv->store, key_rows(key), member, member, err);
        key->meta.count++;
        at += len;
    }
    if (rc == RC_OK)
        rc = key_save(key, BYTES(""), err);
    return rc;
}

enum rc set_op_store(struct ns *ns, enum set_op_kind kind, struct bytes to,
                     const struct bytes *name, size_t count, const char *event, uint64_t *ret_count,
                     struct err *err)
{
    CLEANUP(buf_done) struct buf result;
    struct key key;
    buf_init(&result, STORE_COMMIT_BYTES_MAX);
    enum rc rc = result_read(ns, kind, name, count, &result, err);
    if (rc == RC_COLD)
        key_want(ns, &to, 1);
    if (rc == RC_OK)
        rc = key_write(ns, to, KEY_ANY, &key, err);
    if (rc != RC_OK)
        return rc;
    if (result.len > 0) {
        rc = result_put(&key, buf_bytes(&result), err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_SET, event);
    } else if (key.exists) {
        rc = key_remove(&key, err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_GENERIC, "del");
    }
    if (rc == RC_OK)
        *ret_count = result.len > 0 ? key.meta.count : 0;
    return rc;
}
