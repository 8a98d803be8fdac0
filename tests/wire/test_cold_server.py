# SPDX-License-Identifier: Apache-2.0
"""Any read of any command may find its rows cold: same replies, same effects, once.

DEBUG COLD-INJECT n makes the n-th store read of the next command answer cold. Every command of
tests/wire/diff/scenario.txt is played with n = 1, 2, 3 ... until no command reads that often, to a server
beside one that is left in peace.
"""
import pathlib

import pytest

from conftest import assert_sound
from diff import gen
from diff.cases import read_case
from diff.runner import Pair, describe
from diff.servers import terraced_path

SCENARIO = read_case((pathlib.Path(__file__).parent / "diff" / "scenario.txt").read_text().splitlines())
READS_MAX = 1000
GROUPS = ("string", "bitmap", "hash", "list", "set", "zset", "key", "db", "transactions")
RANDOM_SEQUENCES = 40


@pytest.fixture(scope="module")
def pair():
    pair = Pair(terraced_path(), plain=True)
    yield pair
    said = pair.ours.stderr()
    pair.close()
    assert_sound(said)


@pytest.fixture
def injected(pair):
    """Gives the count of reads that were made cold so far."""
    if pair.cold_injected() is None:
        pytest.skip("terraced has no DEBUG COLD-INJECT")
    return pair.cold_injected


def known(pair, items):
    return [(client, args) for client, args in items if args[0].decode().upper() not in pair.missing]


def fail_if(found, items, n):
    if found:
        lines = [f"with read {n} cold:", *describe(items[:found.index + 1][-15:]), *found.lines()]
        pytest.fail("\n".join(lines), pytrace=False)


def test_the_scenario_holds_every_command():
    played = {args[0].decode() for _, args in SCENARIO}
    owed = {name for group in GROUPS for name in gen.names_of(group)} - {"WAIT"}
    assert sorted(owed - played) == []


def test_a_cold_read_anywhere_changes_nothing(pair, injected):
    items = known(pair, SCENARIO)
    fail_if(pair.play(items, 3), items, 0)
    calm = [item for item in items if item != gen.RELOAD]
    reads = {}
    for n in range(1, READS_MAX):
        before = injected()
        fail_if(pair.play(calm, 2, inject=n, reads=reads), calm, n)
        if injected() == before:
            break
    print(f"{sum(reads.values())} cold reads in {len(reads)} commands, {n - 1} in one of them")
    assert n < READS_MAX - 1 and len(reads) > len(calm) // 2


def test_a_cold_read_in_random_sequences_changes_nothing(pair, injected):
    generator = gen.Generator(None, pair.missing)
    for seed in range(RANDOM_SEQUENCES):
        items = generator.of_seeds([seed * 1000 + i for i in range(30)])
        n = 1 + seed % 7
        fail_if(pair.play(items, 2 + seed % 2, inject=n), items, n)
