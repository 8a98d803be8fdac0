# SPDX-License-Identifier: Apache-2.0
"""Landing when things break: nothing is lost, nothing older wins, the reason can be seen, and
everything is caught up with afterwards."""
import contextlib
import os
import random
import shutil
import socket
import sqlite3
import threading

import pymysql
import pytest

from iofault import Faults
from land import KEY, NEVER, Landed, Maria, Sqlite, tables_locked
from mariadb import MariaDB
from waiting import wait_until

ENTRY = "game&eu&hero&42&"


def caught_up(landed, want, table="game_eu"):
    """By itself, without being asked to."""
    wait_until(lambda: landed.live(table) == want)
    wait_until(lambda: landed.dirty() == landed.dirty(":saving") == {})


@pytest.fixture(scope="module")
def fragile():
    """A MariaDB that tests of this file may stop and kill."""
    with MariaDB() as server:
        yield server


@pytest.fixture
def fragile_sink(fragile, request):
    if fragile.process is None:
        fragile.start()
    sink = Maria(fragile, f"f{abs(hash(request.node.name))}")
    yield sink
    if fragile.process is None:
        fragile.start()


# ---- MariaDB ----

def test_away_at_the_start_and_back_later(landing, fragile_sink, fragile):
    fragile.stop()
    landed = landing(fragile_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    wait_until(lambda: landed.status()["state"] == "failing")
    assert landed.status()["last_error"] and landed.status()["failures"] > 0
    assert landed.error("LAND.FLUSH").startswith("LANDDOWN not everything has landed")
    assert landed("HSET", KEY, "a", "2") == 0 and landed("HGET", KEY, "a") == b"2"
    fragile.start()
    caught_up(landed, {"hero:42:a": b"2"})
    assert landed.status()["state"] == "ok" and landed.status()["last_error"] == ""


def test_away_for_a_while_the_backlog_is_one_entry_a_field(landing, fragile_sink, fragile):
    landed = landing(fragile_sink, delay="20")
    landed("HSET", KEY, "a", "0")
    landed.flush()
    fragile.kill()
    for i in range(20):
        landed.client.hset(KEY, mapping={f"f{n}": i for n in range(50)})
    wait_until(lambda: landed.status()["state"] == "failing")
    marks = set(landed.dirty()) | set(landed.dirty(":saving"))
    assert len(marks) == 50
    assert landed("PING") == b"PONG" and landed("HGET", KEY, "f1") == b"19"
    fragile.start()
    caught_up(landed, {"hero:42:a": b"0"} | {f"hero:42:f{n}": b"19" for n in range(50)})


def test_killed_and_started_again_and_again_while_it_lands(landing, fragile_sink, fragile):
    landed = landing(fragile_sink, "batch", "50", delay="1")
    want = {}
    for round_ in range(3):
        for i in range(40):
            fields = {f"f{n}": f"{round_}-{i}" for n in range(i, i + 100)}
            landed.client.hset(KEY, mapping=fields)
            want |= fields
        fragile.kill()
        fragile.start()
    landed("HDEL", KEY, "f0")
    del want["f0"]
    caught_up(landed, {f"hero:42:{name}": value.encode() for name, value in want.items()})


def test_read_only(landing, fragile_sink, fragile):
    fragile_sink.ask("CREATE USER IF NOT EXISTS app@localhost")
    fragile_sink.ask(f"GRANT ALL ON `{fragile_sink.name}`.* TO app@localhost")
    fragile_sink.url = fragile_sink.url.replace("root@", "app@")
    landed = landing(fragile_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    fragile.ask("SET GLOBAL read_only = 1")
    try:
        landed("HSET", KEY, "a", "2")
        wait_until(lambda: landed.status()["last_error"] or landed.errors())
        assert landed.live() == {"hero:42:a": b"1"}
    finally:
        fragile.ask("SET GLOBAL read_only = 0")
    wait_until(lambda: landed.live() == {"hero:42:a": b"2"})
    wait_until(lambda: landed.errors() == {})


def one_file(max_mb):
    return "--innodb-file-per-table=0", f"--innodb-data-file-path=ibdata1:12M:autoextend:max:{max_mb}M"


def test_a_full_disk(landing):
    """InnoDB's file may not grow: a full disk looks the same."""
    with MariaDB(*one_file(16)) as small:
        sink = Maria(small, "game")
        landed = landing(sink, delay="20")
        landed("HSET", KEY, "a", "1")
        landed.flush()
        sink.ask("CREATE TABLE filler (id INT PRIMARY KEY AUTO_INCREMENT, value LONGBLOB)")
        with pytest.raises(pymysql.err.MySQLError) as full:
            while True:
                sink.ask("INSERT INTO filler (value) VALUES (REPEAT('x', 100000))")
        if full.value.args[0] == pymysql.constants.CR.CR_SERVER_LOST:
            pytest.skip("this mariadbd dies where its file may not grow (11.8 does)")
        want = {"hero:42:a": b"1"}
        for n in range(20):
            landed("HSET", KEY, f"f{n}", "y" * 100000)
            want[f"hero:42:f{n}"] = b"y" * 100000
        wait_until(lambda: landed.status()["state"] == "failing")
        assert "full" in landed.status()["last_error"] and landed.errors() == {}
        there = landed.live()  # the first few may have found room
        assert len(there) < len(want) and there.items() <= want.items()
        small.stop()
        small.start(*one_file(64))
        caught_up(landed, want)
        assert landed.status()["state"] == "ok"


def test_a_password_from_a_file(landing, maria_sink, tmp_path):
    maria_sink.ask("CREATE OR REPLACE USER keeper@localhost IDENTIFIED BY 'se cret'")
    maria_sink.ask(f"GRANT ALL ON `{maria_sink.name}`.* TO keeper@localhost")
    maria_sink.url = maria_sink.url.replace("root@", "keeper:wrong@")
    file = tmp_path / "password"
    file.write_text("se cret\nanother line\n")
    landed = landing(maria_sink, "password-file", str(file))
    landed("HSET", KEY, "a", "1")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}
    landed.server.kill()
    file.write_text("secret\n")
    landed = Landed(landed.server.__class__(tmp_path / "other", "--land", "players", "slug-data:{*}",
                                            maria_sink.url, "password-file", str(file)), maria_sink)
    try:
        assert "Access denied" in landed.error("HGET", KEY, "a")
    finally:
        landed.server.kill()


def test_a_table_that_is_dropped_is_made_again(landed):
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed.sink.ask("DROP TABLE game_eu")
    landed("HSET", KEY, "b", "2")
    landed.flush()
    assert landed.live() == {"hero:42:b": b"2"} and landed.errors() == {}
    landed.sink.ask("DROP TABLE game_eu")
    assert landed("HGETALL", "slug-data:{game:eu:hero:nobody}") == []


def test_a_database_that_lost_its_identity_is_another_one_until_it_is_said_to_be_new(landed):
    """All of its tables are gone, as after DROP DATABASE and CREATE DATABASE, and the connection still answers."""
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed.sink.ask("DROP TABLE game_eu")
    landed.sink.ask("DROP TABLE terrace_tables")
    landed("HSET", KEY, "b", "2")
    assert landed.error("LAND.FLUSH").startswith("LANDDOWN")
    assert landed("LAND.RULE", "SINK", "players", "NEW") == [2, 0]
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"2"} and landed.errors() == {}


