// SPDX-License-Identifier: Apache-2.0
#include "types/pack.h"

#include "base/codec.h"
#include "base/rand.h"
#include "test.h"
#include "types/number.h"

#include "base/banned.h"

enum { ROW_BYTES_MAX = 64 };

struct row {
    uint8_t suffix_bytes[ROW_BYTES_MAX], value_bytes[ROW_BYTES_MAX];
    struct bytes suffix, value;
};

static const struct store_space space = {.pack = data_pack, .unpack = data_unpack};

/* Packs and unpacks; returns the packed length. */
static size_t packed_len(struct bytes suffix, struct bytes value)
{
    CLEANUP(buf_done) struct buf packed;
    CLEANUP(buf_done) struct buf again;
    struct bytes form, back;
    buf_init(&packed, 1024);
    buf_init(&again, 1024);
    ASSERT_TRUE(space_pack(&space, BYTES("group"), suffix, value, &packed, &form));
    ASSERT_TRUE(space_unpack(&space, BYTES("group"), suffix, form, &again, &back));
    ASSERT_BYTES(back, value);
    return form.len;
}

static struct bytes score_row(struct row *row, double score, const char *member)
{
    row->suffix_bytes[0] = 0x01;
    be64_put(row->suffix_bytes + 1, order_from_double(score));
    memcpy(row->suffix_bytes + 9, member, strlen(member));
    return row->suffix = bytes_of(row->suffix_bytes, 9 + strlen(member));
}

static struct bytes score_text(struct row *row, double score)
{
    size_t len = number_double_text((char *)row->value_bytes, score);
    return row->value = bytes_of(row->value_bytes, len);
}

static const double scores[] = {0,     1,      -1,      1700000000,           0.1,  -0.5,
                                1e300, 5e-324, 1.0 / 3, 123456789012345678.0, 1e17, 3.5};

TEST(the_value_of_a_score_row_is_left_out)
{
    struct row row;
    for (size_t i = 0; i < ARRAY_LEN(scores); i++) {
        ASSERT_EQ(packed_len(score_row(&row, scores[i], "m"), score_text(&row, scores[i])), 0);
        ASSERT_EQ(packed_len(score_row(&row, scores[i], ""), score_text(&row, scores[i])), 0);
    }
    ASSERT_EQ(packed_len(score_row(&row, __builtin_inf(), "m"), BYTES("inf")), 0);
    ASSERT_EQ(packed_len(score_row(&row, -__builtin_inf(), "m"), BYTES("-inf")), 0);
}

TEST(the_value_of_a_set_row_is_left_out)
{
    ASSERT_EQ(packed_len(BYTES("member"), BYTES("member")), 0);
    ASSERT_EQ(packed_len(BYTES(""), BYTES("")), 0);
    ASSERT_EQ(packed_len(BYTES("\0x"), BYTES("\0x")), 0);
    ASSERT_EQ(packed_len(BYTES("\1x"), BYTES("\1x")), 0);
    ASSERT_EQ(packed_len(BYTES("\1looks like a score"), BYTES("\1looks like a score")), 1);
}

TEST(the_score_of_a_member_row_is_a_number)
{
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("7")), 1);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("12")), 2);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("127")), 2);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("-128")), 2);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("1000000")), 4);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("1700000000")), 5);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("0.10000000000000001")), 9);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("-1.7976931348623157e+308")), 9);
}

TEST(other_values_have_not_a_byte_more)
{
    ASSERT_EQ(packed_len(BYTES("field"), BYTES("value")), 5);
    ASSERT_EQ(packed_len(BYTES("field"), BYTES("1000000")), 7);
    ASSERT_EQ(packed_len(BYTES("\0field"), BYTES("value")), 5);
    ASSERT_EQ(packed_len(BYTES("\1field of a hash"), BYTES("value")), 5);
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("0.1000000000000000")),
              18); /* not how 0.1 is written */
    ASSERT_EQ(packed_len(BYTES("\0m"), BYTES("00000000000000000001")), 20);
}

