/* SCAN, KEYS, RANDOMKEY: keys that nobody has named. */
#include "server/cmd/cmd_scan.h"

#include "types/number.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum { SCAN_COUNT = 10 };

struct name_list {
    struct resp_out *reply;
    size_t count;
};

static void name_add(void *arg, struct bytes name)
{
    struct name_list *list = arg;
    resp_add_bulk(list->reply, name);
    list->count++;
}

static enum rc scan_parse(struct cmd_ctx *ctx, struct scan_keys *ret_scan)
{
    *ret_scan = (struct scan_keys){.count = SCAN_COUNT};
    if (!scan_cursor_parse(ctx->argv[1], &ret_scan->cursor))
        return cmd_error(ctx, "invalid cursor");
    for (size_t i = 2; i < ctx->argc; i += 2) {
        struct bytes option = ctx->argv[i];
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(option, "COUNT")) {
            int64_t count;
            enum rc rc = cmd_int(ctx, i + 1, &count);
            if (rc != RC_OK)
                return rc;
            if (count < 1)
                return cmd_syntax_error(ctx);
            ret_scan->count = (uint64_t)count;
        } else if (cmd_arg_is(option, "MATCH")) {
            ret_scan->has_pattern = true;
            ret_scan->pattern = ctx->argv[i + 1];
        } else if (cmd_arg_is(option, "TYPE")) {
            ret_scan->has_type = true;
            ret_scan->type = ctx->argv[i + 1];
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    return RC_OK;
}

enum rc cmd_scan_reply(struct cmd_ctx *ctx, uint64_t cursor, const struct resp_out *names,
                       size_t count)
{
    char text[NUMBER_INT_BYTES];
    if (names->failed)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    resp_add_array(ctx->reply, 2);
    resp_add_bulk(ctx->reply, bytes_of(text, number_int_text(text, (int64_t)cursor)));
    resp_add_array(ctx->reply, count);
    resp_add_raw(ctx->reply, buf_bytes(&names->buf));
    return RC_OK;
}

/* The cursor stands before the keys, and is known behind them: they are written first. Behind the
 * keys of a database come its tiles. */
static enum rc scan_reply(struct cmd_ctx *ctx, const struct scan_keys *scan, struct resp_out *names)
{
    struct name_list list = {.reply = names};
    struct bytes position;
    uint64_t cursor;
    if (ctx->ns->tile && scan->cursor != 0) {
        enum rc rc = scan_cursor_find(ctx->kv, scan->cursor, &position, ctx->err);
        if (rc != RC_OK)
            return rc;
        if (position.len > 0 && position.ptr[0] == CMD_SCAN_TILES)
            return cmd_tile_scan(ctx, scan, bytes_from(position, 1), names);
    }
    enum rc rc = scan_keys(ctx->ns, scan, name_add, &list, &cursor, ctx->err);
    if (rc == RC_OK && cursor == 0 && ctx->ns->tile) {
        uint8_t tiles = CMD_SCAN_TILES;
        cursor = scan_cursor_keep(ctx->kv, bytes_of(&tiles, 1));
    }
    return rc == RC_OK ? cmd_scan_reply(ctx, cursor, names, list.count) : rc;
}

enum rc cmd_scan(struct cmd_ctx *ctx)
{
    struct scan_keys scan;
    struct resp_out names;
    enum rc rc = scan_parse(ctx, &scan);
    if (rc != RC_OK)
        return rc;
    resp_out_init(&names, CONN_REPLY_ONE_BYTES_MAX);
    rc = scan_reply(ctx, &scan, &names);
    resp_out_done(&names);
    return rc;
}

enum rc cmd_keys_matching(struct cmd_ctx *ctx)
{
    struct name_list list = {.reply = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = scan_keys_all(ctx->ns, ctx->argv[1], name_add, &list, ctx->err);
    if (rc == RC_OK)
        resp_close_array(ctx->reply, mark, list.count);
    return rc;
}

enum rc cmd_randomkey(struct cmd_ctx *ctx)
{
    struct name_list list = {.reply = ctx->reply};
    enum rc rc = scan_keys_random(ctx->ns, name_add, &list, ctx->err);
    if (rc == RC_OK && list.count == 0)
        resp_add_null(ctx->reply);
    return rc;
}
