#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every command costs on a key that is cold: time, loads and undos, beside the same command on a hot one.

    tools/bench_cold.py                       keys of 500,000 elements: about ten minutes
    tools/bench_cold.py --n 50000 --only spop,zpopmin
    tools/bench_cold.py --hot-memory 1mb      everything is larger than memory
    tools/bench_cold.py --waits               and how long others waited at most, beside a client that sends PING

One line a figure: bench cold.NAME VALUE UNIT; then a table. DEBUG RELOAD makes everything cold. A command that changes
its key has a fresh copy, hot and cold. `load` is one sequential load of what the command may read: a command that needs
all of a key, cold, less the same one hot. Wanted: cold <= 3 x (hot + load), undos <= 3 + pages / window, where a page has
256 rows and a window has 32 pages. A command that is cold runs once to find out, and once for every window.
"""
import argparse
import math
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import bench_server  # noqa: E402

PAGE_ROWS = 256
KEYS_A_STEP = 1024
WINDOW_PAGES = 32
UNDOS_FREE = 3
TIMES = 3
NOISE_MS = 20  # of two cores that others use as well
CHUNK_BYTES = 4096
END = b"the end of the reply"
GROUPS = ("string", "bitmap", "hash", "list", "set", "zset", "generic", "sort")  # src/server/commands/*.def


class Call:
    """One command as it is measured: its words; the keys whose rows it may need; whether it changes `work`, a copy of
    the first of them."""

    def __init__(self, text, *reads, name=None, fresh=False, db=0):
        self.words = text if isinstance(text, list) else text.split()
        self.reads, self.fresh, self.db = reads, fresh, db
        self.command = self.words[0].upper()
        self.name = name or "_".join(word.lower() for word in self.words[:1])


def string_bytes(n):
    """64 MB where other keys have 500,000 elements."""
    return n // 32 * CHUNK_BYTES


def member(i):
    return f"m:{i:07d}"


def some(n, count):
    return [member(i) for i in range(0, n, n // count)][:count]


def calls_string(n):
    half = string_bytes(n) // 2
    for text in ("STRLEN string", "GET string", f"GETRANGE string 0 {half}", f"SUBSTR string {half} -1",
                 f"GETRANGE string {half} {half + 10}", "GETEX string", "MGET string string2", f"GETBIT string {half}",
                 "BITCOUNT string", f"BITCOUNT string {half} -1", "BITPOS string 0", f"BITFIELD_RO string GET u32 {half}",
                 "LCS small number"):
        yield Call(text, "string", "string2")
    for text in ("APPEND work x", f"SETRANGE work {half} xyz", f"SETBIT work {half} 1", f"BITFIELD work SET u32 {half} 7",
                 "BITOP NOT target work", "BITOP AND target work string2", "BITOP OR target work string2",
                 "BITOP XOR target work string2", "SET work x GET", "GETSET work x", "GETDEL work", "SET work x",
                 "SETEX work 100 x", "PSETEX work 100000 x", "SETNX work x", "MSET work x other y", "MSETNX work x other y"):
        yield Call(text, "string", "string2", fresh=True)
    for text in ("INCR number", "DECR number", "INCRBY number 2", "DECRBY number 2", "INCRBYFLOAT number 1.5"):
        yield Call(text)


def calls_hash(n):
    fields = some(n, 1000)
    pairs = [word for field in fields for word in (field, "v")]
    for words in ("HLEN hash", f"HGET hash {member(n // 2)}", f"HEXISTS hash {member(n // 2)}",
                  f"HSTRLEN hash {member(n // 2)}", ["HMGET", "hash", *fields], "HGETALL hash", "HKEYS hash", "HVALS hash",
                  "HRANDFIELD hash", f"HRANDFIELD hash {n // 5} WITHVALUES", f"HRANDFIELD hash -{n // 5}",
                  f"HRANDFIELD hash {n}", "HSCAN hash 0", f"HSCAN hash 0 COUNT {n // 2}", f"HSCAN hash 0 MATCH x COUNT {n}"):
        yield Call(words, "hash")
    for words in (["HSET", "work", *pairs], ["HMSET", "work", *pairs], f"HSETNX work {member(1)} v", f"HSETNX work new v",
                  f"HINCRBY work {member(1)} 1", f"HINCRBYFLOAT work {member(1)} 1.5", ["HDEL", "work", *fields]):
        yield Call(words, "hash", fresh=True)


def calls_list(n):
    for text in ("LLEN list", f"LINDEX list {n // 2}", f"LPOS list {member(n - 1)}", f"LPOS list {member(0)} RANK -1",
                 f"LPOS list none COUNT 0", "LRANGE list 0 -1", f"LRANGE list {n // 4} {n // 2}", "SORT list ALPHA LIMIT 0 10",
                 "SORT_RO list ALPHA LIMIT 0 10", "SORT list BY nosort", "SORT list ALPHA STORE target",
                 f"SORT list BY nosort GET # LIMIT {n // 2} {n // 4}"):
        yield Call(text, "list")
    for text in ("LPUSH work x", "RPUSH work x", "LPUSHX work x", "RPUSHX work x", f"LSET work {n // 2} x",
                 f"LINSERT work BEFORE {member(n // 2)} x", f"LINSERT work AFTER {member(n - 2)} x", f"LREM work 0 {member(n // 2)}",
                 f"LREM work -1 {member(n // 4)}", "LREM work 0 none", f"LTRIM work {n // 4} {n // 2}", f"LTRIM work {n // 4} -1",
                 f"LPOP work {n // 5}", f"RPOP work {n // 5}", f"LMPOP 1 work LEFT COUNT {n // 5}",
                 f"BLMPOP 1 1 work RIGHT COUNT {n // 5}", "BLPOP work 1", "BRPOP work 1", "LMOVE work other LEFT RIGHT",
                 "RPOPLPUSH work work", "BLMOVE work work LEFT RIGHT 1", "BRPOPLPUSH work other 1"):
        yield Call(text, "list", fresh=True)


def calls_set(n):
    names = some(n, 1000)
    for words in ("SCARD set", f"SISMEMBER set {member(n // 2)}", ["SMISMEMBER", "set", *names], "SMEMBERS set",
                  "SRANDMEMBER set", f"SRANDMEMBER set {n // 5}", f"SRANDMEMBER set -{n // 5}", f"SRANDMEMBER set {n}",
                  "SSCAN set 0", f"SSCAN set 0 COUNT {n // 2}", "SORT set ALPHA LIMIT 0 10", "SORT set BY nosort",
                  f"SORT set BY nosort LIMIT {n // 2} {n // 4}", "SORT set ALPHA STORE target"):
        yield Call(words, "set")
    for text in ("SUNION set set2", "SINTER set set2", "SDIFF set set2", "SINTERCARD 2 set set2",
                 "SUNIONSTORE target set set2", "SINTERSTORE target set set2", "SDIFFSTORE target set set2",
                 "SINTER set few", "SDIFF few set", "SINTERCARD 2 few set", "SINTERSTORE target few set",
                 "SDIFFSTORE target few set", "SUNION few set"):
        yield Call(text, "set", "set2")
    for words in (["SADD", "work", *names], "SADD work new", ["SREM", "work", *names], f"SMOVE work set2 {member(1)}",
                  "SPOP work", f"SPOP work {n // 500}", f"SPOP work {n // 5}", f"SPOP work {n - 1}", f"SPOP work {n}"):
        yield Call(words, "set", fresh=True)


def calls_zset_read(n):
    names, mid = some(n, 1000), n // 2
    for words in ("ZCARD zset", f"ZSCORE zset {member(mid)}", ["ZMSCORE", "zset", *names], f"ZRANK zset {member(mid)}",
                  f"ZREVRANK zset {member(mid)}", "ZCOUNT zset -inf +inf", f"ZCOUNT zset {mid} +inf", "ZRANGE zset 0 -1",
                  f"ZRANGE zset {mid} {mid + 10}", f"ZRANGE zset {n // 4} {mid} WITHSCORES", "ZREVRANGE zset 0 -1",
                  f"ZREVRANGE zset {n // 4} {mid}", f"ZRANGEBYSCORE zset {n // 4} {mid}",
                  f"ZREVRANGEBYSCORE zset {mid} {n // 4}", f"ZRANGEBYSCORE zset 0 {n} LIMIT {mid} 10",
                  f"ZRANGE zset {mid} {n // 4} BYSCORE REV", "ZSCAN zset 0", f"ZSCAN zset 0 COUNT {mid}", "ZRANDMEMBER zset",
                  f"ZRANDMEMBER zset {n // 5}", f"ZRANDMEMBER zset -{n // 5} WITHSCORES", f"ZRANDMEMBER zset {n}",
                  "SORT zset ALPHA LIMIT 0 10", "SORT zset BY nosort", "SORT zset BY nosort DESC"):
        yield Call(words, "zset")
    for text in ("ZRANGEBYLEX lex - +", f"ZRANGEBYLEX lex [{member(n // 4)} [{member(mid)}", "ZLEXCOUNT lex - +",
                 f"ZREVRANGEBYLEX lex [{member(mid)} [{member(n // 4)}", f"ZRANGE lex [{member(mid)} + BYLEX LIMIT {n // 4} 10",
                 "ZLEXCOUNT zset - +", f"ZRANGEBYLEX zset [{member(n // 4)} +"):
        yield Call(text, "lex" if " lex " in text else "zset")
    for text in ("ZUNION 2 zset zset2", "ZINTER 2 zset zset2", "ZDIFF 2 zset zset2", "ZINTERCARD 2 zset zset2",
                 "ZINTER 2 zset few", "ZDIFF 2 few zset", "ZINTERCARD 2 few zset", "ZUNION 2 few zset",
                 "ZUNIONSTORE target 2 zset zset2", "ZINTERSTORE target 2 zset zset2", "ZDIFFSTORE target 2 zset zset2",
                 "ZINTERSTORE target 2 few zset", "ZDIFFSTORE target 2 few zset"):
        yield Call(text, "zset", "zset2")
    for text in ("ZRANGESTORE target zset 0 -1", f"ZRANGESTORE target zset {n // 4} {mid}",
                 f"ZRANGESTORE target zset {n // 4} {mid} BYSCORE", "ZRANGESTORE target lex - + BYLEX",
                 "ZRANGESTORE target zset - + BYLEX"):
        yield Call(text, "lex" if " lex " in text else "zset")


def calls_zset_write(n):
    names, mid = some(n, 1000), n // 2
    pairs = [word for name in names for word in ("1.5", name)]
    for words in (["ZADD", "work", *pairs], "ZADD work 1 new", f"ZINCRBY work 2 {member(mid)}", ["ZREM", "work", *names],
                  f"ZPOPMIN work", f"ZPOPMIN work {n // 5}", f"ZPOPMAX work {n // 5}", f"ZPOPMIN work {n - 1}",
                  f"ZMPOP 1 work MIN COUNT {n // 5}", f"BZMPOP 1 1 work MAX COUNT {n // 5}", "BZPOPMIN work 1", "BZPOPMAX work 1",
                  f"ZREMRANGEBYRANK work 0 {mid}", f"ZREMRANGEBYRANK work {n // 4} {n - n // 4}",
                  f"ZREMRANGEBYRANK work {mid} -1", f"ZREMRANGEBYSCORE work {n // 4} {n - n // 4}",
                  f"ZREMRANGEBYSCORE work -inf {mid}", "ZREMRANGEBYSCORE work -inf +inf"):
        yield Call(words, "zset", fresh=True)
    for text in (f"ZREMRANGEBYLEX work [{member(n // 4)} [{member(mid)}", "ZREMRANGEBYLEX work - +"):
        yield Call(text, "lex", fresh=True)


def calls_generic(n):
    for kind in ("string", "hash", "list", "set", "zset"):
        yield Call(f"COPY {kind} target REPLACE", kind)
        for text in ("DEL work", "MOVE work 2"):
            yield Call(text, kind, fresh=True)
    for text in ("UNLINK work", "RENAME work other", "RENAMENX work other", "EXPIRE work 1000", "EXPIREAT work 9999999999",
                 "PEXPIRE work 1000000", "PEXPIREAT work 9999999999000", "PERSIST work"):
        yield Call(text, "zset", fresh=True)
    for text in ("EXISTS zset", "TYPE zset", "TTL zset", "PTTL zset", "EXPIRETIME zset", "PEXPIRETIME zset", "TOUCH zset",
                 "OBJECT ENCODING zset", "OBJECT ENCODING set", "MEMORY USAGE zset"):
        yield Call(text, "zset")
    for text in ("KEYS *", "KEYS none*", "RANDOMKEY", "SCAN 0 COUNT 1000", f"SCAN 0 COUNT {n}"):
        yield Call(text, "keys", db=1)
    for text in ("SORT few BY k:*", "SORT few BY k:* GET k:* LIMIT 0 10", "SORT few BY nosort GET k:*",
                 "SORT few BY k:* STORE target"):
        yield Call(text, "keys", db=1)


def calls(n):
    """Every command that touches a key, each in the ways that differ; names are numbered where there are several."""
    seen, all_calls = {}, []
    for part in (calls_string, calls_hash, calls_list, calls_set, calls_zset_read, calls_zset_write, calls_generic):
        all_calls += part(n)
    for call in all_calls:
        seen[call.name] = seen.get(call.name, 0) + 1
        if seen[call.name] > 1:
            call.name += f"_{seen[call.name]}"
    return all_calls


class Link:
    """A connection that reads a reply to its end without keeping it."""

    def __init__(self, port, timeout):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.room = bytearray(1 << 20)

    def close(self):
        self.socket.close()

    @staticmethod
    def encode(words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

    def ask(self, *commands):
        """The beginning of the first reply; all are read."""
        end = b"$%d\r\n%b\r\n" % (len(END), END)
        self.socket.sendall(b"".join(self.encode(words) for words in commands) + self.encode(["ECHO", END]))
        first = last = b""
        while not last.endswith(end):
            count = self.socket.recv_into(self.room)
            if count == 0:
                raise ConnectionError("the server has closed the connection")
            if len(first) < 1 << 16:
                first += bytes(self.room[:min(count, 1 << 16)])
            last = (last + bytes(self.room[max(0, count - len(end)):count]))[-len(end):]
        if first.startswith(b"-"):
            raise RuntimeError(f"{commands[0][0]}: {first[:80].decode()}")
        return first

    def tiers(self):
        text = self.ask(["INFO", "tiers"]).decode(errors="replace")
        return {name: int(value) for name, _, value in (line.partition(":") for line in text.splitlines()) if value.isdigit()}


class Pinger(threading.Thread):
    """A client beside the others: how long it waited at most."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.link = socket.create_connection(("127.0.0.1", port))
        self.worst = 0.0
        self.stopped = False

    def run(self):
        while not self.stopped:
            begin = time.monotonic()
            self.link.sendall(b"PING\r\n")
            self.link.recv(64)
            self.worst = max(self.worst, time.monotonic() - begin)
            time.sleep(0.001)


