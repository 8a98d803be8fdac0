// SPDX-License-Identifier: Apache-2.0
/* lib_struct.c - struct.pack, unpack and size: numbers and texts as bytes, by a format.
 *
 *   > <        big, little-endian        !n   aligned to at most n (a power of two)
 *   b B h H l L i[n] I[n] T   integers of 1, 2, 8, n (4), 8 bytes; capitals: without a sign
 *   f d        float, double             x    a byte of nothing
 *   c[n]       n bytes; c0: all of it, and read as long as the number before it says
 *   s          up to a NUL
 *
 * Positions and lengths are a script's: each is checked before it is used. */
#include "script/vm.h"

#include <ctype.h>
#include <limits.h>

#include "base/banned.h"

enum { INT_BYTES_MAX = 32, ALIGN_DEFAULT = 8 };

struct format {
    const char *at;
    bool is_little;
    size_t align;
};

static struct format format_of(lua_State *L)
{
    return (struct format){.at = luaL_checkstring(L, 1), .is_little = true, .align = 1};
}

static size_t digits_read(lua_State *L, struct format *format, size_t otherwise)
{
    size_t number = 0;
    if (!isdigit((unsigned char)*format->at))
        return otherwise;
    while (isdigit((unsigned char)*format->at)) {
        number = number * 10 + (size_t)(*format->at++ - '0');
        if (number > INT_MAX)
            luaL_error(L, "integral size overflow");
    }
    return number;
}

static size_t option_bytes(lua_State *L, char option, struct format *format)
{
    size_t bytes;
    switch (option) {
    case 'b':
    case 'B':
    case 'x':
        return 1;
    case 'h':
    case 'H':
        return 2;
    case 'f':
        return 4;
    case 'l':
    case 'L':
    case 'T':
    case 'd':
        return 8;
    case 'c':
        return digits_read(L, format, 1);
    case 'i':
    case 'I':
        bytes = digits_read(L, format, 4);
        if (bytes > INT_BYTES_MAX)
            luaL_error(L, "integral size %d is larger than limit of %d", (int)bytes,
                       (int)INT_BYTES_MAX);
        return bytes;
    default:
        return 0;
    }
}

static void control(lua_State *L, char option, struct format *format)
{
    switch (option) {
    case ' ':
        return;
    case '>':
        format->is_little = false;
        return;
    case '<':
        format->is_little = true;
        return;
    case '!': {
        size_t align = digits_read(L, format, ALIGN_DEFAULT);
        if (align == 0 || (align & (align - 1)) != 0)
            luaL_error(L, "alignment %d is not a power of 2", (int)align);
        format->align = align;
        return;
    }
    default:
        luaL_argerror(L, 1, lua_pushfstring(L, "invalid format option '%c'", option));
    }
}

/* How many bytes stand before an element of so many at this place. */
static size_t padding(const struct format *format, char option, size_t at, size_t bytes)
{
    if (bytes == 0 || option == 'c')
        return 0;
    if (bytes > format->align)
        bytes = format->align;
    return (bytes - (at & (bytes - 1))) & (bytes - 1);
}

static uint64_t word_of(double number)
{
    if (number < 0)
        return number >= -0x1p63 ? (uint64_t)(int64_t)number : (uint64_t)INT64_MIN;
    return number < 0x1p64 ? (uint64_t)number : 0; /* a NaN as well */
}

static bool int_add(struct buf *to, const struct format *format, double number, size_t bytes)
{
    uint8_t text[INT_BYTES_MAX];
    uint64_t word = word_of(number);
    for (size_t i = 0; i < bytes; i++, word >>= 8)
        text[format->is_little ? i : bytes - 1 - i] = (uint8_t)word;
    return buf_add(to, text, bytes);
}

static void bytes_order(const struct format *format, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; !format->is_little && i < count / 2; i++) {
        uint8_t other = bytes[i];
        bytes[i] = bytes[count - 1 - i];
        bytes[count - 1 - i] = other;
    }
}

static bool float_add(struct buf *to, const struct format *format, double number, size_t bytes)
{
    uint8_t text[sizeof(double)];
    float single = (float)number;
    if (bytes == sizeof single)
        memcpy(text, &single, sizeof single);
    else
        memcpy(text, &number, sizeof number);
    bytes_order(format, text, bytes);
    return buf_add(to, text, bytes);
}

/* Adds a text of argument `arg`; *bytes: as long as the format says, 0: all of it. */
static bool text_add(lua_State *L, struct buf *to, char option, int arg, size_t bytes)
{
    struct bytes text = vm__bytes(L, arg);
    if (bytes == 0)
        bytes = text.len;
    luaL_argcheck(L, text.len >= bytes, arg + 1, "string too short");
    return buf_add(to, text.ptr, bytes) && (option != 's' || buf_add(to, "", 1));
}

