// SPDX-License-Identifier: Apache-2.0
/* json_decode.c - cjson.decode: what Redis's cjson reads, and its errors.
 *
 * A Lua string ends with a NUL that is not part of it: it stands for the end, and so does the first
 * NUL inside. */
#include "script/json.h"

#include <stdlib.h>
#include <strings.h>

#include "base/banned.h"

enum token {
    T_OBJ_BEGIN,
    T_OBJ_END,
    T_ARR_BEGIN,
    T_ARR_END,
    T_STRING,
    T_NUMBER,
    T_BOOLEAN,
    T_NULL,
    T_COLON,
    T_COMMA,
    T_END,
    T_ERROR
};
static const char *const token_names[] = {"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END",
                                          "T_STRING",    "T_NUMBER",  "T_BOOLEAN",   "T_NULL",
                                          "T_COLON",     "T_COMMA",   "T_END"};

struct decoding {
    lua_State *L;
    const struct json_settings *settings;
    const char *text, *at, *token_at;
    int depth;
    /* of the last token */
    double number;
    bool boolean;
    const char *why;     /* T_ERROR */
    struct bytes string; /* T_STRING: in the text, or in the scratch buffer */
};

static enum token bad(struct decoding *work, const char *why)
{
    work->why = why;
    work->token_at = work->at;
    return T_ERROR;
}

/* ---- strings ---- */

