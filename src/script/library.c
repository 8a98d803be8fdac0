// SPDX-License-Identifier: Apache-2.0
/* library.c - libraries of functions: loading, and calls that begin as the library was loaded.
 *
 * A library that can keep state between calls (library_state.c) has its chunk run again before each
 * call: its functions are made anew, with new upvalues. Others are called as they are. */
#include "script/library.h"

#include <strings.h>

#include "base/mem.h"

#include "base/banned.h"

/* ---- life ---- */

static void functions_forget(struct script_vm *vm, struct script_lib *lib)
{
    for (size_t i = 0; i < lib->function_count; i++) {
        luaL_unref(vm->L, LUA_REGISTRYINDEX, lib->function[i].ref);
        mem_free((void *)lib->function[i].name.ptr);
        mem_free((void *)lib->function[i].text.ptr);
    }
    mem_free(lib->function);
    lib->function = NULL;
    lib->function_count = lib->function_cap = 0;
}

void script_lib_free(struct script_vm *vm, struct script_lib *lib)
{
    if (!lib)
        return;
    functions_forget(vm, lib);
    luaL_unref(vm->L, LUA_REGISTRYINDEX, lib->chunk);
    mem_free((void *)lib->name.ptr);
    mem_free((void *)lib->code.ptr);
    mem_free(lib);
}

static struct bytes copy(struct bytes bytes) /* with a NUL behind it */
{
    uint8_t *to = mem_alloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(to, bytes.ptr, bytes.len);
    to[bytes.len] = 0;
    return bytes_of(to, bytes.len);
}

/* ---- registering ---- */

static int refuse(lua_State *L, const char *text)
{
    vm__error_push(L, text);
    return lua_error(L);
}

static struct script_function *function_find(const struct script_lib *lib, struct bytes name)
{
    for (size_t i = 0; i < lib->function_count; i++)
        if (script_name_eq(lib->function[i].name, name))
            return &lib->function[i];
    return NULL;
}

/* The function on top. What is allocated belongs to the library at once (vm.h (3)). */
static int function_add(lua_State *L, struct bytes name, struct bytes text, unsigned flags)
{
    struct script_lib *lib = vm_of(L)->loading;
    struct err err;
    if (script_name_check(name, &err) != RC_OK)
        return refuse(L, err.text);
    if (function_find(lib, name))
        return refuse(L, "Function already exists in the library");
    if (lib->function_count >= SCRIPT_FUNCTIONS_MAX)
        return refuse(L, "too many functions in a library");
    lib->text_bytes += name.len + text.len;
    if (lib->text_bytes > SCRIPT_TEXT_BYTES_MAX)
        return refuse(L, "names and descriptions of a library are too long");
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    if (lib->function_count == lib->function_cap) {
        lib->function_cap = lib->function_cap ? 2 * lib->function_cap : 4;
        lib->function = mem_realloc(lib->function, lib->function_cap * sizeof *lib->function);
    }
    lib->function[lib->function_count++] =
        (struct script_function){.name = copy(name),
                                 .text = text.ptr ? copy(text) : (struct bytes){0},
                                 .flags = flags,
                                 .ref = ref};
    return 0;
}

/* The list of names on top, which is popped. */
static unsigned flags_read(lua_State *L)
{
    unsigned flags = 0;
    for (int i = 1;; i++) {
        const char *name;
        size_t number = 0;
        unsigned flag;
        lua_rawgeti(L, -1, i);
        if (lua_isnil(L, -1))
            break;
        const char *word = lua_tostring(L, -1);
        while ((flag = script_flag(number, &name)) != 0 && (!word || strcasecmp(name, word) != 0))
            number++;
        if (flag == 0)
            refuse(L, "unknown flag given");
        flags |= flag;
        lua_pop(L, 1);
    }
    lua_pop(L, 2); /* the list as well */
    return flags;
}

static struct bytes text_read(lua_State *L, const char *error)
{
    if (!lua_isstring(L, -1))
        refuse(L, error);
    return vm__bytes(L, -1);
}

