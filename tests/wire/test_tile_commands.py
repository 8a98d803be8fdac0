# SPDX-License-Identifier: Apache-2.0
"""TILE.* and plain commands on tiles: in the store alone, and while everything is persisted and cleared at once."""
import pytest
import redis

from conftest import start_refused
from tilekit import IMAGERY, Q2, TERRAIN, TM, TYPES, VECTOR, headered

EVERY = bytes(range(256))


@pytest.fixture(params=["store", "sqlite", "kv"])
def tiles(start, tmp_path, request):
    shards = {"store": (), "sqlite": ("--tile-sqlite", tmp_path / "sqlite"), "kv": ("--tile-kv", tmp_path / "kv")}
    return start("--tile-types", *TYPES, "--tile-batch", "1", *map(str, shards[request.param]))


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as error:
        client.execute_command(*words)
    return str(error.value)


def test_a_tile_comes_back_with_its_epoch_and_provider(tiles):
    client = tiles.client()
    assert client.execute_command("TILE.SET", "imagery", "0123", EVERY, "EPOCH", 1029, "PROVIDER", 124)
    assert client.execute_command("TILE.GET", "imagery", "0123") == EVERY
    assert client.execute_command("TILE.GET", "imagery", "0123", "META") == [EVERY, 1029, 124]
    assert client.execute_command("TILE.GET", "imagery", "0120") is None
    assert client.execute_command("TILE.EXISTS", "imagery", "0123", "0120", "0123") == 2
    assert client.execute_command("TILE.DEL", "imagery", "0123", "0120") == 1
    assert client.execute_command("TILE.GET", "imagery", "0123") is None
    assert client.execute_command("TILE.DEL", "imagery", "0123") == 0


def test_plain_put_does_not_keep_the_epoch_and_provider_of_the_older_tile(tiles):
    client = tiles.client()
    client.execute_command("TILE.SET", "imagery", "0", "a", "EPOCH", 7, "PROVIDER", 8)
    client.execute_command("TILE.SET", "imagery", "0", "b")
    assert client.execute_command("TILE.GET", "imagery", "0", "META") == [b"b", 0, 0]
    client.execute_command("TILE.SET", "imagery", "0", "a", "EPOCH", 7, "PROVIDER", 8)
    tiles.client(db=IMAGERY).set("0", headered(b"c"))
    assert client.execute_command("TILE.GET", "imagery", "0", "META") == [b"c", 0, 0]


def test_mset_gives_each_tile_its_own_epoch_and_provider(tiles):
    client = tiles.client()
    client.execute_command("TILE.MSET", "imagery", "0", 1, 2, "a", "1", 3, 4, "b", "", 5, 6, "root")
    assert client.execute_command("TILE.GET", "imagery", "0", "META") == [b"a", 1, 2]
    assert client.execute_command("TILE.GET", "imagery", "1", "META") == [b"b", 3, 4]
    assert client.execute_command("TILE.GET", "imagery", "", "META") == [b"root", 5, 6]
    assert client.execute_command("TILE.MGET", "imagery", "1", "2", "0") == [b"b", None, b"a"]
    refused(client, "TILE.MSET", "imagery", "0", 1, 2)
    assert "number" in refused(client, "TILE.MSET", "imagery", "2", 1, 2, "x", "3", -1, 0, "y")
    assert client.execute_command("TILE.EXISTS", "imagery", "2", "3") == 0  # all or none


def test_types_with_one_key_do_not_meet(tiles):
    client = tiles.client()
    client.execute_command("TILE.SET", "imagery", "0123", "image")
    client.execute_command("TILE.SET", "terrain", "0123", "ground")
    assert client.execute_command("TILE.GET", "imagery", "0123") == b"image"
    assert tiles.client(db=TERRAIN).get("0123") == headered(b"ground")
    assert tiles.client(db=VECTOR).get("0123") is None
    assert client.get("0123") is None  # database 0 has no tiles: an ordinary key


