# SPDX-License-Identifier: Apache-2.0
"""A disk without a byte left: the server starts on it, reads, deletes, and what is deleted comes back as room.

Each file system is mounted for the test, 200 MB of it.
"""
import os
import random
import subprocess

import pytest
import redis

from conftest import start_refused
from waiting import wait_until as until

MB = 1 << 20
VALUE_BYTES = 1000
STEP = 200
OPTIONS = ("--hot-memory", "8mb", "--disk-reserve", "0", "--full-reserve", "64mb")
FULL = ("no space left", "No space left", "disk is full", "disk reserve")


# Room comes back when compactions are through: minutes on a busy machine.
long = pytest.mark.skipif(not os.environ.get("TERRACE_LONG"), reason="only by make test-long")


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request, tmp_path):
    """Named before `start`: it can be unmounted when the servers are gone."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    if request.param == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", path]
    else:
        image = tmp_path / "image"
        with open(image, "wb") as file:
            file.truncate(200 * MB)
        made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"mkfs.ext4 failed: {made.stderr.strip()}")
        mount = ["mount", "-o", "loop", image, path]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.check_call(["umount", path])


def value(number):
    return random.Random(number).randbytes(VALUE_BYTES)  # nothing that compresses


def put(client, first):
    """One step of SETs; the numbers that were acknowledged, and the last error."""
    pipe = client.pipeline(transaction=False)
    for number in range(first, first + STEP):
        pipe.set(f"k{number}", value(number))
    acked, error = set(), None
    for number, reply in enumerate(pipe.execute(raise_on_error=False), first):
        if isinstance(reply, Exception):
            error = str(reply)
        else:
            acked.add(number)
    return acked, error


def fill(client, first=0):
    """Until the disk is full; all that was acknowledged."""
    acked, error = set(), None
    while not error:
        some, error = put(client, first)
        acked |= some
        first += STEP
    assert any(word in error for word in FULL), error
    return acked


def fill_rest(disk):
    """Somebody else takes what is left, to the last byte. Returns the file."""
    other = disk / "other"
    with open(other, "ab", buffering=0) as file:
        for size in (MB, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return other


def free_bytes(disk):
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def lost(client, numbers):
    numbers = sorted(numbers)
    found = []
    for at in range(0, len(numbers), 500):
        part = numbers[at:at + 500]
        got = client.mget([f"k{number}" for number in part])
        found += [number for number, data in zip(part, got) if data != value(number)]
    return found


def delete(client, numbers):
    """Deletions may have to wait for one another's flush, never to be refused."""
    numbers = sorted(numbers)
    for at in range(0, len(numbers), 500):
        part = numbers[at:at + 500]
        assert client.delete(*(f"k{number}" for number in part)) == len(part)


def put_all(client, first, count):
    """Writers are refused until what was deleted has come back as room."""
    for at in range(first, first + count, STEP):
        until(lambda at=at: put(client, at)[1] is None, 120)
    return set(range(first, first + count))


def full_and_started(disk, start):
    """A server that was killed on a full disk, of which somebody else took the rest, and started again."""
    server = start(*OPTIONS, name="disk/data")
    client = server.client(socket_timeout=100)
    persistence = client.info("persistence")
    assert persistence["full_reserve_bytes"] == persistence["full_reserve_bytes_max"] > 8 * MB
    acked = fill(client)
    server.kill()
    fill_rest(disk)
    assert free_bytes(disk) == 0
    return start(*OPTIONS, name="disk/data"), acked


def test_a_full_disk_starts_reads_and_deletes(disk, start):
    server, acked = full_and_started(disk, start)
    client = server.client(socket_timeout=100)
    assert client.dbsize() == len(acked)
    assert lost(client, acked) == []
    gone = {number for number in acked if number % 10 == 0}
    delete(client, gone)
    server.kill()
    client = start(*OPTIONS, name="disk/data").client(socket_timeout=100)
    assert client.dbsize() == len(acked - gone)
    assert lost(client, acked - gone) == []


@long
def test_a_full_disk_gets_its_room_back_by_deletes(disk, start):
    server, acked = full_and_started(disk, start)
    client = server.client(socket_timeout=100)
    gone = {number for number in acked if number % 2}
    delete(client, gone)
    more = put_all(client, 10**6, len(gone) // 2 // STEP * STEP)  # far more than was free
    assert lost(client, more | acked - gone) == []
    server.kill()

    client = start(*OPTIONS, name="disk/data").client(socket_timeout=100)
    assert client.dbsize() == len(more) + len(acked - gone)
    assert lost(client, more | acked - gone) == []


@long
def test_a_full_disk_under_a_running_server_gets_its_room_back_by_deletes(disk, start):
    server = start(*OPTIONS, name="disk/data")
    client = server.client(socket_timeout=100)
    acked = put_all(client, 0, 60_000)
    fill_rest(disk)
    acked |= fill(client, 60_000)
    assert lost(client, sorted(acked)[::50]) == []
    gone = {number for number in acked if number % 3}
    delete(client, gone)
    more = put_all(client, 10**6, 20_000)
    assert server.stop() == 0
    client = start(*OPTIONS, name="disk/data").client(socket_timeout=100)
    assert client.dbsize() == len(more) + len(acked - gone)
    assert lost(client, more | acked - gone) == []


@long
def test_deletes_make_room_though_another_program_took_what_was_given_at_a_kill(disk, start):
    server, acked = full_and_started(disk, start)
    client = server.client(socket_timeout=60)
    gone = {number for number in acked if number % 10}
    delete(client, gone)
    server.kill()  # what it had given of its reserve is free now
    fill_rest(disk)
    client = start(*OPTIONS, name="disk/data").client(socket_timeout=60)
    delete(client, {number for number in acked - gone if number % 20})
    gone |= {number for number in acked if number % 20}
    more = put_all(client, 10**6, 20_000)
    assert lost(client, more | acked - gone) == []


def test_a_full_disk_is_started_on_again_and_again(disk, start):
    server = start(*OPTIONS, name="disk/data")
    acked = fill(server.client(socket_timeout=100))
    server.kill()
    fill_rest(disk)
    for number in range(5):
        server.kill()
        server = start(*OPTIONS, name="disk/data")
        client = server.client(socket_timeout=100)
        assert client.delete(f"k{number}") == 1
        assert lost(client, sorted(acked)[10::100]) == []


def test_without_a_reserve_a_start_on_a_full_disk_says_what_is_missing(disk, start):
    server = start(*OPTIONS, "--full-reserve", "0", name="disk/data")
    client = server.client()
    client.set("k", "v")
    assert client.info("persistence")["full_reserve_bytes_max"] == 0
    server.kill()
    other = fill_rest(disk)
    said = start_refused(disk / "data", *OPTIONS, "--full-reserve", "0")
    assert "bytes free" in said and "make room" in said
    other.unlink()
    assert start(*OPTIONS, name="disk/data").client().get("k") == b"v"
