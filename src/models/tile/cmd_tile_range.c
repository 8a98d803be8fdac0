// SPDX-License-Identifier: Apache-2.0
/* cmd_tile_range.c - TILE.RANGE, COUNT, MISSING, DROP; TILE.META LIST, STATS: subtrees of keys.
 *
 * They go on in many commits: a run asks for a step of a scan, and runs again when there is more to
 * do. */
#include "models/tile/cmd_tile.h"

#include "base/mem.h"
#include "command/scan.h"
#include "types/scan_keys.h"
#include "types/glob.h"

#include "base/banned.h"

enum {
    RANGE_COUNT = 1000,
    RANGE_COUNT_MAX = 100 * 1000,
    DROP_PAGE = 256, /* removed in one commit */
    MISSING_PAGE = 4096,
};

/* ---- arguments ---- */

struct range_args {
    struct tile_scan_options scan;
    bool meta;  /* META: with sizes */
    bool bytes; /* BYTES */
};

enum range_option {
    RANGE_LEVEL = 1,
    RANGE_TM = 2,
    RANGE_COUNT_OF = 4,
    RANGE_AFTER = 8,
    RANGE_META = 16,
    RANGE_BYTES = 32,
    RANGE_STATUS = 64,
    RANGE_PREFIX = 128,
    RANGE_ONE_LEVEL = 256, /* LEVEL n */
};

static enum rc level_parse(struct cmd_ctx *ctx, size_t arg, unsigned *ret_level)
{
    int64_t level;
    enum rc rc = cmd_int_range(ctx, arg, 0, TILE_LEVEL_MAX, "a level is from 0 to 24", &level);
    if (rc == RC_OK)
        *ret_level = (unsigned)level;
    return rc;
}

static enum rc levels_parse(struct cmd_ctx *ctx, size_t *i, bool one, struct range_args *args)
{
    size_t count = one ? 1 : 2;
    if (*i + count >= ctx->argc)
        return cmd_syntax_error(ctx);
    enum rc rc = level_parse(ctx, *i + 1, &args->scan.level_from);
    if (rc == RC_OK)
        rc = level_parse(ctx, *i + count, &args->scan.level_to);
    *i += count;
    return rc;
}

static enum rc times_parse(struct cmd_ctx *ctx, size_t *i, struct range_args *args)
{
    if (tile_type_kind(args->scan.type) != TILE_TM)
        return err_set(ctx->err, RC_INVALID, "tiles of type %s have no time",
                       tile_type_name(args->scan.type));
    if (*i + 2 >= ctx->argc)
        return cmd_syntax_error(ctx);
    enum rc rc = tilekey_parse_ms(ctx->argv[*i + 1], &args->scan.ms_from, ctx->err);
    if (rc == RC_OK)
        rc = tilekey_parse_ms(ctx->argv[*i + 2], &args->scan.ms_to, ctx->err);
    *i += 2;
    return rc;
}

/* The option at argument *i, which is its last argument afterwards. */
static enum rc option_parse(struct cmd_ctx *ctx, size_t *i, unsigned allowed,
                            struct range_args *args)
{
    struct bytes word = ctx->argv[*i];
    enum tile_status status;
    int64_t count;
    if (allowed & RANGE_META && cmd_arg_is(word, "META")) {
        args->meta = true;
        return RC_OK;
    }
    if (allowed & RANGE_BYTES && cmd_arg_is(word, "BYTES")) {
        args->bytes = args->scan.bytes = true;
        return RC_OK;
    }
    if (allowed & (RANGE_LEVEL | RANGE_ONE_LEVEL) && cmd_arg_is(word, "LEVEL"))
        return levels_parse(ctx, i, allowed & RANGE_ONE_LEVEL, args);
    if (allowed & RANGE_TM && cmd_arg_is(word, "TM"))
        return times_parse(ctx, i, args);
    if (++*i == ctx->argc)
        return cmd_syntax_error(ctx);
    if (allowed & RANGE_COUNT_OF && cmd_arg_is(word, "COUNT")) {
        enum rc rc =
            cmd_int_range(ctx, *i, 1, RANGE_COUNT_MAX, "COUNT is from 1 to 100000", &count);
        args->scan.count_max = rc == RC_OK ? (uint32_t)count : 0;
        return rc;
    }
    if (allowed & RANGE_AFTER && cmd_arg_is(word, "AFTER")) {
        args->scan.has_after = true;
        return tile_key_parse(args->scan.type, ctx->argv[*i], &args->scan.after, ctx->err);
    }
    if (allowed & RANGE_PREFIX && cmd_arg_is(word, "PREFIX"))
        return tilekey_parse(ctx->argv[*i], &args->scan.root, ctx->err);
    if (allowed & RANGE_STATUS && cmd_arg_is(word, "STATUS")) {
        if (!tile_status_parse(ctx->argv[*i], &status))
            return cmd_error(ctx, "a status is PENDING, IN_PROGRESS, DONE or ERROR");
        args->scan.status = (int)status;
        return RC_OK;
    }
    return cmd_syntax_error(ctx);
}

