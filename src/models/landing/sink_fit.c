// SPDX-License-Identifier: Apache-2.0
/* sink_fit.c - invariant (3) of sink.h: a value is stored only if reading it gives the same bytes.
 * Databases do not keep it by themselves: MariaDB in its strictest mode stores '1.5' in an INT as
 * 2, '007' as 7, 'ab ' in a CHAR as 'ab', 'A' in an ENUM('a') as 'a' and 10:00:00.7 in a DATETIME
 * as 10:00:00, all without a warning, and SQLite takes 'abc' for an INTEGER. So each declared type
 * has a rule here for the one way its values are written. */
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "models/landing/sink_int.h"

#include "base/banned.h"

enum { REAL_DIGITS_MAX = 15 }; /* decimal digits that every double keeps */

static enum rc refuse(const struct sink_decl *decl, const char *why, struct err *err)
{
    return err_set(err, RC_INVALID, "column \"%.*s\" (%s): %s", (int)decl->name.len,
                   (const char *)decl->name.ptr, decl->declared, why);
}

/* ---- numbers ---- */

struct number { /* a canonical number: [-]digits[.digits], no zero in front that is not needed */
    bool is_negative;
    struct bytes whole;
    struct bytes fraction; /* ptr NULL: no point */
};

static size_t digits_len(struct bytes text)
{
    size_t len = 0;
    while (len < text.len && text.ptr[len] >= '0' && text.ptr[len] <= '9')
        len++;
    return len;
}

static bool parse_number(struct bytes text, struct number *ret)
{
    bool is_negative = text.len && text.ptr[0] == '-';
    struct bytes rest = bytes_from(text, is_negative);
    struct number number = {.is_negative = is_negative};
    number.whole = bytes_of(rest.ptr, digits_len(rest));
    rest = bytes_from(rest, number.whole.len);
    if (number.whole.len == 0 || (number.whole.len > 1 && number.whole.ptr[0] == '0'))
        return false;
    if (rest.len) {
        if (rest.ptr[0] != '.')
            return false;
        number.fraction = bytes_from(rest, 1);
        if (number.fraction.len == 0 || digits_len(number.fraction) != number.fraction.len)
            return false;
    }
    bool is_zero = number.whole.ptr[0] == '0';
    for (size_t i = 0; i < number.fraction.len; i++)
        is_zero = is_zero && number.fraction.ptr[i] == '0';
    if (is_zero && is_negative)
        return false; /* comes back without its sign */
    *ret = number;
    return true;
}

static bool parse_magnitude(struct bytes digits, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digits.ptr[i] - '0'), &value))
            return false;
    *ret = value;
    return true;
}

