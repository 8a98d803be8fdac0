# SPDX-License-Identifier: Apache-2.0
"""Landing against a model (landing_model.py), and what the model has found, each as small as it gets.

TERRACE_LONG=1 plays for minutes instead of seconds.
"""
import contextlib
import os
import sqlite3

import pytest
import redis

import landing_model
from land import Sqlite, away
from waiting import wait_until

LONG = bool(os.environ.get("TERRACE_LONG"))
OPERATIONS, SECONDS = (1 << 60, 120) if LONG else (3000, 5)  # of each of two phases
KEY = "slug-data:{game:eu:hero:1}"
OTHER = "slug-data:{game:eu:hero:2}"


@pytest.mark.parametrize("shape", ["object", "columns"])
@pytest.mark.parametrize("sink", ["sqlite", "mariadb"])
def test_sql_equals_the_model_after_kills(sink, shape):
    seed = int.from_bytes(os.urandom(4), "big") if LONG else 17
    print(landing_model.run(sink, shape, seed, OPERATIONS, SECONDS))


# ---- found by it ----

@pytest.fixture
def land(start, tmp_path):
    """land(words="") gives a client; nothing lands or is swept by itself."""
    def begin(words="", **options):
        file = tmp_path / "terraced.conf"
        file.write_text(f"land heroes slug-data:{{*}} sqlite:{tmp_path}/landed.db delay 3600000 {words}\n"
                        f"land users user:* sqlite:{tmp_path}/landed.db shape columns table users key id "
                        "delay 3600000\n")
        begin.server = start(file=file)
        client = begin.server.client(decode_responses=True, **options)
        client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        return client
    return begin


def rows(tmp_path, sql):
    with contextlib.closing(sqlite3.connect(tmp_path / "landed.db", timeout=100)) as base:
        return base.execute(sql).fetchall()


def let_it_be_over(client, key):
    """The deadline of the key passes; nobody looks at it."""
    def now_us():
        seconds, micros = client.time()
        return seconds * 1000000 + micros
    client.pexpire(key, 1)
    begin = now_us()
    while now_us() < begin + 5000:
        pass


def lifts(client):
    status = client.execute_command("LAND.STATUS", "heroes")
    return dict(zip(status[::2], status[1::2]))["lifts"]


@pytest.mark.parametrize("command", ["RENAME", "COPY"])
def test_a_key_that_is_over_and_has_not_landed_can_be_moved(land, command):
    client = land()
    client.hset(KEY, "f", "v")
    let_it_be_over(client, KEY)
    client.execute_command(command, KEY, OTHER)
    assert client.hgetall(OTHER) == {"f": "v"}


def test_a_renamed_key_lands_whole_next_to_a_large_marked_field(land, tmp_path):
    client = land()
    client.hset(OTHER, mapping={f"a{i}": i for i in range(10)})
    client.rename(OTHER, KEY)
    client.hset(KEY, "z", "x" * (9 << 20))  # more than a batch holds
    client.execute_command("LAND.FLUSH")
    found = rows(tmp_path, "SELECT key FROM game_eu WHERE owner_id = '1' AND is_del = 0 ORDER BY key")
    assert [field for field, in found] == [*(f"a{i}" for i in range(10)), "z"]


def test_a_complete_copy_that_is_over_is_asked_for_again(land):
    client = land()
    client.hset(KEY, "f", "v")
    client.execute_command("LAND.FLUSH")
    assert client.hgetall(KEY) == {"f": "v"}  # it is complete from here on
    let_it_be_over(client, KEY)
    assert client.hget(KEY, "f") == "v"


@pytest.mark.parametrize("look", [("HGETALL", KEY), ("HGET", KEY, "f")])
def test_absence_is_not_believed_after_a_landing(land, look):
    client = land()
    assert not client.execute_command(*look)
    client.hset(KEY, "f", "v")
    client.execute_command("LAND.FLUSH")
    let_it_be_over(client, KEY)
    assert client.hget(KEY, "f") == "v"


