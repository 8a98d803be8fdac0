# SPDX-License-Identifier: Apache-2.0
"""Plain SET in a database of tiles: headers that are none, types without headers, keys that are no tilekeys."""
import subprocess
import urllib.request

import pytest
import redis

from conftest import start_refused
from diff.places import free_port
from tilekit import TYPES, headered, lmdb_rows, pack, sqlite_rows
from waiting import wait_until

JFIF = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(range(200))
EXIF = b"\xff\xd8\xff\xe1\x12\x34Exif\x00" + bytes(range(200))
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(200))
WEBP = b"RIFF\x10\x00\x00\x00WEBPVP8 " + bytes(range(200))
GZIP = b"\x1f\x8b\x08\x00" + bytes(range(200))
PICTURES = {"0": JFIF, "01": EXIF, "012": PNG, "0123": WEBP, "0123012301": GZIP, "3": b"", "31": b"\x80", "32": b"\xff" * 30}


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


# ---- headers that are none ----

@pytest.mark.parametrize("value", [JFIF, b"\x80\x00\x00x", b"\x00\x80\x00x", b"\x85\x88\x00\x00"])
def test_a_plain_set_whose_header_is_not_canonical_is_refused_and_changes_nothing(begin, value):
    server = begin()
    plain = server.client(db=1)
    plain.set("0", headered(b"before", 5))
    for words in (("SET", "0", value), ("MSET", "0", value), ("MSET", "1", headered(b"x"), "0", value)):
        with pytest.raises(redis.ResponseError, match="TILE.SET takes data without a header.*bare"):
            plain.execute_command(*words)
    assert plain.mget("0", "1") == [headered(b"before", 5), None]


def test_a_header_that_is_not_canonical_is_read_from_shards_of_others(begin, dirs):
    path = dirs["kv"] / "imagery" / "base.g3db"
    path.parent.mkdir(parents=True)
    text = f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=16777216\ndatabase=imagery\nHEADER=END\n {pack('0').hex()}\n 858000806278\nDATA=END\n"
    subprocess.run(["mdb_load", "-n", str(path)], input=text, text=True, check=True, timeout=100)
    client = begin("kv").client()
    assert tile(client, "GET", "imagery", "0", "META") == [b"x", 5, 98 << 7]


# ---- bare types ----

BARE = ("photos=7:bare", "films=8:bare")


@pytest.mark.parametrize("kinds", [(), ("sqlite",), ("kv",), ("sqlite", "kv")])
def test_a_bare_type_gives_back_exactly_the_bytes_that_were_set(start, dirs, kinds):
    words = [word for kind in kinds for word in (f"--tile-{kind}", str(dirs[kind]))]
    port = free_port()
    words += ["--tile-types", *BARE, "--tile-cache", "0", "--http-port", str(port), "--http-max-age", "0"]
    server = start(*words)
    client, plain = server.client(), server.client(db=7)
    for key, data in PICTURES.items():
        plain.set(key, data)
    plain.mset({"2": JFIF})
    tile(client, "SET", "photos", "20", JFIF)
    pictures = PICTURES | {"2": JFIF, "20": JFIF}
    for turn in range(3):
        keys = list(pictures)
        assert plain.mget(*keys, "33") == [*pictures.values(), None]
        assert [plain.get(key) for key in keys] == list(pictures.values())
        assert tile(client, "MGET", "photos", *keys) == list(pictures.values())
        assert tile(client, "GET", "photos", "01", "META") == [EXIF, 0, 0]
        assert tile(client, "COUNT", "photos", "", "BYTES") == [len(pictures), sum(map(len, pictures.values()))]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/tiles/photos/01") as answer:
            assert answer.read() == EXIF
        tile(client, "SYNC")  # the second turn: from the shards; the third: after a restart
        if turn == 1:
            server.kill()
            server = start(*words)
            client, plain = server.client(), server.client(db=7)
    if "kv" in kinds:
        assert lmdb_rows(dirs["kv"] / "photos" / "base.g3db", "photos")[pack("0")] == JFIF
        assert lmdb_rows(dirs["kv"] / "photos" / "base.g3db", "terrace") == {b"format": b"bare"}
    if "sqlite" in kinds:
        path = dirs["sqlite"] / "photos" / "base.g3db"
        assert sqlite_rows(path, f"SELECT hex(data), epoch, provider_id IS NULL FROM photos WHERE tile_id = x'{pack('0').hex()}'") == \
            [f"{JFIF.hex().upper()}|0|1"]


def test_a_bare_type_has_no_epoch_and_no_provider(start):
    client = start("--tile-types", *BARE).client()
    for words in (("EPOCH", 1), ("PROVIDER", 2)):
        with pytest.raises(redis.ResponseError, match="photos is bare"):
            tile(client, "SET", "photos", "0", "x", *words)
    with pytest.raises(redis.ResponseError, match="photos is bare"):
        tile(client, "MSET", "photos", "0", 1, 0, "x")
    tile(client, "MSET", "photos", "0", 0, 0, "x")
    assert tile(client, "GET", "photos", "0") == b"x"


