// SPDX-License-Identifier: Apache-2.0
/* flush_sort.c - SORT: one sealed segment becomes one run.
 *
 * Rows are built in memory exactly as they stand in the run file; what is sorted are pairs of an
 * 8-byte piece of the key and a pointer. Keys of a store share long prefixes (space, length,
 * namespace, LSN), so the piece moves: it begins after what all keys of a space share, and rows
 * whose pieces are equal are sorted again by the next 8 bytes. Pieces are squeezed to the bits in
 * which they differ (of decimal digits: 4 of 8) and sorted by radix, as many leading bits as it
 * takes to leave few rows together. */
#include "store/flush/flush_int.h"

#include "base/mem.h"
#include "store/journal/record.h"

#include "base/banned.h"

enum {
    SORT_BLOCK_BYTES = 1024 * 1024, /* rows are built in blocks of this size */
    SORT_SMALL_COUNT = 12,          /* compared row by row */
    SORT_INSERT_COUNT = 48,         /* pieces sorted by insertion */
    SORT_AHEAD = 16,                /* rows prefetched */
    RADIX_BITS_MAX = 11,            /* of one pass */
    PIECE_BYTES = 8,
};

struct item {
    uint64_t piece; /* the space; then big-endian bytes of the key at the depth being sorted, filled
                       up with 0 */
    const uint8_t *row;
};

struct flush__sorter {
    struct arena arena; /* the blocks */
    uint8_t *at;        /* room in the newest block */
    uint8_t *end;
    struct item *item;
    struct item *other; /* room for the radix passes; as long as item */
    size_t item_count;
    size_t item_cap;
    const uint8_t *first[STORE_SPACES_MAX]; /* a row of the space, or NULL */
    size_t shared[STORE_SPACES_MAX];        /* bytes in which all keys of the space agree */
};

struct flush__sorter *flush__sorter_new(void)
{
    struct flush__sorter *sorter = mem_zalloc(sizeof *sorter);
    arena_init(&sorter->arena);
    return sorter;
}

static void sorter_clear(struct flush__sorter *sorter)
{
    arena_clear(&sorter->arena);
    sorter->at = sorter->end = NULL;
    sorter->item_count = 0;
    memset(sorter->first, 0, sizeof sorter->first);
}

void flush__sorter_free(struct flush__sorter *sorter)
{
    if (!sorter)
        return;
    arena_done(&sorter->arena);
    mem_free(sorter->item);
    mem_free(sorter->other);
    mem_free(sorter);
}

/* ---- collecting ---- */

static enum rc no_memory(size_t bytes, struct err *err)
{
    return err_set(err, RC_NOMEM, "could not allocate %zu bytes to sort a segment", bytes);
}

static enum rc room_reserve(struct flush__sorter *sorter, size_t bytes, struct err *err)
{
    if (LIKELY(bytes <= (size_t)(sorter->end - sorter->at)))
        return RC_OK;
    size_t block_bytes = bytes > SORT_BLOCK_BYTES ? bytes : SORT_BLOCK_BYTES;
    uint8_t *block = arena_try_alloc(&sorter->arena, block_bytes);
    if (!block)
        return no_memory(block_bytes, err);
    sorter->at = block;
    sorter->end = block + block_bytes;
    return RC_OK;
}

static enum rc item_add(struct flush__sorter *sorter, const uint8_t *row, struct err *err)
{
    if (sorter->item_count == sorter->item_cap) {
        size_t cap = sorter->item_cap ? sorter->item_cap + sorter->item_cap / 2 : 4096;
        struct item *item = mem_try_realloc(sorter->item, cap * sizeof *item);
        if (!item)
            return no_memory(cap * sizeof *item, err);
        sorter->item = item;
        sorter->item_cap = cap;
    }
    sorter->item[sorter->item_count++] = (struct item){row[FLUSH_ROW_HEADER_BYTES], row};
    return RC_OK;
}

static void shared_update(struct flush__sorter *sorter, const uint8_t *row, struct bytes key)
{
    uint8_t space = key.ptr[0];
    const uint8_t *first = sorter->first[space];
    if (UNLIKELY(!first)) {
        sorter->first[space] = row;
        sorter->shared[space] = key.len;
        return;
    }
    struct bytes shared = bytes_of(first + FLUSH_ROW_HEADER_BYTES, sorter->shared[space]);
    if (UNLIKELY(!bytes_start_with(key, shared)))
        sorter->shared[space] = bytes_shared_len(key, shared);
}

