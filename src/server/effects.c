// SPDX-License-Identifier: Apache-2.0
/* effects.c - what a command does besides rows and its reply: keyspace events and messages.
 *
 * They are collected while the command runs and are thrown away with it when it is undone. When it
 * has ended well, who watches or waits for a key hears of it at once: their commands run after this
 * commit. Messages leave when the commit is safe, as its reply does.
 *
 * A record begins with one byte, its kind: EFFECT_CHANGED is a struct changed and the key,
 * EFFECT_FLUSHED the same with an empty key (exists: SWAPDB), EFFECT_SWAPPED the same with a key
 * that is watched (KV_EVENT_EXPIRED: its time is over), EFFECT_PUBLISH a struct publish, the
 * channel and the message. They never leave the process. */
#include "server/server_int.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum effect_kind { EFFECT_CHANGED, EFFECT_FLUSHED, EFFECT_SWAPPED, EFFECT_PUBLISH };
enum { EFFECTS_KEPT_BYTES = 64 * 1024 };

struct unsafe_effects { /* of a turn that is not durable yet */
    struct unsafe_effects *next;
    uint64_t lsn;
    struct effects effects;
};

void effects_init(struct effects *effects)
{
    buf_init(&effects->buf, EFFECTS_BYTES_MAX);
}

void effects_done(struct effects *effects)
{
    if (effects)
        buf_done(&effects->buf);
}

/* ---- collecting ---- */

struct changed { /* the fixed part of all but EFFECT_PUBLISH */
    uint8_t kind;
    bool exists;
    enum kv_event class;
    unsigned notify;
    struct ns *ns;
    const char *event;
    uint64_t seq;
    uint32_t key_len;
};

static void lost(void)
{
    log_warn("out of memory: a keyspace event or a message was not sent");
}

void server__key_changed(void *arg, const struct run *run, struct bytes key, enum kv_event kind,
                         const char *event, bool exists)
{
    struct server *server = arg;
    struct changed changed = {.kind = EFFECT_CHANGED,
                              .exists = exists,
                              .class = kind,
                              .notify = server->notify,
                              .ns = run->ns,
                              .event = event,
                              .seq = ++server->message_seq,
                              .key_len = (uint32_t)key.len};
    struct buf *buf = &server->effects.buf;
    if (!buf_reserve(buf, sizeof changed + key.len) || !buf_add(buf, &changed, sizeof changed) ||
        !buf_add_bytes(buf, key)) {
        /* Nobody may miss a change of a watched key. */
        server__waiters_touch(server, run->ns, key, kind, exists);
        lost();
    }
}

void server__ns_flushed(void *arg, struct ns *ns, bool swapped)
{
    struct server *server = arg;
    struct changed changed = {.kind = EFFECT_FLUSHED, .exists = swapped, .ns = ns};
    if (server->waited_keys.entry_count == 0)
        return;
    if (!buf_add(&server->effects.buf, &changed, sizeof changed))
        server__waiters_touch_ns(server, ns, swapped);
}

void server__key_swapped(struct server *server, struct ns *ns, struct bytes key, bool exists,
                         bool dead)
{
    struct changed changed = {.kind = EFFECT_SWAPPED,
                              .exists = exists,
                              .class = dead ? KV_EVENT_EXPIRED : KV_EVENT_GENERIC,
                              .ns = ns,
                              .key_len = (uint32_t)key.len};
    struct buf *buf = &server->effects.buf;
    if (!buf_reserve(buf, sizeof changed + key.len) || !buf_add(buf, &changed, sizeof changed) ||
        !buf_add_bytes(buf, key))
        server__waiters_touch(server, ns, key, KV_EVENT_GENERIC, exists);
}

struct publish { /* the fixed part of EFFECT_PUBLISH */
    uint8_t kind;
    enum sub_kind sub;
    uint64_t seq;
    uint32_t channel_len, message_len;
};

