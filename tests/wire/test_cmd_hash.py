# SPDX-License-Identifier: Apache-2.0
"""Hash commands. Random sequences against Redis itself: python3 -m tests.wire.diff --only hash."""
import collections

import pytest

from raw import Raw

WRONGTYPE = "-WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_INTEGER = "-ERR value is not an integer or out of range"


@pytest.fixture
def raw(server):
    return Raw(server)


def scan(client, key, **options):
    """All fields of a complete HSCAN, and in how many calls they came."""
    fields, cursor, calls = [], None, 0
    while cursor != 0:
        cursor, page = client.hscan(key, cursor or 0, **options)
        fields += page
        calls += 1
    return fields, calls


def test_fields_come_and_go(raw):
    raw.say("HSET h b 1 a 2", ":2")
    raw.say("HSET h b 3", ":0")
    raw.say("HSET h c 1 c 2", ":1")
    raw.say("HGETALL h", "*6", "a", "2", "b", "3", "c", "2")
    raw.say("HGET h b", "3")
    raw.say("HGET h x", "$-1")
    raw.say("HGET none x", "$-1")
    raw.say("HMGET h a x c", "*3", "2", "$-1", "2")
    raw.say("HMGET none a", "*1", "$-1")
    raw.say("HLEN h", ":3")
    raw.say("HLEN none", ":0")
    raw.say("HEXISTS h a", ":1")
    raw.say("HEXISTS h x", ":0")
    raw.say("HKEYS h", "*3", "a", "b", "c")
    raw.say("HVALS h", "*3", "2", "3", "2")
    raw.say("HKEYS none", "*0")
    raw.say("HSTRLEN h a", ":1")
    raw.say("HSTRLEN h x", ":0")
    raw.say("HSETNX h a 9", ":0")
    raw.say("HSETNX h d 9", ":1")
    raw.say("HMSET h e 1 f 22", "+OK")
    raw.say("HSTRLEN h f", ":2")
    raw.say("HDEL h a a x e f", ":3")
    raw.say("HDEL h b c d", ":3")
    raw.say("HGETALL h", "*0")
    raw.say("HDEL h a", ":0")


def test_numbers(raw):
    raw.say("HINCRBY h n 5", ":5")
    raw.say("HINCRBY h n -7", ":-2")
    raw.say("HINCRBY h n x", NOT_INTEGER)
    raw.say("HSET h text a big 9223372036854775807 float 1.5", ":3")
    raw.say("HINCRBY h text 1", "-ERR hash value is not an integer")
    raw.say("HINCRBY h text x", NOT_INTEGER)
    raw.say("HINCRBY h float 1", "-ERR hash value is not an integer")
    raw.say("HINCRBY h big 1", "-ERR increment or decrement would overflow")
    raw.say("HINCRBYFLOAT h float 0.1", "1.6")
    raw.say("HINCRBYFLOAT h float 5.0e3", "5001.60000000000000009")  # as Redis
    raw.say("HINCRBYFLOAT h n 2", "0")
    raw.say("HINCRBYFLOAT h new 3.0", "3")
    raw.say("HINCRBYFLOAT h text 1", "-ERR hash value is not a float")
    raw.say("HINCRBYFLOAT h float x", "-ERR value is not a valid float")
    raw.say("HINCRBYFLOAT h float nan", "-ERR value is not a valid float")
    raw.say("HINCRBYFLOAT h float -inf", "-ERR value is NaN or Infinity")
    raw.say("HSET h huge 1.1e4932", ":1")
    raw.say("HINCRBYFLOAT h huge 1.1e4932", "-ERR increment would produce NaN or Infinity")


def test_errors_come_in_the_order_of_redis(raw):
    raw.say("SET text v", "+OK")
    raw.say("HSET text a", "-ERR wrong number of arguments for 'hset' command")
    raw.say("HSET text a 1 b", "-ERR wrong number of arguments for 'hset' command")
    raw.say("HMSET text a 1 b", "-ERR wrong number of arguments for 'hmset' command")
    for line in ("HSET text a 1", "HMSET text a 1", "HSETNX text a 1", "HGET text a", "HMGET text a",
                 "HDEL text a", "HLEN text", "HSTRLEN text a", "HEXISTS text a", "HGETALL text",
                 "HKEYS text", "HVALS text", "HINCRBY text a 1", "HINCRBYFLOAT text a 1",
                 "HRANDFIELD text", "HRANDFIELD text 1", "HSCAN text 0", "HSCAN text 0 COUNT x"):
        raw.say(line, WRONGTYPE)
    raw.say("HINCRBY text a x", NOT_INTEGER)
    raw.say("HINCRBYFLOAT text a x", "-ERR value is not a valid float")
    raw.say("HRANDFIELD text x", NOT_INTEGER)
    raw.say("HRANDFIELD text 1 x", "-ERR syntax error")
    raw.say("HRANDFIELD text 1 WITHVALUES x", "-ERR syntax error")
    raw.say("HRANDFIELD text -9223372036854775808", "-ERR value is out of range, value must between "
            "-9223372036854775807 and 9223372036854775807")
    raw.say("HRANDFIELD text 9223372036854775807 WITHVALUES", "-ERR value is out of range")
    raw.say("HSCAN text x", "-ERR invalid cursor")
    raw.say("HSCAN none 0 COUNT x", "*2", "0", "*0")
    raw.say("HSET h a 1", ":1")
    raw.say("HSCAN h 0 COUNT x", NOT_INTEGER)
    raw.say("HSCAN h 0 COUNT 0", "-ERR syntax error")
    raw.say("HSCAN h 0 MATCH", "-ERR syntax error")
    raw.say("HSCAN h 0 TYPE hash", "-ERR syntax error")


