// SPDX-License-Identifier: Apache-2.0
/* rule.c - parses the words of a rule, and prints them. */
#include "models/landing/rule.h"

#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "models/landing/address.h"
#include "models/landing/sink.h"
#include "types/kv.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    TABLES_START = 4,
    BATCH_START = 1000,
    DELAY_MS_START = 10 * 1000,
};

/* ---- words ---- */

static bool is_word(struct bytes word, const char *text)
{
    return word.len == strlen(text) && strncasecmp((const char *)word.ptr, text, word.len) == 0;
}

bool rule_word_is_plain(struct bytes word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] <= ' ' || word.ptr[i] == '"' || word.ptr[i] == '\'' ||
            word.ptr[i] == '\\' || word.ptr[i] == '#' || word.ptr[i] == 0x7f)
            return false;
    return word.len > 0 && utf8_is_valid(word);
}

static struct bytes word_dup(struct bytes word) /* with a NUL behind it */
{
    uint8_t *copy = mem_alloc(word.len + 1);
    memcpy(copy, word.ptr, word.len);
    copy[word.len] = 0;
    return bytes_of(copy, word.len);
}

static enum rc number_word(struct bytes option, struct bytes word, int64_t min, int64_t max,
                           int64_t *ret_number, struct err *err)
{
    if (!number_int(word, ret_number) || *ret_number < min || *ret_number > max)
        return err_set(err, RC_INVALID, "%.*s is a number from %lld to %lld", (int)option.len,
                       (const char *)option.ptr, (long long)min, (long long)max);
    return RC_OK;
}

static enum rc sql_name(struct bytes option, struct bytes word, struct bytes *to, struct err *err)
{
    char what[16];
    snprintf(what, sizeof what, "%.*s", (int)option.len, (const char *)option.ptr);
    enum rc rc = sink_check_name(word, what, err);
    if (rc != RC_OK)
        return rc;
    mem_free((void *)to->ptr);
    *to = word_dup(word);
    return RC_OK;
}

static enum rc shape_word(struct rule_spec *spec, struct bytes word, struct err *err)
{
    if (is_word(word, "object"))
        spec->shape = LAND_OBJECT;
    else if (is_word(word, "columns"))
        spec->shape = LAND_COLUMNS;
    else
        return err_set(err, RC_INVALID, "the shape is object or columns");
    return RC_OK;
}

static enum rc flag_word(struct bytes option, struct bytes word, const char *only, bool *ret_flag,
                         struct err *err)
{
    if (!is_word(word, only))
        return err_set(err, RC_INVALID, "after %.*s comes %s", (int)option.len,
                       (const char *)option.ptr, only);
    *ret_flag = true;
    return RC_OK;
}

static enum rc option_set(struct rule_spec *spec, struct bytes option, struct bytes word,
                          struct err *err)
{
    int64_t number = 0;
    enum rc rc;
    if (is_word(option, "shape"))
        return shape_word(spec, word, err);
    if (is_word(option, "table"))
        return sql_name(option, word, &spec->table, err);
    if (is_word(option, "key"))
        return sql_name(option, word, &spec->key, err);
    if (is_word(option, "flush"))
        return flag_word(option, word, "store-only", &spec->flush_store_only, err);
    if (is_word(option, "expire"))
        return flag_word(option, word, "delete", &spec->expire_delete, err);
    if (is_word(option, "password-file")) {
        mem_free((void *)spec->password_file);
        spec->password_file = (const char *)word_dup(word).ptr;
        return RC_OK;
    }
    if (is_word(option, "db")) {
        rc = number_word(option, word, 0, KV_NS_MAX - 1, &number, err);
        spec->db = (uint32_t)number;
    } else if (is_word(option, "tables")) {
        rc = number_word(option, word, 1, LAND_TABLES_MAX, &number, err);
        spec->tables = (uint32_t)number;
    } else if (is_word(option, "batch")) {
        rc = number_word(option, word, 1, LAND_BATCH_MAX, &number, err);
        spec->batch = (uint32_t)number;
    } else if (is_word(option, "delay")) {
        rc = number_word(option, word, 1, INT32_MAX, &number, err);
        spec->delay_ms = (uint64_t)number;
    } else if (is_word(option, "keep")) {
        rc = number_word(option, word, 0, INT64_MAX / 2, &number, err);
        spec->keep_ms = (uint64_t)number;
    } else {
        return err_set(err, RC_INVALID, "a rule has no word \"%.*s\"", (int)option.len,
                       (const char *)option.ptr);
    }
    return rc;
}

/* ---- the whole ---- */

