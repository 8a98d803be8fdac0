/* Strings on the store in memory, hot and cold. */
#include "types/string.h"

#include "base/file_sim.h"
#include "store/engine_memory.h"
#include "store/load.h"
#include "test.h"
#include "types/spaces.h"

#include "base/banned.h"

struct fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store;
    struct ns_ids ids;
    struct ns ns;
    struct err err;
};

static void fix_open(struct fix *fix)
{
    struct store_options options = {.dir = "db",
                                    .spaces = types_spaces,
                                    .space_count = TYPES_SPACE_COUNT,
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 1 << 20,
                                    .disk_reserve_bytes = 0,
                                    .always_cold = true,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    ASSERT_OK(
        ns_init(&fix->ns, fix->store, &fix->clock, &fix->ids, BYTES(NS_NAME_DEFAULT), &fix->err),
        &fix->err);
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    fix_open(fix);
}

static void fix_done(struct fix *fix)
{
    ns_done(&fix->ns);
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

static void fix_write(struct fix *fix)
{
    ASSERT_OK(store_commit(fix->store, &fix->err), &fix->err);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}

static void set(struct fix *fix, struct bytes key, struct bytes value)
{
    store_begin(fix->store, 0);
    ASSERT_OK(string_set(&fix->ns, key, value, &fix->err), &fix->err);
    fix_write(fix);
}

/* Flushes, and evicts everything. */
static void freeze_out(struct fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    for (int i = 0; i < 1000 && store_flush_mark(fix->store) < segment; i++) {
        store_step(fix->store, STORE_STEP_JOURNAL);
        store_step(fix->store, STORE_STEP_FLUSH);
        store_poll(fix->store);
    }
    ASSERT_GE(store_flush_mark(fix->store), segment);
    store_evict_all(fix->store);
}

static void waiter_ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    *(bool *)arg = true;
}

/* Waits for what the open commit wanted. */
static void load_all(struct fix *fix, struct load_waiter *waiter)
{
    bool ready = false;
    *waiter = (struct load_waiter){.ready = waiter_ready, .arg = &ready};
    store_undo(fix->store);
    ASSERT_TRUE(store_wait(fix->store, waiter));
    while (!ready) {
        store_step(fix->store, STORE_STEP_LOAD);
        store_poll(fix->store);
    }
    ASSERT_RC(waiter->rc, RC_OK);
}

static void release(struct fix *fix, struct load_waiter *waiter)
{
    store_wait_release(fix->store, waiter);
    load_waiter_done(waiter);
}

TEST(a_string_is_read_as_it_was_written)
{
    struct fix fix;
    struct bytes value;
    fix_init(&fix);
    set(&fix, BYTES("k"), BYTES("a\0b"));
    set(&fix, BYTES(""), BYTES(""));
    store_begin(fix.store, 0);
    ASSERT_OK(string_get(&fix.ns, BYTES("k"), &value, &fix.err), &fix.err);
    ASSERT_BYTES(value, BYTES("a\0b"));
    ASSERT_OK(string_get(&fix.ns, BYTES(""), &value, &fix.err), &fix.err);
    ASSERT_EQ(value.len, 0);
    ASSERT_RC(string_get(&fix.ns, BYTES("none"), &value, &fix.err), RC_NOT_FOUND);
    store_undo(fix.store);
    fix_done(&fix);
}

TEST(keys_are_counted_exactly)
{
    struct fix fix;
    int64_t count;
    struct bytes keys[] = {BYTES("a"), BYTES("none"), BYTES("a"), BYTES("b")};
    fix_init(&fix);
    set(&fix, BYTES("a"), BYTES("1"));
    set(&fix, BYTES("a"), BYTES("2"));
    set(&fix, BYTES("b"), BYTES("3"));
    set(&fix, BYTES("c"), BYTES("4"));
    ASSERT_EQ(ns_key_count(&fix.ns), 3);
    store_begin(fix.store, STORE_DELETES);
    ASSERT_OK(ns_delete(&fix.ns, keys, ARRAY_LEN(keys), &count, &fix.err), &fix.err);
    fix_write(&fix);
    ASSERT_EQ(count, 2);
    ASSERT_EQ(ns_key_count(&fix.ns), 1);
    fix_done(&fix);
}

TEST(cold_keys_are_loaded_and_counted_once)
{
    struct fix fix;
    struct load_waiter waiter;
    struct bytes value, keys[] = {BYTES("a"), BYTES("b"), BYTES("none")};
    int64_t count;
    fix_init(&fix);
    set(&fix, BYTES("a"), BYTES("1"));
    set(&fix, BYTES("b"), BYTES("2"));
    freeze_out(&fix);

    store_begin(fix.store, 0);
    ASSERT_RC(string_set(&fix.ns, BYTES("a"), BYTES("3"), &fix.err), RC_COLD);
    load_all(&fix, &waiter);
    set(&fix, BYTES("a"), BYTES("3"));
    release(&fix, &waiter);
    ASSERT_EQ(ns_key_count(&fix.ns), 2);

    freeze_out(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(string_get(&fix.ns, BYTES("a"), &value, &fix.err), RC_COLD);
    store_undo(fix.store);
    store_begin(fix.store, STORE_DELETES);
    ASSERT_RC(ns_delete(&fix.ns, keys, ARRAY_LEN(keys), &count, &fix.err), RC_COLD);
    load_all(&fix, &waiter); /* all three at once */
    store_begin(fix.store, STORE_DELETES);
    ASSERT_OK(ns_delete(&fix.ns, keys, ARRAY_LEN(keys), &count, &fix.err), &fix.err);
    fix_write(&fix);
    release(&fix, &waiter);
    ASSERT_EQ(count, 2);
    ASSERT_EQ(ns_key_count(&fix.ns), 0);
    fix_done(&fix);
}

TEST(an_id_is_never_drawn_twice)
{
    struct fix fix;
    uint8_t id[3][KEY_ID_BYTES];
    fix_init(&fix);
    store_begin(fix.store, 0);
    ns_id_draw(&fix.ns, id[0]);
    ns_id_draw(&fix.ns, id[1]);
    store_undo(fix.store);
    store_begin(fix.store, 0); /* the same LSN */
    ns_id_draw(&fix.ns, id[2]);
    store_undo(fix.store);
    ASSERT_NE(memcmp(id[0], id[1], KEY_ID_BYTES), 0);
    ASSERT_NE(memcmp(id[0], id[2], KEY_ID_BYTES), 0);
    ASSERT_NE(memcmp(id[1], id[2], KEY_ID_BYTES), 0);
    fix_done(&fix);
}

TEST(another_type_is_not_a_string)
{
    struct fix fix;
    struct bytes value;
    struct meta meta = {.type = TYPE_HASH};
    uint8_t head[META_HEAD_BYTES];
    fix_init(&fix);
    meta_head_put(head, &meta);
    store_begin(fix.store, 0);
    ASSERT_OK(store_put(fix.store, (struct store_group){fix.ns.meta, BYTES("h")}, BYTES(""),
                        bytes_of(head, sizeof head), &fix.err),
              &fix.err);
    ASSERT_RC(string_get(&fix.ns, BYTES("h"), &value, &fix.err), RC_WRONGTYPE);
    ASSERT_OK(string_set(&fix.ns, BYTES("h"), BYTES("now a string"), &fix.err), &fix.err);
    ASSERT_OK(string_get(&fix.ns, BYTES("h"), &value, &fix.err), &fix.err);
    fix_write(&fix);
    fix_done(&fix);
}
