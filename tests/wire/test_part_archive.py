# SPDX-License-Identifier: Apache-2.0
"""Completed partitions in all three strategies: packing, looking, checking, ageing out."""
import base64
import gzip
import itertools
import json
import random
import struct
import time

import pytest

from part import Job, pairs
from waiting import wait_until

SMALL = ("--part-batch", "20", "--part-simple-max", "100", "--part-compressed-max", "200")


def wait(what):
    """Waits for a job of the server; gives up after a minute."""
    wait_until(what, 60)


def status(job):
    return pairs(job.call("ARCHIVE", "STATUS"))


def settle(job, batch=20):
    """Waits until less than a batch is not packed."""
    wait(lambda: status(job)["simple"] < batch)


def assert_whole(job):
    assert pairs(job.call("ARCHIVE", "VERIFY"))["problems"] == []


def finish_all(job, workers=("a", "b", "c"), rng=None, step=50):
    rng = rng or random.Random(1)
    for worker in itertools.cycle(workers):
        if not job.finish(worker, step, "DURATION", rng.randrange(30000)):
            return


@pytest.fixture
def job(start):
    return Job(start(*SMALL))


# ---- packing ----

def test_below_the_threshold_nothing_is_packed_and_above_it_all_but_a_batch(job):
    job.call("ALLOC", 99, "SIZE", 1)
    finish_all(job)
    assert status(job)["strategy"] == "simple" and status(job)["simple"] == 99
    job.call("ALLOC", 250, "SIZE", 1)
    finish_all(job)
    settle(job)
    now = status(job)
    assert now["strategy"] == "compressed" and now["simple"] == 10 and now["packed"] == 240
    assert now["batches"] == 12 and now["json_bytes"] > 20 * now["bytes"]
    assert job.client.hlen(job.key("completed:index")) == 12
    assert len(job.client.keys(job.key("completed:batch:*"))) == 12
    assert_whole(job)
    assert job.call("GAPS") == []


def test_a_record_is_the_same_before_and_after_it_is_packed(job):
    job.call("ADD", 1, 5, 9, "OPTIONS", '{"k": [1, 2]}')
    for partition in range(2, 90):
        job.call("ADD", partition, partition * 10, partition * 10 + 9)
    job.claim("ä worker", "ID", 1)
    job.call("FAIL", "ä worker", 1, "line\n\"two\"")
    job.claim("ä worker", "ID", 1, "FORCE")
    job.call("DONE", "ä worker", 1, "DURATION", 4321)
    finish_all(job)
    before = job.list("ARCHIVED")
    assert before[0]["error"] == "line\n\"two\"" and before[0]["attempts"] == 1
    assert job.call("ARCHIVE", "COMPACT") == 89
    assert status(job)["simple"] == 0
    assert job.list("ARCHIVED") == before
    assert [job.get(record["partition_id"]) for record in before] == before
    assert before[0]["duration_ms"] == 4321 and before[0]["options"] == {"k": [1, 2]}
    job.client.execute_command("DEBUG", "RELOAD")
    assert job.list("ARCHIVED") == before and job.get(1) == before[0]


def test_late_ones_come_into_their_batch_and_batches_never_overlap(job):
    """In the original one look-up decompresses every batch."""
    job.call("ALLOC", 400, "SIZE", 1)
    late = [r["partition_id"] for r in job.claim("slow", "COUNT", 400)]
    rng = random.Random(2)
    rng.shuffle(late)
    job.call("ALLOC", 500, "SIZE", 1)
    finish_all(job)
    for start in range(0, 400, 50):
        for partition in late[start:start + 50]:
            assert job.call("DONE", "slow", partition) == 1
        settle(job, batch=120)
        rows = sorted((int(low), json.loads(row)["max_id"])
                      for low, row in job.client.hgetall(job.key("completed:index")).items())
        assert all(high < low for (_, high), (low, _) in zip(rows, rows[1:]))
    assert job.call("ARCHIVE", "COMPACT") >= 0
    assert job.ids("ARCHIVED") == list(range(1, 501)) and job.call("GAPS") == []
    assert_whole(job)
    misses = int(job.client.info("partitions")["part_cache_misses"])
    assert job.get(77)["worker_id"] == "slow"
    assert int(job.client.info("partitions")["part_cache_misses"]) <= misses + 1


