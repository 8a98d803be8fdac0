# SPDX-License-Identifier: Apache-2.0
"""Subtrees of keys: pages, counts, what is missing, drops. Tiles are in the store, in shards, or in both."""
import itertools
import random

import pytest
import redis

from tilekit import IMAGERY, pack

KINDS = [(), ("sqlite",), ("kv",), ("sqlite", "kv")]


def order(keys):
    return sorted(keys, key=lambda key: (pack(key[0]), key[1]) if isinstance(key, tuple) else pack(key))


@pytest.fixture(params=KINDS, ids=["store", "sqlite", "kv", "both"])
def mixed(begin, request):
    """A server, and what it holds: a third is persisted, a third persisted and changed or deleted since, a third new."""
    client = begin(*request.param).client()
    rand = random.Random(11)
    draw = lambda count: "".join(rand.choices("0123", weights=(5, 2, 1, 1), k=count))
    keys = list({draw(rand.randint(1, 8)) for _ in range(300)} | {""} |  # few files: each is made with several syncs
                {rand.choice(["0000", "0123"]) + draw(rand.choice([5, 8, 9, 13, 16, 20])) for _ in range(400)})
    rand.shuffle(keys)
    tiles = {}

    def put(some):
        for key in some:
            tiles[key] = bytes(rand.randrange(0, 50))
            client.execute_command("TILE.SET", "imagery", key, tiles[key])

    put(keys[:300])
    client.execute_command("TILE.SYNC")
    put(keys[250:450])
    put(keys[150:180])
    for key in keys[180:250]:
        client.execute_command("TILE.DEL", "imagery", key)
        del tiles[key]
    return client, tiles


def pages(client, *words, count=70, last=()):
    """All pages of TILE.RANGE, one after the other."""
    found = []
    while True:
        page = client.execute_command("TILE.RANGE", *words, "COUNT", count, *last)
        found += page
        if len(page) < count:
            return [key.decode() for key in found]
        last = ("AFTER", page[-1])


def test_a_range_is_the_subtree_in_order(mixed):
    client, tiles = mixed
    for root in ["", "0", "00", "1", "3", "0000", "01", "00001", "0000000000", "33333333333333333333"]:
        expected = order(key for key in tiles if key.startswith(root))
        assert pages(client, "imagery", root) == expected, root
        assert client.execute_command("TILE.COUNT", "imagery", root) == len(expected), root
        sizes = sum(len(tiles[key]) for key in expected)
        assert client.execute_command("TILE.COUNT", "imagery", root, "BYTES") == [len(expected), sizes], root
        for levels in ((0, 8), (4, 4), (9, 17), (13, 24), (24, 24)):
            some = [key for key in expected if levels[0] <= len(key) <= levels[1]]
            assert pages(client, "imagery", root, "LEVEL", *levels) == some, (root, levels)
            assert client.execute_command("TILE.COUNT", "imagery", root, "LEVEL", *levels) == len(some), (root, levels)
    rows = client.execute_command("TILE.RANGE", "imagery", "00", "META", "COUNT", 10000)
    assert [(key.decode(), size) for key, size in rows] == \
        [(key, len(tiles[key])) for key in order(key for key in tiles if key.startswith("00"))]


def test_missing_is_what_is_not_there(mixed):
    client, tiles = mixed
    for root, level in (("", 1), ("", 3), ("", 4), ("0", 5), ("00", 5), ("0000", 8), ("3", 5), ("0123", 4), ("", 0)):
        expected = order(key for key in ("".join(rest) for rest in itertools.product("0123", repeat=level))
                         if key.startswith(root) and key not in tiles)
        found, last = [], ()
        while True:
            page = client.execute_command("TILE.MISSING", "imagery", root, level, "COUNT", 50, *last)
            found += page
            if len(page) < 50:
                break
            last = ("AFTER", page[-1])
        assert [key.decode() for key in found] == expected, (root, level)
    assert len(client.execute_command("TILE.MISSING", "imagery", "33", 24, "COUNT", 5)) == 5


