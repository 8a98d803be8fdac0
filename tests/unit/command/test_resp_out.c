// SPDX-License-Identifier: Apache-2.0
#include "command/resp_out.h"

#include <math.h>

#include "test.h"

#include "base/banned.h"

enum { TEXT_BYTES_MAX = 4096 };

TEST(replies_are_written_as_redis_writes_them)
{
    struct resp_out out;
    resp_out_init(&out, TEXT_BYTES_MAX);
    resp_add_status(&out, "OK");
    resp_add_error(&out, "ERR", "a\r\nb");
    resp_add_int(&out, INT64_MIN);
    resp_add_bulk(&out, BYTES("x\r\ny"));
    resp_add_text(&out, "");
    resp_add_null(&out);
    resp_add_array(&out, 2);
    ASSERT_FALSE(out.failed);
    ASSERT_BYTES(buf_bytes(&out.buf),
                 BYTES("+OK\r\n-ERR a  b\r\n:-9223372036854775808\r\n$4\r\nx\r\ny\r\n$0\r\n\r\n"
                       "$-1\r\n*2\r\n"));
    resp_out_done(&out);
}

TEST(a_reply_over_its_limit_is_remembered)
{
    struct resp_out out;
    resp_out_init(&out, 16);
    resp_add_bulk(&out, BYTES("0123456789abcdef"));
    ASSERT_TRUE(out.failed);
    resp_out_clear(&out);
    resp_add_status(&out, "OK");
    ASSERT_FALSE(out.failed);
    resp_out_done(&out);
}

TEST(a_page_has_its_cursor_in_front_of_what_was_written_before)
{
    struct resp_out out;
    resp_out_init(&out, TEXT_BYTES_MAX);
    resp_add_status(&out, "OK");
    size_t mark = resp_open(&out);
    resp_add_bulk(&out, BYTES("a"));
    resp_add_bulk(&out, BYTES("b"));
    resp_close_page(&out, mark, INT64_MAX, 2);
    ASSERT_BYTES(buf_bytes(&out.buf), BYTES("+OK\r\n*2\r\n$19\r\n9223372036854775807\r\n"
                                            "*2\r\n$1\r\na\r\n$1\r\nb\r\n"));
    resp_out_done(&out);
}

static void all_kinds(struct resp_out *out)
{
    resp_add_map(out, 1);
    resp_add_set(out, 2);
    resp_add_push(out, 3);
    resp_add_double(out, 1.5);
    resp_add_double(out, -INFINITY);
    resp_add_double(out, 3);
    resp_add_bool(out, true);
    resp_add_verbatim(out, BYTES("v"));
    resp_add_null(out);
    resp_add_null_array(out);
    resp_add_int_text(out, -7);
    resp_add_uint(out, INT64_MAX);
    resp_add_uint(out, UINT64_MAX);
}

TEST(what_resp2_does_not_have_is_written_with_what_it_has)
{
    struct resp_out out;
    resp_out_init(&out, TEXT_BYTES_MAX);
    all_kinds(&out);
    ASSERT_BYTES(buf_bytes(&out.buf),
                 BYTES("*2\r\n*2\r\n*3\r\n$3\r\n1.5\r\n$4\r\n-inf\r\n$1\r\n3\r\n:1\r\n$1\r\nv\r\n"
                       "$-1\r\n*-1\r\n$2\r\n-7\r\n"
                       ":9223372036854775807\r\n$20\r\n18446744073709551615\r\n"));
    resp_out_done(&out);
}

TEST(resp3_has_its_own_types)
{
    struct resp_out out;
    resp_out_init(&out, TEXT_BYTES_MAX);
    out.proto = 3;
    all_kinds(&out);
    ASSERT_BYTES(buf_bytes(&out.buf),
                 BYTES("%1\r\n~2\r\n>3\r\n,1.5\r\n,-inf\r\n,3\r\n#t\r\n=5\r\ntxt:v\r\n"
                       "_\r\n_\r\n$2\r\n-7\r\n"
                       ":9223372036854775807\r\n(18446744073709551615\r\n"));
    resp_out_done(&out);
}

TEST(a_length_may_be_written_last_and_lengths_nest)
{
    struct resp_out out;
    resp_out_init(&out, TEXT_BYTES_MAX);
    resp_add_status(&out, "a");
    size_t outer = resp_open(&out);
    resp_add_int(&out, 1);
    size_t inner = resp_open(&out);
    resp_add_int(&out, 2);
    resp_add_int(&out, 3);
    resp_close_map(&out, inner, 1);
    resp_close_array(&out, outer, 2);
    ASSERT_BYTES(buf_bytes(&out.buf), BYTES("+a\r\n*2\r\n:1\r\n*2\r\n:2\r\n:3\r\n"));
    resp_out_cut(&out, 4);
    ASSERT_BYTES(buf_bytes(&out.buf), BYTES("+a\r\n"));
    resp_out_done(&out);
}
