// SPDX-License-Identifier: Apache-2.0
/* mem.h - the one way to allocate.
 *
 * mem_alloc() never returns NULL: it aborts with a message. mem_try_alloc() may fail and is for
 * sizes that somebody else chose. Zero bytes give a pointer that can be freed.
 *
 * Faults: builds with TERRACE_FAULTS can make the Nth mem_try_alloc() of this process fail.
 * Threads: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_realloc(void *ptr, size_t bytes) __attribute__((returns_nonnull));
void *mem_try_alloc(size_t bytes) __attribute__((malloc)) NODISCARD;
void *mem_try_realloc(void *ptr, size_t bytes) NODISCARD; /* on NULL the old one is still owned */
/* alignment is a power of two, bytes a multiple of it; not for mem_realloc() */
void *mem_alloc_aligned(size_t alignment, size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *ptr, size_t bytes) __attribute__((returns_nonnull));
void mem_free(void *ptr); /* NULL is allowed */

/* What the allocator really gives for a request: the size class. Pure: the same answer for the
 * same request, so an owner can account for a block without asking the allocator. */
size_t mem_class_bytes(size_t bytes);

/* Bytes of the process that are resident (VmRSS), and those that are not file pages (RssAnon). */
size_t mem_resident_bytes(void);
size_t mem_anonymous_bytes(void);
/* The whole pages in this part of a block go back to the system; what was in them is lost, and the
 * block stays allocated. Returns where the pages end that were given. */
size_t mem_release(void *ptr, size_t from, size_t end);
/* Gives free pages back to the system now. */
void mem_trim(void);
/* Of the whole process, libraries included. */
struct mem_stats {
    size_t allocated_bytes; /* asked for, in size classes */
    size_t active_bytes;    /* in pages that hold some of it */
    size_t resident_bytes;  /* of the allocator, what is resident; 0: it does not know */
};
void mem_stats(struct mem_stats *ret_stats);
/* What the allocator says about itself, in pieces; nothing if it says nothing. */
void mem_stats_print(void (*write)(void *arg, const char *text), void *arg);

#ifdef TERRACE_FAULTS
void mem_fail_after(int64_t count); /* the count-th mem_try_* from now fails; < 0: none */
int64_t mem_try_count(void);        /* mem_try_* calls so far */
#endif
