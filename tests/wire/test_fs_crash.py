# SPDX-License-Identifier: Apache-2.0
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


def one(rand):
    """A command, and what it does to the model."""

    def path():
        return b"".join(b"/" + rand.choice(NAMES) for _ in range(rand.choice([1, 2, 2, 3, 4])))

    at, to, size, name = path(), path(), rand.randrange(1000), f"o{rand.randrange(9)}"
    return rand.choice([
        (["FS.MKDIR", at], lambda model: model.make(at, True)),
        (["FS.MKDIR", at, "PARENTS"], lambda model: model.mkdirs(at)),
        (["FS.CREATE", at, "OWNER", name], lambda model: vars(model.make(at, False)).update(owner=name)),
        (["FS.CREATE", at, "OWNER", name], lambda model: vars(model.make(at, False)).update(owner=name)),
        (["FS.COMPLETE", at, size], lambda model: model.resize(at, size, True)),
        (["FS.SIZE", at, size], lambda model: model.resize(at, size, False)),
        (["FS.CHMOD", at, f"{size:o}"], lambda model: vars(model.find(at)).update(mode=size)),
        (["FS.CHOWN", at, "GROUP", name], lambda model: vars(model.find(at)).update(group=name)),
        (["FS.UTIME", at, size], lambda model: vars(model.find(at)).update(modified=size)),
        (["FS.MOUNT", at, name], lambda model: model.mounts.setdefault(at, name.encode())),
        (["FS.UMOUNT", at], lambda model: model.mounts.pop(at, None)),
        (["FS.MV", at, to], lambda model: model.move(at, to, False)),
        (["FS.MV", at, to, "REPLACE"], lambda model: model.move(at, to, True)),
        (["FS.RM", at, "RECURSIVE"], lambda model: model.remove(at, True))])


def operations(rand):
    """(commands, what they do, lines of their replies): one, or some in a MULTI."""
    for _ in range(OPERATIONS):
        several = [one(rand) for _ in range(rand.choice([1, 1, 1, 1, 5]))]
        commands, changes = [command for command, _ in several], [change for _, change in several]
        if len(several) == 1:
            yield commands, changes, 1
        else:
            yield [["MULTI"], *commands, ["EXEC"]], changes, 2 + 2 * len(several)


def play(model, changes):
    for change in changes:
        try:
            change(model)
        except Error:
            pass


def model_dump(model):
    times = [node.modified for _, _, _, node in model.walk(b"/")]
    return model.dump(), times, sorted(model.mounts.items())


def dump_of(fs):
    """The server's tree as model_dump() tells it."""
    found, times = [], []
    for path in fs("FIND", "/", "*"):
        told = fs.stat(path)
        found.append((path, told["type"] == "directory", told["size"], bool(told["complete"]), int(told["mode"], 8),
                      told["owner"], told["group"]))
        times.append(told["modified"] if 0 < told["modified"] < 1000 or path != b"/" and told["modified"] == 0 else None)
    mounts = fs("MOUNTS")[1]
    return found, times, list(zip(mounts[::2], mounts[1::2]))


@pytest.mark.parametrize("durability", ["everysec", "always"])
def test_after_a_kill_every_operation_is_whole_or_absent(start, durability):
    rand = random.Random(durability)
    model = Model()
    model.mounts = {}
    server = start("--durability", durability)
    for _ in range(ROUNDS):
        sock = server.connect()
        todo = list(operations(rand))
        data = b"".join(encode(command) for commands, _, _ in todo for command in commands)
        stop_at = rand.randrange(len(data))
        sock.sendall(data[:stop_at])
        lines = sum(count for _, _, count in todo)
        acked = replies(sock, rand.randrange(1, 1 + stop_at * lines * 9 // len(data) // 10) if stop_at > 400 else 1)
        server.kill()
        acked += replies(sock, lines)
        sock.close()
        server = start("--durability", durability)
        fs = FS(server)
        there = dump_of(fs)
        at = 0
        while at < len(todo) and acked >= todo[at][2]:
            play(model, todo[at][1])
            acked -= todo[at][2]
            at += 1
        while model_dump(model) != there:
            assert at < len(todo), "the tree is that of no prefix"
            play(model, todo[at][1])
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
