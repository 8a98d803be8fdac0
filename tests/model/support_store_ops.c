// SPDX-License-Identifier: Apache-2.0
/* support_store_ops.c - what clients do: transactions of a few reads and changes, each compared
 * with the model. */
#include "model/support_store_sim.h"

#include "base/mem.h"
#include "store/prefetch.h"
#include "store/turns.h"

#include "base/banned.h"

/* ---- drawing ---- */

static uint32_t group_draw(struct sim *sim, bool tree)
{
    const struct mirror *model = &sim->model;
    if (!tree && sim_below(sim, 4) == 0) {
        uint64_t at = sim_below(sim, model->tree_first);
        if (sim_below(sim, 4) > 0)
            at = (sim->focus[0] * 7 + at % 12) % model->tree_first;
        return (uint32_t)at;
    }
    if (sim_below(sim, 5) > 0)
        return sim->focus[sim_below(sim, SIM_FOCUS)];
    return (uint32_t)(model->tree_first + sim_below(sim, model->group_count - model->tree_first));
}

static bool op_needs_tree(enum op_kind kind)
{
    switch (kind) {
    case OP_WALK:
    case OP_NTH:
    case OP_RANK:
    case OP_RANGE:
    case OP_STATE:
    case OP_PUT_TELL:
    case OP_FILL:
    case OP_SPRINKLE:
    case OP_WALK_DELETE:
    case OP_GROUP_NEW:
        return true;
    default:
        return false;
    }
}

static enum op_kind kind_draw(struct sim *sim, bool writes)
{
    static const uint8_t reads[] = {OP_GET,   OP_GET,     OP_GET, OP_GET,  OP_WALK,
                                    OP_WALK,  OP_WALK,    OP_NTH, OP_RANK, OP_RANGE,
                                    OP_STATE, OP_COUNTER, OP_WANT};
    static const uint8_t changes[] = {
        OP_PUT,    OP_PUT,    OP_PUT,    OP_PUT,  OP_PUT_TELL,    OP_FILL,        OP_FILL,
        OP_DELETE, OP_DELETE, OP_DELETE, OP_COPY, OP_COUNTER_ADD, OP_WALK_DELETE, OP_SPRINKLE};
    if (writes && sim_below(sim, 70) == 0)
        return OP_GROUP_DROP;
    if (writes && sim_below(sim, 200) == 0)
        return OP_GROUP_NEW;
    if (writes && sim_below(sim, 1500) == 0)
        return OP_PREFIX_DROP;
    if (writes && sim_below(sim, 3) > 0)
        return changes[sim_below(sim, ARRAY_LEN(changes))];
    return reads[sim_below(sim, ARRAY_LEN(reads))];
}

static void op_draw(struct sim *sim, struct op *op, bool writes)
{
    struct mirror *model = &sim->model;
    *op = (struct op){.kind = kind_draw(sim, writes)};
    op->group = group_draw(sim, op_needs_tree(op->kind));
    /* What needs a whole group is asked less of those that hardly fit. */
    if ((op->kind == OP_NTH || op->kind == OP_RANK || op->kind == OP_RANGE) &&
        model->group[op->group].id_count > 300 && sim_below(sim, 8) > 0)
        op->kind = OP_WALK;
    op->id = mirror_id_draw(model, &sim->rand, op->group);
    op->id2 = mirror_id_draw(model, &sim->rand, op->group);
    op->bend = (uint8_t)(sim_below(sim, 4) == 0 ? 1 + sim_below(sim, 2) : 0);
    op->reverse = sim_below(sim, 2);
    op->has_from = sim_below(sim, 4) > 0;
    op->ahead = sim_below(sim, 4) == 0;
    op->count = 1 + (uint32_t)sim_below(sim, sim_below(sim, 8) == 0 ? 300 : 16);
    if (op->kind == OP_NTH)
        op->count = (uint32_t)sim_below(sim, model->group[op->group].id_count);
    if (op->kind == OP_FILL)
        op->count = 1 + op->count % (sim_below(sim, 4) ? 8 : 60);
    if (op->kind == OP_FILL && model->group[op->group].count * 4 < model->group[op->group].id_count)
        op->count += 40; /* a large group that was dropped grows again */
    op->delta = (int64_t)sim_below(sim, 7) - 3;
    op->group2 = group_draw(sim, false);
    if (op->kind == OP_COPY)
        op->id2 = mirror_id_draw(model, &sim->rand, op->group2);
    op->value = mirror_value_draw(model, &sim->rand, op->group);
}