/* register_function{function_name = ..., callback = ...}: the table is argument 1. */
static int named_register(lua_State *L)
{
    struct bytes name = {0}, text = {0};
    unsigned flags = 0;
    if (!lua_istable(L, 1))
        return refuse(L, "calling redis.register_function with a single argument is only "
                         "applicable to Lua table (representing named arguments).");
    lua_settop(L, 1);
    lua_pushnil(L); /* 2: the callback; texts are held by the table */
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        if (!lua_isstring(L, -2))
            return refuse(L, "named argument key given to redis.register_function is not a string");
        if (lua_type(L, -2) != LUA_TSTRING) /* a number: lua_next() needs it as it is */
            return refuse(L, "unknown argument given to redis.register_function");
        const char *key = lua_tostring(L, -2);
        if (strcasecmp(key, "function_name") == 0) {
            name = text_read(L, "function_name argument given to redis.register_function must be "
                                "a string");
        } else if (strcasecmp(key, "description") == 0) {
            text = text_read(L, "description argument given to redis.register_function must be a "
                                "string");
        } else if (strcasecmp(key, "callback") == 0) {
            if (!lua_isfunction(L, -1))
                return refuse(L, "callback argument given to redis.register_function must be a "
                                 "function");
            lua_pushvalue(L, -1);
            lua_replace(L, 2);
        } else if (strcasecmp(key, "flags") == 0) {
            if (!lua_istable(L, -1))
                return refuse(L, "flags argument to redis.register_function must be a table "
                                 "representing function flags");
            lua_pushvalue(L, -1);
            flags = flags_read(L);
        } else {
            return refuse(L, "unknown argument given to redis.register_function");
        }
        lua_pop(L, 1);
    }
    if (!name.ptr)
        return refuse(L, "redis.register_function must get a function name argument");
    if (lua_isnil(L, 2))
        return refuse(L, "redis.register_function must get a callback argument");
    lua_pushvalue(L, 2);
    return function_add(L, name, text, flags);
}

int vm__register_function(lua_State *L)
{
    int count = lua_gettop(L);
    if (!vm_of(L)->loading)
        return refuse(L, "redis.register_function can only be called on FUNCTION LOAD command");
    if (count < 1 || count > 2)
        return refuse(L, "wrong number of arguments to redis.register_function");
    if (count == 1)
        return named_register(L);
    if (!lua_isstring(L, 1))
        return refuse(L, "first argument to redis.register_function must be a string");
    struct bytes name = vm__bytes(L, 1);
    if (!lua_isfunction(L, 2))
        return refuse(L, "second argument to redis.register_function must be a function");
    return function_add(L, name, (struct bytes){0}, 0);
}

/* ---- loading ---- */

struct loading { /* under protection */
    struct script_lib *lib;
    struct err *err;
    enum rc rc;
};

/* What the error on top says. */
static const char *error_text(lua_State *L)
{
    if (lua_istable(L, -1)) {
        lua_pushliteral(L, "err");
        lua_rawget(L, -2);
    } else if (lua_isstring(L, -1)) {
        lua_pushfstring(L, "ERR %s", lua_tostring(L, -1));
    }
    const char *text = lua_tostring(L, -1);
    return text ? text : "ERR unknown error";
}

static int chunk_compile(lua_State *L)
{
    struct loading *work = lua_touserdata(L, 1);
    struct bytes code = work->lib->code;
    size_t line = (size_t)((const uint8_t *)memchr(code.ptr, '\n', code.len) - code.ptr);
    if (vm__load(L, bytes_from(code, line), "@user_function") != 0) {
        work->rc =
            err_set(work->err, RC_INVALID, "Error compiling function: %s", lua_tostring(L, -1));
        return 0;
    }
    lua_pushvalue(L, -1);
    work->lib->chunk = luaL_ref(L, LUA_REGISTRYINDEX);
    work->lib->has_state = vm__chunk_sets_upvalues(L);
    work->rc = RC_OK;
    return 0;
}

