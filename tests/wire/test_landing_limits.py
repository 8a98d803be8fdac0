# SPDX-License-Identifier: Apache-2.0
"""What a client may make of landing: rules in the files it is given, remote ones if it may, and no passwords."""
import os
import stat

import pytest
import redis

from land import KEY, NEVER, Landed

RULE = ("players", "slug-data:{*}")


def add(server, url, *words):
    return Landed(server, None)("LAND.RULE", "ADD", *RULE, url, *words)


def refused(server, url, *words):
    return Landed(server, None).error("LAND.RULE", "ADD", *RULE, url, *words)


# ---- where ----

def test_a_client_makes_files_in_the_data_directory_only(start, tmp_path):
    server = start()
    (tmp_path / "elsewhere").mkdir()
    (server.dir / "link").symlink_to(tmp_path / "elsewhere")
    for path in ("elsewhere/x.db", "x.db", "data/../x.db", "data/link/x.db", "data2/x.db"):
        assert "land-dir" in refused(server, f"sqlite:{tmp_path}/{path}"), path
    assert "land-dir" in refused(server, "sqlite:/etc/x.db")
    assert not (tmp_path / "x.db").exists() and not list((tmp_path / "elsewhere").iterdir())
    assert add(server, f"sqlite:{server.dir}/players.db") == b"OK"


def test_a_client_makes_no_database_of_a_file_of_the_store(start):
    server = start()
    for name in ("LOCK", "TERRACE", "journal/0000000000000003.seg", "engine/CURRENT", "engine/000099.sst"):
        assert ".db" in refused(server, f"sqlite:{server.dir}/{name}"), name


@pytest.mark.parametrize("place", ["journal/000000000000000a.seg", "journal", "engine", "flush", "sql"])
def test_a_client_makes_nothing_in_the_directories_of_the_store(start, place):
    server = start()
    before = sorted(server.dir.rglob("*"))
    assert "in none of its directories" in refused(server, f"sqlite:{server.dir}/{place}/x.db")
    assert sorted(server.dir.rglob("*")) == before


@pytest.mark.parametrize("place", ["journal", "engine", "flush", "lost"])
def test_the_configuration_lands_in_no_directory_of_the_store(start, tmp_path, place):
    with pytest.raises(RuntimeError, match="of the store's own"):
        start("--land", *RULE, f"sqlite:{tmp_path}/data/{place}/x.db")


def test_another_directory_can_be_the_one_for_clients(start, tmp_path):
    (tmp_path / "sql").mkdir()
    server = start("--land-dir", str(tmp_path / "sql"))
    assert "land-dir" in refused(server, f"sqlite:{server.dir}/x.db")
    assert add(server, f"sqlite:{tmp_path}/sql/anything") == b"OK"


@pytest.mark.parametrize("option, value", [("land-dir", "/"), ("land-remote", "yes")])
def test_a_client_cannot_change_its_limits(server, option, value):
    with pytest.raises(redis.ResponseError):
        server.client().config_set(option, value)


def test_the_configuration_file_lands_anywhere(start, sqlite_sink):
    landed = Landed(start("--land", *RULE, sqlite_sink.url), sqlite_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}


def test_a_rule_of_a_client_stays_in_force_with_narrower_limits(start, sqlite_sink, tmp_path):
    """It was allowed when it was made; the next start asks nobody."""
    server = start("--land-dir", "/")
    assert add(server, sqlite_sink.url) == b"OK"
    server.stop()
    assert len(Landed(start(), sqlite_sink)("LAND.RULE", "LIST")) == 1


# ---- remote databases and their passwords ----

def test_a_remote_database_needs_the_file_or_an_option(start, maria_sink):
    assert "land-remote" in refused(start(), maria_sink.url)
    assert add(start("--land-remote", "yes", name="other"), maria_sink.url) == b"OK"


def test_a_password_in_a_url_is_refused(start):
    server = start("--land-remote", "yes")
    said = refused(server, "mysql://me:secret@127.0.0.1:1/db")
    assert "password-file" in said and "secret" not in said
    assert "password-file" in refused(server, "mysql://me:secret@127.0.0.1:1/db", "password-file", "x")


def test_a_sqlite_file_has_no_password(start):
    """Else any client could ask which files there are."""
    server = start()
    assert "no password" in refused(server, f"sqlite:{server.dir}/x.db", "password-file", "/etc/passwd")


@pytest.fixture
def app(maria, maria_sink):
    """A user of MariaDB with a password."""
    maria.ask("CREATE USER IF NOT EXISTS app@localhost IDENTIFIED BY 'p:ss w%d'")
    maria.ask(f"GRANT ALL ON `{maria_sink.name}`.* TO app@localhost")
    yield maria_sink.url.replace("root@", "app:p%3Ass%20w%25d@")
    maria.ask("DROP USER app@localhost")


def old_rule(server, text):
    """As a build before has stored it; there is no rule yet, so a client can write there."""
    server.client().hset("slug-persist:{rules}", "players", text)
    server.stop()


