# SPDX-License-Identifier: Apache-2.0
"""Shards that somebody else replaces, removes, enlarges or damages while the server uses them."""
import os
import random
import shutil
import subprocess

import pytest
import redis

from tilekit import headered, lmdb_rows, pack, sqlite_rows


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


def kv_write(path, database, rows):
    """As another program writes to it."""
    text = f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1073741824\ndatabase={database}\nHEADER=END\n"
    text += "".join(f" {key.hex()}\n {value.hex()}\n" for key, value in sorted(rows.items()))
    subprocess.run(["mdb_load", "-n", "-s", database, str(path)], input=text + "DATA=END\n", text=True, check=True, timeout=100)


def keys_of(path, kind):
    if kind == "kv":
        return set(lmdb_rows(path, "imagery"))
    return {bytes.fromhex(row) for row in sqlite_rows(path, "SELECT hex(tile_id) FROM imagery")}


def another_shard(start, dirs, tmp_path, kind, tiles):
    """A shard that a server of its own has made: its path."""
    other = tmp_path / "other"
    server = start("--tile-types", "imagery=1", f"--tile-{kind}", str(other), name="other-data")
    for key, data in tiles.items():
        tile(server.client(), "SET", "imagery", key, data)
    tile(server.client(), "SYNC")
    server.stop()
    return other / "imagery" / "base.g3db"


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_shard_that_was_replaced_is_noticed_by_readers_and_by_the_writer(begin, start, dirs, tmp_path, kind):
    new = another_shard(start, dirs, tmp_path, kind, {"1": "new", "2": "new"})
    client = begin(kind).client()
    path = dirs[kind] / "imagery" / "base.g3db"
    tile(client, "SET", "imagery", "0", "old")
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") == b"old"  # both handles are open
    os.replace(new, path)
    assert tile(client, "GET", "imagery", "1") == b"new"
    assert tile(client, "GET", "imagery", "3") is None
    tile(client, "SET", "imagery", "3", "later")
    tile(client, "SYNC")
    assert keys_of(path, kind) == {pack("1"), pack("2"), pack("3")}
    assert tile(client, "RANGE", "imagery", "") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_what_is_persisted_after_a_shard_was_removed_is_in_a_new_one(begin, dirs, kind):
    client = begin(kind).client()
    path = dirs[kind] / "imagery" / "base.g3db"
    tile(client, "SET", "imagery", "0", "old")
    tile(client, "SYNC")
    path.unlink()
    tile(client, "SET", "imagery", "1", "new")
    tile(client, "SYNC")
    assert keys_of(path, kind) == {pack("1")}
    assert tile(client, "GET", "imagery", "1") == b"new"
    shutil.rmtree(path.parent)
    tile(client, "SET", "imagery", "2", "newer")
    with pytest.raises(redis.ResponseError, match="imagery\" is missing"):
        tile(client, "SYNC")
    path.parent.mkdir()  # whoever makes it says that the old tiles are gone for good
    tile(client, "SYNC")
    assert keys_of(path, kind) == {pack("2")}


def test_what_another_program_writes_to_a_kv_shard_is_found_however_much_it_is(begin, dirs):
    client = begin("kv").client()
    path = dirs["kv"] / "imagery" / "base.g3db"
    tile(client, "SET", "imagery", "0", "ours")
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "1") is None
    tile(client, "DEL", "imagery", "0")
    more = {f"3{i:07b}": b"%02d" % i * 300000 for i in range(64)}
    kv_write(path, "imagery", {pack(key): headered(data) for key, data in more.items()})
    assert path.stat().st_size > 32 << 20  # more than the map of the server
    for key, data in list(more.items())[::16]:
        assert tile(client, "GET", "imagery", key) == data
    assert tile(client, "COUNT", "imagery", "3") == len(more)
    tile(client, "SET", "imagery", "1", "ours again")
    tile(client, "SYNC")
    assert tile(client, "COUNT", "imagery", "") == len(more) + 1


def damaged(path, whole, rand):
    """The same file, with other bytes in it."""
    page = rand.randrange(len(whole) // 4096) * 4096
    at = page + (rand.randrange(32) if rand.random() < 0.7 else rand.randrange(4096))
    wrong = bytearray(whole)
    if rand.random() < 0.2:
        wrong[page:page + 4096] = rand.randbytes(4096)
    else:
        wrong[at] ^= 1 << rand.randrange(8)
    with open(path, "r+b") as file:
        file.write(wrong)
        file.truncate(len(wrong))
    return wrong


def any_answer(client, *words):
    try:
        return tile(client, *words)
    except redis.ResponseError as error:
        return error


def test_damage_inside_an_open_kv_shard_never_stops_the_server_or_other_types(begin, dirs):
    rand = random.Random(7)
    server = begin("kv", options=("--tile-cache", "1mb"))
    client = server.client()
    path = dirs["kv"] / "imagery" / "base.g3db"
    keys = [format(i, "b").zfill(8) for i in range(120)]
    for i, key in enumerate(keys):
        tile(client, "SET", "imagery", key, bytes([i]) * (50 if i % 3 else 5000))
        tile(client, "SET", "terrain", key, "terrain")
    tile(client, "SYNC")
    whole = path.read_bytes()
    for turn in range(40):
        damaged(path, whole, rand)
        for key in rand.sample(keys, 5):
            any_answer(client, "GET", "imagery", key)
        any_answer(client, "RANGE", "imagery", "")
        any_answer(client, "COUNT", "imagery", "", "BYTES")
        any_answer(client, "SET", "imagery", rand.choice(keys), "new" * rand.randrange(3000))
        any_answer(client, "DEL", "imagery", rand.choice(keys))
        any_answer(client, "SYNC")
        tile(client, "SET", "terrain", keys[turn], "changed %d" % turn)
        assert tile(client, "GET", "terrain", keys[turn]) == b"changed %d" % turn
        assert tile(client, "GET", "terrain", keys[100]) == b"terrain"
    assert client.ping()
    path.write_bytes(whole)  # it is used again without a restart
    tile(client, "SYNC")
    tile(client, "SET", "imagery", keys[1], "right")
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", keys[1]) == b"right"
    assert lmdb_rows(path, "imagery")[pack(keys[1])] == headered(b"right")
