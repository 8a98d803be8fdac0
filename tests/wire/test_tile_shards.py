# SPDX-License-Identifier: Apache-2.0
"""Tiles in shard files: read by other programs as they are drawn, and by us when the store has them no more."""
import itertools
import random
import shutil
import sqlite3

import pytest
import redis

from tilekit import IMAGERY, TYPES, headered, lmdb_rows, pack, place, sqlite_rows, stats
from waiting import wait_until

EVERY = bytes(range(256))


def keys_of_all_levels():
    return [("3120" * 6)[:level] for level in range(25)] + ["0", "0123", "333333333"]


def test_other_programs_read_the_shards_as_they_are_drawn(begin, dirs):
    server = begin("sqlite", "kv")
    client = server.client()
    for epoch, key in enumerate(keys_of_all_levels()):
        client.execute_command("TILE.SET", "imagery", key, EVERY + key.encode(), "EPOCH", epoch, "PROVIDER", epoch % 2)
    client.execute_command("TILE.SET", "tm", "01230123", "then", "TM", 1732612345678, "EPOCH", 1029, "PROVIDER", 124)
    client.execute_command("TILE.META", "SET", "q2", "01230", "packet")
    client.execute_command("TILE.META", "STATUS", "q2", "0123", "IN_PROGRESS")
    assert client.execute_command("TILE.SYNC") == b"OK"
    for epoch, key in enumerate(keys_of_all_levels()):
        rows = sqlite_rows(dirs["sqlite"] / "imagery" / place(key),
                           f"SELECT epoch, ifnull(provider_id, 'NULL'), hex(data) FROM imagery WHERE tile_id = x'{pack(key).hex()}'")
        assert rows == [f"{epoch}|{epoch % 2 or 'NULL'}|{(EVERY + key.encode()).hex().upper()}"], key
        values = lmdb_rows(dirs["kv"] / "imagery" / place(key), "imagery")
        assert values[pack(key)] == headered(EVERY + key.encode(), epoch, epoch % 2)
    tm = dirs["sqlite"] / "tm" / "base.g3db"
    assert sqlite_rows(tm, "SELECT hex(tile_id), t, epoch, provider_id, data FROM tm") == \
        ["1B1B000000000008|1732612345678|1029|124|then"]
    assert lmdb_rows(dirs["kv"] / "tm" / "base.g3db", "tm") == \
        {bytes.fromhex("1b1b0000000000080000019367be4f4e"): b"\x85\x08\x7cthen"}
    q2 = dirs["sqlite"] / "q2" / "base.g3db"
    assert sqlite_rows(q2, "SELECT hex(tile_id), level, prefix4, data, status FROM q2") == ["1B00000000000004|4|27|packet|1"]
    assert sqlite_rows(q2, "SELECT hex(tile_id), level, prefix4, status_code FROM tasks") == ["1B00000000000004|4|27|1"]
    assert not (dirs["kv"] / "q2").exists()  # metadata is in SQL only


