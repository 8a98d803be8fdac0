# SPDX-License-Identifier: Apache-2.0
"""FS.*: the tree, its errors, its limits, the same hot and cold."""
import re

import pytest

from conftest import terrace
from fs import FS, Refused, swept

MIB = 1 << 20


@pytest.fixture
def fs(server):
    return FS(server)


def reload(fs):
    fs.client.execute_command("DEBUG", "RELOAD")


def test_a_file_is_made_completed_and_told(fs):
    assert fs("MKDIR", "/data") == 2
    assert fs("CREATE", "/data/train.csv", "OWNER", "alice", "GROUP", "staff") == 3
    new = fs.stat("/data/train.csv")
    assert (new["id"], new["type"], new["size"], new["complete"], new["mode"]) == (3, "file", 0, 0, "0644")
    assert fs("COMPLETE", "/data/train.csv", 200 * MIB) == b"OK"
    reload(fs)
    done = fs.stat("3")
    assert done["path"] == b"/data/train.csv" and done["parent"] == 2 and done["block"] == 64 * MIB
    assert (done["size"], done["complete"], done["owner"], done["group"]) == (200 * MIB, 1, "alice", "staff")
    assert done["modified"] >= done["created"] == new["created"]
    root = fs.stat("/")
    assert (root["id"], root["parent"], root["mode"], root["type"]) == (1, 0, "0755", "directory")
    assert fs.stat(1) == {**root, "path": b"/"}


def test_an_empty_tree_has_a_root(fs):
    assert fs.stat("/")["id"] == 1 and fs.ls("/") == []
    assert fs("CHMOD", "/", "700") == b"OK"
    fs("MKDIR", "/a")
    assert fs.stat("/")["mode"] == "0700"


def test_attributes_are_set_by_path_and_by_id(fs):
    fs("CREATE", "/f", "MODE", "600", "BLOCK", MIB)
    assert fs.stat("/f")["mode"] == "0600" and fs.stat("/f")["block"] == MIB
    fs("CHMOD", "/f", "0755")
    fs("CHOWN", "2", "OWNER", "bob", "GROUP", "users")
    fs("UTIME", "/f", 5, 4)
    seen = fs.stat("/f")
    assert (seen["mode"], seen["owner"], seen["group"], seen["modified"], seen["created"]) == \
        ("0755", "bob", "users", 5, 4)
    fs("CHOWN", "/f", "GROUP", "")
    fs("UTIME", "/f", 9)
    seen = fs.stat("/f")
    assert (seen["owner"], seen["group"], seen["modified"], seen["created"]) == ("bob", "", 9, 4)
    for size in 7, 3, 11:
        assert fs("TRUNCATE" if size == 3 else "SIZE", "2", size) == b"OK"
        assert fs.stat("/f")["size"] == size and fs.info()["fs_bytes"] == size
    assert fs.stat("/f")["complete"] == 0
    assert fs("COMPLETE", "/f", 1) == fs("COMPLETE", "/f", 2) == b"OK"
    assert fs.stat("/f")["size"] == 2


