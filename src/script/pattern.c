// SPDX-License-Identifier: Apache-2.0
/* pattern.c - Lua 5.1's patterns, with bounds on depth and time. */
#include "script/pattern.h"

#include <ctype.h>

#include "base/banned.h"

enum { CAPTURE_OPEN = -1, CAPTURE_POSITION = -2 }; /* lengths */
enum { DEPTH_MAX = 200, STEPS_A_TICK = 1000 * 1000 };

static const uint8_t *match(struct pattern *m, const uint8_t *s, const uint8_t *p);

static void step(struct pattern *m)
{
    if (++m->steps >= STEPS_A_TICK) {
        m->steps = 0;
        vm__tick(m->L);
    }
}

/* ---- one character ---- */

/* Where the item that begins at p ends. */
static const uint8_t *item_end(struct pattern *m, const uint8_t *p)
{
    if (*p == '%') {
        if (p + 1 == m->end)
            luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 2;
    }
    if (*p != '[')
        return p + 1;
    p++;
    if (p < m->end && *p == '^')
        p++;
    do { /* a ']' that comes first is one of the set */
        if (p == m->end)
            luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p++ == '%' && p < m->end)
            p++;
    } while (p == m->end || *p != ']');
    return p + 1;
}

static bool is_of_class(int c, int class)
{
    bool is;
    switch (tolower(class)) {
    case 'a':
        is = isalpha(c);
        break;
    case 'c':
        is = iscntrl(c);
        break;
    case 'd':
        is = isdigit(c);
        break;
    case 'l':
        is = islower(c);
        break;
    case 'p':
        is = ispunct(c);
        break;
    case 's':
        is = isspace(c);
        break;
    case 'u':
        is = isupper(c);
        break;
    case 'w':
        is = isalnum(c);
        break;
    case 'x':
        is = isxdigit(c);
        break;
    case 'z':
        is = c == 0;
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !is : is;
}

/* p stands on '[', last on its ']'. */
static bool is_of_set(int c, const uint8_t *p, const uint8_t *last)
{
    bool wanted = true;
    if (p[1] == '^') {
        wanted = false;
        p++;
    }
    for (p++; p < last; p++) {
        if (*p == '%') {
            p++;
            if (is_of_class(c, *p))
                return wanted;
        } else if (p + 2 < last && p[1] == '-') {
            if (p[0] <= c && c <= p[2])
                return wanted;
            p += 2;
        } else if (*p == c) {
            return wanted;
        }
    }
    return !wanted;
}

static bool is_one(const struct pattern *m, const uint8_t *s, const uint8_t *p, const uint8_t *end)
{
    if (s >= m->text_end)
        return false;
    switch (*p) {
    case '.':
        return true;
    case '%':
        return is_of_class(*s, p[1]);
    case '[':
        return is_of_set(*s, p, end - 1);
    default:
        return *p == *s;
    }
}

/* ---- repetitions ---- */

static const uint8_t *most(struct pattern *m, const uint8_t *s, const uint8_t *p,
                           const uint8_t *end)
{
    ptrdiff_t count = 0;
    while (is_one(m, s + count, p, end)) {
        count++;
        step(m);
    }
    for (; count >= 0; count--) {
        const uint8_t *found = match(m, s + count, end + 1);
        if (found)
            return found;
    }
    return NULL;
}

static const uint8_t *fewest(struct pattern *m, const uint8_t *s, const uint8_t *p,
                             const uint8_t *end)
{
    for (;;) {
        const uint8_t *found = match(m, s, end + 1);
        if (found)
            return found;
        if (!is_one(m, s, p, end))
            return NULL;
        s++;
    }
}

/* ---- captures ---- */

static const uint8_t *capture_begin(struct pattern *m, const uint8_t *s, const uint8_t *p,
                                    ptrdiff_t len)
{
    if (m->count >= PATTERN_CAPTURES_MAX)
        luaL_error(m->L, "too many captures");
    m->capture[m->count].from = s;
    m->capture[m->count].len = len;
    m->count++;
    const uint8_t *found = match(m, s, p);
    if (!found)
        m->count--;
    return found;
}

static const uint8_t *capture_end(struct pattern *m, const uint8_t *s, const uint8_t *p)
{
    int open = m->count - 1;
    while (open >= 0 && m->capture[open].len != CAPTURE_OPEN)
        open--;
    if (open < 0)
        luaL_error(m->L, "invalid pattern capture");
    m->capture[open].len = s - m->capture[open].from;
    const uint8_t *found = match(m, s, p);
    if (!found)
        m->capture[open].len = CAPTURE_OPEN;
    return found;
}

/* %1: the same text again. Where it ends; NULL: it is not there. */
static const uint8_t *capture_again(struct pattern *m, const uint8_t *s, int digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->count || m->capture[i].len == CAPTURE_OPEN)
        luaL_error(m->L, "invalid capture index");
    size_t len = m->capture[i].len < 0 ? SIZE_MAX : (size_t)m->capture[i].len;
    if ((size_t)(m->text_end - s) < len || memcmp(m->capture[i].from, s, len) != 0)
        return NULL;
    m->steps += len;
    return s + len;
}

