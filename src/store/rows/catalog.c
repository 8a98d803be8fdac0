// SPDX-License-Identifier: Apache-2.0
/* catalog.c - reads and writes the TERRACE file. */
#include "store/rows/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/mem.h"

#include "base/banned.h"

enum { CATALOG_BYTES_MAX = 32 * 1024 * 1024, LINE_WORDS_MAX = 6 };

static const char *const kind_name[] = {[SPACE_NONE] = "none",
                                        [SPACE_WHOLE] = "whole",
                                        [SPACE_FIXED] = "fixed",
                                        [SPACE_LENGTH] = "length"};

void catalog_init(struct catalog *catalog, struct rand *rand)
{
    *catalog = (struct catalog){0};
    space_set_init(&catalog->spaces);
    rand_bytes(rand, catalog->uuid, sizeof catalog->uuid);
    catalog->incarnation = (uint32_t)rand_u64(rand);
}

void catalog_done(struct catalog *catalog)
{
    if (!catalog)
        return;
    for (size_t i = 0; i < catalog->prefix_count; i++)
        mem_free((void *)(uintptr_t)catalog->prefix[i].bytes.ptr);
    mem_free(catalog->prefix);
    *catalog = (struct catalog){0};
}

void catalog_prefix_add(struct catalog *catalog, uint8_t space, struct bytes prefix)
{
    size_t count = catalog->prefix_count + 1;
    catalog->prefix = mem_realloc(catalog->prefix, count * sizeof *catalog->prefix);
    catalog->prefix[count - 1] = (struct catalog_prefix){
        .space = space, .bytes = bytes_of(mem_dup(prefix.ptr, prefix.len), prefix.len)};
    catalog->prefix_count = count;
}

void catalog_prefix_drop_last(struct catalog *catalog)
{
    mem_free((void *)(uintptr_t)catalog->prefix[--catalog->prefix_count].bytes.ptr);
}

static enum rc catalog_path(char to[PATH_BYTES_MAX], const char *dir, struct err *err)
{
    int len = snprintf(to, PATH_BYTES_MAX, "%s/TERRACE", dir);
    if (len < 0 || len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "the path of a directory is over %d bytes", PATH_BYTES_MAX);
    return RC_OK;
}

/* ---- writing ---- */

static bool hex_add(struct buf *to, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (!buf_printf(to, "%02x", bytes.ptr[i]))
            return false;
    return true;
}

static bool catalog_format(const struct catalog *catalog, struct buf *text)
{
    bool ok = buf_printf(text, "terrace store %d\nfeatures 0\nuuid ", CATALOG_FORMAT) &&
              hex_add(text, bytes_of(catalog->uuid, 16)) &&
              buf_printf(text, "\nincarnation %" PRIu32 "\n", catalog->incarnation);
    for (int i = 1; ok && i < STORE_SPACES_MAX; i++) {
        const struct store_space *space = &catalog->spaces.space[i];
        if (space->kind != SPACE_NONE)
            ok = buf_printf(text, "space %d %s %u %s\n", i, kind_name[space->kind],
                            space->fixed_bytes, space->name);
    }
    for (size_t i = 0; ok && i < catalog->prefix_count; i++) {
        const struct catalog_prefix *prefix = &catalog->prefix[i];
        ok = buf_printf(text, "prefix %u ", prefix->space) &&
             (prefix->bytes.len ? hex_add(text, prefix->bytes) : buf_printf(text, "-")) &&
             buf_printf(text, "\n");
    }
    return ok && buf_printf(text, "crc %08" PRIx32 "\n", crc32c(0, text->ptr, text->len));
}

enum rc catalog_write(const struct catalog *catalog, struct files *files, const char *dir,
                      struct err *err)
{
    char path[PATH_BYTES_MAX];
    enum rc rc = catalog_path(path, dir, err);
    if (rc != RC_OK)
        return rc;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, CATALOG_BYTES_MAX);
    if (!catalog_format(catalog, &text))
        return err_set(err, RC_TOO_BIG, "the catalogue \"%s\" is over its limit, or memory is out",
                       path);
    return files_replace(files, path, buf_bytes(&text), err);
}

/* ---- reading: every byte may be anything ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_parse(const char *text, uint8_t *to, size_t bytes_max, size_t *ret_len)
{
    size_t len = 0;
    for (; *text; text += 2) {
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0 || len == bytes_max)
            return false;
        to[len++] = (uint8_t)(high << 4 | low);
    }
    *ret_len = len;
    return true;
}

static bool number_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || number > (max - (uint64_t)(*text - '0')) / 10)
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *ret_number = number;
    return true;
}

/* Cuts a line at its spaces; no line has as many words as are looked for. */
static size_t line_split(char *line, char *word[LINE_WORDS_MAX])
{
    size_t count = 0;
    while (line) {
        word[count++] = line;
        line = count < LINE_WORDS_MAX ? strchr(line, ' ') : NULL;
        if (line)
            *line++ = 0;
    }
    return count;
}

static bool space_line(struct catalog *catalog, char *word[])
{
    uint64_t number, fixed;
    struct store_space space = {0};
    if (!number_parse(word[1], 255, &number) || !number_parse(word[3], 255, &fixed) ||
        strlen(word[4]) > SPACE_NAME_BYTES_MAX)
        return false;
    space.number = (uint8_t)number;
    space.fixed_bytes = (uint8_t)fixed;
    memcpy(space.name, word[4], strlen(word[4]));
    for (int kind = SPACE_WHOLE; kind <= SPACE_LENGTH; kind++)
        if (strcmp(word[2], kind_name[kind]) == 0)
            space.kind = (enum space_kind)kind;
    return space.kind != SPACE_NONE && space_set_add(&catalog->spaces, &space, NULL) == RC_OK;
}

