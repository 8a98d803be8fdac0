#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the file system's metadata costs.

    tools/bench_fs.py                                everything: about five minutes
    FS_FILES=1000000 tools/bench_fs.py               the large trees shorter than ten million files
    tools/bench_fs.py --only create,stat --rounds 15

One line a figure: bench fs.NAME VALUE UNIT. Rates are of the executor's CPU, not of a clock on the wall: other work on the
machine counts less. Ratios are medians over rounds that take turns in one server.

  create_*       FS.CREATE in a directory of depth 1 over HSET of a new field of one hash, 64-byte values; p16: one
                 connection with a pipeline of 16, c50: 50 connections without
  stat_*         FS.STAT of a path of 4 components over GET; 300 thousand of each, at random
  create_scale_* FS.CREATE at FS_FILES files over FS.CREATE at the first ten thousand, in one directory, and in a tree of
                 directories with 1000 entries
  memory_bytes   of the hot tier, and disk_bytes of the engine after a flush, a file with a name of nine digits
  rm_us          of the executor for FS.RM RECURSIVE of all that; sweep_kps: thousand files a second until no row is left
  ls_kps         thousand entries a second of FS.LS, pages of 1000
  du_seconds     FS.DU of all files, cold: a flush, and a view that is read; check_seconds: FS.CHECK