def test_plain_commands_and_tile_commands_are_one_thing(tiles):
    client, plain = tiles.client(), tiles.client(db=IMAGERY)
    assert plain.set("0123", headered(EVERY, 1029, 124))
    assert client.execute_command("TILE.GET", "imagery", "0123", "META") == [EVERY, 1029, 124]
    client.execute_command("TILE.SET", "imagery", "333", "x", "EPOCH", 300)
    assert plain.get("333") == headered(b"x", 300)
    assert plain.type("333") == b"string" and plain.type("332") == b"none"
    assert plain.mset({"queue": "an ordinary key", "0": headered(b"zero")})
    assert plain.mget("queue", "0", "1", "nothing") == [b"an ordinary key", headered(b"zero"), None, None]
    assert plain.exists("queue", "0", "1", "0123") == 3
    assert client.execute_command("TILE.EXISTS", "imagery", "0") == 1
    assert plain.delete("queue", "0", "1") == 2
    assert plain.unlink("0123", "333") == 2
    assert client.execute_command("TILE.EXISTS", "imagery", "0", "0123", "333") == 0


def test_other_commands_on_tiles_name_the_tile_commands(tiles):
    plain = tiles.client(db=IMAGERY)
    plain.set("a", "b")
    for words in (("APPEND", "0123", "x"), ("LPUSH", "0123", "x"), ("EXPIRE", "0123", 5), ("RENAME", "a", "0123"),
                  ("COPY", "a", "0123"), ("GETRANGE", "0123", 0, 1), ("WATCH", "0123"), ("STRLEN", "3")):
        assert "TILE." in refused(plain, *words), words
    client = tiles.client()
    client.set("0123", "x")
    assert "TILE." in refused(client, "MOVE", "0123", IMAGERY)
    assert "TILE." in refused(client, "COPY", "0123", "0123", "DB", IMAGERY)
    assert plain.lpush("queue", "x") == 1 and plain.rename("a", "c")  # others are ordinary
    assert "TILE.SET" in refused(plain, "SET", "0123", headered(b"x"), "EX", 5)


def test_a_value_without_a_header_is_refused(tiles):
    plain = tiles.client(db=IMAGERY)
    for bad in (b"", b"\x01", b"\xff" * 12, b"\x80\x80"):
        assert "uvarint" in refused(plain, "SET", "0", bad)
        assert "uvarint" in refused(plain, "MSET", "1", headered(b"good"), "0", bad)
    assert plain.exists("0", "1") == 0


def test_keys_and_numbers_out_of_range_are_refused(tiles):
    client = tiles.client()
    for key in ("4", "01x", "0" * 25, "0 ", "0:5"):
        assert "tilekey" in refused(client, "TILE.SET", "imagery", key, "x"), key
        assert "tilekey" in refused(client, "TILE.GET", "imagery", key), key
    for word in ("EPOCH", "PROVIDER"):
        for number in (-1, 2 ** 63, "x", ""):
            refused(client, "TILE.SET", "imagery", "0", "x", word, number)
    assert client.execute_command("TILE.SET", "imagery", "0", "x", "EPOCH", 2 ** 63 - 1, "PROVIDER", 2 ** 63 - 1)
    assert client.execute_command("TILE.GET", "imagery", "0", "META") == [b"x", 2 ** 63 - 1, 2 ** 63 - 1]
    assert "no tile type" in refused(client, "TILE.SET", "nothing", "0", "x")
    assert "no tile type" in refused(client, "TILE.GET", "", "0")
    assert "no time" in refused(client, "TILE.SET", "imagery", "0", "x", "TM", 5)
    assert "TILE.META" in refused(client, "TILE.SET", "q2", "0", "x")
    refused(client, "TILE.SET", "imagery", "0", "x", "EPOCH")
    assert client.execute_command("TILE.SET", "imagery", "3" * 24, "deep")
    assert client.execute_command("TILE.GET", "imagery", "3" * 24) == b"deep"


