# SPDX-License-Identifier: Apache-2.0
"""FUNCTION and FCALL: the bytes that redis-server answers, and libraries that are rows.

What redis-server lists in the order of its hash table (functions, libraries) is compared one by one.
"""
import re
import threading

import pytest
import redis

from iofault import Faults
from waiting import wait_until
from wire import Wire, assert_same

MB = 1024 * 1024
LIB = "#!lua name=lib\n"
COUNTER = LIB + """
redis.register_function('add', function(keys, args)
    return redis.call('incrby', keys[1], args[1])
end)
redis.register_function{function_name = 'read', callback = function(keys) return redis.call('get', keys[1]) end,
    flags = {'no-writes'}, description = 'what it is'}
"""


def one(name, library="lib", body="return 1"):
    return f"#!lua name={library}\nredis.register_function('{name}', function(keys, args) {body} end)"


@pytest.fixture
def wires(server, oracle):
    wires = Wire(server), Wire(oracle)
    for wire in wires:
        wire.say("FLUSHALL")
        wire.say("FUNCTION", "FLUSH")
    return wires


LOADS = [
    "", "x", "#!lua", "#!lua\n", "#!lua name=\n", "#!lua name=a b=c\n", "#!lua name=a name=b\n", "#!py name=a\nx",
    "#!lua name=a-b\nx", "#!lua name=lib\nsyntax error", "#!lua name=lib\nreturn 1", "#!lua name=lib\nerror('x')",
    "#!lua name=lib\nerror({err='MY x'})", "#!LUA NAME=up\nredis.register_function('up', function() return 1 end)",
    LIB + "redis.register_function('a-b', function() end)", LIB + "redis.register_function('', function() end)",
    LIB + "redis.register_function('f')", LIB + "redis.register_function('f', 1)", LIB + "redis.register_function()",
    LIB + "redis.register_function(1, 2, 3)", LIB + "redis.register_function({}, function() end)",
    LIB + "redis.register_function{}", LIB + "redis.register_function{function_name='f'}",
    LIB + "redis.register_function{callback=function() end}", LIB + "redis.register_function{[1]=2}",
    LIB + "redis.register_function{function_name='f', callback=function() end, nosuch=1}",
    LIB + "redis.register_function{function_name='f', callback=1}",
    LIB + "redis.register_function{function_name={}, callback=function() end}",
    LIB + "redis.register_function{function_name='f', callback=function() end, flags='no-writes'}",
    LIB + "redis.register_function{function_name='f', callback=function() end, flags={'nosuch'}}",
    LIB + "redis.register_function{function_name='f', callback=function() end, description={}}",
    LIB + "redis.register_function('f', function() end) redis.register_function('f', function() end)",
    LIB + "redis.call('get', 'x')", LIB + "redis.setresp(3)", LIB + "x = 1", LIB + "return x",
    LIB + "redis.register_function('f', function() return redis.REDIS_VERSION_NUM > 0 end) return 5",
]


@pytest.mark.parametrize("code", LOADS)
def test_a_library_is_loaded_or_refused_as_in_redis(wires, code):
    assert_same(wires, "FUNCTION", "LOAD", code)
    assert_same(wires, "FUNCTION", "LIST", "WITHCODE")


BODIES = [
    "return {keys, args}", "return redis.call('set', 'k', 1)", "return redis.pcall('nosuch')", "error('x')", "error({err='MY x'})",
    "return redis.error_reply('MY x')", "return redis.status_reply('x')", "return KEYS", "x = 1", "return {1.5, true, false, nil, 1}",
    "redis.setresp(3) redis.call('hset', 'h', 'f', 'v') return redis.call('hgetall', 'h')",
    "return redis.register_function('g', function() end)", "return redis.call('fcall', 'f', 0)", "return redis.call('function', 'stats')",
    "return redis.call('eval', 'return 1', 0)", "return redis.sha1hex('')", "return cjson.encode({a=1})",
    "local t = redis.call('lpush', 'k', 1) return t", "return redis.call('lpush', 'h', 1)", "redis.call('set', 'k', 2) error('late')",
    "return redis.breakpoint()", "return redis.REDIS_VERSION", "math.random = 1",
    "return redis.set_repl(redis.REPL_ALL)", "return redis.acl_check_cmd('set', 'k', 'v')", "return tostring(redis.replicate_commands)",
]


