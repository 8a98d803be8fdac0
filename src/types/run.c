// SPDX-License-Identifier: Apache-2.0
/* run.c - the begin and the end of a run. */
#include "types/run.h"

#include "types/kv.h"

#include "base/banned.h"

void run_begin_at(struct run *run, struct kv *kv, struct ns *ns, unsigned flags, uint64_t now_ms)
{
    ASSERT(!kv->is_running); /* its scratch memory would be freed */
    kv->is_running = true;
    kv->run_seq++;
    *run = (struct run){.kv = kv,
                        .ns = ns,
                        .now_ms = now_ms,
                        .arena = &kv->arena,
                        .flags = flags,
                        .before = kv->counts};
    if (kv->arena.chunk)
        arena_clear(&kv->arena);
    if (UNLIKELY(kv->moved))
        kv_ns_place(kv);
    if (kv->hooks.told)
        run->told_from = kv->hooks.told->len;
}

void run_begin(struct run *run, struct kv *kv, struct ns *ns, unsigned flags)
{
    run_begin_at(run, kv, ns, flags, clock_unix_ms(kv->clock));
}

enum rc run_end(const struct run *run, enum rc rc)
{
    struct kv *kv = run->kv;
    ASSERT(kv->is_running && !(run->flags & RUN_PART));
    kv->is_running = false;
    if (rc == RC_COLD || rc == RC_WAIT) { /* what it read is counted by its last run */
        kv->counts.hit_count = run->before.hit_count;
        kv->counts.miss_count = run->before.miss_count;
    }
    if (rc != RC_OK && rc != RC_WAIT)
        kv->counts.expired_count = run->before.expired_count;
    if (kv->hooks.told && kv->hooks.told->len != run->told_from)
        kv->hooks.end(kv->hooks.arg, run, rc);
    return rc;
}

enum rc run_copy(const struct run *run, struct bytes bytes, struct bytes *ret_copy, struct err *err)
{
    uint8_t *copy = arena_try_alloc(run->arena, bytes.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", bytes.len);
    bytes_move(copy, bytes.ptr, bytes.len);
    *ret_copy = bytes_of(copy, bytes.len);
    return RC_OK;
}
