// SPDX-License-Identifier: Apache-2.0
/* cmd_key_object.c - OBJECT: what Redis would say about how it keeps a key. */
#include "server/cmd.h"

#include <limits.h>

#include "types/hash.h"
#include "types/list.h"
#include "types/number.h"
#include "types/set.h"
#include "types/string.h"
#include "types/zset.h"

#include "base/banned.h"

enum { SHARED_INTEGERS = 10000 }; /* Redis has one object each for 0..9999 */

/* Without a hit, a miss or an event. A key that is not there is answered with null. */
static enum rc object_find(struct cmd_ctx *ctx, struct key *ret_key)
{
    enum rc rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, ret_key, ctx->err);
    if (rc == RC_OK && !ret_key->exists)
        resp_add_null(ctx->reply);
    return rc;
}

static enum rc encoding_of(const struct key *key, const char **ret_name, struct err *err)
{
    switch ((enum type_tag)key->meta.type) {
    case TYPE_STRING:
    case TYPE_STRING_CHUNKED:
        *ret_name = string_encoding(key);
        return RC_OK;
    case TYPE_LIST:
        *ret_name = list_encoding(key);
        return RC_OK;
    case TYPE_HASH:
        return hash_encoding(key, ret_name, err);
    case TYPE_SET:
        return set_encoding(key, ret_name, err);
    case TYPE_ZSET:
        return zset_encoding(key, ret_name, err);
    }
    return err_set(err, RC_VERSION, "a key has the unknown type 0x%02x", key->meta.type);
}

enum rc cmd_object_encoding(struct cmd_ctx *ctx)
{
    struct key key;
    const char *name;
    enum rc rc = object_find(ctx, &key);
    if (rc != RC_OK || !key.exists)
        return rc;
    rc = encoding_of(&key, &name, ctx->err);
    if (rc == RC_OK)
        resp_add_text(ctx->reply, name);
    return rc;
}

/* The default policy does not count how often a key is used. */
enum rc cmd_object_freq(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = object_find(ctx, &key);
    if (rc != RC_OK || !key.exists)
        return rc;
    return cmd_error(ctx, "An LFU maxmemory policy is not selected, access frequency not tracked. "
                          "Please note that when switching between policies at runtime LRU and LFU "
                          "data will take some time to adjust.");
}

/* Nothing here remembers when a key was used: each was, just now. */
enum rc cmd_object_idletime(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = object_find(ctx, &key);
    if (rc == RC_OK && key.exists)
        resp_add_int(ctx->reply, 0);
    return rc;
}

enum rc cmd_object_refcount(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t value;
    enum rc rc = object_find(ctx, &key);
    if (rc != RC_OK || !key.exists)
        return rc;
    bool shared = key.meta.type == TYPE_STRING && number_int(key.meta.extra, &value) &&
                  value >= 0 && value < SHARED_INTEGERS;
    resp_add_int(ctx->reply, shared ? INT_MAX : 1);
    return RC_OK;
}
