# SPDX-License-Identifier: Apache-2.0
"""No tile is lost on its way to the shards, whatever becomes of their files: locked, read-only, damaged, of another
kind, or on a full disk."""
import pathlib
import random
import sqlite3
import subprocess
import threading

import pytest
import redis

from conftest import start_refused
from tilekit import headered, lmdb_rows, pack, sqlite_rows, stats
from waiting import wait_until


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


def base(dirs, kind="sqlite", type_="imagery"):
    return dirs[kind] / type_ / "base.g3db"


class Lock:
    """Holds a shard, as another program would."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None, timeout=100)
        self.db.execute("PRAGMA locking_mode = NORMAL")
        self.db.execute("BEGIN IMMEDIATE")

    def release(self):
        self.db.execute("ROLLBACK")
        self.db.close()


def set_aside(dirs, kind="sqlite"):
    return sorted(path.name for path in dirs[kind].rglob("*.corrupt.*"))


@pytest.fixture
def made(begin, dirs):
    """A server whose shard of imagery exists, with one tile in it."""
    server = begin("sqlite")
    tile(server.client(), "SET", "imagery", "3", "first")
    tile(server.client(), "SYNC")
    return server


def in_background(work):
    result = []

    def run():
        try:
            result.append(work())
        except redis.RedisError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join(100)
        assert result, "it does not end"
        return result[0]

    return join


def sync_until_it_works(client):
    """The writer may meet a lock that is just being released."""
    def works():
        try:
            return tile(client, "SYNC")
        except redis.ResponseError as error:
            assert "locked" in str(error)
            return None

    return wait_until(works)


# ---- the holes ----

def test_a_full_queue_makes_writers_wait_and_drops_nothing(begin, dirs):
    server = begin("sqlite", options=("--hot-memory", "4mb", "--tile-batch", "10"))
    client = server.client()
    tile(client, "SET", "imagery", "3", "first")
    tile(client, "SYNC")
    lock = Lock(base(dirs))
    tiles = {"".join(random.Random(i).choices("0123", k=8)): bytes([i % 256]) * 4000 for i in range(2500)}
    pipe = client.pipeline(transaction=False)
    for key, data in tiles.items():
        pipe.execute_command("TILE.SET", "imagery", key, data)
    assert set(pipe.execute()) == {b"OK"}  # ten megabytes wait while nothing can be persisted
    assert stats(client)["persisted"] == 1
    lock.release()
    sync_until_it_works(client)
    assert stats(client)["persisted"] >= len(tiles)
    assert sqlite_rows(base(dirs), "SELECT count(*) FROM imagery") == [str(len(tiles) + 1)]
    keys = list(tiles)
    assert tile(client, "MGET", "imagery", *keys) == [tiles[key] for key in keys]


def test_a_lock_that_is_released_while_a_sync_waits_is_not_told(made, dirs):
    client = made.client()
    lock = Lock(base(dirs))
    tile(client, "SET", "imagery", "0", "second")
    answer = in_background(lambda: tile(made.client(), "SYNC"))
    wait_until(lambda: stats(client)["failed_batches"] >= 1)
    lock.release()
    assert answer() == b"OK"
    assert stats(client)["trouble"] == b"" and stats(client, "imagery")["pending"] == 0


def test_a_failed_batch_is_kept_and_tried_again(made, dirs):
    client = made.client()
    lock = Lock(base(dirs))
    tile(client, "SET", "imagery", "0", "second")
    with pytest.raises(redis.ResponseError, match="locked"):
        tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") == b"second"
    now = stats(client)
    assert now["failed_batches"] >= 1 and b"locked" in now["trouble"] and stats(client, "imagery")["pending"] == 1
    lock.release()
    sync_until_it_works(client)
    assert stats(client)["trouble"] == b"" and stats(client, "imagery")["pending"] == 0
    assert sqlite_rows(base(dirs), "SELECT data FROM imagery ORDER BY tile_id") == ["second", "first"]


def test_a_failed_batch_survives_a_kill(made, begin, dirs):
    client = made.client()
    lock = Lock(base(dirs))
    tile(client, "SET", "imagery", "0", "second")
    with pytest.raises(redis.ResponseError):
        tile(client, "SYNC")
    made.kill()
    lock.release()
    client = begin("sqlite").client()
    assert tile(client, "GET", "imagery", "0") == b"second"
    sync_until_it_works(client)
    assert sqlite_rows(base(dirs), "SELECT count(*) FROM imagery") == ["2"]


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_types_with_one_key_in_one_batch_do_not_overwrite_each_other(begin, dirs, kind):
    client = begin(kind).client()
    tile(client, "SYNC")  # the round that a start begins with is over
    before = stats(client)["batches"]
    tile(client, "SET", "imagery", "0123", "image", "EPOCH", 1, "PROVIDER", 2)
    tile(client, "SET", "terrain", "0123", "ground", "EPOCH", 3, "PROVIDER", 4)
    tile(client, "SET", "vector", "0123", "lines")
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0123", "META") == [b"image", 1, 2]
    assert tile(client, "GET", "terrain", "0123", "META") == [b"ground", 3, 4]
    assert tile(client, "GET", "vector", "0123", "META") == [b"lines", 0, 0]
    assert stats(client)["batches"] == before + 1


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_each_tile_of_a_batch_has_its_own_epoch_and_provider(begin, kind):
    client = begin(kind).client()
    for i in range(64):
        tile(client, "SET", "imagery", f"{i:06b}", "x", "EPOCH", i, "PROVIDER", 1000 - i)
    tile(client, "SYNC")
    for i in range(64):
        assert tile(client, "GET", "imagery", f"{i:06b}", "META") == [b"x", i, 1000 - i]


def held_in_flight(server, dirs, key, data):
    """A tile that the writer has, and cannot write yet. Returns what lets it, and how it ended."""
    client = server.client()
    lock = Lock(base(dirs))
    tile(client, "SET", "imagery", key, data)
    failed = stats(client)["failed_batches"]
    join = in_background(lambda: tile(server.client(), "SYNC"))
    while (now := stats(client))["in_flight"] == 0:
        if now["failed_batches"] > failed:  # it waits a second for a lock: that was over before it was seen
            failed = now["failed_batches"]
            join()
            join = in_background(lambda: tile(server.client(), "SYNC"))

    def release():
        lock.release()
        return join()

    return release


def test_a_tile_that_became_newer_while_it_was_persisted_stays(made, dirs):
    client = made.client()
    release = held_in_flight(made, dirs, "0", "older")
    tile(client, "SET", "imagery", "0", "newer", "EPOCH", 5)
    release()
    assert tile(client, "GET", "imagery", "0", "META") == [b"newer", 5, 0]
    assert stats(client, "imagery")["pending"] == 1  # it was not cleared with the older one
    sync_until_it_works(client)
    assert stats(client, "imagery")["pending"] == 0
    assert tile(client, "GET", "imagery", "0", "META") == [b"newer", 5, 0]
    assert sqlite_rows(base(dirs), "SELECT data, epoch FROM imagery WHERE tile_id = x'0000000000000001'") == ["newer|5"]


def test_a_delete_cancels_what_is_pending(made, dirs):
    client = made.client()
    tile(client, "SET", "imagery", "0", "x")
    assert tile(client, "DEL", "imagery", "0") == 1
    tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") is None
    assert sqlite_rows(base(dirs), "SELECT count(*) FROM imagery") == ["1"]


def test_a_delete_while_the_tile_is_persisted_wins(made, begin, dirs):
    client = made.client()
    release = held_in_flight(made, dirs, "0", "x")
    assert tile(client, "DEL", "imagery", "0") == 1
    assert tile(client, "GET", "imagery", "0") is None
    release()
    assert tile(client, "GET", "imagery", "0") is None  # the shard has it, the mark hides it
    made.kill()
    client = begin("sqlite").client()
    assert tile(client, "GET", "imagery", "0") is None and tile(client, "COUNT", "imagery", "") == 1
    sync_until_it_works(client)
    assert tile(client, "GET", "imagery", "0") is None
    assert sqlite_rows(base(dirs), "SELECT count(*) FROM imagery") == ["1"]


def test_a_delete_is_persisted_and_the_tile_does_not_come_back(made, begin, dirs):
    client = made.client()
    assert tile(client, "GET", "imagery", "3") == b"first"  # it is in the cache as well
    assert tile(client, "DEL", "imagery", "3") == 1
    assert tile(client, "GET", "imagery", "3") is None
    made.kill()
    client = begin("sqlite").client()
    assert tile(client, "GET", "imagery", "3") is None
    tile(client, "SYNC")
    assert sqlite_rows(base(dirs), "SELECT count(*) FROM imagery") == ["0"]
    assert tile(client, "GET", "imagery", "3") is None


def test_writes_during_shutdown_are_answered_or_refused_and_those_answered_are_kept(begin, dirs):
    server = begin("sqlite", options=("--tile-batch", "10"))
    written = [[] for _ in range(4)]

    def write(number):
        client = server.client()
        try:
            for i in range(100000):
                key = f"{number}" + format(i, "b").zfill(7)[-7:].replace("1", "3")
                assert tile(client, "SET", "imagery", key, f"{number} {i}")
                written[number].append((key, f"{number} {i}"))
        except redis.RedisError:
            pass  # it is over

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(map(len, written)) >= 50)
    assert server.stop() == 0
    for thread in threads:
        thread.join()
    client = begin("sqlite").client()
    for some in written:
        last = dict(some)  # the last value of each key
        keys = list(last)
        for key, data in zip(keys, tile(client, "MGET", "imagery", *keys)):
            assert data is not None and int(data.split()[1]) >= int(last[key].split()[1])


def legacy_shard(path, values):
    """A KV shard with bare values, as its mark says."""
    path.parent.mkdir(parents=True)
    bare = "".join(f" {key.hex()}\n {value.hex()}\n" for key, value in sorted(values.items()))
    head = "VERSION=3\nformat=bytevalue\ndatabase={}\ntype=btree\nmapsize=16777216\nmaxreaders=126\ndb_pagesize=4096\nHEADER=END\n"
    text = head.format("imagery") + bare + "DATA=END\n" + head.format("terrace") + \
        f" {b'format'.hex()}\n {b'legacy'.hex()}\nDATA=END\n"
    subprocess.run(["mdb_load", "-n", str(path)], input=text, text=True, check=True, timeout=100)


def test_a_bare_jpeg_in_a_legacy_shard_keeps_its_first_bytes(begin, dirs):
    jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256))
    legacy_shard(base(dirs, "kv"), {pack("0"): jpeg, pack("1"): b"\x01\x02looks like a header", pack("2"): b""})
    client = begin("kv").client()
    assert tile(client, "GET", "imagery", "0", "META") == [jpeg, 0, 0]
    assert tile(client, "GET", "imagery", "1", "META") == [b"\x01\x02looks like a header", 0, 0]
    assert tile(client, "GET", "imagery", "2", "META") == [b"", 0, 0]


def test_headered_and_bare_values_never_lie_in_one_shard(begin, dirs):
    values = {pack("0" + format(i, "b").zfill(7)): bytes([i % 7]) * (i * 40) for i in range(100)}
    legacy_shard(base(dirs, "kv"), values)
    client = begin("kv").client()
    assert tile(client, "COUNT", "imagery", "") == 100
    tile(client, "SET", "imagery", "3", "new", "EPOCH", 9)
    tile(client, "SYNC")
    expected = {key: headered(value) for key, value in values.items()} | {pack("3"): headered(b"new", 9)}
    assert lmdb_rows(base(dirs, "kv"), "imagery") == expected
    assert lmdb_rows(base(dirs, "kv"), "terrace") == {b"format": b"headered"}
    assert tile(client, "GET", "imagery", "0" + format(50, "b").zfill(7)) == bytes([1]) * 2000
    assert tile(client, "COUNT", "imagery", "", "BYTES") == [101, sum(map(len, values.values())) + 3]


# ---- files ----

def test_a_locked_shard_is_an_error_and_stays_where_it_is(made, dirs):
    client = made.client()
    lock = Lock(base(dirs))
    tile(client, "SET", "imagery", "0", "x")
    with pytest.raises(redis.ResponseError, match="locked"):
        tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "3") == b"first"  # WAL: it can be read meanwhile
    lock.release()
    sync_until_it_works(client)
    assert set_aside(dirs) == []


HOLDER = """
import ctypes, sys
lmdb = ctypes.CDLL("liblmdb.so.0")
env, txn = ctypes.c_void_p(), ctypes.c_void_p()
assert lmdb.mdb_env_create(ctypes.byref(env)) == 0
assert lmdb.mdb_env_open(env, sys.argv[1].encode(), 0x4000, 0o644) == 0
assert lmdb.mdb_txn_begin(env, None, 0, ctypes.byref(txn)) == 0
print("held", flush=True)
sys.stdin.readline()
lmdb.mdb_txn_abort(txn)
lmdb.mdb_env_close(env)
"""


@pytest.mark.parametrize("end", ["release", "kill"])
def test_a_locked_kv_shard_is_an_error_and_stops_neither_others_nor_the_server(begin, dirs, end):
    server = begin("kv")
    client = server.client()
    tile(client, "SET", "imagery", "3", "first")
    tile(client, "SYNC")
    with subprocess.Popen(["/usr/bin/python3", "-c", HOLDER, str(base(dirs, "kv"))], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        tile(client, "SET", "imagery", "0", "x")
        tile(client, "SET", "terrain", "0", "x")
        with pytest.raises(redis.ResponseError, match="locked by another program"):
            tile(client, "SYNC")
        assert tile(client, "MGET", "imagery", "0", "3") == [b"x", b"first"]
        assert lmdb_rows(base(dirs, "kv", "terrain"), "terrain") == {pack("0"): headered(b"x")}
        if end == "kill":
            server.stop()  # while it is locked
            client = begin("kv").client()
            holder.kill()  # with the lock
        else:
            holder.stdin.write("\n")
            holder.stdin.flush()
        holder.wait()
    sync_until_it_works(client)
    assert lmdb_rows(base(dirs, "kv"), "imagery") == {pack("0"): headered(b"x"), pack("3"): headered(b"first")}
    assert set_aside(dirs, "kv") == []


def test_a_path_that_is_no_file_is_an_error_and_stays(begin, dirs):
    base(dirs).mkdir(parents=True)
    client = begin("sqlite").client()
    tile(client, "SET", "imagery", "0", "x")
    with pytest.raises(redis.ResponseError):
        tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") == b"x"
    with pytest.raises(redis.ResponseError):
        tile(client, "GET", "imagery", "1")
    base(dirs).rmdir()
    tile(client, "SYNC")
    assert tile(client, "MGET", "imagery", "0", "1") == [b"x", None]
    assert set_aside(dirs) == []


@pytest.fixture
def disk(dirs):
    """A small disk for the shards of both kinds."""
    path = dirs["sqlite"].parent / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    for kind in dirs:
        dirs[kind] = path / kind
    yield path
    subprocess.run(["umount", "-l", str(path)], check=False)


class Mount:
    """A disk that comes and goes, for the shards of both kinds."""

    def __init__(self, top):
        self.content, self.point = top / "content", top / "point"
        self.content.mkdir()
        self.point.mkdir()
        self.is_there = False

    def come(self):
        command = ["mount", "--bind", str(self.content), str(self.point)]
        self.is_there = subprocess.run(command, capture_output=True).returncode == 0
        return self.is_there

    def go(self):
        """Whoever has files open keeps them, as when a cable is pulled or a server of files goes away."""
        if self.is_there:
            subprocess.run(["umount", "-l", str(self.point)], check=True)
        self.is_there = False


@pytest.fixture
def mount(dirs):
    mount = Mount(dirs["sqlite"].parent)
    if not mount.come():
        pytest.skip("nothing can be mounted here")
    for kind in dirs:
        dirs[kind] = mount.point / kind
    yield mount
    mount.go()


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
@pytest.mark.parametrize("when", ["at start", "while running"])
def test_a_disk_that_is_not_mounted_is_an_error_no_lack_of_tiles_and_is_not_written_beside(begin, mount, kind, when):
    server = begin(kind)
    client = server.client()
    tiles = {"3": b"first", "0123012301230": b"deep"}
    for key, data in tiles.items():
        tile(client, "SET", "imagery", key, data)
    tile(client, "SYNC")
    if when == "at start":
        server.stop()
        mount.go()
        client = begin(kind).client()
    else:
        assert tile(client, "MGET", "imagery", "33", "0123012301231") == [None, None]  # all handles are open
        mount.go()
    for words in (["GET", "imagery", "3"], ["GET", "imagery", "0123012301230"], ["EXISTS", "imagery", "1"],
                  ["DEL", "imagery", "3"], ["RANGE", "imagery", ""], ["COUNT", "imagery", ""], ["DROP", "imagery", "3"]):
        with pytest.raises(redis.ResponseError, match="imagery\" is missing"):
            tile(client, *words)
    assert tile(client, "SET", "imagery", "2", "new") == b"OK"
    with pytest.raises(redis.ResponseError, match="imagery\" is missing"):
        tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "2") == b"new"
    assert list(mount.point.iterdir()) == []
    assert mount.come()
    tile(client, "SYNC")
    assert tile(client, "MGET", "imagery", *tiles, "2", "1") == [*tiles.values(), b"new", None]
    assert tile(client, "COUNT", "imagery", "") == 3 and stats(client)["trouble"] == b""


def test_a_kind_that_was_added_later_is_not_written_beside_its_disk_either(begin, mount):
    server = begin("sqlite")
    tile(server.client(), "SET", "imagery", "3", "first")
    server.stop()
    server = begin("sqlite", "kv")
    tile(server.client(), "SET", "imagery", "0", "both")
    server.stop()
    kv = mount.content / "kv"
    kv.rename(mount.content / "elsewhere")
    client = begin("sqlite", "kv").client()
    tile(client, "SET", "imagery", "1", "new")
    with pytest.raises(redis.ResponseError, match="kv/imagery\" is missing"):
        tile(client, "SYNC")
    assert not kv.exists() and tile(client, "MGET", "imagery", "0", "1", "3") == [b"both", b"new", b"first"]
    (mount.content / "elsewhere").rename(kv)
    tile(client, "SYNC")
    assert lmdb_rows(kv / "imagery" / "base.g3db", "imagery") == {pack("0"): headered(b"both"), pack("1"): headered(b"new")}


def test_a_directory_that_cannot_be_made_is_told_at_the_first_start(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    said = start_refused(tmp_path / "data", "--tile-types", "imagery=1", "--tile-sqlite", str(file / "shards"))
    assert "tile-sqlite" in said and str(file) in said


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_full_disk_keeps_the_tiles_in_the_store(begin, dirs, disk, kind):
    client = begin(kind).client()
    tile(client, "SET", "imagery", "3", "first")
    tile(client, "SYNC")
    fill = disk / "fill"
    with open(fill, "wb", buffering=0) as file:
        with pytest.raises(OSError):
            while True:
                file.write(b"x" * 4096)
    tiles = {format(i, "b").zfill(8): bytes([i]) * 3000 for i in range(100)}
    for key, data in tiles.items():
        tile(client, "SET", "imagery", key, data)
    with pytest.raises(redis.ResponseError):
        tile(client, "SYNC")
    keys = list(tiles)
    assert tile(client, "MGET", "imagery", *keys) == [tiles[key] for key in keys]
    assert set_aside(dirs, kind) == []
    fill.unlink()
    tile(client, "SYNC")
    assert tile(client, "MGET", "imagery", "3", *keys) == [b"first"] + [tiles[key] for key in keys]
    assert stats(client, "imagery")["pending"] == 0 and set_aside(dirs, kind) == []


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_read_only_disk_is_an_error_and_nothing_is_renamed(begin, dirs, disk, kind):
    server = begin(kind)
    tile(server.client(), "SET", "imagery", "3", "first")
    server.stop()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    server = begin(kind)
    client = server.client()
    tile(client, "SET", "imagery", "0", "x")
    with pytest.raises(redis.ResponseError):
        tile(client, "SYNC")
    assert tile(client, "GET", "imagery", "0") == b"x"
    try:  # SQLite needs a file beside it that cannot be made, LMDB does not
        assert tile(client, "GET", "imagery", "3") == b"first"
    except redis.ResponseError as error:
        assert kind == "sqlite" and "base.g3db" in str(error)
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    server.stop()
    client = begin(kind).client()
    tile(client, "SYNC")
    assert tile(client, "MGET", "imagery", "0", "3") == [b"x", b"first"]
    assert set_aside(dirs, kind) == []


def filled(begin, kind, count=300):
    """A shard with some pages, closed."""
    server = begin(kind)
    client = server.client()
    for i in range(count):
        tile(client, "SET", "imagery", format(i, "b").zfill(8), bytes([i % 256]) * 1500)
    tile(client, "SYNC")
    server.stop()


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
@pytest.mark.parametrize("damage", ["cut", "header", "few bytes"])
def test_a_damaged_shard_is_set_aside_when_it_is_written_and_only_then(begin, dirs, kind, damage):
    filled(begin, kind)
    path = base(dirs, kind)
    whole = path.read_bytes()
    damaged = {"cut": whole[:len(whole) // 2 // 4096 * 4096], "header": b"\0" * 100 + whole[100:], "few bytes": b"abc"}[damage]
    path.write_bytes(damaged)
    server = begin(kind)
    client = server.client()
    for key in ("00000001", "11111111"):
        try:
            tile(client, "GET", "imagery", key)
        except redis.ResponseError:
            pass
    assert set_aside(dirs, kind) == []  # reading renames nothing
    for i in range(300):
        tile(client, "SET", "imagery", format(i, "b").zfill(8), "again")
    tile(client, "SYNC")
    names = set_aside(dirs, kind)
    assert len([name for name in names if name.rsplit(".", 1)[1].isdigit()]) == 1, names
    aside = next(path for path in dirs[kind].rglob("base.g3db.corrupt.*") if path.suffix[1:].isdigit())
    assert aside.read_bytes()[:3] == damaged[:3]
    assert tile(client, "GET", "imagery", "00000001") == b"again"
    assert stats(client)["shards_set_aside"] == 1
    wait_until(lambda: "set aside" in server.stderr())


def test_a_shard_of_another_schema_is_an_error_and_stays(begin, dirs):
    path = base(dirs)
    path.parent.mkdir(parents=True)
    for schema in ("CREATE TABLE imagery(id INTEGER PRIMARY KEY, picture BLOB)", "CREATE TABLE other(a)",
                   "PRAGMA application_id = 7", "PRAGMA application_id = 0x5454696c; PRAGMA user_version = 99"):
        with sqlite3.connect(path) as db:
            db.executescript(schema)
            db.execute("CREATE TABLE kept(a)")
        db.close()
        before = path.read_bytes()
        server = begin("sqlite")
        client = server.client()
        tile(client, "SET", "imagery", "0", "x")
        with pytest.raises(redis.ResponseError):
            tile(client, "SYNC")
        with pytest.raises(redis.ResponseError):
            tile(client, "GET", "imagery", "1")
        assert tile(client, "GET", "imagery", "0") == b"x"
        assert set_aside(dirs) == []
        server.stop()
        with sqlite3.connect(path) as db:
            assert ("kept",) in db.execute("SELECT name FROM sqlite_master").fetchall()
        db.close()
        path.unlink()
        for beside in ("-wal", "-shm"):
            pathlib.Path(f"{path}{beside}").unlink(missing_ok=True)


def test_rows_of_a_shard_that_cannot_be_are_errors_or_unknown_and_never_something_else(begin, dirs):
    server = begin("sqlite")
    tile(server.client(), "SET", "imagery", "3", "first")
    tile(server.client(), "META", "SET", "q2", "0123", "data")
    server.stop()
    with sqlite3.connect(base(dirs)) as db:
        for key, epoch, data in (("0", 0, b"\0" * (65 << 20)), ("1", -1, b"x"), ("2", "no number", "text")):
            db.execute("INSERT INTO imagery VALUES(?, ?, NULL, ?)", (pack(key), epoch, data))
    with sqlite3.connect(base(dirs, type_="q2")) as db:
        db.executemany("INSERT INTO q2 VALUES(?, ?, 0, x'00', ?)", [(pack("1111"), 4, 256), (pack("2222"), 4, 1 << 40)])
    client = begin("sqlite").client()
    for key in ("0", "1"):
        with pytest.raises(redis.ResponseError, match="base.g3db"):
            tile(client, "GET", "imagery", key)
    assert tile(client, "MGET", "imagery", "2", "3") == [b"text", b"first"]
    assert tile(client, "META", "LIST", "q2") == [[b"0123", b"PENDING"], [b"1111", b"unknown"], [b"2222", b"unknown"]]
    assert tile(client, "META", "LIST", "q2", "STATUS", "PENDING") == [[b"0123", b"PENDING"]]


def test_a_shard_of_ours_without_a_mark_is_taken_and_marked(begin, dirs):
    path = base(dirs)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE imagery(tile_id BLOB PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, "
                   "provider_id INTEGER NULL, data BLOB NOT NULL)")
        db.execute("INSERT INTO imagery VALUES(?, 5, NULL, 'old')", (pack("0"),))
    db.close()
    client = begin("sqlite").client()
    assert tile(client, "GET", "imagery", "0", "META") == [b"old", 5, 0]
    tile(client, "SET", "imagery", "1", "new")
    tile(client, "SYNC")
    assert tile(client, "COUNT", "imagery", "") == 2
    assert sqlite_rows(path, "PRAGMA user_version") == ["1"]


def test_an_unknown_format_of_a_kv_shard_is_refused(begin, dirs):
    legacy_shard(base(dirs, "kv"), {pack("0"): b"x"})
    subprocess.run(["mdb_load", "-n", str(base(dirs, "kv"))], text=True, check=True, timeout=100,
                   input="VERSION=3\nformat=print\ndatabase=terrace\ntype=btree\nHEADER=END\n format\n from the future\nDATA=END\n")
    client = begin("kv").client()
    with pytest.raises(redis.ResponseError, match="unknown format"):
        tile(client, "GET", "imagery", "0")
    tile(client, "SET", "imagery", "1", "x")
    with pytest.raises(redis.ResponseError, match="unknown format"):
        tile(client, "SYNC")
    assert set_aside(dirs, "kv") == []
