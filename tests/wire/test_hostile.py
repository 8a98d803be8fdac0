# SPDX-License-Identifier: Apache-2.0
"""Clients that are many, slow, rude or gone; where Redis can be asked the same, it is."""
import contextlib
import os
import pathlib
import re
import resource
import socket
import stat
import struct
import threading
import time

import pytest
import redis

from conftest import Server
from diff.servers import Oracle
from waiting import wait_for_time, wait_until

MIB = 1024 * 1024
IDLE_COUNT = 10000
WAITER_COUNT = 1000


class Peer:
    """terraced or redis-server, with the same face."""

    def __init__(self, name, port):
        self.name, self.port = name, port

    def client(self, **options):
        return redis.Redis(port=self.port, socket_timeout=100, **options)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=100)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


@pytest.fixture
def launch(start):
    """launch(name, *options): a peer; all are gone after the test."""
    oracles, made = [], []

    def launch_one(name, *options):
        if name == "terraced":
            made.append(start(*options, name=f"data{len(made)}"))
            return Peer(name, made[-1].port)
        oracles.append(Oracle(*options))
        return Peer(name, oracles[-1].port)

    yield launch_one
    for oracle in oracles:
        oracle.stop()


@pytest.fixture(params=["terraced", "redis"])
def peer(request, launch):
    return launch(request.param)


@pytest.fixture
def both(launch):
    return lambda *options: (launch("terraced", *options), launch("redis", *options))


def words(*args):
    parts = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def hear(sock, reply):
    """Reads exactly this."""
    got = bytearray()
    while len(got) < len(reply):
        part = sock.recv(min(MIB, len(reply) - len(got)))
        assert part, got[-200:]
        got += part
    assert got == reply, got[-200:]


def hear_all(sock):
    """Everything until the server closes; a reset is an end too."""
    got = b""
    try:
        while part := sock.recv(MIB):
            got += part
    except ConnectionResetError:
        pass
    return got


def talk(peer, data):
    with peer.connect() as sock:
        sock.sendall(data)
        with contextlib.suppress(OSError):  # it may have been closed by now
            sock.shutdown(socket.SHUT_WR)
        return hear_all(sock)


