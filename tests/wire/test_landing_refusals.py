# SPDX-License-Identifier: Apache-2.0
"""What landing refuses leaves nothing behind, and nobody waits for what does not come."""
import contextlib
import socket

import pytest
import redis
from land import KEY
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py


def rule(url, more="", name="r", pattern="slug-data:{*}"):
    return ["--land", name, pattern, url, *f"shape object delay 600000 {more}".split()]


def columns(url, name, pattern, more=""):
    return ["--land", name, pattern, url,
            *f"shape columns table users key id delay 600000 {more}".split()]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:{tmp_path / 'landed.db'}"


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as info:
        client.execute_command(*words)
    return str(info.value)


@pytest.mark.parametrize("bad", [("HSET", KEY, "gold", "1", "", "2"), ("HSETNX", KEY, "", "1"),
                                 ("HINCRBY", KEY, "cachedAllKey", "1"),
                                 ("HSET", KEY, "gold", "1", b"\xff", "2")])
def test_a_refused_command_of_a_multi_leaves_nothing(start, url, bad):
    client = start(*rule(url)).client(decode_responses=True)
    client.hset(KEY, "gold", "precious")
    client.execute_command("LAND.FLUSH")
    client.execute_command("LAND.EVICT", KEY)
    size = client.dbsize()
    pipe = client.pipeline(transaction=True)
    pipe.set("before", 1)
    pipe.execute_command(*bad)
    pipe.set("after", 1)
    replies = pipe.execute(raise_on_error=False)
    assert replies[0] and replies[2] and isinstance(replies[1], redis.ResponseError)
    assert client.dbsize() == size + 2 + (bad[0] == "HINCRBY")  # which lifts the key first
    assert all(client.hlen(f"slug-persist:{{dirtyKey:{n}}}") == 0 for n in range(4))
    client.execute_command("LAND.FLUSH")
    assert client.hgetall(KEY) == {"gold": "precious"}


def test_a_refused_rename_in_a_multi_leaves_both_keys(start, url):
    client = start(*rule(url)).client(decode_responses=True)
    client.set("slug-data:{bad}", "x")
    client.hset("plain", "a", 1)
    pipe = client.pipeline(transaction=True)
    pipe.rename("plain", "slug-data:{bad}")
    pipe.copy("plain", "slug-data:{bad}", replace=True)
    assert all(isinstance(r, redis.ResponseError) for r in pipe.execute(raise_on_error=False))
    assert client.get("slug-data:{bad}") == "x" and client.hgetall("plain") == {"a": "1"}


@pytest.mark.parametrize("how", ["RENAME", "COPY"])
def test_the_lifetime_of_a_copy_does_not_become_that_of_a_key(start, url, how):
    client = start(*rule(url, "keep 60000")).client(decode_responses=True)
    client.hset(KEY, "a", 1)
    client.execute_command("LAND.FLUSH")
    wait_until(lambda: client.pttl(KEY) > 0)
    client.execute_command(how, KEY, "plain")
    assert client.ttl("plain") == -1
    client.expire("plain", 100)
    client.rename("plain", "other")
    assert client.ttl("other") > 0


def test_keep_and_expire_delete_do_not_go_together(start, url):
    client = start().client()
    assert "do not go together" in refused(client, "LAND.RULE", "ADD", "r", "slug-data:{*}", url,
                                           "keep", "1000", "expire", "delete")


def test_a_key_of_another_pair_can_be_removed_and_does_not_stop_the_sweep(start, url):
    client = start().client(decode_responses=True)
    client.hset("slug-data:{a:b_c:t:1}", "f", 1)
    client.hset("slug-data:{a:b_c:t:2}", "f", 1)
    client.pexpire("slug-data:{a:b_c:t:1}", 400)
    client.execute_command("LAND.RULE", "ADD", "r", "slug-data:{*}", url, "expire", "delete",
                           "delay", "20")
    client.hset("slug-data:{a_b:c:t:1}", "f", 1)
    client.set("plain", 1, px=600)
    wait_until(lambda: client.execute_command("DBSIZE") == 5)  # tables, sinks, rules, and two hashes
    assert client.delete("slug-data:{a:b_c:t:2}") == 1


