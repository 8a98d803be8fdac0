# SPDX-License-Identifier: Apache-2.0
"""Lifting: what is not here is asked of SQL, once, and never put over what is here."""
import threading

import pytest

from land import KEY, away, maria_queries, table_of, tables_locked
from talk import Link
from waiting import wait_until

ENTRY = "game&eu&hero&42&"
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def evicted(landed):
    """a, b and c are in SQL only."""
    landed("HSET", KEY, "a", "1", "b", "2", "c", "3")
    landed.evict(KEY)
    return landed


def test_a_field_that_is_asked_for_is_lifted_alone(evicted):
    assert evicted("HGET", KEY, "b") == b"2"
    assert evicted.status()["lifts"] == 1 and evicted.status()["lifted_rows"] == 1
    assert evicted("HMGET", KEY, "a", "b", "nothing") == [b"1", b"2", None]
    assert evicted.status()["lifted_rows"] == 2
    assert evicted("HMGET", KEY, "a", "b", "nothing") == [b"1", b"2", None]
    assert evicted.status()["lifts"] == 2
    assert evicted("HSTRLEN", KEY, "c") == 1 and evicted("HEXISTS", KEY, "c") == 1
    assert evicted("HLEN", KEY) == 3


WHOLE = [(("HGETALL",), [b"a", b"1", b"b", b"2", b"c", b"3"]), (("HLEN",), 3),
         (("HKEYS",), [b"a", b"b", b"c"]), (("HVALS",), [b"1", b"2", b"3"]),
         (("HSCAN", "0"), [b"0", [b"a", b"1", b"b", b"2", b"c", b"3"]]), (("EXISTS",), 1),
         (("TYPE",), b"hash"), (("TTL",), -1), (("PTTL",), -1), (("HINCRBY", "a", "2"), 3),
         (("HINCRBYFLOAT", "a", "0.5"), b"1.5"), (("HDEL", "a"), 1), (("DEL",), 1), (("UNLINK",), 1),
         (("PERSIST",), 0), (("EXPIRE", "100"), 1), (("OBJECT ENCODING",), b"listpack"),
         (("HSETNX", "a", "9"), 0), (("TOUCH",), 1), (("COPY", "copy"), 1),
         (("RENAME", "other"), b"OK"), (("MOVE", "5"), 1), (("LAND.LOAD",), 1),
         (("SORT_", "BY"), None), (("GET",), "WRONGTYPE"), (("LPUSH", "x"), "WRONGTYPE")]


def test_every_command_finds_what_sql_has(evicted):
    for words, want in WHOLE:
        name, *rest = words
        if name == "SORT_":
            continue
        evicted("DEL", KEY, "copy", "other")
        with evicted.server.client(db=5) as other:
            other.flushdb()
        evicted("HSET", KEY, "a", "1", "b", "2", "c", "3")
        evicted.evict(KEY)
        if want == "WRONGTYPE":
            assert evicted.error(name, KEY, *rest).startswith("WRONGTYPE"), words
        else:
            assert evicted(*name.split(), KEY, *rest) == want, words


def test_hrandfield_sees_the_whole_hash(evicted):
    assert sorted(evicted("HRANDFIELD", KEY, 10)) == [b"a", b"b", b"c"]
    evicted.evict(KEY)
    assert evicted("HRANDFIELD", KEY) in (b"a", b"b", b"c")
    assert evicted("HLEN", KEY) == 3


def test_completeness_is_never_shown(evicted):
    assert evicted("HGETALL", KEY) == [b"a", b"1", b"b", b"2", b"c", b"3"]
    assert evicted("HEXISTS", KEY, "cachedAllKey") == 0
    assert evicted("HGET", KEY, "cachedAllKey") is None
    assert evicted("HMGET", KEY, "cachedAllKey", "a") == [None, b"1"]
    assert evicted("HDEL", KEY, "cachedAllKey") == 0
    lifts = evicted.status()["lifts"]
    for _ in range(3):
        assert evicted("HLEN", KEY) == 3 and evicted("HGET", KEY, "nothing") is None
    assert evicted.status()["lifts"] == lifts