def reset(sock):
    """The peer gets a reset, not an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def blocked_count(client):
    return client.info("clients")["blocked_clients"]


def blocked(peer, *command, count=1):
    """Connections that wait, in this order; the server has said so of each."""
    client, socks = peer.client(), []
    before = blocked_count(client)
    for i in range(count):
        socks.append(peer.connect())
        socks[-1].sendall(words(*command))
        wait_until(lambda: blocked_count(client) == before + i + 1)
    return socks


# ---- many ----

@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = IDLE_COUNT + 500
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"the system allows {hard} open files to a process")
    if soft != resource.RLIM_INFINITY and soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections(many_files, start):
    server = start("--maxclients", str(IDLE_COUNT + 100))
    client = server.client(socket_timeout=100)
    before = client.info("memory")["used_memory_rss"]
    socks = []
    try:
        for _ in range(IDLE_COUNT):
            socks.append(server.connect())
        wait_until(lambda: client.info("clients")["connected_clients"] == IDLE_COUNT + 1)
        assert client.info("memory")["used_memory_rss"] - before < IDLE_COUNT * 8 * 1024
        assert client.set("k", "v") and client.get("k") == b"v"
        for i in range(0, IDLE_COUNT, 100):
            socks[i].sendall(b"GET k\r\n")
        for i in range(0, IDLE_COUNT, 100):
            hear(socks[i], b"$1\r\nv\r\n")
        for sock in socks[::2]:
            sock.close()
        wait_until(lambda: client.info("clients")["connected_clients"] == IDLE_COUNT // 2 + 1)
        socks[1].sendall(b"PING\r\n")
        hear(socks[1], b"+PONG\r\n")
    finally:
        for sock in socks:
            sock.close()
    wait_until(lambda: client.info("clients")["connected_clients"] == 1)


def test_one_more_than_maxclients_is_told(both):
    for peer in both("--maxclients", "5"):
        first = peer.client()
        assert first.ping()
        socks = [peer.connect() for _ in range(4)]
        for sock in socks:
            sock.sendall(b"PING\r\n")
            hear(sock, b"+PONG\r\n")
        with peer.connect() as sock:
            assert hear_all(sock) == b"-ERR max number of clients reached\r\n"
        assert first.info("stats")["rejected_connections"] == 1
        socks.pop().close()
        wait_until(lambda: first.info("clients")["connected_clients"] == 4)
        with peer.connect() as sock:
            sock.sendall(b"PING\r\n")
            hear(sock, b"+PONG\r\n")


def test_a_thousand_waiters_are_served_in_order(peer):
    socks = blocked(peer, "BLPOP", "other", "line", 0, count=WAITER_COUNT)
    client = peer.client()
    assert client.rpush("line", *range(WAITER_COUNT - 10)) == WAITER_COUNT - 10
    for i in range(WAITER_COUNT - 10, WAITER_COUNT):
        assert client.rpush("line", i) == 1
    for i, sock in enumerate(socks):
        hear(sock, words("line", i))
        sock.close()
    assert client.exists("line") == 0 and blocked_count(client) == 0


# ---- slow, long, half closed ----

def test_byte_by_byte_on_many_connections(peer):
    data = [words("SET", f"k{i}", b"\r\n$" * i) + b"  get  k%d \r\n" % i for i in range(30)]
    socks = [peer.connect() for _ in data]
    for at in range(max(map(len, data))):
        for sock, text in zip(socks, data):
            sock.sendall(text[at:at + 1])
    for i, sock in enumerate(socks):
        value = b"\r\n$" * i
        hear(sock, b"+OK\r\n$%d\r\n%s\r\n" % (len(value), value))
        sock.close()


HUGE = [
    b"*2147483648\r\n", b"*9223372036854775808\r\n", b"*-2147483649\r\nPING\r\n",
    b"*1\r\n$536870913\r\n", b"*1\r\n$2147483648\r\n", b"*1\r\n$99999999999999999999\r\n",
    b"*1\r\n$-1\r\n", b"*1\r\n$-9223372036854775808\r\n", b"*-1\r\nPING\r\n", b"*0\r\nPING\r\n",
    b"*1048576\r\n$1\r\na\r\n", b"*1\r\n$536870912\r\nabc", b"*2\r\n$3\r\nGET\r\n$+1\r\na\r\n",
    b"*1\r\n$ 4\r\nPING\r\n", b"*1\r\n$4 \r\nPING\r\n", b"*+1\r\n$4\r\nPING\r\n",
    b"*1 \r\n$4\r\nPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1\r\n$4\r\nPINGxxPING\r\n",
    b"*\r\nPING\r\n", b"*1\r\n$\r\nPING\r\n", b"*1\r\n\r\n$4\r\nPING\r\n", b"\x00\r\n",
    b"\r\n\r\n\n", b"*1\n$4\nPING\n", b"*1\r\n$0\r\n\r\n", b"*1\r\n+PING\r\n",
]


def test_lengths_are_refused_as_redis_refuses_them(both):
    ours, theirs = both()
    for data in HUGE:
        assert talk(ours, data) == talk(theirs, data), data
    assert talk(ours, b"*1048577\r\n") == b"-ERR Protocol error: invalid multibulk length\r\n"
    assert ours.client().ping()


def spoilt(data):
    """Each byte in turn lost, doubled, and made every one that means something. (Not a NUL: Redis looks for the
    end of a line in front of it, and waits.)"""
    for at in range(len(data)):
        yield data[:at] + data[at + 1:]
        yield data[:at] + data[at:at + 1] + data[at:]
        for byte in b"\t\r\n \"$'*+-019:\\x\xff":
            if byte != data[at]:
                yield data[:at] + bytes([byte]) + data[at + 1:]


@pytest.mark.parametrize("request_", (
    words("SET", "k", "v") + words("GET", "k"), b'SET a "b c"\r\nGET a\r\n', b"*2\r\n$4\r\nECHO\r\n$-1\r\n",
    words("", "a") + b"PING\r\n"), ids=("bulks", "inline", "null", "empty"))
def test_a_request_with_a_spoilt_byte_is_answered_and_ended_as_redis_does(both, request_):
    """Who is not closed hears the echo."""
    ours, theirs = both()
    for data in dict.fromkeys(spoilt(request_)):
        data += words("ECHO", "still here")
        assert talk(ours, data) == talk(theirs, data), data


def test_announced_lengths_take_no_memory(start):
    server = start()
    client = server.client()
    before = client.info("memory")["used_memory_rss"]
    socks = [server.connect() for _ in range(200)]
    for sock in socks:
        sock.sendall(b"*1048576\r\n$3\r\nSET\r\n$536870912\r\nabc")
    wait_until(lambda: client.info("clients")["connected_clients"] == 201)
    assert client.ping()
    assert client.info("memory")["used_memory_rss"] - before < 64 * MIB
    for sock in socks:
        reset(sock)
    wait_until(lambda: client.info("clients")["connected_clients"] == 1)


def test_a_hundred_thousand_commands_in_one_write(peer):
    count = 100000
    with peer.connect() as sock:
        data = words("INCR", "n") * count + b"PING\r\n"
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        hear(sock, b"".join(b":%d\r\n" % i for i in range(1, count + 1)) + b"+PONG\r\n")
        sender.join()
    assert peer.client().get("n") == b"%d" % count


def test_a_half_closed_client_gets_its_replies(peer):
    assert talk(peer, b"SET a 1\r\n" + b"INCR a\r\n" * 1000) == \
        b"+OK\r\n" + b"".join(b":%d\r\n" % i for i in range(2, 1002))


def test_a_half_closed_client_that_waits_is_closed(peer):
    client = peer.client()
    sock, = blocked(peer, "BLPOP", "list", 0)
    sock.shutdown(socket.SHUT_WR)
    assert hear_all(sock) == b""
    assert client.rpush("list", "a") == 1 and client.lrange("list", 0, -1) == [b"a"]


# ---- who does not read ----

def test_a_subscriber_that_does_not_read_is_closed(both):
    for peer in both("--client-output-buffer-limit", *"pubsub 1mb 0 0".split()):
        client = peer.client()
        with peer.connect() as sock:
            sock.sendall(b"SUBSCRIBE news\r\n")
            wait_until(lambda: client.pubsub_numsub("news")[0][1] == 1)
            sent = 0
            while client.publish("news", bytes(100000)) == 1:
                sent += 1
                assert sent < 2000, "200 MB were kept for somebody who does not read"
            wait_until(lambda: client.info("clients")["connected_clients"] == 1)
            heard = hear_all(sock)
            assert heard.startswith(b"*3\r\n$9\r\nsubscribe\r\n")
        assert client.ping()


def test_a_client_that_does_not_read_is_closed(both):
    for peer in both("--client-output-buffer-limit", *"normal 20mb 0 0".split()):
        client = peer.client()
        client.set("v", bytes(30 * MIB))
        with peer.connect() as sock:
            sock.sendall(b"GET v\r\n")
            wait_until(lambda: client.info("clients")["connected_clients"] == 1)
            assert len(hear_all(sock)) < 30 * MIB
        assert client.strlen("v") == 30 * MIB


# ---- who goes ----

def test_a_blocked_client_can_be_killed(peer):
    client = peer.client()
    sock = peer.connect()
    sock.sendall(b"CLIENT ID\r\n")
    number = int(sock.recv(100)[1:])
    sock.sendall(words("BLPOP", "list", 0))
    wait_until(lambda: blocked_count(client) == 1)
    assert client.execute_command("CLIENT", "KILL", "ID", number) == 1
    assert hear_all(sock) == b""
    assert blocked_count(client) == 0
    assert client.rpush("list", "a") == 1 and client.llen("list") == 1


def test_what_is_pushed_is_not_given_to_the_dead(peer):
    client = peer.client()
    socks = blocked(peer, "BLMOVE", "list", "moved", "LEFT", "RIGHT", 0, count=50)
    for i, sock in enumerate(socks[:-1]):
        reset(sock) if i % 2 else sock.close()
    wait_until(lambda: blocked_count(client) == 1)
    assert client.rpush("list", "a", "b") == 2
    hear(socks[-1], b"$1\r\na\r\n")
    assert client.lrange("list", 0, -1) == [b"b"]
    assert client.lrange("moved", 0, -1) == [b"a"]


def test_a_transaction_dies_with_its_client(peer):
    client = peer.client()
    for leave in (socket.socket.close, reset):
        sock = peer.connect()
        sock.sendall(b"WATCH k\r\nMULTI\r\nSET k 1\r\nBLPOP l 0\r\n")
        hear(sock, b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n")
        leave(sock)
        wait_until(lambda: client.info("clients")["connected_clients"] == 1)
        assert client.get("k") is None and blocked_count(client) == 0
    assert client.set("k", 2)


def test_half_a_command_is_no_command(peer):
    client = peer.client()
    whole = words("SET", "k", "value")
    for end in range(1, len(whole)):
        assert talk(peer, whole[:end]) == b""
    assert client.get("k") is None
    assert talk(peer, whole) == b"+OK\r\n" and client.get("k") == b"value"


# ---- passwords and doors ----

BEFORE_AUTH = [
    "GET a", "PING", "PING x", "ECHO x", "SET a b", "MULTI", "DISCARD", "SUBSCRIBE a", "RESET",
    "COMMAND", "INFO", "CLIENT ID", "CLIENT SETNAME x", "SELECT 0", "NOPE", "NOPE a b", "GET",
    "CONFIG GET requirepass", "CONFIG", "QUIT", "AUTH", "AUTH x", "AUTH default x",
    "AUTH nobody secret", "AUTH a b c", "AUTH secret", "AUTH default secret",
    "HELLO 3 AUTH default x", "HELLO 4", "HELLO 3 AUTH default", "HELLO x", "SHUTDOWN", "FLUSHALL",
    "DEBUG SLEEP 0",
]
BIG_BEFORE_AUTH = [b"*11\r\n", b"*10\r\n" + b"$1\r\na\r\n" * 10, b"*1\r\n$16385\r\n",
                   words("ECHO", bytes(16384)), words("AUTH", "secret") + b"*11\r\n$1\r\na\r\n"]


def test_before_auth_only_auth_runs(both):
    ours, theirs = both("--requirepass", "secret")
    for data in [line.encode() + b"\r\n" for line in BEFORE_AUTH] + BIG_BEFORE_AUTH:
        assert talk(ours, data) == talk(theirs, data), data
    assert ours.client(password="secret").dbsize() == 0


@pytest.mark.parametrize("line", [b"EXEC\r\n", b"HELLO\r\n", b"HELLO 3\r\n"])
def test_before_auth_texts_are_those_of_redis(both, line):
    ours, theirs = both("--requirepass", "secret")
    assert talk(ours, line) == talk(theirs, line)


def test_wrong_passwords_change_nothing(both):
    for peer in both("--requirepass", "secret"):
        with peer.connect() as sock:
            sock.sendall(b"AUTH wrong\r\nGET a\r\nAUTH secret\r\nAUTH wrong\r\nGET a\r\n")
            wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
            hear(sock, wrong + b"-NOAUTH Authentication required.\r\n+OK\r\n" + wrong + b"$-1\r\n")
    for peer in both():
        assert b"without any password configured" in talk(peer, b"AUTH x\r\n")


def own_address():
    """An address of this machine that is not the loopback's, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith("127.") else address


