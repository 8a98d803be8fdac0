# SPDX-License-Identifier: Apache-2.0
"""Pipelines with runs of commands on one key, whose meta row is written once (src/types/held.h).

Each pipeline is one write. What redis-server answers to the same bytes is the measure; where commands of
several connections meet in no fixed order it is the books: what was put in is there or was taken out.
"""
import itertools
import random
import re
import threading

import pytest

from diff.compare import without_minus_zero
from diff.resp import Closed, Connection, encode, show
from diff.servers import Oracle
from land import KEY
from talk import Link, words
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

KEYS = ("a", "b", "c")
SORTED = {"SMEMBERS", "SPOP", "KEYS", "HKEYS", "HVALS"}
CONTENT = {"list": "LRANGE {} 0 -1", "set": "SMEMBERS {}", "hash": "HGETALL {}",
           "zset": "ZRANGE {} 0 -1 WITHSCORES"}
COUNT = {"list": "LLEN {}", "set": "SCARD {}", "hash": "HLEN {}", "zset": "ZCARD {}"}
WIDTH = {"list": 1, "set": 1, "hash": 2, "zset": 2}


# ---- what is sent ----

class Draw:
    """Random lines for redis-cli; the same ones for the same seed."""

    def __init__(self, seed, calm=False):
        self.rand = random.Random(seed)
        self.calm = calm  # nothing that another client would see otherwise, or that waits
        self.kinds = {}

    def word(self):
        return f"w{self.rand.randrange(30)}"

    def some(self, most=3):
        return " ".join(self.word() for _ in range(self.rand.randint(1, most)))

    def list_line(self, key):
        return self.rand.choice((
            f"LPUSH {key} {self.some()}", f"RPUSH {key} {self.some()}", f"RPUSH {key} {self.some(9)}",
            f"LPUSHX {key} {self.some()}", f"RPUSHX {key} {self.some()}", f"LPOP {key}", f"RPOP {key}",
            f"LPOP {key} {self.rand.randrange(5)}", f"RPOP {key} {self.rand.randrange(5)}",
            f"RPOP {key} 100" if self.rand.random() < 0.3 else f"RPUSH {key} {self.some(9)}"))

    def set_line(self, key):
        return self.rand.choice((
            f"SADD {key} {self.some()}", f"SADD {key} {self.some(9)}", f"SREM {key} {self.some()}",
            f"SREM {key} {self.some(20)}", f"SADD {key} {self.some()}", f"SPOP {key} 100"
            if self.rand.random() < 0.2 else f"SADD {key} {self.some(9)}"))

    def hash_line(self, key):
        return self.rand.choice((
            f"HSET {key} {self.word()} {self.word()}", f"HSET {key} {self.word()} 1 {self.word()} 2",
            f"HMSET {key} {self.word()} 3", f"HSETNX {key} {self.word()} 4", f"HDEL {key} {self.some()}",
            f"HDEL {key} {self.some(20)}", f"HINCRBY {key} n{self.rand.randrange(9)} 5",
            f"HINCRBY {key} {self.word()} 6", f"HINCRBYFLOAT {key} n{self.rand.randrange(9)} 0.5"))

    def zset_line(self, key):
        score = self.rand.randrange(9)
        return self.rand.choice((
            f"ZADD {key} {score} {self.word()}", f"ZADD {key} {score} {self.word()} 2 {self.word()}",
            f"ZADD {key} NX {score} {self.word()}", f"ZADD {key} XX CH {score} {self.word()}",
            f"ZADD {key} INCR {score} {self.word()}", f"ZINCRBY {key} {score} {self.word()}",
            f"ZREM {key} {self.some()}", f"ZREM {key} {self.some(20)}", f"ZPOPMIN {key}", f"ZPOPMAX {key}",
            f"ZPOPMIN {key} 3", f"ZPOPMAX {key} {self.rand.choice((0, 2, 100))}"))

    def wrong_line(self, key):
        return self.rand.choice((
            f"LPUSH {key}", f"HSET {key} f", f"HINCRBY {key} n1 nope", f"ZADD {key} nope m", f"LPOP {key} -1",
            f"ZADD {key} NX XX 1 m", f"ZINCRBY {key} nan m", "RPUSH", f"SPOP {key} -1", "NOSUCH a b",
            f"HINCRBYFLOAT {key} n1 nope", self.any_line(key), self.any_line(key)))

    def any_line(self, key):
        return self.rand.choice((self.list_line, self.set_line, self.hash_line, self.zset_line))(key)

    def look_line(self, key):
        return self.rand.choice((
            f"TYPE {key}", f"LLEN {key}", f"LRANGE {key} 0 -1", f"HLEN {key}", f"SCARD {key}", f"ZCARD {key}",
            f"EXISTS {key}", f"SMEMBERS {key}", f"HGETALL {key}", "DBSIZE", "SCAN 0 COUNT 1000",
            f"OBJECT REFCOUNT {key}", f"ZRANGE {key} 0 -1 WITHSCORES", "KEYS *", f"LINDEX {key} -1"))

    def other_line(self, key):
        other = self.rand.choice(KEYS)
        return self.rand.choice((
            f"DEL {key}", f"UNLINK {key} {other}", f"EXPIRE {key} 1000", f"PEXPIRE {key} 900000", f"PERSIST {key}",
            f"EXPIRE {key} -1", f"RENAME {key} {other}", f"RENAMENX {key} {other}", f"COPY {key} {other}",
            f"COPY {key} {other} REPLACE", f"LTRIM {key} 1 -1", f"LMOVE {key} {other} LEFT RIGHT",
            f"SMOVE {key} {other} {self.word()}", f"SET {key} text", f"LINSERT {key} BEFORE {self.word()} x",
            f"ZUNIONSTORE {key} 2 {key} {other}", f"SORT {key} ALPHA STORE {other}", f"LREM {key} 1 {self.word()}",
            "PING", "SELECT 1", "SELECT 0", "SWAPDB 0 1", *([] if self.calm else ["DEBUG RELOAD"])))

    def block(self, key):
        lines = [self.any_line(key) if self.rand.random() < 0.2 else self.run_line(key)
                 for _ in range(self.rand.randint(1, 6))]
        return ["MULTI", *lines, self.rand.choice(("EXEC", "EXEC", "DISCARD"))]

    def run_line(self, key):
        lines = (self.list_line, self.set_line, self.hash_line, self.zset_line)
        return lines[self.kinds.setdefault(key, self.rand.randrange(4))](key)

    def pipeline(self, length=90):
        lines = []
        while len(lines) < length:
            key = self.rand.choice(KEYS)
            if self.rand.random() < 0.2:
                lines += [f"DEL {key}"]
                self.kinds.pop(key, None)
            for _ in range(self.rand.choice((1, 2, 5, 16, 25))):
                chance = self.rand.random()
                if chance < 0.08:
                    lines.append(self.wrong_line(key))
                elif chance < 0.14:
                    lines.append(self.look_line(key))
                else:
                    lines.append(self.run_line(key))
            chance = self.rand.random()
            if chance < 0.2:
                lines += self.block(key)
            elif chance < 0.7:
                lines.append(self.other_line(key))
        return lines

    def bytes(self, lines):
        """Some of them inline."""
        return b"".join(line.encode() + b"\r\n" if self.rand.random() < 0.05 else encode(words(line))
                        for line in lines)


