/* What every sink promises, over SQLite and a real MariaDB. The numbers are those of sink.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "contract/support_sink.h"

#include "base/banned.h"

static void create_small(struct sink_fix *fix)
{
    ASSERT_OK(sink_create(fix->sink, &sink_fix_small, &fix->err), &fix->err);
}

/* ---- (2) versions ---- */

static void versions(struct sink_fix *fix)
{
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "one", 10), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|one|#10");
    ASSERT_OK(sink_fix_put(fix, "a", "older", 9), &fix->err);
    ASSERT_OK(sink_fix_put(fix, "a", "equal", 10), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|one|#10");
    ASSERT_OK(sink_fix_put(fix, "a", "newer", 11), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|newer|#11");
    sink_fix_sql(fix, "UPDATE small SET up_version=NULL");
    ASSERT_OK(sink_fix_put(fix, "a", "over null", INT64_MIN), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "a|over null|#-9223372036854775808");
    ASSERT_OK(sink_fix_put(fix, "a", "last", INT64_MAX), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "a|last|#9223372036854775807");
}

TEST(a_row_is_taken_only_if_its_version_is_newer)
{
    sink_fix_each(versions);
}
