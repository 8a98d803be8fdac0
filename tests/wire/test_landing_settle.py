# SPDX-License-Identifier: Apache-2.0
"""Entries that stand where nobody looks for them, and keys that stand where landing's own should."""
import contextlib
import json
import pathlib
import random
import re
import sqlite3
import subprocess
import threading

import pytest

from conftest import TERRACED, start_refused
from land import KEY, NEVER, Landed, away, table_of
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

PARTS = ("", ":saving", ":error")
TABLES = 64


def own(n, part=""):
    return f"slug-persist:{{dirtyKey:{n}}}{part}"


def hero(n):
    return f"slug-data:{{game:eu:hero:{n}}}"


def players(sink, tables, *words):
    return ["--land", "players", "slug-data:{*}", sink.url, "delay", NEVER, "tables", str(tables),
            *words]


def users(sink, tables, *words):
    return ["--land", "users", "user:*", sink.url, "shape", "columns", "table", "users", "key",
            "id", "delay", NEVER, "tables", str(tables), *words]


def entries(client, tables=TABLES):
    """(table, part) -> {entry: value}, of those that hold something."""
    places = [(n, part) for n in range(tables) for part in PARTS]
    with client.pipeline() as pipe:  # at once: landers rename
        for n, part in places:
            pipe.hgetall(own(n, part))
        found = dict(zip(places, pipe.execute()))
    return {at: {entry.decode(): value.decode() for entry, value in held.items()}
            for at, held in found.items() if held}


def key_of(entry):
    parts = entry.split("&")
    return f"user:{parts[1]}" if len(parts) == 3 else f"slug-data:{{{':'.join(parts[:4])}}}"


def all_stand_right(client, tables):
    held = entries(client)
    for (n, _part), found in held.items():
        for entry in found:
            assert table_of(key_of(entry), tables) == n, (n, entry)
    return held


def landed_on(server, sink):
    landed = Landed(server, sink)
    landed.flush()  # the first pass comes without being asked for
    return landed


def disk(landed):
    assert landed.client.execute_command("DEBUG", "RELOAD")


def info(landed, name):
    return landed.client.info("landing")[name]


# ---- another number of tables ----

@pytest.mark.parametrize("before, after", [(8, 2), (2, 8), (64, 1), (1, 64)])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_marks_follow_the_number_of_tables(start, sqlite_sink, before, after, how):
    landed = landed_on(start(*players(sqlite_sink, before)), sqlite_sink)
    for n in range(40):
        landed.client.hset(hero(n), mapping={"a": n, "b": "x"})
    landed.flush()
    for n in range(40):
        landed.client.hset(hero(n), "a", f"new {n}")
        landed.client.hdel(hero(n), "b")
    landed.client.delete(hero(39))
    disk(landed)
    getattr(landed.server, how)()
    with away(sqlite_sink):  # the first pass lands nothing
        landed = Landed(start(*players(sqlite_sink, after)), sqlite_sink)
        held = all_stand_right(landed.client, after)
        assert sum(map(len, held.values())) == 40 * 2 + 1
        assert "do not land" not in landed.server.stderr()
        # found by the checks of evictions and lifts
        assert "not landed" in landed.error("LAND.EVICT", hero(1))
        assert landed("HGET", hero(1), "b") is None
    landed.flush()
    assert landed.live() == {f"hero:{n}:a": f"new {n}".encode() for n in range(39)}
    assert entries(landed.client) == {}
    assert landed("LAND.EVICT", hero(1)) == 1
    assert landed("HGETALL", hero(1)) == [b"a", b"new 1"]


def test_what_was_being_saved_is_marked_anew(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 8)), sqlite_sink)
    for n in range(20):
        landed.client.hset(hero(n), "a", n)
    with locked(sqlite_sink):
        assert "LANDDOWN" in landed.error("LAND.FLUSH")
        old = {entry: value for (_n, part), found in entries(landed.client).items()
               for entry, value in found.items() if part == ":saving"}
        assert old
        landed.client.hset(hero(0), "a", "newer")  # in both
        disk(landed)
        landed.server.kill()
    with away(sqlite_sink):
        landed = Landed(start(*players(sqlite_sink, 3)), sqlite_sink)
        for found in all_stand_right(landed.client, 3).values():
            for entry, value in found.items():
                wrong = table_of(key_of(entry), 8) != table_of(key_of(entry), 3)
                assert not wrong or int(value.split(":")[1]) > int(
                    old.get(entry, "UPDATE:0").split(":")[1])
    landed.flush()
    assert landed.live() == {f"hero:{n}:a": str(n).encode() if n else b"newer" for n in range(20)}
    assert entries(landed.client) == {}


