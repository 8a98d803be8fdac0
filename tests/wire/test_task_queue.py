# SPDX-License-Identifier: Apache-2.0
"""TASK.*: the queue of tasks in the database of a tile type."""
import json
import random
import threading
import time

import pytest
import redis

from waiting import wait_until

TYPES = ("--tile-types", "imagery=1", "q2=5")
STATUSES = ("PENDING", "IN_PROGRESS", "DONE", "ERROR")


def item(tilekey, **members):
    return json.dumps({"tilekey": tilekey, **members})


class Tasks:
    """A client of a type's database."""

    def __init__(self, server, db=1):
        self.r = server.client(db=db, decode_responses=True)

    def __getattr__(self, name):
        return lambda *words: self.r.execute_command("TASK." + name.upper(), *words)

    def stats(self):
        flat = self.r.execute_command("TASK.STATS")
        return dict(zip(flat[::2], flat[1::2]))

    def status(self, tilekey):
        return self.r.hget("status:" + tilekey, "status")

    def taken(self, *words):
        return [task[0] for task in self.take(*words)]


@pytest.fixture
def tile_server(start):
    return start(*TYPES)


@pytest.fixture
def tasks(tile_server):
    return Tasks(tile_server)


def check(tasks):
    """The hash is the truth, and everything else says the same."""
    r = tasks.r
    by_status = {status: set() for status in STATUSES}
    for key in r.scan_iter("status:[0-3]*", count=1000):
        by_status[r.hget(key, "status")].add(key.split(":")[1])
    for status in STATUSES:
        assert r.smembers("status:" + status) == by_status[status], status
    assert set(r.zrange("status:PENDING:ts", 0, -1)) == by_status["PENDING"]
    assert set(r.zrange("status:IN_PROGRESS:ts", 0, -1)) == by_status["IN_PROGRESS"]
    for tilekey, lease in r.zrange("status:IN_PROGRESS:ts", 0, -1, withscores=True):
        assert int(r.hget("status:" + tilekey, "lease")) == int(lease) > 0
    for tilekey in by_status["DONE"]:
        assert r.hget("status:" + tilekey, "completed") == "true"
    queued = [json.loads(text)["tilekey"] for text in r.lrange("queue", 0, -1)]
    assert sorted(queued) == sorted(by_status["PENDING"])
    return by_status


def test_a_task_goes_its_way(tasks):
    assert tasks.add(item("0123", version=7, url="http://x/1"), item("01")) == 2
    assert tasks.r.lrange("queue", 0, -1) == [item("01"), item("0123", version=7, url="http://x/1")]
    check(tasks)
    ((tilekey, attempt, lease, text),) = tasks.take("LEASE", 60000)
    assert (tilekey, attempt, text) == ("0123", 1, item("0123", version=7, url="http://x/1"))
    assert abs(lease - time.time() * 1000 - 60000) < 20000
    assert tasks.r.hgetall("status:0123") == {
        "status": "IN_PROGRESS", "completed": "false", "attempts": "1", "lease": str(lease),
        "version": "7", "item": text}
    check(tasks)
    assert tasks.done("0123") == 1
    assert tasks.r.hmget("status:0123", "status", "completed", "lease") == ["DONE", "true", "0"]
    assert tasks.taken() == ["01"]
    assert tasks.fail("01", "no such host") == "OK"
    assert tasks.r.hmget("status:01", "status", "last_error") == ["ERROR", "no such host"]
    check(tasks)
    assert tasks.take() == []
    assert tasks.retry("01", "0123", "3333") == 1
    assert tasks.taken() == ["01"] and tasks.done("01") == 1
    assert check(tasks)["DONE"] == {"01", "0123"}
    assert tasks.stats() == {"pending": 0, "in_progress": 0, "done": 2, "error": 0, "queued": 0,
                             "bad": 0, "oldest_pending_ms": 0, "next_lease_ms": 0}


def test_add_skips_what_is_pending_in_progress_or_done(tasks):
    assert tasks.add(item("0"), item("0"), item("1"), item("2")) == 3
    assert tasks.taken("COUNT", 2) == ["0", "1"]
    tasks.done("0")
    assert tasks.add(item("0"), item("1"), item("2")) == 0
    assert tasks.stats()["queued"] == 1
    check(tasks)


