# SPDX-License-Identifier: Apache-2.0
"""FS.DU, TREE, FIND and CHECK: exact, small and large, hot and cold, while others write; FileInfo."""
import threading

import pytest

from fs import FS, Refused, flood, pairs, swept
from talk import Link
from waiting import wait_until


@pytest.fixture
def fs(server):
    return FS(server)


def many(fs, commands):
    pipe = fs.client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command("FS." + command[0], *command[1:])
    return pipe.execute()


def grow(fs, top, dirs, files, size=10):
    """dirs directories with files files each, below top."""
    fs("MKDIR", top, "PARENTS")
    many(fs, [("MKDIR", f"{top}/d{d}") for d in range(dirs)])
    made = many(fs, [("CREATE", f"{top}/d{d}/f{i}") for d in range(dirs) for i in range(files)])
    many(fs, [("COMPLETE", id_, size) for id_ in made])


def du(fs, path):
    told = pairs(fs("DU", path))
    return told["bytes"], told["files"], told["directories"]


def lines(fs, path, *depth):
    return [tuple(line) for line in fs("TREE", path, *depth)]


@pytest.mark.parametrize("dirs, files", [(3, 4), (7, 900)])
def test_totals_are_exact_small_and_large_hot_and_cold(fs, dirs, files):
    grow(fs, "/top/a", dirs, files)
    fs("CREATE", "/top/one")
    fs("COMPLETE", "/top/one", 5)
    for _ in "hot", "cold":
        n = dirs * files
        assert du(fs, "/top") == (10 * n + 5, n + 1, dirs + 2)
        assert du(fs, "/top/a/d1") == (10 * files, files, 1)
        assert du(fs, "/top/one") == (5, 1, 0)
        assert du(fs, "/") == (10 * n + 5, n + 1, dirs + 3)
        assert lines(fs, "/top", "DEPTH", 2) == [
            (0, b"/top", b"directory", 10 * n + 5, n + 1, dirs + 2),
            (1, b"a", b"directory", 10 * n, n, dirs + 1),
            *[(2, b"d%d" % d, b"directory", 10 * files, files, 1) for d in range(dirs)],
            (1, b"one", b"file", 5, 1, 0)]
        assert lines(fs, "/top", "DEPTH", 0) == [(0, b"/top", b"directory", 10 * n + 5, n + 1, dirs + 2)]
        assert len(lines(fs, "/")) == n + dirs + 4
        assert lines(fs, "/top/one") == [(0, b"/top/one", b"file", 5, 1, 0)]
        assert fs("FIND", "/", "one") == [b"/top/one"]
        assert fs("FIND", "/top/a", "f3") == [b"/top/a/d%d/f3" % d for d in range(dirs)]
        assert fs("FIND", "/", "/top/a/d1/f[12]") == [b"/top/a/d1/f1", b"/top/a/d1/f2"]
        assert len(fs("FIND", "/top", "*")) == n + dirs + 3
        assert fs("FIND", "/top", "*", "COUNT", 3)[:2] == [b"/top", b"/top/a"]
        assert fs("FIND", "/top/a", "a") == [b"/top/a"] and fs("FIND", "/", "nope") == []
        check = pairs(fs("CHECK"))
        assert (check["files"], check["directories"], check["problems"], check["counters"]) == \
            (n + 1, dirs + 2, 0, "exact")
        fs.client.execute_command("DEBUG", "RELOAD")


def test_errors_of_long_commands(fs):
    fs("CREATE", "/f")
    for command in "DU", "TREE":
        assert fs.code(command, "/x") == "NOTFOUND" and fs.code(command, "/f/x") == "NOTDIR"
    assert fs.code("FIND", "/x", "*") == "NOTFOUND"
    for words in [("TREE", "/", "DEPTH"), ("TREE", "/", "DEPTH", -1), ("TREE", "/", "NOPE", 1), ("FIND", "/", "*", "NOPE", 1),
                  ("FIND", "/", "*", "COUNT", 0), ("CHECK", "NOPE"), ("DU", "f")]:
        with pytest.raises(Refused):
            fs(*words)
    grow(fs, "/big", 1, 2000)
    fs.client.execute_command("DEBUG", "RELOAD")
    for words in [("DU", "/big/x"), ("TREE", "/big/d0/f1/y"), ("FIND", "/big/x/y", "*")]:
        assert fs.code(*words) in ("NOTFOUND", "NOTDIR")


def test_long_commands_are_refused_inside_a_multi(fs):
    for command in ("DU", "/"), ("TREE", "/"), ("FIND", "/", "*"), ("CHECK",):
        pipe = fs.client.pipeline(transaction=True)
        pipe.execute_command("FS." + command[0], *command[1:])
        with pytest.raises(Exception, match="not allowed inside a transaction"):
            pipe.execute()


