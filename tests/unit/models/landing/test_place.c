// SPDX-License-Identifier: Apache-2.0
/* test_place.c - paths of SQLite files: whole ones, those of a data directory that moves, and what
 * a client may name. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "models/landing/place.h"
#include "test.h"

#include "base/banned.h"

static struct rule_spec *parse(const char *sink, const char *data_dir)
{
    char text[2 * PATH_BYTES_MAX];
    struct rule_spec *spec;
    struct err err = {0};
    snprintf(text, sizeof text, "players slug-data:{*} %s batch 5", sink);
    ASSERT_OK(rule_parse_text(bytes_of(text, strlen(text)), &spec, &err), &err);
    ASSERT_OK(place_resolve(data_dir, spec, &err), &err);
    return spec;
}

static void expect_text(const char *data_dir, const char *sink, const char *stored)
{
    CLEANUP(buf_done) struct buf text;
    char wanted[2 * PATH_BYTES_MAX];
    struct err err = {0};
    struct rule_spec *spec = parse(sink, data_dir);
    buf_init(&text, 2 * PATH_BYTES_MAX);
    ASSERT_OK(place_text(data_dir, spec, &text, &err), &err);
    snprintf(wanted, sizeof wanted, "players slug-data:{*} %s batch 5", stored);
    ASSERT_BYTES(buf_bytes(&text), bytes_of(wanted, strlen(wanted)));
    rule_free(spec);
}

TEST(a_stored_path_keeps_the_data_directory_apart)
{
    expect_text("/no/data", "sqlite:/no/data/x.db", "sqlite:/no/data/.//x.db");
    expect_text("/no/data", "sqlite:/no/data/a/./x.db", "sqlite:/no/data/.//a/./x.db");
    expect_text("/no/data", "sqlite:/no/data2/x.db", "sqlite:/no/data2/x.db");
    expect_text("/no/my data", "sqlite:/elsewhere/.//x.db", "sqlite:/no/my_data/.//x.db");
    expect_text("/no/data", "mysql://me@host/game", "mysql://me@host/game");
}

TEST(a_stored_path_is_found_in_the_data_directory_of_now)
{
    struct rule_spec *spec = parse("sqlite:/then/data/.//sub/x.db", "/now/data");
    ASSERT_STR(place_path(spec), "/now/data/sub/x.db");
    rule_free(spec);
    spec = parse("sqlite:/then/data/x.db", "/now/data");
    ASSERT_STR(place_path(spec), "/then/data/x.db");
    rule_free(spec);
    spec = parse("mysql://me@host/game password-file /then/data/.//p", "/now/data");
    ASSERT_STR(spec->password_file, "/now/data/p");
    ASSERT_TRUE(place_path(spec) == NULL);
    rule_free(spec);
}

TEST(a_whole_path_has_no_links_and_does_not_go_up)
{
    char dir[] = "/tmp/terrace-place-XXXXXX", path[200], link[200], whole[PATH_BYTES_MAX];
    struct err err = {0};
    ASSERT_TRUE(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/real", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    ASSERT_EQ(mkdir(path, 0700), 0);
    ASSERT_EQ(symlink("real", link), 0);
    snprintf(path, sizeof path, "%s/link/../link/x.db", dir);
    ASSERT_OK(place_whole(path, whole, &err), &err);
    snprintf(path, sizeof path, "%s/real/x.db", dir);
    ASSERT_STR(whole, path);
    snprintf(path, sizeof path, "%s/none/../x.db", dir);
    ASSERT_RC(place_whole(path, whole, &err), RC_INVALID);
    ASSERT_OK(place_whole("/", whole, &err), &err);
    ASSERT_STR(whole, "/");
    unlink(link);
    snprintf(path, sizeof path, "%s/real", dir);
    rmdir(path);
    rmdir(dir);
}

static void expect_client(const char *land_dir, bool remote, const char *sink, const char *says)
{
    const struct place_limits limits = {"/no/data", land_dir, remote};
    struct err err = {0};
    struct rule_spec *spec = parse(sink, "/no/data");
    enum rc rc = place_check_client(&limits, spec, &err);
    ASSERT_EQ(rc, says ? RC_INVALID : RC_OK);
    if (says)
        ASSERT_TRUE(strstr(err.text, says) != NULL);
    rule_free(spec);
}

TEST(a_client_names_files_of_its_directory_and_remote_ones_if_it_may)
{
    expect_client("/no/data", false, "sqlite:/no/data/x.db", NULL);
    expect_client("/no/data", false, "sqlite:/no/data/x", "ends in .db");
    expect_client("/no/data", false, "sqlite:/no/data2/x.db", "land-dir");
    expect_client("/no/data", false, "sqlite:/no/data", "land-dir");
    expect_client("/no/sql", false, "sqlite:/no/sql/x", NULL);
    expect_client("/", false, "sqlite:/anywhere/x", NULL);
    expect_client("/no/data", false, "mysql://me@host/game", "land-remote");
    expect_client("/no/data", true, "mysql://me@host/game", NULL);
    expect_client("/no/data", true, "mysql://me:secret@host/game", "password-file");
}
