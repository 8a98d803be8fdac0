// SPDX-License-Identifier: Apache-2.0
/* lib_base.c - base functions and coroutines: those that catch errors, look past metatables or
 * compile. */
#include "script/vm.h"

#include "base/banned.h"

enum { UNPACK_MAX = 7000 }; /* values on a stack: Lua's own limit is 8,000 */

/* ---- errors ---- */

/* What a script sees of an error that is a table of ours is its text, as before Redis 7. */
static void error_flatten(lua_State *L)
{
    if (!lua_istable(L, -1))
        return;
    lua_pushliteral(L, "err");
    lua_rawget(L, -2);
    if (lua_isstring(L, -1))
        lua_replace(L, -2);
    else
        lua_pop(L, 1);
}

static int base_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    vm_of(L)->running = L;
    if (status != 0) {
        if (vm_of(L)->stop != RC_OK) /* vm.h (1) */
            return lua_error(L);
        error_flatten(L);
    }
    luaL_checkstack(L, 1, "pcall");
    lua_pushboolean(L, status == 0);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* Stands in front of a script's own handler: a stop is not for it. */
static int handler_call(lua_State *L)
{
    lua_settop(L, 1);
    if (vm_of(L)->stop != RC_OK)
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int base_xpcall(lua_State *L)
{
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    lua_pushcclosure(L, handler_call, 1);
    lua_insert(L, 1);
    int status = lua_pcall(L, 0, LUA_MULTRET, 1);
    vm_of(L)->running = L;
    if (status != 0 && vm_of(L)->stop != RC_OK) /* vm.h (1) */
        return lua_error(L);
    lua_pushboolean(L, status == 0);
    lua_replace(L, 1);
    return lua_gettop(L);
}

/* ---- tables ---- */

static int base_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    if (!lua_getmetatable(L, 1)) {
        lua_pushnil(L);
        return 1;
    }
    bool is_protected = lua_type(L, 1) == LUA_TSTRING || vm__see_through(L, 1);
    if (is_protected) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, vm_of(L)->locked);
        return 1;
    }
    lua_pushliteral(L, "__metatable");
    lua_rawget(L, -2);
    if (lua_isnil(L, -1))
        lua_pop(L, 1);
    return 1;
}

static int base_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
    vm__check_writable(L, 1);
    if (luaL_getmetafield(L, 1, "__metatable"))
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

static int base_rawget(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    (void)vm__see_through(L, 1);
    lua_rawget(L, 1);
    return 1;
}

static int base_rawset(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    vm__check_writable(L, 1);
    lua_rawset(L, 1);
    return 1;
}

static int base_next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    (void)vm__see_through(L, 1);
    if (lua_next(L, 1))
        return 2;
    lua_pushnil(L);
    return 1;
}

static int base_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1)); /* next */
    lua_insert(L, 1);
    lua_pushnil(L);
    return 3;
}

static int ipairs_next(lua_State *L)
{
    int i = luaL_checkint(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    i++;
    lua_pushinteger(L, i);
    lua_rawgeti(L, 1, i);
    return lua_isnil(L, -1) ? 0 : 2;
}

static int base_ipairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    (void)vm__see_through(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1)); /* ipairs_next */
    lua_insert(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}

static int base_unpack(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int64_t from = luaL_optint(L, 2, 1);
    int64_t to = lua_isnoneornil(L, 3) ? (int64_t)lua_objlen(L, 1) : luaL_checkint(L, 3);
    if (from > to)
        return 0;
    int64_t count = to - from + 1;
    if (count > UNPACK_MAX || !lua_checkstack(L, (int)count))
        return luaL_error(L, "too many results to unpack");
    for (int64_t i = from; i <= to; i++)
        lua_rawgeti(L, 1, (int)i);
    return (int)count;
}

/* ---- compiling ---- */

/* What vm__load() has left: a function, or nil and a text. */
static int loaded(lua_State *L, int status)
{
    if (status == 0)
        return 1;
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

static int base_loadstring(lua_State *L)
{
    struct bytes text = vm__bytes(L, 1);
    const char *name = luaL_optstring(L, 2, (const char *)text.ptr);
    return loaded(L, vm__load(L, text, name));
}

/* The pieces are collected before the parser begins: no script's code runs inside it. */
static int base_load(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 2);
    const char *name = luaL_optstring(L, 2, "=(load)");
    lua_newtable(L);
    size_t bytes = 0;
    int count = 0;
    for (;;) {
        size_t len;
        lua_pushvalue(L, 1);
        lua_call(L, 0, 1);
        if (lua_isnil(L, -1))
            break;
        if (!lua_isstring(L, -1)) {
            lua_pushnil(L);
            lua_pushliteral(L, "reader function must return a string");
            return 2;
        }
        (void)lua_tolstring(L, -1, &len);
        if (len == 0)
            break;
        bytes += len;
        if (bytes > SCRIPT_TEXT_BYTES_MAX)
            return luaL_error(L, "a script of more than %d bytes", (int)SCRIPT_TEXT_BYTES_MAX);
        lua_rawseti(L, 3, ++count);
    }
    lua_settop(L, 3);
    bool good = true;
    struct buf *text = vm__scratch(L);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, 3, i);
        good = good && buf_add_bytes(text, vm__bytes(L, -1));
        lua_pop(L, 1);
    }
    vm__scratch_push(L, good);
    return loaded(L, vm__load(L, vm__bytes(L, -1), name));
}