def plain(line, reply):
    """A reply without what differs between two servers that are right."""
    name = line.split()[0]
    kind, content = without_minus_zero(reply)
    if content is None or kind not in "*~":
        return show((kind, content), limit=100000)
    if name == "SCAN":
        return "a page"  # of ours one more may come, with what was cold
    if name in SORTED:
        content = sorted(content)
    elif name == "HGETALL":
        content = sorted(zip(content[::2], content[1::2]))
    return show((kind, content), limit=100000) if name != "HGETALL" else content


def plain_replies(lines, replies):
    out, queued = [], None
    for line, reply in zip(lines, replies):
        if reply == ("+", b"QUEUED"):
            queued = [line] if queued is None else queued + [line]
        if line == "EXEC" and reply[0] == "*" and reply[1] is not None:
            out.append(plain_replies(queued or [], reply[1]))
        else:
            out.append(plain(line, reply))
        if line in ("MULTI", "EXEC", "DISCARD"):
            queued = None
    return out


def send(link, draw, lines):
    link.socket.sendall(draw.bytes(lines))


def hear(link, lines):
    return plain_replies(lines, [link.reply() for _ in lines])


# ---- what is there ----

def databases(link):
    """Everything in both databases; counts fit what is counted."""
    found = {}
    for db in (0, 1):
        link.ask("SELECT", db)
        keys = sorted(item[1].decode() for item in link.ask("KEYS", "*")[1])
        assert link.ask("DBSIZE") == (":", len(keys))
        for key in keys:
            kind = link.ask("TYPE", key)[1].decode()
            line = CONTENT.get(kind, "GET {}").format(key)
            content = link.ask(*line.split())
            if kind in COUNT:
                count = link.ask(*COUNT[kind].format(key).split())
                assert count == (":", len(content[1]) // WIDTH[kind]), (key, kind, count, content)
            found[db, key] = (kind, plain(line, content), link.ask("TTL", key)[1] > 0)
    link.ask("SELECT", 0)
    return found


def differs(lines, ours, theirs):
    for at, (line, mine, his) in enumerate(zip(lines, ours, theirs)):
        if mine != his:
            before = "\n".join(lines[max(0, at - 25):at])
            pytest.fail(f"{before}\n{line}\n   redis:    {his}\n   terraced: {mine}", pytrace=False)


def play(server, oracle, draw, lines):
    links = Link(server), Link(oracle)
    for link in links:
        send(link, draw, lines)
    differs(lines, *(hear(link, lines) for link in links))
    for link in links:
        link.close()


@pytest.fixture(scope="module")
def oracle():
    oracle = Oracle()
    Link(oracle).say("CONFIG SET loglevel warning")  # DEBUG RELOAD would fill a pipe that nobody reads
    yield oracle
    oracle.stop()


@pytest.fixture(autouse=True)
def emptied(request):
    if "oracle" in request.fixturenames:
        Link(request.getfixturevalue("oracle")).say("FLUSHALL", "CONFIG SET notify-keyspace-events ''")


def compare(server, oracle):
    ours, theirs = (databases(Link(peer)) for peer in (server, oracle))
    assert ours == theirs


# ---- one connection ----

@pytest.mark.parametrize("seed", range(12))
def test_a_pipeline_is_answered_as_redis_answers_it(server, oracle, seed):
    draw = Draw(seed)
    for _ in range(4):
        play(server, oracle, draw, draw.pipeline())
        compare(server, oracle)


def test_a_pipeline_writes_its_meta_row_once(server):
    """16 elements take less than 16 meta rows; a batch may be cut, but not every time."""
    link = Link(server)

    def journal_bytes():
        return int(re.search(r"journal_bytes:(\d+)", link.text("INFO", "tiers")).group(1))

    def bytes_of_a_run():
        before = journal_bytes()
        link.say(*["RPUSH k x"] * 16)
        return journal_bytes() - before

    link.say("RPUSH k x")
    assert min(bytes_of_a_run() for _ in range(50)) < 16 * 57
    assert link.say("LLEN k") == [f":{1 + 50 * 16}"]


def test_what_was_answered_is_there_after_kill(start, oracle):
    for seed in range(4):
        draw = Draw(100 + seed)
        server = start("--durability", ("everysec", "always", "no")[seed % 3])
        for _ in range(2):
            play(server, oracle, draw, draw.pipeline())
        server.kill()  # nothing has come after the last run: it was settled in its turn
        server = start()
        compare(server, oracle)
        server.kill()


def test_a_run_that_nothing_follows_is_settled(start):
    """The last command of each changes nothing, or fails."""
    server = start()
    for key, first, run, last in (
            ("l", "RPUSH l a", "RPUSH l b c", "LPUSH l"), ("s", "SADD s a", "SADD s b c", "SADD s a b"),
            ("h", "HSET h a 1", "HSET h b 1 c 1", "HINCRBY h a x"), ("z", "ZADD z 1 a", "ZADD z 1 b 1 c", "ZADD z 2 a")):
        Link(server).say(first, run, last)
    server.kill()
    server = start()
    assert Link(server).say("LLEN l", "SCARD s", "HLEN h", "ZCARD z") == [":3"] * 4
    databases(Link(server))


def test_kill_in_the_middle_leaves_counts_that_fit(start):
    """Each pipeline pushes numbers in order and pops from the other end."""
    for seed in range(3):
        server = start("--durability", ("everysec", "always", "no")[seed])
        rand, sent = random.Random(seed), [0]

        def write():
            try:
                link = Connection(server.port)
                while True:
                    lines = []
                    for _ in range(40):
                        sent[0] += 1
                        lines.append(f"RPUSH k{seed} {sent[0]}" if rand.random() < 0.8 else f"LPOP k{seed}")
                        lines.append(rand.choice((f"SADD s {sent[0]}", f"SPOP s {rand.randrange(4)}",
                                                  f"ZADD z {sent[0]} {sent[0]}", f"ZPOPMIN z", f"HSET h {sent[0]} 1")))
                    rand.shuffle(lines) if rand.random() < 0.5 else lines.sort()
                    link.send([words(line) for line in lines])
                    for _ in lines:
                        link.reply()
            except Closed:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: sent[0] > 400 * (seed + 1))
        server.kill()
        writer.join()
        server = start()
        assert len(databases(Link(server))) > 0
        server.kill()


