# SPDX-License-Identifier: Apache-2.0
"""Set commands. Random sequences against Redis itself: python3 -m tests.wire.diff --only set."""
import collections

import pytest

from raw import Raw

WRONGTYPE = "-WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_INTEGER = "-ERR value is not an integer or out of range"


@pytest.fixture
def raw(server):
    return Raw(server)


def test_members_come_and_go(raw):
    raw.say("SADD s b a b", ":2")
    raw.say("SADD s a c", ":1")
    raw.say("SMEMBERS s", "*3", "a", "b", "c")
    raw.say("SMEMBERS none", "*0")
    raw.say("SCARD s", ":3")
    raw.say("SCARD none", ":0")
    raw.say("SISMEMBER s a", ":1")
    raw.say("SISMEMBER s x", ":0")
    raw.say("SMISMEMBER s a x c", "*3", ":1", ":0", ":1")
    raw.say("SMISMEMBER none a", "*1", ":0")
    raw.say("SREM s a a x", ":1")
    raw.say("SREM s b c", ":2")
    raw.say("EXISTS s", ":0")
    raw.say("SREM s b", ":0")


def test_moves(raw):
    raw.say("SADD a 1 2", ":2")
    raw.say("SET text v", "+OK")
    raw.say("SMOVE a b 1", ":1")
    raw.say("SMOVE a b 1", ":0")
    raw.say("SMOVE a a 2", ":1")
    raw.say("SMOVE a a 3", ":0")
    raw.say("SMOVE none text 1", ":0")
    raw.say("SMOVE a text x", WRONGTYPE)
    raw.say("SMOVE text a x", WRONGTYPE)
    raw.say("SMOVE a b 2", ":1")
    raw.say("EXISTS a", ":0")
    raw.say("SMEMBERS b", "*2", "1", "2")


def test_algebra(raw):
    raw.say("SADD a 1 2 3 4", ":4")
    raw.say("SADD b 3 4 5", ":3")
    raw.say("SADD c 4", ":1")
    raw.say("SUNION a b c", "*5", "1", "2", "3", "4", "5")
    raw.say("SINTER a b", "*2", "3", "4")
    raw.say("SINTER a b c", "*1", "4")
    raw.say("SINTER a none", "*0")
    raw.say("SDIFF a b c", "*2", "1", "2")
    raw.say("SDIFF none a", "*0")
    raw.say("SINTERCARD 2 a b", ":2")
    raw.say("SINTERCARD 2 a b LIMIT 1", ":1")
    raw.say("SINTERCARD 2 a b LIMIT 0", ":2")
    raw.say("SINTERCARD 1 none", ":0")
    raw.say("SUNIONSTORE d a b", ":5")
    raw.say("SINTERSTORE d d c", ":1")
    raw.say("SMEMBERS d", "*1", "4")
    raw.say("SDIFFSTORE d a b", ":2")
    raw.say("SDIFFSTORE d c a", ":0")
    raw.say("EXISTS d", ":0")
    raw.say("SET text v", "+OK")
    raw.say("EXPIRE text 100", ":1")
    raw.say("SUNIONSTORE text c", ":1")
    raw.say("TTL text", ":-1")
    raw.say("SMEMBERS text", "*1", "4")


def test_errors_come_in_the_order_of_redis(raw):
    raw.say("SET text v", "+OK")
    raw.say("SADD s 1", ":1")
    for line in ("SADD text 1", "SREM text 1", "SCARD text", "SISMEMBER text 1", "SMISMEMBER text 1",
                 "SMEMBERS text", "SPOP text", "SPOP text 0", "SRANDMEMBER text", "SRANDMEMBER text 0",
                 "SSCAN text 0", "SINTER none text", "SUNION none text", "SDIFF none text",
                 "SINTERSTORE s none text", "SUNIONSTORE s none text", "SDIFFSTORE s none text",
                 "SINTERCARD 2 none text"):
        raw.say(line, WRONGTYPE)
    raw.say("SPOP text -1", "-ERR value is out of range, must be positive")
    raw.say("SPOP text x", "-ERR value is out of range, must be positive")
    raw.say("SPOP text 1 2", "-ERR syntax error")
    raw.say("SRANDMEMBER text 1 2", "-ERR syntax error")
    raw.say("SRANDMEMBER text x", NOT_INTEGER)
    raw.say("SRANDMEMBER text -9223372036854775808", "-ERR value is out of range, value must between "
            "-9223372036854775807 and 9223372036854775807")
    raw.say("SSCAN text x", "-ERR invalid cursor")
    raw.say("SINTERCARD 0 text", "-ERR numkeys should be greater than 0")
    raw.say("SINTERCARD x text", "-ERR numkeys should be greater than 0")
    raw.say("SINTERCARD 2 text", "-ERR Number of keys can't be greater than number of args")
    raw.say("SINTERCARD 1 text LIMIT -1", "-ERR LIMIT can't be negative")
    raw.say("SINTERCARD 1 text LIMIT x", "-ERR LIMIT can't be negative")
    raw.say("SINTERCARD 1 text LIMIT", "-ERR syntax error")
    raw.say("SINTERCARD 1 text x", "-ERR syntax error")
    raw.say("SINTERCARD 1 s LIMIT 5 LIMIT 1", ":1")


