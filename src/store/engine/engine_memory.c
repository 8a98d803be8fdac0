// SPDX-License-Identifier: Apache-2.0
/* engine_memory.c - an engine in memory that fails, stalls and forgets on demand. */
#include "store/engine/engine_memory.h"

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/engine/engine_int.h"

#include "base/banned.h"

/* A disk is a skip list of rows; a row is a chain of versions, newest first, each with the number
 * of the unit that made it. Views and iterators pin a unit number.
 *
 * Invariants of a disk:
 *   (1) Numbers fall along a chain, and every chain has at least one version.
 *   (2) What a pinned number sees stays: of the versions at or below the oldest pin only the newest
 *       is kept.
 *   (3) A row whose newest version is a delete and which no pin sees may be removed, and `removals`
 *       then changes: nobody follows a pointer to a row kept from before. */

enum { HEIGHT_MAX = 20, OP_COUNT = ENGINE_MEMORY_REOPEN + 1, SWEEP_ROWS_MIN = 64 };

struct version {
    struct version *older;
    uint64_t number;
    bool deleted;
    size_t len;
    uint8_t value[];
};

struct row {
    struct version *newest;
    struct row *prev;
    uint8_t *key;
    size_t key_len;
    int height;
    struct row *next[]; /* height of them */
};

struct pin {
    struct pin *next;
    struct pin **prev; /* what points to this one */
    uint64_t number;
    uint64_t epoch; /* of the engine when it was made */
};

struct disk { /* what one directory holds */
    struct disk *next;
    char *dir;
    bool is_open;
    struct row *head; /* HEIGHT_MAX high, no key */
    struct pin *pins;
    struct pin shown; /* while `hides`: what reads see; what is newer shows after a reopen */
    bool hides;
    struct rand rand;
    uint64_t number; /* of the last unit */
    uint64_t live_count;
    uint64_t dead_count;
    uint64_t live_bytes;
    uint64_t removals;
};

struct fault {
    uint64_t count; /* calls until it strikes; 0: not armed */
    int64_t times;
    enum rc rc;
};

struct engine_memory {
    pthread_mutex_t lock; /* everything below and all disks */
    pthread_cond_t gate_opened;
    bool gate_closed;
    bool cold;
    bool broken; /* until a reopen */
    struct engine_pressure pressure;
    struct fault fault[OP_COUNT];
    uint64_t op_count[OP_COUNT];
    struct disk *disks; /* in the order they appeared */
};

struct memory_engine {
    struct engine engine;
    struct engine_memory *memory;
    struct disk *disk;
    bool read_only;
    bool unit_is_open;
    bool closed;    /* a reopen failed */
    uint64_t epoch; /* reopens: a view or iterator of an older one is over */
    uint64_t unit_count;
};

struct memory_view {
    struct pin pin;
};

struct memory_iter {
    struct engine_iter iter;
    struct pin pin;
    struct engine_range range; /* borrows lower and upper from here */
    uint8_t *bounds;
    struct row *row; /* the last one given, while removals is unchanged */
    uint64_t removals;
    struct buf key; /* the last one given */
    struct buf value;
    bool ended;
};

enum change_kind { CHANGE_PUT, CHANGE_DELETE, CHANGE_RANGE };

struct change {
    enum change_kind kind;
    struct bytes key;   /* or from */
    struct bytes value; /* or to */
};

struct memory_unit {
    struct engine_unit unit;
    struct engine_order order;
    struct arena arena;
    struct change *change;
    size_t change_count;
    size_t change_cap;
    bool applied;
};

/* ---- rows ---- */

static struct bytes row_key(const struct row *row)
{
    return bytes_of(row->key, row->key_len);
}

static struct row *row_new(int height, struct bytes key)
{
    struct row *row = mem_zalloc(sizeof *row + (size_t)height * sizeof row->next[0]);
    row->height = height;
    row->key = mem_dup(key.ptr, key.len);
    row->key_len = key.len;
    return row;
}

static void versions_free(struct version *version)
{
    while (version) {
        struct version *older = version->older;
        mem_free(version);
        version = older;
    }
}

