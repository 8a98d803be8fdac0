/* types.c - which types there are, and that each stays in its database.
 *
 * Invariants:
 *   (1) A type whose binding is stored and that has tiles is in tile-types, with the same database.
 *   (2) A binding is stored before the first command runs, and only for a database without ordinary
 *       keys that are tilekeys: they would be hidden.
 *   (3) Tiles that were persisted can be read: one of the kinds of shards that have everything is
 *       configured. A kind that is left out does not have everything any more.
 *   (4) The directory of a type is made, and that is stored, before anything is persisted into it:
 *       pool.h, (6). */
#include <stdio.h>

#include "base/log.h"
#include "tile/tile_int.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum {
    BINDING_BYTES = 6,
    BINDING_TAG = 't',
    /* bits of its last byte */
    BINDING_SHARDS = TILE_SHARDS_SQLITE | TILE_SHARDS_KV,
    BINDING_MADE_SHIFT = 4,
    BINDING_MADE = BINDING_SHARDS << BINDING_MADE_SHIFT,
    BINDING_REMOVALS = 0x80,
};

/* ---- tile-types ---- */

static enum rc type_name_check(struct bytes name, struct err *err)
{
    bool good = name.len > 0 && name.len <= TILE_TYPE_NAME_BYTES_MAX && name.ptr[0] >= 'a' &&
                name.ptr[0] <= 'z';
    for (size_t i = 0; good && i < name.len; i++)
        good = (name.ptr[i] >= 'a' && name.ptr[i] <= 'z') ||
               (name.ptr[i] >= '0' && name.ptr[i] <= '9') || name.ptr[i] == '_';
    if (good && (bytes_start_with(name, BYTES("sqlite_")) || bytes_eq(name, BYTES("terrace"))))
        return err_set(err, RC_INVALID,
                       "\"%.*s\" is no name of a tile type: shards have tables of their own that "
                       "are called so",
                       (int)name.len, (const char *)name.ptr);
    if (!good)
        return err_set(err, RC_INVALID,
                       "\"%.*s\" is no name of a tile type: a letter, then letters, digits and _, "
                       "lower case, at most %d",
                       (int)name.len, (const char *)name.ptr, TILE_TYPE_NAME_BYTES_MAX);
    return RC_OK;
}

static enum tile_kind kind_of(struct bytes name)
{
    if (bytes_eq(name, BYTES("tm")))
        return TILE_TM;
    return bytes_eq(name, BYTES("q2")) || bytes_eq(name, BYTES("qp")) ? TILE_META : TILE_PLAIN;
}

enum rc tile_binding_parse(struct bytes text, struct bytes *ret_name, uint32_t *ret_db,
                           struct err *err)
{
    const uint8_t *eq = text.len ? memchr(text.ptr, '=', text.len) : NULL;
    size_t at = eq ? (size_t)(eq - text.ptr) : 0;
    uint32_t db = 0;
    bool good = eq && text.len - at >= 2 && text.len - at <= 5;
    for (size_t i = at + 1; good && i < text.len; i++) {
        good = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        db = 10 * db + (text.ptr[i] - (uint32_t)'0');
    }
    if (!good)
        return err_set(err, RC_INVALID,
                       "argument must be a type and the number of its database, as imagery=1");
    *ret_name = bytes_of(text.ptr, at);
    *ret_db = db;
    return type_name_check(*ret_name, err);
}

/* Metadata is kept in SQL only. */
static uint8_t shards_of(const struct tiles *tiles, const struct tile_type *type)
{
    const struct tiles_options *options = &tiles->options;
    bool sqlite = options->sqlite_dir && options->sqlite_dir[0];
    bool kv = options->kv_dir && options->kv_dir[0] && type->kind != TILE_META;
    return (uint8_t)((sqlite ? TILE_SHARDS_SQLITE : 0) | (kv ? TILE_SHARDS_KV : 0));
}