static enum rc name_set(struct rule_spec *spec, struct bytes word, struct err *err)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = (char)word.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '.';
        if (!good)
            return err_set(err, RC_INVALID, "a rule's name has letters, digits, _ - and . only");
    }
    if (word.len > LAND_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "a rule's name has at most %d bytes", LAND_NAME_BYTES_MAX);
    spec->name = (const char *)word_dup(word).ptr;
    return RC_OK;
}

static enum rc pattern_set(struct rule_spec *spec, struct bytes word, struct err *err)
{
    const uint8_t *star = memchr(word.ptr, '*', word.len);
    size_t at = star ? (size_t)(star - word.ptr) : 0;
    if (!star || memchr(star + 1, '*', word.len - at - 1))
        return err_set(err, RC_INVALID, "a rule's pattern has one *");
    spec->prefix = word_dup(bytes_of(word.ptr, at));
    spec->suffix = word_dup(bytes_from(word, at + 1));
    if (bytes_start_with(spec->prefix, BYTES(LAND_OWN_PREFIX)))
        return err_set(err, RC_INVALID, "keys that begin with %s are landing's own",
                       LAND_OWN_PREFIX);
    return RC_OK;
}

static enum rc spec_check(const struct rule_spec *spec, struct err *err)
{
    if (spec->keep_ms > 0 && spec->expire_delete)
        return err_set(err, RC_INVALID,
                       "keep and \"expire delete\" do not go together: what was kept would be "
                       "deleted in SQL");
    if (spec->shape == LAND_OBJECT) {
        bool fits = bytes_start_with(spec->prefix, BYTES(ADDRESS_OBJECT_PREFIX)) &&
                    spec->suffix.len > 0 && spec->suffix.ptr[spec->suffix.len - 1] == '}';
        if (!fits)
            return err_set(err, RC_INVALID,
                           "the pattern of shape object is " ADDRESS_OBJECT_PREFIX "...*...}");
        if (spec->table.len > 0 || spec->key.len > 0)
            return err_set(err, RC_INVALID, "table and key are words of shape columns");
        return RC_OK;
    }
    if (spec->table.len == 0 || spec->key.len == 0)
        return err_set(err, RC_INVALID, "shape columns needs \"table T key K\"");
    return RC_OK;
}

static enum rc sink_check_url(const struct rule_spec *spec, struct err *err)
{
    struct sink *sink = NULL;
    enum rc rc = sink_open(spec->url, "", &sink, err);
    sink_close(sink);
    return rc;
}

static enum rc words_read(struct rule_spec *spec, const struct bytes *word, size_t count,
                          struct err *err)
{
    if (count < 3 || count > LAND_RULE_WORDS_MAX)
        return err_set(err, RC_INVALID, "a rule is: name pattern sink [word value]...");
    for (size_t i = 0; i < count; i++)
        if (!rule_word_is_plain(word[i]))
            return err_set(err, RC_INVALID,
                           "a rule's words have no blanks, quotes, # or bytes that are no UTF-8");
    enum rc rc = name_set(spec, word[0], err);
    if (rc == RC_OK)
        rc = pattern_set(spec, word[1], err);
    if (rc != RC_OK)
        return rc;
    spec->url = (const char *)word_dup(word[2]).ptr;
    spec->sink = (const char *)word_dup(word[2]).ptr;
    rc = sink_check_url(spec, err);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 3; i < count; i += 2) {
        if (i + 1 == count)
            return err_set(err, RC_INVALID, "there is no value after \"%.*s\"", (int)word[i].len,
                           (const char *)word[i].ptr);
        rc = option_set(spec, word[i], word[i + 1], err);
        if (rc != RC_OK)
            return rc;
    }
    return spec_check(spec, err);
}

static struct bytes text_of(const struct bytes *word, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += word[i].len + (i > 0);
    uint8_t *text = mem_alloc(len + 1), *at = text;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ' ';
        memcpy(at, word[i].ptr, word[i].len);
        at += word[i].len;
    }
    return bytes_of(text, len);
}

enum rc rule_parse(const struct bytes *word, size_t count, struct rule_spec **ret_spec,
                   struct err *err)
{
    struct rule_spec *spec = mem_zalloc(sizeof *spec);
    spec->shape = LAND_OBJECT;
    spec->tables = TABLES_START;
    spec->batch = BATCH_START;
    spec->delay_ms = DELAY_MS_START;
    spec->password_file = (const char *)word_dup(BYTES("")).ptr;
    enum rc rc = words_read(spec, word, count, err);
    if (rc != RC_OK) {
        rule_free(spec);
        return rc;
    }
    spec->text = text_of(word, count);
    *ret_spec = spec;
    return RC_OK;
}

