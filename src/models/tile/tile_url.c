// SPDX-License-Identifier: Apache-2.0
/* tile_url.c - parses the paths of tiles on the HTTP port. */
#include "models/tile/tile_url.h"

#include "base/banned.h"

enum { EXT_BYTES_MAX = 16, NUMBER_DIGITS_MAX = 10 };

static bool is_lower(uint8_t c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Up to the next slash, or to the end; *rest begins with the slash. */
static struct bytes part_take(struct bytes *rest)
{
    const uint8_t *slash = rest->len > 0 ? memchr(rest->ptr, '/', rest->len) : NULL;
    size_t len = slash ? (size_t)(slash - rest->ptr) : rest->len;
    struct bytes part = bytes_of(rest->ptr, len);
    *rest = bytes_from(*rest, len);
    return part;
}

/* Takes ".png" away. False: what stands behind the dot is no extension. */
static bool ext_cut(struct bytes *name)
{
    const uint8_t *dot = name->len > 0 ? memchr(name->ptr, '.', name->len) : NULL;
    if (!dot)
        return true;
    size_t at = (size_t)(dot - name->ptr), len = name->len - at - 1;
    for (size_t i = at + 1; i < name->len; i++)
        if (!is_lower(name->ptr[i]) && !is_digit(name->ptr[i]) && name->ptr[i] != '.')
            return false;
    name->len = at;
    return len > 0 && len <= EXT_BYTES_MAX;
}

static bool type_read(struct bytes text, struct tile_url *url)
{
    if (text.len == 0 || text.len > TILE_TYPE_NAME_BYTES_MAX || !is_lower(text.ptr[0]))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!is_lower(text.ptr[i]) && !is_digit(text.ptr[i]) && text.ptr[i] != '_')
            return false;
    memcpy(url->type, text.ptr, text.len);
    url->type[text.len] = 0;
    return true;
}

static bool number_read(struct bytes text, uint32_t *ret_value)
{
    uint64_t value = 0;
    if (text.len == 0 || text.len > NUMBER_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.ptr[i]))
            return false;
        value = value * 10 + (text.ptr[i] - '0');
    }
    *ret_value = (uint32_t)value;
    return value <= UINT32_MAX;
}

/* <tilekey>, or <z>/<x>/<y>; both may have an extension. */
static enum tile_page tile_read(struct bytes rest, struct tile_url *url)
{
    struct bytes part[3];
    struct err ignored;
    size_t count = 0;
    while (rest.len > 0) {
        if (count == 3)
            return TILE_PAGE_NONE;
        rest = bytes_from(rest, 1); /* the slash */
        part[count++] = part_take(&rest);
    }
    if (count == 0 || count == 2)
        return TILE_PAGE_NONE;
    if (!ext_cut(&part[count - 1]))
        return TILE_PAGE_BAD;
    if (count == 1) {
        bool good = tilekey_is(part[0]) && tilekey_parse(part[0], &url->packed, &ignored) == RC_OK;
        return good ? TILE_PAGE_TILE : TILE_PAGE_BAD;
    }
    struct tile_xyz xyz;
    uint32_t z;
    if (!number_read(part[0], &z) || !number_read(part[1], &xyz.x) || !number_read(part[2], &xyz.y))
        return TILE_PAGE_BAD;
    xyz.z = z;
    return tilekey_from_xyz(xyz, TILE_ROWS_XYZ, &url->packed, &ignored) == RC_OK ? TILE_PAGE_TILE
                                                                                 : TILE_PAGE_BAD;
}

struct tile_url tile_url_parse(struct bytes path)
{
    static const struct bytes tiles = BYTES_INIT("/tiles/"), json = BYTES_INIT(".json");
    struct tile_url url = {.page = TILE_PAGE_NONE};
    if (!bytes_start_with(path, tiles))
        return url;
    struct bytes rest = bytes_from(path, tiles.len), type = part_take(&rest);
    if (rest.len > 0) {
        if (type_read(type, &url))
            url.page = tile_read(rest, &url);
    } else if (type.len > json.len && bytes_eq(bytes_from(type, type.len - json.len), json)) {
        if (type_read(bytes_of(type.ptr, type.len - json.len), &url))
            url.page = TILE_PAGE_JSON;
    }
    return url;
}
