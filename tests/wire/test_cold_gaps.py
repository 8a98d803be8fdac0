# SPDX-License-Identifier: Apache-2.0
"""Rows written into a cold key lie between intervals nobody knows: reading them back takes as many loads as the
engine has pages of rows, however many were written and in whatever order."""
import random

import pytest

COUNT = 4000  # cold, and as many written afterwards
PAGE = 256  # rows of one load
LIST_WANTS = 64  # pages that a cold walk over a list asks for at once
NUMBERS = list(range(2 * COUNT))
SHUFFLED = random.Random(7).sample(NUMBERS, len(NUMBERS))


def field(i):
    return b"f%06d" % i


def play(client, commands):
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        pipe.execute()


def loads_of(client, read):
    before = client.info("all")["loads"]
    result = read()
    return result, client.info("all")["loads"] - before


@pytest.mark.parametrize("push", ["RPUSH", "LPUSH"])
def test_a_cold_list_that_was_pushed_to_is_read_in_few_loads(server, push):
    client = server.client(socket_timeout=100)
    play(client, [(push, "list", field(i)) for i in NUMBERS[:COUNT]])
    client.execute_command("DEBUG", "RELOAD")
    play(client, [(push, "list", field(i)) for i in NUMBERS[COUNT:]])
    elements, loads = loads_of(client, lambda: client.lrange("list", 0, -1))
    assert elements == [field(i) for i in (NUMBERS if push == "RPUSH" else reversed(NUMBERS))]
    assert loads <= COUNT // (PAGE - 1) + 2 * LIST_WANTS
    assert loads_of(client, lambda: client.lrange("list", 0, -1)) == (elements, 0)


def test_a_few_elements_amid_many_pushed_ones_take_one_load(server):
    client = server.client(socket_timeout=100)
    play(client, [("RPUSH", "list", field(i)) for i in NUMBERS[:COUNT]])
    client.execute_command("DEBUG", "RELOAD")
    play(client, [("RPUSH", "list", field(i)) for i in NUMBERS[COUNT:]])
    for first in (COUNT + 10, COUNT + COUNT // 2):
        elements, loads = loads_of(client, lambda: client.lrange("list", first, first + 9))
        assert elements == [field(i) for i in range(first, first + 10)]
        assert loads <= 1


@pytest.mark.parametrize("order", [NUMBERS, SHUFFLED], ids=["ordered", "shuffled"])
def test_a_cold_hash_whose_fields_were_set_is_read_in_few_loads(server, order):
    client = server.client(socket_timeout=100)
    play(client, [("HSET", "hash", field(i), "old") for i in order[:COUNT]])
    client.execute_command("DEBUG", "RELOAD")
    play(client, [("HDEL", "hash", field(i)) for i in order[:COUNT:4]])
    play(client, [("HSET", "hash", field(i), "new") for i in order[COUNT - COUNT // 8:]])
    expected = {field(i): b"old" for at, i in enumerate(order[:COUNT]) if at % 4}
    expected.update({field(i): b"new" for i in order[COUNT - COUNT // 8:]})
    result, loads = loads_of(client, lambda: client.hgetall("hash"))
    assert result == expected
    assert loads <= 4


@pytest.mark.parametrize("order", [NUMBERS, SHUFFLED], ids=["ordered", "shuffled"])
def test_a_cold_sorted_set_whose_members_were_added_is_read_in_few_loads(server, order):
    client = server.client(socket_timeout=100)
    play(client, [("ZADD", "zset", i, field(i)) for i in order[:COUNT]])
    client.execute_command("DEBUG", "RELOAD")
    play(client, [("ZADD", "zset", i, field(i)) for i in order[COUNT:]])
    members, loads = loads_of(client, lambda: client.zrange("zset", 0, -1))
    assert members == [field(i) for i in NUMBERS]
    assert loads <= 2 * COUNT // PAGE + 4
    assert client.zrevrange("zset", 0, 2) == [field(i) for i in NUMBERS[:-4:-1]]
