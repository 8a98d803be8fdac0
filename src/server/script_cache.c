// SPDX-License-Identifier: Apache-2.0
/* script_cache.c - compiled scripts by SHA-1: EVAL adds, EVALSHA finds, SCRIPT FLUSH forgets.
 *
 * The cache is bounded. What came by EVAL goes first, the one that was used longest ago first;
 * whoever calls it by EVALSHA gets NOSCRIPT and sends it again. */
#include "server/scripts.h"

#include "base/mem.h"
#include "base/rand.h"

#include "base/banned.h"

/* ---- life ---- */

/* The SHA is even enough to be its own hash. */
static uint64_t sha_hash(const char *sha)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < 16; i++)
        hash = hash << 4 ^ (uint8_t)sha[i];
    return hash;
}

static uint64_t entry_hash(const void *entry, void *arg)
{
    const struct script *script = entry;
    (void)arg;
    return sha_hash(script->sha);
}

static bool entry_eq(const void *entry, const void *key, void *arg)
{
    const struct script *script = entry;
    (void)arg;
    return memcmp(script->sha, key, SHA1_HEX_BYTES) == 0;
}

static struct script_vm *vm_new(struct scripts *scripts)
{
    struct rand rand;
    rand_init_os(&rand);
    return script_vm_new(&(struct script_vm_options){
        .memory_bytes_max = scripts->server->config->lua_memory_bytes, .seed = rand_u64(&rand)});
}

struct scripts *scripts_new(struct server *server)
{
    struct scripts *scripts = mem_zalloc(sizeof *scripts);
    scripts->server = server;
    scripts->sha1 = sha1_new();
    scripts->eval = vm_new(scripts);
    table_init(&scripts->by_sha, entry_hash, entry_eq, NULL);
    resp_out_init(&scripts->reply, CONN_REPLY_ONE_BYTES_MAX);
    buf_init(&scripts->work.log, SCRIPT_LOG_BYTES_MAX);
    server__script_host_init(scripts);
    return scripts;
}

static void script_remove(struct scripts *scripts, struct script *script)
{
    struct table_slot slot;
    uint64_t hash = sha_hash(script->sha);
    ASSERT(table_find(&scripts->by_sha, hash, script->sha, &slot) == script);
    table_remove(&scripts->by_sha, hash, slot);
    dlist_remove(&scripts->used, &script->link);
    scripts->text_bytes -= script->bytes;
    scripts->eval_count -= !script->is_loaded;
    script_forget(scripts->eval, script->ref);
    mem_free(script);
}

static struct script *first_of(struct scripts *scripts)
{
    return DLIST_ITEM(scripts->used.first, struct script, link);
}

static void all_remove(struct scripts *scripts)
{
    while (first_of(scripts))
        script_remove(scripts, first_of(scripts));
}

void scripts_free(struct scripts *scripts)
{
    if (!scripts)
        return;
    functions_done(&scripts->functions);
    all_remove(scripts);
    table_done(&scripts->by_sha);
    script_vm_free(scripts->eval);
    sha1_free(scripts->sha1);
    resp_out_done(&scripts->reply);
    buf_done(&scripts->work.log);
    mem_free(scripts->work.stats);
    mem_free(scripts);
}

void scripts_flush(struct scripts *scripts)
{
    all_remove(scripts);
    script_vm_free(scripts->eval);
    scripts->eval = vm_new(scripts);
}

void scripts_memory_set(struct scripts *scripts)
{
    size_t bytes_max = scripts->server->config->lua_memory_bytes;
    script_vm_memory_set(scripts->eval, bytes_max);
    functions_memory_set(&scripts->functions, bytes_max);
}

/* ---- use ---- */

struct script *scripts_find(struct scripts *scripts, const char sha[SHA1_HEX_BYTES])
{
    struct script *script = table_find(&scripts->by_sha, sha_hash(sha), sha, NULL);
    if (script && script->link.next) { /* it is not the last one already */
        dlist_remove(&scripts->used, &script->link);
        dlist_add_last(&scripts->used, &script->link);
    }
    return script;
}

void scripts_loaded(struct scripts *scripts, struct script *script)
{
    scripts->eval_count -= !script->is_loaded;
    script->is_loaded = true;
}

/* The next one that goes: of those that came by EVAL, if there are any. */
static struct script *oldest(struct scripts *scripts)
{
    struct script *at = first_of(scripts);
    while (at && at->is_loaded && scripts->eval_count > 0)
        at = DLIST_ITEM(at->link.next, struct script, link);
    return at;
}

static void room_make(struct scripts *scripts, size_t bytes)
{
    size_t bytes_max = scripts->server->config->lua_memory_bytes / SCRIPT_CACHE_SHARE;
    while (first_of(scripts) && (scripts->text_bytes + bytes > bytes_max ||
                                 scripts->eval_count >= SCRIPT_EVAL_CACHED_MAX))
        script_remove(scripts, oldest(scripts));
}

enum rc scripts_add(struct scripts *scripts, struct bytes text, const char sha[SHA1_HEX_BYTES],
                    bool is_loaded, struct script **ret_script, struct err *err)
{
    unsigned flags;
    size_t line;
    int ref;
    enum rc rc = script_shebang(text, &flags, &line, err);
    if (rc != RC_OK)
        return rc;
    room_make(scripts, text.len);
    rc = script_compile(scripts->eval, bytes_from(text, line), &ref, err);
    if (rc != RC_OK)
        return rc;
    struct script *script = mem_zalloc(sizeof *script);
    memcpy(script->sha, sha, SHA1_HEX_BYTES);
    script->ref = ref;
    script->flags = flags;
    script->bytes = text.len;
    script->is_loaded = is_loaded;
    table_insert(&scripts->by_sha, sha_hash(sha), script);
    dlist_add_last(&scripts->used, &script->link);
    scripts->text_bytes += text.len;
    scripts->eval_count += !is_loaded;
    *ret_script = script;
    return RC_OK;
}
