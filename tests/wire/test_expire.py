# SPDX-License-Identifier: Apache-2.0
"""Deadlines: setting, asking, and keys that go by themselves."""
import time

import pytest
import redis

from talk import Link
from waiting import wait_for_time, wait_until


def error(client, *args):
    with pytest.raises(redis.ResponseError) as info:
        client.execute_command(*args)
    return str(info.value)


def reload(client):
    assert client.execute_command("DEBUG", "RELOAD")


def now_ms():
    return int(time.time() * 1000)


@pytest.mark.parametrize("cold", [False, True])
def test_every_way_to_set_a_deadline_can_be_asked_for(server, cold):
    client = server.client()
    at = now_ms() + 500_000
    for name, args in {"a": ("EXPIRE", 500), "b": ("PEXPIRE", 500_000),
                       "c": ("EXPIREAT", at // 1000), "d": ("PEXPIREAT", at)}.items():
        client.set(name, 1)
        if cold:
            reload(client)
        assert client.execute_command(args[0], name, args[1]) == 1
        if cold:
            reload(client)
        assert 400 <= client.ttl(name) <= 500
        assert 400_000 < client.pttl(name) <= 500_000
        assert abs(client.execute_command("EXPIRETIME", name) - at / 1000) <= 100
        assert abs(client.execute_command("PEXPIRETIME", name) - at) <= 100_000
    assert client.execute_command("PEXPIRETIME", "d") == at
    assert client.persist("d") and not client.persist("d")
    for command in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"):
        assert client.execute_command(command, "d") == -1
        assert client.execute_command(command, "none") == -2
    assert client.expire("none", 10) == 0 and not client.persist("none")


def test_conditions_on_the_deadline_that_is_there(server):
    client = server.client()
    client.set("k", 1)

    def expire(seconds, *flags):
        return client.execute_command("EXPIRE", "k", seconds, *flags)

    assert expire(100, "XX") == 0 and client.ttl("k") == -1
    assert expire(100, "GT") == 0
    assert expire(100, "NX") == 1
    assert expire(200, "NX") == 0
    assert expire(50, "GT") == 0 and expire(200, "GT") == 1
    assert expire(300, "LT") == 0 and expire(100, "LT", "XX") == 1
    client.persist("k")
    assert expire(300, "LT") == 1
    assert error(client, "EXPIRE", "k", "10", "NX", "XX") == \
        "NX and XX, GT or LT options at the same time are not compatible"
    assert error(client, "EXPIRE", "k", "10", "GT", "LT") == \
        "GT and LT options at the same time are not compatible"
    assert error(client, "EXPIRE", "k", "x", "now") == "Unsupported option now"


def test_a_deadline_in_the_past_removes_the_key(server):
    client = server.client()
    for args in (("EXPIRE", 0), ("EXPIRE", -1), ("PEXPIREAT", 1), ("EXPIREAT", 0)):
        client.set("k", 1)
        assert client.execute_command(args[0], "k", args[1]) == 1
        assert client.dbsize() == 0


def test_times_that_do_not_fit_are_refused(server):
    client = server.client()
    client.set("k", 1)
    most = 2 ** 63 - 1
    assert error(client, "EXPIRE", "k", most) == "invalid expire time in 'expire' command"
    assert error(client, "PEXPIRE", "k", most) == "invalid expire time in 'pexpire' command"
    assert error(client, "EXPIREAT", "k", most) == "invalid expire time in 'expireat' command"
    assert error(client, "EXPIRE", "k", "1.5") == "value is not an integer or out of range"
    assert client.execute_command("PEXPIREAT", "k", most) == 1
    assert client.execute_command("PEXPIRETIME", "k") == most
    assert client.get("k") == b"1"


def test_a_key_disappears_for_every_command_at_once(server):
    client = server.client()
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    client.set("k", "v", px=1)
    client.rpush("l", "a")
    client.pexpire("l", 1)
    wait_for_time(now_ms() + 1)
    assert client.get("k") is None and client.exists("k", "l") == 0
    assert client.type("l") == b"none" and client.llen("l") == 0
    assert client.keys() == [] and client.scan()[1] == [] and client.randomkey() is None
    assert client.delete("k") == 0
    assert client.rpush("l", "b") == 1  # nothing of the old list is left
    assert client.ttl("l") == -1
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "1")
    wait_until(lambda: client.dbsize() == 1)


@pytest.mark.parametrize("cold", [False, True])
def test_keys_go_and_say_so_though_nobody_asks(server, cold):
    client = server.client()
    client.config_set("notify-keyspace-events", "Ex")
    listener = server.client().pubsub()
    listener.psubscribe("__keyevent@*__:expired")
    assert listener.get_message(timeout=100)["type"] == "psubscribe"
    for i in range(50):
        client.set(f"k{i}", "v")
        client.pexpire(f"k{i}", 400 + i)
    client.hset("h", "f", "v")
    client.pexpire("h", 420)
    client.set("stays", 1)
    if cold:
        reload(client)
    heard = set()
    while len(heard) < 51:
        message = listener.get_message(timeout=100)
        assert message is not None, len(heard)
        heard.add(message["data"])
    assert heard == {f"k{i}".encode() for i in range(50)} | {b"h"}
    assert client.dbsize() == 1
    assert client.info("stats")["expired_keys"] >= 51


def test_deadlines_pass_while_the_server_is_down(start):
    server = start()
    client = server.client()
    client.set("short", 1, px=300)
    client.set("long", 1, ex=1000)
    reload(client)
    client.set("hot", 1, px=300)
    deadline = now_ms() + 300
    server.kill()
    wait_for_time(deadline)
    server = start()
    client = server.client()
    assert client.get("short") is None
    wait_until(lambda: client.dbsize() == 1)
    assert 990 < client.ttl("long") <= 1000


def test_a_later_deadline_is_the_one_that_counts(server):
    client = server.client()
    # In one write: nothing of it is late.
    assert Link(server).say("SET k 1 PX 300", "EXPIRE k 1000", "SET p 1 PX 300", "PERSIST p", "SET again 1 PX 300",
                            "SET again 2", "SET younger 1 PX 300") == ["+OK", ":1", "+OK", ":1", "+OK", "+OK", "+OK"]
    wait_until(lambda: client.dbsize() == 3)  # the sweep has passed the deadlines that were set first
    assert client.mget("k", "p", "again") == [b"1", b"1", b"2"]
    assert client.rename("k", "renamed")
    assert client.pexpire("renamed", 30)
    wait_until(lambda: client.dbsize() == 2)
