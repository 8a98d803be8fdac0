// SPDX-License-Identifier: Apache-2.0
/* lib_msgpack.c - cmsgpack.*: MessagePack as Redis writes and reads it.
 *
 * A table whose keys are 1..n is an array, any other a map. Numbers are the shortest integer, a
 * float if nothing is lost, else a double. Tables nested deeper than 16 become nil. */
#include "script/vm.h"

#include <limits.h>
#include <math.h>

#include "base/codec.h"

#include "base/banned.h"

enum { PACK_DEPTH_MAX = 16 };

/* ---- packing ---- */

static bool head_add(struct buf *to, uint8_t mark, uint64_t value, size_t bytes)
{
    uint8_t head[9], word[8];
    head[0] = mark;
    be64_put(word, value);
    memcpy(head + 1, word + 8 - bytes, bytes);
    return buf_add(to, head, 1 + bytes);
}

/* A length in the byte itself if it is below `small`, else in 1 (where there is such a form), 2 or
 * 4. */
static bool length_add(struct buf *to, uint64_t len, uint8_t fixed, uint64_t small, uint8_t one,
                       uint8_t two)
{
    if (len < small)
        return head_add(to, (uint8_t)(fixed | len), 0, 0);
    if (one && len <= UINT8_MAX)
        return head_add(to, one, len, 1);
    if (len <= UINT16_MAX)
        return head_add(to, two, len, 2);
    return head_add(to, two + 1, len, 4);
}

static bool int_add(struct buf *to, int64_t value)
{
    uint64_t word = (uint64_t)value;
    if (value >= -32 && value <= 127)
        return head_add(to, (uint8_t)value, 0, 0);
    if (value >= 0) {
        if (value <= UINT8_MAX)
            return head_add(to, 0xcc, word, 1);
        if (value <= UINT16_MAX)
            return head_add(to, 0xcd, word, 2);
        return value <= UINT32_MAX ? head_add(to, 0xce, word, 4) : head_add(to, 0xcf, word, 8);
    }
    if (value >= INT8_MIN)
        return head_add(to, 0xd0, word, 1);
    if (value >= INT16_MIN)
        return head_add(to, 0xd1, word, 2);
    return value >= INT32_MIN ? head_add(to, 0xd2, word, 4) : head_add(to, 0xd3, word, 8);
}

static bool number_add(struct buf *to, double number)
{
    uint64_t word;
    uint32_t half;
    if (number >= -0x1p63 && number < 0x1p63 && (double)(int64_t)number == number)
        return int_add(to, (int64_t)number);
    float single = (float)number;
    if ((double)single == number) {
        memcpy(&half, &single, sizeof half);
        return head_add(to, 0xca, half, 4);
    }
    memcpy(&word, &number, sizeof word);
    return head_add(to, 0xcb, word, 8);
}

/* Whether the keys of the table on top are 1..n; *ret_count: how many there are. */
static bool is_array(lua_State *L, size_t *ret_count)
{
    size_t count = 0;
    double highest = 0;
    bool is = true;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
        is = is && key > 0 && key <= INT_MAX && key == floor(key);
        highest = key > highest ? key : highest;
        count++;
    }
    *ret_count = count;
    return is && highest == (double)count;
}

static bool value_add(lua_State *L, struct buf *to, unsigned depth);

/* The table on top stays there. */
static bool table_add(lua_State *L, struct buf *to, unsigned depth)
{
    size_t count;
    luaL_checkstack(L, 4, "a table");
    bool array = is_array(L, &count);
    if (array) {
        bool good = length_add(to, count, 0x90, 16, 0, 0xdc);
        for (size_t i = 1; i <= count && good; i++) {
            lua_rawgeti(L, -1, (int)i);
            good = value_add(L, to, depth + 1);
        }
        return good;
    }
    bool good = length_add(to, count, 0x80, 16, 0, 0xde);
    lua_pushnil(L);
    while (good && lua_next(L, -2)) {
        lua_pushvalue(L, -2);
        good = value_add(L, to, depth + 1) && value_add(L, to, depth + 1);
    }
    return good;
}

