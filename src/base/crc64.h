// SPDX-License-Identifier: Apache-2.0
/* crc64.h - the CRC-64 that Redis puts behind its dumps: Jones's polynomial, reflected.
 *
 * Threads: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* crc64(crc64(0, a), b) equals crc64(0, a followed by b). "123456789" gives 0xe9c6d914c4b8d9ca. */
uint64_t crc64(uint64_t crc, const void *ptr, size_t len);
