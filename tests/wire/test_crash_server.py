# SPDX-License-Identifier: Apache-2.0
"""kill -9 under writing clients: what was acknowledged is there, in order, and MULTIs are whole.

Each client writes in one order, so what is found after the crash is what its first N commands make, with
N between what was acknowledged and what was sent.
"""
import random
import threading

import pytest

from diff.resp import Closed, Connection
from diff.runner import knows

ROUNDS = 50
BATCH = 8  # commands in flight a client
DURABILITY = ("everysec", "always", "no")


class Writer:
    """One kind of writing on keys of its own; sent and acked count its operations for ever."""
    needs = ()

    def __init__(self, name):
        self.name, self.sent, self.acked = name, 0, 0

    def operation(self, n):
        """Commands of operation n (from 1), the last of which acknowledges it."""
        raise NotImplementedError

    def acknowledges(self, n, reply):
        raise NotImplementedError

    def found(self, ask):
        """How many operations the server has."""
        raise NotImplementedError

    def write_until_killed(self, port, progress):
        try:
            link = Connection(port)
            while True:
                batch = range(self.sent + 1, self.sent + 1 + BATCH)
                commands = [self.operation(n) for n in batch]
                self.sent += BATCH
                link.send([command for some in commands for command in some])
                for n, some in zip(batch, commands):
                    replies = [link.reply() for _ in some]
                    assert self.acknowledges(n, replies[-1]), (self.name, n, replies)
                    self.acked = n
                progress.count(BATCH)
        except (Closed, OSError):
            pass
        except AssertionError as error:
            progress.failures.append(str(error))

    def check(self, ask):
        n = self.found(ask)
        assert self.acked <= n <= self.sent, f"{self.name}: {n} found, {self.acked} acknowledged"
        self.acked = self.sent = n


class Counter(Writer):
    needs = ("INCR",)

    def operation(self, n):
        return [(b"INCR", b"counter")]

    def acknowledges(self, n, reply):
        return reply == (":", n)

    def found(self, ask):
        return int(ask("GET", "counter")[1] or 0)


class Strings(Writer):
    """SET of a new key each; a few of the older ones are read too."""
    needs = ("SET",)

    def operation(self, n):
        return [(b"SET", b"s%d" % n, b"value %d" % n * (200 if n % 50 == 0 else 1))]

    def acknowledges(self, n, reply):
        return reply == ("+", b"OK")

    def found(self, ask):
        n = self.acked
        older = random.Random(n).sample(range(1, n + 1), min(n, 50))
        for i in [*older, *range(max(1, n - 20), n + 1)]:
            assert ask("GET", f"s{i}") == ("$", b"value %d" % i * (200 if i % 50 == 0 else 1)), i
        while ask("GET", f"s{n + 1}") != ("$", None):
            n += 1
        for i in range(n + 1, self.sent + 1):
            assert ask("GET", f"s{i}") == ("$", None), f"s{i} is there without s{n + 1}"
        return n


class List(Writer):
    needs = ("LPUSH", "LRANGE", "LLEN")

    def operation(self, n):
        return [(b"LPUSH", b"list", b"%d" % n)]

    def acknowledges(self, n, reply):
        return reply == (":", n)

    def found(self, ask):
        n = ask("LLEN", "list")[1]
        some = [int(item[1]) for item in ask("LRANGE", "list", 0, 299)[1]]
        assert some == list(range(n, max(0, n - 300), -1))
        return n


class Hash(Writer):
    needs = ("HSET", "HLEN", "HGET")

    def operation(self, n):
        return [(b"HSET", b"hash", b"f%d" % n, b"%d" % n)]

    def acknowledges(self, n, reply):
        return reply == (":", 1)

    def found(self, ask):
        n = ask("HLEN", "hash")[1]
        for i in range(max(1, n - 20), n + 1):
            assert ask("HGET", "hash", f"f{i}") == ("$", b"%d" % i)
        return n


