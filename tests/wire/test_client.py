# SPDX-License-Identifier: Apache-2.0
"""CLIENT, HELLO, AUTH, RESET: redis-server is asked the same."""
import re

import pytest

from diff.resp import Closed
from diff.servers import Oracle
from talk import Link
from waiting import wait_until


@pytest.fixture
def both(server, oracle):
    Link(oracle).say("FLUSHALL", "CONFIG SET requirepass ''")
    return server, oracle


def fields(line):
    return dict(part.split("=", 1) for part in line.strip().split(" "))


def listed(link, *args):
    return [fields(line) for line in link.text("CLIENT", "LIST", *args).splitlines()]


def is_closed(link):
    try:
        link.reply()
    except Closed as closed:
        return "closed" in str(closed) or "reset" in str(closed)
    return False


# ---- LIST, INFO ----

def test_list_and_info_have_the_fields_of_redis_in_their_order(both):
    ours, theirs = (fields(Link(peer).text("CLIENT", "INFO")) for peer in both)
    assert list(ours) == [*theirs, "lib-name", "lib-ver"]  # these two of Redis 7.2
    ours, theirs = (listed(Link(peer))[0] for peer in both)
    assert list(ours) == [*theirs, "lib-name", "lib-ver"]


def test_a_client_tells_which_library_it_is_as_to_redis_7_2(server):
    link = Link(server)
    assert link.say("CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO lib-ver 5.0.1") == ["+OK", "+OK"]
    assert link.say("CLIENT SETINFO lib-foo 1", "CLIENT SETINFO lib-name 'a b'", "CLIENT SETINFO LIB-VER",
                    "CLIENT SETINFO lib-ver '1\n'") == [
        "-ERR Unrecognized option 'lib-foo'",
        "-ERR lib-name cannot contain spaces, newlines or special characters.",
        "-ERR wrong number of arguments for 'client|setinfo' command",
        "-ERR lib-ver cannot contain spaces, newlines or special characters."]
    link.say("RESET")  # the library stays
    for one in (fields(link.text("CLIENT", "INFO")), listed(Link(server), "ID", link.ask("CLIENT", "ID")[1])[0]):
        assert (one["lib-name"], one["lib-ver"]) == ("redis-py", "5.0.1")
    assert link.say("MULTI", "CLIENT SETINFO LIB-VER ''", "EXEC") == ["+OK", "+QUEUED", "[+OK]"]
    assert fields(link.text("CLIENT", "INFO"))["lib-ver"] == ""


def test_list_tells_what_the_buffers_of_a_client_hold(both):
    for peer in both:
        link = Link(peer)
        own = listed(link)[-1]  # its command is still in its input
        assert (own["qbuf"], own["argv-mem"]) == ("26", "10")
        assert [own[name] for name in ("multi-mem", "obl", "oll", "omem")] == ["0"] * 4
        assert int(own["tot-mem"]) >= int(own["qbuf"]) + int(own["qbuf-free"])

        def one(other):
            return {name: int(value) for name, value in listed(link, "ID", other.number)[0].items()
                    if name in "qbuf argv-mem multi-mem rbs rbp obl oll omem tot-mem".split()}

        half = Link(peer)
        half.number = half.ask("CLIENT", "ID")[1]
        idle = one(half)
        assert idle["qbuf"] == idle["argv-mem"] == idle["multi-mem"] == idle["omem"] == 0
        half.socket.sendall(b"*2\r\n$3\r\nGET\r\n$100000\r\n" + b"x" * 50000)
        wait_until(lambda: one(half)["qbuf"] >= 50000)
        assert one(half)["tot-mem"] >= idle["tot-mem"] + 30000

        queue = Link(peer)
        queue.number = queue.ask("CLIENT", "ID")[1]
        queue.say("MULTI", ["SET", "k", "x" * 50000])
        assert one(queue)["multi-mem"] >= 50000 and one(queue)["tot-mem"] >= 50000

        deaf = Link(peer)
        deaf.number = deaf.ask("CLIENT", "ID")[1]
        link.say(["SET", "v", "x" * 100000])
        for _ in range(30):
            deaf.send([[b"GET", b"v"]] * 10)
        wait_until(lambda: one(deaf)["omem"] > 1000000)
        wait = one(deaf)
        assert wait["omem"] / wait["oll"] < 200000 and wait["tot-mem"] >= wait["omem"] and wait["rbs"] > 0
        while one(deaf)["omem"] + one(deaf)["obl"] > 0:  # it takes all of them
            deaf.socket.recv(1 << 20)
        assert one(deaf)["oll"] == 0