def test_a_row_named_like_the_mark_of_completeness_is_not_lifted(evicted):
    evicted.put("hero:42:cachedAllKey", b"1")
    assert evicted("HLEN", KEY) == 3 and evicted("HGET", KEY, "cachedAllKey") is None


def test_a_multi_lifts_and_runs_once(evicted):
    with evicted.client.pipeline(transaction=True) as pipe:
        pipe.set("counter", 1).incr("counter").hincrby(KEY, "a", 1).hget(KEY, "b").hlen(KEY)
        assert pipe.execute() == [True, 2, 2, b"2", 3]
    evicted.flush()
    assert evicted.live()["hero:42:a"] == b"2"


def test_a_watched_key_that_is_lifted_has_not_changed(evicted):
    with evicted.client.pipeline() as pipe:
        pipe.watch(KEY)
        assert pipe.hlen(KEY) == 3
        pipe.multi()
        pipe.hset(KEY, "a", "9")
        assert pipe.execute() == [0]


def test_a_lift_does_not_mark(evicted):
    assert evicted("HLEN", KEY) == 3 and evicted("HGET", KEY, "a") == b"1"
    assert evicted.dirty() == {}
    assert evicted("LAND.EVICT", KEY) == 1


def test_what_is_here_is_never_overwritten(evicted):
    assert evicted("HSET", KEY, "a", "new") == 1  # blind
    assert evicted("HGETALL", KEY) == [b"a", b"new", b"b", b"2", b"c", b"3"]
    evicted.evict(KEY)
    evicted("HSET", KEY, "b", "newer")
    assert evicted("HMGET", KEY, "a", "b", "c") == [b"new", b"newer", b"3"]
    evicted.flush()
    assert evicted.live() == {"hero:42:a": b"new", "hero:42:b": b"newer", "hero:42:c": b"3"}


def test_what_was_removed_and_has_not_landed_stays_removed(evicted):
    assert evicted("HDEL", KEY, "a") == 1
    assert evicted("HGET", KEY, "a") is None and evicted("HLEN", KEY) == 2
    assert evicted("HDEL", KEY, "b", "c") == 2
    assert evicted("HGETALL", KEY) == [] and evicted("EXISTS", KEY) == 0
    assert evicted("HMGET", KEY, "a", "b") == [None, None]
    evicted("HSET", KEY, "z", "26")
    assert evicted("HGETALL", KEY) == [b"z", b"26"]
    evicted.flush()
    assert evicted("HGETALL", KEY) == [b"z", b"26"]
    evicted.evict(KEY)
    assert evicted("HGETALL", KEY) == [b"z", b"26"]


def test_a_deleted_key_that_has_not_landed_stays_deleted(evicted):
    assert evicted("DEL", KEY) == 1
    assert evicted("HGETALL", KEY) == [] and evicted("HGET", KEY, "a") is None
    evicted("HSET", KEY, "b", "new")
    assert evicted("HGETALL", KEY) == [b"b", b"new"]
    evicted.flush()
    evicted.evict(KEY)
    assert evicted("HGETALL", KEY) == [b"b", b"new"]


def test_rows_that_are_deleted_in_sql_are_not_lifted(evicted):
    evicted.put("hero:42:a", b"old", is_del=1)
    assert evicted("HGET", KEY, "a") is None
    assert evicted("HGETALL", KEY) == [b"b", b"2", b"c", b"3"]


def test_what_others_wrote_is_lifted(evicted):
    evicted.put("hero:42:a:b&c ü", b"\x00\xff")
    evicted.put("hero:42:nothing", None)
    evicted.sink.ask("UPDATE game_eu SET up_version = NULL, is_del = NULL WHERE `key` = 'b'")
    assert evicted.client.hgetall(KEY) == {b"a": b"1", b"b": b"2", b"c": b"3",
                                           "a:b&c ü".encode(): b"\x00\xff"}
    evicted("HSET", KEY, "b", "ours")  # NULL is the oldest version
    evicted.flush()
    assert evicted.live()["hero:42:b"] == b"ours"