def test_errors_are_those_of_the_spec(fs):
    fs("MKDIR", "/d")
    fs("CREATE", "/f")
    for wanted, *command in [
            ("EXISTS", "MKDIR", "/d"), ("EXISTS", "MKDIR", "/f"), ("EXISTS", "CREATE", "/d"),
            ("EXISTS", "MKDIR", "/"), ("EXISTS", "CREATE", "/"), ("EXISTS", "MKDIR", "/f", "PARENTS"),
            ("NOTFOUND", "MKDIR", "/x/y"), ("NOTFOUND", "CREATE", "/x/y"), ("NOTFOUND", "STAT", "/x"),
            ("NOTFOUND", "STAT", "/x/y/z"), ("NOTFOUND", "STAT", "77"), ("NOTFOUND", "LS", "/x"),
            ("NOTDIR", "MKDIR", "/f/x"), ("NOTDIR", "CREATE", "/f/x"), ("NOTDIR", "STAT", "/f/x"),
            ("NOTDIR", "MKDIR", "/f/x/y", "PARENTS"), ("NOTDIR", "STAT", "/f/x/y"), ("NOTDIR", "LS", "/f"),
            ("NOTDIR", "RM", "/f/x"), ("NOTDIR", "MV", "/f/x", "/y"), ("NOTDIR", "MV", "/d", "/f/x"),
            ("ISDIR", "COMPLETE", "/d", 1), ("ISDIR", "SIZE", "/d", 1), ("ISDIR", "TRUNCATE", "/", 1),
            ("ISDIR", "BLOCKS", "/d"),
            ("EXISTS", "MV", "/d", "/f"), ("SUBTREE", "MV", "/d", "/d/x"), ("ROOT", "MV", "/", "/x"),
            ("ROOT", "MV", "/d", "/"), ("NOTFOUND", "MV", "/x", "/y"), ("NOTFOUND", "MV", "/d", "/x/y"),
            ("ROOT", "RM", "/"), ("ROOT", "RM", "/", "RECURSIVE"), ("NOTFOUND", "RM", "/x"),
            ("NOTFOUND", "UMOUNT", "/x"), ("NOTFOUND", "RESOLVE", "/x"),
            ("RESOURCE", "SIZE", "/f", (64 * MIB << 24) + 1)]:
        assert fs.code(*command) == wanted, command
    for command in [("MKDIR", "d"), ("MKDIR", ""), ("MKDIR", "/a//b"), ("MKDIR", "/a/"), ("MKDIR", "/a/../b"),
                    ("MKDIR", "/."), ("MKDIR", b"/a\0b"), ("MKDIR", "/x", "MODE", "8"), ("MKDIR", "/x", "MODE", "17777"),
                    ("MKDIR", "/x", "MODE", ""), ("MKDIR", "/x", "MODE"), ("MKDIR", "/x", "NOPE"),
                    ("MKDIR", "/x", "BLOCK", 5), ("CREATE", "/x", "BLOCK", 0), ("CREATE", "/x", "PARENTS"),
                    ("CREATE", "/x", "OWNER", "n" * 256), ("SIZE", "/f", -1), ("SIZE", "/f", "x"), ("STAT", "-1"),
                    ("STAT", "0"), ("STAT", str(1 << 40)), ("STAT", "/f", "NOPE"), ("STAT", "f"), ("RM", "2"),
                    ("LS", "/", "COUNT", 0), ("LS", "/", "COUNT", 100001), ("LS", "/", "NOPE"), ("UTIME", "/f", -1),
                    ("MOUNT", "x", "s3://"), ("MOUNT", "/x", ""), ("MV", "/d", "/x", "NOPE"), ("RM", "/d", "NOPE")]:
        with pytest.raises(Refused) as refused:
            fs(*command)
        assert refused.value.code not in ("NOTFOUND", "EXISTS", "NOTDIR", "ISDIR", "ROOT"), command
    assert fs.ls("/") == [b"d", b"f"] and fs.ls("/d") == []
    assert fs.info()["fs_files"] == 1 and fs.info()["fs_directories"] == 1


# ---- the holes of the original, each by name ----

def test_a_file_used_as_a_parent_plants_nothing(fs):
    fs("CREATE", "/f")
    for word in "MKDIR", "CREATE":
        assert fs.code(word, "/f/ghost") == "NOTDIR"
    assert fs.code("MKDIR", "/f/g/h", "PARENTS") == "NOTDIR"
    fs("RM", "/f")
    assert fs("MKDIR", "/f") and fs("CREATE", "/f/ghost")
    assert fs.info()["fs_files"] == 1 and fs.info()["fs_directories"] == 1


def test_a_directory_cannot_be_moved_below_itself(fs):
    fs("MKDIR", "/a/b/c", "PARENTS")
    for to in "/a/x", "/a/b/x", "/a/b/c/x":
        assert fs.code("MV", "/a", to) == "SUBTREE"
    assert fs.code("MV", "/a", "/a/b", "REPLACE") == "SUBTREE"
    assert fs.code("MV", "/a/b", "/a", "REPLACE") == "NOTEMPTY"
    assert fs.code("MV", "/a", "/a", "REPLACE") == "OK" and fs.code("MV", "/a", "/a") == "EXISTS"
    assert fs.stat("4")["path"] == b"/a/b/c"


