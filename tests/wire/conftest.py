"""A real server for every test: started on a free port with a directory of its own, stopped by pid.

TERRACED and TERRACE name the programs; tools/run_tests.py sets them.
"""
import itertools
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import redis

import land
import tilekit
from diff.runner import Pair
from diff.servers import terraced_path
from mariadb import MariaDB

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TERRACED = os.environ.get("TERRACED", str(ROOT / "build-dev" / "terraced"))
TERRACE = os.environ.get("TERRACE", str(ROOT / "build-dev" / "terrace"))
START_SECONDS = 30
DATABASES = itertools.count()
LISTENS = re.compile(r"listens on \S+:(\d+)")


class Server:
    def __init__(self, directory, *args, port=0, prefix=(), file=None):
        self.dir = pathlib.Path(directory)
        self.errors = tempfile.TemporaryFile()
        command = [*prefix, TERRACED, *([str(file)] if file else []), "--port", str(port), "--dir",
                   str(directory), *args]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.banner = ""
        self.port = self._wait_for_port()

    def _wait_for_port(self):
        """Reads the banner; the last line is the one about stopping."""
        end = time.monotonic() + START_SECONDS
        while "stop " not in self.banner:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            part = os.read(self.process.stdout.fileno(), 65536).decode() if ready else ""
            if not part:
                self.kill()
                raise RuntimeError(f"the server did not start: {self.stderr()}")
            self.banner += part
        return int(LISTENS.search(self.banner).group(1))

    def client(self, **options):
        return redis.Redis(port=self.port, **options)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def stderr(self):
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


def start_refused(directory, *args, prefix=(), file=None):
    """Starts a server that must not start; returns what it says."""
    done = subprocess.run([*prefix, TERRACED, *([str(file)] if file else []), "--port", "0",
                           "--dir", str(directory), *args],
                          capture_output=True, text=True, timeout=START_SECONDS)
    assert done.returncode == 1, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def terrace(*args, code=0):
    """Runs the tool; returns what it prints, on standard error if it fails."""
    done = subprocess.run([TERRACE, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.stdout, done.stderr)
    if code:
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr
    return done.stdout


@pytest.fixture
def start(tmp_path):
    """start(name="data", *args) gives a running server; all are gone after the test."""
    servers = []

    def start_one(*args, name="data", **options):
        server = Server(tmp_path / name, *args, **options)
        servers.append(server)
        return server

    yield start_one
    said = ""
    for server in servers:
        server.kill()
        said += server.stderr()
        server.errors.close()
    shutil.rmtree(tmp_path, ignore_errors=True)
    for word in ("Sanitizer", "runtime error", "assertion"):
        assert word not in said, said


@pytest.fixture
def server(start):
    return start()


# ---- landing ----

@pytest.fixture(scope="session")
def maria():
    """One MariaDB for all tests; each has a database of its own in it."""
    with MariaDB() as server:
        yield server


@pytest.fixture
def sqlite_sink(tmp_path):
    return land.Sqlite(tmp_path / "sink.db")


@pytest.fixture
def maria_sink(maria):
    name = f"t{next(DATABASES)}"
    yield land.Maria(maria, name)
    if maria.process:
        maria.ask(f"DROP DATABASE `{name}`")


@pytest.fixture(params=["sqlite", "mysql"])
def sink(request):
    return request.getfixturevalue("sqlite_sink" if request.param == "sqlite" else "maria_sink")


@pytest.fixture
def landing(start):
    """landing(sink, *words) gives a server with a rule of shape object, named players."""

    def start_one(sink, *words, delay=land.NEVER, args=(), **options):
        rule = ("--land", "players", "slug-data:{*}", sink.url, "delay", delay, *words)
        landed = land.Landed(start(*rule, *args, **options), sink)
        landed.flush()  # the first pass comes without being asked for
        return landed

    return start_one


@pytest.fixture
def columns(start):
    """columns(sink, *words) gives a server with a rule of shape columns, named users."""

    def start_one(sink, *words, delay=land.NEVER, pattern="user:*", args=(), **options):
        rule = ("--land", "users", pattern, sink.url, "shape", "columns", "table", "users", "key",
                "id", "delay", delay, *words)
        landed = land.Landed(start(*rule, *args, **options), sink)
        landed.flush()  # the first pass comes without being asked for
        return landed

    return start_one


@pytest.fixture
def landed(landing, sink):
    return landing(sink)


# ---- tiles ----

@pytest.fixture
def dirs(tmp_path):
    return {"sqlite": tmp_path / "sqlite", "kv": tmp_path / "kv"}


@pytest.fixture
def begin(start, dirs):
    """begin("sqlite", "kv") starts a server with these shards that persists only when it is asked to."""
    def begin_one(*kinds, options=()):
        words = [word for kind in kinds for word in (f"--tile-{kind}", str(dirs[kind]))]
        if "--tile-batch" not in options:
            words += ["--tile-batch", "1000000", "--tile-interval", "3600s"]
        return start("--tile-types", *tilekit.TYPES, *words, *options)
    return begin_one


@pytest.fixture(scope="module")
def pair():
    """A terraced and Redis itself, which are asked the same."""
    pair = Pair(terraced_path())
    yield pair
    said = pair.ours.stderr()
    pair.close()
    for word in ("Sanitizer", "runtime error", "assertion"):
        assert word not in said, said
