# SPDX-License-Identifier: Apache-2.0
"""Bytes on the socket: what is no RESP is answered as Redis answers, and the connection closed."""
import contextlib
import socket

import pytest


def talk(server, data, close_write=True):
    """Sends, and reads until the server closes; that may be while more is on its way to it."""
    with server.connect() as sock:
        answer = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            sock.sendall(data)
            if close_write:
                sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while part := sock.recv(65536):
                answer += part
        return answer


@pytest.mark.parametrize("data, text", [
    (b"*x\r\n", "invalid multibulk length"),
    (b"*1048577\r\n", "invalid multibulk length"),
    (b"*1\r\n$x\r\n", "invalid bulk length"),
    (b"*1\r\n$-5\r\n", "invalid bulk length"),
    (b"*1\r\n$536870913\r\n", "invalid bulk length"),
    (b"*1\r\n:1\r\n", "expected '$', got ':'"),
    (b'SET a "b\r\n', "unbalanced quotes in request"),
    (b"x" * 70000, "too big inline request"),
    (b"*" + b"1" * 70000, "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70000, "too big bulk count string"),
])
def test_protocol_errors_close_the_connection(server, data, text):
    assert talk(server, data, close_write=False) == f"-ERR Protocol error: {text}\r\n".encode()
    assert server.client().ping()


def test_what_came_before_an_error_is_answered(server):
    answer = talk(server, b"SET a 1\r\n*1\r\n$3\r\nfoo\r\nGET a\r\n*y\r\nGET a\r\n", close_write=False)
    assert answer == (b"+OK\r\n-ERR unknown command 'foo', with args beginning with: \r\n"
                      b"$1\r\n1\r\n-ERR Protocol error: invalid multibulk length\r\n")


def test_inline_commands(server):
    assert talk(server, b"PING\r\npInG hello\r\n") == b"+PONG\r\n$5\r\nhello\r\n"
    assert talk(server, b"PING\r\n\r\nset k \"a\\x00b\"\nGET k\r\n") == \
        b"+PONG\r\n+OK\r\n$3\r\na\x00b\r\n"


def test_a_half_closed_client_gets_its_replies(server):
    assert talk(server, b"PING\r\n" * 3000) == b"+PONG\r\n" * 3000


def test_quit_answers_and_runs_nothing_behind_it(server):
    assert talk(server, b"SET q 1\r\nQUIT\r\nSET q 2\r\n", close_write=False) == b"+OK\r\n+OK\r\n"
    assert server.client().get("q") == b"1"


def test_a_request_byte_by_byte(server):
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n":
            sock.sendall(bytes([byte]))
        answer = b""
        while len(answer) < len(b"+OK\r\n$5\r\nhello\r\n"):
            answer += sock.recv(100)
        assert answer == b"+OK\r\n$5\r\nhello\r\n"


def test_a_client_that_leaves_in_the_middle_harms_nobody(server):
    for data in (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nhalf", b"GET ", b"*", b"\x00\xff" * 100):
        sock = server.connect()
        sock.sendall(data)
        sock.close()
    assert server.client().get("k") is None


def test_a_client_that_reads_nothing_harms_nobody(server):
    client = server.client()
    client.set("v", b"x" * 1000000)
    with server.connect() as sock:
        sock.sendall(b"GET v\r\n" * 600)
        for _ in range(50):
            assert client.get("v") == b"x" * 1000000
        assert client.info("memory")["used_memory_rss"] < 900 * 1024 * 1024
        left = 600 * len(b"$1000000\r\n\r\n") + 600 * 1000000
        while part := left > 0 and sock.recv(1 << 20):
            left -= len(part)
        assert left == 0


def test_an_announced_length_takes_no_memory(server):
    client = server.client()
    before = client.info("memory")["used_memory_rss"]
    socks = []
    for _ in range(50):
        sock = server.connect()
        sock.sendall(b"*2\r\n$3\r\nGET\r\n$536870912\r\nabc")
        socks.append(sock)
    assert client.ping()
    assert client.info("memory")["used_memory_rss"] - before < 64 * 1024 * 1024
    for sock in socks:
        sock.close()