def test_two_who_pack_at_once_make_no_duplicates(job):
    """In the original two workers compress the same records."""
    job.call("ALLOC", 600, "SIZE", 1)
    others = [Job.__new__(Job) for _ in range(3)]
    for other in others:
        other.name, other.client = "j", job.client
    finish_all(job, step=30)
    pipe = job.client.pipeline(transaction=False)
    for _ in range(5):
        pipe.execute_command("PART.ARCHIVE", "j", "COMPACT")
    pipe.execute()
    assert job.ids("ARCHIVED") == list(range(1, 601)) and job.call("GAPS") == []
    assert job.stats()["completed"] == 600
    assert_whole(job)


def test_a_worker_nobody_registered_does_not_stop_packing(job):
    job.call("ALLOC", 300, "SIZE", 1)
    finish_all(job, workers=[f"worker {n}" for n in range(40)], step=5)
    settle(job)
    numbers = job.client.hgetall(job.key("worker_map"))
    assert {name: number for number, name in
            job.client.hgetall(job.key("worker_rmap")).items()} == numbers
    assert_whole(job)


def test_numbers_of_workers_stay_whoever_comes_later(job):
    """In the original they are positions in a list, and old batches decode to other workers."""
    done = {}  # by whom: said by those who did it, not read back

    def work(upto, workers):
        job.call("ALLOC", upto, "SIZE", 1)
        for worker in itertools.cycle(workers):
            ids = job.finish(worker, 7)  # several workers in each batch
            done.update({partition: worker for partition in ids})
            if not ids:
                break
        settle(job)
        return job.client.hgetall(job.key("worker_map"))

    def told():
        return {record["partition_id"]: record["worker_id"] for record in job.list("ARCHIVED")}

    numbers = work(200, ["zoe", "yan"])
    assert told() == done
    after = work(400, ["abe", "bob", "yan"])  # batches without the first one
    assert told() == done
    assert {name: after[name] for name in numbers} == numbers and len(after) == 4
    work(500, ["bob"])  # batches of the last one alone
    assert told() == done
    work(600, ["Aa", "BB"])  # names that have one place in the memo of a batch
    assert told() == done
    assert job.ids("ARCHIVED", "WORKER", "bob") == sorted(n for n in done if done[n] == "bob")


def test_long_errors_do_not_hurt_their_neighbours(job):
    """In the original an error over 64 KiB makes the rest of its batch unreadable."""
    job.call("ALLOC", 60, "SIZE", 1)
    for partition in (5, 6, 30):
        job.claim("w", "ID", partition)
        job.call("FAIL", "w", partition, chr(97 + partition % 26) * (1 << 20))
        job.claim("w", "ID", partition, "FORCE")
        job.call("DONE", "w", partition)
    finish_all(job)
    before = job.list("ARCHIVED")
    assert job.call("ARCHIVE", "COMPACT") == 60
    assert job.list("ARCHIVED") == before and len(job.get(6)["error"]) == 1 << 20
    assert_whole(job)


def test_numbers_beyond_32_bits_are_kept(job):
    """In the original ids, ranges and times beyond 32 bits wrap or become 0."""
    top = 2**63 - 1
    for i in range(40):
        job.call("ADD", top - 40 + i, i * 2**50, (i + 1) * 2**50 - 1)
    job.call("ADD", top, 2**62, top)
    finish_all(job)
    before = job.list("ARCHIVED")
    assert job.call("ARCHIVE", "COMPACT") == 41
    assert job.list("ARCHIVED") == before
    assert job.get(top)["max_id"] == top and job.get(top - 40)["max_id"] == 2**50 - 1
    assert_whole(job)


