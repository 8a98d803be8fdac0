// SPDX-License-Identifier: Apache-2.0
/* info.h - the text of INFO: sections of "name:value" lines.
 *
 * Threads: the executor. */
#pragma once

#include "base/buf.h"

struct server;

/* The named sections, all without a name. False: no memory. */
bool info_add(struct server *server, const struct bytes *section, size_t section_count,
              struct buf *to) NODISCARD;
