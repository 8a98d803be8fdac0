// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "base/file_sim.h"
#include "server/config.h"
#include "server/config_int.h"
#include "test.h"
#include "types/kv.h"

#include "base/banned.h"

struct fixture {
    struct file_sim *sim;
    struct config config;
    struct err err;
    char changed[256]; /* names, each with a space behind it */
};

static void changed(void *arg, const struct option *row)
{
    struct fixture *fix = arg;
    size_t len = strlen(fix->changed);
    snprintf(fix->changed + len, sizeof fix->changed - len, "%s ", row->name);
}

static void setup(struct fixture *fix)
{
    *fix = (struct fixture){.sim = file_sim_new()};
    config_init(&fix->config, file_sim_files(fix->sim));
    config_listen(&fix->config, changed, fix);
}

static void teardown(struct fixture *fix)
{
    config_done(&fix->config);
    file_sim_free(fix->sim);
}

static void restart(struct fixture *fix)
{
    config_done(&fix->config);
    config_init(&fix->config, file_sim_files(fix->sim));
    config_listen(&fix->config, changed, fix);
}

static enum rc parse(struct fixture *fix, const char *text)
{
    return config_parse(&fix->config, bytes_of(text, strlen(text)), "c", &fix->err);
}

/* Arguments up to NULL. */
static enum rc load(struct fixture *fix, const char *const *args)
{
    char *argv[16] = {(char *)(uintptr_t) "terraced"};
    int argc = 1;
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    enum config_wish wish;
    restart(fix);
    enum rc rc = config_load(&fix->config, argc, argv, &wish, &fix->err);
    ASSERT_TRUE(rc != RC_OK || wish == CONFIG_WISH_RUN);
    return rc;
}

/* "name value name value"; a value is a word. */
static enum rc set(struct fixture *fix, const char *const *pairs)
{
    struct bytes arg[16];
    size_t count = 0;
    for (; pairs[count]; count++)
        arg[count] = bytes_of(pairs[count], strlen(pairs[count]));
    fix->changed[0] = 0;
    return config_set(&fix->config, arg, count / 2, &fix->err);
}

static void got(void *arg, struct bytes name, struct bytes value)
{
    bool added = buf_printf(arg, "%.*s=%.*s;", (int)name.len, (const char *)name.ptr,
                            (int)value.len, (const char *)value.ptr);
    ASSERT_TRUE(added);
}

static void assert_get(struct fixture *fix, const char *pattern, const char *expected)
{
    struct bytes patterns[8];
    size_t count = 0;
    struct buf buf;
    buf_init(&buf, 65536);
    while (*pattern) {
        size_t len = strcspn(pattern, " ");
        patterns[count++] = bytes_of(pattern, len);
        pattern += len;
        pattern += *pattern == ' ';
    }
    config_get(&fix->config, patterns, count, got, &buf);
    ASSERT_BYTES(buf_bytes(&buf), bytes_of(expected, strlen(expected)));
    buf_done(&buf);
}

static void file_put(struct fixture *fix, const char *path, const char *text)
{
    ASSERT_OK(
        files_replace(file_sim_files(fix->sim), path, bytes_of(text, strlen(text)), &fix->err),
        &fix->err);
}

static void assert_file(struct fixture *fix, const char *path, const char *expected)
{
    struct buf buf;
    buf_init(&buf, 65536);
    ASSERT_OK(files_read_all(file_sim_files(fix->sim), path, &buf, &fix->err), &fix->err);
    ASSERT_BYTES(buf_bytes(&buf), bytes_of(expected, strlen(expected)));
    buf_done(&buf);
}

TEST(the_table_is_in_order)
{
    const struct option *row;
    for (size_t i = 0; (row = config__row(i)); i++) {
        const char *name;
        struct bytes text = bytes_of(row->name, strlen(row->name));
        ASSERT_TRUE(config__row_find(text, &name) == row);
        ASSERT_STR(name, row->name);
        ASSERT_TRUE(row->help[0] != 0);
        ASSERT_TRUE((row->kind == &option_fixed) == (row->why != NULL));
        ASSERT_TRUE((row->kind == &option_fixed) == (row->width == 0));
        ASSERT_TRUE((row->kind == &option_word) == (row->words != NULL));
        if (row->alias) {
            text = bytes_of(row->alias, strlen(row->alias));
            ASSERT_TRUE(config__row_find(text, &name) == row);
            ASSERT_STR(name, row->alias);
        }
    }
}