TEST(what_looks_packed_is_kept_with_an_escape)
{
    const struct bytes suffix[] = {BYTES("field"), BYTES("\0m"), BYTES("\1looks like a score")};
    for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
        ASSERT_EQ(packed_len(suffix[i], BYTES("")), 1);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf4")), 1);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf5")), 2);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf6\1")), 3);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf7"
                                              "12345678")),
                  10);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf8\xf8")), 3);
        ASSERT_EQ(packed_len(suffix[i], BYTES("\xf9")), 1);
    }
}

TEST(eight_bytes_that_are_no_score_have_a_text_as_well)
{
    struct row row;
    const uint64_t codes[] = {0, UINT64_MAX, UINT64_C(0x7fffffffffffffff),
                              UINT64_C(0xfff8000000000000), UINT64_C(0x0007ffffffffffff)};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        row.suffix_bytes[0] = 0x01;
        be64_put(row.suffix_bytes + 1, codes[i]);
        struct bytes suffix = bytes_of(row.suffix_bytes, 9);
        ASSERT_EQ(packed_len(suffix, score_text(&row, order_to_double(codes[i]))), 0);
        ASSERT_EQ(packed_len(suffix, BYTES("nan?")), 4);
    }
}

TEST(a_packed_score_is_read_without_its_text)
{
    struct row row;
    for (size_t i = 0; i < ARRAY_LEN(scores); i++) {
        CLEANUP(buf_done) struct buf packed;
        double score = 0;
        buf_init(&packed, 64);
        struct bytes form;
        ASSERT_TRUE(space_pack(&space, BYTES(""), BYTES("\0m"), score_text(&row, scores[i]),
                               &packed, &form));
        ASSERT_TRUE(data_packed_score(form, &score));
        ASSERT_TRUE(score == scores[i]);
        ASSERT_TRUE(data_packed_score(row.value, &score)); /* the text itself */
        ASSERT_TRUE(score == scores[i]);
    }
    double score;
    ASSERT_FALSE(data_packed_score(BYTES(""), &score));
    ASSERT_FALSE(data_packed_score(BYTES("abc"), &score));
}

/* ---- every value comes back ---- */

static struct bytes random_suffix(struct rand *rand, struct row *row)
{
    size_t len = rand_below(rand, 20);
    rand_bytes(rand, row->suffix_bytes, sizeof row->suffix_bytes);
    if (len > 0 && rand_below(rand, 4) > 0)
        row->suffix_bytes[0] = (uint8_t)rand_below(rand, 3);
    if (rand_below(rand, 2))
        be64_put(row->suffix_bytes + 1,
                 order_from_double(scores[rand_below(rand, ARRAY_LEN(scores))]));
    return row->suffix = bytes_of(row->suffix_bytes, len);
}

static struct bytes random_value(struct rand *rand, struct row *row)
{
    size_t len = rand_below(rand, 26);
    rand_bytes(rand, row->value_bytes, sizeof row->value_bytes);
    switch (rand_below(rand, 6)) {
    case 0: /* like a packed one */
        row->value_bytes[0] = (uint8_t)(0xf4 + rand_below(rand, 6));
        break;
    case 1: /* like its suffix */
        return row->value = row->suffix;
    case 2: /* like its score */
        if (row->suffix.len >= 9)
            return score_text(row, order_to_double(be64_get(row->suffix.ptr + 1)));
        break;
    case 3: /* like a score, perhaps with other digits */
        len = score_text(row, scores[rand_below(rand, ARRAY_LEN(scores))]).len;
        row->value_bytes[rand_below(rand, len)] = (uint8_t)('0' + rand_below(rand, 10));
        break;
    case 4: /* like a number */
        for (size_t i = 0; i < len; i++)
            row->value_bytes[i] = (uint8_t) "0123456789-+.einf"[rand_below(rand, 17)];
        break;
    }
    return row->value = bytes_of(row->value_bytes, len);
}

TEST(every_value_comes_back_as_it_was)
{
    struct rand rand;
    struct row row;
    rand_init_seed(&rand, 7);
    for (int i = 0; i < (test_is_long() ? 10000000 : 200000); i++) {
        random_suffix(&rand, &row);
        random_value(&rand, &row);
        ASSERT_LE(packed_len(row.suffix, row.value), row.value.len + 1);
    }
}
