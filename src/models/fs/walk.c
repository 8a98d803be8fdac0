// SPDX-License-Identifier: Apache-2.0
/* walk.c - a subtree in order of names, a stack of directories deep. */
#include "base/mem.h"
#include "models/fs/fs_int.h"
#include "models/fs/query.h"
#include "types/glob.h"

#include "base/banned.h"

enum { STACK_MIN = 16 };
#define NO_LINE SIZE_MAX

struct frame { /* a directory on the way down */
    uint64_t id;
    struct fs_dir_page page;
    size_t at;      /* the next item of the page */
    size_t path_at; /* where its name begins in the path */
    size_t line;    /* TREE: its own, or NO_LINE */
    struct fs_totals totals;
};

struct walk {
    const struct fs_query *query;
    struct fs_source *source;
    const struct fs_walk_limits *limits;
    struct fs_answer *answer;
    struct frame *frame;
    size_t depth, cap; /* frames */
    struct buf path;
};

/* ---- the answer ---- */

void fs_answer_init(struct fs_answer *answer)
{
    *answer = (struct fs_answer){0};
    buf_init(&answer->names, FS_FIND_BYTES_MAX);
}

void fs_answer_done(struct fs_answer *answer)
{
    mem_free(answer->line);
    buf_done(&answer->names);
}

static enum rc line_add(struct walk *walk, uint64_t depth, struct bytes name,
                        const struct fs_entry *entry, struct err *err)
{
    struct fs_answer *answer = walk->answer;
    if (answer->line_count == answer->line_cap) {
        answer->line_cap = answer->line_cap ? 2 * answer->line_cap : 64;
        answer->line = mem_realloc(answer->line, answer->line_cap * sizeof *answer->line);
    }
    answer->line[answer->line_count++] =
        (struct fs_line){.depth = depth,
                         .name_at = answer->names.len,
                         .name_len = name.len,
                         .is_dir = fs_entry_is_dir(entry),
                         .totals = {.bytes = entry->size, .files = !fs_entry_is_dir(entry)}};
    if (!buf_add_bytes(&answer->names, name))
        return err_set(err, RC_REPLY, "RESOURCE the names are over %d bytes: ask for less",
                       FS_FIND_BYTES_MAX);
    return RC_OK;
}

/* Whether the entry is told of; walk->path is its path. */
static enum rc meet(struct walk *walk, uint64_t depth, struct bytes name,
                    const struct fs_entry *entry, size_t *ret_line, struct err *err)
{
    const struct fs_query *query = walk->query;
    *ret_line = NO_LINE;
    if (query->kind == FS_QUERY_TREE && depth <= query->depth_max) {
        if (walk->answer->line_count == FS_TREE_LINES_MAX)
            return err_set(err, RC_REPLY, "RESOURCE the tree has over %d lines: use DEPTH",
                           FS_TREE_LINES_MAX);
        *ret_line = walk->answer->line_count;
        return line_add(walk, depth, name, entry, err);
    }
    if (query->kind != FS_QUERY_FIND)
        return RC_OK;
    bool whole = memchr(query->pattern.ptr, '/', query->pattern.len) != NULL;
    struct bytes path = buf_bytes(&walk->path);
    if (!glob_is_all(query->pattern) && !glob_match(query->pattern, whole ? path : name, false))
        return RC_OK;
    if (walk->answer->line_count == FS_FIND_LINES_MAX)
        return err_set(err, RC_REPLY, "RESOURCE over %d paths are found: ask for less",
                       FS_FIND_LINES_MAX);
    return line_add(walk, depth, path, entry, err);
}

static bool is_enough(const struct walk *walk)
{
    return walk->query->kind == FS_QUERY_FIND &&
           walk->answer->line_count >= walk->query->line_count_max;
}

/* ---- the stack ---- */

static enum rc frame_push(struct walk *walk, uint64_t id, size_t path_at, size_t line,
                          struct err *err)
{
    if (walk->depth == walk->cap) {
        walk->cap = walk->cap ? 2 * walk->cap : STACK_MIN;
        walk->frame = mem_realloc(walk->frame, walk->cap * sizeof *walk->frame);
    }
    struct frame *frame = &walk->frame[walk->depth++];
    *frame = (struct frame){.id = id, .path_at = path_at, .line = line, .totals = {.dirs = 1}};
    fs_dir_page_init(&frame->page);
    return fs_source_page(walk->source, id, BYTES(""), &frame->page, err);
}

