// SPDX-License-Identifier: Apache-2.0
/* place.c - paths of SQLite files: resolved, checked, written relative to a data directory. */
#include "models/landing/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "models/landing/sink.h"

#include "base/banned.h"

#define FILE_SCHEME "sqlite:"
#define DATA_DIR_MARK "/.//"

static bool goes_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == 0 || at[2] == '/'))
            return true;
    return false;
}

enum rc place_whole(const char *path, char to[PATH_BYTES_MAX], struct err *err)
{
    char full[PATH_BYTES_MAX], cwd[PATH_BYTES_MAX] = "";
    if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
        return err_set(err, RC_INVALID, "could not tell the working directory: %s",
                       strerror(errno));
    int len = snprintf(full, sizeof full, "%s/%s", cwd, path);
    if (len < 0 || (size_t)len >= sizeof full)
        return err_set(err, RC_INVALID, "the path \"%s\" is too long", path);
    /* The longest part that exists, and what is behind it. */
    size_t end = (size_t)len;
    char *real = NULL;
    while (!real) {
        char saved = full[end];
        full[end] = 0;
        real = realpath(end > 0 ? full : "/", NULL);
        full[end] = saved;
        if (!real)
            while (end > 0 && full[--end] != '/')
                ;
    }
    const char *rest = full + end;
    while (*rest == '/')
        rest++;
    bool is_root = strcmp(real, "/") == 0;
    len = snprintf(to, PATH_BYTES_MAX, "%s%s%s", real, *rest && !is_root ? "/" : "", rest);
    free(real);
    if (goes_up(rest) || len < 0 || len >= PATH_BYTES_MAX)
        return err_set(err, RC_INVALID,
                       "the path \"%s\" is too long, or leads through directories "
                       "that do not exist",
                       path);
    return RC_OK;
}

bool place_is_under(const char *dir, const char *path)
{
    size_t len = strlen(dir);
    if (strcmp(dir, "/") == 0)
        return true;
    return strncmp(dir, path, len) == 0 && path[len] == '/' && path[len + 1] != 0;
}

const char *place_path(const struct rule_spec *spec)
{
    size_t len = strlen(FILE_SCHEME);
    return strncmp(spec->sink, FILE_SCHEME, len) == 0 ? spec->sink + len : NULL;
}

/* A path with the mark is in the data directory of now. */
static enum rc path_move(const char *data_dir, const char *given, char to[PATH_BYTES_MAX],
                         struct err *err)
{
    const char *mark = given[0] == '/' ? strstr(given, DATA_DIR_MARK) : NULL;
    int len = mark ? snprintf(to, PATH_BYTES_MAX, "%s/%s", data_dir, mark + strlen(DATA_DIR_MARK))
                   : snprintf(to, PATH_BYTES_MAX, "%s", given);
    return len >= 0 && len < PATH_BYTES_MAX
               ? RC_OK
               : err_set(err, RC_INVALID, "the path \"%s\" is too long", given);
}

enum rc place_resolve(const char *data_dir, struct rule_spec *spec, struct err *err)
{
    char moved[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    const char *given = place_path(spec);
    enum rc rc = path_move(data_dir, spec->password_file, moved, err);
    if (rc == RC_OK)
        rule_password_file_set(spec, moved);
    if (rc != RC_OK || !given)
        return rc;
    rc = path_move(data_dir, given, moved, err);
    if (rc == RC_OK)
        rc = place_whole(moved, path, err);
    if (rc == RC_OK)
        rule_sink_set(spec, FILE_SCHEME, path);
    return rc;
}

enum rc place_word(const char *data_dir, const char *path, char *to, size_t to_bytes,
                   struct err *err)
{
    size_t dir_len = place_is_under(data_dir, path) && data_dir[1] ? strlen(data_dir) : 0;
    int len = snprintf(to, to_bytes, "%.*s%s%s", (int)dir_len, path, dir_len ? DATA_DIR_MARK : "",
                       path + dir_len + (dir_len > 0));
    if (len < 0 || (size_t)len >= to_bytes)
        return err_set(err, RC_INVALID, "the path \"%s\" is too long", path);
    /* A data directory with blanks: its name is not needed, and words of a rule have none. */
    for (char *at = to; at < to + dir_len; at++)
        if (!rule_word_is_plain(bytes_of(at, 1)) && !(*at & 0x80))
            *at = '_';
    if (!rule_word_is_plain(bytes_of(to, (size_t)len)))
        return err_set(err, RC_INVALID,
                       "the path \"%s\" has blanks, quotes or a # in it: a rule cannot keep it",
                       path);
    return RC_OK;
}

/* No file of the store's own ends so: one of them, or one that it is going to make, must not become
 * a database. */
#define CLIENT_SUFFIX ".db"

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static const char *behind_dir(const char *data_dir, const char *path)
{
    return place_is_under(data_dir, path) ? path + strlen(data_dir) + (data_dir[1] != 0) : NULL;
}

enum rc place_check_own(const char *data_dir, const struct rule_spec *spec, struct err *err)
{
    static const char *const own[] = {"engine", "flush", "journal", "lost", "reserve"};
    const char *path = place_path(spec), *name = path ? behind_dir(data_dir, path) : NULL;
    size_t len = name ? strcspn(name, "/") : 0;
    for (size_t i = 0; name && i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i]) == len && memcmp(own[i], name, len) == 0)
            return err_set(err, RC_INVALID, "\"%s\" is in a directory of the store's own", path);
    return RC_OK;
}

enum rc place_check_client(const struct place_limits *limits, const struct rule_spec *spec,
                           struct err *err)
{
    const char *path = place_path(spec);
    char *password, *bare;
    if (!path && sink_url_password(spec->url, &password, &bare)) {
        mem_free(password);
        mem_free(bare);
        return err_set(err, RC_INVALID,
                       "a password in a URL would stand in the journal: write it to a file, and "
                       "name it with password-file");
    }
    if (!path)
        return limits->remote ? RC_OK
                              : err_set(err, RC_INVALID,
                                        "a rule of a remote database stands in the configuration "
                                        "file, or needs a server with land-remote yes");
    if (spec->password_file[0])
        return err_set(err, RC_INVALID, "a SQLite file has no password");
    if (!place_is_under(limits->land_dir, path))
        return err_set(err, RC_INVALID,
                       "a rule of a client lands in a file of \"%s\" (land-dir): \"%s\" is not",
                       limits->land_dir, path);
    const char *name = behind_dir(limits->data_dir, path);
    if (name && (strchr(name, '/') || !ends_in(name, CLIENT_SUFFIX)))
        return err_set(err, RC_INVALID,
                       "a database in the data directory is in none of its directories, and its "
                       "name ends in " CLIENT_SUFFIX);
    return RC_OK;
}

enum rc place_text(const char *data_dir, const struct rule_spec *spec, struct buf *to,
                   struct err *err)
{
    const char *path = place_path(spec);
    if (!path)
        return buf_add_bytes(to, spec->text)
                   ? RC_OK
                   : err_set(err, RC_NOMEM, "could not allocate memory for a rule");
    char url[2 * PATH_BYTES_MAX] = FILE_SCHEME;
    const size_t scheme_len = strlen(FILE_SCHEME);
    enum rc rc = place_word(data_dir, path, url + scheme_len, sizeof url - scheme_len, err);
    if (rc != RC_OK)
        return rc;
    return rule_text_shown(spec, url, to)
               ? RC_OK
               : err_set(err, RC_NOMEM, "could not allocate memory for a rule");
}
