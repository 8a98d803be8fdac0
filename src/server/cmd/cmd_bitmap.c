// SPDX-License-Identifier: Apache-2.0
/* cmd_bitmap.c - strings as bits. */
#include "server/cmd/cmd_string.h"

#include "base/codec.h"
#include "types/bits.h"
#include "types/number.h"

#include "base/banned.h"

/* ---- one bit ---- */

/* A bit within the longest string. "#n" means n times unit_bits; 0: that is not allowed. */
static enum rc offset_parse(struct cmd_ctx *ctx, size_t arg, unsigned unit_bits,
                            uint64_t *ret_offset)
{
    struct bytes text = ctx->argv[arg];
    int64_t offset, unit = 1;
    if (unit_bits > 0 && text.len > 0 && text.ptr[0] == '#') {
        text = bytes_from(text, 1);
        unit = unit_bits;
    }
    if (!number_int(text, &offset) || __builtin_mul_overflow(offset, unit, &offset) || offset < 0 ||
        (uint64_t)offset / 8 >= ctx->run->kv->string_bytes_max)
        return cmd_error(ctx, "bit offset is not an integer or out of range");
    *ret_offset = (uint64_t)offset;
    return RC_OK;
}

enum rc cmd_getbit(struct cmd_ctx *ctx)
{
    struct key key;
    uint64_t offset;
    bool bit;
    enum rc rc = offset_parse(ctx, 2, 0, &offset);
    if (rc == RC_OK)
        rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = bits_get(&key, offset, &bit, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, bit);
    return rc;
}

enum rc cmd_setbit(struct cmd_ctx *ctx)
{
    struct key key;
    uint64_t offset;
    int64_t bit;
    bool old, changed;
    enum rc rc = offset_parse(ctx, 2, 0, &offset);
    if (rc == RC_OK)
        rc = cmd_int_range(ctx, 3, 0, 1, "bit is not an integer or out of range", &bit);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = bits_set(&key, offset, bit, &old, &changed, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (changed)
        key_changed(&key, KV_EVENT_STRING, "setbit");
    resp_add_int(ctx->reply, old);
    return RC_OK;
}

/* ---- ranges ---- */

static enum rc unit_parse(struct cmd_ctx *ctx, size_t arg, bool *ret_in_bits)
{
    *ret_in_bits = cmd_arg_is(ctx->argv[arg], "BIT");
    if (!*ret_in_bits && !cmd_arg_is(ctx->argv[arg], "BYTE"))
        return cmd_syntax_error(ctx);
    return RC_OK;
}

struct range { /* as the arguments say it; then, by range_bits(), in bits, the end excluded */
    int64_t start, end;
    bool in_bits;
};

/* False: it is empty. */
static bool range_bits(struct range *range, uint64_t len)
{
    uint64_t unit = range->in_bits ? 1 : 8;
    if (!cmd_string__range(&range->start, &range->end, len * 8 / unit))
        return false;
    range->start *= (int64_t)unit;
    range->end = (range->end + 1) * (int64_t)unit;
    return true;
}

static enum rc bitcount(struct cmd_ctx *ctx, const struct key *key, uint64_t *ret_count)
{
    struct range range = {.start = 0, .end = -1};
    uint64_t len;
    *ret_count = 0;
    if (ctx->argc != 2 && ctx->argc != 4 && ctx->argc != 5)
        return cmd_syntax_error(ctx);
    if (ctx->argc > 2) {
        enum rc rc = cmd_int(ctx, 2, &range.start);
        if (rc == RC_OK)
            rc = cmd_int(ctx, 3, &range.end);
        if (rc != RC_OK)
            return rc;
        if (range.start < 0 && range.end < 0 && range.start > range.end)
            return RC_OK; /* before the unit is looked at, as in Redis */
    }
    enum rc rc = ctx->argc == 5 ? unit_parse(ctx, 4, &range.in_bits) : RC_OK;
    if (rc == RC_OK)
        rc = string_len(key, &len, ctx->err);
    if (rc != RC_OK || !range_bits(&range, len))
        return rc;
    return bits_count(key, (uint64_t)range.start, (uint64_t)range.end, ret_count, ctx->err);
}

enum rc cmd_bitcount(struct cmd_ctx *ctx)
{
    struct key key;
    uint64_t count = 0;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK && key.exists) /* otherwise nothing else is looked at */
        rc = bitcount(ctx, &key, &count);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

/* Without an end the string goes on with zeros for ever. */
static enum rc bitpos(struct cmd_ctx *ctx, const struct key *key, bool bit, int64_t *ret_at)
{
    struct range range = {.start = 0, .end = -1};
    uint64_t len, at;
    enum rc rc = RC_OK;
    if (ctx->argc > 6)
        return cmd_syntax_error(ctx);
    if (ctx->argc > 3)
        rc = cmd_int(ctx, 3, &range.start);
    if (rc == RC_OK && ctx->argc > 5)
        rc = unit_parse(ctx, 5, &range.in_bits);
    if (rc == RC_OK && ctx->argc > 4)
        rc = cmd_int(ctx, 4, &range.end);
    if (rc == RC_OK)
        rc = string_len(key, &len, ctx->err);
    *ret_at = -1;
    if (rc != RC_OK || !range_bits(&range, len))
        return rc;
    rc = bits_find(key, bit, (uint64_t)range.start, (uint64_t)range.end, &at, ctx->err);
    if (rc == RC_OK)
        *ret_at = (int64_t)at;
    else if (rc == RC_NOT_FOUND && !bit && ctx->argc <= 4)
        *ret_at = range.end;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc cmd_bitpos(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t bit, at;
    enum rc rc = cmd_int(ctx, 2, &bit);
    if (rc != RC_OK)
        return rc;
    if (bit != 0 && bit != 1)
        return cmd_error(ctx, "The bit argument must be 1 or 0.");
    rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    at = bit ? -1 : 0;
    if (key.exists) /* otherwise nothing else is looked at */
        rc = bitpos(ctx, &key, bit, &at);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, at);
    return rc;
}

/* ---- BITOP ---- */

static enum rc bitop_parse(struct cmd_ctx *ctx, enum bits_op *ret_op)
{
    static const char *const words[] = {
        [BITS_AND] = "AND", [BITS_OR] = "OR", [BITS_XOR] = "XOR", [BITS_NOT] = "NOT"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!cmd_arg_is(ctx->argv[1], words[i]))
            continue;
        *ret_op = (enum bits_op)i;
        if (*ret_op == BITS_NOT && ctx->argc != 4)
            return cmd_error(ctx, "BITOP NOT must be called with a single source key.");
        return RC_OK;
    }
    return cmd_syntax_error(ctx);
}

