# SPDX-License-Identifier: Apache-2.0
"""Commands on keys of any type, and on databases."""
import time

import pytest
import redis


def error(client, *args):
    with pytest.raises(redis.ResponseError) as info:
        client.execute_command(*args)
    return str(info.value)


def reload(client):
    """Everything goes to the engine, nothing stays in memory."""
    assert client.execute_command("DEBUG", "RELOAD")


def fill(client):
    client.set("string", "value")
    client.set("long", "x" * 20000)
    client.hset("hash", mapping={f"f{i}": i for i in range(600)})
    client.rpush("list", *range(600))
    client.sadd("set", *[f"m{i}" for i in range(600)])
    client.zadd("zset", {f"m{i}": i for i in range(600)})


CONTENT = {
    "string": lambda c, k: c.get(k),
    "long": lambda c, k: c.get(k),
    "hash": lambda c, k: c.hgetall(k),
    "list": lambda c, k: c.lrange(k, 0, -1),
    "set": lambda c, k: c.smembers(k),
    "zset": lambda c, k: c.zrange(k, 0, -1, withscores=True),
}


def content(client, name, kind):
    return CONTENT[kind](client, name)


# ---- DEL, EXISTS, TYPE ----

def test_del_and_unlink_count_the_keys_that_were_there(server):
    client = server.client()
    fill(client)
    assert client.delete("string", "none", "string", "hash") == 2
    assert client.unlink("list", "none") == 1
    reload(client)
    assert client.delete("set", "zset", "long") == 3
    assert client.dbsize() == 0


def test_exists_counts_a_key_as_often_as_it_is_named(server):
    client = server.client()
    client.set("a", 1)
    assert client.exists("a", "a", "none") == 2
    assert client.touch("a", "none") == 1
    reload(client)
    assert client.exists("a", "a", "none") == 2


def test_type_names_every_type(server):
    client = server.client()
    fill(client)
    for _ in range(2):
        assert [client.type(k) for k in ("string", "long", "hash", "list", "set", "zset", "none")] \
            == [b"string", b"string", b"hash", b"list", b"set", b"zset", b"none"]
        reload(client)


# ---- RENAME ----

@pytest.mark.parametrize("cold", [False, True])
def test_rename_keeps_everything_but_the_name(server, cold):
    client = server.client()
    fill(client)
    for kind in CONTENT:
        client.expire(kind, 1000)
    if cold:
        reload(client)
    for kind in CONTENT:
        before = content(client, kind, kind)
        assert client.rename(kind, "new")
        assert not client.exists(kind)
        assert content(client, "new", kind) == before
        assert 990 < client.ttl("new") <= 1000
        assert client.rename("new", kind)
    assert client.dbsize() == 6


def test_rename_errors(server):
    client = server.client()
    client.set("a", 1)
    client.set("b", 2)
    assert error(client, "RENAME", "none", "a") == "no such key"
    assert error(client, "RENAME", "none", "none") == "no such key"
    assert error(client, "RENAMENX", "none", "a") == "no such key"
    assert client.rename("a", "a")
    assert not client.renamenx("a", "a")
    assert not client.renamenx("a", "b")
    assert client.renamenx("a", "c")
    assert client.mget("a", "b", "c") == [None, b"2", b"1"]


# ---- COPY and MOVE ----

@pytest.mark.parametrize("cold", [False, True])
def test_copy_makes_an_independent_key(server, cold):
    client = server.client()
    other = server.client(db=3)
    fill(client)
    client.expire("hash", 1000)
    if cold:
        reload(client)
    for kind in CONTENT:
        assert client.copy(kind, "copy:" + kind)
        assert client.copy(kind, kind, destination_db=3)
        assert content(client, "copy:" + kind, kind) == content(client, kind, kind)
        assert content(other, kind, kind) == content(client, kind, kind)
    assert 990 < client.ttl("copy:hash") <= 1000
    assert 990 < other.ttl("hash") <= 1000
    client.hset("copy:hash", "f0", "changed")
    assert client.hget("hash", "f0") == b"0"
    assert client.delete("hash") == 1
    assert client.hget("copy:hash", "f599") == b"599"