def test_a_newer_version_is_other_work(tasks):
    tasks.add(*(item(key, version=1) for key in "0123"))
    assert tasks.taken("COUNT", 2) == ["0", "1"]
    tasks.done("0")
    new = [item(key, version=2) for key in "0123"]
    assert tasks.add(*new) == 4 and tasks.add(*new) == 0
    assert tasks.status("0") == "PENDING"      # was done: again
    assert tasks.status("1") == "IN_PROGRESS"  # goes on, and knows that there is more
    check(tasks)
    taken = {task[0]: task[3] for task in tasks.take("COUNT", 10)}
    assert taken == {key: item(key, version=2) for key in "023"}
    assert tasks.done("1") == 0 and tasks.status("1") == "PENDING"
    ((key, attempt, _, text),) = tasks.take()
    assert (key, attempt, text) == ("1", 2, item("1", version=2))
    assert tasks.done("1") == 1
    check(tasks)


@pytest.mark.parametrize("end", ["fail", "lease"])
def test_a_newer_version_is_not_lost_when_the_running_attempt_ends_badly(tasks, end):
    tasks.add(item("0", version=1))
    tasks.take("LEASE", 1 if end == "lease" else 60000)
    if end == "lease":
        assert tasks.add(item("0", version=2)) == 1
        ((_, attempt, _, text),) = tasks.take("BLOCK", 100000)
    else:
        assert tasks.add(item("0", version=2)) == 1
        tasks.fail("0", "gone")
        ((_, attempt, _, text),) = tasks.take()
    assert (attempt, text) == (2, item("0", version=2))
    assert not tasks.r.hexists("status:0", "next")
    check(tasks)


def test_a_taker_that_dies_loses_its_lease_and_the_task_comes_back(tile_server, tasks):
    """The source pops, and marks afterwards: a taker that dies in between takes the task with it."""
    tasks.add(item("0123"), item("3210"))
    with tile_server.connect() as dead:  # takes, and is gone
        dead.sendall(b"SELECT 1\r\nTASK.TAKE LEASE 1000\r\n")
        heard = b""
        while b"0123" not in heard:
            part = dead.recv(65536)
            assert part, heard
            heard += part
    assert tasks.taken() == ["3210"]
    ((tilekey, attempt, _, _),) = tasks.take("BLOCK", 100000)
    assert (tilekey, attempt) == ("0123", 2)
    check(tasks)


def test_the_job_puts_tasks_back_without_anybody_asking(tasks):
    tasks.add(*(item(f"{n % 4}{n // 4 % 4}{n // 16 % 4}0") for n in range(50)))
    assert len(tasks.take("COUNT", 50, "LEASE", 1)) == 50
    wait_until(lambda: tasks.r.scard("status:PENDING") == 50)
    check(tasks)


def test_leases_outlive_the_server(start, tile_server, tasks):
    tasks.add(item("0"), item("1"))
    tasks.take("LEASE", 300)
    tasks.take("LEASE", 3600000)
    tile_server.kill()
    again = Tasks(start(*TYPES))
    assert again.taken("BLOCK", 100000) == ["0"]
    assert again.done("1") == 1
    check(again)


def test_a_lease_is_extended_or_cut_short_by_who_has_it(tasks):
    tasks.add(item("0"), item("1"))
    tasks.take("COUNT", 2, "LEASE", 60000)
    lease = tasks.extend("0", 3600000, "ATTEMPT", 1)
    assert abs(lease - time.time() * 1000 - 3600000) < 20000
    assert tasks.r.hmget("status:0", "status", "attempts", "lease") == ["IN_PROGRESS", "1", str(lease)]
    assert check(tasks)["IN_PROGRESS"] == {"0", "1"}
    with pytest.raises(redis.ResponseError, match="LEASELOST"):
        tasks.extend("0", 3600000, "ATTEMPT", 2)
    tasks.extend("1", 1)  # it goes back to the queue, though the first lease is not over
    wait_until(lambda: tasks.status("1") == "PENDING")
    with pytest.raises(redis.ResponseError, match="not in progress"):
        tasks.extend("1", 1000)
    with pytest.raises(redis.ResponseError, match="LEASELOST"):
        tasks.extend("1", 1000, "ATTEMPT", 1)
    with pytest.raises(redis.ResponseError, match="no task"):
        tasks.extend("2", 1000)
    check(tasks)


