// SPDX-License-Identifier: Apache-2.0
/* fuzz_block.c - bytes choose what happens to a tree of blocks beside the truth and an engine that
 * lags behind: commits, undo, seals, flushes, loads, evictions. The model aborts where they
 * disagree. */
#include "support/tree_model.h"

#include <stddef.h>

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

/* One byte where that is enough, so that small changes of the input are small changes. */
static uint32_t choose(void *arg, uint32_t limit)
{
    struct input *input = arg;
    uint32_t number = 0;
    for (uint32_t more = limit - 1; more > 0 && input->at < input->end; more >>= 8)
        number = number << 8 | *input->at++;
    return number % limit;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct tree_model_options options = {
        .key_count = 1 + choose(&input, 200),
        .suffix_bytes_max = choose(&input, 3) * 300,
        .value_bytes_max = choose(&input, 4) * 200,
        .choose = choose,
        .arg = &input,
    };
    struct tree_model *model = tree_model_new(&options);
    while (input.at < input.end)
        tree_model_step(model);
    tree_model_check(model);
    tree_model_free(model);
    return 0;
}
