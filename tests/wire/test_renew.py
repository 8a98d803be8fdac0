# SPDX-License-Identifier: Apache-2.0
"""Very many elements go in one instant, and nobody waits for it: what stays is built aside (types/renew.h)."""
import random

import pytest

from talk import Link
from waiting import wait_until

COUNT = 1000
NAMES = [b"%04d" % i for i in range(COUNT)]
LIST = [b"equal" if i % 3 == 0 else name for i, name in enumerate(NAMES)]


@pytest.fixture(params=["hot", "cold"])
def filled(request, start):
    """From ten rows on that go, a key is renewed; cold: nothing of the keys is in memory."""
    server = start("--hot-memory", "1mb")
    client = server.client()
    client.sadd("set", *NAMES)
    client.zadd("zset", {name: i for i, name in enumerate(NAMES)})
    client.zadd("lex", {name: 7 for name in NAMES})
    client.rpush("list", *LIST)
    if request.param == "cold":
        client.execute_command("DEBUG", "RELOAD")
    client.execute_command("DEBUG", "BUILD-ROWS", "10")
    return server


def builds(client):
    return client.info("tiers")["builds"]


def members(client, key):
    return [member for member, _ in client.zrange(key, 0, -1, withscores=True)]


REMOVED = {  # what is left
    "ZREMRANGEBYRANK zset 0 499": NAMES[500:],
    "ZREMRANGEBYRANK zset 300 -1": NAMES[:300],
    "ZREMRANGEBYRANK zset 200 899": NAMES[:200] + NAMES[900:],
    "ZREMRANGEBYRANK zset 100 799": NAMES[:100] + NAMES[800:],
    "ZREMRANGEBYSCORE zset (100 799": NAMES[:101] + NAMES[800:],
    "ZREMRANGEBYSCORE zset -inf 500": NAMES[501:],
    "ZREMRANGEBYSCORE zset 1 +inf": NAMES[:1],
    "ZREMRANGEBYLEX lex [0100 (0900": NAMES[:100] + NAMES[900:],
}


@pytest.mark.parametrize("line", REMOVED)
def test_a_range_goes_and_all_else_stays(filled, line):
    client, key, left = filled.client(), line.split()[1], REMOVED[line]
    client.pexpire(key, 10 ** 9)
    before = builds(client)
    assert Link(filled).ask(*line.split(" "))[1] == COUNT - len(left)
    assert builds(client) == before + 1
    assert members(client, key) == left and client.zcard(key) == len(left)
    for name in NAMES[::37] + NAMES[-1:]:
        assert (client.zscore(key, name) is not None) == (name in left)
    assert client.zrank(key, left[-1]) == len(left) - 1
    assert client.pttl(key) > 10 ** 8
    client.execute_command("DEBUG", "RELOAD")
    assert members(client, key) == left


@pytest.mark.parametrize("line", ["ZPOPMIN zset 600", "ZPOPMAX zset 600", "ZPOPMIN zset 999", "ZPOPMAX zset 1000",
                                  "ZMPOP 2 none zset MIN COUNT 700", "ZMPOP 1 zset MAX COUNT 5000"])
def test_popped_elements_are_answered_in_order_and_gone(filled, line):
    client, words = filled.client(), line.split()
    count = min(int(words[-1]), COUNT)
    order = NAMES[::-1] if "MAX" in line else NAMES
    before = builds(client)
    parts = Link(filled).ask(*words)[1]
    if words[0] == "ZMPOP":
        assert parts[0][1] == b"zset"
        answered = [(pair[1][0][1], pair[1][1][1]) for pair in parts[1][1]]
    else:
        answered = list(zip([part[1] for part in parts[::2]], [part[1] for part in parts[1::2]]))
    assert answered == [(name, b"%d" % int(name)) for name in order[:count]]
    assert members(client, "zset") == sorted(order[count:]) and client.exists("zset") == (count < COUNT)
    assert builds(client) == before + 1


@pytest.mark.parametrize("count", [300, 999, 1000, 5000])
def test_popped_members_are_random_different_and_gone(filled, count):
    client = filled.client()
    before = builds(client)
    popped = [part[1] for part in Link(filled).ask("SPOP", "set", count)[1]]
    left = client.smembers("set")
    assert len(popped) == len(set(popped)) == min(count, COUNT) and left | set(popped) == set(NAMES)
    assert not left & set(popped) and client.scard("set") == len(left)
    assert builds(client) == before + 1
    if count == 300:
        assert popped != NAMES[:300] and 100 < sum(member < b"0500" for member in popped) < 200


