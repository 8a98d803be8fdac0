# SPDX-License-Identifier: Apache-2.0
"""File calls that fail under a running server (iofault.py): what was acknowledged stays, the rest is an error."""
import errno
import http.client
import signal

import pytest
import redis

from diff.places import free_port
from iofault import Faults
from waiting import wait_until


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path)


def until_set(client, key, value):
    """SET again and again: the server is read-only until it has tried the journal again by itself."""
    def is_set():
        try:
            return client.set(key, value)
        except (redis.ResponseError, redis.ConnectionError):
            return False

    return wait_until(is_set)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_journal_write_that_fails_is_an_error_and_leaves_nothing(start, faults, error):
    server = start("--durability", "always", prefix=faults.prefix())
    client = server.client()
    assert client.set("before", "1")
    rule = faults.arm(path="/journal/", calls=("write", "size"), error=error)
    with pytest.raises(redis.ResponseError):
        client.set("during", "1")
    assert faults.failed(rule) > 0
    assert client.get("during") is None
    faults.clear()
    until_set(client, "after", "1")
    server.kill()
    client = start(prefix=faults.prefix()).client()
    assert client.mget("before", "during", "after") == [b"1", None, b"1"]


def test_a_journal_sync_that_fails_once_loses_nothing_acknowledged(start, faults):
    server = start("--durability", "always", prefix=faults.prefix())
    client = server.client()
    acked = []
    rule = faults.arm(path="/journal/", calls=("sync",), skip=3, times=1)
    for n in range(200):
        try:
            client.set(f"k{n}", n)
            acked.append(n)
        except redis.ResponseError:
            pass
    assert faults.failed(rule) == 1
    server.kill()
    client = start(prefix=faults.prefix()).client()
    assert [n for n in acked if client.get(f"k{n}") != b"%d" % n] == []


def test_nobody_waits_for_a_flush_while_the_journal_cannot_be_written(start, faults):
    server = start(prefix=faults.prefix())
    client = server.client(socket_timeout=100)
    client.set("before", "1")
    faults.arm(path="/journal/")
    with pytest.raises(redis.ResponseError):
        client.set("during", "1")
    for command in (("SAVE",), ("DEBUG", "RELOAD")):
        with pytest.raises(redis.ResponseError, match="journal cannot be written"):
            client.execute_command(*command)


def test_sigterm_ends_at_once_while_the_journal_cannot_be_written(start, faults):
    server = start(prefix=faults.prefix())
    client = server.client()
    client.set("before", "1")
    faults.arm(path="/journal/")
    with pytest.raises(redis.ResponseError):
        client.set("during", "1")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)  # as long as it would wait, without the fault, for a flush
    faults.clear()
    assert start().client().get("before") == b"1"


def test_nobody_waits_for_ever_for_a_journal_that_cannot_be_synced(start, faults):
    """Whether the change stays is not known: no reply can say so, and the connection ends as in a crash."""
    server = start("--durability", "always", prefix=faults.prefix())
    client = server.client(socket_timeout=100)
    client.set("before", "1")
    faults.arm(path="/journal/", calls=("sync",))
    with pytest.raises(redis.ConnectionError):
        client.set("during", "1")
    wait_until(lambda: "clients are closed without their replies" in server.stderr())
    faults.clear()
    until_set(client, "after", "1")
    assert client.mget("before", "during", "after") == [b"1", b"1", b"1"]


def test_a_request_over_http_is_told_that_the_journal_cannot_be_synced(start, faults):
    """A tile may be one whose write is not durable: 503 when clients are closed, and while that lasts."""
    port = free_port()
    server = start("--durability", "always", "--http-port", str(port), "--tile-types", "imagery=1",
                   prefix=faults.prefix())
    client = server.client(socket_timeout=100)
    client.execute_command("TILE.SET", "imagery", "30", b"before")
    assert fetch(port, "/tiles/imagery/30") == (200, b"before")
    faults.arm(path="/journal/", calls=("sync",))
    with pytest.raises(redis.ConnectionError):
        client.execute_command("TILE.SET", "imagery", "30", b"during")
    for _ in range(2):
        status, text = fetch(port, "/tiles/imagery/30")
        assert status == 503 and b"the journal cannot be written" in text
    status, text = fetch(port, "/metrics")
    assert status == 200 and b"journal" in text
    faults.clear()
    until_set(client, "after", "1")
    assert fetch(port, "/tiles/imagery/30") == (200, b"during")


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body


@pytest.mark.parametrize("durability", ["everysec", "always"])
def test_a_flush_of_landing_is_told_that_the_journal_cannot_be_synced(start, faults, tmp_path, durability):
    server = start("--durability", durability, "--land", "users", "user:*", f"sqlite:{tmp_path}/data/users.db", "shape", "columns", "table", "users",
                   "key", "id", "delay", "600000", prefix=faults.prefix())
    client = server.client(socket_timeout=100)
    client.execute_command("LAND.FLUSH")
    faults.arm(path="/journal/", calls=("sync",))
    if durability == "always":
        with pytest.raises(redis.ConnectionError):
            client.hset("user:1", "name", "Noy")
    else:
        client.hset("user:1", "name", "Noy")
    with pytest.raises((redis.ResponseError, redis.ConnectionError)):  # LANDDOWN, or closed: no time-out
        client.execute_command("LAND.FLUSH")