static enum rc args_parse(struct cmd_ctx *ctx, size_t type_arg, size_t options_arg,
                          unsigned allowed, struct range_args *args)
{
    *args = (struct range_args){.scan = {.level_to = TILE_LEVEL_MAX,
                                         .ms_to = TILE_MS_MAX,
                                         .count_max = RANGE_COUNT,
                                         .status = -1}};
    enum rc rc = cmd_tile_type(ctx, type_arg, &args->scan.type);
    if (rc == RC_OK && !(allowed & RANGE_PREFIX))
        rc = tilekey_parse(ctx->argv[type_arg + 1], &args->scan.root, ctx->err);
    for (size_t i = options_arg; rc == RC_OK && i < ctx->argc; i++)
        rc = option_parse(ctx, &i, allowed, args);
    if (rc == RC_OK &&
        (args->scan.level_from > args->scan.level_to || args->scan.ms_from > args->scan.ms_to))
        return cmd_error(ctx, "the range ends before it begins");
    return rc;
}

static enum rc meta_check(struct cmd_ctx *ctx, const struct tile_type *type)
{
    if (tile_type_kind(type) != TILE_META)
        return err_set(ctx->err, RC_INVALID, "%s holds tiles, not sets of metadata",
                       tile_type_name(type));
    return RC_OK;
}

/* ---- steps ---- */

/* RC_OK: the scan is ready. */
static enum rc scan_run(struct cmd_ctx *ctx, const struct tile_scan_options *options,
                        struct tile_scan **ret_scan)
{
    struct cmd_request *request = ctx->request;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    if (!request->state) {
        request->state = tile_scan_new(tile_type_tiles(options->type), options);
        request->state_free = tile_scan_free;
    }
    *ret_scan = request->state;
    return tile_scan_step(request->state, &request->task, ctx->err);
}

static void key_reply(struct resp_out *reply, const struct tile_type *type, struct tilekey key)
{
    char text[TILEKEY_TEXT_BYTES];
    resp_add_bulk(reply, bytes_of(text, tile_key_print(type, key, text)));
}

enum rc cmd_tile_range(struct cmd_ctx *ctx)
{
    struct range_args args;
    struct tile_scan *scan;
    size_t count;
    bool more;
    enum rc rc = args_parse(
        ctx, 1, 3, RANGE_LEVEL | RANGE_TM | RANGE_COUNT_OF | RANGE_AFTER | RANGE_META, &args);
    if (rc == RC_OK)
        rc = scan_run(ctx, &args.scan, &scan);
    if (rc != RC_OK)
        return rc;
    const struct tile_scan_row *row = tile_scan_rows(scan, &count, &more);
    resp_add_array(ctx->reply, count);
    for (size_t i = 0; i < count; i++) {
        if (args.meta)
            resp_add_array(ctx->reply, 2);
        key_reply(ctx->reply, args.scan.type, row[i].key);
        if (args.meta)
            resp_add_int(ctx->reply, (int64_t)row[i].bytes);
    }
    return RC_OK;
}

