// SPDX-License-Identifier: Apache-2.0
/* lib_redis.c - redis.*: what a script does in the world. */
#include "script/vm.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "types/number.h"

#include "base/banned.h"

enum { NUMBER_BYTES_MAX = 32 };

/* ---- words ---- */

static bool argv_reserve(struct script_vm *vm, size_t count)
{
    if (count <= vm->argv_cap)
        return true;
    struct bytes *argv = mem_try_realloc(vm->argv, 2 * count * sizeof *argv);
    if (!argv)
        return false;
    vm->argv = argv;
    vm->argv_cap = 2 * count;
    return true;
}

/* Lua's own text of a number has 14 digits, which is too few. */
static size_t number_text(char to[NUMBER_BYTES_MAX], double number)
{
    if (number == floor(number) && fabs(number) < 1e15 && !(number == 0 && signbit(number)))
        return number_int_text(to, (int64_t)number);
    int len = snprintf(to, NUMBER_BYTES_MAX, "%.17g", number);
    return len > 0 ? (size_t)len : 0;
}

/* The arguments as words, borrowed from the stack. NULL: fine; otherwise why not. */
static const char *words_of(lua_State *L, size_t *ret_count)
{
    struct script_vm *vm = vm_of(L);
    size_t count = (size_t)lua_gettop(L);
    if (count == 0)
        return "Please specify at least one argument for this redis lib call";
    buf_cut(&vm->numbers, 0);
    if (!argv_reserve(vm, count) || !buf_reserve(&vm->numbers, count * NUMBER_BYTES_MAX))
        vm__no_memory(L);
    for (size_t i = 0; i < count; i++) {
        int type = lua_type(L, (int)i + 1);
        if (type == LUA_TSTRING) {
            size_t len;
            const char *ptr = lua_tolstring(L, (int)i + 1, &len);
            vm->argv[i] = bytes_of(ptr, len);
        } else if (type == LUA_TNUMBER) {
            char *to = (char *)vm->numbers.ptr + i * NUMBER_BYTES_MAX;
            vm->argv[i] = bytes_of(to, number_text(to, lua_tonumber(L, (int)i + 1)));
        } else {
            return "Lua redis lib command arguments must be strings or integers";
        }
    }
    *ret_count = count;
    return NULL;
}

/* ---- calling ---- */

static int no_run(lua_State *L, const char *what)
{
    lua_pushfstring(L, "%s can only be called inside a script invocation", what);
    vm__error_push(L, lua_tostring(L, -1));
    return lua_error(L);
}

static bool is_inside(lua_State *L)
{
    return vm_of(L)->run != NULL && !vm_of(L)->loading;
}

static int raise(lua_State *L, const char *text)
{
    vm__error_push(L, text);
    return lua_error(L);
}

static int call(lua_State *L, bool raises)
{
    struct script_vm *vm = vm_of(L);
    struct bytes reply;
    size_t count;
    if (!is_inside(L))
        return no_run(L, "redis.call/pcall");
    const char *why = words_of(L, &count);
    if (why) {
        vm__error_push(L, why);
        return raises ? lua_error(L) : 1;
    }
    enum rc rc = vm->host->call(vm->host->arg, vm->argv, count, vm->proto, &reply, &vm->err);
    if (UNLIKELY(rc != RC_OK))
        return vm__stop(L, rc);
    lua_settop(L, 0);
    vm__reply_push(L, reply);
    if (raises && reply.len > 0 && reply.ptr[0] == '-')
        return lua_error(L);
    return 1;
}

static int redis_call(lua_State *L)
{
    return call(L, true);
}

static int redis_pcall(lua_State *L)
{
    return call(L, false);
}

static int redis_acl_check_cmd(lua_State *L)
{
    const struct script_vm *vm = vm_of(L);
    size_t count;
    if (!is_inside(L))
        return no_run(L, "redis.acl_check_cmd");
    const char *why = words_of(L, &count);
    if (why)
        return raise(L, why);
    if (!vm->host->is_command(vm->host->arg, vm->argv, count))
        return raise(L, "Invalid command passed to redis.acl_check_cmd()");
    lua_pushboolean(L, 1); /* who may run scripts may run everything */
    return 1;
}

/* ---- replies ---- */

static bool is_one_text(lua_State *L)
{
    return lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TSTRING;
}

static int redis_error_reply(lua_State *L)
{
    if (!is_one_text(L)) {
        vm__error_push(L, "wrong number or type of arguments");
        return 1;
    }
    const char *text = lua_tostring(L, 1);
    if (text[0] != '-') {
        lua_pushfstring(L, "-%s", text);
        text = lua_tostring(L, -1);
    }
    vm__error_push(L, text);
    return 1;
}

static int redis_status_reply(lua_State *L)
{
    if (!is_one_text(L)) {
        vm__error_push(L, "wrong number or type of arguments");
        return 1;
    }
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "ok");
    return 1;
}

/* ---- others ---- */

