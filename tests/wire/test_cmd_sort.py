# SPDX-License-Identifier: Apache-2.0
"""SORT and SORT_RO. Random sequences against Redis itself: python3 -m tests.wire.diff --only SORT."""
import pytest
import redis


@pytest.fixture
def client(server):
    return server.client(decode_responses=True)


def sort(client, line):
    return client.execute_command(*line.split(" "))


def refused(client, line):
    with pytest.raises(redis.ResponseError) as caught:
        sort(client, line)
    return str(caught.value)


def test_numbers_are_sorted_as_numbers(client):
    client.rpush("k", "10", "9", "-3.5", "1e2", "0")
    assert sort(client, "SORT k") == ["-3.5", "0", "9", "10", "1e2"]
    assert sort(client, "SORT k DESC") == ["1e2", "10", "9", "0", "-3.5"]
    assert sort(client, "SORT k ALPHA") == ["-3.5", "0", "10", "1e2", "9"]
    assert sort(client, "SORT k ALPHA desc") == ["9", "1e2", "10", "0", "-3.5"]
    assert sort(client, "SORT_RO k LIMIT 1 2") == ["0", "9"]


def test_limits_are_clipped(client):
    client.rpush("k", *"54321")
    for limit, result in (("0 2", "12"), ("-5 2", "12"), ("3 -1", "45"), ("3 100", "45"),
                          ("5 1", ""), ("100 1", ""), ("1 0", ""), ("0 -7", "12345")):
        assert sort(client, f"SORT k LIMIT {limit}") == list(result)
    assert refused(client, "SORT k LIMIT x 1") == "value is not an integer or out of range"
    assert refused(client, "SORT k LIMIT 1") == "syntax error"


def test_sets_and_sorted_sets_are_sorted_too(client):
    client.sadd("s", 3, 1, 2)
    client.zadd("z", {"3": 1, "1": 2, "2": 3})
    assert sort(client, "SORT s") == ["1", "2", "3"]
    assert sort(client, "SORT z DESC") == ["3", "2", "1"]


def test_without_a_star_the_order_stays(client):
    client.rpush("k", *"3142")
    client.zadd("z", {"a": 3, "b": 1, "c": 2})
    assert sort(client, "SORT k BY nosort") == list("3142")
    assert sort(client, "SORT k BY nosort DESC LIMIT 1 2") == list("41")
    assert sort(client, "SORT z BY nosort") == list("bca")
    assert sort(client, "SORT z BY nosort DESC LIMIT 0 2") == list("ac")
    assert sort(client, "SORT k BY nosort GET # GET none") == ["3", None, "1", None, "4", None, "2", None]


def test_by_and_get_look_at_other_keys(client):
    client.rpush("k", *"123")
    client.mset({"w1": 30, "w2": 10, "w3": 20, "n1": "one", "n3": "three"})
    client.hset("h1", mapping={"w": 2, "name": "eins"})
    client.hset("h2", mapping={"w": 3})
    client.hset("h3", mapping={"w": 1})
    assert sort(client, "SORT k BY w*") == list("231")
    assert sort(client, "SORT k BY w* GET n*") == [None, "three", "one"]
    assert sort(client, "SORT k BY h*->w DESC GET # GET h*->name") == ["2", None, "1", "eins", "3", None]
    assert sort(client, "SORT k BY none*") == list("123")
    assert sort(client, "SORT k BY n* ALPHA") == list("213")
    assert sort(client, "SORT k GET k*->") == [None, None, None]
    assert sort(client, "SORT k BY h*") == list("123")  # hashes are no strings: all weigh 0


def test_what_is_no_number_is_refused(client):
    client.rpush("k", "1", "x")
    assert refused(client, "SORT k") == "One or more scores can't be converted into double"
    client.rpush("empty", "", " 5", "-1")
    assert sort(client, "SORT empty") == ["-1", "", " 5"]
    client.set("s", "x")
    assert refused(client, "SORT s").startswith("WRONGTYPE")


def test_a_result_is_stored_as_a_list(client):
    client.rpush("k", *"312")
    client.set("n1", "one")
    client.set("to", "old", ex=1000)
    assert sort(client, "SORT k STORE to") == 3
    assert client.lrange("to", 0, -1) == list("123") and client.ttl("to") == -1
    assert sort(client, "SORT k GET n* GET # STORE k") == 6
    assert client.lrange("k", 0, -1) == ["one", "1", "", "2", "", "3"]
    assert sort(client, "SORT none STORE to") == 0 and client.exists("to") == 0
    client.sadd("s", *"cab")
    assert sort(client, "SORT s BY nosort DESC STORE to") == 3
    assert client.lrange("to", 0, -1) == list("cba")
    assert refused(client, "SORT_RO s STORE to") == "syntax error"


def test_a_key_that_is_not_there_is_empty(client):
    assert sort(client, "SORT none") == [] and sort(client, "SORT_RO none BY w* GET n*") == []
    assert refused(client, "SORT none UP") == "syntax error"


def test_cold_keys_are_looked_up(start):
    server = start()
    client = server.client(decode_responses=True)
    client.rpush("k", *range(500))
    client.mset({f"w{i}": (i * 7919) % 500 for i in range(500)})
    for i in range(500):
        client.hset(f"h{i}", "f", f"v{i}")
    assert server.stop() == 0
    client = start().client(decode_responses=True)
    order = sorted(range(500), key=lambda i: (i * 7919) % 500)
    assert sort(client, "SORT k BY w* GET h*->f") == [f"v{i}" for i in order]
