# SPDX-License-Identifier: Apache-2.0
"""Landing against a model: random writes of several clients, kills of terraced and of its database.

    /usr/bin/python3 -m tests.wire.landing_model --seconds 60 --seed 1 --sink mariadb --shape columns

Every client owns its keys, so its model is exact although others write at the same time. Every reply
is compared. A command whose reply was lost in a kill has happened or not: its keys are left alone
until a read has settled it. At the end of each phase what is in SQL equals the models, row by row.

  phase 1   random commands and kills
  phase 2   the same, and more lifting, after terraced has lost its directory
"""
import contextlib
import argparse
import collections
import decimal
import itertools
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from diff.places import new_directory  # noqa: E402
from diff.resp import Closed, Connection, quote  # noqa: E402
from waiting import LIMIT_SECONDS, wait_until  # noqa: E402

CLIENTS = 4
QUICK = 10000  # operations of a phase: below, trouble comes more often
BIG_FIELDS = 600  # more than landing reads, notes or applies in one step
OWN_COLUMNS = ("up_version", "is_del", "del_time")
NIL = ("$", None)
OK = ("+", b"OK")


class Wrong(Exception):
    """Terrace does not do what the model does."""


def show(args, limit=60):
    return " ".join(quote(arg, limit) for arg in args[:12]) + (" ..." if len(args) > 12 else "")