class Window(Writer):
    """A queue of ten: pushes, and pops what is too old."""
    needs = ("RPUSH", "LPOP", "LRANGE")

    def operation(self, n):
        out = [(b"RPUSH", b"window", b"%d" % n)]
        return [(b"LPOP", b"window"), *out] if n > 10 else out

    def acknowledges(self, n, reply):
        return reply == (":", min(n, 10))

    def found(self, ask):
        some = [int(item[1]) for item in ask("LRANGE", "window", 0, -1)[1]]
        if not some:
            return 0
        assert some == list(range(some[0], some[-1] + 1))
        if len(some) == 9 and some[0] > 1:  # the pop of the next operation, without its push
            ask("LPUSH", "window", some[0] - 1)
        else:
            assert len(some) == min(some[-1], 10), some
        return some[-1]


class Transactions(Writer):
    needs = ("MULTI", "EXEC", "SET", "INCR", "HSET", "RPUSH", "ZADD", "DEL")

    def operation(self, n):
        return [(b"MULTI",), (b"SET", b"m:a", b"%d" % n), (b"INCR", b"m:n"),
                (b"HSET", b"m:h", b"f", b"%d" % n), (b"RPUSH", b"m:l", b"%d" % n),
                (b"ZADD", b"m:z", b"%d" % n, b"member"), (b"DEL", b"m:odd" if n % 2 == 0 else b"m:even"),
                (b"SET", b"m:even" if n % 2 == 0 else b"m:odd", b"%d" % n), (b"EXEC",)]

    def acknowledges(self, n, reply):
        return reply[0] == "*" and len(reply[1]) == 7 and reply[1][1] == (":", n)

    def found(self, ask):
        n = int(ask("GET", "m:a")[1] or 0)
        if n == 0:
            assert ask("EXISTS", "m:n", "m:h", "m:l", "m:z", "m:even", "m:odd") == (":", 0)
            return 0
        text = b"%d" % n
        assert ask("GET", "m:n") == ("$", text)
        assert ask("HGET", "m:h", "f") == ("$", text)
        assert ask("LRANGE", "m:l", -1, -1) == ("*", [("$", text)]) and ask("LLEN", "m:l") == (":", n)
        assert ask("ZSCORE", "m:z", "member") == ("$", text)
        here, gone = ("m:even", "m:odd") if n % 2 == 0 else ("m:odd", "m:even")
        assert ask("GET", here) == ("$", text) and ask("GET", gone) == ("$", None)
        return n


class Progress:
    """Wakes the killer when enough was acknowledged."""

    def __init__(self, wanted):
        self.left, self.failures = wanted, []
        self.done = threading.Event()
        self.lock = threading.Lock()

    def count(self, n):
        with self.lock:
            self.left -= n
            if self.left <= 0:
                self.done.set()


def check_all(server, writers):
    link = Connection(server.port)
    for writer in writers:
        writer.check(link.ask)
    link.close()


def test_kill_loses_nothing_acknowledged_and_halves_no_multi(start):
    rand = random.Random(20)
    server = start("--hot-memory", "8mb")
    writers = [kind(kind.__name__) for kind in (Counter, Strings, List, Hash, Window, Transactions)
               if all(knows(server.port, name) for name in kind.needs)]
    if not writers:
        pytest.skip("terraced cannot write yet")
    for round_ in range(ROUNDS):
        progress = Progress(rand.choice((50, 300, 1000, 2000)))
        threads = [threading.Thread(target=writer.write_until_killed, args=(server.port, progress))
                   for writer in writers]
        for thread in threads:
            thread.start()
        assert progress.done.wait(100), progress.failures
        server.kill()
        for thread in threads:
            thread.join()
        assert progress.failures == []
        server = start("--durability", DURABILITY[round_ % 3], "--hot-memory", "8mb")
        check_all(server, writers)
    assert server.stop() == 0
    server = start()
    check_all(server, writers)
    assert all(writer.acked > 0 for writer in writers)
