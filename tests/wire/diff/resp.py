# SPDX-License-Identifier: Apache-2.0
"""A raw RESP2 and RESP3 client: replies come back as exact trees, errors included.

A reply is a tuple of its type byte and its content: ('+', b'OK'), ('-', b'ERR ...'), (':', 1),
('$', b'..'), ('$', None) for the nil bulk, ('*', [...]), ('*', None) for the nil array, ('_', None),
('%', [key, value, ...]), ('~', [...]), ('>', [...]), (',', b'1.5') as written, ('#', b't'),
('(', b'..'), ('=', b'txt:..').
"""
import socket

TIMEOUT_SECONDS = 100
SIMPLE = {ord(c): c for c in "+-,#(_"}
BULK = {ord(c): c for c in "$=!"}
MANY = {ord(c): c for c in "*~>"}


class Closed(Exception):
    """The server closed the connection, or did not answer in time."""


class _More(Exception):
    pass


def encode(args):
    out = [b"*%d\r\n" % len(args)]
    for arg in args:
        out.append(b"$%d\r\n%b\r\n" % (len(arg), arg))
    return b"".join(out)


def parse(buf, pos):
    """One reply of buf at pos; returns (reply, position after it)."""
    end = buf.find(b"\r\n", pos)
    if end < 0:
        raise _More
    kind = buf[pos]
    line = bytes(buf[pos + 1:end])
    end += 2
    if kind == 58:  # ':'
        return (":", int(line)), end
    if kind in BULK:
        size = int(line)
        if size < 0:
            return (BULK[kind], None), end
        if len(buf) < end + size + 2:
            raise _More
        return (BULK[kind], bytes(buf[end:end + size])), end + size + 2
    if kind in MANY or kind == 37:  # '%'
        count = int(line)
        if count < 0:
            return (chr(kind), None), end
        items = []
        for _ in range(count * 2 if kind == 37 else count):
            item, end = parse(buf, end)
            items.append(item)
        return (chr(kind), items), end
    if kind in SIMPLE:
        return (SIMPLE[kind], line if kind != 95 else None), end
    raise ValueError(f"not RESP at byte {pos}: {bytes(buf[pos:pos + 60])!r}")


class Connection:
    def __init__(self, port, timeout=TIMEOUT_SECONDS):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = bytearray()
        self.pos = 0

    def close(self):
        self.socket.close()

    def send(self, commands):
        try:
            self.socket.sendall(b"".join(map(encode, commands)))
        except OSError as error:
            raise Closed(str(error)) from error

    def reply(self):
        while True:
            try:
                reply, self.pos = parse(self.buf, self.pos)
            except _More:
                self._receive()
                continue
            if self.pos == len(self.buf):
                self.buf.clear()
                self.pos = 0
            return reply

    def _receive(self):
        try:
            part = self.socket.recv(1 << 18)
        except TimeoutError as error:
            raise Closed(f"no reply in {TIMEOUT_SECONDS} s") from error
        except OSError as error:
            raise Closed(str(error)) from error
        if not part:
            raise Closed("connection closed")
        if self.pos:
            del self.buf[:self.pos]
            self.pos = 0
        self.buf += part

    def ask(self, *args):
        self.send([[arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]])
        return self.reply()


SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.:/@%^,=<>?*[](){}#&!|~$;")


def quote(arg, limit=120):
    """As redis-cli reads it."""
    cut = ""
    if limit and len(arg) > limit:
        cut = f"...({len(arg)} bytes)"
        arg = arg[:limit // 2]
    if arg and not cut and all(byte in SAFE for byte in arg) and arg[:1] not in (b"#",):
        return arg.decode()
    out = ""
    for byte in arg:
        char = chr(byte)
        if char in '"\\':
            out += "\\" + char
        elif 32 <= byte < 127:
            out += char
        else:
            out += f"\\x{byte:02x}"
    return f'"{out}"{cut}'


def line(args, limit=120):
    return " ".join(quote(arg, limit) for arg in args)


def show(reply, depth=0, limit=24):
    """A reply in one line, with the type bytes."""
    kind, content = reply
    if content is None:
        return {"$": "(nil)", "*": "(nil array)", "_": "(null)"}.get(kind, kind + "(nil)")
    if kind in "*~>%":
        some = [show(item, depth + 1, limit) for item in content[:limit]]
        if len(content) > limit:
            some.append(f"... {len(content)} items")
        return {"*": "[", "~": "~[", ">": ">[", "%": "%["}[kind] + ", ".join(some) + "]"
    if kind == ":":
        return f":{content}"
    if kind == "$":
        return quote(content) if content[:1] not in b":+-,[" or not content else '"' + quote(content).strip('"') + '"'
    return kind + content.decode(errors="backslashreplace")
