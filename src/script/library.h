// SPDX-License-Identifier: Apache-2.0
/* library.h - whether a library's functions can keep anything from one call to the next.
 *
 * Threads: one owner. */
#pragma once

#include "script/vm.h"

/* Whether any function in the chunk on top assigns to a variable outside it. */
bool vm__chunk_sets_upvalues(lua_State *L);
/* Whether the function on top, or one that it can reach by its upvalues, has one that is a table or
 * a coroutine: something that can be changed without assigning to it. */
bool vm__function_has_tables(lua_State *L);