void sim_client_start(struct sim *sim, struct client *client)
{
    client->state = CLIENT_READY;
    client->op_count = 1 + (uint32_t)sim_below(sim, SIM_OPS_MAX);
    client->writes = sim_below(sim, 3) > 0;
    client->wanted = false;
    client->take_back = sim_below(sim, 20) == 0;
    client->attempt_count = 0;
    client->waiter.ticket = sim->next_ticket++;
    for (uint32_t i = 0; i < client->op_count; i++)
        op_draw(sim, &client->op[i], client->writes);
}

void sim_client_stop(struct sim *sim, struct client *client)
{
    if (sim->store)
        store_wait_release(sim->store, &client->waiter);
    client->state = CLIENT_IDLE;
    client->waiter.rc = RC_OK;
}

/* ---- reads ---- */

static struct bytes suffix_of(struct sim *sim, uint16_t id, uint8_t bend, uint8_t space[2048])
{
    struct bytes suffix = sim->model.suffix[id];
    if (bend == 0 || suffix.len > 2040)
        return suffix;
    if (suffix.len)
        memcpy(space, suffix.ptr, suffix.len);
    if (bend == 2)
        return bytes_of(space, suffix.len ? suffix.len - 1 : 0);
    space[suffix.len] = 0;
    return bytes_of(space, suffix.len + 1);
}

static void value_check(struct sim *sim, const struct op *op, struct mirror_value expected,
                        struct bytes value)
{
    SIM_CHECK(sim, bytes_eq(value, mirror_value_bytes(&sim->model, expected, 0)),
              "op %d: group %u: a value of %zu bytes differs from the model's of %u", op->kind,
              op->group, value.len, expected.len);
}

static enum rc op_get(struct sim *sim, const struct op *op)
{
    struct bytes value;
    const struct mirror_value *expected = mirror_get(&sim->model, op->group, op->id);
    enum rc rc = store_get(sim->store, sim_group(sim, op->group), sim->model.suffix[op->id], &value,
                           &sim->err);
    if (rc == RC_COLD)
        return rc;
    SIM_CHECK(sim, rc == (expected ? RC_OK : RC_NOT_FOUND), "get of group %u id %u is %s: %s",
              op->group, op->id, rc_name(rc), rc == RC_OK ? "" : sim->err.text);
    if (expected)
        value_check(sim, op, *expected, value);
    return RC_OK;
}

/* The model's place where a walk begins; a reversed one begins below it. */
static size_t walk_place(struct sim *sim, const struct op *op, struct bytes suffix)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    bool exact;
    if (!op->has_from)
        return op->reverse ? group->count : 0;
    size_t id = mirror_suffix_place(&sim->model, suffix, &exact);
    return mirror_row_place(group, op->reverse && exact ? id + 1 : id);
}

