/* main.c - terraced: builds the objects, joins them, runs the loop. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "server/server.h"
#include "types/spaces.h"

#include "base/banned.h"

static int main_fail(const struct err *err)
{
    fprintf(stderr, "terraced: %s\n", err->text);
    return 1;
}

/* Before any thread is started, so that all of them leave the signals to the loop. */
static enum rc signals_open(int *ret_fd, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return err_set(err, RC_IO, "could not set signals: %s", strerror(errno));
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_set(err, RC_IO, "could not make a signalfd: %s", strerror(errno));
    *ret_fd = fd;
    return RC_OK;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

static void banner_print(const struct options *options, uint16_t port)
{
    printf("Terrace listens on %s:%u\n"
           "  data directory  %s\n"
           "  durability      %s\n"
           "  try             redis-cli -p %u SET hello world\n"
           "                  redis-cli -p %u GET hello\n"
           "                  redis-cli -p %u INFO tiers\n"
           "  stop            Ctrl-C\n",
           options->bind, port, options->dir, durability_name(options->durability), port, port,
           port);
    fflush(stdout);
    if (!is_loopback(options->bind))
        log_warn("everybody who reaches %s can read and write: there are no passwords yet",
                 options->bind);
}

static enum rc serve(const struct options *options, struct loop *loop, struct store *store,
                     const struct clock *clock, int signal_fd, struct err *err)
{
    struct server *server = NULL;
    enum rc rc = server_new(&(struct server_options){.loop = loop,
                                                     .store = store,
                                                     .clock = clock,
                                                     .config = options,
                                                     .signal_fd = signal_fd},
                            &server, err);
    if (rc != RC_OK)
        return rc;
    banner_print(options, server_port(server));
    rc = server_run(server, err);
    server_free(server);
    return rc;
}

static enum rc store_start(const struct options *options, struct loop *loop,
                           const struct clock *clock, struct store **ret_store, struct err *err)
{
    return store_open(&(struct store_options){.dir = options->dir,
                                              .spaces = types_spaces,
                                              .space_count = TYPES_SPACE_COUNT,
                                              .engine = options->engine,
                                              .clock = clock,
                                              .hot_memory_bytes = options->hot_memory_bytes,
                                              .disk_reserve_bytes = options->disk_reserve_bytes,
                                              .durability = options->durability,
                                              .wake = loop_wake,
                                              .wake_arg = loop},
                      ret_store, err);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct options options;
    struct clock clock;
    struct loop *loop = NULL;
    struct store *store = NULL;
    int signal_fd = -1;

    options_init(&options);
    enum rc rc = options_parse(&options, argc, argv, &err);
    if (rc == RC_OK && options.help) {
        options_help(stdout);
        return 0;
    }
    clock_init(&clock);
    if (rc == RC_OK)
        rc = signals_open(&signal_fd, &err);
    if (rc == RC_OK)
        rc = loop_open(&loop, &err);
    if (rc == RC_OK)
        rc = store_start(&options, loop, &clock, &store, &err);
    if (rc == RC_OK)
        rc = serve(&options, loop, store, &clock, signal_fd, &err);
    struct err close_err = {0};
    enum rc closed = store_close(store, &close_err);
    loop_close(loop);
    if (signal_fd >= 0)
        close(signal_fd);
    if (rc != RC_OK)
        return main_fail(&err);
    if (closed != RC_OK)
        return main_fail(&close_err);
    return 0;
}
