// SPDX-License-Identifier: Apache-2.0
/* mem.c - allocates through the C library or jemalloc, and knows their size classes. */
#include "base/mem.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef TERRACE_JEMALLOC
#include <jemalloc/jemalloc.h>

/* Read by jemalloc at start. Huge pages: a random row costs two cache misses, and with small pages
 * as many misses of the TLB. One arena, because each begins with huge pages of its own, and the
 * threads beside the executor allocate little. A short decay, on a thread of jemalloc's: what is
 * freed should not stay resident, nor be given back by the executor. */
extern const char *malloc_conf;
const char *malloc_conf =
    "thp:always,narenas:1,background_thread:true,dirty_decay_ms:2000,muzzy_decay_ms:0";
#else
#include <malloc.h>
#endif

#include "base/banned.h"

#ifdef TERRACE_FAULTS

/* An exception to "state is an argument": the allocator is one for the process, and so is the
 * question of which call fails. Not in release builds. */
static _Atomic int64_t try_count;
static _Atomic int64_t fail_at = -1; /* the value of try_count of the call that fails */

void mem_fail_after(int64_t count)
{
    atomic_store(&fail_at, count < 0 ? -1 : atomic_load(&try_count) + count);
}

int64_t mem_try_count(void)
{
    return atomic_load(&try_count);
}

static bool try_may_succeed(void)
{
    return atomic_fetch_add(&try_count, 1) + 1 != atomic_load(&fail_at);
}

#else

static bool try_may_succeed(void)
{
    return true;
}

#endif

/* malloc(0) may be NULL, which would read as a failure. */
static size_t request_bytes(size_t bytes)
{
    return bytes ? bytes : 1;
}

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "out of memory: could not allocate %zu bytes\n", bytes);
    abort();
}

void *mem_alloc(size_t bytes)
{
    void *ptr = malloc(request_bytes(bytes));
    if (UNLIKELY(!ptr))
        out_of_memory(bytes);
    return ptr;
}

void *mem_zalloc(size_t bytes)
{
    void *ptr = calloc(1, request_bytes(bytes));
    if (UNLIKELY(!ptr))
        out_of_memory(bytes);
    return ptr;
}

void *mem_realloc(void *ptr, size_t bytes)
{
    void *moved = realloc(ptr, request_bytes(bytes));
    if (UNLIKELY(!moved))
        out_of_memory(bytes);
    return moved;
}

void *mem_alloc_aligned(size_t alignment, size_t bytes)
{
    void *ptr = aligned_alloc(alignment, bytes ? bytes : alignment);
    if (UNLIKELY(!ptr))
        out_of_memory(bytes);
    return ptr;
}

void *mem_try_alloc(size_t bytes)
{
    if (!try_may_succeed() || bytes > PTRDIFF_MAX)
        return NULL;
    return malloc(request_bytes(bytes));
}

void *mem_try_realloc(void *ptr, size_t bytes)
{
    if (!try_may_succeed() || bytes > PTRDIFF_MAX)
        return NULL;
    return realloc(ptr, request_bytes(bytes));
}

void *mem_dup(const void *ptr, size_t bytes)
{
    void *copy = mem_alloc(bytes);
    if (bytes)
        memcpy(copy, ptr, bytes);
    return copy;
}

void mem_free(void *ptr)
{
    free(ptr);
}

/* jemalloc's classes: 8, then multiples of 16 up to 128, then four to each doubling. */
size_t mem_release(void *ptr, size_t from, size_t end)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)ptr;
    uintptr_t first = (base + from + page - 1) & ~(page - 1), last = (base + end) & ~(page - 1);
    if (last <= first || madvise((void *)first, last - first, MADV_DONTNEED) != 0)
        return from;
    return (size_t)(last - base);
}

size_t mem_class_bytes(size_t bytes)
{
    if (bytes <= 8)
        return 8;
    if (bytes <= 128)
        return (bytes + 15) & ~(size_t)15;
    if (bytes > PTRDIFF_MAX)
        return bytes; /* no allocator gives it; rounding up would overflow */
    unsigned power = 63 - (unsigned)__builtin_clzll(bytes - 1); /* 2^power < bytes <= 2^(power+1) */
    size_t step = (size_t)1 << (power - 2);
    return (bytes + step - 1) & ~(step - 1);
}

/* A line of /proc/self/status, "label:   123 kB", in bytes; 0 where there is none. */
static size_t status_bytes(const char *label)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return 0;
    text[len] = '\0';
    const char *found = strstr(text, label);
    return found ? (size_t)strtoull(found + strlen(label), NULL, 10) * 1024 : 0;
}

size_t mem_resident_bytes(void)
{
    return status_bytes("\nVmRSS:");
}

size_t mem_anonymous_bytes(void)
{
    return status_bytes("\nRssAnon:");
}

#ifdef TERRACE_JEMALLOC

void mem_trim(void)
{
    char name[64];
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    snprintf(name, sizeof name, "arena.%u.purge", (unsigned)MALLCTL_ARENAS_ALL);
    mallctl(name, NULL, NULL, NULL, 0);
}

void mem_stats(struct mem_stats *ret_stats)
{
    uint64_t epoch = 1;
    size_t len = sizeof epoch;
    *ret_stats = (struct mem_stats){0};
    mallctl("epoch", &epoch, &len, &epoch, len); /* the numbers are of this moment */
    len = sizeof(size_t);
    mallctl("stats.allocated", &ret_stats->allocated_bytes, &len, NULL, 0);
    mallctl("stats.active", &ret_stats->active_bytes, &len, NULL, 0);
    mallctl("stats.resident", &ret_stats->resident_bytes, &len, NULL, 0);
}

void mem_stats_print(void (*write)(void *arg, const char *text), void *arg)
{
    malloc_stats_print(write, arg, NULL);
}

#else

void mem_trim(void)
{
    malloc_trim(0);
}

void mem_stats(struct mem_stats *ret_stats)
{
    struct mallinfo2 info = mallinfo2();
    *ret_stats = (struct mem_stats){.allocated_bytes = info.uordblks + info.hblkhd,
                                    .active_bytes = info.arena + info.hblkhd};
}

void mem_stats_print(void (*write)(void *arg, const char *text), void *arg)
{
    (void)write;
    (void)arg;
}

#endif
