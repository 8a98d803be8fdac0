// SPDX-License-Identifier: Apache-2.0
/* fs.c - terrace fs: the file system of a server, as one knows it from a shell. */
#include "cli/fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

enum { ARGS_MAX = 4, WORDS_MAX = 8, TEXT_DEPTH_MAX = 256 };

struct fs_cli {
    struct link link;
    struct arena arena; /* of replies */
    struct err err;
    const char *arg[ARGS_MAX]; /* what is no option */
    size_t arg_count;
    bool long_list, recursive, replace, repair;
    const char *depth;
};

/* ---- printing ---- */

void fs_size_text(uint64_t bytes, char to[FS_SIZE_TEXT_BYTES])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t i = 0;
    for (; value >= 1024 && i + 1 < sizeof unit / sizeof unit[0]; i++)
        value /= 1024;
    snprintf(to, FS_SIZE_TEXT_BYTES, i == 0 ? "%.0f %s" : "%.1f %s", value, unit[i]);
}

void fs_name_print(struct bytes name)
{
    bool is_text = true;
    for (size_t i = 0; i < name.len; i++)
        is_text = is_text && name.ptr[i] >= ' ' && name.ptr[i] != 0x7f;
    for (size_t i = 0; i < name.len; i++) {
        if (!is_text && (name.ptr[i] < ' ' || name.ptr[i] >= 0x7f || name.ptr[i] == '\\'))
            printf("\\x%02x", name.ptr[i]);
        else
            putchar(name.ptr[i]);
    }
}

static uint64_t field_int(const struct value *map, const char *label)
{
    const struct value *field = value_field(map, label);
    return field ? (uint64_t)field->number : 0;
}

static struct bytes field_text(const struct value *map, const char *label)
{
    const struct value *field = value_field(map, label);
    return field ? field->text : bytes_of("", 0);
}

static bool is_dir(const struct value *map)
{
    return bytes_eq(field_text(map, "type"), BYTES("directory"));
}

