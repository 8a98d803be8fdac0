// SPDX-License-Identifier: Apache-2.0
/* tile.c - terrace tile: its subcommands and their options. */
#include "cli/tile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/banned.h"

enum { SAMPLE_LEVELS = 4, SAMPLE_LEVELS_MAX = 10 };

static const struct {
    const char *name;
    int (*run)(const struct tile_options *options);
    bool has_type;
} subs[] = {
    {"import", tile_import, true},
    {"export", tile_export, true},
    {"verify", tile_verify, true},
    {"sample", tile_sample, false},
};

void cli_tile_help(void)
{
    printf(
        "  terrace tile import SOURCE TYPE [options]   MBTiles, or a directory z/x/y.ext, into a "
        "type\n"
        "  terrace tile export DEST TYPE [options]     to FILE.mbtiles, or a directory\n"
        "  terrace tile verify SOURCE TYPE [options]   whether all tiles of the source are there\n"
        "  terrace tile sample DIR [--levels N]        makes a small map to play with: 0 to N, "
        "or 4\n"
        "      options: -h -p -s -a --user --db as above;\n"
        "      --bbox W,S,E,N and --levels A-B take a part; --rows tms: rows of directories count "
        "from\n"
        "      the south; --header fixed|kv: the data of the source has one of these headers;\n"
        "      --epoch N --provider N: of all tiles; --tm MS: their time, for type tm;\n"
        "      --again: from the start, not where the last run stopped; --sync: until it is in "
        "shards\n");
}

size_t tile_key_of(const struct tile_options *options, struct tile_xyz place,
                   char to[TILEKEY_TEXT_BYTES])
{
    uint64_t packed = 0;
    struct err err;
    enum rc rc = tilekey_from_xyz(place, TILE_ROWS_TMS, &packed, &err);
    ASSERT(rc == RC_OK); /* sources give places that exist */
    size_t len = tilekey_print(packed, to);
    if (options->ms)
        len += (size_t)snprintf(to + len, TILEKEY_TEXT_BYTES - len, ":%s", options->ms);
    return len;
}

const char *tile_size_text(char to[32], uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t at = 0;
    for (; value >= 1000 && at + 1 < ARRAY_LEN(unit); at++)
        value /= 1000;
    snprintf(to, 32, at == 0 ? "%.0f %s" : "%.1f %s", value, unit[at]);
    return to;
}

bool tile_value_of_source(const struct tile_options *options, struct bytes data,
                          struct tile_value *ret_value)
{
    struct err ignored;
    switch (options->header) {
    case TILE_HEADER_NONE:
        *ret_value = (struct tile_value){.epoch = strtoull(options->epoch, NULL, 10),
                                         .provider = strtoull(options->provider, NULL, 10),
                                         .data = data};
        return true;
    case TILE_HEADER_FIXED:
        return tile_value_decode_fixed(data, ret_value);
    case TILE_HEADER_KV:
        return tile_value_decode(data, ret_value, &ignored) == RC_OK;
    }
    return false;
}

/* ---- the database ---- */

/* TILE.STATS of a type is a map; one of its fields is the number of its database. */
static enum rc db_select(struct link *link, const char *type, struct err *err)
{
    const char *const stats[] = {"TILE.STATS", type};
    struct reply reply;
    char db[24] = "";
    bool is_next = false;
    enum rc rc = link_ask(link, stats, ARRAY_LEN(stats), &reply, err);
    for (int64_t i = rc == RC_OK ? reply.number : 0; i > 0 && rc == RC_OK; i--) {
        rc = link_reply(link, &reply, err);
        if (rc == RC_OK && is_next && reply.kind == REPLY_INT)
            (void)snprintf(db, sizeof db, "%lld", (long long)reply.number);
        is_next = rc == RC_OK && reply.kind == REPLY_BULK && bytes_eq(reply.text, BYTES("db"));
    }
    if (rc != RC_OK)
        return rc;
    if (!db[0])
        return err_set(err, RC_VERSION, "the server does not say which database type %s has", type);
    const char *const select[] = {"SELECT", db};
    return link_ask(link, select, ARRAY_LEN(select), &reply, err);
}