/* Runs the chunk: functions are registered. Without the error handler: the text alone is told. */
static int chunk_run(lua_State *L)
{
    struct loading *work = lua_touserdata(L, 1);
    struct script_vm *vm = vm_of(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, work->lib->chunk);
    bool failed = lua_pcall(L, 0, 0, 0) != 0;
    vm->running = vm->L;
    if (vm->stop != RC_OK)
        work->rc = err_set(work->err, vm->stop, "%s", vm->err.text);
    else if (failed)
        work->rc = err_set(work->err, RC_INVALID, "Error registering functions: %s", error_text(L));
    else
        work->rc = RC_OK;
    return 0;
}

static enum rc protected_do(struct script_vm *vm, lua_CFunction what, struct loading *work)
{
    int status = lua_cpcall(vm->L, what, work);
    lua_settop(vm->L, 0);
    return status == 0 ? work->rc
                       : err_set(work->err, RC_INVALID, "not enough memory for a library");
}

static enum rc library_run(struct script_vm *vm, const struct script_host *host,
                           struct script_lib *lib, struct err *err)
{
    struct loading work = {.lib = lib, .err = err};
    ASSERT(!vm->host && lib->function_count == 0);
    vm->host = host;
    vm->loading = lib;
    vm->stop = RC_OK;
    vm->err.text[0] = 0;
    vm__globals_for_loading(vm, true);
    enum rc rc = protected_do(vm, chunk_run, &work);
    vm__globals_for_loading(vm, false);
    vm->loading = NULL;
    vm->host = NULL;
    vm->stop = RC_OK;
    return rc;
}

static int state_look(lua_State *L)
{
    struct loading *work = lua_touserdata(L, 1);
    for (size_t i = 0; i < work->lib->function_count && !work->lib->has_state; i++) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, work->lib->function[i].ref);
        work->lib->has_state = vm__function_has_tables(L);
        lua_pop(L, 1);
    }
    work->rc = RC_OK;
    return 0;
}

enum rc script_lib_new(struct script_vm *vm, const struct script_host *host, struct bytes code,
                       struct script_lib **ret_lib, struct err *err)
{
    struct bytes name;
    enum rc rc = script_lib_name(code, &name, err);
    if (rc != RC_OK)
        return rc;
    if (code.len > SCRIPT_TEXT_BYTES_MAX)
        return err_set(err, RC_INVALID, "a library of more than %d bytes",
                       (int)SCRIPT_TEXT_BYTES_MAX);
    vm__collect(vm); /* what was replaced before */
    struct script_lib *lib = mem_zalloc(sizeof *lib);
    struct loading work = {.lib = lib, .err = err};
    lib->name = copy(name);
    lib->code = copy(code);
    lib->chunk = LUA_NOREF;
    rc = protected_do(vm, chunk_compile, &work);
    if (rc == RC_OK)
        rc = library_run(vm, host, lib, err);
    if (rc == RC_OK && lib->function_count == 0)
        rc = err_set(err, RC_INVALID, "No functions registered");
    if (rc == RC_OK)
        rc = protected_do(vm, state_look, &work);
    if (rc != RC_OK) {
        script_lib_free(vm, lib);
        return rc;
    }
    *ret_lib = lib;
    return RC_OK;
}

/* ---- calling ---- */

static enum rc function_run(struct script_vm *vm, const struct script_lib *lib, struct bytes name,
                            struct script_run *run, struct err *err)
{
    const struct script_function *function = function_find(lib, name);
    if (!function) /* it registers by chance */
        return err_set(err, RC_INVALID, "Function not found");
    return script_run(vm, function->ref, run, err);
}

static void log_nothing(void *arg, enum script_log_level level, struct bytes text)
{
    (void)arg;
    (void)level;
    (void)text;
}

enum rc script_lib_run(struct script_vm *vm, const struct script_lib *lib, struct bytes name,
                       struct script_run *run, struct err *err)
{
    if (!lib->has_state)
        return function_run(vm, lib, name, run, err);
    struct script_lib anew = {.chunk = lib->chunk};
    struct script_host host = *run->host;
    host.log = log_nothing; /* what it tells was told when it was loaded */
    enum rc rc = library_run(vm, &host, &anew, err);
    if (rc == RC_OK)
        rc = function_run(vm, &anew, name, run, err);
    functions_forget(vm, &anew);
    return rc;
}
