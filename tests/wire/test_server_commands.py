# SPDX-License-Identifier: Apache-2.0
"""SLOWLOG, MONITOR, INFO, COMMAND, MEMORY, DEBUG, SAVE and their relatives, beside redis-server."""
import fnmatch
import pathlib
import re

import pytest

from diff.resp import Closed, show
from talk import Link
from waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]

@pytest.fixture
def both(server, oracle):
    Link(oracle).say("FLUSHALL", "CONFIG SET slowlog-log-slower-than 10000", "SLOWLOG RESET",
                     "CONFIG RESETSTAT")
    return server, oracle


ANSWERS = """
SLOWLOG|SLOWLOG NOPE|SLOWLOG GET x|SLOWLOG GET -2|SLOWLOG GET 1 2|SLOWLOG LEN x|SLOWLOG RESET x
SLOWLOG LEN|SLOWLOG GET|COMMAND NOPE|COMMAND COUNT x|COMMAND GETKEYS|COMMAND GETKEYS get
COMMAND GETKEYS get a|COMMAND GETKEYS nope a|COMMAND GETKEYS ping|COMMAND GETKEYS mset a b c d
COMMAND GETKEYS zunionstore d 2 a b|COMMAND GETKEYS config get x|COMMAND GETKEYS object encoding a
COMMAND GETKEYS blmpop 0 2 a b LEFT|COMMAND INFO nope|COMMAND INFO nope nope|COMMAND LIST nope
COMMAND LIST FILTERBY nope x|COMMAND LIST FILTERBY PATTERN xx*|COMMAND LIST FILTERBY PATTERN getd*
COMMAND DOCS nope|MEMORY|MEMORY NOPE|MEMORY USAGE|MEMORY USAGE none|MEMORY USAGE k SAMPLES
MEMORY USAGE k SAMPLES -1|MEMORY USAGE k SAMPLES x|MEMORY USAGE k nope 1|MEMORY PURGE|MEMORY PURGE x
DEBUG|DEBUG OBJECT none|DEBUG SLEEP 0|DEBUG SET-ACTIVE-EXPIRE 1|DEBUG RELOAD|BGSAVE nope
BGSAVE SCHEDULE x|SAVE|SAVE x|LASTSAVE x|TIME x|ROLE|ROLE x|SHUTDOWN nope|SHUTDOWN ABORT
SHUTDOWN SAVE NOSAVE|SHUTDOWN ABORT NOW|SHUTDOWN NOW nope|MONITOR x|INFO nope|INFO cluster
CONFIG RESETSTAT|CONFIG RESETSTAT x|BGREWRITEAOF x|WAIT 0 0|WAIT x 0|WAIT 0 x|WAIT 0 -1
COMMAND LIST FILTERBY ACLCAT nope|COMMAND LIST FILTERBY MODULE nope
SCRIPT|SCRIPT NOPE|SCRIPT FLUSH|script flush sync|SCRIPT FLUSH ASYNC|SCRIPT FLUSH x|SCRIPT FLUSH SYNC x
FUNCTION|FUNCTION NOPE|FUNCTION FLUSH|FUNCTION FLUSH sync|FUNCTION FLUSH Async|FUNCTION FLUSH x|FUNCTION flush SYNC x
""".replace("\n", "|").strip("|").split("|")


@pytest.mark.parametrize("line", ANSWERS)
@pytest.mark.parametrize("proto", (2, 3))
def test_answers_are_those_of_redis(both, line, proto):
    ours, theirs = (Link(peer, proto).say(line) for peer in both)
    assert ours == theirs


def test_lolwut_is_not_there(server):
    assert Link(server).say("LOLWUT") == [
        "-ERR unknown command 'LOLWUT', with args beginning with: "]


# ---- SLOWLOG ----

def noted(link):
    return [entry[1][3][1] for entry in link.ask("SLOWLOG", "GET", "-1")[1]]