def stacks(server):
    """Where a server that hangs is, if gdb is there to tell; or how it died."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(0.2)
    if server.process.poll() is not None or not shutil.which("gdb"):
        said = "(it was killed since)" if server.errors.closed else server.stderr()[-4000:]
        return f"exit {server.process.poll()}: {said}"
    return subprocess.run(["gdb", "-p", str(server.process.pid), "-batch", "-ex", "bt 12"],
                          capture_output=True, text=True, timeout=100).stdout[-6000:]


def short(thing):
    """For people: long values are cut."""
    if isinstance(thing, bytes):
        return quote(thing, 24)
    if isinstance(thing, dict):
        return "{" + ", ".join(f"{short(key)}: {short(thing[key])}" for key in sorted(thing)) + "}"
    if isinstance(thing, (list, tuple)):
        return "[" + ", ".join(map(short, thing)) + "]"
    return str(thing)


# ---- the model ----

def number_text(number):
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


def pairs(args):
    return list(zip(args[0::2], args[1::2]))


def bulk(value):
    return ("$", value)


def count(number):
    return (":", number)


def as_map(fields):
    def check(reply):
        return reply[0] == "*" and len(reply[1]) == 2 * len(fields) and \
            dict(pairs([item[1] for item in reply[1]])) == fields
    check.text = f"{len(fields)} fields"
    return check


def between(low, high):
    def check(reply):
        return reply[0] == ":" and low <= reply[1] <= high
    check.text = f"{low}..{high}"
    return check


def play_hset(state, key, *args):
    old = state.get(key, {})
    new = dict(pairs(args))
    added = len(new.keys() - old.keys())
    state[key] = {**old, **new}
    return between(added, len(new))  # a blind write counts as new what is new here


def play_hmset(state, key, *args):
    play_hset(state, key, *args)
    return OK


def play_hsetnx(state, key, field, value):
    if field in state.get(key, {}):
        return count(0)
    play_hset(state, key, field, value)
    return count(1)


def play_hincrby(state, key, field, by):
    value = int(state.get(key, {}).get(field, b"0")) + int(by)
    play_hset(state, key, field, b"%d" % value)
    return count(value)


def play_hincrbyfloat(state, key, field, by):
    value = decimal.Decimal(state.get(key, {}).get(field, b"0").decode()) + \
        decimal.Decimal(by.decode())
    play_hset(state, key, field, number_text(value))
    return bulk(number_text(value))


def play_hdel(state, key, *fields):
    old = state.get(key, {})
    left = {field: value for field, value in old.items() if field not in fields}
    state[key] = left
    if not left:
        del state[key]
    return count(len(old) - len(left))


def play_del(state, *keys):
    return count(sum(state.pop(key, None) is not None for key in keys))


def play_rename(state, old, new):
    if old not in state:
        return ("-", b"ERR no such key")
    state[new] = state.pop(old)
    return OK


def play_copy(state, old, new, *replace):
    if old not in state or (new in state and not replace):
        return count(0)
    state[new] = dict(state[old])
    return count(1)


def play_exists(state, key, *_):
    return count(int(key in state))


def play_persist(state, key):
    return between(0, int(key in state))


def play_evict(state, key):
    def check(reply):
        return reply[0] == ":" or (reply[0] == "-" and b"has not landed yet" in reply[1])
    check.text = "dropped or not landed yet"
    return check


def play_hmget(state, key, *fields):
    old = state.get(key, {})
    return ("*", [bulk(old.get(field)) for field in fields])


PLAY = {
    b"HSET": play_hset, b"HMSET": play_hmset, b"HSETNX": play_hsetnx, b"HINCRBY": play_hincrby,
    b"HINCRBYFLOAT": play_hincrbyfloat, b"HDEL": play_hdel, b"DEL": play_del,
    b"RENAME": play_rename, b"COPY": play_copy, b"PEXPIRE": play_exists, b"PERSIST": play_persist,
    b"LAND.EVICT": play_evict, b"LAND.LOAD": play_exists, b"EXISTS": play_exists,
    b"HGET": lambda state, key, field: bulk(state.get(key, {}).get(field)),
    b"HMGET": play_hmget,
    b"HGETALL": lambda state, key: as_map(state.get(key, {})),
    b"HLEN": lambda state, key: count(len(state.get(key, {}))),
    b"HEXISTS": lambda state, key, field: count(int(field in state.get(key, {}))),
    b"HSTRLEN": lambda state, key, field: count(len(state.get(key, {}).get(field, b""))),
}
TWO_KEYS = (b"RENAME", b"COPY")


def play(state, args):
    return PLAY[args[0]](state, *args[1:])


def fits(expected, reply):
    return expected(reply) if callable(expected) else expected == reply


def keys_of(args):
    return args[1:3] if args[0] in TWO_KEYS else args[1:2]


def is_down(reply):
    return reply[0] == "-" and reply[1].startswith(b"LANDDOWN")


# ---- what is asked ----

class Writer:
    """Makes random commands on the keys of one client."""

    def __init__(self, shape, number, rand):
        self.rand, self.shape = rand, shape
        if shape == "object":
            self.keys = [b"slug-data:{game:%s:t%d:o%d}" % (rand.choice((b"eu", b"us")), number, i)
                         for i in range(7)]
            self.fields = [b"f%d" % i for i in range(6)] + [b"a:b", b"x&y", b"%26", "ü".encode()]
            self.big = [b"slug-data:{game:eu:t%d:big%d}" % (number, i) for i in range(2)]
        else:
            self.keys = [b"user:%d&%%26-%d" % (number, i) for i in range(9)]
            self.fields = [b"f%d" % i for i in range(6)] + [b"x&y", b"%26", "ü".encode()]
            self.big = []
        self.binary = [b"b0", b"b1"]  # shape columns: the first value makes the column a BLOB
        self.numbers, self.floats = [b"n0", b"n1"], [b"d0"]
        self.noise = b"noise:%d" % number  # of another rule, which shares the dirty tables
        self.last = 0

    def all_keys(self):
        return self.keys + self.big + [self.noise]

    def value(self, field):
        rand = self.rand
        if field in self.numbers:
            return b"%d" % rand.randrange(-1000, 1000)
        if field in self.floats:
            return number_text(decimal.Decimal(rand.randrange(-400, 400)) / 4)
        size = rand.choice((0, 1, 5, 20, 20, 200, 3000))
        if field in self.binary:
            return b"\xff" + rand.randbytes(size)
        if self.shape == "object" and rand.random() < 0.3:
            return rand.randbytes(size)
        return "".join(rand.choice("abcß€'\"\\`%_ 😀\n") for _ in range(size)).encode()

    def field(self):
        return self.rand.choice(self.fields + self.binary + self.numbers + self.floats)

    def fields_values(self, limit=4):
        some = {self.field() for _ in range(self.rand.randint(1, limit))}
        return [item for field in some for item in (field, self.value(field))]

    def twins(self, key):
        """p and q are only ever written together: nobody may see one without the other in SQL."""
        self.last += 1
        value = b"%d" % self.last
        kind = self.rand.randrange(5)
        if kind == 0:
            return [[b"HSET", key, b"p", value, b"q", value]]
        if kind == 1:
            return [[b"HDEL", key, b"p"], [b"HDEL", key, b"q"]]
        return [[b"HSET", key, b"p", value], [b"HSET", key, b"q", value]]

    def big_one(self, key):
        rand = self.rand
        names = [b"g%03d" % i for i in range(BIG_FIELDS)]
        some = rand.sample(names, rand.choice((1, 20, 300, BIG_FIELDS)))
        if rand.random() < 0.7:
            return [b"HSET", key, *[item for name in some for item in (name, b"%d" % rand.randrange(99))]]
        return [b"HDEL", key, *some]

    def write(self, key):
        rand = self.rand
        kind = rand.choices(
            ("HSET", "HMSET", "HSETNX", "HINCRBY", "HINCRBYFLOAT", "HDEL", "DEL", "RENAME", "COPY",
             "PEXPIRE", "PERSIST"), (30, 5, 8, 10, 6, 12, 4, 4, 4, 8, 3))[0]
        if kind in ("HSET", "HMSET"):
            if key in self.big:
                return self.big_one(key)
            return [kind.encode(), key, *self.fields_values()]
        if kind == "HSETNX":
            field = self.field()
            return [b"HSETNX", key, field, self.value(field)]
        if kind == "HINCRBY":
            return [b"HINCRBY", key, rand.choice(self.numbers), b"%d" % rand.randrange(-50, 50)]
        if kind == "HINCRBYFLOAT":
            return [b"HINCRBYFLOAT", key, self.floats[0], number_text(decimal.Decimal(rand.randrange(99)) / 4)]
        if kind == "HDEL":
            if rand.random() < 0.15:  # all of them: the key goes with its last field
                return [b"HDEL", key, *self.fields, *self.binary, *self.numbers, *self.floats, b"p", b"q"]
            return [b"HDEL", key, *{self.field() for _ in range(rand.randint(1, 4))}]
        if kind == "DEL":
            return [b"DEL", key]
        if kind in ("RENAME", "COPY"):
            other = rand.choice([some for some in self.keys + self.big if some != key])
            more = [b"REPLACE"] if kind == "COPY" and rand.random() < 0.7 else []
            return [kind.encode(), key, other, *more]
        if kind == "PEXPIRE":
            return [b"PEXPIRE", key, b"%d" % rand.choice((20, 100, 100, 500, 60000))]
        return [b"PERSIST", key]

    def read(self, key):
        rand = self.rand
        kind = rand.choice((b"HGET", b"HGET", b"HMGET", b"HGETALL", b"HGETALL", b"HLEN", b"EXISTS",
                            b"HEXISTS", b"HSTRLEN"))
        if kind == b"HMGET":
            return [kind, key, *[self.field() for _ in range(rand.randint(1, 5))]]
        if kind in (b"HGET", b"HEXISTS", b"HSTRLEN"):
            return [kind, key, self.field()]
        return [kind, key]

    def commands(self, keys, lifting):
        """What goes into one MULTI, or one command."""
        rand = self.rand
        key = rand.choice(keys)
        kind = rand.random()
        if key == self.noise:
            return [rand.choice(([b"HINCRBY", key, b"n", b"1"], [b"HSET", key, b"n", b"%d" % rand.randrange(9)],
                                 [b"DEL", key]))]
        if kind < (0.25 if lifting else 0.1):
            return [[rand.choice((b"LAND.EVICT", b"LAND.EVICT", b"LAND.LOAD")), key]]
        if kind < (0.65 if lifting else 0.4):
            return [self.read(key)]
        if kind < 0.72 and key not in self.big:
            return self.twins(key)
        if kind < 0.85:
            some = [self.write(rand.choice((key, rand.choice(keys)))) if rand.random() < 0.8 else
                    self.read(key) for _ in range(rand.randint(2, 4))]
            return [args for args in some if all(name in keys for name in keys_of(args))] or \
                [self.read(key)]
        args = self.write(key)
        return [args] if all(name in keys for name in keys_of(args)) else [self.read(key)]


# ---- clients ----

class Doubt:
    """A lost reply: the keys are as in one of these."""

    def __init__(self, keys, states):
        self.keys, self.states = keys, states


class Client(threading.Thread):
    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number = world, number
        self.rand = random.Random(f"{world.seed}/{number}")
        self.writer = Writer(world.shape, number, self.rand)
        self.state = {}
        self.doubts = []
        self.link = None
        self.epoch = 0  # of the world, when it connected
        self.story = collections.defaultdict(lambda: collections.deque(maxlen=120))
        self.done, self.lost, self.down, self.slowest = 0, 0, 0, (0.0, "")

    # A thread can be started once; the client goes on in the next phase.
    def again(self):
        other = Client(self.world, self.number)
        other.__dict__.update({name: self.__dict__[name] for name in
                               ("rand", "writer", "state", "doubts", "story", "done", "lost", "down",
                                "slowest")})
        return other

    def run(self):
        try:
            while not self.world.over.is_set():
                self.step()
        except Wrong as error:
            self.world.fail(str(error))
        except Exception as error:  # pylint: disable=broad-except
            self.world.fail(f"client {self.number}: {type(error).__name__}: {error}")

    def tell(self, args, reply):
        for key in keys_of(args):
            text = str(reply[1]) if reply else "lost"
            self.story[key].append(f"{time.monotonic() - self.world.began:9.4f} {show(args, 30)} -> "
                                   f"{text[:60]}")

    def wrong(self, args, expected, reply):
        lines = [f"client {self.number}: {show(args)}",
                 f"  expected {getattr(expected, 'text', short(expected)):.4000}, got "
                 f"{short(reply):.4000}"]
        for key in keys_of(args):
            lines.append(f"  model of {quote(key)}: {short(self.state.get(key)):.4000}")
            lines += [f"    {line}" for line in self.story[key]]
        raise Wrong("\n".join(lines))

    def exchange(self, commands):
        """All replies. Closed: the server was killed meanwhile; None: it is not there."""
        world = self.world
        try:
            if self.link is None:
                self.epoch = world.epoch
                self.link = Connection(world.port)
        except OSError:
            world.over.wait(0.01)
            return None
        try:
            begin = time.monotonic()
            self.link.send(commands)
            replies = [self.link.reply() for _ in commands]
            if world.epoch == self.epoch:
                took = time.monotonic() - begin
                self.slowest = max(self.slowest, (took, show(commands[-2 if len(commands) > 1 else 0])))
            return replies
        except Closed as error:
            self.link.close()
            self.link = None
            if world.epoch == self.epoch and not world.over.is_set():
                end = time.monotonic() + LIMIT_SECONDS
                while world.epoch == self.epoch and not world.over.is_set() and time.monotonic() < end:
                    world.over.wait(0.05)  # whoever killed it says so when it is dead: on a busy machine that takes time
                if world.epoch == self.epoch and not world.over.is_set():
                    raise Wrong(f"client {self.number}: {error} after "
                                f"{[show(args) for args in commands]}; {stacks(world.server)}"
                                ) from error
            raise

    def ask(self, commands):
        """Replies of the commands, as one MULTI if there are several."""
        if len(commands) == 1:
            return self.exchange(commands)
        replies = self.exchange([[b"MULTI"], *commands, [b"EXEC"]])
        if replies is None:
            return None
        queued = [reply == ("+", b"QUEUED") for reply in replies[1:-1]]
        if replies[0] != OK or not all(queued) or replies[-1][0] != "*":
            raise Wrong(f"MULTI answers {replies} to {[show(args) for args in commands]}")
        return replies[-1][1]

    def step(self):
        if self.doubts and self.rand.random() < 0.3:
            self.settle(self.doubts[0])
            return
        unsure = {key for doubt in self.doubts for key in doubt.keys}
        keys = [key for key in self.writer.all_keys() if key not in unsure]
        if not keys:
            self.settle(self.doubts[0])
            return
        self.run_commands(self.writer.commands(keys, self.world.lifting))

    def run_commands(self, commands):
        disturbed, begin = self.world.disturbed, time.monotonic()
        try:
            replies = self.ask(commands)
        except Closed:
            self.lost += 1
            self.doubt(commands, disturbed, begin)
            return
        if replies is None:
            return
        for args, reply in zip(commands, replies):
            self.take(args, reply)
        self.done += len(commands)

    def take(self, args, reply):
        self.tell(args, reply)
        if is_down(reply):
            self.down += 1
            # Two connections that open a new SQLite file at once: one may find it locked.
            if self.world.sink != "mariadb" and b"locked" not in reply[1]:
                self.wrong(args, "an answer", reply[1].decode(errors="replace"))
            return
        expected = play(self.state, args)
        if not fits(expected, reply):
            self.wrong(args, expected, reply)

    def doubt(self, commands, disturbed, begin):
        """All or nothing; but a command that the database was needed for may have been refused."""
        keys = sorted({key for args in commands for key in keys_of(args)})
        states = [{key: self.state[key] for key in keys if key in self.state}]
        world = self.world
        # A lift that failed is the answer for a moment longer.
        refusals = world.sink == "mariadb" and (world.disturbed != disturbed or
                                                world.database_is_down or
                                                begin < world.disturbed_at + 2)
        for size in range(len(commands) if not refusals else 1, len(commands) + 1):
            for some in itertools.combinations(commands, size):
                state = {key: dict(fields) for key, fields in states[0].items()}
                for args in some:
                    play(state, args)
                if state not in states:
                    states.append(state)
        for args in commands:
            self.tell(args, None)
        self.doubts.append(Doubt(keys, states))

    def settle(self, doubt):
        try:
            replies = self.ask([[b"HGETALL", key] for key in doubt.keys])
        except Closed:
            return
        if replies is None or any(is_down(reply) for reply in replies):
            self.down += replies is not None
            return
        found = {}
        for key, reply in zip(doubt.keys, replies):
            self.tell([b"HGETALL", key], reply)
            if reply[0] != "*":
                self.wrong([b"HGETALL", key], "an answer", reply)
            if reply[1]:
                found[key] = dict(pairs([item[1] for item in reply[1]]))
        if found not in doubt.states:
            self.wrong([b"HGETALL", *doubt.keys], doubt.states, found)
        self.doubts.remove(doubt)
        for key in doubt.keys:
            self.state.pop(key, None)
        self.state.update(found)

    def settle_all(self):
        """Nothing is killed any more: every key is read."""
        end = time.monotonic() + LIMIT_SECONDS
        if self.link:
            self.link.close()
            self.link = None
        while self.doubts:
            if time.monotonic() > end:
                raise Wrong(f"client {self.number}: keys cannot be read: {self.doubts[0].keys}")
            self.settle(self.doubts[0])
        for key in self.writer.all_keys():
            wait_until(lambda: self.is_read(key))

    def is_read(self, key):
        before = self.down
        self.run_commands([[b"HGETALL", key]])
        return self.down == before


# ---- databases ----

def as_bytes(cell):
    return cell.encode() if isinstance(cell, str) else cell


def fields_of(row):
    """Of shape columns."""
    return {column.encode(): cell for column, cell in row.items()
            if column not in ("id", *OWN_COLUMNS) and cell is not None}


class Sqlite:
    def __init__(self, directory, name="landed.db"):
        self.path = directory / name
        self.url = f"sqlite:{self.path}"

    def rows(self, tables):
        """All rows of these tables, at one moment: {table: [{column: cell}]}."""
        out = {table: [] for table in tables}
        if not self.path.exists():
            return out
        base = sqlite3.connect(self.path, isolation_level=None, timeout=100)
        base.text_factory = bytes
        try:
            base.execute("BEGIN")
            for table in tables:
                try:
                    cursor = base.execute(f"SELECT * FROM `{table}`")
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):
                        raise
                    continue
                names = [column[0] for column in cursor.description]
                out[table] = [dict(zip(names, row)) for row in cursor]
        finally:
            base.close()
        return out

    def done(self):
        pass


class Maria:
    def __init__(self):
        from mariadb import MariaDB
        self.server = MariaDB()
        self.server.ask("CREATE DATABASE landed")
        self.url = self.server.url("landed")

    def rows(self, tables):
        import pymysql
        while True:
            out = {table: [] for table in tables}
            base = self.server.connect("landed")
            try:
                cursor = base.cursor()
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                for table in tables:
                    try:
                        cursor.execute(f"SELECT * FROM `{table}`")
                    except pymysql.err.ProgrammingError as error:
                        if error.args[0] != 1146:  # no such table
                            raise
                        continue
                    names = [column[0] for column in cursor.description]
                    out[table] = [dict(zip(names, map(as_bytes, row))) for row in cursor.fetchall()]
                return out
            except pymysql.err.OperationalError as error:
                if error.args[0] != 1412:  # a column was added: again
                    raise
            finally:
                base.close()

    def done(self):
        self.server.done()


# ---- the world ----

class World:
    """A server, its database, its clients; the main thread makes trouble."""

    def __init__(self, sink, shape, seed, say=lambda text: None):
        self.sink, self.shape, self.seed, self.say = sink, shape, seed, say
        self.rand = random.Random(f"{sink}/{shape}/{seed}")
        self.over = threading.Event()
        self.failures = []
        self.epoch = self.disturbed = self.port = 0
        self.disturbed_at = 0.0
        self.database_is_down = self.lifting = False
        self.counts = collections.Counter()
        self.versions = {}
        self.server = self.database = None
        self.began = time.monotonic()
        self.chaos_story = []
        self.dir = pathlib.Path(new_directory("terrace-landing-"))
        try:
            self.prepare()
            self.clients = [Client(self, number) for number in range(CLIENTS)]
        except BaseException:
            self.done()
            raise

    def prepare(self):
        rand = self.rand
        self.database = Sqlite(self.dir) if self.sink == "sqlite" else Maria()
        self.tables = ["game_eu", "game_us"] if self.shape == "object" else ["users"]
        pattern, shape = ("slug-data:{*}", "object") if self.shape == "object" else \
            ("user:*", "columns table users key id")
        keep = rand.choice(("", "", f" keep {rand.choice((30, 300))}"))
        rule = f"land model {pattern} {self.database.url} shape {shape} " \
               f"tables {rand.choice((1, 2, 4))} batch {rand.choice((1, 3, 10, 1000))} " \
               f"delay {rand.choice((1, 20, 200, 2000))}{keep}"
        self.options = ["--hot-memory", "8mb", "--durability", rand.choice(("everysec", "always", "no"))]
        self.file = self.dir / "terraced.conf"
        self.noise = Sqlite(self.dir, "noise.db")
        noise = f"land noise noise:* {self.noise.url} shape columns table noise key id tables 4 " \
                f"delay {rand.choice((1, 100))} batch 1"
        self.file.write_text(f"{rule}\n{noise}\n")
        self.say(f"{rule} {' '.join(self.options)}")
        self.server_start()

    def server_start(self):
        from conftest import Server
        self.server = Server(self.dir / "data", *self.options, port=self.port, file=self.file)
        self.port = self.server.port

    def server_end(self, kill):
        if self.server.process.poll() is not None:
            raise Wrong(f"terraced died: {stacks(self.server)}")
        self.epoch += 1
        if kill:
            self.server.kill()
        else:
            try:
                code = self.server.stop()
            except subprocess.TimeoutExpired as error:
                raise Wrong(f"terraced does not stop: {stacks(self.server)}") from error
            if code != 0:
                raise Wrong(f"terraced ended with {code}: {self.server.stderr()[-3000:]}")
        self.epoch += 1  # who connected since the first of these had the old one too
        self.server_said()

    def server_said(self):
        said = self.server.stderr()
        self.server.errors.close()
        for word in ("Sanitizer", "runtime error", "ssertion", "cannot be read"):
            if word in said:
                raise Wrong(said[-6000:])

    def fail(self, text):
        self.failures.append(text)
        self.over.set()

    def done(self):
        if self.server and self.server.process.poll() is None:
            self.server.kill()
        if self.database:
            self.database.done()
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- trouble --

    def admin(self, *args):
        """A command that may fail because something is down; never hangs."""
        link = Connection(self.port)
        try:
            return link.ask(*args)
        except Closed as error:
            raise Wrong(f"{args}: {error}; {stacks(self.server)}") from error
        finally:
            link.close()

    def trouble(self):
        kinds = ["kill"] * 6 + ["restart", "flush", "flush", "reload", "reload", "cold", "cold",
                                "check", "check", "check", "sweep"]
        if self.sink == "mariadb":
            kinds += ["database kill"] * 3 + ["database stop", "database away", "both"]
        kind = self.rand.choice(kinds)
        self.counts[kind] += 1
        self.chaos_story.append(f"{time.monotonic() - self.began:9.4f} {kind}")
        getattr(self, "do_" + kind.replace(" ", "_"))()

    def do_kill(self):
        self.server_end(True)
        self.server_start()

    def do_restart(self):
        self.server_end(False)
        self.server_start()

    def do_flush(self):
        reply = self.admin("LAND.FLUSH")
        if reply != OK and not (is_down(reply) and self.sink == "mariadb"):
            raise Wrong(f"LAND.FLUSH answers {reply}")

    def do_reload(self):
        reply = self.admin("DEBUG", "RELOAD")
        if reply != OK:
            raise Wrong(f"DEBUG RELOAD answers {reply}")

    def do_cold(self):
        self.admin("DEBUG", "COLD-INJECT", self.rand.randint(1, 30))

    def do_sweep(self):
        """Expired keys stay where they are for a while."""
        self.admin("DEBUG", "SET-ACTIVE-EXPIRE", self.rand.choice((0, 1)))

    def database_end(self, kill):
        self.disturbed += 1
        self.database_is_down = True
        server = self.database.server
        server.kill() if kill else server.stop()

    def database_start(self):
        self.database.server.start()
        self.disturbed += 1
        self.disturbed_at = time.monotonic()
        self.database_is_down = False

    def do_database_kill(self):
        self.database_end(True)
        self.database_start()

    def do_database_stop(self):
        self.database_end(False)
        self.database_start()

    def do_database_away(self):
        self.database_end(True)
        self.over.wait(self.rand.choice((0.3, 1.0)))
        self.database_start()

    def do_both(self):
        self.database_end(True)
        self.do_kill()
        self.database_start()

    # -- SQL against the model --

    def live(self, rows):
        """{key: {field: value}} of what is not removed; checks what every row must have."""
        out = {}
        for table, some in rows.items():
            for row in some:
                name = row["primary_key"] if self.shape == "object" else row["id"]
                version = row["up_version"]
                if not version or version <= 0 or version < self.versions.get((table, name), 0):
                    raise Wrong(f"up_version of {name} in {table} is {version}, it was "
                                f"{self.versions.get((table, name))}")
                self.versions[table, name] = version
                if (row["del_time"] is None) == bool(row["is_del"]):
                    raise Wrong(f"is_del and del_time do not fit: {row}")
                if row["is_del"]:
                    continue
                if self.shape == "object":
                    self.take_object(table, row, out)
                else:
                    out[b"user:" + name] = fields_of(row)
        return out

    def take_object(self, table, row, out):
        type_, owner, field = row["logic_type"], row["owner_id"], row["key"]
        app, region = table.encode().split(b"_")
        if row["query_all_key"] != type_ + b":" + owner or \
                row["primary_key"] != type_ + b":" + owner + b":" + field or \
                row["create_time"] > row["update_time"]:
            raise Wrong(f"a row is not what its key says: {row}")
        key = b"slug-data:{" + b":".join((app, region, type_, owner)) + b"}"
        out.setdefault(key, {})[field] = as_bytes(row["value"])

    def do_check(self):
        """While everything goes on: twins are never seen apart, versions only rise."""
        for key, fields in self.live(self.database.rows(self.tables)).items():
            if fields.get(b"p") != fields.get(b"q"):
                raise Wrong(f"half of a MULTI is in SQL: {quote(key)} p {fields.get(b'p')} "
                            f"q {fields.get(b'q')}")

    def is_flushed(self):
        reply = self.admin("LAND.FLUSH")
        if reply != OK and not is_down(reply):
            raise Wrong(f"LAND.FLUSH answers {reply}")
        return reply == OK

    def compare(self):
        wait_until(self.is_flushed)
        errors = self.admin("LAND.ERRORS")
        if errors != ("*", []):
            raise Wrong(f"LAND.ERRORS answers {errors}")
        found = self.live(self.database.rows(self.tables))
        for row in self.noise.rows(["noise"])["noise"]:
            if not row["is_del"]:
                found[b"noise:" + row["id"]] = fields_of(row)
        for client in self.clients:
            for key in client.writer.all_keys():
                wanted, here = client.state.get(key, {}), found.pop(key, {})
                if wanted != here:
                    self.explain(client, key, wanted, here)
        if found:
            raise Wrong(f"rows that nobody wrote: {found}")

    def explain(self, client, key, wanted, here):
        differ = {field: (wanted.get(field), here.get(field))
                  for field in {*wanted, *here} if wanted.get(field) != here.get(field)}
        lines = [f"SQL is not as the model: {quote(key)}: (model, SQL) {short(differ):.2000}",
                 f"  here: {self.admin('HGETALL', key)!s:.300}",
                 f"  status: {self.admin('LAND.STATUS')!s:.1500}"]
        for rows in self.database.rows(self.tables).values():
            for row in rows:
                if self.shape == "columns" and as_bytes(row["id"]) == key[5:] or \
                        self.shape == "object" and row["key"] in differ and \
                        key.endswith(b":" + row["query_all_key"] + b"}"):
                    lines.append(f"  row {row!s:.600}")
        lines += [f"    {line}" for line in client.story[key]]
        raise Wrong("\n".join(lines + self.chaos_story[-40:]))

    # -- phases --

    def phase(self, operations, seconds):
        self.over.clear()
        for client in self.clients:
            client.start()
        end = time.monotonic() + seconds
        base = self.operations()
        try:
            while not self.over.is_set() and self.operations() - base < operations and \
                    time.monotonic() < end:
                target = self.operations() + self.rand.choice(self.pace)
                wait_end = time.monotonic() + 2
                while self.operations() < target and time.monotonic() < wait_end and \
                        not self.over.is_set():
                    self.over.wait(0.002)
                if not self.over.is_set():
                    self.trouble()
        finally:
            self.over.set()
            for client in self.clients:
                client.join()
        self.raise_failures()
        self.clients = [client.again() for client in self.clients]
        self.admin("DEBUG", "COLD-INJECT", 0)
        self.over.clear()
        for client in self.clients:
            client.settle_all()
        self.compare()

    def raise_failures(self):
        if self.failures:
            story = "\n".join(self.chaos_story[-30:])
            raise Wrong("\n".join(self.failures) + "\ntrouble:\n" + story + "\nserver:\n" +
                        self.server.stderr()[-2000:])

    def operations(self):
        return sum(client.done for client in self.clients)

    def play(self, operations, seconds):
        self.pace = (5, 30, 100) if operations < QUICK else (5, 30, 100, 400)
        self.phase(operations, seconds)
        self.server_end(False)
        shutil.rmtree(self.dir / "data")
        self.server_start()
        self.lifting = True
        self.phase(operations, seconds)
        self.server_end(False)

    def summary(self):
        lost = sum(client.lost for client in self.clients)
        down = sum(client.down for client in self.clients)
        slowest = max(client.slowest for client in self.clients)
        return f"{self.operations()} operations, {lost} replies lost, {down} refused, " \
               f"{dict(self.counts)}, slowest {slowest[0]:.2f} s: {slowest[1]:.60}"


def run(sink, shape, seed, operations=1 << 60, seconds=1 << 30, say=lambda text: None):
    """Raises Wrong. Each phase ends after so many operations, or seconds."""
    world = World(sink, shape, seed, say)
    try:
        world.play(operations, seconds)
        return world.summary()
    except Wrong as error:
        raise Wrong(f"{sink} {shape} seed {seed}\n{world.file.read_text()}{error}\n"
                    f"{world.summary()}") from error
    finally:
        world.over.set()
        world.done()


def main():
    parser = argparse.ArgumentParser(description="Landing against a model.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--round", type=float, default=20, help="seconds of one seed")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sink", choices=("sqlite", "mariadb"), default="sqlite")
    parser.add_argument("--shape", choices=("object", "columns"), default="object")
    parser.add_argument("--terraced")
    args = parser.parse_args()
    if args.terraced:
        os.environ["TERRACED"] = args.terraced
    end = time.monotonic() + args.seconds
    seed = args.seed
    while time.monotonic() < end:
        say = lambda text, seed=seed: print(f"seed {seed}: {text}", flush=True)  # noqa: E731
        left = min(args.round, max(2.0, end - time.monotonic()))
        try:
            say(run(args.sink, args.shape, seed, seconds=left / 2, say=say))
        except Wrong as error:
            print(error)
            sys.exit(1)
        seed += 1


if __name__ == "__main__":
    main()
