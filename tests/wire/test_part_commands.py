# SPDX-License-Identifier: Apache-2.0
"""PART.*: states, owners, fences, and what each command answers."""
import json
import re

import pytest
import redis

from part import Job, pairs

MAX = 2**63 - 1
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d\d\d)?Z")
MEMBERS = ["partition_id", "min_id", "max_id", "worker_id", "last_heartbeat", "status",
           "updated_at", "options", "version", "error", "created_at", "fence", "attempts",
           "duration_ms"]


@pytest.fixture
def job(server):
    return Job(server)


# ---- making ----

def test_a_record_has_the_members_of_the_specification_in_their_order(job):
    assert job.call("ADD", 4970, 4969001, 4970000, "OPTIONS", ' {"a": [1, "}"], "b": null} ') == 1
    record = job.get(4970)
    assert list(record) == MEMBERS
    assert TIME.fullmatch(record["created_at"]) and record["updated_at"] == record["created_at"]
    assert record == {
        "partition_id": 4970, "min_id": 4969001, "max_id": 4970000, "worker_id": "",
        "last_heartbeat": None, "status": "pending", "updated_at": record["updated_at"],
        "options": {"a": [1, "}"], "b": None}, "version": 0, "error": "",
        "created_at": record["created_at"], "fence": 0, "attempts": 0, "duration_ms": None}


def test_adding_the_same_again_changes_nothing_and_another_range_is_refused(job):
    assert job.call("ADD", 1, 1, 10, 2, 11, 20, "OPTIONS", "7", 3, 21, 30) == 3
    assert job.call("ADD", 2, 11, 20, 4, 31, 40) == 1
    assert job.error("ADD", 5, 41, 50, 2, 11, 21) == "partition 2 exists with the range 11..20"
    assert job.get(5) is None  # all of a command, or nothing
    assert job.call("ADD", 7, 1, 1, 7, 1, 1) == 1  # twice in one command
    job.finish("w", 1)
    assert job.call("ADD", 1, 1, 10) == 0
    assert job.error("ADD", 1, 1, 11) == "partition 1 exists with the range 1..10"
    assert job.get(1)["status"] == "completed"


@pytest.mark.parametrize("args, text", [
    ((1, 10, 9), "the lowest comes first"),
    ((-1, 1, 2), "an id is a number from 0 to 2^63-1"),
    ((1, -1, 2), "an id is a number from 0 to 2^63-1"),
    ((1, 1, MAX + 1), "an id is a number from 0 to 2^63-1"),
    ((1, "1e3", 2000), "an id is a number from 0 to 2^63-1"),
    ((1, 1, 2, 2), "syntax error"),
    ((1, 1, 2, "OPTIONS"), "syntax error"),
    ((1, 1, 2, "OPTIONS", "{"), "options are no JSON"),
    ((1, 1, 2, "OPTIONS", ""), "options are no JSON"),
    ((1, 1, 2, "OPTIONS", '{"a":1} {"b":2}'), "options are no JSON"),
    ((1, 1, 2, "OPTIONS", b'"\xff"'), "options are no JSON"),
])
def test_what_is_no_partition_is_refused(job, args, text):
    assert text in job.error("ADD", *args)
    assert job.client.exists(job.key("partitions")) == 0 and job.client.keys("*") == []


def test_ids_and_ranges_up_to_2_to_the_63_minus_1(job):
    assert job.call("ADD", MAX, 0, MAX, MAX - 1, MAX, MAX, 0, 0, 0) == 3
    assert job.ids() == [0, MAX - 1, MAX]
    taken = job.claim("w", "COUNT", 10)
    assert [record["partition_id"] for record in taken] == [0, MAX - 1, MAX]
    for record in taken:
        assert job.call("DONE", "w", record["partition_id"], "DURATION", 5) == 1
    assert job.get(MAX)["max_id"] == MAX and job.get(MAX)["min_id"] == 0
    assert job.stats()["ids"] == str(2**63 + 2)
    assert job.ids("ARCHIVED") == [0, MAX - 1, MAX]
    assert "no partition ids left" in job.error("ALLOC", 10, "SIZE", 10)


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "x" * 256, "a\nb", b"\xff"])
def test_names_of_jobs_have_limits(server, name):
    client = server.client()
    for args in (("ADD", name, 1, 1, 1), ("CLAIM", name, "w"), ("JOBS",)):
        if args[0] == "JOBS":
            assert client.execute_command("PART.JOBS") == []
        else:
            with pytest.raises(redis.ResponseError, match="the name of a job"):
                client.execute_command("PART." + args[0], *args[1:])


