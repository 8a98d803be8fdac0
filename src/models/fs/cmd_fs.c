// SPDX-License-Identifier: Apache-2.0
/* cmd_fs.c - FS.*: files and directories one by one. */
#include "models/fs/cmd_fs.h"

#include "base/macros.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    MODE_DIGITS = 4, /* at least */
    MODE_DIGITS_MAX = 11,
    PAIRS_BYTES_MAX = 1024, /* labels and numbers: less than 400; owner and group: 255 each */
};
_Static_assert(2 * FS_DICT_NAME_BYTES_MAX + 400 < PAIRS_BYTES_MAX, "a stat's pairs fit");

/* ---- arguments ---- */

static enum rc mode_arg(struct cmd_ctx *ctx, struct bytes arg, uint32_t *ret_mode)
{
    uint32_t mode = 0;
    for (size_t i = 0; i < arg.len; i++) {
        if (arg.ptr[i] < '0' || arg.ptr[i] > '7' || mode > FS_MODE_MAX)
            return cmd_error(ctx, "a mode is an octal number from 0 to 7777");
        mode = mode * 8 + (uint32_t)(arg.ptr[i] - '0');
    }
    if (arg.len == 0 || mode > FS_MODE_MAX)
        return cmd_error(ctx, "a mode is an octal number from 0 to 7777");
    *ret_mode = mode;
    return RC_OK;
}

enum { WITH_PARENTS = 1, WITH_MODE = 2, WITH_NAMES = 4, WITH_BLOCK = 8 };

static enum rc block_arg(struct cmd_ctx *ctx, size_t arg, struct fs_attrs *attrs)
{
    int64_t bytes;
    enum rc rc = cmd_int_range(ctx, arg, 1, (int64_t)FS_BLOCK_BYTES_MAX,
                               "a block has 1 byte to 256 GiB", &bytes);
    if (rc == RC_OK)
        attrs->block_size = (uint64_t)bytes;
    return rc;
}

