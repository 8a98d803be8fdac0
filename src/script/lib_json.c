// SPDX-License-Identifier: Apache-2.0
/* lib_json.c - cjson.*: encoding, and the settings; byte by byte what Redis's cjson writes. */
#include "script/json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/banned.h"

enum { NUMBER_BYTES_MAX = 32 };
enum { INVALID_OFF, INVALID_ON, INVALID_NULL };

struct encoding {
    lua_State *L;
    const struct json_settings *settings;
    struct buf *to;
    bool good; /* there was memory */
};

static void add(struct encoding *work, const void *ptr, size_t len)
{
    work->good = work->good && buf_add(work->to, ptr, len);
}

static int refuse(lua_State *L, int index, const char *why)
{
    return luaL_error(L, "Cannot serialise %s: %s", luaL_typename(L, index), why);
}

/* What stands for a byte of a string; 0: itself. */
static size_t escape_of(uint8_t c, char to[8])
{
    static const char letters[] = "\bb\tt\nn\ff\rr\"\"\\\\//";
    for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
        if ((uint8_t)letters[i] == c) {
            to[0] = '\\';
            to[1] = letters[i + 1];
            return 2;
        }
    }
    if (c >= 0x20 && c != 0x7f)
        return 0;
    (void)snprintf(to, 8, "\\u%04x", c);
    return 6;
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != '/' && c != 0x7f;
}

static void string_add(struct encoding *work, int index)
{
    size_t len, from = 0;
    const char *text = lua_tolstring(work->L, index, &len);
    add(work, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        char escape[8];
        if (is_plain((uint8_t)text[i]))
            continue;
        add(work, text + from, i - from);
        add(work, escape, escape_of((uint8_t)text[i], escape));
        from = i + 1;
    }
    add(work, text + from, len - from);
    add(work, "\"", 1);
}

static void number_add(struct encoding *work, int index)
{
    char text[NUMBER_BYTES_MAX];
    double number = lua_tonumber(work->L, index);
    int how = work->settings->encodes_invalid;
    if (!isfinite(number) && how == INVALID_OFF)
        refuse(work->L, index, "must not be NaN or Inf");
    if (!isfinite(number) && how == INVALID_NULL) {
        add(work, "null", 4);
        return;
    }
    if (isnan(number)) {
        add(work, "nan", 3);
        return;
    }
    int len = snprintf(text, sizeof text, "%.*g", work->settings->precision, number);
    add(work, text, (size_t)len);
}

/* How long the array on top is; -1: it is an object. */
static int array_length(struct encoding *work)
{
    lua_State *L = work->L;
    const struct json_settings *settings = work->settings;
    double highest = 0;
    int64_t count = 0;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
        if (!(key >= 1 && key <= INT_MAX && key == floor(key))) {
            lua_pop(L, 1);
            return -1;
        }
        highest = key > highest ? key : highest;
        count++;
    }
    if (settings->sparse_ratio > 0 && highest > (double)count * settings->sparse_ratio &&
        highest > settings->sparse_safe) {
        if (!settings->sparse_convert)
            refuse(L, -1, "excessively sparse array");
        return -1;
    }
    return (int)highest;
}

static void value_add(struct encoding *work, int depth);

static void array_add(struct encoding *work, int depth, int length)
{
    add(work, "[", 1);
    for (int i = 1; i <= length; i++) {
        if (i > 1)
            add(work, ",", 1);
        lua_rawgeti(work->L, -1, i);
        value_add(work, depth);
        lua_pop(work->L, 1);
        vm__work(work->L, 1); /* of nothing there may be very many */
    }
    add(work, "]", 1);
}

static void object_add(struct encoding *work, int depth)
{
    lua_State *L = work->L;
    bool first = true;
    add(work, "{", 1);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (!first)
            add(work, ",", 1);
        first = false;
        if (lua_type(L, -2) == LUA_TNUMBER) {
            add(work, "\"", 1);
            number_add(work, -2);
            add(work, "\":", 2);
        } else if (lua_type(L, -2) == LUA_TSTRING) {
            string_add(work, -2);
            add(work, ":", 1);
        } else {
            refuse(L, -2, "table key must be a number or string");
        }
        value_add(work, depth);
        lua_pop(L, 1);
    }
    add(work, "}", 1);
}

static void table_add(struct encoding *work, int depth)
{
    if (depth > work->settings->encode_depth_max || !lua_checkstack(work->L, 6))
        luaL_error(work->L, "Cannot serialise, excessive nesting (%d)", depth);
    int length = array_length(work);
    if (length > 0)
        array_add(work, depth, length);
    else
        object_add(work, depth);
}