static enum rc row_add(struct flush__sorter *sorter, const struct space_set *spaces,
                       enum flush__kind kind, uint32_t ordinal, const struct record *record,
                       struct err *err)
{
    size_t key_room = 2 + record->group.len + record->suffix.len;
    enum rc rc = room_reserve(sorter, FLUSH_ROW_HEADER_BYTES + key_room + record->value.len, err);
    if (rc != RC_OK)
        return rc;

    uint8_t *row = sorter->at;
    struct buf key = {.ptr = row + FLUSH_ROW_HEADER_BYTES, .cap = key_room, .bytes_max = key_room};
    bool added = space_key_add(spaces, record->space, record->group, record->suffix, &key);
    ASSERT(added);
    ASSERT(key.ptr == row + FLUSH_ROW_HEADER_BYTES);
    le32_put(row, (uint32_t)key.len << 2 | kind);
    le32_put(row + 4, (uint32_t)record->value.len);
    le32_put(row + 8, ordinal);
    if (record->value.len > 0)
        memcpy(key.ptr + key.len, record->value.ptr, record->value.len);
    sorter->at = key.ptr + key.len + record->value.len;
    shared_update(sorter, row, buf_bytes(&key));
    return item_add(sorter, row, err);
}

/* A prefix that no group key can start with drops nothing. */
static void prefix_add(const struct space_set *spaces, const struct record *record, uint64_t order,
                       struct flush__drops *drops)
{
    const struct store_space *space = &spaces->space[record->space];
    if (space->kind == SPACE_FIXED && record->group.len > space->fixed_bytes)
        return;
    if (space->kind == SPACE_LENGTH && record->group.len > STORE_LENGTH_KEY_BYTES_MAX)
        return;
    flush__drops_add(drops, record->space, record->group, order);
}

struct collect { /* what the records of a segment are turned into */
    struct flush__sorter *sorter;
    const struct space_set *spaces;
    uint64_t ordinal;
    uint32_t segment_index;
    struct flush__counters *counters;
    struct flush__drops *drops;
};

static enum rc record_check(const struct collect *collect, const struct record *record,
                            struct err *err)
{
    if (collect->ordinal > UINT32_MAX)
        return err_set(err, RC_CORRUPT, "more than 2^32 changes");
    if (record->kind == RECORD_COUNTER_ADD)
        return RC_OK;
    if (record->space == SPACE_SYS || collect->spaces->space[record->space].kind == SPACE_NONE)
        return err_set(err, RC_CORRUPT, "a change of space %u", record->space);
    if (record->value.len > STORE_VALUE_BYTES_MAX)
        return err_set(err, RC_CORRUPT, "a value of %zu bytes", record->value.len);
    if (record->kind == RECORD_DROP_PREFIX)
        return RC_OK;
    return space_check(collect->spaces, record->space, record->group, record->suffix, err);
}

static enum rc record_collect(struct collect *collect, struct record *record, struct err *err)
{
    enum rc rc = record_check(collect, record, err);
    if (rc != RC_OK)
        return rc;
    uint32_t ordinal = (uint32_t)collect->ordinal++;
    enum flush__kind kind = FLUSH_PUT;

    switch (record->kind) {
    case RECORD_PUT:
        break;
    case RECORD_DELETE:
        record->value = BYTES("");
        kind = FLUSH_DELETE;
        break;
    case RECORD_DROP_GROUP:
        record->suffix = record->value = BYTES("");
        /* The only row of the group has the group's key. */
        kind =
            collect->spaces->space[record->space].kind == SPACE_WHOLE ? FLUSH_DELETE : FLUSH_DROP;
        break;
    case RECORD_DROP_PREFIX:
        prefix_add(collect->spaces, record, (uint64_t)collect->segment_index << 32 | ordinal,
                   collect->drops);
        return RC_OK;
    case RECORD_COUNTER_ADD:
        return flush__counters_add(collect->counters, record->group, record->delta, err);
    }
    return row_add(collect->sorter, collect->spaces, kind, ordinal, record, err);
}

static enum rc turn_collect(struct collect *collect, struct bytes body, struct err *err)
{
    struct record_reader reader;
    record_reader_init(&reader, body);
    for (;;) {
        enum rc rc = record_next_commit(&reader, err);
        if (rc != RC_OK)
            return rc == RC_NOT_FOUND ? RC_OK : rc;
        struct record record;
        while ((rc = record_next(&reader, &record, err)) == RC_OK) {
            rc = record_collect(collect, &record, err);
            if (rc != RC_OK)
                return rc;
        }
        if (rc != RC_NOT_FOUND)
            return rc;
    }
}