enum rc tile_link_open(struct link *link, const struct tile_options *options, struct err *err)
{
    enum rc rc = link_open(link, &options->server, err);
    return rc == RC_OK ? db_select(link, options->type, err) : rc;
}

/* ---- arguments ---- */

static bool number_is_good(const char *text)
{
    char *end;
    return *text >= '0' && *text <= '9' && strlen(text) < 20 && (strtoull(text, &end, 10), !*end);
}

/* RC_NOT_FOUND: there is no such option. */
static enum rc option_take(struct tile_options *options, const char *name, const char *value,
                           bool is_sample, struct err *err)
{
    bool good = true;
    if (strcmp(name, "--bbox") == 0)
        return tile_filter_bbox(&options->filter, value, err);
    if (strcmp(name, "--levels") == 0 && !is_sample)
        return tile_filter_levels(&options->filter, value, err);
    if (strcmp(name, "--levels") == 0) {
        good = number_is_good(value) && strlen(value) < 3;
        options->levels = good ? (unsigned)strtoul(value, NULL, 10) : 0;
        if (!good || options->levels > SAMPLE_LEVELS_MAX)
            return err_set(err, RC_INVALID, "--levels of a sample is 0 to %d", SAMPLE_LEVELS_MAX);
        return RC_OK;
    }
    if (strcmp(name, "--rows") == 0) {
        options->rows = strcmp(value, "tms") == 0 ? TILE_ROWS_TMS : TILE_ROWS_XYZ;
        good = options->rows == TILE_ROWS_TMS || strcmp(value, "xyz") == 0;
    } else if (strcmp(name, "--header") == 0) {
        options->header = strcmp(value, "fixed") == 0 ? TILE_HEADER_FIXED
                          : strcmp(value, "kv") == 0  ? TILE_HEADER_KV
                                                      : TILE_HEADER_NONE;
        good = options->header != TILE_HEADER_NONE || strcmp(value, "none") == 0;
    } else if (strcmp(name, "--epoch") == 0) {
        options->epoch = value;
        good = number_is_good(value);
    } else if (strcmp(name, "--provider") == 0) {
        options->provider = value;
        good = number_is_good(value);
    } else if (strcmp(name, "--tm") == 0) {
        options->ms = value;
        good = number_is_good(value);
    } else if (!cli_server_option(&options->server, name, value)) {
        return RC_NOT_FOUND;
    }
    return good ? RC_OK : err_set(err, RC_INVALID, "%s cannot be %s", name, value);
}

static enum rc args_parse(struct tile_options *options, int argc, char **argv, bool has_type,
                          struct err *err)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--again") == 0) {
            options->again = true;
        } else if (strcmp(argv[i], "--sync") == 0) {
            options->sync = true;
        } else if (argv[i][0] != '-' && !options->path) {
            options->path = argv[i];
        } else if (argv[i][0] != '-' && has_type && !options->type) {
            options->type = argv[i];
        } else {
            enum rc rc = i + 1 < argc ? option_take(options, argv[i], argv[i + 1], !has_type, err)
                                      : RC_NOT_FOUND;
            if (rc == RC_NOT_FOUND)
                return err_set(err, RC_INVALID, "\"%s\" is not understood; try: terrace help",
                               argv[i]);
            if (rc != RC_OK)
                return rc;
            i++;
        }
    }
    if (!options->path || (has_type && !options->type))
        return err_set(err, RC_INVALID, "a path%s is missing; try: terrace help",
                       has_type ? " or a type" : "");
    return RC_OK;
}

int cli_tile(int argc, char **argv)
{
    struct tile_options options = {.filter.level_to = TILE_LEVEL_MAX,
                                   .rows = TILE_ROWS_XYZ,
                                   .epoch = "0",
                                   .provider = "0",
                                   .levels = SAMPLE_LEVELS};
    struct err err = {0};
    cli_server_init(&options.server);
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(subs); i++) {
        if (strcmp(argv[1], subs[i].name) != 0)
            continue;
        if (args_parse(&options, argc - 2, argv + 2, subs[i].has_type, &err) != RC_OK)
            return cli_fail("%s", err.text);
        return subs[i].run(&options);
    }
    return cli_fail("terrace tile import, export, verify or sample; try: terrace help");
}
