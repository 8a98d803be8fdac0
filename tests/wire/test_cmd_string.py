# SPDX-License-Identifier: Apache-2.0
"""The string commands: every option, every error, in the order Redis checks them."""

import pytest
import redis

from diff.resp import Connection
from waiting import wait_until

OVER = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
NOT_INT = "ERR value is not an integer or out of range"
NOT_FLOAT = "ERR value is not a valid float"
SYNTAX = "ERR syntax error"
WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
FUTURE = 4102444800

class Left:
    """A time to live of so many seconds, some of which are over by now."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __eq__(self, told):
        return self.seconds / 2 < told <= self.seconds


# Lists of (command, reply); a command is split at blanks unless it is a tuple. Statuses and errors
# are text, bulks are bytes.
SCRIPTS = {
    "get and set": [
        ("GET k", None),
        ("SET k v", "OK"),
        ("GET k", b"v"),
        (("SET", "k", ""), "OK"),
        ("GET k", b""),
        ("STRLEN k", 0),
        ("STRLEN none", 0),
        ("GETSET k new", b""),
        ("GETSET n new", None),
        ("SETNX k v", 0),
        ("SETNX m v", 1),
        ("GETDEL k", b"new"),
        ("GETDEL k", None),
        ("GET k", None),
    ],
    "set with conditions": [
        ("SET k v XX", None),
        ("SET k v NX", "OK"),
        ("SET k w NX", None),
        ("SET k w XX", "OK"),
        ("SET k x NX GET", b"w"),
        ("GET k", b"w"),
        ("SET k x GET", b"w"),
        ("SET none x XX GET", None),
        ("GET none", None),
        ("SET none x GET", None),
        ("GET none", b"x"),
        ("SET k v NX XX", SYNTAX),
        ("SET k v XX NX", SYNTAX),
        ("SET k v FOO", SYNTAX),
        ("SET k v PERSIST", SYNTAX),
        ("SET k v nx nx", None),
    ],
    "set with deadlines": [
        ("SET k v EX 100", "OK"),
        ("TTL k", Left(100)),
        ("SET k v KEEPTTL", "OK"),
        ("TTL k", Left(100)),
        ("SET k v", "OK"),
        ("TTL k", -1),
        ("SET k v PX 5000 PX 90000", "OK"),
        ("TTL k", Left(90)),
        (f"SET k v EXAT {FUTURE}", "OK"),
        ("EXPIRETIME k", FUTURE),
        (f"SET k v PXAT {FUTURE * 1000 + 5}", "OK"),
        ("PEXPIRETIME k", FUTURE * 1000 + 5),
        ("SETEX k 70 w", "OK"),
        ("TTL k", Left(70)),
        ("PSETEX k 60000 w", "OK"),
        ("TTL k", Left(60)),
        ("INCRBYFLOAT none 1", b"1"),
        ("SET k v EXAT 1", "OK"),
        ("GET k", None),
        ("EXISTS k", 0),
        ("SET k v KEEPTTL", "OK"),
        ("TTL k", -1),
        ("SETRANGE k 1 x", 2),
        ("TTL k", -1),
    ],
    "deadlines that are refused": [
        ("SET k v EX", SYNTAX),
        ("SET k v EX a", NOT_INT),
        ("SET k v EX 0", "ERR invalid expire time in 'set' command"),
        ("SET k v PX -1", "ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775807", "ERR invalid expire time in 'set' command"),
        ("SET k v PX 9223372036854775807", "ERR invalid expire time in 'set' command"),
        ("SET k v EX 10 PX 10", SYNTAX),
        ("SET k v EX 10 KEEPTTL", SYNTAX),
        ("SET k v KEEPTTL EX 10", SYNTAX),
        ("SET k v EXAT 10 PXAT 10", SYNTAX),
        ("SETEX k 0 v", "ERR invalid expire time in 'setex' command"),
        ("SETEX k a v", NOT_INT),
        ("PSETEX k -5 v", "ERR invalid expire time in 'psetex' command"),
        ("EXISTS k", 0),
        ("SET k v EX 0 NX", "ERR invalid expire time in 'set' command"),
    ],
    "getex": [
        ("GETEX k", None),
        ("GETEX k EX", SYNTAX),
        ("GETEX k EX foo", None),
        ("SET k v", "OK"),
        ("GETEX k EX foo", NOT_INT),
        ("GETEX k EX 0", "ERR invalid expire time in 'getex' command"),
        ("GETEX k PERSIST", b"v"),
        ("GETEX k EX 100", b"v"),
        ("TTL k", Left(100)),
        ("GETEX k", b"v"),
        ("TTL k", Left(100)),
        ("GETEX k PERSIST", b"v"),
        ("TTL k", -1),
        (f"GETEX k PXAT {FUTURE * 1000}", b"v"),
        ("EXPIRETIME k", FUTURE),
        ("GETEX k EX 10 PERSIST", SYNTAX),
        ("GETEX k KEEPTTL", SYNTAX),
        ("GETEX k NX", SYNTAX),
        ("GETEX k PXAT 1", b"v"),
        ("EXISTS k", 0),
    ],
    "many keys": [
        ("MSET a 1 b 2 a 3", "OK"),
        ("MGET a none b a", [b"3", None, b"2", b"3"]),
        ("MSETNX c 1 a 1", 0),
        ("MGET c a", [None, b"3"]),
        ("MSETNX c 1 d 2 c 5", 1),
        ("MGET c d", [b"5", b"2"]),
        ("MSET a", "ERR wrong number of arguments for 'mset' command"),
        ("MSET a 1 b", "ERR wrong number of arguments for 'mset' command"),
        ("MSETNX a 1 b", "ERR wrong number of arguments for 'msetnx' command"),
    ],
    "numbers": [
        ("INCR n", 1),
        ("INCRBY n 41", 42),
        ("DECR n", 41),
        ("DECRBY n 100", -59),
        ("GET n", b"-59"),
        ("INCRBY n a", NOT_INT),
        ("INCRBY n 01", NOT_INT),
        ("DECRBY n -9223372036854775808", "ERR decrement would overflow"),
        ("SET n 9223372036854775807", "OK"),
        ("INCR n", "ERR increment or decrement would overflow"),
        ("DECRBY n -1", "ERR increment or decrement would overflow"),
        (("SET", "n", " 1"), "OK"),
        ("INCR n", NOT_INT),
        ("INCRBYFLOAT n 1", NOT_FLOAT),
        ("INCRBYFLOAT f 10.5", b"10.5"),
        ("INCRBYFLOAT f 0.1", b"10.6"),
        ("INCRBYFLOAT f -5.6e0", b"5"),
        ("INCR f", 6),
        ("INCRBYFLOAT f a", NOT_FLOAT),
        ("INCRBYFLOAT f nan", NOT_FLOAT),
        ("INCRBYFLOAT f inf", "ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT big 1e30", b"1000000000000000000024696061952"),
    ],
    "parts": [
        ("APPEND a abc", 3),
        (("APPEND", "a", ""), 3),
        (("APPEND", "e", ""), 0),
        ("EXISTS e", 1),
        ("APPEND a def", 6),
        ("GETRANGE a 0 -1", b"abcdef"),
        ("GETRANGE a -3 -2", b"de"),
        ("GETRANGE a 2 100", b"cdef"),
        ("GETRANGE a 4 2", b""),
        ("GETRANGE a -1 -5", b""),
        ("GETRANGE a -100 -50", b"a"),
        ("GETRANGE a -50 -100", b""),
        ("GETRANGE none 0 -1", b""),
        ("GETRANGE e 0 -1", b""),
        ("GETRANGE a x 1", NOT_INT),
        ("GETRANGE a 1 x", NOT_INT),
        ("SUBSTR a 1 2", b"bc"),
        ("SETRANGE a 1 XY", 6),
        ("GET a", b"aXYdef"),
        ("SETRANGE a 8 z", 9),
        ("GET a", b"aXYdef\0\0z"),
        (("SETRANGE", "a", "100", ""), 9),
        (("SETRANGE", "none", "5", ""), 0),
        ("EXISTS none", 0),
        ("SETRANGE a -1 x", "ERR offset is out of range"),
        ("SETRANGE a y x", NOT_INT),
        ("SETRANGE a 536870912 x", OVER),
        ("SETRANGE none 9223372036854775807 x", OVER),
        (("SETRANGE", "a", "9223372036854775807", ""), 9),
    ],
    "lcs": [
        ("MSET a ohmytext b mynewtext e x", "OK"),
        ("LCS a b", b"mytext"),
        ("LCS a b LEN", 6),
        ("LCS a none", b""),
        ("LCS none none2 LEN", 0),
        ("LCS a b IDX", [b"matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], b"len", 6]),
        ("LCS a b IDX MINMATCHLEN 4", [b"matches", [[[4, 7], [5, 8]]], b"len", 6]),
        ("LCS a b IDX MINMATCHLEN -4 WITHMATCHLEN",
         [b"matches", [[[4, 7], [5, 8], 4], [[2, 3], [0, 1], 2]], b"len", 6]),
        ("LCS a none IDX", [b"matches", [], b"len", 0]),
        ("LCS a b IDX LEN",
         "ERR If you want both the length and indexes, please just use IDX."),
        ("LCS a b MINMATCHLEN", SYNTAX),
        ("LCS a b MINMATCHLEN x", NOT_INT),
        ("LCS a b FOO", SYNTAX),
        ("SETRANGE a 20000 x", 20001),
        ("SETRANGE b 20000 x", 20001),
        ("LCS a b",
         "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"),
        ("RPUSH l 1", 1),
        ("LCS a l FOO", "ERR The specified keys must contain string values"),
    ],
    "another type": [
        ("RPUSH l 1", 1),
        ("GET l", WRONGTYPE),
        ("SET l v GET", WRONGTYPE),
        ("SET l v EX 0 GET", "ERR invalid expire time in 'set' command"),
        ("SETNX l v", 0),
        ("SET l v XX NX", SYNTAX),
        ("GETSET l v", WRONGTYPE),
        ("GETDEL l", WRONGTYPE),
        ("GETEX l EX foo", WRONGTYPE),
        ("APPEND l v", WRONGTYPE),
        ("INCR l", WRONGTYPE),
        ("INCRBY l a", NOT_INT),
        ("INCRBYFLOAT l a", WRONGTYPE),
        ("STRLEN l", WRONGTYPE),
        ("GETRANGE l 0 0", WRONGTYPE),
        (("SETRANGE", "l", "0", ""), WRONGTYPE),
        ("SETRANGE l -1 x", "ERR offset is out of range"),
        ("MGET l none", [None, None]),
        ("MSETNX x 1 l 2", 0),
        ("MSET l v", "OK"),
        ("GET l", b"v"),
    ],
}


def plain(reply):
    kind, content = reply
    if kind == "*":
        return [plain(item) for item in content]
    return content.decode() if kind in "+-" else content


def play(port, script):
    connection = Connection(port)
    for command, reply in script:
        args = command.split() if isinstance(command, str) else command
        assert plain(connection.ask(*args)) == reply, command
    connection.close()


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(server, name):
    play(server.port, SCRIPTS[name])


def test_long_values_are_changed_in_parts(server):
    client = server.client()
    model = bytearray()
    for i in range(60):
        part = bytes([1 + i]) * (i * 37 % 500 + 1)
        model += part
        assert client.append("k", part) == len(model)
    assert client.get("k") == bytes(model) and len(model) > 8192
    for at, part in ((4090, b"across a border"), (0, b"x" * 9000), (len(model) + 5000, b"far")):
        model += bytes(max(0, at + len(part) - len(model)))
        model[at:at + len(part)] = part
        assert client.setrange("k", at, part) == len(model)
        assert client.get("k") == bytes(model)
    assert client.strlen("k") == len(model)
    for start, end in ((4000, 4200), (-5000, -3), (0, 0), (8191, 8192), (100, 20000)):
        stop = None if end == -1 else end + 1
        assert client.getrange("k", start, end) == bytes(model)[start:stop]
    client.expire("k", 1000)
    client.append("k", "end")
    assert client.ttl("k") > 990
    client.set("k", "short")
    assert client.get("k") == b"short" and client.ttl("k") == -1


def test_the_longest_string_is_sparse(server):
    client = server.client()
    last = 512 * 1024 * 1024 - 1
    assert client.setrange("k", last, "x") == last + 1
    assert client.getrange("k", last - 3, -1) == b"\0\0\0x"
    with pytest.raises(redis.ResponseError, match="exceeds maximum"):
        client.append("k", "y")
    assert client.strlen("k") == last + 1


def test_values_survive_a_restart(start):
    server = start()
    client = server.client()
    long_value = bytes(i * 7 % 251 for i in range(50000))
    client.mset({"plain": "p", "long": long_value, "n": 5})
    client.set("ttl", "t", ex=1000)
    assert server.stop() == 0
    client = start().client()
    assert client.mget("plain", "long", "n", "ttl") == [b"p", long_value, b"5", b"t"]
    assert 990 < client.ttl("ttl") <= 1000
    assert client.append("long", "!") == 50001 and client.incr("n") == 6


def test_a_deadline_comes(server):
    client = server.client()
    client.set("k", "v", px=50)
    client.set("long", b"v" * 5000, px=50)
    wait_until(lambda: client.mget("k", "long") == [None, None])
    assert client.append("long", "new") == 3 and client.ttl("long") == -1


def test_keyspace_events(server):
    client = server.client()
    try:
        client.config_set("notify-keyspace-events", "KEA")
    except redis.ResponseError:
        pytest.skip("no keyspace events yet")
    watcher = client.pubsub()
    watcher.psubscribe("__keyevent@0__:*")
    assert watcher.get_message(timeout=100)["type"] == "psubscribe"
    script = [
        ("SET k 1", ["set"]),
        ("SET k 1 EX 100", ["set", "expire"]),
        ("SET k 1 NX", []),
        ("GETEX k PERSIST", ["persist"]),
        ("GETEX k PERSIST", []),
        ("GETEX k EX 10", ["expire"]),
        ("GETEX k PXAT 1", ["del"]),
        ("INCR k", ["incrby"]),
        ("INCRBYFLOAT k 1", ["incrbyfloat"]),
        ("APPEND k 1", ["append"]),
        ("SETRANGE k 0 1", ["setrange"]),
        ("SETBIT k 0 1", ["setbit"]),
        ("SETBIT k 0 1", []),
        ("BITFIELD k SET u8 0 255 GET u8 8", ["setbit"]),
        ("GETSET k 1", ["set"]),
        ("MSET a 1 b 2", ["set", "set"]),
        ("BITOP NOT a b", ["set"]),
        ("BITOP NOT a none", ["del"]),
        ("GETDEL k", ["del"]),
        ("GETDEL k", []),
    ]
    for command, events in script:
        client.execute_command(*command.split())
        client.publish("__keyevent@0__:mark", "")
        seen = []
        while (message := watcher.get_message(timeout=100))["channel"] != b"__keyevent@0__:mark":
            seen.append(message["channel"].decode().split(":")[1])
        assert seen == events, command
