# SPDX-License-Identifier: Apache-2.0
"""terrace bench: what it prints, what it sends, and what it says when the server refuses."""
import re
import selectors
import socket
import subprocess
import threading

import pytest

from conftest import TERRACE, terrace

LINE = re.compile(r"(\w+) +(\d+) requests/s +p50 (\d+\.\d{3}) ms +p99 (\d+\.\d{3}) ms +"
                  r"p99\.9 (\d+\.\d{3}) ms")


def bench(server, *args):
    """(name, rate, p50, p99, p99.9) of every line."""
    text = terrace("bench", "-p", server.port, *args)
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), text
    return [(m[1], int(m[2]), *map(float, m.groups()[2:])) for m in found]


def test_every_test_prints_a_line(server):
    rows = bench(server, "-n", 300, "-c", 7, "-P", 5, "-r", 100)
    assert [row[0] for row in rows] == \
        "ping set get incr lpush rpush lpop rpop lrange_100 sadd spop hset hget zadd zpopmin " \
        "mset mixed".split()
    for _, rate, p50, p99, p999 in rows:
        assert rate > 0 and 0 < p50 <= p99 <= p999
    assert all(key.startswith(b"bench:") for key in server.client().scan_iter())


def test_what_is_asked_for_is_sent(server):
    client = server.client()
    before = client.info("stats")["total_commands_processed"]
    assert [row[0] for row in bench(server, "-n", 1003, "-c", 4, "-P", 10, "-d", 7, "-r", 50,
                                    "set,INCR")] == ["set", "incr"]
    assert client.info("stats")["total_commands_processed"] - before == 2 * 1003 + 1
    keys = list(client.scan_iter("bench:key:*"))
    assert 1 < len(keys) <= 50
    assert {client.strlen(key) for key in keys} == {7}
    assert sum(int(client.get(key)) for key in client.scan_iter("bench:counter:*")) == 1003


def test_more_connections_than_requests(server):
    assert len(bench(server, "-n", 1, "-c", 20, "get")) == 1


def test_values_larger_than_any_buffer(server):
    bench(server, "-n", 40, "-c", 3, "-P", 4, "-d", 1000000, "-r", 3, "set,get")
    assert server.client().strlen("bench:key:000000000001") == 1000000


def test_error_replies_are_told(server):
    server.client().set("bench:list", "no list")
    text = terrace("bench", "-p", server.port, "-n", 100, "lpush", code=1)
    assert text == ("terrace: lpush: 100 of 100 replies are errors: WRONGTYPE Operation against a "
                    "key holding the wrong kind of value\n")


def test_a_server_that_wants_a_password(start):
    server = start("--requirepass", "x")
    assert "NOAUTH" in terrace("bench", "-p", server.port, "-n", 10, "-c", 1, "ping", code=1)


def test_a_server_with_too_few_places(start):
    server = start("--maxclients", "3")
    text = terrace("bench", "-p", server.port, "-n", 10000, "-c", 10, "-P", 1, "ping", code=1)
    assert "ping: the server closed the connection" in text


@pytest.mark.parametrize("args, text", [
    (["-n", "0"], "-n takes a number from 1 to"),
    (["-c", "x"], "-c takes a number from 1 to 10000, not \"x\""),
    (["-c", "10001"], "-c takes a number"),
    (["-P", "-1"], "-P takes a number"),
    (["-n"], "-n needs a value"),
    (["-z", "1"], "unknown option \"-z\""),
    (["set,nope"], "test \"nope\" is unknown"),
    (["set", "get"], "tests are one word"),
])
def test_wrong_options_are_named(args, text):
    assert text in terrace("bench", *args, code=1)


class Counting(threading.Thread):
    """Answers PING, and counts what every connection sends before it waits."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.first = {}

    def run(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.listener, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self.listener:
                        ready.register(self.listener.accept()[0], selectors.EVENT_READ)
                        continue
                    count = key.fileobj.recv(65536).count(b"PING")
                    self.first.setdefault(key.fd, count)
                    if count == 0:
                        ready.unregister(key.fileobj)
                    key.fileobj.send(b"+PONG\r\n" * count)


@pytest.mark.parametrize("args, connections, batch", [
    (["-n", 1000], 50, 1), (["-n", 100], 5, 1), (["-n", 5], 1, 1), (["-n", 20000], 50, 16),
    (["-n", 1000, "-P", 16], 50, 16), (["-n", 1000, "-c", 2], 2, 16)])
def test_few_requests_are_not_all_under_way_at_once(args, connections, batch):
    server = Counting()
    server.start()
    terrace("bench", "-p", server.port, *args, "ping")
    assert list(server.first.values()) == [batch] * connections


def test_help_has_it():
    text = subprocess.run([TERRACE, "help"], capture_output=True, text=True, timeout=100).stdout
    assert "terrace bench [the same options] [-c 50]" in text and " zpopmin " in text
