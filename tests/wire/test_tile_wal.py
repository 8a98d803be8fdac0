# SPDX-License-Identifier: Apache-2.0
"""SQLite shards whose WAL, or whose file, is not what was written."""
import os
import random
import shutil
import sqlite3

import pytest
import redis

from tilekit import pack, sqlite_rows, stats
from waiting import wait_until


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


def base(dirs, kind="sqlite"):
    return dirs[kind] / "imagery" / "base.g3db"


def wal_of(path):
    return path.with_name(path.name + "-wal")


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


KEYS = [format(i, "b").zfill(8) for i in range(12)]


def persisted(begin, *kinds):
    """Twelve tiles in a shard, in two rounds, and a server that was killed."""
    server = begin(*kinds)
    client = server.client()
    for key in KEYS:
        tile(client, "SET", "imagery", key, "tile " + key)
        if key == KEYS[5]:
            tile(client, "SYNC")
    tile(client, "SYNC")
    assert stats(client, "imagery")["pending"] == 0
    server.kill()


def expected(keys=KEYS):
    return [b"tile " + key.encode() for key in keys]


def test_a_wrong_byte_anywhere_in_the_wal_of_a_killed_server_loses_no_persisted_tile(begin, dirs):
    persisted(begin, "sqlite")
    wal = wal_of(base(dirs))
    if wal.exists() and wal.stat().st_size > 0:
        flip(wal, 40)
    client = begin("sqlite").client()
    assert tile(client, "MGET", "imagery", *KEYS) == expected()
    assert tile(client, "COUNT", "imagery", "") == 12


def test_what_left_the_store_is_in_the_file_itself(begin, dirs, tmp_path):
    persisted(begin, "sqlite")
    shutil.copy(base(dirs), tmp_path / "alone.db")
    assert sqlite_rows(tmp_path / "alone.db", "SELECT count(*) FROM imagery") == ["12"]


def foreign_wal(dirs, commits):
    """A shard with a WAL of several commits that nobody has brought into the file, as older servers and other programs
    leave it."""
    path = base(dirs)
    copy = path.with_suffix(".copy")
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE imagery(tile_id BLOB PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, provider_id INTEGER NULL, "
               "data BLOB NOT NULL)")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for i in range(commits):
        db.execute("INSERT INTO imagery VALUES(?, 0, NULL, ?)", (pack(KEYS[i]), b"tile " + KEYS[i].encode()))
    shutil.copy(path, copy)
    shutil.copy(wal_of(path), wal_of(copy))
    db.close()
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    os.replace(copy, path)
    os.replace(wal_of(copy), wal_of(path))
    return path


def frame(number, page=4096):
    return 32 + number * (24 + page)


@pytest.mark.parametrize("at", [8, 24, frame(0) + 4, frame(0) + 10, frame(0) + 20, frame(0) + 100, frame(3) + 2000])
def test_a_wal_that_has_lost_commits_is_an_error_and_never_no_such_tile(begin, dirs, at):
    path = foreign_wal(dirs, 12)
    flip(wal_of(path), at)
    server = begin("sqlite")
    client = server.client()
    for words in (("GET", "imagery", KEYS[11]), ("EXISTS", "imagery", KEYS[0]), ("COUNT", "imagery", ""),
                  ("RANGE", "imagery", "")):
        with pytest.raises(redis.ResponseError, match="base.g3db.* is damaged"):
            tile(client, *words)
    assert stats(client)["damaged_shards"] == 1
    wait_until(lambda: "is damaged" in server.stderr())
    tile(client, "SET", "imagery", "3", "new")
    tile(client, "SYNC")  # it is set aside, with its WAL
    aside = [entry.name for entry in path.parent.iterdir() if ".corrupt." in entry.name]
    assert len(aside) == 2 and any(name.endswith("-wal") for name in aside)
    assert tile(client, "GET", "imagery", "3") == b"new"


def test_a_wal_that_is_whole_is_read(begin, dirs):
    foreign_wal(dirs, 12)
    client = begin("sqlite").client()
    assert tile(client, "MGET", "imagery", *KEYS) == expected()


def test_a_wal_whose_last_commit_is_torn_is_read_up_to_it(begin, dirs):
    """As after a power cut: it was never acknowledged, and the file is whole."""
    path = foreign_wal(dirs, 12)
    size = wal_of(path).stat().st_size
    flip(wal_of(path), size - 100)
    client = begin("sqlite").client()
    assert tile(client, "MGET", "imagery", *KEYS) == expected(KEYS[:11]) + [None]
    tile(client, "SET", "imagery", KEYS[11], "again")
    tile(client, "SYNC")
    assert wal_of(path).stat().st_size == 0
    assert tile(client, "COUNT", "imagery", "") == 12


