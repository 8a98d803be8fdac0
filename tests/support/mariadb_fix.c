// SPDX-License-Identifier: Apache-2.0
/* mariadb_fix.c - starts, stops, pauses and kills a MariaDB server. */
#include "support/mariadb_fix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/banned.h"

enum { START_WAIT_MS = 100000, STEP_MS = 10, ARGS_MAX = 32, PORT_FIRST = 10000 };

static bool complain(const char *what, const char *about)
{
    fprintf(stderr, "mariadb: %s \"%s\": %s\n", what, about, strerror(errno));
    return false;
}

static const char *temp_top(void)
{
    const char *top = getenv("TMPDIR");
    return top && *top ? top : "/tmp";
}

/* A child that ends with us; its output goes to log. */
static pid_t spawn(char *const *args, const char *log)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
    }
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execvp(args[0], args);
    _exit(127);
}

static bool run(char *const *args, const char *log)
{
    int status;
    pid_t pid = spawn(args, log);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return complain("could not run", args[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "mariadb: \"%s\" failed, see \"%s\"\n", args[0], log);
        return false;
    }
    return true;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat, (void)type, (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Two tests may make it at once: each in a directory of its own, and one rename wins. */
static bool make_template(const char *path)
{
    char temp[256], log[300], dir[300], user[32] = "--user=root";
    struct stat stat_buf;
    if (stat(path, &stat_buf) == 0)
        return true;
    snprintf(temp, sizeof temp, "%s/terrace-mariadb-new-XXXXXX", temp_top());
    if (!mkdtemp(temp))
        return complain("could not make", temp);
    snprintf(log, sizeof log, "%s/install.log", temp);
    snprintf(dir, sizeof dir, "--datadir=%s/data", temp);
    char *args[] = {"mariadb-install-db",
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    dir,
                    "--innodb-log-file-size=8M",
                    getuid() == 0 ? user : NULL,
                    NULL};
    if (!run(args, log))
        return false;
    snprintf(dir, sizeof dir, "%s/data", temp);
    if (rename(dir, path) != 0 && stat(path, &stat_buf) != 0)
        return complain("could not keep", path);
    remove_tree(temp);
    return true;
}

static bool is_free(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is_bound;
}

/* The first of the ports that outgoing connections get, at any moment: none of those is sure. */
static unsigned port_end(void)
{
    unsigned end = 0;
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!range || fscanf(range, "%u", &end) != 1)
        end = 0;
    if (range)
        fclose(range);
    return end > PORT_FIRST ? end : 32768;
}

/* One that nobody else gets while this process lives: the lock, which tests/wire/diff/places.py
 * respects as well, goes with it. 0: there is none. */
static unsigned free_port(void)
{
    char dir[256], path[300];
    unsigned count = port_end() - PORT_FIRST;
    snprintf(dir, sizeof dir, "%s/terrace-ports-%u", temp_top(), (unsigned)getuid());
    mkdir(dir, 0777);
    for (unsigned i = 0; i < count; i++) {
        unsigned port = PORT_FIRST + ((unsigned)getpid() * 37 + i) % count;
        snprintf(path, sizeof path, "%s/%u", dir, port);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_free(port))
            return port; /* the lock stays */
        if (fd >= 0)
            close(fd);
    }
    return 0;
}

bool mariadb_init(struct mariadb *mariadb)
{
    char template[256], data[300], log[300];
    *mariadb = (struct mariadb){.port = free_port()};
    snprintf(template, sizeof template, "%s/terrace-mariadb-%u-1011", temp_top(),
             (unsigned)getuid());
    snprintf(mariadb->dir, sizeof mariadb->dir, "%s/terrace-mariadb-XXXXXX", temp_top());
    if (!make_template(template))
        return false;
    if (!mkdtemp(mariadb->dir))
        return complain("could not make", mariadb->dir);
    snprintf(mariadb->socket, sizeof mariadb->socket, "%s/socket", mariadb->dir);
    snprintf(data, sizeof data, "%s/data", mariadb->dir);
    snprintf(log, sizeof log, "%s/copy.log", mariadb->dir);
    char *args[] = {"cp", "-a", "--reflink=auto", template, data, NULL};
    if (run(args, log) && mariadb_start(mariadb, NULL))
        return true;
    mariadb_done(mariadb);
    return false;
}