def test_a_total_is_that_of_one_moment_while_files_move(server):
    """Two directories; files go from one to the other and back. A walk over live rows would miss some, or meet
    some twice."""
    fs = FS(server)
    grow(fs, "/a", 1, 1500)
    fs("MKDIR", "/z/d0", "PARENTS")
    stop = threading.Event()

    def mover():
        mine = FS(server)
        while not stop.is_set():
            for here, there in ("/a", "/z"), ("/z", "/a"):
                many(mine, [("MV", f"{here}/d0/f{i}", f"{there}/d0/f{i}") for i in range(1500)])

    thread = threading.Thread(target=mover)
    thread.start()
    try:
        for _ in range(4):
            assert du(fs, "/") == (15000, 1500, 5)
            assert len(fs("FIND", "/", "f*")) == 1500
            check = pairs(fs("CHECK"))
            assert check["problems"] == 0 and check["files"] == 1500
    finally:
        stop.set()
        thread.join()


def test_what_a_client_wrote_before_is_counted(server):
    grow(FS(server), "/a", 1, 1200)
    told = Link(server).say("FS.CREATE /a/more", "FS.DU /a", "FS.RM /a/more", "FS.DU /a")
    assert "1201" in told[1] and "1200" in told[3], told


def test_a_client_that_goes_away_ends_its_command(server):
    fs = FS(server)
    grow(fs, "/a", 2, 3000)
    fs.client.execute_command("DEBUG", "RELOAD")
    for _ in range(5):
        for command in (b"FS.DU /\r\n", b"FS.CHECK REPAIR\r\n", b"FS.FIND / *\r\n"):
            sock = server.connect()
            sock.sendall(command)
            sock.close()
    assert du(fs, "/") == (60000, 6000, 4)
    wait_until(lambda: fs.client.info("clients")["connected_clients"] == 1)


def test_replies_are_bounded(fs):
    grow(fs, "/a", 101, 1000)
    with pytest.raises(Refused, match="RESOURCE.*DEPTH"):
        fs("TREE", "/a")
    assert len(lines(fs, "/a", "DEPTH", 1)) == 102
    assert len(fs("FIND", "/a", "*")) == 101 * 1001 + 1


def test_a_million_entries_in_one_directory(server):
    fs = FS(server)
    fs("MKDIR", "/big")
    total = 1000000
    flood(server, (b"/big/%06d" % (i * 7919 % total) for i in range(total)))
    assert du(fs, "/") == (0, total, 2)
    assert fs("LS", "/big", "FROM", "999998") == [None, [b"999998", b"999999"]]
    assert fs("LS", "/big", "FROM", "500000", "COUNT", 2) == [b"500002", [b"500000", b"500001"]]
    fs("RM", "/big", "RECURSIVE")
    assert fs.ls("/") == [] and du(fs, "/") == (0, 0, 1)
    assert fs("MKDIR", "/big")
    swept(fs)
    assert fs.info()["fs_files"] == 0 and fs.info()["fs_directories"] == 1


# ---- FileInfo ----

def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def message(data):
    """Fields of a protocol-buffers message: number -> value."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert tag & 7 == 0
        assert tag >> 3 not in fields
        fields[tag >> 3] = value
    return fields


def test_a_file_info_has_the_numbers_of_the_spec(fs):
    fs("MKDIR", "/d")
    id_ = fs("CREATE", b"/d/\xff.csv", "OWNER", "alice", "GROUP", "staff", "MODE", "640", "BLOCK", 1 << 20)
    fs("COMPLETE", id_, 5 << 19)
    fs("UTIME", id_, 1700000001000, 1700000000000)
    blocks = b""
    for i in range(3):
        value = id_ << 24 | i
        while value > 127:
            blocks += bytes([value & 127 | 128])
            value >>= 7
        blocks += bytes([value])
    for target in id_, b"/d/\xff.csv":
        assert message(fs("STAT", target, "PROTO")) == {
            1: id_, 2: b"\xff.csv", 3: b"/d/\xff.csv", 5: 5 << 19, 6: 0o640, 7: b"alice", 8: b"staff", 9: 1700000000000,
            10: 1700000001000, 11: blocks, 12: 2, 13: 1 << 20, 14: 1}
    told = message(fs("STAT", "/d", "PROTO"))
    assert told[4] == 1 and told[3] == b"/d" and told[6] == 0o755 and 11 not in told
    fs("CREATE", "/many", "BLOCK", 1)
    fs("SIZE", "/many", 1 << 20)
    assert len(message(fs("STAT", "/many", "PROTO"))[11]) == 4 << 20
    fs("SIZE", "/many", (1 << 20) + 1)
    assert fs.code("STAT", "/many", "PROTO") == "RESOURCE"
