# SPDX-License-Identifier: Apache-2.0
"""Partitions as a state machine: random workers that die, preempt each other and come back, a server that is
killed, against a naive model. No partition is lost, none is completed twice, counters equal records."""
import collections
import random
import threading

import pytest
import redis

from part import Job, pairs
from test_part_archive import assert_whole

ACTIVE = ("claimed", "running")


class Model:
    """What the server has to answer, written as plainly as possible."""

    def __init__(self):
        self.parts = {}
        self.fence = 0

    def claim(self, worker, count, stale, ids, force):
        if ids:
            can = [i for i in ids if i in self.parts and self.parts[i]["status"] != "completed"
                   and (self.parts[i]["status"] == "pending" or force
                        or (stale == 0 and self.parts[i]["status"] in ACTIVE))]
        else:
            can = sorted(i for i, p in self.parts.items() if p["status"] == "pending")[:count]
        return can

    def take(self, worker, partition, fence):
        assert fence > self.fence, "a fence only grows"
        self.fence = fence
        self.parts[partition].update(status="claimed", worker=worker, fence=fence)

    def owner_error(self, worker, partition, fence):
        part = self.parts.get(partition)
        if part is None or (part["status"] == "completed" and part["worker"] == worker):
            return "NOPART"
        if part["status"] not in ACTIVE:
            return "NOTACTIVE" if part["status"] != "completed" else "NOPART"
        if part["worker"] != worker:
            return "NOTOWNER"
        return None if fence is None or fence == part["fence"] else "FENCED"

    def counts(self):
        count = collections.Counter(p["status"] for p in self.parts.values())
        return [count[s] for s in ("pending", "claimed", "running", "failed", "completed")]


class Player:
    def __init__(self, start, seed, args):
        self.rng, self.start, self.args = random.Random(seed), start, args
        self.model = Model()
        self.server = start(*args)
        self.job = Job(self.server)
        self.done_count = collections.Counter()
        self.workers = [f"w{n}" for n in range(5)]
        self.believes = {worker: {} for worker in self.workers}  # id: fence, maybe not true any more

    def outcome(self, command, *args):
        """The reply, or the word of the error."""
        try:
            return self.job.call(command, *args)
        except redis.ResponseError as error:
            return str(error).split()[0]

    def add(self):
        first = len(self.model.parts) + 1
        count = self.rng.randrange(1, 30)
        assert self.job.call("ALLOC", (first + count - 1) * 10, "SIZE", 10) == count
        for partition in range(first, first + count):
            self.model.parts[partition] = {"status": "pending", "worker": "", "fence": 0}

    def claim(self, worker):
        args, ids, force, stale = [], [], False, None
        count = self.rng.randrange(1, 12)
        if self.rng.random() < 0.25 and self.model.parts:
            ids = self.rng.sample(range(1, len(self.model.parts) + 3), 2)
            force = self.rng.random() < 0.5
        if self.rng.random() < 0.3:
            stale = 0
            args += ["STALE", 0]
        if ids:
            args += ["ID", *ids] + (["FORCE"] if force else [])
        else:
            args += ["COUNT", count]
        expected = self.model.claim(worker, count, stale, ids, force)
        records = self.job.claim(worker, *args)
        got = [record["partition_id"] for record in records]
        if ids or stale is None:
            assert got == expected, (args, got, expected)
        else:  # anybody's first, who was silent for longest is the server's business; then pending ones
            before = {i for i, p in self.model.parts.items() if p["status"] in ACTIVE}
            taken = min(count, len(before))
            assert set(got[:taken]) <= before and len(set(got[:taken])) == taken
            assert got[taken:] == expected[:count - taken]
        for record in records:
            self.model.take(worker, record["partition_id"], record["fence"])
            self.believes[worker][record["partition_id"]] = record["fence"]

    def work(self, worker):
        held = self.believes[worker]
        if not held:
            return
        partition = self.rng.choice(list(held))
        fence = held[partition] if self.rng.random() < 0.8 else None
        command = self.rng.choice(["START", "BEAT", "DONE", "DONE", "DONE", "FAIL", "RELEASE"])
        args = [worker, partition] + (["why"] if command == "FAIL" else [])
        if command == "RELEASE":
            fence = None
        args += ["FENCE", fence] if fence is not None else []
        part = self.model.parts[partition]
        error = self.model.owner_error(worker, partition, fence)
        got = self.outcome(command, *args)
        if error:
            if command == "DONE" and part["status"] == "completed":
                mine = part["worker"] == worker and fence in (None, part["fence"])
                assert got == (0 if mine else "FENCED" if part["worker"] == worker else "NOTACTIVE")
            else:
                assert got == error, (command, args, got, part)
            if got not in (0, "OK"):
                del held[partition]
            return
        if command == "DONE":
            assert got == 1
            self.done_count[partition] += 1
            part["status"] = "completed"
        elif command == "RELEASE":
            assert got == "OK"
            part.update(status="pending", worker="")
        else:
            assert got == "OK"
            if command != "BEAT":
                part["status"] = "running" if command == "START" else "failed"

    def other(self):
        kind = self.rng.random()
        worker = self.rng.choice(self.workers)
        if kind < 0.3:
            self.believes[worker] = {}  # dies, and comes back knowing nothing
        elif kind < 0.6:
            failed = [i for i, p in self.model.parts.items() if p["status"] == "failed"]
            assert self.job.call("RETRY") == len(failed)
            for partition in failed:
                self.model.parts[partition].update(status="pending", worker="")
        elif kind < 0.7:
            self.job.client.execute_command("DEBUG", "RELOAD")
        elif kind < 0.75:
            self.server.kill()
            self.server = self.start(*self.args)
            self.job = Job(self.server)
        else:
            self.check()

    def check(self):
        assert self.job.states() == self.model.counts()
        records = {r["partition_id"]: r for r in self.job.list("ARCHIVED", count=1000)}
        assert records.keys() == self.model.parts.keys()
        for partition, part in self.model.parts.items():
            record = records[partition]
            assert (record["status"], record["fence"]) == (part["status"], part["fence"])
            assert part["status"] in ("failed", "pending") or record["worker_id"] == part["worker"]

    def finish(self):
        while True:
            self.job.call("RETRY")
            records = self.job.claim("last", "COUNT", 100, "STALE", 0)
            if not records:
                break
            for record in records:
                assert self.job.call("DONE", "last", record["partition_id"]) == 1
                self.done_count[record["partition_id"]] += 1
                self.model.take("last", record["partition_id"], record["fence"])
                self.model.parts[record["partition_id"]]["status"] = "completed"
        self.check()
        assert self.done_count == {partition: 1 for partition in self.model.parts}
        assert self.job.call("GAPS") == []
        assert_whole(self.job)


