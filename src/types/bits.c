// SPDX-License-Identifier: Apache-2.0
/* bits.c - bits of a string: read, set, counted, searched, combined, as fields. */
#include "types/bits.h"

#include "base/codec.h"

#include "base/banned.h"

static uint64_t byte_count(uint64_t bits)
{
    return (bits + 7) / 8;
}

static uint8_t bit_mask(uint64_t at)
{
    return (uint8_t)(0x80u >> (at % 8));
}

/* ---- one bit ---- */

enum rc bits_get(const struct key *key, uint64_t at, bool *ret_bit, struct err *err)
{
    uint64_t len;
    struct bytes byte;
    enum rc rc = string_len(key, &len, err);
    if (rc != RC_OK)
        return rc;
    *ret_bit = false;
    if (at / 8 >= len)
        return RC_OK;
    rc = string_get_run(key, at / 8, at / 8 + 1, &byte, err);
    if (rc == RC_OK)
        *ret_bit = byte.ptr[0] & bit_mask(at);
    return rc;
}

enum rc bits_set(struct key *key, uint64_t at, bool bit, bool *ret_old, bool *ret_changed,
                 struct err *err)
{
    struct string_edit edit;
    uint8_t *byte;
    enum rc rc = string_edit_begin(&edit, key, at / 8 + 1, err);
    if (rc == RC_OK)
        rc = string_edit_at(&edit, at / 8, &byte, err);
    if (rc != RC_OK)
        return rc;
    *ret_old = *byte & bit_mask(at);
    *ret_changed = edit.len > edit.stored_len || *ret_old != bit;
    if (*ret_changed) {
        *byte ^= *ret_old != bit ? bit_mask(at) : 0;
        edit.dirty = true;
    }
    return string_edit_end(&edit, err);
}

/* ---- counting and finding ---- */

static unsigned popcount(uint64_t word)
{
    word -= (word >> 1) & 0x5555555555555555;
    word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)((word * 0x0101010101010101) >> 56);
}

static uint64_t run_count(struct bytes run)
{
    uint64_t count = 0;
    size_t i = 0;
    for (; i + 8 <= run.len; i += 8)
        count += popcount(le64_get(run.ptr + i));
    for (; i < run.len; i++)
        count += popcount(run.ptr[i]);
    return count;
}

enum rc bits_count(const struct key *key, uint64_t from, uint64_t end, uint64_t *ret_count,
                   struct err *err)
{
    uint64_t count = 0, at = from / 8, at_end = byte_count(end);
    ASSERT(from < end);
    while (at < at_end) {
        struct bytes run;
        enum rc rc = string_get_run(key, at, at_end, &run, err);
        if (rc != RC_OK)
            return rc;
        count += run_count(run);
        if (at == from / 8) /* less the bits before the range, */
            count -= popcount(run.ptr[0] >> (8 - from % 8));
        at += run.len;
        if (at == at_end) /* and those behind it */
            count -= popcount(run.ptr[run.len - 1] & ((1u << (8 * at_end - end)) - 1));
    }
    *ret_count = count;
    return RC_OK;
}

/* The first byte that is not `skip`, or run.len. */
static size_t run_skip(struct bytes run, uint8_t skip)
{
    uint64_t word = skip * UINT64_C(0x0101010101010101);
    size_t i = 0;
    while (i + 8 <= run.len && le64_get(run.ptr + i) == word)
        i += 8;
    while (i < run.len && run.ptr[i] == skip)
        i++;
    return i;
}

enum rc bits_find(const struct key *key, bool bit, uint64_t from, uint64_t end, uint64_t *ret_at,
                  struct err *err)
{
    uint8_t flip = bit ? 0 : 0xff; /* a bit that is looked for becomes 1 */
    uint8_t mask = (uint8_t)(0xffu >> (from % 8));
    uint64_t at = from / 8, at_end = byte_count(end);
    ASSERT(from < end);
    while (at < at_end) {
        struct bytes run;
        enum rc rc = string_get_run(key, at, at_end, &run, err);
        if (rc != RC_OK)
            return rc;
        size_t i = 0;
        uint8_t byte = (run.ptr[0] ^ flip) & mask;
        if (!byte) {
            i = 1 + run_skip(bytes_from(run, 1), flip);
            byte = i < run.len ? run.ptr[i] ^ flip : 0;
        }
        if (byte) {
            *ret_at = 8 * (at + i) + (uint64_t)__builtin_clz((unsigned)byte << 24);
            return *ret_at < end ? RC_OK : RC_NOT_FOUND;
        }
        at += run.len;
        mask = 0xff;
    }
    return RC_NOT_FOUND;
}

