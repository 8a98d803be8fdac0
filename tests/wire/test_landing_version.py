# SPDX-License-Identifier: Apache-2.0
"""Versions: what was acknowledged here reaches SQL, also if SQL has one that is ahead of us."""
import contextlib
import shutil
import sqlite3
import threading

import pytest
import redis

from land import KEY
from waiting import wait_until

ENTRY = "game&eu&hero&42&"
HOUR = 3600 * 1000 << 20
DAY = 24 * HOUR
FUTURE = "the database holds a version that is more than a day ahead of the clock"


@pytest.fixture
def users(columns, sink):
    return columns(sink)


def settle(landed):
    """What SQL was ahead of is refused once, and lands when it is tried again."""
    flush(landed)
    for rule in landed("LAND.STATUS"):
        landed("LAND.RETRY", rule[rule.index(b"rule") + 1])
    flush(landed)


def flush(landed):
    """Until all has landed or was refused: another one who writes may keep the database locked for a while."""
    def is_over():
        try:
            return landed("LAND.FLUSH") == b"OK"
        except redis.ResponseError as error:
            return str(error).startswith("LANDREFUSED")

    wait_until(is_over)


def test_a_newer_version_is_not_overwritten_before_ours_is_above_it(landed):
    landed("HSET", KEY, "a", "1")
    landed.evict(KEY)
    landed.put("hero:42:a", b"theirs", version=landed.version("hero:42:a") + HOUR)
    landed("HSET", KEY, "a", "ours")
    landed.flush_refused()
    assert landed.live() == {"hero:42:a": b"theirs"}
    assert [item["error"] for item in landed.errors().values()] == [
        b"the database holds a newer version of this row"]
    wait_until(lambda: (landed.try_flush(), landed.live())[1] == {"hero:42:a": b"ours"})  # by itself
    assert landed.errors() == {}


def mark_of(landed, entry):
    return int(landed.dirty()[entry].split(":")[1])


def user(landed, key, *names):
    found = landed.sink.ask(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM users "
                            "WHERE id = ?", key)
    assert len(found) == 1, found
    return tuple(item.encode() if isinstance(item, str) else item for item in found[0])


