# SPDX-License-Identifier: Apache-2.0
"""Replies to the byte: a line goes out, and the reply has to be exactly this."""


class Raw:
    def __init__(self, server, proto=2):
        self.socket = server.connect()
        if proto == 3:
            self.socket.sendall(b"HELLO 3\r\n")
            told = b""
            while not told.endswith(b"modules\r\n*0\r\n"):
                part = self.socket.recv(65536)
                assert part, f"closed after {told}"
                told += part

    def say(self, line, *replies):
        """The parts of a reply, without their line ends; a bulk may be written as "text"."""
        want = b"".join(map(encode, replies))
        self.socket.sendall(line.encode("latin-1") + b"\r\n")
        got = b""
        while len(got) < len(want) and want.startswith(got):
            part = self.socket.recv(65536)
            assert part, f"{line}: closed after {got}"
            got += part
        assert got == want, f"{line}: {got}, not {want}"


def encode(part):
    if part[:1] in ("+", "-", ":", "*", "$", "%", "~", "_", ",", "#", ">", "("):
        return part.encode("latin-1") + b"\r\n"
    return f"${len(part)}\r\n{part}\r\n".encode("latin-1")
