// SPDX-License-Identifier: Apache-2.0
/* vm.c - the interpreter: its life, its memory, looking around, compiling, a run. */
#include "script/json.h"

#include <stdio.h>

#include "base/mem.h"

#include "base/banned.h"

enum {
    SCRATCH_KEPT_BYTES = 64 * 1024,
    ERROR_SHOWN_BYTES = 100,
    COLLECT_SHARE =
        2, /* of the memory: more than this part of it in use is collected after a run */
};

/* ---- memory ---- */

static void *vm_alloc(void *arg, void *ptr, size_t old_bytes, size_t bytes)
{
    struct script_vm *vm = arg;
    if (bytes == 0) {
        mem_free(ptr);
        vm->bytes -= old_bytes;
        return NULL;
    }
    if (bytes > old_bytes && bytes - old_bytes > vm->bytes_max - vm->bytes)
        return NULL; /* vm->bytes <= vm->bytes_max */
    void *to = mem_try_realloc(ptr, bytes);
    if (!to)
        return bytes <= old_bytes ? ptr : NULL; /* Lua relies on what shrinks */
    vm->bytes += bytes - old_bytes;
    vm->work += bytes;
    if (UNLIKELY(vm->work >= VM_WORK_BYTES) && vm->running)
        vm__work(vm->running, 0);
    return to;
}

size_t script_vm_bytes(const struct script_vm *vm)
{
    return vm->bytes;
}

void script_vm_memory_set(struct script_vm *vm, size_t bytes_max)
{
    vm->bytes_max = bytes_max > vm->bytes ? bytes_max : vm->bytes;
}

struct buf *vm__scratch(lua_State *L)
{
    struct script_vm *vm = vm_of(L);
    buf_shrink(&vm->scratch, SCRATCH_KEPT_BYTES);
    vm->scratch.bytes_max =
        vm->bytes_max < VM_STRING_BYTES_MAX ? vm->bytes_max : VM_STRING_BYTES_MAX;
    return &vm->scratch;
}

_Noreturn void vm__no_memory(lua_State *L)
{
    lua_pushliteral(L, "not enough memory");
    lua_error(L);
    __builtin_unreachable();
}

void vm__scratch_push(lua_State *L, bool good)
{
    const struct buf *scratch = &vm_of(L)->scratch;
    if (!good)
        vm__no_memory(L);
    lua_pushlstring(L, (const char *)scratch->ptr, scratch->len);
    vm__work(L, scratch->len);
}

/* ---- looking around ---- */

int vm__stop(lua_State *L, enum rc rc)
{
    struct script_vm *vm = vm_of(L);
    ASSERT(rc != RC_OK);
    vm->stop = rc;
    lua_settop(L, 0); /* there is room for one value */
    lua_pushnil(L);
    return lua_error(L);
}

void vm__tick(lua_State *L)
{
    struct script_vm *vm = vm_of(L);
    vm->work = 0;
    if (!vm->host)
        return;
    enum rc rc = vm->host->tick(vm->host->arg, &vm->err);
    if (rc != RC_OK)
        vm__stop(L, rc);
}

static void hook(lua_State *L, lua_Debug *debug)
{
    (void)debug;
    lua_sethook(L, hook, LUA_MASKCOUNT, VM_HOOK_COUNT);
    vm__tick(L);
}

void vm__work(lua_State *L, size_t bytes)
{
    struct script_vm *vm = vm_of(L);
    vm->work += bytes;
    if (vm->work >= VM_WORK_BYTES)
        lua_sethook(L, hook, LUA_MASKCOUNT, 1); /* before the next instruction */
}

/* ---- errors ---- */

/* The error becomes a table: its text, and where it was raised. When a C function did, its caller
 * is told. */
static int error_handler(lua_State *L)
{
    lua_Debug where;
    if (vm_of(L)->stop != RC_OK) /* (1) */
        return 1;
    if (!lua_istable(L, 1)) {
        const char *text = lua_tostring(L, 1);
        lua_newtable(L);
        lua_pushfstring(L, "ERR %s",
                        text                  ? text
                        : lua_isnil(L, 1)     ? "nil"
                        : lua_isboolean(L, 1) ? lua_toboolean(L, 1) ? "true" : "false"
                                              : luaL_typename(L, 1));
        lua_setfield(L, -2, "err");
        lua_replace(L, 1);
    } else {
        (void)vm__see_through(L, 1);
    }
    bool found = lua_getstack(L, 1, &where) && lua_getinfo(L, "Sl", &where);
    if (found && where.what[0] == 'C')
        found = lua_getstack(L, 2, &where) && lua_getinfo(L, "Sl", &where);
    if (!found)
        return 1;
    lua_pushliteral(L, "source");
    lua_pushstring(L, where.source);
    lua_rawset(L, 1);
    lua_pushliteral(L, "line");
    lua_pushnumber(L, where.currentline);
    lua_rawset(L, 1);
    return 1;
}

