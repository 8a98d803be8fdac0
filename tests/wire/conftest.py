# SPDX-License-Identifier: Apache-2.0
"""A real server for every test: started on a free port with a directory of its own, stopped by pid.

TERRACED and TERRACE name the programs; tools/run_tests.py sets them. With TERRACE_CONFIG_SET=1 a CONFIG SET, which
frees every text of an option and keeps a copy, comes after each start and before each new client of redis-py: whatever
part of the server had kept one of those texts is found by ASan.
"""
import contextlib
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

sys.modules["hiredis"] = None  # redis-py takes it where it is installed, and it refuses deep replies
import redis

import land
import tilekit
from diff.runner import Pair
from diff.servers import Oracle, terraced_path
from mariadb import MariaDB
from waiting import LIMIT_SECONDS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NO_RESERVE = ("--full-reserve", "0")  # thousands of directories of 64 MB would fill the disk; test_full_disk has it
TERRACED = os.environ.get("TERRACED", str(ROOT / "build-dev" / "terraced"))
TERRACE = os.environ.get("TERRACE", str(ROOT / "build-dev" / "terrace"))
CONFIG_SET = os.environ.get("TERRACE_CONFIG_SET") == "1"
DATABASES = itertools.count()
NODE_MODULES = ROOT / "build-node" / "node_modules"  # tools/deps.sh test puts it there
LISTENS = re.compile(r"listens on \S+:(\d+)")


def config_set_again(client):
    """Sets an option to the value it has; a server that wants a password first is left alone."""
    try:
        client.config_set("loglevel", next(iter(client.config_get("loglevel").values())))
    except (redis.AuthenticationError, redis.ConnectionError):
        pass


def config_set_alone(port):
    """The same by a client that leaves no trace in statistics: it is gone, and was not counted."""
    client = redis.Redis(port=port, single_connection_client=True)
    config_set_again(client)
    try:
        client.config_resetstat()
        client.execute_command("QUIT")
        assert client.connection._sock.recv(1) == b""
    except (redis.AuthenticationError, redis.ConnectionError):
        pass
    client.close()


class Server:
    def __init__(self, directory, *args, port=0, prefix=(), file=None):
        self.dir = pathlib.Path(directory)
        self.errors = tempfile.TemporaryFile()
        command = [*prefix, TERRACED, *([str(file)] if file else []), "--port", str(port), "--dir",
                   str(directory), *NO_RESERVE, *args]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.banner = ""
        self.port = self._wait_for_port()
        if CONFIG_SET:
            config_set_alone(self.port)

    def _wait_for_port(self):
        """Reads the banner; the last line is the one about stopping."""
        end = time.monotonic() + LIMIT_SECONDS
        while "stop " not in self.banner:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536).decode() if ready else ""
            if not part:
                self.kill()
                raise RuntimeError(f"the server did not start: {self.stderr()}")
            self.banner += part
        return int(LISTENS.search(self.banner).group(1))

    def client(self, **options):
        client = redis.Redis(port=self.port, **options)
        if CONFIG_SET:
            config_set_again(client)
        return client

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=100)

    def stderr(self):
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode(errors="replace")

    @contextlib.contextmanager
    def stopped(self):
        """What is sent while it lasts is all there when the server goes on: nobody has to be fast."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(100)
        self.process.stdout.close()
        return code


def assert_sound(said):
    """No sanitizer and no assertion, ours or a library's, has spoken in a server's stderr."""
    for word in ("Sanitizer", "runtime error", "assertion", "Assertion"):
        assert word not in said, said


def start_refused(directory, *args, prefix=(), file=None):
    """Starts a server that must not start; returns what it says."""
    done = subprocess.run([*prefix, TERRACED, *([str(file)] if file else []), "--port", "0",
                           "--dir", str(directory), *args],
                          capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 1, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def terrace(*args, code=0):
    """Runs the tool; returns what it prints, on standard error if it fails."""
    done = subprocess.run([TERRACE, *map(str, args)], capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (done.stdout, done.stderr)
    if code:
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr
    return done.stdout


@pytest.fixture
def start(request, tmp_path):
    """start(name="data", *args) gives a running server; all are gone after the test."""
    servers = []
    always = getattr(request.module, "SERVER_OPTIONS", ())  # of all servers of a file of tests

    def start_one(*args, name="data", **options):
        server = Server(tmp_path / name, *always, *args, **options)
        servers.append(server)
        return server

    yield start_one
    said = ""
    for server in servers:
        server.kill()
        said += server.stderr()
        server.errors.close()
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert_sound(said)


@pytest.fixture(scope="module")
def oracle():
    oracle = Oracle()
    yield oracle
    oracle.stop()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def ioredis():
    """ioredis(*words) runs node with it and gives what is printed; .version is a tuple."""
    package = NODE_MODULES / "ioredis" / "package.json"
    if not package.exists():
        pytest.skip("ioredis is not in build-node: tools/deps.sh test could not install it")

    def run(*words):
        done = subprocess.run(["node", *map(str, words)], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "NODE_PATH": str(NODE_MODULES)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.version = tuple(int(part) for part in json.loads(package.read_text())["version"].split("."))
    return run


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
        landed.try_flush()
        return landed

    return start_one


@pytest.fixture
def columns(start):
    """columns(sink, *words) gives a server with a rule of shape columns, named users."""

    def start_one(sink, *words, delay=land.NEVER, pattern="user:*", args=(), **options):
        rule = ("--land", "users", pattern, sink.url, "shape", "columns", "table", "users", "key",
                "id", "delay", delay, *words)
        landed = land.Landed(start(*rule, *args, **options), sink)
        landed.try_flush()
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


@pytest.fixture(autouse=True)
def config_set_between(request):
    """What a server that serves several tests has kept of its options."""
    pair = request.getfixturevalue("pair") if CONFIG_SET and "pair" in request.fixturenames else None
    if isinstance(pair, Pair):
        config_set_alone(pair.ours.port)


@pytest.fixture(scope="module")
def pair():
    """A terraced and Redis itself, which are asked the same."""
    pair = Pair(terraced_path())
    yield pair
    said = pair.ours.stderr()
    pair.close()
    assert_sound(said)