# ---- cold rows ----

def test_rows_that_are_cold_in_the_middle_of_a_run(start, oracle):
    """Lists and sets that do not fit memory, popped and pushed at both ends."""
    server = start("--hot-memory", "1mb")
    rand = random.Random(5)
    filling = [f"{'RPUSH' if key != 's' else 'SADD'} {key} " + " ".join(f"{n:04}{'x' * 700}" for n in range(i, i + 100))
               for key in "abs" for i in range(0, 800, 100)]
    for peer in (server, oracle):
        Link(peer).say(*filling)
    for _ in range(6):
        lines = []
        for key in rand.choices("abs", k=8):
            for _ in range(rand.randint(1, 12)):
                if key == "s":
                    lines.append(f"{rand.choice(('SREM', 'SADD'))} s {rand.randrange(1600):04}{'x' * 700}")
                else:
                    lines.append(rand.choice((f"LPOP {key}", f"RPOP {key} 3", f"LPUSH {key} {'y' * 700}",
                                              f"RPUSH {key} {'z' * 700}", f"LPUSHX {key} q")))
            lines.append(rand.choice((f"LINDEX {key} 500", "DEBUG RELOAD", f"TYPE {key}")))
        play(server, oracle, Draw(6), lines)
    compare(server, oracle)
    assert "cold_reads:0\r\n" not in Link(server).text("INFO", "tiers")
    server.kill()
    compare(start(), oracle)


