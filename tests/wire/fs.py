# SPDX-License-Identifier: Apache-2.0
"""FS.* as a test speaks it: errors by their first word, maps as dicts."""
import itertools

import redis

from waiting import wait_until


class Refused(Exception):
    """An error reply; .code is its first word."""

    def __init__(self, text):
        super().__init__(text)
        self.code = text.split(" ", 1)[0]


class FS:
    def __init__(self, server):
        self.client = server.client(socket_timeout=120)

    def __call__(self, command, *args):
        try:
            return self.client.execute_command("FS." + command, *args)
        except redis.ResponseError as error:
            raise Refused(str(error)) from None

    def code(self, command, *args):
        """OK, or the error's first word."""
        try:
            self(command, *args)
            return "OK"
        except Refused as refused:
            return refused.code

    def stat(self, target):
        return pairs(self("STAT", target))

    def ls(self, path, page=1000, stat=False):
        """All names, or all attributes, page after page."""
        found, at = [], []
        while True:
            at, names = self("LS", path, *at, "COUNT", page, *(["STAT"] if stat else []))
            found += map(pairs, names) if stat else names
            if at is None:
                return found
            at = ["FROM", at]

    def info(self):
        return self.client.info("fs")


def pairs(flat):
    """A map of RESP2; texts are texts, except a name's and a path's."""
    if flat is None:
        return None
    found = {}
    for label, value in zip(flat[::2], flat[1::2]):
        label = label.decode()
        found[label] = value.decode() if isinstance(value, bytes) and label not in ("name", "path") else value
    return found


def swept(fs):
    """Waits until what was removed has no rows any more."""
    wait_until(lambda: fs.info()["fs_graves"] == 0)


def flood(server, paths, step=5000):
    """FS.CREATE of many paths, without the cost of a client."""
    sock = server.connect()
    paths = iter(paths)
    while part := list(itertools.islice(paths, step)):
        sock.sendall(b"".join(b"*2\r\n$9\r\nFS.CREATE\r\n$%d\r\n%s\r\n" % (len(path), path) for path in part))
        got = b""
        while got.count(b"\n") < len(part):
            more = sock.recv(1 << 20)
            assert more and b"-" not in more, more[:200]
            got += more
    sock.close()
