// SPDX-License-Identifier: Apache-2.0
/* script.h - Lua as Redis has it: a sandboxed interpreter that calls commands of its host.
 *
 * A struct script_vm compiles scripts and libraries of functions, and runs them. It knows nothing
 * of a server: commands go to a struct script_host as words and come back as a reply's bytes. A run
 * ends well (RC_OK: a reply, which may be an error, is written) or is stopped by the host: the host
 * answers a call or a tick with another code, no Lua code runs after that, and script_run() returns
 * it. A run leaves nothing behind that a later one could see (docs/design/0015-scripts.md).
 *
 * Ownership: whoever makes a vm frees it; numbers of compiled chunks (refs) belong to the vm.
 * Threads: one owner. */
#pragma once

#include "base/err.h"
#include "base/sha1.h"
#include "command/resp_out.h"

struct script_vm;

enum {
    SCRIPT_TEXT_BYTES_MAX = 16 * 1024 * 1024,
    SCRIPT_ARGS_MAX = 1024 * 1024,    /* of a call, and of KEYS and ARGV */
    SCRIPT_FUNCTIONS_MAX = 64 * 1024, /* of a library */
};

enum script_log_level { /* as redis.LOG_DEBUG and so on */
                        SCRIPT_LOG_DEBUG,
                        SCRIPT_LOG_VERBOSE,
                        SCRIPT_LOG_NOTICE,
                        SCRIPT_LOG_WARNING
};

enum script_flags { /* of the first line of a script, and of functions */
                    SCRIPT_NO_WRITES = 1,
                    SCRIPT_ALLOW_OOM = 2,
                    SCRIPT_ALLOW_STALE = 4,
                    SCRIPT_NO_CLUSTER = 8,
                    SCRIPT_ALLOW_CROSS_SLOT = 16,
                    SCRIPT_COMPAT = 32, /* there is no such line */
};
/* The flag and its name by number, from 0 on; 0 ends the list. */
unsigned script_flag(size_t number, const char **ret_name);

struct script_host {
    /* Runs a command and gives its reply, as RESP of this protocol, borrowed until the next call.
     * Not RC_OK: stops the run. */
    enum rc (*call)(void *arg, const struct bytes *argv, size_t argc, uint8_t proto,
                    struct bytes *ret_reply, struct err *err);
    /* From time to time. Not RC_OK: stops the run. */
    enum rc (*tick)(void *arg, struct err *err);
    void (*log)(void *arg, enum script_log_level level, struct bytes text);
    bool (*is_command)(void *arg, const struct bytes *argv, size_t argc);
    void *arg;
};

struct script_vm_options {
    size_t memory_bytes_max;
    bool for_functions; /* or for EVAL */
    uint64_t seed;      /* of math.random() */
};
struct script_vm *script_vm_new(const struct script_vm_options *options);
void script_vm_free(struct script_vm *vm); /* NULL is allowed */
size_t script_vm_bytes(const struct script_vm *vm);
void script_vm_memory_set(struct script_vm *vm, size_t bytes_max);

/* ---- scripts ---- */

/* The flags of a script by its first line, and how long that is (without its end). */
enum rc script_shebang(struct bytes text, unsigned *ret_flags, size_t *ret_len,
                       struct err *err) NODISCARD;
/* RC_INVALID: an error of the text; RC_NOMEM. `text` without its first line. */
enum rc script_compile(struct script_vm *vm, struct bytes text, int *ret_ref,
                       struct err *err) NODISCARD;
void script_forget(struct script_vm *vm, int ref);

struct script_run {
    const struct script_host *host;
    const char *name; /* told by errors: the SHA-1 of a script, the name of a function */
    const struct bytes *key;
    size_t key_count;
    const struct bytes *arg;
    size_t arg_count;
    uint64_t random; /* of math.random(); what it has become is written back */
    struct resp_out *reply;
    bool is_error; /* set: the reply is an error */
};
/* RC_OK: the reply is written. Others are those of the host, or RC_NOMEM. */
enum rc script_run(struct script_vm *vm, int ref, struct script_run *run,
                   struct err *err) NODISCARD;
/* Where math.random() begins: of the next run that is not a repetition. */
uint64_t script_random(const struct script_vm *vm);
void script_random_set(struct script_vm *vm, uint64_t state);

/* ---- libraries ---- */

struct script_function {
    struct bytes name; /* owned by the library, with a NUL behind it */
    struct bytes text; /* its description; ptr NULL: none */
    unsigned flags;
    int ref;
};

struct script_lib {
    struct bytes name; /* owned */
    struct bytes code; /* owned: all of it, with the first line */
    struct script_function *function;
    size_t function_count, function_cap;
    /* for library.c */
    size_t text_bytes; /* of names and descriptions */
    int chunk;         /* its compiled code */
    bool has_state;    /* the chunk is run again before each call */
};

/* Compiles and runs a library's code, so that it registers its functions; `host` for ticks and
 * logs. The library's own name is checked; others that are there are the caller's business. */
enum rc script_lib_new(struct script_vm *vm, const struct script_host *host, struct bytes code,
                       struct script_lib **ret_lib, struct err *err) NODISCARD;
void script_lib_free(struct script_vm *vm, struct script_lib *lib); /* NULL is allowed */
/* Names of libraries and functions: letters, digits and _. */
enum rc script_name_check(struct bytes name, struct err *err) NODISCARD;
/* Names of functions are equal whatever the case of their letters. */
uint8_t script_name_lower(uint8_t c);
bool script_name_eq(struct bytes a, struct bytes b);
/* The name that the first line gives, borrowed. */
enum rc script_lib_name(struct bytes code, struct bytes *ret_name, struct err *err) NODISCARD;
enum rc script_lib_run(struct script_vm *vm, const struct script_lib *lib, struct bytes name,
                       struct script_run *run, struct err *err) NODISCARD;
