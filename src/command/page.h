// SPDX-License-Identifier: Apache-2.0
/* page.h - pages of the HTTP port that a model has.
 *
 * A request is looked at twice: on the HTTP thread, where its path says whose page it is, and on
 * the executor, where the page is made. The server does the rest: ETags, lifetimes, gzip.
 *
 * Ownership: a struct page is the server's; `of` is the model's allocation, which the server frees.
 * Threads: stands at each function of struct model. */
#pragma once

#include "base/buf.h"

enum { PAGE_HOST_BYTES = 256 };

enum page_found {
    PAGE_NONE, /* the path is none of the model's */
    PAGE_BAD,  /* it would be, with other numbers: `text` says why */
    PAGE_IS,
};

struct page_asked {    /* a request, on the HTTP thread */
    struct bytes path; /* as it came: nothing is decoded */
    const char *host;  /* the header; NULL: none */
    /* An argument of the URL; NULL: it is not there. */
    const char *(*argument)(const struct page_asked *asked, const char *name);
};

struct page {
    void *of;         /* which page it is */
    const char *text; /* PAGE_BAD: why */
    bool is_quick;    /* many such pages are made in one go */
    /* the answer */
    unsigned status;    /* of HTTP */
    struct buf data;    /* what goes with 200, or the reason */
    const char *type;   /* of 200: its MIME type */
    const char *cached; /* clients may keep it for a while: what it is called; NULL: they may not */
};
