#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What tiles cost: against SQLite alone, against GET, over HTTP, and how ranges grow.

    tools/bench_tile.py                          everything: about three minutes
    TILE_BENCH=short tools/bench_tile.py         a tenth of it, for a look
    tools/bench_tile.py --only get_hot,http_us

One line a figure: bench tile.NAME VALUE UNIT. Ratios are of rates in one run, of the same tiles (2 to 4 KiB, half of them
compresses) in the same order, on the same disk.

  ack         TILE.SET by 50 clients, depth 16, until the last one is answered; over a plain loop of upserts into the same
              schema, 1000 a transaction, synchronous=FULL. Both have done as much once before, in another file. Before either a
              GiB of memory is touched and given back, and what a round has written is removed after it: otherwise each
              round lives in memory that the host of a virtual machine has to find first, which costs more than the work.
              --cold measures with that. Beside each round: what a KiB of that GiB cost (0: --cold), and the time the host took away
  end_to_end  the same until TILE.SYNC has answered, over the same loop
  get_hot     the rate of TILE.GET over that of GET of the same sizes, 50 clients, depth 16, all in memory;
              get_hot_cpu: the same of CPU of the server a request, what the client does left out
  get_shard   TILE.GET of tiles that are in a shard only, tile-cache of 1 MB, over one prepared SELECT on the same file
  http_us     CPU of the HTTP thread and the executor a request of a hot tile: wrk, 50 connections;
              http_304_us the same where the answer is 304
  count_us, range_us   TILE.COUNT and a page of TILE.RANGE (100 keys) below a key of level 8, with --keys (10 million) tiles of
              level 12 in shards; count_all_us is all of them: what is below the key is 1/65536 of that
  import      terrace tile import of an MBTiles file until it is acknowledged, over INSERT ... SELECT of the same file into one
              shard; import_sync until it is in the shard
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bench_server  # noqa: E402

FIGURES = ["ack", "get_hot", "get_shard", "http_us", "count_us", "import"]
AT_LEAST = {"ack": 3, "end_to_end": 0.8, "get_hot": 0.9, "get_shard": 0.3, "import": 0.5}
AT_MOST = {"http_us": 40}
SHORT = os.environ.get("TILE_BENCH") == "short"


class Bench:
    def __init__(self, args):
        self.args = args
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="bench-tile-", dir=args.tmp))
        self.servers = []
        self.tools = {}
        for name, library in (("sqlite_tile", "-lsqlite3"), ("load_server", "-lm")):
            self.tools[name] = self.top / name
            subprocess.run(["cc", "-O2", "-o", self.tools[name], ROOT / "tests" / "bench" / f"{name}.c", library],
                           check=True)

    def close(self):
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.top, ignore_errors=True)

    def terraced(self, *words):
        directory = self.top / f"terraced-{len(self.servers)}"
        directory.mkdir()
        path = pathlib.Path(self.args.terraced or self.args.build / "terraced").resolve()
        command = [str(path), "--port", str(bench_server.free_port()), "--dir", "data", "--hot-memory", "4gb",
                   "--durability", "everysec", "--tile-types", "imagery=1", *words]
        server = bench_server.Server("terraced", command, "stop ", directory)
        self.servers.append(server)
        server.start()
        server.client = redis.Redis(port=server.port, socket_timeout=600)
        server.dir = directory
        return server

    def run(self, name, *words):
        """Runs a tool; returns the numbers it prints, by name."""
        done = subprocess.run([self.tools[name], *map(str, words)], capture_output=True, text=True, check=True,
                              cwd=self.top)
        if done.stderr:
            print("   " + done.stderr.strip())
        text = done.stdout.split()
        return {text[i]: float(text[i + 1]) for i in range(0, len(text), 2)}

    def load(self, server, mode, **options):
        options = {"type": "tile", "prefix": "0123", "digits": 8, "value": 0, "conns": 50, "pipeline": 16, **options}
        numbers = self.run("load_server", server.port, mode, *(f"{name}={value}" for name, value in options.items()))
        assert numbers["errors"] == 0 and numbers["missing"] == 0, numbers
        return numbers

    def figure(self, name, value, unit, note="", digits=2):
        wish = ""
        if name in AT_LEAST:
            wish = f" (wanted >= {AT_LEAST[name]}{'' if round(value, 2) >= AT_LEAST[name] else ', MISSED'})"
        if name in AT_MOST:
            wish = f" (wanted <= {AT_MOST[name]}{'' if round(value, 2) <= AT_MOST[name] else ', MISSED'})"
        print(f"   {name}: {note}{wish}")
        print(f"bench tile.{name} {value:.{digits}f} {unit}", flush=True)


