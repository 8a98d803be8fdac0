// SPDX-License-Identifier: Apache-2.0
/* vm.h - what the files of script/ share.
 *
 *   vm.c          life, memory, hook, compiling, a run    sandbox.c    globals, protected tables
 *   library.c     libraries of functions                  reply.c      replies to values and back
 *   lib_base.c    base functions and coroutines           pattern.c    Lua's patterns, with limits
 *   lib_string.c lib_table.c lib_math.c lib_redis.c lib_bit.c lib_struct.c lib_msgpack.c
 *   lib_json.c json_decode.c
 *
 * Invariants:
 *   (1) With vm->stop set no Lua code runs: whatever catches errors raises them again.
 *   (2) Every table that two runs can reach is protected (sandbox.c).
 *   (3) A function that can raise a Lua error (almost all of Lua's can: for want of memory) owns
 *       nothing while it calls it: what it allocates is the vm's or a Lua value.
 *
 * Threads: one owner. */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script.h"

enum {
    VM_HOOK_COUNT = 10 * 1000,        /* instructions between two looks around */
    VM_WORK_BYTES = 16 * 1024 * 1024, /* allocated, or looked at, between two */
    VM_STRING_BYTES_MAX = 512 * 1024 * 1024,
};

struct json_settings { /* of cjson: json.h */
    int sparse_convert, sparse_ratio, sparse_safe;
    int encode_depth_max, decode_depth_max;
    int encodes_invalid; /* numbers: no, yes, as null */
    int decodes_invalid;
    int precision;
    int keeps_buffer; /* it does not matter */
};

struct script_vm {
    lua_State *L;
    lua_State *running; /* L, or a coroutine */
    bool for_functions;
    size_t bytes, bytes_max;
    size_t work;     /* since the last look around */
    uint64_t random; /* of math.random() */
    struct sha1 *sha1;
    int handler;              /* ref: makes a table of an error */
    int runner;               /* ref: what a run begins with */
    int globals, library_api; /* refs: what global names are while running, and while loading */
    int environment_meta;     /* ref: the metatable of the environment */
    int environment;          /* ref: what scripts have as _G */
    int locked;               /* ref: shown for the metatable of a protected table */
    /* of a run */
    const struct script_host *host; /* NULL: nothing runs */
    struct script_run *run;
    struct script_lib *loading; /* NULL: none is */
    enum rc stop;
    struct err err;
    uint8_t proto;
    struct bytes *argv; /* of a call */
    size_t argv_cap;
    struct buf numbers; /* arguments that are numbers, as text */
    struct buf scratch; /* of libraries: what they write */
    struct json_settings json;
};

static inline struct script_vm *vm_of(lua_State *L)
{
    void *vm;
    (void)lua_getallocf(L, &vm);
    return vm;
}

/* vm.c */
/* Ends the run with this code: raises an error that nothing catches. vm->err has the text. */
int vm__stop(lua_State *L, enum rc rc);
/* So much was done that the hook does not see: it will look around soon. */
void vm__work(lua_State *L, size_t bytes);
/* Inside something long that the hook does not see: looks around now, and may not come back. */
void vm__tick(lua_State *L);
/* luaL_loadbuffer() of text: what is on the stack behind it, and what it returns. */
int vm__load(lua_State *L, struct bytes text, const char *name);
/* Empties the scratch buffer. */
struct buf *vm__scratch(lua_State *L);
/* Pushes what is in it, and raises an error if adding to it failed. */
void vm__scratch_push(lua_State *L, bool good);
_Noreturn void vm__no_memory(lua_State *L);
static inline struct bytes vm__bytes(lua_State *L,
                                     int index) /* of a string; a number becomes one */
{
    size_t len;
    const char *ptr = luaL_checklstring(L, index, &len);
    return bytes_of(ptr, len);
}

/* Runs a function that is on the stack with what is behind it: RC_OK, or why it was stopped. The
 * result is there, or an error and *ret_failed. */
enum rc vm__call(struct script_vm *vm, int arg_count, int result_count, bool *ret_failed);

/* Collects what nobody needs, if much is used. */
void vm__collect(struct script_vm *vm);

/* sandbox.c */
void vm__sandbox_open(lua_State *L); /* may raise: called under protection */
/* The table at this index, if it is protected, is replaced by the real one. */
bool vm__see_through(lua_State *L, int index);
/* Raises an error for a table that is protected. */
void vm__check_writable(lua_State *L, int index);
int vm__readonly(lua_State *L); /* raises */
/* While a library is loaded its global names are few. */
void vm__globals_for_loading(struct script_vm *vm, bool loading);

/* The libraries: each leaves a table on the stack. */
void vm__base_open(lua_State *L); /* adds to the table on top; Lua's own is below it */
void vm__coroutine_open(lua_State *L);
void vm__string_open(lua_State *L); /* the same */
void vm__table_open(lua_State *L);  /* the same */
void vm__math_open(lua_State *L);   /* the same */
void vm__redis_open(lua_State *L, bool loading);
void vm__bit_open(lua_State *L);
void vm__struct_open(lua_State *L);
void vm__msgpack_open(lua_State *L);
void vm__json_open(lua_State *L);

/* reply.c */
/* Pushes what a reply is as a value. Raises an error if it is none. */
void vm__reply_push(lua_State *L, struct bytes reply);
/* Writes the value on top, and pops it. True: it is an error. */
bool vm__reply_write(lua_State *L, struct resp_out *out);
/* Pushes a table {err = text}: with a code in front, or ERR. A '-' in front is not part of it. */
void vm__error_push(lua_State *L, const char *text);

/* library.c */
int vm__register_function(lua_State *L);
