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
    sigaddset(&set, SIGHUP);
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

static void banner_print(struct config *config, uint16_t port)
{
    printf("Terrace listens on %s:%u\n"
           "  data directory  %s\n"
           "  durability      %s\n"
           "  try             redis-cli -p %u SET hello world\n"
           "                  redis-cli -p %u GET hello\n"
           "                  redis-cli -p %u INFO tiers\n"
           "  stop            Ctrl-C\n",
           config->bind.text[0], port, config->dir, durability_name(config->durability), port, port,
           port);
    fflush(stdout);
    if (!is_loopback(config->bind.text[0]) && config->requirepass[0] == 0 &&
        !config->protected_mode)
        log_warn("everybody who reaches %s can read and write: set requirepass",
                 config->bind.text[0]);
}

static void wish_answer(enum config_wish wish)
{
    if (wish == CONFIG_WISH_VERSION)
        printf("terraced %s\n", server_version());
    else
        config_print(wish, stdout);
}

static enum rc log_start(const struct config *config, struct err *err)
{
    log_level_set(config_log_level(config));
    if (config->logfile[0] && !log_open(config->logfile))
        return err_set(err, RC_IO, "could not open the log file %s: %s", config->logfile,
                       strerror(errno));
    return RC_OK;
}

static enum rc serve(struct config *config, struct loop *loop, struct store *store,
                     const struct clock *clock, int signal_fd, struct err *err)
{
    struct server *server = NULL;
    enum rc rc = server_new(
        &(struct server_options){
            .loop = loop, .store = store, .clock = clock, .config = config, .signal_fd = signal_fd},
        &server, err);
    if (rc != RC_OK)
        return rc;
    banner_print(config, server_port(server));
    rc = server_run(server, err);
    server_free(server);
    return rc;
}

static enum rc store_start(struct config *config, struct loop *loop, const struct clock *clock,
                           struct store **ret_store, struct err *err)
{
    return store_open(&(struct store_options){.dir = config->dir,
                                              .spaces = types_spaces,
                                              .space_count = TYPES_SPACE_COUNT,
                                              .engine = config->engine,
                                              .clock = clock,
                                              .hot_memory_bytes = config->hot_memory_bytes,
                                              .disk_reserve_bytes = config->disk_reserve_bytes,
                                              .durability = config->durability,
                                              .cache_bytes = config->cache_bytes,
                                              .loader_count = config->loader_count,
                                              .flush_age_ms = config->flush_age_ms,
                                              .wake = loop_wake,
                                              .wake_arg = loop},
                      ret_store, err);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct config config;
    struct clock clock;
    struct loop *loop = NULL;
    struct store *store = NULL;
    enum config_wish wish;
    int signal_fd = -1;

    config_init(&config, NULL);
    enum rc rc = config_load(&config, argc, argv, &wish, &err);
    if (rc == RC_OK && wish != CONFIG_WISH_RUN) {
        wish_answer(wish);
        config_done(&config);
        return 0;
    }
    clock_init(&clock);
    if (rc == RC_OK)
        rc = log_start(&config, &err);
    if (rc == RC_OK)
        rc = signals_open(&signal_fd, &err);
    if (rc == RC_OK)
        rc = loop_open(&loop, &err);
    if (rc == RC_OK)
        rc = store_start(&config, loop, &clock, &store, &err);
    if (rc == RC_OK)
        rc = serve(&config, loop, store, &clock, signal_fd, &err);
    struct err close_err = {0};
    enum rc closed = store_close(store, &close_err);
    loop_close(loop);
    config_done(&config);
    if (signal_fd >= 0)
        close(signal_fd);
    if (rc != RC_OK)
        return main_fail(&err);
    if (closed != RC_OK)
        return main_fail(&close_err);
    return 0;
}
