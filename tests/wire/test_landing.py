# SPDX-License-Identifier: Apache-2.0
"""Landing, shape object: what is written reaches SQL, as it was last written."""
import time

import pytest
import redis

from conftest import start_refused
from land import KEY, table_of
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

OTHER = "slug-data:{game:eu:hero:43}"
ENTRY = "game&eu&hero&42&"


# ---- the table ----

def test_the_table_is_that_of_the_spec(landed):
    landed("HSET", KEY, "name", "bob")
    landed.flush()
    columns = landed.sink.columns("game_eu")
    assert list(columns) == ["primary_key", "logic_type", "owner_id", "key", "value", "up_version",
                             "is_del", "del_time", "create_time", "update_time", "query_all_key"]
    for name in ("primary_key", "query_all_key"):
        assert columns[name] == "VARCHAR(512)"
    for name in ("up_version", "del_time", "create_time", "update_time"):
        assert columns[name].startswith("BIGINT"), name
    if landed.sink.kind == "mysql":
        assert columns["value"] == "LONGBLOB"
        collations = landed.sink.ask(
            "SELECT DISTINCT collation_name FROM information_schema.columns WHERE table_schema = ? "
            "AND table_name = 'game_eu' AND collation_name IS NOT NULL", landed.sink.name)
        assert collations in ([("utf8mb4_bin",)], [("utf8mb4_nopad_bin",)])
        keys = {(row[2], row[4]) for row in landed.sink.ask("SHOW INDEX FROM game_eu")}
        assert ("PRIMARY", "primary_key") in keys
        assert [name for name, column in keys if column == "query_all_key"]
    else:
        assert columns["value"] in ("BLOB", "LONGBLOB")
        plan = landed.sink.ask("EXPLAIN QUERY PLAN SELECT * FROM game_eu WHERE query_all_key = 'x'")
        assert b"USING INDEX" in plan[0][3]


def test_a_row_says_what_it_is(landed):
    before = int(time.time() * 1000)
    landed("HSET", KEY, "name", "bob")
    landed.flush()
    after = int(time.time() * 1000)
    row = landed.sink.ask("SELECT logic_type, owner_id, `key`, value, is_del, del_time, "
                          "query_all_key, create_time, update_time, up_version FROM game_eu")[0]
    texts = [item.decode() if isinstance(item, bytes) else item for item in row[:7]]
    assert texts == ["hero", "42", "name", "bob", 0, None, "hero:42"]
    assert before <= row[7] <= row[8] <= after
    assert row[9] > 0
    landed("HSET", KEY, "name", "eve")
    landed.flush()
    again = landed.sink.ask("SELECT create_time, update_time, up_version FROM game_eu")[0]
    assert again[0] == row[7] and again[1] >= row[8] and again[2] > row[9]