@pytest.mark.parametrize("lines, names", [
    ("PING", "name db sub psub ssub multi cmd user redir resp flags"),
    ("CLIENT SETNAME me|SELECT 3", "name db cmd"),
    ("HELLO 3|PING", "resp"),
    ("MULTI|SET a 1|GET a", "multi flags cmd"),
    ("WATCH a|MULTI|SET b 1", "multi flags cmd"),
    ("WATCH a|SET a 1", "flags"),
    ("SUBSCRIBE a|SUBSCRIBE b|PSUBSCRIBE p*|SSUBSCRIBE s", "sub psub ssub flags cmd"),
    ("CLIENT NO-EVICT ON", "flags cmd"),
    ("MONITOR", "flags cmd"),
    ("NOSUCH", "cmd"),
    ("GET", "cmd"),
    ("CONFIG GET port", "cmd"),
])
def test_list_tells_of_a_client_what_redis_tells(both, lines, names):
    told = []
    for peer in both:
        link, asking = Link(peer), Link(peer)
        number = link.ask("CLIENT", "ID")[1]
        link.say(*lines.split("|"))
        one = listed(asking, "ID", number)[0]
        told.append({name: one[name] for name in names.split()})
        assert one["addr"] == "127.0.0.1:%d" % link.socket.getsockname()[1]
        assert one["laddr"] == f"127.0.0.1:{peer.port}"
    assert told[0] == told[1]


def test_a_blocked_client_is_marked(server):
    link, asking = Link(server), Link(server)
    number = link.ask("CLIENT", "ID")[1]
    link.send([[b"BLPOP", b"k", b"0"]])
    asking.wait_for_blocked()
    one = listed(asking, "ID", number)[0]
    assert (one["flags"], one["cmd"]) == ("b", "blpop")


def test_list_can_be_limited_to_a_type_or_to_ids(both):
    for peer in both:
        one, two, three = Link(peer), Link(peer), Link(peer)
        ids = [str(link.ask("CLIENT", "ID")[1]) for link in (one, two, three)]
        two.say("SUBSCRIBE c")
        assert [each["id"] for each in listed(three, "TYPE", "PubSub")] == [ids[1]]
        assert ids[1] not in [each["id"] for each in listed(three, "TYPE", "normal")]
        assert [each["id"] for each in listed(three, "ID", ids[2], 999999, ids[0])] == [
            ids[2], ids[0]]
        assert listed(three, "TYPE", "master") == listed(three, "TYPE", "replica") == []


@pytest.mark.parametrize("line", """
CLIENT|CLIENT NOPE|CLIENT ID x|CLIENT INFO x|CLIENT GETNAME|CLIENT GETNAME x|CLIENT SETNAME
CLIENT SETNAME 'a b'|CLIENT SETNAME ''|CLIENT LIST ID|CLIENT LIST ID x|CLIENT LIST TYPE
CLIENT LIST TYPE nope|CLIENT LIST nope|CLIENT LIST nope nope|CLIENT KILL|CLIENT KILL nope
CLIENT KILL ID|CLIENT KILL ID x|CLIENT KILL ID 0|CLIENT KILL ID -1|CLIENT KILL ID 999999
CLIENT KILL TYPE nope|CLIENT KILL TYPE master|CLIENT KILL USER nope|CLIENT KILL USER default ID 999999
CLIENT KILL ADDR 1.2.3.4:5|CLIENT KILL LADDR 1.2.3.4:5|CLIENT KILL SKIPME nope|CLIENT KILL nope 1
CLIENT KILL ID 999999 nope|CLIENT KILL ID 999999 nope 1|CLIENT PAUSE|CLIENT PAUSE x|CLIENT PAUSE -1
CLIENT PAUSE 1 nope|CLIENT PAUSE 1 ALL x|CLIENT UNPAUSE|CLIENT UNPAUSE x|CLIENT UNBLOCK
CLIENT UNBLOCK x|CLIENT UNBLOCK 999999|CLIENT UNBLOCK 999999 nope|CLIENT UNBLOCK 999999 TIMEOUT
CLIENT UNBLOCK 999999 ERROR|CLIENT NO-EVICT|CLIENT NO-EVICT nope|CLIENT NO-EVICT on
CLIENT NO-EVICT OFF|CLIENT REPLY|CLIENT REPLY nope|CLIENT GETREDIR|CLIENT GETREDIR x
HELLO x|HELLO 1|HELLO 4|HELLO 3 nope|HELLO 3 AUTH a|HELLO 3 AUTH a b|HELLO 3 SETNAME
HELLO 2 SETNAME 'a b'|AUTH|AUTH x|AUTH x y|AUTH x y z|RESET x|SELECT|SELECT x|SELECT -1|SELECT 99999
SELECT 99999999999|ECHO|QUIT
""".replace("\n", "|").strip("|").split("|"))
@pytest.mark.parametrize("proto", (2, 3))
def test_answers_are_those_of_redis(both, line, proto):
    ours, theirs = (Link(peer, proto).say(line) for peer in both)
    assert ours == theirs