@pytest.mark.parametrize("seed", range(3))
def test_a_read_that_is_cold_anywhere_in_a_run_changes_nothing(server, oracle, seed):
    inject = Link(server)
    for n in range(1, 25):
        draw = Draw(200 + 10 * n + seed, calm=True)
        lines = draw.pipeline(30)
        assert inject.say(f"DEBUG COLD-INJECT {n * 3 + seed}") == ["+OK"]
        play(server, oracle, draw, lines)
    assert inject.say("DEBUG COLD-INJECT 0") == ["+OK"]
    compare(server, oracle)
    assert "cold_injected:0\r\n" not in inject.text("INFO", "tiers")


# ---- who listens ----

@pytest.mark.parametrize("seed", range(3))
def test_events_are_as_many_and_in_the_same_order(server, oracle, seed):
    heard = []
    draw = Draw(300 + seed, calm=True)
    lines = [line for _ in range(3) for line in draw.pipeline()]
    for peer in (server, oracle):
        ear = Link(peer)
        ear.say("CONFIG SET notify-keyspace-events KEA", "PSUBSCRIBE __key*__:*")
        link = Link(peer)
        send(link, Draw(seed), lines)
        hear(link, lines)
        heard.append(ear.came())
    assert len(heard[0]) > 100
    differs([""] * len(heard[1]), *heard)
    assert len(heard[0]) == len(heard[1])