def without_equal(first, last):
    return [name for i, name in enumerate(LIST) if name != b"equal" or not first <= i <= last]


EDITED = {  # the answer, and what the list is then
    "LREM list 0 equal": (334, without_equal(0, COUNT)),
    "LREM list 200 equal": (200, without_equal(0, 199 * 3)),
    "LREM list -200 equal": (200, without_equal(999 - 199 * 3, 999)),
    "LREM list 0 0400": (1, LIST[:400] + LIST[401:]),
    "LINSERT list BEFORE 0400 new": (1001, LIST[:400] + [b"new"] + LIST[400:]),
    "LINSERT list AFTER 0700 new": (1001, LIST[:701] + [b"new"] + LIST[701:]),
}


@pytest.mark.parametrize("line", EDITED)
def test_a_list_that_changes_in_its_middle_is_built_anew(filled, line):
    client = filled.client()
    client.lpush("list", "pushed")
    client.lpop("list")
    client.pexpire("list", 10 ** 9)
    before = builds(client)
    answer, left = EDITED[line]
    assert Link(filled).ask(*line.split(" "))[1] == answer
    assert builds(client) == before + 1
    assert client.lrange("list", 0, -1) == left and client.llen("list") == len(left)
    assert client.pttl("list") > 10 ** 8
    client.lpush("list", "first")
    client.rpush("list", "last")
    client.execute_command("DEBUG", "RELOAD")
    assert client.lrange("list", 0, -1) == [b"first", *left, b"last"]


def test_who_changes_the_key_meanwhile_is_not_lost(start):
    """A writer adds elements all the time: each is there, or was popped, and none is both."""
    server = start()
    client = server.client()
    for first in range(0, 100_000, 10_000):
        client.zadd("zset", {b"%06d" % i: i for i in range(first, first + 10_000)})
    again = client.info("tiers")["builds_again"]
    link, writer, added = Link(server), Link(server), [b"new00000"]
    assert link.say("PING") + writer.say("PING") == ["+PONG"] * 2
    with server.stopped():  # the first change comes when the first commit is made
        link.send([[b"ZPOPMIN", b"zset", b"60000"]])
        writer.send([[b"ZADD", b"zset", b"5", added[0]]])
    while client.zcard("zset") >= 100_000:
        added.append(b"new%05d" % len(added))
        client.zadd("zset", {added[-1]: random.randrange(100_000)})
    popped = [part[1] for part in link.reply()[1]][::2]
    left = set(members(client, "zset"))
    assert len(popped) == 60_000 and not left & set(popped)
    assert left | set(popped) >= {b"%06d" % i for i in range(100_000)} | set(added)
    assert client.info("tiers")["builds_again"] > again


@pytest.mark.parametrize("line", ["ZPOPMIN zset 60000", "SPOP set 60000", "ZREMRANGEBYRANK zset 20000 79999"])
def test_a_crash_meanwhile_shows_all_or_nothing(start, line):
    server = start("--durability", "always")
    client = server.client()
    for first in range(0, 100_000, 10_000):
        client.zadd("zset", {b"%06d" % i: i for i in range(first, first + 10_000)})
        client.sadd("set", *(b"%06d" % i for i in range(first, first + 10_000)))
    before = builds(client)
    link = Link(server)
    link.send([line.encode().split()])
    wait_until(lambda: builds(client) > before)
    server.kill()
    client = start("--durability", "always").client()
    key = line.split()[1]
    elements = len(members(client, key)) if key == "zset" else len(client.smembers(key))
    counted = client.zcard(key) if key == "zset" else client.scard(key)
    assert elements == counted and counted in (100_000, 40_000)


def test_in_a_transaction_they_go_with_its_commit(filled):
    link, client = Link(filled), filled.client()
    before = builds(client)
    link.ask("MULTI")
    link.ask("ZREMRANGEBYRANK", "zset", "0", "499")
    link.ask("SPOP", "set", "700")
    removed, popped = link.ask("EXEC")[1]
    assert removed[1] == 500 and len(popped[1]) == 700 and client.zcard("zset") == 500 and client.scard("set") == 300
    assert builds(client) == before
