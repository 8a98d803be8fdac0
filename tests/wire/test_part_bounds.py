# SPDX-License-Identifier: Apache-2.0
"""Partitions at their bounds: long pages, many ids, large drops, numbers of any size, exact counts meanwhile."""
import random
import sqlite3
import threading

import pytest
import redis

from part import Job, pairs
from waiting import wait_until

MIB = 1024 * 1024


def wait(what):
    """Waits for a job of the server; gives up after a minute."""
    wait_until(what, 60)


@pytest.fixture
def job(start):
    return Job(start("--part-batch", "20", "--part-simple-max", "100"))


# ---- much at once ----

@pytest.mark.parametrize("packed", (False, True))
def test_pages_of_long_records_are_cut_by_their_bytes(job, packed):
    options = '"' + "x" * (MIB - 2) + '"'
    for partition in range(1, 41):
        job.call("ADD", partition, partition, partition, "OPTIONS", options)
        job.claim("w", "ID", partition)
        job.call("DONE", "w", partition)
    if packed:
        job.call("ARCHIVE", "COMPACT")
    cursor, seen, pages = 0, [], 0
    while pages == 0 or cursor:
        cursor, records = job.page("ARCHIVED", "COUNT", 10000, "CURSOR", cursor)
        assert sum(len(record["options"]) for record in records) < 18 * MIB
        seen += [record["partition_id"] for record in records]
        pages += 1
    assert seen == list(range(1, 41)) and pages >= 3


# ---- checks while work goes on ----

