"""kill -9 in the middle of a stream of operations: what is there afterwards is what some prefix of them has made, at
least all that was acknowledged. So each operation is whole or absent."""
import random

import pytest

from fs import FS, pairs, swept
from fs_model import Error, Model
from talk import words

NAMES = [b"a", b"b", b"c", b"d"]
ROUNDS = 8
OPERATIONS = 3000


def operations(rand):
    """(command, what it does to the model)"""

    def path():
        return b"".join(b"/" + rand.choice(NAMES) for _ in range(rand.choice([1, 2, 2, 3, 4])))

    for _ in range(OPERATIONS):
        kind, at, to = rand.randrange(8), path(), path()
        if kind == 0:
            yield ["FS.MKDIR", at], lambda model, at=at: model.make(at, True)
        elif kind == 1:
            yield ["FS.MKDIR", at, "PARENTS"], lambda model, at=at: model.mkdirs(at)
        elif kind in (2, 3):
            yield ["FS.CREATE", at, "OWNER", f"o{rand.randrange(9)}"], None
        elif kind == 4:
            size = rand.randrange(1000)
            yield ["FS.COMPLETE", at, size], lambda model, at=at, size=size: model.resize(at, size, True)
        elif kind in (5, 6):
            yield ["FS.MV", at, to, "REPLACE"], lambda model, at=at, to=to: model.move(at, to, True)
        else:
            yield ["FS.RM", at, "RECURSIVE"], lambda model, at=at: model.remove(at, True)


def play(model, command, change):
    try:
        if change is None:
            model.make(command[1], False).owner = command[3]
        else:
            change(model)
    except Error:
        pass


def dump_of(fs):
    """The server's tree as Model.dump() tells it."""
    found = []
    for path in fs("FIND", "/", "*"):
        told = fs.stat(path)
        found.append((path, told["type"] == "directory", told["size"], bool(told["complete"]), int(told["mode"], 8),
                      told["owner"], told["group"]))
    return found


@pytest.mark.parametrize("durability", ["everysec", "always"])
def test_after_a_kill_every_operation_is_whole_or_absent(start, durability):
    rand = random.Random(durability)
    model = Model()
    server = start("--durability", durability)
    for _ in range(ROUNDS):
        sock = server.connect()
        todo = list(operations(rand))
        data = b"".join(encode(command) for command, _ in todo)
        stop_at = rand.randrange(len(data))
        sock.sendall(data[:stop_at])
        acked = replies(sock, rand.randrange(1, 1 + stop_at * len(todo) // len(data)) if stop_at > 200 else 1)
        server.kill()
        acked += replies(sock, len(todo))
        sock.close()
        server = start("--durability", durability)
        fs = FS(server)
        there = dump_of(fs)
        for command, change in todo[:acked]:
            play(model, command, change)
        at = acked
        while model.dump() != there:
            assert at < len(todo), "the tree is that of no prefix"
            play(model, *todo[at])
            at += 1
        swept(fs)
        check = pairs(fs("CHECK"))
        assert (check["problems"], check["counters"]) == (0, "exact"), check


def encode(command):
    parts = words(command)
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def replies(sock, count):
    """How many of so many replies come; each is one line. Not a reply more than was read is counted."""
    got = 0
    while got < count:
        try:
            part = sock.recv(4096)
        except OSError:
            break
        if not part:
            break
        got += part.count(b"\n")
    return got
