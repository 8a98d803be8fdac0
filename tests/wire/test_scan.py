# SPDX-License-Identifier: Apache-2.0
"""SCAN, KEYS and RANDOMKEY, with keys in memory, in the engine, and on their way."""
import random
import threading

import pytest
import redis


def error(client, *args):
    with pytest.raises(redis.ResponseError) as info:
        client.execute_command(*args)
    return str(info.value)


def reload(client):
    assert client.execute_command("DEBUG", "RELOAD")


def fill(client, count, front="k"):
    pipe = client.pipeline(transaction=False)
    for i in range(count):
        pipe.set(f"{front}{i:05}", i)
    pipe.execute()
    return {f"{front}{i:05}".encode() for i in range(count)}


def test_a_scan_meets_every_key(server):
    client = server.client()
    names = fill(client, 3000)
    for _ in range(2):
        assert set(client.scan_iter()) == names
        assert set(client.scan_iter(count=1000)) == names
        assert set(client.scan_iter(match="k0000*")) == {n for n in names if n.startswith(b"k0000")}
        reload(client)
        client.set("k00001", "hot again")


def test_keys_gives_every_key_once(server):
    client = server.client()
    names = fill(client, 3000)
    for _ in range(3):
        found = client.keys()
        assert len(found) == 3000 and set(found) == names
        assert sorted(client.keys("k0000?")) == [f"k0000{i}".encode() for i in range(10)]
        assert client.keys("none*") == []
        reload(client)
        client.set("k00001", "hot again")
        client.get("k00002")


def test_keys_of_many_pages(server):
    client = server.client()
    fill(client, 100_000)
    reload(client)
    assert len(client.keys()) == 100_000
    assert len(client.keys("*77")) == 1000


def test_a_scan_picks_types(server):
    client = server.client()
    client.set("string", 1)
    client.set("long", "x" * 10000)
    client.rpush("list", 1)
    client.hset("hash", "f", 1)
    for _ in range(2):
        assert set(client.scan_iter(_type="string")) == {b"string", b"long"}
        assert set(client.scan_iter(_type="HASH")) == {b"hash"}
        assert set(client.scan_iter(_type="nothing")) == set()
        reload(client)


def test_a_scan_does_not_leave_its_database(server):
    zero, one = server.client(), server.client(db=1)
    fill(zero, 500)
    one.set("other", 1)
    for _ in range(2):
        assert set(one.scan_iter()) == {b"other"} and one.keys() == [b"other"]
        assert one.randomkey() == b"other"
        reload(one)


def test_scan_errors(server):
    client = server.client()
    assert error(client, "SCAN", "x") == "invalid cursor"
    assert error(client, "SCAN", "0", "COUNT", "0") == "syntax error"
    assert error(client, "SCAN", "0", "COUNT", "x") == "value is not an integer or out of range"
    assert error(client, "SCAN", "0", "MATCH") == "syntax error"
    assert error(client, "SCAN", "0", "NOW", "x") == "syntax error"
    assert "unknown cursor" in error(client, "SCAN", "12345")


def test_a_cursor_can_be_used_twice_and_is_forgotten_by_a_restart(start):
    server = start()
    client = server.client()
    fill(client, 1000)
    cursor, _ = client.scan()
    assert cursor != 0
    assert client.scan(cursor)[1] == client.scan(cursor)[1]
    server.kill()
    client = start().client()
    assert "unknown cursor" in error(client, "SCAN", cursor)


def test_a_key_that_stays_is_met_while_others_come_and_go(start):
    server = start("--hot-memory", "16mb")
    client = server.client()
    names = fill(client, 2000)
    stop = threading.Event()

    def disturb():
        rng, other = random.Random(1), server.client()
        while not stop.is_set():
            for _ in range(50):
                i = rng.randrange(5000)
                other.set(f"t{i}", "x" * 500)
                other.delete(f"t{rng.randrange(5000)}")
                other.get(f"k{rng.randrange(2000):05}")
            reload(other)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for count in (10, 100, 1000):
            assert names <= set(client.scan_iter(count=count))
            found = [n for n in client.keys("k*")]
            assert len(found) == 2000 and set(found) == names
    finally:
        stop.set()
        thread.join()


def test_a_random_key_is_any_key(server):
    client = server.client()
    assert client.randomkey() is None
    names = fill(client, 10)
    for _ in range(2):
        assert {client.randomkey() for _ in range(500)} == names
        reload(client)


def test_keys_in_a_transaction_sees_what_came_before(server):
    client = server.client()
    fill(client, 5)
    reload(client)
    with client.pipeline() as pipe:
        pipe.delete("k00003")
        pipe.set("new", 1)
        pipe.keys()
        assert sorted(pipe.execute()[2]) == [b"k00000", b"k00001", b"k00002", b"k00004", b"new"]