def test_a_watched_key_is_touched_by_its_run_and_by_no_other(server, oracle):
    cases = (["RPUSH j x", "RPUSH j y"], ["RPUSH k x", "RPUSH k y"], ["RPUSH j x", "RPUSH k y", "RPUSH k z"],
             ["RPUSH k", "HSET k f v", "LPOP k -1", "RPUSH j x"], ["RPUSHX none x", "LPOP none", "SREM s no"],
             ["RPOP k", "RPUSH k a"], ["LPUSH k x", "HSET k f v", "LPOP k"], ["HSET k f v"] * 5)
    for lines in cases:
        said = []
        for peer in (server, oracle):
            watcher, writer = Link(peer), Link(peer)
            writer.say("DEL k j s", "RPUSH k a b", "RPUSH j a", "SADD s m")
            watcher.say("WATCH k")
            writer.say(*lines)
            said.append(watcher.say("MULTI", "LRANGE k 0 -1", "EXEC") + writer.say("LLEN k", "LRANGE k 0 -1"))
        assert said[0] == said[1], lines


WAITING = (["BLPOP k 0", "BRPOP k 0", "BLMOVE k d LEFT RIGHT 0", "BLMPOP 0 1 k LEFT COUNT 2", "BLPOP k 0"],
           ["BLMOVE k d LEFT RIGHT 0"], ["BLMOVE k d RIGHT LEFT 0", "BLMOVE d k LEFT LEFT 0", "BLPOP d 0"])
PUSHES = (["RPUSH k 1", "RPUSH k 2", "RPUSH k 3", "RPUSH k 4"],
          ["RPUSH k 1 2 3", "LPUSH k 4", "LLEN k", "RPUSH k 5 6 7 8", "RPOP k", "RPUSH k 9"],
          ["RPUSH d x", "RPUSH d y", "RPUSH k 1", "LPUSH d z", "RPUSH k 2", "RPUSH k 3"],
          ["RPUSH d x", "RPUSH k 1 2 3", "RPUSH k 4", "RPUSH k 5", "LPOP d", "LPOP d"],
          ["RPUSH k 1", "LPOP k", "RPUSH k 2", "DEL k", "RPUSH k 3", "RPUSH k"],
          ["RPUSH k 1", "HSET k f v", "RPUSH k 2", "LPUSHX k 3", "RPUSH k 4 5 6 7 8 9", "RPOP k", "RPUSH k 9"])


class Waiting:
    """Clients that wait for lists, in order of arrival."""

    def __init__(self, server, lines):
        self.control, self.links = Link(server), []
        for line in lines:
            self.links.append(Link(server))
            self.links[-1].send([words(line)])
            self.control.wait_for_blocked(len(self.links))

    def heard(self):
        """What each has heard; who was not served is unblocked, and says so."""
        ids = [one.split()[0][3:] for one in self.control.text("CLIENT", "LIST").splitlines() if " flags=b " in one]
        self.control.say(*[f"CLIENT UNBLOCK {one}" for one in ids])
        return [link.hear() for link in self.links]


@pytest.mark.parametrize("lines", PUSHES, ids=range(len(PUSHES)))
@pytest.mark.parametrize("waits", WAITING, ids=range(len(WAITING)))
def test_who_waits_for_the_list_is_served_between_two_pushes(server, oracle, waits, lines):
    said = []
    for peer in (server, oracle):
        waiting = Waiting(peer, waits)
        said.append([waiting.control.say(*lines), waiting.heard(), waiting.control.say("LRANGE k 0 -1", "LRANGE d 0 -1")])
    assert said[0] == said[1]


@pytest.mark.parametrize("cold", (1, 2, 3, 5, 8))
def test_who_waits_and_meets_a_cold_row_leaves_counts_that_fit(server, cold):
    for waits, lines in itertools.product(WAITING, PUSHES):
        waiting = Waiting(server, waits)
        waiting.control.say(f"DEBUG COLD-INJECT {cold}")
        waiting.control.say(*lines)
        waiting.control.say("DEBUG COLD-INJECT 0")
        wait_until(lambda: "loads_in_flight:0\r\n" in waiting.control.text("INFO", "tiers"))
        waiting.heard()
        databases(waiting.control)
        waiting.control.say("FLUSHALL")


