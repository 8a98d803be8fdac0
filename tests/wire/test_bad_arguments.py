# SPDX-License-Identifier: Apache-2.0
"""Every command with keys of every other type, and with every argument spoilt: Redis's own replies.

The commands are those of tests/wire/diff/scenario.txt, which holds every command of the types.
"""
import pathlib

import pytest

from diff.cases import read_case
from diff.runner import describe

SCENARIO = read_case((pathlib.Path(__file__).parent / "diff" / "scenario.txt").read_text().splitlines())
TRANSACTIONS = {b"MULTI", b"EXEC", b"DISCARD", b"WATCH", b"UNWATCH"}
MAKERS = {
    "string": (b"SET", b"5"),
    "list": (b"RPUSH", b"a", b"b"),
    "hash": (b"HSET", b"f", b"1"),
    "set": (b"SADD", b"a", b"b"),
    "zset": (b"ZADD", b"1", b"a", b"2", b"b"),
}
SPOILT = (
    b"", b" 1", b"1 ", b"+1", b"01", b"-0", b"-1", b"1.5", b"1e3", b"0x10", b"nan", b"-nan", b"inf", b"-inf",
    b"infinity", b"1e400", b"-1e400", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"1" * 400, b"\xff\x00\r\n", b"(1", b"[", b"*", b"NX",
    b"COUNT", b"LIMIT",
)


def commands():
    """Each once, without what belongs to a transaction, is ours alone, or empties everything."""
    inside = False
    for client, args in SCENARIO:
        name = args[0].upper()
        if name in (b"MULTI", b"EXEC", b"DISCARD"):
            inside = name == b"MULTI"
        if not (inside or client or name in TRANSACTIONS or name in (b"DEBUG", b"FLUSHALL", b"FLUSHDB")):
            yield args


def keys_of(pair, args):
    """What Redis says are its keys."""
    reply = pair.link(0, "keys").ask("COMMAND", "GETKEYS", *args)
    return [key[1] for key in reply[1]] if reply[0] == "*" else []


def play(pair, items, proto):
    found = pair.play(items, proto)
    if found:
        lines = [*describe(items[:found.index + 1][-8:]), *found.lines()]
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("kind", MAKERS)
def test_keys_of_every_type_are_answered_as_redis_answers(pair, kind):
    make, *rest = MAKERS[kind]
    items = []
    for args in commands():
        keys = keys_of(pair, args)
        if not keys:
            continue
        items.append((0, (b"DEL", *keys)))
        items += [(0, (make, key, *rest)) for key in dict.fromkeys(keys)]
        items.append((0, args))
        items += [(0, (b"TYPE", key)) for key in keys]
    assert len(items) > 600
    play(pair, items, 2)


@pytest.mark.parametrize("spoilt", SPOILT, ids=lambda value: repr(value[:24])[1:])
def test_a_spoilt_argument_is_answered_as_redis_answers(pair, spoilt):
    items = []
    for args in commands():
        keys = set(keys_of(pair, args))
        for at in range(1, len(args)):
            if args[at] not in keys:
                items.append((0, (*args[:at], spoilt, *args[at + 1:])))
        items.append((0, args))
    assert len(items) > 400
    play(pair, items, 2 + len(spoilt) % 2)