def test_ids_grow_and_are_never_used_again(server):
    numbers = []
    for _ in range(5):
        link = Link(server)
        numbers.append(link.ask("CLIENT", "ID")[1])
        link.close()
    assert numbers == sorted(set(numbers))


# ---- KILL ----

def test_kill_by_address_id_type_and_own_address(server):
    killer = Link(server)
    for how in ("address", "old", "id", "type"):
        victim = Link(server)
        number = victim.ask("CLIENT", "ID")[1]
        if how == "type":
            victim.say("SUBSCRIBE c")
        address = "127.0.0.1:%d" % victim.socket.getsockname()[1]
        reply = killer.say({"address": f"CLIENT KILL ADDR {address}", "old": f"CLIENT KILL {address}",
                            "id": f"CLIENT KILL ID {number}",
                            "type": "CLIENT KILL TYPE pubsub"}[how])
        assert reply == (["+OK"] if how == "old" else [":1"])
        assert is_closed(victim)
    assert len(listed(killer)) == 1


def test_kill_spares_itself_unless_told_otherwise(server):
    killer, victims = Link(server), [Link(server) for _ in range(3)]
    for victim in victims:
        victim.say("PING")
    assert killer.say(f"CLIENT KILL LADDR 127.0.0.1:{server.port}") == [":3"]
    assert all(is_closed(victim) for victim in victims)
    assert killer.say("CLIENT KILL USER default SKIPME yes") == [":0"]
    assert killer.say("CLIENT KILL USER default SKIPME no") == [":1"]
    assert is_closed(killer)


def test_a_killed_client_runs_nothing_more(server):
    killer, victim = Link(server), Link(server)
    number = victim.ask("CLIENT", "ID")[1]
    victim.send([[b"BLPOP", b"k", b"0"], [b"SET", b"after", b"1"]])
    killer.wait_for_blocked()
    assert killer.say(f"CLIENT KILL ID {number}", "RPUSH k v") == [":1", ":1"]
    assert is_closed(victim)
    assert killer.say("LLEN k", "EXISTS after") == [":1", ":0"]


def test_what_stands_behind_a_kill_of_oneself_is_not_run(both):
    for peer in both:
        link = Link(peer)
        number = link.ask("CLIENT", "ID")[1]
        link.send([(b"CLIENT KILL ID %d SKIPME no" % number).split(), [b"SET", b"a", b"1"]])
        assert link.hear() == ":1" and is_closed(link)
        assert Link(peer).say("EXISTS a") == [":0"]


# ---- PAUSE ----

def test_a_pause_of_writes_lets_reads_through(server):
    control, writer, reader = Link(server), Link(server), Link(server)
    control.say("SET k old", "CLIENT PAUSE 600000 WRITE")
    writer.send([[b"SET", b"k", b"new"], [b"GET", b"k"]])
    wait_until(lambda: [one["cmd"] for one in listed(control)].count("set") == 1)
    assert reader.say("GET k", "MULTI", "GET k", "EXEC") == ["old", "+OK", "+QUEUED", "[old]"]
    assert control.say("CLIENT UNPAUSE") == ["+OK"]
    assert [writer.hear(), writer.hear()] == ["+OK", "new"]


def test_nothing_expires_by_itself_during_a_pause(server):
    control = server.client()
    with control.pipeline() as pipe:
        pipe.set("short", 1, px=1).execute_command("CLIENT", "PAUSE", "600000", "WRITE")
        pipe.execute()
    until = control.time()[0] + 2  # the sweep sleeps a second at most
    wait_until(lambda: control.time()[0] > until)
    assert control.get("short") is None
    assert control.dbsize() == 1 and control.info("stats")["expired_keys"] == 0
    control.client_unpause()
    wait_until(lambda: control.dbsize() == 0)



