// SPDX-License-Identifier: Apache-2.0
/* sink_def.c - what a sink knows of its tables: columns, types, keys. */
#include "base/mem.h"
#include "models/landing/sink_int.h"

#include "base/banned.h"

bool sink__decl_is_loose(const struct sink_decl *decl)
{
    return !decl->is_byte_ordered && decl->kind != DECL_INT;
}

struct sink_def *sink__def_new(struct bytes name)
{
    struct sink_def *def = mem_zalloc(sizeof *def);
    def->name = bytes_of(mem_dup(name.ptr, name.len), name.len);
    return def;
}

void sink__def_free(struct sink_def *def)
{
    if (!def)
        return;
    for (size_t i = 0; i < def->decl_count; i++) {
        mem_free((void *)def->decl[i].name.ptr);
        mem_free(def->decl[i].members);
        mem_free(def->decl[i].declared);
    }
    mem_free(def->decl);
    mem_free((void *)def->name.ptr);
    mem_free(def);
}

struct sink_decl *sink__def_add(struct sink_def *def, struct bytes name, const char *declared)
{
    def->decl = mem_realloc(def->decl, (def->decl_count + 1) * sizeof *def->decl);
    struct sink_decl *decl = &def->decl[def->decl_count++];
    *decl = (struct sink_decl){
        .name = bytes_of(mem_dup(name.ptr, name.len), name.len),
        .kind = DECL_IMPOSSIBLE,
        .type = SINK_OTHER,
        .is_nullable = true,
        .declared = mem_dup(declared, strlen(declared) + 1),
    };
    return decl;
}

const struct sink_decl *sink__def_find(const struct sink_def *def, struct bytes name)
{
    for (size_t i = 0; i < def->decl_count; i++)
        if (bytes_eq(def->decl[i].name, name))
            return &def->decl[i];
    return NULL;
}

enum rc sink__def_match(const struct sink_def *def, const struct sink_table *table,
                        const size_t *column, size_t count, const struct sink_decl **ret_decl,
                        struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes name = table->column[column[i]].name;
        ret_decl[i] = sink__def_find(def, name);
        if (!ret_decl[i])
            return err_set(err, RC_NOT_FOUND, "table \"%.*s\" has no column \"%.*s\"",
                           (int)def->name.len, (const char *)def->name.ptr, (int)name.len,
                           (const char *)name.ptr);
    }
    return RC_OK;
}

/* One allocation, so that sink_table_free() needs to know nothing of it. */
struct sink_table *sink__def_table(const struct sink_def *def)
{
    size_t text_bytes = def->name.len, count = 0;
    for (size_t i = 0; i < def->decl_count; i++) {
        text_bytes += def->decl[i].name.len;
        count += !def->decl[i].is_generated;
    }
    size_t head_bytes = sizeof(struct sink_table) + count * sizeof(struct sink_column);
    struct sink_table *table = mem_zalloc(head_bytes + text_bytes);
    uint8_t *text = (uint8_t *)table + head_bytes;
    table->column = (struct sink_column *)(table + 1);
    table->column_count = count;
    memcpy(text, def->name.ptr, def->name.len);
    table->name = bytes_of(text, def->name.len);
    text += def->name.len;
    size_t next = 1;
    for (size_t i = 0; i < def->decl_count; i++) {
        const struct sink_decl *decl = &def->decl[i];
        if (decl->is_generated)
            continue;
        size_t place = i == def->key ? 0 : next++;
        memcpy(text, decl->name.ptr, decl->name.len);
        table->column[place] = (struct sink_column){.name = bytes_of(text, decl->name.len),
                                                    .type = decl->type,
                                                    .is_required = !decl->is_nullable,
                                                    .is_automatic = decl->is_automatic,
                                                    .is_indexed = decl->is_indexed};
        text += decl->name.len;
        if (place && bytes_eq(decl->name, BYTES("up_version")))
            table->version = place;
    }
    return table;
}

struct sink_def *sink__defs_find(struct sink_defs *defs, struct bytes name)
{
    for (size_t i = 0; i < defs->count; i++)
        if (bytes_eq(defs->def[i]->name, name))
            return defs->def[i];
    return NULL;
}

void sink__defs_put(struct sink_defs *defs, struct sink_def *def)
{
    size_t place = 0;
    while (place < defs->count && !bytes_eq(defs->def[place]->name, def->name))
        place++;
    if (place == SINK_DEFS_MAX)
        place = 0;
    if (place < defs->count) {
        sink__def_free(defs->def[place]);
        defs->count--;
        memmove(&defs->def[place], &defs->def[place + 1],
                (defs->count - place) * sizeof defs->def[0]);
    }
    defs->def[defs->count++] = def;
}

void sink__defs_drop(struct sink_defs *defs)
{
    while (defs->count > 0)
        sink__def_free(defs->def[--defs->count]);
}
