# SPDX-License-Identifier: Apache-2.0
"""Tasks of one tilekey and several kinds: each is a task of its own."""
import json
import time

import pytest
import redis

from test_task_queue import STATUSES, TYPES, Tasks, item

KINDS = ("imagery", "terrain", "vector", "q2")


@pytest.fixture
def q2(start):
    tasks = Tasks(start(*TYPES), db=5)
    tasks.r.execute_command("TILE.META", "SET", "q2", "0123", "packet")
    return tasks


def set_status(tasks, anchor="0123"):
    return tasks.r.execute_command("TILE.META", "STATUS", "q2", anchor)


def of_kinds(tilekey, **members):
    return [item(tilekey, kind=kind, **members) for kind in KINDS]


def check(tasks):
    """The hashes are the truth, and everything else says the same."""
    r = tasks.r
    by_status = {status: set() for status in STATUSES}
    for key in r.scan_iter("status:*", count=1000):
        if r.type(key) == "hash":
            by_status[r.hget(key, "status")].add(key.removeprefix("status:"))
    for status in STATUSES:
        assert r.smembers("status:" + status) == by_status[status], status
    assert set(r.zrange("status:PENDING:ts", 0, -1)) == by_status["PENDING"]
    assert set(r.zrange("status:IN_PROGRESS:ts", 0, -1)) == by_status["IN_PROGRESS"]


def test_tasks_of_one_tilekey_and_different_kinds_do_not_replace_each_other(q2):
    assert q2.add(*of_kinds("01230", version=1, url="http://x")) == 4
    assert q2.add(*of_kinds("01230", version=1)) == 0
    check(q2)
    taken = q2.take("COUNT", 10)
    assert [task[0] for task in taken] == [kind + ":01230" for kind in KINDS]
    assert [json.loads(task[3])["kind"] for task in taken] == list(KINDS)
    check(q2)


def test_the_set_is_done_only_when_the_tasks_of_all_kinds_are(q2):
    q2.add(*of_kinds("01230"), item("01230"))
    q2.take("COUNT", 10)
    ids = [kind + ":01230" for kind in KINDS] + ["01230"]
    for n, id_ in enumerate(ids):
        assert set_status(q2) == "IN_PROGRESS"
        assert q2.done(id_) == 1
        assert q2.r.hget("anchor_status:0123", "done") == str(n + 1)
    assert set_status(q2) == "DONE"
    check(q2)


def test_every_command_names_a_task_by_its_kind(q2):
    q2.add(*of_kinds("01230"))
    q2.take("COUNT", 4, "LEASE", 60000)
    assert q2.extend("imagery:01230", 90000, "ATTEMPT", 1) > time.time() * 1000
    assert q2.fail("terrain:01230", "timed out", "ATTEMPT", 1) == "OK"
    with pytest.raises(redis.ResponseError, match="LEASELOST"):
        q2.done("vector:01230", "ATTEMPT", 2)
    with pytest.raises(redis.ResponseError, match="no task 01230"):
        q2.done("01230")
    assert q2.retry("terrain:01230", "imagery:01230") == 1
    q2.take()
    q2.fail("terrain:01230", "again")
    assert q2.retry("ALL") == 1
    assert q2.r.hget("status:terrain:01230", "status") == "PENDING"
    assert q2.add(item("01230", kind="imagery", version=5)) == 1  # while it runs: afterwards
    assert q2.done("imagery:01230", "vector:01230", "q2:01230") == 2
    assert sorted(q2.taken("COUNT", 10)) == ["imagery:01230", "terrain:01230"]
    check(q2)


def test_a_lease_of_a_task_with_a_kind_ends(q2):
    q2.add(*of_kinds("01230"))
    assert len(q2.taken("COUNT", 4, "LEASE", 1)) == 4
    assert sorted(q2.taken("COUNT", 4, "BLOCK", 0)) != []
    check(q2)


def test_tasks_with_kinds_survive_a_deleted_queue_and_a_restart(start):
    server = start(*TYPES)
    tasks = Tasks(server, db=5)
    tasks.add(*of_kinds("01230"))
    tasks.r.delete("queue")
    tasks.r.hdel("status:terrain:01230", "item")
    server.kill()
    tasks = Tasks(start(*TYPES), db=5)
    taken = {task[0]: json.loads(task[3]) for task in tasks.take("COUNT", 10)}
    assert taken.keys() == {kind + ":01230" for kind in KINDS}
    assert taken["terrain:01230"] == {"tilekey": "01230", "kind": "terrain"}
    check(tasks)


