// SPDX-License-Identifier: Apache-2.0
/* cmd_tile_plain.c - plain commands in a database of tiles: names that are tilekeys are tiles,
 * others are keys.
 *
 * SET, GET, MGET, MSET, DEL, UNLINK, EXISTS, TOUCH and TYPE take both, also mixed. They carry the
 * headered value; for sets of metadata and bare types, which have no header, the data. Other
 * commands on tilekeys are refused where the key is looked for (models/tile/tile_guard.c). */
#include "models/tile/cmd_tile.h"
#include "models/tile/tile_int.h"
#include "types/string.h"

#include "base/banned.h"

struct name { /* an argument: a tile of this database, or a key */
    bool is_tile;
    struct tilekey key;
};

static struct name name_of(const struct cmd_ctx *ctx, struct bytes text)
{
    const struct tile_type *type = tiles_type_of(ctx->run->ns);
    struct name name = {.is_tile = tile_is_name(type, text)};
    if (name.is_tile) {
        enum rc rc = tile_key_parse(type, text, &name.key, NULL);
        ASSERT(rc == RC_OK);
    }
    return name;
}

/* What a plain GET answers. RC_NOT_FOUND. */
static enum rc tile_read(struct cmd_ctx *ctx, struct tilekey key, struct bytes *ret_value)
{
    struct tile_type *type = tiles_type_of(ctx->run->ns);
    struct tile_found found;
    struct tile_meta_found meta;
    enum rc rc;
    if (tile_type_kind(type) == TILE_META) {
        rc = tile_meta_get(tile_type_tiles(type), type, key.packed, &meta, ctx->err);
        *ret_value = meta.data;
    } else {
        rc = tile_get(tile_type_tiles(type), type, key, &found, ctx->err);
        *ret_value = found.row;
    }
    return rc;
}

static enum rc tile_write(struct cmd_ctx *ctx, struct tilekey key, struct bytes row)
{
    struct tile_type *type = tiles_type_of(ctx->run->ns);
    struct tile_value value;
    bool changed;
    if (tile_type_kind(type) == TILE_META)
        return tile_meta_set(tile_type_tiles(type), type, key.packed, row, &changed, ctx->err);
    if (tile_type_is_bare(type)) {
        value = (struct tile_value){.data = row};
        return tile_set(tile_type_tiles(type), type, key, &value, ctx->err);
    }
    enum rc rc = tile_value_decode_canonical(row, &value, ctx->err);
    return rc == RC_OK ? tile_set(tile_type_tiles(type), type, key, &value, ctx->err) : rc;
}

static enum rc tile_remove(struct cmd_ctx *ctx, struct tilekey key, bool *ret_existed)
{
    struct tile_type *type = tiles_type_of(ctx->run->ns);
    if (tile_type_kind(type) == TILE_META)
        return tile_meta_del(tile_type_tiles(type), type, key.packed, ret_existed, ctx->err);
    return tile_del(tile_type_tiles(type), type, key, ret_existed, ctx->err);
}

/* ---- the commands ---- */

static enum rc plain_set(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3)
        return cmd_error(ctx, "SET of a tile takes no options: see TILE.SET");
    enum rc rc = tile_write(ctx, name_of(ctx, ctx->argv[1]).key, ctx->argv[2]);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* A tile, or a key that is a string. *ret_found false: neither. */
