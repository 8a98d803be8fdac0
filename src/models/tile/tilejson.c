// SPDX-License-Identifier: Apache-2.0
/* tilejson.c - TileJSON 3.0.0 of a type, from the hash "metadata" of its database.
 *
 * The fields are those of the metadata table of MBTiles; `terrace tile import` writes them. What is
 * missing or makes no sense is left out. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/tile/tilejson.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    NUMBERS_MAX = 4,
    NUMBER_TEXT_BYTES_MAX = 256,
    URL_BYTES_MAX = 512,
    FIELD_BYTES_MAX = 1024 * 1024, /* the executor parses it */
};

struct maker {
    json_t *json;
    struct key key; /* the hash */
    struct err *err;
    enum rc rc;
};

/* False: it is not there, too large, or something is cold. */
static bool field_get(struct maker *maker, const char *name, struct bytes *ret_value)
{
    if (maker->rc != RC_OK || !maker->key.exists)
        return false;
    enum rc rc = hash_field(&maker->key, bytes_of(name, strlen(name)), ret_value, maker->err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        maker->rc = rc;
    return rc == RC_OK && ret_value->len <= FIELD_BYTES_MAX;
}

static void text_add(struct maker *maker, const char *name)
{
    struct bytes value;
    if (field_get(maker, name, &value)) /* NULL where it is no UTF-8: left out */
        json_object_set_new(maker->json, name, json_stringn((const char *)value.ptr, value.len));
}

/* "1,2,3": up to NUMBERS_MAX of them, each a number. Returns how many; 0: it is no such list. */
static size_t numbers_read(struct bytes text, double to[NUMBERS_MAX])
{
    char copy[NUMBER_TEXT_BYTES_MAX];
    size_t count = 0;
    if (text.len == 0 || text.len >= sizeof copy)
        return 0;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    for (char *at = copy, *end;; at = end + 1) {
        double value = strtod(at, &end);
        if (end == at || count == NUMBERS_MAX || !(value > -1e9 && value < 1e9))
            return 0;
        to[count++] = value;
        if (*end == 0)
            return (size_t)(end - copy) == text.len ? count : 0;
        if (*end != ',')
            return 0;
    }
}

static void numbers_add(struct maker *maker, const char *name, size_t count)
{
    struct bytes value;
    double number[NUMBERS_MAX];
    if (!field_get(maker, name, &value) || numbers_read(value, number) != count)
        return;
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_real(number[i]));
    json_object_set_new(maker->json, name, array);
}

static void zoom_add(struct maker *maker, const char *name)
{
    struct bytes value;
    int64_t zoom;
    if (field_get(maker, name, &value) && number_int(value, &zoom) && zoom >= 0 &&
        zoom <= TILE_LEVEL_MAX)
        json_object_set_new(maker->json, name, json_integer(zoom));
}

static void layers_add(struct maker *maker)
{
    struct bytes value;
    if (!field_get(maker, "json", &value))
        return;
    json_t *json = json_loadb((const char *)value.ptr, value.len, 0, NULL);
    json_t *layers = json_object_get(json, "vector_layers");
    if (json_is_array(layers))
        json_object_set(maker->json, "vector_layers", layers);
    json_decref(json);
}

/* Letters and digits of an extension, or nothing. */
static const char *ext_of(struct maker *maker, char to[16])
{
    struct bytes value;
    to[0] = 0;
    if (!field_get(maker, "format", &value) || value.len == 0 || value.len > 8)
        return to;
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < '0' || value.ptr[i] > 'z' || (value.ptr[i] > '9' && value.ptr[i] < 'a'))
            return to;
    snprintf(to, 16, ".%.*s", (int)value.len, (const char *)value.ptr);
    return to;
}

static void url_add(struct maker *maker, const char *host, const char *type)
{
    char url[URL_BYTES_MAX], ext[16];
    bool has_host = host[0] != 0;
    for (const char *c = host; *c; c++) /* what no host has would be another URL */
        has_host = has_host && (*c == '.' || *c == ':' || *c == '-' || *c == '[' || *c == ']' ||
                                (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                                (*c >= 'A' && *c <= 'Z'));
    snprintf(url, sizeof url, "%s%s/tiles/%s/{z}/{x}/{y}%s", has_host ? "http://" : "",
             has_host ? host : "", type, ext_of(maker, ext));
    json_t *urls = json_array();
    json_array_append_new(urls, json_string(url));
    json_object_set_new(maker->json, "tiles", urls);
}

enum rc tilejson_make(const struct run *run, const struct tile_type *of, const char *host,
                      struct buf *to, struct err *err)
{
    struct run part = run_with(run, kv_ns(run->kv, tile_type_db(of)), 0);
    const char *type = tile_type_name(of);
    struct maker maker = {.err = err};
    if (part.ns)
        maker.rc = key_read(&part, BYTES("metadata"), TYPE_HASH, &maker.key, err);
    if (maker.rc == RC_WRONGTYPE)
        maker.rc = RC_OK; /* somebody's own key */
    if (maker.rc != RC_OK)
        return maker.rc;
    maker.json = json_object();
    json_object_set_new(maker.json, "tilejson", json_string("3.0.0"));
    json_object_set_new(maker.json, "name", json_string(type));
    json_object_set_new(maker.json, "scheme", json_string("xyz"));
    url_add(&maker, host, type);
    text_add(&maker, "name");
    text_add(&maker, "description");
    text_add(&maker, "attribution");
    text_add(&maker, "version");
    zoom_add(&maker, "minzoom");
    zoom_add(&maker, "maxzoom");
    numbers_add(&maker, "bounds", 4);
    numbers_add(&maker, "center", 3);
    layers_add(&maker);
    char *text =
        maker.rc == RC_OK ? json_dumps(maker.json, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(maker.json);
    if (maker.rc == RC_COLD)
        store_want(run->kv->store, key_rows(&maker.key), (struct bytes){0}, STORE_WANT_FIRST);
    if (maker.rc == RC_OK && (!text || !buf_printf(to, "%s\n", text)))
        maker.rc = err_set(err, RC_NOMEM, "could not allocate memory for the answer");
    free(text);
    return maker.rc;
}
