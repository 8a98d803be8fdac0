# SPDX-License-Identifier: Apache-2.0
"""Replies of millions of elements are written in slices: others do not wait, and the reply is of one moment."""
import threading

import pytest
import redis

from diff.servers import Oracle
from iofault import Faults
from talk import Link
from waiting import wait_until

COUNT = 1000
NAMES = [b"%04d" % i for i in range(COUNT)]


@pytest.fixture(params=["hot", "cold"])
def filled(request, start):
    """Slices of ten elements, keys of a thousand; cold: nothing of them is in memory."""
    server = start("--hot-memory", "1mb")
    client = server.client()
    client.rpush("list", *NAMES)
    client.sadd("set", *NAMES)
    client.sadd("other", *NAMES[::2])
    client.hset("hash", mapping={name: b"v" + name for name in NAMES})
    client.zadd("zset", {name: i for i, name in enumerate(NAMES)})
    client.zadd("zother", {name: -i for i, name in enumerate(NAMES) if i % 2 == 0})
    client.sadd("lonely", b"")
    client.set("string", b"0123456789abcdef" * 65536)
    if request.param == "cold":
        client.execute_command("DEBUG", "RELOAD")
    client.execute_command("DEBUG", "BUILD-ROWS", "10")
    return server


ALL = {
    "LRANGE list 0 -1": NAMES,
    "LRANGE list 5 -6": NAMES[5:-5],
    "SMEMBERS set": NAMES,
    "HKEYS hash": NAMES,
    "HVALS hash": [b"v" + name for name in NAMES],
    "HGETALL hash": [part for name in NAMES for part in (name, b"v" + name)],
    "ZRANGE zset 0 -1": NAMES,
    "ZREVRANGE zset 0 -1": NAMES[::-1],
    "ZRANGEBYSCORE zset 10 (900": NAMES[10:900],
    "ZRANGE zset 0 +inf BYSCORE LIMIT 100 500": NAMES[100:600],
    "ZREVRANGEBYSCORE zset +inf 500": NAMES[:499:-1],
    "ZRANGE zset 0 -1 WITHSCORES": [part for i, name in enumerate(NAMES) for part in (name, b"%d" % i)],
    "ZRANGEBYLEX zset [0100 (0900": NAMES[100:900],
    "ZREVRANGEBYLEX zset [0900 [0100": NAMES[900:99:-1],
    "ZRANGE zset [0100 + BYLEX LIMIT 50 700": NAMES[150:850],
    "SRANDMEMBER set 1000": NAMES,
    "HRANDFIELD hash 2000": NAMES,
    "SORT list": NAMES,
    "SUNION set other": NAMES,
    "SUNION lonely other none set": [b""] + NAMES,
    "SINTER set other": NAMES[::2],
    "SINTER set other lonely": [],
    "SDIFF set other": NAMES[1::2],
    "SDIFF set set": [],
    "ZUNION 2 zset zother": NAMES[::2] + NAMES[1::2],
    "ZUNION 2 zset set WEIGHTS -1 0": NAMES[::-1],
    "ZUNION 2 lonely zset": NAMES[:1] + [b""] + NAMES[1:],
    "ZINTER 2 zset zother": NAMES[::2],
    "ZINTER 2 zset zother WEIGHTS 2 1 WITHSCORES": [part for i in range(0, COUNT, 2) for part in (NAMES[i], b"%d" % i)],
    "ZDIFF 2 zset zother": NAMES[1::2],
    "ZDIFF 2 zset zset": [],
}
COUNTS = {"SINTERCARD 2 set other": 500, "SINTERCARD 2 set other LIMIT 77": 77, "SINTERCARD 3 set other lonely": 0,
          "ZINTERCARD 2 zset zother": 500, "ZINTERCARD 2 zset zother LIMIT 77": 77, "ZINTERCARD 2 zset set LIMIT 5000": 1000}
KEYS = [b"key:%06d" % i for i in range(50000)]


@pytest.mark.parametrize("line", ALL)
def test_a_reply_in_slices_is_the_reply(filled, line):
    kind, parts = Link(filled).ask(*line.split(" "))
    assert [part[1] for part in parts] == ALL[line]