def test_drop_takes_the_subtree_and_nothing_else(mixed):
    client, tiles = mixed
    for root, levels in (("0000", ()), ("01", ("LEVEL", 9, 24)), ("", ("LEVEL", 0, 3)), ("00", ()), ("", ())):
        low, high = (levels[1], levels[2]) if levels else (0, 24)
        gone = [key for key in tiles if key.startswith(root) and low <= len(key) <= high]
        assert client.execute_command("TILE.DROP", "imagery", root, *levels) == len(gone)
        for key in gone:
            del tiles[key]
        assert pages(client, "imagery", "") == order(tiles)
        client.execute_command("TILE.SYNC")
        assert pages(client, "imagery", "") == order(tiles)
    assert client.execute_command("TILE.COUNT", "imagery", "") == 0


def test_scan_meets_keys_and_tiles(mixed):
    client, tiles = mixed
    plain = redis.Redis(port=client.connection_pool.connection_kwargs["port"], db=IMAGERY)
    plain.mset({f"ordinary{i}": "x" for i in range(30)})
    names = sorted(tiles.keys() - {""} | {f"ordinary{i}" for i in range(30)})
    assert sorted(name.decode() for name in plain.scan_iter(count=13)) == names
    assert sorted(name.decode() for name in plain.scan_iter(match="0*", count=1000)) == [n for n in names if n[0] == "0"]
    assert len(list(plain.scan_iter(_type="string"))) == len(names)
    assert list(plain.scan_iter(_type="list")) == []


@pytest.mark.parametrize("kinds", KINDS, ids=["store", "sqlite", "kv", "both"])
def test_ranges_of_tiles_with_a_time(begin, kinds):
    client = begin(*kinds).client()
    rand = random.Random(5)
    tiles = {("".join(rand.choices("01", k=rand.randint(1, 9))), rand.randrange(40)) for _ in range(300)}
    for number, (key, ms) in enumerate(sorted(tiles)):
        client.execute_command("TILE.SET", "tm", key, "x", "TM", ms)
        if number == 150:
            client.execute_command("TILE.SYNC")
    gone = rand.sample(sorted(tiles), 60)
    for key, ms in gone:
        client.execute_command("TILE.DEL", "tm", f"{key}:{ms}")
    tiles -= set(gone)
    for root in ("", "0", "01", "1111"):
        for times in ((0, 2 ** 63 - 1), (10, 20), (39, 39)):
            expected = [f"{key}:{ms}" for key, ms in order(tiles) if key.startswith(root) and times[0] <= ms <= times[1]]
            assert pages(client, "tm", root, "TM", *times, count=7) == expected
            assert client.execute_command("TILE.COUNT", "tm", root, "TM", *times) == len(expected)
    expected = len([1 for key, ms in tiles if ms < 20])
    assert client.execute_command("TILE.DROP", "tm", "", "TM", 0, 19) == expected
    assert client.execute_command("TILE.COUNT", "tm", "") == len(tiles) - expected


@pytest.mark.parametrize("kinds", [(), ("sqlite",)], ids=["store", "sqlite"])
def test_metadata_is_listed_and_counted_by_status(begin, kinds):
    client = begin(*kinds).client()
    meta = lambda *words: client.execute_command("TILE.META", *words)
    rand = random.Random(9)
    sets = {}
    steps = {"PENDING": [], "IN_PROGRESS": ["IN_PROGRESS"], "DONE": ["IN_PROGRESS", "DONE"], "ERROR": ["IN_PROGRESS", "ERROR"]}
    keys = list({rand.choice(["", "0000", "0123", "0123"]) + "".join(rand.choices("0123", k=rand.choice([0, 4, 8, 12]))) for _ in range(150)})
    for number, key in enumerate(keys):
        sets[key] = rand.choice(list(steps))
        meta("SET", "q2", key, f"data {number}")
        for step in steps[sets[key]]:
            meta("STATUS", "q2", key, step)
        if number == 90:
            client.execute_command("TILE.SYNC")
    for key in keys[80:95]:
        meta("SET", "q2", key, "other")
        sets[key] = "PENDING"
    for key in keys[20:30]:
        assert meta("DEL", "q2", key) == 1
        del sets[key]
    for root in ("", "0", "01", "3"):
        for status in (None, "PENDING", "DONE", "ERROR"):
            for level in (None, 4, 12):
                some = [key for key in order(sets) if key.startswith(root) and status in (None, sets[key])
                        and level in (None, len(key))]
                words = (["STATUS", status] if status else []) + (["LEVEL", level] if level else []) + ["PREFIX", root]
                assert [(key.decode(), name.decode()) for key, name in meta("LIST", "q2", *words)] == \
                    [(key, sets[key]) for key in some], words
        some = [sets[key] for key in sets if key.startswith(root)]
        stats = meta("STATS", "q2", "PREFIX", root)
        assert dict(zip([name.decode() for name in stats[::2]], stats[1::2])) == \
            {status: some.count(status) for status in steps}
    assert len(meta("LIST", "q2", "COUNT", 3)) == 3
    assert meta("LIST", "q2", "COUNT", 2, "AFTER", meta("LIST", "q2", "COUNT", 3)[0][0]) == meta("LIST", "q2", "COUNT", 3)[1:]


