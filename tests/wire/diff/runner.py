# SPDX-License-Identifier: Apache-2.0
"""Plays a sequence of items to both servers and finds the first reply that differs."""
import re
import select
import time

from . import catalogue, compare, gen, guard
from .resp import Closed, Connection, line, show
from .servers import Oracle, Terraced
from .wanted import WANTED

SCAN_STEPS_MAX = 10000
BLOCK_POLLS_MAX = 20000
FIRST_BLOCKED = 2  # clients from this number on only block


class Step:
    __slots__ = ("args", "client", "mode", "index", "probe", "only")
    begun = 0.0  # when the sequence that is played began

    def __init__(self, args, client, index, mode=None, probe=None, only=None):
        self.args, self.client, self.index = args, client, index
        self.mode = mode or compare.mode_of(args)
        self.probe = probe  # the step whose reply tells what a random answer may be
        self.only = only  # 0: for Redis only, 1: for ours only


class Mismatch:
    def __init__(self, index, args, theirs, ours, note=""):
        self.index, self.args, self.theirs, self.ours, self.note = index, args, theirs, ours, note

    @property
    def name(self):
        words = [arg.decode(errors="backslashreplace").upper() for arg in self.args[:2]]
        return " ".join(words) if words[0] in ("OBJECT", "CLIENT", "MEMORY", "DEBUG") else words[0]

    @property
    def signature(self):
        return (self.name, compare.kind(self.theirs), compare.kind(self.ours), self.note.split(":")[0])

    def where(self):
        """The first item that differs, if the replies are long."""
        if not (self.ours and compare.is_many(self.theirs) and compare.is_many(self.ours)):
            return []
        theirs, ours = self.theirs[1], self.ours[1]
        if max(len(theirs), len(ours)) <= 8:
            return []
        if compare.mode_of(self.args) in ("bag", "pairs", "scan", "random"):
            width = 2 if self.args[0].upper() in (b"HGETALL", b"HSCAN", b"ZSCAN") else 1
            bags = [{repr(items[i:i + width]) for i in range(0, len(items), width)} for items in (theirs, ours)]
            only = [sorted(bags[0] - bags[1])[:3], sorted(bags[1] - bags[0])[:3]]
            return [f"   {len(theirs)} and {len(ours)} items; only redis has {only[0]}, only terraced {only[1]}"]
        at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
        first = [show(items[at]) if at < len(items) else "(end)" for items in (theirs, ours)]
        return [f"   {len(theirs)} and {len(ours)} items; item {at} is {first[0]} and {first[1]}"]

    def lines(self):
        out = []
        if self.note:
            out.append(f"   {self.note}")
        if self.theirs is not None:
            out.append(f"   at:       {line(self.args)}")
            out.append(f"   redis:    {show(self.theirs)}")
            out.append(f"   terraced: {show(self.ours) if self.ours else '(none)'}")
            out += self.where()
        return out


def knows(port, name):
    """Asked with too many arguments, so that nothing happens."""
    connection = Connection(port)
    try:
        reply = connection.ask(name, "?", "?", "?", "?", "?", "?", "?")
        return not (reply[0] == "-" and reply[1].startswith(b"ERR unknown command"))
    except Closed:
        return True
    finally:
        connection.close()


def describe(items):
    """The sequence as redis-cli lines; a second client is marked."""
    out = []
    for client, args in items:
        level = guard.levelled(args)
        if level:
            out.append(line(level))
        text = line(args[:12])
        if len(args) > 12:
            text += f" ... {line(args[-1:])} ({len(args)} words)"
        if (client, args) == gen.RELOAD:
            text += "    # terraced only"
        out.append(text if client == 0 else f"{text}    # client {client + 1}")
    return out


