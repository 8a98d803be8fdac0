// SPDX-License-Identifier: Apache-2.0
/* types.c - which types there are, and that each stays in its database.
 *
 * Invariants:
 *   (1) A type whose binding is stored and that has tiles is there, as it is stored: tile-types
 *       says the same of it, or nothing.
 *   (2) A binding is stored before the first command runs, and only for a database without ordinary
 *       keys that are tilekeys: they would be hidden.
 *   (3) Tiles that were persisted can be read: one of the kinds of shards that have everything is
 *       configured. A kind that is left out does not have everything any more.
 *   (4) The directory of a type is made, and that is stored, before anything is persisted into it:
 *       pool.h, (6).
 *   (5) No file is a shard of both kinds: their directories are apart.
 *   (6) Shards that have tiles are used where they are, also if no option names their directory. */
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/tile/roots.h"
#include "models/tile/tile_int.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum {
    BINDING_BYTES = 6,
    BINDING_TAG = 't',
    DIR_TAG = 'd',
    /* bits of its last byte */
    BINDING_SHARDS = TILE_SHARDS_SQLITE | TILE_SHARDS_KV,
    BINDING_MADE_SHIFT = 4,
    BINDING_MADE = BINDING_SHARDS << BINDING_MADE_SHIFT,
    BINDING_KINDS = 0x04,
    BINDING_BARE = 0x40,
    BINDING_REMOVALS = 0x80,
    DB_DIGITS_MAX = 4,
    BINDING_TEXT_BYTES = TILE_TYPE_NAME_BYTES_MAX + 32,
};

static const struct {
    enum tile_shards bit;
    const char *option;
} kinds[] = {{TILE_SHARDS_SQLITE, "tile-sqlite"}, {TILE_SHARDS_KV, "tile-kv"}};

static const char *dir_of(const struct tiles *tiles, enum tile_shards bit)
{
    return bit == TILE_SHARDS_SQLITE ? tiles->options.sqlite_dir : tiles->options.kv_dir;
}

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

/* "1", "12:bare". */
static bool binding_end_parse(struct bytes text, struct tile_binding *ret_binding)
{
    size_t digits = 0;
    while (digits < text.len && digits < DB_DIGITS_MAX && text.ptr[digits] >= '0' &&
           text.ptr[digits] <= '9') {
        ret_binding->db = 10 * ret_binding->db + (text.ptr[digits] - (uint32_t)'0');
        digits++;
    }
    struct bytes word = bytes_from(text, digits);
    ret_binding->bare = bytes_eq(word, BYTES(":bare"));
    return digits > 0 && (word.len == 0 || ret_binding->bare);
}

enum rc tile_binding_parse(struct bytes text, struct tile_binding *ret_binding, struct err *err)
{
    const uint8_t *eq = text.len ? memchr(text.ptr, '=', text.len) : NULL;
    size_t at = eq ? (size_t)(eq - text.ptr) : 0;
    struct tile_binding binding = {.name = bytes_of(text.ptr, at)};
    if (!eq || !binding_end_parse(bytes_from(text, at + 1), &binding))
        return err_set(err, RC_INVALID,
                       "argument must be a type and the number of its database, as imagery=1, and "
                       "\":bare\" behind it if plain SET carries tiles without a header");
    enum rc rc = type_name_check(binding.name, err);
    if (rc == RC_OK && binding.bare && kind_of(binding.name) == TILE_META)
        return err_set(err, RC_INVALID, "sets of metadata have no header: %.*s needs no \":bare\"",
                       (int)binding.name.len, (const char *)binding.name.ptr);
    *ret_binding = binding;
    return rc;
}

/* Metadata is kept in SQL only. */
static uint8_t shards_of(const struct tiles *tiles, enum tile_kind kind)
{
    uint8_t shards = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const char *dir = dir_of(tiles, kinds[i].bit);
        if (dir && dir[0] && (kind != TILE_META || kinds[i].bit == TILE_SHARDS_SQLITE))
            shards |= (uint8_t)kinds[i].bit;
    }
    return shards;
}

