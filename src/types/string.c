#include "types/string.h"

#include "base/banned.h"

enum { VALUE_KEPT_BYTES = 64 * 1024 }; /* between two calls */

_Static_assert(STRING_BYTES_MAX + META_HEAD_BYTES <= STORE_VALUE_BYTES_MAX,
               "a row holds the longest string");

enum rc string_get(struct ns *ns, struct bytes key, struct bytes *ret_value, struct err *err)
{
    struct meta meta;
    enum rc rc = ns_meta_get(ns, key, &meta, err);
    if (rc != RC_OK)
        return rc;
    if (meta.type != TYPE_STRING)
        return err_set(err, RC_WRONGTYPE, "%s", rc_text(RC_WRONGTYPE));
    *ret_value = meta.extra;
    return RC_OK;
}

static enum rc row_put(struct ns *ns, struct bytes key, const struct meta *meta, struct err *err)
{
    uint8_t head[META_HEAD_BYTES];
    meta_head_put(head, meta);
    buf_cut(&ns->value, 0);
    if (!buf_reserve(&ns->value, sizeof head + meta->extra.len) ||
        !buf_add(&ns->value, head, sizeof head) || !buf_add_bytes(&ns->value, meta->extra))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", meta->extra.len);
    enum rc rc = store_put(ns->store, (struct store_group){ns->meta, key}, BYTES(""),
                           buf_bytes(&ns->value), err);
    buf_shrink(&ns->value, VALUE_KEPT_BYTES);
    return rc;
}

enum rc string_set(struct ns *ns, struct bytes key, struct bytes value, struct err *err)
{
    struct meta old;
    if (value.len > STRING_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "string exceeds maximum allowed size (%d bytes)",
                       STRING_BYTES_MAX);
    enum rc rc = ns_meta_get(ns, key, &old, err);
    bool is_new = rc == RC_NOT_FOUND;
    if (rc != RC_OK && !is_new)
        return rc;
    struct meta meta = {
        .type = TYPE_STRING, .create_s = clock_unix_ms(ns->clock) / 1000, .extra = value};
    ns_id_draw(ns, meta.id);
    rc = row_put(ns, key, &meta, err);
    if (rc == RC_OK && is_new)
        rc = store_counter_add(ns->store, ns->key_count, 1, err);
    return rc;
}
