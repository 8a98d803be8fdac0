# SPDX-License-Identifier: Apache-2.0
"""Tasks below an anchor, and the status of the metadata packet that describes their tiles."""
import json

import pytest
import redis

from test_task_queue import TYPES, Tasks, check, item


@pytest.fixture
def q2(start):
    tasks = Tasks(start(*TYPES), db=5)
    tasks.server = start
    return tasks


def meta(tasks, *words):
    return tasks.r.execute_command("TILE.META", *words)


def set_status(tasks, anchor):
    return meta(tasks, "STATUS", "q2", anchor)


def counts(tasks, anchor):
    return tasks.r.hgetall("anchor_status:" + anchor)


def test_the_set_is_done_with_the_last_of_its_tasks(q2):
    meta(q2, "SET", "q2", "0123", "packet")
    q2.add(*(item("0123" + key) for key in ("0", "01", "012", "0123")))
    assert set_status(q2, "0123") == "PENDING"
    taken = q2.taken("COUNT", 3)
    assert set_status(q2, "0123") == "IN_PROGRESS"
    q2.done(*taken)
    assert set_status(q2, "0123") == "IN_PROGRESS"  # one is left
    q2.done(*q2.taken())
    assert set_status(q2, "0123") == "DONE"
    assert counts(q2, "0123")["done"] == "4" and counts(q2, "0123")["completed"] == "true"
    check(q2)


def test_a_tile_at_a_multiple_of_four_belongs_to_the_packet_above(q2):
    for anchor in ("", "0123"):
        meta(q2, "SET", "q2", anchor, "packet")
    q2.add(item("0123"))
    q2.done(*q2.taken())
    assert set_status(q2, "") == "DONE" and set_status(q2, "0123") == "PENDING"


def test_a_failed_task_makes_the_set_an_error_and_a_retry_goes_on(q2):
    meta(q2, "SET", "q2", "", "packet")
    q2.add(item("0"), item("1"))
    q2.take("COUNT", 2)
    q2.fail("0", "x")
    assert set_status(q2, "") == "IN_PROGRESS"
    q2.done("1")
    assert set_status(q2, "") == "ERROR"
    q2.retry("0")
    assert set_status(q2, "") == "IN_PROGRESS"
    q2.done(*q2.taken())
    assert set_status(q2, "") == "DONE"


def test_data_that_changes_while_its_tasks_run_is_not_called_done_by_them(q2):
    meta(q2, "SET", "q2", "", "old")
    q2.add(item("0", version=1), item("1", version=1), item("2", version=1))
    q2.take()
    meta(q2, "SET", "q2", "", "new")
    assert set_status(q2, "") == "PENDING"
    q2.take("COUNT", 2)  # old tasks are taken and end; the packet is another
    q2.done("0", "1", "2")
    assert set_status(q2, "") == "PENDING"
    q2.add(item("0", version=2), item("1", version=1), item("2", version=1))
    assert set_status(q2, "") == "IN_PROGRESS"  # two of its three tasks are done already
    assert q2.taken() == ["0"]
    q2.done("0")
    assert set_status(q2, "") == "DONE"


def test_new_data_whose_tasks_are_all_done_is_done_when_they_are_added(q2):
    meta(q2, "SET", "q2", "", "old")
    q2.add(item("0"))
    q2.done(*q2.taken())
    meta(q2, "SET", "q2", "", "new")
    assert q2.add(item("0")) == 0
    assert set_status(q2, "") == "DONE"


def test_done_and_the_sets_status_are_one_commit(start):
    server = start(*TYPES)
    q2 = Tasks(server, db=5)
    meta(q2, "SET", "q2", "", "packet")
    q2.add(item("0"))
    q2.done(*q2.taken())
    server.kill()
    again = Tasks(start(*TYPES), db=5)
    assert again.status("0") == "DONE" and set_status(again, "") == "DONE"


def test_a_status_that_was_set_by_hand_is_left_where_no_legal_way_leads(q2):
    meta(q2, "SET", "q2", "", "packet")
    q2.add(item("0"))
    q2.take()
    meta(q2, "STATUS", "q2", "", "DONE")
    q2.fail("0", "x")
    assert set_status(q2, "") == "DONE"
    assert counts(q2, "")["status"] == "ERROR"


def test_tasks_without_a_packet_and_in_other_types_have_no_set(q2):
    q2.add(item("0"))
    assert q2.taken() == ["0"]
    assert q2.done("0") == 1
    imagery = Tasks.__new__(Tasks)
    imagery.r = q2.r.__class__(port=q2.r.connection_pool.connection_kwargs["port"], db=1,
                               decode_responses=True)
    imagery.add(item("0"))
    assert imagery.r.keys("anchor_status:*") == []


def test_counts_written_by_hand_are_told(q2):
    meta(q2, "SET", "q2", "", "packet")
    q2.add(item("0"))
    q2.r.hset("anchor_status:", "pending", "many")
    with pytest.raises(redis.ResponseError, match='"anchor_status:"'):
        q2.take()
    assert q2.status("0") == "PENDING"
    q2.r.hset("anchor_status:", "pending", "1")
    assert q2.taken() == ["0"]


def test_sets_are_cold_as_everything_else(q2):
    for anchor in ("", "0123", "3210"):
        meta(q2, "SET", "q2", anchor, "packet " * 1000)
    keys = [anchor + key for anchor in ("", "0123", "3210") for key in ("0", "11", "222", "3333")]
    q2.add(*map(item, keys))
    for _ in range(3):
        q2.r.execute_command("DEBUG", "RELOAD")
        taken = q2.taken("COUNT", 4)
        q2.r.execute_command("DEBUG", "RELOAD")
        assert q2.done(*taken) == 4
    assert [set_status(q2, anchor) for anchor in ("", "0123", "3210")] == ["DONE"] * 3
    check(q2)
