// SPDX-License-Identifier: Apache-2.0
/* lib_string.c - string functions that can take long: patterns and repetition. */
#include "script/pattern.h"

#include "base/banned.h"

/* A pattern ends with its first NUL, as in Lua 5.1. */
static struct pattern pattern_of(lua_State *L, struct bytes text, struct bytes pattern)
{
    return (struct pattern){.L = L,
                            .text = text.ptr,
                            .text_end = text.ptr + text.len,
                            .end = pattern.ptr + strlen((const char *)pattern.ptr)};
}

/* Where to begin: positions count from 1, negative ones from the end. */
static size_t start_of(lua_State *L, int index, size_t len)
{
    ptrdiff_t at = luaL_optinteger(L, index, 1);
    if (at < 0)
        at += (ptrdiff_t)len + 1;
    if (at < 1)
        at = 1;
    return (size_t)at - 1 < len ? (size_t)at - 1 : len;
}

static bool has_specials(struct bytes pattern)
{
    static const char specials[] = "^$*+?.([%-";
    for (size_t i = 0; i < pattern.len; i++)
        if (memchr(specials, pattern.ptr[i], sizeof specials - 1))
            return true;
    return false;
}

static const uint8_t *plain_find(lua_State *L, struct bytes text, struct bytes word)
{
    vm__work(L, text.len);
    if (word.len == 0)
        return text.ptr;
    while (text.len >= word.len) {
        const uint8_t *at = memchr(text.ptr, word.ptr[0], text.len - word.len + 1);
        if (!at)
            return NULL;
        if (memcmp(at, word.ptr, word.len) == 0)
            return at;
        text = bytes_from(text, (size_t)(at - text.ptr) + 1);
    }
    return NULL;
}

static int find_or_match(lua_State *L, bool find)
{
    struct bytes text = vm__bytes(L, 1), word = vm__bytes(L, 2);
    size_t start = start_of(L, 3, text.len);
    if (find && (lua_toboolean(L, 4) || !has_specials(word))) {
        const uint8_t *at = plain_find(L, bytes_from(text, start), word);
        if (!at) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, at - text.ptr + 1);
        lua_pushinteger(L, at - text.ptr + (ptrdiff_t)word.len);
        return 2;
    }
    struct pattern pattern = pattern_of(L, text, word);
    const uint8_t *from = word.ptr, *at = text.ptr + start;
    bool anchored = *from == '^';
    from += anchored;
    do {
        const uint8_t *end = pattern_match(&pattern, at, from);
        if (!end)
            continue;
        if (!find)
            return pattern_push_all(&pattern, at, end);
        lua_pushinteger(L, at - text.ptr + 1);
        lua_pushinteger(L, end - text.ptr);
        return 2 + pattern_push_all(&pattern, NULL, NULL);
    } while (at++ < pattern.text_end && !anchored);
    lua_pushnil(L);
    return 1;
}

static int string_find(lua_State *L)
{
    return find_or_match(L, true);
}

static int string_match(lua_State *L)
{
    return find_or_match(L, false);
}

static int gmatch_next(lua_State *L)
{
    size_t text_len, len;
    const char *text_ptr = lua_tolstring(L, lua_upvalueindex(1), &text_len);
    const char *ptr = lua_tolstring(L, lua_upvalueindex(2), &len);
    struct bytes text = bytes_of(text_ptr, text_len);
    struct pattern pattern = pattern_of(L, text, bytes_of(ptr, len));
    size_t start = (size_t)lua_tointeger(L, lua_upvalueindex(3));
    for (const uint8_t *at = text.ptr + start; at <= pattern.text_end; at++) {
        const uint8_t *end = pattern_match(&pattern, at, (const uint8_t *)ptr);
        if (!end)
            continue;
        lua_pushinteger(L, end - text.ptr + (end == at));
        lua_replace(L, lua_upvalueindex(3));
        return pattern_push_all(&pattern, at, end);
    }
    return 0;
}

static int string_gmatch(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, gmatch_next, 3);
    return 1;
}

/* The text of argument 3, with %1 and so on replaced. */
static void text_add(struct pattern *pattern, luaL_Buffer *to, const uint8_t *at,
                     const uint8_t *end)
{
    size_t len;
    const char *text = lua_tolstring(pattern->L, 3, &len);
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '%') {
            luaL_addchar(to, text[i]);
            continue;
        }
        char next = text[++i]; /* a NUL behind the last */
        if (next < '0' || next > '9') {
            if (i < len)
                luaL_addchar(to, next);
        } else if (next == '0') {
            luaL_addlstring(to, (const char *)at, (size_t)(end - at));
        } else {
            pattern_push(pattern, next - '1', at, end);
            luaL_addvalue(to);
        }
    }
}

static void replacement_add(struct pattern *pattern, luaL_Buffer *to, const uint8_t *at,
                            const uint8_t *end)
{
    lua_State *L = pattern->L;
    switch (lua_type(L, 3)) {
    case LUA_TFUNCTION:
        lua_pushvalue(L, 3);
        lua_call(L, pattern_push_all(pattern, at, end), 1);
        break;
    case LUA_TTABLE:
        pattern_push(pattern, 0, at, end);
        lua_gettable(L, 3);
        break;
    default:
        text_add(pattern, to, at, end);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        lua_pushlstring(L, (const char *)at, (size_t)(end - at));
    } else if (!lua_isstring(L, -1)) {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
    luaL_addvalue(to);
}

static int string_gsub(lua_State *L)
{
    struct bytes text = vm__bytes(L, 1), word = vm__bytes(L, 2);
    int type = lua_type(L, 3);
    luaL_argcheck(L,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    int64_t count_max = luaL_optinteger(L, 4, (lua_Integer)text.len + 1);
    struct pattern pattern = pattern_of(L, text, word);
    const uint8_t *from = word.ptr, *at = text.ptr;
    bool anchored = *from == '^';
    int64_t count = 0;
    luaL_Buffer to;
    from += anchored;
    luaL_buffinit(L, &to);
    while (count < count_max) {
        const uint8_t *end = pattern_match(&pattern, at, from);
        if (end) {
            count++;
            replacement_add(&pattern, &to, at, end);
        }
        if (end && end > at)
            at = end;
        else if (at < pattern.text_end)
            luaL_addchar(&to, (char)*at++);
        else
            break;
        if (anchored)
            break;
    }
    luaL_addlstring(&to, (const char *)at, (size_t)(pattern.text_end - at));
    luaL_pushresult(&to);
    lua_pushinteger(L, (lua_Integer)count);
    return 2;
}

static int string_rep(lua_State *L)
{
    struct bytes text = vm__bytes(L, 1);
    int64_t count = luaL_checkinteger(L, 2);
    if (count <= 0 || text.len == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((uint64_t)count > VM_STRING_BYTES_MAX / text.len)
        return luaL_error(L, "resulting string too large");
    size_t len = text.len * (size_t)count;
    struct buf *to = vm__scratch(L);
    bool good = buf_reserve(to, len) && buf_add_bytes(to, text);
    while (good && to->len < len)
        good = buf_add(to, to->ptr, to->len < len - to->len ? to->len : len - to->len);
    vm__scratch_push(L, good);
    return 1;
}

void vm__string_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"find", string_find},
                                         {"match", string_match},
                                         {"gmatch", string_gmatch},
                                         {"gfind", string_gmatch},
                                         {"gsub", string_gsub},
                                         {"rep", string_rep},
                                         {NULL, NULL}};
    luaL_register(L, NULL, functions);
}
