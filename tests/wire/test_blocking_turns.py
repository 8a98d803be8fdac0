# SPDX-License-Identifier: Apache-2.0
"""Who waits for a key is served in the order of arrival, one after the other, and nobody runs for
nothing. What redis-server does with the same lines is the measure."""
import pytest

from talk import Link
from waiting import wait_until


class Crowd:
    """Blocked clients of one server, in order of arrival."""

    def __init__(self, server):
        self.control = Link(server)
        self.server = server
        self.waiting = []

    def block(self, *lines):
        for line in lines:
            link = Link(self.server)
            link.send([line.encode().split()])
            self.waiting.append(link)
            self.control.wait_for_blocked(len(self.waiting))
        return self

    def settle(self, is_ours):
        look = Link(self.server)
        wait_until(lambda: not is_ours or "loads_in_flight:0" in look.text("INFO", "tiers"))

    def heard(self):
        """What each has heard by now; what is not served is unblocked, and says so."""
        ids = [line.split()[0][3:] for line in self.control.text("CLIENT", "LIST").splitlines()
               if " flags=b " in line]
        self.control.say(*[f"CLIENT UNBLOCK {one}" for one in ids])
        return [link.hear() for link in self.waiting]

    def runs(self):
        return int(self.control.text("INFO", "clients").split("blocked_clients_runs:")[1].split()[0])


LISTS = ["BLPOP k 0", "BRPOP k 0", "BLMOVE k d LEFT RIGHT 0", "BLMPOP 0 1 k LEFT COUNT 2", "BLPOP k 0"]
CASES = [
    (LISTS, ["RPUSH k a"]),
    (LISTS, ["RPUSH k a b c"]),
    (LISTS, ["RPUSH k a b c d e f g"]),
    (LISTS, ["MULTI", "RPUSH k a", "RPUSH k b", "RPUSH k c", "EXEC"]),
    (LISTS, ["MULTI", "RPUSH k a", "DEL k", "RPUSH k b", "LPUSH k c", "EXEC"]),
    (LISTS, ["SET k x", "DEL k", "RPUSH k a b"]),
    # the key that was filled first serves, not the one that is named first
    (["BLPOP a b 0"], ["MULTI", "RPUSH b 1", "RPUSH a 2", "EXEC"]),
    (["BLPOP a b 0", "BLPOP a b 0"], ["MULTI", "RPUSH b 1", "RPUSH a 2", "EXEC"]),
    (["BLPOP a b 0", "BLPOP a b 0", "BLPOP b a 0"],
     ["MULTI", "RPUSH b 1 2", "RPUSH a 3", "EXEC"]),
    # (no cold rows here: while the first one loads the second may take from the other key)
    (["BLPOP b 0", "BLPOP a b 0", "BLPOP a 0"], ["MULTI", "RPUSH b 1 2", "RPUSH a 3", "EXEC"]),
    (["BLPOP a a 0", "BLPOP a 0"], ["RPUSH a 1 2"]),
    (["BZPOPMIN a b 0", "BZPOPMAX b a 0"], ["MULTI", "ZADD b 1 x", "ZADD a 1 y 2 z", "EXEC"]),
    (["BZPOPMIN k 0", "BZMPOP 0 1 k MAX COUNT 2", "BZPOPMAX k 0"], ["ZADD k 1 a 2 b 3 c 4 d"]),
    # another type is nothing to who waits, and nothing in the way of others
    (["BLPOP k 0", "BZPOPMIN k 0", "BLPOP k 0"], ["ZADD k 1 a"]),
    (["BZPOPMIN k 0", "BLPOP k 0", "BZPOPMIN k 0"], ["RPUSH k a b"]),
    (["BZPOPMIN k 0", "BLPOP k 0"], ["RPUSH k a", "ZADD k 1 b"]),
    (["BLPOP k l 0", "BLPOP l 0"], ["SET k x", "RPUSH l a b"]),
    (["BLPOP k 0", "BZPOPMIN k 0"], ["RPUSH x a", "RENAME x k"]),
    (["BLPOP k 0", "BZPOPMIN k 0"], ["ZADD x 1 a", "RENAME x k"]),
    (["BLPOP k 0", "BZPOPMIN k 0"], ["RPUSH x b", "COPY x k"]),
    (["BLPOP k 0", "BLPOP k 0"], ["RPUSH x 2 1", "SORT x STORE k"]),
    (["BZPOPMIN k 0", "BZPOPMIN k 0"], ["ZADD x 1 a 2 b", "ZUNIONSTORE k 1 x"]),
    # chains
    (["BLMOVE a b LEFT RIGHT 0", "BLMOVE b c LEFT RIGHT 0", "BLPOP c 0"], ["RPUSH a x"]),
    (["BRPOPLPUSH a a 0", "BLPOP a 0"], ["RPUSH a x"]),
    (["BLMOVE a b LEFT RIGHT 0", "BLMOVE b a LEFT RIGHT 0", "BLPOP a 0"], ["RPUSH a x"]),
    (["BLMOVE k s LEFT RIGHT 0", "BLPOP k 0"], ["SET s x", "RPUSH k a b"]),
]