void server__publish_later(struct server *server, enum sub_kind kind, struct bytes channel,
                           struct bytes message)
{
    struct publish publish = {.kind = EFFECT_PUBLISH,
                              .sub = kind,
                              .seq = ++server->message_seq,
                              .channel_len = (uint32_t)channel.len,
                              .message_len = (uint32_t)message.len};
    struct buf *buf = &server->effects.buf;
    if (!buf_reserve(buf, sizeof publish + channel.len + message.len) ||
        !buf_add(buf, &publish, sizeof publish) || !buf_add_bytes(buf, channel) ||
        !buf_add_bytes(buf, message))
        lost();
}

/* ---- acting ---- */

static uint8_t kind_at(const struct buf *buf, size_t at)
{
    return buf->ptr[at];
}

static size_t changed_read(const struct buf *buf, size_t at, struct changed *ret_changed,
                           struct bytes *ret_key)
{
    memcpy(ret_changed, buf->ptr + at, sizeof *ret_changed);
    *ret_key = bytes_of(buf->ptr + at + sizeof *ret_changed, ret_changed->key_len);
    return at + sizeof *ret_changed + ret_changed->key_len;
}

static size_t publish_read(const struct buf *buf, size_t at, struct publish *ret_publish,
                           struct bytes *ret_channel, struct bytes *ret_message)
{
    memcpy(ret_publish, buf->ptr + at, sizeof *ret_publish);
    const uint8_t *channel = buf->ptr + at + sizeof *ret_publish;
    *ret_channel = bytes_of(channel, ret_publish->channel_len);
    *ret_message = bytes_of(channel + ret_publish->channel_len, ret_publish->message_len);
    return at + sizeof *ret_publish + ret_publish->channel_len + ret_publish->message_len;
}

void server__effects_touch(struct server *server, size_t from)
{
    const struct effects *effects = &server->effects;
    struct changed changed;
    struct publish publish;
    struct bytes key, message;
    if (server->waited_keys.entry_count == 0)
        return;
    for (size_t at = from; at < effects->buf.len;) {
        switch (kind_at(&effects->buf, at)) {
        case EFFECT_CHANGED:
            at = changed_read(&effects->buf, at, &changed, &key);
            if (!(changed.class & (KV_EVENT_MISS | KV_EVENT_NEW)))
                server__waiters_touch(server, changed.ns, key, changed.class, changed.exists);
            break;
        case EFFECT_FLUSHED:
            at = changed_read(&effects->buf, at, &changed, &key);
            server__waiters_touch_ns(server, changed.ns, changed.exists);
            break;
        case EFFECT_SWAPPED:
            at = changed_read(&effects->buf, at, &changed, &key);
            server__waiters_swap(server, changed.ns, key, changed.exists,
                                 changed.class == KV_EVENT_EXPIRED);
            break;
        default:
            at = publish_read(&effects->buf, at, &publish, &key, &message);
        }
    }
}

/* __keyspace@<db>__:<key> <event> and __keyevent@<db>__:<event> <key> */
static void event_send(struct server *server, const struct changed *changed, struct bytes key)
{
    CLEANUP(buf_done) struct buf channel;
    struct bytes event = bytes_of(changed->event, strlen(changed->event));
    buf_init(&channel, RESP_BULK_BYTES_MAX);
    if (!(changed->notify & changed->class))
        return;
    if (changed->notify & CONFIG_NOTIFY_KEYSPACE) {
        if (buf_printf(&channel, "__keyspace@%u__:", changed->ns->index) &&
            buf_add_bytes(&channel, key))
            pubsub_deliver(server, SUB_CHANNEL, changed->seq, buf_bytes(&channel), event);
    }
    buf_cut(&channel, 0);
    if (changed->notify & CONFIG_NOTIFY_KEYEVENT) {
        if (buf_printf(&channel, "__keyevent@%u__:%s", changed->ns->index, changed->event))
            pubsub_deliver(server, SUB_CHANNEL, changed->seq, buf_bytes(&channel), key);
    }
}

