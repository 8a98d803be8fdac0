# SPDX-License-Identifier: Apache-2.0
"""Rows larger than a page of a load: a walk over cold ones goes on behind the row where it stands."""
import pytest

LARGE = 100 * 1024  # a page of a load has 64 KiB


@pytest.mark.parametrize("count", [2, 5])
def test_cold_lists_of_large_elements_are_read_in_both_directions(server, count):
    client = server.client(socket_timeout=100)
    elements = [bytes([65 + i]) * LARGE for i in range(count)]
    client.rpush("list", *elements)
    client.execute_command("DEBUG", "RELOAD")
    assert client.lrange("list", 0, -1) == elements
    client.execute_command("DEBUG", "RELOAD")
    assert client.lindex("list", -2) == elements[-2]
    client.execute_command("DEBUG", "RELOAD")
    assert client.lpos("list", elements[0], rank=-1) == 0


def test_a_start_finds_out_what_there_is_behind_large_tiles_that_were_deleted(start):
    server = start("--tile-types", "imagery=1")
    client = server.client()
    keys = [str(i % 4) + "0" * i for i in range(8)]
    for key in keys:
        client.execute_command("TILE.SET", "imagery", key, b"x" * LARGE)
    client.execute_command("DEBUG", "RELOAD")
    assert client.execute_command("TILE.DEL", "imagery", *keys) == len(keys)
    server.kill()
    client = start("--tile-types", "imagery=1").client(socket_timeout=100)
    assert client.execute_command("TILE.COUNT", "imagery", "") == 0


def test_a_command_larger_than_memory_leaves_what_is_hot(start):
    """12 MiB of fields are read at once where 4 MiB are allowed, beside 1,000 keys that everybody asks for. In a
    transaction: elsewhere the reply is written in slices, which pass through memory as a scan does."""
    client = start("--hot-memory", "4mb").client()
    for first in range(0, 150_000, 1000):
        client.hset("large", mapping={f"field:{n:08d}": "v" * 64 for n in range(first, first + 1000)})
    client.execute_command("DEBUG", "RELOAD")
    names = [f"small:{n}" for n in range(1000)]
    client.mset({name: "x" * 200 for name in names})
    client.execute_command("SAVE")
    for command in ("hvals", "hgetall", "hkeys"):
        transaction = client.pipeline()
        getattr(transaction, command)("large")
        assert len(transaction.execute()[0]) == 150_000
        before = client.info("tiers")["cold_reads"]
        assert client.mget(names) == [b"x" * 200] * len(names)
        assert client.info("tiers")["cold_reads"] == before