def test_copy_over_a_key_needs_replace(server):
    client = server.client()
    client.set("a", 1)
    client.rpush("b", 2)
    assert not client.copy("a", "b")
    assert not client.copy("none", "c")
    assert client.copy("a", "b", replace=True)
    assert client.get("b") == b"1"
    assert client.dbsize() == 2


def test_copy_and_move_errors(server):
    client = server.client()
    client.set("a", 1)
    same = "source and destination objects are the same"
    assert error(client, "COPY", "a", "a") == same
    assert error(client, "COPY", "a", "b", "DB", "99") == "DB index is out of range"
    assert error(client, "COPY", "a", "b", "DB", "x") == "value is not an integer or out of range"
    assert error(client, "COPY", "a", "b", "DB") == "syntax error"
    assert error(client, "COPY", "a", "b", "NOW") == "syntax error"
    assert error(client, "MOVE", "a", "0") == same
    assert error(client, "MOVE", "a", "-1") == "DB index is out of range"
    assert error(client, "MOVE", "a", "x") == "value is not an integer or out of range"
    assert error(client, "MOVE", "a", "99999999999") == \
        "value is out of range, value must between -2147483648 and 2147483647"


@pytest.mark.parametrize("cold", [False, True])
def test_move_takes_a_key_to_another_database(server, cold):
    client = server.client()
    other = server.client(db=5)
    fill(client)
    client.expire("zset", 1000)
    before = {kind: content(client, kind, kind) for kind in CONTENT}
    other.set("string", "taken")
    if cold:
        reload(client)
    assert not client.move("string", 5)
    assert not client.move("none", 5)
    for kind in CONTENT:
        if kind != "string":
            assert client.move(kind, 5)
            assert content(other, kind, kind) == before[kind]
    assert 990 < other.ttl("zset") <= 1000
    assert client.keys() == [b"string"]
    assert other.dbsize() == 6


# ---- databases ----

def test_dbsize_is_exact_whatever_is_cold(server):
    client = server.client()
    for i in range(100):
        client.set(f"k{i}", i)
    reload(client)
    client.set("k0", "again")
    client.set("new", 1)
    client.delete("k1", "none")
    assert client.dbsize() == 100
    assert len(client.keys()) == 100


def test_flushdb_empties_one_database_and_flushall_all(start):
    server = start()
    zero, one = server.client(), server.client(db=1)
    for client in (zero, one):
        fill(client)
    reload(zero)
    zero.set("hot", 1)
    assert zero.execute_command("FLUSHDB", "ASYNC")
    assert (zero.dbsize(), one.dbsize()) == (0, 6)
    assert zero.keys() == [] and not zero.exists("hash", "hot")
    server.kill()
    server = start()
    zero, one = server.client(), server.client(db=1)
    assert (zero.dbsize(), one.dbsize()) == (0, 6)
    assert one.hget("hash", "f1") == b"1"
    assert error(one, "FLUSHALL", "NOW") == "syntax error"
    assert error(one, "FLUSHDB", "SYNC", "ASYNC") == "syntax error"
    assert one.execute_command("FLUSHALL", "SYNC")
    assert one.dbsize() == 0 and one.keys() == []


def test_swapdb_exchanges_databases_for_everybody(start):
    server = start()
    zero, one = server.client(), server.client(db=1)
    zero.set("name", "zero")
    one.set("name", "one")
    one.set("more", 1)
    assert zero.swapdb(0, 1)
    assert (zero.get("name"), one.get("name")) == (b"one", b"zero")
    assert (zero.dbsize(), one.dbsize()) == (2, 1)
    server.kill()
    server = start()
    zero, one = server.client(), server.client(db=1)
    assert (zero.get("name"), one.get("name")) == (b"one", b"zero")
    assert error(zero, "SWAPDB", "a", "1") == "invalid first DB index"
    assert error(zero, "SWAPDB", "0", "b") == "invalid second DB index"
    assert error(zero, "SWAPDB", "0", "99") == "DB index is out of range"


