# SPDX-License-Identifier: Apache-2.0
"""Landing remembers which database a rule has landed in: one that is gone, or is another, is never empty."""
import os
import shutil

import pytest

from conftest import Server
from land import KEY, NEVER, Landed, Sqlite, away
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

RULE = ("players", "slug-data:{*}")


def go_away(sink, tmp_path):
    """As a disk that is not mounted, or a database that was dropped."""
    if sink.kind == "mysql":
        sink.server.ask(f"DROP DATABASE `{sink.name}`")
    else:
        for name in ("sink.db", "sink.db-wal", "sink.db-shm"):
            if (tmp_path / name).exists():
                (tmp_path / name).rename(tmp_path / f"{name}.away")


def be_another(sink, tmp_path):
    """As one that somebody made anew."""
    go_away(sink, tmp_path)
    if sink.kind == "mysql":
        sink.server.ask(f"CREATE DATABASE `{sink.name}`")
    else:
        sink.ask("CREATE TABLE theirs (id INTEGER)")


def landed_once(landing, sink, *words, **options):
    landed = landing(sink, *words, **options)
    landed("HSET", KEY, "gold", "500")
    landed.evict(KEY)
    landed("HSET", KEY, "silver", "7")
    landed.flush()
    landed.server.stop()


def again(start, sink, *words, **options):
    return Landed(start("--land", *RULE, sink.url, "delay", NEVER, *words, **options), sink)


@pytest.mark.parametrize("change", [go_away, be_another])
def test_a_database_that_is_gone_at_a_start_is_an_error_and_not_empty(landing, start, sink, tmp_path, change):
    landed_once(landing, sink)
    change(sink, tmp_path)
    landed = again(start, sink)
    wait_until(lambda: landed.status()["state"] == "missing")
    for words in (("HGETALL", KEY), ("HGET", KEY, "gold"), ("HINCRBY", KEY, "gold", 1), ("LAND.FLUSH",)):
        assert landed.error(*words).startswith("LANDDOWN"), words
    assert landed.server.stderr().count("LAND.RULE SINK players NEW") == 1
    assert b"landing_sinks_missing:1" in landed("INFO", "landing")
    if change is go_away and sink.kind == "sqlite":
        assert not sink.path.exists()
    elif change is be_another:
        assert not landed.sink.has("game_eu") and not landed.sink.has("terrace_tables")
    if sink.kind == "mysql" and change is go_away:
        sink.server.ask(f"CREATE DATABASE `{sink.name}`")  # for the fixture, which drops it


def test_a_database_that_comes_back_is_used_again(landing, start, sqlite_sink, tmp_path):
    landed_once(landing, sqlite_sink)
    go_away(sqlite_sink, tmp_path)
    landed = again(start, sqlite_sink)
    wait_until(lambda: landed.status()["state"] == "missing")
    landed("HSET", KEY, "copper", "1")
    for path in tmp_path.glob("sink.db*.away"):
        path.rename(path.with_suffix(""))
    landed.flush()
    assert landed.status()["state"] == "ok"
    assert landed("HGETALL", KEY) == [b"copper", b"1", b"gold", b"500", b"silver", b"7"]


def test_a_database_that_is_gone_for_good_is_given_up_by_a_command(landing, start, sink, tmp_path):
    landed_once(landing, sink)
    be_another(sink, tmp_path)
    landed = again(start, sink)
    wait_until(lambda: landed.status()["state"] == "missing")
    assert landed("LAND.RULE", "SINK", "players", "NEW") == [1, 0]  # silver is here, gold is lost with SQL
    landed.flush()
    assert landed.status()["state"] == "ok"
    assert landed.live() == {"hero:42:silver": b"7"}
    landed.server.stop()
    landed = again(start, sink)
    landed.flush()
    assert landed("HGETALL", KEY) == [b"silver", b"7"]


def test_a_database_that_is_there_is_not_given_up(landed):
    assert "not missing" in landed.error("LAND.RULE", "SINK", "players", "NEW")
    assert "syntax" in landed.error("LAND.RULE", "SINK", "players", "OLD")
    assert "no such rule" in landed.error("LAND.RULE", "SINK", "nobody", "NEW")


