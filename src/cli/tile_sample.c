// SPDX-License-Identifier: Apache-2.0
/* tile_sample.c - terrace tile sample: a small map, z/x/y.png, each tile with its own name on it.
 *
 * A PNG of 256 by 256 pixels with a palette: signature, IHDR, PLTE, IDAT (rows with filter 0, by
 * zlib), IEND; every chunk is length(4) ‖ name ‖ data ‖ CRC(4), big-endian. */
#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/tile.h"

#include "base/banned.h"

enum {
    SIDE = 256,
    GLYPH_WIDTH = 5,
    GLYPH_HEIGHT = 7,
    SCALE = 4,
    TEXT_BYTES = 40,
    PNG_BYTES_MAX = 256 * 1024,
    COLOUR_PAPER = 0,
    COLOUR_LINE = 1,
    COLOUR_INK = 2,
};

/* Rows from the top, the left pixel is bit 4. */
static const uint8_t glyphs[][GLYPH_HEIGHT] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
    {14, 17, 17, 15, 1, 2, 12},   {1, 1, 2, 4, 8, 16, 16}, /* the slash */
};

struct image {
    uint8_t row[SIDE][1 + SIDE]; /* a filter byte in front of each */
};

struct sampler {
    const char *dir;
    struct image image;
    uint8_t packed[PNG_BYTES_MAX / 2];
    struct buf png;
    struct progress progress;
    uint64_t count;
};

static void pixel_set(struct image *image, int x, int y, uint8_t colour)
{
    if (x >= 0 && x < SIDE && y >= 0 && y < SIDE)
        image->row[y][1 + x] = colour;
}

static void glyph_draw(struct image *image, char c, int left, int top)
{
    const uint8_t *glyph = glyphs[c == '/' ? 10 : c - '0'];
    for (int y = 0; y < GLYPH_HEIGHT * SCALE; y++)
        for (int x = 0; x < GLYPH_WIDTH * SCALE; x++)
            if (glyph[y / SCALE] >> (GLYPH_WIDTH - 1 - x / SCALE) & 1)
                pixel_set(image, left + x, top + y, COLOUR_INK);
}

static void image_draw(struct image *image, struct tile_xyz place)
{
    char text[TEXT_BYTES];
    int step = (GLYPH_WIDTH + 1) * SCALE;
    int len = snprintf(text, sizeof text, "%u/%" PRIu32 "/%" PRIu32, place.z, place.x, place.y);
    int left = (SIDE - len * step) / 2, top = (SIDE - GLYPH_HEIGHT * SCALE) / 2;
    memset(image, 0, sizeof *image);
    for (int i = 0; i < SIDE; i++) { /* the frame */
        pixel_set(image, i, 0, COLOUR_LINE);
        pixel_set(image, 0, i, COLOUR_LINE);
    }
    for (int i = 0; i < len; i++)
        glyph_draw(image, text[i], left + i * step, top);
}

/* ---- PNG ---- */

static bool chunk_add(struct buf *png, const char *name, struct bytes data)
{
    uint8_t number[4];
    be32_put(number, (uint32_t)data.len);
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)name, 4);
    if (data.len > 0) /* NULL would start anew */
        crc = (uint32_t)crc32(crc, data.ptr, (uInt)data.len);
    bool good = buf_add(png, number, 4) && buf_add(png, name, 4) && buf_add_bytes(png, data);
    be32_put(number, crc);
    return good && buf_add(png, number, 4);
}

static bool png_make(struct sampler *sampler, struct tile_xyz place)
{
    struct buf *png = &sampler->png;
    uLongf packed_len = sizeof sampler->packed;
    uint8_t header[13] = {0, 0, SIDE >> 8, SIDE & 255, 0, 0, SIDE >> 8, SIDE & 255, 8, 3, 0, 0, 0};
    uint8_t shade = (uint8_t)(200 + (place.x * 31 + place.y * 17 + place.z * 7) % 50);
    uint8_t palette[9] = {shade, 225, (uint8_t)(455 - shade), 120, 130, 140, 20, 40, 60};
    buf_cut(png, 0);
    return compress2(sampler->packed, &packed_len, (const Bytef *)&sampler->image,
                     sizeof sampler->image, 9) == Z_OK &&
           buf_add(png, "\x89PNG\r\n\x1a\n", 8) &&
           chunk_add(png, "IHDR", bytes_of(header, sizeof header)) &&
           chunk_add(png, "PLTE", bytes_of(palette, sizeof palette)) &&
           chunk_add(png, "IDAT", bytes_of(sampler->packed, packed_len)) &&
           chunk_add(png, "IEND", (struct bytes){0});
}

/* ---- the map ---- */

static struct files *files_of_disk(void)
{
    return (struct files *)(uintptr_t)&files_real; /* nothing is written to it */
}

static enum rc tile_write(struct sampler *sampler, struct tile_xyz place, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    image_draw(&sampler->image, place);
    if (!png_make(sampler, place))
        return err_set(err, RC_NOMEM, "could not allocate memory for an image");
    snprintf(path, sizeof path, "%s/%u/%" PRIu32 "/%" PRIu32 ".png", sampler->dir, place.z, place.x,
             place.y);
    enum rc rc =
        file_open(files_of_disk(), path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    return rc == RC_OK ? file_write(file, 0, buf_bytes(&sampler->png), err) : rc;
}

static enum rc level_write(struct sampler *sampler, unsigned z, struct err *err)
{
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%u", sampler->dir, z);
    enum rc rc = files_make_dir(files_of_disk(), path, err);
    for (uint32_t x = 0; x < 1u << z && rc == RC_OK; x++) {
        snprintf(path, sizeof path, "%s/%u/%" PRIu32, sampler->dir, z, x);
        rc = files_make_dir(files_of_disk(), path, err);
        for (uint32_t y = 0; y < 1u << z && rc == RC_OK; y++) {
            rc = tile_write(sampler, (struct tile_xyz){z, x, y}, err);
            progress_at(&sampler->progress, ++sampler->count);
        }
    }
    return rc;
}

int tile_sample(const struct tile_options *options)
{
    struct err err = {0};
    uint64_t total = ((UINT64_C(1) << (2 * (options->levels + 1))) - 1) / 3;
    if (strlen(options->path) > PATH_BYTES_MAX / 2)
        return cli_fail("the path is too long");
    struct sampler *sampler = mem_zalloc(sizeof *sampler);
    sampler->dir = options->path;
    buf_init(&sampler->png, PNG_BYTES_MAX);
    progress_begin(&sampler->progress, "tiles drawn", total, 0);
    enum rc rc = files_make_dir(files_of_disk(), options->path, &err);
    for (unsigned z = 0; z <= options->levels && rc == RC_OK; z++)
        rc = level_write(sampler, z, &err);
    progress_end(&sampler->progress, sampler->count);
    if (rc == RC_OK)
        printf("drew %" PRIu64 " tiles of levels 0 to %u into %s\n", sampler->count,
               options->levels, options->path);
    buf_done(&sampler->png);
    mem_free(sampler);
    return rc == RC_OK ? 0 : cli_fail("%s", err.text);
}
