// SPDX-License-Identifier: Apache-2.0
/* support_engine.c - opens an engine of either kind and speaks to it in short words. */
#include "contract/support_engine.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

void engine_fix_init(struct engine_fix *fix, const struct engine_ops *ops)
{
    static const struct store_space spaces[] = {
        {.number = 'w', .kind = SPACE_WHOLE, .name = "whole"},
        {.number = 'f', .kind = SPACE_FIXED, .fixed_bytes = 2, .name = "fixed"},
        {.number = 'g', .kind = SPACE_FIXED, .fixed_bytes = 2, .name = "fixed_next"},
        {.number = 'l', .kind = SPACE_LENGTH, .name = "length"},
    };

    *fix = (struct engine_fix){.ops = ops};
    buf_init(&fix->text, 64 * 1024 * 1024);
    space_set_init(&fix->spaces);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        ASSERT_OK(space_set_add(&fix->spaces, &spaces[i], &fix->err), &fix->err);
    if (ops == &engine_memory_ops)
        fix->memory = engine_memory_new();
    snprintf(fix->top, sizeof fix->top, "%s", test_temp_dir());
    snprintf(fix->dir, sizeof fix->dir, "%s/engine", fix->top);
    snprintf(fix->scratch, sizeof fix->scratch, "%s/scratch", fix->top);
    engine_fix_reopen(fix);
}

void engine_fix_done(struct engine_fix *fix)
{
    fix->ops->close(fix->engine);
    fix->engine = NULL;
    engine_memory_free(fix->memory);
    buf_done(&fix->text);
}

void engine_fix_each(void (*fn)(struct engine_fix *fix))
{
    static const char *const names[] = {"memory", "rocksdb"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct engine_fix fix;
        engine_fix_init(&fix, engine_find(names[i]));
        fn(&fix);
        engine_fix_done(&fix);
    }
}

struct engine_options engine_fix_options(struct engine_fix *fix)
{
    return (struct engine_options){
        .dir = fix->dir,
        .scratch_dir = fix->scratch,
        .spaces = &fix->spaces,
        .cache_bytes = 8 * 1024 * 1024,
        .memory = fix->memory,
    };
}

void engine_fix_reopen(struct engine_fix *fix)
{
    struct engine_options options = engine_fix_options(fix);
    if (fix->engine)
        fix->ops->close(fix->engine);
    fix->engine = NULL;
    ASSERT_OK(fix->ops->open(&options, &fix->engine, &fix->err), &fix->err);
}

void engine_fix_begin(struct engine_fix *fix)
{
    ASSERT_OK(fix->ops->unit_open(fix->engine, &fix->unit, &fix->err), &fix->err);
}

static void add_word(struct engine_fix *fix, struct bytes word)
{
    char sign = (char)word.ptr[0];
    struct bytes key = bytes_from(word, 1);
    const uint8_t *mark = memchr(key.ptr, sign == '+' ? '=' : ':', key.len);
    struct bytes rest = BYTES("");
    enum rc rc = RC_INVALID;

    if (sign != '-' && mark) {
        rest = bytes_from(key, (size_t)(mark - key.ptr) + 1);
        key.len = (size_t)(mark - key.ptr);
    }
    if (sign == '+')
        rc = fix->ops->unit_put(fix->unit, key, rest, &fix->err);
    else if (sign == '-')
        rc = fix->ops->unit_delete(fix->unit, key, &fix->err);
    else if (sign == '~')
        rc = fix->ops->unit_delete_range(fix->unit, key, rest, &fix->err);
    ASSERT_OK(rc, &fix->err);
}

void engine_fix_add(struct engine_fix *fix, const char *script)
{
    while (*script) {
        size_t len = strcspn(script, " ");
        if (len > 0)
            add_word(fix, bytes_of(script, len));
        script += len + (script[len] == ' ');
    }
}

void engine_fix_apply(struct engine_fix *fix)
{
    ASSERT_OK(fix->ops->unit_apply(fix->unit, &fix->err), &fix->err);
    engine_fix_drop(fix);
}

void engine_fix_drop(struct engine_fix *fix)
{
    fix->ops->unit_close(fix->unit);
    fix->unit = NULL;
}

void engine_fix_unit(struct engine_fix *fix, const char *script)
{
    engine_fix_begin(fix);
    engine_fix_add(fix, script);
    engine_fix_apply(fix);
}

static const char *fix_text(struct engine_fix *fix)
{
    ASSERT_TRUE(buf_add(&fix->text, "", 1));
    return (const char *)fix->text.ptr;
}

const char *engine_fix_get(struct engine_fix *fix, const struct engine_view *view, const char *key)
{
    buf_cut(&fix->text, 0);
    enum rc rc = fix->ops->get(fix->engine, view, bytes_of(key, strlen(key)), ENGINE_TIER_ALL,
                               &fix->text, &fix->err);
    return rc == RC_OK ? fix_text(fix) : rc_name(rc);
}

const char *engine_fix_rows(struct engine_fix *fix, struct engine_fix_range range)
{
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    struct engine_range asked = {
        .lower = bytes_of(range.lower, strlen(range.lower)),
        .upper = bytes_of(range.upper, strlen(range.upper)),
        .reverse = range.reverse,
        .one_group = range.one_group,
    };
    enum rc rc;

    buf_cut(&fix->text, 0);
    ASSERT_OK(fix->ops->iter_open(fix->engine, range.view, &asked, &iter, &fix->err), &fix->err);
    while ((rc = fix->ops->iter_next(iter, &key, &value, &fix->err)) == RC_OK)
        ASSERT_TRUE((fix->text.len == 0 || buf_add(&fix->text, " ", 1)) &&
                    buf_add_bytes(&fix->text, key) && buf_add(&fix->text, "=", 1) &&
                    buf_add_bytes(&fix->text, value));
    ASSERT_RC(rc, RC_NOT_FOUND);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_NOT_FOUND);
    fix->ops->iter_close(iter);
    return fix_text(fix);
}

const char *engine_fix_all(struct engine_fix *fix)
{
    return engine_fix_rows(fix, (struct engine_fix_range){.lower = "", .upper = ""});
}
