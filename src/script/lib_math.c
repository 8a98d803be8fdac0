// SPDX-License-Identifier: Apache-2.0
/* lib_math.c - math.random as Redis has it: the numbers of lrand48(), whatever the machine. */
#include "script/vm.h"

#include <math.h>

#include "base/banned.h"

#define RANDOM_MAX 2147483647.0

/* POSIX's linear congruential generator: 48 bits, of which the upper 31 are given. */
static uint32_t random_next(struct script_vm *vm)
{
    vm->random = (vm->random * UINT64_C(0x5DEECE66D) + 0xB) & ((UINT64_C(1) << 48) - 1);
    return (uint32_t)(vm->random >> 17);
}

static int math_random(lua_State *L)
{
    double part = (double)(random_next(vm_of(L)) % (uint32_t)RANDOM_MAX) / RANDOM_MAX;
    switch (lua_gettop(L)) {
    case 0:
        lua_pushnumber(L, part);
        return 1;
    case 1: {
        int high = luaL_checkint(L, 1);
        luaL_argcheck(L, high >= 1, 1, "interval is empty");
        lua_pushnumber(L, floor(part * high) + 1);
        return 1;
    }
    case 2: {
        int low = luaL_checkint(L, 1), high = luaL_checkint(L, 2);
        luaL_argcheck(L, low <= high, 2, "interval is empty");
        lua_pushnumber(L, floor(part * ((double)high - low + 1)) + low);
        return 1;
    }
    default:
        return luaL_error(L, "wrong number of arguments");
    }
}

static int math_randomseed(lua_State *L)
{
    uint32_t seed = (uint32_t)luaL_checkint(L, 1);
    vm_of(L)->random = (uint64_t)seed << 16 | 0x330E;
    return 0;
}

void vm__math_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"random", math_random}, {"randomseed", math_randomseed}, {NULL, NULL}};
    luaL_register(L, NULL, functions);
}
