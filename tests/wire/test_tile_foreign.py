# SPDX-License-Identifier: Apache-2.0
"""Shards whose place is taken: by the other kind of shards, or by a file of another program."""
import os
import sqlite3
import subprocess

import pytest
import redis

from conftest import start_refused
from tilekit import TYPES, headered, lmdb_rows, pack, sqlite_rows


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


# ---- one directory for both kinds ----

def refused(tmp_path, sqlite, kv):
    said = start_refused(tmp_path / "data", "--tile-types", *TYPES, "--tile-sqlite", str(sqlite), "--tile-kv", str(kv))
    assert "tile-sqlite" in said and "tile-kv" in said and "directory of its own" in said
    return said


@pytest.mark.parametrize("exists", [False, True])
def test_both_kinds_of_shards_in_one_directory_are_refused_at_the_start(tmp_path, exists):
    if exists:
        (tmp_path / "tiles").mkdir()
    refused(tmp_path, tmp_path / "tiles", tmp_path / "tiles")
    refused(tmp_path, tmp_path / "tiles", f"{tmp_path}//missing/../tiles/./")
    refused(tmp_path, tmp_path / "tiles", os.path.relpath(tmp_path / "tiles"))
    assert (tmp_path / "tiles").exists() == exists  # a refused start makes nothing
    assert not (tmp_path / "missing").exists()


def test_one_directory_under_two_names_is_refused(tmp_path):
    (tmp_path / "tiles").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "tiles")
    refused(tmp_path, tmp_path / "tiles", tmp_path / "link")
    refused(tmp_path, tmp_path / "tiles" / "new", tmp_path / "link" / "new")
    (tmp_path / "other" / "imagery").mkdir(parents=True)
    (tmp_path / "tiles" / "imagery").symlink_to(tmp_path / "other" / "imagery")
    refused(tmp_path, tmp_path / "tiles", tmp_path / "other")


def test_one_directory_that_is_mounted_twice_is_refused(tmp_path):
    (tmp_path / "tiles").mkdir()
    (tmp_path / "point").mkdir()
    command = ["mount", "--bind", str(tmp_path / "tiles"), str(tmp_path / "point")]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        refused(tmp_path, tmp_path / "tiles", tmp_path / "point")
        refused(tmp_path, tmp_path / "tiles" / "a", tmp_path / "point" / "a")
        refused(tmp_path, tmp_path / "tiles" / "a", tmp_path / "point")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "point")], check=True)


def test_a_directory_of_shards_inside_the_other_kinds_is_refused(tmp_path):
    refused(tmp_path, tmp_path / "tiles", tmp_path / "tiles" / "kv")
    refused(tmp_path, tmp_path / "tiles" / "imagery", tmp_path / "tiles")


def test_directories_side_by_side_are_taken_also_if_one_name_begins_with_the_other(start, tmp_path):
    server = start("--tile-types", *TYPES, "--tile-sqlite", str(tmp_path / "tiles"), "--tile-kv", str(tmp_path / "tiles-kv"))
    client = server.client()
    tile(client, "SET", "imagery", "0", "x")
    tile(client, "SYNC")
    assert sqlite_rows(tmp_path / "tiles" / "imagery" / "base.g3db", "SELECT data FROM imagery") == ["x"]
    assert lmdb_rows(tmp_path / "tiles-kv" / "imagery" / "base.g3db", "imagery") == {pack("0"): headered(b"x")}


# ---- files of other programs ----

def bbolt(path):
    """The header of a BBolt file: id, flags of a meta page, count, overflow; magic, version, page size."""
    page = bytes(8) + (4).to_bytes(2, "little") + bytes(6) + (0xED0CDAED).to_bytes(4, "little") + \
        (2).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    path.write_bytes((page + bytes(4096 - len(page))) * 2 + bytes(4096) * 6)


def lmdb(path):
    subprocess.run(["mdb_load", "-n", str(path)], text=True, check=True, timeout=100,
                   input="VERSION=3\nformat=print\ntype=btree\nHEADER=END\n key\n value\nDATA=END\n")


def sqlite(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE other(a)")
        db.execute("INSERT INTO other VALUES('kept')")
    db.close()


def pmtiles(path):
    path.write_bytes(b"PMTiles\x03" + bytes(5000))


@pytest.mark.parametrize("kind, make, name", [
    ("sqlite", bbolt, "BBolt"), ("sqlite", lmdb, "LMDB"), ("sqlite", pmtiles, "PMTiles"),
    ("kv", bbolt, "BBolt"), ("kv", sqlite, "SQLite"), ("kv", pmtiles, "PMTiles")])
def test_a_file_of_another_program_is_refused_by_its_name_and_stays(begin, dirs, kind, make, name):
    path = dirs[kind] / "imagery" / "base.g3db"
    path.parent.mkdir(parents=True)
    make(path)
    before = path.read_bytes()
    client = begin(kind).client()
    tile(client, "SET", "imagery", "0", "x")
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match=f"another program: its format is {name}"):
            tile(client, "SYNC")
    with pytest.raises(redis.ResponseError, match=name):
        tile(client, "GET", "imagery", "1")
    with pytest.raises(redis.ResponseError, match=name):
        tile(client, "COUNT", "imagery", "")
    assert tile(client, "GET", "imagery", "0") == b"x"
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir() if "corrupt" in entry.name] == []
    path.rename(dirs[kind] / "elsewhere")
    tile(client, "SYNC")
    assert tile(client, "MGET", "imagery", "0", "1") == [b"x", None]


def test_a_file_of_another_program_that_is_copied_over_an_open_kv_shard_stays(begin, dirs, tmp_path):
    client = begin("kv").client()
    path = dirs["kv"] / "imagery" / "base.g3db"
    tile(client, "SET", "imagery", "0", "x")
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") == b"x"
    sqlite(tmp_path / "other")
    other = (tmp_path / "other").read_bytes()
    with open(path, "r+b") as file:  # the same inode
        file.write(other)
        file.truncate(len(other))
    tile(client, "SET", "imagery", "1", "y")
    with pytest.raises(redis.ResponseError):
        tile(client, "SYNC")
    assert path.exists() and path.read_bytes()[:100] == other[:100]
    assert [entry.name for entry in path.parent.iterdir() if "corrupt" in entry.name] == []
    assert tile(client, "GET", "imagery", "1") == b"y"