def test_a_copy_stays_while_its_database_is_missing(landing, start, sqlite_sink, tmp_path):
    """It may be the only one by now: neither its deadline nor LAND.EVICT ends it."""
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "silver", "7")
    landed.flush()
    assert landed("HGETALL", KEY) == [b"silver", b"7"]  # from here on it is complete
    landed.server.stop()
    go_away(sqlite_sink, tmp_path)
    landed = again(start, sqlite_sink)
    wait_until(lambda: landed.status()["state"] == "missing")
    assert "only copy" in landed.error("LAND.EVICT", KEY)
    landed("PEXPIRE", KEY, 1)
    wait_until(lambda: landed("PTTL", KEY) > 1)  # its time was over, and it lives on
    assert landed("HGET", KEY, "silver") == b"7"
    assert landed("LAND.RULE", "SINK", "players", "NEW") == [1, 0]
    landed.flush()
    assert landed.live() == {"hero:42:silver": b"7"}


def test_a_file_that_is_replaced_while_the_server_runs_is_not_landed_in(landing, sqlite_sink, tmp_path):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "gold", "500")
    landed.flush()
    be_another(sqlite_sink, tmp_path)
    landed("HSET", KEY, "gold", "501")
    assert "not the database" in landed.error("LAND.FLUSH")
    assert landed.status()["state"] == "missing" and not sqlite_sink.has("game_eu")


@pytest.mark.parametrize("shape", ["object", "columns"])
def test_a_rule_of_a_build_before_goes_on_with_the_database_it_finds(landing, columns, start, sqlite_sink, shape):
    """Its store remembers nothing, and its database has no identity."""
    make, key = (landing, KEY) if shape == "object" else (columns, "user:1")
    landed = make(sqlite_sink)
    landed("HSET", key, "gold", "500")
    landed.evict(key)
    landed.server.stop()
    sqlite_sink.ask("DELETE FROM terrace_tables WHERE name = '&sink'")
    landed = make(sqlite_sink, name="other")
    assert landed("HGETALL", key) == [b"gold", b"500"]
    assert len(sqlite_sink.ask("SELECT pair FROM terrace_tables WHERE name = '&sink'")[0][0]) == 32


def test_the_identity_survives_a_flush_of_the_store(landing, start, sqlite_sink, tmp_path):
    landed = landing(sqlite_sink, "flush", "store-only")
    landed("HSET", KEY, "gold", "500")
    landed.flush()
    landed("FLUSHALL")
    landed.server.stop()
    go_away(sqlite_sink, tmp_path)
    landed = again(start, sqlite_sink, "flush", "store-only")
    assert landed.error("HGETALL", KEY).startswith("LANDDOWN")


def test_the_identity_survives_a_kill_right_after_the_first_landing(landing, start, sqlite_sink, tmp_path):
    landed = landing(sqlite_sink, args=("--durability", "always"))
    landed("HSET", KEY, "gold", "500")
    landed.flush()
    landed.server.kill()
    go_away(sqlite_sink, tmp_path)
    landed = again(start, sqlite_sink)
    assert landed.error("HGET", KEY, "silver").startswith("LANDDOWN")


# ---- where the file is ----

def add(server, url, *words):
    client = server.client()
    assert client.execute_command("LAND.RULE", "ADD", *RULE, url, "delay", NEVER, *words) == b"OK"
    return client


def gold(path):
    return Sqlite(path).ask("SELECT value FROM game_eu WHERE `key` = 'gold'")


def in_dir(tmp_path, cwd, *args, name="data"):
    """A server with another working directory."""
    cwd.mkdir(exist_ok=True)
    before = os.getcwd()
    os.chdir(cwd)
    try:
        return Server(tmp_path / name, *SERVER_OPTIONS, *args)
    finally:
        os.chdir(before)