/* Words and what follows them; `with` says which are taken. */
static enum rc attrs_args(struct cmd_ctx *ctx, unsigned with, struct fs_attrs *ret_attrs,
                          bool *ret_parents)
{
    struct fs_attrs attrs = {.now_ms = ctx->run->now_ms, .block_size = FS_BLOCK_BYTES_DEFAULT};
    bool parents = false;
    enum rc rc = RC_OK;
    for (size_t i = 2; rc == RC_OK && i < ctx->argc; i++) {
        struct bytes word = ctx->argv[i];
        if (with & WITH_PARENTS && cmd_arg_is(word, "PARENTS")) {
            parents = true;
            continue;
        }
        if (++i == ctx->argc)
            return cmd_syntax_error(ctx);
        if (with & WITH_MODE && cmd_arg_is(word, "MODE")) {
            attrs.has_mode = true;
            rc = mode_arg(ctx, ctx->argv[i], &attrs.mode);
        } else if (with & WITH_NAMES && cmd_arg_is(word, "OWNER")) {
            attrs.has_owner = true;
            attrs.owner = ctx->argv[i];
        } else if (with & WITH_NAMES && cmd_arg_is(word, "GROUP")) {
            attrs.has_group = true;
            attrs.group = ctx->argv[i];
        } else if (with & WITH_BLOCK && cmd_arg_is(word, "BLOCK")) {
            rc = block_arg(ctx, i, &attrs);
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    *ret_attrs = attrs;
    *ret_parents = parents;
    return rc;
}

static enum rc ok(struct cmd_ctx *ctx, enum rc rc)
{
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* ---- making ---- */

enum rc cmd_fs_mkdir(struct cmd_ctx *ctx)
{
    struct fs_attrs attrs;
    bool parents;
    uint64_t id;
    enum rc rc = attrs_args(ctx, WITH_PARENTS | WITH_MODE | WITH_NAMES, &attrs, &parents);
    if (rc == RC_OK)
        rc = fs_mkdir(cmd_model(ctx), ctx->argv[1], parents, &attrs, &id, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)id);
    return rc;
}

enum rc cmd_fs_create(struct cmd_ctx *ctx)
{
    struct fs_attrs attrs;
    bool parents;
    uint64_t id;
    enum rc rc = attrs_args(ctx, WITH_MODE | WITH_NAMES | WITH_BLOCK, &attrs, &parents);
    if (rc == RC_OK)
        rc = fs_create(cmd_model(ctx), ctx->argv[1], &attrs, &id, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)id);
    return rc;
}

static enum rc resize(struct cmd_ctx *ctx, bool complete)
{
    int64_t size;
    enum rc rc = cmd_int_range(ctx, 2, 0, INT64_MAX, NULL, &size);
    if (rc == RC_OK)
        rc = fs_resize(cmd_model(ctx), ctx->argv[1], (uint64_t)size, complete, ctx->run->now_ms,
                       ctx->err);
    return ok(ctx, rc);
}

enum rc cmd_fs_complete(struct cmd_ctx *ctx)
{
    return resize(ctx, true);
}

enum rc cmd_fs_size(struct cmd_ctx *ctx)
{
    return resize(ctx, false);
}

enum rc cmd_fs_chmod(struct cmd_ctx *ctx)
{
    struct fs_attrs attrs = {.has_mode = true};
    enum rc rc = mode_arg(ctx, ctx->argv[2], &attrs.mode);
    if (rc == RC_OK)
        rc = fs_attrs_set(cmd_model(ctx), ctx->argv[1], &attrs, ctx->err);
    return ok(ctx, rc);
}

enum rc cmd_fs_chown(struct cmd_ctx *ctx)
{
    struct fs_attrs attrs;
    bool parents;
    enum rc rc = attrs_args(ctx, WITH_NAMES, &attrs, &parents);
    if (rc == RC_OK)
        rc = fs_attrs_set(cmd_model(ctx), ctx->argv[1], &attrs, ctx->err);
    return ok(ctx, rc);
}

enum rc cmd_fs_utime(struct cmd_ctx *ctx)
{
    struct fs_attrs attrs = {.has_modify = true, .has_create = ctx->argc == 4};
    int64_t modify_ms, create_ms = 0;
    if (ctx->argc > 4)
        return cmd_syntax_error(ctx);
    enum rc rc = cmd_int_range(ctx, 2, 0, INT64_MAX, NULL, &modify_ms);
    if (rc == RC_OK && attrs.has_create)
        rc = cmd_int_range(ctx, 3, 0, INT64_MAX, NULL, &create_ms);
    if (rc != RC_OK)
        return rc;
    attrs.modify_ms = (uint64_t)modify_ms;
    attrs.create_ms = (uint64_t)create_ms;
    return ok(ctx, fs_attrs_set(cmd_model(ctx), ctx->argv[1], &attrs, ctx->err));
}

enum rc cmd_fs_mv(struct cmd_ctx *ctx)
{
    bool replace = ctx->argc == 4 && cmd_arg_is(ctx->argv[3], "REPLACE");
    if (ctx->argc > 4 || (ctx->argc == 4 && !replace))
        return cmd_syntax_error(ctx);
    return ok(ctx, fs_move(cmd_model(ctx), ctx->argv[1], ctx->argv[2], replace, ctx->err));
}

enum rc cmd_fs_rm(struct cmd_ctx *ctx)
{
    bool recursive = ctx->argc == 3 && cmd_arg_is(ctx->argv[2], "RECURSIVE");
    if (ctx->argc > 3 || (ctx->argc == 3 && !recursive))
        return cmd_syntax_error(ctx);
    return ok(ctx, fs_remove(cmd_model(ctx), ctx->argv[1], recursive, ctx->err));
}

/* ---- reading ---- */

/* The pairs are written as they stand on the wire, in one go: writing takes longer than finding. */
struct writer {
    char *at;
};

static inline void raw_add(struct writer *to, struct bytes bytes)
{
    memcpy(to->at, bytes.ptr, bytes.len);
    to->at += bytes.len;
}

static void int_add(struct writer *to, uint64_t value)
{
    to->at += number_int_text(to->at, (int64_t)value);
    raw_add(to, BYTES("\r\n"));
}

static void text_add(struct writer *to, struct bytes text)
{
    to->at += number_int_text(to->at, (int64_t)text.len);
    raw_add(to, BYTES("\r\n"));
    raw_add(to, text);
    raw_add(to, BYTES("\r\n"));
}

static struct bytes mode_text(uint32_t mode, char to[MODE_DIGITS_MAX])
{
    size_t at = MODE_DIGITS_MAX;
    for (; mode > 0 || at > MODE_DIGITS_MAX - MODE_DIGITS; mode >>= 3)
        to[--at] = (char)('0' + (mode & 7));
    return bytes_of(to + at, MODE_DIGITS_MAX - at);
}

void cmd_fs_stat_add(struct resp_out *reply, const struct fs_stat *stat, const char *label,
                     struct bytes text)
{
    const struct fs_entry *entry = &stat->entry;
    char bytes[PAIRS_BYTES_MAX], mode[MODE_DIGITS_MAX];
    struct writer to = {bytes};
    raw_add(&to, BYTES("$2\r\nid\r\n:"));
    int_add(&to, stat->id);
    raw_add(&to, fs_entry_is_dir(entry) ? BYTES("$4\r\ntype\r\n$9\r\ndirectory\r\n")
                                        : BYTES("$4\r\ntype\r\n$4\r\nfile\r\n"));
    raw_add(&to, BYTES("$4\r\nsize\r\n:"));
    int_add(&to, entry->size);
    raw_add(&to, BYTES("$4\r\nmode\r\n$"));
    text_add(&to, mode_text(entry->mode, mode));
    raw_add(&to, BYTES("$5\r\nowner\r\n$"));
    text_add(&to, stat->owner);
    raw_add(&to, BYTES("$5\r\ngroup\r\n$"));
    text_add(&to, stat->group);
    raw_add(&to, BYTES("$7\r\ncreated\r\n:"));
    int_add(&to, entry->create_ms);
    raw_add(&to, BYTES("$8\r\nmodified\r\n:"));
    int_add(&to, entry->modify_ms);
    raw_add(&to, BYTES("$5\r\nblock\r\n:"));
    int_add(&to, entry->block_size);
    raw_add(&to, entry->flags & FS_COMPLETE ? BYTES("$8\r\ncomplete\r\n:1\r\n")
                                            : BYTES("$8\r\ncomplete\r\n:0\r\n"));
    raw_add(&to, BYTES("$6\r\nparent\r\n:"));
    int_add(&to, entry->parent);
    ASSERT((size_t)(to.at - bytes) <= sizeof bytes);
    resp_add_map(reply, CMD_FS_STAT_PAIRS);
    resp_add_raw(reply, bytes_of(bytes, (size_t)(to.at - bytes)));
    resp_add_text(reply, label);
    resp_add_bulk(reply, text);
}

static enum rc info_add(struct cmd_ctx *ctx, const struct fs_stat *stat)
{
    CLEANUP(buf_done) struct buf info;
    buf_init(&info, CONN_REPLY_ONE_BYTES_MAX);
    enum rc rc = fs_info_encode(stat, &info, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, buf_bytes(&info));
    return rc;
}

enum rc cmd_fs_stat(struct cmd_ctx *ctx)
{
    struct fs_stat stat;
    bool proto = ctx->argc == 3 && cmd_arg_is(ctx->argv[2], "PROTO");
    if (ctx->argc > 3 || (ctx->argc == 3 && !proto))
        return cmd_syntax_error(ctx);
    enum rc rc = fs_stat(cmd_model(ctx), ctx->argv[1], true, &stat, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (proto)
        return info_add(ctx, &stat);
    cmd_fs_stat_add(ctx->reply, &stat, "path", stat.path);
    return RC_OK;
}

enum rc cmd_fs_mstat(struct cmd_ctx *ctx)
{
    enum rc cold = RC_OK;
    resp_add_array(ctx->reply, ctx->argc - 1);
    for (size_t i = 1; i < ctx->argc; i++) {
        struct fs_stat stat;
        bool found;
        enum rc rc = fs_stat_try(cmd_model(ctx), ctx->argv[i], &found, &stat, ctx->err);
        if (rc == RC_COLD)
            cold = rc; /* all are asked for before the command waits */
        else if (rc != RC_OK)
            return rc;
        else if (found)
            cmd_fs_stat_add(ctx->reply, &stat, "path", stat.path);
        else
            resp_add_null(ctx->reply);
    }
    return cold;
}

enum rc cmd_fs_count_arg(struct cmd_ctx *ctx, size_t arg, int64_t *ret_count)
{
    return cmd_int_range(ctx, arg, 1, FS_PAGE_COUNT_MAX, "COUNT is a number from 1 to 10000",
                         ret_count);
}

/* FROM and COUNT; what else there is, is at the caller. */
static enum rc blocks_args(struct cmd_ctx *ctx, int64_t *ret_from, int64_t *ret_count)
{
    enum rc rc = RC_OK;
    *ret_from = 0;
    *ret_count = CMD_FS_PAGE_COUNT;
    for (size_t i = 2; rc == RC_OK && i < ctx->argc; i += 2) {
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "FROM"))
            rc = cmd_int_range(ctx, i + 1, 0, INT64_MAX, NULL, ret_from);
        else if (cmd_arg_is(ctx->argv[i], "COUNT"))
            rc = cmd_fs_count_arg(ctx, i + 1, ret_count);
        else
            return cmd_syntax_error(ctx);
    }
    return rc;
}