def test_a_packed_one_is_not_claimed_again_and_done_again_is_told(job):
    job.call("ALLOC", 120, "SIZE", 1)
    finish_all(job, workers=["w"])
    settle(job)
    assert job.claim("x", "ID", 3, "FORCE") == [] and job.claim("x", "STALE", 0) == []
    assert job.call("DONE", "w", 3) == 0
    assert job.error("DONE", "x", 3).startswith("NOTACTIVE")
    assert job.call("ADD", 3, 3, 3) == 0 and "exists with the range" in job.error("ADD", 3, 3, 4)
    assert job.call("DEL", 3) == 0 and job.call("RETRY", 3) == 0
    assert job.stats()["completed"] == 120


def test_a_dropped_job_takes_its_batches_along(job):
    job.call("ALLOC", 300, "SIZE", 1)
    finish_all(job)
    settle(job)
    job.client.execute_command("DEBUG", "RELOAD")
    assert job.call("DROP") == "OK" and job.client.dbsize() == 0
    job.call("ALLOC", 300, "SIZE", 1)  # the same names again: nothing of before is seen
    finish_all(job, workers=["new"])
    settle(job)
    assert job.ids("WORKER", "new", "ARCHIVED") == list(range(1, 301))
    assert_whole(job)


def test_packing_goes_on_after_a_kill_at_any_moment(start):
    args = ("--part-batch", "50", "--part-simple-max", "50")
    rng = random.Random(3)
    total = 0
    for round_ in range(6):
        server = start(*args)
        job = Job(server)
        total += 400
        job.call("ALLOC", total, "SIZE", 1)
        finish_all(job, step=rng.choice((60, 100, 400)), rng=rng)
        for _ in range(rng.randrange(4)):
            job.call("STATS")
        server.kill()
    job = Job(start(*args))
    settle(job, batch=50)
    assert job.ids("ARCHIVED", count=1000) == list(range(1, total + 1))
    assert job.call("GAPS") == [] and job.stats()["completed"] == total
    assert_whole(job)


# ---- looking ----

def naive(records, now, statuses=None, ids=None, worker=None, updated=None):
    for record in records:
        seconds = time.mktime(time.strptime(record["updated_at"][:19], "%Y-%m-%dT%H:%M:%S"))
        seconds -= time.timezone
        if (statuses is None or record["status"] in statuses) and \
           (ids is None or ids[0] <= record["partition_id"] <= ids[1]) and \
           (worker is None or record["worker_id"] == worker) and \
           (updated is None or updated[0] <= seconds <= updated[1]):
            yield record["partition_id"]


@pytest.mark.parametrize("strategy", ["simple", "mixed", "packed", "cold"])
def test_filters_find_what_a_naive_list_finds(job, strategy):
    rng = random.Random(strategy)
    for partition in sorted(rng.sample(range(1, 2000), 700)):
        job.call("ADD", partition, partition * 10, partition * 10 + 9)
    if strategy == "simple":
        job.client.config_set("part-simple-max", 1000000)
    workers = ["a", "b", "c", "d"]
    for _ in range(12):
        finish_workers = rng.choice(workers)
        job.finish(finish_workers, 45, "DURATION", rng.randrange(100000))
        job.claim(rng.choice(workers), "COUNT", 3)
    for record in job.claim("a", "COUNT", 20)[::3]:
        job.call("FAIL", "a", record["partition_id"], "no")
    if strategy == "packed":
        job.call("ARCHIVE", "COMPACT")
    elif strategy != "simple":
        settle(job)
    if strategy == "cold":
        job.client.execute_command("DEBUG", "RELOAD")
    everything = [json.loads(text) for key in ("partitions", "completed")
                  for text in job.client.hvals(job.key(key))]
    everything += [job.get(p) for p in range(2000) if job.get(p)] if strategy != "simple" else []
    everything = sorted({r["partition_id"]: r for r in everything}.values(),
                        key=lambda r: r["partition_id"])
    assert len(everything) == 700
    now = int(time.time())
    for _ in range(60):
        args, want = [], {}
        if rng.random() < 0.5:
            want["statuses"] = rng.sample(["pending", "claimed", "running", "completed", "failed"],
                                          rng.randrange(1, 4))
            args += ["STATUS", *want["statuses"]]
        if rng.random() < 0.5:
            low = rng.randrange(2000)
            want["ids"] = low, low + rng.randrange(600)
            args += ["ID", *want["ids"]]
        if rng.random() < 0.5:
            want["worker"] = rng.choice(workers + ["nobody", ""])
            args += ["WORKER", want["worker"]]
        if rng.random() < 0.3:
            low = now - rng.randrange(-2, 20)
            want["updated"] = low, low + rng.randrange(20)
            args += ["UPDATED", *want["updated"]]
        got = job.ids(*args, "ARCHIVED", count=rng.choice((3, 17, 100, 1000)))
        assert got == list(naive(everything, now, **want)), args