@pytest.fixture
def one_dir(tmp_path):
    servers = []

    def start_one(cwd, **options):
        servers.append(in_dir(tmp_path, tmp_path / cwd, **options))
        return servers[-1]

    yield start_one
    for server in servers:
        server.kill()
        server.errors.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_rule_finds_its_file_from_another_working_directory(one_dir, tmp_path):
    server = one_dir("here")
    client = add(server, "sqlite:../data/players.db")
    client.hset(KEY, "gold", "500")
    assert client.execute_command("LAND.FLUSH") == b"OK"
    assert gold(tmp_path / "data" / "players.db") == [(b"500",)]
    server.stop()
    client = one_dir("there/").client()
    assert client.execute_command("LAND.FLUSH") == b"OK"
    assert client.execute_command("LAND.EVICT", KEY) == 1
    assert client.hget(KEY, "gold") == b"500"
    assert not list((tmp_path / "there").iterdir())


def test_a_copy_of_the_data_directory_lands_in_its_own_file(one_dir, tmp_path):
    server = one_dir("here")
    client = add(server, f"sqlite:{tmp_path}/data/players.db")
    client.hset(KEY, "gold", "500")
    client.execute_command("LAND.FLUSH")
    server.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    client = one_dir("here", name="copy").client()
    client.hset(KEY, "gold", "1")
    assert client.execute_command("LAND.FLUSH") == b"OK"
    assert gold(tmp_path / "data" / "players.db") == [(b"500",)]
    assert gold(tmp_path / "copy" / "players.db") == [(b"1",)]


def test_a_file_outside_the_data_directory_stays_where_it_is(one_dir, tmp_path):
    (tmp_path / "else").mkdir()
    server = one_dir("here")
    add(server, "sqlite:../else/players.db").hset(KEY, "gold", "500")
    server.client().execute_command("LAND.FLUSH")
    rules = server.client().execute_command("LAND.RULE", "LIST")
    assert f"sqlite:{tmp_path}/else/players.db ".encode() in rules[0]
    server.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    client = one_dir("there", name="copy").client()
    assert client.execute_command("LAND.RULE", "LIST") == rules
    assert client.execute_command("LAND.FLUSH") == b"OK"


def test_a_stored_rule_whose_whole_path_has_a_blank_lands_on(one_dir, tmp_path):
    """A build before kept the path as it was given: the working directory is no part of the rule."""
    server = one_dir("my game")
    server.client().hset("slug-persist:{rules}", "players", "players slug-data:{*} sqlite:players.db shape object")
    server.stop()
    for value in (b"1", b"2"):
        server = one_dir("my game")
        client = server.client()
        client.hset(KEY, "gold", value)
        assert client.execute_command("LAND.FLUSH") == b"OK"
        assert client.execute_command("LAND.EVICT", KEY) == 1
        assert client.hget(KEY, "gold") == value
        server.stop()
    assert gold(tmp_path / "my game" / "players.db") == [(b"2",)]


# ---- a rule whose database cannot be opened ----

@pytest.mark.parametrize("url", ["sqlite:{dir}/../no/such/directory/x.db", "sqlite:{dir}",
                                 "mysql://root@127.0.0.1:1/game"])
def test_a_rule_whose_database_cannot_be_opened_is_not_made(start, url):
    server = start()
    landed = Landed(server, None)
    said = landed.error("LAND.RULE", "ADD", *RULE, url.replace("{dir}", str(server.dir)))
    assert said.startswith("LANDDOWN the rule is not made: could not ")
    assert landed("LAND.RULE", "LIST") == []
    server.stop()
    assert Landed(start(), None)("LAND.RULE", "LIST") == []


def test_a_flush_is_no_ok_while_the_database_is_gone_although_nothing_waits(landing, sink, tmp_path):
    """Whoever hears OK may empty the store; so may nobody here."""
    landed = landing(sink, "flush", "store-only")
    landed("HSET", KEY, "gold", "500")
    landed.flush()
    go_away(sink, tmp_path)
    assert landed.error("LAND.FLUSH").startswith("LANDDOWN")
    assert landed.status()["state"] == "missing"
    assert "only copy" in landed.error("FLUSHDB")
    assert landed("HGET", KEY, "gold") == b"500"
    if sink.kind == "mysql":
        sink.server.ask(f"CREATE DATABASE `{sink.name}`")  # for the fixture, which drops it