def test_who_lost_the_lease_is_told(tasks):
    tasks.add(item("0"))
    tasks.take("LEASE", 1)
    tasks.take("BLOCK", 100000)
    for words in (("DONE", "0", "ATTEMPT", 1), ("FAIL", "0", "why", "ATTEMPT", 1)):
        with pytest.raises(redis.ResponseError, match="^LEASELOST attempt 1 of task 0 is over"):
            tasks.r.execute_command("TASK." + words[0], *words[1:])
    assert tasks.done("0", "ATTEMPT", 2) == 1
    assert tasks.done("0", "ATTEMPT", 2) == 0  # said twice: the reply of the first was lost
    with pytest.raises(redis.ResponseError, match="LEASELOST"):
        tasks.fail("0", "why", "ATTEMPT", 2)


def test_done_of_many_is_all_or_nothing(tasks):
    tasks.add(item("0"), item("1"))
    tasks.taken()
    with pytest.raises(redis.ResponseError, match="task 1 is not in progress but PENDING"):
        tasks.done("0", "1")
    assert tasks.status("0") == "IN_PROGRESS"
    tasks.taken()
    assert tasks.done("0", "1", "ATTEMPT", 1, "0") == 2
    with pytest.raises(redis.ResponseError, match="there is no task 33"):
        tasks.done("33")


def test_take_waits_for_a_task(tile_server, tasks):
    got = []

    def wait(n):
        got.append(Tasks(tile_server).taken("COUNT", 1, "BLOCK", 100000))

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: tasks.r.info("clients")["blocked_clients"] == 4)
    tasks.add(*map(item, "0123"))
    for thread in threads:
        thread.join(100)
    assert sorted(got) == [["0"], ["1"], ["2"], ["3"]]
    assert tasks.take("BLOCK", 1) == []
    check(tasks)


def test_tasks_are_atomic_with_other_commands(tasks):
    pipe = tasks.r.pipeline(transaction=True)
    pipe.execute_command("TASK.ADD", item("0"))
    pipe.execute_command("TASK.TAKE", "BLOCK", 1000)
    pipe.execute_command("TASK.DONE", "0")
    pipe.execute_command("TASK.TAKE", "BLOCK", 1000)
    added, taken, done, none = pipe.execute()
    assert (added, taken[0][0], done, none) == (1, "0", 1, [])


BAD_ITEMS = ["", "x", "[]", "{}", '{"tilekey": 1}', '{"tilekey": ""}', '{"tilekey": "4"}',
             '{"tilekey": "%s"}' % ("0" * 25), '{"tilekey": "0", "tilekey": "1"}', '"0"',
             '{"tilekey": "0", "version": -1}', '{"tilekey": "0", "version": "1"}',
             '{"tilekey": "0", "version": 99999999999999999999}', '{"tilekey": "0\\u0000"}',
             '{"tilekey": "0"} x', '{"tilekey": "0", "x": "' + "y" * 70000 + '"}', "[" * 10000]


def test_bad_items_are_refused_and_nothing_of_their_command_happens(tasks):
    for bad in BAD_ITEMS:
        with pytest.raises(redis.ResponseError):
            tasks.add(item("1"), bad, item("2"))
    assert tasks.r.dbsize() == 0


BAD_WORDS = [
    "TASK.TAKE COUNT 0", "TASK.TAKE COUNT 1001", "TASK.TAKE COUNT", "TASK.TAKE LEASE 0",
    "TASK.TAKE LEASE 99999999999999", "TASK.TAKE BLOCK -1", "TASK.TAKE NOW 1", "TASK.DONE x",
    "TASK.DONE 0 ATTEMPT", "TASK.DONE 0 ATTEMPT 0", "TASK.DONE 0 ATTEMPT x", "TASK.FAIL 4 x",
    "TASK.FAIL 0 x ATTEMPT", "TASK.FAIL 0 x TRY 1", "TASK.RETRY x", "TASK.RETRY ALL 5",
    "TASK.RETRY ALL COUNT 0", "TASK.EXTEND x 5", "TASK.EXTEND 0 0", "TASK.EXTEND 0 x", "TASK.EXTEND 0 5 ATTEMPT",
    "TASK.EXTEND 0 99999999999999"]


