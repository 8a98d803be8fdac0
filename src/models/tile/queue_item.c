// SPDX-License-Identifier: Apache-2.0
/* queue_item.c - parses the JSON of a task and its id. */
#include <jansson.h>

#include "models/tile/queue.h"

#include "base/banned.h"

static bool kind_is(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool letter = text.ptr[i] >= 'a' && text.ptr[i] <= 'z';
        bool digit = (text.ptr[i] >= '0' && text.ptr[i] <= '9') || text.ptr[i] == '_';
        if (!letter && (i == 0 || !digit))
            return false;
    }
    return text.len > 0 && text.len <= QUEUE_KIND_BYTES_MAX;
}

struct bytes queue_id_kind(struct bytes id)
{
    const uint8_t *colon = id.len ? memchr(id.ptr, ':', id.len) : NULL;
    return bytes_of(id.ptr, colon ? (size_t)(colon - id.ptr) : 0);
}

struct bytes queue_id_tilekey(struct bytes id)
{
    struct bytes kind = queue_id_kind(id);
    return kind.len > 0 ? bytes_from(id, kind.len + 1) : id;
}

bool queue_id_is(struct bytes text)
{
    struct bytes kind = queue_id_kind(text);
    return tilekey_is(queue_id_tilekey(text)) && (kind.len == 0 || kind_is(kind));
}

static bool kind_is_word(const json_t *kind)
{
    return json_is_string(kind) &&
           kind_is(bytes_of(json_string_value(kind), json_string_length(kind)));
}

static enum rc members_read(const json_t *json, bool is_stored, struct queue_item *item,
                            struct err *err)
{
    const json_t *tilekey = json_object_get(json, "tilekey");
    const json_t *version = json_object_get(json, "version");
    const json_t *kind = json_object_get(json, "kind");
    if (!json_is_object(json))
        return err_set(err, RC_INVALID, "a task is a JSON object");
    if (!json_is_string(tilekey))
        return err_set(err, RC_INVALID, "a task has a \"tilekey\", a string");
    struct bytes text = bytes_of(json_string_value(tilekey), json_string_length(tilekey));
    if (!tilekey_is(text))
        return err_set(err, RC_INVALID, "a tilekey has 1 to %d digits, each 0 to 3",
                       TILE_LEVEL_MAX);
    if (version && (!json_is_integer(version) || json_integer_value(version) < 0))
        return err_set(err, RC_INVALID, "the \"version\" of a task is an integer, 0 or more");
    item->kind_is_theirs = kind && !kind_is_word(kind);
    if (item->kind_is_theirs && !is_stored)
        return err_set(err, RC_INVALID,
                       "the \"kind\" of a task is a word: a letter, then letters, digits and _, "
                       "lower case, at most %d",
                       QUEUE_KIND_BYTES_MAX);
    size_t len = 0;
    if (kind && !item->kind_is_theirs) {
        len = json_string_length(kind);
        memcpy(item->id_text, json_string_value(kind), len);
        item->id_text[len++] = ':';
    }
    memcpy(item->id_text + len, text.ptr, text.len);
    item->id = bytes_of(item->id_text, len + text.len);
    item->version = version ? (int64_t)json_integer_value(version) : 0;
    return RC_OK;
}

static enum rc item_read(struct bytes text, bool is_stored, struct queue_item *item,
                         struct err *err)
{
    json_error_t error;
    *item = (struct queue_item){.json = text};
    if (text.len > QUEUE_ITEM_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a task has at most %d bytes", QUEUE_ITEM_BYTES_MAX);
    json_t *json = json_loadb((const char *)text.ptr, text.len, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        return err_set(err, RC_INVALID, "a task is JSON: %s", error.text);
    enum rc rc = members_read(json, is_stored, item, err);
    json_decref(json);
    return rc;
}

enum rc queue_item_parse(struct bytes text, struct queue_item *item, struct err *err)
{
    return item_read(text, false, item, err);
}

enum rc queue_item_read(struct bytes text, struct queue_item *item, struct err *err)
{
    return item_read(text, true, item, err);
}