def test_alloc_goes_on_where_it_ended_and_never_back(job):
    assert job.call("ALLOC", 95, "SIZE", 10) == 10
    records = job.list()
    assert [(r["partition_id"], r["min_id"], r["max_id"]) for r in records] == [
        (i + 1, i * 10 + 1, min(i * 10 + 10, 95)) for i in range(10)]
    assert job.call("ALLOC", 95, "SIZE", 10) == 0
    assert job.call("ALLOC", 50, "SIZE", 10) == 0
    assert job.call("ALLOC", 97, "SIZE", 10) == 1
    assert job.get(11)["min_id"] == 96 and job.get(11)["max_id"] == 97
    assert job.client.hget(job.key("meta"), "last_allocated_id") == "97"
    assert "a size is" in job.error("ALLOC", 100, "SIZE", 0)
    assert job.error("ALLOC", 100, "COUNT", 5) == "syntax error"


def test_last_allocated_id_of_10_to_the_14_stays_exact(job):
    """The original stores 1e+14, reads 0, and everything is processed again."""
    big = 10**14
    assert job.call("ALLOC", big, "SIZE", big) == 1
    assert job.client.hget(job.key("meta"), "last_allocated_id") == "100000000000000"
    assert job.call("ALLOC", big + 5, "SIZE", 2) == 3
    assert [r["min_id"] for r in job.list()] == [1, big + 1, big + 3, big + 5]
    assert job.call("ALLOC", MAX, "SIZE", MAX) == 1
    assert job.client.hget(job.key("meta"), "last_allocated_id") == str(MAX)
    assert job.call("ALLOC", MAX, "SIZE", 1) == 0


def test_allocating_many_takes_many_commits_and_answers_once(job):
    assert job.call("ALLOC", 23456, "SIZE", 1) == 23456
    assert job.states() == [23456, 0, 0, 0, 0]
    assert job.ids(count=10000) == list(range(1, 23457))
    with job.client.pipeline() as pipe:
        pipe.execute_command("PART.ALLOC", "j", 23460, "SIZE", 1)
        pipe.execute_command("PART.ALLOC", "k", 6000, "SIZE", 1)
        answers = pipe.execute(raise_on_error=False)
    assert answers[0] == 4 and "a MULTI can allocate" in str(answers[1])


# ---- claiming ----

def test_the_oldest_pending_come_first_in_order_of_numbers(job):
    for partition in (100, 9, 10, 99, 1000, 2):
        job.call("ADD", partition, 1, 1)
    order = [job.claim("w")[0]["partition_id"] for _ in range(6)]
    assert order == [2, 9, 10, 99, 100, 1000]
    assert job.claim("w") == []


def test_a_claim_gives_the_record_with_a_fence_that_only_grows(job):
    job.call("ADD", 1, 1, 10, 2, 11, 20)
    first, second = job.claim("w1")[0], job.claim("w2", "COUNT", 5)[0]
    assert first["status"] == "claimed" and first["worker_id"] == "w1" and first["version"] == 1
    assert TIME.fullmatch(first["last_heartbeat"])
    assert second["fence"] > first["fence"] > 0
    job.call("RELEASE", "w1", 1)
    again = job.claim("w1")[0]
    assert again["partition_id"] == 1 and again["fence"] > second["fence"]
    job.call("DROP")
    assert job.error("CLAIM", "w").startswith("NOJOB")


def test_silent_workers_lose_their_partitions_and_no_others(job):
    job.call("ADD", 1, 1, 10, 2, 11, 20)
    job.claim("w1", "COUNT", 2)
    job.call("START", "w1", 1)
    assert job.claim("w2") == []  # five minutes
    assert job.claim("w2", "STALE", 60000) == []
    taken = job.claim("w2", "STALE", 0)
    assert len(taken) == 1 and taken[0]["worker_id"] == "w2" and taken[0]["status"] == "claimed"
    assert job.states() in ([0, 2, 0, 0, 0], [0, 1, 1, 0, 0])
    assert job.claim("w2", "STALE", 0, "COUNT", 10)
    assert job.states() == [0, 2, 0, 0, 0]


