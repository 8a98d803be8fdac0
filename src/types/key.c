#include "types/key.h"

#include "base/codec.h"

#include "base/banned.h"

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
