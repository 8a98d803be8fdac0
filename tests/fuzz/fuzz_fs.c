// SPDX-License-Identifier: Apache-2.0
/* fuzz_fs.c - entries, edges, dictionaries and paths of any bytes: nothing is read outside of them,
 * and what is taken comes back as it was. The first byte says what the rest is. */
#include "base/macros.h"
#include "base/mem.h"
#include "models/fs/entry.h"
#include "models/fs/path.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void entry_try(struct bytes value)
{
    struct fs_entry entry;
    struct err err;
    uint8_t again[FS_ENTRY_BYTES_MAX];
    if (fs_entry_decode(value, &entry, &err) != RC_OK)
        return;
    ASSERT(bytes_eq(bytes_of(again, fs_entry_encode(&entry, again)), value));
}

static void dict_try(struct bytes value)
{
    struct fs_dict dict;
    struct bytes name;
    struct err err;
    size_t bytes = 1, count = 0;
    if (fs_dict_open(value, &dict, &err) != RC_OK)
        return;
    while (fs_dict_next(&dict, &name)) {
        ASSERT(name.len <= FS_DICT_NAME_BYTES_MAX);
        bytes += 1 + name.len;
        count++;
    }
    ASSERT(value.len == 0 || (bytes == value.len && count == value.ptr[0]));
}

static void path_try(struct bytes text)
{
    struct fs_path path;
    struct bytes name;
    struct err err;
    size_t bytes = 0;
    if (fs_path_open(text, &path, &err) != RC_OK)
        return;
    while (fs_path_next(&path, &name)) {
        ASSERT(fs_name_check(name, &err) == RC_OK);
        bytes += 1 + name.len;
    }
    ASSERT(bytes == text.len || (bytes == 0 && text.len == 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    uint64_t id;
    if (size == 0)
        return 0;
    uint8_t *copy = mem_dup(data + 1, size - 1); /* its own block: a sanitizer sees its end */
    struct bytes rest = bytes_of(copy, size - 1);
    switch (data[0] % 5) {
    case 0:
        entry_try(rest);
        break;
    case 1:
        dict_try(rest);
        break;
    case 2:
        path_try(rest);
        break;
    case 3:
        if (fs_edge_decode(rest, &id, &err) == RC_OK)
            ASSERT(id >= FS_ID_FIRST && id < FS_ID_END);
        break;
    case 4:
        if (fs_next_id_decode(rest, &id, &err) == RC_OK)
            ASSERT(id >= FS_ID_FIRST && id <= FS_ID_END);
        break;
    }
    mem_free(copy);
    return 0;
}
