// SPDX-License-Identifier: Apache-2.0
/* pubsub.c - channels, patterns and shard channels, and who is subscribed to them.
 *
 * A topic is a channel, a pattern or a shard channel that somebody is subscribed to; topics are in
 * one table, patterns in a list as well, because every message is matched against all of them. */
#include "server/server_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "types/glob.h"

#include "base/banned.h"

struct topic {
    enum sub_kind kind;
    struct subscription *first; /* of the topic */
    size_t count;
    struct topic *prev, *next; /* of patterns */
    struct bytes name;         /* behind the struct */
};

struct subscription { /* of one client to one topic */
    struct topic *topic;
    struct conn *conn;
    uint64_t since;                             /* messages up to this one are not for it */
    struct subscription *prev, *next;           /* of the topic */
    struct subscription *conn_prev, *conn_next; /* of the client */
};

struct pubsub {
    struct table topics;
    struct topic *patterns;
    size_t count[SUB_KINDS]; /* topics */
};

struct topic_name {
    enum sub_kind kind;
    struct bytes name;
};

static uint64_t name_hash(enum sub_kind kind, struct bytes name)
{
    return XXH3_64bits_withSeed(name.ptr, name.len, kind);
}

static uint64_t topic_hash(const void *entry, void *arg)
{
    const struct topic *topic = entry;
    (void)arg;
    return name_hash(topic->kind, topic->name);
}

static bool topic_eq(const void *entry, const void *key, void *arg)
{
    const struct topic *topic = entry;
    const struct topic_name *name = key;
    (void)arg;
    return topic->kind == name->kind && bytes_eq(topic->name, name->name);
}

struct pubsub *pubsub_new(void)
{
    struct pubsub *pubsub = mem_zalloc(sizeof *pubsub);
    table_init(&pubsub->topics, topic_hash, topic_eq, NULL);
    return pubsub;
}

void pubsub_free(struct pubsub *pubsub)
{
    if (!pubsub)
        return;
    ASSERT(pubsub->topics.entry_count == 0); /* the clients are gone */
    table_done(&pubsub->topics);
    mem_free(pubsub);
}

/* ---- topics ---- */

static struct topic *topic_find(const struct pubsub *pubsub, enum sub_kind kind, struct bytes name,
                                struct table_slot *ret_slot)
{
    struct topic_name key = {kind, name};
    return table_find(&pubsub->topics, name_hash(kind, name), &key, ret_slot);
}

static struct topic *topic_new(struct pubsub *pubsub, enum sub_kind kind, struct bytes name)
{
    struct topic *topic = mem_try_alloc(sizeof *topic + name.len);
    if (!topic)
        return NULL;
    *topic = (struct topic){.kind = kind, .name = bytes_of(topic + 1, name.len)};
    memcpy(topic + 1, name.ptr, name.len);
    table_insert(&pubsub->topics, name_hash(kind, name), topic);
    pubsub->count[kind]++;
    if (kind == SUB_PATTERN) {
        topic->next = pubsub->patterns;
        if (topic->next)
            topic->next->prev = topic;
        pubsub->patterns = topic;
    }
    return topic;
}

static void topic_free(struct pubsub *pubsub, struct topic *topic)
{
    struct table_slot slot;
    struct topic *found = topic_find(pubsub, topic->kind, topic->name, &slot);
    ASSERT(found == topic);
    table_remove(&pubsub->topics, name_hash(topic->kind, topic->name), slot);
    pubsub->count[topic->kind]--;
    if (topic->kind == SUB_PATTERN) {
        *(topic->prev ? &topic->prev->next : &pubsub->patterns) = topic->next;
        if (topic->next)
            topic->next->prev = topic->prev;
    }
    mem_free(topic);
}

/* ---- subscriptions ---- */

static struct subscription *subscription_find(const struct conn *conn, enum sub_kind kind,
                                              struct bytes name)
{
    const struct topic *topic = topic_find(conn->server->pubsub, kind, name, NULL);
    if (!topic)
        return NULL;
    /* Through the shorter list: a client with many channels, or a channel with many clients. */
    if (topic->count < conn->subs.count[kind]) {
        for (struct subscription *at = topic->first; at; at = at->next)
            if (at->conn == conn)
                return at;
        return NULL;
    }
    for (struct subscription *at = conn->subs.first; at; at = at->conn_next)
        if (at->topic == topic)
            return at;
    return NULL;
}

