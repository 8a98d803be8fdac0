#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long other clients wait for one command on a large key that is hot.

    tools/bench_wait.py                       keys of 500,000 elements, strings of 64 MB: some minutes
    tools/bench_wait.py --n 50000 --only spop,zpopmin

A client in another process sends PING all the time. `wait` is the longest time between a PING and its reply while the
command ran. `cpu` is the longest processor time of the executor in between: on a machine that others use as well, the
rest of `wait` is theirs. One line a figure: bench wait.NAME CPU ms; then a table, the longest first. Wanted: 50 ms.

The calls are those of tools/bench_cold.py, and those of this file: many keys, many arguments, many that go.
"""
import argparse
import multiprocessing
import pathlib
import shutil
import socket
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bench_cold  # noqa: E402
import bench_server  # noqa: E402
from bench_cold import Call, member  # noqa: E402

WANTED_MS = 50.0


def calls_many(n):
    """Commands with as many arguments as a key has elements, or half of them."""
    names = [member(i) for i in range(n)]
    half = names[::2]
    pairs = [word for name in half for word in (name, "v")]
    scored = [word for i, name in enumerate(half) for word in (str(n - i), name)]
    new = [f"n:{name}" for name in half]
    keys = [f"k:{name}" for name in half]
    for words, key in ((["SMISMEMBER", "set", *names], "set"), (["HMGET", "hash", *names], "hash"),
                       (["ZMSCORE", "zset", *names], "zset")):
        yield Call(words, key)
    for words, key in ((["SADD", "work", *new], "set"), (["SREM", "work", *half], "set"), (["HSET", "work", *pairs], "hash"),
                       (["HDEL", "work", *half], "hash"), (["ZADD", "work", *scored], "zset"), (["ZREM", "work", *half], "zset"),
                       (["RPUSH", "work", *new], "list"), (["LPUSH", "work", *new], "list"),
                       (["SET", "work", b"x" * (64 << 20)], "string"), (["APPEND", "work", b"x" * (64 << 20)], "string"),
                       (["SETRANGE", "work", str(100 << 20), b"x" * (64 << 20)], "string"),
                       (["SETRANGE", "work", str(500 << 20), b"x"], "string"), (["SETBIT", "work", str(4000 << 20), "1"], "string"),
                       (["LREM", "work", "0", "equal"], "equal"), (["LINSERT", "work", "BEFORE", member(n // 2), "x"], "list"),
                       (["LTRIM", "work", str(n // 8), "-1"], "list"), (["LPOP", "work", str(n // 2 - 1)], "list"),
                       (["LTRIM", "work", str(n // 2 - 10), "-1"], "list"), (["SPOP", "work", str(n // 2)], "set"),
                       (["ZREMRANGEBYRANK", "work", "0", str(n // 8)], "zset"), (["ZPOPMIN", "work", str(n // 8)], "zset")):
        yield Call(words, key, fresh=True)
    for words in (["MGET", *keys], ["EXISTS", *keys], ["TOUCH", *keys], ["MSET", *(w for key in keys for w in (key, "v"))],
                  ["DEL", *keys], ["UNLINK", *keys], ["KEYS", "*"], ["SORT", "few", "BY", "k:*", "GET", "k:*"], ["FLUSHDB"],
                  ["SWAPDB", "1", "3"]):
        yield Call(words, "keys", db=1)
    yield Call(["MGET", *["string"] * 8], "string", name="mget_large")
    yield Call(["SUNION", "set", "set2", "set", "set2"], "set", "set2")
    yield Call(["ZUNION", "2", "zset", "zset2", "WITHSCORES"], "zset", "zset2")
    yield Call(["SORT", "list", "BY", "none:*", "GET", "#", "ALPHA"], "list")


bench_cold.FILL["equal"] = lambda link, n: bench_cold.fill_many(
    link, n, "RPUSH", "equal", lambda i: ("equal" if i % 2 else member(i),), range(n))
bench_cold.NEEDS_ALL["equal"] = ["LRANGE", "equal", 0, -1]


def ping(port, pid, shared):
    """Sends PING all the time; shared: stopped, the longest wait, the longest processor time."""
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with open(f"/proc/{pid}/task/{pid}/schedstat", "rb", buffering=0) as used:
        def cpu():
            used.seek(0)
            return int(used.read(64).split()[0]) / 1e6

        while not shared[0]:
            cpu_before, begin = cpu(), time.monotonic()
            link.sendall(b"PING\r\n")
            link.recv(64)
            took, cpu_after = (time.monotonic() - begin) * 1000, cpu()
            shared[1] = max(shared[1], took)
            shared[2] = max(shared[2], cpu_after - cpu_before)
            time.sleep(0.0005)


def measure(bench, call, shared):
    bench.prepare(call, True)
    time.sleep(0.2)  # what the copy has left to do
    shared[1] = shared[2] = 0.0
    took, _ = bench.run(call.words, call.db)
    time.sleep(0.05)  # what comes behind the reply is waited for as well
    return took, shared[1], shared[2]


def refill(bench, call):
    """Some calls change keys that have no copy."""
    if call.db == 1 and call.command in ("MSET", "DEL", "UNLINK", "FLUSHDB", "SWAPDB"):
        bench_cold.fill_keys(bench.link, bench.n)


def run(args, top):
    command = [str((args.build / "terraced").resolve()), "--port", str(bench_server.free_port()), "--dir", "data",
               "--hot-memory", "4gb", "--maxmemory-clients", "4gb"]
    server = bench_server.Server("terraced", command, "stop ", top).start()
    only = {name for name in args.only.upper().split(",") if name}
    shared = multiprocessing.Array("d", 3)
    pinger = multiprocessing.Process(target=ping, args=(server.port, server.process.pid, shared), daemon=True)
    rows = []
    try:
        chosen = [call for call in [*bench_cold.calls(args.n), *calls_many(args.n)] if not only or call.command in only]
        bench = bench_cold.Bench(server.port, args.n, chosen, 120)
        pinger.start()
        for call in chosen:
            took, wait, cpu = min((measure(bench, call, shared) for _ in range(1 if call.db else args.rounds)), key=lambda m: m[2])
            refill(bench, call)
            text = " ".join(str(word)[:20] for word in call.words[:6]) + (" ..." if len(call.words) > 6 else "")
            late = "MISSED" if cpu > WANTED_MS else ""
            print(f"bench wait.{call.name} {cpu:.1f} ms {late} {text}".rstrip(), flush=True)
            rows.append((cpu, f"| {text} | {took:.0f} | {wait:.0f} | {cpu:.0f} | {late} |"))
        shared[0] = 1
        pinger.join()
        bench.close()
    finally:
        server.kill()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--n", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many is taken")
    parser.add_argument("--only", default="", help="commands, separated by commas")
    parser.add_argument("--tmp", default=None)
    args = parser.parse_args()
    top = pathlib.Path(tempfile.mkdtemp(prefix="bench-wait-", dir=args.tmp))
    try:
        rows = run(args, top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print("\n| command | took ms | others waited ms | of it processor ms | |")
    print("|---|---:|---:|---:|---|")
    for _, row in sorted(rows, key=lambda one: -one[0]):
        print(row)
    print(f"bench wait.missed {sum(cpu > WANTED_MS for cpu, _ in rows)} commands")


if __name__ == "__main__":
    main()