def test_what_was_refused_keeps_its_attempts(start, sqlite_sink):
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(512) PRIMARY KEY, age INT)")
    landed = landed_on(start(*users(sqlite_sink, 8)), sqlite_sink)
    for n in range(12):
        landed.client.hset(f"user:{n}", mapping={"age": "old", "name": f"u{n}"})
    landed.flush_refused()
    for _ in range(6):  # after so many attempts nothing is tried again by itself for a minute
        wait_until(lambda: landed("LAND.RETRY", "users") == 12)
        landed.flush_refused()
    before = {entry: value for found in entries(landed.client).values()
              for entry, value in found.items()}
    assert len(before) == 12 and all(json.loads(v)["attempts"] > 1 for v in before.values())
    disk(landed)
    landed.server.kill()
    with away(sqlite_sink):
        landed = Landed(start(*users(sqlite_sink, 1)), sqlite_sink)
        held = all_stand_right(landed.client, 1)
        assert {entry: json.loads(v)["attempts"] for found in held.values()
                for entry, v in found.items()
                if v.startswith("{")}.items() <= {
                    entry: json.loads(v)["attempts"] for entry, v in before.items()}.items()
        assert set(before) == {entry for found in held.values() for entry in found}
    landed.client.hset("user:0", "age", "7")
    landed.flush_refused()
    assert landed("LAND.DROP", "users") == 11
    assert entries(landed.client) == {}
    rows = dict(sqlite_sink.ask("SELECT id, age FROM users"))
    assert rows[b"0"] == 7 and rows[b"1"] is None


def test_nothing_wrong_nothing_written(start, sqlite_sink):
    with away(sqlite_sink):
        landed = Landed(start(*players(sqlite_sink, 4)), sqlite_sink)
        for n in range(300):
            landed.client.hset(hero(n), mapping={"a": n, "b": n})
        landed.error("LAND.FLUSH")
        disk(landed)
        held = entries(landed.client)
        landed.server.kill()
        landed = Landed(start(*players(sqlite_sink, 4)), sqlite_sink)
        assert entries(landed.client) == held
        assert "moved" not in landed.server.stderr()
        assert info(landed, "landing_orphans") == 0


def written_bytes(process):
    """By all write calls so far."""
    return int(re.search(r"^wchar: (\d+)", pathlib.Path(f"/proc/{process.pid}/io").read_text(), re.MULTILINE)[1])


@pytest.mark.parametrize("seed", range(3))
def test_killed_while_entries_move(start, sqlite_sink, seed, tmp_path):
    """Kills at any time; what is found is never half, and in the end everything lands."""
    chance = random.Random(seed)
    server = start(*players(sqlite_sink, 64), "--durability", "always")
    landed = landed_on(server, sqlite_sink)
    with away(sqlite_sink):
        with landed.client.pipeline(transaction=False) as pipe:
            for n in range(6000):
                pipe.hset(hero(n), mapping={"a": n, "b": n})
            pipe.execute()
        server.kill()
        for tables in (1, 7, 2, 64, 3):
            with open(tmp_path / "said", "w+") as said:
                process = subprocess.Popen([TERRACED, "--port", "0", "--dir", str(server.dir),
                                            *players(sqlite_sink, tables)],
                                           stdout=said, stderr=subprocess.DEVNULL)
            enough = chance.randrange(128 * 1024)  # bytes: about what moving all entries writes
            wait_until(lambda: written_bytes(process) >= enough or "listens" in (tmp_path / "said").read_text())
            process.kill()
            process.wait()
        server = start(*players(sqlite_sink, 5))
        landed = Landed(server, sqlite_sink)
        held = all_stand_right(landed.client, 5)
        assert sum(map(len, held.values())) == 12000
    landed.flush()
    assert landed.live() == {f"hero:{n}:{f}": str(n).encode() for n in range(6000) for f in "ab"}


# ---- a rule that comes back ----

@contextlib.contextmanager
def locked(sink):
    """While it lasts the database answers, and nobody else writes to it."""
    with contextlib.closing(sqlite3.connect(sink.path, isolation_level=None)) as link:
        link.execute("BEGIN IMMEDIATE")
        yield