enum rc cmd_tile_count(struct cmd_ctx *ctx)
{
    struct range_args args;
    struct tile_scan *scan;
    enum rc rc = args_parse(ctx, 1, 3, RANGE_LEVEL | RANGE_TM | RANGE_BYTES, &args);
    args.scan.counting = true;
    if (rc == RC_OK)
        rc = scan_run(ctx, &args.scan, &scan);
    if (rc != RC_OK)
        return rc;
    struct tile_counted counted = tile_scan_counted(scan);
    if (args.bytes)
        resp_add_array(ctx->reply, 2);
    resp_add_int(ctx->reply, (int64_t)counted.count);
    if (args.bytes)
        resp_add_int(ctx->reply, (int64_t)counted.bytes);
    return RC_OK;
}

/* ---- metadata ---- */

enum rc cmd_tile_meta_list(struct cmd_ctx *ctx)
{
    struct range_args args;
    struct tile_scan *scan;
    size_t count;
    bool more;
    enum rc rc = args_parse(
        ctx, 2, 3, RANGE_ONE_LEVEL | RANGE_STATUS | RANGE_PREFIX | RANGE_COUNT_OF | RANGE_AFTER,
        &args);
    if (rc == RC_OK)
        rc = meta_check(ctx, args.scan.type);
    if (rc == RC_OK)
        rc = scan_run(ctx, &args.scan, &scan);
    if (rc != RC_OK)
        return rc;
    const struct tile_scan_row *row = tile_scan_rows(scan, &count, &more);
    resp_add_array(ctx->reply, count);
    for (size_t i = 0; i < count; i++) {
        resp_add_array(ctx->reply, 2);
        key_reply(ctx->reply, args.scan.type, row[i].key);
        resp_add_text(ctx->reply, row[i].status < TILE_STATUS_COUNT
                                      ? tile_status_name((enum tile_status)row[i].status)
                                      : "unknown");
    }
    return RC_OK;
}

enum rc cmd_tile_meta_stats(struct cmd_ctx *ctx)
{
    struct range_args args;
    struct tile_scan *scan;
    enum rc rc = args_parse(ctx, 2, 3, RANGE_ONE_LEVEL | RANGE_PREFIX, &args);
    args.scan.counting = true;
    if (rc == RC_OK)
        rc = meta_check(ctx, args.scan.type);
    if (rc == RC_OK)
        rc = scan_run(ctx, &args.scan, &scan);
    if (rc != RC_OK)
        return rc;
    struct tile_counted counted = tile_scan_counted(scan);
    resp_add_map(ctx->reply, TILE_STATUS_COUNT);
    for (int i = 0; i < TILE_STATUS_COUNT; i++) {
        resp_add_text(ctx->reply, tile_status_name((enum tile_status)i));
        resp_add_int(ctx->reply, (int64_t)counted.by_status[i]);
    }
    return RC_OK;
}

/* ---- DROP ---- */

struct drop {
    struct tile_scan *scan;
    uint64_t count;
};

static void drop_free(void *state)
{
    struct drop *drop = state;
    tile_scan_free(drop->scan);
    mem_free(drop);
}

/* A page is removed in the commit of the run that has got it. */
enum rc cmd_tile_drop(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    struct range_args args;
    size_t count;
    bool more;
    enum rc rc = args_parse(ctx, 1, 3, RANGE_LEVEL | RANGE_TM, &args);
    if (rc != RC_OK)
        return rc;
    if (!request)
        return RC_WAIT;
    struct drop *drop = request->state;
    if (!drop) {
        args.scan.count_max = DROP_PAGE;
        drop = request->state = mem_zalloc(sizeof *drop);
        request->state_free = drop_free;
        drop->scan = tile_scan_new(cmd_model(ctx), &args.scan);
    }
    rc = tile_scan_step(drop->scan, &request->task, ctx->err);
    if (rc != RC_OK)
        return rc;
    const struct tile_scan_row *row = tile_scan_rows(drop->scan, &count, &more);
    for (size_t i = 0; i < count; i++) {
        rc = tile_drop(cmd_model(ctx), args.scan.type, row[i].key, ctx->err);
        if (rc != RC_OK)
            return rc;
    }
    drop->count += count;
    if (more) {
        tile_scan_next(drop->scan);
        return RC_WAIT; /* this page is committed */
    }
    resp_add_int(ctx->reply, (int64_t)drop->count);
    return RC_OK;
}