@pytest.mark.parametrize("proto", [2, 3])
def test_what_a_function_returns_is_what_it_returns_in_redis(wires, proto):
    for wire in wires:
        wire.say("HELLO", proto)
    for body in BODIES:
        assert_same(wires, "FUNCTION", "LOAD", "REPLACE", one("f", body=body))
        assert_same(wires, "FCALL", "f", 1, "key", "arg", 5)
        assert_same(wires, "FCALL_RO", "f", 0)
        assert_same(wires, "GET", "k")


COMMANDS = [
    ("FCALL", "none", 0), ("FCALL", "none", "x"), ("FCALL", "none"), ("FCALL",), ("FUNCTION",), ("FUNCTION", "NOSUCH"),
    ("FUNCTION", "LOAD"), ("FUNCTION", "LOAD", "REPLACE"), ("FUNCTION", "LOAD", "NOSUCH", COUNTER),
    ("FUNCTION", "LOAD", "REPLACE", "REPLACE", COUNTER), ("FUNCTION", "LOAD", COUNTER), ("FUNCTION", "LOAD", "replace", COUNTER),
    ("FCALL", "add", 1, "n", 5), ("FCALL", "ADD", 1, "n", 5), ("FCALL", "add", 2, "n", 5), ("FCALL", "add", 3, "n", 5),
    ("FCALL", "add", -1, "n", 5), ("FCALL", "add", "x", "n", 5), ("FCALL_RO", "add", 1, "n", 5), ("FCALL_RO", "read", 1, "n"),
    ("FCALL", "read", 1, "n"), ("FUNCTION", "LOAD", one("add", "other")), ("FUNCTION", "LOAD", one("third", "other")),
    ("FUNCTION", "LIST", "LIBRARYNAME", "oth*"), ("FUNCTION", "LIST", "LIBRARYNAME", "OTH*", "WITHCODE"),
    ("FUNCTION", "LIST", "LIBRARYNAME", "none"), ("FUNCTION", "LIST", "LIBRARYNAME"), ("FUNCTION", "LIST", "NOSUCH"),
    ("FUNCTION", "LIST", "WITHCODE", "WITHCODE"), ("FUNCTION", "LIST", "LIBRARYNAME", "a", "LIBRARYNAME", "b"),
    ("FUNCTION", "STATS"), ("FUNCTION", "STATS", "x"), ("FUNCTION", "KILL"), ("SCRIPT", "KILL"),
    ("FUNCTION", "DELETE", "nosuch"), ("FUNCTION", "DELETE", "lib"), ("FCALL", "add", 1, "n", 5), ("FUNCTION", "DELETE"),
    ("FLUSHALL",), ("FCALL", "third", 0), ("FUNCTION", "FLUSH", "NOSUCH"), ("FUNCTION", "FLUSH", "SYNC", "x"),
    ("FUNCTION", "RESTORE", "x"), ("FUNCTION", "RESTORE", "x", "NOSUCH"), ("FUNCTION", "RESTORE", "x", "FLUSH", "x"),
    ("MULTI",), ("FUNCTION", "LOAD", one("inside", "multi")), ("FCALL", "inside", 0), ("FUNCTION", "DELETE", "multi"),
    ("FCALL", "inside", 0), ("EXEC",), ("FCALL", "inside", 0), ("FUNCTION", "FLUSH", "async"), ("FCALL", "third", 0), ("FUNCTION", "LIST"),
    ("EVAL", "return redis.call('fcall', 'x', 0)", 0), ("COMMAND", "GETKEYS", "FCALL", "f", 2, "a", "b", "c"),
    ("FUNCTION", "DUMP", "x"), ("FUNCTION", "DUMP"),
]


@pytest.mark.parametrize("proto", [2, 3])
def test_commands_around_functions_answer_as_in_redis(wires, proto):
    for wire in wires:
        wire.say("HELLO", proto)
    for words in COMMANDS:
        assert_same(wires, *words)


def test_the_description_and_flags_of_functions_are_listed(server):
    client = server.client()
    client.function_load(COUNTER)
    (library,) = client.execute_command("FUNCTION", "LIST")
    functions = {entry[1]: entry[3:6:2] for entry in library[5]}
    assert functions == {b"add": [None, []], b"read": [b"what it is", [b"no-writes"]]}