@pytest.mark.parametrize("cut", [1, 9000, 16384, 20000])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_shard_that_was_cut_is_an_error_and_never_no_such_tile(begin, dirs, cut, is_open):
    rand = random.Random(cut)
    server = begin("sqlite", options=("--tile-cache", "0"))
    client = server.client()
    tiles = {key: rand.randbytes(9000) for key in KEYS}
    for key, data in tiles.items():
        tile(client, "SET", "imagery", key, data)
    tile(client, "SYNC")
    if not is_open:
        server.kill()
    path = base(dirs)
    os.truncate(path, path.stat().st_size - cut)
    if not is_open:
        server = begin("sqlite", options=("--tile-cache", "0"))
        client = server.client()
    for key, data in tiles.items():
        with pytest.raises(redis.ResponseError, match="base.g3db"):
            tile(client, "GET", "imagery", key)
    with pytest.raises(redis.ResponseError, match="base.g3db"):
        tile(client, "COUNT", "imagery", "")
    assert stats(client)["damaged_shards"] == 1 and b"base.g3db" in stats(client)["damage"]
    assert client.info("tiles")["tile_damaged_shards"] == 1
    wait_until(lambda: "base.g3db" in server.stderr())


# ---- two kinds ----

def test_what_the_damaged_kind_cannot_answer_the_other_kind_is_asked_for(begin, dirs):
    persisted(begin, "sqlite", "kv")
    path = base(dirs)
    os.truncate(path, path.stat().st_size - 9000)
    server = begin("sqlite", "kv", options=("--tile-cache", "0"))
    client = server.client()
    assert tile(client, "MGET", "imagery", *KEYS, "3") == expected() + [None]
    assert tile(client, "COUNT", "imagery", "", "BYTES") == [12, 12 * 13]
    assert tile(client, "RANGE", "imagery", "") == [key.encode() for key in KEYS]
    assert stats(client)["damaged_shards"] == 1
    wait_until(lambda: "base.g3db" in server.stderr())
    tile(client, "SET", "imagery", "3", "new")
    tile(client, "SYNC")  # the damaged file is set aside: the new one has one tile
    assert sqlite_rows(path, "SELECT count(*) FROM imagery") == ["1"]
    for again in range(2):
        assert tile(client, "MGET", "imagery", *KEYS, "3", "2") == expected() + [b"new", None]
        assert tile(client, "COUNT", "imagery", "") == 13
        assert len(tile(client, "RANGE", "imagery", "")) == 13
        server.kill()
        server = begin("sqlite", "kv", options=("--tile-cache", "0"))
        client = server.client()


def test_a_shard_that_was_set_aside_has_tiles_that_are_an_error_until_it_is_moved_away(begin, dirs):
    persisted(begin, "sqlite")
    path = base(dirs)
    os.truncate(path, path.stat().st_size - 9000)
    server = begin("sqlite", options=("--tile-cache", "0"))
    client = server.client()
    tile(client, "SET", "imagery", "3", "new")
    tile(client, "SYNC")
    for _ in range(2):
        assert tile(client, "GET", "imagery", "3") == b"new"
        for words in (("GET", "imagery", KEYS[0]), ("COUNT", "imagery", ""), ("RANGE", "imagery", "")):
            with pytest.raises(redis.ResponseError, match=r"base.g3db.corrupt.\d+"):
                tile(client, *words)
        assert stats(client)["damaged_shards"] == 1 and b"move it to another directory" in stats(client)["damage"]
        server.kill()
        server = begin("sqlite", options=("--tile-cache", "0"))
        client = server.client()
    tile(client, "SET", "imagery", KEYS[0], "again")  # whoever sets a tile again has it again
    assert tile(client, "GET", "imagery", KEYS[0]) == b"again"
    for entry in path.parent.glob("*.corrupt.*"):
        entry.rename(dirs["sqlite"] / entry.name)
    assert tile(client, "MGET", "imagery", KEYS[0], KEYS[1], "3") == [b"again", None, b"new"]
    assert tile(client, "COUNT", "imagery", "") == 2
    assert stats(client)["damaged_shards"] == 0 and stats(client)["damage"] == b""


def test_a_reader_that_holds_an_old_state_delays_and_loses_nothing(begin, dirs):
    server = begin("sqlite")
    client = server.client()
    tile(client, "SET", "imagery", "0", "first")
    tile(client, "SYNC")
    reader = sqlite3.connect(base(dirs), isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM imagery").fetchall() == [(1,)]
    tile(client, "SET", "imagery", "1", "second")
    with pytest.raises(redis.ResponseError, match="locked"):
        tile(client, "SYNC")
    assert stats(client, "imagery")["pending"] == 1
    wal = wal_of(base(dirs)).stat().st_size
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="locked"):
            tile(client, "SYNC")
    assert wal_of(base(dirs)).stat().st_size == wal  # it is not written again and again
    reader.execute("COMMIT")
    reader.close()
    tile(client, "SYNC")
    assert stats(client, "imagery")["pending"] == 0
    assert tile(client, "MGET", "imagery", "0", "1") == [b"first", b"second"]
