// SPDX-License-Identifier: Apache-2.0
/* sandbox.c - what scripts can reach: global names, and tables that they cannot change.
 *
 * A protected table is an empty one. Its metatable has the real one as __index, an error as
 * __newindex, and knows the real one by a key of ours (its address, which no script can name). So
 * reading costs one lookup more and no call, and writing is an error. Functions that get past
 * metatables are ours (lib_base.c, lib_table.c) and ask here. */
#include "script/vm.h"

#include "base/banned.h"

static const char real_key; /* its address is the key */

static void *key_of_real(void)
{
    return (void *)&real_key;
}

bool vm__see_through(lua_State *L, int index)
{
    if (!lua_istable(L, index) || !lua_getmetatable(L, index))
        return false;
    lua_pushlightuserdata(L, key_of_real());
    lua_rawget(L, -2);
    bool is = lua_istable(L, -1);
    if (is) {
        lua_pushvalue(L, -1);
        lua_replace(L, index > 0 ? index : index - 3);
    }
    lua_pop(L, 2);
    return is;
}

int vm__readonly(lua_State *L)
{
    lua_pushliteral(L, "Attempt to modify a readonly table");
    return lua_error(L);
}

void vm__check_writable(lua_State *L, int index)
{
    if (!lua_istable(L, index) || !lua_getmetatable(L, index))
        return;
    lua_pushlightuserdata(L, key_of_real());
    lua_rawget(L, -2);
    if (lua_istable(L, -1))
        vm__readonly(L);
    lua_pop(L, 2);
}

/* __newindex: an assignment in a script, whose line is told. */
static int assignment_refuse(lua_State *L)
{
    return luaL_error(L, "Attempt to modify a readonly table");
}

/* __index of global names, behind those that are there. */
static int name_missing(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING || lua_type(L, 2) == LUA_TNUMBER
                           ? lua_tostring(L, 2)
                           : luaL_typename(L, 2);
    return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", name);
}

/* The table on top is replaced by a protected one. */
static void protect(lua_State *L)
{
    lua_newtable(L); /* what scripts see */
    lua_newtable(L); /* its metatable */
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, assignment_refuse);
    lua_setfield(L, -2, "__newindex");
    lua_pushlightuserdata(L, key_of_real());
    lua_pushvalue(L, -4);
    lua_rawset(L, -3);
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

static void missing_is_error(lua_State *L) /* of the table on top */
{
    lua_newtable(L);
    lua_pushcfunction(L, name_missing);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

/* ---- the parts ---- */

/* Opens a library of Lua's own; its table is left on the stack. */
static void stock_open(lua_State *L, lua_CFunction open, const char *name)
{
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
    lua_getglobal(L, name[0] ? name : "_G");
}

/* From the table below the top one to the top one. */
static void names_copy(lua_State *L, const char *const *name)
{
    for (; *name; name++) {
        lua_getfield(L, -2, *name);
        ASSERT(!lua_isnil(L, -1));
        lua_setfield(L, -2, *name);
    }
}

/* What is kept of one of Lua's libraries, and what we put in its place; left on the stack. */
static void part_open(lua_State *L, lua_CFunction open, const char *name, const char *const *kept,
                      void (*ours)(lua_State *L))
{
    stock_open(L, open, name);
    lua_newtable(L);
    names_copy(L, kept);
    ours(L);
    lua_remove(L, -2);
}

static const char *const base_kept[] = {"assert", "error",    "tonumber", "tostring", "type",
                                        "select", "rawequal", "gcinfo",   "_VERSION", NULL};
static const char *const string_kept[] = {"byte",  "char",    "format", "len", "lower",
                                          "upper", "reverse", "sub",    NULL};
static const char *const table_kept[] = {"concat", "getn", "maxn", NULL};
static const char *const math_kept[] = {
    "abs",   "acos", "asin",  "atan", "atan2", "ceil", "cos",   "cosh", "deg",  "exp",
    "floor", "fmod", "frexp", "huge", "ldexp", "log",  "log10", "max",  "min",  "mod",
    "modf",  "pi",   "pow",   "rad",  "sin",   "sinh", "sqrt",  "tan",  "tanh", NULL};

/* The table on top becomes a name of the table below it; protected. */
static void library_add(lua_State *L, const char *name)
{
    protect(L);
    lua_setfield(L, -2, name);
}

/* "text":upper() finds its functions where string.upper is. No script gets this metatable
 * (lib_base.c). */
static void string_metatable_set(lua_State *L)
{
    lua_pushliteral(L, "");
    lua_newtable(L);
    lua_getfield(L, -3, "string");
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

static void globals_open(lua_State *L, struct script_vm *vm)
{
    part_open(L, luaopen_base, "", base_kept, vm__base_open);
    vm__coroutine_open(L);
    library_add(L, "coroutine");
    part_open(L, luaopen_string, LUA_STRLIBNAME, string_kept, vm__string_open);
    library_add(L, "string");
    part_open(L, luaopen_table, LUA_TABLIBNAME, table_kept, vm__table_open);
    library_add(L, "table");
    part_open(L, luaopen_math, LUA_MATHLIBNAME, math_kept, vm__math_open);
    library_add(L, "math");
    vm__redis_open(L, false);
    library_add(L, "redis");
    vm__bit_open(L);
    library_add(L, "bit");
    vm__struct_open(L);
    library_add(L, "struct");
    vm__msgpack_open(L);
    library_add(L, "cmsgpack");
    vm__json_open(L);
    library_add(L, "cjson");
    string_metatable_set(L);
    missing_is_error(L);
    lua_pushvalue(L, -1);
    vm->globals = luaL_ref(L, LUA_REGISTRYINDEX);
}

void vm__sandbox_open(lua_State *L)
{
    struct script_vm *vm = vm_of(L);
    globals_open(L, vm);
    int globals = lua_gettop(L);
    lua_pushvalue(L, globals);
    protect(L);
    int environment = lua_gettop(L);
    lua_getmetatable(L, environment);
    vm->environment_meta = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "_G");
    lua_pushvalue(L, environment);
    lua_rawset(L, globals);
    lua_pushvalue(L, environment);
    lua_replace(L, LUA_GLOBALSINDEX);
    lua_pushvalue(L, environment);
    vm->environment = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    protect(L);
    vm->locked = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L); /* the global names of a library that is loaded */
    vm__redis_open(L, true);
    missing_is_error(L);
    library_add(L, "redis");
    missing_is_error(L);
    vm->library_api = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_settop(L, 0);
}

void vm__globals_for_loading(struct script_vm *vm, bool loading)
{
    lua_State *L = vm->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm->environment_meta);
    lua_pushliteral(L, "__index");
    lua_rawgeti(L, LUA_REGISTRYINDEX, loading ? vm->library_api : vm->globals);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}
