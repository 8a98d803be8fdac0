# SPDX-License-Identifier: Apache-2.0
"""Nothing acknowledged is lost, nothing refused happens, and nobody waits for ever, whatever fails.

Some rounds; TERRACE_LONG=1 plays for an hour (TERRACE_STORM_SECONDS says how long). TERRACE_SEED=N plays one again.
"""
import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest
import redis

import storm
from conftest import Server, assert_sound
from iofault import Faults
from mariadb import MariaDB
from waiting import wait_until

LONG = bool(os.environ.get("TERRACE_LONG"))
SECONDS = float(os.environ.get("TERRACE_STORM_SECONDS") or (3600 if LONG else 45))
SEED = int(os.environ.get("TERRACE_SEED") or random.randrange(1 << 30))
HANG_SECONDS = 5 if LONG else 60  # an hour has the machine for itself
RECOVERY_SECONDS = 100

# Where calls fail: parts of paths.
PLACES = ("/data/journal/", "/data/engine/", "/data/engine/MANIFEST", ".sst", "/data/flush/", "/data/TERRACE", "/data/",
          "/tiles/sqlite/", "/tiles/kv/", "/landed.db")
CALLS = (("write",), ("sync",), ("write", "sync"), ("open",), ("size",), ("rename",), ("read",))
# Options that may change at any time, to any of these.
OPTIONS = {"hot-memory": ("1mb", "4mb", "64mb"), "durability": ("always", "everysec", "no"),
           "slowlog-log-slower-than": ("0", "10000"), "part-batch": ("2", "1000"),
           "notify-keyspace-events": ("KEA", ""), "timeout": ("0", "300"), "requirepass": ("",)}


def threads_of(pid):
    """Where a process stands, if there is a debugger."""
    if not shutil.which("gdb"):
        return ""
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 14"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout[-12000:]


