// SPDX-License-Identifier: Apache-2.0
/* iofault.c - a preloaded library that lets calls on chosen files fail or wait, while a server
 * runs.
 *
 * The tests map a control file (tests/wire/iofault.py writes the same layout) of RULES rules:
 *   OFFSET  SIZE  WHAT
 *   0       4     armed: 0 is off; written last, read first
 *   4       4     calls: bits of enum call
 *   8       4     the errno to fail with; 0: the call waits until the rule is off, and goes on
 *   12      4     how many matching calls pass before the first one fails
 *   16      4     how many calls fail then; -1: all of them
 *   20      4     how many bytes a write has to have, so that it matches
 *   24      8     how many have failed, or waited
 *   32      224   what the path of the file has to contain, ended by a NUL
 * Behind the rules stand SYNCED pairs of u64, an inode number and how many bytes of that file were
 * there when the last sync that succeeded began: what a power cut leaves of a file that only grows.
 * Integers are in this machine's order. All counters are changed by atomic steps: any thread of the
 * server may arrive here. A write that fails writes nothing. Without a control file nothing fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RULES = 16, PATH_LEN = 224, SYNCED = 4096 };

enum call {
    CALL_OPEN = 1,   /* open() that may create, or any open() of a matching path */
    CALL_READ = 2,   /* read, pread */
    CALL_WRITE = 4,  /* write, writev, pwrite, pwritev */
    CALL_SYNC = 8,   /* fsync, fdatasync, sync_file_range, msync is not seen */
    CALL_SIZE = 16,  /* ftruncate, fallocate */
    CALL_RENAME = 32 /* rename, either name */
};

struct rule {
    uint32_t armed;
    uint32_t calls;
    int32_t error;
    int32_t skip;
    int32_t times;
    uint32_t bytes_min;
    uint64_t failed;
    char path[PATH_LEN];
};
_Static_assert(sizeof(struct rule) == 256, "tests/wire/iofault.py has the same layout");

struct synced {
    uint64_t inode; /* 0: free */
    uint64_t bytes;
};

struct control {
    struct rule rule[RULES];
    struct synced synced[SYNCED];
};

static struct control *control; /* mapped once, before main(); shared with the test */