TEST(defaults_are_those_of_the_table)
{
    struct fixture fix;
    setup(&fix);
    const struct config *config = &fix.config;
    ASSERT_EQ(config->port, 7379);
    ASSERT_EQ(config->bind.count, 1);
    ASSERT_STR(config->bind.text[0], "127.0.0.1");
    ASSERT_STR(config->unixsocket, "");
    ASSERT_STR(config->dir, "./data");
    ASSERT_STR(config->file, "");
    ASSERT_TRUE(config->protected_mode);
    ASSERT_EQ(config->hot_memory_bytes, 1 << 30);
    ASSERT_EQ(config->disk_reserve_bytes, 1 << 30);
    ASSERT_EQ(config->durability, DURABILITY_EVERYSEC);
    ASSERT_TRUE(config->engine == &engine_rocksdb_ops);
    ASSERT_EQ(config->flush_age_ms, 60000);
    ASSERT_EQ(config->list_max_listpack_size, -2);
    ASSERT_EQ(config->slowlog_log_slower_than_us, 10000);
    ASSERT_EQ(config->client_output_buffer_limit[CONFIG_CLIENT_NORMAL].hard_bytes, 0);
    ASSERT_EQ(config->client_output_buffer_limit[CONFIG_CLIENT_REPLICA].hard_bytes, 256 << 20);
    ASSERT_EQ(config->client_output_buffer_limit[CONFIG_CLIENT_PUBSUB].soft_bytes, 8 << 20);
    ASSERT_EQ(config->client_output_buffer_limit[CONFIG_CLIENT_PUBSUB].soft_s, 60);
    teardown(&fix);
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

TEST(a_file_has_comments_quotes_and_names_in_any_case)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_OK(parse(&fix, "# a comment\n"
                          "\n"
                          "  \t# another\r\n"
                          "PORT 80\r\n"
                          "\ttimeout   5  \n"
                          "bind 127.0.0.1 ::1\n"
                          "requirepass \"a b\\x41\\n\\\"\\\\\\q\"\n"
                          "logfile 'it\\'s \\n'\n"
                          "\"dir\" x\"y z\"\n"
                          "save \"\"\n"
                          "maxmemory 2mb"),
              &fix.err);
    ASSERT_EQ(fix.config.port, 80);
    ASSERT_EQ(fix.config.timeout_s, 5);
    ASSERT_EQ(fix.config.bind.count, 2);
    ASSERT_STR(fix.config.bind.text[1], "::1");
    ASSERT_BYTES(fix.config.requirepass, BYTES("a bA\n\"\\q"));
    ASSERT_STR(fix.config.logfile, "it's \\n");
    ASSERT_STR(fix.config.dir, "xy z");
    ASSERT_EQ(fix.config.hot_memory_bytes, 2 << 20);
    teardown(&fix);
}

