/* options.h - what the command line of terraced says: one table, which also prints --help.
 *
 * Ownership: strings borrow argv. Threads: any. */
#pragma once

#include <stdio.h>

#include "store/store.h"

struct options {
    uint16_t port; /* 0: any free one */
    const char *bind;
    const char *dir;
    size_t hot_memory_bytes;
    enum durability durability;
    uint64_t disk_reserve_bytes;
    const struct engine_ops *engine;
    bool help;
};

void options_init(struct options *options); /* the defaults */
/* RC_INVALID: an unknown option, a missing or a wrong value; the text says which. */
enum rc options_parse(struct options *options, int argc, char **argv, struct err *err) NODISCARD;
void options_help(FILE *to);
/* "512mb" as Redis reads it: b, k (1000), kb (1024), m, mb, g, gb. */
bool size_parse(const char *text, uint64_t *ret_bytes) NODISCARD;
const char *durability_name(enum durability durability);