# ---- DUMP and RESTORE ----

def bulk(reply):
    return reply.split(b"\r\n", 1)[1][:-2]


def test_a_dump_of_redis_is_restored_here_and_ours_there(wires):
    for wire in wires:
        wire.say("FUNCTION", "LOAD", COUNTER)
    ours, theirs = (bulk(wire.say("FUNCTION", "DUMP")) for wire in wires)
    for wire in wires:
        wire.say("FUNCTION", "FLUSH")
    assert wires[0].say("FUNCTION", "RESTORE", theirs) == b"+OK\r\n"
    assert wires[1].say("FUNCTION", "RESTORE", ours) == b"+OK\r\n"
    assert_same(wires, "FCALL", "add", 1, "n", 5)


def test_policies_of_restore_are_those_of_redis(wires):
    def both(*words):
        assert_same(wires, "FUNCTION", *words)

    dumps = []
    for codes in ((one("a", "la"), one("b", "lb")), (one("a", "la", "return 2"),), (one("a", "other"),), (one("b", "la"),)):
        both("FLUSH")
        for code in codes:
            both("LOAD", code)
        dumps.append(bulk(wires[1].say("FUNCTION", "DUMP")))
    for policy in ("APPEND", "REPLACE", "FLUSH"):
        for first in dumps:
            for second in dumps:
                both("FLUSH")
                both("RESTORE", first, policy)
                ours, theirs = (wire.say("FUNCTION", "RESTORE", second, policy) for wire in wires)
                assert re.sub(b"Library l[ab]", b"Library", ours) == re.sub(b"Library l[ab]", b"Library", theirs)
                for function in "ab":
                    assert_same(wires, "FCALL", function, 0)
                for library in ("la", "lb", "other"):
                    both("LIST", "LIBRARYNAME", library, "WITHCODE")


def test_a_damaged_dump_is_refused_and_nothing_changes(wires):
    for wire in wires:
        wire.say("FUNCTION", "LOAD", COUNTER)
    dump = bulk(wires[1].say("FUNCTION", "DUMP"))
    for at in range(0, len(dump), 7):
        assert_same(wires, "FUNCTION", "RESTORE", dump[:at] + bytes([dump[at] ^ 1]) + dump[at + 1:], "FLUSH")
        assert_same(wires, "FUNCTION", "RESTORE", dump[:at], "FLUSH")
    assert_same(wires, "FCALL", "add", 1, "n", 5)


def test_a_dump_with_a_good_checksum_and_a_bad_inside_changes_nothing(server):
    client = server.client()
    client.function_load(COUNTER)
    client.execute_command("FUNCTION", "LOAD", one("z", "zz"))
    whole = client.execute_command("FUNCTION", "DUMP")
    code = one("second", "second").encode()
    good = b"\xf5" + bytes([0x40 | len(code) >> 8, len(code) & 255]) + code
    bad = [b"\x00", b"\xf6" + good[1:], good + good, good[:-1], good + b"\xf5\xff", good + b"\xf5\x05hello",
           good + b"\xf5\x81" + b"\xff" * 8, good + b"\xf5\xc3\x01\x81" + b"\xff" * 8 + b"x", good + b"\xf5\xc0\x05"]
    for inside in bad:
        for policy in ("FLUSH", "APPEND", "REPLACE"):
            with pytest.raises(redis.ResponseError):
                client.execute_command("FUNCTION", "RESTORE", with_tail(inside), policy)
            assert client.execute_command("FUNCTION", "DUMP") == whole
    assert client.execute_command("FUNCTION", "RESTORE", with_tail(good)) == b"OK"
    assert client.fcall("second", 0) == 1


def with_tail(inside):
    inside += b"\x0a\x00"
    crc = 0
    for byte in inside:  # Jones's polynomial, reflected
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return inside + crc.to_bytes(8, "little")


# ---- libraries are rows ----