/* Four digits; -1: they are none. */
static int hex4(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) /* the end, too */
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool code_add(struct buf *to, uint32_t code)
{
    uint8_t text[4];
    size_t len = 0;
    if (code < 0x80) {
        text[len++] = (uint8_t)code;
    } else if (code < 0x800) {
        text[len++] = (uint8_t)(0xc0 | code >> 6);
    } else if (code < 0x10000) {
        text[len++] = (uint8_t)(0xe0 | code >> 12);
        text[len++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    } else {
        text[len++] = (uint8_t)(0xf0 | code >> 18);
        text[len++] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        text[len++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    }
    if (code >= 0x80)
        text[len++] = (uint8_t)(0x80 | (code & 0x3f));
    return buf_add(to, text, len);
}

/* work->at stands on the backslash of \uXXXX, or of a pair of them. */
static bool unicode_add(struct decoding *work, struct buf *to)
{
    int code = hex4(work->at + 2);
    if (code < 0)
        return false;
    if ((code & 0xf800) != 0xd800) {
        work->at += 6;
    } else {
        if (code & 0x400 || work->at[6] != '\\' || work->at[7] != 'u')
            return false;
        int low = hex4(work->at + 8);
        if (low < 0 || (low & 0xfc00) != 0xdc00)
            return false;
        code = ((code & 0x3ff) << 10 | (low & 0x3ff)) + 0x10000;
        work->at += 12;
    }
    if (!code_add(to, (uint32_t)code))
        vm__no_memory(work->L);
    return true;
}

static const char *escape_add(struct decoding *work, struct buf *to)
{
    static const char letters[] = "\"\"\\\\//b\bt\tn\nf\fr\r";
    char letter = work->at[1];
    if (letter == 'u')
        return unicode_add(work, to) ? NULL : "invalid unicode escape code";
    for (size_t i = 0; letter && i + 1 < sizeof letters; i += 2) {
        if (letters[i] != letter)
            continue;
        if (!buf_add(to, &letters[i + 1], 1))
            vm__no_memory(work->L);
        work->at += 2;
        return NULL;
    }
    return "invalid escape code";
}

static enum token string_read(struct decoding *work)
{
    const char *start = ++work->at;
    size_t plain = strcspn(start, "\"\\");
    work->at += plain;
    if (*work->at == '"') { /* nothing in it stands for something else */
        work->string = bytes_of(start, plain);
        work->at++;
        return T_STRING;
    }
    struct buf *to = vm__scratch(work->L);
    for (;;) {
        if (!buf_add(to, start, plain))
            vm__no_memory(work->L);
        if (!*work->at)
            return bad(work, "unexpected end of string");
        if (*work->at == '"')
            break;
        const char *why = escape_add(work, to);
        if (why)
            return bad(work, why);
        start = work->at;
        plain = strcspn(start, "\"\\");
        work->at += plain;
    }
    work->at++;
    work->string = buf_bytes(to);
    return T_STRING;
}

/* ---- numbers and words ---- */

/* What strtod() reads, and JSON does not have. */
static bool is_invalid_number(const char *at)
{
    if (*at == '+')
        return true;
    at += *at == '-';
    if (*at == '0')
        return at[1] == 'x' || at[1] == 'X' || (at[1] >= '0' && at[1] <= '9');
    return *at > '9' && (strncasecmp(at, "inf", 3) == 0 || strncasecmp(at, "nan", 3) == 0);
}

static enum token number_read(struct decoding *work)
{
    char *end;
    work->number = strtod(work->at, &end);
    if (end == work->at)
        return bad(work, "invalid number");
    work->at = end;
    return T_NUMBER;
}

static bool word_skip(struct decoding *work, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(work->at, word, len) != 0)
        return false;
    work->at += len;
    return true;
}

static enum token word_read(struct decoding *work)
{
    char c = *work->at;
    if (c == '-' || (c >= '0' && c <= '9')) {
        if (!work->settings->decodes_invalid && is_invalid_number(work->at))
            return bad(work, "invalid number");
        return number_read(work);
    }
    work->boolean = c == 't';
    if (word_skip(work, "true") || word_skip(work, "false"))
        return T_BOOLEAN;
    if (word_skip(work, "null"))
        return T_NULL;
    if (c && strchr("iInN+", c) && work->settings->decodes_invalid && is_invalid_number(work->at))
        return number_read(work);
    return bad(work, "invalid token");
}

static enum token token_next(struct decoding *work)
{
    static const char marks[] = "{}[]:,";
    static const enum token tokens[] = {T_OBJ_BEGIN, T_OBJ_END, T_ARR_BEGIN,
                                        T_ARR_END,   T_COLON,   T_COMMA};
    work->at += strspn(work->at, " \t\n\r");
    work->token_at = work->at;
    if (!*work->at)
        return T_END;
    if (*work->at == '"')
        return string_read(work);
    const char *mark = strchr(marks, *work->at);
    if (!mark)
        return word_read(work);
    work->at++;
    return tokens[mark - marks];
}

/* ---- values ---- */

static int expected(struct decoding *work, const char *what, enum token token)
{
    return luaL_error(work->L, "Expected %s but found %s at character %d", what,
                      token == T_ERROR ? work->why : token_names[token],
                      (int)(work->token_at - work->text) + 1);
}

static void descend(struct decoding *work)
{
    if (++work->depth > work->settings->decode_depth_max || !lua_checkstack(work->L, 6))
        luaL_error(work->L, "Found too many nested data structures (%d) at character %d",
                   work->depth, (int)(work->at - work->text));
}

static void value_push(struct decoding *work, enum token token);

static void string_push(struct decoding *work)
{
    lua_pushlstring(work->L, (const char *)work->string.ptr, work->string.len);
}

static void object_push(struct decoding *work)
{
    descend(work);
    lua_newtable(work->L);
    enum token token = token_next(work);
    while (token != T_OBJ_END) {
        if (token != T_STRING)
            expected(work, "object key string", token);
        string_push(work);
        token = token_next(work);
        if (token != T_COLON)
            expected(work, "colon", token);
        value_push(work, token_next(work));
        lua_rawset(work->L, -3);
        token = token_next(work);
        if (token == T_OBJ_END)
            break;
        if (token != T_COMMA)
            expected(work, "comma or object end", token);
        token = token_next(work);
        if (token == T_OBJ_END) /* behind a comma */
            expected(work, "object key string", token);
    }
    work->depth--;
}

static void array_push(struct decoding *work)
{
    descend(work);
    lua_newtable(work->L);
    enum token token = token_next(work);
    for (int i = 1; token != T_ARR_END || i > 1; i++) {
        value_push(work, token);
        lua_rawseti(work->L, -2, i);
        token = token_next(work);
        if (token == T_ARR_END)
            break;
        if (token != T_COMMA)
            expected(work, "comma or array end", token);
        token = token_next(work);
    }
    work->depth--;
}

static void value_push(struct decoding *work, enum token token)
{
    switch (token) {
    case T_STRING:
        string_push(work);
        break;
    case T_NUMBER:
        lua_pushnumber(work->L, work->number);
        break;
    case T_BOOLEAN:
        lua_pushboolean(work->L, work->boolean);
        break;
    case T_NULL:
        lua_pushlightuserdata(work->L, NULL); /* cjson.null: nil would not be kept by a table */
        break;
    case T_OBJ_BEGIN:
        object_push(work);
        break;
    case T_ARR_BEGIN:
        array_push(work);
        break;
    case T_OBJ_END:
    case T_ARR_END:
    case T_COLON:
    case T_COMMA:
    case T_END:
    case T_ERROR:
        expected(work, "value", token);
    }
}

int json_decode(lua_State *L)
{
    luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
    struct bytes text = vm__bytes(L, 1);
    struct decoding work = {.L = L,
                            .settings = lua_touserdata(L, lua_upvalueindex(1)),
                            .text = (const char *)text.ptr,
                            .at = (const char *)text.ptr};
    if (text.len >= 2 && (!text.ptr[0] || !text.ptr[1]))
        return luaL_error(L, "JSON parser does not support UTF-16 or UTF-32");
    luaL_checkstack(L, 4, "a value");
    value_push(&work, token_next(&work));
    enum token token = token_next(&work);
    if (token != T_END)
        expected(&work, "the end", token);
    vm__work(L, text.len);
    return 1;
}