TEST(wrong_lines_are_refused_with_their_place)
{
    static const char *const wrong[][2] = {
        {"port", "c:2: port: wrong number of arguments"},
        {"port 1 2", "c:2: port: wrong number of arguments"},
        {"port 7 # seven", "c:2: port: wrong number of arguments"},
        {"nothing 1", "c:2: unknown option \"nothing\""},
        {"rename-command a b", "c:2: unknown option \"rename-command\""},
        {"replicaof a 1", "c:2: replicaof: argument must be empty: there is no replication"},
        {"port x", "c:2: port: argument couldn't be parsed into an integer"},
        {"port 65536", "c:2: port: argument must be between 0 and 65535 inclusive"},
        {"port \"1", "c:2: Unbalanced quotes in configuration line"},
        {"port '1'x", "c:2: Unbalanced quotes in configuration line"},
        {"protected-mode 1", "c:2: protected-mode: argument must be 'yes' or 'no'"},
        {"durability maybe",
         "c:2: durability: argument(s) must be one of the following: always, everysec, no"},
        {"maxmemory 12",
         "c:2: maxmemory: argument must be between 1048576 and 17592186044416 inclusive"},
        {"maxmemory 1tb", "c:2: maxmemory: argument must be a memory value"},
        {"flush-age 60", "c:2: flush-age: argument must be a time, such as 60s, 500ms or 24h"},
        {"flush-age 0s", "c:2: flush-age: argument must be between 1ms and 86400000ms inclusive"},
        {"unixsocketperm 8", "c:2: unixsocketperm: argument must be octal, at most 777"},
        {"unixsocketperm 1777", "c:2: unixsocketperm: argument must be octal, at most 777"},
        {"engine memory", "c:2: engine: argument must be the name of an engine: rocksdb"},
        {"dir \"\"", "c:2: dir: argument must not be empty"},
        {"dir \"a\\x00b\"", "c:2: dir: argument must not contain a zero byte"},
        {"bind \"\"", "c:2: bind: argument must not be empty, or longer than 255 bytes"},
        {"databases 3", "c:2: databases: argument must be 16: the number of databases is fixed"},
        {"client-output-buffer-limit normal 0",
         "c:2: client-output-buffer-limit: Wrong number of arguments in buffer limit "
         "configuration."},
        {"include", "c:2: wrong number of arguments: include FILE"},
        {"include \"\"", "c:2: that is not the name of a file"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct fixture fix;
        char text[256];
        setup(&fix);
        snprintf(text, sizeof text, "timeout 1\n%s\ntimeout 2\n", wrong[i][0]);
        ASSERT_RC(parse(&fix, text), RC_INVALID);
        ASSERT_STR(fix.err.text, wrong[i][1]);
        ASSERT_EQ(fix.config.timeout_s, 1);
        teardown(&fix);
    }
}

TEST(too_many_words_are_refused)
{
    struct fixture fix;
    char text[512] = "bind";
    setup(&fix);
    for (int i = 0; i < 70; i++)
        memcpy(text + 4 + 2 * i, " a", 3);
    ASSERT_RC(parse(&fix, text), RC_INVALID);
    ASSERT_STR(fix.err.text, "c:1: there are more than 64 words");
    text[4 + 2 * 17] = 0;
    ASSERT_RC(parse(&fix, text), RC_INVALID);
    ASSERT_STR(fix.err.text, "c:1: bind: there must not be more than 16 of them");
    teardown(&fix);
}

TEST(files_include_files_but_not_for_ever)
{
    struct fixture fix;
    setup(&fix);
    file_put(&fix, "a", "port 1\ninclude b\ntimeout 1\n");
    file_put(&fix, "b", "port 2\ntimeout 2\nmaxclients 2\n");
    ASSERT_OK(load(&fix, (const char *[]){"a", NULL}), &fix.err);
    ASSERT_EQ(fix.config.port, 2);
    ASSERT_EQ(fix.config.timeout_s, 1);
    ASSERT_EQ(fix.config.maxclients, 2);
    ASSERT_STR(fix.config.file, "a");

    file_put(&fix, "b", "\nport x\n");
    ASSERT_RC(load(&fix, (const char *[]){"a", NULL}), RC_INVALID);
    ASSERT_STR(fix.err.text, "a:2: b:2: port: argument couldn't be parsed into an integer");
    file_put(&fix, "b", "include a");
    ASSERT_RC(load(&fix, (const char *[]){"a", NULL}), RC_INVALID);
    ASSERT_TRUE(strstr(fix.err.text, "files include each other more than 8 deep") != NULL);
    file_put(&fix, "b", "include nowhere");
    ASSERT_RC(load(&fix, (const char *[]){"a", NULL}), RC_NOT_FOUND);
    ASSERT_TRUE(strstr(fix.err.text, "a:2: b:1: ") == fix.err.text);
    ASSERT_TRUE(strstr(fix.err.text, "nowhere") != NULL);
    ASSERT_RC(load(&fix, (const char *[]){"nowhere", NULL}), RC_NOT_FOUND);
    teardown(&fix);
}

TEST(the_command_line_comes_after_the_file)
{
    struct fixture fix;
    setup(&fix);
    file_put(&fix, "a", "port 1\ntimeout 1\n");
    ASSERT_OK(load(&fix, (const char *[]){"a", "--port", "0", "--bind", "1.1.1.1", "2.2.2.2",
                                          "--durability", "ALWAYS", "--Hot-Memory", "64mb", NULL}),
              &fix.err);
    ASSERT_EQ(fix.config.port, 0);
    ASSERT_EQ(fix.config.timeout_s, 1);
    ASSERT_EQ(fix.config.bind.count, 2);
    ASSERT_EQ(fix.config.durability, DURABILITY_ALWAYS);
    ASSERT_EQ(fix.config.hot_memory_bytes, 64 << 20);

    ASSERT_OK(load(&fix, (const char *[]){"--port 5", "--requirepass", "--x", "--save", "", NULL}),
              &fix.err);
    ASSERT_EQ(fix.config.port, 5);
    ASSERT_BYTES(fix.config.requirepass, BYTES("--x"));
    ASSERT_STR(fix.config.file, "");
    teardown(&fix);
}

TEST(many_words_may_be_one_in_quotes)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_OK(load(&fix, (const char *[]){"--tile-types", "imagery=1 terrain=2", "--bind",
                                          " 1.1.1.1\t2.2.2.2 ", "--land",
                                          "players slug-data:{*} sqlite:/tmp/p.db", "--requirepass",
                                          "a b", NULL}),
              &fix.err);
    assert_get(&fix, "tile-types", "tile-types=imagery=1 terrain=2;");
    ASSERT_EQ(fix.config.bind.count, 2);
    ASSERT_STR(fix.config.bind.text[0], "1.1.1.1");
    assert_get(&fix, "land", "land=players slug-data:{*} sqlite:/tmp/p.db;");
    ASSERT_BYTES(fix.config.requirepass, BYTES("a b"));
    ASSERT_RC(load(&fix, (const char *[]){"--tile-types", "imagery=1 \"x", NULL}), RC_INVALID);
    ASSERT_RC(load(&fix, (const char *[]){"--bind", "  ", NULL}), RC_INVALID);
    teardown(&fix);
}