static enum rc type_add(struct tiles *tiles, struct bytes text, struct err *err)
{
    struct bytes name;
    uint32_t db;
    enum rc rc = tile_binding_parse(text, &name, &db, err);
    if (rc != RC_OK)
        return rc;
    if (tiles->type_count == TILE_TYPES_MAX)
        return err_set(err, RC_INVALID, "there are more than %d tile types", TILE_TYPES_MAX);
    if (!kv_ns(tiles->kv, db))
        return err_set(err, RC_INVALID, "tile type %.*s: there is no database %u", (int)name.len,
                       (const char *)name.ptr, db);
    for (size_t i = 0; i < tiles->type_count; i++) {
        const struct tile_type *other = &tiles->type[i];
        if (other->db == db || bytes_eq(tile__name(other), name))
            return err_set(err, RC_INVALID,
                           "tile types %s=%u and %.*s=%u: each has one database, "
                           "and no other type is in it",
                           other->name, other->db, (int)name.len, (const char *)name.ptr, db);
    }
    struct tile_type *type = &tiles->type[tiles->type_count];
    *type = (struct tile_type){.tiles = tiles,
                               .name_len = (uint8_t)name.len,
                               .kind = kind_of(name),
                               .db = db,
                               .number = (uint8_t)tiles->type_count};
    memcpy(type->name, name.ptr, name.len);
    type->shards = type->complete = shards_of(tiles, type);
    type->removals = type->shards != 0;
    tiles->type_count++;
    return RC_OK;
}

