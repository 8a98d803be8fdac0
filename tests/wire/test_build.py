# SPDX-License-Identifier: Apache-2.0
"""Results that are built in many commits and appear in one (types/build.h): as if it had been one, whatever happens
between two of them. DEBUG BUILD-ROWS 1 makes every result one of these; redis-server says what it has to be."""
import itertools
import random
import threading

import pytest
import redis

from conftest import terrace
from diff.servers import Oracle
from waiting import wait_until

MANY = 20000


@pytest.fixture
def oracle():
    oracle = Oracle()
    yield redis.Redis(port=oracle.port)
    oracle.stop()


@pytest.fixture
def both(start, oracle):
    server = start("--hot-memory", "4mb")
    client = server.client(socket_timeout=120)
    client.execute_command("DEBUG", "BUILD-ROWS", 1)
    return client, oracle


def members(rand, most):
    return [b"%s%d" % (rand.choice((b"", b"\x00", b"x" * rand.randrange(90))), rand.randrange(2 * most))
            for _ in range(rand.randrange(1, most))]


def fill(rand, clients):
    """Keys of every type, some of them large, some with a deadline."""
    for kind in ("s", "z", "h", "l", "n", "t"):
        for n in range(4):
            name, some = f"{kind}{n}", members(rand, rand.choice((3, 300, 3000)))
            for client in clients:
                client.delete(name)
                if kind == "s":
                    client.sadd(name, *some)
                elif kind == "z":
                    client.zadd(name, {member: i * 37 % 101 - 50.5 for i, member in enumerate(some)})
                elif kind == "h":
                    client.hset(name, mapping={member: b"v" * (i % 200) for i, member in enumerate(some)})
                elif kind == "l":
                    client.rpush(name, *some)
                elif kind == "n":
                    client.rpush(name, *(b"%g" % (len(member) * 7919 % 1013 / 4) for member in some))
                else:
                    client.set(name, b"".join(some) * (1 + n * 20))
                if n == 3:
                    client.expire(name, 100000)


def random_command(rand):
    def names(*kinds):
        return [rand.choice(kinds) + str(rand.randrange(5)) for _ in range(rand.randrange(1, 4))]

    to = rand.choice(("d0", "d1", "s0", "z0"))
    kind = rand.randrange(10)
    if kind == 0:
        return ["COPY", rand.choice("szhlt") + str(rand.randrange(5)), to] + rand.choice(
            ([], ["REPLACE"], ["DB", 3], ["REPLACE", "DB", 3]))
    if kind == 1:
        return [rand.choice(("SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE")), to, *names("s")]
    if kind == 2:
        some = names("s", "z")
        tail = rand.choice(([], ["WEIGHTS", *(rand.choice((0, 1, 2.5, -3)) for _ in some)]))
        tail = tail + rand.choice(([], ["AGGREGATE", rand.choice(("SUM", "MIN", "MAX"))]))
        return [rand.choice(("ZUNIONSTORE", "ZINTERSTORE")), to, len(some), *some, *tail]
    if kind == 3:
        some = names("s", "z")
        return ["ZDIFFSTORE", to, len(some), *some]
    if kind == 4:
        low, high = sorted((rand.randrange(-60, 60), rand.randrange(-60, 60)))
        reverse = rand.random() < 0.5
        pair = [high, low] if reverse else [low, high]
        limit = rand.choice(([], ["LIMIT", rand.randrange(30), rand.choice((-1, 5, 2000))]))
        return ["ZRANGESTORE", to, names("z")[0], *pair, "BYSCORE", *(["REV"] if reverse else []), *limit]
    if kind == 9:
        value = rand.randbytes(rand.choice((100, 4097, 300000, 1000000)))
        return ["SET", to, value, *rand.choice(([], ["NX"], ["XX"], ["GET"], ["KEEPTTL"], ["EX", 10000], ["PXAT", 1]))]
    if kind == 8:
        limit = rand.choice(([], ["LIMIT", rand.randrange(30), rand.choice((-1, 0, 5, 2000))]))
        return ["SORT", rand.choice(("s", "z", "l", "n")) + str(rand.randrange(5)), *limit, *rand.choice(([], ["DESC"])),
                *rand.choice(([], ["ALPHA"])), *rand.choice(([], [], ["BY", "nosort"])), "STORE", to]
    if kind == 7:
        op = rand.choice(("AND", "OR", "XOR", "NOT"))
        return ["BITOP", op, to, *(names("t")[:1] if op == "NOT" else names("t"))]
    if kind == 5:
        return ["ZRANGESTORE", to, names("z")[0], rand.randrange(-900, 900), rand.randrange(-900, 900),
                *rand.choice(([], ["REV"]))]
    return ["MOVE", rand.choice("szhlt") + str(rand.randrange(4)), 3]


