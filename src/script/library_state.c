// SPDX-License-Identifier: Apache-2.0
/* library_state.c - whether a library's functions can keep anything from one call to the next.
 *
 * Lua says what assigns to upvalues in the code that lua_dump() writes. A function of it, all
 * integers and lengths as this machine has them:
 *
 *   source(length ‖ bytes)  line(4)  last line(4)  upvalues(1) parameters(1) vararg(1) stack(1)
 *   count(4)  instructions(4 each; the lowest 6 bits say which one)
 *   count(4)  constants: type(1) ‖ nothing, a boolean(1), a number(8) or a string(length ‖ bytes)
 *   count(4)  functions
 *   count(4)  lines(4 each)   count(4) local names(string ‖ 4 ‖ 4)   count(4) upvalue names(string)
 *
 * What cannot be read counts as state: that is the safe side. */
#include "script/library.h"

#include "base/banned.h"

enum {
    OPCODE_SETUPVAL = 8,
    OPCODE_MASK = 0x3f,
    HEAD_BYTES = 12, /* of the dump */
    DEPTH_MAX = 220, /* of functions in functions: the parser's limit is 200 */
    UPVALUE_DEPTH_MAX = 100,
};

struct code {
    const uint8_t *at, *end;
    bool bad, sets;
};

static const uint8_t *skip(struct code *code, size_t count, size_t each)
{
    const uint8_t *at = code->at;
    size_t left = (size_t)(code->end - at);
    if (code->bad || count > left / each) {
        code->bad = true;
        return NULL;
    }
    code->at += count * each;
    return at;
}

static size_t count_read(struct code *code)
{
    int count = 0;
    const uint8_t *at = skip(code, 1, sizeof count);
    if (at)
        memcpy(&count, at, sizeof count);
    code->bad = code->bad || count < 0;
    return code->bad ? 0 : (size_t)count;
}

static void string_skip(struct code *code)
{
    size_t len = 0;
    const uint8_t *at = skip(code, 1, sizeof len);
    if (at)
        memcpy(&len, at, sizeof len);
    (void)skip(code, len, 1);
}

static void constants_skip(struct code *code)
{
    for (size_t count = count_read(code); count > 0 && !code->bad; count--) {
        const uint8_t *type = skip(code, 1, 1);
        switch (type ? *type : LUA_TNIL) {
        case LUA_TNIL:
            break;
        case LUA_TBOOLEAN:
            (void)skip(code, 1, 1);
            break;
        case LUA_TNUMBER:
            (void)skip(code, 1, sizeof(lua_Number));
            break;
        case LUA_TSTRING:
            string_skip(code);
            break;
        default:
            code->bad = true;
        }
    }
}

static void function_look(struct code *code, unsigned depth)
{
    string_skip(code);
    (void)skip(code, 2, sizeof(int));
    (void)skip(code, 4, 1);
    size_t count = count_read(code);
    const uint8_t *at = skip(code, count, sizeof(uint32_t));
    for (size_t i = 0; at && i < count; i++) {
        uint32_t instruction;
        memcpy(&instruction, at + i * sizeof instruction, sizeof instruction);
        code->sets = code->sets || (instruction & OPCODE_MASK) == OPCODE_SETUPVAL;
    }
    constants_skip(code);
    count = count_read(code);
    code->bad = code->bad || depth > DEPTH_MAX;
    for (; count > 0 && !code->bad; count--)
        function_look(code, depth + 1);
    (void)skip(code, count_read(code), sizeof(int));
    for (count = count_read(code); count > 0 && !code->bad; count--) {
        string_skip(code);
        (void)skip(code, 2, sizeof(int));
    }
    for (count = count_read(code); count > 0 && !code->bad; count--)
        string_skip(code);
}

static int piece_add(lua_State *L, const void *ptr, size_t len, void *to)
{
    (void)L;
    return buf_add(to, ptr, len) ? 0 : 1;
}

bool vm__chunk_sets_upvalues(lua_State *L)
{
    struct buf *dump = vm__scratch(L);
    if (lua_dump(L, piece_add, dump) != 0)
        return true;
    struct code code = {.at = dump->ptr, .end = dump->ptr + dump->len};
    (void)skip(&code, HEAD_BYTES, 1);
    if (!code.bad)
        function_look(&code, 0);
    return code.bad || code.sets || code.at != code.end;
}

/* The function on top; the table at `seen` has those that were looked at. */
static bool has_tables(lua_State *L, int seen, unsigned depth)
{
    if (depth > UPVALUE_DEPTH_MAX || !lua_checkstack(L, 4))
        return true;
    lua_pushvalue(L, -1);
    lua_rawget(L, seen);
    bool is_known = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (is_known)
        return false;
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, seen);
    bool has = false;
    for (int i = 1; !has && lua_getupvalue(L, -1, i); i++) {
        int type = lua_type(L, -1);
        has = type == LUA_TTHREAD || type == LUA_TUSERDATA ||
              (type == LUA_TTABLE && !vm__see_through(L, -1)) ||
              (type == LUA_TFUNCTION && has_tables(L, seen, depth + 1));
        lua_pop(L, 1);
    }
    return has;
}

bool vm__function_has_tables(lua_State *L)
{
    lua_newtable(L);
    lua_insert(L, -2);
    bool has = has_tables(L, lua_gettop(L) - 1, 0);
    lua_remove(L, -2);
    return has;
}