def fill_many(link, n, command, key, words_of, numbers, step=1000):
    numbers = list(numbers)
    commands = [[command, *([key] if key else []), *(word for i in numbers[first:first + step] for word in words_of(i))]
                for first in range(0, len(numbers), step)]
    for first in range(0, len(commands), 100):
        link.ask(*commands[first:first + 100])


def fill_string(link, n, key, factor):
    part = bytes((i * factor + i // 251) % 255 + 1 for i in range(1 << 20))
    for at in range(0, string_bytes(n), 1 << 20):
        link.ask(["APPEND", key, part[:string_bytes(n) - at]])


def fill_keys(link, n):
    """A database of its own."""
    link.ask(["SELECT", 1])
    fill_many(link, n, "MSET", None, lambda i: (f"k:{member(i)}", i), range(n))
    fill_many(link, n, "SADD", "few", lambda i: (member(i),), range(0, n, 10))
    link.ask(["SELECT", 0])


FILL = {
    "hash": lambda link, n: fill_many(link, n, "HSET", "hash", lambda i: (member(i), i), range(n)),
    "list": lambda link, n: fill_many(link, n, "RPUSH", "list", lambda i: (member(i),), range(n)),
    "set": lambda link, n: fill_many(link, n, "SADD", "set", lambda i: (member(i),), range(n)),
    "set2": lambda link, n: fill_many(link, n, "SADD", "set2", lambda i: (member(i),), range(n // 2, n + n // 2)),
    "few": lambda link, n: fill_many(link, n, "SADD", "few", lambda i: (member(i),), range(0, n, 10)),
    "zset": lambda link, n: fill_many(link, n, "ZADD", "zset", lambda i: (i, member(i)), range(n)),
    "zset2": lambda link, n: fill_many(link, n, "ZADD", "zset2", lambda i: (i, member(i)), range(n // 2, n + n // 2)),
    "lex": lambda link, n: fill_many(link, n, "ZADD", "lex", lambda i: (0, member(i)), range(n)),
    "string": lambda link, n: fill_string(link, n, "string", 7),
    "string2": lambda link, n: fill_string(link, n, "string2", 14),
    "small": lambda link, n: link.ask(["SET", "small", "x" * 10]),
    "number": lambda link, n: link.ask(["SET", "number", "1"]),
    "keys": fill_keys,
}

# A command that needs all rows of the key and, where there is one, answers little; of a database: those that SORT looks up.
NEEDS_ALL = {"string": ["BITCOUNT", "string"], "string2": ["BITCOUNT", "string2"], "hash": ["HGETALL", "hash"],
             "list": ["LRANGE", "list", 0, -1], "set": ["SMEMBERS", "set"], "set2": ["SMEMBERS", "set2"],
             "zset": ["ZRANK", "zset", member(1)], "zset2": ["ZRANK", "zset2", "of Bench"],
             "lex": ["ZRANK", "lex", member(1)], "keys": ["SORT", "few", "BY", "k:*", "LIMIT", 0, 1]}


class Bench:
    """A server, and the keys that the calls need."""

    def __init__(self, port, n, all_calls, timeout=60):
        self.port, self.n, self.timeout = port, n, timeout
        self.link = Link(port, 600)
        self.keys = {key for call in all_calls for key in (*call.reads, *call.words) if key in FILL}
        for key in self.keys:
            FILL[key](self.link, n)
        chunk_rows = string_bytes(n) // PAGE_ROWS  # a page has 64 KiB at most
        self.needs_all = {**NEEDS_ALL, "zset2": ["ZRANK", "zset2", member(n)]}
        self.rows = {"string": chunk_rows, "string2": chunk_rows, "zset": 2 * n, "zset2": 2 * n, "lex": 2 * n}

    def close(self):
        self.link.close()

    def reload(self):
        self.link.ask(["DEBUG", "RELOAD"])

    def run(self, words, db):
        """Milliseconds, and what the counters of INFO tiers have grown by."""
        link = Link(self.port, self.timeout)
        try:
            link.ask(["SELECT", db])
            before = self.link.tiers()
            begin = time.monotonic()
            link.ask(words)
            took = (time.monotonic() - begin) * 1000
        finally:
            link.close()
        after = self.link.tiers()
        return took, {name: after[name] - before[name] for name in ("loads", "load_rows", "undos")}

    def load_times(self):
        """Milliseconds of one sequential load of each key."""
        times = {}
        for key in self.keys & set(NEEDS_ALL):
            words = self.needs_all[key]
            db = 1 if key == "keys" else 0
            took = []
            for _ in range(2):
                self.reload()
                cold, _ = self.run(words, db)
                took.append(max(0.0, cold - self.run(words, db)[0]))
            times[key] = min(took)
        return times

    def prepare(self, call, hot):
        self.link.ask(["SELECT", call.db], ["DEL", "target", "other", "work"], ["SELECT", 2], ["DEL", "work"], ["SELECT", 0])
        if call.fresh:
            self.link.ask(["COPY", call.reads[0], "work"])
        if not hot:
            self.reload()
            return
        for key in call.reads:
            self.run(self.needs_all[key], call.db)

    def measure_cold(self, call):
        self.prepare(call, False)
        return self.run(call.words, call.db)

    def measure(self, call, rounds):
        """The best times of some rounds, and the counts of the last."""
        hots, colds = [], []
        for _ in range(rounds):
            self.prepare(call, True)
            hots.append(self.run(call.words, call.db)[0])
            cold, counts = self.measure_cold(call)
            colds.append(cold)
        return min(hots), min(colds), counts

    def pages(self, call):
        return math.ceil(sum(self.rows.get(key, self.n) for key in call.reads) / PAGE_ROWS)

    def undos_max(self, call):
        """KEYS goes on where it stopped: a step of it that waits for the disk is no beginning."""
        steps = math.ceil(self.n / KEYS_A_STEP) if call.command == "KEYS" else 0
        return UNDOS_FREE + steps + math.ceil(self.pages(call) / WINDOW_PAGES)


def waited(bench, call, pinger):
    """Milliseconds that another client waited at most while the command ran, hot and cold."""
    worst = []
    for hot in (True, False):
        bench.prepare(call, hot)
        pinger.worst = 0.0
        bench.run(call.words, call.db)
        worst.append(pinger.worst * 1000)
    return max(worst)


def figure(bench, call, loads, args, pinger):
    """Prints one line; returns the row of the table, and whether it is as wanted."""
    load = sum(loads[key] for key in call.reads)
    try:
        wait = f" {waited(bench, call, pinger):.0f} |" if pinger else ""
        hot, cold, counts = bench.measure(call, args.rounds)
    except TimeoutError:
        wait, hot, cold, counts = "", 0.0, args.timeout * 1000.0, {"loads": -1, "undos": -1}
    late = cold > TIMES * (hot + load) + NOISE_MS
    often = not 0 <= counts["undos"] <= bench.undos_max(call)
    wish = "MISSED" + " time" * late + " undos" * often if late or often else ""
    print(f"bench cold.{call.name} {cold:.1f} ms {wish}".rstrip(), flush=True)
    text = " ".join(call.words[:6]) + (" ..." if len(call.words) > 6 else "")
    row = f"| {text} | {hot:.0f} | {load:.0f} | {cold:.0f} | {counts['loads']} | {counts['undos']} |{wait} {wish} |"
    return row, not wish


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--n", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many is taken")
    parser.add_argument("--hot-memory", default="2gb")
    parser.add_argument("--only", default="", help="commands, separated by commas")
    parser.add_argument("--timeout", type=int, default=60, help="seconds after which a command is given up")
    parser.add_argument("--waits", action="store_true")
    parser.add_argument("--tmp", default=None)
    return parser.parse_args()


def run(args, top):
    command = [str((args.build / "terraced").resolve()), "--port", str(bench_server.free_port()), "--dir", "data",
               "--hot-memory", args.hot_memory]
    server = bench_server.Server("terraced", command, "stop ", top).start()
    only = {name for name in args.only.upper().split(",") if name}
    try:
        chosen = [call for call in calls(args.n) if not only or call.command in only]
        bench = Bench(server.port, args.n, chosen, args.timeout)
        loads = bench.load_times()
        pinger = Pinger(server.port) if args.waits else None
        if pinger:
            pinger.start()
        rows = [figure(bench, call, loads, args, pinger) for call in chosen]
        if pinger:
            pinger.stopped = True
            pinger.join()
        bench.close()
    finally:
        server.kill()
    return rows


def main():
    args = arguments()
    top = pathlib.Path(tempfile.mkdtemp(prefix="bench-cold-", dir=args.tmp))
    try:
        rows = run(args, top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"\n| command | hot ms | load ms | cold ms | loads | undos |{' others waited ms |' if args.waits else ''} |")
    print("|---|---:|---:|---:|---:|---:|" + ("---:|" if args.waits else "") + "---|")
    for row, _ in rows:
        print(row)
    print(f"bench cold.missed {sum(not good for _, good in rows)} commands")


if __name__ == "__main__":
    main()