def test_ids_are_never_used_twice_whatever_is_undone_or_killed(start):
    server = start()
    fs = FS(server)
    ids = []
    for round_ in range(4):
        many = fs.client.pipeline(transaction=False)
        for i in range(700):
            many.execute_command("FS.CREATE", f"/f{round_}.{i}")
        ids += many.execute()
        # a MULTI that crosses reservations and is taken back as a whole
        one = fs.client.pipeline(transaction=True)
        for i in range(1500):
            one.execute_command("FS.MKDIR", f"/m{round_}.{i}")
        fs.client.execute_command("DEBUG", "COLD-INJECT", 2500)
        ids += one.execute()
        server.kill()
        server = start()
        fs = FS(server)
    assert len(set(ids)) == len(ids)
    stats = fs.ls("/", stat=True)
    assert sorted(one["id"] for one in stats) == sorted(ids)


def test_the_highest_id_may_be_a_files(start):
    server = start()
    fs = FS(server)
    fs("MKDIR", "/d")
    last = max(fs("CREATE", f"/f{i}") for i in range(2500))
    server.kill()
    fs = FS(start())
    assert fs("MKDIR", "/e") > last


def test_an_owner_stays_known_after_a_kill_in_the_commit_that_brought_it(start):
    server = start("--durability", "always")
    for i in range(5):
        fs = FS(server)
        fs("CREATE", f"/f{i}", "OWNER", f"owner{i}", "GROUP", f"group{i}")
        server.kill()
        server = start("--durability", "always")
    fs = FS(server)
    assert [(one["owner"], one["group"]) for one in fs.ls("/", stat=True)] == \
        [(f"owner{i}", f"group{i}") for i in range(5)]


def test_the_256th_owner_is_refused_and_nothing_is_lost(fs):
    for kind in "OWNER", "GROUP":
        for i in range(255):
            fs("CREATE", f"/{kind}{i:03}", kind, f"name{i}")
        assert fs.code("CREATE", "/more", kind, "one more") == "RESOURCE"
        assert fs.code("MKDIR", "/p/q", "PARENTS", kind, "one more") == "RESOURCE"
        assert fs.code("CHOWN", f"/{kind}000", kind, "one more") == "RESOURCE"
        assert fs.code("STAT", "/more") == fs.code("STAT", "/p") == "NOTFOUND"
        assert fs("CREATE", f"/{kind}again", kind, "name254")
        reload(fs)
        assert [fs.stat(f"/{kind}{i:03}")[kind.lower()] for i in range(255)] == [f"name{i}" for i in range(255)]


def test_long_names_are_refused_or_kept_whole(fs):
    for length in 1, 254, 255:
        name = b"n" * length
        fs("CREATE", b"/" + name)
        reload(fs)
        assert name in fs.ls("/")
        assert fs.stat(fs.stat(b"/" + name)["id"])["path"] == b"/" + name
    with pytest.raises(Refused, match="256 bytes is over the limit"):
        fs("CREATE", "/" + "n" * 256)


def test_mkdir_with_parents_is_one_commit(start):
    server = start()
    fs = FS(server)
    fs("CREATE", "/a")
    assert fs.code("MKDIR", "/a/b/c", "PARENTS") == "NOTDIR"
    commits = fs.client.info("stats")["commits"]
    fs("MKDIR", "/x/" + "/".join("y" * 100), "PARENTS")
    assert fs.client.info("stats")["commits"] - commits <= 2  # and that of INFO
    assert fs("MKDIR", "/x/y", "PARENTS") == fs.stat("/x/y")["id"]