SLOW = [["SET", "a", "x" * 128], ["SET", "a", "x" * 129], ["SET", "a", "x" * 5000],
        ["MSET", *["k", "v"] * 15, "k", "v"], ["MSET", *["k", "v"] * 16], ["MSET", *["k", "v"] * 500],
        ["GET", bytes(range(256))], ["get"], ["NOSUCH", "x"], ["INCR", "a"], ["AUTH", "hidden"],
        ["AUTH", "default", "hidden"], ["HELLO", "2", "AUTH", "default", "hidden", "SETNAME", "me"],
        ["HELLO", "2", "SETNAME", "auth"], ["CONFIG", "SET", "slowlog-max-len", "128", "requirepass", ""],
        ["CONFIG", "GET", "requirepass"], ["MULTI"], ["SET", "b", "1"], ["LPUSH", "b", "1"], ["EXEC"],
        ["MULTI"], ["SET", "b", "2"], ["DISCARD"], ["EXEC"], ["PING"], ["CLIENT", "ID"],
        ["BLPOP", "none", "0.001"], ["SUBSCRIBE", "c"], ["UNSUBSCRIBE", "c"], ["SLOWLOG", "LEN"]]


def test_slowlog_notes_what_redis_notes(both):
    told = []
    for peer in both:
        link = Link(peer)
        link.say("CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET", *SLOW)
        told.append([show(("*", entry), limit=100) for entry in noted(link)])
    for ours, theirs in zip(*told):
        assert ours == theirs
    assert len(told[0]) == len(told[1])


