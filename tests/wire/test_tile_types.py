# SPDX-License-Identifier: Apache-2.0
"""Types of tiles: their names and bindings, the rows of types that stay in the store, and their counts."""
import urllib.request

import pytest
import redis

from conftest import start_refused
from diff.places import free_port
from tilekit import TYPES


def tile(client, *words):
    return client.execute_command(*words)


def fill(client, kind, keys, data="x"):
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.execute_command("TILE.SET", kind, key, data)
    pipe.execute()


def test_times_of_one_tile_are_counted_once_however_many_are_marked(begin):
    client = begin("sqlite").client()
    keys = [f"0123:{t}" for t in range(6000)]
    fill(client, "tm", keys)
    tile(client, "TILE.SYNC")
    fill(client, "tm", keys, "newer")
    assert tile(client, "TILE.COUNT", "tm", "") == 6000
    assert tile(client, "TILE.COUNT", "tm", "", "BYTES") == [6000, 30000]
    assert tile(client, "TILE.COUNT", "tm", "", "TM", 10, 5009) == 5000


def test_words_of_sql_are_names_of_types(start, tmp_path):
    server = start("--tile-types", "order=1", "table=2", "index=3", "--tile-sqlite", str(tmp_path / "shards"))
    client = server.client()
    for kind in ("order", "table", "index"):
        fill(client, kind, ["0", "0123012301"], kind)
    assert tile(client, "TILE.SYNC") == b"OK"
    for kind in ("order", "table", "index"):
        assert tile(client, "TILE.GET", kind, "0123012301") == kind.encode()
        assert tile(client, "TILE.COUNT", kind, "", "BYTES") == [2, 2 * len(kind)]
        assert tile(client, "TILE.RANGE", kind, "01") == [b"0123012301"]
        assert tile(client, "TILE.DEL", kind, "0") == 1
    assert tile(client, "TILE.SYNC") == b"OK"


@pytest.mark.parametrize("name", ["terrace", "sqlite_tiles"])
def test_names_that_shards_need_for_themselves_are_no_types(tmp_path, name):
    assert "no name of a tile type" in start_refused(tmp_path, "--tile-types", f"{name}=1")


def test_tiles_that_were_deleted_before_shards_were_left_out_are_not_counted(begin):
    server = begin("sqlite")
    fill(server.client(), "imagery", ["0", "1", "2"])
    assert tile(server.client(), "TILE.DEL", "imagery", "0", "2") == 2
    server.kill()
    for _ in range(2):
        server = begin()
        assert tile(server.client(), "TILE.COUNT", "imagery", "") == 1
        assert tile(server.client(), "TILE.RANGE", "imagery", "") == [b"1"]
        server.kill()