@pytest.mark.parametrize("kind", ["", "Imagery", "a b", "1a", "a:b", "a" * 32, 7, None, ["imagery"]])
def test_a_kind_that_is_no_word_is_refused(q2, kind):
    with pytest.raises(redis.ResponseError, match='the "kind" of a task is a word'):
        q2.add(item("0", kind=kind))
    assert q2.stats()["pending"] == 0


@pytest.mark.parametrize("id_", [":0", "imagery:", "imagery:4", "Imagery:0", "a:b:0", "imagery:0:"])
def test_what_names_no_task_is_refused(q2, id_):
    for words in (("done", id_), ("fail", id_, "x"), ("extend", id_, 5), ("retry", id_)):
        with pytest.raises(redis.ResponseError, match="a task is a tilekey"):
            getattr(q2, words[0])(*words[1:])


def test_tasks_that_an_older_server_has_stored_are_read_on(q2):
    """Its ids have no kind, also where their items have such a member."""
    items = {"01230": item("01230", version=2), "01231": item("01231", kind="imagery"), "01232": item("01232", kind="Any Thing")}
    for id_, text in items.items():
        q2.r.hset("status:" + id_, mapping={"status": "PENDING", "completed": "false", "attempts": 0, "lease": 0,
                                            "version": 0, "item": text})
        q2.r.sadd("status:PENDING", id_)
        q2.r.zadd("status:PENDING:ts", {id_: 1})
        q2.r.lpush("queue", text)
        q2.r.hincrby("anchor_status:0123", "pending", 1)
    taken = {task[0]: task[3] for task in q2.take("COUNT", 10)}
    assert taken == items  # once each, under the id that they have
    q2.fail("01231", "x")
    q2.retry("01231")
    assert q2.taken("COUNT", 10) == ["01231"]
    assert q2.done(*items) == 3
    check(q2)
    assert q2.r.llen("queue:bad") == 0
    assert q2.add(item("01231", kind="imagery")) == 1  # a task of its own


def older_task(q2, id_, status, text, **fields):
    q2.r.hset("status:" + id_, mapping={"status": status, "completed": "false", "attempts": 0, "lease": 0,
                                        "version": 0, "item": text, **fields})
    q2.r.sadd("status:" + status, id_)
    q2.r.zadd(f"status:{status}:ts", {id_: 1})
    q2.r.hincrby("anchor_status:0123", {"PENDING": "pending", "IN_PROGRESS": "in_progress"}[status], 1)


@pytest.mark.parametrize("kind", ["Any Thing", 7, None])
def test_an_element_that_an_older_server_has_left_behind_is_no_rubbish(q2, kind):
    """A newer item had replaced the one of the element; it named the task all the same."""
    newer = item("01230", kind=kind, version=2)
    older_task(q2, "01230", "PENDING", newer)
    q2.r.lpush("queue", item("01230", kind=kind, version=1))
    q2.r.lpush("queue", newer)
    assert [(task[0], task[3]) for task in q2.take("COUNT", 10)] == [("01230", newer)]
    assert q2.r.llen("queue:bad") == q2.r.llen("queue") == 0
    assert q2.done("01230") == 1
    check(q2)


@pytest.mark.parametrize("kind", ["Any Thing", "imagery"])
def test_a_newer_item_that_an_older_server_kept_for_later_is_not_lost(q2, kind):
    newer = item("01230", kind=kind, version=2)
    older_task(q2, "01230", "IN_PROGRESS", item("01230", kind=kind, version=1), attempts=1, lease=1 << 50, next=newer)
    q2.done("01230")
    assert [(task[0], task[3]) for task in q2.take("COUNT", 10)] == [("01230", newer)]
    assert q2.r.llen("queue:bad") == 0


def test_an_element_with_a_kind_that_is_no_word_and_no_task_is_rubbish(q2):
    q2.r.lpush("queue", item("01230", kind="Any Thing"))
    assert q2.taken() == [] and q2.r.llen("queue:bad") == 1


def test_an_element_with_a_kind_that_a_client_pushed_is_a_task(q2):
    q2.r.lpush("queue", item("01230", kind="vector"))
    assert q2.taken() == ["vector:01230"]
    q2.done("vector:01230")
    check(q2)