static void row_free(struct row *row)
{
    versions_free(row->newest);
    mem_free(row->key);
    mem_free(row);
}

/* What is seen at `number`, or NULL. */
static const struct version *row_at(const struct row *row, uint64_t number)
{
    const struct version *version = row->newest;
    while (version && version->number > number)
        version = version->older;
    return version && !version->deleted ? version : NULL;
}

/* The first row at or after key, or NULL. ret_before (may be NULL) gets the row before it on every
 * height. */
static struct row *disk_seek(const struct disk *disk, struct bytes key, struct row **ret_before)
{
    struct row *before = disk->head;
    for (int i = HEIGHT_MAX - 1; i >= 0; i--) {
        while (before->next[i] && bytes_cmp(row_key(before->next[i]), key) < 0)
            before = before->next[i];
        if (ret_before)
            ret_before[i] = before;
    }
    return before->next[0];
}

static struct row *disk_last(const struct disk *disk)
{
    struct row *row = disk->head;
    for (int i = HEIGHT_MAX - 1; i >= 0; i--) {
        while (row->next[i])
            row = row->next[i];
    }
    return row == disk->head ? NULL : row;
}

static struct row *row_prev(const struct disk *disk, const struct row *row)
{
    return row->prev == disk->head ? NULL : row->prev;
}

static struct row *disk_insert(struct disk *disk, struct bytes key, struct row **before)
{
    int height = 1;
    while (height < HEIGHT_MAX && rand_below(&disk->rand, 4) == 0)
        height++;
    struct row *row = row_new(height, key);
    for (int i = 0; i < height; i++) {
        row->next[i] = before[i]->next[i];
        before[i]->next[i] = row;
    }
    row->prev = before[0];
    if (row->next[0])
        row->next[0]->prev = row;
    return row;
}

static uint64_t disk_oldest_pin(const struct disk *disk)
{
    uint64_t number = disk->number;
    for (const struct pin *pin = disk->pins; pin; pin = pin->next)
        number = pin->number < number ? pin->number : number;
    return number;
}

/* (2) */
static void row_trim(struct row *row, uint64_t oldest_pin)
{
    struct version *version = row->newest;
    while (version && version->number > oldest_pin)
        version = version->older;
    if (!version)
        return;
    versions_free(version->older);
    version->older = NULL;
}

static void disk_count(struct disk *disk, const struct row *row, int sign)
{
    if (!row->newest)
        return;
    if (row->newest->deleted) {
        disk->dead_count += (uint64_t)(int64_t)sign;
        return;
    }
    disk->live_count += (uint64_t)(int64_t)sign;
    disk->live_bytes += (uint64_t)((int64_t)(row->key_len + row->newest->len) * sign);
}

/* `value` NULL: a delete. A second version of the same unit takes the place of the first. */
static void row_change(struct disk *disk, struct row *row, const struct bytes *value,
                       uint64_t oldest_pin)
{
    size_t len = value ? value->len : 0;
    struct version *version = mem_alloc(sizeof *version + len);

    disk_count(disk, row, -1);
    *version = (struct version){
        .older = row->newest, .number = disk->number, .deleted = !value, .len = len};
    if (len > 0)
        memcpy(version->value, value->ptr, len);
    if (row->newest && row->newest->number == disk->number) {
        version->older = row->newest->older;
        mem_free(row->newest);
    }
    row->newest = version;
    row_trim(row, oldest_pin);
    disk_count(disk, row, 1);
}

static void disk_put(struct disk *disk, struct bytes key, const struct bytes *value,
                     uint64_t oldest_pin)
{
    struct row *before[HEIGHT_MAX];
    struct row *row = disk_seek(disk, key, before);

    if (!row || !bytes_eq(row_key(row), key)) {
        if (!value)
            return; /* nothing to delete */
        row = disk_insert(disk, key, before);
    }
    row_change(disk, row, value, oldest_pin);
}

static void disk_delete_range(struct disk *disk, struct bytes from, struct bytes to,
                              uint64_t oldest_pin)
{
    for (struct row *row = disk_seek(disk, from, NULL); row && bytes_cmp(row_key(row), to) < 0;
         row = row->next[0]) {
        if (!row->newest->deleted)
            row_change(disk, row, NULL, oldest_pin);
    }
}

