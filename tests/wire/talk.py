# SPDX-License-Identifier: Apache-2.0
"""A connection that is spoken to in lines, with terraced and redis-server alike."""
import shlex

from diff.resp import Connection, show
from waiting import wait_until


def words(line):
    """A line as redis-cli reads it, or the words themselves."""
    if isinstance(line, str):
        line = shlex.split(line)
    return [word if isinstance(word, bytes) else str(word).encode() for word in line]


class Link(Connection):
    def __init__(self, server, proto=2):
        super().__init__(server.port)
        self.mark = 0
        if proto == 3:
            assert self.ask("HELLO", "3")[0] == "%"

    def say(self, *lines):
        """All of them in one pipeline; a reply for each, as text."""
        self.send([words(line) for line in lines])
        return [self.hear() for _ in lines]

    def hear(self):
        """The next reply or push."""
        return show(self.reply(), limit=100000)

    def came(self):
        """What has come that nobody asked for; what another client was told of is here already."""
        self.mark += 1
        mark = b"mark %d" % self.mark
        self.send([[b"PING", mark]])
        ends = ("$", mark), ("*", [("$", b"pong"), ("$", mark)])
        came = []
        while (reply := self.reply()) not in ends:
            came.append(show(reply))
        return came

    def text(self, *args):
        """A reply that is one long text."""
        return self.ask(*args)[1].decode()

    def wait_for_blocked(self, count=1):
        wait_until(lambda: f"blocked_clients:{count}\r\n" in self.text("INFO", "clients"))