static int redis_sha1hex(lua_State *L)
{
    char hex[SHA1_HEX_BYTES + 1];
    size_t len = 0;
    if (lua_gettop(L) != 1)
        return raise(L, "wrong number of arguments");
    const char *text = lua_tolstring(L, 1, &len);
    vm__work(L, len);
    sha1_hex(vm_of(L)->sha1, bytes_of(text ? text : "", len), hex);
    lua_pushstring(L, hex);
    return 1;
}

static int redis_log(lua_State *L)
{
    const struct script_vm *vm = vm_of(L);
    int count = lua_gettop(L);
    if (count < 2)
        return raise(L, "redis.log() requires two arguments or more.");
    if (!lua_isnumber(L, 1))
        return raise(L, "First argument must be a number (log level).");
    lua_Number level = lua_tonumber(L, 1);
    if (!(level >= SCRIPT_LOG_DEBUG && level < SCRIPT_LOG_WARNING + 1))
        return raise(L, "Invalid debug level.");
    struct buf *text = vm__scratch(L);
    bool good = true;
    for (int i = 2; i <= count; i++) {
        size_t len;
        const char *word = lua_tolstring(L, i, &len);
        if (word)
            good = good && (i == 2 || buf_add(text, " ", 1)) && buf_add(text, word, len);
    }
    if (!good)
        vm__no_memory(L);
    if (vm->host)
        vm->host->log(vm->host->arg, (enum script_log_level)level, buf_bytes(text));
    return 0;
}

static int redis_setresp(lua_State *L)
{
    if (!is_inside(L))
        return no_run(L, "redis.setresp");
    if (lua_gettop(L) != 1)
        return raise(L, "redis.setresp() requires one argument.");
    lua_Number proto = lua_tonumber(L, 1);
    if (proto != 2 && proto != 3)
        return raise(L, "RESP version must be 2 or 3.");
    vm_of(L)->proto = proto == 2 ? 2 : 3;
    return 0;
}

enum { REPL_NONE = 0, REPL_AOF = 1, REPL_REPLICA = 2, REPL_ALL = 3 };

/* Rows are what is journaled: there is nothing to choose. */
static int redis_set_repl(lua_State *L)
{
    if (!is_inside(L))
        return no_run(L, "redis.set_repl");
    if (lua_gettop(L) != 1)
        return raise(L, "redis.set_repl() requires two arguments.");
    lua_Number flags = lua_tonumber(L, 1);
    if (!(flags >= REPL_NONE && flags < REPL_ALL + 1))
        return raise(L, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or "
                        "REPL_NONE.");
    return 0;
}

static int redis_replicate_commands(lua_State *L)
{
    lua_pushboolean(L, 1);
    return 1;
}

/* There is no debugger: as in Redis without one. */
static int redis_breakpoint(lua_State *L)
{
    lua_pushboolean(L, 0);
    return 1;
}

static int redis_debug(lua_State *L)
{
    (void)L;
    return 0;
}

/* ---- the table ---- */

static void numbers_add(lua_State *L)
{
    static const struct {
        const char *name;
        int value;
    } numbers[] = {{"LOG_DEBUG", SCRIPT_LOG_DEBUG},
                   {"LOG_VERBOSE", SCRIPT_LOG_VERBOSE},
                   {"LOG_NOTICE", SCRIPT_LOG_NOTICE},
                   {"LOG_WARNING", SCRIPT_LOG_WARNING},
                   {"REDIS_VERSION_NUM", 0x0007000F}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        lua_pushinteger(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    lua_pushliteral(L, "7.0.15");
    lua_setfield(L, -2, "REDIS_VERSION");
    lua_pushcfunction(L, redis_log);
    lua_setfield(L, -2, "log");
}

static void repl_numbers_add(lua_State *L)
{
    static const struct {
        const char *name;
        int value;
    } numbers[] = {{"REPL_NONE", REPL_NONE},
                   {"REPL_AOF", REPL_AOF},
                   {"REPL_SLAVE", REPL_REPLICA},
                   {"REPL_REPLICA", REPL_REPLICA},
                   {"REPL_ALL", REPL_ALL}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        lua_pushinteger(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
}

void vm__redis_open(lua_State *L, bool loading)
{
    static const luaL_Reg functions[] = {{"call", redis_call},
                                         {"pcall", redis_pcall},
                                         {"acl_check_cmd", redis_acl_check_cmd},
                                         {"error_reply", redis_error_reply},
                                         {"status_reply", redis_status_reply},
                                         {"sha1hex", redis_sha1hex},
                                         {"setresp", redis_setresp},
                                         {"set_repl", redis_set_repl},
                                         {NULL, NULL}};
    static const luaL_Reg eval_only[] = {{"replicate_commands", redis_replicate_commands},
                                         {"breakpoint", redis_breakpoint},
                                         {"debug", redis_debug},
                                         {NULL, NULL}};
    lua_newtable(L);
    numbers_add(L);
    if (loading) {
        lua_pushcfunction(L, vm__register_function);
        lua_setfield(L, -2, "register_function");
        return;
    }
    luaL_register(L, NULL, functions);
    repl_numbers_add(L);
    if (!vm_of(L)->for_functions)
        luaL_register(L, NULL, eval_only);
}
