// SPDX-License-Identifier: Apache-2.0
/* kv_keys.c - one command a call on keys of a kv_fix. */
#include "support/kv_keys.h"

#include <stdio.h>

#include "test.h"
#include "types/hash.h"
#include "types/string.h"

#include "base/banned.h"

enum { VALUE_BYTES = 256 };

struct kv_call {
    struct bytes name, field, value;
    uint64_t ms;
    bool found;
    char text[VALUE_BYTES];
    size_t count;
};

static struct bytes text_bytes(const char *text)
{
    return bytes_of(text, strlen(text));
}

static enum rc run_put(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, KEY_ANY, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    return string_set(&key, call->value, call->ms ? fix->run.now_ms + call->ms : 0, &fix->err);
}

void kv_put(struct kv_fix *fix, const char *name, const char *value, uint64_t ttl_ms)
{
    struct kv_call call = {.name = text_bytes(name), .value = text_bytes(value), .ms = ttl_ms};
    ASSERT_OK(kv_fix_run(fix, run_put, &call), &fix->err);
}

void kv_put_many(struct kv_fix *fix, const char *front, int from, int to)
{
    char name[VALUE_BYTES];
    for (int i = from; i < to; i++) {
        snprintf(name, sizeof name, "%s%04d", front, i);
        kv_put(fix, name, "value", 0);
    }
}

static enum rc run_hash_put(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct bytes pair[2] = {call->field, call->value};
    return hash_set(&fix->run, call->name, pair, 1, NULL, &fix->err);
}

void kv_hash_put(struct kv_fix *fix, const char *name, const char *field, const char *value)
{
    struct kv_call call = {
        .name = text_bytes(name), .field = text_bytes(field), .value = text_bytes(value)};
    ASSERT_OK(kv_fix_run(fix, run_hash_put, &call), &fix->err);
}

static enum rc run_expire(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, KEY_ANY, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    ASSERT_TRUE(key.exists);
    key.meta.expire_ms = call->ms;
    return key_save(&key, key.meta.extra, &fix->err);
}

void kv_expire(struct kv_fix *fix, const char *name, uint64_t at_ms)
{
    struct kv_call call = {.name = text_bytes(name), .ms = at_ms};
    ASSERT_OK(kv_fix_run(fix, run_expire, &call), &fix->err);
}

static enum rc run_remove(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, KEY_ANY, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    call->found = key.exists;
    return key_remove(&key, &fix->err);
}

bool kv_remove(struct kv_fix *fix, const char *name)
{
    struct kv_call call = {.name = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_remove, &call), &fix->err);
    return call.found;
}

static void value_keep(struct kv_call *call, struct bytes value)
{
    ASSERT_LT(value.len, sizeof call->text);
    memcpy(call->text, value.ptr, value.len);
    call->text[value.len] = 0;
}

static enum rc run_get(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct key key;
    struct bytes value = BYTES("");
    enum rc rc = key_read(&fix->run, call->name, KEY_ANY, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    call->found = key.exists;
    call->ms = key.exists ? key.meta.expire_ms : 0;
    if (string_is(&key))
        rc = string_get(&key, &value, &fix->err);
    if (rc == RC_OK)
        value_keep(call, value);
    return rc;
}

bool kv_has(struct kv_fix *fix, const char *name)
{
    struct kv_call call = {.name = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_get, &call), &fix->err);
    return call.found;
}

void kv_expect(struct kv_fix *fix, const char *name, const char *value)
{
    struct kv_call call = {.name = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_get, &call), &fix->err);
    ASSERT_STR(call.found ? call.text : "(none)", value ? value : "(none)");
}

uint64_t kv_deadline(struct kv_fix *fix, const char *name)
{
    struct kv_call call = {.name = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_get, &call), &fix->err);
    return call.ms;
}

static enum rc run_hash_get(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    struct bytes value;
    enum rc rc = hash_get(&fix->run, call->name, call->field, &value, &fix->err);
    call->found = rc == RC_OK;
    if (rc == RC_OK)
        value_keep(call, value);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

void kv_hash_expect(struct kv_fix *fix, const char *name, const char *field, const char *value)
{
    struct kv_call call = {.name = text_bytes(name), .field = text_bytes(field)};
    ASSERT_OK(kv_fix_run(fix, run_hash_get, &call), &fix->err);
    ASSERT_STR(call.found ? call.text : "(none)", value ? value : "(none)");
}

static enum rc run_index(struct kv_fix *fix, void *arg)
{
    struct kv_call *call = arg;
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    enum rc rc;
    call->count = 0;
    store_walk_init(&walk, fix->store, key_index(fix->ns), false);
    while ((rc = store_walk_next(&walk, &suffix, &value, &fix->err)) == RC_OK)
        call->count++;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

size_t kv_index_rows(struct kv_fix *fix)
{
    struct kv_call call = {0};
    ASSERT_OK(kv_fix_run(fix, run_index, &call), &fix->err);
    return call.count;
}