def test_partitions_of_silent_workers_are_given_out_before_pending_ones(job):
    job.call("ADD", 1, 1, 10)
    job.claim("w1")
    job.call("ALLOC", 1000, "SIZE", 1)
    assert [r["partition_id"] for r in job.claim("w2", "STALE", 0)] == [1]
    assert [r["partition_id"] for r in job.claim("w3", "STALE", 60000)] == [2]
    assert [r["partition_id"] for r in job.claim("w4", "STALE", 0, "COUNT", 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("by_id", (True, False))
def test_a_partition_that_outlives_its_workers_fails_with_a_reason(start, by_id):
    job = Job(start("--part-takeovers", "2"))
    job.call("ADD", 1, 1, 10)
    named = ("ID", 1) if by_id else ()
    for n in range(3):
        record = job.claim(f"w{n}", "STALE", 0, *named)[0]
        assert record.get("takeovers", 0) == n
    job.call("START", "w2", 1)
    job.call("ADD", 2, 11, 20)
    taken = job.claim("w3", "STALE", 0, *named)
    assert [r["partition_id"] for r in taken] == ([] if by_id else [2])  # it goes on to the next
    record = job.get(1)
    assert (record["status"], record["worker_id"], record["attempts"]) == ("failed", "w2", 1)
    assert record["error"] == "taken over 2 times, and its worker is silent again"
    assert job.error("DONE", "w2", 1).startswith("NOTACTIVE")
    info = job.client.info("partitions")
    assert (info["part_takeovers"], info["part_given_up"]) == (2, 1)
    assert job.call("ARCHIVE", "VERIFY")[5] == []  # counts by state are right
    job.call("RETRY")  # somebody has looked at it: it begins again
    assert "takeovers" not in job.get(1)
    job.claim("w4", "ID", 1)
    assert job.claim("w5", "STALE", 0, "ID", 1)[0]["takeovers"] == 1
    assert job.call("DONE", "w5", 1) == 1 and "takeovers" not in job.get(1)


def test_takeovers_have_no_limit_if_it_is_0_and_force_is_none(start):
    job = Job(start("--part-takeovers", "0"))
    job.call("ADD", 1, 1, 10)
    for n in range(10):
        assert job.claim("w", "STALE", 0)[0].get("takeovers", 0) == n
    assert "takeovers" not in job.claim("w", "ID", 1, "FORCE")[0]
    job.client.execute_command("DEBUG", "RELOAD")
    job.client.config_set("part-takeovers", 1)
    assert job.claim("w", "STALE", 0) and not job.claim("w", "STALE", 0)


def test_takeovers_are_kept_beside_the_record_which_older_builds_read(job):
    job.call("ADD", 1, 1, 10, 2, 11, 20, 3, 21, 30)
    members = list(job.get(1))
    job.claim("w1", "COUNT", 3)
    for record in job.claim("w2", "STALE", 0, "COUNT", 3):
        assert record["takeovers"] == 1
        stored = job.client.hget(job.key("partitions"), record["partition_id"])
        assert list(json.loads(stored)) == members  # an older build knows these and no others
    assert job.client.hgetall(job.key("takeovers")) == {"1": "1", "2": "1", "3": "1"}
    job.client.execute_command("DEBUG", "RELOAD")
    assert [r["takeovers"] for r in job.list()] == [1, 1, 1]
    job.call("START", "w2", 1)
    job.call("BEAT", "w2", 1)
    assert job.get(1)["takeovers"] == 1
    job.call("DONE", "w2", 1)
    job.call("FAIL", "w2", 2, "no")
    job.call("RETRY")
    assert job.client.hgetall(job.key("takeovers")) == {"3": "1"}
    job.call("DEL", 3)
    assert not job.client.exists(job.key("takeovers"))
    assert job.call("ARCHIVE", "VERIFY")[5] == []


def test_a_dropped_job_counts_no_takeovers_of_before(job):
    job.call("ADD", 1, 1, 10)
    job.claim("w1")
    job.claim("w2", "STALE", 0)
    job.call("DROP")
    assert not job.client.exists(job.key("takeovers"))
    job.call("ADD", 1, 1, 10)
    job.claim("w1")
    assert job.claim("w2", "STALE", 0)[0]["takeovers"] == 1


def test_a_claim_passes_those_that_outlived_their_workers(start):
    job = Job(start("--part-takeovers", "1"))
    job.call("ALLOC", 50, "SIZE", 1)
    for _ in range(2):
        assert len(job.claim("w", "STALE", 0, "COUNT", 50)) == 50
    job.call("ALLOC", 51, "SIZE", 1)
    assert [r["partition_id"] for r in job.claim("w", "STALE", 0)] == [51]
    assert job.states() == [0, 1, 0, 50, 0]


def test_named_ones_are_claimed_if_they_can_be_had(job):
    job.call("ADD", 1, 1, 1, 2, 2, 2, 3, 3, 3)
    job.claim("w1", "ID", 2)
    assert [r["partition_id"] for r in job.claim("w2", "ID", 1, 2, 77)] == [1]
    assert job.claim("w2", "ID", 2) == []
    assert [r["partition_id"] for r in job.claim("w2", "ID", 2, "STALE", 0)] == [2]
    assert [r["partition_id"] for r in job.claim("w3", "ID", 1, 2, 3, "FORCE")] == [1, 2, 3]
    assert [r["partition_id"] for r in job.claim("w3", "ID", 1, 2, "COUNT", 1, "STALE", 0)] == [1]
    assert job.states() == [0, 3, 0, 0, 0]


def test_a_forced_claim_does_not_bring_a_completed_one_back(job):
    job.call("ADD", 1, 1, 1)
    job.finish("w1", 1)
    assert job.claim("w2", "ID", 1, "FORCE") == []
    assert job.get(1)["worker_id"] == "w1" and job.states() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("args", [
    ("COUNT",), ("COUNT", 0), ("COUNT", 10001), ("STALE", -1), ("STALE",), ("ID",), ("ID", "x"),
    ("FORCE",), ("NOPE", 1), ("ID", 1, "ID", 2), ("ID", "FORCE")])
def test_claims_that_are_none(job, args):
    job.call("ADD", 1, 1, 1)
    assert job.error("CLAIM", "w", *args)
    assert job.states() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("worker", ["", "x" * 256, "a\tb", b"\xff\xfe"])
def test_names_of_workers_have_limits(job, worker):
    job.call("ADD", 1, 1, 1)
    assert "the name of a worker" in job.error("CLAIM", worker)


def test_a_paused_job_gives_out_no_claims(job):
    job.call("ADD", 1, 1, 1, 2, 2, 2)
    job.claim("w")
    assert job.call("PAUSE") == "OK" and job.call("PAUSE") == "OK"
    assert job.claim("w") == [] and job.claim("w", "STALE", 0) == []
    assert job.claim("w", "ID", 1, 2, "FORCE") == []
    assert job.stats()["paused"] == 1
    assert job.call("DONE", "w", 1) == 1  # who has one goes on
    assert job.call("RESUME") == "OK" and job.call("RESUME") == "OK"
    assert len(job.claim("w")) == 1


# ---- working ----

def test_a_whole_life(job):
    job.call("ADD", 5, 41, 50)
    fence = job.claim("w")[0]["fence"]
    assert job.call("START", "w", 5, "FENCE", fence) == "OK"
    running = job.get(5)
    assert running["status"] == "running" and running["version"] == 2
    assert job.call("BEAT", "w", 5, "FENCE", fence) == "OK"
    assert job.get(5)["updated_at"] == running["updated_at"] and job.get(5)["version"] == 2
    assert job.call("DONE", "w", 5, "FENCE", fence, "DURATION", 1234) == 1
    done = job.get(5)
    assert done["status"] == "completed" and done["duration_ms"] == 1234 and done["version"] == 3
    assert done["worker_id"] == "w" and done["fence"] == fence
    assert job.client.hlen(job.key("completed")) == 1
    assert job.client.exists(job.key("partitions"), job.key("pending"), job.key("beats")) == 0


def test_only_the_owner_works_on_a_partition(job):
    job.call("ADD", 1, 1, 10)
    fence = job.claim("w1")[0]["fence"]
    for command in ("START", "BEAT", "DONE", "RELEASE"):
        assert job.error(command, "w2", 1) == "NOTOWNER partition 1 of job j belongs to w1"
        if command != "RELEASE":
            assert job.error(command, "w1", 1, "FENCE", fence + 1).startswith("FENCED partition 1")
        assert job.error(command, "w1", 2).startswith("NOPART there is no active partition 2")
    assert job.error("FAIL", "w2", 1, "x").startswith("NOTOWNER")
    assert job.error("FAIL", "w1", 1, "x", "FENCE", 99).startswith("FENCED")
    assert job.get(1)["status"] == "claimed" and job.get(1)["version"] == 1


def test_a_preempted_worker_cannot_complete(job):
    """The original lets it, and deletes the new owner's record."""
    job.call("ADD", 1, 1, 10)
    old = job.claim("w")[0]["fence"]
    job.call("START", "w", 1, "FENCE", old)
    new = job.claim("w", "STALE", 0)[0]["fence"]  # the same name: only the fence is different
    assert job.error("DONE", "w", 1, "FENCE", old).startswith("FENCED")
    assert job.error("BEAT", "w", 1, "FENCE", old).startswith("FENCED")
    job.claim("w2", "ID", 1, "FORCE")
    assert job.error("DONE", "w", 1, "FENCE", new).startswith("NOTOWNER")
    assert job.get(1)["worker_id"] == "w2" and job.call("DONE", "w2", 1) == 1
    assert job.states() == [0, 0, 0, 0, 1]


def test_done_twice_counts_once(job):
    job.call("ADD", 1, 1, 10)
    fence = job.claim("w")[0]["fence"]
    assert job.call("DONE", "w", 1, "FENCE", fence) == 1
    assert job.call("DONE", "w", 1, "FENCE", fence) == 0  # the reply was lost, it asks again
    assert job.call("DONE", "w", 1) == 0
    assert job.error("DONE", "w", 1, "FENCE", fence + 1).startswith("FENCED")
    assert job.error("DONE", "w2", 1).startswith("NOTACTIVE partition 1 of job j is completed")
    assert job.stats()["completed"] == 1


def test_failed_ones_stay_with_their_error_until_they_are_retried(job):
    """In the original a retry of failed ones never works."""
    job.call("ADD", 1, 1, 10, 2, 11, 20, 3, 21, 30)
    job.claim("w", "COUNT", 3)
    job.call("START", "w", 1)
    error = 'a "quoted"\n\ttext\\ of \x01 ünïcode'
    assert job.call("FAIL", "w", 1, error) == "OK"
    assert job.call("FAIL", "w", 2, "x" * (1 << 20)) == "OK"
    failed = job.get(1)
    assert failed["error"] == error and failed["attempts"] == 1 and failed["worker_id"] == "w"
    assert len(job.get(2)["error"]) == 1 << 20
    assert job.states() == [0, 1, 0, 2, 0]
    assert job.error("BEAT", "w", 1).startswith("NOTACTIVE partition 1 of job j is failed")
    assert job.claim("w2", "STALE", 0, "ID", 1) == []
    assert job.call("RETRY", 1, 3, 99) == 1
    again = job.get(1)
    assert (again["status"], again["worker_id"], again["error"]) == ("pending", "", "")
    assert again["attempts"] == 1
    assert job.call("RETRY") == 1 and job.call("RETRY") == 0
    assert job.states() == [2, 1, 0, 0, 0]
    assert [r["partition_id"] for r in job.claim("w2", "COUNT", 9)] == [1, 2]
    assert "an error is UTF-8" in job.error("FAIL", "w2", 1, b"\xff")
    assert "an error is UTF-8" in job.error("FAIL", "w2", 1, "x" * ((1 << 20) + 1))


def test_retrying_many_takes_many_commits(job):
    job.call("ALLOC", 12000, "SIZE", 1)
    job.claim("w", "COUNT", 10000)
    pipe = job.client.pipeline(transaction=False)
    for partition in range(1, 10001):
        pipe.execute_command("PART.FAIL", "j", "w", partition, "why")
    pipe.execute()
    assert job.states() == [2000, 0, 0, 10000, 0]
    assert job.call("RETRY") == 10000
    assert job.states() == [12000, 0, 0, 0, 0]


def test_released_ones_are_pending_again(job):
    job.call("ADD", 1, 1, 10, 2, 11, 20)
    job.claim("w", "COUNT", 2)
    job.call("START", "w", 1)
    assert job.error("RELEASE", "w", 1, 3).startswith("NOPART")
    assert job.states() == [0, 1, 1, 0, 0]  # nothing of a command that was refused
    assert job.call("RELEASE", "w", 1, 2) == "OK"
    assert job.states() == [2, 0, 0, 0, 0]
    record = job.get(1)
    assert (record["worker_id"], record["last_heartbeat"]) == ("", None)


def test_deleted_ones_are_gone_whatever_they_were(job):
    job.call("ALLOC", 60, "SIZE", 10)
    job.claim("w", "COUNT", 4)
    job.call("START", "w", 2)
    job.call("FAIL", "w", 3, "x")
    job.call("DONE", "w", 4)
    assert job.states() == [2, 1, 1, 1, 1]
    assert job.call("DEL", 1, 2, 3, 4, 5, 99) == 4  # not the completed one
    assert job.states() == [1, 0, 0, 0, 1]
    assert job.error("DONE", "w", 1).startswith("NOPART")
    assert job.ids("ARCHIVED") == [4, 6]


def test_a_dropped_job_leaves_nothing(job):
    job.call("ALLOC", 100, "SIZE", 10)
    job.finish("w", 5)
    other = Job.__new__(Job)
    other.name, other.client = "other", job.client
    other.call("ADD", 1, 1, 1)
    assert job.call("DROP") == "OK"
    assert job.error("STATS").startswith("NOJOB there is no job j")
    assert set(job.client.keys("*")) == {"elk:{}:jobs", "elk:{other}:meta", "elk:{other}:pending",
                                         "elk:{other}:partitions"}
    assert other.call("DROP") == "OK" and job.client.keys("*") == []
    assert job.client.dbsize() == 0


def test_an_unknown_job_is_an_error(job):
    for command, *args in (("CLAIM", "w"), ("START", "w", 1), ("BEAT", "w", 1), ("DONE", "w", 1),
                           ("FAIL", "w", 1, "e"), ("RETRY",), ("RELEASE", "w", 1), ("DEL", 1),
                           ("DROP",), ("PAUSE",), ("RESUME",), ("GET", 1), ("LIST",), ("STATS",)):
        assert job.error(command, *args) == "NOJOB there is no job j"


def test_counters_stay_right_on_release_preemption_and_deletion(job):
    """In the original they drift."""
    job.call("ALLOC", 10, "SIZE", 1)
    for _ in range(3):
        ids = [r["partition_id"] for r in job.claim("w1", "COUNT", 10)]
        for partition in ids:
            job.call("START", "w1", partition)
        job.claim("w2", "COUNT", 5, "STALE", 0)
        mine = job.ids("WORKER", "w1")
        job.call("RELEASE", "w1", *mine[:2])
        job.call("FAIL", "w1", mine[2], "x")
        assert job.states() == [2, 5, 2, 1, 0]
        job.call("RELEASE", "w2", *job.ids("WORKER", "w2", "STATUS", "claimed"))
        job.call("RELEASE", "w1", *mine[3:])
        job.call("RETRY")
        assert job.states() == [10, 0, 0, 0, 0]
    job.claim("w", "COUNT", 10)
    job.call("START", "w", 1)
    job.call("DEL", 1, 2)
    assert job.states() == [0, 8, 0, 0, 0]


# ---- looking ----

def test_list_filters(job):
    job.call("ALLOC", 20, "SIZE", 1)
    job.claim("a", "COUNT", 6)
    job.claim("b", "COUNT", 6)
    for partition in (1, 2, 3):
        job.call("START", "a", partition)
    job.call("DONE", "a", 1)
    job.call("DONE", "b", 7)
    job.call("FAIL", "b", 8, "x")
    assert job.ids() == list(range(2, 7)) + list(range(8, 21))
    assert job.ids("ARCHIVED") == list(range(1, 21))
    assert job.ids("STATUS", "completed") == [1, 7]
    assert job.ids("STATUS", "failed", "running") == [2, 3, 8]
    assert job.ids("STATUS", "running", "completed", "WORKER", "a") == [1, 2, 3]
    assert job.ids("ID", 5, 9) == [5, 6, 8, 9]
    assert job.ids("ID", 5, 9, "ARCHIVED") == [5, 6, 7, 8, 9]
    assert job.ids("ID", 9, 5) == []
    assert job.ids("WORKER", "nobody") == [] and job.ids("WORKER", "") == list(range(13, 21))
    assert job.ids("STALE", 0) == [2, 3, 4, 5, 6, 9, 10, 11, 12]
    assert job.ids("STALE", 60000) == []
    assert job.ids("UPDATED", 0, 1000) == []
    assert job.ids("UPDATED", "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "ARCHIVED",
                   count=3) == list(range(1, 21))
    assert job.page("COUNT", 3)[1] == job.list()[:3]
    for args in (("STATUS",), ("STATUS", "nope"), ("ID", 1), ("UPDATED", 1), ("COUNT", 0),
                 ("UPDATED", "x", "y"), ("CURSOR", -1), ("NOPE",), ("COUNT", 10001), ("WORKER",)):
        assert job.error("LIST", *args)


def test_statistics_by_worker_range_day_and_percentile(job):
    job.call("ADD", 1, 1, 10, 99999, 11, 20, 100000, 21, 30, 250000, 31, 31)
    for worker, partition, duration in (("a", 1, 5), ("a", 99999, 100), ("b", 100000, 20499),
                                        ("b", 250000, 9999)):
        job.claim(worker, "ID", partition)
        job.call("DONE", worker, partition, "DURATION", duration)
    stats = job.stats()
    assert (stats["completed"], stats["ids"], stats["timed"]) == (4, "31", 4)
    assert stats["duration_ms"] == str(5 + 100 + 20000 + 9999)  # from 10 s on whole seconds
    assert stats["max_ms"] == 20000 and stats["min_id"] == 1 and stats["max_id"] == 31
    assert stats["p50_ms"] == 100 and 9600 < stats["p99_ms"] <= 20000
    workers = job.rows("WORKERS")
    assert workers["a"]["completed"] == 2 and workers["b"]["ids"] == "11"
    assert {name: row["completed"] for name, row in job.rows("RANGES").items()} == {
        "0": 2, "100000": 1, "200000": 1}
    days = job.rows("DAYS")
    assert sum(day["completed"] for day in days.values()) == 4
    assert sum(sum(pairs(day["hours"]).values()) for day in days.values()) == 4
    assert job.error("STATS", "NOPE") == "syntax error"


def test_jobs_are_listed_with_their_counts(job):
    job.call("ALLOC", 10, "SIZE", 2)
    job.finish("w", 2)
    job.client.execute_command("PART.ADD", "zwei", 1, 1, 1)
    jobs = {name: pairs(row) for name, row in
            pairs(job.client.execute_command("PART.JOBS")).items()}
    assert set(jobs) == {"j", "zwei"}
    assert (jobs["j"]["pending"], jobs["j"]["completed"]) == (3, 2)


def test_jobs_of_databases_are_apart(server):
    one, two = Job(server), Job(server, db=1)
    one.call("ADD", 1, 1, 1)
    two.call("ADD", 1, 5, 6)
    assert one.get(1)["min_id"] == 1 and two.get(1)["min_id"] == 5
    two.client.flushdb()
    assert two.error("STATS").startswith("NOJOB") and one.states() == [1, 0, 0, 0, 0]
    one.client.execute_command("SWAPDB", 0, 1)
    assert two.get(1)["min_id"] == 1 and one.error("STATS").startswith("NOJOB")


# ---- keys ----

WRITES = """
HSET P 1 x|HDEL P 1|HINCRBY P 9 1|HSETNX P 9 x|DEL P|UNLINK P|RENAME P foo|RENAME foo P
RENAMENX foo elk:{n}:x|EXPIRE P 10|SET P x|SETEX P 10 x|COPY foo P REPLACE|MOVE P 1|GETDEL P
ZADD Q 7 1|ZADD Q 99 5|ZINCRBY Q 1 1|ZREM Q 1|ZPOPMIN Q|ZREMRANGEBYRANK Q 0 -1|ZADD P 1 1
SET elk:{new}:meta x|HSET elk:{j}:meta fence 1|LPUSH elk:{j}:list x|SADD elk:{}:jobs x
SUNIONSTORE Q foo|SORT foo STORE P|ZRANGESTORE Q foo 0 -1|MSET P x|APPEND P x|SETRANGE P 0 x
INCR elk:{j}:x|SETBIT elk:{j}:x 1 1|PFADD elk:{j}:x 1|BITOP NOT elk:{j}:x foo|RPUSH elk:{j}:y 1
""".replace("\n", "|").strip("|").split("|")


def test_clients_look_at_the_keys_and_cannot_write_them(job):
    job.call("ALLOC", 5, "SIZE", 1)
    client = job.client
    client.zadd("foo", {"1": 1})
    before = {key: client.object("ENCODING", key) for key in client.keys("elk*")}
    rows = client.hgetall(job.key("partitions")), client.zrange(job.key("pending"), 0, -1,
                                                               withscores=True)
    assert json.loads(client.hget(job.key("partitions"), "3")) == job.get(3)
    assert client.type(job.key("pending")) == "zset" and client.ttl(job.key("meta")) == -1
    for line in WRITES:
        words = [{"P": job.key("partitions"), "Q": job.key("pending")}.get(word, word)
                 for word in line.split()]
        try:
            text = f"answered {client.execute_command(*words)}"
        except redis.ResponseError as error:
            text = str(error)
        assert "belong to partitions" in text or "WRONGTYPE" in text or "unknown command" in text \
            or "not an integer" in text, (line, text)
    assert rows == (client.hgetall(job.key("partitions")),
                    client.zrange(job.key("pending"), 0, -1, withscores=True))
    assert set(client.keys("elk*")) == set(before)
    assert client.copy(job.key("partitions"), "mine") and client.hset("mine", "1", "x") == 0


def test_commands_of_a_multi_are_one_commit(job):
    job.call("ALLOC", 3, "SIZE", 1)
    with job.client.pipeline() as pipe:
        pipe.execute_command("PART.CLAIM", "j", "w")
        pipe.execute_command("PART.START", "j", "w", 1)
        pipe.execute_command("PART.DONE", "j", "nobody", 1)
        pipe.execute_command("PART.DONE", "j", "w", 1)
        answers = pipe.execute(raise_on_error=False)
    assert str(answers[2]).startswith("NOTOWNER") and answers[3] == 1
    assert job.states() == [2, 0, 0, 0, 1]


def exec_error(job, *commands):
    pipe = job.client.pipeline()
    for command in commands:
        pipe.execute_command(*command)
    with pytest.raises(redis.ResponseError) as info:
        pipe.execute()
    return str(info.value)


@pytest.mark.parametrize("cold", (False, True))
def test_a_refused_guard_ends_the_whole_exec(job, cold):
    job.call("ADD", 1, 1, 1, 2, 2, 2)
    old, new = job.claim("w", "ID", 1)[0]["fence"], job.claim("w", "ID", 1, "FORCE")[0]["fence"]
    listener = job.client.pubsub()
    listener.subscribe("news")
    assert listener.get_message(timeout=100)["type"] == "subscribe"
    if cold:
        job.client.execute_command("DEBUG", "RELOAD")
    rest = [("INCR", "before"), ("SELECT", 1), ("SET", "there", 1), ("SELECT", 0), ("PUBLISH", "news", "x"),
            ("PART.ADD", "j", 3, 3, 3)]
    for guard, word in ((("DONE", "j", "w", 1, "FENCE", old, "GUARD"), "FENCED"),
                        (("BEAT", "j", "other", 1, "GUARD"), "NOTOWNER"),
                        (("START", "j", "w", 1, "FENCE", old, "guard"), "FENCED"),
                        (("DONE", "j", "w", 2, "FENCE", 1, "DURATION", 5, "GUARD"), "NOTACTIVE"),
                        (("RELEASE", "j", "w", 2, "GUARD"), "NOTACTIVE"),
                        (("FAIL", "j", "w", 7, "GUARD", "GUARD"), "NOPART"),
                        (("DONE", "none", "w", 1, "GUARD"), "NOJOB"),
                        (("DONE", "j", "w", 1, "FENCE", "x", "GUARD"), "a fence")):
        command = ("PART." + guard[0], *guard[1:])
        assert exec_error(job, *rest, command, ("INCR", "after")).startswith(word)
    assert job.client.keys("[ab]*") == [] and job.states() == [1, 1, 0, 0, 0]
    assert job.client.execute_command("SELECT", 1) and not job.client.exists("there")
    job.client.execute_command("SELECT", 0)
    assert listener.get_message(timeout=0) is None
    pipe = job.client.pipeline()
    for command in (*rest, ("PART.DONE", "j", "w", 1, "FENCE", new, "GUARD"), ("INCR", "after")):
        pipe.execute_command(*command)
    assert pipe.execute()[-2:] == [1, 1] and job.client.mget("before", "after") == ["1", "1"]
    assert listener.get_message(timeout=100)["data"] == "x"


def test_an_exec_with_a_guard_that_is_sent_again_changes_nothing(job):
    job.call("ADD", 1, 1, 1)
    fence = job.claim("w")[0]["fence"]
    commands = [("INCRBY", "sum", 5), ("PART.DONE", "j", "w", 1, "FENCE", fence, "GUARD")]
    pipe = job.client.pipeline()
    for command in commands:
        pipe.execute_command(*command)
    assert pipe.execute() == [5, 1]
    assert exec_error(job, *commands).startswith("COMPLETED")
    assert job.error("DONE", "w", 1, "GUARD").startswith("COMPLETED") and job.call("DONE", "w", 1) == 0
    assert job.client.get("sum") == "5"


def test_without_a_guard_the_others_go_on(job):
    job.call("ADD", 1, 1, 1)
    pipe = job.client.pipeline()
    pipe.incr("before")
    pipe.execute_command("PART.DONE", "j", "w", 1)
    pipe.incr("after")
    before, error, after = pipe.execute(raise_on_error=False)
    assert (before, after) == (1, 1) and str(error).startswith("NOTACTIVE")


def test_each_command_of_a_multi_that_waits_counts_for_itself(job):
    job.call("ALLOC", 3, "SIZE", 1)
    job.claim("w", "COUNT", 3)
    for partition in (1, 2, 3):
        job.call("FAIL", "w", partition, "no")
    job.client.execute_command("DEBUG", "RELOAD")  # EXEC meets cold rows, and becomes a request
    pipe = job.client.pipeline()
    for name, upto in (("a", 10), ("b", 20), ("c", 30)):
        pipe.execute_command("PART.ALLOC", name, upto, "SIZE", 1)
    for name in ("j", "a"):
        pipe.execute_command("PART.RETRY", name)
    pipe.execute_command("PART.DROP", "no such job")
    assert pipe.execute(raise_on_error=False)[:5] == [10, 20, 30, 3, 0]


def test_everything_works_on_cold_rows(job):
    job.call("ALLOC", 300, "SIZE", 1)

    def cold():
        assert job.client.execute_command("DEBUG", "RELOAD")

    cold()
    ids = [r["partition_id"] for r in job.claim("w", "COUNT", 10)]
    cold()
    job.call("START", "w", *ids)
    cold()
    job.call("BEAT", "w", *ids)
    cold()
    assert job.call("DONE", "w", ids[0]) == 1
    cold()
    assert job.call("DONE", "w", ids[0]) == 0
    cold()
    job.call("FAIL", "w", ids[1], "x")
    cold()
    assert job.call("RETRY") == 1
    cold()
    job.call("RELEASE", "w", ids[2])
    cold()
    assert job.call("DEL", ids[3]) == 1
    cold()
    assert job.ids("ARCHIVED") == [i for i in range(1, 301) if i != ids[3]]
    cold()
    assert job.states() == [292, 0, 6, 0, 1]
    cold()
    assert job.rows("WORKERS")["w"]["completed"] == 1
    cold()
    assert job.call("DROP") == "OK" and job.client.dbsize() == 0


def test_everything_is_there_after_kill_9(start):
    server = start()
    job = Job(server)
    job.call("ALLOC", 50, "SIZE", 1)
    done = job.finish("w", 20, "DURATION", 77)
    job.claim("w", "COUNT", 5)
    before = job.list("ARCHIVED"), job.stats(), job.rows("WORKERS")
    server.kill()
    job = Job(start())
    assert (job.list("ARCHIVED"), job.stats(), job.rows("WORKERS")) == before
    assert job.ids("STATUS", "completed") == done
