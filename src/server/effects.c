/* effects.c - what a command does besides rows and its reply: keyspace events and messages.
 *
 * They are collected while the command runs and are thrown away with it when it is undone. When it
 * has ended well, who watches or waits for a key hears of it at once: their commands run after this
 * commit. Messages leave when the commit is safe, as its reply does.
 *
 * A record begins with one byte, its kind: EFFECT_CHANGED is a struct changed and the key,
 * EFFECT_FLUSHED the same with an empty key (exists: SWAPDB), EFFECT_PUBLISH a struct publish, the
 * channel and the message. They never leave the process. */
#include "server/server_int.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum effect_kind { EFFECT_CHANGED, EFFECT_FLUSHED, EFFECT_PUBLISH };
enum { EFFECTS_KEPT_BYTES = 64 * 1024 };

struct held_effects { /* of a turn that is not durable yet */
    struct held_effects *next;
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

struct changed { /* the fixed part of EFFECT_CHANGED and EFFECT_FLUSHED */
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

void server__key_changed(void *arg, struct ns *ns, struct bytes key, enum kv_event kind,
                         const char *event, bool exists)
{
    struct server *server = arg;
    struct changed changed = {.kind = EFFECT_CHANGED,
                              .exists = exists,
                              .class = kind,
                              .notify = server->notify,
                              .ns = ns,
                              .event = event,
                              .seq = ++server->message_seq,
                              .key_len = (uint32_t)key.len};
    if (!server->collecting)
        return;
    struct buf *buf = &server->effects.buf;
    if (!buf_reserve(buf, sizeof changed + key.len) || !buf_add(buf, &changed, sizeof changed) ||
        !buf_add_bytes(buf, key)) {
        /* Nobody may miss a change of a watched key. */
        server__ear_touch(server, ns, key, kind, exists);
        lost();
    }
}

void server__ns_flushed(void *arg, struct ns *ns, bool swapped)
{
    struct server *server = arg;
    struct changed changed = {.kind = EFFECT_FLUSHED, .exists = swapped, .ns = ns};
    if (!server->collecting || server->ears.entry_count == 0)
        return;
    if (!buf_add(&server->effects.buf, &changed, sizeof changed))
        server__ear_touch_ns(server, ns, swapped);
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
    if (server->ears.entry_count == 0)
        return;
    for (size_t at = from; at < effects->buf.len;) {
        switch (kind_at(&effects->buf, at)) {
        case EFFECT_CHANGED:
            at = changed_read(&effects->buf, at, &changed, &key);
            if (!(changed.class & (KV_EVENT_MISS | KV_EVENT_NEW)))
                server__ear_touch(server, changed.ns, key, changed.class, changed.exists);
            break;
        case EFFECT_FLUSHED:
            at = changed_read(&effects->buf, at, &changed, &key);
            server__ear_touch_ns(server, changed.ns, changed.exists);
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
    if (lsn == 0 && !server->held_effects) {
        server__effects_deliver(server, &server->effects);
        return;
    }
    struct held_effects *held = mem_zalloc(sizeof *held);
    held->lsn = lsn;
    held->effects = server->effects;
    effects_init(&server->effects);
    *server->held_effects_tail = held;
    server->held_effects_tail = &held->next;
}

static void held_pop(struct server *server)
{
    struct held_effects *held = server->held_effects;
    server->held_effects = held->next;
    if (!held->next)
        server->held_effects_tail = &server->held_effects;
    effects_done(&held->effects);
    mem_free(held);
}

void server__effects_held_look(struct server *server)
{
    while (server->held_effects && server->held_effects->lsn <= store_durable_lsn(server->store)) {
        server__effects_deliver(server, &server->held_effects->effects);
        held_pop(server);
    }
}

void server__effects_held_done(struct server *server)
{
    while (server->held_effects)
        held_pop(server);
}

/* ---- jobs ---- */

void server__job_enter(void *arg)
{
    struct server *server = arg;
    server->job_effects_from = server->effects.buf.len;
    server->collecting = true;
    landing_lifting(server->landing, false);
}

void server__job_leave(void *arg, enum rc rc)
{
    struct server *server = arg;
    server->collecting = false;
    landing_lifting(server->landing, true);
    if (rc == RC_OK)
        server__effects_touch(server, server->job_effects_from);
    else
        buf_cut(&server->effects.buf, server->job_effects_from);
}

void server__job_safe(void *arg, enum rc rc)
{
    struct server *server = arg;
    if (rc != RC_OK && !server->watch.sweep_failing)
        log_warn("the sweep of expired keys could not go on: %s", rc_text(rc));
    server->watch.sweep_failing = rc != RC_OK;
}

void server__listening_update(struct server *server)
{
    const unsigned quiet = KV_EVENT_MISS | KV_EVENT_NEW;
    server->kv.miss_event = server->notify & quiet;
    server->kv.listening =
        server->watch_count > 0 || server->block_count > 0 ||
        (server->notify & ~(quiet | CONFIG_NOTIFY_KEYSPACE | CONFIG_NOTIFY_KEYEVENT));
}
