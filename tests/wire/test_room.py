# SPDX-License-Identifier: Apache-2.0
"""Commands and jobs of many commits obey hot-memory from the first commit to the last.

Each test lets one of them change more rows than hot-memory may hold dirty, while the flush stands
still. A writer waits beyond 60 % of hot-memory, who deletes beyond 80 %. When the flush goes on, so
do they.

A row that was never flushed is no longer dirty when it is deleted. So everything that is deleted
here was flushed before, and nobody else deletes what a command writes: both would make room.
"""
import errno
import threading

import pytest
import redis

from fs import FS, flood, swept
from iofault import Faults
from part import Job
from land import NEVER
from waiting import wait_until

MB = 1 << 20
TURNS = 300


class Tight:
    """A server with little memory, whose flush can be held."""

    def __init__(self, start, tmp_path, hot, *args):
        self.hot = hot
        self.faults = Faults(tmp_path)
        self.server = start("--hot-memory", str(hot), *args, prefix=self.faults.prefix())
        self.client = self.server.client(socket_timeout=120)

    def tiers(self):
        return self.client.info("tiers")

    def dirty(self):
        return self.tiers()["hot_dirty_bytes"]

    def begins(self, run):
        """What run() does begins while the flush stands still: none of it makes room."""
        self.faults.hold("/flush/")
        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        return worker

    def goes_on(self, worker):
        self.faults.clear()
        worker.join(120)
        assert not worker.is_alive()

    def waits_for_room(self, run, percent, commit_bytes):
        """run() stops at this part of hot-memory, but for its last commit, and then goes on."""
        limit = self.hot // 100 * percent
        worker = self.begins(run)
        wait_until(lambda: self.dirty() > limit)
        last = same = 0
        while same < TURNS:  # each is a turn, in which another commit could be made
            tiers = self.tiers()
            dirty = tiers["hot_dirty_bytes"]
            assert dirty <= limit + commit_bytes
            same = same + 1 if dirty == last and not tiers["loads_in_flight"] else 0
            last = dirty
        assert worker.is_alive()
        self.goes_on(worker)


@pytest.fixture
def tight(start, tmp_path):
    return lambda *args: Tight(start, tmp_path, *args)


def cool(client):
    client.execute_command("DEBUG", "RELOAD")


def test_allocating_partitions_waits_for_room(tight):
    server = tight(4 * MB)
    job = Job(server.server)
    server.waits_for_room(lambda: job.call("ALLOC", 50_000, "SIZE", 1), 60, 3 * MB)
    assert job.states() == [50_000, 0, 0, 0, 0]


def test_retrying_partitions_waits_for_room(tight):
    server = tight(4 * MB)
    job = Job(server.server)
    count = 20_000
    job.call("ALLOC", count, "SIZE", 1)
    for first in range(1, count, 5000):
        pipe = job.client.pipeline(transaction=False)
        pipe.execute_command("PART.CLAIM", "j", "w", "COUNT", 5000)
        for partition in range(first, first + 5000):
            pipe.execute_command("PART.FAIL", "j", "w", partition, "no")
        pipe.execute()
    cool(job.client)
    server.waits_for_room(lambda: job.call("RETRY"), 60, 2 * MB)
    assert job.states() == [count, 0, 0, 0, 0]


def test_packing_partitions_waits_for_room(tight):
    server = tight(4 * MB, "--part-batch", "10")
    job = Job(server.server)
    job.call("ALLOC", 20_000, "SIZE", 1)
    while job.finish("w", 5000):
        pass
    cool(job.client)
    server.waits_for_room(lambda: job.call("ARCHIVE", "COMPACT"), 60, MB)
    assert job.client.execute_command("PART.ARCHIVE", "j", "STATUS")[7] == 20_000


