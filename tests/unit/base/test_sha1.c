// SPDX-License-Identifier: Apache-2.0
#include "base/sha1.h"

#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

/* FIPS 180-4, and what redis-cli SCRIPT LOAD "return 1" answers. */
TEST(sha1_gives_the_published_values)
{
    char hex[SHA1_HEX_BYTES + 1];
    struct sha1 *sha1 = sha1_new();
    sha1_hex(sha1, BYTES("abc"), hex);
    ASSERT_STR(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_hex(sha1, BYTES(""), hex);
    ASSERT_STR(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_hex(sha1, BYTES("return 1"), hex);
    ASSERT_STR(hex, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    uint8_t *million = mem_alloc(1000000);
    memset(million, 'a', 1000000);
    sha1_hex(sha1, bytes_of(million, 1000000), hex);
    ASSERT_STR(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    mem_free(million);
    sha1_free(sha1);
    sha1_free(NULL);
}
