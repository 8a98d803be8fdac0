// SPDX-License-Identifier: Apache-2.0
/* string_lcs.c - the table of the longest common subsequence. */
#include "types/string_lcs.h"

#include "types/string.h"

#include "base/banned.h"

enum { TABLE_BYTES_MAX = STRING_BYTES_MAX };

static uint64_t cell_count(uint64_t a_len, uint64_t b_len)
{
    return (a_len + 1) * (b_len + 1);
}

enum rc lcs_check(uint64_t a_len, uint64_t b_len, struct err *err)
{
    ASSERT(a_len < UINT32_MAX);
    ASSERT(b_len < UINT32_MAX);
    if (cell_count(a_len, b_len) > TABLE_BYTES_MAX / sizeof(uint32_t))
        return err_set(err, RC_INVALID,
                       "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    return RC_OK;
}

static size_t cell(const struct lcs *lcs, size_t i, size_t j)
{
    return i * (lcs->b.len + 1) + j;
}

enum rc lcs_init(struct lcs *lcs, struct arena *arena, struct bytes a, struct bytes b,
                 struct err *err)
{
    enum rc rc = lcs_check(a.len, b.len, err);
    if (rc != RC_OK)
        return rc;
    uint32_t *table = arena_try_alloc(arena, cell_count(a.len, b.len) * sizeof *table);
    if (!table)
        return err_set(err, RC_NOMEM,
                       "Insufficient memory, failed allocating transient memory for LCS");
    *lcs = (struct lcs){.a = a, .b = b, .table = table, .i = a.len, .j = b.len};
    memset(table, 0, (b.len + 1) * sizeof *table);
    for (size_t i = 1; i <= a.len; i++) {
        const uint32_t *above = table + cell(lcs, i - 1, 0);
        uint32_t *row = table + cell(lcs, i, 0);
        row[0] = 0;
        for (size_t j = 1; j <= b.len; j++) {
            if (a.ptr[i - 1] == b.ptr[j - 1])
                row[j] = above[j - 1] + 1;
            else
                row[j] = above[j] > row[j - 1] ? above[j] : row[j - 1];
        }
    }
    return RC_OK;
}

uint32_t lcs_len(const struct lcs *lcs)
{
    return lcs->table[cell(lcs, lcs->a.len, lcs->b.len)];
}

bool lcs_next(struct lcs *lcs, struct lcs_match *ret_match)
{
    size_t i = lcs->i, j = lcs->j, len = 0;
    while (i > 0 && j > 0 && lcs->a.ptr[i - 1] != lcs->b.ptr[j - 1]) {
        /* Where both ways are as long Redis goes this one. */
        if (lcs->table[cell(lcs, i - 1, j)] > lcs->table[cell(lcs, i, j - 1)])
            i--;
        else
            j--;
    }
    for (; i > 0 && j > 0 && lcs->a.ptr[i - 1] == lcs->b.ptr[j - 1]; len++) {
        i--;
        j--;
    }
    lcs->i = i;
    lcs->j = j;
    *ret_match = (struct lcs_match){.a_from = i, .b_from = j, .len = len};
    return len > 0;
}