def test_wrong_ranges_are_refused(begin):
    client = begin("sqlite").client()
    for words in (("RANGE", "imagery", "4"), ("RANGE", "nothing", ""), ("RANGE", "imagery", "", "LEVEL", 5, 4),
                  ("RANGE", "imagery", "", "LEVEL", 0, 25), ("RANGE", "imagery", "", "LEVEL", 1), ("RANGE", "imagery", "", "TM", 1, 2),
                  ("RANGE", "tm", "", "TM", 2, 1), ("RANGE", "imagery", "", "COUNT", 0), ("RANGE", "imagery", "", "COUNT"),
                  ("COUNT", "imagery", "", "COUNT", 1), ("MISSING", "imagery", "012", 2), ("MISSING", "tm", "", 2),
                  ("MISSING", "imagery", "", 25), ("MISSING", "imagery", "", 3, "AFTER", "0"), ("DROP", "imagery", "x"),
                  ("META", "LIST", "imagery"), ("META", "STATS", "imagery"), ("META", "LIST", "q2", "STATUS", "FINE")):
        with pytest.raises(redis.ResponseError):
            client.execute_command("TILE." + words[0], *words[1:])
    pipe = client.pipeline()
    pipe.execute_command("TILE.RANGE", "imagery", "")
    with pytest.raises(redis.ResponseError):
        pipe.execute()


def test_a_range_does_not_open_files_outside_it(begin, dirs):
    """A shard that is no shard would be an error: nobody looks at it."""
    server = begin("sqlite")
    client = server.client()
    for key in ("000011112222", "111100002222", "0", "00001111222233333"):
        client.execute_command("TILE.SET", "imagery", key, "x")
    client.execute_command("TILE.SYNC")
    server.stop()
    for name in ("8/1111.g3db", "17/0000.g3db"):
        (dirs["sqlite"] / "imagery" / name).write_bytes(b"not a shard at all" * 100)
    client = begin("sqlite").client()
    assert client.execute_command("TILE.RANGE", "imagery", "0000", "LEVEL", 0, 16) == [b"000011112222"]
    assert client.execute_command("TILE.COUNT", "imagery", "0", "LEVEL", 0, 16) == 2
    with pytest.raises(redis.ResponseError):
        client.execute_command("TILE.COUNT", "imagery", "0")
    with pytest.raises(redis.ResponseError):
        client.execute_command("TILE.RANGE", "imagery", "1")
    assert client.execute_command("TILE.GET", "imagery", "000011112222") == b"x"


def test_providers_come_from_a_dbroot(begin):
    client = begin().client()
    provider = lambda *words: client.execute_command("TILE.PROVIDER", *words)
    assert provider("LOAD", '{"124": "(c) Somebody", "7": {"copyright": "(c) Else", "offset": 3}}') == 2
    assert provider("GET", 124) == b"(c) Somebody" and provider("GET", 7) == b"(c) Else" and provider("GET", 8) is None
    assert provider("LOAD", '{"providers": [{"provider_id": 8, "copyright": "eight"}]}') == 1
    assert provider("LIST") == [8, b"eight"] and provider("GET", 124) is None
    assert provider("SET", 3, "three") == b"OK" and provider("LIST") == [3, b"three", 8, b"eight"]
    for bad in ("", "{", "5", '{"x": "y"}', '{"1": 2}', '[{"copyright": "x"}]', '[{"provider_id": -1, "copyright": "x"}]', '{"0": "x"}'):
        with pytest.raises(redis.ResponseError):
            provider("LOAD", bad)
    assert provider("LIST") == [3, b"three", 8, b"eight"]  # all or nothing