def test_resp3_has_sets(server):
    raw = Raw(server, proto=3)
    raw.say("SADD s a", ":1")
    raw.say("SMEMBERS s", "~1", "a")
    raw.say("SMEMBERS none", "~0")
    raw.say("SINTER s s", "~1", "a")
    raw.say("SUNION none", "~0")
    raw.say("SRANDMEMBER s 2", "*1", "a")
    raw.say("SRANDMEMBER s -2", "*2", "a", "a")
    raw.say("SRANDMEMBER none 2", "*0")
    raw.say("SRANDMEMBER none", "_")
    raw.say("SISMEMBER s a", ":1")
    raw.say("SSCAN s 0", "*2", "0", "*1", "a")
    raw.say("SPOP none 2", "~0")
    raw.say("SPOP none", "_")
    raw.say("SPOP s 2", "~1", "a")


def test_popping_takes_each_once(server):
    client = server.client()
    client.sadd("s", *range(1000))
    seen = [client.spop("s") for _ in range(100)] + client.spop("s", 500) + client.spop("s", 1000)
    assert sorted(map(int, seen)) == list(range(1000))
    assert not client.exists("s")
    assert client.spop("s") is None and client.execute_command("SPOP", "s", 3) in ([], set())


def test_random_members(server):
    client = server.client()
    client.sadd("s", *range(20))
    for count in (1, 10, 19, 20, 50):
        members = client.srandmember("s", count)
        assert len(members) == len(set(members)) == min(count, 20)
    assert client.srandmember("s", 0) == []
    drawn = collections.Counter(client.srandmember("s", -2000))
    assert sum(drawn.values()) == 2000 and len(drawn) == 20
    assert max(drawn.values()) < 200
    assert client.scard("s") == 20


@pytest.mark.parametrize("size, count, calls", [(128, 1, 1), (1000, 100, 10), (1000, 1000, 1)])
def test_scans_meet_all_once(server, size, count, calls):
    client = server.client()
    client.sadd("s", *range(size))
    cursor, members, done = None, [], 0
    while cursor != 0:
        cursor, page = client.sscan("s", cursor or 0, count=count)
        members += page
        done += 1
    assert sorted(map(int, members)) == list(range(size)) and done == calls


def test_events(server):
    client = server.client(decode_responses=True)
    client.config_set("notify-keyspace-events", "KEA")
    listener = client.pubsub()
    listener.psubscribe("__keyevent@0__:*")
    assert listener.get_message(timeout=100)["type"] == "psubscribe"
    client.sadd("a", 1, 2, 3)
    client.sadd("a", 1)
    client.smove("a", "b", 1)
    client.srem("a", 9)
    client.srem("a", 2)
    client.spop("a")
    client.sunionstore("c", "b")
    client.sinterstore("c", "b")
    client.sdiffstore("c", "b", "b")
    client.sdiffstore("c", "b", "b")
    client.spop("b", 5)
    client.set("end", 1)
    events = []
    while events[-1:] != ["set end"]:
        message = listener.get_message(timeout=100)
        events.append(message["channel"].split(":")[1] + " " + message["data"])
    assert events == ["sadd a", "srem a", "sadd b", "srem a", "spop a", "del a", "sunionstore c",
                      "sinterstore c", "del c", "spop b", "del b", "set end"]


def test_large_sets_meet_and_survive_a_restart(start):
    server = start()
    client = server.client()
    client.sadd("even", *range(0, 20000, 2))
    client.sadd("third", *range(0, 20000, 3))
    client.sadd("few", 6, 7, 19998)
    assert server.stop() == 0
    client = start().client()
    assert client.sinterstore("sixth", "even", "third") == 3334
    assert client.sinter("few", "even", "third") == {b"6", b"19998"}
    assert client.sdiffstore("odd", "even", "third") == 10000 - 3334
    assert client.sunionstore("all", "even", "third", "few") == 10000 + 6667 - 3334 + 1
    assert client.sdiff("few", "all") == set()


def test_encodings_are_those_of_redis(server):
    client = server.client(decode_responses=True)
    client.sadd("s", *range(512))
    assert client.object("encoding", "s") == "intset"
    client.sadd("s", 1000)
    assert client.object("encoding", "s") == "hashtable"
    client.sadd("text", "a")
    assert client.object("encoding", "text") == "hashtable"
