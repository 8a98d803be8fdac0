// SPDX-License-Identifier: Apache-2.0
/* functions.h - libraries of functions: rows of the store, and what is compiled of them.
 *
 * Invariants:
 *   (1) The rows are the truth. The set of compiled libraries is a cache of them: it is right while
 *       its stamp is that of the row, and functions_refresh() makes it right. So a commit or a turn
 *       that is taken back, a crash and a start need nothing of their own.
 *   (2) Whoever changes a row draws a new stamp in the same commit (functions_changed()). Without
 *       a stamp there is no library.
 *   (3) The set changes when all rows of a command are written: a command that fails leaves it.
 *   (4) No two libraries of a set have a function of one name.
 *
 * Ownership: struct functions owns the interpreter and the set; a set owns its libraries.
 * Threads: the executor. */
#pragma once

#include "base/table.h"
#include "script/script.h"
#include "server/cmd.h"

enum { FUNCTIONS_STAMP_BYTES = 16 };

struct library;
struct function {
    struct library *library;
    const struct script_function *is; /* of the library */
};

struct library {
    struct script_lib *lib;  /* NULL: it could not be loaded */
    struct bytes name, code; /* lib's, or its own */
    char *why;               /* it could not be loaded */
    struct function *function;
    size_t function_count;
    size_t bytes; /* code, names and descriptions */
};

struct library_set {
    struct library **at; /* by name */
    size_t count, cap;
    struct table by_function; /* of struct function */
    size_t bytes;
    size_t broken_count; /* libraries that could not be loaded */
};

struct scripts;
struct functions {
    struct scripts *scripts;
    struct script_vm *vm;
    struct library_set set;
    bool is_known; /* the stamp is one that was read or drawn */
    bool has_stamp;
    uint8_t stamp[FUNCTIONS_STAMP_BYTES];
    uint32_t prefix;
};

/* library_set.c */
void library_set_init(struct library_set *set);
void library_set_done(struct library_set *set, struct script_vm *vm);
struct library *library_new(struct script_lib *lib); /* takes */
struct library *library_new_broken(struct bytes name, struct bytes code, const char *why);
void library_free(struct library *library, struct script_vm *vm); /* NULL is allowed */
struct library *library_find(const struct library_set *set, struct bytes name); /* NULL: none */
const struct function *library_function(const struct library_set *set, struct bytes name);
/* Which of its functions another library has, but for `except` (may be NULL); NULL: none. */
const struct function *library_clash(const struct library_set *set, const struct library *library,
                                     const struct library *except);
/* Takes a library that clashes with none, and whose name is free. */
void library_add(struct library_set *set, struct library *library);
void library_take_out(struct library_set *set, struct library *library); /* the caller's again */

/* functions.c */
enum rc functions_open(struct functions *functions, struct scripts *scripts,
                       struct err *err) NODISCARD;
void functions_done(struct functions *functions);
void functions_memory_set(struct functions *functions, size_t bytes_max);
/* (1) RC_COLD: rows are not in memory. */
enum rc functions_refresh(struct cmd_ctx *ctx) NODISCARD;
/* Compiles a library; its logs are told. RC_INVALID. */
enum rc functions_load(struct functions *functions, struct bytes code, uint64_t limit_ns,
                       struct library **ret_library, struct err *err) NODISCARD;
enum rc functions_row_put(struct functions *functions, struct cmd_ctx *ctx,
                          const struct library *library) NODISCARD;
enum rc functions_row_delete(struct functions *functions, struct cmd_ctx *ctx,
                             const struct library *library) NODISCARD;
/* All of them, and the stamp. */
enum rc functions_rows_drop(struct functions *functions, struct cmd_ctx *ctx) NODISCARD;
/* The same with an empty set and a new interpreter: nothing of what they held is left. */
enum rc functions_flush(struct functions *functions, struct cmd_ctx *ctx) NODISCARD;
/* (2), and the set is taken for what the rows are: the last thing of a command that can fail. */
enum rc functions_changed(struct functions *functions, struct cmd_ctx *ctx) NODISCARD;
/* cmd/cmd_function.c: for busy.c, too. */
void functions_stats_reply(struct scripts *scripts, struct resp_out *reply);
