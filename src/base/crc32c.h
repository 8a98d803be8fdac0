// SPDX-License-Identifier: Apache-2.0
/* crc32c.h - CRC-32C (Castagnoli), by the processor's instruction where it has one.
 *
 * Threads: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* crc32c(crc32c(0, a), b) equals crc32c(0, a followed by b). "123456789" gives 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *ptr, size_t len);
/* The table-driven form, for the test that compares both. */
uint32_t crc32c_portable(uint32_t crc, const void *ptr, size_t len);