def run(client, words):
    try:
        return client.execute_command(*words)
    except redis.ResponseError as error:
        return str(error)


def content(client, name):
    kind = client.type(name)
    ttl = client.ttl(name) > 0
    return kind, ttl, {
        b"none": lambda: None, b"string": lambda: client.get(name), b"list": lambda: client.lrange(name, 0, -1),
        b"hash": lambda: client.hgetall(name), b"set": lambda: client.smembers(name),
        b"zset": lambda: client.zrange(name, 0, -1, withscores=True)}[kind]()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_built_aside_is_what_redis_makes(both, seed):
    rand = random.Random(seed)
    for client in both:
        client.flushall()
    for turn in range(60):
        if turn % 20 == 0:
            fill(rand, both)
        words = random_command(rand)
        if rand.random() < 0.3:
            both[0].execute_command("DEBUG", "RELOAD")
        ours, theirs = (run(client, words) for client in both)
        assert ours == theirs, words[:2]
        for name in ("d0", "d1", "s0", "z0", words[1]):
            assert content(both[0], name) == content(both[1], name), (words[:2], name)
        assert both[0].dbsize() == both[1].dbsize(), words


def test_a_read_that_is_cold_at_any_point_changes_nothing(both):
    client, oracle = both
    some = [b"%06d" % n for n in range(2500)]
    for each in both:
        each.sadd("s", *some)
        each.sadd("t", *some[::3], "other")
        each.zadd("z", {member: i % 7 for i, member in enumerate(some)})
        each.hset("h", mapping={member: member for member in some})
        each.set("b", bytes(range(256)) * 3000)
        each.set("c", b"".join(some) * 20)
    for words in (["SORT", "s", "STORE", "d"], ["SORT", "z", "ALPHA", "DESC", "LIMIT", 100, 2000, "STORE", "d"],
                  ["SORT", "s", "BY", "nosort", "STORE", "d"], ["SORT", "z", "BY", "nosort", "DESC", "STORE", "d"],
                  ["BITOP", "XOR", "d", "b", "none", "c"], ["BITOP", "AND", "d", "c", "b"], ["BITOP", "NOT", "d", "b"],
                  ["SUNIONSTORE", "d", "s", "t"], ["SINTERSTORE", "d", "s", "t"], ["ZUNIONSTORE", "d", 2, "z", "t"],
                  ["ZINTERSTORE", "d", 2, "z", "t"], ["ZRANGESTORE", "d", "z", 10, 2000], ["COPY", "h", "d", "REPLACE"]):
        want = oracle.execute_command(*words), content(oracle, "d")
        for n in (1, 2, 3, 5, 10, 100, 1000, 1025, 2000, 3000, 5001):
            client.execute_command("DEBUG", "COLD-INJECT", n)
            got = client.execute_command(*words)
            client.execute_command("DEBUG", "COLD-INJECT", 0)
            assert (got, content(client, "d")) == want, (words, n)


def test_cold_sets_without_a_common_range_are_compared_in_few_steps(both):
    """All of one is before all of the other: a search finds that, not a walk that begins again with every page."""
    client, _ = both
    for first in range(0, 50_000, 1000):
        client.sadd("low", *(b"a%08d" % n for n in range(first, first + 1000)))
        client.sadd("high", *(b"z%08d" % n for n in range(first, first + 1000)))
    for words, count in ((["SINTERSTORE", "d", "high", "low"], 0), (["SDIFFSTORE", "d", "high", "low"], 50_000)):
        client.execute_command("DEBUG", "RELOAD")
        before = client.info("tiers")
        assert client.execute_command(*words) == count
        after = client.info("tiers")
        assert after["loads"] - before["loads"] < 600 and after["cold_reads"] - before["cold_reads"] < 1200


def test_a_union_of_many_sources_reads_each_element_once(both):
    """300 sources whose members are apart; what each piece needs of one is read from where the last one ended."""
    for client in both:
        for n in range(300):
            client.zadd(f"part{n}", {f"{n:03d}:{i}": i for i in range(40)} | {"all": n})
    names = [f"part{n}" for n in range(300)]
    both[0].execute_command("DEBUG", "RELOAD")
    before = both[0].info("tiers")["loads"]
    for words in (["ZUNIONSTORE", "d", 300, *names], ["ZINTERSTORE", "d", 300, *names, "AGGREGATE", "MAX"]):
        assert run(both[0], words) == run(both[1], words)
        assert content(both[0], "d") == content(both[1], "d")
    assert both[0].info("tiers")["loads"] - before < 3000