def test_a_blind_write_lands_over_a_version_that_is_ahead(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.evict(KEY)
    ahead = landed.version("hero:42:a") + HOUR
    landed.put("hero:42:a", b"theirs", version=ahead)
    landed("HSET", KEY, "a", "ours", "b", "ours too", "c", "new")
    assert mark_of(landed, ENTRY + "a") < ahead
    settle(landed)
    assert landed.live() == {"hero:42:a": b"ours", "hero:42:b": b"ours too", "hero:42:c": b"new"}
    assert landed.version("hero:42:a") > ahead
    assert landed.errors() == {} and landed.dirty() == {} and landed.dirty(":saving") == {}
    landed.evict(KEY)
    assert landed("HGET", KEY, "a") == b"ours"
    landed("HSET", KEY, "d", "4")  # everything from now on is above it
    assert mark_of(landed, ENTRY + "d") > ahead


def test_a_removal_lands_over_a_version_that_is_ahead(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    settle(landed)
    ahead = landed.version("hero:42:a") + HOUR
    landed.put("hero:42:a", b"theirs", version=ahead)
    landed("HDEL", KEY, "a")
    settle(landed)
    assert landed.live() == {"hero:42:b": b"2"} and landed.version("hero:42:a") > ahead


def test_a_key_that_is_replaced_lands_over_versions_that_are_ahead(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    settle(landed)
    ahead = landed.version("hero:42:a") + HOUR
    landed("HSET", "slug-data:{game:eu:hero:7}", "a", "other")
    landed.put("hero:42:a", b"theirs", version=ahead)
    landed("RENAME", "slug-data:{game:eu:hero:7}", KEY)
    settle(landed)
    assert landed.live() == {"hero:42:a": b"other"} and landed.version("hero:42:a") > ahead
    assert landed.dirty() == {} and landed.dirty(":saving") == {}


def test_many_owners_and_batches_land_over_versions_that_are_ahead(landing, sink):
    landed = landing(sink, "batch", "50", "tables", "1")
    keys = [f"slug-data:{{game:eu:hero:{i:03}}}" for i in range(300)]
    for key in keys:
        landed("HSET", key, "a", "1", "b", "2")
    settle(landed)
    ahead = landed.version("hero:299:a") + HOUR
    for i in range(0, 300, 60):
        landed.put(f"hero:{i:03}:a", b"theirs", version=ahead + i)
    for key in keys:
        landed("HSET", key, "a", "ours")
    settle(landed)
    live = landed.live()
    assert [value for name, value in live.items() if name.endswith(":a")] == [b"ours"] * 300
    assert landed.errors() == {} and landed.dirty(tables=1) == {}
    assert landed.dirty(":saving", tables=1) == {}


def test_a_large_owner_lands_over_a_version_that_is_ahead(landing, sqlite_sink):
    """It is marked again in several steps, and landed in several batches."""
    landed = landing(sqlite_sink, "batch", "100")
    other = "slug-data:{game:eu:hero:7}"
    many = {f"f{i:05}": f"{i}" for i in range(3000)}
    landed.client.hset(KEY, mapping=many)
    settle(landed)
    ahead = landed.version("hero:42:f00000") + HOUR
    for field in ("f00000", "f01500", "f02999"):
        landed.put(f"hero:42:{field}", b"theirs", version=ahead)
    landed.client.hset(KEY, mapping=many)
    settle(landed)
    assert landed.live() == {f"hero:42:{name}": value.encode() for name, value in many.items()}
    landed.put("hero:42:f01500", b"theirs", version=ahead + HOUR)
    landed.client.hset(other, mapping=many)
    landed("RENAME", other, KEY)
    settle(landed)
    assert landed.live() == {f"hero:42:{name}": value.encode() for name, value in many.items()}
    assert landed.errors() == {} and landed.dirty() == {} and landed.dirty(":saving") == {}


def test_a_version_of_the_far_future_is_an_error_and_the_others_land(landed):
    keys = [f"slug-data:{{game:eu:hero:{i}}}" for i in range(20)]
    for key in keys:
        landed("HSET", key, "a", "1", "b", "2")
    settle(landed)
    version = landed.version("hero:7:a")
    landed.put("hero:7:a", b"theirs", version=version + 2 * DAY)
    landed.put("hero:8:a", b"theirs", version=version + HOUR)
    for key in keys:
        landed("HSET", key, "a", "ours", "b", "ours")
    settle(landed)
    want = {f"hero:{i}:{field}": b"ours" for i in range(20) for field in "ab"}
    assert landed.live() == want | {"hero:7:a": b"theirs"}
    assert {entry: item["error"].decode() for entry, item in landed.errors().items()} == {
        "game&eu&hero&7&a": FUTURE}
    assert landed.dirty() == {} and landed.dirty(":saving") == {}
    assert "has not landed" in landed.error("LAND.EVICT", keys[7]) and landed(
        "HGET", keys[7], "a") == b"ours"
    landed.put("hero:7:a", b"theirs", version=version)  # somebody has set it right
    landed("LAND.RETRY", "players")
    settle(landed)
    assert landed.live() == want and landed.errors() == {}


def test_columns_land_over_a_version_that_is_ahead(users):
    for i in range(1, 21):
        users("HSET", f"user:{i}", "name", "bob", "age", "7")
    settle(users)
    version = user(users, "1", "up_version")[0]
    users.sink.ask("UPDATE users SET name = 'theirs', up_version = ? WHERE id = '1'",
                   version + HOUR)
    users.sink.ask("UPDATE users SET name = 'theirs', up_version = ? WHERE id = '2'",
                   version + 2 * DAY)
    users.sink.ask("UPDATE users SET up_version = ? WHERE id = '3'", version + 2 * HOUR)
    for i in range(1, 21):
        if i != 3:
            users("HSET", f"user:{i}", "name", "eve", "town", "ulm")
    users("DEL", "user:3")
    settle(users)
    for i in range(1, 21):
        if i not in (2, 3):
            assert user(users, f"{i}", "name", "town", "age", "is_del") == (b"eve", b"ulm", b"7", 0)
    assert user(users, "1", "up_version")[0] > version + HOUR
    assert user(users, "2", "name", "up_version") == (b"theirs", version + 2 * DAY)
    assert user(users, "3", "is_del")[0] == 1
    assert user(users, "3", "up_version")[0] > version + 2 * HOUR
    assert {entry: item["error"].decode() for entry, item in users.errors().items()} == {
        "users&2&name": FUTURE, "users&2&town": FUTURE}
    assert users.dirty() == {} and users.dirty(":saving") == {}


def test_a_value_that_does_not_fit_under_a_version_that_is_ahead(columns, sink):
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER, name VARCHAR(20))")
    users = columns(sink)
    users("HSET", "user:1", "age", "7", "name", "bob")
    settle(users)
    ahead = user(users, "1", "up_version")[0] + HOUR
    sink.ask("UPDATE users SET name = 'theirs', up_version = ? WHERE id = '1'", ahead)
    users("HSET", "user:1", "age", "seven", "name", "eve")
    settle(users)
    assert user(users, "1", "age", "name") == (7, b"eve")
    assert user(users, "1", "up_version")[0] > ahead
    assert list(users.errors()) == ["users&1&age"]


@pytest.mark.parametrize("shape", ["object", "columns"])
def test_a_fresh_data_directory_against_tables_that_are_ahead(landing, columns, sink, shape):
    start = landing if shape == "object" else columns
    table = "game_eu" if shape == "object" else "users"
    keys = [KEY.replace("42", f"{i}") if shape == "object" else f"user:{i}" for i in range(50)]
    landed = start(sink)
    for key in keys:
        landed("HSET", key, "a", "old", "b", "kept")
    settle(landed)
    data = landed.server.dir
    landed.server.stop()
    sink.ask(f"UPDATE {table} SET up_version = up_version + ?", HOUR)
    shutil.rmtree(data)
    landed = start(sink)
    for key in keys:
        landed("HSET", key, "a", "new")
    settle(landed)
    landed.evict(*keys)
    for key in keys:
        assert landed.client.hgetall(key) == {b"a": b"new", b"b": b"kept"}
    assert landed.errors() == {} and landed.dirty() == {}


def test_a_kill_while_sql_is_ahead_loses_nothing(landing, sink):
    landed = landing(sink, delay="20")
    landed("HSET", KEY, "a", "1")
    settle(landed)
    for turn in range(3):
        ahead = landed.version("hero:42:a") + HOUR
        landed.put("hero:42:a", b"theirs", version=ahead)
        landed.client.hset(KEY, mapping={name: f"{turn}" for name in
                                         ["a"] + [f"f{i}" for i in range(600)]})
        landed.server.kill()
        landed = landing(sink, delay="20")
        wait_until(lambda: landed.dirty() == {} and landed.dirty(":saving") == {} and
                   landed.errors() == {})
        assert landed.live()["hero:42:a"] == b"%d" % turn
        assert set(landed.live().values()) == {b"%d" % turn}


def test_a_writer_that_is_always_ahead_holds_up_nobody_else(landing, sqlite_sink):
    landed = landing(sqlite_sink, "tables", "1")
    keys = [f"slug-data:{{game:eu:hero:{i}}}" for i in range(10)]
    for key in keys:
        landed("HSET", key, "a", "1")
    settle(landed)
    over = threading.Event()

    def race():
        with contextlib.closing(sqlite3.connect(sqlite_sink.path, timeout=100,
                                                isolation_level=None)) as link:
            link.execute("PRAGMA synchronous=OFF")
            while not over.is_set():
                link.execute("UPDATE game_eu SET value = 'theirs', up_version = up_version + ? "
                             "WHERE primary_key = 'hero:5:a'", (100 << 20,))

    writer = threading.Thread(target=race)
    writer.start()
    try:
        for i in range(10):
            for key in keys:
                landed("HSET", key, "a", f"{i}")
            settle(landed)
            live = landed.live()
            assert {name: live[name] for name in live if name != "hero:5:a"} == {
                f"hero:{n}:a": b"%d" % i for n in range(10) if n != 5}
            for item in landed.errors().values():
                assert b"a newer version" in item["error"]
    finally:
        over.set()
        writer.join()
    landed("HSET", keys[5], "a", "last")
    settle(landed)
    assert landed.live()["hero:5:a"] == b"last" and landed.errors() == {}
