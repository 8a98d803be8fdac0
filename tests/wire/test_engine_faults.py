# SPDX-License-Identifier: Apache-2.0
"""The engine's files fail under a running server (iofault.py): it is opened again, nothing waits for ever."""
import errno
import os
import random
import shutil
import subprocess
import time

import pytest
import redis

from waiting import wait_until as until
from iofault import Faults

ROWS = 40000
STEP = 5  # SETs that are sent at once
# Only compactions write so much at once into the engine's tables: units are written elsewhere, and get their numbers here.
COMPACTION = {"path": "/engine/0", "calls": ("write",), "bytes_min": 4096}


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path)


@pytest.fixture
def server(start, faults):
    return start("--hot-memory", "8mb", "--disk-reserve", "0", prefix=faults.prefix())


def value(number):
    return random.Random(number).randbytes(1000)  # nothing that compresses


def fill(client, numbers, after_error=lambda: None, stop=lambda: False):
    """SETs; returns the numbers that were acknowledged and the errors. Nothing waits longer than the client does."""
    acked, errors = [], []
    for first in range(0, len(numbers), STEP):
        pipe = client.pipeline(transaction=False)
        for number in numbers[first:first + STEP]:
            pipe.set(f"k{number}", value(number))
        replies = pipe.execute(raise_on_error=False)
        refused = [str(reply) for reply in replies if isinstance(reply, redis.ResponseError)]
        acked += [number for number, reply in zip(numbers[first:], replies) if reply is True]
        errors += refused
        if refused:
            after_error()
        if stop():
            break
    return acked, errors


def flushes_again(client):
    until(lambda: client.info("tiers")["flush_reason"] == "")


def lost(client, numbers):
    found = []
    for first in range(0, len(numbers), 100):
        some = numbers[first:first + 100]
        got = client.mget([f"k{number}" for number in some])
        found += [number for number, data in zip(some, got) if data != value(number)]
    return found


def engine(client):
    info = client.info("tiers")
    return info["engine_state"], info["engine_reopens"], info["flush_reason"]


@pytest.mark.parametrize("rule", [{**COMPACTION, "skip": 2}, {"path": "/engine/MANIFEST", "calls": ("sync",), "skip": 12},
                                  {"path": "/engine/MANIFEST", "calls": ("write",), "skip": 12}],
                         ids=["compaction", "manifest sync", "manifest write"])
def test_one_error_in_the_engine_s_files_needs_no_restart(start, server, faults, rule):
    client = server.client(socket_timeout=100)
    rule = faults.arm(**rule, times=1)
    acked, errors = fill(client, range(ROWS), after_error=lambda: flushes_again(client))
    until(lambda: faults.failed(rule) == 1)
    assert len(acked) > ROWS * 0.9
    for error in errors:
        assert "the flush that makes room fails" in error
    until(lambda: engine(client) == ("ok", 1, ""))
    assert client.save()
    assert lost(client, acked[::17]) == []
    until(lambda: server.stderr().count("the engine had an error and was opened again") == 1)
    until(lambda: server.stderr().count("flushing works again") == server.stderr().count("could not flush, trying"))
    server.kill()
    client = start(prefix=faults.prefix()).client()
    assert lost(client, acked[::7]) == []


def test_writers_get_an_error_and_sigterm_ends_while_the_engine_cannot_be_written(start, server, faults):
    client = server.client(socket_timeout=100)
    acked, _ = fill(client, range(8000))
    assert client.save()
    rule = faults.arm(path="/engine/MANIFEST", calls=("write", "sync"))
    more, _ = fill(client, range(8000, ROWS), stop=lambda: faults.failed(rule) > 3)
    acked += more
    until(lambda: faults.failed(rule) > 3)
    until(lambda: client.info("tiers")["flush_reason"] != "")
    with pytest.raises(redis.ResponseError, match="could not flush"):
        client.save()
    until(lambda: fill(client, range(ROWS, ROWS + 1))[1] != [])
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 30  # that is how long it waits for a flush that works
    faults.clear()
    client = start(prefix=faults.prefix()).client()
    assert lost(client, acked[::7]) == []


