# SPDX-License-Identifier: Apache-2.0
"""Strings as bits."""
import random

import pytest

from talk import Link
from test_cmd_string import play

NOT_INT = "ERR value is not an integer or out of range"
OFFSET = "ERR bit offset is not an integer or out of range"
BIT = "ERR bit is not an integer or out of range"
TYPE = ("ERR Invalid bitfield type. Use something like i16 u8. "
        "Note that u64 is not supported but i64 is.")
SYNTAX = "ERR syntax error"
WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
LAST = 2**32 - 1

SCRIPTS = {
    "one bit": [
        ("GETBIT k 5", 0),
        ("SETBIT k 5 1", 0),
        ("SETBIT k 5 1", 1),
        ("GETBIT k 5", 1),
        ("GETBIT k 1000", 0),
        ("GET k", b"\x04"),
        ("SETBIT k 20 0", 0),
        ("STRLEN k", 3),
        ("SETBIT k -1 1", OFFSET),
        ("SETBIT k a 2", OFFSET),
        ("SETBIT k #1 1", OFFSET),
        (f"SETBIT k {LAST + 1} 1", OFFSET),
        (f"GETBIT k {LAST + 1}", OFFSET),
        (f"GETBIT k {LAST}", 0),
        ("SETBIT k 1 2", BIT),
        ("SETBIT k 1 a", BIT),
        ("SET n 12", "OK"),
        ("GETBIT n 3", 1),
        (f"SETBIT far {LAST} 1", 0),
        ("STRLEN far", 512 * 1024 * 1024),
        ("BITCOUNT far", 1),
        ("BITPOS far 1", LAST),
        ("BITPOS far 0", 0),
    ],
    "bitcount": [
        ("BITCOUNT none", 0),
        ("BITCOUNT none a b", 0),
        ("BITCOUNT none 1", 0),
        ("SET k foobar", "OK"),
        ("BITCOUNT k", 26),
        ("BITCOUNT k 0 0", 4),
        ("BITCOUNT k 1 1", 6),
        ("BITCOUNT k 1 1 BYTE", 6),
        ("BITCOUNT k 5 30 BIT", 17),
        ("BITCOUNT k -10 -1 bit", 5),
        ("BITCOUNT k -2 -5 foo", 0),
        ("BITCOUNT k -100 -50", 4),
        ("BITCOUNT k 10 20", 0),
        ("BITCOUNT k 1", SYNTAX),
        ("BITCOUNT k 1 a", NOT_INT),
        ("BITCOUNT k 0 1 foo", SYNTAX),
        ("BITCOUNT k 0 1 BIT x", SYNTAX),
        (("SET", "e", ""), "OK"),
        ("BITCOUNT e", 0),
        ("BITCOUNT e 0 -1", 0),
    ],
    "bitpos": [
        ("BITPOS none 1", -1),
        ("BITPOS none 0", 0),
        ("BITPOS none 0 a b", 0),
        ("BITPOS none 2", "ERR The bit argument must be 1 or 0."),
        ("BITPOS none a", NOT_INT),
        (("SET", "k", b"\xff\xf0\x00"), "OK"),
        ("BITPOS k 0", 12),
        ("BITPOS k 1", 0),
        ("BITPOS k 1 2", -1),
        ("BITPOS k 0 0 0", -1),
        ("BITPOS k 0 5", -1),
        ("BITPOS k 1 1 -1 BYTE", 8),
        ("BITPOS k 1 7 15 BIT", 7),
        ("BITPOS k 0 7 11 BIT", -1),
        ("BITPOS k 0 -20 -2 BIT", 12),
        ("BITPOS k 1 a b foo", NOT_INT),
        ("BITPOS k 1 0 b foo", SYNTAX),
        ("BITPOS k 1 0 b bit", NOT_INT),
        ("BITPOS k 1 0 -1 bit x", SYNTAX),
        (("SET", "k", b"\xff\xff"), "OK"),
        ("BITPOS k 0", 16),
        ("BITPOS k 0 1", 16),
        ("BITPOS k 0 0 -1", -1),
        ("BITPOS k 0 3", -1),
        (("SET", "k", ""), "OK"),
        ("BITPOS k 0", -1),
        ("BITPOS k 0 0", -1),
    ],
    "bitop": [
        (("MSET", "a", b"\xf0\x0f\xff", "b", b"\xff\x01", "c", b"\x81"), "OK"),
        ("BITOP AND d a b", 3),
        ("GET d", b"\xf0\x01\x00"),
        ("BITOP or d a b c", 3),
        ("GET d", b"\xff\x0f\xff"),
        ("BITOP XOR d a b none", 3),
        ("GET d", b"\x0f\x0e\xff"),
        ("BITOP NOT d a", 3),
        ("GET d", b"\x0f\xf0\x00"),
        ("BITOP AND a a c none", 3),
        ("GET a", b"\x00\x00\x00"),
        ("BITOP AND d none none2", 0),
        ("EXISTS d", 0),
        ("BITOP NOT d none", 0),
        ("BITOP NOT d a b", "ERR BITOP NOT must be called with a single source key."),
        ("BITOP DIFF d a b", SYNTAX),
        ("RPUSH l 1", 1),
        ("BITOP AND d a l", WRONGTYPE),
        ("BITOP AND l b", 2),
        ("GET l", b"\xff\x01"),
    ],
    "bitfield": [
        ("BITFIELD k", []),
        ("BITFIELD k GET u8 0 GET i64 100", [0, 0]),
        ("EXISTS k", 0),
        ("BITFIELD k SET i8 0 -1 GET u8 0 INCRBY u2 0 1", [0, 255, 0]),
        ("BITFIELD k SET u4 #3 9 GET u4 12 GET i4 #3", [0, 9, -7]),
        ("STRLEN k", 2),
        ("BITFIELD k OVERFLOW SAT INCRBY u4 12 100 OVERFLOW FAIL INCRBY u4 12 1 GET u4 12",
         [15, None, 15]),
        ("BITFIELD k OVERFLOW WRAP INCRBY u4 12 1 OVERFLOW SAT SET u4 12 -1 GET u4 12",
         [0, 0, 15]),
        ("BITFIELD n SET i64 3 -9223372036854775808 INCRBY i64 3 -1",
         [0, 9223372036854775807]),
        ("BITFIELD n OVERFLOW SAT INCRBY i64 3 9223372036854775807 SET i63 0 -9223372036854775808 "
         "GET i63 0", [9223372036854775807, 576460752303423487, 4611686018427387903]),
        ("BITFIELD f OVERFLOW FAIL SET u8 100 256", [None]),
        ("STRLEN f", 14),
        ("BITFIELD k GET u64 0", TYPE),
        ("BITFIELD k GET i65 0", TYPE),
        ("BITFIELD k GET u0 0", TYPE),
        ("BITFIELD k GET x8 0", TYPE),
        ("BITFIELD k GET u08 0", TYPE),
        ("BITFIELD k GET u8 a", OFFSET),
        ("BITFIELD k GET u8 -1", OFFSET),
        (f"BITFIELD k GET u8 {LAST + 1}", OFFSET),
        (f"BITFIELD k GET u8 #{LAST // 8 + 1}", OFFSET),
        ("BITFIELD k SET u8 0 a", NOT_INT),
        ("BITFIELD k SET u8 0", SYNTAX),
        ("BITFIELD k GET u8", SYNTAX),
        ("BITFIELD k FOO u8 0", SYNTAX),
        ("BITFIELD k OVERFLOW", SYNTAX),
        ("BITFIELD k OVERFLOW foo", "ERR Invalid OVERFLOW type specified"),
        ("BITFIELD k SET u8 0 1 GET u8 b", OFFSET),
        ("BITFIELD_RO k GET u8 0", [63]),
        ("BITFIELD_RO k GET u8 0 SET u8 0 1",
         "ERR BITFIELD_RO only supports the GET subcommand"),
        (f"BITFIELD far SET i64 {LAST} -1", [0]),
        ("STRLEN far", 512 * 1024 * 1024 + 8),
        (f"BITFIELD far GET i64 {LAST} GET u2 {LAST}", [-1, 3]),
    ],
    "another type": [
        ("RPUSH l 1", 1),
        ("GETBIT l 0", WRONGTYPE),
        ("GETBIT l a", OFFSET),
        ("SETBIT l 0 1", WRONGTYPE),
        ("SETBIT l 0 2", BIT),
        ("BITCOUNT l a b", WRONGTYPE),
        ("BITPOS l 1 a", WRONGTYPE),
        ("BITPOS l 2", "ERR The bit argument must be 1 or 0."),
        ("BITFIELD l", WRONGTYPE),
        ("BITFIELD l GET u8 0", WRONGTYPE),
        ("BITFIELD l SET u8 0 1", WRONGTYPE),
        ("BITFIELD_RO l GET u8 0", WRONGTYPE),
        ("BITFIELD_RO l SET u8 0 1", "ERR BITFIELD_RO only supports the GET subcommand"),
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(server, name):
    play(server.port, SCRIPTS[name])


def test_bitmaps_over_many_chunks(server):
    client = server.client()
    rand = random.Random(1)
    bits = set()
    pipe = client.pipeline(transaction=False)
    for _ in range(2000):
        bit = rand.randrange(8 * 100000)
        bits.add(bit)
        pipe.setbit("k", bit, 1)
    pipe.execute()
    assert client.bitcount("k") == len(bits)
    assert client.bitpos("k", 1) == min(bits)
    middle = 8 * 50000 + 3
    assert client.bitcount("k", middle, -1, "BIT") == sum(bit >= middle for bit in bits)
    value = client.get("k")
    assert [value[bit // 8] >> (7 - bit % 8) & 1 for bit in sorted(bits)] == [1] * len(bits)
    assert client.bitop("NOT", "inverse", "k") == len(value)
    assert client.bitcount("inverse") == 8 * len(value) - len(bits)
    assert client.bitop("AND", "nothing", "k", "inverse") == len(value)
    assert client.bitpos("nothing", 1) == -1
    assert client.bitop("XOR", "all", "k", "inverse") == len(value)
    assert client.bitpos("all", 0, 0, -1) == -1


LIMIT = """CONFIG SET proto-max-bulk-len 1mb|SETRANGE x 1048575 a|SETRANGE x 1048576 a|APPEND x ab|STRLEN x
SETBIT y 8388607 1|SETBIT y 8388608 1|GETBIT y 8388608|BITFIELD y SET u8 8388600 1|BITFIELD y SET u8 8388608 1
BITFIELD y GET u8 #1048575|BITFIELD y GET u8 #1048576|CONFIG SET proto-max-bulk-len 512mb|APPEND x ab"""


def test_no_string_grows_beyond_proto_max_bulk_len(pair):
    lines = LIMIT.replace("\n", "|").split("|")
    ours, theirs = (link.say(*lines) for link in (Link(pair.ours), Link(pair.oracle)))
    assert dict(zip(lines, ours)) == dict(zip(lines, theirs))