def test_an_entry_says_who_when_and_how_long(both):
    for peer in both:
        link = Link(peer)
        link.say("CLIENT SETNAME me", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET", "GET k")
        entry = link.ask("SLOWLOG", "GET", 1)[1][0][1]
        number, at, usec, args, address, name = (item[1] for item in entry)
        assert args == [("$", b"GET"), ("$", b"k")] and usec >= 0 and number > 0
        assert address == b"127.0.0.1:%d" % link.socket.getsockname()[1] and name == b"me"
        assert abs(at - int(link.ask("TIME")[1][0][1])) <= 60


def test_slowlog_is_as_long_as_it_may_be_and_numbers_go_on(both):
    for peer in both:
        link = Link(peer)
        link.say("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5", "SLOWLOG RESET")
        link.say(*20 * ["PING"])
        assert link.say("SLOWLOG LEN") == [":5"]
        numbers = [entry[1][0][1] for entry in link.ask("SLOWLOG", "GET", "-1")[1]]
        assert numbers == list(range(numbers[0], numbers[0] - 5, -1))
        assert len(link.ask("SLOWLOG", "GET", "2")[1]) == 2 and link.ask("SLOWLOG", "GET", "0")[1] == []
        link.say("SLOWLOG RESET")
        assert link.ask("SLOWLOG", "GET")[1][0][1][0][1] > numbers[0]
        link.say("CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 128", "SLOWLOG RESET", "PING")
        assert link.say("SLOWLOG LEN") == [":0"]


def test_slowlog_notes_only_what_is_slow(both):
    for peer in both:
        link = Link(peer)
        link.say("CONFIG SET slowlog-log-slower-than 300000", "SLOWLOG RESET", "PING", "DEBUG SLEEP 0.4")
        assert noted(link) == [[("$", b"DEBUG"), ("$", b"SLEEP"), ("$", b"0.4")]]


def test_slowlog_notes_commands_that_had_to_wait(server):
    link, waiting = Link(server), Link(server)
    link.say("SET cold v", "DEBUG RELOAD", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET",
             "GET cold")
    waiting.send([[b"BLPOP", b"k", b"0"]])
    link.wait_for_blocked()
    link.say("RPUSH k v")
    assert waiting.hear() == "[k, v]"
    names = [args[0][1] for args in noted(link)]
    assert names.count(b"GET") == 1 and names.count(b"BLPOP") == 1


# ---- MONITOR ----

def monitored(peer, lines, more=()):
    """What a monitor is told, without times and addresses."""
    monitor, link = Link(peer), Link(peer)
    assert monitor.say("MONITOR") == ["+OK"]
    for line in lines:
        link.say(line)
    for other in more:
        other(peer)
    Link(peer).say("ECHO end")
    told = []
    while not told or '"end"' not in told[-1]:
        kind, text = monitor.reply()
        text = text.decode("latin-1")
        assert kind == "+" and re.match(r"\d{10}\.\d{6} \[\d+ 127\.0\.0\.1:\d+\] ", text), text
        told.append(re.sub(r"^\S+ \[(\d+) \S+\]", r"[\1]", text))
    return told


@pytest.mark.parametrize("lines", [
    ["SET a 1", "get a", "NOSUCH", "GET", "INCR a b", "lpush a x", "PING", "ECHO ''"],
    [["SET", bytes(range(256)), 'quo"te\\ \n\r\t\a\b'], ["GET", "x" * 10000], ["SET", "", ""]],
    ["SELECT 3", "GET a", "SELECT 99", "SELECT 0", "GET a"],
    ["MULTI", "SET a 1", "LPUSH a x", "SELECT 3", "GET a", "EXEC", "GET a"],
    ["MULTI", "SET a 1", "DISCARD", "MULTI", "NOSUCH", "SET a 1", "EXEC", "EXEC", "DISCARD"],
    ["WATCH a", "SET a 1", "MULTI", "SET a 2", "EXEC", "UNWATCH"],
    ["CONFIG GET port", "CLIENT LIST", "CLIENT ID", "CLIENT SETNAME me", "DEBUG SLEEP 0", "SLOWLOG LEN",
     "SLOWLOG GET", "INFO", "COMMAND COUNT", "TIME", "LASTSAVE", "ROLE", "MEMORY USAGE a", "DBSIZE"],
    ["AUTH hidden", "AUTH default hidden", "HELLO 3", "HELLO 2 AUTH default hidden SETNAME me", "HELLO"],
    ["SUBSCRIBE a", "UNSUBSCRIBE a", "PUBLISH a m", "PUBSUB CHANNELS", "SPUBLISH a m"],
    ["MULTI", "CONFIG GET port", "CLIENT ID", "EXEC"],
    ["BLPOP none 0.001", "RPUSH l x", "BLPOP l 0", "BLMOVE none l LEFT LEFT 0.001"],
    ["RESET", "QUIT"],
], ids=lambda lines: str(lines[0])[:12])
def test_monitor_tells_what_redis_tells(both, lines):
    ours, theirs = (monitored(peer, lines) for peer in both)
    assert ours == theirs


def test_monitor_tells_of_a_command_once_wherever_its_key_is(server):
    Link(server).say("SET a 1", "SET b 2", "DEBUG RELOAD")
    assert monitored(server, ["GET a", "MULTI", "GET b", "EXEC"]) == [
        '[0] "GET" "a"', '[0] "MULTI"', '[0] "GET" "b"', '[0] "EXEC"', '[0] "ECHO" "end"']


def test_monitor_tells_of_a_blocked_and_of_a_paused_command_once(server):
    def play(peer):
        waiting, link = Link(peer), Link(peer)
        waiting.send([[b"BLPOP", b"k", b"0"]])
        link.wait_for_blocked()
        link.say("RPUSH k v")
        assert waiting.hear() == "[k, v]"
        link.say("CLIENT PAUSE 600000 WRITE")
        waiting.send([[b"SET", b"a", b"1"]])
        wait_until(lambda: "cmd=set " in link.text("CLIENT", "LIST"))
        link.say("CLIENT UNPAUSE")
        assert waiting.hear() == "+OK"

    told = [line for line in monitored(server, [], [play]) if "INFO" not in line]
    assert told == ['[0] "BLPOP" "k" "0"', '[0] "RPUSH" "k" "v"', '[0] "SET" "a" "1"',
                    '[0] "ECHO" "end"']


def test_a_monitor_can_be_ended_with_reset(server):
    monitor, link = Link(server), Link(server)
    assert monitor.say("MONITOR", "MONITOR", "RESET")[::2] == ["+OK", "+RESET"]
    link.say("SET a 1")
    assert monitor.came() == []


# ---- INFO ----

def info(link, *sections):
    """section: {field: value}"""
    found, section = {}, None
    for line in link.text("INFO", *sections).split("\r\n"):
        if line.startswith("# "):
            section = found.setdefault(line[2:], {})
        elif line:
            name, value = line.split(":", 1)
            assert name not in section
            section[name] = value
    return found


def shape(value):
    if re.fullmatch(r"-?\d+", value):
        return "number"
    if re.fullmatch(r"-?\d+\.\d+", value):
        return "fraction"
    if re.fullmatch(r"[\d.]+[BKMGT]", value):
        return "size"
    return re.sub(r"\d+(\.\d+)?", "0", value) if "=" in value else "text"


def test_fields_that_redis_has_too_are_in_its_sections_and_look_alike(both):
    ours, theirs = ({}, {})
    for peer, fields in zip(both, (ours, theirs)):
        link = Link(peer)
        link.say("SET a 1", "SET b 1 EX 100", "INCR a", "LPUSH a x", "GET a")
        for section, values in info(link, "everything").items():
            fields.update({name: (section, shape(value)) for name, value in values.items()})
    common = (ours.keys() & theirs.keys()) - {"redis_build_id"}  # a hash, it may look like anything
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}
    assert len(common) > 75
    assert {"redis_version", "used_memory", "connected_clients", "db0", "cmdstat_set"} <= common


