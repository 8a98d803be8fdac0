// SPDX-License-Identifier: Apache-2.0
/* squeeze.h - general compressors behind one call: gzip, lz4 (a block), zstd (a frame).
 *
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum part_algorithm { /* on disk: append, never renumber */
                      PART_NONE = 0,
                      PART_GZIP = 1,
                      PART_LZ4 = 2,
                      PART_ZSTD = 3,
                      PART_AUTO = 7, /* never on disk: the smallest of the others, measured */
};

const char *part_algorithm_name(enum part_algorithm algorithm); /* "gzip"; NULL: unknown */
/* False: no such name. */
bool part_algorithm_parse(struct bytes name, enum part_algorithm *ret_algorithm);

/* Adds the compressed bytes to the buffer. */
enum rc squeeze(enum part_algorithm algorithm, struct bytes raw, struct buf *to,
                struct err *err) NODISCARD;
/* squeeze() with the smallest result of those tried; *ret_algorithm is PART_NONE, and the bytes are
 * added as they are, where nothing is smaller. */
enum rc squeeze_best(enum part_algorithm wished, struct bytes raw, struct buf *to,
                     enum part_algorithm *ret_algorithm, struct err *err) NODISCARD;
/* Fills exactly raw_len bytes, or fails. */
enum rc unsqueeze(enum part_algorithm algorithm, struct bytes packed, uint8_t *to, size_t raw_len,
                  struct err *err) NODISCARD;
/* gzip whose length nobody tells; no more than the limit of the buffer. */
enum rc unsqueeze_gzip(struct bytes packed, struct buf *to, struct err *err) NODISCARD;
