// SPDX-License-Identifier: Apache-2.0
/* reply.c - a command's reply becomes a Lua value, and a script's value becomes a reply.
 *
 * The reply of a command is read where it was written, once. It is our own, and read as if it were
 * not: a length is followed only as far as there are bytes.
 *
 *   RESP2 and 3     Lua                        RESP3       Lua
 *   integer         number                     map         {map = {...}}
 *   bulk            string                     set         {set = {element = true}}
 *   array           table                      double      {double = number}
 *   status          {ok = text}                null        nil
 *   error           {err = text}               boolean     boolean
 *   null            false                      big number  {big_number = text}
 *                                              verbatim    {verbatim_string = {format, string}} */
#include "script/vm.h"

#include <math.h>
#include <stdlib.h>

#include "types/number.h"

#include "base/banned.h"

enum { REPLY_DEPTH_MAX = 100, DOUBLE_BYTES_MAX = 64 };

/* ---- from a reply ---- */

struct reading {
    const uint8_t *at, *end;
    unsigned depth;
};

static int reply_bad(lua_State *L)
{
    return luaL_error(L, "a command's reply cannot be read");
}

/* The line behind the mark, without its end. */
static struct bytes line_read(lua_State *L, struct reading *from)
{
    const uint8_t *start = from->at;
    const uint8_t *end = memchr(start, '\r', (size_t)(from->end - start));
    if (!end || from->end - end < 2)
        reply_bad(L);
    from->at = end + 2;
    return bytes_of(start, (size_t)(end - start));
}

static int64_t number_read(lua_State *L, struct reading *from)
{
    int64_t number;
    if (!number_int(line_read(L, from), &number))
        reply_bad(L);
    return number;
}

static struct bytes bulk_read(lua_State *L, struct reading *from, int64_t len)
{
    if (from->end - from->at < 2 || len < 0 || len > from->end - from->at - 2)
        reply_bad(L);
    struct bytes bulk = bytes_of(from->at, (size_t)len);
    from->at += len + 2;
    return bulk;
}

static void bytes_push(lua_State *L, struct bytes bytes)
{
    lua_pushlstring(L, (const char *)bytes.ptr, bytes.len);
}

/* {name = what is on top} */
static void wrap(lua_State *L, const char *name)
{
    lua_createtable(L, 0, 1);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
}

static void value_push(lua_State *L, struct reading *from);

/* How many elements follow: each takes at least three bytes. -1: it is a null. */
static int count_read(lua_State *L, struct reading *from, int each)
{
    int64_t count = number_read(L, from);
    if (count < -1 || count > (from->end - from->at) / 3 / each)
        reply_bad(L);
    return (int)count;
}

static void array_push(lua_State *L, struct reading *from)
{
    int count = count_read(L, from, 1);
    if (count < 0) {
        lua_pushboolean(L, 0);
        return;
    }
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        value_push(L, from);
        lua_rawseti(L, -2, i);
    }
}

/* A key that is nil, or no number, cannot be one of a table. */
static void key_check(lua_State *L)
{
    if (lua_isnil(L, -1) || (lua_isnumber(L, -1) && isnan(lua_tonumber(L, -1))))
        reply_bad(L);
}

static void map_push(lua_State *L, struct reading *from, bool is_set)
{
    int count = count_read(L, from, is_set ? 1 : 2);
    lua_newtable(L);
    for (int i = 0; i < count; i++) {
        value_push(L, from);
        key_check(L);
        if (is_set)
            lua_pushboolean(L, 1);
        else
            value_push(L, from);
        lua_rawset(L, -3);
    }
    wrap(L, is_set ? "set" : "map");
}

static void double_push(lua_State *L, struct reading *from)
{
    char text[DOUBLE_BYTES_MAX], *end;
    struct bytes line = line_read(L, from);
    if (line.len == 0 || line.len >= sizeof text)
        reply_bad(L);
    memcpy(text, line.ptr, line.len);
    text[line.len] = 0;
    double value = strtod(text, &end);
    if (*end)
        reply_bad(L);
    lua_pushnumber(L, value);
    wrap(L, "double");
}