@pytest.mark.parametrize("line", [*COUNTS, *(line for line in ALL if line.split()[0][-4:] in ("NION", "NTER", "DIFF"))])
def test_what_several_sets_have_is_found_in_slices(filled, line):
    client = filled.client()
    slices = client.info("stats")["reply_slices"]
    Link(filled).ask(*line.split(" "))
    lonely = "lonely" in line and "UNION" not in line  # it is the smallest, and has no second member
    assert lonely or client.info("stats")["reply_slices"] - slices >= 5


@pytest.mark.parametrize("line", COUNTS)
def test_what_is_counted_in_slices_is_the_count(filled, line):
    assert Link(filled).ask(*line.split(" "))[1] == COUNTS[line]


def test_long_strings_of_several_keys_come_in_slices(filled):
    client, link, text = filled.client(), Link(filled), b"0123456789abcdef" * 65536
    client.execute_command("DEBUG", "BUILD-ROWS", "4096")
    client.set("short", b"x")
    client.set("long", text[5:])
    slices = client.info("stats")["reply_slices"]
    parts = link.ask("MGET", "string", "none", "short", "long", "hash", "string")[1]
    assert [part[1] for part in parts] == [text, None, b"x", text[5:], None, text]
    assert client.info("stats")["reply_slices"] - slices >= 3


def test_a_long_string_in_slices_is_the_string(filled):
    link = Link(filled)
    text = b"0123456789abcdef" * 65536
    assert link.ask("GET", "string")[1] == text
    assert link.ask("GETRANGE", "string", "5", "-5")[1] == text[5:-4]
    assert link.ask("SUBSTR", "string", "500000", "1000000")[1] == text[500000:1000001]


@pytest.mark.parametrize("line", ["SRANDMEMBER set", "HRANDFIELD hash", "ZRANDMEMBER zset"])
def test_members_that_may_repeat_come_in_slices(filled, line):
    parts = Link(filled).ask(*line.split(" "), "-5000")[1]
    assert len(parts) == 5000 and {part[1] for part in parts} <= set(NAMES)


def test_a_transaction_has_its_replies_in_one_piece(filled):
    link = Link(filled)
    link.ask("MULTI")
    link.ask("LRANGE", "list", "0", "-1")
    link.ask("GET", "string")
    first, second = link.ask("EXEC")[1]
    assert [part[1] for part in first[1]] == NAMES and len(second[1]) == 1 << 20


def again(client):
    return client.info("stats")["replies_begun_again"]


@pytest.fixture
def large(start):
    """A key of each type that takes many slices to read."""
    server = start()
    pipe = server.client().pipeline(transaction=False)
    for i in range(0, 100000, 1000):
        names = [b"%06d" % (i + j) for j in range(1000)]
        pipe.hset("hash", mapping={name: b"0" for name in names})
        pipe.rpush("list", *names)
        pipe.sadd("set", *names)
        pipe.zadd("zset", {name: 0 for name in names})
    pipe.execute()
    return server


def run_beside(server, work):
    """work(client) again and again while the caller does something; .stop() ends it."""
    over = threading.Event()

    def loop():
        client = server.client()
        while not over.is_set():
            work(client)

    thread = threading.Thread(target=loop)
    thread.start()
    over.stop = lambda: (over.set(), thread.join())
    return over


def test_a_reply_is_of_one_moment_though_others_write(large):
    """A writer keeps two fields equal, the first and the last: no reply may show them different."""
    number = iter(range(1, 1 << 30))

    def write(client):
        value = next(number)
        client.hset("hash", mapping={b"000000": value, b"099999": value})

    writer = run_beside(large, write)
    try:
        client, replies = large.client(), 0
        while replies < 10 or again(client) == 0:
            replies += 1
            fields = client.hgetall("hash")
            assert len(fields) == 100000 and fields[b"000000"] == fields[b"099999"]
    finally:
        writer.stop()


