// SPDX-License-Identifier: Apache-2.0
/* file_sim.h - a file system in memory that fails on demand and forgets at a power cut.
 *
 * For tests: it keeps two contents a file (seen, synced) and two names a directory entry (seen,
 * synced). file_sim_power_cut() makes the synced state the seen one; with `torn`, every unsynced
 * write survives whole, in part or not at all, by the given randomness, as on a real disk.
 *
 * Threads: any (one lock). */
#pragma once

#include "base/file.h"
#include "base/rand.h"

struct file_sim;

enum file_sim_op { /* what a fault can be armed on */
                   FILE_SIM_ANY,
                   FILE_SIM_OPEN,
                   FILE_SIM_WRITE,
                   FILE_SIM_SYNC,
                   FILE_SIM_TRUNCATE,
                   FILE_SIM_ALLOCATE,
                   FILE_SIM_RENAME,
                   FILE_SIM_LINK,
                   FILE_SIM_REMOVE,
                   FILE_SIM_SYNC_DIR,
                   FILE_SIM_READ,
};

struct file_sim *file_sim_new(void);
void file_sim_free(struct file_sim *sim);
struct files *file_sim_files(struct file_sim *sim);

/* The count-th such call from now (1 = the next) fails with rc; a failing write first stores
 * short_bytes of what it was given. `times` failures in a row, -1 = for ever. count 0 disarms. */
struct file_sim_fault {
    enum file_sim_op op;
    uint64_t count;
    int64_t times;
    enum rc rc;
    size_t short_bytes;
    const char *path_part; /* only paths that contain it; NULL: all */
};
void file_sim_arm(struct file_sim *sim, const struct file_sim_fault *fault);
uint64_t file_sim_op_count(struct file_sim *sim, enum file_sim_op op); /* calls so far */
void file_sim_space(struct file_sim *sim,
                    uint64_t free_bytes); /* default: unlimited; writes use it up */
/* Every open struct file stays closable, but all its calls fail from here on. */
void file_sim_power_cut(struct file_sim *sim, bool torn, struct rand *rand);
/* As after kill -9: open files are dead, all seen content stays. */
void file_sim_process_end(struct file_sim *sim);