def test_a_monitor_sees_every_command_of_a_run(server, oracle):
    seen = []
    draw = Draw(400, calm=True)
    lines = [line for line in draw.pipeline() if line.split()[0] not in ("MULTI", "EXEC", "DISCARD")]
    for peer in (server, oracle):
        monitor, link = Link(peer), Link(peer)
        monitor.say("MONITOR")
        send(link, Draw(1), [*lines, "ECHO end"])
        hear(link, [*lines, "ECHO end"])
        told = []
        while not told or '"end"' not in told[-1]:
            told.append(monitor.hear())
        seen.append([re.sub(r"^\S+ \[(\d+) .*?\] ", r"\1 ", one) for one in told])
    assert seen[0] == seen[1]


def test_a_pause_holds_a_run(server, oracle):
    said = []
    draw = Draw(500, calm=True)
    lines = draw.pipeline()
    for peer in (server, oracle):
        control, link = Link(peer), Link(peer)
        control.say("RPUSH a x", "CLIENT PAUSE 600000 WRITE")
        send(link, Draw(1), lines)
        assert control.say("EXISTS b c", "LLEN a") == [":0", ":1"]
        control.say("CLIENT UNPAUSE")
        said.append(hear(link, lines))
    differs(lines, *said)
    compare(server, oracle)


def test_a_pause_in_the_pipeline_holds_the_rest_of_the_run(server, oracle):
    lines = ["RPUSH a 1", "RPUSH a 2", "CLIENT PAUSE 30 WRITE", "RPUSH a 3", "RPUSH a 4", "LRANGE a 0 -1"]
    assert Link(server).say(*lines) == Link(oracle).say(*lines)


# ---- landing ----

def test_runs_on_a_key_that_lands_and_on_one_that_does_not(landing, sqlite_sink, oracle):
    landed = landing(sqlite_sink)
    rand = random.Random(9)
    fields = [f"f{n}" for n in range(12)]
    for _ in range(4):
        lines = []
        for key in rand.choices((KEY, "h", "l"), k=10):
            for _ in range(rand.randint(1, 12)):
                field = rand.choice(fields)
                lines.append(f"RPUSH l {field}" if key == "l" else rand.choice((
                    f"HSET {key} {field} {rand.randrange(99)}", f"HDEL {key} {field} {rand.choice(fields)}",
                    f"HINCRBY {key} {field} 1", f"HSETNX {key} {field} 7", f"HLEN {key}")))
        play(landed.server, oracle, Draw(1), lines)
        theirs = Link(oracle)
        want = plain("HGETALL", theirs.ask("HGETALL", KEY))
        landed.flush()
        rows = {name.split(":", 2)[2].encode(): value for name, value in landed.live().items()}
        assert rows == {field[1]: value[1] for field, value in want}
        landed.evict(KEY) if rows else None
        assert plain("HGETALL", Link(landed.server).ask("HGETALL", KEY)) == want
        assert Link(landed.server).say("HLEN h", "LLEN l") == theirs.say("HLEN h", "LLEN l")


def test_a_rule_that_comes_in_the_middle_of_a_run(server, sqlite_sink, oracle):
    """Before it the key was held; from then on every change is marked."""
    link = Link(server)
    said = link.say(f"HSET {KEY} a 1", f"HSET {KEY} b 2", f"HSET {KEY} c 3",
                    f"LAND.RULE ADD players slug-data:{{*}} {sqlite_sink.url} delay 600000",
                    f"HSET {KEY} d 4", f"HSET {KEY} e 5", f"HDEL {KEY} a", f"HLEN {KEY}")
    assert said == [":1", ":1", ":1", "+OK", ":1", ":1", ":1", ":4"]
    assert dict(plain("HGETALL", link.ask("HGETALL", KEY))).keys() == {("$", name) for name in (b"b", b"c", b"d", b"e")}


# ---- several connections ----

def meet(server, pipelines):
    """Sends all while the server stands still, so that they meet in its batches; replies as they came."""
    links = [Link(server) for _ in pipelines]
    assert [link.say("PING") for link in links] == [["+PONG"]] * len(links)
    with server.stopped():
        for link, lines in zip(links, pipelines):
            link.send([words(line) for line in lines])
    return [[link.reply() for _ in lines] for link, lines in zip(links, pipelines)]