def test_others_are_served_between_two_slices(large):
    """Every slice ends the turn: what others have sent is run before the next one."""
    client = large.client()
    pings = []
    ping = run_beside(large, lambda other: pings.append(other.ping()))
    try:
        wait_until(lambda: len(pings) > 0)
        link = Link(large)
        for line in ("HGETALL hash", "LRANGE list 0 -1", "SMEMBERS set", "ZRANGE zset 0 -1",
                     "SRANDMEMBER set -100000", "SRANDMEMBER set 50000", "SORT list", "SORT_RO set ALPHA DESC"):
            slices, count = client.info("stats")["reply_slices"], len(pings)
            parts = link.ask(*line.split(" "))[1]
            assert client.info("stats")["reply_slices"] - slices > 20 and len(parts) >= 50000, line
            wait_until(lambda: len(pings) > count)
    finally:
        ping.stop()


def test_a_key_that_goes_while_it_is_read_is_not_there(large):
    """Its reply is whole, or that of a key that does not exist."""
    client, other = large.client(), large.client()
    for _ in range(5):
        link = Link(large)
        link.send([[b"HGETALL", b"hash"]])
        other.rename("hash", "away")
        parts = link.reply()[1]
        assert len(parts) in (0, 200000)
        other.rename("away", "hash")
    link = Link(large)
    link.send([[b"SMEMBERS", b"set"]])
    other.flushall()
    assert len(link.reply()[1]) in (0, 100000)
    assert client.dbsize() == 0


def test_many_different_members_are_different(large):
    members = large.client().srandmember("set", 60000)
    assert len(members) == len(set(members)) == 60000
    half = sum(1 for member in members if member < b"050000")
    assert 28000 < half < 32000