def test_absence_is_remembered_for_a_while(evicted):
    nobody = "slug-data:{game:eu:hero:nobody}"
    link = Link(evicted.server)
    assert link.say(*[f"HGETALL {nobody}", f"EXISTS {nobody}"] * 20) == ["[]", ":0"] * 20
    assert evicted.status()["lifts"] == 1
    assert link.say(*[f"HGET {KEY} nothing"] * 20) == ["(nil)"] * 20
    assert evicted.status()["lifts"] == 2
    assert evicted("HGET", KEY, "a") == b"1"  # absence of one field says nothing of another
    evicted.put("hero:nobody:a", b"1")
    wait_until(lambda: evicted("HGET", nobody, "a") == b"1")  # not for ever


def test_absence_does_not_hide_what_is_written_landed_and_evicted(evicted):
    nobody = "slug-data:{game:eu:hero:nobody}"
    assert evicted("HGETALL", nobody) == []
    evicted("HSET", nobody, "a", "1")
    assert evicted("HGETALL", nobody) == [b"a", b"1"]
    evicted.evict(nobody)
    assert evicted("HGETALL", nobody) == [b"a", b"1"]


def test_a_command_may_miss_thousands_of_fields_and_keys(evicted):
    """What is known to be absent must not be forgotten before the command has run."""
    fields = [f"f{i}" for i in range(4000)]
    assert evicted("HMGET", KEY, "a", *fields) == [b"1"] + [None] * 4000
    assert evicted("HMGET", KEY, *[f"g{i}" for i in range(10000)]) == [None] * 10000
    keys = [f"slug-data:{{game:eu:hero:n{i}}}" for i in range(1000)]
    assert evicted("EXISTS", *keys, KEY) == 1
    assert evicted("LAND.LOAD", *keys, KEY) == 1