/* Adds the value on top, and pops it. False: no memory. */
static bool value_add(lua_State *L, struct buf *to, unsigned depth)
{
    size_t len;
    const char *text;
    bool good;
    int type = lua_type(L, -1);
    if (type == LUA_TTABLE && depth == PACK_DEPTH_MAX)
        type = LUA_TNIL;
    switch (type) {
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &len);
        good = length_add(to, len, 0xa0, 32, 0xd9, 0xda) && buf_add(to, text, len);
        break;
    case LUA_TBOOLEAN:
        good = head_add(to, lua_toboolean(L, -1) ? 0xc3 : 0xc2, 0, 0);
        break;
    case LUA_TNUMBER:
        good = number_add(to, lua_tonumber(L, -1));
        break;
    case LUA_TTABLE:
        good = table_add(L, to, depth);
        break;
    default:
        good = head_add(to, 0xc0, 0, 0);
    }
    if (good)
        lua_pop(L, 1);
    return good;
}

static int msgpack_pack(lua_State *L)
{
    int count = lua_gettop(L);
    if (count == 0)
        return luaL_argerror(L, 0, "MessagePack pack needs input.");
    luaL_checkstack(L, 2, "Too many arguments for MessagePack pack.");
    struct buf *to = vm__scratch(L);
    bool good = true;
    for (int i = 1; i <= count && good; i++) {
        lua_pushvalue(L, i);
        good = value_add(L, to, 0);
    }
    vm__scratch_push(L, good);
    return 1;
}

/* ---- unpacking ---- */

static struct bytes take(lua_State *L, struct bytes *from, size_t len)
{
    if (len > from->len)
        luaL_error(L, "Missing bytes in input.");
    struct bytes taken = bytes_of(from->ptr, len);
    *from = bytes_from(*from, len);
    return taken;
}

static uint64_t number_take(lua_State *L, struct bytes *from, size_t bytes)
{
    struct bytes text = take(L, from, bytes);
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | text.ptr[i];
    return number;
}

static void text_push(lua_State *L, struct bytes *from, size_t len)
{
    struct bytes text = take(L, from, len);
    lua_pushlstring(L, (const char *)text.ptr, text.len);
}

static void value_push(lua_State *L, struct bytes *from);

static void array_push(lua_State *L, struct bytes *from, uint64_t count)
{
    lua_newtable(L);
    for (uint64_t i = 1; i <= count; i++) {
        value_push(L, from);
        lua_rawseti(L, -2, (int)i);
    }
}

static void map_push(lua_State *L, struct bytes *from, uint64_t count)
{
    lua_newtable(L);
    for (; count > 0; count--) {
        value_push(L, from);
        if (lua_isnil(L, -1))
            luaL_error(L, "table index is nil");
        if (lua_type(L, -1) == LUA_TNUMBER && isnan(lua_tonumber(L, -1)))
            luaL_error(L, "table index is NaN");
        value_push(L, from);
        lua_rawset(L, -3);
    }
}

static void float_push(lua_State *L, struct bytes *from, size_t bytes)
{
    uint64_t word = number_take(L, from, bytes);
    uint32_t half = (uint32_t)word;
    float single;
    double number;
    memcpy(&single, &half, sizeof single);
    memcpy(&number, &word, sizeof number);
    lua_pushnumber(L, bytes == sizeof single ? (double)single : number);
}

/* Values whose first byte holds a part of them. */
static void fixed_push(lua_State *L, struct bytes *from, uint8_t mark)
{
    if (mark < 0x80)
        lua_pushinteger(L, mark);
    else if (mark >= 0xe0)
        lua_pushinteger(L, (int8_t)mark);
    else if (mark >= 0xa0 && mark < 0xc0)
        text_push(L, from, mark & 0x1f);
    else if (mark < 0x90)
        map_push(L, from, mark & 0xf);
    else if (mark < 0xa0)
        array_push(L, from, mark & 0xf);
    else
        luaL_error(L, "Bad data format in input.");
}

