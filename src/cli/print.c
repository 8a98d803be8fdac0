// SPDX-License-Identifier: Apache-2.0
/* print.c - prints bytes, rows, meta rows and inodes for `terrace inspect`. */
#include "cli/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/codec.h"
#include "models/fs/entry.h"
#include "types/meta.h"
#include "types/spaces.h"

#include "base/banned.h"

static size_t shown_len(struct bytes bytes, size_t max)
{
    return bytes.len < max ? bytes.len : max;
}

static void print_rest(struct bytes bytes, size_t max)
{
    if (bytes.len > max)
        printf("... (%zu bytes)", bytes.len);
}

void print_hex(struct bytes bytes, size_t max)
{
    for (size_t i = 0; i < shown_len(bytes, max); i++)
        printf("%02x", bytes.ptr[i]);
    print_rest(bytes, max);
}

void print_quoted_to(FILE *to, struct bytes bytes)
{
    fputc('"', to);
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t c = bytes.ptr[i];
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c == '\n')
            fprintf(to, "\\n");
        else if (c == '\r')
            fprintf(to, "\\r");
        else if (c == '\t')
            fprintf(to, "\\t");
        else if (c == '\a')
            fprintf(to, "\\a");
        else if (c == '\b')
            fprintf(to, "\\b");
        else if (isprint(c))
            fputc(c, to);
        else
            fprintf(to, "\\x%02x", c);
    }
    fputc('"', to);
}

void print_quoted(struct bytes bytes, size_t max)
{
    print_quoted_to(stdout, bytes_of(bytes.ptr, shown_len(bytes, max)));
    print_rest(bytes, max);
}

static void print_meta(struct bytes value, size_t max)
{
    struct meta meta;
    struct err err = {0};
    if (meta_decode(value, &meta, &err) != RC_OK) {
        printf("    not understood: %s\n", err.text);
        return;
    }
    printf("    %s, id ", type_name(meta.type));
    print_hex(bytes_of(meta.id, sizeof meta.id), SIZE_MAX);
    printf(", count %" PRIu64 ", created %" PRIu64 " s, expires ", meta.count, meta.create_s);
    if (meta.expire_ms == 0)
        printf("never\n");
    else
        printf("%" PRIu64 " ms\n", meta.expire_ms);
    printf("    extra ");
    if (meta.type == TYPE_LIST && meta.extra.len == 16) {
        printf("head %" PRId64 " tail %" PRId64, (int64_t)be64_get(meta.extra.ptr),
               (int64_t)be64_get(meta.extra.ptr + 8));
    } else if (meta.type == TYPE_STRING_CHUNKED && meta.extra.len == 8) {
        printf("length %" PRIu64, be64_get(meta.extra.ptr));
    } else {
        print_quoted(meta.extra, max);
    }
    putchar('\n');
}

static void print_inode(struct bytes group, struct bytes value, size_t max)
{
    struct fs_entry entry;
    struct err err = {0};
    if (group.len != FS_ID_BYTES || be64_get(group.ptr) >= FS_ID_END)
        return; /* a dictionary, or the next id */
    if (fs_entry_decode(value, &entry, &err) != RC_OK) {
        printf("    not understood: %s\n", err.text);
        return;
    }
    printf("    inode %" PRIu64 ", %s ", be64_get(group.ptr),
           fs_entry_is_dir(&entry) ? "directory" : "file");
    print_quoted(entry.name, max);
    printf(", parent %" PRIu64 ", size %" PRIu64 ", mode %04o, owner %u, group %u%s\n",
           entry.parent, entry.size, entry.mode, entry.owner, entry.group,
           entry.flags & FS_COMPLETE ? "" : ", incomplete");
}

void print_row(const struct store_space *space, struct bytes group, struct bytes suffix,
               struct bytes value, size_t max)
{
    printf("  %s group ", space->name);
    print_quoted(group, max);
    if (space->kind != SPACE_WHOLE) {
        printf(" suffix ");
        print_quoted(suffix, max);
    }
    printf("\n    key ");
    print_hex(group, max);
    if (suffix.len > 0) {
        putchar(' ');
        print_hex(suffix, max);
    }
    printf("\n    value ");
    print_hex(value, max);
    putchar('\n');
    if (space->number == SPACE_META)
        print_meta(value, max);
    else if (space->number == SPACE_EXPIRY && suffix.len >= 8)
        printf("    expires %" PRIu64 " ms\n", be64_get(suffix.ptr));
    else if (space->number == SPACE_INODE)
        print_inode(group, value, max);
    else if (space->number == SPACE_EDGE && value.len == FS_ID_BYTES)
        printf("    inode %" PRIu64 "\n", be64_get(value.ptr));
}
