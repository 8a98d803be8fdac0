// SPDX-License-Identifier: Apache-2.0
/* utf8.c - counts the characters of UTF-8, and replaces bytes that are part of none. */
#include "base/utf8.h"

#include <stdint.h>

#include "base/banned.h"

/* Bytes of the character that starts here, 0 if none does. The second byte of some is limited: that
 * is where overlong forms, surrogates and what lies above U+10FFFF show. */
static size_t char_len(const uint8_t *at, size_t left)
{
    uint8_t first = at[0], low = 0x80, high = 0xbf;
    size_t len;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        len = 2;
    else if (first >= 0xe0 && first <= 0xef)
        len = 3;
    else if (first >= 0xf0 && first <= 0xf4)
        len = 4;
    else
        return 0;
    if (left < len)
        return 0;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

size_t utf8_count(struct bytes text)
{
    const uint64_t high_bits = UINT64_C(0x8080808080808080);
    size_t count = 0;
    for (size_t i = 0; i < text.len; count++) {
        uint64_t word;
        while (text.len - i >= sizeof word) { /* ASCII, eight at a time */
            memcpy(&word, text.ptr + i, sizeof word);
            if (word & high_bits)
                break;
            i += sizeof word;
            count += sizeof word;
        }
        if (i == text.len)
            break;
        size_t len = char_len(text.ptr + i, text.len - i);
        if (len == 0)
            return SIZE_MAX;
        i += len;
    }
    return count;
}

void utf8_repair(uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t char_bytes = char_len(text + i, len - i);
        if (char_bytes == 0)
            text[i] = '?';
        i += char_bytes ? char_bytes : 1;
    }
}