class Pair:
    """Redis and terraced with two connections each.

    itself: Redis instead of terraced. plain: terraced instead of Redis."""

    def __init__(self, terraced, hot_memory="1mb", itself=False, plain=False, extra=()):
        self.itself, self.plain = itself, plain
        self.path = terraced
        self.args = ["--hot-memory", hot_memory, *extra]
        self.oracle = Terraced(terraced) if plain else Oracle()
        self.ours = None
        self.connections, self.ids = {}, {}
        try:
            self.start_ours()
            self.ask_what_it_knows()
        except Exception as error:
            said = self.ours.stderr() if self.ours else ""
            self.close()
            raise RuntimeError(f"terraced did not survive the first questions: {error}\n{said[-6000:]}") from error

    def ask_what_it_knows(self):
        self.missing = {name for name in WANTED | set(gen.ALL_NAMES) if not knows(self.ours.port, name)}
        if not self.has("FLUSHALL"):  # other databases could not be emptied
            self.missing |= {"SELECT", "MOVE", "COPY", "SWAPDB"}
        self.used = set()
        self.reload = self.itself or self.link(1, 0).ask("DEBUG", "RELOAD") == ("+", b"OK")

    def start_ours(self):
        if self.ours:
            self.ours.stop()
        self.ours = Oracle() if self.itself else Terraced(self.path, *self.args)
        self.drop_links()

    def drop_links(self):
        for connection in self.connections.values():
            connection.close()
        self.connections = {}

    def close(self):
        self.drop_links()
        self.oracle.stop()
        if self.ours:
            self.ours.stop()

    def link(self, side, client):
        """side 0 is Redis, 1 is ours."""
        if (side, client) not in self.connections:
            port = (self.oracle, self.ours)[side].port
            self.connections[side, client] = Connection(port)
        return self.connections[side, client]

    def has(self, name):
        return name not in self.missing

    def encoding_of(self, dump):
        """How Redis encodes a dumped value, in a database that no sequence uses."""
        link = self.link(0, "scratch")
        link.ask("SELECT", 13)
        link.ask("RESTORE", "x", 0, dump, "REPLACE")
        reply = link.ask("OBJECT", "ENCODING", "x")
        link.ask("DEL", "x")
        return reply

    # -- one sequence ---------------------------------------------------------------------------

    def client_ids(self, client):
        for side in (0, 1):
            if (side, client) not in self.ids or (side, client) not in self.connections:
                self.ids[side, client] = self.link(side, client).ask("CLIENT", "ID")[1]

    def end_block(self, side, client):
        """1 if the client was blocked until now."""
        return self.link(side, "control").ask("CLIENT", "UNBLOCK", self.ids[side, client])[1]

    def blocked_count(self, side):
        text = self.link(side, "control").ask("INFO", "clients")[1]
        found = re.search(rb"blocked_clients:(\d+)", text)
        return int(found.group(1)) if found else None

    def cold_injected(self):
        """Forgets a cold read that was asked for; how many were made so far, None if ours cannot do that."""
        link = self.link(1, "inject")
        link.send([(b"DEBUG", b"COLD-INJECT", b"0"), (b"INFO", b"tiers")])
        done, text = link.reply(), link.reply()
        found = re.search(rb"cold_injected:(\d+)", text[1])
        return int(found.group(1)) if found and done[0] == "+" else None

    def play(self, items, proto=2, inject=0, reads=None):
        """None, or the first Mismatch.

        inject: the store read of every command that answers cold. reads: a dict to be given to plays of the
        same items with inject 1, 2, 3 ...: commands that read less often are not asked again."""
        try:
            return Play(self, items, proto, inject, reads).run()
        except Closed as closed:
            code = self.ours.ended()
            if self.oracle.process.poll() is not None:
                if not self.plain:
                    raise RuntimeError(f"redis-server ended with {self.oracle.process.poll()}") from closed
                self.oracle.stop()
                self.oracle = Terraced(self.path)
            state = f"terraced ended with {code}" if code is not None else "terraced lives"
            tail = "\n".join(self.ours.stderr().strip().splitlines()[-25:])
            where = getattr(closed, "step", None)
            index = where.index if where else len(items) - 1
            args = where.args if where else (items[-1][1] if items else (b"?",))
            self.start_ours()
            return Mismatch(index, args, None, None, f"no reply: {closed}; {state} at {line(args)}\n{tail}")


