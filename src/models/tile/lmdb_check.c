// SPDX-License-Identifier: Apache-2.0
/* lmdb_check.c - the parts of LMDB's format (version 1, 64 bits) that are looked at, integers
 * little-endian:
 *   page   0 pgno(8)  8 pad(2)  10 flags(2)  12 lower(2)  14 upper(2)  16 offsets of nodes(2 each)
 *          of a long value: 12 how many pages it has(4)
 *   meta   page 16: magic(4) version(4) address(8) mapsize(8) db[2] last page(8) txn(8)
 *   db     page size or pad(4) flags(2) depth(2) branch(8) leaf(8) overflow(8) entries(8) root(8)
 *   node   lo(2) hi(2) flags(2) key length(2) key, then data; of a branch: pgno = lo, hi, flags
 *   db[0]  the free list: txn(8) → count(8), that many page numbers, falling
 *   db[1]  names → db, which lead to the trees of databases
 *
 * What is asked of a file is what LMDB relies on when it follows, changes, splits and merges pages,
 * and no more: counters that it only reports may be wrong.
 *
 * Invariants:
 *   (1) A page belongs to one place: a tree, a long value, or the free list. So there is no circle.
 *   (2) All leaves of a tree are as deep as its db says.
 *   (3) The nodes of a page lie side by side from `upper` to its end.
 *   (4) Keys ascend, within a page and from page to page, and those of branches divide them.
 *   (5) What lies behind the end of the file is free. */
#include "models/tile/lmdb_check.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    PAGE_HEADER_BYTES = 16,
    PAGE_FLAGS = 10,
    PAGE_LOWER = 12,
    PAGE_UPPER = 14,
    PAGE_VALUE_PAGES = 12,
    NODE_HEADER_BYTES = 8,
    META_BYTES = 136,
    META_VERSION = 4,
    META_FREE = 24, /* its pad is the page size */
    META_MAIN = 24 + 48,
    META_LAST_PAGE = 120,
    META_TXN = 128,
    DB_BYTES = 48,
    DB_FLAGS = 4,
    DB_DEPTH = 6,
    DB_ROOT = 40,
    FLAG_BRANCH = 1,
    FLAG_LEAF = 2,
    FLAG_OVERFLOW = 4,
    FLAG_META = 8,
    FLAG_LEAF2 = 0x20, /* values of one key, all of one size: no nodes */
    NODE_BIG = 1,      /* the data is the number of a page */
    NODE_SUB = 2,      /* the data is a db */
    NODE_DUP = 4,      /* a key with several values */
    DB_DUPSORT = 4,
    DB_INTEGERKEY = 8,
    DB_FLAGS_KNOWN = 0x7e,
    ENV_FLAGS = 0x4001, /* of the environment that made it; kept in the flags of the free list */
    VERSION = 1,
    DEPTH_MAX = 32,
    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 32 * 1024,
    FIRST_PAGE = 2,
    READ_TRIES = 3,
    FREE_AT_ONCE = 512, /* entries of the free list */
};
#define MAGIC UINT32_C(0xbeefc0de)
#define NO_PAGE UINT64_MAX

struct check {
    int fd;
    uint64_t file_bytes;
    uint32_t page_bytes;
    uint64_t page_count; /* in the file */
    uint64_t last, txn;  /* of the header */
    uint8_t *taken;      /* a bit a page: (1) */
    uint16_t *node_size; /* by half the offset, of the page that is looked at: (3) */
    bool values;         /* LMDB_CHECK_WRITE */
    struct bytes table;
    bool has_table, has_format, foreign;
    bool failed;    /* to read: an error, no damage */
    bool no_memory; /* as well */
};

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_OURS, TREE_OTHER, TREE_DUP };

struct tree {
    enum tree_kind kind;
    uint16_t flags;
    unsigned depth;
    uint64_t root;
    /* (4); not where another program may have another order */
    struct buf last; /* key */
    bool has_last;
    bool divides; /* it was a branch's: the next may be the same */
};

static bool file_read(struct check *check, uint64_t offset, void *to, size_t len)
{
    ssize_t got = pread(check->fd, to, len, (off_t)offset);
    if (got < 0)
        check->failed = true;
    return got == (ssize_t)len;
}