def test_empty_tiles_and_large_tiles_are_tiles(tiles):
    client = tiles.client()
    large = EVERY * (64 * 1024 * 1024 // 256)
    assert client.execute_command("TILE.SET", "imagery", "0", "")
    assert client.execute_command("TILE.GET", "imagery", "0") == b""
    assert client.execute_command("TILE.EXISTS", "imagery", "0") == 1
    assert client.execute_command("TILE.SET", "imagery", "1", large)
    assert client.execute_command("TILE.GET", "imagery", "1") == large
    assert "limit" in refused(client, "TILE.SET", "imagery", "1", large + b"x")
    client.execute_command("TILE.SYNC")
    client.execute_command("DEBUG", "RELOAD")
    assert client.execute_command("TILE.MGET", "imagery", "0", "1") == [b"", large]
    assert client.execute_command("TILE.COUNT", "imagery", "", "BYTES") == [2, len(large)]


def test_tiles_with_a_time(tiles):
    client, plain = tiles.client(), tiles.client(db=TM)
    for ms in (10, 30, 20):
        client.execute_command("TILE.SET", "tm", "0123", f"at {ms}", "TM", ms)
    plain.set("0123:40", headered(b"at 40", 9))
    client.execute_command("TILE.SET", "tm", "0122:50", "of another")
    get = lambda *words: client.execute_command("TILE.GET", "tm", "0123", *words)
    assert get("TM", 20) == b"at 20" and get("TM", 21) is None
    assert get("AT", 29) == b"at 20" and get("AT", 30) == b"at 30" and get("AT", 9) is None
    assert get() == b"at 40" and get("META") == [b"at 40", 9, 0, 40]
    assert client.execute_command("TILE.GET", "tm", "0123:10") == b"at 10"
    assert plain.get("0123:20") == headered(b"at 20")
    assert client.execute_command("TILE.DEL", "tm", "0123:40", "0123:41") == 1
    assert get() == b"at 30"
    assert "no tilekey" in refused(plain, "SET", "0123", "x")  # no time: no tile, and no key
    assert "time" in refused(client, "TILE.SET", "tm", "0123", "x")
    refused(client, "TILE.SET", "tm", "0123:01", "x")
    refused(client, "TILE.SET", "tm", "0123", "x", "TM", -1)
    refused(client, "TILE.GET", "tm", "0123", "TM", 1, "AT", 2)


def test_sets_of_metadata_are_stored_at_anchors(tiles):
    client = tiles.client()
    meta = lambda *words: client.execute_command("TILE.META", *words)
    assert meta("SET", "q2", "0123012", "packet") == 1
    assert meta("GET", "q2", "0123") == [b"0123", b"PENDING", b"packet"]
    assert meta("GET", "q2", "01230") == [b"0123", b"PENDING", b"packet"]
    assert meta("FOR", "q2", "01230") == [b"0123", b"PENDING", b"packet"]
    assert meta("FOR", "q2", "01230123") == [b"0123", b"PENDING", b"packet"]
    assert meta("GET", "q2", "01230123") is None and meta("FOR", "q2", "0123") is None
    assert meta("SET", "q2", "0", "root") == 1
    for key in ("", "0", "333"):
        assert meta("GET", "q2", key) == [b"", b"PENDING", b"root"]
    assert meta("FOR", "q2", "0123") == [b"", b"PENDING", b"root"]
    plain = tiles.client(db=Q2)
    assert plain.get("0123") == b"packet" and plain.set("3333", b"bare") and meta("GET", "q2", "3333")[2] == b"bare"
    assert meta("DEL", "q2", "33331", "2222") == 1 and plain.get("3333") is None
    assert "TILE.SET" in refused(client, "TILE.META", "SET", "imagery", "0", "x")


def test_a_status_moves_as_it_may(tiles):
    client = tiles.client()
    meta = lambda *words: client.execute_command("TILE.META", *words)
    legal = {("PENDING", "IN_PROGRESS"), ("IN_PROGRESS", "DONE"), ("IN_PROGRESS", "ERROR"), ("ERROR", "PENDING")}
    path = {"PENDING": (), "IN_PROGRESS": ("IN_PROGRESS",), "DONE": ("IN_PROGRESS", "DONE"),
            "ERROR": ("IN_PROGRESS", "ERROR")}
    for number, (start, steps) in enumerate(path.items()):
        for end in path:
            key = f"0{number}00"
            meta("DEL", "q2", key)
            assert meta("SET", "q2", key, "x") == 1
            for step in steps:
                assert meta("STATUS", "q2", key, step) == b"OK"
            if (start, end) in legal or start == end:
                assert meta("STATUS", "q2", key, end) == b"OK"
                assert meta("STATUS", "q2", key) == end.encode()
            else:
                assert start in refused(client, "TILE.META", "STATUS", "q2", key, end)
                assert meta("STATUS", "q2", key) == start.encode()
    assert meta("STATUS", "q2", "3333") is None
    assert "no such" in refused(client, "TILE.META", "STATUS", "q2", "3333", "DONE")
    assert "status" in refused(client, "TILE.META", "STATUS", "q2", "0000", "FINE")


def test_q2_status_is_reset_when_its_data_changes(tiles):
    client = tiles.client()
    meta = lambda *words: client.execute_command("TILE.META", *words)
    meta("SET", "q2", "0123", "one")
    for step in ("IN_PROGRESS", "DONE"):
        meta("STATUS", "q2", "0123", step)
    assert meta("SET", "q2", "0123", "one") == 0  # the same data changes nothing
    assert meta("STATUS", "q2", "0123") == b"DONE"
    assert meta("SET", "q2", "0123", "two") == 1
    assert meta("STATUS", "q2", "0123") == b"PENDING"


def test_a_transaction_of_tiles_is_one(tiles):
    client = tiles.client()
    pipe = client.pipeline()
    pipe.execute_command("TILE.SET", "imagery", "0", "a")
    pipe.execute_command("TILE.GET", "imagery", "0")
    pipe.execute_command("TILE.DEL", "imagery", "0")
    pipe.execute_command("TILE.GET", "imagery", "0")
    assert pipe.execute() == [b"OK", b"a", 1, None]
    plain = tiles.client(db=IMAGERY).pipeline()
    plain.set("1", headered(b"x"))
    plain.append("1", "y")
    plain.get("1")
    replies = plain.execute(raise_on_error=False)
    assert replies[0] and "TILE." in str(replies[1]) and replies[2] == headered(b"x")


def test_database_numbers_are_not_chosen_anew_at_every_start(start):
    server = start("--tile-types", "imagery=1", "terrain=2")
    server.client().execute_command("TILE.SET", "imagery", "0", "x")
    server.kill()
    said = start_refused(server.dir, "--tile-types", "imagery=2", "terrain=1")
    assert "write imagery=1 there" in said
    again = start("--tile-types", "terrain=7", "imagery=1")  # terrain has no tiles
    assert again.client().execute_command("TILE.GET", "imagery", "0") == b"x"
    assert again.client(db=1).get("0") == headered(b"x")


@pytest.mark.parametrize("types", [[], ["terrain=2"]])
def test_a_type_that_has_tiles_is_used_though_tile_types_does_not_name_it(start, types):
    server = start("--tile-types", "imagery=1", "photos=3:bare", "empty=4")
    server.client().execute_command("TILE.SET", "imagery", "0", "x")
    server.client(db=3).set("0", "bare")
    server.stop()
    for _ in range(2):
        server = start(*(["--tile-types", *types] if types else []))
        client = server.client()
        assert client.execute_command("TILE.GET", "imagery", "0") == b"x"
        assert server.client(db=1).get("0") == headered(b"x")
        assert server.client(db=3).get("0") == b"bare"
        assert "imagery=1" in server.stderr() and "photos=3:bare" in server.stderr()
        with pytest.raises(redis.ResponseError, match="no tile type"):
            client.execute_command("TILE.GET", "empty", "0")
        server.stop()
    said = start_refused(server.dir, "--tile-types", "terrain=1")
    assert "imagery=1" in said and "terrain=1" in said and "change tile-types" in said


@pytest.mark.parametrize("types", [["imagery"], ["imagery=x"], ["Imagery=1"], ["1a=1"], ["a=1", "b=1"], ["a=1", "a=2"],
                                   ["a=500"], ["a" * 32 + "=1"], ["a=-1"], ["a="]])
def test_types_that_cannot_be_are_refused(tmp_path, types):
    assert start_refused(tmp_path / "data", "--tile-types", *types)


def test_tiles_survive_kill_and_cold_reads(start):
    server = start("--tile-types", *TYPES, "--hot-memory", "8mb")
    client = server.client()
    data = {f"{i:05b}".replace("1", "3") + "012": EVERY * 12 + str(i).encode() for i in range(32)}
    assert {len(key) for key in data} == {8}  # anchors
    for key, value in data.items():
        client.execute_command("TILE.SET", "imagery", key, value, "EPOCH", 3)
        client.execute_command("TILE.META", "SET", "q2", key, value)
    client.execute_command("DEBUG", "RELOAD")
    server.kill()
    client = start("--tile-types", *TYPES, "--hot-memory", "8mb").client()
    client.execute_command("DEBUG", "RELOAD")
    keys = list(data)
    assert client.execute_command("TILE.MGET", "imagery", *keys) == [data[key] for key in keys]
    for key in keys:
        assert client.execute_command("TILE.META", "GET", "q2", key)[2] == data[key]
    assert client.execute_command("TILE.DEL", "imagery", *keys) == len(keys)