def test_recursive_delete_vanishes_at_once_and_goes_in_steps(fs):
    fs("MKDIR", "/keep/d", "PARENTS")
    for d in range(5):
        fs("MKDIR", f"/top/d{d}/e", "PARENTS")
        many = fs.client.pipeline(transaction=False)
        for i in range(300):
            many.execute_command("FS.CREATE", f"/top/d{d}/e/f{i}")
        many.execute()
        fs("COMPLETE", f"/top/d{d}/e/f0", 1000)
    inside = fs.stat("/top/d3/e/f7")["id"]
    commits = fs.client.info("stats")["commits"]
    pipe = fs.client.pipeline(transaction=True)
    pipe.execute_command("FS.RM", "/top", "RECURSIVE")
    pipe.execute_command("FS.LS", "/")
    pipe.execute_command("FS.MSTAT", "/top", "/top/d3/e/f7")
    pipe.execute_command("FS.MKDIR", "/top")
    assert pipe.execute()[1:3] == [[None, [b"keep"]], [None, None]]
    assert fs.code("STAT", inside) == fs.code("SIZE", inside, 5) == fs.code("CHMOD", inside, "600") == "NOTFOUND"
    swept(fs)
    assert fs.client.info("stats")["commits"] - commits > 1500 // 64
    info = fs.info()
    assert (info["fs_files"], info["fs_directories"], info["fs_bytes"]) == (0, 3, 0)
    assert fs.ls("/top") == [] and fs.ls("/keep") == [b"d"]


def test_mkdir_of_an_existing_file_is_refused(fs):
    fs("CREATE", "/f")
    assert fs.code("MKDIR", "/f") == fs.code("MKDIR", "/f", "PARENTS") == "EXISTS"
    assert fs.stat("/f")["type"] == "file"


def test_a_start_reads_no_row_of_the_tree(start):
    server = start()
    fs = FS(server)
    many = fs.client.pipeline(transaction=False)
    for i in range(20000):
        many.execute_command("FS.CREATE", f"/f{i}")
    many.execute()
    server.stop()
    fs = FS(start())
    tiers = fs.client.info("tiers")
    assert tiers["loads"] == 0 and tiers["hot_entries"] < 100
    assert fs.info()["fs_files"] == 20000
    assert fs("CREATE", "/g") > 20001


# ---- names, paths, depth ----

def test_names_may_hold_every_byte_but_nul_and_slash(fs):
    names = [bytes([byte]) for byte in range(1, 256) if byte not in b"/."] + [bytes(range(1, 47)) + b"x"]
    for name in names:
        fs("CREATE", b"/" + name)
    reload(fs)
    assert fs.ls("/", page=7) == sorted(names)
    for name in names:
        assert fs.stat(b"/" + name)["path"] == b"/" + name
        fs("MV", b"/" + name, b"/moved-" + name)
    assert fs.ls("/") == sorted(b"moved-" + name for name in names)


def test_a_tree_may_be_a_thousand_directories_deep(fs):
    path = "/d" * 1000
    fs("MKDIR", path, "PARENTS")
    fs("CREATE", path + "/f")
    reload(fs)
    top = fs.stat(path + "/f")
    assert fs.stat(top["id"])["path"] == (path + "/f").encode()
    assert fs.code("MKDIR", "/x" * 2048) == "NOTFOUND"
    with pytest.raises(Refused, match="4098 bytes is over the limit"):
        fs("MKDIR", "/x" * 2049)
    fs("MKDIR", "/x" * 2048, "PARENTS")
    fs("MV", "/d", "/x/d")  # deeper than a path can say
    fs("RM", "/x", "RECURSIVE")
    assert fs.code("STAT", top["id"]) == "NOTFOUND" and fs.ls("/") == []
    swept(fs)
    assert fs.info()["fs_directories"] == fs.info()["fs_files"] == 0 and fs.info()["fs_swept_inodes"] == 3049