TEST(wrong_arguments_are_refused_with_their_name)
{
    static const struct {
        const char *args[4];
        const char *text;
    } wrong[] = {
        {{"--port"}, "command line: port: wrong number of arguments"},
        {{"--port", "x"}, "command line: port: argument couldn't be parsed into an integer"},
        {{"--port", "1", "2"}, "command line: port: wrong number of arguments"},
        {{"--port", "--timeout", "1"}, "command line: port: wrong number of arguments"},
        {{"--unknown", "1"}, "command line: unknown option \"unknown\""},
        {{"--", "1"}, "command line: \"--\" names no option"},
        {{"-p", "1"}, "command line: \"-p\" is not an option; --help lists them"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct fixture fix;
        setup(&fix);
        ASSERT_RC(load(&fix, wrong[i].args), RC_INVALID);
        ASSERT_STR(fix.err.text, wrong[i].text);
        teardown(&fix);
    }
}

TEST(help_is_asked_for)
{
    static const struct {
        const char *arg;
        enum config_wish wish;
    } cases[] = {{"--help", CONFIG_WISH_HELP},
                 {"-h", CONFIG_WISH_HELP},
                 {"--version", CONFIG_WISH_VERSION},
                 {"-v", CONFIG_WISH_VERSION},
                 {"--help-markdown", CONFIG_WISH_MARKDOWN},
                 {"--help-example", CONFIG_WISH_EXAMPLE}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture fix;
        enum config_wish wish;
        char *argv[] = {"terraced", (char *)(uintptr_t)cases[i].arg};
        setup(&fix);
        ASSERT_OK(config_load(&fix.config, 2, argv, &wish, &fix.err), &fix.err);
        ASSERT_EQ(wish, cases[i].wish);
        teardown(&fix);
    }
}

TEST(get_answers_names_and_aliases_as_redis_does)
{
    struct fixture fix;
    setup(&fix);
    assert_get(&fix, "maxmemory", "maxmemory=1073741824;");
    assert_get(&fix, "save", "save=;");
    assert_get(&fix, "appendonly", "appendonly=yes;");
    assert_get(&fix, "databases", "databases=16;");
    assert_get(&fix, "nothing", "");
    assert_get(&fix, "TimeOut", "TimeOut=0;");
    assert_get(&fix, "port PORT po*", "port=7379;");
    assert_get(&fix, "PO*", "port=7379;");
    assert_get(&fix, "append*",
               "appendfsync=everysec;appendonly=yes;appendfilename=appendonly.aof;"
               "appenddirname=appendonlydir;");
    assert_get(&fix, "hash-max-*-value", "hash-max-listpack-value=64;hash-max-ziplist-value=64;");
    assert_get(&fix, "flush-age", "flush-age=60s;");
    assert_get(&fix, "client-output-buffer-limit",
               "client-output-buffer-limit=normal 0 0 0 slave 268435456 67108864 60 pubsub "
               "33554432 8388608 60;");
    teardown(&fix);
}

TEST(memory_of_clients_is_a_size_or_a_share_of_hot_memory)
{
    struct fixture fix;
    setup(&fix);
    const uint64_t hot_bytes = fix.config.hot_memory_bytes;
    ASSERT_EQ(config_clients_bytes(&fix.config), hot_bytes);
    static const char *const bad[] = {"x", "-1", "5%%", "%", "1tb", "-5%", "99999999999%"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ASSERT_RC(set(&fix, (const char *[]){"maxmemory-clients", bad[i], NULL}), RC_INVALID);
        ASSERT_EQ(config_clients_bytes(&fix.config), hot_bytes);
    }
    ASSERT_OK(set(&fix, (const char *[]){"maxmemory-clients", "5%", NULL}), &fix.err);
    ASSERT_EQ(config_clients_bytes(&fix.config), (uint64_t)((double)hot_bytes / 100 * 5));
    assert_get(&fix, "maxmemory-clients", "maxmemory-clients=5%;");
    ASSERT_OK(set(&fix, (const char *[]){"maxmemory-clients", "2mb", NULL}), &fix.err);
    ASSERT_EQ(config_clients_bytes(&fix.config), 2 << 20);
    ASSERT_OK(set(&fix, (const char *[]){"maxmemory-clients", "0", NULL}), &fix.err);
    ASSERT_EQ(config_clients_bytes(&fix.config), UINT64_MAX);
    ASSERT_OK(set(&fix, (const char *[]){"maxmemory-clients", "auto", "hot-memory", "16mb", NULL}),
              &fix.err);
    ASSERT_EQ(config_clients_bytes(&fix.config), CLIENTS_AUTO_BYTES_MIN);
    teardown(&fix);
}

TEST(set_is_all_or_nothing_and_tells_what_changed)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_OK(set(&fix, (const char *[]){"timeout", "5", "MAXCLIENTS", "10000", "appendfsync", "no",
                                         "requirepass", "secret", NULL}),
              &fix.err);
    ASSERT_STR(fix.changed, "timeout durability requirepass ");
    ASSERT_EQ(fix.config.timeout_s, 5);
    ASSERT_EQ(fix.config.durability, DURABILITY_NO);
    ASSERT_BYTES(fix.config.requirepass, BYTES("secret"));

    ASSERT_RC(set(&fix, (const char *[]){"timeout", "6", "requirepass", "other", "maxclients", "x",
                                         NULL}),
              RC_INVALID);
    ASSERT_STR(fix.changed, "");
    ASSERT_EQ(fix.config.timeout_s, 5);
    ASSERT_BYTES(fix.config.requirepass, BYTES("secret"));
    ASSERT_OK(set(&fix, (const char *[]){"appendonly", "yes", "save", "", "maxmemory-policy",
                                         "noeviction", NULL}),
              &fix.err);
    ASSERT_STR(fix.changed, "");
    teardown(&fix);
}

