// SPDX-License-Identifier: Apache-2.0
/* dict.c - owners and groups: a row each, read where a name is needed (design, invariant 4). */
#include "models/fs/fs_int.h"

#include "base/banned.h"

static enum rc dict_read(struct fs *fs, uint64_t which, struct fs_dict *ret_dict, struct err *err)
{
    struct fs_key key = fs__key(which);
    struct bytes value;
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    if (rc == RC_NOT_FOUND)
        value = BYTES("");
    else if (rc != RC_OK)
        return rc;
    if (fs_dict_open(value, ret_dict, err) != RC_OK)
        return fs__corrupt(err, which);
    return RC_OK;
}

static enum rc dict_add(struct fs *fs, uint64_t which, const struct fs_dict *dict,
                        struct bytes name, struct err *err)
{
    struct fs_key key = fs__key(which);
    size_t len = dict->value.len > 0 ? dict->value.len : 1;
    uint8_t *value = arena_alloc(&fs->arena, len + 1 + name.len);
    if (dict->value.len > 0)
        memcpy(value, dict->value.ptr, dict->value.len);
    value[0] = (uint8_t)(dict->count + 1);
    value[len] = (uint8_t)name.len;
    memcpy(value + len + 1, name.ptr, name.len);
    return store_put(fs->store, fs__inode(fs, &key), BYTES(""), bytes_of(value, len + 1 + name.len),
                     err);
}

enum rc fs__dict_id(struct fs *fs, uint64_t which, struct bytes name, uint8_t *ret_id,
                    struct err *err)
{
    struct fs_dict dict;
    struct bytes known;
    if (name.len == 0) {
        *ret_id = 0;
        return RC_OK;
    }
    if (name.len > FS_DICT_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "an owner or group of %zu bytes is over the limit of %d",
                       name.len, FS_DICT_NAME_BYTES_MAX);
    enum rc rc = dict_read(fs, which, &dict, err);
    if (rc != RC_OK)
        return rc;
    while (fs_dict_next(&dict, &known)) {
        if (bytes_eq(known, name)) {
            *ret_id = (uint8_t)dict.seen;
            return RC_OK;
        }
    }
    if (dict.count == FS_DICT_NAMES_MAX)
        return err_set(err, RC_REPLY, "RESOURCE there are %d %s already", FS_DICT_NAMES_MAX,
                       which == FS_KEY_OWNERS ? "owners" : "groups");
    rc = dict_add(fs, which, &dict, name, err);
    if (rc == RC_OK)
        *ret_id = (uint8_t)(dict.count + 1);
    return rc;
}

enum rc fs__dict_name(struct fs *fs, uint64_t which, uint8_t id, struct bytes *ret_name,
                      struct err *err)
{
    struct fs_dict dict;
    struct bytes name;
    enum rc rc = dict_read(fs, which, &dict, err);
    if (rc != RC_OK)
        return rc;
    while (fs_dict_next(&dict, &name)) {
        if (dict.seen == id) {
            *ret_name = arena_copy(&fs->arena, name);
            return RC_OK;
        }
    }
    (void)err_set(err, RC_CORRUPT, "an inode has number %u of %u", id, dict.count);
    return fs__corrupt(err, which);
}