/* (3) Removes dead rows once they are many, if nobody could see them. */
static void disk_sweep(struct disk *disk)
{
    struct row *before[HEIGHT_MAX];

    if (disk->pins || disk->dead_count < SWEEP_ROWS_MIN || disk->dead_count < disk->live_count)
        return;
    for (int i = 0; i < HEIGHT_MAX; i++)
        before[i] = disk->head;
    for (struct row *row = disk->head->next[0], *next; row; row = next) {
        next = row->next[0];
        bool dead = row->newest->deleted;
        for (int i = 0; i < row->height; i++) {
            if (dead)
                before[i]->next[i] = row->next[i];
            else
                before[i] = row;
        }
        if (!dead)
            continue;
        if (next)
            next->prev = row->prev;
        disk_count(disk, row, -1);
        row_free(row);
    }
    disk->removals++;
}

/* ---- disks, faults, the gate ---- */

static struct disk *disk_new(struct engine_memory *memory, const char *dir)
{
    struct disk *disk = mem_zalloc(sizeof *disk);
    struct disk **last = &memory->disks;

    disk->dir = mem_dup(dir, strlen(dir) + 1);
    disk->head = row_new(HEIGHT_MAX, BYTES(""));
    rand_init_seed(&disk->rand, 1);
    while (*last)
        last = &(*last)->next;
    *last = disk;
    return disk;
}

static struct disk *disk_find(struct engine_memory *memory, const char *dir)
{
    for (struct disk *disk = memory->disks; disk; disk = disk->next) {
        if (strcmp(disk->dir, dir) == 0)
            return disk;
    }
    return NULL;
}

static void disk_free(struct disk *disk)
{
    ASSERT(!disk->is_open);
    for (struct row *row = disk->head, *next; row; row = next) {
        next = row->next[0];
        row_free(row);
    }
    mem_free(disk->dir);
    mem_free(disk);
}

struct engine_memory *engine_memory_new(void)
{
    struct engine_memory *memory = mem_zalloc(sizeof *memory);
    pthread_mutex_init(&memory->lock, NULL);
    pthread_cond_init(&memory->gate_opened, NULL);
    return memory;
}

void engine_memory_free(struct engine_memory *memory)
{
    if (!memory)
        return;
    for (struct disk *disk = memory->disks, *next; disk; disk = next) {
        next = disk->next;
        disk_free(disk);
    }
    pthread_cond_destroy(&memory->gate_opened);
    pthread_mutex_destroy(&memory->lock);
    mem_free(memory);
}

void engine_memory_arm(struct engine_memory *memory, enum engine_memory_op op, uint64_t count,
                       int64_t times, enum rc rc)
{
    pthread_mutex_lock(&memory->lock);
    memory->fault[op] = (struct fault){.count = count, .times = times, .rc = rc};
    pthread_mutex_unlock(&memory->lock);
}

uint64_t engine_memory_op_count(struct engine_memory *memory, enum engine_memory_op op)
{
    pthread_mutex_lock(&memory->lock);
    uint64_t count = memory->op_count[op];
    pthread_mutex_unlock(&memory->lock);
    return count;
}

void engine_memory_cold(struct engine_memory *memory, bool cold)
{
    pthread_mutex_lock(&memory->lock);
    memory->cold = cold;
    pthread_mutex_unlock(&memory->lock);
}

void engine_memory_pressure(struct engine_memory *memory, const struct engine_pressure *pressure)
{
    pthread_mutex_lock(&memory->lock);
    memory->pressure = *pressure;
    pthread_mutex_unlock(&memory->lock);
}

void engine_memory_gate(struct engine_memory *memory, bool closed)
{
    pthread_mutex_lock(&memory->lock);
    memory->gate_closed = closed;
    pthread_cond_broadcast(&memory->gate_opened);
    pthread_mutex_unlock(&memory->lock);
}

uint64_t engine_memory_row_count(struct engine_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    uint64_t count = memory->disks ? memory->disks->live_count : 0;
    pthread_mutex_unlock(&memory->lock);
    return count;
}