def thread_cpu_ns(server):
    """CPU of each thread: name and nanoseconds by its number."""
    found = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        found[task.name] = int((task / "schedstat").read_text().split()[0])
    return found


def memory_ready(bench):
    return 0.0 if bench.args.cold else bench_server.memory_ready()


def round_remove(bench, server, shards):
    """The next round gets the pages of this one."""
    for path in bench.top.glob("*.db*"):
        path.unlink()
    for directory in (shards, server.dir):
        shutil.rmtree(directory)


def stolen_s():
    """Seconds in which the host ran something else than this machine, of all cores."""
    return int(pathlib.Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


def bench_ack(bench):
    count = 6000 if SHORT else 60000
    acks, ends = [], []
    for n in range(1 if SHORT else 5):
        bench.run("sqlite_tile", "loop", bench.top / f"before-{n}.db", count)
        memory = [memory_ready(bench)]
        os.sync()  # what was written before must not be written meanwhile
        stolen = [stolen_s()]
        plain = bench.run("sqlite_tile", "loop", bench.top / f"loop-{n}.db", count)["rate"]
        stolen.append(stolen_s())
        server = bench.terraced("--tile-sqlite", str(bench.top / f"shards-{n}"))
        bench.load(server, "fill", keys=count, prefix="0122")
        memory.append(memory_ready(bench))
        server.client.execute_command("TILE.SYNC")
        os.sync()
        stolen.append(stolen_s())
        begin = time.monotonic()
        ack = bench.load(server, "fill", keys=count)["rate"]
        stolen.append(stolen_s())
        server.client.execute_command("TILE.SYNC")
        end = count / (time.monotonic() - begin)
        server.kill()
        if not bench.args.cold:
            round_remove(bench, server, bench.top / f"shards-{n}")
        acks.append(ack / plain)
        ends.append(end / plain)
        print(f"   SQLite {plain:.0f}/s, acknowledged {ack:.0f}/s, in the shard {end:.0f}/s; "
              f"memory {memory[0]:.1f}, {memory[1]:.1f} us a KiB, "
              f"stolen {stolen[1] - stolen[0]:.2f}, {stolen[3] - stolen[2]:.2f} s")
    bench.figure("ack", statistics.median(acks), "x", "of a plain loop of upserts")
    bench.figure("end_to_end", statistics.median(ends), "x", "of the same loop")


def bench_get_hot(bench):
    count = 20000
    server = bench.terraced()
    bench.load(server, "fill", keys=count)
    bench.load(server, "fill", keys=count, type="blob")
    cost, rate = {"tile": [], "blob": []}, {"tile": [], "blob": []}
    for _ in range(3 if SHORT else 9):
        for kind in ("tile", "blob"):
            before = sum(thread_cpu_ns(server).values())
            numbers = bench.load(server, "random", keys=count, type=kind, seconds=0.5)
            cost[kind].append((sum(thread_cpu_ns(server).values()) - before) / numbers["ops"])
            rate[kind].append(numbers["rate"])
    server.kill()
    bench.figure("get_hot", statistics.median(a / b for a, b in zip(rate["tile"], rate["blob"])), "x",
                 f"TILE.GET {statistics.median(rate['tile']):.0f}/s, GET {statistics.median(rate['blob']):.0f}/s")
    bench.figure("get_hot_cpu", statistics.median(b / a for a, b in zip(cost["tile"], cost["blob"])), "x",
                 "CPU of GET over that of TILE.GET")


def bench_get_shard(bench):
    count = 6000 if SHORT else 60000
    server = bench.terraced("--tile-sqlite", str(bench.top / "shards-get"), "--tile-cache", "1mb")
    bench.load(server, "fill", keys=count)
    server.client.execute_command("TILE.SYNC")
    file = bench.top / "shards-get" / "imagery" / "8" / "0123.g3db"
    ratios = []
    for _ in range(1 if SHORT else 3):
        plain = bench.run("sqlite_tile", "select", file, count, 1)["rate"]
        ours = bench.load(server, "random", keys=count, seconds=2)["rate"]
        ratios.append(ours / plain)
        print(f"   SELECT {plain:.0f}/s, TILE.GET {ours:.0f}/s")
    server.kill()
    bench.figure("get_shard", statistics.median(ratios), "x", "of a prepared SELECT on the same file")


def http_cost(bench, server, url, *headers):
    before = thread_cpu_ns(server)
    words = [word for header in headers for word in ("-H", header)]
    said = subprocess.run(["wrk", "-t1", "-c50", "-d1s" if SHORT else "-d4s", *words, url], capture_output=True,
                          text=True, check=True).stdout
    after = thread_cpu_ns(server)
    requests = int(re.search(r"(\d+) requests in", said).group(1))
    assert not re.search(r"Non-2xx", said) or headers, said
    return sum(ns - before.get(task, 0) for task, ns in after.items()) / requests / 1000, requests


def bench_http(bench):
    port = bench_server.free_port()
    server = bench.terraced("--http-port", str(port))
    bench.load(server, "fill", keys=100)
    key = "0123" + "0" * 8
    server.client.execute_command("TILE.SET", "imagery", key, b"\x89PNG\r\n\x1a\n" + b"x" * 3000)
    url = f"http://127.0.0.1:{port}/tiles/imagery/{key}.png"
    said = subprocess.run(["curl", "-sS", "-I", url], capture_output=True, text=True, check=True).stdout
    etag = re.search(r"ETag: (\S+)", said, re.IGNORECASE).group(1)
    http_cost(bench, server, url)
    costs = [http_cost(bench, server, url) for _ in range(1 if SHORT else 3)]
    known = [http_cost(bench, server, url, f"If-None-Match: {etag}") for _ in range(1 if SHORT else 3)]
    server.kill()
    bench.figure("http_us", statistics.median(cost for cost, _ in costs), "us",
                 f"{statistics.median(n for _, n in costs)} requests of 3 KB")
    bench.figure("http_304_us", statistics.median(cost for cost, _ in known), "us", "the same with If-None-Match")


def timed(client, *words, rounds=5):
    times = []
    for _ in range(rounds):
        begin = time.monotonic()
        reply = client.execute_command(*words)
        times.append((time.monotonic() - begin) * 1e6)
    return statistics.median(times), reply


def bench_count(bench):
    keys = bench.args.keys // (10 if SHORT else 1)
    directory = bench.top / "shards-range"
    directory.mkdir()
    made = int(bench.run("sqlite_tile", "shards", directory, keys)["ops"])
    server = bench.terraced("--tile-sqlite", str(directory))
    all_us, count = timed(server.client, "TILE.COUNT", "imagery", "", rounds=1)
    assert count == made, (count, made)
    count_us, count = timed(server.client, "TILE.COUNT", "imagery", "01230000")
    assert count == 256, count
    range_us, page = timed(server.client, "TILE.RANGE", "imagery", "01230000", "COUNT", 100)
    server.kill()
    bench.figure("count_all_us", all_us, "us", f"TILE.COUNT of {made} tiles in 256 shards", 0)
    bench.figure("count_us", count_us, "us", "of 256 tiles below a key of level 8", 0)
    bench.figure("range_us", range_us, "us", "a page of 100 of them", 0)


def bench_import(bench):
    count = 6000 if SHORT else 65536
    source = bench.top / "map.mbtiles"
    bench.run("sqlite_tile", "make", source, count)
    terrace = pathlib.Path(bench.args.terrace or bench.args.build / "terrace").resolve()
    ratios, ends = [], []
    for n in range(1 if SHORT else 3):
        plain = bench.run("sqlite_tile", "copy", source, bench.top / f"copy-{n}.db")["rate"]
        server = bench.terraced("--tile-sqlite", str(bench.top / f"shards-import-{n}"))
        begin = time.monotonic()
        subprocess.run([terrace, "tile", "import", source, "imagery", "-p", str(server.port)], check=True,
                       stdout=subprocess.DEVNULL)
        ours = count / (time.monotonic() - begin)
        server.client.execute_command("TILE.SYNC")
        end = count / (time.monotonic() - begin)
        server.kill()
        ratios.append(ours / plain)
        ends.append(end / plain)
        print(f"   INSERT ... SELECT {plain:.0f}/s, imported {ours:.0f}/s, in the shard {end:.0f}/s")
    bench.figure("import", statistics.median(ratios), "x", "of INSERT ... SELECT into one shard")
    bench.figure("import_sync", statistics.median(ends), "x", "the same until it is in the shard")


RUN = {"ack": bench_ack, "get_hot": bench_get_hot, "get_shard": bench_get_shard, "http_us": bench_http,
       "count_us": bench_count, "import": bench_import}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--terraced", type=pathlib.Path)
    parser.add_argument("--terrace", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--cold", action="store_true", help="ack in memory that was not in use lately")
    parser.add_argument("--tmp", default=os.environ.get("TMPDIR"))
    args = parser.parse_args()
    bench = Bench(args)
    try:
        for name in args.only.split(","):
            print(f"== {name}", flush=True)
            RUN[name](bench)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
