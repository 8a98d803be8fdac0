# SPDX-License-Identifier: Apache-2.0
"""What landing promises where the program that it comes from loses data."""
import threading

import pytest

from diff.resp import Closed, Connection
from land import KEY, away, error_json, maria_queries, table_of, tables_locked
from talk import Link
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

ENTRY = "game&eu&hero&42&"


def test_data_and_dirty_mark_are_one_commit(landing, sqlite_sink):
    """kill -9 at any moment: a field without a mark would never land, a mark tells of a field."""
    landed = landing(sqlite_sink, "batch", "10000")
    for round_ in range(8):
        stop = threading.Event()

        def write(link, name):
            try:
                for i in range(10**9):
                    link.send([[b"HSET", KEY.encode(), b"%s%d" % (name, i), b"1"],
                               [b"HINCRBY", KEY.encode(), b"n" + name, b"1"]])
                    link.reply(), link.reply()
                    if stop.is_set():
                        return
            except (Closed, OSError):
                pass

        names = [b"%d-%d-" % (round_, i) for i in range(3)]
        writers = [threading.Thread(target=write, args=(Connection(landed.server.port), name))
                   for name in names]
        for writer in writers:
            writer.start()
        wait_until(lambda: landed("HLEN", KEY) > 30 * (round_ + 1))
        landed.server.kill()
        stop.set()
        for writer in writers:
            writer.join()
        landed = landing(sqlite_sink, "batch", "10000")
        landed.flush()
        here = {name.decode(): value for name, value in landed.client.hgetall(KEY).items()}
        assert {name[8:]: value for name, value in landed.live().items()} == here
        assert landed.dirty() == landed.dirty(":saving") == {}


def test_ttl_never_expires_unlanded_data(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1")
    landed("PEXPIRE", KEY, 1)
    landed("SET", "later", "1", "PX", "2")  # the sweep goes in order of deadlines
    wait_until(lambda: landed.client.info("stats")["expired_keys"] >= 1)
    assert landed("HGET", KEY, "a") == b"1" and landed("EXISTS", KEY) == 1
    landed("HSET", KEY, "b", "2")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"2"}


def test_lock_refuses_and_release_drops_only_its_own(landing, maria_sink, maria):
    """While a lander works its lock is there, under its own token; another rule has another one."""
    landed = landing(maria_sink, "tables", "1")
    lock = "slug-persist:{dirtyKey:0}:lock"
    landed("LAND.RULE", "ADD", "second", "user:*", maria_sink.url, "shape", "columns", "table",
           "users", "key", "id", "tables", "1", "delay", "600000")
    landed("HSET", KEY, "a", "1")
    landed("HSET", "user:1", "name", "bob")
    landed.flush()
    assert landed("EXISTS", lock) == 0
    landed("HSET", KEY, "a", "2")
    with tables_locked(maria_sink, "game_eu"):
        landed("LAND.RETRY", "players")  # a pass begins, and hangs
        held = wait_until(lambda: landed("HGET", lock, "players"))
        token, until = held.rsplit(b":", 1)
        assert len(token) == 32 and int(until) > landed.client.time()[0] * 1000
        assert "landing's own" in landed.error("HDEL", lock, "players")
        assert "landing's own" in landed.error("DEL", lock)
        landed("HSET", "user:1", "name", "eve")
        landed.flush("second")  # has its own lock, and releases only that
        assert landed("HKEYS", lock) == [b"players"]
        assert landed("HGET", lock, "players") == held
        assert maria.ask("SELECT name FROM users", database=maria_sink.name) == (("eve",),)
    landed.flush()
    assert landed("EXISTS", lock) == 0 and landed.live() == {"hero:42:a": b"2"}


def test_error_table_has_one_name(columns, sqlite_sink):
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER)")
    landed = columns(sqlite_sink)
    landed("HSET", "user:1", "age", "old")
    landed.flush_refused()
    n = table_of("user:1")
    assert landed("HKEYS", f"slug-persist:{{dirtyKey:{n}}}:error") == [b"users&1&age"]
    assert list(landed.errors()) == ["users&1&age"]
    landed("HSET", "user:1", "age", "7")
    landed.flush()
    assert landed.errors() == landed.dirty(":error") == {}
    assert sqlite_sink.ask("SELECT age FROM users") == [(7,)]


def test_single_rows_are_inserted_too(columns, sqlite_sink):
    """A batch that fails falls back to single rows: new ones have to be inserted."""
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER)")
    landed = columns(sqlite_sink)
    with landed.client.pipeline(transaction=False) as pipe:
        for i in range(20):
            pipe.hset(f"user:{i}", "age", "bad" if i == 7 else i)
        pipe.execute()
    landed.flush_refused()
    assert sqlite_sink.ask("SELECT COUNT(*) FROM users WHERE age IS NOT NULL") == [(19,)]
    assert list(landed.errors()) == ["users&7&age"]


def test_a_failed_snapshot_is_finished_later(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    with away(sqlite_sink):
        for _ in range(3):
            assert "LANDDOWN" in landed.error("LAND.FLUSH")
            assert set(landed.dirty(":saving")) | set(landed.dirty()) == {ENTRY + "a", ENTRY + "b"}
        assert landed.status()["state"] == "failing" and landed.status()["last_error"]
        landed.server.kill()
    landed = landing(sqlite_sink)
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"2"}
    assert landed.dirty(":saving") == {}