def test_ids_compare_as_bytes(landed):
    owners = ["a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "%", "_", "'", '"', "`", "\\", "\U0001f600"]
    for i, owner in enumerate(owners):
        key = f"slug-data:{{game:eu:hero:{owner}}}"
        landed("HSET", key, "f", i, "F", -i, "f ", i + 100)
    landed.flush()
    assert len(landed.rows()) == 3 * len(owners)
    keys = [f"slug-data:{{game:eu:hero:{owner}}}" for owner in owners]
    landed.evict(*keys)
    for i, key in enumerate(keys):
        assert landed("HGETALL", key) == [b"F", b"%d" % -i, b"f", b"%d" % i, b"f ", b"%d" % (i + 100)]


def test_a_pipeline_names_a_new_app_and_region(landed):
    """Commands on one key, one behind the other, each of which changes several of landing's hashes."""
    first = "slug-data:{game:us:hero:1}"
    pipe = landed.client.pipeline(transaction=False)
    for owner in range(64):  # marks in every dirty table
        pipe.hset(f"slug-data:{{game:eu:hero:{owner}}}", "f", owner)
    for field in "abc":
        pipe.hset(first, field, field)
    assert pipe.execute() == [1] * 67
    landed.flush()
    assert landed.live("game_us") == {f"hero:1:{field}": field.encode() for field in "abc"}
    assert len(landed.live()) == 64


def test_a_value_is_any_bytes(landed):
    values = [b"", b"\0", b"\xff\xfe\0x", b"'; DROP TABLE game_eu; --", b"x" * 300_000,
              "ü\U0001f600".encode(), b"007", b"1e5", b" 1 "]
    for i, value in enumerate(values):
        landed("HSET", KEY, f"f{i}", value)
    landed.flush()
    assert landed.live() == {f"hero:42:f{i}": value for i, value in enumerate(values)}
    landed.evict(KEY)
    assert landed("HMGET", KEY, *[f"f{i}" for i in range(len(values))]) == values


def test_a_field_is_any_text(landed):
    fields = [":", "&", "a:b&c", "%26", "a b", "ü", "'", '"', "`", "\\", "?", "\0", "\n", "%s", "x" * 504]
    for field in fields:
        landed("HSET", KEY, field, field)
    assert set(landed.dirty()) == {ENTRY + field for field in fields}
    landed.flush()
    assert landed.live() == {f"hero:42:{field}": field.encode() for field in fields}
    landed.evict(KEY)
    assert landed("HLEN", KEY) == len(fields)
    assert landed("HMGET", KEY, *fields) == [field.encode() for field in fields]


# ---- commands that write ----

def write_hset(landed):
    assert landed("HSET", KEY, "a", "9", "d", "4") in (1, 2)  # new here: HSET does not ask SQL
    return {"a": b"9", "b": b"2", "c": b"3", "d": b"4"}


def write_hmset(landed):
    assert landed("HMSET", KEY, "a", "9", "d", "4") in (b"OK", True)
    return {"a": b"9", "b": b"2", "c": b"3", "d": b"4"}


def write_hsetnx(landed):
    assert landed("HSETNX", KEY, "a", "9") == 0 and landed("HSETNX", KEY, "d", "4") == 1
    return {"a": b"1", "b": b"2", "c": b"3", "d": b"4"}


def write_hincrby(landed):
    assert [landed("HINCRBY", KEY, "a", 5) for _ in range(3)][-1] == 16
    assert landed("HINCRBY", KEY, "d", -1) == -1
    return {"a": b"16", "b": b"2", "c": b"3", "d": b"-1"}


def write_hincrbyfloat(landed):
    landed("HINCRBYFLOAT", KEY, "a", "0.25")
    return {"a": b"1.25", "b": b"2", "c": b"3"}


def write_hdel(landed):
    assert landed("HDEL", KEY, "a", "b", "nothing") == 2
    return {"c": b"3"}


def write_hdel_of_all(landed):
    assert landed("HDEL", KEY, "a", "b", "c") == 3
    return {}


def write_del(landed):
    assert landed("DEL", KEY) == 1
    return {}


def write_unlink(landed):
    assert landed("UNLINK", KEY, "nothing") == 1
    return {}


def write_del_and_hset(landed):
    landed("DEL", KEY)
    landed("HSET", KEY, "a", "new")
    return {"a": b"new"}


def write_set(landed):
    landed("SET", KEY, "text")
    return {}


def write_set_and_back(landed):
    landed("SET", KEY, "text")
    landed("DEL", KEY)
    landed("HSET", KEY, "b", "new")
    return {"b": b"new"}


def write_multi(landed):
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.hset(KEY, "a", "9").hdel(KEY, "b").hincrby(KEY, "c", 4).execute()
    return {"a": b"9", "c": b"7"}


def write_multi_del(landed):
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.hset(KEY, "a", "9").delete(KEY).hset(KEY, "z", "1").execute()
    return {"z": b"1"}


def write_rename_away(landed):
    landed("RENAME", KEY, "plain")
    assert landed("HLEN", "plain") == 3
    return {}


def write_rename_here(landed):
    landed("HSET", "plain", "x", "1", "a", "9")
    landed("RENAME", "plain", KEY)
    return {"x": b"1", "a": b"9"}


def write_renamenx_here(landed):
    landed("HSET", "plain", "x", "1")
    assert landed("RENAMENX", "plain", KEY) == 0
    landed("DEL", KEY)
    assert landed("RENAMENX", "plain", KEY) == 1
    return {"x": b"1"}


def write_copy_here(landed):
    landed("HSET", "plain", "x", "1")
    assert landed("COPY", "plain", KEY) == 0
    assert landed("COPY", "plain", KEY, "REPLACE") == 1
    return {"x": b"1"}


def write_move_away(landed):
    assert landed("MOVE", KEY, 5) == 1
    return {}


def write_copy_from_another_database(landed):
    with landed.server.client(db=5) as other:
        other.hset("plain", "x", "1")
        assert other.execute_command("COPY", "plain", KEY, "DB", 0, "REPLACE") == 1
    return {"x": b"1"}


def write_move_here(landed):
    landed("DEL", KEY)
    with landed.server.client(db=5) as other:
        other.hset(KEY, "x", "1")
        assert other.execute_command("MOVE", KEY, 0) == 1
    return {"x": b"1"}


WRITES = [value for name, value in sorted(globals().items()) if name.startswith("write_")]


def write_and_compare(landed, write, how):
    landed("HSET", KEY, "a", "1", "b", "2", "c", "3")
    if how != "unlanded":
        landed.flush()
    if how == "evicted":
        landed.evict(KEY)
    want = write(landed)
    here = {name.encode(): value for name, value in want.items()}
    if landed("TYPE", KEY) != b"string":
        assert landed.client.hgetall(KEY) == here, write
    landed.flush()
    assert landed.live() == {f"hero:42:{name}": value for name, value in want.items()}, write
    assert landed.dirty() == landed.dirty(":saving") == landed.dirty(":error") == {}, write
    if landed("TYPE", KEY) == b"hash":
        landed("LAND.EVICT", KEY)
        assert landed.client.hgetall(KEY) == here, write


@pytest.mark.parametrize("how", ["here", "evicted", "unlanded"])
def test_what_a_command_writes_lands(landed, how):
    for write in WRITES:
        write_and_compare(landed, write, how)
        landed("DEL", KEY, "plain")
        with landed.server.client(db=5) as other:
            other.flushdb()
        landed.flush()


def test_between_two_keys_of_a_rule(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    landed("HSET", OTHER, "z", "26")
    landed.flush()
    landed("RENAME", KEY, OTHER)
    landed.flush()
    assert landed.live() == {"hero:43:a": b"1", "hero:43:b": b"2"}
    landed("COPY", OTHER, KEY)
    landed("HSET", OTHER, "a", "changed")
    landed.flush()
    assert landed.live() == {"hero:43:a": b"changed", "hero:43:b": b"2",
                             "hero:42:a": b"1", "hero:42:b": b"2"}


def test_a_removed_row_keeps_its_last_value(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.flush()
    before = int(time.time() * 1000)
    landed("HDEL", KEY, "a")
    landed.flush()
    assert landed.rows() == {"hero:42:a": (b"1", 1), "hero:42:b": (b"2", 0)}
    landed("DEL", KEY)
    landed.flush()
    assert landed.rows() == {"hero:42:a": (b"1", 1), "hero:42:b": (b"2", 1)}
    for time_ms, in landed.sink.ask("SELECT del_time FROM game_eu"):
        assert before <= time_ms <= int(time.time() * 1000)
    landed("HSET", KEY, "a", "3")
    landed.flush()
    assert landed.rows() == {"hero:42:a": (b"3", 0), "hero:42:b": (b"2", 1)}
    assert landed.sink.ask("SELECT del_time FROM game_eu WHERE `key` = 'a'") == [(None,)]


def test_what_never_landed_and_went_is_noted_as_removed(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    landed("HDEL", KEY, "a")
    landed.flush()
    assert landed.live() == {"hero:42:b": b"2"}
    assert landed("HEXISTS", KEY, "a") == 0


def test_the_version_is_the_lsn_of_the_commit(landed):
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.hset(KEY, "a", 1).hset(KEY, "b", 2).execute()
    landed("HSET", KEY, "c", 3)
    marks = landed.dirty()
    landed.flush()
    for name in "abc":
        assert marks[ENTRY + name] == f"UPDATE:{landed.version(f'hero:42:{name}')}"
    assert landed.version("hero:42:a") == landed.version("hero:42:b")
    assert landed.version("hero:42:b") < landed.version("hero:42:c")


# ---- dirty tables ----

@pytest.mark.parametrize("tables", [1, 4, 64])
def test_the_dirty_table_is_xxh64_of_the_key_modulo_tables(landing, sqlite_sink, tables):
    landed = landing(sqlite_sink, "tables", str(tables))
    for i in range(50):
        key = f"slug-data:{{game:eu:hero:{i}}}"
        landed("HSET", key, "f", i)
        n = table_of(key, tables)
        assert landed("HEXISTS", f"slug-persist:{{dirtyKey:{n}}}", f"game&eu&hero&{i}&f") == 1
    assert len(landed.dirty(tables=tables)) == 50
    landed.flush()
    assert landed.dirty(tables=tables) == {} and len(landed.live()) == 50


def test_marks_say_what_happened(landed):
    landed("HSET", KEY, "a", "1", "b", "2")
    assert {entry: mark.split(":")[0] for entry, mark in landed.dirty().items()} == \
        {ENTRY + "a": "UPDATE", ENTRY + "b": "UPDATE"}
    landed("HDEL", KEY, "a")
    assert landed.dirty()[ENTRY + "a"].startswith("REMOVE:")
    landed("HSET", KEY, "b", "3")
    assert len(landed.dirty()) == 2  # one entry a field
    landed("DEL", KEY)
    assert landed.dirty()[ENTRY].startswith("REMOVE:")
    assert all(mark.split(":")[1].isdigit() for mark in landed.dirty().values())


def test_a_change_of_a_whole_key_is_one_entry(landed):
    landed("HSET", "plain", *[word for i in range(5000) for word in (f"f{i}", i)])
    landed("RENAME", "plain", KEY)
    assert list(landed.dirty()) == [ENTRY]
    landed.flush()
    assert len(landed.live()) == 5000


def test_clients_may_read_the_dirty_tables_and_not_write_them(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1")
    landed("HSET", "plain", "x", "1")
    own = f"slug-persist:{{dirtyKey:{table_of(KEY)}}}"
    before = landed("HGETALL", own)
    refused = [("HSET", own, ENTRY + "a", "UPDATE:1"), ("HSETNX", own, "x", "1"),
               ("HDEL", own, ENTRY + "a"), ("HINCRBY", own, "x", 1), ("HINCRBYFLOAT", own, "x", 1),
               ("HMSET", own, "x", "1"), ("DEL", own), ("UNLINK", own), ("SET", own, "x"),
               ("SETEX", own, 10, "x"), ("MSET", own, "x"),
               ("RENAME", own, "plain"), ("RENAME", "plain", own), ("RENAMENX", own, "other"),
               ("COPY", "plain", own, "REPLACE"), ("MOVE", own, 5), ("EXPIRE", own, 100),
               ("EXPIRE", own, -1), ("PEXPIREAT", own, 1), ("EXPIREAT", own, 99999999999),
               ("SORT", "nothing", "STORE", own), ("SINTERSTORE", own, "nothing"),
               ("ZUNIONSTORE", own, 1, "nothing"), ("BITOP", "NOT", own, "nothing")]
    for words in refused:
        assert "landing's own" in landed.error(*words), words
    for name in ("slug-persist:{dirtyKey:0}:saving", "slug-persist:{dirtyKey:63}",
                 "slug-persist:{dirtyKey:1}:error", "slug-persist:{dirtyKey:1}:lock",
                 "slug-persist:{rules}", "slug-persist:{tables}", "slug-persist:{anything}"):
        for words in (("HSET", name, "x", "1"), ("SET", name, "1"), ("LPUSH", name, "1"),
                      ("SADD", name, "1"), ("ZADD", name, 1, "1"), ("RENAME", "plain", name),
                      ("COPY", "plain", name, "REPLACE"), ("APPEND", name, "x"), ("INCR", name),
                      ("SETBIT", name, 1, 1), ("PFADD", name, "x")):
            said = landed.error(*words)
            assert "landing's own" in said or "WRONGTYPE" in said or "unknown" in said, (words, said)
    for words in (("LPUSH", own, "x"), ("SADD", own, "x"), ("APPEND", own, "x"), ("INCR", own)):
        landed.error(*words)
    assert landed("HGETALL", own) == before
    assert landed("TYPE", own) == b"hash" and landed("TTL", own) == -1
    assert landed("HLEN", own) == 1 and landed("EXISTS", own) == 1
    assert landed("COPY", own, "mine") == 1 and landed("HGETALL", "mine") == before
    assert landed("PERSIST", own) == 0
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.hset(own, "x", "1")
        with pytest.raises(redis.ResponseError):
            pipe.execute()
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


# ---- refused writes ----

BAD_KEYS = [
    "slug-data:{game:eu:hero:4:2}", "slug-data:{game:eu:hero:4&2}", "slug-data:{ga&me:eu:hero:42}",
    "slug-data:{game:e&u:hero:42}", "slug-data:{game:eu:he&ro:42}", "slug-data:{game:eu:hero}",
    "slug-data:{game}", "slug-data:{}", "slug-data:{:eu:hero:42}", "slug-data:{game::hero:42}",
    "slug-data:{game:eu::42}", "slug-data:{game:eu:hero:}", b"slug-data:{game:eu:hero:\xff}",
    b"slug-data:{g\xffame:eu:hero:42}", "slug-data:{" + "g" * 62 + ":eu:hero:42}",
    "slug-data:{game:eu:hero:" + "x" * 600 + "}", "slug-data:{game:eu:hero:" + "x" * 507 + "}"]


def test_a_key_that_is_no_address_is_refused_at_the_write(landed):
    landed("HSET", "plain", "a", "1")
    for key in BAD_KEYS:
        for words in (("HSET", key, "a", "1"), ("HMSET", key, "a", "1"), ("HSETNX", key, "a", "1"),
                      ("HINCRBY", key, "a", "1"), ("HINCRBYFLOAT", key, "a", "1"),
                      ("RENAME", "plain", key), ("RENAMENX", "plain", key), ("COPY", "plain", key)):
            landed.error(*words)
        assert landed("EXISTS", key) == 0 and landed("EXISTS", "plain") == 1
        assert landed("HGETALL", key) == [] and landed("HGET", key, "a") is None
        assert landed("DEL", key) == landed("HDEL", key, "a") == 0
    assert landed.dirty() == {}
    landed.flush()
    assert not landed.sink.has("game_eu")


def test_a_field_that_cannot_land_is_refused_at_the_write(landed):
    for field in ("", b"\xff", "x" * 505, "ü" * 505, "cachedAllKey"):
        refuse_field(landed, field)
    landed.flush()
    assert landed.live() == {"hero:42:good": b"1"}


def refuse_field(landed, field):
    landed("DEL", KEY)
    for words in (("HSET", KEY, "good", "1", field, "1"), ("HMSET", KEY, "good", "1", field, "1"),
                  ("HSETNX", KEY, field, "1"), ("HINCRBY", KEY, field, "1"),
                  ("HINCRBYFLOAT", KEY, field, "1")):
        landed.error(*words)
    assert landed("EXISTS", KEY) == 0
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.hset(KEY, field, "1").hset(KEY, "good", "1")
        results = pipe.execute(raise_on_error=False)
    assert isinstance(results[0], redis.ResponseError) and results[1] == 1
    assert landed("HKEYS", KEY) == [b"good"] and landed("HGET", KEY, field) is None


def test_the_longest_field_is_counted_in_characters(landed):
    field = "ü" * 504
    landed("HSET", KEY, field, "1")
    landed.flush()
    assert landed.live() == {f"hero:42:{field}": b"1"}


@pytest.mark.parametrize("how", ["RENAME", "COPY"])
def test_fields_that_cannot_land_and_come_with_a_whole_key_are_errors(landed, how):
    """A change of a whole key is O(1): what is in it is found out when it lands."""
    landed("HSET", "plain", "good", "1", "cachedAllKey", "1", b"\xff", "2", "x" * 600, "3", "z", "4")
    landed(how, "plain", KEY)
    landed.flush_refused()
    assert landed.live() == {"hero:42:good": b"1", "hero:42:z": b"4"}
    refused = landed("LAND.ERRORS")
    assert len(refused) == 3
    landed("DEL", KEY)
    landed("LAND.RETRY", "players")
    landed.try_flush()
    wait_until(lambda: landed("LAND.ERRORS") == [])
    assert landed.live() == {}


def test_an_empty_field_that_comes_with_a_whole_key_is_an_error(landed):
    landed("HSET", "plain", "good", "1", "", "1")
    landed("RENAME", "plain", KEY)
    landed.flush_refused()
    assert landed.live() == {"hero:42:good": b"1"}
    assert len(landed.errors()) == 1


def test_a_table_belongs_to_the_first_app_and_region(landed):
    landed("HSET", "slug-data:{a_b:c:t:1}", "f", "1")
    for words in (("HSET", "slug-data:{a:b_c:t:1}", "f", "2"),
                  ("HINCRBY", "slug-data:{a:b_c:t:1}", "f", "2")):
        assert "belongs to" in landed.error(*words)
    assert landed("EXISTS", "slug-data:{a:b_c:t:1}") == 0
    landed.flush()
    assert landed.live("a_b_c") == {"t:1:f": b"1"}
    assert "belongs to" in landed.error("HSET", "slug-data:{a:b_c:t:1}", "f", "2")


def test_a_table_of_another_pair_in_sql_is_not_written(landed, landing, sink):
    landed("HSET", "slug-data:{a_b:c:t:1}", "f", "1")
    landed.flush()
    second = landing(sink, name="second")
    second("HSET", "slug-data:{a:b_c:t:1}", "f", "2")  # this store does not know yet
    second.flush_refused()
    assert list(second.errors()) == ["a&b_c&t&1&f"]
    assert landed.live("a_b_c") == {"t:1:f": b"1"}


# ---- whole databases ----

def test_flushing_a_database_with_rules_is_refused(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1")
    for words in (("FLUSHDB",), ("FLUSHALL",), ("FLUSHALL", "ASYNC"), ("SWAPDB", 0, 1),
                  ("SWAPDB", 3, 0)):
        assert "landing rule players" in landed.error(*words), words
    with landed.server.client(db=3) as other:
        other.set("k", "1")
        assert other.flushdb() and other.dbsize() == 0
    assert landed("HGET", KEY, "a") == b"1"
    assert landed("SWAPDB", 2, 3)
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


def test_flush_store_only_leaves_sql_as_it_is(landing, sink):
    landed = landing(sink, "flush", "store-only")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    assert landed("FLUSHDB")
    assert landed("KEYS", "slug-data:*") == []
    assert landed("HGETALL", KEY) == [b"a", b"1"]
    assert landed("FLUSHALL")
    landed("HSET", KEY, "b", "2")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1", "hero:42:b": b"2"}
    assert "landing rule" in landed.error("SWAPDB", 0, 1)


@pytest.mark.parametrize("words", [("FLUSHDB",), ("FLUSHALL",), ("SWAPDB", 0, 2)],
                         ids=lambda words: words[0])
def test_stored_rules_survive_a_flush_of_their_database(start, sqlite_sink, words):
    """Rules made by a command are kept in database 0, whatever database they are for."""
    server = start()
    client = server.client()
    rule = "players slug-data:{*} " + sqlite_sink.url + " db 1 flush store-only"
    client.execute_command("LAND.RULE", "ADD", *rule.split())
    client.set("plain", 1)
    try:
        client.execute_command(*words)
    except redis.ResponseError:
        pass
    server.stop()
    client = start().client()
    assert client.execute_command("LAND.RULE", "LIST") == [rule.encode()]
    assert "landing's own" in pytest.raises(redis.ResponseError, client.hset, "slug-persist:{rules}",
                                            "x", "y").value.args[0]


# ---- other databases ----

def test_a_rule_is_for_one_database(start, sqlite_sink):
    server = start("--land", "players", "slug-data:{*}", sqlite_sink.url, "db", "3", "delay", "600000")
    with server.client(db=3) as there, server.client() as here:
        here.hset(KEY, "a", "0")
        there.hset(KEY, "a", "1")
        assert here.execute_command("LAND.FLUSH") == b"OK"
        assert sqlite_sink.ask("SELECT value FROM game_eu") == [(b"1",)]
        assert here.exists("slug-persist:{tables}") == 0
        assert there.exists("slug-persist:{tables}") == 1
        assert here.flushdb()


# ---- time to live ----

def test_a_ttl_is_the_life_of_the_copy(landed):
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed("PEXPIRE", KEY, 1)
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed.live() == {"hero:42:a": b"1"}
    assert landed("HGET", KEY, "a") == b"1" and landed("TTL", KEY) == -1
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


def test_a_deadline_in_the_past_is_the_end_of_the_copy_only(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    for words in (("EXPIRE", -1), ("EXPIRE", 0), ("PEXPIRE", -5), ("EXPIREAT", 1), ("PEXPIREAT", 1)):
        for is_landed in (True, False):
            landed("HSET", KEY, "a", words[0])
            if is_landed:
                landed.flush()
            assert landed(words[0], KEY, words[1]) == 1
            landed.flush()
            assert landed.live() == {"hero:42:a": words[0].encode()}
            assert landed("HGETALL", KEY) == [b"a", words[0].encode()]


def test_a_ttl_set_before_the_landing_waits_for_it(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1")
    landed("PEXPIRE", KEY, 20)
    wait_until(lambda: landed("PTTL", KEY) > 20)  # the sweep has met it
    assert landed("HGETALL", KEY) == [b"a", b"1"] and landed("EXISTS", KEY) == 1
    landed.flush()
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HGETALL", KEY) == [b"a", b"1"]


def test_expire_delete_is_a_delete_in_sql(landing, sink):
    landed = landing(sink, "expire", "delete")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed("PEXPIRE", KEY, 1)
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HGETALL", KEY) == []
    wait_until(lambda: landed.flush() or landed.rows() == {"hero:42:a": (b"1", 1)})
    landed("HSET", KEY, "b", "2")
    landed("EXPIRE", KEY, -1)
    wait_until(lambda: landed("HGETALL", KEY) == [])
    wait_until(lambda: landed.flush() or landed.live() == {})


def test_keep_drops_copies_after_they_have_landed(landing, sink):
    landed = landing(sink, "keep", "50")
    landed("HSET", KEY, "a", "1", "b", "2")
    assert landed("TTL", KEY) == -1
    landed.flush()
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HGETALL", KEY) == [b"a", b"1", b"b", b"2"]  # lifted, with a lifetime again
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HGET", KEY, "a") == b"1"
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HINCRBY", KEY, "a", 1) == 2
    landed.flush()
    assert landed.live() == {"hero:42:a": b"2", "hero:42:b": b"2"}


def test_keep_counts_from_the_last_landing(landing, sqlite_sink):
    landed = landing(sqlite_sink, "keep", "100000")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    first = landed("PEXPIRETIME", KEY)
    assert first > 0
    landed("HSET", KEY, "a", "2")
    wait_until(lambda: int(time.time() * 1000) > first - 100000)
    landed.flush()
    assert landed("PEXPIRETIME", KEY) > first
    landed.evict(KEY)
    assert landed("HGETALL", KEY) == [b"a", b"2"]
    assert 0 < landed("PTTL", KEY) <= 100000


# ---- starting ----

def test_a_restart_lands_what_was_left(landing, start, sink):
    landed = landing(sink)
    landed("HSET", KEY, "a", "1")
    assert landed.server.stop() == 0
    landed = landing(sink)
    wait_until(lambda: landed.live() == {"hero:42:a": b"1"})
    assert landed("HGETALL", KEY) == [b"a", b"1"]


def test_the_delay_lands_by_itself(landing, sqlite_sink):
    landed = landing(sqlite_sink, delay="20")
    for i in range(3):
        landed("HSET", KEY, "a", i)
        wait_until(lambda: landed.live() == {"hero:42:a": b"%d" % i})


def test_many_marks_do_not_wait_for_the_delay(landing, sqlite_sink):
    landed = landing(sqlite_sink, "batch", "10")
    landed.client.hset(KEY, mapping={f"f{i}": i for i in range(200)})
    wait_until(lambda: len(landed.live()) == 200)


BAD_RULES = [
    ("players slug-data:{*}", "name pattern sink"),
    ("play\u00e9rs slug-data:{*} sqlite:x", "letters, digits"),
    ("players slug-data:{x} sqlite:x", "one *"),
    ("players slug-data:{*}* sqlite:x", "one *"),
    ("players user:* sqlite:x", "shape object"),
    ("players user:* sqlite:x shape columns", "table T key K"),
    ("players user:* sqlite:x shape columns table t", "table T key K"),
    ("players slug-data:{*} sqlite:x table t", "shape columns"),
    ("players slug-data:{*} nothing:x", "sqlite"),
    ("players slug-data:{*} mysql://", ""),
    ("players slug-data:{*} sqlite:x shape cube", "object or columns"),
    ("players slug-data:{*} sqlite:x tables 0", "from 1 to 64"),
    ("players slug-data:{*} sqlite:x tables 65", "from 1 to 64"),
    ("players slug-data:{*} sqlite:x batch 0", "batch"),
    ("players slug-data:{*} sqlite:x delay 0", "delay"),
    ("players slug-data:{*} sqlite:x keep -1", "keep"),
    ("players slug-data:{*} sqlite:x db 100000", "db"),
    ("players slug-data:{*} sqlite:x db 77", "no database 77"),
    ("players slug-data:{*} sqlite:x flush all", "store-only"),
    ("players slug-data:{*} sqlite:x expire never", "delete"),
    ("players slug-data:{*} sqlite:x delay", "no value"),
    ("players slug-data:{*} sqlite:x colour red", "colour"),
    ("players slug-persist:{* sqlite:x", "landing's own"),
    ("players slug-data:{*} mysql://root@127.0.0.1:1/x password-file /nowhere/at/all", "password file"),
]


def test_a_rule_that_cannot_be_is_refused_everywhere(start, tmp_path):
    client = start().client()
    for words, says in BAD_RULES:
        with pytest.raises(redis.ResponseError) as info:
            client.execute_command("LAND.RULE", "ADD", *words.split())
        assert says in str(info.value) or "wrong number of arguments" in str(info.value)
        assert client.execute_command("LAND.RULE", "LIST") == []
        assert client.exists("slug-persist:{rules}") == 0
    for words, says in BAD_RULES[::6]:
        assert says in start_refused(tmp_path / "refused", "--land", *words.split())
