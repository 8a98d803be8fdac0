# SPDX-License-Identifier: Apache-2.0
"""MULTI, EXEC, DISCARD, WATCH: what redis-server answers, and that cold keys change nothing."""
import re

import pytest

from talk import Link
from waiting import wait_until


@pytest.fixture
def both(server, oracle):
    Link(oracle).say("FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 1")
    return server, oracle


def same(both, lines, proto=2):
    """What both answer to the lines, said one by one."""
    links = [Link(peer, proto) for peer in both]
    replies = [[link.say(line)[0] for line in lines] for link in links]
    assert replies[0] == replies[1], lines
    pipelined = [Link(peer, proto).say("FLUSHALL", *lines)[1:] for peer in both]
    assert pipelined[0] == pipelined[1], lines
    return replies[0]


@pytest.mark.parametrize("lines", [
    "MULTI|SET a 1|INCR a|GET a|EXEC|GET a",
    "MULTI|EXEC",
    "MULTI|SET a 1|DISCARD|GET a|DISCARD|EXEC",
    "EXEC|DISCARD|MULTI|MULTI|SET a 1|EXEC|GET a",
    "MULTI|WATCH a|SET a 1|EXEC|GET a",
    "MULTI|UNWATCH|SET a 1|EXEC",
    "MULTI|NOSUCH|SET a 1|EXEC|GET a|EXEC",
    "MULTI|SET a|SET a 1|EXEC|GET a",
    "MULTI|CONFIG NOSUCH|EXEC",
    "MULTI|SET a 1|EXEC extra|GET a|EXEC",
    "MULTI|DISCARD extra|SET a 1|EXEC|GET a",
    "MULTI|SET a x|INCR a|LPUSH a 1|APPEND a y|EXEC|GET a",
    "SET s x|MULTI|LPUSH s 1|HSET s f v|SET b 2|ZADD s x y|EXEC|GET b",
    "MULTI|SELECT 3|SET a 1|EXEC|GET a|SELECT 0|GET a",
    "MULTI|SELECT 99|SET a 1|EXEC|GET a",
    "MULTI|FLUSHALL|SET a 1|FLUSHDB|DBSIZE|EXEC",
    "MULTI|BLPOP k 0|BRPOP k 0|BLMOVE a b LEFT LEFT 0|BRPOPLPUSH a b 0|EXEC",
    "MULTI|BZPOPMIN k 0|BZPOPMAX k 0|BLMPOP 0 1 k LEFT|BZMPOP 0 1 k MIN|EXEC",
    "MULTI|RPUSH k v|BLPOP k 0|BLPOP k 0|EXEC",
    "MULTI|WAIT 0 0|PING|ECHO x|EXEC",
    "MULTI|SHUTDOWN NOSAVE|PING|EXEC",
    "MULTI|SAVE|PING|EXEC",
    "MULTI|RESET|EXEC|SET a 1|GET a",
    "MULTI|AUTH wrong|EXEC",
    "MULTI|CLIENT SETNAME me|CLIENT GETNAME|EXEC|CLIENT GETNAME",
    "MULTI|SWAPDB 0 1|SET a 1|SWAPDB 0 1|GET a|EXEC",
    "MULTI|RENAME none b|SET a 1|EXEC|GET a",
    "MULTI|SET a 1 PX 100000|TTL a|PERSIST a|TTL a|EXEC",
    "MULTI|OBJECT HELP|EXEC extra",
    "MULTI|PUBLISH c m|SPUBLISH c m|PUBSUB CHANNELS|EXEC",
    "MULTI|MONITOR|PING|EXEC|PING",
])
@pytest.mark.parametrize("proto", (2, 3))
def test_transactions_are_answered_as_redis_answers(both, lines, proto):
    same(both, lines.split("|"), proto)


def test_commands_of_a_multi_do_not_run_before_exec(server):
    one, other = Link(server), Link(server)
    one.say("MULTI", "SET a 1", "RPUSH l x")
    assert other.say("DBSIZE") == [":0"]
    assert one.say("EXEC") == ["[+OK, :1]"]
    assert other.say("DBSIZE") == [":2"]


def test_quit_and_a_closed_connection_discard(server):
    one, two, other = Link(server), Link(server), Link(server)
    one.say("MULTI", "SET a 1")
    assert one.say("QUIT") == ["+OK"] and one.socket.recv(1) == b""
    two.say("MULTI", "SET a 1")
    two.close()
    wait_until(lambda: len(other.text("CLIENT", "LIST").splitlines()) == 1)
    assert other.say("EXISTS a") == [":0"]


