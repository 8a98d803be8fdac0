// SPDX-License-Identifier: Apache-2.0
/* text.c - numbers, times and strings of JSON rows, without a JSON library. */
#include "models/partition/text.h"

#include "base/banned.h"

enum { MS_A_DAY = 86400000, SECONDS_A_DAY = 86400 };

/* ---- numbers ---- */

uint8_t *text_put_u64(uint8_t *to, uint64_t value)
{
    uint8_t digits[TEXT_NUMBER_BYTES];
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(to, digits + at, sizeof digits - at);
    return to + sizeof digits - at;
}

uint8_t *text_put_u128(uint8_t *to, text_u128 value)
{
    uint8_t digits[TEXT_NUMBER_BYTES];
    size_t at = sizeof digits;
    if (LIKELY(value <= UINT64_MAX))
        return text_put_u64(to, (uint64_t)value);
    do {
        digits[--at] = (uint8_t)('0' + (unsigned)(value % 10));
        value /= 10;
    } while (value > 0);
    memcpy(to, digits + at, sizeof digits - at);
    return to + sizeof digits - at;
}

/* One or more digits, without leading zeros. */
text_u128 text_get_u128(struct text *text)
{
    enum { DIGITS_SAFE = 19 }; /* of 64 bits */
    text_u128 value = 0;
    const uint8_t *start = text->at;
    const uint8_t *end = text->end - start > DIGITS_SAFE ? start + DIGITS_SAFE : text->end;
    uint64_t small = 0;
    while (text->at < end && *text->at >= '0' && *text->at <= '9')
        small = small * 10 + (*text->at++ - '0');
    value = small;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        text_u128 next = value * 10 + (*text->at - '0');
        text->bad = text->bad || next / 10 != value;
        value = next;
        text->at++;
    }
    text->bad = text->bad || text->at == start || (text->at - start > 1 && *start == '0');
    return text->bad ? 0 : value;
}

uint64_t text_get_u64(struct text *text)
{
    uint64_t value = 0;
    const uint8_t *start = text->at;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text->at - '0'), &value))
            text->bad = true;
        text->at++;
    }
    text->bad = text->bad || text->at == start || (text->at - start > 1 && *start == '0');
    return text->bad ? 0 : value;
}

int64_t text_get_i64(struct text *text)
{
    uint64_t value = text_get_u64(text);
    text->bad = text->bad || value > INT64_MAX;
    return text->bad ? 0 : (int64_t)value;
}

void text_put_id(uint8_t to[TEXT_ID_BYTES], int64_t id)
{
    for (size_t i = TEXT_ID_BYTES; i-- > 0; id /= 10)
        to[i] = (uint8_t)('0' + id % 10);
}

bool text_id_read(struct bytes text, int64_t *ret_id)
{
    uint64_t value = 0;
    if (text.len != TEXT_ID_BYTES)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (text.ptr[i] - '0'); /* 19 digits fit 64 bits */
    }
    *ret_id = (int64_t)value;
    return value <= INT64_MAX;
}

/* ---- times ---- */

struct date {
    unsigned year, month, day;
};

/* Of days since 1970: years that begin in March, in eras of 400 of them. */
static struct date date_of(int64_t days)
{
    uint64_t shifted = (uint64_t)days + 719468;
    uint64_t era = shifted / 146097, day_of_era = shifted % 146097;
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month = (5 * day_of_year + 2) / 153;
    struct date date = {.day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1),
                        .month = (unsigned)(month < 10 ? month + 3 : month - 9)};
    date.year = (unsigned)(year_of_era + era * 400 + (date.month <= 2));
    return date;
}

static int64_t days_of(struct date date)
{
    uint64_t year = date.year - (date.month <= 2), era = year / 400, year_of_era = year % 400;
    uint64_t month = date.month > 2 ? date.month - 3 : date.month + 9;
    uint64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    uint64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)(era * 146097 + day_of_era) - 719468;
}

static uint8_t *put_digits(uint8_t *to, unsigned value, unsigned count)
{
    for (unsigned i = count; i-- > 0; value /= 10)
        to[i] = (uint8_t)('0' + value % 10);
    return to + count;
}

static uint8_t *put_date(uint8_t *to, int64_t days)
{
    struct date date = date_of(days);
    to = put_digits(to, date.year, 4);
    *to++ = '-';
    to = put_digits(to, date.month, 2);
    *to++ = '-';
    to = put_digits(to, date.day, 2);
    *to++ = 'T';
    return to;
}

uint8_t *text_put_time(uint8_t *to, int64_t unix_ms)
{
    if (unix_ms < 0)
        return text_put(to, BYTES("null"));
    if (unix_ms > TEXT_TIME_MS_MAX)
        unix_ms = TEXT_TIME_MS_MAX;
    unsigned in_day = (unsigned)(unix_ms % MS_A_DAY);
    *to++ = '"';
    to = put_date(to, unix_ms / MS_A_DAY);
    to = put_digits(to, in_day / 3600000, 2);
    *to++ = ':';
    to = put_digits(to, in_day / 60000 % 60, 2);
    *to++ = ':';
    to = put_digits(to, in_day / 1000 % 60, 2);
    if (in_day % 1000 != 0) {
        *to++ = '.';
        to = put_digits(to, in_day % 1000, 3);
    }
    *to++ = 'Z';
    *to++ = '"';
    return to;
}