static enum rc end_check(const struct flush__sort_job *job, struct segment_reader *reader,
                         struct err *err)
{
    if (segment_reader_end(reader) != SEGMENT_END_CLEAN)
        return err_set(err, RC_CORRUPT, "the sealed segment \"%s\" is damaged at %llu: %s",
                       job->segment_path, (unsigned long long)segment_reader_offset(reader),
                       segment_reader_reason(reader));
    if (segment_reader_offset(reader) != job->sealed.bytes)
        return err_set(err, RC_CORRUPT, "the segment \"%s\" ends at %llu and was sealed at %llu",
                       job->segment_path, (unsigned long long)segment_reader_offset(reader),
                       (unsigned long long)job->sealed.bytes);
    return RC_OK;
}

static enum rc segment_collect(struct collect *collect, const struct flush__sort_job *job,
                               struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    enum rc rc = segment_open(job->files, job->segment_path, &reader, err);
    if (rc != RC_OK)
        return rc;
    const struct segment_header *header = segment_reader_header(reader);
    if (header->number != job->sealed.number || memcmp(header->uuid, job->uuid, 16) != 0)
        return err_set(err, RC_CORRUPT, "the segment \"%s\" belongs to another store or number",
                       job->segment_path);

    struct segment_turn turn;
    for (size_t i = 0; (rc = segment_next(reader, &turn, err)) == RC_OK; i++) {
        if (i % FLUSH_PIECE_TURNS == 0 && !flush__go_on(job->pace))
            return err_set(err, RC_WAIT, "stopped");
        rc = turn_collect(collect, turn.body, err);
        if (rc != RC_OK) {
            err_prefix(err, "segment \"%s\", turn at %llu: ", job->segment_path,
                       (unsigned long long)turn.offset);
            return rc;
        }
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    return end_check(job, reader, err);
}

/* ---- sorting ---- */

/* The order of a run for keys that agree before `depth`. */
static bool row_before(const uint8_t *a, const uint8_t *b, size_t depth)
{
    struct bytes a_key = bytes_of(a + FLUSH_ROW_HEADER_BYTES, flush__row_key_len(a));
    struct bytes b_key = bytes_of(b + FLUSH_ROW_HEADER_BYTES, flush__row_key_len(b));
    int order = bytes_cmp(bytes_from(a_key, depth), bytes_from(b_key, depth));
    if (order != 0)
        return order < 0;
    bool a_drop = flush__row_kind(a) == FLUSH_DROP, b_drop = flush__row_kind(b) == FLUSH_DROP;
    if (a_drop != b_drop)
        return a_drop;
    return flush__row_ordinal(a) > flush__row_ordinal(b);
}

static void rows_insert_sort(struct item *item, size_t count, size_t depth)
{
    for (size_t i = 1; i < count; i++) {
        struct item moved = item[i];
        size_t to = i;
        for (; to > 0 && row_before(moved.row, item[to - 1].row, depth); to--)
            item[to] = item[to - 1];
        item[to] = moved;
    }
}

static void pieces_insert_sort(struct item *item, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct item moved = item[i];
        size_t to = i;
        for (; to > 0 && moved.piece < item[to - 1].piece; to--)
            item[to] = item[to - 1];
        item[to] = moved;
    }
}

/* Leaves the bits in which pieces differ, to the right, in order: order and equality stay. Whole
 * bytes are cut at their highest such bit. Returns how many bits are left. */
static unsigned pieces_squeeze(struct item *item, size_t count)
{
    uint64_t differs = 0;
    for (size_t i = 1; i < count; i++)
        differs |= item[i].piece ^ item[0].piece;

    unsigned shift[PIECE_BYTES], width[PIECE_BYTES], part_count = 0, bits = 0;
    for (int byte = PIECE_BYTES - 1; byte >= 0; byte--) {
        unsigned value = differs >> (byte * 8) & 0xff;
        if (value == 0)
            continue;
        shift[part_count] = (unsigned)byte * 8;
        width[part_count] = 32 - (unsigned)__builtin_clz(value);
        bits += width[part_count++];
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t piece = 0;
        for (unsigned part = 0; part < part_count; part++)
            piece = piece << width[part] |
                    (item[i].piece >> shift[part] & ((UINT64_C(1) << width[part]) - 1));
        item[i].piece = piece;
    }
    return bits;
}

