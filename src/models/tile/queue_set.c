// SPDX-License-Identifier: Apache-2.0
/* queue_set.c - the tasks below an anchor, counted, and the status of the packet that describes
 * their tiles. */
#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#include "models/tile/queue_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum { ANCHOR_STEP = 4, HASH_TEXT_BYTES = 17 };

static const struct bytes count_field[] = {BYTES_INIT("pending"), BYTES_INIT("in_progress"),
                                           BYTES_INIT("done"), BYTES_INIT("error")};

struct bytes queue__anchor(struct bytes id)
{
    struct bytes tilekey = queue_id_tilekey(id);
    return bytes_of(tilekey.ptr, (tilekey.len - 1) / ANCHOR_STEP * ANCHOR_STEP);
}

static struct bytes name_of(char to[QUEUE_NAME_BYTES], struct bytes id)
{
    return queue__name(to, "anchor_status:", queue__anchor(id));
}

static void data_text(char to[HASH_TEXT_BYTES], uint64_t hash)
{
    snprintf(to, HASH_TEXT_BYTES, "%016" PRIx64, hash);
}

bool queue__has_sets(const struct queue *queue)
{
    return tile_type_kind(queue->type) == TILE_META;
}

/* ---- reading ---- */

struct packet {
    uint64_t anchor;
    bool exists;
    enum queue_status status;
    uint64_t data_hash; /* another one: other data */
};

