# SPDX-License-Identifier: Apache-2.0
"""LAND.*: rules that come and go, and what people can ask and do."""
import json
import threading
import time

import pytest
import redis

from land import KEY, NEVER, Landed, Sqlite, away, error_json, tables_locked
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

RULE = "players slug-data:{*} {url} delay 600000"
USERS = "users user:* {url} shape columns table users key id delay 600000"
ENTRY = "game&eu&hero&42&"


def add(client, rule, sink):
    return client.execute_command("LAND.RULE", "ADD", *rule.replace("{url}", sink.url).split())


def listed(client):
    return [rule.decode() for rule in client.execute_command("LAND.RULE", "LIST")]


# ---- rules ----

@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_rule_made_by_a_command_survives(start, sqlite_sink, how):
    server = start()
    client = server.client()
    assert add(client, RULE, sqlite_sink) == b"OK"
    assert add(client, USERS, sqlite_sink) == b"OK"
    client.hset(KEY, "a", "1")
    assert client.execute_command("DEBUG", "RELOAD")  # it is on disk
    getattr(server, how)()
    landed = Landed(start(), sqlite_sink)
    assert sorted(listed(landed.client)) == sorted(
        rule.replace("{url}", sqlite_sink.url) for rule in (RULE, USERS))
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}
    assert landed("LAND.RULE", "DEL", "users") == b"OK"
    landed.server.stop()
    assert len(listed(start().client())) == 1


def test_a_rule_in_the_file_survives_config_rewrite(start, sqlite_sink, tmp_path):
    file = tmp_path / "terrace.conf"
    rules = [rule.replace("{url}", sqlite_sink.url) for rule in (RULE, USERS)]
    file.write_text("".join(f"land {rule}\n" for rule in rules))
    server = start(file=file)
    client = server.client()
    assert listed(client) == rules
    with pytest.raises(redis.ResponseError, match="configuration file"):
        client.execute_command("LAND.RULE", "DEL", "players")
    add(client, "more more:* {url} shape columns table more key id", sqlite_sink)
    client.config_set("maxclients", 99)
    assert client.config_rewrite()
    server.stop()
    text = file.read_text()
    assert [line for line in text.splitlines() if line.startswith("land ")] == \
        [f"land {rule}" for rule in rules]
    client = start(file=file).client()
    assert listed(client)[:2] == rules and len(listed(client)) == 3


def test_the_file_counts_if_a_rule_is_in_the_store_too(start, sqlite_sink):
    server = start()
    add(server.client(), RULE + " batch 7", sqlite_sink)
    server.stop()
    rule = RULE.replace("{url}", sqlite_sink.url)
    server = start("--land", *rule.split())
    assert listed(server.client()) == [rule]
    assert "the file counts" in server.stderr()


def test_rules_that_could_take_one_key_are_refused(start, sqlite_sink):
    client = start().client()
    add(client, "a user:* {url} shape columns table users key id", sqlite_sink)
    for rule in ("b user:* {url} shape columns table other key id",
                 "b use* {url} shape columns table other key id",
                 "b user:x* {url} shape columns table other key id",
                 "b *:x {url} shape columns table other key id",
                 "b * {url} shape columns table other key id"):
        with pytest.raises(redis.ResponseError, match="could be taken by this rule and by a"):
            add(client, rule, sqlite_sink)
    with pytest.raises(redis.ResponseError, match="a rule a already"):
        add(client, "a more:* {url} shape columns table other key id", sqlite_sink)
    assert len(client.execute_command("LAND.RULE", "LIST")) == 1
    add(client, "b users:* {url} shape columns table other key id", sqlite_sink)
    assert len(listed(client)) == 2


def test_garbage_among_the_stored_rules_does_not_keep_the_server_down(start):
    server = start()
    client = server.client()
    client.hset("slug-persist:{rules}", "x", "no rule at all")  # no rules yet: anybody may
    server.stop()
    server = start()
    assert listed(server.client()) == [] and "is ignored" in server.stderr()
    server.client().set("slug-persist:{rules}", "x")
    server.stop()
    assert listed(start().client()) == []