static enum rc op_walk(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    uint8_t space[2048];
    struct bytes from = suffix_of(sim, op->id, op->bend, space), suffix, value;
    size_t place = walk_place(sim, op, from);
    struct store_walk walk;
    enum rc rc = RC_OK;
    store_walk_init(&walk, sim->store, sim_group(sim, op->group), op->reverse);
    if (op->has_from)
        rc = store_walk_seek(&walk, from, &sim->err);
    for (uint32_t i = 0; i < op->count && rc == RC_OK; i++) {
        rc = store_walk_next(&walk, &suffix, &value, &sim->err);
        if (rc == RC_COLD)
            break;
        bool end = op->reverse ? place == 0 : place == group->count;
        SIM_CHECK(sim, rc == (end ? RC_NOT_FOUND : RC_OK),
                  "step %u of a walk (reverse %d) in group %u is %s", i, op->reverse, op->group,
                  rc_name(rc));
        if (end)
            break;
        const struct mirror_row *row = &group->row[op->reverse ? --place : place++];
        SIM_CHECK(sim, bytes_eq(suffix, sim->model.suffix[row->id]),
                  "step %u of a walk (reverse %d) in group %u met another row than id %u", i,
                  op->reverse, op->group, row->id);
        value_check(sim, op, row->value, value);
    }
    store_walk_done(&walk);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc op_nth(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    struct bytes suffix, value;
    enum rc rc =
        store_nth(sim->store, sim_group(sim, op->group), op->count, &suffix, &value, &sim->err);
    if (rc == RC_COLD)
        return rc;
    SIM_CHECK(sim, rc == (op->count < group->count ? RC_OK : RC_NOT_FOUND),
              "row %u of %zu of group %u is %s", op->count, group->count, op->group, rc_name(rc));
    if (rc == RC_OK) {
        const struct mirror_row *row = &group->row[op->count];
        SIM_CHECK(sim, bytes_eq(suffix, sim->model.suffix[row->id]), "row %u of group %u differs",
                  op->count, op->group);
        value_check(sim, op, row->value, value);
    }
    return RC_OK;
}

static enum rc op_rank(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    uint8_t space[2048];
    struct bytes from = suffix_of(sim, op->id, op->bend, space), to = sim->model.suffix[op->id2];
    bool exact;
    size_t low = mirror_row_place(group, mirror_suffix_place(&sim->model, from, &exact));
    size_t high = op->has_from ? mirror_row_place(group, op->id2) : group->count;
    uint64_t count;
    enum rc rc;
    if (op->kind == OP_RANK)
        rc = store_rank(sim->store, sim_group(sim, op->group), from, &count, &sim->err);
    else
        rc = store_range_count(sim->store, sim_group(sim, op->group), from, op->has_from, to,
                               &count, &sim->err);
    if (rc == RC_COLD)
        return rc;
    uint64_t expected = op->kind == OP_RANK ? low : high > low ? high - low : 0;
    SIM_CHECK(sim, rc == RC_OK && count == expected, "group %u: op %d is %s, %llu and not %llu",
              op->group, op->kind, rc_name(rc), (unsigned long long)count,
              (unsigned long long)expected);
    return RC_OK;
}

static enum rc op_state(struct sim *sim, const struct op *op)
{
    struct store_group_state state = store_group_state(sim->store, sim_group(sim, op->group));
    uint64_t count = sim->model.group[op->group].count;
    SIM_CHECK(sim, !state.complete || state.row_count == count,
              "group %u is said to be complete with %llu rows, not %llu", op->group,
              (unsigned long long)state.row_count, (unsigned long long)count);
    return RC_OK;
}

static enum rc op_counter(struct sim *sim, const struct op *op)
{
    uint32_t n = op->id % MODEL_COUNTERS;
    int64_t value = store_counter_get(sim->store, sim->counter[n]);
    SIM_CHECK(sim, value == sim->model.counter[n], "counter %u is %lld, not %lld", n,
              (long long)value, (long long)sim->model.counter[n]);
    return RC_OK;
}

/* Names several things at once and waits for them, cold or not. */
static enum rc op_want(struct sim *sim, struct client *client, const struct op *op)
{
    if (client->wanted)
        return op_get(sim, op);
    client->wanted = true;
    store_want(sim->store, sim_group(sim, op->group), sim->model.suffix[op->id],
               (enum store_want_kind)(op->count % 5));
    store_want(sim->store, sim_group(sim, op->group2),
               sim->model.suffix[sim->model.group[op->group2].whole ? 0 : op->id2],
               (enum store_want_kind)(op->count / 5 % 5));
    return RC_COLD;
}

/* ---- changes ---- */

static enum rc row_put(struct sim *sim, uint32_t group, uint16_t id, struct mirror_value value)
{
    enum rc rc = store_put(sim->store, sim_group(sim, group), sim->model.suffix[id],
                           mirror_value_bytes(&sim->model, value, 0), &sim->err);
    if (rc == RC_OK)
        mirror_set(&sim->model, group, id, value);
    return rc;
}

static enum rc op_put_tell(struct sim *sim, const struct op *op)
{
    bool is_new;
    enum rc rc = store_put_tell(sim->store, sim_group(sim, op->group), sim->model.suffix[op->id],
                                mirror_value_bytes(&sim->model, op->value, 0), &is_new, &sim->err);
    if (rc != RC_OK)
        return rc;
    SIM_CHECK(sim, is_new == !mirror_get(&sim->model, op->group, op->id),
              "group %u id %u: a put says that it is new: %d", op->group, op->id, is_new);
    mirror_set(&sim->model, op->group, op->id, op->value);
    return RC_OK;
}

static enum rc op_fill(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    struct mirror_value value = op->value;
    if (op->kind == OP_GROUP_NEW) {
        if (group->used)
            return RC_OK;
        enum rc rc = store_group_new(sim->store, sim_group(sim, op->group), &sim->err);
        if (rc != RC_OK)
            return rc;
    }
    if (value.len > 300)
        value.len = (uint16_t)(value.len % 300);
    for (uint32_t i = 0; i < op->count && i < group->id_count; i++) {
        uint16_t id =
            (uint16_t)((op->id + i * group->id_step) % (group->id_count * group->id_step));
        value.offset = (value.offset + 77) % (MODEL_PATTERN_BYTES - MODEL_VALUE_BYTES_MAX);
        value.len = (uint16_t)(value.len + (i % 8 == 3 ? 1 : 0));
        enum rc rc = row_put(sim, op->group, id, value);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc op_delete(struct sim *sim, const struct op *op)
{
    bool there = mirror_get(&sim->model, op->group, op->id) != NULL;
    enum rc rc =
        store_delete(sim->store, sim_group(sim, op->group), sim->model.suffix[op->id], &sim->err);
    if (rc == RC_NOT_FOUND) {
        SIM_CHECK(sim, !there, "group %u id %u was not found by a delete", op->group, op->id);
        return RC_OK;
    }
    if (rc == RC_OK && there)
        mirror_set(&sim->model, op->group, op->id, (struct mirror_value){0});
    return rc;
}

/* Puts and deletes at regular distances, read by nobody: in a cold group each stands alone between
 * open intervals, and a load has to pass many of them. */
static enum rc op_sprinkle(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    struct mirror_value value = op->value;
    uint32_t stride = 1 + op->id2 % 4, ids = group->id_count * group->id_step;
    if (value.len > 40)
        value.len = (uint16_t)(value.len % 40);
    for (uint32_t i = 0; i < op->count && i * stride < group->id_count; i++) {
        uint16_t id = (uint16_t)((op->id + i * stride * group->id_step) % ids);
        value.offset = (value.offset + 77) % (MODEL_PATTERN_BYTES - MODEL_VALUE_BYTES_MAX);
        enum rc rc;
        if (i % 5 == 4)
            rc = op_delete(sim, &(struct op){.group = op->group, .id = id});
        else
            rc = row_put(sim, op->group, id, value);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* Deletes what a walk shows, with the very bytes it shows. */
static enum rc op_walk_delete(struct sim *sim, const struct op *op)
{
    const struct mirror_group *group = &sim->model.group[op->group];
    struct bytes suffix, value;
    struct store_walk walk;
    enum rc rc = RC_OK;
    size_t place = op->reverse ? group->count : 0;
    store_walk_init(&walk, sim->store, sim_group(sim, op->group), op->reverse);
    if (op->has_from) {
        place = mirror_row_place(group, op->reverse ? op->id + 1u : op->id);
        rc = store_walk_seek(&walk, sim->model.suffix[op->id], &sim->err);
    }
    for (uint32_t i = 0; i < 1 + op->count % 6 && rc == RC_OK; i++) {
        rc = store_walk_next(&walk, &suffix, &value, &sim->err);
        if (rc == RC_COLD)
            break;
        bool end = op->reverse ? place == 0 : place >= group->count;
        SIM_CHECK(sim, rc == (end ? RC_NOT_FOUND : RC_OK), "a deleting walk of group %u is %s",
                  op->group, rc_name(rc));
        if (end)
            break;
        uint16_t id = group->row[op->reverse ? --place : place].id;
        SIM_CHECK(sim, bytes_eq(suffix, sim->model.suffix[id]),
                  "a deleting walk of group %u met another row than id %u", op->group, id);
        rc = store_delete(sim->store, sim_group(sim, op->group), suffix, &sim->err);
        SIM_CHECK(sim, rc != RC_NOT_FOUND, "group %u: a row that was walked over is not found",
                  op->group);
        if (rc == RC_OK)
            mirror_set(&sim->model, op->group, id, (struct mirror_value){0});
    }
    store_walk_done(&walk);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Puts the borrowed bytes of a get elsewhere, perhaps into the same block. */
static enum rc op_copy(struct sim *sim, const struct op *op)
{
    struct bytes value;
    const struct mirror_value *expected = mirror_get(&sim->model, op->group, op->id);
    enum rc rc = store_get(sim->store, sim_group(sim, op->group), sim->model.suffix[op->id], &value,
                           &sim->err);
    if (rc == RC_COLD)
        return rc;
    SIM_CHECK(sim, rc == (expected ? RC_OK : RC_NOT_FOUND), "get of group %u id %u is %s",
              op->group, op->id, rc_name(rc));
    if (!expected)
        return RC_OK;
    uint32_t to = op->bend ? op->group : op->group2;
    uint16_t id =
        op->bend ? mirror_id_draw(&sim->model, &(struct rand){{op->id2, 1, 2, 3}}, to) : op->id2;
    struct mirror_value copy = *expected;
    rc = store_put(sim->store, sim_group(sim, to), sim->model.suffix[id], value, &sim->err);
    if (rc == RC_OK)
        mirror_set(&sim->model, to, id, copy);
    return rc;
}

static enum rc op_group_drop(struct sim *sim, const struct op *op)
{
    enum rc rc = store_group_drop(sim->store, sim_group(sim, op->group), &sim->err);
    if (rc == RC_NOT_FOUND) {
        SIM_CHECK(sim, sim->model.group[op->group].count == 0,
                  "group %u with rows was not found by a drop", op->group);
        return RC_OK;
    }
    if (rc == RC_OK)
        mirror_group_drop(&sim->model, op->group);
    return rc;
}

static enum rc op_prefix_drop(struct sim *sim, const struct op *op)
{
    uint32_t prefix = sim->model.group[op->group].prefix;
    enum rc rc = store_prefix_drop(sim->store, sim->prefix[prefix], &sim->err);
    if (rc == RC_OK)
        mirror_prefix_drop(&sim->model, prefix);
    return rc;
}

static enum rc op_counter_add(struct sim *sim, const struct op *op)
{
    uint32_t n = op->id % MODEL_COUNTERS;
    enum rc rc = store_counter_add(sim->store, sim->counter[n], op->delta, &sim->err);
    if (rc == RC_OK)
        mirror_counter_add(&sim->model, n, op->delta);
    return rc;
}

static enum rc op_run(struct sim *sim, struct client *client, const struct op *op)
{
    switch (op->kind) {
    case OP_GET:
        return op_get(sim, op);
    case OP_WALK:
        return op_walk(sim, op);
    case OP_NTH:
        return op_nth(sim, op);
    case OP_RANK:
    case OP_RANGE:
        return op_rank(sim, op);
    case OP_STATE:
        return op_state(sim, op);
    case OP_COUNTER:
        return op_counter(sim, op);
    case OP_WANT:
        return op_want(sim, client, op);
    case OP_PUT:
        return row_put(sim, op->group, op->id, op->value);
    case OP_PUT_TELL:
        return op_put_tell(sim, op);
    case OP_FILL:
    case OP_GROUP_NEW:
        return op_fill(sim, op);
    case OP_SPRINKLE:
        return op_sprinkle(sim, op);
    case OP_DELETE:
        return op_delete(sim, op);
    case OP_WALK_DELETE:
        return op_walk_delete(sim, op);
    case OP_COPY:
        return op_copy(sim, op);
    case OP_GROUP_DROP:
        return op_group_drop(sim, op);
    case OP_PREFIX_DROP:
        return op_prefix_drop(sim, op);
    case OP_COUNTER_ADD:
        return op_counter_add(sim, op);
    case OP_KINDS:
        break;
    }
    return RC_INVALID;
}

/* ---- the transaction ---- */

/* What a server does with a batch: it must change no answer, whatever is changed in between. */
static void ops_prefetch(struct sim *sim, const struct op *op, uint32_t count)
{
    struct store_group group[SIM_OPS_MAX];
    struct store_row row[SIM_OPS_MAX];
    struct bytes packed[SIM_OPS_MAX];
    size_t row_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        group[i] = sim_group(sim, op[i].group);
        if (sim->model.group[op[i].group].whole)
            continue;
        row[row_count++] = (struct store_row){group[i], sim->model.suffix[op[i].id]};
    }
    store_prefetch(sim->store, group, count);
    if (op->reverse)
        store_peek_rows(sim->store, row, row_count, packed);
    store_prefetch_rows(sim->store, row, row_count);
}

static void attempt_commit(struct sim *sim, struct client *client, size_t mark)
{
    uint64_t before = store_commit_lsn(sim->store);
    SIM_CHECK(sim, store_lsn(sim->store) > sim->lsn_max, "LSN %llu was given before",
              (unsigned long long)store_lsn(sim->store));
    uint64_t lsn = store_lsn(sim->store);
    store_commit(sim->store);
    bool rows = false;
    for (size_t i = mark; i < sim->model.log_count; i++)
        rows = rows || sim->model.log[i].group < MODEL_GROUPS_MAX;
    if (store_commit_lsn(sim->store) != before) {
        SIM_CHECK(sim, store_commit_lsn(sim->store) == lsn, "a commit got another LSN");
        sim->lsn_max = lsn;
        sim->commit_count++;
    } else {
        SIM_CHECK(sim, !rows, "a commit with changed rows has no LSN");
    }
    mirror_commit(&sim->model, store_commit_lsn(sim->store));
    sim_client_stop(sim, client);
}

static void attempt_fail(struct sim *sim, struct client *client, enum rc rc)
{
    enum { ATTEMPTS_MAX = 60 };
    if (rc == RC_COLD) {
        sim->cold_count++;
        if (++client->attempt_count > ATTEMPTS_MAX) {
            sim->give_up_count++;
            sim_client_stop(sim, client);
        } else if (store_wait(sim->store, &client->waiter)) {
            client->state = CLIENT_LOADING;
        }
        return;
    }
    bool told = rc == RC_IO && (strstr(sim->err.text, "the flush that makes room fails") ||
                                strstr(sim->err.text, "changes that cannot be flushed"));
    SIM_CHECK(sim, rc == RC_READONLY || rc == RC_FULL || told, "a change failed with %s: %s",
              rc_name(rc), sim->err.text);
    SIM_CHECK(sim, sim->faulty, "a change failed without a fault: %s", sim->err.text);
    sim_client_stop(sim, client);
}

void sim_client_attempt(struct sim *sim, struct client *client)
{
    size_t mark = sim->model.log_count;
    enum rc rc = RC_OK;
    if (client->waiter.rc != RC_OK) { /* a load failed: that is the answer */
        SIM_CHECK(sim, sim->faulty, "a load failed: %s", client->waiter.err.text);
        sim_client_stop(sim, client);
        return;
    }
    store_begin(sim->store, 0);
    for (uint32_t i = 0; i < client->op_count && rc == RC_OK; i++) {
        if (client->op[i].ahead)
            ops_prefetch(sim, &client->op[i], client->op_count - i);
        rc = op_run(sim, client, &client->op[i]);
    }
    if (rc == RC_OK && !client->take_back) {
        attempt_commit(sim, client, mark);
        return;
    }
    store_undo(sim->store);
    mirror_undo_to(&sim->model, mark);
    if (rc == RC_OK)
        sim_client_stop(sim, client);
    else
        attempt_fail(sim, client, rc);
}