/* The field of the error at `index` as text; NULL: it is none. It stays on the stack. */
static const char *error_field(lua_State *L, int index, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, index);
    return lua_tostring(L, -1);
}

/* Writes the error on top as a reply. */
static void error_write(lua_State *L)
{
    struct script_run *run = vm_of(L)->run;
    int at = lua_gettop(L);
    luaL_checkstack(L, 6, "an error");
    run->is_error = true;
    if (!lua_istable(L, at)) {
        const char *text = lua_tostring(L, at);
        char shown[ERROR_SHOWN_BYTES + 1];
        (void)snprintf(shown, sizeof shown, "%s", text ? text : "execution failure");
        lua_pushfstring(L, "Error running script %s, %s", run->name, shown);
        resp_add_error(run->reply, "ERR", lua_tostring(L, -1));
        return;
    }
    const char *text = error_field(L, at, "err");
    const char *source = error_field(L, at, "source");
    const char *line = error_field(L, at, "line");
    if (!text)
        text = "ERR unknown error";
    if (source && line)
        lua_pushfstring(L, "%s script: %s, on %s:%s.", text, run->name, source, line);
    else
        lua_pushstring(L, text);
    resp_add_error(run->reply, "", lua_tostring(L, -1));
}

/* ---- life ---- */

static int run_protected(lua_State *L);

static int panic(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    assert_fail(text ? text : "a Lua error that nobody caught", __FILE__, __LINE__);
}

static int vm_open(lua_State *L)
{
    struct script_vm *vm = vm_of(L);
    vm__sandbox_open(L);
    lua_pushcfunction(L, error_handler);
    vm->handler = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, run_protected);
    vm->runner = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

struct script_vm *script_vm_new(const struct script_vm_options *options)
{
    struct script_vm *vm = mem_zalloc(sizeof *vm);
    vm->bytes_max = SIZE_MAX / 2; /* until it stands */
    vm->for_functions = options->for_functions;
    vm->random = options->seed & ((UINT64_C(1) << 48) - 1);
    vm->sha1 = sha1_new();
    buf_init(&vm->numbers, SIZE_MAX);
    buf_init(&vm->scratch, SIZE_MAX);
    vm->L = lua_newstate(vm_alloc, vm);
    ASSERT(vm->L != NULL);
    lua_atpanic(vm->L, panic);
    int status = lua_cpcall(vm->L, vm_open, NULL);
    ASSERT(status == 0);
    lua_settop(vm->L, 0);
    lua_gc(vm->L, LUA_GCCOLLECT, 0);
    vm->running = vm->L;
    lua_sethook(vm->L, hook, LUA_MASKCOUNT, VM_HOOK_COUNT);
    script_vm_memory_set(vm, options->memory_bytes_max);
    return vm;
}

void script_vm_free(struct script_vm *vm)
{
    if (!vm)
        return;
    lua_close(vm->L);
    ASSERT(vm->bytes == 0);
    sha1_free(vm->sha1);
    buf_done(&vm->numbers);
    buf_done(&vm->scratch);
    mem_free(vm->argv);
    mem_free(vm);
}

uint64_t script_random(const struct script_vm *vm)
{
    return vm->random;
}

void script_random_set(struct script_vm *vm, uint64_t state)
{
    vm->random = state;
}

/* ---- compiling ---- */

int vm__load(lua_State *L, struct bytes text, const char *name)
{
    luaL_checkstack(L, 4, "a chunk");
    if (text.len > 0 && text.ptr[0] == LUA_SIGNATURE[0]) {
        lua_pushliteral(L, "a precompiled chunk cannot be loaded");
        return LUA_ERRSYNTAX;
    }
    if (text.len > SCRIPT_TEXT_BYTES_MAX) {
        lua_pushfstring(L, "a script of more than %d bytes", (int)SCRIPT_TEXT_BYTES_MAX);
        return LUA_ERRSYNTAX;
    }
    /* The parser makes a string of the name and does not hold it: this one is the same. */
    lua_pushstring(L, name);
    int status = luaL_loadbuffer(L, (const char *)text.ptr, text.len, lua_tostring(L, -1));
    lua_remove(L, -2);
    return status;
}

struct compiling { /* script_compile(), under protection */
    struct bytes text;
    int ref;
    struct err *err;
    enum rc rc;
};

static int compile_run(lua_State *L)
{
    struct compiling *work = lua_touserdata(L, 1);
    int status = vm__load(L, work->text, "@user_script");
    if (status != 0) {
        work->rc = err_set(work->err, status == LUA_ERRMEM ? RC_NOMEM : RC_INVALID,
                           "Error compiling script (new function): %s", lua_tostring(L, -1));
        return 0;
    }
    work->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    work->rc = RC_OK;
    return 0;
}

