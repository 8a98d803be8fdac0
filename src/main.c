// SPDX-License-Identifier: Apache-2.0
/* main.c - terraced: builds the objects, joins them, runs the loop. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "server/server.h"
#include "store/journal/recover.h"
#include "store/turns.h"
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
    if (!signal_is_ignored(SIGINT))
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

/* How the tool is called that lies beside the server, which was called so. */
static int client_len(const char *program, const char **ret_client)
{
    static const char server[] = "terraced";
    size_t len = strlen(program);
    bool known =
        len >= sizeof server - 1 && strcmp(program + len - (sizeof server - 1), server) == 0;
    *ret_client = known ? program : server;
    return (int)(known ? len : sizeof server - 1) - 1;
}

static void banner_print(const char *program, struct config *config, uint16_t port)
{
    const char *client;
    int len = client_len(program, &client);
    printf("Terrace listens on %s:%u\n"
           "  data directory  %s\n"
           "  durability      %s\n"
           "  try             %.*s -p %u SET hello world\n"
           "                  %.*s -p %u GET hello\n"
           "                  %.*s -p %u INFO tiers\n",
           config->bind.text[0], port, config->dir, durability_name(config->durability), len,
           client, port, len, client, port, len, client, port);
    if (signal_is_ignored(SIGINT))
        printf("  stop            kill %d\n", (int)getpid());
    else
        printf("  stop            Ctrl-C\n");
    fflush(stdout);
    if (!is_loopback(config->bind.text[0]) && config->requirepass.len == 0 &&
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

static enum rc serve(const char *program, struct config *config, struct ports *ports,
                     struct loop *loop, struct store *store, const struct clock *clock,
                     int signal_fd, struct err *err)
{
    struct server *server = NULL;
    enum rc rc = server_new(&(struct server_options){.loop = loop,
                                                     .store = store,
                                                     .clock = clock,
                                                     .config = config,
                                                     .ports = ports,
                                                     .signal_fd = signal_fd},
                            &server, err);
    if (rc != RC_OK)
        return rc;
    banner_print(program, config, server_port(server));
    rc = server_run(server, err);
    server_free(server);
    return rc;
}

/* Whether a power cut has torn the journal's end or something else has, nobody can know. */
static void cuts_tell(const struct store *store)
{
    const struct journal_cut *cut;
    size_t count = store_cuts(store, &cut);
    for (size_t i = 0; i < count; i++, cut++)
        log_warn("the journal's segment %016" PRIx64 " was not whole: %" PRIu64
                 " bytes from offset %" PRIu64 " on with %" PRIu64
                 " turns, not known to be on disk, were cut off, and %s%s",
                 cut->segment, cut->bytes, cut->offset, cut->turn_count,
                 cut->kept[0] ? "are kept in " : "could not be kept", cut->kept);
}

static void back_tell(const struct config *config, struct store *store)
{
    struct store_stats stats;
    store_stats(store, &stats);
    if (stats.engine.back_count > 0)
        log_warn("the engine named tables of a flush that had failed, and went back by it: the "
                 "journal still has it. The engine's files as they were are in %s/engine.before",
                 config->dir);
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
                                              .full_reserve_bytes = config->full_reserve_bytes,
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
    struct ports ports = {.http_fd = -1};
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
        rc = ports_bind(&config, &ports, &err);
    if (rc == RC_OK)
        rc = store_start(&config, loop, &clock, &store, &err);
    if (rc == RC_OK) {
        cuts_tell(store);
        back_tell(&config, store);
    }
    if (rc == RC_OK)
        rc = serve(argv[0], &config, &ports, loop, store, &clock, signal_fd, &err);
    struct err close_err = {0};
    enum rc closed = store_close(store, &close_err);
    loop_close(loop);
    ports_close(&ports);
    config_done(&config);
    if (signal_fd >= 0)
        close(signal_fd);
    if (rc != RC_OK)
        return main_fail(&err);
    if (closed != RC_OK)
        return main_fail(&close_err);
    return 0;
}
