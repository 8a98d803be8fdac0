// SPDX-License-Identifier: Apache-2.0
/* fuzz_resp.c - any bytes, at once and byte by byte: the same requests, and nothing read outside
 * them. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "server/resp.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feeds `step` bytes at a time and adds up what was seen. */
static uint64_t play(const uint8_t *data, size_t size, size_t step)
{
    struct resp_parser parser;
    struct err err = {0};
    uint64_t seen = 1469598103934665603u;
    uint8_t *in = mem_alloc(size);
    size_t len = 0, fed = 0;
    enum resp_result result = RESP_MORE;

    resp_parser_init(&parser);
    while (result != RESP_BAD && fed < size) {
        size_t more = size - fed < step ? size - fed : step;
        memcpy(in + len, data + fed, more);
        len += more;
        fed += more;
        while ((result = resp_parse(&parser, in, len, &err)) == RESP_REQUEST) {
            ASSERT(parser.arg_count > 0);
            for (size_t i = 0; i < parser.arg_count; i++) {
                struct resp_arg arg = parser.arg[i];
                ASSERT(arg.offset <= len && arg.len <= len - arg.offset);
                seen = (seen ^ arg.len) * 1099511628211u;
                for (size_t n = 0; n < arg.len; n++)
                    seen = (seen ^ in[arg.offset + n]) * 1099511628211u;
            }
        }
        if (result == RESP_BAD)
            break;
        size_t used = resp_parser_spent(&parser);
        ASSERT(used <= len);
        resp_parser_rewind(&parser, used);
        memmove(in, in + used, len - used);
        len -= used;
    }
    if (result == RESP_BAD)
        for (const char *at = err.text; *at; at++)
            seen = (seen ^ (uint8_t)*at) * 1099511628211u;
    resp_parser_done(&parser);
    mem_free(in);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = play(data, size, size ? size : 1);
    ASSERT(play(data, size, 1) == whole);
    ASSERT(play(data, size, 7) == whole);
    return 0;
}