@pytest.mark.parametrize("field", ["", "cachedAllKey", b"\xff"])
def test_a_field_that_cannot_land_can_be_removed(start, url, field):
    client = start(*rule(url)).client()
    client.hset("plain", mapping={field: 1, "a": 2})
    client.rename("plain", KEY)
    assert client.hdel(KEY, field) == 1
    with contextlib.suppress(redis.ResponseError):  # it may be refused before it is removed
        client.execute_command("LAND.FLUSH")
    client.execute_command("LAND.DROP", "r")
    assert client.hgetall(KEY) == {b"a": b"2"}


def test_what_comes_behind_a_large_field_without_a_name_lands(start, url):
    client = start(*rule(url)).client()
    client.hset("plain", mapping={"": b"x" * (9 << 20), "a": 1, "b": 2})
    client.rename("plain", KEY)
    client.execute_command("LAND.FLUSH")
    client.hdel(KEY, "")
    client.execute_command("LAND.RETRY", "r")
    client.execute_command("LAND.FLUSH")
    client.execute_command("LAND.EVICT", KEY)
    assert client.hgetall(KEY) == {b"a": b"1", b"b": b"2"}


def test_flush_and_wait_without_rules_answer_at_once(start):
    client = start().client(socket_timeout=100)
    assert client.execute_command("LAND.FLUSH") == b"OK"
    assert client.execute_command("LAND.WAIT", 0) == 1


def test_who_left_is_not_waited_for(start, tmp_path):
    away = "mysql://nobody@127.0.0.1:1/none"
    server = start(*rule(away))
    client = server.client()
    client.hset(KEY, "a", 1)
    with server.connect() as waiting:
        waiting.sendall(b"LAND.WAIT 0\r\n")
        wait_until(lambda: len(client.client_list()) == 2)
    wait_until(lambda: len(client.client_list()) == 1)


@pytest.mark.parametrize("command", [b"LAND.WAIT 0", b"LAND.FLUSH", b"BLPOP nothing 0"])
def test_who_left_at_once_is_not_waited_for(start, hole, command):
    """Its end comes with its command, before that is known to take long."""
    server = start(*rule(hole))
    client = server.client()
    client.hset(KEY, "a", 1)
    for _ in range(50):
        with server.connect() as leaving:
            leaving.sendall(command + b"\r\n")
    wait_until(lambda: client.info("stats")["total_connections_received"] == 51)
    wait_until(lambda: len(client.client_list()) == 1)


@pytest.fixture
def hole():
    """A database that takes connections and says nothing: nothing ends."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"mysql://nobody@127.0.0.1:{listening.getsockname()[1]}/none?connect-timeout=100"


def test_two_rules_may_not_share_a_table(start, url):
    client = start(*columns(url, "u", "user:*")).client()
    assert "the table is that of rule u" in refused(
        client, "LAND.RULE", "ADD", "v", "usr:*", url, "shape", "columns", "table", "USERS", "key",
        "id")


def test_evict_keeps_a_deadline_that_only_the_copy_knows(start, url):
    client = start(*rule(url, "expire delete")).client()
    client.hset(KEY, "a", 1)
    client.pexpire(KEY, 100000)
    client.execute_command("LAND.FLUSH")
    assert "deadline" in refused(client, "LAND.EVICT", KEY)
    client.persist(KEY)
    assert client.execute_command("LAND.EVICT", KEY) == 1


def test_columns_of_ours_are_refused_in_any_case(start, url):
    client = start(*columns(url, "u", "user:*")).client()
    for field in ("ID", "Up_Version", "IS_DEL", "del_Time"):
        assert "not for fields" in refused(client, "HSET", "user:1", field, "1")


def test_a_field_marked_in_both_tables_leaves_both(start, url):
    """Marked, snapshot by a pass that failed, and marked again: one landing is enough for both."""
    client = start(*rule(url)).client()
    for i in range(50):
        client.hset(KEY, mapping={f"f{n}": i for n in range(9)})
        client.execute_command("LAND.FLUSH")
        assert client.execute_command("LAND.EVICT", KEY) == 1
