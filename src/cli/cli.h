// SPDX-License-Identifier: Apache-2.0
/* cli.h - the subcommands of `terrace`; each returns the exit code.
 *
 * argv begins with the subcommand's name.
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

int cli_inspect(int argc, char **argv);
int cli_repair(int argc, char **argv);
int cli_backup(int argc, char **argv);
int cli_restore(int argc, char **argv);
/* [which server] [-n DB] [-3] [COMMAND [ARG]...]; ping and info take the options behind them as
 * well, and so no argument that begins with "-". Without a command the lines of standard input are.
 */
int cli_client(int argc, char **argv);
/* [which server] [-c CONNECTIONS] [-P PIPELINE] [-n REQUESTS] [-d BYTES] [-r NUMBERS] [TEST,...] */
int cli_bench(int argc, char **argv);
/* import|export|verify|sample ...; see terrace help */
int cli_tile(int argc, char **argv);
void cli_tile_help(void); /* on standard output */
/* run JOB --exec 'COMMAND {min} {max}' [--workers N] [--stale MS] [--retries N] [which server] */
int cli_part(int argc, char **argv);
void cli_part_help(void);
void cli_bench_tests_print(void); /* their names, on standard output */
/* [which server] ls|tree|stat|du|find|mv|rm|import|check ... */
int cli_fs(int argc, char **argv);
void cli_fs_help(void); /* what there is, on standard output */

struct cli_server { /* which one, and as whom; all borrowed */
    const char *host;
    const char *port;
    const char *socket;   /* a Unix socket, instead of them; NULL: none */
    const char *user;     /* NULL: the default one */
    const char *password; /* NULL: none is sent */
    const char *db;       /* NULL: the first */
};
/* 127.0.0.1, port 7379, and the password of TERRACE_AUTH if it is set. */
void cli_server_init(struct cli_server *server);
/* Takes -h, -p, -s, -a, --user or --db. False: it is none of them. */
bool cli_server_option(struct cli_server *server, const char *name, const char *value);
/* Decimal digits and nothing else, at most INT64_MAX. */
bool cli_digits(struct bytes text, int64_t *ret_number);
/* The whole number an option takes. The message says which numbers it takes. */
enum rc cli_number(const char *option, const char *text, int64_t min, int64_t max,
                   int64_t *ret_number, struct err *err) NODISCARD;
/* Connects, says AUTH if there is a password and SELECT if there is a database. The caller closes
 * what it gets. */
enum rc cli_connect(const struct cli_server *server, int *ret_fd, struct err *err) NODISCARD;
enum rc cli_send_bytes(int fd, struct bytes bytes, struct err *err) NODISCARD;
/* One command. */
enum rc cli_send(int fd, const char *const word[], size_t count, struct err *err) NODISCARD;

/* One line on standard error; returns 1, the exit code. */
int cli_fail(const char *format, ...) PRINTF_LIKE(1, 2);