def fields_of(link):
    return {name for values in info(link, "everything").values() for name in values}


def test_fields_of_redis_that_are_missing_are_those_the_page_names(both):
    for peer in both:
        Link(peer).say("SET a 1", "INCR a", "LPUSH a x", "GET a")
    ours, theirs = (fields_of(Link(peer)) for peer in both)
    page = (ROOT / "docs" / "redis.md").read_text().split("## INFO")[1].split("## ")[0]
    named = set(re.findall(r"`([a-z_0-9*]+)`", page))
    known = {name for name in theirs if any(fnmatch.fnmatch(name, one) for one in named)}
    sanitized = set() if "allocator_allocated" in ours else {
        "allocator_allocated", "allocator_active", "allocator_frag_ratio", "allocator_frag_bytes",
        "mem_fragmentation_bytes"}
    missing = theirs - ours - known - sanitized
    assert {name for name in missing if not name.startswith("cmdstat_")} == set()
    told = {"used_memory", "mem_fragmentation_ratio", "allocator_resident"}
    assert named & ours <= told


def test_what_info_measures_changes(server):
    link, waiting = Link(server), Link(server)
    before = {**info(link, "everything")}
    link.say(["SET", "big", b"x" * 3000000], "DEL big", "PING")
    waiting.send([b"BLPOP k 30".split()])
    link.wait_for_blocked()
    after = {**info(link, "everything")}
    assert int(after["Memory"]["used_memory_peak"]) >= int(before["Memory"]["used_memory_peak"])
    assert int(after["Clients"]["clients_in_timeout_table"]) == 1
    assert int(after["Stats"]["total_reads_processed"]) > int(before["Stats"]["total_reads_processed"])
    assert int(after["Stats"]["total_writes_processed"]) > int(before["Stats"]["total_writes_processed"])
    assert int(after["Memory"]["mem_clients_normal"]) > int(before["Memory"]["mem_clients_normal"])
    assert int(after["Memory"].get("allocator_allocated", 1)) > 0  # a sanitizer's tells nothing


@pytest.mark.parametrize("sections", ["server", "CLIENTS", "memory keyspace", "commandstats", "nope",
                                      "cpu nope cpu", "cluster"])
