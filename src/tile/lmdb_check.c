/* The parts of LMDB's format (version 1, 64 bits) that are looked at, integers little-endian:
 *   page   0 pgno(8)  10 flags(2)  12 lower(2)  14 upper(2)  16 offsets of nodes(2 each)
 *   meta   page 16: magic(4) version(4) address(8) mapsize(8) db[2] last page(8) txn(8)
 *   db     page size or pad(4) flags(2) depth(2) branch(8) leaf(8) overflow(8) entries(8) root(8)
 *   node   lo(2) hi(2) flags(2) key length(2) key, then data; of a branch: pgno = lo, hi, flags */
#include "tile/lmdb_check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    PAGE_HEADER_BYTES = 16,
    NODE_HEADER_BYTES = 8,
    META_BYTES = 136,
    META_PAGE_SIZE = 24, /* of db[0]: its pad is the page size */
    META_MAIN_ROOT = 24 + 48 + 40,
    META_LAST_PAGE = 120,
    META_TXN = 128,
    DB_BYTES = 48,
    DB_ROOT = 40,
    DB_DEPTH = 6,
    FLAG_BRANCH = 1,
    FLAG_LEAF = 2,
    FLAG_OVERFLOW = 4,
    NODE_BIG = 1,
    NODE_SUB = 2,
    DEPTH_MAX = 32,
    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 64 * 1024,
};
#define MAGIC UINT32_C(0xbeefc0de)
#define NO_PAGE UINT64_MAX

struct check {
    int fd;
    uint64_t file_bytes;
    uint32_t page_bytes;
    uint64_t budget; /* pages that may still be visited: a circle ends */
    bool failed;     /* to read: an error, no damage */
};

static bool file_read(struct check *check, uint64_t offset, void *to, size_t len)
{
    ssize_t got = pread(check->fd, to, len, (off_t)offset);
    if (got < 0)
        check->failed = true;
    return got == (ssize_t)len;
}

static bool tree_is_whole(struct check *check, uint64_t page, unsigned depth);

static bool overflow_is_whole(struct check *check, uint64_t page, uint64_t data_bytes)
{
    uint64_t pages = (data_bytes + PAGE_HEADER_BYTES + check->page_bytes - 1) / check->page_bytes;
    uint8_t header[PAGE_HEADER_BYTES];
    if (page >= check->file_bytes / check->page_bytes ||
        pages > check->file_bytes / check->page_bytes - page ||
        !file_read(check, page * check->page_bytes, header, sizeof header))
        return false;
    return le64_get(header) == page && le16_get(header + 10) & FLAG_OVERFLOW;
}

static bool leaf_node_is_whole(struct check *check, const uint8_t *node, const uint8_t *end,
                               unsigned depth)
{
    uint64_t size = le16_get(node) | (uint64_t)le16_get(node + 2) << 16;
    uint16_t flags = le16_get(node + 4);
    const uint8_t *data = node + NODE_HEADER_BYTES + le16_get(node + 6);
    size_t here = flags & NODE_BIG ? 8 : size;
    if (data > end || here > (size_t)(end - data))
        return false;
    if (flags & NODE_BIG)
        return overflow_is_whole(check, le64_get(data), size);
    if (!(flags & NODE_SUB))
        return true;
    return size == DB_BYTES && (le64_get(data + DB_ROOT) == NO_PAGE ||
                                tree_is_whole(check, le64_get(data + DB_ROOT), depth + 1));
}

static bool nodes_are_whole(struct check *check, const uint8_t *page, unsigned depth)
{
    const uint8_t *end = page + check->page_bytes;
    bool leaf = le16_get(page + 10) & FLAG_LEAF;
    uint16_t lower = le16_get(page + 12);
    if (lower < PAGE_HEADER_BYTES || lower > check->page_bytes || lower % 2)
        return false;
    for (size_t i = PAGE_HEADER_BYTES; i < lower; i += 2) {
        uint16_t at = le16_get(page + i);
        const uint8_t *node = page + at;
        if (at < lower || at + (uint32_t)NODE_HEADER_BYTES > check->page_bytes)
            return false;
        if (leaf && !leaf_node_is_whole(check, node, end, depth))
            return false;
        uint64_t below = le16_get(node) | (uint64_t)le16_get(node + 2) << 16 |
                         (uint64_t)le16_get(node + 4) << 32;
        if (!leaf && !tree_is_whole(check, below, depth + 1))
            return false;
    }
    return true;
}

static bool tree_is_whole(struct check *check, uint64_t number, unsigned depth)
{
    if (depth > DEPTH_MAX || check->budget == 0 || number < 2 ||
        number >= check->file_bytes / check->page_bytes)
        return false;
    check->budget--;
    uint8_t *page = mem_alloc(check->page_bytes);
    bool whole = file_read(check, number * check->page_bytes, page, check->page_bytes) &&
                 le64_get(page) == number && (le16_get(page + 10) & (FLAG_BRANCH | FLAG_LEAF)) &&
                 nodes_are_whole(check, page, depth);
    mem_free(page);
    return whole;
}

static bool meta_is_whole(const uint8_t *meta)
{
    uint32_t size = le32_get(meta + META_PAGE_SIZE);
    return le32_get(meta) == MAGIC && size >= PAGE_BYTES_MIN && size <= PAGE_BYTES_MAX &&
           (size & (size - 1)) == 0;
}

/* The newer of the two. */
static bool meta_read(struct check *check, uint8_t to[META_BYTES])
{
    uint8_t other[META_BYTES];
    if (!file_read(check, PAGE_HEADER_BYTES, to, META_BYTES) || !meta_is_whole(to))
        return false;
    check->page_bytes = le32_get(to + META_PAGE_SIZE);
    if (!file_read(check, check->page_bytes + PAGE_HEADER_BYTES, other, META_BYTES) ||
        !meta_is_whole(other))
        return false;
    if (le64_get(other + META_TXN) > le64_get(to + META_TXN))
        memcpy(to, other, META_BYTES);
    return true;
}

static bool is_whole(struct check *check, bool deep)
{
    uint8_t meta[META_BYTES];
    if (!meta_read(check, meta))
        return false;
    uint64_t pages = check->file_bytes / check->page_bytes;
    uint64_t root = le64_get(meta + META_MAIN_ROOT), last = le64_get(meta + META_LAST_PAGE);
    uint64_t free_root = le64_get(meta + META_PAGE_SIZE + DB_ROOT);
    check->budget = pages;
    if (!deep && last < pages)
        return true;
    return (root == NO_PAGE || tree_is_whole(check, root, 0)) &&
           (free_root == NO_PAGE || tree_is_whole(check, free_root, 0));
}

enum rc lmdb_check(const char *path, bool deep, bool *ret_damaged, struct err *err)
{
    struct stat stat_of;
    struct check check = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (check.fd < 0 && errno == ENOENT)
        return RC_NOT_FOUND;
    if (check.fd < 0 || fstat(check.fd, &stat_of) != 0) {
        enum rc rc = err_set(err, RC_IO, "shard \"%s\": %s", path, strerror(errno));
        if (check.fd >= 0)
            close(check.fd);
        return rc;
    }
    check.file_bytes = (uint64_t)stat_of.st_size;
    *ret_damaged = check.file_bytes > 0 && !is_whole(&check, deep);
    close(check.fd);
    if (check.failed)
        return err_set(err, RC_IO, "shard \"%s\" could not be read", path);
    return check.file_bytes > 0 ? RC_OK : RC_NOT_FOUND;
}
