// SPDX-License-Identifier: Apache-2.0
/* tile_source.c - opens a source of tiles, and filters tiles by level and bounding box. */
#include "cli/tile_source.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

#include "base/banned.h"

/* ---- filters ---- */

/* Web Mercator ends here. */
#define LATITUDE_MAX 85.0511287798066

enum rc tile_filter_bbox(struct tile_filter *filter, const char *text, struct err *err)
{
    double number[4];
    for (size_t i = 0; i < ARRAY_LEN(number); i++) {
        char *end;
        number[i] = strtod(text, &end);
        if (end == text || *end != (i < 3 ? ',' : 0) || !isfinite(number[i]))
            return err_set(err, RC_INVALID, "a box is west,south,east,north in degrees");
        text = end + 1;
    }
    *filter = (struct tile_filter){.level_from = filter->level_from,
                                   .level_to = filter->level_to,
                                   .has_bbox = true,
                                   .west = number[0],
                                   .south = number[1],
                                   .east = number[2],
                                   .north = number[3]};
    if (filter->west > filter->east || filter->south > filter->north || filter->west < -180 ||
        filter->east > 180 || filter->south < -90 || filter->north > 90)
        return err_set(err, RC_INVALID,
                       "a box is west,south,east,north in degrees, west not above "
                       "east, south not above north");
    return RC_OK;
}

enum rc tile_filter_levels(struct tile_filter *filter, const char *text, struct err *err)
{
    const char *end = strchr(text, '-');
    int64_t from = 0, to = 0;
    struct bytes first = bytes_of(text, end ? (size_t)(end - text) : strlen(text));
    struct bytes last = end ? bytes_of(end + 1, strlen(end + 1)) : first;
    if (!cli_digits(first, &from) || !cli_digits(last, &to) || from > to || to > TILE_LEVEL_MAX)
        return err_set(err, RC_INVALID, "levels are N, or N-M, 0 to %d", TILE_LEVEL_MAX);
    filter->level_from = (unsigned)from;
    filter->level_to = (unsigned)to;
    return RC_OK;
}

bool tile_filter_is_all(const struct tile_filter *filter)
{
    return !filter->has_bbox && filter->level_from == 0 && filter->level_to == TILE_LEVEL_MAX;
}

static uint32_t place_of(double share, unsigned z)
{
    double count = ldexp(1, (int)z), at = floor(share * count);
    return at < 0 ? 0 : at >= count ? (uint32_t)(count - 1) : (uint32_t)at;
}

/* 0 at the southern end of the map, 1 at the northern. */
static double share_of_latitude(double degrees)
{
    double clamped = fmin(fmax(degrees, -LATITUDE_MAX), LATITUDE_MAX) * M_PI / 180;
    return 0.5 + asinh(tan(clamped)) / (2 * M_PI);
}

struct tile_span tile_filter_span(const struct tile_filter *filter, unsigned z)
{
    uint32_t last = (uint32_t)((UINT64_C(1) << z) - 1);
    if (!filter->has_bbox)
        return (struct tile_span){0, last, 0, last};
    return (struct tile_span){place_of((filter->west + 180) / 360, z),
                              place_of((filter->east + 180) / 360, z),
                              place_of(share_of_latitude(filter->south), z),
                              place_of(share_of_latitude(filter->north), z)};
}

bool tile_filter_takes(const struct tile_filter *filter, struct tile_xyz place)
{
    if (place.z < filter->level_from || place.z > filter->level_to)
        return false;
    struct tile_span span = tile_filter_span(filter, place.z);
    return place.x >= span.x_from && place.x <= span.x_to && place.y >= span.y_from &&
           place.y <= span.y_to;
}

static double latitude_of_share(double share)
{
    return atan(sinh((share - 0.5) * 2 * M_PI)) * 180 / M_PI;
}

void tile_bounds(struct tile_xyz place, double ret_bounds[4])
{
    double count = ldexp(1, (int)place.z);
    ret_bounds[0] = place.x / count * 360 - 180;
    ret_bounds[1] = latitude_of_share(place.y / count);
    ret_bounds[2] = (place.x + 1.0) / count * 360 - 180;
    ret_bounds[3] = latitude_of_share((place.y + 1.0) / count);
}

/* ---- sources ---- */

void source__bad(struct source *source, const char *format, ...)
{
    va_list args;
    if (source->bad_count++ > 0)
        return;
    va_start(args, format);
    vsnprintf(source->bad_text, sizeof source->bad_text, format, args);
    va_end(args);
}

enum rc source_open(const char *path, const struct tile_filter *filter, enum tile_rows rows,
                    struct source **ret_source, struct err *err)
{
    struct stat stat_of;
    if (stat(path, &stat_of) != 0)
        return err_set(err, RC_IO, "could not open \"%s\": %s", path, strerror(errno));
    bool is_dir = S_ISDIR(stat_of.st_mode);
    enum rc rc = is_dir ? source__dir_open(path, ret_source, err)
                        : source__mbtiles_open(path, ret_source, err);
    if (rc != RC_OK)
        return rc;
    struct source *source = *ret_source;
    source->filter = *filter;
    source->rows = rows;
    /* A directory's own time says nothing about the files below it. */
    snprintf(source->identity, sizeof source->identity, "%s %lld %lld %u-%u %d %.9g,%.9g,%.9g,%.9g",
             is_dir ? (rows == TILE_ROWS_TMS ? "dir tms" : "dir xyz") : "mbtiles",
             is_dir ? 0LL : (long long)stat_of.st_size, is_dir ? 0LL : (long long)stat_of.st_mtime,
             filter->level_from, filter->level_to, filter->has_bbox, filter->west, filter->south,
             filter->east, filter->north);
    return RC_OK;
}

void source_close(struct source *source)
{
    if (source)
        source->ops->close(source);
}