def add(landed, words):
    return landed("LAND.RULE", "ADD", *words[1:])


def test_a_rule_that_comes_back_by_a_command(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 8)), sqlite_sink)
    with landed.client.pipeline(transaction=False) as pipe:
        for n in range(2000):  # some steps
            pipe.hset(hero(n), "a", n)
        pipe.execute()
    landed.client.hset(KEY, "gone", "1")
    landed.flush()
    with landed.client.pipeline(transaction=False) as pipe:
        for n in range(2000):
            pipe.hset(hero(n), "a", f"new {n}")
        pipe.execute()
    landed.client.hdel(KEY, "gone")
    disk(landed)
    landed.server.kill()
    landed = Landed(start(), sqlite_sink)
    left = info(landed, "landing_orphans")
    assert left == 2001
    assert f"database 0 has {left} entries" in landed.server.stderr()
    with locked(sqlite_sink):
        assert add(landed, players(sqlite_sink, 3)) == b"OK"
        assert sum(map(len, all_stand_right(landed.client, 3).values())) == left
        assert landed("HGET", KEY, "gone") is None
        assert info(landed, "landing_orphans") == 0
    landed.flush()
    assert landed.live()["hero:7:a"] == b"new 7" and "hero:42:gone" not in landed.live()
    assert entries(landed.client) == {}


def test_a_rule_that_is_refused_moves_nothing(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 8)), sqlite_sink)
    for n in range(20):
        landed.client.hset(hero(n), "a", n)
    held = entries(landed.client)
    assert "already" in landed.error("LAND.RULE", "ADD", *players(sqlite_sink, 2)[1:])
    words = players(sqlite_sink, 2)
    words[1] = "others"
    assert "could be taken" in landed.error("LAND.RULE", "ADD", *words[1:])
    assert entries(landed.client) == held


def test_another_rule_lands_while_one_comes_back(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 8), *users(sqlite_sink, 8)), sqlite_sink)
    with landed.client.pipeline(transaction=False) as pipe:
        for n in range(3000):
            pipe.hset(hero(n), "a", n)
        pipe.execute()
    disk(landed)
    landed.server.kill()
    landed = landed_on(start(*users(sqlite_sink, 8)), sqlite_sink)
    assert info(landed, "landing_orphans") == 3000
    begun, over = threading.Event(), threading.Event()

    def others():
        client = landed.server.client()
        for n in range(10 ** 6):
            if over.is_set():
                return
            client.hset(f"user:{n % 50}", "name", n)
            client.execute_command("LAND.FLUSH", "users")
            begun.set()

    thread = threading.Thread(target=others)
    thread.start()
    assert begun.wait(100)
    try:
        assert add(landed, players(sqlite_sink, 3)) == b"OK"
    finally:
        over.set()
        thread.join()
    landed.flush()
    assert len(landed.live()) == 3000
    assert entries(landed.client) == {}


# ---- entries of no rule ----

def orphaned(server, db, count):
    says = f"database {db} has {count} entries that belong to no rule"
    return server.stderr().count(says) == 1


def test_a_rule_that_left_the_file_is_told(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 8), *users(sqlite_sink, 2)), sqlite_sink)
    landed.client.hset(hero(1), mapping={"a": 1, "b": 2})
    landed.client.hset("user:1", "name", "bob")
    assert info(landed, "landing_orphans") == 0
    disk(landed)
    landed.server.kill()
    landed = landed_on(start(*users(sqlite_sink, 2)), sqlite_sink)
    assert orphaned(landed.server, 0, 2)
    assert info(landed, "landing_orphans") == 2
    landed.server.stop()
    landed = landed_on(start(*users(sqlite_sink, 2), *players(sqlite_sink, 3)), sqlite_sink)
    assert info(landed, "landing_orphans") == 0
    assert landed.live() == {"hero:1:a": b"1", "hero:1:b": b"2"}
    landed.server.stop()
    landed = Landed(start(), sqlite_sink)  # it has landed: it can go
    assert "no rule" not in landed.server.stderr()
    assert info(landed, "landing_orphans") == 0


