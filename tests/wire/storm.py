# SPDX-License-Identifier: Apache-2.0
"""Writers of every kind beside a server that is killed, cut off, filled up and given bad disks.

A kind has ITEMS items, each either put or removed by its one writer. An item is IN or OUT when the last command about it was
answered, and UNKNOWN, and left alone, when no answer came. An error is an answer: nothing has happened then.
"""
import random
import threading
import time

from diff.resp import Closed, Connection

IN, OUT, UNKNOWN = "in", "out", "unknown"
ITEMS = 5000
PAGE = 500


def text(*words):
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


def is_error(reply):
    return reply[0] == "-" or reply == ("*", None) or (reply[0] == "*" and any(is_error(one) for one in reply[1]))


class Kind:
    database = 0

    def __init__(self):
        self.name = type(self).__name__
        self.items = dict.fromkeys(range(1, ITEMS + 1), OUT)
        self.fresh = set()  # changed since they were last compared

    def value(self, n):
        return b"%s %d " % (self.name.encode(), n) + b"x" * (n % 13 * 40 + (20000 if n % 97 == 0 else 0))

    def put(self, n):
        """Commands; the reply of the last one says whether it happened."""
        raise NotImplementedError

    def remove(self, n):
        raise NotImplementedError

    def ask(self, n):
        """One command, whose reply here() reads."""
        raise NotImplementedError

    def here(self, n, reply):
        """Whether the item is there; a wrong one is an error of its own."""
        assert reply[1] in (None, self.value(n)), (self.name, n, reply)
        return reply[1] is not None


class Strings(Kind):
    def put(self, n):
        return [text("SET", f"s:{n}", self.value(n))]

    def remove(self, n):
        return [text("DEL", f"s:{n}")]

    def ask(self, n):
        return text("GET", f"s:{n}")


class Hashes(Kind):
    def put(self, n):
        return [text("HSET", f"h:{n % 20}", n, self.value(n))]

    def remove(self, n):
        return [text("HDEL", f"h:{n % 20}", n)]

    def ask(self, n):
        return text("HGET", f"h:{n % 20}", n)


class Lists(Kind):
    def put(self, n):
        return [text("RPUSH", f"l:{n // 50}", n)]

    def remove(self, n):
        return [text("LREM", f"l:{n // 50}", 1, n)]

    def ask(self, n):
        return text("LPOS", f"l:{n // 50}", n)

    def here(self, n, reply):
        return reply[1] is not None


class SortedSets(Kind):
    def put(self, n):
        return [text("ZADD", "z", n, n)]

    def remove(self, n):
        return [text("ZREM", "z", n)]

    def ask(self, n):
        return text("ZSCORE", "z", n)

    def here(self, n, reply):
        return reply[1] is not None


class Transactions(Kind):
    def put(self, n):
        value = self.value(n)
        return [text("MULTI"), text("SET", f"m:{n}:a", value), text("SET", f"m:{n}:b", value), text("EXEC")]

    def remove(self, n):
        return [text("MULTI"), text("DEL", f"m:{n}:a"), text("DEL", f"m:{n}:b"), text("EXEC")]

    def ask(self, n):
        return text("MGET", f"m:{n}:a", f"m:{n}:b")

    def here(self, n, reply):
        first, second = (one[1] for one in reply[1])
        assert first == second and first in (None, self.value(n)), ("half of an EXEC", n, first, second)
        return first is not None


class Landed(Kind):
    """Hashes of a rule; after the storm the sink has to hold the same."""

    def __init__(self, prefix, rows_of):
        super().__init__()
        self.prefix, self.rows_of = prefix, rows_of
        self.name = f"{self.name} {prefix}"

    def put(self, n):
        return [text("HSET", f"{self.prefix}:{n}", "name", f"name {n}", "gold", n)]

    def remove(self, n):
        return [text("DEL", f"{self.prefix}:{n}")]

    def ask(self, n):
        return text("HMGET", f"{self.prefix}:{n}", "name", "gold")

    def here(self, n, reply):
        got = [one[1] for one in reply[1]]
        assert got in ([None, None], [b"name %d" % n, b"%d" % n]), (self.name, n, got)
        return got[0] is not None


class Tiles(Kind):
    database = 1

    def key(self, n):
        digits = "".join("0123"[n >> shift & 3] for shift in range(0, 20, 2))
        return f"{digits[0]}000{digits}"

    def value(self, n):
        return b"\x01\x01" + super().value(n)

    def put(self, n):
        return [text("SET", self.key(n), self.value(n))]

    def remove(self, n):
        return [text("DEL", self.key(n))]

    def ask(self, n):
        return text("GET", self.key(n))


class Files(Kind):
    def put(self, n):
        return [text("FS.CREATE", f"/{n}")]

    def remove(self, n):
        return [text("FS.RM", f"/{n}")]

    def ask(self, n):
        return text("FS.MSTAT", f"/{n}")

    def here(self, n, reply):
        return reply[1][0][1] is not None


