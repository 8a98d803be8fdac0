// SPDX-License-Identifier: Apache-2.0
/* functions.c - the rows of libraries, and the compiled set that follows them.
 *
 *   SPACE function, one group:   ""     the stamp (16)
 *                                name   the code of a library
 */
#include "server/functions.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "server/scripts.h"
#include "types/spaces.h"

#include "base/banned.h"

/* A library that was loaded once is loaded again in about the same time, or it wants to harm. */
#define REFRESH_LIMIT_NS UINT64_C(10000000000)

/* ---- life ---- */

static struct script_vm *vm_new(const struct scripts *scripts)
{
    struct rand rand;
    rand_init_os(&rand);
    return script_vm_new(
        &(struct script_vm_options){.memory_bytes_max = scripts->server->config->lua_memory_bytes,
                                    .for_functions = true,
                                    .seed = rand_u64(&rand)});
}

enum rc functions_open(struct functions *functions, struct scripts *scripts, struct err *err)
{
    *functions = (struct functions){.scripts = scripts, .vm = vm_new(scripts)};
    library_set_init(&functions->set);
    return store_prefix(scripts->server->store, SPACE_FUNCTION, BYTES(""), &functions->prefix, err);
}

void functions_done(struct functions *functions)
{
    if (!functions->vm)
        return; /* it was not opened */
    library_set_done(&functions->set, functions->vm);
    script_vm_free(functions->vm);
}

void functions_memory_set(struct functions *functions, size_t bytes_max)
{
    script_vm_memory_set(functions->vm, bytes_max);
    functions->is_known = functions->is_known && functions->set.broken_count == 0;
}

enum rc functions_load(struct functions *functions, struct bytes code, uint64_t limit_ns,
                       struct library **ret_library, struct err *err)
{
    struct script_lib *lib;
    enum rc rc = scripts_lib_load(functions->scripts, code, limit_ns, &lib, err);
    if (rc == RC_OK)
        *ret_library = library_new(lib);
    return rc;
}

/* ---- rows ---- */

static struct store_group group_of(const struct functions *functions)
{
    return (struct store_group){.prefix = functions->prefix, .key = BYTES("")};
}

enum rc functions_row_put(struct functions *functions, struct cmd_ctx *ctx,
                          const struct library *library)
{
    return store_put(ctx->server->store, group_of(functions), library->name, library->code,
                     ctx->err);
}

