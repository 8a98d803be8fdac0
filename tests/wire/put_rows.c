// SPDX-License-Identifier: Apache-2.0
/* put_rows.c - writes rows into the engine of a stopped server, past everything that would keep
 * them sound: damage, as a disk could leave it.
 *
 *   put_rows DIR <lines       a line: KEY VALUE, or KEY - for a row that goes; both in hex, keys
 *                             as the engine has them (the space's number first) and in order */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/restore.h"

#include "base/banned.h"

enum { LINE_BYTES_MAX = 64 * 1024 };

static void must(enum rc rc, const struct err *err)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static struct bytes hex_read(const char *text, uint8_t *to)
{
    size_t len = strlen(text) / 2;
    for (size_t i = 0; i < len; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        to[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return bytes_of(to, len);
}

static void rows_put(struct engine *engine, struct err *err)
{
    static char line[LINE_BYTES_MAX], key_text[LINE_BYTES_MAX], value_text[LINE_BYTES_MAX];
    static uint8_t key[LINE_BYTES_MAX], value[LINE_BYTES_MAX];
    const struct engine_ops *ops = engine->ops;
    struct engine_unit *unit = NULL;
    must(ops->unit_open(engine, &unit, err), err);
    while (fgets(line, sizeof line, stdin)) {
        value_text[0] = 0;
        if (sscanf(line, "%s %s", key_text, value_text) < 1)
            continue;
        struct bytes row = hex_read(key_text, key);
        if (strcmp(value_text, "-") == 0)
            must(ops->unit_delete(unit, row, err), err);
        else
            must(ops->unit_put(unit, row, hex_read(value_text, value), err), err);
    }
    must(ops->unit_apply(unit, err), err);
    ops->unit_close(unit);
}

int main(int argc, char **argv)
{
    struct store_dir dir = {0};
    struct err err = {0};
    char scratch[PATH_BYTES_MAX];
    if (argc != 2)
        return 2;
    must(store_dir_open(&dir, (struct files *)&files_real, &engine_rocksdb_ops, argv[1], &err),
         &err);
    dir.engine->ops->close(dir.engine);
    dir.engine = NULL;
    snprintf(scratch, sizeof scratch, "%s/flush", argv[1]);
    struct engine_options options = {
        .dir = dir.engine_dir, .scratch_dir = scratch, .spaces = &dir.catalog.spaces};
    must(engine_rocksdb_ops.open(&options, &dir.engine, &err), &err);
    rows_put(dir.engine, &err);
    store_dir_done(&dir);
    return 0;
}