def test_bad_arguments_are_refused(tasks):
    for words in BAD_WORDS:
        with pytest.raises(redis.ResponseError):
            tasks.r.execute_command(*words.split())
    assert tasks.r.dbsize() == 0


def test_a_database_without_a_tile_type_has_no_tasks(tile_server):
    other = Tasks(tile_server, db=0)
    for words in (("ADD", item("0")), ("TAKE",), ("DONE", "0"), ("FAIL", "0", "x"), ("RETRY", "0"),
                  ("EXTEND", "0", "5"), ("STATS",)):
        with pytest.raises(redis.ResponseError, match="database of a tile type"):
            other.r.execute_command("TASK." + words[0], *words[1:])
    assert other.r.dbsize() == 0


# ---- written by hand ----

def test_an_element_pushed_by_hand_is_a_task(tasks):
    tasks.r.lpush("queue", item("0", version=3))
    assert tasks.taken() == ["0"] and tasks.r.hget("status:0", "version") == "3"
    assert tasks.done("0") == 1
    tasks.r.lpush("queue", item("0", version=3))  # what is done is not done again
    assert tasks.take() == []
    check(tasks)


def test_elements_that_are_no_tasks_are_set_aside_and_stop_nobody(tasks):
    tasks.add(item("0"))
    tasks.r.rpush("queue", *BAD_ITEMS)
    tasks.add(item("1"))
    assert tasks.taken("COUNT", 1) == ["0"]
    assert tasks.r.llen("queue:bad") == len(BAD_ITEMS) == tasks.stats()["bad"]
    assert tasks.taken() == ["1"]


def test_a_queue_that_was_deleted_loses_no_task(tasks):
    tasks.add(*map(item, "0123"))
    tasks.r.delete("queue")
    assert tasks.taken("COUNT", 10) == ["0", "1", "2", "3"]
    check(tasks)


NONSENSE = ("status", "BUSY"), ("status", ""), ("attempts", "many"), ("lease", "-1"), ("version", "1.5")


def test_a_hash_that_makes_no_sense_is_told_and_set_aside(tasks):
    for field, value in NONSENSE:
        tasks.r.flushdb()
        check_nonsense(tasks, field, value)


def check_nonsense(tasks, field, value):
    tasks.add(item("0"), item("1"))
    tasks.r.hset("status:0", field, value)
    for words in (("TASK.DONE", "0"), ("TASK.FAIL", "0", "x"), ("TASK.RETRY", "0"),
                  ("TASK.ADD", item("0", version=9))):
        with pytest.raises(redis.ResponseError, match='"status:0": '):
            tasks.r.execute_command(*words)
    assert tasks.taken("COUNT", 5) == ["1"]
    assert tasks.r.lrange("queue:bad", 0, -1) == [item("0")]
    tasks.r.delete("status:0")  # and the way out
    assert tasks.add(item("0")) == 1 and tasks.taken() == ["0"]


def test_a_key_of_another_type_is_wrongtype_and_nothing_happens(tasks):
    for key in ("queue", "status:PENDING", "status:IN_PROGRESS", "status:DONE", "status:PENDING:ts",
                "status:IN_PROGRESS:ts", "status:0"):
        tasks.r.flushdb()
        check_wrong_type(tasks, key)


def check_wrong_type(tasks, key):
    tasks.add(item("0"), item("1"))
    assert tasks.taken() == ["0"]
    tasks.r.delete(key)
    tasks.r.set(key, "mine")
    refused = 0
    for words in (("ADD", item("2")), ("DONE", "0"), ("TAKE",), ("STATS",)):
        try:
            tasks.r.execute_command("TASK." + words[0], *words[1:])
        except redis.ResponseError as error:
            assert "WRONGTYPE" in str(error) or "not in progress" in str(error)
            refused += 1
    assert refused >= 1
    assert tasks.r.get(key) == "mine"