def test_the_schema_is_the_one_of_the_specification(begin, dirs):
    server = begin("sqlite", "kv")
    client = server.client()
    for kind in ("imagery", "terrain"):
        client.execute_command("TILE.SET", kind, "0", "x")
    client.execute_command("TILE.SET", "tm", "0:1", "x")
    client.execute_command("TILE.META", "SET", "qp", "0", "x")
    client.execute_command("TILE.SYNC")
    columns = lambda kind: [tuple(row.split("|")[1:]) for row in
                            sqlite_rows(dirs["sqlite"] / kind / "base.g3db", f"PRAGMA table_info({kind})")]
    indexes = lambda kind: sorted(row.split("|")[1] for row in sqlite_rows(
        dirs["sqlite"] / kind / "base.g3db", f"PRAGMA index_list({kind})") if "autoindex" not in row)
    for kind in ("imagery", "terrain"):
        assert columns(kind) == [("tile_id", "BLOB", "0", "", "1"), ("epoch", "INTEGER", "1", "0", "0"),
                                 ("provider_id", "INTEGER", "0", "", "0"), ("data", "BLOB", "1", "", "0")]
    assert [(row[0], row[4]) for row in columns("tm")] == \
        [("tile_id", "1"), ("t", "2"), ("epoch", "0"), ("provider_id", "0"), ("data", "0")]
    assert indexes("tm") == ["idx_t"]
    assert columns("qp") == [("tile_id", "BLOB", "0", "", "1"), ("level", "INTEGER", "1", "", "0"),
                             ("prefix4", "INTEGER", "1", "", "0"), ("data", "BLOB", "1", "", "0"),
                             ("status", "INTEGER", "1", "0", "0")]
    assert indexes("qp") == ["idx_level", "idx_prefix4", "idx_status"]
    base = dirs["sqlite"] / "imagery" / "base.g3db"
    assert sqlite_rows(base, "PRAGMA journal_mode") == ["wal"]
    assert sqlite_rows(base, "PRAGMA application_id; PRAGMA user_version") == [str(0x5454696c), "1"]
    assert lmdb_rows(dirs["kv"] / "imagery" / "base.g3db", "terrace") == {b"format": b"headered"}
    with pytest.raises(sqlite3.IntegrityError):
        sqlite3.connect(dirs["sqlite"] / "qp" / "base.g3db").execute("INSERT INTO qp VALUES(x'00', 3, 0, x'', 0)")


@pytest.mark.parametrize("kinds", [("sqlite",), ("kv",), ("sqlite", "kv")])
@pytest.mark.parametrize("clear", ["yes", "no"])
def test_persisted_tiles_are_read_from_their_shards(begin, kinds, clear):
    """Also after a restart, with a cache too small for one tile and one shard open at a time."""
    options = ("--tile-clear", clear, "--tile-cache", "0", "--tile-open-shards", "1")
    server = begin(*kinds, options=options)
    client = server.client()
    rand = random.Random(4)
    tiles = {"".join(rand.choices("0123", k=rand.randint(1, 24))): rand.randbytes(rand.choice([0, 1, 500, 9000]))
             for _ in range(200)}
    for key, data in tiles.items():
        client.execute_command("TILE.SET", "imagery", key, data, "EPOCH", len(data))
    client.execute_command("TILE.SYNC")
    for again in range(2):
        for key, data in tiles.items():
            assert client.execute_command("TILE.GET", "imagery", key, "META") == [data, len(data), 0]
        keys = list(tiles)
        assert client.execute_command("TILE.MGET", "imagery", *keys, "0000000") == [tiles[key] for key in keys] + [None]
        assert client.execute_command("TILE.EXISTS", "imagery", *keys) == len(keys)
        assert server.client(db=IMAGERY).mget(*keys) == [headered(tiles[key], len(tiles[key])) for key in keys]
        if again == 0:
            server.kill()
            server = begin(*kinds, options=options)
            client = server.client()
    assert client.execute_command("TILE.DEL", "imagery", *keys[:100]) == 100
    assert client.execute_command("TILE.EXISTS", "imagery", *keys) == len(keys) - 100
    client.execute_command("TILE.SYNC")
    assert client.execute_command("TILE.EXISTS", "imagery", *keys) == len(keys) - 100
    server.kill()
    client = begin(*kinds, options=options).client()
    assert client.execute_command("TILE.MGET", "imagery", *keys) == [None] * 100 + [tiles[key] for key in keys[100:]]


def test_a_tile_that_is_persisted_leaves_the_store_unless_tile_clear_is_no(begin, dirs):
    for clear, left in (("yes", False), ("no", True)):
        server = begin("sqlite", options=("--tile-clear", clear))
        client = server.client()
        client.execute_command("TILE.SET", "imagery", "0", "x")
        client.execute_command("TILE.SYNC")
        path = dirs["sqlite"] / "imagery" / "base.g3db"
        with sqlite3.connect(path) as db:
            db.execute("UPDATE imagery SET data = 'changed behind our back'")
        assert client.execute_command("TILE.GET", "imagery", "0") == (b"x" if left else b"changed behind our back")
        server.stop()