def test_a_multi_of_a_thousand_commands(server):
    link = Link(server)
    replies = link.say("MULTI", *1000 * ["INCR n"], "EXEC")
    assert replies[1:-1] == 1000 * ["+QUEUED"]
    assert replies[-1] == "[" + ", ".join(f":{i}" for i in range(1, 1001)) + "]"


# ---- WATCH ----

STOPPED, RAN = "(nil array)", "[+PONG]"


@pytest.mark.parametrize("before, change, result", [
    ("SET a 1", "SET a 1", STOPPED),
    ("SET a 1", "GET a", RAN),
    ("SET a 1", "SET b 1", RAN),
    ("SET a 1", "DEL a", STOPPED),
    ("PING", "DEL a", RAN),
    ("PING", "SET a 1", STOPPED),
    ("SET a 1", "EXPIRE a 100", STOPPED),
    ("SET a 1", "PERSIST a", RAN),
    ("SET a 1 EX 100", "PERSIST a", STOPPED),
    ("SET a 1", "SETNX a 2", RAN),
    ("SET a 1", "APPEND a ''", STOPPED),
    ("SET a 1", "GETEX a", RAN),
    ("SET a 1", "TOUCH a", RAN),
    ("SET a 1", "LPUSH a x", RAN),
    ("SET a 1", "RENAME a b", STOPPED),
    ("SET b 1", "RENAME b a", STOPPED),
    ("SET a 1", "RENAME a a", RAN),
    ("SET a 1", "COPY a b", RAN),
    ("SET b 1", "COPY b a", STOPPED),
    ("SET a 1", "MOVE a 1", STOPPED),
    ("HSET a f 1", "HSET a f 1", STOPPED),
    ("HSET a f 1", "HDEL a none", RAN),
    ("SADD a m", "SADD a m", RAN),
    ("SADD a m", "SREM a m", STOPPED),
    ("ZADD a 1 m", "ZADD a 1 m", RAN),
    ("ZADD a 1 m", "ZADD a 2 m", STOPPED),
    ("RPUSH a x", "LTRIM a 0 -1", STOPPED),
    ("RPUSH a x", "LSET a 0 x", STOPPED),
    ("RPUSH a x", "LREM a 0 none", RAN),
    ("RPUSH b 1", "SORT b STORE a", STOPPED),
    ("RPUSH b x", "LMOVE b a LEFT LEFT", STOPPED),
    ("SET a 1", "FLUSHDB", STOPPED),
    ("SET a 1", "FLUSHALL", STOPPED),
    ("PING", "FLUSHDB", RAN),
    ("PING", "FLUSHALL", RAN),
    ("SET a 1", "SWAPDB 0 1", STOPPED),
    ("PING", "SWAPDB 0 1", RAN),
    ("SET a 1", "SWAPDB 1 2", RAN),
    ("SETBIT a 1 1", "SETBIT a 1 1", RAN),
    ("SET a 1", "MULTI|SET a 2|EXEC", STOPPED),
    ("SET a 1", "MULTI|SET a 2|DISCARD", RAN),
    ("SET a 1", "SELECT 1|SET a 2|FLUSHDB", RAN),
    ("SELECT 1|SET a 1|SELECT 0", "SWAPDB 0 1", STOPPED),
    ("SELECT 1|SET a 1|SELECT 0", "SWAPDB 1 0", STOPPED),
])
@pytest.mark.parametrize("cold", [False, True])
def test_a_watch_stops_what_it_stops_in_redis(both, before, change, result, cold):
    for peer in both:
        one, other = Link(peer), Link(peer)
        other.say("FLUSHALL", *before.split("|"))
        ours = peer is both[0]
        if cold and ours:
            other.say("DEBUG RELOAD")
        one.say("WATCH a")
        other.say(*change.split("|"))
        if cold and ours:
            other.say("DEBUG RELOAD")
        assert one.say("MULTI", "PING", "EXEC")[-1] == result, peer
        assert one.say("MULTI", "PING", "EXEC")[-1] == RAN, peer  # EXEC forgets what is watched


@pytest.mark.parametrize("lines, result", [
    ("SET a 1 PX 1|DEBUG SLEEP 0.01|WATCH a|MULTI|PING|EXEC", RAN),
    ("SET a 1 PX 300|WATCH a|DEBUG SLEEP 0.35|MULTI|PING|EXEC", STOPPED),
    ("SET a 1 PX 1|DEBUG SLEEP 0.01|WATCH a|GET a|MULTI|PING|EXEC", RAN),
    ("SET a 1 PX 1|DEBUG SLEEP 0.01|WATCH a|SET a 1|MULTI|PING|EXEC", STOPPED),
    ("SET a 1 PX 1|DEBUG SLEEP 0.01|WATCH a|DEL a|MULTI|PING|EXEC", RAN),
])
def test_a_watched_key_that_expires_has_changed_and_one_that_was_over_has_not(both, lines, result):
    for peer in both:
        assert Link(peer).say("DEBUG SET-ACTIVE-EXPIRE 0", *lines.split("|"))[-1] == result, peer