static bool element_add(lua_State *L, struct buf *to, struct format *format, char option, int *arg,
                        size_t bytes)
{
    switch (option) {
    case 'b':
    case 'B':
    case 'h':
    case 'H':
    case 'l':
    case 'L':
    case 'T':
    case 'i':
    case 'I':
        return int_add(to, format, luaL_checknumber(L, (*arg)++), bytes);
    case 'f':
    case 'd':
        return float_add(to, format, luaL_checknumber(L, (*arg)++), bytes);
    case 'x':
        return buf_add(to, "", 1);
    case 'c':
    case 's':
        return text_add(L, to, option, (*arg)++, bytes);
    default:
        control(L, option, format);
        return true;
    }
}

static int struct_pack(lua_State *L)
{
    struct format format = format_of(L);
    int arg = 2;
    bool good = true;
    struct buf *to = vm__scratch(L);
    while (*format.at && good) {
        char option = *format.at++;
        size_t bytes = option_bytes(L, option, &format);
        for (size_t pad = padding(&format, option, to->len, bytes); pad > 0 && good; pad--)
            good = buf_add(to, "", 1);
        good = good && element_add(L, to, &format, option, &arg, bytes);
    }
    vm__scratch_push(L, good);
    return 1;
}

static double int_read(const struct format *format, const uint8_t *from, size_t bytes,
                       bool is_signed)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word = word << 8 | from[format->is_little ? bytes - 1 - i : i];
    if (!is_signed || bytes == 0)
        return (double)word;
    uint64_t mask = UINT64_MAX << ((bytes * 8 - 1) & 63);
    return (double)(int64_t)(word & mask ? word | mask : word);
}

static double float_read(const struct format *format, const uint8_t *from, size_t bytes)
{
    uint8_t text[sizeof(double)];
    float single;
    double number;
    memcpy(text, from, bytes);
    bytes_order(format, text, bytes);
    memcpy(&single, text, sizeof single);
    if (bytes == sizeof single)
        return single;
    memcpy(&number, text, sizeof number);
    return number;
}

/* c0: as long as the number that was read before it, which is taken away. */
static size_t length_take(lua_State *L, int *count)
{
    if (*count == 0 || !lua_isnumber(L, -1))
        luaL_error(L, "format 'c0' needs a previous size");
    double number = lua_tonumber(L, -1);
    lua_pop(L, 1);
    --*count;
    return number >= 0 && number < 0x1p53 ? (size_t)number : SIZE_MAX;
}

static void room_check(lua_State *L, struct bytes data, size_t at, size_t bytes)
{
    luaL_argcheck(L, bytes <= data.len && at <= data.len - bytes, 2, "data string too short");
}

/* Pushes an element, or nothing; returns how many bytes it has. */
static size_t element_push(lua_State *L, struct format *format, char option, struct bytes data,
                           size_t at, size_t bytes, int *count)
{
    const uint8_t *from = data.ptr + at, *end;
    switch (option) {
    case 'b':
    case 'B':
    case 'h':
    case 'H':
    case 'l':
    case 'L':
    case 'T':
    case 'i':
    case 'I':
        lua_pushnumber(L, int_read(format, from, bytes, islower((unsigned char)option)));
        break;
    case 'f':
    case 'd':
        lua_pushnumber(L, float_read(format, from, bytes));
        break;
    case 'x':
        return bytes;
    case 'c':
        if (bytes == 0) {
            bytes = length_take(L, count);
            room_check(L, data, at, bytes);
        }
        lua_pushlstring(L, (const char *)from, bytes);
        break;
    case 's':
        end = memchr(from, 0, data.len - at);
        if (!end)
            luaL_error(L, "unfinished string in data");
        bytes = (size_t)(end - from) + 1;
        lua_pushlstring(L, (const char *)from, bytes - 1);
        break;
    default:
        control(L, option, format);
        return bytes;
    }
    ++*count;
    return bytes;
}

static int struct_unpack(lua_State *L)
{
    struct format format = format_of(L);
    struct bytes data = vm__bytes(L, 2);
    lua_Integer start = luaL_optinteger(L, 3, 1);
    luaL_argcheck(L, start > 0, 3, "offset must be 1 or greater");
    size_t at = (size_t)start - 1;
    int count = 0;
    while (*format.at) {
        char option = *format.at++;
        size_t bytes = option_bytes(L, option, &format);
        room_check(L, data, at, 0);
        at += padding(&format, option, at, bytes);
        room_check(L, data, at, bytes);
        luaL_checkstack(L, 2, "too many results");
        at += element_push(L, &format, option, data, at, bytes, &count);
    }
    lua_pushinteger(L, (lua_Integer)at + 1);
    return count + 1;
}

static int struct_size(lua_State *L)
{
    struct format format = format_of(L);
    size_t at = 0;
    while (*format.at) {
        char option = *format.at++;
        size_t bytes = option_bytes(L, option, &format);
        at += padding(&format, option, at, bytes);
        if (option == 's')
            luaL_argerror(L, 1, "option 's' has no fixed size");
        if (option == 'c' && bytes == 0)
            luaL_argerror(L, 1, "option 'c0' has no fixed size");
        if (!isalnum((unsigned char)option))
            control(L, option, &format);
        at += bytes;
    }
    lua_pushinteger(L, (lua_Integer)at);
    return 1;
}

void vm__struct_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"pack", struct_pack}, {"unpack", struct_unpack}, {"size", struct_size}, {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
}
