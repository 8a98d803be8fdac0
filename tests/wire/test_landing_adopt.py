# SPDX-License-Identifier: Apache-2.0
"""Landing meets tables that are there already: they are read and claimed, or the command fails."""
import pytest

from land import KEY, Landed, Sqlite

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

OBJECT = ("CREATE TABLE game_eu (primary_key VARCHAR(512) PRIMARY KEY, logic_type VARCHAR(512), owner_id "
          "VARCHAR(512), `key` VARCHAR(512), value BLOB, up_version BIGINT, is_del BIGINT, del_time BIGINT, "
          "create_time BIGINT, update_time BIGINT, query_all_key VARCHAR(512){more})")
BAG = "slug-data:{game:eu:bag:1}"


def put_bag(sink, more=""):
    """A table as another program has left it: 500 gold, of no version."""
    sink.ask(OBJECT.format(more=more))
    sink.ask("INSERT INTO game_eu (primary_key, logic_type, owner_id, `key`, value, is_del, query_all_key) "
             "VALUES ('bag:1:gold', 'bag', '1', 'gold', '500', 0, 'bag:1')")


READS = {
    "HGETALL": (("HGETALL", BAG), [b"gold", b"500"]),
    "HGET": (("HGET", BAG, "gold"), b"500"),
    "LAND.LOAD": (("LAND.LOAD", BAG), 1),
    "EXISTS": (("EXISTS", BAG), 1),
    "HINCRBY": (("HINCRBY", BAG, "gold", 1), 501),
}


@pytest.mark.parametrize("words, reply", READS.values(), ids=READS)
def test_a_table_that_is_there_before_the_rule_is_read(landing, sink, words, reply):
    put_bag(sink)
    landed = landing(sink)
    assert landed(*words) == reply
    landed.flush()
    assert int(landed.live()["bag:1:gold"]) >= 500


def test_our_own_tables_restored_without_the_table_of_tables_are_read(landing, sink):
    landed = landing(sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    landed.server.stop()
    sink.ask("DROP TABLE terrace_tables")
    landed = landing(sink, name="other")  # a store that has never seen this database
    assert landed("HGETALL", KEY) == [b"a", b"1"]


def test_a_table_that_is_read_is_claimed(landing, sink):
    put_bag(sink)
    landed = landing(sink)
    assert landed("HGET", BAG, "gold") == b"500"
    assert landed("HGETALL", "slug-data:{Game:EU:bag:1}") == []
    landed("HSET", "slug-data:{Game:EU:bag:1}", "gold", "1")
    landed.flush_refused()
    assert b"belongs to another app and region" in landed.errors()["Game&EU&bag&1&gold"]["error"]
    assert landed.live() == {"bag:1:gold": b"500"}


def test_a_read_that_finds_nothing_claims_nothing(landing, sink):
    """The table of game and eu is asked for a key of another pair: it does not become that one's."""
    put_bag(sink)
    landed = landing(sink)
    assert landed("HGETALL", "slug-data:{Game:EU:bag:2}") == []
    assert landed("HGETALL", BAG) == [b"gold", b"500"]


def index_of(sink):
    if sink.kind == "mysql":
        return [row[2] for row in sink.ask("SHOW INDEX FROM game_eu WHERE Column_name = 'query_all_key'")]
    return [row[1] for row in sink.ask("PRAGMA index_list(game_eu)") if not row[1].startswith(b"sqlite_")]


def test_an_adopted_table_gets_the_index_that_reads_of_a_whole_key_need(landing, sink):
    put_bag(sink)
    landed = landing(sink)
    assert index_of(sink) == []
    assert landed("HGETALL", BAG) == [b"gold", b"500"]
    assert len(index_of(sink)) == 1


def test_an_adopted_table_keeps_the_index_it_has(landing, sink):
    put_bag(sink, ", UNIQUE (query_all_key, `key`)" if sink.kind == "sqlite" else ", KEY mine (query_all_key)")
    before = index_of(sink)
    landed = landing(sink)
    landed("HSET", BAG, "silver", "1")
    assert landed("HGETALL", BAG) == [b"gold", b"500", b"silver", b"1"]
    landed.flush()
    assert index_of(sink) == before and landed.errors() == {}


@pytest.mark.parametrize("column", ["value", "is_del", "query_all_key", "up_version"])
def test_a_table_that_cannot_be_read_is_an_error_and_not_empty(landing, sink, column):
    put_bag(sink)
    sink.ask(f"ALTER TABLE game_eu DROP COLUMN {column}")
    landed = landing(sink)
    for words in (("HGETALL", BAG), ("HGET", BAG, "gold"), ("HINCRBY", BAG, "gold", 1)):
        said = landed.error(*words)
        assert said.startswith("LANDDOWN") and column in said


def test_a_table_without_a_primary_key_is_an_error_and_not_empty(landing, sink):
    sink.ask("CREATE TABLE game_eu (primary_key VARCHAR(512), value BLOB)")
    landed = landing(sink)
    assert "primary key" in landed.error("HGETALL", BAG)


def test_a_column_that_goes_away_is_an_error_and_not_empty(landing, sink):
    """The table is known and was read; then it loses a column."""
    put_bag(sink)
    landed = landing(sink)
    assert landed("HGETALL", BAG) == [b"gold", b"500"]
    landed("LAND.EVICT", BAG)
    sink.ask("ALTER TABLE game_eu DROP COLUMN value")
    assert landed.error("HGETALL", BAG).startswith("LANDDOWN")


def test_what_one_database_does_not_have_is_asked_of_the_next(start, tmp_path):
    """Absence is remembered for seconds: a rule that comes with another database starts without it."""
    one, other = Sqlite(tmp_path / "one.db"), Sqlite(tmp_path / "other.db")
    put_bag(other)
    landed = Landed(start(), one)
    landed("LAND.RULE", "ADD", "players", "slug-data:{*}", one.url)
    assert landed("HGETALL", BAG) == [] and landed("HGET", BAG, "gold") is None
    landed("LAND.RULE", "DEL", "players")
    landed("LAND.RULE", "ADD", "players", "slug-data:{*}", other.url)
    assert landed("HGET", BAG, "gold") == b"500"