@pytest.mark.parametrize("blocked, lines", CASES, ids=lambda value: "|".join(value))
@pytest.mark.parametrize("cold", (0, 1, 2, 3, 5, 8))
def test_who_waits_is_served_as_redis_does(server, oracle, blocked, lines, cold):
    heard = []
    if cold and blocked == ["BLPOP b 0", "BLPOP a b 0", "BLPOP a 0"]:
        pytest.skip("nothing is promised across keys")
    for peer in (server, oracle):
        Link(peer).say("FLUSHALL")
        crowd = Crowd(peer).block(*blocked)
        if peer is server:
            crowd.control.say(f"DEBUG COLD-INJECT {cold}")
        for line in lines:  # what is pushed is there for others while the first one loads
            crowd.control.say(line)
            crowd.settle(peer is server)
        if peer is server:
            crowd.control.say("DEBUG COLD-INJECT 0")
        keys = crowd.control.say(*[f"TYPE {key}" for key in "abcdkls"], "LRANGE k 0 -1")
        heard.append((crowd.heard(), keys))
    assert heard[0] == heard[1]


def test_a_push_runs_one_of_a_thousand(start):
    crowd = Crowd(start("--maxclients", "2000"))
    for _ in range(1000):
        link = Link(crowd.server)
        link.send([b"BLPOP k other 0".split()])
        crowd.waiting.append(link)
        if len(crowd.waiting) % 100 == 0:
            crowd.control.wait_for_blocked(len(crowd.waiting))
    before = crowd.runs()
    assert crowd.control.say("RPUSH k a", "LLEN k") == [":1", ":0"]
    assert crowd.waiting[0].hear() == "[k, a]"
    assert crowd.runs() - before == 1
    crowd.control.say("RPUSH k " + " ".join(map(str, range(10))))
    assert [link.hear() for link in crowd.waiting[1:11]] == [f"[k, {i}]" for i in range(10)]
    assert crowd.runs() - before == 11
    crowd.control.say("SET k x", "DEL k", "ZADD k 1 m", "DEL k", "HSET k f v", "DEL k")
    assert crowd.runs() - before == 11


def cold_target(server):
    """A list that is on disk: a BLMOVE to it has to load."""
    Link(server).say("RPUSH cold 1", "DEBUG RELOAD")


def test_who_loads_keeps_its_place(server):
    for _ in range(20):
        cold_target(server)
        crowd = Crowd(server).block("BLMOVE k cold LEFT RIGHT 0", "BLPOP k 0", "BLPOP k 0")
        late = Link(server)
        crowd.control.send([b"RPUSH k a".split()])
        late.send([b"BLPOP k 0".split()])  # comes while the first loads, or after it
        crowd.control.hear()
        assert crowd.waiting[0].hear() == "a"
        crowd.control.say("RPUSH k b c d")
        assert [link.hear() for link in crowd.waiting[1:]] == ["[k, b]", "[k, c]"]
        assert late.hear() == "[k, d]"
        crowd.control.say("DEL cold")


@pytest.mark.parametrize("end", ("kill", "unblock", "close", "timeout"))
def test_who_goes_while_it_is_its_turn_gives_it_to_the_next(server, end):
    for _ in range(20):
        cold_target(server)
        first = Link(server)
        crowd = Crowd(server)
        name = crowd.control.say("DBSIZE") and first.say("CLIENT ID")[0][1:]
        first.send([f"BLMOVE k cold LEFT RIGHT {0.05 if end == 'timeout' else 0}".encode().split()])
        wait_until(lambda: "cmd=blmove" in crowd.control.text("CLIENT", "LIST", "ID", name))  # its time may be over by now
        second = Link(server)
        other = second.say("CLIENT ID")[0][1:]
        second.send([b"BLPOP k 0".split()])
        wait_until(lambda: " flags=b " in crowd.control.text("CLIENT", "LIST", "ID", other))
        lines = ["RPUSH k a"]
        if end == "kill":
            lines.append(f"CLIENT KILL ID {name}")
        elif end == "unblock":
            lines.append(f"CLIENT UNBLOCK {name}")
        elif end == "close":
            first.close()
        crowd.control.say(*lines)
        crowd.control.say("RPUSH k b")
        assert second.hear() in ("[k, a]", "[k, b]")
        crowd.control.say("DEL cold", "DEL k")


def test_a_pause_keeps_the_order(server):
    crowd = Crowd(server).block("BLPOP k 0", "BLPOP k 0")
    crowd.control.say("MULTI", "RPUSH k a b", "CLIENT PAUSE 200 ALL", "EXEC")
    assert [link.hear() for link in crowd.waiting] == ["[k, a]", "[k, b]"]


def test_who_waits_in_a_database_that_is_swapped_is_served(server, oracle):
    heard = []
    for peer in (server, oracle):
        Link(peer).say("FLUSHALL")
        crowd = Crowd(peer).block("BLPOP k 0", "BLPOP k 0", "BLPOP k 0")
        crowd.control.say("SELECT 1", "RPUSH k a b", "SWAPDB 0 1")
        heard.append(crowd.heard())
    assert heard[0] == heard[1]