static enum rc any_read(struct cmd_ctx *ctx, struct bytes text, struct bytes *ret_value,
                        bool *ret_found)
{
    struct name name = name_of(ctx, text);
    struct key key;
    if (name.is_tile) {
        enum rc rc = tile_read(ctx, name.key, ret_value);
        *ret_found = rc == RC_OK;
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    enum rc rc = key_read(ctx->run, text, KEY_ANY, &key, ctx->err);
    *ret_found = rc == RC_OK && string_is(&key);
    return *ret_found ? string_get(&key, ret_value, ctx->err) : rc;
}

static enum rc read_reply(struct cmd_ctx *ctx, size_t arg)
{
    struct bytes value;
    bool found;
    enum rc rc = any_read(ctx, ctx->argv[arg], &value, &found);
    if (rc == RC_OK && found)
        resp_add_bulk(ctx->reply, value);
    else if (rc == RC_OK)
        resp_add_null(ctx->reply);
    return rc;
}

static enum rc plain_get(struct cmd_ctx *ctx)
{
    return read_reply(ctx, 1);
}

static enum rc plain_mget(struct cmd_ctx *ctx)
{
    bool cold = false;
    resp_add_array(ctx->reply, ctx->argc - 1);
    for (size_t i = 1; i < ctx->argc; i++) {
        enum rc rc = read_reply(ctx, i);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD; /* the others are asked for as well */
    }
    return cold ? RC_COLD : RC_OK;
}

static enum rc plain_mset(struct cmd_ctx *ctx)
{
    if (ctx->argc % 2 == 0)
        return cmd_arity_error(ctx);
    for (size_t i = 1; i < ctx->argc; i += 2) {
        struct name name = name_of(ctx, ctx->argv[i]);
        struct key key;
        enum rc rc;
        if (name.is_tile) {
            rc = tile_write(ctx, name.key, ctx->argv[i + 1]);
        } else {
            rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
            if (rc == RC_OK)
                rc = string_set(&key, ctx->argv[i + 1], 0, ctx->err);
            if (rc == RC_OK)
                key_changed(&key, KV_EVENT_STRING, "set");
        }
        if (rc != RC_OK)
            return rc;
    }
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

static enum rc any_remove(struct cmd_ctx *ctx, struct bytes text, bool *ret_existed)
{
    struct name name = name_of(ctx, text);
    struct key key;
    if (name.is_tile)
        return tile_remove(ctx, name.key, ret_existed);
    enum rc rc = key_write(ctx->run, text, KEY_ANY, &key, ctx->err);
    *ret_existed = rc == RC_OK && key.exists;
    if (rc != RC_OK || !key.exists)
        return rc;
    rc = key_remove(&key, ctx->err);
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_GENERIC, "del");
    return rc;
}

static enum rc any_exists(struct cmd_ctx *ctx, struct bytes text, bool *ret_exists)
{
    struct name name = name_of(ctx, text);
    struct bytes value;
    struct key key;
    if (name.is_tile) {
        enum rc rc = tile_read(ctx, name.key, &value);
        *ret_exists = rc == RC_OK;
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    enum rc rc = key_read(ctx->run, text, KEY_ANY, &key, ctx->err);
    *ret_exists = rc == RC_OK && key.exists;
    return rc;
}

/* Once something is cold nothing more is removed: the others are only asked for. */
static enum rc count_reply(struct cmd_ctx *ctx, bool removing)
{
    int64_t count = 0;
    bool cold = false;
    for (size_t i = 1; i < ctx->argc; i++) {
        bool existed = false;
        enum rc rc = removing && !cold ? any_remove(ctx, ctx->argv[i], &existed)
                                       : any_exists(ctx, ctx->argv[i], &existed);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
        count += existed;
    }
    if (cold)
        return RC_COLD;
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

static enum rc plain_del(struct cmd_ctx *ctx)
{
    return count_reply(ctx, true);
}

static enum rc plain_exists(struct cmd_ctx *ctx)
{
    return count_reply(ctx, false);
}

static enum rc plain_type(struct cmd_ctx *ctx)
{
    bool exists;
    enum rc rc = any_exists(ctx, ctx->argv[1], &exists);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, exists ? "string" : "none");
    return rc;
}

/* ---- which of them ---- */

enum { ONE_KEY = 0, NO_KEY = -1 };

static const struct plain {
    const char *name;
    enum rc (*run)(struct cmd_ctx *ctx); /* if one of its keys, at least, is a tile */
    int key_step;                        /* ONE_KEY: argument 1 is all; NO_KEY: in any case */
} plains[] = {
    {"GET", plain_get, ONE_KEY},     {"SET", plain_set, ONE_KEY}, {"TYPE", plain_type, ONE_KEY},
    {"MGET", plain_mget, 1},         {"DEL", plain_del, 1},       {"UNLINK", plain_del, 1},
    {"EXISTS", plain_exists, 1},     {"TOUCH", plain_exists, 1},  {"MSET", plain_mset, 2},
    {"SCAN", cmd_tile_scan, NO_KEY},
};
_Static_assert(ARRAY_LEN(plains) == TILE_PLAIN_COMMANDS, "all have a place");

static bool names_tile(const struct cmd_ctx *ctx, const struct plain *plain)
{
    size_t step = plain->key_step == ONE_KEY ? ctx->argc : (size_t)plain->key_step;
    if (plain->key_step == NO_KEY)
        return true;
    for (size_t i = 1; i < ctx->argc; i += step)
        if (name_of(ctx, ctx->argv[i]).is_tile)
            return true;
    return false;
}

/* The rows of the table above, found once: names would be compared for every command. */
static void plains_find(struct tiles *tiles, const struct cmd_ctx *ctx)
{
    for (size_t i = 0; i < ARRAY_LEN(plains); i++)
        tiles->plain[i] =
            cmd_find_name(ctx->host->cmds, bytes_of(plains[i].name, strlen(plains[i].name)));
}

enum rc cmd_tile_plain(void *type, struct cmd_ctx *ctx)
{
    struct tiles *tiles = tile_type_tiles(type);
    if (!tiles->plain[0])
        plains_find(tiles, ctx);
    for (size_t i = 0; i < ARRAY_LEN(plains); i++)
        if (tiles->plain[i] == ctx->cmd && names_tile(ctx, &plains[i]))
            return plains[i].run(ctx);
    return ctx->cmd->run(ctx);
}