TEST(set_refuses_with_redis_texts)
{
#define FAILED(name, text) "CONFIG SET failed (possibly related to argument '" name "') - " text
    static const struct {
        const char *args[7];
        const char *text;
    } wrong[] = {
        {{"nope", "1"}, "Unknown option or number of arguments for CONFIG SET - 'nope'"},
        {{"timeout", "x", "nope", "3"},
         "Unknown option or number of arguments for CONFIG SET - 'nope'"},
        {{"databases", "16", "nope", "3"}, FAILED("databases", "can't set immutable config")},
        {{"Dir", "x"}, FAILED("dir", "can't set immutable config")},
        {{"timeout", "1", "timeout", "2"}, FAILED("timeout", "duplicate parameter")},
        {{"maxclients", "0"},
         FAILED("maxclients", "argument must be between 1 and 1000000 inclusive")},
        {{"timeout", "01"}, FAILED("timeout", "argument couldn't be parsed into an integer")},
        {{"timeout", ""}, FAILED("timeout", "argument couldn't be parsed into an integer")},
        {{"slowlog-log-slower-than", "-2"},
         FAILED("slowlog-log-slower-than",
                "argument must be between -1 and 9223372036854775807 inclusive")},
        {{"proto-max-bulk-len", "x"},
         FAILED("proto-max-bulk-len", "argument must be a memory value")},
        {{"appendfsync", "maybe"},
         FAILED("appendfsync", "argument(s) must be one of the following: always, everysec, no")},
        {{"notify-keyspace-events", "q"},
         FAILED("notify-keyspace-events", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")},
        {{"client-output-buffer-limit", "normal 1 1  1"},
         FAILED("client-output-buffer-limit",
                "Wrong number of arguments in buffer limit configuration.")},
        {{"client-output-buffer-limit", "normal 1 1 1 foo 0 0 0"},
         FAILED("client-output-buffer-limit",
                "Invalid client class specified in buffer limit configuration.")},
        {{"client-output-buffer-limit", "normal x 0 0"},
         FAILED("client-output-buffer-limit",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.")},
        {{"appendonly", "no"},
         FAILED("appendonly", "argument must be 'yes': every change is in the journal before its "
                              "reply leaves")},
        {{"save", "3600 1"},
         FAILED("save", "argument must be empty: there are no snapshots, the journal and the "
                        "engine hold everything")},
        {{"maxmemory-policy", "allkeys-lru"},
         FAILED("maxmemory-policy", "argument must be 'noeviction': what does not fit in memory is "
                                    "on disk, and no key is ever removed for it")},
    };
#undef FAILED
    struct fixture fix;
    setup(&fix);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        ASSERT_RC(set(&fix, wrong[i].args), RC_INVALID);
        ASSERT_STR(fix.err.text, wrong[i].text);
        ASSERT_STR(fix.changed, "");
    }
    teardown(&fix);
}

TEST(values_of_every_kind_are_set_and_read_back)
{
    static const char *const cases[][3] = {
        {"protected-mode", "NO", "protected-mode=no;"},
        {"loglevel", "Warning", "loglevel=warning;"},
        {"client-query-buffer-limit", "10MB", "client-query-buffer-limit=10485760;"},
        {"slowlog-log-slower-than", "-1", "slowlog-log-slower-than=-1;"},
        {"list-max-listpack-size", "-5", "list-max-listpack-size=-5;"},
        {"hash-max-ziplist-entries", "9223372036854775807",
         "hash-max-ziplist-entries=9223372036854775807;"},
        {"requirepass", "a \"b\"", "requirepass=a \"b\";"},
        {"requirepass", "", "requirepass=;"},
        {"client-output-buffer-limit", "replica 1kb 2 3 normal 1mb 0 0",
         "client-output-buffer-limit=normal 1048576 0 0 slave 1024 2 3 pubsub 33554432 8388608 "
         "60;"},
    };
    struct fixture fix;
    setup(&fix);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_OK(set(&fix, (const char *[]){cases[i][0], cases[i][1], NULL}), &fix.err);
        assert_get(&fix, cases[i][0], cases[i][2]);
    }
    ASSERT_EQ(config_log_level(&fix.config), LOG_WARN);
    ASSERT_EQ(fix.config.list_max_listpack_size, -5);
    teardown(&fix);
}

TEST(events_are_flags_in_redis_order)
{
    static const char *const cases[][2] = {
        {"KEA", "AKE"},      {"AKEm", "AKEm"}, {"Kg$lshz", "g$lshzK"},
        {"ndK", "dnK"},      {"Em", "Em"},     {"gxeKE", "gxeKE"},
        {"g$lshzxetd", "A"}, {"Kxxx", "xK"},   {"g$lshzxetdK", "AK"},
        {"AnK", "AnK"},      {"", ""}};
    struct fixture fix;
    setup(&fix);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "notify-keyspace-events=%s;", cases[i][1]);
        ASSERT_OK(set(&fix, (const char *[]){"notify-keyspace-events", cases[i][0], NULL}),
                  &fix.err);
        assert_get(&fix, "notify-keyspace-events", expected);
    }
    ASSERT_OK(set(&fix, (const char *[]){"notify-keyspace-events", "Kgm", NULL}), &fix.err);
    ASSERT_EQ(fix.config.notify_keyspace_events,
              CONFIG_NOTIFY_KEYSPACE | KV_EVENT_GENERIC | KV_EVENT_MISS);
    teardown(&fix);
}