def test_a_key_without_its_last_field_is_asked_for_once(land):
    client = land()
    client.hset(KEY, "f", "v")
    client.execute_command("LAND.FLUSH")
    assert client.hdel(KEY, "f") == 1
    before = lifts(client)
    assert client.hgetall(KEY) == {} and client.exists(KEY) == 0
    assert lifts(client) - before <= 1


def test_a_multi_may_empty_a_key_and_look_at_it(land):
    client = land()
    client.hset(KEY, "f", "v")
    client.execute_command("LAND.FLUSH")
    pipe = client.pipeline(transaction=True)
    pipe.hdel(KEY, "f").hgetall(KEY).hsetnx(KEY, "g", "w").hgetall(KEY)
    assert pipe.execute() == [1, {}, True, {"g": "w"}]


def test_no_multi_drops_a_copy_that_it_would_have_to_lift(land):
    client = land()
    client.hset(KEY, "f", "v")
    client.execute_command("LAND.FLUSH")
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("LAND.EVICT", KEY).hgetall(KEY)
    with pytest.raises(redis.ResponseError, match="inside a transaction"):
        pipe.execute()
    assert client.hgetall(KEY) == {"f": "v"}


def test_a_lift_sees_columns_that_were_added_after_the_last_one(land):
    client = land()
    for key, field in (("user:1", "a"), ("user:2", "b")):
        client.hset(key, field, "v")
        client.execute_command("LAND.FLUSH")
        assert client.execute_command("LAND.EVICT", key) == 1
        assert client.hgetall(key) == {field: "v"}


def test_flush_lands_what_was_marked_behind_an_old_snapshot(land, tmp_path):
    client = land("tables 1")
    client.execute_command("LAND.FLUSH")
    with away(Sqlite(tmp_path / "landed.db")):
        client.hset(KEY, "f", "v")
        with pytest.raises(redis.ResponseError, match="LANDDOWN"):
            client.execute_command("LAND.FLUSH")
        client.hset(OTHER, "f", "v")
    assert client.execute_command("LAND.FLUSH") == "OK"
    assert rows(tmp_path, "SELECT owner_id FROM game_eu ORDER BY owner_id") == [("1",), ("2",)]


def key_of_table(client, table):
    """A key whose marks are in this dirty table; it is marked."""
    for i in range(100):
        before = client.hlen(f"slug-persist:{{dirtyKey:{table}}}")
        client.hset(f"slug-data:{{game:eu:hero:{i}}}", "f", "v")
        if client.hlen(f"slug-persist:{{dirtyKey:{table}}}") > before:
            return f"slug-data:{{game:eu:hero:{i}}}"
    raise AssertionError("no such key")


def test_the_lock_of_a_killed_server_holds_up_nobody(land, tmp_path):
    client = land("tables 2", socket_timeout=100)
    base = tmp_path / "landed.db"
    keys = [key_of_table(client, 0), key_of_table(client, 1)]
    client.execute_command("LAND.FLUSH")
    with contextlib.closing(sqlite3.connect(base, isolation_level=None, timeout=100)) as other:
        other.execute("BEGIN IMMEDIATE")
        client.hset(keys[1], "f", "new")
        waiting = land.server.connect()
        waiting.sendall(b"LAND.FLUSH\r\n")
        wait_until(lambda: client.hlen("slug-persist:{dirtyKey:1}:lock") > 0)
        client.hset(keys[0], "f", "new")
        land.server.kill()  # it holds the lock of table 1, and fails at table 0 the next time
    waiting.close()
    with away(Sqlite(base)):
        client = land("tables 2", socket_timeout=100)
        with pytest.raises(redis.ResponseError, match="LANDDOWN"):
            client.execute_command("LAND.FLUSH")
    assert client.execute_command("LAND.FLUSH") == "OK"
    assert rows(tmp_path, "SELECT count(*) FROM game_eu WHERE value = CAST('new' AS BLOB)") == [(2,)]