/* ---- which pages ---- */

/* (1) */
static bool page_take(struct check *check, uint64_t page)
{
    if (page < FIRST_PAGE || page > check->last)
        return false;
    uint8_t *byte = &check->taken[page / 8], bit = (uint8_t)(1u << page % 8);
    bool was = *byte & bit;
    *byte |= bit;
    return !was;
}

/* Of trees and values: they are in the file. */
static bool pages_take(struct check *check, uint64_t page, uint64_t count)
{
    if (page >= check->page_count || count > check->page_count - page)
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!page_take(check, page + i))
            return false;
    return true;
}

static bool value_is_whole(struct check *check, uint64_t page, uint64_t bytes)
{
    uint64_t pages = (bytes + PAGE_HEADER_BYTES + check->page_bytes - 1) / check->page_bytes;
    uint8_t header[PAGE_HEADER_BYTES];
    if (!check->values)
        return pages_take(check, page, pages);
    if (page >= check->page_count ||
        !file_read(check, page * check->page_bytes, header, sizeof header))
        return false;
    uint32_t has = le32_get(header + PAGE_VALUE_PAGES); /* more, if a longer one was replaced */
    return le64_get(header) == page && le16_get(header + PAGE_FLAGS) == FLAG_OVERFLOW &&
           has >= pages && pages_take(check, page, has);
}

/* ---- nodes ---- */

struct node {
    uint16_t flags;
    uint64_t data_bytes; /* of a leaf */
    uint64_t below;      /* of a branch: a page */
    struct bytes key;
    const uint8_t *data; /* of a leaf: what is in the page */
    uint32_t size;       /* in the page, rounded */
};

/* What fits beside another one into a page; longer values are put elsewhere. */
static uint32_t node_bytes_max(const struct check *check)
{
    return (((check->page_bytes - PAGE_HEADER_BYTES) / 2) & ~1u) - 2;
}

static bool node_decode(const struct check *check, const uint8_t *page, uint32_t at, bool leaf,
                        struct node *ret_node)
{
    if (at % 2 || at + (uint32_t)NODE_HEADER_BYTES > check->page_bytes)
        return false;
    const uint8_t *node = page + at;
    uint64_t low = le16_get(node) | (uint64_t)le16_get(node + 2) << 16;
    uint16_t flags = le16_get(node + 4), key_bytes = le16_get(node + 6);
    uint64_t size = (uint64_t)NODE_HEADER_BYTES + key_bytes;
    if (leaf)
        size += flags & NODE_BIG ? sizeof(uint64_t) : low;
    if (size > node_bytes_max(check) || at + size > check->page_bytes)
        return false;
    *ret_node = (struct node){.flags = leaf ? flags : 0,
                              .data_bytes = low,
                              .below = low | (uint64_t)flags << 32,
                              .key = bytes_of(node + NODE_HEADER_BYTES, key_bytes),
                              .data = node + NODE_HEADER_BYTES + key_bytes,
                              .size = (uint32_t)(size + size % 2)};
    return true;
}

/* (3) */
static bool nodes_lie_side_by_side(struct check *check, const uint8_t *page, size_t count,
                                   bool leaf)
{
    uint32_t at = le16_get(page + PAGE_UPPER);
    bool whole = true;
    size_t known = 0, met = 0;
    for (; known < count && whole; known++) {
        uint32_t offset = le16_get(page + PAGE_HEADER_BYTES + 2 * known);
        struct node node;
        whole = offset >= at && node_decode(check, page, offset, leaf, &node) &&
                check->node_size[offset / 2] == 0;
        if (!whole)
            break;
        check->node_size[offset / 2] = (uint16_t)node.size;
    }
    for (; whole && at < check->page_bytes; met++) {
        uint16_t size = check->node_size[at / 2];
        whole = size > 0;
        at += size;
    }
    for (size_t i = 0; i < known; i++)
        check->node_size[le16_get(page + PAGE_HEADER_BYTES + 2 * i) / 2] = 0;
    return whole && met == count && at == check->page_bytes;
}