def test_deleting_a_rule_asks_for_what_has_not_landed(landing, start, sqlite_sink):
    landed = Landed(start(), sqlite_sink)
    add(landed.client, RULE, sqlite_sink)
    landed("HSET", KEY, "a", "1")
    assert "1 entries have not landed" in landed.error("LAND.RULE", "DEL", "players")
    assert "syntax" in landed.error("LAND.RULE", "DEL", "players", "PLEASE")
    assert "no such rule" in landed.error("LAND.RULE", "DEL", "nobody")
    landed.flush()
    assert landed("LAND.RULE", "DEL", "players") == b"OK"
    assert landed("HSET", "slug-data:{anything}", "cachedAllKey", "1") == 1  # a plain key again
    add(landed.client, RULE, sqlite_sink)
    landed("HSET", KEY, "b", "2")
    assert landed("LAND.RULE", "DEL", "players", "FORCE") == b"OK"
    assert landed.dirty() == {}


def test_a_rule_is_deleted_while_clients_wait_for_it(start, maria_sink):
    landed = Landed(start(), maria_sink)
    add(landed.client, RULE, maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.evict(KEY)
    waits = landed.server.connect()
    with tables_locked(maria_sink, "game_eu"):
        waits.sendall(b"HGETALL " + KEY.encode() + b"\r\n")
        wait_until(lambda: landed.status()["lifts"] == 1)
        assert landed("LAND.RULE", "DEL", "players") == b"OK"
        assert waits.recv(100) == b"*0\r\n"  # a plain key that is not here
    waits.close()


def test_passwords_are_not_shown(start):
    client = start("--slowlog-log-slower-than", "0", "--land", "a", "slug-data:{*}",
                   "mysql://me:secret@127.0.0.1:1/db").client()
    with pytest.raises(redis.ResponseError) as refused:
        client.execute_command("LAND.RULE", "ADD", "b", "user:*", "mysql://me:secret@127.0.0.1:1/db", "shape",
                               "columns", "table", "t", "key", "k")
    assert "secret" not in str(client.slowlog_get()) + str(refused.value)
    said = str(client.execute_command("LAND.RULE", "LIST")) + str(
        client.execute_command("LAND.STATUS")) + str(client.config_get("land"))
    assert "secret" not in said and "me" in said
    assert client.hgetall("slug-persist:{rules}") == {}
    assert client.hget("slug-persist:{rules}", "r") is None


def test_land_commands_refuse_what_they_do_not_understand(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    for words in (("LAND.STATUS", "nobody"), ("LAND.FLUSH", "nobody"), ("LAND.ERRORS", "nobody"),
                  ("LAND.RETRY", "nobody"), ("LAND.DROP", "nobody")):
        assert "no such rule" in landed.error(*words), words
    for words in (("LAND.STATUS", "players", "x"), ("LAND.FLUSH", "players", "x"), ("LAND.WAIT",),
                  ("LAND.WAIT", "1", "2"), ("LAND.RETRY",), ("LAND.DROP",), ("LAND.EXPLAIN",),
                  ("LAND.LOAD",), ("LAND.EVICT",), ("LAND.RULE", "ADD", "x"), ("LAND.RULE", "DEL"),
                  ("LAND.RULE", "LIST", "x")):
        assert "wrong number of arguments" in landed.error(*words), words
    assert "negative" in landed.error("LAND.WAIT", "-1")
    assert landed.error("LAND.WAIT", "soon")
    assert "syntax" in landed.error("LAND.ERRORS", "players", "MANY")
    assert "syntax" in landed.error("LAND.ERRORS", "COUNT")
    landed.error("LAND.ERRORS", "COUNT", "-1")
    assert "no rule takes this key" in landed.error("LAND.EXPLAIN", "plain")
    assert "no rule takes this key" in landed.error("LAND.EVICT", "plain")
    assert "unknown" in landed.error("LAND.RULE", "CHANGE").lower()
    for words in (("LAND.RULE", "ADD", "a", "b:*", "sqlite:x"), ("LAND.FLUSH",), ("LAND.WAIT", "0")):
        landed("MULTI")
        landed.error(*words)
        landed.error("EXEC")
    assert landed("LAND.RULE", "HELP")


# ---- waiting ----

def test_wait_ends_when_everything_has_landed(landed):
    landed("HSET", KEY, "a", "1")
    assert landed("LAND.WAIT", "0") == 1
    assert landed.live() == {"hero:42:a": b"1"} and landed.dirty() == {}
    assert landed("LAND.WAIT", "1000") == 1


def test_wait_gives_up_after_its_time(landing, maria_sink):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed("HSET", KEY, "a", "2")
    with tables_locked(maria_sink, "game_eu"):
        assert landed("LAND.WAIT", "50") == 0
    assert landed("LAND.WAIT", "0") == 1
    assert landed.live() == {"hero:42:a": b"2"}


def test_flush_of_one_rule(start, sqlite_sink):
    landed = Landed(start(), sqlite_sink)
    add(landed.client, RULE, sqlite_sink)
    add(landed.client, USERS, sqlite_sink)
    landed.flush()
    landed("HSET", KEY, "a", "1")
    landed("HSET", "user:1", "name", "bob")
    landed.flush("users")
    assert not landed.sink.has("game_eu") and landed.sink.has("users")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


# ---- copies ----

def test_evict_drops_only_what_has_landed(landed):
    landed("HSET", KEY, "a", "1")
    assert "not landed yet" in landed.error("LAND.EVICT", KEY)
    landed.flush()
    assert landed("LAND.EVICT", KEY, "slug-data:{game:eu:hero:nobody}") == 1
    assert landed("KEYS", "slug-data:*") == [] and landed("LAND.EVICT", KEY) == 0
    assert landed("LAND.LOAD", KEY, "slug-data:{game:eu:hero:nobody}") == 1
    assert landed("KEYS", "slug-data:*") == [KEY.encode()]
    lifts = landed.status()["lifts"]
    assert landed("HGETALL", KEY) == [b"a", b"1"] and landed.status()["lifts"] == lifts


def test_explain_shows_the_sql(landed):
    landed("HSET", KEY, "a", "1", "b'; --", "secret value")
    text = b"\n".join(landed("LAND.EXPLAIN", KEY)).decode()
    assert "INSERT INTO" in text and "game_eu" in text and "up_version" in text
    assert "UPDATE" in text and "SELECT" in text and "query_all_key" in text
    assert "secret value" not in text and "?" in text
    assert ("ON CONFLICT" if landed.sink.kind == "sqlite" else "ON DUPLICATE KEY") in text
    assert not landed.sink.has("game_eu")  # nothing has run
    assert landed("LAND.EXPLAIN", "slug-data:{game:eu:hero:nobody}")
    assert landed.error("LAND.EXPLAIN", "slug-data:{x}")


def test_status_counts(landed):
    status = landed.status()
    assert (status["rule"], status["shape"], status["state"]) == ("players", "object", "ok")
    landed("HSET", KEY, "a", "1", "b", "2")
    assert landed.status()["backlog"] == 2
    wait_until(lambda: landed.status()["oldest_dirty_ms"] > 0)
    landed.flush()
    status = landed.status()
    assert (status["backlog"], status["landed_rows"], status["batches"]) == (0, 2, 1)
    assert (status["oldest_dirty_ms"], status["errors"], status["failures"]) == (0, 0, 0)
    assert status["sql_us"] > 0 and status["batch_rows"] == 2
    assert len(landed("LAND.STATUS")) == 1


# ---- errors ----

@pytest.fixture
def refusing(columns, sink):
    """A table in which one column takes numbers only."""
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER, name VARCHAR(10))")
    return columns(sink)


def test_what_the_database_refuses_is_shown_with_its_reason(refusing):
    before = int(time.time() * 1000)
    refusing("HSET", "user:1", "age", "old", "name", "bob")
    version = int(refusing.dirty()["users&1&age"].split(":")[1])
    refusing.flush_refused()
    assert refusing.dirty() == refusing.dirty(":saving") == {}
    error = error_json(refusing, "users&1&age")
    assert set(error) == {"op", "version", "attempts", "error", "next_ms"}
    assert (error["op"], error["version"], error["attempts"]) == ("UPDATE", version, 1)
    assert "age" in error["error"] and error["next_ms"] > before
    shown = refusing.errors()["users&1&age"]
    assert shown["rule"] == b"users" and shown["error"].decode() == error["error"]
    assert refusing.status("users")["errors"] == 1
    assert refusing.sink.ask("SELECT age, name FROM users") in ([(None, b"bob")], [(None, "bob")])
    assert refusing("LAND.ERRORS", "users", "COUNT", "0") == []
    assert len(refusing("LAND.ERRORS", "COUNT", "5")) == 1
    assert "not landed" in refusing.error("LAND.EVICT", "user:1")
    assert refusing("LAND.WAIT", "1") == 0  # it has not landed
    assert refusing("HGET", "user:1", "age") == b"old"


def test_retry_tries_again_and_the_wait_doubles(refusing):
    """An error is tried again by itself as well, after a second, two, four: nobody has to be faster than that."""
    def error():
        text = refusing.dirty(":error").get("users&1&age")
        return json.loads(text) if text else None

    refusing("HSET", "user:1", "age", "old")
    refusing("HSET", "user:2", "age", "older")
    refusing.flush_refused()
    for _ in range(3):
        before, since = wait_until(error)["attempts"], int(time.time() * 1000)
        wait_until(lambda: refusing("LAND.RETRY", "users", "users&1&age", "nothing") == 1)
        tried = wait_until(lambda: (now := error()) and now["attempts"] > before and now)
        wait = 1000 << tried["attempts"] - 1
        assert since <= tried["next_ms"] - wait <= time.time() * 1000
    if refusing.sink.kind == "mysql":
        refusing.sink.ask("ALTER TABLE users MODIFY age VARCHAR(10)")
        refusing("LAND.RETRY", "users")
        wait_until(lambda: refusing.sink.ask("SELECT age FROM users WHERE age IS NULL") == [])
        wait_until(lambda: refusing.errors() == {})
        assert sorted(refusing.sink.ask("SELECT age FROM users")) == [("old",), ("older",)]


def test_an_error_is_retried_by_itself(columns, sqlite_sink):
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age TEXT)")
    sqlite_sink.ask("CREATE TRIGGER no BEFORE INSERT ON users BEGIN SELECT RAISE(ABORT, 'no'); END")
    landed = columns(sqlite_sink, delay="50")
    landed("HSET", "user:1", "age", "7")
    wait_until(landed.errors)
    sqlite_sink.ask("DROP TRIGGER no")
    wait_until(lambda: landed.errors() == {})
    assert sqlite_sink.ask("SELECT age FROM users") == [(b"7",)]


