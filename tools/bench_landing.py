#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What landing costs a server, and what an outage of its database leaves behind, with a real MariaDB.

    tools/bench_landing.py                          everything: about three minutes
    OUTAGE_SECONDS=5 tools/bench_landing.py --only backlog
    tools/bench_landing.py --only hset_cost --rounds 31

One line a figure: bench landing.NAME VALUE UNIT.

  hset_cost      CPU of the executor a command: HSET on a landed key over HSET on a plain one, in one server whose
                 lander is idle; 50 clients, depth 16, 64-byte values, 100 thousand random fields of one key. The
                 median of ratios of rounds that take turns.
  backlog        entries in the dirty tables a field, after OUTAGE_SECONDS (60) without database at full write load on
                 100 thousand fields; backlog_saving counts the snapshots that were being landed as well
  catch_up       rows a second until all of it has landed, from the moment the database answers again
  rate_*         rows a second of the lander for --rows dirty fields, clients idle; rate_*_executor and rate_*_worker
                 are the CPU of both threads a row
  lift_queries   SQL queries caused by 1,000 clients that miss one key at the same time
"""
import argparse
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "wire"))

import bench_server  # noqa: E402
import mariadb  # noqa: E402

FIGURES = ["hset_cost", "backlog", "rate", "lift_queries"]
AT_MOST = {"hset_cost": 1.6, "backlog": 1.0, "lift_queries": 1}
FIELDS = 99999  # ten batches of the largest size would start the lander
OWNERS = 316  # and as many fields each: 100 thousand
CLIENTS = 1000
TABLES = 4
VALUE = "x" * 64
KEY = "slug-data:{bench:eu:player:%s}"
IDLE = ["delay", "2000000000", "batch", "10000"]


class Bench:
    def __init__(self, args):
        self.args = args
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="bench-landing-", dir=args.tmp))
        self.servers = []

    def close(self):
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.top, ignore_errors=True)

    def terraced(self):
        directory = self.top / f"terraced-{len(self.servers)}"
        directory.mkdir()
        path = pathlib.Path(self.args.terraced or self.args.build / "terraced").resolve()
        command = [str(path), "--port", str(bench_server.free_port()), "--dir", "data", "--hot-memory", "4gb",
                   "--durability", "everysec"]
        server = bench_server.Server("terraced", command, "stop ", directory)
        self.servers.append(server)
        server.start()
        server.client = redis.Redis(port=server.port, decode_responses=True, socket_timeout=600)
        return server

    def figure(self, name, value, unit, note="", digits=2):
        wish = ""
        if name in AT_MOST:
            wish = f" (wanted <= {AT_MOST[name]}{'' if round(value, 2) <= AT_MOST[name] else ', MISSED'})"
        print(f"   {name}: {note}{wish}")
        print(f"bench landing.{name} {value:.{digits}f} {unit}", flush=True)

    # -- the cost of a mark -----------------------------------------------------------------------

    def hset_cost(self):
        server = self.terraced()
        rule_add(server.client, f"sqlite:{server.dir}/sink.db", *IDLE)
        keys = {"plain": "slug-none:{bench:eu:player:1}", "landed": KEY % 1}
        for key in keys.values():  # every field is there, and has its mark
            fill(server.client, [key], FIELDS)
        ratios, each = [], {name: [] for name in keys}
        for turn in range(self.args.rounds):
            for name in sorted(keys, reverse=turn % 2 == 1):
                before = thread_seconds(server.process.pid, server.process.pid)
                benchmark(server.port, self.args.n, FIELDS, "HSET", keys[name], "field:__rand_int__", VALUE)
                spent = thread_seconds(server.process.pid, server.process.pid) - before
                each[name].append(spent / self.args.n * 1e6)
            ratios.append(each["landed"][-1] / each["plain"][-1])
        entries = sum(server.client.hlen(f"slug-persist:{{dirtyKey:{n}}}") for n in range(TABLES))
        if entries != FIELDS:
            raise RuntimeError(f"{entries} dirty entries, not {FIELDS}: the lander was not idle")
        plain, landed = (statistics.median(each[name]) for name in ("plain", "landed"))
        self.figure("hset_cost", statistics.median(ratios), "x",
                    f"{landed:.2f} us landed, {plain:.2f} us plain, median of {len(ratios)} rounds from "
                    f"{min(ratios):.2f} to {max(ratios):.2f}")
        server.kill()

    # -- an outage --------------------------------------------------------------------------------

    def backlog(self):
        seconds = float(os.environ.get("OUTAGE_SECONDS", "60"))
        server = self.terraced()
        with mariadb.MariaDB() as db:
            db.ask("CREATE DATABASE game")
            rule_add(server.client, db.url("game"), "delay", "200")
            fill(server.client, [KEY % f"{n:012}" for n in range(OWNERS)], OWNERS, "%012d")
            server.client.execute_command("LAND.FLUSH")
            load = Load(server.port)
            time.sleep(2)  # it lands while clients write
            db.stop()
            time.sleep(seconds)
            load.stop()
            marked, saving = backlog_of(server.client)
            db.start()
            landed, start = landed_rows(server.client), time.monotonic()
            flush(server.client)
            taken = time.monotonic() - start
            landed = landed_rows(server.client) - landed
            fields = sum(server.client.hlen(KEY % f"{n:012}") for n in range(OWNERS))
            check_landed(db, fields)
            left = sum(backlog_of(server.client))
        if left:
            raise RuntimeError(f"{left} marks are left")
        self.figure("backlog", marked / fields, "x",
                    f"{marked} entries of {fields} fields, {load.count / 1e6:.1f} million HSETs in {seconds:.0f} s "
                    "without database")
        self.figure("backlog_saving", (marked + saving) / fields, "x", f"with {saving} entries of snapshots")
        self.figure("catch_up", landed / taken, "rows/s", f"{landed} rows in {taken:.1f} s", digits=0)
        server.kill()

    # -- how fast it lands ------------------------------------------------------------------------

    def rate(self):
        with mariadb.MariaDB() as db:
            db.ask("CREATE DATABASE game")
            for name, url in (("sqlite", None), ("mariadb", db.url("game"))):
                self.rate_of(name, url)

    def rate_of(self, name, url):
        server = self.terraced()
        rows, owners = self.args.rows, 1000
        rule_add(server.client, url or f"sqlite:{server.dir}/sink.db", "delay", "2000000000", "batch",
                 str(self.args.batch))
        fill(server.client, [KEY % n for n in range(owners)], rows // owners)
        executor = server.process.pid
        before = threads_seconds(executor)
        start = time.monotonic()
        landed = landed_rows(server.client)
        flush(server.client)
        taken = time.monotonic() - start
        landed = landed_rows(server.client) - landed
        spent = {thread: seconds - before.get(thread, 0) for thread, seconds in threads_seconds(executor).items()}
        mine = spent.pop(executor)
        self.figure(f"rate_{name}", landed / taken, "rows/s", f"{landed} rows in {taken:.2f} s", digits=0)
        self.figure(f"rate_{name}_executor", mine / max(landed, 1) * 1e6, "us", "CPU a row")
        self.figure(f"rate_{name}_worker", max(spent.values()) / max(landed, 1) * 1e6, "us", "CPU a row")
        server.kill()

    # -- a miss -----------------------------------------------------------------------------------

    def lift_queries(self):
        server = self.terraced()
        with mariadb.MariaDB() as db:
            db.ask("CREATE DATABASE game")
            rule_add(server.client, db.url("game"))
            key = KEY % 1
            counts = {}
            land_and_evict(server.client, key)
            server.client.hget(key, "one")  # the lifter looks at its table: five queries, once a connection
            for words in (("HGET", key, "one"), ("HGETALL", key)):
                land_and_evict(server.client, key)
                counts[words[0]] = self.queries(server, db, words)
        self.figure("lift_queries", max(counts.values()), "queries",
                    f"{CLIENTS} clients each: " + ", ".join(f"{count} for {word}" for word, count in counts.items()),
                    digits=0)
        server.kill()

    def queries(self, server, db, words):
        """The database hangs until everybody has asked."""
        db.ask("SET GLOBAL log_output = 'TABLE'")
        db.ask("TRUNCATE mysql.general_log")
        db.ask("SET GLOBAL general_log = ON")
        asked = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w.encode()) for w in words)
        links = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(CLIENTS)]
        try:
            db.pause(True)
            for link in links:
                link.sendall(asked)
            time.sleep(0.5)
            db.pause(False)
            replies = {link.recv(1000) for link in links}
        finally:
            db.pause(False)
            for link in links:
                link.close()
        db.ask("SET GLOBAL general_log = OFF")
        if len(replies) != 1 or b"1\r\n" not in replies.pop():
            raise RuntimeError("not everybody was answered the same")
        found = db.ask("SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') "
                       "AND argument LIKE 'SELECT%'")
        return found[0][0]


# ---- the server ----

def thread_seconds(process, thread):
    text = pathlib.Path(f"/proc/{process}/task/{thread}/stat").read_text()
    fields = text.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / bench_server.TICKS


def threads_seconds(process):
    threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    return {thread: thread_seconds(process, thread) for thread in threads}


def rule_add(client, url, *more):
    client.execute_command("LAND.RULE", "ADD", "players", "slug-data:{*}", url, "shape", "object", "tables", TABLES, *more)


def fill(client, keys, count, field="field:%012d"):
    """Each key gets so many fields, in the names redis-benchmark will draw."""
    for key in keys:
        for first in range(0, count, 1000):
            client.hset(key, mapping={field % n: VALUE for n in range(first, min(count, first + 1000))})


def flush(client):
    """LAND.FLUSH, also when the lander has not heard yet that its database is back."""
    deadline = time.monotonic() + 300
    while True:
        try:
            client.execute_command("LAND.FLUSH")
            return
        except redis.ResponseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def land_and_evict(client, key):
    client.hset(key, mapping={"one": "1", "two": "2"})
    client.execute_command("LAND.FLUSH")
    if client.execute_command("LAND.EVICT", key) != 1:
        raise RuntimeError("the key was not evicted")


def backlog_of(client):
    """Entries that are marked; entries of snapshots and errors."""
    names = [f"slug-persist:{{dirtyKey:{n}}}" for n in range(TABLES)]
    return (sum(client.hlen(name) for name in names),
            sum(client.hlen(name + part) for name in names for part in (":saving", ":error")))


def landed_rows(client):
    status = client.execute_command("LAND.STATUS")
    return int(re.search(r"'landed_rows', (\d+)", str(status)).group(1))


def check_landed(db, fields):
    rows = db.ask("SELECT COUNT(*) FROM game.bench_eu WHERE is_del = 0")[0][0]
    if rows != fields:
        raise RuntimeError(f"{rows} rows in SQL, {fields} fields here")


# ---- the load ----

def benchmark(port, n, span, *words):
    subprocess.run(["redis-benchmark", "-p", str(port), "-n", str(n), "-c", "50", "-P", "16", "-r", str(span), "-q",
                    *words], check=True, stdout=subprocess.DEVNULL, timeout=600)


class Load(threading.Thread):
    """HSETs of random fields of random owners, as many as the server takes, until it is stopped."""

    STEP = 100000

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.count, self.ends = port, 0, False
        self.start()

    def run(self):
        while not self.ends:
            benchmark(self.port, self.STEP, OWNERS, "HSET", KEY % "__rand_int__", "__rand_int__", VALUE)
            self.count += self.STEP

    def stop(self):
        self.ends = True
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--terraced", help="another program than the build's")
    parser.add_argument("--only", default="", help=f"some of: {' '.join(FIGURES)}")
    parser.add_argument("--rounds", type=int, default=21, help="of hset_cost")
    parser.add_argument("--n", type=int, default=100000, help="commands of a round of hset_cost")
    parser.add_argument("--rows", type=int, default=100000, help="of rate")
    parser.add_argument("--batch", type=int, default=1000, help="of rate")
    parser.add_argument("--tmp", help="where the data directories go")
    args = parser.parse_args()
    chosen = [word for word in args.only.split(",") if word] or FIGURES
    unknown = [word for word in chosen if word not in FIGURES]
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    bench = Bench(args)
    try:
        for name in chosen:
            getattr(bench, name)()
    finally:
        bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
