# SPDX-License-Identifier: Apache-2.0
"""Landing, shape columns: one row a key, one column a field."""
import pytest

from land import KEY, Landed, maria_queries, table_of


def row(landed, *names, key="1"):
    found = landed.sink.ask(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM users "
                            "WHERE id = ?", key)
    assert len(found) == 1, found
    return tuple(item.encode() if isinstance(item, str) else item for item in found[0])


@pytest.fixture
def users(columns, sink):
    return columns(sink)


def test_a_table_is_made_and_gets_columns(users):
    users("HSET", "user:1", "name", "bob", "picture", b"\xff\x00")
    users.flush()
    columns = users.sink.columns("users")
    assert {"id", "name", "picture", "up_version", "is_del", "del_time"} == set(columns)
    assert "TEXT" in columns["name"] and "BLOB" in columns["picture"]
    assert row(users, "name", "picture", "is_del", "del_time") == (b"bob", b"\xff\x00", 0, None)
    users("HSET", "user:1", "age", "7")
    users.flush()
    assert row(users, "name", "age") == (b"bob", b"7")
    users("LAND.EVICT", "user:1")
    assert users.client.hgetall("user:1") == {b"name": b"bob", b"picture": b"\xff\x00", b"age": b"7"}


def test_types_of_a_table_that_is_there_stay(columns, sink):
    exact = "DECIMAL(6,2)" if sink.kind == "mysql" else "TEXT"  # SQLite has no exact decimals
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER, name VARCHAR(5), "
             f"score {exact})")
    users = columns(sink)
    before = sink.columns("users")
    users("HSET", "user:1", "age", "7", "name", "bob", "score", "12.50")
    users("HSET", "user:2", "age", "-3", "name", "eve")
    users.flush()
    assert users.errors() == {}
    assert row(users, "age", "name") == (7, b"bob")
    assert {name: sink.columns("users")[name] for name in before} == before
    users("LAND.EVICT", "user:1", "user:2")
    assert users.client.hgetall("user:1") == {b"age": b"7", b"name": b"bob", b"score": b"12.50"}
    assert users.client.hgetall("user:2") == {b"age": b"-3", b"name": b"eve"}


def test_a_value_that_does_not_fit_is_an_error_and_the_others_land(columns, sink):
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER, name VARCHAR(5))")
    users = columns(sink)
    users("HSET", "user:1", "age", "seven", "name", "bob", "more", "x")
    users("HSET", "user:2", "age", "8", "name", "eve")
    users.flush_refused()
    assert list(users.errors()) == ["users&1&age"]
    assert row(users, "age", "name", "more") == (None, b"bob", b"x")
    assert row(users, "age", "name", key="2") == (8, b"eve")
    if sink.kind == "mysql":
        users("HSET", "user:2", "name", "much too long", "age", "9")
        users.flush_refused()
        assert row(users, "age", "name", key="2") == (9, b"eve")  # never cut
        assert set(users.errors()) == {"users&1&age", "users&2&name"}
    users("HSET", "user:1", "age", "7")
    users.try_flush()
    assert row(users, "age", "name", "more") == (7, b"bob", b"x")
    assert "users&1&age" not in users.errors()


def test_a_removed_field_is_null_and_a_removed_key_is_marked(users):
    users("HSET", "user:1", "a", "1", "b", "2")
    users.flush()
    users("HDEL", "user:1", "a")
    users.flush()
    assert row(users, "a", "b", "is_del") == (None, b"2", 0)
    users("DEL", "user:1")
    users.flush()
    assert row(users, "b", "is_del") == (b"2", 1) and row(users, "del_time")[0] > 0
    assert users("HGETALL", "user:1") == []


@pytest.mark.parametrize("how", ["DEL", "HDEL"])
def test_a_row_that_comes_back_does_not_bring_old_values_back(users, how):
    users("HSET", "user:1", "a", "1", "b", "2")
    users.flush()
    users(*(("DEL", "user:1") if how == "DEL" else ("HDEL", "user:1", "a", "b")))
    users.flush()
    assert row(users, "is_del") == (1,)
    users("HSET", "user:1", "b", "3")
    users.flush()
    assert row(users, "a", "b", "is_del", "del_time") == (None, b"3", 0, None)
    users("LAND.EVICT", "user:1")
    assert users("HGETALL", "user:1") == [b"b", b"3"]


