// SPDX-License-Identifier: Apache-2.0
/* fuzz_tile_text.c - what clients send as text: paths of the HTTP port and items of tasks. */
#include "models/tile/queue.h"
#include "models/tile/tile_url.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    struct queue_item item;
    struct err err = {0};
    struct tile_url url = tile_url_parse(text);
    ASSERT(url.page != TILE_PAGE_TILE || tilekey_is_packed(url.packed));
    ASSERT(strlen(url.type) <= TILE_TYPE_NAME_BYTES_MAX);
    if (queue_item_parse(text, &item, &err) == RC_OK) {
        ASSERT(queue_id_is(item.id) && item.id.len <= QUEUE_ID_BYTES_MAX);
        ASSERT(item.version >= 0);
    } else {
        ASSERT(err.text[0] != 0);
    }
    return 0;
}