def test_gaps_and_what_is_covered_twice(job):
    job.call("ADD", 1, 1, 100, 2, 151, 200, 3, 190, 250, 4, 101, 120, 5, 300, 300, 6, 0, 0)
    assert job.call("GAPS") == [["missing", 0, 300]]
    for partition in (1, 2, 3):
        job.claim("w", "ID", partition)
        job.call("DONE", "w", partition)
    assert job.call("GAPS") == [["missing", 0, 0], ["missing", 101, 150], ["twice", 190, 200],
                                ["missing", 251, 300]]
    assert job.call("GAPS", "FROM", 120, "TO", 195) == [["missing", 120, 150], ["twice", 190, 195]]
    assert job.call("GAPS", "FROM", 1, "TO", 100) == []
    assert job.call("GAPS", "FROM", 60, "TO", 50) == []
    assert job.call("GAPS", "FROM", 2**63 - 1) == []
    assert job.call("GAPS", "FROM", 400, "TO", 2**63 - 1) == [["missing", 400, 2**63 - 1]]
    job.call("ARCHIVE", "COMPACT")
    job.call("DEL", 5)
    finish_all(job)
    assert job.call("GAPS") == [["missing", 121, 150], ["twice", 190, 200], ["missing", 251, 300]]
    assert job.error("GAPS", "FROM") == "syntax error"


def test_a_census_is_exact_while_work_goes_on(job):
    job.call("ALLOC", 3000, "SIZE", 1)
    ids = [r["partition_id"] for r in job.claim("w", "COUNT", 3000)]
    random.Random(4).shuffle(ids)
    pipe = job.client.pipeline(transaction=False)
    for n, partition in enumerate(ids):
        pipe.execute_command("PART.DONE", "j", "w", partition)
    others = [job.client.connection_pool.get_connection("x") for _ in range(4)]
    for n, other in enumerate(others):
        other.send_command("PART.ARCHIVE", "j", "VERIFY")
    pipe.execute()
    for other in others:
        assert pairs(other.read_response())["problems"] == []
    for n in range(3):
        others[0].send_command("PART.ARCHIVE", "j", "VERIFY")
        job.call("ALLOC", 3000 + 200 * (n + 1), "SIZE", 1)
        finish_all(job)
        assert pairs(others[0].read_response())["problems"] == []
    assert job.call("GAPS") == []


# ---- ageing out ----

