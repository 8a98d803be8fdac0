// SPDX-License-Identifier: Apache-2.0
/* mark.c - what a row of space tilemark holds. */
#include "models/tile/tile_int.h"

#include "base/banned.h"

size_t tile__mark_put(const struct tile_mark *mark, uint8_t to[TILE_MARK_BYTES_MAX])
{
    to[0] = (uint8_t)mark->op;
    be64_put(to + 1, mark->version);
    return 9 + uvarint_put(to + 9, mark->bytes);
}

enum rc tile__mark_decode(struct bytes bytes, struct tile_mark *ret_mark, struct err *err)
{
    const uint8_t *at = bytes.ptr + 9, *end = bytes.ptr + bytes.len;
    struct tile_mark mark;
    if (bytes.len < 10 || (bytes.ptr[0] != TILE_MARK_SET && bytes.ptr[0] != TILE_MARK_DEL) ||
        !uvarint_get(&at, end, &mark.bytes) || at != end)
        return err_set(err, RC_CORRUPT, "the mark of a tile is damaged");
    mark.op = (enum tile_mark_op)bytes.ptr[0];
    mark.version = be64_get(bytes.ptr + 1);
    *ret_mark = mark;
    return RC_OK;
}