/* ---- MISSING ---- */

struct missing {
    struct tile_scan *scan;
    uint64_t next; /* the first key that was not looked at */
    bool over;     /* there is none */
    uint64_t *key;
    size_t count, count_max;
};

static void missing_free(void *state)
{
    struct missing *missing = state;
    tile_scan_free(missing->scan);
    mem_free(missing->key);
    mem_free(missing);
}

/* Keys from `next` up to and without `end` are missing; as many as are asked for. */
static void gap_add(struct missing *missing, uint64_t end)
{
    while (!missing->over && missing->next < end && missing->count < missing->count_max) {
        missing->key[missing->count++] = missing->next;
        missing->over = !tilekey_next_same_level(missing->next, &missing->next);
    }
}

static struct missing *missing_new(struct cmd_ctx *ctx, struct range_args *args, unsigned level)
{
    struct missing *missing = mem_zalloc(sizeof *missing);
    missing->count_max = args->scan.count_max;
    missing->key = mem_alloc(missing->count_max * sizeof *missing->key);
    missing->next = tilekey_first_below(args->scan.root, level);
    if (args->scan.has_after && args->scan.after.packed >= missing->next)
        missing->over = !tilekey_next_same_level(tilekey_ancestor(args->scan.after.packed, level),
                                                 &missing->next);
    args->scan.level_from = args->scan.level_to = level;
    args->scan.count_max = MISSING_PAGE;
    missing->scan = tile_scan_new(cmd_model(ctx), &args->scan);
    return missing;
}

static enum rc missing_args(struct cmd_ctx *ctx, struct range_args *args, unsigned *ret_level)
{
    enum rc rc = args_parse(ctx, 1, 4, RANGE_COUNT_OF | RANGE_AFTER, args);
    if (rc == RC_OK)
        rc = level_parse(ctx, 3, ret_level);
    if (rc != RC_OK)
        return rc;
    if (tile_type_kind(args->scan.type) != TILE_PLAIN)
        return cmd_error(ctx, "what is missing can be said of plain tiles only");
    if (*ret_level < tilekey_level(args->scan.root))
        return cmd_error(ctx, "the level is above the key");
    if (args->scan.has_after && tilekey_level(args->scan.after.packed) != *ret_level)
        return cmd_error(ctx, "AFTER is a key of that level");
    return RC_OK;
}

enum rc cmd_tile_missing(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    struct range_args args;
    unsigned level;
    size_t count;
    bool more;
    enum rc rc = missing_args(ctx, &args, &level);
    if (rc != RC_OK)
        return rc;
    if (!request)
        return RC_WAIT;
    struct missing *missing = request->state;
    if (!missing) {
        missing = request->state = missing_new(ctx, &args, level);
        request->state_free = missing_free;
    }
    rc = tile_scan_step(missing->scan, &request->task, ctx->err);
    if (rc != RC_OK)
        return rc;
    const struct tile_scan_row *row = tile_scan_rows(missing->scan, &count, &more);
    for (size_t i = 0; i < count; i++) {
        gap_add(missing, row[i].key.packed);
        if (!missing->over && missing->next == row[i].key.packed)
            missing->over = !tilekey_next_same_level(missing->next, &missing->next);
    }
    if (more && missing->count < missing->count_max) {
        tile_scan_next(missing->scan);
        return RC_WAIT;
    }
    if (!more)
        gap_add(missing, tilekey_subtree_last(args.scan.root) + 1);
    resp_add_array(ctx->reply, missing->count);
    for (size_t i = 0; i < missing->count; i++)
        key_reply(ctx->reply, args.scan.type, (struct tilekey){missing->key[i], 0});
    return RC_OK;
}

/* ---- SCAN ---- */

