// SPDX-License-Identifier: Apache-2.0
/* lib_bit.c - bit.*: operations on 32 bits, as LuaBitOp and Redis have them. */
#include "script/vm.h"

#include "base/codec.h"

#include "base/banned.h"

/* The number that makes a double's last bit be 1: its low 32 bits are then those of the integer,
 * rounded to even, and of what is larger the lowest 32. */
#define BIT_MAGIC 6755399441055744.0

static uint32_t bits_of(lua_State *L, int index)
{
    double shifted = luaL_checknumber(L, index) + BIT_MAGIC;
    uint64_t word;
    memcpy(&word, &shifted, sizeof word);
    return (uint32_t)word;
}

static int bits_push(lua_State *L, uint32_t bits)
{
    lua_pushinteger(L, (int32_t)bits);
    return 1;
}

static int bit_tobit(lua_State *L)
{
    return bits_push(L, bits_of(L, 1));
}

static int bit_bnot(lua_State *L)
{
    return bits_push(L, ~bits_of(L, 1));
}

static int bit_band(lua_State *L)
{
    uint32_t bits = bits_of(L, 1);
    for (int i = lua_gettop(L); i > 1; i--)
        bits &= bits_of(L, i);
    return bits_push(L, bits);
}

static int bit_bor(lua_State *L)
{
    uint32_t bits = bits_of(L, 1);
    for (int i = lua_gettop(L); i > 1; i--)
        bits |= bits_of(L, i);
    return bits_push(L, bits);
}

static int bit_bxor(lua_State *L)
{
    uint32_t bits = bits_of(L, 1);
    for (int i = lua_gettop(L); i > 1; i--)
        bits ^= bits_of(L, i);
    return bits_push(L, bits);
}

static int bit_lshift(lua_State *L)
{
    return bits_push(L, bits_of(L, 1) << (bits_of(L, 2) & 31));
}

static int bit_rshift(lua_State *L)
{
    return bits_push(L, bits_of(L, 1) >> (bits_of(L, 2) & 31));
}

static int bit_arshift(lua_State *L)
{
    return bits_push(L, (uint32_t)((int32_t)bits_of(L, 1) >> (bits_of(L, 2) & 31)));
}

static uint32_t rotated(uint32_t bits, uint32_t by)
{
    by &= 31;
    return by ? bits << by | bits >> (32 - by) : bits;
}

static int bit_rol(lua_State *L)
{
    return bits_push(L, rotated(bits_of(L, 1), bits_of(L, 2)));
}

static int bit_ror(lua_State *L)
{
    return bits_push(L, rotated(bits_of(L, 1), 32 - (bits_of(L, 2) & 31)));
}

static int bit_bswap(lua_State *L)
{
    return bits_push(L, __builtin_bswap32(bits_of(L, 1)));
}

/* So many digits, in capitals if the count is negative. */
static int bit_tohex(lua_State *L)
{
    uint32_t bits = bits_of(L, 1);
    int64_t count = lua_isnoneornil(L, 2) ? 8 : (int32_t)bits_of(L, 2);
    const char *digits = count < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[8];
    count = count < 0 ? -count : count;
    if (count > 8)
        count = 8;
    for (int64_t i = count; i-- > 0; bits >>= 4)
        text[i] = digits[bits & 15];
    lua_pushlstring(L, text, (size_t)count);
    return 1;
}

void vm__bit_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"tobit", bit_tobit},
                                         {"bnot", bit_bnot},
                                         {"band", bit_band},
                                         {"bor", bit_bor},
                                         {"bxor", bit_bxor},
                                         {"lshift", bit_lshift},
                                         {"rshift", bit_rshift},
                                         {"arshift", bit_arshift},
                                         {"rol", bit_rol},
                                         {"ror", bit_ror},
                                         {"bswap", bit_bswap},
                                         {"tohex", bit_tohex},
                                         {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
}
