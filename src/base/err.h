// SPDX-License-Identifier: Apache-2.0
/* err.h - the one list of result codes, and an error with its text.
 *
 * Ownership: struct err is a plain value.
 * Threads: any, one err a thread. */
#pragma once

#include "base/macros.h"

#define RC_LIST(X)                                                                              \
    X(RC_OK, 0, "OK", "success")                                                                \
    X(RC_NOT_FOUND, -1, "ERR", "no such row")                                                   \
    X(RC_WRONGTYPE, -2, "WRONGTYPE", "Operation against a key holding the wrong kind of value") \
    X(RC_IO, -3, "ERR", "storage error")                                                        \
    X(RC_NOMEM, -4, "ERR", "out of memory")                                                     \
    X(RC_CORRUPT, -5, "ERR", "stored data is damaged")                                          \
    X(RC_COLD, -6, "ERR", "not in memory; a load has to bring it")                              \
    X(RC_INVALID, -7, "ERR", "invalid argument")                                                \
    X(RC_TOO_BIG, -8, "ERR", "over a limit")                                                    \
    X(RC_FULL, -9, "ERR", "disk reserve reached; only deleting commands run")                   \
    X(RC_READONLY, -10, "READONLY", "the journal cannot be written; reading only")              \
    X(RC_BUSY, -11, "BUSY", "in use")                                                           \
    X(RC_VERSION, -12, "ERR", "unknown format or feature")                                      \
    X(RC_TIMEOUT, -13, "ERR", "deadline passed")                                                \
    X(RC_WAIT, -14, "ERR", "the task waits and runs again")                                     \
    X(RC_REPLY, -15, "", "an error reply with its own prefix")                                  \
    X(RC_NEWER, -16, "ERR", "what is there is newer")

enum rc {
#define X(name, value, prefix, text) name = (value),
    RC_LIST(X)
#undef X
};

enum { ERR_TEXT_BYTES = 512 };

struct err {
    enum rc rc;
    char text[ERR_TEXT_BYTES]; /* NUL-terminated, cut if longer */
};

/* Fills err (NULL is allowed) and returns rc, so that a failing function can end with it. */
enum rc err_set(struct err *err, enum rc rc, const char *format, ...) PRINTF_LIKE(3, 4);
/* Compilers do not see into err.c that this returns what it was given, and would warn of variables
 * left unset on a path where RC_IO is RC_OK. rc is evaluated twice. */
#define err_set(err, rc, ...) ((void)err_set(err, rc, __VA_ARGS__), rc_same(rc))
static inline enum rc rc_same(enum rc rc)
{
    return rc;
}
/* Puts words in front of the text already there. Returns err->rc. */
enum rc err_prefix(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);

const char *rc_name(enum rc rc);   /* "RC_IO" */
const char *rc_prefix(enum rc rc); /* what a Redis error reply starts with */
const char *rc_text(enum rc rc);
