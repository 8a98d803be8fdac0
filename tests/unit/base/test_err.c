// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include "test.h"

#include "base/banned.h"

TEST(err_set_fills_code_and_text_and_returns_the_code)
{
    struct err err = {0};
    ASSERT_RC(err_set(&err, RC_IO, "could not open \"%s\"", "x"), RC_IO);
    ASSERT_EQ(err.rc, RC_IO);
    ASSERT_STR(err.text, "could not open \"x\"");
}

TEST(err_set_without_an_err_still_returns_the_code)
{
    ASSERT_RC(err_set(NULL, RC_FULL, "nobody reads this"), RC_FULL);
}

TEST(err_set_may_quote_its_own_text)
{
    struct err err = {0};
    err_set(&err, RC_IO, "inner");
    err_set(&err, RC_CORRUPT, "outer (%s)", err.text);
    ASSERT_STR(err.text, "outer (inner)");
}

TEST(err_text_is_cut_at_its_limit)
{
    struct err err = {0};
    char text[2 * ERR_TEXT_BYTES];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    err_set(&err, RC_IO, "%s", text);
    ASSERT_EQ(strlen(err.text), ERR_TEXT_BYTES - 1);
    err_prefix(&err, "%s", "bb");
    ASSERT_EQ(strlen(err.text), ERR_TEXT_BYTES - 1);
    ASSERT_TRUE(strncmp(err.text, "bba", 3) == 0);
    err_prefix(&err, "%s", text);
    ASSERT_EQ(strlen(err.text), ERR_TEXT_BYTES - 1);
    ASSERT_EQ(strspn(err.text, "a"), ERR_TEXT_BYTES - 1);
}

TEST(err_prefix_stands_before_the_text_and_keeps_the_code)
{
    struct err err = {0};
    err_set(&err, RC_BUSY, "held by another process");
    ASSERT_RC(err_prefix(&err, "could not open %d: ", 7), RC_BUSY);
    ASSERT_STR(err.text, "could not open 7: held by another process");
}

TEST(every_code_has_a_name_a_prefix_and_a_text)
{
    ASSERT_STR(rc_name(RC_NOT_FOUND), "RC_NOT_FOUND");
    ASSERT_STR(rc_prefix(RC_WRONGTYPE), "WRONGTYPE");
    ASSERT_STR(rc_text(RC_OK), "success");
    ASSERT_STR(rc_name((enum rc)77), "RC_UNKNOWN");
    ASSERT_STR(rc_prefix((enum rc)77), "ERR");
}

TEST(a_failed_assertion_aborts)
{
    ASSERT_ABORTS(ASSERT(1 == 2));
}
