// SPDX-License-Identifier: Apache-2.0
/* cmd_fs_list.c - FS.*: directories as a whole, and mounts. */
#include "models/fs/cmd_fs.h"

#include "base/banned.h"

struct page_args {
    struct bytes from;
    int64_t count;
    bool with_stat;
};

/* From argument `first` on. */
static enum rc page_parse(struct cmd_ctx *ctx, size_t first, bool may_stat,
                          struct page_args *ret_args)
{
    struct page_args args = {.from = BYTES(""), .count = CMD_FS_PAGE_COUNT};
    enum rc rc = RC_OK;
    for (size_t i = first; rc == RC_OK && i < ctx->argc; i++) {
        if (may_stat && cmd_arg_is(ctx->argv[i], "STAT")) {
            args.with_stat = true;
            continue;
        }
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "FROM"))
            args.from = ctx->argv[i + 1];
        else if (cmd_arg_is(ctx->argv[i], "COUNT"))
            rc = cmd_fs_count_arg(ctx, i + 1, &args.count);
        else
            return cmd_syntax_error(ctx);
        i++;
    }
    *ret_args = args;
    return rc;
}

/* Where the next page begins, or null. */
static void next_add(struct resp_out *reply, bool more, struct bytes next)
{
    resp_add_array(reply, 2);
    if (more)
        resp_add_bulk(reply, next);
    else
        resp_add_null(reply);
}

/* ---- a page of a directory ---- */

static enum rc stats_add(struct cmd_ctx *ctx, const struct fs_page *page)
{
    enum rc rc = fs_list_warm(cmd_model(ctx), page, ctx->err);
    for (size_t i = 0; rc == RC_OK && i < page->count; i++) {
        struct fs_stat stat;
        rc = fs_list_stat(cmd_model(ctx), &page->entry[i], &stat, ctx->err);
        if (rc == RC_OK)
            cmd_fs_stat_add(ctx->reply, &stat, "name", page->entry[i].name);
    }
    return rc;
}

enum rc cmd_fs_ls(struct cmd_ctx *ctx)
{
    struct page_args args;
    struct fs_page page;
    enum rc rc = page_parse(ctx, 2, true, &args);
    if (rc == RC_OK)
        rc = fs_list(cmd_model(ctx), ctx->argv[1], args.from, (size_t)args.count, &page, ctx->err);
    if (rc != RC_OK)
        return rc;
    next_add(ctx->reply, page.more, page.next);
    resp_add_array(ctx->reply, page.count);
    if (args.with_stat)
        return stats_add(ctx, &page);
    for (size_t i = 0; i < page.count; i++)
        resp_add_bulk(ctx->reply, page.entry[i].name);
    return RC_OK;
}

/* ---- mounts ---- */

enum rc cmd_fs_mount(struct cmd_ctx *ctx)
{
    enum rc rc = fs_mount(cmd_model(ctx), ctx->argv[1], ctx->argv[2], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_fs_umount(struct cmd_ctx *ctx)
{
    enum rc rc = fs_unmount(cmd_model(ctx), ctx->argv[1], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_fs_mounts(struct cmd_ctx *ctx)
{
    struct page_args args;
    struct fs_mounts page;
    enum rc rc = page_parse(ctx, 1, false, &args);
    if (rc == RC_OK)
        rc = fs_mounts(cmd_model(ctx), args.from, (size_t)args.count, &page, ctx->err);
    if (rc != RC_OK)
        return rc;
    next_add(ctx->reply, page.more, page.next);
    resp_add_map(ctx->reply, page.count);
    for (size_t i = 0; i < page.count; i++) {
        resp_add_bulk(ctx->reply, page.mount[i].path);
        resp_add_bulk(ctx->reply, page.mount[i].uri);
    }
    return RC_OK;
}

enum rc cmd_fs_resolve(struct cmd_ctx *ctx)
{
    struct fs_mount mount;
    struct bytes rest;
    enum rc rc = fs_resolve(cmd_model(ctx), ctx->argv[1], &mount, &rest, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool slash = rest.len > 0 && mount.uri.ptr[mount.uri.len - 1] != '/';
    size_t len = mount.uri.len + slash + rest.len;
    uint8_t *target = arena_alloc(ctx->run->arena, len + 1);
    memcpy(target, mount.uri.ptr, mount.uri.len);
    target[mount.uri.len] = '/';
    memcpy(target + mount.uri.len + slash, rest.ptr, rest.len);
    resp_add_map(ctx->reply, 3);
    resp_add_text(ctx->reply, "mount");
    resp_add_bulk(ctx->reply, mount.path);
    resp_add_text(ctx->reply, "uri");
    resp_add_bulk(ctx->reply, mount.uri);
    resp_add_text(ctx->reply, "target");
    resp_add_bulk(ctx->reply, bytes_of(target, len));
    return RC_OK;
}