# What is in database 0, which is watched, and in 1; STALE: its time is over, and nobody has removed it.
NONE, ALIVE, STALE = "PING", "SET a 1", "SET a 1 PX 1"


@pytest.mark.parametrize("here, there, then, result", [
    (NONE, NONE, "PING", RAN), (NONE, STALE, "PING", RAN), (NONE, ALIVE, "PING", STOPPED),
    (STALE, NONE, "PING", RAN), (STALE, STALE, "PING", RAN), (STALE, ALIVE, "PING", STOPPED),
    (ALIVE, NONE, "PING", STOPPED), (ALIVE, STALE, "PING", STOPPED), (ALIVE, ALIVE, "PING", STOPPED),
    (NONE, ALIVE, "SWAPDB 0 1", STOPPED), (NONE, STALE, "SWAPDB 0 1", RAN), (STALE, STALE, "SWAPDB 0 1", RAN),
    (STALE, NONE, "SWAPDB 0 1", RAN), (NONE, STALE, "SET a 1|DEL a", STOPPED), (STALE, NONE, "SET a 1|DEL a", STOPPED),
    (NONE, STALE, "GET a", RAN), (NONE, NONE, "SELECT 1|SET a 1", RAN), (NONE, STALE, "SELECT 1|SET a 1|SWAPDB 0 1", STOPPED),
])
@pytest.mark.parametrize("cold", [False, True])
def test_swapdb_changes_a_watched_key_as_in_redis(both, here, there, then, result, cold):
    for peer in both:
        one, other = Link(peer), Link(peer)
        other.say("FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", here, "SELECT 1", there, "SELECT 0", "DEBUG SLEEP 0.01")
        if cold and peer is both[0]:
            other.say("DEBUG RELOAD")
        one.say("WATCH a")
        other.say("SWAPDB 0 1", *then.split("|"))
        assert one.say("MULTI", "PING", "EXEC")[-1] == result, peer
        other.say("DEBUG SET-ACTIVE-EXPIRE 1")


def test_the_sweep_of_a_key_that_came_with_swapdb_and_was_over_is_no_change(server):
    link, other = Link(server), Link(server)
    other.say("DEBUG SET-ACTIVE-EXPIRE 0", "SELECT 1", "SET a 1 PX 1", "SELECT 0", "DEBUG SLEEP 0.01")
    link.say("WATCH a")
    other.say("SWAPDB 0 1", "DEBUG SET-ACTIVE-EXPIRE 1")
    wait_until(lambda: other.say("DBSIZE") == [":0"])
    assert link.say("MULTI", "PING", "EXEC")[-1] == RAN


@pytest.mark.parametrize("lines, result", [
    ("SWAPDB 0 1|SWAPDB 0 1", STOPPED), ("SWAPDB 0 1|DEL a|SWAPDB 0 1", STOPPED), ("DEL a|SWAPDB 0 1", STOPPED),
    ("SELECT 1|DEL a|SWAPDB 0 1", RAN)])
def test_swapdb_in_a_multi_is_heard_at_its_place(both, lines, result):
    for peer in both:
        one, other = Link(peer), Link(peer)
        other.say("FLUSHALL", "SELECT 1", "SET a 1", "SELECT 0")
        one.say("WATCH a")
        other.say("MULTI", *lines.split("|"), "EXEC")
        assert one.say("MULTI", "PING", "EXEC")[-1] == result, peer


@pytest.mark.parametrize("change, result", [
    ("PING", RAN), ("SET a 2", STOPPED), ("SET a 2|DEL a", STOPPED), ("SET a 2 PX 1", STOPPED)])
def test_the_sweep_of_a_key_that_was_over_at_watch_is_no_change(server, change, result):
    link, other = Link(server), Link(server)
    other.say("DEBUG SET-ACTIVE-EXPIRE 0", "SET a 1 PX 1", "DEBUG SLEEP 0.01")
    link.say("WATCH a")
    other.say("DEBUG SET-ACTIVE-EXPIRE 1")
    wait_until(lambda: other.say("DBSIZE") == [":0"])
    other.say(*change.split("|"))
    assert link.say("MULTI", "PING", "EXEC")[-1] == result