def test_moves_are_those_of_rename(fs):
    fs("MKDIR", "/d/sub", "PARENTS")
    fs("MKDIR", "/empty")
    for name in "a", "b", "d/f":
        fs("CREATE", "/" + name)
        fs("COMPLETE", "/" + name, 10)
    ids = {name: fs.stat("/" + name)["id"] for name in ("a", "b", "d", "d/f")}
    assert fs.code("MV", "/a", "/empty", "REPLACE") == "ISDIR"
    assert fs.code("MV", "/empty", "/a", "REPLACE") == "NOTDIR"
    assert fs.code("MV", "/empty", "/d", "REPLACE") == "NOTEMPTY"
    fs("MV", "/d", "/empty", "REPLACE")
    fs("MV", "/a", "/b", "REPLACE")
    fs("MV", "/empty/f", "/empty/sub/g")
    reload(fs)
    assert fs.ls("/") == [b"b", b"empty"] and fs.ls("/empty") == [b"sub"] and fs.ls("/empty/sub") == [b"g"]
    assert fs.stat("/b")["id"] == ids["a"] and fs.stat("/empty")["id"] == ids["d"]
    assert fs.stat(ids["d/f"])["path"] == b"/empty/sub/g"
    assert fs.code("STAT", ids["b"]) == "NOTFOUND"
    assert fs.info()["fs_bytes"] == 20 and fs.info()["fs_files"] == 2 and fs.info()["fs_directories"] == 2


def test_listings_are_pages_in_order_of_names(fs):
    names = sorted(f"{i * 7919 % 1000:03}".encode() for i in range(1000))
    many = fs.client.pipeline(transaction=False)
    for name in reversed(names):
        many.execute_command("FS.CREATE", b"/" + name)
    many.execute()
    for page in 1, 3, 999, 1000, 1001:
        if page == 3:
            reload(fs)
        assert fs.ls("/", page=page) == names
    assert fs("LS", "/", "FROM", "9950", "COUNT", 2) == [b"998", [b"996", b"997"]]
    assert fs("LS", "/", "FROM", "998") == [None, [b"998", b"999"]] and fs("LS", "/", "FROM", "x") == [None, []]
    assert [one["name"] for one in fs.ls("/", page=100, stat=True)] == names
    assert fs.ls("/", page=10000) == names
    for count in 0, -1, 10001, "x":
        assert fs.code("LS", "/", "COUNT", count) in ("COUNT", "value") and fs.code("BLOCKS", "/000", "COUNT", count) != "OK"


def test_many_are_told_at_once(fs):
    fs("CREATE", "/f", "OWNER", "o")
    fs("MKDIR", "/d")
    reload(fs)
    found = [one and dict(zip(one[::2], one[1::2])) for one in fs("MSTAT", "/d", "/x", "/f/x", "/f", "/", "/d/y/z")]
    assert [one and one[b"path"] for one in found] == [b"/d", None, None, b"/f", b"/", None]
    assert found[3][b"owner"] == b"o"


def test_blocks_are_numbered_by_inode(fs):
    fs("CREATE", "/f", "BLOCK", 10)
    assert fs("BLOCKS", "/f") == [None, []]
    fs("COMPLETE", "/f", 95)
    first = fs.stat("/f")["id"] << 24
    assert fs("BLOCKS", "/f") == [None, [[first + i, 10] for i in range(9)] + [[first + 9, 5]]]
    assert fs("BLOCKS", "/f", "FROM", 8, "COUNT", 1) == [9, [[first + 8, 10]]]
    assert fs("BLOCKS", "/f", "FROM", 100) == [None, []]
    fs("COMPLETE", "/f", 10 << 24)
    assert fs.code("COMPLETE", "/f", (10 << 24) + 1) == "RESOURCE"
    assert fs("BLOCKS", "/f", "FROM", (1 << 24) - 1) == [None, [[first + (1 << 24) - 1, 10]]]


def test_mounts_resolve_by_the_longest_path(fs):
    fs("MOUNT", "/data", "s3://bucket/x")
    fs("MOUNT", "/data/deep/er", "file:///srv/")
    assert fs.code("MOUNT", "/data", "s3://other") == "EXISTS"
    reload(fs)
    for path, uri, target in [("/data", b"s3://bucket/x", b"s3://bucket/x"),
                              ("/data/deep", b"s3://bucket/x", b"s3://bucket/x/deep"),
                              ("/data/deep/er", b"file:///srv/", b"file:///srv/"),
                              ("/data/deep/er/f/g", b"file:///srv/", b"file:///srv/f/g"),
                              ("/data/deep/err", b"s3://bucket/x", b"s3://bucket/x/deep/err")]:
        told = fs("RESOLVE", path)
        assert told[3] == uri and told[5] == target
    assert fs.code("RESOLVE", "/datas") == "NOTFOUND"
    assert fs("MOUNTS") == [None, [b"/data", b"s3://bucket/x", b"/data/deep/er", b"file:///srv/"]]
    fs("UMOUNT", "/data")
    assert fs.code("RESOLVE", "/data/deep") == "NOTFOUND"
    fs("MOUNT", "/", "hdfs://all")
    assert fs("RESOLVE", "/any/thing")[5] == b"hdfs://all/any/thing"