/* What a cursor among tiles stands for begins with this; the last key follows, as it is stored. */
enum { CURSOR_TILES = 't' };

static uint64_t cursor_after(struct cmd_ctx *ctx, const struct tile_type *type, struct tilekey key)
{
    uint8_t position[1 + TILEKEY_TM_BYTES] = {CURSOR_TILES};
    size_t len = tilekey_put(key, tile_type_kind(type) == TILE_TM, position + 1);
    return scan_cursor_keep(ctx->run->kv, bytes_of(position, 1 + len));
}

/* Tiles are strings to SCAN, as to TYPE. The tile of level 0 has no name that GET would take. */
static bool scan_takes(const struct scan_keys *scan, struct bytes name)
{
    if (name.len == 0 || name.ptr[0] == ':' ||
        (scan->has_type && !cmd_arg_is(scan->type, "string")))
        return false;
    return !scan->has_pattern || glob_match(scan->pattern, name, false);
}

/* A page of tiles behind this key (empty: from the first). */
static enum rc tiles_page(struct cmd_ctx *ctx, const struct scan_keys *scan, struct bytes after,
                          struct resp_out *names, uint64_t *ret_cursor, size_t *ret_count)
{
    struct tile_type *type = tiles_type_of(ctx->run->ns);
    struct tile_scan_options options = {
        .type = type,
        .level_to = TILE_LEVEL_MAX,
        .ms_to = TILE_MS_MAX,
        .status = -1,
        .has_after = after.len > 0,
        .count_max = scan->count < RANGE_COUNT_MAX ? (uint32_t)scan->count : RANGE_COUNT_MAX};
    struct tile_scan *tiles;
    size_t count;
    bool more;
    if (ctx->in_exec)
        return cmd_error(ctx, "SCAN of tiles is not allowed inside a transaction");
    if (after.len > 0 && !tilekey_get(after, tile_type_kind(type) == TILE_TM, &options.after))
        return cmd_error(ctx, "invalid cursor");
    enum rc rc = scan_run(ctx, &options, &tiles);
    if (rc != RC_OK)
        return rc;
    const struct tile_scan_row *row = tile_scan_rows(tiles, &count, &more);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        char text[TILEKEY_TEXT_BYTES];
        struct bytes name = bytes_of(text, tile_key_print(type, row[i].key, text));
        if (!scan_takes(scan, name))
            continue;
        resp_add_bulk(names, name);
        ++*ret_count;
    }
    *ret_cursor = more ? cursor_after(ctx, type, row[count - 1].key) : 0;
    return RC_OK;
}

/* Behind the keys of a database come its tiles. */
static enum rc any_page(struct cmd_ctx *ctx, const struct scan_keys *scan, struct resp_out *names,
                        uint64_t *ret_cursor, size_t *ret_count)
{
    static const uint8_t first = CURSOR_TILES;
    struct bytes position;
    if (scan->cursor != 0) {
        enum rc rc = scan_cursor_find(ctx->run->kv, scan->cursor, &position, ctx->err);
        if (rc != RC_OK)
            return rc;
        if (position.len > 0 && position.ptr[0] == CURSOR_TILES)
            return tiles_page(ctx, scan, bytes_from(position, 1), names, ret_cursor, ret_count);
    }
    enum rc rc = cmd_scan_keys(ctx, scan, names, ret_cursor, ret_count);
    if (rc == RC_OK && *ret_cursor == 0)
        *ret_cursor = scan_cursor_keep(ctx->run->kv, bytes_of(&first, 1));
    return rc;
}

enum rc cmd_tile_scan(struct cmd_ctx *ctx)
{
    struct scan_keys scan;
    struct resp_out names;
    uint64_t cursor;
    size_t count;
    enum rc rc = cmd_scan_parse(ctx, &scan);
    if (rc != RC_OK)
        return rc;
    resp_out_init(&names, ctx->reply->buf.bytes_max);
    rc = any_page(ctx, &scan, &names, &cursor, &count);
    if (rc == RC_OK)
        cmd_scan_reply(ctx, cursor, &names, count);
    resp_out_done(&names);
    return rc;
}
