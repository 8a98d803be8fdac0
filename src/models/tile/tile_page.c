// SPDX-License-Identifier: Apache-2.0
/* tile_page.c - tiles and TileJSON on the HTTP port. */
#include "base/mem.h"
#include "models/tile/format.h"
#include "models/tile/tile_model.h"
#include "models/tile/tile_url.h"
#include "models/tile/tilejson.h"

#include "base/banned.h"

enum { STATUS_OK = 200, STATUS_BAD = 400, STATUS_NOT_FOUND = 404 };

struct asked {
    struct tile_url url;
    char host[PAGE_HOST_BYTES]; /* for TileJSON; empty: unknown */
};

/* False: it is no time. */
static bool time_read(const struct page_asked *asked, struct tile_url *url)
{
    struct err ignored;
    const char *t = asked->argument(asked, "t");
    url->has_ms = t != NULL;
    return !t || tilekey_parse_ms(bytes_of(t, strlen(t)), &url->ms, &ignored) == RC_OK;
}

enum page_found tile_page_find(const struct page_asked *asked, struct page *page)
{
    struct tile_url url = tile_url_parse(asked->path);
    page->text = "a tile is <z>/<x>/<y> with z up to 24 and x, y below 2^z, "
                 "or a tilekey of 1 to 24 digits, each 0 to 3\n";
    if (url.page == TILE_PAGE_NONE)
        return PAGE_NONE;
    if (url.page == TILE_PAGE_BAD)
        return PAGE_BAD;
    page->is_quick = url.page == TILE_PAGE_TILE;
    page->text = "t is a time in milliseconds\n";
    if (page->is_quick && !time_read(asked, &url))
        return PAGE_BAD;
    struct asked *of = page->of = mem_zalloc(sizeof *of);
    of->url = url;
    if (asked->host && strlen(asked->host) < sizeof of->host)
        memcpy(of->host, asked->host, strlen(asked->host) + 1);
    return PAGE_IS;
}

static enum rc tile_find(struct tiles *tiles, struct tile_type *type, const struct tile_url *url,
                         struct bytes *ret_data, struct err *err)
{
    struct tile_found found;
    struct tile_meta_found meta;
    struct tilekey key = {.packed = url->packed};
    enum rc rc = RC_OK;
    switch (tile_type_kind(type)) {
    case TILE_PLAIN:
        rc = tile_get(tiles, type, key, &found, err);
        break;
    case TILE_TM:
        key.ms = url->has_ms ? url->ms : TILE_MS_MAX;
        rc = tile_get_at(tiles, type, key, &found, err);
        break;
    case TILE_META:
        rc = tile_meta_get(tiles, type, url->packed, &meta, err);
        found.value.data = meta.data;
        break;
    }
    if (rc == RC_OK)
        *ret_data = found.value.data;
    return rc;
}

static enum rc refuse(struct page *page, unsigned status, const char *text)
{
    page->status = status;
    if (!buf_printf(&page->data, "%s\n", text))
        buf_cut(&page->data, 0);
    return RC_OK;
}

enum rc tile_page_make(void *tiles, const struct run *run, struct page *page, struct err *err)
{
    const struct asked *of = page->of;
    const struct tile_url *url = &of->url;
    struct bytes data;
    struct tile_type *type = tiles_type(tiles, bytes_of(url->type, strlen(url->type)));
    if (!type)
        return refuse(page, STATUS_NOT_FOUND, "there is no such type of tiles");
    if (url->has_ms && tile_type_kind(type) != TILE_TM)
        return refuse(page, STATUS_BAD, "tiles of this type have no times");
    page->status = STATUS_OK;
    if (url->page == TILE_PAGE_JSON) {
        page->type = "application/json";
        return tilejson_make(run, type, of->host, &page->data, err);
    }
    enum rc rc = tile_find(tiles, type, url, &data, err);
    if (rc == RC_NOT_FOUND)
        return refuse(page, STATUS_NOT_FOUND, "there is no such tile");
    if (rc != RC_OK)
        return rc;
    if (!buf_add_bytes(&page->data, data))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a tile", data.len);
    page->type = tile_format_of(data)->mime;
    page->cached = "tile";
    return RC_OK;
}