def test_counts_by_state_are_checked_exactly_while_they_change(start):
    """More active partitions than one commit of VERIFY looks at, in all states, changing under it."""
    server = start("--part-batch", "20", "--part-simple-max", "100")
    job, rng, over, problems = Job(server), random.Random(7), threading.Event(), []
    job.call("ALLOC", 6000, "SIZE", 1)

    def check():
        other = Job(server)
        while not over.is_set():
            problems.extend(pairs(other.call("ARCHIVE", "VERIFY"))["problems"])

    threads = [threading.Thread(target=check) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        pipe = job.client.pipeline(transaction=False)
        for _ in range(50):
            partition = rng.randrange(1, 6300)
            pipe.execute_command("PART.CLAIM", "j", "w", "ID", partition, "FORCE")
            pipe.execute_command(*rng.choice((
                ("PART.START", "j", "w", partition), ("PART.DONE", "j", "w", partition),
                ("PART.FAIL", "j", "w", partition, "no"), ("PART.RELEASE", "j", "w", partition),
                ("PART.DEL", "j", partition), ("PART.ADD", "j", partition, partition, partition),
                ("PART.RETRY", "j", partition))))
        pipe.execute(raise_on_error=False)
    over.set()
    for thread in threads:
        thread.join()
    assert problems == [] and all(count > 0 for count in job.states())


# ---- dropping ----

@pytest.fixture
def batches(start):
    """A job of 1,500 batches, more than one commit of PART.DROP removes."""
    args = ("--part-batch", "2", "--part-simple-max", "2")
    server = start(*args)
    job = Job(server)
    job.call("ALLOC", 3000, "SIZE", 1)
    while job.finish("w", 1000):
        pass
    job.call("ARCHIVE", "COMPACT")
    assert pairs(job.call("ARCHIVE", "STATUS"))["batches"] == 1500
    job.server, job.again = server, lambda: start(*args)
    return job


def known(job):
    """A connection that the server has taken: it hears what comes there before what others say later."""
    other = job.client.connection_pool.get_connection("x")
    other.send_command("PING")
    assert other.read_response() in ("PONG", b"PONG")
    return other


@pytest.mark.parametrize("cold", (False, True))
def test_a_job_of_many_batches_is_gone_at_once_and_leaves_nothing(batches, cold):
    job = batches
    if cold:
        job.client.execute_command("DEBUG", "RELOAD")
    other = known(job)
    other.send_command("PART.DROP", "j")
    seen = set()
    while not other.can_read(0):  # while it goes on, others see no job, and can make none
        seen.add(job.error("STATS").split()[0])
        try:
            job.call("ADD", 1, 1, 1)
        except redis.ResponseError as error:
            seen.add(str(error).split()[0])
            continue
        assert other.can_read(100)
    assert other.read_response() in ("OK", b"OK")
    assert seen <= {"NOJOB", "BUSY", "job"}
    job.call("ADD", 1, 1, 1)
    assert job.get(1)["status"] == "pending" and job.ids("ARCHIVED") == [1]
    assert job.call("DROP") == "OK" and job.client.dbsize() == 0


def test_a_drop_goes_on_without_its_client(batches):
    other = known(batches)
    other.send_command("PART.DROP", "j")
    other.disconnect()
    wait(lambda: batches.client.dbsize() == 0)


def test_a_drop_that_is_killed_is_not_begun_or_goes_on(batches):
    other = known(batches)
    other.send_command("PART.DROP", "j")
    batches.server.kill()
    job = Job(batches.again())
    if job.client.exists(job.key("stats")):
        assert pairs(job.call("ARCHIVE", "VERIFY"))["records"] == 3000
        assert job.call("DROP") == "OK"
    wait(lambda: job.client.dbsize() == 0)
    assert job.error("STATS").startswith("NOJOB")
    job.call("ADD", 1, 1, 1)
    assert pairs(job.call("ARCHIVE", "VERIFY"))["problems"] == []


# ---- other commands ----

def test_no_landing_rule_takes_keys_of_partitions(start, tmp_path):
    """A rule of all keys: what it took it might evict, let expire, or load from SQL."""
    server = start("--land", "all", "*", f"sqlite:{tmp_path}/all.db", "shape", "columns", "table",
                   "t", "key", "k", "delay", "3600000", "keep", "1")
    job = Job(server)
    job.call("ALLOC", 10, "SIZE", 1)
    job.finish("w", 5)
    job.client.hset("mine", "f", "v")
    land = job.client.execute_command
    land("LAND.SYNC", "all")
    land("LAND.FLUSH", "all")
    with sqlite3.connect(tmp_path / "all.db") as sql:
        names = [row[0] for row in sql.execute("select k from t")]
    assert names == ["mine"]
    for key in job.client.keys("elk:*"):
        for command in ("LAND.EVICT", "LAND.LOAD", "LAND.EXPLAIN"):
            try:
                land(command, key)
            except redis.ResponseError:
                pass
    assert job.states() == [5, 0, 0, 0, 5] and job.client.ttl(job.key("meta")) == -1
    assert pairs(job.call("ARCHIVE", "VERIFY"))["problems"] == []


@pytest.mark.parametrize("how", (("FORCE",), ("STALE", 0)))
def test_an_id_that_is_named_twice_is_claimed_once(job, how):
    job.call("ADD", 1, 1, 1)
    record, = job.claim("w", "ID", 1, 1, *how)
    assert job.get(1)["fence"] == record["fence"] == 1


def test_options_may_have_numbers_of_any_size(job):
    job.call("ADD", 1, 1, 1, "OPTIONS", "[123456789012345678901234567890]")
    assert job.get(1)["options"] == [123456789012345678901234567890]


def test_long_options_of_many_claims_are_given_in_parts(job):
    options = '"' + "x" * (MIB - 2) + '"'
    for partition in range(1, 31):
        job.call("ADD", partition, partition, partition, "OPTIONS", options)
    claims = [len(job.claim("w", "COUNT", 30)) for _ in range(3)]
    assert sum(claims) == 30 and 0 < max(claims) < 20
    for partition in range(1, 31):
        job.call("FAIL", "w", partition, "no")
    assert job.call("RETRY") == 30 and job.states()[0] == 30


# ---- little memory ----

def test_many_ids_of_one_command_on_cold_rows(start):
    """Ids of four and of five digits, whose rows stand between each other, in 1 MiB."""
    job = Job(start("--hot-memory", "1mb", "--part-batch", "100", "--part-simple-max", "1000"))
    job.call("ALLOC", 12000, "SIZE", 1)
    ids = [[record["partition_id"] for record in job.claim(f"w{n}", "COUNT", 600)]
           for n in range(4)]
    assert [job.ids("WORKER", f"w{n}", count=10000) for n in range(4)] == ids
    job.call("START", "w0", *ids[0])
    job.call("BEAT", "w0", *ids[0])
    pipe = job.client.pipeline(transaction=False)
    for n in ids[0]:
        pipe.execute_command("PART.DONE", "j", "w0", n)
    for n in ids[2]:
        pipe.execute_command("PART.FAIL", "j", "w2", n, "no")
    pipe.execute()
    job.call("RELEASE", "w1", *ids[1])
    assert job.ids("STATUS", "failed", count=10000) == ids[2] and job.call("RETRY") == 600
    assert job.call("ADD", *[word for n in range(1, 2000) for word in (n, n, n)]) == 0
    assert job.call("ARCHIVE", "COMPACT") == 600
    assert job.call("DEL", *range(11001, 12001)) == 1000
    assert job.ids("ARCHIVED", count=10000) == list(range(1, 11001))
    assert job.states() == [9800, 600, 0, 0, 600]
    assert pairs(job.call("ARCHIVE", "VERIFY"))["problems"] == []
    assert job.call("GAPS") == [["missing", 601, 12000]]
    assert job.call("DROP") == "OK" and job.client.dbsize() == 0
