#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""terraced against Debian's redis-server (appendonly yes, everysec), in turns, as medians of ratios.

    tools/bench_server.py                              everything: about half an hour
    tools/bench_server.py --only set,get --p 16 --n 300000
    tools/bench_server.py --only mem_keys,zipf

One line a figure: bench server.NAME VALUE UNIT. x is ours over Redis's: throughput is better when larger;
cpu, memory, times are better when smaller. Beside it the ceiling: what the null server (tests/bench/null_server.c
parses, stores nothing, answers +OK, or to LRANGE as many elements) reaches over Redis in the same rounds, because on
few cores redis-benchmark is the other half of the test. LRANGE is measured with two threads of redis-benchmark as well
(_t2): one of them needs about as long to read such replies as Redis needs to make them. Each run begins when both servers have come to rest: neither
is measured beside what the other does in the background. That work is counted, as cpu_rest. And it begins with free
memory that is there: see memory_ready().
"""
import argparse
import csv
import ctypes
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ("set get incr lpush rpush lpop rpop sadd hset spop zadd zpopmin lrange_100 lrange_300 mset").split()
FIGURES = ["mem_keys", "mem_hash", "mem_zset", "copy_wait", "zipf", "cold_p99", "start"]
# What has to be there before a test runs, as redis-benchmark's own order of tests would leave it.
BEFORE = {"get": "set", "lpop": "lpush", "rpop": "rpush", "spop": "sadd", "zpopmin": "zadd"}
EMPTIED = {"lpush": "mylist", "rpush": "mylist", "lpop": "mylist", "rpop": "mylist", "lrange_100": "mylist",
           "lrange_300": "mylist", "spop": "myset", "zpopmin": "myzset"}
WANTED = {f"{test}_p1": 0.9 for test in TESTS} | {f"{test}_p16": 1.5 for test in TESTS}
WANTED |= {"set_p16": 2.0, "get_p16": 2.0, "incr_p16": 2.0, "hset_p16": 2.0, "lrange_100_p16": 1.2,
           "lrange_300_p16": 1.2, "lrange_100_p16_t2": 1.2, "lrange_300_p16_t2": 1.2, "zipf": 0.4}
AT_MOST = {"cpu_p1": 1.0, "mem_keys": 0.8, "mem_hash": 0.8, "mem_zset": 0.8, "copy_wait": 0.1, "cold_p99": 3.0, "start": 1.0}
START_SECONDS = 600
PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1
TICKS = os.sysconf("SC_CLK_TCK")
REST_SECONDS_MAX = 20
REST_LOOK_SECONDS = 0.2
MEMORY_BYTES = 1 << 30
MEMORY_TOUCH = f"""
import mmap, time
memory = mmap.mmap(-1, {MEMORY_BYTES})
begin = time.monotonic()
memory[::4096] = bytes({MEMORY_BYTES // 4096})
print((time.monotonic() - begin) * 1e6 / {MEMORY_BYTES // 1024})
"""


class Missing(Exception):
    """A server cannot do this yet."""


def compile_helpers(build):
    out = build / "bench-server"
    out.mkdir(exist_ok=True)
    flags = ["-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    for name in ("null_server", "load_server"):
        source, program = ROOT / "tests" / "bench" / f"{name}.c", out / name
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["gcc", *flags, "-o", str(program), str(source), "-lm"], check=True)
    return out / "null_server", out / "load_server"


def memory_ready():
    """Touches memory and gives it back: pages of processes and files come from what was given back last. Where the host
    of a virtual machine has taken free memory back, a KiB that it has to find again costs more than all that a server does
    with it, and differs from run to run. Returns what a KiB cost, in us."""
    done = subprocess.run([sys.executable, "-c", MEMORY_TOUCH], capture_output=True, text=True, check=True)
    return float(done.stdout)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    """Runs in the child: a killed run leaves no server behind."""
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A process with a directory; ready when its output says so."""

    def __init__(self, name, command, ready, directory, port=None):
        self.name, self.dir, self.command, self.ready = name, directory, command, ready
        self.port = port
        self.process = None

    def start(self, wait=True):
        self.errors = open(self.dir / "stderr", "ab")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, cwd=self.dir, preexec_fn=die_with_parent)
        if not wait:
            return self
        said, end = "", time.monotonic() + START_SECONDS
        while not re.search(self.ready, said):
            have, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace") if have else ""
            if not part:
                raise RuntimeError(f"{self.name} did not start: {said} {(self.dir / 'stderr').read_text()}")
            said += part
        listens = re.search(r"listens on \S+:(\d+)", said)
        if listens:
            self.port = int(listens.group(1))
        return self

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
            self.process.stdout.close()
            self.errors.close()

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024

    def rss_at_rest(self):
        """When it has stopped falling: buffers of the load, and what waits for a sync, are gone."""
        least, since = self.rss_bytes(), time.monotonic()
        while time.monotonic() - since < 6:
            time.sleep(0.25)
            now = self.rss_bytes()
            if now < least * 0.995:
                least, since = now, time.monotonic()
        return self.rss_bytes()

    def ask(self, *words, seconds=120):
        """One command, the raw first part of its reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as link:
            link.sendall(b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%b\r\n" % (len(word), word) for word in (str(w).encode() for w in words)))
            return link.recv(1 << 20)


class Bench:
    def __init__(self, args):
        self.args = args
        self.build = args.build.resolve()
        self.null_path, self.load_path = compile_helpers(self.build)
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="bench-server-", dir=args.tmp))
        self.servers = []
        self.results = []

    def close(self):
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.top, ignore_errors=True)

    def _new(self, name, command, ready, port=None):
        directory = self.top / f"{name}-{len(self.servers)}"
        directory.mkdir()
        server = Server(name, command, ready, directory, port)
        self.servers.append(server)
        return server

    def terraced(self, hot_memory="4gb"):
        path = pathlib.Path(self.args.terraced or self.build / "terraced").resolve()
        return self._new("terraced", [str(path), "--port", str(free_port()), "--dir", "data", "--hot-memory",
                                      hot_memory, "--durability", "everysec", *self.args.option], "stop ")

    def redis(self):
        port = free_port()
        return self._new("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                   "--appendonly", "yes", "--appendfsync", "everysec",
                                   "--auto-aof-rewrite-percentage", "0"], "Ready to accept", port)

    def null(self, test):
        elements = test.split("_")[1:]  # of lrange_100
        return self._new("null", [str(self.null_path), *elements], "listens on")

    def rest(self, servers):
        """Waits until no server has used a twentieth of a core for a while."""
        end, before = time.monotonic() + REST_SECONDS_MAX, [server.cpu_seconds() for server in servers]
        while time.monotonic() < end:
            select.select([], [], [], REST_LOOK_SECONDS)
            now = [server.cpu_seconds() for server in servers]
            if max(b - a for a, b in zip(before, now)) <= REST_LOOK_SECONDS / 20:
                return
            before = now

    def drop(self, *servers):
        for server in servers:
            server.kill()
            self.servers.remove(server)
            shutil.rmtree(server.dir, ignore_errors=True)

    def figure(self, name, value, unit="x", note=""):
        wish = ""
        if name in WANTED:
            wish = f"  (wanted >= {WANTED[name]}{'' if value >= WANTED[name] else ', MISSED'})"
        elif name in AT_MOST:
            wish = f"  (wanted <= {AT_MOST[name]}{'' if value <= AT_MOST[name] else ', MISSED'})"
        print(f"bench server.{name} {value:.3f} {unit}", flush=True)
        self.results.append(f"  {name:<16} {value:8.3f} {unit}{wish}{'  ' + note if note else ''}")

    def absent(self, name, why):
        print(f"   server.{name}: {why}", flush=True)
        self.results.append(f"  {name:<16}  missing: {why}")

    # -- redis-benchmark --------------------------------------------------------------------------

    def benchmark(self, server, test, n, pipeline, threads=1):
        """Commands a second."""
        command = ["redis-benchmark", "-p", str(server.port), "-t", test, "-n", str(n), "-c", "50", "-d", "64",
                   "-r", "1000000", "-P", str(pipeline), "--csv"]
        if threads > 1:
            command += ["--threads", str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        rows = list(csv.reader(done.stdout.splitlines()))
        rate = [float(row[1]) for row in rows[1:] if len(row) > 1 and matches(row[0], test)]
        said = re.search(r"(ERR [^\n]*)", done.stdout + done.stderr)
        if said or not rate:
            raise Missing(said.group(1)[:60] if said else f"redis-benchmark: {done.stderr[-80:]}")
        return rate[-1]

    def prepare(self, server, test, n):
        if test in EMPTIED:
            server.ask("DEL", EMPTIED[test])
        if test in BEFORE and (test, server) not in self.prepared:
            count = max(n, 1000000) if test == "get" else n
            self.benchmark(server, BEFORE[test], count, 64)
            if test == "get":
                self.prepared.add((test, server))

    def speeds(self, tests, pipelines):
        ours, redis = self.terraced().start(), self.redis().start()
        for pipeline in pipelines:
            self.prepared = set()
            n = self.args.n or (60000 if pipeline == 1 else 1000000)
            cpu = {ours: 0.0, redis: 0.0}
            count = 0
            self.measured = 0.0  # of ours, LRANGE included
            begin = ours.cpu_seconds()
            for test in tests:
                count += self.speed(test, pipeline, n, ours, redis, cpu)
                if pipeline > 1 and test.startswith("lrange"):
                    self.speed(test, pipeline, n, ours, redis, cpu, threads=2)
            if pipeline == 1 and count:
                self.figure("cpu_p1", cpu[ours] / cpu[redis], "x",
                            f"{cpu[ours] / count * 1e6:.1f} us and {cpu[redis] / count * 1e6:.1f} us a command")
            if count:
                rest = ours.cpu_seconds() - begin - self.measured
                self.figure(f"cpu_rest_p{pipeline}", rest / count * 1e6, "us",
                            "a command, outside the measured runs: preparations, flush, compaction")
        self.drop(ours, redis)

    def speed(self, test, pipeline, n, ours, redis, cpu, threads=1):
        """One test at one depth; adds to cpu, returns how many commands each server ran."""
        name = f"{test}_p{pipeline}" + (f"_t{threads}" if threads > 1 else "")
        null = self.null(test).start()
        rates = {ours: [], redis: [], null: []}
        spent = {ours: 0.0, redis: 0.0, null: 0.0}
        size = max(n // ((10 if pipeline > 1 else 2) if test.startswith("lrange") else 1), 1000)
        try:
            for turn in range(self.args.rounds):
                for server in (ours, redis, null) if turn % 2 == 0 else (null, redis, ours):
                    if server is not null:
                        self.prepare(server, test, size)
                    memory_ready()
                    self.rest((ours, redis))
                    before = server.cpu_seconds()
                    rates[server].append(self.benchmark(server, test, size, pipeline, threads))
                    spent[server] += server.cpu_seconds() - before
                    self.measured += server.cpu_seconds() - before if server is ours else 0
        except Missing as missing:
            self.absent(name, str(missing))
            return 0
        finally:
            self.drop(null)
        self.speed_tell(name, size, rates, spent)
        if test.startswith("lrange"):
            return 0  # its preparation is inside redis-benchmark
        for server in cpu:
            cpu[server] += spent[server]
        return size * self.args.rounds

    def speed_tell(self, name, size, rates, spent):
        ours, redis, null = rates
        ratio, ceiling = (statistics.median(a / b for a, b in zip(rates[server], rates[redis]))
                          for server in (ours, null))
        each = [spent[server] / (size * self.args.rounds) * 1e6 for server in (ours, redis)]
        low = ", MISSED" if ratio < WANTED[name] else ""
        if low and ceiling < WANTED[name]:
            low = f", missed; the null server has {ceiling:.2f}"
        print(f"bench server.{name} {ratio:.3f} x", flush=True)
        print(f"bench server.{name}_ceiling {ceiling:.3f} x", flush=True)
        self.results.append(
            f"  {name:<16} {ratio:8.3f} x  (wanted >= {WANTED[name]}{low})  "
            f"{statistics.median(rates[ours]) / 1000:.0f}k and {statistics.median(rates[redis]) / 1000:.0f}k/s, "
            f"cpu {each[0]:.1f} and {each[1]:.1f} us, {ratio / ceiling:.2f} of the null server's")

    # -- the load generator -----------------------------------------------------------------------

    def load(self, server, mode, wait=True, **options):
        command = [str(self.load_path), str(server.port), mode, *(f"{k}={v}" for k, v in options.items())]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return self.loaded(process) if wait else process

    def loaded(self, process):
        out, errors = process.communicate(timeout=1200)
        if process.returncode:
            raise Missing(errors.strip().splitlines()[0][:70] if errors.strip() else "load_server failed")
        words = out.split()
        return {name: float(value) for name, value in zip(words[0::2], words[1::2])}

    def memory(self, name, kind, count):
        ours, redis = self.terraced().start(), self.redis().start()
        try:
            rss = []
            for server in (ours, redis):
                self.load(server, "fill", keys=count, value=64, type=kind, pipeline=32)
                rss.append(server.rss_at_rest())
            self.figure(name, rss[0] / rss[1], "x", f"{rss[0] / 2**20:.0f} and {rss[1] / 2**20:.0f} MiB, "
                        f"{rss[0] / count:.0f} and {rss[1] / count:.0f} bytes each")
        except Missing as missing:
            self.absent(name, str(missing))
        self.drop(ours, redis)

    def zipf(self):
        """Ten times hot-memory against everything hot; the same data and the same mix."""
        hot = self.args.hot_mib
        value = 256
        keys = 10 * hot * 2**20 // (value + 16)
        tiered, all_hot = self.terraced(f"{hot}mb").start(), self.terraced("12gb").start()
        for server in (tiered, all_hot):
            self.load(server, "fill", keys=keys, value=value, pipeline=32)
        for server in (tiered, all_hot):  # what the mix likes becomes hot
            self.load(server, "zipf", keys=keys, value=value, pipeline=4, seconds=10, seed=1)
        for pipeline, name in ((1, "zipf"), (16, "zipf_p16")):
            rates = []
            for turn in range(self.args.rounds):
                pair = {}
                for server in ((tiered, all_hot) if turn % 2 else (all_hot, tiered)):
                    pair[server] = self.load(server, "zipf", keys=keys, value=value, pipeline=pipeline,
                                             seconds=3, seed=1000 * turn + 7)["rate"]
                rates.append((pair[tiered], pair[all_hot]))
            ratio = statistics.median(a / b for a, b in rates)
            self.figure(name, ratio, "x", f"{rates[-1][0] / 1000:.0f}k and {rates[-1][1] / 1000:.0f}k/s, "
                        f"{keys} keys, hot-memory {hot} MiB")
        self.drop(tiered, all_hot)

    def cold_p99(self):
        """P99 of hot reads with another client on cold keys over the P99 without."""
        hot = self.args.hot_mib
        value = 256
        keys = 10 * hot * 2**20 // (value + 16)
        server = self.terraced(f"{hot}mb").start()
        self.load(server, "fill", keys=keys, value=value, pipeline=32)
        self.load(server, "random", keys=1000, seconds=1, conns=1)
        ratios, last = [], None
        for turn in range(max(5, self.args.rounds)):
            idle = self.load(server, "random", keys=1000, seconds=1.5, conns=1, seed=turn)
            cold = self.load(server, "cycle", wait=False, first=1000 + turn * (keys // 20), keys=keys - keys // 2,
                             seconds=2.5, conns=1, pipeline=16)
            busy = self.load(server, "random", keys=1000, seconds=1.5, conns=1, seed=turn)
            read = self.loaded(cold)
            ratios.append(busy["p99"] / max(idle["p99"], 1))
            last = (idle["p99"], busy["p99"], read["rate"])
        self.figure("cold_p99", statistics.median(ratios), "x",
                    f"last: {last[0]:.0f} us idle, {last[1]:.0f} us beside {last[2] / 1000:.0f}k cold reads/s")
        self.drop(server)

    def copy_wait(self):
        """The longest wait for a PONG while another client copies a hash of a million fields, over Redis's. Ours has a
        fiftieth of the data as hot-memory, so its growth is told as well."""
        ours, redis = self.terraced("16mb").start(), self.redis().start()
        worst, grown = {ours: [], redis: []}, []
        for server in (ours, redis):
            self.load(server, "fill", keys=1000000, value=64, type="hash", pipeline=32)
        for turn in range(self.args.rounds):
            for server in (ours, redis):
                self.rest((ours, redis))
                before = server.rss_bytes()
                waits, peak = self.pings_during(server, "COPY", "myhash", f"copy{turn}")
                worst[server].append(max(waits))
                grown += [peak - before] if server is ours else []
                server.ask("DEL", f"copy{turn}")
        ratio = statistics.median(a / b for a, b in zip(worst[ours], worst[redis]))
        self.figure("copy_wait", ratio, "x", f"{statistics.median(worst[ours]) * 1000:.1f} and "
                    f"{statistics.median(worst[redis]) * 1000:.0f} ms; ours grew by {max(grown) / 2**20:.0f} MiB")
        self.drop(ours, redis)

    def pings_during(self, server, *words):
        """How long each of them took, and the largest resident size meanwhile."""
        waits, peak = [], 0
        with socket.create_connection(("127.0.0.1", server.port)) as busy, \
                socket.create_connection(("127.0.0.1", server.port)) as link:
            busy.sendall((" ".join(words) + "\r\n").encode())
            while not select.select([busy], [], [], 0)[0]:
                begin = time.monotonic()
                link.sendall(b"PING\r\n")
                link.recv(100)
                waits.append(time.monotonic() - begin)
                peak = max(peak, server.rss_bytes())
            assert busy.recv(100) == b":1\r\n"
        return waits, peak

    def start(self):
        """From exec to the first PONG, after kill -9 with five million keys."""
        ours, redis = self.terraced(), self.redis()
        seconds = {}
        for server in (ours, redis):
            server.start()
            self.load(server, "fill", keys=self.args.start_keys, value=64, pipeline=32)
            if server is redis:  # as auto-aof-rewrite would leave it: the faster file to load
                redis.ask("BGREWRITEAOF")
                while b"aof_rewrite_in_progress:0" not in redis.ask("INFO", "persistence"):
                    select.select([], [], [], 0.2)
            server.kill()
            times = []
            for _ in range(self.args.rounds):
                times.append(self.first_pong(server))
                server.kill()
            seconds[server] = statistics.median(times)
        self.figure("start", seconds[ours] / seconds[redis], "x",
                    f"{seconds[ours] * 1000:.0f} and {seconds[redis] * 1000:.0f} ms")
        self.drop(ours, redis)

    def first_pong(self, server):
        begin = time.monotonic()
        server.start(wait=False)
        while time.monotonic() < begin + START_SECONDS:
            try:
                if server.ask("PING") == b"+PONG\r\n":
                    return time.monotonic() - begin
            except OSError:
                pass
            if server.process.poll() is not None:
                raise RuntimeError(f"{server.name} ended: {(server.dir / 'stderr').read_text()[-500:]}")
            select.select([], [], [], 0.001)
        raise RuntimeError(f"{server.name} did not answer")


def matches(title, test):
    """Whether a row of redis-benchmark is the test, not its preparation."""
    title = title.lower()
    return title.startswith(test) and "needed to" not in title


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--terraced", help="another program than the build's")
    parser.add_argument("--only", default="", help=f"some of: {' '.join(TESTS + FIGURES)}")
    parser.add_argument("--p", default="1,16", help="pipeline depths")
    parser.add_argument("--n", type=int, help="requests a run; 60000 at depth 1, 1000000 else; LRANGE a half and a tenth")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hot-mib", type=int, default=64, help="hot-memory of zipf and cold_p99")
    parser.add_argument("--start-keys", type=int, default=5000000)
    parser.add_argument("--tmp", help="where the data directories go")
    parser.add_argument("--option", action="append", default=[], help="more for terraced, as --option=--x")
    args = parser.parse_args()
    chosen = [word for word in args.only.split(",") if word] or TESTS + FIGURES
    unknown = [word for word in chosen if word not in TESTS + FIGURES + ["cpu_p1"]]
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    if "cpu_p1" in chosen:
        chosen += [test for test in TESTS if test not in chosen]
    bench = Bench(args)
    try:
        tests = [test for test in TESTS if test in chosen]
        if tests:
            bench.speeds(tests, [int(p) for p in args.p.split(",")])
        if "mem_keys" in chosen:
            bench.memory("mem_keys", "string", 2000000)
        for name in ("hash", "zset"):
            if f"mem_{name}" in chosen:
                bench.memory(f"mem_{name}", name, 1000000)
        for name in ("copy_wait", "zipf", "cold_p99", "start"):
            if name in chosen:
                getattr(bench, name)()
    finally:
        bench.close()
    print("\n== ours over Redis's")
    print("\n".join(bench.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