def test_sections_are_chosen_as_in_redis(both, sections):
    chosen = [list(info(Link(peer), *sections.split())) for peer in both]
    assert chosen[0] == chosen[1]


def test_default_all_and_everything(server):
    link = Link(server)
    assert list(info(link)) == list(info(link, "default")) == [
        "Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Tiers", "Landing",
        "Fs", "Partitions", "Tiles", "Cluster", "Keyspace"]
    assert set(info(link, "all")) == set(info(link, "everything")) == {*info(link), "Commandstats"}


def test_info_is_verbatim_text_in_resp3(both):
    for peer in both:
        assert Link(peer, 3).ask("INFO", "cluster") == ("=", b"txt:# Cluster\r\ncluster_enabled:0\r\n")


def test_statistics_count_as_redis_counts(both):
    told = []
    for peer in both:
        link = Link(peer)
        link.say("CONFIG RESETSTAT", "SET a 1", "GET a", "GET none", "GET", "NOSUCH", "LPUSH a x",
                 "LPUSH a", "MULTI", "INCR a", "GET", "EXEC", "MULTI", "INCR a", "LPUSH a x", "EXEC",
                 "EXISTS a none", "DEL a")
        sections = info(link, "stats", "commandstats")
        stats = sections["Stats"]
        commands = {name: re.sub(r"usec=\d+,usec_per_call=[\d.]+,", "", value)
                    for name, value in sections["Commandstats"].items() if "config" not in name}
        told.append(([stats[name] for name in ("keyspace_hits", "keyspace_misses", "total_error_replies")],
                     commands))
    assert told[0] == told[1]


@pytest.mark.parametrize("command, end", [
    ("BLPOP k 0", "RPUSH k v"), ("BLPOP k 3", None), ("BLMOVE k s LEFT LEFT 0", "RPUSH k v"), ("BZPOPMIN z 0", "ZADD z 1 a"),
    ("BLPOP k 0", "CLIENT UNBLOCK %d"), ("BLPOP k 0", "CLIENT UNBLOCK %d ERROR"), ("BLPOP k 0", "CLIENT KILL ID %d"),
])
def test_a_blocked_command_is_counted_when_it_begins_to_wait_as_in_redis(both, command, end):
    told = []
    for peer in both:
        link, waiting = Link(peer), Link(peer)

        def counted():
            sections = info(link, "stats", "commandstats")
            value = sections["Commandstats"][f"cmdstat_{command.split()[0].lower()}"]
            return (re.sub(r"usec=\d+,usec_per_call=[\d.]+,", "", value), sections["Stats"]["total_error_replies"])

        number = waiting.ask("CLIENT", "ID")[1]
        link.say("SET s string", "CONFIG SET slowlog-log-slower-than 0", "CONFIG RESETSTAT", "SLOWLOG RESET")
        waiting.send([command.encode().split()])
        link.wait_for_blocked()
        said = [counted()]
        if end:
            link.say(end.replace("%d", str(number)))
        link.wait_for_blocked(0)
        said.append(counted())
        names = [args[0][1] for args in noted(link) if args and args[0][1] in (b"RPUSH", b"ZADD", *command.encode().split()[:1])]
        told.append((said, names))
        link.say("CONFIG SET slowlog-log-slower-than 10000")
    assert told[0] == told[1]


def test_a_blocked_command_is_processed_once(server):
    link, waiting = Link(server), Link(server)

    def processed():
        return int(info(link, "stats")["Stats"]["total_commands_processed"])

    before = processed()
    waiting.send([[b"BLPOP", b"k", b"0"]])
    blocked = "blocked_clients:1\r\n"
    asked = 1
    while blocked not in link.text("INFO", "clients"):
        asked += 1
    assert processed() == before + asked + 2  # the last INFO before, the others, BLPOP
    before = processed()
    link.say("RPUSH k v")
    assert waiting.hear() == "[k, v]"
    assert processed() == before + 2