def test_what_has_aged_out_is_told_and_stays_in_the_statistics(start):
    """Rebuilding statistics must not forget packed or dropped records."""
    server = start("--part-batch", "20", "--part-simple-max", "20", "--part-compressed-max", "50")
    job = Job(server)
    job.call("ALLOC", 190, "SIZE", 1)
    finish_all(job)
    settle(job)
    before = job.stats(), job.rows("WORKERS"), job.rows("RANGES"), job.rows("DAYS")
    job.client.config_set("part-retain", "1ms")
    wait(lambda: status(job)["packed"] <= 40)
    job.client.config_set("part-retain", "0s")
    after = job.stats(), job.rows("WORKERS"), job.rows("RANGES"), job.rows("DAYS")
    gone = after[0].pop("aged_out")
    assert before[0].pop("aged_out") == 0 and gone >= 140
    assert before == after
    assert status(job)["strategy"] == "statistics" and status(job)["aged_out"] == gone
    aged = job.get(1)
    assert aged["aged_out"] is True and aged["status"] == "completed"
    assert aged["range"]["completed"] == 190 and aged["range"]["dropped"] == gone
    assert job.get(191) is None
    assert "aged out" in job.error("ADD", 1, 1, 1)
    left = list(range(gone + 1, 191))
    interval = {"aged_out": True, "from_id": 1, "to_id": gone}
    assert job.ids("STATUS", "completed") == left
    for count in (1, 7, 1000):
        listed = job.list("ARCHIVED", count=count)
        assert listed[0] == interval and [r["partition_id"] for r in listed[1:]] == left
    assert job.list("STATUS", "aged") == [interval]
    assert job.list("STATUS", "aged", "ID", 5, 9) == [{"aged_out": True, "from_id": 5, "to_id": 9}]
    assert job.list("STATUS", "pending", "aged") == [interval]
    assert job.list("ARCHIVED", "WORKER", "nobody") == [] and job.list() == []
    assert job.call("GAPS") == [["aged", 1, gone]]
    assert job.call("GAPS", "FROM", 3, "TO", 5) == [["aged", 3, 5]]
    assert job.call("GAPS", "FROM", gone + 1) == []
    assert_whole(job)
    job.call("ALLOC", 400, "SIZE", 1)
    finish_all(job)
    assert job.stats()["completed"] == 400
    assert_whole(job)


def test_gaps_tell_what_aged_out_from_what_is_missing_and_what_came_twice(start):
    """Ranges of their own, some of which are never completed, or overlap what has aged out."""
    server = start("--part-batch", "20", "--part-simple-max", "20", "--part-compressed-max", "0")
    job = Job(server)
    for partition in range(1, 41):  # every third id is in no partition, 31 to 40 are one run
        first = partition * 3 if partition <= 30 else 1000 + partition
        job.call("ADD", partition, first, first + (partition <= 30))
    finish_all(job)
    settle(job)
    job.client.config_set("part-retain", "1ms")
    wait(lambda: status(job)["aged_out"] == 40)
    assert job.list("ARCHIVED") == [{"aged_out": True, "from_id": 1, "to_id": 40}]
    aged = [["aged", n * 3, n * 3 + 1] for n in range(1, 31)] + [["aged", 1031, 1040]]
    missing = [["missing", n * 3 + 2, n * 3 + 2] for n in range(1, 30)] + [["missing", 92, 1030]]
    assert job.call("GAPS") == sorted(aged + missing, key=lambda gap: gap[1])
    job.call("ADD", 41, 1035, 1050)
    job.finish("w", 1)
    assert job.call("GAPS", "FROM", 1031) == [["twice", 1035, 1040], ["aged", 1031, 1040]][::-1]
    assert job.call("DROP") == "OK" and job.client.dbsize() == 0


def test_an_opened_batch_that_nobody_asks_for_is_closed_after_its_time(job):
    job.call("ALLOC", 200, "SIZE", 1)
    finish_all(job)
    settle(job)
    job.list("ARCHIVED")
    assert job.client.info("partitions")["part_cache_bytes"] > 0  # far below part-cache
    job.client.config_set("part-cache-ttl", "1ms")
    wait(lambda: job.client.info("partitions")["part_cache_bytes"] == 0)
    job.client.config_set("part-cache-ttl", "300s")
    job.list("ARCHIVED")
    assert job.client.info("partitions")["part_cache_bytes"] > 0
    job.client.config_set("part-cache", 0)
    wait(lambda: job.client.info("partitions")["part_cache_bytes"] == 0)


# ---- containers ----

