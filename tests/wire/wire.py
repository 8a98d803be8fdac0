# SPDX-License-Identifier: Apache-2.0
"""A connection that shows replies as the bytes they are."""
import socket


class Wire:
    """Commands out, replies back as the bytes they are."""

    def __init__(self, peer):
        self.socket = socket.create_connection(("127.0.0.1", peer.port), timeout=100)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def read(self):
        line = self.file.readline()
        if line[:1] in b"+-:_#,(":
            return line
        count = int(line[1:])
        if line[:1] in b"$=":
            return line if count < 0 else line + self.file.read(count + 2)
        return line + b"".join(self.read() for _ in range(count * (2 if line[:1] == b"%" else 1)))

    def say(self, *words):
        self.send(*words)
        return self.read()


def assert_same(wires, *words):
    ours, theirs = (wire.say(*words) for wire in wires)
    assert ours == theirs, words
