// SPDX-License-Identifier: Apache-2.0
/* address.h - where a key of a rule lives in SQL, and how the dirty tables name it.
 *
 *   shape object    slug-data:{app:region:logicType:ownerId}
 *                   table app_region, primary key logicType:ownerId:field
 *                   entry app&region&logicType&ownerId&field; the field as it is
 *   shape columns   prefix id suffix, as the rule's pattern says
 *                   the rule's table, key column = id, one column a field
 *                   entry rule&id&field; % and & in id and field are %25 and %26
 * An entry with an empty field is an owner mark: the key as a whole. The number of & tells the
 * shapes apart: an object entry has four or more, a columns entry exactly two.
 *
 * Ownership: an address borrows from the key, or from the arena it was parsed into.
 * Threads: any. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "models/landing/rule.h"

#define LAND_OWN_PREFIX "slug-persist:{"
#define ADDRESS_OBJECT_PREFIX "slug-data:{"
#define LAND_RESERVED_FIELD "cachedAllKey"
#define LAND_COLUMN_VERSION "up_version"
#define LAND_COLUMN_IS_DEL "is_del"
#define LAND_COLUMN_DEL_TIME "del_time"

struct address {
    const struct rule_spec *spec;
    struct bytes app, region, type, owner; /* shape object */
    size_t owner_chars;                    /* characters of "type:owner:" */
    struct bytes id;                       /* shape columns */
};

/* RC_INVALID: the rule takes this key, but it cannot be landed; why. */
enum rc address_of(const struct rule_spec *spec, struct bytes key, struct address *ret_address,
                   struct err *err) NODISCARD;
/* RC_INVALID: a field of this name cannot be landed; why. */
enum rc address_check_field(const struct address *address, struct bytes field,
                            struct err *err) NODISCARD;
/* The entry of a field, or of the owner (empty field), behind what is in the buffer. */
bool address_entry_add(const struct address *address, struct bytes field, struct buf *to) NODISCARD;
/* The field's part of it, behind that of the owner. */
bool address_field_add(const struct address *address, struct bytes field, struct buf *to) NODISCARD;
bool address_key_add(const struct address *address, struct buf *to) NODISCARD; /* the data key */

/* What an entry names. rule_name is set for shape columns, the address's parts but not its spec. */
struct land_entry {
    enum land_shape shape;
    struct bytes rule_name;
    struct address address;
    struct bytes field; /* empty: the owner */
};
/* RC_CORRUPT: it is no entry. Decoded parts are in the arena, others borrowed. */
enum rc entry_parse(struct bytes entry, struct arena *arena, struct land_entry *ret_entry,
                    struct err *err) NODISCARD;
/* Everything up to and with the & before the field: what all entries of an owner begin with. */
struct bytes entry_owner_part(struct bytes entry, enum land_shape shape);

/* The dirty table of a data key. */
uint32_t address_table(const struct rule_spec *spec, struct bytes key);