def test_dropping_tiles_waits_for_room(tight):
    levels = 9
    count = 1 << 2 * levels
    server = tight(MB, "--tile-types", "imagery=1")
    for first in range(0, count, 8192):
        words = []
        for n in range(first, first + 8192):
            key = "".join(str(n >> 2 * level & 3) for level in reversed(range(levels)))
            words += ["0" + key, 0, 0, b"x"]
        server.client.execute_command("TILE.MSET", "imagery", *words)
    cool(server.client)
    other = server.server.client(socket_timeout=120)
    server.waits_for_room(lambda: other.execute_command("TILE.DROP", "imagery", "0"), 80, MB // 5)
    assert server.client.execute_command("TILE.COUNT", "imagery", "0") == 0


def test_removing_a_directory_waits_for_room(tight):
    server = tight(MB)
    fs = FS(server.server)
    fs("MKDIR", "/top")
    flood(server.server, [b"/top/%d" % n for n in range(60_000)])
    cool(fs.client)

    def remove():
        fs("RM", "/top", "RECURSIVE")
        swept(fs)

    server.waits_for_room(remove, 80, MB // 5)


def test_expiring_keys_waits_for_room(tight):
    server = tight(MB)
    client = server.client
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for first in range(0, 60_000, 10_000):
        pipe = client.pipeline(transaction=False)
        for n in range(first, first + 10_000):
            pipe.set(f"key:{n}", "x" * 20, px=1)
        pipe.execute()
    cool(client)
    other = server.server.client()

    def expire():
        other.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        wait_until(lambda: other.dbsize() == 0, seconds=120)

    server.waits_for_room(expire, 80, MB // 5)


FIELDS = 60_000


def heroes(server, sink, *words):
    """A rule that comes when its keys are there already; its first pass is over."""
    for n in range(FIELDS // 1000):
        server.client.hset(f"slug-data:{{game:eu:hero:{n}}}", mapping={f"f{i}": "v" for i in range(1000)})
    server.client.execute_command("LAND.RULE", "ADD", "heroes", "slug-data:{*}", sink.url, *words)
    assert server.client.execute_command("LAND.FLUSH", "heroes") == b"OK"
    cool(server.client)
    other = server.server.client(socket_timeout=120)
    return lambda: other.execute_command("LAND.SYNC", "heroes")


def landed(server, sink):
    assert server.client.execute_command("LAND.FLUSH", "heroes") == b"OK"
    return sink.ask("SELECT COUNT(*) FROM game_eu")[0][0]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_deletes_end_in_an_error_while_the_flush_fails(tight, error):
    """Nobody knows when it will work again: who deletes does not wait for it, and memory does not grow with it."""
    server = tight(MB, "--disk-reserve", "0")
    client = server.client
    count = 60_000
    for first in range(0, count, 10_000):
        client.mset({f"key:{n}": "x" * 20 for n in range(first, first + 10_000)})
    cool(client)
    server.faults.arm("/flush/", error=error)
    removed, refused = set(), None
    for first in range(0, count, 100):
        try:
            assert client.delete(*(f"key:{n}" for n in range(first, first + 100))) == 100
            removed.add(first)
        except redis.ResponseError as said:
            refused = str(said)
        assert server.dirty() <= MB // 100 * 80 + MB // 10
    assert "memory is full of changes that cannot be flushed" in refused
    assert client.dbsize() == count - 100 * len(removed)
    server.faults.clear()
    wait_until(lambda: deleted(client, "key:59999"))
    for first in range(0, count, 1000):
        assert client.exists(f"key:{first}") == (first not in removed)


def deleted(client, key):
    try:
        return client.delete(key) >= 0
    except redis.ResponseError:
        return False


def test_marking_everything_for_landing_waits_for_room(tight, sqlite_sink):
    """With this batch the lander sleeps until it is asked: else it would remove marks, and make room."""
    server = tight(MB, "--land-dir", "/")
    sync = heroes(server, sqlite_sink, "delay", NEVER, "batch", 10_000)
    server.waits_for_room(sync, 60, MB // 2)
    assert landed(server, sqlite_sink) == FIELDS


def test_landing_beside_marking_obeys_hot_memory(tight, sqlite_sink):
    """The lander removes marks while others are made, so that both may end with the flush held; or not."""
    server = tight(MB, "--land-dir", "/")
    worker = server.begins(heroes(server, sqlite_sink, "delay", 1))
    for _ in range(TURNS):
        assert server.dirty() <= server.hot // 100 * 80 + MB // 5
    server.goes_on(worker)
    assert landed(server, sqlite_sink) == FIELDS