def test_the_newest_tile_at_a_time_comes_from_store_or_shard(begin):
    client = begin("sqlite").client()
    at = lambda ms: client.execute_command("TILE.GET", "tm", "0123", "AT", ms, "META")
    for ms in (10, 30, 50):
        client.execute_command("TILE.SET", "tm", "0123", f"{ms}", "TM", ms)
    client.execute_command("TILE.SYNC")
    client.execute_command("TILE.SET", "tm", "0123", "40", "TM", 40)
    client.execute_command("TILE.SET", "tm", "0123", "10 again", "TM", 10)
    client.execute_command("TILE.DEL", "tm", "0123:30")
    assert at(100)[0] == b"50" and at(49)[0] == b"40" and at(39) == [b"10 again", 0, 0, 10] and at(9) is None
    client.execute_command("TILE.DEL", "tm", "0123:50", "0123:40")
    assert at(100)[0] == b"10 again"
    client.execute_command("TILE.SYNC")
    assert at(100)[0] == b"10 again" and at(9) is None
    client.execute_command("TILE.SET", "tm", "0123", "late", "TM", 2 ** 63 - 1)
    assert client.execute_command("TILE.GET", "tm", "0123") == b"late"


def test_a_store_that_was_never_persisted_can_get_shards_later(begin, start):
    server = begin()
    server.client().execute_command("TILE.SET", "imagery", "0", "before")
    server.client().execute_command("TILE.SET", "imagery", "1", "gone")
    server.client().execute_command("TILE.DEL", "imagery", "1")
    server.stop()
    client = begin("kv").client()
    client.execute_command("TILE.SYNC")
    assert client.execute_command("TILE.MGET", "imagery", "0", "1") == [b"before", None]


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_after_a_start_with_tiles_a_plain_one_has_them_too(start, tmp_path, kind):
    """The map demo, then plain `make run`."""
    shards = tmp_path / "shards"
    server = start("--tile-types", "imagery=1", f"--tile-{kind}", str(shards))
    server.client().execute_command("TILE.SET", "imagery", "0", "x")
    server.stop()
    server = start()
    client = server.client()
    assert client.execute_command("TILE.GET", "imagery", "0") == b"x"
    assert str(shards) in server.stderr() and f"tile-{kind}" in server.stderr()
    client.execute_command("TILE.SET", "imagery", "1", "y")
    client.execute_command("TILE.SYNC")
    server.stop()
    path = shards / "imagery" / "base.g3db"
    rows = sqlite_rows(path, "SELECT count(*) FROM imagery") if kind == "sqlite" else [str(len(lmdb_rows(path, "imagery")))]
    assert rows == ["2"]


def test_shards_inside_the_data_directory_go_with_a_copy_of_it(start, tmp_path):
    inside = tmp_path / "data" / "tiles"
    server = start("--tile-types", "imagery=1", "--tile-sqlite", str(inside))
    server.client().execute_command("TILE.SET", "imagery", "0", "x")
    server.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    shutil.rmtree(inside)
    client = start(name="copy").client()
    assert client.execute_command("TILE.GET", "imagery", "0") == b"x"
    client.execute_command("TILE.SET", "imagery", "1", "y")
    client.execute_command("TILE.SYNC")
    assert not inside.exists()
    assert sqlite_rows(tmp_path / "copy" / "tiles" / "imagery" / "base.g3db", "SELECT count(*) FROM imagery") == ["2"]


def test_shards_that_have_the_tiles_cannot_be_left_out(begin, start, dirs):
    server = begin("kv")
    server.client().execute_command("TILE.SET", "imagery", "0", "x")
    server.stop()
    server = start("--tile-types", *TYPES, "--tile-sqlite", str(dirs["sqlite"]))
    assert server.client().execute_command("TILE.GET", "imagery", "0") == b"x"
    server.stop()
    server = begin("sqlite", "kv")  # SQLite gets a copy of what comes; KV is still the one that has everything
    client = server.client()
    client.execute_command("TILE.SET", "imagery", "1", "y")
    client.execute_command("TILE.SYNC")
    assert client.execute_command("TILE.MGET", "imagery", "0", "1") == [b"x", b"y"]
    assert sqlite_rows(dirs["sqlite"] / "imagery" / "base.g3db", "SELECT count(*) FROM imagery") == ["1"]
    server.stop()
    assert begin("kv").client().execute_command("TILE.MGET", "imagery", "0", "1") == [b"x", b"y"]