void server__effects_deliver(struct server *server, struct effects *effects)
{
    struct changed changed;
    struct publish publish;
    struct bytes key, message;
    for (size_t at = 0; at < effects->buf.len;) {
        switch (kind_at(&effects->buf, at)) {
        case EFFECT_CHANGED:
            at = changed_read(&effects->buf, at, &changed, &key);
            event_send(server, &changed, key);
            break;
        case EFFECT_FLUSHED:
        case EFFECT_SWAPPED:
            at = changed_read(&effects->buf, at, &changed, &key);
            break;
        default:
            at = publish_read(&effects->buf, at, &publish, &key, &message);
            pubsub_deliver(server, publish.sub, publish.seq, key, message);
        }
    }
    buf_shrink(&effects->buf, EFFECTS_KEPT_BYTES);
}

/* ---- holding back ---- */

void server__effects_leave(struct server *server, uint64_t lsn)
{
    if (server->effects.buf.len == 0)
        return;
    if (lsn == 0 && !server->unsafe_effects) {
        server__effects_deliver(server, &server->effects);
        return;
    }
    struct unsafe_effects *unsafe = mem_zalloc(sizeof *unsafe);
    unsafe->lsn = lsn;
    unsafe->effects = server->effects;
    effects_init(&server->effects);
    *server->unsafe_effects_tail = unsafe;
    server->unsafe_effects_tail = &unsafe->next;
}

static void unsafe_pop(struct server *server)
{
    struct unsafe_effects *unsafe = server->unsafe_effects;
    server->unsafe_effects = unsafe->next;
    if (!unsafe->next)
        server->unsafe_effects_tail = &server->unsafe_effects;
    effects_done(&unsafe->effects);
    mem_free(unsafe);
}

void server__unsafe_effects_look(struct server *server)
{
    while (server->unsafe_effects &&
           server->unsafe_effects->lsn <= store_durable_lsn(server->store)) {
        server__effects_deliver(server, &server->unsafe_effects->effects);
        unsafe_pop(server);
    }
}

void server__unsafe_effects_done(struct server *server)
{
    while (server->unsafe_effects)
        unsafe_pop(server);
}

/* ---- runs ---- */

/* A command that goes on in another run reads again: its last run tells what it missed, and counts
 * it. */
static void misses_cut(struct buf *buf, size_t from)
{
    struct changed changed;
    struct publish publish;
    struct bytes key, message;
    size_t to = from;
    for (size_t at = from, end; at < buf->len; at = end) {
        bool miss = false;
        if (kind_at(buf, at) == EFFECT_PUBLISH) {
            end = publish_read(buf, at, &publish, &key, &message);
        } else {
            end = changed_read(buf, at, &changed, &key);
            miss = changed.kind == EFFECT_CHANGED && changed.class == KV_EVENT_MISS;
        }
        if (miss)
            continue;
        memmove(buf->ptr + to, buf->ptr + at, end - at);
        to += end - at;
    }
    buf_cut(buf, to);
}

void server__run_end(void *arg, const struct run *run, enum rc rc)
{
    struct server *server = arg;
    if (rc == RC_WAIT)
        misses_cut(&server->effects.buf, run->told_from);
    if (rc == RC_OK || rc == RC_WAIT)
        server__effects_touch(server, run->told_from);
    else
        buf_cut(&server->effects.buf, run->told_from);
}

void server__sweep_safe(void *arg, enum rc rc)
{
    struct server *server = arg;
    if (rc != RC_OK && !server->health.sweep_failing)
        log_warn("the sweep of expired keys could not go on: %s", rc_text(rc));
    server->health.sweep_failing = rc != RC_OK;
}

void server__waiting_update(struct server *server)
{
    const unsigned quiet = KV_EVENT_MISS | KV_EVENT_NEW;
    server->kv.miss_event = server->notify & quiet;
    server->kv.listening =
        server->watch_count > 0 || server->block_count > 0 ||
        (server->notify & ~(quiet | CONFIG_NOTIFY_KEYSPACE | CONFIG_NOTIFY_KEYEVENT));
}