/* As much as if nobody else were subscribed to it. */
static size_t subscription_bytes(const struct topic *topic)
{
    return sizeof(struct subscription) + sizeof *topic + topic->name.len;
}

/* False: no memory. */
static bool subscribe(struct conn *conn, enum sub_kind kind, struct bytes name, uint64_t since)
{
    struct pubsub *pubsub = conn->server->pubsub;
    struct topic *topic = topic_find(pubsub, kind, name, NULL);
    if (!topic)
        topic = topic_new(pubsub, kind, name);
    if (!topic)
        return false;
    struct subscription *sub = mem_alloc(sizeof *sub);
    *sub = (struct subscription){.topic = topic,
                                 .conn = conn,
                                 .since = since,
                                 .next = topic->first,
                                 .conn_next = conn->subs.first};
    if (sub->next)
        sub->next->prev = sub;
    topic->first = sub;
    topic->count++;
    if (sub->conn_next)
        sub->conn_next->conn_prev = sub;
    conn->subs.first = sub;
    conn->subs.count[kind]++;
    conn->subs.bytes += subscription_bytes(topic);
    return true;
}

static void unsubscribe(struct subscription *sub)
{
    struct conn *conn = sub->conn;
    struct topic *topic = sub->topic;
    *(sub->prev ? &sub->prev->next : &topic->first) = sub->next;
    if (sub->next)
        sub->next->prev = sub->prev;
    *(sub->conn_prev ? &sub->conn_prev->conn_next : &conn->subs.first) = sub->conn_next;
    if (sub->conn_next)
        sub->conn_next->conn_prev = sub->conn_prev;
    conn->subs.count[topic->kind]--;
    conn->subs.bytes -= subscription_bytes(topic);
    mem_free(sub);
    if (--topic->count == 0)
        topic_free(conn->server->pubsub, topic);
}

void server__subs_done(struct conn *conn)
{
    while (conn->subs.first)
        unsubscribe(conn->subs.first);
}

/* ---- messages ---- */

size_t pubsub_topic_count(const struct pubsub *pubsub, enum sub_kind kind)
{
    return pubsub->count[kind];
}

/* The topics that a message is for: first NULL, then the last one that was returned. */
static const struct topic *topic_next(const struct pubsub *pubsub, enum sub_kind kind,
                                      struct bytes channel, const struct topic *last)
{
    const struct topic *topic = last ? NULL : topic_find(pubsub, kind, channel, NULL);
    if (topic || kind != SUB_CHANNEL)
        return topic;
    topic = last && last->kind == SUB_PATTERN ? last->next : pubsub->patterns;
    while (topic && !glob_match(topic->name, channel, false))
        topic = topic->next;
    return topic;
}

size_t pubsub_receivers(struct server *server, enum sub_kind kind, struct bytes channel)
{
    const struct topic *topic = NULL;
    size_t count = 0;
    while ((topic = topic_next(server->pubsub, kind, channel, topic)))
        count += topic->count;
    return count;
}

/* The same bytes go to everybody who speaks the same protocol. */
static void topic_send(const struct topic *topic, uint64_t seq, struct bytes channel,
                       struct bytes message)
{
    struct resp_out out[2];
    for (uint8_t i = 0; i < 2; i++) {
        resp_out_init(&out[i], SIZE_MAX);
        out[i].proto = (uint8_t)(2 + i);
    }
    for (struct subscription *sub = topic->first; sub; sub = sub->next) {
        if (seq <= sub->since)
            continue;
        struct resp_out *to = &out[sub->conn->out.proto >= 3];
        if (to->buf.len == 0) {
            resp_add_push(to, topic->kind == SUB_PATTERN ? 4 : 3);
            resp_add_text(to, topic->kind == SUB_PATTERN ? "pmessage"
                              : topic->kind == SUB_SHARD ? "smessage"
                                                         : "message");
            if (topic->kind == SUB_PATTERN)
                resp_add_bulk(to, topic->name);
            resp_add_bulk(to, channel);
            resp_add_bulk(to, message);
        }
        if (to->failed)
            sub->conn->broken = true; /* it must not believe that it has seen everything */
        server__conn_push(sub->conn, buf_bytes(&to->buf));
    }
    resp_out_done(&out[0]);
    resp_out_done(&out[1]);
}

