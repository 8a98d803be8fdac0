// SPDX-License-Identifier: Apache-2.0
/* scripts.h - the server's side of scripts and functions: what is compiled, and a run of it.
 *
 * Ownership: struct scripts owns both interpreters and everything compiled.
 * Threads: the executor. */
#pragma once

#include "base/dlist.h"
#include "base/table.h"
#include "script/script.h"
#include "server/functions.h"
#include "server/server_int.h"

enum {
    SCRIPT_CACHE_SHARE = 4,             /* of lua-memory: texts of scripts, or of libraries */
    SCRIPT_EVAL_CACHED_MAX = 10000,     /* scripts that came by EVAL; others by bytes alone */
    SCRIPT_RUNS_MAX = 65536,            /* of one call: that many cold rows one after the other */
    SCRIPT_LOG_BYTES_MAX = 1024 * 1024, /* of one run */
};

struct script {        /* a compiled script */
    struct dlink link; /* of those used, the latest last */
    char sha[SHA1_HEX_BYTES + 1];
    int ref;
    unsigned flags; /* enum script_flags */
    size_t bytes;   /* of its text */
    bool is_loaded; /* by SCRIPT LOAD: it goes after the others */
};

struct script_stats { /* of a command that a run has called */
    const struct cmd *cmd;
    uint64_t calls, failed, rejected, usec;
};

struct script_work {     /* the run that is under way */
    struct cmd_ctx *ctx; /* NULL: none */
    bool is_function;
    bool read_only;
    bool wrote;        /* a command that writes was called */
    bool only_deletes; /* and none but those that delete */
    bool is_killed;
    const char *name; /* of the function */
    uint64_t start_ns;
    uint64_t limit_ns; /* 0: none; a library that is loaded is stopped after this */
    struct script_stats *stats;
    size_t stats_count, stats_cap;
    struct buf log; /* level(1) ‖ length(4) ‖ text */
};

struct scripts {
    struct server *server;
    struct script_vm *eval;
    struct sha1 *sha1;
    struct table by_sha; /* of struct script */
    struct dlist used;
    size_t text_bytes, eval_count;
    struct resp_out reply; /* of the command that a script calls */
    struct script_work work;
    struct script_host host;
    struct functions functions;
};

struct scripts *scripts_new(struct server *server);
void scripts_free(struct scripts *scripts); /* NULL is allowed */

/* script_cache.c */
void scripts_loaded(struct scripts *scripts, struct script *script); /* by SCRIPT LOAD */
struct script *scripts_find(struct scripts *scripts, const char sha[SHA1_HEX_BYTES]);
/* Compiles a text that is not there. RC_INVALID. */
enum rc scripts_add(struct scripts *scripts, struct bytes text, const char sha[SHA1_HEX_BYTES],
                    bool is_loaded, struct script **ret_script, struct err *err) NODISCARD;
void scripts_memory_set(struct scripts *scripts); /* lua-memory has changed */
void scripts_flush(struct scripts *scripts);

/* script_run.c */
void server__script_host_init(struct scripts *scripts);
/* Runs a script, or a function, inside the command's commit. What it tells is kept until it has run
 * for the last time. */
struct script_what {
    const struct script *script;  /* NULL: a function */
    const struct script_lib *lib; /* of the function */
    const char *name;
    unsigned flags;
    bool read_only; /* the command says so */
    size_t key_count;
};
enum rc scripts_run(struct cmd_ctx *ctx, const struct script_what *what) NODISCARD;
/* Compiles and runs a library's code, and tells what it logs. */
enum rc scripts_lib_load(struct scripts *scripts, struct bytes code, uint64_t limit_ns,
                         struct script_lib **ret_lib, struct err *err) NODISCARD;

/* cmd/cmd_eval.c */
enum rc script_numkeys_check(struct cmd_ctx *ctx, int64_t count) NODISCARD;
bool script_is_sync_or_async(struct bytes word);

/* busy.c */
/* From time to time while a script runs: after busy-reply-threshold the others are answered. Not
 * RC_OK: it has to end. */
enum rc server__busy_look(struct scripts *scripts, struct err *err) NODISCARD;
void server__busy_end(struct scripts *scripts);
