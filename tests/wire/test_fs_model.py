# SPDX-License-Identifier: Apache-2.0
"""Random operations go to FS.*, to a naive tree and to a real directory: every answer is the same, whatever is hot,
cold, evicted, restarted or killed in between."""
import os
import random

import pytest

from fs import FS, Refused, pairs, swept
from fs_model import Error, Host, Model

NAMES = [b"a", b"b", b"c", b"dd", b"\xff\n", b"x" * 255]
STEPS = int(os.environ.get("FS_MODEL_STEPS", "1500"))
CALM, COLD, KILLED, TINY = "calm", "cold", "killed", "tiny"


class Player:
    """Plays one random sequence."""

    def __init__(self, start, top, seed, weather):
        self.random = random.Random(seed)
        self.weather, self.start = weather, start
        # 4 MiB is what 20,000 files need several times over
        self.args = ["--hot-memory", "4mb"] if weather == TINY else []
        self.server = start(*self.args)
        self.fs, self.model, self.host = FS(self.server), Model(), Host(top)
        self.log, self.ids = [], {}
        if weather == TINY:
            many = self.fs.client.pipeline(transaction=False)
            many.execute_command("FS.MKDIR", "/zz")
            for i in range(20000):
                many.execute_command("FS.CREATE", f"/zz/{i}")
            many.execute()
            self.fs("RM", "/zz", "RECURSIVE")

    def path(self):
        if self.random.random() < 0.02:
            return b"/"
        return b"".join(b"/" + self.random.choice(NAMES[:4] if depth else NAMES)
                        for depth in range(self.random.choice([1, 1, 2, 2, 3, 4])))

    def told(self, *command):
        """What the server says, or the first word of its error."""
        self.log.append(command)
        try:
            return self.fs(*command)
        except Refused as refused:
            return refused.code

    def expect(self, told, wanted):
        assert told == wanted, (self.log[-30:], told, wanted)

    def both(self, mine, real=None):
        """What the model says; the real directory says the same."""
        results = []
        for call in (mine, real) if real else (mine,):
            try:
                results.append((None, call()))
            except Error as error:
                results.append((str(error), None))
        if real:
            assert results[0][0] == results[1][0], (self.log[-30:], results)
        return results[0]

    # ---- operations ----

    def op_mkdir(self):
        path = self.path()
        error, node = self.both(lambda: self.model.make(path, True), lambda: self.host.mkdir(path))
        told = self.told("MKDIR", path)
        self.expect(told if error else isinstance(told, int), error or True)
        if node:
            self.born(node, told)

    def op_mkdirs(self):
        path = self.path()
        if path == b"/":
            return
        error, made = self.both(lambda: self.model.mkdirs(path), lambda: self.host.mkdirs(path))
        told = self.told("MKDIR", path, "PARENTS")
        if error:
            self.expect(told, error)
            return
        new, last = made
        for i, node in enumerate(new):
            self.born(node, told - len(new) + 1 + i)
        self.expect(told, last.id)

    def op_create(self):
        path, mode = self.path(), self.random.choice([None, 0o600, 0o7777])
        error, node = self.both(lambda: self.model.make(path, False, mode), lambda: self.host.create(path))
        told = self.told("CREATE", path, *([] if mode is None else ["MODE", f"{mode:o}"]))
        self.expect(told if error else isinstance(told, int), error or True)
        if node:
            self.born(node, told)

    def born(self, node, id_):
        assert id_ not in self.ids, "an id is used twice"
        node.id, self.ids[id_] = id_, node

    def op_resize(self):
        path, size, word = self.path(), self.random.randrange(1 << 20), self.random.choice(["COMPLETE", "SIZE", "TRUNCATE"])
        error, _ = self.both(lambda: self.model.resize(path, size, word == "COMPLETE"),
                             lambda: self.host.resize(path, size))
        self.expect(self.told(word, path, size), error or b"OK")

    def op_move(self):
        source, to, replace = self.path(), self.path(), self.random.random() < 0.5
        real = None if b"/" in (source, to) else lambda: self.host.rename(source, to, replace)
        error, _ = self.both(lambda: self.model.move(source, to, replace), real)
        self.expect(self.told("MV", source, to, *(["REPLACE"] if replace else [])), error or b"OK")

    def op_remove(self):
        path, recursive = self.path(), self.random.random() < 0.3
        error, gone = self.both(lambda: self.model.remove(path, recursive),
                                None if path == b"/" else lambda: self.host.remove(path, recursive))
        self.expect(self.told("RM", path, *(["RECURSIVE"] if recursive else [])), error or b"OK")
        if gone:
            for _, _, _, node in self.model.walk(b"/", gone):
                self.expect(self.told("STAT", node.id), "NOTFOUND")

    def op_chmod(self):
        path, mode = self.path(), self.random.randrange(0o10000)
        error, node = self.both(lambda: self.model.find(path))
        self.expect(self.told("CHMOD", path, f"{mode:o}"), error or b"OK")
        if node:
            node.mode = mode

    def op_chown(self):
        path, owner = self.path(), self.random.choice(["", "alice", "bob", "cyd"])
        error, node = self.both(lambda: self.model.find(path))
        self.expect(self.told("CHOWN", path, "OWNER", owner, "GROUP", owner[::-1]), error or b"OK")
        if node:
            node.owner, node.group = owner, owner[::-1]

    def op_utime(self):
        path, modified = self.path(), self.random.randrange(1 << 41)
        error, node = self.both(lambda: self.model.find(path))
        self.expect(self.told("UTIME", path, modified), error or b"OK")
        if node:
            node.modified = modified

    # ---- questions ----

    def check_stat(self, told, node):
        seen = pairs(told)
        self.expect((seen["id"], seen["type"], seen["size"], seen["complete"], seen["mode"], seen["owner"], seen["group"]),
                    (node.id, "directory" if node.is_dir else "file", node.size, int(node.complete), f"{node.mode:04o}",
                     node.owner, node.group))
        if node.modified is not None:
            self.expect(seen["modified"], node.modified)

    def op_stat(self):
        path = self.path()
        error, node = self.both(lambda: self.model.find(path))
        told = self.told("STAT", path)
        if error:
            self.expect(told, error)
            return
        self.check_stat(told, node)
        told = self.told("STAT", node.id)
        self.check_stat(told, node)
        self.expect(pairs(told)["path"], path)

    def op_list(self):
        path = self.path()

        def names():
            node = self.model.find(path)
            if not node.is_dir:
                raise Error("NOTDIR")
            return sorted(node.children)

        error, wanted = self.both(names, lambda: self.host.names(path))
        if error:
            self.expect(self.told("LS", path), error)
            return
        self.expect(self.fs.ls(path, page=self.random.choice([1, 2, 1000])), wanted)
        if not error and path != b"/":
            self.expect(self.host.names(path), wanted)

    def op_totals(self):
        path = self.path()
        error, node = self.both(lambda: self.model.find(path))
        told = self.told("DU", path)
        if error:
            self.expect(told, error)
            return
        self.expect(tuple(pairs(told).values()), self.model.totals(node))
        pattern = self.random.choice([b"a", b"[ab]", b"*"])
        found = [at for at, name, depth, _ in self.model.walk(path)
                 if pattern == b"*" or (name if depth else path.split(b"/")[-1]) in ([b"a"] if pattern == b"a" else [b"a", b"b"])]
        self.expect(self.told("FIND", path, pattern), found)

    def op_tree(self):
        path = self.path()
        error, _ = self.both(lambda: self.model.find(path))
        told = self.told("TREE", path)
        self.expect(told if error else [line[:3] + [tuple(line[3:])] for line in told], error or [
            [depth, name, b"directory" if node.is_dir else b"file", self.model.totals(node)]
            for _, name, depth, node in self.model.walk(path)])

    # ---- all of it ----

    def disturb(self):
        if self.weather == COLD and self.random.random() < 0.03:
            self.fs.client.execute_command("DEBUG", "RELOAD")
        if self.weather == KILLED and self.random.random() < 0.008:
            self.server.kill()
            self.server = self.start(*self.args)
            self.fs = FS(self.server)

    def play(self):
        changes = [self.op_mkdir, self.op_mkdirs, self.op_create, self.op_create, self.op_resize, self.op_move, self.op_move,
                   self.op_remove, self.op_chmod, self.op_chown, self.op_utime]
        questions = [self.op_stat, self.op_stat, self.op_list, self.op_totals, self.op_tree]
        for _ in range(STEPS if self.weather != COLD else STEPS // 3):
            self.random.choice(self.random.choice([changes, changes, questions]))()
            self.disturb()
        self.end()

    def end(self):
        self.expect([tuple(line[:2]) for line in self.told("TREE", "/")],
                    [(depth, name) for _, name, depth, _ in self.model.walk(b"/")])
        for path, _, _, node in self.model.walk(b"/"):
            if node.is_dir:
                self.expect(self.host.names(path), sorted(node.children))
            if path != b"/":
                self.check_stat(self.told("STAT", path), node)
        swept(self.fs)
        bytes_, files, dirs = self.model.totals(self.model.root)
        info = self.fs.info()
        self.expect((info["fs_bytes"], info["fs_files"], info["fs_directories"] + 1), (bytes_, files, dirs))
        check = pairs(self.told("CHECK"))
        self.expect((check["problems"], check["counters"], check["files"], check["bytes"]), (0, "exact", files, bytes_))


@pytest.mark.parametrize("weather", [CALM, COLD, KILLED, TINY])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_that_of_a_naive_tree_and_of_a_real_directory(start, tmp_path, seed, weather):
    top = tmp_path / "host"
    top.mkdir()
    Player(start, top, f"{seed}{weather}", weather).play()
