# SPDX-License-Identifier: Apache-2.0
"""Sorted sets. Random sequences against Redis itself: python3 -m tests.wire.diff --only zset."""
import threading

import pytest
import redis

from raw import Raw
from waiting import wait_until

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def error(call, *args):
    """What the server says against it; the client drops "ERR"."""
    with pytest.raises(redis.ResponseError) as caught:
        call(*args)
    return str(caught.value)


def runner(client):
    def execute(line, *more):
        """Words with spaces between; replies as they came, without what a client makes of them."""
        connection = client.connection_pool.get_connection("_")
        try:
            connection.send_command(*line.split(" "), *more)
            return connection.read_response()
        finally:
            client.connection_pool.release(connection)

    return execute


@pytest.fixture
def do(server):
    return runner(server.client(decode_responses=True))


def content(do, key="z"):
    return " ".join(do(f"ZRANGE {key} 0 -1 WITHSCORES"))


def test_zadd_counts_what_its_options_say(do):
    assert do("ZADD z 1 a 2 b") == 2
    assert do("ZADD z 3 b 4 c") == 1
    assert do("ZADD z CH 5 b 6 d") == 2
    assert do("ZADD z NX 9 a 9 e") == 1
    assert do("ZADD z XX CH 9 f 2 a") == 1
    assert do("ZADD z GT CH 1 a 7 d") == 1
    assert do("ZADD z LT CH 1 a 8 d") == 1
    assert content(do) == "a 1 c 4 b 5 d 7 e 9"
    assert do("ZADD none XX 1 a") == 0 and do("EXISTS none") == 0


def test_zadd_incr_answers_the_score(do):
    assert do("ZADD z INCR 1.5 a") == "1.5"
    assert do("ZADD z INCR 2 a") == "3.5"
    assert do("ZADD z NX INCR 2 a") is None
    assert do("ZADD z XX INCR 2 b") is None
    assert do("ZADD z GT INCR -1 a") is None
    assert do("ZINCRBY z -0.5 a") == "3"
    assert do("ZINCRBY z inf a") == "inf"
    assert error(do, "ZINCRBY z -inf a") == "resulting score is not a number (NaN)"
    assert do("ZSCORE z a") == "inf"


def test_zadd_refuses_in_the_order_of_redis(do):
    do("SET s x")
    assert error(do, "ZADD z 1") == "wrong number of arguments for 'zadd' command"
    assert error(do, "ZADD z NX XX a 1 b") == "syntax error"
    assert error(do, "ZADD z NX XX x a") == "XX and NX options at the same time are not compatible"
    assert error(do, "ZADD z GT LT x a") == (
        "GT, LT, and/or NX options at the same time are not compatible")
    assert error(do, "ZADD z INCR 1 a 2 b") == (
        "INCR option supports a single increment-element pair")
    assert error(do, "ZADD s 1 a nan b") == "value is not a valid float"
    assert error(do, "ZADD s 1 a") == WRONGTYPE
    assert do("EXISTS z") == 0


def test_members_hold_every_byte(server):
    client = server.client()
    every = {bytes([byte]) * 3: byte for byte in range(256)} | {b"": -1, bytes(range(256)) * 9: 999}
    client.zadd("z", every)
    assert dict(client.zrange("z", 0, -1, withscores=True)) == every
    assert client.zrange("z", 0, 1) == [b"", b"\0\0\0"]


def test_scores_ranks_and_removals(do):
    do("ZADD z 1 a 2 b 3 c")
    assert do("ZCARD z") == 3 and do("ZCARD none") == 0
    assert do("ZSCORE z b") == "2" and do("ZSCORE z x") is None and do("ZSCORE none x") is None
    assert do("ZMSCORE z a x c") == ["1", None, "3"] and do("ZMSCORE none a") == [None]
    assert do("ZRANK z c") == 2 and do("ZREVRANK z c") == 0
    assert do("ZRANK z x") is None and do("ZREVRANK none x") is None
    assert do("ZREM z a x c") == 2 and do("ZREM none a") == 0
    assert do("ZREM z b a") == 1 and do("EXISTS z") == 0