@pytest.mark.parametrize("seed", range(3))
def test_random_workers_against_the_model(start, seed):
    player = Player(start, seed, ("--part-batch", "8", "--part-simple-max", "24", "--part-takeovers", "0"))
    player.add()
    for _ in range(900):
        kind = player.rng.random()
        if kind < 0.05:
            player.add()
        elif kind < 0.3:
            player.claim(player.rng.choice(player.workers))
        elif kind < 0.94:
            player.work(player.rng.choice(player.workers))
        else:
            player.other()
    player.finish()


def test_threads_of_workers_and_a_server_that_is_killed(start):
    """Workers that do not know when the server dies, or whether their last command has happened."""
    args = ("--part-batch", "16", "--part-simple-max", "64")
    total = 600
    servers = [start(*args)]
    Job(servers[0]).call("ALLOC", total, "SIZE", 1)
    done, lock, over = collections.Counter(), threading.Lock(), threading.Event()
    failures = []

    def worker(name):
        rng = random.Random(name)
        while not over.is_set():
            try:
                job = Job(servers[-1])
                for record in job.claim(name, "COUNT", rng.randrange(1, 5), "STALE", 300):
                    partition, fence = record["partition_id"], record["fence"]
                    if rng.random() < 0.05:
                        continue  # dies with it
                    job.call("START", name, partition, "FENCE", fence)
                    if rng.random() < 0.1:
                        job.call("FAIL", name, partition, "no", "FENCE", fence)
                        job.call("RETRY", partition)
                        continue
                    if job.call("DONE", name, partition, "FENCE", fence) == 1:
                        with lock:
                            done[partition] += 1
            except (redis.ConnectionError, redis.TimeoutError):
                over.wait(0.05)
            except redis.ResponseError as error:
                if str(error).split()[0] not in ("FENCED", "NOTOWNER", "NOTACTIVE", "NOPART"):
                    failures.append(error)

    threads = [threading.Thread(target=worker, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    rng = random.Random(7)
    try:
        for _ in range(5):
            goal = rng.randrange(20, 90) + Job(servers[-1]).stats()["completed"]
            while Job(servers[-1]).stats()["completed"] < min(goal, total):
                over.wait(0.01)
            servers[-1].kill()
            servers.append(start(*args))
        job = Job(servers[-1])
        while job.stats()["completed"] < total:
            over.wait(0.02)
            job.call("RETRY")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert max(done.values()) == 1  # acknowledged once; an answer that was lost is not in here
    assert job.ids("STATUS", "completed", count=1000) == list(range(1, total + 1))
    assert job.states() == [0, 0, 0, 0, total]
    assert sum(int(row["completed"]) for row in job.rows("WORKERS").values()) == total
    assert job.call("GAPS") == []
    assert pairs(job.call("ARCHIVE", "VERIFY"))["problems"] == []