TEST(rewrite_keeps_what_it_need_not_touch)
{
    struct fixture fix;
    setup(&fix);
    file_put(&fix, "a",
             "# mine\n"
             "  port   80\n"
             "\n"
             "maxmemory 100mb\n"
             "client-output-buffer-limit normal 1 0 0\n"
             "client-output-buffer-limit pubsub 1mb 0 0\n"
             "timeout 1\n"
             "# timeout 7\n"
             "TIMEOUT 2\n"
             "logfile 'x y'");
    ASSERT_OK(load(&fix, (const char *[]){"a", "--loglevel", "debug", NULL}), &fix.err);
    ASSERT_OK(set(&fix, (const char *[]){"timeout", "3", "requirepass", "a \"b\x01", "maxclients",
                                         "10000", NULL}),
              &fix.err);
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    const char *expected = "# mine\n"
                           "  port   80\n"
                           "\n"
                           "maxmemory 100mb\n"
                           "client-output-buffer-limit normal 1 0 0\n"
                           "client-output-buffer-limit pubsub 1mb 0 0\n"
                           "timeout 3\n"
                           "# timeout 7\n"
                           "logfile 'x y'\n"
                           "\n"
                           "# Generated by CONFIG REWRITE\n"
                           "requirepass \"a \\\"b\\x01\"\n"
                           "loglevel debug\n";
    assert_file(&fix, "a", expected);
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    assert_file(&fix, "a", expected);

    ASSERT_OK(load(&fix, (const char *[]){"a", NULL}), &fix.err);
    ASSERT_BYTES(fix.config.requirepass, BYTES("a \"b\x01"));
    ASSERT_EQ(fix.config.timeout_s, 3);
    ASSERT_OK(set(&fix, (const char *[]){"client-output-buffer-limit", "normal 1gb 0 0",
                                         "requirepass", "", "slowlog-max-len", "5", NULL}),
              &fix.err);
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    assert_file(&fix, "a",
                "# mine\n"
                "  port   80\n"
                "\n"
                "maxmemory 100mb\n"
                "client-output-buffer-limit normal 1gb 0 0 replica 256mb 64mb 60 "
                "pubsub 1mb 0 0\n"
                "timeout 3\n"
                "# timeout 7\n"
                "logfile 'x y'\n"
                "\n"
                "# Generated by CONFIG REWRITE\n"
                "requirepass \"\"\n"
                "loglevel debug\n"
                "slowlog-max-len 5\n");
    teardown(&fix);
}

