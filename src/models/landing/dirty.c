// SPDX-License-Identifier: Apache-2.0
/* dirty.c - reads and changes the hashes of marks, errors and locks of a rule. */
#include "models/landing/dirty.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/utf8.h"
#include "types/hash.h"

#include "base/banned.h"

enum { MARK_BYTES = 32 };
static const char mark_update[] = "UPDATE:", mark_remove[] = "REMOVE:";

void dirty_init(struct dirty *dirty, const void *model)
{
    static const char *const tail[DIRTY_PARTS] = {"", ":saving", ":error", ":lock"};
    for (unsigned n = 0; n < DIRTY_TABLES_MAX; n++)
        for (size_t part = 0; part < DIRTY_PARTS; part++)
            dirty->name_len[n][part] =
                (uint8_t)snprintf(dirty->name[n][part], DIRTY_NAME_BYTES,
                                  "slug-persist:{dirtyKey:%u}%s", n, tail[part]);
    dirty->model = model;
    dirty->lsn_high = 0;
    dirty->lsn_len = 0;
}

struct dirty_table dirty_table(struct dirty *dirty, const struct run *run, struct ns *ns,
                               uint32_t number)
{
    return (struct dirty_table){
        .dirty = dirty, .run = run_as(run, ns, dirty->model), .number = number};
}

struct bytes dirty_name(const struct dirty_table *table, enum dirty_part part)
{
    const struct dirty *dirty = table->dirty;
    return bytes_of(dirty->name[table->number][part], dirty->name_len[table->number][part]);
}

static enum rc field_set(const struct dirty_table *table, enum dirty_part part, struct bytes field,
                         struct bytes value, bool *ret_new, struct err *err)
{
    const struct bytes pair[2] = {field, value};
    size_t added = 0;
    enum rc rc = hash_set(&table->run, dirty_name(table, part), pair, 1, &added, err);
    if (ret_new)
        *ret_new = added > 0;
    return rc;
}

static enum rc field_get(const struct dirty_table *table, enum dirty_part part, struct bytes field,
                         struct bytes *ret_value, struct err *err)
{
    struct key key;
    enum rc rc = dirty_open(table, part, &key, err);
    return rc == RC_OK ? hash_field(&key, field, ret_value, err) : rc;
}

static enum rc field_delete(const struct dirty_table *table, enum dirty_part part,
                            struct bytes field, struct err *err)
{
    return hash_delete(&table->run, dirty_name(table, part), &field, 1, NULL, err);
}

enum rc dirty_open(const struct dirty_table *table, enum dirty_part part, struct key *ret_key,
                   struct err *err)
{
    return key_write(&table->run, dirty_name(table, part), TYPE_HASH, ret_key, err);
}

/* ---- marks ---- */

static size_t lsn_text(struct dirty *dirty, char to[NUMBER_INT_BYTES], uint64_t lsn)
{
    enum { LOW = 10000, LOW_DIGITS = 4 };
    if (lsn < LOW)
        return number_int_text(to, (int64_t)lsn);
    unsigned low = (unsigned)(lsn % LOW);
    if (dirty->lsn_high != lsn / LOW) {
        dirty->lsn_high = lsn / LOW;
        dirty->lsn_len = number_int_text(dirty->lsn_text, (int64_t)dirty->lsn_high);
    }
    memcpy(to, dirty->lsn_text, sizeof dirty->lsn_text);
    for (size_t i = LOW_DIGITS; i-- > 0; low /= 10)
        to[dirty->lsn_len + i] = (char)('0' + low % 10);
    return dirty->lsn_len + LOW_DIGITS;
}

enum rc dirty_mark(const struct dirty_table *table, struct bytes entry, bool removed, bool *ret_new,
                   struct err *err)
{
    char value[MARK_BYTES];
    const size_t head = sizeof mark_update - 1;
    memcpy(value, removed ? mark_remove : mark_update, head);
    size_t len = head + lsn_text(table->dirty, value + head, store_lsn(table->run.kv->store));
    return field_set(table, DIRTY_MARKED, entry, bytes_of(value, len), ret_new, err);
}

bool dirty_mark_parse(struct bytes value, bool *ret_removed, uint64_t *ret_version)
{
    int64_t version;
    const size_t head = sizeof mark_update - 1;
    *ret_removed = bytes_start_with(value, BYTES(mark_remove));
    if (!*ret_removed && !bytes_start_with(value, BYTES(mark_update)))
        return false;
    if (!number_int(bytes_from(value, head), &version) || version <= 0)
        return false;
    *ret_version = (uint64_t)version;
    return true;
}