def damage(path):
    for name in (path, path.with_name(path.name + "-wal")):
        if name.exists():
            name.write_bytes(b"rubbish!" * (1 + name.stat().st_size // 8))


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_row_that_stays_is_found_cold_when_its_shard_was_set_aside(begin, dirs, kind):
    server = begin(kind, options=("--tile-clear", "no"))
    client = server.client()
    fill(client, "imagery", ["0", "1"])
    if kind == "sqlite":
        tile(client, "TILE.META", "SET", "q2", "0", "packet")
    tile(client, "TILE.SYNC")
    server.stop()
    for kind_of_tiles in ("imagery", "q2"):
        if (dirs[kind] / kind_of_tiles).exists():
            damage(dirs[kind] / kind_of_tiles / "base.g3db")
    server = begin(kind, options=("--tile-clear", "no"))
    client = server.client()
    fill(client, "imagery", ["2"])
    if kind == "sqlite":
        tile(client, "TILE.META", "SET", "q2", "2222", "packet")
    assert tile(client, "TILE.SYNC") == b"OK"
    assert list((dirs[kind] / "imagery").glob("base.g3db.corrupt.*"))
    tile(client, "DEBUG", "RELOAD")
    assert tile(client, "TILE.MGET", "imagery", "0", "1", "2", "3") == [b"x", b"x", b"x", None]
    if kind == "sqlite":
        assert tile(client, "TILE.META", "GET", "q2", "0") == [b"", b"PENDING", b"packet"]


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_shard_that_was_set_aside_gets_the_rows_that_stay_again(begin, dirs, kind):
    options = ("--tile-clear", "no")
    keys = [f"{i:b}".zfill(8) for i in range(300)] + ["0123012301", "3333333333"]
    server = begin(kind, options=options)
    client = server.client()
    fill(client, "imagery", keys)
    packets = ["", "0123", "2222"] if kind == "sqlite" else []
    for key in packets:
        tile(client, "TILE.META", "SET", "q2", key, "packet")
    tile(client, "TILE.SYNC")
    server.stop()
    for type_ in ("imagery", "q2") if kind == "sqlite" else ("imagery",):
        damage(dirs[kind] / type_ / "base.g3db")
    server = begin(kind, options=options)
    client = server.client()
    fill(client, "imagery", ["2"])
    for key in packets[:1]:
        tile(client, "TILE.META", "SET", "q2", "3333", "packet")
    assert tile(client, "TILE.SYNC") == b"OK"
    assert len(list(dirs[kind].rglob("base.g3db.corrupt.*[0-9]"))) == (2 if packets else 1)
    assert tile(client, "TILE.COUNT", "imagery", "") == len(keys) + 1
    assert tile(client, "TILE.RANGE", "imagery", "", "COUNT", 1000) == sorted(key.encode() for key in keys + ["2"])
    if packets:
        assert [row[0] for row in tile(client, "TILE.META", "LIST", "q2")] == [b"", b"0123", b"2222", b"3333"]
    server.stop()
    client = begin(kind).client()  # now without its rows: what the shard has is all of it
    assert tile(client, "TILE.GET", "imagery", keys[7]) == b"x"
    for entry in dirs[kind].rglob("*.corrupt.*"):
        entry.unlink()  # before, it could have tiles that the new file lacks
    assert tile(client, "TILE.COUNT", "imagery", "") == len(keys) + 1


def test_a_type_is_not_bound_where_ordinary_keys_would_be_hidden(start, tmp_path):
    server = start()
    server.client(db=1).set("queue", "no tilekey")
    server.client(db=1).set("123", "ordinary")
    server.client(db=4).set("123:5", "ordinary")
    server.client(db=4).set("123", "no key of tm")
    server.stop()
    assert 'ordinary key "123"' in start_refused(tmp_path / "data", "--tile-types", "imagery=1")
    assert 'ordinary key "123:5"' in start_refused(tmp_path / "data", "--tile-types", "tm=4")
    server = start("--tile-types", "imagery=2")
    assert server.client(db=1).get("123") == b"ordinary"
    server.client(db=1).rename("123", "x123")
    with pytest.raises(redis.ResponseError, match="tile type"):
        server.client().swapdb(0, 2)
    server.stop()
    client = start("--tile-types", "imagery=2", "terrain=1").client(db=1)
    assert client.get("x123") == b"ordinary" and client.get("queue") == b"no tilekey"
    client.set("123", b"\0\0tile")
    assert tile(client, "TILE.GET", "terrain", "123") == b"tile"


def test_the_database_of_a_type_cannot_be_dropped(start):
    server = start()
    server.client().execute_command("NAMESPACE", "REGISTER", "some.service", "20")
    server.stop()
    server = start("--tile-types", "imagery=20")
    tile(server.client(), "TILE.SET", "imagery", "0123", "x")
    with pytest.raises(redis.ResponseError, match="database of a tile type cannot be dropped"):
        server.client().execute_command("NAMESPACE", "DROP", "some.service")
    server.stop()
    client = start("--tile-types", "imagery=20").client(db=20)
    assert client.get("0123") == b"\0\0x"


def test_info_and_metrics_tell_of_tiles(begin):
    port = free_port()
    server = begin("sqlite", options=("--http-port", str(port)))
    client = server.client()
    fill(client, "imagery", ["0", "1", "2"])
    before = client.info("tiles")
    assert before["tile_types"] == len(TYPES) and before["tile_pending"] == 3 and before["tile_persisted"] == 0
    tile(client, "TILE.SYNC")
    tile(client, "TILE.GET", "imagery", "0")
    tile(client, "TILE.GET", "imagery", "0")
    after = client.info("tiles")
    assert after["tile_persisted"] == 3 and after["tile_pending"] == 0 and after["tile_trouble"] == 0
    assert after["tile_cache_misses"] == 1 and after["tile_cache_hits"] >= 1 and after["tile_cache_bytes"] > 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=100) as reply:
        lines = reply.read().decode().splitlines()
    assert "terrace_tile_persisted_total 3" in lines
    assert 'terrace_tile_pending{type="imagery"} 0' in lines
    assert "terrace_tile_trouble 0" in lines