def test_resp3_has_maps_and_pairs(server):
    raw = Raw(server, proto=3)
    raw.say("HSET h a 1", ":1")
    raw.say("HGETALL h", "%1", "a", "1")
    raw.say("HGETALL none", "%0")
    raw.say("HKEYS h", "*1", "a")
    raw.say("HGET h x", "_")
    raw.say("HRANDFIELD h 5 WITHVALUES", "*1", "*2", "a", "1")
    raw.say("HRANDFIELD h -2 WITHVALUES", "*2", "*2", "a", "1", "*2", "a", "1")
    raw.say("HRANDFIELD h -1", "*1", "a")
    raw.say("HRANDFIELD none", "_")
    raw.say("HINCRBYFLOAT h a 1", "2")
    raw.say("HSCAN h 0", "*2", "0", "*2", "a", "2")


def test_random_fields(server, raw):
    client = server.client()
    client.hset("h", mapping={f"f{i}": i for i in range(20)})
    raw.say("HRANDFIELD none 3 WITHVALUES", "*0")
    raw.say("HRANDFIELD none", "$-1")
    raw.say("HRANDFIELD h 0", "*0")
    for count in (1, 10, 19, 20, 50):
        fields = client.hrandfield("h", count)
        assert len(fields) == len(set(fields)) == min(count, 20)
        pairs = client.execute_command("HRANDFIELD", "h", count, "WITHVALUES")
        assert all(b"f" + value == field for field, value in zip(pairs[::2], pairs[1::2]))
    drawn = collections.Counter(client.hrandfield("h", -2000))
    assert sum(drawn.values()) == 2000 and len(drawn) == 20
    assert max(drawn.values()) < 200


def test_small_hashes_come_in_one_page_and_large_ones_in_many(server):
    client = server.client()
    client.hset("small", mapping={f"f{i}": i for i in range(128)})
    fields, calls = scan(client, "small", count=1)
    assert len(fields) == len(set(fields)) == 128 and calls == 1
    client.hset("large", mapping={f"f{i}": i for i in range(1000)})
    fields, calls = scan(client, "large", count=100)
    assert len(fields) == len(set(fields)) == 1000 and calls == 10
    fields, calls = scan(client, "large", count=1000)
    assert len(fields) == 1000 and calls == 1
    fields, calls = scan(client, "large", match="f1?", count=300)
    assert len(fields) == 10 and calls == 4


def test_a_scan_meets_what_stays_while_others_go(server):
    client = server.client()
    client.hset("h", mapping={f"f{i:04}": i for i in range(2000)})
    cursor, page = client.hscan("h", 0, count=50)
    seen = set(page)
    while cursor:
        client.hdel("h", *page)  # also the place where the cursor stands
        cursor, page = client.hscan("h", cursor, count=50)
        assert not seen & set(page)
        seen |= set(page)
        if client.hlen("h") <= 200:
            break
    assert len(seen) >= 1800


def test_an_unknown_cursor_is_an_error_for_a_large_hash(server, raw):
    server.client().hset("h", mapping={f"f{i}": i for i in range(200)})
    raw.say("HSCAN h 12345", "-ERR unknown cursor: only the last 65536 are remembered")


def test_events(server):
    client = server.client(decode_responses=True)
    client.config_set("notify-keyspace-events", "KEA")
    listener = client.pubsub()
    listener.psubscribe("__keyevent@0__:*")
    assert listener.get_message(timeout=100)["type"] == "psubscribe"
    client.hset("h", mapping={"a": 1, "b": 2})
    client.hincrby("h", "a")
    client.hincrbyfloat("h", "a", 1)
    client.hsetnx("h", "c", 1)
    client.hsetnx("h", "c", 1)
    client.hdel("h", "x")
    client.hdel("h", "a", "b")
    client.hdel("h", "c")
    client.set("end", 1)
    events = []
    while events[-1:] != ["set"]:
        events.append(listener.get_message(timeout=100)["channel"].split(":")[1])
    assert events == ["hset", "hincrby", "hincrbyfloat", "hset", "hdel", "hdel", "del", "set"]


def test_binary_fields_and_values_survive_a_restart(start):
    server = start()
    every = bytes(range(256))
    server.client().hset("h", mapping={every: every * 2, b"": b""})
    server.client().hset("many", mapping={f"f{i}": "v" * 100 for i in range(3000)})
    assert server.stop() == 0
    client = start().client()
    assert client.hgetall("h") == {every: every * 2, b"": b""}
    assert client.hlen("many") == 3000 and len(client.hgetall("many")) == 3000
    assert client.hdel("many", *(f"f{i}" for i in range(3000))) == 3000
    assert not client.exists("many")


def test_an_error_leaves_no_key_behind(raw):
    raw.say("HINCRBYFLOAT h f inf", "-ERR value is NaN or Infinity")
    raw.say("EXISTS h", ":0")