void text_put_hour(uint8_t to[TEXT_HOUR_BYTES], int64_t unix_s)
{
    if (unix_s < 0)
        unix_s = 0;
    if (unix_s > TEXT_TIME_MS_MAX / 1000)
        unix_s = TEXT_TIME_MS_MAX / 1000;
    to = put_date(to, unix_s / SECONDS_A_DAY);
    put_digits(to, (unsigned)(unix_s % SECONDS_A_DAY / 3600), 2);
}

static unsigned get_digits(struct text *text, unsigned count)
{
    unsigned value = 0;
    for (unsigned i = 0; i < count; i++) {
        if (text->at == text->end || *text->at < '0' || *text->at > '9') {
            text->bad = true;
            return 0;
        }
        value = value * 10 + (*text->at++ - '0');
    }
    return value;
}

int64_t text_get_time(struct text *text)
{
    struct date date;
    if (text_has(text, BYTES("null")))
        return -1;
    text_want(text, BYTES("\""));
    date.year = get_digits(text, 4);
    text_want(text, BYTES("-"));
    date.month = get_digits(text, 2);
    text_want(text, BYTES("-"));
    date.day = get_digits(text, 2);
    text_want(text, BYTES("T"));
    unsigned hour = get_digits(text, 2);
    text_want(text, BYTES(":"));
    unsigned minute = get_digits(text, 2);
    text_want(text, BYTES(":"));
    unsigned second = get_digits(text, 2);
    unsigned ms = text_has(text, BYTES(".")) ? get_digits(text, 3) : 0;
    text_want(text, BYTES("Z\""));
    bool fits = date.year >= 1970 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
                date.day <= 31 && hour < 24 && minute < 60 && second < 60;
    text->bad = text->bad || !fits;
    if (text->bad)
        return -1;
    return days_of(date) * MS_A_DAY + hour * INT64_C(3600000) + minute * INT64_C(60000) +
           second * INT64_C(1000) + ms;
}

/* ---- strings ---- */

static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

static uint8_t *put_escape(uint8_t *to, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    *to++ = '\\';
    if (byte == '"' || byte == '\\')
        *to++ = byte;
    else if (byte == '\n')
        *to++ = 'n';
    else if (byte == '\t')
        *to++ = 't';
    else if (byte == '\r')
        *to++ = 'r';
    else {
        to = text_put(to, BYTES("u00"));
        *to++ = (uint8_t)digits[byte >> 4];
        *to++ = (uint8_t)digits[byte & 15];
    }
    return to;
}

uint8_t *text_put_string(uint8_t *to, struct bytes string)
{
    *to++ = '"';
    for (size_t i = 0; i < string.len; i++) {
        if (LIKELY(is_plain(string.ptr[i])))
            *to++ = string.ptr[i];
        else
            to = put_escape(to, string.ptr[i]);
    }
    *to++ = '"';
    return to;
}

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* What put_escape() wrote, behind its backslash. */
static uint8_t get_escape(struct text *text)
{
    uint8_t kind = text->at < text->end ? *text->at++ : 0;
    switch (kind) {
    case '"':
    case '\\':
        return kind;
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'u':
        break;
    default:
        text->bad = true;
        return 0;
    }
    if (text->end - text->at < 4 || text->at[0] != '0' || text->at[1] != '0' ||
        hex_digit(text->at[2]) < 0 || hex_digit(text->at[3]) < 0) {
        text->bad = true;
        return 0;
    }
    uint8_t byte = (uint8_t)(hex_digit(text->at[2]) << 4 | hex_digit(text->at[3]));
    text->at += 4;
    return byte;
}

/* From the first backslash on. */
static struct bytes string_unescape(struct text *text, const uint8_t *start, struct arena *arena)
{
    size_t len = (size_t)(text->at - start);
    uint8_t *copy = arena_try_alloc(arena, (size_t)(text->end - start));
    text->bad = text->bad || !copy;
    if (text->bad)
        return BYTES("");
    memcpy(copy, start, len);
    while (!text->bad && text->at < text->end && *text->at != '"') {
        uint8_t byte = *text->at++;
        copy[len++] = byte == '\\' ? get_escape(text) : byte;
    }
    return bytes_of(copy, len);
}

struct bytes text_get_string(struct text *text, struct arena *arena)
{
    text_want(text, BYTES("\""));
    const uint8_t *start = text->at;
    while (!text->bad && text->at < text->end && is_plain(*text->at))
        text->at++;
    struct bytes string = bytes_of(start, (size_t)(text->at - start));
    if (!text->bad && text->at < text->end && *text->at == '\\')
        string = string_unescape(text, start, arena);
    text_want(text, BYTES("\""));
    return text->bad ? BYTES("") : string;
}

struct bytes text_get_raw(struct text *text)
{
    const uint8_t *start = text->at;
    size_t depth = 0;
    bool quoted = false;
    for (; !text->bad && text->at < text->end; text->at++) {
        uint8_t byte = *text->at;
        if (quoted) {
            quoted = byte != '"';
            text->at += byte == '\\' && text->at + 1 < text->end;
        } else if (byte == '"') {
            quoted = true;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) {
            break;
        } else if (byte == '}' || byte == ']') {
            depth--;
        }
    }
    text->bad = text->bad || quoted || depth > 0 || text->at == start;
    return text->bad ? BYTES("") : bytes_of(start, (size_t)(text->at - start));
}