def test_zrange_by_rank(do):
    do("ZADD z 1 a 2 b 3 c 4 d")
    assert do("ZRANGE z 1 2") == ["b", "c"]
    assert do("ZRANGE z -2 -1 WITHSCORES") == ["c", "3", "d", "4"]
    assert do("ZRANGE z 0 1 REV") == ["d", "c"] == do("ZREVRANGE z 0 1")
    assert do("ZRANGE z 2 1") == [] == do("ZRANGE z 9 10") == do("ZRANGE none 0 -1")
    assert do("ZRANGE z -100 100 WITHSCORES").count("a") == 1
    assert error(do, "ZRANGE z a 1") == "value is not an integer or out of range"
    assert error(do, "ZRANGE z 0 1 LIMIT 0 1") == (
        "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
    assert error(do, "ZREVRANGE z 0 1 REV") == "syntax error"


def test_zrange_by_score(do):
    do("ZADD z 1 a 2 b 3 c 4 d")
    assert do("ZRANGEBYSCORE z (1 3") == ["b", "c"]
    assert do("ZRANGEBYSCORE z -inf +inf LIMIT 1 2") == ["b", "c"]
    assert do("ZRANGEBYSCORE z -inf +inf LIMIT 1 -1") == ["b", "c", "d"]
    assert do("ZRANGEBYSCORE z -inf +inf LIMIT -1 2") == []
    assert do("ZREVRANGEBYSCORE z (4 2 WITHSCORES") == ["c", "3", "b", "2"]
    assert do("ZRANGE z 4 (1 BYSCORE REV LIMIT 1 1") == ["c"]
    assert do("ZCOUNT z (1 (4") == 2 and do("ZCOUNT z 5 1") == 0 and do("ZCOUNT none 1 2") == 0
    assert error(do, "ZRANGEBYSCORE z x 1") == "min or max is not a float"
    assert error(do, "ZCOUNT z 1 nan") == "min or max is not a float"


def test_zrange_by_lex(do):
    do("ZADD z 0 a 0 b 0 ba 0 c")
    assert do("ZRANGEBYLEX z [b (c") == ["b", "ba"]
    assert do("ZRANGEBYLEX z - + LIMIT 1 2") == ["b", "ba"]
    assert do("ZREVRANGEBYLEX z + (a") == ["c", "ba", "b"]
    assert do("ZRANGE z + - BYLEX REV LIMIT 0 1") == ["c"]
    assert do("ZLEXCOUNT z - +") == 4 and do("ZLEXCOUNT z (b [c") == 2
    assert do("ZLEXCOUNT z + -") == 0
    assert error(do, "ZRANGEBYLEX z a b") == "min or max not valid string range item"
    assert error(do, "ZRANGE z - + BYLEX WITHSCORES") == (
        "syntax error, WITHSCORES not supported in combination with BYLEX")


def test_ranges_are_removed(do):
    do("ZADD z 0 a 0 b 0 c 5 d 6 e 7 f")
    assert do("ZREMRANGEBYLEX z [a (b") == 1
    assert do("ZREMRANGEBYSCORE z (5 6") == 1
    assert do("ZREMRANGEBYRANK z -1 -1") == 1
    assert content(do) == "b 0 c 0 d 5"
    assert do("ZREMRANGEBYSCORE z 8 9") == 0 and do("ZREMRANGEBYRANK z 5 9") == 0
    assert do("ZREMRANGEBYRANK z 0 -1") == 3 and do("EXISTS z") == 0
    assert do("ZREMRANGEBYRANK z 0 -1") == 0


def test_zrangestore_replaces_its_destination(do):
    do("ZADD z 1 a 2 b 3 c")
    do("SET dst x EX 100")
    assert do("ZRANGESTORE dst z 1 -1") == 2
    assert content(do, "dst") == "b 2 c 3" and do("TTL dst") == -1
    assert do("ZRANGESTORE z z (1 2 BYSCORE") == 1 and content(do) == "b 2"
    assert do("ZRANGESTORE dst none 0 -1") == 0 and do("EXISTS dst") == 0
    assert error(do, "ZRANGESTORE dst z 0 -1 WITHSCORES") == "syntax error"


def test_pops_take_from_either_end(do):
    do("ZADD z 1 a 2 b 3 c 4 d")
    assert do("ZPOPMIN z") == ["a", "1"] and do("ZPOPMAX z 2") == ["d", "4", "c", "3"]
    assert do("ZPOPMIN z 0") == [] and do("ZPOPMIN none") == []
    assert do("ZPOPMIN z 5") == ["b", "2"] and do("EXISTS z") == 0
    assert error(do, "ZPOPMIN z -1") == "value is out of range, must be positive"
    assert error(do, "ZPOPMIN z 1 2") == "syntax error"


def test_zmpop_takes_from_the_first_set_that_is_there(do):
    do("ZADD z 1 a 2 b 3 c")
    do("SET s x")
    assert do("ZMPOP 2 none z MIN") == ["z", [["a", "1"]]]
    assert do("ZMPOP 1 z MAX COUNT 5") == ["z", [["c", "3"], ["b", "2"]]]
    assert do("ZMPOP 1 z MAX") is None
    assert error(do, "ZMPOP 2 s z MIN") == WRONGTYPE
    assert error(do, "ZMPOP 0 z MIN") == "numkeys should be greater than 0"
    assert error(do, "ZMPOP 1 z MID") == "syntax error"
    assert error(do, "ZMPOP 1 z MIN COUNT 0") == "count should be greater than 0"


def test_blocked_pops_wait_for_a_member(server, do):
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(runner(server.client(decode_responses=True))(
            "BZPOPMIN none z 100")))
    waiting.start()
    wait_until(lambda: "blocked_clients:1" in do("INFO clients"))
    do("LPUSH none x")  # another type does not end the waiting
    do("ZADD z 2 b 1 a")
    waiting.join()
    assert answers == [["z", "a", "1"]] and content(do) == "b 2"
    do("DEL none")
    assert do("BZPOPMAX none z 100") == ["z", "b", "2"]
    assert do("BZMPOP 0.01 1 z MIN") is None and do("BZPOPMIN z 0.01") is None
    assert error(do, "BZPOPMIN z -1") == "timeout is negative"
    assert error(do, "BZMPOP x 1 z MIN") == "timeout is not a float or out of range"


