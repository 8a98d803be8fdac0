// SPDX-License-Identifier: Apache-2.0
/* library_set.c - libraries by name, and their functions by name. */
#include <xxhash.h>

#include "base/mem.h"
#include "server/functions.h"

#include "base/banned.h"

/* ---- libraries ---- */

struct library *library_new(struct script_lib *lib)
{
    struct library *library = mem_zalloc(sizeof *library);
    library->lib = lib;
    library->name = lib->name;
    library->code = lib->code;
    library->bytes = lib->code.len;
    library->function_count = lib->function_count;
    library->function = mem_alloc(lib->function_count * sizeof *library->function);
    for (size_t i = 0; i < lib->function_count; i++) {
        library->function[i] = (struct function){.library = library, .is = &lib->function[i]};
        library->bytes += lib->function[i].name.len + lib->function[i].text.len;
    }
    return library;
}

struct library *library_new_broken(struct bytes name, struct bytes code, const char *why)
{
    struct library *library = mem_zalloc(sizeof *library);
    library->name = bytes_of(mem_dup(name.ptr, name.len), name.len);
    library->code = bytes_of(mem_dup(code.ptr, code.len), code.len);
    library->why = mem_dup(why, strlen(why) + 1);
    library->bytes = code.len;
    return library;
}

void library_free(struct library *library, struct script_vm *vm)
{
    if (!library)
        return;
    if (library->lib) {
        script_lib_free(vm, library->lib);
    } else {
        mem_free((void *)library->name.ptr);
        mem_free((void *)library->code.ptr);
    }
    mem_free(library->function);
    mem_free(library->why);
    mem_free(library);
}

/* ---- the set ---- */

/* As in Redis, FCALL finds a function whatever the case of its letters. */
static uint64_t name_hash(struct bytes name)
{
    uint64_t hash = 0;
    uint8_t lower[64];
    for (size_t at = 0; at < name.len; at += sizeof lower) {
        size_t len = name.len - at < sizeof lower ? name.len - at : sizeof lower;
        for (size_t i = 0; i < len; i++)
            lower[i] = script_name_lower(name.ptr[at + i]);
        hash = XXH3_64bits_withSeed(lower, len, hash);
    }
    return hash;
}

static uint64_t entry_hash(const void *entry, void *arg)
{
    const struct function *function = entry;
    (void)arg;
    return name_hash(function->is->name);
}

static bool entry_eq(const void *entry, const void *key, void *arg)
{
    const struct function *function = entry;
    const struct bytes *name = key;
    (void)arg;
    return script_name_eq(function->is->name, *name);
}

void library_set_init(struct library_set *set)
{
    *set = (struct library_set){0};
    table_init(&set->by_function, entry_hash, entry_eq, NULL);
}

void library_set_done(struct library_set *set, struct script_vm *vm)
{
    while (set->count > 0) {
        struct library *library = set->at[set->count - 1];
        library_take_out(set, library);
        library_free(library, vm);
    }
    table_done(&set->by_function);
    mem_free(set->at);
}

/* The place of a name, or the one where it would be. */
static size_t place_of(const struct library_set *set, struct bytes name, bool *ret_found)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_cmp(set->at[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = low < set->count && bytes_eq(set->at[low]->name, name);
    return low;
}

struct library *library_find(const struct library_set *set, struct bytes name)
{
    bool found;
    size_t place = place_of(set, name, &found);
    return found ? set->at[place] : NULL;
}

const struct function *library_function(const struct library_set *set, struct bytes name)
{
    return table_find(&set->by_function, name_hash(name), &name, NULL);
}

const struct function *library_clash(const struct library_set *set, const struct library *library,
                                     const struct library *except)
{
    for (size_t i = 0; i < library->function_count; i++) {
        const struct function *other = library_function(set, library->function[i].is->name);
        if (other && other->library != except)
            return other;
    }
    return NULL;
}

void library_add(struct library_set *set, struct library *library)
{
    bool found;
    size_t place = place_of(set, library->name, &found);
    ASSERT(!found);
    if (set->count == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 8;
        set->at = mem_realloc(set->at, set->cap * sizeof(struct library *));
    }
    memmove(set->at + place + 1, set->at + place, (set->count - place) * sizeof(struct library *));
    set->at[place] = library;
    set->count++;
    set->bytes += library->bytes;
    set->broken_count += !library->lib;
    for (size_t i = 0; i < library->function_count; i++) {
        struct function *function = &library->function[i];
        ASSERT(!library_function(set, function->is->name)); /* (4) */
        table_insert(&set->by_function, name_hash(function->is->name), function);
    }
}

void library_take_out(struct library_set *set, struct library *library)
{
    bool found;
    size_t place = place_of(set, library->name, &found);
    ASSERT(found && set->at[place] == library);
    set->count--;
    memmove(set->at + place, set->at + place + 1, (set->count - place) * sizeof(struct library *));
    set->bytes -= library->bytes;
    set->broken_count -= !library->lib;
    for (size_t i = 0; i < library->function_count; i++) {
        struct bytes name = library->function[i].is->name;
        struct table_slot slot;
        void *entry = table_find(&set->by_function, name_hash(name), &name, &slot);
        ASSERT(entry == &library->function[i]);
        table_remove(&set->by_function, name_hash(name), slot);
    }
}
