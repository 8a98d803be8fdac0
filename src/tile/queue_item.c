#include <jansson.h>

#include "tile/queue.h"

#include "base/banned.h"

static enum rc members_read(const json_t *json, struct queue_item *item, struct err *err)
{
    const json_t *tilekey = json_object_get(json, "tilekey");
    const json_t *version = json_object_get(json, "version");
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
    memcpy(item->tilekey_text, text.ptr, text.len);
    item->tilekey = bytes_of(item->tilekey_text, text.len);
    item->version = version ? (int64_t)json_integer_value(version) : 0;
    return RC_OK;
}

enum rc queue_item_parse(struct bytes text, struct queue_item *item, struct err *err)
{
    json_error_t error;
    *item = (struct queue_item){.json = text};
    if (text.len > QUEUE_ITEM_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a task has at most %d bytes", QUEUE_ITEM_BYTES_MAX);
    json_t *json = json_loadb((const char *)text.ptr, text.len, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        return err_set(err, RC_INVALID, "a task is JSON: %s", error.text);
    enum rc rc = members_read(json, item, err);
    json_decref(json);
    return rc;
}