def test_drop_gives_up(refusing):
    refusing("HSET", "user:1", "age", "old")
    refusing("HSET", "user:2", "age", "older")
    refusing.flush_refused()
    assert refusing("LAND.DROP", "users", "users&1&age") == 1
    assert list(refusing.errors()) == ["users&2&age"]
    assert refusing("LAND.DROP", "users") == 1 and refusing("LAND.DROP", "users") == 0
    assert refusing("HGET", "user:1", "age") == b"old"  # what is here stays
    assert refusing("LAND.WAIT", "0") == 1


# ---- a writer who never stops ----

class Writer(threading.Thread):
    """Sets the one field of a key to 1, 2, 3 … and makes a key each time, until it is stopped."""

    def __init__(self, server, key):
        super().__init__(daemon=True)
        self.client, self.key = server.client(), key
        self.count, self.stopped = 0, False
        self.start()
        wait_until(lambda: self.count > 0)

    def run(self):
        while not self.stopped:
            pipe = self.client.pipeline(transaction=False)
            pipe.hset(self.key, "hot", self.count + 1)
            pipe.hset(f"slug-data:{{game:eu:other:{self.count}}}", "f", "x")
            pipe.execute()
            self.count += 1

    def stop(self):
        self.stopped = True
        self.join(100)