enum rc dirty_version_in(const struct key *open, enum dirty_part part, struct bytes entry,
                         uint64_t *ret_version, struct err *err)
{
    struct bytes value;
    struct dirty_error error;
    bool removed;
    enum rc rc = hash_field(open, entry, &value, err);
    if (rc != RC_OK)
        return rc;
    if (part != DIRTY_ERROR) {
        if (!dirty_mark_parse(value, &removed, ret_version))
            return err_set(err, RC_CORRUPT, "a dirty table holds a mark without a version");
        return RC_OK;
    }
    rc = dirty_error_parse(value, &error, err);
    *ret_version = error.version;
    return rc;
}

enum rc dirty_version(const struct dirty_table *table, enum dirty_part part, struct bytes entry,
                      uint64_t *ret_version, struct err *err)
{
    struct key key;
    enum rc rc = dirty_open(table, part, &key, err);
    return rc == RC_OK ? dirty_version_in(&key, part, entry, ret_version, err) : rc;
}

enum rc dirty_find(const struct dirty_table *table, struct bytes entry, bool *ret_found,
                   uint64_t *ret_version, struct err *err)
{
    uint64_t newest = 0;
    *ret_found = false;
    for (enum dirty_part part = DIRTY_MARKED; part <= DIRTY_ERROR; part++) {
        uint64_t version;
        enum rc rc = dirty_version(table, part, entry, &version, err);
        if (rc == RC_NOT_FOUND)
            continue;
        if (rc != RC_OK)
            return rc;
        *ret_found = true;
        if (version > newest)
            newest = version;
    }
    if (ret_version)
        *ret_version = newest;
    return RC_OK;
}

static enum rc part_find_owner(const struct dirty_table *table, enum dirty_part part,
                               struct bytes owner_part, bool *ret_found, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes entry, value;
    struct key key;
    *ret_found = false;
    enum rc rc = dirty_open(table, part, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, table->run.kv->store, key_rows(&key), false);
    rc = store_walk_seek(&walk, owner_part, err);
    if (rc == RC_OK)
        rc = store_walk_next(&walk, &entry, &value, err);
    if (rc == RC_OK)
        *ret_found = bytes_start_with(entry, owner_part);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc dirty_find_owner(const struct dirty_table *table, struct bytes owner_part, bool *ret_found,
                         struct err *err)
{
    enum rc rc = RC_OK;
    *ret_found = false;
    for (enum dirty_part part = DIRTY_MARKED; rc == RC_OK && !*ret_found && part <= DIRTY_ERROR;
         part++)
        rc = part_find_owner(table, part, owner_part, ret_found, err);
    return rc;
}

enum rc dirty_remove_many(const struct dirty_table *table, enum dirty_part part,
                          struct bytes *entry, const uint64_t *version, size_t count,
                          struct err *err)
{
    size_t same = 0;
    bool cold = false; /* all of them are asked for */
    struct key key;
    enum rc rc = count > 0 ? dirty_open(table, part, &key, err) : RC_OK;
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        uint64_t now;
        rc = dirty_version_in(&key, part, entry[i], &now, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD)
            return rc;
        if (rc == RC_OK && now == version[i])
            entry[same++] = entry[i];
    }
    if (cold || same == 0)
        return cold ? RC_COLD : RC_OK;
    return dirty_take_many(table, part, entry, same, err);
}

enum rc dirty_take_many(const struct dirty_table *table, enum dirty_part part,
                        const struct bytes *entry, size_t count, struct err *err)
{
    return hash_delete(&table->run, dirty_name(table, part), entry, count, NULL, err);
}

enum rc dirty_remove(const struct dirty_table *table, enum dirty_part part, struct bytes entry,
                     uint64_t version, struct err *err)
{
    return dirty_remove_many(table, part, &entry, &version, 1, err);
}

enum rc dirty_snapshot(const struct dirty_table *table, bool *ret_has, bool *ret_left,
                       struct err *err)
{
    struct key marked, saving;
    enum rc rc = dirty_open(table, DIRTY_SAVING, &saving, err);
    if (rc == RC_OK && !saving.exists)
        rc = dirty_open(table, DIRTY_MARKED, &marked, err);
    *ret_left = rc == RC_OK && saving.exists;
    *ret_has = rc == RC_OK && (saving.exists || marked.exists);
    if (rc == RC_OK && !saving.exists && marked.exists) {
        rc = key_rename(&marked, &saving, err);
        if (rc == RC_OK) {
            key_changed(&marked, KV_EVENT_GENERIC, "rename_from");
            key_changed(&saving, KV_EVENT_GENERIC, "rename_to");
        }
    }
    return rc;
}