def test_an_update_whose_field_is_gone_lands_as_removed(landing, maria_sink):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.flush()
    assert landed("HLEN", KEY) == 2  # it is complete: HDEL need not ask
    landed("HSET", KEY, "a", "3", "b", "4")
    with tables_locked(maria_sink, "game_eu"):
        landed("LAND.RETRY", "players")
        wait_until(lambda: landed.dirty(":saving"))  # says UPDATE, for ever
        landed("HDEL", KEY, "a")
    landed.flush()
    assert landed.live() == {"hero:42:b": b"4"}
    assert landed.rows()["hero:42:a"][1] == 1


def test_a_remove_racing_with_an_update_lands_no_marker_as_data(landing, maria_sink):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    for i in range(3):
        landed("HDEL", KEY, "a")
        with tables_locked(maria_sink, "game_eu"):
            landed("LAND.RETRY", "players")
            wait_until(lambda: landed.dirty(":saving"))
            landed("HSET", KEY, "a", i)
        landed.flush()
        assert landed.rows() == {"hero:42:a": (b"%d" % i, 0)}
        assert landed("HGET", KEY, "a") == b"%d" % i


def test_counters_land_in_order(landing, sink):
    landed = landing(sink)
    for i in range(1, 101):
        landed("HINCRBY", KEY, "n", 1)
        if i % 20 == 0:
            landed.flush()
            assert landed.live() == {"hero:42:n": b"%d" % i}
    assert landed.status()["landed_rows"] == 5  # what the counter was, not what was added
    landed("HINCRBY", KEY, "n", 1)
    landed.put("hero:42:n", b"1000", version=landed.version("hero:42:n") + (1 << 40))
    landed.flush_refused()  # a batch that comes too late
    assert landed.live() == {"hero:42:n": b"1000"}


def test_a_delimiter_in_an_id_is_refused(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    for owner in ("a:b", "a&b", ":", "&"):
        assert "without : or &" in landed.error("HSET", f"slug-data:{{game:eu:hero:{owner}}}", "f", "1")
    landed("HSET", "slug-data:{game:eu:hero:a}", "b:c", "1", "b&c", "2")
    landed("HSET", "slug-data:{game:eu:hero:a}", "b", "3")
    landed.flush()
    assert landed.live() == {"hero:a:b:c": b"1", "hero:a:b&c": b"2", "hero:a:b": b"3"}


def test_sql_is_not_built_by_concatenation(landing, sink):
    landed = landing(sink)
    evil = ["'", '"', "`", "\\", "\\'", "'; DROP TABLE game_eu; --", "%s", "?", "${x}", "\0", "/*"]
    for i, word in enumerate(evil):
        landed("HSET", f"slug-data:{{game:eu:{i}:{word.replace(':', '')}}}", word, word)
    landed("HSET", "slug-data:{ga`me:e\"u:hero:1}", "f", "1")
    landed.flush()
    assert len(landed.live()) == len(evil) and landed.errors() == {}
    assert landed.sink.ask("SELECT value FROM " + (
        '"ga`me_e""u"' if sink.kind == "sqlite" else "`ga``me_e\"u`")) == [(b"1",)]
    for i, word in enumerate(evil):
        key = f"slug-data:{{game:eu:{i}:{word.replace(':', '')}}}"
        landed.evict(key)
        assert landed("HGETALL", key) == [word.encode(), word.encode()]


def test_up_version_is_set(landing, sink):
    landed = landing(sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    landed("HDEL", KEY, "b")
    landed.flush()
    versions = [row[0] for row in landed.sink.ask("SELECT up_version FROM game_eu")]
    assert len(versions) == 2 and all(version > 1 << 40 for version in versions)
    landed("DEL", KEY)
    landed.flush()
    again = [row[0] for row in landed.sink.ask("SELECT up_version FROM game_eu")]
    assert min(again) > max(versions)


def test_absence_is_remembered(landing, maria_sink, maria):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    maria.ask("SET GLOBAL log_output = 'TABLE'")
    maria.ask("TRUNCATE mysql.general_log")
    maria.ask("SET GLOBAL general_log = 1")
    try:
        assert Link(landed.server).say(*["HGETALL slug-data:{game:eu:hero:nobody}"] * 50) == ["[]"] * 50
        assert maria_queries(maria_sink, "%SELECT%query_all_key%") == 1
    finally:
        maria.ask("SET GLOBAL general_log = 0")


@pytest.mark.parametrize("how", ["removed here", "deleted here", "absent", "refused"])
def test_a_full_read_never_hangs(landing, sqlite_sink, how):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.evict(KEY)
    if how == "removed here":
        landed("HDEL", KEY, "a", "b")
    elif how == "deleted here":
        landed("DEL", KEY)
    elif how == "absent":
        sqlite_sink.ask("DELETE FROM game_eu")
    else:
        landed("HDEL", KEY, "a", "b")
        sqlite_sink.ask("CREATE TRIGGER no BEFORE UPDATE ON game_eu BEGIN SELECT "
                        "RAISE(ABORT, 'no'); END")
        landed.flush_refused()
        assert error_json(landed, ENTRY + "a")["error"]
    assert Link(landed.server).say(*[f"{name} {KEY}" for name in ("HGETALL", "HKEYS", "HVALS", "HLEN")],
                                   f"HSCAN {KEY} 0") == ["[]", "[]", "[]", ":0", "[0, []]"]
    assert landed.status()["lifts"] <= 2
