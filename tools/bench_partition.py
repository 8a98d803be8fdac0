#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Partitions on a running server: what PART.DONE costs, cycles a second, and many of them.

  done_cost     CPU of the executor for a PART.DONE, packing included, by that of HSET + HDEL of the same records
  cycle_kps     CLAIM + START + DONE, pipelined on one connection, a second of the executor's CPU
  cycle_last    the same for the last tenth, by the first tenth
  archive_*     records of the realistic kind (bench_partition frames) come in by PART.ARCHIVE IMPORT: bytes on disk
  scan_mrows    PART.LIST by one worker of fifty over them, all pages: records passed a second of the executor's CPU
  scan_*_mrows  the same by other filters

PART_N: how many cycles, and how many realistic records; 1,000,000 unless said otherwise. PART_ONLY: done, cycles or
realistic, to run one of the three.
"""
import argparse
import json
import os
import pathlib
import socket
import struct
import subprocess

import tempfile
import time

DEPTH = 100
HOT_MB = 256

def line(name, value, unit):
    print(f"bench partition.{name} {value:.3f} {unit}", flush=True)

def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

class Server:
    def __init__(self, build, directory, *args):
        self.process = subprocess.Popen(
            [f"{build}/terraced", "--port", "0", "--dir", str(directory), "--hot-memory",
             f"{HOT_MB}mb", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        text = b""
        while b"stop " not in text:
            text += os.read(self.process.stdout.fileno(), 65536)
        self.port = int(text.split(b"listens on 127.0.0.1:")[1].split()[0])
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 20)

    def cpu_ns(self):
        """Of the executor, which is the first thread."""
        pid = self.process.pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])

    def rss_mb(self):
        for text in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if text.startswith("VmRSS"):
                return int(text.split()[1]) / 1024
        return 0

    def reply(self):
        kind = self.file.readline()
        if kind[:1] == b"-":
            raise RuntimeError(kind.decode())
        if kind[:1] == b"$":
            size = int(kind[1:])
            return self.file.read(size + 2)[:-2] if size >= 0 else None
        if kind[:1] == b"*":
            return [self.reply() for _ in range(int(kind[1:]))]
        return kind[1:].strip()

    def ask(self, *words):
        self.socket.sendall(command(*words))
        return self.reply()

    def play(self, commands):
        """Batches of commands, each sent at once; returns the executor's CPU."""
        start = self.cpu_ns()
        for at in range(0, len(commands), DEPTH):
            batch = commands[at:at + DEPTH]
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.reply()
        return self.cpu_ns() - start

    def stop(self):
        self.process.terminate()
        self.process.wait()

def status(server, job):
    flat = server.ask("PART.ARCHIVE", job, "STATUS")
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}