void engine_memory_break(struct engine_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    memory->broken = true;
    pthread_mutex_unlock(&memory->lock);
}

static void gate_wait(struct engine_memory *memory)
{
    while (memory->gate_closed)
        pthread_cond_wait(&memory->gate_opened, &memory->lock);
}

static enum rc fault_strike(struct fault *fault, struct err *err)
{
    if (fault->count == 0)
        return RC_OK;
    if (fault->count > 1) {
        fault->count--;
        return RC_OK;
    }
    if (fault->times > 0 && --fault->times == 0)
        fault->count = 0;
    return err_set(err, fault->rc, "the engine in memory was told to fail");
}

/* Counts the call; an armed fault answers. The lock is held. */
static enum rc op_begin(struct engine_memory *memory, enum engine_memory_op op, struct err *err)
{
    memory->op_count[op]++;
    memory->op_count[ENGINE_MEMORY_ANY]++;
    enum rc rc = fault_strike(&memory->fault[op], err);
    enum rc rc_any = fault_strike(&memory->fault[ENGINE_MEMORY_ANY], rc == RC_OK ? err : NULL);
    return rc != RC_OK ? rc : rc_any;
}

/* ---- the engine ---- */

static struct memory_engine *memory_of(struct engine *engine)
{
    return (struct memory_engine *)engine;
}

static void pin_add(struct memory_engine *engine, struct pin *pin, const struct engine_view *view);
static void pin_drop(struct pin *pin);

/* op_begin() of an engine that may be closed, for a view that may be from before it was opened. */
static enum rc use_begin(const struct memory_engine *self, enum engine_memory_op op,
                         const struct pin *pin, struct err *err)
{
    enum rc rc = op_begin(self->memory, op, err);
    if (rc == RC_OK && self->closed)
        return err_set(err, RC_IO, "the engine is closed");
    if (rc == RC_OK && pin && pin->epoch != self->epoch)
        return err_set(err, RC_IO, "the engine was opened again");
    return rc;
}

static const struct pin *view_pin(const struct engine_view *view)
{
    return view ? &((const struct memory_view *)view)->pin : NULL;
}

static void disk_show_all(struct disk *disk)
{
    if (disk->hides)
        pin_drop(&disk->shown);
    disk->hides = false;
}

static enum rc memory_open(const struct engine_options *options, struct engine **ret_engine,
                           struct err *err)
{
    struct engine_memory *memory = options->memory;
    const char *dir = options->dir ? options->dir : "";
    struct memory_engine *engine = NULL;

    if (!memory)
        return err_set(err, RC_INVALID, "the engine in memory was opened without contents");
    pthread_mutex_lock(&memory->lock);
    enum rc rc = op_begin(memory, ENGINE_MEMORY_OPEN, err);
    if (rc != RC_OK)
        goto out;
    struct disk *disk = disk_find(memory, dir);
    if (disk && disk->is_open) {
        rc = err_set(err, RC_BUSY, "\"%s\" is in use", dir);
        goto out;
    }
    if (!disk && options->read_only) {
        rc = err_set(err, RC_NOT_FOUND, "there is no engine in \"%s\"", dir);
        goto out;
    }
    if (!disk)
        disk = disk_new(memory, dir);
    disk->is_open = true;
    engine = mem_zalloc(sizeof *engine);
    engine->engine.ops = &engine_memory_ops;
    engine->memory = memory;
    engine->disk = disk;
    engine->read_only = options->read_only;
    memory->broken = false;
    *ret_engine = &engine->engine;
out:
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

static void memory_close(struct engine *engine)
{
    struct memory_engine *self = memory_of(engine);
    if (!self)
        return;
    pthread_mutex_lock(&self->memory->lock);
    disk_show_all(self->disk);
    ASSERT(!self->disk->pins);
    ASSERT(!self->unit_is_open);
    self->disk->is_open = false;
    pthread_mutex_unlock(&self->memory->lock);
    mem_free(self);
}

/* The number of the last unit that a read sees. */
static uint64_t number_seen(const struct disk *disk, const struct engine_view *view)
{
    if (view)
        return view_pin(view)->number;
    return disk->hides ? disk->shown.number : disk->number;
}

static void pin_add(struct memory_engine *engine, struct pin *pin, const struct engine_view *view)
{
    struct disk *disk = engine->disk;
    pin->epoch = engine->epoch;
    pin->number = number_seen(disk, view);
    pin->next = disk->pins;
    pin->prev = &disk->pins;
    if (pin->next)
        pin->next->prev = &pin->next;
    disk->pins = pin;
}

static void pin_drop(struct pin *pin)
{
    *pin->prev = pin->next;
    if (pin->next)
        pin->next->prev = pin->prev;
}

static enum rc memory_get(struct engine *engine, const struct engine_view *view, struct bytes key,
                          enum engine_tier tier, struct buf *value, struct err *err)
{
    struct memory_engine *self = memory_of(engine);
    struct engine_memory *memory = self->memory;