static enum rc packet_get(const struct queue *queue, struct bytes id, struct packet *ret_packet,
                          struct err *err)
{
    struct tile_meta_found found;
    *ret_packet = (struct packet){0};
    enum rc rc = tilekey_parse(queue__anchor(id), &ret_packet->anchor, err);
    if (rc == RC_OK)
        rc = tile_meta_get(queue->tiles, queue->type, ret_packet->anchor, &found, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    ret_packet->exists = true;
    ret_packet->status = (enum queue_status)found.status;
    ret_packet->data_hash = XXH3_64bits(found.data.ptr, found.data.len);
    return RC_OK;
}

struct counts {
    int64_t of[QUEUE_STATUS_COUNT];
    uint64_t data_hash;
    bool has_data;
};

static enum rc counts_read(const struct queue *queue, struct bytes name, struct counts *ret_counts,
                           struct err *err)
{
    struct key key = {0};
    struct bytes value;
    *ret_counts = (struct counts){0};
    enum rc rc = key_write(queue->run, name, TYPE_HASH, &key, err);
    for (size_t i = 0; i < ARRAY_LEN(count_field) && rc == RC_OK && key.exists; i++) {
        rc = hash_field(&key, count_field[i], &value, err);
        if (rc == RC_OK && !number_int(value, &ret_counts->of[i]))
            return err_set(err, RC_INVALID, "\"%.*s\": its field \"%.*s\" is no number",
                           (int)name.len, (const char *)name.ptr, (int)count_field[i].len,
                           (const char *)count_field[i].ptr);
        rc = rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    if (rc == RC_OK && key.exists)
        rc = hash_field(&key, BYTES("data"), &value, err);
    else if (rc == RC_OK)
        return RC_OK;
    if (rc == RC_COLD && key.exists)
        store_want(queue->run->kv->store, key_rows(&key), (struct bytes){0}, STORE_WANT_FIRST);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc != RC_OK)
        return rc;
    char text[HASH_TEXT_BYTES] = {0};
    if (value.len == sizeof text - 1) {
        memcpy(text, value.ptr, value.len);
        ret_counts->has_data = sscanf(text, "%16" SCNx64, &ret_counts->data_hash) == 1;
    }
    return RC_OK;
}

enum rc queue__set_warm(const struct queue *queue, struct bytes id, struct err *err)
{
    char text[QUEUE_NAME_BYTES];
    struct counts counts;
    struct packet packet;
    if (!queue__has_sets(queue))
        return RC_OK;
    enum rc rc = counts_read(queue, name_of(text, id), &counts, err);
    enum rc set_rc = packet_get(queue, id, &packet, err);
    return rc == RC_COLD ? rc : set_rc;
}

/* ---- counting ---- */

static enum rc count_add(const struct queue *queue, struct bytes name, enum queue_status status,
                         int64_t delta, struct err *err)
{
    int64_t value;
    if (status == QUEUE_NONE)
        return RC_OK;
    enum rc rc = hash_incr(queue->run, name, count_field[status], delta, &value, err);
    if (rc != RC_OK && rc != RC_COLD)
        return err_prefix(err, "\"%.*s\": ", (int)name.len, (const char *)name.ptr);
    return rc;
}

enum rc queue__set_count(const struct queue *queue, struct bytes id, enum queue_status from,
                         enum queue_status to, struct err *err)
{
    char text[QUEUE_NAME_BYTES];
    if (!queue__has_sets(queue) || from == to)
        return RC_OK;
    struct bytes name = name_of(text, id);
    enum rc rc = count_add(queue, name, from, -1, err);
    return rc == RC_OK ? count_add(queue, name, to, 1, err) : rc;
}

enum rc queue__set_mark(const struct queue *queue, struct bytes id, struct err *err)
{
    char text[QUEUE_NAME_BYTES], data[HASH_TEXT_BYTES];
    struct packet packet;
    struct counts counts;
    if (!queue__has_sets(queue))
        return RC_OK;
    struct bytes name = name_of(text, id);
    enum rc rc = packet_get(queue, id, &packet, err);
    if (rc == RC_OK)
        rc = counts_read(queue, name, &counts, err);
    if (rc != RC_OK || !packet.exists || (counts.has_data && counts.data_hash == packet.data_hash))
        return rc;
    data_text(data, packet.data_hash);
    const struct bytes pair[] = {BYTES("data"), bytes_of(data, strlen(data))};
    return hash_set(queue->run, name, pair, 1, NULL, err);
}

/* ---- the packet ---- */

static enum queue_status status_of(const struct counts *counts)
{
    bool some_are_over = counts->of[QUEUE_DONE] > 0 || counts->of[QUEUE_ERROR] > 0;
    if (counts->of[QUEUE_IN_PROGRESS] > 0)
        return QUEUE_IN_PROGRESS;
    if (counts->of[QUEUE_PENDING] > 0)
        return some_are_over ? QUEUE_IN_PROGRESS : QUEUE_PENDING;
    if (counts->of[QUEUE_ERROR] > 0)
        return QUEUE_ERROR;
    return some_are_over ? QUEUE_DONE : QUEUE_PENDING;
}

/* The next legal move on the way. QUEUE_NONE: there is none, or it is there. */
static enum queue_status step_of(enum queue_status at, enum queue_status to)
{
    if (at == to)
        return QUEUE_NONE;
    switch (at) {
    case QUEUE_PENDING:
        return QUEUE_IN_PROGRESS;
    case QUEUE_IN_PROGRESS:
        return to == QUEUE_PENDING ? QUEUE_NONE : to;
    case QUEUE_ERROR:
        return QUEUE_PENDING;
    case QUEUE_DONE:
    case QUEUE_NONE:
        break;
    }
    return QUEUE_NONE; /* only other data takes a packet out of DONE */
}

enum rc queue__set_settle(const struct queue *queue, struct bytes id, struct err *err)
{
    char text[QUEUE_NAME_BYTES];
    struct counts counts;
    struct packet packet;
    if (!queue__has_sets(queue))
        return RC_OK;
    struct bytes name = name_of(text, id);
    enum rc rc = counts_read(queue, name, &counts, err);
    if (rc == RC_OK)
        rc = packet_get(queue, id, &packet, err);
    if (rc != RC_OK)
        return rc;
    enum queue_status to = status_of(&counts), step;
    const struct bytes pairs[] = {BYTES("status"), queue__status_text[to], BYTES("completed"),
                                  to == QUEUE_DONE ? BYTES("true") : BYTES("false")};
    rc = hash_set(queue->run, name, pairs, ARRAY_LEN(pairs) / 2, NULL, err);
    if (!packet.exists || !counts.has_data || counts.data_hash != packet.data_hash)
        return rc; /* the tasks were made from other data */
    while (rc == RC_OK && (step = step_of(packet.status, to)) != QUEUE_NONE) {
        rc = tile_meta_move(queue->tiles, queue->run, queue->type, packet.anchor,
                            (enum tile_status)step, err);
        packet.status = step;
    }
    return rc;
}
