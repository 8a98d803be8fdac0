// SPDX-License-Identifier: Apache-2.0
/* space.c - declares spaces, and joins and splits their keys. */
#include "store/engine/space.h"

#include <string.h>

#include "base/banned.h"

enum {
    GROUP_BYTES_MAX = STORE_PREFIX_BYTES_MAX + STORE_GROUP_KEY_BYTES_MAX,
    SPACE_NUMBER_MAX = STORE_SPACES_MAX - 2, /* a space ends where the next one would begin */
};

void space_set_init(struct space_set *set)
{
    *set = (struct space_set){0};
    set->space[SPACE_SYS] = (struct store_space){
        .number = SPACE_SYS,
        .kind = SPACE_WHOLE,
        .name = "sys",
    };
}

static bool space_eq(const struct store_space *a, const struct store_space *b)
{
    return a->number == b->number && a->kind == b->kind && a->fixed_bytes == b->fixed_bytes &&
           a->pack == b->pack && a->unpack == b->unpack && strcmp(a->name, b->name) == 0;
}

static enum rc space_declaration_check(const struct store_space *space, struct err *err)
{
    if (!memchr(space->name, '\0', sizeof space->name) || space->name[0] == '\0')
        return err_set(err, RC_INVALID, "space %u has no name", space->number);
    for (const char *at = space->name; *at; at++) /* the catalogue separates words by blanks */
        if (*at <= ' ' || *at > '~')
            return err_set(err, RC_INVALID, "the name of space %u is not one word", space->number);
    if (space->number == SPACE_SYS || space->number > SPACE_NUMBER_MAX)
        return err_set(err, RC_INVALID, "space \"%s\" cannot have the number %u", space->name,
                       space->number);
    if (!space->pack != !space->unpack)
        return err_set(err, RC_INVALID, "space \"%s\" can pack or unpack, but not both",
                       space->name);
    switch (space->kind) {
    case SPACE_FIXED:
        if (space->fixed_bytes > 0)
            return RC_OK;
        return err_set(err, RC_INVALID, "space \"%s\" has group keys of no bytes", space->name);
    case SPACE_WHOLE:
    case SPACE_LENGTH:
        if (space->fixed_bytes == 0)
            return RC_OK;
        return err_set(err, RC_INVALID, "space \"%s\" is not of fixed length, but has one",
                       space->name);
    case SPACE_NONE:
        break;
    }
    return err_set(err, RC_INVALID, "space \"%s\" is of the unknown kind %d", space->name,
                   (int)space->kind);
}

enum rc space_set_add(struct space_set *set, const struct store_space *space, struct err *err)
{
    enum rc rc = space_declaration_check(space, err);
    if (rc != RC_OK)
        return rc;
    struct store_space *there = &set->space[space->number];
    if (there->kind != SPACE_NONE && !space_eq(there, space))
        return err_set(err, RC_INVALID, "space %u is \"%s\" and cannot be \"%s\"", space->number,
                       there->name, space->name);
    *there = *space;
    return RC_OK;
}

enum rc space_check(const struct space_set *set, uint8_t space, struct bytes group,
                    struct bytes suffix, struct err *err)
{
    const struct store_space *declared = &set->space[space];

    switch (declared->kind) {
    case SPACE_NONE:
        return err_set(err, RC_INVALID, "there is no space %u", space);
    case SPACE_WHOLE:
        if (suffix.len > 0)
            return err_set(err, RC_INVALID, "a row of space \"%s\" has no suffix", declared->name);
        if (group.len > GROUP_BYTES_MAX)
            return err_set(err, RC_TOO_BIG, "a key of %zu bytes is over the limit", group.len);
        break;
    case SPACE_FIXED:
        if (group.len != declared->fixed_bytes)
            return err_set(err, RC_INVALID, "a group key of space \"%s\" has %u bytes, not %zu",
                           declared->name, declared->fixed_bytes, group.len);
        break;
    case SPACE_LENGTH:
        if (group.len > STORE_LENGTH_KEY_BYTES_MAX)
            return err_set(err, RC_TOO_BIG, "a group key of %zu bytes is over the limit",
                           group.len);
        break;
    }
    if (suffix.len > STORE_SUFFIX_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a suffix of %zu bytes is over the limit", suffix.len);
    return RC_OK;
}

static size_t head_len(const struct space_set *set, uint8_t space, struct bytes group)
{
    return 1 + (set->space[space].kind == SPACE_LENGTH) + group.len;
}

/* Space byte, length byte and group key. Room was reserved. */
static void head_put(const struct space_set *set, uint8_t space, struct bytes group, struct buf *to)
{
    bool has_length = set->space[space].kind == SPACE_LENGTH;

    ASSERT(set->space[space].kind != SPACE_NONE);
    ASSERT(!has_length || group.len <= STORE_LENGTH_KEY_BYTES_MAX);
    to->ptr[to->len++] = space;
    if (has_length)
        to->ptr[to->len++] = (uint8_t)group.len;
    if (group.len > 0)
        memcpy(to->ptr + to->len, group.ptr, group.len);
    to->len += group.len;
}

bool space_key_add(const struct space_set *set, uint8_t space, struct bytes group,
                   struct bytes suffix, struct buf *to)
{
    if (!buf_reserve(to, head_len(set, space, group) + suffix.len))
        return false;
    head_put(set, space, group, to);
    if (suffix.len > 0)
        memcpy(to->ptr + to->len, suffix.ptr, suffix.len);
    to->len += suffix.len;
    return true;
}

bool space_group_range_add(const struct space_set *set, uint8_t space, struct bytes group,
                           struct buf *from, struct buf *to)
{
    bool is_whole = set->space[space].kind == SPACE_WHOLE;
    size_t from_len = from->len;
    size_t len = head_len(set, space, group);