enum rc functions_row_delete(struct functions *functions, struct cmd_ctx *ctx,
                             const struct library *library)
{
    enum rc rc = store_delete(ctx->server->store, group_of(functions), library->name, ctx->err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc functions_flush(struct functions *functions, struct cmd_ctx *ctx)
{
    struct bytes stamp;
    enum rc rc = store_get(ctx->server->store, group_of(functions), BYTES(""), &stamp, ctx->err);
    if (rc == RC_NOT_FOUND)
        return RC_OK; /* there was never a library, or none since the last FLUSH */
    if (rc == RC_OK)
        rc = functions_rows_drop(functions, ctx);
    if (rc != RC_OK)
        return rc;
    functions_done(functions);
    functions->vm = vm_new(functions->scripts);
    library_set_init(&functions->set);
    functions->is_known = true;
    functions->has_stamp = false;
    return RC_OK;
}

enum rc functions_rows_drop(struct functions *functions, struct cmd_ctx *ctx)
{
    enum rc rc = store_group_drop(ctx->server->store, group_of(functions), ctx->err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc functions_changed(struct functions *functions, struct cmd_ctx *ctx)
{
    uint8_t stamp[FUNCTIONS_STAMP_BYTES];
    struct rand rand;
    rand_init_os(&rand);
    rand_bytes(&rand, stamp, sizeof stamp);
    enum rc rc = store_put(ctx->server->store, group_of(functions), BYTES(""),
                           bytes_of(stamp, sizeof stamp), ctx->err);
    if (rc != RC_OK)
        return rc;
    memcpy(functions->stamp, stamp, sizeof stamp);
    functions->is_known = functions->has_stamp = true;
    return RC_OK;
}

/* ---- refreshing ---- */

static bool stamp_is(const struct functions *functions, bool has, struct bytes stamp)
{
    if (!functions->is_known || functions->has_stamp != has)
        return false;
    return !has || bytes_eq(stamp, bytes_of(functions->stamp, sizeof functions->stamp));
}

/* All rows, before the first is compiled: a run that finds something cold begins again. */
static enum rc rows_ask(struct cmd_ctx *ctx, struct store_walk *walk)
{
    struct bytes name, code;
    enum rc rc = store_walk_seek(walk, BYTES(""), ctx->err);
    while (rc == RC_OK)
        rc = store_walk_next(walk, &name, &code, ctx->err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static struct library *row_load(struct functions *functions, struct bytes name, struct bytes code)
{
    struct library *library;
    struct err err = {0};
    enum rc rc = functions_load(functions, code, REFRESH_LIMIT_NS, &library, &err);
    if (rc == RC_OK && !bytes_eq(library->name, name)) {
        library_free(library, functions->vm);
        rc = err_set(&err, RC_CORRUPT, "its code has another name");
    }
    if (rc == RC_OK)
        return library;
    log_warn("function library %.*s could not be loaded: %s", (int)name.len, (const char *)name.ptr,
             err.text);
    return library_new_broken(name, code, err.text);
}

/* A library with a function that another one has: neither FUNCTION LOAD nor RESTORE lets it in. */
static struct library *clash_break(struct functions *functions, struct library *library,
                                   const struct function *other)
{
    struct err err;
    err_set(&err, RC_CORRUPT, "Function %s already exists", (const char *)other->is->name.ptr);
    log_warn("function library %.*s could not be loaded: %s", (int)library->name.len,
             (const char *)library->name.ptr, err.text);
    struct library *broken = library_new_broken(library->name, library->code, err.text);
    library_free(library, functions->vm);
    return broken;
}

/* Libraries whose code is the same stay; what is left in `old` is gone. */
static void row_take(struct functions *functions, struct library_set *old, struct bytes name,
                     struct bytes code)
{
    struct library *library = library_find(old, name);
    if (library && library->lib && bytes_eq(library->code, code))
        library_take_out(old, library);
    else
        library = row_load(functions, name, code);
    const struct function *other = library_clash(&functions->set, library, NULL);
    library_add(&functions->set, other ? clash_break(functions, library, other) : library);
}

static enum rc rows_take(struct functions *functions, struct cmd_ctx *ctx, struct store_walk *walk)
{
    struct library_set old = functions->set;
    struct bytes name, code;
    enum rc rc = store_walk_seek_behind(walk, BYTES(""), ctx->err);
    functions->is_known = false;
    library_set_init(&functions->set);
    while (rc == RC_OK) {
        rc = store_walk_next(walk, &name, &code, ctx->err);
        if (rc == RC_OK)
            row_take(functions, &old, name, code);
    }
    library_set_done(&old, functions->vm);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc functions_refresh(struct cmd_ctx *ctx)
{
    struct functions *functions = &ctx->server->scripts->functions;
    struct store *store = ctx->server->store;
    uint8_t stamp[FUNCTIONS_STAMP_BYTES];
    struct bytes row = BYTES("");
    struct store_walk walk;
    enum rc rc = store_get(store, group_of(functions), BYTES(""), &row, ctx->err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    bool has = rc == RC_OK;
    if (stamp_is(functions, has, row))
        return RC_OK;
    if (has && row.len != sizeof stamp)
        return err_set(ctx->err, RC_CORRUPT, "the stamp of functions has %zu bytes", row.len);
    if (has)
        memcpy(stamp, row.ptr, sizeof stamp);
    store_walk_init(&walk, store, group_of(functions), false);
    rc = rows_ask(ctx, &walk);
    if (rc == RC_OK)
        rc = rows_take(functions, ctx, &walk);
    store_walk_done(&walk);
    if (rc != RC_OK)
        return rc;
    functions->is_known = true;
    functions->has_stamp = has;
    if (has)
        memcpy(functions->stamp, stamp, sizeof stamp);
    return RC_OK;
}
