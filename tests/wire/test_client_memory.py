# SPDX-License-Identifier: Apache-2.0
"""maxmemory-clients: one budget for everything that clients hold, obeyed by closing who holds the most."""
import re

import pytest

from test_hostile import MIB, both, hear_all, launch, words  # noqa: F401
from waiting import wait_until


def evicted(client):
    return client.info("stats")["evicted_clients"]


def held(client):
    return client.info("memory")["mem_clients_normal"]


def peak_bytes(server):
    """Of resident memory; 0 for a build with a sanitizer, whose memory says nothing."""
    if "allocator_allocated" not in server.client().info("memory"):
        return 0
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def send_as_much_as_is_taken(sock, data):
    """Until everything is taken, or the server closes."""
    try:
        sock.sendall(data)
        return True
    except (ConnectionResetError, BrokenPipeError):
        return False


def test_half_requests_of_many_clients_stay_within_the_budget(both):  # noqa: F811
    for peer in both("--maxmemory-clients", "64mb"):
        client = peer.client()
        client.execute_command("CLIENT", "NO-EVICT", "ON")
        part = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (30 * MIB) + bytes(20 * MIB)
        socks = [peer.connect() for _ in range(20)]
        for sock in socks:
            send_as_much_as_is_taken(sock, part)
            wait_until(lambda: held(client) <= 64 * MIB)
        wait_until(lambda: evicted(client) >= 15)  # the last ones may still be on their way
        assert client.exists("k") == 0
        for sock in socks:
            sock.close()


def test_who_holds_the_most_is_closed_and_others_stay(both):  # noqa: F811
    for peer in both("--maxmemory-clients", "32mb"):
        client = peer.client()
        small, large = peer.connect(), peer.connect()
        small.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (2 * MIB) + bytes(MIB))
        send_as_much_as_is_taken(
            large, words("SET", "done", "1") + b"*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$%d\r\n" % (60 * MIB) +
            bytes(50 * MIB))
        assert hear_all(large) in (b"", b"+OK\r\n")
        assert client.get("done") == b"1", "what was committed stays"
        small.sendall(bytes(MIB) + b"\r\n")
        assert small.recv(100) == b"+OK\r\n"
        assert evicted(client) == 1


def test_a_queue_of_multi_counts(both):  # noqa: F811
    for peer in both("--maxmemory-clients", "16mb"):
        client = peer.client()
        with peer.connect() as sock:
            sock.sendall(words("MULTI"))
            send_as_much_as_is_taken(sock, words("SET", "k", bytes(100000)) * 300)
            assert hear_all(sock).startswith((b"", b"+OK\r\n"))
        wait_until(lambda: evicted(client) == 1)
        assert client.exists("k") == 0


@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH"])
def test_what_a_client_listens_to_counts(start, command):
    server = start("--maxmemory-clients", "8mb")
    client = server.client()
    with server.connect() as sock:
        for i in range(100):
            names = [b"%0100d:%d" % (i, j) for j in range(1000)]
            if evicted(client) == 1 or not send_as_much_as_is_taken(sock, words(command, *names)):
                break
        wait_until(lambda: evicted(client) == 1)


def test_monitors_that_never_read_stay_within_the_budget(both):  # noqa: F811
    for peer in both("--maxmemory-clients", "64mb"):
        client = peer.client()
        client.execute_command("CLIENT", "NO-EVICT", "ON")
        socks = [peer.connect() for _ in range(10)]
        for sock in socks:
            sock.sendall(words("MONITOR"))
        while evicted(client) < 10:
            client.set("k", bytes(100000))
            assert held(client) <= 64 * MIB
        assert client.ping()


