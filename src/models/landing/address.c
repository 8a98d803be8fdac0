// SPDX-License-Identifier: Apache-2.0
/* address.c - key to address, address to entry of a dirty table, and back. */
#include "models/landing/address.h"

#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/utf8.h"
#include "models/landing/sink.h"

#include "base/banned.h"

/* ---- keys ---- */

/* The part up to the separator, which is taken off as well. False: there is none. */
static bool part_take(struct bytes *rest, char separator, struct bytes *ret_part)
{
    const uint8_t *at = rest->len ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (!at)
        return false;
    *ret_part = bytes_of(rest->ptr, (size_t)(at - rest->ptr));
    *rest = bytes_from(*rest, ret_part->len + 1);
    return true;
}

static enum rc object_parse(struct bytes key, struct address *ret_address, struct err *err)
{
    const size_t head = sizeof ADDRESS_OBJECT_PREFIX - 1;
    struct bytes rest = bytes_of(key.ptr + head, key.len - head - 1); /* without the } */
    bool good = part_take(&rest, ':', &ret_address->app) &&
                part_take(&rest, ':', &ret_address->region) &&
                part_take(&rest, ':', &ret_address->type);
    ret_address->owner = rest;
    if (!good || memchr(key.ptr, '&', key.len) || (rest.len && memchr(rest.ptr, ':', rest.len)))
        return err_set(err, RC_INVALID,
                       "a landed key is " ADDRESS_OBJECT_PREFIX "app:region:logicType:ownerId}, "
                       "without : or & in a part");
    if (ret_address->app.len == 0 || ret_address->region.len == 0 || ret_address->type.len == 0 ||
        ret_address->owner.len == 0)
        return err_set(err, RC_INVALID, "a part of the landed key is empty");
    if (!utf8_is_valid(key))
        return err_set(err, RC_INVALID, "the landed key is no valid UTF-8");
    if (utf8_count(ret_address->type) + utf8_count(ret_address->owner) + 3 > SINK_KEY_CHARS_MAX)
        return err_set(err, RC_INVALID, "logicType:ownerId has more than %d characters",
                       SINK_KEY_CHARS_MAX - 2);
    uint8_t table[SINK_NAME_BYTES_MAX + 1];
    size_t app = ret_address->app.len, region = ret_address->region.len;
    if (app + 1 + region > SINK_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "app_region names a table: it has at most %d bytes",
                       SINK_NAME_BYTES_MAX);
    memcpy(table, ret_address->app.ptr, app);
    table[app] = '_';
    memcpy(table + app + 1, ret_address->region.ptr, region);
    ret_address->owner_chars = utf8_count(ret_address->type) + utf8_count(ret_address->owner) + 2;
    return sink_check_name(bytes_of(table, app + 1 + region), "table", err);
}

enum rc address_of(const struct rule_spec *spec, struct bytes key, struct address *ret_address,
                   struct err *err)
{
    *ret_address = (struct address){.spec = spec};
    if (spec->shape == LAND_OBJECT)
        return object_parse(key, ret_address, err);
    if (!rule_takes(spec, key, &ret_address->id) || ret_address->id.len == 0)
        return err_set(err, RC_INVALID, "the id in the landed key is empty");
    size_t count = utf8_count(ret_address->id);
    if (count == SIZE_MAX)
        return err_set(err, RC_INVALID, "the id in the landed key is no valid UTF-8");
    if (count > SINK_KEY_CHARS_MAX)
        return err_set(err, RC_INVALID, "the id in the landed key has more than %d characters",
                       SINK_KEY_CHARS_MAX);
    return RC_OK;
}

/* Databases do not tell apart the case of a column's name. */
static bool is_same_column(struct bytes one, struct bytes other)
{
    return one.len == other.len &&
           strncasecmp((const char *)one.ptr, (const char *)other.ptr, one.len) == 0;
}

static bool is_own_column(const struct rule_spec *spec, struct bytes field)
{
    return is_same_column(field, BYTES(LAND_COLUMN_VERSION)) ||
           is_same_column(field, BYTES(LAND_COLUMN_IS_DEL)) ||
           is_same_column(field, BYTES(LAND_COLUMN_DEL_TIME)) || is_same_column(field, spec->key);
}

enum rc address_check_field(const struct address *address, struct bytes field, struct err *err)
{
    if (field.len == 0)
        return err_set(err, RC_INVALID, "a field of a landed key has a name");
    if (bytes_eq(field, BYTES(LAND_RESERVED_FIELD)))
        return err_set(err, RC_INVALID, "the field " LAND_RESERVED_FIELD " is reserved");
    size_t count = utf8_count(field);
    if (count == SIZE_MAX)
        return err_set(err, RC_INVALID, "a field of a landed key is valid UTF-8");
    if (address->spec->shape == LAND_OBJECT) {
        count += address->owner_chars;
        if (count > SINK_KEY_CHARS_MAX)
            return err_set(err, RC_INVALID, "logicType:ownerId:field has more than %d characters",
                           SINK_KEY_CHARS_MAX);
        return RC_OK;
    }
    enum rc rc = sink_check_name(field, "column", err);
    if (rc != RC_OK)
        return rc;
    if (is_own_column(address->spec, field))
        return err_set(err, RC_INVALID, "the column %.*s is not for fields", (int)field.len,
                       (const char *)field.ptr);
    return RC_OK;
}

