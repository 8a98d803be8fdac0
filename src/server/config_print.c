// SPDX-License-Identifier: Apache-2.0
/* config_print.c - the table for people: --help, docs/configuration.md, terrace.conf.example. */
#include <ctype.h>

#include "server/config_int.h"

#include "base/banned.h"

enum { HELP_COLUMN = 36, HELP_WIDTH = 100, EXAMPLE_WIDTH = 98, RANGE_BYTES = 96 };

/* "always, everysec, no" where there is a choice, the kind otherwise. No | in it: it stands in a
 * table. */
static void value_print(const struct option *row, FILE *to)
{
    if (row->kind == &option_bool || row->kind == &option_fixed)
        fputs(row->kind == &option_bool ? "yes, no" : "only this one", to);
    else if (row->kind != &option_word)
        fputs(row->kind->value, to);
    for (size_t i = 0; row->words && row->words[i]; i++)
        fprintf(to, "%s%s", i ? ", " : "", row->words[i]);
}

static const char *live_text(const struct option *row)
{
    if (row->kind == &option_fixed)
        return "";
    return row->live ? "yes" : "no";
}

static void start_text(const struct option *row, struct buf *to)
{
    bool many = row->kind->many && *row->start;
    buf_cut(to, 0);
    if (many) /* spaces separate its words */
        option_add(to, "%s", row->start);
    else
        option_word_quote(bytes_of(row->start, strlen(row->start)), to);
    option_add(to, "%c", 0);
}

/* A number as people write it, which leaves out the bounds that are only those of its type. */
static void range_text(const struct option *row, char text[RANGE_BYTES])
{
    static const struct {
        const char *name;
        int64_t bytes;
    } unit[] = {{"tb", INT64_C(1) << 40}, {"gb", 1 << 30}, {"mb", 1 << 20}, {"", 1}};
    text[0] = 0;
    if (row->kind == &option_int && row->max < INT32_MAX)
        snprintf(text, RANGE_BYTES, "%lld to %lld", (long long)row->min, (long long)row->max);
    else if (row->kind == &option_int && row->min > INT32_MIN)
        snprintf(text, RANGE_BYTES, "from %lld", (long long)row->min);
    else if (row->kind == &option_time)
        snprintf(text, RANGE_BYTES, "%lldms to %llds", (long long)row->min,
                 (long long)row->max / 1000);
    else if (row->kind == &option_size && row->min > 0)
        for (size_t i = 0; i < ARRAY_LEN(unit) && !text[0]; i++)
            if (row->max % unit[i].bytes == 0)
                snprintf(text, RANGE_BYTES, "1mb to %lld%s", (long long)(row->max / unit[i].bytes),
                         unit[i].name);
}

/* Words up to `width` columns; lines after the first begin with `indent`. */
static void wrap_print(const char *text, int column, int width, const char *indent, FILE *to)
{
    bool first = true;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (!first && column + 1 + len > width) {
            fprintf(to, "\n%s", indent);
            column = (int)strlen(indent);
            first = true;
        }
        fprintf(to, "%s%.*s", first ? "" : " ", len, text);
        column += len + (first ? 0 : 1);
        first = false;
        text += len;
        text += *text == ' ';
    }
    fputs("\n", to);
}

/* ---- --help ---- */

static void help_row_print(const struct option *row, struct buf *start, FILE *to)
{
    char indent[HELP_COLUMN + 1];
    memset(indent, ' ', HELP_COLUMN);
    indent[HELP_COLUMN] = 0;

    int column = fprintf(to, "  --%s ", row->name);
    column += fprintf(to, "%s", row->kind->value);
    if (column >= HELP_COLUMN)
        fprintf(to, "\n%s", indent);
    else
        fprintf(to, "%*s", HELP_COLUMN - column, "");
    char text[512];
    start_text(row, start);
    snprintf(text, sizeof text, "%s (%s)", row->help, (const char *)start->ptr);
    wrap_print(text, HELP_COLUMN, HELP_WIDTH, indent, to);
}

static void help_print(FILE *to)
{
    const struct option *row;
    const char *group = "";
    struct buf start;

    fprintf(to, "terraced - a tiered store that speaks Redis\n\n"
                "usage: terraced [FILE | -] [--name value ...] [-]\n\n"
                "FILE holds the same options, a line each: \"name value\". - reads them from\n"
                "standard input. The command line comes last, and the later wins.\n"
                "Defaults are in brackets.\n");
    buf_init(&start, CONFIG_VALUE_BYTES_MAX);
    for (size_t i = 0; (row = config__row(i)) && !config__row_is_redis_only(row); i++) {
        if (strcmp(row->group, group) != 0)
            fprintf(to, "\n%s:\n", row->group);
        group = row->group;
        help_row_print(row, &start, to);
    }
    buf_done(&start);
    fprintf(to, "\n  --help, --version\n\n"
                "Sizes are bytes, or have a unit as in Redis: 1k is 1000, 1kb is 1024; mb, gb.\n"
                "Options of Redis that are not listed mean nothing here; docs/configuration.md\n"
                "says which are taken, and more about all of them.\n");
}