/* Sorts by `bits` bits of the piece from bit `low` on; stable. */
static void radix_pass(const struct item *from, struct item *to, size_t count, unsigned low,
                       unsigned bits)
{
    uint32_t start[1 << RADIX_BITS_MAX];
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    memset(start, 0, sizeof start[0] << bits);
    for (size_t i = 0; i < count; i++)
        start[from[i].piece >> low & mask]++;
    uint32_t sum = 0;
    for (uint64_t value = 0; value <= mask; value++) {
        uint32_t here = start[value];
        start[value] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        to[start[from[i].piece >> low & mask]++] = from[i];
}

/* Sorts by the lowest `bits` bits of the pieces; those above are equal. */
static void pieces_radix_sort(struct item *item, struct item *other, size_t count, unsigned bits)
{
    if (bits == 0)
        return;
    unsigned pass_bits = count < 4096 ? 8 : RADIX_BITS_MAX;
    unsigned top = bits < 2 * pass_bits ? bits : 2 * pass_bits;
    unsigned low = bits - top;
    if (top <= pass_bits) {
        radix_pass(item, other, count, low, top);
        memcpy(item, other, count * sizeof *item);
    } else {
        radix_pass(item, other, count, low, top / 2);
        radix_pass(other, item, count, low + top / 2, top - top / 2);
    }

    size_t next;
    for (size_t i = 0; low > 0 && i < count; i = next) {
        for (next = i + 1; next < count && item[next].piece >> low == item[i].piece >> low;)
            next++;
        if (next - i <= SORT_INSERT_COUNT)
            pieces_insert_sort(item + i, next - i);
        else
            pieces_radix_sort(item + i, other + i, next - i, low);
    }
}

static void pieces_sort(struct flush__sorter *sorter, struct item *item, size_t count)
{
    if (count <= SORT_INSERT_COUNT) {
        pieces_insert_sort(item, count);
        return;
    }
    unsigned bits = pieces_squeeze(item, count);
    pieces_radix_sort(item, sorter->other + (item - sorter->item), count, bits);
}

static uint64_t row_piece(const uint8_t *row, size_t depth)
{
    size_t key_len = flush__row_key_len(row);
    const uint8_t *key = row + FLUSH_ROW_HEADER_BYTES;
    if (LIKELY(key_len >= depth + PIECE_BYTES))
        return be64_get(key + depth);
    uint8_t piece[PIECE_BYTES] = {0};
    if (key_len > depth)
        memcpy(piece, key + depth, key_len - depth);
    return be64_get(piece);
}

static void pieces_load(struct item *item, size_t count, size_t depth)
{
    for (size_t i = 0; i < count; i++) {
        if (i + SORT_AHEAD < count) {
            const uint8_t *row = item[i + SORT_AHEAD].row;
            __builtin_prefetch(row);
            __builtin_prefetch(row + FLUSH_ROW_HEADER_BYTES + depth + PIECE_BYTES - 1);
        }
        item[i].piece = row_piece(item[i].row, depth);
    }
}

/* Of rows with equal pieces those whose key ends here come first, sorted; returns their number. */
static size_t ended_sort(struct flush__sorter *sorter, struct item *item, size_t count,
                         size_t depth)
{
    size_t ended_count = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = item[i].row;
        size_t key_len = flush__row_key_len(row);
        if (key_len > depth + PIECE_BYTES)
            continue;
        struct item ended = {
            .piece = (uint64_t)(key_len - depth) << 33 |
                     (uint64_t)(flush__row_kind(row) != FLUSH_DROP) << 32 |
                     (UINT32_MAX - flush__row_ordinal(row)),
            .row = row,
        };
        item[i] = item[ended_count];
        item[ended_count++] = ended;
    }
    pieces_sort(sorter, item, ended_count);
    return ended_count;
}

struct item_range {
    struct item *item;
    size_t count;
};

static void range_sort(struct flush__sorter *sorter, struct item_range range, size_t depth);

/* Sorts each run of equal pieces, except the longest one that goes on: it is returned. */
static struct item_range runs_sort(struct flush__sorter *sorter, struct item_range range,
                                   size_t depth)
{
    struct item_range longest = {0};
    size_t next;
    for (size_t i = 0; i < range.count; i = next) {
        struct item *item = range.item + i;
        for (next = i + 1; next < range.count && range.item[next].piece == item->piece;)
            next++;
        size_t count = next - i;
        if (count <= SORT_SMALL_COUNT) {
            if (count > 1)
                rows_insert_sort(item, count, depth);
            continue;
        }
        size_t ended_count = ended_sort(sorter, item, count, depth);
        struct item_range rest = {item + ended_count, count - ended_count};
        if (rest.count > longest.count) {
            struct item_range swap = longest;
            longest = rest;
            rest = swap;
        }
        if (rest.count > 1)
            range_sort(sorter, rest, depth + PIECE_BYTES);
    }
    return longest;
}

/* Keys agree before `depth`. Recursion takes at most half of the rows, so it is not deep even where
 * keys are long and alike. */