class Play:
    def __init__(self, pair, items, proto, inject, reads):
        self.pair, self.items, self.proto, self.inject = pair, items, proto, inject
        self.reads, self.ordinal = reads, 0  # the last read of a step that was made cold
        self.in_multi = [False, False]
        self.queued = [[], []]
        self.found = None
        self.blocked = []
        self.replies = {}  # what Redis answered, by step
        self.encoding = None  # what ours answered, if Redis answered otherwise

    def run(self):
        Step.begun = time.monotonic()
        self.begin()
        self.pair.used = {arg for _, args in self.items for arg in args} if not self.pair.has("FLUSHALL") else set()
        steps = []
        for index, (client, args) in enumerate(self.items):
            if steps and steps[-1].client != client:
                self.chunk(steps)
                steps = []
                if self.found:
                    break
            if client >= FIRST_BLOCKED:
                self.block(client, args, index)
                continue
            steps.extend(self.expand(client, args, index))
            if steps and self.must_wait(steps[-1]):
                self.chunk(steps)
                steps = []
            if self.found:
                break
        if not self.found:
            self.chunk(steps)
        if self.blocked:
            self.unblock()
        if not self.found:
            self.final_state()
        return self.found

    # -- clients that block -----------------------------------------------------------------------

    def block(self, client, args, index):
        """Sends a blocking command on a connection of its own; goes on when both servers hold it."""
        if client in [step.client for step in self.blocked]:
            return
        step = Step(args, client, index)
        self.blocked.append(step)
        for side in (0, 1):
            self.pair.link(side, client).send([args])
        for side in (0, 1):
            self.wait_for_blocked(side, self.pair.link(side, client).socket)

    def wait_for_blocked(self, side, socket):
        """Until the command has blocked or was answered: one of the two is counted by INFO or readable."""
        waiting = [self.pair.link(side, step.client).socket for step in self.blocked]
        for _ in range(BLOCK_POLLS_MAX):
            readable = select.select(waiting, [], [], 0)[0]
            if socket in readable:
                return
            blocked = self.pair.blocked_count(side)
            if blocked is None or blocked >= len(waiting) - len(select.select(waiting, [], [], 0)[0]):
                return

    def unblock(self):
        """Ends what still blocks, and compares what each client got."""
        if self.in_multi[0]:
            self.in_multi[0] = False
            if not self.found:
                self.chunk([Step((b"DISCARD",), 0, len(self.items) - 1)])
        for step in self.blocked:
            replies = []
            for side in (0, 1):
                ended = self.pair.end_block(side, step.client)
                replies.append((ended, self.read(side, step.client, step)))
            same = [(ended, compare.without_minus_zero(reply)) for ended, reply in replies]
            if not self.found and same[0] != same[1]:
                note = "blocked client" if replies[0][0] == replies[1][0] else \
                    f"blocked client: CLIENT UNBLOCK answers {replies[0][0]} and {replies[1][0]}"
                self.found = Mismatch(len(self.items) - 1, step.args, replies[0][1], replies[1][1], note)

    def begin(self):
        clients = sorted({0} | {client for client, _ in self.items})
        for client in clients:
            if client >= FIRST_BLOCKED:
                self.pair.client_ids(client)
        for side in (0, 1):
            for client in clients:
                self.pair.link(side, client).send(self.opening(side, client))
        for side in (0, 1):
            for client in clients:
                for _ in self.opening(side, client):
                    self.read(side, client, None)

    def opening(self, side, client):
        has = self.pair.has if side or self.pair.plain else lambda name: True
        out = []
        if has("RESET"):
            out.append((b"RESET",))
        else:
            out += [(name.encode(),) for name in ("DISCARD", "UNWATCH") if has(name)]
            if has("SELECT"):
                out.append((b"SELECT", b"0"))
        if self.pair.has("HELLO"):
            out.append((b"HELLO", b"%d" % self.proto))
        if client == 0:
            if has("FLUSHALL"):
                out.append((b"FLUSHALL",))
            else:
                out.append((b"DEL", *catalogue.ALL_KEYS, *catalogue.ODD_KEYS, *self.pair.used))
        return out

    def read(self, side, client, step):
        try:
            reply = self.pair.link(side, client).reply()
            while reply[0] == ">":
                reply = self.pair.link(side, client).reply()
            return reply
        except Closed as closed:
            closed.step = step
            raise
        except ValueError as error:
            closed = Closed(str(error))
            closed.step = step
            self.pair.drop_links()
            raise closed from error

    # -- what is sent -----------------------------------------------------------------------------

    def expand(self, client, args, index):
        """An item as steps: probes before random answers, ends of their effects after them."""
        if (client, args) == gen.RELOAD:
            ready = self.pair.reload and not self.in_multi[client] and not self.pair.itself
            return [Step(args, client, index, "exact", only=1)] if ready else []
        args = guard.safe(args, self.in_multi[client])
        name = args[0].upper()
        step = Step(args, client, index)
        steps = [step]
        if step.mode == "random":
            probe = self.probe_of(args, client, index)
            if probe:
                step.probe = probe
                steps.insert(0, probe)
            if name == b"SPOP" and self.in_multi[client] and len(args) in (2, 3) and self.pair.has("DEL"):
                steps.append(Step((b"DEL", args[1]), client, index))
        elif step.mode == "dbsize" and self.pair.has("KEYS"):
            step.probe = Step((b"KEYS", b"*"), client, index)
            steps.insert(0, step.probe)
        elif step.mode == "sort" and compare.sort_is_unordered(args) and self.pair.has("TYPE"):
            step.probe = Step((b"TYPE", args[1]), client, index)
            steps.insert(0, step.probe)
        elif guard.levelled(args) and self.pair.has("ZUNIONSTORE"):
            steps.insert(0, Step(guard.levelled(args), client, index))
        elif step.mode == "encoding" and not self.in_multi[client] and len(args) == 3 \
                and not self.pair.plain:
            steps.append(Step((b"DUMP", args[2]), client, index, "dump", only=0))
        if len(args) == 1:
            if name == b"MULTI":
                self.in_multi[client] = True
            elif name in (b"EXEC", b"DISCARD", b"RESET"):
                self.in_multi[client] = False
        return steps

    def probe_of(self, args, client, index):
        name = compare.RANDOM[args[0].upper()]
        if not self.pair.has(name.decode()):
            return None
        if name == b"KEYS":
            return Step((b"KEYS", b"*"), client, index)
        if len(args) < 2:
            return None
        if name == b"ZRANGE":
            return Step((b"ZRANGE", args[1], b"0", b"-1", b"WITHSCORES"), client, index)
        return Step((name, args[1]), client, index)

    def must_wait(self, step):
        """The next command depends on this reply."""
        name = step.args[0].upper()
        return not self.in_multi[step.client] and (name == b"SPOP" or step.mode == "scan")

    # -- what comes back --------------------------------------------------------------------------

    def chunk(self, steps):
        """Plays steps of one client, at once, or one by one where a read is to be cold."""
        if not self.inject:
            self.exchange(steps)
            return
        calm = []
        for step in steps:
            self.ordinal += 1
            if step.only == 0 or not self.may_read(self.inject):
                calm.append(step)
                continue
            self.exchange(calm)
            calm = []
            if self.found:
                return
            self.arm()
            self.exchange([step])
            if self.reads is not None and self.pair.cold_injected() > self.cold_count:
                self.reads[self.ordinal] = self.inject
        self.exchange(calm)

    def may_read(self, n):
        """Whether the step read n times, as far as it is known."""
        return self.reads is None or self.reads.get(self.ordinal, 0) >= n - 1

    def arm(self):
        """The next command of ours finds a read cold. Another client says it: MULTI would queue it."""
        self.cold_count = self.pair.cold_injected()
        self.pair.link(1, "inject").ask("DEBUG", "COLD-INJECT", self.inject)

    def exchange(self, steps):
        if not steps or self.found:
            return
        client = steps[0].client
        self.pair.link(0, client).send([step.args for step in steps if step.only != 1])
        try:
            self.pair.link(1, client).send([step.args for step in steps if step.only != 0])
        except Closed as closed:
            closed.step = steps[0]
            raise
        for step in steps:
            theirs = None if step.only == 1 else self.read(0, client, step)
            ours = None if step.only == 0 else self.read(1, client, step)
            if not self.found:
                self.check(step, theirs, ours)

    def check(self, step, theirs, ours):
        if step.mode == "dump":
            self.check_encoding(step, theirs)
            return
        if step.only == 1:
            if ours != ("+", b"OK"):
                self.found = Mismatch(step.index, step.args, ("+", b"OK"), ours)
            return
        name = step.args[0].upper()
        if step.mode == "exec":
            self.check_exec(step, theirs, ours)
            return
        if theirs == compare.QUEUED and ours == compare.QUEUED:
            self.queued[step.client].append(step)
            return
        if name in (b"DISCARD", b"RESET") and theirs[0] == "+":
            self.queued[step.client] = []
        self.replies[id(step)] = theirs
        before = self.replies.get(id(step.probe)) if step.probe else None
        if not compare.same(step, theirs, ours, before):
            self.found = Mismatch(step.index, step.args, theirs, ours)
        elif step.mode == "encoding" and theirs != ours:
            self.encoding = Mismatch(step.index, step.args, theirs, ours)
        elif name == b"SPOP" and theirs[1] is not None and theirs[0] not in "-+":
            self.level(step, theirs, ours)
        elif step.mode == "scan" and theirs[0] != "-" and compare.scan_is_whole(step.args):
            self.check_scan(step, theirs, ours)

    def check_exec(self, step, theirs, ours):
        queued, self.queued[step.client] = self.queued[step.client], []
        many = compare.is_many(theirs) and compare.is_many(ours)
        if not many or len(theirs[1]) != len(ours[1]) or len(theirs[1]) != len(queued):
            if theirs != ours:
                self.found = Mismatch(step.index, step.args, theirs, ours)
            return
        replies = {}
        for inner, their_reply, our_reply in zip(queued, theirs[1], ours[1]):
            replies[id(inner)] = their_reply
            before = replies.get(id(inner.probe)) if inner.probe else None
            if not compare.same(inner, their_reply, our_reply, before):
                self.found = Mismatch(step.index, inner.args, their_reply, our_reply, "inside MULTI")
                return

    def level(self, step, theirs, ours):
        """SPOP took different members: take both from both."""
        taken = [set(item[1] for item in reply[1]) if compare.is_many(reply) else {reply[1]}
                 for reply in (theirs, ours)]
        if taken[0] != taken[1]:
            self.chunk([Step((b"SREM", step.args[1], *sorted(taken[0] | taken[1])), step.client, step.index)])

    def check_scan(self, step, theirs, ours):
        complete = [self.scan_all(side, step, reply) for side, reply in enumerate((theirs, ours))]
        if complete[0] is None or complete[1] is None:
            return
        width = compare.SCANS[step.args[0].upper()]
        complete = [compare.without_minus_zero(("*", items))[1] for items in complete]
        bags = [sorted(set(compare.bag(items, width))) for items in complete]
        if bags[0] != bags[1]:
            self.found = Mismatch(step.index, step.args, ("*", complete[0]), ("*", complete[1]),
                                  "all steps of the scan: as sets")

    def scan_all(self, side, step, reply):
        """Every item of a scan that began with cursor 0."""
        at = 1 if step.args[0].upper() == b"SCAN" else 2
        items = []
        for _ in range(SCAN_STEPS_MAX):
            found = compare.scan_items(reply)
            if not found:
                return None
            items += found[1]
            if found[0] == b"0":
                return items
            args = (*step.args[:at], found[0], *step.args[at + 1:])
            self.pair.link(side, step.client).send([args])
            reply = self.read(side, step.client, step)
        return items

    def check_encoding(self, step, dump):
        """Redis remembers how a value came to be. Ours may answer for the same content made anew."""
        differs, self.encoding = self.encoding, None
        if not differs or dump[0] != "$" or dump[1] is None:
            return
        anew = self.pair.encoding_of(dump[1])
        if anew[0] == "$" and anew != differs.ours:
            self.found = differs
            self.found.note = f"made anew, Redis says {show(anew)}"

    def final_state(self):
        """Every key of every database that was used: type, deadline, content."""
        has = self.pair.has
        if not (has("KEYS") and has("TYPE")):
            return
        last = len(self.items) - 1
        closing = [Step((b"DISCARD",), 0, last)] if self.in_multi[0] else []
        text = {args[0].upper() for _, args in self.items}
        dbs = [b"0"]
        if has("SELECT") and text & {b"SELECT", b"SWAPDB", b"MOVE", b"COPY"}:
            dbs = [b"0", b"1", b"2", b"15"]
        for db in dbs:
            ask = ([Step((b"SELECT", db), 0, last)] if has("SELECT") else [])
            keys_step = Step((b"KEYS", b"*"), 0, last)
            self.chunk(closing + ask + [keys_step])
            closing = []
            if self.found:
                break
            keys = [key[1] for key in self.replies[id(keys_step)][1]]
            types = [Step((b"TYPE", key), 0, last) for key in keys]
            self.chunk(types)
            if self.found:
                break
            steps = []
            for key, step in zip(keys, types):
                how = CONTENT.get(self.replies[id(step)][1])
                if how and has(how[0].decode()):
                    steps.append(Step((how[0], key, *how[1:]), 0, last))
                if has("PTTL"):
                    steps.append(Step((b"PTTL", key), 0, last))
            self.chunk(steps)
            if self.found:
                break
        if self.found:
            self.found.note = "final state"
            self.found.index = last


CONTENT = {b"string": (b"GET",), b"hash": (b"HGETALL",), b"list": (b"LRANGE", b"0", b"-1"),
           b"set": (b"SMEMBERS",), b"zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES")}
