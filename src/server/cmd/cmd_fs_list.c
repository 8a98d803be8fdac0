/* FS.*: directories as a whole, and mounts. */
#include "server/cmd/cmd_fs.h"

#include "base/banned.h"

enum { LIST_COUNT = 1000 };

/* ---- a page of a directory ---- */

struct list_args {
    struct bytes from;
    int64_t count;
    bool with_stat;
};

static enum rc list_parse(struct cmd_ctx *ctx, struct list_args *ret_args)
{
    struct list_args args = {.from = BYTES(""), .count = LIST_COUNT};
    enum rc rc = RC_OK;
    for (size_t i = 2; rc == RC_OK && i < ctx->argc; i++) {
        if (cmd_arg_is(ctx->argv[i], "STAT")) {
            args.with_stat = true;
            continue;
        }
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "FROM"))
            args.from = ctx->argv[i + 1];
        else if (cmd_arg_is(ctx->argv[i], "COUNT"))
            rc = cmd_int_range(ctx, i + 1, 1, FS_LIST_COUNT_MAX,
                               "COUNT is a number from 1 to 100000", &args.count);
        else
            return cmd_syntax_error(ctx);
        i++;
    }
    *ret_args = args;
    return rc;
}

static enum rc stats_add(struct cmd_ctx *ctx, const struct fs_page *page)
{
    enum rc rc = fs_list_warm(ctx->server->fs, page, ctx->err);
    for (size_t i = 0; rc == RC_OK && i < page->count; i++) {
        struct fs_stat stat;
        rc = fs_list_stat(ctx->server->fs, &page->entry[i], &stat, ctx->err);
        if (rc == RC_OK)
            cmd_fs_stat_add(ctx->reply, &stat, "name", page->entry[i].name);
    }
    return rc;
}

enum rc cmd_fs_ls(struct cmd_ctx *ctx)
{
    struct list_args args;
    struct fs_page page;
    enum rc rc = list_parse(ctx, &args);
    if (rc == RC_OK)
        rc = fs_list(ctx->server->fs, ctx->argv[1], args.from, (size_t)args.count, &page, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, 2);
    if (page.more)
        resp_add_bulk(ctx->reply, page.next);
    else
        resp_add_null(ctx->reply);
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
    enum rc rc = fs_mount(ctx->server->fs, ctx->argv[1], ctx->argv[2], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_fs_umount(struct cmd_ctx *ctx)
{
    enum rc rc = fs_unmount(ctx->server->fs, ctx->argv[1], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

struct mounts_reply {
    struct resp_out *reply;
    size_t count;
};

static void mount_add(void *arg, const struct fs_mount *mount)
{
    struct mounts_reply *mounts = arg;
    resp_add_bulk(mounts->reply, mount->path);
    resp_add_bulk(mounts->reply, mount->uri);
    mounts->count++;
}

enum rc cmd_fs_mounts(struct cmd_ctx *ctx)
{
    struct mounts_reply mounts = {.reply = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = fs_mounts(ctx->server->fs, mount_add, &mounts, ctx->err);
    if (rc == RC_OK)
        resp_close_map(ctx->reply, mark, mounts.count);
    return rc;
}

enum rc cmd_fs_resolve(struct cmd_ctx *ctx)
{
    struct fs_mount mount;
    struct bytes rest;
    enum rc rc = fs_resolve(ctx->server->fs, ctx->argv[1], &mount, &rest, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool slash = rest.len > 0 && mount.uri.ptr[mount.uri.len - 1] != '/';
    size_t len = mount.uri.len + slash + rest.len;
    uint8_t *target = arena_alloc(&ctx->kv->arena, len + 1);
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