TEST(rewrite_knows_of_included_and_damaged_files)
{
    struct fixture fix;
    setup(&fix);
    file_put(&fix, "a", "timeout 1\nmaxclients 5\ninclude b\nmaxclients 6\n");
    file_put(&fix, "b", "timeout 2\nport 99\n");
    ASSERT_OK(load(&fix, (const char *[]){"a", NULL}), &fix.err);
    ASSERT_OK(set(&fix, (const char *[]){"timeout", "3", NULL}), &fix.err);
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    assert_file(&fix, "a",
                "maxclients 5\ninclude b\nmaxclients 6\n"
                "\n# Generated by CONFIG REWRITE\ntimeout 3\n");
    ASSERT_OK(load(&fix, (const char *[]){"a", NULL}), &fix.err);
    ASSERT_EQ(fix.config.timeout_s, 3);
    ASSERT_EQ(fix.config.port, 99);

    /* Somebody edits while the server runs. */
    file_put(&fix, "a", "port x\nunknown 1\nlogfile \"\ntimeout 3\nmaxclients 6\n");
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    assert_file(&fix, "a", "port 99\nunknown 1\nlogfile \"\ntimeout 3\nmaxclients 6\n");
    ASSERT_OK(files_remove(file_sim_files(fix.sim), "a", &fix.err), &fix.err);
    ASSERT_OK(config_rewrite(&fix.config, &fix.err), &fix.err);
    assert_file(&fix, "a", "\n# Generated by CONFIG REWRITE\nport 99\nmaxclients 6\ntimeout 3\n");
    teardown(&fix);
}

