// SPDX-License-Identifier: Apache-2.0
/* value.c - reads a whole reply into an arena. */
#include "cli/value.h"

#include <string.h>

#include "base/banned.h"

enum { DEPTH_MAX = 8, ITEMS_MAX = 64 * 1024 * 1024 };

static enum rc value_read(struct link *link, int depth, struct arena *arena, struct value *value,
                          struct err *err)
{
    struct reply reply;
    enum rc rc = link_reply(link, &reply, err);
    if (rc != RC_OK)
        return rc;
    *value = (struct value){.kind = reply.kind, .number = reply.number};
    if (reply.kind == REPLY_STATUS || reply.kind == REPLY_BULK)
        value->text = arena_copy(arena, reply.text);
    if (reply.kind != REPLY_ARRAY)
        return RC_OK;
    if (depth == DEPTH_MAX || reply.number > ITEMS_MAX)
        return err_set(err, RC_INVALID, "the reply is nested too deep, or too long");
    value->item_count = (size_t)reply.number;
    value->item = arena_try_alloc(arena, (value->item_count + 1) * sizeof *value->item);
    if (!value->item)
        return err_set(err, RC_NOMEM, "could not allocate memory for a reply");
    for (size_t i = 0; rc == RC_OK && i < value->item_count; i++)
        rc = value_read(link, depth + 1, arena, &value->item[i], err);
    return rc;
}

enum rc value_ask(struct link *link, const struct bytes *word, size_t count, struct arena *arena,
                  struct value *ret_value, struct err *err)
{
    resp_add_array(&link->out, count);
    for (size_t i = 0; i < count; i++)
        resp_add_bulk(&link->out, word[i]);
    enum rc rc = link_send(link, err);
    return rc == RC_OK ? value_read(link, 0, arena, ret_value, err) : rc;
}

const struct value *value_field(const struct value *map, const char *label)
{
    for (size_t i = 0; i + 1 < map->item_count; i += 2)
        if (bytes_eq(map->item[i].text, bytes_of(label, strlen(label))))
            return &map->item[i + 1];
    return NULL;
}