class World:
    """A server with everything, its sinks, and what may happen to them."""

    def __init__(self, directory, rand):
        self.dir, self.random = directory, rand
        self.faults = Faults(directory)
        self.maria = MariaDB()
        self.maria.ask("CREATE DATABASE storm")
        self.server, self.log, self.durability = None, "", "everysec"
        self.events, self.acked_count = {}, 0
        self.round_events = []
        self.faults_before = []
        self.faults_armed = []  # since the last that were cleared, for who reads a failure
        self.storm = storm.Storm([
            storm.Strings(), storm.Hashes(), storm.Lists(), storm.SortedSets(), storm.Transactions(), storm.Tiles(),
            storm.Files(), storm.Partitions(), storm.Landed("user", self.sqlite_rows),
            storm.Landed("account", self.maria_rows)], HANG_SECONDS, self.where)

    def where(self):
        server = self.server
        return (f"load {os.getloadavg()}, faults {self.faults_armed}, events {self.round_events}\n"
                f"{threads_of(server.process.pid)}\n{server.stderr()[-3000:]}" if server else "")

    def options(self):
        self.durability = self.random.choice(("always", "everysec", "no"))
        columns = ("shape", "columns", "key", "id", "delay", "200")
        return ("--durability", self.durability, "--hot-memory", self.random.choice(("1mb", "4mb", "32mb")),
                "--flush-age", "1s", "--disk-reserve", "0", "--full-reserve", "64mb",
                "--tile-types", "imagery=1", "--tile-interval", "300ms",
                "--tile-sqlite", str(self.dir / "tiles" / "sqlite"), "--tile-kv", str(self.dir / "tiles" / "kv"),
                "--land", "users", "user:*", f"sqlite:{self.dir / 'data' / 'landed.db'}", *columns, "table", "users",
                "--land", "accounts", "account:*", f"{self.maria.url('storm')}&connect-timeout=3",
                *columns, "table", "accounts")

    def start(self):
        self.durability_set = "always"  # by CONFIG SET, since the start
        try:
            self.server = Server(self.dir / "data", *self.options(), prefix=self.faults.prefix())
        except RuntimeError as error:
            raise RuntimeError(f"{error}; faults {self.faults_armed}, events {self.round_events}") from error
        self.storm.port = self.server.port

    def ended(self):
        """Takes over what a server that is gone has said."""
        self.log += self.server.stderr()
        assert_sound(self.log)
        self.server.errors.close()
        self.server = None

    def kill(self):
        self.server.kill()
        self.ended()

    def client(self, **options):
        return self.server.client(socket_timeout=HANG_SECONDS * 4, **options)

    # ---- what happens ----

    def event_kill(self):
        self.kill()
        self.faults.clear()
        self.start()

    def event_term(self):
        self.server.process.send_signal(signal.SIGTERM)
        try:
            self.server.process.wait(RECOVERY_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"SIGTERM did not end it; faults {self.faults_armed}\n{threads_of(self.server.process.pid)}\n"
                        f"{self.server.stderr()[-3000:]}")
        assert self.server.process.returncode >= 0, (self.server.process.returncode, self.where())  # no signal ended it
        self.kill()
        self.faults.clear()
        self.start()

    def event_cut(self):
        """A power cut: of a segment stays what was synced, and any part of the rest."""
        if self.durability != "always" or self.durability_set != "always":
            return
        self.count("power cut")
        self.kill()
        for path in sorted((self.dir / "data" / "journal").iterdir()):
            synced, size = self.faults.synced(path), path.stat().st_size
            if size > synced:
                os.truncate(path, self.random.randint(synced, size))
                with open(path, "r+b") as file:
                    for _ in range(self.random.randrange(3)):
                        file.seek(self.random.randint(synced, max(synced, path.stat().st_size - 1)))
                        if file.tell() < path.stat().st_size:
                            file.write(b"\0")
        self.faults.clear()
        self.start()

    def event_fault(self):
        rule = {"path": self.random.choice(PLACES), "calls": self.random.choice(CALLS),
                "error": self.random.choice((errno.EIO, errno.ENOSPC)), "skip": self.random.choice((0, 0, 1, 5, 20)),
                "times": self.random.choice((1, 3, -1))}
        self.faults_armed.append(rule)
        self.count(f"{errno.errorcode[rule['error']]} {rule['path']}")
        self.faults.arm(**rule)

    def event_fault_then_kill(self):
        self.event_fault()
        self.pause()
        self.event_kill()

    def event_fault_then_term(self):
        self.event_fault()
        self.pause()
        self.event_term()

    def event_fault_at_start(self):
        self.kill()
        self.event_fault()
        try:
            self.start()
        except RuntimeError as error:  # it may refuse to start, with a reason
            assert_sound(str(error.__cause__))
            assert len(str(error.__cause__)) > len("the server did not start: "), error
            self.faults.clear()
            self.start()
        self.faults.clear()

    def event_config(self):
        client = self.client()
        for _ in range(5):
            name = self.random.choice(list(OPTIONS))
            value = self.random.choice(OPTIONS[name])
            if name == "durability" and value != "always":
                self.durability_set = value  # also if nobody hears of it
            try:
                client.config_set(name, value)
            except Exception as error:  # an answer is an answer
                self.storm.told("config", ("-", str(error)))

    def event_reload(self):
        try:
            self.client().execute_command("DEBUG", "RELOAD")
        except Exception as error:
            self.storm.told("reload", ("-", str(error)))

    def event_maria(self):
        self.maria.kill()
        self.pause()
        self.maria.start()

    # ---- rounds ----

    def count(self, name):
        self.events[name] = self.events.get(name, 0) + 1

    def figures(self, number):
        longest, whose = self.storm.longest
        return (f"{number} rounds, {self.acked_count} changes, longest wait {longest:.2f} s ({whose}), "
                f"events {self.events}, errors told {self.storm.errors}")

    def pause(self):
        """Lets the writers work: until one of them, by chance, has been answered some more times, or a moment is over."""
        end = time.monotonic() + self.random.choice((0.2, 0.5, 1.5))
        while time.monotonic() < end and not self.storm.failures:
            with self.storm.changed:
                self.storm.changed.wait(0.02)

    def round(self, number):
        names = [name for name in dir(self) if name.startswith("event_")]
        self.round_events.clear()
        self.storm.begin(self.server.port, SEED + number * 100)
        for name in self.random.choices(names, k=2):
            self.count(name)
            self.round_events.append(name)
            self.pause()
            getattr(self, name)()
        self.pause()
        self.faults.clear()
        self.faults_before, self.faults_armed = self.faults_armed, []
        self.recovered()
        self.acked_count += self.storm.end()
        assert not self.storm.failures, self.storm.failures
        self.storm.check(sample=200)

    def recovered(self):
        """Without faults everybody is served again, without a restart."""
        end = time.monotonic() + RECOVERY_SECONDS
        for writer in self.storm.writers:
            if not self.storm.progress(writer, max(1, end - time.monotonic())):
                pytest.fail(f"{writer.kind.name} is not served any more; ended: {self.server.process.poll()}, "
                            f"armed {self.faults_before}\n{self.where()}")
        wait_until(lambda: self.client().info("tiers")["engine_state"] == "ok", RECOVERY_SECONDS)  # it is tried every 5 s
        assert not self.storm.failures, self.storm.failures

    # ---- after it ----

    def sqlite_rows(self):
        link = sqlite3.connect(self.dir / "data" / "landed.db")
        return link.execute("SELECT id, name, gold FROM users WHERE is_del = 0").fetchall()

    def maria_rows(self):
        return self.maria.ask("SELECT id, name, gold FROM storm.accounts WHERE is_del = 0")

    def landed(self):
        """Sinks hold what the server holds."""
        wait_until(lambda: self.answers("LAND.FLUSH"))
        for kind in self.storm.kinds:
            if isinstance(kind, storm.Landed):
                found = {int(row[0]): (row[1], int(row[2])) for row in kind.rows_of()}
                wanted = {n: (f"name {n}", n) for n, state in kind.items.items() if state == storm.IN}
                assert found == wanted, kind.name

    def answers(self, *words, db=0):
        """Whether it is OK by now: a database may be locked, or be away, for a moment after the storm."""
        try:
            return self.client(db=db).execute_command(*words) == b"OK"
        except redis.RedisError:
            return False

    def finish(self):
        self.storm.check(sample=1 << 30)
        wait_until(lambda: self.answers("TILE.SYNC", db=1))
        self.client().execute_command("DEBUG", "RELOAD")
        self.storm.check(sample=1 << 30)
        self.landed()

    def done(self):
        if self.server:
            self.server.kill()
        self.maria.done()


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, random.Random(SEED))
    yield world
    world.done()


def test_nothing_acknowledged_is_lost_in_a_storm_of_faults(world):
    print(f"TERRACE_SEED={SEED}")
    world.start()
    end, number = time.monotonic() + SECONDS, 0
    while number < 3 or time.monotonic() < end:
        number += 1
        world.round(number)
        if number % 50 == 0:
            print(world.figures(number), flush=True)
    world.finish()
    print(world.figures(number))