def test_protected_mode_lets_only_this_machine_in(both):
    address = own_address()
    if not address:
        pytest.skip("this machine has only a loopback address")
    for peer in both("--bind", "0.0.0.0"):
        client = peer.client()
        with socket.create_connection((address, peer.port), timeout=100) as sock:
            assert hear_all(sock).startswith(b"-DENIED ")
        assert client.config_set("protected-mode", "no")
        with socket.create_connection((address, peer.port), timeout=100) as sock:
            sock.sendall(b"PING\r\n")
            hear(sock, b"+PONG\r\n")
        assert client.config_set("protected-mode", "yes")
        assert client.config_set("requirepass", "secret")
        with socket.create_connection((address, peer.port), timeout=100) as sock:
            sock.sendall(b"PING\r\n")
            hear(sock, b"-NOAUTH Authentication required.\r\n")


def test_the_unix_socket(tmp_path):
    path = tmp_path / "s"
    server = Server(tmp_path / "data", "--unixsocket", str(path), "--unixsocketperm", "700")
    try:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        client = redis.Redis(unix_socket_path=str(path))
        assert client.set("k", "v") and server.client().get("k") == b"v"
        assert client.client_info()["addr"] == f"{path}:0"
        pipe = client.pipeline(transaction=False)
        for i in range(10000):
            pipe.incr("n")
        assert pipe.execute() == list(range(1, 10001))
        client.close()
        assert server.stop() == 0
        assert not path.exists()
    finally:
        server.kill()
        server.errors.close()