static void value_push(lua_State *L, struct bytes *from)
{
    luaL_checkstack(L, 3,
                    "too many return values at once; "
                    "use unpack_one or unpack_limit instead.");
    uint8_t mark = (uint8_t)number_take(L, from, 1);
    switch (mark) {
    case 0xc0:
        lua_pushnil(L);
        break;
    case 0xc2:
    case 0xc3:
        lua_pushboolean(L, mark & 1);
        break;
    case 0xca:
    case 0xcb:
        float_push(L, from, mark == 0xca ? 4 : 8);
        break;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: /* of 8 bytes: as if it had a sign, as Redis */
        lua_pushnumber(L, (lua_Number)(int64_t)number_take(L, from, (size_t)1 << (mark - 0xcc)));
        break;
    case 0xd0:
        lua_pushnumber(L, (int8_t)number_take(L, from, 1));
        break;
    case 0xd1:
        lua_pushnumber(L, (int16_t)number_take(L, from, 2));
        break;
    case 0xd2:
        lua_pushnumber(L, (int32_t)number_take(L, from, 4));
        break;
    case 0xd3:
        lua_pushnumber(L, (lua_Number)(int64_t)number_take(L, from, 8));
        break;
    case 0xd9:
    case 0xda:
    case 0xdb:
        text_push(L, from, (size_t)number_take(L, from, (size_t)1 << (mark - 0xd9)));
        break;
    case 0xdc:
    case 0xdd:
        array_push(L, from, number_take(L, from, mark == 0xdc ? 2 : 4));
        break;
    case 0xde:
    case 0xdf:
        map_push(L, from, number_take(L, from, mark == 0xde ? 2 : 4));
        break;
    default:
        fixed_push(L, from, mark);
    }
}

/* At most `limit` values from `offset` on; limit 0: all of them, and no offset is returned. */
static int unpack(lua_State *L, lua_Integer limit, lua_Integer offset, bool tells_offset)
{
    struct bytes text = vm__bytes(L, 1);
    lua_settop(L, 1);
    if (offset < 0 || limit < 0)
        return luaL_error(L, "Invalid request to unpack with offset of %d and limit of %d.",
                          (int)offset, (int)text.len);
    if ((size_t)offset > text.len)
        return luaL_error(L, "Start offset %d greater than input length %d.", (int)offset,
                          (int)text.len);
    struct bytes left = bytes_from(text, (size_t)offset);
    int count = 0;
    while (left.len > 0 && (count < limit || !tells_offset)) {
        value_push(L, &left);
        count++;
    }
    vm__work(L, text.len - left.len);
    if (!tells_offset)
        return count;
    luaL_checkstack(L, 1, "an offset");
    lua_pushinteger(L, left.len == 0 ? -1 : (lua_Integer)(text.len - left.len));
    lua_insert(L, 2);
    return count + 1;
}

static int msgpack_unpack(lua_State *L)
{
    return unpack(L, 0, 0, false);
}

static int msgpack_unpack_one(lua_State *L)
{
    return unpack(L, 1, luaL_optinteger(L, 2, 0), true);
}

static int msgpack_unpack_limit(lua_State *L)
{
    lua_Integer limit = luaL_checkinteger(L, 2), offset = luaL_optinteger(L, 3, 0);
    return unpack(L, limit, offset, limit != 0 || offset != 0);
}

void vm__msgpack_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"pack", msgpack_pack},
                                         {"unpack", msgpack_unpack},
                                         {"unpack_one", msgpack_unpack_one},
                                         {"unpack_limit", msgpack_unpack_limit},
                                         {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    lua_pushliteral(L, "cmsgpack");
    lua_setfield(L, -2, "_NAME");
    lua_pushliteral(L, "lua-cmsgpack 0.4.0");
    lua_setfield(L, -2, "_VERSION");
}