@pytest.mark.parametrize("lines", ["SET k v", "PUBLISH c m", "MULTI|INCR k|EXEC", "BLPOP k 0.001",
                                   "FLUSHALL", "DEL k"])
def test_a_pause_of_writes_holds_what_may_write(server, lines):
    control, writer = Link(server), Link(server)
    control.say("CLIENT PAUSE 600000 WRITE")
    last = lines.split("|")[-1].split()[0].lower()
    writer.send([line.encode().split() for line in lines.split("|")])
    wait_until(lambda: [one["cmd"] for one in listed(control)].count(last) == 1)
    assert control.say("EXISTS k") == [":0"]
    control.say("CLIENT UNPAUSE")
    replies = [writer.hear() for _ in lines.split("|")]
    assert not any(reply.startswith("-") for reply in replies), replies


def test_a_pause_of_everything_holds_reads_and_ends_by_itself(server):
    control, reader = Link(server), Link(server)
    control.say("SET k v", "CLIENT PAUSE 50 ALL")
    assert reader.say("GET k", "GET k") == ["v", "v"]


def test_the_longer_and_the_stricter_pause_holds(server):
    control, reader = Link(server), Link(server)
    control.say("CLIENT PAUSE 600000 WRITE", "CLIENT PAUSE 1 ALL")
    reader.send([[b"GET", b"k"]])
    assert control.say("CLIENT UNPAUSE") == ["+OK"]
    assert reader.hear() == "(nil)"


def test_who_is_held_by_a_pause_counts_as_blocked(both):
    told = []
    for peer in both:
        control, writer = Link(peer), Link(peer)
        number = writer.ask("CLIENT", "ID")[1]
        control.say("CLIENT PAUSE 600000 WRITE")
        writer.send([[b"SET", b"k", b"v"]])
        control.wait_for_blocked()
        one = listed(control, "ID", number)[0]
        control.say("CLIENT UNPAUSE")
        assert writer.hear() == "+OK"
        control.wait_for_blocked(0)
        told.append((one["flags"], one["cmd"], listed(control, "ID", number)[0]["flags"]))
    assert told[0] == told[1] == ("b", "set", "N")


def test_a_pause_of_everything_holds_client_pause(server):
    """If it had run, the end of the first pause would have been its end too."""
    link, control, writer = Link(server), Link(server), Link(server)
    link.send([line.encode().split() for line in ("CLIENT PAUSE 600000 ALL", "CLIENT PAUSE 600000 WRITE")])
    assert link.hear() == "+OK"
    assert control.say("CLIENT UNPAUSE") == ["+OK"]
    assert link.hear() == "+OK"
    writer.send([[b"SET", b"k", b"v"]])
    control.wait_for_blocked()
    control.say("CLIENT UNPAUSE")
    assert writer.hear() == "+OK"


def test_the_server_ends_at_once_while_clients_are_held_by_a_pause(server):
    control, writer = Link(server), Link(server)
    control.say("CLIENT PAUSE 600000 WRITE")
    writer.send([[b"SET", b"k", b"v"]])
    control.wait_for_blocked()
    assert server.stop() == 0
    assert "closed before their replies were taken" not in server.stderr()


def test_a_paused_client_that_leaves_writes_nothing(server):
    control, writer, leaving = Link(server), Link(server), Link(server)
    control.say("CLIENT PAUSE 600000 WRITE")
    number = writer.ask("CLIENT", "ID")[1]
    for link in (writer, leaving):
        link.send([[b"SET", b"k", b"v"]])
    control.wait_for_blocked(2)
    leaving.close()
    control.wait_for_blocked(1)
    assert control.say(f"CLIENT KILL ID {number}") == [":1"]
    assert is_closed(writer)
    assert control.say("CLIENT UNPAUSE", "EXISTS k") == ["+OK", ":0"]


# ---- REPLY ----