"""
import argparse
import os
import pathlib
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

FIGURES = ["create", "stat", "ls", "scale_dir", "scale_tree"]
AT_LEAST = {"create_p16": 0.5, "create_c50": 0.5, "stat_p16": 0.4, "stat_c50": 0.4, "create_scale_dir": 0.5,
            "create_scale_tree": 0.5, "ls_kps": 1000}
AT_MOST = {"rm_us": 1000, "disk_bytes": 150}
FILES = int(os.environ.get("FS_FILES", "10000000"))
VALUE = "x" * 64
SHAPES = {"p16": ("conns=1", "pipeline=16"), "c50": ("conns=50", "pipeline=1")}


class Bench:
    def __init__(self, args):
        self.args = args
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="bench-fs-", dir=args.tmp))
        self.loader = self.top / "load_fs"
        subprocess.run(["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", self.loader,
                        ROOT / "tests" / "bench" / "load_fs.c"], check=True)
        self.server = None

    def close(self):
        if self.server:
            self.server.kill()
        shutil.rmtree(self.top, ignore_errors=True)

    def start(self, hot_memory="2gb"):
        if self.server:
            self.server.kill()
            shutil.rmtree(self.server.dir)
        directory = self.top / "server"
        directory.mkdir()
        path = (self.args.build / "terraced").resolve()
        command = [str(path), "--port", str(bench_server.free_port()), "--dir", "data", "--hot-memory", hot_memory]
        self.server = bench_server.Server("terraced", command, "stop ", directory)
        self.server.start()
        self.client = redis.Redis(port=self.server.port, decode_responses=True, socket_timeout=3600)

    def cpu_ns(self):
        """Of the executor, which is the first thread."""
        pid = self.server.process.pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])

    def load(self, shape, count, *words, first=0, span=1):
        """Nanoseconds of the executor a command."""
        before = self.cpu_ns()
        done = subprocess.run([self.loader, str(self.server.port), *SHAPES[shape], f"count={count}", f"first={first}",
                               f"range={span}", *words], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("errors 0\n"), done
        return (self.cpu_ns() - before) / count

    def figure(self, name, value, unit, note="", digits=2):
        wish = ""
        if name in AT_LEAST:
            wish = f" (wanted >= {AT_LEAST[name]}{'' if value >= AT_LEAST[name] else ', MISSED'})"
        if name in AT_MOST:
            wish = f" (wanted <= {AT_MOST[name]}{'' if value <= AT_MOST[name] else ', MISSED'})"
        print(f"   {name}: {note}{wish}")
        print(f"bench fs.{name} {value:.{digits}f} {unit}", flush=True)

    def ratio(self, name, theirs, ours):
        """Both in turns; how many times theirs takes, and what ours takes."""
        rounds = [(theirs(i), ours(i)) for i in range(self.args.rounds)]
        median = statistics.median(one / other for one, other in rounds)
        cost = statistics.median(other for _, other in rounds)
        base = statistics.median(one for one, _ in rounds)
        self.figure(name, median, "x", f"{cost:.0f} ns, against {base:.0f} ns of the executor")

    def create(self):
        for shape, count in ("p16", 100000), ("c50", 50000):
            self.start()
            self.client.execute_command("FS.MKDIR", "/d")
            self.ratio(f"create_{shape}",
                       lambda i: self.load(shape, count, "HSET", "bench", "field:%n", VALUE, first=i * count),
                       lambda i: self.load(shape, count, "FS.CREATE", "/d/%n", first=i * count))

    def stat(self):
        self.start()
        files = 300000
        self.client.execute_command("FS.MKDIR", "/one/two/three", "PARENTS")
        self.load("p16", files, "FS.CREATE", "/one/two/three/%n")
        self.load("p16", files, "SET", "bench:%n", VALUE)
        for shape, count in ("p16", 200000), ("c50", 50000):
            self.ratio(f"stat_{shape}", lambda i: self.load(shape, count, "GET", "bench:%r", span=files),
                       lambda i: self.load(shape, count, "FS.STAT", "/one/two/three/%r", span=files))

    def ls(self):
        self.start()
        files = 300000
        self.client.execute_command("FS.MKDIR", "/d")
        self.load("p16", files, "FS.CREATE", "/d/%n")
        costs = [self.load("p16", 2000, "FS.LS", "/d", "FROM", "%r", "COUNT", "1000", span=files - 1000)
                 for _ in range(self.args.rounds)]
        cost = statistics.median(costs)
        self.figure("ls_kps", 1e9 / cost, "kps", f"{cost / 1000:.0f} ns of the executor an entry", 0)

    def scale(self, name, path):
        self.start("6gb")
        step = 10000
        self.client.execute_command("FS.MKDIR", "/d")
        if "%d" in path:
            self.load("p16", FILES // 1000 + 100, "FS.MKDIR", "/d/%n")
        dirs_bytes = self.client.info("tiers")["hot_bytes"]
        self.load("p16", step, "FS.CREATE", path)  # the first are those of a cold processor
        small = statistics.median(self.load("p16", step, "FS.CREATE", path, first=step * (i + 1)) for i in range(5))
        done, began = 6 * step, time.monotonic()
        self.load("p16", FILES - done - 5 * step, "FS.CREATE", path, first=done)
        took = time.monotonic() - began
        large = statistics.median(self.load("p16", step, "FS.CREATE", path, first=FILES - step * (i + 1))
                                  for i in range(5))
        self.figure(f"create_scale_{name}", small / large, "x",
                    f"{large:.0f} ns at {FILES} files, {small:.0f} ns at the first; {FILES / took:.0f}/s on the wall")
        tiers = self.client.info("tiers")
        note = f"{tiers['hot_bytes'] >> 20} MiB hot of 6 GiB, {tiers['evicted_rows']} rows evicted"
        if tiers["evicted_rows"] == 0:
            self.figure(f"memory_bytes_{name}", (tiers["hot_bytes"] - dirs_bytes) / FILES, "B", note, 0)
        self.client.execute_command("SAVE")
        disk = self.client.info("tiers")["engine_disk_bytes"] / FILES
        self.figure("disk_bytes" if name == "dir" else "disk_bytes_tree", disk, "B", "after SAVE", 0)
        self.whole_tree(name)

    def whole_tree(self, name):
        suffix = "" if name == "dir" else "_tree"
        for word in "DU", "CHECK":
            began = time.monotonic()
            told = self.client.execute_command("FS." + word, *(["/"] if word == "DU" else []))
            assert told[told.index("files") + 1] == FILES, told
            self.figure(f"{word.lower()}_seconds{suffix}", time.monotonic() - began, "s", f"{FILES} files")
        self.client.execute_command("CONFIG", "RESETSTAT")
        self.client.execute_command("FS.RM", "/d", "RECURSIVE")
        usec = self.client.info("commandstats")["cmdstat_fs.rm"]["usec"]
        self.figure(f"rm_us{suffix}", usec, "us", f"FS.RM RECURSIVE of {FILES} files", 0)
        began = time.monotonic()
        while self.client.info("fs")["fs_graves"] > 0:
            time.sleep(0.1)
        self.figure(f"sweep_kps{suffix}", FILES / 1000 / (time.monotonic() - began), "kps", "files removed in the background", 0)

    def scale_dir(self):
        self.scale("dir", "/d/%n")

    def scale_tree(self):
        self.scale("tree", "/d/%d/%n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--tmp", default=None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(FIGURES))
    bench = Bench(parser.parse_args())
    try:
        for name in bench.args.only.split(","):
            getattr(bench, name)()
    finally:
        bench.close()


if __name__ == "__main__":
    main()