    pthread_mutex_lock(&memory->lock);
    if (tier == ENGINE_TIER_ALL)
        gate_wait(memory);
    enum rc rc = use_begin(self, ENGINE_MEMORY_GET, view_pin(view), err);
    if (rc != RC_OK)
        goto out;
    if (tier == ENGINE_TIER_MEMORY && memory->cold) {
        rc = RC_COLD;
        goto out;
    }
    struct row *row = disk_seek(self->disk, key, NULL);
    uint64_t number = number_seen(self->disk, view);
    const struct version *version = row && bytes_eq(row_key(row), key) ? row_at(row, number) : NULL;
    rc = version ? engine__value_add(value, bytes_of(version->value, version->len), err)
                 : RC_NOT_FOUND;
out:
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

static bool memory_may_have(struct engine *engine, struct bytes key)
{
    struct memory_engine *self = memory_of(engine);

    pthread_mutex_lock(&self->memory->lock);
    struct row *row = disk_seek(self->disk, key, NULL);
    bool may_have =
        self->memory->cold || self->closed ||
        (row && bytes_eq(row_key(row), key) && row_at(row, number_seen(self->disk, NULL)) != NULL);
    pthread_mutex_unlock(&self->memory->lock);
    return may_have;
}

static void memory_iter_close(struct engine_iter *iter)
{
    struct memory_iter *self = (struct memory_iter *)iter;
    if (!self)
        return;
    struct engine_memory *memory = memory_of(iter->engine)->memory;
    pthread_mutex_lock(&memory->lock);
    pin_drop(&self->pin);
    pthread_mutex_unlock(&memory->lock);
    buf_done(&self->key);
    buf_done(&self->value);
    mem_free(self->bounds);
    mem_free(self);
}

static enum rc memory_iter_open(struct engine *engine, const struct engine_view *view,
                                const struct engine_range *range, struct engine_iter **ret_iter,
                                struct err *err)
{
    struct memory_engine *self = memory_of(engine);

    pthread_mutex_lock(&self->memory->lock);
    gate_wait(self->memory);
    enum rc rc = use_begin(self, ENGINE_MEMORY_ITER_OPEN, view_pin(view), err);
    if (rc == RC_OK) {
        struct memory_iter *iter = mem_zalloc(sizeof *iter);
        iter->iter.engine = engine;
        iter->bounds = mem_alloc(range->lower.len + range->upper.len);
        iter->range = *range;
        if (range->lower.len > 0)
            memcpy(iter->bounds, range->lower.ptr, range->lower.len);
        if (range->upper.len > 0)
            memcpy(iter->bounds + range->lower.len, range->upper.ptr, range->upper.len);
        iter->range.lower.ptr = iter->bounds;
        iter->range.upper.ptr = iter->bounds + range->lower.len;
        buf_init(&iter->key, ENGINE_KEY_BYTES_MAX);
        buf_init(&iter->value, STORE_VALUE_BYTES_MAX);
        pin_add(self, &iter->pin, view);
        *ret_iter = &iter->iter;
    }
    pthread_mutex_unlock(&self->memory->lock);
    return rc;
}

/* The row after (or, in reverse, before) the last one given, seen by the pin or not. */
static struct row *iter_step(const struct memory_iter *iter, const struct disk *disk)
{
    bool started = iter->key.len > 0;