def test_libraries_are_there_after_kill_9_a_stop_and_a_reload(start):
    server = start()
    server.client().function_load(COUNTER)
    server.kill()
    server = start()
    assert server.client().fcall("add", 1, "n", 2) == 2
    server.client().execute_command("FUNCTION", "LOAD", one("more", "more"))
    assert server.stop() == 0
    server = start()
    assert server.client().fcall("more", 0) == 1
    server.client().execute_command("DEBUG", "RELOAD")
    assert server.client().fcall("add", 1, "n", 2) == 4
    server.client().flushall()
    assert server.client().fcall("add", 1, "n", 2) == 2
    server.client().execute_command("FUNCTION", "DELETE", "lib")
    server.kill()
    client = start().client()
    assert client.fcall("more", 0) == 1
    with pytest.raises(redis.ResponseError, match="Function not found"):
        client.fcall("add", 1, "n", 2)
    client.execute_command("FUNCTION", "FLUSH")
    client.execute_command("DEBUG", "RELOAD")
    assert client.execute_command("FUNCTION", "LIST") == []


def test_a_change_of_libraries_that_could_not_be_written_is_taken_back(start, tmp_path):
    faults = Faults(tmp_path)
    server = start("--durability", "always", prefix=faults.prefix())
    client = server.client()
    client.function_load(COUNTER)
    for words in (("DELETE", "lib"), ("FLUSH",), ("LOAD", "REPLACE", one("add", body="return 7")), ("LOAD", one("x", "more"))):
        faults.arm("/journal/", ("write",))
        with pytest.raises(redis.RedisError):
            client.execute_command("FUNCTION", *words)
        faults.clear()
        wait_until(lambda: writes(server))
        assert server.client().fcall("add", 1, "n", 0) == 0
        (library,) = server.client().execute_command("FUNCTION", "LIST")
        assert library[1] == b"lib"


def writes(server):
    try:
        return server.client().set("k", "v")
    except redis.RedisError:
        return False


def test_a_cold_library_is_lifted_once_for_a_call(start):
    server = start("--hot-memory", "1mb")
    client = server.client()
    for i in range(50):
        client.execute_command("FUNCTION", "LOAD", one(f"f{i}", f"l{i}", f"return {i} -- {'x' * 2000}\n"))
    client.execute_command("DEBUG", "RELOAD")
    assert client.fcall("f7", 0) == 7
    for n in range(1, 60):
        client.execute_command("DEBUG", "COLD-INJECT", n)
        client.execute_command("FUNCTION", "LOAD", "REPLACE", one("g", "again", f"return {n}"))
        assert client.fcall("g", 0) == n
    client.execute_command("DEBUG", "COLD-INJECT", 0)
    assert len(client.execute_command("FUNCTION", "LIST")) == 51


def test_an_exec_that_is_undone_leaves_the_libraries_as_they_were(server):
    """The second command finds a cold row: the first one's library is taken back and loaded again."""
    client = server.client()
    client.set("k", "v")
    for n in range(1, 12):
        client.execute_command("DEBUG", "COLD-INJECT", n)
        pipe = client.pipeline()
        pipe.execute_command("FUNCTION", "LOAD", "REPLACE", one("f", "lib", f"return redis.call('get', 'k') .. {n}"))
        pipe.get("k")
        pipe.execute_command("FCALL", "f", 0)
        assert pipe.execute() == [b"lib", b"v", b"v%d" % n]
    client.execute_command("DEBUG", "COLD-INJECT", 0)


def test_a_call_finds_the_library_as_it_was_loaded_whatever_ran_before(server):
    client = server.client()
    client.execute_command("FUNCTION", "LOAD", LIB + """
local count, seen = 0, {}
redis.log(redis.LOG_WARNING, 'loaded with state')
redis.register_function('next', function(keys, args) count = count + 1 seen[#seen + 1] = 1 return {count, #seen} end)
redis.register_function('break', function() count = 100 error('x') end)
""")
    for _ in range(3):
        assert client.fcall("next", 0) == [1, 1]
        with pytest.raises(redis.ResponseError):
            client.fcall("break", 0)
    assert server.stderr().count("loaded with state") == 1


def test_two_names_that_differ_by_case_alone_are_one(server):
    client = server.client()
    with pytest.raises(redis.ResponseError, match="Function already exists in the library"):
        client.execute_command("FUNCTION", "LOAD", one("f") + "\nredis.register_function('F', function() end)")
    client.execute_command("FUNCTION", "LOAD", one("name"))
    with pytest.raises(redis.ResponseError, match="Function name already exists"):
        client.execute_command("FUNCTION", "LOAD", one("NAME", "other"))


# ---- limits ----

