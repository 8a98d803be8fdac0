// SPDX-License-Identifier: Apache-2.0
/* keys_page.c - reads a page of a rule's keys: one step of scan_keys(), sorted, each name once. */
#include "models/landing/keys_page.h"

#include <stdlib.h>

#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum { PAGE_KEYS = 256, PLACE_BYTES_MAX = KEY_BYTES_MAX + 16 };

void keys_page_init(struct keys_page *page)
{
    *page = (struct keys_page){0};
    arena_init(&page->arena);
    buf_init(&page->place, PLACE_BYTES_MAX);
}

void keys_page_done(struct keys_page *page)
{
    arena_done(&page->arena);
    mem_free(page->name);
    buf_done(&page->place);
}

struct page_fill {
    struct keys_page *page;
    const struct land_rule *rule;
};

static void name_add(void *arg, struct bytes name)
{
    struct page_fill *fill = arg;
    struct keys_page *page = fill->page;
    if (!rule_takes(fill->rule->spec, name, NULL) || landing__is_reserved(fill->rule->ns, name))
        return;
    if (page->count == page->cap) {
        page->cap = page->cap ? 2 * page->cap : PAGE_KEYS;
        page->name = mem_realloc(page->name, page->cap * sizeof *page->name);
    }
    page->name[page->count++] = arena_copy(&page->arena, name);
}

static int name_order(const void *one, const void *other)
{
    return bytes_cmp(*(const struct bytes *)one, *(const struct bytes *)other);
}

/* A table that grows under a scan may show a key twice in one step. */
static void names_unique(struct keys_page *page)
{
    size_t count = 0;
    if (page->count > 1)
        qsort(page->name, page->count, sizeof *page->name, name_order);
    for (size_t i = 0; i < page->count; i++)
        if (count == 0 || !bytes_eq(page->name[i], page->name[count - 1]))
            page->name[count++] = page->name[i];
    page->count = count;
}

enum rc keys_page_next(struct keys_page *page, const struct run *run, const struct land_rule *rule,
                       struct err *err)
{
    struct kv *kv = run->kv;
    struct page_fill fill = {page, rule};
    /* Copies of a database that is gone outlive their time. */
    struct scan_keys scan = {.count = PAGE_KEYS, .takes_dead = land_rule_is_missing(rule)};
    uint64_t cursor;
    struct bytes place = BYTES("");
    page->count = 0;
    arena_clear(&page->arena);
    if (page->place.len > 0)
        scan.cursor = scan_cursor_keep(kv, buf_bytes(&page->place));
    enum rc rc = scan_keys(run, &scan, name_add, &fill, &cursor, err);
    if (rc == RC_OK && cursor != 0)
        rc = scan_cursor_find(kv, cursor, &place, err);
    if (rc != RC_OK) {
        page->count = 0;
        return rc;
    }
    names_unique(page);
    page->at_end = cursor == 0;
    buf_cut(&page->place, 0);
    if (!page->at_end && !buf_add_bytes(&page->place, place))
        return err_set(err, RC_NOMEM, "could not allocate memory for a place");
    return RC_OK;
}