def test_everything_is_persisted_at_shutdown(begin, dirs):
    server = begin("sqlite")
    for i in range(50):
        server.client().execute_command("TILE.SET", "imagery", f"{i:06b}", "x")
    assert server.stop() == 0
    assert sqlite_rows(dirs["sqlite"] / "imagery" / "base.g3db", "SELECT count(*) FROM imagery") == ["50"]


def test_tiles_are_persisted_when_there_are_enough_or_the_interval_is_over(begin, dirs, start):
    path = dirs["sqlite"] / "imagery" / "base.g3db"
    for options, keys in ((("--tile-batch", "3", "--tile-interval", "3600s"), "012"),
                          (("--tile-batch", "1000", "--tile-interval", "50ms"), "3")):
        server = begin("sqlite", options=options)
        for key in keys:
            server.client().execute_command("TILE.SET", "imagery", key, "x")
        wait_until(lambda: stats(server.client())["persisted"] == len(keys))
        assert sqlite_rows(path, "SELECT count(*) FROM imagery") == [str(len(keys))]
        server.stop()
        path.unlink()


def test_tiles_are_persisted_while_clients_go_on_setting_others(begin, dirs):
    """The job steps back before them, and still comes to its end."""
    client = begin("sqlite", options=("--tile-batch", "10", "--tile-interval", "3600s")).client()
    keys = itertools.cycle("".join(key) for key in itertools.product("0123", repeat=5))
    while stats(client)["persisted"] < 500:
        pipe = client.pipeline(transaction=False)
        for _ in range(50):
            pipe.execute_command("TILE.SET", "imagery", next(keys), "x" * 3000)
        assert pipe.execute() == [b"OK"] * 50
    path = dirs["sqlite"] / "imagery" / "base.g3db"
    assert int(sqlite_rows(path, "SELECT count(*) FROM imagery")[0]) > 0


def test_reads_of_many_clients_wait_for_one_read_of_a_shard(begin):
    server = begin("sqlite")
    client = server.client()
    client.execute_command("TILE.SET", "imagery", "0123", "x" * 5000)
    client.execute_command("TILE.SYNC")
    clients = [server.client() for _ in range(20)]
    pipes = [one.pipeline(transaction=False) for one in clients]
    for pipe in pipes:
        for _ in range(5):
            pipe.execute_command("TILE.GET", "imagery", "0123")
        assert pipe.execute() == [b"x" * 5000] * 5


def test_a_transaction_that_needs_shards_is_still_one(begin):
    client = begin("sqlite").client()
    client.execute_command("TILE.SET", "imagery", "0", "old")
    client.execute_command("TILE.SET", "imagery", "1", "there")
    client.execute_command("TILE.SYNC")
    pipe = client.pipeline()
    pipe.execute_command("TILE.SET", "imagery", "0", "new")
    pipe.execute_command("TILE.GET", "imagery", "1")
    pipe.execute_command("TILE.GET", "imagery", "0")
    pipe.execute_command("TILE.DEL", "imagery", "1", "2")
    pipe.execute_command("TILE.EXISTS", "imagery", "1")
    assert pipe.execute() == [b"OK", b"there", b"new", 1, 0]


def test_shards_are_found_after_the_options_were_set_again(begin, dirs):
    """The store of tiles has its own copy of the directories' names: a CONFIG SET frees the text of every option."""
    client = begin("sqlite", "kv").client()
    client.execute_command("TILE.SET", "imagery", "0", "before")
    client.config_set("loglevel", "notice")
    client.execute_command("TILE.SET", "imagery", "1", "after")
    assert client.execute_command("TILE.SYNC") == b"OK"
    assert client.execute_command("TILE.MGET", "imagery", "0", "1") == [b"before", b"after"]
    assert sqlite_rows(dirs["sqlite"] / "imagery" / "base.g3db", "SELECT count(*) FROM imagery") == ["2"]