/* ---- docs/configuration.md ---- */

static void markdown_row_print(const struct option *row, struct buf *start, FILE *to)
{
    char range[RANGE_BYTES];
    range_text(row, range);
    start_text(row, start);
    fprintf(to, "| `%s`", row->name);
    if (row->alias)
        fprintf(to, "<br>`%s`", row->alias);
    fputs(" | ", to);
    value_print(row, to);
    if (range[0])
        fprintf(to, ", %s", range);
    fprintf(to, " | `%s` | %s | %s |\n", (const char *)start->ptr, live_text(row), row->help);
}

static void markdown_print(FILE *to)
{
    const struct option *row;
    const char *group = "";
    struct buf start;

    fputs("# Configuration\n\n"
          "<!-- Made by `terraced --help-markdown` from src/server/config_table.c. -->\n\n"
          "    terraced [FILE | -] [--name value ...] [-]\n\n"
          "Every option can stand in a file, on the command line, or in both; the command line\n"
          "wins. `-` reads lines from standard input, after the file. A line of a file is a name\n"
          "and its value; `#` begins a comment line; `include FILE` reads another file in its\n"
          "place. Values with spaces are quoted as in Redis: `\"a \\\"b\\\" \\x41\\n\"` or "
          "`'a b'`.\n"
          "[terrace.conf.example](../terrace.conf.example) has all of them with their defaults.\n\n"
          "`CONFIG GET` shows every option, `CONFIG SET` changes those with \"yes\" in the column\n"
          "\"live\", and `CONFIG REWRITE` puts what was changed into the file: comments, order "
          "and\n"
          "lines that are still right stay as they are.\n\n"
          "SIZE is a number of bytes, or has a unit as in Redis: `1k` is 1000, `1kb` is 1024; "
          "`m`,\n"
          "`mb`, `g`, `gb`. TIME is `60s` or `500ms`. A second name is Redis's: both work "
          "everywhere.\n"
          "Redis's other options are in the last two tables: those that change nothing are taken\n"
          "with every value that Redis takes, those that ask for something that is not here with\n"
          "one value. What is in no table (loadmodule, rename-command, user) is refused as "
          "unknown.\n",
          to);
    buf_init(&start, CONFIG_VALUE_BYTES_MAX);
    for (size_t i = 0; (row = config__row(i)); i++) {
        if (strcmp(row->group, group) != 0)
            fprintf(to,
                    "\n## %s\n\n| option | value | default | live | what it is |\n"
                    "|---|---|---|---|---|\n",
                    row->group);
        group = row->group;
        markdown_row_print(row, &start, to);
    }
    buf_done(&start);
}

/* ---- terrace.conf.example ---- */

static void example_print(FILE *to)
{
    const struct option *row;
    const char *group = "";
    struct buf start;

    fputs("# Every option of terraced with its default, without those of Redis that mean nothing\n"
          "# here. Made by `terraced --help-example`.\n"
          "# Start it with: terraced FILE\n",
          to);
    buf_init(&start, CONFIG_VALUE_BYTES_MAX);
    for (size_t i = 0; (row = config__row(i)) && !config__row_is_redis_only(row); i++) {
        if (strcmp(row->group, group) != 0)
            fprintf(to, "\n# ---- %s ----\n", row->group);
        group = row->group;
        fprintf(to, "\n# %c", toupper((unsigned char)row->help[0]));
        wrap_print(row->help + 1, 3, EXAMPLE_WIDTH, "# ", to);
        start_text(row, &start);
        fprintf(to, "#%s %s\n", row->name, (const char *)start.ptr);
    }
    buf_done(&start);
}

void config_print(enum config_wish wish, FILE *to)
{
    switch (wish) {
    case CONFIG_WISH_HELP:
        help_print(to);
        return;
    case CONFIG_WISH_MARKDOWN:
        markdown_print(to);
        return;
    case CONFIG_WISH_EXAMPLE:
        example_print(to);
        return;
    case CONFIG_WISH_RUN:
    case CONFIG_WISH_VERSION:
        return;
    }
}