def container(rows, base, form=29):
    raw = b""
    for partition, low, high, worker, updated, created, error in rows:
        raw += struct.pack("<IQIHBI", partition, low, high - low + 1, worker, 3, updated - base)
        if form == 29:
            raw += struct.pack("<I", created - base)
        raw += struct.pack("<H", len(error)) + error
    return json.dumps({"base_timestamp": base, "partition_count": len(rows), "version": 1,
                       "compressed_data": base64.b64encode(gzip.compress(raw)).decode(),
                       "compression_algorithm": "gzip"})


@pytest.mark.parametrize("form", [25, 29])
def test_containers_of_the_original_come_in_and_go_out(job, form):
    base = 1719234000
    rows = [(i, i * 1000 + 1, (i + 1) * 1000, 1 + i % 3, base + i * 7 + 300, base + i * 7,
             b"timeout" if i % 10 == 0 else b"") for i in range(150)]
    text = container(rows, base, form)
    assert job.call("ARCHIVE", "IMPORT", text, "WORKER", 1, "worker1", 2, "worker2") == 150
    assert job.call("ARCHIVE", "IMPORT", text) == 0  # again: nothing is doubled
    assert job.get(30)["worker_id"] == "worker1" and job.get(29)["worker_id"] == "worker-3"
    assert job.get(10)["error"] == "timeout" and job.get(11)["duration_ms"] is None
    assert job.get(4)["created_at"] == ("2024-06-24T13:00:28Z" if form == 29 else
                                        "2024-06-24T13:05:28Z")
    assert job.call("GAPS") == []
    settle(job)
    assert_whole(job)
    out = pairs(job.call("ARCHIVE", "EXPORT", "ROWS", form, "COUNT", 1000))
    assert out["records"] == 150 and out["next"] == 0
    other = Job.__new__(Job)
    other.name, other.client = "other", job.client
    assert other.call("ARCHIVE", "IMPORT", out["bytes"]) == 150
    mine, theirs = job.list("ARCHIVED"), other.list("ARCHIVED")
    assert [r["max_id"] for r in mine] == [r["max_id"] for r in theirs]
    assert [r["error"] for r in mine] == [r["error"] for r in theirs]
    for bad in ("{}", "x", text[:-30], text.replace('"partition_count": 150',
                                                    '"partition_count": 151')):
        assert job.error("ARCHIVE", "IMPORT", bad)
    assert_whole(other)


def test_exported_frames_carry_everything_and_the_names(start):
    server = start(*SMALL)
    job = Job(server)
    job.call("ALLOC", 1300, "SIZE", 10)
    job.call("ADD", 500, 2000, 2005, "OPTIONS", '{"a":1}')
    finish_all(job, workers=["eins", "zwei"])
    raw = server.client()
    cursor, count = 0, 0
    while True:
        out = pairs(raw.execute_command("PART.ARCHIVE", "j", "EXPORT", "FROM", cursor, "COUNT", 50,
                                        "FRAME"))
        count += raw.execute_command("PART.ARCHIVE", "copy", "IMPORT", out[b"bytes"])
        cursor = out[b"next"]
        if not cursor:
            break
    assert count == 131
    copy = Job.__new__(Job)
    copy.name, copy.client = "copy", job.client
    assert copy.list("ARCHIVED") == job.list("ARCHIVED")
    assert copy.stats()["completed"] == 131
    damaged = bytearray(out[b"bytes"])
    damaged[len(damaged) // 2] ^= 1
    assert "damaged" in copy.error("ARCHIVE", "IMPORT", bytes(damaged))
    lost = pairs(job.call("ARCHIVE", "EXPORT", "ROWS", 25, "COUNT", 5))
    assert lost["records_with_lost_fields"] == 5


def test_info_and_metrics_tell_of_partitions(start):
    server = start(*SMALL)
    job = Job(server)
    job.call("ALLOC", 150, "SIZE", 1)
    finish_all(job)
    settle(job)
    wait(lambda: job.client.info("partitions")["part_packed"] == 140)
    info = job.client.info("partitions")
    assert info["part_jobs"] == 1 and info["part_completed"] == 150
    assert info["part_done_p99_us"] > 0 and info["part_decode_failures"] == 0