enum rc script_compile(struct script_vm *vm, struct bytes text, int *ret_ref, struct err *err)
{
    struct compiling work = {.text = text, .err = err};
    if (lua_cpcall(vm->L, compile_run, &work) != 0) {
        lua_settop(vm->L, 0);
        return err_set(err, RC_INVALID, "Error compiling script (new function): not enough memory");
    }
    lua_settop(vm->L, 0);
    if (work.rc == RC_NOMEM) /* the script's limit, not the server's */
        return err_set(err, RC_INVALID, "Error compiling script (new function): not enough memory");
    if (work.rc == RC_OK)
        *ret_ref = work.ref;
    return work.rc;
}

void script_forget(struct script_vm *vm, int ref)
{
    luaL_unref(vm->L, LUA_REGISTRYINDEX, ref);
}

/* ---- a run ---- */

enum rc vm__call(struct script_vm *vm, int arg_count, int result_count, bool *ret_failed)
{
    lua_State *L = vm->L;
    int function = lua_gettop(L) - arg_count;
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm->handler);
    lua_insert(L, function);
    *ret_failed = lua_pcall(L, arg_count, result_count, function) != 0;
    vm->running = L;
    lua_remove(L, function);
    return vm->stop;
}

static void words_push(lua_State *L, const struct bytes *word, size_t count)
{
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(L, (const char *)word[i].ptr, word[i].len);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

struct running { /* script_run(), under protection */
    struct script_vm *vm;
    int ref;
    enum rc rc;
};

/* KEYS and ARGV are global names of a script, and arguments of a function. */
static void globals_put(lua_State *L, struct script_vm *vm, const struct script_run *run)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm->globals);
    lua_pushliteral(L, "KEYS");
    words_push(L, run->key, run->key_count);
    lua_rawset(L, -3);
    lua_pushliteral(L, "ARGV");
    words_push(L, run->arg, run->arg_count);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static void globals_forget(lua_State *L, struct script_vm *vm)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm->globals);
    lua_pushliteral(L, "KEYS");
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pushliteral(L, "ARGV");
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static int run_protected(lua_State *L)
{
    struct running *running = lua_touserdata(L, 1);
    struct script_vm *vm = running->vm;
    struct script_run *run = vm->run;
    bool failed;
    lua_rawgeti(L, LUA_REGISTRYINDEX, running->ref);
    if (vm->for_functions) {
        words_push(L, run->key, run->key_count);
        words_push(L, run->arg, run->arg_count);
    } else {
        globals_put(L, vm, run);
    }
    running->rc = vm__call(vm, vm->for_functions ? 2 : 0, 1, &failed);
    if (running->rc != RC_OK)
        return 0;
    if (failed) {
        if (vm->bytes > vm->bytes_max / COLLECT_SHARE)
            lua_gc(L, LUA_GCCOLLECT, 0); /* there has to be some for the text */
        error_write(L);
    }
    if (!failed)
        run->is_error = vm__reply_write(L, run->reply);
    if (!vm->for_functions)
        globals_forget(L, vm);
    return 0;
}

/* What a large run has left is given back before the next one needs it. */
void vm__collect(struct script_vm *vm)
{
    if (vm->bytes > vm->bytes_max / COLLECT_SHARE)
        lua_gc(vm->L, LUA_GCCOLLECT, 0);
    buf_shrink(&vm->scratch, SCRATCH_KEPT_BYTES);
    buf_shrink(&vm->numbers, SCRATCH_KEPT_BYTES);
}

enum rc script_run(struct script_vm *vm, int ref, struct script_run *run, struct err *err)
{
    struct running running = {.vm = vm, .ref = ref};
    size_t from = run->reply->buf.len;
    ASSERT(!vm->host); /* one at a time */
    vm->host = run->host;
    vm->run = run;
    vm->stop = RC_OK;
    vm->err.text[0] = 0;
    vm->proto = 2;
    vm->random = run->random;
    vm->json = json_settings_default();
    run->is_error = false;
    lua_rawgeti(vm->L, LUA_REGISTRYINDEX, vm->runner); /* lua_cpcall() would allocate */
    lua_pushlightuserdata(vm->L, &running);
    int status = lua_pcall(vm->L, 1, 0, 0);
    run->random = vm->random;
    vm->running = vm->L;
    if (status != 0 && vm->stop == RC_OK) { /* outside the script itself: no memory for its words */
        if (!run->reply->failed)
            resp_out_cut(run->reply, from);
        run->is_error = true;
        resp_add_error(run->reply, "ERR", "the script has not enough memory");
    }
    lua_settop(vm->L, 0);
    vm->host = NULL;
    vm->run = NULL;
    vm__collect(vm);
    if (vm->stop == RC_OK)
        return RC_OK;
    return err_set(err, vm->stop, "%s", vm->err.text);
}
