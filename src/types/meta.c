// SPDX-License-Identifier: Apache-2.0
/* meta.c - encodes and decodes keys and meta rows. */
#include "types/meta.h"

#include "base/codec.h"

#include "base/banned.h"

enum packed_bits {
    PACKED_TYPE = 7,
    PACKED_ORDINAL = 8,
    PACKED_EXPIRE = 16,
    PACKED_COUNT = 32,
    PACKED_CREATE8 = 64,
    PACKED_AS_IT_IS = 128,
};
enum { ID_FRONT_BYTES = 12 }; /* LSN and incarnation */

/* All that type_name() knows. In memory only: the numbers may change. */
static const uint8_t packed_types[] = {
    TYPE_STRING, TYPE_STRING_CHUNKED, TYPE_HASH, TYPE_LIST, TYPE_SET, TYPE_ZSET};

_Static_assert(ARRAY_LEN(packed_types) <= PACKED_TYPE + 1, "a number fits");

bool key_prefix_add(struct bytes ns_name, char tag, struct buf *to)
{
    ASSERT(ns_name.len <= NS_NAME_BYTES_MAX);
    return buf_reserve(to, ns_name.len + 3) && buf_add_bytes(to, BYTES("kv")) &&
           buf_add_bytes(to, ns_name) && buf_add(to, &tag, 1);
}

void meta_head_put(uint8_t to[META_HEAD_BYTES], const struct meta *meta)
{
    ASSERT(type_name(meta->type));
    to[0] = meta->type;
    memcpy(to + 1, meta->id, KEY_ID_BYTES);
    be64_put(to + 17, meta->count);
    be64_put(to + 25, meta->create_s);
    be64_put(to + 33, meta->expire_ms);
}

enum rc meta_decode(struct bytes value, struct meta *ret_meta, struct err *err)
{
    if (value.len < META_HEAD_BYTES)
        return err_set(err, RC_CORRUPT, "a meta row has %zu bytes, at least %d are needed",
                       value.len, META_HEAD_BYTES);
    if (!type_name(value.ptr[0]))
        return err_set(err, RC_VERSION, "a meta row has the unknown type 0x%02x", value.ptr[0]);
    ret_meta->type = value.ptr[0];
    memcpy(ret_meta->id, value.ptr + 1, KEY_ID_BYTES);
    ret_meta->count = be64_get(value.ptr + 17);
    ret_meta->create_s = be64_get(value.ptr + 25);
    ret_meta->expire_ms = be64_get(value.ptr + 33);
    ret_meta->extra = bytes_from(value, META_HEAD_BYTES);
    return RC_OK;
}

/* ---- the packed form ---- */

static int packed_type(uint8_t type)
{
    for (size_t i = 0; i < ARRAY_LEN(packed_types); i++)
        if (packed_types[i] == type)
            return (int)i;
    return -1;
}

size_t meta_packed_head_put(uint8_t to[META_PACKED_HEAD_BYTES_MAX], const struct meta *meta)
{
    uint8_t *at = to + 1;
    int type = packed_type(meta->type);
    ASSERT(type >= 0);
    uint8_t bits = (uint8_t)type;
    memcpy(at, meta->id, ID_FRONT_BYTES);
    at += ID_FRONT_BYTES;
    if (UNLIKELY(meta->create_s > UINT32_MAX)) {
        bits |= PACKED_CREATE8;
        be64_put(at, meta->create_s);
        at += 8;
    } else {
        be32_put(at, (uint32_t)meta->create_s);
        at += 4;
    }
    if (be32_get(meta->id + ID_FRONT_BYTES) != 0) {
        bits |= PACKED_ORDINAL;
        memcpy(at, meta->id + ID_FRONT_BYTES, 4);
        at += 4;
    }
    if (meta->expire_ms != 0) {
        bits |= PACKED_EXPIRE;
        be64_put(at, meta->expire_ms);
        at += 8;
    }
    if (meta->count != 0) {
        bits |= PACKED_COUNT;
        be64_put(at, meta->count);
        at += 8;
    }
    *to = bits;
    return (size_t)(at - to);
}

enum space_packed meta_pack(struct bytes group, struct bytes suffix, struct bytes value,
                            struct buf *to)
{
    struct meta meta;
    uint8_t head[META_PACKED_HEAD_BYTES_MAX];
    (void)group;
    (void)suffix;
    if (meta_decode(value, &meta, NULL) == RC_OK)
        return space_packed(buf_add(to, head, meta_packed_head_put(head, &meta)) &&
                            buf_add_bytes(to, meta.extra));
    uint8_t as_it_is = PACKED_AS_IT_IS;
    return space_packed(buf_add(to, &as_it_is, 1) && buf_add_bytes(to, value));
}

/* Only what meta_pack() made comes here: lengths need no check. */
static void packed_read(struct bytes packed, struct meta *ret_meta)
{
    const uint8_t *at = packed.ptr;
    uint8_t bits = *at++;
    ASSERT((bits & PACKED_TYPE) < ARRAY_LEN(packed_types));
    ret_meta->type = packed_types[bits & PACKED_TYPE];
    memcpy(ret_meta->id, at, ID_FRONT_BYTES);
    at += ID_FRONT_BYTES;
    ret_meta->create_s = bits & PACKED_CREATE8 ? be64_get(at) : be32_get(at);
    at += bits & PACKED_CREATE8 ? 8 : 4;
    memset(ret_meta->id + ID_FRONT_BYTES, 0, 4);
    if (bits & PACKED_ORDINAL) {
        memcpy(ret_meta->id + ID_FRONT_BYTES, at, 4);
        at += 4;
    }
    ret_meta->expire_ms = 0;
    if (bits & PACKED_EXPIRE) {
        ret_meta->expire_ms = be64_get(at);
        at += 8;
    }
    ret_meta->count = 0;
    if (bits & PACKED_COUNT) {
        ret_meta->count = be64_get(at);
        at += 8;
    }
    ret_meta->extra = bytes_from(packed, (size_t)(at - packed.ptr));
}

enum space_packed meta_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                              struct buf *to)
{
    struct meta meta;
    uint8_t head[META_HEAD_BYTES];
    (void)group;
    (void)suffix;
    if (packed.ptr[0] & PACKED_AS_IT_IS)
        return space_packed(buf_add_bytes(to, bytes_from(packed, 1)));
    packed_read(packed, &meta);
    meta_head_put(head, &meta);
    return space_packed(buf_reserve(to, sizeof head + meta.extra.len) &&
                        buf_add(to, head, sizeof head) && buf_add_bytes(to, meta.extra));
}

enum rc meta_decode_packed(struct bytes packed, struct meta *ret_meta, struct err *err)
{
    if (UNLIKELY(packed.ptr[0] & PACKED_AS_IT_IS))
        return meta_decode(bytes_from(packed, 1), ret_meta, err);
    packed_read(packed, ret_meta);
    return RC_OK;
}

const char *type_name(uint8_t type)
{
    switch (type) {
    case TYPE_STRING:
    case TYPE_STRING_CHUNKED:
        return "string";
    case TYPE_HASH:
        return "hash";
    case TYPE_LIST:
        return "list";
    case TYPE_SET:
        return "set";
    case TYPE_ZSET:
        return "zset";
    }
    return NULL;
}