def test_clients_that_never_read_stay_within_the_budget(start):
    server = start("--hot-memory", "16mb", "--maxmemory-clients", "64mb")
    client = server.client()
    client.execute_command("CLIENT", "NO-EVICT", "ON")
    client.set("v", bytes(MIB))
    socks = [server.connect() for _ in range(100)]
    for sock in socks:
        sock.sendall(words("GET", "v") * 20)
        assert held(client) <= 64 * MIB
    wait_until(lambda: evicted(client) > 50)
    assert peak_bytes(server) < (16 + 256 + 64) * MIB


def test_a_message_for_many_subscribers_stays_within_the_budget(start):
    server = start("--maxmemory-clients", "64mb", "--client-output-buffer-limit", *"pubsub 0 0 0".split())
    client = server.client()
    client.execute_command("CLIENT", "NO-EVICT", "ON")
    socks = [server.connect() for _ in range(100)]
    for sock in socks:
        sock.sendall(words("SUBSCRIBE", "news"))
    wait_until(lambda: client.pubsub_numsub("news")[0][1] == 100)
    before = peak_bytes(server)
    assert client.publish("news", bytes(16 * MIB)) == 100
    assert held(client) <= 64 * MIB and evicted(client) > 90
    assert peak_bytes(server) - before < 200 * MIB


def test_no_evict_is_honoured(both):  # noqa: F811
    for peer in both("--maxmemory-clients", "16mb"):
        client = peer.client()
        with peer.connect() as sock:
            sock.sendall(words("CLIENT", "NO-EVICT", "ON"))
            assert sock.recv(100) == b"+OK\r\n"
            sock.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (30 * MIB) + bytes(30 * MIB) + b"\r\n")
            assert sock.recv(100) == b"+OK\r\n"
        assert peer.client().strlen("k") == 30 * MIB


def test_a_smaller_budget_closes_at_once_and_percent_is_of_hot_memory(both):  # noqa: F811
    for peer in both("--maxmemory", "100mb"):
        client = peer.client()
        client.execute_command("CLIENT", "NO-EVICT", "ON")
        client.config_set("maxmemory-clients", "50%")
        with peer.connect() as sock:
            sock.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (30 * MIB) + bytes(20 * MIB))
            wait_until(lambda: held(client) > 20 * MIB)
            assert evicted(client) == 0
            client.config_set("maxmemory-clients", "10%")
            assert hear_all(sock) == b""
        assert evicted(client) == 1
        assert client.config_get("maxmemory-clients") == {"maxmemory-clients": "10%"}
        client.config_set("maxmemory-clients", "0")


def test_the_default_is_a_bound(start):
    server = start("--hot-memory", "16mb")
    client = server.client()
    assert client.config_get("maxmemory-clients") == {"maxmemory-clients": "auto"}
    assert client.info("memory")["maxmemory_clients"] == 256 * MIB
    client.config_set("hot-memory", "1gb")
    assert client.info("memory")["maxmemory_clients"] == 1024 * MIB


def test_the_whole_process_stays_within_what_the_docs_say(start):
    """docs/performance.md: hot-memory, 256 MiB, maxmemory-clients, and what one command changes, twice."""
    server = start("--hot-memory", "32mb")
    client = server.client()
    client.execute_command("CLIENT", "NO-EVICT", "ON")
    socks = [server.connect() for _ in range(140)]
    for i in range(6):
        client.set(f"k{i}", bytes([65 + i]) * (64 * MIB))
    for i in range(6):
        assert client.get(f"k{i}") == bytes([65 + i]) * (64 * MIB)
    for sock in socks[10:40]:
        send_as_much_as_is_taken(sock, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (30 * MIB) + bytes(20 * MIB))
    for sock in socks[:10]:
        sock.sendall(words("MONITOR"))
    client.set("v", bytes(4 * MIB))
    for sock in socks[40:]:
        sock.sendall(words("GET", "v") * 4)
    wait_until(lambda: evicted(client) > 10 and held(client) <= 256 * MIB)
    assert client.strlen("k0") == 64 * MIB
    assert peak_bytes(server) < (32 + 256 + 256 + 2 * 64) * MIB