def test_a_renamed_rule_and_another_database_are_told(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 4), *users(sqlite_sink, 4)), sqlite_sink)
    landed.client.hset(hero(1), "a", 1)
    landed.client.hset("user:1", mapping={"name": "bob", "age": "7"})
    disk(landed)
    landed.server.kill()
    renamed = users(sqlite_sink, 4)
    renamed[1] = "people"
    landed = landed_on(start(*players(sqlite_sink, 4, "db", "2"), *renamed), sqlite_sink)
    assert orphaned(landed.server, 0, 3)
    assert info(landed, "landing_orphans") == 3
    assert landed.live() == {}
    landed.client.hset("user:2", "name", "eve")
    landed.flush()
    assert info(landed, "landing_orphans") == 3
    landed.server.stop()
    # given up: the rule comes back, and takes them with it
    landed = landed_on(start(*players(sqlite_sink, 4, "db", "2")), sqlite_sink)
    assert orphaned(landed.server, 0, 3)
    with locked(sqlite_sink):
        assert add(landed, users(sqlite_sink, 9)) == b"OK"
        assert info(landed, "landing_orphans") == 1
        assert landed("LAND.RULE", "DEL", "users", "FORCE") == b"OK"
    assert [entry for found in entries(landed.client).values() for entry in found] == \
        ["game&eu&hero&1&a"]


# ---- keys that stand in the way ----

OWN = [own(0), own(63, ":saving"), own(5, ":error"), own(7, ":lock"), "slug-persist:{tables}"]


@pytest.mark.parametrize("name", [*OWN, "slug-persist:{rules}"])
def test_a_key_that_is_no_hash_is_named(start, sqlite_sink, name):
    landed = Landed(start(), sqlite_sink)
    landed.client.set(name, "x")
    said = landed.error("LAND.RULE", "ADD", *players(sqlite_sink, 2)[1:])
    assert name in said and "no hash" in said
    assert landed("LAND.RULE", "LIST") == []
    disk(landed)
    landed.server.stop()
    said = start_refused(landed.server.dir, *players(sqlite_sink, 2))
    assert name in said and "no hash" in said
    landed = Landed(start(), sqlite_sink)
    assert landed.client.delete(name) == 1
    assert add(landed, players(sqlite_sink, 2)) == b"OK"
    landed.client.hset(KEY, "a", "1")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


def test_a_key_of_another_database_is_in_nobody_s_way(start, sqlite_sink):
    landed = Landed(start(), sqlite_sink)
    landed.client.set(own(0), "x")
    assert own(0) in landed.error("LAND.RULE", "ADD", *players(sqlite_sink, 2)[1:])
    assert add(landed, players(sqlite_sink, 2, "db", "3")) == b"OK"
    landed.server.stop()


def test_a_table_with_a_deadline_is_named(start, sqlite_sink):
    """Marks would go with it."""
    landed = Landed(start(), sqlite_sink)
    landed.client.hset(own(1), "a", "b")
    landed.client.expire(own(1), 1000)
    said = landed.error("LAND.RULE", "ADD", *players(sqlite_sink, 2)[1:])
    assert own(1) in said and "time to live" in said
    landed.client.persist(own(1))
    assert add(landed, players(sqlite_sink, 2)) == b"OK"
    assert info(landed, "landing_orphans") == 1


# ---- LAND.VERIFY of a key that is larger than a window ----

def verify(landed, *more):
    said = landed("LAND.VERIFY", "players", *more)
    return {name.decode(): value for name, value in zip(said[::2], said[1::2])}


def test_verify_of_a_large_key_ends(start, sqlite_sink):
    landed = landed_on(start(*players(sqlite_sink, 1)), sqlite_sink)
    count = 70000
    landed.client.hset(hero(0), "a", "1")
    for at in range(0, count, 10000):
        landed.client.hset(KEY, mapping={f"f{n:05}": n for n in range(at, at + 10000)})
    landed.client.hset(hero(99), "a", "1")
    landed.flush()
    said = verify(landed)
    assert (said["checked_keys"], said["checked_fields"]) == (3, count + 2)
    assert said["different"] == said["missing_in_sql"] == said["extra_in_sql"] == 0
    sqlite_sink.ask("UPDATE game_eu SET value = 'x' WHERE primary_key IN "
                    "('hero:42:f00000', 'hero:42:f69999')")
    said = verify(landed, "REPAIR")
    assert (said["different"], said["repaired"]) == (2, 2)
    landed.flush()
    assert verify(landed)["different"] == 0
    assert landed.live()["hero:42:f69999"] == b"69999"