    if (iter->row && iter->removals == disk->removals) /* (3) */
        return iter->range.reverse ? row_prev(disk, iter->row) : iter->row->next[0];
    if (!iter->range.reverse) {
        struct row *row =
            disk_seek(disk, started ? buf_bytes(&iter->key) : iter->range.lower, NULL);
        return started && row && bytes_eq(row_key(row), buf_bytes(&iter->key)) ? row->next[0] : row;
    }
    struct bytes end = started ? buf_bytes(&iter->key) : iter->range.upper;
    struct row *row = end.len > 0 ? disk_seek(disk, end, NULL) : NULL;
    return row ? row_prev(disk, row) : disk_last(disk);
}

static bool iter_is_inside(const struct memory_iter *iter, const struct row *row)
{
    const struct engine_range *range = &iter->range;
    return bytes_cmp(row_key(row), range->lower) >= 0 &&
           (range->upper.len == 0 || bytes_cmp(row_key(row), range->upper) < 0);
}

static enum rc iter_advance(struct memory_iter *iter, const struct disk *disk, struct err *err)
{
    const struct version *version = NULL;
    struct row *row = iter_step(iter, disk);

    while (row && iter_is_inside(iter, row)) {
        version = row_at(row, iter->pin.number);
        if (version)
            break;
        row = iter->range.reverse ? row_prev(disk, row) : row->next[0];
    }
    if (!version) {
        iter->ended = true;
        return RC_NOT_FOUND;
    }
    iter->row = row;
    iter->removals = disk->removals;
    buf_cut(&iter->key, 0);
    buf_cut(&iter->value, 0);
    enum rc rc = engine__value_add(&iter->key, row_key(row), err);
    if (rc == RC_OK)
        rc = engine__value_add(&iter->value, bytes_of(version->value, version->len), err);
    return rc;
}

static enum rc memory_iter_next(struct engine_iter *iter, struct bytes *ret_key,
                                struct bytes *ret_value, struct err *err)
{
    struct memory_iter *self = (struct memory_iter *)iter;
    struct memory_engine *engine = memory_of(iter->engine);

    if (self->ended)
        return RC_NOT_FOUND;
    pthread_mutex_lock(&engine->memory->lock);
    enum rc rc = use_begin(engine, ENGINE_MEMORY_ITER_NEXT, &self->pin, err);
    if (rc == RC_OK)
        rc = iter_advance(self, engine->disk, err);
    pthread_mutex_unlock(&engine->memory->lock);
    if (rc != RC_OK)
        return rc;
    *ret_key = buf_bytes(&self->key);
    *ret_value = buf_bytes(&self->value);
    return RC_OK;
}

static enum rc memory_view_open(struct engine *engine, struct engine_view **ret_view,
                                struct err *err)
{
    struct memory_engine *self = memory_of(engine);

    pthread_mutex_lock(&self->memory->lock);
    enum rc rc = use_begin(self, ENGINE_MEMORY_VIEW, NULL, err);
    if (rc == RC_OK) {
        struct memory_view *view = mem_zalloc(sizeof *view);
        pin_add(self, &view->pin, NULL);
        *ret_view = (struct engine_view *)view;
    }
    pthread_mutex_unlock(&self->memory->lock);
    return rc;
}

static void memory_view_close(struct engine *engine, struct engine_view *view)
{
    struct memory_view *self = (struct memory_view *)view;
    if (!self)
        return;
    struct engine_memory *memory = memory_of(engine)->memory;
    pthread_mutex_lock(&memory->lock);
    pin_drop(&self->pin);
    pthread_mutex_unlock(&memory->lock);
    mem_free(self);
}

/* ---- units ---- */

static enum rc memory_unit_open(struct engine *engine, struct engine_unit **ret_unit,
                                struct err *err)
{
    struct memory_engine *self = memory_of(engine);

