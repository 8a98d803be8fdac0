// SPDX-License-Identifier: Apache-2.0
/* meta.c - sets of metadata (q2, qp): raw data and a status, stored at anchors.
 *
 * Invariants:
 *   (1) Other data sets the status to PENDING; the same data changes nothing.
 *   (2) A status moves only as moves_legal says. */
#include <strings.h>

#include "models/tile/tile_int.h"

#include "base/banned.h"

static const char *const names[TILE_STATUS_COUNT] = {
    [TILE_PENDING] = "PENDING",
    [TILE_IN_PROGRESS] = "IN_PROGRESS",
    [TILE_DONE] = "DONE",
    [TILE_ERROR] = "ERROR",
};

static const bool moves_legal[TILE_STATUS_COUNT][TILE_STATUS_COUNT] = {
    [TILE_PENDING][TILE_IN_PROGRESS] = true,
    [TILE_IN_PROGRESS][TILE_DONE] = true,
    [TILE_IN_PROGRESS][TILE_ERROR] = true,
    [TILE_ERROR][TILE_PENDING] = true,
};

const char *tile_status_name(enum tile_status status)
{
    return names[status];
}

bool tile_status_parse(struct bytes text, enum tile_status *ret_status)
{
    for (int i = 0; i < TILE_STATUS_COUNT; i++) {
        bool is_name = text.len == strlen(names[i]) &&
                       strncasecmp((const char *)text.ptr, names[i], text.len) == 0;
        if (is_name || (text.len == 1 && text.ptr[0] == '0' + i)) {
            *ret_status = (enum tile_status)i;
            return true;
        }
    }
    return false;
}

static enum rc kind_check(const struct tile_type *type, struct err *err)
{
    if (type->kind != TILE_META)
        return err_set(err, RC_INVALID,
                       "%s holds tiles, not sets of metadata: use TILE.SET, "
                       "TILE.GET",
                       type->name);
    return RC_OK;
}

static enum rc row_decode(const struct tile_type *type, struct bytes row, uint64_t anchor,
                          struct tile_meta_found *ret_found, struct err *err)
{
    if (row.len == 0 || row.ptr[0] >= TILE_STATUS_COUNT)
        return tile__damaged(type, (struct tilekey){.packed = anchor}, "it has no status", err);
    *ret_found = (struct tile_meta_found){anchor, (enum tile_status)row.ptr[0], bytes_from(row, 1)};
    return RC_OK;
}

static enum rc row_put(struct tile_type *type, uint64_t anchor, enum tile_status status,
                       struct bytes data, struct err *err)
{
    struct buf *row = &type->tiles->row;
    uint8_t byte = (uint8_t)status;
    buf_shrink(row, TILE_ROW_KEPT_BYTES);
    if (!buf_add(row, &byte, 1) || !buf_add_bytes(row, data))
        return err_set(err, RC_NOMEM, "could not allocate memory for a set of metadata");
    return tile__row_put(type, (struct tilekey){.packed = anchor}, buf_bytes(row), data.len, err);
}

enum rc tile_meta_get(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      struct tile_meta_found *ret_found, struct err *err)
{
    uint64_t anchor = tilekey_anchor(packed);
    struct bytes row;
    (void)tiles;
    enum rc rc = kind_check(type, err);
    if (rc == RC_OK)
        rc = tile__find(type, (struct tilekey){.packed = anchor}, &row, err);
    return rc == RC_OK ? row_decode(type, row, anchor, ret_found, err) : rc;
}

enum rc tile_meta_set(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      struct bytes data, bool *ret_changed, struct err *err)
{
    struct tile_meta_found found = {0};
    if (data.len > TILE_DATA_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a set of metadata of %zu bytes is over the limit of %d",
                       data.len, TILE_DATA_BYTES_MAX);
    enum rc rc = tile_meta_get(tiles, type, packed, &found, err);
    bool none = rc == RC_NOT_FOUND || rc == RC_CORRUPT; /* what is damaged is set again */
    *ret_changed = none || (rc == RC_OK && !bytes_eq(found.data, data));
    if ((rc != RC_OK && !none) || !*ret_changed) /* (1) */
        return rc;
    return row_put(type, tilekey_anchor(packed), TILE_PENDING, data, err);
}

enum rc tile_meta_move(struct tiles *tiles, const struct run *run, struct tile_type *type,
                       uint64_t packed, enum tile_status status, struct err *err)
{
    struct tile_meta_found found = {0};
    enum rc rc = tile_meta_get(tiles, type, packed, &found, err);
    if (rc != RC_OK || found.status == status)
        return rc;
    if (!moves_legal[found.status][status]) /* (2) */
        return err_set(err, RC_INVALID, "the status cannot go from %s to %s", names[found.status],
                       names[status]);
    struct bytes data = arena_copy(run->arena, found.data);
    return row_put(type, found.anchor, status, data, err);
}

enum rc tile_meta_del(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      bool *ret_existed, struct err *err)
{
    struct tile_meta_found found = {0};
    enum rc rc = tile_meta_get(tiles, type, packed, &found, err);
    *ret_existed = rc == RC_OK;
    if (rc == RC_OK)
        return tile__row_del(type, (struct tilekey){.packed = found.anchor}, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}