static int key_order(const struct tree *tree, struct bytes a, struct bytes b)
{
    if (tree->kind != TREE_FREE)
        return bytes_cmp(a, b);
    uint64_t x = le64_get(a.ptr), y = le64_get(b.ptr);
    return (x > y) - (x < y);
}

/* (4) */
static bool key_follows(struct tree *tree, struct bytes key, bool divides)
{
    if (tree->kind == TREE_OTHER || tree->kind == TREE_DUP)
        return true;
    if (key.len == 0 || (tree->kind == TREE_FREE && key.len != sizeof(uint64_t)))
        return false;
    int order = tree->has_last ? key_order(tree, buf_bytes(&tree->last), key) : -1;
    if (order > 0 || (order == 0 && (divides || !tree->divides)))
        return false;
    buf_cut(&tree->last, 0);
    tree->has_last = true;
    tree->divides = divides;
    return buf_add_bytes(&tree->last, key);
}

/* ---- the free list ---- */

static bool free_pages_are_whole(struct check *check, const uint8_t *entry, size_t count,
                                 uint64_t *before)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t page = le64_get(entry + 8 * i);
        if (page >= *before || !page_take(check, page))
            return false;
        *before = page;
    }
    return true;
}

static bool free_record_is_whole(struct check *check, const struct node *node)
{
    uint8_t part[8 * FREE_AT_ONCE];
    uint64_t before = NO_PAGE, count = 0, room = node->data_bytes / 8;
    if (le64_get(node->key.ptr) > check->txn || node->data_bytes % 8 || room == 0)
        return false;
    if (!(node->flags & NODE_BIG)) {
        count = le64_get(node->data);
        return count < room && free_pages_are_whole(check, node->data + 8, count, &before);
    }
    uint64_t at = le64_get(node->data) * check->page_bytes + PAGE_HEADER_BYTES;
    if (!file_read(check, at, part, 8) || (count = le64_get(part)) >= room)
        return false;
    for (uint64_t done = 0; done < count;) {
        size_t now = count - done < FREE_AT_ONCE ? (size_t)(count - done) : FREE_AT_ONCE;
        if (!file_read(check, at + 8 + 8 * done, part, 8 * now) ||
            !free_pages_are_whole(check, part, now, &before))
            return false;
        done += now;
    }
    return true;
}

/* ---- trees ---- */

static bool tree_is_whole(struct check *check, struct tree *tree);

static bool db_decode(const uint8_t *db, enum tree_kind kind, struct tree *ret_tree)
{
    *ret_tree = (struct tree){.kind = kind,
                              .flags = le16_get(db + DB_FLAGS),
                              .depth = le16_get(db + DB_DEPTH),
                              .root = le64_get(db + DB_ROOT)};
    return ret_tree->depth <= DEPTH_MAX && (ret_tree->depth == 0) == (ret_tree->root == NO_PAGE);
}

/* A database of its own, or the values of one key. */
static bool below_is_whole(struct check *check, const struct tree *above, const struct node *node)
{
    struct tree tree;
    bool is_table = above->kind == TREE_MAIN && bytes_eq(node->key, check->table);
    bool is_format = above->kind == TREE_MAIN && bytes_eq(node->key, BYTES("terrace"));
    enum tree_kind kind = is_table || is_format      ? TREE_OURS
                          : above->kind == TREE_MAIN ? TREE_OTHER
                                                     : TREE_DUP;
    if (node->data_bytes != DB_BYTES || !db_decode(node->data, kind, &tree) ||
        tree.flags & ~DB_FLAGS_KNOWN)
        return false;
    check->has_table = check->has_table || is_table;
    check->has_format = check->has_format || is_format;
    if (kind == TREE_OURS && tree.flags != 0) {
        check->foreign = true;
        tree.kind = TREE_OTHER;
    }
    return tree_is_whole(check, &tree);
}

static unsigned node_flags_allowed(const struct tree *tree)
{
    if (tree->kind == TREE_MAIN)
        return NODE_BIG | NODE_SUB;
    return tree->flags & DB_DUPSORT ? NODE_BIG | NODE_SUB | NODE_DUP : NODE_BIG;
}

