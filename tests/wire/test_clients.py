# SPDX-License-Identifier: Apache-2.0
"""Real clients as people use them: redis-py here, ioredis in ioredis/tour.js."""
import threading

import pytest
import redis

from conftest import ROOT
from waiting import wait_until

ALL_BYTES = bytes(range(256))
PARTS = "strings collections scans pipelines transactions messages blocking".split()


@pytest.fixture
def client(server):
    return server.client(decode_responses=True)


def test_strings(server, client):
    assert client.set("s", "wörld\r\n\0")
    assert client.get("s") == "wörld\r\n\0"
    assert client.get("none") is None
    assert client.set("s", "x", nx=True) is None
    assert client.set("s", "2", px=100000, xx=True)
    assert client.incrby("s", 40) == 42
    assert client.incrbyfloat("s", "0.5") == 42.5
    assert 0 < client.pttl("s") <= 100000
    assert client.getex("s", persist=True) == "42.5"
    assert client.ttl("s") == -1
    assert client.mset({"a": "1", "b": "2"})
    assert client.mget("a", "none", "b") == ["1", None, "2"]
    assert client.getdel("a") == "1"
    assert client.append("b", "xyz") == 4
    assert client.getrange("b", 1, -1) == "xyz"
    binary = server.client()
    assert binary.set(ALL_BYTES, ALL_BYTES)
    assert binary.get(ALL_BYTES) == ALL_BYTES


def test_hashes(client):
    assert client.hset("h", mapping={"a": "1", "b": "2"}) == 2
    assert client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.hincrby("h", "a", 4) == 5
    assert client.hmget("h", "a", "none") == ["5", None]
    assert client.hdel("h", "a", "none") == 1
    assert dict(client.hscan_iter("h")) == {"b": "2"}
    with pytest.raises(redis.ResponseError, match="^WRONGTYPE"):
        client.get("h")


def test_lists(client):
    assert client.rpush("l", "a", "b", "c", "d") == 4
    assert client.lrange("l", 0, -1) == list("abcd")
    assert client.lpop("l") == "a"
    assert client.rpop("l", 2) == ["d", "c"]
    assert client.linsert("l", "before", "b", "x") == 2
    assert client.lmove("l", "other", "LEFT", "RIGHT") == "x"
    assert client.lpos("l", "b") == 0
    assert client.lset("l", 0, "B") and client.lindex("l", 0) == "B"


def test_sets(client):
    assert client.sadd("s", "a", "b", "c", "a") == 3
    assert client.sadd("t", "b", "c", "d") == 3
    assert client.smembers("s") == {"a", "b", "c"}
    assert client.sinter("s", "t") == {"b", "c"}
    assert client.sdiffstore("u", "s", "t") == 1
    assert client.smismember("s", "a", "d") == [1, 0]
    assert client.srem("s", "a") == 1
    assert client.spop("u") == "a" and not client.exists("u")


def test_sorted_sets(client):
    assert client.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
    assert client.zrange("z", 0, -1, withscores=True) == [("a", 1), ("b", 2.5), ("c", float("inf"))]
    assert client.zrangebyscore("z", "(1", "+inf") == ["b", "c"]
    assert client.zincrby("z", 0.5, "b") == 3
    assert client.zrevrank("z", "a") == 2
    assert client.zpopmin("z") == [("a", 1)]
    assert client.zadd("z", {"b": 9}, gt=True, ch=True) == 1
    assert client.zcount("z", 5, 10) == 1


def test_keys(client):
    client.mset({f"scan:{i}": i for i in range(300)})
    assert set(client.scan_iter("scan:*", count=20)) == {f"scan:{i}" for i in range(300)}
    assert client.dbsize() == 300
    assert client.rename("scan:0", "moved") and client.get("moved") == "0"
    assert client.type("moved") == "string"
    assert client.expire("moved", 100) and 0 < client.ttl("moved") <= 100
    assert client.delete("moved", "none") == 1
    assert client.flushdb() and client.dbsize() == 0


def test_pipelines(client):
    pipe = client.pipeline(transaction=False)
    pipe.set("p", 1).incr("p").hget("p", "f").get("p")
    replies = pipe.execute(raise_on_error=False)
    assert [replies[0], replies[1], replies[3]] == [True, 2, "2"]
    assert str(replies[2]).startswith("WRONGTYPE")
    for _ in range(1000):
        pipe.incr("n")
    assert pipe.execute() == list(range(1, 1001))


def test_transactions(server, client):
    with client.pipeline() as pipe:
        assert pipe.set("m", 1).incr("m").execute() == [True, 2]
    with client.pipeline() as pipe:
        pipe.watch("m")
        server.client().set("m", "changed")
        pipe.multi()
        pipe.set("m", "lost")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("m") == "changed"
    assert client.transaction(lambda pipe: pipe.multi() or pipe.append("m", "!"), "m") == [8]


def test_messages(client):
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n*")
    for _ in range(2):
        assert listener.get_message(timeout=100) is None  # a confirmation, read and ignored
    assert client.publish("news", "hello") == 2
    assert listener.get_message(timeout=100) == {
        "type": "message", "pattern": None, "channel": "news", "data": "hello"}
    assert listener.get_message(timeout=100) == {
        "type": "pmessage", "pattern": "n*", "channel": "news", "data": "hello"}
    assert client.pubsub_numsub("news") == [("news", 1)]
    listener.close()


def test_blocking(server, client):
    popped = []
    waiter = threading.Thread(target=lambda: popped.append(
        server.client(decode_responses=True).blpop(["none", "queue"], timeout=100)))
    waiter.start()
    wait_until(lambda: any(c["cmd"] == "blpop" for c in client.client_list()))
    assert client.rpush("queue", "job") == 1
    waiter.join(100)
    assert popped == [("queue", "job")]
    assert client.brpop("queue", timeout=0.01) is None


def test_databases_and_passwords(start):
    server = start("--requirepass", "secret")
    with pytest.raises(redis.AuthenticationError):
        server.client().ping()
    # redis-py 6 has an exception of its own for it, without the first word of the reply.
    with pytest.raises((redis.ResponseError, redis.AuthenticationError), match="WRONGPASS|invalid username-password"):
        server.client(password="wrong").ping()
    assert server.client(password="secret", db=3, client_name="me").set("k", "three")
    assert server.client(password="secret").get("k") is None
    assert server.client(password="secret", db=3).get("k") == b"three"
    assert redis.Redis.from_url(f"redis://:secret@127.0.0.1:{server.port}/3").get("k") == b"three"


def test_ioredis(server, ioredis):
    for protocol in [2, 3] if ioredis.version >= (6,) else [2]:  # RESP3 came with version 6
        said = ioredis(ROOT / "tests/wire/ioredis/tour.js", server.port, protocol)
        assert said.split() == PARTS
