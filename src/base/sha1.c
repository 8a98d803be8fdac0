// SPDX-License-Identifier: Apache-2.0
/* sha1.c - SHA-1 by libcrypto. */
#include "base/sha1.h"

#include <openssl/evp.h>

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

struct sha1 {
    EVP_MD *digest; /* looked up once: that costs more than a short digest */
    EVP_MD_CTX *context;
};

struct sha1 *sha1_new(void)
{
    struct sha1 *sha1 = mem_zalloc(sizeof *sha1);
    sha1->digest = EVP_MD_fetch(NULL, "SHA1", NULL);
    sha1->context = EVP_MD_CTX_new();
    ASSERT(sha1->digest != NULL);
    ASSERT(sha1->context != NULL);
    return sha1;
}

void sha1_free(struct sha1 *sha1)
{
    if (!sha1)
        return;
    EVP_MD_CTX_free(sha1->context);
    EVP_MD_free(sha1->digest);
    mem_free(sha1);
}

void sha1_hex(struct sha1 *sha1, struct bytes bytes, char to[SHA1_HEX_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA1_HEX_BYTES / 2];
    bool good = EVP_DigestInit_ex2(sha1->context, sha1->digest, NULL) == 1 &&
                EVP_DigestUpdate(sha1->context, bytes.ptr, bytes.len) == 1 &&
                EVP_DigestFinal_ex(sha1->context, digest, NULL) == 1;
    ASSERT(good); /* it fails without memory for its own few bytes */
    for (size_t i = 0; i < sizeof digest; i++) {
        to[2 * i] = digits[digest[i] >> 4];
        to[2 * i + 1] = digits[digest[i] & 15];
    }
    to[SHA1_HEX_BYTES] = 0;
}