/* ---- combining ---- */

static uint64_t word_combine(enum bits_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case BITS_AND:
        return a & b;
    case BITS_OR:
        return a | b;
    case BITS_XOR:
        return a ^ b;
    case BITS_NOT:
        return ~b;
    }
    ASSERT(false);
}

static void run_combine(enum bits_op op, uint8_t *to, struct bytes run)
{
    size_t i = 0;
    for (; i + 8 <= run.len; i += 8)
        le64_put(to + i, word_combine(op, le64_get(to + i), le64_get(run.ptr + i)));
    for (; i < run.len; i++)
        to[i] = (uint8_t)word_combine(op, to[i], run.ptr[i]);
}

/* Bytes from..end of the result. */
static enum rc source_combine(enum bits_op op, uint8_t *to, uint64_t from, uint64_t end,
                              const struct key *source, struct err *err)
{
    uint64_t len = 0, at = from;
    enum rc rc = string_len(source, &len, err);
    if (len > end)
        len = end;
    while (rc == RC_OK && at < len) {
        struct bytes run;
        rc = string_get_run(source, at, len, &run, err);
        if (rc != RC_OK)
            break;
        run_combine(op, to + (at - from), run);
        at += run.len;
    }
    if (rc == RC_OK && op == BITS_AND && at < end)
        memset(to + (at - from), 0, end - at);
    return rc;
}

enum rc bits_combined_len(const struct key *source, size_t count, uint64_t *ret_len,
                          struct err *err)
{
    *ret_len = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t len;
        enum rc rc = string_len(&source[i], &len, err);
        if (rc != RC_OK)
            return rc;
        *ret_len = len > *ret_len ? len : *ret_len;
    }
    return RC_OK;
}

enum rc bits_combine(const struct run *run, enum bits_op op, const struct key *source, size_t count,
                     uint64_t from, uint64_t end, struct bytes *ret_result, struct err *err)
{
    bool cold = false;
    ASSERT(op != BITS_NOT || count == 1);
    ASSERT(from <= end);
    uint8_t *result = arena_try_alloc(run->arena, end - from);
    if (!result)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value",
                       (size_t)(end - from));
    memset(result, 0, end - from);
    for (size_t i = 0; i < count; i++) {
        enum bits_op with = i == 0 && op != BITS_NOT ? BITS_OR : op; /* the first meets zeros */
        enum rc rc = source_combine(with, result, from, end, &source[i], err);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD; /* the others are asked for as well */
    }
    *ret_result = bytes_of(result, end - from);
    return cold ? RC_COLD : RC_OK;
}

/* ---- fields ---- */

struct part { /* the bits of a field in one byte */
    uint64_t byte;
    unsigned shift; /* bits of the byte below them */
    unsigned mask;  /* over them, shifted down */
    unsigned rest;  /* bits of the field below them */
};

/* The part at bit `*at`, which moves behind it. */
static struct part part_next(const struct bits_field *field, uint64_t *at)
{
    uint64_t end = field->at + field->bits, stop = (*at | 7) + 1;
    if (stop > end)
        stop = end;
    struct part part = {.byte = *at / 8,
                        .shift = (unsigned)(7 - (stop - 1) % 8),
                        .mask = (1u << (stop - *at)) - 1,
                        .rest = (unsigned)(end - stop)};
    *at = stop;
    return part;
}

/* Bits past the end of the string are zeros. */
static enum rc field_get(struct string_edit *edit, const struct bits_field *field,
                         uint64_t *ret_value, struct err *err)
{
    *ret_value = 0;
    for (uint64_t at = field->at; at < field->at + field->bits;) {
        struct part part = part_next(field, &at);
        uint8_t *byte;
        if (part.byte >= edit->len)
            break;
        enum rc rc = string_edit_at(edit, part.byte, &byte, err);
        if (rc != RC_OK)
            return rc;
        *ret_value |= (uint64_t)((*byte >> part.shift) & part.mask) << part.rest;
    }
    return RC_OK;
}