def test_two_who_store_into_one_key_do_not_disturb_each_other(both):
    client, _ = both
    client.execute_command("DEBUG", "BUILD-ROWS", 100)
    client.sadd("s", *(b"%06d" % n for n in range(5000)))

    def store():
        own = redis.Redis(port=client.connection_pool.connection_kwargs["port"])
        for _ in range(10):
            assert own.sunionstore("d", "s", "none") == 5000

    both_at_once = [threading.Thread(target=store) for _ in range(3)]
    for thread in both_at_once:
        thread.start()
    for thread in both_at_once:
        thread.join()
    assert client.scard("d") == 5000 and builds(client) == (30, 0)


# ---- between two commits ----


@pytest.fixture
def large(start):
    """A server with a set of MANY members, a sorted set, a hash, a list and a string."""
    server = start("--hot-memory", "4mb")
    client = server.client(socket_timeout=120)
    for first in range(0, MANY, 1000):
        some = [b"member:%08d:%s" % (n, b"m" * 40) for n in range(first, first + 1000)]
        client.sadd("s", *some)
        client.zadd("z", {member: n % 100 for n, member in enumerate(some)})
        client.hset("h", mapping={member: member for member in some})
        client.rpush("l", *some)
    client.append("b", bytes(range(256)) * 32 * 1024)  # in one commit
    return server


def builds(client):
    tiers = client.info("tiers")
    return tiers["builds"], tiers["builds_again"]


def begun(server, *words):
    """Sends a command and returns when it has begun to build, with its connection."""
    client, link = server.client(), server.connect()
    before = builds(client)[0]
    link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in
                                                      (str(word).encode() for word in words)))
    wait_until(lambda: builds(client)[0] > before)
    return link


def test_nothing_is_seen_of_it_before_it_is_all_there(large):
    client = large.client()
    link = begun(large, "SUNIONSTORE", "d", "s", "none")
    seen = set()
    while (count := client.scard("d")) == 0:
        assert client.dbsize() == 5 and client.exists("d") == 0 or client.exists("d")
        assert client.randomkey() in (b"s", b"z", b"h", b"l", b"b", b"d")
        seen.add(count)
    assert count == MANY and seen == {0}
    assert link.recv(100) == b":%d\r\n" % MANY
    assert client.smembers("d") == client.smembers("s")


def test_others_are_answered_while_a_long_string_is_combined(large):
    client = large.client()
    link = begun(large, "BITOP", "OR", "d", "b", "none")  # it is, to who asks whether it has begun
    while (built := client.get("d")) is None:
        assert client.dbsize() in (5, 6)
    assert built == client.get("b") and builds(client) == (1, 0)
    assert link.recv(100) == b":%d\r\n" % (8 * 1024 * 1024)


def test_a_long_value_is_set_between_the_commands_of_others(large):
    client, value = large.client(), bytes(range(255, -1, -1)) * 64 * 1024
    client.set("b", "old", ex=1000)
    link = begun(large, "SET", "b", value.decode("latin1"), "KEEPTTL")
    while (now := client.get("b")) == b"old":
        pass
    assert now == value.decode("latin1").encode() and link.recv(100) == b"+OK\r\n"
    assert 0 < client.ttl("b") <= 1000 and builds(client) == (1, 0)


def test_a_multi_is_still_one_commit(large):
    client = large.client()
    with client.pipeline() as pipe:
        assert pipe.copy("h", "h2").sunionstore("d", "s").execute() == [True, MANY]
    assert builds(client) == (0, 0)
    assert client.hlen("h2") == client.scard("d") == MANY


@pytest.mark.parametrize("words, changed", [
    (("SUNIONSTORE", "d", "s"), "SADD s new{n}"),
    (("SDIFFSTORE", "d", "s", "t"), "SADD t member:{n:08d}:" + "m" * 40),
    (("COPY", "h", "d"), "HSET h member:00000000:" + "m" * 40 + " new{n}"),
    (("COPY", "l", "d"), "LSET l 0 new{n}"),
    (("BITOP", "NOT", "d", "b"), "SETRANGE b 100 {n}"),
    (("SORT", "s", "ALPHA", "STORE", "d"), "SADD s new{n}"),
    (("SORT", "l", "ALPHA", "DESC", "STORE", "d"), "RPUSH l new{n}"),
    (("ZUNIONSTORE", "d", "1", "z"), "ZADD z {n}.5 new"),
    (("ZRANGESTORE", "d", "z", "0", "-1"), "ZADD z -{n}.5 new")])
