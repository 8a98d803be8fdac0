// SPDX-License-Identifier: Apache-2.0
/* reserve.c - the file that holds disk back: filled, given in pieces, filled again. */
#include "store/journal/reserve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/rand.h"

#include "base/banned.h"

enum { DISK_PART = 8, STEP_BYTES = 1024 * 1024 };

struct reserve {
    struct files *files;    /* fixed */
    char *dir, *path;       /* fixed */
    uint64_t size;          /* fixed */
    pthread_mutex_t lock;   /* file */
    struct file *file;      /* NULL: it could not be made yet */
    _Atomic uint64_t bytes; /* shared: atomic; changed with the lock held. The length of the file */
    _Atomic bool given_up;  /* shared: atomic; changed with the lock held */
};

/* With the lock held. Whatever fails, `bytes` is what the file has. */
static void cut(struct reserve *reserve, uint64_t len)
{
    struct err ignored = {0};
    enum rc rc = file_truncate(reserve->file, len, &ignored);
    if (rc != RC_OK)
        return;
    reserve->bytes = len;
    rc = file_sync(reserve->file, &ignored); /* some file systems reuse blocks only after that */
    (void)rc;
}

/* Where a file system allocates nothing ahead (NFS, ZFS), what is held has to be written, and must
 * not be so uniform that it is kept in no room at all. */
static enum rc write_ahead(struct reserve *reserve, uint64_t len, struct err *err)
{
    struct rand rand;
    uint8_t *part = mem_alloc(STEP_BYTES);
    enum rc rc = RC_OK;

    rand_init_seed(&rand, len);
    for (size_t at = 0; at < STEP_BYTES; at += sizeof(uint64_t))
        le64_put(part + at, rand_u64(&rand));
    for (uint64_t at = reserve->bytes; rc == RC_OK && at < len; at += STEP_BYTES) {
        uint64_t left = len - at;
        rc = file_write(reserve->file, at, bytes_of(part, left < STEP_BYTES ? left : STEP_BYTES),
                        err);
    }
    mem_free(part);
    return rc;
}

/* Allocated first, beyond the end, and counted by the length then: after a crash in between the
 * file holds more than it says, until it is filled or cut the next time. */
static enum rc fill_try(struct reserve *reserve, uint64_t len, struct err *err)
{
    enum rc rc = RC_OK;
    if (!reserve->file)
        rc =
            file_open(reserve->files, reserve->path, FILE_WRITE | FILE_CREATE, &reserve->file, err);
    if (rc != RC_OK)
        return rc;
    rc = file_allocate(reserve->file, len, err);
    if (rc == RC_INVALID)
        rc = write_ahead(reserve, len, err);
    if (rc == RC_OK)
        rc = file_truncate(reserve->file, len, err);
    if (rc == RC_OK)
        rc = file_sync(reserve->file, err);
    if (rc == RC_OK)
        reserve->bytes = len;
    else
        cut(reserve, reserve->bytes); /* gives back what was allocated beyond */
    return rc;
}

/* A want of disk may end. A file that cannot be had for another reason must not refuse every write
 * as a full disk does. */
static void fill(struct reserve *reserve, uint64_t len)
{
    struct err err = {0};
    enum rc rc = fill_try(reserve, len, &err);
    if (rc == RC_OK || rc == RC_FULL)
        return;
    reserve->given_up = true;
    log_warn("there is no reserve for a full disk until the next start: %s", err.text);
}

static bool has_room(const struct reserve *reserve, uint64_t margin_bytes)
{
    uint64_t free_bytes = 0;
    uint64_t need = reserve->size - reserve->bytes + margin_bytes;
    return files_free_bytes(reserve->files, reserve->dir, &free_bytes, NULL) == RC_OK &&
           free_bytes >= need;
}

static uint64_t size_choose(const struct reserve_options *options)
{
    uint64_t total = 0;
    if (options->bytes == 0 ||
        files_total_bytes(options->files, options->dir, &total, NULL) != RC_OK)
        return 0;
    uint64_t bytes = options->bytes < total / DISK_PART ? options->bytes : total / DISK_PART;
    return bytes / STEP_BYTES * STEP_BYTES;
}