static void time_print(uint64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char text[32] = "-";
    if (localtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    printf("%s", text);
}

static int failed(struct fs_cli *cli)
{
    return cli_fail("%s", cli->err.text);
}

/* ---- ls ---- */

static void line_print(const struct value *map)
{
    struct bytes owner = field_text(map, "owner"), group = field_text(map, "group");
    struct bytes mode = field_text(map, "mode");
    bool complete = field_int(map, "complete") != 0;
    printf("%c%c %.*s %-8.*s %-8.*s %12" PRIu64 " ", is_dir(map) ? 'd' : '-', complete ? ' ' : '*',
           (int)mode.len, (const char *)mode.ptr, owner.len ? (int)owner.len : 1,
           owner.len ? (const char *)owner.ptr : "-", group.len ? (int)group.len : 1,
           group.len ? (const char *)group.ptr : "-", field_int(map, "size"));
    time_print(field_int(map, "modified"));
    putchar(' ');
    fs_name_print(field_text(map, "name"));
    printf("%s\n", is_dir(map) ? "/" : "");
}

static int run_ls(struct fs_cli *cli)
{
    struct bytes word[WORDS_MAX] = {BYTES("FS.LS"), fs_text(cli->arg_count ? cli->arg[0] : "/"),
                                    BYTES("FROM"), BYTES(""), BYTES("STAT")};
    size_t count = cli->long_list ? 5 : 4;
    CLEANUP(buf_done) struct buf next;
    buf_init(&next, SIZE_MAX);
    for (;;) {
        struct value reply;
        arena_clear(&cli->arena);
        if (value_ask(&cli->link, word, count, &cli->arena, &reply, &cli->err) != RC_OK)
            return failed(cli);
        if (reply.item_count != 2)
            return cli_fail("an answer that is not understood");
        for (size_t i = 0; i < reply.item[1].item_count; i++) {
            if (cli->long_list) {
                line_print(&reply.item[1].item[i]);
            } else {
                fs_name_print(reply.item[1].item[i].text);
                putchar('\n');
            }
        }
        if (reply.item[0].kind != REPLY_BULK)
            return 0;
        buf_cut(&next, 0);
        if (!buf_add_bytes(&next, reply.item[0].text))
            return cli_fail("out of memory");
        word[3] = buf_bytes(&next);
    }
}

/* ---- tree ---- */

struct tree_line {
    uint64_t depth;
    bool is_last; /* nothing of its directory comes behind it */
};

/* From behind: the first line of a depth that is met, until a shallower one, is the last. */
static void lasts_find(const struct value *reply, struct tree_line *line)
{
    CLEANUP(buf_done) struct buf seen; /* a byte a depth */
    buf_init(&seen, SIZE_MAX);
    for (size_t i = reply->item_count; i-- > 0;) {
        uint64_t depth = (uint64_t)reply->item[i].item[0].number;
        line[i].depth = depth;
        line[i].is_last = depth >= seen.len || seen.ptr[depth] == 0;
        while (seen.len <= depth)
            if (!buf_add(&seen, "", 1))
                return;
        seen.ptr[depth] = 1;
        buf_cut(&seen, depth + 1);
    }
}

static void tree_line_print(const struct value *line)
{
    char size[FS_SIZE_TEXT_BYTES];
    const struct value *item = line->item;
    fs_size_text((uint64_t)item[3].number, size);
    fs_name_print(item[1].text);
    if (bytes_eq(item[2].text, BYTES("directory")))
        printf("%s  (%s, %" PRId64 " files)\n", bytes_eq(item[1].text, BYTES("/")) ? "" : "/", size,
               item[4].number);
    else
        printf("  (%s)\n", size);
}

static int run_tree(struct fs_cli *cli)
{
    struct bytes word[WORDS_MAX] = {BYTES("FS.TREE"), fs_text(cli->arg_count ? cli->arg[0] : "/"),
                                    BYTES("DEPTH"), fs_text(cli->depth ? cli->depth : "")};
    struct value reply;
    if (value_ask(&cli->link, word, cli->depth ? 4 : 2, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    struct tree_line *line = mem_alloc((reply.item_count + 1) * sizeof *line);
    bool open[TEXT_DEPTH_MAX] = {false}; /* a bar goes on at this depth */
    lasts_find(&reply, line);
    for (size_t i = 0; i < reply.item_count; i++) {
        uint64_t depth = line[i].depth;
        for (uint64_t d = 1; d < depth && d < TEXT_DEPTH_MAX; d++)
            printf("%s", open[d] ? "│   " : "    ");
        if (depth > 0)
            printf("%s", line[i].is_last ? "└── " : "├── ");
        if (depth < TEXT_DEPTH_MAX)
            open[depth] = !line[i].is_last;
        tree_line_print(&reply.item[i]);
    }
    if (reply.item_count > 0)
        printf("\n%" PRId64 " directories, %" PRId64 " files, %" PRId64 " bytes\n",
               reply.item[0].item[5].number, reply.item[0].item[4].number,
               reply.item[0].item[3].number);
    mem_free(line);
    return 0;
}

/* ---- the others ---- */

static void map_print(const struct value *reply)
{
    for (size_t i = 0; i + 1 < reply->item_count; i += 2) {
        const struct value *value = &reply->item[i + 1];
        printf("%.*s: ", (int)reply->item[i].text.len, (const char *)reply->item[i].text.ptr);
        if (value->kind == REPLY_INT)
            printf("%" PRId64, value->number);
        else
            fs_name_print(value->text);
        for (size_t k = 0; k < value->item_count; k++) {
            printf("\n  ");
            fs_name_print(value->item[k].text);
        }
        putchar('\n');
    }
}

static int run_stat(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.STAT"), fs_text(cli->arg[0])};
    struct value reply;
    if (value_ask(&cli->link, word, 2, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    map_print(&reply);
    return 0;
}

static int run_du(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.DU"), fs_text(cli->arg_count ? cli->arg[0] : "/")};
    struct value reply;
    char size[FS_SIZE_TEXT_BYTES];
    if (value_ask(&cli->link, word, 2, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    fs_size_text(field_int(&reply, "bytes"), size);
    printf("%" PRIu64 " bytes (%s), %" PRIu64 " files, %" PRIu64 " directories\n",
           field_int(&reply, "bytes"), size, field_int(&reply, "files"),
           field_int(&reply, "directories"));
    return 0;
}

static int run_find(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.FIND"), fs_text(cli->arg[0]), fs_text(cli->arg[1])};
    struct value reply;
    if (value_ask(&cli->link, word, 3, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    for (size_t i = 0; i < reply.item_count; i++) {
        fs_name_print(reply.item[i].text);
        putchar('\n');
    }
    return 0;
}

static int run_mv(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.MV"), fs_text(cli->arg[0]), fs_text(cli->arg[1]),
                           BYTES("REPLACE")};
    struct value reply;
    if (value_ask(&cli->link, word, cli->replace ? 4 : 3, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    return 0;
}

static int run_rm(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.RM"), fs_text(cli->arg[0]), BYTES("RECURSIVE")};
    struct value reply;
    if (value_ask(&cli->link, word, cli->recursive ? 3 : 2, &cli->arena, &reply, &cli->err) !=
        RC_OK)
        return failed(cli);
    return 0;
}

static int run_check(struct fs_cli *cli)
{
    struct bytes word[] = {BYTES("FS.CHECK"), BYTES("REPAIR")};
    struct value reply;
    if (value_ask(&cli->link, word, cli->repair ? 2 : 1, &cli->arena, &reply, &cli->err) != RC_OK)
        return failed(cli);
    map_print(&reply);
    return field_int(&reply, "left") > 0 ? 1 : 0;
}

static int run_import(struct fs_cli *cli)
{
    return fs_import(&cli->link, cli->arg[0], cli->arg_count > 1 ? cli->arg[1] : "/");
}

/* ---- words ---- */

static const struct sub {
    const char *name;
    int (*run)(struct fs_cli *cli);
    size_t arg_min, arg_max;
    const char *args, *help;
} subs[] = {
    {"ls", run_ls, 0, 1, "[-l] [PATH]",
     "names of a directory; -l with attributes, * is incomplete"},
    {"tree", run_tree, 0, 1, "[-d DEPTH] [PATH]", "a subtree with totals"},
    {"stat", run_stat, 1, 1, "PATH|ID", "attributes"},
    {"du", run_du, 0, 1, "[PATH]", "bytes, files and directories"},
    {"find", run_find, 2, 2, "PATH PATTERN", "paths whose name is like the pattern"},
    {"mv", run_mv, 2, 2, "[--replace] SOURCE DESTINATION", "move or rename"},
    {"rm", run_rm, 1, 1, "[-r] PATH", "remove; -r with everything in it"},
    {"import", run_import, 1, 2, "DIR [PATH]",
     "the names, sizes, modes, owners and times of a directory"},
    {"check", run_check, 0, 0, "[--repair]", "whether all rows fit together; exit code 1: no"},
};

void cli_fs_help(void)
{
    for (size_t i = 0; i < ARRAY_LEN(subs); i++)
        printf("  terrace fs %s %s\n      %s\n", subs[i].name, subs[i].args, subs[i].help);
}

static bool option_take(struct fs_cli *cli, char **argv, int argc, int *at)
{
    const char *word = argv[*at];
    if (strcmp(word, "-l") == 0)
        cli->long_list = true;
    else if (strcmp(word, "-r") == 0)
        cli->recursive = true;
    else if (strcmp(word, "--replace") == 0)
        cli->replace = true;
    else if (strcmp(word, "--repair") == 0)
        cli->repair = true;
    else if (strcmp(word, "-d") == 0 && *at + 1 < argc)
        cli->depth = argv[++*at];
    else
        return false;
    return true;
}

/* fs [options] SUB [options and arguments] */
int cli_fs(int argc, char **argv)
{
    struct fs_cli cli = {.link = {.fd = -1}};
    struct cli_server server;
    const struct sub *sub = NULL;
    cli_server_init(&server);
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && cli_server_option(&server, argv[i], argv[i + 1])) {
            i++;
        } else if (sub && option_take(&cli, argv, argc, &i)) {
            continue;
        } else if (!sub) {
            for (size_t k = 0; k < ARRAY_LEN(subs); k++)
                if (strcmp(argv[i], subs[k].name) == 0)
                    sub = &subs[k];
            if (!sub)
                return cli_fail("\"%s\" is nothing of terrace fs; try: terrace help", argv[i]);
        } else if (cli.arg_count < ARGS_MAX) {
            size_t len = strlen(argv[i]);
            while (len > 1 && argv[i][len - 1] == '/') /* a shell's completion adds them */
                argv[i][--len] = 0;
            cli.arg[cli.arg_count++] = argv[i];
        }
    }
    if (!sub)
        return cli_fail("a word is missing; try: terrace help");
    if (cli.arg_count < sub->arg_min || cli.arg_count > sub->arg_max)
        return cli_fail("usage: terrace fs %s %s", sub->name, sub->args);
    if (link_open(&cli.link, &server, &cli.err) != RC_OK)
        return failed(&cli);
    arena_init(&cli.arena);
    int code = sub->run(&cli);
    arena_done(&cli.arena);
    link_close(&cli.link);
    return code;
}
