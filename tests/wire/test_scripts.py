# SPDX-License-Identifier: Apache-2.0
"""EVAL, EVALSHA and SCRIPT: the bytes that redis-server answers, and what is ours beyond them.

A script is one commit: it is there whole or not at all after a crash, meets rows that are on disk, and
what it tells is told once.
"""
import pathlib
import threading

import pytest
import redis

from waiting import wait_until
from wire import Wire, assert_same

SNIPPETS = (pathlib.Path(__file__).parent / "scripts" / "snippets.lua").read_bytes()
MB = 1024 * 1024


@pytest.fixture
def wires(server, oracle):
    wires = Wire(server), Wire(oracle)
    for wire in wires:
        wire.say("FLUSHALL")
        wire.say("SCRIPT", "FLUSH")
    return wires


@pytest.mark.parametrize("proto", [2, 3])
def test_every_snippet_answers_the_bytes_that_redis_answers(wires, proto):
    for wire in wires:
        wire.say("HELLO", proto)
    for snippet in SNIPPETS.split(b"\n---\n"):
        assert_same(wires, "EVAL", snippet.strip(b"\n"), 2, "k1", "k2", "a1", 5)


SHA_OF_RETURN_1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
COMMANDS = [
    ("EVAL", "return redis.call('set', KEYS[1], ARGV[1])", 1, "a", "b"),
    ("EVAL", "return redis.call('get', KEYS[1])", 1, "a"),
    ("EVAL", "return {redis.call('get', 'none'), redis.call('hgetall', 'none'), redis.call('incr', 'n'),"
             " redis.call('lpush', 'l', 1, 2, 3), redis.call('lrange', 'l', 0, -1)}", 0),
    ("EVAL", "redis.call('set', 'x', 1) redis.call('lpush', 'x', 1)", 0),
    ("GET", "x"),
    ("EVAL", "return redis.pcall('lpush', 'x', 1)", 0),
    ("EVAL", "return redis.pcall('lpush', 'x', 1)['err']", 0),
    ("EVAL", "return redis.call('subscribe', 'x')", 0),
    ("EVAL", "return redis.call('get')", 0),
    ("EVAL", "return redis.call('config', 'get', 'x')", 0),
    ("EVAL", "return redis.call('config', 'nosuch', 'x')", 0),
    ("EVAL", "return redis.call('config')", 0),
    ("EVAL_RO", "return redis.call('set', 'a', 'c')", 0),
    ("EVAL_RO", "return redis.call('get', 'a')", 0),
    ("EVAL_RO", "return redis.call('publish', 'a', 'b')", 0),
    ("EVAL", "#!lua flags=no-writes\nreturn redis.call('set', 'a', 'c')", 0),
    ("EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('get', 'a')", 0),
    ("EVAL_RO", "#!lua\nreturn 1", 0),
    ("EVAL", "#!lua\nreturn 1", 0),
    ("EVAL", "#!lua\n\nerror('line')", 0),
    ("EVAL", "#!lua flags=foo\nreturn 1", 0),
    ("EVAL", "#!py\nreturn 1", 0),
    ("EVAL", "#!lua", 0),
    ("EVAL", "#!lua bad=1\nreturn 1", 0),
    ("EVALSHA", "x", 0),
    ("EVALSHA", "f" * 40, 0),
    ("EVALSHA", SHA_OF_RETURN_1.upper(), 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("EVALSHA", SHA_OF_RETURN_1.upper(), 0),
    ("EVALSHA_RO", SHA_OF_RETURN_1, 0),
    ("SCRIPT", "EXISTS", SHA_OF_RETURN_1, "x"),
    ("EVAL", "return 1", -1),
    ("EVAL", "return 1", 5),
    ("EVAL", "return 1", "x"),
    ("EVAL", "return 1"),
    ("SCRIPT", "KILL"),
    ("SCRIPT", "FLUSH"),
    ("SCRIPT", "FLUSH", "NOW"),
    ("EVALSHA", SHA_OF_RETURN_1, 0),
    ("SCRIPT", "LOAD", "syntax err"),
    ("SCRIPT", "LOAD"),
    ("SCRIPT", "NOSUCH"),
    ("SCRIPT",),
    ("EVAL", "redis.call('select', 5) redis.call('set', 'in5', 1) return redis.call('get', 'in5')", 0),
    ("GET", "in5"),
    ("MULTI",),
    ("EVAL", "return redis.call('incr', 'mm')", 0),
    ("EVAL", "redis.call('incr', 'mm') error('x')", 0),
    ("EVALSHA", "f" * 40, 0),
    ("GET", "mm"),
    ("EXEC",),
    ("EVAL", "return redis.call('PING')", 0),
    ("EVAL", "redis.setresp(3) redis.call('hset', 'h', 'f', 1) return redis.call('hgetall', 'h')", 0),
    ("EVAL", "redis.setresp(3) redis.call('zadd', 'z', 1.5, 'a')"
             " return {redis.call('zscore', 'z', 'a'), redis.call('zrange', 'z', 0, -1, 'withscores')}", 0),
    ("EVAL", "redis.call('sadd', 's', 'a') redis.setresp(3) return redis.call('smembers', 's')", 0),
    ("EVAL", "redis.setresp(3) return redis.call('get', 'none')", 0),
    ("EVAL", "return redis.call('time')[1] + 0 > 1000", 0),
    ("EVAL", "return {redis.call('set', 'e', '1', 'px', 100000), redis.call('pttl', 'e') > 90000}", 0),
    ("EVAL", "return redis.call('blpop', 'none', 1)", 0),
    ("EVAL", "return redis.call('eval', 'return 1', 0)", 0),
    ("EVAL", "return redis.call('multi')", 0),
    ("EVAL", "return redis.call('incrby', 'x', 'notint')", 0),
    ("EVAL", "return redis.call('incrbyfloat', 'fl', 1.5)", 0),
    ("EVAL", "redis.call('set', 'num', 1.0) redis.call('set', 'num2', 3.3)"
             " return {redis.call('get', 'num'), redis.call('get', 'num2')}", 0),
    ("EVAL", "return redis.call('mget', 'a', 'none')", 0),
    ("EVAL", "return redis.call('type', 'a')", 0),
    ("EVAL", "return redis.call('sort', 'l')", 0),
    ("EVAL", "return redis.call('publish', 'ch', 'x')", 0),
    ("COMMAND", "GETKEYS", "EVAL", "x", 2, "a", "b", "c"),
]


@pytest.mark.parametrize("proto", [2, 3])
def test_commands_around_scripts_answer_as_in_redis(wires, proto):
    for wire in wires:
        wire.say("HELLO", proto)
    for words in COMMANDS:
        assert_same(wires, *words)


def test_a_setting_of_a_library_ends_with_the_script(server):
    client = server.client()
    assert client.eval("cjson.encode_number_precision(3) return cjson.encode(1/3)", 0) == b"0.333"
    assert client.eval("return cjson.encode(1/3)", 0) == b"0.33333333333333"


# ---- one commit ----

TRANSFER = """
local from, to = redis.call('get', KEYS[1]), redis.call('hget', KEYS[2], 'sum')
redis.call('set', KEYS[1], from - ARGV[1])
redis.call('hset', KEYS[2], 'sum', (to or 0) + ARGV[1])
redis.call('rpush', KEYS[3], ARGV[1])
redis.call('zadd', KEYS[4], ARGV[1], 'last')
redis.call('publish', 'moved', ARGV[1])
return {redis.call('get', KEYS[1]), redis.call('hget', KEYS[2], 'sum'), redis.call('lrange', KEYS[3], 0, -1)}
"""


def test_a_cold_row_anywhere_in_a_script_changes_nothing_and_is_told_once(server):
    client = server.client()
    heard = client.pubsub()
    heard.subscribe("moved")
    assert heard.get_message(timeout=100)["type"] == "subscribe"
    client.set("from", 1000)
    done = 0
    for n in range(1, 40):
        client.execute_command("DEBUG", "COLD-INJECT", n)
        done += 1
        reply = client.eval(TRANSFER, 4, "from", "to", "log", "z", 1)
        assert reply[:2] == [str(1000 - done).encode(), str(done).encode()]
        assert len(reply[2]) == done
        assert heard.get_message(timeout=100)["data"] == b"1"
    client.execute_command("DEBUG", "COLD-INJECT", 0)
    assert client.llen("log") == done
    assert heard.get_message() is None


def test_nothing_catches_that_a_row_is_cold(server):
    client = server.client()
    client.set("k", "v")
    catchers = ["local ok, v = pcall(redis.call, 'get', 'k') return v",
                "return redis.pcall('get', 'k')",
                "local ok, v = xpcall(function() return redis.call('get', 'k') end,"
                " function() return 'handled' end) return v",
                "local co = coroutine.create(function() return redis.call('get', 'k') end)"
                " local ok, v = coroutine.resume(co) return v",
                "return coroutine.wrap(function() return redis.call('get', 'k') end)()",
                "local t = {2, 1} local v table.sort(t, function(a, b)"
                " v = redis.call('get', 'k') return a < b end) return v",
                "return (string.gsub('x', 'x', function() return redis.call('get', 'k') end))",
                "return tostring(setmetatable({}, {__index = function(t, k)"
                " return redis.call('get', 'k') end}).x)"]
    for script in catchers:
        for n in (1, 2):
            client.execute_command("DEBUG", "COLD-INJECT", n)
            assert client.eval(script, 0) == b"v", script
    client.execute_command("DEBUG", "COLD-INJECT", 0)


def test_a_script_reads_what_is_on_disk(start):
    server = start("--hot-memory", "16mb")
    client = server.client()
    count = 3000
    pipe = client.pipeline(transaction=False)
    for i in range(count):
        pipe.set(f"key:{i}", f"{i}:" + "x" * 2000)
    pipe.execute()
    client.execute_command("DEBUG", "RELOAD")
    script = "local n = 0 for _, key in ipairs(KEYS) do n = n + #redis.call('get', key) end return n"
    keys = [f"key:{i}" for i in range(0, count, 10)]
    assert client.eval(script, len(keys), *keys) == sum(len(str(i)) + 2001 for i in range(0, count, 10))
    # Names that the script makes itself: each is found cold in its turn.
    script = "local n = 0 for i = 5, 300, 10 do n = n + #redis.call('get', 'key:' .. i) end return n"
    assert client.eval(script, 0) == sum(len(str(i)) + 2001 for i in range(5, 301, 10))


def test_a_script_that_was_killed_with_the_server_is_whole_or_absent(start):
    server = start()
    client = server.client()
    client.set("alive", 1)
    script = ("for i = 1, 10000 do redis.call('hset', KEYS[1], i, ARGV[1]) end"
              " redis.call('incr', 'done') return 1")
    stop = threading.Event()

    def write():
        try:
            peer = server.client()
            for n in range(1000):
                peer.eval(script, 1, f"h:{n}", n)
                if n >= 2:
                    stop.set()
        except redis.RedisError:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert stop.wait(100)
    server.kill()
    writer.join()
    client = start().client()
    done = int(client.get("done"))
    assert done >= 3
    for n in range(done + 3):
        assert client.hlen(f"h:{n}") == (10000 if n < done else 0)


def test_an_error_keeps_what_was_written_before_it(server):
    client = server.client()
    with pytest.raises(redis.ResponseError, match="wrong kind of value"):
        client.eval("redis.call('set', 'a', 1) redis.call('lpush', 'a', 1) redis.call('set', 'b', 1)", 0)
    assert client.get("a") == b"1"
    assert client.get("b") is None


def test_watch_sees_a_script_and_a_blocked_client_is_served_by_one(server):
    one, other = server.client(), server.client()
    pipe = one.pipeline()
    pipe.watch("watched")
    other.eval("redis.call('set', 'watched', 1)", 0)
    pipe.multi()
    pipe.get("watched")
    with pytest.raises(redis.WatchError):
        pipe.execute()
    wire = Wire(server)
    wire.send("BLPOP", "queue", 0)
    wait_until(lambda: other.info("clients")["blocked_clients"] == 1)
    other.eval("redis.call('rpush', 'queue', 'job')", 0)
    assert wire.read() == b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n"


def test_monitor_shows_the_script_and_its_calls_once(server):
    client = server.client()
    client.set("k", "v")
    watcher = Wire(server)
    assert watcher.say("MONITOR") == b"+OK\r\n"
    client.execute_command("DEBUG", "COLD-INJECT", 1)
    client.eval("return redis.call('get', KEYS[1])", 1, "k")
    lines = []
    while not lines or b'"get" "k"' not in lines[-1]:
        lines.append(watcher.read())
    client.execute_command("DEBUG", "COLD-INJECT", 0)
    assert [b" lua] " in line for line in lines[-2:]] == [False, True], lines
    client.eval("return 5", 0)
    assert b'"return 5"' in watcher.read()


def test_statistics_count_a_script_and_its_calls_once(server):
    client = server.client()
    client.set("k", "v")
    client.config_resetstat()
    client.execute_command("DEBUG", "COLD-INJECT", 1)
    client.eval("redis.call('get', 'k') return redis.pcall('lpush', 'k', 1)['err']", 0)
    client.execute_command("DEBUG", "COLD-INJECT", 0)
    stats = client.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 1
    assert stats["cmdstat_get"]["calls"] == 1
    assert stats["cmdstat_lpush"]["failed_calls"] == 1


# ---- limits ----

HOSTILE = [
    ("local t = {} while true do t[#t + 1] = string.rep(#t .. 'x', 100) end", "not enough memory"),
    ("local s = 'x' while true do s = s .. s end", "not enough memory"),
    ("local function f() return 1 + f() end return f()", "stack overflow"),
    ("local function f() coroutine.wrap(f)() end f()", "C stack overflow"),
    ("return string.rep('x', 1e9)", "too large"),
    ("return string.find(string.rep('a', 1000), string.rep('a?', 100000) .. 'b')", "too complex"),
    ("return #unpack({}, 1, 1e8)", "too many results"),
    ("return loadstring(string.rep('(', 10000))()", "attempt to call a nil value"),
    ("return loadstring('\\27Lua')()", "attempt to call a nil value"),
    ("local t = {} for i = 1, 300 do t = {t} end return cjson.encode(setmetatable({}, {__index = t}))", None),
    ("return cjson.decode(string.rep('[', 100000))", "too many nested"),
    ("return cmsgpack.unpack(string.rep('\\145', 100000))", "stack overflow"),
    ("return struct.unpack('c0', 'x')", "previous size"),
    ("return table.insert({}, -2147483648, 1)", "out of bounds"),
    ("return redis.call(unpack({}, 1, 7000))", "must be strings"),
    ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
    ("error(setmetatable({}, {__tostring = error}))", "unknown error"),
    ("error()", "nil"),
]


def test_hostile_scripts_end_with_an_error_and_leave_the_server_as_it_was(start):
    server = start("--lua-memory", "16mb")
    client = server.client()
    for script, text in HOSTILE:
        if text is None:
            client.eval(script, 0)
            continue
        with pytest.raises(redis.ResponseError, match=text):
            client.eval(script, 0)
    assert client.eval("local t = {} for i = 1, 1000 do t[i] = i end return #t", 0) == 1000


def test_a_reply_that_nests_in_itself_ends(server):
    wire = Wire(server)
    wire.send("EVAL", "local a = {} a[1] = a return a", 0)
    while not (line := wire.file.readline()).startswith(b"-"):
        assert line == b"*1\r\n"
    assert b"reached lua stack limit" in line
    assert wire.say("PING") == b"+PONG\r\n"


def test_the_cache_of_scripts_is_bounded_and_keeps_what_was_loaded(start):
    server = start("--lua-memory", "8mb")
    client = server.client()
    sha = client.script_load("return 'kept'")
    for i in range(60):
        client.eval(f"return {i} --" + "x" * 100_000, 0)
    assert client.evalsha(sha, 0) == b"kept"
    info = client.info("memory")
    assert 1 < info["number_of_cached_scripts"] < 60
    assert 2 * MB > info["used_memory_scripts_eval"] > MB
    assert 0 < info["used_memory_vm_eval"] <= 8 * MB
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha("0" * 40, 0)


# ---- busy ----

ENDLESS = "while true do end"
ENDLESS_PATTERN = "return string.find(string.rep('a', 5000), '.-.-.-.-.-.-b')"


@pytest.fixture
def busy(start):
    return start("--busy-reply-threshold", "1")


def busy_begin(server, script):
    """Starts the script; gives who sent it, when others hear BUSY."""
    sender, other = Wire(server), Wire(server)
    sender.send("EVAL", script, 0)
    wait_until(lambda: other.say("PING").startswith(b"-BUSY"))
    return sender, other


@pytest.mark.parametrize("script", [ENDLESS, ENDLESS_PATTERN,
                                    "while true do pcall(function() while true do end end) end",
                                    "while true do xpcall(function() while true do end end, print) end"
                                    .replace("print", "tostring"),
                                    "while true do coroutine.wrap(function() while true do end end)() end"])
def test_others_hear_busy_and_may_kill(busy, script):
    sender, other = busy_begin(busy, script)
    assert other.say("GET", "x") == (b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL"
                                     b" or SHUTDOWN NOSAVE.\r\n")
    assert other.say("SCRIPT", "KILL") == b"+OK\r\n"
    assert b"killed by user" in sender.read()
    assert other.say("PING") == b"+PONG\r\n"
    assert other.say("SCRIPT", "KILL").startswith(b"-NOTBUSY")
    assert sender.say("EVAL", "return 1", 0) == b":1\r\n"


def test_who_has_written_cannot_be_killed_but_by_the_end_of_the_server(busy):
    sender, other = busy_begin(busy, "redis.call('set', 'half', 1) while true do end")
    assert other.say("SCRIPT", "KILL").startswith(b"-UNKILLABLE")
    other.send("SHUTDOWN", "NOSAVE")
    assert other.file.readline() == b""
    wait_until(lambda: busy.process.poll() is not None)


def test_a_script_that_was_taken_back_by_a_stop_has_written_nothing(start):
    server = start("--busy-reply-threshold", "1")
    busy_begin(server, "redis.call('set', 'half', 1) while true do end")
    server.stop()
    assert start().client().get("half") is None


def test_a_pipeline_behind_a_busy_script_is_answered_in_order(busy):
    sender, other = busy_begin(busy, ENDLESS)
    sender.send("ECHO", "after")
    for _ in range(20):
        other.send("PING")
    assert all(other.read().startswith(b"-BUSY") for _ in range(20))
    assert other.say("SCRIPT", "KILL") == b"+OK\r\n"
    assert b"killed by user" in sender.read()
    assert sender.read() == b"$5\r\nafter\r\n"


def test_a_transaction_begun_before_a_busy_script_is_aborted_by_busy(busy):
    multi = Wire(busy)
    assert multi.say("MULTI") == b"+OK\r\n"
    _, other = busy_begin(busy, ENDLESS)
    assert multi.say("INCR", "x").startswith(b"-BUSY")
    assert other.say("SCRIPT", "KILL") == b"+OK\r\n"
    assert multi.say("EXEC").startswith(b"-EXECABORT")