def test_a_rule_at_rest_notices_that_its_database_is_gone(landing, sqlite_sink, tmp_path):
    landed = landing(sqlite_sink, delay="20")
    landed("HSET", KEY, "gold", "500")
    landed.flush()
    go_away(sqlite_sink, tmp_path)
    wait_until(lambda: landed.status()["state"] == "missing")
    assert "only copy" in landed.error("LAND.EVICT", KEY)


# ---- nobody has noticed yet ----

def lone_copy(landing, sink, tmp_path, *words, go=go_away):
    """A copy that has landed and is complete; then its database goes, and no pass comes to notice."""
    landed = landing(sink, *words)
    landed("DEBUG", "SET-ACTIVE-EXPIRE", 0)  # a copy whose time is over stays until then
    landed("HSET", KEY, "silver", "7")
    landed.flush()
    assert landed("HGETALL", KEY) == [b"silver", b"7"]
    go(sink, tmp_path)
    landed("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    return landed


@pytest.mark.parametrize("change", [go_away, be_another])
def test_a_deadline_asks_whether_the_database_is_there(landing, sqlite_sink, tmp_path, change):
    landed = lone_copy(landing, sqlite_sink, tmp_path, go=change)
    landed("PEXPIRE", KEY, 1)
    wait_until(lambda: landed.status()["state"] == "missing")
    assert landed("HGET", KEY, "silver") == b"7"


def test_keep_asks_whether_the_database_is_there(landing, sqlite_sink, tmp_path):
    landed = lone_copy(landing, sqlite_sink, tmp_path, "keep", "1000")
    wait_until(lambda: landed.status()["state"] == "missing")
    assert landed("HGET", KEY, "silver") == b"7"


def test_a_deadline_that_passed_while_the_server_was_down_asks_first(landing, start, sqlite_sink, tmp_path):
    landed = landing(sqlite_sink)
    for n in range(100):
        landed("HSET", f"slug-data:{{game:eu:hero:{n}}}", "silver", n)
    landed.flush()
    landed("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for n in range(100):
        landed("PEXPIRE", f"slug-data:{{game:eu:hero:{n}}}", 1)
    landed.server.stop()
    go_away(sqlite_sink, tmp_path)
    landed = again(start, sqlite_sink)
    wait_until(lambda: landed.status()["state"] == "missing")
    for n in range(100):
        assert landed("HGET", f"slug-data:{{game:eu:hero:{n}}}", "silver") == b"%d" % n


def test_a_write_does_not_bury_the_only_copy(landing, sqlite_sink, tmp_path):
    landed = lone_copy(landing, sqlite_sink, tmp_path)
    landed("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    landed("PEXPIRE", KEY, 1)
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])  # its time is over, and nobody has removed it
    assert landed("HSET", KEY, "gold", "5") == 1
    assert landed("HGET", KEY, "silver") == b"7" and landed("HGET", KEY, "gold") == b"5"


def test_evict_asks_whether_the_database_is_the_one_that_has_the_row(landing, sink, tmp_path):
    """One that was dropped and made again answers by the connection of the old one."""
    landed = lone_copy(landing, sink, tmp_path, go=be_another)
    assert "only copy" in landed.error("LAND.EVICT", KEY)
    assert landed("HGET", KEY, "silver") == b"7"


def test_evict_asks_whether_the_database_is_there(landing, sink, tmp_path):
    landed = lone_copy(landing, sink, tmp_path)
    assert "only copy" in landed.error("LAND.EVICT", KEY)
    assert landed("HGET", KEY, "silver") == b"7"
    if sink.kind == "mysql":
        sink.server.ask(f"CREATE DATABASE `{sink.name}`")  # for the fixture, which drops it


def test_copies_whose_time_is_over_wait_for_a_database_that_is_away(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "silver", "7")
    landed.flush()
    assert landed("HGETALL", KEY) == [b"silver", b"7"]
    landed("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    with away(sqlite_sink):
        landed("PEXPIRE", KEY, 1)
        wait_until(lambda: landed("KEYS", "slug-data:*") == [])
        landed("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        wait_until(lambda: landed("KEYS", "slug-data:*") == [KEY.encode()])  # the sweep has asked in vain
        assert landed("HGET", KEY, "silver") == b"7"
    wait_until(lambda: landed("KEYS", "slug-data:*") == [])
    assert landed("HGET", KEY, "silver") == b"7"
