# SPDX-License-Identifier: Apache-2.0
"""terrace tile import, export, verify and sample; MBTiles checked with sqlite3."""
import contextlib
import json
import os
import pty
import random
import shutil
import sqlite3
import struct
import subprocess
import zlib

import pytest

from conftest import TERRACE, terrace
from tilekit import IMAGERY, TM, TYPES, VECTOR, headered
from waiting import wait_until

SCHEMA = """CREATE TABLE metadata (name text, value text);
CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);"""


def key_of(z, x, y):
    """The tilekey of a place whose row counts from the south."""
    digits = {(0, 0): "0", (1, 0): "1", (1, 1): "2", (0, 1): "3"}
    return "".join(digits[x >> level & 1, y >> level & 1] for level in reversed(range(z)))


def mbtiles(path, tiles, metadata=(), schema=SCHEMA):
    db = sqlite3.connect(path)
    db.executescript(schema)
    db.executemany("INSERT INTO metadata VALUES (?, ?)", dict(metadata).items())
    db.executemany("INSERT INTO tiles VALUES (?, ?, ?, ?)", tiles)
    db.commit()
    db.close()
    return path


def some_tiles(levels=4, seed=1):
    rng = random.Random(seed)
    return [(z, x, y, rng.randbytes(rng.randint(1, 2000)))
            for z in range(levels) for x in range(1 << z) for y in range(1 << z)]


class Tool:
    def __init__(self, server):
        self.server = server
        self.db = server.client(db=IMAGERY)

    def __call__(self, *words, code=0):
        return terrace("tile", *words, "-p", self.server.port, code=code)

    def get(self, key, kind="imagery"):
        return self.db.execute_command("TILE.GET", kind, key)


@pytest.fixture
def tool(start, tmp_path):
    return Tool(start("--tile-types", *TYPES))


# ---- the sample ----

