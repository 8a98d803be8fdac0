// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/mem.h"
#include "script/script.h"
#include "test.h"

#include "base/banned.h"

struct world { /* what the host is asked, and answers */
    struct script_vm *vm;
    struct sha1 *sha1;
    enum rc call_rc, tick_rc;
    unsigned call_count, tick_count, log_count;
    struct buf reply;
    struct resp_out out;
    uint64_t random;
};

/* ECHO answers its argument; everything else an error, or stops the run. */
static enum rc host_call(void *arg, const struct bytes *argv, size_t argc, uint8_t proto,
                         struct bytes *ret_reply, struct err *err)
{
    struct world *world = arg;
    (void)proto;
    world->call_count++;
    buf_cut(&world->reply, 0);
    bool good = true;
    if (argc == 2 && bytes_eq(argv[0], BYTES("ECHO")))
        good = buf_printf(&world->reply, "$%zu\r\n", argv[1].len) &&
               buf_add_bytes(&world->reply, argv[1]) && buf_add(&world->reply, "\r\n", 2);
    else
        good = buf_printf(&world->reply, "-ERR no such command\r\n");
    ASSERT_TRUE(good);
    *ret_reply = buf_bytes(&world->reply);
    return world->call_rc == RC_OK ? RC_OK : err_set(err, world->call_rc, "stopped by the host");
}

static enum rc host_tick(void *arg, struct err *err)
{
    struct world *world = arg;
    world->tick_count++;
    return world->tick_rc == RC_OK ? RC_OK : err_set(err, world->tick_rc, "stopped by a tick");
}

static void host_log(void *arg, enum script_log_level level, struct bytes text)
{
    struct world *world = arg;
    (void)level;
    (void)text;
    world->log_count++;
}

static bool host_is_command(void *arg, const struct bytes *argv, size_t argc)
{
    (void)arg;
    (void)argc;
    return bytes_eq(argv[0], BYTES("ECHO"));
}

static void begin(struct world *world, bool for_functions, size_t memory_bytes)
{
    *world = (struct world){0};
    world->vm = script_vm_new(&(struct script_vm_options){
        .memory_bytes_max = memory_bytes, .for_functions = for_functions, .seed = 1});
    buf_init(&world->reply, 1 << 20);
    resp_out_init(&world->out, 1 << 20);
}

static void end(struct world *world)
{
    script_vm_free(world->vm);
    buf_done(&world->reply);
    resp_out_done(&world->out);
}

static struct script_run run_of(struct world *world, struct script_host *host)
{
    *host = (struct script_host){host_call, host_tick, host_log, host_is_command, world};
    resp_out_clear(&world->out);
    return (struct script_run){
        .host = host, .name = "name", .random = world->random, .reply = &world->out};
}

static enum rc eval(struct world *world, const char *text, struct err *err)
{
    struct script_host host;
    struct script_run run = run_of(world, &host);
    int ref;
    enum rc rc = script_compile(world->vm, bytes_of(text, strlen(text)), &ref, err);
    if (rc != RC_OK)
        return rc;
    rc = script_run(world->vm, ref, &run, err);
    script_forget(world->vm, ref);
    return rc;
}

static const char *reply(struct world *world)
{
    ASSERT_TRUE(buf_reserve(&world->out.buf, 1));
    world->out.buf.ptr[world->out.buf.len] = 0;
    return (const char *)world->out.buf.ptr;
}

static void assert_reply(struct world *world, const char *text, const char *wanted)
{
    struct err err = {0};
    ASSERT_OK(eval(world, text, &err), &err);
    ASSERT_STR(reply(world), wanted);
}

TEST(a_script_calls_and_answers)
{
    struct world world;
    begin(&world, false, 16 << 20);
    assert_reply(&world, "return redis.call('ECHO', 'x' .. 1 + 1)", "$2\r\nx2\r\n");
    assert_reply(&world, "return redis.pcall('NONE')", "-ERR no such command\r\n");
    assert_reply(&world, "return redis.call('NONE')",
                 "-ERR no such command script: name, on @user_script:1.\r\n");
    assert_reply(&world, "return {1, 'a', false, {ok = 'fine'}}",
                 "*4\r\n:1\r\n$1\r\na\r\n$-1\r\n+fine\r\n");
    end(&world);
}