def test_a_library_that_loads_for_ever_is_refused(server):
    client = server.client(socket_timeout=100)
    with pytest.raises(redis.ResponseError, match="FUNCTION LOAD timeout"):
        client.execute_command("FUNCTION", "LOAD", LIB + "while true do end")
    assert client.ping()


def test_names_and_descriptions_are_bounded(server):
    client = server.client(socket_timeout=100)
    body = """local big = 'x' for i = 1, 20 do big = big .. big end
for i = 1, 60000 do redis.register_function{%s, callback = function() end} end"""
    for fields in ("function_name = big .. i", "function_name = 'f' .. i, description = big .. i"):
        with pytest.raises(redis.ResponseError, match="names and descriptions of a library are too long"):
            client.execute_command("FUNCTION", "LOAD", LIB + body % fields)
    assert client.info("memory")["number_of_libraries"] == 0


def test_libraries_hold_a_quarter_of_lua_memory_and_the_rest_is_refused(start):
    client = start("--lua-memory", "8mb").client()
    text = "x" * (MB // 2)
    with pytest.raises(redis.ResponseError, match="a quarter of lua-memory"):
        for i in range(100):
            client.execute_command("FUNCTION", "LOAD", one(f"f{i}", f"l{i}", f"return {i} --[[{text}]]"))
    assert client.fcall("f2", 0) == 2
    assert client.info("memory")["used_memory_functions"] <= 2 * MB
    for _ in range(50):  # what is replaced does not count
        client.execute_command("FUNCTION", "LOAD", "REPLACE", one("f2", "l2", f"return 2 --[[{text}]]"))


def test_libraries_that_do_not_fit_any_more_are_told_and_come_back(start):
    server = start("--lua-memory", "64mb")
    client = server.client()
    client.function_load(COUNTER)
    client.execute_command("FUNCTION", "LOAD", "#!lua name=huge\nlocal t = {} for i = 1, 900000 do t[i] = i end"
                           " redis.register_function('huge', function() return #t end)")
    server.kill()
    server = start("--lua-memory", "8mb")
    client = server.client()
    assert client.fcall("add", 1, "n", 1) == 1
    with pytest.raises(redis.ResponseError, match="Function not found .library huge could not be loaded: .*memory"):
        client.fcall("huge", 0)
    assert "function library huge could not be loaded" in server.stderr()
    assert client.info("memory")["libraries_not_loaded"] == 1
    assert b"huge" in client.execute_command("FUNCTION", "DUMP")
    client.config_set("lua-memory", "64mb")
    assert client.fcall("huge", 0) == 900000
    assert client.info("memory")["libraries_not_loaded"] == 0


def test_a_busy_function_is_told_and_killed(start):
    server = start("--busy-reply-threshold", "50")
    client = server.client(socket_timeout=100)
    client.execute_command("FUNCTION", "LOAD", one("spin", body="while true do end"))
    caller = Wire(server)
    caller.send("FCALL", "spin", 0, "an argument")
    other = server.client(socket_timeout=100)
    wait_until(lambda: "a slow script" in server.stderr())
    with pytest.raises(redis.ResponseError, match="BUSY|You can only call FUNCTION KILL"):
        other.get("k")
    stats = other.execute_command("FUNCTION", "STATS")
    assert stats[1][1] == b"spin" and stats[1][3] == [b"FCALL", b"spin", b"0", b"an argument"]
    with pytest.raises(redis.ResponseError, match="BUSY|You can only call FUNCTION KILL"):
        other.script_kill()
    assert other.execute_command("FUNCTION", "KILL") == b"OK"
    assert b"Script killed by user with FUNCTION KILL" in caller.read()
    with pytest.raises(redis.ResponseError, match="NOTBUSY"):
        other.execute_command("FUNCTION", "KILL")


def test_functions_of_many_clients_while_libraries_change(server):
    """Every answer is one of a version that was there."""
    server.client().execute_command("FUNCTION", "LOAD", one("version", "lib", "return 0"))
    seen, stop = [], threading.Event()

    def call():
        client = server.client()
        while not stop.is_set():
            seen.append(client.fcall("version", 0))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    client = server.client()
    for version in range(1, 200):
        client.execute_command("FUNCTION", "LOAD", "REPLACE", one("version", "lib", f"return {version}"))
        assert client.fcall("version", 0) == version
    stop.set()
    for caller in callers:
        caller.join()
    assert set(seen) <= set(range(200))
