// SPDX-License-Identifier: Apache-2.0
/* kv_run.c - runs of list commands that leave their meta row for the next one. */
#include "support/kv_run.h"

#include <stdio.h>

#include "store/turns.h"
#include "test.h"
#include "types/list.h"

#include "base/banned.h"

enum rc kv_run_push(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct bytes word[KV_RUN_WORDS_MAX];
    struct list list;
    size_t count = kv_fix_words(call->words, word, KV_RUN_WORDS_MAX);
    enum rc rc = list_write(&fix->run, call->key, &list, &fix->err);
    if (rc == RC_OK)
        rc = list_push(&list, LIST_TAIL, word, count, &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

enum rc kv_run_pop(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct list list;
    struct bytes element;
    enum rc rc = list_write(&fix->run, call->key, &list, &fix->err);
    if (rc != RC_OK || !list.key.exists)
        return rc;
    if (call->count > list_count(&list))
        call->count = list_count(&list);
    rc = list_peek(&list, LIST_HEAD, &element, &fix->err);
    if (rc == RC_OK)
        rc = list_pop(&list, LIST_HEAD, call->count, &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

enum rc kv_run_text(struct kv_fix *fix, void *arg)
{
    CLEANUP(list_walk_done) struct list_walk walk = {0};
    struct kv_run_text *to = arg;
    struct list list;
    struct bytes element;
    size_t len = 0;
    to->text[0] = 0;
    enum rc rc = list_write(&fix->run, bytes_of(to->key, strlen(to->key)), &list, &fix->err);
    if (rc != RC_OK || !list.key.exists)
        return rc;
    rc = list_walk_init(&walk, &list, 0, list_count(&list), false, &fix->err);
    for (uint64_t i = 0; rc == RC_OK && i < list_count(&list); i++) {
        rc = list_walk_next(&walk, &element, &fix->err);
        if (rc != RC_OK)
            return rc;
        ASSERT_LT(len + element.len + 2, KV_RUN_TEXT_BYTES);
        len += (size_t)snprintf(to->text + len, KV_RUN_TEXT_BYTES - len, "%s%.*s", i ? " " : "",
                                (int)element.len, (const char *)element.ptr);
    }
    return rc;
}

enum rc kv_run_step(struct kv_fix *fix, bool more, kv_run_body *run, struct kv_run *call)
{
    held_begin(&fix->kv, more);
    run_begin(&fix->run, &fix->kv, fix->ns, 0);
    store_begin(fix->store, 0);
    enum rc rc = run_end(&fix->run, run(fix, call));
    if (rc == RC_OK)
        store_commit(fix->store);
    else
        store_undo(fix->store);
    if (rc != RC_OK)
        held_undo(&fix->kv);
    return rc;
}

void kv_run_end(struct kv_fix *fix)
{
    held_write(&fix->kv);
    ASSERT_FALSE(fix->kv.held.row.is);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}