/* ---- memory ---- */

/* A script may ask and collect; how the collector works is not its business. */
static int base_collectgarbage(lua_State *L)
{
    static const char *const words[] = {"stop", "restart",  "collect",    "count",
                                        "step", "setpause", "setstepmul", NULL};
    enum { STOP, RESTART, COLLECT, COUNT, STEP, PAUSE };
    int what = luaL_checkoption(L, 1, "collect", words);
    if (what == COUNT) {
        lua_pushnumber(L, (double)lua_gc(L, LUA_GCCOUNT, 0) +
                              (double)lua_gc(L, LUA_GCCOUNTB, 0) / 1024);
        return 1;
    }
    if (what == COLLECT || what == STEP) {
        vm__work(L, vm_of(L)->bytes);
        int result = lua_gc(L, what == STEP ? LUA_GCSTEP : LUA_GCCOLLECT, 0);
        if (what == STEP)
            lua_pushboolean(L, result);
        else
            lua_pushinteger(L, result);
        return 1;
    }
    lua_pushinteger(L, what >= PAUSE ? 200 : 0); /* as it was */
    return 1;
}

void vm__base_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"pcall", base_pcall},
                                         {"xpcall", base_xpcall},
                                         {"getmetatable", base_getmetatable},
                                         {"setmetatable", base_setmetatable},
                                         {"rawget", base_rawget},
                                         {"rawset", base_rawset},
                                         {"next", base_next},
                                         {"unpack", base_unpack},
                                         {"loadstring", base_loadstring},
                                         {"load", base_load},
                                         {"collectgarbage", base_collectgarbage},
                                         {NULL, NULL}};
    luaL_register(L, NULL, functions);
    lua_getfield(L, -1, "next");
    lua_pushcclosure(L, base_pairs, 1);
    lua_setfield(L, -2, "pairs");
    lua_pushcfunction(L, ipairs_next);
    lua_pushcclosure(L, base_ipairs, 1);
    lua_setfield(L, -2, "ipairs");
}

/* ---- coroutines ---- */

enum co_status { CO_RUNNING, CO_SUSPENDED, CO_NORMAL, CO_DEAD };
static const char *const co_names[] = {"running", "suspended", "normal", "dead"};

static enum co_status co_status_of(lua_State *L, lua_State *co)
{
    lua_Debug where;
    if (L == co)
        return CO_RUNNING;
    if (lua_status(co) == LUA_YIELD)
        return CO_SUSPENDED;
    if (lua_status(co) != 0)
        return CO_DEAD;
    if (lua_getstack(co, 0, &where) > 0)
        return CO_NORMAL;
    return lua_gettop(co) == 0 ? CO_DEAD : CO_SUSPENDED;
}

static lua_State *co_check(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argcheck(L, co != NULL, 1, "coroutine expected");
    return co;
}

/* Resumes with the last arg_count values. How many results there are; -1: an error is on top. */
static int co_resume(lua_State *L, lua_State *co, int arg_count)
{
    struct script_vm *vm = vm_of(L);
    enum co_status status = co_status_of(L, co);
    if (!lua_checkstack(co, arg_count + 1))
        return luaL_error(L, "too many arguments to resume");
    if (status != CO_SUSPENDED) {
        lua_pushfstring(L, "cannot resume %s coroutine", co_names[status]);
        return -1;
    }
    lua_xmove(L, co, arg_count);
    lua_setlevel(L, co); /* the depth of C calls goes on counting */
    vm->running = co;
    int ended = lua_resume(co, arg_count);
    vm->running = L;
    if (vm->stop != RC_OK) /* vm.h (1) */
        return vm__stop(L, vm->stop);
    if (ended != 0 && ended != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return -1;
    }
    int count = lua_gettop(co);
    if (!lua_checkstack(L, count + 1))
        return luaL_error(L, "too many results to resume");
    lua_xmove(co, L, count);
    return count;
}

static int co_create(lua_State *L)
{
    luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1, "Lua function expected");
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int co_resume_call(lua_State *L)
{
    lua_State *co = co_check(L);
    int count = co_resume(L, co, lua_gettop(L) - 1);
    lua_pushboolean(L, count >= 0);
    lua_insert(L, count >= 0 ? -(count + 1) : -2);
    return count >= 0 ? count + 1 : 2;
}

static int co_wrap_call(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    int count = co_resume(L, co, lua_gettop(L));
    if (count >= 0)
        return count;
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int co_wrap(lua_State *L)
{
    (void)co_create(L);
    lua_pushcclosure(L, co_wrap_call, 1);
    return 1;
}

static int co_yield (lua_State *L)
{
    return lua_yield(L, lua_gettop(L));
}

static int co_status(lua_State *L)
{
    lua_pushstring(L, co_names[co_status_of(L, co_check(L))]);
    return 1;
}

static int co_running(lua_State *L)
{
    if (lua_pushthread(L) || L == vm_of(L)->L)
        lua_pushnil(L);
    return 1;
}

void vm__coroutine_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"create", co_create}, {"resume", co_resume_call}, {"wrap", co_wrap}, {"yield", co_yield },
        {"status", co_status}, {"running", co_running},    {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
}