def test_whether_a_type_is_bare_is_bound_for_good(start, tmp_path):
    server = start("--tile-types", "photos=7:bare", "imagery=1")
    server.client(db=7).set("0", JFIF)
    tile(server.client(), "SET", "imagery", "0", "x")
    server.stop()
    said = start_refused(server.dir, "--tile-types", "photos=7", "imagery=1")
    assert "photos=7:bare" in said and "write photos=7:bare there" in said
    assert "write imagery=1 there" in start_refused(server.dir, "--tile-types", "photos=7:bare", "imagery=1:bare")
    assert start("--tile-types", "photos=7:bare", "imagery=1").client(db=7).get("0") == JFIF


@pytest.mark.parametrize("words", [("q2=5:bare",), ("imagery=1:naked",), ("imagery=1:",), ("imagery=:bare",), ("imagery=1:barer",)])
def test_a_word_that_is_none_is_refused(tmp_path, words):
    assert start_refused(tmp_path / "data", "--tile-types", *words)


@pytest.mark.parametrize("first, then", [("imagery=1", "imagery=1:bare"), ("imagery=1:bare", "imagery=1")])
def test_a_kv_shard_of_the_other_sort_is_an_error_and_stays(start, dirs, first, then):
    server = start("--tile-types", first, "--tile-kv", str(dirs["kv"]), name="one")
    tile(server.client(), "SET", "imagery", "0", "x")
    server.stop()
    before = lmdb_rows(dirs["kv"] / "imagery" / "base.g3db", "imagery")
    client = start("--tile-types", then, "--tile-kv", str(dirs["kv"]), name="other").client()
    with pytest.raises(redis.ResponseError, match="unknown format"):
        tile(client, "GET", "imagery", "0")
    tile(client, "SET", "imagery", "1", "y")
    with pytest.raises(redis.ResponseError, match="unknown format"):
        tile(client, "SYNC")
    assert lmdb_rows(dirs["kv"] / "imagery" / "base.g3db", "imagery") == before


def test_a_legacy_shard_is_a_bare_one(start, dirs):
    from test_tile_persist import legacy_shard
    path = dirs["kv"] / "imagery" / "base.g3db"
    legacy_shard(path, {pack("0"): JFIF})
    server = start("--tile-types", "imagery=1:bare", "--tile-kv", str(dirs["kv"]))
    assert server.client(db=1).get("0") == JFIF
    server.client(db=1).set("1", PNG)
    tile(server.client(), "SYNC")
    assert lmdb_rows(path, "imagery") == {pack("0"): JFIF, pack("1"): PNG}


# ---- keys that are no tilekeys ----

@pytest.mark.parametrize("db, key", [(1, "0" * 25), (1, "4"), (1, "0129"), (1, "0123:5"), (4, "0123"), (4, "0123:"),
                                     (4, "0" * 25 + ":5"), (4, "0123:99999999999999999999")])
@pytest.mark.parametrize("words", [("SET", "KEY", "x"), ("GET", "KEY"), ("MSET", "a", "b", "KEY", "x"), ("MGET", "a", "KEY"),
                                   ("DEL", "KEY"), ("EXISTS", "KEY"), ("APPEND", "KEY", "x"), ("HSET", "KEY", "a", "b"),
                                   ("RENAME", "a", "KEY"), ("INCR", "KEY")])
def test_a_plain_command_on_digits_that_are_no_tilekey_is_refused(tiles, db, key, words):
    client = tiles.client(db=db)
    client.set("a", "1")
    with pytest.raises(redis.ResponseError, match="is no tilekey of this database"):
        client.execute_command(*(key if word == "KEY" else word for word in words))
    assert client.dbsize() == 1 and client.get("a") == b"1"


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    from conftest import Server
    server = Server(tmp_path_factory.mktemp("tiles"), "--tile-types", *TYPES)
    yield server
    server.stop()


def test_ordinary_digits_of_before_are_still_keys_and_can_be_deleted(start):
    server = start()
    server.client(db=1).set("456", "old")
    server.client(db=1).set("7", "dead", px=1)
    server.stop()
    plain = start("--tile-types", "imagery=1").client(db=1)
    assert plain.get("456") == b"old"
    wait_until(lambda: plain.dbsize() == 1)  # a key whose time is over goes as everywhere
    assert plain.delete("456") == 1
    with pytest.raises(redis.ResponseError, match="no tilekey"):
        plain.set("456", "new")


def test_keys_with_other_letters_are_ordinary(start):
    plain = start("--tile-types", *TYPES).client(db=1)
    for key in ("", "a1", "1a", "status:0123", ":1", "1:2:3", "-1", "1.5", " 1"):
        plain.set(key, "x")
        assert plain.get(key) == b"x"
