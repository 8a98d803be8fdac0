// SPDX-License-Identifier: Apache-2.0
/* sys.c - reads and writes marks and counters in the sys space. */
#include "store/engine/sys.h"

#include "base/codec.h"

#include "base/banned.h"

enum { MARK_BYTES = 44, COUNTER_BYTES = 8, SYS_VALUE_BYTES_MAX = 4096 };

static const uint8_t mark_key[] = {SPACE_SYS, 'm', 'a', 'r', 'k'};
static const uint8_t counter_first[] = {SPACE_SYS, 'c', 'o', 'u', 'n', 't', 'e', 'r', ':'};
static const uint8_t counter_after[] = {SPACE_SYS, 'c', 'o', 'u', 'n', 't', 'e', 'r', ':' + 1};

static enum rc mark_decode(struct bytes value, struct sys_mark *ret_mark, struct err *err)
{
    if (value.len < 8)
        return err_set(err, RC_CORRUPT, "the mark row has %zu bytes", value.len);
    uint32_t format = le32_get(value.ptr), features = le32_get(value.ptr + 4);
    if (format != SYS_FORMAT)
        return err_set(err, RC_VERSION, "the mark row has the unknown format %u", format);
    if (features != 0)
        return err_set(err, RC_VERSION, "the mark row has unknown feature bits 0x%x", features);
    if (value.len != MARK_BYTES)
        return err_set(err, RC_CORRUPT, "the mark row has %zu bytes", value.len);

    memcpy(ret_mark->uuid, value.ptr + 8, sizeof ret_mark->uuid);
    ret_mark->incarnation = le32_get(value.ptr + 24);
    ret_mark->segment = le64_get(value.ptr + 28);
    ret_mark->lsn = le64_get(value.ptr + 36);
    return RC_OK;
}

enum rc sys_mark_get(struct engine *engine, const struct engine_view *view,
                     struct sys_mark *ret_mark, struct err *err)
{
    CLEANUP(buf_done) struct buf value;
    buf_init(&value, SYS_VALUE_BYTES_MAX);

    enum rc rc = engine->ops->get(engine, view, bytes_of(mark_key, sizeof mark_key),
                                  ENGINE_TIER_ALL, &value, err);
    if (rc != RC_OK)
        return rc;
    return mark_decode(buf_bytes(&value), ret_mark, err);
}

bool sys_mark_add(const struct sys_mark *mark, struct buf *key, struct buf *value)
{
    uint8_t code[MARK_BYTES];
    le32_put(code, SYS_FORMAT);
    le32_put(code + 4, 0);
    memcpy(code + 8, mark->uuid, sizeof mark->uuid);
    le32_put(code + 24, mark->incarnation);
    le64_put(code + 28, mark->segment);
    le64_put(code + 36, mark->lsn);
    return buf_add(key, mark_key, sizeof mark_key) && buf_add(value, code, sizeof code);
}

bool sys_counter_add(struct bytes name, int64_t count, struct buf *key, struct buf *value)
{
    ASSERT(name.len <= STORE_COUNTER_NAME_BYTES_MAX);
    uint8_t code[COUNTER_BYTES];
    le64_put(code, (uint64_t)count);
    return buf_add(key, counter_first, sizeof counter_first) && buf_add_bytes(key, name) &&
           buf_add(value, code, sizeof code);
}

static enum rc counter_decode(struct bytes key, struct bytes value, struct bytes *ret_name,
                              int64_t *ret_value, struct err *err)
{
    struct bytes start = bytes_of(counter_first, sizeof counter_first);
    if (!bytes_start_with(key, start) || key.len - start.len > STORE_COUNTER_NAME_BYTES_MAX)
        return err_set(err, RC_CORRUPT, "a counter row has a key of %zu bytes", key.len);
    if (value.len != COUNTER_BYTES)
        return err_set(err, RC_CORRUPT, "a counter row has a value of %zu bytes", value.len);
    *ret_name = bytes_from(key, start.len);
    *ret_value = (int64_t)le64_get(value.ptr);
    return RC_OK;
}

enum rc sys_counters_walk(struct engine *engine, const struct engine_view *view,
                          enum rc (*fn)(struct bytes name, int64_t value, void *arg,
                                        struct err *err),
                          void *arg, struct err *err)
{
    const struct engine_range range = {
        .lower = bytes_of(counter_first, sizeof counter_first),
        .upper = bytes_of(counter_after, sizeof counter_after),
    };
    struct engine_iter *iter = NULL;
    enum rc rc = engine->ops->iter_open(engine, view, &range, &iter, err);
    if (rc != RC_OK)
        return rc;

    for (;;) {
        struct bytes key, value, name;
        int64_t count;
        rc = engine->ops->iter_next(iter, &key, &value, err);
        if (rc == RC_NOT_FOUND) {
            rc = RC_OK;
            break;
        }
        if (rc != RC_OK)
            break;
        rc = counter_decode(key, value, &name, &count, err);
        if (rc != RC_OK)
            break;
        rc = fn(name, count, arg, err);
        if (rc != RC_OK)
            break;
    }
    engine->ops->iter_close(iter);
    return rc;
}