def test_a_source_that_changes_meanwhile_is_read_again(large, words, changed):
    client, numbers = large.client(), itertools.count()
    client.execute_command("DEBUG", "BUILD-ROWS", 4096)

    def change_falls_between_two_commits():
        client.delete("d")
        link = begun(large, *words)
        client.execute_command(*changed.format(n=next(numbers)).split())
        assert link.recv(100).startswith(b":")
        return builds(client)[1] >= 1

    wait_until(change_falls_between_two_commits)
    result, before = content(client, "d"), builds(client)
    client.delete("d")
    client.execute_command("DEBUG", "BUILD-ROWS", 1 << 60)
    client.execute_command(*words)
    assert builds(client) == before, "in one commit"
    assert content(client, "d") == result


def test_pairs_that_are_written_together_are_read_together(large):
    """A writer never rests: builds begin again, and one that has to too often runs in one commit."""
    client, stop = large.client(), threading.Event()
    client.execute_command("DEBUG", "BUILD-ROWS", 100)

    def write():
        own, n = large.client(), 0
        while not stop.is_set():
            n += 1
            own.sadd("s", f"left:{n}", f"right:{n}")
            own.srem("s", f"left:{n - 3}", f"right:{n - 3}")

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: client.scard("s") > MANY)
    unions = 0
    while unions < 10 or builds(client)[1] < 3:
        unions += 1
        client.sunionstore("d", "s")
        ends = {side: {member.split(b":")[1] for member in client.smembers("d") if member.startswith(side)}
                for side in (b"left", b"right")}
        assert ends[b"left"] == ends[b"right"] and ends[b"left"]
    stop.set()
    writer.join()


def test_a_flush_in_between_leaves_nothing_behind(large):
    client = large.client()
    link = begun(large, "COPY", "h", "d")
    client.flushall()
    client.set("kept", 1)
    assert link.recv(100) in (b":0\r\n", b":1\r\n")  # it came too late, or before the flush
    assert client.keys() == [b"kept"]


def test_a_swap_in_between_is_noticed_on_either_side(large):
    client = large.client()
    link = begun(large, "COPY", "h", "d", "DB", "3")
    client.swapdb(3, 4)
    assert link.recv(100) == b":1\r\n"
    found = [db for db in (3, 4) if large.client(db=db).exists("d")]
    assert len(found) == 1 and large.client(db=found[0]).hlen("d") == MANY
    assert large.client(db=found[0]).hgetall("d") == client.hgetall("h")
    link = begun(large, "SUNIONSTORE", "d", "s")
    client.swapdb(0, 5)
    built = int(link.recv(100)[1:])  # before the swap, or of the empty database that is there now
    assert large.client(db=5).scard("s") == MANY
    assert large.client(db=5).scard("d") == built and large.client(db=0).dbsize() == 0


def test_who_leaves_after_sending_is_obeyed(large):
    client = large.client()
    link = begun(large, "COPY", "h", "d")
    link.shutdown(1)  # no more is sent
    assert link.recv(100) == b":1\r\n"
    assert client.hlen("d") == MANY


def rows(server, space):
    """How many the engine has; of a stopped server."""
    return terrace("inspect", server.dir, "--rows", space).count("\n    key ")


def test_a_kill_in_between_leaves_all_or_nothing_and_no_rows(large, start):
    server = large
    for words in (("SUNIONSTORE", "d", "s"), ("COPY", "h", "d"), ("ZUNIONSTORE", "d", 1, "z"),
                  ("ZRANGESTORE", "d", "z", 0, -1), ("BITOP", "NOT", "d", "b"),
                  ("SORT", "z", "ALPHA", "STORE", "d")):
        link = begun(server, *words)
        server.kill()
        link.close()
        server = start("--hot-memory", "4mb")
        client = server.client()
        count = {b"none": lambda: MANY, b"set": lambda: client.scard("d"), b"hash": lambda: client.hlen("d"),
                 b"zset": lambda: client.zcard("d"), b"list": lambda: client.llen("d"),
                 b"string": lambda: client.strlen("d") - 8 * 1024 * 1024 + MANY}[client.type("d")]()
        assert count == MANY
        client.delete("d")
    while True:  # until the sweep has had its turn
        server.stop()
        if rows(server, "gc") == 0:
            break
        server = start("--hot-memory", "4mb")
        assert server.client().ping()
    assert rows(server, "data") == 5 * MANY + 2048  # chunks of the string
