// SPDX-License-Identifier: Apache-2.0
/* lib_table.c - table functions that write, with bounds on how much they move. */
#include "script/vm.h"

#include <math.h>

#include "base/banned.h"

enum { SLOT_BYTES = 16 }; /* what moving an element counts as work */

static int table_size(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    return (int)lua_objlen(L, 1);
}

static int table_insert(lua_State *L)
{
    int end = table_size(L) + 1, at;
    vm__check_writable(L, 1);
    switch (lua_gettop(L)) {
    case 2:
        at = end;
        break;
    case 3:
        at = luaL_checkint(L, 2);
        if (at < 1) /* Lua would move everything down to there */
            return luaL_argerror(L, 2, "position out of bounds");
        if (at > end)
            end = at;
        vm__work(L, (size_t)(end - at) * SLOT_BYTES);
        for (int i = end; i > at; i--) {
            lua_rawgeti(L, 1, i - 1);
            lua_rawseti(L, 1, i);
        }
        break;
    default:
        return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_rawseti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L)
{
    int end = table_size(L);
    int at = luaL_optint(L, 2, end);
    vm__check_writable(L, 1);
    if (at < 1 || at > end)
        return 0;
    vm__work(L, (size_t)(end - at) * SLOT_BYTES);
    lua_rawgeti(L, 1, at);
    for (; at < end; at++) {
        lua_rawgeti(L, 1, at + 1);
        lua_rawseti(L, 1, at);
    }
    lua_pushnil(L);
    lua_rawseti(L, 1, end);
    return 1;
}

/* Lua's own, and how much it will look at. */
static int table_sort(lua_State *L)
{
    size_t count = (size_t)table_size(L);
    vm__check_writable(L, 1);
    if (count > 1)
        vm__work(L, (size_t)((double)count * log2((double)count)) * SLOT_BYTES);
    lua_settop(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 0);
    return 0;
}

static int table_foreach(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    (void)vm__see_through(L, 1);
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pushvalue(L, 2);
        lua_pushvalue(L, -3);
        lua_pushvalue(L, -3);
        lua_call(L, 2, 1);
        if (!lua_isnil(L, -1))
            return 1;
        lua_pop(L, 2);
    }
    return 0;
}

static int table_foreachi(lua_State *L)
{
    int count = table_size(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, 2);
        lua_pushinteger(L, i);
        lua_rawgeti(L, 1, i);
        lua_call(L, 2, 1);
        if (!lua_isnil(L, -1))
            return 1;
        lua_pop(L, 1);
    }
    return 0;
}

static int table_setn(lua_State *L)
{
    return luaL_error(L, "'setn' is obsolete");
}

void vm__table_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"insert", table_insert},   {"remove", table_remove},
                                         {"foreach", table_foreach}, {"foreachi", table_foreachi},
                                         {"setn", table_setn},       {NULL, NULL}};
    luaL_register(L, NULL, functions);
    lua_getfield(L, -2, "sort");
    lua_pushcclosure(L, table_sort, 1);
    lua_setfield(L, -2, "sort");
}
