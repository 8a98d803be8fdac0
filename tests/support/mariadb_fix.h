// SPDX-License-Identifier: Apache-2.0
/* mariadb_fix.h - a real MariaDB server in a temporary directory, for tests and benches.
 *
 * The result of mariadb-install-db is kept as a template beside the temporary directories and
 * copied. The server dies with the thread that started it (PR_SET_PDEATHSIG), so a test that
 * crashes leaves none behind. Errors go to standard error and are returned as false.
 *
 * Ownership: the caller owns the struct; mariadb_done() stops the server and removes its files.
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct mariadb {
    pid_t pid; /* 0: not running */
    unsigned port;
    char dir[200];
    char socket[240];
};

bool mariadb_init(struct mariadb *mariadb); /* and starts; false: see standard error */
/* options: more for the server, separated by spaces ("--read-only --ssl-ca=x"), or NULL. */
bool mariadb_start(struct mariadb *mariadb, const char *options);
void mariadb_stop(struct mariadb *mariadb); /* asks it to end, and waits */
void mariadb_kill(struct mariadb *mariadb); /* kill -9, and waits */
void mariadb_pause(struct mariadb *mariadb, bool is_paused);
void mariadb_done(struct mariadb *mariadb);