def test_deleted_and_written_again_before_it_lands(users):
    users("HSET", "user:1", "a", "1", "b", "2")
    users.flush()
    users("DEL", "user:1")
    users("HSET", "user:1", "b", "3")
    users.flush()
    assert row(users, "a", "b", "is_del") == (None, b"3", 0)
    users("HSET", "plain", "c", "4")
    users("RENAME", "plain", "user:1")
    users.flush()
    assert row(users, "a", "b", "c") == (None, None, b"4")


def test_a_blind_write_leaves_the_other_columns(users):
    users("HSET", "user:1", "a", "1", "b", "2")
    users.evict("user:1")
    users("HSET", "user:1", "a", "9")
    users.flush()
    assert row(users, "a", "b") == (b"9", b"2")
    assert users("HGETALL", "user:1") == [b"a", b"9", b"b", b"2"]


def test_entries_are_encoded(users):
    key = "user:a&b%c"
    users("HSET", key, "x", "1")
    users("HSET", "user:a%26b", "x", "2")
    assert set(users.dirty()) == {"users&a%26b%25c&x", "users&a%2526b&x"}
    n = table_of(key)
    assert users("HEXISTS", f"slug-persist:{{dirtyKey:{n}}}", "users&a%26b%25c&x") == 1
    users("DEL", "user:a%26b")
    assert users.dirty()["users&a%2526b&"].startswith("REMOVE:")
    users.flush()
    assert row(users, "x", "is_del", key="a&b%c") == (b"1", 0)
    assert row(users, "is_del", key="a%26b") == (1,)


def test_ids_compare_as_bytes(users):
    ids = ["a", "A", "a ", "ä", "a\u0308", "x:y", "'", "\U0001f600", "x" * 512]
    for i, name in enumerate(ids):
        users("HSET", f"user:{name}", "n", i)
    users.flush()
    assert users.errors() == {}
    assert len(users.sink.ask("SELECT id FROM users")) == len(ids)
    users("LAND.EVICT", *[f"user:{name}" for name in ids])
    for i, name in enumerate(ids):
        assert users("HGET", f"user:{name}", "n") == b"%d" % i


def test_what_cannot_be_a_row_is_refused_at_the_write(users):
    for key in ("user:", b"user:\xff", "user:" + "x" * 513):
        users.error("HSET", key, "a", "1")
        assert users("EXISTS", key) == 0
    for field in ("", b"\xff", "id", "up_version", "is_del", "del_time", "cachedAllKey", "x" * 65):
        users.error("HSET", "user:1", "good", "1", field, "1")
    assert users("EXISTS", "user:1") == 0 and users.dirty() == {}


def test_a_table_with_another_key_is_an_error(columns, sink):
    sink.ask("CREATE TABLE users (other VARCHAR(64) PRIMARY KEY, id TEXT)")
    users = columns(sink)
    users("HSET", "user:1", "a", "1")
    users.flush_refused()
    assert b"primary key" in users.errors()["users&1&a"]["error"]
    sink.ask("DROP TABLE users")
    users("LAND.RETRY", "users")
    users.flush()
    assert row(users, "a") == (b"1",) and users.errors() == {}


def test_upper_and_lower_case_are_two_fields_or_an_error(users):
    users("HSET", "user:1", "name", "a", "NAME", "b")
    users.flush_refused()
    assert row(users, "name")[0] in (b"a", b"b") and len(users.errors()) == 1


def test_a_version_of_a_row_raises_ours(users):
    users("HSET", "user:1", "a", "1")
    users.evict("user:1")
    ahead = row(users, "up_version")[0] + (3600 * 1000 << 20)
    users.sink.ask("UPDATE users SET a = 'theirs', up_version = ?", ahead)
    assert users("HGETALL", "user:1") == [b"a", b"theirs"]
    users("HSET", "user:1", "a", "ours")
    users.flush()
    assert row(users, "a") == (b"ours",) and row(users, "up_version")[0] > ahead


def test_a_rule_of_all_keys_does_not_take_landings_own(columns, sqlite_sink):
    users = columns(sqlite_sink, pattern="*")
    users("HSET", "a", "name", "bob")
    own = f"slug-persist:{{dirtyKey:{table_of('a')}}}"
    assert users("LAND.SYNC", "users") == [1, 0]
    users.flush()
    assert sqlite_sink.ask("SELECT id FROM users") == [(b"a",)]
    for words in (("LAND.EVICT", own), ("LAND.EXPLAIN", own), ("HSET", own, "x", "1")):
        assert "landing's own" in (said := users.error(*words)) or "no rule takes" in said, words


