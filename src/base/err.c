// SPDX-License-Identifier: Apache-2.0
/* err.c - names, texts and reply prefixes of the result codes, and failed assertions. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#undef err_set /* the function, not what wraps it */

_Noreturn void assert_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    fflush(NULL);
    abort();
}

enum rc err_set(struct err *err, enum rc rc, const char *format, ...)
{
    va_list args;

    if (!err)
        return rc;
    /* The arguments may point into err->text, so it is written last. */
    char text[ERR_TEXT_BYTES];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(err->text, text, strlen(text) + 1);
    err->rc = rc;
    return rc;
}

enum rc err_prefix(struct err *err, const char *format, ...)
{
    va_list args;
    char text[ERR_TEXT_BYTES];

    va_start(args, format);
    int printed = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = printed < 0 ? 0 : (size_t)printed;
    if (len > sizeof text - 1)
        len = sizeof text - 1;
    size_t kept = strlen(err->text);
    if (kept > sizeof text - 1 - len)
        kept = sizeof text - 1 - len;
    memmove(err->text + len, err->text, kept);
    err->text[len + kept] = '\0';
    memcpy(err->text, text, len);
    return err->rc;
}

const char *rc_name(enum rc rc)
{
    switch (rc) {
#define X(name, value, prefix, text) \
    case name:                       \
        return #name;
        RC_LIST(X)
#undef X
    }
    return "RC_UNKNOWN";
}

const char *rc_prefix(enum rc rc)
{
    switch (rc) {
#define X(name, value, prefix, text) \
    case name:                       \
        return prefix;
        RC_LIST(X)
#undef X
    }
    return "ERR";
}

const char *rc_text(enum rc rc)
{
    switch (rc) {
#define X(name, value, prefix, text) \
    case name:                       \
        return text;
        RC_LIST(X)
#undef X
    }
    return "unknown result";
}
