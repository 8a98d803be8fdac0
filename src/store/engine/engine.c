// SPDX-License-Identifier: Apache-2.0
/* engine.c - what all engines share: the list of them, and the check of a unit's order. */
#include "store/engine/engine.h"

#include <string.h>

#include "store/engine/engine_int.h"

#include "base/banned.h"

static const struct engine_ops *const engines[] = {&engine_rocksdb_ops, &engine_memory_ops};

const struct engine_ops *engine_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    }
    return NULL;
}

void engine__order_init(struct engine_order *order)
{
    buf_init(&order->last, ENGINE_KEY_BYTES_MAX);
    buf_init(&order->from, ENGINE_KEY_BYTES_MAX);
}

void engine__order_done(struct engine_order *order)
{
    if (!order)
        return;
    buf_done(&order->last);
    buf_done(&order->from);
}

static enum rc order_keep(struct buf *buf, struct bytes key, struct err *err)
{
    if (key.len > buf->len && !buf_reserve(buf, key.len - buf->len))
        return err_set(err, RC_NOMEM, "could not keep a key of %zu bytes", key.len);
    buf_cut(buf, 0);
    return buf_add_bytes(buf, key) ? RC_OK : RC_NOMEM;
}

static enum rc key_check(struct bytes key, struct err *err)
{
    if (key.len == 0)
        return err_set(err, RC_INVALID, "an engine key has at least the space byte");
    if (key.len > ENGINE_KEY_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "an engine key of %zu bytes is over the limit", key.len);
    return RC_OK;
}

enum rc engine__order_key(struct engine_order *order, struct bytes key, struct bytes value,
                          struct err *err)
{
    enum rc rc = key_check(key, err);
    if (rc != RC_OK)
        return rc;
    if (value.len > STORE_VALUE_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a value of %zu bytes is over the limit", value.len);
    if (order->last.len > 0 && bytes_cmp(key, buf_bytes(&order->last)) <= 0)
        return err_set(err, RC_INVALID, "keys of a unit have to ascend");
    if (order->from.len > 0 && bytes_cmp(key, buf_bytes(&order->from)) < 0)
        return err_set(err, RC_INVALID, "a range delete of the unit starts after this key");
    return order_keep(&order->last, key, err);
}

enum rc engine__order_range(struct engine_order *order, struct bytes from, struct bytes to,
                            struct err *err)
{
    enum rc rc = key_check(from, err);
    if (rc != RC_OK)
        return rc;
    rc = key_check(to, err);
    if (rc != RC_OK)
        return rc;
    if (bytes_cmp(from, to) >= 0)
        return err_set(err, RC_INVALID, "a range delete is empty or inverted");
    if (from.ptr[0] != to.ptr[0] && (to.len > 1 || to.ptr[0] != from.ptr[0] + 1))
        return err_set(err, RC_INVALID, "a range delete crosses from space %u to %u", from.ptr[0],
                       to.ptr[0]);
    if ((order->last.len > 0 && from.ptr[0] < order->last.ptr[0]) ||
        (order->from.len > 0 && from.ptr[0] < order->from.ptr[0]))
        return err_set(err, RC_INVALID, "the unit is past space %u", from.ptr[0]);
    if (order->from.len > 0 && bytes_cmp(from, buf_bytes(&order->from)) <= 0)
        return RC_OK;
    return order_keep(&order->from, from, err);
}

enum rc engine__value_add(struct buf *to, struct bytes value, struct err *err)
{
    if (value.len > to->bytes_max - to->len)
        return err_set(err, RC_TOO_BIG, "a value of %zu bytes is over the limit", value.len);
    if (!buf_add_bytes(to, value))
        return err_set(err, RC_NOMEM, "could not allocate a value of %zu bytes", value.len);
    return RC_OK;
}
