// SPDX-License-Identifier: Apache-2.0
/* journal_record.c - reads and writes the record of syncs. */
#include "store/journal/journal_record.h"

#include <stdio.h>

#include "base/codec.h"
#include "base/crc32c.h"

#include "base/banned.h"

static const uint8_t record_magic[8] = "TRRCSYN1";

void journal_record_path(char to[PATH_BYTES_MAX], const char *dir)
{
    snprintf(to, PATH_BYTES_MAX, "%s/synced", dir);
}

void journal_record_put(uint8_t to[JOURNAL_RECORD_BYTES], const struct journal_record *record)
{
    memcpy(to, record_magic, sizeof record_magic);
    memcpy(to + 8, record->uuid, sizeof record->uuid);
    le64_put(to + 24, record->number);
    le64_put(to + 32, record->bytes);
    le32_put(to + 40, record->salt);
    le32_put(to + 44, crc32c(0, to, JOURNAL_RECORD_BYTES - 4));
}

enum rc journal_record_read(struct files *files, const char *dir, const uint8_t uuid[16],
                            struct journal_record *ret_record, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    uint8_t bytes[JOURNAL_RECORD_BYTES];
    size_t got = 0;

    *ret_record = (struct journal_record){0};
    journal_record_path(path, dir);
    enum rc rc = file_open(files, path, FILE_READ, &file, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK)
        rc = file_read(file, 0, bytes, sizeof bytes, &got, err);
    if (rc != RC_OK)
        return rc;
    if (got < sizeof bytes || memcmp(bytes, record_magic, sizeof record_magic) != 0 ||
        memcmp(bytes + 8, uuid, 16) != 0 || le32_get(bytes + 44) != crc32c(0, bytes, 44))
        return RC_OK;
    memcpy(ret_record->uuid, uuid, sizeof ret_record->uuid);
    ret_record->number = le64_get(bytes + 24);
    ret_record->bytes = le64_get(bytes + 32);
    ret_record->salt = le32_get(bytes + 40);
    return RC_OK;
}