def test_mounts_are_told_in_pages(fs):
    mounts = {f"/m{i:04}".encode(): f"s3://{i}".encode() * 50 for i in range(1234)}
    many = fs.client.pipeline(transaction=False)
    for path, uri in mounts.items():
        many.execute_command("FS.MOUNT", path, uri)
    many.execute()
    for page in 1, 7, 1000, 1234, 10000:
        if page == 7:
            reload(fs)
        told, at, pages = {}, [], 0
        while at is not None:
            at, flat = fs("MOUNTS", *at, "COUNT", page)
            assert list(flat[::2]) == sorted(flat[::2]) and len(flat) <= 2 * page
            told.update(zip(flat[::2], flat[1::2]))
            at, pages = (["FROM", at] if at is not None else None), pages + 1
        assert told == mounts and pages == -(-1234 // page)
    assert len(fs("MOUNTS")[1]) == 2000 and fs("MOUNTS")[0] == b"/m1000"
    assert fs("MOUNTS", "FROM", "/m1232x") == [None, [b"/m1233", mounts[b"/m1233"]]]
    assert fs("MOUNTS", "FROM", "/n") == [None, []]
    for words in ["COUNT", 0], ["COUNT", 10001], ["COUNT"], ["STAT"], ["FROM"], ["/m"]:
        assert fs.code("MOUNTS", *words) in ("syntax", "COUNT"), words


# ---- beside the rest of the server ----

def test_a_multi_is_one_commit_and_refused_commands_leave_nothing(fs):
    pipe = fs.client.pipeline(transaction=True)
    for command in [("MKDIR", "/a"), ("CREATE", "/a/f"), ("MKDIR", "/a"), ("MV", "/a/f", "/g"), ("RM", "/a"),
                    ("LS", "/")]:
        pipe.execute_command("FS." + command[0], *command[1:])
    told = pipe.execute(raise_on_error=False)
    assert str(told[2]).startswith("EXISTS") and told[5] == [None, [b"g"]]
    assert fs.info()["fs_files"] == 1 and fs.info()["fs_directories"] == 0


def test_flushall_and_select_do_not_concern_the_tree(fs):
    fs("CREATE", "/f")
    fs.client.flushall()
    fs.client.flushdb()
    fs.client.execute_command("SELECT", 3)
    assert fs.ls("/") == [b"f"] and fs.client.dbsize() == 0


def test_a_directory_without_these_spaces_opens(start, tmp_path):
    """What an older server has written: the lines of the catalogue are cut off, and its checksum made anew."""
    server = start()
    server.client().set("k", "v")
    server.stop()
    path = tmp_path / "data" / "TERRACE"
    lines = path.read_bytes().splitlines(keepends=True)[:-1]
    kept = b"".join(line for line in lines if not re.match(rb"(space|prefix) [56] ", line))
    assert len(kept) < len(b"".join(lines))
    path.write_bytes(kept + b"crc %08x\n" % crc32c(kept))
    server = start()
    fs = FS(server)
    assert fs.client.get("k") == b"v" and fs("CREATE", "/f") == 2
    server.stop()
    assert "edge" in terrace("inspect", tmp_path / "data", "--rows", "edge")


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff


def test_inspect_shows_the_rows(start, tmp_path):
    server = start()
    FS(server)("MKDIR", "/data")
    server.stop()
    shown = terrace("inspect", tmp_path / "data", "--rows", "inode")
    assert 'inode 2, directory "data", parent 1, size 0, mode 0755, owner 0, group 0\n' in shown
    assert 'suffix "data"' in terrace("inspect", tmp_path / "data", "--rows", "edge")