__attribute__((constructor)) static void rules_map(void)
{
    const char *path = getenv("TERRACE_IOFAULT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        control = map;
}

/* One of those that are left, if there are any. */
static bool take_one(int32_t *left)
{
    int32_t now = __atomic_load_n(left, __ATOMIC_ACQUIRE);
    while (now > 0)
        if (__atomic_compare_exchange_n(left, &now, now - 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static bool rule_fires(struct rule *rule)
{
    if (take_one(&rule->skip) || (rule->times >= 0 && !take_one(&rule->times)))
        return false;
    __atomic_fetch_add(&rule->failed, 1, __ATOMIC_ACQ_REL);
    return true;
}

/* Whether a call on this path has to fail; errno is set then. bytes: of a write. */
static bool path_fails(enum call call, const char *path, size_t bytes)
{
    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &control->rule[i];
        if (!__atomic_load_n(&rule->armed, __ATOMIC_ACQUIRE) || !(rule->calls & call) ||
            (call == CALL_WRITE && bytes < rule->bytes_min) || !strstr(path, rule->path) ||
            !rule_fires(rule))
            continue;
        if (rule->error == 0) {
            while (__atomic_load_n(&rule->armed, __ATOMIC_ACQUIRE))
                usleep(1000);
            continue;
        }
        errno = rule->error;
        return true;
    }
    return false;
}

static bool some_rule(enum call call)
{
    if (!control)
        return false;
    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &control->rule[i];
        if (__atomic_load_n(&rule->armed, __ATOMIC_ACQUIRE) && (rule->calls & call))
            return true;
    }
    return false;
}

static bool fd_fails(enum call call, int fd, size_t bytes)
{
    if (!some_rule(call))
        return false;
    char link[64], path[4096];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (len <= 0)
        return false;
    path[len] = 0;
    return path_fails(call, path, bytes);
}

/* The function of this name in the next library, the C library's. */
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static size_t iov_bytes(const struct iovec *iov, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

/* A wrapper of a call whose first argument is a descriptor. */
#define WRAP_FD(result, name, call, params, args) WRAP_BYTES(result, name, call, 0, params, args)
#define WRAP_BYTES(result, name, call, bytes, params, args)              \
    result name params;                                                  \
    result name params                                                   \
    {                                                                    \
        static __typeof__(name) *next; /* every thread finds the same */ \
        if (!next)                                                       \
            next = NEXT(name);                                           \
        return fd_fails(call, fd, bytes) ? -1 : next args;               \
    }

WRAP_FD(ssize_t, read, CALL_READ, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP_FD(ssize_t, pread, CALL_READ, (int fd, void *buf, size_t len, off_t at), (fd, buf, len, at))
WRAP_FD(ssize_t, pread64, CALL_READ, (int fd, void *buf, size_t len, off_t at), (fd, buf, len, at))
WRAP_BYTES(ssize_t, write, CALL_WRITE, len, (int fd, const void *buf, size_t len), (fd, buf, len))
WRAP_BYTES(ssize_t, writev, CALL_WRITE, iov_bytes(iov, count),
           (int fd, const struct iovec *iov, int count), (fd, iov, count))
WRAP_BYTES(ssize_t, pwrite, CALL_WRITE, len, (int fd, const void *buf, size_t len, off_t at),
           (fd, buf, len, at))
WRAP_BYTES(ssize_t, pwrite64, CALL_WRITE, len, (int fd, const void *buf, size_t len, off_t at),
           (fd, buf, len, at))
WRAP_BYTES(ssize_t, pwritev, CALL_WRITE, iov_bytes(iov, count),
           (int fd, const struct iovec *iov, int count, off_t at), (fd, iov, count, at))
WRAP_BYTES(ssize_t, pwritev64, CALL_WRITE, iov_bytes(iov, count),
           (int fd, const struct iovec *iov, int count, off_t at), (fd, iov, count, at))

/* Inode numbers of removed files are used again: the newest sync is the truth. */
static void synced_set(uint64_t inode, uint64_t bytes)
{
    for (int i = 0; i < SYNCED; i++) {
        struct synced *synced = &control->synced[(inode + (uint64_t)i) % SYNCED];
        uint64_t none = 0;
        if (__atomic_load_n(&synced->inode, __ATOMIC_ACQUIRE) == inode ||
            __atomic_compare_exchange_n(&synced->inode, &none, inode, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&synced->bytes, bytes, __ATOMIC_RELEASE);
            return;
        }
    }
}

#define WRAP_SYNC(name)                                                               \
    int name(int fd)                                                                  \
    {                                                                                 \
        struct stat before;                                                           \
        bool is_file = control && fstat(fd, &before) == 0 && S_ISREG(before.st_mode); \
        int result = fd_fails(CALL_SYNC, fd, 0) ? -1 : NEXT(name)(fd);                \
        if (result == 0 && is_file)                                                   \
            synced_set(before.st_ino, (uint64_t)before.st_size);                      \
        return result;                                                                \
    }

WRAP_SYNC(fsync)
WRAP_SYNC(fdatasync)
WRAP_FD(int, sync_file_range, flags ? CALL_SYNC : 0, (int fd, off_t at, off_t len, unsigned flags),
        (fd, at, len, flags)) /* without flags it is a question, which no disk can fail */
WRAP_FD(int, ftruncate, CALL_SIZE, (int fd, off_t len), (fd, len))
WRAP_FD(int, ftruncate64, CALL_SIZE, (int fd, off_t len), (fd, len))
WRAP_FD(int, fallocate, CALL_SIZE, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len))
WRAP_FD(int, fallocate64, CALL_SIZE, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len))

int rename(const char *from, const char *to)
{
    if (some_rule(CALL_RENAME) &&
        (path_fails(CALL_RENAME, from, 0) || path_fails(CALL_RENAME, to, 0)))
        return -1;
    return NEXT(rename)(from, to);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define WRAP_OPEN(name)                                             \
    int name(const char *path, int flags, ...)                      \
    {                                                               \
        va_list args;                                               \
        va_start(args, flags);                                      \
        mode_t mode = mode_of(flags, args);                         \
        va_end(args);                                               \
        if (some_rule(CALL_OPEN) && path_fails(CALL_OPEN, path, 0)) \
            return -1;                                              \
        return NEXT(name)(path, flags, mode);                       \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    if (some_rule(CALL_OPEN) && path_fails(CALL_OPEN, path, 0))
        return -1;
    return NEXT(openat)(dir, path, flags, mode);
}
