/* cli.h - the subcommands of `terrace`; each returns the exit code.
 *
 * argv begins with the subcommand's name. Threads: one. */
#pragma once

#include "base/err.h"

int cli_inspect(int argc, char **argv);
int cli_repair(int argc, char **argv);
int cli_backup(int argc, char **argv);
int cli_restore(int argc, char **argv);
/* [-h HOST] [-p PORT] COMMAND [ARG]...; ping and info take the options behind them as well. */
int cli_client(int argc, char **argv);
/* [-h HOST] [-p PORT] [-c CONNECTIONS] [-P PIPELINE] [-n REQUESTS] [-d BYTES] [-r NUMBERS]
 * [TEST,...] */
int cli_bench(int argc, char **argv);
void cli_bench_tests_print(void); /* their names, on standard output */

/* The caller closes what it gets. */
enum rc cli_connect(const char *host, const char *port, int *ret_fd, struct err *err) NODISCARD;

/* One line on standard error; returns 1, the exit code. */
int cli_fail(const char *format, ...) PRINTF_LIKE(1, 2);