@pytest.mark.parametrize("words", [("LAND.WAIT", "0"), ("LAND.FLUSH", "players")])
def test_a_steady_writer_starves_nobody_who_waits(landing, sqlite_sink, words):
    """It waits for what was written before it came, not for what is written meanwhile."""
    landed = landing(sqlite_sink)
    writer = Writer(landed.server, KEY)
    for _ in range(5):
        before = writer.count
        assert landed(*words) in (1, b"OK")
        assert int(landed.live()["hero:42:hot"]) >= before
    writer.stop()


def test_a_field_that_changes_all_the_time_lands_beside_a_rule_that_is_away(landing, sqlite_sink, tmp_path):
    """The other rule's entries stay in the snapshot, so that this one takes its own from the table itself."""
    landed = landing(sqlite_sink, "tables", "1")
    other = Sqlite(tmp_path / "other.db")
    landed("LAND.RULE", "ADD", "users", "user:*", other.url, "shape", "columns", "table", "users", "key", "id",
           "tables", "1", "delay", NEVER)
    with away(other):
        landed("HSET", "user:1", "name", "bob")
        assert "LANDDOWN" in landed.error("LAND.FLUSH", "users")
        landed.flush("players")  # the snapshot holds the entry of the other rule from here on
        writer = Writer(landed.server, KEY)
        for _ in range(20):
            before = writer.count
            landed.flush("players")
            assert int(landed.live()["hero:42:hot"]) >= before
        writer.stop()
