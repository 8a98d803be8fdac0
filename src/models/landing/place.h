// SPDX-License-Identifier: Apache-2.0
/* place.h - where the file of a rule's SQLite database is.
 *
 * A configuration file and LAND.RULE ADD name it as seen from the working directory. A stored rule
 * is read in another process, perhaps in a copy of the data directory somewhere else, so its text
 * holds a whole path, and one in the data directory keeps apart what is before it:
 *
 *   sqlite:/srv/game/data/.//players.db     the data directory (of then), /.//, the file in it
 *
 * The data directory of now takes the place of the first part. For everybody else it is an ordinary
 * path of the same file.
 *
 * Ownership: callers own what is written to.
 * Threads: any. */
#pragma once

#include "base/limits.h"
#include "models/landing/rule.h"

/* The whole path, without links as far as it exists. RC_INVALID: it is too long, or goes up (..)
 * from a directory that does not exist. */
enum rc place_whole(const char *path, char to[PATH_BYTES_MAX], struct err *err) NODISCARD;
/* Whether a whole path is in a whole directory. */
bool place_is_under(const char *dir, const char *path);
/* NULL: the rule lands in no file. Borrowed. */
const char *place_path(const struct rule_spec *spec);

/* What the rule opens becomes a whole path; data_dir is one. Remote sinks stay as they are. Its
 * password file is found as well if it is in the data directory. */
enum rc place_resolve(const char *data_dir, struct rule_spec *spec, struct err *err) NODISCARD;
/* Whether a client may make this rule, which was resolved: a file of land_dir (a whole path), and a
 * remote database only if that is allowed. RC_INVALID: why not. */
struct place_limits {
    const char *data_dir, *land_dir;
    bool remote;
};
enum rc place_check_client(const struct place_limits *limits, const struct rule_spec *spec,
                           struct err *err) NODISCARD;
/* RC_INVALID: the file would be in a directory that the store makes, and empties, for itself. */
enum rc place_check_own(const char *data_dir, const struct rule_spec *spec,
                        struct err *err) NODISCARD;
/* A path as a word of a stored rule. RC_INVALID: it cannot be one. */
enum rc place_word(const char *data_dir, const char *path, char *to, size_t to_bytes,
                   struct err *err) NODISCARD;
/* The text of the rule as it is stored. RC_INVALID: its path cannot be written in one. */
enum rc place_text(const char *data_dir, const struct rule_spec *spec, struct buf *to,
                   struct err *err) NODISCARD;
