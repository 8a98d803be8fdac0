# SPDX-License-Identifier: Apache-2.0
"""What a client may take: the bounds of its replies and of its buffers, where Redis can be asked the same it is."""
import pytest

from test_hostile import both, hear_all, launch, words  # noqa: F401
from waiting import wait_until

KIB = 1024
NAME = "long-key-name-prefix-of-a-hundred-bytes-" + "-" * 60


def closed_by(peer, *commands):
    """What comes back before the server closes; it has to close."""
    with peer.connect() as sock:
        sock.sendall(b"".join(words(*command) for command in commands))
        return hear_all(sock)


LONG = [
    [("GET", "string")],
    [("MGET", *["string"] * 4)],
    [("LRANGE", "list", 0, -1)],
    [("HGETALL", "hash")],
    [("SMEMBERS", "set")],
    [("ZRANGE", "zset", 0, -1)],
    [("KEYS", "*")],
    [("HRANDFIELD", "hash", -999999999)],
    [("HRANDFIELD", "hash", -999999999, "WITHVALUES")],
    [("SRANDMEMBER", "set", -999999999)],
    [("ZRANDMEMBER", "zset", -999999999)],
    [("SUNION", "set", "none")],
    [("SORT", "list", "ALPHA")],
]


@pytest.mark.parametrize("commands", LONG, ids=lambda commands: commands[0][0])
def test_a_reply_over_the_hard_limit_closes_its_client_while_it_is_built(both, commands):  # noqa: F811
    for peer in both("--client-output-buffer-limit", *"normal 100000 0 0".split()):
        client = peer.client()
        client.set("string", bytes(300 * KIB))
        for i in range(0, 2000, 100):
            names = [f"{NAME}{i + j}" for j in range(100)]
            client.rpush("list", *names)
            client.hset("hash", mapping={name: name for name in names})
            client.sadd("set", *names)
            client.zadd("zset", {name: 1 for name in names})
            client.mset({name: 1 for name in names[:60]})
        assert closed_by(peer, *commands, ("SET", "behind", 1)) == b""
        assert client.exists("behind") == 0
        assert client.ping()


def test_an_exec_over_the_hard_limit_runs_to_its_end_and_closes_its_client(both):  # noqa: F811
    for peer in both("--client-output-buffer-limit", *"normal 100000 0 0".split()):
        client = peer.client()
        client.set("k1", bytes(50000))
        queued = [("SET", "k2", "v2"), *[("GET", "k1")] * 6, ("SET", "k3", "v3"), ("HGET", "k1", "f"),
                  ("CLIENT", "SETNAME", "x"), ("PUBLISH", "channel", "m"), ("DEL", "k1"), ("SET", "k4", "v4")]
        said = closed_by(peer, ("MULTI",), *queued, ("EXEC",), ("SET", "behind", 1))
        assert said in (b"", b"+OK\r\n" + b"+QUEUED\r\n" * len(queued))
        assert client.mget("k1", "k2", "k3", "k4", "behind") == [None, b"v2", b"v3", b"v4", None]


def test_who_wants_no_reply_is_not_closed_for_its_length(both):  # noqa: F811
    for peer in both("--client-output-buffer-limit", *"normal 100000 0 0".split()):
        client = peer.client()
        client.set("string", bytes(300 * KIB))
        with peer.connect() as sock:
            sock.sendall(words("CLIENT", "REPLY", "OFF") + words("GET", "string") +
                         words("CLIENT", "REPLY", "ON"))
            assert sock.recv(100) == b"+OK\r\n"


def test_a_subscriber_is_closed_before_a_message_over_its_limit_is_kept(both):  # noqa: F811
    for peer in both("--client-output-buffer-limit", *"pubsub 1mb 0 0".split()):
        client = peer.client()
        with peer.connect() as sock:
            sock.sendall(words("SUBSCRIBE", "news"))
            wait_until(lambda: client.pubsub_numsub("news")[0][1] == 1)
            assert client.publish("news", bytes(2 * KIB * KIB)) == 1
            assert hear_all(sock).startswith(b"*3\r\n$9\r\nsubscribe\r\n")
        wait_until(lambda: client.pubsub_numsub("news")[0][1] == 0)


def test_a_client_closed_for_its_output_is_counted_and_logged(start):
    server = start("--client-output-buffer-limit", *"normal 100000 0 0".split())
    client = server.client()
    client.set("string", bytes(300 * KIB))
    assert client.info("stats")["client_output_buffer_limit_disconnections"] == 0
    assert closed_by(server, ("GET", "string")) == b""
    assert client.info("stats")["client_output_buffer_limit_disconnections"] == 1
    wait_until(lambda: "client-output-buffer-limit" in server.stderr())