enum rc rule_parse_text(struct bytes text, struct rule_spec **ret_spec, struct err *err)
{
    struct bytes word[LAND_RULE_WORDS_MAX];
    size_t count = 0;
    if (text.len > LAND_RULE_BYTES_MAX)
        return err_set(err, RC_INVALID, "a rule has at most %d bytes", LAND_RULE_BYTES_MAX);
    for (size_t i = 0; i < text.len;) {
        size_t start = i;
        while (i < text.len && text.ptr[i] != ' ' && text.ptr[i] != '\t')
            i++;
        if (i > start && count == LAND_RULE_WORDS_MAX)
            return err_set(err, RC_INVALID, "a rule has at most %d words", LAND_RULE_WORDS_MAX);
        if (i > start)
            word[count++] = bytes_of(text.ptr + start, i - start);
        while (i < text.len && (text.ptr[i] == ' ' || text.ptr[i] == '\t'))
            i++;
    }
    return rule_parse(word, count, ret_spec, err);
}

void rule_free(struct rule_spec *spec)
{
    if (!spec)
        return;
    mem_free((void *)spec->text.ptr);
    mem_free((void *)spec->name);
    mem_free((void *)spec->prefix.ptr);
    mem_free((void *)spec->suffix.ptr);
    mem_free((void *)spec->url);
    mem_free((void *)spec->sink);
    mem_free((void *)spec->password_file);
    mem_free((void *)spec->table.ptr);
    mem_free((void *)spec->key.ptr);
    mem_free(spec);
}

void rule_password_file_set(struct rule_spec *spec, const char *path)
{
    char *copy = mem_dup(path, strlen(path) + 1);
    mem_free((void *)spec->password_file);
    spec->password_file = copy;
}

void rule_sink_set(struct rule_spec *spec, const char *scheme, const char *rest)
{
    size_t scheme_len = strlen(scheme), rest_len = strlen(rest);
    char *sink = mem_alloc(scheme_len + rest_len + 1);
    memcpy(sink, scheme, scheme_len);
    memcpy(sink + scheme_len, rest, rest_len + 1);
    mem_free((void *)spec->sink);
    spec->sink = sink;
}

bool rule_text_shown(const struct rule_spec *spec, const char *sink, struct buf *to)
{
    struct bytes text = spec->text;
    size_t at = 0, blanks = 0; /* the sink is the third word */
    while (blanks < 2)
        blanks += text.ptr[at++] == ' ';
    return buf_add(to, text.ptr, at) && buf_add(to, sink, strlen(sink)) &&
           buf_add_bytes(to, bytes_from(text, at + strlen(spec->url)));
}

bool rule_text_bare(struct bytes text, struct buf *to)
{
    struct rule_spec *spec = NULL;
    char *password, *bare;
    bool has = rule_parse_text(text, &spec, NULL) == RC_OK &&
               sink_url_password(spec->url, &password, &bare);
    if (has) {
        has = rule_text_shown(spec, bare, to);
        mem_free(password);
        mem_free(bare);
    }
    rule_free(spec);
    return has;
}

/* ---- matching ---- */

bool rule_takes(const struct rule_spec *spec, struct bytes key, struct bytes *ret_star)
{
    size_t around = spec->prefix.len + spec->suffix.len;
    if (key.len < around || !bytes_start_with(key, spec->prefix) ||
        !bytes_eq(bytes_from(key, key.len - spec->suffix.len), spec->suffix))
        return false;
    if (ret_star)
        *ret_star = bytes_of(key.ptr + spec->prefix.len, key.len - around);
    return true;
}

static bool ends_alike(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    return bytes_eq(bytes_from(a, a.len - len), bytes_from(b, b.len - len));
}

bool rules_share_table(const struct rule_spec *one, const struct rule_spec *other)
{
    return one->shape == LAND_COLUMNS && other->shape == LAND_COLUMNS &&
           strcmp(one->sink, other->sink) == 0 && one->table.len == other->table.len &&
           strncasecmp((const char *)one->table.ptr, (const char *)other->table.ptr,
                       one->table.len) == 0;
}

bool rules_overlap(const struct rule_spec *one, const struct rule_spec *other)
{
    bool same_place = one->db == other->db || strcmp(one->sink, other->sink) == 0;
    bool heads = bytes_start_with(one->prefix, other->prefix) ||
                 bytes_start_with(other->prefix, one->prefix);
    return same_place && heads && ends_alike(one->suffix, other->suffix);
}