def test_a_hash_that_was_deleted_leaves_no_trace(tasks):
    tasks.add(item("0"), item("1"))
    tasks.take("LEASE", 1)
    tasks.r.delete("status:0", "status:1", "queue")
    wait_until(lambda: tasks.r.zcard("status:IN_PROGRESS:ts") == 0)
    assert tasks.take() == []
    assert tasks.r.keys("status:*") == []
    assert tasks.add(item("0")) == 1 and tasks.taken() == ["0"]


def test_strange_members_of_the_times_are_thrown_out(tasks):
    tasks.add(item("0"))
    tasks.r.zadd("status:PENDING:ts", {"x" * 1000: 1, "": 0, "4": 2})
    tasks.r.zadd("status:IN_PROGRESS:ts", {"y" * 100000: float("-inf"), "z": 1, "w": float("inf")})
    assert tasks.taken("COUNT", 10) == ["0"]
    assert tasks.r.zrange("status:PENDING:ts", 0, -1) == []
    assert "z" not in tasks.r.zrange("status:IN_PROGRESS:ts", 0, -1)


def test_retry_all_takes_those_that_failed(tasks):
    tasks.add(*map(item, "0123"))
    tasks.take("COUNT", 4)
    for key in "012":
        tasks.fail(key, "x")
    tasks.done("3")
    tasks.r.sadd("status:ERROR", "nonsense", "3", "33")
    assert tasks.retry("ALL", "COUNT", 1000) == 3
    assert tasks.r.smembers("status:ERROR") == set()
    check(tasks)


# ---- cold, killed, at random ----

def test_cold_tasks_are_taken_and_done_as_hot_ones(tasks):
    keys = ["".join(random.Random(n).choices("0123", k=12)) for n in range(200)]
    tasks.add(*map(item, keys))
    tasks.r.execute_command("DEBUG", "RELOAD")
    assert tasks.taken("COUNT", 200) == keys
    tasks.r.execute_command("DEBUG", "RELOAD")
    assert tasks.done(*keys) == 200
    check(tasks)


@pytest.mark.parametrize("seed", range(3))
def test_random_commands_kills_and_reloads_agree_with_a_model(start, seed):
    """No task is lost, none done is done again."""
    rng = random.Random(seed)
    server = start(*TYPES)
    tasks = Tasks(server)
    keys = ["".join(rng.choices("0123", k=rng.randint(1, 5))) for _ in range(40)]
    model, order = {}, []  # key: status; pending keys, the oldest first
    for _ in range(600):
        what = rng.choice(["add", "add", "take", "take", "done", "done", "fail", "retry", "reload", "kill"])
        some = rng.sample(keys, rng.randint(1, 6))
        running = [key for key in some if model.get(key) == "IN_PROGRESS"]
        if what == "add":
            new = [key for key in dict.fromkeys(some) if key not in model]
            assert tasks.add(*map(item, some)) == len(new)
            model.update(dict.fromkeys(new, "PENDING"))
            order += new
        elif what == "take":
            count = rng.randint(1, 5)
            taken = tasks.taken("COUNT", count, "LEASE", 3600000)
            assert taken == order[:count]
            order = order[count:]
            model.update(dict.fromkeys(taken, "IN_PROGRESS"))
        elif what == "done" and running:
            assert tasks.done(*running) == len(set(running))
            model.update(dict.fromkeys(running, "DONE"))
        elif what == "fail" and running:
            tasks.fail(running[0], "x")
            model[running[0]] = "ERROR"
        elif what == "retry":
            failed = [key for key in dict.fromkeys(some) if model.get(key) == "ERROR"]
            assert tasks.retry(*some) == len(failed)
            model.update(dict.fromkeys(failed, "PENDING"))
            order += failed
        elif what == "reload" and rng.random() < 0.2:
            tasks.r.execute_command("DEBUG", "RELOAD")
        elif what == "kill" and rng.random() < 0.05:
            server.kill()
            server = start(*TYPES)
            tasks = Tasks(server)
    by_status = check(tasks)
    assert {key: status for status in STATUSES for key in by_status[status]} == model
