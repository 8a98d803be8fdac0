// SPDX-License-Identifier: Apache-2.0
/* tree_model.c - random steps on a tree, compared with the truth after each. */
#include "support/tree_model.h"

#include <stdlib.h>

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"
#include "store/hot/tree.h"

#include "base/banned.h"

enum {
    LOADS_MAX = 4,
    CHANGES_MAX = 6,
    PASS_MAX = 8,
    CLOSE_MAX = 6,
    PAGE_ROWS_MAX = 12,
    BULK_ROWS_MAX = 64,
    KEEP_BYTES_MAX = 1 << 26
};

struct model_key {
    struct bytes suffix;            /* owned */
    uint16_t truth, sealed, engine; /* number of the value; 0: no row */
};

struct model_load {
    enum { LOAD_NONE, LOAD_STARTED, LOAD_WAS_READ } state;
    bool row, bulk, reverse, has_from, has_bound, exhausted;
    uint32_t from, bound; /* indexes of keys */
    uint32_t mark;
    uint32_t row_count;
    struct {
        uint32_t key;
        uint16_t value;
    } rows[BULK_ROWS_MAX];
};

struct model_change {
    bool drop;
    uint32_t key;
    uint16_t truth;
    struct tree_old old;
    struct tree tree; /* of a drop */
    uint16_t *truths; /* of a drop; owned */
};

struct tree_model {
    struct tree_model_options options;
    struct tree_model_counts counts;
    struct tree tree;
    struct meter meter;
    struct model_key *key;
    uint32_t key_count;
    uint32_t segment; /* of changes */
    uint32_t group_segment;
    uint16_t next_value;
    uint64_t step_count;
    struct model_load load[LOADS_MAX];
    struct model_change change[CHANGES_MAX];
    uint32_t change_count;
    struct buf keep, value, dump, dump_before;
};

static uint32_t choose(struct tree_model *model, uint32_t limit)
{
    return model->options.choose(model->options.arg, limit);
}

/* ---- keys and values ---- */

static int key_order(const void *a, const void *b)
{
    return bytes_cmp(((const struct model_key *)a)->suffix, ((const struct model_key *)b)->suffix);
}

static struct bytes key_make(struct tree_model *model, uint32_t index)
{
    uint8_t bytes[4];
    be32_put(bytes, index * UINT32_C(2654435761));
    if (!model->options.suffix_bytes_max)
        return bytes_of(mem_dup(bytes + 1, 3), 3);
    /* Long shared runs, and suffixes that are prefixes of others. */
    size_t len = choose(model, model->options.suffix_bytes_max + 1);
    uint8_t *suffix = mem_alloc(len);
    memset(suffix, 'x', len);
    for (size_t i = 0; i < 4 && i < len; i++)
        suffix[len - 1 - i] = (uint8_t)('x' + choose(model, 3) - 1);
    return bytes_of(suffix, len);
}

static void keys_make(struct tree_model *model)
{
    uint32_t count = model->options.key_count;
    model->key = mem_zalloc(count * sizeof *model->key);
    for (uint32_t i = 0; i < count; i++)
        model->key[i].suffix = key_make(model, i);
    qsort(model->key, count, sizeof *model->key, key_order);
    model->key_count = 1;
    for (uint32_t i = 1; i < count; i++) {
        struct model_key *last = &model->key[model->key_count - 1];
        if (bytes_eq(last->suffix, model->key[i].suffix))
            mem_free((void *)(uintptr_t)model->key[i].suffix.ptr);
        else
            model->key[model->key_count++] = model->key[i];
    }
}

/* The bytes of a value: they follow from key and number. Valid until the next call. */
static struct bytes value_of(struct tree_model *model, uint32_t key, uint16_t number)
{
    uint32_t mixed = (key * 31 + number) * UINT32_C(2654435761);
    size_t len = (mixed >> 16) % (model->options.value_bytes_max + 1);
    if (mixed & 0x300)
        len = len % 24; /* most are small */
    model->value.len = 0;
    ASSERT(buf_reserve(&model->value, len + 8));
    memset(model->value.ptr, (int)(mixed & 0xff), len);
    for (size_t i = 0; i < 4 && i < len; i++)
        model->value.ptr[i] = (uint8_t)(mixed >> (i * 8));
    return bytes_of(model->value.ptr, len);
}