@pytest.mark.parametrize("lines", [
    "CLIENT REPLY OFF|PING|NOSUCH|GET|CLIENT REPLY ON|ECHO end",
    "CLIENT REPLY SKIP|PING|ECHO end",
    "CLIENT REPLY SKIP|CLIENT REPLY SKIP|PING|ECHO end",
    "CLIENT REPLY SKIP|CLIENT REPLY ON|PING|ECHO end",
    "CLIENT REPLY SKIP|CLIENT REPLY nope|PING|ECHO end",
    "CLIENT REPLY SKIP|NOSUCH|ECHO end",
    "CLIENT REPLY SKIP|BLPOP none 0.001|ECHO end",
    "CLIENT REPLY OFF|BLPOP none 0.001|CLIENT REPLY ON|ECHO end",
    "CLIENT REPLY OFF|CLIENT REPLY SKIP|PING|CLIENT REPLY ON|ECHO end",
    "CLIENT REPLY OFF|MULTI|SET a 1|EXEC|CLIENT REPLY ON|GET a|ECHO end",
    "CLIENT REPLY SKIP|MULTI|PING|EXEC|ECHO end",
    "CLIENT REPLY OFF|RESET|ECHO end",
    "CLIENT REPLY ON|PING|ECHO end",
])
def test_replies_are_left_out_as_redis_leaves_them_out(both, lines):
    heard = []
    for peer in both:
        link = Link(peer)
        link.send([line.encode().split() for line in lines.split("|")])
        heard.append([])
        while heard[-1][-1:] != ["end"]:
            heard[-1].append(link.hear())
    assert heard[0] == heard[1]


def test_commands_without_replies_have_run_when_the_next_reply_comes(server):
    link = Link(server)
    link.say("SET cold 1", "DEBUG RELOAD")
    link.send([[b"CLIENT", b"REPLY", b"OFF"], [b"INCR", b"cold"], *1000 * [[b"INCR", b"n"]],
               [b"CLIENT", b"REPLY", b"ON"], [b"MGET", b"cold", b"n"]])
    assert [link.hear(), link.hear()] == ["+OK", "[2, 1000]"]


# ---- UNBLOCK ----

@pytest.mark.parametrize("line", ["BLPOP k 0", "BRPOP k k2 0", "BLMOVE k d LEFT LEFT 0",
                                  "BRPOPLPUSH k d 0", "BLMPOP 0 1 k LEFT", "BZPOPMIN k 0",
                                  "BZPOPMAX k 0", "BZMPOP 0 1 k MIN"])
@pytest.mark.parametrize("how", ["", "TIMEOUT", "ERROR", "timeout"])
def test_an_unblocked_client_hears_what_redis_says(both, line, how):
    heard = []
    for peer in both:
        link, control = Link(peer), Link(peer)
        number = link.ask("CLIENT", "ID")[1]
        link.send([line.encode().split(), [b"PING"]])
        control.wait_for_blocked()
        assert control.say(f"CLIENT UNBLOCK {number} {how}", f"CLIENT UNBLOCK {number}") == [
            ":1", ":0"]
        heard.append([link.hear(), link.hear()])
        assert control.say("RPUSH k v", "DEL k") == [":1", ":1"]  # nobody waits any more
    assert heard[0] == heard[1]


# ---- HELLO, RESET, AUTH ----

def test_hello_switches_the_protocol_both_ways_and_tells_what_redis_tells(both):
    told = []
    for peer in both:
        link = Link(peer)
        replies = link.say("HELLO", "HELLO 3", "HELLO", "HGETALL none", "HELLO 2", "HGETALL none",
                           "HELLO 3 SETNAME me", "CLIENT GETNAME")
        told.append([re.sub(r"id, :\d+", "id", reply) for reply in replies])
    assert told[0] == told[1]


def test_hello_that_fails_leaves_the_protocol(both):
    for peer in both:
        assert Link(peer).say("HELLO 3 AUTH default", "HELLO 4", "HGETALL none")[2] == "[]"


def test_reset_forgets_everything_about_a_client(both):
    told = []
    for peer in both:
        link = Link(peer, 3)
        link.say("CLIENT SETNAME me", "SELECT 3", "WATCH a", "SUBSCRIBE c", "CLIENT NO-EVICT ON",
                 "MULTI", "SET a 1")
        assert link.say("RESET") == ["+RESET"]
        one = fields(link.text("CLIENT", "INFO"))
        told.append({name: one[name] for name in "name db sub multi resp flags".split()})
        assert link.say("EXEC") == ["-ERR EXEC without MULTI"]
    assert told[0] == told[1]


@pytest.fixture
def locked(start):
    """Both servers with a password."""
    oracle = Oracle("--requirepass", "secret")
    yield start("--requirepass", "secret"), oracle
    oracle.stop()