static void verbatim_push(lua_State *L, struct reading *from)
{
    struct bytes bulk = bulk_read(L, from, number_read(L, from));
    if (bulk.len < 4)
        reply_bad(L);
    lua_createtable(L, 0, 2);
    bytes_push(L, bytes_of(bulk.ptr, 3));
    lua_setfield(L, -2, "format");
    bytes_push(L, bytes_from(bulk, 4));
    lua_setfield(L, -2, "string");
    wrap(L, "verbatim_string");
}

static void bulk_push(lua_State *L, struct reading *from)
{
    int64_t len = number_read(L, from);
    if (len == -1)
        lua_pushboolean(L, 0);
    else
        bytes_push(L, bulk_read(L, from, len));
}

static void error_push(lua_State *L, struct bytes line)
{
    lua_pushliteral(L, "-"); /* it has its code */
    bytes_push(L, line);
    lua_concat(L, 2);
    vm__error_push(L, lua_tostring(L, -1));
    lua_remove(L, -2);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "ignore_error_stats_update");
}

static void value_push(lua_State *L, struct reading *from)
{
    if (from->at == from->end || ++from->depth > REPLY_DEPTH_MAX)
        reply_bad(L);
    luaL_checkstack(L, 6, "a reply");
    switch (*from->at++) {
    case ':':
        lua_pushnumber(L, (lua_Number)number_read(L, from));
        break;
    case '$':
        bulk_push(L, from);
        break;
    case '*':
        array_push(L, from);
        break;
    case '+':
        bytes_push(L, line_read(L, from));
        wrap(L, "ok");
        break;
    case '-':
        error_push(L, line_read(L, from));
        break;
    case '_':
        (void)line_read(L, from);
        lua_pushnil(L);
        break;
    case '#':
        lua_pushboolean(L, bytes_eq(line_read(L, from), BYTES("t")));
        break;
    case ',':
        double_push(L, from);
        break;
    case '(':
        bytes_push(L, line_read(L, from));
        wrap(L, "big_number");
        break;
    case '=':
        verbatim_push(L, from);
        break;
    case '%':
        map_push(L, from, false);
        break;
    case '~':
        map_push(L, from, true);
        break;
    default:
        reply_bad(L);
    }
    from->depth--;
}

void vm__reply_push(lua_State *L, struct bytes reply)
{
    struct reading from = {.at = reply.ptr, .end = reply.ptr + reply.len};
    value_push(L, &from);
    vm__work(L, reply.len);
}

void vm__error_push(lua_State *L, const char *text)
{
    bool has_code = text[0] == '-';
    text += has_code;
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    lua_createtable(L, 0, 2);
    if (!has_code || !memchr(text, ' ', len))
        lua_pushliteral(L, "ERR ");
    else
        lua_pushliteral(L, "");
    lua_pushlstring(L, text, len);
    lua_concat(L, 2);
    lua_setfield(L, -2, "err");
}

/* ---- to a reply ---- */

static void value_write(lua_State *L, struct resp_out *out);

/* Pushes a field of the table on top; false: it has another type, and nothing is pushed. */
static bool field_push(lua_State *L, const char *name, int type)
{
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    if (lua_type(L, -1) == type)
        return true;
    lua_pop(L, 1);
    return false;
}

/* A line must not end early. */
static void line_write(lua_State *L, struct resp_out *out, const char *mark)
{
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    resp_add_raw(out, bytes_of(mark, strlen(mark)));
    size_t from = out->buf.len;
    resp_add_raw(out, bytes_of(text, len));
    for (size_t i = from; !out->failed && i < out->buf.len; i++)
        if (out->buf.ptr[i] == '\r' || out->buf.ptr[i] == '\n')
            out->buf.ptr[i] = ' ';
    resp_add_raw(out, BYTES("\r\n"));
}

static void big_number_write(lua_State *L, struct resp_out *out)
{
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    if (out->proto >= 3)
        line_write(L, out, "(");
    else
        resp_add_bulk(out, bytes_of(text, len));
}

