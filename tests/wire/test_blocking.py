# SPDX-License-Identifier: Apache-2.0
"""Commands that wait for lists."""
import socket
import time

import pytest
import redis

from waiting import LIMIT_SECONDS, wait_until


class Waiter:
    """A connection whose command may not be answered yet."""

    def __init__(self, server):
        self.socket = server.connect()
        self.text = b""

    def say(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self.socket.sendall(b"$%d\r\n%s\r\n" % (len(data), data))
        return self

    def hear(self, reply, seconds=LIMIT_SECONDS):
        """Reads exactly this."""
        self.socket.settimeout(seconds)
        while len(self.text) < len(reply):
            part = self.socket.recv(65536)
            assert part, self.text
            self.text += part
        assert self.text[:len(reply)] == reply, self.text
        self.text = self.text[len(reply):]

    def is_silent(self):
        self.socket.settimeout(0.1)
        try:
            self.text += self.socket.recv(65536)
        except socket.timeout:
            pass
        return self.text == b""


def bulks(*words):
    return b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def pair(*words):
    return b"*%d\r\n" % len(words) + bulks(*words)


@pytest.fixture
def wait(server):
    """wait("BLPOP", "k", "0") returns a connection when the server says that it waits."""
    control = server.client()
    made = []

    def blocked():
        return control.info("clients")["blocked_clients"]

    def start(*words):
        before = blocked()
        made.append(Waiter(server).say(*words))
        wait_until(lambda: blocked() != before)
        return made[-1]

    yield start
    for one in made:
        one.socket.close()


def test_what_is_there_is_taken_at_once(server):
    client = server.client()
    client.rpush("b", "1", "2", "3", "4")
    one = Waiter(server)
    one.say("BLPOP", "a", "b", "0").hear(pair(b"b", b"1"))
    one.say("BRPOP", "a", "b", "0").hear(pair(b"b", b"4"))
    one.say("BLMOVE", "b", "c", "LEFT", "RIGHT", "0").hear(bulks(b"2"))
    one.say("BRPOPLPUSH", "b", "c", "0").hear(bulks(b"3"))
    one.say("BLMPOP", "0", "2", "b", "c", "LEFT", "COUNT", "5").hear(
        b"*2\r\n" + bulks(b"c") + pair(b"3", b"2"))
    assert client.dbsize() == 0


def test_a_push_serves_who_waits(server, wait):
    client = server.client()
    one = wait("BLPOP", "a", "b", "0")
    assert client.rpush("b", "x", "y") == 2
    one.hear(pair(b"b", b"x"))
    assert client.lrange("b", 0, -1) == [b"y"]


def test_who_came_first_is_served_first(server, wait):
    client = server.client()
    waiting = [wait("BLPOP", "k", "0") for _ in range(5)]
    client.rpush("k", *"abc")
    for one, word in zip(waiting, (b"a", b"b", b"c")):
        one.hear(pair(b"k", word))
    assert waiting[3].is_silent() and waiting[4].is_silent()
    client.rpush("k", "d", "e", "f")
    waiting[3].hear(pair(b"k", b"d"))
    waiting[4].hear(pair(b"k", b"e"))
    assert client.lrange("k", 0, -1) == [b"f"]


def test_a_chain_of_moves_serves_the_next_waiter(server, wait):
    client = server.client()
    last = wait("BLPOP", "c", "0")
    middle = wait("BLMOVE", "b", "c", "LEFT", "RIGHT", "0")
    first = wait("BRPOPLPUSH", "a", "b", "0")
    client.rpush("a", "x")
    first.hear(bulks(b"x"))
    middle.hear(bulks(b"x"))
    last.hear(pair(b"c", b"x"))
    assert client.dbsize() == 0


def test_blmpop_takes_several_when_they_come(server, wait):
    client = server.client()
    one = wait("BLMPOP", "0", "2", "a", "b", "RIGHT", "COUNT", "2")
    client.rpush("b", "x", "y", "z")
    one.hear(b"*2\r\n" + bulks(b"b") + pair(b"z", b"y"))


def test_time_runs_out(server):
    one = Waiter(server)
    start = time.monotonic()
    one.say("BLPOP", "a", "0.2").hear(b"*-1\r\n")
    assert time.monotonic() - start > 0.19
    one.say("BLMOVE", "a", "b", "LEFT", "LEFT", "0.01").hear(b"*-1\r\n")
    one.say("BRPOPLPUSH", "a", "b", "0.01").hear(b"*-1\r\n")
    one.say("BLMPOP", "0.01", "1", "a", "LEFT").hear(b"*-1\r\n")


def test_bad_timeouts_are_refused(server):
    client = server.client()
    for timeout, text in (("-1", "timeout is negative"), ("1e18", "timeout is negative"),
                          ("x", "timeout is not a float or out of range"),
                          ("nan", "timeout is not a float or out of range")):
        with pytest.raises(redis.ResponseError) as caught:
            client.execute_command("BLPOP", "a", timeout)
        assert str(caught.value) == text


def test_a_transaction_does_not_wait(server):
    one = Waiter(server)
    one.say("MULTI").hear(b"+OK\r\n")
    for words in (("BLPOP", "a", "0"), ("BLMOVE", "a", "b", "LEFT", "LEFT", "0"),
                  ("BRPOPLPUSH", "a", "b", "0"), ("BLMPOP", "0", "1", "a", "LEFT")):
        one.say(*words).hear(b"+QUEUED\r\n")
    one.say("EXEC").hear(b"*4\r\n*-1\r\n$-1\r\n$-1\r\n*-1\r\n")


def test_what_a_transaction_takes_back_is_not_seen(server, wait):
    client = server.client()
    one = wait("BLPOP", "k", "0")
    with client.pipeline() as multi:
        multi.rpush("k", "a").delete("k").rpush("k", "b")
        multi.execute()
    one.hear(pair(b"k", b"b"))


def test_another_type_is_an_error_at_the_start_only(server, wait):
    client = server.client()
    client.set("s", "x")
    one = Waiter(server)
    wrong = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    one.say("BLPOP", "a", "s", "0").hear(wrong)
    one.say("BLMOVE", "s", "b", "LEFT", "LEFT", "0").hear(wrong)
    two = wait("BLPOP", "k", "l", "0")
    client.set("k", "x")
    assert two.is_silent()
    client.rpush("l", "y")
    two.hear(pair(b"l", b"y"))


def test_a_cold_key_of_another_type_is_an_error_too(start):
    client = (server := start()).client()
    client.set("s", "x")
    assert server.stop() == 0
    server = start()
    one = Waiter(server)
    one.say("BLPOP", "s", "0").hear(
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")


def test_a_move_to_another_type_fails_when_it_is_served(server, wait):
    client = server.client()
    client.set("s", "x")
    one = wait("BLMOVE", "k", "s", "LEFT", "LEFT", "0")
    client.rpush("k", "a")
    one.hear(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
    assert client.lrange("k", 0, -1) == [b"a"]


def test_a_list_that_is_renamed_serves_who_waits(server, wait):
    client = server.client()
    one = wait("BLPOP", "k", "0")
    client.rpush("other", "a")
    client.rename("other", "k")
    one.hear(pair(b"k", b"a"))


def test_commands_behind_a_waiting_one_run_after_it(server, wait):
    client = server.client()
    one = wait("BLPOP", "k", "0")
    one.say("PING").say("RPUSH", "l", "x")
    assert one.is_silent()
    assert client.exists("l") == 0
    client.rpush("k", "a")
    one.hear(pair(b"k", b"a") + b"+PONG\r\n:1\r\n")


def test_who_has_gone_takes_nothing(server, wait):
    client = server.client()
    one = wait("BLPOP", "k", "0")
    one.socket.close()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 0)
    client.rpush("k", "a")
    assert client.lrange("k", 0, -1) == [b"a"]