/* What is in it is known: it counts for what it is in. */
static void frame_pop(struct walk *walk)
{
    struct frame *frame = &walk->frame[--walk->depth];
    struct fs_totals *to = &walk->answer->totals;
    if (walk->depth > 0)
        to = &walk->frame[walk->depth - 1].totals;
    to->bytes += frame->totals.bytes;
    to->files += frame->totals.files;
    to->dirs += frame->totals.dirs;
    if (frame->line != NO_LINE)
        walk->answer->line[frame->line].totals = frame->totals;
    buf_cut(&walk->path, frame->path_at);
    fs_dir_page_done(&frame->page);
}

static enum rc item_visit(struct walk *walk, struct err *err)
{
    struct frame *frame = &walk->frame[walk->depth - 1];
    const struct fs_dir_item *item = &frame->page.item[frame->at++];
    size_t path_at = walk->path.len, line;
    if (!buf_add(&walk->path, "/", walk->path.len > 1) || !buf_add_bytes(&walk->path, item->name))
        return err_set(err, RC_NOMEM, "could not allocate memory for a path");
    enum rc rc = meet(walk, walk->depth, item->name, &item->entry, &line, err);
    if (rc != RC_OK)
        return rc;
    if (fs_entry_is_dir(&item->entry)) {
        if (walk->depth > FS_DEPTH_MAX)
            return err_set(err, RC_REPLY, "RESOURCE the tree is too deep; FS.CHECK finds circles");
        return frame_push(walk, item->id, path_at, line, err);
    }
    frame->totals.files++;
    frame->totals.bytes += item->entry.size;
    buf_cut(&walk->path, path_at);
    return RC_OK;
}

static enum rc limits_check(const struct walk *walk, struct err *err)
{
    const struct fs_walk_limits *limits = walk->limits;
    if (limits->row_count_max > 0 && walk->source->row_count > limits->row_count_max)
        return RC_WAIT;
    if (limits->stopped && atomic_load(limits->stopped))
        return err_set(err, RC_TIMEOUT, "the client has gone");
    return RC_OK;
}

static enum rc walk_all(struct walk *walk, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && walk->depth > 0 && !is_enough(walk)) {
        struct frame *frame = &walk->frame[walk->depth - 1];
        rc = limits_check(walk, err);
        if (rc != RC_OK)
            return rc;
        if (frame->at < frame->page.count) {
            rc = item_visit(walk, err);
        } else if (frame->page.more) {
            struct bytes last = frame->page.item[frame->page.count - 1].name;
            frame->at = 0;
            rc = fs_source_page(walk->source, frame->id, last, &frame->page, err);
        } else {
            frame_pop(walk);
        }
    }
    return rc;
}

static enum rc walk_start(struct walk *walk, struct err *err)
{
    struct fs_entry top;
    uint64_t id;
    size_t line;
    struct bytes path = walk->query->path, name = path;
    enum rc rc = fs_source_path(walk->source, path, &id, &top, err);
    if (rc != RC_OK)
        return rc;
    if (!buf_add_bytes(&walk->path, path))
        return err_set(err, RC_NOMEM, "could not allocate memory for a path");
    if (walk->query->kind == FS_QUERY_FIND && path.len > 1)
        name = top.name;
    rc = meet(walk, 0, name, &top, &line, err);
    if (rc != RC_OK)
        return rc;
    if (fs_entry_is_dir(&top))
        return frame_push(walk, id, 0, line, err);
    walk->answer->totals = (struct fs_totals){.bytes = top.size, .files = 1};
    return RC_OK;
}

enum rc fs_query_run(const struct fs_query *query, struct fs_source *source,
                     const struct fs_walk_limits *limits, struct fs_answer *answer, struct err *err)
{
    struct walk walk = {.query = query, .source = source, .limits = limits, .answer = answer};
    buf_init(&walk.path, SIZE_MAX);
    enum rc rc = walk_start(&walk, err);
    if (rc == RC_OK)
        rc = walk_all(&walk, err);
    while (walk.depth > 0)
        frame_pop(&walk);
    mem_free(walk.frame);
    buf_done(&walk.path);
    return rc;
}