# ---- what others see, and what it costs ----

def test_a_flush_that_the_database_refused_something_of_is_an_error(columns, sink):
    """Who hears OK may empty the store."""
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER, name VARCHAR(5))")
    users = columns(sink, "flush", "store-only")
    users("HSET", "user:1", "age", "seven", "name", "bob")
    said = users.error("LAND.FLUSH")
    assert said.startswith("LANDREFUSED") and "LAND.ERRORS" in said
    assert users.error("LAND.FLUSH", "users").startswith("LANDREFUSED")  # nothing is new, and it is as before
    users("HSET", "user:1", "age", "7")
    users.flush()
    assert row(users, "age", "name") == (7, b"bob")


def test_a_flush_of_a_rule_is_not_an_error_of_another(start, sqlite_sink, maria_sink):
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age INTEGER)")
    users = Landed(start("--land", "users", "user:*", sqlite_sink.url, "shape", "columns", "table", "users", "key",
                         "id", "--land", "players", "slug-data:{*}", maria_sink.url), sqlite_sink)
    users("HSET", "user:1", "age", "seven")
    users("HSET", KEY, "a", "1")
    users.flush_refused("users")
    users.flush("players")
    users.flush_refused()


def test_rows_of_a_table_that_is_adopted_are_not_hidden(columns, sink):
    """The documented way to read is WHERE is_del = 0."""
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, name VARCHAR(5))")
    sink.ask("INSERT INTO users VALUES ('1', 'bob')")
    users = columns(sink)
    users("HSET", "user:2", "name", "eve")
    users.flush()
    sink.ask("INSERT INTO users (id, name) VALUES ('3', 'ada')")
    assert len(sink.ask("SELECT id FROM users WHERE is_del = 0")) == 3
    assert [users("HGET", f"user:{n}", "name") for n in (1, 2, 3)] == [b"bob", b"eve", b"ada"]


@pytest.fixture
def log(maria):
    """What MariaDB was asked."""
    maria.ask("SET GLOBAL log_output = 'TABLE'")
    maria.ask("TRUNCATE TABLE mysql.general_log")
    maria.ask("SET GLOBAL general_log = 1")
    yield
    maria.ask("SET GLOBAL general_log = 0")


def test_a_new_column_of_a_thousand_rows_is_one_statement(columns, maria_sink, log):
    users = columns(maria_sink)
    with users.client.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.hset(f"user:{n}", mapping={"name": n, "gold": n, "silver": n})
        pipe.execute()
    users.flush()
    assert maria_queries(maria_sink, "ALTER TABLE%") == 3
    assert len(maria_sink.ask("SELECT id FROM users WHERE gold = silver")) == 1000


def test_fields_that_many_rows_share_count_once_towards_the_limit(columns, maria_sink, log):
    """200 columns, each in 4 rows of one batch: together they are more than the 512 that a table gets."""
    users = columns(maria_sink, "tables", "1")
    with users.client.pipeline() as pipe:
        for n in range(4):
            pipe.hset(f"user:{n}", mapping={f"f{f}": "x" for f in range(200)})
        pipe.execute()
    users.flush()
    assert users.errors() == {} and len(maria_sink.columns("users")) == 204
    assert maria_queries(maria_sink, "INSERT INTO `users`%") == 1  # it was not halved


def test_a_lift_does_not_read_the_schema_again(columns, maria_sink, log):
    users = columns(maria_sink)
    for n in range(20):
        users("HSET", f"user:{n}", "name", "bob")
    users.evict(*[f"user:{n}" for n in range(20)])
    assert users("HGETALL", "user:0") == [b"name", b"bob"]
    before = maria_queries(maria_sink, "%information_schema%")
    for n in range(1, 20):
        assert users("HGETALL", f"user:{n}") == [b"name", b"bob"]
    assert maria_queries(maria_sink, "%information_schema%") == before
    maria_sink.ask("ALTER TABLE users ADD COLUMN more TEXT")
    maria_sink.ask("UPDATE users SET more = 'x'")
    users("LAND.EVICT", "user:1")
    assert users("HGETALL", "user:1") == [b"more", b"x", b"name", b"bob"]