/* The table on top is {format, string}. False: it is not. */
static bool verbatim_write(lua_State *L, struct resp_out *out)
{
    size_t len, format_len;
    char head[4] = {' ', ' ', ' ', ':'};
    if (!field_push(L, "format", LUA_TSTRING))
        return false;
    const char *format = lua_tolstring(L, -1, &format_len);
    memcpy(head, format, format_len < 3 ? format_len : 3);
    lua_pop(L, 1);
    if (!field_push(L, "string", LUA_TSTRING))
        return false;
    const char *text = lua_tolstring(L, -1, &len);
    if (out->proto >= 3) {
        struct bytes size;
        lua_pushfstring(L, "=%d\r\n", (int)len + 4);
        size = vm__bytes(L, -1);
        resp_add_raw(out, size);
        lua_pop(L, 1);
        resp_add_raw(out, bytes_of(head, sizeof head));
        resp_add_raw(out, bytes_of(text, len));
        resp_add_raw(out, BYTES("\r\n"));
    } else {
        resp_add_bulk(out, bytes_of(text, len));
    }
    lua_pop(L, 1);
    return true;
}

static void map_write(lua_State *L, struct resp_out *out, bool is_set)
{
    size_t mark = resp_open(out), count = 0;
    (void)vm__see_through(L, -1);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (is_set)
            lua_pop(L, 1);
        else
            lua_insert(L, -2); /* value, key */
        lua_pushvalue(L, -1);
        value_write(L, out);
        if (!is_set) {
            lua_insert(L, -2); /* key, value */
            value_write(L, out);
        }
        count++;
    }
    if (is_set)
        resp_close_set(out, mark, count);
    else
        resp_close_map(out, mark, count);
}

static void array_write(lua_State *L, struct resp_out *out)
{
    size_t mark = resp_open(out), count = 0;
    for (int i = 1;; i++, count++) {
        lua_rawgeti(L, -1, i);
        if (lua_isnil(L, -1))
            break;
        value_write(L, out);
    }
    lua_pop(L, 1);
    resp_close_array(out, mark, count);
}

/* A table is what its fields say; without any of these, an array. */
static void table_write(lua_State *L, struct resp_out *out)
{
    if (field_push(L, "err", LUA_TSTRING)) {
        resp_add_error(out, "", lua_tostring(L, -1));
    } else if (field_push(L, "ok", LUA_TSTRING)) {
        lua_pushstring(L, lua_tostring(L, -1)); /* up to its first NUL, as Redis */
        lua_replace(L, -2);
        line_write(L, out, "+");
    } else if (field_push(L, "double", LUA_TNUMBER)) {
        resp_add_double(out, lua_tonumber(L, -1));
    } else if (field_push(L, "big_number", LUA_TSTRING)) {
        big_number_write(L, out);
    } else if (field_push(L, "verbatim_string", LUA_TTABLE)) {
        bool is = verbatim_write(L, out);
        lua_pop(L, 1);
        if (is)
            return;
        array_write(L, out);
        return;
    } else if (field_push(L, "map", LUA_TTABLE)) {
        map_write(L, out, false);
    } else if (field_push(L, "set", LUA_TTABLE)) {
        map_write(L, out, true);
    } else {
        array_write(L, out);
        return;
    }
    lua_pop(L, 1);
}

/* As a cast does on the machines Redis runs on: what does not fit is the smallest. */
static int64_t int_of(double number)
{
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

static void value_write(lua_State *L, struct resp_out *out)
{
    size_t len;
    if (!lua_checkstack(L, 6)) {
        resp_add_error(out, "ERR", "reached lua stack limit");
        lua_pop(L, 1);
        return;
    }
    switch (lua_type(L, -1)) {
    case LUA_TSTRING: {
        const char *text = lua_tolstring(L, -1, &len);
        resp_add_bulk(out, bytes_of(text, len));
        break;
    }
    case LUA_TBOOLEAN:
        if (vm_of(L)->proto >= 3)
            resp_add_bool(out, lua_toboolean(L, -1));
        else if (lua_toboolean(L, -1))
            resp_add_int(out, 1);
        else
            resp_add_null(out);
        break;
    case LUA_TNUMBER:
        resp_add_int(out, int_of(lua_tonumber(L, -1)));
        break;
    case LUA_TTABLE:
        table_write(L, out);
        break;
    default:
        resp_add_null(out);
    }
    lua_pop(L, 1);
}

bool vm__reply_write(lua_State *L, struct resp_out *out)
{
    size_t from = out->buf.len;
    value_write(L, out);
    return !out->failed && out->buf.len > from && out->buf.ptr[from] == '-';
}
