// SPDX-License-Identifier: Apache-2.0
/* scan.c - parts of SCAN. */
#include "command/scan.h"

#include "types/number.h"

#include "base/banned.h"

enum { SCAN_COUNT = 10 };

void cmd_names_add(void *arg, struct bytes name)
{
    struct cmd_names *names = arg;
    resp_add_bulk(names->reply, name);
    names->count++;
}

enum rc cmd_scan_parse(struct cmd_ctx *ctx, struct scan_keys *ret_scan)
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
            ret_scan->count = count < CMD_SCAN_COUNT_MAX ? (uint64_t)count : CMD_SCAN_COUNT_MAX;
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

void cmd_scan_reply(struct cmd_ctx *ctx, uint64_t cursor, const struct resp_out *names,
                    size_t count)
{
    char text[NUMBER_INT_BYTES];
    resp_add_array(ctx->reply, 2);
    resp_add_bulk(ctx->reply, bytes_of(text, number_int_text(text, (int64_t)cursor)));
    resp_add_array(ctx->reply, count);
    resp_add_out(ctx->reply, names);
}

enum rc cmd_scan_keys(struct cmd_ctx *ctx, const struct scan_keys *scan, struct resp_out *names,
                      uint64_t *ret_cursor, size_t *ret_count)
{
    struct cmd_names list = {.reply = names};
    enum rc rc = scan_keys(ctx->run, scan, cmd_names_add, &list, ret_cursor, ctx->err);
    *ret_count = list.count;
    return rc;
}