def test_pushes_of_several_connections_to_one_list_are_all_there_in_order(server):
    for round_ in range(8):
        key = f"k{round_}"
        pipelines = [[f"RPUSH {key} {who}-{n}" for n in range(40)] for who in range(5)]
        replies = meet(server, pipelines)
        for some in replies:
            counts = [count for _, count in some]
            assert counts == sorted(set(counts))
        assert sorted(count for some in replies for _, count in some) == list(range(1, 201))
        found = [item[1].decode() for item in Link(server).ask("LRANGE", key, 0, -1)[1]]
        assert Link(server).say(f"LLEN {key}") == [":200"]
        for who in range(5):
            assert [one for one in found if one.startswith(f"{who}-")] == [f"{who}-{n}" for n in range(40)]


class Books:
    """What replies say was put in and taken out of l, s and z, and added to fields of h."""

    def __init__(self):
        self.put = {key: set() for key in "lsz"}
        self.taken = {key: set() for key in "lsz"}
        self.added = 0

    def lines(self, rand, name):
        """Runs of one client; every element is new."""
        lines = []
        while len(lines) < 60:
            key = rand.choice("lszh")
            for _ in range(rand.randint(1, 20)):
                one, n = f"{name}.{len(lines)}", len(lines) % 3
                lines.append(rand.choice({
                    "l": (f"RPUSH l {one}", f"LPUSH l {one}", "LPOP l", "RPOP l 3", "RPUSH l"),
                    "s": (f"SADD s {one}", f"SADD s {one}", "SPOP s", "SPOP s 2", "SPOP s -1"),
                    "z": (f"ZADD z {n} {one}", f"ZADD z 1 {one}", "ZPOPMIN z", "ZPOPMAX z 2", "ZADD z x y"),
                    "h": (f"HINCRBY h {n} 1", f"HINCRBY h {n} 1", "HINCRBY h 1 x")}[key]))
            if rand.random() < 0.3:
                lines.append(rand.choice(("LLEN l", "TYPE s", "DBSIZE", "DEBUG RELOAD")))
        return lines

    def note(self, line, reply):
        name, *args = line.split()
        kind, content = reply
        if kind == "-" or content is None:
            return
        if name in ("RPUSH", "LPUSH", "SADD", "ZADD"):
            self.put[args[0]].add(args[-1])
        elif name == "HINCRBY":
            self.added += 1
        elif "POP" in name:
            items = [item[1].decode() for item in content] if kind == "*" else [content.decode()]
            items = set(items[::2] if name[0] == "Z" else items)
            assert not items & self.taken[args[0]]
            self.taken[args[0]] |= items

    def check(self, link):
        for key, line in ("l", "LRANGE l 0 -1"), ("s", "SMEMBERS s"), ("z", "ZRANGE z 0 -1"):
            found = [item[1].decode() for item in link.ask(*line.split())[1]]
            assert len(found) == len(set(found)) and set(found) == self.put[key] - self.taken[key]
        assert sum(int(item[1]) for item in link.ask("HVALS", "h")[1]) == self.added


@pytest.mark.parametrize("durability", ("everysec", "always"))
def test_what_several_connections_put_in_is_there_or_was_taken_out(start, durability):
    server = start("--durability", durability)
    rand, books = random.Random(11), Books()
    for round_ in range(8):
        pipelines = [books.lines(rand, f"{round_}.{who}") for who in range(5)]
        for lines, replies in zip(pipelines, meet(server, pipelines)):
            for line, reply in zip(lines, replies):
                books.note(line, reply)
        books.check(Link(server))
        before = databases(Link(server))
        if round_ % 4 == 3:
            server.kill()
            server = start("--durability", durability)
            assert databases(Link(server)) == before


def test_a_client_that_leaves_in_its_run_leaves_counts_that_fit(server):
    for n in range(20):
        link = Link(server)
        link.send([words(f"RPUSH k {i}") for i in range(200)])
        link.close()
        other = Link(server)
        lines = [*["RPUSH k x"] * 5, "QUIT", *["RPUSH k y"] * 5] if n % 2 else ["LPOP k"] * 9
        other.send([words(line) for line in lines])
        assert [other.hear() for _ in lines[:6]]
    databases(Link(server))