void pubsub_deliver(struct server *server, enum sub_kind kind, uint64_t seq, struct bytes channel,
                    struct bytes message)
{
    const struct topic *topic = NULL;
    while ((topic = topic_next(server->pubsub, kind, channel, topic)))
        topic_send(topic, seq, channel, message);
    server->stats.pubsub_messages++;
}

/* ---- commands ---- */

static const char *const verbs[SUB_KINDS][2] = {
    [SUB_CHANNEL] = {"subscribe", "unsubscribe"},
    [SUB_PATTERN] = {"psubscribe", "punsubscribe"},
    [SUB_SHARD] = {"ssubscribe", "sunsubscribe"},
};

/* Channels and patterns are counted together. */
static void reply_add(struct cmd_ctx *ctx, enum sub_kind kind, bool off, const struct bytes *name)
{
    const struct subs *subs = &ctx->conn->subs;
    resp_add_push(ctx->reply, 3);
    resp_add_text(ctx->reply, verbs[kind][off]);
    if (name)
        resp_add_bulk(ctx->reply, *name);
    else
        resp_add_null(ctx->reply);
    resp_add_int(ctx->reply, (int64_t)(kind == SUB_SHARD
                                           ? subs->count[SUB_SHARD]
                                           : subs->count[SUB_CHANNEL] + subs->count[SUB_PATTERN]));
}

/* Messages go out at the end of a turn, or when it is durable. Those that were published before are
 * for who was subscribed then: who ends a subscription waits until they have left. Others' are not
 * waited for again and again. */
static bool messages_wait(struct cmd_ctx *ctx)
{
    struct server *server = ctx->server;
    struct request *request = server__request(ctx);
    if (ctx->in_exec)
        return false;
    if (!request)
        return server->effects.buf.len > 0 || server->unsafe_effects;
    if (!server->unsafe_effects || request->base.step > 1)
        return false;
    if (request->base.step++ == 0)
        task_wait_lsn(&request->base.task, store_commit_lsn(server->store));
    return true; /* step 1: they leave after the turn that finds them durable */
}

static enum rc subscribe_all(struct cmd_ctx *ctx, enum sub_kind kind)
{
    uint64_t since = ctx->late ? ctx->message_seq : ctx->server->message_seq;
    for (size_t i = 1; i < ctx->argc; i++) {
        if (!subscription_find(ctx->conn, kind, ctx->argv[i]) &&
            !subscribe(ctx->conn, kind, ctx->argv[i], since))
            return err_set(ctx->err, RC_NOMEM, "could not allocate memory for a subscription");
        reply_add(ctx, kind, false, &ctx->argv[i]);
    }
    return RC_OK;
}

static enum rc unsubscribe_all(struct cmd_ctx *ctx, enum sub_kind kind)
{
    struct conn *conn = ctx->conn;
    if (messages_wait(ctx))
        return RC_WAIT;
    for (size_t i = 1; i < ctx->argc; i++) {
        struct subscription *sub = subscription_find(conn, kind, ctx->argv[i]);
        if (sub)
            unsubscribe(sub);
        reply_add(ctx, kind, true, &ctx->argv[i]);
    }
    if (ctx->argc > 1)
        return RC_OK;
    if (conn->subs.count[kind] == 0)
        reply_add(ctx, kind, true, NULL);
    for (struct subscription *sub = conn->subs.first, *next; sub; sub = next) {
        next = sub->conn_next;
        if (sub->topic->kind != kind)
            continue;
        sub->topic->count++; /* its name outlives the subscription until it is written */
        struct topic *topic = sub->topic;
        unsubscribe(sub);
        reply_add(ctx, kind, true, &topic->name);
        if (--topic->count == 0)
            topic_free(conn->server->pubsub, topic);
    }
    return RC_OK;
}

