# SPDX-License-Identifier: Apache-2.0
"""A real MariaDB server in a temporary directory, for wire tests.

    with MariaDB() as db:
        db.connect().cursor().execute("CREATE DATABASE game")
        rule = "land users user:* " + db.url("game") + " shape columns table users key id"

The result of mariadb-install-db is kept as a template beside the temporary directories (the same
one that tests/support/mariadb_fix.c uses) and copied. The server dies with the thread that started
it, so a test that crashes leaves none behind.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile

import pymysql

from diff.places import free_port, new_directory
from waiting import wait_until

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _as_root():
    return ["--user=root"] if os.getuid() == 0 else []


def template():
    """A data directory to copy. Two tests may make it at once: one rename wins."""
    path = os.path.join(tempfile.gettempdir(), f"terrace-mariadb-{os.getuid()}-1011")
    if os.path.isdir(path):
        return path
    with tempfile.TemporaryDirectory(prefix="terrace-mariadb-new-") as temp:
        data = os.path.join(temp, "data")
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--innodb-log-file-size=8M", f"--datadir={data}", *_as_root()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": PATH})
        try:
            os.rename(data, path)
        except OSError:
            if not os.path.isdir(path):
                raise
    return path


class MariaDB:
    """One server. start() is called by __init__; options are more of mariadbd's own."""

    def __init__(self, *options):
        self.dir = new_directory("terrace-mariadb-")
        self.socket = os.path.join(self.dir, "socket")
        self.log = os.path.join(self.dir, "log")
        self.port = free_port()
        self.process = None
        subprocess.run(["cp", "-a", "--reflink=auto", template(), os.path.join(self.dir, "data")],
                       check=True)
        self.start(*options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done()

    def start(self, *options):
        """Starts it and waits until it answers."""
        assert self.process is None
        if os.path.exists(self.socket):
            os.unlink(self.socket)  # left by one that was killed
        with open(self.log, "ab") as log:
            # Small, but as durable as a server is by default.
            self.process = subprocess.Popen(
                ["mariadbd", "--no-defaults", f"--datadir={self.dir}/data",
                 f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1",
                 f"--pid-file={self.dir}/pid", f"--tmpdir={self.dir}", "--innodb-buffer-pool-size=16M",
                 "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=1",
                 "--skip-name-resolve", "--performance-schema=OFF", *_as_root(), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent,
                env={**os.environ, "PATH": PATH})
        wait_until(self._answers)

    def _answers(self):
        try:
            self.connect().close()
            return True
        except (pymysql.err.OperationalError, OSError):
            if self.process.poll() is not None:
                with open(self.log, errors="replace") as log:
                    raise RuntimeError("mariadbd did not start:\n" + log.read()[-2000:]) from None
            return False

    def _end(self, number):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait()
        self.process = None

    def stop(self):
        """Asks it to end, and waits."""
        self._end(signal.SIGTERM)

    def kill(self):
        """kill -9, and waits."""
        self._end(signal.SIGKILL)

    def restart(self, *options):
        self.stop()
        self.start(*options)

    def pause(self, is_paused):
        """It hangs (SIGSTOP), or goes on."""
        self.process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def done(self):
        """Ends it and removes its files."""
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def url(self, database, over_tcp=False):
        """What a rule of terraced says to land here."""
        if over_tcp:
            return f"mysql://root@127.0.0.1:{self.port}/{database}"
        return f"mysql://root@localhost/{database}?socket={self.socket}"

    def connect(self, database=None, **options):
        """A client of its own, with autocommit."""
        return pymysql.connect(unix_socket=self.socket, user="root", database=database,
                               charset="utf8mb4", autocommit=True, **options)

    def ask(self, sql, *args, database=None):
        """The rows of one statement."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, args or None)
                return cursor.fetchall()
        finally:
            connection.close()
