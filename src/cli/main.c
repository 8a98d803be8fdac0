// SPDX-License-Identifier: Apache-2.0
/* main.c - terrace: looks into, repairs, saves and restores directories, and talks to a server. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/version.h"
#include "cli/cli.h"

#include "base/banned.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *args;
    const char *help;
} subs[] = {
    {"inspect", cli_inspect, "DIR [--segment N] [--frames] [--rows SPACE] [--key KEY]",
     "what is in a directory; nothing is written"},
    {"repair", cli_repair, "DIR", "make a damaged journal whole; what is damaged goes to DIR/lost"},
    {"backup", cli_backup, "DIR DEST", "a copy of a stopped store"},
    {"restore", cli_restore, "SRC DEST", "a new directory from a backup, checked"},
};

static const struct {
    const char *name;
    const char *group;
    const char *since;
    const char *syntax;
    const char *complexity;
    const char *summary;
} commands[] = {
#define CMD(name, arity, flags, first, last, step, numkeys, handler, group, since, complexity, \
            syntax, summary)                                                                   \
    {name, group, since, syntax, complexity, summary},
#include "server/commands.def"
#undef CMD
};

int cli_fail(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("terrace: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return 1;
}

static int help(void)
{
    printf("terrace - the tool of Terrace, a tiered store that speaks Redis\n\n"
           "On the directory of a stopped store:\n");
    for (size_t i = 0; i < ARRAY_LEN(subs); i++)
        printf("  terrace %-8s %s\n                   %s\n", subs[i].name, subs[i].args,
               subs[i].help);
    printf(
        "\nOn a running server (default 127.0.0.1, port 7379, database 0):\n"
        "  terrace [-h HOST] [-p PORT] [-s SOCKET] [-a PASSWORD] [--user NAME] [--db DB]\n"
        "      [COMMAND [ARG]...]\n"
        "      prints the reply as redis-cli does; exit code 1: it is an error. SUBSCRIBE,\n"
        "      PSUBSCRIBE, SSUBSCRIBE and MONITOR print what comes, until Ctrl-C or the server's\n"
        "      end. Here -n DB is --db DB as well, and -3 asks for the replies of RESP3.\n"
        "      Without a command each line of standard input is one, all on one connection\n"
        "  terrace ping|info [the same options]\n"
        "  terrace bench [the same options] [-c 50] [-P 16] [-n 100000] [-d 64] [-r 100000] "
        "[TEST,...]\n"
        "      requests a second and latencies, with -c connections, -P requests in a batch,\n"
        "      -n requests a test, values of -d bytes and -r different keys, \"bench:...\"; "
        "without\n"
        "      -c and -P, of few requests no more than a 20th is under way at a time;\n"
        "      all of these tests, or some: ");
    cli_bench_tests_print();
    putchar('\n');
    cli_tile_help();
    cli_fs_help();
    cli_part_help();
    printf("  The environment variable TERRACE_AUTH gives the password as well, and no list of\n"
           "  processes shows it; -a comes before it.\n"
           "\nCommands of this server:\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf("  %s %s\n      %s\n", commands[i].name, commands[i].syntax, commands[i].summary);
    printf("\n  inspect --key takes a key as text, or its bytes as 0x and hex digits; exit code 1: "
           "there is\n  no such key. terrace --version tells the version.\n");
    return 0;
}

static bool group_is_new(size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(commands[i].group, commands[at].group) == 0)
            return false;
    return true;
}

static void row_print(size_t at)
{
    printf("| ");
    for (const char *c = commands[at].name; *c; c++)
        putchar(*c == '|' ? ' ' : *c);
    printf(" | ");
    for (const char *c = commands[at].syntax; *c; c++)
        printf(*c == '|' ? "\\|" : "%c", *c);
    printf(" | %s | %s | %s |\n", commands[at].summary, commands[at].complexity,
           commands[at].since);
}

/* docs/commands.md; a test compares. */
static int help_markdown(void)
{
    printf(
        "# Commands\n\n"
        "Made by `terrace help --markdown` from `src/server/commands.def`; do not edit.\n"
        "Replies and errors are those of Redis 7.0 unless [redis.md](redis.md) says otherwise.\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (!group_is_new(i))
            continue;
        printf("\n## %s\n\n| command | arguments | what | cost | since |\n|---|---|---|---|---|\n",
               commands[i].group);
        for (size_t k = i; k < ARRAY_LEN(commands); k++)
            if (strcmp(commands[k].group, commands[i].group) == 0)
                row_print(k);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("terrace %s\n", TERRACE_VERSION);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "--markdown") == 0)
        return help_markdown();
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)
        return help();
    for (size_t i = 0; i < ARRAY_LEN(subs); i++)
        if (strcmp(argv[1], subs[i].name) == 0)
            return subs[i].run(argc - 1, argv + 1);
    if (strcmp(argv[1], "bench") == 0)
        return cli_bench(argc - 1, argv + 1);
    if (strcmp(argv[1], "tile") == 0)
        return cli_tile(argc - 1, argv + 1);
    if (strcmp(argv[1], "fs") == 0)
        return cli_fs(argc - 1, argv + 1);
    if (strcmp(argv[1], "part") == 0)
        return cli_part(argc - 1, argv + 1);
    return cli_client(argc - 1, argv + 1);
}
