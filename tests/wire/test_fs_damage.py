# SPDX-License-Identifier: Apache-2.0
"""Rows damaged on the disk of a stopped server (put_rows writes them straight into RocksDB): what clients are told, and
that FS.CHECK finds and heals."""
import pathlib
import struct
import subprocess

import pytest

from conftest import TERRACED
from fs import FS, pairs, swept
from raw import Raw

PUT_ROWS = pathlib.Path(TERRACED).parent / "tests" / "put_rows"
INODE, EDGE = 5, 6
NEXT_ID = 0xffffffffffffffff


def inode(number):
    return bytes([INODE]) + struct.pack(">Q", number)


def edge(parent, name):
    return bytes([EDGE]) + struct.pack(">Q", parent) + name


def entry(parent, name, size=0, flags=2):
    return struct.pack("<QQQQQIBBBB", parent, size, 64 << 20, 1, 2, 0o644, flags, 0, 0, 0) + name


def child(number):
    return struct.pack(">Q", number)


class Tree:
    """/d/e/f of 5 bytes, /d/g of 7, /h; all of it in the engine, and the server is stopped."""

    def __init__(self, start):
        self.start = start
        self.server = start()
        fs = FS(self.server)
        fs("MKDIR", "/d/e", "PARENTS", "OWNER", "alice")
        fs("MKDIR", "/h")
        for path, size in ("/d/e/f", 5), ("/d/g", 7):
            fs("CREATE", path)
            fs("COMPLETE", path, size)
        self.ids = {path: fs.stat(path)["id"] for path in ("/d", "/d/e", "/d/e/f", "/d/g", "/h")}
        fs.client.save()
        assert self.server.stop() == 0

    def damage(self, rows):
        """rows: key to value; None: the row goes. Gives the tree of the server, started again."""
        lines = "".join(f"{key.hex()} {'-' if value is None else value.hex()}\n" for key, value in sorted(rows.items()))
        done = subprocess.run([PUT_ROWS, self.server.dir], input=lines, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        self.server = self.start()
        return FS(self.server)


@pytest.fixture
def tree(start):
    return Tree(start)


def heals(fs, *examples):
    """It is found, and told; healed; and nothing is left, also for a server that starts again."""
    found = pairs(fs("CHECK"))
    assert found["problems"] > 0 and found["repaired"] == 0 and found["left"] == found["problems"], found
    for example in examples:
        assert any(example in line.decode() for line in found["examples"]), (example, found)
    healed = pairs(fs("CHECK", "REPAIR"))
    assert healed["repaired"] > 0 and healed["left"] == 0, healed
    sound(fs)


def sound(fs):
    found = pairs(fs("CHECK"))
    assert found["problems"] == 0 and found["counters"] == "exact", found
    info, total = fs.info(), pairs(fs("DU", "/"))
    assert (info["fs_files"], info["fs_directories"], info["fs_bytes"]) == \
        (total["files"], total["directories"] - 1, total["bytes"])


def test_a_short_entry_is_told_and_healed(tree):
    ids = tree.ids
    for length in 0, 1, 47:
        fs = tree.damage({inode(ids["/d/g"]): entry(ids["/d"], b"g", 7)[:length]})
        for command in ("STAT", "/d/g"), ("STAT", ids["/d/g"]), ("SIZE", "/d/g", 1), ("RM", "/d/g"), ("MV", "/d/g", "/x"), \
                       ("LS", "/d", "STAT"), ("DU", "/"), ("CREATE", "/d/g/x"):
            assert fs.code(*command) == "CORRUPT", command
        assert fs.ls("/d") == [b"e", b"g"] and fs.stat("/d/e/f")["size"] == 5
        heals(fs, "less than 48")
        assert (fs.stat("/d/g")["id"], fs.stat("/d/g")["size"], fs.stat("/d/g")["complete"]) == (ids["/d/g"], 0, 0)
        fs("COMPLETE", "/d/g", 7)
        sound(fs)
        fs.client.save()
        assert tree.server.stop() == 0


def test_a_short_entry_of_a_directory_keeps_what_is_in_it(tree):
    fs = tree.damage({inode(tree.ids["/d/e"]): b"x" * 20})
    assert fs.code("STAT", "/d/e") == "CORRUPT"
    heals(fs, "less than 48")
    assert fs.stat("/d/e/f")["size"] == 5 and fs.stat("/d/e")["type"] == "directory"


def test_an_edge_without_inode_goes_and_its_name_can_be_used_again(tree):
    fs = tree.damage({inode(tree.ids["/d/g"]): None})
    assert fs.code("STAT", "/d/g") == fs.code("RM", "/d/g") == "CORRUPT" and fs.code("CREATE", "/d/g") == "EXISTS"
    heals(fs, "it leads to no inode")
    assert fs.ls("/d") == [b"e"]
    fs("CREATE", "/d/g")
    sound(fs)


def test_a_directory_without_inode_is_one_again(tree):
    fs = tree.damage({inode(tree.ids["/d"]): None})
    assert fs.code("CREATE", "/d/new") == "CORRUPT"
    heals(fs, "it leads to no inode")
    assert fs.ls("/d") == [b"e", b"g"] and fs.stat("/d/g")["size"] == 7


def test_an_inode_without_edge_comes_back(tree):
    ids = tree.ids
    fs = tree.damage({edge(ids["/d"], b"g"): None, edge(1, b"d"): None})
    assert fs.ls("/") == [b"h"] and fs.code("STAT", "/d/g") == "NOTFOUND"
    heals(fs, "no edge leads to it")
    assert fs.stat("/d/g")["id"] == ids["/d/g"] and fs.stat("/d/e/f")["id"] == ids["/d/e/f"]


def test_what_has_no_place_any_more_is_in_lost_and_found(tree):
    ids = tree.ids
    fs = tree.damage({edge(ids["/d"], b"g"): child(ids["/h"]), edge(1, b"h"): None, inode(ids["/h"]): entry(99, b"h", 0, 3)})
    heals(fs)
    assert {fs.stat(ids[path])["id"] for path in ids} == set(ids.values())
    assert b"#%d" % ids["/d/g"] in fs.ls("/lost+found")


def test_short_edges_dictionaries_and_next_id_are_told_and_healed(tree):
    ids = tree.ids
    fs = tree.damage({edge(1, b"h"): b"abc", inode(NEXT_ID): b"\1", bytes([INODE]) + b"\xff" * 7 + b"\xfd": b"\5\1"})
    assert fs.code("STAT", "/h") == fs.code("CREATE", "/new") == fs.code("STAT", "/d/e") == "CORRUPT"
    heals(fs, "an edge has a value of 3 bytes", "the dictionary of owners")
    assert fs.stat("/h")["id"] == ids["/h"] and fs.stat("/d/e")["owner"] == ""
    assert fs("CREATE", "/new") > max(ids.values())


def test_a_stray_inode_near_the_end_of_ids_does_not_use_them_up(tree):
    fs = tree.damage({inode((1 << 40) - 1): entry(1, b"stray", 3)})
    heals(fs, "far above")
    assert fs.stat("/stray")["size"] == 3 and fs("CREATE", "/new") < 10000


def test_a_file_whose_number_is_damaged_keeps_its_attributes(tree):
    g = tree.ids["/d/g"]
    fs = tree.damage({inode(g): None, inode(g | 1 << 38): entry(tree.ids["/d"], b"g", 7)})
    assert fs.code("STAT", "/d/g") == "CORRUPT"
    heals(fs, "far above")
    assert fs.stat("/d/g")["id"] == g and fs.stat("/d/g")["size"] == 7


def test_ids_end_below_two_to_the_fortieth_and_their_blocks_are_numbers(tree):
    last = (1 << 40) - 1
    fs = tree.damage({inode(NEXT_ID): struct.pack("<Q", last)})
    assert fs("CREATE", "/last", "BLOCK", 10) == last
    assert fs.code("CREATE", "/over") == fs.code("MKDIR", "/a/b", "PARENTS") == "RESOURCE"
    fs("COMPLETE", "/last", 25)
    blocks = [(last << 24) + i for i in range(3)]
    assert fs("BLOCKS", "/last") == [None, [[b"%d" % blocks[0], 10], [b"%d" % blocks[1], 10], [b"%d" % blocks[2], 5]]]
    Raw(tree.server, 3).say(f"FS.BLOCKS {last} FROM 1 COUNT 1", "*2", ":2", "*1", "*2", f"({blocks[1]}", ":10")
    assert fs.stat(last)["path"] == b"/last"
    sound(fs)
    fs("RM", "/last")
    assert fs.code("CREATE", "/over") == "RESOURCE" and fs.ls("/") == [b"d", b"h"]


def test_a_grave_that_is_damaged_is_swept(tree):
    ids = tree.ids
    fs = tree.damage({edge(0, child(ids["/d"])): child(ids["/d"]), edge(1, b"d"): None,
                      inode(ids["/d"]): b"short", inode(ids["/d/e/f"]): None})
    heals(fs)
    swept(fs)
    assert fs.ls("/") == [b"h"]
    sound(fs)


def test_a_repair_that_is_killed_can_be_done_again(tree):
    """Findings are healed 16 a commit; the kills come wherever that is."""
    ids = tree.ids
    first, count = max(ids.values()) + 2000, 3000
    rows = {inode(NEXT_ID): struct.pack("<Q", first + count)}
    for i in range(count):  # an edge without inode, an inode without edge, a short one
        name = b"x%04d" % i
        if i % 3 != 1:
            rows[edge(ids["/h"], name)] = child(first + i)
        if i % 3 != 0:
            rows[inode(first + i)] = entry(ids["/h"], name, 9)[:48 if i % 3 == 2 else None]
    fs = tree.damage(rows)
    for asked in 1, 30, 100, 300, 1000:
        sock = tree.server.connect()
        sock.sendall(b"FS.CHECK REPAIR\r\n")
        for _ in range(asked):
            fs.client.ping()
        tree.server.kill()
        sock.close()
        tree.server = tree.start()
        fs = FS(tree.server)
    assert pairs(fs("CHECK", "REPAIR"))["left"] == 0
    sound(fs)
    assert fs.ls("/h") == sorted(b"x%04d" % i for i in range(count) if i % 3)
    assert pairs(fs("DU", "/h"))["bytes"] == 9 * count // 3
