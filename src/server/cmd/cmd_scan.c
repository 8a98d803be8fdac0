// SPDX-License-Identifier: Apache-2.0
/* cmd_scan.c - SCAN, KEYS, RANDOMKEY: keys that nobody has named. */
#include "command/scan.h"
#include "server/cmd.h"

#include <xxhash.h>

#include "base/mem.h"
#include "base/table.h"
#include "types/glob.h"
#include "types/number.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum {
    KEYS_SLICE_MAX = 1024, /* keys that a slice of KEYS looks at; they may be 64 KiB long */
};

/* The cursor stands before the keys, and is known behind them: they are written first. */
enum rc cmd_scan(struct cmd_ctx *ctx)
{
    struct scan_keys scan;
    struct resp_out names;
    uint64_t cursor;
    size_t count;
    enum rc rc = cmd_scan_parse(ctx, &scan);
    if (rc != RC_OK)
        return rc;
    resp_out_init(&names, ctx->reply->buf.bytes_max);
    rc = cmd_scan_keys(ctx, &scan, &names, &cursor, &count);
    if (rc == RC_OK)
        cmd_scan_reply(ctx, cursor, &names, count);
    resp_out_done(&names);
    return rc;
}

/* ---- KEYS ---- */

/* Which names are in a reply: where they stand in it, plus one. */
struct keys_seen {
    struct resp_out *reply;
    struct table at;
    uint64_t seed;
};

struct keys_list {
    struct resp_out *reply;
    struct keys_seen *seen; /* NULL: no name comes twice */
    uint64_t count;
};

static struct bytes seen_name(const struct keys_seen *seen, const void *entry)
{
    const uint8_t *at = seen->reply->buf.ptr + (uintptr_t)entry; /* behind the '$' */
    size_t len = 0;
    for (; *at != '\r'; at++)
        len = 10 * len + (size_t)(*at - '0');
    return bytes_of(at + 2, len);
}

static uint64_t seen_hash(const void *entry, void *arg)
{
    const struct keys_seen *seen = arg;
    struct bytes name = seen_name(seen, entry);
    return XXH3_64bits_withSeed(name.ptr, name.len, seen->seed);
}

static bool seen_eq(const void *entry, const void *key, void *arg)
{
    return bytes_eq(seen_name(arg, entry), *(const struct bytes *)key);
}

static void seen_free(void *arg)
{
    struct keys_seen *seen = arg;
    table_done(&seen->at);
    mem_free(seen);
}

static struct keys_seen *seen_of(struct cmd_ctx *ctx, struct cmd_long *slow)
{
    if (!slow->work) {
        struct keys_seen *seen = mem_zalloc(sizeof *seen);
        table_init(&seen->at, seen_hash, seen_eq, seen);
        seen->seed = rand_u64(&ctx->run->kv->rand);
        seen->reply = ctx->reply;
        slow->work = seen;
        slow->work_free = seen_free;
    }
    return slow->work;
}

static void keys_add(void *arg, struct bytes name)
{
    struct keys_list *list = arg;
    struct keys_seen *seen = list->seen;
    uint64_t hash = seen ? XXH3_64bits_withSeed(name.ptr, name.len, seen->seed) : 0;
    if (list->reply->failed || (seen && table_find(&seen->at, hash, &name, NULL)))
        return;
    size_t at = list->reply->buf.len;
    resp_add_bulk(list->reply, name);
    if (list->reply->failed)
        return;
    list->count++;
    if (seen)
        table_insert(&seen->at, hash, (void *)(uintptr_t)(at + 1));
}

/* A step of a SCAN; RC_WAIT: there are more. What runs directly has one step only, over what is in
 * memory, which shows no key twice. */
static enum rc keys_slice(struct cmd_ctx *ctx, struct cmd_long *slow, struct keys_list *list)
{
    CLEANUP(buf_done) struct buf next;
    uint64_t count = cmd_long_count(slow);
    struct scan_keys scan = {.has_pattern = true, .pattern = ctx->argv[1], .count = count};
    if (ctx->request) {
        list->seen = seen_of(ctx, slow);
        list->count = slow->done;
        scan.count = count < KEYS_SLICE_MAX ? count : KEYS_SLICE_MAX;
    }
    buf_init(&next, KEY_BYTES_MAX + 2);
    struct bytes at = slow->has_at ? buf_bytes(&slow->at) : BYTES("");
    enum rc rc = scan_keys_step(ctx->run, &scan, at, keys_add, list, &next, ctx->err);
    if (rc == RC_OK && (next.len == 0 || ctx->reply->failed))
        return RC_OK;
    if (rc == RC_OK) {
        at = buf_bytes(&next);
        rc = RC_WAIT;
    }
    slow->done = list->count;
    slow->work_bytes = list->seen ? list->seen->at.memory_bytes : 0;
    return cmd_long_keep(ctx, slow, at, rc);
}

enum rc cmd_keys_matching(struct cmd_ctx *ctx)
{
    struct keys_list list = {.reply = ctx->reply};
    struct cmd_long *slow;
    size_t mark = resp_open(ctx->reply);
    /* How many are looked at says whether it is long, but not how long the reply will be. */
    bool is_known = !ctx->request || glob_is_all(ctx->argv[1]);
    uint64_t keys = ctx->run->ns->meta; /* SWAPDB brings others */
    enum rc rc = cmd_long_begin(ctx, keys, is_known ? ns_key_count(ctx->run->ns) : 0, &slow);
    if (rc == RC_OK && slow)
        rc = keys_slice(ctx, slow, &list);
    else if (rc == RC_OK)
        rc = scan_keys_all(ctx->run, ctx->argv[1], keys_add, &list, ctx->err);
    if (rc == RC_OK)
        resp_close_array(ctx->reply, mark, list.count);
    return rc;
}

enum rc cmd_randomkey(struct cmd_ctx *ctx)
{
    struct cmd_names list = {.reply = ctx->reply};
    enum rc rc = scan_keys_random(ctx->run, cmd_names_add, &list, ctx->err);
    if (rc == RC_OK && list.count == 0)
        resp_add_null(ctx->reply);
    return rc;
}