class Partitions(Kind):
    def put(self, n):
        return [text("PART.ADD", "job", n, n * 10, n * 10 + 9)]

    def remove(self, n):
        return [text("PART.DEL", "job", n)]

    def ask(self, n):
        return text("PART.GET", "job", n)

    def here(self, n, reply):
        return reply[1] is not None


class Writer(threading.Thread):
    """Writes items of a kind until it is told to stop; connects again when the server has gone."""

    def __init__(self, kind, storm, seed):
        super().__init__(daemon=True)
        self.kind, self.storm, self.random = kind, storm, random.Random(seed)
        self.acked_count = 0
        self.link = None

    def run(self):
        while not self.storm.is_over:
            port = self.storm.port
            try:
                if self.link is None:
                    self.link = Connection(port, timeout=self.storm.hang_seconds)
                    self.call([text("SELECT", self.kind.database)])
                self.step()
            except (Closed, OSError) as error:
                self.link = None
                if self.storm.port == port and "timed out" in str(error):
                    self.storm.hangs(self.kind.name)
                self.storm.wait_for_change(port)

    def call(self, commands):
        begin = time.monotonic()
        self.link.send(commands)
        replies = [self.link.reply() for _ in commands]
        self.storm.longest = max(self.storm.longest, (time.monotonic() - begin, self.kind.name))
        return replies

    def step(self):
        kind, n = self.kind, self.random.randint(1, ITEMS)
        before = kind.items[n]
        if before == UNKNOWN:
            return
        kind.fresh.add(n)
        kind.items[n] = UNKNOWN
        last = self.call(kind.put(n) if before == OUT else kind.remove(n))[-1]
        if is_error(last):
            kind.items[n] = before
            self.storm.told(kind.name, last)
            return
        if before == IN and last == (":", 0):
            self.storm.failures.append(f"{kind.name}: {n} was gone before it was removed")
        kind.items[n] = IN if before == OUT else OUT
        self.acked_count += 1


def compare(kind, port, numbers, timeout):
    """Reads these items; what is not as it was answered is an error, what was unknown is known then."""
    link = Connection(port, timeout=timeout)
    link.send([text("SELECT", kind.database)])
    link.reply()
    numbers = sorted(numbers)
    for begin in range(0, len(numbers), PAGE):
        page = numbers[begin:begin + PAGE]
        link.send([kind.ask(n) for n in page])
        for n in page:
            reply = link.reply()
            assert reply[0] != "-", (kind.name, n, reply)
            found = IN if kind.here(n, reply) else OUT
            assert kind.items[n] in (found, UNKNOWN), f"{kind.name}: {n} is {found}, and was {kind.items[n]}"
            kind.items[n] = found
    kind.fresh -= set(numbers)
    link.close()


class Storm:
    """The writers, and what they have been told."""

    def __init__(self, kinds, hang_seconds, where):
        """where() says where the server stands, for who reads that it hangs."""
        self.kinds, self.hang_seconds, self.where = kinds, hang_seconds, where
        self.failures, self.errors = [], {}
        self.longest = (0.0, "")  # the longest time that a writer has waited for an answer, and which
        self.port, self.is_over = None, False
        self.changed = threading.Condition()
        self.writers = []

    def begin(self, port, seed):
        self.is_over = False
        self.port = port
        self.writers = [Writer(kind, self, seed + i) for i, kind in enumerate(self.kinds)]
        for writer in self.writers:
            writer.start()

    def end(self):
        """Stops the writers; returns how many commands were answered well."""
        with self.changed:
            self.is_over = True
            self.changed.notify_all()
        for writer in self.writers:
            writer.join(self.hang_seconds * 4)
            assert not writer.is_alive(), f"{writer.kind.name} hangs"
        return sum(writer.acked_count for writer in self.writers)

    def wait_for_change(self, port):
        """The server of this port may be gone: a writer looks again when it is told, or a moment later."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_over or self.port != port, timeout=0.05)

    def hangs(self, name):
        """A server that has not answered in time is asked at once where it stands; once is enough."""
        where = "" if self.failures else self.where()
        self.failures.append(f"{name}: no answer in {self.hang_seconds} s\n{where}")

    def told(self, name, reply):
        word = str(reply)[:120]
        self.errors[word] = self.errors.get(word, 0) + 1

    def progress(self, writer, seconds):
        """Waits until this writer has been answered well once more; whether it was."""
        before, end = writer.acked_count, time.monotonic() + seconds
        while writer.acked_count == before and time.monotonic() < end and not self.failures:
            with self.changed:
                self.changed.wait(0.02)
        return writer.acked_count > before

    def check(self, sample):
        """Compares what has changed and a sample of the rest with what was answered."""
        for kind in self.kinds:
            rest = [n for n in kind.items if n not in kind.fresh]
            numbers = kind.fresh | set(random.sample(rest, min(sample, len(rest))))
            compare(kind, self.port, numbers, self.hang_seconds * 4)