uint32_t address_table(const struct rule_spec *spec, struct bytes key)
{
    ASSERT(key.ptr || key.len == 0);
    return (uint32_t)(XXH64(key.ptr, key.len, 0) % spec->tables);
}

bool address_key_add(const struct address *address, struct buf *to)
{
    const struct rule_spec *spec = address->spec;
    if (spec->shape == LAND_OBJECT)
        return buf_add_bytes(to, BYTES(ADDRESS_OBJECT_PREFIX)) && buf_add_bytes(to, address->app) &&
               buf_add_bytes(to, BYTES(":")) && buf_add_bytes(to, address->region) &&
               buf_add_bytes(to, BYTES(":")) && buf_add_bytes(to, address->type) &&
               buf_add_bytes(to, BYTES(":")) && buf_add_bytes(to, address->owner) &&
               buf_add_bytes(to, BYTES("}"));
    return buf_add_bytes(to, spec->prefix) && buf_add_bytes(to, address->id) &&
           buf_add_bytes(to, spec->suffix);
}

/* ---- entries ---- */

static bool encoded_add(struct bytes text, struct buf *to)
{
    for (size_t i = 0; i < text.len; i++) {
        const char *code = text.ptr[i] == '%' ? "%25" : text.ptr[i] == '&' ? "%26" : NULL;
        if (!(code ? buf_add(to, code, 3) : buf_add(to, text.ptr + i, 1)))
            return false;
    }
    return true;
}

bool address_field_add(const struct address *address, struct bytes field, struct buf *to)
{
    return address->spec->shape == LAND_OBJECT ? buf_add_bytes(to, field) : encoded_add(field, to);
}

bool address_entry_add(const struct address *address, struct bytes field, struct buf *to)
{
    if (address->spec->shape == LAND_OBJECT)
        return buf_add_bytes(to, address->app) && buf_add_bytes(to, BYTES("&")) &&
               buf_add_bytes(to, address->region) && buf_add_bytes(to, BYTES("&")) &&
               buf_add_bytes(to, address->type) && buf_add_bytes(to, BYTES("&")) &&
               buf_add_bytes(to, address->owner) && buf_add_bytes(to, BYTES("&")) &&
               buf_add_bytes(to, field);
    return buf_add(to, address->spec->name, strlen(address->spec->name)) &&
           buf_add_bytes(to, BYTES("&")) && encoded_add(address->id, to) &&
           buf_add_bytes(to, BYTES("&")) && encoded_add(field, to);
}

/* False: a % that begins neither %25 nor %26. */
static bool decode(struct bytes text, struct arena *arena, struct bytes *ret_text)
{
    if (text.len == 0 || !memchr(text.ptr, '%', text.len)) {
        *ret_text = text;
        return true;
    }
    uint8_t *to = arena_alloc(arena, text.len);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '%') {
            to[len++] = text.ptr[i];
            continue;
        }
        if (text.len - i < 3 || text.ptr[i + 1] != '2' ||
            (text.ptr[i + 2] != '5' && text.ptr[i + 2] != '6'))
            return false;
        to[len++] = text.ptr[i + 2] == '5' ? '%' : '&';
        i += 2;
    }
    *ret_text = bytes_of(to, len);
    return true;
}

static size_t separators(struct bytes entry)
{
    size_t count = 0;
    for (size_t i = 0; i < entry.len; i++)
        count += entry.ptr[i] == '&';
    return count;
}

enum rc entry_parse(struct bytes entry, struct arena *arena, struct land_entry *ret_entry,
                    struct err *err)
{
    size_t count = separators(entry);
    struct address *address = &ret_entry->address;
    struct bytes rest = entry, id;
    *ret_entry = (struct land_entry){.shape = count == 2 ? LAND_COLUMNS : LAND_OBJECT};
    bool good;
    if (count == 2)
        good = part_take(&rest, '&', &ret_entry->rule_name) && part_take(&rest, '&', &id) &&
               decode(id, arena, &address->id) && decode(rest, arena, &ret_entry->field);
    else
        good = part_take(&rest, '&', &address->app) && part_take(&rest, '&', &address->region) &&
               part_take(&rest, '&', &address->type) && part_take(&rest, '&', &address->owner);
    if (!good)
        return err_set(err, RC_CORRUPT, "a dirty table holds an entry that names no field");
    if (count != 2)
        ret_entry->field = rest;
    return RC_OK;
}

struct bytes entry_owner_part(struct bytes entry, enum land_shape shape)
{
    size_t wanted = shape == LAND_COLUMNS ? 2 : 4, at = 0;
    while (at < entry.len && wanted > 0)
        wanted -= entry.ptr[at++] == '&';
    return bytes_of(entry.ptr, at);
}