static bool prefix_line(struct catalog *catalog, char *word[])
{
    uint64_t space;
    uint8_t bytes[STORE_PREFIX_BYTES_MAX];
    size_t len = 0;
    if (!number_parse(word[1], 255, &space) || catalog->spaces.space[space].kind == SPACE_NONE ||
        space == SPACE_SYS || catalog->prefix_count >= STORE_PREFIXES_MAX)
        return false;
    if (strcmp(word[2], "-") != 0 && !hex_parse(word[2], bytes, sizeof bytes, &len))
        return false;
    catalog_prefix_add(catalog, (uint8_t)space, bytes_of(bytes, len));
    return true;
}

static enum rc catalog_line(struct catalog *catalog, char *line, const char *path,
                            size_t line_number, struct err *err)
{
    char *word[LINE_WORDS_MAX];
    size_t count = line_split(line, word);
    uint64_t number;
    bool ok = false;
    if (count == 3 && strcmp(word[0], "terrace") == 0 && strcmp(word[1], "store") == 0) {
        if (!number_parse(word[2], UINT32_MAX, &number) || number != CATALOG_FORMAT)
            return err_set(err, RC_VERSION, "\"%s\" is of store format %s; this program knows %d",
                           path, word[2], CATALOG_FORMAT);
        ok = line_number == 1;
    } else if (count == 2 && strcmp(word[0], "features") == 0) {
        if (!number_parse(word[1], UINT32_MAX, &number) || number != 0)
            return err_set(err, RC_VERSION, "\"%s\" has unknown features %s", path, word[1]);
        ok = true;
    } else if (count == 2 && strcmp(word[0], "uuid") == 0 && strlen(word[1]) == 32) {
        size_t len = 0;
        ok = hex_parse(word[1], catalog->uuid, sizeof catalog->uuid, &len) && len == 16;
    } else if (count == 2 && strcmp(word[0], "incarnation") == 0) {
        ok = number_parse(word[1], UINT32_MAX, &number);
        catalog->incarnation = ok ? (uint32_t)number : 0;
    } else if (count == 5 && strcmp(word[0], "space") == 0) {
        ok = space_line(catalog, word);
    } else if (count == 3 && strcmp(word[0], "prefix") == 0) {
        ok = prefix_line(catalog, word);
    }
    if (!ok)
        return err_set(err, RC_CORRUPT, "\"%s\" line %zu cannot be understood", path, line_number);
    return RC_OK;
}

/* Lines up to `end`; the file's CRC is already known to be right or wrong. */
static enum rc catalog_lines(struct catalog *catalog, char *line, char *end, bool crc_ok,
                             const char *path, struct err *err)
{
    for (size_t number = 1; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            return err_set(err, RC_CORRUPT, "\"%s\" line %zu has no end", path, number);
        *stop = 0;
        /* The version is looked at first, so that a newer format is named as such. */
        enum rc rc = catalog_line(catalog, line, path, number, err);
        if (rc == RC_VERSION)
            return rc;
        if (!crc_ok)
            return err_set(err, RC_CORRUPT, "\"%s\" does not match its CRC", path);
        if (rc != RC_OK)
            return rc;
        line = stop + 1;
    }
    return RC_OK;
}

static enum rc catalog_parse(struct catalog *catalog, struct bytes text, const char *path,
                             struct err *err)
{
    enum { CRC_LINE_BYTES = 13 };
    if (text.len < 16 || memcmp(text.ptr, "terrace store ", 14) != 0 ||
        memchr(text.ptr, 0, text.len))
        return err_set(err, RC_CORRUPT, "\"%s\" is not a terrace catalogue", path);
    if (text.ptr[text.len - 1] != '\n')
        return err_set(err, RC_CORRUPT, "\"%s\" is cut short", path);
    size_t body = text.len - CRC_LINE_BYTES;
    char crc_line[CRC_LINE_BYTES + 1];
    snprintf(crc_line, sizeof crc_line, "crc %08" PRIx32 "\n", crc32c(0, text.ptr, body));
    bool crc_ok = memcmp(text.ptr + body, crc_line, CRC_LINE_BYTES) == 0;

    CLEANUP(buf_done) struct buf copy; /* the lines are cut up in it */
    CLEANUP(buf_done) struct buf again;
    buf_init(&copy, CATALOG_BYTES_MAX);
    buf_init(&again, CATALOG_BYTES_MAX);
    if (!buf_add_bytes(&copy, text))
        return err_set(err, RC_NOMEM, "could not allocate memory to read \"%s\"", path);
    char *lines = (char *)copy.ptr;
    enum rc rc = catalog_lines(catalog, lines, lines + body, crc_ok, path, err);
    if (rc != RC_OK)
        return rc;
    /* Missing, doubled and unordered lines, odd numbers: we never write them. */
    if (!catalog_format(catalog, &again))
        return err_set(err, RC_NOMEM, "could not allocate memory to read \"%s\"", path);
    if (!bytes_eq(buf_bytes(&again), text))
        return err_set(err, RC_CORRUPT, "\"%s\" is not in the form this program writes", path);
    return RC_OK;
}

enum rc catalog_read(struct catalog *catalog, struct files *files, const char *dir, struct err *err)
{
    char path[PATH_BYTES_MAX];
    *catalog = (struct catalog){0};
    space_set_init(&catalog->spaces);
    enum rc rc = catalog_path(path, dir, err);
    if (rc != RC_OK)
        return rc;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, CATALOG_BYTES_MAX);
    rc = files_read_all(files, path, &text, err);
    if (rc == RC_OK)
        rc = catalog_parse(catalog, buf_bytes(&text), path, err);
    if (rc != RC_OK)
        catalog_done(catalog);
    return rc;
}