TEST(a_stop_of_the_host_is_caught_by_nothing)
{
    static const char *const catchers[] = {
        "pcall(redis.call, 'ECHO', 'x') redis.call('ECHO', 'after')",
        "redis.pcall('ECHO', 'x') redis.call('ECHO', 'after')",
        "xpcall(function() redis.call('ECHO', 'x') end, function() redis.call('ECHO', 'h') end)",
        "xpcall(error, function() redis.call('ECHO', 'x') end) redis.call('ECHO', 'after')",
        "coroutine.resume(coroutine.create(function() redis.call('ECHO', 'x') end)) "
        "redis.call('ECHO', 'after')",
        "coroutine.resume(coroutine.create(function() pcall(coroutine.wrap(function() "
        "redis.call('ECHO', 'x') end)) redis.call('ECHO', 'after') end))",
        "string.gsub('ab', '.', function() redis.call('ECHO', 'x') end)",
        "table.sort({3, 2, 1}, function() redis.call('ECHO', 'x') end)",
        "return setmetatable({}, {__index = function() redis.call('ECHO', 'x') end}).x",
        "load(function() redis.call('ECHO', 'x') end) redis.call('ECHO', 'after')"};
    for (size_t i = 0; i < ARRAY_LEN(catchers); i++) {
        struct world world;
        struct err err = {0};
        begin(&world, false, 16 << 20);
        world.call_rc = RC_COLD;
        ASSERT_RC(eval(&world, catchers[i], &err), RC_COLD);
        ASSERT_EQ(world.call_count, 1);
        world.call_rc = RC_OK;
        assert_reply(&world, "return redis.call('ECHO', 'again')", "$5\r\nagain\r\n");
        end(&world);
    }
}

TEST(what_never_ends_is_stopped_by_a_tick)
{
    static const char *const endless[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "string.find(string.rep('a', 3000), '.-.-.-.-.-b')",
        "string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 31))",
        "while true do string.rep('x', 1000000) end",
        "local t = {} for i = 1, 10000 do t[i] = i end while true do table.sort(t) end",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end"};
    for (size_t i = 0; i < ARRAY_LEN(endless); i++) {
        struct world world;
        struct err err = {0};
        begin(&world, false, 16 << 20);
        world.tick_rc = RC_TIMEOUT;
        ASSERT_RC(eval(&world, endless[i], &err), RC_TIMEOUT);
        ASSERT_EQ(world.tick_count, 1);
        end(&world);
    }
}

TEST(memory_is_bounded_and_comes_back)
{
    struct world world;
    begin(&world, false, 4 << 20);
    for (int i = 0; i < 5; i++) {
        assert_reply(&world, "local t = {} while true do t[#t + 1] = string.rep(#t .. 'x', 99) end",
                     "-ERR Error running script name, not enough memory\r\n");
        ASSERT_LE(script_vm_bytes(world.vm), 4 << 20);
        assert_reply(&world, "local t = {} for i = 1, 1000 do t[i] = {} end return #t",
                     ":1000\r\n");
    }
    end(&world);
}

TEST(one_script_leaves_nothing_for_another)
{
    static const char *const changes[] = {"x = 1",
                                          "_G.x = 1",
                                          "redis.x = 1",
                                          "string.upper = nil",
                                          "rawset(_G, 'x', 1)",
                                          "setmetatable(_G, {})",
                                          "getmetatable(_G).__index = nil",
                                          "getmetatable('').__index = nil",
                                          "table.insert(string, 1)",
                                          "setmetatable(string, {})",
                                          "cjson.null = 1",
                                          "rawset(getmetatable(''), 'x', 1)",
                                          "coroutine.wrap(function() y = 1 end)()",
                                          "loadstring('x = 1')()"};
    struct world world;
    begin(&world, false, 16 << 20);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct err err = {0};
        ASSERT_OK(eval(&world, changes[i], &err), &err);
        ASSERT_TRUE(strstr(reply(&world), "Attempt to modify a readonly table") != NULL);
        assert_reply(&world, "return rawget(_G, 'x') == nil and ('a'):upper() .. type(cjson.null)",
                     "$9\r\nAuserdata\r\n");
    }
    end(&world);
}

TEST(what_is_not_for_scripts_is_not_there)
{
    static const char *const names[] = {"os",       "io",      "debug",    "package",
                                        "require",  "dofile",  "loadfile", "print",
                                        "newproxy", "getfenv", "setfenv",  "module"};
    struct world world;
    begin(&world, false, 16 << 20);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char text[64];
        struct err err = {0};
        (void)snprintf(text, sizeof text, "return %s", names[i]);
        ASSERT_OK(eval(&world, text, &err), &err);
        ASSERT_TRUE(strstr(reply(&world), "nonexistent global variable") != NULL);
    }
    assert_reply(&world, "return tostring(string.dump)", "$3\r\nnil\r\n");
    end(&world);
}

TEST(random_numbers_of_a_repeated_run_are_the_same)
{
    struct world world;
    char first[64];
    begin(&world, false, 16 << 20);
    world.random = 12345;
    struct err err = {0};
    ASSERT_OK(eval(&world, "return math.random(1000000)", &err), &err);
    (void)snprintf(first, sizeof first, "%s", reply(&world));
    assert_reply(&world, "return math.random(1000000)", first);
    end(&world);
}

