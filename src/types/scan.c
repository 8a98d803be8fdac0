// SPDX-License-Identifier: Apache-2.0
/* scan.c - the table of cursors that clients hold. */
#include "types/scan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "types/kv.h"

#include "base/banned.h"

/* Cursors are given in order. They begin anywhere, so that one of an earlier process is unknown. */
void scan_cursors_init(struct scan_cursors *cursors, struct rand *rand)
{
    uint64_t first = 1 + rand_below(rand, UINT64_C(1) << 52);
    *cursors = (struct scan_cursors){.oldest = first, .next = first};
}

static uint8_t **place_of(struct scan_cursors *cursors, uint64_t cursor)
{
    return &cursors->place[cursor % SCAN_CURSORS_MAX];
}

static struct bytes place_bytes(const uint8_t *place)
{
    uint32_t len;
    memcpy(&len, place, sizeof len);
    return bytes_of(place + sizeof len, len);
}

static void oldest_forget(struct scan_cursors *cursors)
{
    uint8_t **place = place_of(cursors, cursors->oldest++);
    if (!*place)
        return;
    cursors->bytes -= place_bytes(*place).len;
    mem_free(*place);
    *place = NULL;
}

void scan_cursors_done(struct scan_cursors *cursors)
{
    if (!cursors)
        return;
    while (cursors->oldest < cursors->next)
        oldest_forget(cursors);
    mem_free(cursors->place);
    *cursors = (struct scan_cursors){0};
}

/* strtoul(), all of the text, no leading space. */
bool scan_cursor_parse(struct bytes text, uint64_t *ret_cursor)
{
    char copy[64], *end;
    if (text.len >= sizeof copy || (text.len > 0 && strchr(" \t\n\v\f\r", text.ptr[0])))
        return false;
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    errno = 0;
    unsigned long value = strtoul(copy, &end, 10);
    if (errno == ERANGE || end != copy + text.len)
        return false;
    *ret_cursor = value;
    return true;
}

enum rc scan_cursor_find(struct kv *kv, uint64_t cursor, struct bytes *ret_position,
                         struct err *err)
{
    struct scan_cursors *cursors = &kv->cursors;
    if (cursor < cursors->oldest || cursor >= cursors->next || !*place_of(cursors, cursor))
        return err_set(err, RC_INVALID, "unknown cursor: only the last %d are remembered",
                       SCAN_CURSORS_MAX);
    *ret_position = place_bytes(*place_of(cursors, cursor));
    return RC_OK;
}

uint64_t scan_cursor_keep(struct kv *kv, struct bytes position)
{
    struct scan_cursors *cursors = &kv->cursors;
    ASSERT(position.len <= STORE_SUFFIX_BYTES_MAX);
    if (!cursors->place)
        cursors->place = mem_zalloc(SCAN_CURSORS_MAX * sizeof *cursors->place);
    while (cursors->oldest < cursors->next &&
           (cursors->next - cursors->oldest == SCAN_CURSORS_MAX ||
            cursors->bytes + position.len > SCAN_CURSOR_BYTES_MAX))
        oldest_forget(cursors);
    uint32_t len = (uint32_t)position.len;
    uint8_t *place = mem_try_alloc(sizeof len + position.len);
    if (place) {
        memcpy(place, &len, sizeof len);
        if (len > 0)
            memcpy(place + sizeof len, position.ptr, len);
        cursors->bytes += position.len;
    }
    *place_of(cursors, cursors->next) = place;
    return cursors->next++;
}