/* The index to go on from, or null, and pairs of id and length. */
enum rc cmd_fs_blocks(struct cmd_ctx *ctx)
{
    struct fs_stat stat;
    int64_t from, max;
    enum rc rc = blocks_args(ctx, &from, &max);
    if (rc == RC_OK)
        rc = fs_stat(cmd_model(ctx), ctx->argv[1], false, &stat, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (fs_entry_is_dir(&stat.entry))
        return err_set(ctx->err, RC_REPLY, "ISDIR a directory has no blocks");
    uint64_t all = fs_block_count(&stat.entry), first = (uint64_t)from;
    uint64_t end = first >= all ? first : all - first < (uint64_t)max ? all : first + (uint64_t)max;
    resp_add_array(ctx->reply, 2);
    if (end < all)
        resp_add_int(ctx->reply, (int64_t)end);
    else
        resp_add_null(ctx->reply);
    resp_add_array(ctx->reply, end - first);
    for (uint64_t i = first; i < end; i++) {
        uint64_t left = stat.entry.size - i * stat.entry.block_size;
        resp_add_array(ctx->reply, 2);
        resp_add_uint(ctx->reply, fs_block_id(stat.id, i));
        resp_add_int(ctx->reply,
                     (int64_t)(left < stat.entry.block_size ? left : stat.entry.block_size));
    }
    return RC_OK;
}