static void shards_set(struct tile_type *type)
{
    type->shards = type->complete = shards_of(type->tiles, type->kind);
    type->removals = type->shards != 0;
}

static enum rc type_add(struct tiles *tiles, const struct tile_binding *binding, struct err *err)
{
    struct bytes name = binding->name;
    if (tiles->type_count == TILE_TYPES_MAX)
        return err_set(err, RC_INVALID, "there are more than %d tile types", TILE_TYPES_MAX);
    if (!kv_ns(tiles->kv, binding->db))
        return err_set(err, RC_INVALID, "tile type %.*s: there is no database %u", (int)name.len,
                       (const char *)name.ptr, binding->db);
    for (size_t i = 0; i < tiles->type_count; i++) {
        const struct tile_type *other = &tiles->type[i];
        if (other->db == binding->db || bytes_eq(tile__name(other), name))
            return err_set(err, RC_INVALID,
                           "tile types %s=%u and %.*s=%u: each has one database, "
                           "and no other type is in it",
                           other->name, other->db, (int)name.len, (const char *)name.ptr,
                           binding->db);
    }
    struct tile_type *type = &tiles->type[tiles->type_count];
    *type = (struct tile_type){.tiles = tiles,
                               .name_len = (uint8_t)name.len,
                               .kind = kind_of(name),
                               .bare = binding->bare,
                               .db = binding->db,
                               .number = (uint8_t)tiles->type_count};
    memcpy(type->name, name.ptr, name.len);
    shards_set(type);
    tiles->type_count++;
    return RC_OK;
}

/* (5), also where a link makes one directory of those of a type. */
static enum rc roots_check(const struct tiles *tiles, struct err *err)
{
    const struct tiles_options *options = &tiles->options;
    char sqlite[PATH_BYTES_MAX], kv[PATH_BYTES_MAX];
    if (!options->sqlite_dir || !options->sqlite_dir[0] || !options->kv_dir || !options->kv_dir[0])
        return RC_OK;
    bool overlap = roots_overlap(options->sqlite_dir, options->kv_dir);
    for (size_t i = 0; i < tiles->type_count && !overlap; i++) {
        enum rc rc = path_join(sqlite, options->sqlite_dir, tiles->type[i].name, err);
        if (rc == RC_OK)
            rc = path_join(kv, options->kv_dir, tiles->type[i].name, err);
        if (rc != RC_OK)
            return rc;
        overlap = roots_overlap(sqlite, kv);
    }
    if (overlap)
        return err_set(err, RC_INVALID,
                       "tile-sqlite \"%s\" and tile-kv \"%s\" are one directory, or one is inside "
                       "the other: give each kind of shards a directory of its own",
                       options->sqlite_dir, options->kv_dir);
    return RC_OK;
}