def test_swapdb_in_a_transaction_is_one_step(server):
    zero = server.client()
    zero.set("name", "zero")
    reload(zero)
    with zero.pipeline() as pipe:
        pipe.execute_command("SWAPDB", "0", "1")
        pipe.get("name")  # of what was in 1, and cold
        pipe.execute_command("SWAPDB", "0", "1")
        pipe.get("name")
        assert pipe.execute() == [True, None, True, b"zero"]
    assert zero.get("name") == b"zero"


def test_wait_finds_no_replicas(server):
    client = server.client()
    assert client.execute_command("WAIT", "0", "0") == 0
    begin = time.monotonic()
    assert client.execute_command("WAIT", "1", "100") == 0
    assert time.monotonic() - begin > 0.09  # the server counts whole milliseconds
    assert error(client, "WAIT", "x", "0") == "value is not an integer or out of range"
    assert error(client, "WAIT", "0", "x") == "timeout is not an integer or out of range"
    assert error(client, "WAIT", "0", "-1") == "timeout is negative"


# ---- OBJECT ----

def test_object_answers_as_redis(server):
    client = server.client()
    client.set("int", 42)
    client.set("text", "hello")
    client.rpush("list", "a")
    for _ in range(2):
        assert client.object("ENCODING", "int") == b"int"
        assert client.object("ENCODING", "text") == b"embstr"
        assert client.object("REFCOUNT", "int") == 2147483647
        assert client.object("REFCOUNT", "text") == 1
        assert client.object("IDLETIME", "text") == 0
        assert client.object("ENCODING", "none") is None
        assert error(client, "OBJECT", "FREQ", "text").startswith("An LFU maxmemory policy")
        reload(client)
    assert error(client, "OBJECT", "NOW", "x") == "unknown subcommand 'NOW'. Try OBJECT HELP."
    assert error(client, "OBJECT") == "wrong number of arguments for 'object' command"
    assert client.execute_command("OBJECT HELP")[0].startswith(b"OBJECT <subcommand>")


# ---- NAMESPACE ----

def names(client):
    return {row[1].decode(): row[3] for row in client.execute_command("NAMESPACE", "LIST")}


def test_a_namespace_is_registered_listed_and_dropped(start):
    server = start()
    client = server.client()
    assert len(names(client)) == 16
    assert client.execute_command("NAMESPACE", "REGISTER", "shop.cart", "20")
    assert names(client)["shop.cart"] == 20
    shop = server.client(db=20)
    shop.set("k", "v")
    assert "a client has selected the namespace" in error(client, "NAMESPACE", "DROP", "shop.cart")
    shop.close()
    server.kill()
    server = start()
    client = server.client()
    assert names(client)["shop.cart"] == 20
    shop = server.client(db=20)
    assert shop.get("k") == b"v"
    shop.execute_command("SELECT", "0")
    assert client.execute_command("NAMESPACE", "DROP", "shop.cart")
    assert "shop.cart" not in names(client)
    assert error(client, "SELECT", "20") == "DB index is out of range"
    assert client.execute_command("NAMESPACE", "REGISTER", "shop.cart", "21")
    assert server.client(db=21).dbsize() == 0


def test_namespaces_that_would_collide_are_refused(server):
    client = server.client()
    register = ("NAMESPACE", "REGISTER")
    assert client.execute_command(*register, "shop.cart", "20")
    assert "index 20 has a namespace" in error(client, *register, "shop.other", "20")
    assert "exists with index 20" in error(client, *register, "shop.cart", "21")
    assert "begin alike" in error(client, *register, "shop.cartoon", "21")
    assert "group.service" in error(client, *register, "shop", "21")
    assert error(client, *register, "a.b", "99999") == "DB index is out of range"
    assert "always there" in error(client, "NAMESPACE", "DROP", "default.03")
    assert error(client, "NAMESPACE", "DROP", "no.such") == "no such namespace"