/* ---- %b and %f ---- */

static const uint8_t *balanced(struct pattern *m, const uint8_t *s, const uint8_t *p)
{
    if (m->end - p < 2)
        luaL_error(m->L, "unbalanced pattern");
    if (s >= m->text_end || *s != p[0])
        return NULL;
    for (size_t open = 1; ++s < m->text_end;) {
        step(m);
        if (*s == p[1]) {
            if (--open == 0)
                return s + 1;
        } else if (*s == p[0]) {
            open++;
        }
    }
    return NULL;
}

/* p stands behind "%f". Whether the set begins to hold here; *ret_p: behind it. */
static bool is_frontier(struct pattern *m, const uint8_t *s, const uint8_t *p,
                        const uint8_t **ret_p)
{
    if (p == m->end || *p != '[')
        luaL_error(m->L, "missing '[' after '%%f' in pattern");
    const uint8_t *end = item_end(m, p);
    int before = s == m->text ? 0 : s[-1], here = s < m->text_end ? *s : 0;
    *ret_p = end;
    return !is_of_set(before, p, end - 1) && is_of_set(here, p, end - 1);
}

/* ---- all of it ---- */

/* An item that is one character, perhaps repeated. *s and *p go on, or *ret_end is the answer and
 * false is returned. */
static bool item_match(struct pattern *m, const uint8_t **s, const uint8_t **p,
                       const uint8_t **ret_end)
{
    const uint8_t *end = item_end(m, *p);
    bool is = is_one(m, *s, *p, end);
    switch (end < m->end ? *end : 0) {
    case '?': {
        const uint8_t *found = is ? match(m, *s + 1, end + 1) : NULL;
        if (found) {
            *ret_end = found;
            return false;
        }
        *p = end + 1;
        return true;
    }
    case '*':
        *ret_end = most(m, *s, *p, end);
        return false;
    case '+':
        *ret_end = is ? most(m, *s + 1, *p, end) : NULL;
        return false;
    case '-':
        *ret_end = fewest(m, *s, *p, end);
        return false;
    default:
        *ret_end = NULL;
        *s += 1;
        *p = end;
        return is;
    }
}

static const uint8_t *items_match(struct pattern *m, const uint8_t *s, const uint8_t *p)
{
    const uint8_t *end;
    while (p < m->end) {
        step(m);
        if (*p == '(')
            return p + 1 < m->end && p[1] == ')' ? capture_begin(m, s, p + 2, CAPTURE_POSITION)
                                                 : capture_begin(m, s, p + 1, CAPTURE_OPEN);
        if (*p == ')')
            return capture_end(m, s, p + 1);
        if (*p == '$' && p + 1 == m->end)
            return s == m->text_end ? s : NULL;
        int special = *p == '%' && p + 1 < m->end ? p[1] : 0;
        if (special == 'b') {
            s = balanced(m, s, p + 2);
            p += 4;
        } else if (special == 'f') {
            if (!is_frontier(m, s, p + 2, &p))
                return NULL;
        } else if (isdigit(special)) {
            s = capture_again(m, s, special);
            p += 2;
        } else if (!item_match(m, &s, &p, &end)) {
            return end;
        }
        if (!s)
            return NULL;
    }
    return s;
}

static const uint8_t *match(struct pattern *m, const uint8_t *s, const uint8_t *p)
{
    step(m);
    if (++m->depth > DEPTH_MAX)
        luaL_error(m->L, "pattern too complex");
    const uint8_t *found = items_match(m, s, p);
    m->depth--;
    return found;
}

const uint8_t *pattern_match(struct pattern *m, const uint8_t *at, const uint8_t *from)
{
    m->count = 0;
    m->depth = 0;
    return match(m, at, from);
}

void pattern_push(struct pattern *m, int i, const uint8_t *from, const uint8_t *to)
{
    if (i >= m->count) {
        if (i != 0)
            luaL_error(m->L, "invalid capture index");
        lua_pushlstring(m->L, (const char *)from, (size_t)(to - from));
        return;
    }
    ptrdiff_t len = m->capture[i].len;
    if (len == CAPTURE_OPEN)
        luaL_error(m->L, "unfinished capture");
    if (len == CAPTURE_POSITION)
        lua_pushinteger(m->L, m->capture[i].from - m->text + 1);
    else
        lua_pushlstring(m->L, (const char *)m->capture[i].from, (size_t)len);
}

int pattern_push_all(struct pattern *m, const uint8_t *from, const uint8_t *to)
{
    int count = m->count == 0 && from ? 1 : m->count;
    luaL_checkstack(m->L, count, "too many captures");
    for (int i = 0; i < count; i++)
        pattern_push(m, i, from, to);
    return count;
}