    if (!buf_reserve(from, len) || !buf_reserve(to, len + is_whole))
        return false;
    head_put(set, space, group, from);
    struct bytes head = bytes_of(from->ptr + from_len, len);
    bool added;
    if (is_whole) /* other groups may start with this one */
        added = buf_add_bytes(to, head) && buf_add(to, "", 1);
    else
        added = space_successor_add(head, to); /* at most the next space */
    ASSERT(added); /* room was reserved, and no space is the last byte */
    return true;
}

bool space_successor_add(struct bytes prefix, struct buf *to)
{
    while (prefix.len > 0 && prefix.ptr[prefix.len - 1] == 0xff)
        prefix.len--;
    if (prefix.len == 0)
        return false;
    if (!buf_add_bytes(to, prefix))
        return false;
    to->ptr[to->len - 1]++;
    return true;
}

size_t space_group_len(const struct space_set *set, struct bytes key)
{
    if (key.len == 0)
        return 0;
    const struct store_space *declared = &set->space[key.ptr[0]];
    size_t len = key.len;
    if (declared->kind == SPACE_FIXED)
        len = 1 + (size_t)declared->fixed_bytes;
    else if (declared->kind == SPACE_LENGTH && key.len > 1)
        len = 2 + (size_t)key.ptr[1];
    return len < key.len ? len : key.len;
}

enum rc space_key_split(const struct space_set *set, struct bytes key, uint8_t *ret_space,
                        struct bytes *ret_group, struct bytes *ret_suffix, struct err *err)
{
    if (key.len == 0)
        return err_set(err, RC_CORRUPT, "a row has an empty key");
    const struct store_space *declared = &set->space[key.ptr[0]];
    size_t head = 1;
    size_t group = key.len - 1;
    switch (declared->kind) {
    case SPACE_NONE:
        return err_set(err, RC_CORRUPT, "a row belongs to the unknown space %u", key.ptr[0]);
    case SPACE_WHOLE:
        break;
    case SPACE_FIXED:
        group = declared->fixed_bytes;
        break;
    case SPACE_LENGTH:
        head = 2;
        group = key.len > 1 ? key.ptr[1] : 0;
        break;
    }
    if (key.len < head + group)
        return err_set(err, RC_CORRUPT, "a key of space \"%s\" is cut short at %zu bytes",
                       declared->name, key.len);
    struct bytes suffix = bytes_from(key, head + group);
    if (group > GROUP_BYTES_MAX || suffix.len > STORE_SUFFIX_BYTES_MAX)
        return err_set(err, RC_CORRUPT, "a key of space \"%s\" is too long at %zu bytes",
                       declared->name, key.len);
    *ret_space = key.ptr[0];
    *ret_group = bytes_of(key.ptr + head, group);
    *ret_suffix = suffix;
    return RC_OK;
}

/* ---- packing ---- */

static bool packed_take(enum space_packed packed, struct bytes from, const struct buf *scratch,
                        struct bytes *ret_to)
{
    *ret_to = packed == SPACE_PACKED_SAME ? from : buf_bytes(scratch);
    return packed != SPACE_PACKED_FULL;
}

bool space_pack(const struct store_space *space, struct bytes group, struct bytes suffix,
                struct bytes value, struct buf *scratch, struct bytes *ret_packed)
{
    *ret_packed = value;
    if (!space->pack)
        return true;
    buf_cut(scratch, 0);
    return packed_take(space->pack(group, suffix, value, scratch), value, scratch, ret_packed);
}

bool space_unpack(const struct store_space *space, struct bytes group, struct bytes suffix,
                  struct bytes packed, struct buf *scratch, struct bytes *ret_value)
{
    *ret_value = packed;
    if (!space->unpack)
        return true;
    buf_cut(scratch, 0);
    return packed_take(space->unpack(group, suffix, packed, scratch), packed, scratch, ret_value);
}
