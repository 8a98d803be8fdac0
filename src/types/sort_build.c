// SPDX-License-Identifier: Apache-2.0
/* sort_build.c - SORT ... STORE of many elements, in many commits (build.h): they are sorted in
 * memory, and put as a list that nobody sees before it is whole.
 *
 * Patterns look up other keys, as many as there are elements; nobody could listen to all of them,
 * so these sorts stay in one commit. */
#include "types/sort_int.h"

#include "types/list.h"

#include "base/banned.h"

static enum rc result_put(const struct sort_item *item, const struct sort_range *range,
                          struct build *build, struct err *err)
{
    struct build_piece piece = build_piece(build);
    uint64_t done = build->key.meta.count, at = done, bytes = 0;
    enum rc rc = RC_OK;
    for (;
         rc == RC_OK && at < range->count && at - done < piece.count_max && bytes < piece.bytes_max;
         at++) {
        struct bytes element = item[range->first + at].element;
        rc = list_build_put(build, at, element, err);
        bytes += element.len;
    }
    if (rc != RC_OK)
        return rc;
    return build_piece_end(build, at - done, BYTES(""), at == range->count, err);
}

static enum rc appear(struct build *build, const struct run *run, struct bytes to, uint64_t count,
                      struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, to, KEY_ANY, &key, err);
    if (rc == RC_OK)
        rc = list_build_end(build, &key, count, err);
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_LIST, "sortstore");
    return rc;
}

enum rc sort_build(const struct run *run, struct bytes name, const struct sort_options *options,
                   struct bytes to, struct build *build, uint64_t *ret_count, struct err *err)
{
    struct sort_options how;
    struct sort_range range;
    struct key key;
    if (!build)
        return RC_NOT_FOUND;
    enum rc rc = key_write(run, name, KEY_ANY, &key, err); /* no miss: it may be read again */
    if (rc == RC_OK)
        rc = sort__type_check(&key, err);
    if (rc != RC_OK)
        return rc;
    uint64_t count = key.exists ? key.meta.count : 0;
    range = sort_range(options, count);
    if (range.count == 0 || !sort_by_itself(options, key.meta.type, &how) ||
        !build_wanted(build, run, count))
        return RC_NOT_FOUND;
    rc = build_step(build, run, TYPE_LIST, build_input(0, &key), err);
    if (rc != RC_OK)
        return rc;
    *ret_count = range.count;
    if (build->phase == BUILD_FULL) {
        rc = key_read(run, name, KEY_ANY, &key, err); /* one hit for all pieces */
        return rc == RC_OK ? appear(build, run, to, range.count, err) : rc;
    }
    if (!build->work) {
        struct sort_work *work;
        rc = sort_work_new(count, &work, err);
        if (rc != RC_OK)
            return rc;
        build->work = work;
        build->work_free = sort_work_free;
    }
    rc = sort_work_step(build->work, &key, &how, err);
    return rc == RC_OK ? result_put(sort_work_items(build->work), &range, build, err) : rc;
}
