// SPDX-License-Identifier: Apache-2.0
/* shebang.c - the first line of a script or a library: #!lua flags=no-writes, #!lua name=lib */
#include <strings.h>

#include "script/script.h"

#include "base/banned.h"

static const struct {
    const char *name;
    unsigned flag;
} flags[] = {{"no-writes", SCRIPT_NO_WRITES},
             {"allow-oom", SCRIPT_ALLOW_OOM},
             {"allow-stale", SCRIPT_ALLOW_STALE},
             {"no-cluster", SCRIPT_NO_CLUSTER},
             {"allow-cross-slot-keys", SCRIPT_ALLOW_CROSS_SLOT}};

unsigned script_flag(size_t number, const char **ret_name)
{
    *ret_name = number < ARRAY_LEN(flags) ? flags[number].name : NULL;
    return number < ARRAY_LEN(flags) ? flags[number].flag : 0;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next word of a line; false: there is none. */
static bool word_next(struct bytes *line, struct bytes *ret_word)
{
    size_t at = 0, end;
    while (at < line->len && is_space(line->ptr[at]))
        at++;
    for (end = at; end < line->len && !is_space(line->ptr[end]);)
        end++;
    *ret_word = bytes_of(line->ptr + at, end - at);
    *line = bytes_from(*line, end);
    return end > at;
}

static bool word_is(struct bytes word, const char *name)
{
    return bytes_eq(word, bytes_of(name, strlen(name)));
}

static enum rc flags_read(struct bytes list, unsigned *ret_flags, struct err *err)
{
    for (;;) {
        const uint8_t *comma = list.len ? memchr(list.ptr, ',', list.len) : NULL;
        struct bytes word = bytes_of(list.ptr, comma ? (size_t)(comma - list.ptr) : list.len);
        size_t i = 0;
        while (i < ARRAY_LEN(flags) && !word_is(word, flags[i].name))
            i++;
        if (i == ARRAY_LEN(flags))
            return err_set(err, RC_INVALID, "Unexpected flag in script shebang: %.*s",
                           (int)word.len, (const char *)word.ptr);
        *ret_flags |= flags[i].flag;
        if (!comma)
            return RC_OK;
        list = bytes_from(list, word.len + 1);
    }
}

enum rc script_shebang(struct bytes text, unsigned *ret_flags, size_t *ret_len, struct err *err)
{
    struct bytes word;
    *ret_flags = SCRIPT_COMPAT;
    *ret_len = 0;
    if (!bytes_start_with(text, BYTES("#!")))
        return RC_OK;
    const uint8_t *end = memchr(text.ptr, '\n', text.len);
    if (!end)
        return err_set(err, RC_INVALID, "Invalid script shebang");
    struct bytes line = bytes_of(text.ptr, (size_t)(end - text.ptr));
    size_t len = line.len;
    unsigned found = 0;
    (void)word_next(&line, &word);
    if (!word_is(word, "#!lua"))
        return err_set(err, RC_INVALID, "Unexpected engine in script shebang: %.*s", (int)word.len,
                       (const char *)word.ptr);
    while (word_next(&line, &word)) {
        if (!bytes_start_with(word, BYTES("flags=")))
            return err_set(err, RC_INVALID, "Unknown lua shebang option: %.*s", (int)word.len,
                           (const char *)word.ptr);
        enum rc rc = flags_read(bytes_from(word, strlen("flags=")), &found, err);
        if (rc != RC_OK)
            return rc;
    }
    *ret_flags = found;
    *ret_len = len;
    return RC_OK;
}

static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return name.len > 0;
}

uint8_t script_name_lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

bool script_name_eq(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (script_name_lower(a.ptr[i]) != script_name_lower(b.ptr[i]))
            return false;
    return true;
}

enum rc script_name_check(struct bytes name, struct err *err)
{
    if (is_name(name))
        return RC_OK;
    return err_set(err, RC_INVALID,
                   "Library names can only contain letters, numbers, or underscores(_) and must be "
                   "at least one character long");
}

enum rc script_lib_name(struct bytes code, struct bytes *ret_name, struct err *err)
{
    struct bytes word, name = {0}, engine;
    if (!bytes_start_with(code, BYTES("#!")))
        return err_set(err, RC_INVALID, "Missing library metadata");
    const uint8_t *end = memchr(code.ptr, '\n', code.len);
    if (!end)
        return err_set(err, RC_INVALID, "Invalid library metadata");
    struct bytes line = bytes_of(code.ptr, (size_t)(end - code.ptr));
    (void)word_next(&line, &word);
    engine = bytes_from(word, 2);
    while (word_next(&line, &word)) {
        if (word.len < 5 || strncasecmp((const char *)word.ptr, "name=", 5) != 0)
            return err_set(err, RC_INVALID, "Invalid metadata value given: %.*s", (int)word.len,
                           (const char *)word.ptr);
        if (name.ptr)
            return err_set(err, RC_INVALID,
                           "Invalid metadata value, name argument was given multiple times");
        name = bytes_from(word, 5);
    }
    if (!name.ptr)
        return err_set(err, RC_INVALID, "Library name was not given");
    enum rc rc = script_name_check(name, err);
    if (rc != RC_OK)
        return rc;
    if (engine.len != 3 || strncasecmp((const char *)engine.ptr, "lua", 3) != 0)
        return err_set(err, RC_INVALID, "Engine '%.*s' not found", (int)engine.len,
                       (const char *)engine.ptr);
    *ret_name = name;
    return RC_OK;
}