def test_resetstat_begins_to_count_again(server):
    link = Link(server)
    link.say("SET a 1", "GET a", "GET none", "NOSUCH", "PUBLISH c m")
    link.say("CONFIG RESETSTAT")
    stats = info(link, "stats")["Stats"]
    for name in ("keyspace_hits", "keyspace_misses", "total_error_replies", "pubsub_messages",
                 "total_connections_received", "expired_keys"):
        assert stats[name] == "0", name
    assert set(info(link, "commandstats")["Commandstats"]) == {"cmdstat_config|resetstat", "cmdstat_info"}


# ---- COMMAND ----

def test_command_info_has_the_types_of_redis(both):
    for proto in (2, 3):
        for name in ("get", "ping", "time", "echo"):
            rows = [Link(peer, proto).ask("COMMAND", "INFO", name)[1][0][1] for peer in both]
            for at in (0, 1, 3, 4, 5):
                assert rows[0][at] == rows[1][at], (name, at)
            for at in (2, 6, 7, 8, 9):
                assert rows[0][at][0] == rows[1][at][0], (name, at)


def test_no_command_is_in_a_category_that_redis_does_not_know(both):
    known = {item[1] for row in Link(both[1]).ask("COMMAND")[1] for item in row[1][6][1]}
    ours = {item[1] for row in Link(both[0]).ask("COMMAND")[1] for item in row[1][6][1]}
    assert ours - known == set()


def test_list_has_the_subcommands_too(both):
    for peer in both:
        link = Link(peer)
        listed = [item[1] for item in link.ask("COMMAND", "LIST")[1]]
        rows = [row[1] for row in link.ask("COMMAND")[1]]
        names = [row[0][1] for row in rows] + [sub[1][0][1] for row in rows for sub in row[9][1]]
        assert sorted(listed) == sorted(names)
        assert b"config|get" in names


def test_count_docs_and_info_tell_of_the_same_commands(server):
    link = Link(server)
    names = {row[1][0][1] for row in link.ask("COMMAND")[1]}
    assert link.ask("COMMAND", "COUNT")[1] == len(names)
    assert {item[1] for item in link.ask("COMMAND", "DOCS")[1][::2]} == names
    assert b"config|get" in {item[1] for item in
                             link.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "CONFIG|*")[1]}


@pytest.mark.parametrize("name", ["CLIENT", "CONFIG", "COMMAND", "DEBUG", "MEMORY", "OBJECT", "PUBSUB",
                                  "SLOWLOG", "SCRIPT", "FUNCTION"])
def test_help_begins_as_in_redis(both, name):
    first = [Link(peer).ask(name, "HELP")[1][0] for peer in both]
    assert first[0] == first[1]


# ---- MEMORY, DEBUG ----

def test_memory_usage_grows_with_what_a_key_holds(server):
    link = Link(server)
    link.say("SET short x", ["SET", "long", "x" * 100000], "RPUSH l 1", "RPUSH l2 " + "x " * 1000,
             "ZADD z 1 m", "HSET h f v", "SADD s m")
    used = {key: link.ask("MEMORY", "USAGE", key)[1] for key in "short long l l2 z h s".split()}
    assert all(bytes_ > 0 for bytes_ in used.values())
    assert used["long"] > 100000 > used["short"] and used["l2"] > used["l"]
    link.say("DEBUG RELOAD")
    assert all(link.ask("MEMORY", "USAGE", key, "SAMPLES", 0)[1] > 0 for key in used)


def test_memory_stats_and_doctor_answer(server):
    for proto, kind in ((2, "*"), (3, "%")):
        link = Link(server, proto)
        reply = link.ask("MEMORY", "STATS")
        assert reply[0] == kind
        stats = {reply[1][i][1]: reply[1][i + 1] for i in range(0, len(reply[1]), 2)}
        assert stats[b"keys.count"] == (":", 0) and stats[b"total.allocated"][1] >= 0
        assert link.ask("MEMORY", "DOCTOR")[0] == ("$" if proto == 2 else "=")