    if (self->read_only)
        return err_set(err, RC_READONLY, "the engine was opened for reading");
    if (self->unit_is_open)
        return err_set(err, RC_BUSY, "another unit is being built");
    pthread_mutex_lock(&self->memory->lock);
    enum rc rc = use_begin(self, ENGINE_MEMORY_UNIT_OPEN, NULL, err);
    pthread_mutex_unlock(&self->memory->lock);
    if (rc != RC_OK)
        return rc;
    struct memory_unit *unit = mem_zalloc(sizeof *unit);
    unit->unit.engine = engine;
    engine__order_init(&unit->order);
    arena_init(&unit->arena);
    self->unit_is_open = true;
    *ret_unit = &unit->unit;
    return RC_OK;
}

static enum rc unit_add(struct memory_unit *unit, struct change change, struct err *err)
{
    struct engine_memory *memory = memory_of(unit->unit.engine)->memory;

    if (unit->applied)
        return err_set(err, RC_INVALID, "the unit has been applied");
    pthread_mutex_lock(&memory->lock);
    enum rc rc = op_begin(memory, ENGINE_MEMORY_UNIT_ADD, err);
    pthread_mutex_unlock(&memory->lock);
    if (rc != RC_OK)
        return rc;
    rc = change.kind == CHANGE_RANGE
             ? engine__order_range(&unit->order, change.key, change.value, err)
             : engine__order_key(&unit->order, change.key, change.value, err);
    if (rc != RC_OK)
        return rc;
    if (unit->change_count == unit->change_cap) {
        unit->change_cap = unit->change_cap ? unit->change_cap * 2 : 64;
        unit->change = mem_realloc(unit->change, unit->change_cap * sizeof *unit->change);
    }
    change.key = arena_copy(&unit->arena, change.key);
    change.value = arena_copy(&unit->arena, change.value);
    unit->change[unit->change_count++] = change;
    return RC_OK;
}

static enum rc memory_unit_put(struct engine_unit *unit, struct bytes key, struct bytes value,
                               struct err *err)
{
    struct change change = {.kind = CHANGE_PUT, .key = key, .value = value};
    return unit_add((struct memory_unit *)unit, change, err);
}

static enum rc memory_unit_delete(struct engine_unit *unit, struct bytes key, struct err *err)
{
    struct change change = {.kind = CHANGE_DELETE, .key = key};
    return unit_add((struct memory_unit *)unit, change, err);
}

static enum rc memory_unit_delete_range(struct engine_unit *unit, struct bytes from,
                                        struct bytes to, struct err *err)
{
    struct change change = {.kind = CHANGE_RANGE, .key = from, .value = to};
    return unit_add((struct memory_unit *)unit, change, err);
}

/* Range deletes first: they cover what is older than the unit and nothing of it. */
static void unit_write(const struct memory_unit *unit, struct disk *disk)
{
    uint64_t oldest_pin = disk->pins ? disk_oldest_pin(disk) : disk->number + 1;

    disk->number++;
    for (size_t i = 0; i < unit->change_count; i++) {
        const struct change *change = &unit->change[i];
        if (change->kind == CHANGE_RANGE)
            disk_delete_range(disk, change->key, change->value, oldest_pin);
    }
    for (size_t i = 0; i < unit->change_count; i++) {
        const struct change *change = &unit->change[i];
        if (change->kind != CHANGE_RANGE)
            disk_put(disk, change->key, change->kind == CHANGE_PUT ? &change->value : NULL,
                     oldest_pin);
    }
    disk_sweep(disk);
}

static enum rc memory_unit_apply(struct engine_unit *unit, struct err *err)
{
    struct memory_unit *self = (struct memory_unit *)unit;
    struct memory_engine *engine = memory_of(unit->engine);
    struct engine_memory *memory = engine->memory;