static bool can_connect(const struct mariadb *mariadb)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.*s", (int)sizeof address.sun_path - 1,
             mariadb->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_there = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    char byte;
    is_there = is_there && read(fd, &byte, 1) == 1; /* its greeting: it is ready */
    if (fd >= 0)
        close(fd);
    return is_there;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

bool mariadb_start(struct mariadb *mariadb, const char *options)
{
    char data[300], socket_option[300], port[40], pid_file[300], tmp[300], log[300], error[340];
    snprintf(data, sizeof data, "--datadir=%s/data", mariadb->dir);
    snprintf(socket_option, sizeof socket_option, "--socket=%s", mariadb->socket);
    snprintf(port, sizeof port, "--port=%u", mariadb->port);
    snprintf(pid_file, sizeof pid_file, "--pid-file=%s/pid", mariadb->dir);
    /* Servers in several containers may share a process id, and temporary tables are named after
     * it. */
    snprintf(tmp, sizeof tmp, "--tmpdir=%s", mariadb->dir);
    snprintf(log, sizeof log, "%s/log", mariadb->dir);
    snprintf(error, sizeof error, "--log-error=%s", log);
    /* Small, but as durable as a server is by default. */
    char *args[ARGS_MAX] = {"mariadbd",
                            "--no-defaults",
                            data,
                            socket_option,
                            port,
                            pid_file,
                            tmp,
                            error,
                            "--bind-address=127.0.0.1",
                            "--innodb-buffer-pool-size=16M",
                            "--innodb-log-file-size=8M",
                            "--innodb-flush-log-at-trx-commit=1",
                            "--skip-name-resolve",
                            "--skip-ssl", /* 11.4 and newer make themselves a certificate */
                            "--performance-schema=OFF",
                            "--max-connections=50"};
    size_t count = 15;
    if (getuid() == 0)
        args[count++] = "--user=root";
    char more[1024], *rest = more;
    snprintf(more, sizeof more, "%s", options ? options : "");
    for (char *word; (word = strsep(&rest, " ")) && count < ARGS_MAX - 1;)
        if (*word)
            args[count++] = word;
    unlink(mariadb->socket); /* left by one that was killed */
    mariadb->pid = spawn(args, log);
    for (int waited = 0; waited < START_WAIT_MS; waited += STEP_MS) {
        int status;
        if (can_connect(mariadb))
            return true;
        if (waitpid(mariadb->pid, &status, WNOHANG) == mariadb->pid) {
            mariadb->pid = 0;
            break;
        }
        sleep_ms(STEP_MS);
    }
    fprintf(stderr, "mariadb: did not start, see \"%s\"\n", log);
    return false;
}

static void end(struct mariadb *mariadb, int signal_number)
{
    int status;
    if (mariadb->pid <= 0)
        return;
    kill(mariadb->pid, SIGCONT);
    kill(mariadb->pid, signal_number);
    waitpid(mariadb->pid, &status, 0);
    mariadb->pid = 0;
}

void mariadb_stop(struct mariadb *mariadb)
{
    end(mariadb, SIGTERM);
}

void mariadb_kill(struct mariadb *mariadb)
{
    end(mariadb, SIGKILL);
}

void mariadb_pause(struct mariadb *mariadb, bool is_paused)
{
    kill(mariadb->pid, is_paused ? SIGSTOP : SIGCONT);
}

void mariadb_done(struct mariadb *mariadb)
{
    if (!*mariadb->dir)
        return;
    mariadb_kill(mariadb); /* its files go anyway */
    remove_tree(mariadb->dir);
    mariadb->dir[0] = '\0';
}
