# SPDX-License-Identifier: Apache-2.0
"""A small data directory with something of everything, made by one build and opened by every later one.

    /usr/bin/python3 tests/wire/old_directory.py path/to/terraced tests/fixtures/NAME.tar.xz

makes it: the first half of each kind is in the engine, in shards and in SQL; the second half is in the journal
only, because the server is killed. `Content` knows every command that wrote, and what each question has to answer.
"""
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import redis

import tilekit

TILE_OPTIONS = ("--tile-types", *tilekit.TYPES, "--tile-sqlite", "data/sqlite", "--tile-kv", "data/kv",
                "--tile-batch", "1000000", "--tile-interval", "3600s")
FAR_MS = 4102444800000  # the year 2100
HALF = 40


class Content:
    """What half number `half` (0 or 1) of every kind consists of."""

    def __init__(self, half):
        self.half = half
        self.ids = range(half * HALF, (half + 1) * HALF)

    def writes(self):
        for n in self.ids:
            yield 0, ("SET", f"string:{n}", f"value {n}" * (n % 7 * 100 + 1))
            yield 0, ("PEXPIREAT", f"string:{n}", FAR_MS + n)
            yield 0, ("HSET", f"hash:{n % 5}", f"field {n}", f"value {n}")
            yield 0, ("RPUSH", f"list:{n % 3}", f"element {n}")
            yield 0, ("SADD", f"set:{n % 2}", f"member {n}")
            yield 0, ("ZADD", "zset", str(n * 1.5), f"member {n}")
            yield 0, ("SETBIT", "bits", str(n * 1000), "1")
            yield 0, ("HSET", f"player:{n}", "name", f"player {n}", "gold", str(n * 10))
            yield 0, ("FS.CREATE", f"/files/file{n}")
            yield 0, ("FS.COMPLETE", f"/files/file{n}", str(n * 1000))
            yield tilekit.IMAGERY, ("SET", tile_key(n), tilekit.headered(b"tile %d" % n, n + 1, 1))
            yield tilekit.Q2, ("TASK.ADD", f'{{"tilekey":"{tile_key(n)}","version":1}}')
        yield 0, ("SET", f"large:{self.half}", "0123456789" * 30000)

    def questions(self):
        """(database, command, answer)."""
        for n in self.ids:
            yield 0, ("GET", f"string:{n}"), (f"value {n}" * (n % 7 * 100 + 1)).encode()
            yield 0, ("PEXPIRETIME", f"string:{n}"), FAR_MS + n
            yield 0, ("HGET", f"hash:{n % 5}", f"field {n}"), b"value %d" % n
            yield 0, ("SISMEMBER", f"set:{n % 2}", f"member {n}"), 1
            yield 0, ("ZSCORE", "zset", f"member {n}"), n * 1.5
            yield 0, ("GETBIT", "bits", n * 1000), 1
            yield 0, ("HMGET", f"player:{n}", "name", "gold"), [b"player %d" % n, b"%d" % (n * 10)]
            yield tilekit.IMAGERY, ("GET", tile_key(n)), tilekit.headered(b"tile %d" % n, n + 1, 1)
        for name in range(3):
            mine = [b"element %d" % n for n in self.ids if n % 3 == name]
            begin = len([n for n in range(self.half * HALF) if n % 3 == name])
            yield 0, ("LRANGE", f"list:{name}", begin, begin + len(mine) - 1), mine
        yield 0, ("GET", f"large:{self.half}"), b"0123456789" * 30000


def tile_key(n):
    return "".join("0123"[n >> shift & 3] for shift in (8, 6, 4, 2, 0))


def part_writes(client):
    client.execute_command("PART.ALLOC", "job", 1000, "SIZE", 10)
    for text in client.execute_command("PART.CLAIM", "job", "worker", "COUNT", 50):
        number = text.split(b'"partition_id":')[1].split(b",")[0].decode()
        client.execute_command("PART.START", "job", "worker", number)
        client.execute_command("PART.DONE", "job", "worker", number)
    client.execute_command("PART.ARCHIVE", "job", "COMPACT")


def write(port, half):
    clients = {}
    for database, command in Content(half).writes():
        if database not in clients:
            clients[database] = redis.Redis(port=port, db=database)
        clients[database].execute_command(*command)


def fill(port):
    client = redis.Redis(port=port)
    client.execute_command("LAND.RULE", "ADD", "players", "player:*", "sqlite:data/players.db", "shape", "columns",
                           "table", "players", "key", "id")
    client.execute_command("FS.MKDIR", "/files")
    part_writes(client)
    write(port, 0)
    client.execute_command("LAND.FLUSH")
    client.execute_command("LAND.EVICT", "player:0")
    redis.Redis(port=port, db=tilekit.IMAGERY).execute_command("TILE.SYNC")
    client.execute_command("DEBUG", "RELOAD")
    write(port, 1)


def nobodys(info):
    """Of a member of the archive: no user of the machine it was made on."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def make(terraced, archive):
    with tempfile.TemporaryDirectory() as temp:
        process = subprocess.Popen([terraced, "--port", "0", "--dir", "data", *TILE_OPTIONS], cwd=temp,
                                   stdout=subprocess.PIPE, text=True)
        try:
            fill(int(process.stdout.readline().rsplit(":", 1)[1]))
        finally:
            process.kill()
            process.wait()
        with tarfile.open(archive, "w:xz") as tar:
            for path in sorted(set(pathlib.Path(temp).rglob("*")) - set(pathlib.Path(temp).rglob("LOG*"))):
                tar.add(path, arcname=str(path.relative_to(temp)), recursive=False, filter=nobodys)


if __name__ == "__main__":
    make(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2])