TEST(rewrite_fails_without_a_file_and_on_a_full_disk)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_RC(config_rewrite(&fix.config, &fix.err), RC_INVALID);
    ASSERT_STR(fix.err.text, "The server is running without a config file");

    file_put(&fix, "a", "timeout 1\n");
    ASSERT_OK(load(&fix, (const char *[]){"a", NULL}), &fix.err);
    ASSERT_OK(set(&fix, (const char *[]){"timeout", "300000", NULL}), &fix.err);
    file_sim_space(fix.sim, 3);
    ASSERT_RC(config_rewrite(&fix.config, &fix.err), RC_FULL);
    ASSERT_TRUE(strstr(fix.err.text, "Rewriting config file: ") == fix.err.text);
    assert_file(&fix, "a", "timeout 1\n");
    teardown(&fix);
}

TEST(a_real_file_is_found_behind_its_link_and_keeps_its_permissions)
{
    struct config config;
    struct err err = {0};
    char path[256], name[256];
    const char *dir = test_temp_dir();
    snprintf(path, sizeof path, "%s/real.conf", dir);
    snprintf(name, sizeof name, "%s/link.conf", dir);
    FILE *file = fopen(path, "w");
    ASSERT_TRUE(file != NULL);
    fprintf(file, "port 81\n");
    fclose(file);
    ASSERT_EQ(chmod(path, 0600), 0);
    ASSERT_EQ(symlink(path, name), 0);

    config_init(&config, NULL);
    char *argv[] = {"terraced", name, "--timeout", "9"};
    enum config_wish wish;
    ASSERT_OK(config_load(&config, 4, argv, &wish, &err), &err);
    ASSERT_TRUE(strstr(config.file, "/real.conf") != NULL);
    ASSERT_OK(config_rewrite(&config, &err), &err);
    config_done(&config);

    struct stat stat_of;
    ASSERT_EQ(lstat(name, &stat_of), 0);
    ASSERT_TRUE(S_ISLNK(stat_of.st_mode));
    ASSERT_EQ(stat(path, &stat_of), 0);
    ASSERT_EQ(stat_of.st_mode & 0777, 0600);
    config_init(&config, NULL);
    ASSERT_OK(config_load(&config, 2, argv, &wish, &err), &err);
    ASSERT_EQ(config.timeout_s, 9);
    ASSERT_EQ(config.port, 81);
    config_done(&config);
}