@pytest.mark.parametrize("lines", [
    "PING|GET a|SET a 1|MULTI|CLIENT ID|INFO|SUBSCRIBE a|NOSUCH|GET|COMMAND",
    "AUTH wrong|AUTH default wrong|AUTH nobody secret|AUTH secret|PING",
    "AUTH default secret|PING",
    "HELLO|HELLO 3|HELLO 2 AUTH default wrong|HELLO 2 AUTH nobody secret|PING",
    "HELLO 3 SETNAME me|AUTH secret|CLIENT GETNAME",
    "RESET|AUTH secret|PING|RESET|PING",
    "AUTH secret|AUTH wrong|PING",
    "EXEC|DISCARD|WATCH a|UNWATCH|RESET",
    "AUTH secret|MULTI|AUTH wrong|AUTH secret|PING|EXEC",
    "QUIT",
])
def test_before_auth_little_is_allowed_and_it_is_told_as_redis_tells_it(locked, lines):
    ours, theirs = (Link(peer).say(*lines.split("|")) for peer in locked)
    assert ours == theirs


def test_hello_with_auth_logs_in(locked):
    for peer in locked:
        assert Link(peer).say("HELLO 3 AUTH default secret SETNAME me", "CLIENT GETNAME")[1] == "me"


@pytest.mark.parametrize("again", [False, True])
def test_before_auth_requests_are_small(locked, again):
    """Also of a client that was logged in and said RESET."""
    for peer in locked:
        for request in (b"*11\r\n", b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"):
            link = Link(peer)
            if again:
                assert link.say("AUTH secret", "RESET") == ["+OK", "+RESET"]
            link.socket.sendall(request)
            assert link.hear().startswith("-ERR Protocol error: unauthenticated")
            assert is_closed(link)


def test_a_password_can_be_set_and_taken_away_at_run_time(both):
    replies = []
    for peer in both:
        old = Link(peer)
        said = old.say("CONFIG SET requirepass secret", "PING")  # who was in stays in
        new = Link(peer)
        said += new.say("PING", "AUTH secret", "PING", "CONFIG GET requirepass")
        waiting, other = Link(peer), Link(peer)
        said += waiting.say("PING") + other.say("PING")
        said += old.say("CONFIG SET requirepass other", "PING", "CONFIG SET requirepass ''")
        said += waiting.say("PING", "AUTH x", "GET a", "HELLO 2")[:3] + other.say("HELLO 3", "PING")[1:]
        said += Link(peer).say("PING")
        replies.append(said)
    assert replies[0] == replies[1]


def test_a_password_may_hold_any_byte(both, start, tmp_path):
    password, shorter = b"\0a\0\xff b\n\0", b"\0a\0\xff b\n"
    said = []
    for peer in both:
        link = Link(peer)
        replies = [link.ask(*args) for args in (
            ("CONFIG", "SET", "requirepass", password), ("AUTH", shorter), ("AUTH", b""), ("AUTH", password),
            ("CONFIG", "GET", "requirepass"), ("CONFIG", "SET", "masterauth", password), ("CONFIG", "GET", "masterauth"))]
        said.append(replies)
        assert Link(peer).ask("GET", "k")[1].startswith(b"NOAUTH")
        assert link.ask("CONFIG", "SET", "requirepass", "", "masterauth", "") == ("+", b"OK")
    assert said[0] == said[1]
    path = tmp_path / "terrace.conf"
    path.write_text("timeout 0\n")
    link = Link(start(file=path, name="file"))
    link.ask("CONFIG", "SET", "requirepass", password)
    assert link.ask("CONFIG", "REWRITE") == ("+", b"OK")
    again = Link(start(file=path, name="again"))
    assert [again.ask("AUTH", shorter)[0], again.ask("AUTH", password)] == ["-", ("+", b"OK")]


def test_a_password_is_shown_neither_by_slowlog_nor_by_monitor(both):
    told = []
    for peer in both:
        link, monitor = Link(peer), Link(peer)
        link.say("CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET")
        monitor.say("MONITOR")
        link.say("AUTH default hidden", "HELLO 2 AUTH default hidden SETNAME me", "AUTH hidden",
                 "CONFIG SET slowlog-max-len 128 requirepass ''", "CONFIG SET masterauth hidden", "ECHO end")
        heard = []
        while not heard or '"end"' not in heard[-1]:
            heard.append(monitor.hear())
        slow = link.say("SLOWLOG GET 100")[0]
        assert "hidden" not in slow and "hidden" not in str(heard)
        told.append([re.sub(r"^\S+ \[.*?\] ", "", one) for one in heard])
        link.say("CONFIG SET slowlog-log-slower-than 10000", "SLOWLOG RESET")
    assert told[0] == told[1]