struct reserve *reserve_open(const struct reserve_options *options)
{
    struct reserve *reserve = mem_zalloc(sizeof *reserve);
    size_t path_bytes = strlen(options->dir) + sizeof "/reserve";
    uint64_t len = 0;

    reserve->files = options->files;
    reserve->dir = mem_dup(options->dir, strlen(options->dir) + 1);
    reserve->path = mem_alloc(path_bytes);
    snprintf(reserve->path, path_bytes, "%s/reserve", options->dir);
    reserve->size = size_choose(options);
    pthread_mutex_init(&reserve->lock, NULL);
    enum rc rc = file_open(reserve->files, reserve->path, FILE_WRITE, &reserve->file, NULL);
    bool is_new = rc == RC_NOT_FOUND;
    if (rc == RC_OK && file_size(reserve->file, &len, NULL) == RC_OK)
        reserve->bytes = len;
    if (reserve->file && reserve->size == 0) {
        file_close(reserve->file);
        reserve->file = NULL;
        reserve->bytes = 0;
        rc = files_remove(reserve->files, reserve->path, NULL);
        (void)rc; /* a file that stays is tried at the next start */
    } else if (reserve->bytes > reserve->size) {
        cut(reserve, reserve->size);
    }
    if (!reserve_is_whole(reserve) && has_room(reserve, is_new ? 0 : reserve->size / 2))
        fill(reserve, reserve->size);
    return reserve;
}

void reserve_close(struct reserve *reserve)
{
    if (!reserve)
        return;
    if (!reserve_fill(reserve))
        reserve_return(reserve); /* the next start finds what others would have taken */
    file_close(reserve->file);
    pthread_mutex_destroy(&reserve->lock);
    mem_free(reserve->dir);
    mem_free(reserve->path);
    mem_free(reserve);
}

uint64_t reserve_take(struct reserve *reserve, uint64_t bytes, uint64_t kept_bytes)
{
    if (!reserve)
        return 0;
    pthread_mutex_lock(&reserve->lock);
    uint64_t before = reserve->bytes;
    uint64_t most = before > kept_bytes ? before - kept_bytes : 0;
    if (most > 0)
        cut(reserve, before - (bytes < most ? bytes : most));
    uint64_t given = before - reserve->bytes;
    pthread_mutex_unlock(&reserve->lock);
    return given;
}

bool reserve_fill(struct reserve *reserve)
{
    if (reserve_is_whole(reserve))
        return true;
    pthread_mutex_lock(&reserve->lock);
    if (has_room(reserve, reserve->size / 2))
        fill(reserve, reserve->size);
    pthread_mutex_unlock(&reserve->lock);
    return reserve_is_whole(reserve);
}

/* A piece stays free: the reserve is for who finds nothing, not for making that so. */
static void hold_again(struct reserve *reserve, uint64_t bytes, uint64_t held_max)
{
    uint64_t free_bytes = 0;
    if (files_free_bytes(reserve->files, reserve->dir, &free_bytes, NULL) != RC_OK ||
        free_bytes <= RESERVE_PIECE_BYTES)
        return;
    free_bytes -= RESERVE_PIECE_BYTES;
    pthread_mutex_lock(&reserve->lock);
    uint64_t missing = held_max > reserve->bytes ? held_max - reserve->bytes : 0;
    bytes = bytes < free_bytes ? bytes : free_bytes;
    bytes = bytes < missing ? bytes : missing;
    if (bytes >= RESERVE_PIECE_BYTES && !reserve->given_up)
        fill(reserve, reserve->bytes + bytes);
    pthread_mutex_unlock(&reserve->lock);
}

void reserve_return(struct reserve *reserve)
{
    if (reserve && reserve->size > RESERVE_PIECE_BYTES)
        hold_again(reserve, UINT64_MAX, reserve->size - RESERVE_PIECE_BYTES);
}

void reserve_untake(struct reserve *reserve, uint64_t bytes)
{
    if (reserve)
        hold_again(reserve, bytes, reserve->size);
}

bool reserve_is_whole(const struct reserve *reserve)
{
    return !reserve || reserve->given_up || reserve->bytes >= reserve->size;
}

uint64_t reserve_bytes(const struct reserve *reserve)
{
    return reserve ? reserve->bytes : 0;
}

uint64_t reserve_size(const struct reserve *reserve)
{
    return reserve ? reserve->size : 0;
}
