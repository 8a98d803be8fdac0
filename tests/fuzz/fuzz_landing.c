// SPDX-License-Identifier: Apache-2.0
/* fuzz_landing.c - any bytes as a rule, as a key of a rule, as an entry and as an error of a dirty
 * table. What is taken reads the same again. The first byte says which. */
#include "base/codec.h"
#include "models/landing/address.h"
#include "models/landing/dirty.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rule_spec *rule(const char *text)
{
    struct rule_spec *spec;
    struct err err = {0};
    enum rc rc = rule_parse_text(bytes_of(text, strlen(text)), &spec, &err);
    ASSERT(rc == RC_OK);
    return spec;
}

static void fuzz_rule(struct bytes input)
{
    struct rule_spec *spec, *again;
    struct err err = {0};
    if (rule_parse_text(input, &spec, &err) != RC_OK) {
        ASSERT(err.text[0] != 0);
        return;
    }
    enum rc rc = rule_parse_text(spec->text, &again, &err);
    ASSERT(rc == RC_OK && bytes_eq(spec->text, again->text));
    ASSERT(rules_overlap(spec, again));
    rule_free(again);
    rule_free(spec);
}

/* A key that has an address, and a field that it takes: the entry names both. */
static void fuzz_key(const char *text, struct bytes input)
{
    struct rule_spec *spec = rule(text);
    struct address address;
    struct land_entry entry;
    struct arena arena;
    struct buf name, key;
    struct err err = {0};
    size_t half = input.len / 2;
    struct bytes field = bytes_from(input, half);
    arena_init(&arena);
    buf_init(&name, 1 << 20);
    buf_init(&key, 1 << 20);
    bool built = buf_add_bytes(&key, spec->prefix) && buf_add(&key, input.ptr, half) &&
                 buf_add_bytes(&key, spec->suffix);
    if (built && address_of(spec, buf_bytes(&key), &address, &err) == RC_OK &&
        address_check_field(&address, field, &err) == RC_OK) {
        bool added = address_entry_add(&address, field, &name);
        enum rc rc = entry_parse(buf_bytes(&name), &arena, &entry, &err);
        ASSERT(added && rc == RC_OK && entry.shape == spec->shape);
        ASSERT(bytes_eq(entry.field, field) && bytes_eq(entry.address.id, address.id));
        ASSERT(bytes_eq(entry.address.owner, address.owner));
        ASSERT(entry_owner_part(buf_bytes(&name), spec->shape).len <= name.len);
    }
    buf_done(&key);
    buf_done(&name);
    arena_done(&arena);
    rule_free(spec);
}

static void fuzz_entry(struct bytes input)
{
    struct land_entry entry;
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    if (entry_parse(input, &arena, &entry, &err) == RC_OK)
        (void)entry_owner_part(input, entry.shape);
    arena_done(&arena);
}

static void fuzz_value(struct bytes input)
{
    struct dirty_error error;
    struct err err = {0};
    bool removed;
    uint64_t version;
    if (dirty_error_parse(input, &error, &err) == RC_OK)
        ASSERT(error.version > 0);
    if (dirty_mark_parse(input, &removed, &version))
        ASSERT(version > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes input = bytes_of(data + 1, size - 1);
    switch (data[0] % 5) {
    case 0:
        fuzz_rule(input);
        break;
    case 1:
        fuzz_key("o slug-data:{*} sqlite:x", input);
        break;
    case 2:
        fuzz_key("c u:*:v sqlite:x shape columns table t key id", input);
        break;
    case 3:
        fuzz_entry(input);
        break;
    case 4:
        fuzz_value(input);
        break;
    }
    return 0;
}
