// SPDX-License-Identifier: Apache-2.0
/* json.h - what lib_json.c and json_decode.c share: the settings of cjson.
 *
 * Threads: one owner. */
#pragma once

#include "script/vm.h"

/* Those of the table cjson are the vm's, and are as below at the beginning of each run; those of
 * cjson.new() are Lua's. */
static inline struct json_settings json_settings_default(void)
{
    return (struct json_settings){.sparse_ratio = 2,
                                  .sparse_safe = 10,
                                  .encode_depth_max = 1000,
                                  .decode_depth_max = 1000,
                                  .precision = 14,
                                  .keeps_buffer = 1,
                                  .decodes_invalid = 1};
}

int json_decode(lua_State *L); /* its upvalue is the settings */