def test_combinations_of_sets_and_sorted_sets(do):
    do("ZADD a 1 x 2 y 3 z")
    do("ZADD b 20 y 10 z")
    do("SADD s y w")
    assert do("ZUNION 2 a b WITHSCORES") == ["x", "1", "z", "13", "y", "22"]
    assert do("ZUNION 2 a b WEIGHTS 10 -1 AGGREGATE MIN WITHSCORES") == [
        "y", "-20", "z", "-10", "x", "10"]
    assert do("ZINTER 3 a b s WITHSCORES") == ["y", "23"]
    assert do("ZDIFF 2 a s WITHSCORES") == ["x", "1", "z", "3"]
    assert do("ZINTERCARD 2 a b") == 2 and do("ZINTERCARD 2 a b LIMIT 1") == 1
    assert do("ZUNIONSTORE a 2 a s AGGREGATE MAX") == 4 and content(do, "a") == "w 1 x 1 y 2 z 3"
    assert do("ZINTERSTORE d 2 a b WEIGHTS 0 1") == 2 and content(do, "d") == "z 10 y 20"
    assert do("ZDIFFSTORE d 2 a a") == 0 and do("EXISTS d") == 0


def test_combinations_are_refused_in_the_order_of_redis(do):
    do("SET str x")
    assert error(do, "ZUNION 0 a") == "at least 1 input key is needed for 'zunion' command"
    assert error(do, "ZUNION x a") == "value is not an integer or out of range"
    assert error(do, "ZUNIONSTORE d 2 a") == "syntax error"
    assert error(do, "ZUNION 1 str FOO") == WRONGTYPE
    assert error(do, "ZUNION 1 a WEIGHTS x") == "weight value is not a float"
    assert error(do, "ZUNION 1 a AGGREGATE AVG") == "syntax error"
    assert error(do, "ZDIFF 1 a WEIGHTS 1") == "syntax error"
    assert error(do, "ZINTERCARD 1 a LIMIT -1") == "LIMIT can't be negative"
    assert error(do, "ZUNIONSTORE d 1 a WITHSCORES") == "syntax error"


def test_zrandmember_gives_members(do):
    do("ZADD z 1 a 2 b 3 c")
    scores = {"a": "1", "b": "2", "c": "3"}
    assert do("ZRANDMEMBER z") in scores and do("ZRANDMEMBER none") is None
    assert sorted(do("ZRANDMEMBER z 9")) == ["a", "b", "c"]
    assert len(set(do("ZRANDMEMBER z 2"))) == 2 and len(do("ZRANDMEMBER z -9")) == 9
    pairs = do("ZRANDMEMBER z 2 WITHSCORES")
    assert all(scores[member] == score for member, score in zip(pairs[::2], pairs[1::2]))
    assert do("ZRANDMEMBER z 0") == [] == do("ZRANDMEMBER none 5")
    assert error(do, "ZRANDMEMBER z 1 SCORES") == "syntax error"
    assert error(do, f"ZRANDMEMBER z {2**62} WITHSCORES") == "value is out of range"


def test_resp3_has_doubles_and_pairs(server):
    raw = Raw(server, proto=3)
    raw.say("ZADD z 0.5 a 2 b", ":2")
    raw.say("ZSCORE z a", ",0.5")
    raw.say("ZSCORE z x", "_")
    raw.say("ZINCRBY z 1 b", ",3")
    raw.say("ZRANGE z 0 -1", "*2", "a", "b")
    raw.say("ZRANGE z 0 -1 WITHSCORES", "*2", "*2", "a", ",0.5", "*2", "b", ",3")
    raw.say("ZUNION 1 z WITHSCORES", "*2", "*2", "a", ",0.5", "*2", "b", ",3")
    raw.say("ZRANDMEMBER z 5 WITHSCORES", "*2", "*2", "a", ",0.5", "*2", "b", ",3")
    raw.say("ZSCAN z 0", "*2", "0", "*4", "a", "0.5", "b", "3")
    raw.say("ZPOPMIN z", "*2", "a", ",0.5")
    raw.say("ZPOPMIN z 1", "*1", "*2", "b", ",3")
    raw.say("ZADD z 1 a 2 b", ":2")
    raw.say("BZPOPMAX z 0", "*3", "z", "b", ",2")
    raw.say("ZMPOP 1 z MIN", "*2", "z", "*1", "*2", "a", ",1")
    raw.say("ZMPOP 1 z MIN", "_")


