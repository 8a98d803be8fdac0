// SPDX-License-Identifier: Apache-2.0
/* journal_sealed.c - the sealed segments that are still needed, removing them, pinning them. */
#include "store/journal/journal_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum { SEALED_CAP_MIN = 16 };

void journal__sealed_add(struct journal *journal, const struct journal_sealed *sealed)
{
    ASSERT(journal->sealed_count == 0 ||
           journal->sealed[journal->sealed_count - 1].number < sealed->number);
    if (journal->sealed_count == journal->sealed_cap) {
        journal->sealed_cap = journal->sealed_cap ? 2 * journal->sealed_cap : SEALED_CAP_MIN;
        journal->sealed =
            mem_realloc(journal->sealed, journal->sealed_cap * sizeof *journal->sealed);
    }
    journal->sealed[journal->sealed_count++] = *sealed;
    journal->sealed_bytes += sealed->bytes;
}

void journal_adopt(struct journal *journal, const struct journal_sealed *sealed)
{
    pthread_mutex_lock(&journal->lock);
    ASSERT(sealed->number < journal->number);
    journal__sealed_add(journal, sealed);
    pthread_mutex_unlock(&journal->lock);
}

/* The first sealed segment with a number above `after`; sealed_count: none. */
static size_t sealed_place(const struct journal *journal, uint64_t after)
{
    size_t low = 0, high = journal->sealed_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (journal->sealed[middle].number <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool journal_sealed_next(struct journal *journal, uint64_t after, struct journal_sealed *ret_sealed)
{
    pthread_mutex_lock(&journal->lock);
    size_t place = sealed_place(journal, after);
    bool found = place < journal->sealed_count;
    if (found)
        *ret_sealed = journal->sealed[place];
    pthread_mutex_unlock(&journal->lock);
    return found;
}

/* Takes the first sealed segment away. With the lock held; it is given away meanwhile. */
static enum rc sealed_remove_first(struct journal *journal, struct err *err)
{
    char path[PATH_BYTES_MAX];
    segment_path(path, journal->options.dir, journal->sealed[0].number);
    journal->removing = true; /* nobody else takes from the front, and a pin waits */
    pthread_mutex_unlock(&journal->lock);
    enum rc rc = files_remove(journal->options.files, path, err);
    pthread_mutex_lock(&journal->lock);
    journal->removing = false;
    pthread_cond_broadcast(&journal->done);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    journal->sealed_bytes -= journal->sealed[0].bytes;
    journal->sealed_count--;
    memmove(&journal->sealed[0], &journal->sealed[1],
            journal->sealed_count * sizeof *journal->sealed);
    return RC_OK;
}

static enum rc sealed_remove(struct journal *journal, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && journal->pin_count == 0 && journal->sealed_count > 0 &&
           journal->sealed[0].number <= journal->removed_to) {
        if (journal->removing)
            pthread_cond_wait(&journal->done, &journal->lock);
        else
            rc = sealed_remove_first(journal, err);
    }
    return rc;
}

enum rc journal_remove(struct journal *journal, uint64_t number, struct err *err)
{
    pthread_mutex_lock(&journal->lock);
    if (number > journal->removed_to)
        journal->removed_to = number;
    enum rc rc = sealed_remove(journal, err);
    pthread_mutex_unlock(&journal->lock);
    return rc;
}

void journal_pin(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->pin_count++;
    while (journal->removing)
        pthread_cond_wait(&journal->done, &journal->lock);
    pthread_mutex_unlock(&journal->lock);
}

void journal_unpin(struct journal *journal)
{
    struct err err = {0};
    pthread_mutex_lock(&journal->lock);
    ASSERT(journal->pin_count > 0);
    journal->pin_count--;
    enum rc rc = sealed_remove(journal, &err);
    (void)rc; /* a file that stays is tried again by the next journal_remove(), or at a start */
    pthread_mutex_unlock(&journal->lock);
}
