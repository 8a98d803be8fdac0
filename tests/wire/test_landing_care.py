# SPDX-License-Identifier: Apache-2.0
"""LAND.SYNC and LAND.VERIFY: the whole of a rule, over SQLite and a real MariaDB, in both shapes."""
import contextlib
import re
import sqlite3
import threading
import time

import pytest
import redis

from land import away
from mariadb import MariaDB
from talk import Link
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

NOTHING = {"different": 0, "missing_in_sql": 0, "extra_in_sql": 0, "repaired": 0, "examples": []}


class Sqlite:
    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:{path}"

    def ask(self, sql, *args):
        with contextlib.closing(sqlite3.connect(self.path, timeout=100)) as connection:
            rows = connection.execute(sql, args).fetchall()
            connection.commit()
            return rows

    def down(self):
        return away(self)


class Mysql:
    def __init__(self, server, name):
        self.server, self.name = server, name
        server.ask(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        self.url = server.url(name)

    def ask(self, sql, *args):
        return list(self.server.ask(sql.replace("?", "%s").replace('"', "`"), *args,
                                    database=self.name))

    @contextlib.contextmanager
    def down(self):
        self.server.kill()
        try:
            yield
        finally:
            self.server.start()


class Object:
    """Rows of table game_eu; the key of owner 7 is slug-data:{game:eu:bag:7}."""
    words = ["slug-data:{*}"], ["shape", "object"]

    def __init__(self, db):
        self.db = db

    @staticmethod
    def key(owner):
        return f"slug-data:{{game:eu:bag:{owner}}}"

    def live(self, owner):
        rows = self.db.ask('SELECT "key", value FROM game_eu WHERE query_all_key = ? '
                           "AND is_del = 0", f"bag:{owner}")
        return {text(field): text(value) for field, value in rows}

    def change(self, owner, field, value):
        self.db.ask("UPDATE game_eu SET value = ? WHERE primary_key = ?", value,
                    f"bag:{owner}:{field}")

    def remove(self, owner, field):
        self.db.ask("DELETE FROM game_eu WHERE primary_key = ?", f"bag:{owner}:{field}")

    def insert(self, owner, field, value, version=None):
        self.db.ask('INSERT INTO game_eu (primary_key, logic_type, owner_id, "key", value, '
                    "query_all_key, up_version, is_del) VALUES (?, 'bag', ?, ?, ?, ?, ?, 0)",
                    f"bag:{owner}:{field}", owner, field, value, f"bag:{owner}", version)


class Columns:
    """Rows of table users; the key of owner 7 is user:7."""
    words = ["user:*"], ["shape", "columns", "table", "users", "key", "id"]

    def __init__(self, db):
        self.db = db

    @staticmethod
    def key(owner):
        return f"user:{owner}"

    def names(self):
        if isinstance(self.db, Sqlite):
            return [row[1] for row in self.db.ask("PRAGMA table_info(users)")]
        return [row[0] for row in self.db.ask("SHOW COLUMNS FROM users")]

    def live(self, owner):
        rows = self.db.ask("SELECT * FROM users WHERE id = ? AND is_del = 0", owner)
        hidden = {"id", "up_version", "is_del", "del_time"}
        return {name: text(value) for row in rows for name, value in zip(self.names(), row)
                if name not in hidden and value is not None}

    def change(self, owner, field, value):
        self.db.ask(f'UPDATE users SET "{field}" = ? WHERE id = ?', value, owner)

    def remove(self, owner, field):
        self.change(owner, field, None)

    def insert(self, owner, field, value, version=None):
        if field not in self.names():
            self.db.ask(f'ALTER TABLE users ADD COLUMN "{field}" TEXT')
        self.change(owner, field, value)
        if version:
            self.db.ask("UPDATE users SET up_version = ? WHERE id = ?", version, owner)


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


class Rule:
    """A server, a client of it, and a rule r that lands in a shape of a database."""

    def __init__(self, server, shape):
        self.server, self.shape = server, shape
        self.key, self.db = shape.key, shape.db
        self.client = server.client(decode_responses=True, socket_timeout=100)

    def ask(self, *words):
        return self.client.execute_command(*words)

    def add(self, *more):
        pattern, shape = self.shape.words
        assert self.ask("LAND.RULE", "ADD", "r", *pattern, self.db.url, *shape, *more) == "OK"

    def flush(self):
        assert self.ask("LAND.FLUSH", "r") == "OK"

    def land(self, owner, **fields):
        self.client.hset(self.key(owner), mapping=fields)
        self.flush()

    def verify(self, *more):
        flat = self.ask("LAND.VERIFY", "r", *more)
        return dict(zip(flat[::2], flat[1::2]))

    def whole(self, owner):
        """Lifts the key: from here on it is known to be complete."""
        return self.client.hgetall(self.key(owner))


@pytest.fixture(scope="module")
def mysql():
    with MariaDB() as server:
        yield server


@pytest.fixture(params=["sqlite", "mariadb"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return Sqlite(tmp_path / "land.db")
    server = request.getfixturevalue("mysql")
    return Mysql(server, f"db{time.monotonic_ns()}")


@pytest.fixture(params=[Object, Columns], ids=["object", "columns"])
def rule(request, start, database):
    return Rule(start(), request.param(database))


@pytest.fixture
def plain(start, tmp_path):
    """Where the database and the shape do not matter."""
    return Rule(start(), Object(Sqlite(tmp_path / "land.db")))


# ---- LAND.SYNC ----

def test_sync_lands_a_store_that_has_data(rule):
    for owner in range(20):
        rule.client.hset(rule.key(owner), mapping={"a": f"a{owner}", "b": f"b{owner}"})
    rule.client.hset("other:1", "a", "1")
    rule.add()
    assert rule.ask("LAND.SYNC", "r") == [40, 0]
    rule.flush()
    for owner in range(20):
        assert rule.shape.live(owner) == {"a": f"a{owner}", "b": f"b{owner}"}
    assert rule.verify() == {**NOTHING, "checked_keys": 20, "checked_fields": 40, "skipped": 0}


def test_sync_of_part_of_a_key_removes_nothing(rule):
    rule.add()
    rule.land(1, a="1", b="2", c="3")
    assert rule.ask("LAND.EVICT", rule.key(1)) == 1
    rule.client.hset(rule.key(1), "a", "new")
    assert rule.ask("LAND.SYNC", "r") == [1, 0]
    rule.flush()
    assert rule.shape.live(1) == {"a": "new", "b": "2", "c": "3"}


def test_sync_counts_what_can_never_land(plain):
    plain.client.hset("slug-data:{game:eu:bag}", "a", "1")     # too few parts
    plain.client.hset("slug-data:{game:eu:b&g:1}", "a", "1")   # a delimiter
    plain.client.set(plain.key(2), "no hash")
    plain.client.hset(plain.key(1), mapping={"a": "1", "": "2", "cachedAllKey": "3"})
    plain.client.hset("slug-data:{a_b:c:bag:1}", "a", "1")
    plain.client.hset("slug-data:{a:b_c:bag:1}", mapping={"a": "1", "b": "2"})  # the same table
    plain.add()
    marked, skipped = plain.ask("LAND.SYNC", "r")
    assert (marked, skipped) in ((2, 6), (3, 6))  # whichever pair came first has the table
    plain.flush()
    assert plain.shape.live(1) == {"a": "1"}


def commits_told(text):
    return int(re.search(r"^commits:(\d+)", text, re.MULTILINE)[1])


def test_sync_in_bounded_steps_while_others_are_served(plain):
    """Who comes behind it is answered when few of its commits are made."""
    load(plain, 10000)
    plain.add("delay", "3600000", "batch", "10000")
    plain.flush()
    one, other = Link(plain.server), Link(plain.server)
    before = commits_told(one.text("INFO", "stats"))
    assert other.say("PING") == ["+PONG"]
    with plain.server.stopped():
        one.send([b"LAND.SYNC r".split()])
        other.send([b"INFO stats".split()])
    meanwhile = commits_told(other.reply()[1].decode())
    assert one.hear() == "[:10000, :0]"
    after = commits_told(one.text("INFO", "stats"))
    assert after - before >= 10000 // 256 and meanwhile - before < (after - before) / 2
    plain.flush()
    assert plain.db.ask("SELECT COUNT(*) FROM game_eu WHERE is_del = 0") == [(10000,)]


def test_sync_of_a_large_hash(plain):
    fields = {f"f{i:05}": f"v{i}" for i in range(5000)}
    plain.client.hset(plain.key(1), mapping=fields)
    plain.add()
    assert plain.ask("LAND.SYNC", "r") == [5000, 0]
    plain.flush()
    assert plain.shape.live(1) == fields
    assert plain.verify() == {**NOTHING, "checked_keys": 1, "checked_fields": 5000, "skipped": 0}


def test_sync_finds_cold_keys(rule):
    for owner in range(500):
        rule.client.hset(rule.key(owner), mapping={"a": f"a{owner}", "b": "b"})
    rule.ask("DEBUG", "RELOAD")
    rule.add()
    marked, skipped = rule.ask("LAND.SYNC", "r")
    assert marked >= 1000 and skipped == 0
    rule.flush()
    assert [rule.shape.live(owner)["a"] for owner in (0, 250, 499)] == ["a0", "a250", "a499"]
    rule.ask("DEBUG", "RELOAD")
    found = rule.verify()
    assert found["checked_keys"] >= 500
    assert {name: found[name] for name in NOTHING} == NOTHING


@pytest.mark.parametrize("read", range(1, 40, 3))
def test_a_cold_read_anywhere_changes_nothing(plain, read):
    for owner in range(3):
        plain.client.hset(plain.key(owner), mapping={"a": "1", "b": "2"})
    plain.add("delay", "3600000")
    plain.ask("DEBUG", "COLD-INJECT", read)
    assert plain.ask("LAND.SYNC", "r") == [6, 0]
    plain.flush()
    plain.shape.change(1, "a", "hand")
    plain.ask("DEBUG", "COLD-INJECT", read)
    found = plain.verify("REPAIR")
    plain.ask("DEBUG", "COLD-INJECT", 0)
    assert found == {**NOTHING, "checked_keys": 3, "checked_fields": 6, "skipped": 0,
                     "different": 1, "repaired": 1,
                     "examples": [[plain.key(1), "a", "different"]]}
    plain.flush()
    assert plain.shape.live(1) == {"a": "1", "b": "2"}


# ---- LAND.VERIFY ----

def test_a_column_added_by_hand_is_lifted(start, database):
    rule = Rule(start(), Columns(database))
    rule.add()
    rule.land(1, a="1")
    assert rule.whole(1) == {"a": "1"}
    rule.ask("LAND.EVICT", rule.key(1))
    assert rule.whole(1) == {"a": "1"}  # the lifter knows the table now
    rule.shape.insert(1, "c", "hand")
    rule.ask("LAND.EVICT", rule.key(1))
    assert rule.whole(1) == {"a": "1", "c": "hand"}


def test_verify_tells_what_differs_and_repairs_it(rule):
    rule.add()
    for owner in range(5):
        rule.client.hset(rule.key(owner), mapping={"a": "1", "b": "2"})
    rule.flush()
    for owner in range(5):
        rule.whole(owner)
    rule.shape.change(0, "a", "hand")
    rule.shape.remove(1, "b")
    rule.shape.insert(2, "c", "hand")
    want = {"checked_keys": 5, "checked_fields": 10, "different": 1, "missing_in_sql": 1,
            "extra_in_sql": 1, "skipped": 0}
    examples = [[rule.key(0), "a", "different"], [rule.key(1), "b", "missing in sql"],
                [rule.key(2), "c", "extra in sql"]]
    found = rule.verify()
    assert sorted(found.pop("examples")) == examples
    assert found == {**want, "repaired": 0}
    assert rule.shape.live(0)["a"] == "hand"  # nothing was changed
    found = rule.verify("REPAIR")
    assert sorted(found.pop("examples")) == examples
    assert found == {**want, "repaired": 3}
    rule.flush()
    for owner in range(5):
        assert rule.shape.live(owner) == {"a": "1", "b": "2"}, owner
    assert rule.verify() == {**NOTHING, "checked_keys": 5, "checked_fields": 10, "skipped": 0}


def test_a_row_deleted_by_hand_comes_back(rule):
    rule.add()
    rule.land(1, a="1", b="2")
    if isinstance(rule.shape, Object):
        rule.db.ask("UPDATE game_eu SET is_del = 1")
    else:
        rule.db.ask("DELETE FROM users")
    assert rule.verify("REPAIR")["missing_in_sql"] == 2
    rule.flush()
    assert rule.shape.live(1) == {"a": "1", "b": "2"}


def test_of_a_part_nothing_is_extra(rule):
    rule.add()
    rule.land(1, a="1", b="2", c="3")
    rule.ask("LAND.EVICT", rule.key(1))
    rule.client.hset(rule.key(1), "a", "new")
    rule.flush()
    assert rule.verify("REPAIR") == {**NOTHING, "checked_keys": 1, "checked_fields": 1,
                                     "skipped": 0}
    rule.flush()
    assert rule.shape.live(1) == {"a": "new", "b": "2", "c": "3"}


def test_evicted_keys_are_not_compared(rule):
    rule.add()
    rule.land(1, a="1")
    rule.land(2, a="1")
    rule.ask("LAND.EVICT", rule.key(1))
    rule.shape.change(1, "a", "hand")
    assert rule.verify("REPAIR") == {**NOTHING, "checked_keys": 1, "checked_fields": 1,
                                     "skipped": 0}
    assert rule.client.hget(rule.key(1), "a") == "hand"


def test_what_has_not_landed_is_skipped(rule):
    rule.add("delay", "3600000")
    rule.land(1, a="1")
    rule.land(2, a="1")
    rule.client.hset(rule.key(2), "a", "2")
    rule.client.hset(rule.key(3), "a", "3")
    rule.client.delete(rule.key(1))
    rule.client.hset(rule.key(1), "b", "1")
    assert rule.verify() == {**NOTHING, "checked_keys": 0, "checked_fields": 0, "skipped": 3}
    rule.flush()
    assert rule.verify() == {**NOTHING, "checked_keys": 3, "checked_fields": 3, "skipped": 0}


def test_a_version_above_ours_is_passed(rule):
    """A row of another store, whose clock is ahead."""
    rule.add()
    rule.land(1, a="1")
    rule.whole(1)
    ahead = (int(time.time()) + 3600) * 1000 << 20
    rule.shape.insert(1, "c", "hand", ahead)
    rule.shape.change(1, "a", "hand")
    found = rule.verify("REPAIR")
    assert (found["different"], found["extra_in_sql"], found["repaired"]) == (1, 1, 2)
    rule.flush()
    assert rule.shape.live(1) == {"a": "1"}


def test_a_version_of_the_future_is_not_repaired(plain):
    plain.add()
    plain.land(1, a="1")
    plain.db.ask("UPDATE game_eu SET value = 'x', up_version = ?", 2**63 - 1)
    for _ in range(2):
        found = plain.verify("REPAIR")
        assert (found["different"], found["repaired"]) == (1, 0)
        plain.flush()


def test_examples_are_bounded_and_counts_are_not(plain):
    load(plain, 300)
    plain.add()
    plain.ask("LAND.SYNC", "r")
    plain.flush()
    plain.db.ask("UPDATE game_eu SET value = 'x'")
    found = plain.verify("REPAIR")
    assert (found["different"], found["repaired"], len(found["examples"])) == (300, 300, 100)
    plain.flush()
    assert plain.verify()["different"] == 0


def test_a_large_hash_is_repaired_in_steps(plain):
    fields = {f"f{i:05}": f"v{i}" for i in range(3000)}
    plain.add()
    plain.land(1, **fields)
    plain.db.ask("UPDATE game_eu SET value = 'x' WHERE \"key\" < 'f01000'")
    plain.db.ask("DELETE FROM game_eu WHERE \"key\" >= 'f02000'")
    found = plain.verify("REPAIR")
    assert (found["different"], found["missing_in_sql"], found["repaired"]) == (1000, 1000, 2000)
    plain.flush()
    assert plain.shape.live(1) == fields


def test_verify_without_a_table_misses_everything(rule):
    rule.add("delay", "3600000")
    rule.land(1, a="1", b="2")
    rule.db.ask("DROP TABLE " + ("game_eu" if isinstance(rule.shape, Object) else "users"))
    assert rule.verify("REPAIR")["missing_in_sql"] == 2
    rule.flush()
    assert rule.shape.live(1) == {"a": "1", "b": "2"}


def test_a_database_that_is_down_is_an_error(rule):
    rule.add("delay", "3600000")
    rule.land(1, a="1")
    with rule.db.down():
        with pytest.raises(redis.ResponseError, match="^LANDDOWN rule r cannot be asked: "):
            rule.verify()
        assert rule.ask("LAND.SYNC", "r") == [1, 0]  # asks nobody
    rule.flush()
    assert rule.verify() == {**NOTHING, "checked_keys": 1, "checked_fields": 1, "skipped": 0}


def test_verify_under_writes_reports_nothing(rule):
    load(rule, 2000)
    rule.add("delay", "50")
    rule.ask("LAND.SYNC", "r")
    rule.flush()
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(rule, stop))
    writer.start()
    try:
        for _ in range(5):
            found = rule.verify()
            assert {name: found[name] for name in NOTHING} == NOTHING
            assert found["checked_keys"] >= 1500
    finally:
        stop.set()
        writer.join()
    rule.flush()
    found = rule.verify()
    assert (found["skipped"], found["different"], found["missing_in_sql"]) == (0, 0, 0)


def tasks_told(text):
    return int(re.search(r"^tasks:(\d+)", text, re.MULTILINE)[1])


def test_verify_of_10000_keys_while_others_are_served(plain):
    load(plain, 10000)
    plain.add("delay", "3600000")
    plain.ask("LAND.SYNC", "r")
    plain.flush()
    one, other = Link(plain.server), Link(plain.server)
    before = tasks_told(other.text("INFO", "clients"))
    assert one.say("PING") == ["+PONG"]
    with plain.server.stopped():
        one.send([b"LAND.VERIFY r".split()])
        other.send([b"INFO clients".split()])
    assert tasks_told(other.reply()[1].decode()) > before  # who comes behind it is answered while it goes on
    told = one.reply()[1]
    wait_until(lambda: tasks_told(other.text("INFO", "clients")) == before)
    said = {name[1].decode(): value[1] for name, value in zip(told[::2], told[1::2])}
    assert said == {**NOTHING, "checked_keys": 10000, "checked_fields": 10000, "skipped": 0}


# ---- what can go wrong around them ----

def verify_is_begun(rule):
    """Somebody's LAND.VERIFY waits for the database, which does not answer."""
    client = rule.server.client()
    wait_until(lambda: any(one["cmd"] == "land.verify" for one in client.client_list()))


def test_who_asks_may_leave(mysql, start):
    rule = Rule(start(), Object(Mysql(mysql, f"db{time.monotonic_ns()}")))
    rule.add()
    rule.land(1, a="1")
    mysql.pause(True)
    try:
        with rule.server.connect() as link:
            link.sendall(b"LAND.VERIFY r\r\n")
            verify_is_begun(rule)
    finally:
        mysql.pause(False)
    assert rule.verify() == {**NOTHING, "checked_keys": 1, "checked_fields": 1, "skipped": 0}


def test_the_rule_may_be_deleted_meanwhile(mysql, start):
    rule = Rule(start(), Object(Mysql(mysql, f"db{time.monotonic_ns()}")))
    rule.add()
    rule.land(1, a="1")
    said = []

    def verify():
        try:
            Rule(rule.server, rule.shape).verify()
        except redis.ResponseError as error:
            said.append(str(error))

    mysql.pause(True)
    try:
        thread = threading.Thread(target=verify)
        thread.start()
        verify_is_begun(rule)
        assert rule.ask("LAND.RULE", "DEL", "r") == "OK"
        thread.join(100)
    finally:
        mysql.pause(False)
    assert said == ["the rule was deleted"]


def test_a_server_stops_while_it_verifies(mysql, start):
    rule = Rule(start(), Object(Mysql(mysql, f"db{time.monotonic_ns()}")))
    rule.add()
    rule.land(1, a="1")
    mysql.pause(True)
    try:
        link = rule.server.connect()
        link.sendall(b"LAND.VERIFY r\r\n")
        verify_is_begun(rule)
        assert rule.server.stop() == 0
        link.close()
    finally:
        mysql.pause(False)


def test_words_that_are_refused(plain):
    plain.add()
    for words, error in ((["LAND.SYNC", "x"], "there is no such rule"),
                         (["LAND.VERIFY", "x"], "there is no such rule"),
                         (["LAND.VERIFY", "r", "x"], "syntax error"),
                         (["LAND.VERIFY", "r", "REPAIR", "x"], "syntax error")):
        with pytest.raises(redis.ResponseError, match=error):
            plain.ask(*words)
    for name in ("LAND.SYNC", "LAND.VERIFY"):
        plain.ask("MULTI")
        with pytest.raises(redis.ResponseError):
            plain.ask(name, "r")
        plain.ask("DISCARD")
    assert plain.ask("LAND.SYNC", "r") == [0, 0]
    assert plain.verify("repair") == {**NOTHING, "checked_keys": 0, "checked_fields": 0,
                                      "skipped": 0}


# ---- helpers ----

def load(rule, count):
    pipe = rule.client.pipeline(transaction=False)
    for owner in range(count):
        pipe.hset(rule.key(owner), "a", f"v{owner}")
    pipe.execute()


def commits(rule):
    return rule.client.info("stats")["commits"]


def write(rule, stop):
    client = rule.server.client()
    count = 0
    while not stop.is_set():
        client.hset(rule.key(count % 500), "a", f"w{count}")
        count += 7