static enum rc bitop_sources(struct cmd_ctx *ctx, struct key *source, size_t count)
{
    bool cold = false;
    for (size_t i = 0; i < count; i++) {
        enum rc rc = key_read(ctx->run, ctx->argv[3 + i], TYPE_STRING, &source[i], ctx->err);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
    }
    return cold ? RC_COLD : RC_OK;
}

static enum rc bitop_store(struct cmd_ctx *ctx, struct bytes result)
{
    struct key key;
    enum rc rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool existed = key.exists;
    rc = result.len > 0 ? string_set(&key, result, 0, ctx->err) : key_remove(&key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (result.len > 0)
        key_changed(&key, KV_EVENT_STRING, "set");
    else if (existed)
        key_changed(&key, KV_EVENT_GENERIC, "del");
    return RC_OK;
}

struct bitop {
    enum bits_op op;
    struct key *source;
    size_t count;
    uint64_t len; /* of the result */
};

/* The next bytes of a result that is built aside. */
static enum rc bitop_piece(struct cmd_ctx *ctx, const struct bitop *bitop, struct build *build)
{
    struct build_piece piece = build_piece(build);
    uint64_t from = piece.has_after ? be64_get(piece.after.ptr) : 0;
    uint64_t end = bitop->len - from > piece.bytes_max ? from + piece.bytes_max : bitop->len;
    struct bytes part;
    uint8_t at[sizeof end];
    enum rc rc =
        bits_combine(ctx->run, bitop->op, bitop->source, bitop->count, from, end, &part, ctx->err);
    for (size_t i = 0; rc == RC_COLD && i < bitop->count; i++)
        string_want_window(&bitop->source[i], from);
    if (rc == RC_OK)
        rc = string_build_put(build, from, part, ctx->err);
    if (rc != RC_OK)
        return rc;
    be64_put(at, end);
    return build_piece_end(build, 0, bytes_of(at, sizeof at), end == bitop->len, ctx->err);
}

static enum rc bitop_build(struct cmd_ctx *ctx, const struct bitop *bitop, struct build *build)
{
    uint64_t inputs = 0;
    struct key key;
    for (size_t i = 0; i < bitop->count; i++)
        inputs = build_input(inputs, &bitop->source[i]);
    enum rc rc = build_step(build, ctx->run, TYPE_STRING_CHUNKED, inputs, ctx->err);
    if (rc == RC_OK && build->phase == BUILD_FILLING)
        return bitop_piece(ctx, bitop, build);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_build_end(build, &key, bitop->len, 0, ctx->err);
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_STRING, "set");
    return rc;
}

static enum rc bitop_at_once(struct cmd_ctx *ctx, const struct bitop *bitop)
{
    struct bytes result;
    enum rc rc = bits_combine(ctx->run, bitop->op, bitop->source, bitop->count, 0, bitop->len,
                              &result, ctx->err);
    return rc == RC_OK ? bitop_store(ctx, result) : rc;
}

enum rc cmd_bitop(struct cmd_ctx *ctx)
{
    struct bitop bitop = {.count = ctx->argc - 3};
    struct build *build = cmd_build(ctx, 2);
    enum rc rc = bitop_parse(ctx, &bitop.op);
    if (rc != RC_OK)
        return rc;
    bitop.source = arena_try_alloc(ctx->run->arena, bitop.count * sizeof *bitop.source);
    if (!bitop.source)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu keys", bitop.count);
    rc = bitop_sources(ctx, bitop.source, bitop.count);
    if (rc == RC_COLD)
        key_want(ctx->run->ns, &ctx->argv[2], 1);
    if (rc == RC_OK)
        rc = bits_combined_len(bitop.source, bitop.count, &bitop.len, ctx->err);
    if (rc != RC_OK)
        return rc;
    rc = bitop.len > STRING_PLAIN_BYTES_MAX &&
                 build_wanted(build, ctx->run, string_cost_rows(bitop.len))
             ? bitop_build(ctx, &bitop, build)
             : bitop_at_once(ctx, &bitop);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)bitop.len);
    return rc;
}

