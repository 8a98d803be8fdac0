# SPDX-License-Identifier: Apache-2.0
"""Nothing on a cold key is quadratic: a command that finds its rows cold begins again a bounded number of times.

The calls are those of tools/bench_cold.py, which measures times as well; here the counts of INFO tiers are the claim.
"""
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bench_cold  # noqa: E402

COUNT = 30_000  # elements of a key
SMALL = 10_000  # where they are more than memory
PARTS = ["string", "hash", "list", "set", "zset_read", "zset_write", "generic"]
LOADS_FREE = 8  # meta rows of all keys, ends of groups
WHOLE_DATABASES = {"WAIT", "DBSIZE", "FLUSHALL", "FLUSHDB", "SWAPDB"}


def part_calls(part, n):
    return list(getattr(bench_cold, f"calls_{part}")(n))


def loads_max(bench, call):
    """A page of everything, and a load for every row that is named, or looked up in a much larger key."""
    looked_up = bench.n // 10 if "few" in call.words else 0
    return LOADS_FREE + len(call.words) + 2 * looked_up + 2 * bench.pages(call)


def test_every_command_on_keys_is_called():
    names = {name for group in bench_cold.GROUPS
             for name in re.findall(r'^CMD\("(\w+)"', (ROOT / "src/server/commands" / f"{group}.def").read_text(), re.M)}
    assert names - {call.command for call in bench_cold.calls(1000)} == WHOLE_DATABASES


@pytest.mark.parametrize("part", PARTS)
def test_a_cold_command_begins_again_a_few_times_however_large_its_key(server, part):
    calls = part_calls(part, COUNT)
    bench = bench_cold.Bench(server.port, COUNT, calls)
    wrong = []
    for call in calls:
        _, counts = bench.measure_cold(call)
        if counts["undos"] > bench.undos_max(call) or counts["loads"] > loads_max(bench, call):
            wrong.append((" ".join(call.words[:6]), counts, bench.undos_max(call), loads_max(bench, call)))
    bench.close()
    assert wrong == []


@pytest.mark.parametrize("part", PARTS)
def test_a_key_larger_than_memory_takes_no_more_than_a_load_a_page(start, part):
    """What is read ahead may be evicted before it is used, and is read again: bounded, but not by windows."""
    calls = part_calls(part, SMALL)
    bench = bench_cold.Bench(start("--hot-memory", "1mb").port, SMALL, calls)
    wrong = []
    for call in calls:
        _, counts = bench.measure_cold(call)
        undos_max = bench_cold.UNDOS_FREE + LOADS_FREE + bench.pages(call)
        if counts["undos"] > undos_max or counts["loads"] > 2 * loads_max(bench, call):
            wrong.append((" ".join(call.words[:6]), counts, undos_max, 2 * loads_max(bench, call)))
    bench.close()
    assert wrong == []