def test_a_column_that_is_dropped_is_an_error_until_it_is_back(landed):
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed.sink.ask("ALTER TABLE game_eu DROP COLUMN update_time")
    landed("HSET", KEY, "a", "2")
    with contextlib.suppress(Exception):
        landed("LAND.FLUSH")
    assert landed.errors() or landed.status()["state"] == "failing"
    landed.sink.ask("ALTER TABLE game_eu ADD COLUMN update_time BIGINT")
    landed("LAND.RETRY", "players")
    wait_until(lambda: landed.live() == {"hero:42:a": b"2"})
    wait_until(lambda: landed.errors() == {})  # it is noted after the commit


def test_a_column_that_is_too_short_is_an_error_and_never_cuts(landing, maria_sink):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    maria_sink.ask("ALTER TABLE game_eu MODIFY value VARBINARY(4)")
    landed("HSET", KEY, "a", "12345", "b", "1234")
    landed.flush_refused()
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"1234"}
    assert list(landed.errors()) == [ENTRY + "a"]
    maria_sink.ask("ALTER TABLE game_eu MODIFY value LONGBLOB")
    landed("LAND.RETRY", "players")
    wait_until(lambda: landed.errors() == {})
    assert landed.live()["hero:42:a"] == b"12345"


def test_poison_among_good_rows(landing, sink):
    landed = landing(sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    if sink.kind == "sqlite":
        sink.ask("CREATE TRIGGER poison BEFORE INSERT ON game_eu WHEN new.value = x'626164' BEGIN "
                 "SELECT RAISE(ABORT, 'poison'); END")
    else:
        sink.ask("ALTER TABLE game_eu ADD CONSTRAINT poison CHECK (value <> 'bad')")
    bad = set(random.Random(4).sample(range(1000), 7))
    with landed.client.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.hset(f"slug-data:{{game:eu:hero:{i // 3}}}", f"f{i}", "bad" if i in bad else i)
        pipe.execute()
    landed.flush_refused()
    assert len(landed.live()) == 1 + 1000 - len(bad)
    assert {entry.rsplit("&", 1)[1] for entry in landed.errors("COUNT", "1000")} == \
        {f"f{i}" for i in bad}
    assert all(b"poison" in error["error"] for error in landed.errors().values())
    sink.ask("DROP TRIGGER poison" if sink.kind == "sqlite" else
             "ALTER TABLE game_eu DROP CONSTRAINT poison")
    landed("LAND.RETRY", "players")
    wait_until(lambda: landed.errors() == {})
    assert len(landed.live()) == 1001


class Proxy:
    """Between terraced and MariaDB: can swallow what the database answers, and hang up."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.swallow = threading.Event()  # the next answer to a COMMIT is lost
        self.lost = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.path)
                state = {"commit": False}
                for args in ((client, server, state, True), (server, client, state, False)):
                    threading.Thread(target=self.pump, args=args, daemon=True).start()

    def pump(self, source, target, state, to_server):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if to_server and data[4:11].upper() == b"\x03COMMIT" and self.swallow.is_set():
                    state["commit"] = True
                if not to_server and state["commit"]:
                    self.swallow.clear()
                    self.lost += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


def test_a_commit_whose_answer_is_lost(landing, maria_sink, maria):
    proxy = Proxy(maria.socket)
    maria_sink.url = f"mysql://root@127.0.0.1:{proxy.port}/{maria_sink.name}"
    try:
        landed = landing(maria_sink, delay="20")
        landed("HSET", KEY, "n", "0")
        landed.flush()
        assert landed("HLEN", KEY) == 1  # it is complete: only the lander asks from here on
        for i in range(1, 4):
            proxy.swallow.set()
            landed("HINCRBY", KEY, "n", "1")
            wait_until(lambda: proxy.lost == i)
            caught_up(landed, {"hero:42:n": b"%d" % i})
        assert landed.status()["failures"] == 3
    finally:
        proxy.close()


def test_a_slow_database_slows_nobody_who_does_not_need_it(landing, maria_sink):
    landed = landing(maria_sink, delay="1")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    assert landed("HLEN", KEY) == 1
    with tables_locked(maria_sink, "game_eu"):
        landed("HSET", KEY, "a", "2")
        wait_until(lambda: landed.dirty(":saving"))  # its batch hangs
        waits = landed.server.connect()
        waits.sendall(b"HGET slug-data:{game:eu:hero:other} a\r\n")
        wait_until(lambda: landed.status()["lifts"] >= 1)
        for i in range(500):
            landed("HSET", KEY, "a", i)
            assert landed("HGET", KEY, "a") == b"%d" % i
            landed("SET", "plain", i)
        landed("HSET", "slug-data:{game:eu:hero:new}", "a", "1")
        assert landed("HGET", "slug-data:{game:eu:hero:new}", "a") == b"1"
    assert waits.recv(100) == b"$-1\r\n"
    waits.close()
    caught_up(landed, {"hero:42:a": b"499", "hero:new:a": b"1"})


def test_two_rules_and_one_dead_database(start, sqlite_sink, tmp_path):
    dead = tmp_path / "dead.db"
    dead.mkdir()
    server = start("--land", "players", "slug-data:{*}", sqlite_sink.url, "delay", "20", "tables",
                   "1", "--land", "users", "user:*", f"sqlite:{dead}", "shape", "columns", "table",
                   "users", "key", "id", "delay", "20", "tables", "1")
    landed = Landed(server, sqlite_sink)
    landed("HSET", "user:1", "name", "bob")
    wait_until(lambda: landed.status("users")["state"] == "failing")
    for i in range(3):
        landed("HSET", KEY, "a", i)
        landed("HSET", "user:1", "name", i)
        landed.flush("players")
        assert landed.live() == {"hero:42:a": b"%d" % i}
    assert landed.status("players")["state"] == "ok"
    assert "users&1&name" in {**landed.dirty(), **landed.dirty(":saving")}
    dead.rmdir()
    wait_until(lambda: dead.exists() and landed.dirty() == landed.dirty(":saving") == {})
    with contextlib.closing(sqlite3.connect(dead)) as link:
        assert link.execute("SELECT name FROM users").fetchall() == [("2",)]


def test_a_mark_that_changed_while_its_row_was_landing_stays(start, maria_sink, maria, tmp_path):
    """The snapshot belongs to a dead rule, so marks are taken from the table that is written to."""
    dead = tmp_path / "dead.db"
    dead.mkdir()
    server = start("--land", "players", "slug-data:{*}", maria_sink.url, "delay", "600000",
                   "tables", "1", "--land", "users", "user:*", f"sqlite:{dead}", "shape", "columns",
                   "table", "users", "key", "id", "delay", "20", "tables", "1")
    landed = Landed(server, maria_sink)
    landed("HSET", "user:1", "name", "bob")
    wait_until(lambda: landed.dirty(":saving"))
    landed("HSET", KEY, "a", "0")
    landed.flush("players")
    landed("HSET", KEY, "a", "1")
    with tables_locked(maria_sink, "game_eu"):
        landed("LAND.RETRY", "players")
        wait_until(lambda: maria.ask("SELECT 1 FROM information_schema.processlist WHERE state LIKE "
                                     "'Waiting for table%%' AND db = %s", maria_sink.name))
        landed("HSET", KEY, "a", "2")
    landed.flush("players")
    landed.flush("players")
    assert landed.live() == {"hero:42:a": b"2"}


def test_two_servers_and_one_mariadb(landing, maria_sink):
    one = landing(maria_sink, delay="1")
    two = landing(maria_sink, delay="1", name="two")
    for i in range(50):
        one("HSET", KEY, f"f{i}", i)
        two("HSET", "slug-data:{game:eu:hero:43}", f"f{i}", i)
    one.flush()
    two.flush()
    want = {f"hero:{owner}:f{i}": b"%d" % i for owner in (42, 43) for i in range(50)}
    assert one.live() == want and one.errors() == two.errors() == {}
    assert two("HLEN", KEY) == 50  # lifted: what the other wrote
    one("HSET", KEY, "f0", "new")
    one.flush()
    two("LAND.EVICT", KEY)
    assert two("HGET", KEY, "f0") == b"new"
    two("HSET", KEY, "f0", "newer")
    two.flush()
    one("LAND.EVICT", KEY)
    assert one("HGET", KEY, "f0") == b"newer"


# ---- SQLite ----

def test_sqlite_locked_by_another(landing, sqlite_sink):
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    with contextlib.closing(sqlite3.connect(sqlite_sink.path, isolation_level=None)) as link:
        link.execute("BEGIN EXCLUSIVE")
        landed("HSET", KEY, "a", "2")
        wait_until(lambda: landed.status()["state"] == "failing")
        assert "lock" in landed.status()["last_error"]
        assert landed.errors() == {}
        link.execute("ROLLBACK")
    caught_up(landed, {"hero:42:a": b"2"})


def test_sqlite_that_is_no_database(landing, sqlite_sink):
    sqlite_sink.path.write_bytes(b"this is no database " * 500)
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    wait_until(lambda: landed.status()["last_error"])
    assert landed.error("HGET", "slug-data:{game:eu:hero:x}", "a").startswith("LANDDOWN")
    assert landed.errors() == {}, "a broken database is no fault of a row"
    sqlite_sink.path.unlink()
    caught_up(landed, {"hero:42:a": b"1"})


def test_sqlite_in_a_directory_that_is_not_there(landing, sqlite_sink):
    sqlite_sink.path = sqlite_sink.path.parent / "later" / "sink.db"
    sqlite_sink.url = f"sqlite:{sqlite_sink.path}"
    sqlite_sink.path.parent.write_text("in the way")
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    wait_until(lambda: landed.status()["last_error"])
    assert landed.errors() == {}
    sqlite_sink.path.parent.unlink()
    wait_until(sqlite_sink.path.exists)  # the directory is made
    caught_up(landed, {"hero:42:a": b"1"})


def test_sqlite_file_removed_while_it_is_open(landing, sqlite_sink):
    """What is written from then on must not go into a file that has no name."""
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    for path in list(sqlite_sink.path.parent.glob("sink.db*")):
        path.unlink()
    landed("HSET", KEY, "b", "2")
    wait_until(lambda: landed.status()["state"] == "missing")
    assert not sqlite_sink.path.exists()
    assert landed("LAND.RULE", "SINK", "players", "NEW")[0] == 2
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"2"}


@pytest.mark.skipif(os.getuid() == 0, reason="root writes into read-only files")
def test_sqlite_read_only_file(landing, sqlite_sink):
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed.server.stop()
    sqlite_sink.path.chmod(0o444)
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "a", "2")
    wait_until(lambda: landed.status()["last_error"])
    sqlite_sink.path.chmod(0o644)
    caught_up(landed, {"hero:42:a": b"2"})


# ---- terraced ----

@pytest.mark.parametrize("shape", ["object", "columns"])
def test_killed_at_many_points_while_it_lands(landing, columns, sqlite_sink, shape):
    make = landing if shape == "object" else columns
    key = KEY if shape == "object" else "user:1"
    dice = random.Random(shape)
    want = {}
    for round_ in range(12):
        landed = make(sqlite_sink, "batch", "5", delay="1",
                      args=("--durability", "always"))
        for i in range(dice.randrange(1, 60)):
            name = f"f{dice.randrange(30)}"
            if dice.random() < 0.2:
                landed("HDEL", key, name)
                want.pop(name, None)
            elif dice.random() < 0.03:
                landed("DEL", key)
                want = {}
            else:
                landed("HSET", key, name, f"{round_}-{i}")
                want[name] = f"{round_}-{i}"
        landed.server.kill()
    landed = make(sqlite_sink, args=("--durability", "always"))
    landed.flush()
    here = {name.decode(): value.decode() for name, value in landed.client.hgetall(key).items()}
    assert here == want
    if shape == "object":
        assert landed.live() == {f"hero:42:{name}": value.encode() for name, value in want.items()}
    landed("LAND.EVICT", key)
    here = {name.decode(): value.decode() for name, value in landed.client.hgetall(key).items()}
    assert here == want
    assert landed.dirty() == landed.dirty(":saving") == landed.errors() == {}


def frame_ends(path):
    """Where the frames of a journal segment end: docs/formats.md."""
    data = path.read_bytes()
    at = data.find(b"TFRM")
    while at >= 0 and data[at:at + 4] == b"TFRM":
        at += 40 + int.from_bytes(data[at + 4:at + 8], "little")
        yield at


def journal_cuts(directory, before):
    """(segment, offset) of every frame that is not in `before`, and the end of that."""
    for segment in sorted((directory / "journal").iterdir()):
        had = before / "journal" / segment.name
        seen = max(frame_ends(had), default=0) if had.exists() else 0
        for end in frame_ends(segment):
            if end >= seen:
                yield segment.name, end


def cut_journal(directory, name, end):
    for segment in (directory / "journal").iterdir():
        if segment.name > name:
            segment.unlink()
        elif segment.name == name:
            os.truncate(segment, end)


@pytest.fixture
def cut_pass(start, sqlite_sink, tmp_path):
    """A pass of batches of two, as the journal and SQL had it: a server that was killed after any
    frame of it."""
    words = ("tables", "1", "batch", "2")
    keys = [f"slug-data:{{game:eu:hero:{n}}}" for n in range(4)]

    def begin(name, url):
        server = start("--land", "players", "slug-data:{*}", url, *words, "delay", NEVER, name=name)
        return Landed(server, sqlite_sink)

    landed = begin("data", sqlite_sink.url)
    landed("HSET", keys[0], "a", "0", "b", "0", "gone", "0")
    landed("HSET", keys[1], "a", "0")
    landed("HSET", keys[2], "x", "0", "y", "0", "z", "0")
    landed.flush()
    landed("HSET", keys[0], "a", "1", "c", "1", "d", "1")
    landed("HDEL", keys[0], "gone")
    landed("DEL", keys[1])
    landed("RENAME", keys[2], keys[3])
    landed("HINCRBY", keys[3], "x", "7")
    marks = set(landed.dirty(tables=1))
    landed.server.kill()
    shutil.copytree(tmp_path / "data", tmp_path / "before")
    sql_before = copy_sql(sqlite_sink, tmp_path / "before.db")
    landed = begin("data", sqlite_sink.url)
    landed.flush()
    landed.server.kill()
    sql_after = copy_sql(sqlite_sink, tmp_path / "after.db")
    return begin, keys, marks, sql_before, sql_after


def copy_sql(sink, to):
    with contextlib.closing(sqlite3.connect(sink.path)) as source, \
            contextlib.closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
    return to


def test_restarted_after_every_commit_of_a_pass(cut_pass, sqlite_sink, tmp_path):
    begin, keys, marks, sql_before, sql_after = cut_pass
    want = {"hero:0:a": b"1", "hero:0:b": b"0", "hero:0:c": b"1", "hero:0:d": b"1",
            "hero:3:x": b"7", "hero:3:y": b"0", "hero:3:z": b"0"}
    (tmp_path / "away").mkdir()
    cuts = list(journal_cuts(tmp_path / "data", tmp_path / "before"))
    noted = 0
    for number, (name, end) in enumerate(cuts):
        def cut_copy(word):
            to = tmp_path / f"{word}{number}"
            shutil.copytree(tmp_path / "data", to)
            cut_journal(to, name, end)
            return to.name
        landed = begin(cut_copy("look"), f"sqlite:{tmp_path / 'away'}")
        left = set(landed.dirty(tables=1)) | set(landed.dirty(":saving", tables=1))
        landed.server.kill()
        noted += left != marks  # then SQL has had something of it
        for sql in (sql_after,) if left != marks else (sql_before, sql_after):
            sink = Sqlite(tmp_path / f"{number}{sql.name}")
            shutil.copy(sql, sink.path)
            landed = begin(cut_copy(sql.stem), sink.url)
            landed.sink = sink
            landed.flush()
            assert landed.live() == want, (name, end, sql)
            assert landed.dirty(tables=1) == landed.dirty(":saving", tables=1) == landed.errors() == {}
            landed("LAND.EVICT", keys[0], keys[3])
            assert landed.client.hgetall(keys[0]) == {b"a": b"1", b"b": b"0", b"c": b"1", b"d": b"1"}
            assert [landed("HLEN", key) for key in keys] == [4, 0, 0, 3]
            landed.server.kill()
    assert len(cuts) - noted >= 3 and noted >= 3  # lock, snapshot, two notes, unlock


def test_stopping_does_not_wait_for_a_database_that_hangs(landing, maria_sink):
    landed = landing(maria_sink, delay="1")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    with tables_locked(maria_sink, "game_eu"):
        landed("HSET", KEY, "a", "2")
        wait_until(lambda: landed.dirty(":saving"))
        assert landed.server.stop() == 0
    landed = landing(maria_sink)
    wait_until(lambda: landed.live() == {"hero:42:a": b"2"})


def test_only_what_is_on_disk_is_landed(start, sqlite_sink, tmp_path):
    """The journal cannot be synced: what was written since would be gone after a power cut, and SQL has none of it."""
    faults = Faults(tmp_path)
    server = start("--land", "players", "slug-data:{*}", sqlite_sink.url, "delay", NEVER, prefix=faults.prefix())
    landed = Landed(server, sqlite_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    rule = faults.arm("/journal/", calls=("sync",))
    landed("HSET", KEY, "a", "2")
    assert landed("HGET", KEY, "a") == b"2"
    with server.connect() as waits:
        waits.sendall(b"LAND.FLUSH\r\n")
        wait_until(lambda: landed.dirty(":saving") or not landed.dirty())  # it is under way
        wait_until(lambda: faults.failed(rule) > 0)
        server.kill()
    assert landed.live() == {"hero:42:a": b"1"}