def test_the_sweep_of_a_watched_key_stops_exec(server):
    link, other = Link(server), Link(server)
    assert link.say("SET a 1 PX 300", "WATCH a") == ["+OK", "+OK"]  # in one write: its time is not over
    wait_until(lambda: other.say("DBSIZE") == [":0"])
    assert link.say("MULTI", "PING", "EXEC")[-1] == STOPPED


@pytest.mark.parametrize("lines", [
    "WATCH a|SET a 1|UNWATCH|MULTI|PING|EXEC",
    "WATCH a|SET a 1|MULTI|PING|DISCARD|MULTI|PING|EXEC",
    "WATCH a|SET a 1|RESET|MULTI|PING|EXEC",
    "WATCH a b c|WATCH a|SET c 1|MULTI|PING|EXEC|MULTI|PING|EXEC",
    "WATCH a|SELECT 1|SET a 1|MULTI|PING|EXEC",
    "SELECT 1|WATCH a|SELECT 0|SET a 1|MULTI|PING|EXEC",
    "WATCH|UNWATCH x|MULTI|WATCH|EXEC",
    "WATCH a|SET a 1|MULTI|NOSUCH|EXEC|MULTI|PING|EXEC",
])
def test_forms_of_watch_are_answered_as_redis_answers(both, lines):
    same(both, lines.split("|"))
    same(both, lines.split("|"), 3)


def test_many_clients_that_increment_by_watch_lose_nothing(server):
    links = [Link(server) for _ in range(8)]
    done = 0
    for _ in range(10):
        for link in links:
            link.say("WATCH n")
        values = [int(link.say("GET n")[0].replace("(nil)", "0")) for link in links]
        for link, value in zip(links, values):
            done += link.say("MULTI", f"SET n {value + 1}", "EXEC")[-1] == "[+OK]"
    assert Link(server).say("GET n") == [str(done)] and done == 10


# ---- cold keys ----

def test_an_exec_that_meets_cold_keys_has_its_effects_once(server):
    link = Link(server)
    link.say("SET n 1", "RPUSH l a b c", "HSET h f 1", "ZADD z 1 m", "SADD s m", "SET gone x")
    for round_ in range(1, 6):
        queued = ["INCR n", "RPUSH l d", "HINCRBY h f 1", "ZINCRBY z 1 m", "DEL gone", "SCARD s",
                  "INCR fresh"]
        link.say("MULTI", *queued[:3])
        assert Link(server).say("DEBUG RELOAD") == ["+OK"]
        link.say(*queued[3:])
        assert Link(server).say("DEBUG RELOAD") == ["+OK"]
        gone = 1 if round_ == 1 else 0
        assert link.say("EXEC") == [
            f"[:{1 + round_}, :{3 + round_}, :{1 + round_}, {1 + round_}, :{gone}, :1, :{round_}]"]
    assert link.say("GET n", "LLEN l", "HGET h f", "ZSCORE z m", "EXISTS gone") == [
        "6", ":8", "6", "6", ":0"]


def test_every_read_of_an_exec_may_be_cold(server):
    link, control = Link(server), Link(server)
    queued = ["INCR n", "RPUSH l d", "HINCRBY h f 1", "GET none", "SMEMBERS s", "SET n x", "INCR n"]
    want = "[:1, :1, :1, (nil), [], +OK, -ERR value is not an integer or out of range]"
    for read in range(1, 40):
        control.say("FLUSHALL")
        link.say("MULTI", *queued)
        control.say(f"DEBUG COLD-INJECT {read}")
        assert link.say("EXEC") == [want], read
        control.say("DEBUG COLD-INJECT 0")


def test_counters_count_the_commands_of_an_exec_once(server):
    link, control = Link(server), Link(server)
    link.say("SET cold v", "DEBUG RELOAD", "CONFIG RESETSTAT", "MULTI", "INCR a", "GET cold",
             "LPUSH a x", "EXEC", "MULTI", "INCR a", "DISCARD")
    stats = control.text("INFO", "commandstats")
    assert "cmdstat_incr:calls=1," in stats and "cmdstat_get:calls=1," in stats
    assert "cmdstat_exec:calls=1," in stats and "cmdstat_multi:calls=2," in stats
    lpush = next(line for line in stats.splitlines() if line.startswith("cmdstat_lpush"))
    assert lpush.endswith("rejected_calls=0,failed_calls=1")


# ---- the disk ----

