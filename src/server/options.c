#include "server/options.h"

#include <string.h>
#include <strings.h>

#include "base/bytes.h"

#include "base/banned.h"

static const char *const durability_names[] = {
    [DURABILITY_ALWAYS] = "always", [DURABILITY_EVERYSEC] = "everysec", [DURABILITY_NO] = "no"};

const char *durability_name(enum durability durability)
{
    return durability_names[durability];
}

static bool digits_parse(const char **text, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (**text < '0' || **text > '9')
        return false;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        if (number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(**text - '0');
    }
    *ret_number = number;
    return true;
}

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } unit[] = {{"", 1},        {"b", 1},        {"k", 1000},       {"kb", 1024},
                {"m", 1000000}, {"mb", 1 << 20}, {"g", 1000000000}, {"gb", 1 << 30}};
    uint64_t number;
    if (!digits_parse(&text, &number))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(unit); i++)
        if (strcasecmp(text, unit[i].name) == 0)
            return !__builtin_mul_overflow(number, unit[i].bytes, ret_bytes);
    return false;
}

/* ---- values: false is a wrong one ---- */

static bool set_port(struct options *options, const char *value)
{
    uint64_t number;
    if (!digits_parse(&value, &number) || *value || number > UINT16_MAX)
        return false;
    options->port = (uint16_t)number;
    return true;
}

static bool set_bind(struct options *options, const char *value)
{
    options->bind = value;
    return *value != 0;
}

static bool set_dir(struct options *options, const char *value)
{
    options->dir = value;
    return *value != 0;
}

static bool set_hot_memory(struct options *options, const char *value)
{
    enum { HOT_MEMORY_BYTES_MIN = 1024 * 1024 };
    uint64_t bytes;
    if (!size_parse(value, &bytes) || bytes < HOT_MEMORY_BYTES_MIN || bytes > SIZE_MAX / 2)
        return false;
    options->hot_memory_bytes = (size_t)bytes;
    return true;
}

static bool set_durability(struct options *options, const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(durability_names); i++) {
        if (strcasecmp(value, durability_names[i]) == 0) {
            options->durability = (enum durability)i;
            return true;
        }
    }
    return false;
}

static bool set_disk_reserve(struct options *options, const char *value)
{
    return size_parse(value, &options->disk_reserve_bytes);
}

/* The engine in memory is for tests: what is flushed to it would be lost with the process. */
static bool set_engine(struct options *options, const char *value)
{
    options->engine = engine_find(value);
    return options->engine && options->engine != &engine_memory_ops;
}

/* ---- the table ---- */

static const struct option_row {
    const char *name;
    const char *value; /* what stands behind it in --help */
    const char *start; /* the default */
    bool (*set)(struct options *options, const char *value);
    const char *help;
} option_rows[] = {
    {"--port", "N", "7379", set_port, "TCP port; 0 takes a free one"},
    {"--bind", "ADDR", "127.0.0.1", set_bind, "address to listen on"},
    {"--dir", "DIR", "./data", set_dir, "where the data is; made if it is missing"},
    {"--hot-memory", "SIZE", "1gb", set_hot_memory, "memory for hot data, at least 1mb"},
    {"--durability", "MODE", "everysec", set_durability,
     "always: a reply means on disk; everysec: synced every second; no: when the system likes"},
    {"--disk-reserve", "SIZE", "1gb", set_disk_reserve,
     "kept free on disk; below it only deleting commands run"},
    {"--engine", "NAME", "rocksdb", set_engine, "what holds the data on disk: rocksdb"},
};

void options_init(struct options *options)
{
    *options = (struct options){0};
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++) {
        bool good = option_rows[i].set(options, option_rows[i].start);
        ASSERT(good);
    }
}

static enum rc option_set(struct options *options, const char *name, const char *value,
                          struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        if (strcmp(row->name, name) != 0)
            continue;
        if (!value)
            return err_set(err, RC_INVALID, "option %s needs a value: %s %s", name, name,
                           row->value);
        if (!row->set(options, value))
            return err_set(err, RC_INVALID, "option %s does not understand \"%s\" (%s)", name,
                           value, row->help);
        return RC_OK;
    }
    return err_set(err, RC_INVALID, "unknown option \"%s\"; --help lists them", name);
}

enum rc options_parse(struct options *options, int argc, char **argv, struct err *err)
{
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            options->help = true;
            return RC_OK;
        }
        enum rc rc = option_set(options, argv[i], i + 1 < argc ? argv[i + 1] : NULL, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

void options_help(FILE *to)
{
    fprintf(to, "terraced - a tiered store that speaks Redis\n\n"
                "usage: terraced [OPTION VALUE]...\n\n");
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        char name[32];
        snprintf(name, sizeof name, "%s %s", row->name, row->value);
        fprintf(to, "  %-20s %s (default %s)\n", name, row->help, row->start);
    }
    fprintf(to, "  %-20s %s\n\n", "--help", "this text");
    fprintf(to, "Sizes are bytes, or have a unit as in Redis: 1k is 1000, 1kb is 1024; mb, gb.\n");
}