def test_many_members_of_a_cold_key_are_different_and_from_all_of_it(start):
    client = start("--hot-memory", "1mb").client()
    names = [b"%06d" % n + b"x" * 42 for n in range(60_000)]
    for first in range(0, 60_000, 5000):
        client.sadd("set", *names[first:first + 5000])
    client.execute_command("DEBUG", "RELOAD")
    members = client.srandmember("set", 20_000)
    tenths = [sum(1 for member in members if int(member[:6]) // 6000 == n) for n in range(10)]
    assert len(members) == len(set(members)) == 20_000 and set(members) <= set(names)
    assert all(1700 < count < 2300 for count in tenths)  # eight deviations


def test_a_client_that_goes_while_its_reply_is_written_leaves_nothing(large):
    client = large.client()
    for _ in range(20):
        link = Link(large)
        link.send([[b"HGETALL", b"hash"]] * 3)
        link.close()
    wait_until(lambda: client.info("clients")["connected_clients"] == 1)
    wait_until(lambda: client.info("clients")["tasks"] <= 8)


# ---- SORT ----

SORTS = ["SORT list", "SORT list DESC", "SORT list ALPHA", "SORT list ALPHA DESC LIMIT 100 300", "SORT set LIMIT 990 50",
         "SORT_RO zset DESC LIMIT -5 7", "SORT list LIMIT 0 0", "SORT list LIMIT 5000 1", "SORT hash", "SORT words",
         "SORT words ALPHA", "SORT none", "SORT list BY nosort LIMIT 3 400", "SORT list BY nosort DESC LIMIT 9 400",
         "SORT zset BY nosort", "SORT zset BY nosort ALPHA DESC LIMIT 10 700", "SORT list BY k* GET # GET k*"]


@pytest.fixture(scope="module")
def oracle():
    oracle = Oracle()
    yield redis.Redis(port=oracle.port)
    oracle.stop()


@pytest.mark.parametrize("line", SORTS)
def test_sort_in_slices_answers_as_redis_does(filled, oracle, line):
    numbers = [b"%d" % (i * 7919 % 500 - 250) for i in range(1000)]  # each twice
    words = [b"w%d" % (i * 7919 % 1000) for i in range(1000)]
    oracle.flushall()
    for client in filled.client(), oracle:
        client.delete("list")
        client.rpush("list", *numbers)
        client.rpush("words", *words)
        client.sadd("set", *numbers)
        client.zadd("zset", {number: 0 for number in numbers})
        client.hset("hash", "a", "b")
        client.mset({b"k%d" % i: i % 7 for i in range(-250, 250)})
    oracle.sadd("set", *NAMES)
    oracle.zadd("zset", {name: i for i, name in enumerate(NAMES)})

    def run(client):
        try:
            return client.execute_command(*line.split(" "))
        except redis.ResponseError as error:
            return str(error)

    client = filled.client()
    slices = client.info("stats")["reply_slices"]
    assert run(client) == run(oracle)
    in_slices = client.info("stats")["reply_slices"] > slices
    assert in_slices or "BY k" in line or line in ("SORT hash", "SORT none", "SORT words")


def test_sort_is_of_one_moment_though_others_write(large):
    """A writer moves the first element to the end, as another one: there are always as many."""
    number = iter(range(1 << 30))

    def write(client):
        pipe = client.pipeline(transaction=True)
        pipe.lpop("list")
        pipe.rpush("list", b"%d" % (1000000 + next(number)))
        pipe.execute()

    writer = run_beside(large, write)
    try:
        client, replies = large.client(), 0
        while replies < 3 or again(client) == 0:
            replies += 1
            elements = [int(element) for element in client.sort("list")]
            new = [element for element in elements if element >= 1000000]
            assert len(elements) == 100000 and elements == sorted(elements)
            assert new == list(range(1000000, 1000000 + len(new))) and elements[0] == len(new)
    finally:
        writer.stop()


# ---- KEYS ----

@pytest.fixture
def many(start):
    """More keys than memory takes: they go to the disk and come back while others read them."""
    server = start("--hot-memory", "1mb")
    client = server.client()
    for i in range(0, len(KEYS), 1000):
        client.mset({name: b"v" for name in KEYS[i:i + 1000]})
    return server


def keys(link, pattern):
    return [part[1] for part in link.ask("KEYS", pattern)[1]]


@pytest.mark.parametrize("pattern", ["*", "*7", "hash", "none*", ""])
def test_keys_in_slices_are_those_of_redis(filled, oracle, pattern):
    client = filled.client()
    oracle.flushall()
    for each in client, oracle:
        each.mset({b"k" + name: b"" for name in NAMES[:300]})
    for name in (b"list", b"set", b"other", b"lonely", b"hash", b"zset", b"zother", b"string"):
        oracle.set(name, b"")
    client.execute_command("DEBUG", "RELOAD")
    client.execute_command("DEBUG", "BUILD-ROWS", "10")
    client.get(b"k0017")  # in both tiers
    assert sorted(keys(Link(filled), pattern)) == sorted(oracle.keys(pattern))


def test_keys_serves_others_between_two_slices(many):
    """Also where few keys, or none, match: what counts is what is looked at."""
    client, link = many.client(), Link(many)
    pings = []
    ping = run_beside(many, lambda other: pings.append(other.ping()))
    try:
        wait_until(lambda: len(pings) > 0)
        for pattern, count in ("*", len(KEYS)), ("*00", len(KEYS) // 100), ("none*", 0):
            slices, before = client.info("stats")["reply_slices"], len(pings)
            assert len(keys(link, pattern)) == count
            assert client.info("stats")["reply_slices"] - slices > 20, pattern
            wait_until(lambda: len(pings) > before)
    finally:
        ping.stop()


def test_a_key_that_stays_is_in_keys_once(many):
    """Others come, go, are read and evicted meanwhile."""
    number = iter(range(1 << 30))

    def churn(client):
        i = next(number)
        client.mset({b"other:%d" % j: b"x" * 500 for j in range(100 * i, 100 * i + 100)})
        client.delete(*(b"other:%d" % j for j in range(100 * (i - 2), 100 * (i - 1))))
        client.mget(KEYS[i * 997 % 49000:][:1000])

    writer = run_beside(many, churn)
    try:
        link = Link(many)
        for _ in range(3):
            names = keys(link, "*")
            assert len(names) == len(set(names))
            assert sorted(name for name in names if name.startswith(b"key:")) == KEYS
    finally:
        writer.stop()


def test_keys_begins_again_when_its_database_is_swapped(many):
    link, other = Link(many), many.client()
    link.send([[b"KEYS", b"*"]])
    other.swapdb(0, 1)
    assert len(link.reply()[1]) in (0, len(KEYS))


def test_keys_in_a_transaction_are_of_one_moment(many):
    link = Link(many)
    link.ask("MULTI")
    link.ask("KEYS", "*")
    assert sorted(part[1] for part in link.ask("EXEC")[1][0][1]) == KEYS


def test_a_reply_goes_on_behind_a_row_without_a_name(start):
    link = Link(start())
    link.ask("DEBUG", "BUILD-ROWS", "1")
    link.ask("HSET", "hash", "", "nothing", "a", "1", "b", "2")
    link.ask("SADD", "set", "", "a", "b")
    assert [part[1] for part in link.ask("HGETALL", "hash")[1]] == [b"", b"nothing", b"a", b"1", b"b", b"2"]
    assert [part[1] for part in link.ask("SMEMBERS", "set")[1]] == [b"", b"a", b"b"]


def test_a_few_large_elements_in_front_do_not_close_the_client(start):
    client = start("--hot-memory", "64mb").client()
    client.rpush("list", *[b"x" * 100_000] * 10, *range(30_000))
    client.hset("hash", mapping={f"a{n}": b"x" * 100_000 for n in range(10)} | {f"f{n}": n for n in range(30_000)})
    assert len(client.lrange("list", 0, -1)) == 30_010
    assert len(client.hgetall("hash")) == 30_010


@pytest.mark.parametrize("line", ["LRANGE list 0 -1", "GET string", "ZRANGE zset 10000 40000", "SMEMBERS set",
                                  "SRANDMEMBER set 30000", "ZRANDMEMBER zset 40000 WITHSCORES"])
def test_a_cold_key_larger_than_memory_is_loaded_once(start, line):
    count = 60_000
    client = start("--hot-memory", "1mb").client()
    name = line.split()[1]
    for first in range(0, count, 5000):
        part = [b"%048d" % n for n in range(first, first + 5000)]
        if name == "list":
            client.rpush(name, *part)
        elif name == "set":
            client.sadd(name, *part)
        elif name == "zset":
            client.zadd(name, {member: n for n, member in enumerate(part, first)})
        else:
            client.append(name, b"".join(part))
    client.execute_command("DEBUG", "RELOAD")
    before = client.info("tiers")["load_rows"]
    assert client.execute_command(*line.split())
    assert client.info("tiers")["load_rows"] - before <= 4 * count


def test_one_client_that_is_closed_for_memory_does_not_take_the_others_along(start, tmp_path):
    """Its command has ended and waits for the disk: nobody gets its reply, which is freed at once."""
    faults = Faults(tmp_path)
    server = start("--durability", "always", "--maxmemory-clients", "20mb", prefix=faults.prefix())
    client = server.client()
    for _ in range(30):
        client.rpush("ready", *[b"x" * 100_000] * 10)
    others = [server.client() for _ in range(5)]
    ids = [str(other.client_id()) for other in others]
    waiting = server.client()
    thread = threading.Thread(target=lambda: pytest.raises(redis.ConnectionError, waiting.execute_command, "BLMPOP", "0",
                                                           "1", "list", "LEFT", "COUNT", "100000"))
    thread.start()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    faults.hold("/journal/", calls=("sync",))
    renaming = Link(server)
    renaming.send([[b"RENAME", b"ready", b"list"]])
    wait_until(lambda: "maxmemory-clients" in server.stderr())
    faults.clear()
    thread.join(100)
    assert [other.client_id() for other in others] == [int(number) for number in ids]
    renaming.close()


@pytest.mark.parametrize("line", ["HGETALL large", "ZREVRANGE large 0 -1"])
def test_what_is_used_stays_in_memory_while_a_larger_key_passes_through_it(start, line):
    """As large as four times memory; what it has passed makes room, not the keys of others."""
    client = start("--hot-memory", "4mb").client()
    for first in range(0, 120_000, 5000):
        names = [b"%048d" % n for n in range(first, first + 5000)]
        if line[0] == "Z":
            client.zadd("large", {name: n for n, name in enumerate(names, first)})
        else:
            client.hset("large", mapping={name: b"x" * 48 for name in names})
    used = [b"used:%d" % n for n in range(5000)]
    client.mset({name: b"y" * 50 for name in used})
    client.execute_command("DEBUG", "RELOAD")
    client.mget(used)
    client.mget(used)
    before = client.info("tiers")
    client.execute_command(*line.split())
    after = client.info("tiers")
    assert after["load_rows"] - before["load_rows"] >= 120_000
    assert after["evicted_rows"] - before["evicted_rows"] < 500  # of strings, not of groups
