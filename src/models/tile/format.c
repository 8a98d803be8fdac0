// SPDX-License-Identifier: Apache-2.0
/* format.c - knows PNG, JPEG, WebP, GIF, AVIF, JSON and vector tiles by their first bytes. */
#include "models/tile/format.h"

#include "base/banned.h"

static bool begins(struct bytes data, size_t at, struct bytes with)
{
    return data.len >= at && bytes_start_with(bytes_from(data, at), with);
}

bool tile_is_gzip(struct bytes data)
{
    return begins(data, 0, BYTES("\x1f\x8b\x08"));
}

const struct tile_format *tile_format_of(struct bytes data)
{
    static const struct tile_format png = {"image/png", "png"}, jpeg = {"image/jpeg", "jpg"},
                                    webp = {"image/webp", "webp"}, gif = {"image/gif", "gif"},
                                    avif = {"image/avif", "avif"},
                                    json = {"application/json", "json"},
                                    vector = {"application/vnd.mapbox-vector-tile", "pbf"},
                                    other = {"application/octet-stream", "bin"};
    if (begins(data, 0, BYTES("\x89PNG\r\n\x1a\n")))
        return &png;
    if (begins(data, 0, BYTES("\xff\xd8\xff")))
        return &jpeg;
    if (begins(data, 0, BYTES("RIFF")) && begins(data, 8, BYTES("WEBP")))
        return &webp;
    if (begins(data, 0, BYTES("GIF8")))
        return &gif;
    if (begins(data, 4, BYTES("ftypavif")))
        return &avif;
    if (begins(data, 0, BYTES("{")) || begins(data, 0, BYTES("[")))
        return &json;
    /* Tiles that are packed are vector tiles; those that are not begin with field 3, a layer. */
    if (tile_is_gzip(data) || (data.len > 2 && data.ptr[0] == 0x1a))
        return &vector;
    return &other;
}