enum rc tiles__types_parse(struct tiles *tiles, struct err *err)
{
    const struct tiles_options *options = &tiles->options;
    for (size_t i = 0; i < options->type_count; i++) {
        const char *text = options->types[i];
        struct tile_binding binding;
        enum rc rc = tile_binding_parse(bytes_of(text, strlen(text)), &binding, err);
        if (rc == RC_OK)
            rc = type_add(tiles, &binding, err);
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
    bool kinds;
    bool bare;
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
    if (bits & ~(BINDING_SHARDS | BINDING_MADE | BINDING_KINDS | BINDING_BARE | BINDING_REMOVALS))
        return err_set(err, RC_VERSION, "the stored binding of a tile type is of a later version");
    *ret_binding = (struct binding){.db = be32_get(bytes.ptr),
                                    .kind = bytes.ptr[4],
                                    .complete = bits & BINDING_SHARDS,
                                    .made = (bits & BINDING_MADE) >> BINDING_MADE_SHIFT,
                                    .kinds = bits & BINDING_KINDS,
                                    .bare = bits & BINDING_BARE,
                                    .removals = bits & BINDING_REMOVALS};
    return RC_OK;
}

static struct bytes binding_suffix(const struct tile_type *type,
                                   uint8_t to[1 + TILE_TYPE_NAME_BYTES_MAX])
{
    to[0] = BINDING_TAG;
    memcpy(to + 1, type->name, type->name_len);
    return bytes_of(to, 1 + (size_t)type->name_len);
}

enum rc tile__binding_put(struct tile_type *type, uint8_t complete, struct err *err)
{
    uint8_t suffix[1 + TILE_TYPE_NAME_BYTES_MAX], value[BINDING_BYTES];
    be32_put(value, type->db);
    value[4] = (uint8_t)type->kind;
    value[5] =
        (uint8_t)(complete | type->made << BINDING_MADE_SHIFT | (type->kinds ? BINDING_KINDS : 0) |
                  (type->bare ? BINDING_BARE : 0) | (type->removals ? BINDING_REMOVALS : 0));
    return store_put(type->tiles->store, tile__own(type->tiles), binding_suffix(type, suffix),
                     bytes_of(value, sizeof value), err);
}

enum rc tile_type_kinds_note(struct tile_type *type, struct err *err)
{
    uint8_t suffix[1 + TILE_TYPE_NAME_BYTES_MAX], value[BINDING_BYTES];
    struct store *store = type->tiles->store;
    struct bytes before, at = binding_suffix(type, suffix);
    enum rc rc = store_get(store, tile__own(type->tiles), at, &before, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? err_set(err, RC_CORRUPT, "the binding of a type is missing")
                                  : rc;
    type->kinds = true; /* also if this is taken back: the bit is set with the next change then */
    if (before.len != sizeof value || before.ptr[5] & BINDING_KINDS)
        return RC_OK;
    memcpy(value, before.ptr, sizeof value);
    value[5] |= BINDING_KINDS;
    return store_put(store, tile__own(type->tiles), at, bytes_of(value, sizeof value), err);
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
    type->kinds = binding->kinds;
    type->made = (binding->made | binding->complete) & type->shards;
    type->stored = type->removals == binding->removals && type->made == binding->made;
    type->stored_complete = binding->complete;
    if (binding->complete == 0)
        return RC_OK;
    const char *option = binding->complete & TILE_SHARDS_SQLITE ? "tile-sqlite" : "tile-kv";
    type->complete = binding->complete & type->shards;
    type->stored = type->stored && type->complete == binding->complete;
    if (type->complete == 0)
        return err_set(
            err, RC_INVALID,
            "tiles of type %s are in the shards of %s, which is not configured any more: "
            "start with %s and the directory that it had",
            type->name, option, option);
    return RC_OK;
}

/* Words for a person: "imagery=1:bare". */
static void binding_print(struct bytes name, const struct binding *binding,
                          char to[BINDING_TEXT_BYTES])
{
    (void)snprintf(to, BINDING_TEXT_BYTES, "%.*s=%u%s", (int)name.len, (const char *)name.ptr,
                   binding->db, binding->bare ? ":bare" : "");
}

/* (1): a type that tile-types does not name. */
static enum rc type_remember(struct tiles *tiles, struct bytes name, const struct binding *binding,
                             struct err *err)
{
    struct tile_binding stored = {.name = name, .db = binding->db, .bare = binding->bare};
    struct err why = {0};
    char text[BINDING_TEXT_BYTES];
    binding_print(name, binding, text);
    if ((uint8_t)kind_of(name) != binding->kind)
        return err_set(err, RC_VERSION, "the stored binding %s is of an unknown kind", text);
    if (type_add(tiles, &stored, &why) != RC_OK)
        return err_set(err, RC_INVALID,
                       "%s is stored, and has tiles, but does not fit to tile-types: %s; change "
                       "tile-types so that it does",
                       text, why.text);
    struct tile_type *type = tiles_type(tiles, name);
    type->bound = true;
    log_info("tile: %s has tiles and is used, though tile-types does not name it", text);
    return shards_check(type, binding, err);
}

/* (1) */
static enum rc binding_check(struct tiles *tiles, struct bytes name, const struct binding *binding,
                             struct err *err)
{
    struct tile_type *type = tiles_type(tiles, name);
    bool has = false;
    if (type && type->db == binding->db && (uint8_t)type->kind == binding->kind &&
        type->bare == binding->bare) {
        type->bound = true;
        return shards_check(type, binding, err);
    }
    enum rc rc = has_tiles(tiles, name, &has, err);
    if (rc != RC_OK || (!has && binding->complete == 0))
        return rc;
    if (!type)
        return type_remember(tiles, name, binding, err);
    char text[BINDING_TEXT_BYTES];
    binding_print(name, binding, text);
    return err_set(err, RC_INVALID,
                   "tile type %s has tiles and is bound for good, but tile-types says %s=%u%s: "
                   "write %s there, or leave the type out",
                   text, type->name, type->db, type->bare ? ":bare" : "", text);
}

static enum rc bindings_read(struct tiles *tiles,
                             enum rc (*fn)(struct tiles *tiles, struct bytes name,
                                           const struct binding *binding, struct err *err),
                             struct err *err)
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
            rc = fn(tiles, bytes_from(suffix, 1), &binding, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- directories that are remembered: (6) ---- */

static struct bytes dir_suffix(enum tile_shards bit, uint8_t to[2])
{
    to[0] = DIR_TAG;
    to[1] = (uint8_t)bit;
    return bytes_of(to, 2);
}

/* Of a kind that has tiles and is not configured: where they are. Nothing, if that is not known. */
static enum rc dir_remember(struct tiles *tiles, enum tile_shards bit, struct err *err)
{
    uint8_t suffix[2];
    struct bytes value;
    char data[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    enum rc rc = store_get(tiles->store, tile__own(tiles), dir_suffix(bit, suffix), &value, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    bool below = value.len > 0 && value.ptr[0] != '/';
    if (below && (!tiles->options.data_dir || !root_absolute(tiles->options.data_dir, data)))
        return RC_OK;
    int len = snprintf(path, sizeof path, "%s%s%.*s", below ? data : "", below ? "/" : "",
                       (int)value.len, (const char *)value.ptr);
    if (len <= 0 || len > TILE_DIR_BYTES_MAX || memchr(value.ptr, 0, value.len))
        return err_set(err, RC_CORRUPT, "the stored directory of tile shards is damaged");
    const char **dir =
        bit == TILE_SHARDS_SQLITE ? &tiles->options.sqlite_dir : &tiles->options.kv_dir;
    mem_free((void *)*dir);
    *dir = mem_dup(path, (size_t)len + 1);
    log_info("tile: shards in \"%s\" have tiles and are used, though %s is not configured", path,
             bit == TILE_SHARDS_SQLITE ? "tile-sqlite" : "tile-kv");
    return RC_OK;
}

static enum rc binding_dir(struct tiles *tiles, struct bytes name, const struct binding *binding,
                           struct err *err)
{
    if (binding->complete == 0 || (binding->complete & shards_of(tiles, kind_of(name))))
        return RC_OK;
    return dir_remember(
        tiles, binding->complete & TILE_SHARDS_SQLITE ? TILE_SHARDS_SQLITE : TILE_SHARDS_KV, err);
}

static enum rc dirs_remember(struct tiles *tiles, struct err *err)
{
    enum rc rc = bindings_read(tiles, binding_dir, err);
    for (size_t i = 0; i < tiles->type_count && rc == RC_OK; i++)
        shards_set(&tiles->type[i]);
    return rc;
}

/* A directory inside the data directory is stored as it is below it: a copy has its own. */
static enum rc dir_store(struct tiles *tiles, enum tile_shards bit, struct err *err)
{
    char path[PATH_BYTES_MAX], data[PATH_BYTES_MAX];
    uint8_t suffix[2];
    struct bytes before;
    const char *dir = dir_of(tiles, bit), *data_dir = tiles->options.data_dir;
    if (!dir || !dir[0] || !root_absolute(dir, path))
        return RC_OK;
    const char *below = data_dir && root_absolute(data_dir, data) ? root_below(path, data) : NULL;
    const char *text = below ? below : path;
    struct bytes value = bytes_of(text, strlen(text));
    enum rc rc = store_get(tiles->store, tile__own(tiles), dir_suffix(bit, suffix), &before, err);
    if (rc != RC_NOT_FOUND && (rc != RC_OK || bytes_eq(before, value)))
        return rc;
    return store_put(tiles->store, tile__own(tiles), dir_suffix(bit, suffix), value, err);
}

static enum rc dirs_store(struct tiles *tiles, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(kinds) && rc == RC_OK; i++)
        rc = dir_store(tiles, kinds[i].bit, err);
    return rc;
}

/* ---- binding ---- */

struct hidden { /* the ordinary key that a binding would hide */
    const struct tile_type *type;
    char name[TILEKEY_TEXT_BYTES];
    size_t len;
};

static void hidden_note(void *arg, struct bytes name)
{
    struct hidden *hidden = arg;
    if (hidden->len > 0 || !tile_is_name(hidden->type, name))
        return;
    hidden->len = name.len;
    memcpy(hidden->name, name.ptr, name.len); /* a tilekey is no longer */
}

/* (2) */
static enum rc keys_check(const struct tile_type *type, const struct run *run, struct err *err)
{
    struct run one = run_with(run, kv_ns(run->kv, type->db), 0);
    struct hidden hidden = {.type = type};
    if (type->bound || ns_key_count(one.ns) == 0)
        return RC_OK;
    enum rc rc = scan_keys_all(&one, BYTES("[0-3]*"), hidden_note, &hidden, err);
    if (rc != RC_OK || hidden.len == 0)
        return rc;
    return err_set(err, RC_INVALID,
                   "tile type %s=%u: the database has the ordinary key \"%.*s\", which would be "
                   "hidden by a tile: rename such keys, or bind the type to another database",
                   type->name, type->db, (int)hidden.len, hidden.name);
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

static enum rc types_bind(struct tiles *tiles, const struct run *run, struct err *err)
{
    bool cold = false, has;
    enum rc rc = dirs_remember(tiles, err);
    if (rc == RC_OK)
        rc = bindings_read(tiles, binding_check, err);
    if (rc == RC_OK)
        rc = roots_check(tiles, err);
    for (size_t i = 0; i < tiles->type_count && rc == RC_OK; i++) {
        struct tile_type *type = &tiles->type[i];
        rc = keys_check(type, run, err);
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
    if (rc == RC_OK && tiles->type_count > 0)
        rc = dirs_store(tiles, err);
    return rc == RC_OK && cold ? RC_COLD : rc;
}

static enum rc bind_run(struct task *task, struct store *store, struct err *err)
{
    struct tiles *tiles = ((struct bind_job *)task)->tiles;
    (void)store;
    struct run run;
    run_begin(&run, tiles->kv, NULL, RUN_NO_LIFT);
    return run_end(&run, types_bind(tiles, &run, err));
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

struct store *tiles_store(const struct tiles *tiles)
{
    return tiles->store;
}

struct tiles *tile_type_tiles(const struct tile_type *type)
{
    return type->tiles;
}

bool tile_type_is_bare(const struct tile_type *type)
{
    return type->bare;
}

uint32_t tile_type_db(const struct tile_type *type)
{
    return type->db;
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