/* ---- BITFIELD ---- */

static enum rc field_type_parse(struct cmd_ctx *ctx, size_t arg, struct bits_field *field)
{
    struct bytes text = ctx->argv[arg];
    int64_t bits;
    bool named = text.len > 0 && (text.ptr[0] == 'i' || text.ptr[0] == 'u');
    field->is_signed = named && text.ptr[0] == 'i';
    int64_t bits_max = field->is_signed ? BITS_FIELD_BITS_MAX : BITS_FIELD_UNSIGNED_BITS_MAX;
    if (!named || !number_int(bytes_from(text, 1), &bits) || bits < 1 || bits > bits_max)
        return cmd_error(ctx, "Invalid bitfield type. Use something like i16 u8. "
                              "Note that u64 is not supported but i64 is.");
    field->bits = (unsigned)bits;
    return RC_OK;
}

static enum rc overflow_parse(struct cmd_ctx *ctx, size_t arg, enum bits_overflow *ret_overflow)
{
    if (cmd_arg_is(ctx->argv[arg], "WRAP"))
        *ret_overflow = BITS_WRAP;
    else if (cmd_arg_is(ctx->argv[arg], "SAT"))
        *ret_overflow = BITS_SATURATE;
    else if (cmd_arg_is(ctx->argv[arg], "FAIL"))
        *ret_overflow = BITS_FAIL;
    else
        return cmd_error(ctx, "Invalid OVERFLOW type specified");
    return RC_OK;
}

/* One GET, SET or INCRBY; *arg moves behind it. */
static enum rc field_parse(struct cmd_ctx *ctx, size_t *arg, struct bits_field *field)
{
    struct bytes word = ctx->argv[*arg];
    size_t rest = ctx->argc - *arg - 1;
    if (cmd_arg_is(word, "GET") && rest >= 2)
        field->op = BITS_FIELD_GET;
    else if (cmd_arg_is(word, "SET") && rest >= 3)
        field->op = BITS_FIELD_SET;
    else if (cmd_arg_is(word, "INCRBY") && rest >= 3)
        field->op = BITS_FIELD_ADD;
    else
        return cmd_syntax_error(ctx);
    enum rc rc = field_type_parse(ctx, *arg + 1, field);
    if (rc == RC_OK)
        rc = offset_parse(ctx, *arg + 2, field->bits, &field->at);
    if (rc == RC_OK && field->op != BITS_FIELD_GET)
        rc = cmd_int(ctx, *arg + 3, &field->value);
    *arg += field->op == BITS_FIELD_GET ? 3 : 4;
    return rc;
}

static enum rc fields_parse(struct cmd_ctx *ctx, struct bits_field *field, size_t *ret_count)
{
    enum bits_overflow overflow = BITS_WRAP;
    size_t count = 0;
    for (size_t arg = 2; arg < ctx->argc;) {
        enum rc rc;
        if (cmd_arg_is(ctx->argv[arg], "OVERFLOW") && arg + 1 < ctx->argc) {
            rc = overflow_parse(ctx, arg + 1, &overflow);
            arg += 2;
        } else {
            field[count] = (struct bits_field){.overflow = overflow};
            rc = field_parse(ctx, &arg, &field[count++]);
        }
        if (rc != RC_OK)
            return rc;
    }
    *ret_count = count;
    return RC_OK;
}

static enum rc bitfield(struct cmd_ctx *ctx, bool read_only)
{
    struct key key;
    size_t count, count_max = ctx->argc / 3 + 1;
    bool writes = false, changed;
    struct bits_field *field = arena_try_alloc(ctx->run->arena, count_max * sizeof *field);
    if (!field)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu fields", count_max);
    enum rc rc = fields_parse(ctx, field, &count);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < count; i++)
        writes |= field[i].op != BITS_FIELD_GET;
    if (writes && read_only)
        return cmd_error(ctx, "BITFIELD_RO only supports the GET subcommand");
    rc = writes ? key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err)
                : key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = bits_fields_run(&key, field, count, &changed, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (changed)
        key_changed(&key, KV_EVENT_STRING, "setbit");
    resp_add_array(ctx->reply, count);
    for (size_t i = 0; i < count; i++) {
        if (field[i].failed)
            resp_add_null(ctx->reply);
        else
            resp_add_int(ctx->reply, field[i].result);
    }
    return RC_OK;
}

enum rc cmd_bitfield(struct cmd_ctx *ctx)
{
    return bitfield(ctx, false);
}

enum rc cmd_bitfield_ro(struct cmd_ctx *ctx)
{
    return bitfield(ctx, true);
}