/* ---- libraries ---- */

static const char *fcall(struct world *world, struct script_lib *lib, const char *name)
{
    struct script_host host;
    struct err err = {0};
    struct script_run run = run_of(world, &host);
    ASSERT_OK(script_lib_run(world->vm, lib, bytes_of(name, strlen(name)), &run, &err), &err);
    return reply(world);
}

static struct script_lib *load(struct world *world, const char *code)
{
    struct script_host host;
    struct script_lib *lib;
    struct err err = {0};
    (void)run_of(world, &host);
    ASSERT_OK(script_lib_new(world->vm, &host, bytes_of(code, strlen(code)), &lib, &err), &err);
    return lib;
}

TEST(a_call_of_a_function_begins_as_the_library_was_loaded)
{
    static const char *const codes[] = {
        "#!lua name=l\nlocal n = 0 redis.register_function('f', function() n = n + 1 return n end)",
        "#!lua name=l\nlocal t = {0} redis.register_function('f', function() t[1] = t[1] + 1 "
        "return t[1] end)",
        "#!lua name=l\nlocal n = 0 local function add() n = n + 1 return n end "
        "redis.register_function('f', function() return add() end)"};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct world world;
        begin(&world, true, 16 << 20);
        struct script_lib *lib = load(&world, codes[i]);
        ASSERT_TRUE(lib->has_state);
        ASSERT_STR(fcall(&world, lib, "f"), ":1\r\n");
        ASSERT_STR(fcall(&world, lib, "f"), ":1\r\n");
        script_lib_free(world.vm, lib);
        end(&world);
    }
}

TEST(a_library_that_cannot_keep_anything_is_not_run_again)
{
    struct world world;
    begin(&world, true, 16 << 20);
    struct script_lib *lib = load(
        &world,
        "#!lua name=l\nlocal k = 'key' local function rec(n) return n == 0 and 0 or rec(n - 1) "
        "end redis.register_function{function_name = 'f', callback = function(keys, args) "
        "return {k, rec(3), #keys, redis.call('ECHO', 'x')} end, flags = {'no-writes'}, "
        "description = 'text'}");
    ASSERT_FALSE(lib->has_state);
    ASSERT_EQ(lib->function_count, 1);
    ASSERT_EQ(lib->function[0].flags, SCRIPT_NO_WRITES);
    ASSERT_BYTES(lib->function[0].text, BYTES("text"));
    ASSERT_STR(fcall(&world, lib, "f"), "*4\r\n$3\r\nkey\r\n:0\r\n:0\r\n$1\r\nx\r\n");
    script_lib_free(world.vm, lib);
    end(&world);
}

TEST(a_library_that_cannot_be_loaded_says_why)
{
    static const struct {
        const char *code, *error;
    } cases[] = {
        {"return 1", "Missing library metadata"},
        {"#!lua name=l", "Invalid library metadata"},
        {"#!lua\n", "Library name was not given"},
        {"#!lua name=a-b\n", "Library names can only contain"},
        {"#!py name=l\n", "Engine 'py' not found"},
        {"#!lua name=l x=1\n", "Invalid metadata value given: x=1"},
        {"#!lua name=l\nbad syntax", "Error compiling function: user_function:2:"},
        {"#!lua name=l\nreturn 1", "No functions registered"},
        {"#!lua name=l\nredis.call('ECHO', 'x')", "nonexistent global variable 'call'"},
        {"#!lua name=l\nreturn math.random()", "nonexistent global variable 'math'"},
        {"#!lua name=l\nredis.register_function('f')", "only applicable to Lua table"},
        {"#!lua name=l\nredis.register_function('f', 1)", "must be a function"},
        {"#!lua name=l\nredis.register_function('f-', function() end)", "can only contain"},
        {"#!lua name=l\nfor i = 1, 2 do redis.register_function('f', function() end) end",
         "already exists in the library"},
        {"#!lua name=l\nredis.register_function{function_name = 'f'}", "must get a callback"},
        {"#!lua name=l\nredis.register_function{flags = {'x'}}", "unknown flag given"}};
    struct world world;
    begin(&world, true, 16 << 20);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct script_host host;
        struct script_lib *lib;
        struct err err = {0};
        (void)run_of(&world, &host);
        ASSERT_RC(script_lib_new(world.vm, &host, bytes_of(cases[i].code, strlen(cases[i].code)),
                                 &lib, &err),
                  RC_INVALID);
        ASSERT_TRUE(strstr(err.text, cases[i].error) != NULL);
    }
    end(&world);
}