static bool leaf_node_is_whole(struct check *check, struct tree *tree, const struct node *node)
{
    if (node->flags & ~node_flags_allowed(tree) || !key_follows(tree, node->key, false))
        return false;
    if (tree->kind == TREE_FREE && !free_record_is_whole(check, node))
        return false;
    if (node->flags & NODE_BIG)
        return node->flags == NODE_BIG &&
               value_is_whole(check, le64_get(node->data), node->data_bytes);
    return !(node->flags & NODE_SUB) || below_is_whole(check, tree, node);
}

static bool page_is_whole(struct check *check, struct tree *tree, uint64_t number, unsigned level);

static bool nodes_are_whole(struct check *check, struct tree *tree, const uint8_t *page,
                            unsigned level)
{
    bool leaf = level == tree->depth;
    uint16_t flags = le16_get(page + PAGE_FLAGS), lower = le16_get(page + PAGE_LOWER),
             upper = le16_get(page + PAGE_UPPER);
    size_t count = (size_t)(lower - PAGE_HEADER_BYTES) / 2;
    if (lower < PAGE_HEADER_BYTES || lower % 2 || upper < lower || upper > check->page_bytes)
        return false;
    if (leaf && tree->kind == TREE_DUP && flags == (FLAG_LEAF | FLAG_LEAF2))
        return count > 0;
    if (flags != (leaf ? FLAG_LEAF : FLAG_BRANCH) || count < (leaf ? 1 : 2) ||
        !nodes_lie_side_by_side(check, page, count, leaf))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct node node = {0};
        (void)node_decode(check, page, le16_get(page + PAGE_HEADER_BYTES + 2 * i), leaf, &node);
        if (leaf && !leaf_node_is_whole(check, tree, &node))
            return false;
        /* the first of a branch stands for everything before the second, whatever its key */
        if (!leaf && ((i > 0 && !key_follows(tree, node.key, true)) ||
                      !page_is_whole(check, tree, node.below, level + 1)))
            return false;
    }
    return true;
}

static bool page_is_whole(struct check *check, struct tree *tree, uint64_t number, unsigned level)
{
    if (!pages_take(check, number, 1))
        return false;
    uint8_t *page = mem_alloc(check->page_bytes);
    bool whole = file_read(check, number * check->page_bytes, page, check->page_bytes) &&
                 le64_get(page) == number && nodes_are_whole(check, tree, page, level); /* (2) */
    mem_free(page);
    return whole;
}

static bool tree_is_whole(struct check *check, struct tree *tree)
{
    if (tree->root == NO_PAGE)
        return true;
    buf_init(&tree->last, PAGE_BYTES_MAX);
    bool whole = page_is_whole(check, tree, tree->root, 1);
    buf_done(&tree->last);
    return whole;
}

static bool trees_are_whole(struct check *check, const uint8_t *meta)
{
    struct tree main, list;
    if (!db_decode(meta + META_MAIN, TREE_MAIN, &main) ||
        !db_decode(meta + META_FREE, TREE_FREE, &list) || main.flags & ~DB_FLAGS_KNOWN)
        return false;
    list.flags = 0;
    if (main.flags != 0) {
        check->foreign = true;
        main.kind = TREE_OTHER;
    }
    if (!tree_is_whole(check, &main) || !tree_is_whole(check, &list))
        return false;
    for (uint64_t page = check->page_count; page <= check->last; page++) /* (5) */
        if (page_take(check, page))
            return false;
    return true;
}

/* ---- the header ---- */

/* Pages behind the end of the file are named in it, 8 bytes each. */
static bool last_page_can_be(const struct check *check, uint64_t last, uint32_t page_bytes)
{
    return last >= FIRST_PAGE - 1 &&
           last < check->file_bytes / page_bytes + check->file_bytes / sizeof(uint64_t);
}

static bool meta_is_whole(const struct check *check, const uint8_t *page, uint64_t slot)
{
    const uint8_t *meta = page + PAGE_HEADER_BYTES;
    uint32_t size = le32_get(meta + META_FREE);
    uint64_t txn = le64_get(meta + META_TXN);
    return le32_get(meta) == MAGIC && le16_get(page + PAGE_FLAGS) & FLAG_META &&
           size >= PAGE_BYTES_MIN && size <= PAGE_BYTES_MAX && (size & (size - 1)) == 0 &&
           (txn % 2 == slot || txn == 0) &&
           last_page_can_be(check, le64_get(meta + META_LAST_PAGE), size) &&
           (le16_get(meta + META_FREE + DB_FLAGS) & ~ENV_FLAGS) == DB_INTEGERKEY;
}