def test_a_large_key_is_lifted_whole(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    many = {f"f{i:05}": f"{i}" for i in range(20000)}
    landed.client.hset(KEY, mapping=many)
    landed.evict(KEY)
    assert landed("HLEN", KEY) == 20000
    landed.evict(KEY)
    assert {name.decode(): value.decode() for name, value in landed.client.hgetall(KEY).items()} == many


def test_a_copy_evicted_while_it_is_lifted_is_lifted_again(landing, sqlite_sink):
    """What a lift has applied already goes with the copy: half a hash is not the whole."""
    landed = landing(sqlite_sink)
    landed.client.hset(KEY, mapping={f"f{i:05}": "x" for i in range(20000)})
    landed.evict(KEY)
    other = landed.server.client(socket_timeout=100)
    for _ in range(5):
        lengths = []
        reader = threading.Thread(target=lambda: lengths.append(other.hlen(KEY)))
        reader.start()
        while reader.is_alive() and landed("LAND.EVICT", KEY) == 0:
            pass  # until it has dropped something
        reader.join()
        assert lengths == [20000]
        assert landed("HLEN", KEY) == 20000
        landed.evict(KEY)


def test_many_clients_that_miss_one_key_are_one_query(landing, maria_sink, maria):
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1")
    landed.evict(KEY)
    assert landed("HGET", "slug-data:{game:eu:hero:other}", "a") is None  # the lifter is connected
    maria.ask("SET GLOBAL log_output = 'TABLE'")
    maria.ask("TRUNCATE mysql.general_log")
    maria.ask("SET GLOBAL general_log = 1")
    links = [landed.server.connect() for _ in range(60)]
    try:
        with tables_locked(maria_sink, "game_eu"):
            for i, link in enumerate(links):
                link.sendall(b"HGETALL " + KEY.encode() + b"\r\n" if i % 2 else
                             b"HLEN " + KEY.encode() + b"\r\n")
            wait_until(lambda: sum("cmd=h" in line for line in landed.plain.execute_command(
                "CLIENT", "LIST").decode().splitlines()) >= 60)
            assert landed("PING") == b"PONG"  # nobody else waits
            landed("SET", "plain", "1")
            landed("HSET", "slug-data:{game:eu:hero:other}", "a", "1")
        for i, link in enumerate(links):
            want = b"*2\r\n$1\r\na\r\n$1\r\n1\r\n" if i % 2 else b":1\r\n"
            got = b""
            while len(got) < len(want):
                got += link.recv(1000)
            assert got == want
        assert maria_queries(maria_sink, "%SELECT%query_all_key%") == 1
        assert landed.status()["lifts"] == 2
    finally:
        maria.ask("SET GLOBAL general_log = 0")
        for link in links:
            link.close()


def test_a_database_that_is_down_is_an_error_and_never_an_empty_answer(landing, sqlite_sink):
    landed = landing(sqlite_sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.evict(KEY)
    landed.server.stop()
    with away(sqlite_sink):
        landed = landing(sqlite_sink)
        check_it_is_down(landed)
    wait_until(lambda: landed.plain.hget(KEY, "b") == b"new" and not isinstance(
        landed_or_error(landed, "HGETALL", KEY), str))
    assert landed("HGETALL", KEY) == [b"a", b"1", b"b", b"new"]


def check_it_is_down(landed):
    for words in (("HGETALL", KEY), ("HGET", KEY, "a"), ("EXISTS", KEY), ("HLEN", KEY),
                  ("HINCRBY", KEY, "a", 1), ("HDEL", KEY, "a"), ("DEL", KEY), ("TYPE", KEY),
                  ("HSETNX", KEY, "a", "1"), ("LAND.LOAD", KEY), ("TTL", KEY)):
        assert landed.error(*words).startswith("LANDDOWN rule players cannot be asked"), words
    assert landed("HSET", KEY, "b", "new") == 1  # blind
    assert landed("HGET", KEY, "b") == b"new"
    assert landed.error("HGETALL", KEY).startswith("LANDDOWN")
    with landed.client.pipeline(transaction=True) as pipe:
        pipe.set("plain", "1").hgetall(KEY)
        replies = pipe.execute(raise_on_error=False)
    assert str(replies[1]).startswith("LANDDOWN") and landed("GET", "plain") == b"1"
    assert landed.status()["lift_failures"] > 0


def landed_or_error(landed, *words):
    try:
        return landed(*words)
    except Exception as error:  # the words of the server
        return str(error)


# ---- versions ----

def test_a_newer_version_in_sql_raises_ours(evicted):
    ahead = evicted.version("hero:42:a") + (3600 * 1000 << 20)  # an hour
    evicted.put("hero:42:a", b"theirs", version=ahead)
    assert evicted("HGET", KEY, "a") == b"theirs"
    evicted("HSET", KEY, "a", "ours")
    mark = evicted.dirty()[ENTRY + "a"]
    assert int(mark.split(":")[1]) > ahead
    evicted.flush()
    assert evicted.live()["hero:42:a"] == b"ours" and evicted.version("hero:42:a") > ahead


def test_a_version_of_the_far_future_is_an_error(evicted):
    version = evicted.version("hero:42:a")
    evicted.put("hero:42:a", b"theirs", version=version + (2 * DAY_MS << 20))
    assert "more than a day ahead" in evicted.error("HGET", KEY, "a")
    assert "more than a day ahead" in evicted.error("HGETALL", KEY)
    evicted("HSET", KEY, "b", "ours")
    mark = evicted.dirty()[ENTRY + "b"]
    assert int(mark.split(":")[1]) < version + (DAY_MS << 20)
    evicted.put("hero:42:a", b"theirs", version=version)
    wait_until(lambda: landed_or_error(evicted, "HGET", KEY, "a") == b"theirs")


def test_an_older_version_never_wins(evicted):
    """A late batch of another writer: SQL has a newer row than the mark here."""
    evicted("HSET", KEY, "a", "ours")
    version = int(evicted.dirty()[ENTRY + "a"].split(":")[1])
    evicted.put("hero:42:a", b"newer", version=version + 1)
    evicted.flush_refused()
    assert evicted.live()["hero:42:a"] == b"newer"
    evicted("HSET", KEY, "a", "newest")
    evicted.flush()
    assert evicted.live()["hero:42:a"] == b"newest"
    assert table_of(KEY) == 1