def test_debug_object_tells_the_type(server):
    link = Link(server)
    link.say("RPUSH l a b")
    kind, text = link.ask("DEBUG", "OBJECT", "l")
    assert kind == "+" and b" type:list " in text and b" count:2 " in text


def test_debug_reload_makes_everything_cold_and_keeps_it(server):
    link = Link(server)
    link.say("SET a 1", "RPUSH l a b", "SET brief x PX 100000")
    before = int(info(link, "tiers")["Tiers"]["loads"])
    assert link.say("DEBUG RELOAD", "GET a", "LRANGE l 0 -1", "DBSIZE") == ["+OK", "1", "[a, b]", ":3"]
    assert int(info(link, "tiers")["Tiers"]["loads"]) > before
    assert 0 < link.ask("PTTL", "brief")[1] <= 100000


# ---- SAVE, TIME, SHUTDOWN ----

def test_save_bgsave_and_lastsave(server):
    link = Link(server)
    link.say("SET a 1")
    units = int(info(link, "tiers")["Tiers"]["flush_units"])
    assert link.say("SAVE") == ["+OK"]
    assert int(info(link, "tiers")["Tiers"]["flush_units"]) > units
    link.say("SET a 2")
    units = int(info(link, "tiers")["Tiers"]["flush_units"])
    assert link.say("BGSAVE") == ["+Background saving started"]
    wait_until(lambda: int(info(link, "tiers")["Tiers"]["flush_units"]) > units)
    assert link.say("BGSAVE SCHEDULE", "BGREWRITEAOF") == [
        "+Background saving started", "+Background append only file rewriting started"]
    seconds = int(link.ask("TIME")[1][0][1])
    assert seconds - 60 <= link.ask("LASTSAVE")[1] <= seconds + 1


def test_time_never_runs_backwards(server):
    link = Link(server)
    last = (0, 0)
    for _ in range(20):
        link.send(500 * [[b"TIME"]])
        for _ in range(500):
            now = tuple(int(item[1]) for item in link.reply()[1])
            assert last <= now and now[1] < 1000000
            last = now


@pytest.mark.parametrize("line", ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE NOW FORCE",
                                  "shutdown nosave"])
def test_shutdown_ends_the_server_and_keeps_everything(start, line):
    server = start()
    link, other = Link(server), Link(server)
    other.say("SET a 1", "RPUSH l x")
    with pytest.raises(Closed):
        link.say(line)
    assert server.process.wait(100) == 0
    assert Link(start()).say("GET a", "LLEN l") == ["1", ":1"]


def test_shutdown_answers_what_is_waiting_and_frees_who_blocks(start):
    server = start()
    link, waiting = Link(server), Link(server)
    waiting.send([[b"BLPOP", b"k", b"0"]])
    link.wait_for_blocked()
    with pytest.raises(Closed):
        link.say("SHUTDOWN")
    with pytest.raises(Closed):
        waiting.hear()
    assert server.process.wait(100) == 0


CATEGORIES = """keyspace read write set sortedset list hash string bitmap pubsub admin fast slow blocking
dangerous connection transaction scripting nosuch""".split()


def listed(peer, *filter_):
    return {name for _, name in Link(peer).ask("COMMAND", "LIST", *filter_)[1]}


def test_commands_are_listed_by_category_and_module_as_in_redis(both):
    common = set.intersection(*[listed(peer, "FILTERBY", "PATTERN", "*") for peer in both])
    for category in CATEGORIES:
        ours, theirs = (listed(peer, "FILTERBY", "ACLCAT", category) & common for peer in both)
        assert ours == theirs, category
    for line in ("FILTERBY MODULE json", "FILTERBY ACLCAT", "FILTERBY ACLCAT a b", "FILTERBY what x",
                 "ACLCAT FILTERBY x"):
        ours, theirs = (Link(peer).say("COMMAND LIST " + line) for peer in both)
        assert ours == theirs, line
