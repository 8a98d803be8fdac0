# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
import redis

MIB = 1024 * 1024


def test_values_hold_every_byte(server):
    client = server.client()
    every = bytes(range(256))
    assert client.set(every, every * 3)
    assert client.get(every) == every * 3
    for byte in range(256):
        client.set(b"key" + bytes([byte]), bytes([byte]))
    for byte in range(256):
        assert client.get(b"key" + bytes([byte])) == bytes([byte])
    assert client.set("", "") and client.get("") == b""


def test_get_set_del_answer_as_redis(server):
    client = server.client()
    assert client.get("a") is None
    assert client.set("a", "1") and client.set("a", "2") and client.get("a") == b"2"
    assert client.delete("a", "b", "a") == 1
    assert client.delete("a") == 0
    assert client.ping()


def test_a_pipeline_of_ten_thousand(server):
    pipe = server.client().pipeline(transaction=False)
    for i in range(5000):
        pipe.set(f"k{i % 100}", i)
        pipe.get(f"k{i % 100}")
    replies = pipe.execute()
    assert replies[0::2] == [True] * 5000
    assert replies[1::2] == [str(i).encode() for i in range(5000)]


def together(play, names):
    threads = [threading.Thread(target=play, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_pipelines_of_many_clients_keep_their_order(server):
    failures = []

    def play(name):
        client = server.client()
        for round_ in range(20):
            pipe = client.pipeline(transaction=False)
            for i in range(50):
                pipe.set(name, f"{round_}.{i}")
                pipe.get(name)
            if pipe.execute()[1::2] != [f"{round_}.{i}".encode() for i in range(50)]:
                failures.append(name)

    together(play, [f"c{n}" for n in range(8)])
    assert failures == []


def test_large_replies_of_many_clients_are_each_their_own(server):
    """Buffers of replies go from one connection to the next: nothing of another's is in them."""
    failures = []

    def play(name):
        client = server.client()
        items = [f"{name}.{i}".encode() * 10 for i in range(300)]
        client.rpush(name, *items)
        for round_ in range(10):
            pipe = client.pipeline(transaction=False)
            for _ in range(8 + round_):
                pipe.lrange(name, 0, -1)
            pipe.get("none")
            *replies, nothing = pipe.execute()
            if nothing is not None or any(reply != items for reply in replies):
                failures.append(name)

    together(play, [f"list{n}" for n in range(20)])
    assert failures == []


def test_a_hundred_mebibytes(server):
    client = server.client(socket_timeout=100)
    value = bytes(range(256)) * (100 * MIB // 256)
    assert client.set("big", value)
    assert client.get("big") == value
    assert client.delete("big") == 1
    assert client.get("big") is None


def test_keys_up_to_the_limit(server):
    client = server.client()
    longest = b"k" * 65536
    assert client.set(longest, "v") and client.get(longest) == b"v"
    with pytest.raises(redis.ResponseError, match="over the limit"):
        client.set(longest + b"k", "v")
    with pytest.raises(redis.ResponseError, match="over the limit"):
        client.get(longest + b"k")
    assert client.ping()


@pytest.mark.parametrize("command, text", [
    (["GET"], "wrong number of arguments for 'get' command"),
    (["GET", "a", "b"], "wrong number of arguments for 'get' command"),
    (["set", "a"], "wrong number of arguments for 'set' command"),
    (["DEL"], "wrong number of arguments for 'del' command"),
    (["PING", "a", "b"], "wrong number of arguments for 'ping' command"),
    (["SET", "a", "b", "NX", "XX"], "syntax error"),
    (["nope"], "unknown command 'nope', with args beginning with: "),
    (["nope", "a b", "c"], "unknown command 'nope', with args beginning with: 'a b' 'c' "),
    (["nope", "x" * 200, "c"],
     f"unknown command 'nope', with args beginning with: '{'x' * 128}' "),
    (["n" * 200], f"unknown command '{'n' * 128}', with args beginning with: "),
    (["COMMAND", "NOPE"], "unknown subcommand 'NOPE'. Try COMMAND HELP."),
])
def test_errors_are_worded_as_redis_words_them(server, command, text):
    with pytest.raises(redis.ResponseError) as raised:
        server.client().execute_command(*command)
    assert str(raised.value) == text


def test_info_counts_keys_exactly(server):
    client = server.client()
    assert "db0" not in client.info("keyspace")
    pipe = client.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"k{i % 700}", i)
    for i in range(0, 700, 7):
        pipe.delete(f"k{i}", f"k{i}", "none")
    pipe.execute()
    assert client.info("keyspace")["db0"]["keys"] == 600
    everything = client.info()
    assert everything["server_name"] == "terrace"
    assert everything["tcp_port"] == server.port
    assert everything["hot_dirty_bytes"] > 0 and everything["journal_frames"] > 0
    assert set(client.info("tiers")) >= {
        "hot_bytes", "hot_dirty_bytes", "hot_pinned_bytes", "loads", "journal_bytes", "flush_units",
        "engine_disk_bytes"}


def test_more_data_than_memory(start):
    server = start("--hot-memory", "4mb")
    client = server.client(socket_timeout=100)
    value = bytes(1000)
    for base in range(0, 40000, 1000):
        pipe = client.pipeline(transaction=False)
        for i in range(base, base + 1000):
            pipe.set(f"key{i}", value + str(i).encode())
        assert all(pipe.execute())
    assert client.info("keyspace")["db0"]["keys"] == 40000
    for base in range(0, 40000, 4001):
        pipe = client.pipeline(transaction=False)
        for i in range(base, min(base + 200, 40000)):
            pipe.get(f"key{i}")
        assert pipe.execute() == [value + str(i).encode()
                                  for i in range(base, min(base + 200, 40000))]
    tiers = client.info("tiers")
    assert tiers["loads"] > 0 and tiers["evicted_rows"] > 0
    assert client.delete(*[f"key{i}" for i in range(1000)]) == 1000
    assert client.info("keyspace")["db0"]["keys"] == 39000