def test_a_password_that_is_stored_moves_to_a_file_at_the_start(start, maria_sink, app):
    server = start()
    old_rule(server, f"players slug-data:{{*}} {app} delay 600000")
    landed = Landed(start(), maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"1"}
    path = server.dir / "land-players.password"
    assert path.read_text() == "p:ss w%d\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    landed.server.stop()
    os.chmod(path, 0o644)
    path.write_text("wrong\n")  # it is what counts from now on
    landed = Landed(start(), maria_sink)
    assert "Access denied" in landed.error("LAND.FLUSH")
    path.write_text("p:ss w%d\n")
    assert "password-file" in str(landed("LAND.RULE", "LIST")) and "w%25d" not in str(landed("LAND.RULE", "LIST"))
    landed.server.stop()
    landed = Landed(start(), maria_sink)
    landed.flush()
    assert landed("HGETALL", KEY) == [b"a", b"1"]


def test_a_copy_of_the_data_directory_has_its_own_password_file(start, maria_sink, app, tmp_path):
    server = start()
    old_rule(server, f"players slug-data:{{*}} {app} delay 600000")
    start().stop()
    os.rename(server.dir, tmp_path / "moved")
    landed = Landed(start(name="moved"), maria_sink)
    landed.flush()
    assert landed.status()["state"] == "ok"


def test_a_restored_backup_without_its_password_file_starts_and_tells_it(start, maria_sink, app):
    server = start()
    server.client().set("other", "1")
    old_rule(server, f"players slug-data:{{*}} {app} delay 600000")
    start().stop()
    (server.dir / "land-players.password").unlink()
    server = start()
    assert server.client().get("other") == b"1"
    assert "could not read the password file" in server.stderr()
    with pytest.raises(redis.ResponseError, match="LANDDOWN"):
        server.client().hgetall("slug-data:{game:eu:hero:42}")


def test_a_password_that_cannot_be_moved_stays_where_it_is(start, maria_sink, app):
    server = start()
    old_rule(server, f"players slug-data:{{*}} {app} delay 600000")
    (server.dir / "land-players.password").mkdir()
    landed = Landed(start(), maria_sink)
    landed.flush()
    assert landed.status()["state"] == "ok"
    assert "its password stays in the rule" in landed.server.stderr()


# ---- kinds of sinks ----

@pytest.mark.parametrize("pattern", ["slug-data:{*}", "user:*"])
def test_a_kind_of_sink_that_does_not_exist_is_named(server, pattern):
    said = Landed(server, None).error("LAND.RULE", "ADD", "r", pattern, "postgres://me:secret@db/game")
    assert '"postgres"' in said and "sqlite:PATH" in said and "mysql://" in said
    assert "secret" not in said and "pattern" not in said
    assert "sqlite:PATH" in Landed(server, None).error("LAND.RULE", "ADD", "r", pattern, "players.db")


# ---- rights ----

def limited(sink, *grants):
    """The URL of a user who may do no more than this: (rights, table)."""
    sink.ask("CREATE OR REPLACE USER little@localhost")
    for rights, table in grants:
        sink.ask(f"GRANT {rights} ON `{sink.name}`.{table} TO little@localhost")
    return sink.url.replace("root@", "little@")


@pytest.mark.parametrize("shape,key,words", [
    ("object", KEY, ()), ("columns", "user:7", ("shape", "columns", "table", "users", "key", "id"))])
def test_the_documented_rights_are_enough(start, maria_sink, shape, key, words):
    table = "game_eu" if shape == "object" else "users"
    url = limited(maria_sink, ("SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER", table),
                  ("SELECT, INSERT, UPDATE, CREATE", "terrace_tables"))
    pattern = "slug-data:{*}" if shape == "object" else "user:*"
    server = start("--land", "little", pattern, url, *words, "delay", NEVER)
    landed = Landed(server, maria_sink)
    for value in ("1", "2"):
        landed("HSET", key, "gold", value, "x" + value, "y")
        landed.flush()
        landed.evict(key)
        assert landed("HGET", key, "gold") == value.encode()
    landed("DEL", key)
    landed.flush()
    assert maria_sink.ask(f"SELECT COUNT(*) FROM `{table}` WHERE is_del = 0")[0][0] == 0


@pytest.mark.parametrize("rights", [None, "SELECT, CREATE"])
def test_who_may_not_use_the_table_of_identities_is_told(start, maria_sink, rights):
    grants = [("SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER", "users")]
    if rights:
        grants.append((rights, "terrace_tables"))
    url = limited(maria_sink, *grants)
    words = ("user:*", url, "shape", "columns", "table", "users", "key", "id", "delay", NEVER)
    landed = Landed(start("--land", "little", *words, "--land-remote", "yes"), maria_sink)
    error = landed.error("LAND.FLUSH")
    status = landed.status("little")
    for text in (error, status["last_error"]):
        assert "denied" in text and "terrace_tables" in text and "little" in text, text
    assert status["state"] == "failing"
    assert landed.client.info("landing")["landing_rules_failing"] == 1
    landed("HSET", "user:7", "name", "Noy")  # nobody who writes waits
    assert "terrace_tables" in landed.error("LAND.LOAD", "user:8")
    maria_sink.ask(f"GRANT SELECT, INSERT, UPDATE, CREATE ON `{maria_sink.name}`.terrace_tables TO little@localhost")
    landed.flush()
    assert maria_sink.ask("SELECT id FROM users") in ([("7",)], [(b"7",)])
    assert landed.status("little")["state"] == "ok"