# ---- descriptors ----

def cpu_seconds(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_descriptors_the_server_waits_and_does_not_spin(start):
    server = start()
    first = server.connect()
    first.sendall(b"PING\r\n")
    assert first.recv(7) == b"+PONG\r\n"
    pid = server.process.pid
    used = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
    late = [server.connect() for _ in range(10)]  # the system completes them
    for one in late:
        one.sendall(b"PING\r\n")
    wait_until(lambda: "could not accept" in server.stderr())
    before = cpu_seconds(server)
    wait_for_time(time.time() * 1000 + 2000)
    assert cpu_seconds(server) - before < 0.5
    first.sendall(b"PING\r\n")
    assert first.recv(7) == b"+PONG\r\n"
    first.close()  # its descriptor is for the first of those who wait
    for one in late:
        assert one.recv(7) == b"+PONG\r\n"
        one.close()
    assert server.stderr().count("could not accept") == 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert server.client().ping()


# ---- no memory ----

def memory_limit(server, more_bytes):
    """Of the process from now on: as much as it has, and so many bytes more; None: no limit."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    size = int(re.search(r"VmSize:\s+(\d+) kB", status).group(1)) * 1024
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    soft = hard if more_bytes is None else size + more_bytes
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (soft, hard))


def test_a_value_for_which_there_is_no_memory_harms_nobody(start):
    server = start()
    if re.search("lib[at]san", pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()):
        pytest.skip("a sanitizer has its own memory")
    client, other = server.client(socket_timeout=100), server.client()
    client.set("kept", "safe")
    client.set("grows", bytes(20 * MIB))
    assert client.save()  # who flushes needs memory as well, and is not meant here
    memory_limit(server, 48 * MIB)
    value = bytes(64 * MIB)
    for command in (("SET", "big", value), ("APPEND", "grows", value), ("MSET", "a", "1", "big", value)):
        with pytest.raises((redis.ResponseError, redis.ConnectionError)) as refused:
            client.execute_command(*command)
        assert other.ping() and other.get("kept") == b"safe" and other.incr("n"), refused
    assert other.exists("a", "big") == 0 and other.strlen("grows") == 20 * MIB
    wait_until(lambda: "there is no memory for its request" in server.stderr())
    memory_limit(server, None)
    assert client.set("big", value) and client.strlen("big") == len(value)
    assert client.append("grows", value) == 84 * MIB


def test_a_pipeline_may_be_sent_whole_before_the_first_reply_is_read(peer):
    """As redis-py does. 54 MB of requests and 28 MB of replies: more than sockets hold, so both would wait for ever if
    the server did not listen to who does not take his replies."""
    count, key = 400_000, b"k" * 108
    with peer.connect() as link:
        link.sendall(words("SET", key, b"v" * 64))
        hear(link, b"+OK\r\n")
        link.sendall(words("GET", key) * count)
        hear(link, (b"$64\r\n" + b"v" * 64 + b"\r\n") * count)
        link.sendall(words("PING"))
        hear(link, b"+PONG\r\n")


def client_field(client, name, field):
    line, = [line for line in client.client_list() if line["name"] == name]
    return int(line[field])


def test_who_is_always_behind_does_not_keep_the_replies_it_took(peer):
    """4 MiB of replies wait all the time, while 400 are taken."""
    other, value = peer.client(), b"v" * (MIB - len(b"$1048565\r\n\r\n"))
    reply = b"$%d\r\n%s\r\n" % (len(value), value)
    assert len(reply) == MIB
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        link.settimeout(60)
        link.connect(("127.0.0.1", peer.port))
        link.sendall(words("CLIENT", "SETNAME", "behind") + words("SET", "key", value) + words("GET", "key") * 4)
        hear(link, b"+OK\r\n" * 2)
        for _ in range(400):
            link.sendall(words("GET", "key"))
            hear(link, reply)
        assert client_field(other, "behind", "omem") < 64 * MIB
        hear(link, reply * 4)


def test_who_has_not_said_the_password_and_takes_no_replies_is_not_listened_to_for_long(start):
    server = start("--requirepass", "secret")
    with server.connect() as link:
        link.settimeout(2)
        sent, part = 0, words("GET", "k" * 100) * 1000
        with pytest.raises(TimeoutError):
            while sent < 128 * MIB:
                sent += link.send(part)
    assert server.client(password="secret").ping()


@pytest.mark.parametrize("request_", [b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\n\r\n", b"Host: localhost\r\n",
                                      words("post", "/")])
def test_a_browser_that_is_made_to_send_commands_is_closed_and_nothing_runs(peer, request_):
    with peer.connect() as link:
        link.sendall(request_ + b"SET pwn 1\r\n")
        assert hear_all(link) == b""
    assert peer.client().get("pwn") is None


def test_who_was_served_after_a_long_wait_is_not_idle(peer):
    """A worker with `timeout` set: what counts is when it was last spoken to, not only when it last spoke."""
    other = peer.client()
    with peer.connect() as link:
        link.sendall(words("CLIENT", "SETNAME", "worker") + words("BLPOP", "queue", "0"))
        hear(link, b"+OK\r\n")
        waited = wait_until(lambda: max(0, client_field(other, "worker", "idle") - 2))
        begin = time.monotonic()
        other.rpush("queue", "job")
        hear(link, words("queue", "job"))
        idle = client_field(other, "worker", "idle")
        assert idle < waited + 2 and idle <= time.monotonic() - begin + 1  # not since before it was served


def test_requests_wait_in_the_socket_while_others_of_the_client_run(server):
    """15 MB of short commands are sent faster than they can be served: that is no reason to keep them. Their replies are
    below 8 MiB: nobody waits for the client to take them."""
    other, count = server.client(), 1_900_000
    with server.connect() as link:
        link.sendall(words("CLIENT", "SETNAME", "fast"))
        hear(link, b"+OK\r\n")
        sender = threading.Thread(target=lambda: link.sendall(b"LLEN k\r\n" * count))
        sender.start()
        most = 0
        while sender.is_alive():
            most = max(most, client_field(other, "fast", "qbuf"))
        hear(link, b":0\r\n" * count)
    assert most < 4 * MIB


def test_a_pipeline_longer_than_client_query_buffer_limit_is_no_long_request(start):
    """Commands of 300 KB, behind one that waits, where 1 MB is the limit of one."""
    server = start("--client-query-buffer-limit", "1mb")
    value = b"v" * 300_000
    with server.connect() as link:
        link.sendall(words("BLPOP", "none", "0.3") + words("ECHO", value) * 20)
        hear(link, b"*-1\r\n" + (b"$300000\r\n" + value + b"\r\n") * 20)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # it may be closed before all is sent
            link.sendall(b"*2\r\n$4\r\nECHO\r\n$2000000\r\n" + b"v" * 1_500_000)
        assert hear_all(link) == b""
