#include "types/ns.h"

#include "base/codec.h"
#include "types/spaces.h"

#include "base/banned.h"

enum rc ns_init(struct ns *ns, struct store *store, const struct clock *clock, struct ns_ids *ids,
                struct bytes name, struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, STORE_COUNTER_NAME_BYTES_MAX);
    *ns = (struct ns){.store = store, .clock = clock, .ids = ids};
    buf_init(&ns->value, STORE_VALUE_BYTES_MAX);

    if (!key_prefix_add(name, 'm', &text))
        return err_set(err, RC_NOMEM, "could not allocate memory for a namespace");
    enum rc rc = store_prefix(store, SPACE_META, buf_bytes(&text), &ns->meta, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&text, 0);
    if (!buf_printf(&text, "keys:%.*s", (int)name.len, name.ptr))
        return err_set(err, RC_NOMEM, "could not allocate memory for a namespace");
    return store_counter(store, buf_bytes(&text), &ns->key_count, err);
}

void ns_done(struct ns *ns)
{
    if (!ns)
        return;
    buf_done(&ns->value);
    *ns = (struct ns){0};
}

/* A commit that is taken back leaves its LSN to the next one: the ordinal goes on then. */
void ns_id_draw(struct ns *ns, uint8_t to[KEY_ID_BYTES])
{
    uint64_t lsn = store_lsn(ns->store);
    if (ns->ids->lsn != lsn)
        *ns->ids = (struct ns_ids){.lsn = lsn};
    be64_put(to, lsn);
    be32_put(to + 8, store_incarnation(ns->store));
    be32_put(to + 12, ns->ids->ordinal++);
}

int64_t ns_key_count(const struct ns *ns)
{
    return store_counter_get(ns->store, ns->key_count);
}

enum rc ns_meta_get(struct ns *ns, struct bytes key, struct meta *ret_meta, struct err *err)
{
    struct bytes value;
    if (key.len > KEY_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a key of %zu bytes is over the limit of %d", key.len,
                       KEY_BYTES_MAX);
    struct store_group group = {.prefix = ns->meta, .key = key};
    enum rc rc = store_get(ns->store, group, BYTES(""), &value, err);
    if (rc != RC_OK)
        return rc;
    return meta_decode(value, ret_meta, err);
}

enum rc ns_delete(struct ns *ns, const struct bytes *key, size_t key_count, int64_t *ret_count,
                  struct err *err)
{
    struct meta meta;
    int64_t count = 0;
    bool cold = false;
    for (size_t i = 0; i < key_count; i++) {
        enum rc rc = ns_meta_get(ns, key[i], &meta, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_COLD || rc == RC_NOT_FOUND || cold)
            continue;
        if (rc == RC_OK)
            rc = store_delete(ns->store, (struct store_group){ns->meta, key[i]}, BYTES(""), err);
        if (rc != RC_OK)
            return rc;
        count++;
    }
    if (cold)
        return RC_COLD;
    enum rc rc = RC_OK;
    if (count > 0)
        rc = store_counter_add(ns->store, ns->key_count, -count, err);
    if (rc == RC_OK)
        *ret_count = count;
    return rc;
}
