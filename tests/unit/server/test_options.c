#include <string.h>

#include "server/options.h"
#include "test.h"

#include "base/banned.h"

static enum rc parse(struct options *options, struct err *err, const char *name, const char *value)
{
    char *argv[] = {"terraced", (char *)(uintptr_t)name, (char *)(uintptr_t)value};
    options_init(options);
    return options_parse(options, value ? 3 : 2, argv, err);
}

TEST(defaults_are_those_of_the_table)
{
    struct options options;
    options_init(&options);
    ASSERT_EQ(options.port, 7379);
    ASSERT_STR(options.bind, "127.0.0.1");
    ASSERT_STR(options.dir, "./data");
    ASSERT_EQ(options.hot_memory_bytes, 1 << 30);
    ASSERT_EQ(options.disk_reserve_bytes, 1 << 30);
    ASSERT_EQ(options.durability, DURABILITY_EVERYSEC);
    ASSERT_TRUE(options.engine == &engine_rocksdb_ops);
}

TEST(sizes_are_read_as_redis_reads_them)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"1", 1},
                {"10b", 10},
                {"1k", 1000},
                {"1KB", 1024},
                {"2m", 2000000},
                {"3Mb", 3 << 20},
                {"1g", 1000000000},
                {"4gb", 4ull << 30},
                {"16000000000", 16000000000ull}};
    static const char *const bad[] = {
        "", "x", "-1", "1tb", "1 kb", "1kbx", "99999999999999999999", "18446744073709551615gb"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        ASSERT_TRUE(size_parse(good[i].text, &bytes));
        ASSERT_EQ(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ASSERT_FALSE(size_parse(bad[i], &bytes));
}

TEST(options_are_taken)
{
    struct options options;
    struct err err = {0};
    ASSERT_OK(parse(&options, &err, "--port", "0"), &err);
    ASSERT_EQ(options.port, 0);
    ASSERT_OK(parse(&options, &err, "--durability", "ALWAYS"), &err);
    ASSERT_EQ(options.durability, DURABILITY_ALWAYS);
    ASSERT_OK(parse(&options, &err, "--hot-memory", "64mb"), &err);
    ASSERT_EQ(options.hot_memory_bytes, 64 << 20);
    ASSERT_OK(parse(&options, &err, "--help", NULL), &err);
    ASSERT_TRUE(options.help);
}

TEST(wrong_options_are_named)
{
    static const char *const wrong[][2] = {{"--port", "65536"},    {"--port", "x"},
                                           {"--port", "1x"},       {"--durability", "maybe"},
                                           {"--engine", "none"},   {"--engine", "memory"},
                                           {"--hot-memory", "12"}, {"--disk-reserve", "1tb"},
                                           {"--dir", ""},          {"--bind", ""},
                                           {"--unknown", "1"},     {"--port", NULL},
                                           {"data", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct options options;
        struct err err = {0};
        ASSERT_RC(parse(&options, &err, wrong[i][0], wrong[i][1]), RC_INVALID);
        ASSERT_TRUE(strstr(err.text, wrong[i][0]) != NULL);
    }
}