/* The value on top, which stays there. */
static void value_add(struct encoding *work, int depth)
{
    lua_State *L = work->L;
    if (!work->good)
        vm__no_memory(L);
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        string_add(work, -1);
        return;
    case LUA_TNUMBER:
        number_add(work, -1);
        return;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1))
            add(work, "true", 4);
        else
            add(work, "false", 5);
        return;
    case LUA_TTABLE:
        table_add(work, depth + 1);
        return;
    case LUA_TNIL:
        add(work, "null", 4);
        return;
    default:
        if (!lua_islightuserdata(L, -1) || lua_touserdata(L, -1))
            refuse(L, -1, "type not supported");
        add(work, "null", 4);
    }
}

static struct json_settings *settings_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int json_encode(lua_State *L)
{
    luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
    struct encoding work = {.L = L, .settings = settings_of(L), .to = vm__scratch(L), .good = true};
    value_add(&work, 0);
    vm__scratch_push(L, work.good);
    return 1;
}

/* ---- settings ---- */

static struct json_settings *settings_args(lua_State *L, int count)
{
    luaL_argcheck(L, lua_gettop(L) <= count, count + 1, "found too many arguments");
    lua_settop(L, count);
    return settings_of(L);
}

static int int_setting(lua_State *L, int arg, int *setting, int min, int max)
{
    if (!lua_isnil(L, arg)) {
        lua_Integer value = luaL_checkinteger(L, arg);
        if (value < min || value > max)
            return luaL_argerror(
                L, 1, lua_pushfstring(L, "expected integer between %d and %d", min, max));
        *setting = (int)value;
    }
    lua_pushinteger(L, *setting);
    return 1;
}

static int word_setting(lua_State *L, int arg, int *setting, const char *const *words)
{
    if (lua_isboolean(L, arg))
        *setting = lua_toboolean(L, arg);
    else if (!lua_isnil(L, arg))
        *setting = luaL_checkoption(L, arg, NULL, words);
    if (*setting <= 1)
        lua_pushboolean(L, *setting);
    else
        lua_pushstring(L, words[*setting]);
    return 1;
}

static const char *const off_on[] = {"off", "on", NULL};
static const char *const off_on_null[] = {"off", "on", "null", NULL};

static int json_encode_sparse_array(lua_State *L)
{
    struct json_settings *settings = settings_args(L, 3);
    (void)word_setting(L, 1, &settings->sparse_convert, off_on);
    (void)int_setting(L, 2, &settings->sparse_ratio, 0, INT_MAX);
    (void)int_setting(L, 3, &settings->sparse_safe, 0, INT_MAX);
    return 3;
}

static int json_encode_max_depth(lua_State *L)
{
    return int_setting(L, 1, &settings_args(L, 1)->encode_depth_max, 1, INT_MAX);
}

static int json_decode_max_depth(lua_State *L)
{
    return int_setting(L, 1, &settings_args(L, 1)->decode_depth_max, 1, INT_MAX);
}

static int json_encode_number_precision(lua_State *L)
{
    return int_setting(L, 1, &settings_args(L, 1)->precision, 1, 14);
}

static int json_encode_keep_buffer(lua_State *L)
{
    return word_setting(L, 1, &settings_args(L, 1)->keeps_buffer, off_on);
}

static int json_encode_invalid_numbers(lua_State *L)
{
    return word_setting(L, 1, &settings_args(L, 1)->encodes_invalid, off_on_null);
}

static int json_decode_invalid_numbers(lua_State *L)
{
    return word_setting(L, 1, &settings_args(L, 1)->decodes_invalid, off_on);
}

static int json_new(lua_State *L);

/* The functions with the settings on top, which are popped, as a table. */
static void functions_push(lua_State *L)
{
    static const luaL_Reg functions[] = {{"encode", json_encode},
                                         {"decode", json_decode},
                                         {"encode_sparse_array", json_encode_sparse_array},
                                         {"encode_max_depth", json_encode_max_depth},
                                         {"decode_max_depth", json_decode_max_depth},
                                         {"encode_number_precision", json_encode_number_precision},
                                         {"encode_keep_buffer", json_encode_keep_buffer},
                                         {"encode_invalid_numbers", json_encode_invalid_numbers},
                                         {"decode_invalid_numbers", json_decode_invalid_numbers},
                                         {"new", json_new}};
    lua_newtable(L);
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        lua_pushvalue(L, -2);
        lua_pushcclosure(L, functions[i].func, 1);
        lua_setfield(L, -2, functions[i].name);
    }
    lua_remove(L, -2);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_pushliteral(L, "cjson");
    lua_setfield(L, -2, "_NAME");
    lua_pushliteral(L, "2.1.0");
    lua_setfield(L, -2, "_VERSION");
}

static int json_new(lua_State *L)
{
    struct json_settings *settings = lua_newuserdata(L, sizeof *settings);
    *settings = json_settings_default();
    functions_push(L);
    return 1;
}

void vm__json_open(lua_State *L)
{
    struct script_vm *vm = vm_of(L);
    vm->json = json_settings_default();
    lua_pushlightuserdata(L, &vm->json);
    functions_push(L);
}