struct tree_model *tree_model_new(const struct tree_model_options *options)
{
    struct tree_model *model = mem_zalloc(sizeof *model);
    model->options = *options;
    buf_init(&model->keep, KEEP_BYTES_MAX);
    buf_init(&model->value, KEEP_BYTES_MAX);
    buf_init(&model->dump, KEEP_BYTES_MAX);
    buf_init(&model->dump_before, KEEP_BYTES_MAX);
    meter_init(&model->meter, 0);
    keys_make(model);
    model->segment = 1;
    tree_init(&model->tree, choose(model, 2));
    return model;
}

void tree_model_free(struct tree_model *model)
{
    if (!model)
        return;
    tree_done(&model->tree, &model->meter);
    ASSERT(model->meter.total_bytes == 0);
    ASSERT(model->meter.clean_bytes == 0);
    meter_done(&model->meter);
    for (uint32_t i = 0; i < model->key_count; i++)
        mem_free((void *)(uintptr_t)model->key[i].suffix.ptr);
    mem_free(model->key);
    buf_done(&model->keep);
    buf_done(&model->value);
    buf_done(&model->dump);
    buf_done(&model->dump_before);
    mem_free(model);
}

struct tree_model_counts tree_model_counts(const struct tree_model *model)
{
    return model->counts;
}

/* ---- checking ---- */

/* Keys that lie in an interval of the tree without an entry. */
static void check_between(const struct tree_model *model, uint32_t from, uint32_t to, bool open)
{
    for (uint32_t i = from; i < to; i++) {
        const struct model_key *key = &model->key[i];
        if (open)
            ASSERT(key->engine == key->truth); /* a load would bring the truth */
        else
            ASSERT(key->truth == 0);
    }
}

static void check_ranks(struct tree_model *model)
{
    uint64_t rank = 0;
    for (uint32_t i = 0; i < model->key_count; i++) {
        struct tree_pos pos;
        tree_seek(&model->tree, model->key[i].suffix, &pos);
        ASSERT(tree_rank(&model->tree, &pos) == rank);
        if (!model->key[i].truth)
            continue;
        ASSERT(tree_nth(&model->tree, rank, &pos));
        ASSERT(bytes_eq(block_entry(pos.block, pos.index).suffix, model->key[i].suffix));
        rank++;
    }
    struct tree_pos pos;
    ASSERT(tree_live(&model->tree) == rank);
    ASSERT(!tree_nth(&model->tree, rank, &pos));
}