static enum rc field_put(struct string_edit *edit, const struct bits_field *field, uint64_t value,
                         struct err *err)
{
    for (uint64_t at = field->at; at < field->at + field->bits;) {
        struct part part = part_next(field, &at);
        uint8_t *byte;
        enum rc rc = string_edit_at(edit, part.byte, &byte, err);
        if (rc != RC_OK)
            return rc;
        unsigned bits = (unsigned)(value >> part.rest) & part.mask;
        *byte = (uint8_t)((*byte & ~(part.mask << part.shift)) | bits << part.shift);
        edit->dirty = true;
    }
    return RC_OK;
}

/* The low bits of a field as the number they are. */
static uint64_t field_number(const struct bits_field *field, uint64_t value)
{
    unsigned unused = 64 - field->bits;
    value <<= unused;
    return field->is_signed ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

static uint64_t field_max(const struct bits_field *field)
{
    return UINT64_MAX >> (64 - field->bits) >> field->is_signed;
}

/* 1: the sum is above what the field can hold, -1: below, 0: it fits. */
static int sum_overflows(const struct bits_field *field, uint64_t value, int64_t delta)
{
    int64_t max = (int64_t)field_max(field);
    if (!field->is_signed) {
        if (value > (uint64_t)max || delta > max - (int64_t)value)
            return 1;
        return delta < -(int64_t)value ? -1 : 0;
    }
    int64_t number = (int64_t)value, min = -max - 1, sum;
    if (field->bits == BITS_FIELD_BITS_MAX)
        return __builtin_add_overflow(number, delta, &sum) ? (delta > 0 ? 1 : -1) : 0;
    /* Far below the minimum this wraps round, and Redis says that the number is too large. */
    int64_t room = (int64_t)((uint64_t)max - value);
    if (number > max || delta > room)
        return 1;
    return number < min || delta < min - number ? -1 : 0;
}

/* False: it does not fit, and nothing is to be changed. */
static bool field_next(const struct bits_field *field, uint64_t old, uint64_t *ret_new)
{
    bool adds = field->op == BITS_FIELD_ADD;
    uint64_t value = adds ? old : (uint64_t)field->value;
    int64_t delta = adds ? field->value : 0;
    int overflow = sum_overflows(field, value, delta);
    *ret_new = field_number(field, value + (uint64_t)delta);
    if (overflow && field->overflow == BITS_SATURATE) {
        uint64_t max = field_max(field), min = field->is_signed ? ~max : 0;
        *ret_new = overflow > 0 ? max : min;
    }
    return !overflow || field->overflow != BITS_FAIL;
}

static enum rc field_run(struct string_edit *edit, struct bits_field *field, bool *changed,
                         struct err *err)
{
    uint64_t old, new;
    enum rc rc = field_get(edit, field, &old, err);
    if (rc != RC_OK)
        return rc;
    old = field_number(field, old);
    field->failed = false;
    field->result = (int64_t)old;
    if (field->op == BITS_FIELD_GET)
        return RC_OK;
    field->failed = !field_next(field, old, &new);
    if (field->failed)
        return RC_OK;
    if (field->op == BITS_FIELD_ADD)
        field->result = (int64_t) new;
    if (old == new)
        return RC_OK;
    *changed = true;
    return field_put(edit, field, new, err);
}

enum rc bits_fields_run(struct key *key, struct bits_field *field, size_t count, bool *ret_changed,
                        struct err *err)
{
    struct string_edit edit;
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++)
        if (field[i].op != BITS_FIELD_GET && field[i].at + field[i].bits > end)
            end = field[i].at + field[i].bits;
    enum rc rc = string_edit_begin(&edit, key, byte_count(end), err);
    if (rc != RC_OK)
        return rc;
    *ret_changed = edit.len > edit.stored_len;
    for (size_t i = 0; i < count; i++) {
        rc = field_run(&edit, &field[i], ret_changed, err);
        for (; rc == RC_COLD && i < count; i++) /* asked for all at once */
            string_edit_want(&edit, field[i].at / 8, byte_count(field[i].at + field[i].bits));
        if (rc != RC_OK)
            return rc;
    }
    return string_edit_end(&edit, err);
}
