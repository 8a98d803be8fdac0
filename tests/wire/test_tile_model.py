# SPDX-License-Identifier: Apache-2.0
"""Random commands on tiles, persistence and kills, against a dictionary: store, SQLite shards, LMDB shards, both.

What was acknowledged is there; of a command that was cut off by a kill either the old or the new is."""
import os
import random

import pytest
import redis

from tilekit import IMAGERY, TERRAIN, TM, headered, pack

SEEDS = range(int(os.environ.get("TILE_MODEL_SEEDS", "2")))
STEPS = int(os.environ.get("TILE_MODEL_STEPS", "400"))
KINDS = [("sqlite",), ("kv",), ("sqlite", "kv")]
DB = {"imagery": IMAGERY, "terrain": TERRAIN, "tm": TM}


class Model:
    def __init__(self, begin, kinds, seed):
        self.rand = random.Random(seed)
        self.begin = begin
        self.kinds = kinds
        self.options = ("--tile-clear", self.rand.choice(["yes", "yes", "no"]), "--tile-cache",
                        self.rand.choice(["0", "20kb", "64mb"]), "--tile-open-shards", self.rand.choice(["1", "3", "256"]),
                        "--tile-batch", self.rand.choice(["1", "7", "100000"]), "--hot-memory", self.rand.choice(["4mb", "64mb"]))
        self.tiles = {}  # (type, key): (data, epoch, provider)
        self.start()

    def start(self):
        self.server = self.begin(*self.kinds, options=self.options)
        self.client = self.server.client()
        self.plain = {name: self.server.client(db=db) for name, db in DB.items()}

    def key(self):
        """Few of them, so that they meet: of all kinds of files, two files of each."""
        head = self.rand.choice(["0123", "3333"])
        digits = head + "".join(self.rand.choices("02", k=self.rand.choice([0, 1, 4, 6, 10, 13, 20])))[:20]
        digits = digits[:self.rand.choice([1, 3, 4, 24, 24, 24])]
        kind = self.rand.choice(list(DB))
        return kind, digits if kind != "tm" else f"{digits}:{self.rand.randrange(4)}"

    def value(self):
        size = self.rand.choice([0, 1, 30, 3000])
        return self.rand.randbytes(size), self.rand.choice([0, 1, 300, 2 ** 40]), self.rand.choice([0, 0, 7, 2 ** 33])

    def set(self):
        (kind, key), value = self.key(), self.value()
        if self.rand.random() < 0.5:
            self.client.execute_command("TILE.SET", kind, key, value[0], "EPOCH", value[1], "PROVIDER", value[2])
        else:
            self.plain[kind].set(key, headered(*value))
        self.tiles[kind, key] = value

    def mset(self):
        kind, _ = self.key()
        pairs = {key: self.value() for other, key in (self.key() for _ in range(12)) if other == kind}
        words = [word for key, value in pairs.items() for word in (key, value[1], value[2], value[0])]
        if words:
            self.client.execute_command("TILE.MSET", kind, *words)
        for key, value in pairs.items():
            self.tiles[kind, key] = value

    def delete(self):
        kind, key = self.key()
        existed = self.tiles.pop((kind, key), None) is not None
        if self.rand.random() < 0.5:
            assert self.client.execute_command("TILE.DEL", kind, key) == existed
        else:
            assert self.plain[kind].delete(key) == existed

    def drop(self):
        kind, key = self.key()
        root = key.split(":")[0][:self.rand.choice([4, 6, 12])]
        gone = [name for name in self.tiles if name[0] == kind and name[1].startswith(root)]
        assert self.client.execute_command("TILE.DROP", kind, root) == len(gone)
        for name in gone:
            del self.tiles[name]

    def get(self):
        kind, key = self.key()
        value = self.tiles.get((kind, key))
        got = self.client.execute_command("TILE.GET", kind, key, "META")
        assert (tuple(got[:3]) if got else None) == value, (kind, key)
        assert self.plain[kind].get(key) == (headered(*value) if value else None)
        assert self.client.execute_command("TILE.EXISTS", kind, key) == (value is not None)

    def at(self):
        key, at = self.key()[1].split(":")[0], self.rand.randrange(5)
        times = [ms for ms in range(at + 1) if ("tm", f"{key}:{ms}") in self.tiles]
        got = self.client.execute_command("TILE.GET", "tm", key, "AT", at, "META")
        assert got == ([*self.tiles["tm", f"{key}:{times[-1]}"], times[-1]] if times else None)

    def range(self):
        kind, key = self.key()
        root = key.split(":")[0][:self.rand.choice([0, 2, 5, 9])]
        order = lambda name: (pack(name.split(":")[0]), int((name + ":0").split(":")[1]))
        names = sorted((name for other, name in self.tiles if other == kind and name.startswith(root)), key=order)
        found = self.client.execute_command("TILE.RANGE", kind, root, "COUNT", 100000)
        assert [name.decode() for name in found] == names
        sizes = sum(len(self.tiles[kind, name][0]) for name in names)
        assert self.client.execute_command("TILE.COUNT", kind, root, "BYTES") == [len(names), sizes]

    def transaction(self):
        (kind, key), value = self.key(), self.value()
        pipe = self.client.pipeline()
        pipe.execute_command("TILE.SET", kind, key, value[0], "EPOCH", value[1], "PROVIDER", value[2])
        pipe.execute_command("TILE.GET", kind, key)
        pipe.execute_command("TILE.DEL", kind, key)
        pipe.execute_command("TILE.GET", kind, key)
        assert pipe.execute() == [b"OK", value[0], 1, None]
        self.tiles.pop((kind, key), None)

    def sync(self):
        assert self.client.execute_command("TILE.SYNC") == b"OK"

    def flush(self):
        self.client.execute_command("DEBUG", "RELOAD")

    def kill(self):
        """In the middle of what it does: the answers of a pipeline are not waited for."""
        maybe = {}
        link = self.server.connect()
        count = self.rand.randrange(20)
        for _ in range(count):
            (kind, key), value = self.key(), self.value()
            words = [b"TILE.SET", kind.encode(), key.encode(), value[0], b"EPOCH", b"%d" % value[1], b"PROVIDER", b"%d" % value[2]]
            link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            maybe.setdefault((kind, key), []).append(value)
        if self.rand.random() < 0.5:
            link.sendall(b"TILE.SYNC\r\n")
            count += 1
        if self.rand.random() < 0.5 and count:
            link.recv(1)
        self.server.kill()
        link.close()
        self.start()
        for (kind, key), values in maybe.items():
            got = self.client.execute_command("TILE.GET", kind, key, "META")
            now = tuple(got[:3]) if got else None
            assert now in [self.tiles.get((kind, key)), *values]
            if now is not None:
                self.tiles[kind, key] = now

    def stop(self):
        assert self.server.stop() == 0
        self.start()

    def all(self):
        for (kind, key), value in self.tiles.items():
            got = self.client.execute_command("TILE.GET", kind, key, "META")
            assert got and tuple(got[:3]) == value, (kind, key)
        for kind in DB:
            count = len([1 for other, _ in self.tiles if other == kind])
            assert self.client.execute_command("TILE.COUNT", kind, "") == count
            assert len(self.client.execute_command("TILE.RANGE", kind, "", "COUNT", 100000)) == count


@pytest.mark.parametrize("kinds", KINDS, ids=["sqlite", "kv", "both"])
@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_are_what_a_dictionary_says(begin, kinds, seed):
    model = Model(begin, kinds, seed)
    steps = {model.set: 30, model.mset: 6, model.delete: 12, model.drop: 1, model.get: 20, model.at: 5, model.range: 5,
             model.transaction: 3, model.sync: 4, model.flush: 1, model.kill: 1, model.stop: 0.5}
    for _ in range(STEPS):
        model.rand.choices(list(steps), weights=list(steps.values()))[0]()
    model.all()
    model.sync()
    model.kill()
    model.all()