enum rc tiles__types_parse(struct tiles *tiles, struct err *err)
{
    const struct tiles_options *options = &tiles->options;
    for (size_t i = 0; i < options->type_count; i++) {
        const char *text = options->types[i];
        enum rc rc = type_add(tiles, bytes_of(text, strlen(text)), err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* ---- what is stored ---- */

struct binding {
    uint32_t db;
    uint8_t kind;
    uint8_t complete;
    uint8_t made;
    bool removals;
};

struct bind_job {
    struct task task;
    struct tiles *tiles;
    bool over;
    enum rc rc;
    struct err err;
};

static enum rc binding_decode(struct bytes bytes, struct binding *ret_binding, struct err *err)
{
    if (bytes.len != BINDING_BYTES)
        return err_set(err, RC_CORRUPT, "the stored binding of a tile type is damaged");
    uint8_t bits = bytes.ptr[5];
    if (bits & ~(BINDING_SHARDS | BINDING_MADE | BINDING_REMOVALS))
        return err_set(err, RC_VERSION, "the stored binding of a tile type is of a later version");
    *ret_binding = (struct binding){.db = be32_get(bytes.ptr),
                                    .kind = bytes.ptr[4],
                                    .complete = bits & BINDING_SHARDS,
                                    .made = (bits & BINDING_MADE) >> BINDING_MADE_SHIFT,
                                    .removals = bits & BINDING_REMOVALS};
    return RC_OK;
}

enum rc tile__binding_put(struct tile_type *type, uint8_t complete, struct err *err)
{
    uint8_t suffix[1 + TILE_TYPE_NAME_BYTES_MAX], value[BINDING_BYTES];
    suffix[0] = BINDING_TAG;
    memcpy(suffix + 1, type->name, type->name_len);
    be32_put(value, type->db);
    value[4] = (uint8_t)type->kind;
    value[5] = (uint8_t)(complete | type->made << BINDING_MADE_SHIFT |
                         (type->removals ? BINDING_REMOVALS : 0));
    return store_put(type->tiles->store, tile__own(type->tiles),
                     bytes_of(suffix, 1 + (size_t)type->name_len), bytes_of(value, sizeof value),
                     err);
}

/* Whether the group has a row. Its first page is loaded: a small group is complete from then on,
 * and what it does not have is known without a look at the disk. */
static enum rc group_look(struct store *store, struct store_group group, bool *has, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    store_walk_init(&walk, store, group, false);
    enum rc rc = store_walk_next(&walk, &suffix, &value, err);
    *has = *has || rc == RC_OK;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc has_tiles(struct tiles *tiles, struct bytes name, bool *ret_has, struct err *err)
{
    const uint32_t prefixes[] = {tiles->rows, tiles->marks, tiles->meta};
    bool cold = false;
    *ret_has = false;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        struct store_group group = {.prefix = prefixes[i], .key = name};
        enum rc rc = group_look(tiles->store, group, ret_has, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* (3) */
static enum rc shards_check(struct tile_type *type, const struct binding *binding, struct err *err)
{
    type->removals = type->removals || binding->removals;
    type->made = (binding->made | binding->complete) & type->shards;
    type->stored = type->removals == binding->removals && type->made == binding->made;
    type->stored_complete = binding->complete;
    if (binding->complete == 0)
        return RC_OK;
    type->complete = binding->complete & type->shards;
    type->stored = type->stored && type->complete == binding->complete;
    if (type->complete == 0)
        return err_set(err, RC_INVALID,
                       "tiles of type %s are in the shards of %s, which is not configured any more",
                       type->name,
                       binding->complete & TILE_SHARDS_SQLITE ? "tile-sqlite" : "tile-kv");
    return RC_OK;
}

/* (1) */
static enum rc binding_check(struct tiles *tiles, struct bytes name, const struct binding *binding,
                             struct err *err)
{
    struct tile_type *type = tiles_type(tiles, name);
    bool has = false;
    if (type && type->db == binding->db && (uint8_t)type->kind == binding->kind) {
        type->bound = true;
        return shards_check(type, binding, err);
    }
    enum rc rc = has_tiles(tiles, name, &has, err);
    if (rc != RC_OK || (!has && binding->complete == 0))
        return rc;
    char is[64] = "is not in tile-types";
    if (type)
        (void)snprintf(is, sizeof is, "has database %u in tile-types", type->db);
    return err_set(err, RC_INVALID,
                   "tile type %.*s is bound to database %u for good and has tiles, but %s",
                   (int)name.len, (const char *)name.ptr, binding->db, is);
}

static enum rc bindings_read(struct tiles *tiles, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    uint8_t tag = BINDING_TAG;
    store_walk_init(&walk, tiles->store, tile__own(tiles), false);
    enum rc rc = store_walk_seek(&walk, bytes_of(&tag, 1), err);
    while (rc == RC_OK && (rc = store_walk_next(&walk, &suffix, &value, err)) == RC_OK &&
           suffix.ptr[0] == BINDING_TAG) {
        struct binding binding;
        rc = binding_decode(value, &binding, err);
        if (rc == RC_OK)
            rc = binding_check(tiles, bytes_from(suffix, 1), &binding, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

struct hidden { /* the ordinary key that a binding would hide */
    bool (*is_tile)(struct bytes name);
    char name[TILEKEY_TEXT_BYTES];
    size_t len;
};

static void hidden_note(void *arg, struct bytes name)
{
    struct hidden *hidden = arg;
    if (hidden->len > 0 || !hidden->is_tile(name))
        return;
    hidden->len = name.len;
    memcpy(hidden->name, name.ptr, name.len); /* a tilekey is no longer */
}

/* (2) */
static enum rc keys_check(const struct tile_type *type, struct err *err)
{
    struct ns *ns = kv_ns(type->tiles->kv, type->db);
    struct hidden hidden = {.is_tile = type->kind == TILE_TM ? tilekey_is_tm : tilekey_is};
    if (type->bound || ns_key_count(ns) == 0)
        return RC_OK;
    enum rc rc = scan_keys_all(ns, BYTES("[0-3]*"), hidden_note, &hidden, err);
    if (rc != RC_OK || hidden.len == 0)
        return rc;
    return err_set(err, RC_INVALID,
                   "tile type %s=%u: the database has the ordinary key \"%.*s\", which would be "
                   "hidden by a tile: rename such keys, or bind the type to another database",
                   type->name, type->db, (int)hidden.len, hidden.name);
}

static const struct {
    enum tile_shards bit;
    const char *option;
} kinds[] = {{TILE_SHARDS_SQLITE, "tile-sqlite"}, {TILE_SHARDS_KV, "tile-kv"}};

static const char *dir_of(const struct tiles *tiles, enum tile_shards bit)
{
    return bit == TILE_SHARDS_SQLITE ? tiles->options.sqlite_dir : tiles->options.kv_dir;
}

/* Something may have been persisted there. */
static bool has_dir(const struct tile_type *type, enum tile_shards bit)
{
    return type->stored_complete != 0 && (type->made & bit);
}

/* A directory that should be there is not: what is there now is where its disk is mounted. */
static bool is_away(const struct tiles *tiles, enum tile_shards bit)
{
    for (size_t i = 0; i < tiles->type_count; i++) {
        const struct tile_type *type = &tiles->type[i];
        struct err ignored = {0};
        if ((type->shards & bit) && has_dir(type, bit) &&
            pool_dir_look(dir_of(tiles, bit), type->name, &ignored) != RC_OK)
            return true;
    }
    return false;
}

/* (4) */
static enum rc dirs_make(struct tile_type *type, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        enum tile_shards bit = kinds[i].bit;
        struct err why = {0};
        if (!(type->shards & bit) || has_dir(type, bit) || is_away(type->tiles, bit))
            continue;
        enum rc rc = pool_dir_make(dir_of(type->tiles, bit), type->name, &why);
        if (rc != RC_OK)
            return err_set(err, rc, "%s: %s", kinds[i].option, why.text);
        type->stored = type->stored && (type->made & bit);
        type->made |= (uint8_t)bit;
    }
    return RC_OK;
}

/* Others can be served without them: commands that need them answer an error. */
static void dirs_look(const struct tile_type *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err err = {0};
        if ((type->shards & kinds[i].bit) &&
            pool_dir_look(dir_of(type->tiles, kinds[i].bit), type->name, &err) != RC_OK)
            log_warn("tile: %s: no tile of type %s is read from it or persisted into it until then",
                     err.text, type->name);
    }
}

static enum rc bind_run(struct task *task, struct store *store, struct err *err)
{
    struct tiles *tiles = ((struct bind_job *)task)->tiles;
    bool cold = false, has;
    (void)store;
    enum rc rc = bindings_read(tiles, err);
    for (size_t i = 0; i < tiles->type_count && rc == RC_OK; i++) {
        struct tile_type *type = &tiles->type[i];
        rc = keys_check(type, err);
        if (rc == RC_OK)
            rc = has_tiles(tiles, tile__name(type), &has, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_COLD)
            rc = RC_OK;
        if (rc == RC_OK)
            rc = dirs_make(type, err);
        if (rc == RC_OK && !type->stored) /* (2) */
            rc = tile__binding_put(type, type->stored_complete ? type->complete : 0, err);
    }
    return rc == RC_OK && cold ? RC_COLD : rc;
}

static void bind_done(struct task *task, enum rc rc, const struct err *err)
{
    struct bind_job *job = (struct bind_job *)task;
    job->over = true;
    job->rc = rc;
    job->err = *err;
}

enum rc tiles__types_bind(struct tiles *tiles, struct err *err)
{
    struct bind_job job = {.tiles = tiles};
    job.task.run = bind_run;
    job.task.done = bind_done;
    job.task.flags = TASK_DELETES; /* a full disk is no reason not to start */
    task_start(tiles->options.tasks, &job.task);
    while (!job.over)
        tasks_turn(tiles->options.tasks);
    if (job.rc != RC_OK) {
        *err = job.err;
        return job.rc;
    }
    for (size_t i = 0; i < tiles->type_count; i++)
        dirs_look(&tiles->type[i]);
    return RC_OK;
}

/* ---- looking ---- */

struct tile_type *tiles_type(const struct tiles *tiles, struct bytes name)
{
    for (size_t i = 0; i < tiles->type_count; i++)
        if (bytes_eq(tile__name(&tiles->type[i]), name))
            return (struct tile_type *)&tiles->type[i];
    return NULL;
}

struct tile_type *tiles_type_at(const struct tiles *tiles, size_t index)
{
    return index < tiles->type_count ? (struct tile_type *)&tiles->type[index] : NULL;
}

const char *tile_type_name(const struct tile_type *type)
{
    return type->name;
}

enum tile_kind tile_type_kind(const struct tile_type *type)
{
    return type->kind;
}

uint32_t tile_type_db(const struct tile_type *type)
{
    return type->db;
}

struct tile_type *tiles_type_of(const struct ns *ns)
{
    return ns->tile;
}

enum rc tile_key_parse(const struct tile_type *type, struct bytes text, struct tilekey *ret_key,
                       struct err *err)
{
    if (type->kind == TILE_TM)
        return tilekey_parse_tm(text, ret_key, err);
    ret_key->ms = 0;
    return tilekey_parse(text, &ret_key->packed, err);
}

size_t tile_key_print(const struct tile_type *type, struct tilekey key, char to[TILEKEY_TEXT_BYTES])
{
    return type->kind == TILE_TM ? tilekey_print_tm(key, to) : tilekey_print(key.packed, to);
}

enum rc tile__damaged(const struct tile_type *type, struct tilekey key, const char *why,
                      struct err *err)
{
    char text[TILEKEY_TEXT_BYTES];
    int len = (int)tile_key_print(type, key, text);
    return err_set(err, RC_CORRUPT, "the tile \"%.*s\" of type %s is damaged, set it again: %s",
                   len, text, type->name, why);
}