def bench_done(build, count=100000):
    """Both in turns, several times, on one server: the machine is as busy for one as for the other."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(build, directory, "--part-simple-max", "2000")
        ratios, done_us, hash_us = [], [], []
        rounds = 5
        each = count // rounds
        for n in range(rounds):
            server.ask("PART.ALLOC", "job", (n + 1) * each * 1000, "SIZE", 1000)
            records = []
            while len(records) < each:
                records += server.ask("PART.CLAIM", "job", f"w{n}", "COUNT", 10000)
            ids = [json.loads(record)["partition_id"] for record in records]
            server.play([command("PART.START", "job", f"w{n}", i) for i in ids])
            server.play([command("HSET", "active", i, r) for i, r in zip(ids, records)])
            done = server.play([command("PART.DONE", "job", f"w{n}", i, "DURATION", 250000)
                                for i in ids])
            moved = server.play([c for i, r in zip(ids, records)
                                 for c in (command("HSET", "done", i, r),
                                           command("HDEL", "active", i))])
            done_us.append(done / each / 1000)
            hash_us.append(moved / each / 1000)
            ratios.append(done / moved)
        server.stop()
    middle = rounds // 2
    line("done_us", sorted(done_us)[middle], "us CPU")
    line("hset_hdel_us", sorted(hash_us)[middle], "us CPU")
    line("done_cost", sorted(ratios)[middle], "x")

def cycles(first, count):
    out = []
    for i in range(first, first + count):
        worker = f"w{i % 50}"
        out.append(command("PART.CLAIM", "job", worker))
        out.append(command("PART.START", "job", worker, i))
        out.append(command("PART.DONE", "job", worker, i, "DURATION", 250000 + i % 997 * 100))
    return out

def bench_cycles(build, total):
    with tempfile.TemporaryDirectory() as directory:
        server = Server(build, directory)
        step = max(total // 100, 1000)
        rates, rss = [], 0
        begin = time.monotonic()
        for first in range(1, total + 1, step):
            server.ask("PART.ALLOC", "job", (first + step - 1) * 1000, "SIZE", 1000)
            cpu = server.play(cycles(first, step))
            rates.append(step / (cpu / 1e9) / 1000)
            rss = max(rss, server.rss_mb())
        wall = time.monotonic() - begin
        tenth = max(len(rates) // 10, 1)
        median = sorted(rates)[len(rates) // 2]
        line("cycle_kps", median, "thousand/s of one core")
        line("cycle_wall_kps", total / wall / 1000, "thousand/s")
        line("cycle_last", sum(rates[-tenth:]) / sum(rates[:tenth]), "x")
        line("cycle_rss", rss, f"MB, hot-memory {HOT_MB} MB")
        while int(status(server, "job")["simple"]) >= 1000 and total > 100000:
            time.sleep(0.1)
        problems = server.ask("PART.ARCHIVE", "job", "VERIFY")
        assert problems[5] == [], problems
        assert server.ask("PART.GAPS", "job") == []
        server.stop()

def bench_realistic(build, total):
    with tempfile.TemporaryDirectory() as directory:
        server = Server(build, pathlib.Path(directory) / "data", "--part-simple-max", "1000")
        frames = subprocess.Popen([f"{build}/bench_partition", "frames", str(total)],
                                  stdout=subprocess.PIPE)
        count, rss = 0, 0
        while True:
            size = frames.stdout.read(4)
            if not size:
                break
            frame = frames.stdout.read(struct.unpack("<I", size)[0])
            count += int(server.ask("PART.ARCHIVE", "job", "IMPORT", frame))
            rss = max(rss, server.rss_mb())
        assert frames.wait() == 0 and count == total
        server.ask("PART.ARCHIVE", "job", "COMPACT")
        now = status(server, "job")
        line("archive_records", int(now["packed"]), "records")
        line("archive_bytes", int(now["bytes"]) / total, "B a record")
        line("archive_mb", int(now["bytes"]) / 1e6, "MB of frames")
        line("archive_rss", rss, f"MB, hot-memory {HOT_MB} MB")
        server.ask("SAVE")
        info = server.ask("INFO", "tiers").decode()
        disk = [int(t.split(":")[1]) for t in info.splitlines() if t.startswith("engine_disk_bytes")]
        line("archive_engine_mb", disk[0] / 1e6, "MB of the engine, as it is")
        bench_scan(server, total)
        server.stop()

def bench_scan(server, total):
    """Each filter five times, the best counts: other processes take caches and clock of the machine."""
    last = 10 ** 15
    server.ask("PART.ADD", "job", last, 0, 0)
    server.ask("PART.CLAIM", "job", "rare", "ID", last)
    server.ask("PART.DONE", "job", "rare", last)
    server.ask("PART.ARCHIVE", "job", "COMPACT")
    filters = (("", ("WORKER", "worker-7", "COUNT", 10000)),
               ("_page", ("WORKER", "worker-7", "COUNT", 100)),
               ("_rare", ("WORKER", "rare", "COUNT", 100)),
               ("_updated", ("UPDATED", 1, 2, "COUNT", 100)))
    for name, words in filters:
        rates = []
        for _ in range(5):
            start = server.cpu_ns()
            found, cursor, pages = 0, b"0", 0
            while pages == 0 or cursor != b"0":
                cursor, page = server.ask("PART.LIST", "job", "STATUS", "completed", *words,
                                          "CURSOR", cursor)
                found += len(page)
                pages += 1
            rates.append(total / (server.cpu_ns() - start) * 1e3)
        line(f"scan{name}_mrows", max(rates),
             f"million records/s of one core, {found} shown in {pages} pages")

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    build = parser.parse_args().build
    total = int(os.environ.get("PART_N", 1000000))
    only = os.environ.get("PART_ONLY", "")
    if only in ("", "done"):
        bench_done(build)
    if only in ("", "cycles"):
        bench_cycles(build, total)
    if only in ("", "realistic"):
        bench_realistic(build, total)

if __name__ == "__main__":
    main()