void tree_model_check(struct tree_model *model)
{
    const struct tree *tree = &model->tree;
    struct tree_pos pos;
    uint32_t at = 0;
    uint64_t live = 0;
    tree_check(tree);
    tree_seek_first(tree, &pos);
    for (bool more = tree_to_entry(tree, &pos); more; more = tree_next(tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        uint32_t from = at;
        while (at < model->key_count && bytes_cmp(model->key[at].suffix, entry.suffix) < 0)
            at++;
        check_between(model, from, at, entry.flags & ENTRY_GAP);
        ASSERT(at < model->key_count);
        const struct model_key *key = &model->key[at];
        ASSERT(bytes_eq(key->suffix, entry.suffix));
        ASSERT((key->truth == 0) == ((entry.flags & ENTRY_TOMB) != 0));
        if (key->truth)
            ASSERT(bytes_eq(entry.value, value_of(model, at, key->truth)));
        live += key->truth != 0;
        at++;
    }
    check_between(model, at, model->key_count, tree->gap_end);
    ASSERT(tree_live(tree) == live);
    if (tree_complete(tree)) {
        check_ranks(model);
        model->counts.complete_count++;
    }
}

/* Everything a reader could see of the tree. */
static void dump(const struct tree_model *model, struct buf *to)
{
    const struct tree *tree = &model->tree;
    struct tree_pos pos;
    to->len = 0;
    tree_seek_first(tree, &pos);
    for (bool more = tree_to_entry(tree, &pos); more; more = tree_next(tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        uint8_t flags = entry.flags & (ENTRY_GAP | ENTRY_TOMB);
        ASSERT(buf_add(to, &flags, 1));
        ASSERT(buf_add_uvarint(to, entry.suffix.len) && buf_add_bytes(to, entry.suffix));
        ASSERT(buf_add_uvarint(to, entry.value.len) && buf_add_bytes(to, entry.value));
    }
    ASSERT(buf_add(to, &tree->gap_count, sizeof tree->gap_count));
    ASSERT(buf_add(to, &tree->gap_end, sizeof tree->gap_end));
}

/* ---- commits ---- */

static void change_row(struct tree_model *model, uint32_t index, bool put)
{
    struct model_key *key = &model->key[index];
    struct model_change *change = &model->change[model->change_count];
    *change = (struct model_change){.key = index, .truth = key->truth};
    enum rc rc;
    uint16_t number = 0;
    if (put) {
        number = ++model->next_value ? model->next_value : ++model->next_value;
        struct bytes value = value_of(model, index, number);
        rc = tree_put(&model->tree, &model->meter, model->segment, key->suffix, value, &model->keep,
                      &change->old);
        ASSERT(rc == RC_OK);
    } else {
        rc = tree_delete(&model->tree, &model->meter, model->segment, key->suffix, &model->keep,
                         &change->old);
        if (rc == RC_NOT_FOUND) {
            ASSERT(key->truth == 0);
            return;
        }
        ASSERT(rc == RC_OK);
        if (!model->tree.root)
            model->group_segment = model->segment;
    }
    key->truth = number;
    model->change_count++;
}

static void change_drop(struct tree_model *model)
{
    struct model_change *change = &model->change[model->change_count++];
    *change = (struct model_change){.drop = true, .tree = model->tree};
    change->truths = mem_alloc(model->key_count * sizeof *change->truths);
    for (uint32_t i = 0; i < model->key_count; i++) {
        change->truths[i] = model->key[i].truth;
        model->key[i].truth = 0;
    }
    tree_init(&model->tree, true);
    model->group_segment = model->segment;
}

static void change_undo(struct tree_model *model, struct model_change *change)
{
    if (!change->drop) {
        tree_undo(&model->tree, &model->meter, model->segment, model->key[change->key].suffix,
                  &change->old, &model->keep);
        model->key[change->key].truth = change->truth;
        return;
    }
    tree_done(&model->tree, &model->meter);
    model->tree = change->tree;
    for (uint32_t i = 0; i < model->key_count; i++)
        model->key[i].truth = change->truths[i];
    mem_free(change->truths);
}

static void change_release(struct tree_model *model, struct model_change *change)
{
    if (change->drop)
        tree_done(&change->tree, &model->meter);
    else
        block_out_free(change->old.out, &model->meter);
    mem_free(change->truths);
}

static void commit(struct tree_model *model)
{
    bool undo = choose(model, 4) == 0;
    if (undo)
        dump(model, &model->dump_before);
    uint32_t wanted = 1 + choose(model, CHANGES_MAX);
    for (uint32_t i = 0; i < wanted; i++) {
        if (choose(model, 32 + model->key_count * 4) == 0)
            change_drop(model);
        else
            change_row(model, choose(model, model->key_count), choose(model, 8) < 5);
    }
    if (undo) {
        while (model->change_count > 0)
            change_undo(model, &model->change[--model->change_count]);
        dump(model, &model->dump);
        ASSERT(bytes_eq(buf_bytes(&model->dump), buf_bytes(&model->dump_before)));
        model->counts.undo_count++;
    }
    while (model->change_count > 0)
        change_release(model, &model->change[--model->change_count]);
    model->keep.len = 0;
}

void tree_model_fill(struct tree_model *model)
{
    for (uint32_t i = 0; i < model->key_count; i++) {
        change_row(model, (uint32_t)((uint64_t)i * 7919 % model->key_count), true);
        change_release(model, &model->change[--model->change_count]);
        model->keep.len = 0;
    }
}

/* ---- loads, as load.c does them ---- */

static uint32_t key_index(const struct tree_model *model, struct bytes suffix)
{
    struct model_key wanted = {.suffix = suffix};
    const struct model_key *found =
        bsearch(&wanted, model->key, model->key_count, sizeof wanted, key_order);
    ASSERT(found);
    return (uint32_t)(found - model->key);
}

/* A load may end at any entry behind the interval it is for, or at none. */
static void bound_draw(struct tree_model *model, struct tree_pos *pos, struct model_load *load)
{
    const struct tree *tree = &model->tree;
    uint32_t pass_count = choose(model, 3) ? choose(model, PASS_MAX) : UINT32_MAX;
    for (uint32_t i = 0; i < pass_count; i++) {
        model->counts.pass_count++;
        if (load->reverse ? !tree_prev(tree, pos) : !tree_next(tree, pos))
            return;
    }
    load->has_bound = true;
    load->bound = key_index(model, block_entry(pos->block, pos->index).suffix);
}

/* False: the place is not open. */
static bool load_bound(struct tree_model *model, struct model_load *load)
{
    const struct tree *tree = &model->tree;
    struct tree_pos pos;
    if (load->has_from)
        tree_seek(tree, model->key[load->from].suffix, &pos);
    else if (load->reverse)
        tree_seek_end(tree, &pos);
    else
        tree_seek_first(tree, &pos);
    if (pos.exact) {
        if (load->row)
            return false;
        if (!load->reverse && !tree_next(tree, &pos))
            tree_seek_end(tree, &pos);
    } else if (!tree_to_entry(tree, &pos)) {
        tree_seek_end(tree, &pos);
    }
    if (!tree_gap(tree, &pos))
        return false;
    if (load->reverse ? !tree_prev(tree, &pos) : !pos.block || pos.index >= pos.block->count)
        return true;
    if (!load->row)
        bound_draw(model, &pos, load);
    return true;
}

static void load_start(struct tree_model *model, struct model_load *load)
{
    *load = (struct model_load){.mark = model->meter.mark};
    load->row = choose(model, 3) == 0;
    load->reverse = !load->row && choose(model, 2);
    load->has_from = load->row || choose(model, 4);
    if (load->has_from)
        load->from = choose(model, model->key_count);
    if (load_bound(model, load))
        load->state = LOAD_STARTED;
}

static void load_read(struct tree_model *model, struct model_load *load)
{
    uint32_t limit = load->bulk ? BULK_ROWS_MAX : 1 + choose(model, PAGE_ROWS_MAX);
    uint32_t count = model->key_count;
    load->state = LOAD_WAS_READ;
    load->exhausted = true;
    uint32_t from = load->has_from ? load->from : load->reverse ? count - 1 : 0;
    for (uint32_t i = from; i < count; i += load->reverse ? UINT32_MAX : 1) {
        if (load->has_bound && i == load->bound)
            return;
        if (load->row_count == limit) {
            load->exhausted = false;
            return;
        }
        if (model->key[i].engine) {
            load->rows[load->row_count].key = i;
            load->rows[load->row_count++].value = model->key[i].engine;
        }
        if (load->row)
            return;
    }
}

static struct tree_edge edge(const struct tree_model *model, bool has, bool known, uint32_t key)
{
    return has ? (struct tree_edge){true, known, model->key[key].suffix} : (struct tree_edge){0};
}

static void load_finish(struct tree_model *model, struct model_load *load)
{
    struct tree_page page = {.reverse = load->reverse,
                             .from = edge(model, load->has_from, true, load->from),
                             .to = edge(model, load->has_bound, false, load->bound),
                             .entry_count_max = UINT32_MAX,
                             .closed_run_max = UINT32_MAX,
                             .tomb_count_max = choose(model, 3) ? UINT32_MAX : choose(model, 3)};
    struct tree_edge last = {0};
    for (uint32_t i = 0; i < load->row_count; i++) {
        uint32_t key = load->rows[i].key;
        struct bytes value = value_of(model, key, load->rows[i].value);
        ASSERT(tree_fill_row(&model->tree, &model->meter, model->key[key].suffix, value) == RC_OK);
        last = edge(model, true, true, key);
        model->counts.row_fill_count++;
    }
    if (load->row)
        page.to = page.from;
    else if (!load->exhausted)
        page.to = last;
    if (choose(model, 3) == 0)
        page.entry_count_max = 1 + choose(model, CLOSE_MAX);
    if (choose(model, 3) == 0)
        page.closed_run_max = 1 + choose(model, CLOSE_MAX);
    enum rc rc = tree_fill_close(&model->tree, &model->meter, &page);
    ASSERT(rc == RC_OK);
    load->state = LOAD_NONE;
    model->counts.finish_count++;
}

static void load_step(struct tree_model *model)
{
    struct model_load *load = &model->load[choose(model, LOADS_MAX)];
    switch (load->state) {
    case LOAD_NONE:
        load_start(model, load);
        break;
    case LOAD_STARTED:
        load_read(model, load);
        break;
    case LOAD_WAS_READ:
        load_finish(model, load);
        break;
    }
}

static void loads_end(struct tree_model *model)
{
    for (int i = 0; i < LOADS_MAX; i++) {
        if (model->load[i].state == LOAD_STARTED)
            load_read(model, &model->load[i]);
        if (model->load[i].state == LOAD_WAS_READ)
            load_finish(model, &model->load[i]);
    }
}

/* Loads until there is nothing to load from the front on. */
static void load_all(struct tree_model *model)
{
    uint32_t from = 0;
    bool has_from = false;
    for (uint32_t n = 0; n < model->key_count + 2; n++) {
        struct model_load load = {
            .bulk = true, .mark = model->meter.mark, .has_from = has_from, .from = from};
        if (load_bound(model, &load)) {
            load_read(model, &load);
            load_finish(model, &load);
        }
        struct tree_pos pos; /* to the last entry before the next open interval */
        tree_seek_first(&model->tree, &pos);
        bool more = tree_to_entry(&model->tree, &pos);
        while (more && !tree_gap(&model->tree, &pos))
            more = tree_next(&model->tree, &pos);
        has_from = tree_prev(&model->tree, &pos);
        if (has_from)
            from = key_index(model, block_entry(pos.block, pos.index).suffix);
        if (tree_complete(&model->tree))
            return;
    }
    ASSERT(tree_complete(&model->tree));
}

/* ---- leaving ---- */

static uint32_t horizon(const struct tree_model *model)
{
    uint32_t mark = model->meter.mark;
    for (int i = 0; i < LOADS_MAX; i++)
        if (model->load[i].state != LOAD_NONE && model->load[i].mark < mark)
            mark = model->load[i].mark;
    return mark;
}

static void evict(struct tree_model *model)
{
    struct tree_pos pos;
    tree_seek(&model->tree, model->key[choose(model, model->key_count)].suffix, &pos);
    if (!pos.block || pos.block->segment > horizon(model) || model->group_segment > horizon(model))
        return;
    tree_evict(&model->tree, &model->meter, &pos);
    model->counts.evict_count++;
}

/* An empty group leaves the table; whoever comes next knows nothing. */
static void leave(struct tree_model *model)
{
    loads_end(model); /* a group does not leave while it is loaded */
    if (model->tree.root || model->group_segment > horizon(model))
        return;
    model->group_segment = 0;
    tree_init(&model->tree, false);
    model->counts.leave_count++;
}

static void seal(struct tree_model *model)
{
    for (uint32_t i = 0; i < model->key_count; i++)
        model->key[i].sealed = model->key[i].truth;
    model->segment++;
}

/* What is sealed reaches the engine. */
static void flush(struct tree_model *model)
{
    if (model->segment == 1)
        return;
    for (uint32_t i = 0; i < model->key_count; i++)
        model->key[i].engine = model->key[i].sealed;
    meter_mark(&model->meter, model->segment - 1);
}

void tree_model_step(struct tree_model *model)
{
    uint32_t what = choose(model, 32);
    if (what < 6) {
        commit(model);
    } else if (what < 8) {
        seal(model);
    } else if (what < 10) {
        flush(model);
    } else if (what < 12) { /* quiet: everything may leave */
        loads_end(model);
        seal(model);
        flush(model);
    } else if (what < 20) {
        load_step(model);
    } else if (what == 20) {
        load_all(model);
    } else if (what < 29) {
        evict(model);
    } else {
        leave(model);
    }
    if (model->tree.height > model->counts.height_max)
        model->counts.height_max = model->tree.height;
    if (!model->options.check_every || ++model->step_count % model->options.check_every == 0)
        tree_model_check(model);
    else
        tree_check(&model->tree);
}