def test_zscan_meets_every_member(do):
    assert do("ZSCAN none 0 FOO") == ["0", []]
    do("ZADD z 2 b 1 a")
    assert do("ZSCAN z 0 COUNT 1") == ["0", ["a", "1", "b", "2"]]
    assert do("ZSCAN z 0 MATCH b*") == ["0", ["b", "2"]]
    do("ZADD z " + " ".join(f"{i} m{i}" for i in range(1000)))
    cursor, seen = "0", []
    while True:
        cursor, page = do(f"ZSCAN z {cursor} COUNT 37")
        assert len(page) <= 2 * 37
        seen += page[::2]
        do(f"ZADD z {-len(seen)} m500")  # a score that changes hides nobody
        if cursor == "0":
            break
    assert sorted(seen) == sorted(["a", "b"] + [f"m{i}" for i in range(1000)])
    assert error(do, "ZSCAN z x") == "invalid cursor"
    assert error(do, "ZSCAN z 0 COUNT 0") == "syntax error"


def test_a_pipeline_of_pops_takes_the_elements_in_order(server):
    """What the next pops will need is looked at before they run: nothing of that is an answer."""
    client = server.client()
    client.zadd("z", {f"m{i:04}": i for i in range(2000)})
    client.zadd("long", {"x" * 100: 1, "y": 2})
    client.hset("h", "f", "v")
    pipe = client.pipeline(transaction=False)
    for i in range(400):
        pipe.zpopmin("z")
        pipe.zpopmax("z")
        pipe.zpopmin("z")
    for line in (["ZPOPMIN"], ["ZPOPMIN", "h"], ["ZPOPMIN", "none"], ["ZPOPMIN", "long"], ["ZPOPMIN", "long"],
                 ["ZPOPMIN", "long"], ["ZPOPMIN", "z", "0"], ["ZPOPMIN", "z", "2"]):
        pipe.execute_command(*line)
    replies = pipe.execute(raise_on_error=False)
    low = [pair[0] for reply in zip(replies[0:1200:3], replies[2:1200:3]) for pair in reply]
    assert low == [(b"m%04d" % i, float(i)) for i in range(800)]
    assert [reply[0] for reply in replies[1:1200:3]] == [(b"m%04d" % i, float(i)) for i in range(1999, 1599, -1)]
    assert "wrong number of arguments" in str(replies[1200]) and str(replies[1201]) == WRONGTYPE
    assert replies[1202:1207] == [[], [b"x" * 100, b"1"], [b"y", b"2"], [], []]
    assert replies[1207] == [b"m0800", b"800", b"m0801", b"801"]
    assert client.zcard("z") == 798


def test_encodings_are_those_of_redis(do):
    do("ZADD z 1 a")
    assert do("TYPE z") == "zset" and do("OBJECT ENCODING z") == "listpack"
    do("ZADD z 1 " + "x" * 65)
    assert do("OBJECT ENCODING z") == "skiplist"


def test_events_are_those_of_redis(server, do):
    do("CONFIG SET notify-keyspace-events KEA")
    listener = server.client(decode_responses=True).pubsub()
    listener.psubscribe("__keyevent@0__:*")
    assert listener.get_message(timeout=100)["type"] == "psubscribe"
    for line in ("ZADD z 1 a 2 b 3 c 4 d", "ZADD z 1 a", "ZADD z XX 5 a", "ZINCRBY z 1 a",
                 "ZREM z a x", "ZPOPMIN z", "ZREMRANGEBYSCORE z 4 4", "ZUNIONSTORE d 1 z",
                 "ZRANGESTORE d z 0 -1", "ZPOPMAX z", "ZINTERSTORE d 1 none"):
        do(line)
    names = [listener.get_message(timeout=100)["channel"].split(":", 1)[1] for _ in range(11)]
    assert names == ["zadd", "zadd", "zincr", "zrem", "zpopmin", "zremrangebyscore", "zunionstore",
                     "zrangestore", "zpopmax", "del", "del"]


def test_a_set_outlives_a_restart(server, do):
    do("ZADD z " + " ".join(f"{i / 8} m{i}" for i in range(300)))
    before = content(do)
    do("DEBUG RELOAD")
    assert content(do) == before and do("ZRANK z m77") == 77