bool sink__parse_int(struct bytes text, int64_t *ret_number)
{
    struct number number;
    uint64_t value;
    if (!parse_number(text, &number) || number.fraction.ptr ||
        !parse_magnitude(number.whole, &value) || value > (uint64_t)INT64_MAX + number.is_negative)
        return false;
    *ret_number = number.is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* ZEROFILL: is read with zeros in front, up to the width. */
static bool strip_fill(const struct sink_decl *decl, struct bytes *text)
{
    if (decl->fill_width == 0)
        return true;
    if (text->len < decl->fill_width || digits_len(*text) != text->len)
        return false;
    while (text->len > 1 && text->ptr[0] == '0')
        *text = bytes_from(*text, 1);
    return true;
}

static enum rc fit_int(const struct sink_decl *decl, struct bytes text, struct sink_bound *bound,
                       struct err *err)
{
    struct bytes digits = text;
    struct number number;
    uint64_t value;
    if (!strip_fill(decl, &digits) || !parse_number(digits, &number) || number.fraction.ptr)
        return refuse(decl, "is not a whole number as the column writes it", err);
    if (text.len > digits.len && text.len > decl->fill_width)
        return refuse(decl, "is not a whole number as the column writes it", err);
    bool is_known = parse_magnitude(number.whole, &value);
    if (!is_known || (number.is_negative ? decl->min == 0 || value > 0 - (uint64_t)decl->min
                                         : value > decl->max))
        return refuse(decl, "the number is out of range", err);
    if (value <= INT64_MAX || number.is_negative) {
        bound->bind = SINK_BIND_INT;
        bound->number = number.is_negative ? (int64_t)(0 - value) : (int64_t)value;
    }
    return RC_OK;
}

static enum rc fit_decimal(const struct sink_decl *decl, struct bytes text, struct err *err)
{
    struct number number;
    if (decl->fill_width)
        return refuse(decl, "ZEROFILL is not supported for numbers with a point", err);
    if (!parse_number(text, &number))
        return refuse(decl, "is not a number as the column writes it", err);
    if (decl->is_unsigned && number.is_negative)
        return refuse(decl, "the number is out of range", err);
    if (number.fraction.len != decl->scale)
        return refuse(decl, "has another number of digits after the point", err);
    size_t whole_len = number.whole.ptr[0] == '0' ? 0 : number.whole.len;
    if (whole_len + decl->scale > decl->precision)
        return refuse(decl, "the number is out of range", err);
    return RC_OK;
}

static size_t significant_digits(const struct number *number)
{
    size_t whole_len = number->whole.len, zeros = 0;
    if (number->whole.ptr[0] == '0') {
        while (zeros < number->fraction.len && number->fraction.ptr[zeros] == '0')
            zeros++;
        return number->fraction.len - zeros;
    }
    return whole_len + number->fraction.len;
}

/* Small numbers are written with an exponent sooner or later; where differs between databases. */
static bool is_tiny(const struct number *number)
{
    size_t zeros = 0;
    if (number->whole.ptr[0] != '0')
        return false;
    while (zeros < number->fraction.len && number->fraction.ptr[zeros] == '0')
        zeros++;
    return zeros > 3;
}

static bool ends_in_zero(const struct number *number)
{
    return number->fraction.len && number->fraction.ptr[number->fraction.len - 1] == '0';
}

static enum rc fit_float(const struct sink_decl *decl, struct bytes text, struct err *err)
{
    struct number number;
    if (decl->has_scale) {
        enum rc rc = fit_decimal(decl, text, err);
        if (rc != RC_OK)
            return rc;
    }
    if (!parse_number(text, &number) || is_tiny(&number) ||
        (!decl->has_scale && ends_in_zero(&number)))
        return refuse(decl, "is not a number as the column writes it", err);
    if (decl->is_unsigned && number.is_negative)
        return refuse(decl, "the number is out of range", err);
    if (significant_digits(&number) > decl->digits)
        return refuse(decl, "has more digits than the column keeps", err);
    return RC_OK;
}

/* ---- SQLite's numbers ---- */

static bool is_real(const struct number *number)
{
    return number->fraction.ptr && !is_tiny(number) &&
           significant_digits(number) <= REAL_DIGITS_MAX &&
           (!ends_in_zero(number) || number->fraction.len == 1);
}

/* Whether SQLite's affinity makes a number of it: too many are called so, never too few. */
static bool looks_like_number(struct bytes text)
{
    static const char of_number[] = "0123456789+-.eE \t\n\v\f\r";
    bool has_digit = false;
    for (size_t i = 0; i < text.len; i++) {
        if (!memchr(of_number, text.ptr[i], sizeof of_number - 1))
            return false;
        has_digit = has_digit || (text.ptr[i] >= '0' && text.ptr[i] <= '9');
    }
    if (!has_digit)
        return false;
    const uint8_t *dash = text.len > 1 ? memchr(text.ptr + 1, '-', text.len - 1) : NULL;
    return !dash || dash[-1] == 'e' || dash[-1] == 'E'; /* 2024-01-31 is a text */
}

static enum rc fit_numeric(const struct sink_decl *decl, struct bytes text, struct err *err)
{
    struct number number;
    int64_t value;
    bool is_number = parse_number(text, &number);
    if (is_number && decl->kind == DECL_NUMBER && decl->precision) {
        size_t whole_len = number.whole.ptr[0] == '0' ? 0 : number.whole.len;
        if (whole_len + decl->scale > decl->precision || number.fraction.len > decl->scale)
            return refuse(decl, "the number does not fit", err);
    }
    if (is_number &&
        (sink__parse_int(text, &value) || (is_real(&number) && !(ends_in_zero(&number)))))
        return RC_OK;
    if (is_number || decl->kind == DECL_NUMBER || looks_like_number(text))
        return refuse(decl, "would be stored as another number, or is none", err);
    return RC_OK;
}

static enum rc fit_real(const struct sink_decl *decl, struct bytes text, struct err *err)
{
    struct number number;
    if (!parse_number(text, &number) || !is_real(&number))
        return refuse(decl, "is not a number with a point and at most 15 digits", err);
    return RC_OK;
}

/* ---- times ---- */

static bool take_digits(struct bytes *text, size_t count, unsigned max, unsigned *ret_value)
{
    unsigned value = 0;
    if (text->len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (text->ptr[i] < '0' || text->ptr[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text->ptr[i] - '0');
    }
    *text = bytes_from(*text, count);
    *ret_value = value;
    return value <= max;
}

static bool take_char(struct bytes *text, char c)
{
    if (text->len == 0 || text->ptr[0] != (uint8_t)c)
        return false;
    *text = bytes_from(*text, 1);
    return true;
}

static bool take_date(struct bytes *text)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year, month, day;
    if (!take_digits(text, 4, 9999, &year) || !take_char(text, '-') ||
        !take_digits(text, 2, 12, &month) || !take_char(text, '-') ||
        !take_digits(text, 2, 31, &day) || year < 1 || month < 1 || day < 1)
        return false;
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= days[month - 1] + (month == 2 && is_leap);
}

static bool take_minutes(struct bytes *text, unsigned scale)
{
    unsigned value;
    if (!take_char(text, ':') || !take_digits(text, 2, 59, &value) || !take_char(text, ':') ||
        !take_digits(text, 2, 59, &value))
        return false;
    return scale == 0 || (take_char(text, '.') && take_digits(text, scale, UINT32_MAX, &value));
}

static bool is_time(struct bytes text, unsigned scale)
{
    unsigned hour;
    struct bytes all = text;
    bool is_negative = take_char(&text, '-');
    size_t hour_digits = digits_len(text);
    if (hour_digits < 2 || hour_digits > 3 || (hour_digits == 3 && text.ptr[0] == '0') ||
        !take_digits(&text, hour_digits, 838, &hour) || !take_minutes(&text, scale) || text.len)
        return false;
    for (size_t i = 0; i < all.len; i++)
        if (all.ptr[i] >= '1' && all.ptr[i] <= '9')
            return true;
    return !is_negative; /* -00:00:00 comes back without its sign */
}

static bool is_when(const struct sink_decl *decl, struct bytes text)
{
    unsigned value;
    switch (decl->kind) {
    case DECL_DATE:
        return take_date(&text) && text.len == 0;
    case DECL_DATETIME:
        return take_date(&text) && take_char(&text, ' ') && take_digits(&text, 2, 23, &value) &&
               take_minutes(&text, decl->scale) && text.len == 0;
    case DECL_TIME:
        return is_time(text, decl->scale);
    default:
        return take_digits(&text, 4, 2155, &value) && text.len == 0 && (value == 0 || value > 1900);
    }
}

/* ---- members, text, bytes ---- */

/* Whether text is a member of 'a','b''c', and how many members are before it. */
static bool find_member(const char *members, struct bytes text, size_t *ret_index)
{
    size_t index = 0;
    for (const char *at = members; *at == '\''; index++) {
        size_t matched = 0;
        bool is_same = true;
        for (at++; *at && !(at[0] == '\'' && at[1] != '\''); at++) {
            if (*at == '\'')
                at++; /* the second of two */
            is_same = is_same && matched < text.len && text.ptr[matched] == (uint8_t)*at;
            matched++;
        }
        if (is_same && matched == text.len) {
            *ret_index = index;
            return true;
        }
        at += *at == '\'';
        at += *at == ',';
    }
    return false;
}

static bool is_set(const char *members, struct bytes text)
{
    size_t index, next = 0;
    while (text.len) {
        const uint8_t *comma = memchr(text.ptr, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.ptr) : text.len;
        if (!find_member(members, bytes_of(text.ptr, len), &index) || index < next)
            return false;
        next = index + 1;
        if (comma && len + 1 == text.len)
            return false;
        text = bytes_from(text, len + (comma != NULL));
    }
    return true;
}

static bool is_uuid(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        uint8_t c = text.ptr[i];
        if (is_hyphen ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return text.len == 36;
}

static bool has_nul(struct bytes text)
{
    return text.len && memchr(text.ptr, 0, text.len);
}

static enum rc fit_text(const struct sink_decl *decl, struct bytes text, struct sink_bound *bound,
                        struct err *err)
{
    size_t char_count = utf8_count(text);
    bool is_text = char_count != SIZE_MAX;
    if (!is_text && !decl->takes_bytes)
        return refuse(decl, "the value is not valid UTF-8", err);
    if (decl->takes_bytes && (!is_text || has_nul(text)))
        bound->bind = SINK_BIND_BLOB;
    if (text.len > decl->bytes_max || (is_text && char_count > decl->chars_max) ||
        (!is_text && text.len > decl->chars_max))
        return refuse(decl, "the value is too long", err);
    if (decl->is_padded && text.len && text.ptr[text.len - 1] == ' ')
        return refuse(decl, "spaces at the end of a CHAR are lost", err);
    return RC_OK;
}

static enum rc fit_bytes(const struct sink_decl *decl, struct bytes bytes, struct err *err)
{
    if (bytes.len > decl->bytes_max)
        return refuse(decl, "the value is too long", err);
    if (decl->is_padded && bytes.len != decl->bytes_max)
        return refuse(decl, "the value is not as long as the column", err);
    return RC_OK;
}

static enum rc fit_value(const struct sink_decl *decl, struct bytes text, struct sink_bound *bound,
                         struct err *err)
{
    size_t index;
    bound->bytes = text;
    bound->bind = SINK_BIND_TEXT;
    switch (decl->kind) {
    case DECL_INT:
        return fit_int(decl, text, bound, err);
    case DECL_DECIMAL:
        return fit_decimal(decl, text, err);
    case DECL_FLOAT:
        return fit_float(decl, text, err);
    case DECL_TEXT:
        return fit_text(decl, text, bound, err);
    case DECL_BYTES:
        bound->bind = SINK_BIND_BLOB;
        return fit_bytes(decl, text, err);
    case DECL_DATE:
    case DECL_DATETIME:
    case DECL_TIME:
    case DECL_YEAR:
        return is_when(decl, text) ? RC_OK : refuse(decl, "is not written as the column does", err);
    case DECL_ENUM:
        return find_member(decl->members, text, &index) ? RC_OK
                                                        : refuse(decl, "is not a member", err);
    case DECL_SET:
        return is_set(decl->members, text) ? RC_OK : refuse(decl, "is not a set of members", err);
    case DECL_UUID:
        return is_uuid(text) ? RC_OK : refuse(decl, "is not written as the column does", err);
    case DECL_ANY:
        if (!utf8_is_valid(text) || has_nul(text))
            bound->bind = SINK_BIND_BLOB;
        return RC_OK;
    case DECL_REAL:
        return fit_real(decl, text, err);
    case DECL_NUMERIC:
    case DECL_NUMBER:
        return fit_numeric(decl, text, err);
    case DECL_IMPOSSIBLE:
        break;
    }
    return refuse(decl, "values of this type cannot be landed", err);
}

enum rc sink__fit(const struct sink_decl *decl, const struct sink_cell *cell,
                  struct sink_bound *ret_bound, struct err *err)
{
    switch (cell->kind) {
    case SINK_NULL:
        ret_bound->bind = SINK_BIND_NULL;
        return decl->is_nullable ? RC_OK : refuse(decl, "cannot be NULL", err);
    case SINK_INT: {
        if (decl->kind == DECL_INT && decl->min == INT64_MIN && decl->max == INT64_MAX &&
            !decl->fill_width) {
            ret_bound->bind = SINK_BIND_INT;
            ret_bound->number = cell->number;
            return RC_OK;
        }
        int len =
            snprintf(ret_bound->digits, sizeof ret_bound->digits, "%lld", (long long)cell->number);
        return fit_value(decl, bytes_of(ret_bound->digits, (size_t)len), ret_bound, err);
    }
    case SINK_BYTES:
        break;
    }
    return fit_value(decl, cell->bytes, ret_bound, err);
}

enum rc sink__def_check_version(const struct sink_def *def, const struct sink_table *table,
                                struct err *err)
{
    const struct sink_decl *decl;
    enum rc rc = sink__def_match(def, table, &table->version, 1, &decl, err);
    if (rc != RC_OK)
        return rc;
    if (decl->kind != DECL_INT || decl->max < INT64_MAX)
        return refuse(decl, "a version needs a BIGINT", err);
    return RC_OK;
}
