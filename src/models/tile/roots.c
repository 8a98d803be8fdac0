// SPDX-License-Identifier: Apache-2.0
/* roots.c - compares directories of shards by their real paths. */
#include "models/tile/roots.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"

#include "base/banned.h"

_Static_assert(PATH_BYTES_MAX >= PATH_MAX, "realpath() fills as much");

struct root {
    char there[PATH_BYTES_MAX]; /* the deepest directory of the path that exists, resolved */
    char rest[PATH_BYTES_MAX];  /* what is missing below it: "", "a", "a/b" */
};

/* Puts a name before a path. */
static bool rest_prepend(char rest[PATH_BYTES_MAX], const char *name)
{
    char longer[PATH_BYTES_MAX];
    int len = snprintf(longer, sizeof longer, "%s%s%s", name, rest[0] ? "/" : "", rest);
    if (len < 0 || len >= (int)sizeof longer)
        return false;
    memcpy(rest, longer, (size_t)len + 1);
    return true;
}

/* Takes the last name off a path: "/" and "." are left of those that have one name. */
static void last_name_take(char path[PATH_BYTES_MAX], char name[PATH_BYTES_MAX])
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = 0;
    char *slash = strrchr(path, '/');
    char *from = slash ? slash + 1 : path;
    memcpy(name, from, strlen(from) + 1);
    if (slash && slash != path)
        *slash = 0;
    else
        memcpy(path, slash ? "/" : ".", 2);
}

static bool root_resolve(const char *path, struct root *ret_root)
{
    char left[PATH_BYTES_MAX], name[PATH_BYTES_MAX];
    unsigned up = 0; /* names that a ".." behind them takes back */
    if (strlen(path) >= sizeof left)
        return false;
    memcpy(left, path, strlen(path) + 1);
    ret_root->rest[0] = 0;
    while (!realpath(left, ret_root->there)) {
        if (strcmp(left, "/") == 0 || strcmp(left, ".") == 0)
            return false;
        last_name_take(left, name);
        if (strcmp(name, "..") == 0)
            up++;
        else if (up > 0)
            up--;
        else if (strcmp(name, ".") != 0 && !rest_prepend(ret_root->rest, name))
            return false;
    }
    for (; up > 0; up--)
        last_name_take(ret_root->there, name);
    return true;
}

static bool same_dir(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

static bool begins(const char *rest, const char *with)
{
    size_t len = strlen(with);
    return strncmp(rest, with, len) == 0 && (len == 0 || rest[len] == 0 || rest[len] == '/');
}

/* Some directory at or above `inner` is the one that `outer` begins with, and the names below it
 * are those of `outer`. */
static bool is_inside(struct root inner, const struct root *outer)
{
    char name[PATH_BYTES_MAX];
    for (;;) {
        if (same_dir(inner.there, outer->there) && begins(inner.rest, outer->rest))
            return true;
        if (strcmp(inner.there, "/") == 0)
            return false;
        last_name_take(inner.there, name);
        if (!rest_prepend(inner.rest, name))
            return false;
    }
}

bool roots_overlap(const char *a, const char *b)
{
    struct root root_a, root_b;
    return root_resolve(a, &root_a) && root_resolve(b, &root_b) &&
           (is_inside(root_a, &root_b) || is_inside(root_b, &root_a));
}

bool root_absolute(const char *path, char *to)
{
    struct root root;
    if (!root_resolve(path, &root))
        return false;
    bool is_top = strcmp(root.there, "/") == 0;
    int len = snprintf(to, PATH_BYTES_MAX, "%s%s%s", is_top ? "" : root.there,
                       root.rest[0] || is_top ? "/" : "", root.rest);
    return len > 0 && len < PATH_BYTES_MAX;
}

const char *root_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return len > 1 && strncmp(path, above, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}