static void range_sort(struct flush__sorter *sorter, struct item_range range, size_t depth)
{
    while (range.count > SORT_SMALL_COUNT) {
        pieces_load(range.item, range.count, depth);
        pieces_sort(sorter, range.item, range.count);
        range = runs_sort(sorter, range, depth);
        depth += PIECE_BYTES;
    }
    if (range.count > 1)
        rows_insert_sort(range.item, range.count, depth);
}

static void spaces_sort(struct flush__sorter *sorter)
{
    struct item *item = sorter->item;
    pieces_radix_sort(item, sorter->other, sorter->item_count, 8);
    size_t next;
    for (size_t i = 0; i < sorter->item_count; i = next) {
        uint8_t space = (uint8_t)item[i].piece;
        for (next = i + 1; next < sorter->item_count && item[next].piece == space;)
            next++;
        range_sort(sorter, (struct item_range){item + i, next - i}, sorter->shared[space]);
    }
}

static enum rc items_sort(struct flush__sorter *sorter, struct err *err)
{
    size_t count = sorter->item_count;
    if (count == 0)
        return RC_OK;
    if (count > UINT32_MAX)
        return err_set(err, RC_TOO_BIG, "more than 2^32 rows in a segment");
    mem_free(sorter->other);
    sorter->other = mem_try_alloc(count * sizeof *sorter->other);
    if (!sorter->other)
        return no_memory(count * sizeof *sorter->other, err);
    spaces_sort(sorter);
    mem_free(sorter->other);
    sorter->other = NULL;
    return RC_OK;
}

/* ---- writing ---- */

static struct bytes row_key(const uint8_t *row)
{
    return bytes_of(row + FLUSH_ROW_HEADER_BYTES, flush__row_key_len(row));
}

/* Whether an older change of the same kind of thing and the same key, or a later drop of the
 * group, makes this row superfluous. *drop is the drop of the group that the walk is in. */
static bool row_is_hidden(const uint8_t *row, const uint8_t *last, const uint8_t **drop)
{
    bool is_drop = flush__row_kind(row) == FLUSH_DROP;
    if (last && flush__key_eq(row_key(last), row_key(row)) &&
        (is_drop || flush__row_kind(last) != FLUSH_DROP))
        return true;
    if (is_drop) {
        *drop = row;
        return false;
    }
    if (!*drop)
        return false;
    if (!bytes_start_with(row_key(row), row_key(*drop))) {
        *drop = NULL;
        return false;
    }
    return flush__row_ordinal(row) < flush__row_ordinal(*drop);
}

static enum rc rows_write(struct flush__sorter *sorter, const struct flush__sort_job *job,
                          struct flush__run_writer *writer, struct err *err)
{
    const uint8_t *last = NULL, *drop = NULL;
    for (size_t i = 0; i < sorter->item_count; i++) {
        if (i % FLUSH_PIECE_ROWS == 0 && !flush__go_on(job->pace))
            return err_set(err, RC_WAIT, "stopped");
        if (i + SORT_AHEAD < sorter->item_count) {
            __builtin_prefetch(sorter->item[i + SORT_AHEAD].row);
            __builtin_prefetch(sorter->item[i + SORT_AHEAD].row + 64);
        }
        const uint8_t *row = sorter->item[i].row;
        bool hidden = row_is_hidden(row, last, &drop);
        last = row;
        if (hidden)
            continue;
        enum rc rc = flush__run_add(writer, row, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc run_write_all(struct flush__sorter *sorter, const struct flush__sort_job *job,
                             struct flush__run *run, struct err *err)
{
    CLEANUP(flush__run_writer_close) struct flush__run_writer writer = {0};
    enum rc rc = flush__run_writer_open(job->files, run->path, &writer, err);
    if (rc != RC_OK)
        return rc;
    rc = rows_write(sorter, job, &writer, err);
    if (rc != RC_OK)
        return rc;
    return flush__run_end(&writer, run, err);
}

enum rc flush__sort(struct flush__sorter *sorter, const struct flush__sort_job *job,
                    struct flush__run *run, struct flush__counters *counters,
                    struct flush__drops *drops, struct err *err)
{
    struct collect collect = {
        .sorter = sorter,
        .spaces = job->spaces,
        .segment_index = run->segment_index,
        .counters = counters,
        .drops = drops,
    };
    sorter_clear(sorter);
    enum rc rc = segment_collect(&collect, job, err);
    if (rc == RC_OK)
        rc = items_sort(sorter, err);
    if (rc == RC_OK)
        rc = run_write_all(sorter, job, run, err);
    sorter_clear(sorter);
    return rc;
}
