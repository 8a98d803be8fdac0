# SPDX-License-Identifier: Apache-2.0
"""Every reply of terraced is Redis's: random sequences to both. See tests/wire/diff/__main__.py for the tool.

TERRACE_DIFF_EXAMPLES is how many sequences each test plays; TERRACE_LONG plays fifty times as many.
"""
import os
import pathlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from diff import catalogue, gen
from diff.cases import read_cases
from diff.runner import Pair, describe
from diff.shrink import shrink
from diff.wanted import WANTED

EXPECTED_MISSING = set()  # what terraced does not know yet; this set only shrinks, and ends empty

EXAMPLES = int(os.environ.get("TERRACE_DIFF_EXAMPLES") or (6000 if os.environ.get("TERRACE_LONG") else 80))
RELOAD_SHARE = 0.06
GROUPS = [None, *(group for group in catalogue.FORMS)]
CASES = read_cases((pathlib.Path(__file__).parent / "diff" / "cases.txt").read_text())


@pytest.fixture(scope="module")
def twins():
    pair = Pair(None, itself=True)
    yield pair
    pair.close()


def report(pair, items, proto, found):
    items, found = shrink(lambda some: pair.play(some, proto), items, found)
    return "\n".join(["", f"RESP{proto}, as redis-cli lines:", *describe(items), *found.lines()])


def play_many(pair, group, examples, reload_share):
    generator = gen.Generator([group] if group else None, pair.missing)
    if not generator.forms:
        pytest.skip(f"terraced knows no command of {group}")

    failures = []

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(0, 2**32 - 1), min_size=20, max_size=60))
    def play(seeds):
        if failures:
            return
        items = generator.of_seeds(seeds, reload_share)
        proto = 3 if seeds[-1] % 3 == 0 else 2
        found = pair.play(items, proto)
        if found:  # our own shrinking knows what a command is
            failures.append(report(pair, items, proto, found))

    play()
    if failures:
        pytest.fail(failures[0], pytrace=False)


def test_the_tool_sees_no_difference_between_redis_and_redis(twins):
    play_many(twins, None, 60, 0)


def test_no_command_is_missing_but_those_we_expect(pair):
    missing = pair.missing & WANTED
    known_by_now = sorted(EXPECTED_MISSING - missing)
    if known_by_now:
        print("no longer missing, take them from EXPECTED_MISSING:", *known_by_now)
    assert sorted(missing - EXPECTED_MISSING) == []


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group or "all")
def test_replies_are_those_of_redis(pair, group):
    play_many(pair, group, EXAMPLES, 0)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group or "all")
def test_replies_are_those_of_redis_while_everything_turns_cold(pair, group):
    if not pair.reload:
        pytest.skip("terraced has no DEBUG RELOAD")
    play_many(pair, group, max(1, EXAMPLES // 6), RELOAD_SHARE)  # a reload takes its time


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("proto", (2, 3))
def test_cases(pair, name, proto):
    items = CASES[name]
    if any(args[0].decode().upper() in pair.missing and args[0] != b"NOSUCH" for _, args in items):
        pytest.skip("terraced does not know a command of it yet")
    found = pair.play(items, proto)
    if found:
        pytest.fail(report(pair, items, proto, found), pytrace=False)