def png_of(data):
    """Width, height and rows of a PNG with a palette; fails where it is none."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
        assert crc == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    rows = zlib.decompress(chunks[b"IDAT"])
    assert (depth, colour, len(rows)) == (8, 3, height * (width + 1)) and b"IEND" in chunks
    return width, height, rows


def test_a_sample_is_a_map_of_small_pictures(tmp_path):
    assert "drew 21 tiles" in terrace("tile", "sample", tmp_path / "map", "--levels", 2)
    files = sorted(str(path.relative_to(tmp_path / "map")) for path in (tmp_path / "map").rglob("*.png"))
    assert len(files) == 21 and files[0] == "0/0/0.png" and "2/3/1.png" in files
    seen = set()
    for name in files:
        data = (tmp_path / "map" / name).read_bytes()
        width, height, rows = png_of(data)
        assert (width, height) == (256, 256) and len(data) < 1500
        seen.add(rows)
    assert len(seen) == 21  # each has its own name on it
    for words in (("--levels", "11"), ("--levels", "x"), ("--nonsense", "1"), ()):
        terrace("tile", "sample", *(() if not words else (tmp_path / "no",)), *words, code=1)


# ---- import ----

def test_rows_of_mbtiles_count_from_the_south(tool, tmp_path):
    tiles = some_tiles()
    mbtiles(tmp_path / "map.mbtiles", tiles, {"name": "A map", "format": "png", "bounds": "1,2,3,4"})
    assert "imported 85 tiles" in tool("import", tmp_path / "map.mbtiles", "imagery")
    for z, x, y, data in tiles:
        assert tool.get(key_of(z, x, y)) == data
    assert tool.get("0") == next(data for z, x, y, data in tiles if (z, x, y) == (1, 0, 0))
    assert tool.db.hgetall("metadata") == {b"name": b"A map", b"format": b"png", b"bounds": b"1,2,3,4",
                                           b"minzoom": b"0", b"maxzoom": b"3"}
    assert tool.db.keys("import:*") == []
    assert "all 85 tiles are there" in tool("verify", tmp_path / "map.mbtiles", "imagery")


def test_rows_of_directories_count_from_the_north_unless_told(tool, tmp_path):
    for z, x, y, data in some_tiles(3):
        path = tmp_path / "map" / str(z) / str(x)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{y}.png").write_bytes(data)
    (tmp_path / "map" / "metadata.json").write_text(json.dumps({"name": "dir", "minzoom": 1, "x": [1, 2]}))
    assert "imported 21 tiles" in tool("import", tmp_path / "map", "imagery")
    for z, x, y, data in some_tiles(3):
        assert tool.get(key_of(z, x, (1 << z) - 1 - y)) == data
    assert tool.db.hmget("metadata", "name", "minzoom", "maxzoom", "x") == [b"dir", b"1", b"2", b"[1,2]"]
    tool("import", tmp_path / "map", "terrain", "--rows", "tms")
    for z, x, y, data in some_tiles(3):
        assert tool.get(key_of(z, x, y), "terrain") == data
    assert "all 21" in tool("verify", tmp_path / "map", "terrain", "--rows", "tms")
    assert "are others" in tool("verify", tmp_path / "map", "terrain", code=1)


def test_a_view_as_tiles_is_read_too(tool, tmp_path):
    db = sqlite3.connect(tmp_path / "view.mbtiles")
    db.executescript("""CREATE TABLE images (tile_id text primary key, tile_data blob);
        CREATE TABLE map (zoom_level integer, tile_column integer, tile_row integer, tile_id text);
        CREATE UNIQUE INDEX map_index ON map (zoom_level, tile_column, tile_row);
        CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data FROM map JOIN images
            USING (tile_id);""")
    db.execute("INSERT INTO images VALUES ('sea', 'blue')")
    db.executemany("INSERT INTO map VALUES (?, ?, ?, 'sea')", [row[:3] for row in some_tiles()] + [(25, 0, 0)])
    db.commit()
    assert "1 were left out" in tool("import", tmp_path / "view.mbtiles", "imagery", code=1)
    assert tool.get("333") == b"blue"
    assert tool.db.execute_command("TILE.EXISTS", "imagery", *(key_of(*row[:3]) for row in some_tiles())) == 85


def test_a_box_and_levels_take_a_part(tool, tmp_path):
    tiles = [(z, x, y, b"%d/%d/%d" % (z, x, y)) for z in range(6) for x in range(1 << z) for y in range(1 << z)]
    mbtiles(tmp_path / "map.mbtiles", tiles)
    terrace("tile", "sample", tmp_path / "dir", "--levels", 5)
    box = "--bbox", "101.5,19.5,102.5,20.5", "--levels", "3-5"
    said = tool("import", tmp_path / "map.mbtiles", "imagery", *box)
    # Luang Prabang: columns and rows (from the south) of levels 3, 4, 5
    want = {(3, 6, 4), (4, 12, 8), (5, 25, 17)}
    assert f"imported {len(want)} tiles" in said
    for z, x, y, data in tiles:
        assert (tool.get(key_of(z, x, y)) is not None) == ((z, x, y) in want), (z, x, y)
    assert "imported 3 tiles" in tool("import", tmp_path / "dir", "terrain", *box)
    assert "all 3 tiles" in tool("verify", tmp_path / "map.mbtiles", "imagery", *box)
    for bad in ("1,2,3", "a,b,c,d", "10,0,5,1", "0,0,nan,1", "-181,0,0,0"):
        assert "box" in tool("import", tmp_path / "map.mbtiles", "imagery", "--bbox", bad, code=1)
    for bad in ("5-3", "25", "x", "1-", "1-2-3"):
        assert "levels" in tool("import", tmp_path / "map.mbtiles", "imagery", "--levels", bad, code=1)


def test_headers_are_read_where_they_were_announced(tool, tmp_path):
    fixed = struct.pack(">BiBii", 1, 1029, 1, 124, 2) + b"AB"
    bare = struct.pack(">BiBii", 1, 7, 0, 0, 1) + b"C"
    mbtiles(tmp_path / "fixed.mbtiles", [(1, 0, 0, fixed), (1, 1, 0, bare), (1, 1, 1, b"x"),
                                         (1, 0, 1, fixed + b"more")])
    assert "2 were left out" in tool("import", tmp_path / "fixed.mbtiles", "imagery", "--header", "fixed", code=1)
    assert tool.db.get("0") == headered(b"AB", 1029, 124) and tool.db.get("1") == headered(b"C", 7)
    assert tool.get("2") is None
    mbtiles(tmp_path / "kv.mbtiles", [(1, 0, 0, headered(b"AB", 1029, 124)), (1, 1, 0, b"\xff")])
    assert "1 were left out" in tool("import", tmp_path / "kv.mbtiles", "terrain", "--header", "kv", code=1)
    assert tool.get("0", "terrain") == b"AB"
    tool("import", tmp_path / "kv.mbtiles", "vector", "--epoch", 5, "--provider", 9)  # bare, whatever it looks like
    assert tool.get("1", "vector") == b"\xff"
    assert tool.server.client(db=VECTOR).get("1") == headered(b"\xff", 5, 9)


def test_tiles_with_times_get_the_one_that_was_given(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", [(1, 0, 0, b"then")])
    tool("import", tmp_path / "map.mbtiles", "tm", "--tm", 1732612345678)
    assert tool.server.client(db=TM).get("0:1732612345678") == headered(b"then")
    assert "all 1 tiles" in tool("verify", tmp_path / "map.mbtiles", "tm", "--tm", 1732612345678)


def test_verify_names_what_is_missing_and_what_is_another(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    tool("import", tmp_path / "map.mbtiles", "imagery")
    tool.db.execute_command("TILE.DEL", "imagery", "012", "3")
    tool.db.execute_command("TILE.SET", "imagery", "21", "other")
    assert "of 85 tiles 2 are missing and 1 are others" in tool("verify", tmp_path / "map.mbtiles", "imagery", code=1)


# ---- export ----

def sql(path, question):
    return subprocess.run(["sqlite3", path, question], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_round_trip_through_mbtiles_changes_nothing(tool, tmp_path):
    tiles = some_tiles(5)
    mbtiles(tmp_path / "map.mbtiles", tiles, {"name": "A map", "format": "png", "json": '{"x": "é"}'})
    tool("import", tmp_path / "map.mbtiles", "imagery")
    assert "exported 341 tiles" in tool("export", tmp_path / "out.mbtiles", "imagery")
    assert not (tmp_path / "out.mbtiles.part").exists()
    assert sql(tmp_path / "out.mbtiles", "PRAGMA integrity_check") == ["ok"]
    assert sql(tmp_path / "out.mbtiles", "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1") == \
        ["metadata", "tiles"]
    for table in ("tiles", "metadata"):
        ask = f"SELECT * FROM {table} ORDER BY 1, 2" + (", 3" if table == "tiles" else "")
        theirs, ours = (sqlite3.connect(tmp_path / name).execute(ask).fetchall() for name in ("map.mbtiles", "out.mbtiles"))
        assert set(theirs) <= set(ours) and (table == "metadata" or theirs == ours)
    assert "exists already" in tool("export", tmp_path / "out.mbtiles", "imagery", code=1)


def test_a_round_trip_through_directories_changes_nothing(tool, tmp_path):
    terrace("tile", "sample", tmp_path / "map", "--levels", 3)
    tool("import", tmp_path / "map", "imagery")
    assert "exported 85 tiles" in tool("export", tmp_path / "out", "imagery")
    files = {path.relative_to(tmp_path / "map"): path.read_bytes() for path in (tmp_path / "map").rglob("*.png")}
    assert files == {path.relative_to(tmp_path / "out"): path.read_bytes() for path in (tmp_path / "out").rglob("*.png")}
    assert json.loads((tmp_path / "out" / "metadata.json").read_text())["maxzoom"] == "3"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2", "3", "metadata.json"]
    tool("export", tmp_path / "tms", "imagery", "--rows", "tms")
    assert (tmp_path / "tms" / "3" / "1" / "0.png").read_bytes() == files[type(next(iter(files)))("3/1/7.png")]


def test_an_export_takes_a_part(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles(6))
    tool("import", tmp_path / "map.mbtiles", "imagery")
    box = "--bbox", "101.5,19.5,102.5,20.5", "--levels", "3-5"
    assert "exported 3 tiles" in tool("export", tmp_path / "out.mbtiles", "imagery", *box)
    assert sql(tmp_path / "out.mbtiles", "SELECT zoom_level, tile_column, tile_row FROM tiles ORDER BY 1") == \
        ["3|6|4", "4|12|8", "5|25|17"]


@pytest.mark.parametrize("name, why", [("out.mbtiles", "MBTiles has no place"), ("out", "a directory has no place")])
def test_an_export_tells_what_it_drops(tool, tmp_path, name, why):
    for key, words in (("0", ("EPOCH", 7)), ("1", ("EPOCH", 8, "PROVIDER", 2)), ("2", ())):
        tool.db.execute_command("TILE.SET", "imagery", key, "x", *words)
    said = tool("export", tmp_path / name, "imagery")
    assert "exported 3 tiles" in said
    assert f"not exported: the epoch of 2 tiles; {why}" in said
    assert f"not exported: the provider of 1 tiles; {why}" in said
    assert "time" not in said
    for ms in (5, 9, 7):
        tool.db.execute_command("TILE.SET", "tm", "01", f"at {ms}", "TM", ms)
    tool.db.execute_command("TILE.SET", "tm", "02", "other", "TM", 1)
    said = tool("export", tmp_path / ("tm-" + name), "tm")
    assert f"not exported: the time of 4 tiles; {why}" in said
    assert "not exported: 2 tiles with a newer one at the same place" in said
    if name == "out.mbtiles":
        assert sql(tmp_path / "tm-out.mbtiles", "SELECT tile_data FROM tiles ORDER BY tile_row") == ["at 9", "other"]


def test_an_export_without_epochs_providers_and_times_says_nothing_of_them(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    tool("import", tmp_path / "map.mbtiles", "imagery")
    assert "not exported" not in tool("export", tmp_path / "out.mbtiles", "imagery")


@pytest.mark.parametrize("name", ["x.pmtiles", "x.PMTiles", "x.zip", "x.gpkg", "x.MBTILES", "x.png"])
def test_an_export_to_a_file_that_is_not_supported_is_refused_and_makes_nothing(tool, tmp_path, name):
    tool.db.execute_command("TILE.SET", "imagery", "0", "x")
    said = tool("export", tmp_path / name, "imagery", code=1)
    assert ".mbtiles" in said and "a directory" in said and "not supported" in said
    assert list(tmp_path.glob("x.*")) == []


def test_an_export_to_a_directory_with_a_dot_in_its_name_works(tool, tmp_path):
    tool.db.execute_command("TILE.SET", "imagery", "0", "x")
    (tmp_path / "there.db").mkdir()
    for name in ("map.v2", "there.db"):
        assert "exported 1 tiles" in tool("export", tmp_path / name, "imagery")
        assert (tmp_path / name / "1" / "0").is_dir()


def test_an_export_that_is_killed_goes_on(tool, large, tmp_path):
    path, tiles = large
    tool("import", path, "imagery")
    out = tmp_path / "out.mbtiles"
    process = subprocess.Popen([TERRACE, "tile", "export", str(out), "imagery", "-p", str(tool.server.port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part = tmp_path / "out.mbtiles.part"
    wait_until(lambda: part.exists() and part.stat().st_size > 1 << 20)
    process.kill()
    process.wait()
    assert not out.exists()
    said = tool("export", out, "imagery")
    assert "going on behind" in said
    assert sql(out, "PRAGMA integrity_check; SELECT count(*) FROM tiles") == ["ok", str(len(tiles))]
    assert f"all {len(tiles)} tiles" in tool("verify", out, "imagery")


def test_parts_that_cannot_be_gone_on_with_are_made_anew(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    tool("import", tmp_path / "map.mbtiles", "imagery")
    part = tmp_path / "out.mbtiles.part"
    identity = "imagery 0-24 0 0,0,0,0 0 "
    for rows in ([(identity, None)], [("another", "0")], []):
        db = sqlite3.connect(part)
        db.executescript(SCHEMA + "CREATE TABLE terrace_export (what TEXT, key TEXT)")
        db.executemany("INSERT INTO terrace_export VALUES (?, ?)", rows)
        db.commit()
        db.close()
        said = tool("export", tmp_path / "out.mbtiles", "imagery")
        assert "going on" not in said and "exported 85 tiles" in said
        (tmp_path / "out.mbtiles").unlink()
    part.write_bytes(b"noise" * 1000)
    assert "exported 85 tiles" in tool("export", tmp_path / "out.mbtiles", "imagery")


def test_a_directory_export_goes_on_behind_its_note(tool, tmp_path):
    terrace("tile", "sample", tmp_path / "map", "--levels", 2)
    tool("import", tmp_path / "map", "imagery")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".terrace-export").write_text("imagery 0-24 0 0,0,0,0 0 \n30\n")
    said = tool("export", tmp_path / "out", "imagery")
    assert "going on behind 30" in said and "exported 3 tiles" in said  # 31, 32, 33
    assert "exported 21 tiles" in tool("export", tmp_path / "out", "imagery", "--again")


# ---- what is wrong ----

def test_files_that_are_no_mbtiles_are_named(tool, tmp_path):
    (tmp_path / "empty.mbtiles").write_bytes(b"")
    (tmp_path / "noise.mbtiles").write_bytes(random.Random(1).randbytes(100000))
    mbtiles(tmp_path / "other.mbtiles", [], schema=SCHEMA.replace("tile_data", "data"))
    (tmp_path / "nothing").mkdir()
    mbtiles(tmp_path / "none.mbtiles", [])
    for name, why in (("empty.mbtiles", "no MBTiles"), ("noise.mbtiles", "not a database"), ("other.mbtiles", "no MBTiles"),
                      ("nothing", "no directory of tiles"), ("missing", "No such file")):
        assert why in tool("import", tmp_path / name, "imagery", code=1)
    assert "imported 0 tiles" in tool("import", tmp_path / "none.mbtiles", "imagery")
    assert 'no tile type "none"; there are: imagery=1' in tool("import", tmp_path / "none.mbtiles", "none", code=1)
    assert "import" in tool("upload", "x", "y", code=1)
    for words in (("import",), ("import", "x"), ("import", "x", "y", "z"), ("import", "x", "y", "--epoch", "-1"),
                  ("import", "x", "y", "--header", "zip"), ("import", "x", "y", "--rows", "up"), ("verify",), ("export",)):
        tool(*words, code=1)


def test_a_truncated_file_is_damage_and_what_was_read_before_stays(tool, tmp_path):
    tiles = some_tiles(5)
    mbtiles(tmp_path / "map.mbtiles", tiles)
    data = (tmp_path / "map.mbtiles").read_bytes()
    (tmp_path / "cut.mbtiles").write_bytes(data[:len(data) * 2 // 3])
    said = tool("import", tmp_path / "cut.mbtiles", "imagery", code=1)
    assert "malformed" in said or "disk I/O error" in said
    there = [row for row in tiles if tool.get(key_of(*row[:3])) is not None]
    assert all(tool.get(key_of(*row[:3])) == row[3] for row in there)


def test_bad_rows_are_left_out_and_told(tool, tmp_path):
    good = [(2, 1, 1, b"good")]
    bad = [(None, 0, 0, b"x"), (25, 0, 0, b"x"), (-1, 0, 0, b"x"), (2, 4, 0, b"x"), (2, 0, -1, b"x"), (2, 0, 1 << 40, b"x"),
           ("two", 0, 0, b"x"), (2, 0, 0, None), (2, 0, 1, b""), (2, 0, 2, 7), (2.5, 0, 0, b"x"), (2, "a", 0, b"x")]
    mbtiles(tmp_path / "bad.mbtiles", bad + good, schema=SCHEMA.replace("UNIQUE ", ""))
    said = tool("import", tmp_path / "bad.mbtiles", "imagery", code=1)
    assert f"{len(bad)} were left out; the first: row 1: zoom_level is no number" in said
    assert tool.get(key_of(2, 1, 1)) == b"good"
    (tmp_path / "dir" / "1" / "0").mkdir(parents=True)
    for name in ("0.png", "9.png", "x.png", "1.png"):
        (tmp_path / "dir" / "1" / "0" / name).write_bytes(b"" if name == "1.png" else b"data")
    (tmp_path / "dir" / "README").write_text("beside the levels anything may lie")
    assert "3 were left out" in tool("import", tmp_path / "dir", "terrain", code=1)
    assert tool.get("3", "terrain") == b"data"


def test_a_server_that_refuses_stops_the_import_with_its_reason(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    assert "TILE.META" in tool("import", tmp_path / "map.mbtiles", "q2", code=1)  # sets of metadata are no tiles
    assert "could not connect" in terrace("tile", "import", tmp_path / "map.mbtiles", "imagery", "-p", 1, code=1)


# ---- killed in the middle ----

def import_start(tool, path):
    return subprocess.Popen([TERRACE, "tile", "import", str(path), "imagery", "-p", str(tool.server.port)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """So many that a position is written several times."""
    rng = random.Random(7)
    blob = rng.randbytes(4000)
    tiles = [(8, x, y, blob[:1000 + (x * y) % 3000]) for x in range(220) for y in range(256)]
    directory = tmp_path_factory.mktemp("large")
    yield mbtiles(directory / "large.mbtiles", tiles), tiles
    shutil.rmtree(directory)


def test_an_import_that_is_killed_goes_on_and_repeats_little(tool, large):
    path, tiles = large
    process = import_start(tool, path)
    wait_until(lambda: tool.db.hget("import:large.mbtiles", "at") is not None)
    process.kill()
    process.wait()
    at = int(tool.db.hget("import:large.mbtiles", "at").split()[1])
    assert 0 < at < len(tiles)
    assert tool.get(key_of(*tiles[at - 1][:3])) == tiles[at - 1][3]  # never ahead of the tiles
    calls = int(tool.db.info("commandstats")["cmdstat_tile.mset"]["calls"])  # of the first run
    said = tool("import", path, "imagery")
    assert f"going on behind row {at}, with {at} tiles imported before" in said
    assert f"imported {len(tiles)} tiles" in said
    again = int(tool.db.info("commandstats")["cmdstat_tile.mset"]["calls"]) - calls
    assert again <= (len(tiles) - at) // 16 < len(tiles) // 16 + 1  # a batch has at most 64, and at most 256 KiB
    assert tool.db.keys("import:*") == []
    assert f"all {len(tiles)} tiles" in tool("verify", path, "imagery")


def test_a_server_that_is_killed_in_the_middle_loses_nothing_of_an_import(tool, start, large):
    path, tiles = large
    process = import_start(tool, path)
    wait_until(lambda: tool.db.hget("import:large.mbtiles", "at") is not None)
    tool.server.kill()
    _, said = process.communicate(timeout=100)
    assert process.returncode == 1 and "the same command goes on" in said
    again = Tool(start("--tile-types", *TYPES))
    at = int(again.db.hget("import:large.mbtiles", "at").split()[1])
    for row in tiles[:at:97] + [tiles[at - 1]]:
        assert again.get(key_of(*row[:3])) == row[3]
    assert "going on behind row" in again("import", path, "imagery")
    assert f"all {len(tiles)} tiles" in again("verify", path, "imagery")


def test_another_source_of_the_same_name_begins_anew(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    tool.db.hset("import:map.mbtiles", mapping={"source": "another", "at": "row 80", "seen": "1 2 3 4 5 6 7 8"})
    said = tool("import", tmp_path / "map.mbtiles", "imagery")
    assert "going on" not in said and "imported 85 tiles" in said
    tool.db.set("import:map.mbtiles", "mine")
    assert "WRONGTYPE" in tool("import", tmp_path / "map.mbtiles", "imagery", code=1)


def test_a_directory_goes_on_where_it_stopped(tool, tmp_path):
    terrace("tile", "sample", tmp_path / "map", "--levels", 3)
    identity = "dir xyz 0 0 0-24 0 0,0,0,0"
    tool.db.hset("import:map", mapping={"source": identity, "at": "2/1/3", "seen": "9 100 0 2 0 1 0 3"})
    said = tool("import", tmp_path / "map", "imagery")
    assert "going on behind 2/1/3, with 9 tiles" in said
    skipped = [(0, 0, 0), (2, 1, 3), (2, 0, 2)]
    for z, x, y in skipped:
        assert tool.get(key_of(z, x, (1 << z) - 1 - y)) is None
    assert tool.get(key_of(2, 2, 3)) is not None and tool.get(key_of(3, 0, 0)) is not None
    assert tool("import", tmp_path / "map", "imagery", "--again").startswith("imported 85 tiles")


def test_a_terminal_sees_a_bar(tool, tmp_path):
    mbtiles(tmp_path / "map.mbtiles", some_tiles())
    master, slave = pty.openpty()
    done = subprocess.run([TERRACE, "tile", "import", tmp_path / "map.mbtiles", "imagery", "-p", str(tool.server.port)],
                          stdout=subprocess.PIPE, stderr=slave, timeout=100)
    os.close(slave)
    shown = ""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody holds any more
        while part := os.read(master, 65536):
            shown += part.decode()
    os.close(master)
    assert done.returncode == 0 and "[##############################] 100 %" in shown and "85 tiles imported" in shown