def test_an_error_while_the_engine_is_opened_again_is_survived(start, server, faults):
    client = server.client(socket_timeout=100)
    acked, _ = fill(client, range(8000))
    assert client.save()
    hot = client.set("hot", "1")
    opening = faults.arm(path="/engine/CURRENT", calls=("open",))
    faults.arm(path="/engine/MANIFEST", calls=("write", "sync"))
    more, _ = fill(client, range(8000, ROWS), stop=lambda: faults.failed(opening) > 2)
    acked += more
    until(lambda: engine(client)[0] == "closed")
    assert hot and client.get("hot") == b"1"
    cold = [number for number in range(50) if raised(client, number)]
    assert cold  # a row that is not in memory is an error, never "no such key"
    until(lambda: "could not be opened again, trying on" in server.stderr())
    faults.clear()
    until(lambda: engine(client) == ("ok", 1, ""))
    assert client.save()
    assert lost(client, acked[::17]) == []
    until(lambda: "was opened again (" in server.stderr())
    assert server.stderr().count("could not be opened again, trying on") == 1
    assert server.stderr().count("was opened again (") == 1


def test_compactions_without_disk_make_no_writer_wait_for_ever(start, server, faults):
    client = server.client(socket_timeout=100)
    acked, _ = fill(client, range(8000))
    rule = faults.arm(**COMPACTION, error=errno.ENOSPC)
    more, _ = fill(client, range(8000, 40000))  # many times what fits below the brake
    acked += more
    until(lambda: faults.failed(rule) > 0)
    assert client.delete(*(f"k{number}" for number in acked[:1000])) == 1000
    assert engine(client)[0] == "ok"  # for want of disk it is not closed: what is cold can be read
    assert lost(client, acked[1000::97]) == []
    server.kill()
    faults.clear()
    client = start(prefix=faults.prefix()).client()
    assert lost(client, acked[1000::17]) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 MB. Named before `start`: it can be unmounted when the servers are gone."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", path], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.check_call(["umount", path])


def test_a_full_disk_is_an_error_until_there_is_room(small_disk, start):
    server = start("--hot-memory", "8mb", "--disk-reserve", "0", "--full-reserve", "0", name="disk/data")
    client = server.client(socket_timeout=100)
    acked, errors = [], []
    for first in range(0, 10**6, 500):
        piece = fill(client, range(first, first + 500))
        acked += piece[0]
        errors += piece[1]
        if is_full(client, errors):
            break
    # For a moment after each write that the journal had no room for, it is the first of the two that is told.
    assert errors[-1] in ("disk reserve reached; only deleting commands run",
                          "the disk is full and memory too; only deleting commands run")
    until(lambda: "could not flush, trying again" in server.stderr())
    assert engine(client)[0] == "ok"
    assert lost(client, acked[::97]) == []  # most of them are cold; deletes need a reserve: test_full_disk.py
    subprocess.check_call(["mount", "-o", "remount,size=600m", small_disk])
    until(lambda: fill(client, [10**6])[0] == [10**6])
    flushes_again(client)
    assert client.save()
    assert lost(client, acked[::97]) == []
    until(lambda: server.stderr().count("flushing works again") == server.stderr().count("could not flush, trying"))


def is_full(client, errors):
    """The disk is full, and not for a moment."""
    info = client.info("tiers")
    return errors != [] and info["flush_reason"] != "" and info["flush_failures"] > 5


def raised(client, number):
    try:
        assert client.get(f"k{number}") == value(number)
        return False
    except redis.ResponseError as error:
        assert "the engine is closed" in str(error)
        return True


