// SPDX-License-Identifier: Apache-2.0
/* glob.c - matches patterns without recursion. */
#include "types/glob.h"

#include "base/banned.h"

/* Signed, as Redis compares them. */
static int letter(uint8_t byte, bool nocase)
{
    if (nocase && byte >= 'A' && byte <= 'Z')
        byte = (uint8_t)(byte - 'A' + 'a');
    return (int8_t)byte;
}

static bool between(uint8_t byte, uint8_t one, uint8_t other, bool nocase)
{
    bool ordered = (int8_t)one <= (int8_t)other; /* before the case is folded */
    int low = letter(ordered ? one : other, nocase);
    int high = letter(ordered ? other : one, nocase);
    int is = letter(byte, nocase);
    return low <= is && is <= high;
}

/* Matches a byte with the class that begins at *at, behind its bracket; moves *at behind the class.
 */
static bool class_match(struct bytes pattern, size_t *at, uint8_t byte, bool nocase)
{
    size_t i = *at;
    bool negated = i < pattern.len && pattern.ptr[i] == '^', match = false;
    if (negated)
        i++;
    for (; i < pattern.len; i++) {
        size_t left = pattern.len - i;
        const uint8_t *one = pattern.ptr + i;
        if (left >= 2 && one[0] == '\\') {
            match |= one[1] == byte;
            i++;
        } else if (one[0] == ']') {
            break;
        } else if (left >= 3 && one[1] == '-') {
            match |= between(byte, one[0], one[2], nocase);
            i += 2;
        } else {
            match |= letter(one[0], nocase) == letter(byte, nocase);
        }
    }
    *at = i < pattern.len ? i + 1 : i;
    return match != negated;
}

/* Matches a byte with whatever stands at *at, which is no star; moves *at behind it. */
static bool one_match(struct bytes pattern, size_t *at, uint8_t byte, bool nocase)
{
    uint8_t first = pattern.ptr[(*at)++];
    if (first == '?')
        return true;
    if (first == '[')
        return class_match(pattern, at, byte, nocase);
    if (first == '\\' && *at < pattern.len)
        first = pattern.ptr[(*at)++];
    return letter(first, nocase) == letter(byte, nocase);
}

static size_t stars_skip(struct bytes pattern, size_t at)
{
    while (at < pattern.len && pattern.ptr[at] == '*')
        at++;
    return at;
}

/* Everything between two stars matches a fixed number of bytes, so the first place where it fits is
 * as good as any later one: only the last star is ever tried again. */
bool glob_match(struct bytes pattern, struct bytes text, bool nocase)
{
    size_t at = 0, i = 0, star = 0, star_i = 0;
    bool has_star = false;
    if (text.len == 0)
        return pattern.len == 0;
    while (i < text.len) {
        if (at < pattern.len && pattern.ptr[at] == '*') {
            at = stars_skip(pattern, at);
            if (at == pattern.len)
                return true;
            has_star = true;
            star = at;
            star_i = i;
        } else if (at < pattern.len && one_match(pattern, &at, text.ptr[i], nocase)) {
            i++;
        } else if (has_star) {
            at = star;
            i = ++star_i;
        } else {
            return false;
        }
    }
    return stars_skip(pattern, at) == pattern.len;
}

bool glob_is_all(struct bytes pattern)
{
    return pattern.len == 1 && pattern.ptr[0] == '*';
}