def test_an_exec_that_only_deletes_runs_below_the_disk_reserve(start):
    server = start(name="data")
    Link(server).say("MSET a 1 b 2 c 3")
    assert server.stop() == 0
    link = Link(start("--disk-reserve", "1000000gb", name="data"))
    assert link.say("MULTI", "DEL a", "SET d 4", "EXEC")[-1].startswith("-ERR disk reserve")
    assert link.say("MULTI", "GET a", "EXEC")[-1] == "[1]"
    assert link.say("MULTI", "DEL a", "GET b", "UNLINK b", "EXEC")[-1] == "[:1, 2, :1]"
    assert link.say("DBSIZE", "EXEC") == [":1", "-ERR EXEC without MULTI"]


# ---- what cannot be taken back ----

def cold_exec(server, link, *queued):
    """EXEC of these and of a read that is cold at the end: it runs more than once."""
    control = Link(server)
    control.say("SET x 1", "RPUSH y 1")
    before = int(control.text("INFO", "tiers").split("undos:")[1].split()[0])
    link.say("MULTI", *queued, "INCR x", "RPUSH y 2")
    control.say("DEBUG COLD-INJECT 2")  # after a reload, what is cold depends on RocksDB's version
    replies = link.say("EXEC")
    control.say("DEBUG COLD-INJECT 0")
    assert int(control.text("INFO", "tiers").split("undos:")[1].split()[0]) > before
    control.say("DEL x y")
    return replies[-1]


def test_an_exec_that_meets_cold_keys_kills_and_unblocks_once(server):
    link, victim, waiting = Link(server), Link(server), Link(server)
    kill, unblock = victim.say("CLIENT ID")[0][1:], waiting.say("CLIENT ID")[0][1:]
    waiting.send([b"BLPOP k 0".split()])
    link.wait_for_blocked()
    assert cold_exec(server, link, f"CLIENT KILL ID {kill}", f"CLIENT UNBLOCK {unblock}") == \
        "[:1, :1, :2, :2]"
    assert waiting.hear() == "(nil array)"


def test_an_exec_that_meets_cold_keys_subscribes_once_and_in_order(server):
    link = Link(server, 3)
    first = cold_exec(server, link, "PUBLISH c early", "SUBSCRIBE c", "PUBLISH c heard",
                      "CLIENT SETNAME me", "SELECT 0", "CLIENT GETNAME")
    assert sorted([first, *link.came()]) == [
        ">[message, c, heard]", "[:0, >[subscribe, c, :1], :1, +OK, +OK, me, :2, :2]"]


@pytest.mark.parametrize("lines", [
    "PUBLISH c a|SUBSCRIBE c d|PUBSUB NUMSUB c d|INCR n|UNSUBSCRIBE c d|PUBLISH c b|PING",
    "SET a 1|CONFIG SET maxclients 1000|GET a|CONFIG GET maxclients|DEL a",
    "SELECT 2|CLIENT SETNAME x|SET a 1|CLIENT GETNAME|GET a|SELECT 0|GET a",
    "HELLO 3|HSET h f v|CONFIG GET timeout|HGETALL h|HELLO 2|CONFIG GET timeout|HGETALL h",
    "CLIENT KILL ID 99999|INCR n|CLIENT UNBLOCK 99999|INCR n|CLIENT NO-EVICT ON|CLIENT SETNAME a\\ b",
    "LPUSH n x|INCR n|CONFIG SET nosuch 1|INCR n|CLIENT REPLY WHAT",
    "CLIENT SETNAME y|CLIENT REPLY ON|PUBSUB NUMSUB c|PUBSUB CHANNELS|CLIENT PAUSE 0|CLIENT UNPAUSE",
])
def test_what_an_exec_does_outside_the_store_is_answered_in_its_place(both, lines):
    heard = []
    for peer in both:
        link = Link(peer, 2 if "HELLO" in lines else 3)
        reply = link.say("MULTI", *lines.split("|"), "EXEC")[-1]
        heard.append(re.sub(r"id, :\d+", "id", reply))
        link.close()
    assert heard[0] == heard[1]


def test_an_exec_that_a_watch_stops_while_it_loads_does_nothing(server):
    for _ in range(30):
        link, other = Link(server), Link(server)
        other.say("SET x 1", "SET w 1", "DEBUG RELOAD")
        link.say("WATCH w", "MULTI", "CLIENT SETNAME late", "GET x")
        link.send([b"EXEC".split()])
        other.say("SET w 2")
        reply = link.hear()
        name = link.say("CLIENT GETNAME")[0]
        assert (reply, name) in (("(nil array)", "(nil)"), ("[+OK, 1]", "late"))
        link.close()