enum rc cmd_subscribe(struct cmd_ctx *ctx)
{
    return subscribe_all(ctx, SUB_CHANNEL);
}

enum rc cmd_psubscribe(struct cmd_ctx *ctx)
{
    return subscribe_all(ctx, SUB_PATTERN);
}

enum rc cmd_ssubscribe(struct cmd_ctx *ctx)
{
    return subscribe_all(ctx, SUB_SHARD);
}

enum rc cmd_unsubscribe(struct cmd_ctx *ctx)
{
    return unsubscribe_all(ctx, SUB_CHANNEL);
}

enum rc cmd_punsubscribe(struct cmd_ctx *ctx)
{
    return unsubscribe_all(ctx, SUB_PATTERN);
}

enum rc cmd_sunsubscribe(struct cmd_ctx *ctx)
{
    return unsubscribe_all(ctx, SUB_SHARD);
}

/* In an EXEC it runs twice: for the message, in the order of other events, then to count who gets
 * it. */
static enum rc publish(struct cmd_ctx *ctx, enum sub_kind kind)
{
    if (!ctx->late)
        server__publish_later(ctx->server, kind, ctx->argv[1], ctx->argv[2]);
    resp_add_int(ctx->reply, (int64_t)pubsub_receivers(ctx->server, kind, ctx->argv[1]));
    return RC_OK;
}

enum rc cmd_publish(struct cmd_ctx *ctx)
{
    return publish(ctx, SUB_CHANNEL);
}

enum rc cmd_spublish(struct cmd_ctx *ctx)
{
    return publish(ctx, SUB_SHARD);
}

struct channels { /* PUBSUB CHANNELS */
    struct resp_out *reply;
    enum sub_kind kind;
    const struct bytes *pattern;
    size_t count;
};

static void channel_add(void *entry, void *arg)
{
    const struct topic *topic = entry;
    struct channels *channels = arg;
    if (topic->kind != channels->kind ||
        (channels->pattern && !glob_match(*channels->pattern, topic->name, false)))
        return;
    resp_add_bulk(channels->reply, topic->name);
    channels->count++;
}

static enum rc channels_list(struct cmd_ctx *ctx, enum sub_kind kind)
{
    struct channels channels = {
        .reply = ctx->reply, .kind = kind, .pattern = ctx->argc > 2 ? &ctx->argv[2] : NULL};
    if (ctx->argc > 3)
        return err_set(ctx->err, RC_INVALID,
                       "unknown subcommand or wrong number of arguments for '%.*s'. Try PUBSUB "
                       "HELP.",
                       (int)ctx->argv[1].len, (const char *)ctx->argv[1].ptr);
    size_t mark = resp_open(ctx->reply);
    uint64_t cursor = 0;
    do {
        cursor = table_scan(&ctx->server->pubsub->topics, cursor, channel_add, &channels);
    } while (cursor != 0);
    resp_close_array(ctx->reply, mark, channels.count);
    return RC_OK;
}

static enum rc numsub(struct cmd_ctx *ctx, enum sub_kind kind)
{
    resp_add_array(ctx->reply, 2 * (ctx->argc - 2));
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct topic *topic = topic_find(ctx->server->pubsub, kind, ctx->argv[i], NULL);
        resp_add_bulk(ctx->reply, ctx->argv[i]);
        resp_add_int(ctx->reply, topic ? (int64_t)topic->count : 0);
    }
    return RC_OK;
}

enum rc cmd_pubsub_channels(struct cmd_ctx *ctx)
{
    return channels_list(ctx, SUB_CHANNEL);
}

enum rc cmd_pubsub_shardchannels(struct cmd_ctx *ctx)
{
    return channels_list(ctx, SUB_SHARD);
}

enum rc cmd_pubsub_numsub(struct cmd_ctx *ctx)
{
    return numsub(ctx, SUB_CHANNEL);
}

enum rc cmd_pubsub_shardnumsub(struct cmd_ctx *ctx)
{
    return numsub(ctx, SUB_SHARD);
}

enum rc cmd_pubsub_numpat(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, (int64_t)ctx->server->pubsub->count[SUB_PATTERN]);
    return RC_OK;
}