    pthread_mutex_lock(&memory->lock);
    gate_wait(memory);
    enum rc rc = use_begin(engine, ENGINE_MEMORY_APPLY, NULL, err);
    if (rc == RC_OK && memory->broken)
        rc = err_set(err, RC_IO, "the engine in memory had an error in the background");
    enum rc hidden = rc == RC_OK ? op_begin(memory, ENGINE_MEMORY_APPLY_HIDDEN, err) : RC_OK;
    if (hidden != RC_OK) {
        if (!engine->disk->hides)
            pin_add(engine, &engine->disk->shown, NULL);
        engine->disk->hides = true;
        unit_write(self, engine->disk);
        rc = hidden;
    } else if (rc == RC_OK) {
        if (!self->applied)
            engine->unit_count++;
        self->applied = true;
        disk_show_all(engine->disk);
        unit_write(self, engine->disk);
        rc = op_begin(memory, ENGINE_MEMORY_APPLY_LATE, err);
    }
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

static void memory_unit_close(struct engine_unit *unit)
{
    struct memory_unit *self = (struct memory_unit *)unit;
    if (!self)
        return;
    memory_of(unit->engine)->unit_is_open = false;
    engine__order_done(&self->order);
    arena_done(&self->arena);
    mem_free(self->change);
    mem_free(self);
}

/* ---- state, copies, repair, compaction ---- */

static void memory_pressure(struct engine *engine, struct engine_pressure *ret_pressure)
{
    struct engine_memory *memory = memory_of(engine)->memory;
    pthread_mutex_lock(&memory->lock);
    *ret_pressure = memory->pressure;
    ret_pressure->failed = ret_pressure->failed || memory->broken;
    ret_pressure->closed = memory_of(engine)->closed;
    pthread_mutex_unlock(&memory->lock);
}

static void memory_stats(struct engine *engine, struct engine_stats *ret_stats)
{
    struct memory_engine *self = memory_of(engine);
    pthread_mutex_lock(&self->memory->lock);
    *ret_stats = (struct engine_stats){
        .row_count_estimate = self->disk->live_count,
        .disk_bytes = self->disk->live_bytes,
        .unit_count = self->unit_count,
    };
    pthread_mutex_unlock(&self->memory->lock);
}

static void disk_copy(const struct disk *from, struct disk *to)
{
    to->number = 1;
    for (const struct row *row = from->head->next[0]; row; row = row->next[0]) {
        const struct version *version = row_at(row, from->number);
        if (!version)
            continue;
        struct bytes value = bytes_of(version->value, version->len);
        disk_put(to, row_key(row), &value, to->number);
    }
}

static enum rc memory_checkpoint(struct engine *engine, const char *dir, struct err *err)
{
    struct memory_engine *self = memory_of(engine);
    struct engine_memory *memory = self->memory;

    pthread_mutex_lock(&memory->lock);
    enum rc rc = use_begin(self, ENGINE_MEMORY_CHECKPOINT, NULL, err);
    if (rc == RC_OK && disk_find(memory, dir))
        rc = err_set(err, RC_INVALID, "\"%s\" exists already", dir);
    if (rc == RC_OK)
        disk_copy(self->disk, disk_new(memory, dir));
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

static enum rc memory_reopen(struct engine *engine, struct err *err)
{
    struct memory_engine *self = memory_of(engine);
    struct engine_memory *memory = self->memory;

    pthread_mutex_lock(&memory->lock);
    ASSERT(!self->unit_is_open);
    enum rc rc = op_begin(memory, ENGINE_MEMORY_REOPEN, err);
    self->epoch++;
    self->closed = rc != RC_OK;
    if (rc == RC_OK) {
        disk_show_all(self->disk);
        memory->broken = false;
    }
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

static enum rc memory_compact_all(struct engine *engine, struct err *err)
{
    (void)engine;
    (void)err;
    return RC_OK;
}

const struct engine_ops engine_memory_ops = {
    .name = "memory",
    .has_views = true,
    .open = memory_open,
    .close = memory_close,
    .get = memory_get,
    .may_have = memory_may_have,
    .iter_open = memory_iter_open,
    .iter_next = memory_iter_next,
    .iter_close = memory_iter_close,
    .view_open = memory_view_open,
    .view_close = memory_view_close,
    .unit_open = memory_unit_open,
    .unit_put = memory_unit_put,
    .unit_delete = memory_unit_delete,
    .unit_delete_range = memory_unit_delete_range,
    .unit_apply = memory_unit_apply,
    .unit_close = memory_unit_close,
    .pressure = memory_pressure,
    .stats = memory_stats,
    .checkpoint = memory_checkpoint,
    .reopen = memory_reopen,
    .compact_all = memory_compact_all,
};