/* ---- errors ---- */

enum rc dirty_error_put(const struct dirty_table *table, struct bytes entry,
                        const struct dirty_error *error, struct err *err)
{
    char reason[DIRTY_REASON_BYTES]; /* it was cut, and databases quote what they were given */
    memcpy(reason, error->reason, sizeof reason);
    utf8_repair((uint8_t *)reason, strlen(reason));
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:s, s:I}", "op", error->removed ? "REMOVE" : "UPDATE",
                  "version", (json_int_t)error->version, "attempts", (json_int_t)error->attempts,
                  "error", reason, "next_ms", (json_int_t)error->next_ms);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    enum rc rc = text
                     ? field_set(table, DIRTY_ERROR, entry, bytes_of(text, strlen(text)), NULL, err)
                     : err_set(err, RC_NOMEM, "could not allocate memory for an error entry");
    free(text);
    json_decref(json);
    return rc;
}

enum rc dirty_error_copy(const struct dirty_table *table, struct bytes entry, struct bytes value,
                         struct err *err)
{
    return field_set(table, DIRTY_ERROR, entry, value, NULL, err);
}

enum rc dirty_error_parse(struct bytes value, struct dirty_error *ret_error, struct err *err)
{
    const char *op = NULL, *reason = NULL;
    json_int_t version = 0, attempts = 0, next_ms = 0;
    *ret_error = (struct dirty_error){0};
    json_t *json = json_loadb((const char *)value.ptr, value.len, JSON_REJECT_DUPLICATES, NULL);
    bool good =
        json && json_unpack(json, "{s:s, s:I, s:I, s:s, s:I}", "op", &op, "version", &version,
                            "attempts", &attempts, "error", &reason, "next_ms", &next_ms) == 0;
    good = good && version > 0 && attempts >= 0 && next_ms >= 0;
    if (good) {
        ret_error->removed = strcmp(op, "REMOVE") == 0;
        ret_error->version = (uint64_t)version;
        ret_error->attempts = (uint64_t)attempts;
        ret_error->next_ms = (uint64_t)next_ms;
        snprintf(ret_error->reason, sizeof ret_error->reason, "%s", reason);
    }
    json_decref(json);
    return good ? RC_OK : err_set(err, RC_CORRUPT, "an error table holds something else");
}

/* ---- locks ---- */

/* Whether somebody holds it now, and whether that is us. */
static enum rc lock_look(const struct dirty_table *table, struct bytes rule, struct bytes token,
                         bool *ret_held, bool *ret_ours, struct err *err)
{
    struct bytes value;
    int64_t until_ms = 0;
    *ret_held = *ret_ours = false;
    enum rc rc = field_get(table, DIRTY_LOCK, rule, &value, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    const uint8_t *colon = memrchr(value.ptr, ':', value.len);
    size_t len = colon ? (size_t)(colon - value.ptr) : value.len;
    if (colon && number_int(bytes_from(value, len + 1), &until_ms))
        *ret_held = until_ms > (int64_t)table->run.now_ms;
    *ret_ours = bytes_eq(bytes_of(value.ptr, len), token);
    return RC_OK;
}

enum rc dirty_lock(const struct dirty_table *table, struct bytes rule, struct bytes token,
                   uint64_t ttl_ms, bool take_over, struct err *err)
{
    bool held, ours;
    char value[128];
    enum rc rc = lock_look(table, rule, token, &held, &ours, err);
    if (rc != RC_OK)
        return rc;
    if (held && !ours && !take_over)
        return err_set(err, RC_BUSY, "another lander holds the lock");
    int len = snprintf(value, sizeof value, "%.*s:%" PRIu64, (int)token.len,
                       (const char *)token.ptr, table->run.now_ms + ttl_ms);
    ASSERT(len > 0 && (size_t)len < sizeof value);
    return field_set(table, DIRTY_LOCK, rule, bytes_of(value, (size_t)len), NULL, err);
}

enum rc dirty_unlock(const struct dirty_table *table, struct bytes rule, struct bytes token,
                     struct err *err)
{
    bool held, ours;
    enum rc rc = lock_look(table, rule, token, &held, &ours, err);
    if (rc == RC_OK && !ours)
        return err_set(err, RC_BUSY, "the lock is not ours");
    return rc == RC_OK ? field_delete(table, DIRTY_LOCK, rule, err) : rc;
}