/* Both are written in turn, so one is the next after the other. */
static bool metas_are_whole(struct check *check, uint8_t meta[2][PAGE_HEADER_BYTES + META_BYTES])
{
    const uint8_t *a = meta[0] + PAGE_HEADER_BYTES, *b = meta[1] + PAGE_HEADER_BYTES;
    if (!file_read(check, 0, meta[0], sizeof meta[0]) || !meta_is_whole(check, meta[0], 0))
        return false;
    check->page_bytes = le32_get(a + META_FREE);
    if (!file_read(check, check->page_bytes, meta[1], sizeof meta[1]) ||
        !meta_is_whole(check, meta[1], 1))
        return false;
    uint64_t gap = le64_get(a + META_TXN) - le64_get(b + META_TXN);
    return gap + 1 <= 2 && le32_get(b + META_FREE) == check->page_bytes &&
           le32_get(a + META_VERSION) == le32_get(b + META_VERSION);
}

static bool is_whole(struct check *check, const uint8_t *meta)
{
    check->page_count = check->file_bytes / check->page_bytes;
    check->last = le64_get(meta + META_LAST_PAGE);
    check->txn = le64_get(meta + META_TXN);
    if (check->page_count < FIRST_PAGE)
        return false;
    check->taken = mem_try_alloc((size_t)(check->last / 8 + 1)); /* the file says how much */
    if (!check->taken) {
        check->no_memory = true;
        return false;
    }
    memset(check->taken, 0, (size_t)(check->last / 8 + 1));
    check->node_size = mem_zalloc(check->page_bytes);
    bool whole = trees_are_whole(check, meta);
    mem_free(check->taken);
    mem_free(check->node_size);
    return whole;
}

static enum rc foreign_check(const struct check *check, struct err *err)
{
    if (check->foreign)
        return err_set(err, RC_VERSION, "its keys have another order than those of tiles");
    if (check->has_format && !check->has_table)
        return err_set(err, RC_VERSION, "it has our mark, and no database \"%.*s\"",
                       (int)check->table.len, (const char *)check->table.ptr);
    return RC_OK;
}

enum rc lmdb_check(int fd, const struct lmdb_check_options *options, bool *ret_damaged,
                   struct err *err)
{
    struct check check = {
        .fd = fd, .values = options->what == LMDB_CHECK_WRITE, .table = options->table};
    uint8_t meta[2][PAGE_HEADER_BYTES + META_BYTES];
    struct stat stat_of;
    if (fstat(fd, &stat_of) != 0)
        return err_set(err, RC_IO, "%s", strerror(errno));
    check.file_bytes = (uint64_t)stat_of.st_size;
    if (check.file_bytes == 0)
        return RC_NOT_FOUND;
    bool whole = metas_are_whole(&check, meta);
    for (int i = 1; i < READ_TRIES && !whole; i++) /* it may just have been written */
        whole = metas_are_whole(&check, meta);
    uint32_t version = whole ? le32_get(meta[0] + PAGE_HEADER_BYTES + META_VERSION) : VERSION;
    if (version != VERSION)
        return err_set(err, RC_VERSION, "version %u of LMDB's format is unknown", version);
    const uint8_t *mine = meta[options->txn % 2] + PAGE_HEADER_BYTES;
    if (whole && options->what != LMDB_CHECK_OPEN) {
        if (le64_get(mine + META_TXN) != options->txn)
            return err_set(err, RC_NEWER, "its header is of another transaction");
        whole = is_whole(&check, mine);
    }
    if (check.failed)
        return err_set(err, RC_IO, "it could not be read");
    if (check.no_memory)
        return err_set(err, RC_NOMEM, "could not allocate memory to look at its pages");
    *ret_damaged = !whole;
    return whole ? foreign_check(&check, err) : RC_OK;
}