@pytest.mark.parametrize("skip", (1, 3, 5, 7, 8, 11))
def test_a_flush_whose_manifest_could_not_be_synced_does_not_stop_the_next_start(start, server, faults, skip):
    """RocksDB removes the tables of a unit whose record it could not sync; the record may be on disk all the same."""
    client = server.client(socket_timeout=100)
    rule = faults.arm(path="/engine/MANIFEST", calls=("sync",), skip=skip)
    acked, _ = fill(client, range(ROWS), stop=lambda: faults.failed(rule) > 0)
    assert faults.failed(rule) > 0
    until(lambda: "could not flush, trying again" in server.stderr())
    server.kill()
    faults.clear()
    client = start("--hot-memory", "8mb", "--disk-reserve", "0", name="data").client(socket_timeout=100)
    assert lost(client, acked) == []


@pytest.mark.parametrize("skip", range(8, 14))
def test_a_manifest_without_disk_for_a_moment_aborts_nothing(start, server, faults, skip):
    """RocksDB's own recovery from it left the database half stopped: the next unit was ingested as file number 0."""
    client = server.client(socket_timeout=100)
    rule = faults.arm(path="/engine/MANIFEST", calls=("write",), error=errno.ENOSPC, skip=skip, times=1)
    acked, _ = fill(client, range(ROWS))
    assert faults.failed(rule) == 1
    flushes_again(client)
    assert client.save()
    assert not (server.dir / "engine" / "000000.sst").exists()
    server.kill()
    client = start(prefix=faults.prefix()).client()
    assert lost(client, acked[::7]) == []


def test_no_text_log_of_the_engine_can_abort_the_server(start, faults):
    """RocksDB's LOG: after one append that failed, the next one was an assertion of the library."""
    faults.arm("/engine/LOG", ("write",))
    server = start("--hot-memory", "1mb", "--disk-reserve", "0", prefix=faults.prefix())
    assert len(fill(server.client(), range(2000))[0]) == 2000
    flushes_again(server.client())
    assert list((server.dir / "engine").glob("LOG*")) == []


def test_starts_leave_no_logs_of_the_engine_behind(start):
    for _ in range(3):
        server = start()
        server.client().set("k", "v")
        server.kill()
        assert len(list((server.dir / "engine").glob("*.log"))) == 1


def stored(directory):
    """Every file below it and what it holds; RocksDB begins a new log of its own, which says nothing, at any opening."""
    return {path: path.read_bytes() for path in sorted(directory.rglob("*"))
            if path.is_file() and path.suffix != ".log"}


def test_a_start_without_a_table_that_the_disk_has_lost_is_refused_and_changes_nothing(start, tmp_path):
    server = start("--hot-memory", "8mb")
    client = server.client()
    acked = []
    for first in range(0, 12000, 2000):
        acked += fill(client, range(first, first + 2000))[0]
        assert client.save()
    acked += fill(client, range(12000, 12100))[0]
    server.kill()
    tables = [path.name for path in stored(server.dir) if path.suffix == ".sst"]
    refused_count = 0
    for number, table in enumerate(tables):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(server.dir, copy)
        (copy / "engine" / table).unlink()
        before = stored(copy)
        try:
            other = start("--hot-memory", "8mb", name=copy.name)
        except RuntimeError as error:
            refused_count += 1
            assert table in str(error) and "nothing was changed: put it back" in str(error)
            assert "terrace repair" in str(error)
            assert stored(copy) == before
            continue
        assert lost(other.client(), acked) == []  # of a compaction whose sources were still there
        other.kill()
    assert refused_count > 0


def test_a_manifest_that_the_engine_has_removed_after_an_error_is_got_back(start):
    """RocksDB 7.8 may take a manifest that it could not write for its own, and the one that CURRENT names for an old one."""
    server = start("--hot-memory", "8mb")
    client = server.client()
    acked = []
    for first in range(0, 4000, 1000):
        acked += fill(client, range(first, first + 1000))[0]
        assert client.save()
    server.kill()
    engine_dir = server.dir / "engine"
    (engine_dir / (engine_dir / "CURRENT").read_text().strip()).unlink()
    for _ in range(2):
        server = start("--hot-memory", "8mb")
        assert lost(server.client(), acked) == []
        server.kill()
    assert len(list(engine_dir.glob("kept.*"))) == 1
